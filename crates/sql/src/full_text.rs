//! Full text: from a text to words and stems, from a search term to its occurrences, and how well a text fits.
//!
//! A word is a run of letters and digits, in lower case. Words count by their stem, made by the algorithm of the text's
//! language; of English texts the stop words count nowhere, neither for phrases nor for lengths. A search term of several
//! words is a phrase: its words must follow each other. A fuzzy term also takes words that are a few letters away.
//!
//! The score is BM25 with the usual constants, over the statistics of the whole container:
//! the sum over the terms of `idf * tf (k1 + 1) / (tf + k1 (1 - b + b * length / mean length))`,
//! where `idf = ln(1 + (N - n + 0.5) / (n + 0.5))`.
//!
//! Left out: an index. Every text is read through.

mod stop_words;

use crate::error::QueryError;
use orrery_model::json::Json;
use rust_stemmers::{Algorithm, Stemmer};

/// Languages of a full-text policy, by the service's codes, which are case-sensitive.
const LANGUAGES: &[(&str, Algorithm)] = &[
    ("en-US", Algorithm::English),
    ("de-DE", Algorithm::German),
    ("es-ES", Algorithm::Spanish),
    ("fr-FR", Algorithm::French),
    ("it-IT", Algorithm::Italian),
    ("pt-BR", Algorithm::Portuguese),
    ("pt-PT", Algorithm::Portuguese),
];

/// The language of a text that no policy names.
pub const DEFAULT_LANGUAGE: &str = "en-US";

/// Letters that a word of a fuzzy term may differ in.
const DISTANCE_MOST: usize = 2;
/// Characters of a word beyond which it is compared as it is: distances cost the product of both lengths.
const FUZZY_LETTERS: usize = 64;

/// Saturation of the frequency of a term.
const K1: f64 = 1.2;
/// How much the length of a text counts.
const B: f64 = 0.75;

/// The languages that a full-text policy may name.
pub fn full_text_languages() -> impl Iterator<Item = &'static str> {
    LANGUAGES.iter().map(|(code, _)| *code)
}

/// Takes texts of one language apart.
pub(crate) struct Analyzer {
    stemmer: Stemmer,
    stop_words: bool,
}

/// A word of a text.
pub(crate) struct Word {
    pub lower: String,
    pub stem: String,
}

impl Analyzer {
    /// For a language of the table; another counts as the default one.
    pub fn of(language: &str) -> Self {
        let algorithm = LANGUAGES
            .iter()
            .find(|(code, _)| *code == language)
            .map(|(_, algorithm)| *algorithm);
        let algorithm = algorithm.unwrap_or(Algorithm::English);
        let stop_words = matches!(algorithm, Algorithm::English);
        Analyzer {
            stemmer: Stemmer::create(algorithm),
            stop_words,
        }
    }

    /// The words of a text that count.
    pub fn words<'t>(&'t self, text: &'t str) -> impl Iterator<Item = Word> + 't {
        let pieces = text
            .split(|c: char| !c.is_alphanumeric())
            .filter(|piece| !piece.is_empty());
        let lower = pieces.map(str::to_lowercase);
        lower
            .filter(|word| !(self.stop_words && stop_words::contains(word)))
            .map(|lower| {
                let stem = self.stemmer.stem(&lower).into_owned();
                Word { lower, stem }
            })
    }
}

/// What is searched for: a word or a phrase.
pub(crate) struct Term {
    words: Vec<Word>,
    distance: usize,
}

impl Term {
    /// A string, or `{"term": "...", "distance": 0..2}`; `None` for anything else.
    pub fn parse(json: &Json, analyzer: &Analyzer) -> Option<Self> {
        let (text, distance) = match json {
            Json::String(text) => (text.as_str(), 0),
            Json::Object(members) => {
                let known = members
                    .iter()
                    .all(|(name, _)| matches!(name, "term" | "distance"));
                let distance = members.get("distance").map_or(Some(0), Json::as_i64)?;
                let distance = usize::try_from(distance)
                    .ok()
                    .filter(|d| known && *d <= DISTANCE_MOST)?;
                (members.get("term")?.as_str()?, distance)
            }
            _ => return None,
        };
        Some(Term {
            words: analyzer.words(text).collect(),
            distance,
        })
    }

    fn is_met(&self, at: usize, word: &Word) -> bool {
        let wanted = &self.words[at];
        wanted.stem == word.stem
            || (self.distance > 0 && within(&wanted.lower, &word.lower, self.distance))
    }
}

/// Whether two words are at most so many insertions, deletions and replacements of a letter apart.
fn within(a: &str, b: &str, distance: usize) -> bool {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > distance || a.len().max(b.len()) > FUZZY_LETTERS {
        return false;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()] <= distance
}

/// What a text has of some terms.
pub(crate) struct Counts {
    /// Words that count.
    pub length: u64,
    /// Occurrences of each term.
    pub hits: Vec<u64>,
}

/// Goes through a text. `turn` is called for every word and may end it.
pub(crate) fn count(
    analyzer: &Analyzer,
    text: &str,
    terms: &[Term],
    turn: &mut dyn FnMut() -> Result<(), QueryError>,
) -> Result<Counts, QueryError> {
    let mut counts = Counts {
        length: 0,
        hits: vec![0; terms.len()],
    };
    // For each term: whether its first words end at the word before, for every number of words.
    let mut begun: Vec<Vec<bool>> = terms
        .iter()
        .map(|term| vec![false; term.words.len()])
        .collect();
    for word in analyzer.words(text) {
        turn()?;
        counts.length += 1;
        for ((term, begun), hits) in terms.iter().zip(&mut begun).zip(&mut counts.hits) {
            let Some(last) = term.words.len().checked_sub(1) else {
                continue;
            };
            for at in (0..=last).rev() {
                begun[at] = (at == 0 || begun[at - 1]) && term.is_met(at, &word);
            }
            *hits += u64::from(begun[last]);
        }
    }
    Ok(counts)
}

/// What is known of all texts of a container at one path.
pub(crate) struct Statistics<'a> {
    /// Items.
    pub documents: f64,
    /// Words of all texts.
    pub words: f64,
    /// Items that have each term.
    pub hits: &'a [Json],
}

/// How well a text fits.
pub(crate) fn score(counts: &Counts, statistics: &Statistics<'_>) -> f64 {
    let mean = statistics.words / statistics.documents;
    let relative = if mean > 0.0 {
        counts.length as f64 / mean
    } else {
        1.0
    };
    let term = |(hits, documents): (&u64, &Json)| {
        let (frequency, documents) = (*hits as f64, documents.as_f64().unwrap_or(0.0));
        let rarity = (statistics.documents - documents + 0.5).max(0.0) / (documents + 0.5);
        (1.0 + rarity).ln() * frequency * (K1 + 1.0) / (frequency + K1 * (1.0 - B + B * relative))
    };
    counts.hits.iter().zip(statistics.hits).map(term).sum()
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
    fn words_meet_by_their_stem_and_phrases_in_order() {
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
        // Stop words count neither in the text nor in the term.
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

    #[test]
    fn fuzzy_terms_take_what_is_near() {
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
    fn letters_apart() {
        for (a, b, apart) in [
            ("red", "red", 0),
            ("red", "rod", 1),
            ("kitten", "sitting", 3),
            ("", "ab", 2),
        ] {
            assert!(within(a, b, apart), "{a} {b}");
            assert!(apart == 0 || !within(a, b, apart - 1), "{a} {b}");
        }
    }

    #[test]
    fn rare_terms_and_short_texts_score_higher() {
        let all = [Json::from(1), Json::from(50)];
        let statistics = Statistics {
            documents: 100.0,
            words: 1000.0,
            hits: &all,
        };
        let of = |length, first, second| {
            score(
                &Counts {
                    length,
                    hits: vec![first, second],
                },
                &statistics,
            )
        };
        assert!(of(10, 1, 0) > of(10, 0, 1));
        assert!(of(5, 1, 0) > of(10, 1, 0));
        assert!(of(10, 2, 0) > of(10, 1, 0) && of(10, 2, 0) < 2.0 * of(10, 1, 0));
        assert_eq!(of(10, 0, 0), 0.0);
    }
}
