//! One of two clusters is away: the partitions of the other one are served as before.

use crate::fleet::Fleet;
use crate::fleet::gate::Gate;
use crate::program::{Client, Request, Server, text};
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_test_wait::{wait_for, wait_until};

const PROCEDURE: &str = "function (id) {
    const items = getContext().getCollection();
    items.createDocument(items.getSelfLink(), {id, pk: 'p'}, error => { if (error) throw error; });
}";

/// Two clusters, each with a container of the name of the cluster.
struct TwoClusters {
    fleet: Fleet,
    second: Gate,
}

impl TwoClusters {
    /// Starts a node, and creates the containers.
    fn start() -> (TwoClusters, Server) {
        TwoClusters::start_with(&[])
    }

    /// Starts a node with further options, and creates the containers.
    fn start_with(options: &[&str]) -> (TwoClusters, Server) {
        let (fleet, second) = Fleet::with_gate("first", "second");
        let server = fleet.start_with("a", options).expect("it starts");
        let mut client = server.client();
        client.create("/dbs", r#"{"id":"db"}"#);
        // New partitions go to the cluster with the fewest; the catalog is in the first.
        for id in ["second", "first"] {
            let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"]}}}}"#);
            client.create("/dbs/db/colls", &body);
            let source = Json::from(PROCEDURE);
            let body = format!(r#"{{"id":"create","body":{source}}}"#);
            client.create(&format!("/dbs/db/colls/{id}/sprocs"), &body);
        }
        let placements = server.manager().get("/placements");
        let placements = parse(placements.text().as_bytes()).expect("JSON");
        let rows = placements.get("placements").and_then(Json::as_array);
        // The catalog is the partition without a container.
        let of_containers = |row: &&Json| row.get("container").is_some();
        let rows: Vec<&Json> = rows.expect("a list").iter().filter(of_containers).collect();
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert_eq!(text(row, "container"), text(row, "cluster"));
        }
        (TwoClusters { fleet, second }, server)
    }
}

/// Creates an item in the container of a cluster, and returns the status.
fn create(client: &mut Client, cluster: &str, id: &str) -> u16 {
    let path = format!("/dbs/db/colls/{cluster}/docs");
    let body = format!(r#"{{"id":"{id}","pk":"p"}}"#);
    client
        .call(&Request::new("POST", &path).key("p").body(body))
        .status
}

/// Executes the procedure that creates an item, and returns the status.
fn execute(client: &mut Client, cluster: &str, id: &str) -> u16 {
    let path = format!("/dbs/db/colls/{cluster}/sprocs/create");
    let body = format!("[\"{id}\"]");
    client
        .call(&Request::new("POST", &path).key("p").body(body))
        .status
}

#[test]
fn a_node_starts_without_a_cluster_and_serves_it_when_it_is_back() {
    let (clusters, server) = TwoClusters::start();
    assert_eq!(create(&mut server.client(), "second", "before"), 201);
    clusters.second.close();
    // The end of a node does not wait for the cluster either.
    assert_eq!(server.stop().code, Some(0));

    let server = clusters.fleet.start("a").expect("it starts");
    let (mut client, mut manager) = (server.client(), server.manager());
    assert_eq!(create(&mut client, "first", "one"), 201);
    assert_eq!(execute(&mut client, "first", "two"), 200);
    assert_eq!(manager.get("/ready").status, 200);
    let listed = manager.get("/clusters").text();
    assert!(
        listed.contains("no primary of the cluster 'second' can be used"),
        "{listed}"
    );
    // New partitions go to the cluster that can be used.
    let body = r#"{"id":"new","partitionKey":{"paths":["/pk"]}}"#;
    client.create("/dbs/db/colls", body);
    assert_eq!(create(&mut client, "new", "one"), 201);
    // The request waits for the cluster, and has no effect.
    assert_eq!(create(&mut client, "second", "during"), 503);

    clusters.second.open();
    wait_for(
        "an item in the second cluster",
        || create(&mut client, "second", "after"),
        |status| *status == 201,
    );
    assert_eq!(create(&mut client, "second", "before"), 409);
    assert_eq!(create(&mut client, "second", "during"), 201);
}

#[test]
fn requests_wait_for_a_cluster_without_stopping_procedures_of_another() {
    let (clusters, server) = TwoClusters::start();
    assert_eq!(execute(&mut server.client(), "second", "before"), 200);
    clusters.second.close();
    // More procedures than run at the same time wait for the cluster.
    let waiting: Vec<_> = (0..40)
        .map(|n| {
            let mut client = server.client().with_patience();
            std::thread::spawn(move || execute(&mut client, "second", &format!("w{n}")))
        })
        .collect();
    let mut client = server.client();
    for n in 0..20 {
        assert_eq!(execute(&mut client, "first", &format!("i{n}")), 200);
        assert!(waiting.iter().any(|one| !one.is_finished()), "they wait");
    }
    clusters.second.open();
    for one in waiting {
        // A write whose answer was lost may have taken place, and a node that is slow to catch up
        // asks clients to come back.
        let status = one.join().expect("no panic");
        assert!([200, 408, 429].contains(&status), "{status}");
    }
    wait_until("a procedure of the second cluster", || {
        match execute(&mut client, "second", "after") {
            200 | 409 => Ok(()),
            status => Err(status),
        }
    });
}

/// A request that waits is begun again and again: a query is not cancelled by the end of an
/// attempt, and the attempts cost nothing.
#[test]
fn queries_and_writes_that_wait_are_carried_out_when_the_cluster_is_back() {
    let (clusters, server) = TwoClusters::start_with(&["--enforce-throughput", "on"]);
    assert_eq!(create(&mut server.client(), "second", "before"), 201);
    clusters.second.close();
    // The first request finds the cluster away.
    let mut first = server.client().with_patience();
    assert_eq!(create(&mut first, "second", "first"), 503);
    let query = |mut client: Client, text: &'static str| {
        std::thread::spawn(move || {
            let request = Request::query("/dbs/db/colls/second/docs", text);
            client.call(&request).status
        })
    };
    let texts = [
        "SELECT * FROM c",
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT * FROM c ORDER BY c.id",
    ];
    let mut waiting: Vec<_> = texts.map(|text| query(server.client(), text)).into();
    for n in 0..20 {
        let mut client = server.client();
        waiting.push(std::thread::spawn(move || {
            create(&mut client, "second", &format!("w{n}"))
        }));
    }
    // The metrics name the cluster meanwhile.
    let metric = r#"orrery_cluster_writable{cluster="second"}"#;
    assert_eq!(server.manager().metric(metric), 0.0);
    assert_eq!(server.manager().get("/status").status, 200);
    clusters.second.open();
    for one in waiting {
        let status = one.join().expect("no panic");
        assert!([200, 201].contains(&status), "{status}");
    }
}

/// Containers are made while a cluster is away that was to get one.
#[test]
fn a_creation_that_met_a_lost_cluster_does_not_stop_the_next_ones() {
    let (clusters, server) = TwoClusters::start();
    clusters.second.close();
    let mut client = server.client().with_patience();
    let create = |client: &mut Client, id: &str| {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"]}}}}"#);
        client
            .call(&Request::new("POST", "/dbs/db/colls").body(body))
            .status
    };
    // The first ones may be meant for the lost cluster.
    for n in 0..3 {
        let status = create(&mut client, &format!("new{n}"));
        assert!([201, 503].contains(&status), "{status}");
    }
    for n in 3..6 {
        assert_eq!(create(&mut client, &format!("new{n}")), 201);
    }
}

/// The leaseholder cannot renew the lease, and has the catalog in memory.
#[test]
fn a_leaseholder_without_its_first_cluster_does_not_answer_from_memory() {
    let fleet = Fleet::new(&["first", "second"]);
    let server = fleet.start_with("a", &["--lease-seconds", "2"]);
    let server = server.expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let read = Request::new("GET", "/dbs");
    assert_eq!(client.call(&read).status, 200);
    fleet.sql("first", "DROP schema SCHEMA CASCADE");
    let answer = wait_for(
        "a refusal",
        || client.call(&read),
        |answer| answer.status == 503,
    );
    let last = answer.text();
    let reason = "the lease of the account cannot be read or renewed in the cluster 'first'";
    assert!(last.contains(reason), "{last}");
    let ready = client.call(&Request::new("GET", "/ready"));
    assert_eq!(ready.status, 503);
    assert!(ready.text().contains(reason), "{}", ready.text());
}
