//! The entries of a full-text index that a search term leads to: those of the stem of each word,
//! and for a fuzzy term those of the words that are like it.
//!
//! The keys of an index sort by stem and by word, so a scan finds the words that are like a word:
//! it compares the word of a key and passes the keys that begin as this one does, up to the word,
//! or up to the prefix with which no word matches. After some keys it seeks behind them.
//!
//! ```text
//! boar, distance 1:  boat ── matches    book ── none begins with "boo"    seek "bop"    boy ..
//! ```

use super::posting::damaged_row;
use crate::errors::storage_failure;
use crate::index::texts::{stem_key, word_of};
use crate::partition::keys::{self, PathNumber};
use crate::partition::keys_in;
use orrery_model::Result;
use orrery_sql::{LikeWord, Likeness, TermWord};
use orrery_storage::{Direction, Keys, Snapshot};

/// Keys that are passed in sequence before the scan seeks behind them.
const KEYS_BEFORE_SEEK: usize = 8;
/// Keys between two calls of the check point.
const CHECK_INTERVAL: u64 = 1_024;

/// The entries of a stem, or of a word.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WordList {
    /// The stem in the keys of the entries.
    pub stem: Vec<u8>,
    /// True if the entries of a stem stand for the word that is the stem. They do not if the words
    /// of the stem have entries of their own.
    pub is_of_word: bool,
}

impl WordList {
    /// Returns the entries of all words of a stem.
    pub(crate) fn of_stem(stem: &str) -> Self {
        WordList {
            stem: stem_key(stem),
            is_of_word: false,
        }
    }
}

/// A scan for the words that are like a word.
pub(crate) struct LikeScan<'a> {
    snapshot: &'a dyn Snapshot,
    like: LikeWord,
    keys: Box<dyn Keys + 'a>,
    /// The end of the keys.
    end: Vec<u8>,
    /// Keys that begin with these bytes are passed.
    passed_prefix: Vec<u8>,
    /// Keys that were passed since the last one that was not.
    passed_run: usize,
}

/// A key that a scan has read.
pub(crate) enum LikeStep {
    /// The key is of no word that matches, or of one that was found before.
    Passed,
    /// The key is the first one of a word that matches.
    Found(WordList),
}

impl<'a> LikeScan<'a> {
    /// Opens the scan in the index with the number `path`.
    pub(crate) fn open(snapshot: &'a dyn Snapshot, path: PathNumber, like: &LikeWord) -> Self {
        let range = keys::all_words(path);
        LikeScan {
            snapshot,
            like: like.clone(),
            keys: keys_in(snapshot, &range, Direction::Forward),
            end: range.1,
            passed_prefix: Vec::new(),
            passed_run: 0,
        }
    }

    /// Reads the next key. Returns `None` behind the last one.
    ///
    /// # Errors
    /// 500 if the store cannot be read or a key is damaged.
    pub(crate) fn step(&mut self) -> Result<Option<LikeStep>> {
        if self.passed_run == KEYS_BEFORE_SEEK {
            let range = (keys::after(&self.passed_prefix), self.end.clone());
            self.keys = keys_in(self.snapshot, &range, Direction::Forward);
            self.passed_run = 0;
        }
        let Some(key) = self.keys.next_key() else {
            return Ok(None);
        };
        let key = key.map_err(storage_failure)?;
        if !self.passed_prefix.is_empty() && key.starts_with(&self.passed_prefix) {
            self.passed_run += 1;
            return Ok(Some(LikeStep::Passed));
        }
        self.passed_run = 0;
        let (stem, stem_end) = keys::read_stem(key).ok_or_else(damaged_row)?;

        // The words of a stem that is cut have entries of their own.
        let (likeness, is_word) = match word_of(stem) {
            Some((word, is_word)) => (self.like.compare(word), is_word),
            None => (Likeness::Beyond, false),
        };
        let prefix_end = match likeness {
            // The prefix of an entry of a word begins behind its first byte.
            Likeness::PrefixBeyond(bytes) => stem_end - stem.len() + usize::from(is_word) + bytes,
            Likeness::Within | Likeness::Beyond => stem_end + 1,
        };
        self.passed_prefix.clear();
        self.passed_prefix.extend_from_slice(&key[..prefix_end]);
        Ok(Some(match likeness {
            Likeness::Within => LikeStep::Found(WordList {
                stem: stem.to_vec(),
                is_of_word: true,
            }),
            _ => LikeStep::Passed,
        }))
    }
}

/// The entries that the words of some terms lead to.
#[derive(Debug, Default)]
pub(crate) struct TermLists {
    /// The lists of each word of each term.
    pub terms: Vec<Vec<Vec<WordList>>>,
    /// Keys that were read to find them.
    pub passed: u64,
}

impl TermLists {
    /// Returns the entries in the index with the number `path`. Returns `None` for more than
    /// `lists_max` lists.
    ///
    /// # Errors
    /// 500 if the store cannot be read; those of `check_point`.
    pub(crate) fn of(
        snapshot: &dyn Snapshot,
        path: PathNumber,
        terms: &[Vec<TermWord>],
        lists_max: usize,
        check_point: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Self>> {
        let mut found = TermLists::default();
        let mut lists_left = lists_max;
        for term in terms {
            let mut lists_of_term = Vec::with_capacity(term.len());
            for word in term {
                let passed = &mut found.passed;
                let lists = lists_of(snapshot, path, word, lists_left, passed, check_point)?;
                let Some(lists) = lists else {
                    return Ok(None);
                };
                lists_left -= lists.len();
                lists_of_term.push(lists);
            }
            found.terms.push(lists_of_term);
        }
        Ok(Some(found))
    }
}

/// Returns the entries that a word of a term leads to, or `None` for more than `lists_max` lists.
/// `passed` counts the keys that are read.
///
/// # Errors
/// 500 if the store cannot be read; those of `check_point`.
pub(crate) fn lists_of(
    snapshot: &dyn Snapshot,
    path: PathNumber,
    word: &TermWord,
    lists_max: usize,
    passed: &mut u64,
    check_point: &dyn Fn() -> Result<()>,
) -> Result<Option<Vec<WordList>>> {
    let mut lists = vec![WordList::of_stem(&word.stem)];
    if let Some(like) = &word.like {
        let mut scan = LikeScan::open(snapshot, path, like);
        while let Some(step) = scan.step()? {
            *passed += 1;
            if passed.is_multiple_of(CHECK_INTERVAL) {
                check_point()?;
            }
            match step {
                // The entries of the stem of the term count already.
                LikeStep::Found(list) if list.stem != lists[0].stem => lists.push(list),
                _ => {}
            }
            if lists.len() > lists_max {
                return Ok(None);
            }
        }
    }
    Ok((lists.len() <= lists_max).then_some(lists))
}
