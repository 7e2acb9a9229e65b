//! `orrery blog`: one command serves the blog; other commands find it and act on it.

use crate::program::start;
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// The smallest data set: two users with their posts.
const SCALE: &str = "0.00002";
/// Time limit of a page; a test fails rather than hangs.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A blog for one test; dropping it kills the process.
struct Blog {
    process: Child,
    /// The line that the program printed when the blog was ready.
    ready: Json,
}

/// Returns the command `orrery blog` with arguments.
fn blog_command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.arg("blog").args(arguments).stdin(Stdio::null());
    command
}

/// Runs `orrery blog` with arguments to its end.
fn run(arguments: &[&str]) -> Output {
    blog_command(arguments).output().expect("it can be started")
}

/// Starts a blog with free ports and waits until it is ready.
fn serve(arguments: &[&str]) -> Blog {
    let mut process = blog_command(&["--listen", "127.0.0.1:0", "--ready-json"])
        .args(["--scale", SCALE])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be started");
    let mut line = String::new();
    BufReader::new(process.stdout.take().expect("a pipe"))
        .read_line(&mut line)
        .expect("its output is text");
    let ready = parse(line.as_bytes()).expect("the blog gets ready");
    Blog { process, ready }
}

/// Starts a blog whose server is in the same process.
fn serve_with_server(arguments: &[&str]) -> Blog {
    let ports = ["--database-listen", "127.0.0.1:0", "--admin-listen", "off"];
    serve(&[&ports, arguments].concat())
}

impl Blog {
    fn text(&self, name: &str) -> String {
        let value = self.ready.get(name).and_then(Json::as_str);
        value.expect("the ready line has it").to_owned()
    }

    /// Requests a page and returns the status and the body.
    fn page(&self, path: &str) -> (u16, String) {
        let address = self.text("application");
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).expect("the application listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
        )
        .expect("the request is sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.get(9..12).and_then(|text| text.parse().ok());
        (status.expect("a status"), answer)
    }

    /// Sends SIGTERM and returns the exit code.
    fn stop(mut self) -> Option<i32> {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.expect("kill exists").success());
        self.process.wait().expect("it ends").code()
    }

    /// Sends SIGKILL and waits for the end.
    fn kill(mut self) {
        self.process.kill().expect("it can be killed");
        self.process.wait().expect("it ends");
    }
}

impl Drop for Blog {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn one_command_serves_the_blog_in_three_models_and_stops_cleanly() {
    let blog = serve_with_server(&["--memory", "--model", "v2"]);
    let (status, home) = blog.page("/");
    assert!((300..400).contains(&status), "{home}");
    assert!(home.contains("/v2"), "the home model is V2: {home}");
    for model in ["/v1", "/v2", "/v3"] {
        let (status, page) = blog.page(model);
        assert_eq!(status, 200, "{page}");
        assert!(page.contains("/posts/"), "{model} lists posts");
    }
    assert_eq!(blog.stop(), Some(0));
}

#[test]
fn a_blog_on_disk_is_found_by_its_directory_and_served_as_it_is_after_kill_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = path_text(directory.path());
    let blog = serve_with_server(&["--data-dir", data]);
    assert_eq!(run(&["drift", "--data-dir", data]).status.code(), Some(0));
    blog.kill();

    let blog = serve_with_server(&["--data-dir", data]);
    assert_eq!(blog.page("/v3").0, 200);
    assert_eq!(run(&["drift", "--data-dir", data]).status.code(), Some(0));
    assert_eq!(blog.stop(), Some(0));

    let refused = run(&["drift", "--data-dir", data]);
    assert_eq!(refused.status.code(), Some(2));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        message.contains("no blog runs on the data directory"),
        "{message}"
    );
}

#[test]
fn another_server_keeps_the_data_and_a_migration_moves_its_home() {
    let server = start(&["--memory"]).expect("the server starts");
    let endpoint = format!("http://{}/", server.address);
    let there = [
        "--endpoint",
        endpoint.as_str(),
        "--key",
        server.key.as_str(),
    ];
    let own = ["--model", "v1", "--only", "--throughput", "400"];
    let blog = serve(&[&there[..], &own[..]].concat());
    assert_eq!(blog.page("/v1").0, 200);
    let migrated = run(&[&["migrate", "--to", "v2"], &there[..]].concat());
    assert!(
        migrated.status.success(),
        "{}",
        String::from_utf8_lossy(&migrated.stderr)
    );
    assert_eq!(blog.page("/v2").0, 200);
    assert_eq!(blog.stop(), Some(0));
    let again = run(&[&["migrate", "--to", "v2"], &there[..]].concat());
    let text = String::from_utf8_lossy(&again.stdout).into_owned();
    assert!(text.contains("V2 is the home model already"), "{text}");
}

#[test]
fn a_port_that_an_option_names_is_never_replaced() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let refused = run(&[
        "--memory",
        "--database-listen",
        &address,
        "--admin-listen",
        "off",
    ]);
    assert_eq!(refused.status.code(), Some(1));
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(message.contains("cannot listen on"), "{message}");
    assert!(message.contains("with --database-listen"), "{message}");
}

#[test]
fn options_that_exclude_each_other_are_refused() {
    for arguments in [
        &["--memory", "--data-dir", "d"][..],
        &["--endpoint", "https://db.example"],
        &["--key", "aa"],
        &[
            "--endpoint",
            "http://127.0.0.1:1",
            "--key",
            "aa",
            "--memory",
        ],
        &["--scale", "0"],
        &["--throughput", "399"],
        &["--database", "a/b"],
        &["migrate"],
        &["worker", "--workers", "0"],
    ] {
        let refused = blog_command(arguments).env_remove("ORRERY_KEY").output();
        let refused = refused.expect("it can be started");
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
    }
}
