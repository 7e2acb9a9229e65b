//! The contract of all stores, over one cluster, over two, and over queues of commits.

use crate::stores::promises::{self, NewStore, for_every_promise};
use orrery_placement::{NamedCluster, PlacedStore};
use orrery_storage::testing::Crashing;
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

macro_rules! contract {
    ($($name:ident),+ $(,)?) => {
        mod one_cluster {
            $(#[test] fn $name() { super::on_clusters(1, super::promises::$name) })+
        }
        mod two_clusters {
            $(#[test] fn $name() { super::on_clusters(2, super::promises::$name) })+
        }
        mod queues {
            $(#[test] fn $name() { super::on_queues(super::promises::$name) })+
        }
        mod second_cluster {
            $(#[test] fn $name() { super::on_second(super::promises::$name) })+
        }
    };
}

for_every_promise!(contract);

fn named(name: &str, store: impl Store + 'static, drained: bool) -> NamedCluster {
    NamedCluster {
        name: name.to_owned(),
        store: Arc::new(store),
        drained,
    }
}

fn on_clusters(count: usize, test: fn(NewStore<'_>)) {
    test(&|| {
        let names = ["a", "b"].iter().take(count);
        let clusters = names.map(|name| named(name, MemoryStore::new(), false));
        Box::new(PlacedStore::open(clusters.collect()).unwrap())
    });
}

/// Clusters that accept commits before they are durable.
fn on_queues(test: fn(NewStore<'_>)) {
    test(&|| {
        let clusters = ["a", "b"].map(|name| named(name, Crashing::new(None), false));
        Box::new(PlacedStore::open(clusters.into()).unwrap())
    });
}

/// Every partition is in the second cluster.
fn on_second(test: fn(NewStore<'_>)) {
    test(&|| {
        let clusters = vec![
            named("a", MemoryStore::new(), true),
            named("b", MemoryStore::new(), false),
        ];
        Box::new(PlacedStore::open(clusters).unwrap())
    });
}
