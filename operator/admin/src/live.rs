//! Live samples: requests, charges, latencies and sizes over time, for charts.
//!
//! Requests of the server's own console are left out.
//!
//! Times are in seconds since 1970-01-01 UTC, charges in request units. The answer is made of
//! columns: the n-th element of each list belongs to the n-th sample.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use orrery_engine::request::Charge;
use orrery_gateway::{ContainerSeries, LiveSample, LiveSelection};
use orrery_model::{Json, Object, object};

/// The seconds that are returned if the request names no start.
const DEFAULT_SECONDS: u64 = 15 * 60;
/// The containers that are returned if the request names no number.
const DEFAULT_CONTAINERS: u64 = 10;

/// Query parameters of [`read`].
pub(crate) const QUERY: Schema = Schema {
    name: "LiveQuery",
    members: &[
        optional(
            "from",
            COUNT,
            "start of the time range in seconds; a quarter of an hour before the end if absent",
        ),
        optional(
            "to",
            COUNT,
            "end of the time range in seconds, exclusive; now if absent",
        ),
        optional(
            "step",
            ValueType::Integer(1, 86_400),
            "seconds to which samples are merged; without it the samples as they are kept: one a \
             second for a quarter of an hour, one for ten seconds for a day",
        ),
        optional(
            "containers",
            ValueType::Integer(0, 16),
            "maximum number of containers with a series of their own; 10 if absent",
        ),
    ],
};

/// The series of a container.
const CONTAINER: Schema = Schema {
    name: "LiveContainer",
    members: &[
        required("db", ValueType::Text, "id of the database"),
        required("coll", ValueType::Text, "id of the container"),
        required(
            "requestUnits",
            ValueType::NumberList,
            "request units of each sample",
        ),
        required(
            "requests",
            ValueType::NumberList,
            "requests at physical partitions in each sample; a request that asks several counts \
             at each",
        ),
        required(
            "throttled",
            ValueType::NumberList,
            "requests refused with 429 at physical partitions in each sample",
        ),
    ],
};

/// Response of [`read`].
pub(crate) const LIVE: Schema = Schema {
    name: "Live",
    members: &[
        required(
            "start",
            ValueType::NumberList,
            "start of each sample in seconds, the oldest first",
        ),
        required(
            "seconds",
            ValueType::NumberList,
            "length of each sample in seconds: divide a count by it for a rate",
        ),
        required(
            "requests",
            ValueType::NumberList,
            "answered requests in each sample",
        ),
        required(
            "requestUnits",
            ValueType::NumberList,
            "request units of each sample",
        ),
        required(
            "throttled",
            ValueType::NumberList,
            "requests answered with 429",
        ),
        required(
            "clientErrors",
            ValueType::NumberList,
            "requests answered with 400 to 499, other than 429",
        ),
        required(
            "serverErrors",
            ValueType::NumberList,
            "requests answered with 500 or more",
        ),
        required(
            "microsecondsP50",
            ValueType::NumberList,
            "median latency of each sample in microseconds, exact for fewer than 100 requests, \
             then interpolated between the bounds of orrery_request_duration_seconds; 0 without \
             requests",
        ),
        required(
            "microsecondsP95",
            ValueType::NumberList,
            "95th percentile of the latency, in the same way",
        ),
        required(
            "microsecondsP99",
            ValueType::NumberList,
            "99th percentile of the latency, in the same way",
        ),
        required(
            "connections",
            ValueType::NumberList,
            "open connections of clients at the end of each sample",
        ),
        required(
            "storedBytes",
            ValueType::NumberList,
            "approximate size of the store in bytes, read every ten seconds",
        ),
        required(
            "processorSeconds",
            ValueType::NumberList,
            "processor time of the process in each sample in seconds: 1 for each second of a core",
        ),
        required(
            "residentBytes",
            ValueType::NumberList,
            "memory of the process in bytes at the end of each sample",
        ),
        required(
            "diskReadBytes",
            ValueType::NumberList,
            "bytes that the process read from disks in each sample",
        ),
        required(
            "diskWrittenBytes",
            ValueType::NumberList,
            "bytes that the process wrote to disks in each sample",
        ),
        required(
            "containers",
            ValueType::ObjectList(&CONTAINER),
            "containers with the highest charges in the time range, the highest first; each sample \
             knows its 16 highest",
        ),
    ],
};

/// Returns the samples of a time range.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let gateway = &call.components.gateway;
    let milliseconds = |name| {
        call.unsigned(name)
            .map(|seconds| seconds.saturating_mul(1000))
    };
    let to_ms = milliseconds("to").unwrap_or(u64::MAX);
    let end_ms = to_ms.min(gateway.now_ms());
    let from_ms = milliseconds("from");
    let containers = call.unsigned("containers").unwrap_or(DEFAULT_CONTAINERS);
    let view = gateway.live_view(LiveSelection {
        from_ms: from_ms.unwrap_or(end_ms.saturating_sub(DEFAULT_SECONDS * 1000)),
        to_ms,
        step_ms: milliseconds("step"),
        containers: usize::try_from(containers).unwrap_or(0),
    });

    let mut json = Object::new();
    for (name, value) in COLUMNS {
        let column: Vec<Json> = view.samples.iter().map(value).collect();
        json.set(*name, column);
    }
    let containers: Vec<Json> = view.containers.iter().map(container_json).collect();
    json.set("containers", containers);
    Answer::json(200, json)
}

/// A column of the answer.
type Column = (&'static str, fn(&LiveSample) -> Json);

const COLUMNS: &[Column] = &[
    ("start", |s| (s.start_ms as f64 / 1000.0).into()),
    ("seconds", |s| (s.width_ms as f64 / 1000.0).into()),
    ("requests", |s| s.requests.into()),
    ("requestUnits", |s| Charge(s.charge).as_ru().into()),
    ("throttled", |s| s.throttled.into()),
    ("clientErrors", |s| s.client_errors.into()),
    ("serverErrors", |s| s.server_errors.into()),
    ("microsecondsP50", |s| s.latency_us[0].into()),
    ("microsecondsP95", |s| s.latency_us[1].into()),
    ("microsecondsP99", |s| s.latency_us[2].into()),
    ("connections", |s| s.connections.into()),
    ("storedBytes", |s| s.stored_bytes.into()),
    ("processorSeconds", |s| (s.processor_us as f64 / 1e6).into()),
    ("residentBytes", |s| s.resident_bytes.into()),
    ("diskReadBytes", |s| s.disk_read_bytes.into()),
    ("diskWrittenBytes", |s| s.disk_written_bytes.into()),
];

/// Returns the JSON form of the series of a container.
fn container_json(series: &ContainerSeries) -> Json {
    let mut charges: Vec<Json> = Vec::with_capacity(series.charge.len());
    for charge in &series.charge {
        charges.push(Charge(*charge).as_ru().into());
    }
    let numbers = |list: &[u64]| -> Vec<Json> { list.iter().map(|n| (*n).into()).collect() };
    let json = object! {
        "db" => series.name.database.as_str(),
        "coll" => series.name.container.as_str(),
        "requestUnits" => charges,
        "requests" => numbers(&series.requests),
        "throttled" => numbers(&series.throttled),
    };
    json.into()
}
