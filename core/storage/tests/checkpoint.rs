//! Checkpoints of an open store: their files, copied into an empty directory, are a store with
//! exactly the commits up to the heads of the checkpoint.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use orrery_storage::testing::{Failing, Fault, Mirrored};
use orrery_storage::{
    Checkpoint, Commit, CommitOutcome, LocalOptions, LocalStore, MemoryStore, PartitionId, Store,
};
use orrery_test_wait::wait_for;

use crate::support::{Pair, PartitionWriter, everything, pairs};

/// Small memtables, so that a few hundred commits make many tables and compactions.
fn options() -> LocalOptions {
    LocalOptions {
        memtable_bytes: 64 << 10,
        scrub_bytes_per_second: 0,
        ..LocalOptions::default()
    }
}

/// Returns the commit that a partition has at a number: two rows and two index entries, and every
/// seventh time a removal of rows.
fn commit_at(lsn: u64) -> Commit {
    let key = |tag: u8, n: u64| [&[tag][..], &(n % 40).to_be_bytes()].concat();
    let value = |salt: u64| (0..200u64).map(|i| ((i * lsn * salt) >> 3) as u8).collect();
    Commit {
        puts: vec![
            (key(1, lsn), value(31)),
            (key(2, lsn * 7), value(17)),
            (key(0x80, lsn), value(13)),
            (b"\x81last".to_vec(), lsn.to_be_bytes().to_vec()),
        ],
        range_deletes: match lsn % 7 {
            0 => vec![key(1, 10)..key(1, 20)],
            _ => Vec::new(),
        },
        ..Commit::default()
    }
}

/// Returns the keys and values of a partition after a commit.
fn model_at(lsn: u64) -> Vec<Pair> {
    let mut keys = BTreeMap::new();
    for lsn in 1..=lsn {
        let commit = commit_at(lsn);
        for range in commit.range_deletes {
            keys.retain(|key, _| !range.contains(key));
        }
        keys.extend(commit.puts);
    }
    keys.into_iter().collect()
}

/// Copies the files of a checkpoint into a directory.
fn assemble(checkpoint: &Checkpoint, target: &Path) {
    for file in &checkpoint.files {
        let path = target.join(&file.name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut from = File::open(&file.path).unwrap().take(file.bytes);
        let copied = std::io::copy(&mut from, &mut File::create_new(&path).unwrap()).unwrap();
        assert_eq!(copied, file.bytes, "{}", file.name);
    }
}

/// Opens the copy of a checkpoint and compares each partition with the model at its head.
fn check(checkpoint: &Checkpoint, target: &Path, answered: &BTreeMap<u64, u64>) {
    let copy = LocalStore::open(target, options()).unwrap();
    for (partition, answered) in answered {
        let partition = PartitionId(*partition);
        let head = copy.snapshot(partition).unwrap().head();
        let expected = checkpoint.heads.get(&partition).copied();
        assert_eq!(head, expected.unwrap_or_default());
        assert!(head.lsn >= *answered, "{} of {answered}", head.lsn);
        let found = everything(&copy, partition);
        assert!(
            found == model_at(head.lsn),
            "partition {partition} at {}",
            head.lsn
        );
    }
}

#[test]
fn a_checkpoint_under_writers_holds_exactly_the_commits_up_to_its_heads() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), options()).unwrap();
    let is_stopping = AtomicBool::new(false);
    let answered: Vec<AtomicU64> = (0..4).map(|_| AtomicU64::new(0)).collect();
    let answered_now = || -> BTreeMap<u64, u64> {
        let numbers = answered.iter().map(|count| count.load(Ordering::SeqCst));
        (1..).zip(numbers).collect()
    };
    std::thread::scope(|scope| {
        for (partition, answered) in (1..).zip(&answered) {
            let (store, is_stopping) = (&store, &is_stopping);
            scope.spawn(move || {
                let mut writer = PartitionWriter::open(store, PartitionId(partition));
                while !is_stopping.load(Ordering::SeqCst) {
                    assert_eq!(writer.commit(commit_at(writer.lsn + 1)), CommitOutcome::Ok);
                    answered.store(writer.lsn, Ordering::SeqCst);
                }
            });
        }
        let mut ids = Vec::new();
        for round in 1..=5 {
            wait_for("commits", answered_now, |now| {
                now.values().all(|n| *n > 150 * round)
            });
            let before = answered_now();
            let checkpoint = store.checkpoint().unwrap().unwrap();
            // Commits, flushes and compactions go on while the files are copied.
            let after = answered_now();
            wait_for("commits", answered_now, |now| {
                now.iter().all(|(partition, n)| *n > after[partition] + 100)
            });
            let copy = tempfile::tempdir().unwrap();
            assemble(&checkpoint, copy.path());
            check(&checkpoint, copy.path(), &before);
            assert!(checkpoint.files.iter().any(|file| file.is_immutable));
            ids.push(checkpoint.store_id.clone());
        }
        is_stopping.store(true, Ordering::SeqCst);
        ids.dedup();
        assert_eq!(ids.len(), 1, "the id of a directory stays the same");
        assert_eq!(ids[0].len(), 32);
    });
}

/// Returns the numbers of the journals in a folder, in order.
fn journals_in(folder: &Path) -> Vec<u64> {
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let stems = names.filter_map(|name| name.strip_suffix(".jnl").map(str::to_owned));
    let mut numbers: Vec<u64> = stems.map(|stem| stem.parse().unwrap()).collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the numbers of the journals of a checkpoint.
fn journals(checkpoint: &Checkpoint) -> Vec<u64> {
    let names = checkpoint.files.iter().map(|file| &file.name);
    let stems = names.filter_map(|name| name.strip_prefix("store/")?.strip_suffix(".jnl"));
    stems.map(|number| number.parse().unwrap()).collect()
}

#[test]
fn a_checkpoint_holds_all_commits_while_journals_are_begun_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    // A journal ends behind 64 MB, and is removed when both keyspaces have all of it in tables.
    let options = LocalOptions {
        memtable_bytes: 4 << 20,
        ..options()
    };
    let store = LocalStore::open(dir.path(), options).unwrap();
    let puts = |lsn: u64| {
        // Journals are compressed, so the bytes are as good as random.
        let mut state = lsn;
        let step = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        let value: Vec<u8> = (0..60 << 10).map(step).collect();
        (0..16u8)
            .map(|n| (vec![n % 2 * 0x80, n, lsn as u8 % 4], value.clone()))
            .collect::<Vec<Pair>>()
    };
    let is_stopping = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut writer = PartitionWriter::open(&store, PartitionId(1));
            while !is_stopping.load(Ordering::SeqCst) {
                let puts = puts(writer.lsn + 1);
                let outcome = writer.commit(Commit {
                    puts,
                    ..Commit::default()
                });
                assert_eq!(outcome, CommitOutcome::Ok);
            }
        });
        let (mut has_several, mut has_lost_first) = (false, false);
        while !(has_several && has_lost_first) {
            let numbers_now = || journals_in(&dir.path().join("store"));
            wait_for("a journal", numbers_now, |numbers| {
                (numbers.len() > 1 && !has_several) || (numbers[0] > 0 && !has_lost_first)
            });
            let checkpoint = store.checkpoint().unwrap().unwrap();
            let numbers = journals(&checkpoint);
            has_several |= numbers.len() > 1;
            has_lost_first |= numbers[0] > 0;
            let copy = tempfile::tempdir().unwrap();
            assemble(&checkpoint, copy.path());
            let copy = LocalStore::open(copy.path(), options).unwrap();
            let head = copy.snapshot(PartitionId(1)).unwrap().head();
            assert_eq!(Some(&head), checkpoint.heads.get(&PartitionId(1)));
            let mut expected: Vec<Pair> = (head.lsn - 3..=head.lsn).flat_map(puts).collect();
            expected.sort();
            assert!(everything(&copy, PartitionId(1)) == expected);
        }
        is_stopping.store(true, Ordering::SeqCst);
    });
}

#[test]
fn a_checkpoint_of_an_empty_store_and_of_one_without_tables_can_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    let empty = store.checkpoint().unwrap().unwrap();
    PartitionWriter::open(&store, PartitionId(1)).put(&[(b"k", b"v"), (b"\x80k", b"v")]);
    let filled = store.checkpoint().unwrap().unwrap();
    // The first checkpoint has no part of the commit, although they share the journal.
    for (checkpoint, expected) in [
        (&empty, pairs(&[])),
        (&filled, pairs(&[(b"k", b"v"), (b"\x80k", b"v")])),
    ] {
        let copy = tempfile::tempdir().unwrap();
        assemble(checkpoint, copy.path());
        let copy = LocalStore::open(copy.path(), LocalOptions::default()).unwrap();
        assert_eq!(everything(&copy, PartitionId(1)), expected);
        // The copy takes commits, and has checkpoints of its own under the same id.
        PartitionWriter::open(&copy, PartitionId(1)).put(&[(b"l", b"w")]);
        let again = copy.checkpoint().unwrap().unwrap();
        assert_eq!(again.store_id, filled.store_id);
    }
    let other = tempfile::tempdir().unwrap();
    let other = LocalStore::open(other.path(), LocalOptions::default()).unwrap();
    let other = other.checkpoint().unwrap().unwrap();
    assert_ne!(other.store_id, filled.store_id);
}

#[test]
fn the_links_are_removed_with_the_checkpoint_and_when_the_directory_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("checkpoints");
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    let first = store.checkpoint().unwrap().unwrap();
    let second = store.checkpoint().unwrap().unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 2);
    drop(first);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    assert!(second.files.iter().all(|file| file.path.exists()));
    drop(second);
    assert!(!folder.exists());
    drop(store);

    // As after the death of a process.
    std::fs::create_dir_all(folder.join("7/store")).unwrap();
    std::fs::write(folder.join("7/store/1.jnl"), b"left").unwrap();
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    assert!(!folder.exists());
    assert!(store.checkpoint().unwrap().is_some());
}

#[test]
fn a_directory_of_an_earlier_version_gets_an_id_that_stays() {
    let dir = tempfile::tempdir().unwrap();
    drop(LocalStore::open(dir.path(), LocalOptions::default()).unwrap());
    let format_file = dir.path().join("ORRERY");
    let text = std::fs::read_to_string(&format_file).unwrap();
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.starts_with("id:"))
        .collect();
    assert_eq!(lines.len() + 1, text.lines().count());
    std::fs::write(&format_file, lines.join("\n") + "\n").unwrap();

    let id_of = |store: &LocalStore| store.checkpoint().unwrap().unwrap().store_id.clone();
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    let id = id_of(&store);
    assert_eq!(id_of(&store), id);
    drop(store);
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    assert_eq!(id_of(&store), id);
    drop(store);

    std::fs::write(&format_file, text.replace("id: ", "id: x")).unwrap();
    let refused = LocalStore::open(dir.path(), LocalOptions::default())
        .err()
        .unwrap();
    assert!(refused.to_string().contains("line \"id:\""), "{refused}");
}

#[test]
fn stores_without_files_have_no_checkpoint_and_engines_of_tests_pass_it_on() {
    assert!(MemoryStore::new().checkpoint().unwrap().is_none());
    let dir = tempfile::tempdir().unwrap();
    let local = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    let wrapped = Mirrored::new(MemoryStore::new(), Failing::after(9, Fault::Lost, local));
    let boxed: Box<dyn Store> = Box::new(wrapped);
    assert!(boxed.checkpoint().unwrap().is_some());
}

/// Flips a bit in the data blocks of the largest table of rows.
fn damage_largest_table(dir: &Path) {
    let tables = std::fs::read_dir(dir.join("store/keyspaces/1/tables")).unwrap();
    let file = tables
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.metadata().unwrap().len())
        .unwrap();
    let mut bytes = std::fs::read(&file).unwrap();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
}

/// Creates a store with a damaged table, and opens it again.
fn damaged_store(dir: &Path) -> LocalStore {
    let store = LocalStore::open(dir, options()).unwrap();
    let mut writer = PartitionWriter::open(&store, PartitionId(1));
    for _ in 0..300 {
        assert_eq!(writer.commit(commit_at(writer.lsn + 1)), CommitOutcome::Ok);
    }
    drop(store);
    damage_largest_table(dir);
    LocalStore::open(dir, options()).unwrap()
}

/// Returns a channel that receives each damage of a store.
fn reports(store: &LocalStore) -> mpsc::Receiver<orrery_storage::Damage> {
    let (sender, receiver) = mpsc::channel();
    store.report_damage(Box::new(move |damage| {
        // The test may not wait for the report.
        let _ = sender.send(damage.clone());
    }));
    receiver
}

/// Reads the partition up to the first error. Returns true if there was one.
fn meets_damage(store: &LocalStore) -> bool {
    let snapshot = store.snapshot(PartitionId(1)).unwrap();
    snapshot
        .scan(crate::support::ALL, orrery_storage::Direction::Forward)
        .any(|row| row.is_err())
}

#[test]
fn a_checkpoint_of_a_store_with_a_damaged_block_keeps_the_record_of_the_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = damaged_store(dir.path());
    let reports = reports(&store);
    assert!(meets_damage(&store));
    let found = reports.recv_timeout(Duration::from_secs(60)).unwrap();
    let checkpoint = store.checkpoint().unwrap().unwrap();
    let copy = tempfile::tempdir().unwrap();
    assemble(&checkpoint, copy.path());
    let copy_store = LocalStore::open(copy.path(), options()).unwrap();
    let damage = copy_store.damage();
    assert_eq!(damage.len(), 1);
    assert_eq!(damage[0].contents, found.contents);
    assert!(meets_damage(&copy_store));
}

#[test]
fn a_block_that_is_sealed_during_a_checkpoint_leaves_the_files_of_the_checkpoint_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let store = damaged_store(dir.path());
    let checkpoint = store.checkpoint().unwrap().unwrap();
    let before: Vec<Vec<u8>> = checkpoint
        .files
        .iter()
        .filter(|file| file.is_immutable)
        .map(|file| std::fs::read(&file.path).unwrap())
        .collect();
    let tables = checkpoint.files.iter().filter(|file| file.is_immutable);
    let open_files: Vec<File> = tables.map(|file| File::open(&file.path).unwrap()).collect();
    let reports = reports(&store);
    assert!(meets_damage(&store));
    let found = reports.recv_timeout(Duration::from_secs(60)).unwrap();
    let sealed = std::fs::read(&found.file).unwrap();
    assert!(meets_damage(&store));
    let tables = checkpoint.files.iter().filter(|file| file.is_immutable);
    let mut replaced = 0;
    for ((file, before), open_file) in tables.zip(&before).zip(&open_files) {
        let now = std::fs::read(&file.path).unwrap();
        assert!(now == *before, "{}", file.name);
        if file.is_replaced(open_file).unwrap() {
            replaced += 1;
            assert!(found.file.ends_with(&file.name) && sealed != now);
        }
    }
    assert_eq!(replaced, 1);
    // The copy has the damaged block without a record, and finds it anew.
    let copy = tempfile::tempdir().unwrap();
    assemble(&checkpoint, copy.path());
    let copy_store = LocalStore::open(copy.path(), options()).unwrap();
    assert!(meets_damage(&copy_store));
    drop(checkpoint);
    assert_eq!(store.damage(), [found]);
}
