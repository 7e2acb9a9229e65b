//! A store that answers only while the lease of the node is valid.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use orrery_model::metrics::HistogramSnapshot;
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, Damage, DamageReport, FollowerLag, KnownHead, Lease,
    PartitionId, Pending, ReadAhead, Receipt, ScrubProgress, Snapshot, Store, StoreError,
};

use super::RETRY_MS;
use super::validity::{EXPIRED, Validity};

/// A store behind a lease. The header of the crate has the promise.
pub struct LeasedStore {
    inner: Arc<dyn Store>,
    validity: Arc<Validity>,
}

impl LeasedStore {
    /// Creates the store of a node that holds a lease with this validity.
    pub fn new(inner: Arc<dyn Store>, validity: Arc<Validity>) -> LeasedStore {
        LeasedStore { inner, validity }
    }
}

/// A commit whose answer counts only if the lease is still valid.
struct Leased {
    receipt: Receipt,
    validity: Arc<Validity>,
}

impl Leased {
    /// Returns the outcome of a commit that the store has answered.
    ///
    /// The check comes after the commit was durable. A lease that is valid now was valid then, so
    /// every later leaseholder sees the commit.
    fn outcome(validity: &Validity, outcome: CommitOutcome) -> CommitOutcome {
        match outcome {
            CommitOutcome::Ok if !validity.is_valid() => CommitOutcome::Unknown,
            outcome => outcome,
        }
    }
}

impl Pending for Leased {
    fn wait(self: Box<Self>) -> CommitOutcome {
        let outcome = self.receipt.wait();
        Leased::outcome(&self.validity, outcome)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<CommitOutcome> {
        let answered = Pin::new(&mut self.receipt).poll(context);
        answered.map(|outcome| Leased::outcome(&self.validity, outcome))
    }
}

impl Store for LeasedStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        self.validity.check()?;
        let lease = self.inner.open(partition)?;
        self.validity.check()?;
        Ok(lease)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        if !self.validity.is_valid() {
            return Receipt::ready(CommitOutcome::Unavailable {
                retry_after_ms: RETRY_MS,
            });
        }
        let receipt = self.inner.submit(lease, commit);
        // A refusal stays one that the caller sees at once.
        if receipt.refusal().is_some() {
            return receipt;
        }
        Receipt::pending(Leased {
            receipt,
            validity: self.validity.clone(),
        })
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        let snapshot = self.inner.snapshot(partition)?;
        self.validity.check()?;
        Ok(snapshot)
    }

    fn snapshots(&self, partitions: &[PartitionId]) -> Result<Vec<Box<dyn Snapshot>>, StoreError> {
        let snapshots = self.inner.snapshots(partitions)?;
        self.validity.check()?;
        Ok(snapshots)
    }

    fn snapshot_ahead(
        &self,
        partition: PartitionId,
        ahead: &ReadAhead,
    ) -> Result<Box<dyn Snapshot>, StoreError> {
        let snapshot = self.inner.snapshot_ahead(partition, ahead)?;
        self.validity.check()?;
        Ok(snapshot)
    }

    fn read_ahead(&self, partition: PartitionId, ahead: &ReadAhead) -> Result<(), StoreError> {
        self.inner.read_ahead(partition, ahead)
    }

    // A standby shows a state of the past, and a node without a lease shows it as well as one with.
    fn follower_snapshots(
        &self,
        wanted: &[(PartitionId, u64)],
    ) -> Result<Option<Vec<Box<dyn Snapshot>>>, StoreError> {
        self.inner.follower_snapshots(wanted)
    }

    fn follower_lag(&self) -> Vec<FollowerLag> {
        self.inner.follower_lag()
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.validity.check()?;
        self.inner.destroy(partition)
    }

    fn release(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.inner.release(partition)?;
        self.validity.check()
    }

    fn known_head(&self, partition: PartitionId) -> Option<KnownHead> {
        self.inner.known_head(partition)
    }

    fn note_known_head(&self, partition: PartitionId, known: &KnownHead) {
        self.inner.note_known_head(partition, known);
    }

    fn check_reachable(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.inner.check_reachable(partition)
    }

    fn sync_partition(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.inner.sync_partition(partition)?;
        self.validity.check()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.inner.sync()?;
        self.validity.check()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn refusal(&self, may_use_reserve: bool) -> Option<CommitOutcome> {
        if !self.validity.is_valid() {
            return Some(CommitOutcome::Unavailable {
                retry_after_ms: RETRY_MS,
            });
        }
        self.inner.refusal(may_use_reserve)
    }

    fn write_failure(&self) -> Option<String> {
        if !self.validity.is_valid() {
            return Some(EXPIRED.to_owned());
        }
        self.inner.write_failure()
    }

    fn wait_for_compaction(&self) {
        self.inner.wait_for_compaction();
    }

    fn approximate_bytes(&self) -> u64 {
        self.inner.approximate_bytes()
    }

    fn sync_seconds(&self) -> Option<HistogramSnapshot> {
        self.inner.sync_seconds()
    }

    fn damage(&self) -> Vec<Damage> {
        self.inner.damage()
    }

    fn report_damage(&self, report: DamageReport) {
        self.inner.report_damage(report);
    }

    fn scrub_progress(&self) -> Option<ScrubProgress> {
        self.inner.scrub_progress()
    }
}
