//! The texts that have a word of a query, from the entries of a full-text index.
//!
//! The entries of each stem are in natural order, so the lists of all stems are merged: each step
//! takes the entries of one text and counts the terms in it.

use super::posting::damaged_row;
use crate::index::texts::{StemPlaces, stem_key, words_of};
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

/// The texts with a word of a query.
pub(super) struct TextHits<'a> {
    lists: Vec<StemList<'a>>,
    /// The lists of the stems of each term, in their order.
    terms: Vec<Vec<usize>>,
    /// The stem of each list.
    stems: Vec<&'a str>,
}

impl<'a> TextHits<'a> {
    /// Opens the entries of the stems of some terms, in the index with the number `path`.
    pub(super) fn open(
        snapshot: &'a dyn Snapshot,
        path: PathNumber,
        terms: &'a [Vec<String>],
    ) -> Self {
        let mut stems: Vec<&str> = terms.iter().flatten().map(String::as_str).collect();
        stems.sort_unstable();
        stems.dedup();
        let mut lists = Vec::with_capacity(stems.len());
        for stem in &stems {
            let range = keys::words(path, &stem_key(stem));
            lists.push(StemList {
                rows: Box::new(scan(snapshot, &range, Direction::Forward)),
                next: None,
            });
        }
        let place = |stem: &String| stems.binary_search(&stem.as_str()).ok();
        let mut lists_of_terms = Vec::with_capacity(terms.len());
        for term in terms {
            lists_of_terms.push(term.iter().filter_map(place).collect());
        }
        TextHits {
            lists,
            terms: lists_of_terms,
            stems,
        }
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
                [list] => match self.entry(*list, number) {
                    Some(entry) => words_of(self.stems[*list].as_bytes(), &entry.value) as u64,
                    None => 0,
                },
                phrase => self.phrases(phrase, number)?,
            });
        }
        Ok(hits)
    }

    /// Returns how often the stems of some lists follow each other in the text of an item.
    fn phrases(&self, lists: &[usize], number: ItemNumber) -> Result<u64> {
        let mut ends: Option<Vec<u64>> = None;
        for list in lists {
            let Some(entry) = self.entry(*list, number) else {
                return Ok(0);
            };
            let places = StemPlaces::read(&entry.value)
                .ok_or_else(damaged_row)?
                .places;
            ends = Some(match ends {
                None => places,
                Some(before) => {
                    let follows = |place: &u64| {
                        let before_it = place.checked_sub(1);
                        before_it.is_some_and(|place| before.binary_search(&place).is_ok())
                    };
                    places.into_iter().filter(follows).collect()
                }
            });
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
