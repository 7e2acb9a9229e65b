//! The amounts spent in the last ten seconds, in slots of a tenth of a second.
//!
//! Amounts are thousandths of a request unit, times are milliseconds.

use super::proportion;

/// Milliseconds of a slot.
pub(super) const SLOT: u64 = 100;
/// The number of slots that any ten seconds touch at most.
pub(super) const SLOTS: usize = 101;

/// The amounts spent in the last ten seconds. The slots are empty until something is spent, because
/// most budgets of a server with many containers are not used for a long time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    spent: Vec<i64>,
    /// The number of the newest slot: time divided by its length.
    newest: u64,
    sum: i64,
}

impl Recent {
    /// Moves to the slot in which `now` lies and drops slots that are older than ten seconds.
    pub(super) fn advance(&mut self, now: u64) {
        let slot = now / SLOT;
        let slots = SLOTS as u64;
        if slot <= self.newest && self.newest - slot < slots {
            return;
        }
        if slot.abs_diff(self.newest) >= slots {
            *self = Recent {
                newest: slot,
                ..Recent::default()
            };
            return;
        }
        for reused in self.newest + 1..=slot {
            if let Some(spent) = self.spent.get_mut(reused as usize % SLOTS) {
                self.sum -= std::mem::take(spent);
            }
        }
        self.newest = slot;
    }

    pub(super) fn add(&mut self, amount: i64) {
        self.put(self.newest as usize % SLOTS, amount);
    }

    fn put(&mut self, at: usize, amount: i64) {
        self.spent.resize(SLOTS, 0);
        // Amounts of this size are far beyond every limit; the bound only prevents an overflow.
        let amount = amount.min(i64::MAX / SLOTS as i64 - self.spent[at]);
        self.spent[at] += amount;
        self.sum += amount;
    }

    /// Returns the milliseconds until the sum falls below `limit` if nothing more is spent.
    pub(super) fn wait(&self, now: u64, limit: i64) -> u64 {
        let mut sum = self.sum;
        let oldest = (self.newest + 1).saturating_sub(SLOTS as u64);
        let mut slots = oldest..=self.newest;
        while sum >= limit {
            let Some(slot) = slots.next() else { break };
            let spent = self.spent.get(slot as usize % SLOTS);
            sum -= spent.copied().unwrap_or(0);
            if sum < limit {
                return ((slot + SLOTS as u64) * SLOT).saturating_sub(now);
            }
        }
        0
    }

    /// Returns the slots in which something was spent, with their numbers.
    pub(super) fn slots(&self) -> Vec<(u64, i64)> {
        let oldest = (self.newest + 1).saturating_sub(SLOTS as u64);
        let mut slots = Vec::new();
        for slot in oldest..=self.newest {
            match self.spent.get(slot as usize % SLOTS) {
                Some(spent) if *spent > 0 => slots.push((slot, *spent)),
                _ => {}
            }
        }
        slots
    }

    /// Creates the amounts of these slots, which are in ascending order. Slots more than ten
    /// seconds before the last are dropped.
    pub(super) fn of_slots(slots: &[(u64, i64)]) -> Recent {
        let mut recent = Recent::default();
        for (slot, amount) in slots {
            recent.advance(slot.saturating_mul(SLOT));
            recent.add((*amount).max(0));
        }
        recent
    }

    /// Returns the sum of all slots.
    pub(super) fn sum(&self) -> i64 {
        self.sum
    }

    /// Takes the share `of / all` out of each slot.
    pub(crate) fn part(&mut self, of: i64, all: i64) -> Recent {
        let mut part = Recent {
            newest: self.newest,
            ..Recent::default()
        };
        part.spent.resize(self.spent.len(), 0);
        for (own, taken) in self.spent.iter_mut().zip(part.spent.iter_mut()) {
            *taken = proportion(*own, of, all);
            *own -= *taken;
            part.sum += *taken;
        }
        self.sum -= part.sum;
        part
    }

    /// Adds the amounts of another, slot by slot.
    pub(crate) fn join(&mut self, mut other: Recent) {
        let newest = self.newest.max(other.newest);
        self.advance(newest * SLOT);
        other.advance(newest * SLOT);
        for (at, amount) in other.spent.iter().enumerate() {
            self.put(at, *amount);
        }
    }
}
