//! One query, measured with the indexing policy as it is and as proposed, on the same items.
//!
//! Both measurements run on copies in memory with the same physical partitions, so that their
//! charges compare. A query whose text or index is refused gives the message in place of figures.

use crate::limits::{Failure, Run, SAMPLE_ITEMS_DEFAULT};
use crate::sample::{Sample, SampleSummary};
use crate::scratch::{Design, Scratch};
use crate::why::{Reason, reasons};
use orrery_engine::request::{Charge, Outcome, PageRequest, QueryPage, QueryRequest, Scope};
use orrery_engine::{Cancel, Container, Engine};
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::work::{QueryWork, Step, Work};
use orrery_model::{Json, Result};
use std::collections::HashSet;

/// Pages that a prediction reads at most.
pub(crate) const PAGES_MAX: usize = 20;

/// A query to be measured.
#[derive(Clone, Debug, Default)]
pub struct QueryToMeasure {
    /// The SQL text.
    pub text: String,
    /// The name (with `@`) and the value of each parameter.
    pub parameters: Vec<(String, Json)>,
    /// The partition key of the request; `None` lets the query ask every partition that its filter
    /// does not exclude.
    pub partition_key: Option<PartitionKey>,
    /// The rows wanted on a page; `None` for as many as its bytes and its time allow.
    pub max_items: Option<usize>,
    /// The pages to read, at least 1.
    pub pages: usize,
}

/// A query under two indexing policies.
#[derive(Clone, Debug)]
pub struct QueryPrediction {
    /// The items on which both were measured.
    pub sample: SampleSummary,
    /// The query as the policy is.
    pub now: MeasuredQuery,
    /// The query with the proposed policy.
    pub proposed: MeasuredQuery,
}

/// The measurement of a query.
#[derive(Clone, Debug, Default)]
pub struct MeasuredQuery {
    /// The reason for which the query was refused; the figures are then 0.
    pub error: Option<String>,
    /// The sum of the charges.
    pub charge: Charge,
    /// The pages that were read.
    pub pages: usize,
    /// True if the last page was read.
    pub is_whole: bool,
    /// The rows returned.
    pub rows: u64,
    /// The items loaded.
    pub retrieved: u64,
    /// The physical partitions that the first page asked.
    pub partitions: u64,
    /// The physical partitions of the container.
    pub partitions_of_container: u64,
    /// The plan of the first page, see `x-orrery-explain`.
    pub plan: Option<Json>,
    /// The index metrics of the first page.
    pub index_metrics: Option<Json>,
    /// Bytes of the index entries.
    pub index_bytes: u64,
    /// The reasons for the charge, the most expensive first.
    pub why: Vec<Reason>,
}

/// Measures a query on a copy of the items, with the indexing policy of the container and with
/// `policy`. The copy has at most `sample_items` items.
///
/// # Errors
/// [`Failure`]: another prediction runs, a bound is reached, or the policy is wrong.
pub fn predict_query(
    engine: &Engine,
    container: &Container,
    query: &QueryToMeasure,
    policy: &Json,
    sample_items: Option<u64>,
    cancel: &Cancel,
) -> std::result::Result<QueryPrediction, Failure> {
    let mut run = Run::begin(engine, cancel)?;
    let most = sample_items.unwrap_or(SAMPLE_ITEMS_DEFAULT);
    let design = Design::of(&run, container)?;
    let proposal = Design {
        indexing_policy: Some(policy.clone()),
        ..design.clone()
    };
    // A wrong policy is refused before items are copied.
    Scratch::fill(&mut run, container, &proposal, &Sample::default())?;
    let sample = Sample::read(&mut run, container, most, HashSet::new())?;
    let mut sides = Vec::with_capacity(2);
    for design in [&design, &proposal] {
        let scratch = Scratch::fill(&mut run, container, design, &sample)?;
        sides.push(measure(&scratch.engine, &scratch.container, query, cancel)?);
        run.check_time("measuring the query")?;
    }
    let proposed = sides.pop().unwrap_or_default();
    let now = sides.pop().unwrap_or_default();
    Ok(QueryPrediction {
        sample: sample.summary,
        now,
        proposed,
    })
}

/// Measures a query on the container itself, without a charge to the container, and returns the
/// reasons for its charge.
///
/// # Errors
/// 500 if the store cannot be read.
pub fn explain(
    engine: &Engine,
    container: &Container,
    query: &QueryToMeasure,
    cancel: &Cancel,
) -> Result<MeasuredQuery> {
    measure(engine, container, query, cancel)
}

/// Measures a query.
fn measure(
    engine: &Engine,
    container: &Container,
    query: &QueryToMeasure,
    cancel: &Cancel,
) -> Result<MeasuredQuery> {
    let scope = match &query.partition_key {
        Some(key) => Scope::Key(key.clone()),
        None => Scope::Everything,
    };
    let inventory = engine.partition_inventory(container)?;
    let mut side = MeasuredQuery {
        partitions_of_container: inventory.len() as u64,
        index_bytes: inventory
            .iter()
            .map(|partition| partition.index_bytes)
            .sum(),
        ..MeasuredQuery::default()
    };
    let mut work = Work::default();
    let mut continuation = None;
    for at in 0..query.pages.clamp(1, PAGES_MAX) {
        let request = request_of(query, continuation.take(), at == 0);
        let outcome = engine.measure_query(container, &scope, &request, cancel);
        work.steps.extend(outcome.work.steps.iter().cloned());
        match side.add(outcome) {
            Ok(Some(next)) => continuation = Some(next),
            Ok(None) => {
                side.is_whole = true;
                break;
            }
            Err(error) if error.status() >= 500 => return Err(error),
            Err(error) => {
                side.error = Some(error.message().to_owned());
                return Ok(side);
            }
        }
    }
    side.why = reasons(engine, container, query, &side, &work);
    Ok(side)
}

/// Returns the request for a page of a prediction.
fn request_of(
    query: &QueryToMeasure,
    continuation: Option<String>,
    is_first: bool,
) -> QueryRequest {
    let page = PageRequest {
        max_items: query.max_items,
        continuation,
        continuation_limit_kb: None,
    };
    QueryRequest {
        cross_partition: true,
        metrics: is_first,
        explain: is_first,
        ..QueryRequest::of(query.text.clone(), query.parameters.clone(), page)
    }
}

impl MeasuredQuery {
    /// Adds a page. Returns the continuation of the next one.
    fn add(&mut self, outcome: Outcome<QueryPage>) -> Result<Option<String>> {
        let works = query_works(&outcome.work);
        self.charge.0 += outcome.charge.0;
        let page = outcome.result?;
        if self.pages == 0 {
            self.partitions = works.len() as u64;
            self.plan = read(page.explanation);
            self.index_metrics = read(page.index_metrics);
        }
        self.pages += 1;
        self.rows += page.page.rows.len() as u64;
        self.retrieved += works.iter().map(|work| work.loaded_items).sum::<u64>();
        Ok(page.page.continuation)
    }
}

/// Returns the work of a query at each physical partition that it asked.
pub(crate) fn query_works(work: &Work) -> Vec<QueryWork> {
    let mut works = Vec::with_capacity(work.steps.len());
    for step in &work.steps {
        if let Step::Query(work) = step {
            works.push(*work);
        }
    }
    works
}

/// Parses a report of the engine.
fn read(text: Option<String>) -> Option<Json> {
    parse(text?.as_bytes()).ok()
}
