//! Triggers: the properties that each kind may read and write.

use crate::memory::{Memory, pool, run_trigger, trigger};
use orrery_script::{Operation, ScriptError, Trigger, TriggerTime};

const PRE: TriggerTime = TriggerTime::Pre;
const POST: TriggerTime = TriggerTime::Post;

#[test]
fn a_pre_trigger_reads_the_parsed_body_and_may_rewrite_it() {
    let pool = pool();
    let rewrite = r"function () {
        var r = getContext().getRequest();
        var d = r.getBody();
        d.n += 1;
        d.op = r.getOperationType();
        r.setBody(d);
    }";
    let outcome = run_trigger(
        &pool,
        trigger(rewrite, PRE, Some(r#"{"id":"a","n":1}"#), None),
    )
    .unwrap();
    assert_eq!(
        outcome.body.as_deref(),
        Some(r#"{"id":"a","n":2,"op":"Create"}"#)
    );
    let value = "function () { getContext().getRequest().setValue('Body', {id: 'b'}); }";
    assert_eq!(
        run_trigger(&pool, trigger(value, PRE, Some("{}"), None))
            .unwrap()
            .body
            .as_deref(),
        Some(r#"{"id":"b"}"#)
    );
    let only_reads = "function () { getContext().getRequest().getBody().n = 5; }";
    assert_eq!(
        run_trigger(&pool, trigger(only_reads, PRE, Some("{}"), None))
            .unwrap()
            .body,
        None
    );
    let delete = r"function () {
        var r = getContext().getRequest();
        if (r.getBody().id !== 'a') throw 1;
        if (r.getOperationType() !== 'Delete') throw 2;
    }";
    let call = Trigger {
        operation: Operation::Delete,
        ..trigger(delete, PRE, Some(r#"{"id":"a"}"#), None)
    };
    assert_eq!(run_trigger(&pool, call).unwrap().body, None);
}

#[test]
fn a_pre_trigger_has_no_response() {
    let error = run_trigger(
        &pool(),
        trigger(
            "function () { getContext().getResponse(); }",
            PRE,
            Some("{}"),
            None,
        ),
    )
    .unwrap_err();
    assert!(
        matches!(
            &error,
            ScriptError::Thrown { number: None, message, .. }
                if message == "TypeError: not a function"
        ),
        "{error:?}"
    );
    let error = run_trigger(
        &pool(),
        trigger(
            "function () { __.response.setBody(1); }",
            PRE,
            Some("{}"),
            None,
        ),
    )
    .unwrap_err();
    assert!(matches!(error, ScriptError::Thrown { .. }));
}

#[test]
fn a_post_trigger_reads_request_and_response_and_may_overwrite_the_response() {
    let pool = pool();
    let overwrite = r"function () {
        var c = getContext();
        var d = c.getResponse().getBody();
        d.seen = c.getRequest().getBody().n;
        c.getResponse().setBody(d);
    }";
    let outcome = run_trigger(
        &pool,
        trigger(
            overwrite,
            POST,
            Some(r#"{"n":1}"#),
            Some(r#"{"n":1,"_etag":"x"}"#),
        ),
    )
    .unwrap();
    assert_eq!(
        outcome.body.as_deref(),
        Some(r#"{"n":1,"_etag":"x","seen":1}"#)
    );
    let quota = r"function () {
        var r = getContext().getResponse();
        r.setBody([
            r.getResourceQuotaCurrentUsage().includes('collectionSize'),
            r.getMaxResourceQuota().includes('collectionSize'),
        ]);
    }";
    assert_eq!(
        run_trigger(&pool, trigger(quota, POST, Some("{}"), Some("{}")))
            .unwrap()
            .body
            .as_deref(),
        Some("[true,true]")
    );
}

#[test]
fn a_property_that_a_trigger_may_not_set_throws() {
    let pool = pool();
    for (body, time, number) in [
        (
            "function () { getContext().getRequest().setBody({}); }",
            POST,
            None,
        ),
        (
            "function () { getContext().getRequest().setValue('Body', {}); }",
            POST,
            Some(403),
        ),
        (
            "function () { getContext().getRequest().setValue('Test', 1); }",
            POST,
            Some(400),
        ),
        (
            "function () { getContext().getResponse().setValue('Test', 1); }",
            POST,
            Some(400),
        ),
        (
            "function () { getContext().getRequest().setValue('Test', 1); }",
            PRE,
            Some(400),
        ),
        (
            "function () { getContext().getRequest().setValue('OperationType', 1); }",
            PRE,
            Some(403),
        ),
        (
            "function () { throw new Error(4444, 'no'); }",
            PRE,
            Some(4444),
        ),
    ] {
        let error = run_trigger(&pool, trigger(body, time, Some("{}"), Some("{}"))).unwrap_err();
        assert!(
            matches!(error, ScriptError::Thrown { number: found, .. } if found == number),
            "{body}: {error:?}"
        );
    }
}

#[test]
fn a_trigger_uses_the_collection_and_counts_its_calls() {
    let write = r"function () {
        var c = getContext().getCollection();
        c.createDocument(c.getSelfLink(), {id: 'log'});
    }";
    let mut host = Memory::default();
    let outcome = pool()
        .run_trigger(trigger(write, PRE, Some("{}"), None), &mut host)
        .unwrap();
    assert_eq!(
        (
            outcome.host_calls,
            host.items.contains_key("log"),
            outcome.log
        ),
        (1, true, None)
    );
}
