//! Clients of old versions of the protocol: containers without a partition key, which have one
//! physical partition and show no key, and session tokens of the short form.

use crate::program::{Answer, Client, ITEMS, Request, Server, item, start, text};
use orrery_model::Json;

const KEY: &str = "x-ms-documentdb-partitionkey";
const VERSION: &str = "x-ms-version";

/// Starts a server with a container that a client of 2016 made: without a partition key.
fn with_container_of_2016(options: &[&str]) -> (Server, Client) {
    let server = start(&[&["--memory"], options].concat()).expect("the server starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    let made = create_container(&mut client, r#"{"id":"posts"}"#, "1000");
    assert_eq!(made.status, 201, "{}", made.text());
    (server, client)
}

fn create_container(client: &mut Client, body: &str, throughput: &str) -> Answer {
    let request = Request::new("POST", "/dbs/blog/colls")
        .header(VERSION, "2016-07-11")
        .header("x-ms-offer-throughput", throughput)
        .body(body);
    client.call(&request)
}

/// Returns a query as clients of 2016 send it: with no word about partitions.
fn query_of_2016(text: &str) -> Request {
    Request::new("POST", ITEMS)
        .header(VERSION, "2016-07-11")
        .header("Content-Type", "application/query+json")
        .header("x-ms-documentdb-isquery", "True")
        .body(format!(r#"{{"query":"{text}"}}"#))
}

#[test]
fn queries_of_a_container_without_a_partition_key_need_no_word_about_partitions() {
    for options in [&[][..], &["--cross-partition-queries", "refuse"]] {
        let (_server, mut client) = with_container_of_2016(options);
        for id in ["a", "b", "c"] {
            let body = format!(r#"{{"id":"{id}","n":1}}"#);
            client.create(ITEMS, &body);
        }
        let elsewhere = client.call(
            &Request::new("POST", ITEMS)
                .header(KEY, r#"["x"]"#)
                .body(r#"{"id":"d","n":1,"_partitionKey":"x"}"#),
        );
        assert_eq!(elsewhere.status, 201, "{}", elsewhere.text());
        for (query, expected) in [
            (
                "SELECT VALUE c.id FROM c WHERE c.n = 1 ORDER BY c.id DESC",
                r#"["d","c","b","a"]"#,
            ),
            ("SELECT VALUE COUNT(1) FROM c", "[4]"),
            ("SELECT VALUE c.id FROM c WHERE c.id = 'b'", r#"["b"]"#),
        ] {
            let answer = client.call(&query_of_2016(query));
            assert_eq!(answer.status, 200, "{options:?} {query}: {}", answer.text());
            let rows = answer.json().get("Documents").map(|rows| rows.to_text());
            assert_eq!(rows.as_deref(), Some(expected), "{options:?} {query}");

            // Clients that may cross partitions say so, and know no plan for the answer.
            let crossing = query_of_2016(query)
                .header("x-ms-documentdb-query-enablecrosspartition", "True")
                .header(
                    "x-ms-documentdb-query-parallelizecrosspartitionquery",
                    "True",
                );
            let answer = client.call(&crossing);
            assert_eq!(answer.status, 200, "{options:?} {query}: {}", answer.text());
        }
    }
}

#[test]
fn a_query_of_a_container_with_a_partition_key_still_needs_the_word() {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    let answer = client.call(&query_of_2016("SELECT * FROM c"));
    assert_eq!(answer.status, 400);
    assert!(
        answer.text().contains("Cross partition query is required"),
        "{}",
        answer.text()
    );
}

#[test]
fn a_container_without_a_partition_key_has_one_partition_up_to_10000_request_units() {
    const REFUSED: &str = "The offer should have valid throughput values between 400 and 10000 \
         inclusive in \
         increments of 100.";
    let (_server, mut client) = with_container_of_2016(&[]);
    let refused = create_container(&mut client, r#"{"id":"more"}"#, "10100");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains(REFUSED), "{}", refused.text());
    let scaled = Request::new("POST", "/dbs/blog/colls")
        .header(
            "x-ms-cosmos-offer-autopilot-settings",
            r#"{"maxThroughput":11000}"#,
        )
        .body(r#"{"id":"scaled"}"#);
    let refused = client.call(&scaled);
    let expected = "between 1000 and 10000 inclusive in increments of 1000";
    assert!(
        refused.status == 400 && refused.text().contains(expected),
        "{}",
        refused.text()
    );

    let made = create_container(&mut client, r#"{"id":"most"}"#, "10000");
    assert_eq!(made.status, 201, "{}", made.text());
    let ranges = client.call(&Request::new("GET", "/dbs/blog/colls/most/pkranges"));
    let ranges = ranges.json().get("PartitionKeyRanges").cloned();
    let ranges = ranges.and_then(|ranges| ranges.as_array().map(<[_]>::len));
    assert_eq!(ranges, Some(1));

    // A container with a partition key has two partitions at that throughput, and more on request.
    let body = r#"{"id":"keyed","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
    assert_eq!(create_container(&mut client, body, "10100").status, 201);

    // The limit holds for a replaced throughput too.
    let rid = text(&made.json(), "_rid");
    let offers = client.call(&Request::new("GET", "/offers")).json();
    let offers = offers.get("Offers").and_then(|offers| offers.as_array());
    let mut offers = offers.expect("offers").iter();
    let offer = offers
        .find(|offer| text(offer, "offerResourceId") == rid)
        .expect("the offer");
    let path = format!("/{}", text(offer, "_self"));
    let replaced = offer
        .to_text()
        .replace(r#""offerThroughput":10000"#, r#""offerThroughput":10100"#);
    let request = Request::new("PUT", &path).by_rid().body(replaced);
    let refused = client.call(&request);
    assert!(
        refused.status == 400 && refused.text().contains(REFUSED),
        "{} {}",
        refused.status,
        refused.text()
    );
}

#[test]
fn versions_before_2018_12_31_see_no_partition_key_where_none_was_set() {
    const CONTAINER: &str = "/dbs/blog/colls/posts";
    let (_server, mut client) = with_container_of_2016(&[]);
    let keyed = r#"{"id":"keyed","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
    assert_eq!(create_container(&mut client, keyed, "1000").status, 201);
    for (version, is_shown) in [
        ("2016-07-11", false),
        ("2018-09-17", false),
        ("2018-12-31", true),
    ] {
        let mut call = |request: Request| {
            let answer = client.call(&request.header(VERSION, version));
            assert!(answer.status < 300, "{version}: {}", answer.text());
            answer.json()
        };
        let read = call(Request::new("GET", CONTAINER));
        assert_eq!(read.get("partitionKey").is_some(), is_shown, "{version}");
        let has_quotes = text(&read, "_etag").starts_with('"') && text(&read, "id") == "posts";
        assert!(has_quotes, "{version}: {read}");
        // A client sends back what a read returned.
        let replaced = call(Request::new("PUT", CONTAINER).body(read.to_text()));
        assert_eq!(
            replaced.get("partitionKey").is_some(),
            is_shown,
            "{version}"
        );
        for feed in [
            call(Request::new("GET", "/dbs/blog/colls")),
            call(Request::query("/dbs/blog/colls", "SELECT * FROM c")),
        ] {
            let listed = feed.get("DocumentCollections").and_then(Json::as_array);
            let listed = listed.expect("containers");
            assert_eq!(listed.len(), 2, "{version}");
            for container in listed {
                let is_keyed = text(container, "id") == "keyed";
                assert_eq!(
                    container.get("partitionKey").is_some(),
                    is_keyed || is_shown,
                    "{version}: {container}"
                );
            }
        }
    }
    let created = create_container(&mut client, r#"{"id":"another"}"#, "400");
    assert_eq!(created.json().get("partitionKey"), None);
}

/// Returns the tokens of the responses to all kinds of requests for items.
fn tokens(client: &mut Client, version: &str, id: &str) -> Vec<String> {
    let body = format!(r#"{{"id":"{id}","postId":"p1"}}"#);
    let requests = [
        Request::new("POST", ITEMS).body(body.as_str()),
        Request::new("POST", ITEMS).body(body.as_str()),
        Request::new("GET", &item(id)).key("p1"),
        Request::new("GET", &item("none")).key("p1"),
        Request::query(ITEMS, "SELECT * FROM c"),
        Request::new("GET", ITEMS).header("A-IM", "Incremental feed"),
        Request::new("DELETE", &item(id)).key("p1"),
    ];
    let mut tokens = Vec::new();
    for request in requests {
        let answer = client.call(&request.header(VERSION, version));
        let token = answer.header("x-ms-session-token");
        tokens.push(
            token
                .unwrap_or_else(|| panic!("no token: {}", answer.text()))
                .to_owned(),
        );
    }
    tokens
}

#[test]
fn versions_before_the_long_session_token_get_the_short_one_and_each_is_accepted() {
    let server = start(&["--memory"]).expect("the server starts");
    let mut client = server.client();
    client.make_posts();
    for version in ["2014-08-21", "2016-07-11", "2017-11-15"] {
        for token in tokens(&mut client, version, "old") {
            let (range, lsn) = token.split_once(':').expect("a range");
            assert!(
                range == "0" && lsn.parse::<u64>().is_ok(),
                "{version}: {token}"
            );
        }
    }
    for version in ["2018-06-18", "2018-12-31", "2020-07-15"] {
        for token in tokens(&mut client, version, "new") {
            let (_, lsns) = token.split_once(':').expect("a range");
            assert!(lsns.contains('#'), "{version}: {token}");
        }
    }

    // A token of one form is understood in requests of the other, and a token ahead is refused.
    let body = r#"{"id":"a","postId":"p1"}"#;
    let create = Request::new("POST", ITEMS).body(body);
    let short = client.call(&create.header(VERSION, "2016-07-11"));
    let short = short
        .header("x-ms-session-token")
        .expect("a token")
        .to_owned();
    let read = |version: &str, token: &str| {
        let request = Request::new("GET", &item("a")).key("p1");
        request
            .header(VERSION, version)
            .header("x-ms-session-token", token)
    };
    let answer = client.call(&read("2020-07-15", &short));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let long = answer
        .header("x-ms-session-token")
        .expect("a token")
        .to_owned();
    assert_eq!(client.call(&read("2016-07-11", &long)).status, 200);
    assert_eq!(
        client.call(&read("2020-07-15", "0:1000000")).code(),
        (404, 1002)
    );
}
