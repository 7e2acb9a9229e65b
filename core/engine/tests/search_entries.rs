//! The entries of vector and full-text indexes: those that earlier versions of the program did not
//! write, texts that are left out, items that queries may not see, and fuzzy terms that many words
//! match.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, Profile};
use orrery_model::Json;
use orrery_storage::{Direction, MemoryStore, PartitionId, Store};
use std::ops::Bound;
use std::sync::Arc;

const INDEXES: &str =
    r#""vectorIndexes":[{"path":"/v","type":"flat"}],"fullTextIndexes":[{"path":"/t"}],"#;
const NEAREST: &str = "SELECT VALUE c.id FROM c ORDER BY VectorDistance(c.v, [1,0])";
const RED: &str = "SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'red')";
const FUZZY: &str =
    r#"SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, {"term":"roww","distance":1})"#;
const RANKED_FUZZY: &str = r#"SELECT TOP 9 VALUE c.id FROM c
    ORDER BY RANK FullTextScore(c.t, {"term":"roww","distance":1})"#;
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

/// Changes the entries of the full-text index in a partition to those of the earlier version, which
/// had none for words.
fn remove_words(store: &dyn Store, partition: PartitionId) {
    const TEXTS: u8 = 0xA0;
    let snapshot = store.snapshot(partition).expect("a snapshot");
    let (first, end) = ([TEXTS], [TEXTS + 1]);
    let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    for row in snapshot.scan(range, Direction::Forward) {
        let (key, value) = row.expect("a row");
        // The stem is behind the tag and the number of the index.
        if key[5] == 0xFE {
            deletes.push(key.to_vec());
        } else if let Some(without) = value.strip_suffix(&[0x80]) {
            puts.push((key.to_vec(), without.to_vec()));
        }
    }
    assert!(!puts.is_empty() && !deletes.is_empty());
    commit_rows(store, partition, puts, deletes);
}

#[test]
fn a_container_of_an_earlier_version_gets_the_entries_of_words_by_a_reindex() {
    let store = Arc::new(MemoryStore::new());
    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, Profile::Modern, 3);
    let container = bench.container(&body(INDEXES, ""), 1);
    for (id, t) in [
        ("a", "rowing"),
        ("b", "a row"),
        ("c", "a row of rows"),
        ("d", "red"),
    ] {
        let item = format!(r#"{{"id":"{id}","pk":"p","t":"{t}"}}"#);
        create(&bench.engine, &container, &item);
    }
    drop((container, bench));
    remove_words(&*store, PartitionId(1));
    rewrite_record(&*store, |text| {
        let old = text.replace(r#","hasWordEntries":true"#, "");
        (old != text).then_some(old)
    });

    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, Profile::Modern, 4);
    let (database, name) = (Id::Name("db"), Id::Name("items"));
    let container = bench.engine.container(database, name).expect("a container");
    let check = || {
        let found = |text| ids(&bench.engine, &container, text);
        assert_eq!(found(FUZZY), [r#""b""#, r#""c""#]);
        assert_eq!(found(RED), [r#""d""#]);
        assert_eq!(found(RANKED_FUZZY)[..2], [r#""c""#, r#""b""#]);
    };
    check();
    assert!(access(&bench.engine, &container, FUZZY).contains("full scan"));
    assert!(access(&bench.engine, &container, RED).contains("index text"));
    while bench.engine.reindex_some(1).expect("a step") {
        check();
    }
    check();
    assert!(access(&bench.engine, &container, FUZZY).contains("index text"));
    assert!(access(&bench.engine, &container, RANKED_FUZZY).contains("best of"));

    // The catalog knows that the reindex is complete.
    drop((container, bench));
    let bench = Bench::on(Arc::clone(&store) as Arc<dyn Store>, Profile::Modern, 5);
    let container = bench.engine.container(database, name).expect("a container");
    assert!(access(&bench.engine, &container, FUZZY).contains("index text"));
}

#[test]
fn a_fuzzy_term_that_many_words_match_has_the_rows_of_a_full_scan() {
    let bench = Bench::new(Profile::Modern, 8);
    let indexed = bench.container(&body(INDEXES, ""), 1);
    let plain = body("", "").replace(r#""id":"items""#, r#""id":"plain""#);
    let plain = bench.container(&plain, 1);
    // The first word is in more texts than the list of a rare word has entries.
    for n in 0..1_100_usize {
        let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
        let (a, b) = (letter(n), letter(n / 26));
        let text = format!("axx {a}x{b} {b}xes {a}x{b} {}", ["axe", "dog"][n % 2]);
        let item = format!(r#"{{"id":"{n}","pk":"p","t":"{text}"}}"#);
        create(&bench.engine, &indexed, &item);
        create(&bench.engine, &plain, &item);
    }
    for (word, distance) in [
        ("axx", 1),
        ("axx", 2),
        ("kxe", 2),
        ("axx mxm", 2),
        ("dogs", 1),
    ] {
        let term = format!(r#"{{"term":"{word}","distance":{distance}}}"#);
        let ranked = format!(
            "SELECT TOP 40 VALUE c.id FROM c ORDER BY RANK FullTextScore(c.t, {term}, 'dog')"
        );
        let found = format!("SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, {term})");
        assert!(access(&bench.engine, &indexed, &ranked).contains("best of"));
        for text in [ranked, found] {
            let rows = ids(&bench.engine, &indexed, &text);
            assert_eq!(rows, ids(&bench.engine, &plain, &text), "{text}");
            assert!(!rows.is_empty());
        }
    }

    // A scan for words passes most of the entries by seeks.
    let found = r#"SELECT VALUE c.id FROM c
        WHERE FullTextContains(c.t, {"term":"mmm","distance":1})"#;
    let explained = json(&access(&bench.engine, &indexed, found));
    let ranges = explained.get("ranges").and_then(Json::as_array);
    let work = ranges.and_then(|ranges| ranges.first()?.get("work"));
    let scanned = work.and_then(|work| work.get("scannedValues")?.as_i64());
    assert!(scanned.expect("a count") < 1_000, "{explained}");
}

#[test]
fn index_metrics_of_both_versions_name_the_indexes_of_searches() {
    let bench = Bench::new(Profile::Modern, 9);
    let container = bench.container(&body(INDEXES, ""), 1);
    let request = QueryRequest {
        index_use: true,
        metrics: true,
        cross_partition: true,
        ..query(
            "SELECT TOP 2 VALUE c.id FROM c WHERE FullTextContains(c.u.w, 'red') \
             ORDER BY RANK RRF(FullTextScore(c.t, 'red'), VectorDistance(c.v, [1,0]))",
        )
    };
    let page = bench.engine.query(
        &container,
        &Scope::Everything,
        &request,
        ReadOptions::default(),
    );
    let page = page.result.expect("a page");
    let entry =
        |path: &str, kind: &str| format!(r#"{{"IndexSpec":"{path}","IndexType":"{kind}"}}"#);
    let group = |entries: &[String]| {
        let entries = entries.join(",");
        format!(r#"{{"SingleIndexes":[{entries}],"CompositeIndexes":[]}}"#)
    };
    let used = group(&[entry("/t", "FullText"), entry("/v", "Vector")]);
    let potential = group(&[entry("/u/w", "FullText")]);
    let report = format!(r#"{{"UtilizedIndexes":{used},"PotentialIndexes":{potential}}}"#);
    assert_eq!(page.index_use, Some(report));
    let metrics = json(&page.index_metrics.expect("index metrics"));
    let specs = |name: &str| {
        let list = metrics.get(name).and_then(Json::as_array).expect("a list");
        let spec_of = |index: &Json| index.get("IndexSpec").expect("a path").to_text();
        list.iter().map(spec_of).collect::<Vec<_>>()
    };
    assert_eq!(specs("UtilizedSingleIndexes"), [r#""/t""#, r#""/v""#]);
    assert!(specs("PotentialSingleIndexes").is_empty());
    assert_eq!(specs("PotentialSearchIndexes"), [r#""/u/w""#]);
}

#[test]
fn a_policy_that_changes_during_a_reindex_keeps_the_answers() {
    let bench = Bench::new(Profile::Modern, 5);
    let container = bench.container(&body(INDEXES, ""), 1);
    for n in 0..12 {
        let text = ["rowing", "row", "rows", "red"][n % 4];
        let item = format!(
            r#"{{"id":"{n}","pk":"p","v":[{},1],"t":"red {text}"}}"#,
            n % 5
        );
        create(&bench.engine, &container, &item);
    }
    let found = || {
        [NEAREST, RED, RANKED, FUZZY, RANKED_FUZZY].map(|text| ids(&bench.engine, &container, text))
    };
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
