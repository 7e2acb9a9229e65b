//! Several operations in one request: transactional batches and bulk, and random ones against the same operations alone.

mod support;

use bytes::Bytes;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::{Json, Kind, limits};
use orrery_storage::testing::Crashing;
use proptest::prelude::*;
use std::sync::Arc;
use support::*;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;

struct Room {
    bench: Bench,
    container: Arc<Container>,
}

impl Room {
    fn new(partitions: usize) -> Room {
        let bench = Bench::new(Profile::Modern, 5);
        let container = bench.container(BODY, partitions);
        Room { bench, container }
    }

    fn batch(&self, mode: &BatchMode, operations: Vec<BatchOperation>) -> Outcome<BatchAnswer> {
        batch(&self.bench.engine, &self.container, mode, operations, None)
    }

    /// A transactional batch in the logical partition `p`.
    fn atomic(&self, operations: Vec<BatchOperation>) -> Outcome<BatchAnswer> {
        self.batch(&in_p(), operations)
    }

    fn create(&self, body: &str) {
        create(&self.bench.engine, &self.container, body);
    }

    /// Ids of all items.
    fn ids(&self) -> Vec<String> {
        let mut query = query("SELECT VALUE c.id FROM c");
        query.page.max_items = Some(1000);
        let page = self
            .bench
            .engine
            .query(&self.container, &Scope::Everything, &query, None)
            .result
            .expect("a query");
        let mut ids: Vec<String> = page
            .page
            .rows
            .iter()
            .map(|row| text(row).trim_matches('"').to_owned())
            .collect();
        ids.sort();
        ids
    }
}

fn batch(
    engine: &Engine,
    container: &Container,
    mode: &BatchMode,
    operations: Vec<BatchOperation>,
    session: Option<&str>,
) -> Outcome<BatchAnswer> {
    engine.batch(container, mode, operations, session).wait()
}

fn in_p() -> BatchMode {
    BatchMode::Atomic(key(r#"["p"]"#))
}

fn bulk(range: Option<u32>) -> BatchMode {
    BatchMode::Each {
        range,
        key: None,
        continue_on_error: true,
    }
}

fn written(operation: WriteOperation, body: &str) -> BatchOperation {
    let body = (!body.is_empty()).then(|| Body::Text(Bytes::copy_from_slice(body.as_bytes())));
    BatchOperation::new(BatchAction::Write(operation), body)
}

fn creating(id: &str) -> BatchOperation {
    written(
        WriteOperation::Create,
        &format!(r#"{{"id":"{id}","pk":"p"}}"#),
    )
}

fn reading(id: &str) -> BatchOperation {
    BatchOperation::new(BatchAction::Read(id.into()), None)
}

/// The operation in the logical partition of this key.
fn of(pk: &str, operation: BatchOperation) -> BatchOperation {
    BatchOperation {
        partition_key: Some(key(&format!(r#"["{pk}"]"#))),
        ..operation
    }
}

fn answers(outcome: Outcome<BatchAnswer>) -> Vec<Outcome<BatchReply>> {
    outcome.result.expect("the batch is answered").results
}

/// The kind of each failure; `None` is success.
fn kinds(results: &[Outcome<BatchReply>]) -> Vec<Option<Kind>> {
    results
        .iter()
        .map(|outcome| outcome.result.as_ref().err().map(orrery_model::Error::kind))
        .collect()
}

/// The item that an operation answered.
#[track_caller]
fn item(outcome: &Outcome<BatchReply>) -> Json {
    match outcome.result.as_ref().expect("the operation succeeded") {
        BatchReply::Read(ReadReply::Item { body, .. }) => json(&text(body)),
        BatchReply::Written(Written {
            item: Some(body), ..
        }) => json(&text(body)),
        other => panic!("no item: {other:?}"),
    }
}

#[test]
fn a_transactional_batch_takes_place_as_one_commit_whose_reads_see_its_writes() {
    let room = Room::new(2);
    for id in ["old", "gone"] {
        room.create(&format!(r#"{{"id":"{id}","pk":"p","n":1}}"#));
    }
    let before = room
        .bench
        .engine
        .read_item(&room.container, &key(r#"["p"]"#), "old", None, None)
        .wait();
    let outcome = room.atomic(vec![
        creating("new"),
        written(WriteOperation::Upsert, r#"{"id":"new","pk":"p","n":2}"#),
        written(
            WriteOperation::Patch("new".into()),
            r#"[{"op":"incr","path":"/n","value":1}]"#,
        ),
        reading("new"),
        written(
            WriteOperation::Replace("old".into()),
            r#"{"id":"renamed","pk":"p"}"#,
        ),
        written(WriteOperation::Delete("gone".into()), ""),
        creating("gone"),
    ]);
    let position = |outcome: &Outcome<BatchAnswer>| outcome.position.expect("a position").lsn;
    assert_eq!(
        position(&outcome),
        before.position.expect("a position").lsn + 1,
        "it is one commit"
    );
    let charge = outcome.charge;
    let results = answers(outcome);
    assert_eq!(kinds(&results), [None; 7]);
    assert_eq!(results.iter().map(|r| r.charge).sum::<Charge>(), charge);
    assert!(results.iter().all(|r| r.charge >= Charge(100)));
    assert_eq!(item(&results[3]).get("n"), Some(&Json::from(3)));
    assert_eq!(
        item(&results[3]).get("_etag"),
        item(&results[2]).get("_etag")
    );
    let created: Vec<bool> = results
        .iter()
        .filter_map(|r| match &r.result {
            Ok(BatchReply::Written(written)) => Some(written.created),
            _ => None,
        })
        .collect();
    assert_eq!(created, [true, false, false, false, false, true]);
    assert_eq!(room.ids(), ["gone", "new", "renamed"]);
    // Everything has the LSN of the batch in the change feed.
    let scope = Scope::Key(key(r#"["p"]"#));
    let feed = room
        .bench
        .engine
        .change_feed(&room.container, &scope, &FeedStart::Beginning, None, None)
        .wait();
    let lsns: Vec<Json> = feed
        .result
        .expect("a feed")
        .rows
        .iter()
        .map(|row| json(&text(row)).get("_lsn").expect("an LSN").clone())
        .collect();
    assert_eq!(lsns.len(), 3);
    assert!(lsns.iter().all(|lsn| *lsn == lsns[0]));
}

#[test]
fn one_failure_undoes_a_transactional_batch() {
    let room = Room::new(1);
    room.create(r#"{"id":"there","pk":"p","n":1}"#);
    let head = || {
        room.bench
            .engine
            .partition_key_ranges(&room.container)
            .expect("ranges")
            .0[0]
            .lsn
    };
    let stale = |operation: BatchOperation| BatchOperation {
        if_match: Some("\"stale\"".into()),
        ..operation
    };
    let condition = r#"{"condition":"from c where c.n = 2","operations":[{"op":"incr","path":"/n","value":1}]}"#;
    let other = r#"{"id":"x","pk":"q"}"#;
    let failing = [
        (creating("there"), Kind::Conflict),
        (reading("none"), Kind::NotFound),
        (
            written(WriteOperation::Delete("none".into()), ""),
            Kind::NotFound,
        ),
        (
            stale(written(
                WriteOperation::Upsert,
                r#"{"id":"there","pk":"p"}"#,
            )),
            Kind::PreconditionFailed,
        ),
        (
            stale(written(WriteOperation::Delete("there".into()), "")),
            Kind::PreconditionFailed,
        ),
        (
            written(WriteOperation::Patch("there".into()), condition),
            Kind::PatchConditionNotMet,
        ),
        (
            written(
                WriteOperation::Patch("there".into()),
                r#"[{"op":"remove","path":"/x"}]"#,
            ),
            Kind::BadRequest,
        ),
        (
            written(WriteOperation::Create, other),
            Kind::PartitionKeyMismatch,
        ),
        (
            written(WriteOperation::Create, r#"{"id":"x"}"#),
            Kind::PartitionKeyMismatch,
        ),
        (
            written(WriteOperation::Create, r#"{"pk":"p"}"#),
            Kind::BadRequest,
        ),
        (written(WriteOperation::Create, "{"), Kind::BadRequest),
        (written(WriteOperation::Create, ""), Kind::BadRequest),
        (of("q", reading("there")), Kind::PartitionKeyMismatch),
    ];
    for (operation, kind) in failing {
        let told = format!("{operation:?}");
        let before = head();
        let outcome = room.atomic(vec![
            creating("one"),
            written(WriteOperation::Delete("there".into()), ""),
            creating("there"),
            written(
                WriteOperation::Patch("there".into()),
                r#"[{"op":"set","path":"/n","value":1}]"#,
            ),
            operation,
            creating("last"),
        ]);
        let charge = outcome.charge;
        let results = answers(outcome);
        let failed = Some(Kind::FailedDependency);
        assert_eq!(
            kinds(&results),
            [failed, failed, failed, failed, Some(kind), failed],
            "{told}"
        );
        assert_eq!(results.iter().map(|r| r.charge).sum::<Charge>(), charge);
        assert!(
            results[4].charge > Charge(0) && results[5].charge == Charge(0),
            "{told}"
        );
        assert_eq!(
            (room.ids(), head()),
            (vec!["there".to_owned()], before),
            "{told}"
        );
    }
}

#[test]
fn a_batch_as_a_whole_is_refused_for_its_count_its_key_and_its_session() {
    let room = Room::new(1);
    let refused = |outcome: Outcome<BatchAnswer>| {
        assert!(outcome.charge > Charge(0));
        outcome.result.expect_err("refused")
    };
    for mode in [in_p(), bulk(Some(0))] {
        assert_eq!(
            refused(room.batch(&mode, Vec::new())).message(),
            "Batch request has no operations."
        );
        let many = (0..=limits::BATCH_OPERATIONS)
            .map(|n| creating(&n.to_string()))
            .collect();
        let told = refused(room.batch(&mode, many));
        assert_eq!(
            told.message(),
            "Batch request has more operations than what is supported."
        );
    }
    let two_keys = BatchMode::Atomic(key(r#"["p","q"]"#));
    assert_eq!(
        refused(room.batch(&two_keys, vec![creating("x")])).kind(),
        Kind::PartitionKeyMismatch
    );
    assert_eq!(
        refused(room.batch(&bulk(Some(9)), vec![creating("x")])).kind(),
        Kind::PartitionKeyRangeGone
    );
    let (engine, container) = (&room.bench.engine, &room.container);
    let ahead = Some("0:1000000");
    assert!(
        batch(engine, container, &in_p(), vec![creating("a")], ahead)
            .result
            .is_ok(),
        "writes have not to wait"
    );
    let error = refused(batch(
        engine,
        container,
        &in_p(),
        vec![creating("b"), reading("a")],
        ahead,
    ));
    assert_eq!(error.kind(), Kind::SessionNotReached);
    assert_eq!(
        refused(batch(engine, container, &in_p(), vec![reading("a")], ahead)).kind(),
        Kind::SessionNotReached
    );
    assert_eq!(room.ids(), ["a"]);
}

#[test]
fn a_reader_who_has_the_item_is_told_so_and_the_batch_goes_on() {
    let room = Room::new(1);
    room.create(r#"{"id":"i","pk":"p"}"#);
    let etag = item(&answers(room.atomic(vec![reading("i")]))[0])
        .get("_etag")
        .and_then(Json::as_str)
        .map(str::to_owned);
    let known = BatchOperation {
        if_none_match: etag.clone(),
        ..reading("i")
    };
    let results = answers(room.atomic(vec![known, creating("j")]));
    let Ok(BatchReply::Read(ReadReply::NotModified { etag: told })) = &results[0].result else {
        panic!("{results:?}")
    };
    assert_eq!(Some(told), etag.as_ref());
    assert_eq!(room.ids(), ["i", "j"]);
}

#[test]
fn whoever_wants_little_gets_no_items_of_writes() {
    let room = Room::new(1);
    let little = |operation: BatchOperation| BatchOperation {
        minimal: true,
        ..operation
    };
    for (mode, id) in [(in_p(), "a"), (bulk(Some(0)), "b")] {
        let results = answers(room.batch(
            &mode,
            vec![little(of("p", creating(id))), little(of("p", reading(id)))],
        ));
        let Ok(BatchReply::Written(written)) = &results[0].result else {
            panic!("{results:?}")
        };
        assert!(written.item.is_none() && written.etag.is_some() && written.created);
        assert_eq!(item(&results[1]).get("id"), Some(&Json::from(id)));
    }
}

/// An item whose text has about this many bytes.
fn large(id: &str, bytes: usize) -> String {
    format!(
        r#"{{"id":"{id}","pk":"p","n":0,"text":"{}"}}"#,
        "x".repeat(bytes)
    )
}

#[test]
fn answers_that_are_too_large_fail_the_last_operation_and_undo_the_batch() {
    let room = Room::new(1);
    room.create(&large("big", 1 << 20));
    let incr = || {
        written(
            WriteOperation::Patch("big".into()),
            r#"[{"op":"incr","path":"/n","value":1}]"#,
        )
    };
    let results = answers(room.atomic((0..5).map(|_| incr()).collect()));
    let (failed, last) = (
        Some(Kind::FailedDependency),
        Some(Kind::BatchResponseTooLarge),
    );
    assert_eq!(kinds(&results), [failed, failed, failed, failed, last]);
    let little = |_| BatchOperation {
        minimal: true,
        ..incr()
    };
    assert_eq!(
        kinds(&answers(room.atomic((0..5).map(little).collect()))),
        [None; 5]
    );
    let read = read(&room.bench.engine, &room.container, r#"["p"]"#, "big").expect("it is there");
    assert_eq!(json(&read).get("n"), Some(&Json::from(5)));
}

#[test]
fn bulk_carries_out_nothing_whose_answer_does_not_fit() {
    let room = Room::new(1);
    room.create(&large("big", 1 << 20));
    let incr = || {
        of(
            "p",
            written(
                WriteOperation::Patch("big".into()),
                r#"[{"op":"incr","path":"/n","value":1}]"#,
            ),
        )
    };
    let operations = vec![
        incr(),
        of("p", reading("big")),
        incr(),
        incr(),
        of("p", reading("big")),
        creating("small"),
    ];
    let results = answers(room.batch(&bulk(Some(0)), operations));
    let large = Some(Kind::BatchResponseTooLarge);
    assert_eq!(kinds(&results), [None, None, None, large, large, None]);
    let read = read(&room.bench.engine, &room.container, r#"["p"]"#, "big").expect("it is there");
    assert_eq!(json(&read).get("n"), Some(&Json::from(2)));
}

#[test]
fn each_operation_of_bulk_stands_for_itself() {
    let room = Room::new(2);
    let (ranges, _) = room
        .bench
        .engine
        .partition_key_ranges(&room.container)
        .expect("ranges");
    let definition = room.container.partition_key();
    let in_range = |pk: &&String| {
        ranges[0]
            .range
            .contains(&definition.epk(&key(&format!(r#"["{pk}"]"#))))
    };
    let keys: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    let (own, foreign): (Vec<&String>, Vec<&String>) = keys.iter().partition(|pk| in_range(pk));
    let create = |pk: &str| {
        written(
            WriteOperation::Create,
            &format!(r#"{{"id":"i{pk}","pk":"{pk}"}}"#),
        )
    };
    let operations = vec![
        create(own[0]),
        create(own[0]),
        of(own[1], create(own[1])),
        of(own[2], create(own[1])),
        create(foreign[0]),
        of(own[0], reading(&format!("i{}", own[0]))),
        of(
            own[1],
            written(WriteOperation::Delete(format!("i{}", own[1])), ""),
        ),
        reading("i"),
        of(own[0], reading("none")),
    ];
    let outcome = room.batch(&bulk(Some(ranges[0].id)), operations.clone());
    assert_eq!(outcome.position.expect("a position").range_id, ranges[0].id);
    assert_eq!(
        outcome.position.expect("a position").lsn,
        ranges[0].lsn + 3,
        "each write is a commit"
    );
    let charge = outcome.charge;
    let results = answers(outcome);
    assert_eq!(
        kinds(&results),
        [
            None,
            Some(Kind::Conflict),
            None,
            Some(Kind::PartitionKeyMismatch),
            Some(Kind::PartitionKeyRangeGone),
            None,
            None,
            Some(Kind::BadRequest),
            Some(Kind::NotFound),
        ]
    );
    assert_eq!(results.iter().map(|r| r.charge).sum::<Charge>(), charge);
    assert_eq!(room.ids(), [format!("i{}", own[0])]);
    // Without a range every partition takes its part; who stops at an error leaves the rest.
    let stop = BatchMode::Each {
        range: None,
        key: None,
        continue_on_error: false,
    };
    let results = answers(room.batch(
        &stop,
        vec![
            create(own[3]),
            create(foreign[0]),
            create(own[0]),
            create(own[4]),
        ],
    ));
    assert_eq!(
        kinds(&results),
        [
            None,
            None,
            Some(Kind::Conflict),
            Some(Kind::FailedDependency)
        ]
    );
    assert_eq!(room.ids().len(), 3);
}

#[test]
fn bulk_that_names_one_key_stays_in_its_logical_partition() {
    let room = Room::new(1);
    let mode = BatchMode::Each {
        range: None,
        key: Some(key(r#"["p"]"#)),
        continue_on_error: true,
    };
    let elsewhere = written(WriteOperation::Create, r#"{"id":"b","pk":"q"}"#);
    let operations = vec![
        creating("a"),
        elsewhere.clone(),
        of("q", elsewhere),
        of("q", reading("a")),
        reading("a"),
    ];
    let other = Some(Kind::PartitionKeyMismatch);
    assert_eq!(
        kinds(&answers(room.batch(&mode, operations))),
        [None, other, other, other, None]
    );
    assert_eq!(room.ids(), ["a"]);
}

#[test]
fn bulk_orders_everything_before_it_waits_for_anything() {
    let store = Arc::new(Crashing::new(None));
    let bench = Bench::on(Arc::clone(&store) as _, Profile::Modern, 5);
    let container = bench.container(BODY, 1);
    bench.engine.shut_down().expect("all is durable");
    let before = store.steps();
    let operations: Vec<_> = (0..20).map(|n| creating(&n.to_string())).collect();
    let pending = bench
        .engine
        .batch(&container, &bulk(Some(0)), operations, None);
    assert_eq!(store.steps(), before, "nothing was written to the disk yet");
    assert_eq!(kinds(&answers(pending.wait())), [None; 20]);
    assert!(store.steps() >= before + 20);
}

/// One operation of a random batch.
#[derive(Clone, Debug)]
struct Draft {
    kind: usize,
    id: usize,
    n: i64,
    little: bool,
}

impl Draft {
    fn operation(&self) -> BatchOperation {
        let id = format!("i{}", self.id);
        let item = format!(r#"{{"id":"{id}","pk":"p","n":{}}}"#, self.n);
        let patch = format!(r#"[{{"op":"incr","path":"/n","value":{}}}]"#, self.n);
        let operation = match self.kind {
            0 => written(WriteOperation::Create, &item),
            1 => written(WriteOperation::Upsert, &item),
            2 => written(WriteOperation::Replace(id), &item),
            3 => written(WriteOperation::Patch(id), &patch),
            4 => written(WriteOperation::Delete(id), ""),
            _ => reading(&id),
        };
        of(
            "p",
            BatchOperation {
                minimal: self.little,
                ..operation
            },
        )
    }
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let one =
        (0..6usize, 0..4usize, -3..3i64, any::<bool>()).prop_map(|(kind, id, n, little)| Draft {
            kind,
            id,
            n,
            little,
        });
    prop::collection::vec(one, 1..12)
}

/// All items, without what differs between two engines by nature.
fn contents(room: &Room) -> Vec<String> {
    let query = query("SELECT c.id, c.n FROM c");
    let mut rows = rows(
        &room.bench.engine,
        &room.container,
        &Scope::Everything,
        &query,
        &[100],
    )
    .expect("a query");
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig { cases: setting("ORRERY_BATCH_CASES", 64), ..ProptestConfig::default() })]

    /// Bulk does what its operations do alone; a transactional batch does the same, or nothing if one of them fails.
    #[test]
    fn batches_do_what_their_operations_do_alone(history in prop::collection::vec(drafts(), 1..4)) {
        let (alone, together, atomic) = (Room::new(1), Room::new(1), Room::new(1));
        for drafts in history {
            let begun = contents(&alone);
            let operations: Vec<BatchOperation> = drafts.iter().map(Draft::operation).collect();
            let one = |operation: &BatchOperation| answers(alone.batch(&bulk(None), vec![operation.clone()])).remove(0);
            let expected: Vec<Outcome<BatchReply>> = operations.iter().map(one).collect();
            let found = answers(together.batch(&bulk(Some(0)), operations.clone()));
            prop_assert_eq!(kinds(&found), kinds(&expected));
            let charges = |all: &[Outcome<BatchReply>]| all.iter().map(|r| r.charge).collect::<Vec<_>>();
            prop_assert_eq!(charges(&found), charges(&expected));
            prop_assert_eq!(contents(&together), contents(&alone));

            // From the same beginning the same end, or nothing at all.
            let before = contents(&atomic);
            let results = answers(atomic.atomic(operations));
            let reasons: Vec<Kind> =
                kinds(&results).into_iter().flatten().filter(|kind| *kind != Kind::FailedDependency).collect();
            prop_assert!(reasons.len() <= 1, "one operation has the reason");
            if !reasons.is_empty() {
                prop_assert_eq!(contents(&atomic), &before[..]);
            }
            if before == begun {
                prop_assert_eq!(reasons.first().copied(), kinds(&expected).into_iter().flatten().next());
                if reasons.is_empty() {
                    prop_assert_eq!(contents(&atomic), contents(&alone));
                }
            }
        }
    }
}
