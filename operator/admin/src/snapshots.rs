//! Named snapshots of all data, for test suites that start each test from the same state.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, required};
use orrery_engine::request::SnapshotInfo;
use orrery_model::{Json, Object, object};

/// Member of a snapshot's note that holds the offset of the clock of the data, in seconds.
const CLOCK_OFFSET: &str = "clockOffsetSeconds";

/// A snapshot.
pub(crate) const SNAPSHOT: Schema = Schema {
    name: "Snapshot",
    members: &[
        required("name", ValueType::Text, "name of the snapshot"),
        required(
            "takenMilliseconds",
            COUNT,
            "time of the data when the snapshot was taken, in milliseconds since 1970-01-01 UTC",
        ),
        required("containers", COUNT, "number of containers"),
        required("partitions", COUNT, "number of physical partitions"),
        required("items", COUNT, "number of items"),
        required("bytes", COUNT, "size of the items' JSON texts in bytes"),
    ],
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "Snapshots",
    members: &[required(
        "snapshots",
        ValueType::ObjectList(&SNAPSHOT),
        "snapshots in order of their names",
    )],
};

/// Takes a snapshot; replaces an older one of the same name.
pub(crate) fn take(call: &Call) -> Result<Answer, Problem> {
    let note = object! { CLOCK_OFFSET => call.components.clock.ahead_seconds() };
    let snapshot = call.engine().take_snapshot(call.path_parameter(0), &note)?;
    Answer::json(200, snapshot_json(&snapshot))
}

/// Lists the snapshots.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let snapshots: Vec<Json> = call
        .engine()
        .snapshots()?
        .iter()
        .map(|snapshot| snapshot_json(snapshot).into())
        .collect();
    Answer::json(200, object! { "snapshots" => snapshots })
}

/// Returns a snapshot.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let snapshot = call.engine().snapshot_info(call.path_parameter(0))?;
    Answer::json(200, snapshot_json(&snapshot))
}

/// Deletes a snapshot.
pub(crate) fn delete(call: &Call) -> Result<Answer, Problem> {
    call.engine().delete_snapshot(call.path_parameter(0))?;
    Answer::empty()
}

/// Replaces all data by a snapshot and sets the clock of the data to the offset that it had when
/// the snapshot was taken. The clock may move back here, because no data of a later time is left.
pub(crate) fn restore(call: &Call) -> Result<Answer, Problem> {
    let snapshot = call.engine().restore_snapshot(call.path_parameter(0))?;
    let offset_seconds = snapshot
        .note
        .get(CLOCK_OFFSET)
        .and_then(Json::as_i64)
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(0);
    call.components.clock.set(offset_seconds);
    call.engine().clock_changed();
    Answer::json(200, snapshot_json(&snapshot))
}

/// Deletes all data except the snapshots and resets the clock of the data to the real time.
pub(crate) fn reset(call: &Call) -> Result<Answer, Problem> {
    call.engine().reset()?;
    call.components.clock.set(0);
    call.engine().clock_changed();
    Answer::empty()
}

/// Returns the JSON form of a snapshot's description.
fn snapshot_json(snapshot: &SnapshotInfo) -> Object {
    object! {
        "name" => snapshot.name.as_str(),
        "takenMilliseconds" => snapshot.taken_ms,
        "containers" => snapshot.containers,
        "partitions" => snapshot.partitions,
        "items" => snapshot.items,
        "bytes" => snapshot.bytes,
    }
}
