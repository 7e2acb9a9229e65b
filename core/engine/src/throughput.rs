//! Throughput: the price of requests, the budget of a physical partition, and the admission that
//! joins both.
//!
//! ```text
//! prices             counted work as request units: the one file with such numbers
//! breakdown          the parts of a charge
//! budget             the amount of each second, with overdrafts and bursts; pure
//! meter              the budget of a physical partition, and the account of what it served
//! provision          the throughput of a container, and its division over the partitions
//! succession         budgets and accounts when partitions are split and merged
//! admission          every request for items passes here, before it runs and after
//! partition_charges  the charges of a request that asks several partitions
//! ```
//!
//! Promises: a refused request has done nothing; an admitted request is carried out, whatever it
//! turns out to cost. Only the milliseconds of the `World` enter as time.
//!
//! Left out: metadata has no budget, and scripts reserve nothing before they run.

mod admission;
mod breakdown;
mod budget;
pub(crate) mod meter;
mod partition_charges;
mod prices;
mod provision;
mod succession;

pub(crate) use admission::{Ran, RequestTarget, is_throttled};
pub(crate) use budget::Budget;
pub use budget::Standing;
pub use meter::MeterReport;
pub(crate) use meter::{Reading, SharedBudget, new_shared};
pub(crate) use partition_charges::PartitionCharges;
pub use prices::Profile;
pub(crate) use provision::{Decisions, Given, Provision};

/// The operator's options for throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThroughputOptions {
    /// Refuse requests beyond the budget, in containers without a decision of their own.
    pub enforce: bool,
    /// Let partitions of little throughput save unused budget for some minutes.
    pub burst_capacity: bool,
    /// Refuse requests of low priority first.
    pub priorities: bool,
}
