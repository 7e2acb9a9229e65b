//! Compactions beside readers and writers: no snapshot changes, the newest value wins, and old
//! versions go.

mod support;

use std::collections::BTreeMap;

use orrery_storage::{CommitOutcome, LocalOptions, LocalStore, PartitionId, Snapshot, Store};
use support::{ALL, PartitionWriter, everything};

use orrery_storage::{Commit, Direction};

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

#[test]
fn a_directory_whose_tables_fjall_compacted_itself_is_compacted_from_now_on() {
    // The settings of an older version are those that fjall chooses by itself.
    let dir = tempfile::tempdir().unwrap();
    drop(LocalStore::open(dir.path(), options()).unwrap());
    let keyspaces = dir.path().join("store/keyspaces/0");
    let settings = || {
        let numbers = lsm_tree::SequenceNumberCounter::default;
        lsm_tree::Config::new(&keyspaces, numbers(), numbers())
            .open()
            .unwrap()
    };
    let key = [b"c", &1u64.to_be_bytes()[..], b"leveled_l0_threshold"].concat();
    {
        use lsm_tree::AbstractTree;
        let sequence = lsm_tree::SequenceNumberCounter::default();
        sequence.fetch_max(1000);
        let visible = lsm_tree::SequenceNumberCounter::default();
        let tree = lsm_tree::Config::new(&keyspaces, sequence, visible);
        let tree = tree.open().unwrap();
        let mut ingestion = tree.ingestion().unwrap();
        ingestion.write(key.clone(), vec![4]).unwrap();
        ingestion.finish().unwrap();
    }
    for _ in 0..2 {
        drop(LocalStore::open(dir.path(), options()).unwrap());
        use lsm_tree::AbstractTree;
        let found = settings().get(&key, lsm_tree::SeqNo::MAX).unwrap();
        assert_eq!(found.as_deref(), Some(&[255][..]));
    }
}
