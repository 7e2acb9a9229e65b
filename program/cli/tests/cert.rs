//! `orrery cert`: the certificate of a server reaches its clients.

use crate::program;
use std::process::{Command, Output};

fn cert(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_orrery"))
        .arg("cert")
        .args(arguments)
        .output()
        .expect("it runs")
}

#[test]
fn the_certificate_of_a_running_server_is_that_of_its_data_directory() {
    let folder = tempfile::tempdir().expect("a directory");
    let data = folder.path().to_str().expect("UTF-8");
    let server = program::start(&["--data-dir", data, "--cert-host", "db.test"]).expect("starts");
    let endpoint = format!("https://{}", server.address);
    let stored = cert(&["print", "--data-dir", data]);
    let shown = cert(&["print", "--endpoint", &endpoint]);
    assert!(
        shown.status.success(),
        "{}",
        String::from_utf8_lossy(&shown.stderr)
    );
    assert_eq!(stored.stdout, shown.stdout);
    let facts = String::from_utf8(shown.stderr).expect("UTF-8");
    for name in [
        "localhost",
        "127.0.0.1",
        "::1",
        "host.docker.internal",
        "db.test",
        "SHA-256",
    ] {
        assert!(facts.contains(name), "{name}: {facts}");
    }
}

#[test]
fn a_trust_store_for_java_and_a_dry_installation_change_nothing_else() {
    let server = program::start(&["--memory"]).expect("it starts");
    let endpoint = format!("http://{}", server.address);
    let folder = tempfile::tempdir().expect("a directory");
    let store = folder.path().join("trust.p12");
    let output = store.to_str().expect("UTF-8");
    let written = cert(&["java-keystore", "--endpoint", &endpoint, "--output", output]);
    assert!(
        written.status.success(),
        "{}",
        String::from_utf8_lossy(&written.stderr)
    );
    assert!(store.metadata().expect("a file").len() > 500);
    let dry = cert(&["install", "--dry-run", "--endpoint", &endpoint]);
    let said = String::from_utf8(dry.stderr).expect("UTF-8");
    assert!(
        said.contains("run ") || said.contains("cert export"),
        "{said}"
    );
    let pfx = [
        "export",
        "--format",
        "pfx",
        "--endpoint",
        &endpoint,
        "--output",
        output,
    ];
    let refused = cert(&pfx);
    assert_eq!(refused.status.code(), Some(2));
}
