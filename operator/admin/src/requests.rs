//! The log of slow, expensive, throttled and failed requests, and its settings.
//!
//! Times are in milliseconds since 1970-01-01 UTC, charges in request units.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use orrery_engine::request::{Charge, ChargePart};
use orrery_gateway::{RecordFilter, RequestRecord, SettingsChange, StatusFilter};
use orrery_model::{Json, Object, object};

/// The records that are returned if the request names no limit.
const DEFAULT_LIMIT: u64 = 100;
/// The seconds for which all requests are recorded if the request names no time.
const DEFAULT_ALL_SECONDS: u64 = 60;
/// Charges and durations.
const AMOUNT: ValueType = ValueType::Number(0.0, f64::MAX);
/// Thresholds. The bound leaves room for the units in which they are kept.
const THRESHOLD: ValueType = ValueType::Number(0.0, 1e12);

/// Query parameters of [`list`].
pub(crate) const QUERY: Schema = Schema {
    name: "RequestsQuery",
    members: &[
        optional(
            "after",
            COUNT,
            "only requests after this number; without it the newest requests",
        ),
        optional(
            "limit",
            ValueType::Integer(1, 1_000),
            "maximum number of requests; 100 if absent",
        ),
        optional("db", ValueType::Text, "only requests to this database"),
        optional("coll", ValueType::Text, "only requests to this container"),
        optional(
            "status",
            ValueType::Integer(0, 599),
            "only requests with this status; 2, 3, 4 or 5 for all statuses of that hundred",
        ),
        optional(
            "minRu",
            ValueType::Integer(0, 1_000_000_000),
            "only requests with at least this charge",
        ),
        optional(
            "minMs",
            ValueType::Integer(0, 1_000_000_000),
            "only requests that took at least this time in milliseconds",
        ),
        optional(
            "all",
            ValueType::Boolean,
            "true: every request is recorded for the next 30 seconds, for a reader that asks \
             again and again",
        ),
    ],
};

/// A part of a charge.
const PART: Schema = Schema {
    name: "RecordedChargePart",
    members: &[
        required("what", ValueType::Text, "kind of the work"),
        required("count", COUNT, "amount of the work"),
        required(
            "ru",
            ValueType::Number(-1e9, f64::MAX),
            "request units; negative for rounding down",
        ),
    ],
};

/// The figures of a query.
const QUERY_FIGURES: Schema = Schema {
    name: "RecordedQuery",
    members: &[
        optional(
            "form",
            ValueType::Text,
            "text of the query with ? in place of values; absent for a text with an invalid token",
        ),
        required("retrieved", COUNT, "items loaded"),
        required("output", COUNT, "rows returned"),
        required(
            "indexHitRatio",
            AMOUNT,
            "rows returned for each item loaded, at most 1",
        ),
    ],
};

/// A recorded request.
const REQUEST: Schema = Schema {
    name: "RecordedRequest",
    members: &[
        required("number", COUNT, "number of the request in the log"),
        required(
            "reason",
            ValueType::OneOf(&["throttled", "failed", "expensive", "slow", "followed"]),
            "first reason for which the request was recorded",
        ),
        required("time", COUNT, "time of the answer in milliseconds"),
        required("operation", ValueType::Text, "name of the operation"),
        required("resource", ValueType::Text, "type of the resource"),
        required(
            "transport",
            ValueType::Text,
            "http, or tcp for a frame of the direct mode",
        ),
        required("method", ValueType::Text, "method"),
        optional("db", ValueType::Text, "id of the database"),
        optional("coll", ValueType::Text, "id of the container"),
        optional(
            "id",
            ValueType::Text,
            "id of the item, script or other resource",
        ),
        required("path", ValueType::Text, "path as sent, shortened to 1 KB"),
        required(
            "partitions",
            ValueType::TextList,
            "partition key range ids that were asked, at most 64",
        ),
        required(
            "partitionCount",
            COUNT,
            "number of physical partitions that were asked",
        ),
        required(
            "status",
            COUNT,
            "status; 0 if a fault rule left the request without an answer",
        ),
        required("substatus", COUNT, "sub-status; 0 for none"),
        optional("code", ValueType::Text, "code word of the error"),
        required("ru", AMOUNT, "charge"),
        required(
            "parts",
            ValueType::ObjectList(&PART),
            "parts of the charge, which add up to it",
        ),
        required("ms", AMOUNT, "duration in milliseconds"),
        required("activityId", ValueType::Text, "activity id"),
        optional(
            "userAgent",
            ValueType::Text,
            "user agent of the client, shortened to 256 bytes",
        ),
        required("client", ValueType::Text, "address of the client"),
        required(
            "fromConsole",
            ValueType::Boolean,
            "true for a request of this server's own console",
        ),
        optional(
            "query",
            ValueType::Object(&QUERY_FIGURES),
            "figures of a query",
        ),
    ],
};

/// The settings of the log.
pub(crate) const SETTINGS: Schema = Schema {
    name: "RequestLogSettings",
    members: &[
        required("minRu", AMOUNT, "charge from which a request is recorded"),
        required(
            "minMs",
            AMOUNT,
            "duration in milliseconds from which a request is recorded",
        ),
        required(
            "all",
            ValueType::Boolean,
            "true while every request is recorded",
        ),
        optional(
            "allUntil",
            COUNT,
            "time until which every request is recorded, in milliseconds",
        ),
    ],
};

/// Body of [`set`].
pub(crate) const CHANGE: Schema = Schema {
    name: "RequestLogChange",
    members: &[
        optional(
            "minRu",
            THRESHOLD,
            "charge from which a request is recorded",
        ),
        optional(
            "minMs",
            THRESHOLD,
            "duration in milliseconds from which a request is recorded",
        ),
        optional(
            "all",
            ValueType::Boolean,
            "true: every request is recorded for a time; false ends that time",
        ),
        optional(
            "seconds",
            ValueType::Integer(1, 3_600),
            "that time in seconds; 60 if absent",
        ),
    ],
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "RecordedRequests",
    members: &[
        required(
            "requests",
            ValueType::ObjectList(&REQUEST),
            "recorded requests in ascending order of their numbers",
        ),
        required(
            "next",
            COUNT,
            "number with which 'after' continues behind this answer",
        ),
        required(
            "leftOut",
            COUNT,
            "requests that were not recorded since the start, because more than 200 in a second \
             had the same reason",
        ),
        required(
            "settings",
            ValueType::Object(&SETTINGS),
            "settings of the log",
        ),
    ],
};

/// Lists recorded requests.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let gateway = &call.components.gateway;
    let log = gateway.request_log();
    if call.boolean("all") == Some(true) {
        log.follow(gateway.now_ms());
    }
    let limit = call.unsigned("limit").unwrap_or(DEFAULT_LIMIT);
    let page = log.read(&RecordFilter {
        after: call.unsigned("after"),
        limit: usize::try_from(limit).unwrap_or(0),
        database: call.text("db").map(str::to_owned),
        container: call.text("coll").map(str::to_owned),
        status: call.unsigned("status").map(status_filter),
        min_charge: call.unsigned("minRu").map(|ru| Charge(ru * 100)),
        min_microseconds: call.unsigned("minMs").map(|ms| ms * 1000),
    });
    let requests: Vec<Json> = page.records.iter().map(|r| record_json(r)).collect();
    Answer::json(
        200,
        object! {
            "requests" => requests,
            "next" => page.next,
            "leftOut" => page.left_out,
            "settings" => settings_json(call),
        },
    )
}

/// Returns the settings of the log.
pub(crate) fn settings(call: &Call) -> Result<Answer, Problem> {
    Answer::json(200, settings_json(call))
}

/// Changes the settings of the log.
pub(crate) fn set(call: &Call) -> Result<Answer, Problem> {
    let seconds = call.unsigned("seconds");
    let all_for_ms = match call.boolean("all") {
        Some(true) => Some(seconds.unwrap_or(DEFAULT_ALL_SECONDS) * 1000),
        Some(false) => Some(0),
        None => None,
    };
    if seconds.is_some() && call.boolean("all") != Some(true) {
        return Err(Problem::bad_request(
            "the body: 'seconds' is the time of 'all', which must be true with it",
        ));
    }
    let gateway = &call.components.gateway;
    let change = SettingsChange {
        min_charge: call
            .number("minRu")
            .map(|ru| Charge((ru * 100.0).round() as u64)),
        min_microseconds: call.number("minMs").map(|ms| (ms * 1000.0).round() as u64),
        all_for_ms,
    };
    gateway
        .request_log()
        .change_settings(change, gateway.now_ms());
    Answer::json(200, settings_json(call))
}

/// Returns the filter for a status, or for the statuses of a hundred.
fn status_filter(status: u64) -> StatusFilter {
    let status = u16::try_from(status).unwrap_or(u16::MAX);
    match status {
        2..=5 => StatusFilter::Hundred(status),
        _ => StatusFilter::Is(status),
    }
}

/// Returns the JSON form of the settings.
fn settings_json(call: &Call) -> Object {
    let gateway = &call.components.gateway;
    let settings = gateway.request_log().settings();
    let is_all = settings.all_until_ms > gateway.now_ms();
    let mut json = object! {
        "minRu" => settings.min_charge.as_ru(),
        "minMs" => settings.min_microseconds as f64 / 1000.0,
        "all" => is_all,
    };
    if is_all {
        json.set("allUntil", settings.all_until_ms);
    }
    json
}

/// Returns the JSON form of a recorded request.
fn record_json(record: &RequestRecord) -> Json {
    let partitions: Vec<Json> = record
        .partitions
        .iter()
        .map(|id| id.to_string().into())
        .collect();
    let parts: Vec<Json> = record.charge_parts.iter().map(part_json).collect();
    let mut json = object! {
        "number" => record.number,
        "reason" => record.reason.name(),
        "time" => record.time_ms,
        "operation" => record.operation,
        "resource" => record.resource_type,
        "transport" => record.transport.name(),
        "method" => record.method.as_str(),
        "path" => record.path.as_str(),
        "partitions" => partitions,
        "partitionCount" => record.partition_count,
        "status" => u64::from(record.status),
        "substatus" => u64::from(record.sub_status),
        "ru" => record.charge.as_ru(),
        "parts" => parts,
        "ms" => record.microseconds as f64 / 1000.0,
        "activityId" => record.activity_id.as_str(),
        "client" => record.client.to_string(),
        "fromConsole" => record.is_from_console,
    };
    let texts = [
        ("db", record.database.as_str()),
        ("coll", record.container.as_str()),
        ("id", record.id.as_str()),
        ("code", record.code.unwrap_or_default()),
        ("userAgent", record.user_agent.as_str()),
    ];
    for (name, text) in texts {
        if !text.is_empty() {
            json.set(name, text);
        }
    }
    if let Some(query) = &record.query {
        let mut figures = object! {
            "retrieved" => query.retrieved,
            "output" => query.output,
            "indexHitRatio" => query.index_hit_ratio(),
        };
        if let Some(form) = &query.form {
            figures.set("form", form.as_str());
        }
        json.set("query", figures);
    }
    json.into()
}

/// Returns the JSON form of a part of a charge.
fn part_json(part: &ChargePart) -> Json {
    let ru = part.fine as f64 / 10_000.0;
    Json::Object(object! { "what" => part.what, "count" => part.count, "ru" => ru })
}
