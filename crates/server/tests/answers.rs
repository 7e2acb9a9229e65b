//! Headers that clients read from errors, from responses to HEAD and from scripts; and a JSON body
//! in every error.

mod program;

use orrery_model::Rid;
use orrery_model::json::parse;
use program::{ITEMS, Request, item, start_with_item, text};

const POSTS: &str = "/dbs/blog/colls/posts";

#[test]
fn a_head_response_is_the_get_response_without_its_body() {
    let (_server, mut client) = start_with_item();
    for (path, status) in [
        (item("a"), 200),
        (ITEMS.to_owned(), 200),
        (item("none"), 404),
    ] {
        let get = client.call(&Request::new("GET", &path).key("p1"));
        // The connection is used again: a response to HEAD with a body would be read as the head of
        // the next response.
        let head = client.call(&Request::new("HEAD", &path).key("p1"));
        assert_eq!((get.status, head.status), (status, status), "{path}");
        assert!(head.body.is_empty() && !get.body.is_empty());
        for name in [
            "etag",
            "x-ms-session-token",
            "x-ms-item-count",
            "content-type",
            "x-ms-alt-content-path",
        ] {
            assert_eq!(head.header(name), get.header(name), "{name} of {path}");
        }
        assert!(
            head.header("content-length")
                .is_some_and(|length| length != "0"),
            "{path}"
        );
    }
}

#[test]
fn errors_about_items_carry_the_session_and_the_container() {
    let (_server, mut client) = start_with_item();
    let rid = text(&client.call(&Request::new("GET", POSTS)).json(), "_rid");
    assert!(Rid::parse(&rid).is_some_and(|rid| rid.is_container()));
    let stale = Request::new("PUT", &item("a"))
        .key("p1")
        .header("If-Match", "\"stale\"");
    for (request, status) in [
        (Request::new("GET", &item("none")).key("p1"), 404),
        (
            Request::new("POST", ITEMS).body(r#"{"id":"a","postId":"p1"}"#),
            409,
        ),
        (stale.body(r#"{"id":"a","postId":"p1"}"#), 412),
    ] {
        let answer = client.call(&request);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(
            answer
                .header("x-ms-session-token")
                .is_some_and(|token| token.starts_with("0:")),
            "{status}"
        );
        assert_eq!(
            answer.header("x-ms-alt-content-path"),
            Some("dbs/blog/colls/posts"),
            "{status}"
        );
        assert_eq!(
            answer.header("x-ms-content-path"),
            Some(rid.as_str()),
            "{status}"
        );
    }
}

#[test]
fn a_session_that_is_not_reached_gets_the_lsn_of_the_partition() {
    let (_server, mut client) = start_with_item();
    let own = client.call(&Request::new("GET", &item("a")).key("p1"));
    let ahead = format!("0:-1#{}", own.lsn() + 1_000);
    for request in [
        Request::new("GET", &item("a")).key("p1"),
        Request::query(ITEMS, "SELECT * FROM c"),
        Request::new("GET", ITEMS),
        Request::new("GET", ITEMS).header("A-IM", "Incremental feed"),
    ] {
        let answer = client.call(&request.header("x-ms-session-token", ahead.as_str()));
        assert_eq!(answer.code(), (404, 1002), "{}", answer.text());
        assert_eq!(answer.lsn(), own.lsn());
        assert_eq!(answer.header("lsn"), Some(own.lsn().to_string().as_str()));
    }
}

#[test]
fn scripts_are_answered_with_the_quota() {
    let (_server, mut client) = start_with_item();
    for (kind, more) in [
        ("sprocs", ""),
        ("udfs", ""),
        (
            "triggers",
            r#","triggerType":"Pre","triggerOperation":"All""#,
        ),
    ] {
        let (feed, one) = (format!("{POSTS}/{kind}"), format!("{POSTS}/{kind}/s"));
        let body = format!(r#"{{"id":"s","body":"function () {{}}"{more}}}"#);
        for (request, status) in [
            (Request::new("POST", &feed).body(body.as_str()), 201),
            (Request::new("GET", &one), 200),
            (Request::new("PUT", &one).body(body.as_str()), 200),
            (Request::new("DELETE", &one), 204),
        ] {
            let answer = client.call(&request);
            assert_eq!(answer.status, status, "{kind}: {}", answer.text());
            for name in ["x-ms-resource-quota", "x-ms-resource-usage"] {
                assert!(
                    answer
                        .header(name)
                        .is_some_and(|value| value.contains("storedProcedures=")),
                    "{kind}: {name}"
                );
            }
        }
    }
}

#[test]
fn a_head_that_is_too_large_is_refused_in_json() {
    let (_server, mut client) = start_with_item();
    let token = "0:-1#1,".repeat(10_000);
    let long = Request::new("GET", ITEMS).header("x-ms-session-token", token);
    let many = (0..150).fold(Request::new("GET", ITEMS), |request, _| {
        request.header("x-many", "1")
    });
    for request in [long, many] {
        let answer = client.call(&request);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (400, Some("application/json"))
        );
        let body = parse(&answer.body).expect("JSON");
        assert!(
            text(&body, "message").contains("at most 128 of 65536 bytes"),
            "{}",
            answer.text()
        );
        assert!(answer.header("x-ms-activity-id").is_some());
    }
    assert_eq!(
        client.call(&Request::new("GET", ITEMS)).rows().len(),
        1,
        "the connection stays open"
    );
}

#[test]
fn a_replace_needs_the_partition_key_of_the_item() {
    let (_server, mut client) = start_with_item();
    let body = r#"{"id":"a","postId":"p1","n":1}"#;
    let answer = client.call(&Request::new("PUT", &item("a")).body(body));
    assert_eq!(answer.code(), (400, 0), "{}", answer.text());
    assert!(
        answer
            .text()
            .contains("PartitionKey value must be supplied"),
        "{}",
        answer.text()
    );
    assert_eq!(
        client
            .call(&Request::new("PUT", &item("a")).key("p1").body(body))
            .status,
        200
    );
}

#[test]
fn ids_may_hold_what_a_path_must_encode() {
    let (_server, mut client) = start_with_item();
    for (id, segment) in [
        ("why?", "why%3F"),
        ("#1", "%231"),
        ("a+b=c", "a+b=c"),
        ("ü %", "%C3%BC%20%25"),
    ] {
        let body = format!(r#"{{"id":"{id}","postId":"p1"}}"#);
        client.create(ITEMS, &body);
        let link = format!("dbs/blog/colls/posts/docs/{id}");
        let read = client.call(
            &Request::new("GET", &item(segment))
                .signed_as("docs", &link)
                .key("p1"),
        );
        assert_eq!(read.status, 200, "{id}: {}", read.text());
        assert_eq!(text(&read.json(), "id"), id);
    }
    for id in ["a/b", r"a\\b"] {
        let body = format!(r#"{{"id":"{id}","postId":"p1"}}"#);
        assert_eq!(
            client.call(&Request::new("POST", ITEMS).body(body)).status,
            400,
            "{id}"
        );
    }
}
