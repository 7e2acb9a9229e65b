//! Management calls and commands of the operator at each of three nodes: a node without the lease
//! gives the answer of the leaseholder.
//!
//! The pages of the console are tested in a browser, the console's requests in `console.rs`.

use crate::fleet::{Fleet, run};
use crate::program::Server;
use orrery_model::Json;
use orrery_test_wait::wait_for;

/// A fleet of three nodes on two clusters, with a container `blog/posts`; `a` has the lease.
fn three_nodes() -> (Fleet, [Server; 3]) {
    let fleet = Fleet::new(&["first", "second"]);
    let nodes = ["a", "b", "c"].map(|name| fleet.start(name).expect("it starts"));
    nodes[0].client().make_posts();
    for node in &nodes {
        // A node counts requests once it may own partitions, some moments after it is ready.
        wait_for(
            "the node has metrics",
            || node.manager().call("GET", "/metrics", "").status,
            |status| *status == 200,
        );
    }
    (fleet, nodes)
}

/// Returns the paths of the description that are read with GET, with the ids of the fixture.
fn paths_to_read(description: &Json) -> Vec<String> {
    let paths = description.get("paths").and_then(Json::as_object);
    let read = paths.expect("paths").iter();
    let read = read.filter(|(_, methods)| methods.get("get").is_some());
    let known = read.map(|(path, _)| path.replace("{db}", "blog").replace("{coll}", "posts"));
    known.collect()
}

/// Returns the names of the members of an answer, or the first words of an answer that is no JSON.
fn shape(text: &str) -> Vec<String> {
    match orrery_model::json::parse(text.as_bytes()) {
        Ok(json) => {
            let members = json.as_object().map(|object| object.iter());
            let names = members
                .into_iter()
                .flatten()
                .map(|(name, _)| name.to_owned());
            names.collect()
        }
        Err(_) => text.split(' ').take(2).map(str::to_owned).collect(),
    }
}

#[test]
fn each_management_call_that_reads_has_the_same_answer_at_every_node() {
    let (_fleet, nodes) = three_nodes();
    let description = nodes[0].manager().get("/openapi.json").json();
    let paths = paths_to_read(&description);
    assert!(paths.len() > 25, "{paths:?}");
    let mut answered = 0;
    for path in &paths {
        let answers = nodes.each_ref().map(|node| {
            let answer = node.manager().call("GET", path, "");
            (answer.status, shape(&answer.text()))
        });
        assert!(answers[0].0 < 500, "{path}: {answers:?}");
        assert_eq!(answers[1], answers[0], "{path}");
        assert_eq!(answers[2], answers[0], "{path}");
        answered += usize::from(answers[0].0 == 200);
    }
    // The others name a resource that the fixture does not have, or need a parameter.
    assert!(answered > 20, "{answered} of {paths:?}");
}

#[test]
fn a_change_through_any_node_is_seen_at_every_node() {
    let (_fleet, nodes) = three_nodes();
    let throughput = "/dbs/blog/colls/posts/throughput";
    for (at, node) in nodes.iter().enumerate() {
        let wanted = 500 + 100 * at;
        let body = format!(r#"{{"ruPerSecond":{wanted}}}"#);
        let set = node.manager().call("PUT", throughput, &body);
        assert_eq!(set.status, 200, "{}", set.text());
        for reader in &nodes {
            let found = reader.manager().get(throughput).text();
            assert!(found.contains(&format!(":{wanted}")), "{found}");
        }
        let rule = r#"{"operations":["read_item"],"status":503}"#;
        node.manager().ok("POST", "/faults", rule);
        for reader in &nodes {
            assert!(reader.manager().get("/faults").text().contains("503"));
        }
        node.manager().ok("DELETE", "/faults", "");
    }
}

#[test]
fn each_command_of_the_operator_works_at_every_node() {
    let (fleet, nodes) = three_nodes();
    let place = ["--database", "blog", "--container", "posts"];
    for (name, node) in ["a", "b", "c"].iter().zip(&nodes) {
        let endpoint = format!("http://{}/", node.admin_address);
        let directory = fleet.path(&format!("node-{name}"));
        let own = ["--admin-endpoint", &endpoint, "--data-dir", &directory];
        let command = |words: &[&str]| {
            let done = run(&[words, &own].concat());
            assert_eq!(done.code, Some(0), "{name}: {words:?}: {done:?}");
            done.stdout
        };
        assert!(command(&["clusters", "list"]).contains("second"));
        assert!(command(&["nodes", "list"]).contains("yes"));
        assert!(command(&["partitions", "list"]).contains("posts"));
        for cluster in ["second", "first"] {
            let there = ["partitions", "move", "0", "--to", cluster, "--wait"];
            command(&[&there[..], &place].concat());
        }
        command(&["clusters", "balance", "--wait"]);
        command(&["clusters", "drain", "second", "--wait"]);
        command(&["clusters", "undrain", "second"]);
    }
    let endpoint = format!("http://{}/", nodes[2].admin_address);
    let directory = fleet.path("node-c");
    let lead = ["nodes", "lead", "b", "--admin-endpoint", &endpoint];
    let done = run(&[&lead[..], &["--data-dir", &directory]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let [first, ..] = nodes;
    assert_eq!(first.wait().code, Some(1));
}
