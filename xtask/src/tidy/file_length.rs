//! A ratchet on the length of Rust files.

use super::ratchet::{Measures, Ratchet};
use super::tree::Tree;

const LINES_MAX: usize = 900;

pub(super) const RATCHET: Ratchet = Ratchet {
    list: "xtask/ratchets/long-files.txt",
    heading: "# Rust files over 900 lines: `path lines`. Entries only shrink or go.",
    unit: "lines",
    advice: "move its second subject to a file of its own",
    measure,
};

fn measure(tree: &Tree) -> Measures {
    let mut measures = Measures::new();
    for (path, text) in tree.ending(".rs") {
        let lines = text.lines().count();
        if lines > LINES_MAX {
            measures.insert(path.to_owned(), lines);
        }
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_within_the_limit_passes_and_one_line_more_does_not() {
        let complaints = |lines: usize| {
            let text = "x\n".repeat(lines);
            RATCHET.complaints(&Tree::of(&[("a.rs", text.as_str())]))
        };
        assert!(complaints(LINES_MAX).is_empty());
        assert_eq!(complaints(LINES_MAX + 1).len(), 1);
    }
}
