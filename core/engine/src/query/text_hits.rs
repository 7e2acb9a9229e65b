//! The texts that have a word of a query, from the entries of a full-text index.
//!
//! The entries of each stem are in natural order, so the lists of all stems are merged: each step
//! takes the entries of one text and counts the terms in it.

use super::like_words::{TermLists, WordList};
use super::posting::damaged_row;
use crate::index::texts::StemPlaces;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use bytes::Bytes;
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};

/// An entry of a stem.
struct WordEntry {
    number: ItemNumber,
    epk_prefix: EpkPrefix,
    value: Bytes,
}

/// The entries of a stem, read one by one.
struct StemList<'a> {
    rows: Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + 'a>,
    /// The next entry; `None` behind the last one.
    next: Option<WordEntry>,
}

impl StemList<'_> {
    fn advance(&mut self) -> Result<()> {
        self.next = match self.rows.next().transpose()? {
            None => None,
            Some((key, value)) => {
                let (_, number, epk_prefix) = keys::read_term(&key).ok_or_else(damaged_row)?;
                Some(WordEntry {
                    number,
                    epk_prefix,
                    value,
                })
            }
        };
        Ok(())
    }
}

/// A text with a word of a query.
pub(super) struct TextHit {
    pub number: ItemNumber,
    pub epk_prefix: EpkPrefix,
    /// Number of words of the text.
    pub length: u64,
    /// Occurrences of each term.
    pub hits: Vec<u64>,
    /// Entries that were read for the text.
    pub entries: u64,
}

/// A use of a list: its index, and [`WordList::is_of_word`].
type ListUse = (usize, bool);

/// The texts with a word of a query.
pub(super) struct TextHits<'a> {
    lists: Vec<StemList<'a>>,
    /// The lists of each word of each term.
    terms: Vec<Vec<Vec<ListUse>>>,
}

impl<'a> TextHits<'a> {
    /// Opens the entries of the words of some terms, in the index with the number `path`.
    pub(super) fn open(snapshot: &'a dyn Snapshot, path: PathNumber, words: &TermLists) -> Self {
        let all = words.terms.iter().flatten().flatten();
        let mut stems: Vec<&[u8]> = all.map(|list| &list.stem[..]).collect();
        stems.sort_unstable();
        stems.dedup();
        let mut lists = Vec::with_capacity(stems.len());
        for stem in &stems {
            let range = keys::words(path, stem);
            lists.push(StemList {
                rows: Box::new(scan(snapshot, &range, Direction::Forward)),
                next: None,
            });
        }
        let used = |list: &WordList| {
            let at = stems.binary_search(&&list.stem[..]).ok()?;
            Some((at, list.is_of_word))
        };
        let mut terms = Vec::with_capacity(words.terms.len());
        for term in &words.terms {
            let mut lists_of_words = Vec::with_capacity(term.len());
            for lists in term {
                lists_of_words.push(lists.iter().filter_map(used).collect());
            }
            terms.push(lists_of_words);
        }
        TextHits { lists, terms }
    }

    /// Calls `take` with each text in natural order.
    ///
    /// # Errors
    /// 500 if the store cannot be read or an entry is damaged; those of `take`.
    pub(super) fn for_each(mut self, mut take: impl FnMut(TextHit) -> Result<()>) -> Result<()> {
        for list in &mut self.lists {
            list.advance()?;
        }
        loop {
            let next = self.lists.iter().filter_map(|list| list.next.as_ref());
            let Some(first) = next.min_by_key(|entry| entry.number) else {
                return Ok(());
            };
            let (number, epk_prefix) = (first.number, first.epk_prefix);
            let mut value = &first.value[..];
            let length = StemPlaces::read_length(&mut value).ok_or_else(damaged_row)?;
            let hits = self.hits(number)?;
            let mut entries = 0;
            for list in &mut self.lists {
                let is_of_text = list.next.as_ref().is_some_and(|next| next.number == number);
                if is_of_text {
                    list.advance()?;
                    entries += 1;
                }
            }
            take(TextHit {
                number,
                epk_prefix,
                length,
                hits,
                entries,
            })?;
        }
    }

    /// Returns how often each term occurs in the text of an item.
    fn hits(&self, number: ItemNumber) -> Result<Vec<u64>> {
        let mut hits = Vec::with_capacity(self.terms.len());
        for term in &self.terms {
            hits.push(match &term[..] {
                [] => 0,
                [word] => self.occurrences(word, number)?,
                phrase => self.phrases(phrase, number)?,
            });
        }
        Ok(hits)
    }

    /// Returns how often a word of a term occurs in the text of an item.
    fn occurrences(&self, word: &[ListUse], number: ItemNumber) -> Result<u64> {
        match word {
            [(list, false)] => {
                let entry = self.entry(*list, number);
                Ok(entry.map_or(0, |entry| StemPlaces::count(&entry.value)))
            }
            _ => Ok(self.places(word, number)?.len() as u64),
        }
    }

    /// Returns the ascending places of a word of a term in the text of an item.
    fn places(&self, word: &[ListUse], number: ItemNumber) -> Result<Vec<u64>> {
        let (mut places, mut lists) = (Vec::new(), 0);
        for (list, is_of_word) in word {
            let Some(entry) = self.entry(*list, number) else {
                continue;
            };
            if *is_of_word && StemPlaces::has_words(&entry.value) {
                continue;
            }
            let of_list = StemPlaces::read(&entry.value).ok_or_else(damaged_row)?;
            places.extend(of_list.places);
            lists += 1;
        }
        // A word that is like the one of the term may have its stem as well.
        if lists > 1 {
            places.sort_unstable();
            places.dedup();
        }
        Ok(places)
    }

    /// Returns how often the words of a term follow each other in the text of an item.
    fn phrases(&self, words: &[Vec<ListUse>], number: ItemNumber) -> Result<u64> {
        let mut ends: Option<Vec<u64>> = None;
        for word in words {
            let places = self.places(word, number)?;
            let places = match ends {
                None => places,
                Some(before) => {
                    let follows = |place: &u64| {
                        let before_it = place.checked_sub(1);
                        before_it.is_some_and(|place| before.binary_search(&place).is_ok())
                    };
                    places.into_iter().filter(follows).collect()
                }
            };
            if places.is_empty() {
                return Ok(0);
            }
            ends = Some(places);
        }
        Ok(ends.map_or(0, |ends| ends.len() as u64))
    }

    fn entry(&self, list: usize, number: ItemNumber) -> Option<&WordEntry> {
        self.lists[list]
            .next
            .as_ref()
            .filter(|entry| entry.number == number)
    }
}
