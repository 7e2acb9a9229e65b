//! The limit on the size of a logical partition, and the reports about logical partitions that come
//! near to the limit. All containers share the reports; `size_limits` knows the limit of each.
//!
//! The size of a logical partition is the bytes of the texts of its stored items. Expired items and
//! those of a deleted logical partition count until their rows are removed.

use orrery_model::metrics::Counter;
use orrery_model::{Error, Kind};
use std::sync::{Arc, OnceLock};

/// A logical partition that has come near to the limit.
#[derive(Clone, Debug)]
pub struct LargeKey {
    /// The id of the database.
    pub database: String,
    /// The id of the container.
    pub container: String,
    /// The effective partition key, in hexadecimal digits.
    pub epk: String,
    /// The bytes of the items.
    pub bytes: u64,
    /// The limit in bytes.
    pub bytes_max: u64,
}

type Listener = Box<dyn Fn(&LargeKey) + Send + Sync>;

/// The reports of all containers since the engine was opened.
#[derive(Default)]
pub(crate) struct KeyReports {
    listener: OnceLock<Listener>,
    /// Logical partitions that have passed [`KeyLimit::warning_bytes`].
    pub warnings: Counter,
    /// Writes that were refused.
    pub refusals: Counter,
}

/// The limit of one container.
pub(crate) struct KeyLimit {
    bytes_max: u64,
    reports: Arc<KeyReports>,
}

impl KeyReports {
    /// Sets the function that hears of each logical partition that comes near to the limit. Only
    /// the first call has an effect.
    pub(crate) fn set_listener(&self, listener: Listener) {
        let _ = self.listener.set(listener);
    }
}

impl KeyLimit {
    /// Returns a limit in bytes whose reports go to `reports`.
    pub(crate) fn new(bytes_max: u64, reports: Arc<KeyReports>) -> Self {
        KeyLimit { bytes_max, reports }
    }

    /// Returns the limit in bytes.
    pub(crate) fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Returns the size beyond which the operator is warned: 80 % of the limit.
    pub(crate) fn warning_bytes(&self) -> u64 {
        self.bytes_max / 5 * 4
    }

    /// Reports a logical partition that has passed [`KeyLimit::warning_bytes`].
    pub(crate) fn report(&self, large: &LargeKey) {
        self.reports.warnings.add(1);
        if let Some(listener) = self.reports.listener.get() {
            listener(large);
        }
    }

    /// Returns the refusal of a write beyond the limit, in the service's words.
    pub(crate) fn refusal(&self) -> Error {
        self.reports.refusals.add(1);
        let size = size_text(self.bytes_max);
        Error::new(
            Kind::PartitionKeyFull,
            format!("Partition key reached maximum size of {size}"),
        )
    }
}

/// Returns a size in the largest unit of which it is a multiple.
fn size_text(bytes: u64) -> String {
    for (unit, shift) in [("GB", 30), ("MB", 20), ("KB", 10)] {
        if bytes > 0 && bytes.trailing_zeros() >= shift {
            return format!("{} {unit}", bytes >> shift);
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_named_in_the_largest_unit_that_fits() {
        for (bytes, text) in [
            (20 << 30, "20 GB"),
            (1536 << 20, "1536 MB"),
            (4 << 10, "4 KB"),
            (1_000, "1000 bytes"),
        ] {
            assert_eq!(size_text(bytes), text);
        }
    }
}
