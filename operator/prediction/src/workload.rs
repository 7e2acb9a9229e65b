//! Requests to repeat, made from recorded traffic and given queries.
//!
//! Recorded traffic has no values. A repeated request takes its values from an item: the item that
//! a sampled request was about, else an item of its logical partition, else any item. For a query
//! the item gives each parameter the value that it has at the compared path, so that conditions
//! that were combined still match.

use crate::sample::Sample;
use crate::scratch::Scratch;
use orrery_engine::request::{
    OperationKind, QuerySample, RecordedOperations, RecordedQuery, RecordedTraffic,
};
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::world::split_mix;
use orrery_model::{Json, Object};
use orrery_sql::{Path, QueryTemplate, SlotUse, Step};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Requests of a kind that are repeated at most.
const REPEATED: usize = 512;
/// Pages of a repeated query.
const PAGES_MAX: u64 = 20;
/// Characters of a string that stand for a part of the string.
const PART_CHARS: usize = 3;

/// A query that the caller gives.
#[derive(Clone, Debug, Default)]
pub struct GivenQuery {
    /// The SQL text.
    pub text: String,
    /// The name (with `@`) and the value of each parameter.
    pub parameters: Vec<(String, Json)>,
    /// The number of executions for which the query stands.
    pub weight: f64,
    /// The partition key of the request under the current settings; `None` for none.
    pub partition_key: Option<PartitionKey>,
}

/// The requests to repeat.
#[derive(Default)]
pub(crate) struct Workload {
    /// The groups of requests that are repeated.
    pub groups: Vec<Group>,
    /// The groups that are not repeated, with the reason.
    pub kept: Vec<KeptGroup>,
}

/// Requests that are alike.
pub(crate) struct Group {
    /// The kind of the requests.
    pub kind: OperationKind,
    /// The text of a query; empty for other kinds.
    pub text: String,
    /// The number of requests; of queries, of executions.
    pub count: f64,
    /// The recorded charge of a request in RU; `None` for a given query.
    pub recorded_ru: Option<f64>,
    /// The requests that stand for the group, and how many recorded ones each stands for.
    pub actions: Vec<(Action, f64)>,
}

/// Requests that are not repeated.
pub(crate) struct KeptGroup {
    /// The kind of the requests.
    pub kind: OperationKind,
    /// The text of a query; empty for other kinds.
    pub text: String,
    /// The number of requests.
    pub count: f64,
    /// The recorded charge of a request in RU.
    pub recorded_ru: f64,
    /// The reason in words.
    pub reason: String,
}

/// A request to repeat. Items are indexes into the sample.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// A point read.
    Read(usize),
    /// A create, or an upsert that creates.
    Create(usize),
    /// A replacement. `changed_terms` is the mean of the recorded ones; a patch has operations.
    Change {
        /// The item.
        item: usize,
        /// Index entries that a replacement changes on average.
        changed_terms: f64,
        /// Operations of the patch; `None` for a plain replacement.
        patch_operations: Option<u32>,
    },
    /// A delete.
    Delete(usize),
    /// A query.
    Query(QueryAction),
}

/// A query to repeat.
#[derive(Clone, Debug)]
pub(crate) struct QueryAction {
    /// The text, with parameters for all values.
    pub template: Arc<QueryTemplate>,
    /// The values of the parameters.
    pub parameters: Vec<(String, Json)>,
    /// The partition key that the request names under the current settings.
    pub key: Option<PartitionKey>,
    /// The wanted rows of a page.
    pub page_items: Option<usize>,
    /// The pages to read.
    pub pages: u64,
}

/// Returns the numbers of the items that recorded requests were about.
pub(crate) fn wanted_items(traffic: &RecordedTraffic) -> HashSet<u64> {
    let mut wanted = HashSet::new();
    for (_, operations) in &traffic.operations {
        wanted.extend(operations.items.iter().copied());
    }
    for query in &traffic.queries {
        wanted.extend(query.samples.iter().filter_map(|sample| sample.item));
    }
    wanted
}

/// Chooses the items that stand for requests.
pub(crate) struct Chooser<'a> {
    sample: &'a Sample,
    current: &'a Scratch,
    /// The items of each logical partition under the current settings.
    by_key: HashMap<&'a Epk, Vec<usize>>,
    /// The items that can be chosen at random.
    stored: Vec<usize>,
    drawn: u64,
}

impl<'a> Chooser<'a> {
    /// Creates a chooser of items that are stored under the current settings.
    pub(crate) fn new(sample: &'a Sample, current: &'a Scratch) -> Self {
        let mut by_key: HashMap<&Epk, Vec<usize>> = HashMap::new();
        let mut stored = Vec::with_capacity(sample.items.len());
        for (at, placed) in current.placed.iter().enumerate() {
            if let Some(placed) = placed {
                by_key.entry(&placed.epk).or_default().push(at);
                stored.push(at);
            }
        }
        Chooser {
            sample,
            current,
            by_key,
            stored,
            drawn: 0,
        }
    }

    /// Returns any item. There must be one.
    fn any(&mut self) -> usize {
        self.drawn += 1;
        let drawn = split_mix(self.drawn) as usize;
        self.stored[drawn % self.stored.len()]
    }

    /// Returns the item with a number; any item if it is not in the sample.
    fn numbered(&mut self, number: u64) -> usize {
        match self.sample.by_number.get(&number) {
            Some(at) if self.current.placed[*at].is_some() => *at,
            _ => self.any(),
        }
    }

    /// Returns an item that a query was about.
    fn of_query(&mut self, about: &QuerySample) -> usize {
        if let Some(number) = about.item
            && let Some(at) = self.sample.by_number.get(&number)
        {
            return *at;
        }
        let of_key = about.key.as_ref().and_then(|key| self.by_key.get(key));
        match of_key {
            Some(items) => {
                self.drawn += 1;
                items[split_mix(self.drawn) as usize % items.len()]
            }
            None => self.any(),
        }
    }

    /// Makes the workload of recorded traffic and given queries.
    pub(crate) fn workload(
        &mut self,
        traffic: Option<&RecordedTraffic>,
        given: &[GivenQuery],
    ) -> Workload {
        let mut workload = Workload::default();
        if self.stored.is_empty() {
            return workload;
        }
        if let Some(traffic) = traffic {
            for (kind, operations) in &traffic.operations {
                self.add_operations(*kind, operations, &mut workload);
            }
            for query in &traffic.queries {
                self.add_query(query, &mut workload);
            }
        }
        for query in given {
            add_given(query, &mut workload);
        }
        workload
    }

    fn add_operations(
        &mut self,
        kind: OperationKind,
        operations: &RecordedOperations,
        workload: &mut Workload,
    ) {
        let mean = operations.charge.as_ru() / operations.count.max(1) as f64;
        let reason = match kind {
            OperationKind::Query => return,
            OperationKind::Batch => "The operations of transactional batches are not recorded.",
            OperationKind::Script => "The work of stored procedures is not recorded.",
            OperationKind::Feed => "A feed reads the same items under each setting.",
            _ => "",
        };
        if !reason.is_empty() {
            workload.kept.push(KeptGroup {
                kind,
                text: String::new(),
                count: operations.count as f64,
                recorded_ru: mean,
                reason: reason.to_owned(),
            });
            return;
        }
        let replaced = operations.replaced as f64 / operations.count.max(1) as f64;
        let mut items = Vec::with_capacity(REPEATED);
        match operations.items.is_empty() {
            true => items.extend((0..REPEATED / 4).map(|_| self.any())),
            false => {
                let numbers = operations.items.iter().take(REPEATED);
                items.extend(numbers.map(|number| self.numbered(*number)));
            }
        }
        let each = operations.count as f64 / items.len() as f64;
        let mut actions = Vec::with_capacity(items.len());
        for (at, item) in items.into_iter().enumerate() {
            // Upserts that replace are spread evenly among those that create.
            let is_replacing = (at as f64 * replaced) as u64 != ((at + 1) as f64 * replaced) as u64;
            actions.push((action(kind, item, operations, is_replacing), each));
        }
        workload.groups.push(Group {
            kind,
            text: String::new(),
            count: operations.count as f64,
            recorded_ru: Some(mean),
            actions,
        });
    }

    fn add_query(&mut self, query: &RecordedQuery, workload: &mut Workload) {
        let ranges = self.current.ranges.len() as u64;
        let is_of_ranges = query.pages_of_range * 2 > query.pages;
        // A client that merges by itself asks each partition with a request of its own.
        let requests = if is_of_ranges { ranges as f64 } else { 1.0 };
        let executions = (query.first_pages as f64 / requests).max(1.0);
        let recorded_ru = query.charge.as_ru() / executions;
        let template = match query.is_complete {
            true => QueryTemplate::parse(&query.text).map_err(|_| "The text is no whole query."),
            false => Err("The text is too long to be kept as a whole."),
        };
        let template = match template {
            Ok(template) => Arc::new(template),
            Err(reason) => {
                workload.kept.push(KeptGroup {
                    kind: OperationKind::Query,
                    text: query.text.clone(),
                    count: executions,
                    recorded_ru,
                    reason: reason.to_owned(),
                });
                return;
            }
        };
        let pages = query
            .pages
            .div_ceil(query.first_pages.max(1))
            .clamp(1, PAGES_MAX);
        let factor = if is_of_ranges { ranges as usize } else { 1 };
        let names_key = query.pages_of_key * 2 > query.pages;
        let mut actions: Vec<(QueryAction, f64)> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let each = executions / query.samples.len().max(1) as f64;
        for about in &query.samples {
            let at = self.of_query(about);
            let Ok(item) = self.sample.items[at].object() else {
                continue;
            };
            let placed = self.current.placed[at].as_ref();
            let action = QueryAction {
                parameters: values(&template, &query.counts, &item),
                template: Arc::clone(&template),
                key: placed
                    .filter(|_| names_key)
                    .map(|placed| placed.key.clone()),
                page_items: query.page_items.map(|items| items.saturating_mul(factor)),
                pages,
            };
            // Equal requests are run once.
            match known.get(&action.identity()) {
                Some(at) => actions[*at].1 += each,
                None => {
                    known.insert(action.identity(), actions.len());
                    actions.push((action, each));
                }
            }
        }
        let actions = actions.into_iter();
        workload.groups.push(Group {
            kind: OperationKind::Query,
            text: query.text.clone(),
            count: executions,
            recorded_ru: Some(recorded_ru),
            actions: actions
                .map(|(action, weight)| (Action::Query(action), weight))
                .collect(),
        });
    }
}

/// Returns the action of a kind at an item.
fn action(
    kind: OperationKind,
    item: usize,
    operations: &RecordedOperations,
    is_replacing: bool,
) -> Action {
    let replaced = operations.replaced.max(1) as f64;
    let changed_terms = operations.changed_terms as f64 / replaced;
    let change = |patch_operations| Action::Change {
        item,
        changed_terms,
        patch_operations,
    };
    match kind {
        OperationKind::PointRead => Action::Read(item),
        OperationKind::Delete => Action::Delete(item),
        OperationKind::Replace => change(None),
        OperationKind::Upsert if is_replacing => change(None),
        OperationKind::Patch => {
            let mean = operations.patch_operations as f64 / replaced;
            change(Some((mean.round() as u32).max(1)))
        }
        _ => Action::Create(item),
    }
}

/// Adds a given query.
fn add_given(query: &GivenQuery, workload: &mut Workload) {
    let template = match QueryTemplate::parse(&query.text) {
        Ok(template) => Arc::new(template),
        Err(error) => {
            workload.kept.push(KeptGroup {
                kind: OperationKind::Query,
                text: query.text.clone(),
                count: query.weight,
                recorded_ru: 0.0,
                reason: format!("The text is no query: {error}"),
            });
            return;
        }
    };
    let action = QueryAction {
        template,
        parameters: query.parameters.clone(),
        key: query.partition_key.clone(),
        page_items: None,
        pages: 1,
    };
    workload.groups.push(Group {
        kind: OperationKind::Query,
        text: query.text.clone(),
        count: query.weight,
        recorded_ru: None,
        actions: vec![(Action::Query(action), query.weight)],
    });
}

impl QueryAction {
    /// Returns a text that is equal for equal requests.
    fn identity(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.parameters {
            text.push_str(name);
            text.push_str(&value.to_text());
        }
        if let Some(key) = &self.key {
            text.push_str(&key.to_json().to_text());
        }
        text
    }
}

impl Action {
    /// Returns the item of an action that is about one.
    pub(crate) fn item(&self) -> Option<usize> {
        match self {
            Action::Read(item) | Action::Create(item) | Action::Delete(item) => Some(*item),
            Action::Change { item, .. } => Some(*item),
            Action::Query(_) => None,
        }
    }
}

/// Returns the values that an item gives the parameters of a query.
fn values(template: &QueryTemplate, counts: &[u64], item: &Object) -> Vec<(String, Json)> {
    let mut values = Vec::with_capacity(template.slots().len());
    for slot in template.slots() {
        let value = match &slot.used {
            SlotUse::Count(at) => Some(Json::from(counts.get(*at).copied().unwrap_or(10))),
            SlotUse::Equal(path) | SlotUse::Ordered(path) => value_at(item, path),
            SlotUse::Part(path) => value_at(item, path).map(|value| match value.as_str() {
                Some(text) => Json::from(text.chars().take(PART_CHARS).collect::<String>()),
                None => value,
            }),
            SlotUse::Element(path) => value_at(item, path).map(|value| match value.as_array() {
                Some([first, ..]) => first.clone(),
                _ => value,
            }),
            SlotUse::Free => None,
        };
        values.push((slot.name.clone(), value.unwrap_or(Json::Null)));
    }
    values
}

/// Returns the value at a path; of arrays, the first element's.
fn value_at(item: &Object, path: &Path) -> Option<Json> {
    let (first, rest) = path.0.split_first()?;
    let Step::Name(name) = first else { return None };
    let mut value = item.get(name)?;
    for step in rest {
        value = match step {
            Step::Name(name) => value.get(name)?,
            Step::Element => value.as_array()?.first()?,
        };
    }
    Some(value.clone())
}
