//! Properties that hold for every query text, valid or not. The fuzz targets check them on
//! generated texts, and a test checks them on every text of the corpus.

use super::support::{
    ALL_FEATURES, FULL_SCAN, Items, RunOptions, Udfs, bounds, environment, plan_request, texts,
};
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::{Json, Object};
use orrery_sql::{
    Bounds, Environment, PlanInfo, Query, QueryError, ResumePoint, Work, client_plan, formatted,
    query_advice,
};
use std::sync::LazyLock;

/// Limit in bytes for the rows of a page, and for the values that a run holds.
const MEMORY: usize = 1 << 20;
/// Readings of the clock until the time of a run is over.
const CLOCK_CHECKS: usize = 40;

const ITEMS: &[&str] = &[
    concat!(
        r#"{"id":"1","key":"a","n":1,"s":"apple","tags":["x","y"],"kids":[{"name":"Ann","#,
        r#""age":3},{"name":"Bob","age":7}],"on":true,"name":"One","#,
        r#""_rid":"ABCDEFGHIJIBAAAAAAAAAA=="}"#,
    ),
    concat!(
        r#"{"id":"2","key":"a","n":2,"s":"banana","tags":[],"kids":[],"on":false,"#,
        r#""x":{"y":[{"z":2}]},"b":{"c":1},"a":[1,[2]]}"#,
    ),
    concat!(
        r#"{"id":"3","key":"b","n":-3.5,"s":"Cherry","tags":["y",null,"é😀"],"#,
        r#""kids":[{"name":"Cid"},{}],"price":2,"quantity":3}"#,
    ),
    concat!(
        r#"{"id":"4","key":null,"n":null,"tags":"x","deep":{"list":[1,2,3],"v":5},"#,
        r#""date":"2024-02-29T23:59:59.1234567Z"}"#,
    ),
    r#"{"id":"5","n":"5","s":7,"on":"true","x":1e300,"a":9007199254740993,"b":{}}"#,
    concat!(
        r#"{"id":"6","n":2.5,"s":"","tags":[["x"],{"x":1}],"a":{"b":{"c":[{"d":[]}]}},"#,
        r#""x":[{"y":1},{"y":"1"}]}"#,
    ),
];

static PARAMETERS: LazyLock<Vec<(String, Json)>> = LazyLock::new(|| {
    let pairs = [
        ("@p", r#""x""#),
        ("@n", "2"),
        ("@list", r#"[1,"x",null,{"y":2},[3]]"#),
        ("@o", r#"{"name":"Ann"}"#),
    ];
    pairs
        .map(|(name, value)| (name.to_owned(), parse(value.as_bytes()).expect("JSON")))
        .to_vec()
});

static ENVIRONMENT: LazyLock<Environment> = LazyLock::new(environment);

fn compile(text: &str) -> Result<Query, QueryError> {
    Query::compile(text, &PARAMETERS, &ENVIRONMENT)
}

/// Compiles, plans and prints a text. Nothing panics, errors and printed texts have a bounded
/// length, rewritten queries compile, and a printed text prints as itself.
pub(crate) fn check_compile_plan_and_print(text: &str) {
    let compiled = compile(text);
    if let Err(error) = &compiled {
        let message = error.to_json().to_text();
        assert!(
            message.len() <= 100_000 + 8 * text.len(),
            "an error of {} bytes",
            message.len()
        );
    }
    let _ = query_advice(text, &PARAMETERS);
    if let Ok(plan) = client_plan(text, &PARAMETERS, &ENVIRONMENT, &plan_request(ALL_FEATURES)) {
        for rewritten in rewritten_queries(&plan.info) {
            if let Err(error) = compile(&rewritten) {
                panic!("the rewritten query does not compile: {rewritten}: {error:?}");
            }
        }
    }
    let Ok(printed) = formatted(text) else {
        assert!(
            compiled.is_err(),
            "a query that compiles can be printed: {text}"
        );
        return;
    };
    assert!(
        printed.len() <= 64 + 12 * text.len(),
        "{} bytes became {}",
        text.len(),
        printed.len()
    );
    match formatted(&printed) {
        Ok(printed_again) => assert_eq!(printed_again, printed),
        Err(error) => assert!(is_limit(&error), "{printed}: {error}"),
    }
}

/// Returns the queries of a plan as a client sends them.
fn rewritten_queries(info: &PlanInfo) -> Vec<String> {
    let text = |info: &Object, name: &str| {
        info.get(name)
            .and_then(Json::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let queries = match info {
        PlanInfo::Query(info) => vec![text(info, "rewrittenQuery")],
        PlanInfo::HybridSearch(info) => {
            let components = info
                .get("componentQueryInfos")
                .and_then(Json::as_array)
                .unwrap_or_default();
            components
                .iter()
                .filter_map(Json::as_object)
                .map(|component| text(component, "rewrittenQuery"))
                .chain([text(info, "globalStatisticsQuery")])
                .collect()
        }
    };
    queries
        .iter()
        .filter(|query| !query.is_empty())
        .map(|query| filled_in(query))
        .collect()
}

/// Returns a rewritten query with a value in the place of each placeholder.
fn filled_in(query: &str) -> String {
    let mut sent = query.replace("{documentdb-formattableorderbyquery-filter}", "true");
    // Every other placeholder stands for a number or a list of numbers. A number compiles as both.
    while let Some((before, rest)) = sent.split_once("{documentdb-formattablehybridsearchquery-") {
        let after = rest.split_once('}').map_or("", |(_, after)| after);
        sent = format!("{before}1{after}");
    }
    sent
}

/// Returns true if an error is that of a limit. Printing adds parentheses, so a text at a limit can
/// exceed it once printed.
fn is_limit(error: &QueryError) -> bool {
    let message = error.to_string();
    message.contains("nested too deeply") || message.contains("exceeded the maximum limit")
}

/// Runs a text over a few items. Nothing panics, the bounds are kept, and the rows are the same
/// with every page size and with and without an index.
pub(crate) fn check_run(text: &str) {
    let Ok(query) = compile(text) else { return };
    let items: Vec<Bytes> = ITEMS
        .iter()
        .map(|t| Bytes::from_static(t.as_bytes()))
        .collect();
    let whole = rows(&query, &items, FULL_SCAN);
    // Random numbers depend on the row at which the page began.
    if text.to_ascii_uppercase().contains("RAND") {
        return;
    }
    let all_options = [
        RunOptions {
            max_items: 2,
            ..FULL_SCAN
        },
        RunOptions {
            uses_index: true,
            ..FULL_SCAN
        },
        RunOptions {
            uses_index: true,
            max_items: 1,
            max_bytes: 60,
        },
    ];
    for options in all_options {
        let uses_index = options.uses_index;
        match (&whole, rows(&query, &items, options)) {
            (Ok(whole), Ok(paged)) => {
                assert_eq!(*whole, paged, "uses_index {uses_index}: {text}")
            }
            // Pages of another size can reach a limit at another row, and an index leaves out items
            // on which the query fails.
            (Err(_), _) | (_, Err(QueryError::Timeout | QueryError::Memory(_))) => {}
            (Ok(_), Err(error)) => panic!("uses_index {uses_index}: {text}: {error}"),
        }
    }
}

/// Returns all rows, or [`QueryError::Timeout`] if the clock is read too often or there are too
/// many pages.
fn rows(query: &Query, items: &[Bytes], options: RunOptions) -> Result<Vec<String>, QueryError> {
    let source = if options.uses_index {
        Items::indexed(query, items)
    } else {
        Items::new(items)
    };
    let mut rows = Vec::new();
    let mut resume: Option<ResumePoint> = None;
    let mut clock_checks = 0;
    for _ in 0..1_000 {
        let mut source = source.starting_at(resume.as_ref());
        let mut is_expired = || {
            clock_checks += 1;
            clock_checks > CLOCK_CHECKS
        };
        let mut bounds = Bounds {
            max_items: options.max_items,
            max_bytes: options.max_bytes.min(MEMORY),
            max_memory: MEMORY,
            ..bounds(&mut is_expired)
        };
        let mut work = Work::default();
        let page = query.run(
            &mut source,
            &mut Udfs,
            resume.as_ref(),
            &mut bounds,
            &mut work,
        )?;
        assert!(page.rows.len() <= options.max_items);
        rows.extend(texts(&page));
        match page.resume {
            None => return Ok(rows),
            Some(_) if clock_checks > CLOCK_CHECKS => return Err(QueryError::Timeout),
            Some(next) => {
                resume = Some(ResumePoint::decode(&next.encode()).expect("own bytes"));
            }
        }
    }
    // A join with very many rows, in pages of one row.
    Err(QueryError::Timeout)
}
