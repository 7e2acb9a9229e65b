//! The store as a process of a fleet reaches it: over a network, and no longer than the process
//! lives.
//!
//! Calls take time, in which the world goes on. A call fails if the store cannot be reached. A
//! commit may take place although its answer is lost, and may arrive seconds after its sender has
//! given up.

use super::agenda::{Event, What};
use super::{Fleet, FleetFault};
use orrery_model::sync::lock;
use orrery_storage::{
    Capabilities, Commit, CommitOutcome, Lease, PartitionId, Pending, Receipt, Snapshot, Store,
    StoreError,
};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

/// Milliseconds after which another attempt may succeed.
const RETRY_MS: u64 = 100;

/// The store of a process.
#[derive(Clone)]
pub(super) struct Connection {
    pub(super) fleet: Weak<Fleet>,
    pub(super) machine: usize,
    /// The number of the process.
    pub(super) process: u64,
}

/// A commit that its sender has given up, and that arrives later.
pub(super) struct Delayed {
    process: u64,
    lease: Lease,
    commit: Commit,
}

/// A commit that took place and whose answer is on its way.
struct Answer(Connection);

impl Pending for Answer {
    fn wait(self: Box<Self>) -> CommitOutcome {
        match self.0.enter() {
            Ok(_) => CommitOutcome::Ok,
            Err(_) => CommitOutcome::Unknown,
        }
    }

    fn poll(&mut self, _context: &mut Context<'_>) -> Poll<CommitOutcome> {
        Poll::Ready(CommitOutcome::Ok)
    }
}

fn unreachable_store() -> StoreError {
    StoreError::Unavailable {
        reason: "the store cannot be reached",
        retry_after_ms: RETRY_MS,
        is_full: false,
    }
}

impl Connection {
    /// Returns true if a commit of this process to a partition may still arrive.
    fn has_delayed(&self, fleet: &Fleet, partition: PartitionId) -> bool {
        lock(&fleet.agenda).has(|what| match what {
            What::CommitArrives(delayed) => {
                delayed.process == self.process && delayed.lease.partition() == partition
            }
            _ => false,
        })
    }

    fn is_cut(&self, fleet: &Fleet) -> bool {
        if fleet.is_over() {
            return true;
        }
        let machine = &fleet.machines[self.machine];
        let lives = machine
            .process()
            .is_some_and(|process| process.number == self.process);
        !lives || !machine.reaches_store(fleet.now_ms())
    }

    /// Lets the time of a call pass, which is long now and then, or stands still with the machine.
    ///
    /// # Errors
    /// When the store cannot be reached, or the process has ended meanwhile.
    fn enter(&self) -> Result<Arc<Fleet>, StoreError> {
        let fleet = self.fleet.upgrade().ok_or_else(unreachable_store)?;
        if self.is_cut(&fleet) {
            return Err(unreachable_store());
        }
        let long_calls = match fleet.may_go_wrong() {
            true => fleet.rates.long_calls,
            false => 0,
        };
        let kind = fleet.below(10_000);
        if kind < long_calls {
            fleet.stand_still(self.machine);
        } else if kind < 2 * long_calls {
            fleet.pass(fleet.below(3_000));
        } else if kind < 400 {
            fleet.pass(1 + fleet.below(30));
        }
        match self.is_cut(&fleet) {
            true => Err(unreachable_store()),
            false => Ok(fleet),
        }
    }

    /// Sends a commit to the store.
    pub(super) fn commit(fleet: &Fleet, lease: &Lease, commit: Commit) -> CommitOutcome {
        if !fleet.has_fault(FleetFault::FenceLost) {
            return fleet.store.submit(lease, commit).wait();
        }
        let Ok(lease) = fleet.store.open(lease.partition()) else {
            return CommitOutcome::Fenced;
        };
        let head = lease.head();
        let behind_head = Commit {
            expect_lsn: head.lsn,
            new_lsn: head.lsn + 1,
            ..commit
        };
        fleet.store.submit(&lease, behind_head).wait()
    }
}

impl Store for Connection {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        let fleet = self.enter()?;
        let lease = fleet.store.open(partition)?;
        self.enter()?;
        Ok(lease)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let Ok(fleet) = self.enter() else {
            return Receipt::ready(CommitOutcome::Unavailable {
                retry_after_ms: RETRY_MS,
            });
        };
        if fleet.may_go_wrong() {
            if fleet.happens(fleet.rates.lost / 5) {
                fleet.note(|| format!("m{} a commit is delayed", self.machine));
                let delayed = Delayed {
                    process: self.process,
                    lease: lease.clone(),
                    commit,
                };
                let arrives = What::CommitArrives(Box::new(delayed));
                fleet.plan_event(fleet.below(6_000), Event::of_world(arrives));
                return Receipt::ready(match fleet.has_fault(FleetFault::AnsweredEarly) {
                    true => CommitOutcome::Ok,
                    false => CommitOutcome::Unknown,
                });
            }
            if fleet.happens(fleet.rates.lost / 5) {
                let outcome = Connection::commit(&fleet, lease, commit);
                fleet.note(|| format!("m{} an answer is lost: {outcome:?}", self.machine));
                return Receipt::ready(CommitOutcome::Unknown);
            }
        }
        let outcome = Connection::commit(&fleet, lease, commit);
        match outcome {
            CommitOutcome::Ok => Receipt::pending(Answer(self.clone())),
            refusal => Receipt::ready(refusal),
        }
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        let fleet = self.enter()?;
        let snapshot = fleet.store.snapshot(partition)?;
        self.enter()?;
        Ok(snapshot)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        self.enter()?.store.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.enter().map(drop)
    }

    fn release(&self, partition: PartitionId) -> Result<(), StoreError> {
        let fleet = self.enter()?;
        match self.has_delayed(&fleet, partition) {
            true => Err(unreachable_store()),
            false => Ok(()),
        }
    }

    fn barrier(&self, partition: PartitionId) -> Receipt {
        // Each other commit is durable before its answer.
        let is_done = match self.enter() {
            Ok(fleet) => !self.has_delayed(&fleet, partition),
            Err(_) => false,
        };
        Receipt::ready(match is_done {
            true => CommitOutcome::Ok,
            false => CommitOutcome::Unknown,
        })
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            long_snapshots: true,
            followers: false,
            remote: false,
        }
    }

    fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
        self.enter()?.store.partitions()
    }

    fn approximate_bytes(&self) -> u64 {
        let fleet = self.fleet.upgrade();
        fleet.map_or(0, |fleet| fleet.store.approximate_bytes())
    }
}

impl Fleet {
    /// Takes in a commit that its sender has given up.
    pub(super) fn receive_commit(&self, delayed: Delayed) {
        let Delayed { lease, commit, .. } = delayed;
        let partition = lease.partition();
        let outcome = Connection::commit(self, &lease, commit);
        self.note(|| format!("a delayed commit of {partition:?} arrives: {outcome:?}"));
    }
}
