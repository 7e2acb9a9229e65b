//! The lookup of a word of a fuzzy term in a full-text index.

use super::like_words::{LikeScan, LikeStep, WordList};
use super::lookup::{ItemMatch, count_keys};
use super::posting::read_entry;
use crate::index::texts::StemPlaces;
use crate::partition::keys::{self, ItemNumber, PathNumber};
use crate::partition::{scan, scan_keys};
use orrery_model::Result;
use orrery_sql::TermWord;
use orrery_storage::{Direction, Snapshot};
use std::cell::Cell;
use std::rc::Rc;

/// Keys between two calls of the check point.
const CHECK_INTERVAL: u64 = 1_024;

/// The entries of the words that match a word of a fuzzy term.
#[derive(Clone, Debug)]
pub(crate) struct LikeLookup {
    /// Number of the index.
    path: PathNumber,
    word: TermWord,
    /// Keys that were read to find the words.
    compared: Rc<Cell<u64>>,
}

impl LikeLookup {
    /// Returns the lookup in the index with the number `path`.
    pub(crate) fn new(path: PathNumber, word: &TermWord) -> Self {
        LikeLookup {
            path,
            word: word.clone(),
            compared: Rc::default(),
        }
    }

    /// Returns the keys that were read so far to find the words.
    pub(crate) fn compared_words(&self) -> u64 {
        self.compared.get()
    }

    /// Returns the items from the number `from` on, unsorted, or `None` if more than `entries_max`
    /// entries would have to be read.
    ///
    /// # Errors
    /// 500 if the store cannot be read or an entry is damaged; those of `check_point`.
    pub(crate) fn collect(
        &self,
        snapshot: &dyn Snapshot,
        check_point: &dyn Fn() -> Result<()>,
        from: ItemNumber,
        entries_max: usize,
    ) -> Result<Option<Vec<ItemMatch>>> {
        let mut matches = Vec::new();
        let mut entries_left = entries_max;
        let mut take = |list: &WordList| {
            let found = self.matches_of(snapshot, list, from, entries_left)?;
            let Some((found, entries)) = found else {
                return Ok(false);
            };
            entries_left -= entries;
            matches.extend(found);
            Ok(true)
        };
        let mut is_complete = take(&WordList::of_stem(&self.word.stem))?;
        if let Some(like) = &self.word.like {
            let mut scan = LikeScan::open(snapshot, self.path, like);
            while is_complete && let Some(step) = scan.step()? {
                self.compared.set(self.compared.get() + 1);
                if self.compared.get().is_multiple_of(CHECK_INTERVAL) {
                    check_point()?;
                }
                if let LikeStep::Found(list) = step {
                    is_complete = take(&list)?;
                }
            }
        }
        Ok(is_complete.then_some(matches))
    }

    /// Returns the items of a list from the number `from` on, and the number of entries. Returns
    /// `None` for more than `entries_max` entries.
    fn matches_of(
        &self,
        snapshot: &dyn Snapshot,
        list: &WordList,
        from: ItemNumber,
        entries_max: usize,
    ) -> Result<Option<(Vec<ItemMatch>, usize)>> {
        let (mut start, end) = keys::words(self.path, &list.stem);
        start.extend_from_slice(&from.to_be_bytes());
        let range = (start, end);
        let match_of = |key: &[u8]| {
            let (_, number, epk_prefix) = read_entry(key)?;
            Ok(ItemMatch {
                number,
                epk_prefix,
                is_exact: true,
            })
        };
        let (mut matches, mut entries) = (Vec::new(), 0);
        if list.is_of_word {
            for row in scan(snapshot, &range, Direction::Forward) {
                let (key, value) = row?;
                entries += 1;
                if entries > entries_max {
                    return Ok(None);
                }
                if !StemPlaces::has_words(&value) {
                    matches.push(match_of(&key)?);
                }
            }
        } else {
            for found in scan_keys(snapshot, &range, Direction::Forward, match_of) {
                entries += 1;
                if entries > entries_max {
                    return Ok(None);
                }
                matches.push(found?);
            }
        }
        Ok(Some((matches, entries)))
    }

    /// Returns an iterator over the keys that the lookup reads that counts them for an estimate.
    pub(crate) fn count<'a>(
        &self,
        snapshot: &'a dyn Snapshot,
    ) -> Box<dyn Iterator<Item = ()> + 'a> {
        let path = self.path;
        let own = WordList::of_stem(&self.word.stem);
        let own = count_keys(snapshot, &keys::words(path, &own.stem));
        let Some(like) = &self.word.like else {
            return Box::new(own);
        };
        let mut scan = LikeScan::open(snapshot, path, like);
        // A key that cannot be read ends the count: the access that was chosen will report the
        // error.
        let steps = std::iter::from_fn(move || scan.step().ok().flatten()).fuse();
        let entries = steps.flat_map(move |step| {
            let found = match step {
                LikeStep::Found(list) => Some(count_keys(snapshot, &keys::words(path, &list.stem))),
                LikeStep::Passed => None,
            };
            std::iter::once(()).chain(found.into_iter().flatten())
        });
        Box::new(own.chain(entries))
    }
}
