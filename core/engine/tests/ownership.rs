//! Two processes on one store: the holder has the catalog, and gives partitions to an owner. Each
//! request is carried out by the process that owns its partition, and the answers are those of one
//! process.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, MeterReport, Owners, Profile, Standing};
use orrery_engine::{GrantedPartition, ThroughputOptions};
use orrery_model::partition_key::Epk;
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Kind};
use orrery_storage::{MemoryStore, PartitionId, Store, StoreError};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, RwLock, Weak};

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
const KEYS: usize = 8;
/// The partition key `p1` as requests name it.
const P1: &str = r#"["p1"]"#;

/// The knowledge of both processes of each other.
#[derive(Default)]
struct Shared {
    /// Partitions that the holder has given, and those that the owner has taken over.
    given: RwLock<BTreeSet<u64>>,
    taken: RwLock<BTreeSet<u64>>,
    holder: OnceLock<Weak<Engine>>,
    owner: OnceLock<Weak<Engine>>,
    recalls: Mutex<usize>,
}

impl Shared {
    fn engines(&self) -> (Arc<Engine>, Arc<Engine>) {
        let engine = |of: &OnceLock<Weak<Engine>>| of.get().and_then(Weak::upgrade).expect("open");
        (engine(&self.holder), engine(&self.owner))
    }

    fn give(&self, partition: u64) -> Option<GrantedPartition> {
        let (holder, owner) = self.engines();
        let mark = || self.given.write().expect("no panic").insert(partition);
        let granted = holder.give_up(PartitionId(partition), mark);
        let granted = granted.expect("the store answers")?;
        let confirmed_ms = holder.confirmed_ms();
        if self.taken.read().expect("no panic").is_empty() {
            owner
                .load_catalog(holder.catalog_version(), confirmed_ms)
                .expect("the catalog is read");
        }
        owner.take_over(&granted).expect("it is taken over");
        self.taken.write().expect("no panic").insert(partition);
        Some(granted)
    }

    fn take_back(&self, partition: u64) {
        let (holder, owner) = self.engines();
        let id = PartitionId(partition);
        let mark = || _ = self.taken.write().expect("no panic").remove(&partition);
        let standing: Option<Standing> = owner.give_back(id, mark).expect("it is given back");
        holder.add_reports(&owner.take_reports(&[id]));
        self.given.write().expect("no panic").remove(&partition);
        holder.resume(id, standing.as_ref());
    }

    fn take_all_back(&self) {
        let given: Vec<u64> = self
            .given
            .read()
            .expect("no panic")
            .iter()
            .copied()
            .collect();
        for partition in given {
            *self.recalls.lock().expect("no panic") += 1;
            self.take_back(partition);
        }
    }
}

struct OfHolder(Arc<Shared>);
struct OfOwner(Arc<Shared>);

impl Owners for OfHolder {
    fn owns(&self, partition: PartitionId) -> bool {
        !self
            .0
            .given
            .read()
            .expect("no panic")
            .contains(&partition.0)
    }

    fn reads_all(&self) -> bool {
        true
    }

    fn recall(&self, partition: PartitionId) -> Result<(), StoreError> {
        if !self.owns(partition) {
            *self.0.recalls.lock().expect("no panic") += 1;
            self.0.take_back(partition.0);
        }
        Ok(())
    }

    fn recall_all(&self) -> Result<(), StoreError> {
        self.0.take_all_back();
        Ok(())
    }
}

impl Owners for OfOwner {
    fn owns(&self, partition: PartitionId) -> bool {
        partition.0 == 0
            || self
                .0
                .taken
                .read()
                .expect("no panic")
                .contains(&partition.0)
    }

    fn reads_all(&self) -> bool {
        false
    }

    fn recall(&self, _partition: PartitionId) -> Result<(), StoreError> {
        panic!("an owner takes nothing back")
    }

    fn recall_all(&self) -> Result<(), StoreError> {
        panic!("an owner does not change the catalog")
    }
}

/// The two processes.
struct Pair {
    holder: Arc<Engine>,
    owner: Arc<Engine>,
    shared: Arc<Shared>,
    world: Arc<SeededWorld>,
}

impl Pair {
    fn new(throughput: ThroughputOptions, seed: u64) -> Pair {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let world = Arc::new(SeededWorld::new(START_MS, seed));
        let shared: Arc<Shared> = Arc::default();
        let options = |owners: Arc<dyn Owners>| EngineOptions {
            owners,
            throughput,
            ..options(Profile::Modern)
        };
        let of_holder = options(Arc::new(OfHolder(shared.clone())));
        let holder = Engine::open(store.clone(), of_holder, world.clone()).expect("it opens");
        let of_owner = options(Arc::new(OfOwner(shared.clone())));
        let owner = Engine::open_owner(store, of_owner, world.clone());
        let pair = Pair {
            holder: Arc::new(holder),
            owner: Arc::new(owner),
            shared,
            world,
        };
        let _ = pair.shared.holder.set(Arc::downgrade(&pair.holder));
        let _ = pair.shared.owner.set(Arc::downgrade(&pair.owner));
        pair
    }

    fn container(&self, partitions: usize) -> Arc<Container> {
        create_container(&self.holder, BODY, partitions).expect("the container is created")
    }

    /// Returns the container as the owner has loaded it.
    fn of_owner(&self) -> Arc<Container> {
        let found = self.owner.container(Id::Name("db"), Id::Name("items"));
        found.expect("the owner has loaded the catalog")
    }

    /// Carries a request out at a process, and at the other one if the first does not own the
    /// partition. Returns the answer, and true if the owner gave it.
    fn at_either<T>(
        &self,
        begin_at_owner: bool,
        request: impl Fn(&Engine, &Container) -> Result<T, Error>,
    ) -> (Result<T, Error>, bool) {
        let mut at_owner = begin_at_owner;
        for _ in 0..2 {
            let engine = if at_owner { &self.owner } else { &self.holder };
            let container = engine.container(Id::Name("db"), Id::Name("items"));
            // An owner that was given nothing yet has no catalog.
            if let Ok(container) = container {
                match request(engine, &container) {
                    Err(error) if error.kind() == Kind::NotOwned => {}
                    answer => return (answer, at_owner),
                }
            }
            at_owner = !at_owner;
        }
        panic!("no process owns the partition");
    }
}

/// Returns the number in the store of the partition of each key, by asking the holder.
fn partitions(pair: &Pair) -> Vec<u64> {
    let shares = pair.holder.partition_shares();
    shares.iter().map(|share| share.partition.0).collect()
}

fn key_text(pk: usize) -> String {
    format!("[\"p{pk}\"]")
}

fn item(pk: usize, id: usize, n: usize) -> String {
    format!(r#"{{"id":"i{id}","pk":"p{pk}","n":{n}}}"#)
}

#[test]
fn a_request_is_refused_by_the_process_that_does_not_own_its_partition() {
    let pair = Pair::new(ThroughputOptions::default(), 1);
    let container = pair.container(1);
    let [partition] = partitions(&pair)[..] else {
        panic!("one partition");
    };
    create(&pair.holder, &container, &item(1, 1, 1));
    let granted = pair.shared.give(partition).expect("it can be given");
    assert_eq!(granted.partition.0, partition);

    // Nothing is done, and nothing is charged.
    let charged = || pair.holder.throughput_of(&container).partitions[0].charged;
    let before = charged();
    let options = WriteOptions::default();
    let (operation, body) = (WriteOperation::Create, item(1, 2, 2));
    let refused = write(&pair.holder, &container, &operation, Some(&body), &options);
    let error = refused
        .result
        .expect_err("another process owns the partition");
    assert_eq!(
        (error.kind(), error.partition()),
        (Kind::NotOwned, Some(partition))
    );
    assert_eq!(charged(), before);
    let error = read(&pair.holder, &container, P1, "i1").expect_err("refused");
    assert_eq!(error.kind(), Kind::NotOwned);

    // The owner sees what was written before, and goes on.
    let of_owner = pair.of_owner();
    assert!(read(&pair.owner, &of_owner, P1, "i1").is_ok());
    create(&pair.owner, &of_owner, &body);
    // The holder may read for queries over several partitions, of which there is one here.
    pair.shared.take_back(partition);
    assert!(read(&pair.holder, &container, P1, "i2").is_ok());
    let error = read(&pair.owner, &of_owner, P1, "i2").expect_err("given back");
    assert_eq!(error.kind(), Kind::NotOwned);
}

#[test]
fn numbers_of_items_ascend_from_owner_to_owner() {
    let pair = Pair::new(ThroughputOptions::default(), 2);
    let container = pair.container(1);
    let partition = partitions(&pair)[0];
    let mut numbers = Vec::new();
    for round in 0..4 {
        for n in 0..3 {
            let body = item(1, round * 10 + n, 0);
            let (written, _) = pair.at_either(false, |engine, container| {
                let options = WriteOptions::default();
                let operation = WriteOperation::Create;
                let written = write(engine, container, &operation, Some(&body), &options);
                written
                    .result
                    .map(|written| written.item.expect("the item"))
            });
            numbers.push(number_of(&json(&text(&written.expect("created")))));
        }
        match round % 2 {
            0 => drop(pair.shared.give(partition)),
            _ => pair.shared.take_back(partition),
        }
    }
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    drop(container);
}

#[test]
fn the_catalog_changes_only_when_the_holder_owns_everything() {
    let pair = Pair::new(ThroughputOptions::default(), 3);
    let container = pair.container(2);
    for partition in partitions(&pair) {
        pair.shared.give(partition).expect("it can be given");
    }
    let version = pair.holder.catalog_version();
    let body = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
        "indexingPolicy":{"indexingMode":"consistent","includedPaths":[{"path":"/*"}],
        "excludedPaths":[{"path":"/n/?"}]}}"#;
    let replaced = pair
        .holder
        .replace_container(&container, &object(body), None);
    assert!(replaced.result.is_ok());
    assert_eq!(*pair.shared.recalls.lock().expect("no panic"), 2);
    assert!(pair.holder.catalog_version() > version);
    // A reindex is under way: its partitions stay, and become free afterwards.
    let share = |pair: &Pair| {
        pair.holder
            .partition_shares()
            .iter()
            .all(|s| s.may_be_given)
    };
    assert!(!share(&pair));
    assert_eq!(pair.shared.give(partitions(&pair)[0]), None);
    while pair.holder.reindex_some(1_000).expect("it goes on") {}
    assert!(share(&pair));
    pair.shared
        .give(partitions(&pair)[0])
        .expect("it can be given");
    // The owner has loaded the new policy.
    let body = |container: &Container| {
        let text = format!("{:?}", container.settings().policy);
        text.split_once("body:").expect("the body").1.to_owned()
    };
    assert_eq!(body(&pair.of_owner()), body(&container));
}

#[test]
fn a_split_takes_the_partition_back_and_its_successors_are_given_again() {
    let pair = Pair::new(ThroughputOptions::default(), 4);
    let container = pair.container(1);
    pair.shared
        .give(partitions(&pair)[0])
        .expect("it can be given");
    let of_owner = pair.of_owner();
    for pk in 0..KEYS {
        create(&pair.owner, &of_owner, &item(pk, 1, pk));
    }
    let split = RangeChange::Split {
        range: 0,
        at: SplitAt::Middle,
    };
    let begun = pair.holder.begin_range_change(&container, split, false);
    let begun = begun.expect("it begins");
    // While it is copied the partition is not given.
    assert_eq!(pair.shared.give(partitions(&pair)[0]), None);
    let ended = pair.holder.finish_range_change(begun.id).expect("it ends");
    assert_eq!(ended.stage, RangeChangeStage::Done);
    for partition in partitions(&pair) {
        pair.shared.give(partition).expect("it can be given");
    }
    for pk in 0..KEYS {
        let (found, at_owner) = pair.at_either(false, |engine, container| {
            read(engine, container, &key_text(pk), "i1")
        });
        assert!(found.is_ok() && at_owner, "{found:?}");
    }
    let all = query("SELECT VALUE c.n FROM c ORDER BY c.n");
    let seen = rows(&pair.holder, &container, &Scope::Everything, &all, &[3]);
    let expected: Vec<String> = (0..KEYS).map(|n| n.to_string()).collect();
    assert_eq!(seen.expect("the holder reads all partitions"), expected);
}

#[test]
fn budget_and_account_are_those_of_both_processes() {
    let enforced = ThroughputOptions {
        enforce: true,
        ..ThroughputOptions::default()
    };
    let pair = Pair::new(enforced, 5);
    let container = pair.container(1);
    let partition = PartitionId(partitions(&pair)[0]);
    let spend = |engine: &Engine, container: &Container, wanted: usize| {
        let served = (0..wanted).take_while(|_| {
            let found = read(engine, container, P1, "none");
            found.expect_err("there is no item").kind() != Kind::Throttled
        });
        served.count()
    };
    let rate = pair.holder.throughput_of(&container).partitions[0]
        .ru_per_second
        .expect("it is limited") as usize;
    // A third of the second's budget is spent by the holder before the partition is given.
    assert_eq!(spend(&pair.holder, &container, rate / 3), rate / 3);
    pair.shared.give(partition.0).expect("it can be given");
    let of_owner = pair.of_owner();
    let at_owner = spend(&pair.owner, &of_owner, rate / 3);
    assert_eq!(at_owner, rate / 3);
    // The holder has spent more meanwhile, for queries over several partitions.
    let more = MeterReport {
        charged: (rate / 6 * 100) as u64,
        requests: 1,
        ..MeterReport::default()
    };
    pair.owner.add_reports(&[(partition, more)]);
    let left = spend(&pair.owner, &of_owner, rate);
    let all = rate / 3 + at_owner + rate / 6 + left;
    assert!(all.abs_diff(rate) <= 2, "{all} of {rate}");
    // What was spent stays spent when the partition comes back.
    pair.shared.take_back(partition.0);
    assert_eq!(spend(&pair.holder, &container, rate), 0);
    let account = pair.holder.throughput_of(&container).partitions.remove(0);
    let counted = rate / 3 + at_owner + left;
    assert_eq!(account.requests as usize, counted, "{account:?}");
    pair.world.advance_ms(1_000);
    assert!(spend(&pair.holder, &container, rate) > 0);
}

#[test]
fn operations_of_one_request_are_all_carried_out_or_none_is() {
    let pair = Pair::new(ThroughputOptions::default(), 6);
    let container = pair.container(2);
    let all = partitions(&pair);
    pair.shared.give(all[1]).expect("it can be given");
    let operations: Vec<BatchOperation> = (0..KEYS)
        .map(|pk| BatchOperation {
            partition_key: Some(key(&key_text(pk))),
            ..BatchOperation::new(
                BatchAction::Write(WriteOperation::Create),
                Some(Body::Text(item(pk, 7, pk).into_bytes().into())),
            )
        })
        .collect();
    let mode = BatchMode::Each {
        range: None,
        key: None,
        continue_on_error: true,
    };
    let none = ReadOptions::default();
    let refused = pair
        .holder
        .batch(&container, &mode, operations.clone(), none)
        .wait();
    let error = refused
        .result
        .expect_err("another process owns one of the partitions");
    assert_eq!(error.kind(), Kind::NotOwned);
    pair.shared.take_back(all[1]);
    let done = pair
        .holder
        .batch(&container, &mode, operations, none)
        .wait();
    let answer = done.result.expect("the holder owns both");
    assert!(answer.results.iter().all(|one| one.result.is_ok()));
}

#[derive(Clone, Debug)]
enum Step {
    Create(usize, usize),
    Upsert(usize, usize),
    Delete(usize, usize),
    Read(usize, usize),
    Give(usize),
    TakeBack(usize),
    Split(usize),
    ReplaceContainer(usize),
    DeleteByKey(usize),
    RemoveSomeDeleted,
    Query,
}

fn step() -> impl Strategy<Value = Step> {
    let pk_and_id = || (0..KEYS, 0..3usize);
    prop_oneof![
        6 => pk_and_id().prop_map(|(pk, id)| Step::Create(pk, id)),
        4 => pk_and_id().prop_map(|(pk, id)| Step::Upsert(pk, id)),
        3 => pk_and_id().prop_map(|(pk, id)| Step::Delete(pk, id)),
        4 => pk_and_id().prop_map(|(pk, id)| Step::Read(pk, id)),
        5 => (0..4usize).prop_map(Step::Give),
        4 => (0..4usize).prop_map(Step::TakeBack),
        1 => (0..4usize).prop_map(Step::Split),
        1 => (0..2usize).prop_map(Step::ReplaceContainer),
        1 => (0..KEYS).prop_map(Step::DeleteByKey),
        1 => Just(Step::RemoveSomeDeleted),
        1 => Just(Step::Query),
    ]
}

/// A history of both processes against a map from key and id to the number that was written last.
struct History {
    pair: Pair,
    container: Arc<Container>,
    model: BTreeMap<(usize, usize), usize>,
}

/// Runs a history, and checks the change feed at its end.
fn run_history(steps: &[(Step, bool)], seed: u64) {
    let pair = Pair::new(ThroughputOptions::default(), seed);
    let container = pair.container(2);
    let mut history = History {
        pair,
        container,
        model: BTreeMap::new(),
    };
    for (n, (step, at_owner)) in steps.iter().enumerate() {
        match step {
            Step::Create(..) | Step::Upsert(..) | Step::Delete(..) | Step::Read(..) => {
                history.use_item(step, n, *at_owner);
            }
            Step::DeleteByKey(pk) => history.delete_by_key(*pk, *at_owner),
            Step::Query => history.query(),
            step => history.change_partitions(step),
        }
    }
    history.check_feed();
}

impl History {
    /// Writes an item, first at one process and then at the other.
    fn change(
        &self,
        pk: usize,
        operation: &WriteOperation,
        body: Option<&str>,
        at_owner: bool,
    ) -> Option<Kind> {
        let options = WriteOptions {
            partition_key: Some(key(&key_text(pk))),
            ..WriteOptions::default()
        };
        let (written, _) = self.pair.at_either(at_owner, |engine, container| {
            write(engine, container, operation, body, &options).result
        });
        written.err().map(|error| error.kind())
    }

    /// Writes or reads an item, whose number is `n`.
    fn use_item(&mut self, step: &Step, n: usize, at_owner: bool) {
        match step {
            Step::Create(pk, id) => {
                let body = item(*pk, *id, n);
                let done = self.change(*pk, &WriteOperation::Create, Some(&body), at_owner);
                let is_taken = self.model.contains_key(&(*pk, *id));
                assert_eq!(done, is_taken.then_some(Kind::Conflict));
                self.model.entry((*pk, *id)).or_insert(n);
            }
            Step::Upsert(pk, id) => {
                let body = item(*pk, *id, n);
                let done = self.change(*pk, &WriteOperation::Upsert, Some(&body), at_owner);
                assert_eq!(done, None);
                self.model.insert((*pk, *id), n);
            }
            Step::Delete(pk, id) => {
                let operation = WriteOperation::Delete(format!("i{id}"));
                let done = self.change(*pk, &operation, None, at_owner);
                let is_missing = self.model.remove(&(*pk, *id)).is_none();
                assert_eq!(done, is_missing.then_some(Kind::NotFound));
            }
            Step::Read(pk, id) => {
                let (found, _) = self.pair.at_either(at_owner, |engine, container| {
                    read(engine, container, &key_text(*pk), &format!("i{id}"))
                });
                let found = found.ok().map(|text| json(&text).get("n").cloned());
                let expected = self.model.get(&(*pk, *id));
                assert_eq!(found, expected.map(|n| Some((*n as u64).into())));
            }
            other => panic!("{other:?} is about no item"),
        }
    }

    fn delete_by_key(&mut self, pk: usize, at_owner: bool) {
        let of_key = key(&key_text(pk));
        let (done, _) = self.pair.at_either(at_owner, |engine, container| {
            let admission = AdmissionOptions::default();
            let deleted = engine.delete_logical_partition(container, &of_key, admission);
            deleted.wait().result
        });
        done.expect("it is deleted");
        self.model.retain(|(of, _), _| *of != pk);
    }

    /// Changes owners, partitions, or the container.
    fn change_partitions(&self, step: &Step) {
        let (pair, container) = (&self.pair, &self.container);
        match step {
            Step::Give(at) => {
                let all = partitions(pair);
                let partition = all[at % all.len()];
                let given = pair.shared.given.read().expect("no panic").clone();
                if !given.contains(&partition) {
                    pair.shared.give(partition);
                }
            }
            Step::TakeBack(at) => {
                let given = pair.shared.given.read().expect("no panic").clone();
                if let Some(partition) = given.iter().nth(at % given.len().max(1)) {
                    pair.shared.take_back(*partition);
                }
            }
            Step::Split(at) => {
                let ranges: Vec<u32> = container.partitions().iter().map(|p| p.id).collect();
                let change = RangeChange::Split {
                    range: ranges[at % ranges.len()],
                    at: SplitAt::Middle,
                };
                if ranges.len() < 6 {
                    let begun = pair.holder.begin_range_change(container, change, false);
                    let begun = begun.expect("it begins");
                    pair.holder.finish_range_change(begun.id).expect("it ends");
                }
            }
            Step::ReplaceContainer(excluded) => {
                let policy = format!(
                    r#""includedPaths":[{{"path":"/*"}}],
                    "excludedPaths":[{{"path":"/x{excluded}/?"}}]"#
                );
                let body = format!(
                    r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
                    "indexingPolicy":{{"indexingMode":"consistent",{policy}}}}}"#
                );
                let replaced = pair
                    .holder
                    .replace_container(container, &object(&body), None);
                assert!(replaced.result.is_ok());
                while pair.holder.reindex_some(1_000).expect("it goes on") {}
            }
            Step::RemoveSomeDeleted => {
                for engine in [&pair.holder, &pair.owner] {
                    engine.remove_some_deleted_by_key().expect("it goes on");
                }
            }
            other => panic!("{other:?} is about items"),
        }
    }

    /// Reads all items in order, at the process that reads all partitions.
    fn query(&self) {
        let all = query("SELECT VALUE c.n FROM c ORDER BY c.n");
        let seen = rows(
            &self.pair.holder,
            &self.container,
            &Scope::Everything,
            &all,
            &[2],
        );
        let mut expected: Vec<usize> = self.model.values().copied().collect();
        expected.sort_unstable();
        let expected: Vec<String> = expected.iter().map(ToString::to_string).collect();
        assert_eq!(seen.expect("the holder reads all partitions"), expected);
    }

    /// Checks that the change feed of each partition shows each item once.
    fn check_feed(&self) {
        self.pair.shared.take_all_back();
        let mut seen = BTreeMap::new();
        let (mut numbers, mut count) = (BTreeSet::new(), 0);
        for partition in self.container.partitions().iter() {
            let scope = Scope::Range {
                id: partition.id,
                within: None,
            };
            let (start, options) = (FeedStart::Beginning, ReadOptions::default());
            let engine = &self.pair.holder;
            let feed = engine.change_feed(&self.container, &scope, &start, None, options);
            for row in feed.wait().result.expect("a page").rows {
                let row = json(&text(&row));
                let member = |name: &str| row.get(name)?.as_str().map(str::to_owned);
                let (pk, id) = (member("pk").expect("a key"), member("id").expect("an id"));
                let of_key = self.container.partition_of(&epk_of(&self.container, &pk));
                assert_eq!(of_key.id, partition.id);
                numbers.insert(number_of(&row));
                count += 1;
                seen.insert((pk, id), row.get("n").and_then(|n| n.as_i64()));
            }
        }
        let name = |((pk, id), n): (&(usize, usize), &usize)| {
            ((format!("p{pk}"), format!("i{id}")), Some(*n as i64))
        };
        let expected: BTreeMap<_, _> = self.model.iter().map(name).collect();
        assert_eq!(seen, expected);
        assert_eq!(numbers.len(), count, "no number is used twice");
        check_counters(&self.pair.holder, &self.container);
    }
}

fn epk_of(container: &Container, pk: &str) -> Epk {
    container.partition_key().epk(&key(&format!("[\"{pk}\"]")))
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: setting("ORRERY_OWNERSHIP_CASES", 60),
        ..ProptestConfig::default()
    })]
    #[test]
    fn random_histories_of_two_processes_are_those_of_one(
        steps in proptest::collection::vec((step(), any::<bool>()), 1..120),
        seed in any::<u64>(),
    ) {
        run_history(&steps, seed);
    }
}
