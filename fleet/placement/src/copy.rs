//! Copies of whole stores that are not written meanwhile, such as from a directory to a cluster.
//!
//! A partition of the copy is complete when it has the head of the original, which its last commit
//! sets. The commits before it have tokens with a mark, so that an interrupted copy is told from
//! data of another origin, and is made again from the start. Partition 0, which the engine reads
//! first, is copied last: an engine on an interrupted copy finds an empty store.

use orrery_storage::{Head, PartitionId, Store, StoreError};
use std::ops::Bound;
use std::time::Duration;

use crate::cluster::failed;
use crate::moving::read_page;
use crate::patience::Patience;
use crate::target::CopyTarget;
use crate::writer::Tokens;

/// The first bytes of the tokens of an incomplete copy.
const MARK: [u8; 8] = *b"copying:";
/// The name of the target in errors.
pub(crate) const TARGET: &str = "target of the copy";
/// The name of the source in errors.
pub(crate) const SOURCE: &str = "source of the copy";
/// The time that a cluster may be away.
const PATIENCE: Duration = Duration::from_secs(120);

/// The progress of a copy, after each page and at the end of each partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyProgress {
    /// The partition.
    pub partition: PartitionId,
    /// Rows of the partition that were read so far.
    pub rows: u64,
    /// Bytes of these rows, keys and values.
    pub bytes: u64,
    /// The partition is complete.
    pub is_complete: bool,
    /// The partition was complete before, so nothing was copied.
    pub was_complete: bool,
}

/// Copies partitions with their heads. Partitions that are complete are skipped, so an interrupted
/// copy is resumed by the same call. Returns the number of partitions that were copied. Neither
/// store may be used by others meanwhile.
///
/// # Errors
/// Those of the stores; when the source changes meanwhile; when the target has data in one of the
/// partitions that is not an interrupted copy.
pub fn copy_store(
    from: &dyn Store,
    to: &dyn Store,
    partitions: impl IntoIterator<Item = PartitionId>,
    mut progress: impl FnMut(CopyProgress),
) -> Result<usize, StoreError> {
    let mut partitions: Vec<PartitionId> = partitions.into_iter().collect();
    // Descending, so that partition 0 is the last.
    partitions.sort_unstable_by(|a, b| b.cmp(a));
    partitions.dedup();
    let mut copied = 0;
    for partition in partitions {
        let head = from.snapshot(partition)?.head();
        let found = to.snapshot(partition)?.head();
        if found == head {
            progress(CopyProgress {
                partition,
                rows: 0,
                bytes: 0,
                is_complete: true,
                was_complete: true,
            });
            continue;
        }
        if found != Head::default() {
            if found.token[..8] != MARK {
                let detail = format!(
                    "partition {partition} has data already; name an empty store, or the same \
                     source as before"
                );
                return Err(failed(TARGET, detail));
            }
            to.destroy(partition)?;
        }
        copy_partition(from, to, partition, head, &mut progress)?;
        copied += 1;
    }
    to.sync()?;
    Ok(copied)
}

fn copy_partition(
    from: &dyn Store,
    to: &dyn Store,
    partition: PartitionId,
    head: Head,
    progress: &mut impl FnMut(CopyProgress),
) -> Result<(), StoreError> {
    let patience = || Patience::alone(PATIENCE);
    let mut copy = CopyTarget::open(to, TARGET, partition, Tokens::marked(MARK))?;
    copy.set_source_lsn(head.lsn);
    let mut done = CopyProgress {
        partition,
        rows: 0,
        bytes: 0,
        is_complete: false,
        was_complete: false,
    };
    let mut after: Option<Vec<u8>> = None;
    loop {
        let patience = patience();
        let (found, page) = patience.repeat(|| {
            let snapshot = from.snapshot(partition)?;
            Ok((
                snapshot.head(),
                read_page(&*snapshot, after.as_deref(), Bound::Unbounded)?,
            ))
        })?;
        if found != head {
            let detail = format!("partition {partition} was written during the copy");
            return Err(failed(SOURCE, detail));
        }
        let Some((last, _)) = page.last() else {
            break;
        };
        after = Some(last.to_vec());
        for (key, value) in page {
            done.rows += 1;
            done.bytes += (key.len() + value.len()) as u64;
            copy.set(key.to_vec(), Some(value), &patience)?;
        }
        progress(done);
    }
    copy.finish(head, &patience())?;
    done.is_complete = true;
    progress(done);
    Ok(())
}
