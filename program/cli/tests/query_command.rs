//! `orrery query`: rows in each form, costs on standard error, and servers that do not merge.

use crate::program::{self, Server};
use std::fs;
use std::process::{Command, Output};

/// A container of two physical partitions.
const SHOP: &str = r#"{"databases":[{"id":"shop","containers":[
  {"id":"orders","partitionKey":{"paths":["/customer"]},"throughput":{"manual":12000},
   "items":[{"id":"1","customer":"ada","n":1.50},{"id":"2","customer":"日本","n":20},
            {"id":"3","customer":"cy","n":3}]}]}]}"#;

fn start(arguments: &[&str]) -> Server {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("shop.json");
    fs::write(&file, SHOP).expect("a file");
    let init = ["--memory", "--init", file.to_str().expect("UTF-8")];
    program::start(&[&init, arguments].concat()).expect("it starts")
}

fn query(server: &Server, arguments: &[&str]) -> Output {
    let endpoint = format!("http://{}/", server.address);
    Command::new(env!("CARGO_BIN_EXE_orrery"))
        .arg("query")
        .args(arguments)
        .args([
            "--database",
            "shop",
            "--container",
            "orders",
            "--endpoint",
            &endpoint,
        ])
        .env("COLUMNS", "80")
        .output()
        .expect("it runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

const SORTED: &str = "SELECT c.customer, c.n FROM c ORDER BY c.n";

#[test]
fn rows_have_the_asked_form_and_costs_go_to_standard_error() {
    let server = start(&[]);
    let output = query(&server, &[SORTED]);
    let told = text(&output.stderr);
    let expected = "customer    n\n--------  ---\nada       1.5\ncy          3\n日本       20\n";
    assert_eq!(text(&output.stdout), expected, "{told}");
    assert!(
        told.starts_with("3 items, ") && told.contains("2 physical partitions"),
        "{told}"
    );

    let output = query(&server, &[SORTED, "--format", "jsonl", "--max-items", "1"]);
    assert_eq!(text(&output.stdout), "{\"customer\":\"ada\",\"n\":1.5}\n");
    assert!(text(&output.stderr).contains("there may be more items"));
    let output = query(&server, &[SORTED, "--format", "csv"]);
    assert!(text(&output.stdout).starts_with("customer,n\r\nada,1.5\r\n"));
}

#[test]
fn parameters_and_a_partition_key_narrow_a_query() {
    let server = start(&[]);
    let text_of = |arguments: &[&str]| text(&query(&server, arguments).stdout);
    let filtered = "SELECT VALUE c.id FROM c WHERE c.n > @min";
    let found = text_of(&[filtered, "--parameter", "min=5", "--format", "json"]);
    assert_eq!(found, "[\"2\"]\n");
    let key = [
        "SELECT VALUE c.id FROM c",
        "--partition-key",
        "\"cy\"",
        "--format",
        "jsonl",
    ];
    assert_eq!(text_of(&key), "\"3\"\n");
    let wrong = query(&server, &["SELECT 1", "--partition-key", "cy"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("needs quotation marks"));
}

#[test]
fn a_list_parameter_with_in_is_answered_with_a_hint() {
    let server = start(&[]);
    let list = ["--parameter", r#"list=["ada","cy"]"#, "--format", "jsonl"];
    let mistaken = "SELECT VALUE c.id FROM c WHERE c.customer IN (@list)";
    let output = query(&server, &[&[mistaken], &list[..]].concat());
    assert_eq!(text(&output.stdout), "");
    let told = text(&output.stderr);
    let hint = "hint: c.customer IN (@list) compares with the whole array @list: write \
                ARRAY_CONTAINS(@list, c.customer) to look for c.customer among its elements.\n";
    assert!(told.contains(hint), "{told}");

    let meant = "SELECT VALUE c.id FROM c WHERE ARRAY_CONTAINS(@list, c.customer)";
    let output = query(&server, &[&[meant], &list[..]].concat());
    assert_eq!(text(&output.stdout).lines().count(), 2);
    assert!(!text(&output.stderr).contains("hint"));
}

#[test]
fn an_explanation_has_metrics_index_and_plan() {
    let output = query(&start(&[]), &["SELECT * FROM c WHERE c.n = 3", "--explain"]);
    let told = text(&output.stderr);
    for part in [
        "query metrics, page 1:",
        "retrieved document count: ",
        "index, page",
        "plan, page",
    ] {
        assert!(told.contains(part), "{told}");
    }
}

#[test]
fn a_server_that_does_not_merge_is_asked_partition_by_partition() {
    let server = start(&["--cross-partition-queries", "refuse"]);
    let output = query(&server, &["SELECT c.id FROM c", "--format", "jsonl"]);
    assert_eq!(
        text(&output.stdout).lines().count(),
        3,
        "{}",
        text(&output.stderr)
    );

    // Rows in any order are counted by the client, over both partitions.
    for (limited, expected) in [
        ("SELECT TOP 2 c.id FROM c", 2),
        ("SELECT TOP 0 c.id FROM c", 0),
        ("SELECT TOP 9 c.id FROM c", 3),
        ("SELECT c.id FROM c OFFSET 1 LIMIT 1", 1),
        ("SELECT c.id FROM c OFFSET 2 LIMIT 5", 1),
        ("SELECT c.id FROM c OFFSET 3 LIMIT 5", 0),
    ] {
        for rows in [&["--all"][..], &["--max-items", "50"]] {
            let arguments = [&[limited, "--format", "jsonl"], rows].concat();
            let output = query(&server, &arguments);
            let told = text(&output.stderr);
            let count = text(&output.stdout).lines().count();
            assert_eq!(count, expected, "{limited}: {told}");
            assert!(!told.contains("there may be more"), "{limited}: {told}");
        }
    }
    let output = query(&server, &[SORTED]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.contains("needs one for ORDER BY"), "{told}");
}

#[test]
fn a_wrong_query_is_refused_in_the_servers_words_with_its_place() {
    let server = start(&[]);
    let output = query(&server, &["SELECT c.id\nFORM c"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.starts_with("orrery: Syntax error"), "{told}");
    assert!(told.contains("(SC1001)"), "{told}");
    assert!(told.ends_with("\n  FORM c\n       ^\n"), "{told}");
    assert!(!told.contains('{'), "{told}");

    let output = query(&server, &["SELECT * FROM c", "--key", "a2V5"]);
    let told = text(&output.stderr);
    assert!(
        told.contains("name the key of this account: --key-file FILE"),
        "{told}"
    );
}

#[test]
fn a_server_that_is_not_there_is_told_with_the_command_that_starts_one() {
    let mut server = start(&[]);
    server.kill();
    let output = query(&server, &["SELECT * FROM c"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    let start = format!(
        "orrery: no server answers at http://{}/; start one with `orrery start`, or name another \
         with --endpoint (",
        server.address
    );
    assert!(told.starts_with(&start), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn a_key_is_given_by_an_option_or_a_file_and_not_by_both() {
    let server = start(&[]);
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("account.key");
    fs::write(&file, &server.key).expect("a file");
    let file = file.to_str().expect("UTF-8");
    for key in [["--key", &server.key], ["--key-file", file]] {
        let output = query(&server, &[&["SELECT VALUE 1"][..], &key].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    let both = ["SELECT 1", "--key", "a2V5", "--key-file", file];
    assert_eq!(query(&server, &both).status.code(), Some(2));
}

#[test]
fn a_variable_that_no_command_reads_is_told_with_the_name_that_was_meant() {
    let output = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(["config", "show"])
        .env("ORRERY_DATADIR", "secret")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .output()
        .expect("it runs");
    assert!(output.status.success());
    let told = text(&output.stderr);
    let expected = "orrery: the variable ORRERY_DATADIR has no effect, because no command reads \
                    it; did you mean ORRERY_DATA_DIR?";
    assert!(
        told.contains(expected) && !told.contains("secret"),
        "{told}"
    );

    let variables = [("ORRERY_SPINN", "1")];
    let server = program::start_with_variables(&["--memory"], &variables).expect("it starts");
    let log = server.stop().stderr;
    assert!(log.contains("did you mean ORRERY_SPIN?"), "{log}");
}
