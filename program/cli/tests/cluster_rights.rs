//! A role that may only read: a node does not start on such a first cluster, and serves without
//! such another one until the role gets its rights.

use crate::fleet::{Fleet, run};
use orrery_test_wait::wait_for;

const DENIED: &str = "permission denied for table head (SQLSTATE 42501); GRANT ";

/// Creates a role that may only read a cluster, and returns the part of the cluster file with it.
fn with_reader(fleet: &Fleet, cluster: &str, part: &str) -> String {
    let role = format!("reader_of_{}", fleet.schema(cluster));
    fleet.sql(
        cluster,
        &format!(
            "CREATE ROLE {role} LOGIN PASSWORD 'correct horse'; \
             GRANT USAGE ON schema SCHEMA TO {role}; \
             GRANT SELECT ON ALL TABLES IN schema SCHEMA TO {role}"
        ),
    );
    part.replace(r#"user = "orrery""#, &format!("user = {role:?}"))
}

#[test]
fn a_node_does_not_start_on_a_first_cluster_that_it_may_not_write() {
    let fleet = Fleet::new(&["first", "second"]);
    let server = fleet.start("a").expect("it starts");
    server.client().make_posts();
    server.stop();
    let (first, second) = fleet.parts_of_file();
    let first = with_reader(&fleet, "first", &first);
    let refused = fleet.start_on("a", &format!("{first}{second}"), &[]);
    let refused = refused.err().expect("it is refused");
    assert_eq!(refused.code, Some(4), "{refused:?}");
    for part in [
        "may not write in the cluster 'first'",
        DENIED,
        "clusters-a.toml",
    ] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
}

#[test]
fn a_node_serves_without_another_cluster_that_it_may_not_write() {
    let fleet = Fleet::new(&["first", "second"]);
    let server = fleet.start("a").expect("it starts");
    server.client().make_posts();
    server.stop();
    let (first, second) = fleet.parts_of_file();
    let second = with_reader(&fleet, "second", &second);
    let server = fleet.start_on("a", &format!("{first}{second}"), &[]);
    let server = server.expect("it starts");
    let endpoint = format!("http://{}/", server.admin_address);
    let directory = fleet.path("node-a");
    let own = ["--admin-endpoint", &endpoint, "--data-dir", &directory];
    let listed = || run(&[&["clusters", "list", "--json"], &own[..]].concat()).stdout;
    let failed = wait_for("the reason", listed, |list| list.contains(DENIED));
    let schema = fleet.schema("second");
    let grant = format!("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO");
    assert!(failed.contains(&grant), "{failed}");
    assert!(
        failed.contains("may not write in the cluster 'second'"),
        "{failed}"
    );
    let grant = grant.replace("SCHEMA", "schema");
    fleet.sql("second", &format!("{grant} reader_of_{schema}"));
    wait_for("the cluster is used", listed, |list| {
        !list.contains("writeFailure")
    });
    let end = server.stop();
    assert!(
        end.stderr
            .contains("the cluster 'second' cannot be used now"),
        "{end:?}"
    );
}
