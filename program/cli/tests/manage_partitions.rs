//! Splits and merges through the management API: on request, step by step, and cancelled.

use crate::program::{self, Client, ITEMS, Manager, Request, Server, number, start, text};
use orrery_model::Json;
use orrery_test_wait::wait_for;

const PARTITIONS: &str = "/dbs/blog/colls/posts/partitions";

fn with_items() -> (Server, Client, Manager) {
    let server = start(&["--memory"]).expect("it starts");
    let (mut client, manager) = (server.client(), server.manager());
    client.make_posts();
    for n in 0..20 {
        let body = format!(r#"{{"id":"p{n}","postId":"p{n}"}}"#);
        assert_eq!(
            client
                .call(&Request::new("POST", ITEMS).key(&format!("p{n}")).body(body))
                .status,
            201
        );
    }
    (server, client, manager)
}

fn ids(json: &Json, name: &str) -> Vec<String> {
    let list = json
        .get(name)
        .and_then(Json::as_array)
        .unwrap_or_else(|| panic!("no {name} in {}", json.to_text()));
    list.iter()
        .map(|id| id.as_str().expect("a text").to_owned())
        .collect()
}

fn range_ids(manager: &mut Manager) -> Vec<String> {
    let listed = manager.get(PARTITIONS).json();
    let listed = listed
        .get("partitions")
        .and_then(Json::as_array)
        .expect("a list")
        .to_vec();
    listed
        .iter()
        .map(|partition| text(partition, "id"))
        .collect()
}

/// Waits until an operation has ended and returns it.
fn wait_until_ended(manager: &mut Manager, begun: &Json) -> Json {
    let path = format!("/operations/{}", number(begun, "id"));
    let operation = || manager.get(&path).json();
    wait_for("the end of the operation", operation, |operation| {
        operation.get("next").is_none()
    })
}

fn items(client: &mut Client) -> usize {
    client
        .pages(&Request::query(ITEMS, "SELECT c.id FROM c"))
        .0
        .len()
}

#[test]
fn a_partition_is_split_and_the_halves_are_merged() {
    let (_server, mut client, mut manager) = with_items();
    let begun = manager.call(
        "POST",
        &format!("{PARTITIONS}/0/split"),
        r#"{"at":"median"}"#,
    );
    assert_eq!(begun.status, 202, "{}", begun.text());
    let split = wait_until_ended(&mut manager, &begun.json());
    assert_eq!(
        (text(&split, "status"), ids(&split, "newIds")),
        ("done".into(), vec!["1".to_owned(), "2".into()])
    );
    assert_eq!(
        (range_ids(&mut manager), items(&mut client)),
        (vec!["1".to_owned(), "2".into()], 20)
    );
    let begun = manager
        .ok(
            "POST",
            &format!("{PARTITIONS}/merge"),
            r#"{"ids":["1","2"]}"#,
        )
        .json();
    let merged = wait_until_ended(&mut manager, &begun);
    assert_eq!(
        (text(&merged, "status"), text(&merged, "kind")),
        ("done".into(), "merge".into())
    );
    assert_eq!(
        (range_ids(&mut manager), items(&mut client)),
        (vec!["3".to_owned()], 20)
    );
    let all = manager.get("/operations").json();
    assert_eq!(
        all.get("operations")
            .and_then(Json::as_array)
            .map(<[_]>::len),
        Some(2)
    );
}

#[test]
fn the_lineage_names_every_partition_with_its_direct_predecessors() {
    let (_server, _client, mut manager) = with_items();
    let path = format!("{PARTITIONS}/0/split");
    let split = manager.ok("POST", &path, "{}").json();
    wait_until_ended(&mut manager, &split);
    let path = format!("{PARTITIONS}/merge");
    let merge = manager.ok("POST", &path, r#"{"ids":["1","2"]}"#).json();
    wait_until_ended(&mut manager, &merge);

    let listed = manager.get(PARTITIONS).json();
    let lineage = listed.get("lineage").and_then(Json::as_array);
    let mut found = Vec::new();
    for range in lineage.expect("a list") {
        let is_replaced = range.get("replacedMilliseconds").is_some();
        found.push((
            text(range, "id"),
            ids(range, "parents"),
            text(range, "minInclusive"),
            is_replaced,
        ));
    }
    let middle = "20000000000000000000000000000000";
    assert_eq!(
        found,
        [
            ("0".to_owned(), vec![], String::new(), true),
            ("1".into(), vec!["0".to_owned()], String::new(), true),
            ("2".into(), vec!["0".into()], middle.into(), true),
            (
                "3".into(),
                vec!["1".into(), "2".into()],
                String::new(),
                false
            ),
        ]
    );
}

#[test]
fn the_list_states_the_limits_on_the_size_of_partitions() {
    let limits = [
        "--physical-partition-limit",
        "5MB",
        "--logical-partition-limit",
        "2MB",
    ];
    let server = start(&[&["--memory"], &limits[..]].concat()).expect("it starts");
    server.client().make_posts();
    let listed = server.manager().get(PARTITIONS).json();
    let found =
        ["physicalPartitionBytesMax", "logicalPartitionBytesMax"].map(|name| number(&listed, name));
    assert_eq!(found, [5 << 20, 2 << 20]);
}

#[test]
fn a_stepwise_split_runs_one_step_per_request_and_its_switch_shows_as_410() {
    let (_server, mut client, mut manager) = with_items();
    let begun = manager
        .ok(
            "POST",
            &format!("{PARTITIONS}/0/split"),
            r#"{"stepwise":"yes"}"#,
        )
        .json();
    let path = format!("/operations/{}", number(&begun, "id"));
    let mut seen = vec![(text(&begun, "status"), text(&begun, "next"))];
    let mut step = |manager: &mut Manager| {
        let now = manager.ok("POST", &path, r#"{"action":"next"}"#).json();
        let next = now
            .get("next")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned();
        seen.push((text(&now, "status"), next));
    };
    step(&mut manager);
    assert_eq!(items(&mut client), 20);
    step(&mut manager);
    let read = Request::new("GET", &program::item("p1")).key("p1");
    assert_eq!(client.call(&read).code(), (410, 1007));
    step(&mut manager);
    assert_eq!((client.call(&read).status, items(&mut client)), (200, 20));
    let named =
        Request::query(ITEMS, "SELECT * FROM c").header("x-ms-documentdb-partitionkeyrangeid", "0");
    assert_eq!(client.call(&named).code(), (410, 1002));
    let words: Vec<(&str, &str)> = seen
        .iter()
        .map(|(status, next)| (status.as_str(), next.as_str()))
        .collect();
    assert_eq!(
        words,
        [
            ("copying", "copy"),
            ("copied", "close"),
            ("completing", "switch"),
            ("done", "")
        ]
    );
}

#[test]
fn the_range_of_a_stepwise_split_is_splitting_between_its_steps() {
    let (_server, mut client, mut manager) = with_items();
    // Returns the status of each range, and the etag; `None` if nothing has changed since `known`.
    let mut ranges = |known: &str| {
        let list = Request::new("GET", "/dbs/blog/colls/posts/pkranges")
            .header("A-IM", "Incremental Feed")
            .header("If-None-Match", known);
        let answer = client.call(&list);
        let etag = answer.header("etag").expect("an etag").to_owned();
        if answer.status == 304 {
            return (None, etag);
        }
        let rows = answer.members("PartitionKeyRanges");
        let status = |row: &Json| format!("{} {}", text(row, "id"), text(row, "status"));
        (Some(rows.iter().map(status).collect::<Vec<_>>()), etag)
    };
    let (before, first) = ranges("");
    assert_eq!(before, Some(vec!["0 online".to_owned()]));

    let split = format!("{PARTITIONS}/0/split");
    let begun = manager.ok("POST", &split, r#"{"stepwise":"yes"}"#).json();
    let path = format!("/operations/{}", number(&begun, "id"));
    let (during, second) = ranges(&first);
    assert_eq!(during, Some(vec!["0 splitting".to_owned()]));
    for _ in ["copied", "completing"] {
        manager.ok("POST", &path, r#"{"action":"next"}"#);
        assert_eq!(
            ranges(&second),
            (None, second.clone()),
            "it is splitting still"
        );
    }
    manager.ok("POST", &path, r#"{"action":"next"}"#);
    let (after, third) = ranges(&second);
    let successors = vec!["1 online".to_owned(), "2 online".to_owned()];
    assert_eq!(after, Some(successors));

    // A successor is split in the same way, and a cancelled split leaves the range online.
    let split = format!("{PARTITIONS}/1/split");
    let begun = manager.ok("POST", &split, r#"{"stepwise":"yes"}"#).json();
    let (during, fourth) = ranges(&third);
    let one_splits = vec!["1 splitting".to_owned(), "2 online".to_owned()];
    assert_eq!(during, Some(one_splits));
    let path = format!("/operations/{}", number(&begun, "id"));
    manager.ok("POST", &path, r#"{"action":"cancel"}"#);
    let online = vec!["1 online".to_owned(), "2 online".to_owned()];
    assert_eq!(ranges(&fourth).0, Some(online));
}

#[test]
fn a_cancelled_split_changes_nothing() {
    let (_server, mut client, mut manager) = with_items();
    let begun = manager
        .ok(
            "POST",
            &format!("{PARTITIONS}/0/split"),
            r#"{"stepwise":"yes"}"#,
        )
        .json();
    let path = format!("/operations/{}", number(&begun, "id"));
    manager.ok("POST", &path, r#"{"action":"next"}"#);
    let again = manager.refused("POST", &format!("{PARTITIONS}/0/split"), "", 409);
    assert!(again.contains("already"), "{again}");
    let cancelled = manager.ok("POST", &path, r#"{"action":"cancel"}"#).json();
    assert_eq!(text(&cancelled, "status"), "cancelled");
    assert_eq!(
        (range_ids(&mut manager), items(&mut client)),
        (vec!["0".to_owned()], 20)
    );
}

#[test]
fn impossible_splits_and_merges_are_refused_with_the_reason() {
    let (_server, _client, mut manager) = with_items();
    for (path, body, status, part) in [
        ("7/split", "", 410, "7"),
        ("x/split", "", 400, "'x'"),
        ("0/split", r#"{"at":"nowhere"}"#, 400, "'nowhere'"),
        ("0/split", r#"{"at":"FF"}"#, 400, "cannot be split there"),
        ("0/split", r#"{"step":true}"#, 400, "'step'"),
        ("merge", r#"{"ids":["0"]}"#, 400, "two or more"),
        ("merge", r#"{"ids":["0","a"]}"#, 400, "'a'"),
        ("merge", "{}", 400, "'ids'"),
    ] {
        let message = manager.refused("POST", &format!("{PARTITIONS}/{path}"), body, status);
        assert!(message.contains(part), "{path} {body}: {message}");
    }
    assert!(
        manager
            .refused("GET", "/operations/99", "", 404)
            .contains("99")
    );
    assert!(
        manager
            .refused("POST", "/operations/99", r#"{"action":"next"}"#, 404)
            .contains("99")
    );
    assert!(
        manager
            .refused("POST", "/operations/99", r#"{"action":"again"}"#, 400)
            .contains("next, finish, cancel")
    );
}
