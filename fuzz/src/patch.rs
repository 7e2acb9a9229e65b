//! Partial updates: a patch in the first line of the input, an item in the rest.

use crate::fixture::{Fixture, check_refusal, key};
use orrery_engine::request::{BatchAction, BatchMode, BatchOperation, Body, WriteOperation};
use orrery_model::json::parse;
use orrery_model::patch::Patch;
use orrery_model::{Error, Json, Object, limits};
use std::sync::LazyLock;

static FIXTURE: LazyLock<Fixture> = LazyLock::new(|| Fixture::new(1));

/// The item of an input without one.
const ITEM: &str = r#"{"n":1,"f":0.5,"s":"x","list":[1,{"a":[2]},null],"o":{"a":{"b":true}}}"#;

/// Checks an input: a patch changes the item as its operations one by one do, leaves the item
/// itself as it was, and an engine answers alike.
pub(crate) fn check(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == b'\n');
    let Ok(patch) = parse(parts.next().unwrap_or_default()) else {
        return;
    };
    let mut item = match parts.next().map(parse) {
        Some(Ok(Json::Object(item))) => item,
        _ => parse(ITEM.as_bytes())
            .expect("JSON")
            .as_object()
            .expect("an object")
            .clone(),
    };
    item.set("id", "patched");
    item.set("pk", "p0");
    let patched = Patch::from_json(&patch).map(|read| {
        let before = Json::Object(item.clone()).to_text();
        let patched = read.apply(&item);
        assert_eq!(
            Json::Object(item.clone()).to_text(),
            before,
            "the item is changed"
        );
        (read, patched)
    });
    match &patched {
        Err(error) => check_refusal(error, input.len()),
        Ok((read, result)) => {
            check_result(result.as_ref(), input.len());
            check_steps(read, &patch, &item, result.as_ref());
        }
    }
    let is_applied = patched.map(|(_, result)| result.is_ok());
    check_engine(&patch, item, is_applied.ok(), input.len());
}

/// Checks the patched item: its text parses to itself, and its length and depth are bounded.
fn check_result(result: Result<&Object, &Error>, input_bytes: usize) {
    match result {
        Err(error) => check_refusal(error, input_bytes),
        Ok(patched) => {
            let text = Json::Object(patched.clone()).to_text();
            // `incr` writes a number with at most 25 characters, the other operations what is
            // there; control characters are escaped.
            let longest = 300 + 8 * (input_bytes + ITEM.len());
            assert!(text.len() <= longest, "{} bytes", text.len());
            let again = parse(text.as_bytes()).expect("the depth is bounded");
            assert_eq!(again.to_text(), text);
        }
    }
}

/// Applies the operations one by one and compares.
fn check_steps(read: &Patch, patch: &Json, item: &Object, result: Result<&Object, &Error>) {
    let operations = match patch {
        Json::Array(operations) => &operations[..],
        body => body
            .get("operations")
            .and_then(Json::as_array)
            .expect("it was read"),
    };
    assert_eq!(operations.len(), read.len());
    assert!(operations.len() <= limits::PATCH_OPERATIONS);
    let mut stepped = item.clone();
    for operation in operations {
        let one = Patch::from_json(&Json::Array(vec![operation.clone()])).expect("it was read");
        match one.apply(&stepped) {
            Ok(next) => stepped = next,
            // A patch as a whole may be deep between its operations.
            Err(error) if error.message().contains("nested deeper") => return,
            Err(error) => {
                let whole = result.expect_err("one operation fails");
                let reason = |error: &Error| {
                    let message = error.message();
                    let (_, reason) = message.split_once(": ").expect("a reason");
                    reason.to_owned()
                };
                assert_eq!(reason(whole), reason(&error));
                return;
            }
        }
    }
    let whole = result.expect("every operation succeeds");
    assert_eq!(
        Json::Object(stepped).to_text(),
        Json::Object(whole.clone()).to_text()
    );
}

/// Patches the item in an engine, in a transaction that is not committed. `is_applied` is `None` if
/// the patch has not the form of one.
fn check_engine(patch: &Json, item: Object, is_applied: Option<bool>, input_bytes: usize) {
    let id = || "patched".to_owned();
    let write =
        |write, body: Json| BatchOperation::new(BatchAction::Write(write), Some(Body::Json(body)));
    let operations = vec![
        write(WriteOperation::Create, Json::Object(item)),
        write(WriteOperation::Patch(id()), patch.clone()),
        BatchOperation::new(BatchAction::Read("missing".into()), None),
    ];
    let Fixture { engine, container } = &*FIXTURE;
    let mode = BatchMode::Atomic(key(0));
    let outcome = engine.batch(container, &mode, operations, None::<&str>);
    let answer = match outcome.wait().result {
        Err(error) => return check_refusal(&error, input_bytes),
        Ok(answer) => answer,
    };
    let failed = answer.results.iter().enumerate().find_map(|(number, one)| {
        let error = one.result.as_ref().err()?;
        check_refusal(error, input_bytes);
        (error.status() != 424).then(|| (number, error.status()))
    });
    match (failed, is_applied) {
        // Not an item, or one without room for its system properties.
        (Some((0, 400 | 413)), _) => {}
        (Some((1, status)), None) => assert_eq!(status, 400),
        // The engine refuses more: system properties, other keys, conditions.
        (Some((1, status)), Some(_)) => assert!([400, 412, 413].contains(&status), "{status}"),
        (Some((2, 404)), Some(true)) => {}
        other => panic!("{other:?}"),
    }
}
