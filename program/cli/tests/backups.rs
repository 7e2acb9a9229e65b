//! Backups of a running server and of a directory that no server uses, and their restore.

use crate::data_dir::{copy, edit, files};
use crate::program::{Client, ITEMS, Manager, Request, Server, number, run, run_on, start, text};
use orrery_model::Json;
use orrery_test_wait::wait_for;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const BACKUPS: &str = "/backups";
const EXIT_DATA: Option<i32> = Some(4);
/// Clients that write while backups are made.
const WRITERS: u64 = 3;
/// Backups of the test under load, of which each fifth is interrupted; `cargo xtask long backups`
/// asks for more.
const ROUNDS: u64 = 4;
const VARIABLE: &str = "BACKUP_ROUNDS";

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn serve(directory: &Path) -> Server {
    start(&["--data-dir", path(directory), "--disk-reserve", "0"]).expect("it starts")
}

/// Runs an action on backups. Returns its exit code and what it printed.
fn backup(arguments: &[&str]) -> (Option<i32>, String) {
    run(&[&["backup"][..], arguments].concat())
}

#[track_caller]
fn done((code, printed): (Option<i32>, String)) -> String {
    assert_eq!(code, Some(0), "{printed}");
    printed
}

fn write(client: &mut Client, id: &str, bytes: usize) {
    let long = "x".repeat(bytes);
    let body = format!(r#"{{"id":"{id}","postId":"p","text":"{long}"}}"#);
    let written = client.call(&Request::new("POST", ITEMS).key("p").body(body));
    assert_eq!(written.status, 201, "{}", written.text());
}

/// Makes a backup of a running server. Returns its id.
fn made_by(manager: &mut Manager, target: &Path) -> String {
    let body = format!(r#"{{"target":"{}"}}"#, path(target));
    manager.ok("POST", BACKUPS, &body);
    let made = ended(manager);
    assert_eq!(text(&made, "status"), "done", "{made}");
    text(&made, "id")
}

fn ended(manager: &mut Manager) -> Json {
    let read = || manager.ok("GET", BACKUPS, "").json();
    wait_for("the end of the backup", read, |made| {
        text(made, "status") != "running"
    })
}

/// Restores a backup and returns the ids of its items. Nothing is found in the restored data.
fn restored(backups: &Path, id: &str) -> BTreeSet<String> {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    done(run_on("restore", &data, &[path(backups), "--backup", id]));
    done(run_on("verify", &data, &[]));
    serve(&data).item_ids().into_iter().collect()
}

/// Returns the number of writes that each writer has had acknowledged.
fn counts(writers: &[AtomicU64]) -> Vec<u64> {
    let counts = writers.iter().map(|one| one.load(Ordering::Relaxed));
    counts.collect()
}

/// Writes items one after the other, and counts those that are acknowledged.
fn write_until(server: &Server, writer: usize, acknowledged: &AtomicU64, is_over: &AtomicBool) {
    let mut client = server.client();
    while !is_over.load(Ordering::Relaxed) {
        let n = acknowledged.load(Ordering::Relaxed);
        write(&mut client, &format!("w{writer}-{n}"), 3_000);
        acknowledged.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn each_backup_under_load_is_the_state_of_one_moment() {
    let rounds = std::env::var(VARIABLE).map_or(ROUNDS, |rounds| rounds.parse().expect("a number"));
    let data = tempfile::tempdir().expect("a directory");
    let backups = tempfile::tempdir().expect("a directory");
    let mut server = serve(data.path());
    server.client().make_posts();
    let acknowledged: Vec<AtomicU64> = (0..WRITERS).map(|_| AtomicU64::new(0)).collect();
    for round in 0..rounds {
        let is_over = AtomicBool::new(false);
        let is_interrupted = round % 5 == 3;
        let (mut before, mut id) = (Vec::new(), String::new());
        std::thread::scope(|scope| {
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                let (server, is_over) = (&server, &is_over);
                scope.spawn(move || write_until(server, writer, acknowledged, is_over));
            }
            let least = || counts(&acknowledged).into_iter().min();
            let at_first = least();
            wait_for("writes", least, |least| *least > at_first);
            before = counts(&acknowledged);
            match is_interrupted {
                true => begin_slowly(&server, backups.path()),
                false => id = made_by(&mut server.manager(), backups.path()),
            }
            is_over.store(true, Ordering::Relaxed);
        });
        if is_interrupted {
            server.kill();
            server = serve(data.path());
        } else {
            let after = counts(&acknowledged);
            check_moment(&restored(backups.path(), &id), &before, &after);
        }
    }
    done(backup(&["verify", path(backups.path())]));
}

/// Begins a backup that takes long.
fn begin_slowly(server: &Server, backups: &Path) {
    let target = path(backups);
    let body = format!(r#"{{"target":"{target}","bytesPerSecond":1000}}"#);
    server.manager().ok("POST", BACKUPS, &body);
}

/// Checks that the items are those of one moment: of each writer all up to one, no fewer than were
/// acknowledged before the backup and no more than after it.
#[track_caller]
fn check_moment(ids: &BTreeSet<String>, before: &[u64], after: &[u64]) {
    for (writer, (before, after)) in before.iter().zip(after).enumerate() {
        let prefix = format!("w{writer}-");
        let own = ids.iter().filter(|id| id.starts_with(&prefix)).count() as u64;
        let has_no_gap = (0..own).all(|n| ids.contains(&format!("{prefix}{n}")));
        assert!(has_no_gap, "writer {writer}: a gap among {own} items");
        let bounds = *before..=*after;
        assert!(bounds.contains(&own), "writer {writer}: {own} {bounds:?}");
    }
}

#[test]
fn backups_are_listed_verified_pruned_and_restored_each_alone() {
    let data = tempfile::tempdir().expect("a directory");
    let place = tempfile::tempdir().expect("a directory");
    let backups = place.path().join("backups");
    let server = serve(data.path());
    let mut client = server.client();
    client.make_posts();
    let endpoint = format!("http://{}/", server.admin_address);
    let of_data = ["--data-dir", path(data.path())];
    let online = [&["--admin-endpoint", &endpoint][..], &of_data].concat();
    for n in 0..3 {
        write(&mut client, &format!("i{n}"), 2_000);
        let printed = done(backup(&[&["create", path(&backups)], &online[..]].concat()));
        assert!(printed.contains("are new"), "{printed}");
    }
    let archive = place.path().join("whole.tar.zst");
    let create_archive = [&["create", path(&archive)], &online[..]].concat();
    done(backup(&create_archive));
    let (code, printed) = backup(&create_archive);
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("whole.tar.zst"), "{printed}");
    drop(client);
    server.stop();

    // Without a server the directory is opened here.
    done(backup(
        &[&["create", path(&backups)], &of_data[..]].concat(),
    ));
    let listed = done(backup(&["list", path(&backups), "--json"]));
    let listed = orrery_model::json::parse(listed.as_bytes()).expect("JSON");
    let listed = listed.get("backups").and_then(Json::as_array);
    let listed = listed.expect("a list").to_vec();
    assert_eq!(listed.len(), 4);
    assert!(number(&listed[3], "newBytes") <= number(&listed[3], "bytes"));
    for (n, one) in listed.iter().enumerate() {
        let items = restored(&backups, &text(one, "id")).len();
        assert_eq!(items, (n + 1).min(3));
    }
    let of_archive = place.path().join("restored");
    done(run_on("restore", &of_archive, &[path(&archive)]));
    assert_eq!(serve(&of_archive).item_ids().len(), 3);

    let printed = done(backup(&["list", path(&backups)]));
    assert!(printed.contains("1 container with 3 items"), "{printed}");
    let printed = done(backup(&["prune", path(&backups), "--keep-last", "2"]));
    assert!(printed.contains(&text(&listed[0], "id")), "{printed}");
    let (code, printed) = backup(&["prune", path(&backups)]);
    assert_eq!(code, Some(2), "{printed}");
    done(backup(&["verify", path(&backups)]));
    let (code, printed) = backup(&["verify", path(&backups), "--backup", "none"]);
    assert_eq!(code, Some(2), "{printed}");
    assert!(printed.contains(&text(&listed[3], "id")), "{printed}");
}

#[test]
fn damaged_backups_and_used_directories_are_refused_by_name() {
    let data = tempfile::tempdir().expect("a directory");
    let place = tempfile::tempdir().expect("a directory");
    let backups = place.path().join("backups");
    let server = serve(data.path());
    server.client().make_posts();
    write(&mut server.client(), "a", 2_000);
    server.stop();
    let create =
        |target: &Path, data: &Path| backup(&["create", path(target), "--data-dir", path(data)]);
    done(create(&backups, data.path()));

    // A restore goes into a new directory only.
    let (code, printed) = run_on("restore", data.path(), &[path(&backups)]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    assert!(printed.contains("not empty"), "{printed}");
    serve(data.path()).stop();

    // A folder of something else, one with backups of another directory, and no data at all.
    let (code, printed) = create(&data.path().join("backups"), data.path());
    assert_eq!(code, Some(2), "{printed}");
    assert!(
        printed.contains("inside of the data directory"),
        "{printed}"
    );
    let (code, printed) = create(place.path(), data.path());
    assert_eq!(code, Some(2), "{printed}");
    let other = tempfile::tempdir().expect("a directory");
    serve(other.path()).stop();
    let (code, printed) = create(&backups, other.path());
    assert_eq!(code, Some(1), "{printed}");
    assert!(printed.contains("another"), "{printed}");
    let (code, printed) = create(&backups, place.path());
    assert_eq!(code, EXIT_DATA, "{printed}");
    assert!(printed.contains("there is no data"), "{printed}");

    // One flipped bit in the largest object.
    let damaged = place.path().join("damaged");
    copy(&backups, &damaged);
    let objects = files(&damaged.join("objects"));
    let length = |file: &&PathBuf| std::fs::metadata(file).expect("a file").len();
    let largest = objects.iter().max_by_key(length).expect("an object");
    edit(largest, |bytes| bytes[100] ^= 1);
    let (code, printed) = backup(&["verify", path(&damaged)]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    assert!(printed.contains(path(largest)), "{printed}");
    assert!(printed.contains("restored: none"), "{printed}");
    let nowhere = place.path().join("nowhere");
    let (code, printed) = run_on("restore", &nowhere, &[path(&damaged)]);
    assert_eq!(code, EXIT_DATA, "{printed}");
    let refused = start(&["--data-dir", path(&nowhere)]).map(|_| ());
    let refused = refused.expect_err("the restore did not finish");
    assert_eq!(refused.code, EXIT_DATA, "{}", refused.stderr);
}

#[test]
fn the_management_api_makes_one_backup_at_a_time_and_says_what_it_cannot_copy() {
    let memory = start(&["--memory"]).expect("it starts");
    let place = tempfile::tempdir().expect("a directory");
    let target = format!(r#"{{"target":"{}"}}"#, path(&place.path().join("backups")));
    let mut manager = memory.manager();
    manager.refused("GET", BACKUPS, "", 404);
    let refused = manager.refused("POST", BACKUPS, r#"{"target":"here"}"#, 400);
    assert!(refused.contains("absolute"), "{refused}");
    manager.refused("POST", BACKUPS, "{}", 400);
    manager.ok("POST", BACKUPS, &target);
    let made = ended(&mut manager);
    assert_eq!(text(&made, "status"), "failed");
    assert!(text(&made, "failure").contains("memory"), "{made}");

    let data = tempfile::tempdir().expect("a directory");
    let server = serve(data.path());
    server.client().make_posts();
    let mut manager = server.manager();
    let inside = format!(r#"{{"target":"{}/b"}}"#, path(data.path()));
    let refused = manager.refused("POST", BACKUPS, &inside, 400);
    assert!(refused.contains("inside"), "{refused}");
    begin_slowly(&server, &place.path().join("slow"));
    let refused = manager.refused("POST", BACKUPS, &target, 409);
    assert!(refused.contains("running"), "{refused}");
    // A server that ends waits for no backup.
    drop(manager);
    let ended = server.stop();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}
