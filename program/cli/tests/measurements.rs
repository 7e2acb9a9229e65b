//! Measurements of the operator: they end with their client, and probes never wait for them.

use crate::program::{self, Manager, Server, start_with_posts};
use orrery_model::Json;
use orrery_test_wait::{wait_for, wait_until};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// A query that would run for hours: all combinations of five elements.
const ENDLESS: &str = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a \
                       JOIN e IN c.a WHERE a + b + d + e < 0";
const PREDICTION: &str = "/dbs/blog/colls/posts/prediction";
/// A prediction of some milliseconds.
const SMALL: &str = r#"{"recorded":false,"queries":[{"text":"SELECT * FROM c"}]}"#;

/// Starts a server with an item that makes [`ENDLESS`] long.
fn server_with_a_long_list() -> Server {
    let (server, mut client) = start_with_posts();
    let list: Vec<Json> = (0..300_u64).map(Json::from).collect();
    let list = Json::Array(list).to_text();
    let item = format!(r#"{{"id":"x","postId":"x","a":{list}}}"#);
    client.create(program::ITEMS, &item);
    server
}

/// Sends a request to the management API and does not read the answer.
fn send(server: &Server, path: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(&server.admin_address).expect("it listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nauthorization: Bearer {}\r\nContent-Length: \
         {}\r\n\r\n",
        server.admin_key,
        body.len()
    );
    let sent = stream.write_all(format!("{head}{body}").as_bytes());
    sent.expect("the request is sent");
    stream
}

fn endless_prediction() -> String {
    format!(r#"{{"recorded":false,"queries":[{{"text":"{ENDLESS}"}}]}}"#)
}

/// Starts a prediction that does not end and returns its connection. The prediction has begun when
/// another one is refused.
fn begin_endless_prediction(server: &Server, manager: &mut Manager) -> TcpStream {
    let mut stream = send(server, PREDICTION, &endless_prediction());
    wait_until("the endless prediction", || {
        let status = manager.call("POST", PREDICTION, SMALL).status;
        if status == 429 {
            return Ok(());
        }
        // The endless prediction is refused itself if it arrives while the small one runs.
        if is_refused(&stream) {
            stream = send(server, PREDICTION, &endless_prediction());
        }
        Err(status)
    });
    stream
}

/// Returns true if the answer of a connection has begun, with status 429.
fn is_refused(stream: &TcpStream) -> bool {
    let short = Some(Duration::from_millis(1));
    stream.set_read_timeout(short).expect("a socket");
    let mut head = [0; 12];
    stream.peek(&mut head).is_ok_and(|count| count == 12) && &head == b"HTTP/1.1 429"
}

/// Asks for a small prediction until the answer has another status than 429.
fn small_prediction(manager: &mut Manager) -> u16 {
    let status = || manager.call("POST", PREDICTION, SMALL).status;
    wait_for("a prediction", status, |status| *status != 429)
}

#[test]
fn a_prediction_ends_with_its_client_also_within_a_query() {
    let server = server_with_a_long_list();
    let mut manager = server.manager();
    let stream = begin_endless_prediction(&server, &mut manager);
    drop(stream);
    assert_eq!(small_prediction(&mut manager), 200);
}

#[test]
fn a_probe_is_answered_while_measurements_wait_for_each_other() {
    let server = server_with_a_long_list();
    let mut manager = server.manager();
    let question = format!(r#"{{"text":"{ENDLESS}"}}"#);
    let path = format!("{PREDICTION}/why");
    let mut waiting = Vec::new();
    for _ in 0..14 {
        waiting.push(send(&server, &path, &question));
    }
    // Two run, eight wait, and the others are refused.
    let refused = || {
        assert_eq!(manager.call("GET", "/ready", "").status, 200);
        waiting.iter().any(is_refused)
    };
    wait_for("a measurement that is refused", refused, |is| *is);
}
