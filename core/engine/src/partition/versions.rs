//! Versions of items, for the change feed with all versions and deletes.
//!
//! A container with a retention, by its `changeFeedPolicy` or by the account, gets a row for each
//! change that a commit makes: the item after the change, or before a deletion. Versions are part
//! of the commit that makes the change, so no version is missing and none is too many. All writes
//! of a transaction to one item are one change.
//!
//! The row `versions_floor` holds the LSN after which every version is kept, or one for each of
//! several merged histories (`version_floors.rs`). The row is written when the container gets its
//! retention, or by the first commit that keeps versions; it is raised when old versions are
//! removed, and removed by the first commit that keeps none. A reader that begins at or above the
//! floor misses nothing. A container without a retention writes and reads no row for it.
//!
//! ```text
//! row: format·1 operation·1 flags·1 second·8 number·8 previous LSN·8  item row
//!      and in format 2: item row before the change, length of that row·4
//! ```
//!
//! Format 2 is that of a replace in a container that asks for previous images. The policy at the
//! time of the change decides.

use crate::container::settings::Settings;
use crate::errors::damaged;
use crate::partition::keys::{self, ItemNumber};
use crate::partition::row::{self, Row};
use crate::partition::stamps::Moment;
use crate::partition::version_floors::VersionFloors;
use crate::partition::{CommitChanges, Partition, scan};
use bytes::Bytes;
use orrery_model::json::parse;
use orrery_model::partition_key::{Definition, Epk};
use orrery_model::{Json, Object, Result, Rid, object};
use orrery_storage::{Direction, Snapshot};
use std::iter::Peekable;

/// The subject of the error for a damaged row.
pub(crate) const ROW: &str = "a version of an item";

const FORMAT: u8 = 1;
const FORMAT_WITH_PREVIOUS: u8 = 2;
/// Flag of a deletion because the time to live was over.
const EXPIRED: u8 = 1;
/// Flag of a deletion whose version does not show the item before.
const IS_HIDDEN: u8 = 2;
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
    /// True for a deletion whose item readers do not see.
    is_hidden: bool,
    /// Second of the change.
    pub crts: u64,
    number: ItemNumber,
    /// LSN of the previous write of the item; 0 if there was none.
    previous_lsn: u64,
    /// The item after the change, or before a deletion.
    pub row: Row,
    /// The item before a replace, if the container asks for it.
    previous: Option<Row>,
}

impl Version {
    /// Returns the change between two states of an item, which is stamped with second `crts`, or
    /// `None` if neither state exists. `moment` and the time to live in `settings` tell an expiry
    /// from a deletion.
    pub(crate) fn between(
        number: ItemNumber,
        old: Option<&Row>,
        new: Option<&Row>,
        crts: u64,
        moment: Moment,
        settings: &Settings,
    ) -> Option<Version> {
        let (operation, row) = match (old, new) {
            (None, None) => return None,
            (None, Some(new)) => (Operation::Create, new),
            (Some(_), Some(new)) => (Operation::Replace, new),
            (Some(old), None) => (Operation::Delete, old),
        };
        let is_deletion = operation == Operation::Delete;
        let expired = is_deletion && !moment.has(row, settings.default_ttl);
        let previous_lsn = old.map_or(0, |old| old.lsn);
        let images = settings.previous_images;
        let previous = match operation {
            Operation::Replace if images.of_replaces => old.cloned(),
            _ => None,
        };
        let has_image = match expired {
            true => images.of_expiries,
            false => images.of_deletions,
        };
        Some(Version {
            operation,
            expired,
            is_hidden: is_deletion && !has_image,
            crts,
            number,
            previous_lsn,
            row: row.clone(),
            previous,
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
        let previous = self.previous.as_ref().map(Row::encode);
        let format = match previous {
            Some(_) => FORMAT_WITH_PREVIOUS,
            None => FORMAT,
        };
        let mut flags = 0;
        if self.expired {
            flags |= EXPIRED;
        }
        if self.is_hidden {
            flags |= IS_HIDDEN;
        }
        let length = HEADER + row.len() + previous.as_ref().map_or(0, |row| row.len() + 4);
        let mut out = Vec::with_capacity(length);
        out.extend([format, self.operation as u8, flags]);
        [self.crts, self.number, self.previous_lsn]
            .iter()
            .for_each(|n| out.extend(n.to_be_bytes()));
        out.extend(row);
        if let Some(previous) = previous {
            let length = previous.len() as u32;
            out.extend(previous);
            out.extend(length.to_be_bytes());
        }
        out
    }

    fn decode(bytes: &Bytes) -> Result<Version> {
        Version::read(bytes)?.ok_or_else(|| damaged(ROW))
    }

    /// Reads an encoded version; `None` if the bytes around its rows are none of a version.
    fn read(bytes: &Bytes) -> Result<Option<Version>> {
        let number = |at: usize| keys::number(bytes.get(at..at + 8)?);
        let header = || Some((number(CRTS_AT)?, number(11)?, number(19)?));
        let (Some(&[format, operation, flags]), Some((crts, item, previous_lsn))) =
            (bytes.first_chunk(), header())
        else {
            return Ok(None);
        };
        let Some(&operation) = Operation::ALL.get(usize::from(operation)) else {
            return Ok(None);
        };
        let Some((row, previous)) = split_rows(format, bytes) else {
            return Ok(None);
        };
        let mut previous = previous.map(|row| Row::decode(&row)).transpose()?;
        // A clock that was ahead may have dated the write before later than this change.
        if let Some(previous) = &mut previous {
            previous.ts = previous.ts.min(crts);
        }
        Ok(Some(Version {
            operation,
            expired: flags & EXPIRED != 0,
            is_hidden: flags & IS_HIDDEN != 0,
            crts,
            number: item,
            previous_lsn,
            row: Row::decode(&row)?,
            previous,
        }))
    }

    /// Returns the LSN of the write of the item before this change; 0 if there was none.
    pub(crate) fn previous_lsn(&self) -> u64 {
        self.previous_lsn
    }

    /// Returns the number of the item.
    pub(crate) fn number(&self) -> ItemNumber {
        self.number
    }

    /// Returns true if the item exists after this change.
    pub(crate) fn leaves_item(&self) -> bool {
        self.operation != Operation::Delete
    }

    /// Returns the effective partition key of a version from its first chunk.
    pub(crate) fn epk_of(first: &Bytes) -> Result<Epk> {
        Ok(Row::decode(&first.slice(HEADER.min(first.len())..))?.epk)
    }

    /// Returns the text that clients read.
    ///
    /// # Errors
    /// 500 for a row that is no item.
    pub(crate) fn text(&self, container: Rid, key: &Definition, lsn: u64) -> Result<Bytes> {
        let mut metadata = object! {
            "operationType" => self.operation.name(),
            "lsn" => lsn,
            "crts" => self.crts,
            "previousImageLSN" => self.previous_lsn,
            "timeToLiveExpired" => self.expired,
        };
        let image = self.row.text(container, self.number);
        let text_of = |row: &Row| row.text(container, self.number);
        let (current, previous) = match self.operation {
            Operation::Create | Operation::Replace => (image, self.previous.as_ref().map(text_of)),
            Operation::Delete => {
                let body = parse(&self.row.body).map_err(|_| damaged(ROW))?;
                metadata.push_new("id", body.get("id").cloned().ok_or_else(|| damaged(ROW))?);
                metadata.push_new("partitionKey", Json::Object(key_members(key, &body)));
                (
                    Bytes::from_static(b"{}"),
                    (!self.is_hidden).then_some(image),
                )
            }
        };
        let previous = previous.unwrap_or_default();
        let mut out = Vec::with_capacity(current.len() + previous.len() + 256);
        out.extend_from_slice(b"{\"current\":");
        out.extend_from_slice(&current);
        if !previous.is_empty() {
            out.extend_from_slice(b",\"previous\":");
            out.extend_from_slice(&previous);
        }
        out.extend_from_slice(b",\"metadata\":");
        out.extend_from_slice(Json::Object(metadata).to_text().as_bytes());
        out.push(b'}');
        Ok(Bytes::from(out))
    }
}

/// Returns the encoded rows of an encoded version: that of the item, and the one before a replace
/// if the version has it. `None` if the lengths do not fit or the format is unknown.
fn split_rows(format: u8, bytes: &Bytes) -> Option<(Bytes, Option<Bytes>)> {
    match format {
        FORMAT => Some((bytes.slice(HEADER..), None)),
        FORMAT_WITH_PREVIOUS => {
            let length_at = bytes.len().checked_sub(4)?;
            let length = u32::from_be_bytes(bytes[length_at..].try_into().ok()?);
            let previous_at = length_at.checked_sub(length as usize)?;
            let row = (previous_at >= HEADER).then(|| bytes.slice(HEADER..previous_at))?;
            Some((row, Some(bytes.slice(previous_at..length_at))))
        }
        _ => None,
    }
}

/// Returns the values of an item's partition key, each under its path without the first slash.
fn key_members(key: &Definition, item: &Json) -> Object {
    let mut members = Object::default();
    for path in key.paths() {
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

/// Returns the LSNs after which a snapshot has every version.
///
/// # Errors
/// 500 if the store cannot be read.
pub(crate) fn floors(snapshot: &dyn Snapshot) -> Result<VersionFloors> {
    let floors = Partition::version_floors(snapshot)?;
    Ok(floors.unwrap_or_else(|| VersionFloors::of_one(snapshot.head().lsn)))
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
            has_no_links: false,
            epk: Epk::from_bytes(b"abc"),
            body: Bytes::from_static(br#"{"id":"a"}"#),
        }
    }

    fn settings(rest: &str) -> Settings {
        let body = format!(r#"{{"id":"c","partitionKey":{{"paths":["/pk"]}}{rest}}}"#);
        let body = parse(body.as_bytes()).expect("JSON");
        Settings::from_body(body.as_object().expect("an object")).expect("settings")
    }

    fn images(mode: u8) -> Settings {
        settings(&format!(
            r#","previousImageRetentionPolicy":{{"supportedFeatures":
                {{"allVersionsAndDeletes":{{"mode":{mode}}}}}}}"#
        ))
    }

    #[test]
    fn versions_read_back_and_cut_ones_do_not() {
        for (old, new) in [
            (None, Some(row(2))),
            (Some(row(1)), Some(row(2))),
            (Some(row(1)), None),
        ] {
            for mode in 0..4 {
                let settings = images(mode);
                let (old, new) = (old.as_ref(), new.as_ref());
                let version = Version::between(7, old, new, 100, at(100), &settings);
                let version = version.expect("a change");
                let has_previous = mode & 1 == 1 && old.is_some() && new.is_some();
                assert_eq!(version.previous.is_some(), has_previous);
                assert_eq!(version.is_hidden, mode & 2 == 0 && new.is_none());
                check_reads_back(&version);
            }
        }
        let none = Version::between(7, None, None, 100, at(100), &images(3));
        assert_eq!(none, None);
    }

    #[track_caller]
    fn check_reads_back(version: &Version) {
        let bytes = Bytes::from(version.encode());
        assert_eq!(&Version::decode(&bytes).expect("a version"), version);
        assert_eq!(crts_of(&bytes).expect("a second"), 100);
        assert_eq!(dated_anew(&bytes, 100).expect("a version"), None);
        let anew = dated_anew(&bytes, 70)
            .expect("a version")
            .expect("it is later");
        let anew = Version::decode(&anew.into()).expect("a version");
        assert_eq!((anew.crts, anew.row.ts), (70, 70));
        assert!(anew.previous.is_none_or(|previous| previous.ts == 70));
        let header = HEADER + 35;
        assert!((0..header).all(|end| Version::decode(&bytes.slice(..end)).is_err()));
        if version.previous.is_some() {
            let wrong = [&bytes[..bytes.len() - 4], &[255; 4]].concat();
            assert!(Version::decode(&wrong.into()).is_err());
        }
    }

    #[test]
    fn a_deletion_is_told_apart_from_an_end_of_time() {
        let deleted = |now, ttl: &str| {
            Version::between(7, Some(&row(1)), None, now, at(now), &settings(ttl))
                .expect("a change")
                .expired
        };
        let ttl = r#","defaultTtl":50"#;
        assert!(!deleted(149, ttl));
        assert!(deleted(150, ttl));
        assert!(!deleted(150, ""));
    }
}
