//! A budget of request units: an amount for each second, which may be overdrawn.
//!
//! The seconds are the budget's own: one begins with the first request after a pause, and they
//! follow each other as long as there are requests. Each second adds its whole amount at once; what
//! is left at its end is lost, and an overdraft is taken from the seconds after it. The charge of a
//! request is known only afterwards, so a request is admitted while anything is left: a request
//! that costs more than a second is served once, and paid off.
//!
//! Seconds alone would let a client spend one late and the next early. So the spending of the last
//! ten seconds is kept too ([`Recent`]), and a request waits while that is more than ten seconds
//! add.
//!
//! Promises: in any ten seconds no more is admitted than they add and one percent of it, plus the
//! overdraft of the last admitted request; a constant load gets all that is provisioned. With burst
//! capacity only the second promise holds. A clock that goes backwards or leaps has no effect
//! beyond the second in which it does.
//!
//! Budgets are merged and split with their partitions ([`Budget::merge`], [`Budget::split`]) and
//! change their rates ([`Budget::set_rate`]). Spent, owed and saved amounts are neither lost nor
//! doubled by that: they add up, and are divided in the proportion of the rates. Where a rate
//! falls, the recent spending under the lost part goes to the budget that gets that part.
//!
//! Amounts are thousandths of a request unit, times are milliseconds.

mod recent;

use crate::request::{Charge, Priority};
pub(crate) use recent::Recent;
use recent::{SLOT, SLOTS};

/// Milliseconds of a second.
const SECOND: u64 = 1000;
/// Thousandths of a request unit in a hundredth.
const MILLI_PER_HUNDREDTH: i64 = 10;
/// Seconds of unused budget that burst capacity keeps.
const BURST_SECONDS: i64 = 300;
/// The rate up to which burst capacity lets a partition spend. A partition with this rate or more
/// has no burst capacity.
const BURST_RATE_MAX: i64 = 3_000_000;

/// The budget of a partition, of a throughput bucket or of a database.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    /// Amount that each second adds.
    rate: i64,
    bursts: bool,
    /// Start of the current second; 0 before the first second.
    began: u64,
    spending: Spending,
}

/// The amounts of a budget that are added in a merge and divided in a split.
#[derive(Clone, Debug, Default)]
struct Spending {
    /// Amount spent of the current second; more than the rate if the second is overdrawn.
    spent: i64,
    /// Unused budget of earlier seconds.
    bank: i64,
    /// Amount that the current second spent of `bank`.
    from_bank: i64,
    /// Amounts that requests of high priority spent in the current second, and are expected to
    /// spend.
    high: i64,
    high_expected: i64,
    recent: Recent,
}

/// The amounts of a budget that another process goes on with, see `Budget::resume`. Amounts are
/// thousandths of a request unit, times are milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Start of the current second; 0 before the first second.
    pub began: u64,
    /// Amount spent of the current second; more than the rate if the second is overdrawn.
    pub spent: i64,
    /// Unused budget of earlier seconds.
    pub bank: i64,
    /// Amount that the current second spent of `bank`.
    pub from_bank: i64,
    /// The amounts spent in the last ten seconds: the number of a tenth of a second since 1970, and
    /// the amount.
    pub recent: Vec<(u64, i64)>,
}

/// Returns `amount * of / all`, rounded down.
fn proportion(amount: i64, of: i64, all: i64) -> i64 {
    let part = i128::from(amount) * i128::from(of) / i128::from(all.max(1));
    i64::try_from(part).unwrap_or(amount)
}

impl Spending {
    /// Takes the share `of / all` out of the amounts.
    fn part(&mut self, of: i64, all: i64) -> Spending {
        let take = |amount: &mut i64| {
            let part = proportion(*amount, of, all);
            *amount -= part;
            part
        };
        Spending {
            spent: take(&mut self.spent),
            bank: take(&mut self.bank),
            from_bank: take(&mut self.from_bank),
            high: take(&mut self.high),
            high_expected: take(&mut self.high_expected),
            recent: self.recent.part(of, all),
        }
    }

    fn join(&mut self, other: Spending) {
        let add = |amount: &mut i64, more: i64| *amount = amount.saturating_add(more);
        add(&mut self.spent, other.spent);
        add(&mut self.bank, other.bank);
        add(&mut self.from_bank, other.from_bank);
        add(&mut self.high, other.high);
        add(&mut self.high_expected, other.high_expected);
        self.recent.join(other.recent);
    }
}

impl Budget {
    /// Creates a budget of `rate` thousandths of a request unit a second, with the amount of one
    /// second.
    pub(crate) fn new(rate: u64, bursts: bool) -> Self {
        Budget {
            rate: amount(rate),
            bursts,
            began: 0,
            spending: Spending::default(),
        }
    }

    /// Returns the amount that each second adds, in thousandths of a request unit.
    pub(crate) fn rate(&self) -> u64 {
        self.rate.unsigned_abs()
    }

    /// Changes the rate from the current second on. Spent amounts stay spent. Returns the part of
    /// the recent spending that belongs to the lost part of the rate; an overdraft stays here.
    pub(crate) fn set_rate(&mut self, now: u64, rate: u64) -> Recent {
        self.advance(now);
        let rate = amount(rate);
        let lost = (self.rate - rate).max(0);
        let recent = &mut self.spending.recent;
        let of_rate = recent.sum().min(recent_max(self.rate));
        let of_lost = recent.part(proportion(of_rate, lost, self.rate), recent.sum());
        self.rate = rate;
        self.spending.bank = self.spending.bank.min(self.bank_max());
        of_lost
    }

    /// Adds recent spending of another budget.
    pub(crate) fn remember(&mut self, recent: Recent) {
        self.spending.recent.join(recent);
    }

    /// Adds another budget. The current second is the one that began last, so that no amount comes
    /// early.
    pub(crate) fn merge(&mut self, now: u64, mut other: Budget) {
        self.advance(now);
        other.advance(now);
        self.rate = self.rate.saturating_add(other.rate);
        self.began = self.began.max(other.began);
        self.spending.join(other.spending);
        self.spending.bank = self.spending.bank.min(self.bank_max());
    }

    /// Divides the budget into budgets of these rates, which should add up to its rate.
    pub(crate) fn split(mut self, rates: &[u64]) -> Vec<Budget> {
        let mut left: i64 = rates.iter().map(|rate| amount(*rate)).sum();
        let share = |rate: &u64| {
            let rate = amount(*rate);
            let mut budget = Budget {
                rate,
                spending: self.spending.part(rate, left),
                ..self
            };
            budget.spending.bank = budget.spending.bank.min(budget.bank_max());
            left -= rate;
            budget
        };
        rates.iter().map(share).collect()
    }

    /// Returns what was spent, owed and saved, for a process that goes on with the budget.
    pub(crate) fn standing(&mut self, now: u64) -> Standing {
        self.advance(now);
        let Spending {
            spent,
            bank,
            from_bank,
            ..
        } = self.spending;
        Standing {
            began: self.began,
            spent,
            bank,
            from_bank,
            recent: self.spending.recent.slots(),
        }
    }

    /// Goes on with what another process has spent, owes and has saved. The rate stays.
    pub(crate) fn resume(&mut self, standing: &Standing) {
        self.began = standing.began;
        let bank = standing.bank.clamp(0, self.bank_max());
        self.spending = Spending {
            spent: standing.spent,
            bank,
            from_bank: standing.from_bank,
            recent: Recent::of_slots(&standing.recent),
            ..Spending::default()
        };
    }

    /// Returns the unused budget of earlier seconds, in thousandths of a request unit.
    pub(crate) fn banked(&self) -> u64 {
        self.spending.bank.unsigned_abs()
    }

    /// Returns the amount left of the current second; negative if it is overdrawn.
    fn left(&self) -> i64 {
        self.rate.saturating_sub(self.spending.spent)
    }

    /// Returns the amount that the current second may still spend of earlier seconds.
    fn left_of_bank(&self) -> i64 {
        self.spending
            .bank
            .min(self.burst_allowance() - self.spending.from_bank)
            .max(0)
    }

    /// Admits a request.
    ///
    /// # Errors
    /// Milliseconds until the request may be admitted, at least 1.
    pub(crate) fn admit(&mut self, now: u64, priority: Option<Priority>) -> Result<(), u64> {
        self.advance(now);
        let reserved = match priority {
            Some(Priority::Low) => (self.spending.high_expected - self.spending.high).max(0),
            Some(Priority::High) | None => 0,
        };
        let in_seconds = self.left().saturating_add(self.left_of_bank()) > reserved;
        if in_seconds && (self.is_bursting() || self.spending.recent.sum() < recent_max(self.rate))
        {
            return Ok(());
        }
        if priority == Some(Priority::High) {
            // Requests of high priority want more than there is: low priority gets nothing of the
            // next second.
            self.spending.high = self.spending.high.max(self.rate);
        }
        Err(self.wait(now, reserved).max(1))
    }

    /// Takes the charge of an admitted request.
    pub(crate) fn take(&mut self, now: u64, charge: Charge, priority: Option<Priority>) {
        self.advance(now);
        let amount = i64::try_from(charge.0)
            .unwrap_or(i64::MAX)
            .saturating_mul(MILLI_PER_HUNDREDTH);
        let beyond_second = amount - amount.min(self.left().max(0));
        let from_bank = beyond_second.min(self.left_of_bank());
        let spending = &mut self.spending;
        spending.spent = spending.spent.saturating_add(amount - from_bank);
        spending.bank -= from_bank;
        spending.from_bank += from_bank;
        if priority == Some(Priority::High) {
            spending.high = spending.high.saturating_add(amount);
        }
        spending.recent.add(amount);
    }

    /// Moves to the second in which `now` lies.
    fn advance(&mut self, now: u64) {
        self.spending.recent.advance(now);
        if self.began == 0 || now + SECOND < self.began {
            // This is the first second, or the clock was set back.
            self.began = now;
            return;
        }
        // Requests that arrive together may bring their times in another order.
        let seconds = now.saturating_sub(self.began) / SECOND;
        if seconds == 0 {
            return;
        }
        let (bursts, bank_max) = (self.bursts, self.bank_max());
        let brought = i64::try_from(seconds)
            .unwrap_or(i64::MAX)
            .saturating_mul(self.rate);
        let spending = &mut self.spending;
        // The last of these seconds begins now; the seconds before were not used.
        let unused = brought.saturating_sub(spending.spent);
        spending.spent = (-unused).max(0);
        if bursts {
            spending.bank = spending.bank.saturating_add(unused.max(0)).min(bank_max);
        }
        spending.from_bank = 0;
        spending.high_expected = if seconds == 1 {
            spending.high.min(self.rate)
        } else {
            0
        };
        spending.high = 0;
        self.began = if seconds == 1 || unused < 0 {
            self.began + seconds * SECOND
        } else {
            now
        };
    }

    /// Returns the milliseconds until more than `reserved` is left and the last ten seconds allow
    /// it.
    fn wait(&self, now: u64, reserved: i64) -> u64 {
        // The reserve of the next second is not known yet, so only this one counts.
        let lacking = -self.left().min(0);
        let blocked = self.left().saturating_add(self.left_of_bank()) <= reserved;
        let of_seconds = if blocked {
            let seconds = u64::try_from(lacking / self.rate).unwrap_or(0) + 1;
            (self.began + seconds * SECOND).saturating_sub(now)
        } else {
            0
        };
        let of_recent = if self.is_bursting() {
            0
        } else {
            self.spending.recent.wait(now, recent_max(self.rate))
        };
        of_seconds.max(of_recent)
    }

    fn is_bursting(&self) -> bool {
        self.bursts && self.rate < BURST_RATE_MAX
    }

    /// Returns the amount that a second may spend of earlier seconds.
    fn burst_allowance(&self) -> i64 {
        if self.is_bursting() {
            BURST_RATE_MAX - self.rate
        } else {
            0
        }
    }

    /// Returns the unused budget that burst capacity keeps at most.
    fn bank_max(&self) -> i64 {
        if self.is_bursting() {
            self.rate * BURST_SECONDS
        } else {
            0
        }
    }
}

/// Converts a rate. A rate is at least 1.
fn amount(rate: u64) -> i64 {
    i64::try_from(rate).unwrap_or(i64::MAX / 1_000_000).max(1)
}

/// Returns the amount that [`Recent`] may hold: what its time span adds at a rate.
fn recent_max(rate: i64) -> i64 {
    rate.saturating_mul((SLOTS as u64 * SLOT) as i64) / SECOND as i64
}

#[cfg(test)]
mod tests;
