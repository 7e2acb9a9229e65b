//! The values that describe one commit: its partition, its place in the sequence of commits, its
//! changes, its limits and its outcome.
//!
//! This module holds plain values without behaviour that touches a store. The promises that give
//! them their meaning are in [`store`](crate::store).

use std::fmt;
use std::ops::Range;

/// Log sequence number: counts the commits of one partition. Zero is "before the first".
pub type Lsn = u64;

/// Name of one attempt to commit, chosen by the caller. The token tells whether a commit with an
/// unknown outcome is the caller's own.
pub type Token = [u8; 16];

/// Number of a partition, given by the engine. `u64::MAX` is reserved for the store itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionId(pub u64);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The last commit of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The commit's sequence number; 0 if there was no commit.
    pub lsn: Lsn,
    /// The commit's token; zeros if there was no commit.
    pub token: Token,
}

/// One atomic change of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The head that the caller expects. Any other accepted head fences the commit.
    pub expect_lsn: Lsn,
    /// The head after the commit. Must be above `expect_lsn`.
    pub new_lsn: Lsn,
    /// The name of the attempt.
    pub token: Token,
    /// Keys to write with their values. Applied last; of two puts of one key the later counts.
    pub puts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Keys to remove; a missing key is no error. Applied after the range deletes.
    pub deletes: Vec<Vec<u8>>,
    /// Ranges to empty, start included, end excluded. Applied first.
    pub range_deletes: Vec<Range<Vec<u8>>>,
    /// The commit is accepted although the disk is nearly full: it deletes more than it writes.
    pub may_use_reserve: bool,
}

impl Commit {
    /// Returns the bytes of all keys, values and range ends.
    pub fn bytes(&self) -> usize {
        let puts = self.puts.iter().map(|(key, value)| key.len() + value.len());
        let deletes = self.deletes.iter().map(Vec::len);
        let ranges = self
            .range_deletes
            .iter()
            .map(|r| r.start.len() + r.end.len());
        puts.sum::<usize>() + deletes.sum::<usize>() + ranges.sum::<usize>()
    }

    /// Returns the head after this commit.
    pub fn new_head(&self) -> Head {
        Head {
            lsn: self.new_lsn,
            token: self.token,
        }
    }

    /// Sorts puts and deletes by key, keeps the last put of each key, and drops deletes of keys
    /// that a put writes. No key occurs twice afterwards.
    pub(crate) fn normalize(&mut self) {
        // The stable sort leaves the last put of a key behind the earlier ones. `dedup_by` keeps
        // the first of equal neighbours, so it runs on the reversed list.
        self.puts.sort_by(|a, b| a.0.cmp(&b.0));
        self.puts.reverse();
        self.puts.dedup_by(|next, kept| next.0 == kept.0);
        self.puts.reverse();
        if !self.deletes.is_empty() {
            let Commit { puts, deletes, .. } = self;
            deletes.sort_unstable();
            deletes.dedup();
            deletes.retain(|key| puts.binary_search_by(|(put, _)| put.cmp(key)).is_err());
        }
    }
}

/// The largest keys, values and commits that a store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a key.
    pub key_bytes: usize,
    /// Bytes of a value.
    pub value_bytes: usize,
    /// Bytes of a commit: its keys, values and range ends.
    pub commit_bytes: usize,
    /// Keys of a commit: puts, deletes and range deletes, each counted once.
    pub commit_keys: usize,
}

impl Limits {
    /// The limits of every engine. No engine takes more, so that a request fails on all of them
    /// alike. The values are the smallest common size of the engines considered: 100 kB values and
    /// 10 MB transactions are the tightest limits among them.
    pub const ENVELOPE: Limits = Limits {
        key_bytes: 2 << 10,
        value_bytes: 64 << 10,
        commit_bytes: 8 << 20,
        commit_keys: 100_000,
    };

    /// Returns true if the commit is within the limits.
    pub fn admit(&self, commit: &Commit) -> bool {
        let keys = commit.puts.len() + commit.deletes.len() + commit.range_deletes.len();
        if keys > self.commit_keys {
            return false;
        }
        for (key, value) in &commit.puts {
            if key.len() > self.key_bytes || value.len() > self.value_bytes {
                return false;
            }
        }
        if commit.deletes.iter().any(|key| key.len() > self.key_bytes) {
            return false;
        }
        for range in &commit.range_deletes {
            if range.start.len() > self.key_bytes || range.end.len() > self.key_bytes {
                return false;
            }
        }
        commit.bytes() <= self.commit_bytes
    }
}

/// The answer of a store to a submitted commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// The commit is durable and visible.
    Ok,
    /// The commit did not happen and never will: the lease is not the newest, or the head is not
    /// the expected one.
    Fenced,
    /// The commit may or may not have happened (promise 3). The caller opens the partition again
    /// and then looks for the commit.
    Unknown,
    /// The commit did not happen: it is beyond [`Limits`].
    TooLarge,
    /// The commit did not happen: a block of the partition is damaged, so it can only be read.
    Damaged,
    /// The commit did not happen: too many writes wait already. The store itself is healthy.
    Busy {
        /// Milliseconds after which another attempt may succeed.
        retry_after_ms: u64,
    },
    /// The commit did not happen: the store takes no writes for a while, or until the process is
    /// started again.
    Unavailable {
        /// Milliseconds after which another attempt may succeed.
        retry_after_ms: u64,
    },
    /// The commit did not happen: the disk is full. A commit that may use the reserve is accepted
    /// for longer than others.
    StorageFull {
        /// Milliseconds after which another attempt may succeed.
        retry_after_ms: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_normalized_commit_has_no_key_twice_and_the_last_put_counts() {
        let pair = |k: &str, v: &str| (k.as_bytes().to_vec(), v.as_bytes().to_vec());
        let mut commit = Commit {
            puts: vec![
                pair("b", "1"),
                pair("a", "1"),
                pair("b", "2"),
                pair("b", "3"),
            ],
            deletes: vec![b"c".to_vec(), b"a".to_vec(), b"c".to_vec()],
            ..Commit::default()
        };
        commit.normalize();
        assert_eq!(commit.puts, vec![pair("a", "1"), pair("b", "3")]);
        assert_eq!(commit.deletes, vec![b"c".to_vec()]);
    }
}
