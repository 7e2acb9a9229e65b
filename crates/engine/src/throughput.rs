//! Throughput: what requests cost, what a physical partition may spend, and the one place where both meet.
//!
//! ```text
//! prices     counted work as request units: the one file with such numbers
//! budget     what may be spent in a second, and what becomes of the rest; pure
//! meter      a physical partition's budget and the account of what it served
//! provision  what a container is given, and how its partitions share it
//! succession what becomes of budgets and accounts when partitions take the place of others
//! breakdown  what a charge is made of
//! admission  every request for items passes here, before it is carried out and after
//! ```
//!
//! Promises: a request that is refused has done nothing; what is admitted is carried out, whatever it turns out to cost.
//! Nothing depends on time but the milliseconds that the `World` gives.
//!
//! Left out: metadata has no budget of its own here, and scripts reserve nothing before they run.

mod admission;
mod breakdown;
mod budget;
mod meter;
mod partition_charges;
mod prices;
mod provision;
mod succession;

pub(crate) use admission::{RequestTarget, is_throttled};
pub(crate) use budget::Budget;
pub(crate) use meter::{Meter, Reading, SharedBudget, new_shared};
pub(crate) use partition_charges::PartitionCharges;
pub use prices::Profile;
pub(crate) use provision::{Decisions, Given, Provision};

/// What the operator decides about throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThroughputOptions {
    /// Whether requests beyond the budget are refused, in containers that do not decide it themselves.
    pub enforce: bool,
    /// Whether partitions of little throughput keep what they do not use, for some minutes.
    pub burst_capacity: bool,
    /// Whether requests of low priority are refused first.
    pub priorities: bool,
}
