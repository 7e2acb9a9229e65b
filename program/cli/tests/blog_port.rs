//! The port of the blog: visitors are served beside clients that hold connections, and beside texts
//! that take long to show.
//!
//! `ORRERY_SLOW_CLIENTS` sets the number of slow clients; a long run takes 1,100 and prints
//! figures.

use crate::application::{Application, Browser, application};
use crate::program::show;
use orrery_gateway::CloseReason;
use orrery_test_wait::wait_until;
use socket2::{Domain, Socket, Type};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes that the system keeps for a client that reads nothing.
const RECEIVE_BYTES: usize = 4 * 1024;
/// Requests that such a client sends at once: their answers are more than the system keeps.
const PIPELINED: usize = 400;

/// Returns the number of slow clients and the number of connections of the port.
fn sizes() -> (usize, usize) {
    match std::env::var("ORRERY_SLOW_CLIENTS") {
        Ok(text) => (text.parse().expect("a number"), 1_024),
        Err(_) => (12, 8),
    }
}

/// Serves the blog on a port with few connections, and returns the number of slow clients.
fn small_port() -> (Application, usize) {
    let mut application = application();
    let (clients, connections) = sizes();
    application.connections = connections;
    application.serve();
    (application, clients)
}

/// Opens a connection that sends half a head.
fn half_head(application: &Application) -> TcpStream {
    let mut stream = TcpStream::connect(application.address).expect("it listens");
    let half = b"GET /v3 HTTP/1.1\r\nhost: x\r\nx-half";
    stream.write_all(half).expect("it goes out");
    stream
}

/// Bytes of `HTTP/1.1 100 Continue`, with the empty line that ends the answer.
const CONTINUE_BYTES: usize = 25;

/// Opens a connection that sends three bytes of a long form.
fn slow_body(application: &Application) -> TcpStream {
    let mut stream = TcpStream::connect(application.address).expect("it listens");
    let head = format!(
        "POST /v3 HTTP/1.1\r\nhost: {}\r\ncontent-length: 100000\r\n\
         expect: 100-continue\r\n\r\nabc",
        application.address
    );
    // The port asks for the body once the request is in progress, or refuses the connection.
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.read_exact(&mut [0; CONTINUE_BYTES]));
    stream
}

/// Opens a connection that sends many requests and reads no answer.
fn never_reads(application: &Application) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(RECEIVE_BYTES).expect("a size");
    let address = application.address.into();
    socket.connect(&address).expect("it listens");
    let mut stream = TcpStream::from(socket);
    let request = format!("GET /v3 HTTP/1.1\r\nhost: {}\r\n\r\n", application.address);
    // The port may close the connection for another one meanwhile.
    let _ = stream.write_all(request.repeat(PIPELINED).as_bytes());
    stream
}

/// Reads the front page over a connection of its own. Returns the time, or what came instead.
fn visit(application: &Application) -> Result<Duration, String> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(application.address).map_err(|e| e.to_string())?;
    let limit = Some(Duration::from_secs(30));
    stream.set_read_timeout(limit).expect("a socket");
    let request = format!(
        "GET /v3 HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n",
        application.address
    );
    let mut status = String::new();
    let read = stream
        .write_all(request.as_bytes())
        .and_then(|()| BufReader::new(stream).read_line(&mut status));
    match read {
        Ok(_) if status.starts_with("HTTP/1.1 200") => Ok(begun.elapsed()),
        Ok(_) => Err(format!("an answer {status:?}")),
        Err(error) => Err(error.to_string()),
    }
}

/// Waits until ten visitors in a row are answered, and shows the times.
fn ten_visits(application: &Application, attack: &str) {
    let begun = Instant::now();
    wait_until("ten visitors in a row", || -> Result<(), String> {
        let mut slowest = Duration::ZERO;
        for _ in 0..10 {
            slowest = slowest.max(visit(application)?);
        }
        show(&format!(
            "{attack}: ten visitors in a row after {:?}, the slowest {slowest:?}",
            begun.elapsed()
        ));
        Ok(())
    });
}

#[test]
fn visitors_are_served_beside_half_heads_on_every_connection() {
    let (application, clients) = small_port();
    let heads: Vec<_> = (0..clients).map(|_| half_head(&application)).collect();
    ten_visits(&application, &format!("{clients} half heads"));
    assert!(application.closed(CloseReason::Displaced) > 0);
    drop(heads);
}

#[test]
fn visitors_are_served_beside_clients_that_never_read() {
    let (application, clients) = small_port();
    let readers: Vec<_> = (0..clients).map(|_| never_reads(&application)).collect();
    ten_visits(&application, &format!("{clients} clients that never read"));
    assert!(application.closed(CloseReason::Displaced) > 0);
    drop(readers);
}

#[test]
fn visitors_are_served_beside_slow_bodies_of_their_address() {
    let (application, clients) = small_port();
    let mut slow: Vec<_> = (0..clients).map(|_| slow_body(&application)).collect();
    ten_visits(&application, &format!("{clients} slow bodies"));
    assert!(application.closed(CloseReason::Displaced) > 0);
    // The first connection gave its place to another, before its request was refused.
    let mut answer = String::new();
    let _ = slow[0].read_to_string(&mut answer);
    assert_eq!(answer, "");
}

#[test]
fn a_form_far_over_the_limit_is_read_before_it_is_refused() {
    let application = application();
    let mut stream = TcpStream::connect(application.address).expect("it listens");
    let head = format!(
        "POST /v3/write HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\
         content-type: application/x-www-form-urlencoded\r\nconnection: close\r\n\r\n",
        application.address,
        40 << 20
    );
    stream.write_all(head.as_bytes()).expect("it goes out");
    let part = vec![b'x'; 1 << 20];
    for n in 0..40 {
        let sent = stream.write_all(&part);
        sent.unwrap_or_else(|error| panic!("megabyte {n} is not read: {error}"));
    }
    let mut lines = BufReader::new(stream).lines();
    let status = lines.next().expect("an answer").expect("text");
    assert!(status.starts_with("HTTP/1.1 413"), "{status}");
    let told = lines
        .map_while(Result::ok)
        .any(|line| line.contains("larger than 2 MB"));
    assert!(told, "the page does not say why");
}

/// Asks for the preview of a text.
fn preview(browser: &mut Browser, text: &str) -> (u16, String) {
    let headers = [("content-type", "application/x-www-form-urlencoded")];
    let escaped = percent_encoding::utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    let page = browser.request("POST", "/preview", &headers, &format!("content={escaped}"));
    (page.status, page.body)
}

#[test]
fn a_preview_shows_texts_that_a_post_may_have_and_no_longer_ones() {
    let application = application();
    let mut browser = application.browser();
    let (status, html) = preview(&mut browser, "a *short* text");
    assert_eq!(
        (status, html.as_str()),
        (200, "<p>a <em>short</em> text</p>\n")
    );
    let table = "|a|b|c|d\n|-|-|-|-\n".to_owned() + &"|1|2|3|4\n".repeat(9_000);
    let (status, html) = preview(&mut browser, &table);
    assert_eq!((status, html.matches("<tr>").count()), (200, 9_001));
    let (status, text) = preview(&mut browser, &table.repeat(2));
    assert_eq!(status, 413, "{text}");
    assert!(text.contains("may have up to 100,000"), "{text}");
}
