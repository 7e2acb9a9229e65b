//! One page of a query over one or many partitions, from the text to the rows and the reports.

use super::condition::steps;
use super::index_use::index_use;
use super::partition_query::PartitionQuery;
use super::plan::{document, merge_plan};
use super::position::QueryPosition;
use super::scope::{Reach, holds_key, scope_reach};
use super::source::{Candidates, PartitionWork, Target};
use super::values::VALUES_BYTES_MAX;
use super::{
    Turn, Workplace, compile, distinct_values_max, environment, is_time_over, key_paths, metrics,
    must_end, page_rows, rows_of, rows_wanted, run_page, token,
};
use crate::catalog::Container;
use crate::container::settings::Settings;
use crate::errors::query_error;
use crate::index::generations::Policies;
use crate::index::paths::Step as PathStep;
use crate::index::policy::{OrderedPath, Policy, path_text};
use crate::items::UserFunctions;
use crate::ownership::check_all_owned;
use crate::partition::session::check_session;
use crate::partition::visibility::Visibility;
use crate::partition::{Facts, Partition};
use crate::request::{
    Page, PageRequest, PlanSource, Position, QueryPage, QueryRequest, ReadOptions, Scope,
};
use crate::throughput::PartitionCharges;
use crate::{CrossPartitionQueries, Engine};
use orrery_model::json::parse;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::work::{QueryWork, Step};
use orrery_model::{Error, Json, Kind, Result, object};
use orrery_sql::{
    Clock, Demand, MergeSupport, Path, Query, QueryError, ResumeFilter, ResumePoint, Work,
    is_merged_by_server, oversights, query_advice,
};
use orrery_storage::Snapshot;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The sentence of the service for aggregates that a client without further features cannot merge.
const VALUE_AGGREGATES_ONLY: &str =
    "Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates.";

/// A page of a query that is to be run.
pub(super) struct PageRun<'a> {
    /// The engine.
    pub engine: &'a Engine,
    /// The container.
    pub container: &'a Container,
    /// The part of the container that the request names.
    pub scope: &'a Scope,
    /// The query and its page.
    pub request: &'a QueryRequest,
    /// Session token and options of admission.
    pub options: ReadOptions<'a>,
    /// The side that merges over partitions.
    pub cross_partition_queries: CrossPartitionQueries,
    /// True for a query of a client, false for the statistics of a ranking.
    pub is_from_client: bool,
}

/// A compiled query and the place where its page begins.
struct Prepared {
    query: Query,
    resume: Option<ResumePoint>,
    /// Time of the compilation, in microseconds.
    took_us: u64,
}

/// The partitions of a scope, one snapshot each by range id, and the settings to read them with.
struct Opened {
    settings: Arc<Settings>,
    policies: Arc<Policies>,
    snapshots: BTreeMap<u32, Box<dyn Snapshot>>,
}

/// The rows of a page, or the failure, and what it took.
struct Executed {
    page: std::result::Result<orrery_sql::Page, QueryError>,
    counts: Counts,
}

/// The counts of one execution.
struct Counts {
    /// The work of the executor.
    work: Work,
    /// The work of each partition that was asked.
    partitions: Vec<PartitionWork>,
    /// Time of the compilation, in microseconds.
    compile_us: u64,
    /// Time of the whole execution, in microseconds.
    execute_us: u64,
    /// Time that planning and index lookups took, a part of the execution.
    lookup_time: Duration,
    /// Microseconds for finding and loading items.
    load_us: u64,
}

impl PageRun<'_> {
    /// Runs the page. Adds the work to `charges`, and sets `position` if the scope is one
    /// partition.
    ///
    /// # Errors
    /// 400 for queries and continuations that are wrong, 404/1002 if a partition has not reached
    /// the session token, 410 for partitions that are gone, 429 if the budget of a partition is
    /// spent.
    pub(crate) fn run(
        &self,
        charges: &mut PartitionCharges,
        position: &mut Option<Position>,
    ) -> Result<QueryPage> {
        if self.is_from_client && is_merged_by_server(&self.request.text) {
            return self.run_for_all(charges, position);
        }
        // A partition of the scope that is behind the session token answers 404/1002, whatever the
        // text, the partitions that the text excludes, and the budget.
        let mut reach = scope_reach(self.container, self.scope)?;
        let opened = self.open(&reach, position)?;

        let mut prepared = self.prepare()?;
        self.narrow(&mut reach, &prepared)?;

        // A client that merges by itself gets one partition a page, and a refusal with the plan
        // where rows of several would have to be merged.
        let next_part = match self.cross_partition_queries {
            CrossPartitionQueries::Merge => None,
            CrossPartitionQueries::Refuse => reach.keep_first(),
        };

        // All partitions admit the request, or nothing is read anywhere.
        charges.key = reach.key.as_ref().map(|key| key.epk().clone());
        let partitions = reach.partitions.iter().map(|(partition, _)| partition);
        let admission = self.options.admission;
        charges.admit(self.engine, self.container, partitions, admission)?;

        // A ranking of texts needs statistics before its first row.
        if let Some(text) = prepared.query.statistics_query() {
            let statistics = self.statistics(text, charges)?;
            prepared.query = prepared.query.with_statistics(&statistics);
        }

        check_order(&prepared.query, &opened.settings.policy)?;
        let Executed { page, counts } = self.execute(&prepared, &reach, &opened)?;

        // The work is charged whether the query succeeded or not.
        let query = &prepared.query;
        let first_step = charges.work.steps.len();
        add_work(query, &counts, &reach, charges);
        self.observe_lookups(&counts, charges);
        let page = page.map_err(query_error)?;

        // The next page begins where this one ended, or with the next partition.
        let resume = match (page.resume, next_part) {
            (Some(resume), _) => Some(resume),
            (None, Some(part)) => Some(query.resume_at(QueryPosition::start_of(&part))),
            (None, None) => None,
        };
        let continuation = self.continuation(&prepared.query, resume.as_ref())?;
        let mut answer = QueryPage {
            page: Page {
                rows: page.rows,
                continuation,
            },
            descends: query.order().first().is_some_and(|key| key.descending),
            ..QueryPage::default()
        };
        self.report(
            &mut answer,
            query,
            &opened.settings.policy,
            &counts,
            charges,
            first_step,
        )?;
        Ok(answer)
    }

    /// Adds the time of the index lookups of a metered query to the metrics.
    fn observe_lookups(&self, counts: &Counts, charges: &PartitionCharges) {
        if counts.partitions.is_empty() || !charges.is_metered {
            return;
        }
        let seconds = counts.lookup_time.as_secs_f64();
        self.engine.meters().index_lookup_seconds.observe(seconds);
    }

    /// Runs a page of a query whose plan leaves the merge to the server. The partition that holds
    /// the smallest EPK answers for all, and any other partition has no rows. A partition key and a
    /// part of a partition are answered for themselves.
    fn run_for_all(
        &self,
        charges: &mut PartitionCharges,
        position: &mut Option<Position>,
    ) -> Result<QueryPage> {
        let first = Epk::min();
        let reach = scope_reach(self.container, self.scope)?;
        let names_key = matches!(self.scope, Scope::Key(key) if !key.is_empty());
        let names_part = reach.partitions.iter().any(|(_, within)| within.is_some());
        let is_limited = names_key || names_part;
        if !is_limited && !reach.partitions.iter().any(|part| holds_key(part, &first)) {
            charges.work.steps.push(Step::ReadNothing);
            return Ok(QueryPage::default());
        }
        let scope = match is_limited {
            true => self.scope,
            false => &Scope::Everything,
        };
        let request = QueryRequest {
            cross_partition: true,
            fans_out: false,
            ..self.request.clone()
        };
        let run = PageRun {
            scope,
            request: &request,
            cross_partition_queries: CrossPartitionQueries::Merge,
            is_from_client: false,
            ..*self
        };
        run.run(charges, position)
    }

    /// Checks that this process may answer a page of a scope: it owns the partition of the scope,
    /// or all of several, or may read all partitions.
    ///
    /// # Errors
    /// 503 with the number of the partition, if there is one.
    fn check_owned(&self, reach: &Reach) -> Result<()> {
        let [(partition, _)] = &reach.partitions[..] else {
            if self.engine.owners.reads_all() {
                return Ok(());
            }
            let partitions = reach.partitions.iter();
            return check_all_owned(partitions.map(|(partition, _)| partition.as_ref()));
        };
        let owned = partition.check_owned();
        // A ranking of texts reads the whole container. Only a text that is right can be one.
        if owned.is_err() && self.engine.owners.reads_all() {
            let prepared = self.prepare();
            if prepared.is_ok_and(|prepared| prepared.query.statistics_query().is_some()) {
                return Ok(());
            }
        }
        owned
    }

    /// Compiles the text and reads the continuation.
    fn prepare(&self) -> Result<Prepared> {
        let began_us = self.engine.world().monotonic_us();
        let request = self.request;
        let environment = environment(self.container);
        let mut query = compile(&request.text, &request.parameters, &environment)?;
        if let Some(filter) = &request.resume_filter {
            let filter = ResumeFilter::parse(filter).map_err(resume_filter_error)?;
            query = query
                .with_resume_filter(filter)
                .map_err(resume_filter_error)?;
        }
        let resume = match &request.page.continuation {
            Some(continuation) => Some(token::read(continuation, self.container.rid().as_bytes())?),
            None => None,
        };
        Ok(Prepared {
            query,
            resume,
            took_us: self.engine.world().monotonic_us().saturating_sub(began_us),
        })
    }

    /// Narrows the scope to the partitions that the query has to ask from its continuation on.
    ///
    /// # Errors
    /// 400 for a query that may not cross partitions or cannot be merged, and 400/1004 for one that
    /// its client has to merge or wants to divide.
    fn narrow(&self, reach: &mut Reach, prepared: &Prepared) -> Result<()> {
        let Prepared { query, resume, .. } = prepared;
        if query.demand() == Demand::Nothing {
            reach.clear();
        } else {
            let cross_partition = self.request.cross_partition;
            reach.narrow_to_pinned_keys(self.container, self.scope, query, cross_partition)?;
        }
        if self.names_several(reach) {
            let needs_merging = query.needs_merging();
            // A client that merges by itself sends parts of its plan, which are compositions, to a
            // range or to a key.
            let is_whole = self.is_from_client && matches!(self.scope, Scope::Everything);
            if needs_merging && is_whole {
                query.check_mergeable().map_err(query_error)?;
            }
            let is_client_merging = self.cross_partition_queries == CrossPartitionQueries::Refuse;
            if is_client_merging && (needs_merging || self.wants_to_fan_out(reach)) {
                return Err(self.not_servable(query));
            }
        }
        // A query with ORDER BY keeps its place in the index, not in the natural order of
        // partitions.
        if query.order().is_empty()
            && let Some(resume) = resume
            && let Some(last) = QueryPosition::read(&resume.position)?
        {
            reach.continue_after(self.container, &last)?;
        }
        Ok(())
    }

    /// Returns true if the client wants to ask several partitions at a time. A query of one logical
    /// partition leaves it nothing to divide.
    fn wants_to_fan_out(&self, reach: &Reach) -> bool {
        self.request.fans_out && reach.key.is_none()
    }

    /// Returns true if the request is for several physical partitions as the service's gateway sees
    /// it.
    ///
    /// The gateway goes by the headers. If a request may cross partitions, a condition that needs
    /// only one partition does not count, nor that the container has only one; the Python SDK
    /// counts on the plan in both cases. Clients of containers without a partition key know no
    /// plan.
    fn names_several(&self, reach: &Reach) -> bool {
        if self.container.has_one_partition() {
            return false;
        }
        if reach.partitions.is_empty() || !self.request.cross_partition {
            return reach.partitions.len() > 1;
        }
        matches!(self.scope, Scope::Everything) || reach.partitions_in_scope > 1
    }

    /// Returns the partition key that the request names.
    fn named_key(&self) -> Option<&PartitionKey> {
        match self.scope {
            Scope::Key(key) => Some(key),
            _ => None,
        }
    }

    /// Returns the refusal of a query that is left to its client. The plan is attached if the
    /// client can carry it out; a client that cannot would take the rows of the rewritten query for
    /// its own.
    fn not_servable(&self, query: &Query) -> Error {
        let QueryRequest {
            text, parameters, ..
        } = self.request;
        let support = match &self.request.plan_source {
            PlanSource::RefusalFor(features) => MergeSupport::Listed(features),
            PlanSource::Refusal | PlanSource::OwnRequest => MergeSupport::FirstClients,
        };
        let key = self.named_key();
        let plan = match merge_plan(self.container, text, parameters, support, key) {
            Ok(plan) => plan,
            Err(QueryError::MissingFeatures(missing)) => {
                return self.not_mergeable(query, missing);
            }
            Err(refused) => return query_error(refused),
        };
        match document(self.container, text, parameters, plan, key) {
            Err(refused) => refused,
            Ok(plan) => Error::new(
                Kind::CrossPartitionQueryNotServable,
                "The provided cross partition query can not be directly served by the gateway: its rows come from several \
                 physical partitions, which the client asks and merges. The plan for it is attached.",
            )
            .with_additional_info(plan),
        }
    }

    /// Returns the refusal of a query whose merge the client cannot do, as far as this request
    /// tells. `missing` are the features of that merge.
    fn not_mergeable(&self, query: &Query, missing: Vec<&'static str>) -> Error {
        const OF_AGGREGATES: [&str; 3] = ["GroupBy", "MultipleAggregates", "NonValueAggregate"];
        let is_of_aggregates =
            query.is_aggregate() && missing.iter().any(|name| OF_AGGREGATES.contains(name));
        let in_service_words = match is_of_aggregates {
            true => QueryError::Plan(VALUE_AGGREGATES_ONLY.to_owned()),
            false => QueryError::MissingFeatures(missing.clone()),
        };
        match self.request.plan_source {
            PlanSource::Refusal | PlanSource::RefusalFor(_) => query_error(in_service_words),
            // Such a client goes on with a request for the plan. The JavaScript SDK does so for
            // this sentence, the Python SDK for the sub-status.
            PlanSource::OwnRequest => {
                let missing = missing.join(", ");
                let sentence = match is_of_aggregates {
                    true => VALUE_AGGREGATES_ONLY.to_owned(),
                    false => format!(
                        "Cross partition query only supports {missing} for a client that names it."
                    ),
                };
                let error = Error::new(Kind::CrossPartitionQueryNotServable, sentence);
                error.with_help(format!(
                    "The rows come from several physical partitions, which the client asks and \
                     merges: ask for the plan of the query with {missing} in \
                     x-ms-cosmos-supported-query-features."
                ))
            }
        }
    }

    /// Returns the statistics that a ranking of texts needs. They cover the whole container,
    /// whatever the scope, and are merged here, whichever side merges the rows.
    fn statistics(&self, text: &str, charges: &mut PartitionCharges) -> Result<Json> {
        let request = QueryRequest {
            cross_partition: true,
            ..QueryRequest::of(
                text,
                self.request.parameters.clone(),
                PageRequest::default(),
            )
        };
        let run = PageRun {
            scope: &Scope::Everything,
            request: &request,
            options: ReadOptions {
                session: None,
                answer: None,
                ..self.options
            },
            cross_partition_queries: CrossPartitionQueries::Merge,
            is_from_client: false,
            ..*self
        };
        let answer = run.run(charges, &mut None)?;
        // An aggregate answers one row, unless its time was over first.
        let row = answer.page.rows.first();
        let row = row.ok_or_else(|| query_error(QueryError::Timeout))?;
        parse(row)
            .map_err(|error| Error::internal(format!("the statistics do not read back: {error}")))
    }

    /// Waits for a slot and begins the turn of the page.
    ///
    /// # Errors
    /// 408 if the client has gone meanwhile.
    fn begin_turn(&self) -> Result<Turn<'_>> {
        let database = self.container.rid().database_part();
        let slots = self.engine.slots();
        let turn = slots.begin(Some(database), self.options.cancel);
        if turn.is_cancelled() {
            return Err(query_error(QueryError::Timeout));
        }
        Ok(turn)
    }

    /// Runs the query over the snapshots of its partitions.
    fn execute(&self, prepared: &Prepared, reach: &Reach, opened: &Opened) -> Result<Executed> {
        let Prepared { query, resume, .. } = prepared;
        let turn = self.begin_turn()?;
        let began_us = self.engine.world().monotonic_us();
        let targets = self.targets(query, reach, opened)?;
        let began_ms = self.engine.world().now_ms();
        let monotonic_us = || self.engine.world().monotonic_us();
        let clock = self.request.metrics.then_some(&monotonic_us as Clock<'_>);
        let world = self.engine.world();
        let check_point = || end_if(is_time_over(world, began_ms, Some(&turn)));
        let end_point = || end_if(must_end(world, began_ms, Some(&turn)));
        let (no_visibility, no_facts) = (Visibility::default(), Facts::default());
        let values_room = Cell::new(VALUES_BYTES_MAX);
        let partition_query = PartitionQuery {
            query,
            settings: &opened.settings,
            policies: &opened.policies,
            key: reach.key.as_ref(),
            named_key: self.named_key(),
            within: None,
            visible: &no_visibility,
            facts: &no_facts,
            rows_wanted: rows_wanted(query, &self.request.page),
            may_continue: rows_of(query) > page_rows(query, &self.request.page),
            distinct_values_max: distinct_values_max(query, &self.request.page),
            values_room: &values_room,
            may_scan_values: true,
            check_point: &check_point,
            end_point: &end_point,
            approximate: self.container.approximate(),
            profile: self.engine.profile,
            order: None,
        };
        let after = resume.as_ref().map(|resume| &resume.position[..]);
        let successors = reach.merged_successors.as_ref();
        let read_as_one = successors.map_or(0, |(_, count)| *count);
        let mut source = Candidates::open(
            self.container,
            &targets,
            read_as_one,
            partition_query,
            after,
        )?;
        source.measure_loads(clock);
        let mut functions = UserFunctions::new(self.engine, self.container, &turn);
        let mut work = Work::default();
        let page = run_page(
            Workplace {
                engine: self.engine,
                turn: Some(&turn),
                answer: self.options.answer,
                clock,
            },
            query,
            &mut source,
            &mut functions,
            resume.as_ref(),
            &self.request.page,
            &mut work,
        );
        let counts = Counts {
            work,
            partitions: source.work(),
            compile_us: prepared.took_us,
            execute_us: self.engine.world().monotonic_us().saturating_sub(began_us),
            lookup_time: source.lookup_time(),
            load_us: source.load_us(),
        };
        Ok(Executed { page, counts })
    }

    /// Takes one snapshot of each partition of the scope and checks that it has reached the session
    /// token.
    fn open(&self, reach: &Reach, position: &mut Option<Position>) -> Result<Opened> {
        self.check_owned(reach)?;
        // Settings and policies come before the snapshots: a policy that is newer than a snapshot
        // does no harm, a policy that is not known would.
        let settings = self.container.settings();
        let policies = self.container.policies();
        let partitions: Vec<&Partition> =
            reach.partitions.iter().map(|(p, _)| p.as_ref()).collect();
        let mut snapshots = BTreeMap::new();
        for (partition, snapshot) in partitions.iter().zip(Partition::snapshots(&partitions)?) {
            let lsn = snapshot.head().lsn;
            if reach.partitions_in_scope == 1 {
                *position = Some(partition.position(lsn, None));
            }
            check_session(self.options.session, partition, lsn)?;
            snapshots.insert(partition.id, snapshot);
        }
        Ok(Opened {
            settings,
            policies,
            snapshots,
        })
    }

    /// Returns the parts of partitions to read. A partition that was merged after an earlier page
    /// may be two parts.
    fn targets<'r>(
        &self,
        query: &Query,
        reach: &'r Reach,
        opened: &'r Opened,
    ) -> Result<Vec<Target<'r>>> {
        let now_seconds = self.engine.world().now_seconds();
        let mut targets = Vec::with_capacity(reach.partitions.len());
        for (at, (partition, within)) in reach.partitions.iter().enumerate() {
            let snapshot = opened.snapshots[&partition.id].as_ref();
            let facts = partition.facts(snapshot);
            let deletions = Arc::clone(facts.deletions(snapshot)?);
            let moment = partition.moment(now_seconds);
            let mut visible = Visibility::with(deletions, moment, &opened.settings);
            let policy = &opened.policies.newest.1;
            if policy.is_consistent() && !self.request.is_read_feed {
                // Only counts that do not load items need to know if some are hidden. An automatic
                // policy hides none.
                let is_certain = query.demand() != Demand::Count || policy.is_automatic();
                visible.hide_unindexed(Arc::clone(policy), is_certain);
            }
            targets.push(Target {
                partition: partition.as_ref(),
                part: reach.part_at(at),
                visible,
                facts,
                snapshot,
                within: within.clone(),
            });
        }
        Ok(targets)
    }

    /// Writes the continuation of the next page, within the size that the request allows.
    fn continuation(&self, query: &Query, resume: Option<&ResumePoint>) -> Result<Option<String>> {
        let Some(resume) = resume else {
            return Ok(None);
        };
        let limit_kb = self.request.page.continuation_limit_kb;
        let shorten = |resume: &ResumePoint| {
            let mut short = query.shortened(resume);
            if let Ok(position) = QueryPosition::shortened(&short.position) {
                short.position = position;
            }
            short
        };
        token::write(resume, self.container.rid().as_bytes(), limit_kb, shorten).map(Some)
    }

    /// Returns the paths of the partition key if the request names the key. The filter on the key
    /// uses its index as any other filter does.
    fn named_key_paths(&self) -> Vec<Path> {
        match self.scope {
            Scope::Key(_) => key_paths(self.container),
            _ => Vec::new(),
        }
    }

    /// Adds the reports that the request asks for to an answer. `first_step` is the index in
    /// `charges` of the first step of this page.
    fn report(
        &self,
        answer: &mut QueryPage,
        query: &Query,
        policy: &Policy,
        counts: &Counts,
        charges: &PartitionCharges,
        first_step: usize,
    ) -> Result<()> {
        let Counts {
            work, partitions, ..
        } = counts;
        let request = self.request;
        if request.metrics {
            // Parts that are measured by samples may come out longer than the whole.
            let part_us = |us: u64| us.min(counts.execute_us);
            let times = metrics::Times {
                compile_us: counts.compile_us,
                execute_us: counts.execute_us,
                lookup_us: part_us(counts.lookup_time.as_micros() as u64),
                load_us: part_us(counts.load_us),
                write_us: part_us(work.write_us),
            };
            answer.metrics = Some(metrics::query_metrics(partitions, work, &times));
        }
        if request.metrics || charges.index_advice {
            let key_paths = self.named_key_paths();
            let report = metrics::index_metrics(query, policy, partitions, &key_paths);
            answer.index_metrics = Some(report);
        }
        if request.index_use && request.page.continuation.is_none() {
            let key_paths = self.named_key_paths();
            answer.index_use = Some(index_use(query, policy, &key_paths));
        }
        if request.explain {
            let mut prices = Vec::new();
            for step in &charges.work.steps[first_step..] {
                prices.push(self.engine.profile.price_of(step).to_string());
            }
            let hints = oversights(&request.text, &request.parameters);
            let explanation = metrics::explain(query, partitions, work, &prices, hints);
            answer.explanation = Some(explanation);
        }
        if request.advice {
            answer.advice =
                query_advice(&request.text, &request.parameters).map_err(query_error)?;
        }
        Ok(())
    }
}

/// Translates a failure of a resume filter. The filter is no continuation token, so its own message
/// says what is wrong.
fn resume_filter_error(error: QueryError) -> Error {
    match error {
        QueryError::Resume(message) => Error::bad(message),
        other => query_error(other),
    }
}

/// Checks that ORDER BY has an index: a range index on its one path, a composite index for several.
/// Computed properties have no entries in an index, so ORDER BY by them sorts; with several keys,
/// the policy must name them in a composite index as the service demands.
///
/// # Errors
/// 400 if the index is missing.
fn check_order(query: &Query, policy: &Policy) -> Result<()> {
    match query.order() {
        [] => Ok(()),
        [key] => match &key.path {
            Some(path) if key.computed.is_none() && !policy.covers(&steps(path)) => {
                Err(Error::bad(format!(
                    "The order-by item {path} is excluded from the index: the order by query does not have a \
                 corresponding index that it can be served from."
                ))
                .with_help(format!(
                    "Add {{\"path\": {}}} to includedPaths of the container's indexing policy.",
                    Json::from(format!("{}/?", path_text(&steps(path)))).to_text()
                )))
            }
            _ => Ok(()),
        },
        several => {
            let mut keys = Vec::with_capacity(several.len());
            for key in several {
                let path = match (&key.computed, &key.path) {
                    (Some(name), _) => vec![PathStep::Name(name.clone())],
                    (None, Some(path)) => steps(path),
                    (None, None) => continue,
                };
                keys.push((path, !key.descending));
            }
            if keys.len() == several.len() && policy.orders_by(&keys).is_some() {
                return Ok(());
            }
            Err(Error::bad(
                "The order by query does not have a corresponding composite index that it can be served from.",
            )
            .with_help(format!(
                "Add this one to compositeIndexes of the container's indexing policy: {}",
                composite_document(&keys).to_text()
            )))
        }
    }
}

/// Returns a composite index as an indexing policy has it.
fn composite_document(keys: &[OrderedPath]) -> Json {
    let mut paths = Vec::with_capacity(keys.len());
    for (path, is_ascending) in keys {
        let order = if *is_ascending {
            "ascending"
        } else {
            "descending"
        };
        paths.push(Json::Object(
            object! { "path" => path_text(path), "order" => order },
        ));
    }
    Json::Array(paths)
}

/// Adds the work of a page to the charges: each partition that was asked is one step, and the work
/// of the executor is part of the first. Notes the first item that the page loaded.
fn add_work(query: &Query, counts: &Counts, reach: &Reach, charges: &mut PartitionCharges) {
    let Counts {
        partitions, work, ..
    } = counts;
    let mut steps: Vec<QueryWork> = Vec::with_capacity(partitions.len().max(1));
    for partition in partitions {
        steps.push(QueryWork {
            partition: Some(partition.range),
            ..partition.work
        });
    }
    if steps.is_empty() {
        steps.push(QueryWork::default());
    }
    if !reach.partitions.is_empty() && query.is_aggregate() {
        for step in &mut steps {
            step.aggregates = 1;
        }
    }
    let mut loaded = partitions.iter().filter_map(|part| part.first_loaded);
    charges.first_item = loaded.next();
    let first = &mut steps[0];
    first.returned_rows = work.rows_out;
    first.returned_bytes = work.bytes_out;
    first.projected_rows = work.projected;
    first.array_elements = work.tuples;
    first.udf_calls = work.udf_calls;
    for (at, step) in steps.into_iter().enumerate() {
        match partitions.get(at) {
            Some(partition) => charges.add_step(partition.range, Step::Query(step)),
            None => charges.work.steps.push(Step::Query(step)),
        }
    }
}

/// Returns the error of a page whose time is over.
fn end_if(is_over: bool) -> Result<()> {
    match is_over {
        true => Err(query_error(QueryError::Timeout)),
        false => Ok(()),
    }
}
