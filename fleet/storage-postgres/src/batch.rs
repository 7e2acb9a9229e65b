//! Several commits of one partition as one: what the rows are after the last of them.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use orrery_storage::Commit;

/// The changes of a batch, each key once. Ranges are emptied first, then keys are
/// deleted, then written.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    ranges: Vec<Range<Vec<u8>>>,
    /// The value after the batch; `None` for a deleted key.
    keys: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl Batch {
    /// Adds the changes of the next commit.
    pub(crate) fn add(&mut self, commit: Commit) {
        for range in commit.range_deletes {
            if range.start >= range.end {
                continue;
            }
            let bounds = (
                Bound::Included(range.start.clone()),
                Bound::Excluded(range.end.clone()),
            );
            let covered: Vec<Vec<u8>> = self.keys.range(bounds).map(|(k, _)| k.clone()).collect();
            for key in covered {
                self.keys.remove(&key);
            }
            self.ranges.push(range);
        }
        for key in commit.deletes {
            self.keys.insert(key, None);
        }
        for (key, value) in commit.puts {
            self.keys.insert(key, Some(value));
        }
    }

    /// Returns the keys that are written or deleted, with their values after the batch. Emptied
    /// ranges are left out.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let keys = self.keys.iter();
        keys.map(|(key, value)| (key.as_slice(), value.as_deref()))
    }

    /// Returns the starts and the ends of the ranges to empty.
    pub(crate) fn ranges(&self) -> (Vec<&[u8]>, Vec<&[u8]>) {
        self.ranges
            .iter()
            .map(|range| (range.start.as_slice(), range.end.as_slice()))
            .unzip()
    }

    /// Returns the keys to delete.
    pub(crate) fn deletes(&self) -> Vec<&[u8]> {
        let deleted = self.keys.iter().filter(|(_, value)| value.is_none());
        deleted.map(|(key, _)| key.as_slice()).collect()
    }

    /// Returns the keys to write, and their values.
    pub(crate) fn puts(&self) -> (Vec<&[u8]>, Vec<&[u8]>) {
        self.keys
            .iter()
            .filter_map(|(key, value)| Some((key.as_slice(), value.as_deref()?)))
            .unzip()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_the_effect_of_its_commits_one_after_another() {
        let key = |text: &str| text.as_bytes().to_vec();
        let mut batch = Batch::default();
        batch.add(Commit {
            puts: vec![(key("a"), key("1")), (key("b"), key("1"))],
            deletes: vec![key("c"), key("z")],
            ..Commit::default()
        });
        batch.add(Commit {
            range_deletes: vec![key("b")..key("d"), key("y")..key("y")],
            puts: vec![(key("c"), key("old")), (key("c"), key("2"))],
            deletes: vec![key("a"), key("c")],
            ..Commit::default()
        });
        assert_eq!(batch.ranges(), (vec![&b"b"[..]], vec![&b"d"[..]]));
        assert_eq!(batch.deletes(), vec![&b"a"[..], &b"z"[..]]);
        assert_eq!(batch.puts(), (vec![&b"c"[..]], vec![&b"2"[..]]));
    }
}
