//! The program as its users meet it: started with arguments, spoken to over sockets, stopped or killed.
//!
//! [`start`] gives a running [`Server`], or the [`Exit`] of one that refused. A [`Client`] is one connection that is kept
//! open; it signs what it sends and tells an answer from a broken connection, which is what a test that kills needs.

#![allow(dead_code, unused_imports)] // every test file uses a part of this

mod manage;
mod message;

pub use manage::Manager;
pub use message::{Answer, Request};

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
    /// Address and port of the management API; empty if there is none.
    pub admin_address: String,
    /// The key of the management API.
    pub admin_key: String,
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

/// A server that keeps everything in memory, with the container `posts`.
pub fn with_posts() -> (Server, Client) {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    (server, client)
}

/// The same with an item `a` whose key is `p1`.
pub fn with_item() -> (Server, Client) {
    let (server, mut client) = with_posts();
    client.create(ITEMS, r#"{"id":"a","postId":"p1"}"#);
    (server, client)
}

/// Starts the program so that it listens on `listen`.
pub fn start_at(listen: &str, arguments: &[&str]) -> Result<Server, Exit> {
    let begun = Instant::now();
    let mut process = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(["start", "--listen", listen, "--ready-json"])
        // A free port, unless the arguments say something else.
        .env("ORRERY_ADMIN_LISTEN", "127.0.0.1:0")
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
    BufReader::new(process.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("its output is text");
    if line.is_empty() {
        let status = process.wait().expect("it ends");
        return Err(Exit::of(status, told));
    }
    let ready_after = begun.elapsed();
    let ready = parse(line.as_bytes()).expect("the ready line is JSON");
    let text = |name: &str| {
        ready
            .get(name)
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let address = |name: &str| {
        text(name)
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned()
    };
    Ok(Server {
        process,
        told: Some(told),
        address: address("endpoint_http"),
        key: text("key"),
        admin_address: address("admin_endpoint"),
        admin_key: text("admin_key"),
        ready_after,
    })
}

/// Starts the program on a data directory.
pub fn start_on(directory: &Path) -> Result<Server, Exit> {
    start(&["--data-dir", directory.to_str().expect("a path in UTF-8")])
}

impl Exit {
    fn of(status: ExitStatus, told: JoinHandle<String>) -> Self {
        Exit {
            code: status.code(),
            told: told.join().expect("standard error was read"),
        }
    }
}

impl Server {
    /// A connection to it.
    pub fn client(&self) -> Client {
        Client::connect(&self.address, &self.key).expect("the server listens")
    }

    /// A connection to its management API that bears the key.
    pub fn manager(&self) -> Manager {
        Manager::connect(&self.admin_address, &self.admin_key)
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
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .expect("kill exists")
                .success()
        );
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
        Ok(Client {
            stream: BufReader::new(stream),
            address: address.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Sends a request and reads the answer. An error means that nobody knows whether the request was carried out.
    pub fn try_call(&mut self, request: &Request) -> io::Result<Answer> {
        self.stream
            .get_mut()
            .write_all(&request.bytes(&self.address, &self.key))?;
        request.read_answer(&mut self.stream)
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
        let body =
            r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
        self.create("/dbs/blog/colls", body);
    }

    /// A stored procedure in that container.
    pub fn make_procedure(&mut self, id: &str, source: &str) {
        let body = format!(
            "{{\"id\":{},\"body\":{}}}",
            Json::from(id).to_text(),
            Json::from(source).to_text()
        );
        self.create("/dbs/blog/colls/posts/sprocs", &body);
    }

    /// The ids of a container's physical partitions.
    pub fn range_ids(&mut self, container: &str) -> Vec<String> {
        let ranges = self
            .call(&Request::new("GET", &format!("{container}/pkranges")))
            .members("PartitionKeyRanges");
        ranges.iter().map(|range| text(range, "id")).collect()
    }

    /// All rows that a request yields, page by page, and the last answer.
    pub fn pages(&mut self, request: &Request) -> (Vec<Json>, Answer) {
        let (mut rows, mut next) = (Vec::new(), request.clone());
        loop {
            let answer = self.call(&next);
            rows.extend(answer.rows());
            match answer.header("x-ms-continuation") {
                Some(continuation) => {
                    next = request.clone().header("x-ms-continuation", continuation)
                }
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
    row.get(name)
        .and_then(Json::as_str)
        .unwrap_or_else(|| panic!("no text '{name}' in {}", row.to_text()))
        .to_owned()
}

/// A whole number of a row.
pub fn number(row: &Json, name: &str) -> u64 {
    let value = row
        .get(name)
        .map(Json::to_text)
        .and_then(|text| text.parse().ok());
    value.unwrap_or_else(|| panic!("no number '{name}' in {}", row.to_text()))
}
