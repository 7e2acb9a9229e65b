//! The threads of a fleet, of which one runs at a time.
//!
//! Work that waits gives its turn back and gets another one later, so two pieces of work overlap at
//! each wait and nowhere else. The order of the turns follows from the seed of the world.

use orrery_model::sync::lock;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// A piece of work.
type Work = Box<dyn FnOnce() + Send>;

/// A message to a thread.
enum Turn {
    /// Begin the work, which concerns a machine.
    Begin(Option<usize>, Work),
    /// Go on.
    GoOn,
}

/// The end of a turn.
enum End {
    Waits,
    /// The work is done, or has ended with a panic of this text.
    Done(Result<(), String>),
}

/// The facts that a thread knows of itself.
struct This {
    number: usize,
    turns: Receiver<Turn>,
    ends: Sender<End>,
    /// The machines at which the work is carried out, the present one last.
    machines: Vec<Option<usize>>,
}

thread_local! {
    static THIS: RefCell<Option<This>> = const { RefCell::new(None) };
}

struct Thread {
    turns: Sender<Turn>,
    handle: JoinHandle<()>,
}

/// The threads.
pub(super) struct Turns {
    threads: Mutex<Vec<Thread>>,
    idle: Mutex<BTreeSet<usize>>,
    ends: Mutex<Receiver<End>>,
    to_ends: Sender<End>,
}

/// Returns the number of this thread and the machine at which its work is carried out; `None` for
/// the thread that gives the turns.
pub(super) fn this() -> Option<(usize, Option<usize>)> {
    THIS.with_borrow(|this| {
        let this = this.as_ref()?;
        Some((this.number, this.machines.last().copied().flatten()))
    })
}

/// Gives the turn back, and waits for another one.
pub(super) fn wait() {
    THIS.with_borrow(|this| {
        let Some(this) = this else { return };
        // The thread that gives the turns lives longer.
        let _ = this.ends.send(End::Waits);
        let _ = this.turns.recv();
    });
}

/// Notes that the work is carried out at a machine from now on.
pub(super) fn enter(machine: usize) {
    THIS.with_borrow_mut(|this| {
        if let Some(this) = this {
            this.machines.push(Some(machine));
        }
    });
}

/// Notes that the work is carried out at the machine of before again.
pub(super) fn leave() {
    THIS.with_borrow_mut(|this| {
        if let Some(this) = this {
            this.machines.pop();
        }
    });
}

impl Turns {
    pub(super) fn new() -> Turns {
        let (to_ends, ends) = channel();
        Turns {
            threads: Mutex::default(),
            idle: Mutex::default(),
            ends: Mutex::new(ends),
            to_ends,
        }
    }

    /// Gives a turn to a piece of work that concerns a machine. Returns when the work waits or is
    /// done.
    ///
    /// # Errors
    /// The text of a panic.
    pub(super) fn begin(&self, machine: Option<usize>, work: Work) -> Result<(), String> {
        let idle = lock(&self.idle).pop_first();
        let number = idle.unwrap_or_else(|| self.start_thread());
        self.give(number, Turn::Begin(machine, work))
    }

    /// Gives a turn to a thread that waits.
    ///
    /// # Errors
    /// The text of a panic.
    pub(super) fn go_on(&self, number: usize) -> Result<(), String> {
        self.give(number, Turn::GoOn)
    }

    fn give(&self, number: usize, turn: Turn) -> Result<(), String> {
        let sent = lock(&self.threads)[number].turns.send(turn);
        sent.map_err(|_| "a thread has ended".to_owned())?;
        let end = lock(&self.ends).recv();
        match end {
            Ok(End::Waits) => Ok(()),
            Ok(End::Done(result)) => {
                lock(&self.idle).insert(number);
                result
            }
            Err(_) => Err("all threads have ended".to_owned()),
        }
    }

    fn start_thread(&self) -> usize {
        let mut threads = lock(&self.threads);
        let number = threads.len();
        let (turns, receiver) = channel();
        let this = This {
            number,
            turns: receiver,
            ends: self.to_ends.clone(),
            machines: Vec::new(),
        };
        let handle = std::thread::spawn(move || run(this));
        threads.push(Thread { turns, handle });
        number
    }

    /// Lets the work that waits go on until all is done, and ends the threads. The work must not
    /// wait for long.
    pub(super) fn end(&self) {
        let count = lock(&self.threads).len();
        for number in 0..count {
            while !lock(&self.idle).contains(&number) {
                // A panic of a world that is over is no finding.
                if lock(&self.threads)[number].handle.is_finished() {
                    break;
                }
                let _ = self.go_on(number);
            }
        }
        for Thread { turns, handle } in lock(&self.threads).drain(..) {
            drop(turns);
            // Panics of the work were caught.
            let _ = handle.join();
        }
    }
}

/// Carries out work until there is no more.
fn run(this: This) {
    THIS.set(Some(this));
    while let Some((machine, work)) = next() {
        THIS.with_borrow_mut(|this| {
            if let Some(this) = this {
                this.machines = vec![machine];
            }
        });
        let done = crate::without_panic(catch_unwind(AssertUnwindSafe(|| {
            work();
            Ok(())
        })));
        THIS.with_borrow(|this| {
            if let Some(this) = this {
                let _ = this.ends.send(End::Done(done));
            }
        });
    }
}

/// Waits for the next piece of work.
fn next() -> Option<(Option<usize>, Work)> {
    THIS.with_borrow(|this| match this.as_ref()?.turns.recv() {
        Ok(Turn::Begin(machine, work)) => Some((machine, work)),
        Ok(Turn::GoOn) | Err(_) => None,
    })
}
