//! Type checks: always a boolean, also for undefined.

use super::{Function, IndexUse, non_strict};
use crate::functions::dates::read;
use orrery_model::json::Json;

/// A question about one value that may be undefined.
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
    check!(["IS_ARRAY"], "whether it is an array", |v| matches!(
        v,
        Some(Json::Array(_))
    )),
    check!(
        ["IS_BOOL", "IS_BOOLEAN"],
        "whether it is true or false",
        |v| matches!(v, Some(Json::Bool(_)))
    ),
    check!(["IS_NULL"], "whether it is null", |v| matches!(
        v,
        Some(Json::Null)
    )),
    check!(["IS_NUMBER"], "whether it is a number", |v| matches!(
        v,
        Some(Json::Number(_))
    )),
    check!(["IS_OBJECT"], "whether it is an object", |v| matches!(
        v,
        Some(Json::Object(_))
    )),
    check!(["IS_STRING"], "whether it is a string", |v| matches!(
        v,
        Some(Json::String(_))
    )),
    check!(
        ["IS_DEFINED"],
        "whether there is a value, null included",
        |v| v.is_some()
    ),
    check!(
        ["IS_PRIMITIVE"],
        "whether it is null, a boolean, a number or a string",
        |v| { v.is_some_and(|v| !matches!(v, Json::Array(_) | Json::Object(_))) }
    ),
    check!(
        ["IS_FINITE_NUMBER"],
        "whether it is a number and finite",
        |v| { matches!(v, Some(Json::Number(n)) if n.is_finite()) }
    ),
    check!(
        ["IS_INTEGER"],
        "whether it is a whole number of 64 bits",
        |v| v.is_some_and(|v| v.as_i64().is_some())
    ),
    check!(
        ["IS_DATETIME"],
        "whether it is a date and time as the date functions read it",
        |v| {
            v.and_then(Json::as_str)
                .is_some_and(|text| read(text).is_some())
        }
    ),
];
