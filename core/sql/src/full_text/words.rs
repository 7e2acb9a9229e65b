//! The words of a text as an index keeps them, and the score of a text that is computed from them.

use super::distance::{LikeWord, MAX_LENGTH};
use super::{Analyzer, Counts, Statistics, Term, Word, score};
use crate::condition::Path;
use orrery_model::json::Json;
use std::collections::BTreeMap;
use std::fmt;

/// The ascending places of a stem or a word among the words of a text, from 0.
pub type Places = Vec<u64>;

/// The words of a text with their places, which count without stop words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextWords {
    /// Number of words.
    pub length: u64,
    /// The places of each stem, and those of each word in lower case that has the stem.
    pub stems: BTreeMap<String, (Places, BTreeMap<String, Places>)>,
}

impl TextWords {
    /// Returns the words of a text in a language, a code of [`crate::full_text_languages`].
    pub fn of(language: &str, text: &str) -> Self {
        let mut words = TextWords::default();
        for Word { lower, stem } in Analyzer::of(language).words(text) {
            let (places, places_of_words) = words.stems.entry(stem).or_default();
            places.push(words.length);
            places_of_words.entry(lower).or_default().push(words.length);
            words.length += 1;
        }
        words
    }
}

/// A word of a search term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TermWord {
    /// The stem. All words with this stem match.
    pub stem: String,
    /// The word of a fuzzy term: words that are like it match too.
    pub like: Option<LikeWord>,
}

impl TermWord {
    /// Returns a word of a term. `max_distance` is 0 for a term that is not fuzzy.
    pub(super) fn of(word: Word, max_distance: usize) -> Self {
        let like = match max_distance {
            0 => None,
            _ => LikeWord::new(&word.lower, max_distance),
        };
        TermWord {
            stem: word.stem,
            like,
        }
    }

    /// Returns true if a word of a text matches.
    pub(super) fn matches(&self, word: &Word) -> bool {
        let is_like = |like: &LikeWord| like.matches(&word.lower);
        self.stem == word.stem || self.like.as_ref().is_some_and(is_like)
    }
}

impl fmt::Display for TermWord {
    /// Writes the words that match, such as `a word within 1 of "boar"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.like {
            None => write!(f, "the stem {}", Json::from(self.stem.as_str())),
            Some(like) => {
                let word = Json::from(like.word().as_str());
                write!(f, "a word within {} of {word}", like.distance())
            }
        }
    }
}

/// Returns true if fuzzy terms can match a word in lower case that does not have their stem.
pub fn is_compared(word: &str) -> bool {
    word.chars().nth(MAX_LENGTH).is_none()
}

/// Returns true if a text has a word that matches.
pub fn has_word(language: &str, text: &str, wanted: &TermWord) -> bool {
    Analyzer::of(language)
        .words(text)
        .any(|word| wanted.matches(&word))
}

/// The score of the texts at a path for some terms, with the statistics of the container.
#[derive(Clone, Debug)]
pub struct TextScore {
    /// The path of the texts.
    pub path: Path,
    /// The language of the texts.
    pub language: String,
    /// The words of each term. A term of stop words has none, and never occurs.
    pub terms: Vec<Vec<TermWord>>,
    documents: f64,
    words: f64,
    hits: Vec<Json>,
}

impl TextScore {
    /// Returns the score of the arguments of the internal score function that follow the text:
    /// terms, number of items, number of words, and number of items with each term. Returns `None`
    /// for arguments of which the function makes no score.
    pub(crate) fn new(
        path: Path,
        language: &str,
        [terms, documents, words, hits]: [&Json; 4],
    ) -> Option<Self> {
        let analyzer = Analyzer::of(language);
        let mut words_of_terms = Vec::new();
        for term in terms.as_array()? {
            words_of_terms.push(Term::parse(term, &analyzer)?.into_words());
        }
        let (documents, words) = (documents.as_f64()?, words.as_f64()?);
        let hits = hits.as_array()?.to_vec();
        // Other statistics make scores that are negative or no numbers.
        let is_count = |number: f64| number.is_finite() && number >= 0.0;
        let is_valid = is_count(documents)
            && is_count(words)
            && hits.iter().all(|hit| hit.as_f64().is_some_and(is_count));
        let is_complete = hits.len() == words_of_terms.len() && is_valid;
        is_complete.then(|| TextScore {
            path,
            language: language.to_owned(),
            terms: words_of_terms,
            documents,
            words,
            hits,
        })
    }

    /// Returns the number of words of all terms.
    pub fn word_count(&self) -> usize {
        self.terms.iter().map(Vec::len).sum()
    }

    /// Returns the score of a text of `length` words in which each term occurs `hits` times.
    pub fn score(&self, length: u64, hits: Vec<u64>) -> f64 {
        let statistics = Statistics {
            documents: self.documents,
            words: self.words,
            hits: &self.hits,
        };
        score(&Counts { length, hits }, &statistics)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full_text::count;
    use orrery_model::object;
    use proptest::prelude::*;

    /// Returns the places of the words that match a word of a term.
    fn places(words: &TextWords, wanted: &TermWord) -> Vec<u64> {
        let mut places = Vec::new();
        for (stem, (all, places_of_words)) in &words.stems {
            if *stem == wanted.stem {
                places.extend(all);
            }
            for (word, of_word) in places_of_words {
                if wanted.like.as_ref().is_some_and(|like| like.matches(word)) {
                    places.extend(of_word);
                }
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Returns how often words that match those of a term follow each other.
    fn occurrences(words: &TextWords, term: &[TermWord]) -> u64 {
        let Some((first, rest)) = term.split_first() else {
            return 0;
        };
        let is_phrase = |start: &u64| {
            let mut rest = rest.iter().zip(start + 1..);
            rest.all(|(wanted, place)| places(words, wanted).contains(&place))
        };
        let starts = places(words, first);
        starts.iter().filter(|start| is_phrase(start)).count() as u64
    }

    proptest! {
        /// The words of a text tell how often a term occurs in it.
        #[test]
        fn words_count_terms_as_the_text_does(
            text in "(the |a |red |rods |rod |radar,|Rowing. |row ){0,12}",
            term in "(the |red |rods |row ){0,3}",
            distance in 0..3_i64,
        ) {
            let analyzer = Analyzer::of("en-US");
            let json = Json::Object(object! { "term" => term.as_str(), "distance" => distance });
            let parse = || Term::parse(&json, &analyzer).expect("a term");
            let term = parse().into_words();
            let counts = count(&analyzer, &text, &[parse()], &mut || Ok(())).expect("counted");
            let words = TextWords::of("en-US", &text);
            prop_assert_eq!(words.length, counts.length);
            prop_assert_eq!(occurrences(&words, &term), counts.hits[0]);
            for word in &term {
                prop_assert_eq!(has_word("en-US", &text, word), !places(&words, word).is_empty());
            }
        }
    }
}
