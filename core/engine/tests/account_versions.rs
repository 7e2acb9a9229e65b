//! Versions that the account keeps in containers without a change feed policy: from which moment
//! they are there, when they go, and which policy goes before.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{AccountVersions, BackgroundTask, Container, Engine, EngineOptions, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json, Kind};
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

const HOUR_MS: u64 = 3_600_000;
const DAY: AccountVersions = AccountVersions {
    retention_seconds: 86_400,
    partition_bytes: None,
};

/// A store, and the engine that is open on it.
struct Account {
    store: Arc<dyn Store>,
    world: Arc<SeededWorld>,
    engine: Engine,
}

impl Account {
    fn new(versions: Option<AccountVersions>) -> Account {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let world = Arc::new(SeededWorld::new(START_MS, 1));
        Account {
            engine: open_with(&store, &world, versions),
            store,
            world,
        }
    }

    /// Opens the store again, with other versions of the account.
    fn reopen(&mut self, versions: Option<AccountVersions>) -> Arc<Container> {
        self.engine = open_with(&self.store, &self.world, versions);
        self.container("items")
    }

    fn create(&self, id: &str, rest: &str) -> Arc<Container> {
        let body = format!(
            r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}{rest}}}"#
        );
        create_container(&self.engine, &body, 1).expect("a container")
    }

    fn container(&self, id: &str) -> Arc<Container> {
        let found = self.engine.container(Id::Name("db"), Id::Name(id));
        found.expect("the container")
    }

    fn read(&self, container: &Container, start: FeedStart) -> Result<FeedPage, Error> {
        let scope = Scope::Range {
            id: 0,
            within: None,
        };
        let page = self
            .engine
            .all_versions_feed(container, &scope, &start, None, None);
        page.wait().result
    }

    /// Returns the position of a reader that starts now.
    fn now(&self, container: &Container) -> u64 {
        let page = self.read(container, FeedStart::Now).expect("a page");
        assert!(page.rows.is_empty());
        page.continue_after
    }

    /// Returns the kinds of the changes after a position.
    fn operations(&self, container: &Container, after: u64) -> Vec<String> {
        let page = self.read(container, FeedStart::Lsn(after));
        let rows = page.expect("a page").rows;
        let changes = rows.iter().map(|row| json(&text(row)));
        changes.map(|change| operation(&change)).collect()
    }

    /// Returns the message with which a reader is refused.
    #[track_caller]
    fn refusal(&self, container: &Container, start: FeedStart) -> String {
        let error = self.read(container, start).expect_err("refused");
        assert_eq!(error.kind(), Kind::BadRequest);
        error.message().to_owned()
    }

    /// Runs the removal until there is nothing to remove now.
    fn remove(&self) {
        let due_soon = || {
            let in_ms = self.engine.background_work_in(BackgroundTask::Removal);
            in_ms.is_some_and(|in_ms| in_ms <= 1_000)
        };
        while due_soon() {
            self.world.advance_ms(1_000);
            let removal = self.engine.run_background_work(BackgroundTask::Removal);
            removal.expect("versions are removed");
        }
    }
}

fn open_with(
    store: &Arc<dyn Store>,
    world: &Arc<SeededWorld>,
    account_versions: Option<AccountVersions>,
) -> Engine {
    let options = EngineOptions {
        account_versions,
        ..options(Profile::Modern)
    };
    Engine::open(store.clone(), options, world.clone()).expect("the engine opens")
}

fn operation(change: &Json) -> String {
    let metadata = change.get("metadata").expect("metadata");
    let operation = metadata.get("operationType").and_then(Json::as_str);
    operation.expect("an operation").to_owned()
}

fn item(id: usize) -> String {
    format!(r#"{{"id":"{id}","pk":"p"}}"#)
}

fn delete(engine: &Engine, container: &Container, id: usize) {
    let options = WriteOptions {
        partition_key: Some(key(r#"["p"]"#)),
        ..WriteOptions::default()
    };
    let operation = WriteOperation::Delete(id.to_string());
    let deleted = write(engine, container, &operation, None, &options);
    deleted.result.expect("the item is deleted");
}

#[test]
fn the_policy_of_a_container_goes_before_the_account() {
    let account = Account::new(Some(DAY));
    let engine = &account.engine;
    let plain = account.create("items", "");
    let empty = account.create("empty", r#","changeFeedPolicy":{}"#);
    let short = account.create("short", r#","changeFeedPolicy":{"retentionDuration":60}"#);
    let latest = account.create("latest", r#","changeFeedPolicy":{"retentionDuration":0}"#);
    let shown = text(&engine.read_container(&plain).result.expect("a body").body);
    assert!(!shown.contains("changeFeedPolicy"), "{shown}");

    let refusal = account.refusal(&latest, FeedStart::Now);
    assert!(refusal.contains("must be enabled"), "{refusal}");
    assert!(refusal.contains("--all-versions-and-deletes"), "{refusal}");
    let starts = [&plain, &empty, &short].map(|container| account.now(container));
    for container in [&plain, &empty, &short] {
        create(engine, container, &item(1));
        delete(engine, container, 1);
    }
    account.world.advance_ms(2 * HOUR_MS);
    for (container, start) in [(&plain, starts[0]), (&empty, starts[1])] {
        assert_eq!(account.operations(container, start), ["create", "delete"]);
    }
    let refusal = account.refusal(&short, FeedStart::Lsn(starts[2]));
    assert!(refusal.contains("retention"), "{refusal}");

    // A policy that goes away leaves the container to the account.
    let body = r#"{"id":"latest","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let replaced = engine.replace_container(&latest, &object(body), None);
    replaced.result.expect("replaced");
    let start = account.now(&latest);
    create(engine, &latest, &item(1));
    assert_eq!(account.operations(&latest, start), ["create"]);
}

#[test]
fn containers_from_before_the_option_have_versions_from_its_start_on() {
    let mut account = Account::new(None);
    let container = account.create("items", "");
    create(&account.engine, &container, &item(1));
    let refusal = account.refusal(&container, FeedStart::Now);
    assert!(refusal.contains("must be enabled"), "{refusal}");

    let container = account.reopen(Some(DAY));
    let start = account.now(&container);
    let refusal = account.refusal(&container, FeedStart::Lsn(start - 1));
    assert!(refusal.contains("older than the versions"), "{refusal}");
    create(&account.engine, &container, &item(2));
    delete(&account.engine, &container, 1);
    assert_eq!(account.operations(&container, start), ["create", "delete"]);
}

#[test]
fn without_the_option_its_versions_are_removed() {
    let mut account = Account::new(Some(DAY));
    let container = account.create("items", "");
    let own = account.create("own", r#","changeFeedPolicy":{"retentionDuration":60}"#);
    let starts = [account.now(&container), account.now(&own)];
    create(&account.engine, &container, &item(1));
    create(&account.engine, &own, &item(1));

    let container = account.reopen(None);
    let refusal = account.refusal(&container, FeedStart::Lsn(starts[0]));
    assert!(refusal.contains("must be enabled"), "{refusal}");
    let removed = account.engine.remove_old_versions();
    assert_eq!(removed.expect("removed"), 1);
    let own = account.container("own");
    assert_eq!(account.operations(&own, starts[1]), ["create"]);

    // The option comes back: what was removed is not passed over in silence.
    let container = account.reopen(Some(DAY));
    let refusal = account.refusal(&container, FeedStart::Lsn(starts[0]));
    assert!(refusal.contains("older than the versions"), "{refusal}");
}

#[test]
fn a_shorter_retention_holds_for_versions_that_are_there() {
    let mut account = Account::new(Some(DAY));
    let container = account.create("items", "");
    let start = account.now(&container);
    create(&account.engine, &container, &item(1));
    let second = account.now(&container);
    account.world.advance_ms(5 * HOUR_MS);
    create(&account.engine, &container, &item(2));
    let container = account.reopen(Some(DAY));
    assert_eq!(account.operations(&container, start).len(), 2);
    let container = account.reopen(Some(AccountVersions {
        retention_seconds: 4 * 3_600,
        ..DAY
    }));
    let refusal = account.refusal(&container, FeedStart::Lsn(start));
    assert!(refusal.contains("retention"), "{refusal}");
    assert_eq!(account.operations(&container, second), ["create"]);
}

#[test]
fn a_restored_snapshot_keeps_the_versions_of_the_account() {
    let account = Account::new(Some(DAY));
    let container = account.create("items", "");
    create(&account.engine, &container, &item(1));
    let snapshot = account.engine.take_snapshot("one", &object("{}"));
    snapshot.expect("a snapshot");
    account.engine.restore_snapshot("one").expect("restored");
    let container = account.container("items");
    let start = account.now(&container);
    create(&account.engine, &container, &item(2));
    assert_eq!(account.operations(&container, start), ["create"]);
}

#[test]
fn the_oldest_versions_go_when_they_take_more_bytes_than_the_account_keeps() {
    const BYTES: u64 = 256 << 10;
    let bounded = Some(AccountVersions {
        partition_bytes: Some(BYTES),
        ..DAY
    });
    let mut account = Account::new(bounded);
    let container = account.create("items", "");
    account.remove();
    let first = account.now(&container);
    let mut positions = vec![first];
    let pad = "x".repeat(1_000);
    for id in 0..400 {
        let body = format!(r#"{{"id":"{id}","pk":"p","pad":"{pad}"}}"#);
        create(&account.engine, &container, &body);
        positions.push(account.now(&container));
        account.remove();
        let refused = positions
            .iter()
            .take_while(|&&at| account.read(&container, FeedStart::Lsn(at)).is_err());
        let refused = refused.count();
        positions.drain(..refused);
        let kept = positions.len() as u64 * 1_000;
        assert!(kept <= BYTES, "{kept} bytes after item {id}");
    }
    assert!(positions.len() > 100, "{} are left", positions.len());
    let refusal = account.refusal(&container, FeedStart::Lsn(first));
    assert!(refusal.contains("more than the account keeps"), "{refusal}");
    let created = account.operations(&container, positions[0]);
    assert_eq!(created.len(), positions.len() - 1);
    let removed = account.engine.remove_old_versions();
    assert_eq!(removed.expect("a walk"), 0);
    check_counters(&account.engine, &container);

    // A smaller bound holds for the versions that a later start finds.
    let container = account.reopen(Some(AccountVersions {
        partition_bytes: Some(BYTES / 4),
        ..DAY
    }));
    let removed = account.engine.remove_old_versions();
    assert!(removed.expect("removed") > 50);
    account.refusal(&container, FeedStart::Lsn(positions[0]));
    let last = positions[positions.len() - 20];
    assert_eq!(account.operations(&container, last).len(), 19);
}
