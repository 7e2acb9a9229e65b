//! The table that decides whether a commit is fenced: the newest epoch and the accepted head of
//! each partition.
//!
//! Every engine in this crate keeps one table behind the lock under which it accepts commits, so
//! that comparing the head and moving it forward are one step. Destroying a partition removes its
//! head but not the memory of its epochs: the *epoch floor* is the highest epoch of any destroyed
//! partition. A partition that is opened again starts above the floor, so a lease from before the
//! destruction never matches.

use std::collections::HashMap;

use crate::commit::{CommitOutcome, Head, Lsn, PartitionId};
use crate::error::StoreError;
use crate::store::Lease;

/// The partition number that is reserved for the store itself.
pub(crate) const RESERVED: PartitionId = PartitionId(u64::MAX);

/// The epoch of a partition's newest lease, and the head that its next commit must expect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ownership {
    pub(crate) epoch: u64,
    pub(crate) head: Head,
}

/// The ownership of all partitions of a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnershipTable {
    partitions: HashMap<PartitionId, Ownership>,
    epoch_floor: u64,
}

impl OwnershipTable {
    pub(crate) fn new(
        partitions: HashMap<PartitionId, Ownership>,
        epoch_floor: u64,
    ) -> OwnershipTable {
        OwnershipTable {
            partitions,
            epoch_floor,
        }
    }

    /// Raises the epoch of a partition. From here on only the returned lease is valid.
    pub(crate) fn raise_epoch(&mut self, partition: PartitionId) -> Lease {
        let epoch_floor = self.epoch_floor;
        let ownership = self.partitions.entry(partition).or_insert(Ownership {
            epoch: epoch_floor,
            head: Head::default(),
        });
        ownership.epoch += 1;
        Lease::new(partition, ownership.epoch, ownership.head)
    }

    /// Moves the accepted head to `head`, if the lease is the newest of its partition, the accepted
    /// head is `expect_lsn`, `head` is above it, and the commit is within the limits
    /// (`within_limits`). Returns the refusal otherwise; fencing goes before the limits.
    pub(crate) fn accept(
        &mut self,
        lease: &Lease,
        expect_lsn: Lsn,
        head: Head,
        within_limits: bool,
    ) -> Result<(), CommitOutcome> {
        let Some(ownership) = self.partitions.get_mut(&lease.partition()) else {
            return Err(CommitOutcome::Fenced);
        };
        let is_newest_lease = ownership.epoch == lease.epoch();
        let is_at_head = ownership.head.lsn == expect_lsn && head.lsn > expect_lsn;
        if !is_newest_lease || !is_at_head {
            return Err(CommitOutcome::Fenced);
        }
        if !within_limits {
            return Err(CommitOutcome::TooLarge);
        }
        ownership.head = head;
        Ok(())
    }

    /// Returns the table of the same store after it was opened again and these partitions were
    /// found. A lease stays valid if every commit under it was found; all other leases are fenced.
    pub(crate) fn after_reopening(
        &self,
        found: HashMap<PartitionId, Ownership>,
        epoch_floor: u64,
    ) -> OwnershipTable {
        let mut epoch_floor = epoch_floor.max(self.epoch_floor);
        for (partition, known) in &self.partitions {
            if !found.contains_key(partition) {
                epoch_floor = epoch_floor.max(known.epoch);
            }
        }
        let mut partitions = found;
        for (partition, ownership) in &mut partitions {
            let known = self.partitions.get(partition);
            if known != Some(ownership) {
                let known_epoch = known.map_or(epoch_floor, |known| known.epoch);
                ownership.epoch = ownership.epoch.max(known_epoch) + 1;
            }
        }
        OwnershipTable {
            partitions,
            epoch_floor,
        }
    }

    /// Removes a destroyed partition. Returns the new epoch floor.
    pub(crate) fn remove(&mut self, partition: PartitionId) -> u64 {
        if let Some(ownership) = self.partitions.remove(&partition) {
            self.epoch_floor = self.epoch_floor.max(ownership.epoch);
        }
        self.epoch_floor
    }

    /// Returns the ownership of all partitions.
    pub(crate) fn all(&self) -> impl Iterator<Item = (PartitionId, Ownership)> {
        self.partitions
            .iter()
            .map(|(partition, ownership)| (*partition, *ownership))
    }

    /// Returns all partitions, in ascending order.
    pub(crate) fn partitions(&self) -> Vec<PartitionId> {
        let mut partitions: Vec<_> = self.partitions.keys().copied().collect();
        partitions.sort_unstable();
        partitions
    }

    /// Returns the highest epoch of any destroyed partition.
    pub(crate) fn epoch_floor(&self) -> u64 {
        self.epoch_floor
    }

    /// Returns the accepted head of a partition.
    pub(crate) fn head(&self, partition: PartitionId) -> Head {
        match self.partitions.get(&partition) {
            Some(ownership) => ownership.head,
            None => Head::default(),
        }
    }
}

/// Refuses the partition number that is reserved for the store itself.
pub(crate) fn check_partition(partition: PartitionId) -> Result<(), StoreError> {
    if partition == RESERVED {
        return Err(StoreError::ReservedPartition(partition));
    }
    Ok(())
}
