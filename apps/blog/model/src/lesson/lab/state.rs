//! The state of the lab, as pages and programs see it.

use super::Experiment;
use crate::BlogError;
use crate::client::PartitionKeyRange;
use serde_json::{Value, json};

/// The progress of an experiment.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Phase {
    /// No experiment has run since the start or the last reset.
    #[default]
    Idle,
    /// An experiment is running.
    Running,
    /// The experiment has ended.
    Ended,
    /// A request failed, and the experiment has ended.
    Failed(BlogError),
}

/// Requests within one second of load.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Second {
    /// Served requests.
    pub served: u32,
    /// Requests that were refused with 429.
    pub throttled: u32,
    /// Requests that failed for another reason.
    pub failed: u32,
    /// Charge of the served requests in RU.
    pub ru: f64,
}

impl Second {
    /// Adds the figures of other requests.
    pub(super) fn add(&mut self, other: &Self) {
        self.served += other.served;
        self.throttled += other.throttled;
        self.failed += other.failed;
        self.ru += other.ru;
    }

    fn to_json(self) -> Value {
        json!({
            "served": self.served,
            "throttled": self.throttled,
            "failed": self.failed,
            "ru": (self.ru * 100.0).round() / 100.0,
        })
    }
}

/// Returns the sum of all seconds.
pub(super) fn sum(seconds: &[Second]) -> Second {
    let mut sum = Second::default();
    for second in seconds {
        sum.add(second);
    }
    sum
}

/// A load with a name, e.g. that on the hot key.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The name for readers.
    pub label: String,
    /// The figures of each second.
    pub seconds: Vec<Second>,
}

impl Series {
    /// Returns the sum of all seconds.
    pub fn total(&self) -> Second {
        sum(&self.seconds)
    }

    /// Returns the throttled part of all requests in percent.
    pub fn throttled_percent(&self) -> f64 {
        let total = self.total();
        let all = total.served + total.throttled + total.failed;
        if all == 0 {
            return 0.0;
        }
        f64::from(total.throttled) * 100.0 / f64::from(all)
    }
}

/// A physical partition of a container of the lab.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionState {
    /// Its partition key range.
    pub range: PartitionKeyRange,
    /// The figures of each second of load.
    pub seconds: Vec<Second>,
    /// Size of its items in KB, if the server tells.
    pub kilobytes: Option<u64>,
}

impl PartitionState {
    /// Returns the sum of all seconds.
    pub fn total(&self) -> Second {
        sum(&self.seconds)
    }
}

/// A container of the lab.
#[derive(Debug, Clone, PartialEq)]
pub struct ContainerState {
    /// Link of the container.
    pub link: String,
    /// Name of the container.
    pub name: String,
    /// Path of its partition key.
    pub key_path: &'static str,
    /// Provisioned RU/s.
    pub ru_per_second: u32,
    /// Its physical partitions in key order.
    pub partitions: Vec<PartitionState>,
    /// Partitions that splits have replaced, with what they did before.
    pub replaced: Vec<PartitionState>,
}

impl ContainerState {
    /// Returns the RU/s of each physical partition.
    pub fn share(&self) -> f64 {
        f64::from(self.ru_per_second) / self.partitions.len().max(1) as f64
    }
}

/// The progress of an experiment that fills a partition.
#[derive(Debug, Clone, PartialEq)]
pub struct Fill {
    /// Bytes written.
    pub bytes: u64,
    /// The limit in bytes.
    pub limit: u64,
    /// The server's answer to the write beyond the limit: status, sub-status and message.
    pub refusal: Option<(u16, u32, String)>,
}

impl Fill {
    /// Returns the written part of the limit in percent.
    pub fn percent(&self) -> f64 {
        self.bytes as f64 * 100.0 / self.limit.max(1) as f64
    }

    /// Returns true if 80 % of the limit are used, the part at which operators are warned.
    pub fn is_near(&self) -> bool {
        self.percent() >= 80.0
    }
}

/// The state of the lab.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LabState {
    /// The running or last experiment.
    pub experiment: Option<Experiment>,
    /// Its progress.
    pub phase: Phase,
    /// Sentences that tell what has happened so far.
    pub steps: Vec<String>,
    /// The loads.
    pub series: Vec<Series>,
    /// The containers.
    pub containers: Vec<ContainerState>,
    /// The progress of an experiment that fills a partition.
    pub fill: Option<Fill>,
}

impl LabState {
    /// Returns the state as JSON.
    pub fn to_json(&self) -> Value {
        let (phase, failure) = match &self.phase {
            Phase::Idle => ("idle", None),
            Phase::Running => ("running", None),
            Phase::Ended => ("ended", None),
            Phase::Failed(failure) => ("failed", Some(failure.to_string())),
        };
        let mut series = Vec::new();
        for one in &self.series {
            let seconds: Vec<_> = one.seconds.iter().map(|second| second.to_json()).collect();
            series.push(json!({
                "label": one.label,
                "total": one.total().to_json(),
                "throttledPercent": one.throttled_percent(),
                "seconds": seconds,
            }));
        }
        let mut containers = Vec::new();
        for container in &self.containers {
            let states = |states: &[PartitionState]| {
                states.iter().map(partition_to_json).collect::<Vec<_>>()
            };
            containers.push(json!({
                "name": container.name,
                "partitionKey": container.key_path,
                "ruPerSecond": container.ru_per_second,
                "share": container.share(),
                "partitions": states(&container.partitions),
                "replaced": states(&container.replaced),
            }));
        }
        let fill = self.fill.as_ref().map(|fill| {
            let refusal = fill.refusal.as_ref().map(|(status, sub_status, message)| {
                json!({"status": status, "subStatus": sub_status, "message": message})
            });
            json!({"bytes": fill.bytes, "limit": fill.limit, "refusal": refusal})
        });
        json!({
            "experiment": self.experiment.map(|experiment| experiment.to_string()),
            "phase": phase,
            "failure": failure,
            "steps": self.steps,
            "series": series,
            "containers": containers,
            "fill": fill,
        })
    }
}

fn partition_to_json(partition: &PartitionState) -> Value {
    let seconds: Vec<_> = partition
        .seconds
        .iter()
        .map(|second| second.to_json())
        .collect();
    json!({
        "range": partition.range.id,
        "min": partition.range.min,
        "max": partition.range.max,
        "parents": partition.range.parents,
        "kilobytes": partition.kilobytes,
        "total": partition.total().to_json(),
        "seconds": seconds,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throttled_part_is_one_of_all_requests() {
        let second = Second {
            served: 3,
            throttled: 1,
            failed: 0,
            ru: 30.0,
        };
        let series = Series {
            label: "hot".to_owned(),
            seconds: vec![second, second],
        };
        assert_eq!(series.total().served, 6);
        assert_eq!(series.throttled_percent(), 25.0);
        let none = Series {
            label: "none".to_owned(),
            seconds: Vec::new(),
        };
        assert_eq!(none.throttled_percent(), 0.0);
    }

    #[test]
    fn a_limit_is_near_from_eighty_percent_on() {
        let fill = |bytes| Fill {
            bytes,
            limit: 100,
            refusal: None,
        };
        assert!(!fill(79).is_near());
        assert!(fill(80).is_near());
    }
}
