//! The parts of a request charge, returned on request for every kind of request; they add up to the
//! charge.

use crate::program::{Answer, Client, ITEMS, Request, start};
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_test_wait::wait_until;
use percent_encoding::percent_decode_str;

/// Returns the parts of a response's charge by name, in 1/10,000 RU, and checks that they add up to
/// the charge.
fn parts(answer: &Answer) -> Vec<(String, i64)> {
    let explanation = answer.header("x-orrery-charge-parts").expect("the parts");
    let explanation = percent_decode_str(explanation)
        .decode_utf8()
        .expect("UTF-8")
        .into_owned();
    let explanation = parse(explanation.as_bytes()).expect("JSON");
    let ten_thousandths = |json: Option<&Json>| {
        (json.and_then(Json::as_f64).expect("a number") * 10_000.0).round() as i64
    };
    let list = explanation
        .get("parts")
        .and_then(Json::as_array)
        .expect("a list");
    let part = |part: &Json| {
        assert!(
            part.get("count")
                .and_then(Json::as_i64)
                .is_some_and(|count| count >= 0),
            "{part}"
        );
        (
            part.get("what")
                .and_then(Json::as_str)
                .expect("a name")
                .to_owned(),
            ten_thousandths(part.get("ru")),
        )
    };
    let parts: Vec<(String, i64)> = list.iter().map(part).collect();
    let charge: f64 = answer
        .header("x-ms-request-charge")
        .expect("a charge")
        .parse()
        .expect("a number");
    let sum: i64 = parts
        .iter()
        .map(|(_, ten_thousandths)| ten_thousandths)
        .sum();
    assert_eq!(sum, (charge * 10_000.0).round() as i64, "{parts:?}");
    assert_eq!(sum, ten_thousandths(explanation.get("charge")));
    parts
}

/// Returns the names of the parts of a request's charge.
fn names(client: &mut Client, request: Request) -> Vec<String> {
    let answer = client.call(&request.header("x-orrery-explain-charge", "true"));
    parts(&answer)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name != "rounding")
        .collect()
}

/// A request and the names of the parts of its charge.
type Case = (Request, &'static [&'static str]);

/// Path of the item that the cases read and write.
const ITEM_A: &str = "/dbs/blog/colls/posts/docs/a";

fn with_key(request: Request) -> Request {
    request.header("x-ms-documentdb-partitionkey", "[\"p\"]")
}

fn item_body(id: &str) -> String {
    format!(r#"{{"id":"{id}","postId":"p","n":1}}"#)
}

/// Requests for single items, a query and a batch. The item `a` exists after the first one.
fn item_cases() -> Vec<Case> {
    let batch = format!(
        r#"[{{"operationType":"Create","resourceBody":{}}},{{"operationType":"Read","id":"a"}}]"#,
        item_body("b")
    );
    vec![
        (
            with_key(Request::new("POST", ITEMS)).body(item_body("a")),
            &["bodies written", "index entries written"],
        ),
        (
            with_key(Request::new("POST", ITEMS)).body(item_body("a")),
            &["bodies looked at", "index entries looked at"],
        ),
        (with_key(Request::new("GET", ITEM_A)), &["items read"]),
        (
            with_key(Request::new("GET", &format!("{ITEMS}/none"))),
            &["reads of nothing"],
        ),
        (
            with_key(Request::new("PUT", ITEM_A)).body(item_body("a")),
            &[
                "bodies removed and written",
                "index entries removed and written",
            ],
        ),
        (
            with_key(Request::new("PATCH", ITEM_A))
                .body(r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#),
            &[
                "bodies removed and written",
                "index entries removed and written",
                "operations of patches",
            ],
        ),
        (
            with_key(Request::query(
                ITEMS,
                "SELECT c.id FROM c WHERE c.postId = 'p'",
            )),
            &[
                "requests of queries",
                "equality values looked up",
                "items loaded",
                "rows returned",
                "rows projected",
                "bytes loaded",
                "bytes returned",
            ],
        ),
        (
            with_key(Request::new("POST", ITEMS))
                .header("x-ms-cosmos-is-batch-request", "true")
                .header("x-ms-cosmos-batch-atomic", "true")
                .body(batch),
            &["bodies written", "index entries written", "items read"],
        ),
    ]
}

/// Requests for feeds, a script and resources other than items, and the deletion of the item `a`.
fn other_cases() -> Vec<Case> {
    vec![
        (Request::new("GET", ITEMS), &["items read"]),
        (
            Request::new("GET", ITEMS).header("a-im", "Incremental Feed"),
            &["items read"],
        ),
        (
            Request::new("GET", ITEMS)
                .header("a-im", "Incremental Feed")
                .header("if-none-match", "*"),
            &["items read", "empty pages"],
        ),
        (
            with_key(Request::new("POST", "/dbs/blog/colls/posts/sprocs/adds")).body("[]"),
            &["scripts run", "bodies written", "index entries written"],
        ),
        (
            with_key(Request::new("DELETE", ITEM_A)),
            &["bodies written", "index entries written"],
        ),
        (Request::new("GET", "/dbs/blog"), &["resources read"]),
        (
            Request::new("POST", "/dbs").body(r#"{"id":"other"}"#),
            &["resources written"],
        ),
        (
            Request::new("GET", "/dbs/none/colls/none/docs/x"),
            &["requests turned away"],
        ),
    ]
}

#[test]
fn the_parts_of_a_charge_are_returned_on_request() {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    client.make_procedure(
        "adds",
        "function () { __.createDocument(__.getSelfLink(), {id: 's', postId: 'p'}); }",
    );
    for (request, expected) in item_cases().into_iter().chain(other_cases()) {
        let description = format!("{request:?}");
        assert_eq!(names(&mut client, request), expected, "{description}");
    }
    let silent = client.call(&with_key(Request::new("GET", &format!("{ITEMS}/b"))));
    assert_eq!(silent.header("x-orrery-charge-parts"), None);
}

#[test]
fn the_charge_parts_of_a_throttled_request_name_the_throttling() {
    let server = start(&["--memory", "--enforce-throughput", "on"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    let item = |n: usize| {
        format!(r#"{{"operationType":"Upsert","resourceBody":{{"id":"i{n}","postId":"p"}}}}"#)
    };
    let body: Vec<String> = (0..100).map(item).collect();
    let batch = Request::new("POST", ITEMS)
        .header("x-ms-cosmos-is-batch-request", "true")
        .header("x-ms-cosmos-batch-atomic", "true")
        .header("x-ms-documentdb-partitionkey", "[\"p\"]")
        .body(format!("[{}]", body.join(",")));
    // Each batch costs more than a second's budget.
    wait_until("a throttled batch", || {
        let names = names(&mut client, batch.clone());
        if names == ["requests throttled"] {
            Ok(())
        } else {
            Err(names)
        }
    });
}
