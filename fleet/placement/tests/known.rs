//! The ids of clusters in the ledger.

use crate::support::IMPATIENT;
use orrery_placement::{KnownCluster, NamedCluster, PlacedStore, known_clusters};
use orrery_storage::{MemoryStore, PartitionId, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const P: PartitionId = PartitionId(7);

fn open(stores: &[(&str, Arc<MemoryStore>)]) -> PlacedStore {
    let clusters = stores.iter().map(|(name, store)| NamedCluster {
        name: (*name).to_owned(),
        store: store.clone(),
        drained: false,
    });
    PlacedStore::open_with(clusters.collect(), IMPATIENT).unwrap()
}

fn known(first: &Arc<MemoryStore>) -> Vec<(String, KnownCluster)> {
    known_clusters(&**first, "a").unwrap().into_iter().collect()
}

fn cluster(name: &str, id: Option<u8>, partitions: usize) -> (String, KnownCluster) {
    let id = id.map(|id| [id; 16]);
    (name.to_owned(), KnownCluster { id, partitions })
}

#[test]
fn a_cluster_is_remembered_before_its_first_partition_and_forgotten_without_one() {
    let memory = || Arc::new(MemoryStore::new());
    let (a, b) = (memory(), memory());
    let both = [("a", a.clone()), ("b", b)];
    let store = open(&both);
    // The second cluster cannot be reached at first.
    let is_there = Arc::new(AtomicBool::new(false));
    let reached = is_there.clone();
    let identify = move |name: &str| match name {
        "a" => Some([1; 16]),
        _ => reached.load(Ordering::SeqCst).then_some([2; 16]),
    };
    store.identify_by(Box::new(identify)).unwrap();
    assert_eq!(known(&a), [cluster("a", Some(1), 0)]);
    is_there.store(true, Ordering::SeqCst);
    store.open(P).unwrap();
    store.move_partition(P, "b").unwrap();
    assert_eq!(
        known(&a),
        [cluster("a", Some(1), 0), cluster("b", Some(2), 1)]
    );
    drop(store);

    // What is remembered stays, whatever is found later.
    let other = |_: &str| Some([9; 16]);
    let store = open(&both);
    store.identify_by(Box::new(other)).unwrap();
    assert_eq!(
        known(&a),
        [cluster("a", Some(1), 0), cluster("b", Some(2), 1)]
    );
    store.drain("b").unwrap();
    drop(store);
    let store = open(&both[..1]);
    store.identify_by(Box::new(other)).unwrap();
    assert_eq!(known(&a), [cluster("a", Some(1), 1)]);
}
