//! The log of slow, expensive, throttled and failed requests, through the management API.

use crate::program::{
    Client, ITEMS, Manager, Request, Server, item, number, start_with_posts, text,
};
use orrery_model::Json;

/// Starts a server with the container `posts`. The log records failures only.
fn start_quiet() -> (Server, Client, Manager) {
    let (server, client) = start_with_posts();
    let mut manager = server.manager();
    // A busy machine makes any request slow.
    manager.ok("PUT", "/requests/settings", r#"{"minMs":1000000000}"#);
    (server, client, manager)
}

/// Returns the recorded requests of a query string.
fn requests(manager: &mut Manager, query: &str) -> Vec<Json> {
    let listed = manager.get(&format!("/requests?{query}")).json();
    let requests = listed.get("requests").and_then(Json::as_array);
    requests.expect("a list").to_vec()
}

/// Returns the number after which new requests come.
fn now(manager: &mut Manager) -> u64 {
    number(&manager.get("/requests").json(), "next")
}

fn member(json: &Json, path: &[&str]) -> Json {
    let mut found = json;
    for name in path {
        found = found
            .get(name)
            .unwrap_or_else(|| panic!("no '{name}' in {}", json.to_text()));
    }
    found.clone()
}

#[test]
fn a_failed_request_is_recorded_with_its_resource_and_its_client() {
    let (_server, mut client, mut manager) = start_quiet();
    let after = now(&mut manager);
    let read = Request::new("GET", &item("no%2Fne%22"))
        .signed_as("docs", "dbs/blog/colls/posts/docs/no/ne\"")
        .header("User-Agent", "a-client/1.0")
        .header("x-ms-activity-id", "0f0f0f0f-1111-4222-8333-444444444444")
        .key("secret-key");
    assert_eq!(client.call(&read).status, 404);
    let found = requests(&mut manager, &format!("after={after}"));
    assert_eq!(found.len(), 1);
    let record = &found[0];
    for (name, expected) in [
        ("reason", "failed"),
        ("operation", "read_item"),
        ("resource", "docs"),
        ("method", "GET"),
        ("db", "blog"),
        ("coll", "posts"),
        ("id", "no/ne\""),
        ("code", "NotFound"),
        ("userAgent", "a-client/1.0"),
        ("activityId", "0f0f0f0f-1111-4222-8333-444444444444"),
    ] {
        assert_eq!(text(record, name), expected, "{name}");
    }
    assert_eq!(number(record, "status"), 404);
    assert_eq!(number(record, "number"), after + 1);
    assert_eq!(member(record, &["partitions"]).to_text(), r#"["0"]"#);
    assert!(text(record, "client").starts_with("127.0.0.1:"));
    // Partition keys are private.
    assert!(!record.to_text().contains("secret-key"));
}

#[test]
fn an_expensive_query_is_recorded_by_its_form_with_the_parts_of_its_charge() {
    let (_server, mut client, mut manager) = start_quiet();
    manager.ok("PUT", "/requests/settings", r#"{"minRu":2.5}"#);
    for n in 0..5 {
        let body = format!(r#"{{"id":"a{n}","postId":"p","n":{n},"title":"t"}}"#);
        client.call(&Request::new("POST", ITEMS).key("p").body(body));
    }
    let after = now(&mut manager);
    let query = "SELECT c.id FROM c WHERE c.n < 3 AND c.title != 'a secret'";
    let answer = client.call(&Request::query(ITEMS, query));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let found = requests(&mut manager, &format!("after={after}"));
    assert_eq!(found.len(), 1);
    let record = &found[0];
    assert_eq!(text(record, "reason"), "expensive");
    assert_eq!(
        text(&member(record, &["query"]), "form"),
        "SELECT c.id FROM c WHERE c.n < ? AND c.title != ?"
    );
    assert_eq!(number(record, "partitionCount"), 1);
    assert!(number(&member(record, &["query"]), "retrieved") > 0);
    assert!(!record.to_text().contains("secret"));

    let charge = member(record, &["ru"]).as_f64().expect("a charge");
    let header = answer.header("x-ms-request-charge").expect("a charge");
    assert_eq!(charge, header.parse::<f64>().expect("a number"));
    let parts = member(record, &["parts"]);
    let mut sum = 0.0;
    for part in parts.as_array().expect("parts") {
        sum += member(part, &["ru"]).as_f64().expect("a number");
    }
    assert!((sum - charge).abs() < 1e-6, "{sum} of {charge}");
    assert!(parts.to_text().contains("requests of queries"));
}

#[test]
fn a_reader_who_follows_sees_every_request_and_others_only_the_failed_ones() {
    let (_server, mut client, mut manager) = start_quiet();
    let first = now(&mut manager);
    client.create(ITEMS, r#"{"id":"a","postId":"p"}"#);
    assert!(requests(&mut manager, &format!("after={first}")).is_empty());

    let listed = manager.get("/requests?all=true&limit=1").json();
    let settings = member(&listed, &["settings"]);
    assert_eq!(settings.get("all").and_then(Json::as_bool), Some(true));
    client.call(&Request::new("GET", &item("a")).key("p"));
    let found = requests(&mut manager, &format!("after={first}"));
    assert_eq!(found.len(), 1);
    assert_eq!(text(&found[0], "reason"), "followed");

    manager.ok("PUT", "/requests/settings", r#"{"all":false}"#);
    client.call(&Request::new("GET", &item("a")).key("p"));
    assert_eq!(requests(&mut manager, &format!("after={first}")).len(), 1);
    let set = manager.ok("PUT", "/requests/settings", r#"{"all":true,"seconds":5}"#);
    assert!(number(&set.json(), "allUntil") > 0);
}

#[test]
fn recorded_requests_are_filtered_by_place_and_status() {
    let (_server, mut client, mut manager) = start_quiet();
    client.create("/dbs", r#"{"id":"123"}"#);
    let after = now(&mut manager);
    manager.ok(
        "POST",
        "/faults",
        r#"{"operations":["read_item"],"count":1,"status":429}"#,
    );
    for path in [
        item("x"),
        item("y"),
        "/dbs/123/colls/none".into(),
        "/dbs/no".into(),
    ] {
        client.call(&Request::new("GET", &path).key("p"));
    }
    let mut count = |query: &str| requests(&mut manager, &format!("after={after}&{query}")).len();
    assert_eq!(count("limit=1000"), 4);
    assert_eq!(count("db=blog"), 2);
    assert_eq!(count("db=123&coll=none"), 1);
    assert_eq!(count("status=429"), 1);
    assert_eq!(count("status=4"), 4);
    assert_eq!(count("status=5"), 0);
    assert_eq!(count("minRu=1000"), 0);
    assert_eq!(count("minMs=100000"), 0);
    assert_eq!(count("limit=3"), 3);
}

#[test]
fn wrong_settings_of_the_log_are_refused_by_name() {
    let (_server, _client, mut manager) = start_quiet();
    for (body, part) in [
        (r#"{"minRu":-1}"#, "'minRu'"),
        (r#"{"minMs":"1"}"#, "'minMs'"),
        (r#"{"all":true,"seconds":7200}"#, "'seconds'"),
        (r#"{"seconds":60}"#, "'seconds'"),
        (r#"{"size":60}"#, "'size'"),
    ] {
        let message = manager.refused("PUT", "/requests/settings", body, 400);
        assert!(message.contains(part), "{message}");
    }
    let settings = manager.get("/requests/settings").json();
    assert_eq!(settings.get("minRu").and_then(Json::as_f64), Some(50.0));
}
