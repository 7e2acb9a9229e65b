//! The texts that have a word of a query, from the entries of a full-text index.
//!
//! The entries of each stem are in natural order, so the lists of all stems are merged: each step
//! takes the entries of one text and counts the terms in it.

use super::posting::damaged_row;
use super::term_lists::{TermLists, WordEntry, WordLists};
use crate::index::texts::StemPlaces;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan;
use orrery_model::Result;
use orrery_storage::{Direction, Snapshot};

/// Entries by number, read one by one.
struct EntryList<'a> {
    entries: Box<dyn Iterator<Item = Result<WordEntry>> + 'a>,
    /// The next entry; `None` behind the last one.
    next: Option<WordEntry>,
    /// True if the entries were read before.
    is_gathered: bool,
}

impl<'a> EntryList<'a> {
    /// Returns the entries of a stem or word of an index.
    fn stored(snapshot: &'a dyn Snapshot, path: PathNumber, stem: &[u8]) -> Self {
        let range = keys::words(path, stem);
        let rows = scan(snapshot, &range, Direction::Forward);
        EntryList {
            entries: Box::new(rows.map(|row| row.and_then(WordEntry::read))),
            next: None,
            is_gathered: false,
        }
    }

    fn gathered(entries: &'a [WordEntry]) -> Self {
        EntryList {
            entries: Box::new(entries.iter().cloned().map(Ok)),
            next: None,
            is_gathered: true,
        }
    }

    fn advance(&mut self) -> Result<()> {
        self.next = self.entries.next().transpose()?;
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

/// A use of a list: its index, and [`super::like_words::WordList::is_of_word`].
type ListUse = (usize, bool);

/// The texts with a word of a query.
pub(super) struct TextHits<'a> {
    lists: Vec<EntryList<'a>>,
    /// The lists of each word of each term.
    terms: Vec<Vec<Vec<ListUse>>>,
}

impl<'a> TextHits<'a> {
    /// Opens the entries of the words of some terms, in the index with the number `path`.
    pub(super) fn open(snapshot: &'a dyn Snapshot, path: PathNumber, words: &'a TermLists) -> Self {
        let all = words.terms.iter().flatten().flat_map(|word| &word.lists);
        let mut stems: Vec<&[u8]> = all.map(|list| &list.stem[..]).collect();
        stems.sort_unstable();
        stems.dedup();
        let mut lists = Vec::with_capacity(stems.len());
        for stem in &stems {
            lists.push(EntryList::stored(snapshot, path, stem));
        }
        let mut terms = Vec::with_capacity(words.terms.len());
        for term in &words.terms {
            let mut words = Vec::with_capacity(term.len());
            for WordLists {
                lists: lists_of_word,
                gathered,
            } in term
            {
                let mut uses: Vec<ListUse> = Vec::with_capacity(lists_of_word.len() + 1);
                for list in lists_of_word {
                    let at = stems.binary_search(&&list.stem[..]);
                    uses.extend(at.ok().map(|at| (at, list.is_of_word)));
                }
                if !gathered.is_empty() {
                    uses.push((lists.len(), false));
                    lists.push(EntryList::gathered(gathered));
                }
                words.push(uses);
            }
            terms.push(words);
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
                    entries += u64::from(!list.is_gathered);
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
