//! The store: the calls of the trait, and the threads that serve them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orrery_model::sync::lock;
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, FollowerLag, KnownHead, Lease, PartitionId, ReadAhead,
    Receipt, Snapshot, Store, StoreError,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::timeout;

use crate::backup_facts::BackupFacts;
use crate::config::ClusterConfig;
use crate::connector::{Connector, Purpose, explain};
use crate::followers::{self, Followers};
use crate::head::HeadRow;
use crate::identity::{ClusterId, Expected, Found, name_of};
use crate::idle::Idle;
use crate::outage::PATIENCE;
use crate::partitions::{Answer, CommitWork, Partitions, Start, Work};
use crate::pool::Pool;
use crate::row_snapshot::{self, KnownRows, RowSnapshot};
use crate::slot::Ticket;
use crate::snapshot::PostgresSnapshot;
use crate::steps;
use crate::wait::{block_on, block_on_unless};
use crate::workers;

/// Milliseconds that a caller is told to wait for a primary.
pub(crate) const RETRY_MS: u64 = 1_000;
/// The partitions that are removed at the same time.
const REMOVALS: usize = 1;
/// Attempts to raise the epochs of all partitions.
const FENCE_ATTEMPTS: usize = 3;
/// The time in which the first connection is made to a cluster that is not away.
const FIRST_CONNECTION: Duration = Duration::from_secs(2);
/// The time in which a store is opened whose cluster answers. Tables that are created take longer
/// than a connection.
const FIRST_OPENING: Duration = Duration::from_secs(5);
/// The time between two attempts to open a store later.
const LATER_PERIOD: Duration = Duration::from_millis(250);
/// The time in which a connection that was prepared answers, and the time between two tests.
const TEST_TIMEOUT: Duration = Duration::from_millis(500);
const TEST_PERIOD: Duration = Duration::from_secs(5);
/// The threads of a store.
const THREADS: usize = 2;
/// The time for a task that a worker performs; it gives up much earlier itself, except for the
/// deletion of many rows.
const TASK_TIMEOUT: Duration = Duration::from_secs(4 * 3_600);
/// The time for which a measured size is good.
const SIZE_AGE: Duration = Duration::from_secs(30);
/// The partition number that is reserved for stores.
const RESERVED: PartitionId = PartitionId(u64::MAX);

/// The settings of a store that depend on its owner, and not on the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// No other process writes to the partitions that this store reads: the owner holds a lease
    /// over them, and looks after each snapshot if the lease is still valid. The store then uses
    /// the transaction of a snapshot again while no commit of its own has changed the partition.
    /// A commit of another process would be missed for a second.
    ///
    /// Opening the store therefore raises the epochs of all partitions but those of
    /// [`StoreOptions::spared`]: a commit that an earlier owner has sent takes place before the
    /// store is open, or never.
    pub only_writer: bool,
    /// No other process writes a partition from the moment at which this store has opened it until
    /// the store releases it. The store then uses transactions again in such partitions only.
    pub owns_opened: bool,
    /// A partition that other processes write too: that of the lease.
    pub spared: Option<PartitionId>,
    /// The cluster that must be there.
    pub expected: Expected,
}

/// A store in one PostgreSQL cluster. Dropping the store waits until every accepted commit is
/// answered.
pub struct PostgresStore {
    shared: Arc<Shared>,
    /// Taken when the store is dropped.
    runtime: Option<Runtime>,
    /// The size in bytes, and when it was measured.
    size: Mutex<Option<(Instant, u64)>>,
}

/// A store that has connections, and reads and changes no data before it is opened.
pub struct PreparedStore {
    store: PostgresStore,
    /// Replaces connections that have ended.
    keeper: AbortHandle,
}

impl PreparedStore {
    /// Opens the store. Connections that do not answer at once are replaced, and so are those to a
    /// server that Patroni does not name as the primary: an old primary that was replaced may still
    /// answer.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn open(self) -> Result<PostgresStore, StoreError> {
        self.test().take_over()
    }

    /// Opens the store, or if the cluster cannot be used now, begins to open it in the background.
    /// Until then all calls of the store fail as those of a cluster that is away. No attempt begins
    /// while `may_open` returns false: the opening fences other owners.
    #[must_use]
    pub fn open_or_later(
        self,
        may_open: impl Fn() -> bool + Send + Sync + 'static,
    ) -> PostgresStore {
        self.test().take_over_or_later(may_open)
    }

    /// Sets the cluster that must be there. Connections to another one are closed.
    pub fn expect(&self, expected: Expected) {
        if !self.store.shared.connector.expect(expected) {
            let shared = self.store.shared.clone();
            let _ = self.store.run_on_own_threads(async move {
                test_prepared(&shared, |_| false).await;
                Ok(())
            });
        }
    }

    /// Replaces the connections that [`PreparedStore::open`] does not use.
    fn test(self) -> PostgresStore {
        self.keeper.abort();
        let shared = self.store.shared.clone();
        // Without an end of the test no connection is idle.
        let _ = self.store.run_on_own_threads(async move {
            let possible = shared.connector.possible_primaries().await;
            test_prepared(&shared, |host| possible[host]).await;
            Ok(())
        });
        self.store
    }
}

/// Makes one connection for reads and one for commits, and replaces them when they have ended.
/// Never ends.
async fn keep_prepared(shared: Arc<Shared>) {
    loop {
        tokio::join!(
            shared.writers.prepare_session(),
            shared.readers.prepare_session(),
        );
        tokio::time::sleep(TEST_PERIOD).await;
        test_prepared(&shared, |_| true).await;
    }
}

/// Closes the prepared connections that do not answer, or are to servers that are not `wanted`.
async fn test_prepared(shared: &Shared, wanted: impl Fn(usize) -> bool + Copy) {
    tokio::join!(
        shared.writers.test_idle(TEST_TIMEOUT, wanted),
        shared.readers.test_idle(TEST_TIMEOUT, wanted),
    );
}

/// The parts that the calls, the workers and the snapshots of a store share.
pub(crate) struct Shared {
    pub(crate) connector: Arc<Connector>,
    pub(crate) options: StoreOptions,
    pub(crate) readers: Arc<Pool>,
    pub(crate) writers: Arc<Pool>,
    /// Connections for the removal of partitions.
    pub(crate) removers: Arc<Pool>,
    pub(crate) followers: Followers,
    /// Snapshots for the next callers.
    pub(crate) idle: Idle,
    pub(crate) runtime: Handle,
    partitions: Mutex<Partitions>,
    /// False until what an earlier owner has left is done: no call may pass that.
    is_open: AtomicBool,
    /// The reason for which the last attempt to open the store failed.
    opening_failure: Mutex<Option<String>>,
}

impl Shared {
    pub(crate) fn partitions(&self) -> MutexGuard<'_, Partitions> {
        lock(&self.partitions)
    }

    /// Returns the newest row of a partition that is known to be durable.
    pub(crate) fn known(&self, id: PartitionId) -> HeadRow {
        self.partitions().durable(id)
    }

    /// Returns partitions with their newest rows that are known to be durable.
    pub(crate) fn known_of(&self, ids: &[PartitionId]) -> Vec<(PartitionId, HeadRow)> {
        let partitions = self.partitions();
        ids.iter().map(|&id| (id, partitions.durable(id))).collect()
    }

    /// Notes a row that is durable, before its commits are answered.
    pub(crate) fn note_durable(&self, id: PartitionId, row: HeadRow) {
        self.partitions().note_durable(id, row);
        self.end_idle(id);
    }

    /// Notes that commits are durable, before they are answered. They were sent after `begun`.
    pub(crate) fn note_committed(&self, work: &CommitWork, begun: Instant) {
        self.partitions().note_committed(work, begun);
        self.end_idle(work.id);
    }

    /// Returns rows from the cache, with the head, if all of them are known.
    pub(crate) fn cached(
        &self,
        id: PartitionId,
        ahead: &ReadAhead,
    ) -> Option<(HeadRow, KnownRows)> {
        let partitions = self.partitions();
        self.may_reuse(&partitions, id)
            .then(|| partitions.cached(id, ahead))?
    }

    /// Keeps rows in the cache that a statement has read after `begun`, together with the head.
    pub(crate) fn keep(&self, id: PartitionId, row: HeadRow, found: &KnownRows, begun: Instant) {
        let mut partitions = self.partitions();
        if self.may_reuse(&partitions, id) {
            partitions.keep(id, row, found, begun);
        }
    }

    /// Returns true if rows of a partition are kept in memory.
    fn keeps_rows(&self, id: PartitionId) -> bool {
        self.connector.config.cache_mb > 0 && self.may_reuse(&self.partitions(), id)
    }

    /// Returns true if no other process writes a partition.
    pub(crate) fn may_reuse(&self, partitions: &Partitions, id: PartitionId) -> bool {
        let options = self.options;
        options.only_writer || (options.owns_opened && partitions.is_opened(id))
    }

    /// Notes the row of a newer epoch; `loss` says which commits are gone.
    pub(crate) fn note_epoch(&self, id: PartitionId, row: HeadRow, loss: Option<String>) {
        self.partitions().note_epoch(id, row, loss);
        self.end_idle(id);
    }

    /// Returns the error of a call that another attempt may pass.
    pub(crate) fn unavailable(&self, detail: String) -> StoreError {
        StoreError::Cluster {
            cluster: self.connector.config.name.clone(),
            detail,
            retry_after_ms: Some(RETRY_MS),
        }
    }

    /// Checks that the store is open.
    ///
    /// # Errors
    /// As [`Shared::unavailable`].
    fn check_open(&self) -> Result<(), StoreError> {
        if self.is_open.load(Ordering::Acquire) {
            return Ok(());
        }
        let reason = self.opening_reason();
        Err(self.unavailable(reason.unwrap_or_else(|| "it is being opened".to_owned())))
    }

    /// Returns the reason for which a store that is not open could not be opened.
    fn opening_reason(&self) -> Option<String> {
        let is_open = self.is_open.load(Ordering::Acquire);
        let failure = || lock(&self.opening_failure).clone();
        self.connector
            .failure()
            .or_else(failure)
            .filter(|_| !is_open)
    }

    /// Checks that reads can be begun: the store is open, and there is a primary or a connection
    /// from before. A call at another time would keep its thread until it gives up.
    ///
    /// # Errors
    /// As [`Shared::unavailable`].
    fn check_reads(&self) -> Result<(), StoreError> {
        self.check_open()?;
        match self.connector.failure() {
            Some(reason) if !self.readers.has_idle() => Err(self.unavailable(reason)),
            _ => Ok(()),
        }
    }

    /// Checks that commits can be begun: as [`Shared::check_reads`], and the cluster answers
    /// commits.
    ///
    /// # Errors
    /// As [`Shared::unavailable`].
    fn check_writes(&self) -> Result<(), StoreError> {
        self.check_open()?;
        let away = match self.connector.failure() {
            Some(reason) => (!self.writers.has_idle()).then_some(reason),
            None => self.connector.stall.reason_since(PATIENCE),
        };
        match away {
            Some(reason) => Err(self.unavailable(reason)),
            None => Ok(()),
        }
    }

    /// Returns true for a call that has waited for long enough, because the cluster is away or does
    /// not answer commits.
    pub(crate) fn is_over(&self, waited: Duration) -> bool {
        self.connector.outage.is_over(waited) || self.connector.stall.is_over(waited)
    }

    /// Queues work, and starts what is needed for it.
    fn push(self: &Arc<Self>, id: PartitionId, work: Work) {
        let start = self.partitions().push(id, work);
        self.start(start);
    }

    /// Starts a worker if one is needed.
    pub(crate) fn start_worker(self: &Arc<Self>) {
        let start = self.partitions().needs_worker();
        self.start(start);
    }

    /// Starts a task.
    pub(crate) fn start(self: &Arc<Self>, start: Option<Start>) {
        match start {
            None => {}
            Some(Start::Worker) => drop(self.runtime.spawn(workers::run(self.clone()))),
            Some(Start::Other(id, work)) => {
                drop(
                    self.runtime
                        .spawn(workers::do_other(self.clone(), id, work)),
                );
            }
        }
    }
}

impl PostgresStore {
    /// Connects to a cluster, and creates the tables if there are none.
    ///
    /// # Errors
    /// [`StoreError::Cluster`] if the description cannot be used, no primary can be reached with
    /// it, or the tables have a format that this program does not know.
    pub fn open(config: ClusterConfig) -> Result<PostgresStore, StoreError> {
        PostgresStore::open_with(config, StoreOptions::default())
    }

    /// Connects to a cluster as [`PostgresStore::open`] does, with the settings of an owner.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn open_with(
        config: ClusterConfig,
        options: StoreOptions,
    ) -> Result<PostgresStore, StoreError> {
        PostgresStore::begin(config, options)?.take_over()
    }

    /// Connects to a cluster as [`PostgresStore::open_with`] does, or if the cluster cannot be used
    /// now, begins to do so in the background. Until then all calls of the store fail as those of a
    /// cluster that is away.
    ///
    /// # Errors
    /// [`StoreError::Cluster`] if the description cannot be used.
    pub fn open_or_later(
        config: ClusterConfig,
        options: StoreOptions,
    ) -> Result<PostgresStore, StoreError> {
        Ok(PostgresStore::begin(config, options)?.take_over_or_later(|| true))
    }

    /// Makes connections to a cluster for a store that is opened later, at a moment that must not
    /// wait for connections. A cluster that cannot be reached now is no error.
    ///
    /// # Errors
    /// [`StoreError::Cluster`] if the description cannot be used.
    pub fn prepare(
        config: ClusterConfig,
        options: StoreOptions,
    ) -> Result<PreparedStore, StoreError> {
        let store = PostgresStore::begin(config, options)?;
        let keeper = store
            .shared
            .runtime
            .spawn(keep_prepared(store.shared.clone()));
        let keeper = keeper.abort_handle();
        Ok(PreparedStore { store, keeper })
    }

    /// Looks at what is at the place that a description names, and changes nothing.
    ///
    /// # Errors
    /// As [`PostgresStore::open`].
    pub fn look(config: ClusterConfig) -> Result<Found, StoreError> {
        let store = PostgresStore::begin(config, StoreOptions::default())?;
        let connector = store.shared.connector.clone();
        let looked = store.run_on_own_threads(async move { connector.look().await });
        looked.map_err(|detail| store.failure(detail))
    }

    /// Asks the primary of a cluster for the facts on which a base backup depends.
    ///
    /// # Errors
    /// [`StoreError::Cluster`] if no primary answers.
    pub fn backup_facts(config: ClusterConfig) -> Result<BackupFacts, StoreError> {
        let store = PostgresStore::begin(config, StoreOptions::default())?;
        let connector = store.shared.connector.clone();
        let facts = store.run_on_own_threads(async move { connector.backup_facts().await });
        facts.map_err(|detail| store.failure(detail))
    }

    fn failure(&self, detail: String) -> StoreError {
        StoreError::Cluster {
            cluster: self.shared.connector.config.name.clone(),
            detail,
            retry_after_ms: None,
        }
    }

    /// Checks that the role of the description may write, and changes nothing. A cluster that does
    /// not answer now is no error.
    ///
    /// # Errors
    /// [`StoreError::Cluster`] with the remedy, if the server refuses that.
    pub fn check_rights(&self) -> Result<(), StoreError> {
        let connector = self.shared.connector.clone();
        let checked = self.run_on_own_threads(async move { connector.check_rights().await });
        checked.map_err(|detail| self.failure(detail))
    }

    /// Returns the id of the cluster; `None` while there was no connection to the expected one.
    pub fn id(&self) -> Option<ClusterId> {
        self.shared.connector.id()
    }

    /// Creates a store that has no connection yet.
    fn begin(config: ClusterConfig, options: StoreOptions) -> Result<PostgresStore, StoreError> {
        let cluster = config.name.clone();
        let failed = |detail: String| StoreError::Cluster {
            cluster: cluster.clone(),
            detail,
            retry_after_ms: None,
        };
        config.check().map_err(|error| failed(error.to_string()))?;
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("orrery-postgres")
            .enable_all()
            .build()
            .map_err(|error| failed(format!("cannot start threads: {error}")))?;
        let (reads, writes) = (config.read_connections, config.write_connections);
        let cache_bytes = config.cache_mb << 20;
        let connector =
            Connector::new(config, options.expected, runtime.handle().clone()).map_err(failed)?;
        let connector = Arc::new(connector);
        Ok(PostgresStore {
            shared: Arc::new(Shared {
                readers: Pool::new(connector.clone(), Purpose::Read, reads),
                writers: Pool::new(connector.clone(), Purpose::Write, writes),
                removers: Pool::new(connector.clone(), Purpose::Write, REMOVALS),
                followers: Followers::new(&connector, &connector.config),
                connector,
                options,
                idle: Idle::default(),
                runtime: runtime.handle().clone(),
                partitions: Mutex::new(Partitions::new(cache_bytes, writes)),
                is_open: AtomicBool::new(false),
                opening_failure: Mutex::default(),
            }),
            runtime: Some(runtime),
            size: Mutex::new(None),
        })
    }

    /// Opens the store.
    fn take_over(self) -> Result<PostgresStore, StoreError> {
        // The first connection finds every mistake of the description.
        let opened = self.run_on_own_threads(open_shared(self.shared.clone()));
        opened.map_err(|detail| StoreError::Cluster {
            cluster: self.shared.connector.config.name.clone(),
            detail,
            retry_after_ms: None,
        })?;
        Ok(self)
    }

    /// Opens the store, at once or in the background.
    fn take_over_or_later(
        self,
        may_open: impl Fn() -> bool + Send + Sync + 'static,
    ) -> PostgresStore {
        let shared = self.shared.clone();
        let (sender, first) = oneshot::channel::<()>();
        self.shared.runtime.spawn(async move {
            let mut first = Some(sender);
            loop {
                if may_open() {
                    let Err(reason) = open_shared(shared.clone()).await else {
                        return;
                    };
                    let last = lock(&shared.opening_failure).replace(reason.clone());
                    if last.as_ref() != Some(&reason) {
                        let name = &shared.connector.config.name;
                        log::warn!(
                            "the cluster '{name}' cannot be used now, and is opened as soon as \
                             possible: {reason}"
                        );
                    }
                }
                // The caller does not wait for further attempts.
                first.take();
                tokio::time::sleep(LATER_PERIOD).await;
            }
        });
        let connector = self.shared.connector.clone();
        let is_over = |waited| {
            let is_silent = waited > FIRST_CONNECTION && !connector.has_connected();
            is_silent || waited > FIRST_OPENING || connector.outage.is_over(waited)
        };
        // An end without an answer is the end of the first attempt.
        let _ = block_on_unless(first, TASK_TIMEOUT, is_over);
        self
    }

    /// Waits for work that the store's own threads do, with their clock.
    fn run_on_own_threads<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, String>> + Send + 'static,
    ) -> Result<T, String> {
        let work = self.shared.runtime.spawn(work);
        match block_on(work, TASK_TIMEOUT) {
            Some(Ok(result)) => result,
            _ => Err("no answer".to_owned()),
        }
    }

    /// Waits for the answer of a worker, which may be busy with the outcome of a commit. The wait
    /// ends early while the cluster is away.
    fn wait_for<T>(&self, answer: oneshot::Receiver<T>) -> Option<T> {
        let is_over = |waited| self.shared.is_over(waited);
        block_on_unless(answer, TASK_TIMEOUT, is_over)?.ok()
    }

    /// Returns the reason why a worker gave no answer.
    fn no_answer(&self) -> String {
        let reason = self.shared.connector.failure();
        reason.unwrap_or_else(|| "there was no answer".to_owned())
    }

    /// Waits until the tasks that partitions have queued are done.
    fn pass_barriers(&self, partitions: &[PartitionId]) -> Result<(), StoreError> {
        let mut answers = Vec::new();
        for id in partitions {
            let (sender, receiver) = oneshot::channel();
            self.shared.push(*id, Work::Barrier(sender));
            answers.push(receiver);
        }
        for answer in answers {
            if self.wait_for(answer).is_none() {
                return Err(self.shared.unavailable(self.no_answer()));
            }
        }
        Ok(())
    }

    /// Waits until the commits of the partitions that are `wanted` are durable.
    ///
    /// # Errors
    /// When commits failed meanwhile, or the cluster is away.
    fn sync_busy(&self, wanted: impl Fn(PartitionId) -> bool) -> Result<(), StoreError> {
        // The lock is released here: queueing takes it again.
        let (mut busy, failed) = {
            let partitions = self.shared.partitions();
            (partitions.busy(), partitions.failed())
        };
        busy.retain(|partition| wanted(*partition));
        self.pass_barriers(&busy)?;
        if self.shared.partitions().failed() != failed {
            let detail = "commits failed while they were waited for".to_owned();
            return Err(self.shared.unavailable(detail));
        }
        Ok(())
    }

    /// Queues work of one partition and waits for its answer.
    fn perform<T>(
        &self,
        id: PartitionId,
        work: impl FnOnce(Answer<T>) -> Work,
    ) -> Result<T, StoreError> {
        if id == RESERVED {
            return Err(StoreError::ReservedPartition(id));
        }
        self.shared.check_writes()?;
        let (sender, receiver) = oneshot::channel();
        self.shared.push(id, work(sender));
        let answer = self.wait_for(receiver);
        let answer = answer.unwrap_or_else(|| Err(self.no_answer()));
        answer.map_err(|detail| self.shared.unavailable(detail))
    }

    /// Measures the size of the tables.
    fn measure(&self) -> Option<u64> {
        let shared = self.shared.clone();
        let measured = async move {
            let place = shared.writers.place().await.ok()?;
            let session = place.session().await.ok()?;
            let schema = &shared.connector.config.schema;
            let sizes = format!(
                "SELECT pg_total_relation_size('{schema}.kv') \
                 + pg_total_relation_size('{schema}.head')"
            );
            // Engines without this function count the bytes of the rows.
            let sums =
                format!("SELECT coalesce(sum(length(k) + length(v)), 0)::bigint FROM {schema}.kv");
            let mut row = session.run(session.client.query_one(&sizes, &[])).await;
            if row.is_err() {
                row = session.run(session.client.query_one(&sums, &[])).await;
            }
            let bytes: i64 = row.ok()?.try_get(0).ok()?;
            place.give_back(session);
            Some(bytes as u64)
        };
        block_on(measured, self.shared.connector.config.read_timeout()).flatten()
    }
}

/// Goes on with the removals that an earlier owner has begun, and fences what such an owner may
/// have sent. The store is open then.
async fn open_shared(shared: Arc<Shared>) -> Result<(), String> {
    for (id, epoch) in unfinished_removals(shared.clone()).await? {
        let work = steps::complete_removal(shared.clone(), id, epoch);
        shared.runtime.spawn(work);
    }
    if shared.options.only_writer {
        fence_all(shared.clone()).await?;
    }
    shared.is_open.store(true, Ordering::Release);
    Ok(())
}

/// Returns the partitions whose removal is not complete, with their epochs.
async fn unfinished_removals(shared: Arc<Shared>) -> Result<Vec<(PartitionId, u64)>, String> {
    let place = shared.writers.place().await?;
    let session = place.session().await?;
    let schema = &shared.connector.config.schema;
    let query = format!("SELECT p, epoch FROM {schema}.head WHERE state = 1");
    let rows = session.run(session.client.query(&query, &[]));
    let rows = timeout(shared.connector.config.read_timeout(), rows).await;
    let rows = rows.map_err(|_| "the server did not answer".to_owned())?;
    let rows = rows.map_err(|error| explain(&error))?;
    place.give_back(session);
    let number = |row: &tokio_postgres::Row, column: usize| {
        let number: Result<i64, _> = row.try_get(column);
        number
            .map(|number| number as u64)
            .map_err(|error| explain(&error))
    };
    rows.iter()
        .map(|row| Ok((PartitionId(number(row, 0)?), number(row, 1)?)))
        .collect()
}

/// Raises the epoch of every partition, so that no transaction that another process has sent can
/// take place any more. A partition whose removal is not complete keeps its epoch, which the
/// removal compares. Waits for transactions that hold a head; the server ends those of a lost
/// client after the time of a commit. A server that takes longer is left for another one: it may
/// have lost its standbys.
async fn fence_all(shared: Arc<Shared>) -> Result<(), String> {
    let schema = &shared.connector.config.schema;
    let spared = shared.options.spared.unwrap_or(RESERVED).0 as i64;
    let fence = format!("UPDATE {schema}.head SET epoch = epoch + 1 WHERE state = 0 AND p <> $1");
    let limit = 2 * shared.connector.config.commit_timeout();
    let mut last = String::new();
    for _ in 0..FENCE_ATTEMPTS {
        let place = shared.writers.place().await?;
        let session = place.session().await?;
        let fenced = async { session.client.execute(&fence, &[&spared]).await };
        match timeout(limit, session.run(fenced)).await {
            Ok(Ok(_)) => {
                place.give_back(session);
                return Ok(());
            }
            // Another owner that fences at the same time may lock heads in another order.
            Ok(Err(error)) => {
                last = explain(&error);
                if let Some(code) = error.code() {
                    last = shared.connector.explain_refusal(code, &last);
                }
            }
            Err(_) => {
                shared.connector.suspect(session.host);
                last = format!("no answer within {} ms", limit.as_millis());
            }
        }
        session.mark_broken();
    }
    Err(last)
}

impl Store for PostgresStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.perform(partition, Work::Open)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        if self.shared.check_writes().is_err() {
            return Receipt::ready(steps::unavailable());
        }
        let accepted = self.shared.partitions().submit(lease, commit);
        match accepted {
            Ok((slot, start)) => {
                self.shared.start(start);
                Receipt::pending(Ticket(slot))
            }
            Err(refusal) => Receipt::ready(refusal),
        }
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        if partition == RESERVED {
            return Err(StoreError::ReservedPartition(partition));
        }
        self.shared.check_reads()?;
        let snapshot = PostgresSnapshot::take(self.shared.clone(), partition)?;
        Ok(Box::new(snapshot))
    }

    fn snapshots(&self, partitions: &[PartitionId]) -> Result<Vec<Box<dyn Snapshot>>, StoreError> {
        if let [partition] = partitions {
            return Ok(vec![self.snapshot(*partition)?]);
        }
        if let Some(&reserved) = partitions.iter().find(|&&id| id == RESERVED) {
            return Err(StoreError::ReservedPartition(reserved));
        }
        self.shared.check_reads()?;
        let taken = PostgresSnapshot::take_together(&self.shared, partitions)?;
        let boxed = |snapshot| -> Box<dyn Snapshot> { Box::new(snapshot) };
        Ok(taken.into_iter().map(boxed).collect())
    }

    fn snapshot_ahead(
        &self,
        partition: PartitionId,
        ahead: &ReadAhead,
    ) -> Result<Box<dyn Snapshot>, StoreError> {
        if partition == RESERVED {
            return Err(StoreError::ReservedPartition(partition));
        }
        self.shared.check_reads()?;
        let snapshot = RowSnapshot::take(self.shared.clone(), partition, ahead)?;
        Ok(Box::new(snapshot))
    }

    fn read_ahead(&self, partition: PartitionId, ahead: &ReadAhead) -> Result<(), StoreError> {
        if !self.shared.keeps_rows(partition) {
            return Ok(());
        }
        self.shared.check_reads()?;
        row_snapshot::read_ahead(&self.shared, partition, ahead)
    }

    fn follower_snapshots(
        &self,
        wanted: &[(PartitionId, u64)],
    ) -> Result<Option<Vec<Box<dyn Snapshot>>>, StoreError> {
        if let Some(&(reserved, _)) = wanted.iter().find(|(id, _)| *id == RESERVED) {
            return Err(StoreError::ReservedPartition(reserved));
        }
        self.shared.check_reads()?;
        let Some(found) = followers::snapshots(&self.shared, wanted)? else {
            return Ok(None);
        };
        let boxed = |snapshot| -> Box<dyn Snapshot> { Box::new(snapshot) };
        Ok(Some(found.into_iter().map(boxed).collect()))
    }

    fn follower_lag(&self) -> Vec<FollowerLag> {
        followers::lag(&self.shared)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.perform(partition, Work::Destroy)
    }

    fn release(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.shared.check_writes()?;
        let is_busy = self.shared.partitions().busy().contains(&partition);
        let passed = match is_busy {
            true => self.pass_barriers(&[partition]),
            false => Ok(()),
        };
        let may_be_on_its_way = {
            let mut partitions = self.shared.partitions();
            partitions.release(partition);
            partitions.is_in_doubt(partition)
        };
        self.shared.end_idle(partition);
        if may_be_on_its_way {
            let detail = "the outcome of a commit is not known".to_owned();
            return Err(self.shared.unavailable(detail));
        }
        passed
    }

    fn known_head(&self, partition: PartitionId) -> Option<KnownHead> {
        self.shared.partitions().known_head(partition)
    }

    fn note_known_head(&self, partition: PartitionId, known: &KnownHead) {
        let had_lease = self.shared.partitions().note_known_head(partition, known);
        self.shared.end_idle(partition);
        if had_lease {
            let cluster = &self.shared.connector.config.name;
            log::error!(
                "another node knows newer commits of {} than the cluster '{cluster}' had when this \
                 node opened the partition, which is opened again",
                name_of(partition)
            );
        }
    }

    fn check_reachable(&self, _partition: PartitionId) -> Result<(), StoreError> {
        self.shared.check_reads()
    }

    fn sync_partition(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.sync_busy(|busy| busy == partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.sync_busy(|_| true)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            // A snapshot keeps a connection, and old rows on the server.
            long_snapshots: false,
            followers: self.shared.followers.are_possible(),
            remote: true,
        }
    }

    fn refusal(&self, _may_use_reserve: bool) -> Option<CommitOutcome> {
        if self.shared.check_writes().is_err() {
            return Some(steps::unavailable());
        }
        self.shared.partitions().refusal()
    }

    fn write_failure(&self) -> Option<String> {
        let shared = &self.shared;
        let loss = shared.partitions().loss();
        loss.or_else(|| shared.connector.failure())
            .or_else(|| shared.opening_reason())
            .or_else(|| shared.connector.stall.reason_since(PATIENCE))
    }

    fn approximate_bytes(&self) -> u64 {
        let measured = *lock(&self.size);
        // The callers measure all clusters, and none waits for one that is away.
        let is_away = self.shared.connector.failure().is_some();
        match measured {
            _ if is_away => measured.map_or(0, |(_, bytes)| bytes),
            Some((at, bytes)) if at.elapsed() < SIZE_AGE => bytes,
            _ => {
                let bytes = self.measure().or(measured.map(|(_, bytes)| bytes));
                *lock(&self.size) = bytes.map(|bytes| (Instant::now(), bytes));
                bytes.unwrap_or(0)
            }
        }
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        // A failure was reported to the caller of the commit concerned; no caller is left here.
        let _ = self.sync();
        self.shared.idle.close();
        self.shared.followers.close();
        if let Some(runtime) = self.runtime.take() {
            // Snapshots that are held longer fail; the server ends their transactions. Nothing is
            // waited for, since a store may be dropped on a thread that must not block.
            runtime.shutdown_background();
        }
    }
}
