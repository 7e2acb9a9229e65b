//! The time of the data: what `_ts` and time to live are reckoned by. It can be moved on, so that what expires in a day
//! expires now.
//!
//! It goes on only: a `_ts` is never below an earlier one. It comes back when the data that know a later time are gone,
//! with a reset or the restoration of a snapshot. Signatures, tokens, log lines and fault rules keep the real time, and
//! a server that is started again has the real time everywhere.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::shape::{Shape, Value, must};
use orrery_model::object;
use orrery_model::world::World;

/// Ten years, in seconds.
const MOST_SECONDS: i64 = 10 * 366 * 24 * 60 * 60;

/// What [`set`] takes.
pub(crate) const OFFSET: Shape = Shape {
    name: "ClockOffset",
    members: &[must(
        "offsetSeconds",
        Value::Whole(0, MOST_SECONDS),
        "seconds by which the data are to be ahead",
    )],
};

/// What both give.
pub(crate) const SHAPE: Shape = Shape {
    name: "Clock",
    members: &[
        must(
            "offsetSeconds",
            Value::Whole(0, MOST_SECONDS),
            "seconds by which the data are ahead of the real time",
        ),
        must(
            "nowSeconds",
            Value::Whole(0, i64::MAX),
            "the time of the data, in seconds since 1970",
        ),
    ],
};

/// The time now.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let clock = &call.parts.clock;
    Answer::json(
        200,
        object! { "offsetSeconds" => clock.ahead_seconds(), "nowSeconds" => clock.now_seconds() },
    )
}

/// Moves time on.
pub(crate) fn set(call: &Call) -> Result<Answer, Problem> {
    let wanted = call
        .whole("offsetSeconds")
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(0);
    let clock = &call.parts.clock;
    if clock.advance_to(wanted) {
        return read(call);
    }
    let told = format!(
        "'offsetSeconds': the data are ahead by {} s already, and time goes on only; POST /reset, or the restoration of a \
         snapshot from before, brings it back",
        clock.ahead_seconds()
    );
    Err(Problem::new(409, "Conflict", told))
}
