//! The high-water file: how far the log was acknowledged, kept apart from the log itself.
//!
//! fjall stops reading a journal at the first bytes that it cannot parse and takes them for the
//! end, so a zeroed block or a truncated file would open as a shorter history. This file keeps the
//! number of the last group commit that was synced; at open the journals must reach it.
//!
//! Two slots of 32 bytes, 4 KiB apart, are written in turn, so that a write torn by a power loss
//! leaves the other slot intact:
//!
//! ```text
//! magic "OHW1" | group u64 | chain u32 | zeros | crc32 of all before       little-endian
//! ```
//!
//! The file is written after each sync of the log, and is itself synced at most once a second and
//! at close. So the mark is exact after the death of the process; after a power loss it may lag
//! behind the log by a second, but is never ahead of it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::directory::{RESTORE_ADVICE, owner_only};
use crate::error::StoreError;

const MAGIC: &[u8; 4] = b"OHW1";
const SLOT_BYTES: usize = 32;
/// Bytes between the starts of the two slots.
const SLOT_STRIDE: u64 = 4096;
/// The shortest time between two syncs of the file while the store is open.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// A point of the log: the number of a group commit, and the checksum chained over all groups up to
/// that group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) group: u64,
    pub(super) chain: u32,
}

/// The open high-water file.
pub(super) struct HighWater {
    path: PathBuf,
    file: File,
    last_sync: Instant,
    /// A mark was written since the last sync.
    is_dirty: bool,
}

impl HighWater {
    /// Reads the newest mark. A missing file is damage: it exists from the creation of a directory.
    pub(super) fn read(path: &Path) -> Result<Mark, StoreError> {
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                let detail = format!(
                    "it is missing, so the journals cannot be checked for completeness. \
                     {RESTORE_ADVICE}. {ACCEPT_ADVICE}"
                );
                return Err(StoreError::damaged(path, detail));
            }
            Err(e) => return Err(StoreError::io("open", path)(e)),
        };
        let mut bytes = Vec::new();
        file.take(2 * SLOT_STRIDE)
            .read_to_end(&mut bytes)
            .map_err(StoreError::io("read", path))?;
        // One slot may be torn; the other then holds the mark before it.
        let marks = [decode_at(&bytes, 0), decode_at(&bytes, SLOT_STRIDE)];
        let newest = marks.into_iter().flatten().max_by_key(|mark| mark.group);
        newest.ok_or_else(|| {
            let detail = format!(
                "neither of its two records can be read. {RESTORE_ADVICE}. {ACCEPT_ADVICE}"
            );
            StoreError::damaged(path, detail)
        })
    }

    /// Returns the fault of a file whose content is not whole, and true with it if the next opening
    /// of the store mends it: one record of the two is enough.
    pub(super) fn fault(path: &Path) -> Option<(String, bool)> {
        let bytes = match std::fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) => return Some((error.to_string(), false)),
        };
        let readable = [0, SLOT_STRIDE].map(|start| decode_at(&bytes, start).is_some());
        match readable {
            [false, false] => {
                return Some(("neither of its two records can be read".to_owned(), false));
            }
            [true, true] => {}
            _ => {
                let fault = "one of its two records cannot be read, and the other one is whole";
                return Some((fault.to_owned(), true));
            }
        }
        let gap = bytes.get(SLOT_BYTES..SLOT_STRIDE as usize);
        let is_whole = bytes.len() as u64 == SLOT_STRIDE + SLOT_BYTES as u64
            && gap.is_some_and(|gap| gap.iter().all(|byte| *byte == 0));
        (!is_whole).then(|| ("it has bytes beside its two records".to_owned(), true))
    }

    /// Opens the file, creates it if it is missing, and writes the mark to both slots, durably.
    pub(super) fn create(path: &Path, mark: Mark) -> Result<HighWater, StoreError> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let open = owner_only(&mut options).open(path);
        let file = open.map_err(StoreError::io("open", path))?;
        let mut this = HighWater {
            path: path.to_owned(),
            file,
            last_sync: Instant::now(),
            is_dirty: true,
        };
        this.write_both(mark)?;
        Ok(this)
    }

    /// Writes the mark to both slots, durably: the file holds no other mark afterwards.
    pub(super) fn write_both(&mut self, mark: Mark) -> Result<(), StoreError> {
        for slot in [0, 1] {
            self.write_slot(slot, mark)
                .map_err(StoreError::io("write", &self.path))?;
        }
        self.is_dirty = true;
        self.sync()
    }

    /// Writes the mark of a group that was synced.
    pub(super) fn advance(&mut self, mark: Mark) -> Result<(), StoreError> {
        self.write_slot(mark.group % 2, mark)
            .map_err(StoreError::io("write", &self.path))?;
        self.is_dirty = true;
        if self.last_sync.elapsed() >= SYNC_INTERVAL {
            self.sync()
        } else {
            Ok(())
        }
    }

    /// Syncs the newest mark, so that it survives a power loss.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if self.is_dirty {
            self.file
                .sync_data()
                .map_err(StoreError::io("sync", &self.path))?;
            self.is_dirty = false;
        }
        self.last_sync = Instant::now();
        Ok(())
    }

    fn write_slot(&mut self, slot: u64, mark: Mark) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(slot * SLOT_STRIDE))?;
        self.file.write_all(&encode(mark))
    }
}

/// The advice to accept the loss, for messages.
pub(super) const ACCEPT_ADVICE: &str =
    "To see what is lost and to go on with what is left, use 'orrery repair'";

fn encode(mark: Mark) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..4].copy_from_slice(MAGIC);
    slot[4..12].copy_from_slice(&mark.group.to_le_bytes());
    slot[12..16].copy_from_slice(&mark.chain.to_le_bytes());
    let crc = crc32fast::hash(&slot[..28]);
    slot[28..].copy_from_slice(&crc.to_le_bytes());
    slot
}

/// Decodes the slot at a byte offset of the file; `None` if the slot is cut or torn.
fn decode_at(file: &[u8], start: u64) -> Option<Mark> {
    let start = start as usize;
    decode(file.get(start..start + SLOT_BYTES)?)
}

fn decode(slot: &[u8]) -> Option<Mark> {
    let group = u64::from_le_bytes(slot.get(4..12)?.try_into().ok()?);
    let chain = u32::from_le_bytes(slot.get(12..16)?.try_into().ok()?);
    let mark = Mark { group, chain };
    // Encoding again checks the magic, the zeros and the checksum together.
    (slot == encode(mark)).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(group: u64) -> Mark {
        Mark {
            group,
            chain: group as u32 + 1,
        }
    }

    #[test]
    fn the_newest_mark_is_read_back_and_a_torn_slot_falls_back_to_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("high-water");
        let mut high_water = HighWater::create(&path, mark(1)).unwrap();
        high_water.advance(mark(2)).unwrap();
        high_water.advance(mark(3)).unwrap();
        assert_eq!(HighWater::read(&path).unwrap(), mark(3));

        let mut bytes = std::fs::read(&path).unwrap();
        bytes[SLOT_STRIDE as usize + 5] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(HighWater::read(&path).unwrap(), mark(2));
        bytes[7] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert!(
            HighWater::read(&path)
                .unwrap_err()
                .to_string()
                .contains("high-water is damaged")
        );
    }

    #[test]
    fn no_flipped_bit_is_taken_for_a_mark() {
        let slot = encode(mark(77));
        for bit in 0..SLOT_BYTES * 8 {
            let mut flipped = slot;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped), None, "bit {bit}");
        }
    }
}
