//! Settings of the account: consistency level, regions, and the responses to clients with other
//! connection modes and encodings.

use crate::program::{self, ITEMS, Request, Server, item, number, start, text};
use orrery_model::Json;

fn server(arguments: &[&str]) -> Server {
    start(&[&["--memory"], arguments].concat()).expect("the server starts")
}

fn names(account: &Json, member: &str) -> Vec<String> {
    let locations = account
        .get(member)
        .and_then(Json::as_array)
        .expect("a list of locations");
    locations
        .iter()
        .map(|location| text(location, "name"))
        .collect()
}

#[test]
fn the_account_shows_the_level_that_its_operator_chose() {
    for (argument, level) in [
        ("strong", "Strong"),
        ("bounded", "BoundedStaleness"),
        ("session", "Session"),
        ("consistent-prefix", "ConsistentPrefix"),
        ("eventual", "Eventual"),
    ] {
        let server = server(&["--consistency", argument]);
        let account = server.client().call(&Request::new("GET", "/")).json();
        let policy = account.get("userConsistencyPolicy").expect("a policy");
        assert_eq!(text(policy, "defaultConsistencyLevel"), level);
        if level == "BoundedStaleness" {
            assert_eq!(
                (
                    number(policy, "maxStalenessPrefix"),
                    number(policy, "maxIntervalInSeconds")
                ),
                (100, 5)
            );
        }
    }
}

#[test]
fn a_request_may_ask_for_less_than_the_account_gives_and_not_for_more() {
    const LEVEL: &str = "x-ms-consistency-level";
    let server = server(&["--consistency", "consistent-prefix"]);
    let mut client = server.client();
    client.make_posts();
    client.create(ITEMS, r#"{"id":"a","postId":"p"}"#);
    let read = Request::new("GET", &item("a")).key("p");
    for (level, status) in [
        ("Strong", 400),
        ("BoundedStaleness", 400),
        ("Session", 400),
        ("ConsistentPrefix", 200),
        ("Eventual", 200),
        ("Sometimes", 400),
    ] {
        let answer = client.call(&read.clone().header(LEVEL, level));
        assert_eq!(answer.status, status, "{level}");
        if status == 400 {
            assert!(answer.text().contains(level), "{}", answer.text());
        }
    }
    // At this level the LSN in a session token is not checked.
    let ahead = read.clone().header("x-ms-session-token", "0:-1#999999");
    assert_eq!(client.call(&ahead).status, 200);
    let session = ahead.header("x-ms-cosmos-read-consistency-strategy", "Session");
    assert_eq!(
        client.call(&session).code(),
        (404, 1002),
        "a strategy is its own level"
    );
}

#[test]
fn a_session_token_binds_reads_at_session_consistency_and_above() {
    for argument in ["strong", "bounded", "session"] {
        let server = server(&["--consistency", argument]);
        let mut client = server.client();
        client.make_posts();
        let token = client.call(&Request::new("POST", ITEMS).body(r#"{"id":"a","postId":"p"}"#));
        let token = token
            .header("x-ms-session-token")
            .expect("a token")
            .to_owned();
        let ahead = format!(
            "{}#{}",
            token.split('#').next().expect("a version"),
            999_999
        );
        let read = Request::new("GET", &item("a")).key("p");
        assert_eq!(
            client
                .call(&read.clone().header("x-ms-session-token", token))
                .status,
            200,
            "{argument}"
        );
        let ahead = read.header("x-ms-session-token", ahead);
        assert_eq!(client.call(&ahead).code(), (404, 1002), "{argument}");
        assert_eq!(
            client
                .call(&ahead.clone().header("x-ms-consistency-level", "Eventual"))
                .status,
            200,
            "{argument}"
        );
    }
}

#[test]
fn the_lsn_headers_state_the_lsns_of_the_partition_and_the_item() {
    let server = server(&[]);
    let mut client = server.client();
    client.make_posts();
    let lsn =
        |answer: &program::Answer, name: &str| -> Option<u64> { answer.header(name)?.parse().ok() };
    let first = client.call(&Request::new("POST", ITEMS).body(r#"{"id":"a","postId":"p"}"#));
    let second = client.call(&Request::new("POST", ITEMS).body(r#"{"id":"b","postId":"p"}"#));
    let (before, after) = (
        lsn(&first, "lsn").expect("an LSN"),
        lsn(&second, "lsn").expect("an LSN"),
    );
    assert_eq!(after, before + 1);
    let read = client.call(&Request::new("GET", &item("a")).key("p"));
    for name in [
        "lsn",
        "x-ms-global-committed-lsn",
        "x-ms-quorum-acked-lsn",
        "x-ms-cosmos-llsn",
        "x-ms-cosmos-quorum-acked-llsn",
    ] {
        assert_eq!(lsn(&read, name), Some(after), "{name}");
    }
    for name in ["x-ms-item-lsn", "x-ms-cosmos-item-llsn"] {
        assert_eq!(lsn(&read, name), Some(before), "{name}");
    }
    assert_eq!(read.lsn(), after);
    for name in ["x-ms-current-replica-set-size", "x-ms-current-write-quorum"] {
        assert_eq!(read.header(name), Some("1"), "{name}");
    }
    let missing = client.call(&Request::new("GET", &item("c")).key("p"));
    assert_eq!(
        (
            missing.status,
            lsn(&missing, "lsn"),
            missing.header("x-ms-item-lsn")
        ),
        (404, Some(after), None)
    );
    let deleted = client.call(&Request::new("DELETE", &item("a")).key("p"));
    assert_eq!(
        (lsn(&deleted, "lsn"), lsn(&deleted, "x-ms-item-lsn")),
        (Some(after + 1), Some(after + 1))
    );
    // A read of a container has those of its first partition, other metadata none.
    let container = client.call(&Request::new("GET", "/dbs/blog/colls/posts"));
    assert_eq!(lsn(&container, "lsn"), Some(after + 1));
    let database = client.call(&Request::new("GET", "/dbs/blog"));
    assert_eq!(
        (
            database.header("lsn"),
            database.header("x-ms-session-token")
        ),
        (None, None)
    );
}

#[test]
fn every_region_is_served_here_and_the_first_takes_writes() {
    let server = server(&[
        "--region",
        "West US",
        "--region",
        "North Europe",
        "--region",
        "East Asia",
    ]);
    let answer = server.client().call(&Request::new("GET", "/"));
    let account = answer.json();
    assert_eq!(names(&account, "writableLocations"), ["West US"]);
    assert_eq!(
        names(&account, "readableLocations"),
        ["West US", "North Europe", "East Asia"]
    );
    assert_eq!(
        account
            .get("enableMultipleWriteLocations")
            .and_then(Json::as_bool),
        Some(false)
    );
    assert_eq!(answer.header("x-ms-number-of-read-regions"), Some("2"));
}

#[test]
fn a_region_named_twice_is_refused_at_the_start() {
    let Err(exit) = start(&["--memory", "--region", "West US", "--region", "westus"]) else {
        panic!("it started")
    };
    assert!(exit.stderr.contains("named twice"), "{}", exit.stderr);
    assert_ne!(exit.code, Some(0));
}

#[test]
fn over_http_a_client_in_direct_mode_is_told_the_remedy() {
    let server = server(&[]);
    let mut client = server.client();
    client.make_posts();
    let link = text(
        &client
            .call(&Request::new("GET", "/dbs/blog/colls/posts"))
            .json(),
        "_self",
    );
    let wanted = format!("{link}docs")
        .replace('/', "%2f")
        .replace('=', "%3d");
    for root in ["/addresses/", "//addresses/"] {
        let path = format!(
            "{root}?$resolveFor={wanted}&$filter=protocol%20eq%20rntbd&$partitionKeyRangeIds=0"
        );
        let answer = client.call(
            &Request::new("GET", &path)
                .signed_as("docs", link.trim_end_matches('/'))
                .by_rid(),
        );
        assert_eq!(answer.code(), (400, 0), "{}", answer.text());
        assert!(
            answer.text().contains("direct connection mode"),
            "{}",
            answer.text()
        );
        assert!(answer.text().contains("https://"), "{}", answer.text());
        assert!(answer.text().contains("gateway mode"), "{}", answer.text());
    }
    let masters = "/addresses/?$resolveFor=dbs&$filter=protocol%20eq%20rntbd";
    assert_eq!(
        client
            .call(&Request::new("GET", masters).signed_as("dbs", ""))
            .status,
        400
    );
    assert_eq!(
        client
            .call(&Request::new("GET", masters).signed_as("docs", ""))
            .status,
        401
    );
}

#[test]
fn a_body_in_binary_json_is_read_like_its_text() {
    let server = server(&[]);
    let mut client = server.client();
    client.make_posts();
    // {"id":"a","postId":"p","n":200}, with `id` from the dictionary.
    let item_a = [
        &[0x80, 0xEA, 0x10, 0x2C, 0x81, b'a', 0x86][..],
        b"postId",
        &[0x81, b'p', 0x81, b'n', 0xC8, 200],
    ]
    .concat();
    assert_eq!(
        client
            .call(&Request::new("POST", ITEMS).key("p").body(item_a.clone()))
            .status,
        201
    );
    let read = client
        .call(&Request::new("GET", &item("a")).key("p"))
        .json();
    assert_eq!(read.get("n").and_then(Json::as_i64), Some(200));
    let upsert = Request::new("POST", ITEMS)
        .key("p")
        .header("x-ms-documentdb-is-upsert", "True");
    assert_eq!(client.call(&upsert.body(item_a)).status, 200);
}

#[test]
fn a_broken_binary_json_body_is_refused_on_every_path() {
    let server = server(&[]);
    let mut client = server.client();
    client.make_posts();
    client.create(ITEMS, r#"{"id":"a","postId":"p"}"#);
    for request in [
        Request::new("POST", ITEMS),
        Request::new("POST", ITEMS).header("x-ms-documentdb-is-upsert", "True"),
        Request::new("PUT", &item("a")).key("p"),
        Request::query(ITEMS, ""),
        Request::new("POST", "/dbs"),
        Request::new("PUT", "/dbs/blog/colls/posts"),
        Request::new("POST", "/dbs/blog/colls/posts/sprocs/__.sys.echo").key("p"),
    ] {
        let answer = client.call(&request.clone().body([0x80, 0x12, 0x00]));
        assert_eq!(answer.code(), (400, 0), "{request:?}");
        assert!(answer.text().contains("binary JSON"), "{}", answer.text());
    }
}

#[test]
fn answers_are_text_for_every_client_that_reads_text() {
    const READS: &str = "x-ms-cosmos-supported-serialization-formats";
    const DEMANDS: &str = "x-ms-documentdb-content-serialization-format";
    let server = server(&[]);
    let mut client = server.client();
    client.make_posts();
    client.create(ITEMS, r#"{"id":"a","postId":"p"}"#);
    let query = Request::query(ITEMS, "SELECT * FROM c");
    assert_eq!(
        client
            .call(&query.clone().header(READS, "JsonText, CosmosBinary"))
            .rows()
            .len(),
        1
    );
    let binary = client.call(&query.clone().header(READS, "CosmosBinary"));
    assert_eq!(binary.status, 400);
    assert!(binary.text().contains("JsonText"), "{}", binary.text());
    assert_eq!(
        client.call(&query.header(DEMANDS, "CosmosBinary")).status,
        400
    );
    // Only the results of queries may be binary; feeds and single items are text for every client.
    for (header, formats) in [(READS, "CosmosBinary"), (DEMANDS, "CosmosBinary")] {
        assert_eq!(
            client
                .call(&Request::new("GET", ITEMS).header(header, formats))
                .rows()
                .len(),
            1,
            "{header}"
        );
        let read = client.call(
            &Request::new("GET", &item("a"))
                .key("p")
                .header(header, formats),
        );
        assert_eq!(text(&read.json(), "id"), "a", "{header}");
    }
}

#[test]
fn reads_of_strong_and_bounded_accounts_cost_twice_unless_they_ask_for_less() {
    for (argument, times) in [("strong", 2.0), ("bounded", 2.0), ("session", 1.0)] {
        let server = server(&["--consistency", argument]);
        let mut client = server.client();
        client.make_posts();
        client.create(ITEMS, r#"{"id":"a","postId":"p"}"#);
        let mut charge = |request: Request| -> f64 {
            let answer = client.call(&request.header("x-orrery-explain-charge", "true"));
            assert!(answer.status < 300, "{}", answer.text());
            answer
                .header("x-ms-request-charge")
                .expect("a charge")
                .parse()
                .expect("a number")
        };
        let query = Request::query(ITEMS, "SELECT * FROM c WHERE c.postId = 'p'").key("p");
        for read in [
            Request::new("GET", &item("a")).key("p"),
            query,
            Request::new("GET", ITEMS),
        ] {
            let weak = charge(read.clone().header("x-ms-consistency-level", "Eventual"));
            let own = charge(read.clone());
            assert!(
                (own - times * weak).abs() < 0.011,
                "{own} at {argument}, {weak} at eventual: {read:?}"
            );
        }
        let write = Request::new("PUT", &item("a"))
            .key("p")
            .body(r#"{"id":"a","postId":"p"}"#);
        assert!(
            (charge(write) - 10.29).abs() < 0.5,
            "writes cost the same at every level"
        );
    }
}
