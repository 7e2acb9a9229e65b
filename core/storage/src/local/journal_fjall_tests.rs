//! The reader of the journals against fjall itself: fjall writes them, and both read the same
//! batches. An upgrade of fjall that changes the format fails here.

use std::collections::BTreeMap;
use std::path::Path;

use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use super::*;

/// The manifest lock, which names the versions that are built.
const LOCK: &str = include_str!("../../../../Cargo.lock");

fn open(path: &Path) -> (Database, [Keyspace; 2]) {
    let db = Database::builder(path)
        .worker_threads(1)
        .manual_journal_persist(true)
        .open()
        .unwrap();
    let keyspace = |name: &str| {
        let options = || KeyspaceCreateOptions::default().max_memtable_size(1 << 40);
        db.keyspace(name, options).unwrap()
    };
    let keyspaces = [keyspace("rows"), keyspace("index")];
    (db, keyspaces)
}

fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed + 1;
    let step = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    (0..bytes).map(step).collect()
}

/// A change of a batch: keyspace, key, and value or removal.
type Change = (usize, Vec<u8>, Option<Vec<u8>>);

/// Batches of every shape that the store writes, and of sizes around the threshold from which fjall
/// compresses values.
fn shapes() -> Vec<Vec<Change>> {
    let mut batches = vec![
        vec![(0, b"a".to_vec(), Some(b"1".to_vec()))],
        vec![(1, b"\x80b".to_vec(), Some(Vec::new()))],
        vec![(0, b"a".to_vec(), None)],
        vec![(0, noise(1, 2048), Some(noise(2, 64 << 10)))],
    ];
    for bytes in [4095, 4096, 4097, 64 << 10] {
        let key = format!("compressible {bytes}").into_bytes();
        batches.push(vec![(0, key, Some(vec![7; bytes]))]);
        let key = format!("noise {bytes}").into_bytes();
        batches.push(vec![(1, key, Some(noise(bytes as u64, bytes)))]);
    }
    let many = |n: u32| (n as usize % 2, n.to_be_bytes().to_vec(), Some(vec![1; 20]));
    batches.push((0..5000).map(many).collect());
    let record = GroupRecord {
        mark: Mark { group: 1, chain: 9 },
        previous: 0,
        first_sequence: 0,
    };
    let record = record.encode().to_vec();
    batches.push(vec![
        (0, GROUP_KEY.to_vec(), Some(record.clone())),
        (1, GROUP_KEY.to_vec(), Some(record)),
    ]);
    batches
}

fn write(db: &Database, keyspaces: &[Keyspace; 2], batches: &[Vec<Change>]) {
    for changes in batches {
        let mut batch = db.batch();
        for (keyspace, key, value) in changes {
            match value {
                Some(value) => batch.insert(&keyspaces[*keyspace], key.clone(), value.clone()),
                None => batch.remove(&keyspaces[*keyspace], key.clone()),
            }
        }
        batch.commit().unwrap();
    }
    db.persist(PersistMode::SyncAll).unwrap();
}

/// Reads a journal with the reader of this module: the sequence number and the number of items of
/// each batch by its start, and the end of the last one.
fn read_by_us(path: &Path) -> (Vec<u64>, u64) {
    let mut reader = BufReader::new(File::open(path).unwrap());
    let (mut sequences, mut end) = (Vec::new(), 0);
    while let Ok(batch) = read_batch(&mut reader).unwrap() {
        sequences.push(batch.sequence);
        end += batch.bytes;
    }
    (sequences, end)
}

/// Has fjall recover a database: the changes by sequence number, from its memtables.
fn read_by_fjall(path: &Path) -> BTreeMap<u64, Vec<Change>> {
    let (_db, keyspaces) = open(path);
    let mut batches: BTreeMap<u64, Vec<Change>> = BTreeMap::new();
    for (number, keyspace) in keyspaces.iter().enumerate() {
        for item in keyspace.tree.active_memtable().iter() {
            let value = (!item.is_tombstone()).then(|| item.value.to_vec());
            let change = (number, item.key.user_key.to_vec(), value);
            batches.entry(item.key.seqno).or_default().push(change);
        }
    }
    batches
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// Returns the newest journal.
fn newest(path: &Path) -> PathBuf {
    journals(path).unwrap().pop().unwrap().1
}

#[test]
fn both_readers_find_the_same_batches_of_every_shape_also_in_torn_journals() {
    let dir = tempfile::tempdir().unwrap();
    let original = dir.path().join("original");
    let batches = shapes();
    {
        let (db, keyspaces) = open(&original);
        write(&db, &keyspaces, &batches);
    }
    let (sequences, end) = read_by_us(&newest(&original));
    assert_eq!(sequences.len(), batches.len());
    assert!(sequences.is_sorted());

    // The whole journal, and one that is cut anywhere in the last three batches.
    let bytes = std::fs::read(newest(&original)).unwrap();
    let mut cuts: Vec<usize> = (end as usize - 700..end as usize).step_by(7).collect();
    cuts.extend([0, 5, 40, 70_000, 100_000, bytes.len()]);
    for cut in cuts {
        let torn = dir.path().join(format!("cut-{cut}"));
        copy(&original, &torn);
        let journal = newest(&torn);
        std::fs::write(&journal, &bytes[..cut]).unwrap();
        let (sequences, end) = read_by_us(&journal);
        let found = read_by_fjall(&torn);
        let theirs: Vec<u64> = found.keys().copied().collect();
        assert_eq!(theirs, sequences, "cut at {cut}");
        for (sequence, expected) in sequences.iter().zip(&batches) {
            let mut expected = expected.clone();
            expected.sort();
            let mut found = found[sequence].clone();
            found.sort();
            assert!(found == expected, "batch {sequence}, cut at {cut}");
        }
        let left = std::fs::read(&journal).unwrap();
        assert!(left.len() as u64 >= end && left[..end as usize] == bytes[..end as usize]);
        assert!(
            left[end as usize..].iter().all(|byte| *byte == 0),
            "cut at {cut}"
        );
        std::fs::remove_dir_all(&torn).unwrap();
    }
}

#[test]
fn both_readers_follow_the_batches_from_journal_to_journal() {
    let dir = tempfile::tempdir().unwrap();
    let mut last = 0;
    {
        let (db, keyspaces) = open(dir.path());
        // fjall begins a new journal behind 64 MB, when a memtable is sealed. The other memtable
        // keeps the old journal alive.
        for n in 0..1100u64 {
            let key = n.to_be_bytes().to_vec();
            let index = (1, key.clone(), Some(Vec::new()));
            let changes = vec![(0, key, Some(noise(n, 64 << 10))), index];
            write(&db, &keyspaces, &[changes]);
        }
        keyspaces[0].rotate_memtable_and_wait().unwrap();
        for n in 0..20u64 {
            last = db.seqno();
            let key = n.to_be_bytes().to_vec();
            write(&db, &keyspaces, &[vec![(1, key, Some(b"new".to_vec()))]]);
        }
    }
    let files = journals(dir.path()).unwrap();
    assert!(files.len() >= 2, "{files:?}");
    let mut sequences = Vec::new();
    for (_, path) in &files {
        sequences.extend(read_by_us(path).0);
    }
    assert_eq!(sequences.len(), 1120);
    assert!(sequences.is_sorted() && sequences.last() == Some(&last));
    let (_db, keyspaces) = open(dir.path());
    assert_eq!(keyspaces[1].tree.get_highest_seqno(), Some(last));
    assert_eq!(keyspaces[1].len().unwrap(), 1100);
    assert_eq!(
        keyspaces[1].get(3u64.to_be_bytes()).unwrap().as_deref(),
        Some(&b"new"[..])
    );
}

#[test]
fn the_formats_that_are_read_are_those_of_the_versions_that_are_built() {
    for (package, version, description) in [
        ("fjall", "3.1.13", include_str!("journal.rs")),
        ("lsm-tree", "3.1.10", include_str!("blocks.rs")),
    ] {
        let locked = format!("name = \"{package}\"\nversion = \"{version}\"\n");
        assert!(
            LOCK.contains(&locked),
            "{package} is not {version} any more: read its format anew, then change the \
             descriptions in the headers of this folder"
        );
        assert!(description.contains(&format!("pinned {package} {version}")));
    }
}
