//! What the engine may rely on, whichever store is underneath.
//!
//! A store is an ordered map from bytes to bytes, cut into *partitions* that know nothing of each other. Each partition
//! has one writer at a time and a *head*: the sequence number and token of its last commit. Safety comes from comparing
//! the head inside every commit, not from trusting an owner to know that it still is one.
//!
//! # Promises
//!
//! Tests cite these by number.
//!
//! 1. **Atomic.** All changes of a commit and its new head become visible together, or none does, whatever dies when.
//! 2. **Fenced.** [`Store::open`] raises the partition's epoch and fences every earlier lease at once. A commit under an
//!    earlier epoch, or one whose `expect_lsn` is not the accepted head, answers [`CommitOutcome::Fenced`] and changes nothing.
//! 3. **Unknown is an answer.** After [`CommitOutcome::Unknown`] the commit may or may not have happened. The owner opens the
//!    partition again, which gives a newer epoch, and then looks for what the attempt would have written: the feed row
//!    at the attempted number and its token. The head alone does not tell: somebody else may have moved it.
//! 4. **Nothing lands late.** Once `open` returned, no commit of an earlier lease can become visible any more.
//! 5. **The head only rises.** A commit whose `new_lsn` is not above its `expect_lsn` answers `Fenced`.
//! 6. **Ordered scans.** A scan yields each key of its range once, in byte order or its reverse, as of its snapshot. So a
//!    page can be continued from its last key, both ways, whatever was deleted around it.
//! 7. **One envelope.** Every engine takes exactly what [`Limits::ENVELOPE`] says and answers [`CommitOutcome::TooLarge`]
//!    beyond it. Larger values are the caller's to cut in chunks.
//! 8. **Range deletes** remove every key that an earlier commit left in the range. Within one commit they come first, then
//!    deletes, then puts; of two puts of one key the later counts.
//! 9. **Snapshots do not change**, hold only durable commits, and hold every commit answered `Ok` before they were taken.
//! 10. **Watch** is offered by no engine in this crate, and [`Capabilities`] says so.
//! 11. **Partitions are independent**: no key, head or epoch of one is seen from another, under any concurrency.
//! 12. **A paused owner is harmless.** However long it slept, its next commit is fenced if somebody opened meanwhile.
//! 13. **Two steps.** `submit` accepts commits in call order, each checked against the *accepted* head, so a caller may
//!     submit the next before the last is durable. A receipt answers `Ok` only when the commit is durable.
//!
//! # Keys
//!
//! A key whose first byte is `0x80` or more is an *index entry*: many, short, read in ranges. All others are *rows*: read
//! one by one. Engines may keep the two apart (the local engine does, with different block sizes and filters); order and
//! results are as if they did not.
//!
//! # What this leaves out
//!
//! No transaction spans partitions. Nothing reads its own pending writes: between accepted and durable, the caller keeps
//! its own overlay.

use orrery_model::metrics::HistogramSnapshot;
use std::fmt;
use std::ops::{Bound, Range};
use std::sync::Arc;

pub use crate::error::StoreError;
pub use crate::receipt::Receipt;

/// A cheap, shared slice of bytes. A slice of a block keeps the whole block in memory: copy what is kept for long.
pub type Bytes = bytes::Bytes;

/// Log sequence number: counts the commits of one partition. Zero is "before the first".
pub type Lsn = u64;

/// Names one attempt to commit, chosen by the caller, so that an unknown outcome can be told apart from another's commit.
pub type Token = [u8; 16];

/// A range of keys, as two bounds.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The rows of a scan: key and value, in order.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes), StoreError>> + 'a>;

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
    /// Its sequence number; 0 if there was none.
    pub lsn: Lsn,
    /// Its token; zeros if there was none.
    pub token: Token,
}

/// The right to write one partition, until somebody else opens it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    partition: PartitionId,
    epoch: u64,
    head: Head,
}

impl Lease {
    /// For engines: a lease as `open` hands it out.
    pub fn new(partition: PartitionId, epoch: u64, head: Head) -> Lease {
        Lease {
            partition,
            epoch,
            head,
        }
    }

    /// The partition it is for.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Its epoch: higher than that of every earlier lease of the partition.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The head when the partition was opened.
    pub fn head(&self) -> Head {
        self.head
    }
}

/// One atomic change of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The head the caller believes in; the commit happens only if it is so.
    pub expect_lsn: Lsn,
    /// The head afterwards. Must be above `expect_lsn`.
    pub new_lsn: Lsn,
    /// Names the attempt.
    pub token: Token,
    /// Keys to write with their values. Applied last; of two puts of one key the later counts.
    pub puts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Keys to remove; a missing one is no error. Applied after the range deletes.
    pub deletes: Vec<Vec<u8>>,
    /// Ranges to empty, start included, end excluded. Applied first.
    pub range_deletes: Vec<Range<Vec<u8>>>,
}

/// How a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Durable and visible.
    Ok,
    /// Not done, and never will be: the lease is not the newest, or the head is not the expected one.
    Fenced,
    /// Nobody can say (promise 3). Open again, then look.
    Unknown,
    /// Not done: beyond [`Limits`].
    TooLarge,
    /// Not done: too many writes wait already. Nothing is wrong with the store.
    Busy {
        /// When trying again may make sense, in milliseconds.
        retry_after_ms: u64,
    },
    /// Not done: the store takes no writes until it is opened again.
    Unavailable {
        /// When trying again may make sense, in milliseconds.
        retry_after_ms: u64,
    },
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

/// The largest keys, values and commits a store takes.
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
    /// What every engine takes, and none goes beyond, so that a request fails on all of them alike. The smallest common
    /// size of the engines considered: 100 kB values and 10 MB transactions are the tightest of them.
    pub const ENVELOPE: Limits = Limits {
        key_bytes: 2 << 10,
        value_bytes: 64 << 10,
        commit_bytes: 8 << 20,
        commit_keys: 100_000,
    };

    /// Whether the commit fits.
    pub fn admit(&self, commit: &Commit) -> bool {
        let keys = commit.puts.len() + commit.deletes.len() + commit.range_deletes.len();
        let put_fits = |(key, value): &(Vec<u8>, Vec<u8>)| {
            key.len() <= self.key_bytes && value.len() <= self.value_bytes
        };
        keys <= self.commit_keys
            && commit.puts.iter().all(put_fits)
            && commit.deletes.iter().all(|key| key.len() <= self.key_bytes)
            && commit
                .range_deletes
                .iter()
                .all(|r| r.start.len().max(r.end.len()) <= self.key_bytes)
            && commit.bytes() <= self.commit_bytes
    }
}

impl Commit {
    /// Bytes of all keys, values and range ends.
    pub fn bytes(&self) -> usize {
        self.puts
            .iter()
            .map(|(key, value)| key.len() + value.len())
            .sum::<usize>()
            + self.deletes.iter().map(Vec::len).sum::<usize>()
            + self
                .range_deletes
                .iter()
                .map(|r| r.start.len() + r.end.len())
                .sum::<usize>()
    }

    /// The head after this commit.
    pub fn new_head(&self) -> Head {
        Head {
            lsn: self.new_lsn,
            token: self.token,
        }
    }

    /// Puts in key order with the last put of each key, and deletes in key order without those that a put undoes: after
    /// this no key stands twice.
    pub(crate) fn settle(&mut self) {
        // A stable sort keeps the later of two equal keys behind the earlier; the reversed pass then keeps the later.
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

/// What a store offers beyond the promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Commits survive the death of the process.
    pub durable: bool,
    /// A snapshot may be held as long as wanted (at the price of the space it pins).
    pub long_snapshots: bool,
    /// Hints about new commits.
    pub watch: bool,
    /// Reads from copies on other machines.
    pub followers: bool,
}

/// An ordered map in partitions. The module header has the promises.
pub trait Store: Send + Sync {
    /// Takes the partition over: epoch + 1, durably, which fences every earlier lease at once. A partition that was never
    /// opened comes into being, with head 0.
    ///
    /// # Errors
    /// When the new epoch could not be made durable, or the number is reserved.
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError>;

    /// Accepts a commit, in call order, and gives a receipt that answers when it is durable.
    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt;

    /// The partition as of its last durable commit. Holding one keeps old versions from being collected: hold it for a
    /// request or a page, not for ever.
    ///
    /// # Errors
    /// When the store cannot read, or the number is reserved.
    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError>;

    /// Removes all keys and the head of a partition, durably. Its leases are fenced; if it is opened again its epoch is
    /// still higher than any before. A crash on the way is completed when the store is next opened.
    ///
    /// # Errors
    /// When the removal could not be made durable, or the number is reserved.
    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError>;

    /// Waits until everything accepted is durable.
    ///
    /// # Errors
    /// When the store failed.
    fn sync(&self) -> Result<(), StoreError>;

    /// The size envelope.
    fn limits(&self) -> Limits {
        Limits::ENVELOPE
    }

    /// What this engine offers.
    fn capabilities(&self) -> Capabilities;

    /// Waits while the store is behind with its own upkeep, for a second at most. Whoever writes much that nobody waits
    /// for calls this before each piece of it, so that commits that somebody does wait for are not held up.
    fn let_catch_up(&self) {}

    /// Bytes in use on disk, or in memory for an engine without one. Best effort.
    fn approximate_bytes(&self) -> u64;

    /// How long syncs of the log took so far, in seconds; `None` for an engine without a log.
    fn sync_seconds(&self) -> Option<HistogramSnapshot> {
        None
    }
}

/// A store behind a pointer is a store.
macro_rules! store_behind {
    ($($pointer:ident),+) => {$(
        impl<S: Store + ?Sized> Store for $pointer<S> {
            fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
                (**self).open(partition)
            }

            fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
                (**self).submit(lease, commit)
            }

            fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
                (**self).snapshot(partition)
            }

            fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
                (**self).destroy(partition)
            }

            fn sync(&self) -> Result<(), StoreError> {
                (**self).sync()
            }

            fn limits(&self) -> Limits {
                (**self).limits()
            }

            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }

            fn let_catch_up(&self) {
                (**self).let_catch_up()
            }

            fn approximate_bytes(&self) -> u64 {
                (**self).approximate_bytes()
            }

            fn sync_seconds(&self) -> Option<HistogramSnapshot> {
                (**self).sync_seconds()
            }
        }
    )+};
}

store_behind!(Box, Arc);

/// One partition at one moment.
pub trait Snapshot: Send + Sync {
    /// The value of a key.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// The values of several keys, in the order asked.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, StoreError> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// The keys of a range with their values. An empty or inverted range has none.
    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_>;

    /// The head at that moment.
    fn head(&self) -> Head;
}

/// Whether no key can lie in the range: such ranges make ordered maps panic, so engines ask here first.
pub(crate) fn is_empty_range(range: &KeyRange<'_>) -> bool {
    match *range {
        (Bound::Included(start), Bound::Included(end)) => start > end,
        (
            Bound::Included(start) | Bound::Excluded(start),
            Bound::Included(end) | Bound::Excluded(end),
        ) => start >= end,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_leaves_no_key_twice_and_lets_the_last_put_win() {
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
        commit.settle();
        assert_eq!(commit.puts, vec![pair("a", "1"), pair("b", "3")]);
        assert_eq!(commit.deletes, vec![b"c".to_vec()]);
    }

    #[test]
    fn a_range_is_empty_exactly_when_no_key_fits() {
        use Bound::{Excluded, Included, Unbounded};
        let (a, b): (&[u8], &[u8]) = (b"a", b"b");
        assert!(!is_empty_range(&(Included(a), Included(a))));
        assert!(is_empty_range(&(Included(a), Excluded(a))));
        assert!(is_empty_range(&(Excluded(a), Included(a))));
        assert!(is_empty_range(&(Included(b), Included(a))));
        assert!(!is_empty_range(&(Unbounded, Excluded(a))));
    }
}
