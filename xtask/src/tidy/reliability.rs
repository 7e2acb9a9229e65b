//! The tables of `docs/reliability.md` are those of `docs/history/trust.tsv`.
//!
//! Leaves out: goals that were not reached. The document shows them.

use super::tree::Tree;
use crate::trust::{DOCUMENT, FILE, written};

/// Returns a complaint if the tables differ from the recorded parts, or if one of the two files is
/// of another form.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let Some(document) = tree.text(DOCUMENT) else {
        return Vec::new();
    };
    let Some(parts) = tree.text(FILE) else {
        return vec![format!(
            "{FILE} is missing, of which {DOCUMENT} has the figures"
        )];
    };
    match written(document, parts) {
        Err(complaint) => vec![complaint],
        Ok(written) if written == document => Vec::new(),
        Ok(_) => vec![format!(
            "{DOCUMENT} differs from {FILE}: run `cargo xtask long trust-table`"
        )],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &str = "<!-- trust figures -->\n<!-- end -->\n";
    const PARTS: &str = "kills\t0.1.0\t100\t0\t100\t1.0\tday a\tday b\t\n";

    #[test]
    fn a_document_with_the_recorded_figures_passes() {
        let document = written(EMPTY, PARTS).unwrap();
        let tree = Tree::of(&[(DOCUMENT, &document), (FILE, PARTS)]);
        assert!(complaints(&tree).is_empty());
        assert!(complaints(&Tree::of(&[])).is_empty());
    }

    #[test]
    fn a_document_with_other_figures_is_a_complaint() {
        let document = written(EMPTY, PARTS).unwrap();
        let changed = document.replace("100 deaths", "999 deaths");
        assert_ne!(changed, document);
        for document in [EMPTY, &changed] {
            let found = complaints(&Tree::of(&[(DOCUMENT, document), (FILE, PARTS)]));
            assert!(found[0].contains("long trust-table"), "{found:?}");
        }
    }

    #[test]
    fn a_missing_file_a_damaged_line_and_missing_marks_are_complaints() {
        let found = complaints(&Tree::of(&[(DOCUMENT, EMPTY)]));
        assert!(found[0].contains("is missing"), "{found:?}");
        let found = complaints(&Tree::of(&[(DOCUMENT, EMPTY), (FILE, "kills\t1\n")]));
        assert!(found[0].contains("trust.tsv:1"), "{found:?}");
        let found = complaints(&Tree::of(&[(DOCUMENT, "a\n"), (FILE, PARTS)]));
        assert!(found[0].contains("trust figures"), "{found:?}");
    }
}
