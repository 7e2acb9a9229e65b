//! An engine in memory for the targets that ask one: a database `db` and a container `items`.

use orrery_engine::request::{Id, Scope, Throughput, WriteOperation, WriteOptions};
use orrery_engine::{Container, Engine, EngineOptions};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Object};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::MemoryStore;
use std::sync::Arc;

/// The time of every engine, in milliseconds since 1970. It stands still.
pub(crate) const NOW_MS: u64 = 1_767_225_600_000;

/// Items of the container.
pub(crate) const ITEMS: usize = 24;

/// Logical partitions of the container.
const KEYS: usize = 3;

const DEFINITION: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"version":2},
    "indexingPolicy":{"compositeIndexes":[[{"path":"/n"},{"path":"/s","order":"descending"}]]}}"#;

/// An engine and its container.
pub(crate) struct Fixture {
    pub(crate) engine: Engine,
    pub(crate) container: Arc<Container>,
}

impl Fixture {
    /// Creates an engine whose container has this number of physical partitions and [`ITEMS`]
    /// items.
    pub(crate) fn new(partitions: u32) -> Fixture {
        let command = HostCommand {
            program: "no script runs here".into(),
            arguments: Vec::new(),
        };
        let options = EngineOptions::new(PoolOptions::new(command));
        let world = Arc::new(SeededWorld::new(NOW_MS, 1));
        let engine = Engine::open(Arc::new(MemoryStore::new()), options, world).expect("an engine");
        let database = engine.create_database(&object(r#"{"id":"db"}"#), None);
        database.result.expect("a database");
        let database = engine.database(Id::Name("db")).expect("a database");
        // A new container has one physical partition for each 6,000 RU/s.
        let throughput = match partitions {
            1 => 400,
            several => several * 6_000,
        };
        let throughput = Some(Throughput::Manual(throughput));
        let created = engine.create_container(&database, &object(DEFINITION), throughput);
        let container = engine
            .container(Id::Name("db"), Id::Rid(created.result.expect("it").rid))
            .expect("a container");
        for number in 0..ITEMS {
            let item = item(number);
            let options = WriteOptions::default();
            let create = WriteOperation::Create;
            let written = engine.write_item(&container, &create, Some(item.as_bytes()), &options);
            written.wait().result.expect("an item");
        }
        Fixture { engine, container }
    }
}

/// Returns the text of an item: members of several types, some of them missing, and long values.
fn item(number: usize) -> String {
    let key = number % KEYS;
    let s = match number % 4 {
        0 => "\"apple\"".to_owned(),
        1 => format!("\"{}\"", "long ".repeat(80)),
        2 => format!("{number}"),
        _ => "null".to_owned(),
    };
    let n = match number % 6 {
        5 => String::new(),
        other => format!("\"n\":{other},"),
    };
    let o = format!(r#"{{"a":{number}.5}}"#);
    format!(r#"{{"id":"i{number}","pk":"p{key}",{n}"s":{s},"list":[1,"x",{number}],"o":{o}}}"#)
}

/// Returns the key of one of the logical partitions.
pub(crate) fn key(number: usize) -> PartitionKey {
    PartitionKey::from_header(&format!("[\"p{}\"]", number % KEYS)).expect("a key")
}

/// Returns one of several scopes: everything, a logical partition, or a physical one.
pub(crate) fn scope(number: u8) -> Scope {
    match number % 4 {
        0 | 1 => Scope::Everything,
        2 => Scope::Key(key(0)),
        _ => Scope::Range {
            id: 0,
            within: None,
        },
    }
}

/// Parses a JSON object.
pub(crate) fn object(text: &str) -> Object {
    let json = parse(text.as_bytes()).expect("JSON");
    json.as_object().expect("an object").clone()
}

/// Checks a refusal: the fault is the client's, and the message has a bounded length for an input
/// of this length.
pub(crate) fn check_refusal(error: &Error, input_bytes: usize) {
    assert!(error.status() < 500, "{}: {error}", error.status());
    let longest = 4_000 + 8 * input_bytes;
    assert!(error.message().len() <= longest, "{}", error.message());
}
