//! Queries over several physical partitions in an engine whose clients merge the results.

use crate::support::{START_MS, create, create_container, json, key, options, query, rows};
use orrery_engine::request::*;
use orrery_engine::{Container, CrossPartitionQueries, Engine, EngineOptions, Profile};
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

#[test]
fn a_query_that_needs_merging_is_refused_with_its_plan() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    for text in [
        "SELECT VALUE COUNT(1) FROM c",
        "SELECT COUNT(1) FROM c",
        "SELECT c.pk FROM c GROUP BY c.pk",
        "SELECT DISTINCT c.n FROM c",
        "SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n",
        "SELECT * FROM c ORDER BY c.n",
        "SELECT TOP 3 * FROM c",
        "SELECT * FROM c OFFSET 1 LIMIT 2",
        "SELECT VALUE COUNT(1) FROM c \
            WHERE c.pk IN ('key 1', 'key 2', 'key 3', 'key 4', 'key 5', 'key 6')",
        "SELECT AVG(c.n) FROM c WHERE c.pk = 'key 7'",
    ] {
        let refused = first_page(&engine, &container, &Scope::Everything, text).expect_err(text);
        assert_eq!(
            (refused.status(), refused.sub_status()),
            (400, 1004),
            "{text}: {refused}"
        );
        let plan = json(refused.additional_info().expect("a plan"));
        assert!(
            plan.get("queryInfo")
                .and_then(|info| info.get("rewrittenQuery"))
                .is_some(),
            "{text}: {plan}"
        );
        assert!(
            plan.get("queryRanges")
                .and_then(Json::as_array)
                .is_some_and(|ranges| !ranges.is_empty())
        );
    }
}

#[test]
fn a_full_text_ranking_is_refused_with_its_plan_and_answered_for_one_partition() {
    let (engine, container) = engine_without_merging(PARTITIONS);
    let text = "SELECT TOP 5 c.id FROM c ORDER BY RANK FullTextScore(c.text, 'snow')";
    let refused = first_page(&engine, &container, &Scope::Everything, text).expect_err(text);
    assert_eq!(
        (refused.status(), refused.sub_status()),
        (400, 1004),
        "{refused}"
    );
    let plan = json(refused.additional_info().expect("a plan"));
    assert!(plan.get("hybridSearchQueryInfo").is_some(), "{plan}");
    let range = engine.partition_key_ranges(&container).expect("ranges").0[0].id;
    assert_eq!(
        first_page(
            &engine,
            &container,
            &Scope::Range {
                id: range,
                within: None
            },
            text
        )
        .expect(text),
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
    let mut pinned = query("SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'key 7'");
    pinned.cross_partition = false;
    let page = engine
        .query(&container, &Scope::Everything, &pinned, None)
        .result
        .expect("a query of one partition");
    assert_eq!(page.page.rows.len(), 1);
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
