//! The data directory and the start of the program: exclusive use, damaged files and their repair,
//! orderly shutdown, and account keys.
//!
//! The promise about damage: the server starts with everything acknowledged, or refuses to start
//! and names the file. It never starts with less.

use crate::program::{
    Client, Exit, ITEMS, Request, Server, item, number, repair, start, start_at, start_on, text,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Exit code of wrong options.
const EXIT_USAGE: Option<i32> = Some(2);
/// Exit code of a data directory that cannot be opened.
const EXIT_DATA: Option<i32> = Some(4);
/// Number of items in a directory that is to be damaged.
const ACKNOWLEDGED: u64 = 40;
/// The publicly known key of the vendor's emulator.
const EMULATOR_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";
const OWN_KEY: &str = "b3VyIG93biBrZXksIG5vdCBmb3IgYW55Ym9keSBlbHNl";

fn expect_exit(result: Result<Server, Exit>) -> Exit {
    result
        .map(|server| server.address.clone())
        .expect_err("it must not start")
}

fn write(client: &mut Client, n: u64) {
    let body = format!(
        r#"{{"id":"i{n}","postId":"p{}","n":{n},"text":"{}"}}"#,
        n % 3,
        "words ".repeat(40)
    );
    let answer = client.call(
        &Request::new("POST", ITEMS)
            .key(&format!("p{}", n % 3))
            .body(body),
    );
    assert_eq!(answer.status, 201, "{}", answer.text());
}

/// Returns the numbers of the items that the server lists; checks that each item can be read.
fn numbers(server: &Server) -> BTreeSet<u64> {
    let mut client = server.client();
    let (rows, _) = client.pages(&Request::new("GET", ITEMS).header("x-ms-max-item-count", "1000"));
    for row in &rows {
        let read =
            client.call(&Request::new("GET", &item(&text(row, "id"))).key(&text(row, "postId")));
        assert_eq!(
            (read.status, number(&read.json(), "n")),
            (200, number(row, "n"))
        );
    }
    rows.iter().map(|row| number(row, "n")).collect()
}

pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found.sort();
    found
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a directory") {
        let path = entry.expect("an entry").path();
        let target = to.join(path.file_name().expect("a name"));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).expect("it is copied");
        }
    }
}

/// Returns a data directory with acknowledged items after a kill -9 of its server.
fn killed_data_dir() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    // The reserve is large and has no content, so it would only slow the copies down.
    let path = directory.path().to_str().expect("a path in UTF-8");
    let mut server = start(&["--data-dir", path, "--disk-reserve", "0"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    (0..ACKNOWLEDGED).for_each(|n| write(&mut client, n));
    server.kill();
    directory
}

/// Damages a copy of the directory and checks the promise. Returns true if the start was refused.
fn is_refused_after(original: &Path, what: &str, damage: impl FnOnce(&Path)) -> bool {
    let directory = tempfile::tempdir().expect("a directory");
    copy(original, directory.path());
    damage(directory.path());
    match start_on(directory.path()) {
        Ok(server) => {
            assert_eq!(
                numbers(&server),
                (0..ACKNOWLEDGED).collect(),
                "{what}: started with something missing"
            );
            false
        }
        Err(exit) => {
            assert_eq!(exit.code, EXIT_DATA, "{what}: {}", exit.stderr);
            let place = directory.path().display().to_string();
            assert!(
                exit.stderr.contains(&place),
                "{what}: names no file: {}",
                exit.stderr
            );
            assert!(!exit.stderr.contains("panicked"), "{what}: {}", exit.stderr);
            true
        }
    }
}

/// Returns the journal in use and its length without the reserved space at its end.
fn journal(directory: &Path) -> (PathBuf, usize) {
    let all = files(&directory.join("store/store"));
    let newest = all
        .into_iter()
        .filter(|file| file.extension().is_some_and(|e| e == "jnl"))
        .max();
    let newest = newest.expect("there is a journal");
    let bytes = std::fs::read(&newest).expect("it can be read");
    let end = bytes
        .iter()
        .rposition(|&byte| byte != 0)
        .expect("something is in it")
        + 1;
    (newest, end)
}

pub(crate) fn edit(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(file).expect("it can be read");
    change(&mut bytes);
    std::fs::write(file, bytes).expect("it can be written");
}

#[test]
fn a_directory_is_served_by_one_process_at_a_time() {
    let directory = tempfile::tempdir().expect("a directory");
    let first = start_on(directory.path()).expect("it starts");
    let exit = expect_exit(start_on(directory.path()));
    assert_eq!(exit.code, EXIT_DATA, "{}", exit.stderr);
    let place = directory.path().display().to_string();
    assert!(
        exit.stderr.contains(&place) && exit.stderr.contains("in use"),
        "{}",
        exit.stderr
    );
    assert_eq!(first.client().call(&Request::new("GET", "/")).status, 200);
}

#[test]
fn a_directory_with_foreign_files_is_refused_and_unchanged() {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(directory.path().join("store")).expect("a directory");
    let theirs = directory.path().join("store/thesis.txt");
    std::fs::write(&theirs, "ten years of work").expect("it is written");
    let exit = expect_exit(start_on(directory.path()));
    assert_eq!(exit.code, EXIT_DATA, "{}", exit.stderr);
    assert!(exit.stderr.contains("thesis.txt"), "{}", exit.stderr);
    assert_eq!(files(&directory.path().join("store")), [theirs]);
}

#[test]
fn a_cut_journal_is_refused_or_has_everything() {
    let original = killed_data_dir();
    let (file, end) = journal(original.path());
    let name = file.strip_prefix(original.path()).expect("it lies inside");
    let mut refused = 0;
    for kept in [end, end - 1, end - 40, end - 400, end / 2, end / 10, 1, 0] {
        let what = format!("journal cut from {end} to {kept} bytes");
        refused += usize::from(is_refused_after(original.path(), &what, |copy| {
            edit(&copy.join(name), |b| b.truncate(kept))
        }));
    }
    assert!(
        refused >= 6,
        "only {refused} cuts were noticed, and nearly all took acknowledged items away"
    );
}

#[test]
fn a_zeroed_block_is_refused_or_harmless() {
    let original = killed_data_dir();
    let (file, end) = journal(original.path());
    let name = file.strip_prefix(original.path()).expect("it lies inside");
    for part in 0..5 {
        let from = end * part / 5;
        let to = (from + 4096).min(end);
        let zero = |copy: &Path| edit(&copy.join(name), |bytes| bytes[from..to].fill(0));
        assert!(
            is_refused_after(
                original.path(),
                &format!("journal zeroed from {from} to {to}"),
                zero
            ),
            "it was not noticed"
        );
    }
    for file in files(&original.path().join("store")) {
        let name = file.strip_prefix(original.path()).expect("it lies inside");
        let zero = |copy: &Path| {
            edit(&copy.join(name), |bytes| {
                bytes.iter_mut().take(4096).for_each(|byte| *byte = 0)
            })
        };
        is_refused_after(
            original.path(),
            &format!("the first block of {} zeroed", name.display()),
            zero,
        );
    }
}

#[test]
fn a_deleted_file_is_refused_or_harmless() {
    let original = killed_data_dir();
    for file in files(&original.path().join("store")) {
        let name = file.strip_prefix(original.path()).expect("it lies inside");
        let what = format!("{} deleted", name.display());
        let refused = is_refused_after(original.path(), &what, |copy| {
            std::fs::remove_file(copy.join(name)).expect("deleted")
        });
        let holds_data = name.ends_with("ORRERY")
            || name.ends_with("high-water")
            || name.extension().is_some_and(|e| e == "jnl");
        assert!(refused || !holds_data, "{what}: was not noticed");
    }
    let gone = |copy: &Path| std::fs::remove_dir_all(copy.join("store/store")).expect("deleted");
    let all_gone = |copy: &Path| std::fs::remove_dir_all(copy.join("store")).expect("deleted");
    assert!(
        is_refused_after(original.path(), "the whole store deleted", all_gone),
        "it was not noticed"
    );
    assert!(
        is_refused_after(original.path(), "all tables and journals deleted", gone),
        "it was not noticed"
    );
}

#[test]
fn a_complete_directory_needs_no_repair_and_is_left_as_it_is() {
    let original = killed_data_dir();
    for arguments in [&[][..], &["--accept-loss"]] {
        let (code, printed) = repair(original.path(), arguments);
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains("nothing to repair"), "{printed}");
    }
    let server = start_on(original.path()).expect("it starts");
    assert_eq!(numbers(&server), (0..ACKNOWLEDGED).collect());
}

#[test]
fn repair_names_the_lost_items_and_the_server_starts_without_them() {
    let original = killed_data_dir();
    let (file, end) = journal(original.path());
    edit(&file, |bytes| bytes[end * 9 / 10] ^= 1);
    let refused = expect_exit(start_on(original.path()));
    assert!(
        refused.stderr.contains("orrery repair"),
        "{}",
        refused.stderr
    );

    // Without the option the loss is described, and nothing is changed.
    let damaged = std::fs::read(&file).expect("it can be read");
    let (code, printed) = repair(original.path(), &[]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    assert!(printed.contains("Lost group commits"), "{printed}");
    assert!(printed.contains(&file.display().to_string()), "{printed}");
    assert!(printed.contains("--accept-loss"), "{printed}");
    assert_eq!(std::fs::read(&file).expect("it can be read"), damaged);

    let (code, printed) = repair(original.path(), &["--accept-loss"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("/dbs/blog/colls/posts, partition key range 0"),
        "{printed}"
    );
    let report = original.path().join("lost-1/report.txt");
    let report = std::fs::read_to_string(report).expect("it can be read");
    assert!(printed.contains(&report));
    assert!(original.path().join("lost-1/journal-remains").exists());

    // All items before the damage are there; each later one is named, except that of the commit
    // with the damaged byte.
    let server = start_on(original.path()).expect("it starts");
    let left = numbers(&server);
    let lost: Vec<u64> = (left.len() as u64..ACKNOWLEDGED).collect();
    assert_eq!(left, (0..left.len() as u64).collect());
    assert!(lost.len() > 1, "{printed}");
    let ids = report.split("created or deleted: ").nth(1).expect("a list");
    let ids: BTreeSet<&str> = ids.lines().next().expect("a line").split(", ").collect();
    let named: BTreeSet<String> = lost[1..].iter().map(|n| format!("i{n}")).collect();
    assert_eq!(ids, named.iter().map(String::as_str).collect());
    let mut client = server.client();
    lost.iter().for_each(|n| write(&mut client, *n));
    assert_eq!(numbers(&server), (0..ACKNOWLEDGED).collect());
}

#[test]
fn a_lost_high_water_file_is_repaired_without_loss() {
    let original = killed_data_dir();
    let high_water = original.path().join("store/high-water");
    std::fs::remove_file(&high_water).expect("deleted");
    let (code, printed) = repair(original.path(), &[]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    assert!(
        printed.contains(&high_water.display().to_string()),
        "{printed}"
    );
    let (code, printed) = repair(original.path(), &["--accept-loss"]);
    assert_eq!(code, Some(0), "{printed}");
    let server = start_on(original.path()).expect("it starts");
    assert_eq!(numbers(&server), (0..ACKNOWLEDGED).collect());
}

#[test]
fn repair_refuses_a_directory_that_is_in_use_or_missing() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_on(directory.path()).expect("it starts");
    let (code, printed) = repair(directory.path(), &["--accept-loss"]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    assert!(printed.contains("in use"), "{printed}");
    drop(server);
    let missing = directory.path().join("missing");
    let (code, printed) = repair(&missing, &["--accept-loss"]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    assert!(
        printed.contains("missing") && !missing.exists(),
        "{printed}"
    );
}

#[test]
fn an_empty_folder_in_place_of_the_store_is_refused_and_not_filled() {
    let original = killed_data_dir();
    for is_kept in [false, true] {
        let directory = tempfile::tempdir().expect("a directory");
        copy(original.path(), directory.path());
        let store = directory.path().join("store");
        std::fs::remove_dir_all(&store).expect("it was there");
        if is_kept {
            std::fs::create_dir(&store).expect("a directory");
        }
        let exit = expect_exit(start_on(directory.path()));
        assert_eq!(exit.code, EXIT_DATA, "{}", exit.stderr);
        assert!(exit.stderr.contains("HOLDS-DATA"), "{}", exit.stderr);
        assert!(!store.join("ORRERY").exists(), "nothing is created");
    }
}

#[cfg(unix)]
#[test]
fn all_files_belong_to_their_owner_alone_and_a_readable_key_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let parent = tempfile::tempdir().expect("a directory");
    let directory = parent.path().join("new/data");
    let server = start_on(&directory).expect("it starts");
    write_items(&server);
    let mode = |path: &Path| {
        let data = std::fs::metadata(path).expect("it is there");
        data.permissions().mode() & 0o777
    };
    for file in files(&directory) {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
        let folder = file.parent().expect("a folder");
        assert_eq!(mode(folder), 0o700, "{}", folder.display());
    }
    let exit = server.stop();
    assert!(!exit.stderr.contains("chmod"), "{}", exit.stderr);

    let key = directory.join("admin.key");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).expect("permissions");
    let exit = start_on(&directory).expect("it starts").stop();
    let warning = exit.stderr.lines().find(|line| line.contains("chmod go-r"));
    assert!(
        warning.is_some_and(|line| line.contains("admin.key")),
        "{}",
        exit.stderr
    );
}

/// Writes some items into a new container.
fn write_items(server: &Server) {
    let mut client = server.client();
    client.make_posts();
    for n in 0..5 {
        write(&mut client, n);
    }
}

#[test]
fn a_server_stopped_by_sigterm_exits_with_0_and_keeps_all_data() {
    let directory = tempfile::tempdir().expect("a directory");
    for round in 0..3 {
        let server = start_on(directory.path()).expect("it starts");
        let mut client = server.client();
        if round == 0 {
            client.make_posts();
        }
        (round * 10..(round + 1) * 10).for_each(|n| write(&mut client, n));
        let exit = server.stop();
        assert_eq!(exit.code, Some(0), "{}", exit.stderr);
        assert!(exit.stderr.contains("stopped"), "{}", exit.stderr);
    }
    let server = start_on(directory.path()).expect("it starts");
    assert_eq!(numbers(&server), (0..30).collect());
}

#[test]
fn the_emulator_key_is_not_served_to_other_machines() {
    let exit = expect_exit(start_at("0.0.0.0:0", &["--memory"]));
    assert_eq!(exit.code, EXIT_USAGE, "{}", exit.stderr);
    assert!(exit.stderr.contains("--key-file"), "{}", exit.stderr);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(
        file.path(),
        format!("{OWN_KEY}\nsecondary: {EMULATOR_KEY}\n"),
    )
    .expect("it is written");
    let exit = expect_exit(start_at(
        "0.0.0.0:0",
        &[
            "--memory",
            "--key-file",
            file.path().to_str().expect("UTF-8"),
        ],
    ));
    assert_eq!(exit.code, EXIT_USAGE, "{}", exit.stderr);
}

#[test]
fn an_account_key_replaces_the_emulator_key() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), OWN_KEY).expect("it is written");
    let server = start_at(
        "0.0.0.0:0",
        &[
            "--memory",
            "--key-file",
            file.path().to_str().expect("UTF-8"),
        ],
    )
    .expect("it starts");
    assert_eq!(server.key, OWN_KEY);
    let ask = |key: &str| {
        Client::connect(&server.address, key)
            .expect("it listens")
            .call(&Request::new("GET", "/"))
    };
    assert_eq!(ask(OWN_KEY).status, 200);
    assert_eq!(ask(EMULATOR_KEY).code(), (401, 0));
}

#[test]
fn an_invalid_key_file_is_refused_with_its_path() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "short").expect("it is written");
    let name = file.path().to_str().expect("UTF-8");
    let exit = expect_exit(start(&["--memory", "--key-file", name]));
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    assert!(exit.stderr.contains(name), "{}", exit.stderr);
}

/// The management API moves the clock ahead, and the next start has the clock of the machine.
#[test]
fn a_start_after_a_run_with_a_clock_ahead_says_so_and_the_repair_mends_the_times() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = start_on(directory.path()).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let years = 9 * 365 * 86_400_u64;
    let offset = format!(r#"{{"offsetSeconds":{years}}}"#);
    server.manager().ok("PUT", "/clock", &offset);
    write(&mut client, 0);
    let body = r#"{"id":"later","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#;
    client.create("/dbs/blog/colls", body);
    drop(client);
    server.stop();

    let server = start_on(directory.path()).expect("it starts");
    let mut client = server.client();
    write(&mut client, 3);
    let ts = |client: &mut Client, id: &str| {
        let read = client.call(&Request::new("GET", &item(id)).key("p0"));
        number(&read.json(), "_ts")
    };
    let (ahead, right) = (ts(&mut client, "i0"), ts(&mut client, "i3"));
    assert!(ahead - right > years / 2, "{ahead} {right}");
    drop(client);
    let told = server.stop().stderr;
    assert!(told.contains("days later than the clock"), "{told}");
    assert!(told.contains("orrery repair --clock"), "{told}");

    let (code, printed) = repair(directory.path(), &["--clock"]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(
        printed.contains("1 items") && printed.contains("2 databases"),
        "{printed}"
    );
    let (_, printed) = repair(directory.path(), &["--clock"]);
    assert!(printed.contains("nothing to repair"), "{printed}");
    let server = start_on(directory.path()).expect("it starts");
    let repaired = ts(&mut server.client(), "i0");
    assert!(
        repaired >= right && repaired - right < years / 2,
        "{repaired} {right}"
    );
}
