//! Requests to physical partitions: by range id, by EPK range, by paths of resource ids; and
//! together with a partition key.

use crate::program::{Answer, Client, ITEMS, Request, start_with_item, text};
use orrery_model::Json;

const POSTS: &str = "/dbs/blog/colls/posts";
const WIDE: &str = "/dbs/blog/colls/wide";

/// Returns the three kinds of requests that a range header directs.
fn requests_by_range(path: &str) -> [(&'static str, Request); 3] {
    [
        ("query", Request::query(path, "SELECT * FROM c")),
        ("read feed", Request::new("GET", path)),
        (
            "change feed",
            Request::new("GET", path).header("A-IM", "Incremental feed"),
        ),
    ]
}

fn in_range(request: &Request, id: &str) -> Request {
    request
        .clone()
        .header("x-ms-documentdb-partitionkeyrangeid", id)
}

/// Creates a container of several physical partitions with one item for each of `keys` partition
/// keys; returns its ranges.
fn create_wide(client: &mut Client, keys: usize) -> Vec<Json> {
    let body = r#"{"id":"wide","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#;
    let made = Request::new("POST", "/dbs/blog/colls")
        .header("x-ms-offer-throughput", "12000")
        .body(body);
    assert_eq!(client.call(&made).status, 201);
    for n in 0..keys {
        let answer = client.call(
            &Request::new("POST", &format!("{WIDE}/docs")).body(format!(r#"{{"id":"i{n}"}}"#)),
        );
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    client
        .call(&Request::new("GET", &format!("{WIDE}/pkranges")))
        .members("PartitionKeyRanges")
}

#[test]
fn a_range_that_is_gone_or_of_another_container_is_410() {
    let (_server, mut client) = start_with_item();
    for (kind, request) in requests_by_range(ITEMS) {
        for request in [request.clone(), request.key("p1")] {
            assert_eq!(
                client.call(&in_range(&request, "99")).code(),
                (410, 1002),
                "{kind}"
            );
            assert_eq!(
                client.call(&in_range(&request, "XP0mAJ3H-AA=,0")).code(),
                (410, 1000),
                "{kind}"
            );
            assert_eq!(
                client.call(&in_range(&request, "0")).rows().len(),
                1,
                "{kind}"
            );
        }
    }
}

#[test]
fn an_epk_range_outside_its_partition_or_of_no_length_is_empty() {
    let (_server, mut client) = start_with_item();
    let ranges = create_wide(&mut client, 20);
    let (first, second) = (&ranges[0], &ranges[1]);
    for (kind, request) in requests_by_range(&format!("{WIDE}/docs")) {
        let slice = |start: &str, end: &str| {
            in_range(&request, &text(first, "id"))
                .header("x-ms-start-epk", start)
                .header("x-ms-end-epk", end)
        };
        for request in [
            slice(&text(second, "minInclusive"), &text(second, "maxExclusive")),
            slice("1000", "1000"),
        ] {
            let answer = client.call(&request);
            assert_eq!(
                answer.header("x-ms-item-count"),
                Some("0"),
                "{kind}: {}",
                answer.text()
            );
            assert_eq!(
                answer.status,
                if kind == "change feed" { 304 } else { 200 },
                "{kind}"
            );
            assert!(answer.header("x-ms-session-token").is_some(), "{kind}");
        }
        let whole = client
            .call(&slice(
                &text(first, "minInclusive"),
                &text(first, "maxExclusive"),
            ))
            .rows()
            .len();
        assert!(
            (1..20).contains(&whole),
            "{kind} gave {whole} rows of one range"
        );
    }
}

#[test]
fn an_empty_key_restricts_no_query_and_is_no_key_for_a_feed() {
    let (_server, mut client) = start_with_item();
    let ranges = create_wide(&mut client, 20);
    assert!(ranges.len() > 1, "one range proves nothing");
    let [(_, query), (_, feed), (_, changes)] = requests_by_range(&format!("{WIDE}/docs"));
    let with_none = |request: Request| request.header("x-ms-documentdb-partitionkey", "[]");
    assert_eq!(client.pages(&with_none(query)).0.len(), 20);
    for request in [feed, in_range(&changes, &text(&ranges[0], "id"))] {
        assert_eq!(client.call(&with_none(request)).code(), (400, 1001));
    }
    let plan = Request::query(&format!("{WIDE}/docs"), "SELECT * FROM c ORDER BY c.n")
        .header("x-ms-cosmos-is-query-plan-request", "True");
    let answer = client.call(&with_none(plan));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn ranges_are_read_by_resource_ids_in_both_spellings() {
    let (_server, mut client) = start_with_item();
    let container = client.call(&Request::new("GET", POSTS)).json();
    let database = text(
        &client.call(&Request::new("GET", "/dbs/blog")).json(),
        "_rid",
    );
    let rid = text(&container, "_rid");
    let encoded = |rid: &str| rid.replace('=', "%3D");
    for (database, rid) in [
        (database.clone(), rid.clone()),
        (encoded(&database), encoded(&rid)),
    ] {
        let path = format!("/dbs/{database}/colls/{rid}");
        let read = client.call(&Request::new("GET", &path).by_rid());
        assert_eq!(read.status, 200, "{path}: {}", read.text());
        assert_eq!(text(&read.json(), "id"), "posts");
        let drained = |client: &mut Client, etag: Option<&str>| -> Answer {
            let request = Request::new("GET", &format!("{path}/pkranges"))
                .by_rid()
                .header("A-IM", "Incremental feed");
            client.call(&match etag {
                Some(etag) => request.header("If-None-Match", etag),
                None => request,
            })
        };
        let first = drained(&mut client, None);
        assert_eq!(
            (first.status, first.header("x-ms-item-count")),
            (200, Some("1")),
            "{path}: {}",
            first.text()
        );
        let etag = first.header("etag").expect("an etag").to_owned();
        assert_eq!(drained(&mut client, Some(&etag)).status, 304);
    }
}
