//! `orrery bench blog`: its request units are the same in every run and close to those of the
//! article.

use crate::program::{self, Request};
use orrery_model::Json;
use orrery_model::json::parse;
use std::process::{Command, Stdio};
use std::thread;

/// Scale of the smallest data set: two users with their posts. It has too few posts for Q6, which
/// lists a hundred; the other cells do not depend on the size.
const SCALE: &str = "0.00002";

/// Times that each request is measured: all of them cost the same, or the run fails.
const RUNS: &str = "5";

/// Cells that the article did not measure again for its later models.
const CARRIED_OVER: [(&str, &str); 4] = [("C1", "V2"), ("C1", "V3"), ("C2", "V2"), ("C2", "V3")];

/// Runs the workload and returns its cells: request, model, hundredths of a request unit, the
/// article's figure, and the number of partitions read.
fn cells() -> Vec<(String, String, i64, i64, i64)> {
    let run = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args([
            "bench",
            "blog",
            "--profile",
            "y2019",
            "--scale",
            SCALE,
            "--seed",
            "7",
            "--runs",
            RUNS,
            "--format",
            "json",
        ])
        .stdin(Stdio::null())
        .output()
        .expect("the program can be started");
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stderr)
    );
    let table = parse(&run.stdout).expect("JSON");
    let cell = |row: &Json| {
        let text = |name: &str| {
            row.get(name)
                .and_then(Json::as_str)
                .expect("a text")
                .to_owned()
        };
        let hundredths = |name: &str| {
            (row.get(name).and_then(Json::as_f64).expect("a number") * 100.0).round() as i64
        };
        let partitions = row
            .get("partitions")
            .and_then(Json::as_i64)
            .expect("a count");
        (
            text("request"),
            text("model"),
            hundredths("ru"),
            hundredths("article_ru"),
            partitions,
        )
    };
    table.as_array().expect("rows").iter().map(cell).collect()
}

#[test]
fn two_runs_of_one_seed_cost_the_same_in_every_cell_and_what_the_article_measured() {
    let other = thread::spawn(cells);
    let first = cells();
    assert_eq!(first.len(), 30);
    assert_eq!(first, other.join().expect("the other run ends"));
    for (request, model, ru, article, _) in &first {
        let again = request != "Q6" && !CARRIED_OVER.contains(&(request.as_str(), model.as_str()));
        let far = (ru - article).abs() * 10 > *article;
        assert!(
            !(again && far),
            "{request} of {model} costs {ru}, and {article} in the article"
        );
    }
}

/// Runs `orrery bench blog` with the smallest data set of one model in a directory of the user.
fn run_in(directory: &std::path::Path, arguments: &[&str]) -> (bool, String, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(["bench", "blog", "--scale", SCALE, "--runs", RUNS])
        .args([
            "--models",
            "v3",
            "--through-pipelines",
            "--format",
            "json",
            "--data-dir",
        ])
        .arg(directory)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the program can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (run.status.success(), text(run.stdout), text(run.stderr))
}

#[test]
fn writes_are_measured_with_their_pipelines_and_a_resumed_run_repeats_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let (succeeded, first, log) = run_in(directory.path(), &["--resume"]);
    assert!(succeeded, "{log}");
    let table = parse(first.as_bytes()).expect("JSON");
    let rows = table.as_array().expect("rows");
    let row = |name: &str| {
        let row = rows.iter().find(|row| {
            let write = row.get("write").and_then(Json::as_str);
            write == Some(name)
        });
        row.unwrap_or_else(|| panic!("no row {name} in {first}"))
    };
    let ru = |name: &str| {
        row(name)
            .get("ru")
            .and_then(Json::as_f64)
            .expect("a number")
    };
    let runs = row("C2").get("runs").and_then(Json::as_i64);
    assert_eq!(runs.map(|runs| runs.to_string()).as_deref(), Some(RUNS));
    // The parts of a write make up its sum, and the write alone costs as much as in the table.
    let parts = ["C2", "+ copyToUsers", "+ copyToFeed", "+ change feed"].map(ru);
    let sum = ru("C2 with its pipelines");
    assert!((parts.iter().sum::<f64>() - sum).abs() < 0.05, "{first}");
    assert!((parts[0] - 9.9).abs() < 0.005, "{first}");
    assert!(ru("C1 edit with its pipelines") > ru("C1 edit"), "{first}");

    let (succeeded, second, log) = run_in(directory.path(), &["--resume"]);
    assert!(succeeded, "{log}");
    assert_eq!(first, second, "the figures are those of the first run");
}

#[test]
fn a_running_server_loses_no_database_unless_yes_says_so() {
    let server = program::start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog-v3"}"#);
    client.create(
        "/dbs/blog-v3/colls",
        r#"{"id":"mine","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#,
    );
    let bench = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_orrery"))
            .args(["bench", "blog", "--scale", SCALE, "--runs", RUNS])
            .args([
                "--models",
                "v3",
                "--endpoint",
                &format!("http://{}", server.address),
            ])
            .env("ORRERY_KEY", &server.key)
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("the program can be started")
    };
    let mut has_mine = || {
        let mine = Request::new("GET", "/dbs/blog-v3/colls/mine");
        client.call(&mine).status
    };

    // Without a terminal there is nothing to ask on, so the run is refused and says its remedy.
    let refused = bench(&[]);
    let message = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(
        message.contains("blog-v3") && message.contains("--yes"),
        "{message}"
    );
    assert_eq!(has_mine(), 200);

    let allowed = bench(&["--yes"]);
    let message = String::from_utf8_lossy(&allowed.stderr);
    assert!(allowed.status.success(), "{message}");
    assert_eq!(has_mine(), 404);
    let table = String::from_utf8_lossy(&allowed.stdout);
    let is_in_words = table
        .lines()
        .any(|line| line.starts_with("C1 create a user"));
    assert!(is_in_words, "{table}");
}
