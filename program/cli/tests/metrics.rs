//! The metrics, as a collector reads them: every documented metric exists and counts correctly, and
//! no partition key or item id appears in a label.

use crate::program::{Client, ITEMS, Manager, Request, Server, item, start_on};
use orrery_test_wait::wait_for;
use std::collections::BTreeMap;

/// Returns the samples by name and labels.
fn samples(manager: &mut Manager) -> BTreeMap<String, f64> {
    let answer = manager.get("/metrics");
    assert_eq!(
        answer.header("content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    let mut samples = BTreeMap::new();
    let (mut families, mut typed) = (Vec::new(), String::new());
    for line in answer.text().lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            typed = rest.split(' ').next().expect("a name").to_owned();
            assert!(!families.contains(&typed), "{typed} is listed twice");
            families.push(typed.clone());
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').expect("a name and a value");
            assert!(name.starts_with(&typed), "{line} stands under {typed}");
            let twin = samples.insert(name.to_owned(), value.parse().expect("a number"));
            assert!(twin.is_none(), "{line} is listed twice");
        }
    }
    samples
}

fn start_with_items(directory: &std::path::Path) -> (Server, Client, Manager) {
    let server = start_on(directory).expect("it starts");
    let (mut client, manager) = (server.client(), server.manager());
    client.make_posts();
    for id in ["secret-one", "secret-two"] {
        let body = format!(r#"{{"id":"{id}","postId":"{id}","ttl":1}}"#);
        assert_eq!(
            client
                .call(&Request::new("POST", ITEMS).key(id).body(body))
                .status,
            201
        );
    }
    (server, client, manager)
}

#[test]
fn requests_are_counted_by_operation_and_outcome() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_server, mut client, mut manager) = start_with_items(directory.path());
    let read = client.call(&Request::new("GET", &item("secret-one")).key("secret-one"));
    let charge: f64 = read
        .header("x-ms-request-charge")
        .and_then(|c| c.parse().ok())
        .expect("a charge");
    assert_eq!(
        client
            .call(&Request::new("GET", &item("none")).key("none"))
            .status,
        404
    );
    manager.ok(
        "POST",
        "/faults",
        r#"{"operations":["read_item"],"count":1,"status":429}"#,
    );
    assert_eq!(
        client
            .call(&Request::new("GET", &item("none")).key("none"))
            .status,
        429
    );
    assert_eq!(
        client
            .call(&Request::new("GET", "/dbs").header("authorization", "x"))
            .status,
        401
    );
    let samples = samples(&mut manager);
    let kind = "op=\"read_item\",resource=\"docs\"";
    for (outcome, count) in [((200, 0), 1.0), ((404, 0), 1.0), ((429, 3200), 1.0)] {
        let name = format!(
            "orrery_requests_total{{{kind},status=\"{}\",substatus=\"{}\"}}",
            outcome.0, outcome.1
        );
        assert_eq!(samples.get(&name), Some(&count), "{name}");
    }
    assert_eq!(
        samples[&format!("orrery_request_duration_seconds_count{{{kind}}}")],
        3.0
    );
    assert_eq!(
        samples[&format!("orrery_request_charge_request_units_bucket{{{kind},le=\"1\"}}")],
        3.0
    );
    assert!(samples[&format!("orrery_request_charge_request_units_sum{{{kind}}}")] >= charge);
    assert!(samples["orrery_request_units_total"] > charge);
    assert_eq!(
        (
            samples["orrery_throttled_requests_total"],
            samples["orrery_faults_struck_total"]
        ),
        (1.0, 1.0)
    );
    assert!(samples.keys().any(|name| name.contains("status=\"401\"")));
    // Partition keys and item ids never become labels.
    assert!(
        samples
            .keys()
            .all(|name| !name.contains("secret") && !name.contains("none"))
    );
}

#[test]
fn containers_scripts_queries_and_feeds_are_measured() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_server, mut client, mut manager) = start_with_items(directory.path());
    client.make_procedure(
        "hello",
        "function hello() { getContext().getResponse().setBody('hello'); }",
    );
    let run = Request::new("POST", "/dbs/blog/colls/posts/sprocs/hello")
        .key("k")
        .body("[]");
    assert_eq!(client.call(&run).status, 200);
    client.pages(&Request::query(ITEMS, "SELECT * FROM c"));
    let feed = Request::new("GET", ITEMS).header("A-IM", "Incremental Feed");
    assert_eq!(client.call(&feed).rows().len(), 2);
    let before = samples(&mut manager);
    let posts = "db=\"blog\",coll=\"posts\"";
    assert_eq!(before[&format!("orrery_container_items{{{posts}}}")], 2.0);
    for name in ["orrery_partition_bytes", "orrery_partition_index_bytes"] {
        assert!(
            before[&format!("{name}{{{posts},pkrange=\"0\"}}")] > 0.0,
            "{name}"
        );
    }
    assert_eq!(before["orrery_script_seconds_count"], 1.0);
    assert_eq!(before["orrery_changefeed_items_total"], 2.0);
    assert_eq!(
        before["orrery_query_partitions_contacted_bucket{le=\"1\"}"],
        1.0
    );
    assert_eq!(before["orrery_query_index_lookup_seconds_count"], 1.0);
    assert!(before["orrery_wal_fsync_seconds_count"] >= 2.0 && before["orrery_store_bytes"] > 0.0);
    assert_eq!(before["orrery_connections"], 1.0);
    assert_eq!(
        before["orrery_connections_closed_total{reason=\"slow_reader\"}"],
        0.0
    );
    assert_eq!(before["orrery_bodies_refused_total"], 0.0);
    // The last answer may not be dropped yet when the client has it.
    let mut sample = |name: &str| samples(&mut manager)[name];
    let body_bytes = || sample("orrery_body_bytes");
    wait_for("the end of the answer", body_bytes, |bytes| *bytes == 0.0);
    assert_eq!(
        before[&format!(
            "orrery_build_info{{version=\"{}\"}}",
            env!("CARGO_PKG_VERSION")
        )],
        1.0
    );
    #[cfg(target_os = "linux")]
    {
        for name in [
            "process_resident_memory_bytes",
            "process_open_fds",
            "process_max_fds",
        ] {
            assert!(before[name] > 0.0, "{name}");
        }
        // The system counts processor time in hundredths of a second; each response takes a part of
        // one.
        let seconds = || sample("process_cpu_seconds_total");
        wait_for("processor time", seconds, |seconds| *seconds > 0.0);
    }
}

#[test]
fn items_that_expire_are_counted_when_they_are_removed() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_on(directory.path()).expect("it starts");
    let (mut client, mut manager) = (server.client(), server.manager());
    client.create("/dbs", r#"{"id":"blog"}"#);
    let body = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2},"defaultTtl":60}"#;
    client.create("/dbs/blog/colls", body);
    assert_eq!(
        client
            .call(
                &Request::new("POST", ITEMS)
                    .key("k")
                    .body(r#"{"id":"a","postId":"k"}"#)
            )
            .status,
        201
    );
    assert_eq!(samples(&mut manager)["orrery_ttl_expired_total"], 0.0);
    manager.ok("PUT", "/clock", r#"{"offsetSeconds":61}"#);
    // A periodic task of the server removes expired items.
    let expired = || samples(&mut manager)["orrery_ttl_expired_total"];
    wait_for("the removal", expired, |count| *count >= 1.0);
    assert_eq!(
        samples(&mut manager)["orrery_container_items{db=\"blog\",coll=\"posts\"}"],
        0.0
    );
}

#[test]
fn every_documented_metric_exists_and_every_metric_is_documented() {
    let directory = tempfile::tempdir().expect("a directory");
    let (_server, _client, mut manager) = start_with_items(directory.path());
    let document =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/how-to/watch.md");
    let document = std::fs::read_to_string(document).expect("a document");
    let named: Vec<&str> = document
        .split('`')
        .skip(1)
        .step_by(2)
        .filter_map(name_of)
        .collect();
    let text = manager.get("/metrics").text();
    let existing: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
        .collect();
    for name in &existing {
        assert!(named.contains(name), "{name} is not documented");
    }
    // `fleet_commands.rs` checks those of a server on clusters.
    let of_fleets = [
        "orrery_node_",
        "orrery_cluster_",
        "orrery_follower_",
        "orrery_lease_",
        "orrery_partition_grants_",
    ];
    for name in named {
        let is_elsewhere = of_fleets.iter().any(|prefix| name.starts_with(prefix))
            || (name.starts_with("process_") && cfg!(not(target_os = "linux")));
        assert!(
            is_elsewhere || existing.contains(&name),
            "{name} is documented but missing"
        );
    }
}

/// Returns the name of the metric if a piece of code in a document is a metric, with or without
/// labels.
fn name_of(code: &str) -> Option<&str> {
    let name = code.split('{').next()?;
    (name.starts_with("orrery_") || name.starts_with("process_")).then_some(name)
}
