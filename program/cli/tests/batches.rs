//! Transactional batches and bulk requests in JSON.

use crate::program::*;
use orrery_model::Json;

fn batch(operations: &str) -> Request {
    Request::new("POST", ITEMS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .body(operations)
}

/// Returns a transactional batch in the logical partition `p`.
fn atomic(operations: &str) -> Request {
    batch(operations)
        .key("p")
        .header("x-ms-cosmos-batch-atomic", "True")
        .header("x-ms-cosmos-batch-ordered", "True")
}

/// Returns a bulk request to the only physical partition.
fn bulk(operations: &str) -> Request {
    let request = batch(operations).header("x-ms-cosmos-batch-atomic", "False");
    request
        .header("x-ms-documentdb-partitionkeyrangeid", "0")
        .header("x-ms-cosmos-batch-continue-on-error", "True")
}

fn entries(answer: &Answer) -> Vec<Json> {
    answer
        .json()
        .as_array()
        .unwrap_or_else(|| panic!("{}", answer.text()))
        .to_vec()
}

fn statuses(answer: &Answer) -> Vec<u64> {
    entries(answer)
        .iter()
        .map(|entry| number(entry, "statusCode"))
        .collect()
}

fn names(entry: &Json) -> Vec<&str> {
    entry
        .as_object()
        .expect("an entry is an object")
        .iter()
        .map(|(name, _)| name)
        .collect()
}

const EVERYTHING: &str = r#"[
    {"operationType":"Create","id":"a","resourceBody":{"id":"a","postId":"p","n":1}},
    {"operationType":"Upsert","resourceBody":{"id":"a","postId":"p","n":2}},
    {"operationType":"Upsert","resourceBody":"{\"id\":\"b\",\"postId\":\"p\"}"},
    {"operationType":"Patch","id":"a","resourceBody":{"operations":[{"op":"incr","path":"/n","value":1}]}},
    {"operationType":"Patch","id":"a","resourceBody":[{"op":"incr","path":"/n","value":1}]},
    {"operationType":"Read","id":"a"},
    {"operationType":"Replace","id":"b","partitionKey":"[\"p\"]","resourceBody":{"id":"b","postId":"p","x":null}},
    {"operationType":"Delete","id":"b","partitionKey":["p"]}]"#;

#[test]
fn a_batch_answers_one_entry_for_each_operation_with_the_members_that_clients_read() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&atomic(EVERYTHING));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(statuses(&answer), [201, 200, 201, 200, 200, 200, 200, 204]);
    let entries = entries(&answer);
    for entry in &entries[..7] {
        assert_eq!(
            names(entry),
            ["statusCode", "requestCharge", "eTag", "resourceBody"]
        );
        let body = entry.get("resourceBody").expect("a body");
        assert_eq!(body.get("_etag"), entry.get("eTag"));
    }
    assert_eq!(names(&entries[7]), ["statusCode", "requestCharge"]);
    assert_eq!(
        entries[5]
            .get("resourceBody")
            .and_then(|item| item.get("n")),
        Some(&Json::from(4))
    );
    let charges: f64 = entries
        .iter()
        .map(|e| {
            e.get("requestCharge")
                .and_then(Json::as_f64)
                .expect("a charge")
        })
        .sum();
    let total: f64 = answer
        .header("x-ms-request-charge")
        .and_then(|text| text.parse().ok())
        .expect("a charge");
    assert!((charges - total).abs() < 1e-6, "{charges} and {total}");
    let read = client.call(&Request::new("GET", &item("a")).key("p"));
    assert_eq!(read.lsn(), answer.lsn());
    assert_eq!(
        read.header("x-ms-item-lsn"),
        Some(answer.lsn().to_string().as_str()),
        "one LSN for all"
    );
}

#[test]
fn a_batch_that_fails_is_207_and_leaves_nothing_behind() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&atomic(
        r#"[{"operationType":"Create","resourceBody":{"id":"a","postId":"p"}},
            {"operationType":"Patch","id":"a","resourceBody":{"condition":"from c where c.n = 1","operations":[{"op":"remove","path":"/n"}]}},
            {"operationType":"Delete","id":"a"}]"#,
    ));
    assert_eq!(answer.code(), (207, 0));
    assert_eq!(statuses(&answer), [424, 412, 424]);
    let entries = entries(&answer);
    assert_eq!(
        names(&entries[0]),
        ["statusCode", "requestCharge", "message"]
    );
    assert_eq!(
        names(&entries[1]),
        ["statusCode", "requestCharge", "subStatusCode", "message"]
    );
    assert_eq!(number(&entries[1], "subStatusCode"), 1110);
    assert!(answer.header("x-ms-session-token").is_some());
    assert_eq!(
        client
            .call(&Request::new("GET", &item("a")).key("p"))
            .status,
        404
    );
}

#[test]
fn bulk_answers_each_operation_by_itself() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&bulk(
        r#"[{"operationType":"Create","partitionKey":"[\"p\"]","resourceBody":{"id":"a","postId":"p"}},
            {"operationType":"Create","partitionKey":"[\"q\"]","resourceBody":{"id":"a","postId":"q"}},
            {"operationType":"Create","resourceBody":{"id":"a","postId":"p"}},
            {"operationType":"Create","partitionKey":"[{}]","resourceBody":{"id":"none"}},
            {"operationType":"Read","id":"none","partitionKey":"[{}]","ifNoneMatch":"*"},
            {"operationType":"Read","id":"a","partitionKey":"[\"r\"]"},
            {"operationType":"Delete","id":"a","partitionKey":"[\"q\"]","ifMatch":"\"stale\""}]"#,
    ));
    assert_eq!(
        (answer.status, statuses(&answer)),
        (207, vec![201, 201, 409, 201, 304, 404, 412]),
        "{}",
        answer.text()
    );
    assert_eq!(
        names(&entries(&answer)[4]),
        ["statusCode", "requestCharge", "eTag"]
    );
    let etag = text(&entries(&answer)[0], "eTag").replace('"', "\\\"");
    let known = client.call(&bulk(&format!(
        r#"[{{"operationType":"Read","id":"a","partitionKey":"[\"p\"]","ifMatch":"{etag}"}},
            {{"operationType":"Read","id":"a","partitionKey":"[\"p\"]","ifMatch":"\"stale\""}}]"#
    )));
    assert_eq!((known.status, statuses(&known)), (207, vec![304, 200]));
    let good = client.call(&bulk(
        r#"[{"operationType":"Delete","id":"a","partitionKey":"[\"q\"]"}]"#,
    ));
    assert_eq!((good.status, statuses(&good)), (200, vec![204]));
    let stopping = batch(
        r#"[{"operationType":"Create","resourceBody":{"id":"x","postId":"p","ttl":0}},
            {"operationType":"Create","resourceBody":{"id":"y","postId":"p"}}]"#,
    );
    let stopping = stopping.header("x-ms-documentdb-partitionkeyrangeid", "0");
    assert_eq!(statuses(&client.call(&stopping)), [400, 424]);
    let gone = batch(r#"[{"operationType":"Create","resourceBody":{"id":"x","postId":"p"}}]"#);
    let gone = gone.header("x-ms-documentdb-partitionkeyrangeid", "7");
    assert_eq!(client.call(&gone).code(), (410, 1002));
}

#[test]
fn a_minimal_batch_response_has_bodies_only_for_reads() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&atomic(EVERYTHING).header("Prefer", "return=minimal"));
    assert_eq!(statuses(&answer), [201, 200, 201, 200, 200, 200, 200, 204]);
    let with_body = |entry: &Json| entry.get("resourceBody").is_some();
    assert_eq!(
        entries(&answer).iter().map(with_body).collect::<Vec<_>>(),
        (0..8).map(|n| n == 5).collect::<Vec<_>>()
    );
    let one = r#"[{"operationType":"Upsert","minimalReturnPreference":true,"resourceBody":{"id":"a","postId":"p"}},
        {"operationType":"Upsert","indexingDirective":"Exclude","resourceBody":{"id":"a","postId":"p"}}]"#;
    let answer = client.call(&atomic(one));
    assert_eq!(
        entries(&answer).iter().map(with_body).collect::<Vec<_>>(),
        [false, true]
    );
    let found = client.call(&Request::query(ITEMS, "SELECT * FROM c WHERE c.id = 'a'"));
    assert_eq!(
        found.rows().len(),
        1,
        "an automatic policy indexes the item that the batch excludes"
    );
}

#[test]
fn an_invalid_batch_is_refused_as_a_whole() {
    let (_server, mut client) = start_with_posts();
    let message = |answer: Answer| {
        assert_eq!(answer.status, 400, "{}", answer.text());
        answer.text()
    };
    assert!(message(client.call(&atomic("[]"))).contains("Batch request has no operations."));
    let many = vec![r#"{"operationType":"Read","id":"a"}"#; 101].join(",");
    let too_many = message(client.call(&atomic(&format!("[{many}]"))));
    assert!(
        too_many.contains("Batch request has more operations than what is supported."),
        "{too_many}"
    );
    for wrong in [
        "",
        "{}",
        "[1]",
        "[{}]",
        r#"[{"operationType":"Copy","id":"a"}]"#,
        r#"[{"operationType":"Read"}]"#,
        r#"[{"operationType":"Read","id":1}]"#,
        r#"[{"operationType":"Read","id":"a","partitionKey":"p"}]"#,
        r#"[{"operationType":"Read","id":"a","partitionKey":1}]"#,
        r#"[{"operationType":"Delete","id":"a","ifMatch":1}]"#,
        r#"[{"operationType":"Create","indexingDirective":"Never","resourceBody":{}}]"#,
        r#"[{"operationType":"Create","minimalReturnPreference":1,"resourceBody":{}}]"#,
    ] {
        message(client.call(&atomic(wrong)));
    }
    let timed = r#"[{"operationType":"Create","timeToLiveInSeconds":5,"resourceBody":{"id":"a","postId":"p"}}]"#;
    assert!(message(client.call(&atomic(timed))).contains("timeToLiveInSeconds"));
    let keyless =
        batch(r#"[{"operationType":"Read","id":"a"}]"#).header("x-ms-cosmos-batch-atomic", "True");
    assert!(message(client.call(&keyless)).contains("PartitionKey value must be supplied"));
    let triggered = atomic(EVERYTHING).header("x-ms-documentdb-post-trigger-include", "t");
    message(client.call(&triggered));
    let large = "x".repeat(2_300_000);
    let large = format!(
        r#"[{{"operationType":"Create","resourceBody":{{"id":"a","postId":"p","text":"{large}"}}}}]"#
    );
    let answer = client.call(&atomic(&large));
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("RequestEntityTooLarge"));
}
