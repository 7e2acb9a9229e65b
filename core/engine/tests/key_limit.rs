//! The limit on the size of a logical partition: exact for every kind of write, through counts in
//! the background, restarts, splits, merges and removals.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{BackgroundTask, Container, DatabaseLimits, Engine, EngineOptions, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json};
use orrery_storage::{MemoryStore, Store};
use std::collections::BTreeMap;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"]}}"#;
const LEVELS: &str =
    r#"{"id":"items","partitionKey":{"paths":["/pk","/sub"],"kind":"MultiHash","version":2}}"#;
/// The limit of most tests, in bytes.
const LIMIT: u64 = 10 << 10;
const START_MS: u64 = 1_700_000_000_000;

fn open_with(store: &Arc<dyn Store>, world: &Arc<SeededWorld>, limit: u64) -> Engine {
    let options = EngineOptions {
        logical_partition_bytes: limit,
        ..options(Profile::Modern)
    };
    Engine::open(store.clone(), options, world.clone()).expect("an engine")
}

fn new_engine(limit: u64) -> Engine {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    open_with(&store, &Arc::new(SeededWorld::new(START_MS, 1)), limit)
}

fn item(pk: &str, id: &str, pad: usize) -> String {
    format!(r#"{{"id":"{id}","pk":"{pk}","x":"{}"}}"#, "x".repeat(pad))
}

/// Writes an item. Returns the bytes of its text.
fn put(
    engine: &Engine,
    container: &Container,
    operation: &WriteOperation,
    body: &str,
) -> Result<u64, Error> {
    let written = write(
        engine,
        container,
        operation,
        Some(body),
        &WriteOptions::default(),
    );
    Ok(written.result?.item.expect("the item").len() as u64)
}

fn delete(engine: &Engine, container: &Container, pk: &str, id: &str) -> Result<(), Error> {
    let options = WriteOptions {
        partition_key: Some(key(&format!("[{pk:?}]"))),
        ..WriteOptions::default()
    };
    let operation = WriteOperation::Delete(id.to_owned());
    write(engine, container, &operation, None, &options)
        .result
        .map(|_| ())
}

fn check_full(error: &Error) {
    assert_eq!((error.status(), error.sub_status()), (403, 1014), "{error}");
    let message = "Partition key reached maximum size of 10 KB";
    assert_eq!(error.message(), message);
}

/// Runs all counts that are on the agenda.
fn count_all(engine: &Engine) {
    while engine
        .run_background_work(BackgroundTask::KeySizes)
        .expect("counted")
    {}
}

/// Returns the sizes of the logical partitions that are known, by the partition key.
fn known_sizes(engine: &Engine, container: &Container) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    for partition in engine
        .partition_inventory(container)
        .expect("the inventory")
    {
        for large in partition.largest_keys {
            let key = large.key.map(|key| key.to_text());
            sizes.insert(key.expect("a key"), large.bytes);
        }
    }
    sizes
}

/// Creates a container with five items of the partition key `a` that fill the limit to the byte.
/// The items `1` to `4` have 1,000 bytes of padding.
fn full_key(engine: &Engine) -> Arc<Container> {
    let container = create_container(engine, BODY, 1).expect("the container");
    let create = |id: &str, pad: usize| {
        put(
            engine,
            &container,
            &WriteOperation::Create,
            &item("a", id, pad),
        )
    };
    let empty = create("0", 0).expect("created");
    let mut left = LIMIT - empty;
    for id in ["1", "2", "3", "4"] {
        left -= create(id, 1_000).expect("created");
    }
    let pad = (left - empty) as usize;
    check_full(&create("9", pad + 1).expect_err("one byte too many"));
    create("9", pad).expect("it fits");
    container
}

#[test]
fn a_logical_partition_grows_up_to_the_limit_and_shrinks_from_there() {
    let engine = new_engine(LIMIT);
    let container = full_key(&engine);
    let put = |operation: &WriteOperation, body: &str| put(&engine, &container, operation, body);
    let create = WriteOperation::Create;
    let upsert = WriteOperation::Upsert;
    let replace = WriteOperation::Replace("1".to_owned());
    check_full(&put(&upsert, &item("a", "x", 0)).expect_err("full"));
    check_full(&put(&replace, &item("a", "1", 1_001)).expect_err("one byte too many"));

    // Other logical partitions are free, and this one may change and shrink.
    put(&create, &item("b", "1", 5_000)).expect("created");
    put(&replace, &item("a", "1", 1_000)).expect("as large as before");
    put(&replace, &item("a", "1", 900)).expect("smaller");
    put(&upsert, &item("a", "1", 1_000)).expect("it fits");
    delete(&engine, &container, "a", "2").expect("deleted");
    put(&create, &item("a", "2", 1_000)).expect("it fits");
    check_full(&put(&create, &item("a", "x", 0)).expect_err("full"));
    let (warnings, refusals) = (engine.large_key_warnings(), engine.large_key_refusals());
    assert_eq!((warnings, refusals), (1, 4));
}

#[test]
fn a_database_may_have_a_limit_of_its_own_also_after_a_restart() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let open = |database: &str| {
        let options = EngineOptions {
            database_limits: vec![DatabaseLimits {
                database: database.to_owned(),
                partition_bytes: 2 * LIMIT,
                logical_partition_bytes: LIMIT,
            }],
            ..options(Profile::Modern)
        };
        Engine::open(store.clone(), options, world.clone()).expect("an engine")
    };
    let engine = open("db");
    let container = full_key(&engine);
    assert_eq!(container.logical_partition_bytes_max(), LIMIT);
    assert_eq!(container.partition_bytes_max(), 2 * LIMIT);
    drop((container, engine));

    // The stored container reads its limits when it is opened again.
    let engine = open("db");
    let container = engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the stored container");
    let beyond = item("a", "x", 0);
    check_full(&put(&engine, &container, &WriteOperation::Upsert, &beyond).expect_err("full"));
    drop((container, engine));
    let engine = open("another");
    let container = engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the stored container");
    put(&engine, &container, &WriteOperation::Upsert, &beyond).expect("the account's limit");
}

#[test]
fn a_write_that_a_full_logical_partition_refuses_is_charged_as_a_refused_one() {
    let engine = new_engine(LIMIT);
    let container = full_key(&engine);
    let create = |pk: &str| {
        let body = item(pk, "x", 1_000);
        let options = WriteOptions::default();
        write(
            &engine,
            &container,
            &WriteOperation::Create,
            Some(&body),
            &options,
        )
    };
    let refused = create("a");
    check_full(&refused.result.expect_err("full"));
    assert!(refused.charge < create("b").charge);

    let patch = r#"{"operations":[{"op":"add","path":"/y","value":1}]}"#;
    let operation = WriteOperation::Patch("1".to_owned());
    let options = WriteOptions {
        partition_key: Some(key(r#"["a"]"#)),
        ..WriteOptions::default()
    };
    let patched = write(&engine, &container, &operation, Some(patch), &options);
    check_full(&patched.result.expect_err("full"));
}

#[test]
fn above_a_lowered_limit_items_can_be_deleted_and_shrunk() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let engine = open_with(&store, &world, 4 * LIMIT);
    let container = create_container(&engine, BODY, 1).expect("the container");
    for id in 0..20 {
        let body = item("a", &id.to_string(), 1_000);
        put(&engine, &container, &WriteOperation::Create, &body).expect("created");
    }
    drop(container);
    drop(engine);
    let engine = open_with(&store, &world, LIMIT);
    let container = engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the container");
    let create = || {
        put(
            &engine,
            &container,
            &WriteOperation::Create,
            &item("a", "n", 1),
        )
    };
    check_full(&create().expect_err("far above"));
    let replace = WriteOperation::Replace("0".to_owned());
    put(&engine, &container, &replace, &item("a", "0", 1)).expect("shrunk");
    check_full(&create().expect_err("still above"));
    for id in 1..15 {
        delete(&engine, &container, "a", &id.to_string()).expect("deleted");
    }
    create().expect("below again");
}

#[test]
fn the_limit_holds_for_the_whole_key_of_a_hierarchy() {
    let engine = new_engine(LIMIT);
    let container = create_container(&engine, LEVELS, 1).expect("the container");
    for sub in ["s1", "s2", "s3"] {
        let mut created = 0;
        while let Ok(bytes) = put(
            &engine,
            &container,
            &WriteOperation::Create,
            &format!(
                r#"{{"id":"i{created}","pk":"one","sub":"{sub}","x":"{}"}}"#,
                "x".repeat(500)
            ),
        ) {
            created += bytes;
        }
        assert!(
            created > LIMIT * 9 / 10 && created <= LIMIT,
            "{sub}: {created}"
        );
    }
}

#[test]
fn a_batch_and_a_script_that_pass_the_limit_change_nothing() {
    let engine = new_engine(LIMIT);
    let container = create_container(&engine, BODY, 1).expect("the container");
    put(
        &engine,
        &container,
        &WriteOperation::Create,
        &item("a", "0", 5_000),
    )
    .expect("created");
    let create = |id: &str| {
        let body = Body::Text(item("a", id, 3_000).into());
        BatchOperation::new(BatchAction::Write(WriteOperation::Create), Some(body))
    };
    let key = key(r#"["a"]"#);
    let mode = BatchMode::Atomic(key.clone());
    let operations = vec![create("1"), create("2")];
    let answered = engine.batch(&container, &mode, operations, None).wait();
    let results = answered.result.expect("an answer").results;
    check_full(results[1].result.as_ref().expect_err("too large"));
    let first = results[0].result.as_ref().expect_err("undone");
    assert_eq!(first.status(), 424);

    let source = r#"function () {
        var collection = getContext().getCollection(), self = collection.getSelfLink();
        ['1', '2'].forEach(function (id) {
            var item = { id: id, pk: 'a', x: new Array(3000).join('x') };
            collection.createDocument(self, item, {}, function (error) {
                if (error) throw error;
            });
        });
    }"#;
    let body = format!(r#"{{"id":"fill","body":{}}}"#, Json::from(source));
    let created = engine.create_script(&container, ScriptKind::Procedure, &object(&body), false);
    created.result.expect("a procedure");
    let options = ExecuteOptions::default();
    let run = engine
        .execute(&container, Id::Name("fill"), &key, b"[]", options)
        .wait();
    check_full(&run.result.expect_err("too large"));
    for id in ["1", "2"] {
        let found = read(&engine, &container, r#"["a"]"#, id);
        assert_eq!(found.expect_err("undone").status(), 404);
    }
}

/// A source of numbers for a random history.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// A random history: the engine beside a plain model of the sizes of all items.
struct History {
    store: Arc<dyn Store>,
    world: Arc<SeededWorld>,
    engine: Engine,
    container: Arc<Container>,
    random: Random,
    /// The bytes of each item, by partition key and id.
    sizes: BTreeMap<(String, String), u64>,
    /// The model at the moment of the snapshot, if one was taken.
    at_snapshot: Option<BTreeMap<(String, String), u64>>,
    /// The bytes of an item without padding.
    empty: u64,
}

impl History {
    fn begin(seed: u64) -> History {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let world = Arc::new(SeededWorld::new(START_MS, seed));
        let engine = open_with(&store, &world, LIMIT);
        let container = create_container(&engine, BODY, 1).expect("the container");
        let first = put(
            &engine,
            &container,
            &WriteOperation::Create,
            &item("z", "i0", 0),
        );
        History {
            store,
            world,
            engine,
            container,
            random: Random(seed),
            sizes: BTreeMap::from([(("z".into(), "i0".into()), first.expect("created"))]),
            at_snapshot: None,
            empty: 0,
        }
        .with_empty()
    }

    fn with_empty(mut self) -> History {
        self.empty = self.sizes.values().sum();
        self
    }

    fn size_of_key(&self, pk: &str) -> u64 {
        let of_key = self.sizes.iter().filter(|((of, _), _)| of == pk);
        of_key.map(|(_, bytes)| bytes).sum()
    }

    fn step(&mut self) {
        match self.random.below(40) {
            0 => count_all(&self.engine),
            1 => self.reopen(),
            2 => self.split_or_merge(),
            3 => self.delete_key(),
            4 => self.snapshot_or_restore(),
            5..11 => self.delete_item(),
            _ => self.upsert(),
        }
    }

    fn upsert(&mut self) {
        let pk = ["a", "b", "c", "d"][self.random.below(4) as usize];
        let id = format!("i{}", self.random.below(10));
        let pad = self.random.below(2_500);
        let at = (pk.to_owned(), id.clone());
        let old = self.sizes.get(&at).copied().unwrap_or(0);
        let new = self.empty + pad;
        let total = self.size_of_key(pk) - old + new;
        let body = item(pk, &id, pad as usize);
        let written = put(
            &self.engine,
            &self.container,
            &WriteOperation::Upsert,
            &body,
        );
        if new > old && total > LIMIT {
            check_full(&written.expect_err("beyond the limit"));
        } else {
            assert_eq!(written.expect("within the limit"), new);
            self.sizes.insert(at, new);
        }
    }

    fn delete_item(&mut self) {
        let count = self.sizes.len() as u64;
        let Some(at) = (count > 1).then(|| self.random.below(count) as usize) else {
            return;
        };
        let (pk, id) = self.sizes.keys().nth(at).cloned().expect("an item");
        delete(&self.engine, &self.container, &pk, &id).expect("deleted");
        self.sizes.remove(&(pk, id));
    }

    fn delete_key(&mut self) {
        let pk = ["a", "b", "c", "d"][self.random.below(4) as usize];
        let of_key = key(&format!("[{pk:?}]"));
        let admission = AdmissionOptions::default();
        let deleted = self
            .engine
            .delete_logical_partition(&self.container, &of_key, admission);
        deleted.wait().result.expect("deleted");
        self.engine.finish_deletes_by_key().expect("removed");
        self.sizes.retain(|(of, _), _| of != pk);
    }

    fn reopen(&mut self) {
        self.engine = open_with(&self.store, &self.world, LIMIT);
        let found = self.engine.container(Id::Name("db"), Id::Name("items"));
        self.container = found.expect("the container");
    }

    fn snapshot_or_restore(&mut self) {
        match self.at_snapshot.take() {
            None => {
                let taken = self.engine.take_snapshot("s", &object("{}"));
                taken.expect("a snapshot");
                self.at_snapshot = Some(self.sizes.clone());
            }
            Some(sizes) => {
                self.engine.restore_snapshot("s").expect("restored");
                self.engine.delete_snapshot("s").expect("deleted");
                self.sizes = sizes;
                let found = self.engine.container(Id::Name("db"), Id::Name("items"));
                self.container = found.expect("the container");
            }
        }
    }

    fn split_or_merge(&mut self) {
        let partitions = self
            .engine
            .partition_inventory(&self.container)
            .expect("partitions");
        let ids: Vec<u32> = partitions.iter().map(|partition| partition.id).collect();
        let change = match ids[..] {
            [range] => RangeChange::Split {
                range,
                at: SplitAt::Median,
            },
            _ => RangeChange::Merge { ranges: ids },
        };
        // Items of one logical partition cannot be split.
        if let Ok(begun) = self
            .engine
            .begin_range_change(&self.container, change, false)
        {
            let ended = self.engine.finish_range_change(begun.id).expect("it ends");
            assert_eq!(ended.stage, RangeChangeStage::Done, "{:?}", ended.failure);
        }
    }
}

#[test]
fn random_writes_counts_restarts_splits_and_removals_keep_the_limit_exact() {
    for seed in 1..=u64::from(setting("KEY_LIMIT_SEEDS", 12)) {
        let mut history = History::begin(seed);
        for _ in 0..400 {
            history.step();
        }
        // The sizes that the operator sees are exact too.
        for (key, bytes) in known_sizes(&history.engine, &history.container) {
            let pk = key.trim_matches(['[', ']', '"']);
            assert_eq!(bytes, history.size_of_key(pk), "{seed}: {key}");
        }
    }
}

#[test]
fn writes_beside_counts_are_counted_once() {
    const LARGE_LIMIT: u64 = 400 << 10;
    let engine = new_engine(LARGE_LIMIT);
    let container = create_container(&engine, BODY, 1).expect("the container");
    let written = std::sync::Mutex::new(BTreeMap::new());
    let left = std::sync::atomic::AtomicUsize::new(3);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (engine, container, written, left) = (&engine, &container, &written, &left);
            scope.spawn(move || {
                for n in 0..250 {
                    let pk = ["a", "b", "c", "d", "e"][(n + thread) % 5];
                    let body = item(pk, &format!("i{thread}-{n}"), 400 + n);
                    let bytes = put(engine, container, &WriteOperation::Create, &body);
                    let mut written = written.lock().expect("no panic");
                    *written.entry(format!("[{pk:?}]")).or_insert(0) += bytes.expect("created");
                    drop(written);
                    if n % 5 == 4 {
                        delete(engine, container, pk, &format!("i{thread}-{n}")).expect("deleted");
                        let body = item(pk, &format!("i{thread}-{n}"), 400 + n);
                        put(engine, container, &WriteOperation::Create, &body).expect("again");
                    }
                }
                left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
            });
        }
        while left.load(std::sync::atomic::Ordering::SeqCst) > 0 {
            count_all(&engine);
        }
    });
    count_all(&engine);
    let known = known_sizes(&engine, &container);
    assert_eq!(known, written.into_inner().expect("no panic"));
}

#[test]
fn small_partitions_have_no_sizes() {
    let engine = new_engine(1 << 30);
    let container = create_container(&engine, BODY, 1).expect("the container");
    for id in 0..20 {
        let body = item("a", &id.to_string(), 1_000);
        put(&engine, &container, &WriteOperation::Create, &body).expect("created");
    }
    assert_eq!(engine.background_work_in(BackgroundTask::KeySizes), None);
    assert!(known_sizes(&engine, &container).is_empty());
}
