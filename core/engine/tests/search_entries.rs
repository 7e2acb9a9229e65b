//! The entries of vector and full-text indexes: those that an earlier version of the program did
//! not write, texts that are left out, and items that queries may not see.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

const INDEXES: &str =
    r#""vectorIndexes":[{"path":"/v","type":"flat"}],"fullTextIndexes":[{"path":"/t"}],"#;
const NEAREST: &str = "SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, [1,0])";
const RED: &str = "SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'red')";
const RANKED: &str = "SELECT TOP 9 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, 'red')";

fn body(indexes: &str, more: &str) -> String {
    format!(
        r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}}{more},
        "vectorEmbeddingPolicy":{{"vectorEmbeddings":[
            {{"path":"/v","dataType":"float32","dimensions":2,"distanceFunction":"cosine"}}]}},
        "fullTextPolicy":{{"defaultLanguage":"en-US","fullTextPaths":[{{"path":"/t"}}]}},
        "indexingPolicy":{{{indexes}"includedPaths":[{{"path":"/*"}}]}}}}"#
    )
}

fn ids(engine: &Engine, container: &Container, text: &str) -> Vec<String> {
    rows(engine, container, &Scope::Everything, &query(text), &[2]).expect("rows")
}

/// Returns the access path of a query.
fn access(engine: &Engine, container: &Container, text: &str) -> String {
    let request = QueryRequest {
        explain: true,
        cross_partition: true,
        ..query(text)
    };
    let page = engine.query(
        container,
        &Scope::Everything,
        &request,
        ReadOptions::default(),
    );
    page.result.expect("a page").explanation.expect("EXPLAIN")
}

#[test]
fn a_container_of_an_earlier_version_gets_its_entries_by_a_reindex() {
    let store = Arc::new(MemoryStore::new());
    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, Profile::Modern, 3);
    let container = bench.container(&body("", ""), 1);
    for (id, v, t) in [
        ("a", "[0,1]", "a red boat"),
        ("b", "[1,0]", "a boat"),
        ("c", "[1,1]", "red"),
    ] {
        let item = format!(r#"{{"id":"{id}","pk":"p","v":{v},"t":"{t}"}}"#);
        create(&bench.engine, &container, &item);
    }
    drop((container, bench));

    // The earlier version kept the indexes of the policy without entries.
    rewrite_record(&*store, |text| {
        let old = text.replace(r#","hasSearchEntries":true"#, "");
        let policy = r#""indexingPolicy":{"#;
        (old != text).then(|| old.replace(policy, &format!("{policy}{INDEXES}")))
    });
    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, Profile::Modern, 4);
    let (database, name) = (Id::Name("db"), Id::Name("items"));
    let container = bench.engine.container(database, name).expect("a container");
    let check = || {
        let found = |text| ids(&bench.engine, &container, text);
        assert_eq!(found(NEAREST), [r#""b""#, r#""c""#, r#""a""#]);
        assert_eq!(found(RED), [r#""a""#, r#""c""#]);
        assert_eq!(found(RANKED), [r#""c""#, r#""a""#, r#""b""#]);
        check_counters(&bench.engine, &container);
    };
    check();
    assert!(access(&bench.engine, &container, NEAREST).contains("full scan"));
    while bench.engine.reindex_some(1).expect("a step") {
        check();
    }
    check();
    assert!(access(&bench.engine, &container, NEAREST).contains("nearest of"));
    assert!(access(&bench.engine, &container, RANKED).contains("best of"));
}

#[test]
fn a_policy_that_changes_during_a_reindex_keeps_the_answers() {
    let bench = Bench::new(Profile::Modern, 5);
    let container = bench.container(&body(INDEXES, ""), 1);
    for n in 0..12 {
        let item = format!(r#"{{"id":"{n}","pk":"p","v":[{},1],"t":"red {n}"}}"#, n % 5);
        create(&bench.engine, &container, &item);
    }
    let found = || [NEAREST, RED, RANKED].map(|text| ids(&bench.engine, &container, text));
    let before = found();
    for indexes in ["", INDEXES, "", INDEXES] {
        let replaced = object(&body(indexes, ""));
        let replaced = bench.engine.replace_container(&container, &replaced, None);
        replaced.result.expect("replaced");
        for _ in 0..2 {
            assert_eq!(found(), before);
            check_counters(&bench.engine, &container);
            bench.engine.reindex_some(3).expect("a step");
        }
    }
    bench.engine.finish_reindexing().expect("the reindex");
    assert_eq!(found(), before);
    check_counters(&bench.engine, &container);
}

#[test]
fn a_text_that_is_left_out_is_found_all_the_same() {
    let bench = Bench::new(Profile::Modern, 6);
    let container = bench.container(&body(INDEXES, ""), 1);
    create(
        &bench.engine,
        &container,
        r#"{"id":"short","pk":"p","t":"red"}"#,
    );
    assert!(access(&bench.engine, &container, RED).contains("index text"));
    let mut words: Vec<String> = (0..31_000).map(|n| format!("w{n}")).collect();
    words.push("red".to_owned());
    let item = format!(r#"{{"id":"long","pk":"p","t":"{}"}}"#, words.join(" "));
    create(&bench.engine, &container, &item);
    assert!(access(&bench.engine, &container, RED).contains("full scan"));
    assert_eq!(
        ids(&bench.engine, &container, RED),
        [r#""short""#, r#""long""#]
    );
    assert_eq!(
        ids(&bench.engine, &container, RANKED),
        [r#""short""#, r#""long""#]
    );
    check_counters(&bench.engine, &container);

    let operation = WriteOperation::Delete("long".to_owned());
    let options = WriteOptions {
        partition_key: Some(key(r#"["p"]"#)),
        ..WriteOptions::default()
    };
    let deleted = write(&bench.engine, &container, &operation, None, &options);
    deleted.result.expect("deleted");
    assert!(access(&bench.engine, &container, RED).contains("index text"));
    check_counters(&bench.engine, &container);
}

#[test]
fn searches_return_no_item_that_has_expired() {
    let bench = Bench::new(Profile::Modern, 7);
    let container = bench.container(&body(INDEXES, r#","defaultTtl":-1"#), 1);
    for n in 0..300 {
        let ttl = if n < 290 { r#","ttl":10"# } else { "" };
        let item = format!(r#"{{"id":"{n}","pk":"p","v":[1,{n}],"t":"red"{ttl}}}"#);
        create(&bench.engine, &container, &item);
    }
    bench.world.advance_ms(11_000);
    let nearest = ids(
        &bench.engine,
        &container,
        "SELECT TOP 2 VALUE c.id FROM c ORDER BY VectorDistance(c.v, [1,0])",
    );
    assert_eq!(nearest, [r#""290""#, r#""291""#]);
    let fused = "SELECT TOP 2 VALUE c.id FROM c ORDER BY RANK \
                 RRF(FullTextScore(c.t, 'red'), VectorDistance(c.v, [1,0]))";
    assert_eq!(
        ids(&bench.engine, &container, fused),
        [r#""290""#, r#""291""#]
    );
    assert_eq!(ids(&bench.engine, &container, RED).len(), 10);
}
