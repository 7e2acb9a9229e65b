//! The words with which a failed write is answered, compared with the data afterwards.
//!
//! The store fails at the commit of each kind of write: it refuses the commit, loses it, or carries
//! it out and loses the answer. 408 is the only answer after which the write may have happened.

use crate::support::{self, *};
use bytes::Bytes;
use orrery_engine::request::*;
use orrery_engine::{BackgroundTask, Check, Container, Engine, Feed, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Object};
use orrery_storage::testing::{Failing, Fault};
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, Lease, MemoryStore, PartitionId, Receipt, Snapshot, Store,
    StoreError,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const PROCEDURE: &str = r#"{"id":"put","body":"function put() {
    const items = getContext().getCollection();
    items.createDocument(items.getSelfLink(), { id: 'new', pk: 'p' }); }"}"#;

/// An engine on a store that fails, with the item `old`.
struct Case {
    memory: Arc<MemoryStore>,
    store: Arc<Failing<Arc<MemoryStore>>>,
    engine: Engine,
    container: Arc<Container>,
}

/// One kind of write, and a look at whether it took place.
struct Kind {
    name: &'static str,
    write: fn(&Case) -> Result<(), Error>,
    is_committed: fn(&Engine, &Container) -> bool,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "create",
        write: |case| case.write(WriteOperation::Create, r#"{"id":"new","pk":"p"}"#),
        is_committed: |engine, container| has(engine, container, "new"),
    },
    Kind {
        name: "upsert",
        write: |case| case.write(WriteOperation::Upsert, r#"{"id":"new","pk":"p"}"#),
        is_committed: |engine, container| has(engine, container, "new"),
    },
    Kind {
        name: "replace",
        write: |case| {
            case.write(
                WriteOperation::Replace("old".into()),
                r#"{"id":"old","pk":"p","n":2}"#,
            )
        },
        is_committed: is_changed,
    },
    Kind {
        name: "patch",
        write: |case| {
            let patch = r#"{"operations":[{"op":"set","path":"/n","value":2}]}"#;
            case.write(WriteOperation::Patch("old".into()), patch)
        },
        is_committed: is_changed,
    },
    Kind {
        name: "delete",
        write: |case| case.write(WriteOperation::Delete("old".into()), ""),
        is_committed: |engine, container| !has(engine, container, "old"),
    },
    Kind {
        name: "batch",
        write: |case| case.batch(&BatchMode::Atomic(key(r#"["p"]"#))),
        is_committed: |engine, container| has(engine, container, "new"),
    },
    Kind {
        name: "bulk",
        write: |case| {
            case.batch(&BatchMode::Each {
                range: None,
                key: None,
                continue_on_error: true,
            })
        },
        is_committed: |engine, container| has(engine, container, "new"),
    },
    Kind {
        name: "procedure",
        write: |case| {
            let put = Id::Name("put");
            let options = ExecuteOptions::default();
            let key = key(r#"["p"]"#);
            let pending = case
                .engine
                .execute(&case.container, put, &key, b"[]", options);
            pending.wait().result.map(drop)
        },
        is_committed: |engine, container| has(engine, container, "new"),
    },
    Kind {
        name: "script",
        write: |case| {
            let body = object(r#"{"id":"udf","body":"function f() {}"}"#);
            let kind = ScriptKind::Function;
            let created = case
                .engine
                .create_script(&case.container, kind, &body, false);
            created.result.map(drop)
        },
        is_committed: |engine, container| {
            let scripts = Feed::Scripts(container, ScriptKind::Function);
            let page = engine.list(scripts, &PageRequest::default()).result;
            !page.expect("a list").rows.is_empty()
        },
    },
];

fn has(engine: &Engine, container: &Container, id: &str) -> bool {
    read(engine, container, r#"["p"]"#, id).is_ok()
}

fn is_changed(engine: &Engine, container: &Container) -> bool {
    let item = read(engine, container, r#"["p"]"#, "old").expect("the item");
    item.contains(r#""n":2"#)
}

impl Case {
    fn new(fault: Fault) -> Case {
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::new(Failing::after(u64::MAX, fault, memory.clone()));
        let world = Arc::new(SeededWorld::new(0, 9));
        let engine = open(store.clone(), Profile::Modern, world).expect("it opens");
        let container = create_container(&engine, BODY, 1).expect("the container");
        create(&engine, &container, r#"{"id":"old","pk":"p","n":1}"#);
        let procedure = object(&PROCEDURE.replace('\n', " "));
        let created = engine.create_script(&container, ScriptKind::Procedure, &procedure, false);
        created.result.expect("the procedure");
        Case {
            memory,
            store,
            engine,
            container,
        }
    }

    fn write(&self, operation: WriteOperation, body: &str) -> Result<(), Error> {
        let body = (!body.is_empty()).then_some(body);
        let options = WriteOptions {
            partition_key: Some(key(r#"["p"]"#)),
            ..WriteOptions::default()
        };
        let written = support::write(&self.engine, &self.container, &operation, body, &options);
        written.result.map(drop)
    }

    /// Executes a batch of one operation. Returns the error of the batch or of the operation.
    fn batch(&self, mode: &BatchMode) -> Result<(), Error> {
        let body = Body::Text(Bytes::from_static(br#"{"id":"new","pk":"p"}"#));
        let action = BatchAction::Write(WriteOperation::Create);
        let operation = BatchOperation {
            partition_key: Some(key(r#"["p"]"#)),
            ..BatchOperation::new(action, Some(body))
        };
        let pending = self
            .engine
            .batch(&self.container, mode, vec![operation], None);
        for outcome in pending.wait().result?.results {
            outcome.result?;
        }
        Ok(())
    }

    /// Returns true if the write took place, as an engine finds that is opened on the same data.
    fn is_committed(&self, kind: &Kind) -> bool {
        let world = Arc::new(SeededWorld::new(0, 9));
        let engine = open(self.memory.clone(), Profile::Modern, world).expect("it opens");
        let container = engine.container(Id::Name("db"), Id::Name("items"));
        (kind.is_committed)(&engine, &container.expect("the container"))
    }
}

#[test]
fn a_write_that_the_store_refused_is_503_and_did_not_happen() {
    for kind in KINDS {
        let case = Case::new(Fault::Refused);
        case.store.fail_next();
        let error = (kind.write)(&case).expect_err(kind.name);
        assert_eq!(error.status(), 503, "{}: {error}", kind.name);
        assert!(error.message().contains("did not take place"), "{error}");
        assert_eq!(error.retry_after_ms(), Some(1_000), "{}", kind.name);
        assert!(!case.is_committed(kind), "{}", kind.name);
    }
}

#[test]
fn a_write_whose_outcome_stays_unknown_is_408_and_the_message_says_so() {
    for (fault, is_committed) in [(Fault::Lost, false), (Fault::Applied, true)] {
        for kind in KINDS {
            let case = Case::new(fault);
            case.store.fail_next();
            let error = (kind.write)(&case).expect_err(kind.name);
            assert_eq!(error.status(), 408, "{}: {error}", kind.name);
            assert!(error.message().contains("may have taken place"), "{error}");
            assert_eq!(case.is_committed(kind), is_committed, "{}", kind.name);
        }
    }
}

#[test]
fn writes_after_an_unknown_outcome_are_503_and_did_not_happen() {
    for kind in KINDS {
        let case = Case::new(Fault::Lost);
        case.store.fail_next();
        case.write(WriteOperation::Upsert, r#"{"id":"first","pk":"p"}"#)
            .expect_err("it fails");
        let error = (kind.write)(&case).expect_err(kind.name);
        assert!(
            [500, 503].contains(&error.status()),
            "{}: {error}",
            kind.name
        );
        assert!(!case.is_committed(kind), "{}", kind.name);
    }
}

/// SDKs keep the position of an error in their session, and would be refused later reads with
/// 404/1002 if the partition never reached that position.
#[test]
fn a_write_that_failed_tells_no_position() {
    for fault in [Fault::Refused, Fault::Lost, Fault::Applied] {
        let case = Case::new(fault);
        let options = WriteOptions {
            partition_key: Some(key(r#"["p"]"#)),
            ..WriteOptions::default()
        };
        let body = Some(r#"{"id":"new","pk":"p"}"#);
        let upsert = WriteOperation::Upsert;
        let write = || support::write(&case.engine, &case.container, &upsert, body, &options);
        assert!(write().position.is_some());
        case.store.fail_next();
        let failed = write();
        assert!(failed.result.is_err());
        assert_eq!(failed.position, None);
    }
}

/// A change of the catalog at some of whose commits the store fails.
struct CatalogChange {
    name: &'static str,
    run: fn(&Case),
}

const CATALOG_CHANGES: &[CatalogChange] = &[
    CatalogChange {
        name: "time to live",
        run: |case| {
            let body = object(&BODY.replace(r#""items","#, r#""items","defaultTtl":100,"#));
            let replaced = case.engine.replace_container(&case.container, &body, None);
            drop(replaced.result);
        },
    },
    CatalogChange {
        name: "indexing policy",
        run: |case| {
            let policy = r#""items","indexingPolicy":{"indexingMode":"none"},"#;
            let body = object(&BODY.replace(r#""items","#, policy));
            let replaced = case.engine.replace_container(&case.container, &body, None);
            drop(replaced.result);
        },
    },
    CatalogChange {
        name: "creation",
        run: |case| {
            let body = BODY.replace("items", "more");
            drop(create_container(&case.engine, &body, 2));
        },
    },
    CatalogChange {
        name: "deletion of a container",
        run: |case| drop(case.engine.delete_container(&case.container, None).result),
    },
    CatalogChange {
        name: "deletion of a database",
        run: |case| {
            if let Ok(database) = case.engine.database(Id::Name("db")) {
                drop(case.engine.delete_database(&database, None).result);
            }
        },
    },
    CatalogChange {
        name: "script under another id",
        run: |case| {
            let body = object(
                &PROCEDURE
                    .replace('\n', " ")
                    .replace(r#""put""#, r#""other""#),
            );
            let kind = ScriptKind::Procedure;
            let (engine, put) = (&case.engine, Id::Name("put"));
            drop(
                engine
                    .replace_script(&case.container, kind, put, &body, None)
                    .result,
            );
        },
    },
    CatalogChange {
        name: "split",
        run: |case| {
            let split = RangeChange::Split {
                range: 0,
                at: SplitAt::Middle,
            };
            if let Ok(begun) = case
                .engine
                .begin_range_change(&case.container, split, false)
            {
                case.engine.finish_range_change(begun.id).expect("it ends");
            }
        },
    },
    CatalogChange {
        name: "snapshot",
        run: |case| drop(case.engine.take_snapshot("first", &Object::new())),
    },
    CatalogChange {
        name: "restoration",
        run: |case| drop(case.engine.restore_snapshot("before")),
    },
    CatalogChange {
        name: "reset",
        run: |case| drop(case.engine.reset()),
    },
];

/// Returns the catalog as clients see it.
fn catalog_of(engine: &Engine) -> String {
    let page = PageRequest::default();
    let listed = |feed: Feed<'_>| -> Vec<String> {
        let page = engine.list(feed, &page).result.expect("a list");
        page.rows.iter().map(|row| text(row)).collect()
    };
    let Ok(database) = engine.database(Id::Name("db")) else {
        return "no database".to_owned();
    };
    let mut all = listed(Feed::Containers(&database));
    for id in ["items", "more"] {
        let Ok(container) = engine.container(Id::Name("db"), Id::Name(id)) else {
            continue;
        };
        let (ranges, _) = engine.partition_key_ranges(&container).expect("ranges");
        all.extend(
            ranges
                .iter()
                .map(|one| format!("{} {:?}", one.id, one.range)),
        );
        all.extend(listed(Feed::Scripts(&container, ScriptKind::Procedure)));
    }
    all.join("\n")
}

/// Writes an item to each container that is there.
fn write_everywhere(engine: &Engine, id: &str) {
    for name in ["items", "more"] {
        let Ok(container) = engine.container(Id::Name("db"), Id::Name(name)) else {
            continue;
        };
        for pk in ["p", "q", "r", "s"] {
            let body = format!(r#"{{"id":"{id}","pk":"{pk}"}}"#);
            create(engine, &container, &body);
        }
    }
}

/// The state in memory is that of the rows once the store answers again, whatever became of the
/// commit at which it failed: no answered write is lost, and snapshots are whole.
#[test]
fn after_a_change_without_a_known_outcome_the_catalog_is_that_of_its_rows() {
    for fault in [Fault::Lost, Fault::Applied] {
        for change in CATALOG_CHANGES {
            for writes in 0.. {
                let name = format!("{}, {fault:?} after {writes} writes", change.name);
                if !check_change(fault, change, writes, &name) {
                    break;
                }
            }
        }
    }
}

/// Lets the store fail after some writes of a change and answer again, and compares the catalog
/// with that of an engine which is opened on the same data. Returns true if the store has failed.
#[track_caller]
fn check_change(fault: Fault, change: &CatalogChange, writes: u64, name: &str) -> bool {
    let case = Case::new(fault);
    let taken = case.engine.take_snapshot("before", &Object::new());
    taken.expect("a snapshot");
    create(&case.engine, &case.container, r#"{"id":"new","pk":"p"}"#);
    case.store.fail_after(writes);
    (change.run)(&case);
    let has_failed = case.store.is_broken();
    case.store.repair();

    // A request may have looked the container up while the store failed.
    let held = case.write(WriteOperation::Upsert, r#"{"id":"held","pk":"p"}"#);
    let seen = catalog_of(&case.engine);
    write_everywhere(&case.engine, "later");
    let taken = case.engine.take_snapshot("after", &Object::new());
    taken.unwrap_or_else(|error| panic!("{name}: {error}"));
    let work = || case.engine.run_background_work(BackgroundTask::Removal);
    while work().unwrap_or_else(|error| panic!("{name}: {error}")) {}
    let verified = case.engine.verify(None, &mut |_| true);
    // The key spaces of a container that was not created wait for the next one.
    let mut found = verified.expect("every row is read").findings;
    found.retain(|one| one.check != Check::KeySpaces);
    assert_eq!(found, [], "{name}");

    let world = Arc::new(SeededWorld::new(0, 10));
    let again = open(case.memory.clone(), Profile::Modern, world);
    let again = again.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(seen, catalog_of(&again), "{name}");
    if let Ok(container) = again.container(Id::Name("db"), Id::Name("items")) {
        assert!(has(&again, &container, "later"), "{name}");
        let is_kept = held.is_err() || has(&again, &container, "held");
        assert!(is_kept, "an answered write is lost: {name}");
    }
    write_everywhere(&again, "last");
    has_failed
}

/// A store on another machine that carries a commit out, and is away for its next questions.
struct Away {
    memory: MemoryStore,
    is_armed: AtomicBool,
    questions_left: AtomicUsize,
}

impl Away {
    fn is_away(&self) -> bool {
        let left = &self.questions_left;
        let taken = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| {
            left.checked_sub(1)
        });
        taken.is_ok()
    }
}

fn away() -> StoreError {
    StoreError::Unavailable {
        reason: "the store is away",
        retry_after_ms: 1,
        is_full: false,
    }
}

impl Store for Away {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        match self.is_away() {
            true => Err(away()),
            false => self.memory.open(partition),
        }
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let receipt = self.memory.submit(lease, commit);
        if lease.partition() != PartitionId(0) || !self.is_armed.swap(false, Ordering::SeqCst) {
            return receipt;
        }
        self.questions_left.store(5, Ordering::SeqCst);
        assert_eq!(receipt.wait(), CommitOutcome::Ok);
        Receipt::ready(CommitOutcome::Unknown)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        match self.is_away() {
            true => Err(away()),
            false => self.memory.snapshot(partition),
        }
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.memory.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.memory.sync()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            remote: true,
            ..self.memory.capabilities()
        }
    }

    fn approximate_bytes(&self) -> u64 {
        self.memory.approximate_bytes()
    }
}

/// Otherwise the catalog in memory would part from its rows: a split would be undone in one of
/// them.
#[test]
fn a_change_of_the_catalog_that_took_place_succeeds_though_the_store_is_away_then() {
    let store = Arc::new(Away {
        memory: MemoryStore::new(),
        is_armed: AtomicBool::new(false),
        questions_left: AtomicUsize::new(0),
    });
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let engine = open(store.clone(), Profile::Modern, world.clone()).expect("it opens");
    let container = create_container(&engine, BODY, 1).expect("it is created");
    create(&engine, &container, r#"{"id":"old","pk":"p"}"#);
    let split = RangeChange::Split {
        range: 0,
        at: SplitAt::Middle,
    };
    let begun = engine
        .begin_range_change(&container, split, true)
        .expect("it begins");
    // The copy, and then the switch.
    engine.step_range_change(begun.id).expect("it is copied");
    let copied = engine.step_range_change(begun.id).expect("it goes on");
    assert!(!copied.stage.is_over(), "{copied:?}");
    store.is_armed.store(true, Ordering::SeqCst);
    let ended = engine.finish_range_change(begun.id).expect("it ends");
    assert_eq!(ended.stage, RangeChangeStage::Done, "{ended:?}");
    assert_eq!(container.partitions().len(), 2);
    drop(engine);
    let again = open(store, Profile::Modern, world).expect("the rows make sense");
    let container = again
        .container(Id::Name("db"), Id::Name("items"))
        .expect("it is there");
    assert_eq!(container.partitions().len(), 2);
}
