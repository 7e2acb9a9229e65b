//! Images of a data directory after a power loss at any operation of its files.
//!
//! An image is what the disk of a history (`disk_history.rs`) may hold after a power loss at a
//! random operation: of journals, tables, lists of tables, marks and names alike.
//!
//! - An image opens with each commit that was answered before the power loss, and with the later
//!   ones up to any of them, each whole. What is committed to a fourth of the images is there after
//!   one more opening.
//! - An image in which a disk kept a later part of what was written last, and lost an earlier one,
//!   may be refused with the name of a journal: such a hole is not told from damage of an answered
//!   commit. With an accepted loss it opens as above.
//! - An image with a flipped bit opens with the same rows, or is refused, or reports damage where
//!   rows are read.
//! - On a disk that reports syncs which it did not do, images lack answered commits, and the check
//!   finds that: so it does find a sync that the store forgets.
//!
//! `ORRERY_POWER_LOSS_HISTORIES` is the number of histories, `ORRERY_POWER_LOSS_FIRST` the seed of
//! the first one; the numbers of images are printed.
#![allow(clippy::print_stdout)] // the numbers of images are part of the result

use std::path::Path;

use crate::disk_history::{History, PARTITIONS, options, rows_of};
use crate::support::{P, PartitionWriter, commit, everything, pairs};
use orrery_model::world::SeededNumbers;
use orrery_storage::{CommitOutcome, LocalOptions, LocalStore};
use orrery_test_disk::{Call, Disk, Failure, Image, Loss, Position, Syncs, new_directory};

/// Images of a history.
const IMAGES: u64 = 50;
/// Histories in which a disk that reports too much has to be found out.
const HISTORIES_OF_A_FAULT: u64 = 20;

/// The numbers of images.
#[derive(Default)]
struct Counts {
    images: u64,
    refused: u64,
    flipped: u64,
    noticed: u64,
    failed: u64,
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

/// Commits a row to an image that has opened, and checks that the rows are there after an opening.
fn goes_on(directory: &Path) -> Result<(), String> {
    let open = || LocalStore::open(directory, options()).map_err(|error| error.to_string());
    let read = |store: &LocalStore| rows_of(store, PARTITIONS[0]).map_err(|e| e.to_string());
    let store = open()?;
    let mut rows = read(&store)?;
    // No other key is so high.
    let (key, value) = (vec![0xff; 9], b"after the power loss".to_vec());
    PartitionWriter::open(&store, PARTITIONS[0]).put(&[(&key, &value)]);
    drop(store);
    rows.insert(key, value);
    match read(&open()?)? == rows {
        true => Ok(()),
        false => Err("a commit after the power loss is not there".to_owned()),
    }
}

/// Opens an image of a power loss. Returns true if the store refused to open.
fn is_refused(
    history: &History,
    image: &Image,
    at: Position,
    random: &mut SeededNumbers,
) -> Result<bool, String> {
    let place = new_directory().unwrap();
    image.write(place.path()).unwrap();
    let check = |store: &LocalStore| {
        let read = history.check(store, at, false)?;
        read.map_err(|error| error.to_string())
    };
    match LocalStore::open(place.path(), options()) {
        Ok(store) => {
            check(&store)?;
            drop(store);
            if random.below(4) == 0 {
                goes_on(place.path())?;
            }
            Ok(false)
        }
        Err(error) => {
            let text = error.to_string();
            if !image.has_holes() || !text.contains(".jnl") {
                return Err(format!("refused: {text}"));
            }
            let with_loss = LocalOptions {
                accept_loss: true,
                ..options()
            };
            let store = LocalStore::open(place.path(), with_loss);
            check(&store.map_err(|error| format!("accepting the loss: {error}"))?)?;
            Ok(true)
        }
    }
}

/// Opens an image with a flipped bit. Returns true if the damage was noticed.
fn is_noticed(
    history: &History,
    image: &mut Image,
    at: Position,
    random: &mut SeededNumbers,
) -> Result<bool, String> {
    let file = image.flip_bit(random.below(u64::MAX));
    let place = new_directory().unwrap();
    image.write(place.path()).unwrap();
    match LocalStore::open(place.path(), options()) {
        Ok(store) => {
            let read = history.check(&store, at, true);
            let read = read.map_err(|error| format!("a flipped bit in {file:?}: {error}"))?;
            Ok(read.is_err())
        }
        Err(_) => Ok(true),
    }
}

/// Runs the history of a seed and tries its images.
fn try_history(seed: u64, counts: &mut Counts, prepare: impl FnOnce(&Disk)) -> Result<(), String> {
    let mut random = SeededNumbers::new(seed);
    let named = |error| format!("history {seed}: {error}");
    // Each third history has failures.
    let history = History::run(&mut random, seed % 3 == 2, prepare).map_err(named)?;
    counts.failed += history.failed;
    for number in 0..IMAGES {
        let named = |error| format!("history {seed}, image {number}: {error}");
        let at = random.below(history.disk.position() as u64 + 1) as Position;
        let mut image = history.disk.image(at, Loss::Any, random.below(u64::MAX));
        let is_refused = is_refused(&history, &image, at, &mut random).map_err(named)?;
        counts.images += 1;
        counts.refused += u64::from(is_refused);
        if !is_refused && random.below(4) == 0 {
            let is_noticed = is_noticed(&history, &mut image, at, &mut random).map_err(named)?;
            counts.flipped += 1;
            counts.noticed += u64::from(is_noticed);
        }
    }
    Ok(())
}

#[test]
fn a_power_loss_at_any_operation_loses_no_answered_commit() {
    let first = setting("ORRERY_POWER_LOSS_FIRST", 0);
    let mut counts = Counts::default();
    for seed in first..first + setting("ORRERY_POWER_LOSS_HISTORIES", 3) {
        try_history(seed, &mut counts, |_| {}).unwrap_or_else(|error| panic!("{error}"));
    }
    println!(
        "power losses: {} images, of which {} refused to open; {} with a flipped bit, of which {} \
         were noticed; {} changes failed",
        counts.images, counts.refused, counts.flipped, counts.noticed, counts.failed
    );
}

/// The system shows bytes whose sync has failed, takes them for written, and writes them at no
/// later sync. So a start writes what was not acknowledged once more.
#[test]
fn a_commit_whose_sync_failed_is_durable_once_a_start_has_shown_it() {
    let directory = new_directory().unwrap();
    let disk = Disk::record(directory.path()).unwrap();
    let store = LocalStore::open(directory.path(), options()).unwrap();
    let mut writer = PartitionWriter::open(&store, P);
    writer.put(&[(b"a", b"1")]);
    disk.fail(Failure {
        call: Call::Sync,
        after: 0,
        times: u64::MAX,
        error: 5,
    });
    let outcome = writer.commit(commit(1, &[(b"b", b"2")]));
    assert_eq!(outcome, CommitOutcome::Unknown);
    drop(store);
    disk.repair();

    let store = LocalStore::open(directory.path(), options()).unwrap();
    let shown = everything(&store, P);
    assert_eq!(shown, pairs(&[(b"a", b"1"), (b"b", b"2")]));
    let at = disk.position();
    for seed in 0..IMAGES {
        let place = new_directory().unwrap();
        let image = disk.image(at, Loss::Any, seed);
        image.write(place.path()).unwrap();
        let store = LocalStore::open(place.path(), options()).unwrap();
        assert_eq!(everything(&store, P), shown);
    }
}

/// Returns what is found on a disk that does not do a part of its syncs.
fn finding(not_done: Syncs) -> Option<String> {
    let mut counts = Counts::default();
    let prepare = |disk: &Disk| disk.forget(not_done);
    let mut tried = 0..HISTORIES_OF_A_FAULT;
    tried.find_map(|seed| try_history(3 * seed, &mut counts, prepare).err())
}

#[test]
fn a_disk_that_does_not_do_each_fifth_sync_of_a_file_is_found_out() {
    let found = finding(Syncs::OfFiles { each: 5 });
    assert!(found.is_some());
}

#[test]
fn a_disk_that_does_not_do_each_fifth_sync_of_names_is_found_out() {
    let found = finding(Syncs::OfNames { each: 5 });
    assert!(found.is_some());
}
