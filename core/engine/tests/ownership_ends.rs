//! Two engines on one store: a partition goes to another owner and back, and requests meet the end
//! of an ownership at any moment.

use crate::support::*;
use bytes::Bytes;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, Owners, Profile};
use orrery_model::world::{SeededWorld, World};
use orrery_model::{Json, Kind};
use orrery_storage::{MemoryStore, PartitionId, Store, StoreError};
use std::collections::HashSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;

/// The partitions of a process. `left` is the number of questions after which it owns none.
struct Own {
    reads_all: bool,
    set: Mutex<HashSet<u64>>,
    left: AtomicI64,
}

impl Own {
    fn new(reads_all: bool) -> Arc<Own> {
        Arc::new(Own {
            reads_all,
            set: Mutex::default(),
            left: AtomicI64::new(i64::MAX),
        })
    }

    fn change(&self, partition: PartitionId, is_in: bool) {
        let mut set = self.set.lock().expect("no panic");
        match is_in {
            true => _ = set.insert(partition.0),
            false => _ = set.remove(&partition.0),
        }
    }
}

impl Owners for Own {
    fn owns(&self, partition: PartitionId) -> bool {
        let is_in = self.set.lock().expect("no panic").contains(&partition.0);
        // The holder has the set of partitions that it has given away.
        partition.0 == 0
            || (is_in != self.reads_all && self.left.fetch_sub(1, Ordering::SeqCst) > 0)
    }

    fn reads_all(&self) -> bool {
        self.reads_all
    }

    fn recall(&self, partition: PartitionId) -> Result<(), StoreError> {
        match self.owns(partition) {
            true => Ok(()),
            false => Err(StoreError::Unavailable {
                reason: "given",
                retry_after_ms: 1,
                is_full: false,
            }),
        }
    }

    fn recall_all(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Process {
    engine: Engine,
    owners: Arc<Own>,
}

impl Process {
    fn container(&self) -> Arc<Container> {
        let found = self.engine.container(Id::Name("db"), Id::Name("items"));
        found.expect("the container")
    }

    fn create(&self, body: &str) {
        create(&self.engine, &self.container(), body);
    }

    /// Returns the kind of error of a create; `None` if the item was created.
    fn refusal_of_create(&self, container: &Container, body: &str) -> Option<Kind> {
        let operation = WriteOperation::Create;
        let options = WriteOptions::default();
        let done = write(&self.engine, container, &operation, Some(body), &options);
        done.result.err().map(|error| error.kind())
    }
}

/// A holder with a container, and an owner without partitions.
struct Two {
    holder: Process,
    owner: Process,
    world: Arc<SeededWorld>,
}

impl Two {
    fn new() -> Two {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let world = Arc::new(SeededWorld::new(START_MS, 3));
        let of = |owners: &Arc<Own>| EngineOptions {
            owners: owners.clone(),
            ..options(Profile::Modern)
        };
        let (given, own) = (Own::new(true), Own::new(false));
        let holder = Engine::open(store.clone(), of(&given), world.clone()).expect("it opens");
        create_container(&holder, BODY, 2).expect("a container");
        create_scripts(&holder);
        let owner = Engine::open_owner(store, of(&own), world.clone());
        Two {
            holder: Process {
                engine: holder,
                owners: given,
            },
            owner: Process {
                engine: owner,
                owners: own,
            },
            world,
        }
    }

    /// The partition with the logical partition "p", and its range id.
    fn partition_of_p(&self) -> (PartitionId, u32) {
        let container = self.holder.container();
        create(
            &self.holder.engine,
            &container,
            r#"{"id":"first","pk":"p","a":1}"#,
        );
        let ranges = self
            .holder
            .engine
            .partition_inventory(&container)
            .expect("the partitions");
        let at = ranges.iter().position(|one| one.items == 1).expect("one");
        let shares = self.holder.engine.partition_shares();
        (shares[at].partition, ranges[at].id)
    }

    fn give(&self, partition: PartitionId) {
        let mark = || {
            self.holder.owners.change(partition, true);
            true
        };
        let granted = self.holder.engine.give_up(partition, mark);
        let granted = granted.expect("it is given").expect("it may be given");
        let version = self.holder.engine.catalog_version();
        let now = self.world.now_ms();
        self.owner
            .engine
            .load_catalog(version, now)
            .expect("a catalog");
        self.owner
            .engine
            .take_over(&granted)
            .expect("it is taken over");
        self.owner.owners.change(partition, true);
    }

    fn take_back(&self, partition: PartitionId) {
        let mark = || self.owner.owners.change(partition, false);
        let standing = self.owner.engine.give_back(partition, mark);
        let standing = standing.expect("it is given back");
        self.holder.owners.change(partition, false);
        self.holder.engine.resume(partition, standing.as_ref());
    }
}

/// Creates a procedure and a post-trigger that each create the item "new" and read all items. Each
/// call that fails is thrown.
fn create_scripts(engine: &Engine) {
    let found = engine.container(Id::Name("db"), Id::Name("items"));
    let container = found.expect("the container");
    let work = "const all = getContext().getCollection();
        all.createDocument(all.getSelfLink(), {id: 'new', pk: 'p', added: 1});
        const check = error => { if (error) throw error; };
        all.queryDocuments(all.getSelfLink(), 'SELECT * FROM c', {}, check);";
    let source = Json::from(format!("function () {{ {work} }}"));
    let trigger = r#","triggerType":"Post","triggerOperation":"All""#;
    for (kind, more) in [(ScriptKind::Procedure, ""), (ScriptKind::Trigger, trigger)] {
        let body = object(&format!(r#"{{"id":"work","body":{source}{more}}}"#));
        let created = engine.create_script(&container, kind, &body, false);
        created.result.expect("a script");
    }
}

/// Returns the sorted ids that a query over all partitions finds.
fn found(process: &Process, condition: &str) -> Vec<String> {
    let text = format!("SELECT VALUE c.id FROM c WHERE {condition}");
    let rows = rows(
        &process.engine,
        &process.container(),
        &Scope::Everything,
        &query(&text),
        &[100],
    );
    let mut rows = rows.expect("a query");
    rows.sort();
    rows
}

#[test]
fn the_holder_finds_items_by_paths_that_an_owner_has_added() {
    let two = Two::new();
    let (partition, _) = two.partition_of_p();
    two.give(partition);
    two.owner.create(r#"{"id":"second","pk":"p","b":5}"#);
    assert_eq!(found(&two.holder, "c.b = 5"), [r#""second""#]);
}

#[test]
fn paths_of_one_owner_stay_when_the_next_adds_others() {
    let two = Two::new();
    let (partition, _) = two.partition_of_p();
    two.give(partition);
    two.owner.create(r#"{"id":"second","pk":"p","b":5}"#);
    two.take_back(partition);
    two.holder.create(r#"{"id":"third","pk":"p","c":5}"#);
    assert_eq!(found(&two.holder, "c.b = 5"), [r#""second""#]);
    assert_eq!(found(&two.holder, "c.c = 5"), [r#""third""#]);
    // And the other way.
    two.give(partition);
    let container = two.owner.container();
    let wanted = QueryRequest::of(
        "SELECT VALUE c.id FROM c WHERE c.c = 5",
        Vec::new(),
        PageRequest::default(),
    );
    let found = rows(
        &two.owner.engine,
        &container,
        &Scope::Key(key(r#"["p"]"#)),
        &wanted,
        &[100],
    );
    assert_eq!(found.expect("a query"), [r#""third""#]);
}

#[test]
fn paths_that_a_reader_has_loaded_before_the_owner_added_others_are_read_again() {
    let two = Two::new();
    let (partition, _) = two.partition_of_p();
    for n in 0..3 {
        two.give(partition);
        // The holder reads the dictionary before the owner adds a path.
        assert_eq!(found(&two.holder, "c.a = 1"), [r#""first""#]);
        two.owner
            .create(&format!(r#"{{"id":"o{n}","pk":"p","o{n}":5}}"#));
        two.take_back(partition);
        // And the owner before the holder does.
        let _ = two.owner.refusal_of_create(
            &two.owner.container(),
            &format!(r#"{{"id":"none","pk":"p","none{n}":5}}"#),
        );
        two.holder
            .create(&format!(r#"{{"id":"h{n}","pk":"p","h{n}":5}}"#));
        for name in ["o", "h"] {
            let ids = found(&two.holder, &format!("c.{name}{n} = 5"));
            assert_eq!(ids, [format!("\"{name}{n}\"")]);
        }
    }
}

fn write_of(operation: WriteOperation, body: &str) -> BatchOperation {
    let body = (!body.is_empty()).then(|| Body::Text(Bytes::copy_from_slice(body.as_bytes())));
    BatchOperation::new(BatchAction::Write(operation), body)
}

/// Runs a request at an owner that loses the partition at each moment in turn. A request that is
/// refused because of that must have changed nothing, since it is carried out elsewhere then.
#[track_caller]
fn check_refusals(request: impl Fn(&Process, u32) -> Vec<Option<Kind>>) {
    for left in 0..60 {
        let two = Two::new();
        let (partition, range) = two.partition_of_p();
        two.give(partition);
        two.owner.owners.left.store(left, Ordering::SeqCst);
        let kinds = request(&two.owner, range);
        let is_over = two.owner.owners.left.load(Ordering::SeqCst) >= 0;
        two.owner.owners.left.store(i64::MAX, Ordering::SeqCst);
        two.take_back(partition);
        let ids = found(&two.holder, "true");
        match &kinds[..] {
            [Some(Kind::NotOwned)] => {
                assert_eq!(
                    ids,
                    [r#""first""#],
                    "refused after {left} questions, and carried out"
                );
            }
            // A part of several operations may be refused, and was not carried out: clients repeat
            // an operation after 410, and none after 503.
            kinds => {
                assert!(!kinds.contains(&Some(Kind::NotOwned)), "{kinds:?}");
                let done = kinds.iter().filter(|kind| kind.is_none()).count();
                // The marker of several operations is none of them, and the first item was there.
                if kinds.len() > 1 {
                    assert_eq!(ids.len(), done, "after {left} questions: {kinds:?}");
                }
            }
        }
        if is_over {
            return;
        }
    }
    panic!("it never ends");
}

#[test]
fn a_create_is_carried_out_or_refused() {
    check_refusals(|owner, _| {
        let container = owner.container();
        vec![owner.refusal_of_create(&container, r#"{"id":"new","pk":"p"}"#)]
    });
}

#[test]
fn a_batch_is_carried_out_or_refused() {
    check_refusals(|owner, _| {
        let operations = vec![write_of(WriteOperation::Create, r#"{"id":"new","pk":"p"}"#)];
        let mode = BatchMode::Atomic(key(r#"["p"]"#));
        let done = owner
            .engine
            .batch(&owner.container(), &mode, operations, None)
            .wait();
        if let Ok(answer) = &done.result {
            let kinds = answer.results.iter().map(|one| one.result.as_ref().err());
            assert!(
                kinds.clone().all(|error| error.is_none()),
                "{:?}",
                kinds.collect::<Vec<_>>()
            );
        }
        vec![done.result.err().map(|error| error.kind())]
    });
}

#[test]
fn a_bulk_request_is_carried_out_or_refused() {
    check_refusals(|owner, range| {
        let operations = vec![
            write_of(WriteOperation::Create, r#"{"id":"new","pk":"p"}"#),
            write_of(WriteOperation::Upsert, r#"{"id":"newer","pk":"p"}"#),
        ];
        let mode = BatchMode::Each {
            range: Some(range),
            key: None,
            continue_on_error: true,
        };
        let done = owner
            .engine
            .batch(&owner.container(), &mode, operations, None)
            .wait();
        match done.result {
            Err(error) => vec![Some(error.kind())],
            Ok(answer) => answer
                .results
                .iter()
                .map(|one| one.result.as_ref().err().map(orrery_model::Error::kind))
                // The marker keeps a list of one from being taken for the whole request.
                .chain([None])
                .collect(),
        }
    });
}

#[test]
fn a_procedure_is_carried_out_or_refused_as_a_request_without_a_script_is() {
    check_refusals(|owner, _| {
        let (container, key) = (owner.container(), key(r#"["p"]"#));
        let options = ExecuteOptions::default();
        let pending = owner
            .engine
            .execute(&container, Id::Name("work"), &key, b"[]", options);
        let kind = pending.wait().result.err().map(|error| error.kind());
        assert!(matches!(kind, None | Some(Kind::NotOwned)), "{kind:?}");
        vec![kind]
    });
}

#[test]
fn a_write_with_a_trigger_is_carried_out_or_refused_as_one_without_is() {
    check_refusals(|owner, _| {
        let options = WriteOptions {
            post_trigger: Some("work".to_owned()),
            ..WriteOptions::default()
        };
        let (operation, body) = (WriteOperation::Upsert, r#"{"id":"first","pk":"p"}"#);
        let done = write(
            &owner.engine,
            &owner.container(),
            &operation,
            Some(body),
            &options,
        );
        let kind = done.result.err().map(|error| error.kind());
        assert!(matches!(kind, None | Some(Kind::NotOwned)), "{kind:?}");
        vec![kind]
    });
}

/// The container has another partition, which the holder owns.
#[test]
fn a_bulk_request_with_a_key_needs_the_partition_of_the_key_only() {
    let two = Two::new();
    let (partition, _) = two.partition_of_p();
    two.give(partition);
    let mode = BatchMode::Each {
        range: None,
        key: Some(key(r#"["p"]"#)),
        continue_on_error: true,
    };
    let operations = vec![write_of(WriteOperation::Create, r#"{"id":"new","pk":"p"}"#)];
    let container = two.owner.container();
    let done = two.owner.engine.batch(&container, &mode, operations, None);
    let answer = done.wait().result.expect("it is carried out");
    assert!(answer.results[0].result.is_ok());
    let operations = vec![write_of(
        WriteOperation::Create,
        r#"{"id":"other","pk":"p"}"#,
    )];
    let container = two.holder.container();
    let done = two.holder.engine.batch(&container, &mode, operations, None);
    let refusal = done.wait().result.expect_err("it is refused");
    assert_eq!(refusal.partition(), Some(partition.0));
}

#[test]
fn a_deletion_by_key_is_carried_out_or_refused() {
    check_refusals(|owner, _| {
        let done = owner
            .engine
            .delete_logical_partition(
                &owner.container(),
                &key(r#"["p"]"#),
                AdmissionOptions::default(),
            )
            .wait();
        vec![done.result.err().map(|error| error.kind())]
    });
}

/// A bulk request holds the partition up while it is given; a split begins meanwhile.
/// The owner's commits would be missing in the successors.
#[test]
fn a_partition_whose_changes_are_captured_is_not_given_up() {
    let two = Two::new();
    let container = two.holder.container();
    for partition in container.partitions().iter() {
        partition.start_change_capture().expect("it begins");
        let given = partition.give_up(|| panic!("nothing is marked"));
        assert!(!given.expect("nothing is asked of the store"));
        partition.stop_change_capture();
        assert!(partition.give_up(|| true).expect("the store answers"));
    }
}

/// A request that began before the catalog changed ends after the partition has come again.
#[test]
fn a_request_with_the_container_of_an_older_catalog_does_no_harm() {
    let two = Two::new();
    let (partition, _) = two.partition_of_p();
    two.give(partition);
    let before = two.owner.container();
    two.take_back(partition);
    let database = two
        .holder
        .engine
        .database(Id::Name("db"))
        .expect("it is there");
    let other = object(r#"{"id":"other","partitionKey":{"paths":["/k"],"kind":"Hash"}}"#);
    let made = two.holder.engine.create_container(&database, &other, None);
    made.result.expect("a container");
    two.give(partition);
    two.owner.create(r#"{"id":"new","pk":"p"}"#);
    let old = two
        .owner
        .refusal_of_create(&before, r#"{"id":"old","pk":"p"}"#);
    assert_eq!(
        two.owner
            .refusal_of_create(&two.owner.container(), r#"{"id":"newer","pk":"p"}"#),
        None
    );
    assert!(matches!(old, None | Some(Kind::NotOwned)), "{old:?}");
}

#[test]
fn a_partition_stays_if_the_mark_is_refused() {
    let two = Two::new();
    let (partition, _) = two.partition_of_p();
    let granted = two.holder.engine.give_up(partition, || false);
    assert_eq!(granted.expect("nothing is asked of the store"), None);
    two.holder.create(r#"{"id":"second","pk":"p"}"#);
}

/// The holder takes the partition of an owner that it believes to be gone.
#[test]
fn a_fenced_write_is_passed_on_and_the_owner_goes_on_if_it_is_still_one() {
    let two = Two::new();
    let (partition, _) = two.partition_of_p();
    two.give(partition);
    let create_in_owner = |body: &str| {
        let container = two.owner.container();
        two.owner.refusal_of_create(&container, body)
    };
    assert_eq!(create_in_owner(r#"{"id":"before","pk":"p"}"#), None);
    two.holder.engine.fence(partition).expect("it is fenced");
    let fenced = create_in_owner(r#"{"id":"fenced","pk":"p"}"#);
    assert_eq!(fenced, Some(Kind::NotOwned));
    assert_eq!(create_in_owner(r#"{"id":"after","pk":"p"}"#), None);
    let ids = found(&two.holder, "IS_DEFINED(c.id)");
    assert_eq!(ids, [r#""after""#, r#""before""#, r#""first""#]);
}
