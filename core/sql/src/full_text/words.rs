//! The words of a text as an index keeps them, and the score of a text that is computed from them.

use super::{Analyzer, Counts, Statistics, Term, score};
use crate::condition::Path;
use orrery_model::json::Json;
use std::collections::BTreeMap;

/// The words of a text: for each stem the places among the words, which count without stop words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextWords {
    /// Number of words.
    pub length: u64,
    /// The ascending places of each stem, from 0.
    pub stems: BTreeMap<String, Vec<u64>>,
}

impl TextWords {
    /// Returns the words of a text in a language, a code of [`crate::full_text_languages`].
    pub fn of(language: &str, text: &str) -> Self {
        let mut words = TextWords::default();
        for word in Analyzer::of(language).words(text) {
            words.stems.entry(word.stem).or_default().push(words.length);
            words.length += 1;
        }
        words
    }
}

/// Returns true if a text has a word with this stem.
pub fn has_stem(language: &str, text: &str, stem: &str) -> bool {
    Analyzer::of(language)
        .words(text)
        .any(|word| word.stem == stem)
}

/// The score of the texts at a path for some terms, with the statistics of the container.
#[derive(Clone, Debug)]
pub struct TextScore {
    /// The path of the texts.
    pub path: Path,
    /// The language of the texts.
    pub language: String,
    /// The stems of the words of each term. A term of stop words has none, and never occurs.
    pub terms: Vec<Vec<String>>,
    documents: f64,
    words: f64,
    hits: Vec<Json>,
}

impl TextScore {
    /// Returns the score of the arguments of the internal score function that follow the text:
    /// terms, number of items, number of words, and number of items with each term. Returns `None`
    /// for fuzzy terms, and for arguments of which the function makes no score.
    pub(crate) fn new(
        path: Path,
        language: &str,
        [terms, documents, words, hits]: [&Json; 4],
    ) -> Option<Self> {
        let analyzer = Analyzer::of(language);
        let mut stems = Vec::new();
        for term in terms.as_array()? {
            stems.push(Term::parse(term, &analyzer)?.stems()?);
        }
        let (documents, words) = (documents.as_f64()?, words.as_f64()?);
        let hits = hits.as_array()?.to_vec();
        // Other statistics make scores that are negative or no numbers.
        let is_count = |number: f64| number.is_finite() && number >= 0.0;
        let is_valid = is_count(documents)
            && is_count(words)
            && hits.iter().all(|hit| hit.as_f64().is_some_and(is_count));
        let is_complete = hits.len() == stems.len() && is_valid;
        is_complete.then(|| TextScore {
            path,
            language: language.to_owned(),
            terms: stems,
            documents,
            words,
            hits,
        })
    }

    /// Returns the number of stems of all terms.
    pub fn stem_count(&self) -> usize {
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
    use proptest::prelude::*;

    /// Returns how often the words of a term follow each other.
    fn occurrences(words: &TextWords, stems: &[String]) -> u64 {
        let Some((first, rest)) = stems.split_first() else {
            return 0;
        };
        let has = |stem: &String, place: u64| {
            let places = words.stems.get(stem);
            places.is_some_and(|places| places.contains(&place))
        };
        let starts = words.stems.get(first).into_iter().flatten();
        let is_phrase = |start: &&u64| {
            let mut places = rest.iter().zip(**start + 1..);
            places.all(|(stem, place)| has(stem, place))
        };
        starts.filter(is_phrase).count() as u64
    }

    proptest! {
        /// The words of a text tell how often a term occurs in it.
        #[test]
        fn words_count_terms_as_the_text_does(
            text in "(the |a |red |rods |rod |radar,|Rowing. |row ){0,12}",
            term in "(the |red |rods |row ){0,3}",
        ) {
            let analyzer = Analyzer::of("en-US");
            let parsed = Term::parse(&Json::from(term.as_str()), &analyzer).expect("a term");
            let stems = parsed.stems().expect("not fuzzy");
            let counts = count(&analyzer, &text, &[parsed], &mut || Ok(())).expect("counted");
            let words = TextWords::of("en-US", &text);
            prop_assert_eq!(words.length, counts.length);
            prop_assert_eq!(occurrences(&words, &stems), counts.hits[0]);
            for stem in &stems {
                prop_assert_eq!(has_stem("en-US", &text, stem), words.stems.contains_key(stem));
            }
        }
    }
}
