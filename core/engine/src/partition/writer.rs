//! The writer of a partition: accepted rows that are not durable yet, the logical partitions
//! written recently, and the way from changes to a commit.
//!
//! Promises: a commit that the store refuses when it is submitted leaves the writer, and all else
//! that the partition keeps in memory, as it was. After a commit that fails later, or whose outcome
//! is not known, the next writer reads everything anew.

use super::counts::EntryCounts;
use super::key_sizes::{FinishedCount, KeyChanges, KeySizes};
use super::{Counters, Partition, scan};
use crate::errors::{damaged, storage_failure};
use crate::index::generations::PolicyGenerations;
use crate::index::new_paths::AssignedPaths;
use crate::index::terms::Terms;
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::row_reader::read_change;
use crate::partition::row_reader::read_row;
use crate::partition::version_floors::VersionFloors;
use bytes::Bytes;
use orrery_model::Result;
use orrery_model::sync::lock;
use orrery_storage::{Commit, CommitOutcome, Direction, Lease, Receipt, Snapshot, Token};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::MutexGuard;

/// Logical partitions that are remembered as recently written.
const RECENT_EPK_PREFIXES: usize = 8192;

/// Marks versions whose bytes have not been counted: a number above all bounds.
pub(crate) const NOT_LOOKED_AT: u64 = u64::MAX / 2;
/// The part of a bound on the bytes of versions that is written between two looks at their size.
pub(crate) const VERSION_LOOKS: u64 = 8;

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
    /// The LSNs after which versions are kept, if they are kept, after the last accepted commit.
    pub(crate) version_floors: Option<VersionFloors>,
    /// Bytes of the versions that commits have written since the last look at the size of all
    /// versions; [`NOT_LOOKED_AT`] and more before the first look.
    pub version_bytes: u64,
    /// Index entries by path.
    entry_counts: EntryCounts,
    pending: PendingRows,
    /// The LSN up to which accepted rows are forgotten.
    forgotten_until: u64,
    recent: RecentWrites,
    /// Sizes of logical partitions after the last accepted commit.
    pub(super) key_sizes: KeySizes,
    /// The vector indexes whose vectors are quantised, after the last accepted commit.
    quantised: HashSet<PathNumber>,
}

/// Rows of commits that are accepted and not durable yet. Index entries are left out: no write
/// reads them.
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
    /// The paths that the commit brings, with their numbers.
    pub new_paths: AssignedPaths,
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
    /// The LSNs after which versions are kept (`None`: they are not kept), if they change.
    pub(crate) version_floors: Option<Option<VersionFloors>>,
    /// Bytes of the rows of versions that the commit writes.
    pub version_bytes: u64,
    /// The vector indexes whose vectors are quantised from this commit on, or not any more.
    pub quantised: Vec<(PathNumber, bool)>,
    /// The commit deletes more than it writes: it is accepted although the disk is nearly full.
    pub may_use_reserve: bool,
}

impl CommitChanges {
    /// Replaces the index entries of an item: terms, words and vectors. Entries in both sets stay
    /// untouched. The new paths among them have their numbers in `new_paths`.
    pub fn replace_terms(
        &mut self,
        before: &Terms,
        after: &Terms,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) {
        for (path, value) in before.difference(after) {
            // A path that the dictionary lacks has no entries to remove.
            let Some(path) = self.new_paths.number(path) else {
                continue;
            };
            let key = keys::term(path, value, number, epk_prefix);
            self.counters.index_bytes = self.counters.index_bytes.saturating_sub(key.len() as u64);
            self.deletes.push(key);
            *self.entries.entry(path).or_default() -= 1;
        }
        for (path, value) in after.difference(before) {
            let path = self.new_paths.number(path).expect("counted as used");
            let key = keys::term(path, value, number, epk_prefix);
            self.counters.index_bytes += key.len() as u64;
            self.puts.push((key, Vec::new()));
            *self.entries.entry(path).or_default() += 1;
        }
        self.replace_search_entries(before, after, number, epk_prefix);
    }

    /// Replaces the entries of an item in vector and full-text indexes.
    fn replace_search_entries(
        &mut self,
        before: &Terms,
        after: &Terms,
        number: ItemNumber,
        epk_prefix: EpkPrefix,
    ) {
        for ((path, stem), old, new) in before.search_unlike(after) {
            let Some(path) = self.new_paths.number(*path) else {
                continue;
            };
            let key = keys::search_entry(path, stem.as_deref(), number, epk_prefix);
            let bytes = (key.len() + old.len()) as u64;
            self.counters.index_bytes = self.counters.index_bytes.saturating_sub(bytes);
            *self.entries.entry(path).or_default() -= keys::entries_counted(&key, old);
            if new.is_none() {
                self.deletes.push(key);
            }
        }
        for ((path, stem), new, _) in after.search_unlike(before) {
            let path = self.new_paths.number(*path).expect("counted as used");
            let key = keys::search_entry(path, stem.as_deref(), number, epk_prefix);
            self.counters.index_bytes += (key.len() + new.len()) as u64;
            *self.entries.entry(path).or_default() += keys::entries_counted(&key, new);
            self.puts.push((key, new.to_vec()));
        }
    }
}

/// A commit that the store has accepted.
pub struct SubmittedCommit {
    /// Answers when the commit is durable.
    pub receipt: Receipt,
    /// The attempt, for looking it up if its outcome is not known.
    pub attempt: CommitAttempt,
}

/// One attempt to commit.
#[derive(Clone, Copy)]
pub struct CommitAttempt {
    /// The LSN of the commit.
    pub lsn: u64,
    /// The token of the commit in the commit log.
    pub token: Token,
    /// The store refused the commit before the writer counted on it.
    pub is_refused: bool,
}

impl SubmittedCommit {
    /// Returns true if the commit is accepted, so that the next commit builds on it.
    pub fn is_accepted(&self) -> bool {
        !self.attempt.is_refused
    }
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
        partition.set_commit_second(newest_ts(snapshot)?);
        Ok(Writer {
            lease,
            lsn,
            counters: Partition::counters(snapshot)?,
            generations: Partition::generations(snapshot)?,
            version_floors: Partition::version_floors(snapshot)?,
            version_bytes: NOT_LOOKED_AT,
            entry_counts: EntryCounts::load(snapshot)?,
            pending: PendingRows::default(),
            forgotten_until: lsn,
            key_sizes: KeySizes::load(snapshot)?,
            quantised: quantised_indexes(snapshot)?,
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
        match self.pending_row(key) {
            Some((_, row)) => Ok(row.cloned()),
            None => snapshot.get(key).map_err(storage_failure),
        }
    }

    /// Returns a row of an accepted commit that may not be durable, with the LSN of the commit.
    /// `None` as the row means that the commit has removed it.
    pub(super) fn pending_row(&self, key: &[u8]) -> Option<(u64, Option<&Bytes>)> {
        let (lsn, row) = self.pending.rows.get(key)?;
        Some((*lsn, row.as_ref()))
    }

    /// Returns the commit on which an answer rests that was made of rows of commits up to `lsn`;
    /// `None` if a snapshot with the LSN `durable_lsn` has these rows.
    pub(crate) fn pending_commit(&self, lsn: u64, durable_lsn: u64) -> Option<CommitAttempt> {
        let lsn = lsn.min(self.lsn);
        if lsn <= durable_lsn {
            return None;
        }
        // A place in the commit log is used again, by a commit that comes later. The last commit
        // stands for all before it.
        self.logged(lsn).or_else(|| self.logged(self.lsn))
    }

    /// Returns an accepted commit by its row in the commit log.
    fn logged(&self, lsn: u64) -> Option<CommitAttempt> {
        let (_, row) = self.pending_row(&keys::log(lsn))?;
        let (found, token) = row?.split_first_chunk::<8>()?;
        let attempt = CommitAttempt {
            lsn,
            token: token.try_into().ok()?,
            is_refused: false,
        };
        (u64::from_be_bytes(*found) == lsn).then_some(attempt)
    }

    /// Returns the new LSNs after which versions are kept, if a commit has to change them.
    pub(super) fn change_of_version_floors(
        &self,
        keeps_versions: bool,
    ) -> Option<Option<VersionFloors>> {
        match (keeps_versions, &self.version_floors) {
            (true, None) => Some(Some(VersionFloors::of_one(self.lsn))),
            (false, Some(_)) => Some(None),
            _ => None,
        }
    }

    /// Returns true if so many versions were written that their size is to be looked at, where they
    /// may take `bytes_max` bytes.
    pub fn asks_for_look_at_versions(&self, bytes_max: u64) -> bool {
        self.version_bytes > bytes_max / VERSION_LOOKS
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
    /// other commit has. A commit that is refused at once changes nothing.
    pub fn submit(
        &mut self,
        partition: &Partition,
        changes: CommitChanges,
        random: u64,
    ) -> SubmittedCommit {
        let mut attempt = CommitAttempt {
            lsn: self.lsn + 1,
            token: token_of(self.lsn + 1, random),
            is_refused: false,
        };
        // A refusal that does not depend on the commit is known before its rows are made.
        let receipt = match partition.store.refusal(changes.may_use_reserve) {
            Some(refusal) => Receipt::ready(refusal),
            None => self.submit_attempt(partition, changes, attempt),
        };
        attempt.is_refused = receipt.refusal().is_some();
        SubmittedCommit { receipt, attempt }
    }

    /// Makes the rows of a commit, submits them, and takes the changes in if the commit is
    /// accepted.
    fn submit_attempt(
        &mut self,
        partition: &Partition,
        mut changes: CommitChanges,
        attempt: CommitAttempt,
    ) -> Receipt {
        let CommitAttempt { lsn, token, .. } = attempt;
        let mut puts = std::mem::take(&mut changes.puts);
        let mut deletes = std::mem::take(&mut changes.deletes);
        self.add_own_rows(&changes, attempt, &mut puts, &mut deletes);
        let counts = self.entry_counts.changed(&changes.entries);
        puts.extend(counts.rows());
        // Terms refer to paths by number, so new paths go into the same commit as their first
        // terms.
        for (number, row) in &changes.new_paths.rows {
            puts.push((keys::path(*number), row.clone()));
        }

        let pending = PendingRows::rows_of(&puts, &deletes);
        let commit = Commit {
            expect_lsn: self.lsn,
            new_lsn: lsn,
            token,
            puts,
            deletes,
            range_deletes: Vec::new(),
            may_use_reserve: changes.may_use_reserve,
        };
        if !partition.store.limits().admit(&commit) {
            return Receipt::ready(CommitOutcome::TooLarge);
        }
        // Readers of a snapshot that has the commit need its paths, and a split under way its rows,
        // so both are there before the store makes the commit visible.
        partition.add_paths(&changes.new_paths.rows);
        if let Some(capture) = &mut *lock(&partition.change_capture) {
            capture.add(lsn, &commit.puts, &commit.deletes);
        }
        let receipt = partition.store.submit(&self.lease, commit);
        if receipt.refusal().is_some() {
            partition.take_paths_back(&changes.new_paths.rows);
            if let Some(capture) = &mut *lock(&partition.change_capture) {
                capture.remove(lsn);
            }
            return receipt;
        }

        // From here on the next write builds on the commit.
        self.lsn = lsn;
        self.pending.add(lsn, pending);
        self.entry_counts.apply(counts);
        self.take_in(changes);
        receipt
    }

    /// Adds the rows of a commit that the partition keeps for itself, counts of index entries left
    /// out.
    fn add_own_rows(
        &self,
        changes: &CommitChanges,
        attempt: CommitAttempt,
        puts: &mut Vec<(Vec<u8>, Vec<u8>)>,
        deletes: &mut Vec<Vec<u8>>,
    ) {
        // Every commit carries its counters and its row in the commit log, which later tells
        // whether the commit took place.
        let log_row = log_row(attempt.lsn, attempt.token);
        puts.push((keys::counters(), changes.counters.encode()));
        puts.push((keys::log(attempt.lsn), log_row.to_vec()));
        if let Some(generations) = &changes.generations {
            puts.push((keys::policy_generations(), generations.encode()));
        }
        match &changes.version_floors {
            Some(Some(floors)) => puts.push((keys::versions_floor(), floors.encode())),
            Some(None) => deletes.push(keys::versions_floor()),
            None => {}
        }
        self.add_change_marks(attempt.lsn, puts, deletes);
        self.key_sizes.add_rows(&changes.key_changes, puts, deletes);
        if let Some(finished) = &changes.key_count {
            self.key_sizes.add_rows_of_count(finished, puts);
        }
    }

    /// Marks the vectors that a commit changes, where vectors are quantised.
    fn add_change_marks(&self, lsn: u64, puts: &mut Vec<(Vec<u8>, Vec<u8>)>, deletes: &[Vec<u8>]) {
        if self.quantised.is_empty() {
            return;
        }
        let mut marks = Vec::new();
        for key in puts.iter().map(|(key, _)| key).chain(deletes) {
            if let Some(path) = keys::path_of_vector(key)
                && self.quantised.contains(&path)
                && let Some((epk_prefix, number)) = keys::read_vector(key)
            {
                let mark = keys::changed_vector(path, lsn, number);
                marks.push((mark, epk_prefix.to_vec()));
            }
        }
        puts.extend(marks);
    }

    /// Takes the changes of an accepted commit in.
    fn take_in(&mut self, changes: CommitChanges) {
        self.counters = changes.counters;
        if let Some(generations) = changes.generations {
            self.generations = generations;
        }
        if let Some(floors) = changes.version_floors {
            self.version_floors = floors;
        }
        self.version_bytes += changes.version_bytes;
        self.key_sizes.apply(&changes.key_changes);
        if let Some(finished) = changes.key_count {
            self.key_sizes.end_count(finished);
        }
        for (path, is_quantised) in changes.quantised {
            match is_quantised {
                true => self.quantised.insert(path),
                false => self.quantised.remove(&path),
            };
        }
        self.recent.add(self.lsn, changes.epk_prefixes);
    }

    /// Forgets pending rows up to a durable LSN: snapshots hold them now.
    pub fn forget_durable(&mut self, durable_lsn: u64) {
        self.pending.forget(durable_lsn);
        self.forgotten_until = self.forgotten_until.max(durable_lsn);
    }

    /// Returns true if a snapshot with this LSN and the accepted rows together hold every commit.
    pub fn completes(&self, snapshot_lsn: u64) -> bool {
        snapshot_lsn >= self.forgotten_until
    }
}

impl fmt::Display for Writer {
    /// Writes what the writer knows beside the rows of the store. The lease and the recent writes
    /// are left out: a new writer has a lease of its own and counts every write as recent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "lsn {}, {:?}", self.lsn, self.counters)?;
        writeln!(
            f,
            "{:?}, versions after {:?}",
            self.generations, self.version_floors
        )?;
        writeln!(f, "entries {:?}", self.entry_counts.by_path())?;
        writeln!(f, "{}", self.key_sizes)?;
        let pending: Vec<&Vec<u8>> = self.pending.rows.keys().collect();
        writeln!(f, "pending {pending:?}")
    }
}

/// Returns the `_ts` of the item that was changed last; 0 if there is no item.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(crate) fn newest_ts(snapshot: &dyn Snapshot) -> Result<u64> {
    let newest = scan(snapshot, &keys::feed_after(0), Direction::Reverse).next();
    let Some(entry) = newest else { return Ok(0) };
    let (key, value) = entry?;
    let (_, number, epk_prefix) = read_change(&key, &value)?;
    let row = read_row(epk_prefix, number, |key| {
        snapshot.get(key).map_err(storage_failure)
    })?;
    Ok(row.map_or(0, |row| row.ts))
}

/// Returns the vector indexes whose vectors are quantised in a snapshot.
fn quantised_indexes(snapshot: &dyn Snapshot) -> Result<HashSet<PathNumber>> {
    let mut indexes = HashSet::new();
    for row in scan(snapshot, &keys::approximate_states(), Direction::Forward) {
        let path = keys::read_approximate_state(&row?.0);
        indexes.insert(path.ok_or_else(|| damaged("a state of quantised vectors"))?);
    }
    Ok(indexes)
}

impl PendingRows {
    /// Returns the rows that a commit leaves: written, or removed if the value is `None`.
    fn rows_of(puts: &[(Vec<u8>, Vec<u8>)], deletes: &[Vec<u8>]) -> Vec<(Vec<u8>, Option<Bytes>)> {
        let mut rows = Vec::new();
        // Removals come first: as in the store, a row that is both removed and written is written.
        for key in deletes {
            if !keys::is_index_entry(key) {
                rows.push((key.clone(), None));
            }
        }
        for (key, value) in puts {
            if !keys::is_index_entry(key) {
                rows.push((key.clone(), Some(Bytes::copy_from_slice(value))));
            }
        }
        rows
    }

    /// Adds the rows of an accepted commit.
    fn add(&mut self, lsn: u64, rows: Vec<(Vec<u8>, Option<Bytes>)>) {
        let mut keys_of_commit = Vec::with_capacity(rows.len());
        for (key, value) in rows {
            self.rows.insert(key.clone(), (lsn, value));
            keys_of_commit.push(key);
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
