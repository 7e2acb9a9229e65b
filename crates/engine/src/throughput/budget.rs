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
//! Amounts are thousandths of a request unit, times are milliseconds.

use crate::request::{Charge, Priority};

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
    /// What is left of it; negative if it is overdrawn.
    left: i64,
    /// Unused budget of earlier seconds.
    bank: i64,
    /// How much of that this second may still spend.
    bank_left: i64,
    /// What requests of high priority spent in this second, and are expected to spend.
    high: i64,
    high_expected: i64,
    recent: Recent,
}

impl Budget {
    /// A budget of so many thousandths of a request unit a second, with one second's amount in it.
    pub fn new(rate: u64, bursts: bool) -> Self {
        let rate = i64::try_from(rate).unwrap_or(i64::MAX / 1_000_000).max(1);
        let mut budget = Budget {
            rate,
            bursts,
            began: 0,
            left: rate,
            bank: 0,
            bank_left: 0,
            high: 0,
            high_expected: 0,
            recent: Recent::default(),
        };
        budget.bank_left = budget.burst_room();
        budget
    }

    /// What a second brings, in thousandths of a request unit.
    pub fn rate(&self) -> u64 {
        self.rate.unsigned_abs()
    }

    /// Changes what a second brings, from this one on. What it has spent stays spent.
    pub fn set_rate(&mut self, rate: u64) {
        let fresh = Budget::new(rate, self.bursts);
        if fresh.rate == self.rate {
            return;
        }
        self.left = fresh.rate - (self.rate - self.left);
        self.rate = fresh.rate;
        self.bank = self.bank.min(self.bank_most());
        self.bank_left = self.burst_room();
        // What was admitted under another rate says nothing about this one.
        self.recent = Recent::default();
    }

    /// Unused budget of earlier seconds, in thousandths of a request unit.
    pub fn banked(&self) -> u64 {
        self.bank.unsigned_abs()
    }

    /// Whether a request may be carried out now.
    ///
    /// # Errors
    /// Milliseconds until that may be so, at least 1.
    pub fn admit(&mut self, now: u64, priority: Option<Priority>) -> Result<(), u64> {
        self.advance(now);
        let reserved = match priority {
            Some(Priority::Low) => (self.high_expected - self.high).max(0),
            Some(Priority::High) | None => 0,
        };
        let from_bank = self.bank.min(self.bank_left).max(0);
        let admitted = self.left + from_bank > reserved && (self.is_bursting() || self.recent.sum < self.recent_most());
        if admitted {
            return Ok(());
        }
        if priority == Some(Priority::High) {
            // It wants more than there is: low priority gets nothing of the next second.
            self.high = self.high.max(self.rate);
        }
        Err(self.wait(now, reserved).max(1))
    }

    /// Takes the charge of a request that was admitted.
    pub fn take(&mut self, now: u64, charge: Charge, priority: Option<Priority>) {
        self.advance(now);
        let amount = i64::try_from(charge.0).unwrap_or(i64::MAX).saturating_mul(MILLI_PER_HUNDREDTH);
        let from_second = amount.min(self.left.max(0));
        let from_bank = (amount - from_second).min(self.bank.min(self.bank_left).max(0));
        self.left = self.left.saturating_sub(amount - from_bank);
        self.bank -= from_bank;
        self.bank_left -= from_bank;
        if priority == Some(Priority::High) {
            self.high = self.high.saturating_add(amount);
        }
        self.recent.add(amount);
    }

    /// Goes on to the second in which `now` lies.
    fn advance(&mut self, now: u64) {
        self.recent.advance(now);
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
        let brought = i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(self.rate);
        let all = self.left.saturating_add(brought);
        // The last of these seconds begins now; the others were not used.
        self.left = all.min(self.rate);
        if self.bursts {
            self.bank = self.bank.saturating_add((all - self.rate).max(0)).min(self.bank_most());
            self.bank_left = self.burst_room();
        }
        self.high_expected = if seconds == 1 { self.high.min(self.rate) } else { 0 };
        self.high = 0;
        self.began = if seconds == 1 || all < self.rate { self.began + seconds * SECOND } else { now };
    }

    /// Milliseconds until something above `reserved` is left and the last ten seconds allow it.
    fn wait(&self, now: u64, reserved: i64) -> u64 {
        // A reserve that outlasts this second cannot be known; there is a new one in the next.
        let lacking = if self.left > 0 { 0 } else { -self.left };
        let blocked = self.left + self.bank.min(self.bank_left).max(0) <= reserved;
        let of_seconds = if blocked {
            let seconds = u64::try_from(lacking / self.rate).unwrap_or(0) + 1;
            (self.began + seconds * SECOND).saturating_sub(now)
        } else {
            0
        };
        let of_recent = if self.is_bursting() { 0 } else { self.recent.wait(now, self.recent_most()) };
        of_seconds.max(of_recent)
    }

    fn is_bursting(&self) -> bool {
        self.bursts && self.rate < BURST_MOST
    }

    /// What a second may spend of earlier ones.
    fn burst_room(&self) -> i64 {
        if self.is_bursting() { BURST_MOST - self.rate } else { 0 }
    }

    fn bank_most(&self) -> i64 {
        if self.is_bursting() { self.rate * BURST_SECONDS } else { 0 }
    }

    /// What [`Recent`] may hold: what its time brings.
    fn recent_most(&self) -> i64 {
        self.rate.saturating_mul((SLOTS as u64 * SLOT) as i64) / SECOND as i64
    }
}

/// Milliseconds of a slot of [`Recent`].
const SLOT: u64 = 100;
/// Ten seconds lie in so many slots, wherever they begin.
const SLOTS: usize = 101;

/// What was spent in the last ten seconds.
#[derive(Clone, Debug)]
struct Recent {
    spent: Box<[i64; SLOTS]>,
    /// The number of the newest slot: time divided by its length.
    newest: u64,
    sum: i64,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { spent: Box::new([0; SLOTS]), newest: 0, sum: 0 }
    }
}

impl Recent {
    fn advance(&mut self, now: u64) {
        let slot = now / SLOT;
        let slots = SLOTS as u64;
        if slot <= self.newest && self.newest - slot < slots {
            return;
        }
        if slot.abs_diff(self.newest) >= slots {
            *self = Recent { newest: slot, ..Recent::default() };
            return;
        }
        for gone in self.newest + 1..=slot {
            let spent = std::mem::take(&mut self.spent[gone as usize % SLOTS]);
            self.sum -= spent;
        }
        self.newest = slot;
    }

    fn add(&mut self, amount: i64) {
        let slot = &mut self.spent[self.newest as usize % SLOTS];
        // Sums of this size are far beyond every limit on requests; what matters is that nothing wraps.
        let amount = amount.min(i64::MAX / SLOTS as i64 - *slot);
        *slot += amount;
        self.sum += amount;
    }

    /// Milliseconds until less than `most` is left of what is known now.
    fn wait(&self, now: u64, most: i64) -> u64 {
        let mut sum = self.sum;
        let oldest = (self.newest + 1).saturating_sub(SLOTS as u64);
        let mut slots = oldest..=self.newest;
        while sum >= most {
            let Some(slot) = slots.next() else { break };
            sum -= self.spent[slot as usize % SLOTS];
            if sum < most {
                return ((slot + SLOTS as u64) * SLOT).saturating_sub(now);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests;
