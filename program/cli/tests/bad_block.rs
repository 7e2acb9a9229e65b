//! A damaged block of the stored data: the log and the status name it, its partition is read-only,
//! and every other partition goes on.

use crate::program::{self, Client, Manager, Request, Server, repair, start};
use orrery_test_wait::{wait_for, wait_until};
use std::path::{Path, PathBuf};

/// Items of 60 KB that fill more than one table of 16 MB.
const ITEMS: u64 = 300;

fn start_scrubbing(directory: &Path) -> Server {
    let directory = directory.to_str().expect("a path in UTF-8");
    start(&["--data-dir", directory, "--scrub-rate", "1000"]).expect("it starts")
}

/// Returns a text that does not compress.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed + 1;
    let step = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + (state >> 60) as u8)
    };
    (0..bytes).map(step).collect()
}

fn write(client: &mut Client, container: &str, n: u64, bytes: usize) -> program::Answer {
    let body = format!(r#"{{"id":"i{n}","pk":"p","text":"{}"}}"#, noise(n, bytes));
    let path = format!("/dbs/d/colls/{container}/docs");
    let request = Request::new("POST", &path).key("p").body(body);
    client.call(&request.header("x-ms-documentdb-is-upsert", "True"))
}

/// Returns the largest table of rows.
fn largest_table(directory: &Path) -> PathBuf {
    let tables = directory.join("store/store/keyspaces/1/tables");
    let files = std::fs::read_dir(tables).expect("tables");
    let files = files.map(|entry| entry.expect("an entry").path());
    let length = |file: &PathBuf| std::fs::metadata(file).expect("a file").len();
    files.max_by_key(length).expect("a table")
}

/// Waits until the status has a damaged block. Returns the status.
fn wait_for_damage(manager: &mut Manager) -> orrery_model::Json {
    let status = || manager.ok("GET", "/status", "").json();
    wait_for("a damaged block", status, |status| {
        let damaged = status.get("damagedBlocks").and_then(|list| list.as_array());
        damaged.is_some_and(|list| !list.is_empty())
    })
}

/// Creates two containers, and a table with the items of one of them.
fn fill(directory: &Path) {
    let server = start_scrubbing(directory);
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"d"}"#);
    for container in ["damaged", "sound"] {
        let body =
            format!(r#"{{"id":"{container}","partitionKey":{{"paths":["/pk"],"kind":"Hash"}}}}"#);
        client.create("/dbs/d/colls", &body);
    }
    for n in 0..ITEMS {
        assert_eq!(write(&mut client, "damaged", n, 60_000).status, 201);
    }
    // The memtable is sealed by the next commit and written to a table in the background; the stop
    // does not wait for that, and the start completes it.
    assert_eq!(write(&mut client, "sound", 0, 10).status, 201);
    server.stop();
}

/// Creates data and flips a bit in the blocks of its largest table. Returns the file.
fn fill_and_damage(directory: &Path) -> PathBuf {
    fill(directory);
    server_with_tables(directory);
    let file = largest_table(directory);
    let mut bytes = std::fs::read(&file).expect("a table");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).expect("a damaged table");
    file
}

#[test]
fn repair_finds_a_damaged_block_that_was_not_read_since_its_damage() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = fill_and_damage(directory.path());

    let (code, printed) = repair(directory.path(), &[]);
    assert_eq!(code, Some(4), "{printed}");
    assert!(printed.contains(file.to_str().expect("text")), "{printed}");
    assert!(
        printed.contains("dbs/d/colls/damaged/pkranges/0"),
        "{printed}"
    );
}

#[test]
fn a_damaged_block_is_named_and_only_its_partition_is_read_only() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = fill_and_damage(directory.path());

    let server = start_scrubbing(directory.path());
    let (mut client, mut manager) = (server.client(), server.manager());
    let status = wait_for_damage(&mut manager);
    let block = status
        .get("damagedBlocks")
        .and_then(|list| list.as_array()?.first())
        .expect("a block");
    let field = |name: &str| block.get(name).and_then(|value| value.as_str());
    assert_eq!(field("file"), file.to_str());
    assert_eq!(field("contents"), Some("items"));
    let partition = block
        .get("readOnlyPartitions")
        .and_then(|list| list.as_array()?.first());
    let path = "dbs/d/colls/damaged/pkranges/0";
    assert_eq!(partition.and_then(|path| path.as_str()), Some(path));
    assert!(
        manager
            .get("/metrics")
            .text()
            .contains("orrery_damaged_blocks 1\n")
    );

    check_requests(&mut client);

    let log = server.stop().stderr;
    let line = log
        .lines()
        .find(|line| line.contains("a block of the stored data is damaged"));
    let line = line.unwrap_or_else(|| panic!("no line of the log names the damage: {log}"));
    assert!(
        line.contains(file.to_str().expect("text")) && line.contains(path),
        "{line}"
    );
    assert!(line.contains("offset="), "{line}");

    // The loss of a block is described and cannot be accepted.
    for arguments in [&[][..], &["--accept-loss"]] {
        let (code, printed) = repair(directory.path(), arguments);
        assert_eq!(code, Some(4), "{printed}");
        assert!(
            printed.contains(file.to_str().expect("text")) && printed.contains(path),
            "{printed}"
        );
        assert!(printed.contains("read-only"), "{printed}");
    }
}

/// Checks that writes of the damaged partition and reads of the block fail, and no others.
fn check_requests(client: &mut Client) {
    // Writes: the damaged partition refuses, the other goes on.
    let refused = write(client, "damaged", 1, 10);
    assert_eq!(refused.code(), (500, 5900));
    assert!(
        refused.text().contains("can only be read"),
        "{}",
        refused.text()
    );
    // The items before these may have been written until there was a table.
    for n in 1_000_000..1_000_020 {
        assert_eq!(write(client, "sound", n, 10).status, 201);
    }
    // Reads: those of the block fail and say so, all others succeed.
    let mut failed = 0;
    for n in 0..ITEMS {
        let path = format!("/dbs/d/colls/damaged/docs/i{n}");
        let read = client.call(&Request::new("GET", &path).key("p"));
        if read.status != 200 {
            assert_eq!(read.code(), (500, 5900), "{}", read.text());
            assert!(read.text().contains("damaged on the disk"));
            failed += 1;
        }
    }
    assert!(
        (1..10).contains(&failed),
        "{failed} of {ITEMS} reads failed"
    );
}

/// Runs a server until the data has a table.
fn server_with_tables(directory: &Path) {
    let server = start_scrubbing(directory);
    let mut client = server.client();
    let tables = directory.join("store/store/keyspaces/1/tables");
    let has_table = || std::fs::read_dir(&tables).expect("tables").next().is_some();
    let mut n = 0;
    wait_until("a table", || {
        for _ in 0..20 {
            write(&mut client, "sound", n, 60_000);
            n += 1;
        }
        if has_table() { Ok(()) } else { Err(n) }
    });
    server.stop();
}
