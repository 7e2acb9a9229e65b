//! Full-text indexes: the words of the texts of a partition, one entry for each stem of a text.
//!
//! ```text
//! stem          length  place, distance to the next place, ...        numbers of variable length
//! (empty)       length                                                every text
//! FF                                                                  a text that is left out
//! ```
//!
//! The entries of a stem are in natural order, as those of a value are, so lookups read both alike;
//! the value of an entry has what a score needs. A word has a letter or digit, so neither the empty
//! stem nor FF is the stem of a word.
//!
//! Promises: the entries of an index give the words of all texts of the partition, or at least one
//! text is left out, which its entry FF shows. A text is left out if its entries would be too many
//! or too long for a commit. Left out: the words themselves, which fuzzy terms need.

use super::composite::value_at;
use super::paths::Step;
use super::policy::SearchIndex;
use orrery_model::partition_key::murmur3_128;
use orrery_model::{Json, Object};
use orrery_sql::TextWords;
use std::collections::BTreeMap;

/// The most stems of all texts of an item that are indexed. Twice as many rows, those of the texts
/// before and after, fit into a commit beside the other entries of an item.
pub(crate) const STEMS_MAX: usize = 20_000;
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
}

impl TextIndex {
    /// Returns the index of an entry of `fullTextIndexes` over texts of a language.
    pub(crate) fn of(entry: &SearchIndex, language: &str) -> Self {
        TextIndex {
            path: entry.names.iter().cloned().map(Step::Name).collect(),
            language: language.to_owned(),
            text: format!("text {} {language}", entry.path),
        }
    }

    /// Returns the entries of the text of an item, by stem. An item without a text has none. A text
    /// of more than `stems_max` stems is left out.
    pub(crate) fn entries_of(&self, item: &Object, stems_max: usize) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut entries = BTreeMap::new();
        let Some(text) = value_at(&self.path, item, &Json::Null).and_then(Json::as_str) else {
            return entries;
        };
        let words = TextWords::of(&self.language, text);
        let mut is_left_out = words.stems.len() > stems_max;
        for (stem, places) in &words.stems {
            let mut value = Vec::new();
            append_number(words.length, &mut value);
            let mut last = 0;
            for place in places {
                append_number(place - last, &mut value);
                last = *place;
            }
            is_left_out |= value.len() > VALUE_BYTES;
            if is_left_out {
                return BTreeMap::from([(LEFT_OUT.to_vec(), Vec::new())]);
            }
            entries.insert(stem_key(stem), value);
        }
        let mut length = Vec::new();
        append_number(words.length, &mut length);
        entries.insert(EVERY_TEXT.to_vec(), length);
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
        let bytes: usize = entries.keys().map(Vec::len).sum();
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

    /// Reads the value of an entry. Returns `None` for a damaged value.
    pub(crate) fn read(mut value: &[u8]) -> Option<Self> {
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
        EVERY_TEXT | LEFT_OUT => 0,
        // Every number ends with a byte below 80; the first number is the length.
        _ => (value.iter().filter(|byte| **byte < 0x80).count() as i64 - 1).max(0),
    }
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
        }
    }

    fn entries(text: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let item = format!(r#"{{"t":{}}}"#, Json::from(text));
        let json = parse(item.as_bytes()).expect("JSON");
        index().entries_of(json.as_object().expect("an object"), STEMS_MAX)
    }

    #[test]
    fn the_entries_of_a_text_have_its_stems_and_their_places() {
        let entries = entries("The red rods, a red rod and the radar.");
        let places = |stem: &str| StemPlaces::read(&entries[stem.as_bytes()]).expect("an entry");
        assert_eq!(entries.len(), 4);
        assert_eq!(places("red").places, [0, 2]);
        assert_eq!(places("rod").places, [1, 3]);
        assert_eq!(places("radar").places, [4]);
        assert_eq!(places("radar").length, 5);
        let words: i64 = entries
            .iter()
            .map(|(stem, value)| words_of(stem, value))
            .sum();
        assert_eq!(words, 5);
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
        let many: Vec<String> = (0..40_000).map(|n| format!("w{n}")).collect();
        assert_eq!(entries(&many.join(" ")), left_out);
        assert_eq!(entries(&"radar ".repeat(40_000)), left_out);
        assert_eq!(entries("of the").len(), 1, "a text of stop words is a text");
    }
}
