//! Throughput: the two modes in which it is provisioned, and their limits; how requests spend it, and what was spent.

use super::{Charge, Resource};
use crate::throughput::Reading;
use orrery_model::limits::THROUGHPUT_RU_MAX;
use orrery_model::{Error, Json, Object, Result, object};

/// What a container or database is given to spend, in RU/s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// A fixed number.
    Manual(u32),
    /// Scales between a tenth of the maximum and the maximum.
    Autoscale {
        /// RU/s at most.
        max: u32,
        /// By how many percent the maximum rises when more is stored than it allows; 0 for just what is needed.
        increment_percent: u32,
    },
}

/// What becomes of an offer that is replaced.
#[derive(Clone, Debug)]
pub enum OfferChange {
    /// It gets the throughput of this body, in the mode that it has.
    To(Object),
    /// It scales from now on; the server finds the maximum.
    ToAutoscale,
    /// It is fixed from now on, at the maximum that it had.
    ToManual,
}

impl OfferChange {
    /// The body with which a client sets RU/s.
    pub fn manual(ru: i64) -> Self {
        OfferChange::To(object! { "content" => object! { "offerThroughput" => ru } })
    }

    /// The body with which a client sets the maximum of autoscale, and by how many percent it rises when more is stored
    /// than it allows.
    pub fn autoscale(max: i64, increment_percent: i64) -> Self {
        let policy =
            object! { "throughputPolicy" => object! { "incrementPercent" => increment_percent } };
        let settings = object! { "maxThroughput" => max, "autoUpgradePolicy" => policy };
        OfferChange::To(object! { "content" => object! { "offerAutopilotSettings" => settings } })
    }
}

/// An offer as a client reads it.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The offer.
    pub resource: Resource,
    /// What it provisions.
    pub throughput: Throughput,
    /// The least throughput with which it may be replaced.
    pub least: u32,
    /// Whether partitions are still to be split to carry it.
    pub is_pending: bool,
}

/// How a request is admitted and charged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// Whether it is refused before others when the budget is short; without effect unless the server heeds priorities.
    pub priority: Priority,
    /// The throughput bucket that it spends of, if it names one.
    pub bucket: Option<Bucket>,
    /// Whether its reads ask two replicas, and are charged for both: strong consistency and bounded staleness.
    pub two_replicas: bool,
}

/// `x-ms-cosmos-priority-level`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// As long as the budget lasts.
    #[default]
    High,
    /// As long as requests of high priority leave something.
    Low,
}

/// The number of a throughput bucket: 1 to [`Bucket::MOST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket(u8);

impl Bucket {
    /// Throughput buckets of a container.
    pub const MOST: u8 = 5;

    /// The bucket of this number, if there is one.
    pub fn new(number: u8) -> Option<Bucket> {
        (1..=Bucket::MOST)
            .contains(&number)
            .then_some(Bucket(number))
    }

    /// Counted from 0.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0 - 1)
    }
}

/// How a read is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions<'a> {
    /// `x-ms-session-token`: what must have been seen.
    pub session: Option<&'a str>,
    /// How it is admitted.
    pub admission: AdmissionOptions,
}

impl<'a> From<Option<&'a str>> for ReadOptions<'a> {
    fn from(session: Option<&'a str>) -> Self {
        ReadOptions {
            session,
            ..ReadOptions::default()
        }
    }
}

/// How a procedure is executed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExecuteOptions {
    /// Whether what it logs is wanted.
    pub logging: bool,
    /// How it is admitted.
    pub admission: AdmissionOptions,
}

/// One part of a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargePart {
    /// What was paid for, in words.
    pub what: &'static str,
    /// How many of them.
    pub count: u64,
    /// What they cost together, in 1/10,000 RU; rounding may be negative.
    pub fine: i64,
}

/// A container's throughput: what it is given, what is decided about it, and what its partitions served.
#[derive(Clone, Debug)]
pub struct ContainerThroughput {
    /// What it may spend; `None` if nobody has said, and then nothing is refused.
    pub provisioned: Option<Provisioned>,
    /// Whether requests beyond the budget are refused.
    pub enforced: bool,
    /// What is decided about that for this container; `None` leaves it to the server.
    pub decided: Option<bool>,
    /// The ceilings of throughput buckets 1 to 5 in percent of the container's RU/s; `None` is none.
    pub buckets: [Option<u8>; Bucket::MOST as usize],
    /// How its partitions share it.
    pub distribution: Distribution,
    /// Its live physical partitions, in order of their ranges.
    pub partitions: Vec<PartitionThroughput>,
}

/// Where a container's throughput comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provisioned {
    /// What is provisioned.
    pub throughput: Throughput,
    /// Whether it is the database's, shared with other containers.
    pub shared: bool,
}

/// How physical partitions share the throughput of their container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// All have the same.
    Equal,
    /// Each has what was set for it.
    Custom,
}

/// What a physical partition may spend and what it served since it was opened, its part of what those served included
/// whose place it has taken.
#[derive(Clone, Debug)]
pub struct PartitionThroughput {
    /// The partition key range id.
    pub id: u32,
    /// RU/s that it may spend, of a shared budget all of it; `None` if it is not limited.
    pub ru_per_second: Option<f64>,
    /// Request units that burst capacity keeps for it.
    pub banked: f64,
    /// What its requests were charged.
    pub charged: Charge,
    /// Requests that it carried out.
    pub requests: u64,
    /// Requests that were refused for lack of budget.
    pub throttled: u64,
    /// Requests that were carried out and would have been refused, had budgets been enforced.
    pub would_throttle: u64,
    /// Request units that it spent in the last whole second.
    pub last_second: f64,
    /// The share of its budget that it spent in the last whole second: 1 is all of it. 0 if it is not limited.
    pub normalized: f64,
    /// The seconds of the last minute in which it was asked for something, the oldest first.
    pub seconds: Vec<PartitionSecond>,
}

/// What a physical partition served in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionSecond {
    /// Which, since 1970.
    pub second: u64,
    /// What its requests were charged.
    pub charged: Charge,
    /// Requests that it carried out.
    pub requests: u64,
    /// Requests that were refused for lack of budget.
    pub throttled: u64,
    /// Requests that were carried out and would have been refused, had budgets been enforced.
    pub would_throttle: u64,
}

impl PartitionThroughput {
    pub(crate) fn of(id: u32, reading: Reading, now_ms: u64) -> Self {
        let last = (now_ms / 1000).saturating_sub(1);
        let spent = reading
            .seconds
            .iter()
            .find(|s| s.second == last)
            .map_or(0.0, |s| s.charged.as_ru());
        let ru_per_second = reading.rate.map(|milli| milli as f64 / 1000.0);
        PartitionThroughput {
            id,
            ru_per_second,
            banked: reading.banked as f64 / 1000.0,
            charged: reading.totals.charged,
            requests: reading.totals.requests,
            throttled: reading.totals.throttled,
            would_throttle: reading.totals.would_throttle,
            last_second: spent,
            normalized: ru_per_second.map_or(0.0, |ru| spent / ru),
            seconds: reading.seconds,
        }
    }
}

impl Throughput {
    /// A fixed throughput.
    ///
    /// # Errors
    /// 400 outside the service's limits.
    pub fn manual(ru: i64) -> Result<Self> {
        let ru = Throughput::Manual(0).checked(ru)?;
        Ok(Throughput::Manual(ru))
    }

    /// A throughput that scales.
    ///
    /// # Errors
    /// 400 outside the service's limits.
    pub fn autoscale(max: i64, increment_percent: i64) -> Result<Self> {
        let increment_percent = u32::try_from(increment_percent)
            .ok()
            .filter(|percent| *percent <= 100);
        let increment_percent = increment_percent.ok_or_else(|| {
            Error::bad("The 'incrementPercent' of an autoscale policy is between 0 and 100.")
        })?;
        let max = Throughput::Autoscale {
            max: 0,
            increment_percent,
        }
        .checked(max)?;
        Ok(Throughput::Autoscale {
            max,
            increment_percent,
        })
    }

    /// Checks that it is within the limits of its mode.
    ///
    /// # Errors
    /// 400.
    pub fn check(self) -> Result<()> {
        self.checked(i64::from(self.most())).map(|_| ())
    }

    /// `ru` within the limits of this mode.
    fn checked(self, ru: i64) -> Result<u32> {
        let (least, step) = (self.least(), self.step());
        let fits = |ru: &u32| (least..=THROUGHPUT_RU_MAX).contains(ru) && ru.is_multiple_of(step);
        u32::try_from(ru)
            .ok()
            .filter(fits)
            .ok_or_else(|| outside(ru, least, step))
    }

    /// The RU/s at most.
    pub fn most(self) -> u32 {
        match self {
            Throughput::Manual(ru) => ru,
            Throughput::Autoscale { max, .. } => max,
        }
    }

    /// The least throughput of this mode.
    pub fn least(self) -> u32 {
        match self {
            Throughput::Manual(_) => 400,
            Throughput::Autoscale { .. } => 1_000,
        }
    }

    /// From one throughput of this mode to the next.
    pub fn step(self) -> u32 {
        match self {
            Throughput::Manual(_) => 100,
            Throughput::Autoscale { .. } => 1_000,
        }
    }
}

/// The refusal of a throughput, in the service's words.
pub(crate) fn outside(ru: i64, least: u32, step: u32) -> Error {
    let below = match ru < i64::from(least) {
        true => {
            format!(" Requested throughput {ru} is less than required minimum throughput {least}.")
        }
        false => String::new(),
    };
    Error::bad(format!(
        "The offer should have valid throughput values between {least} and {THROUGHPUT_RU_MAX} inclusive in increments of \
         {step}.{below}"
    ))
}

/// `autoUpgradePolicy.throughputPolicy.incrementPercent` of autoscale settings; 0 if it is not there.
///
/// # Errors
/// 400 if it is no whole number.
pub fn increment_percent(settings: &Json) -> Result<i64> {
    let policy = settings
        .get("autoUpgradePolicy")
        .and_then(|policy| policy.get("throughputPolicy"));
    match policy.and_then(|policy| policy.get("incrementPercent")) {
        None | Some(Json::Null) => Ok(0),
        Some(percent) => percent.as_i64().ok_or_else(|| {
            Error::bad("The 'incrementPercent' of an autoscale policy is no whole number.")
        }),
    }
}
