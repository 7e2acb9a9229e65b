//! Feeds of every kind of resource: read, read in pages, requested with HEAD, and queried; and
//! upserts where they exist.

use crate::program::{Answer, Client, Request, Server, start, text};
use orrery_model::Json;

const CONTAINER: &str = "/dbs/blog/colls/posts";

/// The path of a feed, the member with its rows, and the body of resource number `n`.
type Feed = (&'static str, &'static str, fn(usize) -> String);

const FEEDS: &[Feed] = &[
    ("/dbs", "Databases", |n| format!(r#"{{"id":"r{n}"}}"#)),
    ("/dbs/blog/colls", "DocumentCollections", |n| {
        format!(r#"{{"id":"r{n}","partitionKey":{{"paths":["/k"]}}}}"#)
    }),
    ("/dbs/blog/colls/posts/sprocs", "StoredProcedures", |n| {
        format!(r#"{{"id":"r{n}","body":"function () {{}}"}}"#)
    }),
    ("/dbs/blog/colls/posts/udfs", "UserDefinedFunctions", |n| {
        format!(r#"{{"id":"r{n}","body":"function () {{}}"}}"#)
    }),
    ("/dbs/blog/colls/posts/triggers", "Triggers", |n| {
        format!(
            r#"{{"id":"r{n}","body":"function () {{}}","triggerType":"Pre","triggerOperation":"All"}}"#
        )
    }),
];

fn server() -> Server {
    start(&["--memory"]).expect("the server starts")
}

fn rows(answer: &Answer, member: &str) -> Vec<Json> {
    let rows = answer.members(member);
    assert_eq!(
        answer.header("x-ms-item-count"),
        Some(&*rows.len().to_string())
    );
    rows
}

/// Returns the ids on each page of a feed or query; calls `between` between two pages.
fn pages(
    client: &mut Client,
    request: &Request,
    member: &str,
    between: &mut dyn FnMut(&mut Client),
) -> Vec<Vec<String>> {
    let (mut all, mut next) = (Vec::new(), request.clone());
    loop {
        let answer = client.call(&next);
        all.push(
            rows(&answer, member)
                .iter()
                .map(|row| text(row, "id"))
                .collect(),
        );
        match answer.header("x-ms-continuation") {
            Some(continuation) => next = request.clone().header("x-ms-continuation", continuation),
            None => return all,
        }
        between(client);
    }
}

#[test]
fn every_feed_is_paged_headed_and_queried() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    for (path, member, body) in FEEDS {
        (0..5).for_each(|n| client.create(path, &body(n)));
        let whole = rows(&client.call(&Request::new("GET", path)), member);
        let ids: Vec<String> = whole.iter().map(|row| text(row, "id")).collect();
        let list = Request::new("GET", path).header("x-ms-max-item-count", "2");
        let paged = pages(&mut client, &list, member, &mut |_| {});
        assert!(
            paged[..paged.len() - 1].iter().all(|page| page.len() == 2),
            "{path}: {paged:?}"
        );
        assert_eq!(paged.concat(), ids, "{path}");
        let head = client.call(&Request::new("HEAD", path));
        assert_eq!(
            (head.status, head.header("x-ms-item-count")),
            (200, Some(&*ids.len().to_string())),
            "{path}"
        );
        let query = Request::query(
            path,
            "SELECT * FROM root r WHERE STARTSWITH(r.id, 'r') ORDER BY r.id DESC",
        );
        let paged = pages(
            &mut client,
            &query.header("x-ms-max-item-count", "3"),
            member,
            &mut |_| {},
        );
        assert_eq!(paged.concat(), ["r4", "r3", "r2", "r1", "r0"], "{path}");
        let wrong = client.call(&Request::query(path, "SELEKT * FROM c"));
        assert!(
            wrong.status == 400 && wrong.text().contains("SC1001"),
            "{path}: {}",
            wrong.text()
        );
        let bad = Request::new("GET", path).header("x-ms-continuation", "nonsense");
        assert_eq!(client.call(&bad).status, 400, "{path}");
        assert_eq!(
            client.call(&Request::new("PUT", path)).status,
            405,
            "{path}"
        );
    }
}

#[test]
fn a_list_continues_at_its_position_after_resources_were_deleted() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    for (path, member, body) in FEEDS {
        (0..7).for_each(|n| client.create(path, &body(n)));
        let list = Request::new("GET", path).header("x-ms-max-item-count", "3");
        let first: Vec<String> = rows(&client.call(&list), member)
            .iter()
            .map(|row| text(row, "id"))
            .filter(|id| id.starts_with('r'))
            .collect();
        let mut to_go = first.clone();
        let paged = pages(&mut client, &list, member, &mut |client| {
            if let Some(id) = to_go.pop() {
                assert_eq!(
                    client
                        .call(&Request::new("DELETE", &format!("{path}/{id}")))
                        .status,
                    204
                );
            }
        });
        let mut seen: Vec<String> = paged
            .concat()
            .into_iter()
            .filter(|id| id.starts_with('r'))
            .collect();
        seen.sort();
        assert_eq!(seen, ["r0", "r1", "r2", "r3", "r4", "r5", "r6"], "{path}");
    }
}

#[test]
fn the_conflicts_feed_is_empty() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let feed = format!("{CONTAINER}/conflicts");
    assert!(rows(&client.call(&Request::new("GET", &feed)), "Conflicts").is_empty());
    assert_eq!(
        client
            .call(&Request::new("HEAD", &feed))
            .header("x-ms-item-count"),
        Some("0")
    );
    assert!(
        rows(
            &client.call(&Request::query(
                &feed,
                "SELECT * FROM root r WHERE r.id = 'a'"
            )),
            "Conflicts"
        )
        .is_empty()
    );
    assert_eq!(client.call(&Request::query(&feed, "SELEKT")).status, 400);
    for method in ["GET", "HEAD", "DELETE"] {
        assert_eq!(
            client
                .call(&Request::new(method, &format!("{feed}/a")).key("p"))
                .code(),
            (404, 0),
            "{method}"
        );
    }
    assert_eq!(
        client
            .call(&Request::new("GET", "/dbs/blog/colls/none/conflicts"))
            .code(),
        (404, 1003)
    );
}

#[test]
fn a_query_of_conflicts_needs_a_partition_key_or_the_right_to_cross_partitions() {
    let server = server();
    let mut client = server.client();
    client.make_posts();
    let feed = format!("{CONTAINER}/conflicts");
    let query = |feed: &str| {
        Request::new("POST", feed)
            .header("Content-Type", "application/query+json")
            .header("x-ms-documentdb-isquery", "True")
            .body(r#"{"query":"SELECT * FROM c"}"#)
    };
    let refused = client.call(&query(&feed));
    let message = refused.error(400, None, "BadRequest");
    assert!(
        message.contains("Cross partition query is required but disabled"),
        "{message}"
    );
    for request in [
        query(&feed).key("p1"),
        query(&feed).header("x-ms-documentdb-query-enablecrosspartition", "True"),
        query(&feed).header("x-ms-documentdb-partitionkeyrangeid", "0"),
    ] {
        let answer = client.call(&request);
        assert!(rows(&answer, "Conflicts").is_empty(), "{}", answer.text());
    }
    // A container without a partition key has one logical partition.
    client.create("/dbs/blog/colls", r#"{"id":"old"}"#);
    let old = "/dbs/blog/colls/old/conflicts";
    assert!(rows(&client.call(&query(old)), "Conflicts").is_empty());
}

#[test]
fn a_page_size_of_minus_one_sets_no_limit_of_rows() {
    const ITEMS: usize = 150;
    let server = server();
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    let body = r#"{"id":"posts","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}"#;
    client.create("/dbs/blog/colls", body);
    let docs = format!("{CONTAINER}/docs");
    let scripts = format!("{CONTAINER}/sprocs");
    let count = r#"function (size) {
        const c = getContext().getCollection();
        const counts = [];
        const add = (e, rows) => { counts.push(rows.length); };
        c.readDocuments(c.getSelfLink(), {pageSize: size}, add);
        c.queryDocuments(c.getSelfLink(), 'SELECT c.id FROM c', {pageSize: size}, add);
        __.filter(() => true, {pageSize: size}, (e, rows) => {
            counts.push(rows.length);
            getContext().getResponse().setBody(counts);
        });
    }"#;
    let source = Json::from(count);
    client.create(&scripts, &format!(r#"{{"id":"count","body":{source}}}"#));
    // Each item has a commit of its own, because a page never divides the changes of a commit.
    for n in 0..ITEMS {
        let create = Request::new("POST", &docs).key("p");
        let body = format!(r#"{{"id":"i{n}","k":"p"}}"#);
        assert_eq!(client.call(&create.body(body)).status, 201);
    }
    for (size, counts) in [("[-1]", "[150,150,150]"), ("[7]", "[7,7,7]")] {
        let run = Request::new("POST", &format!("{scripts}/count")).key("p");
        let answer = client.call(&run.body(size));
        assert_eq!((answer.status, &*answer.text()), (200, counts));
    }

    let query = |text: &str| Request::query(&docs, text);
    for request in [
        query("SELECT * FROM c"),
        query("SELECT * FROM c ORDER BY c.id"),
        Request::new("GET", &docs),
        Request::new("GET", &docs).header("A-IM", "Incremental Feed"),
    ] {
        for (most, rows) in [
            (Some("-1"), ITEMS),
            (Some("7"), 7),
            (Some("0"), 100),
            (None, 100),
        ] {
            let mut request = request.clone();
            if let Some(most) = most {
                request = request.header("x-ms-max-item-count", most);
            }
            assert_eq!(client.call(&request).rows().len(), rows, "{most:?}");
        }
    }
}

#[test]
fn partition_key_ranges_are_paged_on_request() {
    let server = server();
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    let create = Request::new("POST", "/dbs/blog/colls").header("x-ms-offer-throughput", "30000");
    let body = r#"{"id":"posts","partitionKey":{"paths":["/k"],"kind":"Hash","version":2}}"#;
    assert_eq!(client.call(&create.body(body)).status, 201);
    let list = Request::new("GET", &format!("{CONTAINER}/pkranges"));
    let everything = ["0", "1", "2", "3", "4"];
    for most in ["2147483647", "-1"] {
        let request = list.clone().header("x-ms-max-item-count", most);
        assert_eq!(
            pages(&mut client, &request, "PartitionKeyRanges", &mut |_| {}),
            [everything],
            "{most}"
        );
    }
    let paged = pages(
        &mut client,
        &list.clone().header("x-ms-max-item-count", "2"),
        "PartitionKeyRanges",
        &mut |_| {},
    );
    assert_eq!(paged, [vec!["0", "1"], vec!["2", "3"], vec!["4"]]);
    // A reader that sends the etag gets all ranges in one page; the next request with the etag is
    // answered with 304.
    let incremental = list
        .header("A-IM", "Incremental Feed")
        .header("x-ms-max-item-count", "2");
    let answer = client.call(&incremental);
    assert_eq!(rows(&answer, "PartitionKeyRanges").len(), 5);
    let again = incremental.header("If-None-Match", answer.header("etag").expect("an etag"));
    assert_eq!(
        (
            client.call(&again).status,
            answer.header("x-ms-continuation")
        ),
        (304, None)
    );
}

#[test]
fn scripts_are_upserted_and_databases_and_containers_are_not() {
    const UPSERT: &str = "x-ms-documentdb-is-upsert";
    let server = server();
    let mut client = server.client();
    client.make_posts();
    for (path, _, body) in FEEDS {
        let upsert = Request::new("POST", path)
            .header(UPSERT, "true")
            .body(body(0));
        if path.starts_with(CONTAINER) {
            let (made, replaced) = (client.call(&upsert), client.call(&upsert));
            assert_eq!((made.status, replaced.status), (201, 200), "{path}");
            assert_eq!(
                text(&made.json(), "_rid"),
                text(&replaced.json(), "_rid"),
                "{path}"
            );
            assert_ne!(
                text(&made.json(), "_etag"),
                text(&replaced.json(), "_etag"),
                "{path}"
            );
            assert_eq!(
                client
                    .call(&Request::new("POST", path).body(body(0)))
                    .status,
                409,
                "{path}"
            );
        } else {
            let refused = client.call(&upsert);
            assert_eq!(refused.status, 400, "{path}");
            assert!(refused.text().contains(UPSERT), "{}", refused.text());
        }
    }
}
