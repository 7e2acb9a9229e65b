//! The engine: databases, containers, physical partitions, items, index, queries, change feed, scripts, throughput.
//!
//! It knows no HTTP and no clock: requests are plain types ([`request`]), time and randomness come from a
//! [`World`], bytes go to a [`Store`]. Everything here is plain calls;
//! a write comes back as [`Pending`], which a thread can wait for and an async caller can await.
//!
//! ```text
//! catalog      what exists                     partition    history and writer of one physical partition
//! transaction  changes that take place together   index     terms under a policy
//! items  feed  scripts  query  maintenance  clearing   operations   throughput   prices, budgets, admission
//! ```
//!
//! Promises:
//! 1. A write is answered after it is durable; a reader never sees what is not.
//! 2. A transaction takes place whole or not at all, and counts as one LSN.
//! 3. The same requests on the same data are charged the same.
//!

mod access_resources;
mod background;
mod catalog;
mod errors;
mod feed;
mod index;
mod items;
mod operator;
mod partition;
mod pending;
mod query;
pub mod request;
mod throughput;
mod traffic;

pub use background::ITEMS_PER_STEP;
pub use catalog::{
    AccessResource, Container, Database, Grant, PermissionMode, RangeRecord, TokenSigner,
};
pub use operator::{Meters, PartitionInventory};
pub use pending::{Pending, PendingBatch};
pub use request::etag_matches;
pub use throughput::{Profile, ThroughputOptions};
pub use traffic::{Seen, Traffic};

use catalog::Catalog;
use orrery_model::json::parse;
use orrery_model::partition_key::PartitionKey;
use orrery_model::work::{Step, Work};
use orrery_model::world::World;
use orrery_model::{Error, Json, Object, Result, Rid, limits};
use orrery_script::{PoolOptions, ScriptPool};
use orrery_storage::Store;
use query::ListedRow;
use request::*;
use std::sync::{Arc, Mutex};
use throughput::{PartitionCharges, status};
use traffic::QueryWatch;

/// What becomes of a query over several physical partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossPartitionQueries {
    /// The engine merges what the partitions give, and a page may hold rows of several.
    #[default]
    Merge,
    /// As the service's gateway does it: what needs merging is refused with the plan for a client that merges, and a
    /// page ends with its partition.
    Refuse,
}

/// How an engine is set up.
pub struct EngineOptions {
    /// Whose prices apply.
    pub profile: Profile,
    /// Who merges over partitions.
    pub cross_partition_queries: CrossPartitionQueries,
    /// How scripts are run.
    pub scripts: PoolOptions,
    /// What becomes of requests beyond the budget.
    pub throughput: ThroughputOptions,
    /// Bytes of items beyond which a physical partition is split; the service's are [`limits::PARTITION_BYTES`].
    pub partition_bytes: u64,
    /// Bytes of items that count as a gigabyte where throughput follows what is stored; the service's are 2^30.
    pub gigabyte: u64,
}

impl EngineOptions {
    /// As the service does it today, with budgets that are not enforced.
    pub fn new(scripts: PoolOptions) -> Self {
        EngineOptions {
            profile: Profile::default(),
            cross_partition_queries: CrossPartitionQueries::default(),
            scripts,
            throughput: ThroughputOptions::default(),
            partition_bytes: limits::PARTITION_BYTES,
            gigabyte: limits::GIGABYTE,
        }
    }
}

/// The engine.
pub struct Engine {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    catalog: Catalog,
    scripts: ScriptPool,
    profile: Profile,
    cross_partition_queries: CrossPartitionQueries,
    throughput: ThroughputOptions,
    script_locks: Vec<Mutex<()>>,
    meters: Meters,
    partition_bytes: u64,
    repartitions: background::RangeChanges,
}

/// Which feed of resources a list or query covers.
#[derive(Clone, Copy, Debug)]
pub enum Feed<'a> {
    /// All databases.
    Databases,
    /// The containers of a database.
    Containers(&'a Database),
    /// The scripts of one kind in a container.
    Scripts(&'a Container, ScriptKind),
    /// All offers.
    Offers,
    /// The users or client encryption keys of a database, or the permissions of a user.
    AccessResources(AccessResourceKind, Rid, TokenSigner<'a>),
    /// Conflicts of a container: none ever, since there is one write region.
    Conflicts(&'a Container),
}

/// Locks among which logical partitions are spread for scripts to take turns.
const SCRIPT_LOCKS: usize = 256;

impl Engine {
    /// Opens what a store holds.
    ///
    /// # Errors
    /// 500 if the store cannot be read or does not make sense.
    pub fn open(
        store: Arc<dyn Store>,
        options: EngineOptions,
        world: Arc<dyn World>,
    ) -> Result<Engine> {
        Ok(Engine {
            catalog: Catalog::open(Arc::clone(&store), Arc::clone(&world), options.throughput)?
                .count_gigabytes_of(options.gigabyte),
            store,
            world,
            scripts: ScriptPool::new(options.scripts),
            profile: options.profile,
            cross_partition_queries: options.cross_partition_queries,
            throughput: options.throughput,
            meters: Meters::new(),
            script_locks: (0..SCRIPT_LOCKS).map(|_| Mutex::new(())).collect(),
            partition_bytes: options.partition_bytes,
            repartitions: background::RangeChanges::default(),
        })
    }

    pub(crate) fn world(&self) -> &dyn World {
        self.world.as_ref()
    }

    pub(crate) fn throughput(&self) -> ThroughputOptions {
        self.throughput
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn scripts(&self) -> &ScriptPool {
        &self.scripts
    }

    /// What is counted for the operator.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// The lock that scripts of a logical partition take one after the other.
    pub(crate) fn script_lock_of(&self, epk_prefix: partition::keys::EpkPrefix) -> &Mutex<()> {
        &self.script_locks[usize::from(epk_prefix[7]) % SCRIPT_LOCKS]
    }

    /// An answer with its charge.
    pub(crate) fn outcome<T>(
        &self,
        result: Result<T>,
        work: Work,
        position: Option<Position>,
    ) -> Outcome<T> {
        Outcome {
            result,
            charge: self.profile.price(&work),
            work,
            position,
        }
    }

    fn metadata_read<T>(&self, result: Result<T>) -> Outcome<T> {
        self.outcome(
            result,
            Work {
                steps: vec![Step::MetadataRead],
            },
            None,
        )
    }

    fn metadata_write<T>(&self, bytes: usize, result: Result<T>) -> Outcome<T> {
        let step = match &result {
            Ok(_) => Step::MetadataWrite { bytes },
            Err(_) => Step::Refused { bytes, terms: 0 },
        };
        self.outcome(result, Work { steps: vec![step] }, None)
    }

    fn metadata_resource(&self, asked: &Object, result: Result<Resource>) -> Outcome<Resource> {
        let bytes = result.as_ref().map_or_else(
            |_| Json::Object(asked.clone()).to_text().len(),
            |r| r.body.len(),
        );
        self.metadata_write(bytes, result)
    }

    /// A database.
    ///
    /// # Errors
    /// 404.
    pub fn database(&self, id: Id<'_>) -> Result<Arc<Database>> {
        self.catalog.database(id)
    }

    /// A container.
    ///
    /// # Errors
    /// 404 if it is missing, 404/1003 if its database is.
    pub fn container(&self, database: Id<'_>, container: Id<'_>) -> Result<Arc<Container>> {
        self.catalog.container(database, container)
    }

    /// Creates a database.
    pub fn create_database(
        &self,
        body: &Object,
        throughput: Option<Throughput>,
    ) -> Outcome<Resource> {
        self.metadata_resource(body, self.catalog.create_database(body, throughput))
    }

    /// Reads a database.
    pub fn read_database(&self, database: &Database) -> Outcome<Resource> {
        self.metadata_read(Ok(database.resource(false)))
    }

    /// Deletes a database with all its containers.
    pub fn delete_database(&self, database: &Database, if_match: Option<&str>) -> Outcome<()> {
        self.metadata_write(0, self.catalog.delete_database(database, if_match))
    }

    /// Creates a container with the physical partitions that its throughput asks for.
    pub fn create_container(
        &self,
        database: &Database,
        body: &Object,
        throughput: Option<Throughput>,
    ) -> Outcome<Resource> {
        let created = self.catalog.create_container(database, body, throughput);
        if let Ok(resource) = &created
            && let Ok(container) = self
                .catalog
                .container(Id::Rid(database.rid()), Id::Rid(resource.rid))
        {
            self.keep_versions(&container);
        }
        self.metadata_resource(body, created)
    }

    /// The container is as it was asked for, whether this comes to its end now or with the next maintenance.
    fn keep_versions(&self, container: &Container) {
        let _ = self.begin_versions(container);
    }

    /// Reads a container.
    pub fn read_container(&self, container: &Container) -> Outcome<Resource> {
        self.metadata_read(Ok(container.resource(false)))
    }

    /// Replaces a container's settings. The index follows a new policy by and by, see [`Engine::reindex_some`].
    pub fn replace_container(
        &self,
        container: &Container,
        body: &Object,
        if_match: Option<&str>,
    ) -> Outcome<Resource> {
        let replaced = self.catalog.replace_container(container, body, if_match);
        if replaced.is_ok() {
            self.keep_versions(container);
        }
        self.metadata_resource(body, replaced.map(|()| container.resource(false)))
    }

    /// Deletes a container.
    pub fn delete_container(&self, container: &Container, if_match: Option<&str>) -> Outcome<()> {
        self.metadata_write(0, self.catalog.delete_container(container, if_match))
    }

    /// Reads a container with what its partitions hold, see `statistics`.
    pub fn read_container_with_statistics(&self, container: &Container) -> Outcome<Resource> {
        let mut resource = container.resource(false);
        let shown = operator::statistics::of_container(container).and_then(|statistics| {
            let Ok(Json::Object(mut body)) = parse(&resource.body) else {
                return Err(Error::internal("the body of a container is no object"));
            };
            body.set("statistics", statistics);
            resource.body = Json::Object(body).to_text().into();
            Ok(resource)
        });
        self.metadata_read(shown)
    }

    /// `x-ms-resource-quota` and `x-ms-resource-usage` of a container, sizes in kilobytes: that of the documents, and
    /// that of the collection, which is documents and index.
    pub fn quota(&self, container: &Container) -> (String, String) {
        let stored = container.stored().unwrap_or_default();
        let (items, documents) = (stored.items, stored.bytes.div_ceil(1024));
        let collection = (stored.bytes + stored.index_bytes).div_ceil(1024);
        (
            "documentSize=51200;documentsSize=52428800;documentsCount=-1;collectionSize=52428800;"
                .to_owned(),
            format!(
                "documentSize=0;documentsSize={documents};documentsCount={items};collectionSize={collection};"
            ),
        )
    }

    /// The same headers for scripts: how many of each kind there may be and are.
    pub fn script_quota(&self, container: &Container) -> (String, String) {
        let of = |count: fn(&Container, ScriptKind) -> usize| {
            let [procedures, triggers, functions] =
                ScriptKind::ALL.map(|kind| count(container, kind));
            format!("storedProcedures={procedures};triggers={triggers};functions={functions};")
        };
        (
            of(|_, kind| kind.most()),
            of(|container, kind| container.scripts(kind).len()),
        )
    }

    /// Creates a script.
    pub fn create_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        body: &Object,
        upsert: bool,
    ) -> Outcome<Resource> {
        self.metadata_resource(
            body,
            self.catalog.create_script(container, kind, body, upsert),
        )
    }

    /// Reads a script.
    pub fn read_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
    ) -> Outcome<Resource> {
        self.metadata_read(
            self.catalog
                .find_script(container, kind, id)
                .map(|s| s.resource(container, false)),
        )
    }

    /// Replaces a script.
    pub fn replace_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
        body: &Object,
        if_match: Option<&str>,
    ) -> Outcome<Resource> {
        self.metadata_resource(
            body,
            self.catalog
                .replace_script(container, kind, id, body, if_match),
        )
    }

    /// Deletes a script.
    pub fn delete_script(
        &self,
        container: &Container,
        kind: ScriptKind,
        id: Id<'_>,
        if_match: Option<&str>,
    ) -> Outcome<()> {
        self.metadata_write(0, self.catalog.delete_script(container, kind, id, if_match))
    }

    /// Reads an offer.
    pub fn read_offer(&self, rid: Rid) -> Outcome<Offered> {
        self.metadata_read(self.catalog.offer(rid))
    }

    /// Changes a throughput.
    pub fn replace_offer(
        &self,
        rid: Rid,
        change: &OfferChange,
        if_match: Option<&str>,
    ) -> Outcome<Offered> {
        let replaced = self.catalog.replace_offer(rid, change, if_match);
        self.metadata_write(
            replaced
                .as_ref()
                .map_or(0, |offered| offered.resource.body.len()),
            replaced,
        )
    }

    /// The rows of a feed, each with what keeps its place in the list.
    fn rows_of(&self, feed: Feed<'_>) -> Result<Vec<ListedRow>> {
        let row = |order: &[u8], resource: Resource| {
            let key = [order, resource.rid.as_bytes()].concat();
            ListedRow {
                key,
                text: resource.body,
            }
        };
        Ok(match feed {
            Feed::Databases => {
                let databases = self.catalog.databases();
                databases
                    .iter()
                    .map(|d| row(&d.meta().ts.to_be_bytes(), d.resource(false)))
                    .collect()
            }
            Feed::Containers(database) => {
                let containers = self.catalog.containers(database);
                containers
                    .iter()
                    .map(|c| row(&c.created().to_be_bytes(), c.resource(false)))
                    .collect()
            }
            Feed::Scripts(container, kind) => {
                let number = |rid: Rid| rid.child_number().map_or(0, |(_, number)| number);
                let scripts = container.scripts(kind);
                scripts
                    .iter()
                    .map(|s| {
                        row(
                            &number(s.meta.rid).to_be_bytes(),
                            s.resource(container, false),
                        )
                    })
                    .collect()
            }
            Feed::AccessResources(kind, owner, token_signer) => {
                let access_resources = self.catalog.access_resources(owner, kind);
                access_resources
                    .iter()
                    .map(|p| row(&p.created.to_be_bytes(), p.resource(token_signer, false)))
                    .collect()
            }
            Feed::Offers => self
                .catalog
                .offers()?
                .into_iter()
                .map(|offer| row(&[], offer))
                .collect(),
            Feed::Conflicts(_) => Vec::new(),
        })
    }

    /// A page of a list of resources.
    pub fn list(&self, feed: Feed<'_>, page: &PageRequest) -> Outcome<Page> {
        let query = QueryRequest::everything(page);
        self.metadata_read(
            self.query_feed(feed, &query)
                .result
                .map(|answer| answer.page),
        )
    }

    /// A page of a query over a list of resources.
    pub fn query_feed(&self, feed: Feed<'_>, query: &QueryRequest) -> Outcome<QueryPage> {
        let mut work = orrery_sql::Work::default();
        let rows = self.rows_of(feed);
        let listed = rows.as_ref().map_or(0, Vec::len);
        let environment = orrery_sql::Environment::default();
        let page = rows.and_then(|rows| {
            query::query_rows(
                self.world(),
                &environment,
                &rows,
                query,
                &mut NoFunctions,
                &mut work,
            )
        });
        let counted = orrery_model::work::QueryWork {
            loaded_items: listed as u64,
            returned_rows: work.rows_out,
            returned_bytes: work.bytes_out,
            ..orrery_model::work::QueryWork::default()
        };
        let page = page.map(|page| QueryPage {
            page,
            ..QueryPage::default()
        });
        self.outcome(
            page,
            Work {
                steps: vec![Step::Query(counted)],
            },
            None,
        )
    }

    /// The live physical partitions in order of their ranges, and an etag that changes with them.
    ///
    /// # Errors
    /// What the store reports.
    pub fn partition_key_ranges(&self, container: &Container) -> Result<(Vec<RangeInfo>, String)> {
        let mut ranges = container.ranges()?;
        for id in self.ranges_to_split(container) {
            ranges
                .iter_mut()
                .filter(|range| range.id == id)
                .for_each(|range| range.is_splitting = true);
        }
        let newest = ranges.iter().map(|r| u64::from(r.id)).max().unwrap_or(0);
        let splitting: String = ranges
            .iter()
            .filter(|r| r.is_splitting)
            .map(|r| format!("-{}", r.id))
            .collect();
        Ok((ranges, format!("\"{}{splitting}\"", newest + 1)))
    }

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
            status(&result),
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
    fn run_query(
        &self,
        container: &Container,
        scope: &Scope,
        query: &QueryRequest,
        options: ReadOptions<'_>,
        mut charges: PartitionCharges,
    ) -> (Result<QueryPage>, PartitionCharges, Option<Position>) {
        let mut position = None;
        let result = partition::retry_if_moved(|| {
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
        let reach = query::scope_reach(container, scope)?;
        for (partition, _) in &reach.partitions {
            let lsn = partition.snapshot()?.head().lsn;
            if let [_] = reach.partitions[..] {
                *position = Some(partition.position(lsn, None));
            }
            partition::session::check_session(options.session, partition, lsn)?;
        }
        let context = query::Context {
            engine: self,
            world: self.world(),
            profile: self.profile,
            cross_partition_queries: self.cross_partition_queries,
            admission: options.admission,
        };
        let mut functions = items::scripts::UserFunctions::new(self, container);
        query::run(&context, container, scope, query, &mut functions, charges)
    }

    /// The query plan document for clients that merge themselves (JSON text).
    pub fn query_plan(
        &self,
        container: &Container,
        text: &str,
        parameters: &[(String, Json)],
        features: &str,
        key: Option<&PartitionKey>,
    ) -> Outcome<String> {
        self.metadata_read(query::client_plan(
            container, text, parameters, features, key,
        ))
    }

    /// Waits until everything accepted is durable; for a graceful end.
    ///
    /// # Errors
    /// What the store reports.
    pub fn shut_down(&self) -> Result<()> {
        self.store.sync().map_err(errors::storage_failure)
    }
}

/// Lists of resources have no user-defined functions.
struct NoFunctions;

impl orrery_sql::Functions for NoFunctions {
    fn call(
        &mut self,
        name: &str,
        _: &[Option<Json>],
    ) -> std::result::Result<Option<Json>, orrery_sql::QueryError> {
        Err(orrery_sql::QueryError::Unsupported(format!(
            "The user-defined function '{name}' does not exist here."
        )))
    }
}
