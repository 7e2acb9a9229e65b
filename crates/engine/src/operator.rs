//! Questions and commands of the person who runs the server: inventory, statistics, meters,
//! snapshots.

mod inventory;
mod meters;
mod snapshots;
pub(crate) mod statistics;

pub use inventory::PartitionInventory;
pub use meters::Meters;
