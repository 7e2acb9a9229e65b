//! The store: the calls of the trait, over the clusters.
//!
//! Locks are taken in this order: the turn of a place, its route, the changes of its move, the
//! ledger.
//!
//! `submit` locks the route for reading while it hands the commit to the cluster, so that a move,
//! which locks the route for writing, knows every commit that the source has accepted. A snapshot
//! is taken without a lock, and taken again if the partition was moved meanwhile.
//!
//! With one cluster, and no partition that was ever moved, `submit` and `snapshot` go to the
//! cluster at once: the lease names its copy by itself.

use orrery_model::metrics::{Histogram, HistogramSnapshot};
use orrery_model::sync::{lock, read, write};
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, Damage, DamageReport, DamagedContents, Head, KnownHead,
    Lease, PartitionId, ReadAhead, Receipt, ScrubProgress, Snapshot, Store, StoreError,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLock, TryLockError};
use std::time::Duration;

use crate::balance::Failures;
use crate::cluster::{NamedCluster, RETRY_MS, failed, for_now};
use crate::known::Identify;
use crate::ledger::{Change, Ledger};
use crate::patience::Stop;
use crate::place::{Place, Places, Route, Target, epoch_of, epoch_of_copy};
use crate::row::{Copy, Row, Step, copy_number, is_copy_number};
use crate::timer::Timer;
use crate::writer::unavailable;

/// The partition of the first cluster that holds the ledger. [`PlacedStore`] refuses its number.
pub const LEDGER: PartitionId = PartitionId(u64::MAX - 2);
/// The catalog of the engine, which stays in the first cluster.
const CATALOG: PartitionId = PartitionId(0);
/// The number that is reserved in every store.
const RESERVED: PartitionId = PartitionId(u64::MAX);
/// Clusters whose sizes differ by less count as equally full.
const SIZE_STEP: u64 = 64 << 20;
/// Attempts at a snapshot of a partition that is moved again and again.
const MOST_SNAPSHOTS: usize = 8;

/// The times that a [`PlacedStore`] waits for a cluster that is away for a moment.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// For a copy in the background.
    pub copy_patience: Duration,
    /// While commits of the partition wait, and for the ledger.
    pub short_patience: Duration,
}

impl Default for Options {
    /// Returns 2 minutes for a copy, which a failover of a database cluster takes less than, and
    /// 5 seconds where commits wait.
    fn default() -> Options {
        Options {
            copy_patience: Duration::from_secs(120),
            short_patience: Duration::from_secs(5),
        }
    }
}

/// A store over several clusters. The header of the crate has the promises.
pub struct PlacedStore {
    pub(crate) clusters: Vec<NamedCluster>,
    /// The times of the commits that each cluster has made durable.
    pub(crate) commit_seconds: Vec<Arc<Histogram>>,
    pub(crate) options: Options,
    pub(crate) places: Places,
    ledger: Mutex<Ledger>,
    /// The partitions of copies that moves made, by their numbers.
    moved: Arc<RwLock<HashMap<PartitionId, PartitionId>>>,
    /// There is one cluster, and every partition has its own number there.
    is_plain: bool,
    pub(crate) stop: Stop,
    pub(crate) failures: Failures,
    pub(crate) before_move: OnceLock<BeforeMove>,
    objection: OnceLock<Objection>,
    pub(crate) identify: OnceLock<Identify>,
}

/// A function that returns the reason why a cluster gets no partitions now, if there is one.
pub type Objection = Box<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// A function that is called before a partition is moved.
pub type BeforeMove = Box<dyn Fn(PartitionId) -> Result<Box<dyn Send>, StoreError> + Send + Sync>;

/// The way of one read to the rows of a partition.
struct Way {
    partition: PartitionId,
    place: Arc<Place>,
    /// The copy in force at the beginning.
    target: Option<Target>,
    /// The same, or the partition itself in the first cluster.
    at: Target,
    /// The newest commit that any read had seen at the beginning.
    seen: u64,
}

/// Returns the place of a partition that has no copy.
fn in_first(partition: PartitionId) -> Target {
    Target {
        cluster: 0,
        number: partition,
    }
}

impl PlacedStore {
    /// Opens the store of these clusters, of which the first holds the ledger, and removes what an
    /// interrupted move or removal left.
    ///
    /// # Errors
    /// When there is no cluster, two have the same name, the ledger cannot be read or names a
    /// cluster that is missing in the list.
    pub fn open(clusters: Vec<NamedCluster>) -> Result<PlacedStore, StoreError> {
        PlacedStore::open_with(clusters, Options::default())
    }

    /// Does the same as [`PlacedStore::open`], with these options.
    ///
    /// # Errors
    /// As [`PlacedStore::open`].
    pub fn open_with(
        clusters: Vec<NamedCluster>,
        options: Options,
    ) -> Result<PlacedStore, StoreError> {
        let Some(first) = clusters.first() else {
            return Err(failed("", "the list of clusters is empty"));
        };
        for (at, cluster) in clusters.iter().enumerate() {
            let is_twice = clusters[..at].iter().any(|c| c.name == cluster.name);
            if is_twice || cluster.name.is_empty() || cluster.name.len() > 200 {
                let detail = "a cluster needs a name of its own with 1 to 200 bytes";
                return Err(failed(&cluster.name, detail));
            }
        }
        let ledger = Ledger::open(first.store.clone(), &first.name, options.short_patience)?;
        let is_known = |name: &str| clusters.iter().any(|cluster| cluster.name == name);
        check_names(is_known, ledger.rows())?;
        let all_plain = ledger.rows().iter().all(|(id, row)| row.home.number == *id);
        let store = PlacedStore {
            is_plain: clusters.len() == 1 && all_plain,
            commit_seconds: clusters.iter().map(|_| Timer::histogram()).collect(),
            clusters,
            options,
            places: Places::default(),
            ledger: Mutex::new(ledger),
            moved: Arc::default(),
            stop: Stop::default(),
            failures: Failures::default(),
            before_move: OnceLock::new(),
            objection: OnceLock::new(),
            identify: OnceLock::new(),
        };
        store.load();
        Ok(store)
    }

    /// Fills the places from the ledger, and completes what was interrupted.
    fn load(&self) {
        let rows = self.ledger().rows().clone();
        for (partition, row) in rows {
            self.places.in_turn(partition, |place| {
                self.follow(partition, place, Some(&row));
                // A cluster that is away now is cleaned before the next move, or at the next open.
                if let Err(error) = self.complete(partition, place) {
                    self.failures.note(partition, error.to_string());
                }
            });
        }
    }

    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    /// Returns the index of a cluster.
    ///
    /// # Errors
    /// When no cluster has the name.
    pub(crate) fn index_of(&self, name: &str) -> Result<usize, StoreError> {
        let at = self
            .clusters
            .iter()
            .position(|cluster| cluster.name == name);
        at.ok_or_else(|| failed(name, "there is no cluster of this name"))
    }

    /// Returns the present way to the rows of a partition; `None` if the partition is not known,
    /// and so in the first cluster.
    fn way(&self, partition: PartitionId) -> Option<Way> {
        let place = self.places.get(partition)?;
        let target = place.target();
        Some(Way {
            partition,
            at: target.unwrap_or(in_first(partition)),
            target,
            seen: place.seen.load(Ordering::Acquire),
            place,
        })
    }

    /// Returns true if a snapshot that was taken on this way shows the partition, and false if the
    /// partition was moved meanwhile.
    ///
    /// # Errors
    /// If another process may have moved the partition.
    fn is_current(&self, way: &Way, snapshot: &dyn Snapshot) -> Result<bool, StoreError> {
        let Way {
            partition, place, ..
        } = way;
        // The source of a move is removed after the route has changed.
        if place.target() != way.target {
            return Ok(false);
        }
        let head = snapshot.head().lsn;
        if head < way.seen && place.seen.load(Ordering::Acquire) >= way.seen {
            let detail = format!(
                "partition {partition} has fewer commits than before; another process may have \
                 moved it"
            );
            return Err(for_now(&self.clusters[0].name, detail));
        }
        // A written partition without a commit may be one that another process has moved. The
        // owner of the ledger knows.
        if head == 0 && place.is_written.load(Ordering::Acquire) {
            self.ledger().verify()?;
        }
        if way.target.is_some() {
            place.note_seen(head);
        }
        Ok(true)
    }

    /// Takes a snapshot from the cluster of a partition, and again if the partition is moved
    /// meanwhile. `take` gets the store of the cluster and the number of the partition there.
    ///
    /// # Errors
    /// Those of `take`, and as [`PlacedStore::is_current`].
    fn current_snapshot(
        &self,
        partition: PartitionId,
        take: impl Fn(&dyn Store, PartitionId) -> Result<Box<dyn Snapshot>, StoreError>,
    ) -> Result<Box<dyn Snapshot>, StoreError> {
        check_partition(partition)?;
        let first = &self.clusters[0].store;
        if self.is_plain {
            return take(first, partition);
        }
        for _ in 0..MOST_SNAPSHOTS {
            let Some(way) = self.way(partition) else {
                return take(first, partition);
            };
            let snapshot = take(&self.clusters[way.at.cluster].store, way.at.number)?;
            if self.is_current(&way, snapshot.as_ref())? {
                return Ok(snapshot);
            }
        }
        let detail = format!("partition {partition} is being moved");
        Err(for_now(&self.clusters[0].name, detail))
    }

    /// Returns the cluster of a partition, and its number there.
    pub fn home(&self, partition: PartitionId) -> (String, PartitionId) {
        let at = self
            .way(partition)
            .map_or(in_first(partition), |way| way.at);
        (self.clusters[at.cluster].name.clone(), at.number)
    }

    /// Returns the reason for which the cluster of a partition takes no commits now.
    pub fn failure_of(&self, partition: PartitionId) -> Option<String> {
        let way = self.way(partition);
        let at = way.map_or(in_first(partition), |way| way.at);
        self.clusters[at.cluster].store.write_failure()
    }

    /// Takes in what another process knows of a partition with a number in a cluster, as
    /// [`Store::note_known_head`] does. A cluster that is not known is passed over.
    pub fn note_known_head_at(&self, cluster: &str, number: PartitionId, known: &KnownHead) {
        if let Ok(at) = self.index_of(cluster) {
            self.clusters[at].store.note_known_head(number, known);
        }
    }

    /// Sets the function that is called before a partition is moved. The function returns a value
    /// that is kept until the move has ended. Only the first call has an effect.
    pub fn before_moves(&self, call: BeforeMove) {
        let _ = self.before_move.set(call);
    }

    /// Sets the function that may object to a cluster that is to get a partition. Only the first
    /// call has an effect.
    pub fn ask_before_use(&self, call: Objection) {
        let _ = self.objection.set(call);
    }

    /// Checks that a cluster may get partitions.
    ///
    /// # Errors
    /// The objection.
    pub(crate) fn check_use(&self, cluster: &str) -> Result<(), StoreError> {
        match self.objection.get().and_then(|call| call(cluster)) {
            Some(reason) => Err(failed(cluster, reason)),
            None => Ok(()),
        }
    }

    pub(crate) fn store_of(&self, target: Target) -> &Arc<dyn Store> {
        &self.clusters[target.cluster].store
    }

    pub(crate) fn target_of(&self, copy: &Copy) -> Result<Target, StoreError> {
        Ok(Target {
            cluster: self.index_of(&copy.cluster)?,
            number: copy.number,
        })
    }

    pub(crate) fn copy_of(&self, target: Target) -> Copy {
        Copy {
            cluster: self.clusters[target.cluster].name.clone(),
            number: target.number,
        }
    }

    /// Removes a copy, in a cluster that may have been away.
    pub(crate) fn remove_copy(&self, copy: &Copy) -> Result<(), StoreError> {
        let target = self.target_of(copy)?;
        self.store_of(target).destroy(target.number)?;
        if is_copy_number(copy.number) {
            write(&self.moved).remove(&copy.number);
        }
        Ok(())
    }

    /// Notes which partition a copy is of.
    pub(crate) fn note_copy(&self, copy: &Copy, partition: PartitionId) {
        if is_copy_number(copy.number) {
            write(&self.moved).insert(copy.number, partition);
        }
    }

    /// Brings the route of a place up to its row. The turn is held, or no call knows the place yet.
    fn follow(&self, partition: PartitionId, place: &Place, row: Option<&Row>) {
        if let Some(row) = row {
            for copy in row.copies() {
                self.note_copy(copy, partition);
            }
        }
        let living = row.filter(|row| row.step != Step::Destroying);
        let target = living.and_then(|row| self.target_of(&row.home).ok());
        *write(&place.route) = Route {
            target,
            ..Route::default()
        };
    }

    /// Returns the row of a partition, after the outcome of the last change was found out.
    ///
    /// # Errors
    /// As [`Ledger::resolve`].
    pub(crate) fn row(&self, partition: PartitionId) -> Result<Option<Row>, StoreError> {
        let mut ledger = self.ledger();
        ledger.resolve()?;
        Ok(ledger.row(partition).cloned())
    }

    /// Finds out if the last move has happened, if that is not known. The turn is held.
    ///
    /// # Errors
    /// When the first cluster does not answer.
    pub(crate) fn decide(&self, partition: PartitionId, place: &Place) -> Result<(), StoreError> {
        if !read(&place.route).is_undecided {
            return Ok(());
        }
        let row = self.row(partition)?;
        // The lease from before is fenced, so that its owner opens the partition again.
        self.follow(partition, place, row.as_ref());
        Ok(())
    }

    /// Completes the step of a partition that has no move under way: removes what a move left, or
    /// the partition itself. The turn is held.
    ///
    /// # Errors
    /// That of the cluster concerned. The step stays in the ledger.
    pub(crate) fn complete(&self, partition: PartitionId, place: &Place) -> Result<(), StoreError> {
        let Some(row) = self.row(partition)? else {
            return Ok(());
        };
        if row.step == Step::Settled {
            return Ok(());
        }
        // Only the owner of the ledger knows which copies are left over.
        self.ledger().verify()?;
        match &row.step {
            Step::Settled => return Ok(()),
            Step::Moving { to } => self.remove_copy(to)?,
            Step::Leaving { from } => self.remove_copy(from)?,
            Step::Destroying => {
                place.fence();
                self.remove_copy(&row.home)?;
                self.ledger().commit(Change::of(partition, None))?;
                self.follow(partition, place, None);
                place.forget_seen();
                return Ok(());
            }
        }
        let settled = Row {
            step: Step::Settled,
            ..row
        };
        self.ledger().commit(Change::of(partition, Some(settled)))
    }

    /// Chooses the cluster of a partition without a row, and writes the row. The turn is held.
    pub(crate) fn place(&self, partition: PartitionId) -> Result<Target, StoreError> {
        // Data from the time before the ledger is where it was.
        let first = &self.clusters[0].store;
        let is_old = first.snapshot(partition)?.head() != Head::default();
        let cluster = match is_old || partition == CATALOG {
            true => 0,
            false => self.emptiest()?,
        };
        let target = Target {
            cluster,
            number: partition,
        };
        self.remember_clusters()?;
        let mut ledger = self.ledger();
        // An earlier attempt may have written the row without an answer.
        ledger.resolve()?;
        if let Some(row) = ledger.row(partition) {
            return self.target_of(&row.home);
        }
        let generation = ledger.next_generation()?;
        let row = Row {
            home: self.copy_of(target),
            generation,
            step: Step::Settled,
        };
        ledger.commit(Change {
            generation: Some(generation),
            ..Change::of(partition, Some(row))
        })?;
        Ok(target)
    }

    /// Submits a commit to a cluster, and measures the time until its answer.
    fn submit_to(&self, cluster: usize, lease: &Lease, commit: Commit) -> Receipt {
        let timer = Timer::start(&self.commit_seconds[cluster]);
        timer.measure(self.clusters[cluster].store.submit(lease, commit))
    }

    /// Returns the cluster that the next new partition goes to.
    pub(crate) fn emptiest(&self) -> Result<usize, StoreError> {
        if let [_] = &self.clusters[..] {
            return Ok(0);
        }
        let counts = self.partition_counts();
        let open = (0..self.clusters.len()).filter(|at| {
            let name = &self.clusters[*at].name;
            !self.is_drained(*at) && self.check_use(name).is_ok()
        });
        let least = open.min_by_key(|at| {
            let store = &self.clusters[*at].store;
            // A cluster that is away is the last choice: its partition could not be used.
            let is_away = store.write_failure().is_some() || store.refusal(false).is_some();
            (is_away, store.approximate_bytes() / SIZE_STEP, counts[*at])
        });
        let first = &self.clusters[0].name;
        least.ok_or_else(|| {
            failed(
                first,
                "every cluster is drained or not known to all nodes, so no partition can be made",
            )
        })
    }

    /// Returns true if a cluster gets no further partitions.
    pub(crate) fn is_drained(&self, cluster: usize) -> bool {
        let cluster = &self.clusters[cluster];
        cluster.drained || self.ledger().is_drained(&cluster.name)
    }

    /// Returns the number of partitions of each cluster.
    pub(crate) fn partition_counts(&self) -> Vec<usize> {
        let mut counts = vec![0; self.clusters.len()];
        let ledger = self.ledger();
        for row in ledger.rows().values() {
            if let Ok(at) = self.index_of(&row.home.cluster) {
                counts[at] += 1;
            }
        }
        counts
    }

    /// Opens the copy of a partition, and hands out a lease for it. The turn is held.
    fn open_copy(&self, partition: PartitionId, place: &Place) -> Result<Lease, StoreError> {
        // A removal that failed half-way is completed first: the partition is a new one.
        let mut row = self.row(partition)?;
        if row.as_ref().is_some_and(|row| row.step == Step::Destroying) {
            self.complete(partition, place)?;
            row = None;
        }
        let target = match &row {
            Some(row) => self.target_of(&row.home)?,
            None => {
                place.forget_seen();
                self.place(partition)?
            }
        };
        let lease = self.store_of(target).open(target.number)?;
        // Another process may have moved the partition. It then owns the ledger, and this fails.
        let generation = {
            let mut ledger = self.ledger();
            ledger.verify()?;
            ledger.row(partition).map_or(0, |row| row.generation)
        };
        let head = lease.head();
        let epoch = epoch_of(generation, lease.epoch()).ok_or_else(|| {
            let detail = format!("partition {partition} was opened too often: move it");
            failed(&self.clusters[target.cluster].name, detail)
        })?;
        place.note_seen(head.lsn);
        let mut route = write(&place.route);
        route.target = Some(target);
        route.epoch = epoch;
        route.lease = Some(lease);
        Ok(Lease::new(partition, epoch, head))
    }

    /// Submits a commit of a partition whose move may have happened. Returns the refusal if that
    /// cannot be found out now.
    fn decided(&self, partition: PartitionId, place: &Place) -> Result<(), CommitOutcome> {
        // A call that is busy with the same is not waited for.
        let _turn = match place.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(unavailable()),
        };
        self.decide(partition, place).map_err(|_| unavailable())
    }

    /// Returns damage with the numbers of partitions in place of those of copies.
    fn translated(moved: &RwLock<HashMap<PartitionId, PartitionId>>, damage: Damage) -> Damage {
        let mut damage = damage;
        if let DamagedContents::Keys { partitions, .. } = &mut damage.contents {
            let moved = read(moved);
            for partition in partitions.iter_mut() {
                *partition = moved.get(partition).copied().unwrap_or(*partition);
            }
        }
        damage
    }
}

/// Refuses numbers that are reserved.
pub(crate) fn check_partition(partition: PartitionId) -> Result<(), StoreError> {
    if partition == LEDGER || partition == RESERVED || is_copy_number(partition) {
        return Err(StoreError::ReservedPartition(partition));
    }
    Ok(())
}

/// Refuses rows that name a cluster which is missing.
pub(crate) fn check_names(
    is_known: impl Fn(&str) -> bool,
    rows: &BTreeMap<PartitionId, Row>,
) -> Result<(), StoreError> {
    for (partition, row) in rows {
        for copy in row.copies() {
            if !is_known(&copy.cluster) {
                let detail = format!(
                    "partition {partition} is in this cluster, which the cluster file does not \
                     have: start with the cluster file of the other nodes"
                );
                return Err(failed(&copy.cluster, detail));
            }
        }
    }
    Ok(())
}

impl Store for PlacedStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        check_partition(partition)?;
        self.places.in_turn(partition, |place| {
            self.decide(partition, place)?;
            self.open_copy(partition, place)
        })
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let partition = lease.partition();
        if self.is_plain {
            let lease = Lease::new(partition, epoch_of_copy(lease.epoch()), lease.head());
            return self.submit_to(0, &lease, commit);
        }
        let Some(place) = self.places.get(partition) else {
            return Receipt::ready(CommitOutcome::Fenced);
        };
        let mut route = read(&place.route);
        if route.is_undecided {
            drop(route);
            if let Err(refusal) = self.decided(partition, &place) {
                return Receipt::ready(refusal);
            }
            route = read(&place.route);
        }
        let (Some(target), Some(of_copy)) = (route.target, &route.lease) else {
            return Receipt::ready(CommitOutcome::Fenced);
        };
        if route.epoch != lease.epoch() {
            return Receipt::ready(CommitOutcome::Fenced);
        }
        place.is_written.store(true, Ordering::Release);
        let Some(changes) = &route.changes else {
            return self.submit_to(target.cluster, of_copy, commit);
        };
        // The keys are noted and the commit is submitted in one step, see `changes.rs`.
        let mut changes = lock(changes);
        if changes.is_full() {
            return Receipt::ready(CommitOutcome::Busy {
                retry_after_ms: RETRY_MS,
            });
        }
        changes.note(&commit);
        self.submit_to(target.cluster, of_copy, commit)
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        self.current_snapshot(partition, |store, number| store.snapshot(number))
    }

    fn snapshot_ahead(
        &self,
        partition: PartitionId,
        ahead: &ReadAhead,
    ) -> Result<Box<dyn Snapshot>, StoreError> {
        self.current_snapshot(partition, |store, number| {
            store.snapshot_ahead(number, ahead)
        })
    }

    fn read_ahead(&self, partition: PartitionId, ahead: &ReadAhead) -> Result<(), StoreError> {
        let way = self.way(partition);
        let at = way.map_or(in_first(partition), |way| way.at);
        self.store_of(at).read_ahead(at.number, ahead)
    }

    fn snapshots(&self, partitions: &[PartitionId]) -> Result<Vec<Box<dyn Snapshot>>, StoreError> {
        for &partition in partitions {
            check_partition(partition)?;
        }
        if self.is_plain {
            return self.clusters[0].store.snapshots(partitions);
        }
        // The partitions of each cluster, with their indexes in the answer.
        let ways: Vec<Option<Way>> = partitions.iter().map(|&id| self.way(id)).collect();
        let mut of_cluster: BTreeMap<usize, (Vec<usize>, Vec<PartitionId>)> = BTreeMap::new();
        for (index, (way, &partition)) in ways.iter().zip(partitions).enumerate() {
            let at = way.as_ref().map_or(in_first(partition), |way| way.at);
            let (indexes, numbers) = of_cluster.entry(at.cluster).or_default();
            indexes.push(index);
            numbers.push(at.number);
        }
        let mut found: Vec<Option<Box<dyn Snapshot>>> = partitions.iter().map(|_| None).collect();
        for (cluster, (indexes, numbers)) in of_cluster {
            let snapshots = self.clusters[cluster].store.snapshots(&numbers)?;
            for (index, snapshot) in indexes.into_iter().zip(snapshots) {
                found[index] = Some(snapshot);
            }
        }
        let mut current = Vec::with_capacity(partitions.len());
        for ((way, snapshot), &partition) in ways.iter().zip(found).zip(partitions) {
            let is_current = |way: &Way, snapshot: &dyn Snapshot| self.is_current(way, snapshot);
            current.push(match (way, snapshot) {
                (None, Some(snapshot)) => snapshot,
                (Some(way), Some(snapshot)) if is_current(way, snapshot.as_ref())? => snapshot,
                // The partition was moved meanwhile.
                _ => self.snapshot(partition)?,
            });
        }
        Ok(current)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        check_partition(partition)?;
        self.places.in_turn(partition, |place| {
            self.destroy_place(partition, place)?;
            self.places.remove(partition);
            Ok(())
        })
    }

    fn release(&self, partition: PartitionId) -> Result<(), StoreError> {
        let way = self.way(partition);
        let at = way.map_or(in_first(partition), |way| way.at);
        self.store_of(at).release(at.number)
    }

    fn known_head(&self, partition: PartitionId) -> Option<KnownHead> {
        let way = self.way(partition);
        let at = way.map_or(in_first(partition), |way| way.at);
        self.store_of(at).known_head(at.number)
    }

    fn check_reachable(&self, partition: PartitionId) -> Result<(), StoreError> {
        let way = self.way(partition);
        let at = way.map_or(in_first(partition), |way| way.at);
        self.store_of(at).check_reachable(at.number)
    }

    fn sync_partition(&self, partition: PartitionId) -> Result<(), StoreError> {
        let way = self.way(partition);
        let at = way.map_or(in_first(partition), |way| way.at);
        self.store_of(at).sync_partition(at.number)
    }

    fn sync(&self) -> Result<(), StoreError> {
        // Every cluster is synced, whatever another answers.
        let mut result = Ok(());
        for cluster in &self.clusters {
            result = result.and(cluster.store.sync());
        }
        result
    }

    fn capabilities(&self) -> Capabilities {
        let all = |has: fn(Capabilities) -> bool| {
            let mut clusters = self.clusters.iter();
            clusters.all(|cluster| has(cluster.store.capabilities()))
        };
        Capabilities {
            durable: all(|one| one.durable),
            long_snapshots: all(|one| one.long_snapshots),
            followers: false,
            remote: self
                .clusters
                .iter()
                .any(|cluster| cluster.store.capabilities().remote),
        }
    }

    /// Returns the answer of the first cluster if every cluster refuses commits. A cluster that
    /// refuses while others accept refuses its own commits.
    fn refusal(&self, may_use_reserve: bool) -> Option<CommitOutcome> {
        let mut first = None;
        for cluster in &self.clusters {
            let refusal = cluster.store.refusal(may_use_reserve)?;
            first = first.or(Some(refusal));
        }
        first
    }

    fn write_failure(&self) -> Option<String> {
        let mut all = Vec::new();
        for cluster in &self.clusters {
            if let Some(failure) = cluster.store.write_failure() {
                all.push(format!("cluster '{}': {failure}", cluster.name));
            }
        }
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn wait_for_compaction(&self) {
        for cluster in &self.clusters {
            cluster.store.wait_for_compaction();
        }
    }

    fn approximate_bytes(&self) -> u64 {
        let bytes = self.clusters.iter().map(|c| c.store.approximate_bytes());
        bytes.fold(0, u64::saturating_add)
    }

    /// Returns the sum over the clusters that measure with the same bounds as the first that does.
    fn sync_seconds(&self) -> Option<HistogramSnapshot> {
        let mut measured = self.clusters.iter().filter_map(|c| c.store.sync_seconds());
        let mut sum = measured.next()?;
        for other in measured {
            let bounds = |of: &HistogramSnapshot| -> Vec<f64> {
                of.buckets.iter().map(|(bound, _)| *bound).collect()
            };
            if bounds(&other) != bounds(&sum) {
                continue;
            }
            for ((_, count), (_, more)) in sum.buckets.iter_mut().zip(&other.buckets) {
                *count += more;
            }
            sum.count += other.count;
            sum.sum += other.sum;
        }
        Some(sum)
    }

    fn damage(&self) -> Vec<Damage> {
        let all = self.clusters.iter().flat_map(|c| c.store.damage());
        all.map(|damage| PlacedStore::translated(&self.moved, damage))
            .collect()
    }

    fn report_damage(&self, report: DamageReport) {
        let report = Arc::new(report);
        for cluster in &self.clusters {
            let (report, moved) = (report.clone(), self.moved.clone());
            cluster.store.report_damage(Box::new(move |damage| {
                report(&PlacedStore::translated(&moved, damage.clone()));
            }));
        }
    }

    fn scrub_progress(&self) -> Option<ScrubProgress> {
        let progress = self
            .clusters
            .iter()
            .filter_map(|c| c.store.scrub_progress());
        progress.reduce(|sum, one| ScrubProgress {
            checked_bytes: sum.checked_bytes + one.checked_bytes,
            pass_checked_bytes: sum.pass_checked_bytes + one.pass_checked_bytes,
            pass_bytes: sum.pass_bytes + one.pass_bytes,
            passes: sum.passes.min(one.passes),
            seconds_since_pass: sum.seconds_since_pass.max(one.seconds_since_pass),
        })
    }
}

impl PlacedStore {
    /// Removes a partition. The turn is held.
    fn destroy_place(&self, partition: PartitionId, place: &Place) -> Result<(), StoreError> {
        self.decide(partition, place)?;
        let Some(row) = self.row(partition)? else {
            // No row: data from the time before the ledger, or nothing.
            return self.clusters[0].store.destroy(partition);
        };
        // Only the owner of the ledger knows which copies are left over.
        self.ledger().verify()?;
        // From here on no commit is accepted, and a move under way ends.
        place.fence();
        if let Some(changes) = write(&place.route).changes.take() {
            lock(&changes).is_cancelled = true;
        }
        // The other copy of a move goes first, while the row still names it.
        if let Step::Moving { to: other } | Step::Leaving { from: other } = &row.step {
            self.remove_copy(other)?;
        }
        let destroying = Row {
            step: Step::Destroying,
            ..row
        };
        self.ledger()
            .commit(Change::of(partition, Some(destroying)))?;
        self.complete(partition, place)
    }
}

/// Returns the copy of a generation in a cluster.
pub(crate) fn moved_to(cluster: usize, generation: u64) -> Target {
    Target {
        cluster,
        number: copy_number(generation),
    }
}
