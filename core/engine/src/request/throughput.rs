//! Throughput: the two modes of provisioning with their limits, the options by which a request
//! spends it, and reports of the spent request units.

use super::{Charge, Resource};
use crate::query::Cancel;
use crate::throughput::Reading;
use orrery_model::limits::{PARTITION_RU_PER_SECOND, THROUGHPUT_RU_MAX};
use orrery_model::memory::AnswerMemory;
use orrery_model::words::shortened;
use orrery_model::{Error, Json, Object, Result, object};

/// The provisioned throughput of a container or database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throughput {
    /// A fixed number of RU/s.
    Manual(u32),
    /// Autoscale between a tenth of the maximum and the maximum.
    Autoscale {
        /// The maximum in RU/s.
        max: u32,
        /// The percentage by which the maximum rises when more bytes are stored than it allows, 0
        /// to 100; 0 raises it to the required value, and so does `None`, a throughput whose
        /// settings have no policy.
        increment_percent: Option<u32>,
    },
}

/// A change of an offer.
#[derive(Clone, Debug)]
pub enum OfferChange {
    /// A new throughput in the same mode, in the form of a body.
    To(Object),
    /// The same by the body of a client's request, which is an offer that the client has read.
    ByClient(Object),
    /// Autoscale in place of manual; the server chooses the maximum.
    /// `x-ms-cosmos-migrate-offer-to-autopilot`.
    ToAutoscale,
    /// Manual in place of autoscale, with the maximum as the fixed number.
    /// `x-ms-cosmos-migrate-offer-to-manual-throughput`.
    ToManual,
}

impl OfferChange {
    /// Creates the change to a manual throughput in RU/s.
    pub fn manual(ru: i64) -> Self {
        OfferChange::To(object! { "content" => object! { "offerThroughput" => ru } })
    }

    /// Creates the change to an autoscale maximum in RU/s, with the percentage by which it rises
    /// when more bytes are stored than it allows.
    pub fn autoscale(max: i64, increment_percent: Option<i64>) -> Self {
        let settings = autoscale_settings(max, increment_percent);
        OfferChange::To(object! { "content" => object! { "offerAutopilotSettings" => settings } })
    }
}

/// Returns the settings of autoscale as clients send and read them: with a policy if there is a
/// percentage.
pub(crate) fn autoscale_settings(max: i64, increment_percent: Option<i64>) -> Object {
    let mut settings = object! { "maxThroughput" => max };
    if let Some(percent) = increment_percent {
        let increment = object! { "incrementPercent" => percent };
        let policy = object! { "throughputPolicy" => increment };
        settings.push_new("autoUpgradePolicy", policy);
    }
    settings
}

/// An offer as clients read it.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The resource.
    pub resource: Resource,
    /// The provisioned throughput.
    pub throughput: Throughput,
    /// The minimum RU/s of a replacement.
    pub ru_min: u32,
    /// True if partitions must be split before they can serve the throughput.
    pub is_pending: bool,
}

/// Options for the admission and the charge of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdmissionOptions {
    /// The priority when the budget is short; without effect unless the server enforces priorities.
    pub priority: Priority,
    /// The throughput bucket, `x-ms-cosmos-throughput-bucket`; `None` for none.
    pub bucket: Option<Bucket>,
    /// True if reads ask two replicas and are charged for both: strong consistency and bounded
    /// staleness.
    pub two_replicas: bool,
    /// True if the heat map, the top keys and the forms of queries leave the request out, because
    /// the operator's own console sent the request. Budgets and charges include the request.
    pub is_unobserved: bool,
}

/// The priority of a request, `x-ms-cosmos-priority-level`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Priority {
    /// Admitted while the budget lasts.
    #[default]
    High,
    /// Admitted while requests of high priority leave a part of the budget.
    Low,
}

/// The number of a throughput bucket: 1 to [`Bucket::MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket(u8);

impl Bucket {
    /// The number of throughput buckets of a container.
    pub const MAX: u8 = 5;

    /// Returns the bucket of a number, or `None` if there is no such bucket.
    pub fn new(number: u8) -> Option<Bucket> {
        (1..=Bucket::MAX)
            .contains(&number)
            .then_some(Bucket(number))
    }

    /// Returns the position of the bucket, counted from 0.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0 - 1)
    }
}

/// Options of a read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadOptions<'a> {
    /// The session token that the answer must reflect, `x-ms-session-token`.
    pub session: Option<&'a str>,
    /// The priority and the budget of the request.
    pub admission: AdmissionOptions,
    /// `x-ms-exclude-system-properties`: true if a read of an item that was stored without `_self`
    /// and `_attachments` is answered without them.
    pub leaves_out_links: bool,
    /// Ends a query whose client no longer waits.
    pub cancel: Option<&'a Cancel>,
    /// The memory of the answer, which grows with its rows; `None` if nothing counts it.
    pub answer: Option<&'a AnswerMemory>,
}

impl<'a> From<Option<&'a str>> for ReadOptions<'a> {
    fn from(session: Option<&'a str>) -> Self {
        ReadOptions {
            session,
            ..ReadOptions::default()
        }
    }
}

/// Options of the execution of a stored procedure.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExecuteOptions<'a> {
    /// True if the log of the script is requested, `x-ms-documentdb-script-enable-logging`.
    pub logging: bool,
    /// The priority and the budget of the request.
    pub admission: AdmissionOptions,
    /// The memory of the answer; `None` if nothing counts it.
    pub answer: Option<&'a AnswerMemory>,
}

/// One part of a charge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargePart {
    /// The kind of work, in words.
    pub what: &'static str,
    /// The counted amount of the work.
    pub count: u64,
    /// The cost of the amount in 1/10,000 RU. The part for rounding may be negative.
    pub fine: i64,
}

/// The throughput of a container: provisioning, decisions and the use by its partitions.
#[derive(Clone, Debug)]
pub struct ContainerThroughput {
    /// The provisioned throughput; `None` if there is no offer, and then no request is throttled.
    pub provisioned: Option<Provisioned>,
    /// True if requests beyond the budget are refused with 429.
    pub enforced: bool,
    /// The decision about this for the container; `None` follows the setting of the server.
    pub decided: Option<bool>,
    /// The limits of throughput buckets 1 to 5 in percent of the container's RU/s; `None` is no
    /// limit.
    pub buckets: [Option<u8>; Bucket::MAX as usize],
    /// The distribution over the physical partitions.
    pub distribution: Distribution,
    /// The live physical partitions in the order of their EPK ranges.
    pub partitions: Vec<PartitionThroughput>,
}

/// The source of a container's throughput.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Provisioned {
    /// The provisioned throughput.
    pub throughput: Throughput,
    /// True if the throughput is that of the database, shared with other containers.
    pub shared: bool,
}

/// The distribution of a container's throughput over its physical partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distribution {
    /// Equal parts.
    Equal,
    /// The part that was set for each partition.
    Custom,
}

/// The budget of a physical partition and its use since it was opened, including its share of the
/// use of its predecessors.
#[derive(Clone, Debug)]
pub struct PartitionThroughput {
    /// The partition key range id.
    pub id: u32,
    /// The budget in RU/s, of a shared budget the whole; `None` without a limit.
    pub ru_per_second: Option<f64>,
    /// The request units that burst capacity has saved for the partition.
    pub banked: f64,
    /// The sum of the charges.
    pub charged: Charge,
    /// The number of executed requests.
    pub requests: u64,
    /// The number of requests that were refused for lack of budget.
    pub throttled: u64,
    /// The number of executed requests that enforcement would have refused.
    pub would_throttle: u64,
    /// The request units that were spent in the last whole second.
    pub last_second: f64,
    /// The share of the budget that was spent in the last whole second: 1 is the whole budget. 0
    /// without a limit.
    pub normalized: f64,
    /// The seconds of the last minute that had requests, the oldest first.
    pub seconds: Vec<PartitionSecond>,
}

/// The use of a physical partition in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionSecond {
    /// The second since 1970.
    pub second: u64,
    /// The sum of the charges.
    pub charged: Charge,
    /// The number of executed requests.
    pub requests: u64,
    /// The number of requests that were refused for lack of budget.
    pub throttled: u64,
    /// The number of executed requests that enforcement would have refused.
    pub would_throttle: u64,
}

impl PartitionThroughput {
    /// Makes the report of a partition from a reading of its meter. `now_ms` is in milliseconds
    /// since 1970.
    pub(crate) fn of(id: u32, reading: Reading, now_ms: u64) -> Self {
        // The current second is not over, so the rates are those of the second before it.
        let last_second = (now_ms / 1000).saturating_sub(1);
        let last = reading.seconds.iter().find(|s| s.second == last_second);
        let spent = last.map_or(0.0, |second| second.charged.as_ru());
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
    /// Creates a manual throughput in RU/s.
    ///
    /// # Errors
    /// 400 if the number is outside the service's limits or no multiple of the step.
    pub fn manual(ru: i64) -> Result<Self> {
        let ru = Throughput::Manual(0).checked(ru)?;
        Ok(Throughput::Manual(ru))
    }

    /// Creates an autoscale throughput. `max` is in RU/s, `increment_percent` 0 to 100 or `None`.
    ///
    /// # Errors
    /// 400 if the number is outside the service's limits or no multiple of the step.
    pub fn autoscale(max: i64, increment_percent: Option<i64>) -> Result<Self> {
        let increment_percent = match increment_percent.map(u32::try_from) {
            None => None,
            Some(Ok(percent)) if percent <= 100 => Some(percent),
            Some(_) => {
                return Err(Error::bad(
                    "The 'incrementPercent' of an autoscale policy is between 0 and 100.",
                ));
            }
        };
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

    /// Checks that the throughput is within the limits of its mode.
    ///
    /// # Errors
    /// 400 if it is not.
    pub fn check(self) -> Result<()> {
        self.checked(i64::from(self.ru_max())).map(|_| ())
    }

    /// Checks that `ru` is within the limits of this mode.
    fn checked(self, ru: i64) -> Result<u32> {
        let (min, step) = (self.ru_min(), self.ru_step());
        match u32::try_from(ru) {
            Ok(ru) if (min..=THROUGHPUT_RU_MAX).contains(&ru) && ru.is_multiple_of(step) => Ok(ru),
            _ => Err(throughput_out_of_range(ru, min, THROUGHPUT_RU_MAX, step)),
        }
    }

    /// Checks that one physical partition can carry the throughput.
    ///
    /// # Errors
    /// 400 if it cannot.
    pub(crate) fn check_one_partition(self) -> Result<()> {
        let ru = self.ru_max();
        if ru <= PARTITION_RU_PER_SECOND {
            return Ok(());
        }
        let (min, step) = (self.ru_min(), self.ru_step());
        let (ru, max) = (i64::from(ru), PARTITION_RU_PER_SECOND);
        Err(throughput_out_of_range(ru, min, max, step))
    }

    /// Returns the fixed RU/s, or the maximum of autoscale.
    pub fn ru_max(self) -> u32 {
        match self {
            Throughput::Manual(ru) => ru,
            Throughput::Autoscale { max, .. } => max,
        }
    }

    /// Returns the lowest RU/s of this mode.
    pub fn ru_min(self) -> u32 {
        match self {
            Throughput::Manual(_) => 400,
            Throughput::Autoscale { .. } => 1_000,
        }
    }

    /// Returns the step in RU/s between two throughputs of this mode.
    pub fn ru_step(self) -> u32 {
        match self {
            Throughput::Manual(_) => 100,
            Throughput::Autoscale { .. } => 1_000,
        }
    }
}

/// Returns the error 400 for a throughput outside its limits, in the service's words. All numbers
/// are in RU/s.
pub(crate) fn throughput_out_of_range(ru: i64, min: u32, max: u32, step: u32) -> Error {
    let mut message = format!(
        "The offer should have valid throughput values between {min} and {max} \
         inclusive in increments of {step}."
    );
    if ru < i64::from(min) {
        message.push_str(&format!(
            " Requested throughput {ru} is less than required minimum throughput {min}."
        ));
    }
    let nearest = (ru.clamp(i64::from(min), i64::from(max)) as u32).next_multiple_of(step);
    Error::bad(message).with_help(format!(
        "{ru} RU/s were asked for; the nearest valid value is {}.",
        nearest.min(max)
    ))
}

/// Returns `autoUpgradePolicy.throughputPolicy.incrementPercent` of autoscale settings; `None` if
/// it is absent.
///
/// # Errors
/// 400 if the value is no whole number, or if the settings have a member that is unknown.
pub fn increment_percent(settings: &Json) -> Result<Option<i64>> {
    let Some(policy) = only_member(settings, "autoUpgradePolicy", &["maxThroughput"])? else {
        return Ok(None);
    };
    let Some(policy) = only_member(policy, "throughputPolicy", &[])? else {
        return Ok(None);
    };
    match only_member(policy, "incrementPercent", &[])? {
        None => Ok(None),
        Some(percent) => percent.as_i64().map(Some).ok_or_else(|| {
            Error::bad("The 'incrementPercent' of an autoscale policy is no whole number.")
        }),
    }
}

/// Returns the member `name` of settings that have no other members than this and `others`; `None`
/// if the member is absent or `null`.
fn only_member<'a>(settings: &'a Json, name: &str, others: &[&str]) -> Result<Option<&'a Json>> {
    let members = settings.as_object().ok_or_else(|| {
        Error::bad(format!(
            "The settings of autoscale with '{name}' must be an object."
        ))
    })?;
    for (member, value) in members.iter() {
        if member != name && !others.contains(&member) && !matches!(value, Json::Null) {
            return Err(Error::bad(format!(
                "The member '{}' of the settings of autoscale is unknown; beside it may stand \
                 '{name}'.",
                shortened(member)
            )));
        }
    }
    Ok(members
        .get(name)
        .filter(|value| !matches!(value, Json::Null)))
}
