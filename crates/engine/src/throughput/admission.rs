//! The one place that every request for items passes: before it is carried out, and after.
//!
//! A request is admitted at each physical partition that it asks ([`Engine::admit`]) and charged there afterwards
//! ([`Engine::charge`]); what asks one partition does both with [`Engine::at`], what asks several keeps a [`PartitionCharges`].
//! Metadata does not come here. Whoever wants to see every request at every partition looks at [`Engine::observe`].

use crate::Engine;
use crate::catalog::Container;
use crate::partition::Partition;
use crate::request::{AdmissionOptions, Charge, Priority};
use crate::traffic::Seen;
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Result};
use std::sync::Arc;

/// One request at one physical partition.
#[derive(Clone, Copy)]
pub(crate) struct RequestTarget<'a> {
    /// The container.
    pub container: &'a Container,
    /// The partition that is asked.
    pub partition: &'a Partition,
    /// The logical partition, if the request is for a single one.
    pub key: Option<&'a Epk>,
}

/// How a request ended at one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServedRequest {
    /// What the partition charged: nothing for a request that was refused with 429.
    pub charge: Charge,
    /// HTTP status, as far as [`status`] tells it.
    pub status: u16,
    /// Bytes of the items that it wrote or deleted there.
    pub bytes_written: u64,
}

/// That a request was admitted, and how it is entered afterwards.
#[derive(Clone, Copy, Debug)]
#[must_use = "what is admitted is charged"]
pub(crate) struct Admitted {
    admission: AdmissionOptions,
    /// Whether it is taken from the budget: not if it should have been refused and was not.
    takes: bool,
}

impl Engine {
    /// Whether a request may be carried out. Nothing is taken from the budget yet.
    ///
    /// # Errors
    /// 429/3200 with the time to wait.
    pub(crate) fn admit(
        &self,
        spot: RequestTarget<'_>,
        admission: AdmissionOptions,
    ) -> Result<Admitted> {
        let now = self.world().now_ms();
        let provision = spot.container.provision();
        let enforced = provision.enforced().unwrap_or(self.throughput().enforce);
        let refused = admission
            .bucket
            .and_then(|bucket| provision.bucket_admits(now, bucket).err());
        match spot
            .partition
            .meter
            .admit(now, self.priority(admission), enforced, refused)
        {
            Ok(takes) => Ok(Admitted { admission, takes }),
            Err(wait) => {
                self.observe(
                    now,
                    spot,
                    ServedRequest {
                        status: 429,
                        ..ServedRequest::default()
                    },
                );
                Err(Error::request_rate_is_large(wait))
            }
        }
    }

    /// Enters what an admitted request was charged.
    pub(crate) fn charge(&self, spot: RequestTarget<'_>, admitted: Admitted, done: ServedRequest) {
        let now = self.world().now_ms();
        let Admitted { admission, takes } = admitted;
        spot.partition
            .meter
            .charge(now, done.charge, self.priority(admission), takes);
        if let Some(bucket) = admission.bucket.filter(|_| takes) {
            spot.container
                .provision()
                .bucket_takes(now, bucket, done.charge);
        }
        self.observe(now, spot, done);
    }

    /// Carries out what a request asks of one partition: admitted before, charged afterwards for the steps that `run`
    /// adds to `work`.
    ///
    /// # Errors
    /// 429/3200, of which `work` has a step too, and what `run` returns.
    pub(crate) fn at<T>(
        &self,
        spot: RequestTarget<'_>,
        admission: AdmissionOptions,
        work: &mut Work,
        run: impl FnOnce(&mut Work) -> Result<T>,
    ) -> Result<T> {
        let admitted = self
            .admit(spot, admission)
            .inspect_err(|_| work.steps.push(Step::Throttled))?;
        let before = work.steps.len();
        let result = run(work);
        if admission.two_replicas {
            Step::add_second_replica_reads(&mut work.steps, before);
        }
        let steps = &work.steps[before.min(work.steps.len())..];
        let bytes_written = if result.is_ok() {
            bytes_written(steps)
        } else {
            0
        };
        self.charge(
            spot,
            admitted,
            ServedRequest {
                charge: self.profile.price_all(steps),
                status: status(&result),
                bytes_written,
            },
        );
        result
    }

    /// Admits and charges a request for one logical partition that does nothing and so costs nothing: what metering takes,
    /// for measurements.
    ///
    /// # Errors
    /// 429/3200.
    pub fn admit_only(
        &self,
        container: &Container,
        key: &PartitionKey,
        admission: AdmissionOptions,
    ) -> Result<()> {
        let epk = container.partition_key().epk(key);
        let spot = RequestTarget {
            container,
            partition: &container.partition_of(&epk),
            key: Some(&epk),
        };
        self.at(spot, admission, &mut Work::default(), |_| Ok(()))
    }

    /// Every request at every partition, when it has been answered or refused.
    fn observe(&self, now: u64, spot: RequestTarget<'_>, done: ServedRequest) {
        let ServedRequest {
            charge,
            status,
            bytes_written,
        } = done;
        let seen = Seen {
            key: spot.key,
            charge,
            bytes_written,
            throttled: status == 429,
        };
        spot.container
            .traffic()
            .note(now, spot.container.partition_key().hashing(), seen);
    }

    /// The priority by which a request is admitted, if priorities count.
    fn priority(&self, admission: AdmissionOptions) -> Option<Priority> {
        self.throughput().priorities.then_some(admission.priority)
    }
}

/// The status of an answer as far as it matters here: a failure's own, or 200.
pub(crate) fn status<T>(result: &Result<T>) -> u16 {
    result.as_ref().err().map_or(200, Error::status)
}

/// Bytes of the items that these steps wrote or deleted.
pub(crate) fn bytes_written(steps: &[Step]) -> u64 {
    let of = |step: &Step| match step {
        Step::Write { bytes, .. }
        | Step::Replace {
            new_bytes: bytes, ..
        } => *bytes as u64,
        Step::Script { inner, .. } => bytes_written(inner),
        _ => 0,
    };
    steps.iter().map(of).sum()
}

/// What a request that may ask several partitions did at each.
#[derive(Default)]
pub(crate) struct PartitionCharges {
    /// All that it did.
    pub work: Work,
    /// The logical partition, if it is for a single one.
    pub key: Option<Epk>,
    /// Whether a query's use of indexes is wanted though the client did not ask for it.
    pub index_advice: bool,
    /// Where it was admitted, each with the steps that it did there.
    parts: Vec<Part>,
}

struct Part {
    partition: Arc<Partition>,
    admitted: Admitted,
    steps: Vec<usize>,
}

impl PartitionCharges {
    /// Forgets an attempt whose partitions were gone.
    pub fn begin_again(&mut self) {
        *self = PartitionCharges {
            index_advice: self.index_advice,
            ..PartitionCharges::default()
        };
    }

    /// Admits the request at all these partitions.
    ///
    /// # Errors
    /// 429/3200 with the longest wait, if one of them refuses it.
    pub fn admit<'p>(
        &mut self,
        engine: &Engine,
        container: &Container,
        partitions: impl Iterator<Item = &'p Arc<Partition>>,
        admission: AdmissionOptions,
    ) -> Result<()> {
        let mut refused: Option<Error> = None;
        for partition in partitions {
            let spot = RequestTarget {
                container,
                partition,
                key: self.key.as_ref(),
            };
            match engine.admit(spot, admission) {
                Ok(admitted) => {
                    self.parts.push(Part {
                        partition: Arc::clone(partition),
                        admitted,
                        steps: Vec::new(),
                    });
                }
                Err(error) => {
                    let longer = refused
                        .as_ref()
                        .is_none_or(|r| r.retry_after_ms() < error.retry_after_ms());
                    refused = if longer { Some(error) } else { refused };
                }
            }
        }
        match refused {
            None => Ok(()),
            Some(error) => {
                // Nothing is done anywhere.
                self.parts.clear();
                self.work.steps.push(Step::Throttled);
                Err(error)
            }
        }
    }

    /// Enters a step at the partition with this range id.
    pub fn did(&mut self, range: u32, step: Step) {
        if let Some(part) = self
            .parts
            .iter_mut()
            .rev()
            .find(|part| part.partition.id == range)
        {
            part.steps.push(self.work.steps.len());
        }
        self.work.steps.push(step);
    }

    /// Asks a second replica of each partition for what was read there.
    pub fn ask_second_replicas(&mut self) {
        let first = self.work.steps.len();
        Step::add_second_replica_reads(&mut self.work.steps, 0);
        // Only queries are entered in bills, so each step has its second one, in the same order.
        for part in &mut self.parts {
            let again: Vec<usize> = part
                .steps
                .iter()
                .map(|at| first + at)
                .filter(|at| *at < first * 2)
                .collect();
            part.steps.extend(again);
        }
    }

    /// Charges each partition its part of `total`, in the proportion of what it did.
    pub fn settle(&self, engine: &Engine, container: &Container, total: Charge, status: u16) {
        let price = |part: &Part| -> u64 {
            part.steps
                .iter()
                .filter_map(|at| self.work.steps.get(*at))
                .map(|step| engine.profile.price_of(step).0)
                .sum()
        };
        let mut parts: Vec<(&Part, u64)> =
            self.parts.iter().map(|part| (part, price(part))).collect();
        // One that did nothing was not reached; if nothing was done anywhere, the first one was asked.
        let sum = parts.iter().map(|(_, price)| price).sum::<u64>();
        if sum > 0 {
            parts.retain(|(_, price)| *price > 0)
        } else {
            parts.truncate(1)
        }
        let mut left = total.0;
        for (at, (part, price)) in parts.iter().enumerate() {
            let of_total = || {
                u64::try_from(u128::from(total.0) * u128::from(*price) / u128::from(sum))
                    .unwrap_or(left)
            };
            let share = if at + 1 == parts.len() {
                left
            } else {
                of_total().min(left)
            };
            left -= share;
            let spot = RequestTarget {
                container,
                partition: &part.partition,
                key: self.key.as_ref(),
            };
            engine.charge(
                spot,
                part.admitted,
                ServedRequest {
                    charge: Charge(share),
                    status,
                    bytes_written: 0,
                },
            );
        }
    }
}
