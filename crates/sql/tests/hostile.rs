//! Texts that nobody writes in good faith, or at all: the crate answers each with rows or an error, never with a panic,
//! and in bounded stack.

mod support;

use bytes::Bytes;
use orrery_model::json::Json;
use orrery_sql::{Query, QueryError, Work, client_plan};
use proptest::prelude::*;
use std::sync::LazyLock;
use support::{PLAIN, environment, rows, script};

/// Every query of the golden scripts.
static QUERIES: LazyLock<Vec<String>> =
    LazyLock::new(|| script::cases().into_iter().map(|case| case.text).collect());

/// Pieces to put where they do not belong.
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

/// Compiles, plans and, if there is something to run, runs.
fn try_it(text: &str) {
    let parameters = [("@p".to_owned(), Json::from("p"))];
    if let Ok(query) = Query::compile(text, &parameters, &environment()) {
        let _ = rows(&query, &items(), PLAIN, &mut Work::default());
    }
    let _ = client_plan(text, &parameters, &environment(), "");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_queries_are_answered(
        index in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..4, any::<prop::sample::Index>()), 1..5),
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
        try_it(&chars.into_iter().collect::<String>());
    }

    #[test]
    fn heaps_of_tokens_are_answered(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        try_it(&pieces.join(" "));
    }
}

/// The stack that a query may take.
const STACK_BYTES: usize = 1 << 20;

#[test]
fn bombs_are_refused_or_run_within_the_stack() {
    let thread = std::thread::Builder::new()
        .stack_size(STACK_BYTES)
        .spawn(throw_bombs)
        .expect("a thread");
    thread.join().expect("no bomb goes off");
}

fn throw_bombs() {
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
            try_it(&text);
            if count == 10_000 {
                let result = Query::compile(&text, &[], &environment()).map(|_| ());
                assert!(matches!(result, Err(QueryError::Compile(_))), "{open}");
            }
        }
    }
}

#[test]
fn long_chains_are_no_deeper_than_short_ones() {
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
        let _ = rows(&query, &items(), PLAIN, &mut Work::default()).expect("rows");
    }
}

#[test]
fn too_long_a_text_is_refused() {
    let text = format!("SELECT VALUE '{}'", "x".repeat(600_000));
    assert!(matches!(
        Query::compile(&text, &[], &environment()),
        Err(QueryError::Plan(_))
    ));
}

#[test]
fn names_members_and_parameters_may_be_very_many() {
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
        let _ = client_plan(&text, &[], &environment(), "");
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
fn of_very_many_errors_the_first_are_told() {
    for part in ["x", "f(1)", "udf.g()", "ABS()"] {
        let text = format!("SELECT VALUE [{}]", vec![part; 50_000].join(","));
        match Query::compile(&text, &[], &environment()).map(|_| ()) {
            Err(QueryError::Compile(told)) => {
                assert!((1..=64).contains(&told.len()), "{part}: {}", told.len())
            }
            other => panic!("{part}: {other:?}"),
        }
    }
}

#[test]
fn a_large_parameter_is_not_copied_without_end() {
    let parameters = [("@p".to_owned(), Json::from("x".repeat(1_000_000)))];
    let text = format!("SELECT VALUE [{}]", vec!["@p"; 100_000].join(","));
    assert!(matches!(
        Query::compile(&text, &parameters, &environment()),
        Err(QueryError::Memory(_))
    ));
}

#[test]
fn what_a_plan_rewrites_can_be_sent_back() {
    let chain = (0..5_000)
        .map(|n| format!("c.n = {n}"))
        .collect::<Vec<_>>()
        .join(" OR ");
    let plan = |filter: &str| {
        let text = format!("SELECT * FROM c WHERE {filter} ORDER BY c.n");
        client_plan(&text, &[], &environment(), "")
            .map(|plan| info_of(plan).get("rewrittenQuery").cloned())
    };
    let rewritten = plan(&chain).expect("a plan").expect("a rewritten query");
    let rewritten = rewritten
        .as_str()
        .expect("a text")
        .replace("{documentdb-formattableorderbyquery-filter}", "true");
    Query::compile(&rewritten, &[], &environment()).expect("it compiles again");
    // One that would not is refused with the plan, not afterwards.
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
