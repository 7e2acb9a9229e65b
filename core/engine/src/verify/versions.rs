//! The chain of the versions of each item, for the change feed with all versions and deletes.
//!
//! Each version after the beginning of the kept versions names the write of the item before it, and
//! the item names its last write. So each write that leaves an item is named once: by the next
//! version, or by the item. The links are compared as rows of the item are:
//!
//! ```text
//! create 5 ─▶ replace 7 (previous 5) ─▶ replace 9 (previous 7) ─▶ item (LSN 9)
//! stored: 5, 7, 9                         expected: 5, 7, 9
//! ```

use super::findings::{Check, PartitionFindings};
use super::fingerprints::{Difference, Side};
use crate::partition::keys::{self, ItemNumber};
use crate::partition::versions::Versions;
use orrery_model::Result;
use orrery_storage::Snapshot;

/// The first byte of the key of a link, which no row has.
const LINK: u8 = 0xFE;

/// Returns a link as a row: the write `lsn` of an item.
pub(super) fn link(item: ItemNumber, lsn: u64) -> (Vec<u8>, Vec<u8>) {
    let mut key = vec![LINK];
    key.extend_from_slice(&item.to_be_bytes());
    key.extend_from_slice(&lsn.to_be_bytes());
    (key, Vec::new())
}

/// Returns the LSN of a link, or `None` for the key of a row.
pub(super) fn lsn_of_link(key: &[u8]) -> Option<u64> {
    keys::number(key.strip_prefix(&[LINK])?.get(8..)?)
}

/// Reads the versions after `floor`, if any are kept, and passes their links on. Versions of
/// commits that never were go to `found`.
///
/// # Errors
/// 500 if the store cannot be read or a version is damaged.
pub(super) fn read(
    snapshot: &dyn Snapshot,
    floor: Option<u64>,
    mut found: Option<&mut PartitionFindings<'_>>,
    mut add: impl FnMut(Side, ItemNumber, &[u8], &[u8]),
) -> Result<()> {
    let head = snapshot.head().lsn;
    for version in Versions::after(snapshot, floor.unwrap_or(0)) {
        let (lsn, version) = version?;
        let number = version.number();
        if let Some(found) = &mut found
            && lsn > head
        {
            let detail = format!("a version has the LSN {lsn}, after the last commit {head}");
            found.add(Check::Versions, &keys::version(lsn, 0, number, 0), detail);
        }
        let Some(floor) = floor else {
            continue;
        };
        if version.leaves_item() {
            let (key, value) = link(number, lsn);
            add(Side::Stored, number, &key, &value);
        }
        if version.previous_lsn() > floor {
            let (key, value) = link(number, version.previous_lsn());
            add(Side::Expected, number, &key, &value);
        }
    }
    Ok(())
}

/// Describes a difference between links.
pub(super) fn difference(item: ItemNumber, lsn: u64, difference: Difference) -> (Check, String) {
    let version = format!("the version of item number {item} that the commit {lsn} wrote");
    let fault = match difference {
        Difference::Missing => "is missing",
        Difference::Surplus => "is followed by no other, and is not that of the item",
        Difference::Value | Difference::Claimed => "is followed by two others",
    };
    (Check::Versions, format!("{version} {fault}"))
}
