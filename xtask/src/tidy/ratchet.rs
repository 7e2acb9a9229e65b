//! A ratchet: a measure that may not grow, with a list of the places that are over its limit today.
//!
//! The list is a text file of lines `key number`. A place that is not on the list must be within
//! the limit. A listed place may not grow; once it has shrunk, its entry must follow, which
//! `cargo xtask tidy --lower` does for all entries at once.
//!
//! ```text
//! # Rust files over 900 lines: `path lines`.
//! core/sql/src/bind.rs 984
//! ```

use std::collections::BTreeMap;

use super::tree::Tree;

/// Keys of places and the number measured at each.
pub(super) type Measures = BTreeMap<String, usize>;

/// A measure and its list.
pub(super) struct Ratchet {
    /// Path of the list.
    pub(super) list: &'static str,
    /// First line of the list, which says what is counted.
    pub(super) heading: &'static str,
    /// The unit of the numbers, in the plural.
    pub(super) unit: &'static str,
    /// Advice that ends the complaint about a place that is over the limit or has grown.
    pub(super) advice: &'static str,
    /// Returns the places that are over the limit.
    pub(super) measure: fn(&Tree) -> Measures,
}

impl Ratchet {
    /// Returns the places over the limit that are not listed or have grown, and the entries of the
    /// list that are too high or not needed.
    pub(super) fn complaints(&self, tree: &Tree) -> Vec<String> {
        let Ratchet {
            list, unit, advice, ..
        } = self;
        let (listed, mut found) = self.entries(tree);
        let measured = (self.measure)(tree);
        for (key, number) in &measured {
            match listed.get(key) {
                None => found.push(format!("{key}: {number} {unit}: {advice}")),
                Some(allowed) if number > allowed => found.push(format!(
                    "{key} has grown from {allowed} to {number} {unit}: {advice}"
                )),
                Some(_) => {}
            }
        }

        // One command lowers all entries, so one complaint is enough for them.
        let mut too_high = Vec::new();
        for (key, allowed) in &listed {
            let number = measured.get(key).copied().unwrap_or_default();
            if number < *allowed {
                too_high.push(format!("{key} (now {number}, listed {allowed})"));
            }
        }
        if let [first, others @ ..] = &too_high[..] {
            let more = match others.len() {
                0 => String::new(),
                count => format!(" and {count} more"),
            };
            found.push(format!(
                "{list}: lower {first}{more}: run `cargo xtask tidy --lower`"
            ));
        }
        found
    }

    /// Returns the text of the list with every entry lowered to what is measured. No entry is added
    /// and none is raised.
    pub(super) fn lowered(&self, tree: &Tree) -> String {
        let (listed, _) = self.entries(tree);
        let measured = (self.measure)(tree);
        let mut text = format!("{}\n", self.heading);
        for (key, allowed) in listed {
            if let Some(number) = measured.get(&key) {
                text.push_str(&format!("{key} {}\n", allowed.min(*number)));
            }
        }
        text
    }

    /// Returns the entries of the list, and a complaint about each line that is none.
    fn entries(&self, tree: &Tree) -> (Measures, Vec<String>) {
        let mut entries = Measures::new();
        let mut found = Vec::new();
        for line in tree.text(self.list).unwrap_or_default().lines() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = line
                .rsplit_once(' ')
                .and_then(|(key, number)| Some((key, number.parse().ok()?)));
            match entry {
                Some((key, number)) => {
                    entries.insert(key.to_owned(), number);
                }
                None => found.push(format!(
                    "{}: `{line}` does not end with a number",
                    self.list
                )),
            }
        }
        (entries, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the letters of each file, over a limit of two.
    const LETTERS: Ratchet = Ratchet {
        list: "letters.txt",
        heading: "# Letters.",
        unit: "letters",
        advice: "write less",
        measure: |tree| {
            let mut measures = Measures::new();
            for (path, text) in tree.ending(".rs") {
                if text.len() > 2 {
                    measures.insert(path.to_owned(), text.len());
                }
            }
            measures
        },
    };

    fn complaints(list: &str, text: &str) -> Vec<String> {
        LETTERS.complaints(&Tree::of(&[("letters.txt", list), ("a.rs", text)]))
    }

    #[test]
    fn a_place_within_the_limit_passes_and_a_place_over_it_does_not() {
        assert!(complaints("", "ab").is_empty());
        assert_eq!(complaints("", "abc"), ["a.rs: 3 letters: write less"]);
    }

    #[test]
    fn a_listed_place_may_stay_but_not_grow() {
        assert!(complaints("a.rs 4", "abcd").is_empty());
        assert!(complaints("a.rs 4", "abcde")[0].contains("has grown from 4 to 5"));
    }

    #[test]
    fn an_entry_follows_its_place_down_and_goes_with_it() {
        assert!(complaints("a.rs 4", "abc")[0].contains("lower a.rs (now 3, listed 4): run"));
        assert!(complaints("a.rs 4", "ab")[0].contains("lower a.rs (now 0, listed 4): run"));
        assert!(complaints("b.rs 4", "ab")[0].contains("lower b.rs (now 0, listed 4): run"));
        assert!(complaints("a.rs 4\nb.rs 4", "a")[0].contains("and 1 more"));
    }

    #[test]
    fn a_line_without_a_number_is_a_complaint() {
        assert!(complaints("# a comment\na.rs many", "")[0].contains("does not end with a number"));
    }

    #[test]
    fn lowering_neither_adds_nor_raises_an_entry() {
        let list = "a.rs 9\nb.rs 3\nc.rs 5\ngone.rs 7\n";
        let files = [
            ("letters.txt", list),
            ("a.rs", "abcd"),
            ("b.rs", "abcd"),
            ("c.rs", "a"),
            ("new.rs", "abcd"),
        ];
        let lowered = LETTERS.lowered(&Tree::of(&files));
        assert_eq!(lowered, "# Letters.\na.rs 4\nb.rs 3\n");
    }
}
