//! Seeded worlds of one node, and of fleets (`fleet.rs`): random histories on real engines.
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
//! scripts.
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
//! | `fleet` | the worlds of three nodes |

#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod backups;
mod checks;
mod feeds;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod files;
mod fleet;
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

pub use fleet::{FleetCounts, FleetFault, FleetPlan, FleetReport, run_fleet};
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
    /// The arguments of the program that replay the world.
    pub arguments: String,
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
        let Failure {
            seed,
            arguments,
            message,
            ..
        } = self;
        write!(
            f,
            "seed {seed} failed: {message}\nreplay it: cargo run -p orrery-sim -- {arguments}"
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
    match without_panic(ran) {
        Ok(counts) => Ok(Report {
            hash: trace.hash(),
            events: trace.events(),
            crashes: counts.crashes,
            answered: counts.answered,
            unknown: counts.unknown,
            backups: counts.backups,
        }),
        Err(message) => {
            let files = match plan.is_on_files {
                true => "--files ",
                false => "",
            };
            Err(Box::new(Failure {
                seed: plan.seed,
                arguments: format!("{files}--seed {} --steps {}", plan.seed, plan.steps),
                message,
                last: trace.last(),
            }))
        }
    }
}

/// Returns the result of a world; a panic is a failure like others.
fn without_panic<T>(ran: std::thread::Result<Checked<T>>) -> Checked<T> {
    let panic = match ran {
        Ok(result) => return result,
        Err(panic) => panic,
    };
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    Err(format!("a panic: {}", text.unwrap_or("without a text")))
}
