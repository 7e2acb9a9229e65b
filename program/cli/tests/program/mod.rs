//! The program under test: started with arguments, used over sockets, stopped or killed.
//!
//! [`start`] returns a running [`Server`], or the [`Exit`] of a server that refused to start. A
//! [`Client`] is a connection that stays open. It signs its requests and distinguishes a response
//! from a broken connection, which tests that kill the server need.

mod figures;
pub(crate) mod frames;
mod item_keys;
mod manage;
mod message;

pub(crate) use figures::{setting, show};
pub(crate) use manage::Manager;
pub(crate) use message::{Answer, Request};

use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time limit of a response; a test fails rather than hangs. Scripts have 5 s and a grace period.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A server for one test; dropping it kills the process.
pub(crate) struct Server {
    process: Child,
    stderr: Option<JoinHandle<String>>,
    /// Address and port for clients.
    pub address: String,
    /// Primary key of the account in base64.
    pub key: String,
    /// Address and port of the management API; empty if it is off.
    pub admin_address: String,
    /// Key of the management API; empty if it is off.
    pub admin_key: String,
    /// Address of the console that signs one browser in; empty if the console is off.
    pub console: String,
    /// Time from the start of the process until the server was ready.
    pub ready_after: Duration,
}

/// The end of a process.
#[derive(Debug)]
pub(crate) struct Exit {
    /// Exit code; `None` if a signal ended the process.
    pub code: Option<i32>,
    /// Text on standard error.
    pub stderr: String,
}

/// Runs `orrery start` with a free port and `arguments`.
pub(crate) fn start(arguments: &[&str]) -> Result<Server, Exit> {
    start_at("127.0.0.1:0", arguments)
}

/// Starts a server that keeps its data in memory and creates the container `posts`.
pub(crate) fn start_with_posts() -> (Server, Client) {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    (server, client)
}

/// Does the same as [`start_with_posts`] and creates the item `a` with the partition key `p1`.
pub(crate) fn start_with_item() -> (Server, Client) {
    let (server, mut client) = start_with_posts();
    client.create(ITEMS, r#"{"id":"a","postId":"p1"}"#);
    (server, client)
}

/// Runs `orrery start` with the listen address `listen` and `arguments`.
pub(crate) fn start_at(listen: &str, arguments: &[&str]) -> Result<Server, Exit> {
    launch(
        Command::new(env!("CARGO_BIN_EXE_orrery")),
        listen,
        arguments,
    )
}

/// Runs `orrery start` in a process that may open at most `limit` files.
pub(crate) fn start_with_open_files(limit: usize, arguments: &[&str]) -> Result<Server, Exit> {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -n {limit}; exec \"$0\" \"$@\"")]);
    shell.arg(env!("CARGO_BIN_EXE_orrery"));
    launch(shell, "127.0.0.1:0", arguments)
}

/// Runs `orrery start` with a free port, and with variables of the environment.
pub(crate) fn start_with_variables(
    arguments: &[&str],
    variables: &[(&str, &str)],
) -> Result<Server, Exit> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_orrery"));
    program.envs(variables.iter().copied());
    launch(program, "127.0.0.1:0", arguments)
}

/// Runs a program with the arguments of `orrery start`.
fn launch(mut program: Command, listen: &str, arguments: &[&str]) -> Result<Server, Exit> {
    let started = Instant::now();
    let mut process = program
        .args(["start", "--listen", listen, "--ready-json"])
        // A free port for the management API too, unless the arguments set one.
        .env("ORRERY_ADMIN_LISTEN", "127.0.0.1:0")
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program can be started");

    // Standard error is read all the time: a full pipe would block the server.
    let mut pipe = process.stderr.take().expect("a pipe");
    let stderr = std::thread::spawn(move || {
        let mut text = Vec::new();
        // After an error the text read so far is kept.
        let _ = pipe.read_to_end(&mut text);
        String::from_utf8_lossy(&text).into_owned()
    });

    // A server that refuses to start ends without a line on standard output.
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("its output is text");
    if line.is_empty() {
        let status = process.wait().expect("it ends");
        return Err(Exit::of(status, stderr));
    }
    let ready_after = started.elapsed();

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
        stderr: Some(stderr),
        address: address("endpoint_http"),
        key: text("key"),
        admin_address: address("admin_endpoint"),
        admin_key: text("admin_key"),
        console: text("console"),
        ready_after,
    })
}

/// Runs `orrery repair` on a data directory. Returns the exit code and all that it printed.
pub(crate) fn repair(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    run_on("repair", directory, arguments)
}

/// Runs a command on a data directory. Returns its exit code and what it printed.
pub(crate) fn run_on(command: &str, directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let directory = directory.to_str().expect("a path in UTF-8");
    run(&[&[command, "--data-dir", directory], arguments].concat())
}

/// Runs the program. Returns its exit code and what it printed.
pub(crate) fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(arguments)
        .output()
        .expect("it runs");
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).expect("UTF-8");
    (output.status.code(), printed)
}

/// Runs `orrery start` with a data directory.
pub(crate) fn start_on(directory: &Path) -> Result<Server, Exit> {
    start(&["--data-dir", directory.to_str().expect("a path in UTF-8")])
}

impl Exit {
    fn of(status: ExitStatus, stderr: JoinHandle<String>) -> Self {
        Exit {
            code: status.code(),
            stderr: stderr.join().expect("standard error was read"),
        }
    }
}

impl Server {
    /// Returns the sorted ids of all items, as a query over all partitions shows them.
    pub(crate) fn item_ids(&self) -> Vec<String> {
        let query = Request::query(ITEMS, "SELECT c.id FROM c")
            .header("x-ms-documentdb-query-enablecrosspartition", "true");
        let (rows, _) = self.client().pages(&query);
        let mut ids: Vec<String> = rows.iter().map(|row| text(row, "id")).collect();
        ids.sort();
        ids
    }

    /// Opens a connection that signs with the primary key.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.address, &self.key).expect("the server listens")
    }

    /// Opens a connection to the management API that sends the key.
    pub(crate) fn manager(&self) -> Manager {
        Manager::connect(&self.admin_address, &self.admin_key)
    }

    /// Opens a connection without a client, for bytes that no client would send.
    pub(crate) fn stream(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("the server listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        stream
    }

    /// Returns the id of the process.
    pub(crate) fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// Sends SIGKILL and waits for the end of the process.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it ends");
    }

    /// Sends SIGTERM and returns the end of the process.
    pub(crate) fn stop(self) -> Exit {
        let id = self.process.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-TERM", &id])
                .status()
                .expect("kill exists")
                .success()
        );
        self.wait()
    }

    /// Returns the end of a process that ends by itself.
    pub(crate) fn wait(mut self) -> Exit {
        let status = self.process.wait().expect("it ends");
        Exit::of(status, self.stderr.take().expect("it was not taken before"))
    }

    /// Returns true if the process has not ended.
    pub(crate) fn is_running(&mut self) -> bool {
        self.process.try_wait().expect("it can be asked").is_none()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection that stays open.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    address: String,
    key: String,
}

impl Client {
    /// Opens a connection.
    pub(crate) fn connect(address: &str, key: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        Ok(Client {
            stream: BufReader::new(stream),
            address: address.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Returns the client with a longer time limit, for a request that waits for hundreds of large
    /// writes of other clients.
    pub(crate) fn with_patience(self) -> Client {
        let limit = Some(10 * TIMEOUT);
        self.stream
            .get_ref()
            .set_read_timeout(limit)
            .expect("a socket");
        self
    }

    /// Sends a request and returns the response. After an error it is not known whether the request
    /// was carried out.
    pub(crate) fn try_call(&mut self, request: &Request) -> io::Result<Answer> {
        self.stream
            .get_mut()
            .write_all(&request.bytes(&self.address, &self.key))?;
        request.read_answer(&mut self.stream)
    }

    /// Sends a request to a server that must answer, and returns the response.
    pub(crate) fn call(&mut self, request: &Request) -> Answer {
        self.try_call(request).expect("the server answers")
    }

    /// Creates a resource; the request must succeed.
    pub(crate) fn create(&mut self, path: &str, body: &str) {
        let answer = self.call(&Request::new("POST", path).body(body));
        assert_eq!(answer.status, 201, "{}", answer.text());
    }

    /// Creates a database `blog` with a container `posts` whose partition key is `/postId`.
    pub(crate) fn make_posts(&mut self) {
        self.create("/dbs", r#"{"id":"blog"}"#);
        let body =
            r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
        self.create("/dbs/blog/colls", body);
    }

    /// Creates a stored procedure in the container `posts`.
    pub(crate) fn make_procedure(&mut self, id: &str, source: &str) {
        let body = format!(
            "{{\"id\":{},\"body\":{}}}",
            Json::from(id).to_text(),
            Json::from(source).to_text()
        );
        self.create("/dbs/blog/colls/posts/sprocs", &body);
    }

    /// Returns the partition key range ids of a container.
    pub(crate) fn range_ids(&mut self, container: &str) -> Vec<String> {
        let ranges = self
            .call(&Request::new("GET", &format!("{container}/pkranges")))
            .members("PartitionKeyRanges");
        ranges.iter().map(|range| text(range, "id")).collect()
    }

    /// Reads all pages of a request; returns all rows and the last response.
    pub(crate) fn pages(&mut self, request: &Request) -> (Vec<Json>, Answer) {
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

/// Path of the items of the container `posts`.
pub(crate) const ITEMS: &str = "/dbs/blog/colls/posts/docs";

/// Returns the path of an item.
pub(crate) fn item(id: &str) -> String {
    format!("{ITEMS}/{id}")
}

/// Returns a string member of a row.
pub(crate) fn text(row: &Json, name: &str) -> String {
    row.get(name)
        .and_then(Json::as_str)
        .unwrap_or_else(|| panic!("no text '{name}' in {}", row.to_text()))
        .to_owned()
}

/// Returns an integer member of a row.
pub(crate) fn number(row: &Json, name: &str) -> u64 {
    let value = row
        .get(name)
        .map(Json::to_text)
        .and_then(|text| text.parse().ok());
    value.unwrap_or_else(|| panic!("no number '{name}' in {}", row.to_text()))
}
