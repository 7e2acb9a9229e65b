//! Several operations in one request: transactional batches and bulk, with fixed cases and with
//! random batches that are compared with the same operations alone.

use crate::support::*;
use bytes::Bytes;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::{Json, Kind, limits};
use orrery_storage::testing::Crashing;
use proptest::prelude::*;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;

/// An engine with one container.
struct BatchTest {
    bench: Bench,
    container: Arc<Container>,
}

impl BatchTest {
    fn new(partitions: usize) -> BatchTest {
        let bench = Bench::new(Profile::Modern, 5);
        let container = bench.container(BODY, partitions);
        BatchTest { bench, container }
    }

    fn batch(&self, mode: &BatchMode, operations: Vec<BatchOperation>) -> Outcome<BatchAnswer> {
        batch(&self.bench.engine, &self.container, mode, operations, None)
    }

    /// Executes a transactional batch in the logical partition `p`.
    fn atomic(&self, operations: Vec<BatchOperation>) -> Outcome<BatchAnswer> {
        self.batch(&in_p(), operations)
    }

    fn create(&self, body: &str) {
        create(&self.bench.engine, &self.container, body);
    }

    /// Returns the sorted ids of all items.
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

fn write_operation(operation: WriteOperation, body: &str) -> BatchOperation {
    let body = (!body.is_empty()).then(|| Body::Text(Bytes::copy_from_slice(body.as_bytes())));
    BatchOperation::new(BatchAction::Write(operation), body)
}

fn create_operation(id: &str) -> BatchOperation {
    write_operation(
        WriteOperation::Create,
        &format!(r#"{{"id":"{id}","pk":"p"}}"#),
    )
}

fn read_operation(id: &str) -> BatchOperation {
    BatchOperation::new(BatchAction::Read(id.into()), None)
}

/// Sets the partition key of an operation.
fn with_key(pk: &str, operation: BatchOperation) -> BatchOperation {
    BatchOperation {
        partition_key: Some(key(&format!(r#"["{pk}"]"#))),
        ..operation
    }
}

fn answers(outcome: Outcome<BatchAnswer>) -> Vec<Outcome<BatchReply>> {
    outcome.result.expect("the batch is answered").results
}

/// Returns the kind of error of each operation; `None` is success.
fn kinds(results: &[Outcome<BatchReply>]) -> Vec<Option<Kind>> {
    results
        .iter()
        .map(|outcome| outcome.result.as_ref().err().map(orrery_model::Error::kind))
        .collect()
}

/// Returns the item in the result of an operation.
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
fn a_transactional_batch_is_one_commit_whose_reads_see_its_writes() {
    let test = BatchTest::new(2);
    for id in ["old", "gone"] {
        test.create(&format!(r#"{{"id":"{id}","pk":"p","n":1}}"#));
    }
    let before = test
        .bench
        .engine
        .read_item(&test.container, &key(r#"["p"]"#), "old", None, None)
        .wait();
    let outcome = test.atomic(vec![
        create_operation("new"),
        write_operation(WriteOperation::Upsert, r#"{"id":"new","pk":"p","n":2}"#),
        write_operation(
            WriteOperation::Patch("new".into()),
            r#"[{"op":"incr","path":"/n","value":1}]"#,
        ),
        read_operation("new"),
        write_operation(
            WriteOperation::Replace("old".into()),
            r#"{"id":"renamed","pk":"p"}"#,
        ),
        write_operation(WriteOperation::Delete("gone".into()), ""),
        create_operation("gone"),
    ]);
    let position = |outcome: &Outcome<BatchAnswer>| outcome.position.expect("a position").lsn;
    assert_eq!(
        position(&outcome),
        before.position.expect("a position").lsn + 1,
        "the batch is one commit"
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
    assert_eq!(test.ids(), ["gone", "new", "renamed"]);
    // All changes have the LSN of the batch in the change feed.
    let scope = Scope::Key(key(r#"["p"]"#));
    let feed = test
        .bench
        .engine
        .change_feed(&test.container, &scope, &FeedStart::Beginning, None, None)
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

/// Returns operations that fail in a batch in the logical partition `p` with an item `there`, and
/// the kind of each failure.
fn failing_operations() -> Vec<(BatchOperation, Kind)> {
    let stale = |operation: BatchOperation| BatchOperation {
        if_match: Some("\"stale\"".into()),
        ..operation
    };
    let condition = r#"{"condition":"from c where c.n = 2",
        "operations":[{"op":"incr","path":"/n","value":1}]}"#;
    let other = r#"{"id":"x","pk":"q"}"#;
    vec![
        (create_operation("there"), Kind::Conflict),
        (read_operation("none"), Kind::NotFound),
        (
            write_operation(WriteOperation::Delete("none".into()), ""),
            Kind::NotFound,
        ),
        (
            stale(write_operation(
                WriteOperation::Upsert,
                r#"{"id":"there","pk":"p"}"#,
            )),
            Kind::PreconditionFailed,
        ),
        (
            stale(write_operation(WriteOperation::Delete("there".into()), "")),
            Kind::PreconditionFailed,
        ),
        (
            write_operation(WriteOperation::Patch("there".into()), condition),
            Kind::PatchConditionNotMet,
        ),
        (
            write_operation(
                WriteOperation::Patch("there".into()),
                r#"[{"op":"remove","path":"/x"}]"#,
            ),
            Kind::BadRequest,
        ),
        (
            write_operation(WriteOperation::Create, other),
            Kind::PartitionKeyMismatch,
        ),
        (
            write_operation(WriteOperation::Create, r#"{"id":"x"}"#),
            Kind::PartitionKeyMismatch,
        ),
        (
            write_operation(WriteOperation::Create, r#"{"pk":"p"}"#),
            Kind::BadRequest,
        ),
        (
            write_operation(WriteOperation::Create, "{"),
            Kind::BadRequest,
        ),
        (
            write_operation(WriteOperation::Create, ""),
            Kind::BadRequest,
        ),
        (
            with_key("q", read_operation("there")),
            Kind::PartitionKeyMismatch,
        ),
    ]
}

#[test]
fn one_failure_undoes_a_transactional_batch() {
    let test = BatchTest::new(1);
    test.create(r#"{"id":"there","pk":"p","n":1}"#);
    let head = || {
        test.bench
            .engine
            .partition_key_ranges(&test.container)
            .expect("ranges")
            .0[0]
            .lsn
    };
    for (operation, kind) in failing_operations() {
        let description = format!("{operation:?}");
        let before = head();
        let outcome = test.atomic(vec![
            create_operation("one"),
            write_operation(WriteOperation::Delete("there".into()), ""),
            create_operation("there"),
            write_operation(
                WriteOperation::Patch("there".into()),
                r#"[{"op":"set","path":"/n","value":1}]"#,
            ),
            operation,
            create_operation("last"),
        ]);
        let charge = outcome.charge;
        let results = answers(outcome);
        let failed = Some(Kind::FailedDependency);
        assert_eq!(
            kinds(&results),
            [failed, failed, failed, failed, Some(kind), failed],
            "{description}"
        );
        assert_eq!(results.iter().map(|r| r.charge).sum::<Charge>(), charge);
        assert!(
            results[4].charge > Charge(0) && results[5].charge == Charge(0),
            "{description}"
        );
        assert_eq!(
            (test.ids(), head()),
            (vec!["there".to_owned()], before),
            "{description}"
        );
    }
}

#[test]
fn a_batch_with_a_wrong_count_key_or_session_is_refused_as_a_whole() {
    let test = BatchTest::new(1);
    let refused = |outcome: Outcome<BatchAnswer>| {
        assert!(outcome.charge > Charge(0));
        outcome.result.expect_err("refused")
    };
    for mode in [in_p(), bulk(Some(0))] {
        assert_eq!(
            refused(test.batch(&mode, Vec::new())).message(),
            "Batch request has no operations."
        );
        let many = (0..=limits::BATCH_OPERATIONS)
            .map(|n| create_operation(&n.to_string()))
            .collect();
        let error = refused(test.batch(&mode, many));
        assert_eq!(
            error.message(),
            "Batch request has more operations than what is supported."
        );
    }
    let two_keys = BatchMode::Atomic(key(r#"["p","q"]"#));
    assert_eq!(
        refused(test.batch(&two_keys, vec![create_operation("x")])).kind(),
        Kind::PartitionKeyMismatch
    );
    assert_eq!(
        refused(test.batch(&bulk(Some(9)), vec![create_operation("x")])).kind(),
        Kind::PartitionKeyRangeGone
    );
    let (engine, container) = (&test.bench.engine, &test.container);
    let ahead = Some("0:1000000");
    assert!(
        batch(
            engine,
            container,
            &in_p(),
            vec![create_operation("a")],
            ahead
        )
        .result
        .is_ok(),
        "writes do not wait for the session"
    );
    let error = refused(batch(
        engine,
        container,
        &in_p(),
        vec![create_operation("b"), read_operation("a")],
        ahead,
    ));
    assert_eq!(error.kind(), Kind::SessionNotReached);
    assert_eq!(
        refused(batch(
            engine,
            container,
            &in_p(),
            vec![read_operation("a")],
            ahead
        ))
        .kind(),
        Kind::SessionNotReached
    );
    assert_eq!(test.ids(), ["a"]);
}

#[test]
fn a_read_whose_if_none_match_matches_is_not_modified_and_the_batch_continues() {
    let test = BatchTest::new(1);
    test.create(r#"{"id":"i","pk":"p"}"#);
    let etag = item(&answers(test.atomic(vec![read_operation("i")]))[0])
        .get("_etag")
        .and_then(Json::as_str)
        .map(str::to_owned);
    let known = BatchOperation {
        if_none_match: etag.clone(),
        ..read_operation("i")
    };
    let results = answers(test.atomic(vec![known, create_operation("j")]));
    let Ok(BatchReply::Read(ReadReply::NotModified { etag: found_etag })) = &results[0].result
    else {
        panic!("{results:?}")
    };
    assert_eq!(Some(found_etag), etag.as_ref());
    assert_eq!(test.ids(), ["i", "j"]);
}

#[test]
fn minimal_operations_return_no_items_of_writes() {
    let test = BatchTest::new(1);
    let minimal = |operation: BatchOperation| BatchOperation {
        minimal: true,
        ..operation
    };
    for (mode, id) in [(in_p(), "a"), (bulk(Some(0)), "b")] {
        let results = answers(test.batch(
            &mode,
            vec![
                minimal(with_key("p", create_operation(id))),
                minimal(with_key("p", read_operation(id))),
            ],
        ));
        let Ok(BatchReply::Written(written)) = &results[0].result else {
            panic!("{results:?}")
        };
        assert!(written.item.is_none() && written.etag.is_some() && written.created);
        assert_eq!(item(&results[1]).get("id"), Some(&Json::from(id)));
    }
}

/// Returns an item whose text has about `bytes` bytes.
fn large(id: &str, bytes: usize) -> String {
    format!(
        r#"{{"id":"{id}","pk":"p","n":0,"text":"{}"}}"#,
        "x".repeat(bytes)
    )
}

#[test]
fn a_response_over_the_limit_fails_the_last_operation_and_undoes_the_batch() {
    let test = BatchTest::new(1);
    test.create(&large("big", 1 << 20));
    let incr = || {
        write_operation(
            WriteOperation::Patch("big".into()),
            r#"[{"op":"incr","path":"/n","value":1}]"#,
        )
    };
    let results = answers(test.atomic((0..5).map(|_| incr()).collect()));
    let (failed, last) = (
        Some(Kind::FailedDependency),
        Some(Kind::BatchResponseTooLarge),
    );
    assert_eq!(kinds(&results), [failed, failed, failed, failed, last]);
    let minimal_incr = |_| BatchOperation {
        minimal: true,
        ..incr()
    };
    assert_eq!(
        kinds(&answers(test.atomic((0..5).map(minimal_incr).collect()))),
        [None; 5]
    );
    let read =
        read(&test.bench.engine, &test.container, r#"["p"]"#, "big").expect("the item exists");
    assert_eq!(json(&read).get("n"), Some(&Json::from(5)));
}

#[test]
fn bulk_does_not_execute_operations_whose_results_do_not_fit() {
    let test = BatchTest::new(1);
    test.create(&large("big", 1 << 20));
    let incr = || {
        with_key(
            "p",
            write_operation(
                WriteOperation::Patch("big".into()),
                r#"[{"op":"incr","path":"/n","value":1}]"#,
            ),
        )
    };
    let operations = vec![
        incr(),
        with_key("p", read_operation("big")),
        incr(),
        incr(),
        with_key("p", read_operation("big")),
        create_operation("small"),
    ];
    let results = answers(test.batch(&bulk(Some(0)), operations));
    let large = Some(Kind::BatchResponseTooLarge);
    assert_eq!(kinds(&results), [None, None, None, large, large, None]);
    let read =
        read(&test.bench.engine, &test.container, r#"["p"]"#, "big").expect("the item exists");
    assert_eq!(json(&read).get("n"), Some(&Json::from(2)));
}

/// Returns the first partition key range, and partition key values inside and outside of the range.
fn keys_of_first_range(test: &BatchTest) -> (RangeInfo, Vec<String>, Vec<String>) {
    let (mut ranges, _) = test
        .bench
        .engine
        .partition_key_ranges(&test.container)
        .expect("ranges");
    let range = ranges.remove(0);
    let definition = test.container.partition_key();
    let keys = (0..20).map(|n| n.to_string());
    let (own, foreign) = keys.partition(|pk| {
        let epk = definition.epk(&key(&format!(r#"["{pk}"]"#)));
        range.range.contains(&epk)
    });
    (range, own, foreign)
}

/// Returns the create of an item in the logical partition `pk`.
fn create_in(pk: &str) -> BatchOperation {
    let item = format!(r#"{{"id":"i{pk}","pk":"{pk}"}}"#);
    write_operation(WriteOperation::Create, &item)
}

#[test]
fn bulk_operations_succeed_and_fail_independently() {
    let test = BatchTest::new(2);
    let (range, own, foreign) = keys_of_first_range(&test);
    let operations = vec![
        create_in(&own[0]),
        create_in(&own[0]),
        with_key(&own[1], create_in(&own[1])),
        with_key(&own[2], create_in(&own[1])),
        create_in(&foreign[0]),
        with_key(&own[0], read_operation(&format!("i{}", own[0]))),
        with_key(
            &own[1],
            write_operation(WriteOperation::Delete(format!("i{}", own[1])), ""),
        ),
        read_operation("i"),
        with_key(&own[0], read_operation("none")),
    ];
    let outcome = test.batch(&bulk(Some(range.id)), operations);
    assert_eq!(outcome.position.expect("a position").range_id, range.id);
    assert_eq!(
        outcome.position.expect("a position").lsn,
        range.lsn + 3,
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
    assert_eq!(test.ids(), [format!("i{}", own[0])]);
}

#[test]
fn bulk_without_a_range_reaches_all_partitions_and_may_stop_at_an_error() {
    let test = BatchTest::new(2);
    let (_, own, foreign) = keys_of_first_range(&test);
    test.create(&format!(r#"{{"id":"i{0}","pk":"{0}"}}"#, own[0]));
    let stop = BatchMode::Each {
        range: None,
        key: None,
        continue_on_error: false,
    };
    let results = answers(test.batch(
        &stop,
        vec![
            create_in(&own[3]),
            create_in(&foreign[0]),
            create_in(&own[0]),
            create_in(&own[4]),
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
    assert_eq!(test.ids().len(), 3);
}

#[test]
fn bulk_that_names_one_key_stays_in_its_logical_partition() {
    let test = BatchTest::new(1);
    let mode = BatchMode::Each {
        range: None,
        key: Some(key(r#"["p"]"#)),
        continue_on_error: true,
    };
    let other_key = write_operation(WriteOperation::Create, r#"{"id":"b","pk":"q"}"#);
    let operations = vec![
        create_operation("a"),
        other_key.clone(),
        with_key("q", other_key),
        with_key("q", read_operation("a")),
        read_operation("a"),
    ];
    let other = Some(Kind::PartitionKeyMismatch);
    assert_eq!(
        kinds(&answers(test.batch(&mode, operations))),
        [None, other, other, other, None]
    );
    assert_eq!(test.ids(), ["a"]);
}

#[test]
fn bulk_submits_all_writes_before_it_waits_for_any() {
    let store = Arc::new(Crashing::new(None));
    let bench = Bench::on(Arc::clone(&store) as _, Profile::Modern, 5);
    let container = bench.container(BODY, 1);
    bench.engine.shut_down().expect("all is durable");
    let before = store.steps();
    let operations: Vec<_> = (0..20).map(|n| create_operation(&n.to_string())).collect();
    let pending = bench
        .engine
        .batch(&container, &bulk(Some(0)), operations, None);
    assert_eq!(
        store.steps(),
        before,
        "nothing is written to the disk before the wait"
    );
    assert_eq!(kinds(&answers(pending.wait())), [None; 20]);
    assert!(store.steps() >= before + 20);
}

/// One operation of a random batch.
#[derive(Clone, Debug)]
struct Draft {
    kind: usize,
    id: usize,
    n: i64,
    is_minimal: bool,
}

impl Draft {
    fn operation(&self) -> BatchOperation {
        let id = format!("i{}", self.id);
        let item = format!(r#"{{"id":"{id}","pk":"p","n":{}}}"#, self.n);
        let patch = format!(r#"[{{"op":"incr","path":"/n","value":{}}}]"#, self.n);
        let operation = match self.kind {
            0 => write_operation(WriteOperation::Create, &item),
            1 => write_operation(WriteOperation::Upsert, &item),
            2 => write_operation(WriteOperation::Replace(id), &item),
            3 => write_operation(WriteOperation::Patch(id), &patch),
            4 => write_operation(WriteOperation::Delete(id), ""),
            _ => read_operation(&id),
        };
        with_key(
            "p",
            BatchOperation {
                minimal: self.is_minimal,
                ..operation
            },
        )
    }
}

fn drafts() -> impl Strategy<Value = Vec<Draft>> {
    let one =
        (0..6usize, 0..4usize, -3..3i64, any::<bool>()).prop_map(|(kind, id, n, is_minimal)| {
            Draft {
                kind,
                id,
                n,
                is_minimal,
            }
        });
    prop::collection::vec(one, 1..12)
}

/// Returns `id` and `n` of all items; other properties differ between two engines.
fn contents(test: &BatchTest) -> Vec<String> {
    let query = query("SELECT c.id, c.n FROM c");
    let mut rows = rows(
        &test.bench.engine,
        &test.container,
        &Scope::Everything,
        &query,
        &[100],
    )
    .expect("a query");
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: setting("ORRERY_BATCH_CASES", 64),
        ..ProptestConfig::default()
    })]

    /// Bulk has the effect of its operations alone. A transactional batch has the same effect, or
    /// none if one operation fails.
    #[test]
    fn batches_have_the_same_effect_as_their_operations_alone(
        history in prop::collection::vec(drafts(), 1..4),
    ) {
        let (alone, together, atomic) = (BatchTest::new(1), BatchTest::new(1), BatchTest::new(1));
        for drafts in history {
            let before_alone = contents(&alone);
            let operations: Vec<BatchOperation> = drafts.iter().map(Draft::operation).collect();
            let run_alone = |operation: &BatchOperation| {
                answers(alone.batch(&bulk(None), vec![operation.clone()])).remove(0)
            };
            let expected: Vec<Outcome<BatchReply>> = operations.iter().map(run_alone).collect();
            let found = answers(together.batch(&bulk(Some(0)), operations.clone()));
            prop_assert_eq!(kinds(&found), kinds(&expected));
            let charges = |all: &[Outcome<BatchReply>]| -> Vec<Charge> {
                all.iter().map(|outcome| outcome.charge).collect()
            };
            prop_assert_eq!(charges(&found), charges(&expected));
            prop_assert_eq!(contents(&together), contents(&alone));

            // From the same items the batch gives the same items as its operations alone, or fails.
            let before = contents(&atomic);
            let results = answers(atomic.atomic(operations));
            let reasons: Vec<Kind> = kinds(&results)
                .into_iter()
                .flatten()
                .filter(|kind| *kind != Kind::FailedDependency)
                .collect();
            prop_assert!(reasons.len() <= 1, "one operation at most has a kind of its own");
            if !reasons.is_empty() {
                prop_assert_eq!(contents(&atomic), &before[..]);
            }
            if before == before_alone {
                let first_failure = kinds(&expected).into_iter().flatten().next();
                prop_assert_eq!(reasons.first().copied(), first_failure);
                if reasons.is_empty() {
                    prop_assert_eq!(contents(&atomic), contents(&alone));
                }
            }
        }
    }
}
