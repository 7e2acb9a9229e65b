//! The check of fjall's journals before fjall opens them. It reads and changes nothing.
//!
//! fjall takes the first unreadable byte for the end of a journal and truncates there, so damage in
//! the middle would both hide acknowledged commits and destroy the evidence. This module reads the
//! journals first and checks four things:
//!
//! - the group records of the journals are without a gap;
//! - nothing readable lies behind the point where reading stops;
//! - the sequence numbers, which fjall's checksum does not cover, are in order;
//! - the journals reach the high-water mark.
//!
//! Only then may fjall open them.
//!
//! The format is that of the pinned fjall 3.1.13 (its `journal/entry.rs`), integers little-endian:
//!
//! ```text
//! start  01 | items u32 | sequence u64
//! item   02 | kind u8 | compression u8 | keyspace u64 | key len u16 | value len u32
//!           | stored len u32 | key | value
//! end    03 | xxh3 of the item bytes u64 | "FJL" 03
//! clear  04 | keyspace u64                                  (this store never writes one)
//! ```
//!
//! A *group record* is an item whose key is [`GROUP_KEY`]; its value is a [`GroupRecord`], and it
//! stands in the last batch of its group. The record of the second of a group
//! (`kept_journals.rs`) stands in the same batch.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

use super::directory::{RESTORE_ADVICE, journals};
use super::high_water::{ACCEPT_ADVICE, Mark};
use super::kept_journals::SECOND_KEY;
use crate::error::StoreError;

/// Key of the group record in both keyspaces: the reserved partition, a tag, and a text that
/// [`scan_tail`] can search for.
pub(super) const GROUP_KEY: &[u8] = b"\xff\xff\xff\xff\xff\xff\xff\xff\x02orrery group";

/// The largest step between the sequence numbers of two batches. Other users of fjall's sequence
/// numbers (flushes) may take a few between one batch and the next; more is damage.
const SEQUENCE_SLACK: u64 = 1 << 20;

/// Bytes that are read and written again at once.
const REWRITTEN_AT_ONCE: u64 = 1 << 20;
/// Bytes of the first and of the last part of a batch.
const BATCH_FRAME_BYTES: usize = 13;
/// Bytes of an item before its key.
const ITEM_HEAD_BYTES: usize = 21;

/// The record that each group commit writes about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupRecord {
    pub(super) mark: Mark,
    /// The chained checksum up to the group before.
    pub(super) previous: u32,
    /// fjall's next sequence number before the group: no batch of the group has a lower one.
    pub(super) first_sequence: u64,
}

impl GroupRecord {
    pub(super) const BYTES: usize = 32;

    /// Encodes the record: magic, group, chain, previous chain, first sequence number, crc32.
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

    /// Decodes a record; `None` if the bytes are not exactly what `encode` writes.
    pub(super) fn decode(bytes: &[u8]) -> Option<GroupRecord> {
        let record = GroupRecord {
            mark: Mark {
                group: u64_at(bytes, 4)?,
                chain: u32_at(bytes, 12)?,
            },
            previous: u32_at(bytes, 16)?,
            first_sequence: u64_at(bytes, 20)?,
        };
        (bytes == record.encode()).then_some(record)
    }
}

/// Returns the little-endian number at a place.
pub(super) fn u64_at(bytes: &[u8], start: usize) -> Option<u64> {
    let field = bytes.get(start..start + 8)?;
    Some(u64::from_le_bytes(field.try_into().ok()?))
}

fn u32_at(bytes: &[u8], start: usize) -> Option<u32> {
    let field = bytes.get(start..start + 4)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

/// The result of reading all journals.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct JournalContents {
    /// The first and the last group record, if any.
    pub(super) groups: Option<(GroupRecord, GroupRecord)>,
    /// Sequence number of the first whole batch, if any. A group may begin in a journal that is
    /// gone, since the journal is rotated between any two batches.
    pub(super) first_sequence: Option<u64>,
    /// The newest journal, and the offset in bytes at which its last whole batch ends.
    pub(super) end: Option<(PathBuf, u64)>,
    /// Sequence number of the last whole batch, if any.
    pub(super) last_sequence: Option<u64>,
    /// Sequence number of the first batch behind the last group record. Such batches were written
    /// and are kept, but were never acknowledged.
    pub(super) ungrouped_from: Option<u64>,
    /// The journals with whole batches behind the last acknowledged group, and the bytes of these
    /// batches.
    pub(super) unacknowledged: Vec<(PathBuf, Range<u64>)>,
}

/// Reads all journals, which must agree with the mark and reach it. Without a mark (the loss is
/// accepted) they may end anywhere, even in the middle of the newest journal.
pub(super) fn inspect(store: &Path, mark: Option<Mark>) -> Result<JournalContents, StoreError> {
    let files = journals(store)?;
    let mut inspection = Inspection {
        mark,
        ..Inspection::default()
    };
    for (i, (_, path)) in files.iter().enumerate() {
        let is_newest = i + 1 == files.len();
        inspection.read_journal(path, is_newest)?;
    }
    let mut contents = inspection.contents;
    if let (Some(mark), Some((_, last))) = (mark, contents.groups)
        && last.mark.group < mark.group
    {
        return Err(truncated_log(store, last.mark.group, mark.group));
    }
    contents.ungrouped_from = inspection.lowest_sequence;
    contents.last_sequence = inspection.last_sequence;
    Ok(contents)
}

/// Creates the refusal of a log that ends before its last acknowledged group.
pub(super) fn truncated_log(store: &Path, found: u64, acknowledged: u64) -> StoreError {
    let detail = format!(
        "the journals end at group commit {found}, but {acknowledged} were acknowledged: the last \
         {} are missing. {RESTORE_ADVICE}. {ACCEPT_ADVICE}",
        acknowledged.saturating_sub(found)
    );
    let newest = journals(store).ok().and_then(|mut files| files.pop());
    let file = newest.map_or(store.to_owned(), |(_, path)| path);
    StoreError::damaged(&file, detail)
}

/// Returns the oldest journal, for messages about the one before it.
pub(super) fn oldest(store: &Path) -> PathBuf {
    let files = journals(store).unwrap_or_default();
    files
        .into_iter()
        .next()
        .map_or(store.to_owned(), |(_, path)| path)
}

/// Cuts off the bytes behind the last whole batch of the newest journal: an unfinished write that
/// was never acknowledged.
pub(super) fn cut_torn_tail(contents: &JournalContents) -> Result<(), StoreError> {
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

/// Writes the batches behind the last acknowledged group once more, and syncs them; all batches
/// without a mark. A sync of them may have failed in an earlier process: the system can then show
/// bytes that the disk does not have, and takes them for written until they are written again.
pub(super) fn rewrite_unacknowledged(contents: &JournalContents) -> Result<(), StoreError> {
    for (path, range) in &contents.unacknowledged {
        let written = rewrite_bytes(path, range.clone());
        accept_unwritable(path, written).map_err(StoreError::io("write again", path))?;
    }
    Ok(())
}

/// Writes bytes of a file once more in their place, and syncs them.
pub(super) fn rewrite_bytes(path: &Path, range: Range<u64>) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut piece = Vec::new();
    let mut place = range.start;
    while place < range.end {
        let bytes = (range.end - place).min(REWRITTEN_AT_ONCE);
        piece.resize(bytes as usize, 0);
        file.seek(SeekFrom::Start(place))?;
        file.read_exact(&mut piece)?;
        file.seek(SeekFrom::Start(place))?;
        file.write_all(&piece)?;
        place += bytes;
    }
    file.sync_all()
}

/// Takes a file that cannot be written for want of space or rights as it is: a full disk and a
/// directory that can only be read do not prevent an opening.
pub(super) fn accept_unwritable(path: &Path, written: std::io::Result<()>) -> std::io::Result<()> {
    match written {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::StorageFull
                    | ErrorKind::QuotaExceeded
                    | ErrorKind::ReadOnlyFilesystem
                    | ErrorKind::PermissionDenied
            ) =>
        {
            let path = path.display();
            log::warn!("{path} cannot be written again ({error}) and is used as it is");
            Ok(())
        }
        other => other,
    }
}

/// The state of reading the journals, from the oldest to the newest.
#[derive(Default)]
struct Inspection {
    mark: Option<Mark>,
    contents: JournalContents,
    /// Sequence number of the last whole batch.
    last_sequence: Option<u64>,
    /// The lowest sequence number since the last group record.
    lowest_sequence: Option<u64>,
}

/// One whole batch of a journal.
pub(super) struct Batch {
    pub(super) sequence: u64,
    /// The group record, if the batch is the last of its group.
    pub(super) record: Option<GroupRecord>,
    /// The second of the clock, if the batch has a record of it.
    pub(super) second: Option<u64>,
    /// Bytes that the batch takes in the journal.
    pub(super) bytes: u64,
}

impl Inspection {
    /// Reads one journal to its end, and judges the bytes behind its last whole batch.
    fn read_journal(&mut self, path: &Path, is_newest: bool) -> Result<(), StoreError> {
        let file = File::open(path).map_err(StoreError::io("open", path))?;
        let mut reader = BufReader::with_capacity(256 << 10, file);
        let mut end = 0;
        let mut acknowledged_end = 0;
        let stop = loop {
            match read_batch(&mut reader).map_err(StoreError::io("read", path))? {
                Ok(batch) => {
                    self.check_batch(path, &batch)?;
                    end += batch.bytes;
                    if self.is_acknowledged(&batch) {
                        acknowledged_end = end;
                    }
                }
                Err(stop) => break stop,
            }
        };
        reader
            .seek(SeekFrom::Start(end))
            .map_err(StoreError::io("read", path))?;
        match scan_tail(&mut reader).map_err(StoreError::io("read", path))? {
            // The person who runs the server accepted the loss of what follows.
            Tail::Records { .. } if is_newest && self.mark.is_none() => {}
            Tail::Records { first, last, bytes }
                if is_newest && first == last && self.is_torn_group(last, stop, bytes) => {}
            // A whole group behind unreadable bytes was finished: the bytes are damage.
            Tail::Records { first: group, .. } => {
                let found = self.contents.groups.map_or(0, |(_, last)| last.mark.group);
                let mut detail = format!(
                    "unreadable from byte {end} on, after group commit {found}, though group \
                     commit {group} stands behind it. {RESTORE_ADVICE}"
                );
                if is_newest {
                    detail.push_str(". ");
                    detail.push_str(ACCEPT_ADVICE);
                }
                return Err(StoreError::damaged(path, detail));
            }
            // Only the newest journal may end in a torn write.
            Tail::Bytes if !is_newest => {
                let detail = format!(
                    "unreadable from byte {end} on, and newer journals exist. {RESTORE_ADVICE}"
                );
                return Err(StoreError::damaged(path, detail));
            }
            Tail::Bytes | Tail::Zeros => {}
        }
        self.contents.end = Some((path.to_owned(), end));
        if acknowledged_end < end {
            let range = acknowledged_end..end;
            self.contents.unacknowledged.push((path.to_owned(), range));
        }
        Ok(())
    }

    /// Returns true if a batch is the last one of a group that was acknowledged for sure.
    fn is_acknowledged(&self, batch: &Batch) -> bool {
        match (self.mark, batch.record) {
            (Some(mark), Some(record)) => record.mark.group <= mark.group,
            _ => false,
        }
    }

    /// Returns true if the only group that has a record behind the last whole batch is the next
    /// one, was not acknowledged, and ends before its last batch does: a write that was torn behind
    /// the record, by a full disk for example. `bytes` is the length of the tail without its zeros.
    fn is_torn_group(&self, group: u64, stop: Stop, bytes: u64) -> bool {
        let acknowledged = self.mark.map_or(0, |mark| mark.group);
        let found = self.contents.groups.map(|(_, last)| last.mark.group);
        let is_next = group == found.unwrap_or(acknowledged) + 1;
        is_next && group > acknowledged && stop.ran_out_of_bytes(bytes)
    }

    /// Checks the sequence number of a batch, and its group record if it has one.
    fn check_batch(&mut self, path: &Path, batch: &Batch) -> Result<(), StoreError> {
        let is_in_order = match self.last_sequence {
            Some(last) => batch.sequence > last && batch.sequence - last <= SEQUENCE_SLACK,
            None => true,
        };
        if !is_in_order {
            return Err(out_of_order(path, batch.sequence));
        }
        self.last_sequence = Some(batch.sequence);
        self.contents.first_sequence.get_or_insert(batch.sequence);
        let lowest = *self.lowest_sequence.get_or_insert(batch.sequence);
        let Some(record) = batch.record else {
            return Ok(());
        };
        // The record's own checksum covers its first sequence number, so the record vouches for the
        // sequence numbers of its group.
        let is_near_record = match batch.sequence.checked_sub(record.first_sequence) {
            Some(gap) => gap <= SEQUENCE_SLACK,
            None => false,
        };
        if !is_near_record || lowest < record.first_sequence {
            return Err(out_of_order(path, batch.sequence));
        }
        self.lowest_sequence = None;
        self.check_group(path, record)
    }

    /// Checks that a group follows the group before it, and is the acknowledged one if the mark
    /// names it.
    fn check_group(&mut self, path: &Path, record: GroupRecord) -> Result<(), StoreError> {
        if let Some((_, last)) = self.contents.groups
            && (record.mark.group != last.mark.group + 1 || record.previous != last.mark.chain)
        {
            let detail = format!(
                "group commit {} does not follow group commit {}: a journal before it is missing \
                 or of another history. {RESTORE_ADVICE}",
                record.mark.group, last.mark.group
            );
            return Err(StoreError::damaged(path, detail));
        }
        if let Some(mark) = self.mark
            && mark.group == record.mark.group
            && mark.chain != record.mark.chain
        {
            let detail = format!(
                "group commit {} is not the one that was acknowledged: the journal and the \
                 high-water file do not belong together. {RESTORE_ADVICE}. {ACCEPT_ADVICE}",
                record.mark.group
            );
            return Err(StoreError::damaged(path, detail));
        }
        let first = self.contents.groups.map_or(record, |(first, _)| first);
        self.contents.groups = Some((first, record));
        Ok(())
    }
}

fn out_of_order(path: &Path, sequence: u64) -> StoreError {
    StoreError::damaged(
        path,
        format!("a batch has the sequence number {sequence}, out of order. {RESTORE_ADVICE}"),
    )
}

/// The place where reading stops: no whole batch with a right checksum follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    /// Bytes behind the last whole batch that were read before reading stopped.
    read: u64,
    /// The file ended inside the batch.
    is_end_of_file: bool,
}

impl Stop {
    /// Returns true if the batch goes on behind the bytes that are there, of which the last that is
    /// not zero stands before `bytes`. A batch ends in a byte that is not zero.
    fn ran_out_of_bytes(self, bytes: u64) -> bool {
        self.is_end_of_file || self.read > bytes
    }
}

/// Reads the next whole batch with a right checksum. Returns the place where reading stops if there
/// is none.
pub(super) fn read_batch(reader: &mut impl Read) -> std::io::Result<Result<Batch, Stop>> {
    let mut counted = CountedReader { reader, read: 0 };
    match try_read_batch(&mut counted) {
        Err(e) if e.kind() == ErrorKind::UnexpectedEof || e.kind() == ErrorKind::InvalidData => {
            Ok(Err(Stop {
                read: counted.read,
                is_end_of_file: e.kind() == ErrorKind::UnexpectedEof,
            }))
        }
        Err(e) => Err(e),
        Ok(batch) => Ok(Ok(batch)),
    }
}

/// A reader that counts the bytes that it passes on.
struct CountedReader<'a, R> {
    reader: &'a mut R,
    read: u64,
}

impl<R: Read> Read for CountedReader<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

/// Reads the next batch; fails with `InvalidData` or `UnexpectedEof` if there is no whole one.
fn try_read_batch(reader: &mut impl Read) -> std::io::Result<Batch> {
    try_read_items(reader, |_, _| {})
}

/// Does the same as [`try_read_batch`], and passes the key and the stored value of each item to
/// `visit`. The items count only if the result is a batch: its checksum comes last.
fn try_read_items(
    reader: &mut impl Read,
    mut visit: impl FnMut(&[u8], &[u8]),
) -> std::io::Result<Batch> {
    let start: [u8; BATCH_FRAME_BYTES] = read_array(reader)?;
    ensure(start[0] == 1)?;
    let items = u32::from_le_bytes([start[1], start[2], start[3], start[4]]);
    let mut sequence = [0; 8];
    sequence.copy_from_slice(&start[5..]);
    let mut batch = Batch {
        sequence: u64::from_le_bytes(sequence),
        record: None,
        second: None,
        bytes: BATCH_FRAME_BYTES as u64,
    };
    let (mut hash, mut body) = (Xxh3::new(), Vec::new());
    for _ in 0..items {
        let head: [u8; ITEM_HEAD_BYTES] = read_array(reader)?;
        ensure(head[0] == 2)?;
        let key_len = usize::from(u16::from_le_bytes([head[11], head[12]]));
        let stored_len = u32::from_le_bytes([head[17], head[18], head[19], head[20]]) as usize;
        // No value is longer than the envelope allows, and a flipped length must not claim memory.
        ensure(stored_len <= 1 << 20)?;
        body.resize(key_len + stored_len, 0);
        reader.read_exact(&mut body)?;
        hash.update(&head);
        hash.update(&body);
        let (key, value) = body.split_at(key_len);
        if key == GROUP_KEY {
            batch.record = GroupRecord::decode(value);
        } else if key == SECOND_KEY {
            batch.second = u64_at(value, 0);
        }
        visit(key, value);
        batch.bytes += (ITEM_HEAD_BYTES + body.len()) as u64;
    }
    // The checksum covers the items only; `check_batch` checks the sequence number.
    let end: [u8; BATCH_FRAME_BYTES] = read_array(reader)?;
    ensure(end[0] == 3 && end[9..] == *b"FJL\x03" && end[1..9] == hash.digest().to_le_bytes())?;
    batch.bytes += BATCH_FRAME_BYTES as u64;
    Ok(batch)
}

/// Returns the items of all whole batches in `bytes`, which may begin and end anywhere and be
/// damaged in between: one list of keys and stored values for each batch.
pub(super) fn salvage_batches(bytes: &[u8]) -> Vec<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut batches, mut offset) = (Vec::new(), 0);
    // Every batch begins with the same byte.
    while let Some(start) = bytes[offset..].iter().position(|byte| *byte == 1) {
        offset += start;
        let mut rest = &bytes[offset..];
        let mut items = Vec::new();
        let read = try_read_items(&mut rest, |key, value| {
            items.push((key.to_vec(), value.to_vec()));
        });
        match read {
            Ok(batch) => {
                offset += batch.bytes as usize;
                batches.push(items);
            }
            Err(_) => offset += 1,
        }
    }
    batches
}

fn read_array<const N: usize>(reader: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Fails with `InvalidData` unless the format holds.
fn ensure(holds: bool) -> std::io::Result<()> {
    if holds {
        Ok(())
    } else {
        Err(ErrorKind::InvalidData.into())
    }
}

/// The bytes behind the last whole batch.
enum Tail {
    /// Space that was reserved and never written, or nothing.
    Zeros,
    /// Bytes without a whole group record: a write that was torn.
    Bytes,
    /// Later group records: finished writes behind damage, or one write that was torn behind its
    /// record.
    Records {
        /// The lowest number of a group.
        first: u64,
        /// The highest number of a group.
        last: u64,
        /// The bytes up to the last one that is not zero.
        bytes: u64,
    },
}

/// Reads to the end of a journal and classifies the bytes.
fn scan_tail(reader: &mut impl Read) -> std::io::Result<Tail> {
    const WINDOW: usize = 256 << 10;
    const RECORD: usize = GROUP_KEY.len() + GroupRecord::BYTES;
    let (mut window, mut kept) = (vec![0; WINDOW + RECORD], 0);
    // The offset of the window, and the end of the last byte that is not zero.
    let (mut window_start, mut content) = (0, 0);
    let mut groups: Option<(u64, u64)> = None;
    loop {
        let read = reader.read(&mut window[kept..])?;
        let filled = &window[..kept + read];
        if let Some(last) = filled.iter().rposition(|byte| *byte != 0) {
            content = window_start + last as u64 + 1;
            for candidate in filled.windows(RECORD) {
                if let Some(value) = candidate.strip_prefix(GROUP_KEY)
                    && let Some(record) = GroupRecord::decode(value)
                {
                    let group = record.mark.group;
                    let (first, last) = groups.unwrap_or((group, group));
                    groups = Some((first.min(group), last.max(group)));
                }
            }
        }
        if read == 0 {
            break;
        }
        // A record may lie across two windows: keep one byte less than a whole record.
        let keep = filled.len().min(RECORD - 1);
        let from = filled.len() - keep;
        window.copy_within(from..from + keep, 0);
        kept = keep;
        window_start += from as u64;
    }
    Ok(match groups {
        Some((first, last)) => Tail::Records {
            first,
            last,
            bytes: content,
        },
        None if content > 0 => Tail::Bytes,
        None => Tail::Zeros,
    })
}

#[cfg(test)]
pub(super) mod tests {
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

    pub(in crate::local) fn batch(sequence: u64, items: &[(&[u8], &[u8])]) -> Vec<u8> {
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

    fn inspect_bytes(journals: &[&[u8]], mark: u64) -> Result<JournalContents, StoreError> {
        let dir = tempfile::tempdir().unwrap();
        inspect_in(dir.path(), journals, mark)
    }

    fn inspect_in(
        dir: &Path,
        journals: &[&[u8]],
        mark: u64,
    ) -> Result<JournalContents, StoreError> {
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
    fn an_unfinished_write_at_the_end_of_the_log_is_no_damage() {
        let torn = &group(4)[..20];
        let contents =
            inspect_bytes(&[&[group(3), torn.to_vec(), vec![0; 5000]].concat()], 3).unwrap();
        assert_eq!(contents.end.unwrap().1, group(3).len() as u64);
    }

    #[test]
    fn a_group_that_is_cut_at_any_byte_is_an_unfinished_write_until_it_is_acknowledged() {
        let dir = tempfile::tempdir().unwrap();
        for reserved in [0, 1, 5000] {
            for cut in 0..group(4).len() {
                let torn = [group(3), group(4)[..cut].to_vec(), vec![0; reserved]].concat();
                let case = format!("cut at {cut}, {reserved} reserved");
                let contents = inspect_in(dir.path(), &[&torn], 3).expect(&case);
                assert_eq!(contents.groups, Some((record(3), record(3))), "{case}");
                assert!(inspect_in(dir.path(), &[&torn], 4).is_err(), "{case}");
            }
        }
    }

    #[test]
    fn the_first_group_of_a_new_journal_may_be_torn_when_the_older_journals_are_gone() {
        let dir = tempfile::tempdir().unwrap();
        let torn = &group(4)[..group(4).len() - 1];
        assert_eq!(inspect_in(dir.path(), &[torn], 3).unwrap().groups, None);
        assert!(inspect_in(dir.path(), &[torn], 2).is_err());
        assert!(inspect_in(dir.path(), &[torn, &[]], 3).is_err());
    }

    #[test]
    fn a_damaged_last_group_that_is_whole_is_refused() {
        for reserved in [0, 5000] {
            let mut damaged = [group(3), group(4), vec![0; reserved]].concat();
            damaged[group(3).len() + 40] ^= 0x40;
            let refusal = inspect_bytes(&[&damaged], 3).unwrap_err().to_string();
            assert!(refusal.contains("stands behind it"), "{refusal}");
        }
    }

    #[test]
    fn a_truncated_log_a_damaged_log_and_a_log_with_a_gap_are_refused() {
        let truncated = inspect_bytes(&[&group(3)], 4).unwrap_err().to_string();
        assert!(truncated.contains("the last 1 are missing"), "{truncated}");
        let mut damaged = [group(3), group(4), group(5)].concat();
        damaged[group(3).len() + 14] ^= 0x40;
        let refusal = inspect_bytes(&[&damaged], 3).unwrap_err().to_string();
        assert!(
            refusal.contains("group commit 4 stands behind it"),
            "{refusal}"
        );
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
            // A sequence number may change within its slack, which has no effect.
            if let Ok(contents) = inspect_in(dir.path(), &[&flipped], 5) {
                assert_eq!(contents.groups, Some((record(3), record(5))), "bit {bit}");
            }
        }
    }
}

#[cfg(test)]
#[path = "journal_fjall_tests.rs"]
mod fjall_tests;
