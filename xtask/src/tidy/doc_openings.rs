//! A ratchet on doc comments that open with a question word.
//!
//! A doc comment names its subject first: the doc of a function opens with a verb ("Returns true if
//! the path is indexed"), the doc of a type or field with a noun ("Sequence number of the policy").
//! A comment that opens with "Whether" or "What" makes the reader wait for both.

use super::ratchet::{Measures, Ratchet};
use super::tree::Tree;

const QUESTION_WORDS: &[&str] = &[
    "What", "Whatever", "Whether", "How", "Where", "Wherever", "Who", "Whoever", "Whose", "Which",
    "Why", "When", "Whenever",
];

pub(super) const RATCHET: Ratchet = Ratchet {
    list: "xtask/ratchets/doc-openings.txt",
    heading: "# Rust files with doc comments that open with What, Whether, How, Where, Who, Which, \
              Why or When: `path comments`. Entries only shrink or go.",
    unit: "doc comments that open with a question word",
    advice: "begin with a verb (`Returns …`) or with the noun that is defined",
    measure,
};

fn measure(tree: &Tree) -> Measures {
    let mut measures = Measures::new();
    for (path, text) in tree.ending(".rs") {
        let count = openings(text).filter(|line| is_question(line)).count();
        if count > 0 {
            measures.insert(path.to_owned(), count);
        }
    }
    measures
}

/// Returns the first line of each doc comment, without its marker.
fn openings(text: &str) -> impl Iterator<Item = &str> {
    let mut before = "";
    text.lines().filter_map(move |line| {
        let line = line.trim();
        let marker = ["///", "//!"]
            .into_iter()
            .find(|marker| line.starts_with(marker))
            .unwrap_or_default();
        let is_opening = !marker.is_empty() && marker != before;
        before = marker;
        is_opening.then(|| line[marker.len()..].trim_start())
    })
}

fn is_question(line: &str) -> bool {
    let word = line
        .split(|character: char| !character.is_alphabetic())
        .next();
    word.is_some_and(|word| QUESTION_WORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_line_of_a_doc_comment_counts() {
        let text = "//! Whether it is.\n//! What is meant.\n\n/// Returns x.\n/// When it can.\n\
                    fn f() {}\n    /// How-many of them.\n// Why not.\nfn whether() {}\n";
        let found = RATCHET.complaints(&Tree::of(&[("a.rs", text)]));
        assert_eq!(found.len(), 1);
        assert!(found[0].starts_with("a.rs: 2 doc comments"), "{found:?}");
    }
}
