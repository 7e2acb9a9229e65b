//! Ids with unusual characters: control characters are refused for every kind of resource and on
//! every way by which an id reaches the store; a question mark may reach the server as the start of
//! a query string.

use crate::program::{Client, ITEMS, Request, item, start_with_item, text};
use orrery_model::Json;

/// A control character that no id may hold, in JSON.
const BAD: &str = r"a\u0001b";

#[test]
fn every_named_resource_refuses_control_characters() {
    let (_server, mut client) = start_with_item();
    client.create("/dbs/blog/users", r#"{"id":"u"}"#);
    for (path, rest) in [
        ("/dbs", ""),
        (
            "/dbs/blog/colls",
            r#","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}"#,
        ),
        ("/dbs/blog/users", ""),
        (
            "/dbs/blog/users/u/permissions",
            r#","permissionMode":"Read","resource":"dbs/blog/colls/posts""#,
        ),
        (
            "/dbs/blog/colls/posts/sprocs",
            r#","body":"function () {}""#,
        ),
        ("/dbs/blog/colls/posts/udfs", r#","body":"function () {}""#),
        (
            "/dbs/blog/colls/posts/triggers",
            r#","body":"function () {}","triggerType":"Pre","triggerOperation":"All""#,
        ),
    ] {
        let good = format!(r#"{{"id":"good"{rest}}}"#);
        client.create(path, &good);
        for bad in [BAD, r"a\tb", r"a\u007fb", r"\u0000"] {
            let body = format!(r#"{{"id":"{bad}"{rest}}}"#);
            let answer = client.call(&Request::new("POST", path).body(body));
            assert_eq!(answer.code(), (400, 0), "{path} {bad}: {}", answer.text());
        }
    }
}

#[test]
fn no_way_of_writing_an_item_accepts_control_characters() {
    let (_server, mut client) = start_with_item();
    let bad = format!(r#"{{"id":"{BAD}","postId":"p1"}}"#);
    let create = Request::new("POST", ITEMS).key("p1").body(bad.clone());
    let upsert = create.clone().header("x-ms-documentdb-is-upsert", "true");
    let replace = Request::new("PUT", &item("a")).key("p1").body(bad.clone());
    let patch = Request::new("PATCH", &item("a"))
        .key("p1")
        .body(format!(r#"[{{"op":"set","path":"/id","value":"{BAD}"}}]"#));
    for request in [create, upsert, replace, patch] {
        let answer = client.call(&request);
        assert_eq!(answer.status, 400, "{}", answer.text());
    }

    for operation in ["Create", "Upsert"] {
        let batch = format!(r#"[{{"operationType":"{operation}","resourceBody":{bad}}}]"#);
        let request = Request::new("POST", ITEMS)
            .key("p1")
            .header("x-ms-cosmos-is-batch-request", "true")
            .header("x-ms-cosmos-batch-atomic", "true")
            .body(batch);
        let answer = client.call(&request);
        assert!(answer.text().contains("400"), "{}", answer.text());
    }

    client.make_procedure(
        "make",
        "function (body) {
            var items = getContext().getCollection();
            items.createDocument(items.getSelfLink(), body, function (error) {
                if (error) throw new Error('refused: ' + error.number);
            });
        }",
    );
    let run = Request::new("POST", "/dbs/blog/colls/posts/sprocs/make")
        .key("p1")
        .body(format!("[{bad}]"));
    let answer = client.call(&run);
    assert_eq!(answer.status, 400, "{}", answer.text());

    let rows = client.pages(&Request::new("GET", ITEMS)).0;
    let ids: Vec<String> = rows.iter().map(|row: &Json| text(row, "id")).collect();
    assert_eq!(ids, ["a"]);
}

/// The id of an item whose question mark clients leave as it is, and the id before the mark.
const MARKED: &str = "Disallowed?Chars";
const PLAIN: &str = "Disallowed";

/// Creates both items.
fn create_marked(client: &mut Client) {
    for id in [MARKED, PLAIN] {
        client.create(ITEMS, &format!(r#"{{"id":"{id}","postId":"p1"}}"#));
    }
}

/// Returns a request for the item with the question mark, which is signed for it.
fn marked(method: &'static str) -> Request {
    Request::new(method, &item(MARKED)).key("p1")
}

/// Returns the id of the item that a read answers.
fn read_id(client: &mut Client, read: &Request) -> String {
    let answer = client.call(read);
    assert_eq!(answer.status, 200, "{read:?}: {}", answer.text());
    text(&answer.json(), "id")
}

#[test]
fn a_signed_query_string_belongs_to_the_id_of_an_item() {
    let (_server, mut client) = start_with_item();
    create_marked(&mut client);
    assert_eq!(read_id(&mut client, &marked("GET")), MARKED);
    assert_eq!(client.call(&marked("HEAD")).status, 200);
    let replace = marked("PUT").body(format!(r#"{{"id":"{MARKED}","postId":"p1","n":1}}"#));
    assert_eq!(read_id(&mut client, &replace), MARKED);
    let patch = marked("PATCH").body(r#"[{"op":"incr","path":"/n","value":1}]"#);
    assert_eq!(read_id(&mut client, &patch), MARKED);
    assert_eq!(client.call(&marked("DELETE")).status, 204);
    assert_eq!(client.call(&marked("GET")).code(), (404, 0));
    let other = Request::new("GET", &item(PLAIN)).key("p1");
    assert_eq!(read_id(&mut client, &other), PLAIN);
}

#[test]
fn a_query_string_is_no_part_of_the_id_if_the_signature_covers_the_path_alone() {
    let (_server, mut client) = start_with_item();
    create_marked(&mut client);
    let link = |id: &str| format!("dbs/blog/colls/posts/docs/{id}");
    let of_path = marked("GET").signed_as("docs", &link(PLAIN));
    assert_eq!(read_id(&mut client, &of_path), PLAIN);
    let of_another = marked("GET").signed_as("docs", &link("Disallowed?Char"));
    assert_eq!(client.call(&of_another).code(), (401, 0));
    let expired = marked("GET").signed_seconds_ago(3_600);
    assert_eq!(client.call(&expired).code(), (403, 0));
}

#[test]
fn a_query_string_of_an_id_is_decoded_and_may_be_empty() {
    let (_server, mut client) = start_with_item();
    for (id, sent) in [
        ("50%?a b", "50%25?a%20b"),
        ("why?", "why?"),
        ("a?=&", "a?=&"),
    ] {
        client.create(ITEMS, &format!(r#"{{"id":"{id}","postId":"p1"}}"#));
        let link = format!("dbs/blog/colls/posts/docs/{id}");
        let read = Request::new("GET", &item(sent)).key("p1");
        assert_eq!(read_id(&mut client, &read.signed_as("docs", &link)), id);
    }
}

#[test]
fn a_resource_token_reaches_the_id_with_its_query_string() {
    let (_server, mut client) = start_with_item();
    create_marked(&mut client);
    client.create("/dbs/blog/users", r#"{"id":"ann"}"#);
    let mut permit = |id: &str, link: &str| {
        let body = format!(r#"{{"id":"{id}","permissionMode":"Read","resource":"{link}"}}"#);
        let path = "/dbs/blog/users/ann/permissions";
        let made = client.call(&Request::new("POST", path).body(body));
        text(&made.json(), "_token")
    };
    let all = permit("all", "dbs/blog/colls/posts");
    let of_plain = permit("plain", "dbs/blog/colls/posts/docs/Disallowed");
    let of_marked = permit("marked", "dbs/blog/colls/posts/docs/Disallowed?Chars");
    for token in [&all, &of_marked] {
        assert_eq!(read_id(&mut client, &marked("GET").token(token)), MARKED);
    }
    assert_eq!(
        client.call(&marked("GET").token(&of_plain)).code(),
        (403, 0)
    );
}
