//! The high-water file: how far the log was acknowledged, kept apart from the log itself.
//!
//! fjall stops reading a journal at the first thing it cannot parse and takes that for the end, so a zeroed block or a cut
//! file would open as a shorter history. This file remembers the number of the last group commit that was synced; at open
//! the journal must reach it.
//!
//! Two slots of 32 bytes, 4 KiB apart, are written in turn, so that a write cut short by a power loss leaves the other:
//!
//! ```text
//! magic "OHW1" | group u64 | chain u32 | zeros | crc32 of all before       little-endian
//! ```
//!
//! It is written after each sync and itself synced at most once a second and at close. So after the death of the process it
//! is exact, and after a power loss it may lag by a second, never lead.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::directory::RESTORE;
use crate::error::StoreError;

const MAGIC: &[u8; 4] = b"OHW1";
const SLOT_BYTES: usize = 32;
const SLOT_STRIDE: u64 = 4096;
const SYNC_EVERY: Duration = Duration::from_secs(1);

/// A point of the log: the number of a group commit, and the checksum chained over all groups up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) group: u64,
    pub(super) chain: u32,
}

/// The open file.
pub(super) struct HighWater {
    path: PathBuf,
    file: File,
    synced: Instant,
    dirty: bool,
}

impl HighWater {
    /// The mark on disk. A missing file is damage: it exists from the first day of a directory.
    pub(super) fn read(path: &Path) -> Result<Mark, StoreError> {
        let mut bytes = Vec::new();
        let mut file = match File::open(path) {
            Ok(file) => file.take(2 * SLOT_STRIDE),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(StoreError::damaged(
                    path,
                    format!(
                        "it is missing, so nobody can tell whether the journals are complete. {RESTORE}. {ACCEPT}"
                    ),
                ));
            }
            Err(e) => return Err(StoreError::io("open", path)(e)),
        };
        file.read_to_end(&mut bytes)
            .map_err(StoreError::io("read", path))?;
        let slot = |at: u64| {
            bytes
                .get(at as usize..at as usize + SLOT_BYTES)
                .and_then(decode)
        };
        let newest = slot(0)
            .into_iter()
            .chain(slot(SLOT_STRIDE))
            .max_by_key(|mark| mark.group);
        newest.ok_or_else(|| {
            StoreError::damaged(
                path,
                format!("neither of its two records can be read. {RESTORE}. {ACCEPT}"),
            )
        })
    }

    /// Writes the mark to both slots of the file, made if missing, durably.
    pub(super) fn start(path: &Path, mark: Mark) -> Result<HighWater, StoreError> {
        let open = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        let file = open.map_err(StoreError::io("open", path))?;
        let mut this = HighWater {
            path: path.to_owned(),
            file,
            synced: Instant::now(),
            dirty: true,
        };
        for slot in [0, 1] {
            this.write_slot(slot, mark)
                .map_err(StoreError::io("write", path))?;
        }
        this.sync()?;
        Ok(this)
    }

    /// Remembers a group that was synced.
    pub(super) fn advance(&mut self, mark: Mark) -> Result<(), StoreError> {
        self.write_slot(mark.group % 2, mark)
            .map_err(StoreError::io("write", &self.path))?;
        self.dirty = true;
        if self.synced.elapsed() >= SYNC_EVERY {
            self.sync()
        } else {
            Ok(())
        }
    }

    /// Makes the newest mark survive a power loss.
    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if self.dirty {
            self.file
                .sync_data()
                .map_err(StoreError::io("sync", &self.path))?;
            self.dirty = false;
        }
        self.synced = Instant::now();
        Ok(())
    }

    fn write_slot(&mut self, slot: u64, mark: Mark) -> std::io::Result<()> {
        self.file.seek(SeekFrom::Start(slot * SLOT_STRIDE))?;
        self.file.write_all(&encode(mark))
    }
}

/// The door out, named in messages.
pub(super) const ACCEPT: &str =
    "To go on with what is left, open it once with the option to accept the loss";

fn encode(mark: Mark) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    slot[..4].copy_from_slice(MAGIC);
    slot[4..12].copy_from_slice(&mark.group.to_le_bytes());
    slot[12..16].copy_from_slice(&mark.chain.to_le_bytes());
    let crc = crc32fast::hash(&slot[..28]);
    slot[28..].copy_from_slice(&crc.to_le_bytes());
    slot
}

fn decode(slot: &[u8]) -> Option<Mark> {
    let group = u64::from_le_bytes(slot.get(4..12)?.try_into().ok()?);
    let chain = u32::from_le_bytes(slot.get(12..16)?.try_into().ok()?);
    let mark = Mark { group, chain };
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
        let mut high_water = HighWater::start(&path, mark(1)).unwrap();
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
