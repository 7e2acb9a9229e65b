//! The protocol as seen by a client without a library: a server on a free port, and requests
//! written byte by byte.

use crate::program::{Answer, Client, ITEMS, Request, Server, item, start};
use orrery_model::Json;
use orrery_model::json::parse;

const POSTS: &str = "/dbs/blog/colls/posts";

fn server() -> (Server, Client) {
    let server = start(&["--memory", "--log-level", "debug"]).expect("it starts");
    let client = server.client();
    (server, client)
}

/// Starts a server with the container `posts`, whose partition key is `/postId`.
fn start_with_posts() -> (Server, Client) {
    let (server, mut client) = server();
    client.make_posts();
    (server, client)
}

fn create_post(client: &mut Client, key: &str, body: &str) -> Answer {
    client.call(
        &Request::new("POST", &format!("{ITEMS}/"))
            .key(key)
            .body(body),
    )
}

#[test]
fn a_signature_lives_fifteen_minutes() {
    let (_server, mut client) = server();
    // A margin of a minute, for a busy machine.
    for age in [-240, 0, 540] {
        let answer = client.call(&Request::new("GET", "/").signed_seconds_ago(age));
        assert_eq!(answer.status, 200, "{age} s: {}", answer.text());
    }
    for age in [-360, 660, 3600] {
        let answer = client.call(&Request::new("GET", "/").signed_seconds_ago(age));
        assert!(
            answer
                .error(403, None, "Forbidden")
                .contains("token expiry time"),
            "{age} s"
        );
    }
}

#[test]
fn the_account_names_the_address_that_was_used() {
    let (server, mut client) = server();
    let answer = client.call(&Request::new("GET", "/").header("x-ms-activity-id", "my-own-id"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("x-ms-activity-id"), Some("my-own-id"));
    assert!(answer.text().contains(&format!(
        "\"databaseAccountEndpoint\":\"http://{}/\"",
        server.address
    )));
}

#[test]
fn the_account_offers_no_thin_client() {
    let (_server, mut client) = server();
    let account = client.call(&Request::new("GET", "/")).json();
    let members: Vec<&str> = account
        .as_object()
        .expect("an object")
        .iter()
        .map(|(name, _)| name)
        .collect();
    assert!(members.contains(&"writableLocations"), "{members:?}");
    assert!(
        !members
            .iter()
            .any(|name| name.to_lowercase().starts_with("thinclient")),
        "{members:?}"
    );
}

#[test]
fn an_unknown_path_is_404_and_an_unsupported_method_405() {
    let (_server, mut client) = server();
    client
        .call(&Request::new("GET", "/nowhere").signed_as("", ""))
        .error(404, None, "NotFound");
    let answer = client.call(&Request::new("PUT", "/dbs/blog"));
    answer.error(405, None, "MethodNotAllowed");
    assert_eq!(answer.header("allow"), Some("GET, HEAD, DELETE"));
}

#[test]
fn unsupported_features_are_refused_by_name() {
    let (_server, mut client) = server();
    let answer = client.call(&Request::new(
        "POST",
        &format!("{POSTS}/operations/collectiontruncate"),
    ));
    let message = answer.error(400, None, "BadRequest");
    assert!(
        message.contains("Emptying a container (collectiontruncate) is not supported"),
        "{message}"
    );
}

#[test]
fn a_body_over_two_megabytes_is_413() {
    let (_server, mut client) = server();
    let answer = client.call(&Request::new("POST", ITEMS).body(vec![b' '; 3 * 1024 * 1024]));
    answer.error(413, None, "RequestEntityTooLarge");
}

#[test]
fn an_item_that_is_no_json_or_has_no_id_is_400() {
    let (_server, mut client) = start_with_posts();
    create_post(&mut client, "p1", r#"{"id":"p1","postId":"#).error(400, None, "BadRequest");
    create_post(&mut client, "p1", r#"{"postId":"p1"}"#).error(400, None, "BadRequest");
}

#[test]
fn a_key_that_disagrees_with_the_item_is_400_1001() {
    let (_server, mut client) = start_with_posts();
    let answer = create_post(&mut client, "p2", r#"{"id":"p1","postId":"p1"}"#);
    let message = answer.error(400, Some("1001"), "BadRequest");
    assert!(
        message.contains("doesn't match partition key field values specified in the document"),
        "{message}"
    );
}

#[test]
fn an_item_comes_back_with_its_etag_and_one_session_token() {
    let (_server, mut client) = start_with_posts();
    let created = create_post(&mut client, "p1", r#"{"id":"p1","postId":"p1"}"#);
    assert_eq!(created.status, 201, "{}", created.text());
    let read = client.call(&Request::new("GET", &item("p1")).key("p1"));
    assert_eq!(
        (read.status, read.header("etag")),
        (200, created.header("etag"))
    );
    let token = read.header("x-ms-session-token").expect("a session token");
    assert!(
        token.starts_with("0:") && token.contains('#') && !token.contains(','),
        "{token}"
    );
    assert_eq!(
        read.header("x-ms-alt-content-path"),
        Some("dbs/blog/colls/posts")
    );
    let again = create_post(&mut client, "p1", r#"{"id":"p1","postId":"p1"}"#);
    again.error(409, None, "Conflict");
    assert!(again.header("x-ms-session-token").is_some());
}

#[test]
fn a_query_with_wrong_syntax_is_400_with_sc1001() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&Request::query(ITEMS, "SELECT * FORM c"));
    assert!(answer.error(400, None, "BadRequest").contains("SC1001"));
}

#[test]
fn a_server_that_leaves_merging_to_clients_sends_them_the_plan_with_400_1004() {
    let server = start(&["--memory", "--cross-partition-queries", "refuse"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let query = |text: &str| Request::query(ITEMS, text);
    assert_eq!(
        client.call(&query("SELECT * FROM c")).status,
        200,
        "nothing needs merging"
    );
    let refused = client.call(&query("SELECT VALUE COUNT(1) FROM c"));
    refused.error(400, Some("1004"), "BadRequest");
    let body = refused.json();
    let plan = body
        .get("additionalErrorInfo")
        .and_then(Json::as_str)
        .expect("a plan as text");
    assert!(
        parse(plan.as_bytes())
            .expect("JSON")
            .get("queryInfo")
            .is_some(),
        "{plan}"
    );
}

#[test]
fn a_missing_container_is_named_as_the_missing_owner() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&Request::new("GET", "/dbs/blog/colls/none/docs/p1").key("p1"));
    answer.error(404, Some("1003"), "NotFound");
}

#[test]
fn ranges_are_not_modified_for_a_reader_who_has_them() {
    let (_server, mut client) = start_with_posts();
    let ranges =
        Request::new("GET", &format!("{POSTS}/pkranges")).header("A-IM", "Incremental feed");
    let first = client.call(&ranges);
    assert_eq!(
        (first.status, first.header("x-ms-item-count")),
        (200, Some("1")),
        "{}",
        first.text()
    );
    let etag = first.header("etag").expect("an etag").to_owned();
    let again = client.call(&ranges.header("If-None-Match", etag.as_str()));
    assert_eq!(
        (again.status, again.header("x-ms-item-count")),
        (304, Some("0"))
    );
    assert_eq!(again.header("etag"), Some(etag.as_str()));
}

#[test]
fn a_change_feed_without_news_is_304_with_its_etag_and_a_count() {
    let (_server, mut client) = start_with_posts();
    create_post(&mut client, "p1", r#"{"id":"p1","postId":"p1"}"#);
    let poll = Request::new("GET", ITEMS).header("A-IM", "Incremental Feed");
    let poll = poll.header("x-ms-documentdb-partitionkeyrangeid", "0");
    let first = client.call(&poll);
    assert_eq!(
        (first.status, first.header("x-ms-item-count")),
        (200, Some("1")),
        "{}",
        first.text()
    );
    let etag = first.header("etag").expect("an etag").to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    let second = client.call(&poll.header("If-None-Match", etag.as_str()));
    assert_eq!(
        (
            second.status,
            second.header("x-ms-item-count"),
            second.body.len()
        ),
        (304, Some("0"), 0)
    );
    assert_eq!(second.header("etag"), Some(etag.as_str()));
    assert!(second.header("x-ms-session-token").is_some());
}

#[test]
fn a_minimal_response_has_headers_and_an_empty_body() {
    let (_server, mut client) = start_with_posts();
    let create = Request::new("POST", ITEMS)
        .header("Prefer", "return=minimal")
        .body(r#"{"id":"p1","postId":"p1"}"#);
    let created = client.call(&create);
    assert_eq!(
        (
            created.status,
            created.header("content-length"),
            created.body.len()
        ),
        (201, Some("0"), 0)
    );
    let etag = created.header("etag").expect("an etag");
    let deleted = client.call(
        &Request::new("DELETE", &item("p1"))
            .key("p1")
            .header("If-Match", etag),
    );
    assert_eq!(
        (deleted.status, deleted.body.len()),
        (204, 0),
        "{}",
        deleted.text()
    );
}

#[test]
fn a_request_that_names_no_partition_key_is_refused() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(&Request::new("GET", &item("p1")));
    assert!(
        answer
            .error(400, None, "BadRequest")
            .contains("PartitionKey value must be supplied")
    );
}

#[test]
fn a_container_that_was_replaced_is_400_1024() {
    let (_server, mut client) = start_with_posts();
    let answer = client.call(
        &Request::new("GET", POSTS).header("x-ms-cosmos-intended-collection-rid", "XP0mAJ3H-AA="),
    );
    answer.error(400, Some("1024"), "BadRequest");
}

#[cfg(unix)]
#[test]
fn sigterm_stops_a_server_despite_a_silent_client() {
    let (server, mut client) = server();
    let silent = server.stream();
    client.call(&Request::new("GET", "/"));
    let exit = server.stop();
    assert_eq!(exit.code, Some(0));
    let waited_in_vain = exit.stderr.contains("were aborted");
    assert!(
        !waited_in_vain,
        "it waited for a client that had asked for nothing"
    );
    drop(silent);
}
