//! Nodes of a fleet on one PostgreSQL: each node answers clients, one holds the lease, and another
//! takes over when the holder ends or dies.

use crate::program::{Answer, Client, Exit, ITEMS, Request, Server, start, text};
use crate::servers;
use orrery_model::Json;
use orrery_test_wait::{wait_for, wait_until};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tempfile::TempDir;

/// The clusters of a test, in a schema of their own.
struct Fleet {
    folder: TempDir,
    file: PathBuf,
}

impl Fleet {
    fn new() -> Fleet {
        let config = servers::server().config();
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("clusters.toml");
        std::fs::write(&file, servers::cluster_file(&[config])).expect("written");
        Fleet { folder, file }
    }

    /// Starts a node, and returns when it answers clients: as the holder, or through the holder.
    fn node(&self, name: &str) -> Server {
        self.start(name, name, &[]).expect("it starts")
    }

    /// Starts a node with a folder of its own and further options.
    fn start(&self, name: &str, folder: &str, options: &[&str]) -> Result<Server, Exit> {
        let data = self.folder.path().join(folder);
        let (data, file) = (
            data.to_str().expect("UTF-8"),
            self.file.to_str().expect("UTF-8"),
        );
        let place = [
            "--store",
            "postgres",
            "--cluster-file",
            file,
            "--node",
            name,
        ];
        start(&[&place[..], &["--data-dir", data], options].concat())
    }
}

/// Returns the answer without what differs between two requests: dates, times, activity ids.
fn comparable(answer: &Answer) -> (u16, String, Vec<String>) {
    let differs = ["date:", "x-ms-activity-id:", "x-ms-request-duration-ms:"];
    let lines = answer.head_lines().skip(1).map(str::to_ascii_lowercase);
    let mut lines: Vec<String> = lines
        .filter(|line| !differs.iter().any(|name| line.starts_with(name)))
        .collect();
    lines.sort();
    let activity = answer.header("x-ms-activity-id").unwrap_or("none");
    (answer.status, answer.text().replace(activity, ""), lines)
}

fn item(n: u64) -> String {
    format!(r#"{{"id":"i{n}","postId":"p{}"}}"#, n % 3)
}

/// Returns the request that creates the item.
fn create(n: u64) -> Request {
    Request::new("POST", ITEMS)
        .header("x-ms-documentdb-partitionkey", format!("[\"p{}\"]", n % 3))
        .body(item(n))
}

/// Creates an item until a node answers. An answer with an unknown outcome is looked up by the next
/// attempt: the item may be there.
fn create_until_answered(server: &Server, n: u64) {
    wait_until("a node that takes writes", || {
        let request = create(n);
        let answer = Client::connect(&server.address, &server.key)
            .and_then(|mut client| client.try_call(&request));
        match answer.map(|answer| answer.status) {
            Ok(201 | 409) => Ok(()),
            Ok(status @ (408 | 503)) => Err(status.to_string()),
            Err(error) => Err(error.to_string()),
            Ok(status) => panic!("{status}"),
        }
    });
}

#[test]
fn a_node_without_the_lease_answers_as_the_holder_does() {
    let fleet = Fleet::new();
    let (holder, other) = (fleet.node("a"), fleet.node("b"));
    let mut through = other.client();
    through.make_posts();
    through.create(ITEMS, r#"{"id":"a","postId":"p1"}"#);
    let large = format!(
        r#"{{"id":"large","postId":"p1","text":"{}"}}"#,
        "x".repeat(1 << 20)
    );
    through.create(ITEMS, &large);
    let procedure = "function () { getContext().getResponse().setBody('done'); }";
    through.make_procedure("work", procedure);

    let key = |request: Request| request.header("x-ms-documentdb-partitionkey", "[\"p1\"]");
    let of_item = format!("{ITEMS}/a");
    let missing = format!("{ITEMS}/missing");
    let container = ITEMS.trim_end_matches("/docs");
    let run = format!("{container}/sprocs/work");
    let requests = [
        key(Request::new("GET", &of_item)),
        key(Request::new("HEAD", &of_item)),
        key(Request::new("GET", &format!("{ITEMS}/large"))),
        key(Request::new("GET", &missing)),
        key(Request::new("GET", ITEMS).header("a-im", "Incremental feed")),
        key(Request::query(ITEMS, "SELECT * FROM c ORDER BY c.id")),
        Request::query(ITEMS, "SELEKT"),
        Request::new("GET", container),
        Request::new("GET", "/dbs/none"),
        key(Request::new("POST", &run).body("[]")),
        Request::new("GET", &of_item).key("d3Jvbmc="),
        Request::new("PUT", "/nothing"),
    ];
    let mut direct = holder.client();
    for request in &requests {
        let (expected, found) = (direct.call(request), through.call(request));
        // The client's address decides the addresses in answers.
        let mut expected = comparable(&expected);
        expected.1 = expected.1.replace(&holder.address, &other.address);
        for line in &mut expected.2 {
            *line = line.replace(&holder.address, &other.address);
        }
        assert_eq!(comparable(&found), expected);
    }
    let account = through.call(&Request::new("GET", "/")).text();
    assert!(account.contains(&other.address), "{account}");
    assert!(!account.contains(&holder.address), "{account}");
}

#[test]
fn a_header_that_only_nodes_may_send_has_no_effect() {
    let fleet = Fleet::new();
    let (holder, other) = (fleet.node("a"), fleet.node("b"));
    for server in [&holder, &other] {
        for forged in ["https 00", "https", "", "http é"] {
            let request = Request::new("GET", "/").header("x-orrery-forwarded", forged);
            let account = server.client().call(&request).text();
            let own = format!("http://{}/", server.address);
            assert!(account.contains(&own), "{forged}: {account}");
        }
    }
}

/// The holder is killed. What it has acknowledged is there, and another node takes writes when the
/// lease has expired.
#[test]
fn another_node_takes_over_when_the_holder_is_killed() {
    let fleet = Fleet::new();
    let mut holder = fleet.node("a");
    let (second, third) = (fleet.node("b"), fleet.node("c"));
    let mut client = second.client();
    client.make_posts();
    for n in 0..50 {
        client.create(ITEMS, &item(n));
    }
    holder.kill();
    create_until_answered(&second, 50);
    create_until_answered(&third, 51);
    let mut expected: Vec<String> = (0..52).map(|n| format!("i{n}")).collect();
    expected.sort();
    assert_eq!(second.item_ids(), expected);
    assert_eq!(third.item_ids(), expected);

    // A node that comes back is one that waits.
    let again = fleet.node("a");
    assert_eq!(again.item_ids(), expected);
}

/// The holder is told to stop while a client writes through another node.
#[test]
fn clients_of_another_node_see_no_error_when_the_holder_stops() {
    let fleet = Fleet::new();
    let (holder, other) = (fleet.node("a"), fleet.node("b"));
    other.client().make_posts();
    let (is_over, created) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = other.client();
            while !is_over.load(Ordering::SeqCst) {
                let n = created.load(Ordering::SeqCst);
                client.create(ITEMS, &item(n));
                created.store(n + 1, Ordering::SeqCst);
            }
        });
        let state = || (created.load(Ordering::SeqCst), writer.is_finished());
        let wait_for_items = |count: u64| {
            wait_for("items of the writer", state, |(created, has_ended)| {
                *created >= count || *has_ended
            });
        };
        wait_for_items(20);
        assert_eq!(holder.stop().code, Some(0));
        wait_for_items(created.load(Ordering::SeqCst) + 20);
        is_over.store(true, Ordering::SeqCst);
        writer.join().expect("every create is answered with 201")
    });
    assert_eq!(
        other.item_ids().len() as u64,
        created.load(Ordering::SeqCst)
    );
}

/// A client that keeps its connection to the holder is answered while the holder leaves, and is
/// told to use the connection no more, so that no request meets the end of the connection.
#[test]
fn clients_of_the_holder_are_told_to_connect_again_when_the_holder_stops() {
    let fleet = Fleet::new();
    let (holder, _other) = (fleet.node("a"), fleet.node("b"));
    let mut client = holder.client();
    client.make_posts();
    let has_begun = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for n in 0.. {
                let answer = client.call(&create(n));
                assert_eq!(answer.status, 201, "{}", answer.text());
                if answer.header("connection") == Some("close") {
                    return n;
                }
                has_begun.store(true, Ordering::SeqCst);
            }
            unreachable!("the numbers do not end")
        });
        let goes_on = || has_begun.load(Ordering::SeqCst) || writer.is_finished();
        wait_for("the first item", goes_on, |goes_on| *goes_on);
        assert_eq!(holder.stop().code, Some(0));
        writer.join().expect("every create is answered with 201");
    });
}

#[test]
fn a_node_that_waits_is_ready_and_ends_when_it_is_told_to() {
    let fleet = Fleet::new();
    let (holder, other) = (fleet.node("a"), fleet.node("b"));
    let ready = |server: &Server| {
        let mut stream = server.stream();
        let request = b"GET /ready HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(request).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    let (of_holder, of_other) = (ready(&holder), ready(&other));
    assert!(
        of_holder.starts_with("HTTP/1.1 200") && of_holder.contains("\"ready\""),
        "{of_holder}"
    );
    assert!(of_other.starts_with("HTTP/1.1 200"), "{of_other}");
    assert!(of_other.contains("\"forwarding\""), "{of_other}");
    let mut manager = other.manager();
    assert!(manager.get("/ready").text().contains("forwarding"));
    // The management API lists the nodes, and names the one that has the data.
    let address = format!("http://{}", holder.address);
    let listed = || manager.get("/nodes").text();
    wait_for("the holder in the list", listed, |list| {
        list.contains(&address)
    });
    let nodes = manager.get("/nodes").json();
    let nodes = nodes.get("nodes").and_then(Json::as_array).expect("a list");
    let of = |node: &Json| (text(node, "name"), text(node, "holdsLease"));
    let pair = |name: &str, holds: &str| (name.to_owned(), holds.to_owned());
    let nodes: Vec<_> = nodes.iter().map(of).collect();
    assert_eq!(nodes, [pair("a", "yes"), pair("b", "no")]);
    // The management API of any node answers for the fleet, with the key of that node.
    holder.client().make_posts();
    let mut of_holder = holder.manager();
    for path in ["/clusters", "/dbs/blog/colls/posts/partitions"] {
        let answer = manager.get(path).text();
        assert_eq!(answer, of_holder.get(path).text(), "{path}");
    }
    let rule = r#"{"operations":["read_item"],"status":429}"#;
    let made = manager.call("POST", "/faults", rule);
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(of_holder.get("/faults").text().contains("read_item"));
    assert_eq!(manager.call("DELETE", "/faults", "").status, 204);
    for (method, path, body, status) in [
        ("GET", "/dbs/none/colls/none/partitions", "", 404),
        ("POST", "/faults", r#"{"operations":["no_such"]}"#, 400),
        ("POST", "/nodes/a/lead", "", 409),
    ] {
        let refused = manager.call(method, path, body);
        let of_leaseholder = of_holder.call(method, path, body);
        assert_eq!(refused.status, status, "{path}: {}", refused.text());
        assert_eq!(refused.text(), of_leaseholder.text());
    }
    // A request with another key is no request of an operator.
    let mut stranger = other.manager().with_key("wrong");
    assert_eq!(stranger.call("GET", "/clusters", "").status, 401);
    assert_eq!(other.stop().code, Some(0));
    // The holder is not concerned.
    assert_eq!(holder.client().range_ids("/dbs/blog/colls/posts").len(), 1);
    assert_eq!(holder.stop().code, Some(0));
}

/// A node may be started again at another address, so a name that is used twice is known when both
/// processes have told of themselves.
#[test]
fn the_second_node_with_a_name_ends() {
    let fleet = Fleet::new();
    let (holder, mut first) = (fleet.node("a"), fleet.node("b"));
    for (name, used_by) in [("a", &holder.address), ("b", &first.address)] {
        // The node of the holder's name may end before it is ready.
        let exit = match fleet.start(name, "second", &[]) {
            Ok(second) => second.wait(),
            Err(exit) => exit,
        };
        assert_eq!(exit.code, Some(2), "{}", exit.stderr);
        let message = format!("the node at http://{used_by} has the name '{name}' too");
        assert!(exit.stderr.contains(&message), "{}", exit.stderr);
    }
    assert!(first.is_running());
    first.client().make_posts();
}

#[cfg(unix)]
#[test]
fn a_node_that_waits_reads_its_keys_again() {
    let fleet = Fleet::new();
    let file = fleet.folder.path().join("account.key");
    let keys = ["b25l", "dHdv"].map(|word| word.repeat(20));
    std::fs::write(&file, &keys[0]).expect("written");
    let options = ["--key-file", file.to_str().expect("UTF-8")];
    let start = |name: &str| fleet.start(name, name, &options).expect("it starts");
    let (mut holder, other) = (start("a"), start("b"));
    let status_with = |key: &str| {
        let mut client = Client::connect(&other.address, key).expect("it listens");
        client.call(&Request::new("GET", "/dbs")).status
    };
    let wait_for_key = |key: &str| {
        wait_for("the key", || status_with(key), |status| *status == 200);
    };
    assert_eq!(status_with(&keys[0]), 200);
    std::fs::write(&file, &keys[1]).expect("written");
    for node in [&holder, &other] {
        let id = node.process_id().to_string();
        let sent = Command::new("kill").args(["-HUP", &id]).status();
        assert!(sent.expect("the program `kill`").success());
    }
    wait_for_key(&keys[1]);
    assert_eq!(status_with(&keys[0]), 401);
    // The keys are those of the file, not those of the start, when the node takes over.
    holder.kill();
    wait_for_key(&keys[1]);
    assert_eq!(status_with(&keys[0]), 401);
}
