//! The stop words of English texts. Words with an apostrophe are listed by their parts.
//!
//! The service does not publish its list. This one results in the text lengths that recorded
//! rankings of the service imply: "also", "well" and "known" are stop words, "first" is not.

/// Returns true if a word in lower case is a stop word.
pub(super) fn contains(word: &str) -> bool {
    WORDS.binary_search(&word).is_ok()
}

/// The stop words in ascending order, for the binary search.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "about", "above", "after", "again", "against", "all", "also", "am", "an", "and", "any",
    "are", "aren", "as", "at", "be", "because", "been", "before", "being", "below", "between",
    "both", "but", "by", "can", "cannot", "could", "couldn", "d", "did", "didn", "do", "does",
    "doesn", "doing", "don", "down", "during", "each", "few", "for", "from", "further", "had",
    "hadn", "has", "hasn", "have", "haven", "having", "he", "her", "here", "hers", "herself", "him",
    "himself", "his", "how", "i", "if", "in", "into", "is", "isn", "it", "its", "itself", "just",
    "known", "let", "ll", "m", "ma", "me", "might", "mightn", "more", "most", "must", "mustn", "my",
    "myself", "needn", "no", "nor", "not", "now", "o", "of", "off", "on", "once", "only", "or",
    "other", "ought", "our", "ours", "ourselves", "out", "over", "own", "re", "s", "same", "shall",
    "shan", "she", "should", "shouldn", "so", "some", "such", "t", "than", "that", "the", "their",
    "theirs", "them", "themselves", "then", "there", "these", "they", "this", "those", "through",
    "to", "too", "under", "until", "up", "upon", "us", "ve", "very", "was", "wasn", "we", "well",
    "were", "weren", "what", "when", "where", "which", "while", "who", "whom", "whose", "why",
    "will", "with", "won", "would", "wouldn", "y", "you", "your", "yours", "yourself", "yourselves",
];

#[cfg(test)]
mod tests {
    #[test]
    fn the_stop_words_are_in_ascending_order() {
        assert!(super::WORDS.is_sorted());
    }
}
