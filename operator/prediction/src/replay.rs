//! The requests of a workload on two scratch containers, each request on both.
//!
//! A request under other settings is not always the same request. A point read and a write need the
//! new partition key of the item, which the item has. A query that named the partition key names as
//! much of the new key as its filter and the old key give; a part of the old key that is no longer
//! named becomes a condition of the filter, so that the rows stay the same.

use crate::limits::{Failure, Run};
use crate::query_prediction::query_works;
use crate::sample::Sample;
use crate::scratch::{Placed, Scratch};
use crate::why::asking_ru;
use crate::workload::{Action, Group, QueryAction};
use orrery_engine::request::{
    Charge, Id, PageRequest, QueryRequest, ReadOptions, Scope, WriteOperation, WriteOptions,
};
use orrery_model::partition_key::{Component, Definition, PartitionKey};
use orrery_model::work::Step;
use orrery_model::world::split_mix;
use orrery_model::{Json, Object, object};

/// Requests of a group that are repeated however long they take.
const LEAST: usize = 3;

/// A group of requests on both containers.
#[derive(Default)]
pub(crate) struct GroupRun {
    /// The requests that ran on both, each with the number of requests for which it stands.
    pub pairs: Vec<(Observed, Observed, f64)>,
    /// The first reason for which a request was refused under the current settings.
    pub refused_now: Option<String>,
    /// The first reason for which a request was refused under the proposed settings.
    pub refused_then: Option<String>,
}

/// A request that ran.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    /// The charge.
    pub charge: Charge,
    /// The part of the charge, in RU, that a query pays for asking partitions, whatever they find.
    pub asking_ru: f64,
    /// The physical partitions that were asked.
    pub asked: u64,
    /// The charge at each physical partition that was asked, by index.
    pub at: Vec<(usize, Charge)>,
}

/// The two containers and the items on them.
pub(crate) struct Pair<'a> {
    /// The items.
    pub sample: &'a Sample,
    /// The container with the settings as they are.
    pub current: &'a Scratch,
    /// The container with the proposed settings.
    pub proposed: &'a Scratch,
}

/// A change that is made to an item on both containers.
struct Edit {
    /// The item after the change.
    item: Object,
    /// The changed properties with their new values, as JSON pointers.
    changed: Vec<(String, Json)>,
}

/// Adjusts the number of changed properties, so that replacements change as many index entries as
/// were recorded.
#[derive(Default)]
struct Tuning {
    wanted: f64,
    changed: f64,
    /// Changes so far, which tell new values from old ones.
    edits: u64,
}

impl Pair<'_> {
    /// Runs the requests of a group until `ends_ms`, or all of them.
    ///
    /// # Errors
    /// Those of the bounds, and 500 if an engine fails.
    pub(crate) fn run(
        &self,
        run: &Run<'_>,
        group: &Group,
        ends_ms: u64,
    ) -> Result<GroupRun, Failure> {
        let mut done = GroupRun::default();
        let mut tuning = Tuning::default();
        for (at, (action, weight)) in group.actions.iter().enumerate() {
            run.check_time("repeating requests")?;
            if at >= LEAST && run.engine.monotonic_ms() > ends_ms {
                break;
            }
            if let Action::Query(query) = action {
                let now = observe_query(run, self.current, self.current.definition(), query)?;
                let then = observe_query(run, self.proposed, self.current.definition(), query)?;
                done.add(now, then, *weight);
                continue;
            }
            let Some(item) = action.item() else { continue };
            // An item that one of the containers cannot store has no charge there.
            let places = self.current.placed[item]
                .as_ref()
                .zip(self.proposed.placed[item].as_ref());
            if let Some((now, then)) = places {
                let edit = self.edit(action, item, &mut tuning)?;
                let now = self.act(self.current, now, action, edit.as_ref(), &mut tuning)?;
                let then = self.act(
                    self.proposed,
                    then,
                    action,
                    edit.as_ref(),
                    &mut Tuning::default(),
                )?;
                done.add(now, then, *weight);
            }
        }
        Ok(done)
    }

    /// Returns the change that an action makes, if it makes one.
    fn edit(
        &self,
        action: &Action,
        item: usize,
        tuning: &mut Tuning,
    ) -> Result<Option<Edit>, Failure> {
        let Action::Change { changed_terms, .. } = action else {
            return Ok(None);
        };
        let wanted = tuning.next(*changed_terms);
        let mut excluded: Vec<String> = vec!["/id".to_owned(), "/ttl".to_owned()];
        for scratch in [self.current, self.proposed] {
            for path in scratch.definition().paths() {
                excluded.push(pointer(path));
            }
        }
        let mut object = self.sample.items[item].object()?;
        let mut leaves = Vec::new();
        add_leaves(&object, &mut Vec::new(), &mut leaves);
        leaves.retain(|path| !excluded.contains(&pointer(path)));
        let start = split_mix(item as u64) as usize;
        let mut changed = Vec::new();
        for at in 0..wanted.min(leaves.len()) {
            let path = &leaves[(start.wrapping_add(at)) % leaves.len()];
            if let Some(value) = change(&mut object, path, tuning.edits) {
                changed.push((pointer(path), value));
            }
        }
        Ok(Some(Edit {
            item: object,
            changed,
        }))
    }

    /// Carries out an action that is about one item.
    fn act(
        &self,
        scratch: &Scratch,
        place: &Placed,
        action: &Action,
        edit: Option<&Edit>,
        tuning: &mut Tuning,
    ) -> Result<Result<Observed, String>, Failure> {
        let Scratch {
            engine, container, ..
        } = scratch;
        let options = WriteOptions {
            partition_key: Some(place.key.clone()),
            ..WriteOptions::default()
        };
        let write = |operation: &WriteOperation, body: Option<&[u8]>| {
            engine
                .write_item(container, operation, body, &options)
                .wait()
        };
        let (charge, refused) = match action {
            Action::Create(_) => (place.created, None),
            Action::Read(_) => {
                let id = Id::Name(&place.id);
                let read = engine
                    .read_item(container, &place.key, id, None, None)
                    .wait();
                (read.charge, read.result.err())
            }
            Action::Delete(item) => {
                let deleted = write(&WriteOperation::Delete(place.id.clone()), None);
                let text = &self.sample.items[*item].text;
                let again = write(&WriteOperation::Upsert, Some(text));
                (deleted.charge, deleted.result.err().or(again.result.err()))
            }
            Action::Change {
                patch_operations, ..
            } => {
                let Some(edit) = edit else {
                    return Ok(Err("no change".to_owned()));
                };
                scratch.pass_second();
                let (operation, body) = edit.request(&place.id, *patch_operations);
                let written = write(&operation, Some(body.as_bytes()));
                if let Some(Step::Replace { changed_terms, .. }) = written.work.steps.first() {
                    tuning.changed += f64::from(*changed_terms);
                }
                (written.charge, written.result.err())
            }
            Action::Query(_) => return Ok(Err("a query is about no single item".to_owned())),
        };
        match refused {
            Some(error) if error.status() >= 500 => Err(error.into()),
            Some(error) => Ok(Err(error.message().to_owned())),
            None => Ok(Ok(Observed {
                charge,
                asking_ru: 0.0,
                asked: 1,
                at: vec![(place.partition, charge)],
            })),
        }
    }
}

impl Edit {
    /// Returns the write that makes the change, with its body.
    fn request(&self, id: &str, patch_operations: Option<u32>) -> (WriteOperation, String) {
        match patch_operations {
            None => {
                let text = Json::Object(self.item.clone()).to_text();
                (WriteOperation::Replace(id.to_owned()), text)
            }
            Some(count) => (WriteOperation::Patch(id.to_owned()), patch_of(self, count)),
        }
    }
}

impl GroupRun {
    /// Adds a request, if it ran on both containers.
    fn add(&mut self, now: Result<Observed, String>, then: Result<Observed, String>, weight: f64) {
        match (now, then) {
            (Ok(now), Ok(then)) => self.pairs.push((now, then, weight)),
            (now, then) => {
                self.refused_now = self.refused_now.take().or(now.err());
                self.refused_then = self.refused_then.take().or(then.err());
            }
        }
    }
}

impl Tuning {
    /// Returns the number of properties to change, so that the mean of the changed index entries
    /// comes near to `changed_terms`. A changed value removes an entry and adds one; so does `_ts`.
    fn next(&mut self, changed_terms: f64) -> usize {
        self.edits += 1;
        self.wanted += changed_terms;
        let lacking = self.wanted - self.changed - 2.0;
        (lacking / 2.0).round().max(0.0) as usize
    }
}

/// Runs a query. `old` is the partition key definition that the recorded request knew.
fn observe_query(
    run: &Run<'_>,
    scratch: &Scratch,
    old: &Definition,
    query: &QueryAction,
) -> Result<Result<Observed, String>, Failure> {
    let (text, parameters, scope) = placed_query(query, old, scratch.definition());
    let before = scratch.charged();
    let mut observed = Observed::default();
    let mut continuation = None;
    for _ in 0..query.pages {
        let page = PageRequest {
            max_items: query.page_items,
            continuation: continuation.take(),
            continuation_limit_kb: None,
        };
        let request = QueryRequest {
            cross_partition: true,
            ..QueryRequest::of(text.clone(), parameters.clone(), page)
        };
        let options = ReadOptions {
            cancel: Some(run.cancel),
            ..ReadOptions::default()
        };
        let outcome = scratch
            .engine
            .query(&scratch.container, &scope, &request, options);
        // The clock of a copy stands still, so its pages end by this check alone.
        run.check_time("repeating requests")?;
        observed.charge.0 += outcome.charge.0;
        observed.asking_ru += asking_ru(&scratch.engine, &outcome.work, outcome.charge);
        observed.asked = observed.asked.max(query_works(&outcome.work).len() as u64);
        match outcome.result {
            Ok(page) => continuation = page.page.continuation,
            Err(error) if error.status() >= 500 => return Err(error.into()),
            Err(error) => return Ok(Err(error.message().to_owned())),
        }
        if continuation.is_none() {
            break;
        }
    }
    for (at, (after, before)) in scratch.charged().into_iter().zip(before).enumerate() {
        if after > before {
            observed.at.push((at, Charge(after - before)));
        }
    }
    Ok(Ok(observed))
}

/// Returns the text, the parameters and the scope of a query in a container with another partition
/// key.
pub(crate) fn placed_query(
    query: &QueryAction,
    old: &Definition,
    new: &Definition,
) -> (String, Vec<(String, Json)>, Scope) {
    let mut parameters = query.parameters.clone();
    let Some(key) = &query.key else {
        return (query.template.text(), parameters, Scope::Everything);
    };
    if old.paths() == new.paths() {
        return (query.template.text(), parameters, Scope::Key(key.clone()));
    }

    // As much of the new key as the old key and the filter give.
    let of_old = |path: &Vec<String>| {
        let at = old.paths().iter().position(|known| known == path)?;
        key.components().get(at).cloned()
    };
    let mut named = Vec::new();
    for path in new.paths() {
        let of_filter = || {
            let name = query.template.equality(path)?;
            let (_, value) = parameters.iter().find(|(known, _)| known == name)?;
            component(value)
        };
        match of_old(path).or_else(of_filter) {
            Some(component) => named.push(component),
            None => break,
        }
    }

    // What the old key said and the new one does not say is said by the filter.
    let mut template = (*query.template).clone();
    for (at, path) in old.paths().iter().enumerate() {
        let is_named = new
            .paths()
            .iter()
            .take(named.len())
            .any(|known| known == path);
        if is_named || template.equality(path).is_some() {
            continue;
        }
        let name = format!("@old_key_{at}");
        if let Some(component) = key.components().get(at)
            && !matches!(component, Component::Undefined)
            && template.require(path, &name)
        {
            parameters.push((name, json_of(component)));
        }
    }
    let scope = match named.is_empty() {
        true => Scope::Everything,
        false => Scope::Key(PartitionKey::new(named)),
    };
    (template.text(), parameters, scope)
}

/// Returns a value as a component of a partition key.
fn component(value: &Json) -> Option<Component> {
    match value {
        Json::Null => Some(Component::Null),
        Json::Bool(value) => Some(Component::Bool(*value)),
        Json::String(value) => Some(Component::String(value.clone())),
        value => value.as_f64().map(Component::Number),
    }
}

fn json_of(component: &Component) -> Json {
    match component {
        Component::Undefined | Component::Null => Json::Null,
        Component::Bool(value) => Json::Bool(*value),
        Component::Number(value) => Json::from(*value),
        Component::String(value) => Json::from(value.as_str()),
    }
}

/// Adds the paths of the scalars of an object that a change can change. Arrays are passed over.
fn add_leaves(object: &Object, path: &mut Vec<String>, leaves: &mut Vec<Vec<String>>) {
    for (name, value) in object.iter() {
        path.push(name.to_owned());
        match value {
            Json::Object(inner) => add_leaves(inner, path, leaves),
            Json::Array(_) | Json::Null => {}
            Json::String(text) if text.is_empty() => {}
            _ => leaves.push(path.clone()),
        }
        path.pop();
    }
}

/// Gives the scalar at a path another value of about the same length. Returns the new value.
fn change(object: &mut Object, path: &[String], edits: u64) -> Option<Json> {
    let (last, parents) = path.split_last()?;
    let mut inner = object;
    for name in parents {
        inner = inner.get_mut(name)?.as_object_mut()?;
    }
    let value = inner.get_mut(last)?;
    let changed = match &*value {
        Json::Bool(known) => Json::Bool(*known ^ (edits % 2 == 1)),
        Json::String(text) => {
            let mut text = text.clone();
            text.pop();
            text.push(char::from(b'a' + (edits % 26) as u8));
            Json::from(text)
        }
        number => Json::from(number.as_f64()? + edits as f64),
    };
    *value = changed.clone();
    Some(changed)
}

/// Returns a path as a JSON pointer.
fn pointer(path: &[String]) -> String {
    let mut pointer = String::new();
    for name in path {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    }
    pointer
}

/// Returns the body of a patch with `count` operations that makes the changes of an edit, as far as
/// it has operations for them.
fn patch_of(edit: &Edit, count: u32) -> String {
    let mut operations = Vec::new();
    for (path, value) in edit.changed.iter().take(count as usize) {
        operations.push(Json::Object(object! {
            "op" => "set", "path" => path.as_str(), "value" => value.clone(),
        }));
    }
    while operations.len() < count as usize {
        // An operation that changes nothing is counted like any other.
        let name = format!("/patched{}", operations.len());
        operations.push(Json::Object(
            object! { "op" => "set", "path" => name, "value" => true },
        ));
    }
    Json::Object(object! { "operations" => operations }).to_text()
}
