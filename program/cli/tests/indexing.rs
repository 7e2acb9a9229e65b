//! Indexing policies that do not index automatically, and the indexing directive of writes.

use crate::program::{Client, ITEMS, Request, Server, item, start};
use orrery_test_wait::wait_for;

const CONTAINER: &str = "/dbs/blog/colls/posts";
const DIRECTIVE: &str = "x-ms-indexing-directive";

/// Starts a server with a container whose policy has this member `automatic`.
fn with_policy(automatic: bool) -> (Server, Client) {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    client.create("/dbs/blog/colls", &body_with(automatic));
    (server, client)
}

fn body_with(automatic: bool) -> String {
    format!(
        r#"{{"id":"posts","partitionKey":{{"paths":["/postId"],"kind":"Hash","version":2}},
            "indexingPolicy":{{"indexingMode":"consistent","automatic":{automatic}}}}}"#
    )
}

/// Creates an item with an indexing directive; without one if it is empty.
fn create(client: &mut Client, id: &str, directive: &str) {
    let body = format!(r#"{{"id":"{id}","postId":"p","n":1}}"#);
    let mut request = Request::new("POST", ITEMS).body(body);
    if !directive.is_empty() {
        request = request.header(DIRECTIVE, directive);
    }
    let made = client.call(&request);
    assert_eq!(made.status, 201, "{}", made.text());
}

/// Returns the rows of a query as one text.
fn rows(client: &mut Client, query: &str) -> String {
    let answer = client.call(&Request::query(ITEMS, query));
    let rows = answer.json().get("Documents").map(|rows| rows.to_text());
    rows.unwrap_or_else(|| panic!("{query}: {}", answer.text()))
}

/// Checks which items queries see, whatever index they use. `ids` has the ids in order.
fn check_seen(client: &mut Client, ids: &[&str]) {
    let list = format!(
        "[{}]",
        ids.iter()
            .map(|id| format!("{id:?}"))
            .collect::<Vec<_>>()
            .join(",")
    );
    for query in [
        "SELECT VALUE c.id FROM c WHERE c.n = 1 ORDER BY c.id",
        "SELECT VALUE c.id FROM c ORDER BY c.id",
        "SELECT VALUE c.id FROM c WHERE ABS(c.n) = 1 ORDER BY c.id",
        "SELECT VALUE c.id FROM c WHERE c.postId = 'p' ORDER BY c.id",
        "SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.x) ORDER BY c.id",
        "SELECT DISTINCT VALUE c.id FROM c ORDER BY c.id",
    ] {
        assert_eq!(rows(client, query), list, "{query}");
    }
    for query in [
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT VALUE COUNT(1) FROM c WHERE c.n = 1",
        "SELECT VALUE COUNT(c.n) FROM c",
        "SELECT VALUE SUM(c.n) FROM c",
        "SELECT VALUE COUNT(1) FROM c WHERE c.postId = 'p'",
    ] {
        let count = ids.len();
        assert_eq!(rows(client, query), format!("[{count}]"), "{query}");
    }
}

/// Returns the number of items in the read feed and in the change feed.
fn feeds(client: &mut Client) -> (usize, usize) {
    let feed = client.call(&Request::new("GET", ITEMS)).rows().len();
    let changes = Request::new("GET", ITEMS).header("A-IM", "Incremental feed");
    (feed, client.call(&changes).rows().len())
}

#[test]
fn a_policy_that_is_not_automatic_indexes_only_the_items_that_say_so() {
    let (_server, mut client) = with_policy(false);
    let shown = client.call(&Request::new("GET", CONTAINER));
    assert!(
        shown.text().contains(r#""automatic":false"#),
        "{}",
        shown.text()
    );
    create(&mut client, "plain", "");
    create(&mut client, "default", "Default");
    create(&mut client, "in", "Include");
    create(&mut client, "out", "Exclude");
    check_seen(&mut client, &["in"]);
    assert_eq!(feeds(&mut client), (4, 4));
    for id in ["plain", "default", "in", "out"] {
        let read = client.call(&Request::new("GET", &item(id)).key("p"));
        assert_eq!(read.status, 200, "{id}");
    }

    // Each write says anew what becomes of the item.
    let replace = |id: &str, directive: &str| {
        let body = format!(r#"{{"id":"{id}","postId":"p","n":1}}"#);
        let request = Request::new("PUT", &item(id)).key("p").body(body);
        request.header(DIRECTIVE, directive)
    };
    assert_eq!(client.call(&replace("plain", "Include")).status, 200);
    assert_eq!(client.call(&replace("in", "Default")).status, 200);
    check_seen(&mut client, &["plain"]);
}

#[test]
fn an_automatic_policy_indexes_the_items_that_exclude_themselves() {
    let (_server, mut client) = with_policy(true);
    create(&mut client, "a", "");
    create(&mut client, "b", "Include");
    check_seen(&mut client, &["a", "b"]);
    create(&mut client, "c", "Exclude");
    check_seen(&mut client, &["a", "b", "c"]);
    assert_eq!(feeds(&mut client), (3, 3));
    let operations = r#"[{"operationType":"Create","indexingDirective":"Exclude",
            "resourceBody":{"id":"d","postId":"p","n":1}},
        {"operationType":"Create","indexingDirective":"Include",
            "resourceBody":{"id":"e","postId":"p","n":1}}]"#;
    let batch = Request::new("POST", ITEMS)
        .key("p")
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "True")
        .body(operations);
    let answer = client.call(&batch);
    assert_eq!(answer.status, 200, "{}", answer.text());
    check_seen(&mut client, &["a", "b", "c", "d", "e"]);
}

#[test]
fn a_policy_may_become_automatic_and_back() {
    let (_server, mut client) = with_policy(false);
    create(&mut client, "in", "Include");
    create(&mut client, "out", "Exclude");
    create(&mut client, "plain", "");
    for (automatic, seen) in [(true, &["in", "out", "plain"][..]), (false, &["in"])] {
        let replace = Request::new("PUT", CONTAINER).body(body_with(automatic));
        let replaced = client.call(&replace);
        assert_eq!(replaced.status, 200, "{}", replaced.text());
        // The index follows in the background; queries are right meanwhile and afterwards.
        check_seen(&mut client, seen);
        let read =
            Request::new("GET", CONTAINER).header("x-ms-documentdb-populatequotainfo", "True");
        let progress = "x-ms-documentdb-collection-index-transformation-progress";
        let percent = || client.call(&read).header(progress).map(str::to_owned);
        wait_for("the whole index", percent, |percent| {
            percent.as_deref() == Some("100")
        });
        check_seen(&mut client, seen);
    }
}
