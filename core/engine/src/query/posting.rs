//! Postings: index entries and rows as references to items, with their positions.
//!
//! All access paths return postings. A posting names an item by its number and EPK prefix; the
//! cursor loads the item only if the query needs it.

use crate::errors::{damaged, storage_failure};
use crate::partition::keys::{self, EpkPrefix, ItemNumber, PathNumber};
use crate::partition::scan_keys;
use bytes::Bytes;
use orrery_model::json::compare;
use orrery_model::{Error, Json, Result};
use orrery_storage::{Direction, Snapshot};
use std::cmp::Ordering;

/// Entries between two calls of the check point.
pub(crate) const CHECK_INTERVAL: u64 = 4_096;

/// A range of keys: from (inclusive) and to (exclusive).
pub(crate) type KeyRange = (Vec<u8>, Vec<u8>);

/// A value that items are ordered by, and true if it ascends.
pub(crate) type OrderValue = (Option<Json>, bool);

/// The position of an item in the order of the candidates.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct IndexPosition {
    /// The encoded value; in a run, the encoding that all values of the run begin with. `None` in
    /// natural order, and in ORDER BY for items that lack the path. Such items come before all
    /// values.
    pub value: Option<Vec<u8>>,
    /// In a run: the values themselves. See `query/walk.rs`.
    pub run_values: Option<Vec<OrderValue>>,
    /// The item's number.
    pub number: ItemNumber,
}

impl IndexPosition {
    /// Returns the position of an item in natural order.
    pub(crate) fn natural(number: ItemNumber) -> Self {
        IndexPosition {
            number,
            ..IndexPosition::default()
        }
    }

    /// Compares two positions in the order of a merge.
    pub(crate) fn compare(&self, other: &IndexPosition, descending: bool) -> Ordering {
        let order = self
            .value
            .cmp(&other.value)
            .then_with(|| self.compare_in_run(other))
            .then(self.number.cmp(&other.number));
        if descending { order.reverse() } else { order }
    }

    /// Compares the values of two positions whose encodings are equal.
    fn compare_in_run(&self, other: &IndexPosition) -> Ordering {
        if let (Some(own), Some(others)) = (&self.run_values, &other.run_values) {
            for (a, b) in own.iter().zip(others) {
                let order = compare_values(a, b);
                if order.is_ne() {
                    return order;
                }
            }
        }
        Ordering::Equal
    }
}

fn compare_values((a, ascending): &OrderValue, (b, _): &OrderValue) -> Ordering {
    let order = match (a, b) {
        // Arrays have no order among each other, nor have objects.
        (Some(Json::Array(_)), Some(Json::Array(_)))
        | (Some(Json::Object(_)), Some(Json::Object(_))) => Ordering::Equal,
        (Some(a), Some(b)) => compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    };
    if *ascending { order } else { order.reverse() }
}

/// A reference to an item that may be a candidate.
pub(crate) struct Posting {
    /// The position of the item.
    pub position: IndexPosition,
    /// The EPK prefix of the item.
    pub epk_prefix: EpkPrefix,
    /// The first value of the item's row, if the access path has read it.
    pub row_head: Option<Bytes>,
    /// A document with the only value that the query reads. The item need not be loaded then.
    pub value: Option<Json>,
    /// Number of items that the posting stands for: those with `value`.
    pub copies: u64,
    /// True if the entry holds the whole value that the index tested.
    pub is_exact: bool,
}

impl Posting {
    /// Returns the posting of an item at a position.
    pub(crate) fn new(position: IndexPosition, epk_prefix: EpkPrefix) -> Self {
        Posting {
            position,
            epk_prefix,
            row_head: None,
            value: None,
            copies: 1,
            is_exact: true,
        }
    }
}

/// Postings in the order of an access path.
pub(crate) type Postings<'a> = Box<dyn Iterator<Item = Result<Posting>> + 'a>;

/// An entry of an index.
#[derive(Clone, Debug)]
pub(crate) struct IndexEntry {
    /// The encoded value.
    pub value: Vec<u8>,
    /// The number of the item.
    pub number: ItemNumber,
    /// The EPK prefix of the item.
    pub epk_prefix: EpkPrefix,
}

/// Index entries in ascending or descending order.
pub(crate) type Entries<'a> = Box<dyn Iterator<Item = Result<IndexEntry>> + 'a>;

/// Returns the index entries in a range of keys.
pub(crate) fn entries<'a>(
    snapshot: &'a dyn Snapshot,
    range: &KeyRange,
    direction: Direction,
) -> impl Iterator<Item = Result<IndexEntry>> + use<'a> {
    scan_keys(snapshot, range, direction, |key| {
        let (value, number, epk_prefix) = read_entry(key)?;
        Ok(IndexEntry {
            value: value.to_vec(),
            number,
            epk_prefix,
        })
    })
}

/// Returns the encoded value, the item number and the EPK prefix of the key of an index entry.
///
/// # Errors
/// 500 for a damaged key.
pub(crate) fn read_entry(key: &[u8]) -> Result<(&[u8], ItemNumber, EpkPrefix)> {
    keys::read_term(key).ok_or_else(damaged_row)
}

/// Returns the item number and the EPK prefix of a row in natural order.
///
/// # Errors
/// 500 for a damaged row.
pub(crate) fn read_natural_row((key, value): (Bytes, Bytes)) -> Result<(ItemNumber, EpkPrefix)> {
    let number = keys::read_natural(&key).ok_or_else(damaged_row)?;
    let epk_prefix = value[..].try_into().map_err(|_| damaged_row())?;
    Ok((number, epk_prefix))
}

/// Returns the number of keys in a range.
///
/// # Errors
/// 500 if the store cannot be read; those of `check_point`.
pub(crate) fn count_checked(
    snapshot: &dyn Snapshot,
    range: &KeyRange,
    check_point: &dyn Fn() -> Result<()>,
) -> Result<u64> {
    let mut count = 0_u64;
    for key in scan_keys(snapshot, range, Direction::Forward, |_| Ok(())) {
        key?;
        count += 1;
        if count.is_multiple_of(CHECK_INTERVAL) {
            check_point()?;
        }
    }
    Ok(count)
}

/// Returns true if an item has an index entry.
///
/// # Errors
/// 500 if the store cannot be read.
pub(crate) fn has_entry(
    snapshot: &dyn Snapshot,
    path: PathNumber,
    value: &[u8],
    number: ItemNumber,
    epk_prefix: EpkPrefix,
) -> Result<bool> {
    let key = keys::term(path, value, number, epk_prefix);
    let row = snapshot.get(&key).map_err(storage_failure)?;
    Ok(row.is_some())
}

/// Returns the error for a row that does not decode.
pub(crate) fn damaged_row() -> Error {
    damaged("a row of the index")
}
