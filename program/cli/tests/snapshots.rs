//! Snapshots of the management API, as test suites use them: taken once and restored before each
//! test, also across kills of the server.

use crate::program::{Client, ITEMS, Manager, Request, item, number, start, start_on, text};
use orrery_model::Json;

fn write(id: &str, n: u32) -> Request {
    let body = format!(r#"{{"id":"{id}","postId":"{id}","n":{n}}}"#);
    Request::new("POST", ITEMS)
        .key(id)
        .header("x-ms-documentdb-is-upsert", "True")
        .body(body)
}

fn value(client: &mut Client, id: &str) -> Option<u64> {
    let answer = client.call(&Request::new("GET", &item(id)).key(id));
    (answer.status == 200).then(|| number(&answer.json(), "n"))
}

#[test]
fn a_snapshot_is_restored_repeatedly() {
    let server = start(&["--memory"]).expect("it starts");
    let (mut client, mut manager) = (server.client(), server.manager());
    client.make_posts();
    assert_eq!(client.call(&write("a", 1)).status, 201);
    let etag = text(
        &client
            .call(&Request::new("GET", &item("a")).key("a"))
            .json(),
        "_etag",
    );
    let taken = manager.ok("PUT", "/snapshots/base", "").json();
    assert_eq!(
        (number(&taken, "items"), number(&taken, "containers")),
        (1, 1)
    );
    for _ in 0..3 {
        let changed = client.call(&write("a", 2));
        assert_eq!(
            (changed.status, client.call(&write("b", 2)).status),
            (200, 201)
        );
        manager.ok("PUT", "/clock", r#"{"offsetSeconds":1000}"#);
        client.create("/dbs", r#"{"id":"another"}"#);
        assert_eq!(
            manager
                .ok("POST", "/snapshots/base/restore", "")
                .json()
                .to_text(),
            taken.to_text()
        );
        assert_eq!(
            (value(&mut client, "a"), value(&mut client, "b")),
            (Some(1), None)
        );
        assert_eq!(
            client.call(&Request::new("GET", "/dbs/another")).status,
            404
        );
        let read = Request::new("GET", &item("a")).key("a");
        // A session token from before the restore is accepted.
        let session = changed
            .header("x-ms-session-token")
            .expect("a token")
            .to_owned();
        let again = client.call(&read.header("x-ms-session-token", session));
        assert_eq!(
            (again.status, text(&again.json(), "_etag")),
            (200, etag.clone())
        );
        assert_eq!(number(&manager.get("/clock").json(), "offsetSeconds"), 0);
    }
    manager.ok("POST", "/reset", "");
    assert_eq!(number(&manager.get("/status").json(), "containers"), 0);
    assert_eq!(client.call(&Request::new("GET", ITEMS)).code(), (404, 1003));
    manager.ok("POST", "/snapshots/base/restore", "");
    assert_eq!(value(&mut client, "a"), Some(1));
}

#[test]
fn snapshots_are_listed_replaced_and_deleted_by_name() {
    let server = start(&["--memory"]).expect("it starts");
    let (mut client, mut manager) = (server.client(), server.manager());
    manager.ok("PUT", "/snapshots/empty", "");
    client.make_posts();
    manager.ok("PUT", "/snapshots/made", "");
    let names = |manager: &mut Manager| -> Vec<String> {
        let listed = manager.get("/snapshots").json();
        let listed = listed
            .get("snapshots")
            .and_then(Json::as_array)
            .expect("a list")
            .to_vec();
        listed
            .iter()
            .map(|snapshot| text(snapshot, "name"))
            .collect()
    };
    assert_eq!(names(&mut manager), ["empty", "made"]);
    manager.ok("PUT", "/snapshots/empty", "");
    assert_eq!(
        number(&manager.get("/snapshots/empty").json(), "containers"),
        1
    );
    manager.ok("DELETE", "/snapshots/made", "");
    assert_eq!(names(&mut manager), ["empty"]);
    for (method, path) in [
        ("GET", "/snapshots/made"),
        ("DELETE", "/snapshots/made"),
        ("POST", "/snapshots/made/restore"),
    ] {
        assert!(
            manager.refused(method, path, "", 404).contains("'made'"),
            "{path}"
        );
    }
    assert!(
        manager
            .refused("PUT", "/snapshots/a%20b", "", 400)
            .contains("'a b'")
    );
    assert!(
        manager
            .refused("PUT", "/snapshots/a", "{}", 400)
            .contains("no body")
    );
}

#[test]
fn snapshots_and_restored_data_survive_kill_minus_9() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut server = start_on(directory.path()).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    assert_eq!(client.call(&write("a", 1)).status, 201);
    server.manager().ok("PUT", "/snapshots/base", "");
    assert_eq!(client.call(&write("a", 2)).status, 200);
    server.kill();
    let mut server = start_on(directory.path()).expect("it starts");
    assert_eq!(value(&mut server.client(), "a"), Some(2));
    server.manager().ok("POST", "/snapshots/base/restore", "");
    server.kill();
    let server = start_on(directory.path()).expect("it starts");
    let mut client = server.client();
    assert_eq!(value(&mut client, "a"), Some(1));
    assert_eq!(client.call(&write("a", 3)).status, 200);
    server.manager().ok("POST", "/snapshots/base/restore", "");
    assert_eq!(value(&mut client, "a"), Some(1));
}

#[test]
fn writes_during_a_restore_take_effect_before_it_or_not_at_all() {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    assert_eq!(client.call(&write("a", 1)).status, 201);
    let mut manager = server.manager();
    manager.ok("PUT", "/snapshots/base", "");
    std::thread::scope(|threads| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let mut writer = server.client();
        let writing = threads.spawn(move || {
            let mut n = 0;
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                n += 1;
                let answer = writer.call(&write(&format!("w{n}"), n));
                assert!(
                    answer.status == 201 || answer.status == 410 || answer.status >= 429,
                    "{}",
                    answer.text()
                );
            }
            n
        });
        for _ in 0..20 {
            manager.ok("POST", "/snapshots/base/restore", "");
        }
        stop.send(()).expect("the writer listens");
        assert!(writing.join().expect("it ends") > 0);
    });
    manager.ok("POST", "/snapshots/base/restore", "");
    let (rows, _) = client.pages(&Request::query(ITEMS, "SELECT c.id, c.n FROM c"));
    assert_eq!(
        rows.iter().map(Json::to_text).collect::<Vec<_>>(),
        [r#"{"id":"a","n":1}"#]
    );
}
