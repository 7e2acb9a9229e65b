//! Budgets and accounts when physical partitions are replaced by their successors.
//!
//! ```text
//!  partitions that go ──▶ one budget, one account ──▶ successors, in the proportion of their rates
//!                            ▲ │
//!                            │ ▼  recent spending under the part of a rate that changes hands
//!                      partitions that stay
//! ```
//!
//! The throughput of a container is divided over other partitions afterwards, so the rates of the
//! partitions that stay change too. All amounts are kept: spent of the current second, owed, saved
//! by burst capacity, spent in the last ten seconds, and the account. So the container as a whole
//! never serves more than it is given, and a sum over accounts never falls.
//!
//! A request that was admitted before the change and is charged after it finds the meter of a
//! partition that is gone; that meter passes the charge on to its successors.

use super::budget::{Budget, Recent};
use super::meter::{Account, Allowance, Meter, State};
use super::provision::{Given, rates};
use crate::catalog::Container;
use crate::partition::Partition;
use std::sync::{Arc, MutexGuard};

/// The locked meters of partitions that go. Requests wait at them until their successors are
/// registered.
struct Leaving<'a>(Vec<MutexGuard<'a, State>>);

impl<'a> Leaving<'a> {
    fn of(meters: impl Iterator<Item = &'a Meter>) -> Self {
        Leaving(meters.map(Meter::state).collect())
    }

    /// Takes the merged budget of the partitions, or returns `None` if one of them has no budget of
    /// its own.
    fn take_budget(&mut self, now: u64) -> Option<Budget> {
        let mut merged: Option<Budget> = None;
        let mut all_own = true;
        for state in &mut self.0 {
            match std::mem::take(&mut state.allowance) {
                Allowance::Own(budget) => match &mut merged {
                    Some(merged) => merged.merge(now, budget),
                    None => merged = Some(budget),
                },
                Allowance::Shared(_) | Allowance::Unlimited => all_own = false,
            }
        }
        merged.filter(|_| all_own)
    }

    /// Hands the accounts, and every charge that still comes, to successors. Each gets its number
    /// of parts.
    fn hand_over(mut self, successors: &[(Arc<Meter>, u64)]) {
        let mut account = Account::default();
        for state in &mut self.0 {
            account.join(state.account.clone());
            state.successors = successors.to_vec();
        }
        let mut parts_left = successors.iter().map(|(_, part)| part).sum();
        for (successor, part) in successors {
            successor.state().account = account.part(*part, parts_left);
            parts_left -= part;
        }
    }
}

impl Container {
    /// Hands the spending, savings and accounts of partitions that go to their successors, and
    /// divides the throughput of the container anew. `before` and `live` are all partitions before
    /// and after the change. Called before a request can find the successors.
    pub(crate) fn pass_throughput_on(
        &self,
        now: u64,
        before: &[Arc<Partition>],
        live: &[Arc<Partition>],
    ) {
        let is_in = |all: &[Arc<Partition>], one: &Partition| all.iter().any(|p| p.id == one.id);
        let gone = before.iter().filter(|p| !is_in(live, p));
        let successors: Vec<_> = live.iter().filter(|p| !is_in(before, p)).collect();

        // The meters of the partitions that go stay locked until their successors have everything.
        let state = self.provision().state();
        let mut leaving = Leaving::of(gone.map(|p| &*p.meter));
        let mut parts: Vec<u64> = vec![1; successors.len()];
        match &state.given {
            Given::Nothing => {}
            Given::Shared(_, budget) => {
                for successor in &successors {
                    successor.meter.share(Some(budget.clone()));
                }
            }
            Given::Own(throughput) => {
                let rates = rates(throughput.ru_max(), &state.decisions.shares, live);
                let mut new = Vec::new();
                let mut stay: Vec<(&Meter, u64)> = Vec::new();
                for (partition, rate) in live.iter().zip(rates) {
                    match is_in(before, partition) {
                        true => stay.push((&partition.meter, rate)),
                        false => new.push((partition, rate)),
                    }
                }
                parts = new.iter().map(|(_, rate)| *rate).collect();
                let budgets = match leaving.take_budget(now) {
                    Some(budget) => divide(now, budget, &parts, &stay, state.bursts),
                    None => {
                        let rates = parts.iter();
                        rates.map(|rate| Budget::new(*rate, state.bursts)).collect()
                    }
                };
                for ((partition, _), budget) in new.iter().zip(budgets) {
                    partition.meter.state().allowance = Allowance::Own(budget);
                }
            }
        }
        let meters = successors.iter().map(|p| Arc::clone(&p.meter));
        let successors: Vec<_> = meters.zip(parts).collect();
        leaving.hand_over(&successors);
    }
}

/// Divides the budget of the partitions that go into budgets of these rates, and gives the
/// partitions that stay their new rates. Recent spending goes along with the part of a rate that
/// changes hands.
fn divide(
    now: u64,
    mut leaving: Budget,
    rates: &[u64],
    stay: &[(&Meter, u64)],
    bursts: bool,
) -> Vec<Budget> {
    // Every budget whose rate falls gives up the recent spending under the lost part.
    let total = rates.iter().sum::<u64>();
    let own_gain = total.saturating_sub(leaving.rate());
    let mut moved: Recent = leaving.set_rate(now, total);
    let mut gains = Vec::new();
    for (meter, rate) in stay {
        let (gain, given_up) = meter.give(now, *rate, bursts);
        moved.join(given_up);
        gains.push(gain);
    }

    // Every budget whose rate rises takes a share in the proportion of its gain.
    let mut gain_left = own_gain + gains.iter().sum::<u64>();
    let mut part_of = |gain: u64| {
        let part = moved.part(signed(gain), signed(gain_left));
        gain_left -= gain;
        part
    };
    leaving.remember(part_of(own_gain));
    for ((meter, _), gain) in stay.iter().zip(gains) {
        if gain > 0 {
            meter.remember(part_of(gain));
        }
    }
    leaving.split(rates)
}

fn signed(rate: u64) -> i64 {
    i64::try_from(rate).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Charge;

    const NOW: u64 = 1_767_225_600_000;

    #[test]
    fn a_charge_at_the_meter_of_a_partition_that_is_gone_goes_to_the_successors() {
        let (gone, successors) = (
            Meter::default(),
            [Arc::new(Meter::default()), Arc::new(Meter::default())],
        );
        gone.give(NOW, 400_000, false);
        let admitted = gone.admit(NOW, None, true, None);
        let mut leaving = Leaving::of([&gone].into_iter());
        let budgets = leaving
            .take_budget(NOW)
            .expect("the partition has a budget of its own")
            .split(&[300_000, 100_000]);
        for (successor, budget) in successors.iter().zip(budgets) {
            successor.state().allowance = Allowance::Own(budget);
        }
        leaving.hand_over(&[
            (Arc::clone(&successors[0]), 3),
            (Arc::clone(&successors[1]), 1),
        ]);

        assert_eq!(admitted, Ok(true));
        gone.charge(NOW, Charge(100_001), None, true);
        let totals = successors
            .each_ref()
            .map(|successor| successor.read(NOW).totals);
        assert_eq!(
            totals.map(|totals| (totals.charged, totals.requests)),
            [(Charge(75_000), 1), (Charge(25_001), 0)]
        );
        assert_eq!(
            gone.admit(NOW, None, true, None),
            Err(2_000),
            "the successors owe 600 RU"
        );
        assert_eq!(gone.admit(NOW, None, false, None), Ok(false));
        assert_eq!(
            successors
                .each_ref()
                .map(|successor| successor.read(NOW).totals.throttled),
            [1, 0]
        );
        assert_eq!(
            gone.read(NOW).totals,
            Default::default(),
            "the account of the partition is closed"
        );
    }
}
