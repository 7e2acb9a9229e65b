//! `orrery import` and `orrery export` with a server: what goes in comes out, whatever is refused
//! is told, and an interruption loses and doubles nothing.

use crate::program::{Request, Server, start};
use orrery_test_wait::wait_until;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A server and a folder for files.
struct World {
    server: Server,
    folder: TempDir,
}

impl World {
    fn new(arguments: &[&str]) -> Self {
        Self {
            server: start(arguments).expect("it starts"),
            folder: tempfile::tempdir().expect("a folder"),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file and returns its name in the folder.
    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), content).expect("it is written");
        name.to_owned()
    }

    /// Returns a command in the folder, with the options that name the container `shop/orders`.
    fn command(&self, verb: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_orrery"));
        command
            .arg(verb)
            .args(["--database", "shop", "--container", "orders"])
            .args(["--endpoint", &format!("http://{}", self.server.address)])
            .args(arguments)
            .current_dir(self.folder.path())
            .env("ORRERY_KEY", &self.server.key)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn run(&self, verb: &str, arguments: &[&str]) -> Output {
        self.command(verb, arguments).output().expect("it runs")
    }

    /// Imports into a container with the partition key `/pk`, which is created.
    fn import(&self, arguments: &[&str]) -> Output {
        let mut all = vec!["--create-container", "--partition-key", "/pk"];
        all.extend(arguments);
        self.run("import", &all)
    }

    /// Returns the lines of an export to standard output.
    fn exported(&self) -> BTreeSet<String> {
        let output = self.run("export", &["--output", "-"]);
        assert!(output.status.success(), "{}", told(&output));
        let text = String::from_utf8(output.stdout).expect("text");
        let lines: BTreeSet<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), text.lines().count(), "no line stands twice");
        lines
    }
}

fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn item(n: usize) -> String {
    format!(
        r#"{{"id":"i{n}","pk":"p{}","text":"{}"}}"#,
        n % 50,
        "x".repeat(100)
    )
}

fn lines(items: impl IntoIterator<Item = String>) -> String {
    items.into_iter().map(|item| item + "\n").collect()
}

#[test]
fn items_come_out_as_they_went_in_with_all_digits() {
    let world = World::new(&["--memory"]);
    let mut items: Vec<String> = (0..500).map(item).collect();
    items.push(r#"{"id":"n","pk":"é","n":9007199254740993,"m":1.10}"#.into());
    let name = world.file("items.jsonl", lines(items.clone()));
    let output = world.import(&[&name]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(
        told(&output).contains("501 records, 501 created"),
        "{}",
        told(&output)
    );
    assert_eq!(world.exported(), items.iter().cloned().collect());

    // A second import is refused item by item, unless existing items are replaced or kept.
    let output = world.import(&[&name, "--dead-letter", "refused.jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(told(&output).contains("501 refused"), "{}", told(&output));
    let refused = std::fs::read_to_string(world.path("refused.jsonl")).expect("a file");
    assert_eq!(refused.lines().count(), 501);
    assert!(
        refused.contains("has an item with the id 'i7'"),
        "{refused}"
    );
    for (mode, word) in [("upsert", "501 replaced"), ("skip-existing", "501 kept")] {
        let output = world.import(&[&name, "--mode", mode]);
        assert!(output.status.success(), "{}", told(&output));
        assert!(told(&output).contains(word), "{}", told(&output));
    }
    assert_eq!(world.exported().len(), 501);
}

#[test]
fn files_of_each_format_are_read_back() {
    let world = World::new(&["--memory"]);
    let name = world.file(
        "a.csv",
        "\u{feff}id,pk,at.city,n,empty\r\n1,x,Bern,7.50,\r\n2,y,\"A, b\",true,\r\n",
    );
    let output = world.import(&[&name]);
    assert!(output.status.success(), "{}", told(&output));
    let expected = world.exported();
    assert!(expected.contains(r#"{"id":"1","pk":"x","at":{"city":"Bern"},"n":7.50}"#));
    for (n, name) in ["b.json", "b.jsonl.gz", "b.csv.zst"]
        .into_iter()
        .enumerate()
    {
        let output = world.run("export", &["--output", name]);
        assert!(output.status.success(), "{}", told(&output));
        assert!(!world.path(&format!("{name}.part")).exists());
        let other = World::new(&["--memory"]);
        std::fs::copy(world.path(name), other.path(name)).expect("a copy");
        let output = other.import(&[name]);
        assert!(output.status.success(), "{n}: {}", told(&output));
        assert_eq!(other.exported(), expected, "{name}");
    }
    let output = world.run("export", &["--output", "b.json"]);
    assert_eq!(
        output.status.code(),
        Some(2),
        "an existing file is not replaced"
    );
    let query = "SELECT VALUE COUNT(1) FROM c";
    let output = world.run("export", &["--output", "-", "--query", query]);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "2\n",
        "{}",
        told(&output)
    );
}

#[test]
fn each_refused_record_is_told_with_its_place_and_the_others_are_imported() {
    let world = World::new(&["--memory"]);
    let long = format!(
        r#"{{"id":"long","pk":"x","text":"{}"}}"#,
        "x".repeat(3 << 20)
    );
    let mut content = Vec::new();
    for line in [
        item(1).as_bytes(),
        b"{\"id\":\"2\"}",
        b"{\"id\":\"3\",\"pk\":\"\xff\"}",
        b"not JSON",
        long.as_bytes(),
        item(1).as_bytes(),
        br#"{"pk":"x"}"#,
    ] {
        content.extend_from_slice(line);
        content.extend_from_slice(b"\r\n");
    }
    let name = world.file("items.jsonl", content);
    let output = world.import(&[&name]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told(&output).contains("items.jsonl, record 2, line 2"),
        "{}",
        told(&output)
    );
    assert!(told(&output).contains("--dead-letter"), "{}", told(&output));

    let output = world.import(&[&name, "--mode", "upsert", "--dead-letter", "refused.jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    let refused = std::fs::read_to_string(world.path("refused.jsonl")).expect("a file");
    let reasons: Vec<&str> = refused.lines().collect();
    for (line, part) in reasons
        .iter()
        .zip(["/pk is missing", "no UTF-8", "no JSON", "at most"])
    {
        assert!(line.contains(part), "{line}");
    }
    assert_eq!(reasons.len(), 4, "{refused}");
    assert!(
        told(&output).contains("1 with a made id"),
        "{}",
        told(&output)
    );
    assert_eq!(world.exported().len(), 2);
}

#[test]
fn records_before_a_fault_of_the_file_are_imported_and_told() {
    let world = World::new(&["--memory"]);
    let cut = format!("[{},{}", item(1), item(2));
    let file = world.file("cut.json", cut);
    let output = world.import(&[&file]);
    assert_eq!(output.status.code(), Some(1));
    let told = told(&output);
    assert!(told.contains("ends after 2 whole elements"), "{told}");
    assert!(
        told.contains("Of the 2 records before the fault, 0 were refused"),
        "{told}"
    );
    let rows = world.run("export", &["--output", "-"]);
    assert_eq!(String::from_utf8_lossy(&rows.stdout).lines().count(), 2);
}

/// Returns the ids of the items of the container.
fn ids(world: &World) -> Vec<String> {
    let query = "SELECT VALUE c.id FROM c ORDER BY c.id";
    let output = world.run("export", &["--output", "-", "--query", query]);
    assert!(output.status.success(), "{}", told(&output));
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn an_import_that_ends_at_a_bad_record_writes_no_later_one_and_says_how_to_go_on() {
    let world = World::new(&["--memory"]);
    let bad = r#"{"id":"i2","pk" "p2"}"#.to_owned();
    let records = [item(1), bad, item(3), item(4), item(5)];
    let name = world.file("items.jsonl", lines(records.clone()));
    let output = world.import(&[&name]);
    assert_eq!(output.status.code(), Some(1));
    let told = told(&output);
    let expected = [
        "orrery: items.jsonl, record 2, line 2: no JSON: expected this character to be a ':' while \
         parsing at byte 16",
        "  {\"id\":\"i2\",\"pk\" \"p2\"}",
        "                  ^",
        "the import ends here: 1 item was written, and none of a later record",
        "to go on: correct the record and repeat the command; --mode skip-existing keeps the items \
         that exist; --dead-letter FILE collects such records and goes on",
    ];
    assert_eq!(told.lines().collect::<Vec<_>>(), expected);
    assert_eq!(ids(&world), ["\"i1\""]);

    // The named ways lead on.
    let output = world.import(&[
        &name,
        "--mode",
        "skip-existing",
        "--dead-letter",
        "bad.jsonl",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(ids(&world).len(), 4);
    world.file("items.jsonl", lines((1..=5).map(item)));
    let output = world.import(&[&name, "--mode", "skip-existing"]);
    assert!(output.status.success(), "{}", self::told(&output));
    assert_eq!(ids(&world).len(), 5);
}

#[test]
fn an_import_that_the_server_stops_writes_no_later_record_of_the_request() {
    let world = World::new(&["--memory"]);
    let name = world.file("two.jsonl", lines([item(2)]));
    assert!(world.import(&[&name]).status.success());
    let name = world.file("items.jsonl", lines((1..=5).map(item)));
    let output = world.import(&[&name]);
    assert_eq!(output.status.code(), Some(1));
    let told = told(&output);
    for part in [
        "items.jsonl, record 2, line 2: 409: the container has an item with the id 'i2'",
        "the import ends here: 1 item was written, and none of a later record",
        "to go on: --mode skip-existing keeps the items that exist, --mode upsert replaces them",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert_eq!(ids(&world), ["\"i1\"", "\"i2\""]);

    // A refusal for another reason, with a checkpoint: the same command continues.
    let world = World::new(&["--memory"]);
    let mut records: Vec<String> = (1..=5).map(item).collect();
    records[2] = r#"{"id":"i3","pk":"p3","ttl":"x"}"#.to_owned();
    let name = world.file("items.jsonl", lines(records));
    let output = world.import(&[&name, "--resume", "point"]);
    assert_eq!(output.status.code(), Some(1), "{}", self::told(&output));
    let told = self::told(&output);
    assert!(told.contains("record 3, line 3: 400"), "{told}");
    assert!(
        told.contains("add --dead-letter FILE to the same command"),
        "{told}"
    );
    assert_eq!(ids(&world).len(), 2);
    let again = [&name, "--resume", "point", "--dead-letter", "bad.jsonl"];
    let output = world.import(&again);
    let told = self::told(&output);
    assert!(told.contains("5 records, 4 created, 1 refused"), "{told}");
    assert_eq!(ids(&world).len(), 4);
}

#[test]
fn only_an_item_whose_id_exists_counts_as_kept() {
    let long = "k".repeat(100);
    let cases = [
        (
            r#"{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
                "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/e"]}]}}"#,
            r#"{"id":"1","pk":"a","e":1}"#.to_owned(),
            r#"{"id":"2","pk":"a","e":1}"#.to_owned(),
            "record 1, line 1: 409/0: Unique index constraint violation.",
        ),
        (
            r#"{"id":"orders","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#,
            format!(r#"{{"id":"1","pk":"{long}a"}}"#),
            format!(r#"{{"id":"1","pk":"{long}b"}}"#),
            "record 1, line 1: 409/0: Resource with id already exists with a conflicting hashed \
             partition key",
        ),
    ];
    for (container, first, second, reason) in cases {
        let world = World::new(&["--memory"]);
        let mut client = world.server.client();
        for (path, body) in [("/dbs", r#"{"id":"shop"}"#), ("/dbs/shop/colls", container)] {
            let answer = client.call(&Request::new("POST", path).body(body));
            assert_eq!(answer.status, 201, "{}", answer.text());
        }
        let name = world.file("first.jsonl", lines([first]));
        assert!(world.import(&[&name]).status.success());
        let name = world.file("second.jsonl", lines([second]));
        for mode in ["create", "upsert", "skip-existing"] {
            let output = world.import(&[&name, "--mode", mode]);
            let told = told(&output);
            assert_eq!(output.status.code(), Some(1), "{mode}: {told}");
            assert!(told.contains(reason), "{mode}: {told}");
            assert!(!told.contains("to go on: --mode"), "{mode}: {told}");
        }
        // The item that is there is kept all the same.
        let output = world.import(&["first.jsonl", "--mode", "skip-existing"]);
        assert!(
            self::told(&output).contains("1 kept"),
            "{}",
            self::told(&output)
        );
    }
}

#[test]
fn a_server_that_goes_away_ends_an_import_with_its_counts() {
    let mut world = World::new(&["--memory"]);
    let name = world.file("items.jsonl", lines((1..=5).map(item)));
    assert!(world.import(&[&name]).status.success());
    world.server.kill();
    for (verb, arguments) in [
        ("import", &[name.as_str()][..]),
        ("export", &["--output", "-"]),
    ] {
        let output = world.run(verb, arguments);
        assert_eq!(output.status.code(), Some(1));
        let told = told(&output);
        let start = format!(
            "orrery: no server answers at http://{}; start one with `orrery start`, or name \
             another with --endpoint",
            world.server.address
        );
        assert!(told.starts_with(&start), "{told}");
    }
}

#[test]
fn a_wrong_query_of_an_export_is_told_with_its_place() {
    let world = World::new(&["--memory"]);
    let name = world.file("items.jsonl", item(1));
    assert!(world.import(&[&name]).status.success());
    let query = "SELECT * FORM c";
    let output = world.run("export", &["--output", "-", "--query", query]);
    assert_eq!(output.status.code(), Some(1));
    let told = told(&output);
    let marks = format!("\n  {query}\n           ^^^^");
    assert!(told.contains("SC1001") && told.contains(&marks), "{told}");
    assert!(!told.contains('{'), "{told}");
}

#[test]
fn a_row_without_end_is_told_with_its_line_and_the_rows_before_it_are_imported() {
    let world = World::new(&["--memory"]);
    let blank = " ".repeat(20 << 20);
    let name = world.file(
        "open.csv",
        format!("id,pk,note\n1,x,a\n2,y,b\n3,z,\"{blank}"),
    );
    let output = world.import(&[&name, "--dead-letter", "refused.jsonl"]);
    assert_eq!(output.status.code(), Some(1));
    let told = told(&output);
    let place = "open.csv, record 3, line 4: the record has 20971525 bytes";
    assert!(told.contains(place), "{told}");
    assert!(told.contains("none closes it"), "{told}");
    assert!(told.contains("3 records, 2 created, 1 refused"), "{told}");
}

#[test]
fn ids_that_the_server_takes_come_in_again() {
    let world = World::new(&["--memory"]);
    let file = world.file("odd.jsonl", "{\"id\":\"a#b?\",\"pk\":\"x\"}\n");
    let output = world.import(&[&file]);
    assert!(output.status.success(), "{}", told(&output));
    let rows = world.run("export", &["--output", "-"]);
    assert!(String::from_utf8_lossy(&rows.stdout).contains("a#b?"));
}

#[test]
fn another_content_of_a_file_is_another_import() {
    let world = World::new(&["--memory"]);
    let file = world.file("items.jsonl", item(1));
    let resumed = &[file.as_str(), "--resume", "point.json"];
    assert!(world.import(resumed).status.success());
    // The size stays, and the time of the last change is another.
    world.file("items.jsonl", item(2));
    let facts = std::fs::metadata(world.path("items.jsonl")).expect("it exists");
    let later = facts.modified().expect("a time") + Duration::from_secs(10);
    let changed = std::fs::File::options()
        .write(true)
        .open(world.path("items.jsonl"));
    changed
        .and_then(|file| file.set_modified(later))
        .expect("its time is set");
    let output = world.import(resumed);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));

    let output = world.import(&[&file, "--resume", "x.json", "--dead-letter", "x.json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        told(&output).contains("name the same file"),
        "{}",
        told(&output)
    );
}

#[test]
fn an_export_destroys_nothing_that_is_not_its_own() {
    let world = World::new(&["--memory"]);
    let file = world.file("items.jsonl", item(1));
    assert!(world.import(&[&file]).status.success());
    std::fs::create_dir(world.path("all.jsonl.part")).expect("a folder");
    world.file("all.jsonl.part/notes.txt", "mine");
    let output = world.run("export", &["--output", "all.jsonl"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(world.path("all.jsonl.part/notes.txt").is_file());

    // A folder that another export works in is not shared.
    std::fs::create_dir(world.path("busy.jsonl.part")).expect("a folder");
    let lock = std::fs::File::create(world.path("busy.jsonl.part/lock")).expect("a file");
    lock.try_lock().expect("it is free");
    let output = world.run("export", &["--output", "busy.jsonl"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(
        told(&output).contains("another export"),
        "{}",
        told(&output)
    );
    drop(lock);
    let output = world.run("export", &["--output", "busy.jsonl"]);
    assert!(output.status.success(), "{}", told(&output));

    std::fs::create_dir(world.path("folder")).expect("a folder");
    let output = world.run("export", &["--output", "folder", "--overwrite"]);
    assert_eq!(output.status.code(), Some(2), "{}", told(&output));
    assert!(told(&output).contains("no plain file"), "{}", told(&output));
}

#[test]
fn a_dry_run_judges_all_records_and_writes_nothing() {
    let world = World::new(&["--memory"]);
    let name = world.file("items.jsonl", lines([item(1), item(2), item(1)]));
    let output = world.import(&[&name, "--dry-run"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        told(&output).contains("2 valid, 1 refused"),
        "{}",
        told(&output)
    );
    assert!(
        told(&output).contains("record 3, line 3"),
        "{}",
        told(&output)
    );
    let output = world.run("export", &["--output", "-"]);
    assert!(told(&output).contains("404"), "{}", told(&output));
}

#[test]
fn a_container_of_another_server_is_a_source() {
    let world = World::new(&["--memory"]);
    let name = world.file("items.jsonl", lines((0..1500).map(item)));
    assert!(world.import(&[&name]).status.success());
    let other = World::new(&["--memory"]);
    let string = format!(
        "AccountKey={};AccountEndpoint=http://{}/;Database=shop;Container=orders;",
        world.server.key, world.server.address
    );
    other.file("source.txt", string);
    let output = other.import(&["--from", "@source.txt", "--resume", "checkpoint"]);
    assert!(output.status.success(), "{}", told(&output));
    assert_eq!(other.exported(), world.exported());
    let output = other.import(&["--from", "@source.txt", "--resume", "checkpoint"]);
    assert!(told(&output).contains("is complete"), "{}", told(&output));
}

#[test]
fn a_throttled_import_slows_down_and_refuses_nothing() {
    let world = World::new(&["--memory", "--enforce-throughput", "on"]);
    let name = world.file("items.jsonl", lines((0..300).map(item)));
    let output = world.import(&[&name, "--throughput", "400"]);
    assert!(output.status.success(), "{}", told(&output));
    assert!(told(&output).contains("throttled"), "{}", told(&output));
    assert_eq!(world.exported().len(), 300);
}

/// Waits until a checkpoint counts a record, and kills the import.
fn kill_in_the_middle(mut import: Child, checkpoint: &Path, before: u64) {
    wait_until("a checkpoint, or the end", || {
        let records = settled(checkpoint);
        let has_ended = import.try_wait().expect("a state").is_some();
        if records > before || has_ended {
            Ok(())
        } else {
            Err(records)
        }
    });
    import.kill().expect("it is killed");
    import.wait().expect("it ends");
}

/// Returns the number of records that a checkpoint counts.
fn settled(checkpoint: &Path) -> u64 {
    let text = std::fs::read_to_string(checkpoint).unwrap_or_default();
    let after = text.split("\"records\": ").nth(1).unwrap_or("0");
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

#[test]
fn an_import_that_is_killed_goes_on_without_loss_or_duplicate() {
    let world = World::new(&["--memory"]);
    // Every third item has no id, and every thousandth is refused.
    let records = (0..24_000).map(|n| match (n % 1000, n % 3) {
        (7, _) => format!(r#"{{"id":"i{n}"}}"#),
        (_, 0) => format!(r#"{{"pk":"p{}","n":{n}}}"#, n % 50),
        _ => item(n),
    });
    let name = world.file("items.jsonl", lines(records));
    let checkpoint = world.path("checkpoint");
    let mut arguments = vec!["--create-container", "--partition-key", "/pk", &name];
    arguments.extend(["--resume", "checkpoint", "--dead-letter", "refused.jsonl"]);
    let mut before = 0;
    for _ in 0..3 {
        let mut slow = arguments.clone();
        slow.extend(["--rate", "30000"]);
        let import = world.command("import", &slow).spawn().expect("it starts");
        kill_in_the_middle(import, &checkpoint, before);
        assert!(settled(&checkpoint) < 24_000, "it was killed in the middle");
        before = settled(&checkpoint);
    }
    assert!(before > 0);
    let output = world.run("import", &arguments);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let words = "24000 records, 23976 created, 24 refused";
    assert!(told(&output).contains(words), "{}", told(&output));
    let refused = std::fs::read_to_string(world.path("refused.jsonl")).expect("a file");
    assert_eq!(refused.lines().count(), 24);
    let exported = world.exported();
    assert_eq!(exported.len(), 23_976);
    let numbers: BTreeSet<&str> = exported
        .iter()
        .filter_map(|line| line.split("\"n\":").nth(1))
        .collect();
    assert_eq!(
        numbers.len(),
        8_000 - 8,
        "each item without an id is there once"
    );
}

/// The commands of the guide, which stand in its blocks for a shell.
const GUIDE: &str = include_str!("../../../docs/how-to/import-and-export.md");

#[test]
fn the_commands_of_the_guide_run_as_they_stand() {
    let world = World::new(&["--memory"]);
    let program = Path::new(env!("CARGO_BIN_EXE_orrery"));
    let folder = program.parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let blocks: Vec<&str> = GUIDE
        .split("```sh,norun\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert_eq!(blocks.len(), 6);
    for block in blocks {
        let output = Command::new("sh")
            .args(["-e", "-c", block])
            .current_dir(world.folder.path())
            .env("PATH", &path)
            .env(
                "ORRERY_ENDPOINT",
                format!("http://{}/", world.server.address),
            )
            .env("ORRERY_KEY", &world.server.key)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{block}\n{}", told(&output));
    }
    let totals = std::fs::read_to_string(world.path("totals.csv")).expect("a file");
    assert_eq!(totals.lines().count(), 3, "{totals}");
}
