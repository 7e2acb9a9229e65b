//! The way of one partition's calls to its cluster.

use orrery_model::sync::{lock, read, write};
use orrery_storage::{Lease, PartitionId};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

use crate::changes::Changes;

/// The bits of an epoch that count the opens of one copy; those above have the generation.
const EPOCH_BITS: u32 = 32;

/// A copy: the index of its cluster, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) cluster: usize,
    pub(crate) number: PartitionId,
}

/// The present way of a partition's calls.
#[derive(Default)]
pub(crate) struct Route {
    /// The copy in force; `None` if the partition has no row.
    pub(crate) target: Option<Target>,
    /// The epoch of the newest lease that this process handed out; 0 if there is none.
    pub(crate) epoch: u64,
    /// The lease of the copy that stands for the one handed out.
    pub(crate) lease: Option<Lease>,
    /// The changed keys, while a move is under way.
    pub(crate) changes: Option<Arc<Mutex<Changes>>>,
    /// It is not known if the last move has happened: no commit is accepted.
    pub(crate) is_undecided: bool,
    /// The partition was removed, and another place may stand for it.
    pub(crate) is_gone: bool,
}

/// A partition.
#[derive(Default)]
pub(crate) struct Place {
    /// Held by the calls that change the route. Taken before `route`.
    pub(crate) turn: Mutex<()>,
    /// Locked for reading while a commit is submitted, so that a move can exclude commits.
    pub(crate) route: RwLock<Route>,
    /// The highest LSN that this process has seen durable.
    pub(crate) seen: AtomicU64,
    /// A commit was submitted, durable or not.
    pub(crate) is_written: AtomicBool,
}

impl Place {
    /// Forgets the lease that was handed out, which is fenced from now on.
    pub(crate) fn fence(&self) {
        let mut route = write(&self.route);
        route.epoch = 0;
        route.lease = None;
    }

    pub(crate) fn target(&self) -> Option<Target> {
        read(&self.route).target
    }

    /// Forgets what was seen of a partition that was removed.
    pub(crate) fn forget_seen(&self) {
        self.seen.store(0, Ordering::Release);
        self.is_written.store(false, Ordering::Release);
    }

    pub(crate) fn note_seen(&self, lsn: u64) {
        self.seen.fetch_max(lsn, Ordering::AcqRel);
    }
}

/// Returns the epoch of a lease, of the generation and the epoch of the copy; `None` if the copy
/// was opened four billion times.
pub(crate) fn epoch_of(generation: u64, epoch: u64) -> Option<u64> {
    let is_in_range = epoch < 1 << EPOCH_BITS && generation < 1 << EPOCH_BITS;
    is_in_range.then_some(generation << EPOCH_BITS | epoch)
}

/// Returns the epoch of the copy of a lease's epoch.
pub(crate) fn epoch_of_copy(epoch: u64) -> u64 {
    epoch & ((1 << EPOCH_BITS) - 1)
}

/// All partitions that this process knows.
#[derive(Default)]
pub(crate) struct Places {
    all: RwLock<HashMap<PartitionId, Arc<Place>>>,
}

impl Places {
    pub(crate) fn get(&self, partition: PartitionId) -> Option<Arc<Place>> {
        read(&self.all).get(&partition).cloned()
    }

    pub(crate) fn get_or_create(&self, partition: PartitionId) -> Arc<Place> {
        match self.get(partition) {
            Some(place) => place,
            None => write(&self.all).entry(partition).or_default().clone(),
        }
    }

    /// Forgets a partition that was removed. A call that waits for its turn looks it up again.
    pub(crate) fn remove(&self, partition: PartitionId) {
        if let Some(place) = write(&self.all).remove(&partition) {
            write(&place.route).is_gone = true;
        }
    }

    /// Runs `work` while no other call changes the route of the partition.
    pub(crate) fn in_turn<T>(
        &self,
        partition: PartitionId,
        work: impl FnOnce(&Arc<Place>) -> T,
    ) -> T {
        loop {
            let place = self.get_or_create(partition);
            let _turn = lock(&place.turn);
            if !read(&place.route).is_gone {
                return work(&place);
            }
        }
    }
}
