//! What exists: databases, containers, scripts, offers, users, permissions and client encryption keys, in memory and in the store's partition 0.
//!
//! ```text
//! key                  value (JSON)
//! 20 kind·1 rid        a record: what the resource's body says, and what the engine keeps beside it
//! 21 home·8            (empty): a partition of the store that belongs to no container, or not yet; to be destroyed
//! 22 container rid id·4    a physical partition that a container has or had (ranges.rs)
//! 23 …                 snapshots (snapshots.rs)
//! 24, 25 …             rows 20 and 22 of later ages (ages.rs)
//! ```
//! All of it fits in memory and is read once at open. One write at a time changes it, and is durable before it shows.
//! Resource ids are random and never used twice, so a client notices when a container was created anew.

mod access_resources;
mod ages;
mod containers;
mod databases;
mod encryption;
mod offers;
mod permissions;
mod ranges;
mod records;
mod scripts;
mod search;
pub mod settings;
mod snapshots;

pub use access_resources::{AccessResource, TokenSigner};
pub use containers::Container;
pub use databases::Database;
pub use offers::Offer;
pub use permissions::{Grant, PermissionMode};
pub use ranges::{NewRanges, RangeRecord};
pub use records::Meta;
pub use scripts::Script;
pub use snapshots::Reached;

use crate::errors::{outcome_error, storage_failure};
use crate::partition::staging::StagingWriter;
use crate::partition::{CommitChanges, Partition, SubmittedCommit, scan};
use crate::request::Id;
use crate::throughput::{SharedBudget, ThroughputOptions};
use orrery_model::json::parse;
use orrery_model::partition_key::EpkRange;
use orrery_model::sync::{lock, read, write};
use orrery_model::world::World;
use orrery_model::{Error, Json, Object, Result, Rid, limits};
use orrery_storage::{CommitOutcome, Direction, PartitionId, Store};
use ranges::{Lineage, RANGE};
use records::{Kind, Record};
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard};

/// Everything that exists.
pub struct Catalog {
    store: Arc<dyn Store>,
    world: Arc<dyn World>,
    /// Whether unused throughput is kept for a while.
    bursts: bool,
    /// Bytes that count as a gigabyte where throughput follows what is stored.
    gigabyte: u64,
    /// Budgets of databases, which their containers share.
    shared: Mutex<HashMap<Rid, SharedBudget>>,
    home: Partition,
    /// Whose rows count (ages.rs).
    age: AtomicU64,
    writing: Mutex<()>,
    snapshotting: Mutex<()>,
    state: RwLock<State>,
    /// Homes of deleted containers' partitions that are still to be destroyed.
    orphans: Mutex<Vec<u64>>,
}

#[derive(Default)]
struct State {
    databases: HashMap<Rid, Arc<Database>>,
    containers: HashMap<Rid, Arc<Container>>,
    offers: HashMap<Rid, Arc<Offer>>,
    access_resources: access_resources::AccessResources,
    last_home: u64,
}

/// Rows of the catalog that change together.
#[derive(Default)]
struct Batch {
    puts: Vec<(Vec<u8>, Vec<u8>)>,
    deletes: Vec<Vec<u8>>,
}

/// Rows of a partition that is destroyed which one commit removes.
const ROWS_DESTROYED_A_COMMIT: usize = 2_000;

const RECORD: u8 = 0x20;
const ORPHAN: u8 = 0x21;

impl Catalog {
    /// Reads the catalog of a store; an empty store has an empty one.
    ///
    /// # Errors
    /// 500 if the store cannot be read or holds records that make no sense.
    pub fn open(
        store: Arc<dyn Store>,
        world: Arc<dyn World>,
        throughput: ThroughputOptions,
    ) -> Result<Self> {
        let catalog = Catalog::empty(store, world, throughput);
        catalog.enter_age(catalog.stored_age()?);
        catalog.forget_other_ages()?;
        let snapshot = catalog.home.snapshot()?;
        let rows = catalog.rows()?;
        catalog.fill(rows.iter().map(|(key, value)| (&key[..], &value[..])))?;
        let mut orphans = Vec::new();
        for row in scan(
            snapshot.as_ref(),
            &crate::partition::keys::tagged(ORPHAN),
            Direction::Forward,
        ) {
            orphans.extend(row?.0.get(1..).and_then(crate::partition::keys::number));
        }
        drop(snapshot);
        let kept = catalog.last_kept_home()?;
        {
            // A home is given again only when it is empty.
            let mut state = write(&catalog.state);
            state.last_home = orphans
                .iter()
                .copied()
                .fold(state.last_home.max(kept), u64::max);
        }
        catalog.queue_orphans(orphans);
        Ok(catalog)
    }

    fn empty(store: Arc<dyn Store>, world: Arc<dyn World>, throughput: ThroughputOptions) -> Self {
        let home = Partition::new(
            Arc::clone(&store),
            0,
            Vec::new(),
            EpkRange::all(),
            PartitionId(0),
            0,
        );
        Catalog {
            store,
            world,
            bursts: throughput.burst_capacity,
            gigabyte: limits::GIGABYTE,
            shared: Mutex::default(),
            home,
            age: AtomicU64::new(0),
            writing: Mutex::new(()),
            snapshotting: Mutex::new(()),
            state: RwLock::default(),
            orphans: Mutex::default(),
        }
    }

    /// The same, in which so many bytes count as a gigabyte where throughput follows what is stored.
    pub fn count_gigabytes_of(self, bytes: u64) -> Self {
        Catalog {
            gigabyte: bytes.max(1),
            ..self
        }
    }

    /// Takes in what an empty catalog is to hold: rows with the tags of records and of ranges.
    fn fill<'r>(&self, rows: impl IntoIterator<Item = (&'r [u8], &'r [u8])>) -> Result<()> {
        let mut records = Vec::new();
        let mut lineages: HashMap<Rid, Lineage> = HashMap::new();
        for (key, value) in rows {
            if key.first() == Some(&RANGE) {
                let (container, range) = RangeRecord::read(key, value)?;
                lineages
                    .entry(container)
                    .or_default()
                    .insert(range.id, range);
            } else {
                records.push(Record::read(value)?);
            }
        }
        // Owners come first: kinds are numbered so.
        records.sort_by_key(|record| record.kind);
        for record in records {
            let lineage = lineages.remove(&record.meta.rid).unwrap_or_default();
            self.take_in(record, lineage)?;
        }
        self.all_containers()
            .iter()
            .for_each(|container| self.provide(container));
        Ok(())
    }

    /// Whether this container is the one that exists, and not one that was deleted or replaced by another life of it.
    pub(crate) fn has(&self, container: &Container) -> bool {
        self.state()
            .containers
            .get(&container.rid())
            .is_some_and(|there| std::ptr::eq(Arc::as_ptr(there), container))
    }

    /// Held while a snapshot is taken, restored or deleted: one at a time.
    pub fn snapshotting(&self) -> &Mutex<()> {
        &self.snapshotting
    }

    fn take_in(&self, record: Record, lineage: Lineage) -> Result<()> {
        let mut state = write(&self.state);
        match record.kind {
            Kind::User | Kind::Permission | Kind::EncryptionKey => {
                state.take_in_access_resource(record)?
            }
            Kind::Database => {
                _ = state
                    .databases
                    .insert(record.meta.rid, Arc::new(Database::from_record(record)?))
            }
            Kind::Container => {
                let owner = state
                    .databases
                    .get(&record.meta.rid.database_part())
                    .cloned();
                let container = Container::from_record(
                    &self.store,
                    owner.ok_or_else(Record::damaged)?,
                    record,
                    lineage,
                )?;
                state.last_home = state.last_home.max(container.last_home());
                state
                    .containers
                    .insert(container.rid(), Arc::new(container));
            }
            Kind::Procedure | Kind::Trigger | Kind::Function => {
                let owner = state
                    .containers
                    .get(&record.meta.rid.container_part())
                    .cloned();
                owner
                    .ok_or_else(Record::damaged)?
                    .add_script(Script::from_record(record)?);
            }
            Kind::Offer => {
                _ = state
                    .offers
                    .insert(record.meta.rid, Arc::new(Offer::from_record(record)?))
            }
        }
        Ok(())
    }

    fn state(&self) -> RwLockReadGuard<'_, State> {
        read(&self.state)
    }

    /// Makes a batch durable.
    fn commit(&self, batch: Batch) -> Result<()> {
        self.commit_as_it_is(batch.of_age(self.age()))
    }

    fn commit_as_it_is(&self, batch: Batch) -> Result<()> {
        let mut writer = self.home.lock()?;
        let changes = CommitChanges {
            puts: batch.puts,
            deletes: batch.deletes,
            ..CommitChanges::default()
        };
        let SubmittedCommit {
            receipt,
            lsn,
            token,
        } = writer.submit(&self.home, changes, self.world.random());
        writer.forget_durable(self.home.snapshot()?.head().lsn);
        drop(writer);
        let outcome = receipt.wait();
        let Some(error) = outcome_error(&outcome) else {
            return Ok(());
        };
        if matches!(outcome, CommitOutcome::Fenced | CommitOutcome::Unknown)
            && self.home.is_committed(lsn, token)?
        {
            return Ok(());
        }
        self.home.abandon_writer();
        Err(error)
    }

    /// Reads from the store's partition of the catalog.
    ///
    /// # Errors
    /// What the store reports.
    pub fn probe(&self) -> Result<()> {
        Partition::counters(self.home.snapshot()?.as_ref()).map(drop)
    }

    /// Remembers partitions that no container has any more.
    fn queue_orphans(&self, homes: Vec<u64>) {
        lock(&self.orphans).extend(homes);
    }

    /// Removes the rows of a partition that belongs to nobody, some with each commit, so that those of clients come in
    /// between: the store destroys what is left in one piece.
    fn clear_home(&self, home: PartitionId) -> Result<()> {
        let mut writer = StagingWriter::open(&self.store, &self.world, home)?;
        let mut from = Vec::new();
        loop {
            self.store.wait_for_compaction();
            let snapshot = writer.snapshot()?;
            let rest = (Bound::Included(&from[..]), Bound::Unbounded);
            let mut last = None;
            for row in snapshot
                .scan(rest, Direction::Forward)
                .take(ROWS_DESTROYED_A_COMMIT)
            {
                let (key, _) = row.map_err(storage_failure)?;
                writer.delete(key.to_vec());
                last = Some(key);
            }
            let Some(last) = last else { return Ok(()) };
            writer.flush();
            writer.wait_durable()?;
            from = [&last[..], &[0]].concat();
        }
    }

    /// Destroys one partition that no container has any more; whether there was one.
    ///
    /// # Errors
    /// What the store reports; the partition stays an orphan.
    pub fn destroy_one_orphan(&self) -> Result<bool> {
        let Some(home) = lock(&self.orphans).pop() else {
            return Ok(false);
        };
        let destroyed = self.clear_home(PartitionId(home));
        let destroyed = destroyed.and_then(|()| {
            self.store
                .destroy(PartitionId(home))
                .map_err(storage_failure)
        });
        let forgotten = destroyed.and_then(|()| {
            self.commit(Batch {
                deletes: vec![orphan_key(home)],
                ..Batch::default()
            })
        });
        if forgotten.is_err() {
            self.queue_orphans(vec![home]);
        }
        forgotten.map(|()| true)
    }

    /// A database.
    ///
    /// # Errors
    /// 404.
    pub fn database(&self, id: Id<'_>) -> Result<Arc<Database>> {
        let state = self.state();
        let found = match id {
            Id::Rid(rid) => state.databases.get(&rid),
            Id::Name(name) => state.databases.values().find(|d| d.id() == name),
        };
        found.cloned().ok_or_else(Error::not_found)
    }

    /// A container.
    ///
    /// # Errors
    /// 404 if it is missing, 404/1003 if its database is.
    pub fn container(&self, database: Id<'_>, container: Id<'_>) -> Result<Arc<Container>> {
        let database = self
            .database(database)
            .map_err(|_| Error::owner_not_found())?;
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
        found.cloned().ok_or_else(Error::not_found)
    }

    /// All databases, oldest first.
    pub fn databases(&self) -> Vec<Arc<Database>> {
        let mut all: Vec<_> = self.state().databases.values().cloned().collect();
        all.sort_by_key(|d| (d.meta().ts, d.rid()));
        all
    }

    /// All containers of a database, oldest first.
    pub fn containers(&self, database: &Database) -> Vec<Arc<Container>> {
        let mut all: Vec<_> = self
            .state()
            .containers
            .values()
            .filter(|c| c.rid().database_part() == database.rid())
            .cloned()
            .collect();
        all.sort_by_key(|c| (c.created(), c.rid()));
        all
    }

    /// All containers there are.
    pub fn all_containers(&self) -> Vec<Arc<Container>> {
        self.state().containers.values().cloned().collect()
    }

    fn new_meta(&self, rid: Rid) -> Meta {
        Meta {
            rid,
            ts: self.world.now_seconds(),
            etag: self.world.random(),
        }
    }
}

impl Batch {
    fn put(&mut self, record: &Record) {
        self.puts.push((record.key(), record.text()));
    }

    fn delete(&mut self, kind: Kind, rid: Rid) {
        self.deletes.push(records::key(kind, rid));
    }

    fn mark_orphan(&mut self, home: PartitionId) {
        self.puts.push((orphan_key(home.0), Vec::new()));
    }
}

fn orphan_key(home: u64) -> Vec<u8> {
    [&[ORPHAN][..], &home.to_be_bytes()].concat()
}

/// The id of a database, container or script, checked.
///
/// # Errors
/// 400 if it is missing, no string, empty, too long, ends in a blank or holds `/`, `\`, `?` or `#`.
pub fn resource_id(body: &Object) -> Result<&str> {
    let missing = || {
        Error::bad(
            "The input content is invalid because the required properties - 'id; ' - are missing",
        )
    };
    let id = match body.get("id") {
        None | Some(Json::Null) => return Err(missing()),
        Some(id) => id
            .as_str()
            .ok_or_else(|| Error::bad("The id is invalid: it must be a string."))?,
    };
    if id.is_empty() {
        return Err(missing());
    }
    if id.chars().count() > limits::RESOURCE_ID_CHARS {
        return Err(Error::bad(format!(
            "The input name '{}...' is invalid. Ensure to provide a unique non-empty string less than '{}' characters.",
            id.chars().take(20).collect::<String>(),
            limits::RESOURCE_ID_CHARS
        )));
    }
    if id.contains(['/', '\\', '?', '#']) || id.ends_with(' ') {
        return Err(Error::bad(format!(
            "The id '{id}' is invalid: it holds one of the characters / \\ ? # or ends in a blank."
        )));
    }
    Ok(id)
}

/// JSON that the engine itself wrote.
fn own_json(text: &[u8]) -> Result<Json> {
    parse(text).map_err(|_| Record::damaged())
}
