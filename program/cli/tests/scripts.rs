//! Failures of scripts, by kind of failure; and triggers of deletions.

use crate::program::{Answer, Client, ITEMS, Request, Server, item, start};
use orrery_model::Json;

const SPROCS: &str = "/dbs/blog/colls/posts/sprocs";

fn server() -> Server {
    start(&["--memory"]).expect("the server starts")
}

fn script(id: &str, source: &str) -> String {
    Json::Object(orrery_model::object! { "id" => id, "body" => source }).to_text()
}

fn trigger(client: &mut Client, id: &str, kind: &str, operation: &str, source: &str) {
    let body = orrery_model::object! {
        "id" => id, "body" => source, "triggerType" => kind, "triggerOperation" => operation,
    };
    client.create(
        "/dbs/blog/colls/posts/triggers",
        &Json::Object(body).to_text(),
    );
}

/// Creates a procedure with this source and runs it.
fn run(client: &mut Client, source: &str) -> Answer {
    let made = client.call(
        &Request::new("POST", SPROCS)
            .header("x-ms-documentdb-is-upsert", "True")
            .body(script("s", source)),
    );
    assert!(made.status < 300, "{}", made.text());
    client.call(&Request::new("POST", &format!("{SPROCS}/s")).key("p"))
}

#[test]
#[expect(clippy::too_many_lines, reason = "a line for each failure")]
fn each_kind_of_script_failure_has_its_status_and_sub_status() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    client.create(ITEMS, r#"{"id":"taken","postId":"p"}"#);
    let link = "var c = getContext().getCollection(), l = c.getSelfLink();";
    for (statements, code, message) in [
        (
            "throw new Error(1234, 'mine');".to_owned(),
            (400, 1234),
            "mine",
        ),
        (
            "throw new Error(409, 'as if');".to_owned(),
            (400, 409),
            "as if",
        ),
        ("throw new Error('plain');".to_owned(), (400, 0), "plain"),
        ("throw 'text';".to_owned(), (400, 0), "text"),
        (
            "null.x;".to_owned(),
            (400, 0),
            "Encountered exception while executing Javascript.",
        ),
        (
            format!("{link} c.createDocument(l, {{ id: 'taken', postId: 'p' }});"),
            (400, 409),
            "409",
        ),
        (
            format!("{link} c.readDocument(l + 'docs/none', function (e) {{ throw e; }});"),
            (400, 400),
            "names no item",
        ),
        (
            format!(
                "{link} c.createDocument(l, {{ id: 'n', postId: 'q' }}, function (e) {{ throw new Error(e.number, e.message); }});"
            ),
            (400, 400),
            "partition keys other than",
        ),
        (
            format!("{link} c.createDocument('dbs/other/', {{ id: 'n' }});"),
            (400, 400),
            "outside current collection",
        ),
        (
            format!(
                "{link} c.createDocument(l, {{ id: 'n', postId: 'p' }}, {{ indexAction: 'sometimes' }});"
            ),
            (400, 400),
            "indexAction",
        ),
    ] {
        let answer = run(&mut client, &format!("function () {{ {statements} }}"));
        assert_eq!(answer.code(), code, "{statements}: {}", answer.text());
        assert!(
            answer.text().contains(message),
            "{statements}: {}",
            answer.text()
        );
        assert!(
            answer.header("x-ms-request-charge").is_some()
                && answer.header("x-ms-session-token").is_some()
        );
    }
    let query = Request::query(ITEMS, "SELECT VALUE c.id FROM c");
    assert_eq!(
        client.call(&query).rows(),
        [Json::from("taken")],
        "nothing of them took place"
    );
}

#[test]
fn a_source_that_does_not_compile_fails_when_it_runs() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let answer = run(&mut client, "function () { let let = 1; }");
    assert_eq!(answer.code(), (400, 65535));
    assert!(
        answer
            .text()
            .contains("Encountered exception while compiling Javascript."),
        "{}",
        answer.text()
    );
    let empty = client.call(&Request::new("POST", SPROCS).body(script("e", "")));
    assert_eq!(empty.code(), (400, 65535));
    for (body, missing) in [
        (r#"{"id":"m"}"#, "'body; '"),
        (r#"{"body":"function () {}"}"#, "'id; '"),
    ] {
        let refused = client.call(&Request::new("POST", SPROCS).body(body));
        assert!(
            refused.status == 400 && refused.text().contains(missing),
            "{}",
            refused.text()
        );
    }
    client.create(
        "/dbs/blog/colls/posts/udfs",
        &script("broken", "function ("),
    );
    client.create(
        "/dbs/blog/colls/posts/udfs",
        &script("throws", "function () { throw new Error(77, 'no'); }"),
    );
    client.create(ITEMS, r#"{"id":"a","postId":"p"}"#);
    let mut query = |text: &str| client.call(&Request::query(ITEMS, text)).code();
    assert_eq!(query("SELECT VALUE udf.throws() FROM c"), (400, 77));
    assert_eq!(query("SELECT VALUE udf.broken() FROM c"), (400, 65535));
    assert_eq!(query("SELECT VALUE udf.none() FROM c").0, 400);
}

#[test]
fn an_execution_needs_a_procedure_and_a_key() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let echo = format!("{SPROCS}/__.sys.echo");
    assert_eq!(
        client
            .call(&Request::new("POST", &format!("{SPROCS}/none")).key("p"))
            .code(),
        (404, 0)
    );
    assert_eq!(client.call(&Request::new("POST", &echo)).code(), (400, 0));
    let two = Request::new("POST", &echo).header("x-ms-documentdb-partitionkey", r#"["a","b"]"#);
    assert_eq!(client.call(&two).code(), (400, 1001));
    for (arguments, answer) in [
        (r#"["x"]"#, Some("\"x\"")),
        ("", Some("\"\"")),
        ("7", None),
        ("{\"length\":1e9}", None),
    ] {
        let ran = client.call(&Request::new("POST", &echo).key("p").body(arguments));
        match answer {
            Some(text) => assert_eq!(
                (ran.status, ran.text()),
                (200, text.to_owned()),
                "{arguments}"
            ),
            None => assert_eq!(ran.code(), (400, 0), "{arguments}"),
        }
    }
}

#[test]
fn the_log_is_percent_encoded_and_there_only_if_the_request_asks() {
    const LOG: &str = "x-ms-documentdb-script-log-results";
    let server = server();
    let mut client = server.client();
    client.make_posts();
    client.make_procedure(
        "logs",
        "function () { console.log('The value of %s is %s.', 'ü', 1); }",
    );
    let execute = Request::new("POST", &format!("{SPROCS}/logs")).key("p");
    assert_eq!(client.call(&execute).header(LOG), None);
    let logged = client.call(&execute.header("x-ms-documentdb-script-enable-logging", "True"));
    assert_eq!(
        logged.header(LOG),
        Some("The%20value%20of%20%C3%BC%20is%201.")
    );
}

#[test]
fn triggers_of_a_deletion_see_the_item_that_goes() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let guard = "function () { var r = getContext().getRequest(); if (r.getOperationType() !== 'Delete') throw new Error(1, 'no deletion'); \
                 if (r.getBody().locked) throw new Error(423, r.getBody().id + ' is locked'); }";
    trigger(&mut client, "guard", "Pre", "Delete", guard);
    let bury = "function () { var c = getContext().getCollection(), gone = getContext().getRequest().getBody(); \
                c.createDocument(c.getSelfLink(), { id: 'grave of ' + gone.id, postId: gone.postId, was: gone._rid }); }";
    trigger(&mut client, "bury", "Post", "All", bury);
    client.create(ITEMS, r#"{"id":"a","postId":"p","locked":true}"#);
    client.create(ITEMS, r#"{"id":"b","postId":"p"}"#);
    let delete = |id: &str| {
        let delete = Request::new("DELETE", &item(id))
            .key("p")
            .header("x-ms-documentdb-pre-trigger-include", "guard");
        delete.header("x-ms-documentdb-post-trigger-include", "bury")
    };
    let refused = client.call(&delete("a"));
    assert_eq!(refused.code(), (400, 423));
    assert!(refused.text().contains("a is locked"), "{}", refused.text());
    assert_eq!(client.call(&delete("b")).status, 204);
    let query = Request::query(
        ITEMS,
        "SELECT VALUE c.id FROM c WHERE NOT IS_DEFINED(c.locked)",
    );
    assert_eq!(client.call(&query).rows(), [Json::from("grave of b")]);
    assert_eq!(
        client
            .call(&Request::new("GET", &item("b")).key("p"))
            .status,
        404
    );
}

#[test]
fn a_trigger_must_exist_and_match_the_write_that_names_it() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    trigger(&mut client, "creates", "Pre", "Create", "function () {}");
    let create = |pre: &str, post: &str| {
        let request = Request::new("POST", ITEMS).body(r#"{"id":"a","postId":"p"}"#);
        let request = if pre.is_empty() {
            request
        } else {
            request.header("x-ms-documentdb-pre-trigger-include", pre)
        };
        if post.is_empty() {
            request
        } else {
            request.header("x-ms-documentdb-post-trigger-include", post)
        }
    };
    for (pre, post) in [("none", ""), ("", "creates"), ("creates,creates", "")] {
        assert_eq!(
            client.call(&create(pre, post)).code(),
            (400, 0),
            "{pre}/{post}"
        );
    }
    assert_eq!(client.call(&create("creates", "")).status, 201);
    let delete = Request::new("DELETE", &item("a"))
        .key("p")
        .header("x-ms-documentdb-pre-trigger-include", "creates");
    assert_eq!(client.call(&delete).code(), (400, 0));
    let database =
        Request::new("POST", "/dbs").header("x-ms-documentdb-pre-trigger-include", "creates");
    assert_eq!(
        client.call(&database.body(r#"{"id":"d"}"#)).code(),
        (400, 0)
    );
    let read = Request::new("GET", &item("a"))
        .key("p")
        .header("x-ms-documentdb-pre-trigger-include", "none");
    assert_eq!(
        client.call(&read).status,
        200,
        "reads do not look at names of triggers"
    );
}
