//! The counters of requests, for the operator.
//!
//! Requests are counted by operation and outcome. Ids and keys never become labels, so the number
//! of series is bounded. Counting a request costs one lookup in a small map and some additions.

use crate::activity::CloseReason;
use crate::operations::Operation;
use orrery_engine::request::Charge;
use orrery_model::metrics::{Counter, Gauge, Histogram, HistogramSnapshot, LATENCY_BOUNDS_SECONDS};
use orrery_model::sync::{lock, read, write};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// The bounds of the histogram of request charges, in request units: those that the semantic
/// conventions of OpenTelemetry advise for this database.
const REQUEST_UNITS: &[f64] = &[1.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];

/// The kind of a request, as far as the request was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RequestKind {
    /// A request that was refused before its operation was known.
    Unknown,
    /// A request for this operation.
    Operation(&'static Operation),
}

impl RequestKind {
    /// Returns the name of the operation, as in the log; `unknown` if the operation is not known.
    pub fn operation_name(self) -> &'static str {
        match self {
            RequestKind::Unknown => "unknown",
            RequestKind::Operation(operation) => operation.name(),
        }
    }

    /// Returns the type of the addressed resource, as in signatures; `account` for the account and
    /// `unknown` if the operation is not known.
    pub fn resource_type(self) -> &'static str {
        match self {
            RequestKind::Unknown => "unknown",
            RequestKind::Operation(operation) => operation.resource_type(),
        }
    }
}

/// The counters of one kind of request.
#[derive(Debug)]
struct Series {
    seconds: Histogram,
    charge: Histogram,
    /// Status, sub-status and number of requests.
    outcomes: RwLock<Vec<(u16, u32, AtomicU64)>>,
}

/// Latencies of requests that are kept between two readings of the live samples.
pub(crate) const LATENCIES_KEPT: usize = 100;

/// The latencies of the first requests since the last reading, in microseconds. Once the list is
/// full, a request costs one load.
#[derive(Debug, Default)]
struct Latencies {
    is_full: AtomicBool,
    list: Mutex<Vec<u64>>,
}

impl Latencies {
    fn add(&self, microseconds: u64) {
        if self.is_full.load(Ordering::Relaxed) {
            return;
        }
        let mut list = lock(&self.list);
        list.push(microseconds);
        if list.len() >= LATENCIES_KEPT {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    fn take(&self) -> Vec<u64> {
        let mut list = lock(&self.list);
        self.is_full.store(false, Ordering::Relaxed);
        std::mem::take(&mut *list)
    }
}

/// The counters since the gateway was created.
#[derive(Debug, Default)]
pub struct Metrics {
    series: RwLock<HashMap<RequestKind, Arc<Series>>>,
    /// The requests of this server's own console, which are among those of `series` too.
    own: Series,
    latencies: Latencies,
    /// The connections of clients.
    pub connections: Arc<ConnectionCounters>,
    /// Requests that came as frames of the direct mode; all others came by HTTP.
    pub direct_requests: Counter,
    /// The spans of sampled requests.
    pub spans: Arc<SpanCounters>,
}

/// The spans of all requests, by their fate.
#[derive(Debug, Default)]
pub struct SpanCounters {
    /// Accepted by the collector.
    pub exported: Counter,
    /// Dropped because the queue was full.
    pub dropped: Counter,
    /// Refused by the collector, or left in the queue when the server stopped.
    pub refused: Counter,
}

/// The counters of the connections of a port.
#[derive(Debug, Default)]
pub struct ConnectionCounters {
    /// Open connections.
    pub open: Gauge,
    /// Open connections of the direct mode, which are among those of `open`.
    pub direct: Gauge,
    /// TLS handshakes that clients refused, because they do not trust the certificate.
    pub refused_handshakes: Counter,
    /// Connections that the server has closed, in the order of [`CloseReason::ALL`].
    closed: [Counter; CloseReason::ALL.len()],
}

impl ConnectionCounters {
    /// Returns the number of connections that the server has closed for a reason.
    pub fn closed(&self, reason: CloseReason) -> u64 {
        self.closed[reason as usize].get()
    }

    /// Counts a connection that the server closes.
    pub(crate) fn count(&self, reason: CloseReason) {
        self.closed[reason as usize].add(1);
    }
}

/// The counts of one kind of request, read at one moment.
#[derive(Clone, Debug)]
pub struct RequestCounts {
    /// The kind.
    pub kind: RequestKind,
    /// The durations of requests, in seconds.
    pub seconds: HistogramSnapshot,
    /// The charges of requests, in request units.
    pub charge: HistogramSnapshot,
    /// Status, sub-status (0 for none) and number of requests, in ascending order.
    pub outcomes: Vec<(u16, u32, u64)>,
}

impl Default for Series {
    fn default() -> Self {
        Series {
            seconds: Histogram::new(LATENCY_BOUNDS_SECONDS),
            charge: Histogram::new(REQUEST_UNITS),
            outcomes: RwLock::default(),
        }
    }
}

impl Metrics {
    /// Creates the counters of a gateway whose port counts its connections in `connections`.
    pub(crate) fn of_port(connections: Arc<ConnectionCounters>) -> Metrics {
        Metrics {
            connections,
            ..Metrics::default()
        }
    }

    /// Counts a request that was answered, or that got no reply: status 0.
    pub fn record(
        &self,
        kind: RequestKind,
        status: u16,
        sub_status: u32,
        seconds: f64,
        charge: Charge,
    ) {
        let series = self.series(kind);
        series.seconds.observe(seconds);
        series.charge.observe(charge.as_ru());
        series.count_outcome(status, sub_status);
    }

    /// Returns the series of a kind, a new one for its first request.
    fn series(&self, kind: RequestKind) -> Arc<Series> {
        if let Some(series) = read(&self.series).get(&kind) {
            return series.clone();
        }
        let mut all = write(&self.series);
        all.entry(kind).or_default().clone()
    }

    /// Counts a request of this server's own console, beside [`Metrics::record`].
    pub(crate) fn record_own(&self, status: u16, seconds: f64, charge: Charge) {
        self.own.seconds.observe(seconds);
        self.own.charge.observe(charge.as_ru());
        self.own.count_outcome(status, 0);
    }

    /// Returns the counts of the requests of this server's own console.
    pub(crate) fn own_requests(&self) -> RequestCounts {
        self.own.counts(RequestKind::Unknown)
    }

    /// Keeps the latency of a client's request until the next reading of the live samples.
    pub(crate) fn record_latency(&self, microseconds: u64) {
        self.latencies.add(microseconds);
    }

    /// Returns the latencies of the first [`LATENCIES_KEPT`] requests since the last call, in
    /// microseconds.
    pub(crate) fn take_latencies(&self) -> Vec<u64> {
        self.latencies.take()
    }

    /// Returns the counts of all kinds, sorted by operation name and resource type.
    pub fn requests(&self) -> Vec<RequestCounts> {
        // The lock is released before the series are read, so that requests do not wait for this.
        let all: Vec<(RequestKind, Arc<Series>)> = read(&self.series)
            .iter()
            .map(|(kind, series)| (*kind, series.clone()))
            .collect();
        let mut counts: Vec<RequestCounts> = all
            .into_iter()
            .map(|(kind, series)| series.counts(kind))
            .collect();
        counts.sort_by_key(|counts| (counts.kind.operation_name(), counts.kind.resource_type()));
        counts
    }
}

impl Series {
    fn count_outcome(&self, status: u16, sub_status: u32) {
        let is_same = |(s, sub, _): &&(u16, u32, AtomicU64)| (*s, *sub) == (status, sub_status);
        // An outcome that occurred before needs only the shared lock.
        {
            let outcomes = read(&self.outcomes);
            if let Some((_, _, count)) = outcomes.iter().find(is_same) {
                count.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
        // Another thread may have added the outcome since the shared lock was released.
        let mut outcomes = write(&self.outcomes);
        match outcomes.iter().find(is_same) {
            Some((_, _, count)) => _ = count.fetch_add(1, Ordering::Relaxed),
            None => outcomes.push((status, sub_status, AtomicU64::new(1))),
        }
    }

    fn counts(&self, kind: RequestKind) -> RequestCounts {
        let mut outcomes: Vec<(u16, u32, u64)> = read(&self.outcomes)
            .iter()
            .map(|(status, sub, count)| (*status, *sub, count.load(Ordering::Relaxed)))
            .collect();
        outcomes.sort_unstable();
        RequestCounts {
            kind,
            seconds: self.seconds.snapshot(),
            charge: self.charge.snapshot(),
            outcomes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind_and_outcome() {
        let metrics = Metrics::default();
        let read_item = Operation::from_name("read_item").expect("an operation");
        let read = RequestKind::Operation(read_item);
        assert_eq!(
            (read.operation_name(), read.resource_type()),
            ("read_item", "docs")
        );
        metrics.record(read, 200, 0, 0.001, Charge(100));
        metrics.record(read, 429, 3200, 0.002, Charge(0));
        metrics.record(read, 200, 0, 0.003, Charge(250));
        metrics.record(RequestKind::Unknown, 401, 0, 0.0, Charge(0));
        let counts = metrics.requests();
        assert_eq!(counts.len(), 2);
        assert_eq!(
            (counts[0].kind, counts[0].outcomes.clone()),
            (read, vec![(200, 0, 2), (429, 3200, 1)])
        );
        assert_eq!(
            (
                counts[0].charge.count,
                counts[0].charge.sum,
                counts[0].seconds.count
            ),
            (3, 3.5, 3)
        );
    }
}
