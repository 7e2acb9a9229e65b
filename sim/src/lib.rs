//! Seeded worlds of one node: random histories on the real engine, compared with a model.
//!
//! A world follows from its seed: containers with random settings, clients that write and read the
//! same few items, a clock that jumps, a store that crashes and fails, restarts, splits, merges,
//! snapshots and background work. Everything runs on one thread, by the calls of the engine that
//! the gateway makes; several writes are submitted before the first of them is waited for.
//!
//! ```text
//! seed ─▶ Random ─▶ steps ─▶ Engine ─▶ Failing ─▶ Planted ─▶ Crashing or Files
//!                     │         │ answers
//!                     ▼         ▼
//!                  ContainerModel: what clients know ─▶ a difference is a `Failure`
//! ```
//!
//! # Promises
//!
//! 1. The same plan gives the same trace: [`Report::hash`] is equal.
//! 2. An answered write is there and a refused one is not; an unknown one is either, and whole. A
//!    write from which an answered refusal follows is there.
//! 3. A read, a query, a change feed and the counters show what the model knows, at any moment; the
//!    engine's own verification finds nothing.
//! 4. A backup of a world on files is the state of its moment.
//! 5. A failure names the seed, the last events and the command that replays it.
//!
//! # Leaves out
//!
//! Damage of files, which `core/storage/tests/damage.rs` tries; the gateway and its wire; threads;
//! scripts; the nodes of a fleet and the network between them.
//!
//! # The modules, in reading order
//!
//! | module | holds |
//! |---|---|
//! | `random`, `trace` | the choices of a world, and its events |
//! | `spec` | settings of containers, texts of items |
//! | `model` | what clients know of the items of a container |
//! | `predict` | the answers that a write may get |
//! | `node` | the world: store, clock, engine, containers; the choice of a step |
//! | `writes`, `reads`, `queries`, `feeds` | the clients |
//! | `upkeep` | settings, splits, snapshots, background work, clock, faults, restarts |
//! | `checks` | the comparison of everything |
//! | `planted` | the store, with the faults that self-tests plant |
//! | `files`, `backups` | the store in files on a simulated disk; backups of it |

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod backups;
mod checks;
mod feeds;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod files;
mod model;
mod node;
mod planted;
mod predict;
mod queries;
mod random;
mod reads;
mod spec;
mod trace;
mod upkeep;
mod writes;

pub use planted::{PlantedFault, RowFault};
pub use trace::Listener;

use node::Node;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use trace::Trace;

/// The result of a check: `Err` describes what is not as it must be.
type Checked<T = ()> = Result<T, String>;

/// The plan of a world.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The seed, from which everything follows.
    pub seed: u64,
    /// The number of steps.
    pub steps: u64,
    /// The fault that a self-test plants.
    pub fault: Option<PlantedFault>,
    /// True if the store is in files on a simulated disk, false if it is in memory.
    pub is_on_files: bool,
    /// True if the engine's own verification is one of the checks. A self-test of the other checks
    /// does without.
    pub is_verified: bool,
}

impl Plan {
    /// Creates the plan of a seed.
    pub fn new(seed: u64, steps: u64) -> Plan {
        Plan {
            seed,
            steps,
            fault: None,
            is_on_files: false,
            is_verified: true,
        }
    }
}

/// The result of a world in which everything was as it must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Report {
    /// The hash of the trace.
    pub hash: u64,
    /// The number of events.
    pub events: u64,
    /// The number of crashes.
    pub crashes: u64,
    /// The number of writes that were answered with success.
    pub answered: u64,
    /// The number of writes whose outcome their client did not learn.
    pub unknown: u64,
    /// The number of backups that were restored and compared.
    pub backups: u64,
}

/// A world in which something was not as it must be.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// The number of steps of the plan.
    pub steps: u64,
    /// True if the store was in files.
    pub is_on_files: bool,
    /// The difference, as a sentence.
    pub message: String,
    /// The last events, the oldest first.
    pub last: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.last {
            writeln!(f, "  {line}")?;
        }
        let files = match self.is_on_files {
            true => "--files ",
            false => "",
        };
        write!(
            f,
            "seed {} failed: {}\nreplay it: cargo run -p orrery-sim -- {files}--seed {} --steps {}",
            self.seed, self.message, self.seed, self.steps
        )
    }
}

impl std::error::Error for Failure {}

/// Runs a world. `listener` gets each event as a line.
///
/// # Errors
/// The first difference between the engine and the model, or a panic of the engine.
pub fn run(plan: &Plan, listener: Option<Listener>) -> Result<Report, Box<Failure>> {
    let mut trace = Trace::new(listener);
    let ran = catch_unwind(AssertUnwindSafe(|| Node::new(plan, &mut trace)?.run()));
    let message = match ran {
        Ok(Ok(counts)) => {
            return Ok(Report {
                hash: trace.hash(),
                events: trace.events(),
                crashes: counts.crashes,
                answered: counts.answered,
                unknown: counts.unknown,
                backups: counts.backups,
            });
        }
        Ok(Err(message)) => message,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("a panic: {}", text.unwrap_or("without a text"))
        }
    };
    Err(Box::new(Failure {
        seed: plan.seed,
        steps: plan.steps,
        is_on_files: plan.is_on_files,
        message,
        last: trace.last(),
    }))
}
