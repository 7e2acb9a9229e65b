//! The writer of a partition: accepted rows that are not durable yet, the logical partitions
//! written recently, and the way from changes to a commit.

use super::counts::{COUNT_BLOCK, count_row};
use super::key_sizes::{FinishedCount, KeyChanges, KeySizes};
use super::{Counters, Partition, scan};
use crate::errors::storage_failure;
use crate::feed::read_change;
use crate::index::generations::PolicyGenerations;
use crate::index::terms::Terms;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::row_reader::read_row;
use bytes::Bytes;
use orrery_model::Result;
use orrery_model::sync::{lock, write};
use orrery_storage::{Commit, Direction, Lease, Receipt, Snapshot, Token};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::MutexGuard;

/// Logical partitions that are remembered as recently written.
const RECENT_EPK_PREFIXES: usize = 8192;

/// The writer of a partition. A process has at most one, and the store stops writers of other
/// processes and of earlier leases.
pub struct Writer {
    lease: Lease,
    /// LSN of the last accepted commit.
    pub lsn: u64,
    /// Counters after the last accepted commit.
    pub counters: Counters,
    /// Policy generations after the last accepted commit.
    pub generations: PolicyGenerations,
    /// The LSN after which versions are kept, if they are kept, after the last accepted commit.
    pub versions_after: Option<u64>,
    /// Index entries by path.
    entry_counts: Vec<u64>,
    pending: PendingRows,
    recent: RecentWrites,
    /// Sizes of logical partitions after the last accepted commit.
    pub(super) key_sizes: KeySizes,
}

/// Rows of commits that are accepted and not durable yet. Index terms are left out: no write reads
/// them.
#[derive(Default)]
struct PendingRows {
    /// The newest value of a key with the LSN that wrote it; `None` for a removed row.
    rows: BTreeMap<Vec<u8>, (u64, Option<Bytes>)>,
    /// The keys of each commit, the oldest commit first.
    commits: VecDeque<(u64, Vec<Vec<u8>>)>,
}

/// The last write of each recently written logical partition, so that a script that ran on a
/// snapshot can tell whether its reads are stale.
#[derive(Default)]
struct RecentWrites {
    last_write: HashMap<EpkPrefix, u64>,
    /// The LSN up to which writes are forgotten.
    forgotten_until: u64,
}

/// The changes of one commit.
#[derive(Default)]
pub struct CommitChanges {
    /// Rows to write.
    pub puts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Rows to remove. A row that is both removed and written is written.
    pub deletes: Vec<Vec<u8>>,
    /// Change of the number of index entries, by path.
    pub entries: HashMap<PathNumber, i64>,
    /// The logical partitions that are written, by EPK prefix.
    pub epk_prefixes: Vec<EpkPrefix>,
    /// Change of the bytes of items, by logical partition.
    pub key_changes: KeyChanges,
    /// The count of logical partitions that the commit ends.
    pub key_count: Option<FinishedCount>,
    /// Counters after the commit.
    pub counters: Counters,
    /// Policy generations after the commit, if they change.
    pub generations: Option<PolicyGenerations>,
    /// The LSN after which versions are kept (`None`: they are not kept), if it changes.
    pub versions_after: Option<Option<u64>>,
    /// The commit deletes more than it writes: it is accepted although the disk is nearly full.
    pub may_use_reserve: bool,
}

impl CommitChanges {
    /// Replaces the index terms of an item. Terms in both sets stay untouched.
    pub fn replace_terms(
        &mut self,
        before: &Terms,
        after: &Terms,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) {
        for (path, value) in before.difference(after) {
            let key = keys::term(path, value, number, epk_prefix);
            self.counters.index_bytes = self.counters.index_bytes.saturating_sub(key.len() as u64);
            self.deletes.push(key);
            *self.entries.entry(path).or_default() -= 1;
        }
        for (path, value) in after.difference(before) {
            let key = keys::term(path, value, number, epk_prefix);
            self.counters.index_bytes += key.len() as u64;
            self.puts.push((key, Vec::new()));
            *self.entries.entry(path).or_default() += 1;
        }
    }
}

/// A commit that the store has accepted.
pub struct SubmittedCommit {
    /// Answers when the commit is durable.
    pub receipt: Receipt,
    /// The attempt, for looking it up if its outcome is not known.
    pub attempt: Attempt,
}

/// One attempt to commit.
#[derive(Clone, Copy)]
pub struct Attempt {
    /// The LSN of the commit.
    pub lsn: u64,
    /// The token of the commit in the commit log.
    pub token: Token,
    /// The store refused the commit before the writer counted on it.
    pub is_refused: bool,
}

impl Writer {
    /// Opens the partition in the store under a new lease, which stops every earlier writer.
    ///
    /// # Errors
    /// 500 if the store cannot be opened or read.
    pub(super) fn open(partition: &Partition) -> Result<Self> {
        // The lease comes before the snapshot: no commit of an earlier writer can follow the
        // snapshot.
        let lease = partition
            .store
            .open(partition.storage_id)
            .map_err(storage_failure)?;
        let lsn = lease.head().lsn;
        let snapshot = partition.snapshot_in_any_phase()?;
        let snapshot = snapshot.as_ref();
        partition.load_dictionary(snapshot)?;
        partition.note_commit_second(newest_ts(snapshot)?);
        Ok(Writer {
            lease,
            lsn,
            counters: Partition::counters(snapshot)?,
            generations: Partition::generations(snapshot)?,
            versions_after: Partition::versions_after(snapshot)?,
            entry_counts: read_entry_counts(snapshot)?,
            pending: PendingRows::default(),
            key_sizes: KeySizes::load(snapshot)?,
            recent: RecentWrites {
                forgotten_until: lsn,
                ..RecentWrites::default()
            },
        })
    }

    /// Returns a row as the next write must see it: accepted rows before those of the snapshot.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn get(&self, snapshot: &dyn Snapshot, key: &[u8]) -> Result<Option<Bytes>> {
        match self.pending.rows.get(key) {
            Some((_, row)) => Ok(row.clone()),
            None => snapshot.get(key).map_err(storage_failure),
        }
    }

    /// Returns true if a logical partition was written after `lsn`. A forgotten write counts as
    /// one.
    pub fn was_written_since(&self, epk_prefix: EpkPrefix, lsn: u64) -> bool {
        if lsn < self.recent.forgotten_until {
            return true;
        }
        let last_write = self.recent.last_write.get(&epk_prefix);
        last_write.is_some_and(|&last| last > lsn)
    }

    /// Submits a commit and returns without waiting for the sync. `random` is a number that no
    /// other commit has.
    pub fn submit(
        &mut self,
        partition: &Partition,
        changes: CommitChanges,
        random: u64,
    ) -> SubmittedCommit {
        let mut attempt = Attempt {
            lsn: self.lsn + 1,
            token: token_of(self.lsn + 1, random),
            is_refused: false,
        };
        // A refusal that does not depend on the commit leaves the writer as it is.
        let receipt = match partition.store.refusal(changes.may_use_reserve) {
            Some(refusal) => {
                attempt.is_refused = true;
                Receipt::ready(refusal)
            }
            None => self.submit_attempt(partition, changes, attempt),
        };
        SubmittedCommit { receipt, attempt }
    }

    /// Submits a commit, on which the writer counts from now on.
    fn submit_attempt(
        &mut self,
        partition: &Partition,
        changes: CommitChanges,
        attempt: Attempt,
    ) -> Receipt {
        let Attempt { lsn, token, .. } = attempt;
        let CommitChanges {
            mut puts,
            mut deletes,
            entries,
            epk_prefixes,
            key_changes,
            key_count,
            counters,
            generations,
            versions_after,
            may_use_reserve,
        } = changes;

        // Every commit carries its counters and its row in the commit log, which later tells
        // whether the commit took place.
        puts.push((keys::counters(), counters.encode()));
        puts.push((keys::log(lsn), log_row(lsn, token).to_vec()));
        if let Some(generations) = generations {
            puts.push((keys::policy_generations(), generations.encode()));
            self.generations = generations;
        }
        match versions_after {
            Some(Some(after)) => puts.push((keys::versions_floor(), after.to_be_bytes().to_vec())),
            Some(None) => deletes.push(keys::versions_floor()),
            None => {}
        }
        if let Some(after) = versions_after {
            self.versions_after = after;
        }
        self.count_entries(entries, &mut puts);
        self.key_sizes.apply(&key_changes, &mut puts, &mut deletes);
        if let Some(finished) = key_count {
            self.key_sizes.end_count(finished, &mut puts);
        }

        // Terms refer to paths by number, so new paths go into the same commit as their first
        // terms.
        if let Some(paths) = &mut *write(&partition.paths) {
            for (number, row) in paths.take_unsaved() {
                puts.push((keys::path(number), row));
            }
        }

        // From here on the next write sees these rows, and a split under way follows them.
        self.pending.add(lsn, &puts, &deletes);
        if let Some(capture) = &mut *lock(&partition.change_capture) {
            capture.add(lsn, &puts, &deletes);
        }
        self.counters = counters;
        self.recent.add(lsn, epk_prefixes);

        let commit = Commit {
            expect_lsn: self.lsn,
            new_lsn: lsn,
            token,
            puts,
            deletes,
            range_deletes: Vec::new(),
            may_use_reserve,
        };
        self.lsn = lsn;
        partition.store.submit(&self.lease, commit)
    }

    /// Forgets pending rows up to a durable LSN: snapshots hold them now.
    pub fn forget_durable(&mut self, durable_lsn: u64) {
        self.pending.forget(durable_lsn);
    }

    /// Adds up the index entries by path and writes the blocks of counts that changed.
    fn count_entries(
        &mut self,
        entries: HashMap<PathNumber, i64>,
        puts: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) {
        let mut blocks: Vec<u32> = Vec::new();
        for (path, change) in entries {
            if change == 0 {
                continue;
            }
            let block = path / COUNT_BLOCK;
            let length = ((block + 1) * COUNT_BLOCK) as usize;
            if self.entry_counts.len() < length {
                self.entry_counts.resize(length, 0);
                // Blocks are read back until one is missing, so every block before this one is
                // written too.
                let missing: Vec<u32> = (0..block).filter(|b| !blocks.contains(b)).collect();
                blocks.extend(missing);
            }
            let count = &mut self.entry_counts[path as usize];
            *count = count.saturating_add_signed(change);
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        for block in blocks {
            puts.push(count_row(&self.entry_counts, block));
        }
    }
}

/// Returns the `_ts` of the item that was changed last; 0 if there is no item.
fn newest_ts(snapshot: &dyn Snapshot) -> Result<u64> {
    let newest = scan(snapshot, &keys::feed_after(0), Direction::Reverse).next();
    let Some(entry) = newest else { return Ok(0) };
    let (key, value) = entry?;
    let (_, number, epk_prefix) = read_change(&key, &value)?;
    let row = read_row(epk_prefix, number, |key| {
        snapshot.get(key).map_err(storage_failure)
    })?;
    Ok(row.map_or(0, |row| row.ts))
}

/// Reads the number of index entries by path.
fn read_entry_counts(snapshot: &dyn Snapshot) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    for block in 0.. {
        let row = snapshot.get(&keys::path_counts(block));
        let Some(row) = row.map_err(storage_failure)? else {
            break;
        };
        counts.extend(row.chunks_exact(8).filter_map(keys::number));
    }
    Ok(counts)
}

impl PendingRows {
    fn add(&mut self, lsn: u64, puts: &[(Vec<u8>, Vec<u8>)], deletes: &[Vec<u8>]) {
        let mut keys_of_commit = Vec::new();
        // Removals come first: as in the store, a row that is both removed and written is written.
        for key in deletes {
            if !keys::is_term(key) {
                self.rows.insert(key.clone(), (lsn, None));
                keys_of_commit.push(key.clone());
            }
        }
        for (key, value) in puts {
            if !keys::is_term(key) {
                let row = (lsn, Some(Bytes::copy_from_slice(value)));
                self.rows.insert(key.clone(), row);
                keys_of_commit.push(key.clone());
            }
        }
        self.commits.push_back((lsn, keys_of_commit));
    }

    fn forget(&mut self, durable_lsn: u64) {
        while let Some((lsn, _)) = self.commits.front()
            && *lsn <= durable_lsn
        {
            let (lsn, keys_of_commit) = self.commits.pop_front().expect("just seen");
            for key in keys_of_commit {
                // A later commit may have written the row again; then the row stays.
                if let Some((newest, _)) = self.rows.get(&key)
                    && *newest == lsn
                {
                    self.rows.remove(&key);
                }
            }
        }
    }
}

impl RecentWrites {
    fn add(&mut self, lsn: u64, epk_prefixes: Vec<EpkPrefix>) {
        if self.last_write.len() + epk_prefixes.len() > RECENT_EPK_PREFIXES {
            self.last_write.clear();
            self.forgotten_until = lsn;
        }
        for epk_prefix in epk_prefixes {
            self.last_write.insert(epk_prefix, lsn);
        }
    }
}

/// Blocks every writer of a partition while it lives.
pub struct WriteBlock<'a> {
    pub(super) _writer: MutexGuard<'a, Option<Writer>>,
}

/// The locked writer.
pub struct WriterGuard<'a>(pub(super) MutexGuard<'a, Option<Writer>>);

impl std::ops::Deref for WriterGuard<'_> {
    type Target = Writer;
    fn deref(&self) -> &Writer {
        self.0.as_ref().expect("opened by Partition::lock")
    }
}

impl std::ops::DerefMut for WriterGuard<'_> {
    fn deref_mut(&mut self) -> &mut Writer {
        self.0.as_mut().expect("opened by Partition::lock")
    }
}

/// Returns the token of an attempt to commit: the LSN and a random number, eight bytes each.
pub(crate) fn token_of(lsn: u64, random: u64) -> Token {
    let mut token: Token = [0; 16];
    token[..8].copy_from_slice(&lsn.to_be_bytes());
    token[8..].copy_from_slice(&random.to_be_bytes());
    token
}

/// Returns the row of a commit in the commit log: the LSN (eight bytes) and the token.
pub(super) fn log_row(lsn: u64, token: Token) -> [u8; 24] {
    let mut row = [0; 24];
    row[..8].copy_from_slice(&lsn.to_be_bytes());
    row[8..].copy_from_slice(&token);
    row
}
