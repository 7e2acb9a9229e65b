//! The blocks of a table file: reading and checking each block, and sealing a damaged one.
//!
//! A table of the pinned lsm-tree 3.1.10 is a row of blocks, integers little-endian:
//!
//! ```text
//! block   "LSM" 03 | type u8 | xxh3-128 of the stored bytes | stored len u32 | plain len u32
//!         | low 32 bits of the xxh3-128 of the header before | stored bytes
//! index   for each data block: 00 | offset | bytes | sequence | key len | last key     (varints)
//!         ... | ff | trailer
//! directory of the parts
//!         "TOC!" | count u32, and for each part: offset u64 | length u64 | name len u16 | name
//! trailer "SFA!" 01 00 | xxh3-128 of the directory | offset u64 and length u64 of the directory
//! ```
//!
//! *Sealing* a damaged data block replaces its bytes by a sound block of the same length, so that
//! compactions and reads of everything else in the table go on. The new block has one entry: the
//! last key of the old block with [`SEAL`] as value. The caller must have made sure that no reader
//! is shown the keys of the block any more (`damage.rs`).
//!
//! Left out: damage of the index, filter and metadata of a table is found and named, and not
//! sealed: no row is lost by it, and the next compaction of the table writes them anew.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use fjall::CompressionType;
use lsm_tree::table::{Block, BlockHandle, DataBlock};
use lsm_tree::{InternalValue, Table, ValueType};
use xxhash_rust::xxh3::xxh3_128;

use super::journal::u64_at;

/// The start of the value that stands in a sealed block. No value of a caller begins with it.
pub(super) const SEAL: &[u8] = b"\xff\xfe damaged block \xfe\xff";

const MAGIC: &[u8] = b"LSM\x03";
const HEADER_BYTES: usize = 33;
/// Bytes of the header that its own checksum covers.
const CHECKED_HEADER_BYTES: usize = 29;
/// The byte behind the last entry of an index block.
const END_OF_ENTRIES: u8 = 0xff;
/// The most bytes that one block can have. Handles beyond are damage.
const BLOCK_BYTES_MAX: usize = 64 << 20;

/// The start of the trailer: its name, the version and the kind of checksum.
const TRAILER_MAGIC: &[u8] = b"SFA!\x01\x00";
const TRAILER_BYTES: usize = 38;
/// The most bytes of the directory of parts, of which a table has fewer than ten.
const DIRECTORY_BYTES_MAX: u64 = 64 << 10;

/// The purpose of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlockKind {
    /// Rows or index entries.
    Data,
    /// The index, filter or metadata of the table.
    Auxiliary,
}

/// Returns the fault of the trailer of a table or of the directory of its parts. The library
/// reserves memory for as many parts as a directory says before it compares the checksum.
///
/// # Errors
/// When the file cannot be read.
pub(super) fn directory_fault(path: &Path) -> std::io::Result<Option<Fault>> {
    let mut file = File::open(path)?;
    let file_bytes = file.metadata()?.len();
    let mut trailer = [0; TRAILER_BYTES];
    let Some(end) = file_bytes.checked_sub(TRAILER_BYTES as u64) else {
        return Ok(Some("it is cut".to_owned()));
    };
    file.seek(SeekFrom::Start(end))?;
    file.read_exact(&mut trailer)?;
    let (checksum, place) = trailer[TRAILER_MAGIC.len()..].split_at(16);
    let (offset, bytes) = place.split_at(8);
    let [offset, bytes] = [offset, bytes].map(|number| u64_at(number, 0).unwrap_or(u64::MAX));
    let is_in_place = trailer.starts_with(TRAILER_MAGIC)
        && bytes <= DIRECTORY_BYTES_MAX
        && offset.checked_add(bytes) == Some(end);
    if !is_in_place {
        return Ok(Some("its trailer is damaged".to_owned()));
    }
    let mut directory = vec![0; bytes as usize];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut directory)?;
    if xxh3_128(&directory).to_le_bytes() != checksum {
        let fault = "the checksum of the directory of its parts does not match";
        return Ok(Some(fault.to_owned()));
    }
    Ok(None)
}

/// One block of a table, as the table's index describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BlockEntry {
    pub(super) kind: BlockKind,
    pub(super) offset: u64,
    pub(super) bytes: usize,
    /// The last key of the block before; `None` for the first block of a table.
    pub(super) after: Option<Vec<u8>>,
    /// The last key of the block, and the sequence number of that entry.
    pub(super) last_key: Vec<u8>,
    sequence: u64,
}

/// The fault of a block: the sentence for the log.
pub(super) type Fault = String;

/// A table file that is open for checking.
pub(super) struct TableFile {
    file: File,
}

impl TableFile {
    pub(super) fn open(path: &Path) -> std::io::Result<TableFile> {
        Ok(TableFile {
            file: File::open(path)?,
        })
    }

    /// Returns all blocks of the table: the data blocks in order, then the others.
    ///
    /// # Errors
    /// The position and the fault of the index, if it cannot be read.
    pub(super) fn blocks(&mut self, table: &Table) -> Result<Vec<BlockEntry>, (u64, Fault)> {
        let compression = table.metadata.index_block_compression;
        let mut entries = self.index_entries(table.regions.tli, compression)?;
        if table.regions.index.is_some() {
            let partitions = std::mem::take(&mut entries);
            for partition in partitions {
                let size = u32::try_from(partition.bytes).unwrap_or(u32::MAX);
                let handle = BlockHandle::new(table_offset(partition.offset), size);
                entries.extend(self.index_entries(handle, compression)?);
            }
        }
        let mut before = None;
        for entry in &mut entries {
            entry.after = before.replace(entry.last_key.clone());
        }
        let regions = &table.regions;
        let others = [Some(regions.tli), regions.index, regions.filter_tli];
        let others = others
            .into_iter()
            .chain([regions.filter, Some(regions.metadata)]);
        for handle in others.flatten() {
            self.add_region(handle, &mut entries)?;
        }
        Ok(entries)
    }

    /// Adds the blocks of a region, which follow one another.
    fn add_region(
        &mut self,
        region: BlockHandle,
        entries: &mut Vec<BlockEntry>,
    ) -> Result<(), (u64, Fault)> {
        let (start, end) = (
            *region.offset(),
            *region.offset() + u64::from(region.size()),
        );
        let mut offset = start;
        while offset < end {
            let header = self
                .read(offset, HEADER_BYTES)
                .and_then(|bytes| header_fault(&bytes).map_or(Ok(bytes), Err))
                .map_err(|fault| (offset, fault))?;
            let bytes = HEADER_BYTES + stored_bytes(&header);
            entries.push(BlockEntry {
                kind: BlockKind::Auxiliary,
                offset,
                bytes,
                after: None,
                last_key: Vec::new(),
                sequence: 0,
            });
            offset += bytes as u64;
        }
        Ok(())
    }

    /// Reads an index block. `after` of the entries is not set.
    fn index_entries(
        &mut self,
        handle: BlockHandle,
        compression: CompressionType,
    ) -> Result<Vec<BlockEntry>, (u64, Fault)> {
        let offset = *handle.offset();
        let bytes = self
            .read(offset, handle.size() as usize)
            .and_then(|bytes| block_fault(&bytes).map_or(Ok(bytes), Err))
            .map_err(|fault| (offset, fault))?;
        let block = Block::from_reader(&mut &bytes[..], compression)
            .map_err(|error| (offset, format!("{error:?}")))?;
        parse_index(&block.data).ok_or((offset, "its index entries are unreadable".to_owned()))
    }

    /// Returns the fault of a block; `None` if the block is sound.
    pub(super) fn check(&mut self, block: &BlockEntry) -> Option<Fault> {
        match self.read(block.offset, block.bytes) {
            Ok(bytes) => block_fault(&bytes),
            Err(fault) => Some(fault),
        }
    }

    /// Reads bytes of the file.
    pub(super) fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, Fault> {
        if length > BLOCK_BYTES_MAX {
            return Err(format!("it claims to have {length} bytes"));
        }
        let mut bytes = vec![0; length];
        let read = self
            .file
            .seek(SeekFrom::Start(offset))
            .and_then(|_| self.file.read_exact(&mut bytes));
        match read {
            Ok(()) => Ok(bytes),
            Err(error) => Err(format!("it cannot be read: {error}")),
        }
    }
}

fn table_offset(offset: u64) -> lsm_tree::table::BlockOffset {
    lsm_tree::table::BlockOffset(offset)
}

/// Replaces a damaged data block by a sealed one, durably. Returns false if no sealed block of the
/// same length can be made; the file is unchanged then.
pub(super) fn seal(table: &Table, block: &BlockEntry) -> std::io::Result<bool> {
    let compression = table.metadata.data_block_compression;
    let Some(bytes) = sealed_block(block, compression) else {
        return Ok(false);
    };
    let mut file = OpenOptions::new().write(true).open(&*table.path)?;
    file.seek(SeekFrom::Start(block.offset))?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    Ok(true)
}

/// Returns the fault of a whole block; `None` if header and stored bytes are as written.
fn block_fault(bytes: &[u8]) -> Option<Fault> {
    if let Some(fault) = header_fault(bytes) {
        return Some(fault);
    }
    let stored = &bytes[HEADER_BYTES..];
    if stored.len() != stored_bytes(bytes) {
        return Some("its length differs from that in the index".to_owned());
    }
    let expected = &bytes[5..21];
    if expected != xxh3_128(stored).to_le_bytes() {
        return Some("its checksum does not match its bytes".to_owned());
    }
    None
}

/// Returns the fault of a block's header; `None` if it is as written.
fn header_fault(bytes: &[u8]) -> Option<Fault> {
    if bytes.len() < HEADER_BYTES || !bytes.starts_with(MAGIC) {
        return Some("its header is not that of a block".to_owned());
    }
    let checksum = xxh3_128(&bytes[..CHECKED_HEADER_BYTES]) as u32;
    if bytes[CHECKED_HEADER_BYTES..HEADER_BYTES] != checksum.to_le_bytes() {
        return Some("the checksum of its header does not match".to_owned());
    }
    None
}

/// Returns the length of the stored bytes that a header states.
fn stored_bytes(header: &[u8]) -> usize {
    let mut field = [0; 4];
    field.copy_from_slice(&header[21..25]);
    u32::from_le_bytes(field) as usize
}

/// Parses the entries of an index block; `None` if they are cut.
fn parse_index(mut data: &[u8]) -> Option<Vec<BlockEntry>> {
    let mut entries = Vec::new();
    loop {
        let (&marker, rest) = data.split_first()?;
        if marker == END_OF_ENTRIES {
            return Some(entries);
        }
        data = rest;
        let offset = varint(&mut data)?;
        let bytes = usize::try_from(varint(&mut data)?).ok()?;
        let sequence = varint(&mut data)?;
        let key_bytes = usize::try_from(varint(&mut data)?).ok()?;
        let (key, rest) = data.split_at_checked(key_bytes)?;
        data = rest;
        entries.push(BlockEntry {
            kind: BlockKind::Data,
            offset,
            bytes,
            after: None,
            last_key: key.to_vec(),
            sequence,
        });
    }
}

/// Takes a number of seven bits a byte, the lowest first, off the data.
fn varint(data: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = data.split_first()?;
        *data = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Makes a block of the same length as `block` with the one entry that says that the block is
/// sealed; `None` if its key alone needs more room.
fn sealed_block(block: &BlockEntry, compression: CompressionType) -> Option<Vec<u8>> {
    let room = block.bytes.checked_sub(HEADER_BYTES)?;
    // The value is padded with zeros; the lengths of the fields around it vary with its length.
    for padding in (0..=room.checked_sub(SEAL.len())?).rev() {
        let plain = sealed_content(block, padding)?;
        let stored = match compression {
            CompressionType::None => (plain.len() == room).then_some(plain.clone()),
            CompressionType::Lz4 => lz4_of_length(&plain, padding, room),
        };
        if let Some(stored) = stored {
            let bytes = with_header(&stored, plain.len());
            return is_readable(&bytes, compression, block).then_some(bytes);
        }
        // The length fields of literals take one byte of 255.
        if plain.len() + room / 200 + 64 < room {
            return None;
        }
    }
    None
}

/// Returns the content of a data block whose one value is the seal and zeros.
fn sealed_content(block: &BlockEntry, padding: usize) -> Option<Vec<u8>> {
    let mut value = SEAL.to_vec();
    value.resize(SEAL.len() + padding, 0);
    let key = block.last_key.clone();
    let item = InternalValue::from_components(key, value, block.sequence, ValueType::Value);
    DataBlock::encode_into_vec(&[item], 1, 0.0).ok()
}

/// Returns an LZ4 block of exactly `length` bytes that decompresses to `plain`, which has `zeros`
/// zero bytes; `None` if there is none of a simple form.
///
/// The form is one run of literals, or two runs with a copy of four zeros between them. The second
/// form reaches the lengths that the first one skips where the length field of a run grows.
fn lz4_of_length(plain: &[u8], zeros: usize, length: usize) -> Option<Vec<u8>> {
    let whole = sequence_bytes(plain.len());
    if whole == length {
        let mut block = Vec::with_capacity(length);
        push_literals(&mut block, plain);
        return Some(block);
    }
    // Two runs take about as many bytes as one.
    if whole.abs_diff(length) > 4 {
        return None;
    }
    let zeros_start = plain.windows(SEAL.len()).position(|bytes| bytes == SEAL)? + SEAL.len();
    let splits = zeros_start + 1..(zeros_start + zeros).saturating_sub(4);
    for split in splits.take(600) {
        let rest = &plain[split + 4..];
        // The copy takes four bytes, the least, from one byte before: two bytes of offset.
        if sequence_bytes(split) + 2 + sequence_bytes(rest.len()) == length {
            let mut block = Vec::with_capacity(length);
            push_literals(&mut block, &plain[..split]);
            block.extend_from_slice(&1u16.to_le_bytes());
            push_literals(&mut block, rest);
            return Some(block);
        }
    }
    None
}

/// Returns the bytes of an LZ4 sequence of literals: token, length field, literals.
fn sequence_bytes(literals: usize) -> usize {
    let length_field = literals.checked_sub(15).map_or(0, |rest| rest / 255 + 1);
    1 + length_field + literals
}

/// Writes the token and the literals of an LZ4 sequence, for a copy of the least length.
fn push_literals(out: &mut Vec<u8>, literals: &[u8]) {
    let length = literals.len();
    out.push((length.min(15) as u8) << 4);
    if length >= 15 {
        let mut rest = length - 15;
        while rest >= 255 {
            out.push(255);
            rest -= 255;
        }
        out.push(rest as u8);
    }
    out.extend_from_slice(literals);
}

/// Puts the header of a data block before its stored bytes.
fn with_header(stored: &[u8], plain_bytes: usize) -> Vec<u8> {
    let mut block = Vec::with_capacity(HEADER_BYTES + stored.len());
    block.extend_from_slice(MAGIC);
    block.push(0);
    block.extend_from_slice(&xxh3_128(stored).to_le_bytes());
    block.extend_from_slice(&(stored.len() as u32).to_le_bytes());
    block.extend_from_slice(&(plain_bytes as u32).to_le_bytes());
    let checksum = xxh3_128(&block) as u32;
    block.extend_from_slice(&checksum.to_le_bytes());
    block.extend_from_slice(stored);
    block
}

/// Returns true if lsm-tree itself reads the sealed block and finds its one entry.
fn is_readable(bytes: &[u8], compression: CompressionType, block: &BlockEntry) -> bool {
    let Ok(read) = Block::from_reader(&mut &bytes[..], compression) else {
        return false;
    };
    let data = DataBlock::new(read);
    let found = data.point_read(&block.last_key, block.sequence.saturating_add(1));
    data.len() == 1 && found.is_some_and(|item| item.value.starts_with(SEAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key_bytes: usize, bytes: usize, sequence: u64) -> BlockEntry {
        BlockEntry {
            kind: BlockKind::Data,
            offset: 0,
            bytes,
            after: None,
            last_key: vec![7; key_bytes],
            sequence,
        }
    }

    #[test]
    fn a_block_of_any_length_can_be_sealed_and_lsm_tree_reads_it() {
        for compression in [CompressionType::None, CompressionType::Lz4] {
            for length in (250..700).chain(4300..4400).chain(58_500..58_600) {
                let block = entry(20, length, 77);
                let sealed = sealed_block(&block, compression);
                let sealed = sealed.unwrap_or_else(|| panic!("{compression:?} {length}"));
                assert_eq!(sealed.len(), length);
                assert_eq!(block_fault(&sealed), None);
            }
            for length in 0..90 {
                assert_eq!(sealed_block(&entry(20, length, 77), compression), None);
            }
        }
    }

    #[test]
    fn no_flipped_bit_of_a_block_is_taken_for_sound() {
        let sealed = sealed_block(&entry(9, 300, 1), CompressionType::Lz4).unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(block_fault(&flipped).is_some(), "bit {bit}");
        }
    }
}
