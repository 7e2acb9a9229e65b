//! The trait of every store, and what the engine may rely on whichever store it runs on.
//!
//! A store is an ordered map from bytes to bytes, cut into *partitions* that share nothing. Each
//! partition has one writer at a time and a *head*: the sequence number and token of its last
//! commit. Safety comes from comparing the head inside every commit. It does not depend on a writer
//! noticing that another writer has taken the partition over.
//!
//! # Promises
//!
//! Tests cite these by number.
//!
//! 1. **Atomic.** All changes of a commit and its new head become visible together, or none does,
//!    whatever fails and whenever.
//! 2. **Fenced.** [`Store::open`] raises the partition's epoch and fences every earlier lease at
//!    once. A commit under an earlier epoch, or a commit whose `expect_lsn` is not the accepted
//!    head, answers [`CommitOutcome::Fenced`] and changes nothing.
//! 3. **Unknown is an answer.** After [`CommitOutcome::Unknown`] the commit may or may not have
//!    happened. The writer opens the partition again, which gives a newer epoch, and then looks for
//!    what the attempt would have written: the feed row at the attempted number, with its token.
//!    The head alone does not tell, since another writer may have moved it.
//! 4. **No late commit.** Once `open` returned, no commit of an earlier lease can become visible.
//! 5. **The head only rises.** A commit whose `new_lsn` is not above its `expect_lsn` answers
//!    `Fenced`.
//! 6. **Ordered scans.** A scan yields each key of its range once, in byte order or its reverse, as
//!    of its snapshot. So a page can be continued from its last key, in both directions, whatever
//!    was deleted around that key.
//! 7. **One envelope.** Every engine takes exactly what [`Limits::ENVELOPE`] says and answers
//!    [`CommitOutcome::TooLarge`] beyond it. The caller cuts larger values into chunks.
//! 8. **Range deletes** remove every key that an earlier commit left in the range. Within one
//!    commit range deletes come first, then deletes, then puts; of two puts of one key the later
//!    counts.
//! 9. **Snapshots do not change**, hold only durable commits, and hold every commit that was
//!    answered `Ok`, or was shown by another snapshot, before they were taken.
//! 10. **No notices**: an engine announces no commit. A reader reads the head again.
//! 11. **Partitions are independent**: no key, head or epoch of a partition is seen from another
//!     partition, under any concurrency.
//! 12. **A paused writer is harmless.** However long a writer was paused, its next commit is fenced
//!     if the partition was opened meanwhile.
//! 13. **Two steps.** `submit` accepts commits in call order, each checked against the *accepted*
//!     head, so a caller may submit the next commit before the last is durable. A receipt answers
//!     `Ok` only when the commit is durable.
//!
//! 14. **Followers are behind, not wrong.** A follower snapshot holds every commit up to one commit
//!     of the partition and nothing of a later one. This commit is at or after the one that the
//!     caller asks for, and may be one whose receipt is not answered yet. Follower snapshots that
//!     are taken by one call show one moment; those of two calls may come from two copies, the
//!     second further behind than the first. An engine may answer `None` at any time.
//!
//! # Keys
//!
//! A key whose first byte is `0x80` or more is an *index entry*: entries are many and short, and
//! are read in ranges. All other keys are *rows*, which are read one by one. Engines may keep the
//! two apart (the local engine does, with different block sizes and filters); order and results
//! are as if they did not.
//!
//! # What this leaves out
//!
//! No transaction spans partitions. No read sees a pending write: between accepted and durable, the
//! caller keeps an overlay of its own.
//!
//! [`CommitOutcome::Fenced`]: crate::CommitOutcome::Fenced
//! [`CommitOutcome::TooLarge`]: crate::CommitOutcome::TooLarge
//! [`CommitOutcome::Unknown`]: crate::CommitOutcome::Unknown

use orrery_model::metrics::HistogramSnapshot;
use std::ops::Bound;
use std::sync::Arc;

use crate::checkpoint::Checkpoint;
use crate::commit::{Commit, CommitOutcome, Head, Limits, PartitionId, Token};
use crate::damage::{Damage, ScrubProgress};
use crate::error::StoreError;
use crate::journal_log::JournalLog;
use crate::receipt::Receipt;

/// A cheap, shared slice of bytes. A slice of a block keeps the whole block in memory: copy what is
/// kept for long.
pub type Bytes = bytes::Bytes;

/// A range of keys, as two bounds.
pub type KeyRange<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The rows of a scan: key and value, in order.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes), StoreError>> + 'a>;

/// The keys of a scan, in order. A key is lent, so a scan of keys allocates nothing for each.
pub trait Keys {
    /// Moves to the next key and returns it, or `None` behind the last one.
    ///
    /// # Errors
    /// When the key cannot be read or is damaged.
    fn next_key(&mut self) -> Option<Result<&[u8], StoreError>>;
}

/// The keys of rows.
struct KeysOfRows<'a> {
    rows: Rows<'a>,
    /// The key of the last row.
    key: Bytes,
}

impl Keys for KeysOfRows<'_> {
    fn next_key(&mut self) -> Option<Result<&[u8], StoreError>> {
        match self.rows.next()? {
            Ok((key, _)) => {
                self.key = key;
                Some(Ok(&self.key))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// A receiver of damage that a store finds. A store may call it from a thread of its own.
pub type DamageReport = Box<dyn Fn(&Damage) + Send + Sync>;

/// The right to write one partition, valid until the partition is opened again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    partition: PartitionId,
    epoch: u64,
    head: Head,
}

impl Lease {
    /// Creates the lease that `open` hands out. For engines only.
    pub fn new(partition: PartitionId, epoch: u64, head: Head) -> Lease {
        Lease {
            partition,
            epoch,
            head,
        }
    }

    /// Returns the partition that may be written.
    pub fn partition(&self) -> PartitionId {
        self.partition
    }

    /// Returns the epoch: higher than the epoch of every earlier lease of the partition.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the head at the moment the partition was opened.
    pub fn head(&self) -> Head {
        self.head
    }
}

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Reverse,
}

/// The rows that a caller is about to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAhead {
    /// Their keys.
    pub keys: Vec<Vec<u8>>,
    /// Rows whose keys are in other rows.
    pub links: Vec<Link>,
    /// The caller is the writer of the partition, and knows the rows of all commits that it has
    /// submitted: the snapshot may lack those that are not answered, also if other snapshots have
    /// shown them.
    pub is_for_writer: bool,
}

/// A row whose key ends with the value of another row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The key of the other row, which is one of [`ReadAhead::keys`].
    pub from: Vec<u8>,
    /// The beginning of the key.
    pub prefix: Vec<u8>,
}

/// The features of a store beyond the promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Commits survive the end of the process.
    pub durable: bool,
    /// Snapshots may be held as long as wanted (at the price of the space they pin).
    pub long_snapshots: bool,
    /// Reads from copies on other machines: [`Store::follower_snapshots`].
    pub followers: bool,
    /// The data is on other machines, which may be away for a minute and come back.
    pub remote: bool,
}

/// The newest durable head of a partition that a process knows. Another process that is told of the
/// head notices when the engine has lost commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownHead {
    /// Rises when the partition is destroyed.
    pub incarnation: u64,
    /// The epoch of the last opening.
    pub epoch: u64,
    /// The last commit.
    pub head: Head,
    /// The number of the last opening, if it is known.
    pub opener: Option<Token>,
}

/// The distance of a copy on another machine from the writer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerLag {
    /// The address of the copy.
    pub host: String,
    /// Bytes of the log that the copy has not applied yet.
    pub bytes: u64,
    /// Milliseconds since the last commit that the copy has applied; 0 if no bytes are missing.
    pub ms: u64,
}

/// An ordered map in partitions. The module header has the promises.
pub trait Store: Send + Sync {
    /// Opens a partition for writing: raises its epoch by one, durably, which fences every earlier
    /// lease at once. A partition that was never opened is created, with head 0.
    ///
    /// # Errors
    /// When the new epoch could not be made durable, or the number is reserved.
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError>;

    /// Accepts a commit, in call order, and returns a receipt that answers when it is durable.
    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt;

    /// Returns the partition as of its last durable commit. A snapshot keeps old versions from
    /// being collected: hold it for a request or a page, not for ever.
    ///
    /// # Errors
    /// When the store cannot read, or the number is reserved.
    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError>;

    /// Returns a snapshot of each partition, in their order. Each is as of the last durable commit
    /// of its partition. A caller that needs several snapshots at once takes them by one call: a
    /// store with a bounded number of connections then needs one for all, and no two callers wait
    /// for each other's connections.
    ///
    /// # Errors
    /// As for [`Store::snapshot`], of the first partition that has one.
    fn snapshots(&self, partitions: &[PartitionId]) -> Result<Vec<Box<dyn Snapshot>>, StoreError> {
        partitions.iter().map(|&id| self.snapshot(id)).collect()
    }

    /// Returns a snapshot for reads of single rows, most of which are `ahead`. A store on another
    /// machine reads these in one step. Rows that were asked for are from one moment, at or after
    /// that of [`Store::snapshot`]; the head is at most that of the moment.
    ///
    /// Reads of other rows, and scans, may fail for a moment because rows that were asked for have
    /// changed: the caller then begins anew.
    ///
    /// # Errors
    /// As for [`Store::snapshot`].
    fn snapshot_ahead(
        &self,
        partition: PartitionId,
        ahead: &ReadAhead,
    ) -> Result<Box<dyn Snapshot>, StoreError> {
        let _ = ahead;
        self.snapshot(partition)
    }

    /// Reads rows into memory, so that [`Store::snapshot_ahead`] need not wait for them. A store
    /// without such memory, or on this machine, does nothing.
    ///
    /// # Errors
    /// As for [`Store::snapshot`].
    fn read_ahead(&self, _partition: PartitionId, _ahead: &ReadAhead) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns partitions as one copy on another machine has them at one moment, each at or after
    /// the commit that is wanted of it (promise 14); `None` if no copy is that far, or none can be
    /// reached.
    ///
    /// # Errors
    /// When a copy does not answer, or a number is reserved.
    fn follower_snapshots(
        &self,
        wanted: &[(PartitionId, u64)],
    ) -> Result<Option<Vec<Box<dyn Snapshot>>>, StoreError> {
        let _ = wanted;
        Ok(None)
    }

    /// Returns the distance of each copy that answers, for metrics. May wait for some seconds.
    fn follower_lag(&self) -> Vec<FollowerLag> {
        Vec::new()
    }

    /// Removes all keys and the head of a partition, durably. Its leases are fenced; if the
    /// partition is opened again its epoch is still higher than any before. A removal that a crash
    /// interrupts is completed when the store is next opened.
    ///
    /// # Errors
    /// When the removal could not be made durable, or the number is reserved.
    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError>;

    /// Gives a partition up to another process, which may write it until this store opens it again.
    /// Waits for the answers of the commits that were accepted. A store that looks at each
    /// partition anew for each snapshot has nothing else to do.
    ///
    /// # Errors
    /// When a commit may still take place: the next process must open the partition before it
    /// reads.
    fn release(&self, _partition: PartitionId) -> Result<(), StoreError> {
        self.sync()
    }

    /// Returns the newest durable head of a partition that this process knows; `None` if it knows
    /// none, or if the engine loses no commits that it has confirmed.
    fn known_head(&self, _partition: PartitionId) -> Option<KnownHead> {
        None
    }

    /// Takes in what another process knows of a partition. If the engine has an older head, the
    /// next opening finds the loss; an opening of before is fenced.
    fn note_known_head(&self, _partition: PartitionId, _known: &KnownHead) {}

    /// Waits until every accepted commit is durable.
    ///
    /// # Errors
    /// When the store failed.
    fn sync(&self) -> Result<(), StoreError>;

    /// Checks that the part of the store which has a partition can be reached, as far as that is
    /// known now. Waits for nothing.
    ///
    /// # Errors
    /// That of the calls which would fail.
    fn check_reachable(&self, _partition: PartitionId) -> Result<(), StoreError> {
        Ok(())
    }

    /// Waits until every accepted commit of a partition is durable. A store over several engines
    /// waits for one of them only.
    ///
    /// # Errors
    /// When the store failed.
    fn sync_partition(&self, _partition: PartitionId) -> Result<(), StoreError> {
        self.sync()
    }

    /// Returns a receipt that answers `Ok` when the store is done with every commit that a
    /// partition has accepted so far. `Ok` says nothing of commits that had failed before the call.
    /// Any other answer says that one of the commits may not be durable.
    ///
    /// A store on this machine does not wait here; the caller of any other may be blocked.
    fn barrier(&self, partition: PartitionId) -> Receipt {
        Receipt::ready(match self.sync_partition(partition) {
            Ok(()) => CommitOutcome::Ok,
            Err(_) => CommitOutcome::Unknown,
        })
    }

    /// Returns the size envelope.
    fn limits(&self) -> Limits {
        Limits::ENVELOPE
    }

    /// Returns the features of this engine.
    fn capabilities(&self) -> Capabilities;

    /// Returns the answer that a commit would get now whatever it holds; `None` if commits are
    /// accepted. A caller asks before it prepares a commit, so that a store that takes no writes
    /// costs nothing. `may_use_reserve` is that of the commit.
    fn refusal(&self, may_use_reserve: bool) -> Option<CommitOutcome> {
        let _ = may_use_reserve;
        None
    }

    /// Returns why the store refuses commits now, as a sentence for the operator; `None` if it
    /// accepts them.
    fn write_failure(&self) -> Option<String> {
        None
    }

    /// Waits while flushes and compactions of the store are behind, for a second at most. A caller
    /// that writes much in the background calls this before each piece, so that commits of clients
    /// are not held up.
    fn wait_for_compaction(&self) {}

    /// Returns the bytes in use on disk, or in memory for an engine without a disk. Best effort.
    fn approximate_bytes(&self) -> u64;

    /// Returns the durations of all syncs of the log so far, in seconds; `None` for an engine
    /// without a log.
    fn sync_seconds(&self) -> Option<HistogramSnapshot> {
        None
    }

    /// Returns the damaged blocks that are known. Reads of their keys fail with
    /// [`StoreError::DamagedBlock`], and commits to their partitions answer
    /// [`CommitOutcome::Damaged`].
    fn damage(&self) -> Vec<Damage> {
        Vec::new()
    }

    /// Returns the partitions that were opened and not destroyed, in ascending order; `None` if the
    /// engine keeps no list.
    ///
    /// # Errors
    /// When the list cannot be read.
    fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
        Ok(None)
    }

    /// Sets the receiver of damage: all known damage at once, and each new one when it is found.
    fn report_damage(&self, _report: DamageReport) {}

    /// Returns the progress of the regular check of all blocks; `None` if there is no such check.
    fn scrub_progress(&self) -> Option<ScrubProgress> {
        None
    }

    /// Returns the files of the store as they are after all commits that were answered so far, and
    /// after no part of a later group of commits; `None` if the store has no files to copy. Commits
    /// wait for the linking of the files and not for the copying of data.
    ///
    /// # Errors
    /// When the store is being opened again after a failure, or a file cannot be linked.
    fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
        Ok(None)
    }

    /// Returns the log of the store for a continuous backup; `None` if the store keeps none.
    fn journal_log(&self) -> Option<&dyn JournalLog> {
        None
    }
}

/// Implements [`Store`] for a pointer to a store.
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

            fn snapshots(
                &self,
                partitions: &[PartitionId],
            ) -> Result<Vec<Box<dyn Snapshot>>, StoreError> {
                (**self).snapshots(partitions)
            }

            fn snapshot_ahead(
                &self,
                partition: PartitionId,
                ahead: &ReadAhead,
            ) -> Result<Box<dyn Snapshot>, StoreError> {
                (**self).snapshot_ahead(partition, ahead)
            }

            fn read_ahead(
                &self,
                partition: PartitionId,
                ahead: &ReadAhead,
            ) -> Result<(), StoreError> {
                (**self).read_ahead(partition, ahead)
            }

            fn follower_snapshots(
                &self,
                wanted: &[(PartitionId, u64)],
            ) -> Result<Option<Vec<Box<dyn Snapshot>>>, StoreError> {
                (**self).follower_snapshots(wanted)
            }

            fn follower_lag(&self) -> Vec<FollowerLag> {
                (**self).follower_lag()
            }

            fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
                (**self).destroy(partition)
            }

            fn release(&self, partition: PartitionId) -> Result<(), StoreError> {
                (**self).release(partition)
            }

            fn known_head(&self, partition: PartitionId) -> Option<KnownHead> {
                (**self).known_head(partition)
            }

            fn note_known_head(&self, partition: PartitionId, known: &KnownHead) {
                (**self).note_known_head(partition, known)
            }

            fn sync(&self) -> Result<(), StoreError> {
                (**self).sync()
            }

            fn sync_partition(&self, partition: PartitionId) -> Result<(), StoreError> {
                (**self).sync_partition(partition)
            }

            fn barrier(&self, partition: PartitionId) -> Receipt {
                (**self).barrier(partition)
            }

            fn check_reachable(&self, partition: PartitionId) -> Result<(), StoreError> {
                (**self).check_reachable(partition)
            }

            fn limits(&self) -> Limits {
                (**self).limits()
            }

            fn capabilities(&self) -> Capabilities {
                (**self).capabilities()
            }

            fn refusal(&self, may_use_reserve: bool) -> Option<CommitOutcome> {
                (**self).refusal(may_use_reserve)
            }

            fn write_failure(&self) -> Option<String> {
                (**self).write_failure()
            }

            fn wait_for_compaction(&self) {
                (**self).wait_for_compaction()
            }

            fn approximate_bytes(&self) -> u64 {
                (**self).approximate_bytes()
            }

            fn sync_seconds(&self) -> Option<HistogramSnapshot> {
                (**self).sync_seconds()
            }

            fn damage(&self) -> Vec<Damage> {
                (**self).damage()
            }

            fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
                (**self).partitions()
            }

            fn report_damage(&self, report: DamageReport) {
                (**self).report_damage(report)
            }

            fn scrub_progress(&self) -> Option<ScrubProgress> {
                (**self).scrub_progress()
            }

            fn checkpoint(&self) -> Result<Option<Checkpoint>, StoreError> {
                (**self).checkpoint()
            }

            fn journal_log(&self) -> Option<&dyn JournalLog> {
                (**self).journal_log()
            }
        }
    )+};
}

store_behind!(Box, Arc);

/// Copies of the data of a store that another process writes. They are behind the writer.
pub trait Copies: Send + Sync {
    /// Returns partitions as one copy has them at one moment; `None` if no copy can be read, or the
    /// copies of these partitions are apart from each other.
    ///
    /// # Errors
    /// When a copy does not answer, or has damaged rows.
    fn snapshots(
        &self,
        partitions: &[PartitionId],
    ) -> Result<Option<Vec<Box<dyn Snapshot>>>, StoreError>;
}

/// One partition at one moment.
pub trait Snapshot: Send + Sync {
    /// Returns the value of a key.
    ///
    /// # Errors
    /// When the value cannot be read or is damaged.
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError>;

    /// Returns the values of several keys, in the order of the keys.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    fn multi_get(&self, keys: &[&[u8]]) -> Result<Vec<Option<Bytes>>, StoreError> {
        keys.iter().map(|key| self.get(key)).collect()
    }

    /// Returns the keys of a range with their values. An empty or inverted range has none.
    fn scan(&self, range: KeyRange<'_>, direction: Direction) -> Rows<'_>;

    /// Returns the keys of a range, as [`Snapshot::scan`] does. A store whose rows cost more to
    /// return than to pass by has a method of its own.
    fn scan_keys(&self, range: KeyRange<'_>, direction: Direction) -> Box<dyn Keys + '_> {
        Box::new(KeysOfRows {
            rows: self.scan(range, direction),
            key: Bytes::new(),
        })
    }

    /// Returns the head at the moment of the snapshot.
    fn head(&self) -> Head;
}

/// Returns true if no key can lie in the range. Such ranges make ordered maps panic, so engines
/// check here first.
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
