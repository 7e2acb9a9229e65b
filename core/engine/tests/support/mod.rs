//! Helpers of this crate's integration tests: an engine in memory, short forms of its calls, and
//! answers as text.

pub(crate) mod random;
pub(crate) mod throughput;

use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, PartitionInventory, Profile};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json, Object, Rid};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::{Commit, Direction, MemoryStore, PartitionId, Store};
use std::ops::Bound;
use std::sync::Arc;

/// The time at which every test begins, in milliseconds since 1970.
pub(crate) const START_MS: u64 = 1_767_225_600_000;

/// An engine under test, and the world whose clock the test advances.
pub(crate) struct Bench {
    pub engine: Engine,
    pub world: Arc<SeededWorld>,
}

impl Bench {
    /// Opens a new engine on a memory store.
    pub(crate) fn new(profile: Profile, seed: u64) -> Bench {
        Bench::on(Arc::new(MemoryStore::new()), profile, seed)
    }

    /// Opens an engine on `store`.
    pub(crate) fn on(store: Arc<dyn Store>, profile: Profile, seed: u64) -> Bench {
        let world = Arc::new(SeededWorld::new(START_MS, seed));
        Bench {
            engine: open(store, profile, Arc::clone(&world)).expect("the engine opens"),
            world,
        }
    }

    /// Creates the container `db`/`items` with the definition `body` and `partitions` physical
    /// partitions.
    pub(crate) fn container(&self, body: &str, partitions: usize) -> Arc<Container> {
        create_container(&self.engine, body, partitions).expect("the container is created")
    }
}

/// Opens an engine on `store`.
pub(crate) fn open(
    store: Arc<dyn Store>,
    profile: Profile,
    world: Arc<SeededWorld>,
) -> Result<Engine, Error> {
    Engine::open(store, options(profile), world)
}

/// Returns the engine options of the tests.
pub(crate) fn options(profile: Profile) -> EngineOptions {
    let command = HostCommand {
        program: env!("CARGO_BIN_EXE_engine-script-host").into(),
        arguments: Vec::new(),
    };
    let scripts = PoolOptions::new(command);
    EngineOptions {
        profile,
        ..EngineOptions::new(scripts)
    }
}

/// Creates the database `db` if it is missing, and the container defined by `body` in it.
///
/// The throughput is chosen so that the container has `partitions` physical partitions.
pub(crate) fn create_container(
    engine: &Engine,
    body: &str,
    partitions: usize,
) -> Result<Arc<Container>, Error> {
    if engine.database(Id::Name("db")).is_err() {
        engine
            .create_database(&object(r#"{"id":"db"}"#), None)
            .result?;
    }
    let database = engine.database(Id::Name("db"))?;
    // A new container has one physical partition for each 6,000 RU/s.
    let throughput = Throughput::Manual(if partitions == 1 {
        400
    } else {
        partitions as u32 * 6_000
    });
    let created = engine
        .create_container(&database, &object(body), Some(throughput))
        .result?;
    engine.container(Id::Name("db"), Id::Rid(created.rid))
}

/// Checks that the counters of each physical partition equal the sums over its rows, and that a
/// verification finds nothing.
#[track_caller]
pub(crate) fn check_counters(engine: &Engine, container: &Container) {
    let counters = |all: Vec<PartitionInventory>| -> Vec<_> {
        all.iter()
            .map(|partition| {
                (
                    partition.id,
                    partition.items,
                    partition.bytes,
                    partition.index_bytes,
                )
            })
            .collect()
    };
    let counted = counters(engine.partition_inventory(container).expect("the counters"));
    assert_eq!(
        counted,
        counters(engine.partition_recount(container).expect("the rows"))
    );
    let found = engine.verify(Some(container), &mut |_| true);
    assert_eq!(found.expect("every row is read").findings, []);
}

/// Rewrites the one record of the catalog for which `rewritten` returns another text, with no
/// engine on the store.
#[track_caller]
pub(crate) fn rewrite_record(store: &dyn Store, rewritten: impl Fn(&str) -> Option<String>) {
    const CATALOG: PartitionId = PartitionId(0);
    let snapshot = store.snapshot(CATALOG).expect("a snapshot");
    let mut puts = Vec::new();
    for row in snapshot.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
        let (key, value) = row.expect("a row");
        if let Some(text) = rewritten(&String::from_utf8_lossy(&value)) {
            puts.push((key.to_vec(), text.into_bytes()));
        }
    }
    assert_eq!(puts.len(), 1);
    commit_rows(store, CATALOG, puts, Vec::new());
}

/// Commits rows to a partition, with no engine on the store.
#[track_caller]
pub(crate) fn commit_rows(
    store: &dyn Store,
    partition: PartitionId,
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    deletes: Vec<Vec<u8>>,
) {
    let head = || store.snapshot(partition).expect("a snapshot").head();
    let lease = store.open(partition).expect("a lease");
    let lsn = head().lsn;
    let commit = Commit {
        expect_lsn: lsn,
        new_lsn: lsn + 1,
        token: [7; 16],
        puts,
        deletes,
        ..Commit::default()
    };
    store.submit(&lease, commit).wait();
    assert_eq!(head().lsn, lsn + 1, "the commit was refused");
}

/// Parses a JSON object.
#[track_caller]
pub(crate) fn object(text: &str) -> Object {
    match json(text) {
        Json::Object(object) => object,
        other => panic!("not an object: {other}"),
    }
}

/// Parses a JSON value.
#[track_caller]
pub(crate) fn json(text: &str) -> Json {
    parse(text.as_bytes()).unwrap_or_else(|e| panic!("not JSON: {e}: {text}"))
}

/// Parses a partition key in the form of the request header, a JSON array.
#[track_caller]
pub(crate) fn key(text: &str) -> PartitionKey {
    PartitionKey::from_header(text).expect("a partition key")
}

/// Writes an item and waits for the commit.
pub(crate) fn write(
    engine: &Engine,
    container: &Container,
    operation: &WriteOperation,
    body: Option<&str>,
    options: &WriteOptions,
) -> Outcome<Written> {
    engine
        .write_item(container, operation, body.map(str::as_bytes), options)
        .wait()
}

/// Creates an item and returns its stored text.
#[track_caller]
pub(crate) fn create(engine: &Engine, container: &Container, body: &str) -> String {
    let written = write(
        engine,
        container,
        &WriteOperation::Create,
        Some(body),
        &WriteOptions::default(),
    );
    text(
        &written
            .result
            .expect("the item is created")
            .item
            .expect("a create answers with the item"),
    )
}

/// Returns the text of an item.
pub(crate) fn read(
    engine: &Engine,
    container: &Container,
    pk: &str,
    id: &str,
) -> Result<String, Error> {
    match engine
        .read_item(container, &key(pk), id, None, None)
        .wait()
        .result?
    {
        ReadReply::Item { body, .. } => Ok(text(&body)),
        ReadReply::NotModified { .. } => panic!("the read had no condition"),
    }
}

/// Converts bytes to text.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("answers are UTF-8")
}

/// Returns a request for a query over the whole container, without a limit for the first page.
pub(crate) fn query(text: &str) -> QueryRequest {
    QueryRequest {
        cross_partition: true,
        ..QueryRequest::of(text, Vec::new(), PageRequest::default())
    }
}

/// Returns all rows of a query. The sizes of its pages are those of `pages` in turn.
pub(crate) fn rows(
    engine: &Engine,
    container: &Container,
    scope: &Scope,
    query: &QueryRequest,
    pages: &[usize],
) -> Result<Vec<String>, Error> {
    let mut query = query.clone();
    let mut rows = Vec::new();
    for size in pages.iter().cycle().take(10_000) {
        query.page.max_items = Some(*size);
        let page = engine.query(container, scope, &query, None).result?.page;
        assert!(
            page.rows.len() <= *size,
            "{} rows on a page of {size}",
            page.rows.len()
        );
        rows.extend(page.rows.iter().map(|row| text(row)));
        match page.continuation {
            None => return Ok(rows),
            Some(continuation) => query.page.continuation = Some(continuation),
        }
    }
    panic!("the query never ends: {}", query.text);
}

/// Returns the number of an item in its container, which its resource id contains.
#[track_caller]
pub(crate) fn number_of(item: &Json) -> u64 {
    let rid = item
        .get("_rid")
        .and_then(Json::as_str)
        .and_then(Rid::parse)
        .expect("an item has a resource id");
    rid.child_number().expect("the number of an item").1
}

/// Returns the number in the environment variable `name`, or `default`.
pub(crate) fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
