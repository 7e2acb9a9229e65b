//! The texts that users and operators read about refusals: the text of a 429, the refusal of an
//! item without the header of its partition key, and the lines of the log about 401 and 429.

use crate::program::{ITEMS, Request, start, start_with_posts};

const KEY: &str = "x-ms-documentdb-partitionkey";

/// Returns a request that creates or upserts an item without naming its partition key. An empty
/// header counts as none.
fn without_key(body: &str) -> Request {
    Request::new("POST", ITEMS).header(KEY, "").body(body)
}

#[test]
fn an_item_without_the_header_of_its_partition_key_is_refused_as_by_the_service() {
    let (_server, mut client) = start_with_posts();
    let item = r#"{"id":"1","postId":"p"}"#;
    for request in [
        without_key(item),
        without_key(item).header("x-ms-documentdb-is-upsert", "True"),
    ] {
        let refused = client.call(&request);
        let message = refused.error(400, Some("1001"), "BadRequest");
        assert!(
            message.contains("has fewer components than defined"),
            "{message}"
        );
        assert!(
            message.contains("value at /postId in brackets"),
            "{message}"
        );
    }
    let with_key = Request::new("POST", ITEMS)
        .header(KEY, r#"["p"]"#)
        .body(item);
    assert_eq!(client.call(&with_key).status, 201);
}

#[test]
fn an_item_of_a_container_without_a_partition_key_needs_no_header() {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    client.create("/dbs/blog/colls", r#"{"id":"posts"}"#);
    assert_eq!(client.call(&without_key(r#"{"id":"1"}"#)).status, 201);
}

#[test]
fn the_first_request_with_a_wrong_key_is_told_in_the_log_with_the_remedy() {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    let wrong = || Request::new("GET", "/dbs").token("type=master&ver=1.0&sig=AAAA");
    for _ in 0..3 {
        assert_eq!(client.call(&wrong()).status, 401);
    }
    let log = server.stop().stderr;
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("status=401"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    for part in [
        " info ",
        "accepts the well-known key",
        "check endpoint, key and clock",
    ] {
        assert!(lines[0].contains(part), "{}", lines[0]);
    }
}

#[test]
fn a_429_says_whose_budget_is_spent_and_the_log_tells_the_first_of_a_container() {
    let server = start(&["--memory", "--enforce-throughput", "on"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    let mut refusals = Vec::new();
    while refusals.len() < 3 {
        // A few of these items use up the budget of a second, on a slow machine too.
        let text = "x".repeat(50_000);
        let body = format!(r#"{{"id":"i","postId":"p","text":"{text}"}}"#);
        let upsert = Request::new("POST", ITEMS).header("x-ms-documentdb-is-upsert", "True");
        let answer = client.call(&upsert.body(body));
        if answer.status == 429 {
            refusals.push(answer);
        }
    }
    let message = refusals[0].error(429, Some("3200"), "TooManyRequests");
    assert!(message.contains("Request rate is large."), "{message}");
    let budget =
        "Physical partition 0 of container 'posts' has 400 RU/s of the container's 400 RU/s";
    assert!(message.contains(budget), "{message}");

    let log = server.stop().stderr;
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("status=429"))
        .collect();
    assert_eq!(lines.len(), 1, "{log}");
    for part in [
        budget,
        "raise the container's throughput",
        "--enforce-throughput off",
    ] {
        assert!(lines[0].contains(part), "{}", lines[0]);
    }
}
