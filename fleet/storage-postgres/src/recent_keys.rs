//! The keys of the last commits of a partition, so that rows which were read beside a commit can be
//! told from those that the commit changes.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher, RandomState};

use crate::batch::Batch;

/// The transactions whose keys are remembered.
const MOST: usize = 32;

/// The keys of the last transactions, as hashes: a key may count as touched that is not.
#[derive(Default)]
pub(crate) struct RecentKeys {
    state: RandomState,
    /// Each begins where the one before ends.
    transactions: VecDeque<Transaction>,
}

struct Transaction {
    /// The LSN before the transaction, and that of the transaction.
    from: u64,
    to: u64,
    keys: HashSet<u64>,
    /// The transaction empties ranges.
    touches_all: bool,
}

impl RecentKeys {
    /// Adds a transaction that is about to be sent.
    pub(crate) fn add(&mut self, from: u64, to: u64, batch: &Batch) {
        let is_next = self.transactions.back().is_none_or(|last| last.to == from);
        if !is_next {
            self.transactions.clear();
        }
        if self.transactions.len() == MOST {
            self.transactions.pop_front();
        }
        let keys = batch.changes().map(|(key, _)| self.state.hash_one(key));
        self.transactions.push_back(Transaction {
            from,
            to,
            keys: keys.collect(),
            touches_all: !batch.ranges().0.is_empty(),
        });
    }

    /// Forgets all transactions.
    pub(crate) fn forget(&mut self) {
        self.transactions.clear();
    }

    /// Returns true if all transactions after the LSN `low` up to `high` are remembered.
    pub(crate) fn cover(&self, low: u64, high: u64) -> bool {
        match (self.transactions.front(), self.transactions.back()) {
            (Some(first), Some(last)) => first.from <= low && high <= last.to,
            _ => false,
        }
    }

    /// Returns true if a transaction after the LSN `low` up to `high` may have changed the row of a
    /// key.
    pub(crate) fn may_have_touched(&self, key: &[u8], low: u64, high: u64) -> bool {
        let hash = self.state.hash_one(key);
        let mut between = self.transactions.iter();
        between.any(|one| {
            let is_between = one.from < high && low < one.to;
            is_between && (one.touches_all || one.keys.contains(&hash))
        })
    }
}

#[cfg(test)]
mod tests {
    use orrery_storage::Commit;

    use super::*;

    fn batch(key: &[u8]) -> Batch {
        let mut batch = Batch::default();
        batch.add(Commit {
            puts: vec![(key.to_vec(), Vec::new())],
            ..Commit::default()
        });
        batch
    }

    #[test]
    fn a_key_counts_as_touched_between_two_heads() {
        let mut recent = RecentKeys::default();
        assert!(!recent.cover(5, 6));
        recent.add(5, 7, &batch(b"a"));
        recent.add(7, 8, &batch(b"b"));
        assert!(recent.cover(5, 8) && recent.cover(7, 8));
        assert!(!recent.cover(4, 8) && !recent.cover(5, 9));
        assert!(recent.may_have_touched(b"a", 5, 8));
        assert!(
            recent.may_have_touched(b"a", 6, 8),
            "a part of the transaction"
        );
        assert!(!recent.may_have_touched(b"a", 7, 8));
        assert!(!recent.may_have_touched(b"b", 5, 7));
        assert!(!recent.may_have_touched(b"c", 5, 8));

        let mut emptying = Batch::default();
        emptying.add(Commit {
            range_deletes: vec![b"x".to_vec()..b"y".to_vec()],
            ..Commit::default()
        });
        recent.add(8, 9, &emptying);
        assert!(recent.may_have_touched(b"c", 8, 9));
        // After a gap, as the next opening leaves it, nothing of before is known.
        recent.add(20, 21, &batch(b"a"));
        assert!(!recent.cover(8, 21) && recent.cover(20, 21));
    }

    #[test]
    fn few_transactions_are_remembered() {
        let mut recent = RecentKeys::default();
        for lsn in 0..100 {
            recent.add(lsn, lsn + 1, &batch(b"a"));
        }
        assert!(recent.cover(100 - MOST as u64, 100));
        assert!(!recent.cover(0, 100));
    }
}
