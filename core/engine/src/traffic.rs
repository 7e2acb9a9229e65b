//! Traffic: the requests of a container, summed up for charts: where in the EPK space and when, for
//! which partition keys, by which queries.
//!
//! ```text
//! heat_map      256 parts of the EPK space x time; old columns are summed into wider ones
//! top_keys      the partition keys with the greatest sums, with bounds of the error
//! operations    requests by their kind, with a sample of their items
//! query_watch   measures a query while it runs
//! query_forms   query texts without their values: count, charge, partitions
//! histogram     quantiles of many numbers in little memory
//! read          the view of the engine's callers
//! ```
//!
//! Promises: memory is bounded whatever is requested (see [`Traffic`]); a container without
//! requests allocates nothing; the only time read here is the duration of a query.
//!
//! Left out: survival of a restart. The figures begin anew with the process.

mod heat_map;
mod histogram;
mod operations;
mod query_forms;
mod query_watch;
mod read;
mod top_keys;

use crate::request::{
    Charge, ContainerLoad, Heat, HeatColumn, KeyMeasure, KeyWindow, OperationKind, QueryForm,
    RecordedTraffic,
};
use heat_map::HeatMap;
pub use operations::Replacement;
use operations::{OperationRun, Operations};
use orrery_model::partition_key::{Epk, Hashing};
use orrery_model::sync::lock;
use query_forms::{QueryForms, QueryRun};
pub(crate) use query_watch::{Asked, QueryWatch};
pub use read::query_form;
use std::sync::Mutex;
use top_keys::{RankedKeys, Ranks};

/// A request at one physical partition that was answered or refused.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The logical partition, if the request was for a single one.
    pub key: Option<&'a Epk>,
    /// The charge at the partition.
    pub charge: Charge,
    /// Bytes of the items that the request wrote or deleted.
    pub bytes_written: u64,
    /// True if the request was refused with 429.
    pub throttled: bool,
    /// The kind of the request.
    pub kind: OperationKind,
    /// The number of the item in the container, if the request found or wrote one.
    pub item: Option<u64>,
    /// The changes of the request, if it replaced an item.
    pub replacement: Option<Replacement>,
}

/// The traffic of one container: at most 4 MB for the heat map after a week in which every part of
/// the EPK space was always busy, 0.1 MB for the top keys, 0.1 MB for the kinds of requests, 1 MB
/// and 200 texts for the queries.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<Option<Box<Kept>>>);

#[derive(Debug, Default)]
struct Kept {
    /// The sum of everything noted.
    load: ContainerLoad,
    heat: HeatMap,
    by_charge: RankedKeys,
    by_bytes: RankedKeys,
    operations: Operations,
    queries: QueryForms,
}

impl Traffic {
    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(lock(&self.0).get_or_insert_default())
    }

    /// Adds a request that was answered or refused.
    pub fn note(&self, now_ms: u64, hashing: Hashing, seen: Seen<'_>) {
        let Seen {
            key,
            charge,
            bytes_written,
            throttled,
            kind,
            item,
            replacement,
        } = seen;
        let heat = Heat {
            charge,
            bytes_written,
            requests: 1,
            throttled: u32::from(throttled),
        };
        self.with(|kept| {
            kept.load.add(charge, throttled);
            kept.heat
                .add(now_ms, key.map(|epk| bucket_of(epk, hashing)), heat);
            // A query asks several partitions and is counted once, by `note_query`.
            if kind != OperationKind::Query && !throttled {
                let run = OperationRun {
                    charge,
                    item,
                    replacement,
                };
                kept.operations.add(kind, run);
            }
            let Some(epk) = key else { return };
            kept.by_charge.add(now_ms, epk, charge.0);
            if bytes_written > 0 {
                kept.by_bytes.add(now_ms, epk, bytes_written);
            }
        });
    }

    /// Adds an answered page of a query.
    fn note_query(&self, run: QueryRun<'_>) {
        let operation = OperationRun {
            charge: run.charge,
            ..OperationRun::default()
        };
        self.with(|kept| {
            kept.operations.add(OperationKind::Query, operation);
            kept.queries.add(run);
        });
    }

    /// Returns the sum of everything noted; `None` if there was nothing.
    fn load(&self) -> Option<ContainerLoad> {
        let kept = lock(&self.0);
        kept.as_ref().map(|kept| kept.load)
    }

    /// Returns the columns of the heat map that overlap `from_ms..to_ms`.
    fn heat_map(&self, now_ms: u64, from_ms: u64, to_ms: u64) -> Vec<HeatColumn> {
        self.with(|kept| kept.heat.columns(now_ms, from_ms, to_ms))
    }

    /// Returns the keys with the greatest sums.
    fn top_keys(&self, now_ms: u64, measure: KeyMeasure, window: KeyWindow) -> Ranks {
        self.with(|kept| match measure {
            KeyMeasure::Charge => kept.by_charge.top(now_ms, window),
            KeyMeasure::BytesWritten => kept.by_bytes.top(now_ms, window),
        })
    }

    /// Returns the forms of the queries, the most expensive in total first.
    fn queries(&self) -> Vec<QueryForm> {
        self.with(|kept| kept.queries.all())
    }

    /// Returns the requests in the form from which they can be repeated.
    fn recorded(&self) -> RecordedTraffic {
        self.with(|kept| RecordedTraffic {
            operations: kept.operations.recorded(),
            queries: kept.queries.recorded(),
        })
    }

    /// Returns true if index advice is wanted with the next query of this form.
    fn wants_advice(&self, form: u64) -> bool {
        self.with(|kept| kept.queries.wants_advice(form))
    }
}

/// Returns the part of the EPK space in which a key lies, 0 to 255.
fn bucket_of(epk: &Epk, hashing: Hashing) -> u8 {
    (epk.hash_position(hashing) >> 24) as u8
}
