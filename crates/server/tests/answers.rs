//! Headers that clients read from errors, from responses to HEAD and DELETE, quota, usage and
//! location of every resource; and a JSON body in every error.

use crate::program::{Answer, Client, ITEMS, Request, item, start_with_item, text};
use orrery_model::Rid;
use orrery_model::json::parse;

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

/// Creates a user with a permission, and a second container.
fn create_more(client: &mut Client) {
    client.create("/dbs/blog/users", r#"{"id":"ann"}"#);
    client.create(
        "/dbs/blog/users/ann/permissions",
        r#"{"id":"p","permissionMode":"Read","resource":"dbs/blog/colls/posts"}"#,
    );
    client.create(
        "/dbs/blog/colls",
        r#"{"id":"more","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}"#,
    );
    client.make_procedure("s", "function () {}");
}

#[test]
fn every_deletion_is_answered_with_a_content_type_and_without_a_body() {
    let (_server, mut client) = start_with_item();
    create_more(&mut client);
    for path in [
        item("a"),
        format!("{POSTS}/sprocs/s"),
        "/dbs/blog/users/ann/permissions/p".to_owned(),
        "/dbs/blog/users/ann".to_owned(),
        POSTS.to_owned(),
        "/dbs/blog".to_owned(),
    ] {
        let answer = client.call(&Request::new("DELETE", &path).key("p1"));
        assert_eq!(answer.status, 204, "{path}: {}", answer.text());
        assert_eq!(
            answer.header("content-type"),
            Some("application/json"),
            "{path}"
        );
        assert_eq!(answer.header("content-length"), None, "{path}");
    }
}

#[test]
fn every_answer_but_that_to_a_post_names_the_location_of_the_resource() {
    let (server, mut client) = start_with_item();
    let location = |path: &str| Some(format!("http://{}{path}", server.address));
    let body = r#"{"id":"a","postId":"p1"}"#;
    let patch = r#"[{"op":"set","path":"/n","value":1}]"#;
    let at = |method: &'static str| Request::new(method, &item("a")).key("p1");
    for request in [
        at("GET"),
        at("HEAD"),
        at("PUT").body(body),
        at("PATCH").body(patch),
        at("DELETE"),
    ] {
        let answer = client.call(&request);
        assert!(answer.status < 300, "{request:?}: {}", answer.text());
        let found = answer.header("content-location").map(str::to_owned);
        assert_eq!(found, location(&item("a")), "{request:?}");
    }
    for path in ["/", "/dbs", "/dbs/blog", POSTS, ITEMS, "/offers"] {
        let answer = client.call(&Request::new("GET", path));
        let found = answer.header("content-location").map(str::to_owned);
        assert_eq!(found, location(path), "{path}");
    }
    for request in [
        Request::new("POST", ITEMS).body(body),
        Request::query(ITEMS, "SELECT * FROM c"),
        Request::new("GET", &item("none")).key("p1"),
    ] {
        let answer = client.call(&request);
        assert_eq!(answer.header("content-location"), None, "{request:?}");
    }
}

/// Returns the quota and the usage that an answer states.
fn quota(answer: &Answer) -> (&str, &str) {
    let header = |name| answer.header(name).unwrap_or_else(|| panic!("no {name}"));
    (header("x-ms-resource-quota"), header("x-ms-resource-usage"))
}

#[test]
fn every_successful_answer_about_items_states_the_quota_and_the_usage() {
    let (_server, mut client) = start_with_item();
    let body = r#"{"id":"a","postId":"p1"}"#;
    let at = |method: &'static str| Request::new(method, &item("a")).key("p1");
    let batch = r#"[{"operationType":"Read","id":"a"}]"#;
    for request in [
        at("GET"),
        at("PUT").body(body),
        at("PATCH").body(r#"[{"op":"set","path":"/n","value":1}]"#),
        Request::new("GET", ITEMS),
        Request::new("GET", ITEMS).header("A-IM", "Incremental feed"),
        Request::query(ITEMS, "SELECT * FROM c"),
        Request::new("POST", ITEMS)
            .key("p1")
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True")
            .body(batch),
        at("DELETE"),
        Request::new("POST", ITEMS).body(body),
    ] {
        let answer = client.call(&request);
        assert!(answer.status < 300, "{request:?}: {}", answer.text());
        let (quota, usage) = quota(&answer);
        let names = |text: &str| -> Vec<String> {
            let parts = text.trim_end_matches(';').split(';');
            parts
                .map(|part| part.split('=').next().unwrap_or_default().to_owned())
                .collect()
        };
        let wanted = [
            "documentSize",
            "documentsSize",
            "documentsCount",
            "collectionSize",
        ];
        assert_eq!(
            (names(quota), names(usage)),
            (
                wanted.map(String::from).to_vec(),
                wanted.map(String::from).to_vec()
            )
        );
        // The count may be that of an earlier answer.
        assert!(
            usage.contains("documentsCount=1;") || usage.contains("documentsCount=0;"),
            "{request:?}: {usage}"
        );
    }
    let missing = client.call(&Request::new("GET", &item("none")).key("p1"));
    assert_eq!(missing.header("x-ms-resource-quota"), None, "an error");
}

#[test]
fn every_successful_answer_above_items_states_the_quota_and_the_usage() {
    let (_server, mut client) = start_with_item();
    create_more(&mut client);
    let body = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
    let permissions = "/dbs/blog/users/ann/permissions";
    let procedures = format!("{POSTS}/sprocs");
    let scripts = "storedProcedures=1;triggers=0;functions=0;";
    for (request, usage) in [
        (Request::new("GET", "/dbs"), "databases=1;"),
        (Request::new("GET", "/dbs/blog"), "databases=1;"),
        (
            Request::new("POST", "/dbs").body(r#"{"id":"new"}"#),
            "databases=2;",
        ),
        (Request::new("DELETE", "/dbs/new"), "databases=1;"),
        (Request::new("GET", "/dbs/blog/colls"), "collections=2;"),
        (
            Request::query("/dbs/blog/colls", "SELECT * FROM c"),
            "collections=2;",
        ),
        (Request::new("GET", POSTS), "collections=2;"),
        (Request::new("PUT", POSTS).body(body), "collections=2;"),
        (
            Request::new("DELETE", "/dbs/blog/colls/more"),
            "collections=1;",
        ),
        (Request::new("GET", "/dbs/blog/users"), "users=1;"),
        (Request::new("GET", "/dbs/blog/users/ann"), "users=1;"),
        (Request::new("GET", permissions), "permissions=1;"),
        (
            Request::new("GET", &format!("{permissions}/p")),
            "permissions=1;",
        ),
        (Request::new("GET", &procedures), scripts),
        (Request::query(&procedures, "SELECT * FROM c"), scripts),
    ] {
        let answer = client.call(&request);
        assert!(answer.status < 300, "{request:?}: {}", answer.text());
        let (quota, found) = quota(&answer);
        assert_eq!(found, usage, "{request:?}");
        let name = |text: &str| text.split('=').next().map(str::to_owned);
        assert_eq!(name(quota), name(usage), "{request:?}");
    }
}
