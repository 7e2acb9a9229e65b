//! Helpers of several tests: a store whose content at each commit is known, and backups of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::path::{Path, PathBuf};

use orrery_backup::{CreateOptions, Manifest, Restored, Summary, create, list, restore};
use orrery_model::hex;
use orrery_model::json::{Json, Object, parse};
use orrery_storage::{
    Commit, CommitOutcome, Direction, Lease, LocalOptions, LocalStore, PartitionId, Store,
};
use sha2::{Digest, Sha256};

/// The moment of the first backup of a test.
pub(crate) const START_MS: u64 = 1_795_714_805_000;

/// A minute.
pub(crate) const MINUTE_MS: u64 = 60_000;

/// Small memtables, so that a few hundred commits make many tables.
pub(crate) fn options() -> LocalOptions {
    LocalOptions {
        memtable_bytes: 64 << 10,
        scrub_bytes_per_second: 0,
        ..LocalOptions::default()
    }
}

/// Opens a store with small memtables.
pub(crate) fn open(directory: &Path) -> LocalStore {
    LocalStore::open(directory, options()).unwrap()
}

/// Returns the keys and values that the commit of a number writes.
fn puts_at(lsn: u64) -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |tag: u8, n: u64| [&[tag][..], &(n % 60).to_be_bytes()].concat();
    let value = |salt: u64| (0..300u64).map(|i| ((i * lsn * salt) >> 3) as u8).collect();
    vec![
        (key(1, lsn), value(31)),
        (key(2, lsn * 7), value(17)),
        (key(0x80, lsn), value(13)),
        (b"\x81last".to_vec(), lsn.to_be_bytes().to_vec()),
    ]
}

/// The writer of one partition.
pub(crate) struct Writer<'a> {
    store: &'a LocalStore,
    lease: Lease,
    pub(crate) lsn: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn open(store: &'a LocalStore, partition: u64) -> Writer<'a> {
        let lease = store.open(PartitionId(partition)).unwrap();
        Writer {
            store,
            lsn: lease.head().lsn,
            lease,
        }
    }

    pub(crate) fn commit(&mut self) {
        let lsn = self.lsn + 1;
        let commit = Commit {
            expect_lsn: self.lsn,
            new_lsn: lsn,
            token: [lsn as u8; 16],
            puts: puts_at(lsn),
            ..Commit::default()
        };
        assert_eq!(
            self.store.submit(&self.lease, commit).wait(),
            CommitOutcome::Ok
        );
        self.lsn = lsn;
    }
}

/// Writes further commits to a partition.
pub(crate) fn write(store: &LocalStore, partition: u64, commits: u64) {
    let mut writer = Writer::open(store, partition);
    for _ in 0..commits {
        writer.commit();
    }
}

/// Returns the names of the tables of a store, and the sum of their bytes. A thread of the store
/// writes tables when it gets to it.
pub(crate) fn tables(store: &LocalStore) -> (BTreeSet<String>, u64) {
    let checkpoint = store.checkpoint().unwrap().expect("a store on disk");
    let tables = checkpoint.files.iter().filter(|file| file.is_immutable);
    let names = tables.clone().map(|table| table.name.clone()).collect();
    (names, tables.map(|table| table.bytes).sum())
}

/// Makes a backup, without a limit and without extra files.
pub(crate) fn backup(store: &dyn Store, target: &Path, now_ms: u64) -> Summary {
    let options = CreateOptions::new(now_ms, "1.2.3");
    create(store, target, &options, &mut |_| {}).unwrap()
}

/// Returns the manifests of a repository or a file, all of which can be read.
pub(crate) fn manifests(path: &Path) -> Vec<Manifest> {
    let listing = list(path).unwrap();
    assert!(listing.unreadable.is_empty(), "{:?}", listing.unreadable);
    listing.backups
}

/// Restores a backup into a new directory, opens it and compares it with the model at the heads of
/// the manifest.
pub(crate) fn check_restore(path: &Path, id: Option<&str>) -> Restored {
    let dir = tempfile::tempdir().unwrap();
    let target = dir.path().join("restored");
    let restored = restore(path, id, &target, &mut |_| {}).unwrap();
    check_store(&target, &restored.manifest);
    restored
}

/// Opens a directory and compares it with the model at the heads of a manifest.
pub(crate) fn check_store(directory: &Path, manifest: &Manifest) {
    assert!(!manifest.heads.is_empty());
    check_heads(directory, &manifest.heads);
}

/// Opens a directory and compares it with the model at the heads of partitions.
pub(crate) fn check_heads(directory: &Path, heads: &BTreeMap<PartitionId, u64>) {
    let store = open(directory);
    for (partition, lsn) in heads {
        let snapshot = store.snapshot(*partition).unwrap();
        assert_eq!(snapshot.head().lsn, *lsn);
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let found: BTreeMap<Vec<u8>, Vec<u8>> = snapshot
            .scan(everything, Direction::Forward)
            .map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())))
            .collect::<Result<_, _>>()
            .unwrap();
        let expected: BTreeMap<Vec<u8>, Vec<u8>> = (1..=*lsn).flat_map(puts_at).collect();
        assert!(found == expected, "partition {partition} at {lsn}");
    }
}

/// Returns all files below a folder, in order.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Copies a folder with everything in it.
pub(crate) fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            std::fs::copy(&path, target).unwrap();
        }
    }
}

/// Flips a bit of a file, at a place that a number chooses.
pub(crate) fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = at % bytes.len();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Changes a manifest or a marker, and gives it the hash of its new text.
pub(crate) fn rewrite(path: &Path, change: impl FnOnce(&mut Object)) {
    let Json::Object(mut members) = parse(&std::fs::read(path).unwrap()).unwrap() else {
        panic!("no object");
    };
    members.remove("sha256");
    change(&mut members);
    let text = Json::Object(members.clone()).to_text();
    members.set("sha256", hex::encode(&Sha256::digest(text.as_bytes())));
    std::fs::write(path, Json::Object(members).to_text()).unwrap();
}
