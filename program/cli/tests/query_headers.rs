//! Resumed queries at each row, and queries while an index is transformed: properties that hold for
//! many requests. `requests/query_headers.txt` has the other headers of queries.

use crate::program::{Client, ITEMS, Request, start_with_posts, text};
use orrery_model::Json;

const RANGED: &str = "/dbs/blog/colls/ranged/docs";

/// Creates a container of several physical partitions in which many items share a sort value;
/// returns the ids of its ranges.
fn create_ranged(client: &mut Client) -> Vec<String> {
    let body = r#"{"id":"ranged","partitionKey":{"paths":["/id"],"kind":"Hash","version":2}}"#;
    let made = client.call(
        &Request::new("POST", "/dbs/blog/colls")
            .header("x-ms-offer-throughput", "12000")
            .body(body),
    );
    assert_eq!(made.status, 201, "{}", made.text());
    for n in 0..56 {
        let value = match n % 7 {
            0 => String::new(),
            1 => r#","n":"x""#.to_owned(),
            5 => format!(r#","n":[{}]"#, n % 3),
            6 => format!(r#","n":{{"a":{}}}"#, n % 3),
            kind => format!(r#","n":{}"#, kind % 3),
        };
        let body = format!(r#"{{"id":"i{n}"{value}}}"#);
        let answer = client.call(
            &Request::new("POST", RANGED)
                .key(&format!("i{n}"))
                .body(body),
        );
        assert_eq!(answer.status, 201, "{}", answer.text());
    }
    client.range_ids("/dbs/blog/colls/ranged")
}

/// Returns the query that a merging client sends to one range.
fn query_of_range(direction: &str, range: &str, filter: Option<&str>) -> Request {
    let query = format!(
        "SELECT c._rid, [{{\"item\": c.n}}] AS orderByItems, {{\"id\": c.id}} AS payload \
         FROM c WHERE (true) ORDER BY c.n {direction}"
    );
    let filter = filter.map_or(String::new(), |filter| {
        format!(r#","resumeFilter":{filter}"#)
    });
    Request::query(RANGED, &query)
        .header("x-ms-documentdb-partitionkeyrangeid", range)
        .body(format!(
            r#"{{"query":{}{filter}}}"#,
            Json::from(query.as_str()).to_text()
        ))
}

/// Returns a row's sort value in the form of a resume filter, in which undefined is an empty array,
/// and an array or object its hash. Of a hash the type alone counts.
fn resume_value(row: &Json) -> String {
    let item = row
        .get("orderByItems")
        .and_then(Json::as_array)
        .expect("sort keys")[0]
        .get("item")
        .cloned();
    match item {
        None => "[]".to_owned(),
        Some(Json::Array(_)) => r#"{"type":"array","low":1,"high":-2}"#.to_owned(),
        Some(Json::Object(_)) => r#"{"type":"object","low":-3,"high":4}"#.to_owned(),
        Some(scalar) => scalar.to_text(),
    }
}

#[test]
fn a_resume_filter_resumes_at_each_row_of_each_range() {
    let (_server, mut client) = start_with_posts();
    let ranges = create_ranged(&mut client);
    assert!(ranges.len() > 1, "one range proves nothing");
    for (direction, range) in ["ASC", "DESC"]
        .iter()
        .flat_map(|d| ranges.iter().map(move |r| (*d, r)))
    {
        let (all, _) = client.pages(&query_of_range(direction, range, None));
        assert!(all.len() > 10, "{range} has {} rows", all.len());
        for (at, row) in all.iter().enumerate() {
            let (value, rid) = (resume_value(row), text(row, "_rid"));
            let description = format!("{direction} in {range} at {at}, {value}");
            let from = format!(r#"{{"value":[{value}],"rid":"{rid}","exclude":false}}"#);
            assert_eq!(
                client
                    .pages(&query_of_range(direction, range, Some(&from)))
                    .0,
                all[at..],
                "{description}"
            );
            let paged =
                query_of_range(direction, range, Some(&from)).header("x-ms-max-item-count", "3");
            assert_eq!(client.pages(&paged).0, all[at..], "{description}, in pages");
            let behind = format!(r#"{{"value":[{value}],"exclude":true}}"#);
            let next = all
                .iter()
                .skip(at)
                .position(|row| resume_value(row) != value)
                .map_or(all.len(), |n| at + n);
            assert_eq!(
                client
                    .pages(&query_of_range(direction, range, Some(&behind)))
                    .0,
                all[next..],
                "{description}, after"
            );
        }
    }
}

#[test]
fn a_continuation_and_a_resume_filter_together_lose_and_repeat_nothing() {
    let (_server, mut client) = start_with_posts();
    let ranges = create_ranged(&mut client);
    for (direction, range) in ["ASC", "DESC"]
        .iter()
        .flat_map(|d| ranges.iter().map(move |r| (*d, r)))
    {
        let (all, _) = client.pages(&query_of_range(direction, range, None));
        let first =
            client.call(&query_of_range(direction, range, None).header("x-ms-max-item-count", "4"));
        let continuation = first
            .header("x-ms-continuation")
            .expect("more than four rows")
            .to_owned();
        for at in [1, 4, 7] {
            let filter = format!(
                r#"{{"value":[{}],"rid":"{}","exclude":false}}"#,
                resume_value(&all[at]),
                text(&all[at], "_rid")
            );
            let request = query_of_range(direction, range, Some(&filter))
                .header("x-ms-continuation", continuation.as_str());
            assert_eq!(
                client.pages(&request).0,
                all[at.max(4)..],
                "{direction} in {range} at {at}"
            );
        }
    }
}

const ORDERED: &str = r#"{"id":"posts",
    "partitionKey":{"paths":["/postId"],"kind":"Hash","version":2},
    "indexingPolicy":{"excludedPaths":[{"path":"/text/?"}],
    "compositeIndexes":[[{"path":"/postId","order":"ascending"},
        {"path":"/n","order":"descending"}]]}}"#;
const POSTS: &str = "/dbs/blog/colls/posts";

/// Returns the progress of the container's index transformation in percent.
fn progress(client: &mut Client) -> String {
    let answer = client
        .call(&Request::new("GET", POSTS).header("x-ms-documentdb-populatequotainfo", "True"));
    let header = answer.header("x-ms-documentdb-collection-index-transformation-progress");
    header.expect("the progress").to_owned()
}

#[test]
fn a_change_of_the_policy_shows_its_progress() {
    let (_server, mut client) = start_with_posts();
    for n in 0..20 {
        client.create(
            ITEMS,
            &format!(r#"{{"id":"i{n}","postId":"p1","n":{n},"text":"t"}}"#),
        );
    }
    assert_eq!(progress(&mut client), "100");
    let key = client
        .call(&Request::new("GET", POSTS))
        .json()
        .get("partitionKey")
        .expect("the key")
        .clone();
    let body = ORDERED.replace(
        r#"{"paths":["/postId"],"kind":"Hash","version":2}"#,
        &key.to_text(),
    );
    assert_eq!(
        client.call(&Request::new("PUT", POSTS).body(body)).status,
        200
    );
    let query = Request::query(
        ITEMS,
        "SELECT VALUE c.n FROM c WHERE c.postId = 'p1' ORDER BY c.postId, c.n DESC",
    );
    let query = query.header("x-ms-documentdb-query-enablecrosspartition", "True");
    let wanted: Vec<Json> = (0..20).rev().map(Json::from).collect();
    // The value is the same during the transformation and after it.
    let mut seen = progress(&mut client);
    while seen != "100" {
        assert!(
            seen.parse::<u8>().is_ok_and(|percent| percent < 100),
            "{seen}"
        );
        assert_eq!(client.call(&query).rows(), wanted);
        seen = progress(&mut client);
    }
    assert_eq!(client.call(&query).rows(), wanted);
}
