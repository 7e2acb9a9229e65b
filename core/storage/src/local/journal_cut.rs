//! The removal of the batches of a failed group from the journals, while fjall is closed.
//!
//! A batch is kept if it was written before the failed group, or if a table holds it already: fjall
//! skips batches below the highest number in a table, so a table must never be ahead of the
//! journals.
//!
//! A journal that is cut is replaced by a new file, for two reasons. Its bytes may have been lost
//! by a failed sync although they can still be read, so those that are kept are written again. And
//! fjall may still have the old file open: a thread of the closed database gives the journal up
//! only after it has reported its end, and the journal then writes what it still holds of the
//! failed group. That goes into the old file, which has no name any more.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read};
use std::path::Path;

use super::directory::{journals, owner_only, sync_directory};
use super::journal::read_batch;
use super::reopening::Cut;
use crate::error::StoreError;

/// The extension of a journal that is being written to replace another one.
const DRAFT_EXTENSION: &str = "cut";

/// The part of a journal that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kept {
    /// The end of the kept batches, in bytes.
    bytes: u64,
    /// True if a batch follows that is not kept, or if one of the failed group is kept.
    has_failed: bool,
}

/// Cuts the batches of the failed group from all journals, durably. The newest journal is cut
/// first, so that a crash in between leaves the first batches of the group and not the last ones.
pub(super) fn cut_journals(store: &Path, cut: Cut) -> Result<(), StoreError> {
    let mut is_behind_cut = false;
    let mut found = Vec::new();
    for (_, path) in journals(store)? {
        let (kept, is_cut) = kept_of(&path, cut, is_behind_cut)?;
        is_behind_cut = is_cut;
        found.push((path, kept));
    }
    // The newest journal is the one that fjall may still write.
    for (age, (path, kept)) in found.iter().rev().enumerate() {
        if age == 0 || kept.has_failed {
            let failed = StoreError::io("cut the failed commits from", path);
            rewrite(path, kept.bytes).map_err(failed)?;
        }
    }
    Ok(())
}

/// Finds the part of a journal that is kept. Returns true with it if a batch was found that is not
/// kept: nothing behind such a batch is kept.
fn kept_of(path: &Path, cut: Cut, is_behind_cut: bool) -> Result<(Kept, bool), StoreError> {
    let mut kept = Kept {
        bytes: 0,
        has_failed: is_behind_cut,
    };
    if is_behind_cut {
        return Ok((kept, true));
    }
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    while let Ok(batch) = read_batch(&mut reader).map_err(StoreError::io("read", path))? {
        let is_failed = batch.sequence >= cut.from;
        kept.has_failed |= is_failed;
        if is_failed && batch.sequence > cut.persisted {
            return Ok((kept, true));
        }
        kept.bytes += batch.bytes;
    }
    Ok((kept, false))
}

/// Replaces the file by one that ends behind the kept batches.
fn rewrite(path: &Path, kept_bytes: u64) -> std::io::Result<()> {
    let draft = path.with_extension(DRAFT_EXTENSION);
    let mut kept = File::open(path)?.take(kept_bytes);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file = owner_only(&mut options).open(&draft)?;
    std::io::copy(&mut kept, &mut file)?;
    file.sync_all()?;
    std::fs::rename(&draft, path)?;
    match path.parent() {
        Some(directory) => sync_directory(directory),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::journal::tests::batch;
    use super::*;
    use std::io::Write;

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

    /// A thread of the closed database once wrote the failed group behind the cut.
    #[test]
    fn what_fjall_still_writes_to_the_journal_of_before_is_not_in_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.jnl");
        let bytes = |sequence| batch(sequence, &[(b"key", b"value")]);
        std::fs::write(&path, bytes(1)).unwrap();
        let mut late = OpenOptions::new().append(true).open(&path).unwrap();
        let cut = Cut {
            from: 2,
            persisted: 0,
        };
        cut_journals(dir.path(), cut).unwrap();
        late.write_all(&bytes(2)).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), bytes(1));
    }

    #[test]
    fn batches_that_a_table_holds_are_kept() {
        assert_eq!(left_after(3, 3), [3, 0]);
        assert_eq!(left_after(3, 4), [3, 1]);
    }
}
