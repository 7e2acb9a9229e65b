//! Session tokens: the version of the container that they name, and the ranges that they bind.

use crate::program::{Answer, Client, ITEMS, Request, item, start, start_on};

/// Returns the version in a response's session token: the part between the range id and the LSN.
fn version(answer: &Answer) -> String {
    let token = answer
        .header("x-ms-session-token")
        .unwrap_or_else(|| panic!("no token: {}", answer.text()));
    let (range, rest) = token.split_once(':').expect("a range");
    assert_eq!(range, "0");
    rest.split_once('#').expect("a version").0.to_owned()
}

/// Returns the versions in the responses to all kinds of requests for items.
fn versions(client: &mut Client, id: &str) -> Vec<String> {
    let body = format!(r#"{{"id":"{id}","postId":"p1"}}"#);
    let requests = [
        Request::new("POST", ITEMS).body(body.as_str()),
        Request::new("POST", ITEMS).body(body.as_str()),
        Request::new("GET", &item(id)).key("p1"),
        Request::new("PUT", &item(id)).key("p1").body(body.as_str()),
        Request::new("GET", &item("none")).key("p1"),
        Request::query(ITEMS, "SELECT * FROM c"),
        Request::new("GET", ITEMS),
        Request::new("GET", ITEMS).header("A-IM", "Incremental feed"),
        Request::new("DELETE", &item(id)).key("p1"),
    ];
    requests
        .iter()
        .map(|request| version(&client.call(request)))
        .collect()
}

#[test]
fn the_version_of_a_token_stays_for_the_life_of_a_container() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("data");
    let server = start_on(&path).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let before = versions(&mut client, "a");
    assert!(
        before.iter().all(|version| *version == before[0]),
        "{before:?}"
    );
    assert_eq!(server.stop().code, Some(0));
    let server = start_on(&path).expect("it starts again");
    let mut client = server.client();
    assert_eq!(versions(&mut client, "b"), before);
    assert_eq!(
        client
            .call(&Request::new("DELETE", "/dbs/blog/colls/posts"))
            .status,
        204
    );
    let body = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2}}"#;
    client.create("/dbs/blog/colls", body);
    assert_ne!(
        versions(&mut client, "c")[0],
        before[0],
        "another container of the same name"
    );
}

#[test]
fn a_token_binds_only_the_ranges_that_it_names() {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    let body = r#"{"id":"wide","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#;
    let made = Request::new("POST", "/dbs/blog/colls")
        .header("x-ms-offer-throughput", "12000")
        .body(body);
    assert_eq!(client.call(&made).status, 201);
    let wide = "/dbs/blog/colls/wide/docs";
    let mut lsns = [0; 2];
    for n in 0..20 {
        let created = client.call(&Request::new("POST", wide).body(format!(r#"{{"id":"i{n}"}}"#)));
        let range = created
            .header("x-ms-documentdb-partitionkeyrangeid")
            .expect("a range id")
            .to_owned();
        lsns[range.parse::<usize>().expect("a number")] = created.lsn();
    }
    assert!(
        lsns.iter().all(|lsn| *lsn > 0),
        "both ranges hold items: {lsns:?}"
    );
    // The token of a client that knows only the first range, with an LSN of the second that is far
    // in the future.
    let token = format!("0:-1#{},1:-1#999999", lsns[0]);
    let read = |client: &mut Client, id: &str| {
        let answer = client.call(
            &Request::new("GET", &format!("{wide}/{id}"))
                .key(id)
                .header("x-ms-session-token", token.as_str()),
        );
        (
            answer
                .header("x-ms-documentdb-partitionkeyrangeid")
                .map(str::to_owned),
            answer.code(),
        )
    };
    for n in 0..20 {
        let (range, code) = read(&mut client, &format!("i{n}"));
        let wanted = if range.as_deref() == Some("0") {
            (200, 0)
        } else {
            (404, 1002)
        };
        assert_eq!(code, wanted, "i{n} in range {range:?}");
    }
    let in_range = |client: &mut Client, id: &str| {
        let query = Request::query(wide, "SELECT * FROM c")
            .header("x-ms-documentdb-partitionkeyrangeid", id);
        client
            .call(&query.header("x-ms-session-token", token.as_str()))
            .code()
    };
    assert_eq!(
        (in_range(&mut client, "0"), in_range(&mut client, "1")),
        ((200, 0), (404, 1002))
    );
    assert_eq!(client.range_ids("/dbs/blog/colls/wide"), ["0", "1"]);
}

#[test]
fn a_query_checks_the_token_of_its_whole_scope_before_its_text() {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let texts = [
        "SELECT * FROM c",
        "SELECT * FROM c WHERE false",
        "SELECT VALUE 1",
        "SELECT TOP 0 * FROM c",
        "SELECT * FROM c WHERE c.postId = 'p1'",
        "SELECT * FROM c ORDER BY c.a, c.b",
        "SELEC",
    ];
    let ahead = |query: Request| query.header("x-ms-session-token", "0:-1#999999");
    for text in texts {
        let answer = client.call(&ahead(Request::query(ITEMS, text)));
        assert_eq!(answer.code(), (404, 1002), "{text}");
    }
    let wrong_continuation = Request::query(ITEMS, texts[0]).header("x-ms-continuation", "zz");
    let answer = client.call(&ahead(wrong_continuation));
    assert_eq!(answer.code(), (404, 1002), "a wrong continuation");
}

const WIDE: &str = "/dbs/blog/colls/wide/docs";

/// Creates a container of five physical partitions with the older hash.
fn create_wide(client: &mut Client, id: &str) {
    let body = format!(r#"{{"id":"{id}","partitionKey":{{"paths":["/k"]}}}}"#);
    let made = Request::new("POST", "/dbs/blog/colls").header("x-ms-offer-throughput", "25100");
    assert_eq!(client.call(&made.body(body)).status, 201);
}

/// Returns the id of the range that answered.
fn range_of(answer: &Answer) -> String {
    let range = answer.header("x-ms-documentdb-partitionkeyrangeid");
    range.expect("a range id").to_owned()
}

/// Returns requests for the item `id` that fail or find nothing, and a batch and reads of its
/// logical partition.
fn requests_of_key(id: &str, key: &str, body: &str) -> Vec<Request> {
    let at = |method: &'static str| Request::new(method, &format!("{WIDE}/{id}"));
    let batch = format!(r#"[{{"operationType":"Read","id":"{id}"}}]"#);
    let requests = [
        at("GET"),
        at("DELETE"),
        at("PUT").body(body),
        at("PATCH").body(r#"[{"op":"set","path":"/n","value":1}]"#),
        Request::query(WIDE, "SELECT * FROM c"),
        Request::query(WIDE, "SELECT"),
        Request::new("GET", WIDE).header("A-IM", "Incremental feed"),
        Request::new("POST", WIDE)
            .header("x-ms-cosmos-is-batch-request", "True")
            .header("x-ms-cosmos-batch-atomic", "True")
            .body(batch),
    ];
    let with_key =
        |request: Request| request.header("x-ms-documentdb-partitionkey", format!("[{key}]"));
    requests.into_iter().map(with_key).collect()
}

#[test]
fn no_answer_about_a_partition_key_has_the_token_of_another_partition() {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    create_wide(&mut client, "wide");
    create_wide(&mut client, "twin");
    let mut ranges = Vec::new();
    for (at, key) in [r#""1""#, "1", "{}", "null", "true", r#""abc""#]
        .iter()
        .enumerate()
    {
        let member = match *key {
            "{}" => String::new(),
            key => format!(r#","k":{key}"#),
        };
        // The twin of the container tells the range, so that the container itself stays unwritten.
        let body = format!(r#"{{"id":"i{at}"{member}}}"#);
        let made = client.call(&Request::new("POST", "/dbs/blog/colls/twin/docs").body(&*body));
        assert_eq!(made.status, 201, "{}", made.text());
        let range = range_of(&made);
        for request in requests_of_key(&format!("i{at}"), key, &body) {
            let answer = client.call(&request);
            assert_eq!(range_of(&answer), range, "{request:?}: {}", answer.text());
            if let Some(token) = answer.header("x-ms-session-token") {
                assert!(
                    token.starts_with(&format!("{range}:")),
                    "{request:?}: {token}"
                );
            }
        }
        ranges.push(range);
    }
    ranges.sort();
    ranges.dedup();
    assert!(ranges.len() > 2, "the keys lie in {ranges:?} only");
}

#[test]
fn a_404_of_a_partition_that_was_never_written_adds_nothing_to_a_session() {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    create_wide(&mut client, "wide");
    let created = client.call(&Request::new("POST", WIDE).body(r#"{"id":"1","k":"1"}"#));
    let no_key = |method: &'static str| {
        Request::new(method, &format!("{WIDE}/1")).header("x-ms-documentdb-partitionkey", "[{}]")
    };
    for method in ["GET", "DELETE"] {
        let missing = client.call(&no_key(method));
        assert_eq!(missing.code(), (404, 0), "{}", missing.text());
        assert_ne!(range_of(&missing), range_of(&created));
        assert_eq!(missing.header("x-ms-session-token"), None, "{method}");
    }
    client.create(WIDE, r#"{"id":"2"}"#);
    let missing = client.call(&no_key("GET"));
    assert_eq!(missing.code(), (404, 0));
    let token = missing.header("x-ms-session-token").expect("a token");
    assert!(
        token.starts_with(&format!("{}:", range_of(&missing))),
        "{token}"
    );
}
