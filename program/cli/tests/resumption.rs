//! ORDER BY queries resumed by merging clients: with a condition that the client adds to the text,
//! with and without a continuation of the query without this condition.

use crate::program::{Answer, Client, Request, Server, start, text};
use orrery_model::Json;
use orrery_model::json::parse;
use percent_encoding::percent_decode_str;

const RANGED: &str = "/dbs/blog/colls/ranged/docs";
/// Filters of the query itself: none, and one that matches so few items that they are looked up and
/// sorted.
const QUERY_FILTERS: [&str; 2] = ["", "(c.kind = \"rare\") AND "];

fn server() -> (Server, Client) {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    (server, client)
}

/// Creates a container of several physical partitions and returns the ids of its ranges. It has
/// `items` items whose `n` takes these values in turn; every item whose number is a multiple of
/// `rare` has the kind `rare`.
fn create_ranged(client: &mut Client, values: &[&str], items: usize, rare: usize) -> Vec<String> {
    let body = r#"{"id":"ranged","partitionKey":{"paths":["/id"],"kind":"Hash","version":2},
        "indexingPolicy":{"compositeIndexes":[[{"path":"/n"},{"path":"/m"}]]}}"#;
    let made = Request::new("POST", "/dbs/blog/colls")
        .header("x-ms-offer-throughput", "12000")
        .body(body);
    assert_eq!(client.call(&made).status, 201);
    for n in 0..items {
        let kind = if n % rare == 0 { "rare" } else { "common" };
        let value = values[(n * 7 / 3) % values.len()];
        let body = format!(r#"{{"id":"i{n}","kind":"{kind}","m":{}{value}}}"#, n % 5);
        client.create(RANGED, &body);
    }
    let ranges = client.range_ids("/dbs/blog/colls/ranged");
    assert!(ranges.len() > 1, "one range proves nothing");
    ranges
}

/// Returns the query that a merging client sends to one range, with its resume condition.
fn query_of_range(query_filter: &str, place: &str, keys: &str, range: &str) -> Request {
    let query = format!(
        "SELECT c._rid, [{{\"item\": c.n}}, {{\"item\": c.m}}] AS orderByItems, {{\"id\": c.id}} AS payload\nFROM c\n\
         WHERE ({query_filter}({place}))\nORDER BY {keys}"
    );
    Request::query(RANGED, &query).header("x-ms-documentdb-partitionkeyrangeid", range)
}

fn sort_value(row: &Json, key: usize) -> Option<Json> {
    row.get("orderByItems")
        .and_then(Json::as_array)
        .expect("sort keys")[key]
        .get("item")
        .cloned()
}

fn n(row: &Json) -> i64 {
    sort_value(row, 0)
        .and_then(|value| value.as_i64())
        .expect("a number")
}

/// Returns the access path of the range.
fn access(answer: &Answer) -> String {
    let explanation = answer
        .header("x-orrery-explanation")
        .expect("an explanation");
    let explanation = percent_decode_str(explanation)
        .decode_utf8()
        .expect("UTF-8")
        .into_owned();
    let explanation = parse(explanation.as_bytes()).expect("JSON");
    text(
        &explanation
            .get("ranges")
            .and_then(Json::as_array)
            .expect("ranges")[0],
        "access",
    )
}

#[test]
fn a_continuation_resumes_under_a_condition_that_the_client_added() {
    let (_server, mut client) = server();
    let ranges = create_ranged(
        &mut client,
        &[r#","n":3"#, r#","n":1"#, r#","n":2"#, r#","n":5"#],
        1_200,
        80,
    );
    let mut ways = Vec::new();
    for (query_filter, direction) in QUERY_FILTERS
        .iter()
        .flat_map(|query_filter| ["ASC", "DESC"].map(|direction| (*query_filter, direction)))
    {
        let (keys, sign) = (
            format!("c.n {direction}"),
            if direction == "ASC" { ">=" } else { "<=" },
        );
        let behind = |row: &Json, value: i64| {
            if direction == "ASC" {
                n(row) >= value
            } else {
                n(row) <= value
            }
        };
        for range in &ranges {
            let all = client
                .pages(&query_of_range(query_filter, "true", &keys, range))
                .0;
            let first = query_of_range(query_filter, "true", &keys, range)
                .header("x-ms-max-item-count", "4");
            let first = client.call(&first.header("x-orrery-explain", "True"));
            ways.push(access(&first));
            let continuation = first
                .header("x-ms-continuation")
                .expect("more than four rows")
                .to_owned();
            for value in [1, 2, 3, 5] {
                let rest: Vec<Json> = all[4..]
                    .iter()
                    .filter(|row| behind(row, value))
                    .cloned()
                    .collect();
                let request =
                    query_of_range(query_filter, &format!("(c.n {sign} {value})"), &keys, range);
                let whole = client
                    .pages(
                        &request
                            .clone()
                            .header("x-ms-continuation", continuation.as_str()),
                    )
                    .0;
                assert_eq!(whole, rest, "{query_filter}{keys} {sign} {value}");
                // Read in pages, each with the continuation of the one before.
                let (mut rows, mut next) = (Vec::new(), Some(continuation.clone()));
                while let Some(continuation) = next {
                    let page = request.clone().header("x-ms-max-item-count", "3");
                    let page = client.call(&page.header("x-ms-continuation", continuation));
                    rows.extend(page.rows());
                    next = page.header("x-ms-continuation").map(str::to_owned);
                }
                assert_eq!(rows, rest, "{query_filter}{keys} {sign} {value}, in pages");
            }
        }
    }
    let sorted = ways.iter().filter(|way| way.starts_with("index")).count();
    assert!(
        sorted > 0 && sorted < ways.len(),
        "both ways to come by an order are wanted: {ways:?}"
    );
}

#[test]
fn a_continuation_of_another_query_is_refused() {
    let (_server, mut client) = server();
    let ranges = create_ranged(&mut client, &[r#","n":3"#, r#","n":1"#], 120, 12);
    for query_filter in QUERY_FILTERS {
        let first = query_of_range(query_filter, "true", "c.n", &ranges[0])
            .header("x-ms-max-item-count", "2");
        let continuation = client
            .call(&first)
            .header("x-ms-continuation")
            .expect("more rows")
            .to_owned();
        for other in [
            query_of_range("(c.kind = \"common\") AND ", "true", "c.n", &ranges[0]),
            query_of_range(query_filter, "c.m > 2", "c.n", &ranges[0]),
            query_of_range(query_filter, "true", "c.n DESC", &ranges[0]),
            query_of_range(query_filter, "true", "c.m", &ranges[0]),
        ] {
            let answer = client.call(&other.header("x-ms-continuation", continuation.as_str()));
            assert_eq!(answer.status, 400, "{}", answer.text());
        }
    }
}

/// Returns a resume condition as clients write it: at or after a value, and all types that sort
/// after the value's type.
fn resume_condition(value: Option<&Json>, at: bool) -> String {
    let following = |first: usize| {
        const TYPES: [&str; 5] = [
            "IS_NULL",
            "IS_BOOLEAN",
            "IS_NUMBER",
            "IS_STRING",
            "IS_ARRAY",
        ];
        TYPES[first..]
            .iter()
            .map(|is| format!(" OR {is}(c.n)"))
            .collect::<String>()
            + " OR IS_OBJECT(c.n)"
    };
    let Some(value) = value else {
        return if at {
            "true".into()
        } else {
            "IS_DEFINED(c.n)".into()
        };
    };
    let next = match value {
        Json::Null => 1,
        Json::Bool(_) => 2,
        Json::Number(_) => 3,
        _ => 4,
    };
    format!(
        "( c.n {} {}{} )",
        if at { ">=" } else { ">" },
        value.to_text(),
        following(next)
    )
}

#[test]
fn a_resume_condition_gives_the_rows_of_the_resume_filter() {
    let (_server, mut client) = server();
    let values = [
        "",
        r#","n":null"#,
        r#","n":true"#,
        r#","n":4"#,
        r#","n":2"#,
        r#","n":"B""#,
        r#","n":"C""#,
    ];
    let ranges = create_ranged(&mut client, &values, 84, 12);
    for (query_filter, range) in QUERY_FILTERS
        .iter()
        .flat_map(|query_filter| ranges.iter().map(move |range| (*query_filter, range)))
    {
        let all = client
            .pages(&query_of_range(query_filter, "true", "c.n", range))
            .0;
        for row in &all {
            let value = sort_value(row, 0);
            for at in [true, false] {
                let place = resume_condition(value.as_ref(), at);
                let by_text = client
                    .pages(&query_of_range(query_filter, &place, "c.n", range))
                    .0;
                let values = value.as_ref().map_or("[]".to_owned(), Json::to_text);
                let filter = format!(r#"{{"value":[{values}],"exclude":{}}}"#, !at);
                let by_filter = client
                    .pages(
                        &query_of_range(query_filter, "true", "c.n", range)
                            .with_member("resumeFilter", &filter),
                    )
                    .0;
                assert_eq!(by_text, by_filter, "{query_filter}{place}");
                assert!(by_text.len() < all.len() || at, "{place}");
            }
        }
    }
    let before = client
        .pages(&query_of_range(
            "",
            "NOT IS_DEFINED(c.n)",
            "c.n DESC",
            &ranges[0],
        ))
        .0;
    assert!(!before.is_empty() && before.iter().all(|row| sort_value(row, 0).is_none()));
}

#[test]
fn a_resume_condition_of_several_sort_keys_is_an_or_over_their_prefixes() {
    let (_server, mut client) = server();
    let ranges = create_ranged(
        &mut client,
        &[r#","n":3"#, r#","n":1"#, r#","n":2"#],
        60,
        12,
    );
    for range in &ranges {
        let all = client
            .pages(&query_of_range("", "true", "c.n, c.m", range))
            .0;
        for at in [3, 7, all.len() - 2] {
            let (n, m) = (
                n(&all[at]),
                sort_value(&all[at], 1).expect("a number").to_text(),
            );
            let place = format!("((c.n > {n}) OR (c.n = {n} AND c.m >= {m}))");
            let first = all.iter().position(|row| {
                sort_value(row, 0) == sort_value(&all[at], 0)
                    && sort_value(row, 1) == sort_value(&all[at], 1)
            });
            let request = query_of_range("", &place, "c.n, c.m", range);
            assert_eq!(
                client.pages(&request).0,
                all[first.expect("the row itself")..],
                "{place}"
            );
            let token = client.call(
                &query_of_range("", "true", "c.n, c.m", range).header("x-ms-max-item-count", "5"),
            );
            let token = token
                .header("x-ms-continuation")
                .expect("more rows")
                .to_owned();
            let rest = client.pages(&request.header("x-ms-continuation", token)).0;
            assert_eq!(
                rest,
                all[first.expect("the row itself").max(5)..],
                "{place}, behind five rows"
            );
        }
    }
}
