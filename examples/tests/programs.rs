//! Runs every example to its end and checks its output.

use crate::support::{Server, lines_of};

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
    let server = Server::start(&[]);
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
