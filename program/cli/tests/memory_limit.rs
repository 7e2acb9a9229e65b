//! The limit of memory under clients that take their answers slowly or never: the largest resident
//! set stays below the limit and 15 percent, requests are refused with a time to retry, and small
//! requests are answered.
//!
//! `ORRERY_MEMORY_CLIENTS` sets the number of clients; a long run takes 1,000 and prints the
//! largest resident sets.

#![cfg(target_os = "linux")]

use crate::program::{Client, ITEMS, Request, Server, setting, show, start};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use orrery_test_wait::wait_for;
use std::collections::BTreeMap;
use std::io::Write;
use std::net::TcpStream;
use tokio::task::JoinSet;

/// The limit of the servers, and their largest resident set, in MB.
const LIMIT: &str = "256MiB";
const PEAK_MAX: u64 = 256 * 115 / 100;
/// The items of the container and the bytes of each, which fill a page of four megabytes.
const ITEM_COUNT: usize = 60;
const ITEM_BYTES: usize = 70_000;
/// The bytes of one more item.
const LARGE_ITEM_BYTES: usize = 1_500_000;

/// Returns the number of clients.
fn clients(default: usize) -> usize {
    setting("ORRERY_MEMORY_CLIENTS", default)
}

/// Starts a server with a small limit and a page of four megabytes.
fn start_small(directory: &std::path::Path) -> (Server, Client) {
    let path = directory.to_str().expect("UTF-8");
    let arguments = ["--data-dir", path, "--memory-limit", LIMIT];
    let server = start(&arguments).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    client.create(ITEMS, r#"{"id":"small","postId":"p2"}"#);
    for n in 0..ITEM_COUNT {
        let pad = "x".repeat(ITEM_BYTES);
        let body = format!(r#"{{"id":"{n}","postId":"p1","n":0,"pad":"{pad}"}}"#);
        client.create(ITEMS, &body);
    }
    let pad = "x".repeat(LARGE_ITEM_BYTES);
    let large = format!(r#"{{"id":"large","postId":"p1","n":0,"pad":"{pad}"}}"#);
    client.create(ITEMS, &large);
    (server, client)
}

/// Returns the largest resident set of a server so far, in MB.
fn peak_megabytes(server: &Server) -> u64 {
    server.memory_kilobytes("VmHWM").expect("a number") / 1024
}

fn page() -> Request {
    Request::query(ITEMS, "SELECT * FROM c").header("x-ms-max-item-count", "-1")
}

fn feed() -> Request {
    Request::new("GET", ITEMS).header("x-ms-max-item-count", "-1")
}

fn change_feed() -> Request {
    feed().header("a-im", "Incremental Feed")
}

fn patch() -> Request {
    Request::new("PATCH", &format!("{ITEMS}/large"))
        .key("p1")
        .body(r#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#)
}

/// Returns a bulk of reads, whose answer has four megabytes.
fn bulk_of_reads() -> Request {
    let read =
        |n: usize| format!(r#"{{"operationType":"Read","id":"{n}","partitionKey":"[\"p1\"]"}}"#);
    let reads: Vec<String> = (0..50).map(read).collect();
    Request::new("POST", ITEMS)
        .header("x-ms-cosmos-is-batch-request", "True")
        .header("x-ms-cosmos-batch-atomic", "False")
        .header("x-ms-cosmos-batch-continue-on-error", "True")
        .body(format!("[{}]", reads.join(",")))
}

/// Checks the largest resident set, and that a small request is answered.
fn check_peak(server: &Server, attack: &str) {
    let small = Request::new("GET", &format!("{ITEMS}/small")).key("p2");
    let answer = server.client().call(&small);
    assert_eq!(answer.status, 200, "{attack}: {}", answer.text());
    let peak = peak_megabytes(server);
    show(&format!("{attack}: at most {peak} MB of {LIMIT}"));
    assert!(peak <= PEAK_MAX, "{attack}: {peak} MB");
}

/// Sends pages over one connection without a window. Returns the number of answers by status.
async fn pages_without_window(
    address: String,
    headers: Vec<(String, String)>,
    body: Bytes,
    count: usize,
) -> BTreeMap<u16, usize> {
    let stream = tokio::net::TcpStream::connect(&address).await;
    let stream = TokioIo::new(stream.expect("it listens"));
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(0)
        .handshake(stream)
        .await
        .expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let mut asked = JoinSet::new();
    for _ in 0..count {
        let mut request = hyper::Request::post(format!("http://{address}{ITEMS}"));
        for (name, value) in &headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body.clone())).expect("a request");
        let mut sender = sender.clone();
        asked.spawn(async move { sender.send_request(request).await });
    }
    let mut statuses = BTreeMap::new();
    let mut answers = Vec::new();
    while let Some(answer) = asked.join_next().await {
        // A connection that is cut answers no more.
        let Ok(answer) = answer.expect("it does not panic") else {
            continue;
        };
        let status = answer.status().as_u16();
        *statuses.entry(status).or_default() += 1;
        if status != 200 {
            assert!(matches!(status, 429 | 503), "{answer:?}");
            assert!(answer.headers().contains_key("x-ms-retry-after-ms"));
        }
        answers.push(answer);
    }
    connection.abort();
    statuses
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_for_which_http_2_has_no_window_stay_within_the_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, _client) = start_small(directory.path());
    let body = Bytes::from(r#"{"query":"SELECT * FROM c","parameters":[]}"#);
    let mut connections = JoinSet::new();
    for _ in 0..clients(200) / 20 {
        let headers = page().signed_headers(&server.key);
        let headers: Vec<_> = headers
            .into_iter()
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect();
        let address = server.address.clone();
        connections.spawn(pages_without_window(address, headers, body.clone(), 100));
    }
    let mut statuses: BTreeMap<u16, usize> = BTreeMap::new();
    while let Some(of_connection) = connections.join_next().await {
        for (status, count) in of_connection.expect("it ends") {
            *statuses.entry(status).or_default() += count;
        }
    }
    assert!(
        statuses.contains_key(&200) && statuses.contains_key(&429),
        "{statuses:?}"
    );
    check_peak(&server, &format!("HTTP/2 without a window, {statuses:?}"));
}

#[test]
fn answers_that_are_never_read_stay_within_the_limit() {
    let attacks = [
        ("queries", page()),
        ("feeds", feed()),
        ("changes", change_feed()),
        ("patches", patch()),
        ("bulks of reads", bulk_of_reads()),
    ];
    for (name, request) in attacks {
        let directory = tempfile::tempdir().expect("a directory");
        let (server, _client) = start_small(directory.path());
        let bytes = request.bytes(&server.address, &server.key);
        let mut silent = Vec::new();
        for _ in 0..clients(100) {
            let mut stream: TcpStream = server.stream();
            stream.write_all(&bytes.repeat(4)).expect("it goes out");
            silent.push(stream);
        }
        // Requests that come later are served or refused after those of the silent clients.
        for _ in 0..20 {
            let answer = server.client().with_patience().call(&request);
            assert!(
                matches!(answer.status, 200 | 207 | 429),
                "{}",
                answer.text()
            );
            let has_time = answer.header("x-ms-retry-after-ms").is_some();
            assert!(answer.status != 429 || has_time, "{}", answer.text());
        }
        check_peak(
            &server,
            &format!("{} clients never read {name}", silent.len()),
        );
    }
}

#[test]
fn ordinary_readers_are_served_within_the_limit() {
    let directory = tempfile::tempdir().expect("a directory");
    let (server, _client) = start_small(directory.path());
    let count = clients(40);
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                let mut client = server.client();
                let mut pages = 0;
                let read = || {
                    let answer = client.call(&page());
                    match answer.status {
                        200 => pages += 1,
                        429 => assert!(answer.header("x-ms-retry-after-ms").is_some()),
                        other => panic!("{other}: {}", answer.text()),
                    }
                    pages
                };
                wait_for("five pages", read, |pages| *pages >= 5);
            });
        }
    });
    check_peak(&server, &format!("{count} ordinary readers"));
}
