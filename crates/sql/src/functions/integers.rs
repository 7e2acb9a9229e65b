//! Exact arithmetic on signed 64-bit integers. Arguments that are not whole, or do not fit, give undefined; results
//! wrap.

use super::{Function, strict};
use orrery_model::json::Json;

/// A function of two integers.
macro_rules! binary {
    ($names:expr, $doc:expr, $run:expr) => {
        strict(&$names, (2, 2), $doc, |a| {
            let run: fn(i64, i64) -> Option<i64> = $run;
            run(a.whole(0)?, a.whole(1)?).map(Json::from)
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
        "the quotient, towards zero",
        |a, b| (b != 0).then(|| a.wrapping_div(b))
    ),
    binary!(
        ["INTMOD"],
        "the remainder, with the dividend's sign",
        |a, b| (b != 0).then(|| a.wrapping_rem(b))
    ),
    binary!(["INTBITAND"], "bits in both", |a, b| Some(a & b)),
    binary!(["INTBITOR"], "bits in either", |a, b| Some(a | b)),
    binary!(["INTBITXOR"], "bits in one of both", |a, b| Some(a ^ b)),
    binary!(["INTBITLEFTSHIFT"], "bits moved up, by 0 to 63", |a, b| a
        .checked_shl(u32::try_from(b).ok()?)),
    binary!(
        ["INTBITRIGHTSHIFT"],
        "bits moved down, by 0 to 63",
        |a, b| a.checked_shr(u32::try_from(b).ok()?)
    ),
    strict(&["INTBITNOT"], (1, 1), "all bits turned", |a| {
        Some(Json::from(!a.whole(0)?))
    }),
];
