//! The commands of the page from one machine to a fleet, as they stand, on ports of their own.

use crate::servers;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

const PAGE: &str = include_str!("../../../docs/how-to/from-one-machine-to-a-fleet.md");
/// The first words of the block that installs PostgreSQL, in whose place the test has a server.
const INSTALL: &str = "sudo apt-get install";

/// Returns the blocks of the page in one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language},norun\n");
    let parts = PAGE.split(begin.as_str()).skip(1);
    parts.filter_map(|part| part.split("```").next()).collect()
}

/// Returns the page's text with the ports of the test. They are free until the commands use them,
/// and other tests and clients take theirs from 32,768 on.
fn with_ports(text: &str, database: u16) -> String {
    let first = 20_000 + (std::process::id() % 10_000) as u16;
    let ports = (first..32_000).filter_map(|port| TcpListener::bind(("127.0.0.1", port)).ok());
    let held: Vec<TcpListener> = ports.take(4).collect();
    assert_eq!(held.len(), 4, "free ports");
    let mut text = text.replace("127.0.0.1:5432", &format!("127.0.0.1:{database}"));
    for (place, listener) in held.iter().enumerate() {
        let port = listener.local_addr().expect("an address").port();
        // A port of the test may have the digits of another one of the page.
        text = text.replace(&format!("127.0.0.1:{}", 8081 + place), &format!("@{port}"));
    }
    text.replace('@', "127.0.0.1:")
}

#[test]
fn the_commands_of_the_page_run_as_they_stand() {
    let database = servers::Server::start(&["-c", "fsync=off"]);
    database.sql("CREATE DATABASE orrery");
    let config = database.config();
    let folder = tempfile::tempdir().expect("a folder");
    let password = config.password_file.expect("a password");
    std::fs::copy(password, folder.path().join("password")).expect("copied");
    let [clusters] = blocks("toml")[..] else {
        panic!("the page has one cluster file");
    };
    let clusters = with_ports(clusters, database.port);
    std::fs::write(folder.path().join("clusters.toml"), clusters).expect("written");

    let commands: Vec<&str> = blocks("sh")
        .into_iter()
        .filter(|block| !block.starts_with(INSTALL))
        .collect();
    assert_eq!(commands.len(), 4);
    // Servers that a failed command leaves behind end with the shell.
    let script = format!(
        "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{}",
        commands.concat()
    );
    let program = Path::new(env!("CARGO_BIN_EXE_orrery"));
    let programs = program.parent().expect("a folder").display().to_string();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap_or_default());
    let output = Command::new("bash")
        .args(["-e", "-c", &with_ports(&script, database.port)])
        .current_dir(folder.path())
        .env("PATH", path)
        .output()
        .expect("it runs");
    let (said, told) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    let logs = ["one", "a", "b"].map(|name| {
        let log = std::fs::read_to_string(folder.path().join(format!("{name}.log")));
        format!("{name}.log:\n{}", log.unwrap_or_default())
    });
    let succeeded = output.status.success();
    assert!(succeeded, "{said}\n{told}\n{}", logs.join("\n"));
    assert!(
        said.contains("are the same in source and target"),
        "{said}\n{told}"
    );
    let rows = ["Hello", "again"].iter().all(|title| said.contains(title));
    assert!(rows, "{said}");
    // The node that is left holds the lease, in its region.
    let last = said.lines().rev().find(|line| line.contains("http://"));
    let last = last.expect("a node");
    assert!(
        last.starts_with('b') && last.contains("East US") && last.contains("yes"),
        "{said}"
    );
}
