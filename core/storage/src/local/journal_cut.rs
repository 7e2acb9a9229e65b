//! The removal of the batches of a failed group from the journals, while fjall is closed.
//!
//! A batch is kept if it was written before the failed group, or if a table holds it already: fjall
//! skips batches below the highest number in a table, so a table must never be ahead of the
//! journals. Batches of the failed group that are kept are written again, since their bytes may
//! have been lost by a failed sync although they can still be read.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use super::directory::journals;
use super::journal::read_batch;
use super::reopening::Cut;
use crate::error::StoreError;

/// The parts of a journal, as offsets in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parts {
    /// The end of the batches from before the failed group.
    acknowledged: u64,
    /// The end of the batches to keep.
    kept: u64,
}

/// Cuts the batches of the failed group from all journals, durably. The newest journal is cut
/// first, so that a crash in between leaves the first batches of the group and not the last ones.
pub(super) fn cut_journals(store: &Path, cut: Cut) -> Result<(), StoreError> {
    let mut is_behind_cut = false;
    let mut found = Vec::new();
    for (_, path) in journals(store)? {
        let (parts, is_cut) = parts_of(&path, cut, is_behind_cut)?;
        is_behind_cut = is_cut;
        found.push((path, parts));
    }
    for (path, parts) in found.iter().rev() {
        rewrite(path, *parts).map_err(StoreError::io("cut the failed commits from", path))?;
    }
    Ok(())
}

/// Finds the parts of a journal. Returns true with them if a batch was found that is not kept:
/// nothing behind such a batch is kept.
fn parts_of(path: &Path, cut: Cut, is_behind_cut: bool) -> Result<(Parts, bool), StoreError> {
    let mut parts = Parts {
        acknowledged: 0,
        kept: 0,
    };
    if is_behind_cut {
        return Ok((parts, true));
    }
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    while let Ok(batch) = read_batch(&mut reader).map_err(StoreError::io("read", path))? {
        let is_acknowledged = batch.sequence < cut.from;
        if !is_acknowledged && batch.sequence > cut.persisted {
            return Ok((parts, true));
        }
        parts.kept += batch.bytes;
        if is_acknowledged {
            parts.acknowledged = parts.kept;
        }
    }
    Ok((parts, false))
}

/// Ends the file behind the kept batches, and writes those of the failed group again.
fn rewrite(path: &Path, parts: Parts) -> std::io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    if file.metadata()?.len() > parts.kept {
        file.set_len(parts.kept)?;
    }
    if parts.kept > parts.acknowledged {
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(parts.acknowledged))?;
        (&mut file)
            .take(parts.kept - parts.acknowledged)
            .read_to_end(&mut bytes)?;
        file.seek(SeekFrom::Start(parts.acknowledged))?;
        file.write_all(&bytes)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::super::journal::tests::batch;
    use super::*;

    /// Writes five batches into two journals, cuts them, and returns the batches that are left in
    /// each journal.
    fn left_after(from: u64, persisted: u64) -> [usize; 2] {
        let dir = tempfile::tempdir().unwrap();
        let bytes = |sequence| batch(sequence, &[(b"key", b"value")]);
        let paths = [dir.path().join("0.jnl"), dir.path().join("1.jnl")];
        let older = [bytes(1), bytes(2), bytes(3)].concat();
        let newer = [bytes(4), bytes(5), vec![0; 500]].concat();
        std::fs::write(&paths[0], older).unwrap();
        std::fs::write(&paths[1], newer).unwrap();
        cut_journals(dir.path(), Cut { from, persisted }).unwrap();
        let batch_bytes = bytes(1).len();
        paths.map(|path| {
            let left = std::fs::read(path).unwrap();
            assert_eq!(left.len() % batch_bytes, 0);
            left.len() / batch_bytes
        })
    }

    #[test]
    fn all_batches_from_the_failed_group_on_are_cut_from_all_journals() {
        assert_eq!(left_after(5, 2), [3, 1]);
        assert_eq!(left_after(3, 2), [2, 0]);
        assert_eq!(left_after(6, 2), [3, 2]);
    }

    #[test]
    fn batches_that_a_table_holds_are_kept() {
        assert_eq!(left_after(3, 3), [3, 0]);
        assert_eq!(left_after(3, 4), [3, 1]);
    }
}
