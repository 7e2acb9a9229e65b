//! Hostile neighbours: scripts and queries of some databases that never end, and the requests of
//! another database, which are served as if the neighbours were not there.
//!
//! The tests wait for answers and compare their order, not their time. With the environment
//! variable `ORRERY_NEIGHBOURS` set to a number of hostile callers, the last test prints the times
//! of the kind requests; `cargo xtask long neighbours` sets it.

use crate::program::{Client, Request, Server, start};
use orrery_model::Json;
use orrery_test_wait::{wait_for, wait_until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time after which no further requests are measured.
const MEASURED: Duration = Duration::from_secs(20);

/// Returns the path of the container of a database.
fn container(database: &str) -> String {
    format!("/dbs/{database}/colls/c")
}

fn items(database: &str) -> String {
    format!("{}/docs", container(database))
}

/// Creates a database with a container, an item `calm`, and procedures: `spin` never ends, `quick`
/// ends at once.
fn make(client: &mut Client, database: &str) {
    client.create("/dbs", &format!(r#"{{"id":"{database}"}}"#));
    client.create(
        &format!("/dbs/{database}/colls"),
        r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
    );
    let list: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    let list = list.join(",");
    let calm = format!(r#"{{"id":"calm","pk":"p","list":[{list}]}}"#);
    client.create(&items(database), &calm);
    for (id, source) in [
        ("spin", "function () { for (;;); }"),
        (
            "quick",
            "function () { getContext().getResponse().setBody('quick'); }",
        ),
    ] {
        let body = orrery_model::object! { "id" => id, "body" => source };
        let path = format!("{}/sprocs", container(database));
        client.create(&path, &Json::Object(body).to_text());
    }
}

fn execute(database: &str, procedure: &str, key: &str) -> Request {
    let path = format!("{}/sprocs/{procedure}", container(database));
    Request::new("POST", &path).key(key).body("[]")
}

fn small_query(database: &str) -> Request {
    Request::query(
        &items(database),
        "SELECT VALUE c.id FROM c WHERE c.id = 'calm'",
    )
}

/// Returns a query that works until its time is over.
fn endless_query(database: &str) -> Request {
    let joins: String = (0..8).map(|n| format!(" JOIN j{n} IN c.list")).collect();
    let text = format!("SELECT VALUE COUNT(1) FROM c{joins}");
    Request::query(&items(database), &text)
}

fn read(database: &str) -> Request {
    Request::new("GET", &format!("{}/calm", items(database))).key("p")
}

/// Starts a server with a kind database and some hostile ones.
fn start_with(hostile: &[String]) -> (Server, Client) {
    let server = start(&["--memory", "--script-timeouts", "0"]).expect("it starts");
    let mut client = server.client();
    make(&mut client, "kind");
    for database in hostile {
        make(&mut client, database);
    }
    (server, client)
}

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("hostile{n}")).collect()
}

/// Runs `kind` while `callers` connections send hostile requests, each the next one as soon as it
/// has an answer, and returns the number of hostile requests that were answered before `kind`
/// ended.
fn beside<T>(
    server: &Server,
    callers: usize,
    hostile: impl Fn(usize) -> Request + Sync,
    kind: impl FnOnce() -> T,
) -> (T, usize) {
    let (is_over, answered, sent) = (
        AtomicBool::new(false),
        AtomicUsize::new(0),
        AtomicUsize::new(0),
    );
    std::thread::scope(|scope| {
        for caller in 0..callers {
            let (hostile, is_over, answered, sent) = (&hostile, &is_over, &answered, &sent);
            scope.spawn(move || {
                let mut client = server.client();
                let request = hostile(caller);
                while !is_over.load(Ordering::Acquire) {
                    sent.fetch_add(1, Ordering::AcqRel);
                    let answer = client.call(&request);
                    let status = answer.status;
                    assert!(matches!(status, 200 | 408 | 429), "{}", answer.text());
                    answered.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let all_sent = |count: &usize| *count >= callers;
        wait_for("all callers", || sent.load(Ordering::Acquire), all_sent);
        // The hostile callers end also if the test fails.
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(kind));
        let before = answered.load(Ordering::Acquire);
        is_over.store(true, Ordering::Release);
        match result {
            Ok(result) => (result, before),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[test]
fn a_query_and_a_new_container_do_not_wait_for_scripts_that_never_end() {
    let hostile = names(1);
    let (server, mut client) = start_with(&hostile);
    let spin = |caller: usize| execute("hostile0", "spin", &format!("p{caller}"));
    let ((), answered) = beside(&server, 2, spin, || {
        assert_eq!(client.call(&small_query("kind")).rows().len(), 1);
        client.create(
            "/dbs/kind/colls",
            r#"{"id":"new","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#,
        );
        assert_eq!(client.call(&execute("kind", "quick", "p")).status, 200);
    });
    assert_eq!(answered, 0, "a script that never ends was answered first");
}

#[test]
fn a_procedure_runs_while_the_scripts_of_many_databases_never_end() {
    let hostile = names(12);
    let (server, mut client) = start_with(&hostile);
    let spin = |caller: usize| execute(&hostile[caller], "spin", "p");
    beside(&server, hostile.len(), spin, || {
        for _ in 0..20 {
            // On a machine that gives the script no time, the server ends it too, and an SDK sends
            // it again.
            let answer = wait_until("an answer of the script", || {
                let answer = client.call(&execute("kind", "quick", "p"));
                match answer.status {
                    429 => Err(answer.text().to_owned()),
                    _ => Ok(answer),
                }
            });
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert_eq!(client.call(&read("kind")).status, 200);
        }
    });
}

#[test]
fn scripts_of_one_logical_partition_leave_the_processes_to_others() {
    let (server, mut client) = start_with(&names(1));
    let spin = |_| execute("hostile0", "spin", "p");
    let ((), answered) = beside(&server, 12, spin, || {
        // Twelve requests for one logical partition hold one process.
        let answer = client.call(&execute("hostile0", "quick", "q"));
        assert_eq!(answer.status, 200, "{}", answer.text());
    });
    assert_eq!(answered, 0);
}

#[test]
fn a_small_query_is_answered_before_large_ones_that_began_earlier() {
    let hostile = names(1);
    let (server, mut client) = start_with(&hostile);
    let endless = |_: usize| endless_query("hostile0");
    let ((), answered) = beside(&server, 16, endless, || {
        assert_eq!(client.call(&small_query("kind")).rows().len(), 1);
    });
    assert_eq!(answered, 0, "a large query was answered first");
}

#[test]
fn functions_that_never_end_do_not_hold_the_slots_of_queries() {
    let (server, mut client) = start_with(&names(1));
    client.create(
        &format!("{}/udfs", container("hostile0")),
        r#"{"id":"spin","body":"function (x) { for (;;); }"}"#,
    );
    let text = "SELECT VALUE udf.spin(c.id) FROM c";
    let spin = |_: usize| Request::query(&items("hostile0"), text);
    let ((), answered) = beside(&server, 8, spin, || {
        assert_eq!(client.call(&small_query("kind")).rows().len(), 1);
    });
    assert_eq!(answered, 0, "a function that never ends was answered first");
}

/// The times of one kind of request.
struct Times {
    name: &'static str,
    times: Vec<Duration>,
}

impl Times {
    fn new(name: &'static str) -> Self {
        let times = Vec::new();
        Times { name, times }
    }

    fn measure(&mut self, client: &mut Client, request: &Request) {
        let began = Instant::now();
        let answer = client.try_call(request).expect("an answer");
        self.times.push(began.elapsed());
        assert!(answer.status < 300, "{}: {}", self.name, answer.text());
    }

    fn print(mut self) {
        self.times.sort();
        let at = |share: f64| {
            let last = self.times.len().saturating_sub(1);
            self.times[(last as f64 * share).round() as usize].as_secs_f64() * 1000.0
        };
        eprintln!(
            "  {:<22} {:>5} requests: p50 {:>8.1} ms, p99 {:>8.1} ms, max {:>8.1} ms",
            self.name,
            self.times.len(),
            at(0.5),
            at(0.99),
            at(1.0)
        );
    }
}

fn measure_kind(server: &Server, client: &mut Client, rounds: usize) {
    let mut times = [
        Times::new("procedure elsewhere"),
        Times::new("small query"),
        Times::new("point read"),
        Times::new("new container"),
    ];
    let began = Instant::now();
    for round in 0..rounds {
        if began.elapsed() > MEASURED {
            break;
        }
        let body =
            format!(r#"{{"id":"n{round}","partitionKey":{{"paths":["/pk"],"kind":"Hash"}}}}"#);
        let create = Request::new("POST", "/dbs/kind/colls").body(body);
        times[0].measure(client, &execute("kind", "quick", "p"));
        for _ in 0..5 {
            times[1].measure(client, &small_query("kind"));
            times[2].measure(client, &read("kind"));
        }
        times[3].measure(client, &create);
        let path = format!("/dbs/kind/colls/n{round}");
        assert_eq!(client.call(&Request::new("DELETE", &path)).status, 204);
    }
    for times in times {
        times.print();
    }
    let peak = server.memory_kilobytes("VmHWM").unwrap_or(0) / 1024;
    eprintln!("  largest resident memory {peak} MB");
}

#[test]
fn kind_requests_are_answered_beside_hostile_ones() {
    let set = std::env::var("ORRERY_NEIGHBOURS").ok();
    let callers = set.and_then(|text| text.parse().ok()).unwrap_or(4);
    let rounds = if callers > 4 { 1_000 } else { 2 };
    for databases in [1, 8] {
        let hostile = names(databases);
        let (server, mut client) = start_with(&hostile);
        eprintln!("{callers} callers of scripts that never end, in {databases} databases");
        let spin =
            |caller: usize| execute(&hostile[caller % databases], "spin", &format!("p{caller}"));
        beside(&server, callers, spin, || {
            measure_kind(&server, &mut client, rounds);
        });
    }
    let queries = if callers > 4 { 64 } else { 4 };
    let (server, mut client) = start_with(&names(1));
    let text = "x".repeat(256 << 10);
    for n in 0..callers.min(25) * 4 {
        let body = format!(r#"{{"id":"{n}","pk":"{n}","two":[1,2],"text":"{n}{text}"}}"#);
        client.create(&items("hostile0"), &body);
    }
    eprintln!("{queries} callers of queries with groups of 50 MB");
    let group = |_: usize| {
        let text = "SELECT c.text, x, COUNT(1) AS n FROM c JOIN x IN c.two GROUP BY c.text, x";
        Request::query(&items("hostile0"), text)
    };
    beside(&server, queries, group, || {
        measure_kind(&server, &mut client, rounds);
    });
}
