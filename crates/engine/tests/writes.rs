//! Writes against a model: statuses, etags, counts, point reads, read feed and change feed after random histories.
//!
//! The model is a map of (key, id) to what was written last. Time moves between requests, so items with a time to live
//! expire in the middle of a history. `ORRERY_WRITE_CASES` says how many histories; a failure prints the smallest.

mod support;

use orrery_engine::request::*;
use orrery_engine::{Container, Profile};
use orrery_model::{Json, Kind};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use support::*;

const BODY: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"defaultTtl":20,
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
    Clear(usize),
    ClearSome,
}

#[derive(Clone, Debug)]
struct Draft {
    id: usize,
    pk: usize,
    mail: usize,
    name: (usize, usize),
    ttl: Option<i32>,
    /// So that items are of several chunks at times.
    size: usize,
}

/// What `If-Match` says.
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
    let condition = || prop_oneof![4 => Just(Condition::None), 1 => Just(Condition::Any), 2 => Just(Condition::Current), 1 => Just(Condition::Stale)];
    prop_oneof![
        5 => draft().prop_map(Step::Create),
        3 => (draft(), condition()).prop_map(|(d, c)| Step::Upsert(d, c)),
        4 => (0..6usize, draft(), condition()).prop_map(|(id, d, c)| Step::Replace(id, d, c)),
        2 => (0..3usize, 0..6usize, condition()).prop_map(|(pk, id, c)| Step::Delete(pk, id, c)),
        2 => (1..8_000u64).prop_map(Step::Wait),
        1 => Just(Step::RemoveExpired),
        1 => (0..3usize).prop_map(Step::Clear),
        1 => Just(Step::ClearSome),
    ]
}

/// An item as it should be.
#[derive(Clone)]
struct Kept {
    draft: Draft,
    number: u64,
    etag: String,
    text: String,
    written: u64,
}

impl Kept {
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
    items: BTreeMap<(usize, usize), Kept>,
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

    /// Forgets what is expired: nobody sees it any more.
    fn expire(&mut self) {
        let now = self.now();
        self.items.retain(|_, kept| kept.is_live(now));
    }

    /// Whether another item of the logical partition holds one of the draft's unique keys.
    fn is_taken(&self, draft: &Draft, own: Option<(usize, usize)>) -> bool {
        let mut others = self
            .items
            .iter()
            .filter(|(key, _)| key.0 == draft.pk && Some(**key) != own);
        others.any(|(_, kept)| kept.draft.mail == draft.mail || kept.draft.name == draft.name)
    }

    fn if_match(&self, key: (usize, usize), condition: Condition) -> (Option<String>, bool) {
        let current = self.items.get(&key).map(|kept| kept.etag.clone());
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
        assert!(outcome.charge.0 > 0, "every answer is charged");
        outcome.result.map_err(|error| error.kind())
    }

    fn keep(&mut self, draft: &Draft, old: Option<(usize, usize)>, written: Written) {
        let text = text(&written.item.expect("the item"));
        let item = json(&text);
        let etag = written.etag.expect("an etag");
        assert_eq!(
            item.get("_etag").and_then(Json::as_str),
            Some(etag.as_str())
        );
        assert!(self.etags.insert(etag.clone()), "an etag came twice");
        let number = number_of(&item);
        match old.and_then(|old| self.items.remove(&old)) {
            Some(before) => assert_eq!(before.number, number, "a replaced item keeps its number"),
            None => assert!(
                self.numbers.insert(number),
                "the number {number} came twice"
            ),
        }
        let written = self.now();
        assert_eq!(item.get("_ts").and_then(Json::as_i64), Some(written as i64));
        self.history
            .retain(|key| Some(*key) != old && *key != draft.key());
        self.history.push(draft.key());
        self.items.insert(
            draft.key(),
            Kept {
                draft: draft.clone(),
                number,
                etag,
                text,
                written,
            },
        );
    }

    fn take(&mut self, step: &Step) {
        self.expire();
        match step {
            Step::Create(draft) => {
                let refused = self.items.contains_key(&draft.key()) || self.may_clash(draft, None);
                let given = self.send(&WriteOperation::Create, Some(&draft.text()), draft.pk, None);
                self.conclude(given, refused.then_some(Kind::Conflict), draft, None);
            }
            Step::Upsert(draft, condition) => {
                let there = self.items.contains_key(&draft.key()).then(|| draft.key());
                let (if_match, fits) = self.if_match(draft.key(), *condition);
                let wanted = match (there, fits) {
                    (Some(_), false) => Some(Kind::PreconditionFailed),
                    _ if self.may_clash(draft, there) => Some(Kind::Conflict),
                    _ => None,
                };
                let given = self.send(
                    &WriteOperation::Upsert,
                    Some(&draft.text()),
                    draft.pk,
                    if_match,
                );
                if let Ok(written) = &given {
                    assert_eq!(written.created, there.is_none());
                }
                self.conclude(given, wanted, draft, there);
            }
            Step::Replace(id, draft, condition) => {
                let key = (draft.pk, *id);
                let (if_match, fits) = self.if_match(key, *condition);
                let new_id_is_taken = draft.id != *id && self.items.contains_key(&draft.key());
                let wanted = match (self.items.contains_key(&key), fits) {
                    (false, _) => Some(Kind::NotFound),
                    (true, false) => Some(Kind::PreconditionFailed),
                    _ if new_id_is_taken || self.may_clash(draft, Some(key)) => {
                        Some(Kind::Conflict)
                    }
                    _ => None,
                };
                let given = self.send(
                    &WriteOperation::Replace(format!("i{id}")),
                    Some(&draft.text()),
                    draft.pk,
                    if_match,
                );
                self.conclude(given, wanted, draft, Some(key));
            }
            Step::Delete(pk, id, condition) => {
                let key = (*pk, *id);
                let (if_match, fits) = self.if_match(key, *condition);
                let given = self.send(
                    &WriteOperation::Delete(format!("i{id}")),
                    None,
                    *pk,
                    if_match,
                );
                match (self.items.contains_key(&key), fits) {
                    (false, _) => assert_eq!(given.err(), Some(Kind::NotFound)),
                    (true, false) => assert_eq!(given.err(), Some(Kind::PreconditionFailed)),
                    (true, true) => {
                        let deleted = given.expect("the item is deleted");
                        assert!(deleted.item.is_none() && deleted.etag.is_none());
                        self.items.remove(&key);
                        self.history.retain(|other| *other != key);
                    }
                }
            }
            Step::Clear(pk) => {
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
            Step::ClearSome => {
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

    fn may_clash(&self, draft: &Draft, own: Option<(usize, usize)>) -> bool {
        self.is_taken(draft, own)
    }

    fn conclude(
        &mut self,
        given: Result<Written, Kind>,
        wanted: Option<Kind>,
        draft: &Draft,
        old: Option<(usize, usize)>,
    ) {
        match (given, wanted) {
            (Ok(written), None) => self.keep(draft, old, written),
            (Err(kind), Some(wanted)) => assert_eq!(kind, wanted),
            (given, wanted) => panic!("{draft:?}: expected {wanted:?}, got {given:?}"),
        }
    }

    /// Everything that can be read says what the model says.
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
                Some(kept) => assert_eq!(found.expect("the item is there"), kept.text),
                None => assert_eq!(found.expect_err("no such item").kind(), Kind::NotFound),
            }
        }
        let (ranges, _) = engine
            .partition_key_ranges(&self.container)
            .expect("ranges");
        let home = |pk: usize| {
            let epk = self
                .container
                .partition_key()
                .epk(&key(&format!("[\"p{pk}\"]")));
            ranges
                .iter()
                .position(|r| r.range.contains(&epk))
                .expect("a range")
        };
        let mut by_creation: Vec<&Kept> = self.items.values().collect();
        by_creation.sort_by_key(|kept| (home(kept.draft.pk), kept.number));
        let wanted: Vec<&str> = by_creation.iter().map(|kept| kept.text.as_str()).collect();
        assert_eq!(
            read_feed(&self.bench, &self.container, 2),
            wanted,
            "the read feed"
        );
        for (at, range) in ranges.iter().enumerate() {
            let wanted: Vec<&Kept> = self
                .history
                .iter()
                .filter(|key| home(key.0) == at)
                .filter_map(|key| self.items.get(key))
                .collect();
            check_changes(&self.bench, &self.container, range, &wanted);
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

    /// After expired and deleted items are gone, nothing is left of them.
    fn compare_counts(&mut self) {
        self.bench
            .engine
            .finish_deletes_by_key()
            .expect("rows are removed");
        self.take(&Step::RemoveExpired);
        self.expire();
        let (_, usage) = self.bench.engine.quota(&self.container);
        assert!(
            usage.contains(&format!("documentsCount={};", self.items.len())),
            "{usage}"
        );
        check_counters(&self.bench.engine, &self.container);
    }
}

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

/// Every live item once, in the order of the last writes, from the beginning and from every etag on the way.
fn check_changes(bench: &Bench, container: &Container, range: &RangeInfo, wanted: &[&Kept]) {
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
        assert!(page.continue_after >= last, "an etag went back");
        start = FeedStart::Lsn(page.continue_after);
        if page.rows.is_empty() {
            break;
        }
        for row in &page.rows {
            let item = json(&text(row));
            let lsn = item.get("_lsn").and_then(Json::as_i64).expect("an LSN") as u64;
            assert!(lsn > last && lsn <= page.continue_after, "LSNs rise");
            last = lsn;
            assert!(seen < wanted.len(), "{item} is one too many");
            assert_eq!(
                item.get("_etag").and_then(Json::as_str),
                Some(wanted[seen].etag.as_str())
            );
            seen += 1;
        }
    }
    assert_eq!(seen, wanted.len(), "each live item comes once");
    assert!(last <= range.lsn);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: setting("ORRERY_WRITE_CASES", 150),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn writes_do_what_a_map_does(partitions in 1..4usize, steps in prop::collection::vec(step(), 1..60)) {
        let mut model = Model::new(partitions);
        for (i, step) in steps.iter().enumerate() {
            model.take(step);
            if i % 10 == 0 {
                model.compare();
            }
        }
        model.compare();
        model.compare_counts();
    }
}
