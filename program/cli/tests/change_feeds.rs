//! Change feeds as seen by a client without a library: the start and the end of pages, the items
//! that a feed covers, and etags after a restart.

use crate::program::{Answer, Client, Request, Server, number, start, start_on, text};
use orrery_model::Json;

const VERSIONED: &str = "/dbs/blog/colls/versioned/docs";
const LEVELS: &str = "/dbs/blog/colls/levels/docs";
const FORM: (&str, &str) = ("x-ms-cosmos-changefeed-wire-format-version", "2021-09-15");

fn server() -> (Server, Client) {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    (server, client)
}

fn make_versioned(client: &mut Client) {
    let body = r#"{"id":"versioned","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":-1,
        "changeFeedPolicy":{"retentionDuration":10}}"#;
    client.create("/dbs/blog/colls", body);
}

fn feed(path: &str, mode: &str, etag: &str) -> Request {
    Request::new("GET", path)
        .header("A-IM", mode)
        .header(FORM.0, FORM.1)
        .header("If-None-Match", etag)
        .header("x-ms-documentdb-partitionkeyrangeid", "0")
}

fn latest(path: &str) -> Request {
    Request::new("GET", path).header("A-IM", "Incremental feed")
}

fn put(client: &mut Client, method: &'static str, path: &str, key: &str, body: &str) -> Answer {
    let upsert = if method == "POST" { "True" } else { "False" };
    let request = Request::new(method, path)
        .header("x-ms-documentdb-partitionkey", key)
        .body(body);
    let answer = client.call(&request.header("x-ms-documentdb-is-upsert", upsert));
    assert!(
        matches!(answer.status, 200 | 201 | 204),
        "{}",
        answer.text()
    );
    answer
}

fn etag(answer: &Answer) -> String {
    let etag = answer
        .header("etag")
        .expect("a page has an etag, 304 or not")
        .to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");
    etag
}

/// Returns all rows after an etag and the etag after the last row.
fn follow(
    client: &mut Client,
    request: impl Fn(&str) -> Request,
    from: &str,
) -> (Vec<Json>, String) {
    let (mut rows, mut at) = (Vec::new(), from.to_owned());
    loop {
        let answer = client.call(&request(&at));
        at = etag(&answer);
        match answer.status {
            304 => {
                assert_eq!(
                    (answer.body.len(), answer.header("x-ms-item-count")),
                    (0, Some("0"))
                );
                return (rows, at);
            }
            _ => rows.extend(answer.rows()),
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "all members of the format")]
fn all_versions_have_the_format_that_clients_read() {
    let (_server, mut client) = server();
    make_versioned(&mut client);
    let all = |etag: &str| feed(VERSIONED, "Full-Fidelity Feed", etag);
    let begun = client.call(&all("*"));
    assert_eq!(
        (begun.status, begun.header("x-ms-item-count")),
        (304, Some("0"))
    );
    let begun = etag(&begun);
    let created = put(
        &mut client,
        "POST",
        VERSIONED,
        r#"["p"]"#,
        r#"{"id":"a","pk":"p","n":1}"#,
    );
    let replaced = put(
        &mut client,
        "POST",
        VERSIONED,
        r#"["p"]"#,
        r#"{"id":"a","pk":"p","n":2}"#,
    );
    let deleted = put(
        &mut client,
        "DELETE",
        &format!("{VERSIONED}/a"),
        r#"["p"]"#,
        "",
    );
    let answer = client.call(&all(&begun).header("x-ms-max-item-count", "10"));
    assert_eq!(
        (answer.header("x-ms-item-count"), answer.lsn()),
        (Some("3"), deleted.lsn())
    );
    assert!(answer.header("x-ms-request-charge").is_some());
    let rows = answer.rows();
    let (after, old) = (created.json(), replaced.json());
    for (row, wanted) in rows.iter().zip([
        ("create", created.lsn(), 0, &after),
        ("replace", replaced.lsn(), created.lsn(), &old),
        ("delete", deleted.lsn(), replaced.lsn(), &old),
    ]) {
        let (operation, lsn, before, image) = wanted;
        let metadata = row.get("metadata").expect("metadata");
        assert_eq!(text(metadata, "operationType"), operation);
        assert_eq!(
            (
                number(metadata, "lsn"),
                number(metadata, "previousImageLSN")
            ),
            (lsn, before)
        );
        assert!(number(metadata, "crts") >= number(image, "_ts"));
        assert_eq!(metadata.get("timeToLiveExpired"), Some(&Json::Bool(false)));
        let shown = row.get(if operation == "delete" {
            "previous"
        } else {
            "current"
        });
        assert_eq!(shown, Some(image));
    }
    let gone = rows[2].get("metadata").expect("metadata");
    assert_eq!(rows[2].get("current").map(Json::to_text), Some("{}".into()));
    assert_eq!(
        gone.get("partitionKey").map(Json::to_text),
        Some(r#"{"pk":"p"}"#.into())
    );
    assert_eq!(text(gone, "id"), "a");
    // The other mode returns current versions only.
    assert!(
        follow(
            &mut client,
            |at| feed(VERSIONED, "Incremental Feed", at),
            &begun
        )
        .0
        .is_empty()
    );
}

#[test]
fn all_versions_start_from_now_or_an_etag_and_only_where_they_are_kept() {
    let (_server, mut client) = server();
    make_versioned(&mut client);
    client.create(
        "/dbs/blog/colls",
        r#"{"id":"plain","partitionKey":{"paths":["/pk"]}}"#,
    );
    let all = |path: &str| {
        Request::new("GET", path)
            .header("A-IM", "Full-Fidelity Feed")
            .header(FORM.0, FORM.1)
    };
    let refused = |client: &mut Client, request: Request| {
        let answer = client.call(&request);
        assert_eq!(answer.code(), (400, 0));
        answer.text()
    };
    assert!(
        refused(&mut client, all(VERSIONED)).contains("starts from now or from a continuation")
    );
    let from_a_time = all(VERSIONED).header("If-Modified-Since", "Thu, 01 Jan 2026 00:00:00 GMT");
    assert!(refused(&mut client, from_a_time).contains("starts from now or from a continuation"));
    let plain = refused(
        &mut client,
        all("/dbs/blog/colls/plain/docs").header("If-None-Match", "*"),
    );
    assert!(
        plain.contains("All Versions and Deletes") && plain.contains("must be enabled"),
        "{plain}"
    );
    let bare = Request::new("GET", VERSIONED)
        .header("A-IM", "Full-Fidelity Feed")
        .header("If-None-Match", "*");
    assert!(refused(&mut client, bare).contains("2021-09-15"));
    // A feed checks the client's session token too.
    let ahead = all(VERSIONED)
        .header("If-None-Match", "*")
        .header("x-ms-session-token", "0:-1#999999");
    assert_eq!(client.call(&ahead).code(), (404, 1002));
}

#[test]
fn a_prefix_of_a_hierarchical_key_sees_the_changes_below_it() {
    let (_server, mut client) = server();
    let body =
        r#"{"id":"levels","partitionKey":{"paths":["/t","/u"],"kind":"MultiHash","version":2}}"#;
    let made = client.call(
        &Request::new("POST", "/dbs/blog/colls")
            .header("x-ms-offer-throughput", "12000")
            .body(body),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    for n in 0..24 {
        let (t, u) = (n % 4, n % 3);
        let key = format!(r#"["{t}","{u}"]"#);
        put(
            &mut client,
            "POST",
            LEVELS,
            &key,
            &format!(r#"{{"id":"i{n}","t":"{t}","u":"{u}"}}"#),
        );
    }
    let of_key = |key: &'static str| {
        move |at: &str| {
            let request = latest(LEVELS)
                .header("x-ms-documentdb-partitionkey", key)
                .header("If-None-Match", at);
            request.header("x-ms-max-item-count", "4")
        }
    };
    for (key, wanted) in [(r#"["1"]"#, 6), (r#"["1","2"]"#, 2), (r#"["9"]"#, 0)] {
        let (rows, _) = follow(&mut client, of_key(key), "0");
        assert_eq!(rows.len(), wanted, "{key}");
        assert!(
            rows.iter()
                .all(|row| key.contains(&format!("\"{}\"", text(row, "t"))))
        );
    }
    // Adjacent EPK ranges have all changes in total, and so has a request without a range.
    let part_of = |range: &'static str, from: &'static str, to: &'static str| {
        move |at: &str| {
            let request = latest(LEVELS).header("x-ms-documentdb-partitionkeyrangeid", range);
            let request = request.header("x-ms-read-key-type", "EffectivePartitionKeyRange");
            request
                .header("x-ms-start-epk", from)
                .header("x-ms-end-epk", to)
                .header("If-None-Match", at)
        }
    };
    let halves = [
        ("0", "", "08"),
        ("0", "08", "1F"),
        ("0", "1F", "FF"),
        ("1", "", "2F"),
        ("1", "2F", "FF"),
    ];
    let seen: usize = halves
        .iter()
        .map(|(range, from, to)| follow(&mut client, part_of(range, from, to), "0").0.len())
        .sum();
    assert_eq!(seen, 24);
    let both = |at: &str| latest(LEVELS).header("If-None-Match", at);
    assert_eq!(follow(&mut client, both, "0").0.len(), 24);
    assert_eq!(
        client
            .call(&latest(LEVELS).header("x-ms-documentdb-partitionkeyrangeid", "7"))
            .code(),
        (410, 1002)
    );
}

#[test]
fn a_feed_with_a_query_is_refused_by_name() {
    let (_server, mut client) = server();
    make_versioned(&mut client);
    let answer = client
        .call(&Request::query(VERSIONED, "SELECT * FROM c").header("A-IM", "Incremental Feed"));
    assert_eq!(answer.code(), (400, 0));
    assert!(
        answer.text().contains("A change feed with a query"),
        "{}",
        answer.text()
    );
}

#[test]
fn etags_resume_at_their_position_after_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let begin = |at: &str| {
        (
            feed(VERSIONED, "Incremental Feed", at),
            feed(VERSIONED, "Full-Fidelity Feed", at),
        )
    };
    let mut server = start_on(&path).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    make_versioned(&mut client);
    put(
        &mut client,
        "POST",
        VERSIONED,
        r#"["p"]"#,
        r#"{"id":"before","pk":"p"}"#,
    );
    let seen = etag(&client.call(&begin("*").0));
    put(
        &mut client,
        "POST",
        VERSIONED,
        r#"["p"]"#,
        r#"{"id":"between","pk":"p"}"#,
    );
    drop(client);
    server.kill();
    let server = start_on(&path).expect("it starts again");
    let mut client = server.client();
    put(
        &mut client,
        "POST",
        VERSIONED,
        r#"["p"]"#,
        r#"{"id":"after","pk":"p"}"#,
    );
    put(
        &mut client,
        "DELETE",
        &format!("{VERSIONED}/between"),
        r#"["p"]"#,
        "",
    );
    let (rows, _) = follow(&mut client, |at| begin(at).0, &seen);
    assert_eq!(
        rows.iter().map(|row| text(row, "id")).collect::<Vec<_>>(),
        ["after"]
    );
    let (rows, end) = follow(&mut client, |at| begin(at).1, &seen);
    let operation_type = |row: &Json| text(row.get("metadata").expect("metadata"), "operationType");
    assert_eq!(
        rows.iter().map(operation_type).collect::<Vec<_>>(),
        ["create", "create", "delete"]
    );
    assert_eq!(client.call(&begin(&end).1).status, 304);
}

#[test]
fn the_account_may_keep_versions_where_no_policy_does() {
    let plain = "/dbs/blog/colls/plain/docs";
    let make = |client: &mut Client| {
        client.create("/dbs", r#"{"id":"blog"}"#);
        client.create(
            "/dbs/blog/colls",
            r#"{"id":"plain","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}}"#,
        );
    };
    // Without a value the option stands for seven days.
    for option in [
        &["--memory", "--all-versions-and-deletes"][..],
        &["--memory", "--all-versions-and-deletes", "12h"],
    ] {
        let server = start(option).expect("it starts");
        let mut client = server.client();
        make(&mut client);
        let begin = etag(&client.call(&feed(plain, "Full-Fidelity Feed", "*")));
        put(
            &mut client,
            "POST",
            plain,
            r#"["p"]"#,
            r#"{"id":"1","pk":"p"}"#,
        );
        put(&mut client, "DELETE", &format!("{plain}/1"), r#"["p"]"#, "");
        let request = |at: &str| feed(plain, "Full-Fidelity Feed", at);
        let (changes, _) = follow(&mut client, request, &begin);
        assert_eq!(changes.len(), 2, "{changes:?}");
    }
    for (value, problem) in [("31d", "at most 30d"), ("7", "30m, 12h or 7d")] {
        let refused = start(&["--memory", "--all-versions-and-deletes", value]);
        let refused = refused.err().expect("it is refused").stderr;
        assert!(refused.contains(problem), "{refused}");
    }
}
