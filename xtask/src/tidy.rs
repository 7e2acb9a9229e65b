//! The rules of this repository that no compiler knows: which crate may use which, names in
//! documents, retired words, sizes that may only shrink.
//!
//! A rule reads a [`Tree`] (paths and texts) and returns its complaints. Only [`Tree`] reads the
//! disk, so a rule's own tests pass a tree of a few lines. `cargo xtask tidy` and
//! `cargo test -p xtask` check the same [`RULES`].
//!
//! Leaves out: everything that rustc, clippy and rustfmt check.

mod arrows;
mod ci_time;
mod compat;
mod decisions;
mod doc_openings;
mod documents;
mod figures;
mod file_length;
mod line_width;
mod markdown;
mod questions;
mod ratchet;
mod readmes;
mod reliability;
mod retired;
mod skipped;
mod test_modules;
mod tree;

use crate::pictures;
use crate::run::{Outcome, root};
use ratchet::Ratchet;
use tree::Tree;

/// A rule: its name, and the function that returns its complaints, one line each.
type Rule = (&'static str, fn(&Tree) -> Vec<String>);

const RULES: &[Rule] = &[
    (
        "crates use only what stands to their left",
        arrows::complaints,
    ),
    ("names and paths in documents exist", documents::complaints),
    (
        "figures in tables equal their constants",
        figures::complaints,
    ),
    ("long files only shrink", |tree| {
        file_length::RATCHET.complaints(tree)
    }),
    ("wide lines only become fewer", |tree| {
        line_width::RATCHET.complaints(tree)
    }),
    ("doc comments open with their subject", |tree| {
        doc_openings::RATCHET.complaints(tree)
    }),
    ("no test is skipped or sleeps", skipped::complaints),
    ("retired words stay away", retired::complaints),
    ("files of tests are modules", test_modules::complaints),
    (
        "rows of the compat table name real tests",
        compat::complaints,
    ),
    (
        "the compat document has the tables of the code",
        compat::stale_tables,
    ),
    (
        "the figures of the reliability document are the recorded ones",
        reliability::complaints,
    ),
    (
        "each record of a decision has one link in the index",
        decisions::complaints,
    ),
    (
        "the map and the crates' READMEs are short",
        readmes::complaints,
    ),
    (
        "the map leads to the answers of the twelve questions",
        questions::complaints,
    ),
];

/// The rules that have a list which may only shrink.
const RATCHETS: &[&Ratchet] = &[
    &file_length::RATCHET,
    &line_width::RATCHET,
    &doc_openings::RATCHET,
];

/// Runs `tidy [--lower]`: checks every rule, or brings the lists of the ratchets down to what is
/// measured.
pub(crate) fn check(arguments: &[String]) -> Outcome {
    let tree = Tree::of_repository().map_err(|error| format!("cannot read the tree: {error}"))?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        [] => check_rules(&tree),
        ["--lower"] => lower_lists(&tree),
        _ => Err(format!(
            "tidy takes `--lower` or nothing, not `{}`",
            arguments.join(" ")
        )),
    }
}

/// Returns the help text of the command: the rules and the lists.
pub(crate) fn help() -> String {
    let mut text = String::from("The rules:\n\n");
    for (name, _) in RULES {
        text.push_str(&format!("  {name}\n"));
    }
    text.push_str(
        "\nA warning, which fails nothing: the first tier of ci took too long when it was last \
         recorded.\n",
    );
    text.push_str("\n--lower brings these lists down to the sizes of today, and never up:\n\n");
    for ratchet in RATCHETS {
        text.push_str(&format!("  {}\n", ratchet.list));
    }
    text
}

fn check_rules(tree: &Tree) -> Outcome {
    let mut count = 0;
    for (name, complaints) in RULES {
        let complaints = complaints(tree);
        let holds = if complaints.is_empty() { "yes" } else { "NO" };
        println!("tidy: {name}: {holds}");
        for complaint in &complaints {
            println!("  {complaint}");
        }
        count += complaints.len();
    }
    let pictures = pictures::warning(|name| tree.text(name));
    for warning in ci_time::warning(tree).into_iter().chain(pictures) {
        println!("tidy: warning: {warning}");
    }
    match count {
        0 => Ok(()),
        _ => Err(format!("{count} complaint(s)")),
    }
}

fn lower_lists(tree: &Tree) -> Outcome {
    for ratchet in RATCHETS {
        let path = root().join(ratchet.list);
        std::fs::write(&path, ratchet.lowered(tree))
            .map_err(|error| format!("cannot write {}: {error}", ratchet.list))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_holds_for_this_repository() {
        let tree = Tree::of_repository().unwrap();
        let mut broken = String::new();
        for (name, complaints) in RULES {
            for complaint in complaints(&tree) {
                broken.push_str(&format!("{name}: {complaint}\n"));
            }
        }
        assert!(broken.is_empty(), "\n{broken}");
    }

    #[test]
    fn an_unknown_argument_is_refused() {
        let refusal = check(&["--raise".to_owned()]).unwrap_err();
        assert!(refusal.contains("`--raise`"), "{refusal}");
    }
}
