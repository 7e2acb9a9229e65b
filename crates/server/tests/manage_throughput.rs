//! Throughput through the management API: what is decided about a container, and what its partitions served.

mod program;

use orrery_model::Json;
use program::{Client, Manager, Request, Server, number, start, text};

const ITEMS: &str = "/dbs/blog/colls/wide/docs";
const THROUGHPUT: &str = "/dbs/blog/colls/wide/throughput";

/// A container of two physical partitions with 12,000 RU/s.
fn wide() -> (Server, Client, Manager) {
    let server = start(&["--memory"]).expect("it starts");
    let (mut client, manager) = (server.client(), server.manager());
    client.create("/dbs", r#"{"id":"blog"}"#);
    let body = r#"{"id":"wide","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}"#;
    let wide = Request::new("POST", "/dbs/blog/colls").header("x-ms-offer-throughput", "12000").body(body);
    assert_eq!(client.call(&wide).status, 201);
    (server, client, manager)
}

fn partitions(throughput: &Json) -> Vec<Json> {
    throughput.get("partitions").and_then(Json::as_array).expect("a list").to_vec()
}

fn rates(throughput: &Json) -> Vec<f64> {
    let rate = |partition: &Json| partition.get("ruPerSecond").and_then(Json::as_f64).expect("a number");
    partitions(throughput).iter().map(rate).collect()
}

#[test]
fn what_partitions_served_is_counted() {
    let (_server, mut client, mut manager) = wide();
    for id in ["a", "b", "c"] {
        let create = Request::new("POST", ITEMS).key(id).body(format!(r#"{{"id":"{id}","k":"{id}"}}"#));
        assert_eq!(client.call(&create).status, 201);
    }
    let throughput = manager.get(THROUGHPUT).json();
    assert_eq!((number(&throughput, "ruPerSecond"), text(&throughput, "mode")), (12_000, "manual".to_owned()));
    assert_eq!((text(&throughput, "enforced"), text(&throughput, "enforcement")), ("off".into(), "server".into()));
    assert_eq!(rates(&throughput), [6_000.0, 6_000.0]);
    assert_eq!(partitions(&throughput).iter().map(|p| number(p, "requests")).sum::<u64>(), 3);
    assert!(partitions(&throughput).iter().all(|p| number(p, "throttled") == 0));
}

#[test]
fn a_list_of_partitions_says_what_each_holds_may_spend_and_served() {
    let (_server, mut client, mut manager) = wide();
    for id in ["a", "b", "c"] {
        let create = Request::new("POST", ITEMS).key(id).body(format!(r#"{{"id":"{id}","k":"{id}"}}"#));
        assert_eq!(client.call(&create).status, 201);
    }
    let listed = partitions(&manager.get("/dbs/blog/colls/wide/partitions").json());
    let served = partitions(&manager.get(THROUGHPUT).json());
    assert_eq!(listed.iter().map(|p| number(p, "items")).sum::<u64>(), 3);
    for (partition, served) in listed.iter().zip(&served) {
        for name in ["ruPerSecond", "requestUnits", "requests", "throttled", "wouldThrottle"] {
            assert_eq!(partition.get(name), served.get(name), "{name}");
            assert!(partition.get(name).is_some(), "{name}");
        }
        let last = partition.get("lastSecondRequestUnits").and_then(Json::as_f64).expect("a number");
        let share = partition.get("normalized").and_then(Json::as_f64).expect("a number");
        assert!(last >= 0.0 && (share - last / 6_000.0).abs() < 1e-9, "{last} is {share} of 6,000");
    }
}

#[test]
fn enforcement_is_switched_for_a_container() {
    let (_server, mut client, mut manager) = wide();
    let decide = |manager: &mut Manager, word: &str| {
        let body = format!(r#"{{"enforcement":"{word}"}}"#);
        text(&manager.done("PUT", &format!("{THROUGHPUT}/enforcement"), &body).json(), "enforced")
    };
    assert_eq!(decide(&mut manager, "on"), "on");
    // One second of the whole container, under one key: more than its partition has.
    let item = format!(r#"{{"id":"a","k":"a","filler":"{}"}}"#, "x".repeat(200_000));
    let create = Request::new("POST", ITEMS).key("a").header("x-ms-documentdb-is-upsert", "True").body(item);
    let throttled = (0..200).map(|_| client.call(&create).code()).find(|code| code.0 == 429);
    assert_eq!(throttled, Some((429, 3200)));
    let counted = manager.get(THROUGHPUT).json();
    assert!(partitions(&counted).iter().map(|p| number(p, "throttled")).sum::<u64>() > 0);
    assert_eq!(decide(&mut manager, "off"), "off");
    assert!(client.call(&create).status < 300);
    assert_eq!(decide(&mut manager, "server"), "off");
    let told = manager.refused("PUT", &format!("{THROUGHPUT}/enforcement"), r#"{"enforcement":"maybe"}"#, 400);
    assert!(told.contains("on, off, server"), "{told}");
}

#[test]
fn partitions_get_ru_of_their_own_and_the_same_again() {
    let (_server, _client, mut manager) = wide();
    let path = format!("{THROUGHPUT}/distribution");
    let body = r#"{"partitions":[{"id":"0","ruPerSecond":9000},{"id":"1","ruPerSecond":3000}]}"#;
    let given = manager.done("PUT", &path, body).json();
    assert_eq!((rates(&given), text(&given, "distribution")), (vec![9_000.0, 3_000.0], "custom".to_owned()));
    for (body, part) in [
        (r#"{"partitions":[]}"#, "'partitions'"),
        (r#"{"partitions":[{"id":"0","ruPerSecond":12000}]}"#, "'ruPerSecond'"),
        (r#"{"partitions":[{"id":"0","ruPerSecond":9000}]}"#, "partitions [0, 1]"),
        (r#"{"partitions":[{"id":"0","ruPerSecond":9000},{"id":"1","ruPerSecond":9000}]}"#, "18000"),
        (r#"{"partitions":[{"id":"x","ruPerSecond":9000}]}"#, "'x'"),
    ] {
        let told = manager.refused("PUT", &path, body, 400);
        assert!(told.contains(part), "{body}: {told}");
    }
    manager.done("DELETE", &path, "");
    assert_eq!(rates(&manager.get(THROUGHPUT).json()), [6_000.0, 6_000.0]);
}

#[test]
fn buckets_get_ceilings() {
    let (_server, _client, mut manager) = wide();
    let path = format!("{THROUGHPUT}/buckets");
    let given = manager.done("PUT", &path, r#"{"buckets":[{"id":2,"maxPercent":20}]}"#).json();
    assert_eq!(given.get("buckets").map(Json::to_text).as_deref(), Some(r#"[{"id":2,"maxPercent":20}]"#));
    let twice = r#"{"buckets":[{"id":2,"maxPercent":20},{"id":2,"maxPercent":30}]}"#;
    assert!(manager.refused("PUT", &path, twice, 400).contains("twice"));
    assert!(manager.refused("PUT", &path, r#"{"buckets":[{"id":6,"maxPercent":20}]}"#, 400).contains("'id'"));
    let none = manager.done("PUT", &path, r#"{"buckets":[]}"#).json();
    assert_eq!(none.get("buckets").map(Json::to_text).as_deref(), Some("[]"));
}
