//! `orrery shell`: golden scripts of piped sessions, exit codes, and a session in a terminal.
//!
//! A golden script in `shell/` has the input, and behind the line `==== ` what the session wrote:
//! first standard output, then standard error, then the exit code. Times are written as `N ms`.
//! `ORRERY_GOLDEN=write` writes the second part.

#[cfg(target_os = "linux")]
#[path = "shell/terminal.rs"]
mod terminal;

use crate::program::{self, Server};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A container of two physical partitions.
const SHOP: &str = r#"{"databases":[{"id":"shop","containers":[
  {"id":"orders","partitionKey":{"paths":["/customer"]},"throughput":{"manual":12000},
   "items":[{"id":"1","customer":"ada","n":1.50},{"id":"2","customer":"日本","n":20},
            {"id":"3","customer":"cy","n":12345678901234567890123},
            {"id":"3","customer":"ada","address":{"city":"London"}}]}]}]}"#;

pub(crate) fn start() -> Server {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("shop.json");
    fs::write(&file, SHOP).expect("a file");
    let init = ["--memory", "--init", file.to_str().expect("UTF-8")];
    program::start(&init).expect("it starts")
}

/// Returns the command `orrery shell` on a server, with no variable of the environment that names
/// an account.
pub(crate) fn shell(server: &Server, folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
    command.args([
        "shell",
        "--endpoint",
        &format!("http://{}/", server.address),
    ]);
    for name in [
        "ORRERY_ENDPOINT",
        "ORRERY_KEY",
        "ORRERY_CONNECTION_STRING",
        "ORRERY_GOLDEN",
    ] {
        command.env_remove(name);
    }
    command
        .env("COLUMNS", "80")
        .env("XDG_STATE_HOME", folder)
        .current_dir(folder);
    command
}

fn piped(command: &mut Command, input: &str) -> Output {
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = process.stdin.take().expect("a pipe");
    // A session that ended at an error reads no further.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    process.wait_with_output().expect("it ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Replaces durations by `N ms` and the address of the server, and drops system properties.
fn stable(text: &str, server: &Server) -> String {
    let text = text.replace(&server.address, "HOST").replace("\r\n", "\n");
    // The properties that the server adds differ from run to run.
    let lines = text.lines().filter(|line| !line.starts_with("  \"_"));
    let text: String = lines
        .map(|line| match line.split_once(",\"_rid\"") {
            Some((own, _)) => format!("{own}}}\n"),
            None => format!("{line}\n"),
        })
        .collect();
    let words = text.split_inclusive(&[' ', '\n']).collect::<Vec<_>>();
    let mut out = String::new();
    for (at, word) in words.iter().enumerate() {
        let is_time = words
            .get(at + 1)
            .is_some_and(|next| next.trim_end() == "ms" || next.starts_with("ms,"));
        match is_time && word.trim_end().parse::<f64>().is_ok() {
            true => out.push_str("N "),
            false => out.push_str(word),
        }
    }
    out
}

/// Runs a golden script with arguments, and compares or writes its second part.
fn golden(name: &str, arguments: &[&str]) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/shell/{name}.txt"));
    let script = fs::read_to_string(&file).expect("a golden script");
    let (input, expected) = script.split_once("\n====\n").unwrap_or((&script, ""));
    let server = start();
    let folder = tempfile::tempdir().expect("a directory");
    let output = piped(shell(&server, folder.path()).args(arguments), input);
    let seen = format!(
        "{}---- standard error\n{}---- exit code {}\n",
        stable(&text(&output.stdout), &server),
        stable(&text(&output.stderr), &server),
        output.status.code().unwrap_or(-1)
    );
    if std::env::var("ORRERY_GOLDEN").is_ok_and(|mode| mode == "write") {
        fs::write(&file, format!("{}\n====\n{seen}", input.trim_end())).expect("a file");
    } else {
        assert_eq!(seen, expected, "{name}");
    }
}

#[test]
fn queries_have_their_forms_costs_and_pages() {
    golden("queries", &["--database", "shop", "--container", "orders"]);
}

#[test]
fn places_are_listed_created_and_deleted() {
    golden("places", &["--yes", "--no-timing"]);
}

#[test]
fn items_are_read_written_and_deleted() {
    golden(
        "items",
        &["--yes", "--database", "shop", "--container", "orders"],
    );
}

#[test]
fn a_script_ends_at_its_first_failure() {
    golden("failure", &["--database", "shop", "--container", "orders"]);
}

#[test]
fn a_script_goes_on_if_it_is_told_to() {
    let arguments = ["--continue-on-error", "--no-timing", "--database", "shop"];
    golden("continue", &arguments);
}

#[test]
fn statements_of_the_command_line_run_in_their_order() {
    let (server, folder) = (start(), tempfile::tempdir().expect("a directory"));
    let mut command = shell(&server, folder.path());
    let statements = [
        "--database",
        "shop",
        "--container",
        "orders",
        "--no-timing",
        "--format",
        "jsonl",
        "-c",
        "SELECT VALUE c.n FROM c WHERE c.id = '1'; .pwd",
        "-c",
        ".get 1 ada",
    ];
    let output = command.args(statements).output().expect("it runs");
    let seen = stable(&text(&output.stdout), &server);
    assert!(
        seen.starts_with("1.5\nhttp://HOST/\n/shop/orders\n{\"id\":\"1\""),
        "{seen}"
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));

    let mut command = shell(&server, folder.path());
    let output = command.args(["-c", ".pwd", "-c", "nonsense"]).output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(
        told.contains("statement 2: no command has the name 'nonsense'"),
        "{told}"
    );
}

#[test]
fn files_are_imported_and_exported() {
    let (server, folder) = (start(), tempfile::tempdir().expect("a directory"));
    let items = "{\"id\":\"x\",\"customer\":\"eve\",\"n\":9007199254740993.10}\n";
    fs::write(folder.path().join("in.jsonl"), items).expect("a file");
    let input = ".use shop orders\n.import in.jsonl\n.import in.jsonl upsert\n.export out.jsonl\n\
                 .export out.jsonl\n";
    let output = piped(&mut shell(&server, folder.path()), input);
    let told = text(&output.stderr);
    assert!(
        told.contains("line 5: out.jsonl exists: name another file"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(1));
    let exported = fs::read_to_string(folder.path().join("out.jsonl")).expect("the export");
    assert_eq!(exported.lines().count(), 5, "{exported}");
    assert!(exported.contains("9007199254740993.10"), "{exported}");
}

#[test]
fn an_account_that_does_not_answer_is_told_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a directory");
    let server = start();
    let mut command = shell(&server, folder.path());
    drop(server);
    let output = piped(&mut command, "SELECT 1;\n");
    let told = text(&output.stderr);
    assert!(
        told.contains("start one with `orrery start`, or name another with --endpoint or .connect"),
        "{told}"
    );
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_wrong_key_is_refused_with_the_remedy_and_is_not_shown() {
    let (server, folder) = (start(), tempfile::tempdir().expect("a directory"));
    let string = format!(
        "AccountEndpoint=http://{}/;AccountKey=c2VjcmV0LXNlY3JldA==;",
        server.address
    );
    fs::write(folder.path().join("account.txt"), string).expect("a file");
    let output = piped(
        &mut shell(&server, folder.path()),
        ".connect @account.txt\n",
    );
    let told = text(&output.stderr);
    assert!(
        told.contains("401") && told.contains("--key-file FILE"),
        "{told}"
    );
    assert!(!told.contains("c2Vj"), "{told}");
}
