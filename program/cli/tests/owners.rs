//! Nodes that share the partitions of an account on one PostgreSQL: each answers for all, the owner
//! of a partition carries its requests out, and no write is lost or doubled when owners change.

use crate::fleet::Fleet;
use crate::fleet::gate::Gate;
use crate::program::frames::{Frame, Frames, Operation, places};
use crate::program::{Answer, Client, ITEMS, Request, Server, number, text};
use crate::servers::server;
use orrery_model::Json;
use orrery_rntbd::tokens::request as tokens;
use orrery_test_wait::{wait_for, wait_until};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time after which a test fails that waits for a node.
const PARTITION_KEY: &str = "x-ms-documentdb-partitionkey";
/// Partition key values, which lie in all physical partitions.
const KEYS: usize = 24;
const CONTAINER: &str = "/dbs/blog/colls/posts";

/// Starts a node that shares partitions from the first request on.
fn start(fleet: &Fleet, name: &str, more: &[&str]) -> Server {
    let options = [&["--spread-load", "0"], more].concat();
    fleet.start_with(name, &options).expect("it starts")
}

/// Creates a container with four physical partitions.
fn make_container(client: &mut Client, more: &str) {
    client.create("/dbs", r#"{"id":"blog"}"#);
    let body = format!(
        r#"{{"id":"posts","partitionKey":{{"paths":["/postId"],"kind":"Hash","version":2}}{more}}}"#
    );
    let request = Request::new("POST", "/dbs/blog/colls")
        .header("x-ms-offer-throughput", "24000")
        .body(body);
    let answer = client.call(&request);
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(client.range_ids(CONTAINER).len(), 4);
}

/// Returns the names of the nodes with the number of partitions of each.
fn owners(holder: &Server) -> Vec<(String, u64)> {
    let nodes = holder.manager().get("/nodes").json();
    let nodes = nodes.get("nodes").and_then(Json::as_array).expect("a list");
    let of = |node: &Json| (text(node, "name"), number(node, "partitions"));
    nodes.iter().map(of).collect()
}

/// Waits until each node owns partitions.
fn wait_until_shared(holder: &Server, nodes: usize) {
    let shares = || owners(holder);
    wait_for("partitions at each node", shares, |owners| {
        owners.len() == nodes && owners.iter().all(|(_, count)| *count > 0)
    });
}

fn of_key(request: Request, n: usize) -> Request {
    request.header(PARTITION_KEY, format!("[\"p{}\"]", n % KEYS))
}

fn create(n: usize) -> Request {
    let body = format!(r#"{{"id":"i{n}","postId":"p{}","n":{n}}}"#, n % KEYS);
    of_key(Request::new("POST", ITEMS).body(body), n)
}

fn read(n: usize) -> Request {
    of_key(Request::new("GET", &format!("{ITEMS}/i{n}")), n)
}

/// Returns true if a node without the lease has answered.
fn is_of_owner(answer: &Answer) -> bool {
    answer.header("x-orrery-answered-by") == Some("owner")
}

#[test]
fn each_node_answers_for_all_partitions_and_owners_carry_requests_out() {
    let fleet = Fleet::new(&["east"]);
    let nodes = ["a", "b", "c"].map(|name| start(&fleet, name, &[]));
    let mut clients = nodes.each_ref().map(Server::client);
    make_container(&mut clients[0], "");
    let procedure = "function (id) { var c = getContext().getCollection(); \
                     c.createDocument(c.getSelfLink(), { id: id, postId: 'p1' }); }";
    clients[0].make_procedure("make", procedure);
    wait_until_shared(&nodes[0], 3);

    // Writes and reads of every logical partition through every node.
    let mut by_owners = 0;
    for n in 0..3 * KEYS {
        let created = clients[n % 3].call(&create(n));
        assert_eq!(created.status, 201, "{}", created.text());
        by_owners += usize::from(is_of_owner(&created));
        for client in &mut clients {
            let found = client.call(&read(n));
            assert_eq!(found.status, 200, "{}", found.text());
            let session = created.header("x-ms-session-token").expect("a token");
            let found = client.call(&read(n).header("x-ms-session-token", session));
            assert_eq!(found.status, 200, "{}", found.text());
        }
    }
    assert!(by_owners > KEYS, "owners carry requests out: {by_owners}");

    for client in &mut clients {
        // Owner and holder find the same errors.
        assert_eq!(client.call(&create(1)).status, 409);
        let missing = of_key(Request::new("GET", &format!("{ITEMS}/none")), 2);
        assert_eq!(client.call(&missing).status, 404);
        let query = of_key(Request::query(ITEMS, "SELECT VALUE COUNT(1) FROM c"), 5);
        let (rows, _) = client.pages(&query);
        assert_eq!(rows[0].to_text(), "3");
        assert_eq!(
            client
                .call(&of_key(Request::query(ITEMS, "SELEKT"), 5))
                .status,
            400
        );
        // The change feed of each range.
        let mut changes = 0;
        for range in client.range_ids(CONTAINER) {
            let feed = Request::new("GET", ITEMS)
                .header("a-im", "Incremental feed")
                .header("x-ms-documentdb-partitionkeyrangeid", range);
            changes += client.call(&feed).rows().len();
        }
        assert_eq!(changes, 3 * KEYS);
    }
    for (n, client) in clients.iter_mut().enumerate() {
        let run = Request::new("POST", &format!("{CONTAINER}/sprocs/make"));
        let answer = client.call(&of_key(run.body(format!("[\"s{n}\"]")), 1));
        assert_eq!(answer.status, 200, "{}", answer.text());
    }
    for node in &nodes {
        assert_eq!(node.item_ids().len(), 3 * KEYS + 3);
    }
    // Each node has metrics of the requests that it has carried out.
    for node in &nodes {
        let metrics = node.manager().get("/metrics").text();
        let requests = metrics
            .lines()
            .filter(|line| line.starts_with("orrery_requests_total{"));
        let counts = requests.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
        assert!(counts.sum::<f64>() > 0.0, "{metrics}");
    }

    // Each row of the clusters is as it must be, whichever node owns its partition.
    let mut manager = nodes[0].manager();
    manager.ok("POST", "/verification", "{}");
    let read = || manager.ok("GET", "/verification", "").json();
    let found = wait_for("the end of the verification", read, |found| {
        text(found, "status") != "running"
    });
    assert_eq!(number(&found, "found"), 0, "{found}");
    assert_eq!(number(&found, "items"), 3 * KEYS as u64 + 3);
}

/// Writes items through nodes until told to stop, one after the other in each thread, and keeps the
/// acknowledged ones.
struct Writers {
    is_over: AtomicBool,
    acknowledged: Mutex<BTreeSet<usize>>,
}

impl Writers {
    fn new() -> Writers {
        Writers {
            is_over: AtomicBool::new(false),
            acknowledged: Mutex::default(),
        }
    }

    fn count(&self) -> usize {
        self.acknowledged.lock().expect("no panic").len()
    }

    fn write(&self, server: &Server, first: usize, step: usize, may_fail: bool) {
        let mut client = server.client();
        for n in (first..).step_by(step) {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            // An unknown outcome is looked up by the next attempt: the item may be there.
            wait_until("an item that is written", || {
                let answer = client.try_call(&create(n));
                match answer.as_ref().map(|answer| answer.status) {
                    Ok(201) => return Ok(()),
                    Ok(409) if may_fail => return Ok(()),
                    Ok(408 | 449 | 503) if may_fail => {}
                    Err(_) if may_fail => client = server.client(),
                    _ => panic!("{n}: {:?}", answer.map(|answer| answer.text())),
                }
                Err((n, answer.map(|answer| answer.status).ok()))
            });
            self.acknowledged.lock().expect("no panic").insert(n);
        }
    }

    /// Waits until so many more items are acknowledged.
    fn wait_for(&self, more: usize) {
        let wanted = self.count() + more;
        wait_for("more items", || self.count(), |count| *count >= wanted);
    }

    fn stop(&self) {
        self.is_over.store(true, Ordering::SeqCst);
    }

    fn expected(&self) -> Vec<String> {
        let acknowledged = self.acknowledged.lock().expect("no panic");
        let mut ids: Vec<String> = acknowledged.iter().map(|n| format!("i{n}")).collect();
        ids.sort();
        ids
    }
}

/// Ends the writers if the test fails, so that it does not wait for them.
struct StopOnDrop<'a>(&'a Writers);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[test]
fn writers_see_no_error_while_the_catalog_changes_and_partitions_are_split() {
    let fleet = Fleet::new(&["east", "west"]);
    let nodes = ["a", "b", "c"].map(|name| start(&fleet, name, &[]));
    let mut client = nodes[1].client();
    make_container(&mut client, "");
    wait_until_shared(&nodes[0], 3);
    let writers = Writers::new();
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&writers);
        for (first, node) in nodes.iter().enumerate() {
            let writers = &writers;
            scope.spawn(move || writers.write(node, first, 3, false));
        }
        writers.wait_for(100);
        for round in 0..3 {
            let other = format!(
                r#"{{"id":"other{round}","partitionKey":{{"paths":["/k"],"kind":"Hash"}}}}"#
            );
            client.create("/dbs/blog/colls", &other);
            writers.wait_for(30);
            // Each write after the replacement follows the new policy, at owner and holder.
            let policy = format!(
                r#"{{"id":"posts","partitionKey":{{"paths":["/postId"],"kind":"Hash","version":2}},
                    "indexingPolicy":{{"indexingMode":"consistent",
                    "includedPaths":[{{"path":"/*"}}],
                    "excludedPaths":[{{"path":"/x{round}/?"}}]}}}}"#
            );
            let replace = Request::new("PUT", CONTAINER).body(policy);
            let answer = client.call(&replace);
            assert_eq!(answer.status, 200, "{}", answer.text());
            writers.wait_for(30);
            wait_until_shared(&nodes[0], 3);
            let range = &client.range_ids(CONTAINER)[0];
            let split = format!("{CONTAINER}/partitions/{range}/split");
            nodes[0].manager().ok("POST", &split, "{}");
            writers.wait_for(60);
            wait_until_shared(&nodes[0], 3);
        }
        writers.stop();
    });
    for node in &nodes {
        assert_eq!(node.item_ids(), writers.expected());
    }
}

#[test]
fn an_owner_that_stops_hands_over_and_one_that_dies_is_replaced() {
    let fleet = Fleet::new(&["east"]);
    let (a, b) = (start(&fleet, "a", &[]), start(&fleet, "b", &[]));
    let mut c = start(&fleet, "c", &[]);
    make_container(&mut a.client(), "");
    wait_until_shared(&a, 3);
    let writers = Writers::new();
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&writers);
        scope.spawn(|| writers.write(&a, 0, 1, false));
        writers.wait_for(100);
        assert_eq!(b.stop().code, Some(0));
        writers.wait_for(100);
        writers.stop();
    });
    assert_eq!(a.item_ids(), writers.expected());

    let again = Writers::new();
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&again);
        scope.spawn(|| again.write(&a, 1_000_000, 1, true));
        again.wait_for(100);
        c.kill();
        // Each logical partition is written again.
        again.wait_for(4 * KEYS);
        again.stop();
    });
    let mut expected = [writers.expected(), again.expected()].concat();
    expected.sort();
    assert_eq!(a.item_ids(), expected);
    assert_eq!(
        owners(&a)
            .iter()
            .find(|(name, _)| name == "c")
            .map_or(0, |c| c.1),
        0
    );
}

#[test]
fn owners_follow_the_next_holder_when_the_holder_dies() {
    let fleet = Fleet::new(&["east"]);
    let mut a = start(&fleet, "a", &[]);
    let (b, c) = (start(&fleet, "b", &[]), start(&fleet, "c", &[]));
    make_container(&mut a.client(), "");
    wait_until_shared(&a, 3);
    let writers = Writers::new();
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&writers);
        for (first, node) in [&b, &c].into_iter().enumerate() {
            let writers = &writers;
            scope.spawn(move || writers.write(node, first, 2, true));
        }
        writers.wait_for(100);
        a.kill();
        writers.wait_for(4 * KEYS);
        writers.stop();
    });
    let holder = [&b, &c].into_iter().find(|node| {
        let nodes = node.manager().get("/nodes").text();
        let own = format!("http://{}", node.address);
        nodes.contains(&format!(r#""address":"{own}","holdsLease":"yes""#))
    });
    wait_until_shared(holder.expect("one holds the lease"), 2);
    for node in [&b, &c] {
        assert_eq!(node.item_ids(), writers.expected());
    }
}

/// The throughput of each partition of a test.
const RU_PER_SECOND: u32 = 100;

#[test]
fn a_container_has_one_budget_whichever_nodes_its_clients_use() {
    let fleet = Fleet::new(&["east"]);
    let options = ["--enforce-throughput", "on"];
    let nodes = ["a", "b"].map(|name| start(&fleet, name, &options));
    let mut clients = nodes.each_ref().map(Server::client);
    // Four partitions. A machine that answers four requests a second uses up the request units of
    // one.
    make_container(&mut clients[0], "");
    let body = format!(r#"{{"ruPerSecond":{}}}"#, 4 * RU_PER_SECOND);
    let path = format!("{CONTAINER}/throughput");
    nodes[0].manager().ok("PUT", &path, &body);
    wait_until_shared(&nodes[0], 2);
    // One logical partition is loaded through both nodes for some seconds. A query over all
    // partitions, which the holder answers, follows each third write that is not refused.
    let (mut charged, mut throttled, mut written) = (0.0, 0, 0);
    let began = Instant::now();
    let wide = "SELECT VALUE SUM(LENGTH(c.text)) FROM c WHERE c.n >= 0";
    let text = "x".repeat(40_000);
    let mut query_is_next = false;
    let mut n = 0;
    while began.elapsed() < Duration::from_secs(8) {
        n += 1;
        let body = format!(
            r#"{{"id":"i{}","postId":"p1","n":{n},"text":"{text}"}}"#,
            n % 4
        );
        let write = of_key(Request::new("POST", ITEMS).body(body), 1)
            .header("x-ms-documentdb-is-upsert", "true");
        let query = Request::query(ITEMS, wide)
            .header("x-ms-documentdb-query-enablecrosspartition", "true");
        let request = if query_is_next { query } else { write };
        let answer = clients[n % 2].call(&request);
        match answer.status {
            429 => throttled += 1,
            200 | 201 => {
                let charge = answer.header("x-ms-request-charge").expect("a charge");
                charged += charge.parse::<f64>().expect("a number");
                written += usize::from(!query_is_next);
                query_is_next = !query_is_next && written % 3 == 0;
            }
            status => panic!("{status}: {}", answer.text()),
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    assert!(
        throttled > 0,
        "the budget is not used up: {charged} RU in {seconds} s"
    );
    // Charges of the other side are known half a second later, so a second's budget may be
    // overdrawn on both sides. Two more cover the last request of each side, which may overdraw
    // the budget, and the charges of the queries at the other three partitions. Two budgets would
    // be twice as much.
    let budget = f64::from(RU_PER_SECOND) * (seconds + 3.0);
    assert!(charged < budget, "{charged} RU of {budget}");
}

#[test]
fn owners_remove_expired_items_of_their_partitions() {
    let fleet = Fleet::new(&["east"]);
    let nodes = ["a", "b"].map(|name| start(&fleet, name, &[]));
    let mut clients = nodes.each_ref().map(Server::client);
    make_container(&mut clients[0], r#","defaultTtl":1"#);
    wait_until_shared(&nodes[0], 2);
    for n in 0..KEYS {
        assert_eq!(clients[n % 2].call(&create(n)).status, 201);
    }
    // The items are gone from the partitions, not only hidden.
    let quota = Request::new("GET", CONTAINER).header("x-ms-documentdb-populatequotainfo", "true");
    let usage = || {
        let answer = clients[0].call(&quota);
        let usage = answer.header("x-ms-resource-usage");
        usage.expect("the usage").to_owned()
    };
    wait_for("the removal of all items", usage, |usage| {
        usage.split(';').any(|part| part == "documentsCount=0")
    });
    assert!(owners(&nodes[0]).iter().all(|(_, count)| *count > 0));
}

/// Sends a signal to the process of a node.
fn signal(node: &Server, name: &str) {
    let id = node.process_id().to_string();
    let sent = std::process::Command::new("kill")
        .args([name, &id])
        .status();
    assert!(sent.expect("kill exists").success());
}

#[test]
fn partitions_of_an_owner_that_hangs_are_read_before_the_owner_goes_on() {
    let fleet = Fleet::new(&["east"]);
    let (a, b) = (start(&fleet, "a", &[]), start(&fleet, "b", &[]));
    make_container(&mut a.client(), "");
    wait_until_shared(&a, 2);
    signal(&b, "-STOP");
    let mut client = a.client();
    for n in 0..KEYS {
        // The read waits until the grants of the owner have expired, and gets one answer.
        let answer = client.try_call(&read(n));
        let status = answer.map(|answer| answer.status);
        assert!(matches!(status, Ok(404)), "{n}: {status:?}");
    }
    signal(&b, "-CONT");
}

#[test]
fn no_request_fails_beside_a_node_that_cannot_take_partitions_over() {
    let fleet = Fleet::new(&["east", "west"]);
    let a = start(&fleet, "a", &[]);
    make_container(&mut a.client(), "");
    // A node that does not reach the second cluster.
    let gate = Gate::before(server().port);
    gate.close();
    let (first, second) = fleet.parts_of_file();
    let (port, closed) = (server().port.to_string(), gate.port.to_string());
    let clusters = format!("{first}{}", second.replace(&port, &closed));
    let b = fleet.start_on("b", &clusters, &["--spread-load", "0"]);
    let b = b.expect("it starts");
    // The holder has heard of the node, and gives it partitions.
    wait_for("the second node", || owners(&a), |owners| owners.len() == 2);
    let mut client = a.client();
    for n in 0..20 * KEYS {
        let answer = client.call(&create(n));
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    assert_eq!(b.stop().code, Some(0));
}

#[test]
fn addresses_of_the_direct_mode_name_the_owner_and_other_nodes_send_clients_away() {
    let fleet = Fleet::new(&["east"]);
    let nodes = ["a", "b"].map(|name| start(&fleet, name, &["--direct", "on"]));
    let mut client = nodes[0].client();
    make_container(&mut client, "");
    wait_until_shared(&nodes[0], 2);
    let container = client.call(&Request::new("GET", CONTAINER)).json();
    let rid = text(&container, "_rid");
    let link = text(&container, "_self");

    // Any node answers for the addresses, and names the owner.
    let address_of = |node: &Server, range: &str| {
        let wanted = format!("{link}docs")
            .replace('/', "%2F")
            .replace('=', "%3D");
        let path = format!(
            "/addresses/?$resolveFor={wanted}&$filter=protocol%20eq%20rntbd\
             &$partitionKeyRangeIds={range}"
        );
        let request = Request::new("GET", &path).signed_as("docs", &rid.to_lowercase());
        let answer = Frames::over_https(node, &node.address, request);
        assert_eq!(answer.status, 200, "{}", answer.text());
        places(&answer.text())[0].1.clone()
    };
    let mut owners = BTreeSet::new();
    for range in client.range_ids(CONTAINER) {
        let query = Frame::new(Operation::Query, ITEMS)
            .text(&tokens::PARTITION_KEY_RANGE_ID, &*range)
            .payload(r#"{"query":"SELECT VALUE COUNT(1) FROM c"}"#);
        // A partition may change its owner between the two calls.
        wait_until("the owner answers, and the other node does not", || {
            let place = address_of(&nodes[0], &range);
            let same = address_of(&nodes[1], &range);
            let codes = nodes.each_ref().map(|node| {
                let code = Frames::connect(node).call(&query).code();
                (node.address == place, code)
            });
            let is_right = codes.iter().all(|(is_owner, code)| match is_owner {
                true => *code == (200, 0),
                false => *code == (410, 0),
            });
            match is_right && same == place {
                true => {
                    owners.insert(place);
                    Ok(())
                }
                false => Err(codes),
            }
        });
    }
    assert_eq!(owners.len(), 2, "both nodes own partitions: {owners:?}");

    // What is above containers is at the leaseholder.
    let request = Request::new(
        "GET",
        "/addresses/?$resolveFor=dbs&$filter=protocol%20eq%20rntbd",
    );
    let request = request.signed_as("dbs", "");
    let answer = Frames::over_https(&nodes[1], &nodes[1].address, request);
    assert_eq!(places(&answer.text())[0].1, nodes[0].address);
    let database = Frame::new(Operation::Read, "/dbs/blog");
    assert_eq!(Frames::connect(&nodes[0]).call(&database).code(), (200, 0));
    assert_eq!(Frames::connect(&nodes[1]).call(&database).code(), (410, 0));
}
