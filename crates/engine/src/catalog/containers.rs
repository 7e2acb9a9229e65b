//! Containers: their settings, their physical partitions and their scripts.

use super::databases::Database;
use super::offers::Offer;
use super::ranges::{Lineage, RangeRecord, live};
use super::records::{Kind, Meta, Record};
use super::scripts::{Script, ScriptKey};
use super::settings::{Settings, check_computed_properties};
use super::{Batch, Catalog};
use crate::errors::gone_error;
use crate::index::generations::{Generation, Policies};
use crate::index::policy::Policy;
use crate::partition::container_view::ContainerView;
use crate::partition::staging::wait_all_durable;
use crate::partition::{Counters, Partition, retry_if_moved};
use crate::request::etag_matches;
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
    created: u64,
    partition_key: Definition,
    state: RwLock<ContainerState>,
    ranges: RwLock<Ranges>,
    scripts: RwLock<HashMap<ScriptKey, Arc<Script>>>,
    next_number: AtomicU64,
    provision: Provision,
    traffic: Traffic,
}

/// Its physical partitions.
struct Ranges {
    live: Arc<[Arc<Partition>]>,
    lineage: Arc<Lineage>,
}

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

    fn new_item_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    fn item_number_bound(&self) -> u64 {
        self.next_number.load(Ordering::Relaxed)
    }
}

impl Container {
    pub(super) fn from_record(
        store: &Arc<dyn Store>,
        database: Arc<Database>,
        record: Record,
        lineage: Lineage,
    ) -> Result<Self> {
        let settings = Settings::from_body(&record.body)?;
        let policies = read_policies(&record.kept, &settings)?;
        let created = record
            .kept
            .get("created")
            .and_then(Json::as_i64)
            .unwrap_or(0) as u64;
        let partitions = live(store, &lineage, created)?;
        let decisions =
            Decisions::read(record.kept.get("throughput")).ok_or_else(Record::damaged)?;
        let mut next_number = 1;
        for partition in partitions.iter() {
            next_number =
                next_number.max(Partition::counters(partition.snapshot()?.as_ref())?.next_number);
        }
        let container = Container {
            id: super::resource_id(&record.body)?.to_owned(),
            rid: record.meta.rid,
            created,
            partition_key: settings.partition_key.clone(),
            state: RwLock::new(ContainerState {
                meta: record.meta,
                settings: Arc::new(settings),
                policies: Arc::new(policies),
            }),
            ranges: RwLock::new(Ranges {
                live: partitions,
                lineage: Arc::new(lineage),
            }),
            scripts: RwLock::default(),
            next_number: AtomicU64::new(next_number),
            provision: Provision::new(decisions),
            traffic: Traffic::default(),
            database,
        };
        container
            .database
            .name_container(&container.id, Some(container.rid));
        Ok(container)
    }

    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Its database's id.
    pub fn database_id(&self) -> &str {
        self.database.id()
    }

    /// Its database.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Its resource id.
    pub fn rid(&self) -> Rid {
        self.rid
    }

    /// The millisecond in which it was created.
    pub fn created(&self) -> u64 {
        self.created
    }

    /// Its partition key definition.
    pub fn partition_key(&self) -> &Definition {
        &self.partition_key
    }

    /// What was asked of it.
    pub(crate) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Its settings now.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&read(&self.state).settings)
    }

    /// The policies that its index entries follow now. Taken before a snapshot, they cover all that is in it or are
    /// older than it.
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

    /// The physical partitions that it has now, in order of their ranges. They tile the hash space. One that is taken
    /// from here may be gone a moment later, and then refuses to be read or written.
    pub fn partitions(&self) -> Arc<[Arc<Partition>]> {
        Arc::clone(&read(&self.ranges).live)
    }

    /// All physical partitions that it has or had.
    pub fn lineage(&self) -> Arc<Lineage> {
        Arc::clone(&read(&self.ranges).lineage)
    }

    /// Other partitions take the place of some, at this millisecond. One at a time changes them.
    pub(super) fn change_ranges(
        &self,
        store: &Arc<dyn Store>,
        changed: &[RangeRecord],
        now: u64,
    ) -> Result<()> {
        let mut lineage = Lineage::clone(&self.lineage());
        lineage.extend(changed.iter().map(|range| (range.id, range.clone())));
        // Those that stay are the same objects: each has its one writer.
        let (before, fresh) = (self.partitions(), live(store, &lineage, self.created)?);
        let same = |new: &Arc<Partition>| {
            before
                .iter()
                .find(|old| old.id == new.id)
                .unwrap_or(new)
                .clone()
        };
        let live: Arc<[_]> = fresh.iter().map(same).collect();
        self.pass_throughput_on(now, &before, &live);
        *write(&self.ranges) = Ranges {
            live,
            lineage: Arc::new(lineage),
        };
        Ok(())
    }

    /// The partition in which a key lives.
    pub fn partition_of(&self, epk: &Epk) -> Arc<Partition> {
        let partitions = self.partitions();
        // Ranges tile the space, so there is exactly one; keys of the last are unbounded above.
        let at = partitions.partition_point(|p| p.range.max <= *epk);
        Arc::clone(&partitions[at.min(partitions.len() - 1)])
    }

    /// Does an operation in the partition in which a key lives, again if that is gone by then; that partition, and how it went.
    pub fn in_partition_of<T>(
        &self,
        epk: &Epk,
        mut operation: impl FnMut(&Arc<Partition>) -> Result<T>,
    ) -> (Arc<Partition>, Result<T>) {
        let mut partition = None;
        let done = retry_if_moved(|| operation(partition.insert(self.partition_of(epk))));
        (partition.unwrap_or_else(|| self.partition_of(epk)), done)
    }

    /// Whether there is a physical partition of this id.
    pub fn has_range(&self, id: u32) -> bool {
        self.partitions().iter().any(|p| p.id == id)
    }

    /// The partition with this range id.
    ///
    /// # Errors
    /// 410/1002 if there is none.
    pub fn partition_by_id(&self, id: u32) -> Result<Arc<Partition>> {
        self.partitions()
            .iter()
            .find(|p| p.id == id)
            .cloned()
            .ok_or_else(|| gone_error(id))
    }

    /// The stretch of the hash space that a partition holds; `None` if there is no partition of this id.
    pub fn range_of(&self, id: u32) -> Option<EpkRange> {
        self.partitions()
            .iter()
            .find(|p| p.id == id)
            .map(|p| p.range.clone())
    }

    /// The stretch of a partition that it has or had; `None` if there never was one of this id.
    pub fn epk_range_of(&self, id: u32) -> Option<EpkRange> {
        self.lineage().get(&id).map(|range| range.range.clone())
    }

    /// What it may spend.
    pub(crate) fn provision(&self) -> &Provision {
        &self.provision
    }

    /// What `_self` says.
    pub fn self_link(&self) -> String {
        format!("dbs/{}/colls/{}/", self.database.rid(), self.rid)
    }

    /// The link by names.
    pub fn alt_link(&self) -> String {
        format!("dbs/{}/colls/{}", self.database.id(), self.id)
    }

    /// As a client reads it.
    pub fn resource(&self, created: bool) -> Resource {
        let state = read(&self.state);
        let own = [
            ("_docs", "docs/"),
            ("_sprocs", "sprocs/"),
            ("_triggers", "triggers/"),
            ("_udfs", "udfs/"),
            ("_conflicts", "conflicts/"),
        ];
        let body = state
            .meta
            .text(&state.settings.body, &self.self_link(), &own);
        Resource {
            body,
            etag: state.meta.etag_text(),
            rid: self.rid,
            created,
        }
    }

    /// Items, and bytes of items and index, that are stored durably.
    ///
    /// # Errors
    /// What the store reports.
    pub fn stored(&self) -> Result<Counters> {
        retry_if_moved(|| {
            let mut all = Counters::default();
            for partition in self.partitions().iter() {
                let counters =
                    Partition::counters(partition.snapshot_while_completing()?.as_ref())?;
                all.items += counters.items;
                all.bytes += counters.bytes;
                all.index_bytes += counters.index_bytes;
            }
            Ok(all)
        })
    }

    /// The live partitions as clients see them.
    pub fn ranges(&self) -> Result<Vec<RangeInfo>> {
        let info = |p: &Arc<Partition>| -> Result<RangeInfo> {
            Ok(RangeInfo {
                id: p.id,
                rid: Rid::child(self.rid, ChildKind::Range, u64::from(p.id) + 2),
                range: p.range.clone(),
                parents: p.parents.clone(),
                lsn: p.snapshot_while_completing()?.head().lsn,
                is_splitting: false,
            })
        };
        retry_if_moved(|| self.partitions().iter().map(info).collect())
    }

    /// One of its scripts.
    pub fn script(&self, kind: ScriptKind, id: &str) -> Option<Arc<Script>> {
        read(&self.scripts).get(&(kind, id.to_owned())).cloned()
    }

    /// Its scripts of one kind, by id.
    pub fn scripts(&self, kind: ScriptKind) -> Vec<Arc<Script>> {
        let scripts = read(&self.scripts);
        let mut all: Vec<_> = scripts
            .values()
            .filter(|s| s.kind == kind)
            .cloned()
            .collect();
        all.sort_by_key(|s| s.meta.rid.child_number().map(|(_, n)| n));
        all
    }

    pub(super) fn add_script(&self, script: Script) {
        let key = (script.kind, script.id().to_owned());
        write(&self.scripts).insert(key, Arc::new(script));
    }

    pub(super) fn remove_script(&self, kind: ScriptKind, id: &str) {
        write(&self.scripts).remove(&(kind, id.to_owned()));
    }

    pub(super) fn last_home(&self) -> u64 {
        self.partitions()
            .iter()
            .map(|p| p.storage_id.0)
            .max()
            .unwrap_or(0)
    }

    fn record(&self, meta: Meta, settings: &Settings, policies: &Policies) -> Record {
        let older: Vec<Json> = policies
            .older
            .iter()
            .map(|(g, p)| Json::Array(vec![Json::from(*g), p.to_json()]))
            .collect();
        let mut kept = object! {
            "created" => self.created,
            "generation" => policies.newest.0,
            "olderPolicies" => older,
        };
        if let Some(throughput) = self.provision.decisions().kept() {
            kept.push_new("throughput", throughput);
        }
        Record {
            kind: Kind::Container,
            meta,
            body: settings.body.clone(),
            kept,
        }
    }
}

/// The generations of a record's policies. One without a generation was written when composite indexes had no entries:
/// its index still has to follow them.
fn read_policies(kept: &Object, settings: &Settings) -> Result<Policies> {
    let generation = |json: &Json| u32::try_from(json.as_i64()?).ok();
    let older = |entry: &Json| -> Result<_> {
        let Some([number, policy]) = entry.as_array() else {
            return Err(Record::damaged());
        };
        let policy = Policy::from_json(Some(policy))?;
        Ok((
            generation(number).ok_or_else(Record::damaged)?,
            Arc::new(policy),
        ))
    };
    if kept.get("generation").is_none() && !settings.policy.composites().is_empty() {
        let older = vec![(0, Arc::new(settings.policy.without_composites()))];
        return Ok(Policies {
            newest: (1, Arc::clone(&settings.policy)),
            older,
        });
    }
    let listed = kept
        .get("olderPolicies")
        .and_then(Json::as_array)
        .unwrap_or_default();
    Ok(Policies {
        newest: (
            kept.get("generation").and_then(generation).unwrap_or(0),
            Arc::clone(&settings.policy),
        ),
        older: listed.iter().map(older).collect::<Result<_>>()?,
    })
}

/// What is kept of a partition that a new container begins with.
fn first_range(partition: &Partition, since_ms: u64) -> RangeRecord {
    RangeRecord {
        id: partition.id,
        range: partition.range.clone(),
        parents: Vec::new(),
        home: Some(partition.storage_id),
        mixed_until: 0,
        since_ms,
        until_ms: None,
    }
}

/// Physical partitions that a new container gets (the service's rule).
fn partition_count(throughput: Throughput) -> usize {
    const MANUAL_RU_EACH: u32 = 6_000;
    let count = match throughput {
        Throughput::Manual(ru) => ru.div_ceil(MANUAL_RU_EACH),
        Throughput::Autoscale { max, .. } => max.div_ceil(limits::PARTITION_RU_PER_SECOND),
    };
    count.max(1) as usize
}

/// Throughput of a container that names none.
const DEFAULT_THROUGHPUT: Throughput = Throughput::Manual(400);

impl Catalog {
    /// Creates a container.
    ///
    /// # Errors
    /// 409 if the id is taken, 400 for a body that breaks a rule.
    pub fn create_container(
        &self,
        database: &Database,
        body: &Object,
        throughput: Option<Throughput>,
    ) -> Result<Resource> {
        let settings = Settings::from_body(body)?;
        check_computed_properties(&settings.computed_properties)?;
        let id = super::resource_id(&settings.body)?.to_owned();
        let _writing = lock(&self.writing);
        let owner = self
            .state()
            .databases
            .get(&database.rid())
            .cloned()
            .ok_or_else(Error::owner_not_found)?;
        if database.container(&id).is_some() {
            return Err(Error::conflict());
        }
        self.check_encryption_keys(database.rid(), settings.encryption.as_ref())?;
        let rid =
            std::iter::repeat_with(|| Rid::container(database.rid(), self.world.random() as u32))
                .find(|rid| !self.state().containers.contains_key(rid))
                .expect("an endless iterator");
        // A container of a database with throughput of its own shares it, unless it asks for some.
        let shared = throughput.is_none() && self.offer_of(database.rid()).is_some();
        let asked = throughput.unwrap_or(DEFAULT_THROUGHPUT);
        let count = if shared { 1 } else { partition_count(asked) };
        let partitions = self.new_partitions(&settings, count)?;
        let meta = self.new_meta(rid);
        let now = self.world.now_ms();
        let kept = object! { "created" => now, "generation" => 0 };
        let record = Record {
            kind: Kind::Container,
            meta,
            body: settings.body.clone(),
            kept,
        };
        let offer = if shared {
            None
        } else {
            Some(self.new_offer(rid, format!("dbs/{}/colls/{rid}/", database.rid()), asked)?)
        };
        let mut batch = Batch::default();
        batch.put(&record);
        let lineage: Lineage = partitions
            .iter()
            .map(|p| (p.id, first_range(p, now)))
            .collect();
        lineage
            .values()
            .for_each(|range| batch.put_range(rid, range));
        if let Some(offer) = &offer {
            batch.put(&offer.record());
        }
        self.commit(batch)?;
        let container = Arc::new(Container::from_record(&self.store, owner, record, lineage)?);
        let mut state = write(&self.state);
        state.last_home = state.last_home.max(container.last_home());
        state.containers.insert(rid, Arc::clone(&container));
        state
            .offers
            .extend(offer.map(|offer: Offer| (offer.rid(), Arc::new(offer))));
        drop(state);
        self.provide(&container);
        Ok(container.resource(true))
    }

    /// Empty partitions that tile the hash space, each with its first commit durable.
    fn new_partitions(&self, settings: &Settings, count: usize) -> Result<Vec<Partition>> {
        let first_home = self.state().last_home + 1;
        let ranges = EpkRange::divide_evenly(settings.partition_key.hashing(), count);
        let make = |(i, range): (u64, EpkRange)| -> Result<Partition> {
            let home = PartitionId(first_home + i);
            // A creation that did not come to its end may have left something here.
            self.store
                .destroy(home)
                .map_err(crate::errors::storage_failure)?;
            Ok(Partition::new(
                Arc::clone(&self.store),
                i as u32,
                Vec::new(),
                range,
                home,
                0,
            ))
        };
        let partitions = (0..).zip(ranges).map(make).collect::<Result<Vec<_>>>()?;
        let receipts = partitions
            .iter()
            .map(Partition::create)
            .collect::<Result<Vec<_>>>()?;
        wait_all_durable(receipts).map(|()| partitions)
    }

    /// Replaces a container's settings. If the policy changed it is a new generation, which the index still has to
    /// follow; [`Catalog::retire_policies`] says when it does.
    ///
    /// # Errors
    /// 400 for what cannot change, 404, 412.
    pub fn replace_container(
        &self,
        container: &Container,
        body: &Object,
        if_match: Option<&str>,
    ) -> Result<()> {
        let settings = Settings::from_body(body)?;
        check_computed_properties(&settings.computed_properties)?;
        let _writing = lock(&self.writing);
        if !self.has(container) {
            return Err(Error::not_found());
        }
        let (old_meta, old, mut policies) = container.state();
        if if_match.is_some_and(|wanted| !etag_matches(wanted, &old_meta.etag_text())) {
            return Err(Error::precondition_failed());
        }
        settings.check_replaces(&old)?;
        if settings.policy.to_json() != old.policy.to_json() {
            let generation = policies.newest.0 + 1;
            policies.older.push(std::mem::replace(
                &mut policies.newest,
                (generation, Arc::clone(&settings.policy)),
            ));
        }
        self.change_container(
            container,
            self.new_meta(container.rid),
            Arc::new(settings),
            policies,
        )
    }

    /// No item of the container follows an older policy than the generation `newest` any more.
    ///
    /// # Errors
    /// What the store reports.
    pub fn retire_policies(&self, container: &Container, newest: Generation) -> Result<()> {
        let _writing = lock(&self.writing);
        if !self.has(container) {
            return Ok(());
        }
        let (meta, settings, mut policies) = container.state();
        policies
            .older
            .retain(|(generation, _)| *generation >= newest);
        self.change_container(container, meta, settings, policies)
    }

    /// Changes what is decided about a container's throughput: `decide` is told what the container may spend.
    ///
    /// # Errors
    /// 404 if the container is gone, and what `decide` and the store report.
    pub fn decide(
        &self,
        container: &Container,
        decide: impl FnOnce(&Given) -> Result<Decisions>,
    ) -> Result<()> {
        let _writing = lock(&self.writing);
        if !self.has(container) {
            return Err(Error::not_found());
        }
        let (before, now) = (container.provision.decisions(), self.world.now_ms());
        container
            .provision
            .decide(now, decide(&container.provision.given())?);
        let (meta, settings, policies) = container.state();
        let mut batch = Batch::default();
        batch.put(&container.record(meta, &settings, &policies));
        self.commit(batch)
            .inspect_err(|_| container.provision.decide(now, before))?;
        container.share_throughput(now);
        Ok(())
    }

    fn change_container(
        &self,
        container: &Container,
        meta: Meta,
        settings: Arc<Settings>,
        policies: Policies,
    ) -> Result<()> {
        let mut batch = Batch::default();
        batch.put(&container.record(meta, &settings, &policies));
        self.commit(batch)?;
        *write(&container.state) = ContainerState {
            meta,
            settings,
            policies: Arc::new(policies),
        };
        Ok(())
    }

    /// Deletes a container.
    ///
    /// # Errors
    /// 404, 412.
    pub fn delete_container(&self, container: &Container, if_match: Option<&str>) -> Result<()> {
        let etag = read(&container.state).meta.etag_text();
        if if_match.is_some_and(|wanted| !etag_matches(wanted, &etag)) {
            return Err(Error::precondition_failed());
        }
        let _writing = lock(&self.writing);
        if !self.has(container) {
            return Err(Error::not_found());
        }
        let mut batch = Batch::default();
        let homes = self.remove_container(container, &mut batch);
        self.commit(batch)?;
        self.forget_container(container);
        self.queue_orphans(homes);
        Ok(())
    }

    /// The rows that go with a container; its partitions' homes, which the batch marks as orphans.
    pub(super) fn remove_container(&self, container: &Container, batch: &mut Batch) -> Vec<u64> {
        batch.delete(Kind::Container, container.rid);
        for kind in ScriptKind::ALL {
            container
                .scripts(kind)
                .iter()
                .for_each(|script| batch.delete(kind.into(), script.meta.rid));
        }
        if let Some(offer) = self.offer_of(container.rid) {
            batch.delete(Kind::Offer, offer.rid());
        }
        container
            .lineage()
            .keys()
            .for_each(|id| batch.delete_range(container.rid, *id));
        container
            .partitions()
            .iter()
            .for_each(|p| batch.mark_orphan(p.storage_id));
        container
            .partitions()
            .iter()
            .map(|p| p.storage_id.0)
            .collect()
    }

    pub(super) fn forget_container(&self, container: &Container) {
        let offer = self.offer_of(container.rid);
        let mut state = write(&self.state);
        state.containers.remove(&container.rid);
        offer.map(|offer| state.offers.remove(&offer.rid()));
        container.database.name_container(&container.id, None);
    }
}
