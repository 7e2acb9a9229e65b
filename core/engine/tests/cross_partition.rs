//! Queries over several physical partitions in an engine whose clients merge the results.

use crate::support::{START_MS, create, create_container, json, key, options, query, rows};
use orrery_engine::request::*;
use orrery_engine::{Container, CrossPartitionQueries, Engine, EngineOptions, Profile};
use orrery_model::partition_key::{Epk, EpkRange};
use orrery_model::world::SeededWorld;
use orrery_model::{Error, Json};
use orrery_storage::MemoryStore;
use std::sync::Arc;

const PARTITIONS: usize = 3;
const ITEMS: usize = 40;
const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "indexingPolicy":{"fullTextIndexes":[{"path":"/text"}]},
    "fullTextPolicy":{"defaultLanguage":"en-US",
        "fullTextPaths":[{"path":"/text","language":"en-US"}]}}"#;

/// Opens an engine that does not merge, with items in a container of `partitions` physical
/// partitions.
fn engine_without_merging(partitions: usize) -> (Engine, Arc<Container>) {
    engine_with(CrossPartitionQueries::Refuse, partitions)
}

/// Opens an engine in which `side` merges, with items in a container of `partitions` physical
/// partitions.
fn engine_with(side: CrossPartitionQueries, partitions: usize) -> (Engine, Arc<Container>) {
    let options = EngineOptions {
        cross_partition_queries: side,
        ..options(Profile::Modern)
    };
    let world = Arc::new(SeededWorld::new(START_MS, 1));
    let engine =
        Engine::open(Arc::new(MemoryStore::new()), options, world).expect("the engine opens");
    let container = create_container(&engine, BODY, partitions).expect("the container is created");
    for n in 0..ITEMS {
        create(
            &engine,
            &container,
            &format!(r#"{{"id":"{n}","pk":"key {n}","n":{n},"text":"snow {n}"}}"#),
        );
    }
    (engine, container)
}

/// Returns the number of rows on the first page.
fn first_page(
    engine: &Engine,
    container: &Container,
    scope: &Scope,
    text: &str,
) -> Result<usize, Error> {
    Ok(engine
        .query(container, scope, &query(text), None)
        .result?
        .page
        .rows
        .len())
}

/// The features of a client that can do every merge.
const ALL_FEATURES: &str = "Aggregate, CountIf, DCount, Distinct, GroupBy, HybridSearch, \
                            ListAndSetAggregate, MultipleAggregates, MultipleOrderBy, \
                            NonStreamingOrderBy, NonValueAggregate, OffsetAndLimit, OrderBy, Top, \
                            WeightedRankFusion";

/// Queries that every client can merge.
const SIMPLE_MERGES: &[&str] = &[
    "SELECT VALUE COUNT(1) FROM c",
    "SELECT VALUE MIN(c.n) FROM c",
    "SELECT * FROM c ORDER BY c.n",
    "SELECT TOP 3 * FROM c",
    "SELECT VALUE COUNT(1) FROM c \
        WHERE c.pk IN ('key 1', 'key 2', 'key 3', 'key 4', 'key 5', 'key 6')",
    "SELECT VALUE r FROM (SELECT VALUE c FROM c WHERE c.n > 1) r ORDER BY r.n",
];

/// Queries that only clients with further features can merge, with these features.
const FURTHER_MERGES: &[(&str, &str)] = &[
    ("SELECT COUNT(1) FROM c", "NonValueAggregate"),
    (
        "SELECT AVG(c.n) FROM c WHERE c.pk = 'key 7'",
        "NonValueAggregate",
    ),
    (
        "SELECT COUNT(1) AS n, MAX(c.n) AS m FROM c",
        "NonValueAggregate, MultipleAggregates",
    ),
    ("SELECT c.pk, COUNT(1) AS n FROM c GROUP BY c.pk", "GroupBy"),
    ("SELECT c.pk FROM c GROUP BY c.pk", "GroupBy"),
    ("SELECT DISTINCT c.n FROM c", "Distinct"),
    ("SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n", "Distinct"),
    ("SELECT * FROM c OFFSET 1 LIMIT 2", "OffsetAndLimit"),
    (
        "SELECT VALUE c.id FROM c ORDER BY c.n OFFSET 2 LIMIT 3",
        "OffsetAndLimit",
    ),
    ("SELECT VALUE COUNTIF(c.n > 1) FROM c", "CountIf"),
    (
        "SELECT TOP 5 c.id FROM c ORDER BY RANK FullTextScore(c.text, 'snow')",
        "HybridSearch",
    ),
];

/// Returns the refusal of a query over everything for a client that comes to its plan in this way.
fn refusal(engine: &Engine, container: &Container, text: &str, plan_source: &PlanSource) -> Error {
    let request = QueryRequest {
        plan_source: plan_source.clone(),
        ..query(text)
    };
    let answer = engine.query(container, &Scope::Everything, &request, None);
    answer.result.expect_err(text)
}

#[test]
fn a_query_that_needs_merging_is_refused_with_its_plan() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    let names_all = PlanSource::RefusalFor(ALL_FEATURES.to_owned());
    let mut asked = Vec::new();
    for text in SIMPLE_MERGES {
        asked.push((*text, PlanSource::OwnRequest));
        asked.push((*text, PlanSource::Refusal));
        asked.push((*text, names_all.clone()));
    }
    for (text, _) in FURTHER_MERGES {
        asked.push((*text, names_all.clone()));
    }
    for (text, plan_source) in asked {
        let refused = refusal(&engine, &container, text, &plan_source);
        assert_eq!(
            (refused.status(), refused.sub_status()),
            (400, 1004),
            "{text}: {refused}"
        );
        let plan = json(refused.additional_info().expect("a plan"));
        let info = plan.get("queryInfo").or(plan.get("hybridSearchQueryInfo"));
        assert!(info.is_some(), "{text}: {plan}");
        let ranges = plan.get("queryRanges").and_then(Json::as_array);
        assert!(ranges.is_some_and(|ranges| !ranges.is_empty()), "{text}");
    }
}

#[test]
fn a_client_that_cannot_merge_a_query_gets_no_plan_for_it() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    for (text, missing) in FURTHER_MERGES {
        // A client of an early version reads the words. It would take another form of rows, or more
        // of them, for the answer.
        let names_few = PlanSource::RefusalFor("Aggregate, OrderBy, Top".to_owned());
        for plan_source in [PlanSource::Refusal, names_few] {
            let refused = refusal(&engine, &container, text, &plan_source);
            assert_eq!((refused.status(), refused.sub_status()), (400, 0), "{text}");
            assert_eq!(refused.additional_info(), None, "{text}");
            let is_of_aggregates = missing.contains("Aggregate") || text.contains("COUNT(1) AS n");
            let words = match is_of_aggregates {
                true => {
                    "Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates."
                }
                false => "which the calling client does not support.",
            };
            assert!(refused.message().contains(words), "{text}: {refused}");
        }
        // A later one goes on with a request for the plan, which the sub-status tells the Python
        // SDK and the sentence the JavaScript SDK.
        let refused = refusal(&engine, &container, text, &PlanSource::OwnRequest);
        assert_eq!(
            (refused.status(), refused.sub_status()),
            (400, 1004),
            "{text}"
        );
        assert_eq!(refused.additional_info(), None, "{text}");
        let words = "Cross partition query only supports";
        assert!(refused.message().contains(words), "{text}: {refused}");
        for feature in missing.split(", ") {
            assert!(refused.message().contains(feature), "{text}: {refused}");
        }
    }
}

#[test]
fn a_query_plan_needs_the_features_of_its_merge() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    for text in SIMPLE_MERGES {
        let refused = engine.query_plan(&container, text, &[], "", None).result;
        let refused = refused.expect_err(text);
        assert_eq!((refused.status(), refused.sub_status()), (400, 0), "{text}");
        let words = "which the calling client does not support.";
        assert!(refused.message().contains(words), "{text}: {refused}");
    }
    let all = SIMPLE_MERGES
        .iter()
        .chain(FURTHER_MERGES.iter().map(|(text, _)| text));
    for text in all {
        let plan = engine.query_plan(&container, text, &[], ALL_FEATURES, None);
        plan.result.expect(text);
    }
    let plan = engine.query_plan(&container, "SELECT * FROM c WHERE c.n > 1", &[], "", None);
    plan.result.expect("nothing is merged");
}

/// Queries over a subquery in FROM that has its rows only after all items, or whose rows do not
/// tell their item.
const OVER_SUBQUERIES: &[&str] = &[
    "SELECT VALUE r0.n FROM (SELECT DISTINCT VALUE root FROM root) AS r0",
    "SELECT VALUE x.even FROM (SELECT DISTINCT c.n % 2 = 0 AS even FROM c) AS x",
    "SELECT TOP 1 VALUE x FROM (SELECT DISTINCT VALUE c.n % 3 FROM c) AS x WHERE x > 0",
    "SELECT VALUE SUM(x) FROM (SELECT DISTINCT VALUE c.n % 3 FROM c) AS x",
    "SELECT DISTINCT VALUE x > 0 FROM (SELECT DISTINCT VALUE c.n % 3 FROM c) AS x",
    "SELECT VALUE x.items FROM (SELECT COUNT(1) AS items FROM c) AS x",
    "SELECT * FROM (SELECT c.n % 7 AS rest, COUNT(1) AS items FROM c GROUP BY c.n % 7) AS g \
        WHERE g.items > 5",
    "SELECT VALUE MAX(g.items) FROM \
        (SELECT c.n % 7 AS rest, COUNT(1) AS items FROM c GROUP BY c.n % 7) AS g",
    "SELECT VALUE x.id FROM (SELECT c.id, c.n FROM c WHERE c.n > 30) AS x ORDER BY x.n DESC",
    "SELECT VALUE x.id FROM (SELECT c.id, c.n FROM c) AS x ORDER BY x.n OFFSET 2 LIMIT 3",
    "SELECT VALUE x.id FROM (SELECT c.id, c.n FROM c WHERE c.pk IN ('key 1', 'key 2')) AS x \
        ORDER BY x.n",
    "SELECT VALUE x.id FROM (SELECT DISTINCT c.id, c.n FROM c WHERE c.pk = 'key 7') AS x",
    "SELECT VALUE COUNT(1) FROM c GROUP BY c.text ORDER BY c.text",
    "SELECT x.n, MAX(x.id) AS last FROM (SELECT VALUE c FROM c) AS x \
        GROUP BY x.n ORDER BY x.n DESC",
];

/// Runs the plan of a query that needs no merge of the client, as clients do: the rewritten query
/// on each physical partition that its ranges touch, or on all.
fn rows_by_plan(engine: &Engine, container: &Container, text: &str, on_all: bool) -> Vec<String> {
    let plan = engine.query_plan(container, text, &[], ALL_FEATURES, None);
    let plan = json(&plan.result.expect(text));
    let info = plan.get("queryInfo").expect("a plan");
    for member in ["top", "offset", "limit", "dCountInfo"] {
        assert_eq!(info.get(member), Some(&Json::Null), "{text}: {member}");
    }
    for member in ["orderBy", "aggregates", "groupByExpressions"] {
        let list = info.get(member).and_then(Json::as_array);
        assert_eq!(list.map(<[Json]>::len), Some(0), "{text}: {member}");
    }
    let rewritten = info.get("rewrittenQuery").and_then(Json::as_str);
    let sent = rewritten.filter(|text| !text.is_empty()).unwrap_or(text);
    let wanted = plan.get("queryRanges").and_then(Json::as_array);
    let bounds: Vec<(&str, &str)> = wanted
        .expect("ranges")
        .iter()
        .map(|range| {
            let bound = |name| range.get(name).and_then(Json::as_str).expect("a bound");
            (bound("min"), bound("max"))
        })
        .collect();
    let mut found = Vec::new();
    for range in engine.partition_key_ranges(container).expect("ranges").0 {
        let (min, max) = (range.range.min.to_string(), range.range.max.to_string());
        let is_touched = |(from, to): &(&str, &str)| *from < &max[..] && *to >= &min[..];
        if !on_all && !bounds.iter().any(is_touched) {
            continue;
        }
        let scope = Scope::Range {
            id: range.id,
            within: None,
        };
        let part = rows(engine, container, &scope, &query(sent), &[1, 2]).expect(text);
        found.extend(part);
    }
    found
}

#[test]
fn a_plan_over_a_subquery_gives_the_rows_of_the_server() {
    for side in [CrossPartitionQueries::Merge, CrossPartitionQueries::Refuse] {
        for partitions in [1, PARTITIONS] {
            let (engine, container) = engine_with(side, partitions);
            let (merging, merged) = engine_with(CrossPartitionQueries::Merge, PARTITIONS);
            for text in OVER_SUBQUERIES {
                let everything = Scope::Everything;
                let mut expected =
                    rows(&merging, &merged, &everything, &query(text), &[100]).expect(text);
                assert!(!expected.is_empty(), "{text}");
                for on_all in [false, true] {
                    let mut found = rows_by_plan(&engine, &container, text, on_all);
                    if !text.contains("ORDER BY") {
                        found.sort();
                        expected.sort();
                    }
                    assert_eq!(found, expected, "{text} on {partitions}, all: {on_all}");
                }
            }
        }
    }
}

#[test]
fn a_query_that_the_server_merges_for_a_key_has_the_items_of_the_key() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    let text = "SELECT VALUE x.id FROM (SELECT c.id, c.n FROM c) AS x WHERE _AllPartitions()";
    let mut found = 0;
    for n in 0..ITEMS {
        let scope = Scope::Key(key(&format!(r#"["key {n}"]"#)));
        let own = rows(&engine, &container, &scope, &query(text), &[100]).expect("rows");
        assert_eq!(own, [format!("\"{n}\"")]);
        found += own.len();
    }
    assert_eq!(found, ITEMS);
}

#[test]
fn a_query_that_the_server_merges_for_a_part_of_a_partition_has_the_items_of_the_part() {
    let (engine, container) = engine_without_merging(1);
    let text = "SELECT VALUE x.id FROM (SELECT c.id, c.n FROM c) AS x WHERE _AllPartitions()";
    let (first, middle, last) = (Epk::min(), Epk::from_hex("20").expect("an EPK"), Epk::max());
    let mut found = 0;
    for range in [
        EpkRange::new(first, middle.clone()),
        EpkRange::new(middle, last),
    ] {
        let part = rows(
            &engine,
            &container,
            &Scope::Epk(range),
            &query(text),
            &[100],
        );
        let part = part.expect("rows").len();
        assert!((1..ITEMS).contains(&part), "{part}");
        found += part;
    }
    assert_eq!(found, ITEMS);
}

#[test]
fn a_full_text_ranking_is_answered_for_one_partition() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    let text = "SELECT TOP 5 c.id FROM c ORDER BY RANK FullTextScore(c.text, 'snow')";
    let id = engine.partition_key_ranges(&container).expect("ranges").0[0].id;
    let scope = Scope::Range { id, within: None };
    assert_eq!(
        first_page(&engine, &container, &scope, text).expect(text),
        5
    );
}

#[test]
fn a_query_over_one_partition_is_answered_even_if_it_needs_merging() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    let texts = [
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT * FROM c ORDER BY c.n",
        "SELECT TOP 1 * FROM c",
    ];
    let range = engine.partition_key_ranges(&container).expect("ranges").0[0].id;
    for text in texts {
        for scope in [
            Scope::Key(key(r#"["key 7"]"#)),
            Scope::Range {
                id: range,
                within: None,
            },
        ] {
            assert!(
                first_page(&engine, &container, &scope, text).expect(text) > 0,
                "{text}"
            );
        }
    }
}

#[test]
fn a_query_pinned_to_one_key_is_answered_unless_it_may_cross_partitions() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    for (text, row) in [
        ("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'key 7'", "1"),
        ("SELECT AVG(c.n) FROM c WHERE c.pk = 'key 7'", r#"{"$1":7}"#),
    ] {
        let mut pinned = query(text);
        pinned.cross_partition = false;
        let page = engine.query(&container, &Scope::Everything, &pinned, None);
        assert_eq!(page.result.expect(text).page.rows, [row]);
        let refused = first_page(&engine, &container, &Scope::Everything, text).expect_err(text);
        assert_eq!(
            (refused.status(), refused.sub_status()),
            (400, 1004),
            "{text}"
        );
    }
}

#[test]
fn a_composition_of_aggregates_is_answered_for_one_partition_only() {
    let composition = "SELECT VALUE COUNT(1) + 5 FROM c";
    let texts = [
        composition,
        "SELECT c.pk, MAX(c.n) - MIN(c.n) AS range FROM c GROUP BY c.pk",
        "SELECT VALUE {\"items\": COUNT(1)} FROM c",
        "SELECT VALUE (COUNT(v) > 0) FROM (SELECT VALUE c FROM c WHERE c.n >= 0) AS v",
    ];
    let key = Scope::Key(key(r#"["key 7"]"#));
    for side in [CrossPartitionQueries::Merge, CrossPartitionQueries::Refuse] {
        let (engine, container) = engine_with(side, PARTITIONS);
        for text in texts {
            let refused =
                first_page(&engine, &container, &Scope::Everything, text).expect_err(text);
            assert_eq!((refused.status(), refused.sub_status()), (400, 0), "{text}");
            let words = "Compositions of aggregates and other expressions are not allowed.";
            assert!(refused.message().contains(words), "{refused}");
        }
        let answer = engine.query(&container, &key, &query(composition), None);
        assert_eq!(answer.result.expect("a count").page.rows, ["6"]);
        // Subqueries see one item, and may compose aggregates.
        let text = "SELECT VALUE (SELECT VALUE COUNT(1) + 5 FROM t IN c.tags) FROM c";
        assert!(first_page(&engine, &container, &Scope::Everything, text).expect(text) > 0);
    }
}

#[test]
fn a_cross_partition_query_that_needs_merging_is_refused_even_with_one_partition() {
    let (engine, container) = engine_without_merging(1);
    for text in [
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT * FROM c ORDER BY c.n",
    ] {
        let refused = first_page(&engine, &container, &Scope::Everything, text).expect_err(text);
        assert_eq!(
            (refused.status(), refused.sub_status()),
            (400, 1004),
            "{text}"
        );
    }
    assert!(
        first_page(
            &engine,
            &container,
            &Scope::Everything,
            "SELECT * FROM c WHERE c.n >= 0"
        )
        .expect("rows")
            > 0
    );
}

#[test]
fn a_page_ends_with_its_partition_and_all_pages_together_hold_every_row() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    for (text, expected_pages) in [
        ("SELECT VALUE c.id FROM c", PARTITIONS),
        ("SELECT VALUE c.id FROM c WHERE c.n >= 0", PARTITIONS),
        ("SELECT VALUE c.id FROM c WHERE c.n < 0", PARTITIONS),
    ] {
        let mut request = query(text);
        let mut pages = 0;
        let mut found = 0;
        loop {
            let page = engine
                .query(&container, &Scope::Everything, &request, None)
                .result
                .expect(text)
                .page;
            (pages, found) = (pages + 1, found + page.rows.len());
            match page.continuation {
                None => break,
                Some(continuation) => request.page.continuation = Some(continuation),
            }
        }
        let expected = if text.ends_with("< 0") { 0 } else { ITEMS };
        assert_eq!((pages, found), (expected_pages, expected), "{text}");
        for size in [1, 2, 7] {
            let mut ids = rows(
                &engine,
                &container,
                &Scope::Everything,
                &query(text),
                &[size],
            )
            .expect(text);
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), expected, "{text} in pages of {size}");
        }
    }
}
