//! The metrics, in the text form of Prometheus (version 0.0.4).
//!
//! Names follow its habits: a prefix, base units, `_total` for what only rises. What is a count in the gateway, the
//! engine or the store is read there; what a container holds is counted when it is asked for.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::process;
use orrery_engine::PartitionInventory;
use orrery_gateway::RequestCounts;
use orrery_model::metrics::HistogramSnapshot;
use std::fmt::Write;

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let mut text = Text::default();
    requests(&mut text, call);
    engine(&mut text, call);
    containers(&mut text, call)?;
    server(&mut text, call);
    Ok(Answer {
        status: 200,
        content: CONTENT_TYPE,
        body: text.0,
    })
}

fn requests(text: &mut Text, call: &Call) {
    let requests = call.parts.gateway.metrics().requests();
    text.family(
        "orrery_requests_total",
        "counter",
        "Requests by operation, type of resource and outcome.",
    );
    let (mut throttled, mut units) = (0, 0.0);
    for counts in &requests {
        units += counts.charge.sum;
        for (status, sub_status, count) in &counts.outcomes {
            throttled += if *status == 429 { *count } else { 0 };
            let (status, sub_status) = (status.to_string(), sub_status.to_string());
            let labels = [
                kind(counts).as_slice(),
                &[("status", &*status), ("substatus", &*sub_status)],
            ]
            .concat();
            text.sample("orrery_requests_total", &labels, *count as f64);
        }
    }
    text.family(
        "orrery_request_duration_seconds",
        "histogram",
        "From the head of a request to its answer.",
    );
    for counts in &requests {
        text.histogram(
            "orrery_request_duration_seconds",
            &kind(counts),
            &counts.seconds,
        );
    }
    text.family(
        "orrery_request_charge_request_units",
        "histogram",
        "What requests were charged.",
    );
    for counts in &requests {
        text.histogram(
            "orrery_request_charge_request_units",
            &kind(counts),
            &counts.charge,
        );
    }
    text.one(
        "orrery_request_units_total",
        "counter",
        "Request units of all requests.",
        units,
    );
    text.one(
        "orrery_throttled_requests_total",
        "counter",
        "Requests that were answered with 429.",
        throttled as f64,
    );
    let struck = call.parts.gateway.faults().struck();
    text.one(
        "orrery_faults_struck_total",
        "counter",
        "Requests that a fault rule struck.",
        struck as f64,
    );
}

fn kind(counts: &RequestCounts) -> [(&'static str, &'static str); 2] {
    [
        ("op", counts.kind.operation),
        ("resource", counts.kind.resource),
    ]
}

fn engine(text: &mut Text, call: &Call) {
    let meters = call.engine().meters();
    let histograms = [
        (
            "orrery_query_partitions_contacted",
            "Physical partitions that a page of a query asked.",
            Some(meters.query_partitions.snapshot()),
        ),
        (
            "orrery_query_index_lookup_seconds",
            "Planning the search of a page of a query, and looking into the indexes for it.",
            Some(meters.index_lookup_seconds.snapshot()),
        ),
        (
            "orrery_script_seconds",
            "Runs of stored procedures and triggers.",
            Some(meters.script_seconds.snapshot()),
        ),
        (
            "orrery_wal_fsync_seconds",
            "Syncs of the log.",
            call.engine().sync_seconds(),
        ),
    ];
    for (name, help, counted) in histograms {
        if let Some(counted) = counted {
            text.family(name, "histogram", help);
            text.histogram(name, &[], &counted);
        }
    }
    let items = meters.change_feed_items.get();
    text.one(
        "orrery_changefeed_items_total",
        "counter",
        "Changes that change feeds gave.",
        items as f64,
    );
    let expired = meters.expired_items.get();
    text.one(
        "orrery_ttl_expired_total",
        "counter",
        "Expired items that were removed.",
        expired as f64,
    );
}

/// What each physical partition shows: a name, what it says, and the number.
type PartitionGauge = (&'static str, &'static str, fn(&PartitionInventory) -> f64);

const PARTITION_GAUGES: &[PartitionGauge] = &[
    (
        "orrery_partition_bytes",
        "Bytes of the items of a physical partition, as JSON texts.",
        |p| p.bytes as f64,
    ),
    (
        "orrery_partition_index_bytes",
        "Bytes of the index entries' rows of a physical partition, keys and values.",
        |p| p.index_bytes as f64,
    ),
    (
        "orrery_partition_normalized_ru_ratio",
        "The share of its budget that a physical partition spent in the last whole second.",
        |p| p.throughput.normalized,
    ),
];

fn containers(text: &mut Text, call: &Call) -> Result<(), Problem> {
    let engine = call.engine();
    let mut each = Vec::new();
    for container in engine.every_container() {
        let partitions = engine.partition_inventory(&container)?;
        each.push((container, partitions));
    }
    text.family("orrery_container_items", "gauge", "Items of a container.");
    for (container, partitions) in &each {
        let labels = [("db", container.database_id()), ("coll", container.id())];
        let items: u64 = partitions.iter().map(|partition| partition.items).sum();
        text.sample("orrery_container_items", &labels, items as f64);
    }
    for (name, help, value) in PARTITION_GAUGES {
        text.family(name, "gauge", help);
        for (container, partitions) in &each {
            for partition in partitions {
                let range = partition.id.to_string();
                let labels = [
                    ("db", container.database_id()),
                    ("coll", container.id()),
                    ("pkrange", range.as_str()),
                ];
                text.sample(name, &labels, value(partition));
            }
        }
    }
    text.one(
        "orrery_store_bytes",
        "gauge",
        "Bytes that the store takes, about.",
        engine.store_bytes() as f64,
    );
    Ok(())
}

fn server(text: &mut Text, call: &Call) {
    let connections = call.parts.gateway.metrics().connections.get();
    text.one(
        "orrery_connections",
        "gauge",
        "Open connections of clients.",
        connections as f64,
    );
    text.family(
        "orrery_build_info",
        "gauge",
        "Always 1; its labels say what is running.",
    );
    text.sample(
        "orrery_build_info",
        &[("version", env!("CARGO_PKG_VERSION"))],
        1.0,
    );
    for process::Fact {
        name,
        kind,
        help,
        value,
    } in process::facts()
    {
        text.one(name, kind, help, value);
    }
}

/// Lines of the text form.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    /// A family of one sample.
    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let quoted: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        match quoted.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", quoted.join(","))),
        }
    }

    fn histogram(&mut self, name: &str, labels: &[(&str, &str)], counted: &HistogramSnapshot) {
        let bounds = counted
            .buckets
            .iter()
            .map(|(bound, count)| (bound.to_string(), *count));
        for (bound, count) in bounds.chain([("+Inf".to_owned(), counted.count)]) {
            let labels = [labels, &[("le", bound.as_str())]].concat();
            self.sample(&format!("{name}_bucket"), &labels, count as f64);
        }
        self.sample(&format!("{name}_sum"), labels, counted.sum);
        self.sample(&format!("{name}_count"), labels, counted.count as f64);
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Text never refuses text.
        let _ = writeln!(self.0, "{line}");
    }
}

/// The value of a label: ids of databases and containers may hold quotes and line ends.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_written_as_prometheus_reads_them() {
        let mut text = Text::default();
        text.family("x_items", "gauge", "Items.");
        text.sample("x_items", &[("db", "a\"b\\c\nd"), ("coll", "ü")], 1.5);
        text.sample("x_items", &[], 3.0);
        assert_eq!(
            text.0,
            "# HELP x_items Items.\n# TYPE x_items gauge\nx_items{db=\"a\\\"b\\\\c\\nd\",coll=\"ü\"} 1.5\nx_items 3\n"
        );
        let mut text = Text::default();
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
            "h_bucket{op=\"o\",le=\"0.5\"} 1\nh_bucket{op=\"o\",le=\"2\"} 3\nh_bucket{op=\"o\",le=\"+Inf\"} 4\n\
             h_sum{op=\"o\"} 12.25\nh_count{op=\"o\"} 4\n"
        );
    }
}
