//! Request and response properties of queries beside text and rows, for clients that merge and for
//! people who tune queries: the resume filter, the order of ties, index metrics and query advice.

use crate::program::{Answer, Client, ITEMS, Request, start, start_with_posts, text};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_model::Json;
use orrery_model::json::parse;
use percent_encoding::percent_decode_str;

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
    for n in 0..40 {
        let value = match n % 5 {
            0 => String::new(),
            1 => r#","n":"x""#.to_owned(),
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
        "SELECT c._rid, [{{\"item\": c.n}}] AS orderByItems, {{\"id\": c.id}} AS payload FROM c WHERE (true) ORDER BY c.n {direction}"
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

/// Returns a row's sort value in the form of a resume filter, in which undefined is an empty array.
fn resume_value(row: &Json) -> String {
    let item = row
        .get("orderByItems")
        .and_then(Json::as_array)
        .expect("sort keys")[0]
        .get("item")
        .cloned();
    item.map_or("[]".to_owned(), |value| value.to_text())
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

#[test]
fn an_invalid_resume_filter_is_400() {
    let (_server, mut client) = start_with_posts();
    let ask = |client: &mut Client, path: &str, query: &str, filter: &str| -> Answer {
        let body = format!(r#"{{"query":"{query}","resumeFilter":{filter}}}"#);
        client.call(&Request::query(path, query).body(body))
    };
    let ordered = "SELECT * FROM c ORDER BY c.n";
    for (query, filter, message) in [
        (ordered, "[1]", "must be an object"),
        (ordered, "{}", "'value' is not an array"),
        (ordered, r#"{"value":[1,2]}"#, "as many values"),
        ("SELECT * FROM c", r#"{"value":[1]}"#, "as many values"),
        (
            ordered,
            r#"{"value":[{"type":"array","low":1,"high":-2}]}"#,
            "array or object is not supported",
        ),
        (ordered, r#"{"value":[1],"rid":"none"}"#, "'rid'"),
    ] {
        let answer = ask(&mut client, ITEMS, query, filter);
        assert_eq!(answer.status, 400, "{filter}: {}", answer.text());
        assert!(
            text(&answer.json(), "message").contains(message),
            "{filter}: {}",
            answer.text()
        );
    }
    let answer = ask(
        &mut client,
        "/dbs",
        "SELECT * FROM c ORDER BY c.id",
        r#"{"value":["a"]}"#,
    );
    assert_eq!(answer.status, 400, "{}", answer.text());
    let answer = ask(&mut client, ITEMS, ordered, "null");
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn every_page_of_items_states_the_order_of_ties() {
    let (_server, mut client) = start_with_posts();
    let mut tie_order = |path: &str, query: &str| {
        let answer = client.call(&Request::query(path, query));
        assert_eq!(answer.status, 200, "{}", answer.text());
        answer
            .header("x-ms-cosmos-query-execution-info")
            .map(str::to_owned)
    };
    let info = |reverse: bool| {
        Some(format!(
            r#"{{"reverseRidEnabled":false,"reverseIndexScan":{reverse}}}"#
        ))
    };
    assert_eq!(tie_order(ITEMS, "SELECT * FROM c"), info(false));
    assert_eq!(
        tie_order(ITEMS, "SELECT * FROM c ORDER BY c.n ASC"),
        info(false)
    );
    assert_eq!(
        tie_order(ITEMS, "SELECT * FROM c ORDER BY c.n DESC"),
        info(true)
    );
    assert_eq!(tie_order("/dbs", "SELECT * FROM c"), None);
}

#[test]
fn query_advice_is_returned_on_request_if_there_is_any() {
    let (_server, mut client) = start_with_posts();
    let advised = "SELECT * FROM c WHERE CONTAINS(c.a, 'x') AND LOWER(c.b) = 'y' AND ARRAY_CONTAINS(c.t, {d: 1}, true)";
    let request = |query: &str, asked: &str| {
        Request::query(ITEMS, query).header("x-ms-cosmos-populatequeryadvice", asked)
    };
    let answer = client.call(&request(advised, "True"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let header = answer.header("x-ms-cosmos-query-advice").expect("advice");
    let decoded = percent_decode_str(header).decode_utf8().expect("UTF-8");
    assert_eq!(
        parse(decoded.as_bytes()).expect("JSON").to_text(),
        r#"[{"Id":"QA1000","Params":[]},{"Id":"QA1002","Params":[]},{"Id":"QA1006","Params":[]}]"#
    );
    for (query, asked) in [
        ("SELECT * FROM c WHERE c.a = 1", "True"),
        (advised, "False"),
    ] {
        let answer = client.call(&request(query, asked));
        assert_eq!(
            (answer.status, answer.header("x-ms-cosmos-query-advice")),
            (200, None),
            "{query}"
        );
    }
    assert_eq!(client.call(&request(advised, "perhaps")).status, 400);
}

const ORDERED: &str = r#"{"id":"posts","partitionKey":{"paths":["/postId"],"kind":"Hash","version":2},
    "indexingPolicy":{"excludedPaths":[{"path":"/text/?"}],
    "compositeIndexes":[[{"path":"/postId","order":"ascending"},{"path":"/n","order":"descending"}]]}}"#;
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

#[test]
fn index_metrics_come_in_both_encodings() {
    let (_server, mut client) = start_with_posts();
    client.create(ITEMS, r#"{"id":"a","postId":"p1","n":1}"#);
    let query = |header| {
        Request::query(ITEMS, "SELECT * FROM c WHERE c.n = 1")
            .key("p1")
            .header(header, "True")
    };
    let base64 = client.call(&query("x-ms-cosmos-populateindexmetrics"));
    let percent = client.call(&query("x-ms-cosmos-populateindexmetrics-v2"));
    let index_metrics = |answer: &Answer| {
        answer
            .header("x-ms-cosmos-index-utilization")
            .expect("index metrics")
            .to_owned()
    };
    let plain = STANDARD.decode(index_metrics(&base64)).expect("base64");
    let decoded = percent_decode_str(&index_metrics(&percent))
        .decode_utf8()
        .expect("UTF-8")
        .into_owned();
    assert_eq!(String::from_utf8(plain).expect("UTF-8"), decoded);
    let document = parse(decoded.as_bytes()).expect("JSON");
    let specs = |name: &str| -> Vec<String> {
        let list = document.get(name).and_then(Json::as_array).expect("a list");
        list.iter().map(|entry| text(entry, "IndexSpec")).collect()
    };
    assert_eq!(specs("UtilizedSingleIndexes"), ["/postId/?", "/n/?"]);
    assert_eq!(specs("PotentialSingleIndexes"), [""; 0]);
    assert_eq!(
        client
            .call(&query("x-ms-cosmos-priority-level-x"))
            .header("x-ms-cosmos-index-utilization"),
        None
    );
}

#[test]
fn an_explanation_names_the_access_path_of_each_range() {
    let (_server, mut client) = start_with_posts();
    client.create(ITEMS, r#"{"id":"a","postId":"p1","n":1}"#);
    let query = Request::query(ITEMS, "SELECT * FROM c WHERE c.n = 1")
        .header("x-ms-documentdb-query-enablecrosspartition", "True");
    assert_eq!(client.call(&query).header("x-orrery-explanation"), None);
    let explanation = client.call(&query.header("x-orrery-explain", "True"));
    let explanation = explanation
        .header("x-orrery-explanation")
        .expect("an explanation")
        .to_owned();
    let explanation = percent_decode_str(&explanation)
        .decode_utf8()
        .expect("UTF-8")
        .into_owned();
    let document = parse(explanation.as_bytes()).expect("JSON");
    assert_eq!(text(&document, "condition"), "/n = 1");
    let range = &document
        .get("ranges")
        .and_then(Json::as_array)
        .expect("ranges")[0];
    assert_eq!(text(range, "access"), "index /n = 1");
    assert_eq!(
        range.get("work").and_then(|work| work.get("loadedItems")),
        Some(&Json::from(1))
    );
}

#[test]
fn a_query_that_one_range_answers_says_so_on_every_page() {
    let (_server, mut client) = start_with_posts();
    for n in 0..5 {
        client.create(ITEMS, &format!(r#"{{"id":"i{n}","postId":"p1"}}"#));
    }
    let query = Request::query(ITEMS, "SELECT VALUE c.id FROM c ORDER BY c.id")
        .header("x-ms-max-item-count", "2");
    assert_eq!(
        client
            .call(&query)
            .header("x-ms-cosmos-query-requiresdistribution"),
        None
    );
    let query = query
        .header("x-ms-cosmos-query-optimisticdirectexecute", "True")
        .header("x-ms-documentdb-partitionkeyrangeid", "0");
    let mut next = Some(query.clone());
    let mut pages = 0;
    while let Some(request) = next {
        let page = client.call(&request);
        assert_eq!(page.status, 200, "{}", page.text());
        assert_eq!(
            page.header("x-ms-cosmos-query-requiresdistribution"),
            Some("False"),
            "page {pages}"
        );
        next = page
            .header("x-ms-continuation")
            .map(|place| query.clone().header("x-ms-continuation", place));
        pages += 1;
    }
    assert_eq!(pages, 3);
}

/// Returns a query by a client that wants to ask several partitions at a time.
fn parallel_query(query: &str) -> Request {
    let header = "x-ms-documentdb-query-parallelizecrosspartitionquery";
    Request::query(RANGED, query).header(header, "True")
}

#[test]
fn a_client_that_asks_partitions_in_parallel_gets_the_plan_and_then_each_partition() {
    let server = start(&["--memory", "--cross-partition-queries", "refuse"]).expect("it starts");
    let mut client = server.client();
    client.make_posts();
    let ranges = create_ranged(&mut client);
    assert!(ranges.len() > 1, "one range proves nothing");
    let refused = client.call(&parallel_query("SELECT * FROM c"));
    refused.error(400, Some("1004"), "BadRequest");
    let plan = text(&refused.json(), "additionalErrorInfo");
    let plan = parse(plan.as_bytes()).expect("the plan is JSON");
    assert!(plan.get("queryRanges").is_some(), "{plan}");

    let mut rows = 0;
    for range in &ranges {
        let of_range = parallel_query("SELECT * FROM c")
            .header("x-ms-documentdb-partitionkeyrangeid", range.as_str());
        rows += client.pages(&of_range).0.len();
    }
    assert_eq!(rows, 40);

    // There is nothing to divide in a query of one logical partition.
    let pinned = parallel_query("SELECT * FROM c WHERE c.id = 'i7'");
    assert_eq!(client.call(&pinned).rows().len(), 1);
    let with_key = parallel_query("SELECT * FROM c").key("i7");
    assert_eq!(client.call(&with_key).rows().len(), 1);
    let (rows, _) = client.pages(&Request::query(RANGED, "SELECT * FROM c"));
    assert_eq!(rows.len(), 40, "without the header");
}

#[test]
fn a_server_that_merges_answers_a_client_that_asks_in_parallel() {
    let (_server, mut client) = start_with_posts();
    create_ranged(&mut client);
    assert_eq!(client.pages(&parallel_query("SELECT * FROM c")).0.len(), 40);
}
