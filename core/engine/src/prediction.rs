//! The needs of a prediction: an engine in memory with the same prices, a sample of the
//! items of a container, budgets for requests that never happened, and a query that no account
//! sees.
//!
//! Promises: nothing here writes to the store, and nothing is charged to a container, counted in
//! its traffic or taken from its budget.
//!
//! Left out: the prediction itself, which is the crate `orrery-prediction`.

use crate::catalog::Container;
use crate::errors::storage_failure;
use crate::partition::keys;
use crate::partition::row_reader::read_row;
use crate::partition::scan;
use crate::partition::visibility::Visibility;
use crate::query::{Cancel, read_natural};
use crate::request::{
    Charge, IndexingDirective, Outcome, QueryPage, QueryRequest, ReadOptions, Scope,
};
use crate::throughput::{Budget, PartitionCharges, ThroughputOptions};
use crate::{Engine, EngineOptions};
use bytes::Bytes;
use orrery_model::Result;
use orrery_model::world::{World, split_mix};
use orrery_storage::{Direction, MemoryStore};
use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, TryLockError};

/// Rows that are passed between two questions whether to go on.
const ROWS_PER_CHECK: usize = 1_024;

/// The right to run a prediction, until it is dropped.
pub struct PredictionTurn<'a> {
    _guard: MutexGuard<'a, ()>,
}

/// The choice of a sample of items.
#[derive(Clone, Debug, Default)]
pub struct Sampling {
    /// The share of the items that is chosen at random, of 2^32. The same items are chosen each
    /// time.
    pub share: u64,
    /// The numbers of items that are chosen in any case.
    pub wanted: HashSet<u64>,
}

/// An item of a sample.
#[derive(Clone, Debug)]
pub struct SampledItem {
    /// The number of the item in its container.
    pub number: u64,
    /// The JSON text without system properties.
    pub text: Bytes,
    /// `_ts`: the second of the last write.
    pub ts: u64,
    /// The indexing directive of the last write.
    pub indexing: IndexingDirective,
    /// True if chance chose the item, false if only [`Sampling::wanted`] did.
    pub is_random: bool,
}

/// A request that is to be served by budgets.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// Milliseconds at which the request arrives, ascending from request to request.
    pub at_ms: u64,
    /// The charge at each physical partition that the request asks, by index.
    pub charges: Vec<(usize, Charge)>,
}

/// The requests that budgets served and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// All requests.
    pub requests: u64,
    /// The requests that a partition refused with 429.
    pub throttled: u64,
}

impl Served {
    /// Serves requests by one budget for each physical partition. `rates` are in RU/s. A request
    /// that one of its partitions refuses costs nothing and is not repeated.
    pub fn by_budgets(rates: &[f64], bursts: bool, arrivals: &[Arrival]) -> Served {
        let mut budgets: Vec<Budget> = Vec::with_capacity(rates.len());
        for rate in rates {
            budgets.push(Budget::new((rate * 1_000.0) as u64, bursts));
        }
        let mut served = Served::default();
        for arrival in arrivals {
            served.requests += 1;
            let mut is_admitted = true;
            for (partition, _) in &arrival.charges {
                if let Some(budget) = budgets.get_mut(*partition) {
                    is_admitted &= budget.admit(arrival.at_ms, None).is_ok();
                }
            }
            if !is_admitted {
                served.throttled += 1;
                continue;
            }
            for (partition, charge) in &arrival.charges {
                if let Some(budget) = budgets.get_mut(*partition) {
                    budget.take(arrival.at_ms, *charge, None);
                }
            }
        }
        served
    }
}

impl Engine {
    /// Returns the right to run a prediction, or `None` while another one runs.
    pub fn begin_prediction(&self) -> Option<PredictionTurn<'_>> {
        match self.prediction_turn.try_lock() {
            Ok(guard) => Some(PredictionTurn { _guard: guard }),
            Err(TryLockError::Poisoned(poisoned)) => Some(PredictionTurn {
                _guard: poisoned.into_inner(),
            }),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Opens an empty engine in memory with the prices of this one and the limits of `container`.
    /// Its scripts run in the processes of this engine, and its queries share the memory of
    /// queries. No budget is enforced.
    ///
    /// # Errors
    /// 500 if the engine does not open.
    pub fn scratch_engine(&self, container: &Container, world: Arc<dyn World>) -> Result<Engine> {
        let options = EngineOptions {
            profile: self.profile,
            throughput: ThroughputOptions::default(),
            query_memory: Arc::clone(self.query_memory()),
            logical_partition_bytes: container.logical_partition_bytes_max(),
            partition_bytes: container.partition_bytes_max(),
            ..EngineOptions::new(self.scripts.options().clone())
        };
        let store = Arc::new(MemoryStore::new());
        Engine::open_with_scripts(store, options, Arc::clone(&self.scripts), world)
    }

    /// Returns the bytes that the store holds, roughly.
    pub fn approximate_bytes(&self) -> u64 {
        self.store.approximate_bytes()
    }

    /// Returns the current milliseconds of a clock that cannot be set.
    pub fn monotonic_ms(&self) -> u64 {
        self.world().monotonic_ms()
    }

    /// Passes a sample of the items that clients see to `visit`, partition after partition in
    /// natural order. Ends when `visit` or `proceed` returns false; `proceed` is asked now and
    /// then.
    /// Returns true if every item was considered.
    ///
    /// # Errors
    /// 500 if the store cannot be read; 410 if a partition was replaced meanwhile.
    pub fn sample_items(
        &self,
        container: &Container,
        sampling: &Sampling,
        proceed: &mut dyn FnMut() -> bool,
        visit: &mut dyn FnMut(SampledItem) -> bool,
    ) -> Result<bool> {
        let now_seconds = self.world().now_seconds();
        let settings = container.settings();
        for partition in container.partitions().iter() {
            let snapshot = partition.snapshot()?;
            let moment = partition.moment(now_seconds);
            let visible = Visibility::of(snapshot.as_ref(), moment, &settings)?;
            let range = keys::naturals_from(0);
            let rows = scan(snapshot.as_ref(), &range, Direction::Forward);
            for (at, row) in rows.enumerate() {
                if at % ROWS_PER_CHECK == 0 && !proceed() {
                    return Ok(false);
                }
                let (number, epk_prefix) = read_natural(row?)?;
                let is_random = split_mix(number) >> 32 < sampling.share;
                if !is_random && !sampling.wanted.contains(&number) {
                    continue;
                }
                let get = |key: &[u8]| snapshot.get(key).map_err(storage_failure);
                let Some(row) = read_row(epk_prefix, number, get)? else {
                    continue;
                };
                if !visible.has(&row) {
                    continue;
                }
                let item = SampledItem {
                    number,
                    text: row.body,
                    ts: row.ts,
                    indexing: row.indexing,
                    is_random,
                };
                if !visit(item) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Returns a page of a query that no budget admits, no account charges and no statistics count.
    pub fn measure_query(
        &self,
        container: &Container,
        scope: &Scope,
        query: &QueryRequest,
        cancel: &Cancel,
    ) -> Outcome<QueryPage> {
        let charges = PartitionCharges::unmetered();
        let options = ReadOptions {
            cancel: Some(cancel),
            ..ReadOptions::default()
        };
        let (result, charges, position) = self.run_query(container, scope, query, options, charges);
        self.outcome(result, charges.work, position)
    }
}
