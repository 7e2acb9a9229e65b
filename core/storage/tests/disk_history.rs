//! Histories of a store on a simulated disk, and the states that a power loss may leave of them.
//!
//! Several partitions get commits of random sizes, some of them at the same time; memtables are
//! written to tables, tables are compacted, partitions are removed, the store is closed and opened
//! again, and calls of the disk fail. Commits follow from the seed; the place of background work in
//! the record does not.
//!
//! Leaves out: damage, and what the disk keeps (`core/test-disk`).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use crate::support::{ALL, PartitionWriter, token};
use orrery_model::world::SeededNumbers;
use orrery_storage::{
    Commit, CommitOutcome, Direction, LocalOptions, LocalStore, PartitionId, Receipt, Store,
    StoreError,
};
use orrery_test_disk::{Call, Disk, Failure, Position, new_directory};

/// Steps of a history.
const STEPS: u64 = 60;
/// The partitions that stay.
pub(crate) const PARTITIONS: [PartitionId; 2] = [PartitionId(7), PartitionId(8)];
/// Small memtables, so that a history writes tables and compacts them.
const MEMTABLE_BYTES: u64 = 40 << 10;
/// Errors of the system: an I/O error and a full disk.
const IO_ERROR: i32 = 5;
const DISK_FULL: i32 = 28;
/// The most calls that succeed before one fails.
const CALLS_BEFORE_FAILURE: u64 = 60;

pub(crate) type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A change of a partition: a commit, its removal, or the state that was found after a failure.
struct Change {
    partition: PartitionId,
    /// The rows afterwards.
    rows: Rows,
    /// The place in the record before the change was submitted.
    submitted_at: Position,
    /// The place in the record when it was answered with success.
    answered_at: Option<Position>,
    /// The place in the record when it was answered with a refusal: from then on it is not there.
    refused_at: Option<Position>,
}

/// A store on a simulated disk, with what was done to it.
pub(crate) struct History {
    directory: tempfile::TempDir,
    pub(crate) disk: Disk,
    changes: Vec<Change>,
    /// The current rows of the partitions.
    rows: BTreeMap<PartitionId, Rows>,
    /// The partition that is written until it is removed.
    passing: PartitionId,
    /// The number of answers that were no success.
    pub(crate) failed: u64,
}

pub(crate) fn options() -> LocalOptions {
    LocalOptions {
        memtable_bytes: MEMTABLE_BYTES,
        ..LocalOptions::default()
    }
}

impl History {
    /// Runs a history on a disk that `prepare` has prepared.
    ///
    /// # Errors
    /// The first fault of the store without a power loss.
    pub(crate) fn run(
        random: &mut SeededNumbers,
        has_failures: bool,
        prepare: impl FnOnce(&Disk),
    ) -> Result<History, String> {
        let directory = new_directory().unwrap();
        let disk = Disk::record(directory.path()).unwrap();
        prepare(&disk);
        let mut history = History {
            directory,
            disk,
            changes: Vec::new(),
            rows: BTreeMap::new(),
            passing: PartitionId(100),
            failed: 0,
        };
        let mut steps_left = STEPS;
        while steps_left > 0 {
            let path = history.directory.path();
            let store = LocalStore::open(path, options()).map_err(|error| error.to_string())?;
            history.settle(&store)?;
            if has_failures && random.below(2) == 0 {
                history.disk.fail(Failure {
                    call: [Call::Write, Call::Sync][random.below(2) as usize],
                    after: random.below(CALLS_BEFORE_FAILURE),
                    times: 1 + random.below(3),
                    error: [IO_ERROR, DISK_FULL][random.below(2) as usize],
                });
            }
            let steps = steps_left.min(1 + random.below(STEPS / 2));
            history.use_store(&store, steps, random)?;
            steps_left -= steps;
            drop(store);
            history.disk.repair();
        }
        history.disk.check_record()?;
        Ok(history)
    }

    /// Commits to a store and removes partitions, until a change fails.
    fn use_store(
        &mut self,
        store: &LocalStore,
        steps: u64,
        random: &mut SeededNumbers,
    ) -> Result<(), String> {
        let mut writers = BTreeMap::new();
        for _ in 0..steps {
            if random.below(12) == 0 {
                writers.remove(&self.passing);
                if !self.remove_passing(store) {
                    return Ok(());
                }
                continue;
            }
            // The commits of a step are submitted before the first one is waited for.
            let mut submitted: Vec<(usize, Receipt)> = Vec::new();
            for _ in 0..1 + random.below(3) {
                let partition = match random.below(5) {
                    0 => self.passing,
                    number => PARTITIONS[number as usize % 2],
                };
                let writer = match writers.entry(partition) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(place) => match store.open(partition) {
                        Ok(lease) => {
                            let lsn = lease.head().lsn;
                            place.insert(PartitionWriter { store, lease, lsn })
                        }
                        Err(error) => {
                            self.count_failure(&error.to_string())?;
                            continue;
                        }
                    },
                };
                let receipt = self.submit(writer, partition, random);
                submitted.push((self.changes.len() - 1, receipt));
            }
            let mut has_failed = submitted.is_empty();
            for (number, receipt) in submitted {
                let outcome = receipt.wait();
                let change = &mut self.changes[number];
                match outcome {
                    CommitOutcome::Ok => change.answered_at = Some(self.disk.position()),
                    CommitOutcome::Unknown => {}
                    _ => change.refused_at = Some(self.disk.position()),
                }
                if outcome != CommitOutcome::Ok {
                    self.count_failure(&format!("{outcome:?}"))?;
                    has_failed = true;
                }
            }
            if has_failed {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Counts an answer that is no success. Only a failure of the disk explains it.
    fn count_failure(&mut self, answer: &str) -> Result<(), String> {
        self.failed += 1;
        match self.disk.failures() {
            0 => Err(format!("a change failed without a cause: {answer}")),
            _ => Ok(()),
        }
    }

    fn submit(
        &mut self,
        writer: &mut PartitionWriter<'_>,
        partition: PartitionId,
        random: &mut SeededNumbers,
    ) -> Receipt {
        let rows = self.rows.entry(partition).or_default();
        let mut commit = Commit::default();
        for _ in 0..1 + random.below(4) {
            // Keys of rows, and of index entries, which have tables of their own.
            let tag = [0u8, 0x80][random.below(2) as usize];
            let key = vec![tag, random.below(12) as u8];
            commit.puts.retain(|(put, _)| *put != key);
            commit.deletes.retain(|delete| *delete != key);
            if random.below(4) == 0 {
                rows.remove(&key);
                commit.deletes.push(key);
            } else {
                let size = [0, 30, 900, 5_000, 30_000][random.below(5) as usize];
                let value: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
                rows.insert(key.clone(), value.clone());
                commit.puts.push((key, value));
            }
        }
        let count = (self.changes.len() as u64).to_be_bytes().to_vec();
        rows.insert(b"last".to_vec(), count.clone());
        commit.puts.push((b"last".to_vec(), count));
        (commit.expect_lsn, commit.new_lsn) = (writer.lsn, writer.lsn + 1);
        commit.token = token(commit.new_lsn);
        writer.lsn += 1;
        let rows = rows.clone();
        self.begin_change(partition, rows);
        writer.store.submit(&writer.lease, commit)
    }

    fn begin_change(&mut self, partition: PartitionId, rows: Rows) {
        self.changes.push(Change {
            partition,
            rows,
            submitted_at: self.disk.position(),
            answered_at: None,
            refused_at: None,
        });
    }

    /// Removes the partition that passes. Returns false if the removal failed.
    fn remove_passing(&mut self, store: &LocalStore) -> bool {
        self.begin_change(self.passing, Rows::new());
        let number = self.changes.len() - 1;
        match store.destroy(self.passing) {
            Ok(()) => {
                self.changes[number].answered_at = Some(self.disk.position());
                self.passing = PartitionId(self.passing.0 + 1);
                true
            }
            Err(_) => {
                self.failed += 1;
                false
            }
        }
    }

    /// Compares a store that was opened with what may be there, and goes on from what is there.
    fn settle(&mut self, store: &LocalStore) -> Result<(), String> {
        let position = self.disk.position();
        for partition in self.partitions() {
            let rows = rows_of(store, partition).map_err(|error| error.to_string())?;
            self.check_rows(partition, &rows, position)?;
            self.rows.insert(partition, rows.clone());
            self.begin_change(partition, rows);
            let number = self.changes.len() - 1;
            self.changes[number].answered_at = Some(position);
        }
        Ok(())
    }

    fn partitions(&self) -> Vec<PartitionId> {
        let mut partitions: Vec<_> = self.changes.iter().map(|one| one.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        partitions
    }

    /// Returns the states that a partition may have after a power loss at a place of the record.
    fn states(&self, partition: PartitionId, at: Position) -> Vec<&Rows> {
        static NONE: Rows = Rows::new();
        let mut states = vec![&NONE];
        let is_past = |place: Option<Position>| place.is_some_and(|place| place <= at);
        for change in &self.changes {
            let is_of_partition = change.partition == partition && !is_past(change.refused_at);
            if !is_of_partition || change.submitted_at > at {
                continue;
            }
            if is_past(change.answered_at) {
                states.clear();
            }
            states.push(&change.rows);
        }
        states
    }

    fn check_rows(&self, partition: PartitionId, rows: &Rows, at: Position) -> Result<(), String> {
        let states = self.states(partition, at);
        if states.contains(&rows) {
            return Ok(());
        }
        let may_be: Vec<String> = states.into_iter().map(description).collect();
        Err(format!(
            "{partition:?} has {}, and may have {}",
            description(rows),
            may_be.join(" or ")
        ))
    }

    /// Compares the partitions of an image of a place of the record, without the removed ones of a
    /// damaged image: rows may show that were deleted in a damaged block, and no damage is kept for
    /// a partition that is gone. The inner `Err` is damage that a read reports.
    ///
    /// # Errors
    /// Rows that cannot be.
    pub(crate) fn check(
        &self,
        store: &LocalStore,
        at: Position,
        is_damaged: bool,
    ) -> Result<Result<(), StoreError>, String> {
        for partition in self.partitions() {
            let is_removed = self
                .states(partition, at)
                .iter()
                .all(|rows| rows.is_empty());
            if is_removed && is_damaged {
                continue;
            }
            match rows_of(store, partition) {
                Ok(rows) => self.check_rows(partition, &rows, at)?,
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Ok(()))
    }
}

/// Returns what tells states apart, for a message.
fn description(rows: &Rows) -> String {
    let last = rows.get(b"last".as_slice());
    let last = last.and_then(|bytes| bytes.as_slice().try_into().ok());
    let last = last.map(u64::from_be_bytes);
    format!("{} rows as of change {last:?}", rows.len())
}

pub(crate) fn rows_of(store: &LocalStore, partition: PartitionId) -> Result<Rows, StoreError> {
    let snapshot = store.snapshot(partition)?;
    let mut rows = Rows::new();
    for row in snapshot.scan(ALL, Direction::Forward) {
        let (key, value) = row?;
        rows.insert(key.to_vec(), value.to_vec());
    }
    Ok(rows)
}
