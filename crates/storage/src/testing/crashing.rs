//! A store that crashes at a chosen step, losing everything that was not durable.
//!
//! It holds a memory store as the *durable image* and a queue of accepted commits. A commit moves to the image when its
//! receipt is waited for, polled or dropped, or at `sync`, and takes those before it along, as one group commit would.
//! Each commit has two steps: before it is written, and after it is written but not yet answered. A crash at the first
//! loses it, a crash at the second keeps it, and the caller hears `Unknown` of both. After the crash the store answers
//! nothing until [`Crashing::reopen`].

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use crate::error::StoreError;
use crate::memory::MemoryStore;
use crate::owners::{Owners, check_partition};
use crate::receipt::{Pending, Receipt};
use crate::store::{
    Capabilities, Commit, CommitOutcome, Lease, Limits, PartitionId, Snapshot, Store,
};

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
    /// Heads as accepted; the image has its own, as durable.
    accepted: Owners,
    queue: VecDeque<(u64, Lease, Commit)>,
    next_ticket: u64,
    /// All tickets below have their answer.
    durable: u64,
    steps: u64,
    crash_at: Option<u64>,
    crashed: bool,
}

impl Crashing {
    /// An empty store that crashes at the given step, counted from 0, or only when told.
    pub fn new(crash_at: Option<u64>) -> Crashing {
        Crashing::over(Arc::new(MemoryStore::new()), Owners::default(), crash_at)
    }

    fn over(image: Arc<MemoryStore>, accepted: Owners, crash_at: Option<u64>) -> Crashing {
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
        state.crashed = true;
        state.queue.clear();
    }

    /// Whether it has crashed.
    pub fn has_crashed(&self) -> bool {
        self.shared.lock().crashed
    }

    /// Steps taken so far: run a history once without a crash to learn how many there are.
    pub fn steps(&self) -> u64 {
        self.shared.lock().steps
    }

    /// The store as it comes back after a crash (which this is, if none was yet): what was durable, and nothing else.
    pub fn reopen(&self, crash_at: Option<u64>) -> Crashing {
        self.crash();
        Crashing::over(
            self.shared.image.clone(),
            self.shared.image.owners(),
            crash_at,
        )
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves commits to the image up to and with this ticket.
    fn flush(&self, ticket: u64) -> CommitOutcome {
        let state = &mut *self.lock();
        while state.durable <= ticket && !state.crashed {
            let Some((number, lease, commit)) = state.queue.pop_front() else {
                break;
            };
            if state.step() {
                break;
            }
            let outcome = self.image.submit(&lease, commit).wait();
            debug_assert_eq!(
                outcome,
                CommitOutcome::Ok,
                "accepted here, so fit for the image"
            );
            if state.step() {
                break;
            }
            state.durable = number + 1;
        }
        if state.durable > ticket {
            CommitOutcome::Ok
        } else {
            CommitOutcome::Unknown
        }
    }
}

impl State {
    /// Takes a step; true if it is the one to crash at.
    fn step(&mut self) -> bool {
        let crashes = self.crash_at == Some(self.steps);
        self.steps += 1;
        if crashes {
            self.crashed = true;
            self.queue.clear();
        }
        crashes
    }

    fn check(&self) -> Result<(), StoreError> {
        if self.crashed {
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
        // The new epoch is durable only after all that was accepted before it.
        self.sync()?;
        let mut state = self.shared.lock();
        state.check()?;
        state.accepted.raise(partition);
        self.shared.image.open(partition)
    }

    fn submit(&self, lease: &Lease, commit: Commit) -> Receipt {
        let fits = Limits::ENVELOPE.admit(&commit);
        let state = &mut *self.shared.lock();
        if state.crashed {
            return Receipt::ready(CommitOutcome::Unavailable {
                retry_after_ms: 1_000,
            });
        }
        if let Err(refusal) =
            state
                .accepted
                .accept(lease, commit.expect_lsn, commit.new_head(), fits)
        {
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
        state.accepted.forget(partition);
        self.shared.image.destroy(partition)
    }

    fn sync(&self) -> Result<(), StoreError> {
        let next = self.shared.lock().next_ticket;
        if let Some(last) = next.checked_sub(1) {
            let _ = self.shared.flush(last);
        }
        self.shared.lock().check()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            durable: true,
            ..self.shared.image.capabilities()
        }
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
