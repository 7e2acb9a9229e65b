//! The store: the calls of the trait, and the threads that serve them.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use orrery_model::sync::lock;
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, FollowerLag, Lease, PartitionId, Receipt, Snapshot, Store,
    StoreError,
};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::config::ClusterConfig;
use crate::connector::{Connector, Purpose, explain};
use crate::followers::{self, Followers};
use crate::head::HeadRow;
use crate::idle::Idle;
use crate::lane;
use crate::partitions::{Answer, Partitions, Work};
use crate::pool::Pool;
use crate::slot::Ticket;
use crate::snapshot::PostgresSnapshot;
use crate::wait::block_on;

/// Milliseconds that a caller is told to wait for a primary.
pub(crate) const RETRY_MS: u64 = 1_000;
/// The partitions that are removed at the same time.
const REMOVALS: usize = 1;
/// Attempts to raise the epochs of all partitions.
const FENCE_ATTEMPTS: usize = 3;
/// The threads of a store.
const THREADS: usize = 2;
/// The time for a task that a lane performs; the lane itself gives up much earlier, except for the
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
    /// A partition that other processes write too: that of the lease.
    pub spared: Option<PartitionId>,
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

/// The parts that the calls, the lanes and the snapshots of a store share.
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
}

impl Shared {
    pub(crate) fn partitions(&self) -> MutexGuard<'_, Partitions> {
        lock(&self.partitions)
    }

    /// Returns the newest row of a partition that is known to be durable.
    pub(crate) fn known(&self, id: PartitionId) -> HeadRow {
        self.partitions().durable(id)
    }

    /// Notes a row that is durable, before its commits are answered.
    pub(crate) fn note_durable(&self, id: PartitionId, row: HeadRow) {
        self.partitions().note_durable(id, row);
        self.end_idle(id);
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

    /// Queues work, and starts a lane if the partition has none.
    fn push(self: &Arc<Self>, id: PartitionId, work: Work) {
        if self.partitions().push(id, work) {
            self.start_lane(id);
        }
    }

    fn start_lane(self: &Arc<Self>, id: PartitionId) {
        self.runtime.spawn(lane::run(self.clone(), id));
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
        let connector = Connector::new(config, runtime.handle().clone()).map_err(failed)?;
        let connector = Arc::new(connector);
        let store = PostgresStore {
            shared: Arc::new(Shared {
                readers: Pool::new(connector.clone(), Purpose::Read, reads),
                writers: Pool::new(connector.clone(), Purpose::Write, writes),
                removers: Pool::new(connector.clone(), Purpose::Write, REMOVALS),
                followers: Followers::new(&connector, &connector.config),
                connector,
                options,
                idle: Idle::default(),
                runtime: runtime.handle().clone(),
                partitions: Mutex::new(Partitions::default()),
            }),
            runtime: Some(runtime),
            size: Mutex::new(None),
        };
        // The first connection finds every mistake of the description.
        let unfinished = block_on(unfinished_removals(store.shared.clone()), TASK_TIMEOUT);
        let unfinished = unfinished.unwrap_or_else(|| Err("no answer".to_owned()));
        for (id, epoch) in unfinished.map_err(failed)? {
            let work = lane::complete_removal(store.shared.clone(), id, epoch);
            store.shared.runtime.spawn(work);
        }
        if options.only_writer {
            let fenced = block_on(fence_all(store.shared.clone()), TASK_TIMEOUT);
            fenced
                .unwrap_or_else(|| Err("no answer".to_owned()))
                .map_err(failed)?;
        }
        Ok(store)
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
        let (sender, receiver) = oneshot::channel();
        self.shared.push(id, work(sender));
        let answer = match block_on(receiver, TASK_TIMEOUT) {
            Some(Ok(answer)) => answer,
            _ => Err("there was no answer".to_owned()),
        };
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

/// Returns the partitions whose removal is not complete, with their epochs.
async fn unfinished_removals(shared: Arc<Shared>) -> Result<Vec<(PartitionId, u64)>, String> {
    let place = shared.writers.place().await?;
    let session = place.session().await?;
    let schema = &shared.connector.config.schema;
    let query = format!("SELECT p, epoch FROM {schema}.head WHERE state = 1");
    let rows = session.client.query(&query, &[]).await;
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
/// client.
async fn fence_all(shared: Arc<Shared>) -> Result<(), String> {
    let schema = &shared.connector.config.schema;
    let spared = shared.options.spared.unwrap_or(RESERVED).0 as i64;
    let fence = format!("UPDATE {schema}.head SET epoch = epoch + 1 WHERE state = 0 AND p <> $1");
    let mut last = String::new();
    for _ in 0..FENCE_ATTEMPTS {
        let place = shared.writers.place().await?;
        let session = place.session().await?;
        match session
            .run(session.client.execute(&fence, &[&spared]))
            .await
        {
            Ok(_) => {
                place.give_back(session);
                return Ok(());
            }
            // Another owner that fences at the same time may lock heads in another order.
            Err(error) => {
                last = explain(&error);
                session.mark_broken();
            }
        }
    }
    Err(last)
}

impl Store for PostgresStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.perform(partition, Work::Open)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let accepted = self.shared.partitions().submit(lease, commit);
        match accepted {
            Ok((slot, needs_lane)) => {
                if needs_lane {
                    self.shared.start_lane(lease.partition());
                }
                Receipt::pending(Ticket(slot))
            }
            Err(refusal) => Receipt::ready(refusal),
        }
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        if partition == RESERVED {
            return Err(StoreError::ReservedPartition(partition));
        }
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
        let taken = PostgresSnapshot::take_together(&self.shared, partitions)?;
        let boxed = |snapshot| -> Box<dyn Snapshot> { Box::new(snapshot) };
        Ok(taken.into_iter().map(boxed).collect())
    }

    fn follower_snapshots(
        &self,
        wanted: &[(PartitionId, u64)],
    ) -> Result<Option<Vec<Box<dyn Snapshot>>>, StoreError> {
        if let Some(&(reserved, _)) = wanted.iter().find(|(id, _)| *id == RESERVED) {
            return Err(StoreError::ReservedPartition(reserved));
        }
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

    fn sync(&self) -> Result<(), StoreError> {
        let mut answers = Vec::new();
        // The lock is released here: queueing takes it again.
        let (busy, failed) = {
            let partitions = self.shared.partitions();
            (partitions.busy(), partitions.failed())
        };
        for id in busy {
            let (sender, receiver) = oneshot::channel();
            self.shared.push(id, Work::Barrier(sender));
            answers.push(receiver);
        }
        for answer in answers {
            if block_on(answer, TASK_TIMEOUT).is_none_or(|answer| answer.is_err()) {
                return Err(self.shared.unavailable("there was no answer".to_owned()));
            }
        }
        if self.shared.partitions().failed() != failed {
            let detail = "commits failed while they were waited for".to_owned();
            return Err(self.shared.unavailable(detail));
        }
        Ok(())
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            // A snapshot keeps a connection, and old rows on the server.
            long_snapshots: false,
            watch: false,
            followers: self.shared.followers.are_possible(),
        }
    }

    fn refusal(&self, _may_use_reserve: bool) -> Option<CommitOutcome> {
        self.shared.partitions().refusal()
    }

    fn write_failure(&self) -> Option<String> {
        let loss = self.shared.partitions().loss();
        loss.or_else(|| self.shared.connector.failure())
    }

    fn approximate_bytes(&self) -> u64 {
        let measured = *lock(&self.size);
        match measured {
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
