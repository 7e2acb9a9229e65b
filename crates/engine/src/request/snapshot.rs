//! Snapshots of everything, as they are told of.

use orrery_model::Object;

/// A snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotInfo {
    /// Its name.
    pub name: String,
    /// The millisecond in which it was taken, by the engine's clock.
    pub taken_ms: u64,
    /// Containers in it.
    pub containers: u64,
    /// Their physical partitions.
    pub partitions: u64,
    /// Their items.
    pub items: u64,
    /// Bytes of the items' texts.
    pub bytes: u64,
    /// What whoever took it said beside it.
    pub note: Object,
}
