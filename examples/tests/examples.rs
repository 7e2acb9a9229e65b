//! Runs every example to its end and checks its output.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use orrery_model::Json;
use orrery_model::json::parse;

/// Runs a program and returns the lines of its output.
fn lines_of(program: &str, arguments: &[&str]) -> Vec<String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    let text = String::from_utf8(output.stdout).expect("its output is text");
    text.lines().map(str::to_owned).collect()
}

/// Returns true if the line is `start`, a number and `RU`.
fn is_charge(line: &str, start: &str) -> bool {
    let number = line
        .strip_prefix(start)
        .and_then(|rest| rest.strip_suffix(" RU"));
    number.is_some_and(|number| number.parse::<f64>().is_ok_and(|charge| charge >= 1.0))
}

fn check_embedded(lines: &[String], action: &str) {
    assert_eq!(lines.len(), 7, "{lines:?}");
    for line in &lines[..3] {
        assert!(is_charge(line, &format!("{action} an item for ")), "{line}");
    }
    assert!(is_charge(&lines[3], "read \"On notes\" for "), "{lines:?}");
    assert_eq!(lines[4], r#"row {"user":"ada","title":"On notes"}"#);
    assert_eq!(lines[5], r#"row {"user":"ada","title":"On engines"}"#);
    assert!(is_charge(&lines[6], "page of 2 rows for "), "{lines:?}");
}

#[test]
fn an_embedded_engine_writes_reads_and_queries() {
    check_embedded(
        &lines_of(env!("CARGO_BIN_EXE_embed-engine"), &[]),
        "created",
    );
}

#[test]
fn an_embedded_engine_finds_its_items_again_in_a_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path in UTF-8");
    let program = env!("CARGO_BIN_EXE_embed-engine");
    check_embedded(&lines_of(program, &[path]), "created");
    check_embedded(&lines_of(program, &[path]), "replaced");
}

#[test]
fn the_engine_runs_on_a_custom_store() {
    let lines = lines_of(env!("CARGO_BIN_EXE_custom-store"), &[]);
    assert_eq!(
        lines,
        [
            "the query returned 14 rows",
            "the store took 100 commits or more",
            "the store holds data: true",
        ]
    );
}

#[test]
fn the_client_creates_reads_and_queries_over_http() {
    let server = Server::start();
    let program = env!("CARGO_BIN_EXE_rust-client");
    let lines = lines_of(program, &[&server.address, &server.key]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(is_charge(&lines[0], "created for "), "{lines:?}");
    assert!(
        is_charge(&lines[1], "read Some(\"On engines\") for "),
        "{lines:?}"
    );
    assert!(
        is_charge(&lines[2], "found [\"On engines\"] for "),
        "{lines:?}"
    );
}

/// A server process in memory on a free port; it ends with the value.
struct Server {
    process: Child,
    address: String,
    key: String,
}

impl Server {
    fn start() -> Server {
        let mut process = Command::new(server_program())
            .args([
                "start",
                "--memory",
                "--listen",
                "127.0.0.1:0",
                "--ready-json",
            ])
            .args(["--admin-listen", "off", "--log-level", "error"])
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
    build.args(["build", "--locked", "--quiet", "--package", "orrery-server"]);
    if directory.ends_with("release") {
        build.arg("--release");
    }
    let status = build.status().expect("cargo starts");
    assert!(status.success(), "the server does not build");
    directory.join(format!("orrery{}", std::env::consts::EXE_SUFFIX))
}
