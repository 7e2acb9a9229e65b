//! Provision: the throughput of a container, its division over the partitions, and the decisions
//! about it that the offer does not hold.
//!
//! A container spends the throughput of its own offer or shares that of its database. Its
//! partitions have equal parts, or parts that were set by hand. The decisions are stored with the
//! container's record ([`Decisions::kept`]); rates are computed again whenever the offer changes
//! ([`Container::share_throughput`]) or the partitions do (`succession.rs`).

use super::Budget;
use super::meter::SharedBudget;
use crate::Engine;
use crate::catalog::Container;
use crate::partition::Partition;
use crate::request::{
    Bucket, Charge, ContainerThroughput, Distribution, OfferChange, Offered, PartitionThroughput,
    Provisioned, Throughput,
};
use orrery_model::sync::lock;
use orrery_model::{Error, Json, Kind, Object, Result, Rid, limits};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The number of throughput buckets of a container.
pub(crate) const BUCKETS: usize = Bucket::MAX as usize;

/// The throughput of a container, in the form that every request needs.
#[derive(Debug, Default)]
pub(crate) struct Provision {
    /// 0: the server decides; 1: enforced; 2: not enforced.
    enforced: AtomicU8,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub given: Given,
    pub bursts: bool,
    pub decisions: Decisions,
    /// The budgets of the buckets with a ceiling; empty if there are none.
    buckets: Vec<Option<Budget>>,
}

/// The source of a container's throughput.
#[derive(Clone, Debug, Default)]
pub(crate) enum Given {
    /// Not known yet.
    #[default]
    Nothing,
    /// The container's own offer.
    Own(Throughput),
    /// The database's offer.
    Shared(Throughput, SharedBudget),
}

/// Decisions about a container's throughput that its offer does not hold. They are stored with the
/// container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decisions {
    /// True if budgets are enforced; `None` leaves the decision to the server.
    pub enforced: Option<bool>,
    /// The ceiling of each throughput bucket in percent of the container's RU/s.
    pub buckets: [Option<u8>; BUCKETS],
    /// Range ids and their RU/s; empty if all ranges have equal parts.
    pub shares: Vec<(u32, u32)>,
}

impl Decisions {
    /// Decodes the stored form. Returns `None` if it is damaged.
    pub(crate) fn read(kept: Option<&Json>) -> Option<Self> {
        let Some(kept) = kept else {
            return Some(Decisions::default());
        };
        let mut decisions = Decisions {
            enforced: kept.get("enforced").and_then(Json::as_bool),
            ..Self::default()
        };
        let number = |json: &Json| u32::try_from(json.as_i64()?).ok();
        for pair in kept
            .get("buckets")
            .and_then(Json::as_array)
            .unwrap_or_default()
        {
            let [bucket, percent] = pair.as_array()? else {
                return None;
            };
            let at = usize::try_from(number(bucket)?).ok()?.checked_sub(1)?;
            *decisions.buckets.get_mut(at)? = Some(u8::try_from(number(percent)?).ok()?);
        }
        for pair in kept
            .get("shares")
            .and_then(Json::as_array)
            .unwrap_or_default()
        {
            let [range, ru] = pair.as_array()? else {
                return None;
            };
            decisions.shares.push((number(range)?, number(ru)?));
        }
        Some(decisions)
    }

    /// Encodes the stored form:
    /// `{"enforced":true,"buckets":[[1,50]],"shares":[[0,4000],[1,6000]]}`. Returns `None` if
    /// nothing is decided.
    pub(crate) fn kept(&self) -> Option<Object> {
        if *self == Decisions::default() {
            return None;
        }
        let pair = |a: u32, b: u32| Json::Array(vec![Json::from(a), Json::from(b)]);
        let mut kept = Object::new();
        if let Some(enforced) = self.enforced {
            kept.set("enforced", enforced);
        }
        let buckets: Vec<Json> = (1..)
            .zip(self.buckets)
            .filter_map(|(bucket, percent)| Some(pair(bucket, u32::from(percent?))))
            .collect();
        if !buckets.is_empty() {
            kept.set("buckets", buckets);
        }
        if !self.shares.is_empty() {
            kept.set(
                "shares",
                self.shares
                    .iter()
                    .map(|(range, ru)| pair(*range, *ru))
                    .collect::<Vec<_>>(),
            );
        }
        Some(kept)
    }
}

impl Provision {
    /// Creates the provision of a container whose throughput is not known yet.
    pub(crate) fn new(decisions: Decisions) -> Self {
        let provision = Provision::default();
        // There is no budget yet that time could matter to.
        provision.decide(0, decisions);
        provision
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns true if budgets are enforced, or `None` if the server decides.
    pub(crate) fn enforced(&self) -> Option<bool> {
        match self.enforced.load(Ordering::Relaxed) {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        }
    }

    /// Returns the decisions.
    pub(crate) fn decisions(&self) -> Decisions {
        self.state().decisions.clone()
    }

    /// Returns the source of the throughput.
    pub(crate) fn given(&self) -> Given {
        self.state().given.clone()
    }

    /// Returns true if the throughput is distributed by hand.
    pub(crate) fn is_distributed(&self) -> bool {
        !self.state().decisions.shares.is_empty()
    }

    /// Returns true if each partition has a budget that no other partition touches.
    pub(crate) fn is_divided(&self) -> bool {
        let state = self.state();
        let has_buckets = state.buckets.iter().any(Option::is_some);
        matches!(state.given, Given::Own(_) | Given::Nothing) && !has_buckets
    }

    /// Replaces the decisions.
    pub(crate) fn decide(&self, now: u64, decisions: Decisions) {
        let enforced = decisions
            .enforced
            .map_or(0, |enforced| if enforced { 1 } else { 2 });
        self.enforced.store(enforced, Ordering::Relaxed);
        let mut state = self.state();
        state.decisions = decisions;
        state.fill_buckets(now);
    }

    fn give(&self, now: u64, given: Given, bursts: bool) {
        let mut state = self.state();
        (state.given, state.bursts) = (given, bursts);
        state.fill_buckets(now);
    }

    /// Checks that a bucket has budget left.
    ///
    /// # Errors
    /// Milliseconds to wait.
    pub(crate) fn bucket_admits(&self, now: u64, bucket: Bucket) -> std::result::Result<(), u64> {
        match self.state().buckets.get_mut(bucket.index()) {
            Some(Some(budget)) => budget.admit(now, None),
            _ => Ok(()),
        }
    }

    /// Takes a charge from a bucket.
    pub(crate) fn bucket_takes(&self, now: u64, bucket: Bucket, charge: Charge) {
        if let Some(Some(budget)) = self.state().buckets.get_mut(bucket.index()) {
            budget.take(now, charge, None);
        }
    }
}

impl State {
    /// Returns the RU/s of the container, or of its database if the database shares them.
    fn total(&self) -> Option<u32> {
        match &self.given {
            Given::Nothing => None,
            Given::Own(throughput) | Given::Shared(throughput, _) => Some(throughput.ru_max()),
        }
    }

    fn fill_buckets(&mut self, now: u64) {
        let total = self.total();
        if self.decisions.buckets.iter().all(Option::is_none) {
            self.buckets = Vec::new();
            return;
        }
        self.buckets.resize(BUCKETS, None);
        for (budget, percent) in self.buckets.iter_mut().zip(self.decisions.buckets) {
            let rate = total
                .zip(percent)
                .map(|(ru, percent)| u64::from(ru) * u64::from(percent) * 10);
            match (&mut *budget, rate) {
                (Some(budget), Some(rate)) => _ = budget.set_rate(now, rate),
                (budget, rate) => *budget = rate.map(|rate| Budget::new(rate, false)),
            }
        }
    }
}

impl Container {
    /// Sets the source of the container's throughput, and divides it over the partitions.
    pub(crate) fn give_throughput(&self, now: u64, given: Given, bursts: bool) {
        self.provision().give(now, given, bursts);
        self.share_throughput(now);
    }

    /// Divides the container's throughput over its partitions, which keep their spending.
    pub(crate) fn share_throughput(&self, now: u64) {
        let state = self.provision().state();
        let live = self.partitions();
        match &state.given {
            Given::Nothing => live.iter().for_each(|p| p.meter.share(None)),
            Given::Shared(_, budget) => live
                .iter()
                .for_each(|p| p.meter.share(Some(budget.clone()))),
            Given::Own(throughput) => {
                let rates = rates(throughput.ru_max(), &state.decisions.shares, &live);
                for (partition, rate) in live.iter().zip(rates) {
                    partition.meter.give(now, rate, state.bursts);
                }
            }
        }
    }
}

impl Partition {
    /// Returns the throughput and the account of the partition at a millisecond.
    pub(crate) fn throughput(&self, now_ms: u64) -> PartitionThroughput {
        PartitionThroughput::of(self.id, self.meter.read(now_ms), now_ms)
    }
}

/// Returns the rate of each of a container's partitions, in thousandths of RU/s.
pub(super) fn rates(total: u32, shares: &[(u32, u32)], live: &[Arc<Partition>]) -> Vec<u64> {
    let live: Vec<(u32, &[u32])> = live.iter().map(|p| (p.id, &p.parents[..])).collect();
    rates_of(total, shares, &live)
}

/// Returns the rate of each live partition (given with its ancestors), in thousandths of RU/s: an
/// equal part, or the share that was set by hand. The share of a partition that was split since
/// goes to its descendants in equal parts; shares of merged partitions add up, as far as one
/// partition can carry them.
fn rates_of(total: u32, shares: &[(u32, u32)], live: &[(u32, &[u32])]) -> Vec<u64> {
    let (total, most) = (
        u64::from(total) * 1000,
        u64::from(limits::PARTITION_RU_PER_SECOND) * 1000,
    );
    if shares.is_empty() {
        // While there are too few partitions for what is provisioned, each gives what it can.
        let each = (total / (live.len() as u64).max(1)).min(most);
        return vec![each; live.len()];
    }
    let successors = |range: u32| -> Vec<usize> {
        let is_heir = |(id, parents): &(u32, &[u32])| *id == range || parents.contains(&range);
        (0..live.len()).filter(|at| is_heir(&live[*at])).collect()
    };
    let mut rates = vec![0; live.len()];
    for (range, ru) in shares {
        let successors = successors(*range);
        for at in &successors {
            rates[*at] = (rates[*at] + u64::from(*ru) * 1000 / successors.len() as u64).min(most);
        }
    }
    rates
}

impl Engine {
    /// Returns the throughput of a container, the decisions about it, and the account of each
    /// partition.
    pub fn throughput_of(&self, container: &Container) -> ContainerThroughput {
        let now = self.world().now_ms();
        let (decisions, provisioned) = {
            let state = container.provision().state();
            let provisioned = match &state.given {
                Given::Nothing => None,
                Given::Own(throughput) => Some(Provisioned {
                    throughput: *throughput,
                    shared: false,
                }),
                Given::Shared(throughput, _) => Some(Provisioned {
                    throughput: *throughput,
                    shared: true,
                }),
            };
            (state.decisions.clone(), provisioned)
        };
        let partitions = container
            .partitions()
            .iter()
            .map(|partition| partition.throughput(now))
            .collect();
        ContainerThroughput {
            provisioned,
            enforced: decisions.enforced.unwrap_or(self.throughput().enforce),
            decided: decisions.enforced,
            buckets: decisions.buckets,
            distribution: if decisions.shares.is_empty() {
                Distribution::Equal
            } else {
                Distribution::Custom
            },
            partitions,
        }
    }

    /// Returns the offer of a container or a database, or `None` if there is none.
    ///
    /// # Errors
    /// 500 if the store cannot be read.
    pub fn provisioned(&self, target: Rid) -> Result<Option<Offered>> {
        self.catalog()
            .offer_of(target)
            .map(|offer| self.catalog().offer(offer.rid()))
            .transpose()
    }

    /// Replaces the offer of a container or a database. The change is durable when this returns.
    ///
    /// # Errors
    /// 404 if there is no offer, and those of [`Engine::replace_offer`].
    pub fn provision(&self, target: Rid, change: &OfferChange) -> Result<Offered> {
        let offer = self.catalog().offer_of(target).ok_or_else(|| {
            let told = match target.is_container() {
                true => {
                    "The container has no throughput of its own: it shares that of its database."
                }
                false => "The database has no throughput: each of its containers has its own.",
            };
            Error::new(Kind::NotFound, told)
        })?;
        self.catalog().replace_offer(offer.rid(), change, None)
    }

    /// Sets whether a container's budgets are enforced; `None` leaves the decision to the server.
    /// The change is durable when this returns.
    ///
    /// # Errors
    /// 404 if the container is gone, 500 and 503 as the store reports.
    pub fn enforce_throughput(&self, container: &Container, enforced: Option<bool>) -> Result<()> {
        self.catalog().decide(container, |_| {
            Ok(Decisions {
                enforced,
                ..container.provision().decisions()
            })
        })
    }

    /// Sets the ceilings of a container's throughput buckets, in percent of its RU/s. A bucket
    /// without a ceiling is not limited. The change is durable when this returns.
    ///
    /// # Errors
    /// 400 outside 1 to 100, 404 if the container is gone, 500 and 503 as the store reports.
    pub fn set_throughput_buckets(
        &self,
        container: &Container,
        buckets: [Option<u8>; BUCKETS],
    ) -> Result<()> {
        if buckets
            .iter()
            .flatten()
            .any(|percent| !(1..=100).contains(percent))
        {
            return Err(Error::bad(
                "The ceiling of a throughput bucket is a whole number of percent from 1 to 100.",
            ));
        }
        self.catalog().decide(container, |_| {
            Ok(Decisions {
                buckets,
                ..container.provision().decisions()
            })
        })
    }

    /// Distributes the RU/s of a container over its physical partitions by hand, by range id;
    /// `None` gives all partitions equal parts again. While the RU/s are distributed by hand the
    /// offer cannot be changed. The change is durable when this returns.
    ///
    /// # Errors
    /// 400 if a live partition is missing or named twice, if a partition gets nothing or more than
    /// [`limits::PARTITION_RU_PER_SECOND`], if the parts do not add up to the RU/s of the
    /// container, and if the container has no throughput of its own; 404 if the container is gone.
    pub fn distribute_throughput(
        &self,
        container: &Container,
        shares: Option<&[(u32, u32)]>,
    ) -> Result<()> {
        self.catalog().decide(container, |given| {
            let shares = shares.unwrap_or_default().to_vec();
            if !shares.is_empty() {
                check_shares(container, given, &shares)?;
            }
            Ok(Decisions {
                shares,
                ..container.provision().decisions()
            })
        })
    }
}

fn check_shares(container: &Container, given: &Given, shares: &[(u32, u32)]) -> Result<()> {
    let Given::Own(throughput) = given else {
        return Err(Error::bad(
            "The container shares the throughput of its database, which cannot be distributed.",
        ));
    };
    let mut named: Vec<u32> = shares.iter().map(|(range, _)| *range).collect();
    let mut live: Vec<u32> = container.partitions().iter().map(|p| p.id).collect();
    named.sort_unstable();
    live.sort_unstable();
    if named != live {
        return Err(Error::bad(format!(
            "Each of the physical partitions {live:?} needs a throughput, and only these."
        )));
    }
    let most = limits::PARTITION_RU_PER_SECOND;
    if let Some((range, ru)) = shares.iter().find(|(_, ru)| !(1..=most).contains(ru)) {
        return Err(Error::bad(format!(
            "The throughput of physical partition {range} is {ru} RU/s; it must be between 1 and {most}."
        )));
    }
    let sum: u64 = shares.iter().map(|(_, ru)| u64::from(*ru)).sum();
    if sum != u64::from(throughput.ru_max()) {
        return Err(Error::bad(format!(
            "The throughputs of the physical partitions add up to {sum} RU/s; the container has {}.",
            throughput.ru_max()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::object;

    #[test]
    fn decisions_read_back() {
        let decided = Decisions {
            enforced: Some(false),
            buckets: [None, Some(20), None, None, Some(100)],
            shares: vec![(0, 400), (3, 9_600)],
        };
        let kept = decided.kept().map(Json::Object);
        assert_eq!(
            kept.as_ref().map(Json::to_text).as_deref(),
            Some(r#"{"enforced":false,"buckets":[[2,20],[5,100]],"shares":[[0,400],[3,9600]]}"#)
        );
        assert_eq!(Decisions::read(kept.as_ref()), Some(decided));
        assert!(Decisions::default().kept().is_none());
        assert_eq!(Decisions::read(None), Some(Decisions::default()));
        let damaged = Json::Object(
            object! { "buckets" => vec![Json::Array(vec![Json::from(6), Json::from(1)])] },
        );
        assert_eq!(Decisions::read(Some(&damaged)), None);
    }

    #[test]
    fn partitions_have_equal_parts_or_those_that_were_set() {
        assert_eq!(
            rates_of(400, &[], &[(0, &[]), (1, &[]), (2, &[])]),
            [133_333; 3]
        );
        assert_eq!(rates_of(21_000, &[], &[(0, &[])]), [10_000_000]);
        let shares = [(0, 2_000), (1, 8_000)];
        assert_eq!(
            rates_of(10_000, &shares, &[(0, &[]), (1, &[])]),
            [2_000_000, 8_000_000]
        );
        let split: &[(u32, &[u32])] = &[(0, &[]), (2, &[1]), (3, &[1])];
        assert_eq!(
            rates_of(10_000, &shares, split),
            [2_000_000, 4_000_000, 4_000_000]
        );
        assert_eq!(rates_of(10_000, &shares, &[(4, &[0, 1])]), [10_000_000]);
        assert_eq!(
            rates_of(12_000, &[(0, 9_000), (1, 3_000)], &[(4, &[0, 1])]),
            [10_000_000]
        );
    }
}
