//! A store that crashes at a chosen step and loses every commit that was not durable.
//!
//! It holds a memory store as the *durable image* and a queue of accepted commits. A commit moves
//! to the image when its receipt, or that of a barrier behind it, is waited for, polled or dropped,
//! or at `sync`, and takes the commits before it along, as one group commit would. Each commit has
//! two steps: before it is written, and after it is written but not yet answered. A crash at the
//! first step loses the commit, a crash at the second keeps it, and the caller gets `Unknown` for
//! both. After the crash the store answers nothing until [`Crashing::reopen`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};

use orrery_model::sync;

use crate::commit::{Commit, CommitOutcome, Limits, PartitionId};
use crate::error::StoreError;
use crate::memory::MemoryStore;
use crate::ownership::{OwnershipTable, check_partition};
use crate::receipt::{Pending, Receipt};
use crate::store::{Capabilities, Lease, Snapshot, Store};

/// The store. The module header says how it crashes.
pub struct Crashing {
    shared: Arc<Shared>,
}

struct Shared {
    image: Arc<MemoryStore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The accepted heads; the image has the durable ones.
    accepted: OwnershipTable,
    queue: VecDeque<(u64, Lease, Commit)>,
    next_ticket: u64,
    /// All commits with a lower ticket are durable.
    durable_below: u64,
    /// Steps taken so far.
    steps: u64,
    crash_at: Option<u64>,
    has_crashed: bool,
}

impl Crashing {
    /// Creates an empty store that crashes at the given step, counted from 0, or only when
    /// [`Crashing::crash`] is called.
    pub fn new(crash_at: Option<u64>) -> Crashing {
        Crashing::over(
            Arc::new(MemoryStore::new()),
            OwnershipTable::default(),
            crash_at,
        )
    }

    fn over(image: Arc<MemoryStore>, accepted: OwnershipTable, crash_at: Option<u64>) -> Crashing {
        let state = State {
            accepted,
            crash_at,
            ..State::default()
        };
        Crashing {
            shared: Arc::new(Shared {
                image,
                state: Mutex::new(state),
            }),
        }
    }

    /// Crashes now.
    pub fn crash(&self) {
        let mut state = self.shared.lock();
        state.has_crashed = true;
        state.queue.clear();
    }

    /// Arranges that the store crashes after this number of further steps, or does not.
    pub fn crash_after(&self, steps: Option<u64>) {
        let mut state = self.shared.lock();
        state.crash_at = steps.map(|steps| state.steps + steps);
    }

    /// Returns true if the store has crashed.
    pub fn has_crashed(&self) -> bool {
        self.shared.lock().has_crashed
    }

    /// Returns the number of steps taken so far. A test runs a history once without a crash to
    /// learn how many steps it has.
    pub fn steps(&self) -> u64 {
        self.shared.lock().steps
    }

    /// Returns the store as it is after a crash: the durable commits and nothing else. Crashes this
    /// store if it has not crashed yet.
    pub fn reopen(&self, crash_at: Option<u64>) -> Crashing {
        self.crash();
        Crashing::over(
            self.shared.image.clone(),
            self.shared.image.ownership(),
            crash_at,
        )
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        sync::lock(&self.state)
    }

    /// Moves the queued commits up to and including this ticket to the image. Returns the outcome
    /// of the commit with this ticket.
    fn flush(&self, ticket: u64) -> CommitOutcome {
        let state = &mut *self.lock();
        while state.durable_below <= ticket && !state.has_crashed {
            let Some((number, lease, commit)) = state.queue.pop_front() else {
                break;
            };
            // The step before the commit is written.
            if state.step() {
                break;
            }
            let outcome = self.image.submit(&lease, commit).wait();
            debug_assert_eq!(
                outcome,
                CommitOutcome::Ok,
                "the image has the same heads and limits"
            );
            // The step after the commit is written and before it is answered.
            if state.step() {
                break;
            }
            state.durable_below = number + 1;
        }
        if state.durable_below > ticket {
            CommitOutcome::Ok
        } else {
            CommitOutcome::Unknown
        }
    }
}

impl State {
    /// Takes a step. Returns true if the store crashes at it.
    fn step(&mut self) -> bool {
        let crashes_now = self.crash_at == Some(self.steps);
        self.steps += 1;
        if crashes_now {
            self.has_crashed = true;
            self.queue.clear();
        }
        crashes_now
    }

    /// Fails if the store has crashed.
    fn check(&self) -> Result<(), StoreError> {
        if self.has_crashed {
            Err(StoreError::Poisoned {
                detail: "planned crash".to_owned(),
            })
        } else {
            Ok(())
        }
    }
}

impl Store for Crashing {
    fn open(&self, partition: PartitionId) -> Result<Lease, StoreError> {
        check_partition(partition)?;
        // The new epoch becomes durable only after every commit accepted before it.
        self.sync()?;
        let mut state = self.shared.lock();
        state.check()?;
        state.accepted.raise_epoch(partition);
        self.shared.image.open(partition)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let within_limits = Limits::ENVELOPE.admit(&commit);
        let state = &mut *self.shared.lock();
        if state.has_crashed {
            return Receipt::ready(CommitOutcome::Unavailable {
                retry_after_ms: 1_000,
            });
        }
        let (expect_lsn, new_head) = (commit.expect_lsn, commit.new_head());
        let accepted = state
            .accepted
            .accept(lease, expect_lsn, new_head, within_limits);
        if let Err(refusal) = accepted {
            return Receipt::ready(refusal);
        }
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.queue.push_back((ticket, lease.clone(), commit));
        Receipt::pending(Ticket {
            shared: self.shared.clone(),
            ticket,
        })
    }

    fn snapshot(&self, partition: PartitionId) -> Result<Box<dyn Snapshot>, StoreError> {
        self.shared.lock().check()?;
        self.shared.image.snapshot(partition)
    }

    fn destroy(&self, partition: PartitionId) -> Result<(), StoreError> {
        check_partition(partition)?;
        self.sync()?;
        let mut state = self.shared.lock();
        state.check()?;
        state.accepted.remove(partition);
        self.shared.image.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let next = self.shared.lock().next_ticket;
        if let Some(last) = next.checked_sub(1) {
            let _ = self.shared.flush(last);
        }
        self.shared.lock().check()
    }

    fn barrier(&self, _partition: PartitionId) -> Receipt {
        let next = self.shared.lock().next_ticket;
        match next.checked_sub(1) {
            Some(ticket) => Receipt::pending(Ticket {
                shared: self.shared.clone(),
                ticket,
            }),
            None => Receipt::ready(CommitOutcome::Ok),
        }
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            ..self.shared.image.capabilities()
        }
    }

    fn partitions(&self) -> Result<Option<Vec<PartitionId>>, StoreError> {
        self.shared.image.partitions()
    }

    fn approximate_bytes(&self) -> u64 {
        self.shared.image.approximate_bytes()
    }
}

struct Ticket {
    shared: Arc<Shared>,
    ticket: u64,
}

impl Pending for Ticket {
    fn wait(self: Box<Self>) -> CommitOutcome {
        self.shared.flush(self.ticket)
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<CommitOutcome> {
        Poll::Ready(self.shared.flush(self.ticket))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let _ = self.shared.flush(self.ticket);
    }
}
