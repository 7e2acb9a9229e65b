//! Throughput through the management API: the settings of a container and the usage of its
//! partitions.

use crate::program::{Client, Manager, Request, Server, number, start, text};
use orrery_model::Json;

const ITEMS: &str = "/dbs/blog/colls/wide/docs";
const THROUGHPUT: &str = "/dbs/blog/colls/wide/throughput";

/// Starts a server with a container of two physical partitions and 12,000 RU/s.
fn wide() -> (Server, Client, Manager) {
    let server = start(&["--memory"]).expect("it starts");
    let (mut client, manager) = (server.client(), server.manager());
    client.create("/dbs", r#"{"id":"blog"}"#);
    let body = r#"{"id":"wide","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}"#;
    let wide = Request::new("POST", "/dbs/blog/colls")
        .header("x-ms-offer-throughput", "12000")
        .body(body);
    assert_eq!(client.call(&wide).status, 201);
    (server, client, manager)
}

fn partitions(throughput: &Json) -> Vec<Json> {
    throughput
        .get("partitions")
        .and_then(Json::as_array)
        .expect("a list")
        .to_vec()
}

fn rates(throughput: &Json) -> Vec<f64> {
    let rate = |partition: &Json| {
        partition
            .get("ruPerSecond")
            .and_then(Json::as_f64)
            .expect("a number")
    };
    partitions(throughput).iter().map(rate).collect()
}

#[test]
fn the_requests_of_each_partition_are_counted() {
    let (_server, mut client, mut manager) = wide();
    for id in ["a", "b", "c"] {
        let create = Request::new("POST", ITEMS)
            .key(id)
            .body(format!(r#"{{"id":"{id}","k":"{id}"}}"#));
        assert_eq!(client.call(&create).status, 201);
    }
    let throughput = manager.get(THROUGHPUT).json();
    assert_eq!(
        (
            number(&throughput, "ruPerSecond"),
            text(&throughput, "mode")
        ),
        (12_000, "manual".to_owned())
    );
    assert_eq!(
        (
            text(&throughput, "enforced"),
            text(&throughput, "enforcement")
        ),
        ("off".into(), "server".into())
    );
    assert_eq!(rates(&throughput), [6_000.0, 6_000.0]);
    assert_eq!(
        partitions(&throughput)
            .iter()
            .map(|p| number(p, "requests"))
            .sum::<u64>(),
        3
    );
    assert!(
        partitions(&throughput)
            .iter()
            .all(|p| number(p, "throttled") == 0)
    );
}

#[test]
fn a_list_of_partitions_has_the_data_budget_and_usage_of_each() {
    let (_server, mut client, mut manager) = wide();
    for id in ["a", "b", "c"] {
        let create = Request::new("POST", ITEMS)
            .key(id)
            .body(format!(r#"{{"id":"{id}","k":"{id}"}}"#));
        assert_eq!(client.call(&create).status, 201);
    }
    let listed = partitions(&manager.get("/dbs/blog/colls/wide/partitions").json());
    let served = partitions(&manager.get(THROUGHPUT).json());
    assert_eq!(listed.iter().map(|p| number(p, "items")).sum::<u64>(), 3);
    for (partition, served) in listed.iter().zip(&served) {
        for name in [
            "ruPerSecond",
            "requestUnits",
            "requests",
            "throttled",
            "wouldThrottle",
        ] {
            assert_eq!(partition.get(name), served.get(name), "{name}");
            assert!(partition.get(name).is_some(), "{name}");
        }
        let last = partition
            .get("lastSecondRequestUnits")
            .and_then(Json::as_f64)
            .expect("a number");
        let share = partition
            .get("normalized")
            .and_then(Json::as_f64)
            .expect("a number");
        assert!(
            last >= 0.0 && (share - last / 6_000.0).abs() < 1e-9,
            "{last} is {share} of 6,000"
        );
    }
}

#[test]
fn enforcement_is_switched_for_a_container() {
    let (_server, mut client, mut manager) = wide();
    let decide = |manager: &mut Manager, word: &str| {
        let body = format!(r#"{{"enforcement":"{word}"}}"#);
        text(
            &manager
                .ok("PUT", &format!("{THROUGHPUT}/enforcement"), &body)
                .json(),
            "enforced",
        )
    };
    assert_eq!(decide(&mut manager, "on"), "on");
    // A few of these requests cost more than one second of the partition's budget, because they all
    // have one partition key.
    manager.ok("PUT", THROUGHPUT, r#"{"ruPerSecond":1200}"#);
    let item = format!(r#"{{"id":"a","k":"a","filler":"{}"}}"#, "x".repeat(200_000));
    let create = Request::new("POST", ITEMS)
        .key("a")
        .header("x-ms-documentdb-is-upsert", "True")
        .body(item);
    let throttled = (0..200)
        .map(|_| client.call(&create).code())
        .find(|code| code.0 == 429);
    assert_eq!(throttled, Some((429, 3200)));
    let counted = manager.get(THROUGHPUT).json();
    assert!(
        partitions(&counted)
            .iter()
            .map(|p| number(p, "throttled"))
            .sum::<u64>()
            > 0
    );
    assert_eq!(decide(&mut manager, "off"), "off");
    assert!(client.call(&create).status < 300);
    assert_eq!(decide(&mut manager, "server"), "off");
    let message = manager.refused(
        "PUT",
        &format!("{THROUGHPUT}/enforcement"),
        r#"{"enforcement":"maybe"}"#,
        400,
    );
    assert!(message.contains("on, off, server"), "{message}");
}

#[test]
fn throughput_is_distributed_by_partition_and_then_equally_again() {
    let (_server, _client, mut manager) = wide();
    let path = format!("{THROUGHPUT}/distribution");
    let body = r#"{"partitions":[{"id":"0","ruPerSecond":9000},{"id":"1","ruPerSecond":3000}]}"#;
    let given = manager.ok("PUT", &path, body).json();
    assert_eq!(
        (rates(&given), text(&given, "distribution")),
        (vec![9_000.0, 3_000.0], "custom".to_owned())
    );
    for (body, part) in [
        (r#"{"partitions":[]}"#, "'partitions'"),
        (
            r#"{"partitions":[{"id":"0","ruPerSecond":12000}]}"#,
            "'ruPerSecond'",
        ),
        (
            r#"{"partitions":[{"id":"0","ruPerSecond":9000}]}"#,
            "partitions [0, 1]",
        ),
        (
            r#"{"partitions":[{"id":"0","ruPerSecond":9000},{"id":"1","ruPerSecond":9000}]}"#,
            "18000",
        ),
        (r#"{"partitions":[{"id":"x","ruPerSecond":9000}]}"#, "'x'"),
    ] {
        let message = manager.refused("PUT", &path, body, 400);
        assert!(message.contains(part), "{body}: {message}");
    }
    manager.ok("DELETE", &path, "");
    assert_eq!(rates(&manager.get(THROUGHPUT).json()), [6_000.0, 6_000.0]);
}

#[test]
fn throughput_buckets_get_limits() {
    let (_server, _client, mut manager) = wide();
    let path = format!("{THROUGHPUT}/buckets");
    let given = manager
        .ok("PUT", &path, r#"{"buckets":[{"id":2,"maxPercent":20}]}"#)
        .json();
    assert_eq!(
        given.get("buckets").map(Json::to_text).as_deref(),
        Some(r#"[{"id":2,"maxPercent":20}]"#)
    );
    let twice = r#"{"buckets":[{"id":2,"maxPercent":20},{"id":2,"maxPercent":30}]}"#;
    assert!(manager.refused("PUT", &path, twice, 400).contains("twice"));
    assert!(
        manager
            .refused(
                "PUT",
                &path,
                r#"{"buckets":[{"id":6,"maxPercent":20}]}"#,
                400
            )
            .contains("'id'")
    );
    let none = manager.ok("PUT", &path, r#"{"buckets":[]}"#).json();
    assert_eq!(
        none.get("buckets").map(Json::to_text).as_deref(),
        Some("[]")
    );
}

#[test]
#[expect(clippy::too_many_lines, reason = "all that an offer and the API share")]
fn throughput_is_set_as_by_an_offer_that_is_replaced() {
    let (_server, mut client, mut manager) = wide();
    let set = |manager: &mut Manager, body: &str| manager.ok("PUT", THROUGHPUT, body).json();
    let lower = set(&mut manager, r#"{"ruPerSecond":9000}"#);
    assert_eq!(
        (
            number(&lower, "ruPerSecond"),
            text(&lower, "replacePending")
        ),
        (9_000, "no".to_owned())
    );
    assert_eq!(
        (number(&lower, "minimumRuPerSecond"), rates(&lower)),
        (400, vec![4_500.0, 4_500.0])
    );
    let offer = client
        .call(&Request::new("GET", "/offers"))
        .json()
        .get("Offers")
        .map(Json::to_text);
    let offer = offer.expect("the offers");
    assert!(
        offer.contains(r#""offerThroughput":9000"#)
            && offer.contains(r#""maxThroughputEverProvisioned":12000"#)
    );
    // More RU/s than two partitions can carry: the change is pending until they are split.
    assert_eq!(
        text(
            &set(&mut manager, r#"{"ruPerSecond":21000}"#),
            "replacePending"
        ),
        "yes"
    );
    let done = std::iter::repeat_with(|| manager.get(THROUGHPUT).json())
        .find(|throughput| text(throughput, "replacePending") == "no")
        .expect("an endless iterator");
    assert!(
        partitions(&done).len() >= 3 && rates(&done).iter().sum::<f64>() > 20_999.0,
        "{}",
        done.to_text()
    );
    for (body, part) in [
        (
            r#"{"ruPerSecond":300}"#,
            "less than required minimum throughput 400",
        ),
        (r#"{"ruPerSecond":450}"#, "increments of 100"),
        (r#"{"ruPerSecond":-1}"#, "'ruPerSecond'"),
        (
            r#"{"autoscaleMaximum":30000}"#,
            "x-ms-cosmos-migrate-offer-to-autopilot",
        ),
        (r#"{"ruPerSecond":500,"mode":"manual"}"#, "one of"),
        (
            r#"{"ruPerSecond":500,"incrementPercent":5}"#,
            "'incrementPercent'",
        ),
        ("{}", "one of"),
    ] {
        let message = manager.refused("PUT", THROUGHPUT, body, 400);
        assert!(message.contains(part), "{body}: {message}");
    }
    let scales = set(&mut manager, r#"{"mode":"autoscale"}"#);
    assert_eq!(
        (number(&scales, "ruPerSecond"), text(&scales, "mode")),
        (21_000, "autoscale".to_owned())
    );
    let scales = set(
        &mut manager,
        r#"{"autoscaleMaximum":8000,"incrementPercent":20}"#,
    );
    assert_eq!(
        (
            number(&scales, "ruPerSecond"),
            number(&scales, "incrementPercent")
        ),
        (8_000, 20)
    );
    let message = manager.refused(
        "PUT",
        THROUGHPUT,
        r#"{"autoscaleMaximum":8000,"incrementPercent":101}"#,
        400,
    );
    assert!(message.contains("incrementPercent"), "{message}");
    let fixed = set(&mut manager, r#"{"mode":"manual"}"#);
    assert_eq!(
        (number(&fixed, "ruPerSecond"), text(&fixed, "mode")),
        (8_000, "manual".to_owned())
    );
}

#[test]
fn throughput_with_a_custom_distribution_is_not_changed() {
    let (_server, _client, mut manager) = wide();
    let body = r#"{"partitions":[{"id":"0","ruPerSecond":9000},{"id":"1","ruPerSecond":3000}]}"#;
    manager.ok("PUT", &format!("{THROUGHPUT}/distribution"), body);
    let message = manager.refused("PUT", THROUGHPUT, r#"{"ruPerSecond":9000}"#, 400);
    assert!(message.contains("by hand"), "{message}");
}

#[test]
fn a_databases_throughput_is_set_and_its_containers_share_it() {
    let (_server, mut client, mut manager) = wide();
    let shared = Request::new("POST", "/dbs")
        .header("x-ms-offer-throughput", "800")
        .body(r#"{"id":"d"}"#);
    assert_eq!(client.call(&shared).status, 201);
    client.create(
        "/dbs/d/colls",
        r#"{"id":"c","partitionKey":{"paths":["/k"]}}"#,
    );
    let set = manager
        .ok("PUT", "/dbs/d/throughput", r#"{"ruPerSecond":1200}"#)
        .json();
    assert_eq!(
        (
            number(&set, "ruPerSecond"),
            number(&set, "minimumRuPerSecond")
        ),
        (1_200, 400)
    );
    assert_eq!(manager.get("/dbs/d/throughput").json(), set);
    let container = manager.get("/dbs/d/colls/c/throughput").json();
    assert_eq!(
        (
            number(&container, "ruPerSecond"),
            text(&container, "shared")
        ),
        (1_200, "yes".to_owned())
    );
    assert_eq!(
        (rates(&container), container.get("replacePending")),
        (vec![1_200.0], None)
    );
    let message = manager.refused(
        "PUT",
        "/dbs/d/colls/c/throughput",
        r#"{"ruPerSecond":500}"#,
        404,
    );
    assert!(message.contains("shares that of its database"), "{message}");
    assert!(
        manager
            .refused("PUT", "/dbs/d/throughput", r#"{"ruPerSecond":50}"#, 400)
            .contains("400")
    );
    assert!(
        manager
            .refused("PUT", "/dbs/blog/throughput", r#"{"ruPerSecond":500}"#, 404)
            .contains("its own")
    );
    assert_eq!(manager.get("/dbs/blog/throughput").text(), "{}");
    assert!(
        manager
            .refused("GET", "/dbs/none/throughput", "", 404)
            .contains("'none'")
    );
}
