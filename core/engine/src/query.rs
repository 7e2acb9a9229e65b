//! Queries: from a text and a scope to a page of rows with its continuation, charge and reports.
//!
//! ```text
//! text ── compile ──▶ Query ─┐
//! scope ── scope.rs ─────────┴─▶ partitions ── access.rs ──▶ access path of each partition
//!                                                               │
//!            page ◀── orrery_sql runs the query ◀── source.rs ◀─┘ cursors, merged
//! ```
//!
//! One executor serves a logical partition, one partition key range as SDKs ask for it, and whole
//! queries over all partitions.
//!
//! # A page, step by step
//!
//! 1. `PageRun::run` runs the steps; `retry_if_moved` repeats them if a split replaced a partition.
//! 2. `scope_reach` resolves the scope to physical partitions: by a partition key, a range id or an
//!    EPK range. `PageRun::open` takes one snapshot of each and checks the session token with
//!    `check_session`, which answers 404/1002 if a partition of the scope has not reached the
//!    token, even if the text is wrong or excludes the partition.
//! 3. `PageRun::prepare` compiles the text with `Query::compile`, which parses, binds names and
//!    parameters and derives the index condition, and reads the continuation (`token::read`).
//! 4. `PageRun::narrow` keeps the partitions to ask: `Reach::narrow_to_pinned_keys` drops those
//!    that the condition excludes, `Reach::continue_after` those that earlier pages have read. A
//!    query that needs several partitions must be allowed to cross partitions. An engine with
//!    `CrossPartitionQueries::Refuse` answers 400/1004 with the plan where rows of several
//!    partitions would have to be merged.
//! 5. `PartitionCharges::admit` asks the budget of every partition; if one refuses, no item is
//!    read.
//! 6. `AccessPath::choose` picks the access path of each partition by a list of rules that compare
//!    estimated charges. `IndexView` tells which paths the index covers in this snapshot.
//! 7. `Candidates` supplies the items, partition after partition in natural order, or merged by the
//!    values of ORDER BY. `Cursor` checks an entry when its turn comes, and loads the item only
//!    when the executor takes it. A walk that may pass entries of no match is compared with a sort
//!    while it runs, over all partitions together (`Candidates::hold_contest`).
//! 8. `run_page` works while its `Turn` holds one of the engine's slots: pages that have worked
//!    less come first. `Query::run` filters, joins, groups, projects, sorts and cuts, within bounds
//!    of rows, bytes, memory and time, and returns the rows and the resume point. The page looks at
//!    its `Cancel` where it looks at its time.
//! 9. `PartitionCharges::charge` charges each partition for the work that was done in it; the
//!    reports of `metrics` and `index_use` are made from the same counters, the query and the
//!    policy.
//!
//! A client that merges by itself first asks for the plan with `Engine::query_plan`: the rewritten
//! query and the EPK ranges to ask.
//!
//! # The modules
//!
//! | module | holds |
//! |---|---|
//! | `page` | the steps of one page |
//! | `scope` | the partitions that a query has to ask |
//! | `access` | the choice of the access path in a partition |
//! | `partition_query` | the parameters of a query in a partition |
//! | `condition`, `composite_range` | conditions as value ranges of an index |
//! | `lookup`, `checks` | index lookups, and checks of single items against the index |
//! | `posting` | index entries and references to items, with their positions |
//! | `walk`, `values` | walks along an index in order; distinct values from an index |
//! | `approximation` | candidates of a vector index, in place of all its vectors |
//! | `score_walk`, `text_hits` | walks by the scores of vectors and texts, the best first |
//! | `ranked`, `totals` | the items that decide ORDER BY RANK; the statistics of texts |
//! | `index_view` | the parts of the index that can be asked in a snapshot |
//! | `cursor`, `source` | items of one partition; items of all partitions |
//! | `merge`, `contest` | partitions merged in order; the choice between a walk and a sort |
//! | `position`, `token` | positions in continuations, and their text |
//! | `plan` | the query plan for clients that merge by themselves |
//! | `metrics` | query metrics, index metrics, explanations |
//! | `cancel` | pages whose clients no longer wait |
//! | `slots` | the division of the cores among pages |
//! | `rows` | queries over rows in memory: resources, the items that a script sees |

mod access;
mod approximation;
mod cancel;
mod checks;
mod composite_range;
mod condition;
mod contest;
mod cursor;
mod index_use;
mod index_view;
mod like_lookup;
mod like_words;
mod lookup;
mod memory;
mod merge;
mod metrics;
mod page;
mod partition_query;
mod plan;
pub(crate) mod position;
mod posting;
mod ranked;
mod rows;
mod scope;
mod score_walk;
mod slots;
mod source;
mod term_lists;
mod text_hits;
mod token;
mod totals;
mod values;
mod walk;

pub use cancel::Cancel;
pub(crate) use memory::QueryMemory;
pub use memory::TextMemory;
pub(crate) use plan::client_plan;
pub(crate) use posting::read_natural_row as read_natural;
pub(crate) use rows::{ListedRow, NoFunctions, has_row, query_rows};
pub(crate) use scope::scope_reach;
pub(crate) use slots::{Slots, Turn};

use crate::Engine;
use crate::catalog::Container;
use crate::errors::{query_error, script_error};
use crate::partition::retry_if_moved;
use crate::request::{
    Outcome, PageRequest, Position, QueryPage, QueryRequest, ReadOptions, Scope, ScriptKind,
};
use crate::throughput::{PartitionCharges, is_throttled};
use crate::traffic::{Asked, QueryWatch};
use orrery_model::memory::AnswerMemory;
use orrery_model::work::Step;
use orrery_model::world::World;
use orrery_model::{Error, Json, Result, limits};
use orrery_script::{ScriptError, Ticket};
use orrery_sql::{
    Bounds, Clock, Environment, Functions, Path, Query, QueryError, ResumePoint, Source, Work,
};
use page::PageRun;

/// Bytes that a query may hold in memory while it collects rows.
const MEMORY_BYTES: usize = 256 * 1024 * 1024;
/// Bytes of a query with its parameters that are not counted.
const SHORT_TEXT_BYTES: usize = 16 * 1024;
/// Milliseconds that a page may wait for slots without losing time to work.
const WAIT_MS: u64 = 10_000;
/// Rows that a page may have whatever its request says. A page of that many rows is near its limit
/// of bytes; the number bounds what the server keeps beside the texts of the rows.
pub(crate) const PAGE_ITEMS_MAX: usize = 100_000;
/// Rows that a page of sorted rows may have. So many are in memory while all candidates are read.
const SORTED_PAGE_ITEMS_MAX: usize = 10_000;

impl Engine {
    /// Returns a page of a query.
    pub fn query<'a>(
        &self,
        container: &Container,
        scope: &Scope,
        query: &QueryRequest,
        options: impl Into<ReadOptions<'a>>,
    ) -> Outcome<QueryPage> {
        // The first queries of a form are asked for index advice, for the operator's list of forms.
        let options = options.into();
        let watch = QueryWatch::begin(container, &query.text);
        let charges = PartitionCharges::of_query(watch.wants_advice);
        let (result, charges, position) = self.run_query(container, scope, query, options, charges);
        self.meters.queried(&charges.work.steps);
        let charge = self.profile.price(&charges.work);
        charges.charge(self, container, charge, is_throttled(&result));
        let mut outcome = self.outcome(result, charges.work, position);
        let asked = Asked {
            container,
            scope,
            query,
            key: charges.key.as_ref(),
            item: charges.first_item,
        };
        if !options.admission.is_unobserved {
            watch.end(self.world().now_ms(), &asked, &outcome);
        }

        // Index metrics that only the operator's list wanted are not for the client.
        if let Ok(page) = &mut outcome.result
            && !query.metrics
        {
            page.index_metrics = None;
        }
        outcome
    }

    /// Reserves memory for a query with a text and parameters of so many bytes, before they are
    /// read. A query that waits for its turn holds its tree and its parameters. Returns `None` for
    /// a short text, which is not counted.
    ///
    /// # Errors
    /// 429 if there is none left.
    pub fn hold_query_text(&self, bytes: usize) -> Result<Option<TextMemory<'_>>> {
        if bytes <= SHORT_TEXT_BYTES {
            return Ok(None);
        }
        match self.query_memory.hold_text(bytes) {
            Some(held) => Ok(Some(held)),
            None => Err(query_error(QueryError::MemoryTaken)),
        }
    }

    /// Runs a page of a query. Returns the work of each partition as well, which is not charged
    /// yet, and the position if the scope is one partition.
    pub(crate) fn run_query(
        &self,
        container: &Container,
        scope: &Scope,
        query: &QueryRequest,
        options: ReadOptions<'_>,
        mut charges: PartitionCharges,
    ) -> (Result<QueryPage>, PartitionCharges, Option<Position>) {
        let mut position = None;
        let run = PageRun {
            engine: self,
            container,
            scope,
            request: query,
            options,
            cross_partition_queries: self.cross_partition_queries,
            is_from_client: true,
        };
        let result = retry_if_moved(|| {
            charges.begin_again();
            run.run(&mut charges, &mut position)
        });
        let result = self.moved_with_catalog(container, result);
        if result.is_err() && charges.work.steps.is_empty() {
            charges.work.steps.push(Step::ReadNothing);
        }
        if options.admission.two_replicas {
            charges.add_second_replica_reads();
        }
        let is_failed = result.is_err();
        if options.cancel.is_some_and(|c| c.has_ended_page(is_failed)) {
            self.meters.cancelled_queries.add(1);
        }
        (result, charges, position)
    }
}

/// Returns the rows that a page may have: without a number in the request, as many as its bytes and
/// its time allow.
pub(crate) fn page_items(page: &PageRequest) -> usize {
    let wanted = page.max_items.unwrap_or(PAGE_ITEMS_MAX);
    wanted.clamp(1, PAGE_ITEMS_MAX)
}

/// Returns the rows that a page of a query may have.
fn page_rows(query: &Query, page: &PageRequest) -> usize {
    let is_sorted = !query.order().is_empty() || query.is_blocking();
    let most = match is_sorted {
        true => SORTED_PAGE_ITEMS_MAX,
        false => PAGE_ITEMS_MAX,
    };
    page_items(page).min(most)
}

/// Returns what the queries of a container may name: functions, computed properties, search paths.
pub(crate) fn environment(container: &Container) -> Environment {
    let settings = container.settings();
    let functions = container.scripts(ScriptKind::Function);
    Environment {
        user_functions: functions.iter().map(|f| f.id().to_owned()).collect(),
        computed_properties: settings.computed_properties.clone(),
        partition_key: key_paths(container),
        is_planar: settings.search.planar,
        vector_paths: settings.search.vectors.clone(),
        full_text_paths: settings.search.full_text.clone(),
        default_language: settings.search.default_language.clone(),
    }
}

/// Returns the paths of a container's partition key.
fn key_paths(container: &Container) -> Vec<Path> {
    let mut paths = Vec::new();
    for names in container.partition_key().paths() {
        let steps = names.iter().cloned().map(orrery_sql::Step::Name);
        paths.push(Path(steps.collect()));
    }
    paths
}

/// Compiles a query.
///
/// # Errors
/// 400 with the code of the service and the place of the mistake.
pub(crate) fn compile(
    text: &str,
    parameters: &[(String, Json)],
    environment: &Environment,
) -> Result<Query> {
    if text.len() > limits::QUERY_TEXT_BYTES {
        return Err(Error::bad(format!(
            "The query text has {} bytes, at most {} are allowed.",
            text.len(),
            limits::QUERY_TEXT_BYTES
        )));
    }
    Query::compile(text, parameters, environment).map_err(query_error)
}

/// The place where a page runs.
#[derive(Clone, Copy)]
pub(crate) struct Workplace<'a> {
    /// The engine, which has the time and the memory of queries.
    pub engine: &'a Engine,
    /// The turn of the page; `None` for short work that needs no slot.
    pub turn: Option<&'a Turn<'a>>,
    /// The memory of the answer that the rows become; `None` for rows that are no answer.
    pub answer: Option<&'a AnswerMemory>,
    /// The clock that measures the writing of rows; `None` where the request asks for no metrics.
    pub clock: Option<Clock<'a>>,
}

/// Runs one page of a query over any source of items, within the time, the memory and the slots of
/// queries.
///
/// # Errors
/// The failures of the source and of the executor, among them that the time of a request is over.
pub(crate) fn run_page(
    place: Workplace<'_>,
    query: &Query,
    source: &mut dyn Source,
    functions: &mut dyn Functions,
    resume: Option<&ResumePoint>,
    page: &PageRequest,
    work: &mut Work,
) -> std::result::Result<orrery_sql::Page, QueryError> {
    let Workplace {
        engine,
        turn,
        answer,
        clock,
    } = place;
    let world = engine.world();
    let now_ms = world.now_ms();
    let ticket = Ticket::current();
    let is_ended = || ticket.as_ref().is_some_and(Ticket::is_ended);
    let mut expired = || is_time_over(world, now_ms, turn) || is_ended();
    let memory = engine.query_memory.page();
    // As much again is for texts and copies of the values, which the executor does not count.
    let mut reserve = |bytes: usize| {
        memory.reserve((bytes as u64).saturating_mul(2), |wait| match turn {
            Some(turn) => turn.pause(wait),
            None => wait(),
        })
    };
    let mut bounds = bounds(world, now_ms, page_rows(query, page), &mut expired);
    bounds.reserve = Some(&mut reserve);
    let mut reserve_rows = |bytes: usize| has_memory_for_rows(answer, bytes);
    bounds.reserve_rows = Some(&mut reserve_rows);
    bounds.clock = clock;
    let result = query.run(source, functions, resume, &mut bounds, work);
    match result {
        // A request with a script that was ended for others did not run out of time.
        Err(QueryError::Timeout) if is_ended() => Err(QueryError::Source(Box::new(script_error(
            ScriptError::Evicted,
        )))),
        // A client that sent this query again would be refused again.
        Err(QueryError::MemoryTaken) if memory.exceeds_budget() => {
            let mebibytes = engine.query_memory.budget().limit() >> 20;
            Err(QueryError::Memory(format!(
                "The query needs more than the {mebibytes} MiB of memory that all queries have. \
                 Filter more items, group by fewer values, or start the server with a larger \
                 --memory-limit."
            )))
        }
        other => other,
    }
}

/// Reserves memory for the rows of an answer, up to `bytes` in all. The rows are copied once, into
/// the body, so they count twice until the body is made.
pub(crate) fn has_memory_for_rows(answer: Option<&AnswerMemory>, bytes: usize) -> bool {
    let twice = (bytes as u64).saturating_mul(2);
    answer.is_none_or(|answer| answer.reserve(twice))
}

/// Gives other pages their turns. Returns true if the time of a page that began at `began_ms` is
/// over, or if its client no longer waits.
fn is_time_over(world: &dyn World, began_ms: u64, turn: Option<&Turn<'_>>) -> bool {
    if let Some(turn) = turn {
        // A page that ends need not wait for its next slice.
        if turn.is_cancelled() {
            return true;
        }
        turn.check();
    }
    must_end(world, began_ms, turn)
}

/// Returns true if the time of a page that began at `began_ms` is over, or if its client no longer
/// waits. The page keeps its turn.
fn must_end(world: &dyn World, began_ms: u64, turn: Option<&Turn<'_>>) -> bool {
    let mut waited_ms = 0;
    if let Some(turn) = turn {
        if turn.is_cancelled() {
            return true;
        }
        waited_ms = u64::try_from(turn.waited().as_millis()).unwrap_or(u64::MAX);
    }
    let passed_ms = world.now_ms().saturating_sub(began_ms);
    let worked_ms = passed_ms.saturating_sub(waited_ms.min(WAIT_MS));
    worked_ms > limits::REQUEST_TIME_MS
}

/// Returns the bounds of a page of at most `max_items` rows that begins at `now_ms`.
fn bounds<'a>(
    world: &dyn World,
    now_ms: u64,
    max_items: usize,
    expired: &'a mut dyn FnMut() -> bool,
) -> Bounds<'a> {
    Bounds {
        max_items,
        max_bytes: limits::PAGE_BYTES,
        max_memory: MEMORY_BYTES,
        reserve: None,
        reserve_rows: None,
        is_expired: expired,
        clock: None,
        now_ms,
        started_ms: now_ms,
        random_seed: world.random(),
    }
}

/// Returns the rows that one partition is likely to give, for the choice of the access path.
fn rows_wanted(query: &Query, page: &PageRequest) -> usize {
    let reads_all =
        query.is_aggregate() || query.has_group_by() || query.is_distinct() || query.is_blocking();
    if reads_all {
        return usize::MAX;
    }
    rows_of(query).min(page_rows(query, page))
}

/// Returns the number of values that DISTINCT may read from an index to learn that there are few.
/// The number is in proportion to the rows of the page, which could come from as many items.
fn distinct_values_max(query: &Query, page: &PageRequest) -> usize {
    const VALUES_MIN: usize = 1_000;
    const VALUES_PER_ROW: usize = 8;
    let rows = rows_of(query).min(page_rows(query, page));
    rows.saturating_mul(VALUES_PER_ROW).max(VALUES_MIN)
}

/// Returns the rows that a query may read in all, by TOP and LIMIT.
fn rows_of(query: &Query) -> usize {
    let top = query.top().unwrap_or(u64::MAX);
    let window = match query.limit() {
        Some(limit) => limit.saturating_add(query.offset().unwrap_or(0)),
        None => u64::MAX,
    };
    usize::try_from(top.min(window)).unwrap_or(usize::MAX)
}
