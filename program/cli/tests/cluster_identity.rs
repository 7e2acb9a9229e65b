//! Cluster files that name a cluster of another fleet, or a cluster in the place of another one,
//! and clusters that come back without their data: nothing is written there, and nothing is served
//! in place of the data.

use crate::fleet::Fleet;
use crate::program::{Client, Exit, Request, Server};
use orrery_test_wait::wait_for;
use std::thread;

/// Two clusters, each with a container of the name of the cluster that has an item `before`.
fn two_clusters() -> (Fleet, Server) {
    let fleet = Fleet::new(&["first", "second"]);
    let server = fleet.start("a").expect("it starts");
    fill(&server, &["second", "first"]);
    (fleet, server)
}

/// Creates containers, of which each goes to the cluster with the fewest partitions.
fn fill(server: &Server, containers: &[&str]) {
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"db"}"#);
    for id in containers {
        let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/pk"]}}}}"#);
        client.create("/dbs/db/colls", &body);
        assert_eq!(create(&mut client, id, "before"), 201);
    }
}

fn create(client: &mut Client, container: &str, id: &str) -> u16 {
    let path = format!("/dbs/db/colls/{container}/docs");
    let body = format!(r#"{{"id":"{id}","pk":"p"}}"#);
    let request = Request::new("POST", &path).key("p").body(body);
    client.call(&request).status
}

fn read(client: &mut Client, container: &str, id: &str) -> u16 {
    let path = format!("/dbs/db/colls/{container}/docs/{id}");
    client.call(&Request::new("GET", &path).key("p")).status
}

/// Returns the answers to requests at the same time: one to a cluster that is away waits for
/// seconds.
fn at_once<T: Sync>(requests: &[T], send: impl Fn(&T) -> u16 + Sync) -> Vec<u16> {
    let send = &send;
    thread::scope(|scope| {
        let threads: Vec<_> = requests
            .iter()
            .map(|request| scope.spawn(move || send(request)))
            .collect();
        let statuses = threads.into_iter().map(|thread| thread.join());
        statuses.map(|status| status.expect("a status")).collect()
    })
}

/// Returns all that the tables of a cluster hold, as text. The row of the lease, and the heads of a
/// fleet that runs, change all the time and are left out.
fn contents(fleet: &Fleet, cluster: &str) -> Vec<Vec<String>> {
    fleet.sql(
        cluster,
        "SELECT 'identity', t::text FROM SCHEMA.identity t UNION ALL \
         SELECT 'kv', t::text FROM SCHEMA.kv t WHERE p <> -4 UNION ALL \
         SELECT 'head', concat(p, ' ', lsn, ' ', state) FROM SCHEMA.head t \
         WHERE p <> -4 AND p <> -3 ORDER BY 1, 2",
    )
}

/// Returns true if the schema of a cluster is there.
fn exists(fleet: &Fleet, cluster: &str) -> bool {
    let query = format!(
        "SELECT count(*) FROM pg_namespace WHERE nspname = '{}'",
        fleet.schema(cluster)
    );
    fleet.value(cluster, &query) == "1"
}

/// Takes the tables of a cluster away.
fn lose(fleet: &Fleet, cluster: &str) {
    rename(fleet, cluster, fleet.schema(cluster), &away(fleet, cluster));
}

fn restore(fleet: &Fleet, cluster: &str) {
    rename(fleet, cluster, &away(fleet, cluster), fleet.schema(cluster));
}

fn away(fleet: &Fleet, cluster: &str) -> String {
    format!("away_{}", fleet.schema(cluster))
}

fn rename(fleet: &Fleet, cluster: &str, from: &str, to: &str) {
    fleet.sql(cluster, &format!("ALTER schema {from} RENAME TO {to}"));
}

#[track_caller]
fn assert_refused(started: Result<Server, Exit>, code: i32, parts: &[&str]) {
    let refused = started.err().expect("it is refused");
    assert_eq!(refused.code, Some(code), "{refused:?}");
    for part in parts {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
}

/// Waits until the list of clusters has a text.
#[track_caller]
fn wait_for_failure(server: &Server, text: &str) {
    let mut manager = server.manager();
    wait_for(
        text,
        || manager.get("/clusters").text(),
        |clusters| clusters.contains(text),
    );
}

#[test]
fn a_file_whose_first_cluster_is_not_the_first_of_the_fleet_is_refused() {
    let (fleet, server) = two_clusters();
    let (first, second) = fleet.parts_of_file();
    let before = contents(&fleet, "second");
    let swapped = format!("{second}{first}");
    let parts = [
        "database cluster 'second'",
        "is the cluster 'second' of the fleet",
        "in the order in which the other nodes have them",
        "clusters-x.toml",
    ];
    assert_refused(fleet.start_on("x", &swapped, &[]), 4, &parts);
    assert_refused(fleet.start_on("x", &second, &[]), 4, &parts);
    assert_eq!(server.stop().code, Some(0));
    assert_refused(fleet.start_on("x", &swapped, &[]), 4, &parts);
    let exchanged = swapped
        .replace("\"first\"", "\"other\"")
        .replace("\"second\"", "\"first\"")
        .replace("\"other\"", "\"second\"");
    assert_refused(fleet.start_on("x", &exchanged, &[]), 4, &parts[1..]);
    assert_eq!(contents(&fleet, "second"), before, "nothing was written");

    let server = fleet.start("a").expect("it starts");
    for cluster in ["first", "second"] {
        assert_eq!(read(&mut server.client(), cluster, "before"), 200);
    }
}

#[test]
fn a_cluster_of_another_fleet_gets_no_partitions_and_nothing_is_written_there() {
    let (fleet, server) = two_clusters();
    let other = Fleet::new(&["first"]);
    let own = std::fs::read_to_string(other.file()).expect("the cluster file");
    let (first, second) = fleet.parts_of_file();
    // The first cluster of the other fleet gets a name of its own.
    let first = first.replace("\"first\"", "\"third\"");
    let before = [contents(&fleet, "first"), contents(&fleet, "second")];

    let file = format!("{own}{second}{first}");
    let parts = ["there are no tables", "'second' belongs to the fleet"];
    assert_refused(other.start_on("x", &file, &[]), 4, &parts);
    let guest = other.start("x").expect("it starts");
    assert_eq!(guest.stop().code, Some(0));
    let guest = other.start_on("x", &file, &[]).expect("it starts");
    wait_for_failure(&guest, "is 'second' of another fleet");
    wait_for_failure(&guest, "is the first cluster 'first' of another fleet");
    fill(&guest, &["one", "two", "three"]);
    assert_eq!(guest.manager().get("/ready").status, 200);
    assert_eq!(guest.stop().code, Some(0));

    let after = [contents(&fleet, "first"), contents(&fleet, "second")];
    assert_eq!(after, before, "nothing was written");
    for cluster in ["first", "second"] {
        assert_eq!(read(&mut server.client(), cluster, "before"), 200);
        assert_eq!(create(&mut server.client(), cluster, "after"), 201);
    }
}

#[test]
fn clusters_whose_servers_were_exchanged_are_not_used() {
    let fleet = Fleet::new(&["first", "second", "third"]);
    let server = fleet.start("a").expect("it starts");
    fill(&server, &["second", "third", "first"]);
    assert_eq!(server.stop().code, Some(0));
    let text = std::fs::read_to_string(fleet.file()).expect("the cluster file");
    let exchanged = text
        .replace("\"second\"", "\"other\"")
        .replace("\"third\"", "\"second\"")
        .replace("\"other\"", "\"third\"");
    let server = fleet.start_on("a", &exchanged, &[]).expect("it starts");
    wait_for_failure(&server, "is the cluster 'second' of this fleet");
    wait_for_failure(&server, "is the cluster 'third' of this fleet");
    assert_eq!(read(&mut server.client(), "first", "before"), 200);
    let refused = at_once(&["second", "third"], |cluster| match *cluster {
        "second" => read(&mut server.client(), cluster, "before"),
        _ => create(&mut server.client(), cluster, "new"),
    });
    assert_eq!(refused, [503, 503]);
    assert_eq!(server.stop().code, Some(0));
    let server = fleet.start("a").expect("it starts");
    for cluster in ["first", "second", "third"] {
        assert_eq!(read(&mut server.client(), cluster, "before"), 200);
    }
}

#[test]
fn a_file_that_names_a_cluster_or_a_place_twice_is_refused_with_both_entries() {
    let fleet = Fleet::new(&["first", "second"]);
    let (first, second) = fleet.parts_of_file();
    let named_twice = format!("{first}{}", second.replace("\"second\"", "\"first\""));
    let parts = ["clusters-x.toml", "two clusters have the name 'first'"];
    assert_refused(fleet.start_on("x", &named_twice, &[]), 2, &parts);
    let same = format!("{first}{}", first.replace("\"first\"", "\"second\""));
    let parts = ["the clusters 'first' and 'second' have the same tables"];
    assert_refused(fleet.start_on("x", &same, &[]), 2, &parts);
    assert!(!exists(&fleet, "first") && !exists(&fleet, "second"));
}

/// The same server under another name of the machine.
#[test]
fn a_place_that_is_named_twice_by_two_addresses_is_used_once() {
    let (fleet, server) = two_clusters();
    assert_eq!(server.stop().code, Some(0));
    let (first, _) = fleet.parts_of_file();
    let same = first.replace("\"first\"", "\"second\"");
    let same = same.replace("127.0.0.1", "localhost");
    let server = fleet.start_on("a", &format!("{first}{same}"), &[]);
    let server = server.expect("it starts");
    wait_for_failure(
        &server,
        "is the cluster 'first', the first one of this fleet",
    );
    assert_eq!(create(&mut server.client(), "first", "one"), 201);
    assert_eq!(create(&mut server.client(), "second", "one"), 503);
}

#[test]
fn a_cluster_that_is_started_without_its_tables_is_not_served_until_it_is_restored() {
    let (fleet, server) = two_clusters();
    assert_eq!(server.stop().code, Some(0));
    lose(&fleet, "second");
    let server = fleet.start("a").expect("it starts");
    let mut client = server.client();
    let lost = "and the fleet has a partition there: restore the cluster 'second'";
    wait_for_failure(&server, lost);
    assert_eq!(create(&mut client, "first", "one"), 201);
    let refused = at_once(&[true, false], |is_read| match is_read {
        true => read(&mut server.client(), "second", "before"),
        false => create(&mut server.client(), "second", "one"),
    });
    assert_eq!(refused, [503, 503]);
    assert!(!exists(&fleet, "second"), "no tables were created");
    restore(&fleet, "second");
    wait_for(
        "an item of the restored cluster",
        || read(&mut client, "second", "before"),
        |status| *status == 200,
    );
    assert_eq!(create(&mut client, "second", "one"), 201);
}

/// The partitions of the cluster are owned by both nodes.
#[test]
fn a_cluster_that_loses_its_tables_while_nodes_run_is_not_created_again() {
    let fleet = Fleet::new(&["first", "second"]);
    let spread = ["--spread-load", "0"];
    let server = fleet.start_with("a", &spread).expect("it starts");
    let key = fleet.path("account.key");
    std::fs::write(&key, &server.key).expect("written");
    let with_key = ["--spread-load", "0", "--key-file", &key];
    let other = fleet.start_with("b", &with_key).expect("it starts");
    let containers = ["c0", "c1", "c2", "c3"];
    fill(&server, &containers);
    let mut manager = server.manager();
    wait_for(
        "both nodes own partitions",
        || manager.get("/nodes").text(),
        |nodes| !nodes.contains(r#""partitions":0"#),
    );

    lose(&fleet, "second");
    wait_for_failure(&server, "are gone: restore the cluster 'second'");
    for server in [&server, &other] {
        let statuses = at_once(&containers, |container| {
            let id = format!("lost-{}", server.process_id());
            create(&mut server.client(), container, &id)
        });
        assert_eq!(statuses, [503, 201, 503, 201]);
    }
    assert!(!exists(&fleet, "second"), "no tables were created");
    restore(&fleet, "second");
    for server in [&server, &other] {
        let statuses = at_once(&containers, |container| {
            let mut client = server.client();
            wait_for(
                container,
                || read(&mut client, container, "before"),
                |status| *status == 200,
            )
        });
        assert_eq!(statuses, [200; 4]);
    }
}

#[test]
fn no_new_account_is_made_in_the_place_of_a_first_cluster_that_lost_its_tables() {
    let (fleet, server) = two_clusters();
    let key = fleet.path("account.key");
    std::fs::write(&key, &server.key).expect("written");
    let other = fleet.start_with("b", &["--key-file", &key]);
    let other = other.expect("it starts");
    lose(&fleet, "first");
    let refused = at_once(&[&server, &other], |server| {
        let mut client = server.client();
        wait_for(
            "no write is taken",
            || create(&mut client, "first", "lost"),
            |status| *status == 503,
        )
    });
    assert_eq!(refused, [503, 503]);
    let parts = [
        "database cluster 'first': there are no tables",
        "the cluster 'second' belongs to the fleet",
        "restore the first cluster",
    ];
    assert_refused(fleet.start("c"), 4, &parts);
    assert!(!exists(&fleet, "first"), "no tables were created");
    restore(&fleet, "first");
    let mut client = other.client();
    wait_for(
        "an item of the restored cluster",
        || read(&mut client, "first", "before"),
        |status| *status == 200,
    );
}

#[test]
fn a_new_fleet_is_not_begun_while_a_cluster_of_the_file_is_away() {
    let (fleet, gate) = Fleet::with_gate("first", "second");
    gate.close();
    let parts = ["whether this is a new fleet cannot be known", "'second'"];
    assert_refused(fleet.start("a"), 4, &parts);
    assert!(!exists(&fleet, "first"));
    gate.open();
    assert!(fleet.start("a").is_ok());
}

/// Data of a program that knew no identities.
#[test]
fn a_fleet_from_before_the_identities_gets_them_and_keeps_its_data() {
    let (fleet, server) = two_clusters();
    assert_eq!(server.stop().code, Some(0));
    for cluster in ["first", "second"] {
        fleet.sql(cluster, "DROP TABLE SCHEMA.identity");
    }
    // The ledger is the partition before the lease; its rows of clusters begin with 'c'.
    fleet.sql(
        "first",
        "DELETE FROM SCHEMA.kv WHERE p = -3 AND k >= 'c' AND k < 'd'",
    );

    let (first, second) = fleet.parts_of_file();
    let parts = ["it is not the first cluster of a fleet"];
    assert_refused(
        fleet.start_on("x", &format!("{second}{first}"), &[]),
        4,
        &parts,
    );
    let server = fleet.start("a").expect("it starts");
    for cluster in ["first", "second"] {
        assert_eq!(read(&mut server.client(), cluster, "before"), 200);
        let member = "SELECT count(*) FROM SCHEMA.identity WHERE length(fleet) = 16";
        assert_eq!(fleet.value(cluster, member), "1");
    }
    let remembered = "SELECT count(*) FROM SCHEMA.kv WHERE p = -3 AND k >= 'c' AND k < 'd'";
    assert_eq!(fleet.value("first", remembered), "2");
}
