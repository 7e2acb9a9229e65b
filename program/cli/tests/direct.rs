//! The direct mode through the sockets of a server: addresses, requests as frames, and what differs
//! from HTTP.

use crate::program::frames::{Frame, Frames, Operation, places};
use crate::program::{ITEMS, Request, Server, start, text};
use orrery_model::Json;
use orrery_rntbd::tokens::{answer, request as tokens};
use orrery_test_wait::wait_until;
use std::net::TcpListener;
use std::time::{Duration, Instant};

const CONTAINER: &str = "/dbs/blog/colls/posts";
const ITEM: &str = "/dbs/blog/colls/posts/docs/a";

fn posts(arguments: &[&str]) -> (Server, Frames) {
    let server = start(&[&["--memory"], arguments].concat()).expect("it starts");
    server.client().make_posts();
    let frames = Frames::connect(&server);
    (server, frames)
}

fn create(id: &str) -> Frame {
    let item = format!("{{\"id\":\"{id}\",\"postId\":\"p\"}}");
    Frame::new(Operation::Create, ITEMS).key("p").payload(item)
}

fn query(sql: &str) -> Frame {
    let body = format!("{{\"query\":{}}}", Json::from(sql).to_text());
    Frame::new(Operation::Query, ITEMS).payload(body)
}

#[test]
fn items_are_written_and_read_as_over_http() {
    let (server, mut frames) = posts(&[]);
    let created = frames.call(&create("a"));
    assert_eq!(created.code(), (201, 0), "{}", created.body());
    let over_http = server.client().call(&Request::new("GET", ITEM).key("p"));
    assert_eq!(over_http.json().to_text(), created.json().to_text());

    let read = frames.call(&Frame::new(Operation::Read, ITEM).key("p"));
    assert_eq!(read.payload, created.payload);
    assert_eq!(
        read.charge().to_string(),
        over_http.header("x-ms-request-charge").expect("it")
    );
    assert_eq!(
        read.text_of(&answer::ETAG),
        Some(text(&read.json(), "_etag"))
    );
    assert_eq!(
        read.text_of(&answer::OWNER_FULL_NAME),
        Some("dbs/blog/colls/posts".into())
    );

    // The session token has no range here; the range stands beside it.
    let session = over_http
        .header("x-ms-session-token")
        .expect("it")
        .to_owned();
    let range = read
        .text_of(&answer::PARTITION_KEY_RANGE_ID)
        .expect("a range");
    let token = read.text_of(&answer::SESSION_TOKEN).expect("a token");
    assert_eq!(session, format!("{range}:{token}"));

    let etag = read.text_of(&answer::ETAG).expect("it");
    let unchanged = Frame::new(Operation::Read, ITEM)
        .key("p")
        .text(&tokens::MATCH, &*etag);
    let unchanged = frames.call(&unchanged);
    assert_eq!((unchanged.code(), unchanged.payload.len()), ((304, 0), 0));
    let changed = r#"{"id":"a","postId":"p","n":1}"#;
    let replace = Frame::new(Operation::Replace, ITEM)
        .key("p")
        .payload(changed);
    let minimal = replace.clone().number(&tokens::RETURN_PREFERENCE, 1);
    let minimal = frames.call(&minimal);
    assert_eq!((minimal.status, minimal.payload.len()), (200, 0));
    let stale = frames.call(&replace.text(&tokens::MATCH, etag));
    assert_eq!(stale.code(), (412, 0), "{}", stale.body());

    let patch = r#"{"operations":[{"op":"incr","path":"/n","value":2}]}"#;
    let patched = frames.call(&Frame::new(Operation::Patch, ITEM).key("p").payload(patch));
    assert_eq!(patched.json().get("n").and_then(Json::as_i64), Some(3));
    let upserted = Frame::new(Operation::Upsert, ITEMS)
        .key("p")
        .payload(changed);
    assert_eq!(frames.call(&upserted).status, 200);
    let deleted = frames.call(&Frame::new(Operation::Delete, ITEM).key("p"));
    assert_eq!((deleted.status, deleted.payload.len()), (204, 0));
}

#[test]
fn names_are_not_escaped_in_frames() {
    let (server, mut frames) = posts(&[]);
    for id in ["a b", "50%", "%2F", "ü+1", "x?y", "tab\there"] {
        let body = format!("{{\"id\":{},\"postId\":\"p\"}}", Json::from(id).to_text());
        let create = Frame::new(Operation::Create, ITEMS).key("p").payload(body);
        assert_eq!(frames.call(&create).status, 201, "{id}");
        let path = format!("{ITEMS}/{id}");
        let read = frames.call(&Frame::new(Operation::Read, &path).key("p"));
        assert_eq!(read.status, 200, "{id}: {}", read.body());
    }
    drop(server);
}

#[test]
fn queries_feeds_batches_and_procedures_are_answered() {
    let (server, mut frames) = posts(&[]);
    for id in ["a", "b", "c"] {
        assert_eq!(frames.call(&create(id)).status, 201);
    }
    let all = query("SELECT VALUE c.id FROM c").text(&tokens::PARTITION_KEY_RANGE_ID, "0");
    let first = frames.call(&all.clone().number(&tokens::PAGE_SIZE, 2));
    assert_eq!(first.number_of(&answer::ITEM_COUNT), Some(2));
    let next = first
        .text_of(&answer::CONTINUATION_TOKEN)
        .expect("a continuation");
    let last = frames.call(&all.text(&tokens::CONTINUATION_TOKEN, next));
    assert_eq!(last.number_of(&answer::ITEM_COUNT), Some(1));
    assert_eq!(last.text_of(&answer::CONTINUATION_TOKEN), None);

    let feed = Frame::new(Operation::ReadFeed, ITEMS).text(&tokens::PARTITION_KEY_RANGE_ID, "0");
    let listed = frames.call(&feed);
    assert_eq!(listed.number_of(&answer::ITEM_COUNT), Some(3));
    let changes = feed.text(&tokens::A_IM, "Incremental Feed");
    let changed = frames.call(&changes);
    assert_eq!(changed.number_of(&answer::ITEM_COUNT), Some(3));
    let etag = changed.text_of(&answer::ETAG).expect("a position");
    let none = frames.call(&changes.text(&tokens::MATCH, etag));
    assert_eq!((none.status, none.payload.len()), (304, 0));

    let batch = r#"[{"operationType":"Read","id":"a"},{"operationType":"Delete","id":"b"}]"#;
    let batch = Frame::new(Operation::Batch, ITEMS)
        .key("p")
        .number(&tokens::IS_BATCH_ATOMIC, 1)
        .number(&tokens::IS_BATCH_ORDERED, 1)
        .payload(batch);
    let batch = frames.call(&batch);
    assert_eq!(batch.status, 200, "{}", batch.body());

    let body = "function (n) { console.log('x'); getContext().getResponse().setBody(n + 1); }";
    server.client().make_procedure("next", body);
    let execute = Frame::new(Operation::Execute, "/dbs/blog/colls/posts/sprocs/next")
        .key("p")
        .number(&tokens::ENABLE_LOGGING, 1)
        .payload("[41]");
    let executed = frames.call(&execute);
    assert_eq!(executed.body(), "42");
    assert_eq!(executed.text_of(&answer::LOG_RESULTS), Some("x".into()));
}

#[test]
fn every_answer_about_a_container_has_an_lsn_and_a_session_token() {
    let (_server, mut frames) = posts(&[]);
    // Nothing is written yet: over HTTP such a 404 has no session token.
    let missing = frames.call(&Frame::new(Operation::Read, ITEM).key("p"));
    assert_eq!(missing.code(), (404, 0));
    let refused = frames.call(&query("SELECT").key("p"));
    assert_eq!(refused.code(), (400, 0));
    let no_key = frames.call(&Frame::new(Operation::Read, ITEM));
    assert_eq!(no_key.code(), (400, 0));
    let merged = frames.call(&query("SELECT VALUE COUNT(1) FROM c"));
    assert_eq!(merged.code(), (200, 0), "{}", merged.body());
    let barrier = frames.call(&Frame::new(Operation::Head, CONTAINER));
    assert_eq!((barrier.code(), barrier.payload.len()), ((200, 0), 0));
    for found in [missing, refused, no_key, merged, barrier] {
        for token in [
            &answer::LSN,
            &answer::LOCAL_LSN,
            &answer::QUORUM_ACKED_LSN,
            &answer::QUORUM_ACKED_LOCAL_LSN,
            &answer::GLOBAL_COMMITTED_LSN,
        ] {
            assert_eq!(
                found.number_of(token),
                Some(1),
                "{}: {}",
                token.name,
                found.body()
            );
        }
        let session = found.text_of(&answer::SESSION_TOKEN).expect("a token");
        assert!(
            session.ends_with("#1") && !session.contains(':'),
            "{session}"
        );
    }
    // What is above containers has an LSN, and no session.
    let database = frames.call(&Frame::new(Operation::Read, "/dbs/blog"));
    assert_eq!(database.number_of(&answer::LSN), Some(1));
    assert_eq!(database.text_of(&answer::SESSION_TOKEN), None);
}

#[test]
fn a_refusal_before_the_partition_is_known_is_not_behind_the_session() {
    let (_server, mut frames) = posts(&[]);
    let read = Frame::new(Operation::Read, ITEM).key("p");
    let of_session = |frame: Frame| frame.text(&tokens::SESSION_TOKEN, "0:1795728610803#77");
    let unsigned = frames.call(&of_session(read.clone()).unsigned());
    assert_eq!(unsigned.status, 401);
    let strong = of_session(read.clone()).number(&tokens::CONSISTENCY_LEVEL, 0);
    let refused = frames.call(&strong);
    assert_eq!(refused.status, 400);
    for answer_of in [unsigned, refused] {
        let session = answer_of.text_of(&answer::SESSION_TOKEN);
        assert_eq!(session.as_deref(), Some("1795728610803#77"));
        assert_eq!(answer_of.number_of(&answer::LOCAL_LSN), Some(77));
    }
    // Without a session the answer tells nothing about the partition.
    let unsigned = frames.call(&read.unsigned());
    assert_eq!(unsigned.text_of(&answer::SESSION_TOKEN), None);
}

#[test]
fn errors_are_bare_lists_with_their_sub_status() {
    let (_server, mut frames) = posts(&[]);
    let conflict = [create("a"), create("a")].map(|frame| frames.call(&frame));
    let [_, conflict] = conflict;
    assert_eq!(conflict.code(), (409, 0));
    assert!(
        conflict.body().starts_with("{\"Errors\":[\""),
        "{}",
        conflict.body()
    );
    let syntax = frames.call(&query("SELECT").key("p"));
    assert!(
        syntax.body().starts_with("{\"errors\":[{"),
        "{}",
        syntax.body()
    );
    let patch =
        r#"{"condition":"from c where c.n = 1","operations":[{"op":"set","path":"/n","value":1}]}"#;
    let unmet = frames.call(&Frame::new(Operation::Patch, ITEM).key("p").payload(patch));
    assert_eq!(unmet.code(), (412, 1110), "{}", unmet.body());
    let gone = query("SELECT * FROM c").text(&tokens::PARTITION_KEY_RANGE_ID, "9");
    assert_eq!(frames.call(&gone).code(), (410, 1002));
    let missing = Frame::new(Operation::Read, "/dbs/blog/colls/none/docs/a").key("p");
    assert_eq!(frames.call(&missing).code(), (404, 1003));
}

#[test]
fn each_request_is_authenticated_by_itself() {
    let (_server, mut frames) = posts(&[]);
    let read = Frame::new(Operation::Read, "/dbs/blog");
    assert_eq!(frames.call(&read.clone().unsigned()).status, 401);
    assert_eq!(frames.call(&read).status, 200);
    assert_eq!(frames.call(&read.clone().unsigned()).status, 401);
    let wrong = read
        .unsigned()
        .text(&tokens::AUTHORIZATION_TOKEN, "type%3dmaster%26ver%3d1.0");
    assert_eq!(frames.call(&wrong).status, 401);
}

#[test]
fn a_container_that_was_replaced_is_told_by_its_resource_id() {
    let (server, mut frames) = posts(&[]);
    let mut client = server.client();
    let read_rid = |client: &mut crate::program::Client| {
        text(&client.call(&Request::new("GET", CONTAINER)).json(), "_rid")
    };
    let before = read_rid(&mut client);
    let of_cache = |rid: &str| create("a").text(&tokens::COLLECTION_RID, rid);
    assert_eq!(frames.call(&of_cache(&before)).status, 201);
    assert_eq!(client.call(&Request::new("DELETE", CONTAINER)).status, 204);
    let body = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
    client.create("/dbs/blog/colls", body);
    let stale = of_cache(&before).text(&tokens::SESSION_TOKEN, "0:1#99");
    let stale = frames.call(&stale);
    assert_eq!((stale.code(), stale.charge()), ((410, 1000), 0.0));
    let after = read_rid(&mut client);
    assert_eq!(frames.call(&of_cache(&after)).status, 201);
}

#[test]
fn a_metadata_read_of_the_strongest_level_is_answered_and_one_of_items_is_not() {
    let (_server, mut frames) = posts(&[]);
    let strong = |frame: Frame| frame.number(&tokens::CONSISTENCY_LEVEL, 0);
    let database = strong(Frame::new(Operation::Read, "/dbs/blog"));
    assert_eq!(frames.call(&database).status, 200);
    let users = strong(Frame::new(Operation::ReadFeed, "/dbs/blog/users"));
    assert_eq!(frames.call(&users).status, 200);
    let item = strong(Frame::new(Operation::Read, ITEM).key("p"));
    assert_eq!(frames.call(&item).code(), (400, 0));
}

/// Asks for addresses over TLS. Returns the status and the body.
fn addresses(server: &Server, host: &str, path: &str) -> (u16, String) {
    let request = Request::new("GET", path).signed_as("dbs", "");
    let answer = Frames::over_https(server, host, request);
    (answer.status, answer.text())
}

const MASTER: &str = "/addresses/?$resolveFor=dbs&$filter=protocol%20eq%20rntbd";

#[test]
fn an_address_is_that_which_the_client_has_used() {
    let server = start(&["--memory"]).expect("it starts");
    let two = |place: &str| vec![(true, place.to_owned()), (false, place.to_owned())];
    for (host, place) in [
        ("localhost:8081", "localhost:8081"),
        ("127.0.0.1:9000", "127.0.0.1:9000"),
        ("db.internal", "db.internal:443"),
    ] {
        let (status, body) = addresses(&server, host, MASTER);
        assert_eq!((status, places(&body)), (200, two(place)), "{body}");
    }
    // Java finds no primary in an address of IPv6.
    let (status, body) = addresses(&server, "[::1]:8081", MASTER);
    assert_eq!(status, 400);
    assert!(body.contains("IPv6"), "{body}");

    let chosen = |arguments: &[&str]| {
        let server = start(&[&["--memory"], arguments].concat()).expect("it starts");
        places(&addresses(&server, "localhost:8081", MASTER).1)
    };
    assert_eq!(
        chosen(&["--endpoint", "https://db.example:7443/"]),
        two("db.example:7443")
    );
    assert_eq!(
        chosen(&["--direct-advertise", "db.example:443"]),
        two("db.example:443")
    );
}

#[test]
fn where_the_mode_is_off_clients_are_told_the_remedy() {
    let off = start(&["--memory", "--direct", "off"]).expect("it starts");
    let (status, body) = addresses(&off, "localhost", MASTER);
    assert_eq!(status, 400);
    for part in ["--direct on", "gateway mode"] {
        assert!(body.contains(part), "{body}");
    }
    // The port has HTTP only then: a frame is a broken request.
    let mut frames = Frames::dial(&off, &off.address);
    frames
        .write(&Frame::new(Operation::Read, "/dbs/a").bytes(1, &off.key))
        .expect("open");
    assert!(frames.answer().is_err());
}

/// Starts a server with a second port that was free a moment before.
fn start_with_second_port() -> (Server, String) {
    let mut attempts = 0;
    loop {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("an address").port().to_string();
        drop(free);
        match start(&["--memory", "--direct", &port]) {
            Ok(server) => return (server, port),
            // Another test has taken the port meanwhile.
            Err(exit) => {
                attempts += 1;
                let is_taken = exit.stderr.contains("cannot listen");
                assert!(is_taken && attempts < 20, "{}", exit.stderr);
            }
        }
    }
}

#[test]
fn a_second_port_takes_frames_and_addresses_name_it() {
    let (server, port) = start_with_second_port();
    let place = format!("localhost:{port}");
    let (_, body) = addresses(&server, "localhost:8081", MASTER);
    assert_eq!(places(&body)[0].1, place);
    let at = format!("127.0.0.1:{port}");
    let mut frames = Frames::connect_at(&server, &at);
    assert_eq!(
        frames
            .call(&Frame::new(Operation::Read, "/dbs/none"))
            .status,
        404
    );
}

#[test]
fn options_that_contradict_each_other_end_the_start() {
    for (arguments, part) in [
        (
            ["--direct", "off", "--direct-advertise", "a:1"],
            "which is off",
        ),
        (["--direct", "0", "--log-level", "info"], "1 to 65535"),
    ] {
        let exit = start(&[&["--memory"], &arguments[..]].concat())
            .err()
            .expect("it ends");
        assert_eq!(exit.code, Some(2));
        assert!(exit.stderr.contains(part), "{}", exit.stderr);
    }
}

#[test]
fn frames_are_seen_by_faults_records_and_metrics() {
    let (server, mut frames) = posts(&[]);
    let mut manager = server.manager();
    let rule = r#"{"operations":["read_item"],"status":449,"count":1}"#;
    manager.ok("POST", "/faults", rule);
    let read = Frame::new(Operation::Read, ITEM).key("p");
    let struck = frames.call(&read);
    assert_eq!(struck.code(), (449, 0));
    let wait = struck.number_of(&answer::RETRY_AFTER_MILLISECONDS);
    assert!(wait.is_some());

    let records = manager.ok("GET", "/requests", "").json();
    let Some(Json::Array(list)) = records.get("requests") else {
        panic!("no records: {}", records.to_text());
    };
    let of_item = list
        .iter()
        .find(|one| text(one, "operation") == "read_item");
    assert_eq!(text(of_item.expect("a record"), "transport"), "tcp");

    assert_eq!(manager.metric("orrery_connections_direct"), 1.0);
    assert_eq!(manager.metric("orrery_direct_requests_total"), 1.0);
    drop(frames);
    wait_until("the connection is closed", || {
        match manager.metric("orrery_connections_direct") {
            0.0 => Ok(()),
            open => Err(open),
        }
    });

    // A rule without an answer closes the connection.
    let rule = r#"{"operations":["read_item"],"answer":"none"}"#;
    manager.ok("POST", "/faults", rule);
    let mut frames = Frames::connect(&server);
    frames.send(&read);
    assert!(frames.answer().is_err());
}

#[test]
fn a_page_and_a_procedure_end_before_the_client_gives_up() {
    let (server, mut frames) = posts(&[]);
    let endless = "function () { while (true) {} }";
    server.client().make_procedure("endless", endless);
    let began = Instant::now();
    let execute = Frame::new(Operation::Execute, "/dbs/blog/colls/posts/sprocs/endless");
    let ended = frames.call(&execute.key("p").payload("[]"));
    assert_eq!(ended.code(), (408, 1900), "{}", ended.body());
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_server_that_ends_sends_clients_away_before_it_closes() {
    let (server, mut frames) = posts(&[]);
    let read = Frame::new(Operation::Read, "/dbs/blog");
    assert_eq!(frames.call(&read).status, 200);
    let stopping = std::thread::spawn(move || server.stop());
    let mut last = 200;
    // The connection closes once nothing was sent for a second, so this client sees the 410.
    while last == 200 {
        last = frames.call(&read).status;
    }
    assert_eq!(last, 410);
    assert!(frames.answer().is_err());
    assert_eq!(stopping.join().expect("no panic").code, Some(0));
}

#[test]
fn a_refused_certificate_is_counted_and_told_once() {
    let server = start(&["--memory"]).expect("it starts");
    let mut manager = server.manager();
    let mut wait_for = |refused: f64| {
        wait_until("the refusal is counted", || {
            let count = manager.metric("orrery_tls_handshakes_refused_total");
            if count == refused { Ok(()) } else { Err(count) }
        });
    };
    // Most clients tell the reason.
    let mut client = Frames::dial_distrustful(&server);
    assert!(client.shake_hands().is_err());
    wait_for(1.0);
    // The .NET runtime on Linux closes the connection after the handshake.
    let mut client = Frames::dial(&server, &server.address);
    client.shake_hands().expect("a handshake");
    drop(client);
    wait_for(2.0);
    // A connection that sends something is none of them.
    drop(Frames::connect(&server));
    let log = server.stop().stderr;
    let told = log.matches("has refused the TLS handshake").count();
    assert_eq!(told, 1, "{log}");
    assert!(log.contains("orrery cert install"), "{log}");
}
