//! Containers: settings, physical partitions and scripts.
//!
//! A [`Container`] is shared by all requests. Settings and partitions are replaced as a whole, so a
//! reader that holds an `Arc` of either sees one consistent version. Writes of the catalog are
//! sequential, so there is one writer of both.

use super::databases::Database;
use super::offers::Offer;
use super::ranges::{Lineage, RangeRecord, open_live_partitions};
use super::records::{Kind, Meta, Record};
use super::scripts::{Script, ScriptKey};
use super::stored_policies::{add_kinds_of_entries, excluded_since, older_policy, read_policies};
use super::{Catalog, RowChanges};
use crate::background::agenda::{Agenda, Subject};
use crate::container::owners::Owners;
use crate::container::search::{check_spatial_types, check_vector_indexes_kept};
use crate::container::settings::{Settings, check_computed_properties, unchangeable};
use crate::container::tasks::BackgroundTask;
use crate::container::view::ContainerView;
use crate::errors::gone_error;
use crate::index::generations::{Generation, Policies};
use crate::index::policy::Policy;
use crate::partition::key_limit::{KeyLimit, LargeKey};
use crate::partition::size_limits::{ApproximateSearch, ContainerLimits};
use crate::partition::staging::wait_all_durable;
use crate::partition::{Counters, Partition, retry_if_moved};
use crate::quota::RecentUsage;
use crate::request::ids::{resource_id, stored_id};
use crate::request::{RangeInfo, Resource, ScriptKind, Throughput};
use crate::throughput::{Decisions, Given, Provision};
use crate::traffic::Traffic;
use orrery_model::partition_key::{Definition, Epk, EpkRange};
use orrery_model::rid::ChildKind;
use orrery_model::sync::{lock, read, write};
use orrery_model::{Error, Json, Object, Result, Rid, limits, object};
use orrery_storage::{PartitionId, Store};
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

/// A container.
pub struct Container {
    database: Arc<Database>,
    id: String,
    rid: Rid,
    /// The millisecond of the creation since 1970, which is also the version in session tokens.
    created: u64,
    /// The settings with which the container was opened. The partition key never changes.
    first_settings: Arc<Settings>,
    state: RwLock<ContainerState>,
    ranges: RwLock<Ranges>,
    scripts: RwLock<HashMap<ScriptKey, Arc<Script>>>,
    /// The number of the next item, from which its resource id is made; 0 until the first use,
    /// which reads the number from the partitions.
    pub(super) next_number: AtomicU64,
    provision: Provision,
    traffic: Traffic,
    agenda: Arc<Agenda>,
    limits: ContainerLimits,
    /// The millisecond of the next removal that is on the agenda.
    removal_at_ms: AtomicU64,
    recent_usage: RecentUsage,
}

/// The physical partitions of a container.
struct Ranges {
    /// In the order of their EPK ranges.
    live: Arc<[Arc<Partition>]>,
    lineage: Arc<Lineage>,
}

/// The members that a replace of the container changes.
struct ContainerState {
    meta: Meta,
    settings: Arc<Settings>,
    policies: Arc<Policies>,
}

impl fmt::Debug for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Container({}/{})", self.database.id(), self.id)
    }
}

impl ContainerView for Container {
    fn rid(&self) -> Rid {
        self.rid
    }

    fn settings(&self) -> Arc<Settings> {
        Container::settings(self)
    }

    fn policies(&self) -> Arc<Policies> {
        Container::policies(self)
    }

    fn new_item_number(&self) -> Result<u64> {
        self.find_next_number()?;
        Ok(self.next_number.fetch_add(1, Ordering::Relaxed))
    }

    fn item_number_bound(&self) -> Result<u64> {
        self.find_next_number()?;
        Ok(self.next_number.load(Ordering::Relaxed))
    }

    fn key_limit(&self) -> &KeyLimit {
        &self.limits.key
    }

    fn report_large_key(&self, epk: &Epk, bytes: u64) {
        self.limits.key.report(&LargeKey {
            database: self.database.id().to_owned(),
            container: self.id.clone(),
            epk: epk.to_string(),
            bytes,
            bytes_max: self.limits.key.bytes_max(),
        });
    }

    fn enter_work(&self, task: BackgroundTask, at_ms: u64) {
        // Most commits write items that expire later than others: they pass without a lock.
        if task == BackgroundTask::Removal
            && self.removal_at_ms.fetch_min(at_ms, Ordering::SeqCst) <= at_ms
        {
            return;
        }
        self.agenda.enter(task, Subject::Container(self.rid), at_ms);
    }
}

impl Container {
    /// Opens a stored container and registers its name in its database.
    ///
    /// # Errors
    /// 500 if the record is damaged or the store cannot be read.
    pub(super) fn from_record(
        catalog: &Catalog,
        database: Arc<Database>,
        record: Record,
        lineage: Lineage,
    ) -> Result<Self> {
        let settings = catalog.settings_of(&record.body)?;
        let policies = read_policies(&record.internal, &settings)?;
        let created = record.created().unwrap_or(0);
        let decisions = Decisions::read(record.internal.get("throughput"));
        let decisions = decisions.ok_or_else(Record::damaged)?;
        let partitions =
            open_live_partitions((&catalog.store, &catalog.owners), &lineage, created)?;

        let container = Container {
            id: stored_id(&record.body)?.to_owned(),
            rid: record.meta.rid,
            created,
            first_settings: Arc::clone(&settings),
            state: RwLock::new(ContainerState {
                meta: record.meta,
                settings,
                policies: Arc::new(policies),
            }),
            ranges: RwLock::new(Ranges {
                live: partitions,
                lineage: Arc::new(lineage),
            }),
            scripts: RwLock::default(),
            next_number: AtomicU64::new(0),
            provision: Provision::new(decisions),
            traffic: Traffic::default(),
            agenda: Arc::clone(&catalog.agenda),
            limits: catalog.size_limits().of_database(database.id()),
            removal_at_ms: AtomicU64::new(u64::MAX),
            recent_usage: RecentUsage::default(),
            database,
        };
        container
            .database
            .register_container(&container.id, container.rid);
        Ok(container)
    }

    /// Forgets the removal that is on the agenda. Called by a visit before it looks at the
    /// partitions.
    pub(crate) fn forget_removal(&self) {
        self.removal_at_ms.store(u64::MAX, Ordering::SeqCst);
    }

    /// Enters the work of every task for now, after the partitions or the settings changed.
    pub(crate) fn enter_all_work(&self) {
        self.enter_work(BackgroundTask::Removal, 0);
        self.enter_work(BackgroundTask::KeyDeletion, 0);
        self.enter_work(BackgroundTask::Splits, 0);
        self.enter_work(BackgroundTask::Reindexing, 0);
        self.enter_linking();
    }

    /// Lets the task that links vectors look at all partitions.
    pub(crate) fn enter_linking(&self) {
        for partition in self.partitions().iter() {
            partition.expect_linking();
        }
        self.enter_work(BackgroundTask::Linking, 0);
    }

    /// Returns the use of quantised vectors.
    pub(crate) fn approximate(&self) -> &ApproximateSearch {
        &self.limits.approximate
    }

    /// Returns the id of the container.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the id of the database.
    pub fn database_id(&self) -> &str {
        self.database.id()
    }

    /// Returns the database of the container.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the bytes of items beyond which a physical partition is split.
    pub fn partition_bytes_max(&self) -> u64 {
        self.limits.partition_bytes
    }

    /// Returns the bytes of items that one logical partition may have.
    pub fn logical_partition_bytes_max(&self) -> u64 {
        self.limits.key.bytes_max()
    }

    /// Returns the resource id of the container.
    pub fn rid(&self) -> Rid {
        self.rid
    }

    /// Returns the millisecond since 1970 in which the container was created.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// Returns the partition key definition.
    pub fn partition_key(&self) -> &Definition {
        &self.first_settings.partition_key
    }

    /// Returns the statistics of the requests to the container.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Returns the current settings.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&read(&self.state).settings)
    }

    /// Returns the indexing policies that the index entries of items follow.
    ///
    /// Read the policies before a snapshot of a partition: then no item of the snapshot follows a
    /// policy that is missing here, unless the policy is newer than these.
    pub fn policies(&self) -> Arc<Policies> {
        Arc::clone(&read(&self.state).policies)
    }

    fn state(&self) -> (Meta, Arc<Settings>, Policies) {
        let state = read(&self.state);
        (
            state.meta,
            Arc::clone(&state.settings),
            Policies::clone(&state.policies),
        )
    }

    /// Returns the live physical partitions in the order of their EPK ranges, which cover the whole
    /// hash space without overlap.
    ///
    /// A split or merge may replace a partition after the call; the partition then refuses reads
    /// and writes.
    pub fn partitions(&self) -> Arc<[Arc<Partition>]> {
        Arc::clone(&read(&self.ranges).live)
    }

    /// Returns true if the container always has one physical partition: a container that was
    /// created without a partition key.
    pub fn has_one_partition(&self) -> bool {
        self.partition_key().is_system_key()
    }

    /// Returns true if the throughput of an offer needs more physical partitions than there are.
    pub(crate) fn lacks_partitions_for(&self, offer: &Offer) -> bool {
        !self.has_one_partition() && self.partitions().len() < offer.partitions()
    }

    /// Returns all physical partitions that the container has or had.
    pub fn lineage(&self) -> Arc<Lineage> {
        Arc::clone(&read(&self.ranges).lineage)
    }

    /// Applies the changed rows of a split or merge to the partitions in memory. `now` is in
    /// milliseconds since 1970. The caller holds the write lock of the catalog.
    pub(super) fn change_ranges(
        &self,
        of: (&Arc<dyn Store>, &Arc<dyn Owners>),
        changed: &[RangeRecord],
        now: u64,
    ) -> Result<()> {
        let mut lineage = Lineage::clone(&self.lineage());
        for range in changed {
            lineage.insert(range.id, Box::new(range.clone()));
        }

        // A partition that stays keeps its object, because the object holds the only writer.
        let before = self.partitions();
        let opened = open_live_partitions(of, &lineage, self.created)?;
        let mut live = Vec::with_capacity(opened.len());
        for partition in opened.iter() {
            let unchanged = before.iter().find(|old| old.id == partition.id);
            live.push(Arc::clone(unchanged.unwrap_or(partition)));
        }
        let live: Arc<[_]> = live.into();

        // Successors get budgets before the first request can find them.
        self.pass_throughput_on(now, &before, &live);
        *write(&self.ranges) = Ranges {
            live,
            lineage: Arc::new(lineage),
        };
        Ok(())
    }

    /// Returns the live partition that holds an effective partition key.
    pub fn partition_of(&self, epk: &Epk) -> Arc<Partition> {
        let partitions = self.partitions();
        // The ranges cover the hash space, so one partition matches. The last has no upper bound.
        let index = partitions.partition_point(|p| p.range.max <= *epk);
        Arc::clone(&partitions[index.min(partitions.len() - 1)])
    }

    /// Runs an operation in the partition that holds an effective partition key, and again if the
    /// partition was replaced in the meantime. Returns the last partition and the result.
    pub fn in_partition_of<T>(
        &self,
        epk: &Epk,
        mut operation: impl FnMut(&Arc<Partition>) -> Result<T>,
    ) -> (Arc<Partition>, Result<T>) {
        let mut partition = None;
        let result = retry_if_moved(|| operation(partition.insert(self.partition_of(epk))));
        let partition = partition.unwrap_or_else(|| self.partition_of(epk));
        (partition, result)
    }

    /// Returns true if a live partition has this range id.
    pub fn has_range(&self, id: u32) -> bool {
        self.partitions().iter().any(|p| p.id == id)
    }

    /// Returns the live partition with this range id.
    ///
    /// # Errors
    /// 410/1002 if there is none.
    pub fn partition_by_id(&self, id: u32) -> Result<Arc<Partition>> {
        let partitions = self.partitions();
        let found = partitions.iter().find(|p| p.id == id);
        found.cloned().ok_or_else(|| gone_error(id))
    }

    /// Returns the EPK range of a live partition, or `None` if no live partition has this range id.
    pub fn range_of(&self, id: u32) -> Option<EpkRange> {
        let partitions = self.partitions();
        let found = partitions.iter().find(|p| p.id == id);
        found.map(|p| p.range.clone())
    }

    /// Returns the EPK range of a partition that is or was live, or `None` if this range id was
    /// never used.
    pub fn epk_range_of(&self, id: u32) -> Option<EpkRange> {
        self.lineage().get(&id).map(|range| range.range.clone())
    }

    /// Returns the budget of the container and the decisions about it.
    pub(crate) fn provision(&self) -> &Provision {
        &self.provision
    }

    /// Returns `_self`: the link by resource ids.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/colls/{}/", self.database.rid(), self.rid)
    }

    /// Returns the link by names, without a slash at the end.
    pub fn alt_link(&self) -> String {
        format!("dbs/{}/colls/{}", self.database.id(), self.id)
    }

    /// Returns the container as clients read it.
    pub fn resource(&self, created: bool) -> Resource {
        let state = read(&self.state);
        let kind_properties = [
            ("_docs", "docs/"),
            ("_sprocs", "sprocs/"),
            ("_triggers", "triggers/"),
            ("_udfs", "udfs/"),
            ("_conflicts", "conflicts/"),
        ];
        let settings = &state.settings;
        Resource {
            body: state.meta.text(
                &settings.body(&self.id),
                &self.self_link(),
                &kind_properties,
            ),
            etag: state.meta.etag_text(),
            rid: self.rid,
            created,
        }
    }

    /// Returns the sums of the durable items and of the bytes of items and index entries.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn counters(&self) -> Result<Counters> {
        retry_if_moved(|| {
            let mut sum = Counters::default();
            for partition in self.partitions().iter() {
                let snapshot = partition.snapshot_while_completing()?;
                let counters = Partition::counters(snapshot.as_ref())?;
                sum.items += counters.items;
                sum.bytes += counters.bytes;
                sum.index_bytes += counters.index_bytes;
            }
            Ok(sum)
        })
    }

    /// Returns the place for the usage that answers repeat.
    pub(crate) fn recent_usage(&self) -> &RecentUsage {
        &self.recent_usage
    }

    /// Returns the live partitions as the partition key ranges that clients see.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn ranges(&self) -> Result<Vec<RangeInfo>> {
        retry_if_moved(|| {
            let mut ranges = Vec::new();
            for partition in self.partitions().iter() {
                ranges.push(RangeInfo {
                    id: partition.id,
                    rid: Rid::child(self.rid, ChildKind::Range, u64::from(partition.id) + 2),
                    range: partition.range.clone(),
                    parents: partition.parents.clone(),
                    lsn: partition.snapshot_while_completing()?.head().lsn,
                    is_splitting: false,
                });
            }
            Ok(ranges)
        })
    }

    /// Returns the script of a kind and id, or `None` if there is none.
    pub fn script(&self, kind: ScriptKind, id: &str) -> Option<Arc<Script>> {
        read(&self.scripts).get(&(kind, id.to_owned())).cloned()
    }

    /// Returns the scripts of one kind in the order of their resource ids.
    pub fn scripts(&self, kind: ScriptKind) -> Vec<Arc<Script>> {
        let mut all: Vec<_> = read(&self.scripts).values().cloned().collect();
        all.retain(|script| script.kind == kind);
        all.sort_by_key(|script| script.meta.rid.child_number().map(|(_, number)| number));
        all
    }

    pub(super) fn add_script(&self, script: Script) {
        let key = (script.kind, script.id().to_owned());
        write(&self.scripts).insert(key, Arc::new(script));
    }

    pub(super) fn remove_script(&self, kind: ScriptKind, id: &str) {
        write(&self.scripts).remove(&(kind, id.to_owned()));
    }

    /// Returns the highest storage id of the live partitions.
    pub(super) fn last_storage_id(&self) -> u64 {
        let partitions = self.partitions();
        partitions.iter().map(|p| p.storage_id.0).max().unwrap_or(0)
    }

    fn record(&self, meta: Meta, settings: &Settings, policies: &Policies) -> Record {
        let mut older_policies = Vec::new();
        for (generation, policy) in &policies.older {
            older_policies.push(older_policy(*generation, policy));
        }
        let mut internal = object! {
            "created" => self.created,
            "generation" => policies.newest.0,
            "olderPolicies" => older_policies,
            "excludedSince" => excluded_since(policies),
        };
        add_kinds_of_entries(&mut internal);
        if let Some(throughput) = self.provision.decisions().kept() {
            internal.push_new("throughput", throughput);
        }
        Record {
            kind: Kind::Container,
            meta,
            body: settings.body(&self.id),
            internal,
        }
    }
}

/// Returns the row of a partition of a new container.
fn first_range(partition: &Partition, since_ms: u64) -> RangeRecord {
    RangeRecord {
        id: partition.id,
        range: partition.range.clone(),
        parents: Vec::new(),
        storage_id: Some(partition.storage_id),
        mixed_until: 0,
        since_ms,
        until_ms: None,
    }
}

/// Returns the number of physical partitions of a new container, by the rule of the service: one
/// for each 6,000 RU/s of manual throughput, or for each [`limits::PARTITION_RU_PER_SECOND`] of the
/// maximum of autoscale. A container without a partition key has one.
///
/// # Errors
/// 400 if the throughput is more than the only partition can carry.
fn partition_count(settings: &Settings, throughput: Throughput) -> Result<usize> {
    const MANUAL_RU_PER_PARTITION: u32 = 6_000;
    if settings.partition_key.is_system_key() {
        throughput.check_one_partition()?;
        return Ok(1);
    }
    let count = match throughput {
        Throughput::Manual(ru) => ru.div_ceil(MANUAL_RU_PER_PARTITION),
        Throughput::Autoscale { max, .. } => max.div_ceil(limits::PARTITION_RU_PER_SECOND),
    };
    Ok(count.max(1) as usize)
}

/// Settings that are remembered, so that equal ones are shared.
const SHARED_SETTINGS: usize = 256;

impl Catalog {
    /// Creates a container. Without `throughput` the container shares the throughput of its
    /// database if the database has its own, and else gets the throughput of
    /// [`Catalog::unstated_throughput`].
    ///
    /// # Errors
    /// 400 for an invalid body, and for more throughput than one partition carries if the container
    /// has no partition key; 404/1003 if the database is gone, 409 if the id is taken.
    pub(crate) fn create_container(
        &self,
        database: &Database,
        body: &Object,
        throughput: Option<Throughput>,
    ) -> Result<Resource> {
        let settings = Settings::from_body(body)?;
        check_computed_properties(&settings.computed_properties)?;
        check_spatial_types(&settings.policy)?;
        let id = resource_id(body)?.to_owned();
        let _writing = self.begin_change()?;

        let owner = self.existing_database(database)?;
        if owner.container(&id).is_some() {
            return Err(Error::conflict().with_help(
                "Read it, or use the method that creates a container only if it does not exist.",
            ));
        }
        self.check_encryption_keys(database.rid(), settings.encryption.as_ref())?;
        let rid = self.unused_rid(
            |number| Rid::container(database.rid(), number as u32),
            |rid| self.state().containers.contains_key(&rid),
        );

        // A container that shares throughput has no offer and begins with one partition.
        let is_shared = throughput.is_none() && self.offer_of(database.rid()).is_some();
        let throughput = throughput.unwrap_or(self.unstated_throughput(&settings));
        let partition_count = match is_shared {
            true => 1,
            false => partition_count(&settings, throughput)?,
        };
        let partitions = self.new_partitions(&settings, partition_count)?;
        let now = self.world.now_ms();
        let mut internal = object! {
            "created" => now,
            "generation" => 0,
            "excludedSince" => 0,
        };
        add_kinds_of_entries(&mut internal);
        let record = Record {
            kind: Kind::Container,
            meta: self.new_meta(rid),
            body: settings.body(&id),
            internal,
        };
        let offer = if is_shared {
            None
        } else {
            let link = format!("dbs/{}/colls/{rid}/", database.rid());
            Some(self.new_offer(rid, link, throughput)?)
        };

        // One commit makes the container, its partitions and its offer exist.
        let mut changes = RowChanges::default();
        changes.put(&record);
        let mut lineage = Lineage::new();
        for partition in &partitions {
            let range = first_range(partition, now);
            changes.put_range(rid, &range);
            lineage.insert(range.id, Box::new(range));
        }
        if let Some(offer) = &offer {
            changes.put(&offer.record());
        }
        self.commit(changes)?;

        // The record is opened as at start, so a new container is the same as a stored one.
        let container = Container::from_record(self, owner, record, lineage)?;
        let container = Arc::new(container);
        self.register_container(Arc::clone(&container), offer);
        if container.settings().retention_seconds.is_some() {
            container.enter_work(BackgroundTask::Removal, 0);
        }
        Ok(container.resource(true))
    }

    /// Returns a database that was looked up before the lock was taken.
    ///
    /// # Errors
    /// 404/1003 if the database was deleted meanwhile.
    fn existing_database(&self, database: &Database) -> Result<Arc<Database>> {
        let owner = self.state().database(database.rid()).cloned();
        owner.ok_or_else(Error::owner_not_found)
    }

    /// Returns the throughput of a container whose creation states none: the default of the engine,
    /// and not more than one partition carries if the container has no partition key.
    fn unstated_throughput(&self, settings: &Settings) -> Throughput {
        let ru = match settings.partition_key.is_system_key() {
            true => self.container_ru.min(limits::PARTITION_RU_PER_SECOND),
            false => self.container_ru,
        };
        Throughput::Manual(ru)
    }

    /// Makes a committed container and its offer visible to requests.
    fn register_container(&self, container: Arc<Container>, offer: Option<Offer>) {
        let mut state = write(&self.state);
        state.last_storage_id = state.last_storage_id.max(container.last_storage_id());
        state
            .containers
            .insert(container.rid, Arc::clone(&container));
        if let Some(offer) = offer {
            state.add_offer(Arc::new(offer));
        }
        drop(state);
        self.assign_throughput(&container);
    }

    /// Creates empty partitions that cover the hash space in equal parts. Their first commits are
    /// durable when the function returns.
    fn new_partitions(&self, settings: &Settings, count: usize) -> Result<Vec<Partition>> {
        let mut last_storage_id = self.state().last_storage_id;
        let ranges = EpkRange::divide_evenly(settings.partition_key.hashing(), count);
        let mut partitions = Vec::with_capacity(count);
        for (index, range) in (0u32..).zip(ranges) {
            last_storage_id += 1;
            let storage_id = PartitionId(last_storage_id);
            self.empty_key_space(storage_id)?;
            partitions.push(Partition::new(
                Arc::clone(&self.store),
                Arc::clone(&self.owners),
                index,
                Vec::new(),
                range,
                storage_id,
                0,
            ));
        }
        // All first commits are submitted before any is waited for, so they share a sync.
        let receipts = partitions
            .iter()
            .map(Partition::create)
            .collect::<Result<Vec<_>>>()?;
        wait_all_durable(receipts)?;
        Ok(partitions)
    }

    /// Returns the settings that a stored body has. Containers whose bodies differ in their ids
    /// only share one value, and its members are read once.
    ///
    /// # Errors
    /// 400 for an invalid body.
    fn settings_of(&self, body: &Object) -> Result<Arc<Settings>> {
        let mut rest = body.clone();
        rest.remove("id");
        let rest = Json::Object(rest).to_text();
        if let Some(shared) = lock(&self.shared_settings).get(&rest) {
            return Ok(Arc::clone(shared));
        }
        let settings = Settings::from_stored(body)?;
        let settings = Arc::new(settings.with_account_versions(self.account_versions));
        let mut shared = lock(&self.shared_settings);
        if shared.len() >= SHARED_SETTINGS {
            shared.clear();
        }
        shared.insert(rest, Arc::clone(&settings));
        Ok(settings)
    }

    /// Replaces the settings of a container.
    ///
    /// A changed indexing policy begins a new generation. Queries follow the older policies too
    /// until the index is rebuilt and [`Catalog::retire_policies`] is called.
    ///
    /// # Errors
    /// 400 for an invalid body or a changed property that cannot change, 404, 412.
    pub(crate) fn replace_container(
        &self,
        container: &Container,
        body: &Object,
        if_match: Option<&str>,
    ) -> Result<()> {
        // A changed vector index is named even if its embedding is left out as well.
        let policy = Policy::from_json(body.get("indexingPolicy"))?;
        check_vector_indexes_kept(&policy, &container.settings().policy)?;
        let settings = Settings::from_body(body)?.with_account_versions(self.account_versions);
        check_computed_properties(&settings.computed_properties)?;
        check_spatial_types(&settings.policy)?;
        let _writing = self.begin_change()?;
        self.check_current(container)?;
        let (old_meta, old_settings, mut policies) = container.state();
        old_meta.check_if_match(if_match)?;
        if resource_id(body)? != container.id {
            return Err(unchangeable("id"));
        }
        settings.check_replaces(&old_settings)?;

        let is_policy_changed = !settings.policy.has_same_entries(&old_settings.policy);
        if is_policy_changed {
            let newest = (policies.newest.0 + 1, Arc::clone(&settings.policy));
            let replaced = std::mem::replace(&mut policies.newest, newest);
            policies.older.push(replaced);
        }
        let meta = self.new_meta(container.rid);
        self.change_container(container, meta, Arc::new(settings), policies)
    }

    /// Removes the policies of a container that are older than the generation `newest`. Call it
    /// when no index entry follows them any more.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) fn retire_policies(&self, container: &Container, newest: Generation) -> Result<()> {
        let _writing = self.begin_change()?;
        if !self.is_current(container) {
            return Ok(());
        }
        let (meta, settings, mut policies) = container.state();
        policies
            .older
            .retain(|(generation, _)| *generation >= newest);
        self.change_container(container, meta, settings, policies)
    }

    /// Changes the decisions about the throughput of a container. `decide` gets the throughput that
    /// the container is given and returns the new decisions.
    ///
    /// # Errors
    /// 404 if the container is gone; the errors of `decide` and of the store.
    pub(crate) fn decide(
        &self,
        container: &Container,
        decide: impl FnOnce(&Given) -> Result<Decisions>,
    ) -> Result<()> {
        let _writing = self.begin_change()?;
        self.check_current(container)?;
        let now = self.world.now_ms();
        let before = container.provision.decisions();
        let decisions = decide(&container.provision.given())?;
        container.provision.decide(now, decisions);

        // The record is made from the new decisions, so they are taken back if the commit fails.
        let (meta, settings, policies) = container.state();
        let mut changes = RowChanges::default();
        changes.put(&container.record(meta, &settings, &policies));
        if let Err(error) = self.commit(changes) {
            container.provision.decide(now, before);
            return Err(error);
        }
        container.share_throughput(now);
        container.enter_work(BackgroundTask::Splits, 0);
        Ok(())
    }

    fn change_container(
        &self,
        container: &Container,
        meta: Meta,
        settings: Arc<Settings>,
        policies: Policies,
    ) -> Result<()> {
        let mut changes = RowChanges::default();
        changes.put(&container.record(meta, &settings, &policies));
        self.commit(changes)?;
        *write(&container.state) = ContainerState {
            meta,
            settings,
            policies: Arc::new(policies),
        };
        container.enter_all_work();
        Ok(())
    }

    /// Deletes a container with its items, scripts and offer.
    ///
    /// # Errors
    /// 404, 412.
    pub(crate) fn delete_container(
        &self,
        container: &Container,
        if_match: Option<&str>,
    ) -> Result<()> {
        read(&container.state).meta.check_if_match(if_match)?;
        let _writing = self.begin_change()?;
        self.check_current(container)?;
        let mut changes = RowChanges::default();
        let orphans = self.delete_container_rows(container, &mut changes);
        self.commit(changes)?;
        self.forget_container(container);
        self.queue_orphans(orphans);
        Ok(())
    }

    /// Adds the deletion of all rows of a container to `changes`. Returns the storage ids of its
    /// partitions, which become orphans.
    pub(super) fn delete_container_rows(
        &self,
        container: &Container,
        changes: &mut RowChanges,
    ) -> Vec<PartitionId> {
        changes.delete(Kind::Container, container.rid);
        for kind in ScriptKind::ALL {
            for script in container.scripts(kind) {
                changes.delete(kind.into(), script.meta.rid);
            }
        }
        if let Some(offer) = self.offer_of(container.rid) {
            changes.delete(Kind::Offer, offer.rid());
        }
        for range_id in container.lineage().keys() {
            changes.delete_range(container.rid, *range_id);
        }
        let mut orphans = Vec::new();
        for partition in container.partitions().iter() {
            changes.mark_orphan(partition.storage_id);
            orphans.push(partition.storage_id);
        }
        orphans
    }

    /// Removes a deleted container and its offer from memory.
    pub(super) fn forget_container(&self, container: &Container) {
        let mut state = write(&self.state);
        state.containers.remove(&container.rid);
        state.remove_offer_of(container.rid);
        drop(state);
        container.database.unregister_container(&container.id);
    }
}
