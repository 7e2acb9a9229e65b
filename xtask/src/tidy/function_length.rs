//! A ratchet on the length of Rust functions, tests included.
//!
//! A function over 70 lines does not fit a screen. Clippy refuses one over 100 lines outright.

use super::ratchet::{Measures, Ratchet};
use super::tree::Tree;
use crate::rust_text::functions;

const LINES_MAX: usize = 70;

pub(super) const RATCHET: Ratchet = Ratchet {
    list: "xtask/ratchets/long-functions.txt",
    heading: "# Rust functions over 70 lines: `path function lines`. Entries only shrink or go.",
    unit: "lines",
    advice: "move its second subject to a function of its own",
    measure,
};

/// Measures the functions over the limit. Functions of one name in one file share a key, under
/// which the longest counts.
fn measure(tree: &Tree) -> Measures {
    let mut measures = Measures::new();
    for (path, text) in tree.ending(".rs") {
        for function in functions(text) {
            if function.lines > LINES_MAX {
                let longest = measures
                    .entry(format!("{path} {}", function.name))
                    .or_default();
                *longest = function.lines.max(*longest);
            }
        }
    }
    measures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_within_the_limit_passes_and_one_line_more_does_not() {
        let complaints = |lines: usize| {
            let text = format!("fn f() {{\n{}}}\n", "x();\n".repeat(lines - 2));
            RATCHET.complaints(&Tree::of(&[("a.rs", text.as_str())]))
        };
        assert!(complaints(LINES_MAX).is_empty());
        assert!(complaints(LINES_MAX + 1)[0].starts_with("a.rs f: 71 lines"));
    }
}
