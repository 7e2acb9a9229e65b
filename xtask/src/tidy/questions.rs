//! `CONTRIBUTING.md` asks twelve questions, and `ARCHITECTURE.md` leads to the answer of each.
//!
//! ```text
//! | Where is a split decided? | `core/engine/src/background/split.rs` |
//! ```
//!
//! A row is a question if its first cell ends with a question mark. Each path of its second cell
//! exists and is reached from the map in at most two steps. A step goes from a document to the
//! target of a link, or to a path in backticks; a directory leads to its `README.md`.
//!
//! Leaves out: the content of the files, and paths in the headers of source files.

use std::collections::BTreeSet;

use super::documents::linked_path;
use super::markdown;
use super::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";
const PAGE: &str = "CONTRIBUTING.md";
const QUESTIONS: usize = 12;
const STEPS: usize = 2;

/// Returns the answers that are missing, do not exist or are too far from the map.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let reached = reached(tree);
    let mut found = Vec::new();
    let mut count = 0;
    for (number, line) in markdown::lines(tree.text(PAGE).unwrap_or_default()) {
        let Some(answer) = answer(line) else {
            continue;
        };
        count += 1;
        let at = format!("{PAGE}:{number}");
        let paths = paths(PAGE, answer);
        if paths.is_empty() {
            found.push(format!("{at}: the answer names no path"));
        }
        for path in paths {
            if !tree.has(&path) {
                found.push(format!("{at}: {path} does not exist"));
            } else if !reached.contains(&path) {
                found.push(format!(
                    "{at}: {MAP} does not lead to {path} in {STEPS} steps"
                ));
            }
        }
    }
    if count != QUESTIONS {
        found.push(format!("{PAGE}: has {count} questions, not {QUESTIONS}"));
    }
    found
}

/// Returns the second cell of a row whose first cell is a question.
fn answer(line: &str) -> Option<&str> {
    let mut cells = line.trim().strip_prefix('|')?.split('|');
    let question = cells.next()?.trim();
    question.ends_with('?').then(|| cells.next())?
}

/// Returns the files and directories that the map leads to, the map itself among them.
fn reached(tree: &Tree) -> BTreeSet<String> {
    let mut reached = BTreeSet::from([MAP.to_owned()]);
    let mut newest = vec![MAP.to_owned()];
    for _ in 0..STEPS {
        let mut next = Vec::new();
        for document in newest.iter().filter(|path| path.ends_with(".md")) {
            let text = tree.text(document).unwrap_or_default();
            for path in markdown::lines(text).flat_map(|(_, line)| paths(document, line)) {
                // A directory is reached together with its README.md, in one step.
                let readme = format!("{path}/README.md");
                for path in [path, readme] {
                    if tree.has(&path) && reached.insert(path.clone()) {
                        next.push(path);
                    }
                }
            }
        }
        newest = next;
    }
    reached
}

/// Returns the targets of the links of a line and its paths in backticks, without `/` at the end.
fn paths(document: &str, line: &str) -> Vec<String> {
    let linked = markdown::link_targets(line).filter_map(|target| linked_path(document, target));
    let quoted = markdown::quoted(line)
        .filter_map(|piece| piece.split(':').next())
        .filter(|piece| !piece.contains(' ') && (piece.contains('/') || piece.ends_with(".md")))
        .map(str::to_owned);
    linked
        .chain(quoted)
        .map(|path| path.trim_end_matches('/').to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Judges a page with the rows `rows` and as many more questions as are missing.
    fn judged(rows: &[&str]) -> Vec<String> {
        let mut page = String::from("| question | answer |\n|---|---|\n");
        for row in rows {
            page.push_str(&format!("{row}\n"));
        }
        for _ in rows.len()..QUESTIONS {
            page.push_str("| Is this the map? | [yes](ARCHITECTURE.md) |\n");
        }
        complaints(&Tree::of(&[
            (PAGE, &page),
            (
                MAP,
                "`core/sql/src/lib.rs`, [engine](core/engine/), `docs/`\n",
            ),
            ("core/sql/src/lib.rs", "//! `core/sql/src/far.rs`\n"),
            ("core/sql/src/far.rs", ""),
            (
                "core/engine/README.md",
                "[split](src/split.rs), `docs/a.md:3`\n",
            ),
            ("core/engine/src/split.rs", ""),
            ("docs/a.md", "[third](b.md)\n"),
            ("docs/b.md", ""),
        ]))
    }

    #[test]
    fn answers_within_two_steps_pass() {
        let rows = [
            "| Where is the language? | `core/sql/src/lib.rs` |",
            "| Where is a split? | `core/engine/src/split.rs`, [why](docs/a.md) |",
            "| What is the engine? | `core/engine/README.md` |",
            "| Where are the pages? | `docs/` |",
            "| no question | `docs/b.md` |",
        ];
        let found = judged(&rows);
        assert_eq!(found, ["CONTRIBUTING.md: has 11 questions, not 12"]);
    }

    #[test]
    fn an_answer_beyond_two_steps_is_a_complaint() {
        let far = "CONTRIBUTING.md:3: ARCHITECTURE.md does not lead to docs/b.md in 2 steps";
        assert_eq!(judged(&["| Where is b? | `docs/b.md` |"]), [far]);
        // The header of a source file is no step.
        assert_eq!(
            judged(&["| Where is far? | `core/sql/src/far.rs` |"]).len(),
            1
        );
    }

    #[test]
    fn an_answer_without_a_path_or_with_a_missing_one_is_a_complaint() {
        assert_eq!(
            judged(&["| Where? | `docs/c.md` |", "| Who? | the owner |"]),
            [
                "CONTRIBUTING.md:3: docs/c.md does not exist",
                "CONTRIBUTING.md:4: the answer names no path",
            ]
        );
    }

    #[test]
    fn the_number_of_questions_is_checked() {
        let found = complaints(&Tree::of(&[(PAGE, ""), (MAP, "")]));
        assert_eq!(found, ["CONTRIBUTING.md: has 0 questions, not 12"]);
    }
}
