//! Partial updates of stored items: conditions, protected properties, validation and charges.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Profile};
use orrery_model::{Json, Kind, Result};
use std::sync::Arc;

const BODY: &str = r#"{"id":"items",
    "partitionKey":{"paths":["/place/pk"],"kind":"Hash","version":2},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]}}"#;

/// An engine with one container and one item.
struct PatchTest {
    bench: Bench,
    container: Arc<Container>,
}

impl PatchTest {
    /// Creates a container with one item `i` in the logical partition `p`.
    fn new() -> PatchTest {
        let bench = Bench::new(Profile::Modern, 3);
        let container = bench.container(BODY, 2);
        let test = PatchTest { bench, container };
        test.create(
            r#"{"id":"i","place":{"pk":"p"},"n":3,"big":12345678901234567890.50,
                "tags":["a","b"],"mail":"m"}"#,
        );
        test
    }

    fn create(&self, body: &str) -> String {
        create(&self.bench.engine, &self.container, body)
    }

    fn read(&self) -> String {
        read(&self.bench.engine, &self.container, r#"["p"]"#, "i").expect("the item is there")
    }

    fn patch_if(&self, body: &str, if_match: Option<&str>) -> Outcome<Written> {
        let options = WriteOptions {
            partition_key: Some(key(r#"["p"]"#)),
            if_match: if_match.map(str::to_owned),
            ..WriteOptions::default()
        };
        write(
            &self.bench.engine,
            &self.container,
            &WriteOperation::Patch("i".into()),
            Some(body),
            &options,
        )
    }

    fn patch(&self, body: &str) -> Result<String> {
        self.patch_if(body, None)
            .result
            .map(|written| text(&written.item.expect("a patch answers with the item")))
    }

    /// Checks that a patch fails with `kind` and leaves the item unchanged. Returns the message.
    #[track_caller]
    fn refused(&self, body: &str, kind: Kind) -> String {
        let before = self.read();
        let error = self.patch(body).expect_err(body);
        assert_eq!(error.kind(), kind, "{body}: {error}");
        assert_eq!(self.read(), before, "{body}");
        error.message().to_owned()
    }
}

#[test]
fn a_patch_changes_the_named_properties_and_keeps_all_others_exactly() {
    let test = PatchTest::new();
    let operations = r#"[
        {"op":"incr","path":"/n","value":7},
        {"op":"add","path":"/tags/0","value":"z"},
        {"op":"set","path":"/place/city","value":"Rom"},
        {"op":"move","from":"/mail","path":"/post"}
    ]"#;
    let before = object(&test.read());
    let patched = test.patch(operations).expect("the item is patched");
    assert!(patched.starts_with(concat!(
        r#"{"id":"i","place":{"pk":"p","city":"Rom"},"n":10,"big":12345678901234567890.50,"#,
        r#""tags":["z","a","b"],"post":"m","#
    )));
    assert_eq!(test.read(), patched);
    let after = object(&patched);
    assert_eq!(
        after.get("_rid"),
        before.get("_rid"),
        "the item keeps its resource id"
    );
    assert_ne!(after.get("_etag"), before.get("_etag"));
    // The index contains the new values only.
    let found = |filter: &str| {
        let query = query(&format!("SELECT VALUE c.id FROM c WHERE {filter}"));
        rows(
            &test.bench.engine,
            &test.container,
            &Scope::Everything,
            &query,
            &[10],
        )
        .expect("a query")
    };
    assert_eq!(
        found("c.n = 10 AND c.post = 'm' AND c.place.city = 'Rom'"),
        [r#""i""#]
    );
    assert!(found("c.n = 3 OR c.mail = 'm'").is_empty());
}

#[test]
fn a_patch_is_applied_only_if_its_condition_holds() {
    let test = PatchTest::new();
    let conditional_patch = |condition: &str| {
        let condition = Json::from(condition).to_text();
        format!(
            r#"{{"condition":{condition},"operations":[{{"op":"incr","path":"/n","value":1}}]}}"#
        )
    };
    test.refused(
        &conditional_patch("from root where root.number = 4"),
        Kind::PatchConditionNotMet,
    );
    test.refused(
        &conditional_patch("FROM c WHERE c.n > 3"),
        Kind::PatchConditionNotMet,
    );
    test.refused(
        &conditional_patch("FROM c JOIN t IN c.tags WHERE t = 'x'"),
        Kind::PatchConditionNotMet,
    );
    for (condition, n) in [
        ("from root r where r.n = 3", 4),
        (
            "FROM c WHERE IS_DEFINED(c._ts) AND NOT IS_DEFINED(c.none)",
            5,
        ),
        ("FROM c JOIN t IN c.tags WHERE t = 'b'", 6),
        ("FROM c", 7),
    ] {
        let patched = object(
            &test
                .patch(&conditional_patch(condition))
                .unwrap_or_else(|e| panic!("{condition}: {e}")),
        );
        assert_eq!(patched.get("n"), Some(&Json::from(n)), "{condition}");
    }
    for invalid in [
        "WHERE c.n = 3",
        "FROM c WHERE",
        "FROM c WHERE udf.f(c.n)",
        "SELECT * FROM c",
    ] {
        test.refused(&conditional_patch(invalid), Kind::BadRequest);
    }
}

#[test]
fn an_expensive_condition_is_stopped_by_the_time_limit() {
    let test = PatchTest::new();
    let numbers: Vec<String> = (0..3000).map(|n| n.to_string()).collect();
    test.patch(&format!(
        r#"[{{"op":"set","path":"/many","value":[{}]}}]"#,
        numbers.join(",")
    ))
    .expect("an array");
    // A thread advances the clock while the condition is evaluated.
    let world = Arc::clone(&test.bench.world);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let clock = std::thread::spawn(move || {
        let tick = std::time::Duration::from_millis(1);
        while stopped.recv_timeout(tick) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            world.advance_ms(100);
        }
    });
    let condition = "FROM c JOIN a IN c.many JOIN b IN c.many JOIN d IN c.many WHERE a + b + d < 0";
    test.refused(
        &format!(
            r#"{{"condition":"{condition}","operations":[{{"op":"incr","path":"/n","value":1}}]}}"#
        ),
        Kind::RequestTimeout,
    );
    drop(stop);
    clock.join().expect("the clock stops");
}

#[test]
fn an_etag_is_checked_before_a_patch() {
    let test = PatchTest::new();
    let incr = r#"[{"op":"incr","path":"/n","value":1}]"#;
    let stale = test
        .patch_if(incr, Some("\"other\""))
        .result
        .expect_err("stale");
    assert_eq!(stale.kind(), Kind::PreconditionFailed);
    let etag = object(&test.read())
        .get("_etag")
        .and_then(Json::as_str)
        .expect("an etag")
        .to_owned();
    assert!(test.patch_if(incr, Some(&etag)).result.is_ok());
    assert_eq!(
        test.patch_if(incr, Some(&etag))
            .result
            .expect_err("stale")
            .kind(),
        Kind::PreconditionFailed
    );
}

#[test]
fn properties_that_identify_an_item_cannot_be_patched() {
    let test = PatchTest::new();
    for path in [
        "id",
        "_ts",
        "_etag",
        "_rid",
        "_self",
        "_attachments",
        "_etag/x",
    ] {
        for op in ["set", "remove", "incr"] {
            let message = test.refused(
                &format!(r#"[{{"op":"{op}","path":"/{path}","value":1}}]"#),
                Kind::BadRequest,
            );
            assert!(
                message.contains("Cannot patch system property"),
                "{message}"
            );
        }
    }
    let message = test.refused(
        r#"[{"op":"move","from":"/id","path":"/other"}]"#,
        Kind::BadRequest,
    );
    assert_eq!(
        message,
        "Invalid patch request: Cannot patch system property 'id'. The id and the properties that \
         begin with '_' belong to the database."
    );
    for operation in [
        r#"{"op":"set","path":"/place/pk","value":"q"}"#,
        r#"{"op":"remove","path":"/place/pk"}"#,
        r#"{"op":"replace","path":"/place","value":{}}"#,
        r#"{"op":"move","from":"/n","path":"/place"}"#,
    ] {
        test.refused(&format!("[{operation}]"), Kind::PartitionKeyMismatch);
    }
    assert!(
        test.patch(r#"[{"op":"replace","path":"/place","value":{"pk":"p","x":1}}]"#)
            .is_ok(),
        "the partition key is unchanged"
    );
}

#[test]
fn the_result_of_a_patch_is_validated_like_any_item() {
    let test = PatchTest::new();
    test.create(r#"{"id":"j","place":{"pk":"p"},"mail":"taken"}"#);
    test.refused(
        r#"[{"op":"set","path":"/mail","value":"taken"}]"#,
        Kind::Conflict,
    );
    test.refused(
        r#"[{"op":"set","path":"/ttl","value":0}]"#,
        Kind::BadRequest,
    );
    let large = "x".repeat(2 * 1024 * 1024);
    test.refused(
        &format!(r#"[{{"op":"set","path":"/text","value":"{large}"}}]"#),
        Kind::RequestEntityTooLarge,
    );
    let message = test.refused(
        r#"[{"op":"incr","path":"/n","value":1},{"op":"remove","path":"/x"}]"#,
        Kind::BadRequest,
    );
    assert!(message.starts_with("For Operation(2): "), "{message}");
    let missing = WriteOptions {
        partition_key: Some(key(r#"["q"]"#)),
        ..WriteOptions::default()
    };
    let operation = WriteOperation::Patch("i".into());
    let body = Some(r#"[{"op":"incr","path":"/n","value":1}]"#);
    let found = write(
        &test.bench.engine,
        &test.container,
        &operation,
        body,
        &missing,
    );
    assert_eq!(
        found.result.expect_err("another partition").kind(),
        Kind::NotFound
    );
}

#[test]
fn a_patch_costs_a_replace_plus_its_operations_and_a_refused_patch_costs_less() {
    let test = PatchTest::new();
    let patched = test.patch_if(r#"[{"op":"incr","path":"/n","value":1}]"#, None);
    let own: Vec<(String, Json)> = object(&test.read())
        .into_iter()
        .filter(|(name, _)| !name.starts_with('_'))
        .map(|(name, value)| {
            if name == "n" {
                (name, Json::from(5))
            } else {
                (name, value)
            }
        })
        .collect();
    let body = Json::Object(own.into_iter().collect()).to_text();
    let operation = WriteOperation::Replace("i".into());
    let replaced = write(
        &test.bench.engine,
        &test.container,
        &operation,
        Some(&body),
        &WriteOptions::default(),
    );
    assert_eq!(patched.charge, Charge(replaced.charge.0 + 40));
    let refused = test.patch_if(r#"[{"op":"remove","path":"/none"}]"#, None);
    assert!(refused.charge > Charge(0) && refused.charge < patched.charge);
}

#[test]
fn a_procedure_patches_items_with_etags_and_predicates() {
    let test = PatchTest::new();
    let source = r#"function(etag, predicate) {
        const c = getContext().getCollection();
        const link = c.getAltLink() + '/docs/i';
        const answer = (error, item) =>
            getContext().getResponse().setBody(error ? error.number : item.n);
        const operations = [{op: 'incr', path: '/n', value: 1}];
        c.patchDocument(link, operations, {etag, filterPredicate: predicate}, answer);
    }"#;
    let script = format!(r#"{{"id":"p","body":{}}}"#, Json::from(source).to_text());
    let engine = &test.bench.engine;
    engine
        .create_script(
            &test.container,
            ScriptKind::Procedure,
            &object(&script),
            false,
        )
        .result
        .expect("a script");
    let run = |etag: &str, predicate: &str| {
        let arguments = Json::Array(vec![etag.into(), predicate.into()]).to_text();
        let pending = engine.execute(
            &test.container,
            Id::Name("p"),
            &key(r#"["p"]"#),
            arguments.as_bytes(),
            ExecuteOptions::default(),
        );
        pending.wait().result.expect("it runs").body
    };
    assert_eq!(run("*", "FROM c WHERE c.n = 3"), "4");
    assert_eq!(run("*", "FROM c WHERE c.n = 3"), "412");
    assert_eq!(run("\"stale\"", "FROM c"), "412");
    assert_eq!(run("*", "FROM c"), "5");
    assert_eq!(object(&test.read()).get("n"), Some(&Json::from(5)));
}
