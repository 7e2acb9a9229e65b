//! The commands of an operator against a node on two PostgreSQL clusters: lists, moves, drains, the
//! balance, the places of split partitions, and the metrics.

use crate::fleet::{Done, Fleet, run};
use crate::program::{self, ITEMS, Request, Server, number, text};
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_test_wait::wait_for;

/// A node with a container `posts`.
struct Node {
    fleet: Fleet,
    server: Server,
}

impl Node {
    fn start() -> Node {
        let fleet = Fleet::new(&["first", "second"]);
        let server = fleet.start("a").expect("it starts");
        server.client().make_posts();
        Node { fleet, server }
    }

    /// Runs a command of the operator at this node.
    fn command(&self, arguments: &[&str]) -> Done {
        let endpoint = format!("http://{}/", self.server.admin_address);
        let directory = self.fleet.path("node-a");
        let own = ["--admin-endpoint", &endpoint, "--data-dir", &directory];
        run(&[arguments, &own].concat())
    }

    /// Runs a command that must succeed, and returns its answer in JSON.
    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Json {
        let done = self.command(&[arguments, &["--json"]].concat());
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        parse(done.stdout.as_bytes()).expect("JSON")
    }

    /// Returns range id and cluster of each partition of the container.
    fn places(&self) -> Vec<(String, String)> {
        let list = self.json(&["partitions", "list", "--database", "blog"]);
        let list = list.get("placements").and_then(Json::as_array);
        let list = list.expect("a list").iter();
        list.map(|one| (text(one, "id"), text(one, "cluster")))
            .collect()
    }

    fn place_of(&self, id: &str) -> String {
        let places = self.places();
        let found = places.into_iter().find(|(range, _)| range == id);
        found.unwrap_or_else(|| panic!("no partition {id}")).1
    }

    fn cluster(&self, name: &str) -> Json {
        let list = self.json(&["clusters", "list"]);
        let list = list.get("clusters").and_then(Json::as_array);
        let mut list = list.expect("a list").iter();
        let found = list.find(|one| text(one, "name") == name);
        found.expect("a cluster").clone()
    }

    fn move_to(&self, id: &str, cluster: &str) -> Done {
        let posts = ["--database", "blog", "--container", "posts"];
        let there = ["partitions", "move", id, "--to", cluster, "--wait"];
        self.command(&[&there[..], &posts[..]].concat())
    }

    /// Returns a metric.
    fn metric(&self, line: &str) -> f64 {
        let answer = self.server.manager().get("/metrics");
        let metrics = answer.text();
        let found = metrics.lines().find_map(|one| one.strip_prefix(line));
        let found = found.unwrap_or_else(|| panic!("no {line} in {metrics}"));
        found.trim().parse().expect("a number")
    }

    /// Creates items of some size, and returns the number of all items.
    fn fill(&self, names: std::ops::Range<u32>, bytes: usize) -> usize {
        let mut client = self.server.client();
        for n in names {
            let fill = "x".repeat(bytes);
            let body = format!(r#"{{"id":"i{n}","postId":"p{n}","fill":"{fill}"}}"#);
            client.create(ITEMS, &body);
        }
        client
            .pages(&Request::query(ITEMS, "SELECT c.id FROM c"))
            .0
            .len()
    }
}

#[test]
fn partitions_are_listed_and_moved_and_clusters_are_drained() {
    let node = Node::start();
    assert_eq!(node.fill(0..20, 10), 20);
    let before = node.place_of("0");
    let to = if before == "first" { "second" } else { "first" };
    let moved = node.move_to("0", to);
    assert_eq!(moved.code, Some(0), "{moved:?}");
    assert!(
        moved.stderr.contains("the partition is in the cluster"),
        "{moved:?}"
    );
    assert_eq!(node.place_of("0"), to);
    assert_eq!(node.fill(20..21, 10), 21);

    // A table has its columns below each other.
    let table = node.command(&["clusters", "list"]).stdout;
    let lines: Vec<&str> = table.lines().collect();
    let column = lines[0].find("drained").expect("a column");
    assert!(lines[0].starts_with("name") && lines.len() == 4, "{table}");
    assert!(
        lines[2..]
            .iter()
            .all(|line| line[column..].starts_with("no")),
        "{table}"
    );
    let table = node.command(&["partitions", "list"]).stdout;
    assert!(
        table.contains("blog") && table.contains("settled"),
        "{table}"
    );

    let moved = node.move_to("0", "second");
    assert_eq!(moved.code, Some(0), "{moved:?}");
    let drained = node.command(&["clusters", "drain", "second", "--wait"]);
    assert_eq!(drained.code, Some(0), "{drained:?}");
    assert_eq!(
        (node.place_of("0"), node.fill(21..22, 10)),
        ("first".into(), 22)
    );
    assert_eq!(number(&node.cluster("second"), "partitions"), 0);
    assert_eq!(
        node.metric("orrery_cluster_drained{cluster=\"second\"}"),
        1.0
    );
    let undrained = node.json(&["clusters", "undrain", "second"]);
    assert_eq!(text(&undrained, "drained"), "no");
}

#[test]
fn what_the_server_refuses_is_told_with_exit_code_1_and_wrong_options_with_2() {
    let node = Node::start();
    for (arguments, code, word) in [
        (&["clusters", "drain", "third"][..], 1, "no cluster 'third'"),
        (&["clusters", "drain", "first"], 1, "catalog"),
        (&["clusters", "drain"], 2, "CLUSTER"),
        (
            &["partitions", "list", "--container", "posts"],
            2,
            "--database",
        ),
        (
            &["clusters", "list", "--admin-key-file", "none.key"],
            2,
            "none.key",
        ),
    ] {
        let done = node.command(arguments);
        assert_eq!(done.code, Some(code), "{arguments:?}: {done:?}");
        assert!(done.stderr.contains(word), "{arguments:?}: {done:?}");
    }
    let moved = node.move_to("7", "second");
    assert_eq!(moved.code, Some(1), "{moved:?}");
    assert!(
        moved.stderr.contains("no physical partition '7'"),
        "{moved:?}"
    );

    // A server without clusters, and a port without a server.
    let server = program::start(&["--memory"]).expect("it starts");
    let endpoint = format!("http://{}/", server.admin_address);
    let key = node.fleet.path("memory.key");
    std::fs::write(&key, format!("# a key\n{}\n", server.admin_key)).expect("it is written");
    let list = [
        "clusters",
        "list",
        "--admin-endpoint",
        &endpoint,
        "--admin-key-file",
        &key,
    ];
    let done = run(&list);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("no clusters"), "{done:?}");
    drop(server);
    let done = run(&list);
    assert_eq!(done.code, Some(1), "{done:?}");
}

#[test]
fn a_split_places_its_children_on_the_emptiest_cluster_and_the_balance_moves_them() {
    let node = Node::start();
    assert_eq!(node.fill(0..30, 2_000), 30);
    // Everything is in the first cluster, the catalog included.
    assert_eq!(
        node.command(&["clusters", "drain", "second", "--wait"])
            .code,
        Some(0)
    );
    node.json(&["clusters", "undrain", "second"]);
    let mut manager = node.server.manager();
    let begun = manager
        .ok("POST", "/dbs/blog/colls/posts/partitions/0/split", "{}")
        .json();
    let path = format!("/operations/{}", number(&begun, "id"));
    let operation = || manager.get(&path).json();
    wait_for("the end of the split", operation, |operation| {
        operation.get("next").is_none()
    });
    // The first cluster has the catalog and the parent at that time; both children differ from it.
    assert_eq!(node.place_of("1"), "second");
    assert_eq!(node.place_of("2"), "second");

    // Both are in one cluster, so one of them moves; then both clusters are equal enough.
    let balance = [
        "clusters",
        "balance",
        "--min-bytes",
        "1000",
        "--min-request-units",
        "1000000",
    ];
    let there = [&balance[..], &["--wait"]].concat();
    let round = node.command(&there);
    assert_eq!(round.code, Some(0), "{round:?}");
    assert!(
        round.stderr.contains("has moved from 'second' to 'first'"),
        "{round:?}"
    );
    assert!(round.stdout.contains("requestUnits"), "{round:?}");
    let mut clusters = [node.place_of("1"), node.place_of("2")];
    clusters.sort();
    assert_eq!(clusters, ["first", "second"]);
    let again = node.json(&balance);
    assert!(again.get("move").is_none(), "{}", again.to_text());
    assert_eq!(node.fill(30..31, 10), 31);
    // By the default limits, clusters this small are equal.
    let default = node.command(&["clusters", "balance"]);
    assert!(default.stderr.contains("equal enough"), "{default:?}");
}

#[test]
fn metrics_tell_of_each_cluster_and_of_the_lease() {
    let node = Node::start();
    node.fill(0..3, 10);
    assert_eq!(node.metric("orrery_node_holds_lease"), 1.0);
    assert_eq!(node.metric("orrery_lease_takeovers_total"), 1.0);
    for event in ["granted", "returned", "expired"] {
        let metric = format!("orrery_partition_grants_total{{event=\"{event}\"}}");
        assert_eq!(node.metric(&metric), 0.0, "there is one node");
    }
    let of = |metric: &str| {
        let clusters = ["first", "second"];
        clusters.map(|name| node.metric(&format!("{metric}{{cluster=\"{name}\"}}")))
    };
    let partitions = of("orrery_cluster_partitions");
    assert_eq!(
        partitions.iter().sum::<f64>(),
        2.0,
        "the catalog and a partition"
    );
    let commits = of("orrery_cluster_commit_seconds_count");
    assert!(commits.iter().sum::<f64>() >= 3.0, "{commits:?}");
    assert!(of("orrery_cluster_commit_seconds_sum").iter().sum::<f64>() > 0.0);
    assert!(of("orrery_cluster_bytes").iter().all(|bytes| *bytes > 0.0));
    assert_eq!(of("orrery_cluster_drained"), [0.0, 0.0]);
    assert_eq!(of("orrery_cluster_writable"), [1.0, 1.0]);
}
