//! Edit distances between the words of fuzzy terms and the words of texts.

/// Longest word, in characters, that is compared: the cost is the product of both lengths.
pub(super) const MAX_LENGTH: usize = 64;

/// A word of a fuzzy term. It matches the words that at most `distance` insertions, deletions and
/// replacements of a letter make of it (Levenshtein distance).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LikeWord {
    letters: Vec<char>,
    distance: usize,
}

/// The relation of a word to a [`LikeWord`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The word matches.
    Within,
    /// The word does not match, and a longer one that begins with it may match.
    Beyond,
    /// No word matches that begins with this number of bytes of the word.
    PrefixBeyond(usize),
}

impl LikeWord {
    /// Returns the word of a fuzzy term, or `None` if it is too long to be compared.
    pub(super) fn new(word: &str, distance: usize) -> Option<Self> {
        let letters: Vec<char> = word.chars().collect();
        (letters.len() <= MAX_LENGTH).then_some(LikeWord { letters, distance })
    }

    /// Returns the word.
    pub fn word(&self) -> String {
        self.letters.iter().collect()
    }

    /// Returns the largest distance of a word that matches.
    pub fn distance(&self) -> usize {
        self.distance
    }

    /// Compares a word in lower case.
    pub fn compare(&self, word: &str) -> Likeness {
        // One row of the table of distances between the beginnings of both words. The least number
        // of a row never falls from row to row.
        let mut row: Vec<usize> = (0..=self.letters.len()).collect();
        for (i, (at, letter)) in word.char_indices().enumerate() {
            let mut diagonal = i;
            row[0] = i + 1;
            let mut least = row[0];
            for (j, own) in self.letters.iter().enumerate() {
                let replaced = diagonal + usize::from(letter != *own);
                diagonal = row[j + 1];
                row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
                least = least.min(row[j + 1]);
            }
            if least > self.distance || i >= MAX_LENGTH {
                return Likeness::PrefixBeyond(at + letter.len_utf8());
            }
        }
        match row.last() {
            Some(distance) if *distance <= self.distance => Likeness::Within,
            _ => Likeness::Beyond,
        }
    }

    /// Returns true if a word in lower case matches.
    pub fn matches(&self, word: &str) -> bool {
        self.compare(word) == Likeness::Within
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn like(word: &str, distance: usize) -> LikeWord {
        LikeWord::new(word, distance).expect("a short word")
    }

    #[test]
    fn the_edit_distance_counts_insertions_deletions_and_replacements() {
        for (a, b, distance) in [
            ("red", "red", 0),
            ("red", "rod", 1),
            ("kitten", "sitting", 3),
            ("", "ab", 2),
            ("grün", "grun", 1),
        ] {
            assert!(like(a, distance).matches(b), "{a} {b}");
            assert!(
                distance == 0 || !like(a, distance - 1).matches(b),
                "{a} {b}"
            );
        }
    }

    #[test]
    fn long_words_do_not_match() {
        let long = "é".repeat(64);
        assert!(like(&long, 1).matches(&long));
        assert!(!like(&long, 1).matches(&format!("{long}é")));
        assert_eq!(LikeWord::new(&format!("{long}é"), 1), None);
    }

    proptest! {
        /// A prefix that is beyond the distance has no continuation within it.
        #[test]
        fn no_word_matches_behind_a_prefix_that_is_beyond(
            wanted in "[abé]{0,5}",
            word in "[abé]{0,7}",
            rest in "[abé]{0,7}",
            distance in 1..3_usize,
        ) {
            let like = like(&wanted, distance);
            if let Likeness::PrefixBeyond(bytes) = like.compare(&word) {
                let other = format!("{}{rest}", &word[..bytes]);
                prop_assert!(!like.matches(&other));
            }
            let reverse = LikeWord::new(&word, distance).expect("a short word");
            prop_assert_eq!(like.matches(&word), reverse.matches(&wanted));
        }
    }
}
