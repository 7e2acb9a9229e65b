//! Vector indexes of the types `quantizedFlat` and `diskANN` beside the comparison of all vectors:
//! scores, order and visibility are exact at every moment, and few of the nearest items are missed.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{BackgroundTask, Container, Engine, EngineOptions, Profile};
use orrery_model::world::SeededWorld;
use orrery_storage::testing::Crashing;
use orrery_storage::{Direction, MemoryStore, PartitionId, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

const DIMENSIONS: usize = 16;
/// Rows of a query.
const TOP: usize = 5;
/// Tenants to which items belong.
const TENANTS: usize = 3;
/// Vectors from which on an index is approximate here.
const FROM: u64 = 200;
/// Tags of the rows of quantised vectors, graphs, marks and states.
const APPROXIMATE_TAGS: [u8; 4] = [CODE_TAG, 0x22, 0x23, 0x24];
const CODE_TAG: u8 = 0x21;

fn body(index: &str, function: &str) -> String {
    format!(
        r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},
        "defaultTtl":-1,
        "vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dataType":"float32",
            "dimensions":{DIMENSIONS},"distanceFunction":"{function}"}}]}},
        "indexingPolicy":{{"vectorIndexes":[{index}],"excludedPaths":[{{"path":"/v/*"}}],
            "includedPaths":[{{"path":"/*"}}]}}}}"#
    )
}

fn index(kind: &str) -> String {
    format!(r#"{{"path":"/v","type":"{kind}"}}"#)
}

/// The same index with quantised vectors of the kind `spherical`.
fn spherical(index: &str) -> String {
    // Of 16 bytes, since few bytes have less than a bit for each component.
    let quantiser = r#","quantizerType":"spherical","quantizationByteSize":16}"#;
    format!("{}{quantiser}", index.trim_end_matches('}'))
}

/// An index with a shard for each tenant.
fn sharded_index(kind: &str) -> String {
    format!(r#"{{"path":"/v","type":"{kind}","vectorIndexShardKey":["/tenant"]}}"#)
}

fn open_on(store: Arc<dyn Store>, world: Arc<SeededWorld>) -> orrery_model::Result<Engine> {
    let options = EngineOptions {
        approximate_from: FROM,
        ..options(Profile::Modern)
    };
    Engine::open(store, options, world)
}

/// A container with a copy of its vectors.
struct Model {
    store: Arc<dyn Store>,
    engine: Engine,
    container: Arc<Container>,
    world: Arc<SeededWorld>,
    vectors: BTreeMap<String, Vec<f64>>,
    tenants: BTreeMap<String, usize>,
    random: u64,
    /// Nearest items that were wanted, and those of them that were found.
    wanted: usize,
    found: usize,
}

impl Model {
    fn new(index: &str, function: &str, seed: u64) -> Model {
        Model::of(&body(index, function), seed)
    }

    fn of(body: &str, seed: u64) -> Model {
        Model::on(Arc::new(MemoryStore::new()), body, seed).expect("a container")
    }

    fn on(store: Arc<dyn Store>, body: &str, seed: u64) -> orrery_model::Result<Model> {
        let world = Arc::new(SeededWorld::new(START_MS, seed));
        let engine = open_on(Arc::clone(&store), Arc::clone(&world))?;
        let container = create_container(&engine, body, 1)?;
        Ok(Model {
            store,
            engine,
            container,
            world,
            vectors: BTreeMap::new(),
            tenants: BTreeMap::new(),
            random: seed,
            wanted: 0,
            found: 0,
        })
    }

    fn random(&mut self, below: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % below
    }

    /// Returns a vector near one of some centres.
    fn vector(&mut self) -> Vec<f64> {
        let centre = self.random(20);
        let mut vector = Vec::with_capacity(DIMENSIONS);
        for at in 0..DIMENSIONS {
            let noise = self.random(1_000) as f64 / 1_000.0;
            vector.push(((centre * (at + 3)) % 7) as f64 / 3.0 + noise);
        }
        vector
    }

    /// Writes an item, which becomes that of any tenant.
    fn upsert(&mut self, id: &str, vector: Vec<f64>) {
        let tenant = self.random(TENANTS);
        self.upsert_of(tenant, id, vector);
    }

    fn upsert_of(&mut self, tenant: usize, id: &str, vector: Vec<f64>) {
        let key = key_of(id);
        let item = format!(r#"{{"id":"{id}","pk":{key},"tenant":{tenant},"v":{vector:?}}}"#);
        self.write(&WriteOperation::Upsert, Some(&item), id);
        self.vectors.insert(id.to_owned(), vector);
        self.tenants.insert(id.to_owned(), tenant);
    }

    fn delete(&mut self, id: &str) {
        let operation = WriteOperation::Delete(id.to_owned());
        self.write(&operation, None, id);
        self.vectors.remove(id);
    }

    fn write(&self, operation: &WriteOperation, body: Option<&str>, id: &str) {
        let options = WriteOptions {
            partition_key: Some(key(&format!("[{}]", key_of(id)))),
            ..WriteOptions::default()
        };
        let written = write(&self.engine, &self.container, operation, body, &options);
        written.result.expect("written");
    }

    fn fill(&mut self, items: usize) {
        for n in 0..items {
            let vector = self.vector();
            self.upsert(&format!("i{n}"), vector);
        }
    }

    /// Runs the background work that is due.
    fn link(&self, steps: usize) {
        for _ in 0..steps {
            self.world.advance_ms(1_000);
            let more = self.engine.run_background_work(BackgroundTask::Linking);
            if !more.expect("a step") {
                return;
            }
        }
    }

    /// Compares the answer to a query with the vectors of the model.
    fn check_near(&mut self, vector: &[f64]) {
        self.check_near_of(vector, None);
    }

    /// The same for a query of the items of a tenant.
    fn check_near_of(&mut self, vector: &[f64], tenant: Option<usize>) {
        let condition = tenant.map(|tenant| format!("WHERE c.tenant = {tenant}"));
        let text = format!(
            "SELECT TOP {TOP} c.id, VectorDistance(c.v, {vector:?}) AS s FROM c {} \
             ORDER BY VectorDistance(c.v, {vector:?})",
            condition.unwrap_or_default()
        );
        let mut near: Vec<(f64, &String)> = Vec::new();
        for (id, other) in &self.vectors {
            if tenant.is_none_or(|tenant| self.tenants[id] == tenant) {
                near.push((cosine(vector, other), id));
            }
        }
        near.sort_by(|a, b| b.0.total_cmp(&a.0));
        near.truncate(TOP);
        let answers = self.rows(&text);
        assert_eq!(answers.len(), near.len());
        let mut last = f64::INFINITY;
        for answer in &answers {
            let answer = json(answer);
            let id = answer.get("id").and_then(|id| id.as_str()).expect("an id");
            let score = answer.get("s").and_then(|s| s.as_f64()).expect("a score");
            let stored = self.vectors.get(id).expect("an item that is there");
            assert!((score - cosine(vector, stored)).abs() < 1e-6, "{id}");
            assert!(
                tenant.is_none_or(|tenant| self.tenants[id] == tenant),
                "{id}"
            );
            assert!(score <= last, "{answers:?}");
            last = score;
            self.found += usize::from(near.iter().any(|(_, near)| *near == id));
        }
        self.wanted += near.len();
    }

    fn rows(&self, text: &str) -> Vec<String> {
        let scope = Scope::Everything;
        rows(&self.engine, &self.container, &scope, &query(text), &[100]).expect("rows")
    }

    /// Returns the request charge of a query.
    fn charge(&self, text: &str) -> f64 {
        let request = QueryRequest {
            cross_partition: true,
            ..query(text)
        };
        let scope = Scope::Everything;
        let page = self.engine.query(&self.container, &scope, &request, None);
        page.charge.as_ru()
    }

    fn explain(&self, text: &str) -> String {
        let request = QueryRequest {
            explain: true,
            cross_partition: true,
            ..query(text)
        };
        let scope = Scope::Everything;
        let page = self.engine.query(&self.container, &scope, &request, None);
        page.result.expect("a page").explanation.expect("EXPLAIN")
    }

    /// Writes, searches, links, begins anew or splits.
    fn random_step(&mut self, name: &str) {
        let id = format!("i{}", self.random(500));
        match self.random(1_000) {
            0..500 => {
                let vector = self.vector();
                self.upsert(&id, vector.clone());
                // A vector is found at once, linked or not.
                self.check_near(&vector);
                let nearest = format!(
                    "SELECT TOP 1 VALUE c.id FROM c ORDER BY VectorDistance(c.v, {vector:?})"
                );
                assert_eq!(self.rows(&nearest), [format!("\"{id}\"")], "{name}");
            }
            500..700 if self.vectors.contains_key(&id) => {
                let vector = self.vectors[&id].clone();
                self.delete(&id);
                self.check_near(&vector);
            }
            500..600 => {
                let (vector, tenant) = (self.vector(), self.random(TENANTS));
                self.check_near_of(&vector, Some(tenant));
            }
            700..800 => self.link(2),
            800..810 => self.reopen(),
            810..814 => self.split(),
            _ => {
                let vector = self.vector();
                self.check_near(&vector);
            }
        }
    }

    /// Opens another engine on the store.
    fn reopen(&mut self) {
        let (store, world) = (Arc::clone(&self.store), Arc::clone(&self.world));
        self.engine = open_on(store, world).expect("an engine");
        let (database, name) = (Id::Name("db"), Id::Name("items"));
        self.container = self
            .engine
            .container(database, name)
            .expect("the container");
    }

    /// Splits the newest physical partition.
    fn split(&mut self) {
        let (ranges, _) = self
            .engine
            .partition_key_ranges(&self.container)
            .expect("ranges");
        let split = RangeChange::Split {
            range: ranges.iter().map(|range| range.id).max().expect("a range"),
            at: SplitAt::Middle,
        };
        let begun = self.engine.begin_range_change(&self.container, split, true);
        let ended = self
            .engine
            .finish_range_change(begun.expect("it begins").id);
        assert_eq!(ended.expect("it ends").stage, RangeChangeStage::Done);
    }

    /// Returns the number of rows of quantised vectors and graphs in all partitions.
    fn approximate_rows(&self) -> usize {
        APPROXIMATE_TAGS
            .map(|tag| self.rows_of(tag).len())
            .into_iter()
            .sum()
    }

    /// Returns the values of the rows with a tag in all partitions.
    fn rows_of(&self, tag: u8) -> Vec<Vec<u8>> {
        let mut rows = Vec::new();
        // A partition that does not exist has no rows.
        for partition in (1..10).map(PartitionId) {
            let Ok(snapshot) = self.store.snapshot(partition) else {
                continue;
            };
            let (first, end) = ([tag], [tag + 1]);
            let range = (Bound::Included(&first[..]), Bound::Excluded(&end[..]));
            for row in snapshot.scan(range, Direction::Forward) {
                rows.push(row.expect("a row").1.to_vec());
            }
        }
        rows
    }

    fn check_recall(&self, least: f64) {
        let recall = self.found as f64 / self.wanted as f64;
        assert!(recall >= least, "{recall} of {}", self.wanted);
    }
}

fn key_of(id: &str) -> usize {
    id.len() + usize::from(id.as_bytes()[id.len() - 1])
}

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let sum = |x: &[f64], y: &[f64]| -> f64 { x.iter().zip(y).map(|(x, y)| x * y).sum() };
    sum(a, b) / (sum(a, a) * sum(b, b)).sqrt()
}

const NEAREST: &str = "SELECT TOP 5 VALUE c.id FROM c \
    ORDER BY VectorDistance(c.v, [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]";

#[test]
fn few_vectors_are_all_compared_and_many_are_not() {
    for (kind, way) in [
        ("quantizedFlat", "quantised vectors"),
        ("diskANN", "its graph"),
    ] {
        let mut model = Model::new(&index(kind), "cosine", 1);
        model.fill(FROM as usize - 1);
        model.link(100);
        assert!(!model.explain(&format!("{NEAREST})")).contains(way));
        model.upsert("last", vec![1.0; DIMENSIONS]);
        model.link(100);
        assert!(model.explain(&format!("{NEAREST})")).contains(way));
        for compares_all in [
            format!("{NEAREST}, true)"),
            format!("{NEAREST}, false, {{'distanceFunction':'euclidean'}})"),
            format!(
                "{NEAREST}, false, {{'searchListSizeMultiplier':100, \
                      'quantizedVectorListMultiplier':100}})"
            ),
            format!("{NEAREST})").replace("TOP 5 ", ""),
        ] {
            assert!(
                !model.explain(&compares_all).contains(way),
                "{compares_all}"
            );
        }
    }
}

/// The number of random histories is that of `ORRERY_VECTOR_RUNS`.
#[test]
fn a_random_history_shows_each_item_as_it_is_now() {
    for run in 0..setting("ORRERY_VECTOR_RUNS", 3) {
        let run_number = run as usize;
        let kind = ["diskANN", "quantizedFlat"][run_number % 2];
        let index_of = [index, sharded_index][run_number / 2 % 2];
        let mut index = index_of(kind);
        if run_number / 4 % 2 == 1 {
            index = spherical(&index);
        }
        let mut model = Model::new(&index, "cosine", 2 + u64::from(run));
        model.fill(400);
        for step in 0..600 {
            model.random_step(&format!("{kind} {run} {step}"));
        }
        model.engine.finish_linking().expect("linked");
        model.check_recall(0.9);
        check_counters(&model.engine, &model.container);
    }
}

#[test]
fn all_distance_functions_and_data_types_have_graphs() {
    for (function, data_type) in [
        ("cosine", "float16"),
        ("dotproduct", "float32"),
        ("euclidean", "int8"),
        ("euclidean", "uint8"),
    ] {
        let mut model = Model::new("", function, 5);
        let body = body(&index("diskANN"), function).replace("float32", data_type);
        model.container = {
            let deleted = model.engine.delete_container(&model.container, None);
            deleted.result.expect("deleted");
            let database = model.engine.database(Id::Name("db")).expect("the database");
            let created = model
                .engine
                .create_container(&database, &object(&body), None);
            created.result.expect("created");
            let (database, name) = (Id::Name("db"), Id::Name("items"));
            model
                .engine
                .container(database, name)
                .expect("the container")
        };
        for n in 0..500 {
            let vector = model.vector().iter().map(|n| n.round() * 9.0).collect();
            model.upsert(&format!("i{n}"), vector);
        }
        model.link(10_000);
        let (mut wanted, mut found) = (0, 0);
        for n in 0..20 {
            let vector = model.vectors[&format!("i{n}")].clone();
            let nearest = |exact: bool| {
                model.rows(&format!(
                    "SELECT TOP 10 VALUE c.id FROM c \
                     ORDER BY VectorDistance(c.v, {vector:?}, {exact})"
                ))
            };
            let (all, some) = (nearest(true), nearest(false));
            wanted += all.len();
            found += some.iter().filter(|id| all.contains(id)).count();
        }
        assert!(
            found * 10 >= wanted * 8,
            "{function} {data_type}: {found} of {wanted}"
        );
    }
}

#[test]
fn filters_and_logical_partitions_get_their_rows_from_growing_rounds() {
    let mut model = Model::new(&index("diskANN"), "cosine", 6);
    model.fill(1_500);
    model.link(10_000);
    let vector = model.vector();
    for condition in [
        "c.pk < 60",
        "c.id LIKE 'i1%'",
        "ENDSWITH(c.id, '7')",
        "c.pk = 53",
    ] {
        let nearest = |exact: bool| {
            model.rows(&format!(
                "SELECT TOP 10 VALUE c.id FROM c WHERE {condition} \
                 ORDER BY VectorDistance(c.v, {vector:?}, {exact})"
            ))
        };
        let (all, some) = (nearest(true), nearest(false));
        assert_eq!(some.len(), all.len());
        let found = some.iter().filter(|id| all.contains(id)).count();
        assert!(
            found * 10 >= all.len() * 8,
            "{condition}: {found} of {}",
            all.len()
        );
    }
}

#[test]
fn pages_of_any_size_have_the_rows_of_one_page() {
    for kind in ["diskANN", "quantizedFlat"] {
        let mut model = Model::new(&index(kind), "cosine", 12);
        model.fill(1_500);
        model.link(10_000);
        // Vectors that the index does not know yet, far from the one that is searched for.
        for n in 0..5 {
            let mut far = vec![0.0; DIMENSIONS];
            far[n] = -1.0;
            model.upsert(&format!("far{n}7"), far);
        }
        let vector = model.vectors["i17"].clone();
        for (condition, multiplier) in [("ENDSWITH(c.id, '7')", 5), ("true", 1), ("c.pk = 53", 5)] {
            let text = format!(
                "SELECT TOP 10 VALUE c.id FROM c WHERE {condition} \
                 ORDER BY VectorDistance(c.v, {vector:?}, false, \
                 {{'quantizedVectorListMultiplier':{multiplier}}})"
            );
            let pages = |sizes: &[usize]| {
                let scope = Scope::Everything;
                rows(
                    &model.engine,
                    &model.container,
                    &scope,
                    &query(&text),
                    sizes,
                )
                .expect("rows")
            };
            let one = pages(&[100]);
            assert_eq!(pages(&[1]), one, "{kind} {condition}");
            assert_eq!(pages(&[5]), one, "{kind} {condition}");
            assert!(!one.iter().any(|id| id.contains("far")), "{one:?}");
        }
    }
}

#[test]
fn a_shard_key_confines_the_search_to_the_vectors_of_its_value() {
    for kind in ["diskANN", "quantizedFlat"] {
        // Without an index of the values there is no other way to the items of a tenant.
        let charge_of = |index: &str| {
            let body = body(index, "cosine").replace("/v/*", "/*").replace(
                r#""includedPaths":[{"path":"/*"}]"#,
                r#""includedPaths":[]"#,
            );
            let mut model = Model::of(&body, 14);
            model.fill(1_500);
            model.link(10_000);
            let vector = model.vectors["i17"].clone();
            for condition in ["c.tenant = 1", "c.tenant IN (0, 2)"] {
                let nearest = |exact: bool| {
                    model.rows(&format!(
                        "SELECT TOP 10 VALUE c.id FROM c WHERE {condition} \
                         ORDER BY VectorDistance(c.v, {vector:?}, {exact})"
                    ))
                };
                let (all, some) = (nearest(true), nearest(false));
                let found = some.iter().filter(|id| all.contains(id)).count();
                assert!(
                    some.len() == 10 && found >= 8,
                    "{kind} {condition}: {found}"
                );
            }
            let text = format!(
                "SELECT TOP 10 VALUE c.id FROM c WHERE c.tenant = 1 \
                 ORDER BY VectorDistance(c.v, {vector:?})"
            );
            (model.charge(&text), model.explain(&text))
        };
        let (whole, explanation) = charge_of(&index(kind));
        assert!(!explanation.contains("shard"), "{explanation}");
        let (sharded, explanation) = charge_of(&sharded_index(kind));
        assert!(explanation.contains("of one shard"), "{explanation}");
        assert!(sharded < whole, "{kind}: {sharded} and {whole} RU");
    }
}

/// A query that asks for more rows than there are gets each item once, those without a vector last.
#[test]
fn items_of_an_index_with_shards_are_returned_once() {
    for kind in ["quantizedFlat", "diskANN"] {
        for items in [5, 400] {
            let mut model = Model::new(&sharded_index(kind), "cosine", 18);
            model.fill(items);
            model.link(10_000);
            let without = r#"{"id":"without7","pk":63,"tenant":1}"#;
            assert_eq!(key_of("without7"), 63);
            model.write(&WriteOperation::Upsert, Some(without), "without7");
            for (limit, condition) in [
                ("", "true"),
                ("TOP 600", "true"),
                ("TOP 200", "c.tenant = 1"),
                ("TOP 9", "c.tenant = 1"),
                ("", "c.pk = 58"),
                ("TOP 50", "c.pk = 58 AND c.tenant = 1"),
            ] {
                let nearest = |exact: bool| {
                    query(&format!(
                        "SELECT {limit} VALUE c.id FROM c WHERE {condition} \
                         ORDER BY VectorDistance(c.v, {:?}, {exact})",
                        vec![0.5; DIMENSIONS]
                    ))
                };
                let pages = |exact: bool, sizes: &[usize]| {
                    let scope = Scope::Everything;
                    rows(
                        &model.engine,
                        &model.container,
                        &scope,
                        &nearest(exact),
                        sizes,
                    )
                    .expect("rows")
                };
                let all = pages(true, &[1_000]);
                for sizes in [&[1_000][..], &[7]] {
                    let some = pages(false, sizes);
                    let distinct: BTreeSet<&String> = some.iter().collect();
                    assert_eq!(distinct.len(), some.len(), "{kind} {limit} {condition}");
                    assert_eq!(some.len(), all.len(), "{kind} {limit} {condition}");
                }
            }
        }
    }
}

/// The vectors of such a container are in no shard until the reindex has written them again.
#[test]
fn a_container_of_an_earlier_version_gets_shards_by_a_reindex() {
    let mut model = Model::new(&index("diskANN"), "cosine", 19);
    model.fill(400);
    model.link(10_000);
    let old = |text: &str| {
        let with_key = r#""type":"diskANN","vectorIndexShardKey":["/tenant"]"#;
        let old = text.replace(r#","hasShards":true"#, "");
        (old != text).then(|| old.replace(r#""type":"diskANN""#, with_key))
    };
    // The record of the account is none of a container.
    rewrite_record(&*model.store, old);
    model.reopen();
    let check = |model: &mut Model| {
        for n in 0..20 {
            let id = format!("i{n}");
            let vector = model.vectors[&id].clone();
            model.check_near_of(&vector, Some(model.tenants[&id]));
            model.check_near(&vector);
        }
    };
    check(&mut model);
    model.engine.reindex_some(100).expect("a step");
    check(&mut model);
    model.engine.finish_reindexing().expect("the reindex");
    model.engine.finish_linking().expect("linked");
    check(&mut model);
    model.check_recall(0.95);
    let shards = "SELECT TOP 5 VALUE c.id FROM c WHERE c.tenant = 1 \
        ORDER BY VectorDistance(c.v, [1,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0])";
    assert_eq!(model.rows(shards).len(), 5);
    // The old rows are gone: a code, a list and an entry for each shard, a quantiser, a state.
    assert_eq!(model.approximate_rows(), 400 * 2 + TENANTS + 2);
    check_counters(&model.engine, &model.container);
}

#[test]
fn a_vector_that_moves_to_another_shard_is_found_there_alone() {
    let mut model = Model::new(&sharded_index("diskANN"), "cosine", 15);
    model.fill(600);
    model.link(10_000);
    for n in 0..60 {
        let (id, tenant) = (format!("i{n}"), model.tenants[&format!("i{n}")]);
        let vector = model.vectors[&id].clone();
        model.upsert_of((tenant + 1) % TENANTS, &id, vector.clone());
        model.link(n % 3);
        for tenant in 0..TENANTS {
            model.check_near_of(&vector, Some(tenant));
        }
    }
    model.link(10_000);
    let rows = model.approximate_rows();
    // Each vector has a code and a list, and each shard an entry; a quantiser and a state.
    assert_eq!(rows, 600 * 2 + TENANTS + 2);
    model.check_recall(0.9);
}

#[test]
fn a_shard_key_that_is_the_partition_key_serves_queries_of_one_key() {
    let index = sharded_index("diskANN").replace("/tenant", "/pk");
    let mut model = Model::new(&index, "cosine", 16);
    for n in 0..900 {
        let vector = model.vector();
        // Two keys, since the key of an item follows from the end of its id.
        model.upsert(&format!("i{n:04}-{}", n % 2), vector);
    }
    model.link(10_000);
    let vector = model.vector();
    let wanted = key_of("i0000-1");
    let all_keys = |exact: bool| {
        format!(
            "SELECT TOP 10 VALUE c.id FROM c \
             ORDER BY VectorDistance(c.v, {vector:?}, {exact})"
        )
    };
    let nearest =
        |exact: bool| all_keys(exact).replace("FROM c", &format!("FROM c WHERE c.pk = {wanted}"));
    let explanation = model.explain(&nearest(false));
    assert!(
        explanation.contains("its graph of one shard"),
        "{explanation}"
    );
    let (all, some) = (model.rows(&nearest(true)), model.rows(&nearest(false)));
    assert!(all.iter().all(|id| id.ends_with("-1\"")), "{all:?}");
    let found = some.iter().filter(|id| all.contains(id)).count();
    assert!(found >= 9, "{found} of {all:?}");

    // The request may name the key, and the condition nothing.
    let scope = Scope::Key(key(&format!("[{wanted}]")));
    let request = query(&all_keys(false));
    let named = rows(&model.engine, &model.container, &scope, &request, &[100]);
    assert_eq!(named.expect("rows"), some);
    let request = QueryRequest {
        explain: true,
        ..request
    };
    let page = model.engine.query(&model.container, &scope, &request, None);
    let explanation = page.result.expect("a page").explanation;
    let explanation = explanation.expect("EXPLAIN");
    assert!(
        explanation.contains("its graph of one shard"),
        "{explanation}"
    );
}

#[test]
fn an_index_that_comes_back_as_another_one_begins_anew() {
    let mut model = Model::new(&index("quantizedFlat"), "cosine", 13);
    model.fill(400);
    model.link(10_000);
    let (graph, spherical) = (index("diskANN"), spherical(&index("diskANN")));
    for indexes in ["", &graph, "", &spherical] {
        let replaced = object(&body(indexes, "cosine"));
        let replaced = model
            .engine
            .replace_container(&model.container, &replaced, None);
        replaced.result.expect("replaced");
    }
    model.engine.finish_reindexing().expect("the reindex");
    for n in 0..10 {
        let vector = model.vector();
        model.upsert(&format!("i{n}"), vector);
        let vector = model.vectors["i77"].clone();
        model.check_near(&vector);
        model.link(1);
    }
    model.link(10_000);
    for n in 0..20 {
        let vector = model.vectors[&format!("i{n}")].clone();
        model.check_near(&vector);
    }
    model.check_recall(0.9);
}

#[test]
fn spherical_codes_have_the_number_of_bytes_of_the_policy_and_find_the_nearest() {
    for kind in ["diskANN", "quantizedFlat"] {
        let mut model = Model::new(&spherical(&index(kind)), "cosine", 17);
        model.fill(1_500);
        model.link(10_000);
        let way = model.explain(&format!("{NEAREST})"));
        assert!(
            way.contains("its graph") || way.contains("quantised vectors"),
            "{way}"
        );
        for n in 0..20 {
            let vector = model.vectors[&format!("i{n}")].clone();
            model.check_near(&vector);
        }
        model.check_recall(0.95);
    }
}

#[test]
fn an_index_that_goes_leaves_no_rows_and_may_come_back() {
    let mut model = Model::new(&index("diskANN"), "cosine", 7);
    model.fill(300);
    model.link(10_000);
    assert!(model.approximate_rows() > 600);
    for (indexes, kept) in [("", false), (&index("diskANN")[..], true), ("", false)] {
        let replaced = object(&body(indexes, "cosine"));
        let replaced = model
            .engine
            .replace_container(&model.container, &replaced, None);
        replaced.result.expect("replaced");
        for _ in 0..4 {
            let vector = model.vector();
            model.upsert("moving", vector.clone());
            model.check_near(&vector);
            model.engine.reindex_some(100).expect("a step");
            model.world.advance_ms(1_000);
            let linking = BackgroundTask::Linking;
            model.engine.run_background_work(linking).expect("a step");
        }
        model.engine.finish_reindexing().expect("the reindex");
        model.engine.finish_linking().expect("linked");
        assert_eq!(model.approximate_rows() > 0, kept);
        check_counters(&model.engine, &model.container);
    }
    model.check_recall(0.9);
}

#[test]
fn the_halves_of_a_split_build_graphs_of_their_own() {
    let mut model = Model::new(&index("diskANN"), "cosine", 8);
    model.fill(900);
    model.link(10_000);
    model.split();
    // Until then all vectors are compared.
    for n in 0..20 {
        let vector = model.vectors[&format!("i{n}")].clone();
        model.check_near(&vector);
    }
    model.check_recall(1.0);
    model.link(10_000);
    assert!(model.approximate_rows() > 1_800);
    for n in 0..20 {
        let vector = model.vectors[&format!("i{n}")].clone();
        model.check_near(&vector);
    }
    model.check_recall(0.95);
}

/// A history of writes and links on a store that may crash.
fn history(store: Arc<dyn Store>) -> orrery_model::Result<Model> {
    let mut model = Model::on(store, &body(&index("diskANN"), "cosine"), 9)?;
    for n in 0..FROM as usize + 20 {
        let vector = model.vector();
        let item = format!(
            r#"{{"id":"i{n}","pk":{},"v":{vector:?}}}"#,
            key_of(&format!("i{n}"))
        );
        let options = WriteOptions::default();
        let written = write(
            &model.engine,
            &model.container,
            &WriteOperation::Create,
            Some(&item),
            &options,
        );
        written.result?;
        model.vectors.insert(format!("i{n}"), vector);
    }
    model.engine.finish_linking()?;
    Ok(model)
}

#[test]
fn a_crash_at_any_commit_of_the_linker_loses_no_vector() {
    let store = Arc::new(Crashing::new(None));
    history(Arc::clone(&store) as Arc<dyn Store>).expect("nothing fails");
    let steps = store.steps();
    for step in steps - 12..steps {
        let store = Arc::new(Crashing::new(Some(step)));
        let ended = history(Arc::clone(&store) as Arc<dyn Store>);
        assert!(
            ended.is_err() || step + 1 >= steps,
            "no crash at step {step}"
        );
        let store: Arc<dyn Store> = Arc::new(store.reopen(None));
        let world = Arc::new(SeededWorld::new(START_MS + 60_000, 10));
        let engine = open_on(store, world).expect("an engine");
        let (database, name) = (Id::Name("db"), Id::Name("items"));
        let container = engine.container(database, name).expect("the container");
        let found = |exact: bool| {
            let text = format!("{NEAREST}, {exact})").replace("TOP 5", "TOP 10");
            rows(
                &engine,
                &container,
                &Scope::Everything,
                &query(&text),
                &[10],
            )
            .expect("rows")
        };
        let all = found(true);
        for _ in 0..2 {
            let some = found(false);
            assert!(
                some.iter().filter(|id| all.contains(id)).count() >= 9,
                "step {step}"
            );
            engine.finish_linking().expect("linked");
        }
        check_counters(&engine, &container);
    }
}
