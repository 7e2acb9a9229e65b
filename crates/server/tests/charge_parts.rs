//! What was paid for what, on demand and for every kind of request: parts that add up to the charge.

mod program;

use orrery_model::Json;
use orrery_model::json::parse;
use percent_encoding::percent_decode_str;
use program::{Answer, Client, ITEMS, Request, start};

/// The parts of an answer's charge by name, in 1/10,000 RU, once they have been added up.
fn parts(answer: &Answer) -> Vec<(String, i64)> {
    let told = answer.header("x-orrery-charge-parts").expect("the parts");
    let told = percent_decode_str(told)
        .decode_utf8()
        .expect("UTF-8")
        .into_owned();
    let told = parse(told.as_bytes()).expect("JSON");
    let fine = |json: Option<&Json>| {
        (json.and_then(Json::as_f64).expect("a number") * 10_000.0).round() as i64
    };
    let list = told.get("parts").and_then(Json::as_array).expect("a list");
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
            fine(part.get("ru")),
        )
    };
    let parts: Vec<(String, i64)> = list.iter().map(part).collect();
    let charge: f64 = answer
        .header("x-ms-request-charge")
        .expect("a charge")
        .parse()
        .expect("a number");
    let sum: i64 = parts.iter().map(|(_, fine)| fine).sum();
    assert_eq!(sum, (charge * 10_000.0).round() as i64, "{parts:?}");
    assert_eq!(sum, fine(told.get("charge")));
    parts
}

/// The names of the parts of a request's charge.
fn names(client: &mut Client, request: Request) -> Vec<String> {
    let answer = client.call(&request.header("x-orrery-explain-charge", "true"));
    parts(&answer)
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| name != "rounding")
        .collect()
}

#[test]
fn every_request_says_what_was_paid_for_what_if_it_is_asked() {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    client.make_procedure(
        "adds",
        "function () { __.createDocument(__.getSelfLink(), {id: 's', postId: 'p'}); }",
    );
    let key = |request: Request| request.header("x-ms-documentdb-partitionkey", "[\"p\"]");
    let item = |id: &str| format!(r#"{{"id":"{id}","postId":"p","n":1}}"#);
    let path = format!("{ITEMS}/a");
    let batch = format!(
        r#"[{{"operationType":"Create","resourceBody":{}}},{{"operationType":"Read","id":"a"}}]"#,
        item("b")
    );
    let cases = [
        (
            key(Request::new("POST", ITEMS)).body(item("a")),
            &["bodies written", "index entries written"][..],
        ),
        (
            key(Request::new("POST", ITEMS)).body(item("a")),
            &["bodies looked at", "index entries looked at"],
        ),
        (key(Request::new("GET", &path)), &["items read"]),
        (
            key(Request::new("GET", &format!("{ITEMS}/none"))),
            &["reads of nothing"],
        ),
        (
            key(Request::new("PUT", &path)).body(item("a")),
            &[
                "bodies removed and written",
                "index entries removed and written",
            ],
        ),
        (
            key(Request::new("PATCH", &path))
                .body(r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#),
            &[
                "bodies removed and written",
                "index entries removed and written",
                "operations of patches",
            ],
        ),
        (
            key(Request::query(
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
            key(Request::new("POST", ITEMS))
                .header("x-ms-cosmos-is-batch-request", "true")
                .header("x-ms-cosmos-batch-atomic", "true")
                .body(batch),
            &["bodies written", "index entries written", "items read"],
        ),
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
            key(Request::new("POST", "/dbs/blog/colls/posts/sprocs/adds")).body("[]"),
            &["scripts run", "bodies written", "index entries written"],
        ),
        (
            key(Request::new("DELETE", &path)),
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
    ];
    for (request, expected) in cases {
        let told = format!("{request:?}");
        assert_eq!(names(&mut client, request), expected, "{told}");
    }
    let silent = client.call(&key(Request::new("GET", &format!("{ITEMS}/b"))));
    assert_eq!(silent.header("x-orrery-charge-parts"), None);
}

#[test]
fn a_throttled_request_says_that_it_was() {
    let server = start(&["--memory", "--enforce-throughput", "on"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    let item = |n: usize| {
        format!(r#"{{"operationType":"Create","resourceBody":{{"id":"i{n}","postId":"p"}}}}"#)
    };
    let body: Vec<String> = (0..100).map(item).collect();
    let batch = Request::new("POST", ITEMS)
        .header("x-ms-cosmos-is-batch-request", "true")
        .header("x-ms-cosmos-batch-atomic", "true")
        .header("x-ms-documentdb-partitionkey", "[\"p\"]")
        .body(format!("[{}]", body.join(",")));
    assert_eq!(client.call(&batch).status, 200);
    assert_eq!(names(&mut client, batch), ["requests throttled"]);
}
