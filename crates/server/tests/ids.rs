//! Ids with control characters: refused for every kind of resource and on every way by which an id
//! reaches the store.

mod program;

use orrery_model::Json;
use program::{ITEMS, Request, item, start_with_item, text};

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
