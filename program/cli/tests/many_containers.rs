//! A server with many containers starts fast, is idle when nothing is asked, and creates a further
//! container as fast as the first.
//!
//! The containers are created by an engine in this process, each with one item, and the server is
//! then started on the directory. Few containers are created unless the environment says
//! otherwise; the limits are checked from [`MANY`] containers on, in the release profile.
//!
//! - `ORRERY_MANY_CONTAINERS`: the number of containers, ten to a database;
//! - `ORRERY_MANY_CONTAINERS_IDLE_SECONDS`: the time over which the idle server is measured;
//! - `ORRERY_MANY_CONTAINERS_DIRECTORY`: a directory that is kept, and used again if it exists.

#![allow(clippy::print_stdout)] // the figures are the result

use crate::program::{Request, Server, number, start_on};
use orrery_engine::request::{Id, WriteOperation, WriteOptions};
use orrery_engine::{Engine, EngineOptions};
use orrery_model::world::SeededWorld;
use orrery_model::{Json, object};
use orrery_script::{HostCommand, PoolOptions};
use orrery_storage::{LocalOptions, LocalStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Containers of a database.
const CONTAINERS_PER_DATABASE: usize = 10;
/// Containers from which on the limits are checked.
const MANY: usize = 50_000;
/// Promised limit of the time from the start of the process until the server is ready.
const START_MAX: Duration = Duration::from_secs(2);
/// Promised limit of the share of a core that an idle server uses.
const IDLE_MAX: f64 = 0.01;
/// Containers that are created to measure a creation.
const CREATED: usize = 20;

/// Returns the number in an environment variable.
fn setting(name: &str, default: usize) -> usize {
    match std::env::var(name) {
        Ok(text) => text.parse().expect("the setting is a number"),
        Err(_) => default,
    }
}

#[test]
fn a_server_with_many_containers_starts_and_serves_all_of_them() {
    let containers = setting("ORRERY_MANY_CONTAINERS", 60);
    let idle = Duration::from_secs(setting("ORRERY_MANY_CONTAINERS_IDLE_SECONDS", 0) as u64);
    let temporary = tempfile::tempdir().expect("a directory");
    let directory = match std::env::var_os("ORRERY_MANY_CONTAINERS_DIRECTORY") {
        Some(kept) => PathBuf::from(kept),
        None => temporary.path().join("data"),
    };
    if !directory.join("store").exists() {
        fill(&directory, containers);
    }

    let server = start_on(&directory).expect("the server starts");
    println!(
        "{containers} containers: ready after {:?}",
        server.ready_after
    );
    println!(
        "resident: {} KB",
        server.memory_kilobytes("VmRSS").unwrap_or(0)
    );
    let used = cpu_share(&server, idle);
    println!("idle: {:.2} % of a core", used * 100.0);
    measure_requests(&server, containers);
    if containers >= MANY && !cfg!(debug_assertions) {
        assert!(server.ready_after < START_MAX);
        assert!(used < IDLE_MAX);
    }
}

/// Creates the databases and containers, and an item in each container.
fn fill(directory: &Path, containers: usize) {
    std::fs::create_dir_all(directory).expect("a directory");
    let store = LocalStore::open(directory.join("store"), LocalOptions::default());
    let scripts = PoolOptions::new(HostCommand {
        program: "no-such-program".into(),
        arguments: Vec::new(),
    });
    let world = Arc::new(SeededWorld::new(1_767_225_600_000, 1));
    let store = Arc::new(store.expect("the store opens"));
    let engine = Engine::open(store, EngineOptions::new(scripts), world).expect("it opens");
    let started = Instant::now();
    let key = object! { "paths" => vec![Json::from("/pk")], "kind" => "Hash", "version" => 2 };
    for number in 0..containers {
        let database = format!("db{}", number / CONTAINERS_PER_DATABASE);
        if number % CONTAINERS_PER_DATABASE == 0 {
            let body = object! { "id" => database.as_str() };
            engine.create_database(&body, None).result.expect("created");
        }
        let owner = engine.database(Id::Name(&database)).expect("the database");
        let id = format!("c{number}");
        let body = object! { "id" => id.as_str(), "partitionKey" => key.clone() };
        let created = engine.create_container(&owner, &body, None);
        created.result.expect("created");
        let container = engine.container(Id::Name(&database), Id::Name(&id));
        let container = container.expect("the container");
        let item = br#"{"id":"a","pk":"a"}"#;
        let (create, options) = (WriteOperation::Create, WriteOptions::default());
        let written = engine.write_item(&container, &create, Some(item), &options);
        written.wait().result.expect("the item is created");
        if number % 10_000 == 9_999 {
            println!("{} containers after {:?}", number + 1, started.elapsed());
        }
    }
    engine.shut_down().expect("the store syncs");
}

/// Reads an item, creates containers, and reads status and metrics.
fn measure_requests(server: &Server, containers: usize) {
    let mut client = server.client();
    let last = containers - 1;
    let database = format!("/dbs/db{}", last / CONTAINERS_PER_DATABASE);
    let item = format!("{database}/colls/c{last}/docs/a");
    for _ in 0..3 {
        let started = Instant::now();
        let answer = client.call(&Request::new("GET", &item).key("a"));
        println!("point read: {:?}", started.elapsed());
        assert_eq!(answer.status, 200, "{}", answer.text());
    }

    let process = std::process::id();
    let mut durations = Vec::new();
    for n in 0..CREATED {
        let key = r#"{"paths":["/pk"],"kind":"Hash","version":2}"#;
        let body = format!(r#"{{"id":"new-{process}-{n}","partitionKey":{key}}}"#);
        let started = Instant::now();
        client.create(&format!("{database}/colls"), &body);
        durations.push(started.elapsed());
    }
    durations.sort();
    println!("create a container: median {:?}", durations[CREATED / 2]);

    let mut manager = server.manager();
    let started = Instant::now();
    let status = manager.ok("GET", "/status", "");
    println!("status: {:?}", started.elapsed());
    assert!(number(&status.json(), "containers") >= (containers + CREATED) as u64);
    let started = Instant::now();
    let metrics = manager.ok("GET", "/metrics", "");
    println!(
        "metrics: {:?}, {} bytes",
        started.elapsed(),
        metrics.text().len()
    );
}

/// Returns the seconds of CPU time that a server has used, in hundredths.
fn cpu_ticks(server: &Server) -> u64 {
    let path = format!("/proc/{}/stat", server.process_id());
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The name of the program, which may have spaces, ends with a bracket.
    let fields: Vec<&str> = match text.rsplit_once(')') {
        Some((_, rest)) => rest.split_whitespace().collect(),
        None => Vec::new(),
    };
    let ticks = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)
}

/// Returns the share of a core that a server uses while nothing is asked of it.
fn cpu_share(server: &Server, time: Duration) -> f64 {
    if time.is_zero() {
        return 0.0;
    }
    let before = cpu_ticks(server);
    // No request is sent: the test measures the time of the idle server.
    let (_sender, receiver) = channel::<()>();
    let _ = receiver.recv_timeout(time);
    (cpu_ticks(server) - before) as f64 / 100.0 / time.as_secs_f64()
}
