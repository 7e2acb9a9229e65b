//! A store that was copied as a whole: an engine on the copy answers as on the original.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Engine, Profile, storage_ids};
use orrery_model::Object;
use orrery_placement::{CopyProgress, copy_store};
use orrery_storage::testing::{Failing, Fault};
use orrery_storage::{LocalOptions, LocalStore, MemoryStore, PartitionId, Store};
use std::path::Path;
use std::sync::Arc;

const CONTAINERS: [(&str, usize); 2] = [("items", 1), ("other", 2)];
const ITEMS: u32 = 120;

/// Fills two containers and takes a snapshot. Returns the session tokens of the last write to each.
fn fill(engine: &Engine) -> Vec<String> {
    let mut tokens = Vec::new();
    for (name, partitions) in CONTAINERS {
        let body = format!(
            r#"{{"id":"{name}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}}}"#
        );
        let container = create_container(engine, &body, partitions).expect("a container");
        let mut last = None;
        for n in 0..ITEMS {
            let long = "x".repeat(n as usize * 100);
            let body = format!(r#"{{"id":"{n}","pk":"{}","n":{n},"long":"{long}"}}"#, n % 7);
            let options = WriteOptions::default();
            let written = write(
                engine,
                &container,
                &WriteOperation::Upsert,
                Some(&body),
                &options,
            );
            last = written.position;
        }
        let last = last.expect("a position");
        tokens.push(format!("{}:{}#{}", last.range_id, last.version, last.lsn));
        if name == "items" {
            let note = Object::new();
            engine.take_snapshot("before", &note).expect("a snapshot");
        }
    }
    tokens
}

/// Returns all items, the change feeds, and what session tokens see.
fn view(engine: &Engine, tokens: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    for ((name, _), token) in CONTAINERS.iter().zip(tokens) {
        let container = engine
            .container(Id::Name("db"), Id::Name(name))
            .expect("a container");
        check_counters(engine, &container);
        let everything = query("SELECT * FROM c");
        let found = rows(engine, &container, &Scope::Everything, &everything, &[100]);
        all.extend(found.expect("rows"));
        for range in engine.partition_key_ranges(&container).expect("ranges").0 {
            let scope = Scope::Range {
                id: range.id,
                within: None,
            };
            let feed = engine
                .change_feed(&container, &scope, &FeedStart::Beginning, None, None)
                .wait();
            all.extend(
                feed.result
                    .expect("a feed")
                    .rows
                    .iter()
                    .map(|row| text(row)),
            );
        }
        let (pk, id) = (
            format!(r#"["{}"]"#, (ITEMS - 1) % 7),
            (ITEMS - 1).to_string(),
        );
        let with_token = engine
            .read_item(
                &container,
                &key(&pk),
                id.as_str(),
                None,
                Some(token.as_str()),
            )
            .wait();
        assert!(with_token.result.is_ok(), "the token is honoured");
    }
    // Two queries, and the change feed of both containers.
    assert_eq!(all.len(), 4 * ITEMS as usize);
    all
}

fn engine(store: Arc<dyn Store>) -> Engine {
    Bench::on(store, Profile::Modern, 7).engine
}

fn directory(path: &Path) -> Arc<LocalStore> {
    Arc::new(LocalStore::open(path, LocalOptions::default()).expect("a directory"))
}

#[test]
fn a_directory_is_copied_to_memory_and_back_and_an_engine_answers_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    let original = directory(&first);
    let tokens = fill(&engine(original.clone()));
    let before = view(&engine(original.clone()), &tokens);
    let ids = storage_ids(&*original).expect("the catalog");
    // The catalog, three physical partitions, and one in the snapshot.
    assert_eq!(ids.len(), 5);
    assert_eq!(ids[0], PartitionId(0));

    let memory = Arc::new(MemoryStore::new());
    let copied = copy_store(&*original, &*memory, ids.iter().copied(), |_| {});
    assert_eq!(copied.expect("a copy"), 5);
    assert_eq!(storage_ids(&*memory).expect("the catalog"), ids);

    let back = directory(&second);
    let copied = copy_store(&*memory, &*back, ids.iter().copied(), |_| {});
    assert_eq!(copied.expect("a copy"), 5);
    for copy in [memory as Arc<dyn Store>, back] {
        let engine = engine(copy);
        assert_eq!(view(&engine, &tokens), before);
        engine
            .restore_snapshot("before")
            .expect("the snapshot was copied");
    }
}

#[test]
fn an_interrupted_copy_is_resumed_and_foreign_data_is_kept() {
    let original = Arc::new(MemoryStore::new());
    let tokens = fill(&engine(original.clone()));
    let before = view(&engine(original.clone()), &tokens);
    let ids = storage_ids(&*original).expect("the catalog");
    let target = Arc::new(MemoryStore::new());
    let mut failures = 0;
    loop {
        // Each attempt gets a few writes further.
        let failing = Failing::after(4, Fault::Refused, target.clone());
        let mut skipped = 0;
        let progress = |progress: CopyProgress| skipped += usize::from(progress.was_complete);
        if copy_store(&*original, &failing, ids.iter().copied(), progress).is_ok() {
            assert!(skipped > 0, "what is complete is not copied again");
            break;
        }
        failures += 1;
        assert!(failures < 20, "the copy proceeds");
    }
    assert!(failures > 0);
    assert_eq!(view(&engine(target.clone()), &tokens), before);

    // The engine on the copy has written; nothing overwrites that.
    let items = engine(target.clone());
    let container = items
        .container(Id::Name("db"), Id::Name("items"))
        .expect("a container");
    create(&items, &container, r#"{"id":"new","pk":"new"}"#);
    drop(items);
    let refused = copy_store(&*original, &*target, ids, |_| {}).expect_err("other data");
    assert!(
        refused.to_string().contains("has data already"),
        "{refused}"
    );
}
