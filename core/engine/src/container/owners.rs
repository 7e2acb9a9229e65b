//! The processes that own the physical partitions, as one process knows them. The header of
//! `ownership.rs` says what an owner is.

use orrery_storage::{PartitionId, StoreError};

/// The processes that own the partitions, as one process knows them. All calls may come from any
/// thread.
pub trait Owners: Send + Sync {
    /// Returns true if this process owns a partition. Called for each request.
    fn owns(&self, partition: PartitionId) -> bool;

    /// Returns true if this process may read the partitions of other owners.
    fn reads_all(&self) -> bool;

    /// Makes this process the owner of a partition. Waits until the other owner has given the
    /// partition back, or can have it no longer.
    ///
    /// # Errors
    /// When this process cannot become the owner.
    fn recall(&self, partition: PartitionId) -> std::result::Result<(), StoreError>;

    /// Makes this process the owner of all partitions.
    ///
    /// # Errors
    /// As for [`Owners::recall`].
    fn recall_all(&self) -> std::result::Result<(), StoreError>;

    /// Returns true if requests that are refused because another process owns a partition are sent
    /// to that process.
    fn are_forwarded(&self) -> bool {
        true
    }
}

/// The owners of a store that one process alone uses.
pub struct SoleOwner;

impl Owners for SoleOwner {
    fn owns(&self, _partition: PartitionId) -> bool {
        true
    }

    fn reads_all(&self) -> bool {
        true
    }

    fn recall(&self, _partition: PartitionId) -> std::result::Result<(), StoreError> {
        Ok(())
    }

    fn recall_all(&self) -> std::result::Result<(), StoreError> {
        Ok(())
    }

    fn are_forwarded(&self) -> bool {
        false
    }
}
