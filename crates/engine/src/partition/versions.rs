//! Versions of items, for the change feed with all versions and deletes.
//!
//! A container with a retention, by its `changeFeedPolicy` or by the account, gets a row for each
//! change that a commit makes: the item after the change, or before a deletion. Versions are part
//! of the commit that makes the change, so no version is missing and none is too many. All writes
//! of a transaction to one item are one change.
//!
//! The row `versions_floor` holds the LSN after which every version is kept. The row is written
//! when the container gets its retention, or by the first commit that keeps versions; it is raised
//! when old versions are removed, and removed by the first commit that keeps none. A reader that
//! begins at or above the floor misses nothing. A container without a retention writes and reads
//! no row for it.
//!
//! ```text
//! row: format·1 operation·1 flags·1 second·8 number·8 previous LSN·8  item row
//! ```

use crate::catalog::Container;
use crate::errors::damaged;
use crate::partition::keys::{self, ItemNumber};
use crate::partition::row::{self, Row};
use crate::partition::stamps::Moment;
use crate::partition::{CommitChanges, Partition, scan};
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::partition_key::Epk;
use orrery_model::{Json, Object, Result, object};
use orrery_storage::{Direction, Snapshot};
use std::iter::Peekable;

/// The subject of the error for a damaged row.
pub(crate) const ROW: &str = "a version of an item";

const FORMAT: u8 = 1;
const EXPIRED: u8 = 1;
const HEADER: usize = 27;
/// The place of the second of the change.
const CRTS_AT: usize = 3;

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create = 0,
    Replace = 1,
    Delete = 2,
}

impl Operation {
    const ALL: [Operation; 3] = [Operation::Create, Operation::Replace, Operation::Delete];

    fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Replace => "replace",
            Operation::Delete => "delete",
        }
    }
}

/// A change of one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    operation: Operation,
    /// True for a deletion because the time to live was over.
    expired: bool,
    /// Second of the change.
    pub crts: u64,
    number: ItemNumber,
    /// LSN of the previous write of the item; 0 if there was none.
    previous_lsn: u64,
    /// The item after the change, or before a deletion.
    pub row: Row,
}

impl Version {
    /// Returns the change between two states of an item, which is stamped with second `crts`, or
    /// `None` if neither state exists. `moment` and the container's `default_ttl` tell an expiry
    /// from a deletion.
    pub(crate) fn between(
        number: ItemNumber,
        old: Option<&Row>,
        new: Option<&Row>,
        crts: u64,
        moment: Moment,
        default_ttl: Option<i32>,
    ) -> Option<Version> {
        let (operation, row) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => (Operation::Create, new),
            (Some(_), Some(new)) => (Operation::Replace, new),
            (Some(old), None) => (Operation::Delete, old),
        };
        let expired = operation == Operation::Delete && !moment.has(row, default_ttl);
        let previous_lsn = old.map_or(0, |old| old.lsn);
        Some(Version {
            operation,
            expired,
            crts,
            number,
            previous_lsn,
            row: row.clone(),
        })
    }

    /// Writes the version as the change `sequence` of the commit `lsn`.
    pub(crate) fn put(&self, lsn: u64, sequence: u32, out: &mut CommitChanges) {
        let (first, rest) = row::split(self.encode());
        let chunks = std::iter::once(first).chain(rest);
        for (chunk, bytes) in (0..).zip(chunks) {
            let key = keys::version(lsn, sequence, self.number, chunk);
            out.version_bytes += (key.len() + bytes.len()) as u64;
            out.puts.push((key, bytes));
        }
    }

    fn encode(&self) -> Vec<u8> {
        let row = self.row.encode();
        let mut out = Vec::with_capacity(HEADER + row.len());
        out.extend([
            FORMAT,
            self.operation as u8,
            if self.expired { EXPIRED } else { 0 },
        ]);
        [self.crts, self.number, self.previous_lsn]
            .iter()
            .for_each(|n| out.extend(n.to_be_bytes()));
        out.extend(row);
        out
    }

    fn decode(bytes: &Bytes) -> Result<Version> {
        let number = |at: usize| keys::number(bytes.get(at..at + 8)?);
        let header = || -> Option<(Operation, bool, u64, ItemNumber, u64)> {
            let [FORMAT, operation, flags] = *bytes.get(..3)? else {
                return None;
            };
            let operation = *Operation::ALL.get(usize::from(operation))?;
            Some((
                operation,
                flags & EXPIRED != 0,
                number(3)?,
                number(11)?,
                number(19)?,
            ))
        };
        let (operation, expired, crts, number, previous_lsn) =
            header().ok_or_else(|| damaged(ROW))?;
        Ok(Version {
            operation,
            expired,
            crts,
            number,
            previous_lsn,
            row: Row::decode(&bytes.slice(HEADER..))?,
        })
    }

    /// Returns the effective partition key of a version from its first chunk.
    pub(crate) fn epk_of(first: &Bytes) -> Result<Epk> {
        Ok(Row::decode(&first.slice(HEADER.min(first.len())..))?.epk)
    }

    /// Returns the text that clients read.
    ///
    /// # Errors
    /// 500 for a row that is no item.
    pub(crate) fn text(&self, container: &Container, lsn: u64) -> Result<Bytes> {
        let mut metadata = object! {
            "operationType" => self.operation.name(),
            "lsn" => lsn,
            "crts" => self.crts,
            "previousImageLSN" => self.previous_lsn,
            "timeToLiveExpired" => self.expired,
        };
        let image = self.row.text(container.rid(), self.number);
        let (current, previous): (&[u8], &[u8]) = match self.operation {
            Operation::Create | Operation::Replace => (&image, b""),
            Operation::Delete => {
                let body = parse(&self.row.body).map_err(|_| damaged(ROW))?;
                metadata.push_new("id", body.get("id").cloned().ok_or_else(|| damaged(ROW))?);
                metadata.push_new("partitionKey", Json::Object(key_members(container, &body)));
                (b"{}", &image)
            }
        };
        let mut out = Vec::with_capacity(image.len() + 256);
        out.extend_from_slice(b"{\"current\":");
        out.extend_from_slice(current);
        if !previous.is_empty() {
            out.extend_from_slice(b",\"previous\":");
            out.extend_from_slice(previous);
        }
        out.extend_from_slice(b",\"metadata\":");
        out.extend_from_slice(Json::Object(metadata).to_text().as_bytes());
        out.push(b'}');
        Ok(Bytes::from(out))
    }
}

/// Returns the values of an item's partition key, each under its path without the first slash.
fn key_members(container: &Container, item: &Json) -> Object {
    let mut members = Object::default();
    for path in container.partition_key().paths() {
        if let Some(value) = path.iter().try_fold(item, |at, name| at.get(name)) {
            members.push_new(path.join("/"), value.clone());
        }
    }
    members
}

type Entries<'a> = Box<dyn Iterator<Item = Result<(Bytes, Bytes)>> + 'a>;

/// The versions of a snapshot after an LSN, each with its LSN, in the order of the changes.
pub(crate) struct Versions<'a> {
    rows: Peekable<Entries<'a>>,
}

impl<'a> Versions<'a> {
    /// Reads the versions after an LSN.
    pub(crate) fn after(snapshot: &'a dyn Snapshot, after: u64) -> Self {
        let rows: Entries<'a> = Box::new(scan(
            snapshot,
            &keys::versions_after(after),
            Direction::Forward,
        ));
        Versions {
            rows: rows.peekable(),
        }
    }

    fn read_next(&mut self) -> Result<Option<(u64, Version)>> {
        let Some((key, first)) = self.rows.next().transpose()? else {
            return Ok(None);
        };
        let Some((at, 0)) = keys::read_version(&key) else {
            return Err(damaged(ROW));
        };
        let mut whole = first;
        let is_rest = |entry: &Result<(Bytes, Bytes)>| match entry {
            Ok((key, _)) => keys::read_version(key).is_some_and(|(same, _)| same == at),
            Err(_) => true,
        };
        if row::may_go_on(&whole) {
            let mut bytes = whole.to_vec();
            while let Some(entry) = self.rows.next_if(is_rest) {
                bytes.extend_from_slice(&entry?.1);
            }
            whole = bytes.into();
        }
        Ok(Some((at.0, Version::decode(&whole)?)))
    }
}

impl Iterator for Versions<'_> {
    type Item = Result<(u64, Version)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read_next().transpose()
    }
}

/// Returns the LSN after which a snapshot has every version.
///
/// # Errors
/// 500 if the store cannot be read.
pub(crate) fn floor(snapshot: &dyn Snapshot) -> Result<u64> {
    Ok(Partition::versions_after(snapshot)?.unwrap_or(snapshot.head().lsn))
}

/// Returns the first chunk of a version with second `now` in place of later seconds, or `None` if
/// it has none.
///
/// # Errors
/// 500 for a chunk that is damaged.
pub(crate) fn dated_anew(value: &[u8], now: u64) -> Result<Option<Vec<u8>>> {
    let row = value.get(HEADER..).ok_or_else(|| damaged(ROW))?;
    if crts_of(value)? <= now && row::ts_of(row)? <= now {
        return Ok(None);
    }
    let mut anew = value.to_vec();
    for at in [CRTS_AT, HEADER + row::TS_AT] {
        let number = &mut anew[at..at + 8];
        if keys::number(number).is_some_and(|second| second > now) {
            number.copy_from_slice(&now.to_be_bytes());
        }
    }
    Ok(Some(anew))
}

/// Returns the second of a version's change from its first chunk.
pub(crate) fn crts_of(value: &[u8]) -> Result<u64> {
    value
        .get(CRTS_AT..CRTS_AT + 8)
        .and_then(keys::number)
        .ok_or_else(|| damaged(ROW))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::IndexingDirective;

    fn at(now: u64) -> Moment {
        Moment { now, since: 0 }
    }

    fn row(lsn: u64) -> Row {
        Row {
            lsn,
            sequence: 0,
            ts: 100,
            etag: 5,
            ttl: 0,
            indexing: IndexingDirective::Default,
            epk: Epk::from_bytes(b"abc"),
            body: Bytes::from_static(br#"{"id":"a"}"#),
        }
    }

    #[test]
    fn versions_read_back_and_cut_ones_do_not() {
        for (old, new) in [
            (None, Some(row(2))),
            (Some(row(1)), Some(row(2))),
            (Some(row(1)), None),
        ] {
            let version = Version::between(7, old.as_ref(), new.as_ref(), 100, at(100), Some(50));
            let version = version.expect("a change");
            let bytes = Bytes::from(version.encode());
            assert_eq!(Version::decode(&bytes).expect("a version"), version);
            assert_eq!(crts_of(&bytes).expect("a second"), 100);
            assert_eq!(dated_anew(&bytes, 100).expect("a version"), None);
            let anew = dated_anew(&bytes, 70)
                .expect("a version")
                .expect("it is later");
            let anew = Version::decode(&anew.into()).expect("a version");
            assert_eq!((anew.crts, anew.row.ts), (70, 70));
            let header = HEADER + 35;
            assert!((0..header).all(|end| Version::decode(&bytes.slice(..end)).is_err()));
        }
        assert_eq!(Version::between(7, None, None, 100, at(100), None), None);
    }

    #[test]
    fn a_deletion_is_told_apart_from_an_end_of_time() {
        let deleted = |now, ttl| {
            Version::between(7, Some(&row(1)), None, now, at(now), ttl)
                .expect("a change")
                .expired
        };
        assert!(!deleted(149, Some(50)));
        assert!(deleted(150, Some(50)));
        assert!(!deleted(150, None));
    }
}
