//! Runs the engine on stores of our own: `TreeStore`, which implements the `Store` trait on a
//! `BTreeMap`, and `CountingStore`, which wraps another store and counts its commits.
//!
//! ```text
//! cargo run -p orrery-examples --bin custom-store
//! ```
//!
//! The session runs on a mirror of two stores, ours and the `MemoryStore` of the project: the
//! mirror passes each call to both and fails on any difference between the answers.

#![allow(
    clippy::print_stdout,
    reason = "the output is the purpose of the program"
)]

mod tree_store;
mod world;

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use orrery_engine::request::{
    Id, PageRequest, QueryRequest, Scope, Throughput, WriteOperation, WriteOptions,
};
use orrery_engine::{Engine, EngineOptions};
use orrery_model::json::parse;
use orrery_model::{Json, Object};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::testing::Mirrored;
use orrery_storage::{
    Capabilities, Commit, Lease, MemoryStore, PartitionId, Receipt, Snapshot, Store, StoreError,
};

use tree_store::TreeStore;
use world::MachineWorld;

/// A store that counts the commits of another store.
struct CountingStore<S> {
    inner: S,
    commits: AtomicU64,
}

impl<S: Store> Store for CountingStore<S> {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.inner.open(partition)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.inner.submit(lease, commit)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        self.inner.snapshot(partition)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.inner.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn approximate_bytes(&self) -> u64 {
        self.inner.approximate_bytes()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let store = Arc::new(CountingStore {
        inner: Mirrored::new(TreeStore::new(), MemoryStore::new()),
        commits: AtomicU64::new(0),
    });
    let rows = session(Arc::clone(&store) as Arc<dyn Store>)?;
    println!("the query returned {rows} rows");

    // The catalog has commits of its own, so there are more commits than items.
    let commits = store.commits.load(Ordering::Relaxed);
    println!("the store took {} commits or more", commits.min(100));
    println!("the store holds data: {}", store.approximate_bytes() > 0);
    Ok(())
}

/// Writes a hundred items through an engine on this store and returns the rows of a query.
fn session(store: Arc<dyn Store>) -> Result<usize, Box<dyn Error>> {
    // Script hosts are started with the first script; this program runs none.
    let scripts = PoolOptions::new(HostCommand {
        program: "no-script-host".into(),
        arguments: Vec::new(),
    });
    let options = EngineOptions::new(scripts);
    let engine = Engine::open(store, options, Arc::new(MachineWorld::new()))?;
    engine
        .create_database(&object(r#"{"id": "shop"}"#)?, None)
        .result?;
    let shop = engine.database(Id::Name("shop"))?;
    let definition = object(r#"{"id": "orders", "partitionKey": {"paths": ["/customer"]}}"#)?;
    engine
        .create_container(&shop, &definition, Some(Throughput::Manual(400)))
        .result?;
    let orders = engine.container(Id::Name("shop"), Id::Name("orders"))?;

    for number in 0..100 {
        let customer = number % 7;
        let order = format!(r#"{{"id": "{number}", "customer": "c{customer}"}}"#);
        let pending = engine.write_item(
            &orders,
            &WriteOperation::Create,
            Some(order.as_bytes()),
            &WriteOptions::default(),
        );
        pending.wait().result?;
    }

    let text = "SELECT c.id FROM c WHERE c.customer = 'c3'";
    let query = QueryRequest::of(text, Vec::new(), PageRequest::default());
    let page = engine.query(&orders, &Scope::Everything, &query, None);
    Ok(page.result?.page.rows.len())
}

/// Parses the text of a JSON object.
fn object(text: &str) -> Result<Object, Box<dyn Error>> {
    match parse(text.as_bytes())? {
        Json::Object(object) => Ok(object),
        _ => Err("the definition is not an object".into()),
    }
}
