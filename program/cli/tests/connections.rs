//! Clients that hold connections without using them: half heads, requests that never go on,
//! answers that are never read. Others are served in the meantime, and the server gets the
//! descriptors and the memory back.
//!
//! `ORRERY_SLOW_CLIENTS` sets the number of slow clients; a long run takes 1,100 and prints
//! figures.

use crate::program::{
    Client, ITEMS, Manager, Request, Server, item, setting, show, start, start_with_open_files,
};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use orrery_test_wait::{wait_for, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Returns the number of slow clients.
fn slow_clients(default: usize) -> usize {
    setting("ORRERY_SLOW_CLIENTS", default)
}

/// Creates an item through an own connection and returns the duration.
fn write_anew(server: &Server, id: &str) -> Duration {
    let begun = Instant::now();
    let body = format!(r#"{{"id":"{id}","postId":"p1"}}"#);
    let create = Request::new("POST", ITEMS).key("p1").body(body);
    let answer = server.client().call(&create);
    assert_eq!(answer.status, 201, "{}", answer.text());
    begun.elapsed()
}

/// Opens a connection that sends half a head.
fn half_head(server: &Server) -> TcpStream {
    let mut stream = server.stream();
    stream
        .write_all(b"POST /dbs HTTP/1.1\r\nhost: x\r\nx-half")
        .expect("it goes out");
    stream
}

/// Waits until the server closes a connection.
fn wait_for_close(mut stream: TcpStream) {
    // A reset connection is closed as well.
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Returns a number of the metrics; zero if there is no such sample.
fn metric(manager: &mut Manager, name: &str) -> f64 {
    let text = manager.get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0.0, |value| value.trim().parse().expect("a number"))
}

/// Starts a server with few descriptors and the container `posts`.
fn start_small(directory: &std::path::Path, open_files: usize) -> Server {
    let path = directory.to_str().expect("a path in UTF-8");
    let server = start_with_open_files(open_files, &["--data-dir", path]).expect("it starts");
    server.client().make_posts();
    server
}

#[test]
fn half_heads_beyond_all_descriptors_stop_no_other_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_small(directory.path(), 400);
    let mut kept = server.client();
    let mut heads: Vec<TcpStream> = Vec::new();
    let mut slowest = Duration::ZERO;
    for n in 0..slow_clients(600) {
        heads.push(half_head(&server));
        if n % 20 == 0 {
            slowest = slowest.max(write_anew(&server, &format!("during-{n}")));
        }
    }
    // A connection of before may have lost its place, and its client opens another.
    let read = Request::new("GET", ITEMS);
    let read_again = kept
        .try_call(&read)
        .unwrap_or_else(|_| server.client().call(&read));
    assert_eq!(read_again.status, 200);
    let mut manager = server.manager();
    let displaced = "orrery_connections_closed_total{reason=\"displaced\"}";
    assert!(metric(&mut manager, displaced) > 0.0);
    show(&format!(
        "{} half heads: slowest write {slowest:?}",
        heads.len()
    ));

    drop(heads);
    write_anew(&server, "after");
    let stderr = server.stop().stderr;
    assert!(!stderr.contains("Too many open files"), "{stderr}");
}

#[test]
fn the_soft_limit_of_descriptors_is_raised() {
    let server = start(&["--memory"]).expect("it starts");
    if cfg!(target_os = "linux") {
        let path = format!("/proc/{}/limits", server.process_id());
        let limits = std::fs::read_to_string(path).expect("limits");
        let line = limits
            .lines()
            .find(|line| line.starts_with("Max open files"));
        let mut figures = line.expect("a limit").split_whitespace().skip(3);
        assert_eq!(figures.next(), figures.next());
    }
}

#[test]
fn a_server_that_could_not_work_with_its_descriptors_does_not_start() {
    let refused = |limit, arguments: &[&str]| {
        let exit = start_with_open_files(limit, arguments)
            .err()
            .expect("it is refused");
        assert_eq!(exit.code, Some(1));
        exit.stderr
    };
    let message = refused(300, &["--memory"]);
    assert!(message.contains("300 open files"), "{message}");
    let message = refused(1000, &["--memory", "--max-connections", "5000"]);
    assert!(message.contains("--max-connections 5000"), "{message}");
}

/// Calls until a connection of an address with few connections is accepted.
fn call_when_accepted(server: &Server, request: &Request) {
    wait_until("an answer", || {
        let answer = server.client().try_call(request);
        match answer.map(|answer| answer.status) {
            Ok(200) => Ok(()),
            refused => Err(refused),
        }
    });
}

/// Starts a server for three connections of an address, none of which is open.
fn start_for_three() -> Server {
    let server = start(&["--memory", "--max-connections-per-address", "3"]).expect("it starts");
    server.client().make_posts();
    let mut manager = server.manager();
    let open = || metric(&mut manager, "orrery_connections ");
    wait_for("the end of all connections", open, |count| *count == 0.0);
    server
}

#[test]
fn an_address_whose_requests_are_all_in_progress_is_refused_until_one_ends() {
    let server = start_for_three();
    let mut manager = server.manager();
    let rule = r#"{"operations":["read_item"],"count":3,"delayMilliseconds":60000}"#;
    manager.ok("POST", "/faults", rule);
    let read = Request::new("GET", &item("a")).key("a");
    let bytes = read.bytes(&server.address, &server.key);
    let mut busy: Vec<TcpStream> = (0..3)
        .map(|_| {
            let mut stream = server.stream();
            stream.write_all(&bytes).expect("it goes out");
            stream
        })
        .collect();
    let rules = || manager.ok("GET", "/faults", "").json().to_text();
    wait_for("three delayed requests", rules, |rules| {
        rules.contains("\"struck\":3")
    });
    let mut fourth = server.stream();
    let _ = fourth.write_all(b"GET / HTTP/1.1\r\n\r\n");
    let mut answer = Vec::new();
    let _ = fourth.read_to_end(&mut answer);
    assert!(answer.is_empty(), "{}", String::from_utf8_lossy(&answer));
    busy.pop();
    // The server sees the end of the connection a moment later.
    call_when_accepted(&server, &Request::new("GET", "/"));
}

#[test]
fn a_new_connection_takes_the_place_of_the_one_of_its_address_that_waits_longest_for_a_body() {
    let server = start_for_three();
    let mut slow: Vec<TcpStream> = (0..3).map(|_| half_body(&server)).collect();
    call_when_accepted(&server, &Request::new("GET", "/"));
    let mut longest = slow.remove(0);
    let mut rest = String::new();
    let _ = longest.read_to_string(&mut rest);
    assert!(!rest.contains("HTTP/1.1 408"), "{rest}");
    let mut manager = server.manager();
    let displaced = "orrery_connections_closed_total{reason=\"displaced\"}";
    assert_eq!(metric(&mut manager, displaced), 1.0);
    // The others were not in the way, so they have their time.
    for mut stream in slow {
        stream.write_all(HALF_BODY.as_bytes()).expect("it goes out");
        let mut answer = [0; 64];
        let count = stream.read(&mut answer).expect("an answer");
        let answer = String::from_utf8_lossy(&answer[..count]);
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }
}

/// The body that [`half_body`] does not send.
const HALF_BODY: &str = r#"{"id":"half","postId":"p1"}"#;

/// The answer that asks for a body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Sends a request for a write without the end of its body, and waits until the server reads it.
fn half_body(server: &Server) -> TcpStream {
    let create = Request::new("POST", ITEMS)
        .key("p1")
        .header("x-ms-documentdb-is-upsert", "true")
        .header("expect", "100-continue")
        .body(HALF_BODY);
    let bytes = create.bytes(&server.address, &server.key);
    let mut stream = server.stream();
    stream
        .write_all(&bytes[..bytes.len() - HALF_BODY.len()])
        .expect("it goes out");
    wait_for_continue(&mut stream);
    stream
}

/// Waits until the server asks for the body of a request, so the request is in progress.
fn wait_for_continue(stream: &mut TcpStream) {
    let mut asked = [0; CONTINUE.len()];
    stream
        .read_exact(&mut asked)
        .expect("it is asked for the body");
    assert_eq!(&asked, CONTINUE);
}

#[test]
fn the_management_port_answers_beside_slow_bodies_on_every_connection() {
    let server = start(&["--memory"]).expect("it starts");
    // No key is needed for these requests, and the port has 32 connections.
    let slow_body = b"POST /ready HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\
                      expect: 100-continue\r\n\r\nabc";
    let mut slow: Vec<TcpStream> = (0..slow_clients(40))
        .map(|_| {
            let mut stream = TcpStream::connect(&server.admin_address).expect("it listens");
            stream.write_all(slow_body).expect("it goes out");
            wait_for_continue(&mut stream);
            stream
        })
        .collect();
    for _ in 0..10 {
        assert_eq!(server.manager().get("/ready").status, 200);
    }
    // The first connection gave its place to another, before its request was refused.
    let mut answer = String::new();
    let _ = slow[0].read_to_string(&mut answer);
    assert_eq!(answer, "");
}

#[test]
fn half_a_head_is_cut_and_an_idle_connection_is_not() {
    let server = start(&["--memory"]).expect("it starts");
    let mut idle = server.client();
    assert_eq!(idle.call(&Request::new("GET", "/")).status, 200);
    let silent = server.stream();
    wait_for_close(half_head(&server));
    wait_for_close(silent);
    assert_eq!(idle.call(&Request::new("GET", "/")).status, 200);
    let mut manager = server.manager();
    let cut = metric(
        &mut manager,
        "orrery_connections_closed_total{reason=\"slow_head\"}",
    );
    assert_eq!(cut, 2.0);
}

/// Fills the container `posts` with a page of four megabytes.
fn fill(client: &mut Client) {
    for n in 0..60 {
        let pad = "x".repeat(70_000);
        let body = format!(r#"{{"id":"{n}","postId":"p1","pad":"{pad}"}}"#);
        client.create(ITEMS, &body);
    }
}

fn page() -> Request {
    Request::new("GET", ITEMS).header("x-ms-max-item-count", "-1")
}

#[cfg(target_os = "linux")]
fn resident_megabytes(server: &Server) -> u64 {
    let path = format!("/proc/{}/statm", server.process_id());
    let text = std::fs::read_to_string(path).expect("a process");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .and_then(|n| n.parse().ok())
        .expect("a number");
    pages * 4096 / (1 << 20)
}

#[cfg(target_os = "linux")]
#[test]
fn clients_that_never_read_hold_a_bounded_memory_and_are_cut() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("UTF-8");
    let server = start(&["--data-dir", path, "--memory-limit", "1GiB"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    fill(&mut client);
    let request = page().bytes(&server.address, &server.key);
    let count = slow_clients(120).min(250);
    let slow: Vec<TcpStream> = (0..count)
        .map(|_| {
            let mut stream = server.stream();
            // Several answers are more than the buffers of the system hold.
            stream.write_all(&request.repeat(4)).expect("it goes out");
            stream
        })
        .collect();

    // A read of the same size is refused until slow readers are cut.
    let begun = Instant::now();
    let (mut refused, mut most) = (0, 0);
    wait_until("a cut of a client", || {
        most = most.max(resident_megabytes(&server));
        let answer = server.client().call(&page());
        if metric(&mut server.manager(), SLOW_READERS) > 0.0 && answer.status == 200 {
            return Ok(());
        }
        if answer.status == 429 {
            refused += 1;
            assert!(answer.header("x-ms-retry-after-ms").is_some());
            assert!(answer.text().contains("memory"), "{}", answer.text());
        }
        Err((answer.status, refused, most))
    });
    show(&format!(
        "{count} clients that never read: at most {most} MB, {refused} reads refused, cut and \
         served after {:?}",
        begun.elapsed()
    ));
    assert!(most < 800, "{most} MB");
    drop(slow);
}

#[tokio::test]
async fn streams_of_http_2_that_never_read_are_cut_with_their_connection() {
    let server = start(&["--memory", "--memory-limit", "1GiB"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    fill(&mut client);
    let stream = tokio::net::TcpStream::connect(&server.address).await;
    let stream = TokioIo::new(stream.expect("it listens"));
    // The client has room for a little of each page and never makes more.
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(16 * 1024)
        .handshake(stream)
        .await
        .expect("HTTP/2");
    let connection = tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..80 {
        let mut request = hyper::Request::get(format!("http://{}{ITEMS}", server.address));
        for (name, value) in page().signed_headers(&server.key) {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(Bytes::new())).expect("a request");
        answers.push(
            sender
                .clone()
                .send_request(request)
                .await
                .expect("an answer"),
        );
    }
    let refused = answers
        .iter()
        .filter(|answer| answer.status() == 429)
        .count();
    assert!(refused > 0 && refused < 80, "{refused} refused");
    // The end of the connection is the event to wait for, whatever its result.
    let ended = tokio::time::timeout(Duration::from_secs(60), connection).await;
    assert!(ended.is_ok(), "the connection was not cut");
    assert_eq!(client.call(&page()).status, 200);
}

#[cfg(target_os = "linux")]
const SLOW_READERS: &str = "orrery_connections_closed_total{reason=\"slow_reader\"}";

#[test]
fn fast_clients_are_answered_with_and_without_short_waits() {
    for microseconds in ["0", "1000"] {
        let server = start(&["--memory", "--spin", microseconds]).expect("it starts");
        let mut one = server.client();
        one.make_posts();
        one.create(ITEMS, r#"{"id":"a","postId":"p1"}"#);
        let mut other = server.client();
        let read = Request::new("GET", &format!("{ITEMS}/a")).key("p1");
        // One client alone may be waited for; two that take turns are not.
        for _ in 0..100 {
            assert_eq!(one.call(&read).status, 200);
        }
        for _ in 0..20 {
            assert_eq!(other.call(&read).status, 200);
            assert_eq!(one.call(&read).status, 200);
        }
        // A worker that waits notices the end of its connection.
        drop(one);
        assert_eq!(other.call(&read).status, 200);
        assert_eq!(server.stop().code, Some(0));
    }
    let refused = start(&["--memory", "--spin", "1001"]).err();
    assert_eq!(refused.expect("too long a wait").code, Some(2));
}
