//! The continuous backup of a running server, and the restore of each of its seconds.

use crate::program::{Client, Exit, ITEMS, Request, Server, number, run, run_on, start, text};
use orrery_model::Json;
use orrery_model::json::parse;
use orrery_test_wait::wait_for;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Clients that write.
const WRITERS: usize = 3;
/// Seconds that are written, of which each is restored; `cargo xtask long moments` asks for more.
const SECONDS: u64 = 6;
const VARIABLE: &str = "MOMENTS_SECONDS";
/// Seconds after which the server is killed.
const KILL_INTERVAL: u64 = 4;

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn serve(data: &Path, folder: &Path) -> Server {
    start_with(data, folder).expect("it starts")
}

fn start_with(data: &Path, folder: &Path) -> Result<Server, Exit> {
    let options = ["--continuous-backup-interval", "1", "--disk-reserve", "0"];
    let places = [
        "--data-dir",
        path(data),
        "--continuous-backup",
        path(folder),
    ];
    start(&[&places[..], &options].concat())
}

/// The writes of one client in their order: the id of each item and the second of the server in
/// which it was written.
type Written = Vec<(String, u64)>;

/// Writes items one after the other until the server ends or `is_over`.
fn write_until(server: &Server, writer: usize, written: &Mutex<Written>, is_over: &AtomicBool) {
    let mut client = server.client();
    while !is_over.load(Ordering::Relaxed) {
        let id = format!("w{writer}-{}", written.lock().expect("no panic").len());
        let body = format!(
            r#"{{"id":"{id}","postId":"p","text":"{}"}}"#,
            "x".repeat(2_000)
        );
        let request = Request::new("POST", ITEMS).key("p").body(body);
        let Ok(answer) = client.try_call(&request) else {
            return;
        };
        assert_eq!(answer.status, 201, "{}", answer.text());
        let second = number(&answer.json(), "_ts");
        written.lock().expect("no panic").push((id, second));
    }
}

/// Lets all writers write until the server's clock has passed some seconds. Returns the last second
/// in which something was written.
fn write_for(server: &Server, seconds: u64, written: &[Mutex<Written>]) -> u64 {
    let is_over = AtomicBool::new(false);
    let last = || {
        let seconds = written
            .iter()
            .map(|own| own.lock().expect("no panic").last()?.1.into());
        seconds.max().flatten().unwrap_or(0)
    };
    std::thread::scope(|scope| {
        for (writer, written) in written.iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || write_until(server, writer, written, is_over));
        }
        let began = wait_for("a write", last, |second| *second > 0);
        wait_for("writes for some seconds", last, |second| {
            *second >= began + seconds
        });
        is_over.store(true, Ordering::Relaxed);
    });
    last()
}

/// Returns the windows of the continuous backup.
fn windows(folder: &Path) -> Vec<Json> {
    let (code, printed) = run(&["backup", "list", path(folder), "--json"]);
    assert_eq!(code, Some(0), "{printed}");
    let listed = parse(printed.as_bytes()).expect("JSON");
    let windows = listed.get("continuous").and_then(Json::as_array);
    windows.expect("a list").to_vec()
}

/// Waits until a second of the past can be restored, so that the present one can be.
fn wait_for_window(folder: &Path) {
    let has_second = |window: &Json| {
        window.get("fromSeconds").is_some_and(is_number)
            && number(window, "fromSeconds") <= number(window, "toSeconds")
    };
    wait_for(
        "a second that can be restored",
        || windows(folder),
        |windows| windows.last().is_some_and(has_second),
    );
}

/// Restores a second into a new directory.
fn restored(folder: &Path, data: &Path, second: u64) -> (Option<i32>, String) {
    let time = time_text(second);
    run_on("restore", data, &[path(folder), "--to", &time])
}

fn time_text(second: u64) -> String {
    let second = i64::try_from(second).expect("a time");
    jiff::Timestamp::from_second(second)
        .expect("a time")
        .to_string()
}

/// Checks that the items of a second are there: those written before it, and none written later.
/// The last write of a writer in the second may be part of the next second.
fn check_second(folder: &Path, second: u64, written: &[Mutex<Written>]) {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let (code, printed) = restored(folder, &data, second);
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = run_on("verify", &data, &[]);
    assert_eq!(code, Some(0), "{printed}");
    let server = start(&["--data-dir", path(&data), "--disk-reserve", "0"]).expect("it starts");
    let ids = server.item_ids();
    let mut counted = 0;
    for own in written {
        let own = own.lock().expect("no panic");
        for (n, (id, at)) in own.iter().enumerate() {
            let is_there = ids.binary_search(id).is_ok();
            counted += usize::from(is_there);
            // The next write began after this one was acknowledged.
            let is_certain = own.get(n + 1).is_some_and(|(_, next)| *next <= second);
            assert!(is_there || !is_certain, "{second}: {id} of {at} is missing");
            assert!(
                !is_there || *at <= second,
                "{second}: {id} of {at} is there"
            );
        }
    }
    assert_eq!(
        counted,
        ids.len(),
        "{second}: there are items that no writer wrote"
    );
}

#[test]
fn each_second_is_restored_as_it_was_also_after_kills() {
    let seconds = std::env::var(VARIABLE).map_or(SECONDS, |text| text.parse().expect("a number"));
    let place = tempfile::tempdir().expect("a directory");
    let (data, folder) = (place.path().join("data"), place.path().join("backups"));
    let mut server = serve(&data, &folder);
    server.client().make_posts();
    wait_for_window(&folder);
    let written: Vec<Mutex<Written>> = (0..WRITERS).map(|_| Mutex::default()).collect();
    let mut last = 0;
    let mut left = seconds;
    while left > 0 {
        let part = left.min(KILL_INTERVAL);
        last = write_for(&server, part, &written);
        left -= part;
        if left > 0 {
            server.kill();
            server = serve(&data, &folder);
        }
    }
    let metric = server
        .manager()
        .metric("orrery_continuous_backup_lag_seconds");
    assert!((0.0..60.0).contains(&metric), "{metric}");
    wait_for(
        "the last second in the log",
        || windows(&folder),
        |windows| {
            windows
                .last()
                .is_some_and(|window| number(window, "toSeconds") >= last)
        },
    );
    assert_eq!(windows(&folder).len(), 1, "a kill leaves no gap");
    let window = windows(&folder).pop().expect("one");
    let from = number(&window, "fromSeconds");
    let first = written
        .iter()
        .map(|own| own.lock().expect("no panic")[0].1)
        .min();
    for second in from.max(first.unwrap_or(0))..=last {
        check_second(&folder, second, &written);
    }
    let (code, printed) = run(&["backup", "verify", path(&folder)]);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains(" 0 with problems"), "{printed}");
}

fn is_number(json: &Json) -> bool {
    json.as_f64().is_some()
}

#[test]
fn what_was_deleted_comes_back_and_the_last_write_before_a_stop_is_there() {
    let place = tempfile::tempdir().expect("a directory");
    let (data, folder) = (place.path().join("data"), place.path().join("backups"));
    let server = serve(&data, &folder);
    let mut client = server.client();
    client.make_posts();
    wait_for_window(&folder);
    let second = write_one(&mut client, "kept");
    let status = || server.manager().get("/status").json();
    let later = wait_for("the next second", status, |status| {
        let backup = status.get("continuousBackup").expect("the backup");
        backup.get("reachedSeconds").is_some_and(is_number)
            && number(backup, "reachedSeconds") >= second
    });
    let backup = later.get("continuousBackup").expect("the backup");
    let from = number(windows(&folder).last().expect("a window"), "fromSeconds");
    assert_eq!(number(backup, "restorableFromSeconds"), from);
    let metric = "orrery_continuous_backup_restorable_from_seconds";
    assert_eq!(server.manager().metric(metric) as u64, from);
    assert_eq!(text(backup, "folder"), path(&folder));
    assert_eq!(number(backup, "failures"), 0);
    let deleted = client.call(&Request::new("DELETE", "/dbs/blog"));
    assert_eq!(deleted.status, 204);
    client.make_posts();
    write_one(&mut client, "last");
    drop(client);
    server.stop();

    let before = place.path().join("before");
    let (code, printed) = restored(&folder, &before, second);
    assert_eq!(code, Some(0), "{printed}");
    assert!(printed.contains(&time_text(second)), "{printed}");
    assert_eq!(start_plain(&before).item_ids(), ["kept"]);
    let latest = place.path().join("latest");
    let (code, printed) = run_on("restore", &latest, &[path(&folder), "--to", "latest"]);
    assert_eq!(code, Some(0), "{printed}");
    assert_eq!(start_plain(&latest).item_ids(), ["last"]);

    // The restored data is another store, whose log needs a folder of its own.
    let refused = start_with(&latest, &folder)
        .map(|_| ())
        .expect_err("another store");
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("another data directory"),
        "{}",
        refused.stderr
    );
}

fn start_plain(data: &Path) -> Server {
    start(&["--data-dir", path(data), "--disk-reserve", "0"]).expect("it starts")
}

/// Writes an item. Returns the second in which it was written.
fn write_one(client: &mut Client, id: &str) -> u64 {
    let body = format!(r#"{{"id":"{id}","postId":"p"}}"#);
    let answer = client.call(&Request::new("POST", ITEMS).key("p").body(body));
    assert_eq!(answer.status, 201, "{}", answer.text());
    number(&answer.json(), "_ts")
}

#[test]
fn folders_and_moments_that_cannot_be_used_are_refused_by_name() {
    let place = tempfile::tempdir().expect("a directory");
    let (data, folder) = (place.path().join("data"), place.path().join("backups"));
    let inside = start_with(&data, &data.join("backups"))
        .map(|_| ())
        .expect_err("inside");
    assert_eq!(inside.code, Some(2), "{}", inside.stderr);
    assert!(
        inside.stderr.contains("inside of the data directory"),
        "{}",
        inside.stderr
    );
    let foreign = start_with(&data, place.path())
        .map(|_| ())
        .expect_err("a foreign folder");
    assert_eq!(foreign.code, Some(2), "{}", foreign.stderr);
    assert!(
        foreign.stderr.contains("orrery-backups.json"),
        "{}",
        foreign.stderr
    );
    let memory = ["--memory", "--continuous-backup", path(&folder)];
    let memory = start(&memory).map(|_| ()).expect_err("in memory");
    assert_eq!(memory.code, Some(2), "{}", memory.stderr);

    let server = serve(&data, &folder);
    server.client().make_posts();
    wait_for_window(&folder);
    server.stop();
    let window = windows(&folder).pop().expect("one");
    let (from, to) = (number(&window, "fromSeconds"), number(&window, "toSeconds"));
    for (second, nearest) in [(from - 100, from), (to + 100, to)] {
        let target = place.path().join("target");
        let (code, printed) = restored(&folder, &target, second);
        assert_eq!(code, Some(2), "{printed}");
        assert!(printed.contains(&time_text(nearest)), "{printed}");
        assert!(!target.join("store").exists());
    }
    let (code, printed) = run_on(
        "restore",
        &place.path().join("t"),
        &[path(&folder), "--to", "x"],
    );
    assert_eq!(code, Some(2), "{printed}");
    let (_, printed) = run(&["backup", "list", path(&folder)]);
    assert!(
        printed.contains("Continuous backup: each second from"),
        "{printed}"
    );
}
