//! Queries: from a text and a scope to a page of rows, its continuation, its charge and its metrics.
//!
//! ```text
//! text ─compile→ Query ─scope and pinned keys→ targets (partitions) ─access.rs→ cursors ─source.rs→ run ─→ page
//! ```
//! One executor serves a single logical partition, one range as SDKs ask for it, and whole queries over all partitions.

mod access;
mod checks;
mod condition;
mod cursor;
mod index_view;
mod lookup;
mod metrics;
mod plan;
mod position;
mod rows;
mod source;
mod token;
mod values;
mod walk;

pub use plan::client_plan;
pub use rows::{ListedRow, NoFunctions, has_row, query_rows};

use crate::catalog::Container;
use crate::errors::query_error;
use crate::index::policy::Policy;
use crate::items::UserFunctions;
use crate::partition::session::check_session;
use crate::partition::visibility::Visibility;
use crate::partition::{Partition, retry_if_moved};
use crate::request::{
    AdmissionOptions, Outcome, Page, PageRequest, Position, QueryPage, QueryRequest, ReadOptions,
    Scope, ScriptKind,
};
use crate::throughput::{PartitionCharges, Profile, is_throttled};
use crate::traffic::QueryWatch;
use crate::{CrossPartitionQueries, Engine};
use access::Ask;
use condition::{pinned, steps};
use orrery_model::json::parse;
use orrery_model::partition_key::{Component, Epk, EpkRange, PartitionKey};
use orrery_model::work::{QueryWork, Step};
use orrery_model::world::World;
use orrery_model::{Error, Json, Kind, Result, limits};
use orrery_sql::{
    Bounds, Demand, Environment, Functions, Query, QueryError, ResumeFilter, ResumePoint, Source,
    Work, query_advice,
};
use position::{QueryPosition, RangePart};
use source::{Asked, Candidates, Target};
use std::sync::Arc;

/// Bytes that a query which must collect may hold.
const MEMORY_BYTES: usize = 256 * 1024 * 1024;
/// Distinct values that an index may give in place of items: they fit on one page.
const DISTINCT_MOST: usize = 1_000;
/// Rows that a page may have when the client leaves it to the server.
const PAGE_ITEMS_MOST: usize = 10_000;

impl Engine {
    /// One page of a query.
    pub fn query<'a>(
        &self,
        container: &Container,
        scope: &Scope,
        query: &QueryRequest,
        options: impl Into<ReadOptions<'a>>,
    ) -> Outcome<QueryPage> {
        let watch = QueryWatch::begin(container, &query.text);
        let mut charges = PartitionCharges::default();
        charges.index_advice = watch.wants_advice;
        let (result, charges, position) =
            self.run_query(container, scope, query, options.into(), charges);
        self.meters.queried(&charges.work.steps);
        charges.settle(
            self,
            container,
            self.profile.price(&charges.work),
            is_throttled(&result),
        );
        let is_for_one = charges.key.is_some();
        let mut outcome = self.outcome(result, charges.work, position);
        watch.end(self.world().now_ms(), container, is_for_one, &outcome);
        if let Ok(page) = &mut outcome.result
            && !query.metrics
        {
            page.index_metrics = None;
        }
        outcome
    }

    /// One page of a query, and what it did where; not yet charged to anybody.
    pub(crate) fn run_query(
        &self,
        container: &Container,
        scope: &Scope,
        query: &QueryRequest,
        options: ReadOptions<'_>,
        mut charges: PartitionCharges,
    ) -> (Result<QueryPage>, PartitionCharges, Option<Position>) {
        let mut position = None;
        let result = retry_if_moved(|| {
            charges.begin_again();
            self.run_query_on(
                container,
                scope,
                query,
                options,
                &mut charges,
                &mut position,
            )
        });
        if result.is_err() && charges.work.steps.is_empty() {
            charges.work.steps.push(Step::ReadNothing);
        }
        if options.admission.two_replicas {
            charges.ask_second_replicas();
        }
        (result, charges, position)
    }

    fn run_query_on(
        &self,
        container: &Container,
        scope: &Scope,
        query: &QueryRequest,
        options: ReadOptions<'_>,
        charges: &mut PartitionCharges,
        position: &mut Option<Position>,
    ) -> Result<QueryPage> {
        let reach = scope_reach(container, scope)?;
        for (partition, _) in &reach.partitions {
            let lsn = partition.snapshot()?.head().lsn;
            if let [_] = reach.partitions[..] {
                *position = Some(partition.position(lsn, None));
            }
            check_session(options.session, partition, lsn)?;
        }
        let context = Context {
            engine: self,
            world: self.world(),
            profile: self.profile,
            cross_partition_queries: self.cross_partition_queries,
            admission: options.admission,
        };
        let mut functions = UserFunctions::new(self, container);
        run(&context, container, scope, query, &mut functions, charges)
    }
}

/// What a query needs of the engine besides its container.
pub struct Context<'a> {
    /// Where it is admitted.
    pub engine: &'a Engine,
    /// Time and randomness.
    pub world: &'a dyn World,
    /// Prices.
    pub profile: Profile,
    /// Who merges over partitions.
    pub cross_partition_queries: CrossPartitionQueries,
    /// How it is admitted.
    pub admission: AdmissionOptions,
}

/// Rows wanted on a page.
pub fn page_items(page: &PageRequest) -> usize {
    page.max_items
        .unwrap_or(limits::PAGE_ITEMS_DEFAULT)
        .clamp(1, PAGE_ITEMS_MOST)
}

/// What a container's queries may name.
pub fn environment(container: &Container) -> Environment {
    let settings = container.settings();
    Environment {
        user_functions: container
            .scripts(ScriptKind::Function)
            .iter()
            .map(|s| s.id().to_owned())
            .collect(),
        computed_properties: settings.computed_properties.clone(),
        partition_key: key_paths(container),
        is_planar: settings.search.planar,
        vector_paths: settings.search.vectors.clone(),
        full_text_paths: settings.search.full_text.clone(),
        default_language: settings.search.default_language.clone(),
    }
}

fn key_paths(container: &Container) -> Vec<orrery_sql::Path> {
    container
        .partition_key()
        .paths()
        .iter()
        .map(|names| path_of(names))
        .collect()
}

fn path_of(names: &[String]) -> orrery_sql::Path {
    orrery_sql::Path(
        names
            .iter()
            .map(|name| orrery_sql::Step::Name(name.clone()))
            .collect(),
    )
}

/// Compiles a text.
///
/// # Errors
/// 400 with the service's codes and places.
pub fn compile(
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

/// A logical partition or a stretch of the hash space, in the partitions that hold it.
pub struct Reach {
    /// The partitions, with the stretch of each that is wanted if it is not all of it.
    pub partitions: Vec<(Arc<Partition>, Option<EpkRange>)>,
    /// The one logical partition, if the scope or the query names just one.
    pub key: Option<Epk>,
    /// The first partitions, that are read as the one that they came from: its name in positions, and how many they are.
    /// A position in it is one in each of them.
    pub as_one: Option<(RangePart, usize)>,
    /// Where the partition behind those begins, if a part of it belongs to what has been read.
    pub rest_from: Option<Epk>,
}

impl Reach {
    /// Some partitions, each for itself.
    fn of(partitions: Vec<(Arc<Partition>, Option<EpkRange>)>) -> Self {
        Reach {
            partitions,
            key: None,
            as_one: None,
            rest_from: None,
        }
    }

    /// Keeps what lies behind a position in natural order. What took the place of its partition is read as that was; what
    /// was merged with others is cut where it ended.
    fn go_on(&mut self, container: &Container, last: &QueryPosition) -> Result<()> {
        let RangePart { range, from } = &last.stretch;
        let mut stretch = container
            .epk_range_of(*range)
            .ok_or_else(QueryPosition::foreign)?;
        if let Some(from) = from {
            stretch.min = stretch.min.max(from.clone());
        }
        let behind = EpkRange::new(stretch.max.clone(), Epk::max());
        let part = |wanted: &EpkRange| -> Vec<(Arc<Partition>, Option<EpkRange>)> {
            let cut = |(partition, within): &(Arc<Partition>, Option<EpkRange>)| {
                let both = within
                    .as_ref()
                    .unwrap_or(&partition.range)
                    .intersection(wanted)?;
                Some((
                    Arc::clone(partition),
                    (both != partition.range).then_some(both),
                ))
            };
            self.partitions.iter().filter_map(cut).collect()
        };
        let (same, rest) = (part(&stretch), part(&behind));
        if same.is_empty() {
            return Err(QueryPosition::foreign());
        }
        self.as_one = Some((last.stretch.clone(), same.len()));
        self.rest_from = rest
            .first()
            .filter(|(p, _)| p.range.min < behind.min)
            .map(|_| behind.min.clone());
        self.partitions = same.into_iter().chain(rest).collect();
        Ok(())
    }

    /// How positions name what a partition is read as.
    pub fn stretch_at(&self, at: usize) -> RangePart {
        match &self.as_one {
            Some((stretch, count)) if at < *count => stretch.clone(),
            as_one => {
                let is_first = as_one.as_ref().is_some_and(|(_, count)| at == *count);
                let from = self.rest_from.clone().filter(|_| is_first);
                RangePart {
                    range: self.partitions[at].0.id,
                    from,
                }
            }
        }
    }

    /// Keeps the partition in which the next page begins, and gives the stretch after it.
    fn narrow_to_one(&mut self) -> Option<RangePart> {
        let one = self
            .as_one
            .as_ref()
            .map_or(1, |(_, count)| *count)
            .min(self.partitions.len());
        let next = (one < self.partitions.len()).then(|| self.stretch_at(one));
        self.partitions.truncate(one);
        next
    }
}

/// Whether a request is for several physical partitions, as the service's gateway sees it: it goes by the headers. If a
/// request may cross partitions, then neither a condition counts that needs only one of them, nor that there is only
/// one; the Python SDK's tests count on the plan in both cases.
fn names_several(
    container: &Container,
    scope: &Scope,
    request: &QueryRequest,
    reach: &Reach,
) -> Result<bool> {
    if reach.partitions.is_empty() || !request.cross_partition {
        return Ok(reach.partitions.len() > 1);
    }
    Ok(matches!(scope, Scope::Everything) || scope_reach(container, scope)?.partitions.len() > 1)
}

/// The refusal of a query that its client has to merge, with the plan for it.
fn not_servable(container: &Container, scope: &Scope, request: &QueryRequest) -> Error {
    let key = if let Scope::Key(key) = scope {
        Some(key)
    } else {
        None
    };
    match client_plan(container, &request.text, &request.parameters, "", key) {
        Err(refused) => refused,
        Ok(plan) => Error::new(
            Kind::CrossPartitionQueryNotServable,
            "The provided cross partition query can not be directly served by the gateway: its rows must be merged over \
             several physical partitions, which is left to the client. The plan for it is attached.",
        )
        .with_additional_info(plan),
    }
}

/// Runs one page of a query, once it is admitted at every partition that it has to ask; adds what it did to `charges`.
///
/// # Errors
/// 400 for queries and tokens that are wrong, 410 for ranges that are gone, 429 if it is not admitted.
pub fn run(
    context: &Context<'_>,
    container: &Container,
    scope: &Scope,
    request: &QueryRequest,
    functions: &mut dyn Functions,
    charges: &mut PartitionCharges,
) -> Result<QueryPage> {
    let mut query = compile(&request.text, &request.parameters, &environment(container))?;
    if let Some(filter) = &request.resume_filter {
        query = ResumeFilter::parse(filter)
            .and_then(|filter| query.with_resume_filter(filter))
            .map_err(filter_error)?;
    }
    let resume = request
        .page
        .continuation
        .as_deref()
        .map(token::read)
        .transpose()?;
    let mut reach = reach(container, scope, &query, request.cross_partition)?;
    let names_several = || names_several(container, scope, request, &reach);
    let must_merge =
        context.cross_partition_queries == CrossPartitionQueries::Refuse && query.needs_merging();
    if must_merge && names_several()? {
        return Err(not_servable(container, scope, request));
    }
    if query.order().is_empty()
        && let Some(last) = resume
            .as_ref()
            .map(|resume| QueryPosition::read(&resume.position))
            .transpose()?
            .flatten()
    {
        reach.go_on(container, &last)?;
    }
    let next_range = match context.cross_partition_queries {
        CrossPartitionQueries::Merge => None,
        CrossPartitionQueries::Refuse => reach.narrow_to_one(),
    };
    charges.key.clone_from(&reach.key);
    charges.admit(
        context.engine,
        container,
        reach.partitions.iter().map(|(partition, _)| partition),
        context.admission,
    )?;
    if let Some(text) = query.statistics_query() {
        let row = statistics(
            context,
            container,
            text,
            &request.parameters,
            functions,
            charges,
        )?;
        query = query.with_statistics(&row);
    }
    // Before the snapshots: a policy that is newer than they are does no harm, one that is not known would.
    let (settings, policies) = (container.settings(), container.policies());
    check_order(&query, &settings.policy)?;
    let now = context.world.now_ms();
    let targets = reach
        .partitions
        .iter()
        .enumerate()
        .map(|(at, (partition, within))| {
            let snapshot = partition.snapshot()?;
            let visible = Visibility::of(snapshot.as_ref(), now / 1000, settings.default_ttl)?;
            Ok(Target {
                partition: partition.as_ref(),
                stretch: reach.stretch_at(at),
                snapshot,
                within: within.clone(),
                visible,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let visible = Visibility::default();
    let ask = Ask {
        query: &query,
        settings: &settings,
        policies: &policies,
        key: reach.key.as_ref(),
        within: None,
        visible: &visible,
        rows_wanted: rows_wanted(&query, &request.page),
        // Over several partitions the values of one would have to be known to those of the others.
        page_rows: if targets.len() == 1 {
            page_items(&request.page).min(DISTINCT_MOST)
        } else {
            0
        },
        may_scan_values: !(query.is_distinct() && resume.is_some()),
        profile: context.profile,
        order: None,
    };
    let after = resume.as_ref().map(|resume| &resume.position[..]);
    let short = request.page.continuation_limit_kb.is_some();
    let as_one = reach.as_one.as_ref().map_or(0, |(_, count)| *count);
    let mut source = Candidates::open(container, &targets, as_one, ask, after, short)?;
    let mut work = Work::default();
    let page = run_page(
        context.world,
        &query,
        &mut source,
        functions,
        resume.as_ref(),
        &request.page,
        &mut work,
    );
    let asked = source.work();
    if !asked.is_empty() {
        context
            .engine
            .meters()
            .index_lookup_seconds
            .observe(source.lookup_time().as_secs_f64());
    }
    let took = context.world.now_ms().saturating_sub(now);
    let before = charges.work.steps.len();
    charge(&query, &asked, &work, targets.is_empty(), charges);
    let page = page.map_err(query_error)?;
    let at_the_border = next_range.map(|next| query.resume_at(QueryPosition::start_of(&next)));
    let resume = page.resume.or(at_the_border);
    let continuation = resume
        .map(|resume| token::write(&resume, request.page.continuation_limit_kb))
        .transpose()?;
    let key_paths = if matches!(scope, Scope::Key(_)) {
        key_paths(container)
    } else {
        Vec::new()
    };
    let step_charges = || {
        charges.work.steps[before..]
            .iter()
            .map(|s| context.profile.price_of(s).to_string())
            .collect::<Vec<_>>()
    };
    let advice = if request.advice {
        query_advice(&request.text, &request.parameters)
    } else {
        Ok(Vec::new())
    };
    Ok(QueryPage {
        page: Page {
            rows: page.rows,
            continuation,
        },
        metrics: request
            .metrics
            .then(|| metrics::query_metrics(&asked, &work, took)),
        index_metrics: (request.metrics || charges.index_advice)
            .then(|| metrics::index_metrics(&query, &settings.policy, &asked, &key_paths)),
        explanation: request
            .explain
            .then(|| metrics::explain(&query, &asked, &work, &step_charges())),
        advice: advice.map_err(query_error)?,
        descends: query.order().first().is_some_and(|key| key.descending),
    })
}

/// A resume filter is no continuation token; its own sentence says what is wrong with it.
fn filter_error(error: QueryError) -> Error {
    match error {
        QueryError::Resume(told) => Error::bad(told),
        other => query_error(other),
    }
}

/// The statistics that a ranking of texts needs, over the whole container whatever part of it is asked: they are ours
/// to merge, whoever merges the rows.
fn statistics(
    context: &Context<'_>,
    container: &Container,
    text: &str,
    parameters: &[(String, Json)],
    functions: &mut dyn Functions,
    charges: &mut PartitionCharges,
) -> Result<Json> {
    let request = QueryRequest {
        text: text.to_owned(),
        parameters: parameters.to_vec(),
        page: PageRequest::default(),
        cross_partition: true,
        metrics: false,
        explain: false,
        advice: false,
        resume_filter: None,
    };
    let merging = Context {
        cross_partition_queries: CrossPartitionQueries::Merge,
        ..*context
    };
    let page = run(
        &merging,
        container,
        &Scope::Everything,
        &request,
        functions,
        charges,
    )?
    .page;
    // An aggregate gives one row, or could not see everything in its time.
    let row = page
        .rows
        .first()
        .ok_or_else(|| query_error(QueryError::Timeout))?;
    parse(row).map_err(|e| Error::internal(format!("the statistics do not read back: {e}")))
}

/// One page from any source.
pub fn run_page(
    world: &dyn World,
    query: &Query,
    source: &mut dyn Source,
    functions: &mut dyn Functions,
    resume: Option<&ResumePoint>,
    page: &PageRequest,
    work: &mut Work,
) -> std::result::Result<orrery_sql::Page, QueryError> {
    let now_ms = world.now_ms();
    let mut expired = || world.now_ms().saturating_sub(now_ms) > limits::REQUEST_TIME_MS;
    let mut bounds = bounds(world, now_ms, page_items(page), &mut expired);
    query.run(source, functions, resume, &mut bounds, work)
}

/// The bounds of a page of so many rows, begun at `now_ms`.
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
        is_expired: expired,
        now_ms,
        started_ms: now_ms,
        random_seed: world.random(),
    }
}

/// Rows that one partition is likely to give.
fn rows_wanted(query: &Query, page: &PageRequest) -> usize {
    if query.is_aggregate() || query.has_group_by() || query.is_distinct() || query.is_blocking() {
        return usize::MAX;
    }
    let top = query.top().unwrap_or(u64::MAX);
    let window = query.limit().map_or(u64::MAX, |limit| {
        limit.saturating_add(query.offset().unwrap_or(0))
    });
    usize::try_from(top.min(window))
        .unwrap_or(usize::MAX)
        .min(page_items(page))
}

/// Which partitions a query has to ask.
fn reach(
    container: &Container,
    scope: &Scope,
    query: &Query,
    cross_partition: bool,
) -> Result<Reach> {
    if query.demand() == Demand::Nothing {
        return Ok(Reach::of(Vec::new()));
    }
    let mut reach = scope_reach(container, scope)?;
    reach
        .partitions
        .retain(|(_, within)| within.as_ref().is_none_or(|w| !w.is_empty()));
    if reach.key.is_some() {
        return Ok(reach);
    }
    let Some(keys) = pinned_keys(container, query) else {
        if matches!(scope, Scope::Everything) && !cross_partition {
            return Err(Error::bad(
                "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to \
                 true, specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception.",
            ));
        }
        return Ok(reach);
    };
    reach.partitions.retain(|(partition, within)| {
        let covers = |key: &Epk| {
            partition.range.contains(key) && within.as_ref().is_none_or(|w| w.contains(key))
        };
        keys.iter().any(covers)
    });
    if let [key] = &keys[..] {
        reach.key = Some(key.clone());
    }
    Ok(reach)
}

/// The partitions of a scope.
///
/// # Errors
/// 410/1002 for a range that is gone, 400/1001 for a key of the wrong shape.
pub fn scope_reach(container: &Container, scope: &Scope) -> Result<Reach> {
    let stretch = |range: &EpkRange| -> Vec<(Arc<Partition>, Option<EpkRange>)> {
        let part = |p: &Arc<Partition>| {
            let both = p.range.intersection(range)?;
            Some((Arc::clone(p), (both != p.range).then_some(both)))
        };
        container.partitions().iter().filter_map(part).collect()
    };
    Ok(match scope {
        Scope::Everything => Reach::of(
            container
                .partitions()
                .iter()
                .map(|p| (p.clone(), None))
                .collect(),
        ),
        Scope::Epk(range) => Reach::of(stretch(range)),
        Scope::Range { id, within } => {
            let partition = container.partition_by_id(*id)?;
            // A stretch that has nothing of the range leaves nothing of it, which is not the same as no stretch.
            let part = |w: &EpkRange| {
                partition
                    .range
                    .intersection(w)
                    .unwrap_or_else(EpkRange::empty)
            };
            let within = within
                .as_ref()
                .map(part)
                .filter(|both| *both != partition.range);
            Reach::of(vec![(partition, within)])
        }
        Scope::Key(key) => {
            let definition = container.partition_key();
            if key.is_empty() && !definition.is_system_key() {
                return scope_reach(container, &Scope::Everything);
            }
            if key.components().len() < definition.paths().len() && !key.is_empty() {
                return Ok(Reach::of(stretch(&definition.epk_range(key))));
            }
            definition.check(key)?;
            let epk = definition.epk(key);
            Reach {
                key: Some(epk.clone()),
                ..Reach::of(vec![(container.partition_of(&epk), None)])
            }
        }
    })
}

/// The whole partition keys that the condition names, if it names them.
fn pinned_keys(container: &Container, query: &Query) -> Option<Vec<Epk>> {
    const KEYS_MOST: usize = 1_000;
    let definition = container.partition_key();
    let mut keys: Vec<Vec<Component>> = vec![Vec::new()];
    for path in definition.paths() {
        let values = pinned(query.condition(), path)?;
        if keys.len() * values.len() > KEYS_MOST {
            return None;
        }
        let components = values
            .iter()
            .map(|v| component(v))
            .collect::<Option<Vec<_>>>()?;
        keys = keys
            .iter()
            .flat_map(|key| {
                components
                    .iter()
                    .map(|c| [&key[..], std::slice::from_ref(c)].concat())
            })
            .collect();
    }
    Some(
        keys.into_iter()
            .map(|components| definition.epk(&PartitionKey::new(components)))
            .collect(),
    )
}

fn component(value: &Json) -> Option<Component> {
    Some(match value {
        Json::Null => Component::Null,
        Json::Bool(b) => Component::Bool(*b),
        Json::Number(n) => Component::Number(n.as_f64()),
        Json::String(s) => Component::String(s.clone()),
        Json::Array(_) | Json::Object(_) => return None,
    })
}

/// ORDER BY needs an index: a range index on its one path, a composite one for several.
fn check_order(query: &Query, policy: &Policy) -> Result<()> {
    match query.order() {
        [] => Ok(()),
        [key] => match &key.path {
            Some(path) if !policy.covers(&steps(path)) => Err(Error::bad(format!(
                "The order-by item {path} is excluded from the index: the order by query does not have a \
                 corresponding index that it can be served from."
            ))),
            _ => Ok(()),
        },
        several => {
            let keys: Option<Vec<_>> = several
                .iter()
                .map(|key| key.path.as_ref().map(|path| (steps(path), !key.descending)))
                .collect();
            if keys.is_some_and(|keys| policy.orders_by(&keys).is_some()) {
                return Ok(());
            }
            Err(Error::bad(
                "The order by query does not have a corresponding composite index that it can be served from.",
            ))
        }
    }
}

/// Each partition asked is one request; what the executor did is added to the first.
fn charge(
    query: &Query,
    asked: &[Asked],
    work: &Work,
    nothing_to_ask: bool,
    charges: &mut PartitionCharges,
) {
    let mut each: Vec<QueryWork> = asked.iter().map(|asked| asked.work).collect();
    if each.is_empty() {
        each.push(QueryWork::default());
    }
    if !nothing_to_ask && query.is_aggregate() {
        each.iter_mut().for_each(|work| work.aggregates = 1);
    }
    let first = &mut each[0];
    first.returned_rows = work.rows_out;
    first.returned_bytes = work.bytes_out;
    first.projected_rows = work.projected;
    first.array_elements = work.tuples;
    first.udf_calls = work.udf_calls;
    for (at, work) in each.into_iter().enumerate() {
        match asked.get(at) {
            Some(asked) => charges.did(asked.range, Step::Query(work)),
            None => charges.work.steps.push(Step::Query(work)),
        }
    }
}
