//! Type checks. The result is always a boolean, also for an undefined argument.

use super::{Function, IndexUse, non_strict};
use crate::functions::dates::parse_ticks;
use orrery_model::json::Json;

/// Makes the entry of a test of one value that may be undefined.
macro_rules! check {
    ($names:expr, $doc:expr, $test:expr) => {
        non_strict(&$names, (1, 1), $doc, |a| {
            let test: fn(Option<&Json>) -> bool = $test;
            Some(Json::Bool(test(a.get(0))))
        })
        .index_use(IndexUse::Range)
    };
}

pub(super) const TABLE: &[Function] = &[
    check!(["IS_ARRAY"], "true if the value is an array", |v| matches!(
        v,
        Some(Json::Array(_))
    )),
    check!(
        ["IS_BOOL", "IS_BOOLEAN"],
        "true if the value is true or false",
        |v| matches!(v, Some(Json::Bool(_)))
    ),
    check!(["IS_NULL"], "true if the value is null", |v| matches!(
        v,
        Some(Json::Null)
    )),
    check!(
        ["IS_NUMBER"],
        "true if the value is a number",
        |v| matches!(v, Some(Json::Number(_)))
    ),
    check!(
        ["IS_OBJECT"],
        "true if the value is an object",
        |v| matches!(v, Some(Json::Object(_)))
    ),
    check!(
        ["IS_STRING"],
        "true if the value is a string",
        |v| matches!(v, Some(Json::String(_)))
    ),
    check!(
        ["IS_DEFINED"],
        "true if the value is defined; null is defined",
        |v| v.is_some()
    ),
    check!(
        ["IS_PRIMITIVE"],
        "true if the value is null, a boolean, a number or a string",
        |v| { v.is_some_and(|v| !matches!(v, Json::Array(_) | Json::Object(_))) }
    ),
    check!(
        ["IS_FINITE_NUMBER"],
        "true if the value is a finite number",
        |v| { matches!(v, Some(Json::Number(n)) if n.is_finite()) }
    ),
    check!(
        ["IS_INTEGER"],
        "true if the value is a signed 64-bit integer",
        |v| v.is_some_and(|v| v.as_i64().is_some())
    ),
    check!(
        ["IS_DATETIME"],
        "true if the value is a string that the date functions read",
        |v| {
            v.and_then(Json::as_str)
                .is_some_and(|text| parse_ticks(text).is_some())
        }
    ),
];
