//! What was asked of a container: the heat map, the keys of which most was asked, and the forms of its queries.
//!
//! Charges are in request units, times in seconds since 1970.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{COUNT, Shape, Value, may, must};
use orrery_engine::request::{
    Charge, HEAT_BUCKETS, Heat, HeatColumn, KeyMeasure, KeyWindow, QueryForm, TopKey,
};
use orrery_model::partition_key::EpkRange;
use orrery_model::{Json, Object, object};

const AMOUNT: Value = Value::Number(0.0, f64::MAX);

/// What the heat map is asked for.
pub(crate) const HEAT_QUERY: Shape = Shape {
    name: "HeatMapQuery",
    members: &[
        may(
            "metric",
            Value::OneOf(&["ru", "requests", "throttled", "bytes"]),
            "what is counted; ru if not said",
        ),
        may(
            "from",
            COUNT,
            "the first second; the oldest that is known if not said",
        ),
        may(
            "to",
            COUNT,
            "the second before which it ends; now if not said",
        ),
    ],
};

/// A stretch of time.
const COLUMN: Shape = Shape {
    name: "HeatMapColumn",
    members: &[
        must("start", COUNT, "the second in which it begins"),
        must(
            "seconds",
            COUNT,
            "how long it is: 5, 60, 600 or 3600, the older the longer",
        ),
        must(
            "buckets",
            Value::Numbers,
            "the parts of the hash space that were asked, ascending",
        ),
        must("values", Value::Numbers, "what was counted of each"),
        must(
            "scans",
            AMOUNT,
            "what was counted of requests that were not for one logical partition",
        ),
    ],
};

/// What [`heat_map`] gives.
pub(crate) const HEAT_MAP: Shape = Shape {
    name: "HeatMap",
    members: &[
        must("metric", Value::Text, "what is counted"),
        must(
            "bucketStarts",
            Value::Texts,
            "where each part of the hash space begins, in hexadecimal digits",
        ),
        must(
            "columns",
            Value::Objects(&COLUMN),
            "the stretches of time in which there was something, the oldest first",
        ),
    ],
};

/// The heat map of a container.
pub(crate) fn heat_map(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let milliseconds = |name| {
        call.whole(name)
            .map(|seconds| (seconds as u64).saturating_mul(1000))
    };
    let (from, to) = (
        milliseconds("from").unwrap_or(0),
        milliseconds("to").unwrap_or(u64::MAX),
    );
    let metric = call.text("metric").unwrap_or("ru");
    let columns = call.engine().heat_map(&container, from, to);
    let starts =
        EpkRange::divide_evenly(container.partition_key().hashing(), HEAT_BUCKETS).into_iter();
    Answer::json(
        200,
        object! {
            "metric" => metric,
            "bucketStarts" => starts.map(|range| range.min.to_string().into()).collect::<Vec<Json>>(),
            "columns" => columns.iter().map(|column| shown(column, metric).into()).collect::<Vec<Json>>(),
        },
    )
}

fn shown(column: &HeatColumn, metric: &str) -> Object {
    let value = |heat: &Heat| match metric {
        "requests" => Json::from(u64::from(heat.requests)),
        "throttled" => Json::from(u64::from(heat.throttled)),
        "bytes" => Json::from(heat.bytes_written),
        _ => Json::from(heat.charge.as_ru()),
    };
    object! {
        "start" => column.start_ms / 1000,
        "seconds" => column.width_ms / 1000,
        "buckets" => column.buckets.iter().map(|(bucket, _)| u64::from(*bucket).into()).collect::<Vec<Json>>(),
        "values" => column.buckets.iter().map(|(_, heat)| value(heat)).collect::<Vec<Json>>(),
        "scans" => value(&column.scans),
    }
}

/// What the ranks are asked for.
pub(crate) const KEYS_QUERY: Shape = Shape {
    name: "TopKeysQuery",
    members: &[
        may(
            "by",
            Value::OneOf(&["ru", "bytes"]),
            "request units, or bytes written or deleted; ru if not said",
        ),
        may(
            "window",
            Value::OneOf(&["minute", "hour", "day"]),
            "this one and the one before; hour if not said",
        ),
    ],
};

/// A logical partition key.
const TOP_KEY: Shape = Shape {
    name: "TopKey",
    members: &[
        may(
            "key",
            Value::Text,
            "its values, as the header with the partition key has them; not there without items",
        ),
        must(
            "epk",
            Value::Text,
            "its place in the hash space, in hexadecimal digits",
        ),
        must("amount", AMOUNT, "at least what was asked of it"),
        must("error", AMOUNT, "by how much the amount may be too great"),
    ],
};

/// What [`top_keys`] gives.
pub(crate) const TOP_KEYS: Shape = Shape {
    name: "TopKeys",
    members: &[
        must("by", Value::Text, "what is counted"),
        must("since", COUNT, "the second from which on it is counted"),
        must(
            "keys",
            Value::Objects(&TOP_KEY),
            "the keys, the greatest first",
        ),
        must("othersAtMost", AMOUNT, "no key that is not listed has more"),
        must("total", AMOUNT, "the sum over all keys"),
    ],
};

/// The logical keys of which most was asked.
pub(crate) fn top_keys(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let by = call.text("by").unwrap_or("ru");
    let measure = if by == "ru" {
        KeyMeasure::Charge
    } else {
        KeyMeasure::BytesWritten
    };
    let window = match call.text("window") {
        Some("minute") => KeyWindow::Minute,
        Some("day") => KeyWindow::Day,
        _ => KeyWindow::Hour,
    };
    let amount = |n: u64| match measure {
        KeyMeasure::Charge => Json::from(Charge(n).as_ru()),
        KeyMeasure::BytesWritten => Json::from(n),
    };
    let top = call.engine().top_keys(&container, measure, window)?;
    let keys = top.keys.into_iter().map(|TopKey { key, epk, amount: found, error }| {
        let mut shown = object! { "epk" => epk.to_string(), "amount" => amount(found), "error" => amount(error) };
        if let Some(key) = key {
            shown.set("key", key.to_text());
        }
        shown.into()
    });
    Answer::json(
        200,
        object! {
            "by" => by,
            "since" => top.since_ms / 1000,
            "keys" => keys.collect::<Vec<Json>>(),
            "othersAtMost" => amount(top.others_at_most),
            "total" => amount(top.total),
        },
    )
}

/// The queries of one form.
const QUERY: Shape = Shape {
    name: "QueryForm",
    members: &[
        must(
            "text",
            Value::Text,
            "the text, with ? in the place of values",
        ),
        must("count", COUNT, "pages that were answered"),
        must("ru", AMOUNT, "what they were charged"),
        must(
            "ruP50",
            AMOUNT,
            "the charge that half of them did not exceed, within an eighth",
        ),
        must("ruP95", AMOUNT, "the charge that 95 of 100 did not exceed"),
        must(
            "microsecondsP50",
            COUNT,
            "the time that half of them did not exceed, within an eighth",
        ),
        must(
            "microsecondsP99",
            COUNT,
            "the time that 99 of 100 did not exceed",
        ),
        must(
            "partitions",
            COUNT,
            "physical partitions that they asked, over all pages",
        ),
        must("retrieved", COUNT, "items that were loaded"),
        must("output", COUNT, "rows that were returned"),
        must(
            "crossPartition",
            Value::Truth,
            "whether the last one was for more than one logical partition",
        ),
        may(
            "indexAdvice",
            Value::Text,
            "a JSON text: the indexes that a late one used, and those that would have served it",
        ),
        must("last", COUNT, "the second of the last one"),
    ],
};

/// What [`queries`] gives.
pub(crate) const QUERIES: Shape = Shape {
    name: "Queries",
    members: &[must(
        "queries",
        Value::Objects(&QUERY),
        "at most 200 forms of queries; the least used make room",
    )],
};

/// The forms of a container's queries.
pub(crate) fn queries(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let forms = call
        .engine()
        .query_forms(&container)
        .into_iter()
        .map(|form| Json::from(shown_form(form)));
    Answer::json(200, object! { "queries" => forms.collect::<Vec<Json>>() })
}

fn shown_form(form: QueryForm) -> Object {
    let mut shown = object! {
        "text" => form.text,
        "count" => form.count,
        "ru" => form.charge.as_ru(),
        "ruP50" => form.charge_p50.as_ru(),
        "ruP95" => form.charge_p95.as_ru(),
        "microsecondsP50" => form.micros_p50,
        "microsecondsP99" => form.micros_p99,
        "partitions" => form.partitions,
        "retrieved" => form.retrieved,
        "output" => form.output,
        "crossPartition" => form.crosses_partitions,
        "last" => form.last_ms / 1000,
    };
    if let Some(advice) = form.index_advice {
        shown.set("indexAdvice", advice);
    }
    shown
}
