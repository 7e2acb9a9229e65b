//! The row with the confirmed time of the data: see `background/confirmed_clock.rs`.
//!
//! ```text
//! 26                           number·8: milliseconds since 1970
//! ```
//! The row belongs to no row set: a restoration of older contents does not change the time.

use super::{Catalog, Record, RowChanges};
use crate::errors::storage_failure;
use crate::partition::keys;
use orrery_model::Result;

/// The key of the row.
const CONFIRMED_TIME: u8 = 0x26;

impl Catalog {
    /// Returns the stored time in milliseconds since 1970; `None` if none is stored.
    ///
    /// # Errors
    /// 500 if the store cannot be read or the row is damaged.
    pub(crate) fn confirmed_time(&self) -> Result<Option<u64>> {
        let snapshot = self.partition.snapshot()?;
        match snapshot.get(&[CONFIRMED_TIME]).map_err(storage_failure)? {
            None => Ok(None),
            Some(row) => keys::number(&row).map(Some).ok_or_else(Record::damaged),
        }
    }

    /// Stores a time in milliseconds since 1970.
    ///
    /// # Errors
    /// The store's error.
    pub(crate) fn store_confirmed_time(&self, confirmed_ms: u64) -> Result<()> {
        let _writing = self.begin_change()?;
        let row = (vec![CONFIRMED_TIME], confirmed_ms.to_be_bytes().to_vec());
        let changes = RowChanges {
            puts: vec![row],
            ..RowChanges::default()
        };
        self.commit_rows(changes, |_| {}).map(drop)
    }
}
