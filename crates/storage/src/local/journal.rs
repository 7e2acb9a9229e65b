//! Reads fjall's journals before fjall does, and changes nothing.
//!
//! fjall takes the first unreadable byte for the end of a journal and truncates there, so damage in the middle would both
//! hide acknowledged commits and destroy the evidence. This walk decides first: are the group records of the journals
//! without a gap, is nothing readable behind the point where reading stops, are the sequence numbers (which fjall's
//! checksum does not cover) in order, and do the journals reach the high-water mark? Only then fjall may open them.
//!
//! The format is that of the pinned fjall 3.1.13 (its `journal/entry.rs`), integers little-endian:
//!
//! ```text
//! start  01 | items u32 | sequence u64
//! item   02 | kind u8 | compression u8 | keyspace u64 | key len u16 | value len u32 | stored len u32 | key | value
//! end    03 | xxh3 of the item bytes u64 | "FJL" 03
//! clear  04 | keyspace u64                                                        (this store never writes one)
//! ```
//!
//! A *group record* is an item whose key is [`GROUP_KEY`]; its value is [`GroupRecord`], and it stands in the last batch of
//! its group.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::directory::{RESTORE, journals};
use super::high_water::{ACCEPT, Mark};
use crate::error::StoreError;

/// Key of the group record in both keyspaces: the reserved partition, a tag, and a word to find it by.
pub(super) const GROUP_KEY: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x02orrery group";

/// Other users of fjall's sequence numbers (flushes) may take a few between one batch and the next; more is damage.
const SEQUENCE_SLACK: u64 = 1 << 20;

/// What each group commit writes about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupRecord {
    pub(super) mark: Mark,
    /// The chain up to the group before.
    pub(super) previous: u32,
    /// fjall's next sequence number before the group: none of its batches may have a lower one.
    pub(super) first_sequence: u64,
}

impl GroupRecord {
    pub(super) const BYTES: usize = 32;

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(b"OGR1");
        bytes[4..12].copy_from_slice(&self.mark.group.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.mark.chain.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.previous.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.first_sequence.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Option<GroupRecord> {
        let u64_at = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let u32_at = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let mark = Mark {
            group: u64_at(4)?,
            chain: u32_at(12)?,
        };
        let record = GroupRecord {
            mark,
            previous: u32_at(16)?,
            first_sequence: u64_at(20)?,
        };
        (bytes == record.encode()).then_some(record)
    }
}

/// What the journals hold.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// First and last group record, if any.
    pub(super) groups: Option<(GroupRecord, GroupRecord)>,
    /// The newest journal and where its last whole batch ends.
    pub(super) end: Option<(PathBuf, u64)>,
    /// Sequence number of the first batch behind the last group record: written, kept, and acknowledged to nobody.
    pub(super) loose: Option<u64>,
}

/// Walks all journals, which must agree with the mark and reach it. Without a mark (the loss is accepted) they may end
/// anywhere, even in the middle of the newest.
pub(super) fn inspect(store: &Path, mark: Option<Mark>) -> Result<Contents, StoreError> {
    let files = journals(store)?;
    let mut walk = Walk {
        mark,
        ..Walk::default()
    };
    for (i, (_, path)) in files.iter().enumerate() {
        walk.file(path, i + 1 == files.len())?;
    }
    if let (Some(mark), Some((_, last))) = (mark, walk.contents.groups)
        && last.mark.group < mark.group
    {
        return Err(short(store, last.mark.group, mark.group));
    }
    walk.contents.loose = walk.lowest;
    Ok(walk.contents)
}

/// The refusal of a log that ends too early.
pub(super) fn short(store: &Path, found: u64, acknowledged: u64) -> StoreError {
    let detail = format!(
        "its journals end at group commit {found}, but {acknowledged} were acknowledged: the last {} are missing. \
         {RESTORE}. {ACCEPT}",
        acknowledged.saturating_sub(found)
    );
    StoreError::damaged(&store.join("*.jnl"), detail)
}

/// Cuts what follows the last whole batch of the newest journal: an unfinished write that nobody was told about.
pub(super) fn cut_torn_tail(contents: &Contents) -> Result<(), StoreError> {
    let Some((path, end)) = &contents.end else {
        return Ok(());
    };
    let cut = || {
        let file = OpenOptions::new().write(true).open(path)?;
        if file.metadata()?.len() > *end {
            file.set_len(*end)?;
            file.sync_all()?;
        }
        Ok(())
    };
    cut().map_err(StoreError::io("cut the unfinished end of", path))
}

#[derive(Default)]
struct Walk {
    mark: Option<Mark>,
    contents: Contents,
    /// Of the last whole batch.
    sequence: Option<u64>,
    /// Lowest since the last group record.
    lowest: Option<u64>,
}

struct Batch {
    sequence: u64,
    record: Option<GroupRecord>,
    bytes: u64,
}

impl Walk {
    fn file(&mut self, path: &Path, newest: bool) -> Result<(), StoreError> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let mut reader = BufReader::with_capacity(256 << 10, file);
        let mut end = 0;
        while let Some(batch) = read_batch(&mut reader).map_err(StoreError::io("read", path))? {
            self.batch(path, &batch)?;
            end += batch.bytes;
        }
        reader
            .seek(SeekFrom::Start(end))
            .map_err(StoreError::io("read", path))?;
        match look_behind(&mut reader).map_err(StoreError::io("read", path))? {
            Tail::Record(_) if newest && self.mark.is_none() => {}
            Tail::Record(group) => {
                let found = self.contents.groups.map_or(0, |(_, last)| last.mark.group);
                let detail = format!(
                    "unreadable from byte {end} on, after group commit {found}, though group commit {group} stands \
                     behind it. {RESTORE}"
                );
                let detail = if newest {
                    format!("{detail}. {ACCEPT}")
                } else {
                    detail
                };
                return Err(StoreError::damaged(path, detail));
            }
            Tail::Bytes if !newest => {
                let detail =
                    format!("unreadable from byte {end} on, and newer journals exist. {RESTORE}");
                return Err(StoreError::damaged(path, detail));
            }
            Tail::Bytes | Tail::Zeros => {}
        }
        self.contents.end = Some((path.to_owned(), end));
        Ok(())
    }

    fn batch(&mut self, path: &Path, batch: &Batch) -> Result<(), StoreError> {
        let in_order = self.sequence.is_none_or(|previous| {
            batch.sequence > previous && batch.sequence - previous <= SEQUENCE_SLACK
        });
        self.sequence = Some(batch.sequence);
        self.lowest.get_or_insert(batch.sequence);
        let Some(record) = batch.record else {
            return if in_order {
                Ok(())
            } else {
                Err(disorder(path, batch.sequence))
            };
        };
        let lowest = self.lowest.take().unwrap_or(batch.sequence);
        let near = batch
            .sequence
            .checked_sub(record.first_sequence)
            .is_some_and(|gap| gap <= SEQUENCE_SLACK);
        if !in_order || !near || lowest < record.first_sequence {
            return Err(disorder(path, batch.sequence));
        }
        self.group(path, record)
    }

    fn group(&mut self, path: &Path, record: GroupRecord) -> Result<(), StoreError> {
        if let Some((_, last)) = self.contents.groups
            && (record.mark.group != last.mark.group + 1 || record.previous != last.mark.chain)
        {
            let detail = format!(
                "group commit {} does not follow group commit {}: a journal before it is missing or of another history. \
                 {RESTORE}",
                record.mark.group, last.mark.group
            );
            return Err(StoreError::damaged(path, detail));
        }
        if self
            .mark
            .is_some_and(|mark| mark.group == record.mark.group && mark.chain != record.mark.chain)
        {
            let detail = format!(
                "group commit {} is not the one that was acknowledged: the journal and the high-water file do not \
                 belong together. {RESTORE}. {ACCEPT}",
                record.mark.group
            );
            return Err(StoreError::damaged(path, detail));
        }
        let first = self.contents.groups.map_or(record, |(first, _)| first);
        self.contents.groups = Some((first, record));
        Ok(())
    }
}

fn disorder(path: &Path, sequence: u64) -> StoreError {
    StoreError::damaged(
        path,
        format!("a batch has the sequence number {sequence}, out of order. {RESTORE}"),
    )
}

/// The next whole batch with a right checksum; none where reading stops, for whatever reason.
fn read_batch(reader: &mut impl Read) -> std::io::Result<Option<Batch>> {
    match try_batch(reader) {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof || e.kind() == ErrorKind::InvalidData => {
            Ok(None)
        }
        Err(e) => Err(e),
        Ok(batch) => Ok(Some(batch)),
    }
}

fn try_batch(reader: &mut impl Read) -> std::io::Result<Batch> {
    let start: [u8; 13] = take(reader)?;
    expect(start[0] == 1)?;
    let items = u32::from_le_bytes([start[1], start[2], start[3], start[4]]);
    let mut sequence = [0; 8];
    sequence.copy_from_slice(&start[5..]);
    let mut batch = Batch {
        sequence: u64::from_le_bytes(sequence),
        record: None,
        bytes: 13,
    };
    let (mut hash, mut body) = (Xxh3::new(), Vec::new());
    for _ in 0..items {
        let head: [u8; 21] = take(reader)?;
        expect(head[0] == 2)?;
        let key_len = usize::from(u16::from_le_bytes([head[11], head[12]]));
        let stored_len = u32::from_le_bytes([head[17], head[18], head[19], head[20]]) as usize;
        // No value is longer than the envelope allows, and a flipped length must not claim memory.
        expect(stored_len <= 1 << 20)?;
        body.resize(key_len + stored_len, 0);
        reader.read_exact(&mut body)?;
        hash.update(&head);
        hash.update(&body);
        if &body[..key_len] == GROUP_KEY {
            batch.record = GroupRecord::decode(&body[key_len..]);
        }
        batch.bytes += 21 + body.len() as u64;
    }
    let end: [u8; 13] = take(reader)?;
    expect(end[0] == 3 && end[9..] == *b"FJL\x03" && end[1..9] == hash.digest().to_le_bytes())?;
    batch.bytes += 13;
    Ok(batch)
}

fn take<const N: usize>(reader: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn expect(holds: bool) -> std::io::Result<()> {
    if holds {
        Ok(())
    } else {
        Err(ErrorKind::InvalidData.into())
    }
}

/// What lies behind the last whole batch.
enum Tail {
    /// Space that was reserved and never written, or nothing.
    Zeros,
    /// Something, with no whole group record in it: a write cut short.
    Bytes,
    /// A later group record: a write that was finished, behind a hole.
    Record(u64),
}

fn look_behind(reader: &mut impl Read) -> std::io::Result<Tail> {
    const WINDOW: usize = 256 << 10;
    const RECORD: usize = GROUP_KEY.len() + GroupRecord::BYTES;
    let (mut window, mut kept, mut zeros) = (vec![0; WINDOW + RECORD], 0, true);
    loop {
        let read = reader.read(&mut window[kept..])?;
        let filled = &window[..kept + read];
        if filled.iter().any(|byte| *byte != 0) {
            zeros = false;
            let found = filled.windows(RECORD).find_map(|at| {
                at.strip_prefix(GROUP_KEY)
                    .and_then(GroupRecord::decode)
                    .map(|record| record.mark.group)
            });
            if let Some(group) = found {
                return Ok(Tail::Record(group));
            }
        }
        if read == 0 {
            return Ok(if zeros { Tail::Zeros } else { Tail::Bytes });
        }
        // A record may lie across two windows: keep one byte less than a whole one.
        let keep = filled.len().min(RECORD - 1);
        let from = filled.len() - keep;
        window.copy_within(from..from + keep, 0);
        kept = keep;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(group: u64) -> GroupRecord {
        GroupRecord {
            mark: Mark {
                group,
                chain: group as u32,
            },
            previous: group as u32 - 1,
            first_sequence: group * 10,
        }
    }

    fn batch(sequence: u64, items: &[(&[u8], &[u8])]) -> Vec<u8> {
        let mut bytes = vec![1];
        bytes.extend((items.len() as u32).to_le_bytes());
        bytes.extend(sequence.to_le_bytes());
        let mut hash = Xxh3::new();
        for (key, value) in items {
            let mut item = vec![2, 0, 0];
            item.extend(1u64.to_le_bytes());
            item.extend((key.len() as u16).to_le_bytes());
            item.extend((value.len() as u32).to_le_bytes());
            item.extend((value.len() as u32).to_le_bytes());
            item.extend(*key);
            item.extend(*value);
            hash.update(&item);
            bytes.extend(item);
        }
        bytes.push(3);
        bytes.extend(hash.digest().to_le_bytes());
        bytes.extend(b"FJL\x03");
        bytes
    }

    fn group(n: u64) -> Vec<u8> {
        let mut bytes = batch(n * 10 + 1, &[(b"key", b"value")]);
        bytes.extend(batch(n * 10 + 2, &[(GROUP_KEY, &record(n).encode())]));
        bytes
    }

    fn inspect_bytes(journals: &[&[u8]], mark: u64) -> Result<Contents, StoreError> {
        let dir = tempfile::tempdir().unwrap();
        inspect_in(dir.path(), journals, mark)
    }

    fn inspect_in(dir: &Path, journals: &[&[u8]], mark: u64) -> Result<Contents, StoreError> {
        for (i, bytes) in journals.iter().enumerate() {
            std::fs::write(dir.join(format!("{i}.jnl")), bytes).unwrap();
        }
        inspect(
            dir,
            Some(Mark {
                group: mark,
                chain: mark as u32,
            }),
        )
    }

    #[test]
    fn groups_are_followed_from_journal_to_journal() {
        let contents = inspect_bytes(&[&[group(3), group(4)].concat(), &group(5)], 5).unwrap();
        assert_eq!(contents.groups, Some((record(3), record(5))));
        assert_eq!(contents.end.unwrap().1, group(5).len() as u64);
    }

    #[test]
    fn an_unfinished_write_at_the_very_end_is_no_damage() {
        let torn = &group(4)[..20];
        let contents =
            inspect_bytes(&[&[group(3), torn.to_vec(), vec![0; 5000]].concat()], 3).unwrap();
        assert_eq!(contents.end.unwrap().1, group(3).len() as u64);
    }

    #[test]
    fn a_short_a_holed_and_a_gapped_log_are_refused() {
        let short = inspect_bytes(&[&group(3)], 4).unwrap_err().to_string();
        assert!(short.contains("the last 1 are missing"), "{short}");
        let mut holed = [group(3), group(4), group(5)].concat();
        holed[group(3).len() + 14] ^= 0x40;
        let holed = inspect_bytes(&[&holed], 3).unwrap_err().to_string();
        assert!(holed.contains("group commit 4 stands behind it"), "{holed}");
        let gapped = inspect_bytes(&[&group(3), &group(5)], 5)
            .unwrap_err()
            .to_string();
        assert!(gapped.contains("does not follow"), "{gapped}");
    }

    #[test]
    fn every_flipped_bit_of_an_acknowledged_group_is_refused() {
        let whole = [group(3), group(4), group(5)].concat();
        let dir = tempfile::tempdir().unwrap();
        for bit in 0..whole.len() * 8 {
            let mut flipped = whole.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            // A sequence number may move within its gap, which changes nothing.
            if let Ok(contents) = inspect_in(dir.path(), &[&flipped], 5) {
                assert_eq!(contents.groups, Some((record(3), record(5))), "bit {bit}");
            }
        }
    }
}
