//! What must hold for any text at all, in good faith or not. The fuzz targets ask it of texts that nobody has seen, and
//! a test asks it of every text that they found worth keeping.

#![allow(dead_code)] // each target uses its own part

use super::support::{Items, PLAIN, Udfs, Way, environment, served};
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::{Json, Object};
use orrery_sql::{
    Bounds, Demand, Environment, PlanInfo, Query, QueryError, Work, client_plan, formatted,
    query_advice,
};
use std::sync::LazyLock;

/// Bytes of rows and of collected values that a run may hold here.
const MEMORY: usize = 1 << 20;
/// Looks at the clock until the time is over.
const LOOKS: usize = 40;

const ITEMS: &[&str] = &[
    r#"{"id":"1","key":"a","n":1,"s":"apple","tags":["x","y"],"kids":[{"name":"Ann","age":3},{"name":"Bob","age":7}],"on":true,"name":"One","_rid":"ABCDEFGHIJIBAAAAAAAAAA=="}"#,
    r#"{"id":"2","key":"a","n":2,"s":"banana","tags":[],"kids":[],"on":false,"x":{"y":[{"z":2}]},"b":{"c":1},"a":[1,[2]]}"#,
    r#"{"id":"3","key":"b","n":-3.5,"s":"Cherry","tags":["y",null,"é😀"],"kids":[{"name":"Cid"},{}],"price":2,"quantity":3}"#,
    r#"{"id":"4","key":null,"n":null,"tags":"x","deep":{"list":[1,2,3],"v":5},"date":"2024-02-29T23:59:59.1234567Z"}"#,
    r#"{"id":"5","n":"5","s":7,"on":"true","x":1e300,"a":9007199254740993,"b":{}}"#,
    r#"{"id":"6","n":2.5,"s":"","tags":[["x"],{"x":1}],"a":{"b":{"c":[{"d":[]}]}},"x":[{"y":1},{"y":"1"}]}"#,
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

/// Compiles, plans and prints: no panic, nothing that grows, and what is printed reads back as the same.
pub fn front(text: &str) {
    let compiled = compile(text);
    if let Err(error) = &compiled {
        let told = error.to_json().to_text();
        assert!(
            told.len() <= 100_000 + 8 * text.len(),
            "an error of {} bytes",
            told.len()
        );
    }
    let _ = query_advice(text, &PARAMETERS);
    if let Ok(plan) = client_plan(text, &PARAMETERS, &ENVIRONMENT, "") {
        for rewritten in rewritten(&plan.info) {
            let again = compile(&rewritten);
            assert!(
                again.is_ok(),
                "the rewritten query does not compile: {rewritten}: {:?}",
                again.err()
            );
        }
    }
    let Ok(printed) = formatted(text) else {
        assert!(compiled.is_err(), "what compiles can be printed: {text}");
        return;
    };
    assert!(
        printed.len() <= 64 + 12 * text.len(),
        "{} bytes became {}",
        text.len(),
        printed.len()
    );
    match formatted(&printed) {
        Ok(again) => assert_eq!(again, printed),
        Err(error) => assert!(is_too_much(&error), "{printed}: {error}"),
    }
}

/// The queries of a plan as a client sends them.
fn rewritten(info: &PlanInfo) -> Vec<String> {
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
            let own = components
                .iter()
                .filter_map(Json::as_object)
                .map(|component| text(component, "rewrittenQuery"));
            own.chain([text(info, "globalStatisticsQuery")]).collect()
        }
    };
    let sent = queries
        .into_iter()
        .filter(|query| !query.is_empty())
        .map(|query| {
            let mut sent = query.replace("{documentdb-formattableorderbyquery-filter}", "true");
            // Every other placeholder stands for a number or a list of numbers; a number does for both.
            while let Some((before, rest)) =
                sent.split_once("{documentdb-formattablehybridsearchquery-")
            {
                let after = rest.split_once('}').map_or("", |(_, after)| after);
                sent = format!("{before}1{after}");
            }
            sent
        });
    sent.collect()
}

/// Parentheses make a text longer and deeper; at the limits that may be too much.
fn is_too_much(error: &QueryError) -> bool {
    let told = error.to_string();
    told.contains("nested too deeply") || told.contains("exceeded the maximum limit")
}

/// Runs over a few items: no panic, within the bounds, and the same rows however the items come and the pages are cut.
pub fn run(text: &str) {
    let Ok(query) = compile(text) else { return };
    let items: Vec<Bytes> = ITEMS
        .iter()
        .map(|t| Bytes::from_static(t.as_bytes()))
        .collect();
    let whole = rows(&query, &items, PLAIN);
    // Chance depends on where the page began, and arrays of one ORDER BY value on how they were sorted.
    if text.to_ascii_uppercase().contains("RAND") {
        return;
    }
    let ways = [
        Way {
            max_items: 2,
            ..PLAIN
        },
        Way {
            clever_source: true,
            ..PLAIN
        },
        Way {
            clever_source: true,
            max_items: 1,
            max_bytes: 60,
        },
    ];
    for way in ways {
        match (&whole, rows(&query, &items, way)) {
            (Ok(whole), Ok(again)) => {
                assert_eq!(*whole, again, "clever source {}: {text}", way.clever_source)
            }
            // Another cut may meet the bounds elsewhere, and a good source leaves out items that would fail.
            (Err(_), _) | (_, Err(QueryError::Timeout | QueryError::Memory(_))) => {}
            (Ok(_), Err(error)) => panic!("clever source {}: {text}: {error}", way.clever_source),
        }
    }
}

fn rows(query: &Query, items: &[Bytes], way: Way) -> Result<Vec<String>, QueryError> {
    let (items, ordered) = if way.clever_source {
        served(query, items)
    } else {
        (items.to_vec(), false)
    };
    let satisfied = way.clever_source && query.condition_is_exact();
    let with_text = !(way.clever_source && query.demand() == Demand::Count);
    let (mut rows, mut resume, mut looks) = (Vec::new(), None, 0);
    for _ in 0..1_000 {
        let position = resume
            .as_ref()
            .map(|r: &orrery_sql::ResumePoint| String::from_utf8_lossy(&r.position).into_owned());
        let at = position
            .as_deref()
            .and_then(|p| p.strip_prefix("at "))
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        let mut source = Items {
            items: items.clone(),
            at,
            ordered,
            satisfied,
            with_text,
        };
        let mut expired = || {
            looks += 1;
            looks > LOOKS
        };
        let mut bounds = Bounds {
            max_items: way.max_items,
            max_bytes: way.max_bytes.min(MEMORY),
            max_memory: MEMORY,
            is_expired: &mut expired,
            now_ms: 1_700_000_000_123,
            started_ms: 1_700_000_000_000,
            random_seed: 42,
        };
        let page = query.run(
            &mut source,
            &mut Udfs,
            resume.as_ref(),
            &mut bounds,
            &mut Work::default(),
        )?;
        assert!(page.rows.len() <= way.max_items);
        rows.extend(
            page.rows
                .iter()
                .map(|r| String::from_utf8(r.to_vec()).expect("rows are UTF-8")),
        );
        match page.resume {
            None => return Ok(rows),
            Some(_) if looks > LOOKS => return Err(QueryError::Timeout),
            Some(next) => {
                resume = Some(orrery_sql::ResumePoint::decode(&next.encode()).expect("own bytes"))
            }
        }
    }
    // Rows that are cut one by one, of a join that has very many.
    Err(QueryError::Timeout)
}
