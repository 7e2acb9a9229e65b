//! ORDER BY resumed by clients that merge: their own place as text in the query, with and without the continuation that
//! the query without it had made.

mod program;

use orrery_model::Json;
use orrery_model::json::parse;
use percent_encoding::percent_decode_str;
use program::{Answer, Client, Request, Server, start, text};

const RANGED: &str = "/dbs/blog/colls/ranged/docs";
/// What the query itself asks: nothing, and something rare enough to be looked up and sorted.
const OWN: [&str; 2] = ["", "(c.kind = \"rare\") AND "];

fn server() -> (Server, Client) {
    let server = start(&["--memory"]).expect("it starts");
    let mut client = server.client();
    client.create("/dbs", r#"{"id":"blog"}"#);
    (server, client)
}

/// A container of several physical partitions with items of these values of `n` in turn, so many in all
/// of which every one in `rare` is a rare one; and
/// the ids of its ranges.
fn make_ranged(client: &mut Client, values: &[&str], items: usize, rare: usize) -> Vec<String> {
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

/// The query as a client that merges sends it to one range, with its own place.
fn rewritten(own: &str, place: &str, keys: &str, range: &str) -> Request {
    let query = format!(
        "SELECT c._rid, [{{\"item\": c.n}}, {{\"item\": c.m}}] AS orderByItems, {{\"id\": c.id}} AS payload\nFROM c\n\
         WHERE ({own}({place}))\nORDER BY {keys}"
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

/// How the range was searched.
fn access(answer: &Answer) -> String {
    let told = answer
        .header("x-orrery-explanation")
        .expect("an explanation");
    let told = percent_decode_str(told)
        .decode_utf8()
        .expect("UTF-8")
        .into_owned();
    let told = parse(told.as_bytes()).expect("JSON");
    text(
        &told.get("ranges").and_then(Json::as_array).expect("ranges")[0],
        "access",
    )
}

#[test]
fn a_continuation_goes_on_under_the_place_that_a_client_put_into_its_text() {
    let (_server, mut client) = server();
    let ranges = make_ranged(
        &mut client,
        &[r#","n":3"#, r#","n":1"#, r#","n":2"#, r#","n":5"#],
        1_200,
        80,
    );
    let mut ways = Vec::new();
    for (own, direction) in OWN
        .iter()
        .flat_map(|own| ["ASC", "DESC"].map(|direction| (*own, direction)))
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
            let all = client.pages(&rewritten(own, "true", &keys, range)).0;
            let first = rewritten(own, "true", &keys, range).header("x-ms-max-item-count", "4");
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
                let request = rewritten(own, &format!("(c.n {sign} {value})"), &keys, range);
                let whole = client
                    .pages(
                        &request
                            .clone()
                            .header("x-ms-continuation", continuation.as_str()),
                    )
                    .0;
                assert_eq!(whole, rest, "{own}{keys} {sign} {value}");
                // In pages, each of which goes on from the one before.
                let (mut rows, mut next) = (Vec::new(), Some(continuation.clone()));
                while let Some(continuation) = next {
                    let page = request.clone().header("x-ms-max-item-count", "3");
                    let page = client.call(&page.header("x-ms-continuation", continuation));
                    rows.extend(page.rows());
                    next = page.header("x-ms-continuation").map(str::to_owned);
                }
                assert_eq!(rows, rest, "{own}{keys} {sign} {value}, in pages");
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
    let ranges = make_ranged(&mut client, &[r#","n":3"#, r#","n":1"#], 120, 12);
    for own in OWN {
        let first = rewritten(own, "true", "c.n", &ranges[0]).header("x-ms-max-item-count", "2");
        let continuation = client
            .call(&first)
            .header("x-ms-continuation")
            .expect("more rows")
            .to_owned();
        for other in [
            rewritten("(c.kind = \"common\") AND ", "true", "c.n", &ranges[0]),
            rewritten(own, "c.m > 2", "c.n", &ranges[0]),
            rewritten(own, "true", "c.n DESC", &ranges[0]),
            rewritten(own, "true", "c.m", &ranges[0]),
        ] {
            let answer = client.call(&other.header("x-ms-continuation", continuation.as_str()));
            assert_eq!(answer.status, 400, "{}", answer.text());
        }
    }
}

/// The text of a place as clients write it: behind a value, or at it, and the types that follow.
fn place_text(value: Option<&Json>, at: bool) -> String {
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
fn a_place_in_the_text_gives_the_rows_that_the_resume_filter_gives() {
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
    let ranges = make_ranged(&mut client, &values, 84, 12);
    for (own, range) in OWN
        .iter()
        .flat_map(|own| ranges.iter().map(move |range| (*own, range)))
    {
        let all = client.pages(&rewritten(own, "true", "c.n", range)).0;
        for row in &all {
            let value = sort_value(row, 0);
            for at in [true, false] {
                let place = place_text(value.as_ref(), at);
                let by_text = client.pages(&rewritten(own, &place, "c.n", range)).0;
                let values = value.as_ref().map_or("[]".to_owned(), Json::to_text);
                let filter = format!(r#"{{"value":[{values}],"exclude":{}}}"#, !at);
                let by_filter = client
                    .pages(
                        &rewritten(own, "true", "c.n", range).with_member("resumeFilter", &filter),
                    )
                    .0;
                assert_eq!(by_text, by_filter, "{own}{place}");
                assert!(by_text.len() < all.len() || at, "{place}");
            }
        }
    }
    let before = client
        .pages(&rewritten(
            "",
            "NOT IS_DEFINED(c.n)",
            "c.n DESC",
            &ranges[0],
        ))
        .0;
    assert!(!before.is_empty() && before.iter().all(|row| sort_value(row, 0).is_none()));
}

#[test]
fn a_place_of_several_keys_is_an_or_over_their_beginnings() {
    let (_server, mut client) = server();
    let ranges = make_ranged(
        &mut client,
        &[r#","n":3"#, r#","n":1"#, r#","n":2"#],
        60,
        12,
    );
    for range in &ranges {
        let all = client.pages(&rewritten("", "true", "c.n, c.m", range)).0;
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
            let request = rewritten("", &place, "c.n, c.m", range);
            assert_eq!(
                client.pages(&request).0,
                all[first.expect("the row itself")..],
                "{place}"
            );
            let token = client
                .call(&rewritten("", "true", "c.n, c.m", range).header("x-ms-max-item-count", "5"));
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
