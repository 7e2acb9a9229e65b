//! `orrery verify`, its form in the management API, and `orrery repair --rebuild-index`.

use crate::data_dir::{copy, edit, files};
use crate::program::{Client, ITEMS, Request, Server, item, number, repair, run_on, start, text};
use orrery_model::Json;
use orrery_test_wait::wait_for;
use std::path::{Path, PathBuf};

/// Exit code of data that is not as it must be.
const EXIT_DATA: Option<i32> = Some(4);
/// Damages of a run; `cargo xtask long trust` asks for more.
const DAMAGES: u64 = 16;
const VARIABLE: &str = "ORRERY_DAMAGES";

/// Fills a data directory: tables of rows and of index entries, and a journal.
fn fill(directory: &Path) {
    let directory = directory.to_str().expect("a path in UTF-8");
    let arguments = ["--data-dir", directory, "--disk-reserve", "0"];
    // Two runs: the journal of the first becomes tables when memtables are full.
    for run in 0..2 {
        let mut server = start(&arguments).expect("it starts");
        let mut client = server.client();
        if run == 0 {
            client.make_posts();
        }
        for n in 0..60 {
            write(&mut client, run * 60 + n, 9_000);
        }
        match run {
            0 => drop(server.stop()),
            _ => server.kill(),
        }
    }
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
        printed.contains("120 items") && printed.contains("nothing was found"),
        "{printed}"
    );
    let (code, printed) = verify(
        directory.path(),
        &["--json", "--database", "blog", "--container", "posts"],
    );
    let found: Json = orrery_model::json::parse(printed.as_bytes()).expect("JSON");
    assert_eq!(
        (code, number(&found, "found"), number(&found, "items")),
        (Some(0), 0, 120)
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

#[test]
fn each_random_damage_of_a_file_is_found() {
    let damages =
        std::env::var(VARIABLE).map_or(DAMAGES, |number| number.parse().expect("a number"));
    let original = tempfile::tempdir().expect("a directory");
    fill(original.path());
    let mut random = Random(damages);
    let mut missed = Vec::new();
    let mut tried = 0;
    while tried < damages {
        let directory = tempfile::tempdir().expect("a directory");
        copy(original.path(), directory.path());
        let Some(done) = damage(directory.path(), &mut random) else {
            continue;
        };
        tried += 1;
        let (code, printed) = verify(directory.path(), &[]);
        assert!(!printed.contains("panicked"), "{done}: {printed}");
        if code != EXIT_DATA {
            missed.push(format!("{done}: {code:?} {printed}"));
        }
    }
    assert!(
        missed.is_empty(),
        "{} of {damages}: {missed:#?}",
        missed.len()
    );
}
