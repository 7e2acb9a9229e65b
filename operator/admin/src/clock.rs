//! The clock of the data, which sets `_ts` and decides when items expire. The management API can
//! move the clock forward, so that a test need not wait for a time to live.
//!
//! The clock never moves back, because a `_ts` must not be below an earlier one. It returns to the
//! real time, or to the offset of a snapshot, when a reset or a restore removes all data written
//! at later times. Signatures, tokens, log lines and fault rules use the real time. The offset is
//! not stored: after a restart the real time counts. Up to a day of offset, `_ts` stays where it
//! was in each partition until the real time has reached it; beyond, it is the real time.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, required};
use orrery_model::object;
use orrery_model::world::World;

/// Largest offset in seconds: ten years.
const MAX_OFFSET_SECONDS: i64 = 10 * 366 * 24 * 60 * 60;

/// Body of [`set`].
pub(crate) const OFFSET: Schema = Schema {
    name: "ClockOffset",
    members: &[required(
        "offsetSeconds",
        ValueType::Integer(0, MAX_OFFSET_SECONDS),
        "seconds by which the clock of the data is to be ahead of the real time",
    )],
};

/// Response of [`read`] and [`set`].
pub(crate) const CLOCK: Schema = Schema {
    name: "Clock",
    members: &[
        required(
            "offsetSeconds",
            ValueType::Integer(0, MAX_OFFSET_SECONDS),
            "seconds by which the clock of the data is ahead of the real time",
        ),
        required(
            "nowSeconds",
            COUNT,
            "time of the data in seconds since 1970-01-01 UTC",
        ),
    ],
};

/// Returns the time of the data.
pub(crate) fn read(call: &Call) -> Result<Answer, Problem> {
    let clock = &call.components.clock;
    Answer::json(
        200,
        object! { "offsetSeconds" => clock.ahead_seconds(), "nowSeconds" => clock.now_seconds() },
    )
}

/// Moves the clock of the data forward.
///
/// # Errors
/// 409 if the clock is already ahead by more than the requested offset.
pub(crate) fn set(call: &Call) -> Result<Answer, Problem> {
    let clock = &call.components.clock;
    let offset = call.unsigned("offsetSeconds").unwrap_or(0);
    if clock.advance_to(offset) {
        call.engine().clock_changed();
        return read(call);
    }
    let message = format!(
        "'offsetSeconds': the clock of the data is already {} s ahead and cannot move back; \
         POST /reset or the restore of an earlier snapshot sets it back",
        clock.ahead_seconds()
    );
    Err(Problem::new(409, "Conflict", message))
}
