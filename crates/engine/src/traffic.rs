//! What was asked of a container, kept for pictures: where in the hash space and when, of which logical keys, by which
//! queries.
//!
//! ```text
//! heat_map      256 parts of the hash space x time; old columns are summed into wider ones
//! top_keys      the logical keys with the greatest sums, with bounds of the error
//! query_watch   looks on while a query runs
//! read          what callers of the engine see of it
//! query_forms   texts without their values: how often, how dear, how far
//! histogram     quantiles of many numbers in little memory
//! ```
//!
//! Promises: memory is bounded whatever is asked (see [`Traffic`]), nothing is allocated for a container that nobody
//! asks, and the only time that is read here is how long a query took.
//! Left out: survival of a restart. Pictures begin anew with the process.

mod heat_map;
mod histogram;
mod query_forms;
mod query_watch;
mod read;
mod top_keys;

use crate::request::{Charge, Heat, HeatColumn, KeyMeasure, KeyWindow, QueryForm};
use heat_map::HeatMap;
use orrery_model::partition_key::{Epk, Hashing};
use orrery_model::sync::lock;
use query_forms::{QueryForms, QueryRun};
pub(crate) use query_watch::QueryWatch;
use std::sync::Mutex;
use top_keys::{RankedKeys, Ranks};

/// A request at one physical partition, when it was answered or refused.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The logical partition, if it was for a single one.
    pub key: Option<&'a Epk>,
    /// What the partition charged for it.
    pub charge: Charge,
    /// Bytes of the items that it wrote or deleted there.
    pub bytes_written: u64,
    /// Whether it was refused with 429.
    pub throttled: bool,
}

/// All that is kept of one container: at most 4 MB for the heat map after a week in which every part of the hash space
/// was always busy, 0.1 MB for the ranks, 0.4 MB and 200 texts for the queries.
#[derive(Debug, Default)]
pub struct Traffic(Mutex<Option<Box<Kept>>>);

#[derive(Debug, Default)]
struct Kept {
    heat: HeatMap,
    by_charge: RankedKeys,
    by_bytes: RankedKeys,
    queries: QueryForms,
}

impl Traffic {
    fn with<T>(&self, work: impl FnOnce(&mut Kept) -> T) -> T {
        work(lock(&self.0).get_or_insert_default())
    }

    /// Enters a request that was answered or refused.
    pub fn note(&self, now_ms: u64, hashing: Hashing, seen: Seen<'_>) {
        let Seen {
            key,
            charge,
            bytes_written,
            throttled,
        } = seen;
        let heat = Heat {
            charge,
            bytes_written,
            requests: 1,
            throttled: u32::from(throttled),
        };
        self.with(|kept| {
            kept.heat
                .add(now_ms, key.map(|epk| bucket_of(epk, hashing)), heat);
            let Some(epk) = key else { return };
            kept.by_charge.add(now_ms, epk, charge.0);
            if bytes_written > 0 {
                kept.by_bytes.add(now_ms, epk, bytes_written);
            }
        });
    }

    /// Enters a page of a query that was answered.
    fn note_query(&self, run: QueryRun<'_>) {
        self.with(|kept| kept.queries.add(run));
    }

    /// The columns of the heat map that overlap a stretch of time, from its first to before its last millisecond.
    fn heat_map(&self, now_ms: u64, from_ms: u64, to_ms: u64) -> Vec<HeatColumn> {
        self.with(|kept| kept.heat.columns(now_ms, from_ms, to_ms))
    }

    /// The keys with the greatest sums.
    fn top_keys(&self, now_ms: u64, measure: KeyMeasure, window: KeyWindow) -> Ranks {
        self.with(|kept| match measure {
            KeyMeasure::Charge => kept.by_charge.top(now_ms, window),
            KeyMeasure::BytesWritten => kept.by_bytes.top(now_ms, window),
        })
    }

    /// The forms of the queries, the dearest in total first.
    fn queries(&self) -> Vec<QueryForm> {
        self.with(|kept| kept.queries.all())
    }

    /// Whether advice about indexes is wanted with the next query of this form.
    fn wants_advice(&self, form: u64) -> bool {
        self.with(|kept| kept.queries.wants_advice(form))
    }
}

/// The part of the hash space in which a key lies.
fn bucket_of(epk: &Epk, hashing: Hashing) -> u8 {
    (epk.hash_position(hashing) >> 24) as u8
}
