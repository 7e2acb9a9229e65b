//! Helpers of the throughput tests: engines that enforce budgets, reads of 1 RU, and checks of the
//! refusals.

#![allow(dead_code)] // each test file uses a part of the helpers

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, Feed, Profile, ThroughputOptions};
use orrery_model::world::SeededWorld;
use orrery_model::{Json, Kind, Rid};
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

pub(crate) const BODY: &str =
    r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
/// Budgets are enforced, without burst capacity and priorities.
pub(crate) const ENFORCED: ThroughputOptions = ThroughputOptions {
    enforce: true,
    burst_capacity: false,
    priorities: false,
};

/// Opens an engine on a new memory store. Its clock advances only if the test advances it.
pub(crate) fn new_bench(throughput: ThroughputOptions) -> Bench {
    open_on(Arc::new(MemoryStore::new()), throughput)
}

/// Opens an engine on `store` with the given throughput options.
pub(crate) fn open_on(store: Arc<dyn Store>, throughput: ThroughputOptions) -> Bench {
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let options = EngineOptions {
        throughput,
        ..options(Profile::Modern)
    };
    let engine = Engine::open(store, options, world.clone()).expect("the engine opens");
    Bench { engine, world }
}

/// Returns the JSON text of an item.
pub(crate) fn item_text(pk: &str, id: &str) -> String {
    format!(r#"{{"id":"{id}","pk":"{pk}"}}"#)
}

/// Reads an item that does not exist, for 1 RU.
pub(crate) fn read_missing(
    engine: &Engine,
    container: &Container,
    pk: &str,
    admission: AdmissionOptions,
) -> Outcome<ReadReply> {
    let options = ReadOptions {
        admission,
        ..ReadOptions::default()
    };
    engine
        .read_item(
            container,
            &key(&format!("[\"{pk}\"]")),
            "nothing",
            None,
            options,
        )
        .wait()
}

/// Reads for 1 RU each until a read is refused. Returns the number of served reads.
pub(crate) fn spend_budget(
    engine: &Engine,
    container: &Container,
    pk: &str,
    admission: AdmissionOptions,
) -> u32 {
    (0..100_000)
        .take_while(|_| !is_throttled(&read_missing(engine, container, pk, admission)))
        .count() as u32
}

/// Returns true if a request was refused for its budget, and checks the error of such a request.
pub(crate) fn is_throttled<T>(outcome: &Outcome<T>) -> bool {
    let throttled = outcome
        .result
        .as_ref()
        .is_err_and(|error| error.kind() == Kind::Throttled);
    if throttled {
        let error = outcome
            .result
            .as_ref()
            .err()
            .expect("the request was refused");
        assert_eq!((error.status(), error.sub_status()), (429, 3200));
        assert!(
            error.retry_after_ms().is_some_and(|wait| wait >= 1),
            "{:?}",
            error.retry_after_ms()
        );
        assert!(
            error.message().starts_with("Request rate is large."),
            "{}",
            error.message()
        );
        assert_eq!(outcome.charge.to_string(), "0.38");
    }
    throttled
}

/// Returns the throughput of the first partition of a container.
pub(crate) fn only_partition(engine: &Engine, container: &Container) -> PartitionThroughput {
    engine.throughput_of(container).partitions.remove(0)
}

/// Returns a key in each of the two partitions of a container.
pub(crate) fn keys_of_two(container: &Container) -> [String; 2] {
    let range = |pk: &str| {
        container
            .partition_of(&container.partition_key().epk(&key(&format!("[\"{pk}\"]"))))
            .id
    };
    let names: Vec<String> = (0..100).map(|n| format!("k{n}")).collect();
    [0, 1].map(|id| {
        names
            .iter()
            .find(|name| range(name) == id)
            .expect("a key in each partition")
            .clone()
    })
}

/// Replaces the only offer.
pub(crate) fn replace_offer(engine: &Engine, ru: u32) -> Outcome<Offered> {
    let offers = engine
        .list(Feed::Offers, &PageRequest::default())
        .result
        .expect("offers")
        .rows;
    let mut offer = object(&text(&offers[0]));
    let rid = offer
        .get("_rid")
        .and_then(Json::as_str)
        .and_then(Rid::parse)
        .expect("a resource id");
    offer.set("content", object(&format!(r#"{{"offerThroughput":{ru}}}"#)));
    engine.replace_offer(rid, &OfferChange::To(offer), None)
}
