//! The metrics in the text format of Prometheus, version 0.0.4.
//!
//! Names follow the conventions of Prometheus: a prefix, base units, and `_total` for counters.
//! Counters of the gateway, the engine and the store are read where they are kept; the sizes of
//! containers and partitions are determined at each request for the metrics. Labels hold ids of
//! databases and containers, but never partition keys or ids of items.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::process::process_metrics;
use orrery_engine::PartitionInventory;
use orrery_gateway::{CloseReason, RequestCounts};
use orrery_model::metrics::HistogramSnapshot;
use std::fmt::Write;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all metrics.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let mut text = MetricsText::default();
    add_request_metrics(&mut text, call);
    add_engine_metrics(&mut text, call);
    add_share_metrics(&mut text, call);
    add_container_metrics(&mut text, call)?;
    add_server_metrics(&mut text, call);
    Ok(Answer {
        status: 200,
        content_type: CONTENT_TYPE,
        body: text.0,
    })
}

/// Adds the metrics of client requests.
fn add_request_metrics(text: &mut MetricsText, call: &Call) {
    let requests = call.components.gateway.metrics().requests();

    // The samples of one metric must be adjacent, so each metric has its own loop. The two totals
    // over all requests are summed in the first.
    let mut throttled: u64 = 0;
    let mut request_units = 0.0;
    text.family(
        "orrery_requests_total",
        "counter",
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
            text.sample("orrery_requests_total", &labels, *count as f64);
        }
    }

    let duration = "orrery_request_duration_seconds";
    text.family(
        duration,
        "histogram",
        "Time from the head of a request to its response.",
    );
    for counts in &requests {
        text.histogram(duration, &kind_labels(counts), &counts.seconds);
    }

    let charge = "orrery_request_charge_request_units";
    text.family(charge, "histogram", "Request charges.");
    for counts in &requests {
        text.histogram(charge, &kind_labels(counts), &counts.charge);
    }

    text.single(
        "orrery_request_units_total",
        "counter",
        "Sum of all request charges in request units.",
        request_units,
    );
    text.single(
        "orrery_throttled_requests_total",
        "counter",
        "Requests answered with 429.",
        throttled as f64,
    );
    text.single(
        "orrery_faults_struck_total",
        "counter",
        "Requests to which a fault rule was applied.",
        call.components.gateway.faults().struck() as f64,
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
fn add_engine_metrics(text: &mut MetricsText, call: &Call) {
    let meters = call.engine().meters();

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
            call.engine().sync_seconds(),
        ),
    ];
    for (name, help, counted) in histograms {
        if let Some(counted) = counted {
            text.family(name, "histogram", help);
            text.histogram(name, &[], &counted);
        }
    }

    text.single(
        "orrery_queries_cancelled_total",
        "counter",
        "Pages of queries that ended early because their clients closed the connection.",
        meters.cancelled_queries.get() as f64,
    );
    text.single(
        "orrery_changefeed_items_total",
        "counter",
        "Changes returned by change feeds.",
        meters.change_feed_items.get() as f64,
    );
    text.single(
        "orrery_ttl_expired_total",
        "counter",
        "Expired items removed from the store.",
        meters.expired_items.get() as f64,
    );
    text.single(
        "orrery_logical_partition_warnings_total",
        "counter",
        "Logical partitions that passed 80 % of the limit on their size.",
        call.engine().large_key_warnings() as f64,
    );
    text.single(
        "orrery_logical_partition_refusals_total",
        "counter",
        "Writes refused because of the limit on the size of a logical partition.",
        call.engine().large_key_refusals() as f64,
    );
}

/// Adds the use of the shares of memory and processor time.
fn add_share_metrics(text: &mut MetricsText, call: &Call) {
    let engine = call.engine();
    let memory = engine.query_memory();
    let (running, waiting) = call.components.gateway.script_requests();
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
        text.single(name, "gauge", help, value);
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
fn add_container_metrics(text: &mut MetricsText, call: &Call) -> Result<(), Problem> {
    // Each inventory is read once and used for all metrics, which therefore agree with each other.
    let engine = call.engine();
    let mut containers = Vec::new();
    for container in engine.every_container() {
        let partitions = engine.partition_inventory(&container)?;
        containers.push((container, partitions));
    }

    text.family(
        "orrery_container_items",
        "gauge",
        "Number of items in a container.",
    );
    for (container, partitions) in &containers {
        let labels = [("db", container.database_id()), ("coll", container.id())];
        let items: u64 = partitions.iter().map(|partition| partition.items).sum();
        text.sample("orrery_container_items", &labels, items as f64);
    }

    for (name, help, value) in PARTITION_GAUGES {
        text.family(name, "gauge", help);
        for (container, partitions) in &containers {
            for partition in partitions {
                let range_id = partition.id.to_string();
                let labels = [
                    ("db", container.database_id()),
                    ("coll", container.id()),
                    ("pkrange", range_id.as_str()),
                ];
                text.sample(name, &labels, value(partition));
            }
        }
    }

    text.single(
        "orrery_store_bytes",
        "gauge",
        "Approximate size of the store in bytes.",
        engine.store_bytes() as f64,
    );
    text.single(
        "orrery_damaged_blocks",
        "gauge",
        "Damaged blocks of the store that are known.",
        engine.damaged_block_count() as f64,
    );
    Ok(())
}

/// Adds the metrics of the program and the process.
fn add_server_metrics(text: &mut MetricsText, call: &Call) {
    let gateway = &call.components.gateway;
    text.single(
        "orrery_connections",
        "gauge",
        "Open connections of clients.",
        gateway.metrics().connections.open.get() as f64,
    );
    text.family(
        "orrery_connections_closed_total",
        "counter",
        "Connections of clients that the server closed or refused, by reason.",
    );
    for reason in CloseReason::ALL {
        let count = gateway.metrics().connections.closed(reason);
        let labels = [("reason", reason.name())];
        text.sample("orrery_connections_closed_total", &labels, count as f64);
    }
    text.single(
        "orrery_body_bytes",
        "gauge",
        "Bytes of bodies and of large heads that are held in memory.",
        gateway.body_memory().held_bytes() as f64,
    );
    text.single(
        "orrery_bodies_refused_total",
        "counter",
        "Bodies for which there was no memory.",
        gateway.body_memory().refused() as f64,
    );
    text.family(
        "orrery_build_info",
        "gauge",
        "Always 1; the labels identify the running build.",
    );
    text.sample(
        "orrery_build_info",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1.0,
    );
    for metric in process_metrics() {
        text.single(metric.name, metric.kind, metric.help, metric.value);
    }
}

/// A text in the format of Prometheus, written line by line.
#[derive(Default)]
struct MetricsText(String);

impl MetricsText {
    /// Begins a metric; its samples must follow.
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// Writes a metric that has a single sample without labels.
    fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Writes a sample.
    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        if labels.is_empty() {
            self.line(format_args!("{name} {value}"));
            return;
        }
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escape_label(value)))
            .collect();
        self.line(format_args!("{name}{{{}}} {value}", labels.join(",")));
    }

    /// Writes the samples of a histogram: cumulative counts by upper bound, the sum and the count.
    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], counted: &HistogramSnapshot) {
        let mut buckets: Vec<(String, u64)> = Vec::new();
        for (bound, count) in &counted.buckets {
            buckets.push((bound.to_string(), *count));
        }
        buckets.push(("+Inf".to_owned(), counted.count));
        for (bound, count) in &buckets {
            let labels = [labels, &[("le", bound.as_str())]].concat();
            self.sample(&format!("{name}_bucket"), &labels, *count as f64);
        }
        self.sample(&format!("{name}_sum"), labels, counted.sum);
        self.sample(&format!("{name}_count"), labels, counted.count as f64);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{line}");
    }
}

/// Escapes the value of a label; ids of databases and containers may contain quotes and line ends.
fn escape_label(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_in_the_format_of_prometheus() {
        let mut text = MetricsText::default();
        text.family("x_items", "gauge", "Items.");
        text.sample("x_items", &[("db", "a\"b\\c\nd"), ("coll", "ü")], 1.5);
        text.sample("x_items", &[], 3.0);
        assert_eq!(
            text.0,
            "# HELP x_items Items.\n# TYPE x_items gauge\n\
             x_items{db=\"a\\\"b\\\\c\\nd\",coll=\"ü\"} 1.5\nx_items 3\n"
        );
        let mut text = MetricsText::default();
        text.histogram(
            "h",
            &[("op", "o")],
            &HistogramSnapshot {
                buckets: vec![(0.5, 1), (2.0, 3)],
                count: 4,
                sum: 12.25,
            },
        );
        assert_eq!(
            text.0,
            "h_bucket{op=\"o\",le=\"0.5\"} 1\nh_bucket{op=\"o\",le=\"2\"} 3\n\
             h_bucket{op=\"o\",le=\"+Inf\"} 4\nh_sum{op=\"o\"} 12.25\nh_count{op=\"o\"} 4\n"
        );
    }
}
