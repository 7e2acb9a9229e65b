//! Nodes whose cluster files differ: a cluster that one node does not know gets no partitions, and
//! such a node neither takes the lease nor starts on partitions that it cannot find.

use crate::fleet::{Fleet, run};
use crate::program::{self, Server};
use orrery_test_wait::wait_for;

/// A node `a` that knows two clusters, of which all partitions are in the first.
fn with_second_cluster() -> (Fleet, Server) {
    let fleet = Fleet::new(&["first", "second"]);
    let server = fleet.start("a").expect("it starts");
    server.client().make_posts();
    (fleet, server)
}

/// Starts the node `b`, which knows the first cluster only.
fn start_without_second(fleet: &Fleet) -> Result<Server, program::Exit> {
    let (first, _) = fleet.parts_of_file();
    fleet.start_on("b", &first, &[])
}

#[test]
fn a_cluster_that_a_live_node_does_not_know_gets_no_partitions() {
    let (fleet, server) = with_second_cluster();
    let endpoint = format!("http://{}/", server.admin_address);
    let directory = fleet.path("node-a");
    let own = ["--admin-endpoint", &endpoint, "--data-dir", &directory];
    let command = |arguments: &[&str]| run(&[arguments, &own].concat());
    let place = ["--database", "blog", "--container", "posts"];
    let to = |cluster: &str| {
        let there = ["partitions", "move", "0", "--to", cluster, "--wait"];
        command(&[&there[..], &place].concat())
    };
    assert_eq!(to("first").code, Some(0));

    let other = start_without_second(&fleet).expect("it starts");
    let mut manager = server.manager();
    wait_for(
        "the leaseholder knows the node",
        || manager.get("/nodes").text(),
        |nodes| nodes.contains(r#""name":"b""#),
    );
    let moved = to("second");
    assert_eq!(moved.code, Some(1), "{moved:?}");
    assert!(
        moved
            .stderr
            .contains("the node 'b' does not know the cluster"),
        "{moved:?}"
    );
    let lead = command(&["nodes", "lead", "b"]);
    assert_eq!(lead.code, Some(1), "{lead:?}");
    assert!(
        lead.stderr.contains("does not know the cluster 'second'"),
        "{lead:?}"
    );
    let end = other.stop();
    assert!(
        end.stderr
            .contains("start this node again with the present file"),
        "{end:?}"
    );

    wait_for(
        "the move is accepted",
        || to("second").code,
        |code| *code == Some(0),
    );
    // A node that cannot find a partition does not start.
    let refused = start_without_second(&fleet).err().expect("it is refused");
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("'second'"), "{refused:?}");
}
