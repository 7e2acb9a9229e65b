//! The engine: databases, containers, physical partitions, items, index, queries, change feed,
//! scripts and throughput.
//!
//! The engine knows no HTTP and no clock. Requests are plain types ([`request`]), time and
//! randomness come from a [`World`], bytes go to a [`Store`]. Everything here is a plain call. A
//! request that may write returns [`Pending`]: a thread waits for it, async code awaits it.
//!
//! The text of an item is kept as the client sent it, and is parsed only when a request needs its
//! content.
//!
//! # A point read, step by step
//!
//! 1. [`Engine::read_item`] checks the shape of the partition key and computes its EPK.
//! 2. `Engine::at_partition` finds the physical partition of the EPK (`Container::partition_of`),
//!    which this process must own (`Partition::check_owned`), and prices the work
//!    (`Profile::price`). `retry_if_moved` repeats the look-up if a split replaced the partition in
//!    between.
//! 3. `Engine::with_admission` asks the budget of the partition (`Engine::admit`), runs the read,
//!    and enters its charge (`Engine::charge`).
//! 4. `Engine::read_stored` takes a snapshot (`Partition::snapshot`) and checks the session token
//!    (`check_session`).
//! 5. `ItemReader::find` reads the primary key row and the item row, and returns no item if the
//!    item is expired or deleted.
//! 6. `read_reply` compares the etag and copies the text of the item.
//!
//! # A create, step by step
//!
//! 1. [`Engine::write_item`] calls `items::check`, which parses the item, extracts its partition
//!    key and compares it with the key of the request. The result is a `CheckedWrite`.
//! 2. `Engine::at_partition` and `Engine::with_admission`, as above.
//! 3. `Engine::write_alone` locks the partition's writer (`Partition::lock`), takes a snapshot and
//!    begins a `Transaction`.
//! 4. `Transaction::create` looks the id up (in its own changes, in accepted commits, in the
//!    snapshot), checks unique keys and size, and computes the index terms (`Terms::of`).
//! 5. `Transaction::commit` compares the old and the new state of each item and turns the
//!    difference into rows: item, primary key, natural order, change feed, index terms, expiry,
//!    unique keys, versions.
//! 6. `Writer::submit` adds the counters and the row of the commit log, assigns the next LSN and
//!    calls `Store::submit`, which accepts the commit in order and returns a receipt. The lock is
//!    free again.
//! 7. The caller waits for the [`Pending`], which ends when the store has synced the commit. If the
//!    store does not know the outcome, `Partition::settle` opens a newer lease and looks into the
//!    commit log first; an outcome that stays unknown is 408. A refusal in step 4 that follows from
//!    an accepted commit waits for that commit in the same way (`Partition::confirm`).
//!
//! A transactional batch takes steps 3 to 6 once for all its operations. A bulk request takes them
//! for each operation, and waits for all of them in step 7. Stored procedures and writes with
//! triggers call `Engine::transact` in place of step 3: the script runs on a durable snapshot
//! without the lock, and the commit is refused and the script repeated if the logical partition was
//! written in the meantime. A transaction beyond the largest commit of a store ends with 413.
//!
//! # A query, step by step
//!
//! [`Engine::query`] resolves the scope to physical partitions, takes a snapshot of each, compiles
//! the text, narrows the partitions, admits the request at each of them, chooses an access path,
//! merges the items, and divides the charge by the work in each partition. The header of `query.rs`
//! has the steps.
//!
//! # The modules, in reading order
//!
//! | module | holds |
//! |---|---|
//! | [`request`] | the types of requests and answers, without behaviour |
//! | `container` | the part of a container that its partitions know; below the next two |
//! | `catalog` | what exists, as rows and in memory: databases, containers, partitions, scripts … |
//! | `metadata` | requests for these resources, with their charge |
//! | `quota` | how much of them there may be and is |
//! | `partition` | one physical partition: keys, rows, writer, transaction, versions, sessions |
//! | `index` | indexing policy, paths, terms, encodings, composite and spatial indexes |
//! | `partition_request` | what all requests at one partition have in common |
//! | `items` | reads, writes, patches, batches, scripts |
//! | `query` | planning, access paths, merging, continuations, metrics, plans for clients |
//! | `feed` | read feed and change feeds |
//! | `throughput` | prices, budgets, admission, parts of a charge |
//! | `traffic` | heat map, top keys, kinds of requests, query forms |
//! | `background` | expiry, delete by key, reindexing, splits and merges |
//! | `prediction` | what a prediction needs: an engine in memory, a sample of items, budgets |
//! | `ownership` | partitions that other processes own, and the way from one owner to the next |
//! | `replica` | an engine on a copy of data that another process writes |
//! | `operator` | inventory, statistics, search indexes, meters, snapshots, damage |
//! | `verify` | every row compared with what must be there; the rebuild of a partition |
//! | `pending` | answers that wait until a commit is durable |
//! | `errors` | failures of other layers as errors for clients |
//!
//! # Promises
//!
//! 1. A write is answered after it is durable, and a refusal after the writes from which it
//!    follows; a reader never sees a write that is not durable.
//! 2. A transaction takes place whole or not at all, and counts as one LSN.
//! 3. The same requests on the same data are charged the same.

mod background;
mod catalog;
mod container;
mod errors;
mod feed;
#[doc(hidden)]
pub mod fuzzing;
mod index;
mod items;
mod metadata;
mod operator;
mod ownership;
mod partition;
mod partition_request;
mod pending;
mod prediction;
mod query;
mod quota;
mod replica;
pub mod request;
mod throughput;
mod traffic;
mod verify;

pub use background::{ClockJump, ITEMS_PER_STEP};
pub use catalog::{
    AccessResource, Container, Database, PermissionContent, PermissionMode, TokenSigner,
    storage_ids,
};
pub use container::owners::{Owners, SoleOwner};
pub use container::tasks::BackgroundTask;
pub use items::{ScriptDenial, ScriptPlace};
pub use metadata::Feed;
pub use operator::{
    ClockRepair, DamagedBlock, DamagedBlockContents, DamagedPartition, LogicalPartitionSize,
    LostWrites, Meters, PartitionInventory, RECALL_SAMPLE_MAX, RecallEstimate, SearchIndexFigures,
    SearchIndexKind, SearchIndexPart, SearchIndexState, SearchIndexStatus, UnchargedItems,
};
pub use orrery_script::Ticket;
pub use orrery_sql::{ClauseInfo, FunctionInfo, Language, PropertyInfo, language};
pub use ownership::{GrantedPartition, LeaseholderWork, NUMBERS_PER_GRANT, PartitionShare};
pub use partition::key_limit::LargeKey;
pub use partition::size_limits::{APPROXIMATE_FROM, DatabaseLimits};
pub use partition::stamps::is_unset_clock;
pub use pending::{Pending, PendingBatch};
pub use prediction::{Arrival, PredictionTurn, SampledItem, Sampling, Served};
pub use query::{Cancel, TextMemory};
pub use quota::Counted;
pub use request::etag_matches;
pub use throughput::{MeterReport, Profile, Standing, ThroughputOptions};
pub use traffic::{Replacement, Seen, Traffic, query_form};
pub use verify::{Check, Finding, FindingPlace, Verification, VerifyProgress};

use background::RangeChanges;
use background::agenda::Agenda;
use background::confirmed_clock::ConfirmedClock;
use catalog::Catalog;
use errors::storage_failure;
use items::{DeniedScripts, ScriptLocks};
use orrery_model::memory::MemoryBudget;
use orrery_model::work::Work;
use orrery_model::world::World;
use orrery_model::{Result, Rid, limits};
use orrery_script::{PoolOptions, ScriptPool};
use orrery_storage::{Copies, Store};
use partition::size_limits::{ApproximateSearch, SizeLimits};
use query::{QueryMemory, Slots};
use replica::ReplicaStore;
use request::{Outcome, Position};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// The side that merges the rows of a query over several physical partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossPartitionQueries {
    /// The engine merges, and a page may hold rows of several partitions.
    #[default]
    Merge,
    /// The client merges, as with the service's gateway: a query that needs merging is refused with
    /// the plan for the client, and a page ends with its partition.
    Refuse,
}

/// Versions of items that the account keeps in containers without a `changeFeedPolicy`, for the
/// change feed with all versions and deletes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccountVersions {
    /// The seconds for which a version is kept.
    pub retention_seconds: u64,
    /// Bytes that the versions of a physical partition may take; the oldest go first. `None` for no
    /// bound but the retention.
    pub partition_bytes: Option<u64>,
}

/// Options of an engine.
pub struct EngineOptions {
    /// Pricing model for request charges.
    pub profile: Profile,
    /// The side that merges queries over several partitions.
    pub cross_partition_queries: CrossPartitionQueries,
    /// Options of the script hosts.
    pub scripts: PoolOptions,
    /// The rule by which a script that times out again and again is denied.
    pub script_denial: ScriptDenial,
    /// Treatment of requests beyond the budget.
    pub throughput: ThroughputOptions,
    /// Memory for what all queries collect together: rows to be sorted, groups, lists.
    pub query_memory: Arc<MemoryBudget>,
    /// Bytes of items beyond which a physical partition is split. The service's limit is
    /// [`limits::PARTITION_BYTES`].
    pub partition_bytes: u64,
    /// Bytes of items that one logical partition may have. The service's limit is
    /// [`limits::LOGICAL_PARTITION_BYTES`].
    pub logical_partition_bytes: u64,
    /// Limits of single databases, in place of the two above.
    pub database_limits: Vec<DatabaseLimits>,
    /// Vectors of a partition from which on an index of the type `quantizedFlat` or `diskANN`
    /// proposes candidates; fewer are all compared. [`APPROXIMATE_FROM`] unless a test says
    /// otherwise.
    pub approximate_from: u64,
    /// Bytes of items that count as a gigabyte where throughput follows the stored data. The
    /// service counts 2^30.
    pub gigabyte: u64,
    /// RU/s of a container whose creation states no throughput and whose database has none. The
    /// service gives [`limits::CONTAINER_RU_PER_SECOND`].
    pub container_ru: u32,
    /// Versions that are kept in containers without a policy; `None` for no versions.
    pub account_versions: Option<AccountVersions>,
    /// The processes that own the partitions.
    pub owners: Arc<dyn Owners>,
}

impl EngineOptions {
    /// Returns the options of the service today, with budgets that are not enforced.
    pub fn new(scripts: PoolOptions) -> Self {
        EngineOptions {
            profile: Profile::default(),
            cross_partition_queries: CrossPartitionQueries::default(),
            scripts,
            script_denial: ScriptDenial::default(),
            throughput: ThroughputOptions::default(),
            query_memory: MemoryBudget::unlimited(),
            partition_bytes: limits::PARTITION_BYTES,
            logical_partition_bytes: limits::LOGICAL_PARTITION_BYTES,
            database_limits: Vec::new(),
            approximate_from: APPROXIMATE_FROM,
            gigabyte: limits::GIGABYTE,
            container_ru: limits::CONTAINER_RU_PER_SECOND,
            account_versions: None,
            owners: Arc::new(SoleOwner),
        }
    }

    /// Returns the limits on the sizes of partitions.
    fn size_limits(&self) -> Arc<SizeLimits> {
        Arc::new(SizeLimits::new(
            self.partition_bytes,
            self.logical_partition_bytes,
            self.database_limits.clone(),
            ApproximateSearch::new(self.approximate_from, &self.query_memory),
        ))
    }
}

/// The engine. Its operations are in the modules, each as an `impl Engine` beside what it works on.
pub struct Engine {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    catalog: Catalog,
    scripts: Arc<ScriptPool>,
    profile: Profile,
    cross_partition_queries: CrossPartitionQueries,
    throughput: ThroughputOptions,
    script_locks: ScriptLocks,
    denied_scripts: DeniedScripts,
    slots: Slots,
    query_memory: QueryMemory,
    meters: Meters,
    range_changes: RangeChanges,
    agenda: Arc<Agenda>,
    confirmed_clock: ConfirmedClock,
    /// The last confirmed time that the store keeps.
    stored_time_ms: AtomicU64,
    /// Containers that the survey has not visited yet.
    unvisited: Mutex<Vec<Rid>>,
    /// Locked while a prediction runs.
    prediction_turn: Mutex<()>,
    /// The copies that the engine reads, if another process writes the data.
    replica: Option<Arc<ReplicaStore>>,
    owners: Arc<dyn Owners>,
    /// Work in containers that only the leaseholder can do.
    leaseholder_work: LeaseholderWork,
}

impl Engine {
    /// Opens an engine on a store. An empty store holds no databases.
    ///
    /// # Errors
    /// 500 if the store cannot be read or holds rows that make no sense.
    pub fn open(
        store: Arc<dyn Store>,
        options: EngineOptions,
        world: Arc<dyn World>,
    ) -> Result<Engine> {
        let scripts = Arc::new(ScriptPool::new(options.scripts.clone()));
        Engine::open_with_scripts(store, options, scripts, world)
    }

    /// Opens an engine whose scripts run in the processes of `scripts`.
    fn open_with_scripts(
        store: Arc<dyn Store>,
        options: EngineOptions,
        scripts: Arc<ScriptPool>,
        world: Arc<dyn World>,
    ) -> Result<Engine> {
        let catalog = Catalog::open(
            Arc::clone(&store),
            Arc::clone(&options.owners),
            Arc::clone(&world),
            options.throughput,
            options.account_versions,
            options.size_limits(),
        )?;
        let engine = Engine::on_catalog(catalog, store, options, scripts, world);
        engine.begin_confirmed_clock()?;
        engine.plan_background_work();
        Ok(engine)
    }

    /// Opens an engine on copies of data that another process writes: it answers reads from
    /// them and refuses everything else with 503. It has no background work. Call
    /// [`Engine::refresh_replica`] after a refusal: the catalog may have changed.
    ///
    /// # Errors
    /// 503 if no copy can be read, 500 if its catalog is damaged.
    pub fn open_replica(
        copies: Arc<dyn Copies>,
        options: EngineOptions,
        world: Arc<dyn World>,
    ) -> Result<Engine> {
        let scripts = Arc::new(ScriptPool::new(options.scripts.clone()));
        let replica = Arc::new(ReplicaStore::new(copies));
        let store: Arc<dyn Store> = replica.clone();
        let catalog = empty_catalog(&store, &options, &world);
        let mut engine = Engine::on_catalog(catalog, store, options, scripts, world);
        engine.replica = Some(replica);
        engine.refresh_replica()?;
        Ok(engine)
    }

    /// Opens an engine on data of which another process, the leaseholder, gives it single
    /// partitions ([`Engine::take_over`]). The catalog is empty until [`Engine::load_catalog`]; the
    /// engine never changes it.
    pub fn open_owner(
        store: Arc<dyn Store>,
        options: EngineOptions,
        world: Arc<dyn World>,
    ) -> Engine {
        let scripts = Arc::new(ScriptPool::new(options.scripts.clone()));
        let catalog = empty_catalog(&store, &options, &world);
        Engine::on_catalog(catalog, store, options, scripts, world)
    }

    fn on_catalog(
        catalog: Catalog,
        store: Arc<dyn Store>,
        options: EngineOptions,
        scripts: Arc<ScriptPool>,
        world: Arc<dyn World>,
    ) -> Engine {
        Engine {
            agenda: Arc::clone(catalog.agenda()),
            confirmed_clock: ConfirmedClock::default(),
            stored_time_ms: AtomicU64::new(0),
            unvisited: Mutex::default(),
            prediction_turn: Mutex::default(),
            replica: None,
            owners: options.owners,
            leaseholder_work: LeaseholderWork::default(),
            catalog: catalog
                .with_gigabyte_bytes(options.gigabyte)
                .with_container_ru(options.container_ru),
            store,
            world,
            scripts,
            profile: options.profile,
            cross_partition_queries: options.cross_partition_queries,
            throughput: options.throughput,
            meters: Meters::new(),
            script_locks: ScriptLocks::default(),
            denied_scripts: DeniedScripts::new(options.script_denial),
            slots: Slots::new(std::thread::available_parallelism().map_or(1, usize::from)),
            query_memory: QueryMemory::new(options.query_memory),
            range_changes: RangeChanges::default(),
        }
    }

    /// Waits until every accepted write is durable. Called before the process ends.
    ///
    /// # Errors
    /// 500 if the store cannot sync.
    pub fn shut_down(&self) -> Result<()> {
        // Without the time the next start only takes longer to trust the clock.
        let _ = self.store_confirmed_time(0);
        self.store.sync().map_err(storage_failure)
    }

    /// Returns the store, for a backup of its files.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Returns why writes are refused now, as a sentence for the operator; `None` if they are
    /// accepted.
    pub fn write_failure(&self) -> Option<String> {
        self.store.write_failure()
    }

    /// Returns the counters for the operator.
    pub fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Returns the processes that run scripts now, busy or idle.
    pub fn script_processes(&self) -> usize {
        self.scripts.processes()
    }

    /// Returns the pages of queries for items that have begun and not ended, including those that
    /// wait for a slot.
    pub fn running_queries(&self) -> usize {
        self.slots.begun()
    }

    /// Returns the pages of queries that wait for a slot.
    pub fn waiting_queries(&self) -> usize {
        self.slots.waiting()
    }

    /// Returns the memory for what queries collect.
    pub fn query_memory(&self) -> &Arc<MemoryBudget> {
        self.query_memory.budget()
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

    /// Returns the slots in which queries work.
    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Returns the locks under which the scripts of a logical partition run one after the other.
    pub(crate) fn script_locks(&self) -> &ScriptLocks {
        &self.script_locks
    }

    /// Returns the scripts that are not run any more.
    pub(crate) fn denied_scripts(&self) -> &DeniedScripts {
        &self.denied_scripts
    }

    /// Returns an answer with the charge of its work.
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
}

/// Returns the catalog of a store before anything was read of it.
fn empty_catalog(
    store: &Arc<dyn Store>,
    options: &EngineOptions,
    world: &Arc<dyn World>,
) -> Catalog {
    Catalog::empty(
        Arc::clone(store),
        Arc::clone(&options.owners),
        Arc::clone(world),
        options.throughput,
        options.account_versions,
        options.size_limits(),
    )
}
