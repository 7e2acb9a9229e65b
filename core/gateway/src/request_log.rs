//! The request log: the last slow, expensive, throttled and failed requests, in memory.
//!
//! ```text
//! settings   which requests are recorded
//! record     one recorded request
//! rings      the recorded requests, bounded by number and size
//! ```
//!
//! Promises:
//! - A request that is not recorded costs a few loads and comparisons, and no allocation.
//! - Memory is bounded: each reason for recording has a ring of its own, so that a flood of one
//!   kind does not push the others out, and a bound on the records of a second.
//! - A record holds no contents of items, no values of queries, no partition keys and no
//!   credentials. It holds ids of items, as the log of the server does.
//!
//! Left out: survival of a restart.

mod record;
mod rings;
mod settings;

pub(crate) use record::{Finished, container_names, names_of, partition_count, returned_rows};
pub use record::{QueryRecord, RecordReason, RequestRecord};
pub use rings::{RecordFilter, RecordPage, StatusFilter};
pub use settings::{RecordSettings, SettingsChange};

use orrery_engine::request::Charge;
use orrery_model::sync::lock;
use rings::Rings;
use settings::Thresholds;
use std::sync::Mutex;

/// The log of requests.
#[derive(Debug, Default)]
pub struct RequestLog {
    thresholds: Thresholds,
    rings: Mutex<Rings>,
}

impl RequestLog {
    /// Returns the reason for which a request is recorded; `None` if it is not. `now_ms` is called
    /// only while all requests are recorded.
    pub(crate) fn reason(
        &self,
        status: u16,
        charge: Charge,
        microseconds: u64,
        now_ms: impl FnOnce() -> u64,
    ) -> Option<RecordReason> {
        self.thresholds.reason(status, charge, microseconds, now_ms)
    }

    /// Adds the record that `make` returns, unless too many requests were recorded for this reason
    /// in the same second. The record gets its sequence number here.
    pub(crate) fn add(
        &self,
        reason: RecordReason,
        now_ms: u64,
        make: impl FnOnce() -> RequestRecord,
    ) {
        if !lock(&self.rings).has_room(reason, now_ms) {
            return;
        }
        // The record is made without the lock.
        let record = make();
        lock(&self.rings).add(record);
    }

    /// Returns a page of records, in ascending order of their numbers.
    pub fn read(&self, filter: &RecordFilter) -> RecordPage {
        lock(&self.rings).read(filter)
    }

    /// Returns the settings.
    pub fn settings(&self) -> RecordSettings {
        self.thresholds.read()
    }

    /// Changes the settings that `change` names.
    pub fn change_settings(&self, change: SettingsChange, now_ms: u64) {
        self.thresholds.change(change, now_ms);
    }

    /// Records all requests for the next half minute, because a reader follows them.
    pub fn follow(&self, now_ms: u64) {
        self.thresholds.follow(now_ms);
    }
}
