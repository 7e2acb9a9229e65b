//! Full-text indexes: the words of the texts of a partition, one entry for each stem of a text, and
//! one for each word that differs from its stem.
//!
//! ```text
//! stem          length  place, distance to the next place, ...  [80]  numbers of variable length
//! FE word       length  place, distance to the next place, ...        word in lower case
//! (empty)       length                                                every text
//! FF                                                                  a text that is left out
//! ```
//!
//! The entries of a stem are in natural order, as those of a value are, so lookups read both alike;
//! the value of an entry has what a score needs. A word has a letter or digit, so neither the empty
//! stem nor a stem that begins with FE or FF is the stem of a word.
//!
//! Fuzzy terms compare words, not stems. Where all words of a stem in a text are the stem itself,
//! its entry is that of the word too. Otherwise the entry of the stem ends with 80, and each of its
//! words has an entry FE, a word that is its own stem as well. Words that are too long for fuzzy
//! terms have none.
//!
//! Promises: the entries of an index give the words of all texts of the partition, or at least one
//! text is left out, which its entry FF shows. A text is left out if its entries would be too many
//! or too long for a commit. The entries of an index of an earlier version
//! ([`TextIndex::has_words`]) have no words and no 80.

use super::composite::value_at;
use super::paths::{Step, steps_of};
use super::policy::SearchIndex;
use orrery_model::partition_key::murmur3_128;
use orrery_model::{Json, Object};
use orrery_sql::{Places, TextWords, is_compared};
use std::collections::BTreeMap;

/// The most entries of all texts of an item. Twice as many rows, those of the texts before and
/// after, fit into a commit beside the other entries of an item.
const ENTRIES_MAX: usize = 30_000;
/// The same limit of an earlier version, which wrote entries of stems only.
const STEMS_MAX: usize = 20_000;
/// The longest stem in bytes that stands in a key; a longer one is cut and ends with its digest.
const STEM_BYTES: usize = 200;
/// The longest value of an entry in bytes.
const VALUE_BYTES: usize = 32 << 10;
/// Bytes of stems that count as one index entry in the charge of a write, as those of strings do.
const BYTES_PER_UNIT: usize = 40;

/// The stem of the entries of all texts.
pub(crate) const EVERY_TEXT: &[u8] = &[];
/// The stem of the entries of texts that are left out.
pub(crate) const LEFT_OUT: &[u8] = &[0xFF];
/// The first byte of the stems of entries of words.
pub(crate) const WORD: u8 = 0xFE;
/// The last byte of the value of a stem whose words have entries. No number ends with it.
const HAS_WORDS: u8 = 0x80;

/// A full-text index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TextIndex {
    /// The path of the texts, which has only names.
    pub path: Vec<Step>,
    /// The language, a code of the full-text policy.
    pub language: String,
    /// Name of the index in the dictionary of paths. The stems of two languages are different
    /// entries, so the name has the language.
    pub text: String,
    /// False if words have no entries, as an earlier version wrote them.
    pub has_words: bool,
}

impl TextIndex {
    /// Returns the index of an entry of `fullTextIndexes` over texts of a language.
    pub(crate) fn of(entry: &SearchIndex, language: &str) -> Self {
        TextIndex {
            path: steps_of(&entry.names),
            language: language.to_owned(),
            text: format!("text {} {language}", entry.path),
            has_words: true,
        }
    }

    /// Returns the index with the entries of an earlier version, which had none for words.
    pub(crate) fn without_words(mut self) -> Self {
        self.has_words = false;
        self
    }

    /// Returns the most entries of all texts of an item.
    pub(crate) fn entries_max(&self) -> usize {
        match self.has_words {
            true => ENTRIES_MAX,
            false => STEMS_MAX,
        }
    }

    /// Returns the entries of the text of an item, by stem. An item without a text has none. A text
    /// of more than `entries_max` entries is left out.
    pub(crate) fn entries_of(
        &self,
        item: &Object,
        entries_max: usize,
    ) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut entries = BTreeMap::new();
        let Some(text) = value_at(&self.path, item, &Json::Null).and_then(Json::as_str) else {
            return entries;
        };
        let words = TextWords::of(&self.language, text);
        for (stem, (places, places_of_words)) in &words.stems {
            let mut value = written_places(words.length, places);
            if self.has_words && has_word_entries(stem, places_of_words) {
                value.push(HAS_WORDS);
                for (word, places) in places_of_words {
                    if is_compared(word) {
                        entries.insert(word_key(word), written_places(words.length, places));
                    }
                }
            }
            let is_too_long = value.len() > VALUE_BYTES;
            entries.insert(stem_key(stem), value);
            if is_too_long || entries.len() > entries_max {
                return BTreeMap::from([(LEFT_OUT.to_vec(), Vec::new())]);
            }
        }
        entries.insert(EVERY_TEXT.to_vec(), written_places(words.length, &[]));
        entries
    }

    /// Returns a digest that differs between texts of different words.
    pub(crate) fn digest(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> [u8; 16] {
        let mut bytes = Vec::new();
        for (stem, value) in entries {
            bytes.extend_from_slice(stem);
            bytes.push(0);
            append_number(value.len() as u64, &mut bytes);
            bytes.extend_from_slice(value);
        }
        murmur3_128(&bytes)
    }

    /// Returns the units that a write is charged for these entries.
    pub(crate) fn units(entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> u32 {
        let stems = entries.keys().filter(|stem| stem.first() != Some(&WORD));
        let bytes: usize = stems.map(Vec::len).sum();
        1 + bytes.div_ceil(BYTES_PER_UNIT) as u32
    }
}

/// Returns a stem as keys have it.
pub(crate) fn stem_key(stem: &str) -> Vec<u8> {
    let bytes = stem.as_bytes();
    if bytes.len() <= STEM_BYTES {
        return bytes.to_vec();
    }
    let digest = format!("{:032x}", u128::from_be_bytes(murmur3_128(bytes)));
    [&bytes[..STEM_BYTES], digest.as_bytes()].concat()
}

/// Returns true if the words of a stem in a text have entries of their own.
fn has_word_entries(stem: &str, words: &BTreeMap<String, Places>) -> bool {
    let has_only_stem = words.keys().all(|word| word == stem);
    // The key of a long stem does not have the whole word.
    !has_only_stem || stem.len() > STEM_BYTES
}

/// Returns the stem of the entries of a word that fuzzy terms are compared with.
pub(crate) fn word_key(word: &str) -> Vec<u8> {
    [&[WORD], word.as_bytes()].concat()
}

/// Returns the word of the entries with a stem, and true if all of these entries are of the word
/// alone. Returns `None` if they are not of a single word.
pub(crate) fn word_of(stem: &[u8]) -> Option<(&str, bool)> {
    let (word, is_word) = match stem {
        [WORD, word @ ..] => (word, true),
        stem if stem.len() > STEM_BYTES => return None,
        stem => (stem, false),
    };
    match std::str::from_utf8(word) {
        Ok(word) if !word.is_empty() => Some((word, is_word)),
        _ => None,
    }
}

/// The words of one stem in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StemPlaces {
    /// Number of words of the text.
    pub length: u64,
    /// The ascending places of the stem among the words.
    pub places: Vec<u64>,
}

impl StemPlaces {
    /// Reads the number of words of the text from the value of an entry, which is left behind it.
    pub(crate) fn read_length(value: &mut &[u8]) -> Option<u64> {
        read_number(value)
    }

    /// Returns true if the words of the stem have entries of their own.
    pub(crate) fn has_words(value: &[u8]) -> bool {
        value.last() == Some(&HAS_WORDS)
    }

    /// Returns the number of places in the value of an entry.
    pub(crate) fn count(value: &[u8]) -> u64 {
        // Every number ends with a byte below 80; the first number is the length.
        let numbers = value.iter().filter(|byte| **byte < 0x80).count();
        numbers.saturating_sub(1) as u64
    }

    /// Returns the value of an entry whose words have no entries of their own.
    pub(crate) fn write(&self) -> Vec<u8> {
        written_places(self.length, &self.places)
    }

    /// Reads the value of an entry. Returns `None` for a damaged value.
    pub(crate) fn read(value: &[u8]) -> Option<Self> {
        let mut value = value.strip_suffix(&[HAS_WORDS]).unwrap_or(value);
        let length = read_number(&mut value)?;
        let mut places = Vec::new();
        let mut last = 0;
        while !value.is_empty() {
            last = u64::checked_add(last, read_number(&mut value)?)?;
            places.push(last);
        }
        Some(StemPlaces { length, places })
    }
}

/// Returns the number of words that an entry of a full-text index stands for. The sum over the
/// entries of an index is the number of words of all texts.
pub(crate) fn words_of(stem: &[u8], value: &[u8]) -> i64 {
    match stem {
        EVERY_TEXT | LEFT_OUT | [WORD, ..] => 0,
        _ => StemPlaces::count(value) as i64,
    }
}

/// Returns the value of an entry.
fn written_places(length: u64, places: &[u64]) -> Vec<u8> {
    let mut value = Vec::new();
    append_number(length, &mut value);
    let mut last = 0;
    for place in places {
        append_number(place - last, &mut value);
        last = *place;
    }
    value
}

/// Appends a number as groups of seven bits, the lowest first; all bytes but the last have the
/// highest bit.
fn append_number(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn index() -> TextIndex {
        TextIndex {
            path: vec![Step::Name("t".to_owned())],
            language: "en-US".to_owned(),
            text: "text /t en-US".to_owned(),
            has_words: true,
        }
    }

    fn entries(text: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let item = format!(r#"{{"t":{}}}"#, Json::from(text));
        let json = parse(item.as_bytes()).expect("JSON");
        index().entries_of(json.as_object().expect("an object"), ENTRIES_MAX)
    }

    #[test]
    fn the_entries_of_a_text_have_its_stems_and_their_places() {
        let entries = entries("The red rods, a red rod and the radar.");
        let places = |stem: &str| StemPlaces::read(&entries[stem.as_bytes()]).expect("an entry");
        assert_eq!(entries.len(), 6);
        assert_eq!(places("red").places, [0, 2]);
        assert_eq!(places("rod").places, [1, 3]);
        assert_eq!(places("radar").places, [4]);
        assert_eq!(places("radar").length, 5);
        let words: i64 = entries
            .iter()
            .map(|(stem, value)| words_of(stem, value))
            .sum();
        assert_eq!(words, 5);

        // One of the words with the stem "rod" is another word, so both have entries.
        let has_words = |stem: &str| StemPlaces::has_words(&entries[stem.as_bytes()]);
        assert!(has_words("rod") && !has_words("red") && !has_words("radar"));
        let places = |word: &str| StemPlaces::read(&entries[&word_key(word)]).expect("an entry");
        assert_eq!(places("rods").places, [1]);
        assert_eq!(places("rod").places, [3]);
        assert_eq!(StemPlaces::count(&entries[&b"rod"[..]]), 2);
    }

    #[test]
    fn an_index_of_an_earlier_version_has_entries_of_stems_alone() {
        let item = parse(br#"{"t":"red rods"}"#).expect("JSON");
        let item = item.as_object().expect("an object");
        let entries = index().without_words().entries_of(item, ENTRIES_MAX);
        let stems: Vec<_> = entries.keys().map(Vec::as_slice).collect();
        assert_eq!(stems, [EVERY_TEXT, b"red", b"rod"]);
        assert!(entries.values().all(|value| !StemPlaces::has_words(value)));
    }

    #[test]
    fn long_words_of_many_bytes_are_compared_and_longer_ones_are_not() {
        let (long, longer) = ("𐌰".repeat(64), "𐌰".repeat(65));
        let keys: Vec<_> = entries(&format!("{long} {longer}")).into_keys().collect();
        let words: Vec<_> = keys.iter().filter_map(|key| word_of(key)).collect();
        assert_eq!(words, [(long.as_str(), true)]);
    }

    #[test]
    fn numbers_of_any_size_are_read_back() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 300, 16_384, u64::from(u32::MAX), u64::MAX];
        numbers
            .iter()
            .for_each(|number| append_number(*number, &mut bytes));
        let mut rest = &bytes[..];
        let read: Vec<u64> = std::iter::from_fn(|| read_number(&mut rest)).collect();
        assert_eq!(read, numbers);
        assert_eq!(StemPlaces::read(&[0x80]), None);
    }

    #[test]
    fn a_text_with_too_many_words_is_left_out_and_long_words_are_not() {
        let left_out = BTreeMap::from([(LEFT_OUT.to_vec(), Vec::new())]);
        let long = ["x".repeat(300), "x".repeat(301), "é".repeat(900_000)];
        let keys: Vec<_> = entries(&long.join(" ")).into_keys().collect();
        assert_eq!(keys.len(), 4, "every long word has a key of its own");
        assert!(keys.iter().all(|key| key.len() <= 232));
        let words = ["rod", "rods"].map(|end| (0..20_000).map(move |n| format!("w{n}{end}")));
        let words: Vec<String> = words.into_iter().flatten().collect();
        assert_eq!(entries(&words.join(" ")), left_out);
        let many: Vec<String> = (0..40_000).map(|n| format!("w{n}")).collect();
        assert_eq!(entries(&many.join(" ")), left_out);
        assert_eq!(entries(&"radar ".repeat(40_000)), left_out);
        assert_eq!(entries("of the").len(), 1, "a text of stop words is a text");
    }
}
