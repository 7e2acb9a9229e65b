//! Who may write which partition, and at which accepted head: the one place that decides whether a commit is fenced.
//!
//! Every engine in this crate keeps one of these behind the lock under which it accepts commits, so the compare and the
//! step forward are one. Destroying a partition forgets its head and not how far epochs went: the *floor* is the highest
//! epoch of any destroyed partition, so a lease from before can never match again.

use std::collections::HashMap;

use crate::error::StoreError;
use crate::store::{CommitOutcome, Head, Lease, Lsn, PartitionId};

/// The number that partitions of the caller may not have.
pub(crate) const RESERVED: PartitionId = PartitionId(u64::MAX);

/// The newest lease of a partition and the head its next commit must expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) epoch: u64,
    pub(crate) head: Head,
}

/// All partitions of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    partitions: HashMap<PartitionId, Owner>,
    floor: u64,
}

impl Owners {
    pub(crate) fn new(partitions: HashMap<PartitionId, Owner>, floor: u64) -> Owners {
        Owners { partitions, floor }
    }

    /// Raises the epoch: from here on only the lease returned is good.
    pub(crate) fn raise(&mut self, partition: PartitionId) -> Lease {
        let floor = self.floor;
        let owner = self.partitions.entry(partition).or_insert(Owner {
            epoch: floor,
            head: Head::default(),
        });
        owner.epoch += 1;
        Lease::new(partition, owner.epoch, owner.head)
    }

    /// Whether the commit comes from the newest lease and at the right place, then whether it `fits` the limits, then
    /// moves the accepted head: the compare and the step forward are one.
    pub(crate) fn accept(
        &mut self,
        lease: &Lease,
        expect_lsn: Lsn,
        head: Head,
        fits: bool,
    ) -> Result<(), CommitOutcome> {
        let owner = self
            .partitions
            .get_mut(&lease.partition())
            .ok_or(CommitOutcome::Fenced)?;
        if owner.epoch != lease.epoch() || owner.head.lsn != expect_lsn || head.lsn <= expect_lsn {
            return Err(CommitOutcome::Fenced);
        }
        if !fits {
            return Err(CommitOutcome::TooLarge);
        }
        owner.head = head;
        Ok(())
    }

    /// Forgets a destroyed partition; the new floor of epochs.
    pub(crate) fn forget(&mut self, partition: PartitionId) -> u64 {
        if let Some(owner) = self.partitions.remove(&partition) {
            self.floor = self.floor.max(owner.epoch);
        }
        self.floor
    }

    /// The accepted head of a partition.
    pub(crate) fn head(&self, partition: PartitionId) -> Head {
        self.partitions
            .get(&partition)
            .map(|owner| owner.head)
            .unwrap_or_default()
    }
}

/// Refuses the number that is the store's own.
pub(crate) fn check_partition(partition: PartitionId) -> Result<(), StoreError> {
    if partition == RESERVED {
        Err(StoreError::ReservedPartition(partition))
    } else {
        Ok(())
    }
}
