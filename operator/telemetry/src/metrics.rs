//! The metrics of the server as messages. Names, labels and values are those of `/metrics`.

use crate::spans::text;
use crate::wire::{
    GaugeData, HistogramData, HistogramPoint, KeyValue, Metric, MetricData, NumberPoint, SumData,
};
use orrery_admin::{MetricFamily, MetricKind, MetricSample, MetricValue};
use orrery_model::metrics::HistogramSnapshot;

/// The values are sums since the start of the process.
const CUMULATIVE: i32 = 2;

/// The time that a set of metrics covers, in nanoseconds since 1970.
#[derive(Clone, Copy)]
pub(crate) struct Period {
    /// Start of the process.
    pub(crate) start_ns: u64,
    /// Time of the reading.
    pub(crate) now_ns: u64,
}

/// Returns the message of a metric.
pub(crate) fn message(family: &MetricFamily, period: Period) -> Metric {
    let samples = &family.samples;
    let data = match family.kind {
        MetricKind::Gauge => MetricData::Gauge(GaugeData {
            // A gauge has no beginning.
            data_points: numbers(
                samples,
                Period {
                    start_ns: 0,
                    ..period
                },
            ),
        }),
        MetricKind::Counter => MetricData::Sum(SumData {
            data_points: numbers(samples, period),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        MetricKind::Histogram => MetricData::Histogram(HistogramData {
            data_points: histograms(samples, period),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: unit(family.name).to_owned(),
        data: Some(data),
    }
}

/// Returns the unit that a name states, by UCUM; `1` for numbers and ratios.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let units = [
        ("_seconds", "s"),
        ("_bytes", "By"),
        ("_request_units", "{request_unit}"),
    ];
    let found = units.iter().find(|(end, _)| name.ends_with(end));
    found.map_or("1", |(_, unit)| unit)
}

fn numbers(samples: &[MetricSample], period: Period) -> Vec<NumberPoint> {
    let mut points = Vec::new();
    for sample in samples {
        if let MetricValue::Number(value) = sample.value {
            points.push(NumberPoint {
                attributes: attributes(sample),
                start_time_unix_nano: period.start_ns,
                time_unix_nano: period.now_ns,
                as_double: Some(value),
            });
        }
    }
    points
}

fn histograms(samples: &[MetricSample], period: Period) -> Vec<HistogramPoint> {
    let mut points = Vec::new();
    for sample in samples {
        if let MetricValue::Histogram(counted) = &sample.value {
            points.push(HistogramPoint {
                attributes: attributes(sample),
                start_time_unix_nano: period.start_ns,
                time_unix_nano: period.now_ns,
                count: counted.count,
                sum: Some(counted.sum),
                bucket_counts: bucket_counts(counted),
                explicit_bounds: counted.buckets.iter().map(|(bound, _)| *bound).collect(),
            });
        }
    }
    points
}

/// Returns the number of values in each bucket; the snapshot has sums of buckets.
fn bucket_counts(counted: &HistogramSnapshot) -> Vec<u64> {
    let mut counts = Vec::with_capacity(counted.buckets.len() + 1);
    let mut before = 0;
    for (_, up_to) in &counted.buckets {
        counts.push(up_to.saturating_sub(before));
        before = *up_to;
    }
    counts.push(counted.count.saturating_sub(before));
    counts
}

fn attributes(sample: &MetricSample) -> Vec<KeyValue> {
    let labels = sample.labels.iter();
    labels
        .map(|(name, value)| text(name, value.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_has_the_counts_of_its_buckets_and_not_their_sums() {
        let family = MetricFamily {
            name: "orrery_request_charge_request_units",
            kind: MetricKind::Histogram,
            help: "Request charges.",
            samples: vec![MetricSample {
                labels: vec![("op", "read_item".to_owned())],
                value: MetricValue::Histogram(HistogramSnapshot {
                    buckets: vec![(1.0, 2), (5.0, 3)],
                    count: 7,
                    sum: 40.5,
                }),
            }],
        };
        let period = Period {
            start_ns: 1,
            now_ns: 2,
        };
        let metric = message(&family, period);
        assert_eq!(metric.unit, "{request_unit}");
        let Some(MetricData::Histogram(data)) = metric.data else {
            panic!("{metric:?}");
        };
        let point = &data.data_points[0];
        assert_eq!(point.bucket_counts, [2, 1, 4]);
        assert_eq!(point.explicit_bounds, [1.0, 5.0]);
        assert_eq!((point.count, point.sum), (7, Some(40.5)));
    }

    #[test]
    fn the_unit_is_that_of_the_name() {
        for (name, expected) in [
            ("orrery_wal_fsync_seconds", "s"),
            ("process_cpu_seconds_total", "s"),
            ("orrery_store_bytes", "By"),
            ("orrery_request_units_total", "{request_unit}"),
            ("orrery_connections", "1"),
        ] {
            assert_eq!(unit(name), expected, "{name}");
        }
    }
}
