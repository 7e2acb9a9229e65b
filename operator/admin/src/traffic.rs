//! Load of a container: the heat map, the logical partition keys with the highest load, and the
//! queries grouped by their text without values.
//!
//! Charges are in request units, times in seconds since 1970-01-01 UTC.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use orrery_engine::request::{
    Charge, HEAT_BUCKETS, Heat, HeatColumn, KeyMeasure, KeyWindow, QueryForm, TopKey,
};
use orrery_model::partition_key::EpkRange;
use orrery_model::{Json, Object, object};

const AMOUNT: ValueType = ValueType::Number(0.0, f64::MAX);

/// Query parameters of [`heat_map`].
pub(crate) const HEAT_QUERY: Schema = Schema {
    name: "HeatMapQuery",
    members: &[
        optional(
            "metric",
            ValueType::OneOf(&["ru", "requests", "throttled", "bytes"]),
            "counted quantity; ru if absent",
        ),
        optional(
            "from",
            COUNT,
            "start of the time range in seconds; the oldest known time if absent",
        ),
        optional(
            "to",
            COUNT,
            "end of the time range in seconds, exclusive; now if absent",
        ),
    ],
};

/// A time interval of the heat map.
const COLUMN: Schema = Schema {
    name: "HeatMapColumn",
    members: &[
        required("start", COUNT, "start of the interval in seconds"),
        required(
            "seconds",
            COUNT,
            "length of the interval: 5, 60, 600 or 3600 seconds; older intervals are longer",
        ),
        required(
            "buckets",
            ValueType::NumberList,
            "indexes into bucketStarts of the EPK ranges with load, ascending",
        ),
        required(
            "values",
            ValueType::NumberList,
            "load of each of these EPK ranges",
        ),
        required(
            "scans",
            AMOUNT,
            "load of the requests that address more than one logical partition",
        ),
    ],
};

/// Response of [`heat_map`].
pub(crate) const HEAT_MAP: Schema = Schema {
    name: "HeatMap",
    members: &[
        required("metric", ValueType::Text, "counted quantity"),
        required(
            "bucketStarts",
            ValueType::TextList,
            "start of each EPK range, in hexadecimal digits",
        ),
        required(
            "columns",
            ValueType::ObjectList(&COLUMN),
            "time intervals with load, the oldest first",
        ),
    ],
};

/// Returns the heat map of a container.
pub(crate) fn heat_map(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let milliseconds = |name| {
        call.unsigned(name)
            .map(|seconds| seconds.saturating_mul(1000))
    };
    let from_ms = milliseconds("from").unwrap_or(0);
    let to_ms = milliseconds("to").unwrap_or(u64::MAX);
    let metric = call.text("metric").unwrap_or("ru");

    let starts: Vec<Json> =
        EpkRange::divide_evenly(container.partition_key().hashing(), HEAT_BUCKETS)
            .into_iter()
            .map(|range| range.min.to_string().into())
            .collect();
    let columns: Vec<Json> = call
        .engine()
        .heat_map(&container, from_ms, to_ms)
        .iter()
        .map(|column| column_json(column, metric).into())
        .collect();
    Answer::json(
        200,
        object! { "metric" => metric, "bucketStarts" => starts, "columns" => columns },
    )
}

/// Returns the JSON form of a time interval of the heat map.
fn column_json(column: &HeatColumn, metric: &str) -> Object {
    let mut buckets: Vec<Json> = Vec::new();
    let mut values: Vec<Json> = Vec::new();
    for (bucket, heat) in &column.buckets {
        buckets.push(u64::from(*bucket).into());
        values.push(heat_value(heat, metric));
    }
    object! {
        "start" => column.start_ms / 1000,
        "seconds" => column.width_ms / 1000,
        "buckets" => buckets,
        "values" => values,
        "scans" => heat_value(&column.scans, metric),
    }
}

/// Returns the quantity that `metric` names.
fn heat_value(heat: &Heat, metric: &str) -> Json {
    match metric {
        "requests" => u64::from(heat.requests).into(),
        "throttled" => u64::from(heat.throttled).into(),
        "bytes" => heat.bytes_written.into(),
        _ => heat.charge.as_ru().into(),
    }
}

/// Query parameters of [`top_keys`].
pub(crate) const KEYS_QUERY: Schema = Schema {
    name: "TopKeysQuery",
    members: &[
        optional(
            "by",
            ValueType::OneOf(&["ru", "bytes"]),
            "ru: request units; bytes: bytes written or deleted; ru if absent",
        ),
        optional(
            "window",
            ValueType::OneOf(&["now", "minute", "hour", "day"]),
            "counted time: the current ten seconds (now), minute, hour or day and the one before; \
             hour if absent",
        ),
    ],
};

/// A logical partition key.
const TOP_KEY: Schema = Schema {
    name: "TopKey",
    members: &[
        optional(
            "key",
            ValueType::Text,
            "partition key values as in the header x-ms-documentdb-partitionkey; absent if the \
             logical partition has no items",
        ),
        required("epk", ValueType::Text, "EPK in hexadecimal digits"),
        required("amount", AMOUNT, "estimated load, never too low"),
        required(
            "error",
            AMOUNT,
            "maximum by which the estimated load is too high",
        ),
    ],
};

/// Response of [`top_keys`].
pub(crate) const TOP_KEYS: Schema = Schema {
    name: "TopKeys",
    members: &[
        required("by", ValueType::Text, "counted quantity"),
        required("since", COUNT, "start of the counted time in seconds"),
        required(
            "keys",
            ValueType::ObjectList(&TOP_KEY),
            "logical partition keys in descending order of their load",
        ),
        required(
            "othersAtMost",
            AMOUNT,
            "maximum load of any logical partition key that is not listed",
        ),
        required("total", AMOUNT, "load of all logical partition keys"),
    ],
};

/// Returns the logical partition keys with the highest load.
pub(crate) fn top_keys(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let by = call.text("by").unwrap_or("ru");
    let measure = if by == "ru" {
        KeyMeasure::Charge
    } else {
        KeyMeasure::BytesWritten
    };
    let window = match call.text("window") {
        Some("now") => KeyWindow::Now,
        Some("minute") => KeyWindow::Minute,
        Some("day") => KeyWindow::Day,
        _ => KeyWindow::Hour,
    };

    // The engine counts charges in hundredths of a request unit.
    let amount_json = |amount: u64| match measure {
        KeyMeasure::Charge => Json::from(Charge(amount).as_ru()),
        KeyMeasure::BytesWritten => Json::from(amount),
    };
    let top = call.engine().top_keys(&container, measure, window)?;
    let mut keys: Vec<Json> = Vec::new();
    for TopKey {
        key,
        epk,
        amount,
        error,
    } in top.keys
    {
        let mut json = object! {
            "epk" => epk.to_string(),
            "amount" => amount_json(amount),
            "error" => amount_json(error),
        };
        if let Some(key) = key {
            json.set("key", key.to_text());
        }
        keys.push(json.into());
    }
    Answer::json(
        200,
        object! {
            "by" => by,
            "since" => top.since_ms / 1000,
            "keys" => keys,
            "othersAtMost" => amount_json(top.others_at_most),
            "total" => amount_json(top.total),
        },
    )
}

/// Queries with the same text apart from values.
const QUERY: Schema = Schema {
    name: "QueryForm",
    members: &[
        required(
            "text",
            ValueType::Text,
            "text of the query, with ? in place of values",
        ),
        required("count", COUNT, "returned pages"),
        required("ru", AMOUNT, "sum of the charges"),
        required(
            "ruP50",
            AMOUNT,
            "median charge of a page, exact for fewer than 100 pages, then accurate to an eighth",
        ),
        required(
            "ruP95",
            AMOUNT,
            "95th percentile of the charge, in the same way",
        ),
        required(
            "microsecondsP50",
            COUNT,
            "median duration of a page in microseconds, accurate as the charges are",
        ),
        required(
            "microsecondsP99",
            COUNT,
            "99th percentile of the duration in microseconds, accurate as the charges are",
        ),
        required(
            "partitions",
            COUNT,
            "physical partitions read, summed over all pages",
        ),
        required("retrieved", COUNT, "items loaded"),
        required("output", COUNT, "rows returned"),
        required(
            "crossPartition",
            ValueType::Boolean,
            "true if the last query addressed more than one logical partition",
        ),
        optional(
            "indexAdvice",
            ValueType::Text,
            "JSON text with the indexes that a recent query used and those that it could have used",
        ),
        required("last", COUNT, "time of the last query in seconds"),
    ],
};

/// Response of [`queries`].
pub(crate) const QUERIES: Schema = Schema {
    name: "Queries",
    members: &[required(
        "queries",
        ValueType::ObjectList(&QUERY),
        "at most 200 query texts; the least used are dropped",
    )],
};

/// Returns the queries of a container, grouped by their text without values.
pub(crate) fn queries(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let forms: Vec<Json> = call
        .engine()
        .query_forms(&container)
        .into_iter()
        .map(|form| query_form_json(form).into())
        .collect();
    Answer::json(200, object! { "queries" => forms })
}

/// Returns the JSON form of a group of queries.
fn query_form_json(form: QueryForm) -> Object {
    let mut json = object! {
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
        json.set("indexAdvice", advice);
    }
    json
}
