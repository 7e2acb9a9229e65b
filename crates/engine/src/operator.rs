//! Questions and commands of the person who runs the server: inventory, statistics, meters,
//! snapshots, damage.

mod damage;
mod inventory;
mod meters;
mod snapshots;
pub(crate) mod statistics;

pub use damage::{DamagedBlock, DamagedBlockContents, DamagedPartition};
pub use inventory::PartitionInventory;
pub use meters::Meters;
