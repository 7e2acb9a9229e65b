//! The metrics of the server as values: one description, from which the text of `/metrics` and the
//! export by OpenTelemetry are made.
//!
//! Counters of the gateway, the engine and the store are read where they are kept; the sizes of
//! containers and partitions are determined at each reading. Labels hold ids of databases and
//! containers, but never partition keys or ids of items.

use crate::cluster_metrics::add_cluster_metrics;
use crate::process::process_metrics;
use crate::stage::Components;
use orrery_engine::PartitionInventory;
use orrery_gateway::{CloseReason, RequestCounts};
use orrery_model::Kind;
use orrery_model::metrics::HistogramSnapshot;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A sum that only rises while the process lives.
    Counter,
    /// A value that rises and falls.
    Gauge,
    /// Counts of values by upper bound, with their sum; all rise only.
    Histogram,
}

/// One metric with its samples.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Name by the conventions of Prometheus: a prefix, base units, and `_total` for counters.
    pub name: &'static str,
    /// Kind of all samples.
    pub kind: MetricKind,
    /// One sentence about the metric.
    pub help: &'static str,
    /// Samples, whose labels differ.
    pub samples: Vec<MetricSample>,
}

/// A value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSample {
    /// Names and values of labels.
    pub labels: Vec<(&'static str, String)>,
    /// The value: a histogram for metrics of that kind, otherwise a number.
    pub value: MetricValue,
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// The value of a counter or gauge.
    Number(f64),
    /// The value of a histogram.
    Histogram(HistogramSnapshot),
}

/// Returns all metrics of a server whose data is open.
///
/// # Errors
/// A partition's counters cannot be read from the store.
pub fn metric_families(components: &Components) -> Result<Vec<MetricFamily>, orrery_model::Error> {
    let mut families = Families::default();
    add_request_metrics(&mut families, components);
    add_engine_metrics(&mut families, components);
    add_share_metrics(&mut families, components);
    add_container_metrics(&mut families, components)?;
    add_cluster_metrics(&mut families, components);
    add_server_metrics(&mut families, components);
    add_backup_metrics(&mut families, components);
    add_span_metrics(&mut families, components);
    Ok(families.0)
}

/// Adds the metrics of client requests.
fn add_request_metrics(families: &mut Families, components: &Components) {
    let requests = components.gateway.metrics().requests();

    // The samples of one metric must be adjacent, so each metric has its own loop. The two totals
    // over all requests are summed in the first.
    let mut throttled: u64 = 0;
    let mut request_units = 0.0;
    families.family(
        "orrery_requests_total",
        MetricKind::Counter,
        "Requests by operation, resource type and outcome.",
    );
    for counts in &requests {
        request_units += counts.charge.sum;
        for (status, sub_status, count) in &counts.outcomes {
            if *status == 429 {
                throttled += *count;
            }
            let status = status.to_string();
            let sub_status = sub_status.to_string();
            let mut labels = kind_labels(counts).to_vec();
            labels.push(("status", status.as_str()));
            labels.push(("substatus", sub_status.as_str()));
            families.sample("orrery_requests_total", &labels, *count as f64);
        }
    }

    let duration = "orrery_request_duration_seconds";
    families.family(
        duration,
        MetricKind::Histogram,
        "Time from the head of a request to its response.",
    );
    for counts in &requests {
        families.histogram(duration, &kind_labels(counts), &counts.seconds);
    }

    let charge = "orrery_request_charge_request_units";
    families.family(charge, MetricKind::Histogram, "Request charges.");
    for counts in &requests {
        families.histogram(charge, &kind_labels(counts), &counts.charge);
    }

    families.single(
        "orrery_request_units_total",
        MetricKind::Counter,
        "Sum of all request charges in request units.",
        request_units,
    );
    families.single(
        "orrery_throttled_requests_total",
        MetricKind::Counter,
        "Requests answered with 429.",
        throttled as f64,
    );
    families.single(
        "orrery_faults_struck_total",
        MetricKind::Counter,
        "Requests to which a fault rule was applied.",
        components.gateway.faults().struck() as f64,
    );
}

/// Returns the labels for the operation and the resource type of requests.
fn kind_labels(counts: &RequestCounts) -> [(&'static str, &'static str); 2] {
    [
        ("op", counts.kind.operation_name()),
        ("resource", counts.kind.resource_type()),
    ]
}

/// Adds the metrics of the engine and the store.
fn add_engine_metrics(families: &mut Families, components: &Components) {
    let meters = components.engine.meters();

    // A store in memory has no log and therefore no syncs.
    let histograms = [
        (
            "orrery_query_partitions_contacted",
            "Physical partitions read for a page of a query.",
            Some(meters.query_partitions.snapshot()),
        ),
        (
            "orrery_query_index_lookup_seconds",
            "Time for planning a page of a query and for its index lookups.",
            Some(meters.index_lookup_seconds.snapshot()),
        ),
        (
            "orrery_script_seconds",
            "Time for running a stored procedure or trigger.",
            Some(meters.script_seconds.snapshot()),
        ),
        (
            "orrery_wal_fsync_seconds",
            "Time for a sync of the log.",
            components.engine.sync_seconds(),
        ),
    ];
    for (name, help, counted) in histograms {
        if let Some(counted) = counted {
            families.family(name, MetricKind::Histogram, help);
            families.histogram(name, &[], &counted);
        }
    }

    families.single(
        "orrery_queries_cancelled_total",
        MetricKind::Counter,
        "Pages of queries that ended early because their clients closed the connection.",
        meters.cancelled_queries.get() as f64,
    );
    families.single(
        "orrery_changefeed_items_total",
        MetricKind::Counter,
        "Changes returned by change feeds.",
        meters.change_feed_items.get() as f64,
    );
    families.single(
        "orrery_ttl_expired_total",
        MetricKind::Counter,
        "Expired items removed from the store.",
        meters.expired_items.get() as f64,
    );
    families.single(
        "orrery_logical_partition_warnings_total",
        MetricKind::Counter,
        "Logical partitions that passed 80 % of the limit on their size.",
        components.engine.large_key_warnings() as f64,
    );
    families.single(
        "orrery_logical_partition_refusals_total",
        MetricKind::Counter,
        "Writes refused because of the limit on the size of a logical partition.",
        components.engine.large_key_refusals() as f64,
    );
}

/// Adds the use of the shares of memory and processor time.
fn add_share_metrics(families: &mut Families, components: &Components) {
    let engine = &components.engine;
    let memory = engine.query_memory();
    let (running, waiting) = components.gateway.script_requests();
    let gauges = [
        (
            "orrery_query_memory_bytes",
            "Memory that queries have reserved for rows to be sorted, groups and lists.",
            memory.used() as f64,
        ),
        (
            "orrery_query_memory_limit_bytes",
            "Memory that queries may reserve together.",
            memory.limit() as f64,
        ),
        (
            "orrery_queries_running",
            "Pages of queries for items that have begun and not ended.",
            engine.running_queries() as f64,
        ),
        (
            "orrery_queries_waiting",
            "Pages of queries that wait for a slot.",
            engine.waiting_queries() as f64,
        ),
        (
            "orrery_script_processes",
            "Processes that run scripts, busy or idle.",
            engine.script_processes() as f64,
        ),
        (
            "orrery_script_requests_running",
            "Requests with scripts that run.",
            running as f64,
        ),
        (
            "orrery_script_requests_waiting",
            "Requests with scripts that wait for their turn.",
            waiting as f64,
        ),
    ];
    for (name, help, value) in gauges {
        families.single(name, MetricKind::Gauge, help, value);
    }
}

/// A gauge of each physical partition: name, help text and value.
type PartitionGauge = (&'static str, &'static str, fn(&PartitionInventory) -> f64);

const PARTITION_GAUGES: &[PartitionGauge] = &[
    (
        "orrery_partition_bytes",
        "Size of the items of a physical partition in bytes of their JSON texts.",
        |partition| partition.bytes as f64,
    ),
    (
        "orrery_partition_index_bytes",
        "Size of the index entries' rows of a physical partition in bytes, keys and values.",
        |partition| partition.index_bytes as f64,
    ),
    (
        "orrery_partition_normalized_ru_ratio",
        "Share of its budget that a physical partition spent in the last whole second.",
        |partition| partition.throughput.normalized,
    ),
];

/// Adds the sizes of the containers, their physical partitions and the store.
fn add_container_metrics(
    families: &mut Families,
    components: &Components,
) -> Result<(), orrery_model::Error> {
    // Each inventory is read once and used for all metrics, which therefore agree with each other.
    let engine = &components.engine;
    let mut containers = Vec::new();
    for container in engine.every_container() {
        let partitions = match engine.partition_inventory(&container) {
            // A cluster that is away has metrics of its own.
            Err(error) if error.kind() == Kind::Unavailable => continue,
            partitions => partitions?,
        };
        containers.push((container, partitions));
    }

    families.family(
        "orrery_container_items",
        MetricKind::Gauge,
        "Number of items in a container.",
    );
    for (container, partitions) in &containers {
        let labels = [("db", container.database_id()), ("coll", container.id())];
        let items: u64 = partitions.iter().map(|partition| partition.items).sum();
        families.sample("orrery_container_items", &labels, items as f64);
    }

    for (name, help, value) in PARTITION_GAUGES {
        families.family(name, MetricKind::Gauge, help);
        for (container, partitions) in &containers {
            for partition in partitions {
                let range_id = partition.id.to_string();
                let labels = [
                    ("db", container.database_id()),
                    ("coll", container.id()),
                    ("pkrange", range_id.as_str()),
                ];
                families.sample(name, &labels, value(partition));
            }
        }
    }

    families.single(
        "orrery_store_bytes",
        MetricKind::Gauge,
        "Approximate size of the store in bytes.",
        engine.store_bytes() as f64,
    );
    families.single(
        "orrery_damaged_blocks",
        MetricKind::Gauge,
        "Damaged blocks of the store that are known.",
        engine.damaged_block_count() as f64,
    );
    Ok(())
}

/// Adds the metrics of the continuous backup, if there is one.
fn add_backup_metrics(families: &mut Families, components: &Components) {
    let Some(backups) = &components.continuous_backup else {
        return;
    };
    families.single(
        "orrery_continuous_backup_lag_seconds",
        MetricKind::Gauge,
        "Seconds of which writes may be missing in the continuous backup.",
        backups.lag_seconds() as f64,
    );
    if let Some(from) = backups.restorable_from() {
        families.single(
            "orrery_continuous_backup_restorable_from_seconds",
            MetricKind::Gauge,
            "First second since 1970-01-01 UTC from which on each second can be restored.",
            from as f64,
        );
    }
    families.single(
        "orrery_continuous_backup_bytes_total",
        MetricKind::Counter,
        "Bytes that were added to the log of the continuous backup.",
        backups.segment_bytes() as f64,
    );
    families.single(
        "orrery_continuous_backup_failures_total",
        MetricKind::Counter,
        "Rounds and bases of the continuous backup that failed.",
        backups.failures() as f64,
    );
}

/// Adds the metrics of the program and the process.
fn add_server_metrics(families: &mut Families, components: &Components) {
    let gateway = &components.gateway;
    families.single(
        "orrery_connections",
        MetricKind::Gauge,
        "Open connections of clients.",
        gateway.metrics().connections.open.get() as f64,
    );
    families.single(
        "orrery_connections_direct",
        MetricKind::Gauge,
        "Open connections of clients in the direct mode.",
        gateway.metrics().connections.direct.get() as f64,
    );
    families.single(
        "orrery_direct_requests_total",
        MetricKind::Counter,
        "Requests that came as frames of the direct mode.",
        gateway.metrics().direct_requests.get() as f64,
    );
    families.single(
        "orrery_tls_handshakes_refused_total",
        MetricKind::Counter,
        "TLS handshakes that clients refused, because they do not trust the certificate.",
        gateway.metrics().connections.refused_handshakes.get() as f64,
    );
    families.family(
        "orrery_connections_closed_total",
        MetricKind::Counter,
        "Connections of clients that the server closed or refused, by reason.",
    );
    for reason in CloseReason::ALL {
        let count = gateway.metrics().connections.closed(reason);
        let labels = [("reason", reason.name())];
        families.sample("orrery_connections_closed_total", &labels, count as f64);
    }
    families.single(
        "orrery_body_bytes",
        MetricKind::Gauge,
        "Bytes of bodies and of large heads that are held in memory.",
        gateway.body_memory().held_bytes() as f64,
    );
    families.single(
        "orrery_bodies_refused_total",
        MetricKind::Counter,
        "Bodies for which there was no memory.",
        gateway.body_memory().refused() as f64,
    );
    families.family(
        "orrery_build_info",
        MetricKind::Gauge,
        "Always 1; the labels identify the running build.",
    );
    families.sample(
        "orrery_build_info",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1.0,
    );
    for metric in process_metrics() {
        families.single(metric.name, metric.kind, metric.help, metric.value);
    }
}

/// Adds the metrics of the trace spans that the gateway records.
fn add_span_metrics(families: &mut Families, components: &Components) {
    let spans = &components.gateway.metrics().spans;
    let outcomes = [
        ("exported", spans.exported.get()),
        ("dropped", spans.dropped.get()),
        ("refused", spans.refused.get()),
    ];
    families.family(
        "orrery_trace_spans_total",
        MetricKind::Counter,
        "Spans of sampled requests: exported, dropped because the queue was full, or refused by \
         the collector.",
    );
    for (outcome, count) in outcomes {
        let labels = [("outcome", outcome)];
        families.sample("orrery_trace_spans_total", &labels, count as f64);
    }
}

/// Metrics that are being collected; samples belong to the last family.
#[derive(Default)]
pub(crate) struct Families(Vec<MetricFamily>);

impl Families {
    /// Begins a metric; its samples must follow.
    pub(crate) fn family(&mut self, name: &'static str, kind: MetricKind, help: &'static str) {
        self.0.push(MetricFamily {
            name,
            kind,
            help,
            samples: Vec::new(),
        });
    }

    /// Adds a metric that has a single sample without labels.
    pub(crate) fn single(
        &mut self,
        name: &'static str,
        kind: MetricKind,
        help: &'static str,
        value: f64,
    ) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Adds a sample to the metric that was begun last.
    pub(crate) fn sample(&mut self, name: &str, labels: &[(&'static str, &str)], value: f64) {
        self.add(name, labels, MetricValue::Number(value));
    }

    /// Adds a sample of a histogram to the metric that was begun last.
    pub(crate) fn histogram(
        &mut self,
        name: &str,
        labels: &[(&'static str, &str)],
        counted: &HistogramSnapshot,
    ) {
        self.add(name, labels, MetricValue::Histogram(counted.clone()));
    }

    fn add(&mut self, name: &str, labels: &[(&'static str, &str)], value: MetricValue) {
        let Some(family) = self.0.last_mut() else {
            return;
        };
        debug_assert_eq!(family.name, name, "a sample stands under its own metric");
        let labels = labels
            .iter()
            .map(|(name, text)| (*name, (*text).to_owned()));
        family.samples.push(MetricSample {
            labels: labels.collect(),
            value,
        });
    }
}
