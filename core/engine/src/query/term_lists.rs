//! The entries of a full-text index that the words of search terms lead to: those of the stem of
//! each word, and for a fuzzy term those of the words that are like it.
//!
//! A few lists are merged while they are read. Where many words are like a word, most of them are
//! rare, so the short lists are read into memory before the merge, as one list.

use super::like_words::{LikeScan, LikeStep, WordList};
use super::posting::damaged_row;
use crate::index::texts::StemPlaces;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use bytes::Bytes;
use orrery_model::Result;
use orrery_sql::TermWord;
use orrery_storage::{Direction, Snapshot};
use std::collections::BTreeMap;

/// Lists of all terms that are merged while they are read.
const LISTS_MAX: usize = 256;
/// Lists of a word that are merged without reading some of them before.
const FEW_LISTS: usize = 32;
/// The most entries of a list that is read before the merge.
const SHORT_LIST: usize = 1_024;
/// The most words of an index that are like those of the terms.
const WORDS_MAX: usize = 1 << 14;
/// The most entries of all terms that are read before the merge: about 6 MiB of them.
const GATHERED_MAX: usize = 1 << 16;
/// Keys and entries between two calls of the check point.
const CHECK_INTERVAL: u64 = 1_024;

/// The entry of a stem or word for a text.
#[derive(Clone, Debug)]
pub(crate) struct WordEntry {
    /// Number of the item.
    pub number: ItemNumber,
    /// EPK prefix of the item.
    pub epk_prefix: EpkPrefix,
    /// The length of the text and the places of the word.
    pub value: Bytes,
}

impl WordEntry {
    /// Reads a row of the index.
    ///
    /// # Errors
    /// 500 for a damaged key.
    pub(crate) fn read((key, value): (Bytes, Bytes)) -> Result<Self> {
        let (_, number, epk_prefix) = keys::read_term(&key).ok_or_else(damaged_row)?;
        Ok(WordEntry {
            number,
            epk_prefix,
            value,
        })
    }
}

/// The entries that a word of a term leads to.
#[derive(Debug, Default)]
pub(crate) struct WordLists {
    /// The lists that are merged while they are read.
    pub lists: Vec<WordList>,
    /// The entries of all other lists, by number and one for each text.
    pub gathered: Vec<WordEntry>,
}

/// The entries that the words of some terms lead to.
#[derive(Debug, Default)]
pub(crate) struct TermLists {
    /// The entries of each word of each term.
    pub terms: Vec<Vec<WordLists>>,
    /// Words of the index that were compared with those of fuzzy terms.
    pub compared_words: u64,
    /// Entries that were read before the merge.
    pub entries: u64,
}

impl TermLists {
    /// Returns the entries in the index with the number `path`. Returns `None` if they are too many
    /// for a merge.
    ///
    /// # Errors
    /// 500 if the store cannot be read; those of `check_point`.
    pub(crate) fn of(
        snapshot: &dyn Snapshot,
        path: PathNumber,
        terms: &[Vec<TermWord>],
        check_point: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Self>> {
        let mut finder = Finder {
            snapshot,
            path,
            check_point,
            words: 0,
            lists: 0,
            gathered: 0,
            found: TermLists::default(),
        };
        for term in terms {
            let mut words = Vec::with_capacity(term.len());
            for word in term {
                match finder.lists_of(word)? {
                    Some(lists) => words.push(lists),
                    None => return Ok(None),
                }
            }
            finder.found.terms.push(words);
        }
        Ok(Some(finder.found))
    }
}

/// The search for the entries of some terms.
struct Finder<'a> {
    snapshot: &'a dyn Snapshot,
    path: PathNumber,
    check_point: &'a dyn Fn() -> Result<()>,
    /// Words so far.
    words: usize,
    /// Lists to be merged so far.
    lists: usize,
    /// Entries of lists that were read before the merge.
    gathered: usize,
    found: TermLists,
}

impl Finder<'_> {
    /// Returns the entries that a word of a term leads to, or `None` if they are too many.
    fn lists_of(&mut self, word: &TermWord) -> Result<Option<WordLists>> {
        let Some(mut lists) = self.words_of(word)? else {
            return Ok(None);
        };
        let mut gathered = Vec::new();
        if lists.len() > FEW_LISTS {
            match self.gather(&mut lists)? {
                Some(entries) => gathered = entries,
                None => return Ok(None),
            }
        }
        self.lists += lists.len();
        Ok((self.lists <= LISTS_MAX).then_some(WordLists { lists, gathered }))
    }

    /// Returns the lists of a word of a term, that of its stem first.
    fn words_of(&mut self, word: &TermWord) -> Result<Option<Vec<WordList>>> {
        let mut lists = vec![WordList::of_stem(&word.stem)];
        let Some(like) = &word.like else {
            return Ok(Some(lists));
        };
        let mut scan = LikeScan::open(self.snapshot, self.path, like);
        let mut keys = 0_u64;
        while let Some(step) = scan.step()? {
            keys += 1;
            if keys.is_multiple_of(CHECK_INTERVAL) {
                (self.check_point)()?;
            }
            self.found.compared_words += u64::from(step.is_comparison());
            // The entries of the stem of the term count already.
            if let LikeStep::Found(list) = step
                && list.stem != lists[0].stem
            {
                lists.push(list);
                self.words += 1;
            }
            if self.words > WORDS_MAX {
                return Ok(None);
            }
        }
        Ok(Some(lists))
    }

    /// Reads the short lists and leaves the long ones. Returns the entries by number, one for each
    /// text.
    fn gather(&mut self, lists: &mut Vec<WordList>) -> Result<Option<Vec<WordEntry>>> {
        let mut texts: BTreeMap<ItemNumber, (EpkPrefix, StemPlaces)> = BTreeMap::new();
        let mut long = Vec::new();
        for list in lists.drain(..) {
            let entries = self.entries_of(&list)?;
            let Some(entries) = entries else {
                long.push(list);
                continue;
            };
            self.gathered += entries.len();
            if self.gathered > GATHERED_MAX {
                return Ok(None);
            }
            for entry in entries {
                if list.is_of_word && StemPlaces::has_words(&entry.value) {
                    continue;
                }
                let read = StemPlaces::read(&entry.value).ok_or_else(damaged_row)?;
                let (_, text) = texts.entry(entry.number).or_insert_with(|| {
                    let text = StemPlaces {
                        length: read.length,
                        places: Vec::new(),
                    };
                    (entry.epk_prefix, text)
                });
                text.places.extend(read.places);
            }
        }
        *lists = long;
        let mut gathered = Vec::with_capacity(texts.len());
        for (number, (epk_prefix, mut text)) in texts {
            // A word that is like the one of the term may have its stem as well.
            text.places.sort_unstable();
            text.places.dedup();
            gathered.push(WordEntry {
                number,
                epk_prefix,
                value: Bytes::from(text.write()),
            });
        }
        Ok(Some(gathered))
    }

    /// Returns the entries of a list, or `None` for a long one.
    fn entries_of(&mut self, list: &WordList) -> Result<Option<Vec<WordEntry>>> {
        let range = keys::words(self.path, &list.stem);
        let mut entries = Vec::new();
        for row in scan(self.snapshot, &range, Direction::Forward) {
            if entries.len() == SHORT_LIST {
                return Ok(None);
            }
            entries.push(WordEntry::read(row?)?);
            self.found.entries += 1;
            if self.found.entries.is_multiple_of(CHECK_INTERVAL) {
                (self.check_point)()?;
            }
        }
        Ok(Some(entries))
    }
}
