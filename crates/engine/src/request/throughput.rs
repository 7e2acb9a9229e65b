//! Throughput: the two modes in which it is provisioned, and their limits.

use super::Resource;
use orrery_model::limits::THROUGHPUT_MOST;
use orrery_model::{Error, Json, Object, Result};

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

/// An offer as a client reads it.
#[derive(Clone, Debug)]
pub struct Offered {
    /// The offer.
    pub resource: Resource,
    /// The least throughput with which it may be replaced.
    pub least: u32,
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
        let increment_percent = u32::try_from(increment_percent).ok().filter(|percent| *percent <= 100);
        let increment_percent = increment_percent
            .ok_or_else(|| Error::bad("The 'incrementPercent' of an autoscale policy is between 0 and 100."))?;
        let max = Throughput::Autoscale { max: 0, increment_percent }.checked(max)?;
        Ok(Throughput::Autoscale { max, increment_percent })
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
        let fits = |ru: &u32| (least..=THROUGHPUT_MOST).contains(ru) && ru.is_multiple_of(step);
        u32::try_from(ru).ok().filter(fits).ok_or_else(|| outside(ru, least, step))
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
        true => format!(" Requested throughput {ru} is less than required minimum throughput {least}."),
        false => String::new(),
    };
    Error::bad(format!(
        "The offer should have valid throughput values between {least} and {THROUGHPUT_MOST} inclusive in increments of \
         {step}.{below}"
    ))
}

/// `autoUpgradePolicy.throughputPolicy.incrementPercent` of autoscale settings; 0 if it is not there.
///
/// # Errors
/// 400 if it is no whole number.
pub fn increment_percent(settings: &Json) -> Result<i64> {
    let policy = settings.get("autoUpgradePolicy").and_then(|policy| policy.get("throughputPolicy"));
    match policy.and_then(|policy| policy.get("incrementPercent")) {
        None | Some(Json::Null) => Ok(0),
        Some(percent) => percent
            .as_i64()
            .ok_or_else(|| Error::bad("The 'incrementPercent' of an autoscale policy is no whole number.")),
    }
}
