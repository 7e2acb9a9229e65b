//! Paths by resource id: the `_self` of a resource leads to this resource and to no other.

use crate::program::{Answer, Client, ITEMS, Request, Server, start, text};
use orrery_model::Json;

fn server() -> Server {
    start(&["--memory"]).expect("the server starts")
}

/// Returns a request by resource ids, signed as clients sign such requests.
fn by_rid(method: &'static str, path: &str) -> Request {
    Request::new(method, &format!("/{}", path.trim_start_matches('/'))).by_rid()
}

fn read(client: &mut Client, path: &str) -> Json {
    let answer = client.call(&Request::new("GET", path));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

fn created(client: &mut Client, path: &str, body: &str) -> Json {
    let answer = client.call(&Request::new("POST", path).body(body));
    assert_eq!(answer.status, 201, "{}", answer.text());
    answer.json()
}

fn id(answer: &Answer) -> String {
    text(&answer.json(), "id")
}

#[test]
fn the_self_link_of_an_item_reads_replaces_and_deletes_it() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let item = created(&mut client, ITEMS, r#"{"id":"a","postId":"p","n":1}"#);
    let link = text(&item, "_self");
    for form in [
        link.clone(),
        link.trim_end_matches('/').to_owned(),
        link.replace('=', "%3D"),
    ] {
        let answer = client.call(&by_rid("GET", &form).key("p"));
        assert_eq!((answer.status, id(&answer)), (200, "a".into()), "{form}");
    }
    let answer = client.call(
        &by_rid("PUT", &link)
            .key("p")
            .body(r#"{"id":"b","postId":"p","n":2}"#),
    );
    assert_eq!((answer.status, id(&answer)), (200, "b".into()));
    assert_eq!(
        text(&answer.json(), "_self"),
        link,
        "a new id leaves the resource id as it is"
    );
    assert_eq!(client.call(&by_rid("HEAD", &link).key("p")).status, 200);
    let stale = client.call(
        &by_rid("DELETE", &link)
            .key("p")
            .header("If-Match", text(&item, "_etag")),
    );
    assert_eq!(stale.status, 412);
    assert_eq!(client.call(&by_rid("DELETE", &link).key("p")).status, 204);
    assert_eq!(client.call(&by_rid("GET", &link).key("p")).code(), (404, 0));
}

#[test]
fn a_resource_id_finds_its_item_only_in_its_partition_and_container() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    client.create(
        "/dbs/blog/colls",
        r#"{"id":"other","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#,
    );
    let link = text(
        &created(&mut client, ITEMS, r#"{"id":"a","postId":"p"}"#),
        "_self",
    );
    let other = text(&read(&mut client, "/dbs/blog/colls/other"), "_self");
    let item_rid = link
        .trim_end_matches('/')
        .rsplit('/')
        .next()
        .expect("a rid")
        .to_owned();
    assert_eq!(client.call(&by_rid("GET", &link).key("q")).code(), (404, 0));
    assert_eq!(
        client
            .call(&by_rid("GET", &format!("{other}docs/{item_rid}")).key("p"))
            .code(),
        (404, 0)
    );
    assert_eq!(
        client
            .call(&by_rid("DELETE", &format!("{other}docs/{item_rid}")).key("p"))
            .code(),
        (404, 0)
    );
    // The first id decides whether the whole path is by resource id or by name.
    assert_eq!(
        client
            .call(&Request::new("GET", &format!("{ITEMS}/{item_rid}")).key("p"))
            .code(),
        (404, 0)
    );
    let container = link.split("docs/").next().expect("a container");
    assert_eq!(
        client
            .call(&by_rid("GET", &format!("{container}docs/a")).key("p"))
            .code(),
        (404, 0)
    );
}

#[test]
fn containers_and_databases_are_read_replaced_and_deleted_by_their_self_links() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let link = text(&read(&mut client, "/dbs/blog/colls/posts"), "_self");
    let database = text(&read(&mut client, "/dbs/blog"), "_self");
    assert_eq!(id(&client.call(&by_rid("GET", &link))), "posts");
    assert_eq!(id(&client.call(&by_rid("GET", &database))), "blog");
    let body = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2},"defaultTtl":60}"#;
    assert_eq!(client.call(&by_rid("PUT", &link).body(body)).status, 200);
    let more = client.call(
        &by_rid("POST", &format!("{database}colls"))
            .body(r#"{"id":"more","partitionKey":{"paths":["/k"]}}"#),
    );
    assert_eq!(more.status, 201, "{}", more.text());
    assert_eq!(client.call(&by_rid("DELETE", &link)).status, 204);
    assert_eq!(client.call(&by_rid("GET", &link)).code(), (404, 0));
    assert_eq!(client.call(&by_rid("DELETE", &database)).status, 204);
    assert_eq!(client.call(&by_rid("GET", &database)).code(), (404, 0));
}

#[test]
fn feeds_are_listed_queried_and_written_by_resource_id() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let container = text(&read(&mut client, "/dbs/blog/colls/posts"), "_self");
    let items = format!("{container}docs/");
    let made = client.call(
        &by_rid("POST", &items)
            .key("p")
            .body(r#"{"id":"a","postId":"p"}"#),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    assert_eq!(client.call(&by_rid("GET", &items)).rows().len(), 1);
    let query = Request::query(&format!("/{items}"), "SELECT VALUE c.id FROM c").by_rid();
    assert_eq!(client.call(&query).rows(), [Json::from("a")]);
    let ranges = client.call(&by_rid("GET", &format!("{container}pkranges")));
    assert_eq!(ranges.header("x-ms-item-count"), Some("1"));
}

#[test]
fn scripts_of_every_kind_are_reached_by_their_self_links() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let source = r#""body":"function () { getContext().getResponse().setBody('ran'); }""#;
    for (feed, members) in [
        ("sprocs", ""),
        (
            "triggers",
            r#","triggerType":"Pre","triggerOperation":"All""#,
        ),
        ("udfs", ""),
    ] {
        let body = format!(r#"{{"id":"s",{source}{members}}}"#);
        let script = created(&mut client, &format!("/dbs/blog/colls/posts/{feed}"), &body);
        let link = text(&script, "_self");
        assert_eq!(id(&client.call(&by_rid("GET", &link))), "s", "{feed}");
        assert_eq!(
            client
                .call(&by_rid("PUT", &link).body(body.as_bytes()))
                .status,
            200,
            "{feed}"
        );
        if feed == "sprocs" {
            let ran = client.call(&by_rid("POST", &link).key("p"));
            assert_eq!((ran.status, ran.text()), (200, "\"ran\"".into()));
        }
        // A resource id of another kind of resource is not found.
        let wrong = link.replace(feed, if feed == "udfs" { "sprocs" } else { "udfs" });
        assert_eq!(
            client.call(&by_rid("GET", &wrong)).code(),
            (404, 0),
            "{feed}"
        );
        assert_eq!(client.call(&by_rid("DELETE", &link)).status, 204, "{feed}");
        assert_eq!(
            client.call(&by_rid("GET", &link)).code(),
            (404, 0),
            "{feed}"
        );
    }
}

#[test]
fn links_into_a_recreated_container_are_stale() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let item = text(
        &created(&mut client, ITEMS, r#"{"id":"a","postId":"p"}"#),
        "_self",
    );
    let container = text(&read(&mut client, "/dbs/blog/colls/posts"), "_self");
    assert_eq!(
        client
            .call(&Request::new("DELETE", "/dbs/blog/colls/posts"))
            .status,
        204
    );
    client.create(
        "/dbs/blog/colls",
        r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#,
    );
    client.create(ITEMS, r#"{"id":"a","postId":"p"}"#);
    assert_eq!(client.call(&by_rid("GET", &container)).code(), (404, 0));
    assert_eq!(
        client.call(&by_rid("GET", &item).key("p")).code(),
        (404, 1003)
    );
    assert_eq!(
        client
            .call(&by_rid("GET", &format!("{container}pkranges")))
            .code(),
        (404, 1003)
    );
}

#[test]
fn a_database_may_be_named_like_a_resource_id() {
    let server = server();
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"AAAAAA=="}"#);
    client.create(
        "/dbs/AAAAAA==/colls",
        r#"{"id":"c","partitionKey":{"paths":["/k"]}}"#,
    );
    let item = created(
        &mut client,
        "/dbs/AAAAAA==/colls/c/docs",
        r#"{"id":"a","k":1}"#,
    );
    let answer = client.call(
        &Request::new("GET", "/dbs/AAAAAA==/colls/c/docs/a")
            .header("x-ms-documentdb-partitionkey", "[1]"),
    );
    assert_eq!((answer.status, id(&answer)), (200, "a".into()));
    let link = text(&item, "_self");
    assert!(!link.starts_with("dbs/AAAAAA=="), "{link}");
    let answer = client.call(&by_rid("GET", &link).header("x-ms-documentdb-partitionkey", "[1]"));
    assert_eq!((answer.status, id(&answer)), (200, "a".into()));
}
