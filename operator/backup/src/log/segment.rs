//! The file of one segment of a log.
//!
//! ```text
//! {"format": 1, "storeId": "32 hex digits",
//!  "start": {"journal": 3, "offset": 812, "group": 41, "chain": 7, "second": 1795801205},
//!  "end": {…}, "bytes": 5120, "content": "64 hex digits", "sha256": "64 hex digits"}
//! the bytes of the journal, compressed by zstd
//! ```
//!
//! The first line ends with a line feed. `content` is the SHA-256 of the bytes, and `sha256` that
//! of the compact text of the line without this member.

use std::io::Read;
use std::path::Path;

use orrery_model::json::{Json, Object};
use orrery_model::object;
use orrery_storage::{LogPosition, LogSegment};

use crate::error::BackupError;
use crate::files::sha256;
use crate::manifest::{FORMAT, number, opened, sealed, text_of, u64_of};

/// The ending of the names of segments.
const ENDING: &str = ".seg";
/// The level of compression: journals are written once and read seldom.
const LEVEL: i32 = 3;
/// The most bytes of a segment. More is damage.
const BYTES_MAX: u64 = 1 << 30;

/// The name of a segment, which has what the choice of segments needs. Names are ordered as
/// segments are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SegmentName {
    /// The last group before the segment.
    pub(crate) before: u64,
    pub(crate) journal: u64,
    pub(crate) offset: u64,
    /// The last group that ends in the segment.
    pub(crate) last: u64,
    /// The second of that group.
    pub(crate) second: u64,
}

impl SegmentName {
    /// Returns the name of a segment.
    pub(crate) fn of(segment: &LogSegment) -> SegmentName {
        SegmentName {
            before: segment.start.group,
            journal: segment.start.journal,
            offset: segment.start.offset,
            last: segment.end.group,
            second: segment.end.second,
        }
    }

    /// Returns the place at which the segment begins.
    pub(crate) fn place(&self) -> (u64, u64, u64) {
        (self.before, self.journal, self.offset)
    }

    /// Returns the name of its file.
    pub(crate) fn to_text(self) -> String {
        let SegmentName {
            before,
            journal,
            offset,
            last,
            second,
        } = self;
        format!("{before:016}-{journal:08}-{offset:012}-{last:016}-{second:010}{ENDING}")
    }

    /// Parses the name of a file; `None` if it is not that of a segment.
    pub(crate) fn parse(text: &str) -> Option<SegmentName> {
        let mut numbers = text.strip_suffix(ENDING)?.split('-').map(str::parse);
        let mut next = || numbers.next()?.ok();
        let name = SegmentName {
            before: next()?,
            journal: next()?,
            offset: next()?,
            last: next()?,
            second: next()?,
        };
        (name.to_text() == text).then_some(name)
    }
}

/// Returns the content of the file of a segment.
///
/// # Errors
/// When the bytes cannot be compressed.
pub(crate) fn encode(store_id: &str, segment: &LogSegment) -> std::io::Result<Vec<u8>> {
    let mut members = Object::new();
    members.set("format", number(FORMAT));
    members.set("storeId", store_id);
    members.set("start", position_json(&segment.start));
    members.set("end", position_json(&segment.end));
    members.set("bytes", number(segment.bytes.len() as u64));
    members.set("content", sha256(&segment.bytes));
    let mut text = sealed(members).into_bytes();
    text.extend(zstd::bulk::compress(&segment.bytes, LEVEL)?);
    Ok(text)
}

/// Parses the content of the file of a segment at `path`.
///
/// # Errors
/// The fault of a segment that is of another store, that a newer version wrote, or that is not as
/// written.
pub(crate) fn decode(path: &Path, store_id: &str, file: &[u8]) -> Result<LogSegment, String> {
    let damaged = |fault: &str| Err(fault.to_owned());
    let Some(line) = file.iter().position(|byte| *byte == b'\n') else {
        return damaged("it is cut");
    };
    let (line, compressed) = file.split_at(line);
    let members = match opened(path, line) {
        Ok(members) => members,
        Err(BackupError::NewerFormat { .. }) => {
            return damaged("a newer version of the program made it: use that version");
        }
        Err(_) => return damaged("its first line is not as it was written"),
    };
    if text_of(&members, "storeId").as_deref() != Some(store_id) {
        return damaged("it is of another data directory");
    }
    let position = |name: &str| members.get(name).and_then(position_of);
    let (Some(start), Some(end), Some(length)) = (
        position("start"),
        position("end"),
        members.get("bytes").and_then(u64_of),
    ) else {
        return damaged("a member is missing or has no sense");
    };
    let mut bytes = Vec::new();
    let decoder = zstd::stream::Decoder::new(&compressed[1..]);
    let read = decoder.and_then(|decoder| {
        let mut limited = decoder.take(length.min(BYTES_MAX) + 1);
        limited.read_to_end(&mut bytes)
    });
    let hash = text_of(&members, "content");
    if read.is_err() || bytes.len() as u64 != length || hash != Some(sha256(&bytes)) {
        return damaged("it has other bytes than were written");
    }
    let segment = LogSegment { start, end, bytes };
    let name = path.file_name().and_then(|name| name.to_str());
    match name == Some(&SegmentName::of(&segment).to_text()) {
        true => Ok(segment),
        false => damaged("it has the name of another segment"),
    }
}

/// Returns a place as JSON.
pub(crate) fn position_json(position: &LogPosition) -> Json {
    Json::Object(object! {
        "journal" => number(position.journal),
        "offset" => number(position.offset),
        "group" => number(position.group),
        "chain" => number(u64::from(position.chain)),
        "second" => number(position.second),
    })
}

/// Reads a place; `None` if a member is missing or has no sense.
pub(crate) fn position_of(json: &Json) -> Option<LogPosition> {
    let members = json.as_object()?;
    let member = |name: &str| u64_of(members.get(name)?);
    Some(LogPosition {
        journal: member("journal")?,
        offset: member("offset")?,
        group: member("group")?,
        chain: u32::try_from(member("chain")?).ok()?,
        second: member("second")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment() -> LogSegment {
        let start = LogPosition {
            journal: 3,
            offset: 812,
            group: 41,
            chain: 7,
            second: 1_795_801_204,
        };
        LogSegment {
            start,
            end: LogPosition {
                offset: 1_312,
                group: 43,
                chain: u32::MAX,
                second: 1_795_801_205,
                ..start
            },
            bytes: (0..500u32).map(|n| (n * n) as u8).collect(),
        }
    }

    fn path() -> std::path::PathBuf {
        Path::new("log").join(SegmentName::of(&segment()).to_text())
    }

    #[test]
    fn a_segment_is_read_as_it_was_written() {
        let file = encode("ab", &segment()).unwrap();
        assert_eq!(decode(&path(), "ab", &file).unwrap(), segment());
        assert!(decode(&path(), "cd", &file).is_err());
        assert!(decode(Path::new("log/other.seg"), "ab", &file).is_err());
        let name = SegmentName::of(&segment());
        assert_eq!(SegmentName::parse(&name.to_text()), Some(name));
        assert_eq!(SegmentName::parse("1-2-3-4-5.seg"), None);
    }

    #[test]
    fn no_changed_byte_of_a_segment_is_taken_for_another_segment() {
        let file = encode("ab", &segment()).unwrap();
        for at in 0..file.len() {
            let mut changed = file.clone();
            changed[at] ^= 1;
            if let Ok(read) = decode(&path(), "ab", &changed) {
                assert_eq!(read, segment(), "byte {at}");
            }
            assert!(decode(&path(), "ab", &file[..at]).is_err(), "cut at {at}");
        }
    }
}
