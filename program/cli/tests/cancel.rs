//! A query whose client goes away ends early and frees its slot: a closed connection of HTTP/1.1,
//! a reset stream of HTTP/2, and a query that is inside a user-defined function.
//!
//! A query may also end because its time is over before the server notices its client, on a machine
//! that is very busy. Each test therefore starts a further query then, a few times at most.

use crate::program::{Client, ITEMS, Manager, Request, Server, start_with_posts};
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use orrery_model::Json;
use orrery_test_wait::wait_for;
use std::io::Write;

/// The queries that a test starts at most.
const ATTEMPTS: usize = 5;
const CANCELLED: &str = "orrery_queries_cancelled_total";
const RUNNING: &str = "orrery_queries_running";
/// Counts each page of a query when it has ended.
const ENDED: &str = "orrery_query_partitions_contacted_count";

/// Starts a server with an item whose list has a thousand numbers.
fn start_with_list() -> (Server, Client, Manager) {
    let (server, mut client) = start_with_posts();
    let list: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    let body = format!(r#"{{"id":"a","postId":"p","list":[{}]}}"#, list.join(","));
    client.create(ITEMS, &body);
    let manager = server.manager();
    (server, client, manager)
}

/// Returns a query that multiplies the list with itself: 10^12 rows, which no request can count in
/// its time.
fn endless_query() -> Request {
    let text = "SELECT VALUE COUNT(1) FROM c JOIN x IN c.list JOIN y IN c.list JOIN z IN c.list \
                JOIN w IN c.list";
    Request::query(ITEMS, text)
}

/// Waits until a query runs, or has ended because its time was over between two looks.
fn wait_until_running(manager: &mut Manager, ended_before: f64) {
    let state = || (manager.metric(RUNNING), manager.metric(ENDED));
    wait_for("a query that runs", state, |(running, ended)| {
        *running > 0.0 || *ended > ended_before
    });
}

/// Waits until a further query has ended, and returns the number of queries that were cancelled. A
/// query is counted as ended after its slot is free and after it is counted as cancelled.
fn cancelled_at_end(manager: &mut Manager, ended_before: f64) -> f64 {
    let ended = || manager.metric(ENDED);
    wait_for("the end of the query", ended, |ended| *ended > ended_before);
    assert_eq!(manager.metric(RUNNING), 0.0);
    manager.metric(CANCELLED)
}

/// Sends a query and closes the connection while the query runs, until a query was cancelled.
fn cancel_by_closing(server: &Server, manager: &mut Manager, query: &Request) {
    assert_eq!(manager.metric(CANCELLED), 0.0);
    for _ in 0..ATTEMPTS {
        let ended = manager.metric(ENDED);
        let mut stream = server.stream();
        let bytes = query.bytes(&server.address, &server.key);
        stream.write_all(&bytes).expect("the query is sent");
        wait_until_running(manager, ended);
        drop(stream);
        if cancelled_at_end(manager, ended) == 1.0 {
            return;
        }
    }
    panic!("no query was cancelled");
}

#[test]
fn a_query_ends_when_its_client_closes_the_connection() {
    let (server, mut client, mut manager) = start_with_list();
    let before = charged(&mut manager);
    cancel_by_closing(&server, &mut manager, &endless_query());
    // The work of the query is charged to its partition, a moment after its slot is free.
    wait_for("the charge", || charged(&mut manager), |now| *now > before);
    let count = client.call(&Request::query(ITEMS, "SELECT VALUE COUNT(1) FROM c"));
    assert_eq!(count.rows().len(), 1);
}

/// Returns the request units that the container's only partition has served.
fn charged(manager: &mut Manager) -> f64 {
    let listed = manager.get("/dbs/blog/colls/posts/partitions").json();
    let partitions = listed.get("partitions").and_then(Json::as_array);
    let charged = partitions.expect("a list")[0].get("requestUnits");
    charged.and_then(Json::as_f64).expect("a number")
}

#[test]
fn a_query_with_a_function_that_never_ends_does_so_when_its_client_goes() {
    let (server, mut client, mut manager) = start_with_list();
    let body = r#"{"id":"forever","body":"function f() { while (true) {} }"}"#;
    client.create("/dbs/blog/colls/posts/udfs", body);
    let query = Request::query(ITEMS, "SELECT VALUE udf.forever() FROM c");
    cancel_by_closing(&server, &mut manager, &query);
    let busy = "orrery_script_requests_running";
    let running = || manager.metric(busy);
    wait_for("the end of the script", running, |count| *count == 0.0);
}

#[tokio::test]
async fn a_query_ends_when_its_client_resets_the_stream() {
    let (server, _client, mut manager) = start_with_list();
    let stream = tokio::net::TcpStream::connect(&server.address).await;
    let stream = TokioIo::new(stream.expect("it listens"));
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .expect("HTTP/2");
    tokio::spawn(connection);
    for _ in 0..ATTEMPTS {
        let ended = manager.metric(ENDED);
        let query = endless_query();
        let mut request = hyper::Request::post(format!("http://{}{ITEMS}", server.address));
        for (name, value) in query.signed_headers(&server.key) {
            request = request.header(name, value);
        }
        let body = Full::new(Bytes::from(query.body_bytes()));
        let sent = sender.send_request(request.body(body).expect("a request"));
        let running = tokio::spawn(sent);
        let until_running = move |manager: &mut Manager| wait_until_running(manager, ended);
        manager = blocking(manager, until_running).await.0;
        // The dropped request resets its stream; the connection stays.
        running.abort();
        let at_end = move |manager: &mut Manager| cancelled_at_end(manager, ended);
        let (kept, cancelled) = blocking(manager, at_end).await;
        manager = kept;
        if cancelled == 1.0 {
            return;
        }
    }
    panic!("no query was cancelled");
}

/// Runs `work`, which blocks, beside the tasks of the runtime.
async fn blocking<T: Send + 'static>(
    mut manager: Manager,
    work: impl FnOnce(&mut Manager) -> T + Send + 'static,
) -> (Manager, T) {
    let task = tokio::task::spawn_blocking(move || {
        let result = work(&mut manager);
        (manager, result)
    });
    task.await.expect("it does not panic")
}

#[test]
fn an_operator_lists_a_query_that_runs_and_cancels_it() {
    let (server, _client, mut manager) = start_with_list();
    let before = charged(&mut manager);
    let ended = manager.metric(ENDED);
    let query = endless_query();
    let mut client = server.client();
    let waiting = std::thread::spawn(move || client.call(&query));

    let listed = || manager.get("/running-queries").json();
    let listed = wait_for("a query that runs", listed, |listed| {
        !running(listed).is_empty()
    });
    let one = running(&listed)[0].clone();
    let text = |name: &str| one.get(name).and_then(Json::as_str).map(str::to_owned);
    assert_eq!(text("db").as_deref(), Some("blog"));
    assert_eq!(text("coll").as_deref(), Some("posts"));
    assert!(text("form").is_some_and(|form| form.contains("COUNT")));
    assert_eq!(one.get("fromConsole").and_then(Json::as_bool), Some(false));
    let number = one.get("number").and_then(Json::as_i64).expect("a number");

    let path = format!("/running-queries/{number}");
    assert_eq!(manager.call("DELETE", &path, "").status, 200);
    let answer = waiting.join().expect("the client is answered");
    assert_eq!(answer.code(), (403, 5901), "{}", answer.text());
    assert!(answer.text().contains("cancelled the query"));
    // The work ends too: the slot is free, and the partition is charged for what was done.
    assert_eq!(cancelled_at_end(&mut manager, ended), 1.0);
    wait_for("the charge", || charged(&mut manager), |now| *now > before);
    assert!(running(&manager.get("/running-queries").json()).is_empty());
    let message = manager.refused("DELETE", &path, "", 404);
    assert!(message.contains("has ended"), "{message}");
    manager.refused("DELETE", "/running-queries/first", "", 404);
}

/// Returns the queries of a list.
fn running(listed: &Json) -> &[Json] {
    let queries = listed.get("queries").and_then(Json::as_array);
    queries.expect("a list of queries")
}
