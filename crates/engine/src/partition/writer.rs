//! The one who writes a partition: what is pending, what was written lately, and how changes become a commit.

use super::counts::{COUNT_BLOCK, count_row};
use super::{Counters, Partition, dictionary};
use crate::errors::storage_failure;
use crate::index::generations::PolicyGenerations;
use crate::index::paths::Paths;
use crate::index::terms::Terms;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use bytes::Bytes;
use orrery_model::Result;
use orrery_storage::{Commit, Lease, Receipt, Snapshot, Token};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{MutexGuard, PoisonError};

/// Logical partitions that are remembered as lately written.
const RECENT_EPK_PREFIXES: usize = 8192;

/// The one who writes a partition. There is at most one in a process, and the store fences all others.
pub struct Writer {
    lease: Lease,
    /// LSN of the last accepted commit.
    pub lsn: u64,
    /// As of the last accepted commit.
    pub counters: Counters,
    /// As of the last accepted commit.
    pub generations: PolicyGenerations,
    /// The LSN after which versions are kept, if they are; as of the last accepted commit.
    pub versions_after: Option<u64>,
    counts: Vec<u64>,
    pending: PendingRows,
    recent: Recent,
}

/// Rows of commits that are accepted and not yet durable.
#[derive(Default)]
pub struct PendingRows {
    rows: BTreeMap<Vec<u8>, (u64, Option<Bytes>)>,
    order: VecDeque<(u64, Vec<Vec<u8>>)>,
}

/// Which logical partitions were written lately, so that a script that ran on a snapshot can tell whether it is stale.
#[derive(Default)]
struct Recent {
    last_write: HashMap<EpkPrefix, u64>,
    /// Writes up to here are forgotten.
    floor: u64,
}

/// What one commit changes.
#[derive(Default)]
pub struct CommitChanges {
    /// Rows to write.
    pub puts: Vec<(Vec<u8>, Vec<u8>)>,
    /// Rows to remove.
    pub deletes: Vec<Vec<u8>>,
    /// Index entries gained and lost, by path.
    pub entries: HashMap<PathNumber, i64>,
    /// Logical partitions touched.
    pub epk_prefixes: Vec<EpkPrefix>,
    /// Counters after it.
    pub counters: Counters,
    /// Which items follow which policy after it, if that changes.
    pub generations: Option<PolicyGenerations>,
    /// Since when versions are kept after it (`None`: they are not), if that changes.
    pub versions_after: Option<Option<u64>>,
}

impl CommitChanges {
    /// An item has these terms instead of those.
    pub fn replace_terms(
        &mut self,
        before: &Terms,
        after: &Terms,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) {
        for (path, value) in before.without(after) {
            let key = keys::term(path, value, number, epk_prefix);
            self.counters.index_bytes = self.counters.index_bytes.saturating_sub(key.len() as u64);
            self.deletes.push(key);
            *self.entries.entry(path).or_default() -= 1;
        }
        for (path, value) in after.without(before) {
            let key = keys::term(path, value, number, epk_prefix);
            self.counters.index_bytes += key.len() as u64;
            self.puts.push((key, Vec::new()));
            *self.entries.entry(path).or_default() += 1;
        }
    }
}

/// A commit in the store's hands.
pub struct SubmittedCommit {
    /// Answers when it is durable.
    pub receipt: Receipt,
    /// Its LSN.
    pub lsn: u64,
    /// Its name in the commit log.
    pub token: Token,
}

impl Writer {
    /// Opens the partition's place in the store, which fences every writer before.
    pub(super) fn open(partition: &Partition) -> Result<Self> {
        let lease = partition
            .store
            .open(partition.home)
            .map_err(storage_failure)?;
        let snapshot = partition.stored()?;
        let mut counts = Vec::new();
        for block in 0.. {
            let Some(row) = snapshot
                .get(&keys::path_counts(block))
                .map_err(storage_failure)?
            else {
                break;
            };
            counts.extend(row.chunks_exact(8).filter_map(keys::number));
        }
        let lsn = lease.head().lsn;
        let recent = Recent {
            floor: lsn,
            ..Recent::default()
        };
        let counters = Partition::counters(snapshot.as_ref())?;
        // Transactions under way use numbers of the dictionary in memory, so it stays; what the store lacks of it, because
        // a commit never took place, goes along with the next one.
        let stored = dictionary::load_paths(snapshot.as_ref())?;
        match &mut *partition
            .paths
            .write()
            .unwrap_or_else(PoisonError::into_inner)
        {
            Some(paths) => paths.saved_are(&stored),
            none => *none = Some(stored),
        }
        let generations = Partition::generations(snapshot.as_ref())?;
        let versions_after = Partition::versions_after(snapshot.as_ref())?;
        Ok(Writer {
            lease,
            lsn,
            counters,
            generations,
            versions_after,
            counts,
            pending: PendingRows::default(),
            recent,
        })
    }

    /// A row as the next write must see it.
    pub fn get(&self, snapshot: &dyn Snapshot, key: &[u8]) -> Result<Option<Bytes>> {
        if let Some((_, row)) = self.pending.rows.get(key) {
            return Ok(row.clone());
        }
        snapshot.get(key).map_err(storage_failure)
    }

    /// Whether a logical partition was written after `lsn`, as far as is remembered; forgotten counts as written.
    pub fn was_written_since(&self, epk_prefix: EpkPrefix, lsn: u64) -> bool {
        lsn < self.recent.floor
            || self
                .recent
                .last_write
                .get(&epk_prefix)
                .is_some_and(|&last| last > lsn)
    }

    /// Orders a commit. `token` is a number that no other commit has.
    pub fn submit(
        &mut self,
        partition: &Partition,
        changes: CommitChanges,
        token: u64,
    ) -> SubmittedCommit {
        let lsn = self.lsn + 1;
        let token_bytes = token_of(lsn, token);
        let CommitChanges {
            mut puts,
            mut deletes,
            entries,
            epk_prefixes,
            counters,
            generations,
            versions_after,
        } = changes;
        puts.push((keys::counters(), counters.encode()));
        puts.push((keys::log(lsn), log_row(lsn, token_bytes).to_vec()));
        if let Some(generations) = generations {
            puts.push((keys::policy_generations(), generations.encode()));
            self.generations = generations;
        }
        if let Some(after) = versions_after {
            match after {
                Some(lsn) => puts.push((keys::versions_floor(), lsn.to_be_bytes().to_vec())),
                None => deletes.push(keys::versions_floor()),
            }
            self.versions_after = after;
        }
        self.count(entries, &mut puts);
        let unsaved = partition
            .paths
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .as_mut()
            .map(Paths::take_unsaved);
        puts.extend(
            unsaved
                .into_iter()
                .flatten()
                .map(|(number, row)| (keys::path(number), row)),
        );
        self.pending.add(lsn, &puts, &deletes);
        if let Some(change_capture) = &mut *partition
            .change_capture
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
        {
            change_capture.add(lsn, &puts, &deletes);
        }
        self.counters = counters;
        self.recent.add(lsn, epk_prefixes);
        let commit = Commit {
            expect_lsn: self.lsn,
            new_lsn: lsn,
            token: token_bytes,
            puts,
            deletes,
            range_deletes: Vec::new(),
        };
        self.lsn = lsn;
        SubmittedCommit {
            receipt: partition.store.submit(&self.lease, commit),
            lsn,
            token: token_bytes,
        }
    }

    /// Forgets pending rows that snapshots have by now.
    pub fn forget_durable(&mut self, durable_lsn: u64) {
        self.pending.forget(durable_lsn);
    }

    fn count(&mut self, entries: HashMap<PathNumber, i64>, puts: &mut Vec<(Vec<u8>, Vec<u8>)>) {
        let mut blocks: Vec<u32> = Vec::new();
        for (path, change) in entries.into_iter().filter(|(_, change)| *change != 0) {
            let block = path / COUNT_BLOCK;
            let length = ((block + 1) * COUNT_BLOCK) as usize;
            if self.counts.len() < length {
                self.counts.resize(length, 0);
                // Rows are read back block by block until one is missing: leave no gap.
                let missing: Vec<u32> = (0..block).filter(|b| !blocks.contains(b)).collect();
                blocks.extend(missing);
            }
            let count = &mut self.counts[path as usize];
            *count = count.saturating_add_signed(change);
            if !blocks.contains(&block) {
                blocks.push(block);
            }
        }
        puts.extend(
            blocks
                .into_iter()
                .map(|block| count_row(&self.counts, block)),
        );
    }
}

impl PendingRows {
    fn add(&mut self, lsn: u64, puts: &[(Vec<u8>, Vec<u8>)], deletes: &[Vec<u8>]) {
        let mut touched = Vec::new();
        let kept = |key: &[u8]| !keys::is_term(key);
        // As in the store: what a commit both removes and writes is written.
        for key in deletes.iter().filter(|key| kept(key)) {
            self.rows.insert(key.clone(), (lsn, None));
            touched.push(key.clone());
        }
        for (key, value) in puts.iter().filter(|(key, _)| kept(key)) {
            self.rows
                .insert(key.clone(), (lsn, Some(Bytes::copy_from_slice(value))));
            touched.push(key.clone());
        }
        self.order.push_back((lsn, touched));
    }

    fn forget(&mut self, durable_lsn: u64) {
        while self
            .order
            .front()
            .is_some_and(|(lsn, _)| *lsn <= durable_lsn)
        {
            let (lsn, touched) = self.order.pop_front().expect("just seen");
            for key in touched {
                if self
                    .rows
                    .get(&key)
                    .is_some_and(|(newest, _)| *newest == lsn)
                {
                    self.rows.remove(&key);
                }
            }
        }
    }
}

impl Recent {
    fn add(&mut self, lsn: u64, epk_prefixes: Vec<EpkPrefix>) {
        if self.last_write.len() + epk_prefixes.len() > RECENT_EPK_PREFIXES {
            self.last_write.clear();
            self.floor = lsn;
        }
        self.last_write
            .extend(epk_prefixes.into_iter().map(|epk_prefix| (epk_prefix, lsn)));
    }
}

/// A partition that nobody writes to.
pub struct WriteBlock<'a> {
    pub(super) _writer: MutexGuard<'a, Option<Writer>>,
}

/// The writer, held.
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

/// The name of an attempt to commit. `random` is a number that no other has.
pub fn token_of(lsn: u64, random: u64) -> Token {
    let mut token: Token = [0; 16];
    token[..8].copy_from_slice(&lsn.to_be_bytes());
    token[8..].copy_from_slice(&random.to_be_bytes());
    token
}

/// The row of a commit in the log.
pub(super) fn log_row(lsn: u64, token: Token) -> [u8; 24] {
    let mut row = [0; 24];
    row[..8].copy_from_slice(&lsn.to_be_bytes());
    row[8..].copy_from_slice(&token);
    row
}
