//! Admission: every request for items passes here at every physical partition that it asks, before
//! it runs and after.
//!
//! A request is admitted ([`Engine::admit`]) and charged afterwards ([`Engine::charge`]). A request
//! at one partition does both with [`Engine::with_admission`]; a query, which may ask several
//! partitions, keeps [`PartitionCharges`]. [`Engine::observe`] sees every request at every
//! partition.
//!
//! Left out: metadata, which has no budget.

use crate::Engine;
use crate::catalog::Container;
use crate::partition::Partition;
use crate::request::{AdmissionOptions, Charge, OperationKind, Priority};
use crate::throughput::provision::Given;
use crate::traffic::{Replacement, Seen};
use orrery_model::partition_key::{Epk, PartitionKey};
use orrery_model::words::shortened;
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Kind, Result};

/// One request at one physical partition.
#[derive(Clone, Copy)]
pub(crate) struct RequestTarget<'a> {
    /// The container.
    pub container: &'a Container,
    /// The physical partition.
    pub partition: &'a Partition,
    /// The logical partition, if the request is for a single one.
    pub key: Option<&'a Epk>,
    /// The kind of the request.
    pub kind: OperationKind,
}

/// The end of a request at one partition.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServedRequest {
    /// The charge at this partition; nothing for a request that was refused with 429.
    pub charge: Charge,
    /// True if the request was answered with 429.
    pub is_throttled: bool,
    /// Bytes of the items that the request wrote or deleted here.
    pub bytes_written: u64,
    /// The number of the item that the request found or wrote.
    pub item: Option<u64>,
    /// The changes of the request, if it replaced an item.
    pub replacement: Option<Replacement>,
}

/// Report of a request at one partition, beside its steps and its result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ran {
    /// The charge, where it is not that of all steps together.
    pub charge: Option<Charge>,
    /// The number of the item that the request found or wrote.
    pub item: Option<u64>,
}

/// The proof of admission, needed to charge a request.
#[derive(Clone, Copy, Debug)]
#[must_use = "an admitted request is charged"]
pub(crate) struct Admitted {
    options: AdmissionOptions,
    /// True if the charge is taken from the budget. False if the request should have been refused
    /// and was not, because budgets are not enforced.
    takes_budget: bool,
}

/// Returns the error 429 with the budget that is spent and the ways to get along with it.
fn budget_spent(target: RequestTarget<'_>, options: AdmissionOptions, wait_ms: u64) -> Error {
    let (container, partition) = (target.container, target.partition);
    let share = match partition.meter.rate() {
        Some(rate) => format!("{} RU/s", rate as f64 / 1000.0),
        None => "its part".to_owned(),
    };
    let whole = match container.provision().given() {
        Given::Nothing => String::new(),
        Given::Own(throughput) => format!(" of the container's {} RU/s", throughput.ru_max()),
        Given::Shared(throughput, _) => format!(
            " of the {} RU/s that the containers of the database share",
            throughput.ru_max()
        ),
    };
    let bucket = match options.bucket {
        Some(_) => " The throughput bucket of the request may be what is spent.",
        None => "",
    };
    Error::request_rate_is_large(wait_ms).with_help(format!(
        "Physical partition {} of container '{}' has {share}{whole}, and they are spent for \
         {wait_ms} ms.{bucket} Retry after that time, raise the throughput, or spread requests \
         over more partition key values.",
        partition.id,
        shortened(container.id())
    ))
}

impl Engine {
    /// Admits a request at a partition. Nothing is taken from the budget yet.
    ///
    /// # Errors
    /// 429/3200 with the milliseconds to wait.
    pub(crate) fn admit(
        &self,
        target: RequestTarget<'_>,
        options: AdmissionOptions,
    ) -> Result<Admitted> {
        let now = self.world().now_ms();
        let provision = target.container.provision();
        let enforced = provision.enforced().unwrap_or(self.throughput().enforce);
        let bucket_wait = match options.bucket {
            Some(bucket) => provision.bucket_admits(now, bucket).err(),
            None => None,
        };
        let priority = self.priority(options);
        let meter = &target.partition.meter;
        match meter.admit(now, priority, enforced, bucket_wait) {
            Ok(takes_budget) => Ok(Admitted {
                options,
                takes_budget,
            }),
            Err(wait_ms) => {
                let throttled = ServedRequest {
                    is_throttled: true,
                    ..ServedRequest::default()
                };
                self.observe(now, target, options, throttled);
                Err(budget_spent(target, options, wait_ms))
            }
        }
    }

    /// Charges an admitted request.
    pub(crate) fn charge(
        &self,
        target: RequestTarget<'_>,
        admitted: Admitted,
        served: ServedRequest,
    ) {
        let now = self.world().now_ms();
        let Admitted {
            options,
            takes_budget,
        } = admitted;
        let priority = self.priority(options);
        let meter = &target.partition.meter;
        meter.charge(now, served.charge, priority, takes_budget);
        if takes_budget && let Some(bucket) = options.bucket {
            let provision = target.container.provision();
            provision.bucket_takes(now, bucket, served.charge);
        }
        self.observe(now, target, options, served);
    }

    /// Admits a request at one partition, runs it, and charges it for the steps that `run` adds, or
    /// the charge that `run` reports beside its result.
    ///
    /// # Errors
    /// 429/3200, for which a step is added as well, and the error of `run`.
    pub(crate) fn with_admission<T>(
        &self,
        target: RequestTarget<'_>,
        options: AdmissionOptions,
        work: &mut Work,
        run: impl FnOnce(&mut Vec<Step>) -> (Result<T>, Ran),
    ) -> Result<T> {
        let admitted = self
            .admit(target, options)
            .inspect_err(|_| work.steps.push(Step::Throttled))?;
        let (result, ran) = run(&mut work.steps);
        // Strong and bounded staleness reads ask a second replica, which doubles what was read.
        if options.two_replicas {
            Step::add_second_replica_reads(&mut work.steps, 0);
        }
        let served = ServedRequest {
            charge: ran.charge.unwrap_or_else(|| self.profile.price(work)),
            is_throttled: is_throttled(&result),
            bytes_written: match result {
                Ok(_) => bytes_written(&work.steps),
                Err(_) => 0,
            },
            item: ran.item,
            replacement: replacement(&work.steps),
        };
        self.charge(target, admitted, served);
        result
    }

    /// Admits and charges a request for one logical partition that does nothing and costs nothing,
    /// to measure what metering takes.
    ///
    /// # Errors
    /// 429/3200.
    pub fn admit_only(
        &self,
        container: &Container,
        key: &PartitionKey,
        options: AdmissionOptions,
    ) -> Result<()> {
        let epk = container.partition_key().epk(key);
        let target = RequestTarget {
            container,
            partition: &container.partition_of(&epk),
            key: Some(&epk),
            kind: OperationKind::PointRead,
        };
        self.with_admission(target, options, &mut Work::default(), |_| {
            (Ok(()), Ran::default())
        })
    }

    /// Counts a request at a partition for the heat map and the top keys, once the request has been
    /// answered or refused.
    fn observe(
        &self,
        now: u64,
        target: RequestTarget<'_>,
        options: AdmissionOptions,
        served: ServedRequest,
    ) {
        if options.is_unobserved {
            return;
        }
        let seen = Seen {
            key: target.key,
            charge: served.charge,
            bytes_written: served.bytes_written,
            throttled: served.is_throttled,
            kind: target.kind,
            item: served.item,
            replacement: served.replacement,
        };
        let hashing = target.container.partition_key().hashing();
        target.container.traffic().note(now, hashing, seen);
    }

    /// Returns the priority by which a request is admitted, or `None` if priorities do not count.
    fn priority(&self, options: AdmissionOptions) -> Option<Priority> {
        self.throughput().priorities.then_some(options.priority)
    }
}

/// Returns true if a request was answered with 429, by the budget or by a part of the server that
/// is busy.
pub(crate) fn is_throttled<T>(result: &Result<T>) -> bool {
    match result {
        Err(error) => error.status() == Kind::Throttled.status(),
        Ok(_) => false,
    }
}

/// Returns what the first step changed, if it replaced an item.
fn replacement(steps: &[Step]) -> Option<Replacement> {
    match steps.first() {
        Some(Step::Replace {
            changed_terms,
            patch_operations,
            ..
        }) => Some(Replacement {
            changed_terms: *changed_terms,
            patch_operations: *patch_operations,
        }),
        _ => None,
    }
}

/// Returns the bytes of the items that steps wrote or deleted.
pub(crate) fn bytes_written(steps: &[Step]) -> u64 {
    let mut sum = 0;
    for step in steps {
        sum += match step {
            Step::Write { bytes, .. } => *bytes as u64,
            Step::Replace { new_bytes, .. } => *new_bytes as u64,
            Step::Script { inner, .. } => bytes_written(inner),
            _ => 0,
        };
    }
    sum
}
