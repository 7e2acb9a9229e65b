//! Questions and commands of the person who runs the server: inventory, statistics, search indexes,
//! meters, snapshots, lost writes, damage, the repair after a wrong clock.

mod clock_repair;
mod damage;
mod inventory;
mod items;
mod large_keys;
mod lost_writes;
mod meters;
mod recall;
mod search_indexes;
mod snapshots;
pub(crate) mod statistics;

pub use clock_repair::ClockRepair;
pub use damage::{DamagedBlock, DamagedBlockContents, DamagedPartition};
pub use inventory::PartitionInventory;
pub use items::UnchargedItems;
pub use large_keys::LogicalPartitionSize;
pub use lost_writes::LostWrites;
pub use meters::Meters;
pub use recall::{RECALL_SAMPLE_MAX, RecallEstimate};
pub use search_indexes::{
    SearchIndexFigures, SearchIndexKind, SearchIndexPart, SearchIndexState, SearchIndexStatus,
};
