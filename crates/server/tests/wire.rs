//! The protocol as a client without a library sees it: a real server on a free port, requests byte for byte.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use orrery_model::Json;
use orrery_model::json::parse;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server of its own for each test; it ends with the test.
struct Server {
    process: Child,
    address: String,
    key: String,
}

/// An answer, taken apart.
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

/// A request in the making: signed for now with the right key unless a test says otherwise.
struct Request<'a> {
    server: &'a Server,
    method: &'a str,
    path: &'a str,
    signed: (&'a str, &'a str),
    headers: Vec<(&'a str, String)>,
    body: Vec<u8>,
    age_seconds: i64,
    key: String,
}

impl Server {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(arguments: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_orrery"))
            .args(["start", "--memory", "--listen", "127.0.0.1:0", "--ready-json", "--log-level", "debug"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("it says that it is ready");
        let ready = parse(line.as_bytes()).expect("the ready line is JSON");
        let text = |name: &str| ready.get(name).and_then(Json::as_str).expect("a member").to_owned();
        let address = text("endpoint_http").trim_start_matches("http://").trim_end_matches('/').to_owned();
        Server { process, address, key: text("key") }
    }

    /// A request whose signature covers `signed`: resource type and link.
    fn request<'a>(&'a self, method: &'a str, path: &'a str, signed: (&'a str, &'a str)) -> Request<'a> {
        let (headers, body, key) = (Vec::new(), Vec::new(), self.key.clone());
        Request { server: self, method, path, signed, headers, body, age_seconds: 0, key }
    }

    /// A database `blog` with a container `posts` whose key is `/postId`.
    fn with_posts(self) -> Self {
        let database = self.request("POST", "/dbs", ("dbs", "")).body(r#"{"id":"blog"}"#).send();
        assert_eq!(database.status, 201, "{}", database.text());
        let body = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
        let container = self.request("POST", "/dbs/blog/colls/", ("colls", "dbs/blog")).body(body).send();
        assert_eq!(container.status, 201, "{}", container.text());
        self
    }

    fn create_post(&self, key: &str, body: &str) -> Answer {
        self.request("POST", "/dbs/blog/colls/posts/docs/", ("docs", "dbs/blog/colls/posts"))
            .header("x-ms-documentdb-partitionkey", key)
            .body(body)
            .send()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Request<'_> {
    fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    fn signed_seconds_ago(mut self, seconds: i64) -> Self {
        self.age_seconds = seconds;
        self
    }

    fn with_key(mut self, key: &str) -> Self {
        self.key = key.to_owned();
        self
    }

    fn send(self) -> Answer {
        let signed_at = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(self.age_seconds);
        let date = jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&signed_at).expect("a date");
        let (kind, link) = self.signed;
        let text = format!("{}\n{kind}\n{link}\n{}\n\n", self.method.to_lowercase(), date.to_lowercase());
        let key = STANDARD.decode(&self.key).expect("base64");
        let mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("a key").chain_update(text).finalize().into_bytes();
        let token = format!("type=master&ver=1.0&sig={}", STANDARD.encode(mac));
        let token = percent_encoding::utf8_percent_encode(&token, percent_encoding::NON_ALPHANUMERIC);
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nauthorization: {token}\r\nx-ms-date: {date}\r\n\
             x-ms-version: 2020-07-15\r\nContent-Length: {}\r\n",
            self.method,
            self.path,
            self.server.address,
            self.body.len()
        );
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").expect("a string grows");
        }
        head.push_str("\r\n");
        let mut stream = TcpStream::connect(&self.server.address).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket");
        stream.write_all(head.as_bytes()).expect("the head goes out");
        stream.write_all(&self.body).expect("the body goes out");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        Answer::parse(&answer)
    }
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).expect("ASCII");
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
        Answer { status, head, body: bytes[end + 4..].to_vec() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (n, value) = line.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Checks what holds for every error, and gives the message.
    fn error(&self, status: u16, sub_status: Option<&str>, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("x-ms-substatus"), sub_status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(self.header("content-length"), Some(self.body.len().to_string().as_str()));
        assert!(self.header("x-ms-request-charge").is_some());
        let body = parse(&self.body).expect("errors are JSON");
        assert_eq!(body.get("code").and_then(Json::as_str), Some(code));
        let message = body.get("message").and_then(Json::as_str).expect("a message").to_owned();
        assert!(message.contains(self.header("x-ms-activity-id").expect("an activity id")), "{message}");
        message
    }
}

#[test]
fn a_wrong_signature_is_401_and_shows_what_the_server_signed() {
    let server = Server::start();
    let answer = server.request("GET", "/dbs/blog", ("dbs", "dbs/blog")).with_key("AAAAAAAAAAAAAAAAAAAAAA==").send();
    assert!(answer.error(401, None, "Unauthorized").contains(r"'get\ndbs\ndbs/blog\n"));
}

#[test]
fn an_expired_date_is_403() {
    let server = Server::start();
    let answer = server.request("GET", "/", ("", "")).signed_seconds_ago(3600).send();
    assert!(answer.error(403, None, "Forbidden").contains("token expiry time"));
}

#[test]
fn the_account_names_the_address_that_was_used() {
    let server = Server::start();
    let answer = server.request("GET", "/", ("", "")).header("x-ms-activity-id", "my-own-id").send();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.header("x-ms-activity-id"), Some("my-own-id"));
    assert!(answer.text().contains(&format!("\"databaseAccountEndpoint\":\"http://{}/\"", server.address)));
}

#[test]
fn an_unknown_path_is_404_and_an_unsupported_method_405() {
    let server = Server::start();
    server.request("GET", "/nowhere", ("", "")).send().error(404, None, "NotFound");
    let answer = server.request("PUT", "/dbs/blog", ("dbs", "dbs/blog")).send();
    answer.error(405, None, "MethodNotAllowed");
    assert_eq!(answer.header("allow"), Some("GET, HEAD, DELETE"));
}

#[test]
fn what_is_not_offered_is_refused_by_name() {
    let server = Server::start();
    let path = "/dbs/blog/colls/posts/operations/collectiontruncate";
    let answer = server.request("POST", path, ("colls", "dbs/blog/colls/posts")).send();
    assert!(
        answer.error(400, None, "BadRequest").contains("Emptying a container (collectiontruncate) is not supported")
    );
}

#[test]
fn a_body_over_two_megabytes_is_413() {
    let server = Server::start();
    let body = vec![b' '; 3 * 1024 * 1024];
    let answer =
        server.request("POST", "/dbs/blog/colls/posts/docs", ("docs", "dbs/blog/colls/posts")).body(body).send();
    answer.error(413, None, "RequestEntityTooLarge");
}

#[test]
fn an_item_that_is_no_json_or_has_no_id_is_400() {
    let server = Server::start().with_posts();
    server.create_post(r#"["p1"]"#, r#"{"id":"p1","postId":"#).error(400, None, "BadRequest");
    server.create_post(r#"["p1"]"#, r#"{"postId":"p1"}"#).error(400, None, "BadRequest");
}

#[test]
fn a_key_that_disagrees_with_the_item_is_400_1001() {
    let server = Server::start().with_posts();
    let answer = server.create_post(r#"["p2"]"#, r#"{"id":"p1","postId":"p1"}"#);
    let message = answer.error(400, Some("1001"), "BadRequest");
    assert!(message.contains("doesn't match partition key field values specified in the document"), "{message}");
}

#[test]
fn an_item_comes_back_with_its_etag_and_one_session_token() {
    let server = Server::start().with_posts();
    let created = server.create_post(r#"["p1"]"#, r#"{"id":"p1","postId":"p1"}"#);
    assert_eq!(created.status, 201, "{}", created.text());
    let link = "dbs/blog/colls/posts/docs/p1";
    let read = server
        .request("GET", "/dbs/blog/colls/posts/docs/p1", ("docs", link))
        .header("x-ms-documentdb-partitionkey", r#"["p1"]"#)
        .send();
    assert_eq!((read.status, read.header("etag")), (200, created.header("etag")));
    assert!(
        read.header("x-ms-session-token")
            .is_some_and(|token| token.starts_with("0:") && token.contains('#') && !token.contains(','))
    );
    assert_eq!(read.header("x-ms-alt-content-path"), Some("dbs/blog/colls/posts"));
    let again = server.create_post(r#"["p1"]"#, r#"{"id":"p1","postId":"p1"}"#);
    again.error(409, None, "Conflict");
    assert!(again.header("x-ms-session-token").is_some());
}

#[test]
fn a_query_with_wrong_syntax_is_400_with_sc1001() {
    let server = Server::start().with_posts();
    let answer = server
        .request("POST", "/dbs/blog/colls/posts/docs", ("docs", "dbs/blog/colls/posts"))
        .header("Content-Type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .header("x-ms-documentdb-query-enablecrosspartition", "True")
        .body(r#"{"query":"SELECT * FORM c"}"#)
        .send();
    assert!(answer.error(400, None, "BadRequest").contains("SC1001"));
}

#[test]
fn a_server_that_leaves_merging_to_clients_sends_them_the_plan_with_400_1004() {
    let server = Server::start_with(&["--cross-partition-queries", "refuse"]).with_posts();
    let created = server
        .request("POST", "/dbs/blog/colls", ("colls", "dbs/blog"))
        .header("x-ms-offer-throughput", "12000")
        .body(r#"{"id":"wide","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#)
        .send();
    assert_eq!(created.status, 201, "{}", created.text());
    let query = |container: &str| {
        let (path, link) = (format!("/dbs/blog/colls/{container}/docs"), format!("dbs/blog/colls/{container}"));
        let request = server.request("POST", &path, ("docs", &link)).header("x-ms-documentdb-isquery", "True");
        let request = request.header("Content-Type", "application/query+json");
        let request = request.header("x-ms-documentdb-query-enablecrosspartition", "True");
        request.body(r#"{"query":"SELECT VALUE COUNT(1) FROM c"}"#).send()
    };
    assert_eq!(query("posts").status, 200, "one partition needs no merging");
    let refused = query("wide");
    refused.error(400, Some("1004"), "BadRequest");
    let body = parse(&refused.body).expect("JSON");
    let plan = body.get("additionalErrorInfo").and_then(Json::as_str).expect("a plan as text");
    assert!(parse(plan.as_bytes()).expect("JSON").get("queryInfo").is_some(), "{plan}");
}

#[test]
fn a_missing_container_is_named_as_the_missing_owner() {
    let server = Server::start().with_posts();
    let answer = server
        .request("GET", "/dbs/blog/colls/none/docs/p1", ("docs", "dbs/blog/colls/none/docs/p1"))
        .header("x-ms-documentdb-partitionkey", r#"["p1"]"#)
        .send();
    answer.error(404, Some("1003"), "NotFound");
}

#[test]
fn ranges_are_not_modified_for_a_reader_who_has_them() {
    let server = Server::start().with_posts();
    let signed = ("pkranges", "dbs/blog/colls/posts");
    let first =
        server.request("GET", "/dbs/blog/colls/posts/pkranges", signed).header("A-IM", "Incremental feed").send();
    assert_eq!((first.status, first.header("x-ms-item-count")), (200, Some("1")), "{}", first.text());
    let etag = first.header("etag").expect("an etag").to_owned();
    let again = server
        .request("GET", "/dbs/blog/colls/posts/pkranges", signed)
        .header("A-IM", "Incremental feed")
        .header("If-None-Match", &etag)
        .send();
    assert_eq!((again.status, again.header("x-ms-item-count")), (304, Some("0")));
    assert_eq!(again.header("etag"), Some(etag.as_str()));
}

#[test]
fn a_change_feed_without_news_is_304_with_its_etag_and_a_count() {
    let server = Server::start().with_posts();
    server.create_post(r#"["p1"]"#, r#"{"id":"p1","postId":"p1"}"#);
    let poll = |etag: &str| {
        let signed = ("docs", "dbs/blog/colls/posts");
        let request = server.request("GET", "/dbs/blog/colls/posts/docs", signed).header("A-IM", "Incremental Feed");
        let request = request.header("x-ms-documentdb-partitionkeyrangeid", "0");
        if etag.is_empty() { request.send() } else { request.header("If-None-Match", etag).send() }
    };
    let first = poll("");
    assert_eq!((first.status, first.header("x-ms-item-count")), (200, Some("1")), "{}", first.text());
    let etag = first.header("etag").expect("an etag").to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    let second = poll(&etag);
    assert_eq!((second.status, second.header("x-ms-item-count"), second.body.len()), (304, Some("0"), 0));
    assert_eq!(second.header("etag"), Some(etag.as_str()));
    assert!(second.header("x-ms-session-token").is_some());
}

#[test]
fn a_client_that_wants_little_gets_the_headers_and_an_empty_body() {
    let server = Server::start().with_posts();
    let created = server
        .request("POST", "/dbs/blog/colls/posts/docs", ("docs", "dbs/blog/colls/posts"))
        .header("Prefer", "return=minimal")
        .body(r#"{"id":"p1","postId":"p1"}"#)
        .send();
    assert_eq!((created.status, created.header("content-length"), created.body.len()), (201, Some("0"), 0));
    assert!(created.header("etag").is_some());
    let link = "dbs/blog/colls/posts/docs/p1";
    let delete = |etag: &str| {
        let request = server.request("DELETE", "/dbs/blog/colls/posts/docs/p1", ("docs", link));
        request.header("x-ms-documentdb-partitionkey", r#"["p1"]"#).header("If-Match", etag).send()
    };
    let deleted = delete(created.header("etag").expect("an etag"));
    assert_eq!((deleted.status, deleted.body.len()), (204, 0), "{}", deleted.text());
}

#[test]
fn a_request_that_names_no_partition_key_is_refused() {
    let server = Server::start().with_posts();
    let signed = ("docs", "dbs/blog/colls/posts/docs/p1");
    let answer = server.request("GET", "/dbs/blog/colls/posts/docs/p1", signed).send();
    assert!(answer.error(400, None, "BadRequest").contains("PartitionKey value must be supplied"));
}

#[test]
fn a_container_that_was_replaced_is_400_1024() {
    let server = Server::start().with_posts();
    let answer = server
        .request("GET", "/dbs/blog/colls/posts", ("colls", "dbs/blog/colls/posts"))
        .header("x-ms-cosmos-intended-collection-rid", "XP0mAJ3H-AA=")
        .send();
    answer.error(400, Some("1024"), "BadRequest");
}

#[cfg(unix)]
#[test]
fn a_server_that_is_told_to_stop_ends_in_order_although_a_client_says_nothing() {
    let mut server = Server::start();
    let silent = TcpStream::connect(&server.address).expect("the server listens");
    server.request("GET", "/", ("", "")).send();
    let told = Command::new("kill").args(["-TERM", &server.process.id().to_string()]).status().expect("kill runs");
    assert!(told.success());
    let asked = std::time::Instant::now();
    assert_eq!(server.process.wait().expect("it ends").code(), Some(0));
    assert!(asked.elapsed() < Duration::from_secs(5), "it waited for a client that had asked for nothing");
    drop(silent);
}
