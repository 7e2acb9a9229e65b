//! The consumers of a change feed by their leases, and other descriptions for the console: seconds
//! of a partition, the query language.

use crate::program::{
    Client, ITEMS, Manager, Request, Server, number, start, start_with_posts, text,
};
use orrery_model::Json;

const CONSUMERS: &str = "/dbs/blog/colls/posts/feed-consumers?leases=blog/leases";
const LEASES: &str = "/dbs/blog/colls/leases/docs";

/// Starts a server with the containers `posts` and `leases`. Returns the resource id of `posts`.
fn start_with_leases() -> (Server, Client, Manager, String) {
    let (server, mut client) = start_with_posts();
    let body = r#"{"id":"leases","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#;
    client.create("/dbs/blog/colls", body);
    let posts = client.call(&Request::new("GET", "/dbs/blog/colls/posts"));
    let rid = text(&posts.json(), "_rid");
    let manager = server.manager();
    (server, client, manager, rid)
}

fn write_posts(client: &mut Client, ids: std::ops::Range<u32>) {
    for n in ids {
        client.create(ITEMS, &format!(r#"{{"id":"p{n}","postId":"p{n}"}}"#));
    }
}

fn list(json: &Json, name: &str) -> Vec<Json> {
    let list = json.get(name).and_then(Json::as_array);
    list.unwrap_or_else(|| panic!("no list '{name}' in {}", json.to_text()))
        .to_vec()
}

/// Returns the etag of the change feed after all changes of a range.
fn position(client: &mut Client, range: &str) -> String {
    let feed = Request::new("GET", ITEMS)
        .header("A-IM", "Incremental Feed")
        .header("x-ms-documentdb-partitionkeyrangeid", range);
    let answer = client.call(&feed);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.header("etag").expect("an etag").to_owned()
}

#[test]
fn leases_of_an_sdk_have_the_lag_behind_their_range() {
    let (_server, mut client, mut manager, rid) = start_with_leases();
    write_posts(&mut client, 0..5);
    let continuation = Json::from(position(&mut client, "0").as_str()).to_text();
    let lease = format!(
        r#"{{"id":"app_db_{rid}..0","LeaseToken":"0","Owner":"host-1",
            "ContinuationToken":{continuation}}}"#
    );
    client.create(LEASES, &lease);
    write_posts(&mut client, 5..12);
    let consumers = manager.get(CONSUMERS).json();
    let leases = list(&consumers, "leases");
    assert_eq!(leases.len(), 1);
    let lease = &leases[0];
    assert_eq!(number(lease, "lag"), 7);
    for (name, expected) in [("owner", "host-1"), ("range", "0"), ("state", "current")] {
        assert_eq!(text(lease, name), expected);
    }
    assert_eq!(
        number(lease, "lsn") - number(lease, "continuation"),
        number(lease, "lag")
    );
    assert!(number(lease, "lastRenewal") > 1_700_000_000);
    assert_eq!(
        consumers.get("complete").and_then(Json::as_bool),
        Some(true)
    );

    // After a split the lease is behind both successors, until its consumer follows.
    manager.ok("POST", "/dbs/blog/colls/posts/partitions/0/split", "{}");
    loop {
        let lease = list(&manager.get(CONSUMERS).json(), "leases").remove(0);
        if text(&lease, "state") == "split" {
            assert_eq!(list(&lease, "partitions").len(), 2);
            break;
        }
    }
}

#[test]
fn leases_by_epk_range_and_of_the_pipelines_are_listed_and_other_items_named() {
    let (_server, mut client, mut manager, rid) = start_with_leases();
    write_posts(&mut client, 0..3);
    for item in [
        format!(
            r#"{{"id":"app_db_{rid}..-FF","version":1,"LeaseToken":"-FF","Owner":null,
            "FeedRange":{{"Range":{{"min":"","max":"FF"}}}},"ContinuationToken":null}}"#
        ),
        format!(
            r#"{{"id":"0","pipeline":"blog-v3.posts","container":"{rid}","parents":[],"owner":"w1",
            "position":null,"gone":false}}"#
        ),
        r#"{"id":"w1","pipeline":"workers","stats":{}}"#.to_owned(),
        format!(r#"{{"id":"app_db_{rid}.info"}}"#),
        r#"{"id":"a \"post\" of others","title":"secret"}"#.to_owned(),
    ] {
        client.create(LEASES, &item);
    }
    let consumers = manager.get(CONSUMERS).json();
    let leases = list(&consumers, "leases");
    assert_eq!(leases.len(), 2);
    // A processor without a position may start now or at the beginning.
    assert_eq!(text(&leases[0], "range"), "-FF");
    assert_eq!((leases[0].get("lag"), leases[0].get("owner")), (None, None));
    assert_eq!(list(&leases[0], "partitions").len(), 1);
    // A pipeline starts at the beginning.
    assert_eq!(text(&leases[1], "group"), "blog-v3.posts");
    assert_eq!(number(&leases[1], "lag"), number(&leases[1], "lsn"));
    let foreign = list(&consumers, "foreign");
    assert_eq!(foreign.len(), 2);
    let named = foreign
        .iter()
        .find(|item| text(item, "id") == "a \"post\" of others");
    assert!(text(named.expect("named"), "reason").contains("known form"));
    assert!(!consumers.to_text().contains("secret"));
}

#[test]
fn reading_leases_costs_nothing_and_a_wrong_lease_container_is_refused() {
    let (_server, mut client, mut manager, _rid) = start_with_leases();
    client.create(LEASES, r#"{"id":"x"}"#);
    let charged = |manager: &mut Manager| {
        let listed = manager.get("/dbs/blog/colls/leases/partitions").json();
        let partition = list(&listed, "partitions").remove(0);
        partition
            .get("requestUnits")
            .and_then(Json::as_f64)
            .expect("a number")
    };
    let before = charged(&mut manager);
    manager.get(CONSUMERS);
    assert_eq!(charged(&mut manager), before);
    for (query, status, part) in [
        ("", 400, "'leases'"),
        ("?leases=blog", 400, "database/container"),
        ("?leases=blog/none", 404, "'none'"),
        ("?leases=none/leases", 404, "'none'"),
    ] {
        let path = format!("/dbs/blog/colls/posts/feed-consumers{query}");
        let message = manager.refused("GET", &path, "", status);
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_partition_shows_the_seconds_of_the_last_minute() {
    let (_server, mut client, mut manager, _rid) = start_with_leases();
    write_posts(&mut client, 0..10);
    let listed = manager.get("/dbs/blog/colls/posts/partitions").json();
    let partition = list(&listed, "partitions").remove(0);
    let seconds = list(&partition, "lastMinute");
    let sum: u64 = seconds
        .iter()
        .map(|second| number(second, "requests"))
        .sum();
    assert_eq!(sum, 10);
    let units = |json: &Json| json.get("requestUnits").and_then(Json::as_f64).expect("RU");
    let spent: f64 = seconds.iter().map(units).sum();
    assert!((spent - units(&partition)).abs() < 1e-6);
    assert!(
        seconds
            .iter()
            .all(|second| number(second, "throttled") == 0)
    );
}

#[test]
fn the_language_is_described_for_editors() {
    let server = start(&["--memory"]).expect("it starts");
    let language = server.manager().get("/language").json();
    let functions = list(&language, "functions");
    let of = |name: &str| functions.iter().find(|f| text(f, "name") == name);
    let contains = of("CONTAINS").expect("a function");
    assert_eq!(text(contains, "indexUse"), "scan");
    assert_eq!(
        (
            number(contains, "minArguments"),
            number(contains, "maxArguments")
        ),
        (2, 3)
    );
    assert!(
        of("CONCAT")
            .expect("a function")
            .get("maxArguments")
            .is_none()
    );
    assert!(functions.len() > 140 && of("HASH").is_none());
    assert!(list(&language, "keywords").contains(&Json::from("SELECT")));
    assert!(list(&language, "clauses").len() > 15);
}
