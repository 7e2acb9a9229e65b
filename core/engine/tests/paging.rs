//! Pages and their continuations: continuations keep the client's size limit, stay valid after the
//! engine is reopened and after changes of items, and are refused if they are damaged or belong to
//! another query.

use crate::support::{self, *};
use bytes::Bytes;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_storage::MemoryStore;
use std::sync::Arc;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "indexingPolicy":{"compositeIndexes":[[
        {"path":"/a","order":"ascending"},
        {"path":"/b","order":"descending"},
        {"path":"/c","order":"ascending"},
        {"path":"/d","order":"ascending"}
    ]]}}"#;

/// Returns a text whose prefix, common to all numbers, is longer than the indexed part of a value.
fn long(n: usize) -> String {
    format!("{}{n:04}", "x".repeat(1_200))
}

/// Creates items with long values.
fn fill(engine: &Engine, container: &Container, items: usize) {
    for n in 0..items {
        // The items are created out of order and in several logical partitions.
        let at = n * 7 % items;
        let text = format!(
            r#"{{"id":"i{at}","pk":"p{}","n":{at},"a":"{}","b":"{}","c":"{}","d":"{}"}}"#,
            at % 5,
            long(at / 4),
            long(at % 2),
            long(at % 3),
            "y".repeat(500)
        );
        write(
            engine,
            container,
            &WriteOperation::Create,
            Some(&text),
            &WriteOptions::default(),
        )
        .result
        .expect("created");
    }
}

fn request(
    text: &str,
    page: usize,
    continuation: Option<String>,
    limit_kb: Option<usize>,
) -> QueryRequest {
    let page = PageRequest {
        max_items: Some(page),
        continuation,
        continuation_limit_kb: limit_kb,
    };
    QueryRequest {
        cross_partition: true,
        ..QueryRequest::of(text, Vec::new(), page)
    }
}

fn page(engine: &Engine, container: &Container, request: &QueryRequest) -> Page {
    engine
        .query(container, &Scope::Everything, request, None)
        .result
        .expect("a page")
        .page
}

/// Reads all rows in pages of three and checks the size of each continuation.
fn in_pages(
    engine: &Engine,
    container: &Container,
    text: &str,
    limit_kb: Option<usize>,
) -> Vec<String> {
    let (mut rows, mut continuation) = (Vec::new(), None);
    loop {
        let page = page(engine, container, &request(text, 3, continuation, limit_kb));
        rows.extend(page.rows.iter().map(|row| support::text(row)));
        continuation = page.continuation;
        match &continuation {
            None => return rows,
            Some(token) => assert!(
                limit_kb.is_none_or(|kb| token.len() <= kb * 1024),
                "{} bytes",
                token.len()
            ),
        }
    }
}

#[test]
fn objects_and_arrays_are_distinct_although_they_have_no_order_among_themselves() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 3);
    for (n, a) in [
        r#"{"x":1}"#,
        "{}",
        r#"{"x":1}"#,
        "[1]",
        "[2]",
        "[1]",
        "{}",
        "7",
        "7",
        "[2]",
    ]
    .iter()
    .enumerate()
    {
        create(
            &bench.engine,
            &container,
            &format!(r#"{{"id":"i{n}","pk":"p{n}","a":{a}}}"#),
        );
    }
    for text in [
        "SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a",
        "SELECT DISTINCT c.a FROM c ORDER BY c.a DESC",
        "SELECT DISTINCT VALUE c.a FROM c WHERE c.pk != 'q' ORDER BY c.a",
    ] {
        for size in [1_000, 3, 1] {
            let mut given = rows(
                &bench.engine,
                &container,
                &Scope::Everything,
                &query(text),
                &[size],
            )
            .expect("rows");
            given.sort();
            let all = given.len();
            given.dedup();
            assert_eq!(
                (all, given.len()),
                (5, 5),
                "{text} in pages of {size}: {given:?}"
            );
        }
    }
}

#[test]
fn continuations_fit_into_a_kilobyte_even_if_their_values_do_not() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 3);
    fill(&bench.engine, &container, 40);
    for text in [
        "SELECT VALUE c.n FROM c ORDER BY c.a",
        "SELECT VALUE c.n FROM c ORDER BY c.a DESC",
        "SELECT VALUE c.n FROM c ORDER BY c.d",
        "SELECT VALUE c.n FROM c ORDER BY c.a, c.b DESC, c.c, c.d",
        "SELECT VALUE c.n FROM c ORDER BY c.a DESC, c.b, c.c DESC, c.d DESC",
        "SELECT VALUE c.n FROM c",
    ] {
        let whole = rows(
            &bench.engine,
            &container,
            &Scope::Everything,
            &query(text),
            &[1_000],
        )
        .expect("rows");
        assert_eq!(whole.len(), 40, "{text}");
        assert_eq!(
            in_pages(&bench.engine, &container, text, Some(1)),
            whole,
            "{text}"
        );
        assert_eq!(
            in_pages(&bench.engine, &container, text, None),
            whole,
            "{text}"
        );
    }
}

#[test]
fn a_query_continues_after_the_engine_is_reopened() {
    let store = Arc::new(MemoryStore::new());
    let bench = Bench::on(store.clone(), Profile::Modern, 1);
    let container = bench.container(BODY, 3);
    fill(&bench.engine, &container, 30);
    let reopened = Bench::on(store, Profile::Modern, 2);
    let same_container = reopened
        .engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the container");
    for text in [
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE c.n FROM c ORDER BY c.n DESC",
        "SELECT DISTINCT VALUE c.n FROM c",
    ] {
        let first = page(&bench.engine, &container, &request(text, 10, None, None));
        let rest = page(
            &reopened.engine,
            &same_container,
            &request(text, 100, first.continuation, None),
        );
        let whole = rows(
            &reopened.engine,
            &same_container,
            &Scope::Everything,
            &query(text),
            &[1_000],
        )
        .expect("rows");
        let mut both: Vec<String> = first
            .rows
            .iter()
            .chain(&rest.rows)
            .map(|row| support::text(row))
            .collect();
        let mut whole = whole;
        if text.contains("DISTINCT") {
            // DISTINCT without ORDER BY promises no order of the rows.
            both.sort();
            whole.sort();
        }
        assert_eq!(both, whole, "{text}");
    }
}

#[test]
fn a_page_continues_after_a_deleted_item() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 1);
    fill(&bench.engine, &container, 30);
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let first = page(&bench.engine, &container, &request(text, 10, None, None));
    let delete_options = WriteOptions {
        partition_key: Some(key("[\"p4\"]")),
        ..WriteOptions::default()
    };
    write(
        &bench.engine,
        &container,
        &WriteOperation::Delete("i9".into()),
        None,
        &delete_options,
    )
    .result
    .expect("deleted");
    let rest = page(
        &bench.engine,
        &container,
        &request(text, 100, first.continuation, None),
    );
    let rest: Vec<String> = rest.rows.iter().map(|row| support::text(row)).collect();
    assert_eq!(rest, (10..30).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// Each query returns 12 rows that end with the last four characters of a long value. True if they
/// ascend.
const BY_LONG_VALUES: &[(&str, bool)] = &[
    ("SELECT VALUE RIGHT(c.a, 4) FROM c ORDER BY c.a", true),
    ("SELECT VALUE RIGHT(c.a, 4) FROM c ORDER BY c.a DESC", false),
    (
        "SELECT VALUE RIGHT(c.a, 4) FROM c ORDER BY c.a, c.b DESC, c.c, c.d",
        true,
    ),
    ("SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a", true),
    (
        "SELECT VALUE RIGHT(c.a, 4) FROM c GROUP BY c.a ORDER BY c.a",
        true,
    ),
    (
        "SELECT VALUE RIGHT(c.a, 4) FROM c GROUP BY c.a ORDER BY c.a DESC",
        false,
    ),
];

#[test]
fn a_page_continues_after_a_deleted_item_with_a_long_value() {
    for (text, ascends) in BY_LONG_VALUES {
        let bench = Bench::new(Profile::Modern, 1);
        let container = bench.container(BODY, 1);
        for n in 0..12 {
            let item = format!(
                r#"{{"id":"i{n}","pk":"p","a":"{}","b":1,"c":1,"d":1}}"#,
                long(n)
            );
            create(&bench.engine, &container, &item);
        }
        let first = page(&bench.engine, &container, &request(text, 3, None, None));
        // The items of the first page go, also the one that the continuation names.
        for at in 0..3 {
            let gone = if *ascends { at } else { 11 - at };
            let options = WriteOptions {
                partition_key: Some(key("[\"p\"]")),
                ..WriteOptions::default()
            };
            let deletion = WriteOperation::Delete(format!("i{gone}"));
            let outcome = write(&bench.engine, &container, &deletion, None, &options);
            outcome.result.expect("deleted");
        }
        let request = request(text, 100, first.continuation, None);
        let rest = page(&bench.engine, &container, &request);
        let end_of = |row: &Bytes| support::text(row)[row.len() - 5..row.len() - 1].to_owned();
        let rest: Vec<String> = rest.rows.iter().map(end_of).collect();
        let mut expected: Vec<usize> = (3..12).collect();
        if !ascends {
            expected = (0..9).rev().collect();
        }
        let expected: Vec<String> = expected.iter().map(|n| format!("{n:04}")).collect();
        assert_eq!(rest, expected, "{text}");
    }
}

#[test]
fn a_continuation_is_no_longer_than_its_limit_asks() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 1);
    fill(&bench.engine, &container, 30);
    let text = "SELECT VALUE c.n FROM c ORDER BY c.a";
    let token = |limit_kb| {
        let answer = page(&bench.engine, &container, &request(text, 3, None, limit_kb));
        answer.continuation.expect("more pages")
    };
    let whole = token(None);
    assert!(whole.len() > 2_000, "{}", whole.len());
    assert_eq!(token(Some(16)), whole, "a token that fits is not shortened");
    assert!(token(Some(1)).len() < 1_000);
}

#[test]
fn a_continuation_of_another_container_is_refused() {
    let bench = Bench::new(Profile::Modern, 1);
    let one = bench.container(BODY, 1);
    let other = bench.container(&BODY.replace("items", "others"), 1);
    fill(&bench.engine, &one, 8);
    fill(&bench.engine, &other, 8);
    let text = "SELECT VALUE c.n FROM c";
    let first = page(&bench.engine, &one, &request(text, 3, None, None));
    let request = request(text, 3, first.continuation, None);
    page(&bench.engine, &one, &request);
    let everything = &Scope::Everything;
    let refused = bench
        .engine
        .query(&other, everything, &request, None)
        .result;
    let error = refused.expect_err("the token of another container");
    assert!(error.message().contains("Invalid Continuation Token"));
}

#[test]
fn a_shortened_continuation_is_refused_after_its_item_changed() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 1);
    fill(&bench.engine, &container, 30);
    let text = "SELECT VALUE c.n FROM c ORDER BY c.d, c.a";
    assert!(
        bench
            .engine
            .query(
                &container,
                &Scope::Everything,
                &request(text, 3, None, None),
                None
            )
            .result
            .is_err()
    );
    let text = "SELECT VALUE c.id FROM c ORDER BY c.a";
    let first = page(&bench.engine, &container, &request(text, 3, None, Some(1)));
    let last = json(&support::text(&first.rows[2]));
    let id = last.as_str().expect("an id").to_owned();
    let number: usize = id[1..].parse().expect("a number");
    let delete_options = WriteOptions {
        partition_key: Some(key(&format!("[\"p{}\"]", number % 5))),
        ..WriteOptions::default()
    };
    write(
        &bench.engine,
        &container,
        &WriteOperation::Delete(id),
        None,
        &delete_options,
    )
    .result
    .expect("deleted");
    let next = request(text, 3, first.continuation, Some(1));
    let refused = bench
        .engine
        .query(&container, &Scope::Everything, &next, None)
        .result
        .expect_err("refused");
    assert!(
        refused.message().contains("Start the query again"),
        "{refused}"
    );
}

#[test]
fn damaged_and_foreign_continuations_are_refused() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 2);
    fill(&bench.engine, &container, 30);
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let token = page(&bench.engine, &container, &request(text, 3, None, None))
        .continuation
        .expect("more");
    let refused = |text: &str, token: &str| {
        let request = request(text, 3, Some(token.to_owned()), None);
        let error = bench
            .engine
            .query(&container, &Scope::Everything, &request, None)
            .result
            .expect_err(token);
        assert_eq!(error.status(), 400, "{token}: {error}");
        let words = "Invalid Continuation Token";
        assert!(error.message().contains(words), "{token}: {error}");
    };
    for wrong in [
        "",
        "x",
        "bm90IG91cnM",
        "-RID:~a0NPAOszCpOChB4AAAAAAA==#RT:1#TRC:2#ISV:2#IEO:65567#QCF:8",
        &token[1..],
    ] {
        refused(text, wrong);
    }
    refused("SELECT VALUE c.n FROM c ORDER BY c.n DESC", &token);
    refused("SELECT VALUE c.n FROM c", &token);
}

/// Creates three items whose arrays are joined. Returns the first page of `size` rows and the
/// request for the other rows. A size of 4 divides the rows of the second item.
fn first_joined_page(bench: &Bench, container: &Container, size: usize) -> (QueryRequest, Page) {
    for text in [
        r#"{"id":"i0","pk":1,"n":0,"t":[1,2]}"#,
        r#"{"id":"i1","pk":1,"n":1,"t":[1,2,3]}"#,
        r#"{"id":"i2","pk":1,"n":2,"t":[1,2]}"#,
    ] {
        create(&bench.engine, container, text);
    }
    let text = "SELECT VALUE [c.id, e] FROM c JOIN e IN c.t ORDER BY c.n";
    let first = page(&bench.engine, container, &request(text, size, None, None));
    (request(text, 100, first.continuation.clone(), None), first)
}

#[test]
fn a_page_that_ended_within_a_deleted_item_skips_no_rows_of_the_next_item() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 1);
    let (rest, first) = first_joined_page(&bench, &container, 4);
    assert_eq!(first.rows.len(), 4);
    let delete_options = WriteOptions {
        partition_key: Some(key("[1]")),
        ..WriteOptions::default()
    };
    write(
        &bench.engine,
        &container,
        &WriteOperation::Delete("i1".into()),
        None,
        &delete_options,
    )
    .result
    .expect("deleted");
    let rest: Vec<String> = page(&bench.engine, &container, &rest)
        .rows
        .iter()
        .map(|row| support::text(row))
        .collect();
    assert_eq!(rest, [r#"["i2",1]"#, r#"["i2",2]"#]);
}

#[test]
fn a_page_continues_within_its_item_although_a_new_item_precedes_it() {
    let bench = Bench::new(Profile::Modern, 1);
    let container = bench.container(BODY, 1);
    let (rest, _) = first_joined_page(&bench, &container, 4);
    // The new item is the first of the next page and has no rows, as an item may that the index
    // does not distinguish from the last item.
    create(
        &bench.engine,
        &container,
        r#"{"id":"between","pk":1,"n":0.5}"#,
    );
    let rest: Vec<String> = page(&bench.engine, &container, &rest)
        .rows
        .iter()
        .map(|row| support::text(row))
        .collect();
    assert_eq!(rest, [r#"["i1",3]"#, r#"["i2",1]"#, r#"["i2",2]"#]);
}
