//! Full-text search: words and stems of a text, occurrences of search terms, and the score of a
//! text.
//!
//! A word is a run of letters and digits, in lower case. Words are compared by their stem, which
//! the stemmer of the text's language makes. The stop words of English texts are ignored, in
//! phrases and in lengths. A search term of several words is a phrase, whose words must follow each
//! other. A fuzzy term also matches words within an edit distance.
//!
//! The score is BM25 with the usual constants, over the statistics of the whole container: the sum
//! over the terms of `idf * tf (k1 + 1) / (tf + k1 (1 - b + b * length / mean length))`, where `idf
//! = ln(1 + (N - n + 0.5) / (n + 0.5))`. `tf` is the number of occurrences in the text, `n` the
//! number of items with the term, and `N` the number of items.
//!
//! An index of texts keeps the words of each text ([`TextWords`]) and answers the same questions
//! from them: the items with a word ([`has_word`]), and the score of an item ([`TextScore`]). Texts
//! without an index are evaluated from the text.

mod distance;
mod stop_words;
mod words;

pub use distance::{LikeWord, Likeness};
pub use words::{Places, TermWord, TextScore, TextWords, has_word, is_compared};

use crate::error::QueryError;
use orrery_model::json::Json;
use rust_stemmers::{Algorithm, Stemmer};

/// The languages of a full-text policy with the service's codes, which are case-sensitive.
const LANGUAGES: &[(&str, Algorithm)] = &[
    ("en-US", Algorithm::English),
    ("de-DE", Algorithm::German),
    ("es-ES", Algorithm::Spanish),
    ("fr-FR", Algorithm::French),
    ("it-IT", Algorithm::Italian),
    ("pt-BR", Algorithm::Portuguese),
    ("pt-PT", Algorithm::Portuguese),
];

/// The language of a text for which no policy names one.
pub const DEFAULT_LANGUAGE: &str = "en-US";

/// Largest edit distance of a fuzzy term.
const MAX_DISTANCE: usize = 2;
/// Longest word, in bytes, that is stemmed. The cost grows with the square of the length, and no
/// longer word of a language is inflected; a longer word is its own stem.
const MAX_STEMMED_BYTES: usize = 256;

/// Saturation of the frequency of a term, `k1`.
const K1: f64 = 1.2;
/// Influence of the length of a text, `b`.
const B: f64 = 0.75;

/// Returns the codes of the languages that a full-text policy may name.
pub fn full_text_languages() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|(code, _)| *code)
}

/// Splits texts of one language into words.
pub(crate) struct Analyzer {
    stemmer: Stemmer,
    ignores_stop_words: bool,
}

/// A word of a text.
pub(crate) struct Word {
    pub lower: String,
    pub stem: String,
}

impl Analyzer {
    /// Creates the analyzer of a language. An unknown code stands for the default language.
    pub(crate) fn of(language: &str) -> Self {
        let algorithm = match LANGUAGES.iter().find(|(code, _)| *code == language) {
            Some((_, algorithm)) => *algorithm,
            None => Algorithm::English,
        };
        Analyzer {
            stemmer: Stemmer::create(algorithm),
            ignores_stop_words: matches!(algorithm, Algorithm::English),
        }
    }

    /// Returns the words of a text, without stop words.
    pub(crate) fn words<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Word> + 't {
        text.split(|c: char| !c.is_alphanumeric())
            .filter(|piece| !piece.is_empty())
            .map(str::to_lowercase)
            .filter(|word| !(self.ignores_stop_words && stop_words::contains(word)))
            .map(|lower| {
                let stem = match lower.len() > MAX_STEMMED_BYTES {
                    true => lower.clone(),
                    false => self.stemmer.stem(&lower).into_owned(),
                };
                Word { lower, stem }
            })
    }
}

/// A search term: a word or a phrase.
pub(crate) struct Term {
    words: Vec<TermWord>,
}

impl Term {
    /// Parses a string, or an object `{"term": "...", "distance": 0..2}`. Returns `None` for any
    /// other value.
    pub(crate) fn parse(json: &Json, analyzer: &Analyzer) -> Option<Self> {
        let (text, max_distance) = match json {
            Json::String(text) => (text.as_str(), 0),
            Json::Object(members) => {
                if members
                    .iter()
                    .any(|(name, _)| !matches!(name, "term" | "distance"))
                {
                    return None;
                }
                let distance = match members.get("distance") {
                    Some(distance) => usize::try_from(distance.as_i64()?).ok()?,
                    None => 0,
                };
                if distance > MAX_DISTANCE {
                    return None;
                }
                (members.get("term")?.as_str()?, distance)
            }
            _ => return None,
        };
        let words = analyzer.words(text);
        Some(Term {
            words: words.map(|word| TermWord::of(word, max_distance)).collect(),
        })
    }

    /// Returns the words.
    pub(crate) fn into_words(self) -> Vec<TermWord> {
        self.words
    }
}

/// The occurrences of some terms in a text.
pub(crate) struct Counts {
    /// Number of words, without stop words.
    pub length: u64,
    /// Occurrences of each term.
    pub hits: Vec<u64>,
}

/// Counts the occurrences of some terms in a text. `count_iteration` is called for every word, and
/// its error ends the count.
pub(crate) fn count(
    analyzer: &Analyzer,
    text: &str,
    terms: &[Term],
    count_iteration: &mut dyn FnMut() -> Result<(), QueryError>,
) -> Result<Counts, QueryError> {
    let mut counts = Counts {
        length: 0,
        hits: vec![0; terms.len()],
    };
    // For each term and each of its words: true if the phrase up to that word ends at the current
    // word of the text.
    let mut phrase_ends: Vec<Vec<bool>> = terms
        .iter()
        .map(|term| vec![false; term.words.len()])
        .collect();
    for word in analyzer.words(text) {
        count_iteration()?;
        counts.length += 1;
        for (index, term) in terms.iter().enumerate() {
            // A term of stop words only has no words and no occurrences.
            let Some(last) = term.words.len().checked_sub(1) else {
                continue;
            };
            // The loop runs backwards, so that `ends[at - 1]` is the value for the previous word.
            let ends = &mut phrase_ends[index];
            for at in (0..=last).rev() {
                ends[at] = (at == 0 || ends[at - 1]) && term.words[at].matches(&word);
            }
            counts.hits[index] += u64::from(ends[last]);
        }
    }
    Ok(counts)
}

/// Statistics of all texts of a container at one path.
pub(crate) struct Statistics<'a> {
    /// Number of items.
    pub documents: f64,
    /// Number of words of all texts.
    pub words: f64,
    /// For each term, the number of items that contain it.
    pub hits: &'a [Json],
}

/// Returns the BM25 score of a text; the file header has the formula.
pub(crate) fn score(counts: &Counts, statistics: &Statistics<'_>) -> f64 {
    let mean_length = statistics.words / statistics.documents;
    let relative_length = if mean_length > 0.0 {
        counts.length as f64 / mean_length
    } else {
        1.0
    };
    let term_score = |(occurrences, documents): (&u64, &Json)| {
        let frequency = *occurrences as f64;
        let documents = documents.as_f64().unwrap_or(0.0);
        let rarity = (statistics.documents - documents + 0.5).max(0.0) / (documents + 0.5);
        let idf = (1.0 + rarity).ln();
        idf * frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * relative_length))
    };
    counts
        .hits
        .iter()
        .zip(statistics.hits)
        .map(term_score)
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hits(language: &str, text: &str, terms: &[&str]) -> Vec<u64> {
        let analyzer = Analyzer::of(language);
        let parsed = terms.iter().map(|t| {
            let json = orrery_model::json::parse(t.as_bytes()).unwrap_or_else(|_| Json::from(*t));
            Term::parse(&json, &analyzer).expect("a term")
        });
        let parsed: Vec<Term> = parsed.collect();
        count(&analyzer, text, &parsed, &mut || Ok(()))
            .expect("counted")
            .hits
    }

    #[test]
    fn words_match_by_stem_and_phrases_by_order() {
        let text =
            "Rowing is well known. They rang, he rows; painting on the quiet harbour of Bergen.";
        assert_eq!(
            hits(
                "en-US",
                text,
                &["row", "paint", "quiet harbour", "harbour quiet", "PAINTS"]
            ),
            [2, 1, 1, 0, 1]
        );
        // Stop words are ignored in the text and in the term.
        assert_eq!(
            hits(
                "en-US",
                text,
                &["harbour bergen", "harbour of the bergen", "of the"]
            ),
            [1, 1, 0]
        );
        assert_eq!(
            hits("de-DE", "Die Häuser am Fluss", &["haus", "die", "flüsse"]),
            [1, 1, 1]
        );
        assert_eq!(
            hits("fr-FR", "Les chevaux couraient", &["courir", "les"]),
            [1, 1]
        );
    }

    /// Sentences with the words that decided the recorded rankings of the service, shortest first.
    /// All lengths differ, so that no two of the recorded texts tie.
    #[test]
    fn the_length_of_a_text_leaves_out_the_words_that_carry_no_meaning() {
        let analyzer = Analyzer::of("en-US");
        for (text, length) in [
            ("It forms part of the whole.", 2),
            (
                "She was also a well known player, who lives throughout many towns.",
                3,
            ),
            ("The first of several rivers had already been crossed.", 3),
            ("Numbers such as 1,977 are two words.", 5),
        ] {
            let counts = count(&analyzer, text, &[], &mut || Ok(())).expect("counted");
            assert_eq!(counts.length, length, "{text}");
        }
    }

    #[test]
    fn fuzzy_terms_match_words_within_their_distance() {
        let text = "a red and a rod, reds and radar";
        assert_eq!(
            hits(
                "en-US",
                text,
                &[
                    r#"{"term":"red","distance":1}"#,
                    r#"{"term":"red","distance":2}"#
                ]
            ),
            [3, 3]
        );
        assert_eq!(
            hits(
                "en-US",
                "colour",
                &[r#"{"term":"color","distance":1}"#, r#"{"term":"color"}"#]
            ),
            [1, 0]
        );
        assert!(Term::parse(&Json::from(1), &Analyzer::of("en-US")).is_none());
    }

    #[test]
    fn rare_terms_and_short_texts_score_higher() {
        let all = [Json::from(1), Json::from(50)];
        let statistics = Statistics {
            documents: 100.0,
            words: 1000.0,
            hits: &all,
        };
        let score_of = |length, first, second| {
            score(
                &Counts {
                    length,
                    hits: vec![first, second],
                },
                &statistics,
            )
        };
        assert!(score_of(10, 1, 0) > score_of(10, 0, 1));
        assert!(score_of(5, 1, 0) > score_of(10, 1, 0));
        assert!(
            score_of(10, 2, 0) > score_of(10, 1, 0)
                && score_of(10, 2, 0) < 2.0 * score_of(10, 1, 0)
        );
        assert_eq!(score_of(10, 0, 0), 0.0);
    }
}
