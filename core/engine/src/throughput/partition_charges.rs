//! The work and the charges of a request that may ask several partitions.

use super::admission::{Admitted, RequestTarget, ServedRequest};
use crate::Engine;
use crate::catalog::Container;
use crate::partition::Partition;
use crate::request::{AdmissionOptions, Charge, OperationKind};
use orrery_model::partition_key::Epk;
use orrery_model::work::{Step, Work};
use orrery_model::{Error, Result};
use std::sync::Arc;

/// The work of a request at each partition that it asks, until the partitions are charged.
pub(crate) struct PartitionCharges {
    /// All work.
    pub work: Work,
    /// The logical partition, if the request is for a single one.
    pub key: Option<Epk>,
    /// True if the index metrics of a query are wanted though the client did not ask for them.
    pub index_advice: bool,
    /// The number of the first item that a query loaded.
    pub first_item: Option<u64>,
    /// The kind of the request.
    pub kind: OperationKind,
    /// False for a query that no budget admits and no account sees.
    pub is_metered: bool,
    /// The partitions that admitted the request.
    parts: Vec<Part>,
}

/// The part of a request at one partition.
struct Part {
    partition: Arc<Partition>,
    admitted: Admitted,
    /// Indexes into the steps of the work.
    steps: Vec<usize>,
}

impl PartitionCharges {
    /// Creates the charges of a query.
    pub(crate) fn of_query(index_advice: bool) -> Self {
        PartitionCharges::of(OperationKind::Query, index_advice)
    }

    /// Creates the charges of a page of a read feed.
    pub(crate) fn of_feed() -> Self {
        PartitionCharges::of(OperationKind::Feed, false)
    }

    fn of(kind: OperationKind, index_advice: bool) -> Self {
        PartitionCharges {
            work: Work::default(),
            key: None,
            index_advice,
            first_item: None,
            kind,
            is_metered: true,
            parts: Vec::new(),
        }
    }

    /// Creates the charges of a query that no budget admits and no account sees.
    pub(crate) fn unmetered() -> Self {
        PartitionCharges {
            is_metered: false,
            ..PartitionCharges::of_query(false)
        }
    }

    /// Forgets an attempt whose partitions were gone.
    pub(crate) fn begin_again(&mut self) {
        let is_metered = self.is_metered;
        *self = PartitionCharges {
            is_metered,
            ..PartitionCharges::of(self.kind, self.index_advice)
        };
    }

    /// Admits the request at all of these partitions, or at none.
    ///
    /// # Errors
    /// 429/3200 with the longest wait, if one of the partitions refuses the request.
    pub(crate) fn admit<'p>(
        &mut self,
        engine: &Engine,
        container: &Container,
        partitions: impl Iterator<Item = &'p Arc<Partition>>,
        options: AdmissionOptions,
    ) -> Result<()> {
        if !self.is_metered {
            return Ok(());
        }
        let mut refusal: Option<Error> = None;
        for partition in partitions {
            let target = RequestTarget {
                container,
                partition,
                key: self.key.as_ref(),
                kind: self.kind,
            };
            match engine.admit(target, options) {
                Ok(admitted) => self.parts.push(Part {
                    partition: Arc::clone(partition),
                    admitted,
                    steps: Vec::new(),
                }),
                Err(error) => {
                    let wait = error.retry_after_ms();
                    if refusal.as_ref().is_none_or(|r| r.retry_after_ms() < wait) {
                        refusal = Some(error);
                    }
                }
            }
        }
        match refusal {
            None => Ok(()),
            Some(error) => {
                self.parts.clear();
                self.work.steps.push(Step::Throttled);
                Err(error)
            }
        }
    }

    /// Adds a step of the partition with this range id.
    pub(crate) fn add_step(&mut self, range: u32, step: Step) {
        // The newest admission comes first: statistics of a ranking ask the same partitions before.
        for part in self.parts.iter_mut().rev() {
            if part.partition.id == range {
                part.steps.push(self.work.steps.len());
                break;
            }
        }
        self.work.steps.push(step);
    }

    /// Repeats each read at a second replica of its partition, as strong consistency and bounded
    /// staleness ask for.
    pub(crate) fn add_second_replica_reads(&mut self) {
        let count = self.work.steps.len();
        Step::add_second_replica_reads(&mut self.work.steps, 0);
        // Only queries have such charges, so every step got its second one, in the same order.
        for part in &mut self.parts {
            let mut second = Vec::with_capacity(part.steps.len());
            for step in &part.steps {
                if count + step < count * 2 {
                    second.push(count + step);
                }
            }
            part.steps.extend(second);
        }
    }

    /// Charges each partition its share of `total`, in the proportion of the work at the partition.
    pub(crate) fn charge(
        &self,
        engine: &Engine,
        container: &Container,
        total: Charge,
        is_throttled: bool,
    ) {
        let mut parts: Vec<(&Part, u64)> = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            parts.push((part, self.price_of(part, engine)));
        }
        // A partition without work was not reached. If none has work, the first was asked.
        let sum: u64 = parts.iter().map(|(_, price)| price).sum();
        if sum > 0 {
            parts.retain(|(_, price)| *price > 0);
        } else {
            parts.truncate(1);
        }

        // Shares are rounded down; the last partition gets what is left, so that the sum is exact.
        let mut left = total.0;
        for (at, (part, price)) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            let share = match is_last {
                true => left,
                false => share_of(total.0, *price, sum).min(left),
            };
            left -= share;
            let target = RequestTarget {
                container,
                partition: &part.partition,
                key: self.key.as_ref(),
                kind: self.kind,
            };
            let served = ServedRequest {
                charge: Charge(share),
                is_throttled,
                ..ServedRequest::default()
            };
            engine.charge(target, part.admitted, served);
        }
    }

    /// Returns the price of the steps at a partition, in hundredths of a request unit.
    fn price_of(&self, part: &Part, engine: &Engine) -> u64 {
        let mut price = 0;
        for at in &part.steps {
            if let Some(step) = self.work.steps.get(*at) {
                price += engine.profile.price_of(step).0;
            }
        }
        price
    }
}

/// Returns `total * price / sum`, rounded down.
fn share_of(total: u64, price: u64, sum: u64) -> u64 {
    let share = u128::from(total) * u128::from(price) / u128::from(sum);
    u64::try_from(share).unwrap_or(total)
}
