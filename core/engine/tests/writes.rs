//! Writes compared with a model: statuses, etags, counts, point reads, read feed and change feed
//! after random histories.
//!
//! The model is a map from (key, id) to the last written item. Time advances between requests, so
//! items with a time to live expire in the middle of a history. `ORRERY_WRITE_CASES` is the number
//! of histories; a failure prints the smallest failing history.

use crate::support::*;
use orrery_engine::request::*;
use orrery_engine::{Container, Profile};
use orrery_model::{Json, Kind};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},
    "defaultTtl":20,
    "uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/mail"]},{"paths":["/first","/last"]}]}}"#;

#[derive(Clone, Debug)]
enum Step {
    Create(Draft),
    Upsert(Draft, Condition),
    Replace(usize, Draft, Condition),
    Delete(usize, usize, Condition),
    Wait(u64),
    RemoveExpired,
    /// Deletes all items of a partition key.
    DeleteByKey(usize),
    /// Removes some rows of deleted items.
    RemoveSomeDeleted,
}

#[derive(Clone, Debug)]
struct Draft {
    id: usize,
    pk: usize,
    mail: usize,
    name: (usize, usize),
    ttl: Option<i32>,
    /// Characters of the filler. Large items have several chunks.
    size: usize,
}

/// The value of `If-Match`.
#[derive(Clone, Copy, Debug)]
enum Condition {
    None,
    Any,
    Current,
    Stale,
}

impl Draft {
    fn text(&self) -> String {
        let ttl = self
            .ttl
            .map_or_else(String::new, |ttl| format!(",\"ttl\":{ttl}"));
        format!(
            r#"{{"id":"i{}","pk":"p{}","mail":"m{}","first":{},"last":{}{ttl},"filler":"{}"}}"#,
            self.id,
            self.pk,
            self.mail,
            self.name.0,
            self.name.1,
            "f".repeat(self.size)
        )
    }

    fn key(&self) -> (usize, usize) {
        (self.pk, self.id)
    }
}

fn draft() -> impl Strategy<Value = Draft> {
    let ttl = prop_oneof![4 => Just(None), 1 => Just(Some(-1)), 1 => (1..30).prop_map(Some)];
    let size = prop_oneof![8 => 0..50usize, 1 => 60_000..130_000usize];
    (
        0..6usize,
        0..3usize,
        0..8usize,
        (0..3usize, 0..3usize),
        ttl,
        size,
    )
        .prop_map(|(id, pk, mail, name, ttl, size)| Draft {
            id,
            pk,
            mail,
            name,
            ttl,
            size,
        })
}

fn step() -> impl Strategy<Value = Step> {
    let condition = || {
        prop_oneof![
            4 => Just(Condition::None),
            1 => Just(Condition::Any),
            2 => Just(Condition::Current),
            1 => Just(Condition::Stale),
        ]
    };
    prop_oneof![
        5 => draft().prop_map(Step::Create),
        3 => (draft(), condition()).prop_map(|(d, c)| Step::Upsert(d, c)),
        4 => (0..6usize, draft(), condition()).prop_map(|(id, d, c)| Step::Replace(id, d, c)),
        2 => (0..3usize, 0..6usize, condition()).prop_map(|(pk, id, c)| Step::Delete(pk, id, c)),
        2 => (1..8_000u64).prop_map(Step::Wait),
        1 => Just(Step::RemoveExpired),
        1 => (0..3usize).prop_map(Step::DeleteByKey),
        1 => Just(Step::RemoveSomeDeleted),
    ]
}

/// An item of the model.
#[derive(Clone)]
struct ModelItem {
    draft: Draft,
    number: u64,
    etag: String,
    text: String,
    written: u64,
}

impl ModelItem {
    /// Returns true if the item is not expired at `now`, in seconds since 1970.
    fn is_live(&self, now: u64) -> bool {
        match self.draft.ttl {
            Some(-1) => true,
            Some(ttl) => now < self.written + ttl as u64,
            None => now < self.written + 20,
        }
    }
}

struct Model {
    bench: Bench,
    container: std::sync::Arc<Container>,
    items: BTreeMap<(usize, usize), ModelItem>,
    /// Keys in the order of their last writes.
    history: Vec<(usize, usize)>,
    etags: BTreeSet<String>,
    numbers: BTreeSet<u64>,
}

impl Model {
    fn new(partitions: usize) -> Model {
        let bench = Bench::new(Profile::Modern, 11);
        let container = bench.container(BODY, partitions);
        let (items, history) = (BTreeMap::new(), Vec::new());
        Model {
            bench,
            container,
            items,
            history,
            etags: BTreeSet::new(),
            numbers: BTreeSet::new(),
        }
    }

    fn now(&self) -> u64 {
        orrery_model::world::World::now_seconds(self.bench.world.as_ref())
    }

    /// Removes expired items from the model.
    fn expire(&mut self) {
        let now = self.now();
        self.items.retain(|_, stored| stored.is_live(now));
    }

    /// Returns true if another item of the logical partition has one of the draft's unique keys.
    fn has_taken_unique_key(&self, draft: &Draft, own: Option<(usize, usize)>) -> bool {
        let mut others = self
            .items
            .iter()
            .filter(|(key, _)| key.0 == draft.pk && Some(**key) != own);
        others.any(|(_, stored)| stored.draft.mail == draft.mail || stored.draft.name == draft.name)
    }

    /// Returns the value of `If-Match`, and true if an existing item satisfies the condition.
    fn if_match(&self, key: (usize, usize), condition: Condition) -> (Option<String>, bool) {
        let current = self.items.get(&key).map(|stored| stored.etag.clone());
        match condition {
            Condition::None => (None, true),
            Condition::Any => (Some("*".into()), true),
            Condition::Current => (current.or(Some("\"none\"".into())), true),
            Condition::Stale => (
                Some("\"00000000-0000-0000-0000-000000000000\"".into()),
                false,
            ),
        }
    }

    fn send(
        &self,
        operation: &WriteOperation,
        body: Option<&str>,
        pk: usize,
        if_match: Option<String>,
    ) -> Result<Written, Kind> {
        let partition_key = Some(key(&format!("[\"p{pk}\"]")));
        let options = WriteOptions {
            partition_key,
            if_match,
            ..WriteOptions::default()
        };
        let outcome = write(
            &self.bench.engine,
            &self.container,
            operation,
            body,
            &options,
        );
        assert!(outcome.charge.0 > 0, "every answer has a charge");
        outcome.result.map_err(|error| error.kind())
    }

    /// Checks a written item and adds it to the model. `old` is the key of the replaced item.
    fn add(&mut self, draft: &Draft, old: Option<(usize, usize)>, written: Written) {
        let text = text(&written.item.expect("the item"));
        let item = json(&text);
        let etag = written.etag.expect("an etag");
        assert_eq!(
            item.get("_etag").and_then(Json::as_str),
            Some(etag.as_str())
        );
        assert!(self.etags.insert(etag.clone()), "the etag is used twice");
        let number = number_of(&item);
        match old.and_then(|old| self.items.remove(&old)) {
            Some(before) => assert_eq!(before.number, number, "a replaced item keeps its number"),
            None => assert!(
                self.numbers.insert(number),
                "the number {number} is used twice"
            ),
        }
        let written = self.now();
        assert_eq!(item.get("_ts").and_then(Json::as_i64), Some(written as i64));
        self.history
            .retain(|key| Some(*key) != old && *key != draft.key());
        self.history.push(draft.key());
        self.items.insert(
            draft.key(),
            ModelItem {
                draft: draft.clone(),
                number,
                etag,
                text,
                written,
            },
        );
    }

    /// Runs a step and compares its outcome with the model.
    fn run_step(&mut self, step: &Step) {
        self.expire();
        match step {
            Step::Create(draft) => {
                let refused =
                    self.items.contains_key(&draft.key()) || self.has_taken_unique_key(draft, None);
                let result =
                    self.send(&WriteOperation::Create, Some(&draft.text()), draft.pk, None);
                self.conclude(result, refused.then_some(Kind::Conflict), draft, None);
            }
            Step::Upsert(draft, condition) => {
                let existing = self.items.contains_key(&draft.key()).then(|| draft.key());
                let (if_match, is_satisfied) = self.if_match(draft.key(), *condition);
                let expected = match (existing, is_satisfied) {
                    (Some(_), false) => Some(Kind::PreconditionFailed),
                    _ if self.has_taken_unique_key(draft, existing) => Some(Kind::Conflict),
                    _ => None,
                };
                let result = self.send(
                    &WriteOperation::Upsert,
                    Some(&draft.text()),
                    draft.pk,
                    if_match,
                );
                if let Ok(written) = &result {
                    assert_eq!(written.created, existing.is_none());
                }
                self.conclude(result, expected, draft, existing);
            }
            Step::Replace(id, draft, condition) => self.replace(*id, draft, *condition),
            Step::Delete(pk, id, condition) => self.delete(*pk, *id, *condition),
            Step::DeleteByKey(pk) => {
                let key = key(&format!("[\"p{pk}\"]"));
                self.bench
                    .engine
                    .delete_logical_partition(&self.container, &key, AdmissionOptions::default())
                    .wait()
                    .result
                    .expect("all is deleted");
                self.items.retain(|key, _| key.0 != *pk);
                self.history.retain(|key| key.0 != *pk);
            }
            Step::RemoveSomeDeleted => {
                _ = self
                    .bench
                    .engine
                    .remove_some_deleted_by_key()
                    .expect("rows are removed")
            }
            Step::Wait(ms) => self.bench.world.advance_ms(*ms),
            Step::RemoveExpired => {
                while self
                    .bench
                    .engine
                    .remove_expired()
                    .expect("expired items are removed")
                    > 0
                {}
            }
        }
    }

    /// Replaces an item and compares the outcome with the model.
    fn replace(&mut self, id: usize, draft: &Draft, condition: Condition) {
        let key = (draft.pk, id);
        let (if_match, is_satisfied) = self.if_match(key, condition);
        let new_id_is_taken = draft.id != id && self.items.contains_key(&draft.key());
        let expected = match (self.items.contains_key(&key), is_satisfied) {
            (false, _) => Some(Kind::NotFound),
            (true, false) => Some(Kind::PreconditionFailed),
            _ if new_id_is_taken || self.has_taken_unique_key(draft, Some(key)) => {
                Some(Kind::Conflict)
            }
            _ => None,
        };
        let result = self.send(
            &WriteOperation::Replace(format!("i{id}")),
            Some(&draft.text()),
            draft.pk,
            if_match,
        );
        self.conclude(result, expected, draft, Some(key));
    }

    /// Deletes an item and compares the outcome with the model.
    fn delete(&mut self, pk: usize, id: usize, condition: Condition) {
        let key = (pk, id);
        let (if_match, is_satisfied) = self.if_match(key, condition);
        let result = self.send(
            &WriteOperation::Delete(format!("i{id}")),
            None,
            pk,
            if_match,
        );
        match (self.items.contains_key(&key), is_satisfied) {
            (false, _) => assert_eq!(result.err(), Some(Kind::NotFound)),
            (true, false) => assert_eq!(result.err(), Some(Kind::PreconditionFailed)),
            (true, true) => {
                let deleted = result.expect("the item is deleted");
                assert!(deleted.item.is_none() && deleted.etag.is_none());
                self.items.remove(&key);
                self.history.retain(|other| *other != key);
            }
        }
    }

    /// Compares the result of a write with the expected error, and adds a written item to the
    /// model.
    fn conclude(
        &mut self,
        result: Result<Written, Kind>,
        expected: Option<Kind>,
        draft: &Draft,
        old: Option<(usize, usize)>,
    ) {
        match (result, expected) {
            (Ok(written), None) => self.add(draft, old, written),
            (Err(kind), Some(expected)) => assert_eq!(kind, expected),
            (result, expected) => panic!("{draft:?}: expected {expected:?}, got {result:?}"),
        }
    }

    /// Compares point reads, read feed, change feed and a count with the model.
    fn compare(&mut self) {
        self.expire();
        let engine = &self.bench.engine;
        for (pk, id) in (0..3).flat_map(|pk| (0..6).map(move |id| (pk, id))) {
            let found = read(
                engine,
                &self.container,
                &format!("[\"p{pk}\"]"),
                &format!("i{id}"),
            );
            match self.items.get(&(pk, id)) {
                Some(stored) => assert_eq!(found.expect("the item is there"), stored.text),
                None => assert_eq!(found.expect_err("no such item").kind(), Kind::NotFound),
            }
        }
        let (ranges, _) = engine
            .partition_key_ranges(&self.container)
            .expect("ranges");
        let partition_index = |pk: usize| {
            let epk = self
                .container
                .partition_key()
                .epk(&key(&format!("[\"p{pk}\"]")));
            ranges
                .iter()
                .position(|r| r.range.contains(&epk))
                .expect("a range")
        };
        let mut by_creation: Vec<&ModelItem> = self.items.values().collect();
        by_creation.sort_by_key(|stored| (partition_index(stored.draft.pk), stored.number));
        let expected: Vec<&str> = by_creation
            .iter()
            .map(|stored| stored.text.as_str())
            .collect();
        assert_eq!(
            read_feed(&self.bench, &self.container, 2),
            expected,
            "the read feed"
        );
        for (at, range) in ranges.iter().enumerate() {
            let expected: Vec<&ModelItem> = self
                .history
                .iter()
                .filter(|key| partition_index(key.0) == at)
                .filter_map(|key| self.items.get(key))
                .collect();
            check_changes(&self.bench, &self.container, range, &expected);
        }
        if self.items.len() == self.history.len() {
            let counted = rows(
                engine,
                &self.container,
                &Scope::Everything,
                &query("SELECT VALUE COUNT(1) FROM c"),
                &[10],
            );
            assert_eq!(counted.expect("a count"), [self.items.len().to_string()]);
        }
    }

    /// Removes expired and deleted items and compares the counters with the model.
    fn compare_counts(&mut self) {
        self.bench
            .engine
            .finish_deletes_by_key()
            .expect("rows are removed");
        self.run_step(&Step::RemoveExpired);
        self.expire();
        let (_, usage) = self.bench.engine.quota(&self.container);
        assert!(
            usage.contains(&format!("documentsCount={};", self.items.len())),
            "{usage}"
        );
        check_counters(&self.bench.engine, &self.container);
    }
}

/// Reads the whole read feed in pages of `size`.
fn read_feed(bench: &Bench, container: &Container, size: usize) -> Vec<String> {
    let mut page = PageRequest {
        max_items: Some(size),
        ..PageRequest::default()
    };
    let mut all = Vec::new();
    loop {
        let answer = bench
            .engine
            .read_feed(container, &Scope::Everything, &page, None)
            .result
            .expect("a page");
        all.extend(answer.rows.iter().map(|row| text(row)));
        page.continuation = answer.continuation;
        if page.continuation.is_none() {
            return all;
        }
    }
}

/// Checks that the change feed contains each live item once, in the order of the last writes, read
/// from the beginning and continued after every page.
fn check_changes(bench: &Bench, container: &Container, range: &RangeInfo, expected: &[&ModelItem]) {
    let scope = Scope::Range {
        id: range.id,
        within: None,
    };
    let (mut start, mut seen, mut last) = (FeedStart::Beginning, 0, 0);
    loop {
        let page = bench
            .engine
            .change_feed(container, &scope, &start, Some(1), None)
            .wait()
            .result
            .expect("a page");
        assert!(page.continue_after >= last, "the position goes back");
        start = FeedStart::Lsn(page.continue_after);
        if page.rows.is_empty() {
            break;
        }
        for row in &page.rows {
            let item = json(&text(row));
            let lsn = item.get("_lsn").and_then(Json::as_i64).expect("an LSN") as u64;
            assert!(lsn > last && lsn <= page.continue_after, "LSNs rise");
            last = lsn;
            assert!(seen < expected.len(), "{item} is unexpected");
            assert_eq!(
                item.get("_etag").and_then(Json::as_str),
                Some(expected[seen].etag.as_str())
            );
            seen += 1;
        }
    }
    assert_eq!(seen, expected.len(), "each live item occurs once");
    assert!(last <= range.lsn);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: setting("ORRERY_WRITE_CASES", 150),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn writes_have_the_same_effect_as_on_a_map(
        partitions in 1..4usize,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut model = Model::new(partitions);
        for (i, step) in steps.iter().enumerate() {
            model.run_step(step);
            if i % 10 == 0 {
                model.compare();
            }
        }
        model.compare();
        model.compare_counts();
    }
}
