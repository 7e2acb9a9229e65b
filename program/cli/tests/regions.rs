//! Nodes of a fleet in several regions: the addresses that clients get, and the node that takes the
//! writes.

use crate::fleet::{Done, Fleet, run};
use crate::program::{self, ITEMS, Request, Server, item, text};
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_test_wait::wait_for;

/// Returns the regions that take reads, as a client of this node sees them, with the write region
/// first.
fn regions(server: &Server) -> Vec<String> {
    let answer = server.client().call(&Request::new("GET", "/"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let json = answer.json();
    let list = |name: &str| -> Vec<String> {
        let list = json.get(name).and_then(Json::as_array).expect("a list");
        let place = |one: &Json| {
            let (name, endpoint) = (text(one, "name"), text(one, "databaseAccountEndpoint"));
            format!("{name} {endpoint}")
        };
        list.iter().map(place).collect()
    };
    let (write, read) = (list("writableLocations"), list("readableLocations"));
    // Writes go to the address that the client uses, in the region of the holder.
    let (region, _) = read[0].split_once(" http").expect("an address");
    assert_eq!(write, [place(region, server)]);
    read
}

#[track_caller]
fn wait_for_regions(server: &Server, expected: &[String]) {
    let event = format!("the regions {expected:?}");
    wait_for(&event, || regions(server), |found| found == expected);
}

fn place(region: &str, server: &Server) -> String {
    format!("{region} http://{}/", server.address)
}

fn start(fleet: &Fleet, name: &str, region: &str) -> Server {
    let started = fleet.start_with(name, &["--region", region]);
    started.expect("it starts")
}

/// Runs a command of the operator at a node.
fn command(fleet: &Fleet, name: &str, server: &Server, arguments: &[&str]) -> Done {
    let endpoint = format!("http://{}/", server.admin_address);
    let directory = fleet.path(&format!("node-{name}"));
    let own = ["--admin-endpoint", &endpoint, "--data-dir", &directory];
    run(&[arguments, &own].concat())
}

/// Returns name and region of each live node; `*` marks the leaseholder.
fn nodes(fleet: &Fleet, name: &str, server: &Server) -> Vec<String> {
    let done = command(fleet, name, server, &["nodes", "list", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let json = parse(done.stdout.as_bytes()).expect("JSON");
    let list = json.get("nodes").and_then(Json::as_array).expect("a list");
    let node = |one: &Json| {
        let mark = match text(one, "holdsLease").as_str() {
            "yes" => " *",
            _ => "",
        };
        format!("{} {}{mark}", text(one, "name"), text(one, "region"))
    };
    list.iter().map(node).collect()
}

#[test]
fn each_region_has_the_address_of_one_of_its_live_nodes() {
    let fleet = Fleet::new(&["main"]);
    let west = start(&fleet, "a", "West US");
    assert_eq!(regions(&west), [place("West US", &west)]);
    let mut east = start(&fleet, "b", "East Asia");
    let both = [place("West US", &west), place("East Asia", &east)];
    wait_for_regions(&west, &both);
    assert_eq!(regions(&east), both);

    // A client gets the node that it uses as the address of its region.
    let mut other = start(&fleet, "c", "east asia");
    let listed = || nodes(&fleet, "a", &west);
    wait_for("all nodes", listed, |nodes| {
        *nodes == ["a West US *", "b East Asia", "c east asia"]
    });
    let by_other = [place("West US", &west), place("East Asia", &other)];
    wait_for_regions(&other, &by_other);
    wait_for_regions(&east, &both);

    // Every answer tells the number of regions, and reads work at each of them.
    let mut client = east.client();
    client.make_posts();
    client.create(ITEMS, r#"{"id":"1","postId":"p"}"#);
    for server in [&west, &east, &other] {
        let read = server
            .client()
            .call(&Request::new("GET", &item("1")).key("p"));
        assert_eq!(read.status, 200);
        assert_eq!(read.header("x-ms-number-of-read-regions"), Some("1"));
    }

    // A region without a live node is no region of the account.
    east.kill();
    other.kill();
    wait_for_regions(&west, &[place("West US", &west)]);
}

#[test]
fn an_operator_gives_the_lease_to_another_node_and_its_region_takes_the_writes() {
    let fleet = Fleet::new(&["main"]);
    let west = start(&fleet, "a", "West US");
    let east = start(&fleet, "b", "East Asia");
    let third = start(&fleet, "c", "North Europe");
    let all = |write, others: [(&str, &Server); 2]| {
        let others = others.map(|(region, server)| place(region, server));
        [vec![write], others.to_vec()].concat()
    };
    let before = all(
        place("West US", &west),
        [("East Asia", &east), ("North Europe", &third)],
    );
    wait_for_regions(&third, &before);
    let unknown = command(&fleet, "a", &west, &["nodes", "lead", "nobody"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert!(
        unknown.stderr.contains("no live node 'nobody'"),
        "{unknown:?}"
    );
    let own = command(&fleet, "a", &west, &["nodes", "lead", "a"]);
    assert!(own.stderr.contains("already"), "{own:?}");

    let mut client = third.client();
    client.make_posts();
    let led = command(&fleet, "a", &west, &["nodes", "lead", "c"]);
    assert_eq!(led.code, Some(0), "{led:?}");
    // The first request waits for the next holder.
    client.create(ITEMS, r#"{"id":"1","postId":"p"}"#);
    let exit = west.wait();
    assert_eq!(exit.code, Some(1), "{exit:?}");
    assert!(exit.stderr.contains("given to the node 'c'"), "{exit:?}");
    let after = [place("North Europe", &third), place("East Asia", &east)];
    wait_for_regions(&east, &after);
    assert_eq!(
        nodes(&fleet, "c", &third),
        ["b East Asia", "c North Europe *"]
    );

    // The node that had the lease comes back as one that waits.
    let west = start(&fleet, "a", "West US");
    let again = all(
        place("North Europe", &third),
        [("East Asia", &east), ("West US", &west)],
    );
    wait_for_regions(&west, &again);
}

#[test]
fn a_hello_that_no_node_has_signed_changes_nothing() {
    let fleet = Fleet::new(&["main"]);
    let west = start(&fleet, "a", "West US");
    let body = r#"{"nodes":[{"name":"x","address":"http://evil:1","region":"East Asia"}]}"#;
    let hello = Request::new("POST", "/_nodes/hello").body(body);
    let signatures = ["", "00", &"0".repeat(64)];
    for signature in signatures {
        let hello = hello.clone().header("x-orrery-signature", signature);
        assert_eq!(west.client().call(&hello).status, 401);
    }
    assert_eq!(nodes(&fleet, "a", &west), ["a West US *"]);
    assert_eq!(regions(&west), [place("West US", &west)]);
}

#[test]
fn a_node_is_in_one_region_and_a_server_of_its_own_has_no_nodes() {
    let fleet = Fleet::new(&["main"]);
    let two = fleet.start_with("a", &["--region", "West US", "--region", "East Asia"]);
    let refused = two.err().expect("it is refused");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("in one region"), "{refused:?}");

    let server = program::start(&["--memory"]).expect("it starts");
    let message = server.manager().refused("GET", "/nodes", "", 409);
    assert!(message.contains("--store postgres"), "{message}");
}
