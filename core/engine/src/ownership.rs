//! Partitions that other processes own.
//!
//! Several processes may work on the same store. One of them, the *leaseholder*, has the
//! catalog to itself and owns each physical partition that it does not give to another process.
//! The *owner* of a partition carries out the requests for it; a request at another process fails
//! with [`Kind::NotOwned`](orrery_model::Kind::NotOwned) before anything was done or charged, or
//! when its commit was fenced, and the caller forwards the request.
//!
//! ```text
//! leaseholder                              owner
//! give_up: writer dropped, all durable ──▶ take_over: catalog loaded, writer opened
//! recall  ◀── give_back: writer dropped, all durable
//! ```
//!
//! Promises:
//! 1. No owner works with an older catalog than that of the leaseholder: before the catalog
//!    changes, the leaseholder takes all partitions back ([`Owners::recall_all`]).
//! 2. Item numbers ascend within a partition under all owners: each grant brings numbers above all
//!    that were used before.
//! 3. A split, a merge, a reindex and a snapshot of everything work as in one process: they take
//!    the partitions back that they change.
//! 4. Budget and account of a partition are those of all processes together, up to the time between
//!    two reports ([`MeterReport`]).
//!
//! Left out: the messages between processes, and for how long a grant holds. The caller implements
//! [`Owners`].
//! Statistics of traffic (heat map, top keys, query forms) stay in the process that counted them.

use crate::Engine;
use crate::catalog::Container;
#[cfg(doc)]
use crate::container::owners::Owners;
use crate::container::tasks::BackgroundTask;
use crate::container::view::ContainerView;
use crate::errors::storage_failure;
use crate::partition::Partition;
use crate::partition::keys::CATALOG_PARTITION;
use crate::throughput::{MeterReport, Standing};
use orrery_model::sync::lock;
use orrery_model::{Error, Kind, Result, Rid};
use orrery_storage::PartitionId;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, TryLockError};

/// The item numbers of one grant. A partition that has used them up goes back to the leaseholder.
pub const NUMBERS_PER_GRANT: u64 = 1 << 24;

/// A physical partition and its load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionShare {
    /// The partition's key space in the store.
    pub partition: PartitionId,
    /// Request units a second, the mean of the last ten seconds.
    pub load: u64,
    /// True if another process may own the partition: it has a budget of its own, and neither a
    /// reindex nor a split is under way.
    pub may_be_given: bool,
}

/// The state with which the next process goes on with a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedPartition {
    /// The partition's key space in the store.
    pub partition: PartitionId,
    /// The LSN of the catalog that the process must have loaded, or a later one.
    pub catalog_version: u64,
    /// The item numbers that the process may use.
    pub numbers: Range<u64>,
    /// The standing of the budget; `None` if the partition has no budget of its own.
    pub standing: Option<Standing>,
}

/// Containers with work that an owner has found and only the leaseholder can do.
#[derive(Default)]
pub struct LeaseholderWork(Mutex<BTreeSet<Rid>>);

/// Checks that this process owns each of several partitions.
///
/// # Errors
/// 503 with the number of the partition, if there is only one.
pub(crate) fn check_all_owned<'p>(partitions: impl Iterator<Item = &'p Partition>) -> Result<()> {
    let mut count = 0;
    let mut refusal = None;
    for partition in partitions {
        count += 1;
        refusal = partition.check_owned().err().or(refusal);
    }
    match refusal {
        None => Ok(()),
        Some(error) if count == 1 => Err(error),
        Some(_) => Err(Error::not_owned(None)),
    }
}

/// The side of the leaseholder.
impl Engine {
    /// Returns all physical partitions of containers with their loads, in the order of their
    /// numbers.
    pub fn partition_shares(&self) -> Vec<PartitionShare> {
        let now = self.world().now_ms();
        let mut shares = Vec::new();
        for container in self.catalog().all_containers() {
            for partition in container.partitions().iter() {
                shares.push(PartitionShare {
                    partition: partition.storage_id,
                    load: partition.meter.load(now),
                    may_be_given: self.may_be_given(&container, partition),
                });
            }
        }
        shares.sort_by_key(|share| share.partition);
        shares
    }

    fn may_be_given(&self, container: &Container, partition: &Partition) -> bool {
        container.provision().is_divided()
            && container.policies().older.is_empty()
            && !partition.is_captured()
    }

    /// Gives a partition up, so that another process can own it: calls `mark`, after which
    /// [`Owners::owns`] must be false and [`Owners::recall_all`] must wait for the end of this
    /// call, and waits until everything is durable. Returns `None` if the catalog is changing now,
    /// the partition cannot be given, or `mark` returns false.
    ///
    /// # Errors
    /// 500 and 503 if the store does not answer. If `mark` was called, the partition must be
    /// recalled.
    pub fn give_up(
        &self,
        partition: PartitionId,
        mark: impl FnOnce() -> bool,
    ) -> Result<Option<GrantedPartition>> {
        let Some((container, partition)) = self.find_partition(partition) else {
            return Ok(None);
        };
        if !self.may_be_given(&container, &partition) {
            return Ok(None);
        }
        let numbers = container.reserve_numbers(NUMBERS_PER_GRANT)?;
        let mut catalog_version = 0;
        // The lock of the catalog comes after that of the writer, as at the end of a split.
        let permit = || {
            // While the lock is held the catalog does not change, see promise 1.
            let _unchanged = match self.catalog().lock_writes() {
                Ok(guard) => guard,
                Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
                Err(TryLockError::WouldBlock) => return false,
            };
            if self.catalog().is_in_doubt() {
                return false;
            }
            catalog_version = self.catalog().version();
            self.catalog().is_current(&container)
                && self.may_be_given(&container, &partition)
                && mark()
        };
        if !partition.give_up(permit)? {
            return Ok(None);
        }
        // The standing has what was counted here so far.
        let _ = partition.meter.take_report();
        Ok(Some(GrantedPartition {
            partition: partition.storage_id,
            catalog_version,
            numbers,
            standing: partition.meter.standing(self.world().now_ms()),
        }))
    }

    /// Goes on with the budget of a partition that another process has given back, and looks for
    /// work that the process has left.
    pub fn resume(&self, partition: PartitionId, standing: Option<&Standing>) {
        let Some((container, partition)) = self.find_partition(partition) else {
            return;
        };
        if let Some(standing) = standing {
            partition.meter.resume(standing);
        }
        enter_partition_work(&container);
    }

    /// Makes sure that no commit of another process to a partition can take place any more, before
    /// this process owns the partition again. Needed after an owner that gave no answer.
    ///
    /// # Errors
    /// 500 and 503 if the store does not answer.
    pub fn fence(&self, partition: PartitionId) -> Result<()> {
        match self.find_partition(partition) {
            Some((_, partition)) => partition.fence(),
            None => Ok(()),
        }
    }

    /// Enters work in containers that owners of their partitions have found.
    pub fn enter_leaseholder_work(&self, containers: &[Rid]) {
        for rid in containers {
            if let Some(container) = self.catalog().container_of(*rid) {
                container.enter_work(BackgroundTask::Splits, 0);
            }
        }
    }
}

/// The side of an owner.
impl Engine {
    /// Loads the catalog if the loaded one is older than `version`. Partitions of the catalog
    /// before are gone, so the caller owns none. `confirmed_ms` is the confirmed time of the
    /// leaseholder ([`Engine::confirmed_ms`]), by which expired items are removed. Returns true if
    /// a catalog was loaded.
    ///
    /// # Errors
    /// 503 if the store cannot be read or has no such catalog yet, 500 for damaged records.
    pub fn load_catalog(&self, version: u64, confirmed_ms: u64) -> Result<bool> {
        if self.catalog().version() >= version && version > 0 {
            return Ok(false);
        }
        let snapshot = self.store.snapshot(CATALOG_PARTITION);
        let snapshot = snapshot.map_err(storage_failure)?;
        let found = snapshot.head().lsn;
        if found < version {
            return Err(Error::not_owned(None));
        }
        self.catalog().load_copy(snapshot.as_ref())?;
        drop(snapshot);
        self.catalog().set_version(found);
        self.begin_clock_of_owner(confirmed_ms);
        Ok(true)
    }

    /// Takes a partition over. [`Owners::owns`] must be false until this returns, and the store
    /// must let this process open the partition.
    ///
    /// # Errors
    /// 503 if the catalog has no such partition, 500 and 503 if the store cannot be opened.
    pub fn take_over(&self, granted: &GrantedPartition) -> Result<()> {
        let found = self.find_partition(granted.partition);
        let (container, partition) = found.ok_or_else(|| Error::not_owned(None))?;
        partition.take_over(granted.numbers.clone())?;
        if let Some(standing) = &granted.standing {
            partition.meter.resume(standing);
        }
        // What was counted here under an earlier grant was reported then.
        let _ = partition.meter.take_report();
        partition.expect_growth(
            container.partition_bytes_max(),
            self.catalog().gigabyte_bytes(),
        );
        enter_partition_work(&container);
        Ok(())
    }

    /// Gives a partition back: `mark` makes [`Owners::owns`] false. Returns the standing of its
    /// budget once everything is durable.
    ///
    /// # Errors
    /// 500 and 503 if the store does not answer. `mark` was called.
    pub fn give_back(
        &self,
        partition: PartitionId,
        mark: impl FnOnce(),
    ) -> Result<Option<Standing>> {
        let Some((_, partition)) = self.find_partition(partition) else {
            mark();
            return Ok(None);
        };
        let mark = || {
            mark();
            true
        };
        partition.give_up(mark)?;
        Ok(partition.meter.standing(self.world().now_ms()))
    }

    /// Takes work back that did not reach the leaseholder.
    pub fn take_leaseholder_work_back(&self, containers: &[Rid]) {
        lock(&self.leaseholder_work.0).extend(containers);
    }

    /// Turns the error about a partition that is gone into one that sends the request to another
    /// process, if this one has loaded another catalog since the request found its container.
    pub(crate) fn moved_with_catalog<T>(
        &self,
        container: &Container,
        result: Result<T>,
    ) -> Result<T> {
        match result {
            Err(error)
                if error.kind() == Kind::PartitionKeyRangeGone
                    && !self.owners.reads_all()
                    && !self.catalog().is_current(container) =>
            {
                Err(Error::not_owned(None))
            }
            result => result,
        }
    }

    /// Takes the containers with work that only the leaseholder can do.
    pub fn take_leaseholder_work(&self) -> Vec<Rid> {
        let mut containers = lock(&self.leaseholder_work.0);
        std::mem::take(&mut *containers).into_iter().collect()
    }

    /// Notes work of a container that only the leaseholder can do: splits, and raises of autoscale.
    pub(crate) fn leave_to_leaseholder(&self, container: &Container) {
        lock(&self.leaseholder_work.0).insert(container.rid());
        for partition in container.partitions().iter().filter(|p| p.is_owned()) {
            partition.expect_growth(
                container.partition_bytes_max(),
                self.catalog().gigabyte_bytes(),
            );
        }
    }
}

/// Both sides.
impl Engine {
    /// Returns the LSN of the last commit of the catalog that owners of partitions must know.
    pub fn catalog_version(&self) -> u64 {
        self.catalog().version()
    }

    /// Takes what this process has counted at some partitions since the last report.
    pub fn take_reports(&self, partitions: &[PartitionId]) -> Vec<(PartitionId, MeterReport)> {
        let mut reports = Vec::new();
        let wanted: HashSet<PartitionId> = partitions.iter().copied().collect();
        self.visit_partitions(|id, partition| {
            if wanted.contains(&id)
                && let Some(report) = partition.meter.take_report()
            {
                reports.push((id, report));
            }
        });
        reports
    }

    /// Adds what another process has counted at some partitions.
    pub fn add_reports(&self, reports: &[(PartitionId, MeterReport)]) {
        let now = self.world().now_ms();
        let by_id: HashMap<PartitionId, MeterReport> = reports.iter().copied().collect();
        self.visit_partitions(|id, partition| {
            if let Some(report) = by_id.get(&id) {
                partition.meter.add_report(now, *report);
            }
        });
    }

    /// Calls a function for each partition of all containers.
    fn visit_partitions(&self, mut call: impl FnMut(PartitionId, &Partition)) {
        for container in self.catalog().all_containers() {
            for partition in container.partitions().iter() {
                call(partition.storage_id, partition);
            }
        }
    }

    fn find_partition(&self, id: PartitionId) -> Option<(Arc<Container>, Arc<Partition>)> {
        for container in self.catalog().all_containers() {
            let partitions = container.partitions();
            if let Some(found) = partitions.iter().find(|one| one.storage_id == id) {
                return Some((Arc::clone(&container), Arc::clone(found)));
            }
        }
        None
    }
}

/// Enters the work that the owner of a partition does, since the owner before may have left some.
fn enter_partition_work(container: &Container) {
    container.enter_work(BackgroundTask::Removal, 0);
    container.enter_work(BackgroundTask::KeyDeletion, 0);
    container.enter_linking();
}
