//! Compactions beside readers and writers: no snapshot changes, the newest value wins, and old
//! versions go.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::{self, ALL, PartitionWriter, everything};
use lsm_tree::{AbstractTree, SequenceNumberCounter};
use orrery_storage::{
    Commit, CommitOutcome, Direction, LocalOptions, LocalStore, PartitionId, Snapshot, Store,
};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> LocalOptions {
    LocalOptions {
        memtable_bytes: 48 << 10,
        ..LocalOptions::default()
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn content(snapshot: &dyn Snapshot) -> Model {
    support::rows(snapshot, ALL, Direction::Forward)
        .into_iter()
        .collect()
}

/// Writes one commit with random puts and deletes to the store and to the model.
fn write(writer: &mut PartitionWriter<'_>, model: &mut Model, random: &mut Random) {
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        let mut key = random.below(600).to_be_bytes().to_vec();
        key[0] = [0x01, 0x80][random.below(2) as usize];
        if random.below(4) == 0 {
            model.remove(&key);
            puts.retain(|(put, _): &(Vec<u8>, Vec<u8>)| *put != key);
            deletes.push(key);
        } else {
            let value: Vec<u8> = (0..200).map(|_| random.below(256) as u8).collect();
            model.insert(key.clone(), value.clone());
            deletes.retain(|deleted| *deleted != key);
            puts.push((key, value));
        }
    }
    let commit = Commit {
        puts,
        deletes,
        ..Commit::default()
    };
    assert_eq!(writer.commit(commit), CommitOutcome::Ok);
}

#[test]
fn snapshots_keep_their_content_while_compactions_run_and_the_newest_value_wins() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(7);
    let mut models: BTreeMap<u64, Model> = BTreeMap::new();
    for _ in 0..3 {
        let store = LocalStore::open(dir.path(), options()).unwrap();
        for (partition, model) in &models {
            let expected: Vec<_> = model.clone().into_iter().collect();
            assert!(everything(&store, PartitionId(*partition)) == expected);
        }
        let mut held = Vec::new();
        for step in 0..250 {
            let partition = 1 + random.below(3);
            let model = models.entry(partition).or_default();
            let mut writer = PartitionWriter::open(&store, PartitionId(partition));
            write(&mut writer, model, &mut random);
            if step % 10 == 0 {
                let snapshot = store.snapshot(PartitionId(partition)).unwrap();
                held.push((snapshot, model.clone()));
            }
            // Some snapshots live long and some die soon, the old and the new.
            if held.len() > 12 {
                let (snapshot, expected) = held.remove(random.below(12) as usize);
                assert!(content(&*snapshot) == expected, "step {step}");
            }
        }
        store.wait_for_compaction();
        for (snapshot, expected) in held {
            assert!(content(&*snapshot) == expected);
        }
    }
}

/// Opens fjall's list of keyspaces, whose next sequence number is `next`.
fn keyspaces(store: &Path, next: u64) -> lsm_tree::AnyTree {
    let sequence = SequenceNumberCounter::default();
    sequence.fetch_max(next);
    let folder = store.join("store/keyspaces/0");
    let config = lsm_tree::Config::new(folder, sequence, SequenceNumberCounter::default());
    config.open().unwrap()
}

#[test]
fn a_directory_whose_tables_fjall_compacted_itself_is_compacted_by_the_store_from_now_on() {
    let dir = tempfile::tempdir().unwrap();
    drop(LocalStore::open(dir.path(), options()).unwrap());
    // The setting of an older version is the one that fjall chooses by itself.
    let key = [b"c", &1u64.to_be_bytes()[..], b"leveled_l0_threshold"].concat();
    {
        let tree = keyspaces(dir.path(), 1000);
        let mut ingestion = tree.ingestion().unwrap();
        ingestion.write(key.clone(), vec![4]).unwrap();
        ingestion.finish().unwrap();
    }
    for _ in 0..2 {
        drop(LocalStore::open(dir.path(), options()).unwrap());
        let found = keyspaces(dir.path(), 0).get(&key, lsm_tree::SeqNo::MAX);
        assert_eq!(found.unwrap().as_deref(), Some(&[255][..]));
    }
}
