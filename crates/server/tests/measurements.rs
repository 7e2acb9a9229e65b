//! Measurements of the operator: they end with their client, and probes never wait for them.

mod program;

use orrery_model::Json;
use program::{Manager, Server, start_with_posts};
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// A query that would run for hours: all combinations of five elements.
const ENDLESS: &str = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a \
                       JOIN e IN c.a WHERE a + b + d + e < 0";
const WHAT_IF: &str = "/dbs/blog/colls/posts/what-if";

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

/// Asks for a small prediction until the answer has another status than `while_status`.
async fn small_prediction(manager: &mut Manager, while_status: u16) -> u16 {
    let body = r#"{"recorded":false,"queries":[{"text":"SELECT * FROM c"}]}"#;
    let mut ticks = tokio::time::interval(Duration::from_millis(50));
    for _ in 0..600 {
        ticks.tick().await;
        let status = manager.call("POST", WHAT_IF, body).status;
        if status != while_status {
            return status;
        }
    }
    while_status
}

#[tokio::test]
async fn a_prediction_ends_with_its_client_also_within_a_query() {
    let server = server_with_a_long_list();
    let mut manager = server.manager();
    let stream = send(&server, WHAT_IF, &endless_prediction());
    // The prediction has begun when it refuses a second one.
    assert_eq!(small_prediction(&mut manager, 200).await, 429);
    drop(stream);
    assert_eq!(small_prediction(&mut manager, 429).await, 200);
}

#[tokio::test]
async fn a_probe_is_answered_while_measurements_wait_for_each_other() {
    let server = server_with_a_long_list();
    let mut manager = server.manager();
    let question = format!(r#"{{"text":"{ENDLESS}"}}"#);
    let path = format!("{WHAT_IF}/why");
    let mut waiting = Vec::new();
    for _ in 0..14 {
        let stream = send(&server, &path, &question);
        let short = Some(Duration::from_millis(1));
        stream.set_read_timeout(short).expect("a socket");
        waiting.push(stream);
    }
    // Two run, eight wait, and the others are refused.
    let mut ticks = tokio::time::interval(Duration::from_millis(20));
    for _ in 0..1_000 {
        ticks.tick().await;
        assert_eq!(manager.call("GET", "/ready", "").status, 200);
        for stream in &waiting {
            let mut head = [0; 12];
            if stream.peek(&mut head).is_ok_and(|count| count == 12) && &head == b"HTTP/1.1 429" {
                return;
            }
        }
    }
    panic!("no measurement was refused");
}
