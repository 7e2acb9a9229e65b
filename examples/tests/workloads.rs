//! Runs `telemetry` and `tenants` to the end. The programs check the facts that they print; the
//! tests compare the output with the one in the documents, except for figures that depend on time.
//!
//! With `ORRERY_BLESS=1` the tests write the output into the documents.

use crate::support::{Server, lines_of, run};
use std::path::Path;

const TELEMETRY: &str = env!("CARGO_BIN_EXE_telemetry");
const TENANTS: &str = env!("CARGO_BIN_EXE_tenants");
/// Lines around the output in a document.
const BEGIN: &str = "```text\n";
const END: &str = "\n```\n";

/// Returns the words of an output without the figures that depend on time (`~12.3`). The width of
/// those figures decides the number of spaces, the rules of tables and the ends of lines.
fn without_times(output: &str) -> Vec<String> {
    let mut words = Vec::new();
    for word in output.split_whitespace() {
        if !word.starts_with("---") {
            words.push(without_time(word));
        }
    }
    words
}

fn without_time(word: &str) -> String {
    let Some(figure) = word.strip_prefix('~') else {
        return word.to_owned();
    };
    let rest = figure.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    format!("~N{rest}")
}

/// Compares the output of a program with the block of its document.
fn check_document(document: &str, output: &[String]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
    let text = std::fs::read_to_string(&path).expect("the document");
    let begin = text.find(BEGIN).expect("the document shows an output") + BEGIN.len();
    let length = text[begin..].find(END).expect("the output ends");
    if std::env::var_os("ORRERY_BLESS").is_some() {
        let output = output.join("\n");
        let (before, after) = (&text[..begin], &text[begin + length..]);
        let text = format!("{before}{}{after}", output.trim_end());
        std::fs::write(&path, text).expect("the document can be written");
        return;
    }
    let shown = without_times(&text[begin..begin + length]);
    let printed = without_times(&output.join(" "));
    let same = shown.iter().zip(&printed).take_while(|(a, b)| a == b);
    let at = same.count();
    assert!(
        shown == printed,
        "{document} shows `{}` and the program prints `{}`",
        shown[at..].join(" "),
        printed[at..].join(" ")
    );
}

/// Returns the timed figure in a column of the row that begins with `start`.
fn figure(lines: &[String], start: &str, column: usize) -> f64 {
    let row = lines
        .iter()
        .find(|line| line.trim_start().starts_with(start));
    let row = row.unwrap_or_else(|| panic!("no row {start} in {lines:?}"));
    let figures: Vec<&str> = row
        .split_whitespace()
        .filter(|word| word.starts_with('~'))
        .collect();
    let figure = figures[column].trim_matches(['~', '%']);
    figure.parse().expect("a figure")
}

/// Returns the lines from a heading to the end.
fn section<'l>(lines: &'l [String], heading: &str) -> &'l [String] {
    let start = lines.iter().position(|line| line.starts_with(heading));
    &lines[start.unwrap_or_else(|| panic!("no section {heading}"))..]
}

#[test]
fn telemetry_runs_on_a_server_of_its_own_and_prints_what_its_document_shows() {
    let lines = lines_of(TELEMETRY, &[]);
    check_document("telemetry/README.md", &lines);
    let load = section(&lines, "5. ");
    // A key has the throughput of one physical partition, 500 RU/s, and at most a second more at
    // the beginning. A slow machine only writes less.
    let accepted = figure(load, "/date", 1);
    assert!(accepted < 800.0, "{accepted} RU/s under one key");
}

#[test]
fn tenants_runs_on_a_named_server_and_prints_what_its_document_shows() {
    let server = Server::start(&["--enforce-throughput", "on"]);
    let endpoint = format!("http://{}", server.address);
    let named = ["--endpoint", &endpoint, "--key", &server.key];
    let lines = lines_of(TENANTS, &named);
    check_document("tenants/README.md", &lines);
    // All requests of the small tenants together cost less than a second of the container.
    let refused = figure(section(&lines, "3. "), "small tenants alone", 0);
    assert_eq!(
        refused, 0.0,
        "percent of the requests without the big tenant"
    );
}

#[test]
fn an_example_leaves_a_database_that_exists_as_it_is() {
    let server = Server::start(&[]);
    lines_of(
        env!("CARGO_BIN_EXE_rust-client"),
        &[&server.address, &server.key],
    );
    let endpoint = format!("http://{}", server.address);
    for _ in 0..2 {
        let arguments = [
            "--endpoint",
            &endpoint,
            "--key",
            &server.key,
            "--database",
            "blog",
        ];
        let output = run(TELEMETRY, &arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{errors}");
        assert!(
            errors.contains("the database 'blog' exists already"),
            "{errors}"
        );
    }
}

#[test]
fn an_endpoint_without_a_key_is_refused() {
    let output = run(TENANTS, &["--endpoint", "http://127.0.0.1:1"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("--key"),
        "{errors}"
    );
}
