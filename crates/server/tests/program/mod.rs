//! The program as its users meet it: started with arguments, spoken to over sockets, stopped or killed.
//!
//! [`start`] gives a running [`Server`], or the [`Exit`] of one that refused. A [`Client`] is one connection that is kept
//! open; it signs what it sends and tells an answer from a broken connection, which is what a test that kills needs.

#![allow(dead_code)] // every test file uses a part of this

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use jiff::{SignedDuration, Timestamp};
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long an answer may take before a test fails rather than hangs. Scripts have 5 s and a grace.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server of its own for each test; it is killed with the test.
pub struct Server {
    process: Child,
    told: Option<JoinHandle<String>>,
    /// Address and port.
    pub address: String,
    /// The account's key in base64.
    pub key: String,
    /// From the start of the process to its word that it is ready.
    pub ready_after: Duration,
}

/// How a process ended.
#[derive(Debug)]
pub struct Exit {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// All that it wrote to standard error.
    pub told: String,
}

/// Starts the program with `orrery start`, a free port and `arguments`.
pub fn start(arguments: &[&str]) -> Result<Server, Exit> {
    start_at("127.0.0.1:0", arguments)
}

/// Starts the program so that it listens on `listen`.
pub fn start_at(listen: &str, arguments: &[&str]) -> Result<Server, Exit> {
    let begun = Instant::now();
    let mut process = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(["start", "--listen", listen, "--ready-json"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");
    let mut stderr = process.stderr.take().expect("a pipe");
    let told = std::thread::spawn(move || {
        let mut text = Vec::new();
        let _ = stderr.read_to_end(&mut text); // what was read until it broke is what there is
        String::from_utf8_lossy(&text).into_owned()
    });
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("a pipe")).read_line(&mut line).expect("its output is text");
    if line.is_empty() {
        let status = process.wait().expect("it ends");
        return Err(Exit::of(status, told));
    }
    let ready_after = begun.elapsed();
    let ready = parse(line.as_bytes()).expect("the ready line is JSON");
    let text = |name: &str| ready.get(name).and_then(Json::as_str).expect("a member").to_owned();
    let address = text("endpoint_http").trim_start_matches("http://").trim_end_matches('/').to_owned();
    Ok(Server { process, told: Some(told), address, key: text("key"), ready_after })
}

/// Starts the program on a data directory.
pub fn start_on(directory: &Path) -> Result<Server, Exit> {
    start(&["--data-dir", directory.to_str().expect("a path in UTF-8")])
}

impl Exit {
    fn of(status: ExitStatus, told: JoinHandle<String>) -> Self {
        Exit { code: status.code(), told: told.join().expect("standard error was read") }
    }
}

impl Server {
    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(&self.address, &self.key).expect("the server listens")
    }

    /// A bare connection to it, for what no client would send.
    pub fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream
    }

    /// The process.
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// SIGKILL, and the end of the process.
    pub fn kill(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it ends");
    }

    /// SIGTERM, and how the process then ended.
    pub fn stop(mut self) -> Exit {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill exists").success());
        let status = self.process.wait().expect("it ends");
        Exit::of(status, self.told.take().expect("it was not taken before"))
    }

    /// Whether the process still runs.
    pub fn runs(&mut self) -> bool {
        self.process.try_wait().expect("it can be asked").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A request: what is signed follows from the path.
#[derive(Clone, Debug)]
pub struct Request {
    method: &'static str,
    path: String,
    kind: &'static str,
    link: String,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    age: SignedDuration,
}

/// The resource types that a path can end in.
const KINDS: &[&str] = &[
    "dbs",
    "colls",
    "docs",
    "sprocs",
    "triggers",
    "udfs",
    "pkranges",
    "conflicts",
    "offers",
    "users",
    "permissions",
    "clientencryptionkeys",
];

impl Request {
    /// A request for `path`. The signature covers the last type in the path, and the link up to the last id.
    pub fn new(method: &'static str, path: &str) -> Self {
        // What is done to a container is signed as the container.
        let link = path.trim_matches('/').split("/operations/").next().unwrap_or_default();
        let last = |text: &str| KINDS.iter().find(|kind| text.rsplit('/').next() == Some(**kind)).copied();
        let above = |text: &str| text.rsplit_once('/').map_or("", |(above, _)| above).to_owned();
        let (kind, link) = match last(link) {
            // A feed is signed by what owns it.
            Some(kind) => (kind, above(link)),
            None => (last(&above(link)).unwrap_or(""), link.to_owned()),
        };
        Request {
            method,
            path: path.to_owned(),
            kind,
            link,
            headers: Vec::new(),
            body: Vec::new(),
            age: SignedDuration::ZERO,
        }
    }

    /// Signed for a moment so many seconds ago.
    pub fn signed_seconds_ago(mut self, seconds: i64) -> Self {
        self.age = SignedDuration::from_secs(seconds);
        self
    }

    /// Signed for another resource than the path says: its type and its link.
    pub fn signed_as(mut self, kind: &'static str, link: &str) -> Self {
        (self.kind, self.link) = (kind, link.to_owned());
        self
    }

    /// Signed as a path by resource ids is: by the last id of the link alone, in lower case.
    pub fn by_rid(mut self) -> Self {
        self.link = self.link.rsplit('/').next().unwrap_or_default().replace("%3D", "=").to_lowercase();
        self
    }

    /// With a further header.
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// In the logical partition of this key.
    pub fn key(self, key: &str) -> Self {
        let header = Json::Array(vec![key.into()]).to_text();
        self.header("x-ms-documentdb-partitionkey", header)
    }

    /// With a token instead of a signature.
    pub fn token(self, token: &str) -> Self {
        let encoded = percent_encoding::utf8_percent_encode(token, percent_encoding::NON_ALPHANUMERIC).to_string();
        self.header("authorization", encoded)
    }

    /// With a body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// With a further member in the object that is its body.
    pub fn with_member(mut self, name: &str, value: &str) -> Self {
        let Some((_, open)) = self.body.split_last() else { panic!("there is no body to add to") };
        self.body = [open, format!(",\"{name}\":{value}}}").as_bytes()].concat();
        self
    }

    /// A query over all partitions.
    pub fn query(path: &str, text: &str) -> Self {
        Request::new("POST", path)
            .header("Content-Type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .header("x-ms-documentdb-query-enablecrosspartition", "True")
            .body(format!("{{\"query\":{}}}", Json::from(text).to_text()))
    }

    /// The headers, signed for now with `key`: name and value.
    pub fn signed_headers(&self, key: &str) -> Vec<(&'static str, String)> {
        let date =
            jiff::fmt::rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&(Timestamp::now() - self.age));
        let date = date.expect("a date");
        let text = format!("{}\n{}\n{}\n{}\n\n", self.method.to_lowercase(), self.kind, self.link, date.to_lowercase());
        let key = STANDARD.decode(key).expect("base64");
        let mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("a key").chain_update(text).finalize().into_bytes();
        let token = format!("type=master&ver=1.0&sig={}", STANDARD.encode(mac));
        let token = percent_encoding::utf8_percent_encode(&token, percent_encoding::NON_ALPHANUMERIC).to_string();
        let mut headers = vec![("x-ms-date", date), ("x-ms-version", "2020-07-15".into())];
        if self.headers.iter().all(|(name, _)| *name != "authorization") {
            headers.push(("authorization", token));
        }
        headers.extend(self.headers.iter().cloned());
        headers
    }

    /// The bytes that go over the wire.
    pub fn bytes(&self, address: &str, key: &str) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nHost: {address}\r\n", self.method, self.path);
        for (name, value) in self.signed_headers(key) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str(&format!("Content-Length: {}\r\n\r\n", self.body.len()));
        [text.as_bytes(), &self.body].concat()
    }
}

/// An answer, taken apart.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    head: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads one answer and leaves what follows it.
    pub fn read(stream: &mut impl BufRead) -> io::Result<Self> {
        let mut answer = Self::read_head(stream)?;
        let length = answer.header("content-length").map_or(Ok(0), str::parse);
        answer.body.resize(length.map_err(|_| io::ErrorKind::InvalidData)?, 0);
        stream.read_exact(&mut answer.body)?;
        Ok(answer)
    }

    /// Reads an answer that has no body whatever its headers say: that to a HEAD.
    fn read_head(stream: &mut impl BufRead) -> io::Result<Self> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Answer { status, head, body: Vec::new() })
    }

    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().skip(1).find_map(|line| {
            let (n, value) = line.split_once(':')?;
            n.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    pub fn json(&self) -> Json {
        parse(&self.body).expect("the body is JSON")
    }

    /// The status and the sub-status, 0 if there is none.
    pub fn code(&self) -> (u16, u32) {
        (self.status, self.header("x-ms-substatus").map_or(0, |text| text.parse().expect("a number")))
    }

    /// Checks what holds for every error, and gives its message.
    #[track_caller]
    pub fn error(&self, status: u16, sub_status: Option<&str>, code: &str) -> String {
        assert_eq!(self.status, status, "{}", self.text());
        assert_eq!(self.header("x-ms-substatus"), sub_status, "{}", self.text());
        assert_eq!(self.header("content-type"), Some("application/json"));
        assert_eq!(self.header("content-length"), Some(self.body.len().to_string().as_str()));
        assert!(self.header("x-ms-request-charge").is_some());
        let body = self.json();
        assert_eq!(body.get("code").and_then(Json::as_str), Some(code));
        let message = body.get("message").and_then(Json::as_str).expect("a message").to_owned();
        assert!(message.contains(self.header("x-ms-activity-id").expect("an activity id")), "{message}");
        message
    }

    /// The LSN of the session token.
    pub fn lsn(&self) -> u64 {
        let token = self.header("x-ms-session-token").expect("a session token");
        token.rsplit('#').next().and_then(|lsn| lsn.parse().ok()).expect("a session token ends in a number")
    }

    /// The rows of a feed or query.
    pub fn rows(&self) -> Vec<Json> {
        assert_eq!(self.status, 200, "{}", self.text());
        self.json().get("Documents").and_then(Json::as_array).expect("a feed has rows").to_vec()
    }
}

/// One connection that is kept open.
pub struct Client {
    stream: BufReader<TcpStream>,
    address: String,
    key: String,
}

impl Client {
    /// Connects.
    pub fn connect(address: &str, key: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client { stream: BufReader::new(stream), address: address.to_owned(), key: key.to_owned() })
    }

    /// Sends a request and reads the answer. An error means that nobody knows whether the request was carried out.
    pub fn try_call(&mut self, request: &Request) -> io::Result<Answer> {
        self.stream.get_mut().write_all(&request.bytes(&self.address, &self.key))?;
        if request.method == "HEAD" { Answer::read_head(&mut self.stream) } else { Answer::read(&mut self.stream) }
    }

    /// As [`Client::try_call`], for a server that is not going to break.
    pub fn call(&mut self, request: &Request) -> Answer {
        self.try_call(request).expect("the server answers")
    }

    /// Creates what must be creatable.
    pub fn create(&mut self, path: &str, body: &str) {
        let answer = self.call(&Request::new("POST", path).body(body));
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    /// A database `blog` with a container `posts` whose key is `/postId`.
    pub fn make_posts(&mut self) {
        self.create("/dbs", r#"{"id":"blog"}"#);
        let body = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
        self.create("/dbs/blog/colls", body);
    }

    /// A stored procedure in that container.
    pub fn make_procedure(&mut self, id: &str, source: &str) {
        let body = format!("{{\"id\":{},\"body\":{}}}", Json::from(id).to_text(), Json::from(source).to_text());
        self.create("/dbs/blog/colls/posts/sprocs", &body);
    }

    /// All rows that a request yields, page by page, and the last answer.
    pub fn pages(&mut self, request: &Request) -> (Vec<Json>, Answer) {
        let (mut rows, mut next) = (Vec::new(), request.clone());
        loop {
            let answer = self.call(&next);
            rows.extend(answer.rows());
            match answer.header("x-ms-continuation") {
                Some(continuation) => next = request.clone().header("x-ms-continuation", continuation),
                None => return (rows, answer),
            }
        }
    }
}

/// The container's items.
pub const ITEMS: &str = "/dbs/blog/colls/posts/docs";

/// The path of an item.
pub fn item(id: &str) -> String {
    format!("{ITEMS}/{id}")
}

/// A text member of a row.
pub fn text(row: &Json, name: &str) -> String {
    row.get(name).and_then(Json::as_str).unwrap_or_else(|| panic!("no text '{name}' in {}", row.to_text())).to_owned()
}

/// A whole number of a row.
pub fn number(row: &Json, name: &str) -> u64 {
    let value = row.get(name).map(Json::to_text).and_then(|text| text.parse().ok());
    value.unwrap_or_else(|| panic!("no number '{name}' in {}", row.to_text()))
}
