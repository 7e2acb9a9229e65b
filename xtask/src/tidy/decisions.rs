//! `docs/decisions/README.md` is the index of the records of decisions.
//!
//! ```text
//! | [Title of the record](2026-11-a-name.md) | in force | one sentence |
//! ```
//!
//! Each other file of `docs/decisions/` is the target of exactly one link of the index, and each
//! link to a file beside the index has its file.
//!
//! Leaves out: the status and the sentence of a row, and links to other directories.

use super::markdown;
use super::tree::Tree;

const INDEX: &str = "docs/decisions/README.md";
const DIRECTORY: &str = "docs/decisions/";

/// Returns the records that are not linked exactly once, and the links without a record.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let index = tree.text(INDEX).unwrap_or_default();
    let links: Vec<(usize, &str)> = markdown::lines(index)
        .flat_map(|(number, line)| {
            markdown::link_targets(line).filter_map(move |target| Some((number, record(target)?)))
        })
        .collect();

    let mut found = Vec::new();
    for (path, _) in tree.ending(".md") {
        let Some(name) = path.strip_prefix(DIRECTORY) else {
            continue;
        };
        let count = links.iter().filter(|(_, link)| *link == name).count();
        if path != INDEX && count != 1 {
            found.push(format!("{INDEX}: links {count} times to {name}, not once"));
        }
    }
    for (number, name) in links {
        if !tree.has(&format!("{DIRECTORY}{name}")) {
            found.push(format!("{INDEX}:{number}: there is no record {name}"));
        }
    }
    found
}

/// Returns the name of the file beside the index that a link leads to; `None` for another link.
fn record(target: &str) -> Option<&str> {
    let name = target.split('#').next()?;
    (name.ends_with(".md") && !name.contains('/')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(index: &str) -> Vec<String> {
        complaints(&Tree::of(&[
            (INDEX, index),
            ("docs/decisions/2026-11-a.md", "see [b](2026-11-b.md)"),
            ("docs/decisions/2026-11-b.md", ""),
            ("docs/testing.md", ""),
        ]))
    }

    #[test]
    fn an_index_with_one_link_for_each_record_passes() {
        let index = "| [A](2026-11-a.md) | in force |\n| [B](2026-11-b.md#choice) | superseded |\n\
                     [tests](../testing.md), [site](https://example.org/c.md), [top](#top)\n";
        assert_eq!(judged(index), Vec::<String>::new());
    }

    #[test]
    fn a_record_without_a_link_or_with_two_is_a_complaint() {
        let index = "[A](2026-11-a.md)\n[A again](2026-11-a.md)\n";
        assert_eq!(
            judged(index),
            [
                "docs/decisions/README.md: links 2 times to 2026-11-a.md, not once",
                "docs/decisions/README.md: links 0 times to 2026-11-b.md, not once",
            ]
        );
    }

    #[test]
    fn a_link_without_a_record_is_a_complaint() {
        let index = "[A](2026-11-a.md)\n[B](2026-11-b.md)\n[C](2026-11-c.md)\n";
        assert_eq!(
            judged(index),
            ["docs/decisions/README.md:3: there is no record 2026-11-c.md"]
        );
    }

    #[test]
    fn records_without_an_index_are_complaints() {
        let tree = Tree::of(&[("docs/decisions/2026-11-a.md", "")]);
        assert_eq!(complaints(&tree).len(), 1);
    }
}
