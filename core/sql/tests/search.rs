//! Full-text, vector and spatial search: a client that merges by its plan gets the rows of the
//! server, relations of geometries are consistent, and large inputs are refused or stopped.

use crate::support::{ALL_FEATURES, FULL_SCAN, compile, environment_of, page, plan_request, rows};
use bytes::Bytes;
use orrery_model::json::{Json, Object, parse};
use orrery_sql::{Environment, PlanInfo, Query, QueryError, Work, client_plan};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Returns 200 items with a text of one to five words and, for most of them, a vector of two
/// numbers.
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
    let rows = rows(&query, items, FULL_SCAN, &mut Work::default()).expect("rows");
    rows.iter()
        .map(|row| parse(row.as_bytes()).expect("a row"))
        .collect()
}

/// Adds two statistics: numbers, and arrays and objects member by member.
fn add_statistics(a: &Json, b: &Json) -> Json {
    match (a, b) {
        (Json::Array(a), Json::Array(b)) => {
            Json::Array(a.iter().zip(b).map(|(a, b)| add_statistics(a, b)).collect())
        }
        (Json::Object(a), Json::Object(b)) => {
            let mut sum = Object::new();
            for (name, value) in a.iter() {
                let other = b.get(name).expect("the same members");
                sum.push_new(name, add_statistics(value, other));
            }
            Json::Object(sum)
        }
        (a, b) => Json::from(a.as_f64().expect("a number") + b.as_f64().expect("a number")),
    }
}

fn list<'j>(object: &'j Object, name: &str) -> &'j [Json] {
    object.get(name).and_then(Json::as_array).expect("a list")
}

fn text<'j>(object: &'j Object, name: &str) -> &'j str {
    object.get(name).and_then(Json::as_str).expect("a text")
}

/// A row that a client has received: its scores, one for each component, and its payload.
struct ReceivedRow {
    scores: Vec<f64>,
    payload: Json,
}

/// Executes the plan of a query as the Python and JavaScript SDKs do, and returns its rows.
fn rows_of_client(
    query: &str,
    features: &str,
    environment: &Environment,
    partitions: &[Vec<Bytes>],
) -> Vec<Json> {
    let plan = client_plan(query, &[], environment, &plan_request(features)).expect("a plan");
    let PlanInfo::HybridSearch(info) = plan.info else {
        panic!("no hybrid search")
    };
    let statistics_query = text(&info, "globalStatisticsQuery");
    let statistics = partitions
        .iter()
        .map(|partition| run(statistics_query, environment, partition).swap_remove(0))
        .reduce(|a, b| add_statistics(&a, &b))
        .expect("some partition");

    // Each component runs on each partition. A row that several components return is one row.
    let components = list(&info, "componentQueryInfos");
    let mut rows: BTreeMap<String, ReceivedRow> = BTreeMap::new();
    for component in components {
        let component = component.as_object().expect("an object");
        let query = fill_in_statistics(text(component, "rewrittenQuery"), &statistics);
        for partition in partitions {
            for row in run(&query, environment, partition) {
                let (resource_id, row) = receive(&row);
                rows.insert(resource_id, row);
            }
        }
    }
    let rows: Vec<ReceivedRow> = rows.into_values().collect();

    let fused = fuse(&info, &rows);
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by(|a, b| fused[*b].total_cmp(&fused[*a]));
    let count = |name: &str, default: usize| match info.get(name).and_then(Json::as_i64) {
        Some(count) => usize::try_from(count).expect("a count"),
        None => default,
    };
    order
        .into_iter()
        .skip(count("skip", 0))
        .take(count("take", usize::MAX))
        .map(|i| rows[i].payload.clone())
        .collect()
}

/// Replaces the placeholders of a rewritten query by the statistics of the container.
fn fill_in_statistics(query: &str, statistics: &Json) -> String {
    let mut query = query.replace("{documentdb-formattableorderbyquery-filter}", "true");
    let mut fill_in = |name: &str, value: &Json| {
        let placeholder = format!("{{documentdb-formattablehybridsearchquery-{name}}}");
        query = query.replace(&placeholder, &value.to_text());
    };
    let statistics = statistics.as_object().expect("an object");
    let document_count = statistics.get("documentCount").expect("a count");
    fill_in("totaldocumentcount", document_count);
    for (at, text) in list(statistics, "fullTextStatistics").iter().enumerate() {
        let word_count = text.get("totalWordCount").expect("a count");
        fill_in(&format!("totalwordcount-{at}"), word_count);
        let hit_counts = text.get("hitCounts").expect("counts");
        fill_in(&format!("hitcountsarray-{at}"), hit_counts);
    }
    query
}

/// Returns the resource id and the contents of a row of a component. The scores are beside the
/// payload, or in the payload of a row in the form of ORDER BY.
fn receive(row: &Json) -> (String, ReceivedRow) {
    let outer = row.get("payload").expect("a payload");
    let (payload, scores) = match row.get("componentScores") {
        Some(scores) => (outer, scores),
        None => (
            outer.get("payload").expect("a payload"),
            outer.get("componentScores").expect("scores"),
        ),
    };
    let resource_id = row.get("_rid").and_then(Json::as_str);
    let scores = scores.as_array().expect("a list").iter();
    let received = ReceivedRow {
        scores: scores.map(|s| s.as_f64().expect("a number")).collect(),
        payload: payload.clone(),
    };
    (resource_id.expect("a resource id").to_owned(), received)
}

/// Returns the fused score of each row: the sum over the components of `weight / (60 + rank)`.
fn fuse(info: &Object, rows: &[ReceivedRow]) -> Vec<f64> {
    let weights = list(info, "componentWeights");
    let mut fused = vec![0.0; rows.len()];
    for (at, component) in list(info, "componentQueryInfos").iter().enumerate() {
        let order = list(component.as_object().expect("an object"), "orderBy");
        let is_ascending = order.first().and_then(Json::as_str) == Some("Ascending");
        let score = |row: usize| {
            let score = rows[row].scores[at];
            if is_ascending { -score } else { score }
        };
        let weight = weights
            .get(at)
            .map_or(1.0, |weight| weight.as_f64().expect("a number"));

        let mut by_score: Vec<usize> = (0..rows.len()).collect();
        by_score.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
        let mut rank = 1.0;
        for (position, row) in by_score.iter().enumerate() {
            if position > 0 && score(*row) != score(by_score[position - 1]) {
                rank += 1.0;
            }
            fused[*row] += weight / (60.0 + rank);
        }
    }
    fused
}

#[test]
fn a_client_that_fuses_ranks_gets_the_rows_of_the_server() {
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
            let of_server = rows(&query, &items, FULL_SCAN, &mut Work::default()).expect("rows");
            for features in [
                ALL_FEATURES,
                "HybridSearch, WeightedRankFusion, HybridSearchSkipOrderByRewrite",
            ] {
                // Such a client does not reorder the rows of a single score.
                if !order.starts_with("RRF") && features != ALL_FEATURES {
                    continue;
                }
                let of_client = rows_of_client(&text, features, &environment, &partitions);
                let of_client: Vec<String> = of_client.iter().map(Json::to_text).collect();
                assert_eq!(of_client, of_server, "{text} for clients with {features:?}");
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
        rows(&query, &items(), FULL_SCAN, &mut Work::default()),
        Err(QueryError::Unsupported(_))
    ));
}

#[test]
fn a_ranking_holds_only_the_rows_that_it_can_need() {
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

/// Returns a polygon whose corners are on a circle around (`x`, 0).
fn regular_polygon(corners: usize, radius: f64, x: f64) -> String {
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
fn geometries_are_limited_in_points_and_in_time() {
    let item = |corners| {
        Bytes::from(format!(
            r#"{{"a":{},"b":{}}}"#,
            regular_polygon(corners, 1.0, 0.0),
            regular_polygon(corners, 1.0, 9.0)
        ))
    };
    let query = |text: &str| Query::compile(text, &[], &Environment::default()).expect("compiles");
    let valid = query("SELECT VALUE ST_ISVALIDDETAILED(c.a).reason FROM c");
    let reason = rows(&valid, &[item(4_096)], FULL_SCAN, &mut Work::default()).expect("rows");
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

/// Generates a polygon that does not cross itself: corners at growing angles around a centre, each
/// at a distance of its own.
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

/// Returns the environment of a container whose geometries are in a plane or on the Earth.
fn environment_of_surface(is_planar: bool) -> Environment {
    Environment {
        is_planar,
        ..Environment::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn relations_of_geometries_are_consistent(
        a in prop_oneof![star(), point(), line()],
        b in prop_oneof![star(), point(), line()],
        is_planar in any::<bool>(),
    ) {
        let environment = environment_of_surface(is_planar);
        let text = "SELECT ST_INTERSECTS(c.a, c.b) AS a_meets_b, \
                    ST_INTERSECTS(c.b, c.a) AS b_meets_a, \
                    ST_DISTANCE(c.a, c.b) AS a_to_b, ST_DISTANCE(c.b, c.a) AS b_to_a, \
                    ST_WITHIN(c.a, c.b) AS a_in_b, ST_WITHIN(c.b, c.a) AS b_in_a, \
                    ST_AREA(c.a) AS area_a, ST_AREA(c.b) AS area_b, \
                    ST_WITHIN(c.a, c.a) AS a_in_a FROM c";
        let item = Bytes::from(format!(r#"{{"a":{a},"b":{b}}}"#));
        let row = run(text, &environment, &[item]).swap_remove(0);
        let is = |name: &str| row.get(name).and_then(Json::as_bool).expect("a boolean");
        let number = |name: &str| row.get(name).and_then(Json::as_f64).expect("a number");
        prop_assert_eq!(is("a_meets_b"), is("b_meets_a"));
        prop_assert_eq!(is("a_meets_b"), number("a_to_b") == 0.0);
        let (a_to_b, b_to_a) = (number("a_to_b"), number("b_to_a"));
        prop_assert!((a_to_b - b_to_a).abs() <= 1e-6 * a_to_b.max(1.0));
        prop_assert!(is("a_in_a"));
        let (area_a, area_b) = (number("area_a"), number("area_b"));
        if is("a_in_b") {
            prop_assert!(is("a_meets_b"));
            prop_assert!(area_a <= area_b * (1.0 + 1e-9) + 1e-9);
        }
        if is("a_in_b") && is("b_in_a") {
            prop_assert!((area_a - area_b).abs() <= 1e-6 * area_a.max(1.0));
        }
    }

    #[test]
    fn a_small_polygon_contains_the_same_points_on_the_earth_and_in_the_plane(
        ring in star(),
        x in -500i32..500,
        y in -500i32..500,
    ) {
        // On a small part of the Earth both surfaces agree, except very close to the boundary.
        let (x, y) = (f64::from(x) / 100.0, f64::from(y) / 100.0);
        let point = format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#);
        let item = Bytes::from(format!(r#"{{"a":{ring},"p":{point}}}"#));
        let answer = |is_planar: bool, text: &str| {
            let environment = environment_of_surface(is_planar);
            run(text, &environment, std::slice::from_ref(&item)).swap_remove(0)
        };
        let to_boundary = "SELECT VALUE ST_DISTANCE(\
                           c.p, {type: 'LineString', coordinates: c.a.coordinates[0]}) FROM c";
        if answer(true, to_boundary).as_f64().expect("a number") > 0.01 {
            let text = "SELECT VALUE ST_WITHIN(c.p, c.a) FROM c";
            prop_assert_eq!(answer(true, text).as_bool(), answer(false, text).as_bool());
        }
    }
}
