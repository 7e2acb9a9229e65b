//! Snapshots of everything under names, for test suites that want to begin at the same place again and again.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{COUNT, Shape, Value, must};
use orrery_engine::request::SnapshotInfo;
use orrery_model::{Json, Object, object};

/// The member of a snapshot's note that says how far the time of the data was ahead.
const AHEAD: &str = "clockOffsetSeconds";

/// A snapshot.
pub(crate) const SNAPSHOT: Shape = Shape {
    name: "Snapshot",
    members: &[
        must("name", Value::Text, "its name"),
        must(
            "takenMilliseconds",
            COUNT,
            "when it was taken by the time of the data, in milliseconds since 1970",
        ),
        must("containers", COUNT, "containers"),
        must("partitions", COUNT, "their physical partitions"),
        must("items", COUNT, "their items"),
        must("bytes", COUNT, "bytes of the items' JSON texts"),
    ],
};

/// What [`list`] gives.
pub(crate) const LIST: Shape = Shape {
    name: "Snapshots",
    members: &[must(
        "snapshots",
        Value::Objects(&SNAPSHOT),
        "the snapshots, by name",
    )],
};

/// Takes one; an older one of the name goes.
pub(crate) fn take(call: &Call) -> Result<Answer, Problem> {
    let note = object! { AHEAD => call.parts.clock.ahead_seconds() };
    Answer::json(200, shown(&call.engine().take_snapshot(call.id(0), &note)?))
}

/// All of them.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let all: Vec<Json> = call
        .engine()
        .snapshots()?
        .iter()
        .map(|snapshot| shown(snapshot).into())
        .collect();
    Answer::json(200, object! { "snapshots" => all })
}

/// One of them.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    Answer::json(200, shown(&call.engine().snapshot_info(call.id(0))?))
}

/// Deletes one.
pub(crate) fn delete(call: &Call) -> Result<Answer, Problem> {
    call.engine().delete_snapshot(call.id(0))?;
    Answer::empty()
}

/// Puts one in the place of everything. The time of the data is ahead again by what it was then: nothing is left that
/// was told a later one.
pub(crate) fn restore(call: &Call) -> Result<Answer, Problem> {
    let snapshot = call.engine().restore_snapshot(call.id(0))?;
    let ahead = snapshot
        .note
        .get(AHEAD)
        .and_then(Json::as_i64)
        .and_then(|seconds| u64::try_from(seconds).ok());
    call.parts.clock.set(ahead.unwrap_or(0));
    Answer::json(200, shown(&snapshot))
}

/// Deletes everything but the snapshots, and brings the real time back.
pub(crate) fn reset(call: &Call) -> Result<Answer, Problem> {
    call.engine().reset()?;
    call.parts.clock.set(0);
    Answer::empty()
}

fn shown(snapshot: &SnapshotInfo) -> Object {
    object! {
        "name" => snapshot.name.as_str(),
        "takenMilliseconds" => snapshot.taken_ms,
        "containers" => snapshot.containers,
        "partitions" => snapshot.partitions,
        "items" => snapshot.items,
        "bytes" => snapshot.bytes,
    }
}
