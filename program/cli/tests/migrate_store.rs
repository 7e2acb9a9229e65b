//! `orrery migrate-store` with a PostgreSQL server: there and back, interrupted, and refused.

use crate::fleet::{Fleet, is_empty, migration, run};
use crate::program::{self, Client, ITEMS, Request, Server, item, number, start, start_on, text};
use orrery_test_wait::wait_for;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const CONTAINER: &str = "/dbs/blog/colls/posts";
const COUNT: &str = "function () { getContext().getResponse().setBody('counted'); }";

/// Positions that a client has kept: tokens, a continuation and an etag.
struct Kept {
    session: String,
    feed: String,
    query: String,
    etag: String,
}

fn feed(continuation: Option<&str>) -> Request {
    let request = Request::new("GET", ITEMS)
        .header("A-IM", "Incremental feed")
        .header("x-ms-documentdb-partitionkeyrangeid", "1")
        .header("x-ms-max-item-count", "3");
    match continuation {
        Some(continuation) => request.header("If-None-Match", continuation),
        None => request,
    }
}

/// Returns the ids of all changes after a position.
fn changes(client: &mut Client, position: &str) -> Vec<String> {
    let (mut ids, mut position) = (Vec::new(), position.to_owned());
    loop {
        let answer = client.call(&feed(Some(&position)));
        if answer.status == 304 {
            return ids;
        }
        assert_eq!(answer.status, 200, "{}", answer.text());
        ids.extend(answer.rows().iter().map(|row| text(row, "id")));
        position = answer.header("etag").expect("a position").to_owned();
    }
}

fn query() -> Request {
    Request::query(ITEMS, "SELECT VALUE c.id FROM c").header("x-ms-max-item-count", "7")
}

/// Fills an account: two containers, one of them with a split partition, a stored procedure, a
/// user. Returns what a client keeps.
fn fill(server: &Server) -> Kept {
    let mut client = server.client();
    client.make_posts();
    client.create("/dbs", r#"{"id":"other"}"#);
    let other = r#"{"id":"empty","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
    client.create("/dbs/other/colls", other);
    client.make_procedure("count", COUNT);
    client.create("/dbs/blog/users", r#"{"id":"ada"}"#);
    for n in 0..60 {
        client.create(ITEMS, &format!(r#"{{"id":"i{n}","postId":"p{n}"}}"#));
    }
    let mut manager = server.manager();
    let begun = manager.ok("POST", &format!("{CONTAINER}/partitions/0/split"), "{}");
    let path = format!("/operations/{}", number(&begun.json(), "id"));
    let operation = || manager.get(&path).json();
    wait_for("the end of the split", operation, |operation| {
        operation.get("next").is_none()
    });
    assert_eq!(client.range_ids(CONTAINER), ["1", "2"]);

    let written = client.call(&Request::new("POST", ITEMS).body(r#"{"id":"z","postId":"z"}"#));
    assert_eq!(written.status, 201, "{}", written.text());
    let header = |answer: &program::Answer, name: &str| {
        let value = answer.header(name);
        value.unwrap_or_else(|| panic!("no {name}")).to_owned()
    };
    Kept {
        session: header(&written, "x-ms-session-token"),
        etag: header(&written, "etag"),
        feed: header(&client.call(&feed(None)), "etag"),
        query: header(&client.call(&query()), "x-ms-continuation"),
    }
}

/// Answers to the requests of a client that goes on with what it has kept.
fn view(server: &Server, kept: &Kept) -> Vec<String> {
    let mut client = server.client();
    let read = Request::new("GET", &item("z"))
        .key("z")
        .header("x-ms-session-token", kept.session.as_str());
    let read = client.call(&read);
    assert_eq!(read.status, 200, "{}", read.text());
    assert_eq!(read.header("etag"), Some(kept.etag.as_str()));
    // A token that the server has not reached would be refused with 404.
    let unchanged = Request::new("GET", &item("z"))
        .key("z")
        .header("If-None-Match", kept.etag.as_str());
    assert_eq!(client.call(&unchanged).status, 304);
    let rest = query().header("x-ms-continuation", kept.query.as_str());
    let rest = client.pages(&rest).0;
    assert_eq!(rest.len(), 61 - 7);
    let path = format!("{CONTAINER}/sprocs/count");
    let counted = client.call(&Request::new("POST", &path).key("p1").body("[]"));
    assert_eq!(counted.text(), r#""counted""#);
    let mut all = vec![read.text()];
    all.extend(rest.iter().map(orrery_model::Json::to_text));
    all.extend(changes(&mut client, &kept.feed));
    for path in ["/dbs", "/dbs/blog/users", "/dbs/other/colls", CONTAINER] {
        all.push(client.call(&Request::new("GET", path)).text());
    }
    all
}

#[test]
fn data_goes_to_clusters_and_back_and_clients_go_on() {
    let fleet = Fleet::new(&["first", "second"]);
    let (source, back) = (fleet.path("source"), fleet.path("back"));
    let server = start_on(Path::new(&source)).expect("it starts");
    let kept = fill(&server);
    let before = view(&server, &kept);

    // A directory that a server uses is refused.
    let busy = run(&migration("postgres", &source, &fleet.file()));
    assert_eq!(busy.code, Some(4), "{busy:?}");
    assert_eq!(server.stop().code, Some(0));
    let done = run(&migration("postgres", &source, &fleet.file()));
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.stdout.contains("are the same in source and target"),
        "{done:?}"
    );
    assert!(done.stdout.contains("source/admin.key"), "{done:?}");

    // The source has none of the writes that follow, and says so.
    let stale = start_on(Path::new(&source)).err().expect("it is refused");
    assert_eq!(stale.code, Some(4), "{stale:?}");
    assert!(stale.stderr.contains("--accept-stale"), "{stale:?}");
    let old = start(&["--data-dir", &source, "--accept-stale"]).expect("it starts");
    assert_eq!(view(&old, &kept), before);
    let end = old.stop();
    assert!(
        end.stderr.contains("has none of the later writes"),
        "{end:?}"
    );

    let node = fleet.start("a").expect("it starts");
    assert_eq!(view(&node, &kept), before);
    // Clusters that a node uses are refused.
    let busy = run(&migration("directory", &back, &fleet.file()));
    assert_eq!(busy.code, Some(1), "{busy:?}");
    assert!(busy.stderr.contains("the node 'a'"), "{busy:?}");
    assert_eq!(node.stop().code, Some(0));
    // So is a target with other data: the catalog of the clusters has changed since, or not.
    let again = run(&migration("postgres", &source, &fleet.file()));
    assert_ne!(again.code, Some(0), "{again:?}");

    // The mark makes the directory no foreign one, and goes with the copy back into the directory.
    std::fs::remove_dir_all(Path::new(&source).join("store")).expect("the old data");
    std::fs::remove_file(Path::new(&source).join("HOLDS-DATA")).expect("its mark");
    let done = run(&migration("directory", &source, &fleet.file()));
    assert_eq!(done.code, Some(0), "{done:?}");
    let server = start_on(Path::new(&source)).expect("it starts");
    assert_eq!(view(&server, &kept), before);
    assert_eq!(server.stop().code, Some(0));

    let done = run(&migration("directory", &back, &fleet.file()));
    assert_eq!(done.code, Some(0), "{done:?}");
    let server = start_on(Path::new(&back)).expect("it starts");
    assert_eq!(view(&server, &kept), before);
}

/// Starts a migration and kills it after its first line. Returns true if it had not ended.
fn kill_early(arguments: &[&str]) -> bool {
    let mut process = Command::new(env!("CARGO_BIN_EXE_orrery"))
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(process.stderr.take().expect("a pipe")).lines();
    let copied = lines
        .map_while(Result::ok)
        .any(|line| line.contains(" copied "));
    assert!(copied, "a partition is copied");
    process.kill().expect("it is killed");
    !process.wait().expect("it ends").success()
}

#[test]
fn a_killed_migration_goes_on_and_no_server_starts_meanwhile() {
    let fleet = Fleet::new(&["first", "second"]);
    let (source, other) = (fleet.path("source"), fleet.path("other"));
    for directory in [&source, &other] {
        let server = start_on(Path::new(directory)).expect("it starts");
        let mut client = server.client();
        client.make_posts();
        for n in 0..20 {
            let body =
                format!(r#"{{"id":"c{n}","partitionKey":{{"paths":["/pk"],"kind":"Hash"}}}}"#);
            client.create("/dbs/blog/colls", &body);
            let path = format!("/dbs/blog/colls/c{n}/docs");
            let one = Request::new("POST", &path).key("p");
            let created = client.call(&one.body(r#"{"id":"one","pk":"p"}"#));
            assert_eq!(created.status, 201, "{}", created.text());
        }
        assert_eq!(server.stop().code, Some(0));
    }
    let file = fleet.file();
    let there = migration("postgres", &source, &file);
    // A process that is faster than the kill is tried again.
    while !kill_early(&there) {
        fleet.empty();
    }

    let refused = fleet.start("a").err().expect("it is refused");
    assert_eq!(refused.code, Some(4), "{refused:?}");
    assert!(refused.stderr.contains("was not completed"), "{refused:?}");
    let foreign = run(&migration("postgres", &other, &file));
    assert_eq!(foreign.code, Some(4), "{foreign:?}");
    assert!(foreign.stderr.contains("another source"), "{foreign:?}");

    let done = run(&there);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("complete before"), "{done:?}");
    let node = fleet.start("a").expect("it starts");
    let one = Request::new("GET", "/dbs/blog/colls/c19/docs/one").key("p");
    assert_eq!(node.client().call(&one).status, 200);
    assert_eq!(node.stop().code, Some(0));
    assert_ne!(fleet.value("second", "SELECT count(*) FROM SCHEMA.kv"), "0");

    // The way back is interrupted too.
    let back = fleet.path("back");
    let there = migration("directory", &back, &file);
    while !kill_early(&there) {
        std::fs::remove_dir_all(&back).expect("it is removed");
    }
    let refused = start_on(Path::new(&back)).err().expect("it is refused");
    assert!(refused.stderr.contains("was not completed"), "{refused:?}");
    let done = run(&there);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(start_on(Path::new(&back)).is_ok());
}

#[test]
fn wrong_sources_and_contradicting_options_are_refused_before_a_directory_is_made() {
    let fleet = Fleet::new(&["first"]);
    let file = fleet.file();
    let missing = fleet.path("missing");
    let done = run(&migration("postgres", &missing, &file));
    assert_eq!(done.code, Some(4), "{done:?}");
    assert!(done.stderr.contains("there is no data in"), "{done:?}");
    assert!(is_empty(&missing));

    let no_file = fleet.path("none.toml");
    let contradictions: [&[&str]; 9] = [
        &["--store", "postgres", "--cluster-file", &file, "--memory"],
        &[
            "--store",
            "postgres",
            "--cluster-file",
            &file,
            "--disk-reserve",
            "1",
        ],
        &[
            "--store",
            "postgres",
            "--cluster-file",
            &file,
            "--scrub-rate",
            "1",
        ],
        &[
            "--store",
            "postgres",
            "--cluster-file",
            &file,
            "--lease-seconds",
            "1",
        ],
        &["--lease-seconds", "3"],
        &["--store", "postgres", "--cluster-file", &no_file],
        &["--store", "postgres"],
        &["--store", "directory", "--cluster-file", &file],
        &["--node", "a"],
    ];
    for (number, options) in contradictions.iter().enumerate() {
        let directory = fleet.path(&format!("data-{number}"));
        let own: &[&str] = match options.contains(&"--memory") {
            true => &[],
            false => &["--data-dir", &directory],
        };
        let exit = program::start(&[*options, own].concat());
        let exit = exit.err().unwrap_or_else(|| panic!("{options:?} starts"));
        assert_eq!(exit.code, Some(2), "{options:?}: {exit:?}");
        assert!(
            !Path::new(&directory).exists(),
            "{options:?} made a directory"
        );
    }
}

#[test]
fn the_cluster_file_may_lie_in_the_data_directory_of_a_node() {
    let fleet = Fleet::new(&["first"]);
    let directory = fleet.path("");
    let file = fleet.file();
    let options = ["--store", "postgres", "--cluster-file", &file];
    let own = ["--data-dir", &directory];
    let node = program::start(&[&options[..], &own[..]].concat()).expect("it starts");
    assert_eq!(node.stop().code, Some(0));
}
