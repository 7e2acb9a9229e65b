//! The traces of a request that has ended: the headers with its time, a line in the log, a record,
//! a span, and a notice to the operator.
//!
//! Leaves out: the counters, which `metrics.rs` has.

use super::Gateway;
use crate::account::AccountRegions;
use crate::connection::Connection;
use crate::direct::Transport;
use crate::log::{Field, LogLevel};
use crate::metrics::RequestKind;
use crate::notices::Notices;
use crate::reply::Reply;
use crate::request_log::{Finished, RecordReason, RequestRecord};
use crate::slow;
use http::HeaderValue;
use http::request::Parts;
use orrery_model::Kind;

impl Gateway {
    /// Sets the headers that state the regions and the time of a request.
    pub(super) fn set_measured(&self, reply: &mut Reply, head: &Parts, microseconds: u64) {
        let read_regions = self.read_regions(head).to_string();
        reply.set("x-ms-number-of-read-regions", &read_regions);
        let (whole, part) = (microseconds / 1000, microseconds % 1000);
        reply.set("x-ms-request-duration-ms", &format!("{whole}.{part:03}"));
    }

    /// Returns the number of regions beside that of the writes, as a client sees it.
    fn read_regions(&self, head: &Parts) -> usize {
        let regions = match head.extensions.get::<AccountRegions>() {
            Some(AccountRegions(regions)) => regions.len(),
            None => self.account.regions.len(),
        };
        regions.saturating_sub(1)
    }

    /// Tells the operator of a refusal that has a remedy.
    pub(super) fn tell_refusal(&self, reply: &Reply, head: &Parts, connection: &Connection) {
        if let Some(error) = &reply.error
            && Notices::is_about(error)
        {
            self.notices
                .tell(&self.log, self.now_ms(), error, head, connection);
        }
    }

    /// Gives a finished request to the parts that watch requests, each of which may be off.
    pub(super) fn observe(&self, finished: &Finished<'_>) {
        self.record(finished);
        self.report_slow(finished);
        if let Some((recorder, account)) = &self.spans {
            let counters = &self.metrics.spans;
            recorder.record(finished, &self.engine, &*self.world, account, counters);
        }
    }

    /// Adds a request to the log of slow, expensive and failed requests, if it is one of them.
    fn record(&self, finished: &Finished<'_>) {
        let (status, charge) = (finished.reply.status, finished.reply.charge);
        let now_ms = || self.now_ms();
        let log = &self.request_log;
        let Some(reason) = log.reason(status, charge, finished.microseconds, now_ms) else {
            return;
        };
        let time_ms = self.now_ms();
        log.add(reason, time_ms, || {
            RequestRecord::of(finished, reason, time_ms, &self.engine)
        });
    }

    /// Logs a request that took too long, if the operator wants such lines.
    fn report_slow(&self, finished: &Finished<'_>) {
        let Some(slow) = self.slow_requests else {
            return;
        };
        if !slow.covers(finished.microseconds) || !self.log.is_enabled(LogLevel::Warn) {
            return;
        }
        let now_ms = self.now_ms();
        let record = RequestRecord::of(finished, RecordReason::Slow, now_ms, &self.engine);
        let query = slow.query(&record, finished.call);
        let fields = slow::fields(&record, query.as_ref());
        self.log
            .write(now_ms, LogLevel::Warn, "slow request", &fields);
    }

    /// Logs a request in one line: at level debug, or as a warning with its causes if the server
    /// failed.
    pub(super) fn log_request(
        &self,
        kind: RequestKind,
        reply: &Reply,
        head: &Parts,
        activity: &HeaderValue,
        milliseconds: f64,
        connection: &Connection,
    ) {
        let level = match reply.status >= 500 && self.is_news(reply) {
            true => LogLevel::Warn,
            false => LogLevel::Debug,
        };
        // The fields below cost allocations, which most servers can save.
        if !self.log.is_enabled(level) {
            return;
        }
        let (sub_status, cause) = match &reply.error {
            Some(error) => (error.sub_status(), error.cause_chain()),
            None => (0, String::new()),
        };
        let peer = connection.peer.to_string();
        let activity = activity.to_str().unwrap_or_default();
        let mut fields = vec![
            ("op", Field::Text(kind.operation_name())),
            ("method", Field::Text(head.method.as_str())),
            ("path", Field::Text(head.uri.path())),
            ("status", Field::Number(f64::from(reply.status))),
            ("substatus", Field::Number(f64::from(sub_status))),
            ("ru", Field::Number(reply.charge.as_ru())),
            ("ms", Field::Number(milliseconds)),
            ("activityId", Field::Text(activity)),
            ("peer", Field::Text(&peer)),
            ("transport", Field::Text(Transport::of(head).name())),
        ];
        if let Some(position) = reply.position {
            fields.push(("pkrange", Field::Number(f64::from(position.range_id))));
        }
        if !cause.is_empty() {
            fields.push(("cause", Field::Text(&cause)));
        }
        self.log.write(self.now_ms(), level, "request", &fields);
    }

    /// Returns true for the failure of a request that the log does not have already.
    fn is_news(&self, reply: &Reply) -> bool {
        let Some(error) = &reply.error else {
            return true;
        };
        match error.kind() {
            // A full disk is reported once by the server, and not with each refused request.
            Kind::StorageFull => false,
            // Another node answers what this one cannot.
            Kind::Unavailable if self.leaves_to_others() => false,
            // A part of the store that is away refuses each request for it.
            Kind::Unavailable if self.remote_store.is_some() => {
                let cause = error.cause_chain();
                self.store_failures
                    .is_news(&cause, self.world.monotonic_ms())
            }
            _ => true,
        }
    }
}
