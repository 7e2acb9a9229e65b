//! Hostile query texts: mutated, random, very deep, very long. Each results in rows or an error,
//! never in a panic, and within a bounded stack.

use crate::support::{ALL_FEATURES, FULL_SCAN, environment, plan_request, rows, script};
use bytes::Bytes;
use orrery_model::json::Json;
use orrery_sql::{Query, QueryError, Work, client_plan};
use proptest::prelude::*;
use std::sync::LazyLock;

/// Every query of the golden scripts.
static QUERIES: LazyLock<Vec<String>> =
    LazyLock::new(|| script::cases().into_iter().map(|case| case.text).collect());

/// Tokens that are inserted at random places.
const PIECES: &[&str] = &[
    "SELECT",
    "FROM",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    ".",
    "NOT ",
    "c",
    "IN",
    "'",
    "\"",
    "\\u",
    "@p",
    "1e999",
    "--",
    "/*",
    "é",
    "😀",
    "\0",
    "COUNT(1)",
    "GROUP BY c.x",
    "??",
    "?",
    ":",
    "BETWEEN",
    "LET x = 1 IN",
    "udf.",
    "ORDER BY ",
    "DISTINCT",
    "EXISTS(SELECT",
    "0x",
    "-",
    "9223372036854775808",
    "undefined",
    "*",
];

fn items() -> Vec<Bytes> {
    let texts = [
        r#"{"id":"1","tags":["a",1,null],"n":1,"x":{"y":[{"z":2}]}}"#,
        r#"{"id":"2","n":"s","tags":{}}"#,
        "{}",
    ];
    texts
        .into_iter()
        .map(|t| Bytes::from_static(t.as_bytes()))
        .collect()
}

/// Compiles, plans and, if the text compiles, runs a text. The results do not matter.
fn compile_plan_and_run(text: &str) {
    let parameters = [("@p".to_owned(), Json::from("p"))];
    if let Ok(query) = Query::compile(text, &parameters, &environment()) {
        let _ = rows(&query, &items(), FULL_SCAN, &mut Work::default());
    }
    let _ = client_plan(
        text,
        &parameters,
        &environment(),
        &plan_request(ALL_FEATURES),
    );
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn mutated_queries_do_not_panic(
        index in any::<prop::sample::Index>(),
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), 0usize..4, any::<prop::sample::Index>()),
            1..5,
        ),
    ) {
        let mut chars: Vec<char> = index.get(&QUERIES[..]).chars().collect();
        for (place, kind, piece) in changes {
            if chars.is_empty() {
                break;
            }
            let at = place.index(chars.len());
            match kind {
                0 => drop(chars.remove(at)),
                1 => chars.truncate(at),
                2 => {
                    let end = (at + piece.index(20)).min(chars.len());
                    let copy: Vec<char> = chars[at..end].to_vec();
                    chars.splice(at..at, copy);
                }
                _ => drop(chars.splice(at..at, piece.get(PIECES).chars())),
            }
        }
        compile_plan_and_run(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn random_tokens_do_not_panic(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40),
    ) {
        compile_plan_and_run(&pieces.join(" "));
    }
}

/// Size of the stack on which the deep texts run.
const STACK_BYTES: usize = 1 << 20;

#[test]
fn deeply_nested_texts_are_refused_or_run_within_the_stack() {
    let thread = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(run_deeply_nested_texts)
        .expect("a thread");
    thread.join().expect("no panic and no stack overflow");
}

fn run_deeply_nested_texts() {
    let deep: &[(&str, &str, &str)] = &[
        ("(", "1", ")"),
        ("[", "1", "]"),
        ("{a:", "1", "}"),
        ("NOT ", "true", ""),
        ("- ", "1", ""),
        ("ABS(", "1", ")"),
        ("(SELECT VALUE ", "1", ")"),
        ("ARRAY(SELECT VALUE ", "1", ")"),
        ("true ? ", "1", " : 2"),
        ("c[", "1", "]"),
        ("1 + 2 * (", "1", ")"),
        ("LET x = 1 IN ", "1", ""),
        ("true OR 1 = 1 || (", "1", ")"),
    ];
    for count in [50, 90, 120, 200, 290, 10_000] {
        for (open, middle, close) in deep {
            let text = format!(
                "SELECT VALUE {}{middle}{} FROM c",
                open.repeat(count),
                close.repeat(count)
            );
            compile_plan_and_run(&text);
            if count == 10_000 {
                let result = Query::compile(&text, &[], &environment()).map(|_| ());
                assert!(matches!(result, Err(QueryError::Compile(_))), "{open}");
            }
        }
    }
}

#[test]
fn long_chains_of_operators_need_no_deeper_stack() {
    let wide: &[(&str, &str)] = &[
        ("1", " + 1"),
        ("true", " AND true"),
        ("c.n = 1", " OR c.n = 2"),
        ("c", ".a"),
        ("c", "[0]"),
        ("undefined", " ?? 1"),
        ("1", " = 1"),
        ("'a'", " || 'b'"),
        ("1 IN (1", ", 2"),
    ];
    for (first, more) in wide {
        let close = if first.contains('(') { ")" } else { "" };
        let text = format!(
            "SELECT VALUE {first}{}{close} FROM c WHERE c.id = '1'",
            more.repeat(20_000)
        );
        let query = Query::compile(&text, &[], &environment()).expect("a long query");
        let _ = rows(&query, &items(), FULL_SCAN, &mut Work::default()).expect("rows");
    }
}

#[test]
fn a_text_that_is_too_long_is_refused() {
    let text = format!("SELECT VALUE '{}'", "x".repeat(600_000));
    assert!(matches!(
        Query::compile(&text, &[], &environment()),
        Err(QueryError::Plan(_))
    ));
}

#[test]
fn very_many_members_elements_and_parameters_compile() {
    let list = |count: usize, part: &dyn Fn(usize) -> String| {
        (0..count).map(part).collect::<Vec<_>>().join(",")
    };
    for text in [
        format!("SELECT VALUE {{{}}}", list(50_000, &|n| format!("a{n}:1"))),
        format!("SELECT {}", list(150_000, &|_| "1".into())),
        format!(
            "SELECT VALUE c.id IN ({}) FROM c",
            list(60_000, &|n| n.to_string())
        ),
        format!(
            "SELECT VALUE [{}]",
            list(20_000, &|_| "REPLICATE('a', 9999)".into())
        ),
    ] {
        Query::compile(&text, &[], &environment()).expect("it compiles");
        let _ = client_plan(&text, &[], &environment(), &plan_request(ALL_FEATURES));
    }
    let parameters: Vec<_> = (0..50_000)
        .map(|n| (format!("@p{n}"), Json::from(n)))
        .collect();
    let text = format!("SELECT VALUE [{}]", list(50_000, &|n| format!("@p{n}")));
    Query::compile(&text, &parameters, &environment()).expect("it compiles");
    let twice = [parameters[0].clone(), parameters[0].clone()];
    assert!(matches!(
        Query::compile("SELECT 1", &twice, &environment()),
        Err(QueryError::Plan(_))
    ));
}

#[test]
fn of_very_many_errors_at_most_64_are_reported() {
    for part in ["x", "f(1)", "udf.g()", "ABS()"] {
        let text = format!("SELECT VALUE [{}]", vec![part; 50_000].join(","));
        match Query::compile(&text, &[], &environment()).map(|_| ()) {
            Err(QueryError::Compile(errors)) => {
                assert!((1..=64).contains(&errors.len()), "{part}: {}", errors.len())
            }
            other => panic!("{part}: {other:?}"),
        }
    }
}

#[test]
fn a_large_parameter_used_very_often_is_refused() {
    let parameters = [("@p".to_owned(), Json::from("x".repeat(1_000_000)))];
    let text = format!("SELECT VALUE [{}]", vec!["@p"; 100_000].join(","));
    assert!(matches!(
        Query::compile(&text, &parameters, &environment()),
        Err(QueryError::Memory(_))
    ));
}

#[test]
fn a_rewritten_query_compiles_or_its_plan_is_refused() {
    let chain = (0..5_000)
        .map(|n| format!("c.n = {n}"))
        .collect::<Vec<_>>()
        .join(" OR ");
    let plan = |filter: &str| {
        let text = format!("SELECT * FROM c WHERE {filter} ORDER BY c.n");
        client_plan(&text, &[], &environment(), &plan_request(ALL_FEATURES))
            .map(|plan| info_of(plan).get("rewrittenQuery").cloned())
    };
    let rewritten = plan(&chain).expect("a plan").expect("a rewritten query");
    let rewritten = rewritten
        .as_str()
        .expect("a text")
        .replace("{documentdb-formattableorderbyquery-filter}", "true");
    Query::compile(&rewritten, &[], &environment()).expect("the rewritten query compiles");
    // A rewritten query that would be too deep is refused when the plan is made.
    let deep = format!("{}c.n = 1", "NOT ".repeat(200));
    assert!(
        matches!(plan(&deep), Err(QueryError::Plan(_))),
        "{:?}",
        plan(&deep)
    );
}

fn info_of(plan: orrery_sql::ClientPlan) -> orrery_model::Object {
    match plan.info {
        orrery_sql::PlanInfo::Query(info) | orrery_sql::PlanInfo::HybridSearch(info) => info,
    }
}
