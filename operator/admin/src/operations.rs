//! Splits and merges of physical partitions. Each is an operation that runs after the response and
//! can be watched, run step by step and cancelled.

use crate::call::{Answer, Call};
use crate::jobs::{BEGAN, ENDED};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, YES_OR_NO, optional, required, yes_or_no};
use orrery_engine::request::{RangeChange, RangeChangeStatus, SplitAt};
use orrery_model::partition_key::Epk;
use orrery_model::{Json, Object, object};

const STEPWISE: &str = "yes: each step waits for a request; no if absent";

/// Body of [`split`].
pub(crate) const SPLIT: Schema = Schema {
    name: "Split",
    members: &[
        optional(
            "at",
            ValueType::Text,
            "middle (of the EPK range), median (of the items) or an EPK in hexadecimal digits; \
             middle if absent",
        ),
        optional("stepwise", YES_OR_NO, STEPWISE),
    ],
};

/// Body of [`merge`].
pub(crate) const MERGE: Schema = Schema {
    name: "Merge",
    members: &[
        required(
            "ids",
            ValueType::TextList,
            "partition key range ids of two or more partitions with adjacent EPK ranges",
        ),
        optional("stepwise", YES_OR_NO, STEPWISE),
    ],
};

/// Body of [`act`].
pub(crate) const ACTION: Schema = Schema {
    name: "OperationAction",
    members: &[required(
        "action",
        ValueType::OneOf(&["next", "finish", "cancel"]),
        "next: run one step; finish: run all remaining steps; cancel: undo the operation",
    )],
};

/// A split or merge.
pub(crate) const OPERATION: Schema = Schema {
    name: "Operation",
    members: &[
        required(
            "id",
            ValueType::Integer(1, i64::MAX),
            "number of the operation since the server started",
        ),
        required(
            "kind",
            ValueType::OneOf(&["split", "merge"]),
            "kind of the operation",
        ),
        required("database", ValueType::Text, "id of the database"),
        required("container", ValueType::Text, "id of the container"),
        required(
            "ids",
            ValueType::TextList,
            "partition key range ids of the partitions that are replaced",
        ),
        required(
            "stepwise",
            YES_OR_NO,
            "yes if each step waits for a request",
        ),
        required("status", STATUS, "progress of the operation"),
        optional(
            "next",
            ValueType::Text,
            "effect of the next step; absent if the operation has ended",
        ),
        required(
            "copiedBytes",
            COUNT,
            "bytes of rows copied so far, including the rows of the index",
        ),
        required(
            "newIds",
            ValueType::TextList,
            "partition key range ids of the new partitions; empty until the operation is done",
        ),
        optional(
            "failure",
            ValueType::Text,
            "reason of a failure; a failed operation changes nothing",
        ),
        BEGAN,
        ENDED,
    ],
};

const STATUS: ValueType = ValueType::OneOf(&[
    "copying",
    "copied",
    "completing",
    "done",
    "cancelled",
    "failed",
]);

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "Operations",
    members: &[required(
        "operations",
        ValueType::ObjectList(&OPERATION),
        "operations in progress and the most recently ended ones, the oldest first",
    )],
};

/// Starts to split a physical partition.
pub(crate) fn split(call: &Call) -> Result<Answer, Problem> {
    let range = parse_range_id(call.path_parameter(2), "the path")?;
    let at = match call.text("at").unwrap_or("middle") {
        "middle" => SplitAt::Middle,
        "median" => SplitAt::Median,
        border => match Epk::from_hex(border) {
            Ok(epk) => SplitAt::Border(epk),
            Err(_) => {
                return Err(Problem::bad_request(format!(
                    "the body, 'at': '{border}' is not 'middle', 'median' or hexadecimal digits"
                )));
            }
        },
    };
    begin(call, RangeChange::Split { range, at })
}

/// Starts to merge physical partitions.
pub(crate) fn merge(call: &Call) -> Result<Answer, Problem> {
    let mut ranges = Vec::new();
    for id in call.list("ids").iter().filter_map(Json::as_str) {
        ranges.push(parse_range_id(id, "the body, 'ids'")?);
    }
    begin(call, RangeChange::Merge { ranges })
}

/// Parses a partition key range id. `location` names the id in the error message.
fn parse_range_id(id: &str, location: &str) -> Result<u32, Problem> {
    id.parse().map_err(|_| {
        Problem::bad_request(format!(
            "{location}: '{id}' is not a partition key range id"
        ))
    })
}

/// Starts an operation and, unless it is stepwise, runs it to its end in the background.
fn begin(call: &Call, change: RangeChange) -> Result<Answer, Problem> {
    let container = call.container()?;
    let is_stepwise = call.text("stepwise") == Some("yes");
    let operation = call
        .engine()
        .begin_range_change(&container, change, is_stepwise)?;
    if !is_stepwise {
        let engine = call.components.engine.clone();
        let id = operation.id;
        // The result is not needed here, because the status of the operation reports it. If no
        // thread can be started, the periodic work of the engine completes the operation.
        let _ = std::thread::Builder::new()
            .name("repartition".into())
            .spawn(move || engine.finish_range_change(id));
    }
    Answer::json(202, operation_json(&operation))
}

/// Lists the operations.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let operations: Vec<Json> = call
        .engine()
        .range_changes()
        .iter()
        .map(|operation| operation_json(operation).into())
        .collect();
    Answer::json(200, object! { "operations" => operations })
}

/// Returns an operation.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let operation = call.engine().range_change(operation_id(call)?)?;
    Answer::json(200, operation_json(&operation))
}

/// Runs the next step or all remaining steps of an operation, or cancels the operation.
pub(crate) fn act(call: &Call) -> Result<Answer, Problem> {
    let engine = call.engine();
    let id = operation_id(call)?;
    let operation = match call.text("action") {
        Some("next") => engine.step_range_change(id)?,
        Some("finish") => engine.finish_range_change(id)?,
        _ => engine.cancel_range_change(id)?,
    };
    Answer::json(200, operation_json(&operation))
}

/// Returns the number of the operation in the path.
fn operation_id(call: &Call) -> Result<u64, Problem> {
    let id = call.path_parameter(0);
    id.parse()
        .map_err(|_| Problem::not_found(format!("there is no operation '{id}'")))
}

/// Returns the JSON form of an operation.
fn operation_json(operation: &RangeChangeStatus) -> Object {
    let (kind, ids) = match &operation.change {
        RangeChange::Split { range, .. } => ("split", range_ids_json(&[*range])),
        RangeChange::Merge { ranges } => ("merge", range_ids_json(ranges)),
    };
    let mut json = object! {
        "id" => operation.id,
        "kind" => kind,
        "database" => operation.database.as_str(),
        "container" => operation.container.as_str(),
        "ids" => ids,
        "stepwise" => yes_or_no(operation.stepwise),
        "status" => operation.stage.name(),
        "copiedBytes" => operation.copied_bytes,
        "newIds" => range_ids_json(&operation.new_ranges),
        "beganMilliseconds" => operation.began_ms,
    };
    if let Some(next) = operation.stage.next() {
        json.set("next", next);
    }
    if let Some(failure) = &operation.failure {
        json.set("failure", failure.as_str());
    }
    if let Some(ended_ms) = operation.ended_ms {
        json.set("endedMilliseconds", ended_ms);
    }
    json
}

/// Returns partition key range ids as a JSON array of strings, the form that clients see.
fn range_ids_json(ids: &[u32]) -> Vec<Json> {
    ids.iter().map(|id| id.to_string().into()).collect()
}
