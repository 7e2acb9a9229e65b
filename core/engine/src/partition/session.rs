//! Session tokens: the LSN that a client has seen, compared with the LSN that a partition has
//! reached.

use crate::partition::Partition;
use orrery_model::{Error, Kind, Result};
use std::sync::atomic::Ordering;

/// Checks that a partition has reached the LSN that a session token names for it.
///
/// The header holds entries `{range}:{lsn}` or `{range}:{version}#{lsn}[#{region}={lsn}…]`,
/// separated by commas. Entries of ranges that the partition did not come from are ignored. So are
/// entries of an earlier container of the same name, which have another version. A copy has not
/// reached an entry of a range or of a container that may be newer than its catalog.
///
/// # Errors
/// 400 for a token that cannot be read, 404/1002 for a token that is ahead of `committed`.
pub(crate) fn check_session(
    header: Option<&str>,
    partition: &Partition,
    committed: u64,
) -> Result<()> {
    let Some(header) = header.filter(|h| !h.trim().is_empty()) else {
        return Ok(());
    };
    for entry in header.split(',') {
        let (range, version, lsn) = parse_entry(entry.trim()).ok_or_else(|| {
            Error::bad(format!("The session token provided '{entry}' is invalid."))
        })?;
        let is_this_container = version.is_none_or(|version| version == partition.version);
        let concerns =
            is_this_container && (range == partition.id || partition.parents.contains(&range));
        if (concerns && lsn > committed) || partition.is_newer_than_copy(range, version) {
            return Err(Error::new(
                Kind::SessionNotReached,
                format!(
                    "The read/write session is not available for the input session token. The \
                     token names LSN {lsn} of the partition key range {range}; the range {} has \
                     reached LSN {committed}.",
                    partition.id
                ),
            ));
        }
    }
    Ok(())
}

impl Partition {
    /// Returns true if the data is a copy of what another process writes.
    pub(super) fn is_copy(&self) -> bool {
        self.newest_range.load(Ordering::Relaxed) != u32::MAX
    }

    /// Returns true for a range or a container that a copy's catalog may not have yet. Versions
    /// are times of a clock that may have been wrong, so another one may be that of a newer
    /// container.
    fn is_newer_than_copy(&self, range: u32, version: Option<u64>) -> bool {
        let newest = self.newest_range.load(Ordering::Relaxed);
        self.is_copy() && (range > newest || version.is_some_and(|version| version != self.version))
    }
}

/// Parses an entry: range id, version if the entry has one (`None` for a negative version), and
/// LSN.
fn parse_entry(entry: &str) -> Option<(u32, Option<u64>, u64)> {
    let (range, token) = entry.split_once(':')?;
    let range = range.parse().ok()?;
    let mut parts = token.split('#');
    let first = parts.next()?;
    let Some(global) = parts.next() else {
        return Some((range, None, first.parse().ok()?));
    };
    let version: i64 = first.parse().ok()?;
    let regions_are_well_formed = parts.all(|region| {
        region
            .split_once('=')
            .is_some_and(|(id, lsn)| id.parse::<u64>().is_ok() && lsn.parse::<i64>().is_ok())
    });
    regions_are_well_formed.then_some((range, u64::try_from(version).ok(), global.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_token_are_read() {
        assert_eq!(parse_entry("0:12"), Some((0, None, 12)));
        assert_eq!(parse_entry("3:-1#15386"), Some((3, None, 15386)));
        assert_eq!(parse_entry("0:1#100#1=20#2=5"), Some((0, Some(1), 100)));
        for text in ["", "0", "0:", "x:1", "0:1#", "0:a#1", "0:1#2#3"] {
            assert_eq!(parse_entry(text), None, "{text}");
        }
    }
}
