//! The status of vector and full-text indexes, and the measurement of their recall.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{
    BackgroundTask, Cancel, Container, Engine, EngineOptions, Profile, SearchIndexKind,
    SearchIndexState, SearchIndexStatus,
};
use orrery_model::world::SeededWorld;
use orrery_storage::{MemoryStore, Store};
use std::sync::Arc;

/// Vectors from which on an index is approximate here.
const FROM: u64 = 200;
/// Bytes of the row of a vector of 16 components of four bytes.
const VECTOR_BYTES: u64 = 21 + 8 + 16 * 4;

fn body(vector_index: &str, text_index: &str) -> String {
    format!(
        r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
        "vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32",
            "dimensions":16,"distanceFunction":"cosine"}}]}},
        "fullTextPolicy":{{"defaultLanguage":"en-US","fullTextPaths":[{{"path":"/t",
            "language":"en-US"}}]}},
        "indexingPolicy":{{"vectorIndexes":[{vector_index}],"fullTextIndexes":[{text_index}],
            "excludedPaths":[{{"path":"/v/*"}}],"includedPaths":[{{"path":"/*"}}]}}}}"#
    )
}

fn of_type(kind: &str) -> String {
    format!(r#"{{"path":"/v","type":"{kind}"}}"#)
}

struct Fixture {
    engine: Engine,
    container: Arc<Container>,
    world: Arc<SeededWorld>,
    random: u64,
}

impl Fixture {
    fn new(vector_index: &str, partitions: usize) -> Fixture {
        let world = Arc::new(SeededWorld::new(START_MS, 3));
        let options = EngineOptions {
            approximate_from: FROM,
            ..options(Profile::Modern)
        };
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let engine = Engine::open(store, options, world.clone()).expect("an engine");
        let body = body(vector_index, r#"{"path":"/t"}"#);
        let container = create_container(&engine, &body, partitions).expect("a container");
        Fixture {
            engine,
            container,
            world,
            random: 1,
        }
    }

    fn put(&mut self, id: usize) {
        let mut vector = Vec::new();
        for _ in 0..16 {
            self.random = self
                .random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            vector.push((self.random >> 40) as f64 / 1e6 - 8.0);
        }
        let body = format!(r#"{{"id":"i{id}","pk":{id},"v":{vector:?},"t":"one red rod"}}"#);
        let options = WriteOptions {
            partition_key: Some(key(&format!("[{id}]"))),
            ..WriteOptions::default()
        };
        let operation = WriteOperation::Upsert;
        let written = write(
            &self.engine,
            &self.container,
            &operation,
            Some(&body),
            &options,
        );
        written.result.expect("written");
    }

    fn link(&self, steps: usize) {
        for _ in 0..steps {
            self.world.advance_ms(1_000);
            let more = self.engine.run_background_work(BackgroundTask::Linking);
            if !more.expect("a step") {
                return;
            }
        }
    }

    fn replace(&self, body: &str) {
        let replaced = self
            .engine
            .replace_container(&self.container, &object(body), None);
        replaced.result.expect("replaced");
    }

    fn statuses(&self) -> Vec<SearchIndexStatus> {
        let statuses = self
            .engine
            .search_indexes(&self.container, &Cancel::default());
        statuses.expect("the indexes")
    }

    fn vectors(&self) -> SearchIndexStatus {
        self.statuses().remove(0)
    }

    fn recall(
        &self,
        path: &str,
        sample: u64,
    ) -> orrery_model::Result<orrery_engine::RecallEstimate> {
        let cancel = Cancel::default();
        self.engine
            .vector_recall(&self.container, path, sample, &cancel)
    }
}

#[test]
fn the_status_of_an_index_follows_the_task() {
    let mut fixture = Fixture::new(&of_type("diskANN"), 1);
    let empty = fixture.vectors();
    assert_eq!(empty.state, SearchIndexState::Exact);
    assert_eq!((empty.figures.entries, empty.percent), (0, Some(100)));
    for id in 0..FROM as usize + 100 {
        fixture.put(id);
    }
    let training = fixture.vectors();
    assert_eq!(training.state, SearchIndexState::Training);
    assert_eq!(training.figures.waiting, FROM + 100);
    assert_eq!(training.figures.vector_bytes, (FROM + 100) * VECTOR_BYTES);

    // The quantiser, and one step.
    fixture.link(2);
    let building = fixture.vectors();
    assert_eq!(building.state, SearchIndexState::Building);
    let figures = building.figures;
    assert!(figures.quantised > 0 && figures.waiting > 0, "{figures:?}");
    assert_eq!(figures.quantised + figures.waiting, figures.entries);
    let percent = figures.quantised * 100 / figures.entries;
    assert_eq!(building.percent, Some(percent as u8));

    fixture.link(100);
    let complete = fixture.vectors();
    assert_eq!(complete.state, SearchIndexState::Complete);
    assert_eq!((complete.percent, complete.figures.waiting), (Some(100), 0));
    // A key of 13 bytes, an EPK prefix and a code of four bytes.
    assert_eq!(complete.figures.code_bytes, (FROM + 100) * (13 + 8 + 4));
    assert!(complete.figures.list_bytes > (FROM + 100) * 13);
    assert!(!complete.figures.is_estimated);

    fixture.put(0);
    let changed = fixture.vectors();
    assert_eq!(changed.state, SearchIndexState::Complete);
    assert_eq!(changed.figures.waiting, 1);
    assert_eq!(changed.partitions.len(), 1);
    assert_eq!(changed.partitions[0].figures, changed.figures);
}

#[test]
fn texts_and_kinds_are_listed() {
    let mut fixture = Fixture::new(&of_type("quantizedFlat"), 2);
    for id in 0..30 {
        fixture.put(id);
    }
    let statuses = fixture.statuses();
    let [vectors, texts] = &statuses[..] else {
        panic!("{statuses:?}");
    };
    let kind = SearchIndexKind::Vector {
        type_name: "quantizedFlat",
        data_type: "float32",
        dimensions: 16,
        function: "cosine",
    };
    assert_eq!((vectors.path.as_str(), &vectors.kind), ("/v", &kind));
    assert_eq!(vectors.partitions.len(), 2);
    assert_eq!(
        (texts.path.as_str(), texts.state),
        ("/t", SearchIndexState::Complete)
    );
    assert_eq!((texts.figures.entries, texts.figures.words), (30, 90));
}

#[test]
fn an_index_that_becomes_flat_is_shown_until_its_rows_are_gone() {
    let mut fixture = Fixture::new(&of_type("diskANN"), 1);
    for id in 0..FROM as usize {
        fixture.put(id);
    }
    fixture.link(100);
    // The type of an index cannot change in one step.
    for index in ["", &of_type("flat")] {
        fixture.replace(&body(index, ""));
        fixture.engine.finish_reindexing().expect("reindexed");
    }
    let removing = fixture.vectors();
    assert_eq!(removing.state, SearchIndexState::Removing);
    assert_eq!((removing.percent, removing.figures.waiting), (None, 0));
    fixture.engine.finish_linking().expect("linked");
    let flat = fixture.vectors();
    assert_eq!(
        (flat.state, flat.percent),
        (SearchIndexState::Exact, Some(100))
    );
    assert_eq!((flat.figures.code_bytes, flat.figures.list_bytes), (0, 0));
}

#[test]
fn an_index_that_a_policy_brings_is_shown_while_items_are_indexed() {
    let mut fixture = Fixture::new("", 1);
    for id in 0..30 {
        fixture.put(id);
    }
    assert_eq!(fixture.statuses().len(), 1);
    fixture.replace(&body(&of_type("flat"), r#"{"path":"/t"}"#));
    fixture.engine.reindex_some(20).expect("a step");
    let statuses = fixture.statuses();
    assert_eq!(statuses[0].state, SearchIndexState::Indexing);
    let percent = statuses[0].percent.expect("a part");
    assert!((50..80).contains(&percent), "{percent}");
    assert_eq!(statuses[1].state, SearchIndexState::Complete);
    fixture.engine.finish_reindexing().expect("reindexed");
    assert_eq!(fixture.vectors().state, SearchIndexState::Exact);
}

#[test]
fn recall_is_measured_over_all_partitions() {
    let mut fixture = Fixture::new(&of_type("diskANN"), 2);
    for id in 0..3 * FROM as usize {
        fixture.put(id);
    }
    fixture.link(100);
    let recall = fixture.recall("/v", 30).expect("a recall");
    assert_eq!((recall.sample, recall.wanted), (30, 300));
    assert!(recall.found > 240, "{recall:?}");
    assert_eq!(fixture.recall("/v", 1).expect("a recall").sample, 1);

    let few = Fixture::new(&of_type("flat"), 1);
    assert_eq!(few.recall("/v", 20).expect("no vectors").wanted, 0);
}

#[test]
fn recall_is_refused_for_other_paths_and_samples() {
    let fixture = Fixture::new(&of_type("flat"), 1);
    for path in ["/t", "/w", "v", ""] {
        let error = fixture.recall(path, 20).expect_err("no such index");
        assert_eq!(error.status(), 404);
        assert!(error.message().contains(&format!("'{path}'")), "{error}");
    }
    for sample in [0, 101] {
        let error = fixture.recall("/v", sample).expect_err("out of range");
        assert_eq!(error.status(), 400);
    }
    let cancel = Cancel::default();
    cancel.cancel();
    let cancelled = fixture.engine.search_indexes(&fixture.container, &cancel);
    assert_eq!(cancelled.expect_err("cancelled").status(), 408);
}
