//! Work that runs beside requests: removal of expired items, old versions and deleted logical partitions, reindexing, and
//! splits and merges of physical partitions.

mod delete_by_key;
mod expiry;
mod reindex;
mod split;
mod version_retention;

pub use reindex::ITEMS_PER_STEP;
pub(crate) use split::RangeChanges;
