//! The stop words of English texts. Words with an apostrophe are listed by their parts.
//!
//! The service does not publish its list. This one results in the text lengths that recorded
//! rankings of the service imply: "also", "known", "part", "throughout" and "well" are stop words,
//! "first" is not.

/// Returns true if a word in lower case is a stop word.
pub(super) fn contains(word: &str) -> bool {
    WORDS.binary_search(&word).is_ok()
}

/// The stop words in ascending order, for the binary search.
#[rustfmt::skip]
const WORDS: &[&str] = &[
    "a", "about", "above", "across", "after", "again", "against", "all", "along", "already", "also",
    "although", "always", "am", "among", "amongst", "an", "and", "another", "any", "are", "aren",
    "around", "as", "at", "away", "be", "because", "been", "before", "behind", "being", "below",
    "beside", "besides", "between", "beyond", "both", "but", "by", "can", "cannot", "could",
    "couldn", "d", "did", "didn", "do", "does", "doesn", "doing", "don", "down", "during", "each",
    "either", "else", "elsewhere", "ever", "every", "except", "few", "for", "from", "further",
    "had", "hadn", "has", "hasn", "have", "haven", "having", "he", "her", "here", "hers", "herself",
    "him", "himself", "his", "how", "however", "i", "if", "in", "indeed", "instead", "into", "is",
    "isn", "it", "its", "itself", "just", "known", "least", "less", "let", "ll", "m", "ma", "many",
    "maybe", "me", "meanwhile", "might", "mightn", "more", "moreover", "most", "much", "must",
    "mustn", "my", "myself", "needn", "neither", "never", "nevertheless", "no", "nor", "not", "now",
    "o", "of", "off", "often", "on", "once", "only", "onto", "or", "other", "otherwise", "ought",
    "our", "ours", "ourselves", "out", "over", "own", "part", "per", "perhaps", "rather", "re",
    "really", "s", "same", "several", "shall", "shan", "she", "should", "shouldn", "since", "so",
    "some", "somehow", "sometimes", "somewhere", "still", "such", "t", "than", "that", "the",
    "their", "theirs", "them", "themselves", "then", "there", "thereby", "therefore", "these",
    "they", "this", "those", "though", "through", "throughout", "thus", "to", "together", "too",
    "toward", "towards", "under", "unless", "until", "up", "upon", "us", "ve", "very", "via", "was",
    "wasn", "we", "well", "were", "weren", "what", "whatever", "when", "whenever", "where",
    "whereas", "wherever", "whether", "which", "whichever", "while", "who", "whom", "whose", "why",
    "will", "with", "within", "without", "won", "would", "wouldn", "y", "yet", "you", "your",
    "yours", "yourself", "yourselves",
];

#[cfg(test)]
mod tests {
    #[test]
    fn the_stop_words_are_in_ascending_order() {
        assert!(super::WORDS.is_sorted());
    }
}
