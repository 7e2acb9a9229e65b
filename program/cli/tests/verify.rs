//! `orrery verify`, its form in the management API, and `orrery repair --rebuild-index`.

use crate::data_dir::{copy, edit, files};
use crate::program::{Client, ITEMS, Manager, Request, number, repair, run_on, start, text};
use orrery_model::Json;
use orrery_model::world::split_mix;
use orrery_test_wait::wait_for;
use std::path::{Path, PathBuf};

/// Exit code of data that is not as it must be.
const EXIT_DATA: Option<i32> = Some(4);
/// Damages of a run; `cargo xtask long damages` asks for more.
const DAMAGES: u64 = 16;
const VARIABLE: &str = "VERIFY_DAMAGES";
/// Number of the first damage, from which the damage follows.
const FIRST: &str = "VERIFY_FIRST";

/// Items of each run of the server that fills a directory. They have 60 KB, so that two runs fill
/// more than one table of 16 MB.
const ITEMS_PER_RUN: u64 = 150;
const RUNS: u64 = 3;

/// Fills a data directory: tables of rows and of index entries, and a journal.
fn fill(directory: &Path) {
    let directory = directory.to_str().expect("a path in UTF-8");
    let arguments = ["--data-dir", directory, "--disk-reserve", "0"];
    // Each start completes the tables that the run before has left to be written.
    for run in 0..RUNS {
        let mut server = start(&arguments).expect("it starts");
        let mut client = server.client();
        if run == 0 {
            client.make_posts();
        }
        for n in 0..ITEMS_PER_RUN {
            write(&mut client, run * ITEMS_PER_RUN + n, 60_000);
        }
        match run + 1 < RUNS {
            true => drop(server.stop()),
            false => server.kill(),
        }
    }
    let tables = files(&Path::new(directory).join("store/store/keyspaces/1/tables"));
    assert!(!tables.is_empty(), "there are tables");
}

fn write(client: &mut Client, n: u64, bytes: usize) {
    let pk = format!("p{}", n % 5);
    let body = format!(
        r#"{{"id":"i{n}","postId":"{pk}","n":{n},"text":"{}"}}"#,
        noise(n, bytes)
    );
    let written = client.call(&Request::new("POST", ITEMS).key(&pk).body(body));
    assert_eq!(written.status, 201, "{}", written.text());
}

/// Returns a text that does not compress.
fn noise(seed: u64, bytes: usize) -> String {
    let mut random = Random(seed + 1);
    (0..bytes)
        .map(|_| char::from(b'a' + random.below(26) as u8))
        .collect()
}

/// A source of numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

fn verify(directory: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    run_on("verify", directory, arguments)
}

#[test]
fn nothing_is_found_in_a_healthy_directory_and_a_missing_one_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    fill(directory.path());
    let (code, printed) = verify(directory.path(), &[]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("450 items") && printed.contains("nothing was found"),
        "{printed}"
    );
    let (code, printed) = verify(
        directory.path(),
        &["--json", "--database", "blog", "--container", "posts"],
    );
    let found: Json = orrery_model::json::parse(printed.as_bytes()).expect("JSON");
    assert_eq!(
        (code, number(&found, "found"), number(&found, "items")),
        (Some(0), 0, RUNS * ITEMS_PER_RUN)
    );

    let nowhere = directory.path().join("nowhere");
    let (code, printed) = verify(&nowhere, &[]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    assert!(
        printed.contains("--data-dir") && !nowhere.exists(),
        "{printed}"
    );
    let (code, printed) = verify(
        directory.path(),
        &["--database", "blog", "--container", "none"],
    );
    assert_eq!(code, Some(2), "{printed}");
}

/// Files whose contents no data depends on.
const NO_DATA: [&str; 4] = ["LOCK", "lock", "HOLDS-DATA", "admin.key"];

/// Damages one place of one file. Returns what was done.
fn damage(directory: &Path, random: &mut Random) -> Option<String> {
    let mut all = files(&directory.join("store"));
    all.retain(|file| {
        let name = file
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        !NO_DATA.contains(&name)
    });
    let file: PathBuf = all[random.below(all.len())].clone();
    let bytes = std::fs::read(&file).expect("it can be read");
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    if end == 0 {
        return None;
    }
    let at = random.below(end);
    let done = match random.below(4) {
        0 | 1 => {
            let bit = random.below(8);
            edit(&file, |bytes| bytes[at] ^= 1 << bit);
            format!("bit {bit} of byte {at}")
        }
        2 => {
            let to = (at + 512).min(end);
            if bytes[at..to].iter().all(|byte| *byte == 0) {
                return None;
            }
            edit(&file, |bytes| bytes[at..to].fill(0));
            format!("zeros from {at} to {to}")
        }
        _ => {
            edit(&file, |bytes| bytes.truncate(at));
            format!("cut at {at}")
        }
    };
    Some(format!("{}: {done} (of {end})", file.display()))
}

/// Returns the number in an environment variable, or `default`.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |number| number.parse().expect("a number"))
}

#[test]
fn each_random_damage_of_a_file_is_found() {
    let (damages, first) = (setting(VARIABLE, DAMAGES), setting(FIRST, 0));
    let original = tempfile::tempdir().expect("a directory");
    fill(original.path());
    let mut missed = Vec::new();
    for number in first..first + damages {
        let directory = tempfile::tempdir().expect("a directory");
        copy(original.path(), directory.path());
        let mut random = Random(split_mix(number));
        // A place of zeros, of which a damage would leave zeros, is passed over.
        let done = std::iter::from_fn(|| Some(damage(directory.path(), &mut random)))
            .flatten()
            .next()
            .expect("a file with data");
        let (code, printed) = verify(directory.path(), &[]);
        assert!(
            !printed.contains("panicked"),
            "damage {number}, {done}: {printed}"
        );
        if code != EXIT_DATA {
            missed.push(format!("damage {number}, {done}: {code:?} {printed}"));
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {damages}: {missed:#?}",
        missed.len()
    );
}

/// Items with many index entries each.
const INDEXED: u64 = 60;

/// Fills a data directory so that index entries are in tables: less memory makes smaller tables.
fn fill_index(directory: &Path) {
    let directory = directory.to_str().expect("a path in UTF-8");
    let arguments = [
        "--data-dir",
        directory,
        "--disk-reserve",
        "0",
        "--memory-limit",
        "256M",
    ];
    for run in 0..RUNS {
        let server = start(&arguments).expect("it starts");
        let mut client = server.client();
        if run == 0 {
            client.make_posts();
        }
        let of_run = INDEXED / RUNS;
        for n in run * of_run..(run + 1) * of_run {
            let numbers: Vec<String> = (0..3_000).map(|m| (n * 10_000 + m).to_string()).collect();
            let body = format!(
                r#"{{"id":"i{n}","postId":"p","n":{n},"numbers":[{}]}}"#,
                numbers.join(",")
            );
            let written = client.call(&Request::new("POST", ITEMS).key("p").body(body));
            assert_eq!(written.status, 201, "{}", written.text());
        }
        server.stop();
    }
}

#[test]
fn the_index_is_rebuilt_from_the_items_when_a_block_of_it_is_damaged() {
    let directory = tempfile::tempdir().expect("a directory");
    fill_index(directory.path());
    let tables = files(&directory.path().join("store/store/keyspaces/2/tables"));
    assert!(!tables.is_empty(), "index entries are in tables");
    for table in &tables {
        edit(table, |bytes| bytes[20] ^= 4);
    }
    let (code, printed) = verify(directory.path(), &[]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    for part in [
        "damaged block",
        "dbs/blog/colls/posts/pkranges/0",
        "index entries",
        "--rebuild-index",
    ] {
        assert!(printed.contains(part), "no {part}: {printed}");
    }

    let (code, printed) = repair(directory.path(), &["--rebuild-index"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("60 items, now pkranges/1"), "{printed}");
    let (code, printed) = verify(directory.path(), &[]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = repair(directory.path(), &["--rebuild-index"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("nothing to rebuild"), "{printed}");

    // The partition takes writes again, and its index finds the items.
    let path = directory.path().to_str().expect("a path in UTF-8");
    let server = start(&["--data-dir", path]).expect("it starts");
    let mut client = server.client();
    write(&mut client, 1_000, 10);
    let query = r#"{"query":"SELECT VALUE COUNT(1) FROM c WHERE c.n >= 59"}"#;
    let request = Request::new("POST", ITEMS)
        .header("x-ms-documentdb-isquery", "true")
        .header("x-ms-documentdb-query-enablecrosspartition", "true")
        .header("content-type", "application/query+json");
    let counted = client.call(&request.body(query));
    assert!(counted.text().contains("[2]"), "{}", counted.text());
}

#[test]
fn a_running_server_verifies_its_data_while_requests_go_on() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().to_str().expect("a path in UTF-8");
    let server = start(&["--data-dir", path, "--disk-reserve", "0"]).expect("it starts");
    let (mut client, mut manager) = (server.client(), server.manager());
    client.make_posts();
    (0..20).for_each(|n| write(&mut client, n, 60_000));
    manager.refused("GET", VERIFICATION, "", 404);

    // A slow verification of one container can be watched and cancelled.
    let slow = r#"{"database":"blog","container":"posts","bytesPerSecond":100000}"#;
    let started = manager.ok("POST", VERIFICATION, slow).json();
    assert_eq!(text(&started, "status"), "running");
    let refused = manager.refused("POST", VERIFICATION, "{}", 409);
    assert!(refused.contains("running"), "{refused}");
    write(&mut client, 20, 10);
    manager.ok("DELETE", VERIFICATION, "");
    assert_eq!(text(&ended(&mut manager), "status"), "cancelled");

    manager.ok("POST", VERIFICATION, r#"{"bytesPerSecond":0}"#);
    let found = ended(&mut manager);
    assert_eq!(
        (text(&found, "status").as_str(), number(&found, "found")),
        ("done", 0)
    );
    assert_eq!(number(&found, "items"), 21);
    for (body, status, part) in [
        (r#"{"database":"blog"}"#, 400, "the container"),
        (
            r#"{"database":"blog","container":"none"}"#,
            404,
            "colls/none",
        ),
        (r#"{"bytesPerSecond":-1}"#, 400, "bytesPerSecond"),
        (r#"{"rate":1}"#, 400, "rate"),
    ] {
        let refused = manager.refused("POST", VERIFICATION, body, status);
        assert!(refused.contains(part), "{refused}");
    }

    let endpoint = format!("http://{}/", server.admin_address);
    // The directory belongs to the server, so the server is asked.
    let (code, printed) = verify(directory.path(), &["--admin-endpoint", &endpoint]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains("21 items"), "{printed}");
}

const VERIFICATION: &str = "/verification";

/// Returns the verification when it has ended.
fn ended(manager: &mut Manager) -> Json {
    let read = || manager.ok("GET", VERIFICATION, "").json();
    wait_for("the end of the verification", read, |found| {
        text(found, "status") != "running"
    })
}
