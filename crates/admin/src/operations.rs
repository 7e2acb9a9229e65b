//! Splits and merges of physical partitions: long-running operations that can be watched, taken step by step, and given
//! up.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{COUNT, Shape, Value, may, must};
use orrery_engine::request::{RangeChange, RangeChangeStatus, SplitAt};
use orrery_model::partition_key::Epk;
use orrery_model::{Json, Object, object};

const YES: Value = Value::OneOf(&["yes", "no"]);
const STEPWISE: &str = "whether each step waits to be asked for; 'no' if left out";

/// What [`split`] takes.
pub(crate) const SPLIT: Shape = Shape {
    name: "Split",
    members: &[
        may(
            "at",
            Value::Text,
            "'middle' of the stretch, 'median' of its items, or a point in hexadecimal digits; middle if left out",
        ),
        may("stepwise", YES, STEPWISE),
    ],
};

/// What [`merge`] takes.
pub(crate) const MERGE: Shape = Shape {
    name: "Merge",
    members: &[
        must(
            "ids",
            Value::Texts,
            "the partition key range ids of two or more neighbours",
        ),
        may("stepwise", YES, STEPWISE),
    ],
};

/// What [`act`] takes.
pub(crate) const ACTION: Shape = Shape {
    name: "OperationAction",
    members: &[must(
        "action",
        Value::OneOf(&["next", "finish", "cancel"]),
        "one step, all that are left, or an end",
    )],
};

/// A split or merge.
pub(crate) const OPERATION: Shape = Shape {
    name: "Operation",
    members: &[
        must(
            "id",
            Value::Whole(1, i64::MAX),
            "its number since the server began",
        ),
        must("kind", Value::OneOf(&["split", "merge"]), "what it is"),
        must("database", Value::Text, "the id of the database"),
        must("container", Value::Text, "the id of the container"),
        must("ids", Value::Texts, "the partition key range ids that go"),
        must("stepwise", YES, "whether each step waits to be asked for"),
        must("status", STATUS, "how far it is"),
        may(
            "next",
            Value::Text,
            "what the next step does; left out if it is over",
        ),
        must(
            "copiedBytes",
            COUNT,
            "bytes of rows copied, those of the index among them",
        ),
        must(
            "newIds",
            Value::Texts,
            "the partition key range ids that came, when it is done",
        ),
        may(
            "failure",
            Value::Text,
            "why it failed; everything is as it was then",
        ),
        must(
            "beganMilliseconds",
            COUNT,
            "when it began by the time of the data, in milliseconds since 1970",
        ),
        may("endedMilliseconds", COUNT, "when it was over"),
    ],
};

const STATUS: Value = Value::OneOf(&[
    "copying",
    "copied",
    "completing",
    "done",
    "cancelled",
    "failed",
]);

/// What [`list`] gives.
pub(crate) const LIST: Shape = Shape {
    name: "Operations",
    members: &[must(
        "operations",
        Value::Objects(&OPERATION),
        "those under way and the last that are over, oldest first",
    )],
};

/// Splits a physical partition.
pub(crate) fn split(call: &Call) -> Result<Answer, Problem> {
    let range = range_id(call.id(2), "the path")?;
    let at = match call.text("at").unwrap_or("middle") {
        "middle" => SplitAt::Middle,
        "median" => SplitAt::Median,
        point => SplitAt::Border(Epk::from_hex(point).map_err(|_| {
            Problem::bad(format!(
                "the body, 'at': '{point}' is neither middle nor median nor hexadecimal digits"
            ))
        })?),
    };
    begin(call, RangeChange::Split { range, at })
}

/// Merges neighbours.
pub(crate) fn merge(call: &Call) -> Result<Answer, Problem> {
    let ids = call
        .asked
        .get("ids")
        .and_then(Json::as_array)
        .unwrap_or_default();
    let ids = ids
        .iter()
        .filter_map(Json::as_str)
        .map(|id| range_id(id, "the body, 'ids'"));
    begin(
        call,
        RangeChange::Merge {
            ranges: ids.collect::<Result<_, _>>()?,
        },
    )
}

fn range_id(id: &str, at: &str) -> Result<u32, Problem> {
    id.parse()
        .map_err(|_| Problem::bad(format!("{at}: '{id}' is no partition key range id")))
}

fn begin(call: &Call, change: RangeChange) -> Result<Answer, Problem> {
    let container = call.container()?;
    let stepwise = call.text("stepwise") == Some("yes");
    let begun = call
        .engine()
        .begin_range_change(&container, change, stepwise)?;
    if !stepwise {
        let (engine, id) = (call.parts.engine.clone(), begun.id);
        // What it comes to is in its status. Without a thread to spare the engine carries it on by and by.
        let _ = std::thread::Builder::new()
            .name("repartition".into())
            .spawn(move || engine.finish_range_change(id));
    }
    Answer::json(202, shown(&begun))
}

/// All splits and merges.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let all: Vec<Json> = call
        .engine()
        .range_changes()
        .iter()
        .map(|operation| shown(operation).into())
        .collect();
    Answer::json(200, object! { "operations" => all })
}

/// One of them.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    Answer::json(200, shown(&call.engine().range_change(number(call)?)?))
}

/// Takes the next step of one, all that are left, or gives it up.
pub(crate) fn act(call: &Call) -> Result<Answer, Problem> {
    let (engine, id) = (call.engine(), number(call)?);
    let operation = match call.text("action") {
        Some("next") => engine.step_range_change(id)?,
        Some("finish") => engine.finish_range_change(id)?,
        _ => engine.cancel_range_change(id)?,
    };
    Answer::json(200, shown(&operation))
}

fn number(call: &Call) -> Result<u64, Problem> {
    call.id(0)
        .parse()
        .map_err(|_| Problem::not_found(format!("there is no operation '{}'", call.id(0))))
}

fn shown(operation: &RangeChangeStatus) -> Object {
    let texts = |ids: &[u32]| {
        ids.iter()
            .map(|id| Json::from(id.to_string()))
            .collect::<Vec<_>>()
    };
    let (kind, ids) = match &operation.change {
        RangeChange::Split { range, .. } => ("split", texts(&[*range])),
        RangeChange::Merge { ranges } => ("merge", texts(ranges)),
    };
    let mut shown = object! {
        "id" => operation.id,
        "kind" => kind,
        "database" => operation.database.as_str(),
        "container" => operation.container.as_str(),
        "ids" => ids,
        "stepwise" => if operation.stepwise { "yes" } else { "no" },
        "status" => operation.stage.name(),
        "copiedBytes" => operation.copied_bytes,
        "newIds" => texts(&operation.new_ranges),
        "beganMilliseconds" => operation.began_ms,
    };
    let mut set = |name: &str, value: Option<Json>| {
        value.into_iter().for_each(|value| shown.set(name, value))
    };
    set("next", operation.stage.next().map(Json::from));
    set("failure", operation.failure.as_deref().map(Json::from));
    set("endedMilliseconds", operation.ended_ms.map(Json::from));
    shown
}
