//! Programs under test, and the server that some of them use.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use orrery_model::Json;
use orrery_model::json::parse;

/// Runs a program and returns the lines of its output.
pub(crate) fn lines_of(program: &str, arguments: &[&str]) -> Vec<String> {
    let output = run(program, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    let text = String::from_utf8(output.stdout).expect("its output is text");
    text.lines().map(str::to_owned).collect()
}

/// Runs a program to its end. A program that starts a server by itself finds it in `ORRERY_BIN`.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program)
        .args(arguments)
        .env("ORRERY_BIN", server_program())
        .env_remove("ORRERY_KEY")
        .output()
        .expect("the program starts")
}

/// A server process in memory on a free port; it ends with the value.
pub(crate) struct Server {
    process: Child,
    /// Host and port.
    pub(crate) address: String,
    /// The master key.
    pub(crate) key: String,
}

impl Server {
    /// Starts a server with further arguments.
    pub(crate) fn start(arguments: &[&str]) -> Server {
        let mut process = Command::new(server_program())
            .args([
                "start",
                "--memory",
                "--listen",
                "127.0.0.1:0",
                "--ready-json",
            ])
            .args(["--admin-listen", "off", "--log-level", "error"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        // The one line that the server writes to its output comes when it is ready.
        let mut ready = String::new();
        let output = process.stdout.take().expect("a pipe");
        BufReader::new(output)
            .read_line(&mut ready)
            .expect("its output is text");
        let ready = parse(ready.as_bytes()).expect("the line is JSON");
        let member = |name: &str| {
            let text = ready.get(name).and_then(Json::as_str);
            text.expect("the line has the member").to_owned()
        };
        let address = member("endpoint_http");
        let address = address.trim_start_matches("http://").trim_end_matches('/');
        Server {
            process,
            address: address.to_owned(),
            key: member("key"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that has ended already cannot be killed; both calls fail then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the server program: the one that `ORRERY_BIN` names, or else a fresh build, which cargo
/// puts beside the examples.
fn server_program() -> PathBuf {
    if let Some(named) = std::env::var_os("ORRERY_BIN") {
        return named.into();
    }
    let directory = Path::new(env!("CARGO_BIN_EXE_rust-client"))
        .parent()
        .expect("a directory");
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--locked", "--quiet", "--package", "orrery-cli"]);
    // Cargo has set these for the test, and the build of some libraries depends on them.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            build.env_remove(&name);
        }
    }
    if directory.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().expect("cargo starts");
    assert!(status.success(), "the server does not build");
    directory.join(format!("orrery{}", std::env::consts::EXE_SUFFIX))
}
