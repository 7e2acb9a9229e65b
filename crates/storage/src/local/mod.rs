//! The local engine: a data directory on one machine, on fjall, with our own group commit and our own guard.
//!
//! - `directory.rs`: what lies where, the format file, the lock;
//! - `high_water.rs` and `journal.rs`: whether the log is complete, decided before fjall may touch it;
//! - `committer.rs`: who writes when; `tables.rs`: what is written; `snapshot.rs`: what is read.
//!
//! Promised beyond the trait: opening gives everything that was acknowledged, or refuses with the name of a file; a
//! directory is used by one process at a time; after a failed write or sync nothing is acknowledged any more.
//!
//! Left out: damage inside a table that nobody reads is found when it is read (block checksums), not at open.

mod committer;
mod directory;
mod high_water;
mod journal;
mod snapshot;
mod tables;

use orrery_model::metrics::HistogramSnapshot;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use self::committer::{Committer, Slot, Ticket};
use self::directory::{Directory, RESTORE, Stage};
use self::high_water::{ACCEPT, HighWater, Mark};
use self::journal::Contents;
use self::snapshot::LocalSnapshot;
use self::tables::{Opened, Tables, Work};
use crate::error::StoreError;
use crate::owners::{Owner, Owners, check_partition};
use crate::receipt::Receipt;
use crate::store::{
    Capabilities, Commit, CommitOutcome, Direction, Lease, Limits, PartitionId, Snapshot, Store,
};

/// How a local store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalOptions {
    /// Memory for blocks of tables, in bytes. The process was seen to use up to twice this: give half of what it may use.
    pub cache_bytes: u64,
    /// Threads for flushes and compactions. One is best on two cores.
    pub worker_threads: usize,
    /// Opens a store whose log lost its end, or whose high-water file is gone, with what is left. Acknowledged commits may
    /// be missing afterwards: for a person to decide, once, after the refusal said what is lost.
    pub accept_loss: bool,
}

impl Default for LocalOptions {
    fn default() -> LocalOptions {
        LocalOptions {
            cache_bytes: 64 << 20,
            worker_threads: 1,
            accept_loss: false,
        }
    }
}

/// A store in a data directory. Dropping it waits until everything accepted is durable.
pub struct LocalStore {
    committer: Arc<Committer<Tables>>,
}

impl LocalStore {
    /// Opens the data directory, making it if there is none.
    ///
    /// # Errors
    /// When another process has it, when it is something else, of another format, or damaged; see [`StoreError`].
    pub fn open(path: impl AsRef<Path>, options: LocalOptions) -> Result<LocalStore, StoreError> {
        let directory = Directory::claim(path.as_ref())?;
        let fresh = directory.stage == Stage::Creating;
        let (opened, mark, loose) = if fresh {
            directory.wipe()?;
            (
                open_tables(&directory, &options, true)?,
                Mark::default(),
                None,
            )
        } else {
            open_checked(&directory, &options)?
        };
        let high_water = HighWater::start(&directory.high_water(), mark)?;
        let (mut tables, recovered) = opened.start(directory, high_water, loose)?;
        if fresh {
            tables.sync_mark()?;
            tables.directory_mut().check_parts()?;
            tables.directory_mut().finish()?;
        }
        let owners = Owners::new(recovered.owners, recovered.floor);
        Ok(LocalStore {
            committer: Arc::new(Committer::new(tables, owners)),
        })
    }

    fn settle(&self, work: Result<Arc<Slot>, CommitOutcome>) -> Result<(), StoreError> {
        match work.map(|slot| self.committer.wait(&slot)) {
            Ok(CommitOutcome::Ok) => Ok(()),
            _ => {
                let detail = self.committer.poisoned();
                let detail =
                    detail.unwrap_or_else(|| "too much work is waiting for the disk".to_owned());
                Err(StoreError::Poisoned { detail })
            }
        }
    }
}

/// Opens a finished directory: first our own look at it, then fjall's, then a comparison of the two.
fn open_checked(
    directory: &Directory,
    options: &LocalOptions,
) -> Result<(Opened, Mark, Option<u64>), StoreError> {
    let store = directory.store();
    directory.check_parts()?;
    let mark = if options.accept_loss {
        None
    } else {
        Some(HighWater::read(&directory.high_water())?)
    };
    let contents = journal::inspect(&store, mark)?;
    journal::cut_torn_tail(&contents)?;
    let opened = open_tables(directory, options, false)?;
    compare(&store, &opened, &contents, mark)?;
    let mark = opened.mark()?;
    Ok((opened, mark, contents.loose))
}

/// Whether the open database holds all that journals and high-water mark promised.
fn compare(
    store: &Path,
    opened: &Opened,
    contents: &Contents,
    mark: Option<Mark>,
) -> Result<(), StoreError> {
    let (last, persisted) = opened.groups()?;
    let (first_in_journals, last_in_journals) =
        contents.groups.map_or((None, 0), |(first, last)| {
            (Some(first.mark.group), last.mark.group)
        });
    if let Some(first) = first_in_journals
        && first > persisted + 1
    {
        let detail = format!(
            "the oldest journal left begins at group commit {first}, but the tables end at {persisted}: a journal between \
             them is missing. {RESTORE}"
        );
        return Err(StoreError::damaged(&store.join("*.jnl"), detail));
    }
    if last < last_in_journals {
        let detail = format!(
            "the tables end at group commit {last} and the journals at {last_in_journals}. {RESTORE}"
        );
        return Err(StoreError::damaged(&store.join("keyspaces"), detail));
    }
    match mark {
        Some(mark) if last < mark.group => Err(journal::short(store, last, mark.group)),
        Some(mark) if last == mark.group && opened.mark()? != mark => {
            let detail = format!(
                "it and the tables do not belong together (group commit {last}). {RESTORE}. {ACCEPT}"
            );
            Err(StoreError::damaged(&store.join("keyspaces"), detail))
        }
        _ => Ok(()),
    }
}

/// fjall panics on some kinds of damage; a panic here means the same as an error.
fn open_tables(
    directory: &Directory,
    options: &LocalOptions,
    fresh: bool,
) -> Result<Opened, StoreError> {
    let store = directory.store();
    catch_unwind(AssertUnwindSafe(|| Opened::open(&store, options, fresh))).unwrap_or_else(
        |panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("no reason given");
            Err(StoreError::damaged(
                &store,
                format!("the tables cannot be opened ({text}). {RESTORE}"),
            ))
        },
    )
}

impl Store for LocalStore {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        check_partition(partition)?;
        let mut raised = None;
        let slot = self.committer.submit(0, |owners| {
            let lease = raised.insert(owners.raise(partition));
            Ok(Work::Raise {
                partition,
                owner: Owner {
                    epoch: lease.epoch(),
                    head: lease.head(),
                },
            })
        });
        self.settle(slot)?;
        raised.ok_or_else(|| StoreError::Poisoned {
            detail: "the epoch was not raised".to_owned(),
        })
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        // Prepared before its place in the queue is known, so that the lock is held for a compare and no more.
        let (expect_lsn, head, bytes) = (commit.expect_lsn, commit.new_head(), commit.bytes());
        let fits = Limits::ENVELOPE.admit(&commit);
        let prepared = fits.then(|| Box::new(self.committer.sink().prepare(lease, commit)));
        let accepted = self.committer.submit(bytes, |owners| {
            owners.accept(lease, expect_lsn, head, fits)?;
            prepared.map(Work::Commit).ok_or(CommitOutcome::TooLarge)
        });
        match accepted {
            Ok(slot) => Receipt::pending(Ticket::new(self.committer.clone(), slot)),
            Err(refusal) => Receipt::ready(refusal),
        }
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        check_partition(partition)?;
        Ok(Box::new(LocalSnapshot::new(
            self.committer.clone(),
            partition,
        )))
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        check_partition(partition)?;
        // Looked up here, since everybody's commits wait while the leader looks: what is left of many removed keys is slow
        // to pass.
        let snapshot = self.snapshot(partition)?;
        let seen_empty = match snapshot
            .scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward)
            .next()
        {
            None => Some(snapshot.head()),
            Some(first) => first.map(|_| None)?,
        };
        drop(snapshot);
        let slot = self.committer.submit(0, |owners| {
            // Nothing was accepted since, and nothing can be from here on.
            let is_empty = seen_empty == Some(owners.head(partition));
            Ok(Work::Destroy {
                partition,
                floor: owners.forget(partition),
                is_empty,
            })
        });
        self.settle(slot)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let slot = self.committer.submit(0, |_| Ok(Work::Barrier));
        self.settle(slot)?;
        self.committer.sink().sync_mark()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            long_snapshots: true,
            watch: false,
            followers: false,
        }
    }

    fn let_catch_up(&self) {
        self.committer.sink().let_catch_up();
    }

    fn approximate_bytes(&self) -> u64 {
        self.committer.sink().bytes()
    }

    fn sync_seconds(&self) -> Option<HistogramSnapshot> {
        Some(self.committer.sink().sync_seconds())
    }
}

impl Drop for LocalStore {
    fn drop(&mut self) {
        // A failure was told to whoever waited for the commit it concerned; here is nobody left to tell.
        let _ = self.sync();
        self.committer.close();
    }
}
