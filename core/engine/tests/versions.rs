//! The change feed with all versions and deletes: replaying the feed gives the current items, each
//! change occurs exactly once, and a position older than the retention is refused.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::world::SeededWorld;
use orrery_model::{Json, Kind};
use orrery_storage::testing::Crashing;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "defaultTtl":-1,
    "changeFeedPolicy":{"retentionDuration":10}}"#;
const WITHOUT_VERSIONS: &str = r#"{"id":"items",
    "partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1,
    "changeFeedPolicy":{"retentionDuration":0}}"#;
const MINUTE_MS: u64 = 60_000;

fn range(id: u32) -> Scope {
    Scope::Range { id, within: None }
}

fn page(
    engine: &Engine,
    container: &Container,
    scope: &Scope,
    start: FeedStart,
    page_size: usize,
) -> Outcome<FeedPage> {
    engine
        .all_versions_feed(container, scope, &start, Some(page_size), None)
        .wait()
}

/// Returns the current LSN of each range.
fn current_lsns(engine: &Engine, container: &Container) -> Vec<u64> {
    let (ranges, _) = engine.partition_key_ranges(container).expect("ranges");
    let current_lsn = |info: &RangeInfo| {
        let page = page(engine, container, &range(info.id), FeedStart::Now, 10)
            .result
            .expect("a page");
        assert!(page.rows.is_empty() && !page.cut);
        page.continue_after
    };
    ranges.iter().map(current_lsn).collect()
}

/// Returns all changes of a scope after an LSN, read in pages of `page_size`.
fn changes(
    engine: &Engine,
    container: &Container,
    scope: &Scope,
    after: u64,
    page_size: usize,
) -> Vec<Json> {
    let (mut all, mut after) = (Vec::new(), after);
    loop {
        let page = page(engine, container, scope, FeedStart::Lsn(after), page_size)
            .result
            .expect("a page");
        assert!(page.continue_after >= after, "an etag went back");
        after = page.continue_after;
        if page.rows.is_empty() && !page.cut {
            return all;
        }
        let rows: Vec<Json> = page.rows.iter().map(|row| json(&text(row))).collect();
        let last = metadata(&rows[rows.len() - 1], "lsn");
        assert!(
            all.last()
                .is_none_or(|before| metadata(before, "lsn") < metadata(&rows[0], "lsn")),
            "the changes of one LSN are on two pages"
        );
        assert!(last <= after as i64);
        all.extend(rows);
    }
}

fn metadata(change: &Json, name: &str) -> i64 {
    change
        .get("metadata")
        .and_then(|m| m.get(name))
        .and_then(Json::as_i64)
        .expect(name)
}

fn operation(change: &Json) -> &str {
    change
        .get("metadata")
        .and_then(|m| m.get("operationType"))
        .and_then(Json::as_str)
        .expect("an operation")
}

fn member<'a>(item: &'a Json, name: &str) -> &'a str {
    item.get(name).and_then(Json::as_str).expect(name)
}

/// The items that a reader of the feed knows of a range, by resource id, with the LSN of their last
/// change.
#[derive(Default)]
struct Replica {
    items: BTreeMap<String, (Json, i64)>,
    lsn: i64,
}

impl Replica {
    /// Applies a change and checks its metadata.
    fn apply(&mut self, change: &Json) {
        let (current, previous) = (
            change.get("current").expect("current"),
            change.get("previous"),
        );
        let (lsn, before) = (
            metadata(change, "lsn"),
            metadata(change, "previousImageLSN"),
        );
        assert!(lsn >= self.lsn, "LSNs rise");
        assert!(metadata(change, "crts") > 0);
        self.lsn = lsn;
        match operation(change) {
            "create" => {
                assert!(previous.is_none() && before == 0);
                let known = self
                    .items
                    .insert(member(current, "_rid").to_owned(), (current.clone(), lsn));
                assert!(known.is_none(), "the item existed before: {change}");
            }
            "replace" => {
                assert!(
                    previous.is_none(),
                    "a replace does not contain the previous version, as in the service"
                );
                let known = self
                    .items
                    .insert(member(current, "_rid").to_owned(), (current.clone(), lsn));
                assert_eq!(known.expect("the item existed before").1, before);
            }
            "delete" => {
                assert_eq!(current.to_text(), "{}");
                let change_metadata = change.get("metadata").expect("metadata");
                let key = change_metadata
                    .get("partitionKey")
                    .and_then(|key| key.get("pk"));
                let names = (change_metadata.get("id"), key);
                let is_named = |item: &Json| (item.get("id"), item.get("pk")) == names;
                let found = self.items.iter().find(|(_, (item, _))| is_named(item));
                let rid = found.expect("the item existed before").0.clone();
                let known = self.items.remove(&rid).expect("it was found");
                assert_eq!(known.1, before);
                // The service has no image of an item whose time to live was over.
                let is_expired =
                    change_metadata.get("timeToLiveExpired") == Some(&Json::Bool(true));
                assert_eq!(previous, (!is_expired).then_some(&known.0));
            }
            other => panic!("unknown operation '{other}'"),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Upsert {
        id: usize,
        pk: usize,
        size: usize,
        ttl: Option<i32>,
    },
    Delete {
        id: usize,
        pk: usize,
    },
    /// Deletes all items of a partition key.
    DeleteByKey(usize),
    Wait(u64),
    /// Runs the background tasks, which remove expired items, deleted logical partitions and old
    /// versions.
    Maintain,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![8 => 0..50usize, 1 => 60_000..130_000usize];
    let ttl = prop_oneof![4 => Just(None), 1 => (1..30).prop_map(Some)];
    prop_oneof![
        8 => (0..5usize, 0..3usize, size, ttl)
            .prop_map(|(id, pk, size, ttl)| Step::Upsert { id, pk, size, ttl }),
        3 => (0..5usize, 0..3usize).prop_map(|(id, pk)| Step::Delete { id, pk }),
        1 => (0..3usize).prop_map(Step::DeleteByKey),
        1 => (1..8_000u64).prop_map(Step::Wait),
        1 => Just(Step::Maintain),
    ]
}

/// Runs the background tasks until none has work left.
fn maintain(engine: &Engine) {
    while engine.remove_expired().expect("expired items are removed") > 0 {}
    engine.finish_deletes_by_key().expect("rows are removed");
    engine
        .remove_old_versions()
        .expect("old versions are removed");
}

/// Runs a step. Returns the etag of the item if the step wrote one.
fn run_step(bench: &Bench, container: &Container, step: &Step) -> Option<String> {
    let engine = &bench.engine;
    let options = |pk: usize| WriteOptions {
        partition_key: Some(key(&format!("[\"p{pk}\"]"))),
        ..WriteOptions::default()
    };
    match step {
        Step::Upsert { id, pk, size, ttl } => {
            let ttl = ttl.map_or_else(String::new, |ttl| format!(",\"ttl\":{ttl}"));
            let body = format!(
                r#"{{"id":"i{id}","pk":"p{pk}","filler":"{}"{ttl}}}"#,
                "f".repeat(*size)
            );
            let written = write(
                engine,
                container,
                &WriteOperation::Upsert,
                Some(&body),
                &options(*pk),
            );
            return written.result.expect("it is written").etag;
        }
        Step::Delete { id, pk } => {
            _ = write(
                engine,
                container,
                &WriteOperation::Delete(format!("i{id}")),
                None,
                &options(*pk),
            );
        }
        Step::DeleteByKey(pk) => {
            let key = key(&format!("[\"p{pk}\"]"));
            engine
                .delete_logical_partition(container, &key, AdmissionOptions::default())
                .wait()
                .result
                .expect("all is deleted");
        }
        Step::Wait(ms) => bench.world.advance_ms(*ms),
        Step::Maintain => maintain(engine),
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: setting("ORRERY_VERSION_CASES", 100),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn replaying_the_feed_gives_the_current_items(
        partitions in 1..3usize,
        steps in prop::collection::vec(step(), 1..60),
        page_size in 1..5usize,
    ) {
        let bench = Bench::new(Profile::Modern, 11);
        let container = bench.container(BODY, partitions);
        let starts = current_lsns(&bench.engine, &container);
        let mut written = Vec::new();
        for step in &steps {
            written.extend(run_step(&bench, &container, step));
        }
        maintain(&bench.engine);
        let (mut seen, mut replayed) = (Vec::new(), Vec::new());
        for (id, start) in (0..).zip(starts) {
            let mut replica = Replica::default();
            for change in changes(&bench.engine, &container, &range(id), start, page_size) {
                if operation(&change) != "delete" {
                    seen.push(member(change.get("current").expect("current"), "_etag").to_owned());
                }
                replica.apply(&change);
            }
            replayed.extend(replica.items.into_values().map(|(item, _)| item.to_text()));
        }
        let all = query("SELECT * FROM c");
        let mut expected = rows(&bench.engine, &container, &Scope::Everything, &all, &[100])
            .expect("rows");
        expected.iter_mut().for_each(|row| *row = json(row).to_text());
        expected.sort();
        replayed.sort();
        prop_assert_eq!(replayed, expected);
        written.sort();
        seen.sort();
        prop_assert_eq!(seen, written, "each written version occurs once");
    }
}

#[test]
fn a_scope_sees_its_own_changes_only() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(BODY, 1);
    let start = current_lsns(engine, &container)[0];
    for n in 0..20 {
        create(
            engine,
            &container,
            &format!(r#"{{"id":"i{n}","pk":"p{}"}}"#, n % 3),
        );
    }
    let mut found = 0;
    for pk in ["p0", "p1", "p2"] {
        let scope = Scope::Key(key(&format!("[\"{pk}\"]")));
        let own_changes = changes(engine, &container, &scope, start, 2);
        assert!(
            own_changes
                .iter()
                .all(|change| member(change.get("current").expect("current"), "pk") == pk)
        );
        found += own_changes.len();
        let epk = container
            .partition_key()
            .epk_range(&key(&format!("[\"{pk}\"]")));
        assert_eq!(
            changes(engine, &container, &Scope::Epk(epk), start, 3).len(),
            own_changes.len()
        );
    }
    assert_eq!(found, 20);
}

/// A page reads a bounded number of changes. A page that found none of its scope says that more
/// changes follow.
#[test]
fn a_page_of_a_sparse_feed_ends_after_a_bounded_number_of_changes() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(BODY, 1);
    let start = current_lsns(engine, &container)[0];
    let body = concat!(
        r#"{"id":"many","body":"function many(from) { var c = getContext().getCollection(); "#,
        r#"for (var i = 0; i < 500; i++) "#,
        r#"c.createDocument(c.getSelfLink(), {id: 'i' + (from + i), pk: 'p'}); }"}"#,
    );
    engine
        .create_script(&container, ScriptKind::Procedure, &object(body), false)
        .result
        .expect("a procedure");
    for from in (0..21_000).step_by(500) {
        let run = engine.execute(
            &container,
            Id::Name("many"),
            &key(r#"["p"]"#),
            format!("[{from}]").as_bytes(),
            ExecuteOptions::default(),
        );
        run.wait().result.expect("it ran");
    }
    create(engine, &container, r#"{"id":"few","pk":"q"}"#);
    let scope = Scope::Key(key(r#"["q"]"#));
    let latest = |at| {
        engine
            .change_feed(&container, &scope, &at, Some(10), None)
            .wait()
            .result
            .expect("a page")
    };
    let all = |at| {
        page(engine, &container, &scope, at, 10)
            .result
            .expect("a page")
    };
    for first in [latest(FeedStart::Lsn(start)), all(FeedStart::Lsn(start))] {
        assert!(
            first.rows.is_empty() && first.cut,
            "the page ends before a change of the scope, and says that more changes follow"
        );
    }
    for (first, is_latest) in [
        (latest(FeedStart::Lsn(start)), true),
        (all(FeedStart::Lsn(start)), false),
    ] {
        let next = FeedStart::Lsn(first.continue_after);
        let second = if is_latest { latest(next) } else { all(next) };
        assert_eq!((second.rows.len(), second.cut), (1, false));
    }
}

#[test]
fn the_feed_distinguishes_expired_and_deleted_items() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(BODY, 1);
    create(engine, &container, r#"{"id":"old","pk":"p","ttl":5}"#);
    create(engine, &container, r#"{"id":"gone","pk":"p"}"#);
    let start = current_lsns(engine, &container)[0];
    bench.world.advance_ms(6_000);
    maintain(engine);
    run_step(&bench, &container, &Step::DeleteByKey(9));
    let options = WriteOptions {
        partition_key: Some(key(r#"["p"]"#)),
        ..WriteOptions::default()
    };
    write(
        engine,
        &container,
        &WriteOperation::Delete("gone".into()),
        None,
        &options,
    )
    .result
    .expect("deleted");
    let describe = |change: &Json| {
        let metadata = change.get("metadata").expect("metadata");
        (
            member(metadata, "id").to_owned(),
            metadata.get("timeToLiveExpired").cloned(),
        )
    };
    let changes: Vec<_> = changes(engine, &container, &range(0), start, 10)
        .iter()
        .map(describe)
        .collect();
    assert_eq!(
        changes,
        [
            ("old".into(), Some(Json::Bool(true))),
            ("gone".into(), Some(Json::Bool(false)))
        ]
    );
}

#[test]
fn the_feed_starts_from_now_or_a_continuation_and_requires_kept_versions() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(BODY, 2);
    let refused = |scope: &Scope, start| {
        let error = page(engine, &container, scope, start, 10)
            .result
            .expect_err("refused");
        assert_eq!(error.kind(), Kind::BadRequest);
        error.message().to_owned()
    };
    for start in [
        FeedStart::Beginning,
        FeedStart::After {
            seconds: START_MS / 1000,
        },
    ] {
        assert!(refused(&range(0), start).contains("starts from now or from a continuation"));
    }
    assert!(
        refused(&Scope::Everything, FeedStart::Beginning).contains("starts from now"),
        "several ranges at a time are no exception"
    );
    engine
        .replace_container(&container, &object(WITHOUT_VERSIONS), None)
        .result
        .expect("the policy is changed");
    let message = refused(&range(0), FeedStart::Now);
    assert!(
        message.contains("All Versions and Deletes") && message.contains("must be enabled"),
        "{message}"
    );
}

#[test]
fn positions_older_than_the_retention_are_refused_before_and_after_removal() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(BODY, 1);
    let start = current_lsns(engine, &container)[0];
    create(engine, &container, r#"{"id":"a","pk":"p"}"#);
    let after_first = current_lsns(engine, &container)[0];
    bench.world.advance_ms(6 * MINUTE_MS);
    create(engine, &container, r#"{"id":"b","pk":"p"}"#);
    assert_eq!(changes(engine, &container, &range(0), start, 1).len(), 2);
    bench.world.advance_ms(6 * MINUTE_MS);
    let check_refused = || {
        let error = page(engine, &container, &range(0), FeedStart::Lsn(start), 10)
            .result
            .expect_err("too old");
        assert_eq!(error.kind(), Kind::BadRequest);
        assert!(error.message().contains("retention"), "{error}");
        assert_eq!(
            changes(engine, &container, &range(0), after_first, 1).len(),
            1,
            "the newer version is kept"
        );
    };
    check_refused();
    assert_eq!(engine.remove_old_versions().expect("removed"), 1);
    check_refused();
    // A reader at the end of the feed is not refused after any time without changes.
    let head = current_lsns(engine, &container)[0];
    bench.world.advance_ms(60 * MINUTE_MS);
    assert_eq!(engine.remove_old_versions().expect("removed"), 1);
    assert!(changes(engine, &container, &range(0), head, 1).is_empty());
    assert_eq!(engine.remove_old_versions().expect("removed"), 0);
}

#[test]
fn a_position_before_a_gap_in_the_versions_is_refused() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(WITHOUT_VERSIONS, 1);
    create(engine, &container, r#"{"id":"a","pk":"p"}"#);
    assert_eq!(
        engine.remove_old_versions().expect("removed"),
        0,
        "no version is kept without a policy"
    );
    let set_policy = |body: &str| {
        engine
            .replace_container(&container, &object(body), None)
            .result
            .expect("replaced")
    };
    set_policy(BODY);
    let start = current_lsns(engine, &container)[0];
    let is_refused = |after: u64| {
        let result = page(engine, &container, &range(0), FeedStart::Lsn(after), 10).result;
        result.is_err_and(|error| error.message().contains("retention"))
    };
    assert!(is_refused(start - 2), "the version before was not kept");
    create(engine, &container, r#"{"id":"b","pk":"p"}"#);
    assert_eq!(changes(engine, &container, &range(0), start, 10).len(), 1);
    set_policy(WITHOUT_VERSIONS);
    create(engine, &container, r#"{"id":"c","pk":"p"}"#);
    set_policy(BODY);
    assert!(is_refused(start), "the version of c was not kept");
    let second_start = current_lsns(engine, &container)[0];
    create(engine, &container, r#"{"id":"d","pk":"p"}"#);
    assert!(is_refused(start), "the version of c was not kept");
    assert_eq!(
        changes(engine, &container, &range(0), second_start, 10).len(),
        1
    );
    assert_eq!(
        engine.remove_old_versions().expect("removed"),
        1,
        "versions before the gap are removed"
    );
    assert_eq!(
        changes(engine, &container, &range(0), second_start, 10).len(),
        1
    );
}

#[test]
fn changes_of_one_transaction_are_never_divided_between_pages() {
    let bench = Bench::new(Profile::Modern, 3);
    let engine = &bench.engine;
    let container = bench.container(BODY, 1);
    let body = concat!(
        r#"{"id":"many","body":"function many(n) { var c = getContext().getCollection(); "#,
        r#"for (var i = 0; i < n; i++) "#,
        r#"c.createDocument(c.getSelfLink(), {id: 'i' + i, pk: 'p'}); }"}"#,
    );
    engine
        .create_script(&container, ScriptKind::Procedure, &object(body), false)
        .result
        .expect("a procedure");
    let start = current_lsns(engine, &container)[0];
    let run = engine.execute(
        &container,
        Id::Name("many"),
        &key(r#"["p"]"#),
        b"[7]",
        ExecuteOptions::default(),
    );
    run.wait().result.expect("it ran");
    let first = page(engine, &container, &range(0), FeedStart::Lsn(start), 2)
        .result
        .expect("a page");
    assert_eq!(first.rows.len(), 7);
    assert_eq!(first.continue_after, start + 1);
}

/// Runs the upserts and deletes of `steps`. Writes fail after the store has crashed.
fn write_while_possible(engine: &Engine, container: &Container, steps: &[Step]) {
    for step in steps {
        let (Step::Upsert { pk, .. } | Step::Delete { pk, .. }) = step else {
            continue;
        };
        let partition_key = Some(key(&format!("[\"p{pk}\"]")));
        let options = WriteOptions {
            partition_key,
            ..WriteOptions::default()
        };
        let (operation, body) = match step {
            Step::Upsert { id, pk, size, .. } => {
                let body = format!(
                    r#"{{"id":"i{id}","pk":"p{pk}","filler":"{}"}}"#,
                    "f".repeat(*size)
                );
                (WriteOperation::Upsert, Some(body))
            }
            _ => (WriteOperation::Delete("i1".into()), None),
        };
        _ = write(engine, container, &operation, body.as_deref(), &options);
    }
}

#[test]
fn a_crash_at_any_step_keeps_items_and_versions_consistent() {
    let world = || Arc::new(SeededWorld::new(START_MS, 5));
    let steps: Vec<Step> = (0..12)
        .map(|n| match n % 4 {
            3 => Step::Delete { id: 1, pk: 0 },
            _ => Step::Upsert {
                id: n % 3,
                pk: n % 2,
                size: n * 20_000,
                ttl: None,
            },
        })
        .collect();
    for crash in 0..10 {
        let memory = Arc::new(Crashing::new(None));
        let engine = open(memory.clone(), Profile::Modern, world()).expect("an engine");
        let container = create_container(&engine, BODY, 1).expect("the container");
        let start = current_lsns(&engine, &container)[0];
        drop((container, engine));
        let store = Arc::new(memory.reopen(Some(crash)));
        if let Ok(engine) = open(store.clone(), Profile::Modern, world()) {
            let container = engine
                .container(Id::Name("db"), Id::Name("items"))
                .expect("the container");
            write_while_possible(&engine, &container, &steps);
        }
        let engine =
            open(Arc::new(store.reopen(None)), Profile::Modern, world()).expect("an engine");
        let container = engine
            .container(Id::Name("db"), Id::Name("items"))
            .expect("the container");
        create(&engine, &container, r#"{"id":"fresh","pk":"p0"}"#);
        let mut replica = Replica::default();
        changes(&engine, &container, &range(0), start, 2)
            .iter()
            .for_each(|change| replica.apply(change));
        let mut expected = rows(
            &engine,
            &container,
            &Scope::Everything,
            &query("SELECT * FROM c"),
            &[100],
        )
        .expect("rows");
        expected
            .iter_mut()
            .for_each(|row| *row = json(row).to_text());
        let mut replayed: Vec<String> = replica
            .items
            .into_values()
            .map(|(item, _)| item.to_text())
            .collect();
        expected.sort();
        replayed.sort();
        assert_eq!(replayed, expected, "after a crash at step {crash}");
    }
}
