//! Backups of the PostgreSQL clusters of a fleet, and what is restored of them.

use crate::fleet::Fleet;
use crate::program::{self, Client, ITEMS, Request, run};
use crate::servers::{self, Server};
use orrery_storage_postgres::ClusterConfig;
use orrery_test_wait::wait_for;
use std::path::Path;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[track_caller]
fn done(arguments: &[&str]) -> String {
    let (code, printed) = run(arguments);
    assert_eq!(code, Some(0), "{printed}");
    printed
}

#[track_caller]
fn refused(arguments: &[&str], code: i32, part: &str) {
    let (actual, printed) = run(arguments);
    assert_eq!(actual, Some(code), "{printed}");
    assert!(printed.contains(part), "{printed}");
}

/// Starts a node on one cluster. The folder keeps its cluster file and its data directory.
fn node(folder: &Path, cluster: &ClusterConfig) -> program::Server {
    let file = folder.join("clusters.toml");
    let clusters = servers::cluster_file(std::slice::from_ref(cluster));
    std::fs::write(&file, clusters).expect("the file is written");
    let data = folder.join("node");
    let store = ["--store", "postgres", "--cluster-file", text(&file)];
    let place = ["--node", "a", "--data-dir", text(&data)];
    program::start(&[store, place].concat()).expect("it starts")
}

fn write(client: &mut Client, id: &str) {
    let body = format!(r#"{{"id":"{id}","postId":"p"}}"#);
    let written = client.call(&Request::new("POST", ITEMS).key("p").body(body));
    assert_eq!(written.status, 201, "{}", written.text());
}

/// Returns the second on the clock of a server.
fn second(server: &Server) -> u64 {
    let rows = server.sql("SELECT floor(extract(epoch FROM clock_timestamp()))::bigint");
    rows[0][0].parse().expect("a number")
}

/// Waits until another second than this one has begun, and returns this one.
fn end_of_second(server: &Server) -> u64 {
    let now = second(server);
    let later = || second(server);
    wait_for("the next second", later, |later| *later > now);
    now
}

/// Returns the ids of the items in a PostgreSQL that was restored.
fn restored_items(cluster: &ClusterConfig, arguments: &[&str]) -> Vec<String> {
    let server = Server::start_restored(|data| {
        done(&[&["restore"][..], arguments, &["--data-dir", text(data)]].concat());
    });
    let folder = tempfile::tempdir().expect("a folder");
    let hosts = server.config().hosts;
    let restored = ClusterConfig {
        hosts,
        ..cluster.clone()
    };
    node(folder.path(), &restored).item_ids()
}

#[test]
fn a_cluster_is_restored_as_of_the_end_of_its_backup_and_as_of_each_second_behind_it() {
    let archive = servers::server_folder();
    let command = format!("archive_command='cp %p {}/%f'", text(archive.path()));
    let server = Server::start(&["-c", "fsync=off", "-c", "archive_mode=on", "-c", &command]);
    let cluster = server.config();
    let folder = tempfile::tempdir().expect("a folder");
    let running = node(folder.path(), &cluster);
    let mut client = running.client();
    client.make_posts();
    write(&mut client, "before");

    let backups = folder.path().join("backups");
    let backups = text(&backups);
    let file = folder.path().join("clusters.toml");
    let create = ["backup", "create", backups, "--cluster-file", text(&file)];
    let printed = done(&create);
    assert!(printed.contains("test: "), "{printed}");
    assert!(
        printed.contains("needed from 0000000100000000"),
        "{printed}"
    );
    done(&["backup", "verify", backups]);

    end_of_second(&server);
    write(&mut client, "after");
    let moment = end_of_second(&server);
    write(&mut client, "later");
    server.archive_now();
    drop(client);
    running.stop();

    let of_cluster = [backups, "--cluster", "test"];
    assert_eq!(restored_items(&cluster, &of_cluster), ["before"]);
    let moment = orrery_backup::time_text(moment);
    let to = ["--wal-archive", text(archive.path()), "--to", &moment];
    let as_of = restored_items(&cluster, &[&of_cluster[..], &to].concat());
    assert_eq!(as_of, ["after", "before"]);

    let early = [
        "--wal-archive",
        text(archive.path()),
        "--to",
        "2020-01-01T00:00:00Z",
    ];
    let new = folder.path().join("new");
    let place = ["--data-dir", text(&new)];
    let early = [&["restore"][..], &of_cluster, &early, &place].concat();
    refused(&early, 2, "can restore times from");
    let late = [
        "--wal-archive",
        text(archive.path()),
        "--to",
        "2100-01-01T00:00:00Z",
    ];
    let late = [&["restore"][..], &of_cluster, &late, &place].concat();
    refused(&late, 2, "in the future");
    let other = ["--wal-archive", text(folder.path())];
    let other = [&["restore"][..], &of_cluster, &other, &place].concat();
    refused(&other, 2, "with which the recovery of the cluster begins");
    assert!(!new.exists());

    // Another cluster of the same name.
    let server = Server::start(&["-c", "fsync=off"]);
    let clusters = servers::cluster_file(&[server.config()]);
    std::fs::write(&file, clusters).expect("the file is written");
    refused(&create, 2, "of another cluster 'test'");
    assert_eq!(done(&["backup", "list", backups]).lines().count(), 1);
}

#[test]
fn backups_of_several_clusters_are_listed_verified_pruned_and_restored_to_one_time_only() {
    let fleet = Fleet::new(&["first", "second"]);
    let (file, backups) = (fleet.file(), fleet.path("backups"));
    let create = ["backup", "create", &backups, "--cluster-file", &file];
    let made = done(&create);
    assert!(
        made.contains("second writes no archive of WAL (archive_mode"),
        "{made}"
    );
    end_of_second(servers::server());
    done(&create);
    let listed = done(&["backup", "list", &backups]);
    assert_eq!(listed.lines().count(), 2, "{listed}");
    assert!(listed.contains("first, second"), "{listed}");
    let newest = listed
        .lines()
        .last()
        .and_then(|line| line.split(' ').next());
    let newest = newest.expect("an id").to_owned();

    let new = fleet.path("new");
    let restore = ["restore", &backups, "--data-dir", &new];
    refused(&restore, 2, "name a cluster with --cluster");
    let of = |name| [&restore[..], &["--cluster", name]].concat();
    refused(&of("third"), 2, "it has first, second");
    refused(&of("first"), 2, "to one time with --to and --wal-archive");
    let latest = [
        &of("first")[..],
        &["--wal-archive", "/wal", "--to", "latest"],
    ]
    .concat();
    refused(&latest, 2, "no file 0000000100000000");
    assert!(!Path::new(&new).exists());

    let pruned = done(&["backup", "prune", &backups, "--keep-last", "1"]);
    assert!(
        pruned.contains("The archive of second is needed from"),
        "{pruned}"
    );
    let listed = done(&["backup", "list", &backups]);
    assert!(
        listed.starts_with(&newest) && listed.lines().count() == 1,
        "{listed}"
    );

    // A file that changed is found, and named by PostgreSQL.
    let control = format!("{backups}/{newest}/second/PG_VERSION");
    std::fs::write(&control, "14\n").expect("the file is written");
    refused(&["backup", "verify", &backups], 4, "PG_VERSION");
    refused(
        &["backup", "verify", &backups, "--backup", "none"],
        2,
        &newest,
    );
}

#[test]
fn a_failing_archive_and_a_standby_that_was_behind_are_told_and_tablespaces_refused() {
    let server = Server::start(&[
        "-c",
        "fsync=off",
        "-c",
        "archive_mode=on",
        "-c",
        "archive_command=false",
    ]);
    let standby = server.start_standby();
    standby.sql("SELECT pg_wal_replay_pause()");
    server.sql("CREATE TABLE behind AS SELECT generate_series(1, 1000)");
    server.sql("SELECT pg_switch_wal()");
    let failures = "SELECT failed_count FROM pg_stat_archiver";
    server.wait_for_sql(failures, |rows| rows[0][0] != "0");

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("clusters.toml");
    let both = server.config_at(&[server.port, standby.port]);
    let clusters = servers::cluster_file(&[both]);
    std::fs::write(&file, clusters).expect("the file is written");
    let backups = folder.path().join("backups");
    let create = ["backup", "create", text(&backups)];
    let create = [&create[..], &["--cluster-file", text(&file)]].concat();
    let of_standby = done(&[&create[..], &["--from-standby"]].concat());
    let behind = "the standby of test that was copied was behind";
    assert!(of_standby.contains(behind), "{of_standby}");
    // A second has one backup.
    end_of_second(&server);
    let of_primary = done(&create);
    assert!(!of_primary.contains(behind), "{of_primary}");
    let failing = "test could not archive 0000000100000000";
    assert!(of_primary.contains(failing), "{of_primary}");

    let place = servers::server_folder();
    let place = text(place.path());
    server.sql(&format!("CREATE TABLESPACE apart LOCATION '{place}'"));
    refused(&create, 1, "not supported: apart;");
}

#[test]
fn what_is_no_fleet_and_no_folder_of_its_backups_is_refused() {
    let fleet = Fleet::new(&["main"]);
    let file = fleet.file();
    let used = fleet.path("");
    refused(
        &["backup", "create", &used, "--cluster-file", &file],
        2,
        "something else",
    );
    let other = fleet.path("other");
    refused(
        &["backup", "create", &other, "--cluster-file", &used],
        2,
        "",
    );
    for place in ["s3://bucket/fleet", "fleet.tar.zst"] {
        let create = ["backup", "create", place, "--cluster-file", &file];
        refused(&create, 2, "name a folder");
    }
    let slow = ["--cluster-file", &file, "--bytes-per-second", "1000"];
    refused(
        &[&["backup", "create", &other][..], &slow].concat(),
        2,
        "pg_basebackup takes",
    );
    let user = ["--cluster-file", &file, "--user", "nobody"];
    refused(
        &[&["backup", "create", &other][..], &user].concat(),
        1,
        "needs REPLICATION",
    );
    let listed = done(&["backup", "list", &other]);
    assert!(listed.contains("There is no backup in"), "{listed}");
    let cluster = ["--cluster", "main", "--data-dir", &fleet.path("new")];
    refused(
        &[&["restore", &used][..], &cluster].concat(),
        2,
        "no backups of a fleet",
    );
}
