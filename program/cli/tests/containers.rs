//! Properties of a container that restrict its items: containers without a partition key, null and
//! missing keys, unique keys, times to live, and ids.

use crate::program::{Client, ITEMS, Request, Server, item, start, text};
use orrery_model::Json;

const KEY: &str = "x-ms-documentdb-partitionkey";

fn server() -> Server {
    start(&["--memory"]).expect("the server starts")
}

/// Starts a server with the container `posts` that has these members.
fn with_container(members: &str) -> (Server, Client) {
    let server = server();
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    client.create("/dbs/blog/colls", &format!(r#"{{"id":"posts"{members}}}"#));
    (server, client)
}

fn post(client: &mut Client, body: &str) -> (u16, u32) {
    client.call(&Request::new("POST", ITEMS).body(body)).code()
}

fn ids(client: &mut Client, request: &Request) -> Vec<String> {
    client
        .call(request)
        .rows()
        .iter()
        .map(|row| text(row, "id"))
        .collect()
}

/// Encodes an id as clients encode a path segment.
fn encoded(id: &str) -> String {
    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC).to_string()
}

#[test]
fn a_container_without_a_key_keeps_its_items_under_the_empty_one() {
    let (_server, mut client) = with_container("");
    let shown = client
        .call(&Request::new("GET", "/dbs/blog/colls/posts"))
        .json();
    let key = shown.get("partitionKey").expect("a key");
    assert_eq!(
        key.to_text(),
        r#"{"paths":["/_partitionKey"],"kind":"Hash","systemKey":true}"#
    );
    assert_eq!(post(&mut client, r#"{"id":"a"}"#), (201, 0));
    let named = Request::new("POST", ITEMS)
        .header(KEY, "[]")
        .body(r#"{"id":"b"}"#);
    assert_eq!(client.call(&named).status, 201);
    // An item written with an explicit partition key is in another logical partition.
    assert_eq!(
        post(&mut client, r#"{"id":"a","_partitionKey":"x"}"#),
        (201, 0)
    );
    for empty in [None, Some("[]"), Some("[{}]")] {
        let read = Request::new("GET", &item("a"));
        let read = empty.map_or(read.clone(), |key| read.header(KEY, key));
        let answer = client.call(&read);
        assert_eq!(
            (answer.status, answer.json().get("_partitionKey")),
            (200, None),
            "{empty:?}"
        );
    }
    assert_eq!(
        client
            .call(&Request::new("GET", &item("b")).key("x"))
            .status,
        404
    );
    assert_eq!(
        client
            .call(&Request::new("GET", &item("a")).key("x"))
            .status,
        200
    );
    let all = Request::query(ITEMS, "SELECT * FROM c ORDER BY c.id");
    assert_eq!(ids(&mut client, &all), ["a", "a", "b"]);
    assert_eq!(ids(&mut client, &all.clone().header(KEY, "[]")), ["a", "b"]);
    assert_eq!(ids(&mut client, &all.clone().key("x")), ["a"]);
    let beginning = all
        .header("x-ms-start-epk", "")
        .header("x-ms-end-epk", "00");
    assert_eq!(
        ids(&mut client, &beginning),
        ["a", "b"],
        "as clients compute where the empty key lies"
    );
    let echo = Request::new("POST", "/dbs/blog/colls/posts/sprocs/__.sys.echo").body(r#"["here"]"#);
    assert_eq!(client.call(&echo).text(), r#""here""#);
    assert_eq!(client.call(&Request::new("DELETE", &item("a"))).status, 204);
    assert_eq!(
        client
            .call(&Request::new("GET", &item("a")).key("x"))
            .status,
        200
    );
}

#[test]
fn an_empty_key_names_no_item_where_there_is_a_key() {
    let (_server, mut client) =
        with_container(r#","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#);
    for (id, key, member) in [
        ("a", "[null]", r#","pk":null"#),
        ("b", "[{}]", ""),
        ("c", r#"["x"]"#, r#","pk":"x""#),
    ] {
        let create = Request::new("POST", ITEMS)
            .header(KEY, key)
            .body(format!(r#"{{"id":"{id}"{member}}}"#));
        assert_eq!(client.call(&create).status, 201, "{key}");
        for other in ["[null]", "[{}]", r#"["x"]"#] {
            let status = client
                .call(&Request::new("GET", &item(id)).header(KEY, other))
                .status;
            assert_eq!(
                status,
                if other == key { 200 } else { 404 },
                "{id} under {other}"
            );
        }
        assert_eq!(
            ids(
                &mut client,
                &Request::query(ITEMS, "SELECT * FROM c").header(KEY, key)
            ),
            [id]
        );
    }
    assert_eq!(
        client
            .call(&Request::new("GET", &item("b")).header(KEY, "[]"))
            .code(),
        (400, 1001)
    );
    assert_eq!(
        client.call(&Request::new("GET", &item("b"))).code(),
        (400, 0)
    );
    let query = Request::query(ITEMS, "SELECT * FROM c ORDER BY c.id").header(KEY, "[]");
    assert_eq!(
        ids(&mut client, &query),
        ["a", "b", "c"],
        "to a query the empty key is none"
    );
}

#[test]
fn a_missing_unique_value_counts_as_null_and_is_there_once() {
    let (_server, mut client) = with_container(
        r#","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
            "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]},{"paths":["/name/first","/name/last"]}]}"#,
    );
    let mut post = |id: &str, pk: &str, members: &str| {
        post(
            &mut client,
            &format!(r#"{{"id":"{id}","pk":"{pk}"{members}}}"#),
        )
    };
    assert_eq!(
        post("1", "p", r#","mail":"a","name":{"first":"x","last":"y"}"#),
        (201, 0)
    );
    assert_eq!(
        post("2", "p", r#","mail":"a","name":{"first":"x"}"#),
        (409, 0),
        "a mail that is taken"
    );
    assert_eq!(
        post("2", "p", r#","mail":"A","name":{"first":"x","last":"y"}"#),
        (409, 0),
        "a name that is taken"
    );
    assert_eq!(
        post("2", "p", r#","mail":"A","name":{"first":"x"}"#),
        (201, 0),
        "letters' cases differ"
    );
    assert_eq!(
        post("3", "p", r#","mail":"b","name":{"first":"x","last":null}"#),
        (409, 0),
        "missing is null"
    );
    assert_eq!(post("3", "p", r#","name":{"last":"y"}"#), (201, 0));
    assert_eq!(
        post("4", "p", r#","mail":null,"name":{"last":"z"}"#),
        (409, 0),
        "null is there already"
    );
    assert_eq!(
        post("4", "q", r#","mail":null,"name":{"last":"z"}"#),
        (201, 0),
        "another logical partition"
    );
    assert_eq!(post("5", "q", r#","name":{"last":"y"}"#), (409, 0));
    let freed = client.call(&Request::new("DELETE", &item("3")).key("p"));
    assert_eq!(freed.status, 204);
    assert_eq!(
        self::post(&mut client, r#"{"id":"6","pk":"p","name":{"last":"y"}}"#),
        (201, 0)
    );
    let replaced = Request::new("PUT", &item("6"))
        .key("p")
        .body(r#"{"id":"6","pk":"p","mail":"a"}"#);
    assert_eq!(
        client.call(&replaced).code(),
        (409, 0),
        "a replacement may not take what is taken"
    );
    let body = r#"{"id":"posts","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    let changed = client.call(&Request::new("PUT", "/dbs/blog/colls/posts").body(body));
    assert!(
        changed.status == 400 && changed.text().contains("uniqueKeyPolicy"),
        "{}",
        changed.text()
    );
}

#[test]
fn times_to_live_are_minus_one_or_positive_whole_numbers() {
    let definition = r#","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#;
    let (_server, mut client) = with_container(&format!(r#"{definition},"defaultTtl":-1"#));
    let bad = ["0", "-2", "1.5", "2147483648", "\"5\"", "true", "[]"];
    for ttl in bad {
        let container = format!(r#"{{"id":"other"{definition},"defaultTtl":{ttl}}}"#);
        assert_eq!(
            client
                .call(&Request::new("POST", "/dbs/blog/colls").body(container))
                .code(),
            (400, 0),
            "{ttl}"
        );
        assert_eq!(
            post(
                &mut client,
                &format!(r#"{{"id":"a","pk":"p","ttl":{ttl}}}"#)
            ),
            (400, 0),
            "{ttl}"
        );
    }
    assert_eq!(
        post(&mut client, r#"{"id":"a","pk":"p","ttl":null}"#),
        (400, 0)
    );
    for ttl in ["-1", "1000", "2147483647", "5.0"] {
        assert_eq!(
            post(
                &mut client,
                &format!(r#"{{"id":"t{ttl}","pk":"p","ttl":{ttl}}}"#)
            ),
            (201, 0),
            "{ttl}"
        );
    }
    let shown = client
        .call(&Request::new("GET", "/dbs/blog/colls/posts"))
        .json();
    assert_eq!(shown.get("defaultTtl").and_then(Json::as_i64), Some(-1));
    // A container without expiry has no time to live in its description.
    let replaced = format!(r#"{{"id":"posts"{definition}}}"#);
    let replaced = client.call(&Request::new("PUT", "/dbs/blog/colls/posts").body(replaced));
    assert_eq!(replaced.status, 200, "{}", replaced.text());
    assert_eq!(replaced.json().get("defaultTtl"), None);
}

#[test]
fn an_item_s_id_may_hold_any_character_but_backslashes_and_control_characters() {
    let (_server, mut client) =
        with_container(r#","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#);
    let longest = "é".repeat(511) + "x";
    for id in [
        "This is a test",
        "  Test",
        "Test  ",
        "WithUnicode鱀",
        "WithAllowedSpecial,=.:~+-@()^${}[]!_Chars",
        "IdEndingWithPercentEncodedWhitespace%20",
        "WithPercentEncodedSpecialChar%E9%B1%80",
        "Disallowed?Chars",
        "Disallowed#Chars",
        "With\rCarriageReturn",
        "With\tTab",
        "With/Slash",
        "With/attachments/Slashes",
        "With\nLineFeed",
        "\"quoted\"",
        &longest,
    ] {
        let body = Json::Object(orrery_model::object! { "id" => id, "pk" => "p" }).to_text();
        assert_eq!(post(&mut client, &body), (201, 0), "{id:?}");
        let path = format!("{ITEMS}/{}", encoded(id));
        let signed = |method| {
            Request::new(method, &path)
                .signed_as("docs", &format!("dbs/blog/colls/posts/docs/{id}"))
                .key("p")
        };
        let read = client.call(&signed("GET"));
        assert_eq!(
            (read.status, text(&read.json(), "id")),
            (200, id.to_owned()),
            "{id:?}"
        );
        assert_eq!(client.call(&signed("PUT").body(body)).status, 200, "{id:?}");
        assert_eq!(client.call(&signed("DELETE")).status, 204, "{id:?}");
    }
    for body in [
        r#"{"id":"a\\b","pk":"p"}"#.to_owned(),
        r#"{"id":"","pk":"p"}"#.to_owned(),
        r#"{"id":7,"pk":"p"}"#.to_owned(),
        r#"{"pk":"p"}"#.to_owned(),
        format!(r#"{{"id":"{longest}x","pk":"p"}}"#),
        r#"{"id":"a\u0000b","pk":"p"}"#.to_owned(),
        r#"{"id":"\u0001","pk":"p"}"#.to_owned(),
        r#"{"id":"a\u001b[2Jb","pk":"p"}"#.to_owned(),
        r#"{"id":"a\u007f","pk":"p"}"#.to_owned(),
        r#"{"id":"a\u0085","pk":"p"}"#.to_owned(),
    ] {
        assert_eq!(post(&mut client, &body), (400, 0), "{body}");
    }
}

#[test]
fn ids_of_databases_and_containers_hold_no_character_that_ends_a_path() {
    let server = server();
    let mut client = server.client();
    let longest = "ü".repeat(255);
    for id in [
        "a b",
        " leading",
        "Ünï-cödé",
        "100%",
        "plus+and=and&",
        &longest,
    ] {
        let body = Json::Object(orrery_model::object! { "id" => id }).to_text();
        client.create("/dbs", &body);
        let read = Request::new("GET", &format!("/dbs/{}", encoded(id)))
            .signed_as("dbs", &format!("dbs/{id}"));
        assert_eq!(text(&client.call(&read).json(), "id"), id);
    }
    client.create("/dbs", r#"{"id":"d"}"#);
    let too_long = format!("{longest}x");
    for id in [
        "a/b",
        "a\\b",
        "a?b",
        "a#b",
        "trailing ",
        "",
        &too_long,
        "a\0b",
        "a\tb",
        "a\nb",
        "a\x1bb",
        "a\x7f",
        "\u{85}",
    ] {
        let body = Json::Object(
            orrery_model::object! { "id" => id, "partitionKey" => orrery_model::object! { "paths" => vec![Json::from("/k")] } },
        );
        let database = Json::Object(orrery_model::object! { "id" => id });
        let container = client.call(&Request::new("POST", "/dbs/d/colls").body(body.to_text()));
        assert_eq!(container.code(), (400, 0), "{id:?}: {}", container.text());
        assert_eq!(
            client
                .call(&Request::new("POST", "/dbs").body(database.to_text()))
                .code(),
            (400, 0),
            "{id:?}"
        );
    }
}
