//! Descriptions of snapshots of the whole account.

use orrery_model::Object;

/// The description of a snapshot.
#[derive(Clone, Debug)]
pub struct SnapshotInfo {
    /// The name of the snapshot.
    pub name: String,
    /// The time of the snapshot in milliseconds since 1970, by the clock of the engine.
    pub taken_ms: u64,
    /// The number of containers.
    pub containers: u64,
    /// The number of physical partitions.
    pub partitions: u64,
    /// The number of items.
    pub items: u64,
    /// The bytes of the items' JSON texts.
    pub bytes: u64,
    /// A note that the caller stored with the snapshot.
    pub note: Object,
}
