//! A physical partition's budget, and the account of what it served.
//!
//! The account is kept whether budgets are enforced or not. Where they are not, a request that would have been refused is
//! counted as such and leaves the budget alone, so that the count is the one that enforcement would have had.

use super::Budget;
use crate::request::{Charge, PartitionSecond, Priority};
use std::sync::{Arc, Mutex, PoisonError};

/// Seconds that are remembered one by one.
const SECONDS: usize = 60;

/// A budget that several partitions share.
pub type SharedBudget = Arc<Mutex<Budget>>;

/// A budget to share, see [`Budget::new`].
pub fn new_shared(rate: u64, bursts: bool) -> SharedBudget {
    Arc::new(Mutex::new(Budget::new(rate, bursts)))
}

/// What a partition may spend.
#[derive(Debug, Default)]
pub enum Allowance {
    /// Whatever it wants: nobody has said what it is given yet.
    #[default]
    Unlimited,
    /// A budget of its own.
    Own(Budget),
    /// The budget of a database.
    Shared(SharedBudget),
}

/// Budget and account of one physical partition.
#[derive(Debug, Default)]
pub struct Meter(Mutex<State>);

#[derive(Debug)]
struct State {
    allowance: Allowance,
    totals: Totals,
    seconds: Box<[PartitionSecond; SECONDS]>,
}

/// What a partition served since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// What its requests were charged.
    pub charged: Charge,
    /// Requests that it carried out.
    pub requests: u64,
    /// Requests that were refused for lack of budget.
    pub throttled: u64,
    /// Requests that were carried out and would have been refused, had budgets been enforced.
    pub would_throttle: u64,
}

/// What a meter shows.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Since the partition was opened.
    pub totals: Totals,
    /// What a second brings, in thousandths of a request unit; `None` if it is not limited.
    pub rate: Option<u64>,
    /// Unused budget that it keeps, in thousandths of a request unit.
    pub banked: u64,
    /// The seconds of the last minute in which there was something, the oldest first.
    pub seconds: Vec<PartitionSecond>,
}

impl Default for State {
    fn default() -> Self {
        let seconds = Box::new([PartitionSecond::default(); SECONDS]);
        State { allowance: Allowance::default(), totals: Totals::default(), seconds }
    }
}

impl Meter {
    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Gives the partition a budget of its own of so many thousandths of a request unit a second; one that it has
    /// changes its rate and keeps what was spent.
    pub fn give(&self, rate: u64, bursts: bool) {
        self.with(|state| match &mut state.allowance {
            Allowance::Own(budget) => budget.set_rate(rate),
            other => *other = Allowance::Own(Budget::new(rate, bursts)),
        });
    }

    /// Lets the partition spend of a budget that others share; of none, if there is none.
    pub fn share(&self, budget: Option<SharedBudget>) {
        let allowance = budget.map_or(Allowance::Unlimited, Allowance::Shared);
        self.with(|state| state.allowance = allowance);
    }

    /// Whether a request may be carried out, and is taken from the budget afterwards. `refused` is the wait for which
    /// something else refuses it; the longer of both counts.
    ///
    /// # Errors
    /// Milliseconds to wait, if budgets are enforced.
    pub fn admit(
        &self,
        now: u64,
        priority: Option<Priority>,
        enforced: bool,
        refused: Option<u64>,
    ) -> Result<bool, u64> {
        self.with(|state| {
            let wait = state.allowance.admit(now, priority).err().max(refused);
            let Some(wait) = wait else { return Ok(true) };
            let second = state.second(now);
            second.throttled += u64::from(enforced);
            second.would_throttle += u64::from(!enforced);
            if enforced {
                state.totals.throttled += 1;
                return Err(wait);
            }
            state.totals.would_throttle += 1;
            Ok(false)
        })
    }

    /// Enters a request that was carried out. `takes` is what [`Meter::admit`] said.
    pub fn charge(&self, now: u64, charge: Charge, priority: Option<Priority>, takes: bool) {
        self.with(|state| {
            if takes {
                state.allowance.take(now, charge, priority);
            }
            state.totals.charged.0 += charge.0;
            state.totals.requests += 1;
            let second = state.second(now);
            second.charged.0 += charge.0;
            second.requests += 1;
        });
    }

    /// What it shows.
    pub fn read(&self, now: u64) -> Reading {
        self.with(|state| {
            let oldest = (now / 1000 + 1).saturating_sub(SECONDS as u64);
            let mut seconds: Vec<_> =
                state.seconds.iter().filter(|s| s.requests + s.throttled > 0 && s.second >= oldest).copied().collect();
            seconds.sort_unstable_by_key(|s| s.second);
            let (rate, banked) = state.allowance.read();
            Reading { totals: state.totals, rate, banked, seconds }
        })
    }
}

impl State {
    /// The account of the second in which `now` lies.
    fn second(&mut self, now: u64) -> &mut PartitionSecond {
        let second = now / 1000;
        let entry = &mut self.seconds[second as usize % SECONDS];
        if entry.second != second {
            *entry = PartitionSecond { second, ..PartitionSecond::default() };
        }
        entry
    }
}

impl Allowance {
    fn on<T>(&mut self, work: impl FnOnce(&mut Budget) -> T) -> Option<T> {
        match self {
            Allowance::Unlimited => None,
            Allowance::Own(budget) => Some(work(budget)),
            Allowance::Shared(budget) => Some(work(&mut budget.lock().unwrap_or_else(PoisonError::into_inner))),
        }
    }

    fn admit(&mut self, now: u64, priority: Option<Priority>) -> Result<(), u64> {
        self.on(|budget| budget.admit(now, priority)).unwrap_or(Ok(()))
    }

    fn take(&mut self, now: u64, charge: Charge, priority: Option<Priority>) {
        self.on(|budget| budget.take(now, charge, priority));
    }

    fn read(&mut self) -> (Option<u64>, u64) {
        let read = self.on(|budget| (budget.rate(), budget.banked()));
        (read.map(|(rate, _)| rate), read.map_or(0, |(_, banked)| banked))
    }
}
