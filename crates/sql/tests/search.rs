//! Searching: what clients make of their plans is what the server answers itself, relations of figures hold together, and
//! what is large is refused or stopped.

mod support;

use bytes::Bytes;
use orrery_model::json::{Json, Object, parse};
use orrery_sql::{Environment, PlanInfo, Query, QueryError, Work, client_plan};
use proptest::prelude::*;
use std::collections::BTreeMap;
use support::{PLAIN, compile, environment_of, page, rows};

/// Texts of a few words and vectors of two numbers, over three partitions in turn.
fn items() -> Vec<Bytes> {
    const WORDS: [&str; 7] = [
        "red",
        "green",
        "blue house",
        "houses",
        "the river",
        "united states",
        "state",
    ];
    let item = |n: usize| {
        let words: Vec<&str> = (0..n % 5 + 1)
            .map(|i| WORDS[(n * 7 + i * i * 3) % WORDS.len()])
            .collect();
        let vector = if n.is_multiple_of(11) {
            String::new()
        } else {
            format!(r#","v":[{},{}]"#, n % 13, (n * n) % 17)
        };
        let rid = format!("{n:04}");
        Bytes::from(format!(
            r#"{{"id":"{n}","_rid":"{rid}","n":{n},"text":"{}"{vector}}}"#,
            words.join(" ")
        ))
    };
    (0..200).map(item).collect()
}

fn run(text: &str, environment: &Environment, items: &[Bytes]) -> Vec<Json> {
    let query = Query::compile(text, &[], environment).unwrap_or_else(|e| panic!("{text}: {e}"));
    let rows = rows(&query, items, PLAIN, &mut Work::default()).expect("rows");
    rows.iter()
        .map(|row| parse(row.as_bytes()).expect("a row"))
        .collect()
}

/// Adds numbers, and lists member by member.
fn added(a: &Json, b: &Json) -> Json {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            Json::Array(a.iter().zip(b).map(|(a, b)| added(a, b)).collect())
        }
        (Json::Object(a), Json::Object(b)) => {
            let mut sum = Object::new();
            a.iter().for_each(|(name, value)| {
                sum.push_new(name, added(value, b.get(name).expect("the same members")))
            });
            Json::Object(sum)
        }
        (a, b) => Json::from(a.as_f64().expect("a number") + b.as_f64().expect("a number")),
    }
}

/// What a client does with a plan, as the Python and JavaScript SDKs do it.
fn as_a_client(
    text: &str,
    features: &str,
    environment: &Environment,
    partitions: &[Vec<Bytes>],
) -> Vec<Json> {
    let plan = client_plan(text, &[], environment, features).expect("a plan");
    let PlanInfo::HybridSearch(info) = plan.info else {
        panic!("no hybrid search")
    };
    let statistics = info
        .get("globalStatisticsQuery")
        .and_then(Json::as_str)
        .expect("a text");
    let each = partitions
        .iter()
        .map(|p| run(statistics, environment, p).swap_remove(0));
    let statistics = each.reduce(|a, b| added(&a, &b)).expect("some partition");
    let filled = |text: &str| {
        let mut text = text.replace("{documentdb-formattableorderbyquery-filter}", "true");
        let mut put = |name: &str, value: String| {
            text = text.replace(
                &format!("{{documentdb-formattablehybridsearchquery-{name}}}"),
                &value,
            );
        };
        put(
            "totaldocumentcount",
            statistics.get("documentCount").expect("a count").to_text(),
        );
        let texts = statistics
            .get("fullTextStatistics")
            .and_then(Json::as_array)
            .expect("a list");
        for (at, text) in texts.iter().enumerate() {
            put(
                &format!("totalwordcount-{at}"),
                text.get("totalWordCount").expect("a count").to_text(),
            );
            put(
                &format!("hitcountsarray-{at}"),
                text.get("hitCounts").expect("counts").to_text(),
            );
        }
        text
    };
    let components = info
        .get("componentQueryInfos")
        .and_then(Json::as_array)
        .expect("a list");
    let mut found: BTreeMap<String, (Vec<f64>, Json)> = BTreeMap::new();
    for component in components {
        let text = filled(
            component
                .get("rewrittenQuery")
                .and_then(Json::as_str)
                .expect("a text"),
        );
        for row in partitions.iter().flat_map(|p| run(&text, environment, p)) {
            let payload = row.get("payload").expect("a payload");
            let (payload, scores) = match row.get("componentScores") {
                Some(scores) => (payload, scores),
                None => (
                    payload.get("payload").expect("one"),
                    payload.get("componentScores").expect("scores"),
                ),
            };
            let scores = scores
                .as_array()
                .expect("a list")
                .iter()
                .map(|s| s.as_f64().expect("a number"))
                .collect();
            let rid = row
                .get("_rid")
                .and_then(Json::as_str)
                .expect("a resource id")
                .to_owned();
            found.insert(rid, (scores, payload.clone()));
        }
    }
    let found: Vec<(Vec<f64>, Json)> = found.into_values().collect();
    let weights = info
        .get("componentWeights")
        .and_then(Json::as_array)
        .expect("a list");
    let mut fused = vec![0.0; found.len()];
    for (at, component) in components.iter().enumerate() {
        let order = component
            .get("orderBy")
            .and_then(Json::as_array)
            .expect("a list");
        let ascending = order.first().and_then(Json::as_str) == Some("Ascending");
        let mut sorted: Vec<usize> = (0..found.len()).collect();
        let score = |i: &usize| {
            if ascending {
                -found[*i].0[at]
            } else {
                found[*i].0[at]
            }
        };
        sorted.sort_by(|a, b| score(b).total_cmp(&score(a)));
        let mut rank = 1.0;
        for (position, i) in sorted.iter().enumerate() {
            if position > 0 && score(i) != score(&sorted[position - 1]) {
                rank += 1.0;
            }
            fused[*i] += weights
                .get(at)
                .map_or(1.0, |w| w.as_f64().expect("a number"))
                / (60.0 + rank);
        }
    }
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by(|a, b| fused[*b].total_cmp(&fused[*a]));
    let count = |name: &str| {
        info.get(name)
            .and_then(Json::as_i64)
            .map(|n| usize::try_from(n).expect("a count"))
    };
    let (skip, take) = (
        count("skip").unwrap_or(0),
        count("take").unwrap_or(usize::MAX),
    );
    order
        .into_iter()
        .skip(skip)
        .take(take)
        .map(|i| found[i].1.clone())
        .collect()
}

#[test]
fn a_client_that_fuses_ranks_gets_what_the_server_gives() {
    let items = items();
    let partitions: Vec<Vec<Bytes>> = (0..3)
        .map(|p| items.iter().skip(p).step_by(3).cloned().collect())
        .collect();
    for (policy, order, cut) in [
        (
            "cosine",
            "RRF(FullTextScore(c.text, 'house'), VectorDistance(c.v, [3, 4]))",
            "OFFSET 0 LIMIT 20",
        ),
        (
            "euclidean",
            "RRF(VectorDistance(c.v, [3, 4]), FullTextScore(c.text, 'house', 'united states'))",
            "OFFSET 7 LIMIT 9",
        ),
        (
            "euclidean",
            "RRF(FullTextScore(c.text, 'red'), FullTextScore(c.text, 'blue'), [2, 0.5])",
            "OFFSET 0 LIMIT 150",
        ),
        (
            "dotproduct",
            "RRF(VectorDistance(c.v, [1, -1]), FullTextScore(c.text, 'state'), [1, -3])",
            "OFFSET 0 LIMIT 30",
        ),
        (
            "euclidean",
            "RRF(VectorDistance(c.v, [1, 1]), VectorDistance(c.v, [9, 9]), [-1, 0.1])",
            "OFFSET 0 LIMIT 10",
        ),
        (
            "euclidean",
            "FullTextScore(c.text, 'river', 'blue house')",
            "OFFSET 3 LIMIT 12",
        ),
        (
            "euclidean",
            "VectorDistance(c.v, [5, 5])",
            "OFFSET 0 LIMIT 200",
        ),
    ] {
        for filter in [
            "",
            "WHERE c.n % 2 = 0",
            "WHERE FullTextContains(c.text, 'house')",
        ] {
            let settings = format!(r#"{{"vectors":{{"/v":"{policy}"}}}}"#);
            let environment = environment_of(&parse(settings.as_bytes()).expect("JSON"));
            let text = format!("SELECT c.id, c.n FROM c {filter} ORDER BY RANK {order} {cut}");
            let query = compile(&text, &[], &environment, &items).expect("compiles");
            let own = rows(&query, &items, PLAIN, &mut Work::default()).expect("rows");
            for features in [
                "",
                "HybridSearch, WeightedRankFusion, HybridSearchSkipOrderByRewrite",
            ] {
                // Of a single score such a client takes the rows as they come.
                if !order.starts_with("RRF") && !features.is_empty() {
                    continue;
                }
                let theirs = as_a_client(&text, features, &environment, &partitions);
                let theirs: Vec<String> = theirs.iter().map(Json::to_text).collect();
                assert_eq!(theirs, own, "{text} for clients with {features:?}");
            }
        }
    }
}

#[test]
fn a_ranking_of_texts_does_not_run_without_statistics() {
    let environment = Environment::default();
    let query = Query::compile(
        "SELECT * FROM c ORDER BY RANK FullTextScore(c.text, 'a')",
        &[],
        &environment,
    );
    let query = query.expect("compiles");
    assert!(query.statistics_query().is_some());
    assert!(matches!(
        rows(&query, &items(), PLAIN, &mut Work::default()),
        Err(QueryError::Unsupported(_))
    ));
}

#[test]
fn a_ranking_holds_what_it_can_need_and_no_more() {
    let items = items();
    let ranked = |cut: &str| {
        let text = format!("SELECT * FROM c ORDER BY RANK VectorDistance(c.v, [3, 4]) {cut}");
        Query::compile(&text, &[], &Environment::default()).expect("compiles")
    };
    assert!(matches!(
        page(&ranked(""), &items, None, usize::MAX, 40_000),
        Err(QueryError::Memory(_))
    ));
    assert_eq!(
        page(
            &ranked("OFFSET 0 LIMIT 10"),
            &items,
            None,
            usize::MAX,
            40_000
        )
        .expect("rows")
        .0
        .len(),
        10
    );
    assert!(matches!(
        page(&ranked(""), &items, None, 3, 1 << 28),
        Err(QueryError::Timeout)
    ));
}

/// A ring of so many corners around the middle of nowhere.
fn wheel(corners: usize, radius: f64, x: f64) -> String {
    let corner = |i: usize| {
        let angle = (i % corners) as f64 / corners as f64 * std::f64::consts::TAU;
        format!("[{},{}]", x + radius * angle.cos(), radius * angle.sin())
    };
    let ring: Vec<String> = (0..=corners).map(corner).collect();
    format!(
        r#"{{"type":"Polygon","coordinates":[[{}]]}}"#,
        ring.join(",")
    )
}

#[test]
fn figures_have_a_bounded_number_of_points_and_of_seconds() {
    let item = |corners| {
        Bytes::from(format!(
            r#"{{"a":{},"b":{}}}"#,
            wheel(corners, 1.0, 0.0),
            wheel(corners, 1.0, 9.0)
        ))
    };
    let query = |text: &str| Query::compile(text, &[], &Environment::default()).expect("compiles");
    let valid = query("SELECT VALUE ST_ISVALIDDETAILED(c.a).reason FROM c");
    let reason = rows(&valid, &[item(4_096)], PLAIN, &mut Work::default()).expect("rows");
    assert_eq!(
        reason,
        [r#""The input is not valid because it has more than 4096 points.""#]
    );
    for text in [
        "ST_DISTANCE(c.a, c.b)",
        "ST_WITHIN(c.a, c.a)",
        "ST_INTERSECTS(c.a, c.b)",
        "ST_ISVALID(c.a)",
    ] {
        let result = page(
            &query(&format!("SELECT {text} FROM c")),
            &[item(4_095)],
            None,
            1,
            1 << 28,
        );
        assert!(
            matches!(result, Err(QueryError::Timeout)),
            "{text}: {result:?}"
        );
    }
}

/// A ring without crossings: corners at growing angles and some distance around a place.
fn star() -> impl Strategy<Value = String> {
    let corners = proptest::collection::vec(0.2f64..3.0, 3..9);
    (corners, -30i32..30, -30i32..30).prop_map(|(radii, x, y)| {
        let count = radii.len() as f64;
        let corner = |(i, radius): (usize, &f64)| {
            let angle = i as f64 / count * std::f64::consts::TAU;
            format!(
                "[{},{}]",
                f64::from(x) / 10.0 + radius * angle.cos(),
                f64::from(y) / 10.0 + radius * angle.sin()
            )
        };
        let mut ring: Vec<String> = radii.iter().enumerate().map(corner).collect();
        ring.push(ring[0].clone());
        format!(
            r#"{{"type":"Polygon","coordinates":[[{}]]}}"#,
            ring.join(",")
        )
    })
}

fn point() -> impl Strategy<Value = String> {
    (-500i32..500, -500i32..500).prop_map(|(x, y)| {
        format!(
            r#"{{"type":"Point","coordinates":[{},{}]}}"#,
            f64::from(x) / 100.0,
            f64::from(y) / 100.0
        )
    })
}

fn line() -> impl Strategy<Value = String> {
    proptest::collection::vec((-500i32..500, -500i32..500), 2..6).prop_map(|corners| {
        let each: Vec<String> = corners
            .iter()
            .map(|(x, y)| format!("[{},{}]", f64::from(*x) / 100.0, f64::from(*y) / 100.0))
            .collect();
        format!(
            r#"{{"type":"LineString","coordinates":[[7,7],{}]}}"#,
            each.join(",")
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn relations_of_figures_hold_together(
        a in prop_oneof![star(), point(), line()],
        b in prop_oneof![star(), point(), line()],
        planar in any::<bool>(),
    ) {
        let environment = environment_of(&parse(format!(r#"{{"planar":{planar}}}"#).as_bytes()).expect("JSON"));
        let text = "SELECT ST_INTERSECTS(c.a, c.b) AS meet, ST_INTERSECTS(c.b, c.a) AS met, ST_DISTANCE(c.a, c.b) AS far, \
                    ST_DISTANCE(c.b, c.a) AS away, ST_WITHIN(c.a, c.b) AS inside, ST_WITHIN(c.b, c.a) AS around, \
                    ST_AREA(c.a) AS area, ST_AREA(c.b) AS other, ST_WITHIN(c.a, c.a) AS self FROM c";
        let item = Bytes::from(format!(r#"{{"a":{a},"b":{b}}}"#));
        let row = run(text, &environment, &[item]).swap_remove(0);
        let truth = |name: &str| row.get(name).and_then(Json::as_bool).expect("a truth");
        let number = |name: &str| row.get(name).and_then(Json::as_f64).expect("a number");
        prop_assert_eq!(truth("meet"), truth("met"));
        prop_assert_eq!(truth("meet"), number("far") == 0.0);
        prop_assert!((number("far") - number("away")).abs() <= 1e-6 * number("far").max(1.0));
        prop_assert!(truth("self"));
        if truth("inside") {
            prop_assert!(truth("meet"));
            prop_assert!(number("area") <= number("other") * (1.0 + 1e-9) + 1e-9);
        }
        if truth("inside") && truth("around") {
            prop_assert!((number("area") - number("other")).abs() <= 1e-6 * number("area").max(1.0));
        }
    }

    #[test]
    fn inside_is_what_a_ray_says(ring in star(), x in -500i32..500, y in -500i32..500) {
        // On a small piece of the Earth both ways to compute agree, but within a hair of the edge.
        let (x, y) = (f64::from(x) / 100.0, f64::from(y) / 100.0);
        let item = Bytes::from(format!(r#"{{"a":{ring},"p":{{"type":"Point","coordinates":[{x},{y}]}}}}"#));
        let answer = |planar: bool, text: &str| {
            let environment = environment_of(&parse(format!(r#"{{"planar":{planar}}}"#).as_bytes()).expect("JSON"));
            run(text, &environment, std::slice::from_ref(&item)).swap_remove(0)
        };
        let edge = "SELECT VALUE ST_DISTANCE(c.p, {type: 'LineString', coordinates: c.a.coordinates[0]}) FROM c";
        if answer(true, edge).as_f64().expect("a number") > 0.01 {
            let text = "SELECT VALUE ST_WITHIN(c.p, c.a) FROM c";
            prop_assert_eq!(answer(true, text).as_bool(), answer(false, text).as_bool());
        }
    }
}
