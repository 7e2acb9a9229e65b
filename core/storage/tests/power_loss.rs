//! Images of a data directory after a power loss at any operation of its files.
//!
//! A store on a simulated disk (`core/test-disk`) takes commits of random sizes in several
//! partitions, some of them at the same time; memtables are written to tables, tables are compacted,
//! partitions are removed, and the store is closed and opened again. An image is what the disk may
//! hold after a power loss at a random operation: of journals, tables, lists of tables, marks and
//! names alike.
//!
//! - An image opens with each commit that was answered before the power loss, and with the later
//!   ones up to any of them, each whole. What is committed to a fourth of the images is there after
//!   one more opening.
//! - An image in which a disk kept a later part of what was written last, and lost an earlier one,
//!   may be refused with the name of a journal: such a hole is not told from damage of an answered
//!   commit. With an accepted loss it opens as above.
//! - An image with a flipped bit opens with the same rows, or is refused, or reports damage where
//!   rows are read.
//!
//! `ORRERY_POWER_LOSS_HISTORIES` is the number of histories, `ORRERY_POWER_LOSS_FIRST` the seed of
//! the first one; the numbers of images are printed. Commits and images follow from the seed; the
//! place of background work in the record does not.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stdout)] // the numbers of images are part of the result

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{ALL, Pair, PartitionWriter, token};
use orrery_model::world::{SPLIT_MIX_STEP, split_mix};
use orrery_storage::{
    Commit, CommitOutcome, Direction, LocalOptions, LocalStore, PartitionId, Receipt, Store,
    StoreError,
};
use orrery_test_disk::{Disk, Image, Position};

/// Steps of a history.
const STEPS: usize = 60;
/// Images of a history.
const IMAGES: u64 = 50;
/// The partitions that stay.
const PARTITIONS: [PartitionId; 2] = [PartitionId(7), PartitionId(8)];
/// Small memtables, so that a history writes tables and compacts them.
const MEMTABLE_BYTES: u64 = 40 << 10;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;

/// A change of a partition: a commit, or its removal.
struct Change {
    partition: PartitionId,
    /// The rows afterwards.
    rows: Rows,
    /// The place in the record before the change was submitted.
    submitted_at: Position,
    /// The place in the record when it was answered.
    answered_at: Position,
}

/// Random numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(SPLIT_MIX_STEP);
        split_mix(self.0) % end
    }
}

/// A store on a simulated disk, with what was done to it.
struct History {
    directory: tempfile::TempDir,
    disk: Disk,
    changes: Vec<Change>,
    /// The current rows of the partitions.
    rows: BTreeMap<PartitionId, Rows>,
    /// The partition that is written until it is removed.
    passing: PartitionId,
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Returns a new directory, in memory if the system has such a place: the record says what is
/// durable, not the system.
fn new_directory() -> tempfile::TempDir {
    match Path::new("/dev/shm") {
        memory if memory.is_dir() => tempfile::tempdir_in(memory),
        _ => tempfile::tempdir(),
    }
    .unwrap()
}

fn options() -> LocalOptions {
    LocalOptions {
        memtable_bytes: MEMTABLE_BYTES,
        ..LocalOptions::default()
    }
}

impl History {
    /// Runs a history.
    fn run(random: &mut Random) -> History {
        let directory = new_directory();
        let disk = Disk::record(directory.path()).unwrap();
        let mut history = History {
            directory,
            disk,
            changes: Vec::new(),
            rows: BTreeMap::new(),
            passing: PartitionId(100),
        };
        let mut steps_left = STEPS;
        while steps_left > 0 {
            let store = LocalStore::open(history.directory.path(), options()).unwrap();
            let steps = steps_left.min(1 + random.below(STEPS as u64 / 2) as usize);
            history.use_store(&store, steps, random);
            steps_left -= steps;
        }
        history.disk.check_record().unwrap();
        history
    }

    /// Commits to a store, and removes partitions.
    fn use_store(&mut self, store: &LocalStore, steps: usize, random: &mut Random) {
        let mut writers = BTreeMap::new();
        for _ in 0..steps {
            if random.below(12) == 0 {
                writers.remove(&self.passing);
                self.remove_passing(store);
                continue;
            }
            // The commits of a step are submitted before the first one is waited for.
            let mut submitted: Vec<(usize, Receipt)> = Vec::new();
            for _ in 0..1 + random.below(3) {
                let partition = match random.below(5) {
                    0 => self.passing,
                    number => PARTITIONS[number as usize % 2],
                };
                let writer = writers
                    .entry(partition)
                    .or_insert_with(|| PartitionWriter::open(store, partition));
                let receipt = self.submit(writer, partition, random);
                submitted.push((self.changes.len() - 1, receipt));
            }
            for (change, receipt) in submitted {
                assert_eq!(receipt.wait(), CommitOutcome::Ok);
                self.changes[change].answered_at = self.disk.position();
            }
        }
    }

    fn submit(
        &mut self,
        writer: &mut PartitionWriter<'_>,
        partition: PartitionId,
        random: &mut Random,
    ) -> Receipt {
        let rows = self.rows.entry(partition).or_default();
        let mut commit = Commit::default();
        for _ in 0..1 + random.below(4) {
            // Keys of rows, and of index entries, which have tables of their own.
            let tag = [0u8, 0x80][random.below(2) as usize];
            let key = vec![tag, random.below(12) as u8];
            if random.below(4) == 0 {
                rows.remove(&key);
                commit.puts.retain(|(put, _)| *put != key);
                commit.deletes.push(key);
            } else {
                let size = [0, 30, 900, 5_000, 30_000][random.below(5) as usize];
                let value: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
                rows.insert(key.clone(), value.clone());
                commit.deletes.retain(|delete| *delete != key);
                commit.puts.retain(|(put, _)| *put != key);
                commit.puts.push((key, value));
            }
        }
        let count = (self.changes.len() as u64).to_be_bytes().to_vec();
        rows.insert(b"last".to_vec(), count.clone());
        commit.puts.push((b"last".to_vec(), count));
        (commit.expect_lsn, commit.new_lsn) = (writer.lsn, writer.lsn + 1);
        commit.token = token(commit.new_lsn);
        writer.lsn += 1;
        self.changes.push(Change {
            partition,
            rows: rows.clone(),
            submitted_at: self.disk.position(),
            answered_at: Position::MAX,
        });
        writer.store.submit(&writer.lease, commit)
    }

    fn remove_passing(&mut self, store: &LocalStore) {
        let partition = self.passing;
        let submitted_at = self.disk.position();
        store.destroy(partition).unwrap();
        self.changes.push(Change {
            partition,
            rows: Rows::new(),
            submitted_at,
            answered_at: self.disk.position(),
        });
        self.passing = PartitionId(partition.0 + 1);
    }

    /// Returns the states that a partition may have after a power loss at a place of the record.
    fn states(&self, partition: PartitionId, at: Position) -> Vec<&Rows> {
        static NONE: Rows = Rows::new();
        let mut states = vec![&NONE];
        for change in &self.changes {
            if change.partition != partition || change.submitted_at >= at {
                continue;
            }
            if change.answered_at <= at {
                states.clear();
            }
            states.push(&change.rows);
        }
        states
    }

    /// Reads all partitions of an image. `Err` is damage that a read reports.
    fn check(&self, store: &LocalStore, at: Position, name: &str) -> Result<(), StoreError> {
        let partitions = self.changes.iter().map(|change| change.partition);
        let mut partitions: Vec<PartitionId> = partitions.collect();
        partitions.sort_unstable();
        partitions.dedup();
        for partition in partitions {
            let rows = rows_of(store, partition)?;
            let states = self.states(partition, at);
            assert!(
                states.contains(&&rows),
                "{name}: {partition:?} has {}, and may have {:?}",
                description(&rows),
                states.into_iter().map(description).collect::<Vec<_>>()
            );
        }
        Ok(())
    }
}

/// Returns what tells states apart, for a message.
fn description(rows: &Rows) -> String {
    format!(
        "last {:?} of {} rows",
        rows.get(b"last".as_slice()),
        rows.len()
    )
}

fn rows_of(store: &LocalStore, partition: PartitionId) -> Result<Rows, StoreError> {
    let snapshot = store.snapshot(partition)?;
    let mut rows = Rows::new();
    for row in snapshot.scan(ALL, Direction::Forward) {
        let (key, value): (_, _) = row?;
        rows.insert(key.to_vec(), value.to_vec());
    }
    Ok(rows)
}

/// Commits a row to an image that has opened, and checks that the rows are there after an opening.
fn goes_on(directory: &Path, name: &str) {
    let store = LocalStore::open(directory, options()).unwrap();
    let partition = PARTITIONS[0];
    let mut rows = rows_of(&store, partition).unwrap();
    let (key, value): Pair = (vec![0xff; 9], b"after the power loss".to_vec());
    PartitionWriter::open(&store, partition).put(&[(&key, &value)]);
    drop(store);
    rows.insert(key, value);
    let store = LocalStore::open(directory, options()).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(
        rows_of(&store, partition).unwrap() == rows,
        "{name}: a commit after the power loss"
    );
}

/// The numbers of images.
#[derive(Default)]
struct Counts {
    images: u64,
    refused: u64,
    flipped: u64,
    noticed: u64,
}

/// Opens an image of a power loss.
fn try_image(
    history: &History,
    image: &Image,
    at: Position,
    random: &mut Random,
    name: &str,
) -> bool {
    let place = new_directory();
    image.write(place.path()).unwrap();
    match LocalStore::open(place.path(), options()) {
        Ok(store) => {
            history
                .check(&store, at, name)
                .unwrap_or_else(|e| panic!("{name}: {e}"));
            drop(store);
            if random.below(4) == 0 {
                goes_on(place.path(), name);
            }
            false
        }
        Err(error) => {
            let text = error.to_string();
            assert!(image.has_holes(), "{name}: refused: {text}");
            assert!(text.contains(".jnl"), "{name}: {text}");
            let with_loss = LocalOptions {
                accept_loss: true,
                ..options()
            };
            let store = LocalStore::open(place.path(), with_loss);
            let store = store.unwrap_or_else(|e| panic!("{name}, accepting the loss: {e}"));
            history.check(&store, at, name).unwrap();
            true
        }
    }
}

/// Opens an image with a flipped bit. Returns true if the damage was noticed.
fn try_flipped(
    history: &History,
    image: &mut Image,
    at: Position,
    random: &mut Random,
    name: &str,
) -> bool {
    let file = image.flip_bit(&mut |end| random.below(end));
    let name = format!("{name}, a flipped bit in {file:?}");
    let place = new_directory();
    image.write(place.path()).unwrap();
    match LocalStore::open(place.path(), options()) {
        Ok(store) => history.check(&store, at, &name).is_err(),
        Err(_) => true,
    }
}

#[test]
fn a_power_loss_at_any_operation_loses_no_answered_commit() {
    let first = setting("ORRERY_POWER_LOSS_FIRST", 0);
    let mut counts = Counts::default();
    for seed in first..first + setting("ORRERY_POWER_LOSS_HISTORIES", 2) {
        let mut random = Random(split_mix(seed));
        let history = History::run(&mut random);
        for number in 0..IMAGES {
            let name = format!("history {seed}, image {number}");
            let at = random.below(history.disk.position() as u64 + 1) as Position;
            let mut image = history.disk.image(at, &mut |end| random.below(end));
            let is_refused = try_image(&history, &image, at, &mut random, &name);
            counts.images += 1;
            counts.refused += u64::from(is_refused);
            if !is_refused && random.below(4) == 0 {
                let is_noticed = try_flipped(&history, &mut image, at, &mut random, &name);
                counts.flipped += 1;
                counts.noticed += u64::from(is_noticed);
            }
        }
    }
    println!(
        "power losses: {} images, of which {} refused to open; {} with a flipped bit, of which {} \
         were noticed",
        counts.images, counts.refused, counts.flipped, counts.noticed
    );
}
