//! The merge of the postings of several partitions.
//!
//! Only the first posting of each partition is read ahead, and a posting is checked when its turn
//! comes. So a merge passes the index entries up to the last row of the page, whatever the number
//! of partitions, and one more of each partition.

use super::cursor::Cursor;
use super::posting::Posting;
use orrery_model::Result;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::ops::Range;

/// The first postings of several cursors.
pub(super) struct Merge {
    heads: BinaryHeap<Head>,
    /// The cursors whose first posting is not among the heads.
    to_read: Vec<usize>,
    descending: bool,
}

/// The first posting of a cursor.
struct Head {
    posting: Posting,
    target: usize,
    descending: bool,
}

impl Ord for Head {
    /// A heap returns the greatest element, so the first posting is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        let position = &self.posting.position;
        position
            .compare(&other.posting.position, self.descending)
            .then(self.target.cmp(&other.target))
            .reverse()
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl Merge {
    /// Creates a merge of the cursors of some targets.
    pub(super) fn of(targets: Range<usize>, descending: bool) -> Self {
        Merge {
            heads: BinaryHeap::with_capacity(targets.len()),
            to_read: targets.collect(),
            descending,
        }
    }

    /// Returns the next posting in order, which is not checked yet, with the index of its target.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub(super) fn next(
        &mut self,
        cursors: &mut [Option<Cursor<'_>>],
    ) -> Result<Option<(usize, Posting)>> {
        for target in self.to_read.drain(..) {
            if let Some(cursor) = &mut cursors[target]
                && let Some(posting) = cursor.next_posting()?
            {
                self.heads.push(Head {
                    posting,
                    target,
                    descending: self.descending,
                });
            }
        }
        let Some(Head {
            posting, target, ..
        }) = self.heads.pop()
        else {
            return Ok(None);
        };
        // The posting behind it is read when it is needed.
        self.to_read.push(target);
        Ok(Some((target, posting)))
    }
}
