//! A ratchet on lines of Rust files that are wider than the formatter's limit.
//!
//! rustfmt breaks code at 100 columns and leaves comments and strings alone; this rule counts all
//! three.

use super::ratchet::{Measures, Ratchet};
use super::tree::Tree;

const COLUMNS_MAX: usize = 100;

pub(super) const RATCHET: Ratchet = Ratchet {
    list: "xtask/ratchets/wide-lines.txt",
    heading: "# Rust files with lines over 100 columns: `path lines`. Entries only shrink or go.",
    unit: "lines over 100 columns",
    advice: "break the line, the comment or the string",
    measure,
};

fn measure(tree: &Tree) -> Measures {
    let mut measures = Measures::new();
    for (path, text) in tree.ending(".rs") {
        let wide = text
            .lines()
            .filter(|line| line.chars().count() > COLUMNS_MAX)
            .count();
        if wide > 0 {
            measures.insert(path.to_owned(), wide);
        }
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_a_hundred_columns_passes_and_a_wider_one_does_not() {
        let complaints = |columns: usize| {
            let text = format!("// {}\n", "ü".repeat(columns - 3));
            RATCHET.complaints(&Tree::of(&[("a.rs", text.as_str())]))
        };
        assert!(complaints(COLUMNS_MAX).is_empty());
        assert_eq!(complaints(COLUMNS_MAX + 1).len(), 1);
    }
}
