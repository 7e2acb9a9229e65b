//! Hostile clients: scripts that do not end, bodies that are too large or too deep, random bytes,
//! and connections closed within a request. Each gets an error or a closed connection; nothing is
//! written partially; the server keeps running.

use crate::program::{
    Answer, Client, ITEMS, Request, Server, item, start, start_on, start_with_posts, text,
};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use orrery_test_wait::wait_for;
use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

fn execute(id: &str) -> Request {
    Request::new("POST", &format!("/dbs/blog/colls/posts/sprocs/{id}"))
        .key("p1")
        .body("[]")
}

fn create(id: &str) -> Request {
    Request::new("POST", ITEMS)
        .key("p1")
        .body(format!(r#"{{"id":"{id}","postId":"p1"}}"#))
}

/// Checks that the server writes and reads, and returns the ids of its items.
fn ids(client: &mut Client) -> Vec<String> {
    assert_eq!(client.call(&create("probe")).status, 201);
    let rows = client.pages(&Request::new("GET", ITEMS)).0;
    assert_eq!(
        client
            .call(&Request::new("DELETE", &item("probe")).key("p1"))
            .status,
        204
    );
    let mut ids: Vec<_> = rows
        .iter()
        .map(|row| text(row, "id"))
        .filter(|id| id != "probe")
        .collect();
    ids.sort();
    ids
}

/// Checks the status and the content type of an error and returns its message.
fn message(answer: &Answer, status: u16, sub_status: u32) -> String {
    assert_eq!(answer.code(), (status, sub_status), "{}", answer.text());
    assert_eq!(answer.header("content-type"), Some("application/json"));
    text(&answer.json(), "message")
}

/// Runs a procedure that writes nothing. Script processes have a lower priority than all others, so
/// on a busy machine the time of the script may pass before it has run; the request is then
/// repeated, unless 408 is expected.
fn outcome(client: &mut Client, id: &str, expected: u16) -> Answer {
    let mut answers = std::iter::repeat_with(|| client.call(&execute(id))).take(30);
    let found = answers.find(|answer| answer.status != 408 || expected == 408);
    found.expect("a script that ends in time")
}

/// Runs a procedure that creates an item and then runs `failure`; checks that the item is not
/// stored.
fn check_failing_script(failure: &str, status: u16, sub_status: u32, expected: &str) {
    // A procedure that is repeated after several time-outs is not refused.
    let server = start(&["--memory", "--script-timeouts", "0"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let source = format!(
        "function harm() {{
            var items = getContext().getCollection();
            items.createDocument(items.getSelfLink(), {{ id: 'half', postId: 'p1' }}, function (error) {{
                if (error) throw error;
                {failure}
            }});
        }}"
    );
    client.make_procedure("harm", &source);
    client.make_procedure(
        "good",
        "function () { getContext().getResponse().setBody('good'); }",
    );
    let before = client.call(&Request::new("GET", ITEMS)).lsn();
    let answer = outcome(&mut client, "harm", status);
    let message = message(&answer, status, sub_status);
    assert!(message.contains(expected), "{message}");
    assert_eq!(
        client
            .call(&Request::new("GET", &item("half")).key("p1"))
            .status,
        404
    );
    assert_eq!(
        client.call(&Request::new("GET", ITEMS)).lsn(),
        before,
        "something was committed"
    );
    let next = outcome(&mut client, "good", 200);
    assert_eq!((next.status, next.text().as_str()), (200, "\"good\""));
    assert!(ids(&mut client).is_empty());
}

#[test]
fn a_script_that_throws_writes_nothing_and_its_number_is_the_sub_status() {
    check_failing_script("throw new Error(4711, 'enough');", 400, 4711, "enough");
    check_failing_script("throw 'a mere text';", 400, 0, "a mere text");
    check_failing_script("null.x;", 400, 0, "TypeError");
}

#[test]
fn a_script_that_loops_for_ever_is_408() {
    check_failing_script("for (;;);", 408, 0, "time");
}

#[test]
fn a_script_that_hangs_in_a_builtin_is_408() {
    check_failing_script("/^(a+)+$/.test('a'.repeat(64) + '!');", 408, 0, "time");
}

#[test]
fn a_script_that_allocates_without_end_is_400() {
    // Large buffers are not filled, so that the script needs little time of the processor.
    check_failing_script(
        "for (var all = [];;) all.push(new ArrayBuffer(8000000));",
        400,
        0,
        "memory",
    );
    check_failing_script("var text = 'x'; for (;;) text += text + 'y';", 400, 0, "");
}

#[test]
fn a_script_that_calls_itself_for_ever_is_400() {
    check_failing_script(
        "(function again() { again(); again(); })();",
        400,
        0,
        "exceeded the maximum call depth",
    );
}

#[test]
fn a_script_whose_answer_is_too_large_is_refused_whole() {
    check_failing_script(
        "getContext().getResponse().setBody('x'.repeat(5 * 1024 * 1024));",
        400,
        413,
        "too large",
    );
}

#[test]
fn a_procedure_that_writes_more_than_a_commit_holds_ends_soon_with_413() {
    // The script catches the error and goes on, which changes nothing.
    let source = "function () {
        var items = getContext().getCollection(), text = 'x'.repeat(200000), n = 0, refused = 0;
        function next(error) {
            if (error) refused++;
            if (refused > 3) return;
            var item = { id: 'i' + n++, postId: 'p1', text: text };
            items.createDocument(items.getSelfLink(), item, next);
        }
        next();
    }";
    // On a busy machine the time of the script, which has a lower priority, may end before its
    // writes are too many: it ends well then, and a new server tries again.
    let mut runs = std::iter::repeat_with(|| {
        let (server, mut client) = start_with_posts();
        client.make_procedure("flood", source);
        let answer = client.call(&execute("flood"));
        (server, client, answer)
    });
    let run = runs.by_ref().take(30).find(|run| run.2.status == 413);
    let (server, mut client, answer) = run.expect("a script that writes too much in its time");
    let text = message(&answer, 413, 0);
    assert!(
        text.contains("more than one transaction may hold"),
        "{text}"
    );
    let charge: f64 = answer
        .header("x-ms-request-charge")
        .and_then(|charge| charge.parse().ok())
        .expect("a charge");
    // 8 MiB of such items are about 42; each is some hundreds of request units.
    assert!(charge < 42.0 * 600.0, "{charge}");
    assert!(ids(&mut client).is_empty());
    drop(server);
}

#[test]
fn a_script_that_is_no_javascript_is_400_65535_when_it_runs() {
    let (_server, mut client) = start_with_posts();
    client.make_procedure("wrong", "function ( { nonsense");
    message(&client.call(&execute("wrong")), 400, 65535);
    assert!(ids(&mut client).is_empty());
}

#[test]
fn other_requests_are_served_while_scripts_hang() {
    let (server, mut client) = start_with_posts();
    client.make_procedure("spin", "function () { for (;;); }");
    assert_eq!(client.call(&create("calm")).status, 201);
    std::thread::scope(|scope| {
        let spinners: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| server.client().call(&execute("spin")).status))
            .collect();
        let mut manager = server.manager();
        let running = || manager.metric("orrery_script_requests_running");
        wait_for("a script that runs", running, |count| *count > 0.0);
        let read = Request::new("GET", &item("calm")).key("p1");
        for _ in 0..10 {
            assert_eq!(client.call(&read).status, 200);
        }
        let has_ended = spinners.iter().all(|spinner| spinner.is_finished());
        assert!(!has_ended, "the reads were answered after all scripts");
        for spinner in spinners {
            let status = spinner.join().expect("an answer");
            assert!(status == 408 || status == 429, "{status}");
        }
    });
    assert_eq!(ids(&mut client), ["calm"]);
}

#[test]
fn a_trigger_that_throws_stops_its_write() {
    let (_server, mut client) = start_with_posts();
    for (id, kind) in [("before", "Pre"), ("after", "Post")] {
        let body = format!(
            r#"{{"id":"{id}","triggerType":"{kind}","triggerOperation":"All","body":"function () {{ throw new Error(77, 'no'); }}"}}"#
        );
        client.create("/dbs/blog/colls/posts/triggers", &body);
    }
    for (header, id) in [
        ("x-ms-documentdb-pre-trigger-include", "before"),
        ("x-ms-documentdb-post-trigger-include", "after"),
    ] {
        message(&client.call(&create("stopped").header(header, id)), 400, 77);
    }
    assert!(ids(&mut client).is_empty());
}

#[test]
fn a_function_without_end_ends_its_query() {
    let (_server, mut client) = start_with_posts();
    client.create(
        "/dbs/blog/colls/posts/udfs",
        r#"{"id":"spin","body":"function (x) { for (;;); }"}"#,
    );
    assert_eq!(client.call(&create("one")).status, 201);
    let answer = client.call(&Request::query(ITEMS, "SELECT VALUE udf.spin(c.id) FROM c"));
    assert!(
        answer.status == 408 || answer.status == 400,
        "{} {}",
        answer.status,
        answer.text()
    );
    assert_eq!(ids(&mut client), ["one"]);
}

#[test]
fn a_nesting_bomb_is_400_wherever_json_is_read() {
    let (_server, mut client) = start_with_posts();
    client.make_procedure(
        "echo",
        "function (value) { getContext().getResponse().setBody(value); }",
    );
    let arrays = "[".repeat(1_000_000);
    let objects = r#"{"a":"#.repeat(300_000);
    let closed = format!("{}{}", "[".repeat(500_000), "]".repeat(500_000));
    for bomb in [&arrays, &objects, &closed] {
        for body in [
            bomb.clone(),
            format!(r#"{{"id":"bomb","postId":"p1","a":{bomb}}}"#),
        ] {
            message(
                &client.call(&Request::new("POST", ITEMS).key("p1").body(body.clone())),
                400,
                0,
            );
            message(
                &client.call(&Request::new("POST", "/dbs").body(body)),
                400,
                0,
            );
        }
        message(
            &client.call(&execute("echo").body(format!("[{bomb}]"))),
            400,
            0,
        );
    }
    let parentheses = format!(
        "SELECT * FROM c WHERE {}1{}",
        "(".repeat(100_000),
        ")".repeat(100_000)
    );
    assert_eq!(
        client.call(&Request::query(ITEMS, &parentheses)).status,
        400
    );
    assert!(ids(&mut client).is_empty());
}

#[test]
fn a_body_of_three_megabytes_is_413_with_and_without_a_length() {
    let (server, mut client) = start_with_posts();
    let body = format!(
        r#"{{"id":"big","postId":"p1","a":"{}"}}"#,
        "x".repeat(3 << 20)
    );
    message(
        &client.call(&Request::new("POST", ITEMS).key("p1").body(body.clone())),
        413,
        0,
    );

    let head = Request::new("POST", ITEMS)
        .key("p1")
        .bytes(&server.address, &server.key);
    let head = String::from_utf8(head)
        .expect("ASCII")
        .replace("Content-Length: 0", "Transfer-Encoding: chunked");
    let mut stream = server.stream();
    stream
        .write_all(head.as_bytes())
        .expect("the head goes out");
    for chunk in body.as_bytes().chunks(64 << 10) {
        write!(stream, "{:x}\r\n", chunk.len())
            .and_then(|()| stream.write_all(chunk))
            .expect("a chunk goes out");
        stream.write_all(b"\r\n").expect("a chunk goes out");
    }
    stream.write_all(b"0\r\n\r\n").expect("the end goes out");
    message(
        &Answer::read(&mut BufReader::new(stream)).expect("an answer"),
        413,
        0,
    );
    assert!(ids(&mut client).is_empty());
}

/// Sends a request with a body of so many megabytes, and reads nothing before all is sent. Returns
/// the answer.
fn send_far_too_much(address: &str, head: &str, megabytes: usize) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let limit = Some(Duration::from_secs(60));
    stream.set_read_timeout(limit).expect("a socket");
    let length = format!("Content-Length: {}\r\n", megabytes << 20);
    let head = head.replace("Content-Length: 0\r\n", &length);
    stream
        .write_all(head.as_bytes())
        .expect("the head goes out");
    let part = vec![b'x'; 1 << 20];
    for n in 0..megabytes {
        let sent = stream.write_all(&part);
        sent.unwrap_or_else(|error| panic!("{head}: megabyte {n} is not read: {error}"));
    }
    Answer::read(&mut BufReader::new(stream)).expect("an answer")
}

#[test]
fn a_body_far_over_the_limit_is_read_before_it_is_refused_on_every_port() {
    let (server, mut client) = start_with_posts();
    let head = |request: Request| {
        let bytes = request.bytes(&server.address, &server.key);
        String::from_utf8(bytes).expect("ASCII")
    };
    let create = || Request::new("POST", ITEMS).key("p1");
    let refused = send_far_too_much(&server.address, &head(create()), 200);
    message(&refused, 413, 0);
    let unsigned = send_far_too_much(&server.address, &head(create().unsigned()), 40);
    assert_eq!(unsigned.status, 401);

    let admin = &server.admin_address;
    for (path, header, status) in [
        (
            "/reset",
            format!("authorization: Bearer {}", server.admin_key),
            413,
        ),
        ("/reset", "authorization: Bearer wrong".to_owned(), 401),
        ("/api/session", "accept: */*".to_owned(), 413),
        ("/api/data/dbs", "accept: */*".to_owned(), 401),
    ] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {admin}\r\n{header}\r\nContent-Length: 0\r\n\r\n"
        );
        let answer = send_far_too_much(admin, &head, 40);
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    assert!(ids(&mut client).is_empty());
}

#[test]
fn a_client_that_asks_before_it_sends_too_large_a_body_is_refused_at_once() {
    let (server, mut client) = start_with_posts();
    let request = Request::new("POST", ITEMS)
        .key("p1")
        .header("expect", "100-continue");
    let head = request.bytes(&server.address, &server.key);
    let head = String::from_utf8(head).expect("ASCII");
    let head = head.replace("Content-Length: 0", "Content-Length: 3000000");
    let mut stream = server.stream();
    stream.write_all(head.as_bytes()).expect("it goes out");
    // Without the refusal the first line would be that of 100 Continue.
    let answer = Answer::read(&mut BufReader::new(stream)).expect("an answer");
    message(&answer, 413, 0);
    assert!(ids(&mut client).is_empty());
}

#[test]
fn garbage_is_answered_with_400_or_a_closed_connection() {
    let (server, mut client) = start_with_posts();
    let random: Vec<u8> = (0..4096u64)
        .map(|n| orrery_model::world::split_mix(n) as u8)
        .collect();
    let tls = [&[0x16, 3, 1, 0xff, 0xff][..], &random].concat();
    let plain = [&b"\x80"[..], &random].concat();
    let long_head = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(1 << 20)).into_bytes();
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(5000)).into_bytes();
    let preface = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &random].concat();
    let two_lengths =
        b"POST /dbs HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd".to_vec();
    let no_length = b"POST /dbs HTTP/1.1\r\nContent-Length: -1\r\n\r\n".to_vec();
    for bytes in [
        tls,
        plain,
        long_head,
        many,
        preface,
        two_lengths,
        no_length,
        b"\r\n\r\n\r\n\0\0".to_vec(),
    ] {
        let mut stream = server.stream();
        // The server may close the connection before everything is sent; its response is then lost.
        let _ = stream
            .write_all(&bytes)
            .and_then(|()| stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let start: String = String::from_utf8_lossy(&bytes).chars().take(20).collect();
        let refused = !answer.starts_with("HTTP/1.1") || answer.starts_with("HTTP/1.1 4");
        assert!(refused, "{start:?} was answered with {answer}");
    }
    assert!(ids(&mut client).is_empty());
}

#[test]
fn an_incomplete_request_has_no_effect() {
    let (server, mut client) = start_with_posts();
    let whole = create("gone").bytes(&server.address, &server.key);
    for length in [1, 20, whole.len() / 2, whole.len() - 20, whole.len() - 1] {
        let mut stream = server.stream();
        stream.write_all(&whole[..length]).expect("a part goes out");
        drop(stream);
        let mut stream = server.stream();
        stream
            .write_all(&whole[..length])
            .and_then(|()| stream.shutdown(Shutdown::Write))
            .expect("a part goes out");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(
            !rest.starts_with(b"HTTP/1.1 2"),
            "{}",
            String::from_utf8_lossy(&rest)
        );
    }
    assert!(ids(&mut client).is_empty());
}

#[test]
fn a_write_of_a_disconnected_client_takes_effect_completely_or_not_at_all() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_on(directory.path()).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    // The first client of four waits for the status of its answer: its write has taken effect.
    // The others leave at once, so that their writes race with the end of their connections.
    for n in 0..200 {
        let mut stream = server.stream();
        stream
            .write_all(&create(&format!("left-{n}")).bytes(&server.address, &server.key))
            .expect("it goes out");
        match n % 4 {
            0 => {
                let mut status = [0; 12];
                stream.read_exact(&mut status).expect("an answer begins");
                assert_eq!(&status, b"HTTP/1.1 201");
            }
            1 => stream.shutdown(Shutdown::Both).expect("it is closed"),
            2 => stream.shutdown(Shutdown::Write).expect("it is closed"),
            _ => drop(stream),
        }
    }
    // A second write of the same item reports whether the first one took effect.
    for n in 0..200 {
        let answer = client.call(&create(&format!("left-{n}")));
        let expected: &[u16] = if n % 4 == 0 { &[409] } else { &[201, 409] };
        assert!(
            expected.contains(&answer.status),
            "left-{n}: {}",
            answer.text()
        );
    }
    assert_eq!(ids(&mut client).len(), 200);
    let counted = client.call(&Request::query(
        ITEMS,
        "SELECT VALUE COUNT(1) FROM c WHERE c.postId = 'p1'",
    ));
    assert_eq!(counted.rows()[0].to_text(), "200");
}

#[test]
fn paths_that_do_not_exist_are_404_in_json() {
    let (_server, mut client) = start_with_posts();
    for path in [
        "/nowhere",
        "/dbs/blog/colls/posts/nowhere",
        "/dbs/blog/colls/posts/docs/a/b/c/d",
        "/a/%2e%2e/b",
    ] {
        assert!(
            !message(&client.call(&Request::new("GET", path)), 404, 0).is_empty(),
            "{path}"
        );
    }
    for path in ["/dbs/%ff%fe", "/dbs/blog/colls/posts/docs/%00", "/%"] {
        let answer = client.call(&Request::new("GET", path));
        assert!(
            (400..500).contains(&answer.status) && !text(&answer.json(), "message").is_empty(),
            "{path}"
        );
    }
}

/// Requests the account over HTTP/2 and returns the status and the body.
async fn account_over_http2<S>(server: &Server, stream: S, scheme: &str) -> (u16, String)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
    tokio::spawn(connection);
    let mut request = hyper::Request::get(format!("{scheme}://{}/", server.address));
    for (name, value) in Request::new("GET", "/").signed_headers(&server.key) {
        request = request.header(name, value);
    }
    let request = request.body(Full::new(Bytes::new())).expect("a request");
    let answer = sender.send_request(request).await.expect("an answer");
    let status = answer.status().as_u16();
    let body = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (status, String::from_utf8_lossy(&body).into_owned())
}

#[tokio::test]
async fn one_port_takes_http_1_and_2_with_and_without_tls() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_on(directory.path()).expect("it starts");
    let dial = || tokio::net::TcpStream::connect(server.address.clone());
    let endpoint = |scheme: &str| {
        format!(
            "\"databaseAccountEndpoint\":\"{scheme}://{}/\"",
            server.address
        )
    };

    let plain = server.client().call(&Request::new("GET", "/"));
    assert!(
        plain.status == 200 && plain.text().contains(&endpoint("http")),
        "{}",
        plain.text()
    );

    let (status, body) =
        account_over_http2(&server, dial().await.expect("it listens"), "http").await;
    assert!(
        status == 200 && body.contains(&endpoint("http")),
        "{status} {body}"
    );

    for protocol in ["h2", "http/1.1"] {
        let mut roots = RootCertStore::empty();
        let certificate = CertificateDer::from_pem_file(directory.path().join("tls/cert.pem"))
            .expect("it is kept");
        roots.add(certificate).expect("it can be trusted");
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![protocol.into()];
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let stream = dial().await.expect("it listens");
        let stream = tokio_rustls::TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
            .expect("TLS");
        assert_eq!(
            stream.get_ref().1.alpn_protocol(),
            Some(protocol.as_bytes())
        );
        if protocol == "h2" {
            let (status, body) = account_over_http2(&server, stream, "https").await;
            assert!(
                status == 200 && body.contains(&endpoint("https")),
                "{status} {body}"
            );
        } else {
            use tokio::io::{AsyncReadExt, AsyncWriteExt};
            let (mut reader, mut writer) = tokio::io::split(stream);
            let request = Request::new("GET", "/").header("Connection", "close");
            writer
                .write_all(&request.bytes(&server.address, &server.key))
                .await
                .expect("it goes out");
            let mut answer = Vec::new();
            reader.read_to_end(&mut answer).await.expect("an answer");
            let answer = Answer::read(&mut &answer[..]).expect("an answer");
            assert!(
                answer.status == 200 && answer.text().contains(&endpoint("https")),
                "{}",
                answer.text()
            );
        }
    }
}
