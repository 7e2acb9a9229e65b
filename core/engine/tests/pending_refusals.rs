//! Refusals that follow from a write which is not durable yet: 409, 404 and 412 are answered when
//! the write is durable, and not at all if it is lost.
//!
//! The store is [`Crashing`], whose commits become durable when their receipts, or those of later
//! commits and barriers, are waited for.

use crate::support::*;
use bytes::Bytes;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Pending, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Kind};
use orrery_storage::testing::{Crashing, Failing, Fault};
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/u"]}]}}"#;

/// An engine with the durable items `old` and `other` of one logical partition.
struct Case<S> {
    store: Arc<S>,
    engine: Engine,
    container: Arc<Container>,
}

impl<S: Store + 'static> Case<S> {
    fn on(store: S) -> Case<S> {
        let store = Arc::new(store);
        let engine = engine_on(store.clone());
        let container = create_container(&engine, BODY, 1).expect("the container");
        create(&engine, &container, r#"{"id":"old","pk":"p","u":1,"n":1}"#);
        create(&engine, &container, r#"{"id":"other","pk":"p","u":2}"#);
        Case {
            store,
            engine,
            container,
        }
    }

    fn send(&self, operation: WriteOperation, body: &str) -> Pending<Written> {
        self.send_if(operation, body, None)
    }

    fn send_if(
        &self,
        operation: WriteOperation,
        body: &str,
        if_match: Option<String>,
    ) -> Pending<Written> {
        let options = WriteOptions {
            partition_key: Some(key(r#"["p"]"#)),
            if_match,
            ..WriteOptions::default()
        };
        let body = (!body.is_empty()).then_some(body.as_bytes());
        self.engine
            .write_item(&self.container, &operation, body, &options)
    }

    fn etag_of_old(&self) -> String {
        let item = read(&self.engine, &self.container, r#"["p"]"#, "old").expect("it is there");
        let etag = json(&item);
        let etag = etag.get("_etag").and_then(|etag| etag.as_str());
        etag.expect("an etag").to_owned()
    }

    fn has(&self, id: &str) -> bool {
        read(&self.engine, &self.container, r#"["p"]"#, id).is_ok()
    }

    /// Sends creates of one logical partition in one request.
    fn batch(&self, mode: &BatchMode, bodies: &[&str]) -> orrery_engine::PendingBatch {
        let operation = |body: &&str| BatchOperation {
            partition_key: Some(key(r#"["p"]"#)),
            ..BatchOperation::new(
                BatchAction::Write(WriteOperation::Create),
                Some(Body::Text(Bytes::from((*body).to_owned()))),
            )
        };
        let operations = bodies.iter().map(operation).collect();
        self.engine.batch(&self.container, mode, operations, None)
    }
}

fn engine_on(store: Arc<dyn Store>) -> Engine {
    let world = Arc::new(SeededWorld::new(START_MS, 3));
    open(store, Profile::Modern, world).expect("it opens")
}

fn crashing() -> Case<Crashing> {
    Case::on(Crashing::new(None))
}

fn replace(id: &str) -> WriteOperation {
    WriteOperation::Replace(id.to_owned())
}

fn delete(id: &str) -> WriteOperation {
    WriteOperation::Delete(id.to_owned())
}

const NEW: &str = r#"{"id":"new","pk":"p","u":7}"#;

/// A write, and another one that is refused because of it.
struct Pair {
    name: &'static str,
    refusal: Kind,
    first: fn(&Case<Crashing>) -> Pending<Written>,
    second: fn(&Case<Crashing>) -> Pending<Written>,
}

const PAIRS: &[Pair] = &[
    Pair {
        name: "a create of an id that was just taken",
        refusal: Kind::Conflict,
        first: |case| case.send(WriteOperation::Create, NEW),
        second: |case| case.send(WriteOperation::Create, NEW),
    },
    Pair {
        name: "a create with a unique value that was just taken",
        refusal: Kind::Conflict,
        first: |case| case.send(WriteOperation::Create, NEW),
        second: |case| case.send(WriteOperation::Create, r#"{"id":"third","pk":"p","u":7}"#),
    },
    Pair {
        name: "a replace of an item that was just deleted",
        refusal: Kind::NotFound,
        first: |case| case.send(delete("old"), ""),
        second: |case| case.send(replace("old"), r#"{"id":"old","pk":"p","u":1,"n":2}"#),
    },
    Pair {
        name: "a delete of an item that was just deleted",
        refusal: Kind::NotFound,
        first: |case| case.send(delete("old"), ""),
        second: |case| case.send(delete("old"), ""),
    },
    Pair {
        name: "a replace of a version that was just replaced",
        refusal: Kind::PreconditionFailed,
        first: |case| case.send(replace("old"), r#"{"id":"old","pk":"p","u":1,"n":2}"#),
        second: |case| {
            let etag = Some(case.etag_of_old());
            case.send_if(replace("old"), r#"{"id":"old","pk":"p","u":1,"n":3}"#, etag)
        },
    },
    Pair {
        name: "a patch whose condition just ceased to hold",
        refusal: Kind::PatchConditionNotMet,
        first: |case| case.send(replace("old"), r#"{"id":"old","pk":"p","u":1,"n":2}"#),
        second: |case| {
            let patch = r#"{"condition":"FROM c WHERE c.n = 1",
                "operations":[{"op":"set","path":"/n","value":3}]}"#;
            case.send(WriteOperation::Patch("old".to_owned()), patch)
        },
    },
];

#[test]
fn a_refusal_is_answered_once_the_write_is_durable_from_which_it_follows() {
    for pair in PAIRS {
        let case = crashing();
        let first = (pair.first)(&case);
        let second = (pair.second)(&case);
        let error = second.wait().result.expect_err(pair.name);
        assert_eq!(error.kind(), pair.refusal, "{}: {error}", pair.name);
        // What the client was told stays so, whatever happens next.
        let again = engine_on(Arc::new(case.store.reopen(None)));
        let container = again.container(Id::Name("db"), Id::Name("items"));
        let case = Case {
            store: case.store,
            engine: again,
            container: container.expect("the container"),
        };
        let is_durable = match pair.refusal {
            Kind::Conflict => case.has("new"),
            Kind::NotFound => !case.has("old"),
            _ => read(&case.engine, &case.container, r#"["p"]"#, "old")
                .is_ok_and(|item| item.contains(r#""n":2"#)),
        };
        assert!(is_durable, "{}", pair.name);
        drop(first);
    }
}

#[test]
fn a_refusal_is_not_answered_if_a_crash_loses_the_write_from_which_it_follows() {
    for pair in PAIRS {
        let case = crashing();
        let first = (pair.first)(&case);
        let second = (pair.second)(&case);
        assert_eq!(
            second.refusal().map(Error::kind),
            Some(pair.refusal),
            "{}",
            pair.name
        );
        case.store.crash();
        let outcome = second.wait();
        let error = outcome.result.expect_err(pair.name);
        assert_eq!(error.status(), 503, "{}: {error}", pair.name);
        assert!(error.message().contains("did not take place"), "{error}");
        assert_eq!(outcome.position, None, "{}", pair.name);
        assert_eq!(first.wait().result.expect_err(pair.name).status(), 408);
    }
}

#[test]
fn a_batch_is_refused_as_a_single_write_is() {
    let modes = [
        BatchMode::Atomic(key(r#"["p"]"#)),
        BatchMode::Each {
            range: None,
            key: None,
            continue_on_error: true,
        },
    ];
    for mode in modes {
        let kinds = |crashes: bool| -> Vec<Option<Kind>> {
            let case = crashing();
            let first = case.send(WriteOperation::Create, NEW);
            let batch = case.batch(&mode, &[r#"{"id":"free","pk":"p","u":8}"#, NEW]);
            if crashes {
                case.store.crash();
            }
            let kinds = match batch.wait().result {
                Err(error) => vec![Some(error.kind())],
                Ok(answer) => {
                    let results = answer.results.iter();
                    results
                        .map(|one| one.result.as_ref().err().map(Error::kind))
                        .collect()
                }
            };
            drop(first);
            kinds
        };
        match mode {
            BatchMode::Atomic(_) => {
                let refused = [Some(Kind::FailedDependency), Some(Kind::Conflict)];
                assert_eq!(kinds(false), refused);
                assert_eq!(kinds(true), [Some(Kind::Unavailable)]);
            }
            BatchMode::Each { .. } => {
                assert_eq!(kinds(false), [None, Some(Kind::Conflict)]);
                let lost = [Some(Kind::UnknownOutcome), Some(Kind::Unavailable)];
                assert_eq!(kinds(true), lost);
            }
        }
    }
}

/// A batch that changes nothing in the end has seen commits of others, too.
#[test]
fn a_batch_without_changes_is_not_answered_if_what_it_saw_is_lost() {
    for crashes in [false, true] {
        let case = crashing();
        let first = case.send(WriteOperation::Upsert, NEW);
        let read = BatchOperation::new(BatchAction::Read("new".to_owned()), None);
        let create = BatchOperation::new(
            BatchAction::Write(WriteOperation::Create),
            Some(Body::Text(Bytes::from_static(
                br#"{"id":"free","pk":"p","u":8}"#,
            ))),
        );
        let delete = BatchOperation::new(BatchAction::Write(delete("free")), None);
        let mode = BatchMode::Atomic(key(r#"["p"]"#));
        let operations = vec![read, create, delete];
        let batch = case.engine.batch(&case.container, &mode, operations, None);
        if crashes {
            case.store.crash();
        }
        let outcome = batch.wait();
        match crashes {
            false => {
                let lsn = outcome.position.expect("a position").lsn;
                let results = outcome.result.expect("it is answered").results;
                assert!(results.iter().all(|one| one.result.is_ok()));
                let first = first.wait().position.expect("a position").lsn;
                assert_eq!(lsn, first);
            }
            true => assert_eq!(outcome.result.expect_err("it is lost").status(), 503),
        }
    }
}

#[test]
fn a_refusal_that_follows_from_durable_items_waits_for_nothing() {
    let case = crashing();
    // A write of another item is on its way.
    let pending = case.send(WriteOperation::Create, NEW);
    let taken = case.send(WriteOperation::Create, r#"{"id":"old","pk":"p","u":9}"#);
    let missing = case.send(delete("nothing"), "");
    let other = Some("\"other\"".to_owned());
    let replaced = case.send_if(replace("old"), r#"{"id":"old","pk":"p"}"#, other);
    case.store.crash();
    for (refused, kind) in [
        (taken, Kind::Conflict),
        (missing, Kind::NotFound),
        (replaced, Kind::PreconditionFailed),
    ] {
        assert_eq!(refused.wait().result.expect_err("refused").kind(), kind);
    }
    drop(pending);
}

#[test]
fn a_refusal_follows_the_outcome_that_the_commit_log_tells() {
    for (fault, kind) in [
        (Fault::Lost, Kind::RetryWith),
        (Fault::Applied, Kind::Conflict),
    ] {
        let case = Case::on(Failing::after(u64::MAX, fault, MemoryStore::new()));
        case.store.fail_next();
        let first = case.send(WriteOperation::Create, NEW);
        case.store.repair();
        // The writer still counts on the first write.
        let second = case.send(WriteOperation::Create, NEW);
        let error = second.wait().result.expect_err("refused");
        assert_eq!(error.kind(), kind, "{fault:?}: {error}");
        // A write that is sent again builds on what is durable.
        let again = case.send(WriteOperation::Create, NEW).wait().result;
        assert_eq!(again.is_ok(), fault == Fault::Lost, "{fault:?}");
        let first = first.wait().result;
        assert_eq!(first.is_ok(), fault == Fault::Applied, "{fault:?}");
    }
}
