//! What becomes of budgets and accounts when physical partitions take the place of others.
//!
//! ```text
//!  those that go ──▶ one budget, one account ──▶ those that come, in the proportion of what each is given
//!                       ▲ │
//!                       │ ▼  what was spent lately under the part of a rate that changes hands
//!                  those that stay
//! ```
//! A container's throughput is shared by other partitions afterwards, so the rates of those that stay change too. All
//! amounts are kept: what is spent of the second that runs, what is owed, what burst capacity saved, what was spent in the
//! last ten seconds, the account. So the container as a whole never serves more than it is given, and whoever adds up
//! accounts sees no number fall.
//!
//! Requests that were admitted before and are charged after find the meter of a partition that is gone; it passes them on.

use super::budget::{Budget, Recent};
use super::meter::{Account, Allowance, Meter, State};
use super::provision::{Given, rates};
use crate::catalog::Container;
use crate::partition::Partition;
use std::sync::{Arc, MutexGuard};

/// The meters of partitions that go. Whoever comes to one waits until it has heirs.
struct Leaving<'a>(Vec<MutexGuard<'a, State>>);

impl<'a> Leaving<'a> {
    fn of(meters: impl Iterator<Item = &'a Meter>) -> Self {
        Leaving(meters.map(Meter::state).collect())
    }

    /// The budget that they have together, if each has its own.
    fn budget(&mut self, now: u64) -> Option<Budget> {
        let budgets = self
            .0
            .iter_mut()
            .map(|state| match std::mem::take(&mut state.allowance) {
                Allowance::Own(budget) => Some(budget),
                Allowance::Shared(_) | Allowance::Unlimited => None,
            });
        let merged = |mut one: Budget, other: Budget| {
            one.merge(now, other);
            one
        };
        budgets
            .collect::<Option<Vec<Budget>>>()?
            .into_iter()
            .reduce(merged)
    }

    /// Leaves the account, and all that still comes, to these, each of which gets so many parts.
    fn leave_to(mut self, successors: &[(Arc<Meter>, u64)]) {
        let mut account = Account::default();
        for state in &mut self.0 {
            account.join(state.account.clone());
            state.successors = successors.to_vec();
        }
        let mut parts = successors.iter().map(|(_, part)| part).sum();
        for (successor, part) in successors {
            successor.state().account = account.part(*part, parts);
            parts -= part;
        }
    }
}

impl Container {
    /// Hands on what partitions that go have spent, saved and counted to those that take their place, and shares the
    /// throughput anew. `before` and `live` are all partitions that the container had and has; to be called before
    /// anybody can find the new ones.
    pub(crate) fn pass_throughput_on(
        &self,
        now: u64,
        before: &[Arc<Partition>],
        live: &[Arc<Partition>],
    ) {
        let is_in = |all: &[Arc<Partition>], one: &Partition| all.iter().any(|p| p.id == one.id);
        let state = self.provision().state();
        let mut leaving = Leaving::of(before.iter().filter(|p| !is_in(live, p)).map(|p| &*p.meter));
        let came = || live.iter().filter(|p| !is_in(before, p));
        let mut parts: Vec<u64> = came().map(|_| 1).collect();
        match &state.given {
            Given::Nothing => {}
            Given::Shared(_, budget) => came().for_each(|p| p.meter.share(Some(budget.clone()))),
            Given::Own(throughput) => {
                let rates = rates(throughput.most(), &state.decisions.shares, live);
                let (new, old): (Vec<_>, Vec<_>) =
                    live.iter().zip(rates).partition(|(p, _)| !is_in(before, p));
                parts = new.iter().map(|(_, rate)| *rate).collect();
                let stay: Vec<(&Meter, u64)> =
                    old.into_iter().map(|(p, rate)| (&*p.meter, rate)).collect();
                let budgets = match leaving.budget(now) {
                    Some(budget) => share_anew(now, budget, &parts, &stay, state.bursts),
                    None => parts
                        .iter()
                        .map(|rate| Budget::new(*rate, state.bursts))
                        .collect(),
                };
                for ((partition, _), budget) in new.iter().zip(budgets) {
                    partition.meter.state().allowance = Allowance::Own(budget);
                }
            }
        }
        leaving.leave_to(
            &came()
                .map(|p| Arc::clone(&p.meter))
                .zip(parts)
                .collect::<Vec<_>>(),
        );
    }
}

/// Makes budgets of these rates out of that of the partitions that go, and gives those that stay theirs. Where a rate
/// falls and another rises, what was spent lately goes with the part that changes hands.
fn share_anew(
    now: u64,
    mut leaving: Budget,
    rates: &[u64],
    stay: &[(&Meter, u64)],
    bursts: bool,
) -> Vec<Budget> {
    let total = rates.iter().sum::<u64>();
    let gain = total.saturating_sub(leaving.rate());
    let mut moved: Recent = leaving.set_rate(now, total);
    let mut gains = Vec::new();
    for (meter, rate) in stay {
        let (gain, lately) = meter.give(now, *rate, bursts);
        moved.join(lately);
        gains.push(gain);
    }
    let mut left = gain + gains.iter().sum::<u64>();
    let mut part_of = |gain: u64| {
        let part = moved.part(signed(gain), signed(left));
        left -= gain;
        part
    };
    leaving.remember(part_of(gain));
    for ((meter, _), gain) in stay.iter().zip(gains).filter(|(_, gain)| *gain > 0) {
        meter.remember(part_of(gain));
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
    fn what_comes_to_a_meter_after_its_partition_is_gone_is_for_its_heirs() {
        let (gone, successors) = (
            Meter::default(),
            [Arc::new(Meter::default()), Arc::new(Meter::default())],
        );
        gone.give(NOW, 400_000, false);
        let admitted = gone.admit(NOW, None, true, None);
        let mut leaving = Leaving::of([&gone].into_iter());
        let budgets = leaving
            .budget(NOW)
            .expect("it has its own")
            .split(&[300_000, 100_000]);
        for (successor, budget) in successors.iter().zip(budgets) {
            successor.state().allowance = Allowance::Own(budget);
        }
        leaving.leave_to(&[
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
            "they owe 600 RU by now"
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
            "its own account is closed"
        );
    }
}
