//! Exact arithmetic on signed 64-bit integers. An argument that is no such integer makes the result
//! undefined. Results wrap around.

use super::{Function, strict};
use orrery_model::json::Json;

/// Makes the entry of a function of two integers.
macro_rules! binary {
    ($names:expr, $doc:expr, $run:expr) => {
        strict(&$names, (2, 2), $doc, |a| {
            let run: fn(i64, i64) -> Option<i64> = $run;
            run(a.integer(0)?, a.integer(1)?).map(Json::from)
        })
    };
}

pub(super) const TABLE: &[Function] = &[
    binary!(["INTADD"], "the sum", |a, b| Some(a.wrapping_add(b))),
    binary!(["INTSUB", "INTSUBTRACT"], "the difference", |a, b| Some(
        a.wrapping_sub(b)
    )),
    binary!(["INTMUL", "INTMULTIPLY"], "the product", |a, b| Some(
        a.wrapping_mul(b)
    )),
    binary!(
        ["INTDIV", "INTDIVIDE"],
        "the quotient, rounded towards zero",
        |a, b| (b != 0).then(|| a.wrapping_div(b))
    ),
    binary!(
        ["INTMOD"],
        "the remainder, with the dividend's sign",
        |a, b| (b != 0).then(|| a.wrapping_rem(b))
    ),
    binary!(["INTBITAND"], "the bits set in both", |a, b| Some(a & b)),
    binary!(["INTBITOR"], "the bits set in at least one", |a, b| Some(
        a | b
    )),
    binary!(["INTBITXOR"], "the bits set in exactly one", |a, b| Some(
        a ^ b
    )),
    binary!(
        ["INTBITLEFTSHIFT"],
        "the bits shifted left, by 0 to 63",
        |a, b| a.checked_shl(u32::try_from(b).ok()?)
    ),
    binary!(
        ["INTBITRIGHTSHIFT"],
        "the bits shifted right, by 0 to 63",
        |a, b| a.checked_shr(u32::try_from(b).ok()?)
    ),
    strict(&["INTBITNOT"], (1, 1), "all bits inverted", |a| {
        Some(Json::from(!a.integer(0)?))
    }),
];
