//! What may be spent in a second: a bucket of tokens that may be overdrawn.
//!
//! Seconds are the budget's own: one begins with the first request after a pause, and they follow each other as long as
//! there is work. Each brings its whole budget at once; what is left of it at its end is lost, and what was overdrawn is
//! taken from the seconds after it. The charge of a request is known only afterwards, so a request is admitted while
//! something is left: one that is dearer than a second is served once, and paid off.
//!
//! Seconds alone would let a client spend one late and the next early. So what was spent in the last ten seconds is kept
//! too, and a request waits while it is more than they bring.
//!
//! Promises: in any ten seconds no more is admitted than they bring and a hundredth of it, but for the overdraft of what
//! was admitted last; a load that lasts gets all that is provisioned. With burst capacity only the second of these holds.
//! Time that goes backwards, or leaps, harms nothing beyond the second in which it does.
//!
//! Budgets are merged and split with the partitions that they are of ([`Budget::merge`], [`Budget::split`]), and change
//! their rates ([`Budget::set_rate`]). What was spent, is owed and was saved is neither lost nor doubled by that: amounts
//! add up, and are shared out in the proportion of the rates. Where a rate falls, what was spent lately under the part
//! that it loses goes to whoever gets that part.
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
/// What burst capacity lets a partition spend in a second, and below which it has any.
const BURST_MOST: i64 = 3_000_000;

/// A budget.
#[derive(Clone, Debug)]
pub struct Budget {
    /// What a second brings.
    rate: i64,
    bursts: bool,
    /// When the second that runs began; 0 before the first one.
    began: u64,
    spending: Spending,
}

/// The amounts of a budget that add up.
#[derive(Clone, Debug, Default)]
struct Spending {
    /// What of this second is spent; more than it brought if it is overdrawn.
    spent: i64,
    /// Unused budget of earlier seconds.
    bank: i64,
    /// What this second spent of that.
    from_bank: i64,
    /// What requests of high priority spent in this second, and are expected to spend.
    high: i64,
    high_expected: i64,
    recent: Recent,
}

/// `of` of `all` parts of an amount, rounded down; nothing of none.
fn proportion(amount: i64, of: i64, all: i64) -> i64 {
    let part = i128::from(amount) * i128::from(of) / i128::from(all.max(1));
    i64::try_from(part).unwrap_or(amount)
}

impl Spending {
    /// Takes `of` of `all` parts out of it.
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
    /// A budget of so many thousandths of a request unit a second, with one second's amount in it.
    pub fn new(rate: u64, bursts: bool) -> Self {
        Budget {
            rate: amount(rate),
            bursts,
            began: 0,
            spending: Spending::default(),
        }
    }

    /// What a second brings, in thousandths of a request unit.
    pub fn rate(&self) -> u64 {
        self.rate.unsigned_abs()
    }

    /// Changes what a second brings, from this one on. What it has spent stays spent; what it has spent lately under the
    /// part of the rate that it loses is given back, but for an overdraft, which stays its own.
    pub fn set_rate(&mut self, now: u64, rate: u64) -> Recent {
        self.advance(now);
        let rate = amount(rate);
        let lost = (self.rate - rate).max(0);
        let recent = &mut self.spending.recent;
        let of_rate = recent.sum().min(recent_most(self.rate));
        let of_lost = recent.part(proportion(of_rate, lost, self.rate), recent.sum());
        self.rate = rate;
        self.spending.bank = self.spending.bank.min(self.bank_most());
        of_lost
    }

    /// Counts what another budget spent lately as its own.
    pub fn remember(&mut self, recent: Recent) {
        self.spending.recent.join(recent);
    }

    /// Adds another budget. The second that runs is the one that began last, so that nothing comes early.
    pub fn merge(&mut self, now: u64, mut other: Budget) {
        self.advance(now);
        other.advance(now);
        self.rate = self.rate.saturating_add(other.rate);
        self.began = self.began.max(other.began);
        self.spending.join(other.spending);
        self.spending.bank = self.spending.bank.min(self.bank_most());
    }

    /// Shares it out to budgets of these rates. They should add up to its own.
    pub fn split(mut self, rates: &[u64]) -> Vec<Budget> {
        let mut left: i64 = rates.iter().map(|rate| amount(*rate)).sum();
        let share = |rate: &u64| {
            let rate = amount(*rate);
            let mut budget = Budget {
                rate,
                spending: self.spending.part(rate, left),
                ..self
            };
            budget.spending.bank = budget.spending.bank.min(budget.bank_most());
            left -= rate;
            budget
        };
        rates.iter().map(share).collect()
    }

    /// Unused budget of earlier seconds, in thousandths of a request unit.
    pub fn banked(&self) -> u64 {
        self.spending.bank.unsigned_abs()
    }

    /// What is left of the second that runs; negative if it is overdrawn.
    fn left(&self) -> i64 {
        self.rate.saturating_sub(self.spending.spent)
    }

    /// What this second may still spend of earlier ones.
    fn left_of_bank(&self) -> i64 {
        self.spending
            .bank
            .min(self.burst_room() - self.spending.from_bank)
            .max(0)
    }

    /// Whether a request may be carried out now.
    ///
    /// # Errors
    /// Milliseconds until that may be so, at least 1.
    pub fn admit(&mut self, now: u64, priority: Option<Priority>) -> Result<(), u64> {
        self.advance(now);
        let reserved = match priority {
            Some(Priority::Low) => (self.spending.high_expected - self.spending.high).max(0),
            Some(Priority::High) | None => 0,
        };
        let in_seconds = self.left().saturating_add(self.left_of_bank()) > reserved;
        if in_seconds && (self.is_bursting() || self.spending.recent.sum() < recent_most(self.rate))
        {
            return Ok(());
        }
        if priority == Some(Priority::High) {
            // It wants more than there is: low priority gets nothing of the next second.
            self.spending.high = self.spending.high.max(self.rate);
        }
        Err(self.wait(now, reserved).max(1))
    }

    /// Takes the charge of a request that was admitted.
    pub fn take(&mut self, now: u64, charge: Charge, priority: Option<Priority>) {
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

    /// Goes on to the second in which `now` lies.
    fn advance(&mut self, now: u64) {
        self.spending.recent.advance(now);
        if self.began == 0 || now + SECOND < self.began {
            // This is the first second, or the clock was set back.
            self.began = now;
            return;
        }
        // Requests that come at the same time may bring their times in another order.
        let seconds = now.saturating_sub(self.began) / SECOND;
        if seconds == 0 {
            return;
        }
        let (bursts, bank_most) = (self.bursts, self.bank_most());
        let brought = i64::try_from(seconds)
            .unwrap_or(i64::MAX)
            .saturating_mul(self.rate);
        let spending = &mut self.spending;
        // The last of these seconds begins now; the others were not used.
        let unused = brought.saturating_sub(spending.spent);
        spending.spent = (-unused).max(0);
        if bursts {
            spending.bank = spending.bank.saturating_add(unused.max(0)).min(bank_most);
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

    /// Milliseconds until something above `reserved` is left and the last ten seconds allow it.
    fn wait(&self, now: u64, reserved: i64) -> u64 {
        // A reserve that outlasts this second cannot be known; there is a new one in the next.
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
            self.spending.recent.wait(now, recent_most(self.rate))
        };
        of_seconds.max(of_recent)
    }

    fn is_bursting(&self) -> bool {
        self.bursts && self.rate < BURST_MOST
    }

    /// What a second may spend of earlier ones.
    fn burst_room(&self) -> i64 {
        if self.is_bursting() {
            BURST_MOST - self.rate
        } else {
            0
        }
    }

    fn bank_most(&self) -> i64 {
        if self.is_bursting() {
            self.rate * BURST_SECONDS
        } else {
            0
        }
    }
}

/// An amount or a rate as budgets count it; a rate is never nothing.
fn amount(rate: u64) -> i64 {
    i64::try_from(rate).unwrap_or(i64::MAX / 1_000_000).max(1)
}

/// What [`Recent`] may hold: what its time brings.
fn recent_most(rate: i64) -> i64 {
    rate.saturating_mul((SLOTS as u64 * SLOT) as i64) / SECOND as i64
}

#[cfg(test)]
mod tests;
