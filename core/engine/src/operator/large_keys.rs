//! Logical partitions that come near to the limit on their size, for the operator.

use crate::Engine;
use crate::catalog::Container;
use crate::container::view::ContainerView;
use crate::partition::key_limit::LargeKey;
use crate::partition::key_sizes::large_of;
use crate::partition::keys;
use crate::partition::row_reader::rows_of_epk_prefix;
use orrery_model::partition_key::Epk;
use orrery_model::{Json, Result};
use orrery_storage::Snapshot;
use std::cmp::Reverse;

/// Logical partitions that are listed of each physical partition.
const LISTED: usize = 10;

/// The size of a logical partition.
#[derive(Clone, Debug, PartialEq)]
pub struct LogicalPartitionSize {
    /// The effective partition key, in hexadecimal digits.
    pub epk: String,
    /// The partition key as a JSON array; `None` if no item with the key is stored.
    pub key: Option<Json>,
    /// Bytes of the texts of the items.
    pub bytes: u64,
}

impl Engine {
    /// Sets the function that hears of each logical partition that passes 80 % of the limit. The
    /// function must return at once. Only the first call has an effect.
    pub fn on_large_key(&self, listener: impl Fn(&LargeKey) + Send + Sync + 'static) {
        let reports = &self.catalog().size_limits().reports;
        reports.set_listener(Box::new(listener));
    }

    /// Returns how many logical partitions have passed 80 % of the limit since the engine was
    /// opened.
    pub fn large_key_warnings(&self) -> u64 {
        self.catalog().size_limits().reports.warnings.get()
    }

    /// Returns how many writes were refused since the engine was opened, because their logical
    /// partition would have passed the limit.
    pub fn large_key_refusals(&self) -> u64 {
        self.catalog().size_limits().reports.refusals.get()
    }
}

/// Returns the largest logical partitions of a snapshot, the largest first, as far as their sizes
/// are counted: those of a physical partition with more than half of the limit.
///
/// # Errors
/// 500 if the store cannot be read or a row is damaged.
pub(super) fn largest_keys(
    container: &Container,
    snapshot: &dyn Snapshot,
    partition_bytes: u64,
) -> Result<Vec<LogicalPartitionSize>> {
    if partition_bytes <= container.key_limit().bytes_max() / 2 {
        return Ok(Vec::new());
    }
    let mut large = large_of(snapshot)?;
    large.sort_by_key(|(_, bytes)| Reverse(*bytes));
    large.truncate(LISTED);
    let mut sizes = Vec::with_capacity(large.len());
    for (epk, bytes) in large {
        sizes.push(LogicalPartitionSize {
            epk: epk.to_string(),
            key: key_of(container, snapshot, &epk)?,
            bytes,
        });
    }
    Ok(sizes)
}

/// Returns the partition key of the items with an effective partition key, or `None` if there are
/// none.
fn key_of(container: &Container, snapshot: &dyn Snapshot, epk: &Epk) -> Result<Option<Json>> {
    for stored in rows_of_epk_prefix(snapshot, keys::epk_prefix(epk), 0) {
        let stored = stored?;
        if stored.row.epk == *epk {
            let key = container.partition_key().extract(&stored.item()?)?;
            return Ok(Some(key.to_json()));
        }
    }
    Ok(None)
}
