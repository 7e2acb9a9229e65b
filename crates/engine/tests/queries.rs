//! Queries through partitions, indexes and pages give what the same query gives over a plain list of all items.
//!
//! Each case makes a container of 1 to 4 physical partitions with a random policy, writes, replaces and deletes at
//! random, may change the policy in between, and then asks random queries of random scopes in random pages. The
//! expected rows come from the query alone, run over the items that the writes answered with. `ORRERY_QUERY_CASES` says
//! how many cases; a failure prints the smallest one found.
//!
//! The order is compared too: rows without ORDER BY come by partition and by creation, equal rows of ORDER BY by
//! creation, latest first if it descends. Only among arrays and among objects the order is left open, as is that of
//! DISTINCT without ORDER BY, and which of two spellings of a number stands for both.

#[path = "support/random.rs"]
mod random;
mod support;

use bytes::Bytes;
use orrery_engine::request::*;
use orrery_engine::{Container, Profile};
use orrery_model::partition_key::{Component, Epk, EpkRange, PartitionKey};
use orrery_model::{Json, Kind};
use orrery_sql::{Bounds, Candidate, Environment, Functions, Query, QueryError, Source, Work};
use proptest::prelude::*;
use random::{RandomQuery, members, partition_key, policy, random_query};
use std::collections::BTreeMap;
use support::*;

/// One change of the container.
#[derive(Clone, Debug)]
enum Change {
    Create(Draft),
    Upsert(Draft),
    /// Replaces the item at this place among the live ones, counted round and round.
    Replace(usize, String),
    Delete(usize),
    Policy(String),
    /// So many steps of the index towards its policy, of so many items.
    Rebuild(usize, usize),
}

#[derive(Clone, Debug)]
struct Draft {
    id: usize,
    key: Option<String>,
    members: String,
}

impl Draft {
    fn text(&self) -> String {
        let key = self
            .key
            .as_ref()
            .map_or_else(String::new, |key| format!(",\"pk\":{key}"));
        format!("{{\"id\":\"i{}\"{key}{}}}", self.id, self.members)
    }
}

/// Part of the container.
#[derive(Clone, Debug)]
enum Part {
    Everything,
    Key(Option<String>),
    Range(usize),
    /// A sixteenth of the hash space, in the physical partition that has its beginning.
    Slice(usize),
}

#[derive(Clone, Debug)]
struct Asked {
    query: RandomQuery,
    part: Part,
    pages: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Case {
    profile: Profile,
    partitions: usize,
    policy: String,
    /// Created first, so many times each, for lists that are longer than planning looks.
    crowd: (usize, Vec<Draft>),
    changes: Vec<Change>,
    asked: Vec<Asked>,
}

fn draft() -> impl Strategy<Value = Draft> {
    (0..40usize, partition_key(), members()).prop_map(|(id, key, members)| Draft {
        id,
        key,
        members,
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        12 => draft().prop_map(Change::Create),
        3 => draft().prop_map(Change::Upsert),
        3 => (any::<usize>(), members()).prop_map(|(at, members)| Change::Replace(at, members)),
        2 => any::<usize>().prop_map(Change::Delete),
        1 => policy().prop_map(Change::Policy),
        2 => (1..4usize, 1..8usize).prop_map(|(steps, items)| Change::Rebuild(steps, items)),
    ]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => Just(Part::Everything),
        2 => partition_key().prop_map(Part::Key),
        2 => (0..4usize).prop_map(Part::Range),
        1 => (0..16usize).prop_map(Part::Slice),
    ]
}

fn asked() -> impl Strategy<Value = Asked> {
    let pages = prop_oneof![
        1 => Just(vec![1000]),
        3 => prop::collection::vec(prop_oneof![1..6usize, Just(100usize)], 1..4),
    ];
    (random_query(), part(), pages).prop_map(|(query, part, pages)| Asked { query, part, pages })
}

fn case() -> impl Strategy<Value = Case> {
    let crowd = (
        prop_oneof![25 => Just(0usize), 1 => 50..120usize],
        prop::collection::vec(draft(), 1..6),
    );
    (
        prop_oneof![Just(Profile::Modern), Just(Profile::Y2019)],
        1..5usize,
        policy(),
        crowd,
        prop::collection::vec(change(), 0..50),
        prop::collection::vec(asked(), 1..6),
    )
        .prop_map(
            |(profile, partitions, policy, crowd, changes, asked)| Case {
                profile,
                partitions,
                policy,
                crowd,
                changes,
                asked,
            },
        )
}

/// The items that should be there: by number.
#[derive(Default)]
struct Expected {
    items: BTreeMap<u64, (Epk, Json, Bytes)>,
}

impl Expected {
    fn find(&self, epk: &Epk, id: &str) -> Option<u64> {
        let is_it = |item: &Json| item.get("id").and_then(Json::as_str) == Some(id);
        self.items
            .iter()
            .find(|(_, (at, item, _))| at == epk && is_it(item))
            .map(|(number, _)| *number)
    }

    fn nth(&self, at: usize) -> Option<u64> {
        self.items.keys().nth(at % self.items.len().max(1)).copied()
    }

    fn put(&mut self, epk: Epk, text: Bytes) {
        let item = json(std::str::from_utf8(&text).expect("UTF-8"));
        self.items.insert(number_of(&item), (epk, item, text));
    }
}

fn apply(bench: &Bench, container: &Container, expected: &mut Expected, change: &Change) {
    let engine = &bench.engine;
    let definition = container.partition_key();
    let key_of = |text: &str| {
        definition
            .extract(&object(text))
            .expect("items have good keys")
    };
    let written = |operation: &WriteOperation, text: &str| {
        write(
            engine,
            container,
            operation,
            Some(text),
            &WriteOptions::default(),
        )
        .result
    };
    match change {
        Change::Create(draft) => {
            let text = draft.text();
            let epk = definition.epk(&key_of(&text));
            let taken = expected.find(&epk, &format!("i{}", draft.id)).is_some();
            match written(&WriteOperation::Create, &text) {
                Ok(created) if !taken => expected.put(epk, created.item.expect("the item")),
                Err(error) if taken => assert_eq!(error.kind(), Kind::Conflict),
                other => panic!("taken: {taken}, but {other:?}"),
            }
        }
        Change::Upsert(draft) => {
            let text = draft.text();
            let epk = definition.epk(&key_of(&text));
            let upserted = written(&WriteOperation::Upsert, &text).expect("an upsert succeeds");
            assert_eq!(
                upserted.created,
                expected.find(&epk, &format!("i{}", draft.id)).is_none()
            );
            expected.put(epk, upserted.item.expect("the item"));
        }
        Change::Replace(at, members) => {
            let Some((epk, item, _)) = expected.nth(*at).map(|n| expected.items[&n].clone()) else {
                return;
            };
            let id = item.get("id").and_then(Json::as_str).expect("an id");
            let key = item
                .get("pk")
                .map_or_else(String::new, |key| format!(",\"pk\":{key}"));
            let replaced = written(
                &WriteOperation::Replace(id.to_owned()),
                &format!("{{\"id\":\"{id}\"{key}{members}}}"),
            );
            expected.put(
                epk,
                replaced
                    .expect("the item is replaced")
                    .item
                    .expect("the item"),
            );
        }
        Change::Delete(at) => {
            let Some(number) = expected.nth(*at) else {
                return;
            };
            let (_, item, text) = expected.items.remove(&number).expect("just found");
            let partition_key = Some(key_of(std::str::from_utf8(&text).expect("UTF-8")));
            let operation = WriteOperation::Delete(
                item.get("id")
                    .and_then(Json::as_str)
                    .expect("an id")
                    .to_owned(),
            );
            let options = WriteOptions {
                partition_key,
                ..WriteOptions::default()
            };
            write(engine, container, &operation, None, &options)
                .result
                .expect("the item is deleted");
        }
        Change::Policy(policy) => {
            engine
                .replace_container(container, &object(&container_body(policy)), None)
                .result
                .expect("the policy changes");
        }
        Change::Rebuild(steps, items) => {
            (0..*steps).for_each(|_| _ = engine.reindex_some(*items).expect("a step"));
        }
    }
}

fn container_body(policy: &str) -> String {
    format!(
        r#"{{"id":"items","partitionKey":{{"paths":["/pk"],"kind":"Hash","version":2}},"indexingPolicy":{policy}}}"#
    )
}

fn header_key(key: &Option<String>) -> PartitionKey {
    key.as_ref().map_or_else(
        || PartitionKey::new(vec![Component::Undefined]),
        |text| support::key(&format!("[{text}]")),
    )
}

/// Whether an item lies in a scope.
type IsWithin = Box<dyn Fn(&Epk) -> bool>;

/// The scope of a request, and whether it has an item of this key.
fn scope(bench: &Bench, container: &Container, part: &Part) -> (Scope, IsWithin) {
    let (ranges, _) = bench
        .engine
        .partition_key_ranges(container)
        .expect("ranges");
    match part {
        Part::Everything => (Scope::Everything, Box::new(|_| true)),
        Part::Key(key) => {
            let key = header_key(key);
            let epk = container.partition_key().epk(&key);
            (Scope::Key(key), Box::new(move |at| *at == epk))
        }
        Part::Range(at) => {
            let range = ranges[at % ranges.len()].clone();
            (
                Scope::Range {
                    id: range.id,
                    within: None,
                },
                Box::new(move |at| range.range.contains(at)),
            )
        }
        Part::Slice(at) => {
            let slice =
                EpkRange::divide_evenly(container.partition_key().hashing(), 16).swap_remove(*at);
            let range = ranges
                .iter()
                .find(|r| r.range.contains(&slice.min))
                .expect("ranges tile the space");
            let both = range.range.intersection(&slice).expect("they overlap");
            (
                Scope::Range {
                    id: range.id,
                    within: Some(slice),
                },
                Box::new(move |at| both.contains(at)),
            )
        }
    }
}

/// A list as a source that knows nothing of the query.
struct Plain<'a>(std::slice::Iter<'a, Bytes>);

impl Source for Plain<'_> {
    fn next(&mut self) -> Result<Option<Candidate>, QueryError> {
        Ok(self.0.next().map(|text| Candidate {
            text: Some(text.clone()),
            condition_holds: false,
            item_number: None,
        }))
    }

    fn is_ordered(&self) -> bool {
        false
    }

    fn position(&self) -> Vec<u8> {
        vec![0]
    }
}

struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&mut self, name: &str, _: &[Option<Json>]) -> Result<Option<Json>, QueryError> {
        panic!("{name} was called")
    }
}

fn plain_rows(text: &str, items: &[Bytes]) -> Result<Vec<String>, QueryError> {
    let query = Query::compile(text, &[], &Environment::default())?;
    let mut never = || false;
    let mut bounds = Bounds {
        max_items: usize::MAX,
        max_bytes: usize::MAX,
        max_memory: 1 << 28,
        is_expired: &mut never,
        now_ms: START_MS,
        started_ms: START_MS,
        random_seed: 1,
    };
    let page = query.run(
        &mut Plain(items.iter()),
        &mut NoFunctions,
        None,
        &mut bounds,
        &mut Work::default(),
    )?;
    Ok(page.rows.iter().map(|row| support::text(row)).collect())
}

/// The value at `c.…` of an item.
fn at<'a>(item: &'a Json, path: &str) -> Option<&'a Json> {
    match path {
        "c[\"odd name\"]" => item.get("odd name"),
        "c.t[0]" => item.get("t")?.as_array()?.first(),
        _ => path
            .split('.')
            .skip(1)
            .try_fold(item, |at, name| at.get(name)),
    }
}

/// Whether ORDER BY leaves the order of values like this open.
fn is_open(value: &Json) -> bool {
    matches!(value, Json::Array(_) | Json::Object(_))
}

/// A row in which equal numbers are spelled alike.
fn canonical(row: &str) -> String {
    fn alike(value: &Json) -> Json {
        match value {
            // A sum of large numbers depends on their order in its last digits.
            Json::Number(number) => Json::from(format!("{:.10e}", number.as_f64() + 0.0)),
            Json::Array(elements) => Json::Array(elements.iter().map(alike).collect()),
            Json::Object(members) => {
                let mut out = orrery_model::Object::new();
                members
                    .iter()
                    .for_each(|(name, member)| out.push_new(name, alike(member)));
                Json::Object(out)
            }
            other => other.clone(),
        }
    }
    alike(&json(row)).to_text()
}

fn check(case: &Case) -> Result<(), TestCaseError> {
    let bench = Bench::new(case.profile, 7);
    let container = bench.container(&container_body(&case.policy), case.partitions);
    let mut expected = Expected::default();
    let (times, drafts) = &case.crowd;
    for (turn, draft) in (0..*times).flat_map(|turn| {
        drafts
            .iter()
            .enumerate()
            .map(move |(i, d)| (100 + turn * 10 + i, d))
    }) {
        apply(
            &bench,
            &container,
            &mut expected,
            &Change::Create(Draft {
                id: turn,
                ..draft.clone()
            }),
        );
    }
    for change in &case.changes {
        apply(&bench, &container, &mut expected, change);
        bench.world.advance_ms(300);
    }
    check_counters(&bench.engine, &container);
    for asked in &case.asked {
        check_query(&bench, &container, &expected, asked)?;
    }
    Ok(())
}

fn check_query(
    bench: &Bench,
    container: &Container,
    expected: &Expected,
    asked: &Asked,
) -> Result<(), TestCaseError> {
    let (scope, is_in_scope) = scope(bench, container, &asked.part);
    let (ranges, _) = bench
        .engine
        .partition_key_ranges(container)
        .expect("ranges");
    let home = |epk: &Epk| {
        ranges
            .iter()
            .position(|r| r.range.contains(epk))
            .expect("ranges tile the space")
    };
    let mut items: Vec<(u64, &(Epk, Json, Bytes))> = expected
        .items
        .iter()
        .map(|(n, i)| (*n, i))
        .filter(|(_, (epk, ..))| is_in_scope(epk))
        .collect();
    let order = &asked.query.order;
    match order.first() {
        None => items.sort_by_key(|(number, (epk, ..))| (home(epk), *number)),
        Some((_, true)) => items.reverse(),
        Some((_, false)) => {}
    }
    let has_open = |path: &str| {
        items
            .iter()
            .any(|(_, (_, item, _))| at(item, path).is_some_and(is_open))
    };
    let is_distinct = asked.query.text.contains("DISTINCT");
    let is_open = order.iter().any(|(path, _)| has_open(path)) || (is_distinct && order.is_empty());
    let texts: Vec<Bytes> = items.iter().map(|(_, (_, _, text))| text.clone()).collect();
    let wanted = plain_rows(&asked.query.text, &texts);
    let given = rows(
        &bench.engine,
        container,
        &scope,
        &query(&asked.query.text),
        &asked.pages,
    );
    match (wanted, given) {
        (Ok(mut wanted), Ok(mut given)) => {
            let cuts = [" TOP ", " LIMIT "]
                .iter()
                .any(|word| asked.query.text.contains(word));
            if is_open && cuts {
                prop_assert_eq!(wanted.len(), given.len(), "{:?}", asked);
                return Ok(());
            }
            if is_distinct || order.is_empty() {
                wanted
                    .iter_mut()
                    .chain(&mut given)
                    .for_each(|row| *row = canonical(row));
            }
            if is_open {
                wanted.sort();
                given.sort();
            }
            prop_assert_eq!(wanted, given, "{:?}", asked);
        }
        (Err(_), Err(_)) => {}
        (Ok(_), Err(error)) => {
            let not_indexed = error.message().contains("does not have a corresponding");
            prop_assert!(!order.is_empty() && not_indexed, "{:?}: {}", asked, error);
        }
        (Err(error), Ok(_)) => prop_assert!(false, "{:?} should fail: {}", asked, error),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: setting("ORRERY_QUERY_CASES", 300),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn queries_give_what_a_plain_list_gives(case in case()) {
        check(&case)?;
    }
}
