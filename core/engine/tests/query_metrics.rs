//! The times of query metrics, in a world whose fine clock moves by one millisecond at each
//! reading.

use crate::support::{self, *};
use orrery_engine::request::*;
use orrery_engine::{Engine, Profile};
use orrery_model::world::{SeededWorld, World};
use orrery_storage::MemoryStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const ITEMS: usize = 10;

struct TickingWorld {
    inner: SeededWorld,
    readings: AtomicU64,
}

impl World for TickingWorld {
    fn now_ms(&self) -> u64 {
        self.inner.now_ms()
    }

    fn monotonic_ms(&self) -> u64 {
        self.inner.monotonic_ms()
    }

    fn monotonic_us(&self) -> u64 {
        self.readings.fetch_add(1, Ordering::SeqCst) * 1000
    }

    fn random(&self) -> u64 {
        self.inner.random()
    }
}

/// Returns the query metrics of a page over ten items.
fn metrics_of(sql: &str) -> String {
    let world = TickingWorld {
        inner: SeededWorld::new(START_MS, 1),
        readings: AtomicU64::new(0),
    };
    let store = Arc::new(MemoryStore::new());
    let engine =
        Engine::open(store, support::options(Profile::Modern), Arc::new(world)).expect("an engine");
    let container = create_container(&engine, BODY, 1).expect("a container");
    for n in 0..ITEMS {
        create(&engine, &container, &format!(r#"{{"id":"{n}","pk":"p"}}"#));
    }
    let request = QueryRequest {
        metrics: true,
        ..query(sql)
    };
    let page = engine.query(&container, &Scope::Everything, &request, None);
    page.result.expect("a page").metrics.expect("metrics")
}

/// Returns one of the query metrics.
fn time_of(metrics: &str, name: &str) -> f64 {
    let mut parts = metrics.split(';').filter_map(|part| part.split_once('='));
    let found = parts.find(|(found, _)| *found == name);
    let (_, value) = found.expect("the metric");
    value.parse().expect("a number")
}

#[test]
fn the_loads_of_items_and_the_writing_of_rows_are_measured() {
    for sql in ["SELECT * FROM c", "SELECT c.id FROM c"] {
        let metrics = metrics_of(sql);
        // The source is asked eleven times. The first time opens the cursor as well, whose real
        // time is not that of a load.
        let loads = time_of(&metrics, "documentLoadTimeInMs");
        assert!((10.0..=11.0).contains(&loads), "{metrics}");
        assert_eq!(time_of(&metrics, "writeOutputTimeInMs"), 10.0, "{metrics}");
    }
}
