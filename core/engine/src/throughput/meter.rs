//! The budget of a physical partition, and the account of what the partition served.
//!
//! The account is kept whether budgets are enforced or not. If they are not, a request that would
//! have been refused is counted as such and takes nothing from the budget, so that the count is the
//! one that enforcement would have had.
//!
//! The meter of a partition that is gone passes later requests on to its successors, see
//! `succession.rs`.

use super::Budget;
use super::budget::{Recent, Standing};
use crate::request::{Charge, PartitionSecond, Priority};
use orrery_model::sync::lock;
use std::sync::{Arc, Mutex, MutexGuard};

/// Seconds of the account that are kept one by one.
const SECONDS: usize = 60;

/// A budget that several partitions share.
pub(crate) type SharedBudget = Arc<Mutex<Budget>>;

/// Creates a budget to share, see [`Budget::new`].
pub(crate) fn new_shared(rate: u64, bursts: bool) -> SharedBudget {
    Arc::new(Mutex::new(Budget::new(rate, bursts)))
}

/// The budget that a partition spends of.
#[derive(Clone, Debug, Default)]
pub(crate) enum Allowance {
    /// No limit: no throughput is known yet.
    #[default]
    Unlimited,
    /// A budget of its own.
    Own(Budget),
    /// The budget of a database.
    Shared(SharedBudget),
}

/// Budget and account of one physical partition.
#[derive(Debug, Default)]
pub(crate) struct Meter(Mutex<State>);

/// The state of a meter.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The budget.
    pub allowance: Allowance,
    /// The account.
    pub account: Account,
    /// The successors of a partition that is gone, and the parts of later charges that each gets.
    pub successors: Vec<(Arc<Meter>, u64)>,
    /// The part of the sums that the last report had, or that came from reports of other processes.
    reported: Totals,
}

/// The requests of a partition that one process has carried out or refused since its last report.
/// The process that owns the partition and the leaseholder tell each other, so that both
/// have the whole budget and the whole account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterReport {
    /// Charges of the requests, in hundredths of a request unit.
    pub charged: u64,
    /// Requests that were carried out.
    pub requests: u64,
    /// Requests that were refused for lack of budget.
    pub throttled: u64,
    /// Requests that were carried out and would have been refused if budgets were enforced.
    pub would_throttle: u64,
}

/// The account of what a partition served. The seconds are empty until the first request, because
/// most partitions of a server with many containers serve none for a long time.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    totals: Totals,
    seconds: Vec<PartitionSecond>,
}

/// The sums of what a partition served since it was opened, with its part of the sums of the
/// partitions that it replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    /// Charges of its requests.
    pub charged: Charge,
    /// Requests that were carried out.
    pub requests: u64,
    /// Requests that were refused for lack of budget.
    pub throttled: u64,
    /// Requests that were carried out and would have been refused if budgets were enforced.
    pub would_throttle: u64,
}

/// A reading of a meter.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// Sums since the partition was opened.
    pub totals: Totals,
    /// Amount of a second in thousandths of a request unit; `None` if the partition is not limited.
    pub rate: Option<u64>,
    /// Saved budget in thousandths of a request unit.
    pub banked: u64,
    /// The seconds of the last minute with requests, the oldest first.
    pub seconds: Vec<PartitionSecond>,
}

impl Meter {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }

    /// Gives the partition a budget of its own of `rate` thousandths of a request unit a second. An
    /// existing budget changes its rate and keeps its spending. Returns the gain of the rate, and
    /// the recent spending under the lost part of the rate.
    pub(crate) fn give(&self, now: u64, rate: u64, bursts: bool) -> (u64, Recent) {
        match &mut self.state().allowance {
            Allowance::Own(budget) => (
                rate.saturating_sub(budget.rate()),
                budget.set_rate(now, rate),
            ),
            other => {
                *other = Allowance::Own(Budget::new(rate, bursts));
                (0, Recent::default())
            }
        }
    }

    /// Adds recent spending of another budget.
    pub(crate) fn remember(&self, recent: Recent) {
        self.state().allowance.on(|budget| budget.remember(recent));
    }

    /// Lets the partition spend of a shared budget, or without limit if there is none.
    pub(crate) fn share(&self, budget: Option<SharedBudget>) {
        self.state().allowance = budget.map_or(Allowance::Unlimited, Allowance::Shared);
    }

    /// Admits a request. Returns true if its charge is to be taken from the budget. `refused` is
    /// the wait for which a throughput bucket refuses the request; the longer wait counts.
    ///
    /// # Errors
    /// Milliseconds to wait, if budgets are enforced.
    pub(crate) fn admit(
        &self,
        now: u64,
        priority: Option<Priority>,
        enforced: bool,
        refused: Option<u64>,
    ) -> Result<bool, u64> {
        let mut state = self.state();
        if !state.successors.is_empty() {
            for (successor, _) in &state.successors {
                if !successor.admit(now, priority, enforced, refused)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let wait = state.allowance.admit(now, priority).err().max(refused);
        let Some(wait) = wait else { return Ok(true) };
        let Account { totals, .. } = &mut state.account;
        totals.throttled += u64::from(enforced);
        totals.would_throttle += u64::from(!enforced);
        let second = state.account.second(now);
        second.throttled += u64::from(enforced);
        second.would_throttle += u64::from(!enforced);
        if enforced { Err(wait) } else { Ok(false) }
    }

    /// Charges a request that was carried out. `takes` is the result of [`Meter::admit`].
    pub(crate) fn charge(&self, now: u64, charge: Charge, priority: Option<Priority>, takes: bool) {
        self.enter(now, (1, charge), priority, takes);
    }

    /// Adds requests and their charge to the account.
    fn enter(
        &self,
        now: u64,
        (mut requests, charge): (u64, Charge),
        priority: Option<Priority>,
        takes: bool,
    ) {
        let mut state = self.state();
        if !state.successors.is_empty() {
            let (mut rest, mut parts) = (
                charge.0,
                state.successors.iter().map(|(_, part)| part).sum(),
            );
            for (successor, part) in &state.successors {
                let share = proportion(rest, *part, parts);
                successor.enter(
                    now,
                    (std::mem::take(&mut requests), Charge(share)),
                    priority,
                    takes,
                );
                (rest, parts) = (rest - share, parts - part);
            }
            return;
        }
        if takes {
            state.allowance.take(now, charge, priority);
        }
        let Account { totals, .. } = &mut state.account;
        totals.charged.0 += charge.0;
        totals.requests += requests;
        let second = state.account.second(now);
        second.charged.0 += charge.0;
        second.requests += requests;
    }

    /// Returns what this process has counted since the last report; `None` if that is nothing.
    pub(crate) fn take_report(&self) -> Option<MeterReport> {
        let mut state = self.state();
        let (totals, before) = (state.account.totals, state.reported);
        state.reported = totals;
        let report = MeterReport {
            charged: totals.charged.0.saturating_sub(before.charged.0),
            requests: totals.requests.saturating_sub(before.requests),
            throttled: totals.throttled.saturating_sub(before.throttled),
            would_throttle: totals.would_throttle.saturating_sub(before.would_throttle),
        };
        (report != MeterReport::default()).then_some(report)
    }

    /// Adds what another process has counted, to the account and to the spending of the budget.
    pub(crate) fn add_report(&self, now: u64, report: MeterReport) {
        let mut state = self.state();
        state.allowance.take(now, Charge(report.charged), None);
        let State {
            account, reported, ..
        } = &mut *state;
        for totals in [&mut account.totals, reported] {
            totals.charged.0 += report.charged;
            totals.requests += report.requests;
            totals.throttled += report.throttled;
            totals.would_throttle += report.would_throttle;
        }
        let second = account.second(now);
        second.charged.0 += report.charged;
        second.requests += report.requests;
        second.throttled += report.throttled;
        second.would_throttle += report.would_throttle;
    }

    /// Returns the standing of the partition's own budget; `None` if the partition has none.
    pub(crate) fn standing(&self, now: u64) -> Option<Standing> {
        match &mut self.state().allowance {
            Allowance::Own(budget) => Some(budget.standing(now)),
            Allowance::Shared(_) | Allowance::Unlimited => None,
        }
    }

    /// Goes on with the standing of a budget in another process.
    pub(crate) fn resume(&self, standing: &Standing) {
        if let Allowance::Own(budget) = &mut self.state().allowance {
            budget.resume(standing);
        }
    }

    /// Returns the mean charge of a second over the last ten full seconds, in request units.
    pub(crate) fn load(&self, now: u64) -> u64 {
        const SPAN: u64 = 10;
        let this = now / 1000;
        let state = self.state();
        let recent = state.account.seconds.iter();
        let recent = recent.filter(|entry| entry.second < this && entry.second + SPAN >= this);
        let sum: u64 = recent.map(|entry| entry.charged.0).sum();
        sum / SPAN / 100
    }

    /// Returns the amount of a second in thousandths of a request unit; `None` without a limit.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.state().allowance.read().0
    }

    /// Returns the reading at a millisecond.
    pub(crate) fn read(&self, now: u64) -> Reading {
        let mut state = self.state();
        let (rate, banked) = state.allowance.read();
        Reading {
            totals: state.account.totals,
            rate,
            banked,
            seconds: state.account.seconds_until(now),
        }
    }
}

/// Returns `amount * of / all`, rounded down.
fn proportion(amount: u64, of: u64, all: u64) -> u64 {
    let part = u128::from(amount) * u128::from(of) / u128::from(all.max(1));
    u64::try_from(part).unwrap_or(amount)
}

impl Account {
    /// Returns the entry of the second in which `now` lies.
    fn second(&mut self, now: u64) -> &mut PartitionSecond {
        let second = now / 1000;
        let entry = &mut self.all_seconds()[second as usize % SECONDS];
        if entry.second != second {
            *entry = PartitionSecond {
                second,
                ..PartitionSecond::default()
            };
        }
        entry
    }

    /// Returns the entries of all seconds, which exist from the first call on.
    fn all_seconds(&mut self) -> &mut [PartitionSecond] {
        self.seconds.resize(SECONDS, PartitionSecond::default());
        &mut self.seconds
    }

    /// Returns the seconds with requests of the minute until `now`, the oldest first.
    fn seconds_until(&self, now: u64) -> Vec<PartitionSecond> {
        let oldest = (now / 1000 + 1).saturating_sub(SECONDS as u64);
        let is_shown =
            |s: &&PartitionSecond| s.requests + s.throttled + s.charged.0 > 0 && s.second >= oldest;
        let mut seconds: Vec<_> = self.seconds.iter().filter(is_shown).copied().collect();
        seconds.sort_unstable_by_key(|s| s.second);
        seconds
    }

    /// Adds another account.
    pub(crate) fn join(&mut self, mut other: Account) {
        let pairs = self.all_seconds().iter_mut();
        for (own, other) in pairs.zip(other.seconds.iter_mut()) {
            if own.second < other.second {
                *own = std::mem::take(other);
            }
        }
        self.with_each(&mut other, |own, more| *own += *more);
    }

    /// Takes the share `of / all` out of the account.
    pub(crate) fn part(&mut self, of: u64, all: u64) -> Account {
        let mut part = Account::default();
        for (own, part) in self.seconds.iter().zip(part.all_seconds().iter_mut()) {
            part.second = own.second;
        }
        self.with_each(&mut part, |own, part| {
            *part = proportion(*own, of, all);
            *own -= *part;
        });
        part
    }

    /// Calls `on` with each number of this account and the same number of another.
    fn with_each(&mut self, other: &mut Account, mut on: impl FnMut(&mut u64, &mut u64)) {
        let (a, b) = (&mut self.totals, &mut other.totals);
        on(&mut a.charged.0, &mut b.charged.0);
        on(&mut a.requests, &mut b.requests);
        on(&mut a.throttled, &mut b.throttled);
        on(&mut a.would_throttle, &mut b.would_throttle);
        for (a, b) in self
            .seconds
            .iter_mut()
            .zip(other.seconds.iter_mut())
            .filter(|(a, b)| a.second == b.second)
        {
            on(&mut a.charged.0, &mut b.charged.0);
            on(&mut a.requests, &mut b.requests);
            on(&mut a.throttled, &mut b.throttled);
            on(&mut a.would_throttle, &mut b.would_throttle);
        }
    }
}

impl Allowance {
    fn on<T>(&mut self, work: impl FnOnce(&mut Budget) -> T) -> Option<T> {
        match self {
            Allowance::Unlimited => None,
            Allowance::Own(budget) => Some(work(budget)),
            Allowance::Shared(budget) => Some(work(&mut lock(budget))),
        }
    }

    fn admit(&mut self, now: u64, priority: Option<Priority>) -> Result<(), u64> {
        self.on(|budget| budget.admit(now, priority))
            .unwrap_or(Ok(()))
    }

    fn take(&mut self, now: u64, charge: Charge, priority: Option<Priority>) {
        self.on(|budget| budget.take(now, charge, priority));
    }

    fn read(&mut self) -> (Option<u64>, u64) {
        let read = self.on(|budget| (budget.rate(), budget.banked()));
        (
            read.map(|(rate, _)| rate),
            read.map_or(0, |(_, banked)| banked),
        )
    }
}
