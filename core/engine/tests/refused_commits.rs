//! A commit that is refused, that fails, or whose outcome is not known leaves nothing behind in the
//! memory of its partition: neither the paths that it brings nor counters, sizes, generations or
//! times. Writes of all other keys and the work beside requests go on.
//!
//! The memory of a partition is compared as text ([`Engine::partition_memory`]): with that before
//! the refused commit, and with that of an engine which was just opened on the same data.

use crate::support::{self, *};
use bytes::Bytes;
use orrery_engine::request::*;
use orrery_engine::{BackgroundTask, Container, Engine, EngineOptions, Profile};
use orrery_model::Error;
use orrery_model::world::SeededWorld;
use orrery_storage::MemoryStore;
use orrery_storage::testing::{Failing, Fault};
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":-1,
    "changeFeedPolicy":{"retentionDuration":10}}"#;
const OTHER_POLICY: &str = r#"{"id":"items",
    "partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]},"defaultTtl":-1,
    "changeFeedPolicy":{"retentionDuration":10},
    "indexingPolicy":{"indexingMode":"consistent","automatic":true,
        "includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/n/?"}],
        "compositeIndexes":[[{"path":"/n"},{"path":"/pk"}]]}}"#;

/// Creates items with new names, as many as its argument says.
const MANY: &str = "function many(items, names) {
    const collection = getContext().getCollection();
    for (let i = 0; i < items; i++) {
        const item = { id: 'many' + i, pk: 'p', u: 'many' + i };
        for (let n = 0; n < names; n++) item['many' + i + '_' + n] = 1;
        collection.createDocument(collection.getSelfLink(), item, function () {});
    }
}";
/// Creates an item with a new name, and fails.
const FAILS: &str = "function fails() {
    const collection = getContext().getCollection();
    const item = { id: 'fails', pk: 'p', u: 'fails', name_of_fails: 1, ttl: 5 };
    collection.createDocument(collection.getSelfLink(), item);
    throw new Error('it fails');
}";
/// Adds 66,000 names to the item of the request.
const ADDS: &str = "function adds() {
    const request = getContext().getRequest();
    const item = request.getBody();
    for (let n = 0; n < 66000; n++) item['adds' + n] = 1;
    request.setBody(item);
}";

/// An engine on a store that fails on request, with a few items.
struct Case {
    memory: Arc<MemoryStore>,
    store: Arc<Failing<Arc<MemoryStore>>>,
    world: Arc<SeededWorld>,
    engine: Engine,
    container: Arc<Container>,
}

/// A write that is refused.
struct Refusal {
    name: &'static str,
    status: u16,
    run: fn(&Case) -> Result<(), Error>,
}

impl Case {
    fn new(fault: Fault) -> Case {
        Case::with_limit(fault, 20 << 30)
    }

    /// Creates a case whose logical partitions have at most `limit` bytes.
    fn with_limit(fault: Fault, limit: u64) -> Case {
        let memory = Arc::new(MemoryStore::new());
        let store = Arc::new(Failing::after(u64::MAX, fault, memory.clone()));
        let world = Arc::new(SeededWorld::new(START_MS, 9));
        let options = EngineOptions {
            logical_partition_bytes: limit,
            ..options(Profile::Modern)
        };
        let engine = Engine::open(store.clone(), options, world.clone()).expect("it opens");
        let container = create_container(&engine, BODY, 1).expect("the container");
        create(&engine, &container, r#"{"id":"old","pk":"p","u":1,"n":1}"#);
        create(
            &engine,
            &container,
            r#"{"id":"old","pk":"q","u":1,"n":[{"m":1}]}"#,
        );
        let case = Case {
            memory,
            store,
            world,
            engine,
            container,
        };
        case.script(ScriptKind::Procedure, "many", MANY, "");
        case.script(ScriptKind::Procedure, "fails", FAILS, "");
        let pre = r#","triggerType":"Pre","triggerOperation":"All""#;
        case.script(ScriptKind::Trigger, "adds", ADDS, pre);
        let post = r#","triggerType":"Post","triggerOperation":"All""#;
        case.script(ScriptKind::Trigger, "fails", FAILS, post);
        // A refused write would move the time of the partition.
        case.world.advance_ms(100_000);
        case
    }

    fn script(&self, kind: ScriptKind, id: &str, source: &str, extra: &str) {
        let body = format!(
            r#"{{"id":"{id}","body":{}{extra}}}"#,
            orrery_model::Json::from(source)
        );
        let created = self
            .engine
            .create_script(&self.container, kind, &object(&body), true);
        created.result.expect("the script is created");
    }

    fn write(&self, operation: WriteOperation, body: &str) -> Result<(), Error> {
        self.write_with(operation, body, WriteOptions::default())
    }

    fn write_with(
        &self,
        operation: WriteOperation,
        body: &str,
        options: WriteOptions,
    ) -> Result<(), Error> {
        let options = WriteOptions {
            partition_key: Some(key(r#"["p"]"#)),
            ..options
        };
        let body = (!body.is_empty()).then_some(body);
        let written = support::write(&self.engine, &self.container, &operation, body, &options);
        written.result.map(drop)
    }

    /// Executes a batch of creates in the logical partition `p`. Returns the first error that is
    /// no 424.
    fn batch(&self, mode: &BatchMode, bodies: Vec<String>) -> Result<(), Error> {
        let operation = |body: String| BatchOperation {
            partition_key: Some(key(r#"["p"]"#)),
            ..BatchOperation::new(
                BatchAction::Write(WriteOperation::Create),
                Some(Body::Text(Bytes::from(body))),
            )
        };
        let operations = bodies.into_iter().map(operation).collect();
        let pending = self.engine.batch(&self.container, mode, operations, None);
        for outcome in pending.wait().result?.results {
            match outcome.result {
                Err(error) if error.status() != 424 => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    fn execute(&self, procedure: &str, arguments: &str) -> Result<(), Error> {
        let pending = self.engine.execute(
            &self.container,
            Id::Name(procedure),
            &key(r#"["p"]"#),
            arguments.as_bytes(),
            ExecuteOptions::default(),
        );
        pending.wait().result.map(drop)
    }

    /// Returns the memory of the partition.
    fn state(&self) -> String {
        memory_of(&self.engine, &self.container)
    }

    /// Returns the memory of the partition in an engine that was just opened. The writer of this
    /// case is fenced by it.
    fn fresh_state(&self) -> String {
        let world = self.world.clone();
        let engine = open(self.memory.clone(), Profile::Modern, world).expect("it opens");
        let container = engine.container(Id::Name("db"), Id::Name("items"));
        memory_of(&engine, &container.expect("the container"))
    }

    /// Checks that other keys are written and that the work beside requests goes on.
    #[track_caller]
    fn check_that_work_goes_on(&self, name: &str) {
        for (pk, id) in [("z", "1"), ("p", "2")] {
            let body = format!(r#"{{"id":"{id}","pk":"{pk}","u":"{id}","ttl":5,"name_{id}":1}}"#);
            let options = WriteOptions::default();
            let upsert = WriteOperation::Upsert;
            let written = support::write(
                &self.engine,
                &self.container,
                &upsert,
                Some(&body),
                &options,
            );
            written
                .result
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        self.world.advance_ms(10_000);
        let removed = self.engine.remove_expired();
        assert_eq!(removed.expect(name), 2, "{name}");
        self.engine.finish_reindexing().expect(name);
        check_counters(&self.engine, &self.container);
        self.world.advance_ms(100_000);
        self.write_last();
    }

    /// Writes an item that stays. The next writer finds the time of the partition in the item.
    fn write_last(&self) {
        let upsert = WriteOperation::Upsert;
        let options = WriteOptions::default();
        let body = Some(r#"{"id":"last","pk":"last","u":"last"}"#);
        let written = support::write(&self.engine, &self.container, &upsert, body, &options);
        written.result.expect("it is written");
    }
}

fn memory_of(engine: &Engine, container: &Container) -> String {
    let memory = engine.partition_memory(container);
    memory.expect("the memory").join("\n")
}

/// Returns an item of the partition key `p` with `count` names that begin with `prefix`.
fn item(id: &str, prefix: &str, count: usize) -> String {
    let mut text = format!(r#"{{"id":"{id}","pk":"p","u":"{id}","ttl":5"#);
    text.push_str(&members(prefix, count));
    text.push('}');
    text
}

fn members(prefix: &str, count: usize) -> String {
    let mut text = String::new();
    for n in 0..count {
        text.push_str(&format!(r#","{prefix}{n}":1"#));
    }
    text
}

fn atomic() -> BatchMode {
    BatchMode::Atomic(key(r#"["p"]"#))
}

fn bulk() -> BatchMode {
    BatchMode::Each {
        range: None,
        key: None,
        continue_on_error: true,
    }
}

/// Writes that are refused because they bring more than a commit may hold.
const TOO_LARGE: &[Refusal] = &[
    Refusal {
        name: "create of 66,000 names",
        status: 413,
        run: |case| case.write(WriteOperation::Create, &item("new", "a", 66_000)),
    },
    Refusal {
        name: "upsert of 100,000 names",
        status: 413,
        run: |case| case.write(WriteOperation::Upsert, &item("old", "b", 100_000)),
    },
    Refusal {
        name: "replace by 100,000 names",
        status: 413,
        run: |case| {
            let replace = WriteOperation::Replace("old".to_owned());
            case.write(replace, &item("old", "c", 100_000))
        },
    },
    Refusal {
        name: "patch by 66,000 names",
        status: 413,
        run: |case| {
            let patch = format!(
                r#"{{"operations":[{{"op":"set","path":"/big","value":{{"x":1{}}}}}]}}"#,
                members("d", 66_000)
            );
            case.write(WriteOperation::Patch("old".to_owned()), &patch)
        },
    },
    Refusal {
        name: "pre-trigger that adds 66,000 names",
        status: 413,
        run: |case| {
            let options = WriteOptions {
                pre_trigger: Some("adds".to_owned()),
                ..WriteOptions::default()
            };
            case.write_with(WriteOperation::Create, &item("new", "e", 1), options)
        },
    },
    Refusal {
        name: "batch of 10 times 11,000 names",
        status: 413,
        run: |case| {
            let one = |n| item(&format!("batch{n}"), &format!("f{n}_"), 11_000);
            case.batch(&atomic(), (0..10).map(one).collect())
        },
    },
    Refusal {
        name: "bulk of two items of 60,000 names",
        status: 413,
        run: |case| {
            let one = |n| item(&format!("bulk{n}"), &format!("g{n}_"), 60_000);
            case.batch(&bulk(), (0..2).map(one).collect())
        },
    },
    Refusal {
        name: "procedure of 50 times 3,000 names",
        status: 413,
        run: |case| case.execute("many", "[50, 3000]"),
    },
    Refusal {
        name: "item of more than 2 MB",
        status: 413,
        run: |case| {
            let text = "x".repeat(2 << 20);
            let item = format!(r#"{{"id":"new","pk":"p","u":3,"name_of_it":"{text}"}}"#);
            case.write(WriteOperation::Create, &item)
        },
    },
];

/// Writes that are refused for all other reasons.
const NOT_ALLOWED: &[Refusal] = &[
    Refusal {
        name: "id that is taken",
        status: 409,
        run: |case| case.write(WriteOperation::Create, &item("old", "h", 3)),
    },
    Refusal {
        name: "unique value that is taken",
        status: 409,
        run: |case| {
            let item = r#"{"id":"new","pk":"p","u":1,"name_of_it":{"deep":[1]},"ttl":5}"#;
            case.write(WriteOperation::Create, item)
        },
    },
    Refusal {
        name: "etag that differs",
        status: 412,
        run: |case| {
            let options = WriteOptions {
                if_match: Some("\"other\"".to_owned()),
                ..WriteOptions::default()
            };
            let replace = WriteOperation::Replace("old".to_owned());
            case.write_with(replace, &item("old", "i", 3), options)
        },
    },
    Refusal {
        name: "condition of a patch that does not hold",
        status: 412,
        run: |case| {
            let patch = r#"{"condition":"from c where c.n = 5",
                "operations":[{"op":"set","path":"/name_of_it","value":1}]}"#;
            case.write(WriteOperation::Patch("old".to_owned()), patch)
        },
    },
    Refusal {
        name: "item that is missing",
        status: 404,
        run: |case| {
            let replace = WriteOperation::Replace("none".to_owned());
            case.write(replace, &item("none", "j", 3))
        },
    },
    Refusal {
        name: "ttl that is wrong",
        status: 400,
        run: |case| {
            let item = r#"{"id":"new","pk":"p","u":3,"name_of_it":1,"ttl":"soon"}"#;
            case.write(WriteOperation::Create, item)
        },
    },
    Refusal {
        name: "batch whose second operation fails",
        status: 409,
        run: |case| case.batch(&atomic(), vec![item("new", "k", 3), item("old", "l", 3)]),
    },
    Refusal {
        name: "procedure that throws",
        status: 400,
        run: |case| case.execute("fails", "[]"),
    },
    Refusal {
        name: "post-trigger that throws",
        status: 400,
        run: |case| {
            let options = WriteOptions {
                post_trigger: Some("fails".to_owned()),
                ..WriteOptions::default()
            };
            case.write_with(WriteOperation::Create, &item("new", "m", 3), options)
        },
    },
];

/// Writes that the store refuses or loses, and that bring names, unique values and times to live.
const ACCEPTABLE: &[Refusal] = &[
    Refusal {
        name: "create",
        status: 0,
        run: |case| case.write(WriteOperation::Create, &item("new", "a", 200)),
    },
    Refusal {
        name: "replace",
        status: 0,
        run: |case| {
            let replace = WriteOperation::Replace("old".to_owned());
            case.write(replace, &item("old", "b", 200))
        },
    },
    Refusal {
        name: "delete",
        status: 0,
        run: |case| case.write(WriteOperation::Delete("old".to_owned()), ""),
    },
    Refusal {
        name: "batch",
        status: 0,
        run: |case| case.batch(&atomic(), vec![item("1", "c", 3), item("2", "d", 3)]),
    },
    Refusal {
        name: "bulk",
        status: 0,
        run: |case| case.batch(&bulk(), vec![item("1", "e", 3)]),
    },
    Refusal {
        name: "procedure",
        status: 0,
        run: |case| case.execute("many", "[3, 100]"),
    },
    Refusal {
        name: "deletion of a logical partition",
        status: 0,
        run: |case| {
            let options = AdmissionOptions::default();
            let key = key(r#"["p"]"#);
            let pending = case
                .engine
                .delete_logical_partition(&case.container, &key, options);
            pending.wait().result
        },
    },
    Refusal {
        name: "removal of an expired item",
        status: 0,
        run: |case| case.engine.remove_expired().map(drop),
    },
    Refusal {
        name: "step of a reindex",
        status: 0,
        run: |case| case.engine.reindex_some(10).map(drop),
    },
];

/// Times that a script which ran out of its time is run again.
const SCRIPT_RETRIES: usize = 10;

/// Checks that each of these writes is refused with its status, leaves nothing, and holds no other
/// write up.
fn check_refused_alone(refusals: &[Refusal]) {
    let case = Case::new(Fault::Busy);
    for refusal in refusals {
        let before = case.state();
        let mut error = (refusal.run)(&case).expect_err(refusal.name);
        // Beside other load, a script has less of the processor in its time.
        for _ in 0..SCRIPT_RETRIES {
            if error.status() != 408 || refusal.status == 408 {
                break;
            }
            error = (refusal.run)(&case).expect_err(refusal.name);
        }
        assert_eq!(error.status(), refusal.status, "{}: {error}", refusal.name);
        assert_eq!(case.state(), before, "{}", refusal.name);
        case.check_that_work_goes_on(refusal.name);
    }
    assert_eq!(case.state(), case.fresh_state());
}

#[test]
fn a_write_that_is_too_large_leaves_nothing_and_is_refused_alone() {
    check_refused_alone(TOO_LARGE);
}

#[test]
fn a_write_that_is_not_allowed_leaves_nothing() {
    check_refused_alone(NOT_ALLOWED);
}

/// The store refuses the commit, loses it, or carries it out and loses the answer.
#[test]
fn a_commit_that_the_store_does_not_confirm_leaves_what_is_durable() {
    for fault in [Fault::Busy, Fault::Refused, Fault::Lost, Fault::Applied] {
        for write in ACCEPTABLE {
            let name = format!("{fault:?}, {}", write.name);
            let case = Case::new(fault);
            create(
                &case.engine,
                &case.container,
                r#"{"id":"x","pk":"p","u":9,"ttl":5}"#,
            );
            if write.name == "step of a reindex" {
                let policy = object(&OTHER_POLICY.replace('\n', " "));
                let replaced = case
                    .engine
                    .replace_container(&case.container, &policy, None);
                replaced.result.expect("the policy is replaced");
            }
            case.world.advance_ms(100_000);
            let before = case.state();
            case.store.fail_next();
            (write.run)(&case).expect_err(&name);
            case.store.repair();
            if fault != Fault::Applied {
                assert_eq!(case.state(), before, "{name}");
            }
            case.write_last();
            assert_eq!(case.state(), case.fresh_state(), "{name}");
        }
    }
}

#[test]
fn writes_go_on_after_a_commit_that_the_store_did_not_confirm() {
    for fault in [Fault::Busy, Fault::Refused, Fault::Lost, Fault::Applied] {
        let case = Case::new(fault);
        for write in ACCEPTABLE.iter().filter(|write| write.name != "bulk") {
            let name = format!("{fault:?}, {}", write.name);
            create(
                &case.engine,
                &case.container,
                &format!(
                    r#"{{"id":"{}","pk":"y","u":"{}","ttl":5}}"#,
                    write.name, write.name
                ),
            );
            case.store.fail_next();
            let _ = (write.run)(&case);
            case.store.repair();
            case.world.advance_ms(1_000_000);
            case.engine.finish_deletes_by_key().expect(&name);
            case.engine.remove_expired().expect(&name);
            case.check_that_work_goes_on(&name);
        }
        assert_eq!(case.state(), case.fresh_state(), "{fault:?}");
    }
}

/// A refused write remembers one thing: the size of the full logical partition, as it is stored.
#[test]
fn a_write_beyond_the_limit_of_a_logical_partition_leaves_nothing_but_its_size() {
    let case = Case::with_limit(Fault::Busy, 4_000);
    let full = format!(
        r#"{{"id":"full","pk":"p","u":7,"text":"{}"}}"#,
        "x".repeat(3_000)
    );
    create(&case.engine, &case.container, &full);
    let refused = || {
        let body = format!(
            r#"{{"id":"new","pk":"p","u":8,"name_of_it":"{}","ttl":5}}"#,
            "x".repeat(2_000)
        );
        case.write(WriteOperation::Create, &body)
    };
    let first = refused().expect_err("it is full");
    assert_eq!((first.status(), first.sub_status()), (403, 1014));
    let before = case.state();
    assert!(!before.contains("name_of_it"), "{before}");
    case.world.advance_ms(100_000);
    refused().expect_err("it is full");
    assert_eq!(case.state(), before);
    let work = case.engine.background_work_in(BackgroundTask::Removal);
    assert_eq!(
        work,
        Some(0),
        "the removal is on the agenda since the start, and no later time"
    );
}

/// A name of 66,000 letters, which no row of the dictionary can hold, once refused every write of
/// the partition.
#[test]
fn a_name_that_the_index_cannot_hold_is_stored_and_found_by_a_scan() {
    let case = Case::new(Fault::Busy);
    let name = "k".repeat(66_000);
    let item = format!(r#"{{"id":"b","pk":"p","u":2,"{name}":{{"m":1}},"o":{{"{name}":2}}}}"#);
    case.write(WriteOperation::Create, &item)
        .expect("it is created");
    for condition in [
        format!(r#"c["{name}"].m = 1"#),
        format!(r#"c.o["{name}"] = 2"#),
    ] {
        let query = query(&format!("SELECT VALUE c.id FROM c WHERE {condition}"));
        let found = rows(
            &case.engine,
            &case.container,
            &Scope::Everything,
            &query,
            &[10],
        );
        assert_eq!(found.expect("rows"), [r#""b""#]);
    }
    case.check_that_work_goes_on("a long name");
    assert_eq!(case.state(), case.fresh_state());
}

/// Names are text of 60,000 bytes here, so that few items fill the dictionary.
#[test]
fn a_full_dictionary_refuses_new_names_alone() {
    let case = Case::new(Fault::Busy);
    let name = |n: usize| format!("{n:05}{}", "n".repeat(59_995));
    let with_names = |id: usize| {
        let members: String = (0..30)
            .map(|n| format!(r#","{}":1"#, name(id * 30 + n)))
            .collect();
        format!(r#"{{"id":"{id}","pk":"p","u":{id}{members}}}"#)
    };
    let mut refusal = None;
    for id in 2..40 {
        let before = case.state().len();
        if let Err(error) = case.write(WriteOperation::Create, &with_names(id)) {
            assert_eq!(case.state().len(), before);
            refusal = Some(error);
            break;
        }
    }
    let error = refusal.expect("the dictionary is full");
    assert_eq!(error.status(), 400, "{error}");
    assert!(error.message().contains("indexing policy"), "{error}");

    // Known names, other keys and deletions go on.
    let replace = WriteOperation::Replace("2".to_owned());
    case.write(replace, &with_names(2))
        .expect("the names are known");
    case.write(WriteOperation::Delete("3".to_owned()), "")
        .expect("it is deleted");
    case.check_that_work_goes_on("a full dictionary");
    assert_eq!(case.state(), case.fresh_state());
}

/// A script runs without the lock of the writer; another request brings the same name meanwhile.
#[test]
fn a_name_that_two_writers_bring_at_once_gets_one_number() {
    let case = Arc::new(Case::new(Fault::Busy));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let case = Arc::clone(&case);
            std::thread::spawn(move || {
                for round in 0..5 {
                    let id = format!("{writer}_{round}");
                    let body = format!(
                        r#"{{"id":"{id}","pk":"{id}","u":"{id}"{}}}"#,
                        members(&format!("shared{round}_"), 50)
                    );
                    create(&case.engine, &case.container, &body);
                    if writer == 0 {
                        case.script_of_round(round);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().expect("it writes");
    }
    for round in 0..5 {
        let text = format!("SELECT VALUE COUNT(1) FROM c WHERE c.shared{round}_49 = 1");
        let found = rows(
            &case.engine,
            &case.container,
            &Scope::Everything,
            &query(&text),
            &[10],
        );
        assert_eq!(found.expect("rows"), ["5"], "{round}");
    }
    check_counters(&case.engine, &case.container);
    assert_eq!(case.state(), case.fresh_state());
}

impl Case {
    /// Runs a procedure that brings the names of a round.
    fn script_of_round(&self, round: usize) {
        let source = format!(
            "function put() {{
                const collection = getContext().getCollection();
                const item = {{ id: 'script{round}', pk: 'p', u: 'script{round}' }};
                for (let n = 0; n < 50; n++) item['shared{round}_' + n] = 1;
                collection.createDocument(collection.getSelfLink(), item);
            }}"
        );
        self.script(ScriptKind::Procedure, "put", &source, "");
        self.execute("put", "[]").expect("it runs");
    }
}
