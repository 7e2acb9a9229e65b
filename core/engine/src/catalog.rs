//! The catalog: databases, containers, scripts, offers, users, permissions and client encryption
//! keys, in memory and in partition 0 of the store.
//!
//! ```text
//! key                      value
//! 20 kind·1 rid            a record (JSON): the body of a resource and the engine's own members
//! 21 storage id·8          (empty): an orphan, a key space of the store that no container uses
//! 22 container rid id·4    a physical partition that a container has or had (JSON, ranges.rs)
//! 23 …                     snapshots (snapshots.rs)
//! 26                       the confirmed time (confirmed_time.rs)
//! 24, 25 …                 rows 20 and 22 of later row sets (row_sets.rs)
//! ```
//! The whole catalog fits in memory and is read once, when the store is opened, and again after a
//! commit whose outcome was not known (`doubt.rs`). Writes take one lock, so they are sequential,
//! and a write becomes visible in memory after its commit is durable.
//!
//! Resource ids are random and never used twice, so a client notices when a container was deleted
//! and created again under the same name.

mod access_resources;
mod chunks;
mod confirmed_time;
mod containers;
mod databases;
mod doubt;
mod encryption_keys;
mod item_numbers;
mod offers;
mod permissions;
mod ranges;
mod records;
mod row_sets;
mod scripts;
mod snapshots;
mod state;
mod storage_ids;
mod stored_policies;

pub use access_resources::{AccessResource, TokenSigner};
pub use containers::Container;
pub use databases::Database;
pub(crate) use offers::Offer;
pub use permissions::{PermissionContent, PermissionMode};
pub(crate) use ranges::{RangeRecord, Successors};
pub(crate) use records::Meta;
pub(crate) use scripts::Script;
pub(crate) use snapshots::HighWaterMarks;
pub(crate) use storage_ids::orphans;
pub use storage_ids::storage_ids;

use crate::AccountVersions;
use crate::background::agenda::{Agenda, Subject};
use crate::container::owners::Owners;
use crate::container::settings::Settings;
use crate::container::tasks::BackgroundTask;
use crate::errors::{did_not_happen, storage_failure};
use crate::partition::keys::CATALOG_PARTITION;
use crate::partition::size_limits::SizeLimits;
use crate::partition::staging::StagingWriter;
use crate::partition::stamps::stamp;
use crate::partition::{CommitAttempt, CommitChanges, Partition, wait_durable};
use crate::request::Id;
use crate::throughput::{SharedBudget, ThroughputOptions};
use bytes::Bytes;
use doubt::Doubt;
use orrery_model::json::parse;
use orrery_model::partition_key::EpkRange;
use orrery_model::sync::{lock, pause, read, write};
use orrery_model::words::{did_you_mean, shortened};
use orrery_model::world::World;
use orrery_model::{Error, Json, Kind as ErrorKind, Result, Rid, limits};
use orrery_storage::{CommitOutcome, Direction, PartitionId, Snapshot, Store};
use ranges::{Lineage, RANGE};
use records::{Kind, Record};
use state::State;
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard, TryLockResult};
use std::time::Duration;

/// All resources but items.
pub(crate) struct Catalog {
    store: Arc<dyn Store>,
    owners: Arc<dyn Owners>,
    world: Arc<dyn World>,
    /// True if unused throughput is saved for bursts.
    bursts: bool,
    /// Bytes that count as one gigabyte in rules that derive throughput from stored bytes.
    gigabyte_bytes: u64,
    /// RU/s of a container whose creation states none.
    container_ru: u32,
    /// Versions that are kept in containers without a policy.
    account_versions: Option<AccountVersions>,
    size_limits: Arc<SizeLimits>,
    /// Budgets of databases with their own throughput, by database. Their containers share them.
    shared_budgets: Mutex<HashMap<Rid, SharedBudget>>,
    /// Partition 0 of the store, which holds the rows of the catalog.
    partition: Partition,
    /// Number of the current row set (row_sets.rs).
    row_set: AtomicU64,
    /// Held by each write of the catalog, and while a partition is given to another process.
    write_lock: Mutex<()>,
    /// The last commit, while it is not known whether it took place.
    doubt: Mutex<Option<Doubt>>,
    /// True while there is one.
    is_in_doubt: AtomicBool,
    /// The LSN of the last commit that owners of partitions must know.
    version: AtomicU64,
    /// Attempts to find out if a commit took place.
    patience: u32,
    snapshot_lock: Mutex<()>,
    state: RwLock<State>,
    /// Key spaces that no container uses any more and that still have to be destroyed.
    orphans: Mutex<Vec<PartitionId>>,
    agenda: Arc<Agenda>,
    /// Settings by the text of the body without its id. Bounded.
    shared_settings: Mutex<HashMap<String, Arc<Settings>>>,
}

/// A key and a value of the catalog.
type Row = (Vec<u8>, Vec<u8>);

/// The same as the store returns it.
type StoredRow = (Bytes, Bytes);

/// Rows that change in one commit.
#[derive(Default)]
struct RowChanges {
    puts: Vec<Row>,
    deletes: Vec<Vec<u8>>,
    /// Keys of the records that are written or deleted.
    records: Vec<Vec<u8>>,
}

/// Records that one commit of a repair writes: each is as large as a script at most.
const RECORDS_PER_COMMIT: usize = 4;
/// Rows that one commit deletes from a key space that is destroyed.
const ROWS_DELETED_PER_COMMIT: usize = 2_000;
/// The pause between two attempts to find out if a commit took place, and their number with a store
/// on other machines, where a failover takes most of a minute.
const OUTCOME_PAUSE: Duration = Duration::from_millis(100);
const OUTCOME_ATTEMPTS: u32 = 600;

/// The first byte of the keys of records.
const RECORD: u8 = 0x20;
/// The first byte of the keys of orphans.
const ORPHAN: u8 = 0x21;

impl Catalog {
    /// Reads the catalog of a store. The catalog of an empty store is empty.
    ///
    /// # Errors
    /// 500 if the store cannot be read or holds damaged records.
    pub(crate) fn open(
        store: Arc<dyn Store>,
        owners: Arc<dyn Owners>,
        world: Arc<dyn World>,
        throughput: ThroughputOptions,
        account_versions: Option<AccountVersions>,
        size_limits: Arc<SizeLimits>,
    ) -> Result<Self> {
        let catalog = Catalog::empty(
            store,
            owners,
            world,
            throughput,
            account_versions,
            size_limits,
        );

        // An interrupted restoration leaves rows of a set that never became current.
        catalog.use_row_set(catalog.stored_row_set()?);
        catalog.delete_other_row_sets()?;
        catalog.load_stored_rows(catalog.partition.snapshot()?.as_ref())?;

        // Orphans are key spaces of deleted containers and of interrupted splits and snapshots.
        let orphans = orphans(&*catalog.store)?;

        // A storage id is used again only after its key space was destroyed.
        let mut last_storage_id = catalog.last_snapshot_storage_id()?;
        for orphan in &orphans {
            last_storage_id = last_storage_id.max(orphan.0);
        }
        catalog.raise_last_storage_id(last_storage_id);
        catalog.queue_orphans(orphans);
        let head = catalog.partition.snapshot()?.head();
        catalog.version.store(head.lsn, Ordering::Release);
        Ok(catalog)
    }

    /// Returns the catalog of a store without resources. Nothing is read.
    pub(crate) fn empty(
        store: Arc<dyn Store>,
        owners: Arc<dyn Owners>,
        world: Arc<dyn World>,
        throughput: ThroughputOptions,
        account_versions: Option<AccountVersions>,
        size_limits: Arc<SizeLimits>,
    ) -> Self {
        let store_is_remote = store.capabilities().remote;
        let partition = Partition::new(
            Arc::clone(&store),
            Arc::clone(&owners),
            0,
            Vec::new(),
            EpkRange::all(),
            CATALOG_PARTITION,
            0,
        );
        Catalog {
            store,
            owners,
            world,
            bursts: throughput.burst_capacity,
            gigabyte_bytes: limits::GIGABYTE,
            container_ru: limits::CONTAINER_RU_PER_SECOND,
            account_versions,
            size_limits,
            shared_budgets: Mutex::default(),
            partition,
            row_set: AtomicU64::new(0),
            write_lock: Mutex::new(()),
            doubt: Mutex::default(),
            is_in_doubt: AtomicBool::new(false),
            version: AtomicU64::new(0),
            // A store on this machine that has failed seldom comes back by itself, and no request
            // waits for it.
            patience: match store_is_remote {
                true => OUTCOME_ATTEMPTS,
                false => 0,
            },
            snapshot_lock: Mutex::new(()),
            state: RwLock::default(),
            orphans: Mutex::default(),
            agenda: Arc::default(),
            shared_settings: Mutex::default(),
        }
    }

    /// Runs a function while no resource of the catalog changes.
    pub(crate) fn while_unchanged<T>(&self, run: impl FnOnce() -> T) -> T {
        let begun = self.begin_change();
        let _writing = begun.unwrap_or_else(|_| lock(&self.write_lock));
        run()
    }

    /// Returns the same catalog in which `bytes` count as one gigabyte in rules that derive
    /// throughput from stored bytes. Zero counts as 1.
    pub(crate) fn with_gigabyte_bytes(self, bytes: u64) -> Self {
        Catalog {
            gigabyte_bytes: bytes.max(1),
            ..self
        }
    }

    /// Returns the same catalog in which a container gets `ru` RU/s if its creation states none.
    pub(crate) fn with_container_ru(self, ru: u32) -> Self {
        Catalog {
            container_ru: ru,
            ..self
        }
    }

    /// Loads the stored rows of the current row set.
    fn load_stored_rows(&self, snapshot: &dyn Snapshot) -> Result<()> {
        let records = self.stored_rows(snapshot, RECORD);
        self.load_rows(
            self.stored_rows(snapshot, RANGE),
            records.map(|row| Record::read(&row?.1)),
        )
    }

    /// Loads ranges and records into an empty catalog in memory. The records are in the order of
    /// their keys, which begin with the number of the kind: owners come before the resources that
    /// they own. The rows are read one by one, since all of them together take much memory.
    fn load_rows(
        &self,
        ranges: impl Iterator<Item = Result<StoredRow>>,
        records: impl Iterator<Item = Result<Record>>,
    ) -> Result<()> {
        // A container needs all of its ranges, so they come first.
        let mut lineages: HashMap<Rid, Lineage> = HashMap::new();
        for row in ranges {
            let (key, value) = row?;
            let (container, range) = RangeRecord::read(&key, &value)?;
            let lineage = lineages.entry(container).or_default();
            lineage.insert(range.id, Box::new(range));
        }
        for record in records {
            let record = record?;
            let lineage = lineages.remove(&record.meta.rid).unwrap_or_default();
            self.load_record(record, lineage)?;
        }

        // Budgets depend on offers, which are loaded after containers.
        for container in self.all_containers() {
            self.assign_throughput(&container);
        }
        Ok(())
    }

    /// Checks that a container that was looked up without the write lock is that of the catalog.
    ///
    /// # Errors
    /// 404 if it was deleted, or replaced by a restoration; 449 if another object stands for it,
    /// because the catalog was read again.
    pub(super) fn check_current(&self, container: &Container) -> Result<()> {
        if self.is_current(container) {
            return Ok(());
        }
        Err(match self.container_of(container.rid()) {
            Some(current) if current.created() == container.created() => did_not_happen(),
            _ => Error::not_found(),
        })
    }

    /// Returns true if `container` exists: it was not deleted and not replaced by a restoration.
    pub(crate) fn is_current(&self, container: &Container) -> bool {
        let state = self.state();
        let current = state.containers.get(&container.rid());
        current.is_some_and(|current| std::ptr::eq(Arc::as_ptr(current), container))
    }

    /// Returns the lock that is held while a snapshot is taken, restored or deleted.
    pub(crate) fn snapshot_lock(&self) -> &Mutex<()> {
        &self.snapshot_lock
    }

    /// Loads one record. Its owner must be loaded.
    fn load_record(&self, record: Record, lineage: Lineage) -> Result<()> {
        let mut state = write(&self.state);
        let rid = record.meta.rid;
        state.last_ts = state.last_ts.max(record.meta.ts);
        match record.kind {
            Kind::User | Kind::Permission | Kind::EncryptionKey => {
                state.load_access_resource(record)?;
            }
            Kind::Database => {
                let database = Arc::new(Database::from_record(record)?);
                state.add_database(database);
            }
            // A key space that a container uses must never be given to another.
            Kind::Container => {
                let owner = state.database(rid.database_part()).cloned();
                let owner = owner.ok_or_else(Record::damaged)?;
                let container = Container::from_record(self, owner, record, lineage)?;
                state.last_storage_id = state.last_storage_id.max(container.last_storage_id());
                state.containers.insert(rid, Arc::new(container));
            }
            Kind::Procedure | Kind::Trigger | Kind::Function => {
                let owner = state.containers.get(&rid.container_part());
                let owner = owner.ok_or_else(Record::damaged)?;
                owner.add_script(Script::from_record(record)?);
            }
            Kind::Offer => {
                let offer = Arc::new(Offer::from_record(record)?);
                state.add_offer(offer);
            }
        }
        Ok(())
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        read(&self.state)
    }

    fn raise_last_storage_id(&self, storage_id: u64) {
        let mut state = write(&self.state);
        state.last_storage_id = state.last_storage_id.max(storage_id);
    }

    /// Commits changes of the current row set. They are durable when the function returns.
    fn commit(&self, mut changes: RowChanges) -> Result<()> {
        self.delete_old_chunks(&mut changes)?;
        self.commit_with_given_keys(changes.in_row_set(self.row_set()))
    }

    /// Commits changes of the current row set that concern no resource.
    fn commit_unseen(&self, changes: RowChanges) -> Result<()> {
        let committed = self.commit_rows(changes.in_row_set(self.row_set()), |_| {});
        committed.map(drop)
    }

    /// Commits changes whose keys have the prefix of their row set already. All partitions that
    /// other processes own are taken back first, and the caller holds the write lock, so that none
    /// is given up again before the change is visible. So no owner works with an older catalog.
    fn commit_with_given_keys(&self, changes: RowChanges) -> Result<()> {
        self.owners.recall_all().map_err(storage_failure)?;
        let orphans = changes.orphans();
        let lsn = self.commit_rows(changes, |attempt| self.note_doubt(attempt, orphans))?;
        self.version.store(lsn, Ordering::Release);
        Ok(())
    }

    /// Commits rows. They are durable when the function returns. Returns the LSN of the commit.
    ///
    /// # Errors
    /// The commit did not take place, except for 408: the outcome was not found out, and `in_doubt`
    /// was called.
    fn commit_rows(
        &self,
        changes: RowChanges,
        in_doubt: impl FnOnce(CommitAttempt),
    ) -> Result<u64> {
        let mut writer = self.partition.lock()?;
        let changes = CommitChanges {
            puts: changes.puts,
            may_use_reserve: !changes.deletes.is_empty(),
            deletes: changes.deletes,
            ..CommitChanges::default()
        };
        let commit = writer.submit(&self.partition, changes, self.world.random());
        // From here on only the outcome of the commit counts: rows that are remembered for longer
        // do no harm.
        if let Ok(snapshot) = self.partition.snapshot() {
            writer.forget_durable(snapshot.head().lsn);
        }
        drop(writer);

        // The store may not know the outcome; the commit log of the partition does. The catalog in
        // memory must not part from the rows, so a store that is away is waited for.
        let attempt = commit.attempt;
        let mut outcome = wait_durable(&self.partition, commit);
        for _ in 0..self.patience {
            match &outcome {
                Err(error) if error.kind() == ErrorKind::UnknownOutcome => {}
                _ => break,
            }
            pause(OUTCOME_PAUSE);
            outcome = self.partition.settle(CommitOutcome::Unknown, attempt);
        }
        if let Err(error) = &outcome
            && error.kind() == ErrorKind::UnknownOutcome
        {
            in_doubt(attempt);
        }
        outcome.map_err(definition_too_large)?;
        Ok(attempt.lsn)
    }

    /// Checks that the rows of the catalog can be read from the store.
    ///
    /// # Errors
    /// 500 if they cannot.
    pub(crate) fn probe(&self) -> Result<()> {
        let snapshot = self.partition.snapshot()?;
        Partition::counters(snapshot.as_ref())?;
        Ok(())
    }

    /// Holds up writes of the catalog, if none is under way.
    pub(crate) fn lock_writes(&self) -> TryLockResult<MutexGuard<'_, ()>> {
        self.write_lock.try_lock()
    }

    /// Returns the LSN of the last commit that owners of partitions must know.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Sets the LSN of the commit up to which the catalog of another process was loaded.
    pub(crate) fn set_version(&self, lsn: u64) {
        self.version.store(lsn, Ordering::Release);
    }

    /// Queues key spaces that no container uses any more, to be destroyed in the background.
    fn queue_orphans(&self, storage_ids: Vec<PartitionId>) {
        lock(&self.orphans).extend(storage_ids);
        self.agenda
            .enter(BackgroundTask::Removal, Subject::Orphans, 0);
    }

    /// Removes what an interrupted creation may have left in a key space that no row of the catalog
    /// names. If that is in a part of the store that is away, the next creation takes another key
    /// space.
    ///
    /// # Errors
    /// Those of the store.
    fn empty_key_space(&self, storage_id: PartitionId) -> Result<()> {
        let emptied = self.store.destroy(storage_id).map_err(storage_failure);
        if let Err(error) = &emptied
            && error.kind() == ErrorKind::Unavailable
        {
            self.raise_last_storage_id(storage_id.0);
            self.queue_orphans(vec![storage_id]);
        }
        emptied
    }

    /// Deletes the rows of a key space that no container uses.
    ///
    /// The store destroys a key space in one step. Deleting the rows before that in many commits
    /// lets commits of clients run in between.
    fn delete_rows_of(&self, storage_id: PartitionId) -> Result<()> {
        let mut writer = StagingWriter::open(&self.store, &self.world, storage_id)?;
        let mut from = Vec::new();
        loop {
            self.store.wait_for_compaction();
            let snapshot = writer.snapshot()?;
            let remaining = (Bound::Included(&from[..]), Bound::Unbounded);
            let rows = snapshot.scan(remaining, Direction::Forward);
            let mut last = None;
            for row in rows.take(ROWS_DELETED_PER_COMMIT) {
                let (key, _) = row.map_err(storage_failure)?;
                writer.delete(key.to_vec());
                last = Some(key);
            }
            let Some(last) = last else {
                return Ok(());
            };
            writer.flush();
            writer.wait_durable()?;
            from = [&last[..], &[0]].concat();
        }
    }

    /// Destroys one orphan. Returns false if there was none.
    ///
    /// # Errors
    /// The store's error; the orphan stays queued.
    pub(crate) fn destroy_one_orphan(&self) -> Result<bool> {
        let Some(orphan) = lock(&self.orphans).pop() else {
            return Ok(false);
        };
        if let Err(error) = self.destroy_orphan(orphan) {
            // The others have their turn before the next attempt.
            lock(&self.orphans).insert(0, orphan);
            return Err(error);
        }
        Ok(true)
    }

    fn destroy_orphan(&self, orphan: PartitionId) -> Result<()> {
        match self.delete_rows_of(orphan) {
            // A damaged partition takes no commits and cannot be read; its end needs neither.
            Err(error) if error.kind() == ErrorKind::DataDamaged => {}
            deleted => deleted?,
        }
        self.store.destroy(orphan).map_err(storage_failure)?;
        // The row goes last: after a crash before this commit, the next open queues the orphan
        // again.
        self.commit_unseen(RowChanges {
            deletes: vec![orphan_key(orphan)],
            ..RowChanges::default()
        })
    }

    /// Returns a database.
    ///
    /// # Errors
    /// 404 if there is none.
    pub(crate) fn database(&self, id: Id<'_>) -> Result<Arc<Database>> {
        let state = self.state();
        let found = match id {
            Id::Rid(rid) => state.database(rid),
            Id::Name(name) => state.database_named(name),
        };
        found.cloned().ok_or_else(|| {
            let names = || {
                state
                    .databases()
                    .map(|database| database.id())
                    .take(COMPARED_NAMES)
            };
            missing("database", id, "The account", names)
        })
    }

    /// Returns a container.
    ///
    /// # Errors
    /// 404 if the container is missing, 404/1003 if its database is.
    pub(crate) fn container(&self, database: Id<'_>, container: Id<'_>) -> Result<Arc<Container>> {
        let database = self.database(database).map_err(Error::about_owner)?;
        let state = self.state();
        let found = match container {
            Id::Rid(rid) => state
                .containers
                .get(&rid)
                .filter(|c| c.rid().database_part() == database.rid()),
            Id::Name(name) => database
                .container(name)
                .and_then(|rid| state.containers.get(&rid)),
        };
        found.cloned().ok_or_else(|| {
            let ids = database.some_container_ids();
            let owner = format!("The database '{}'", shortened(database.id()));
            missing("container", container, &owner, || {
                ids.iter().map(String::as_str)
            })
        })
    }

    /// Returns the container with a resource id, or `None` if there is none.
    pub(crate) fn container_of(&self, rid: Rid) -> Option<Arc<Container>> {
        self.state().containers.get(&rid).cloned()
    }

    /// Returns the agenda of the background work in the containers.
    pub(crate) fn agenda(&self) -> &Arc<Agenda> {
        &self.agenda
    }

    /// Returns the limits on the sizes of partitions.
    pub(crate) fn size_limits(&self) -> &SizeLimits {
        &self.size_limits
    }

    /// Returns the bytes that count as one gigabyte.
    pub(crate) fn gigabyte_bytes(&self) -> u64 {
        self.gigabyte_bytes
    }

    /// Returns all databases, the oldest first.
    pub(crate) fn databases(&self) -> Vec<Arc<Database>> {
        let mut all: Vec<_> = self.state().databases().cloned().collect();
        all.sort_by_key(|d| (d.meta().ts, d.rid()));
        all
    }

    /// Returns the number of databases.
    pub(crate) fn database_count(&self) -> usize {
        self.state().databases().len()
    }

    /// Returns the number of containers of all databases.
    pub(crate) fn container_count(&self) -> usize {
        self.state().containers.len()
    }

    /// Returns all containers of a database, the oldest first.
    pub(crate) fn containers(&self, database: &Database) -> Vec<Arc<Container>> {
        let state = self.state();
        let mut all = Vec::new();
        for rid in database.containers() {
            all.extend(state.containers.get(&rid).cloned());
        }
        drop(state);
        all.sort_by_key(|c| (c.created(), c.rid()));
        all
    }

    /// Returns the containers of all databases, in the order of their resource ids.
    pub(crate) fn all_containers(&self) -> Vec<Arc<Container>> {
        let mut all: Vec<_> = self.state().containers.values().cloned().collect();
        // In an order that follows from the data, so that a history of work can be repeated.
        all.sort_unstable_by_key(|container| container.rid());
        all
    }

    /// Returns the latest `_ts` of all resources.
    pub(crate) fn last_stamp(&self) -> u64 {
        self.state().last_ts
    }

    /// Dates the stored resources now that are dated later than second `now`. Returns their number.
    /// The catalog in memory keeps the old times until it is loaded again.
    ///
    /// # Errors
    /// The store's error; 500 if a record is damaged.
    pub(crate) fn date_anew(&self, now: u64) -> Result<u64> {
        let _writing = self.begin_change()?;
        let snapshot = self.partition.snapshot()?;
        let (mut dated, mut changes) = (0, RowChanges::default());
        for row in self.stored_rows(snapshot.as_ref(), RECORD) {
            let (_, value) = row?;
            let mut record = Record::read(&value)?;
            if record.meta.ts > now {
                record.meta.ts = now;
                changes.put(&record);
                dated += 1;
            }
            if changes.records.len() >= RECORDS_PER_COMMIT {
                self.commit(std::mem::take(&mut changes))?;
            }
        }
        if !changes.records.is_empty() {
            self.commit(changes)?;
        }
        write(&self.state).last_ts = now;
        Ok(dated)
    }

    fn new_meta(&self, rid: Rid) -> Meta {
        let now = self.world.now_seconds();
        let mut state = write(&self.state);
        state.last_ts = stamp(now, state.last_ts);
        Meta {
            rid,
            ts: state.last_ts,
            etag: self.world.random(),
        }
    }

    /// Makes resource ids from random numbers until one is unused.
    fn unused_rid(&self, from_number: impl Fn(u64) -> Rid, is_used: impl Fn(Rid) -> bool) -> Rid {
        loop {
            let rid = from_number(self.world.random());
            if !is_used(rid) {
                return rid;
            }
        }
    }
}

impl RowChanges {
    fn put(&mut self, record: &Record) {
        let key = record.key();
        self.puts.extend(chunks::split(key.clone(), record.text()));
        self.records.push(key);
    }

    fn delete(&mut self, kind: Kind, rid: Rid) {
        let key = records::key(kind, rid);
        self.deletes.push(key.clone());
        self.records.push(key);
    }

    fn mark_orphan(&mut self, storage_id: PartitionId) {
        self.puts.push((orphan_key(storage_id), Vec::new()));
    }
}

/// Returns the error for a commit of the catalog that is larger than a commit may be. Nothing in it
/// can be divided, unlike the items of a transaction.
fn definition_too_large(error: Error) -> Error {
    if error.kind() != ErrorKind::RequestEntityTooLarge {
        return error;
    }
    Error::new(
        ErrorKind::RequestEntityTooLarge,
        "Request size is too large: the definition, with the earlier indexing policies that some \
         items still follow, does not fit into one change.",
    )
    .with_help("Shorten the definition, or change it again when the reindexing is complete.")
}

fn orphan_key(storage_id: PartitionId) -> Vec<u8> {
    [&[ORPHAN][..], &storage_id.0.to_be_bytes()].concat()
}

/// The most names of existing resources that are compared with a missing one.
const COMPARED_NAMES: usize = 1_000;
/// The most names of existing resources that a message lists.
const LISTED_NAMES: usize = 5;

/// Returns the error 404 for a database or container, with those that exist under similar names.
/// `names` are the resources of the same kind in the same place.
fn missing<'a, N: Iterator<Item = &'a str>>(
    kind: &str,
    wanted: Id<'_>,
    owner: &str,
    names: impl Fn() -> N,
) -> Error {
    let Id::Name(wanted) = wanted else {
        return Error::not_found();
    };
    let guess = did_you_mean(wanted, names());
    let mut shown: Vec<String> = names()
        .take(LISTED_NAMES)
        .map(|name| format!("'{}'", shortened(name)))
        .collect();
    shown.sort_unstable();
    let others = match names().count() {
        0 => " and none at all: create it first.".to_owned(),
        count if count > LISTED_NAMES => format!(". It has {count} others."),
        _ => format!(". It has {}.", shown.join(", ")),
    };
    Error::not_found().with_help(format!(
        "{owner} has no {kind} '{}'{others}{guess}",
        shortened(wanted)
    ))
}

/// Parses JSON that the engine wrote.
///
/// # Errors
/// 500 if the text is damaged.
fn parse_stored(text: &[u8]) -> Result<Json> {
    parse(text).map_err(|_| Record::damaged())
}
