//! Migrations: copies of whole stores to an empty store, with a record in the target and a
//! comparison at the end.
//!
//! ```text
//! record    the target gets the record of the source: the head of the source's catalog
//! copy      every partition is copied (copy.rs)
//! compare   heads and rows of every partition are read from both stores and compared
//! end       the record is removed
//! ```
//! Promised: a target without the record has nothing of the copy or all of it, compared. A server
//! asks [`is_incomplete_copy`] before it opens a store, since an engine on an incomplete copy finds
//! no database. A migration that was interrupted is continued from the same source, in the same
//! state, and from no other.
//!
//! Left out: stores that are written meanwhile, and the removal of an incomplete copy.

use orrery_model::hex;
use orrery_storage::{Commit, Head, PartitionId, Store, StoreError};
use std::ops::Bound;
use std::time::Duration;

use crate::cluster::failed;
use crate::copy::{CopyProgress, SOURCE, TARGET, copy_store};
use crate::moving::read_page;
use crate::patience::Patience;
use crate::writer::{Tokens, Writer};

/// The partition of the target with the record of the source.
const RECORD: PartitionId = PartitionId(u64::MAX - 4);
/// The catalog of the engine.
const CATALOG: PartitionId = PartitionId(0);
/// The key of the record's row.
const SOURCE_KEY: &[u8] = b"source";
/// The time that a cluster may be away.
const PATIENCE: Duration = Duration::from_secs(120);

/// The progress of a migration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrationProgress {
    /// A page or a partition was copied.
    Copied(CopyProgress),
    /// A page or a partition was compared.
    Compared {
        /// The partition.
        partition: PartitionId,
        /// Rows of the partition that were compared so far.
        rows: u64,
        /// All rows of the partition are the same in both stores.
        is_complete: bool,
    },
}

/// A migration that is complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migration {
    /// Partitions of the source.
    pub partitions: usize,
    /// Partitions that this call copied; the others were complete before.
    pub copied: usize,
    /// Rows that were compared.
    pub rows: u64,
    /// Bytes of these rows, keys and values.
    pub bytes: u64,
}

/// Returns true if the store holds a copy that was not completed and compared.
///
/// # Errors
/// That of the store.
pub fn is_incomplete_copy(store: &dyn Store) -> Result<bool, StoreError> {
    Ok(store.snapshot(RECORD)?.head() != Head::default())
}

/// Copies these partitions, which are all of the source, to an empty store, or continues that copy,
/// and compares both stores. Neither store may be used by others meanwhile. If the target has a
/// complete copy already, both are compared only.
///
/// # Errors
/// Those of the stores; when the source has no data or is an incomplete copy itself; when the
/// target has other data, or an incomplete copy of another source or of an earlier state of this
/// one; when the comparison finds a difference.
pub fn migrate_store(
    from: &dyn Store,
    to: &dyn Store,
    partitions: &[PartitionId],
    mut progress: impl FnMut(MigrationProgress),
) -> Result<Migration, StoreError> {
    begin(from, to)?;
    let copied = copy_store(from, to, partitions.iter().copied(), |step| {
        progress(MigrationProgress::Copied(step));
    })?;
    let mut done = Migration {
        partitions: partitions.len(),
        copied,
        ..Migration::default()
    };
    for &partition in partitions {
        compare(from, to, partition, &mut done, &mut progress)?;
    }
    if is_incomplete_copy(to)? {
        to.destroy(RECORD)?;
        to.sync()?;
    }
    Ok(done)
}

/// Checks both stores, and writes the record unless the target has the record or a complete copy.
fn begin(from: &dyn Store, to: &dyn Store) -> Result<(), StoreError> {
    let head = from.snapshot(CATALOG)?.head();
    if head == Head::default() {
        let detail = "there is no database, so there is nothing to copy";
        return Err(failed(SOURCE, detail));
    }
    if is_incomplete_copy(from)? {
        let detail = "the data is a copy that was not completed: copy from the store that it was \
                      made of";
        return Err(failed(SOURCE, detail));
    }
    let identity = identity(head);
    let record = to.snapshot(RECORD)?;
    if record.head() != Head::default() {
        let found = record.get(SOURCE_KEY)?;
        if found.is_none_or(|found| found != identity.as_bytes()) {
            let detail = "the data is an incomplete copy of another source, or of an earlier \
                          state of this source: empty the target, or name the first source";
            return Err(failed(TARGET, detail));
        }
        return Ok(());
    }
    let found = to.snapshot(CATALOG)?.head();
    if found == head {
        return Ok(());
    }
    if found != Head::default() {
        let detail = "there is a database already: name an empty target, or empty this one";
        return Err(failed(TARGET, detail));
    }
    write_record(to, &identity)
}

/// Returns the text that names the state of a source: the head of its catalog, whose token is
/// random.
fn identity(head: Head) -> String {
    format!("{} {}", head.lsn, hex::encode(&head.token))
}

fn write_record(to: &dyn Store, identity: &str) -> Result<(), StoreError> {
    let mut writer = Writer::open(to, TARGET, RECORD)?;
    let commit = Commit {
        puts: vec![(SOURCE_KEY.to_vec(), identity.as_bytes().to_vec())],
        ..Commit::default()
    };
    let head = Head {
        lsn: writer.head().lsn + 1,
        token: Tokens::new().next(),
    };
    writer.commit(to, commit, head, &Patience::alone(PATIENCE))
}

/// Compares head and rows of a partition, page by page.
fn compare(
    from: &dyn Store,
    to: &dyn Store,
    partition: PartitionId,
    done: &mut Migration,
    progress: &mut impl FnMut(MigrationProgress),
) -> Result<(), StoreError> {
    let mut rows = 0;
    let mut after: Option<Vec<u8>> = None;
    loop {
        let patience = Patience::alone(PATIENCE);
        let read = |store: &dyn Store| {
            patience.repeat(|| {
                let snapshot = store.snapshot(partition)?;
                let page = read_page(&*snapshot, after.as_deref(), Bound::Unbounded)?;
                Ok((snapshot.head(), page))
            })
        };
        let (of_source, of_target) = (read(from)?, read(to)?);
        if of_source != of_target {
            let detail = format!(
                "partition {partition} differs from the source after the copy: empty the target \
                 and copy again"
            );
            return Err(failed(TARGET, detail));
        }
        let (_, page) = of_source;
        let Some((last, _)) = page.last() else {
            break;
        };
        after = Some(last.to_vec());
        rows += page.len() as u64;
        let bytes = page.iter().map(|(key, value)| key.len() + value.len());
        done.bytes += bytes.sum::<usize>() as u64;
        progress(MigrationProgress::Compared {
            partition,
            rows,
            is_complete: false,
        });
    }
    done.rows += rows;
    progress(MigrationProgress::Compared {
        partition,
        rows,
        is_complete: true,
    });
    Ok(())
}
