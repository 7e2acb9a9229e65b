//! Verification and rebuild: nothing is found in a partition that is whole, each single difference
//! in a row is found and named, and what follows from the items is made anew.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Engine, EngineOptions, Profile, Verification};
use orrery_model::world::SeededWorld;
use orrery_storage::{Direction, MemoryStore, PartitionId, Store};
use std::ops::Bound;
use std::sync::Arc;

/// A container with every kind of row: unique keys, times to live, versions, composite, vector and
/// full-text indexes.
const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "defaultTtl":-1,"changeFeedPolicy":{"retentionDuration":60},
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]}]},
    "vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"float32",
        "dimensions":2,"distanceFunction":"euclidean"}]},
    "fullTextPolicy":{"defaultLanguage":"en-US","fullTextPaths":[{"path":"/t"}]},
    "indexingPolicy":{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/v/*"}],
        "compositeIndexes":[[{"path":"/pk"},{"path":"/n"}]],
        "vectorIndexes":[{"path":"/v","type":"diskANN"}],
        "fullTextIndexes":[{"path":"/t"}]}}"#;
/// Items of the container. Vectors from [`FROM`] on are quantised.
const ITEMS: u32 = 260;
const FROM: u64 = 200;
/// The key space of the container's partition.
const SPACE: PartitionId = PartitionId(1);

/// A store with a container, and what opens it.
struct Stored {
    store: Arc<MemoryStore>,
    world: Arc<SeededWorld>,
}

impl Stored {
    /// Fills a container with items, some of them replaced, deleted, large, or deleted by key.
    fn new() -> Stored {
        let world = Arc::new(SeededWorld::new(START_MS, 5));
        let stored = Stored {
            store: Arc::new(MemoryStore::new()),
            world,
        };
        let engine = stored.open();
        let container = create_container(&engine, BODY, 1).expect("a container");
        for n in 0..ITEMS {
            create(&engine, &container, &item(n, 1));
        }
        for n in (0..ITEMS).step_by(5) {
            write_item(
                &engine,
                &container,
                n,
                &WriteOperation::Upsert,
                Some(&item(n, 2)),
            );
        }
        for n in (3..ITEMS).step_by(17) {
            let id = n.to_string();
            write_item(&engine, &container, n, &WriteOperation::Delete(id), None);
        }
        engine.finish_linking().expect("linked");
        create(&engine, &container, &item(ITEMS, 1));
        stored
    }

    /// Opens an engine, which runs no background work.
    fn open(&self) -> Engine {
        let options = EngineOptions {
            approximate_from: FROM,
            ..options(Profile::Modern)
        };
        let store: Arc<dyn Store> = Arc::<MemoryStore>::clone(&self.store);
        Engine::open(store, options, Arc::<SeededWorld>::clone(&self.world)).expect("an engine")
    }

    /// Returns the rows of the container's partition.
    fn rows(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let snapshot = self.store.snapshot(SPACE).expect("a snapshot");
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let rows = snapshot.scan(everything, Direction::Forward);
        rows.map(|row| row.expect("a row"))
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    }
}

fn item(n: u32, revision: u32) -> String {
    let ttl = match n % 4 {
        0 => r#","ttl":5000"#,
        _ => "",
    };
    let long = match n % 120 {
        7 => "x".repeat(130_000),
        _ => "short".to_owned(),
    };
    format!(
        r#"{{"id":"{n}","pk":"p{}","mail":"m{n}@{revision}","n":{},"v":[{n},{revision}],
            "t":"text number {n} of revision {revision}","long":"{long}","tags":["a",{n}]{ttl}}}"#,
        n % 9,
        n * revision
    )
}

#[track_caller]
fn write_item(
    engine: &Engine,
    container: &Container,
    n: u32,
    operation: &WriteOperation,
    body: Option<&str>,
) {
    let options = WriteOptions {
        partition_key: Some(key(&format!(r#"["p{}"]"#, n % 9))),
        ..WriteOptions::default()
    };
    let written = write(engine, container, operation, body, &options);
    written.result.expect("written");
}

fn items_of(engine: &Engine) -> Arc<Container> {
    engine
        .container(Id::Name("db"), Id::Name("items"))
        .expect("the container")
}

#[track_caller]
fn verify(engine: &Engine) -> Verification {
    engine
        .verify(None, &mut |_| true)
        .expect("every row is read")
}

/// Returns the items and the change feeds as texts.
fn view(engine: &Engine) -> Vec<String> {
    let container = items_of(engine);
    let scope = Scope::Everything;
    let mut all = rows(
        engine,
        &container,
        &scope,
        &query("SELECT * FROM c"),
        &[100],
    )
    .expect("items");
    for text in [
        "SELECT VALUE c.id FROM c WHERE c.n > 40 ORDER BY c.n DESC",
        "SELECT TOP 9 VALUE c.id FROM c ORDER BY VectorDistance(c.v, [17,1])",
        "SELECT VALUE c.id FROM c WHERE FullTextContains(c.t, 'revision')",
        "SELECT VALUE COUNT(1) FROM c",
    ] {
        all.extend(rows(engine, &container, &scope, &query(text), &[100]).expect("rows"));
    }
    all
}

#[test]
fn nothing_is_found_in_a_partition_that_is_whole() {
    let stored = Stored::new();
    let engine = stored.open();
    let found = verify(&engine);
    assert_eq!(found.findings, []);
    assert!(found.is_complete);
    let rows = stored.rows().len() as u64;
    let live = u64::from(ITEMS + 1 - ITEMS.div_ceil(17));
    assert_eq!(
        (found.progress.items, found.progress.partitions_done),
        (live, 1)
    );
    assert!(
        found.progress.rows > rows,
        "the rows of the catalog are read too"
    );
    // The tags of all kinds of rows but generations of policies, deletions by key and sizes.
    let mut tags: Vec<u8> = stored.rows().iter().map(|(key, _)| key[0]).collect();
    tags.dedup();
    assert_eq!(tags.len(), 20, "{tags:X?}");
}

/// Changes one row of the partition and returns what is found then.
#[track_caller]
fn found_after(
    stored: &Stored,
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    deletes: Vec<Vec<u8>>,
) -> Verification {
    commit_rows(&*stored.store, SPACE, puts, deletes);
    let engine = stored.open();
    verify(&engine)
}

/// Kinds of rows whose absence is no fault: a later commit replaces a row of the log, without the
/// beginning of the versions the next commit that keeps one writes it, and a vector without a list
/// has no neighbours.
const MAY_BE_MISSING: [u8; 3] = [0x18, 0x1E, 0x22];

#[test]
fn each_missing_row_is_found_whatever_its_kind() {
    let stored = Stored::new();
    let rows = stored.rows();
    let mut tags: Vec<u8> = rows.iter().map(|(key, _)| key[0]).collect();
    tags.dedup();
    for tag in tags.into_iter().filter(|tag| !MAY_BE_MISSING.contains(tag)) {
        let of_tag: Vec<_> = rows.iter().filter(|(key, _)| key[0] == tag).collect();
        for at in [0, of_tag.len() / 2, of_tag.len() - 1] {
            let (key, value) = of_tag[at];
            let found = found_after(&stored, Vec::new(), vec![key.clone()]);
            assert!(!found.findings.is_empty(), "row {key:02X?} is missing");
            let mended = found_after(&stored, vec![(key.clone(), value.clone())], Vec::new());
            assert_eq!(mended.findings, [], "row {key:02X?} is there again");
        }
    }
}

/// Returns a row with one changed bit, in the value if it has one and `in_value` is true.
fn flipped(row: &(Vec<u8>, Vec<u8>), in_value: bool, bit: usize) -> (Vec<u8>, Vec<u8>) {
    let (mut key, mut value) = row.clone();
    let bytes = match in_value && !value.is_empty() {
        true => &mut value,
        false => &mut key,
    };
    let at = bit % (bytes.len() * 8);
    bytes[at / 8] ^= 1 << (at % 8);
    (key, value)
}

/// Kinds of rows that follow from the items, and the counters.
const FOLLOWING: [u8; 11] = [
    0x11, 0x12, 0x13, 0x14, 0x15, 0x17, 0x19, 0x1A, 0x20, 0x90, 0xA0,
];

#[test]
fn each_flipped_bit_in_a_row_that_follows_from_items_is_found() {
    let stored = Stored::new();
    let rows = stored.rows();
    let following: Vec<_> = rows
        .iter()
        .filter(|(key, _)| FOLLOWING.contains(&key[0]))
        .collect();
    for n in 0..40 {
        let row = following[n * 7919 % following.len()];
        // The body of an item is what the rows follow from: its own chunks are not compared with
        // anything, but a flipped bit in one changes what follows, or ends the item.
        let (key, value) = flipped(row, n % 3 != 0, n * 104_729);
        if key[0] == 0x11 {
            continue;
        }
        let found = found_after(&stored, vec![(key.clone(), value)], vec![row.0.clone()]);
        let found_after_flip = found.findings.first().map(|finding| finding.check);
        assert!(found_after_flip.is_some(), "{:02X?} is {key:02X?}", row.0);
        let mended = found_after(&stored, vec![row.clone()], vec![key]);
        assert_eq!(mended.findings, [], "{:02X?}", row.0);
    }
}

#[test]
fn a_rebuild_makes_everything_that_follows_from_the_items_anew() {
    let stored = Stored::new();
    let before = view(&stored.open());
    // Each kind of row that a rebuild writes loses some rows and has another with a wrong value.
    let rows = stored.rows();
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    for (n, (key, value)) in rows.iter().enumerate() {
        let is_kept = matches!(key[0], 0x10 | 0x11 | 0x18 | 0x1D | 0x1E);
        match n % 11 {
            0 if !is_kept => deletes.push(key.clone()),
            1 if !is_kept && !value.is_empty() => puts.push((key.clone(), vec![7; value.len()])),
            _ => {}
        }
    }
    let found = found_after(&stored, puts, deletes);
    assert!(!found.findings.is_empty());

    let engine = stored.open();
    let container = items_of(&engine);
    let (items, range) = engine.rebuild_partition(&container, 0).expect("rebuilt");
    assert_eq!(
        (items, range),
        (u64::from(ITEMS + 1 - ITEMS.div_ceil(17)), 1)
    );
    assert_eq!(verify(&engine).findings, []);
    assert_eq!(view(&engine), before);
    engine.finish_linking().expect("linked");
    engine.destroy_deleted().expect("the old rows are gone");
    assert_eq!(verify(&engine).findings, []);
    assert_eq!(view(&engine), before);

    // Writes go on, also after a start.
    create(&engine, &container, &item(ITEMS + 1, 1));
    drop((container, engine));
    let engine = stored.open();
    create(&engine, &items_of(&engine), &item(ITEMS + 2, 1));
    assert_eq!(verify(&engine).findings, []);
}

#[test]
fn a_partition_whose_items_cannot_be_read_is_not_rebuilt() {
    let stored = Stored::new();
    let rows = stored.rows();
    let (key, value) = rows
        .iter()
        .find(|(key, _)| key[0] == 0x10)
        .expect("an item");
    let found = found_after(
        &stored,
        vec![(key.clone(), value[..20].to_vec())],
        Vec::new(),
    );
    let named = found.findings.iter().any(|finding| !finding.can_be_rebuilt);
    assert!(named, "{:?}", found.findings);
    let engine = stored.open();
    let refused = engine.rebuild_partition(&items_of(&engine), 0);
    assert_eq!(refused.expect_err("an item is damaged").status(), 500);
    assert_eq!(stored.open().every_container().len(), 1);
}

#[test]
fn a_verification_ends_when_its_observer_says_so() {
    let stored = Stored::new();
    let engine = stored.open();
    let mut looks = 0;
    let found = engine.verify(None, &mut |progress| {
        looks += 1;
        assert!(progress.bytes >= 1 << 20);
        false
    });
    let found = found.expect("a result");
    assert_eq!((looks, found.is_complete), (1, false));
}
