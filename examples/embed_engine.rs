//! Embeds the engine in a program: opens it on a store, creates a database and a container, writes,
//! reads and queries items, and prints the request charges.
//!
//! ```text
//! cargo run -p orrery-examples --bin embed-engine                   data in memory
//! cargo run -p orrery-examples --bin embed-engine -- DIRECTORY      data in a directory
//! ```
//!
//! No HTTP and no async runtime take part: requests are plain types, calls block, and the caller
//! decides when to wait for durability. Leaves out: stored procedures, which need a script host
//! process.

#![allow(
    clippy::print_stdout,
    reason = "the output is the purpose of the program"
)]

mod world;

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use orrery_engine::request::{
    Id, PageRequest, QueryRequest, ReadReply, Scope, Throughput, WriteOperation, WriteOptions,
};
use orrery_engine::{Container, Engine, EngineOptions};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::{Json, Object};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::{LocalOptions, LocalStore, MemoryStore, Store};

use world::MachineWorld;

const CONTAINER: &str = r#"{"id": "posts", "partitionKey": {"paths": ["/user"], "kind": "Hash"}}"#;
const POSTS: [&str; 3] = [
    r#"{"id": "1", "user": "ada", "title": "On engines", "likes": 3}"#,
    r#"{"id": "2", "user": "ada", "title": "On notes", "likes": 8}"#,
    r#"{"id": "1", "user": "bob", "title": "First", "likes": 1}"#,
];

fn main() -> Result<(), Box<dyn Error>> {
    // The store decides where bytes go; the engine on top of it is the same.
    let store: Arc<dyn Store> = match std::env::args().nth(1) {
        Some(directory) => Arc::new(LocalStore::open(
            Path::new(&directory),
            LocalOptions::default(),
        )?),
        None => Arc::new(MemoryStore::new()),
    };
    let engine = open_engine(store)?;
    let container = open_container(&engine)?;
    write(&engine, &container)?;
    read(&engine, &container)?;
    query(&engine, &container)?;
    Ok(())
}

/// Opens an engine on the store, with today's prices and without enforced throughput.
fn open_engine(store: Arc<dyn Store>) -> Result<Engine, Box<dyn Error>> {
    // Script hosts are started with the first script; this program runs none.
    let scripts = PoolOptions::new(HostCommand {
        program: "no-script-host".into(),
        arguments: Vec::new(),
    });
    let options = EngineOptions::new(scripts);
    Ok(Engine::open(store, options, Arc::new(MachineWorld::new()))?)
}

/// Returns the container `blog/posts`, which it creates on the first run in a directory.
fn open_container(engine: &Engine) -> Result<Arc<Container>, Box<dyn Error>> {
    let (database, container) = (Id::Name("blog"), Id::Name("posts"));
    if engine.database(database).is_err() {
        engine
            .create_database(&object(r#"{"id": "blog"}"#)?, None)
            .result?;
        let blog = engine.database(database)?;
        let throughput = Some(Throughput::Manual(400));
        engine
            .create_container(&blog, &object(CONTAINER)?, throughput)
            .result?;
    }
    Ok(engine.container(database, container)?)
}

fn write(engine: &Engine, container: &Container) -> Result<(), Box<dyn Error>> {
    for post in POSTS {
        let options = WriteOptions::default();
        let pending = engine.write_item(
            container,
            &WriteOperation::Upsert,
            Some(post.as_bytes()),
            &options,
        );
        // The write has its place in the history now; it is durable when `wait` returns.
        let outcome = pending.wait();
        let written = outcome.result?;
        let action = if written.created {
            "created"
        } else {
            "replaced"
        };
        println!("{action} an item for {} RU", outcome.charge);
    }
    Ok(())
}

fn read(engine: &Engine, container: &Container) -> Result<(), Box<dyn Error>> {
    // An item is named by its partition key and its id.
    let key = PartitionKey::from_header(r#"["ada"]"#)?;
    let outcome = engine.read_item(container, &key, "2", None, None).wait();
    if let ReadReply::Item { body, .. } = outcome.result? {
        let item = parse(&body)?;
        let title = item.get("title").and_then(Json::as_str).unwrap_or_default();
        println!("read \"{title}\" for {} RU", outcome.charge);
    }
    Ok(())
}

fn query(engine: &Engine, container: &Container) -> Result<(), Box<dyn Error>> {
    let text = "SELECT c.user, c.title FROM c WHERE c.likes >= @least ORDER BY c.likes DESC";
    let parameters = vec![("@least".to_owned(), Json::from(3))];
    let mut request = QueryRequest::of(text, parameters, PageRequest::default());
    request.cross_partition = true;
    // A query comes in pages; the continuation of one page asks for the next.
    loop {
        let outcome = engine.query(container, &Scope::Everything, &request, None);
        let page = outcome.result?.page;
        for row in &page.rows {
            println!("row {}", String::from_utf8_lossy(row));
        }
        println!("page of {} rows for {} RU", page.rows.len(), outcome.charge);
        if page.continuation.is_none() {
            return Ok(());
        }
        request.page.continuation = page.continuation;
    }
}

/// Parses the text of a JSON object.
fn object(text: &str) -> Result<Object, Box<dyn Error>> {
    match parse(text.as_bytes())? {
        Json::Object(object) => Ok(object),
        _ => Err("the definition is not an object".into()),
    }
}
