//! Mathematical functions: doubles in, doubles out. NaN and infinities are legal here and refused in a result.

use super::{Arguments, Function, Implementation, IndexUse, strict};
use crate::value::number;
use orrery_model::json::Json;
use std::f64::consts::PI;

/// A function of one number.
macro_rules! unary {
    ($name:expr, $doc:expr, $run:expr) => {
        strict(&[$name], (1, 1), $doc, |a| {
            let run: fn(f64) -> f64 = $run;
            Some(number(run(a.number(0)?)))
        })
    };
}

pub(super) const TABLE: &[Function] = &[
    unary!("ABS", "the number without its sign", f64::abs),
    unary!("CEILING", "the least whole number not below", f64::ceil),
    unary!("FLOOR", "the greatest whole number not above", f64::floor),
    unary!("SIGN", "-1, 0 or 1", |x| if x == 0.0 || x.is_nan() {
        x
    } else {
        x.signum()
    }),
    unary!("SQRT", "the square root", f64::sqrt),
    unary!("SQUARE", "the number times itself", |x| x * x),
    unary!("EXP", "e to the power of the number", f64::exp),
    unary!("LOG10", "the logarithm to base 10", f64::log10),
    unary!("TRUNC", "the number without its fraction", f64::trunc),
    unary!("SIN", "the sine of radians", f64::sin),
    unary!("COS", "the cosine of radians", f64::cos),
    unary!("TAN", "the tangent of radians", f64::tan),
    unary!("COT", "the cotangent of radians", |x| 1.0 / x.tan()),
    unary!("ASIN", "the angle of a sine", f64::asin),
    unary!("ACOS", "the angle of a cosine", f64::acos),
    unary!("ATAN", "the angle of a tangent", f64::atan),
    unary!("DEGREES", "radians to degrees", |x| x * 180.0 / PI),
    unary!("RADIANS", "degrees to radians", |x| x * PI / 180.0),
    strict(
        &["ROUND"],
        (1, 2),
        "rounded, halves away from zero, to so many digits",
        round,
    ),
    strict(
        &["POWER"],
        (2, 2),
        "the first to the power of the second",
        |a| Some(number(a.number(0)?.powf(a.number(1)?))),
    ),
    strict(
        &["LOG"],
        (1, 2),
        "the natural logarithm, or that of a base",
        |a| {
            let logarithm = a.number(0)?.ln();
            let base = a.number_or(1, std::f64::consts::E)?;
            Some(number(if a.len() > 1 {
                logarithm / base.ln()
            } else {
                logarithm
            }))
        },
    ),
    strict(
        &["ATN2", "ATAN2"],
        (2, 2),
        "the angle of the point (second, first)",
        |a| Some(number(a.number(0)?.atan2(a.number(1)?))),
    ),
    strict(&["PI"], (0, 0), "3.141592653589793", |_| Some(number(PI))),
    strict(
        &["NUMBERBIN", "NUMBER_BIN"],
        (1, 2),
        "rounded down to a multiple of the size",
        number_bin,
    ),
    Function {
        names: &["RAND"],
        arity: (0, 0),
        index_use: IndexUse::FullScan,
        doc: "a random number from 0 to below 1, new for each row",
        run: Implementation::Context(|cx, _| Some(number(cx.next_random()))),
    },
];

fn round(a: Arguments<'_, '_>) -> Option<Json> {
    let (x, digits) = (a.number(0)?, a.whole_or(1, 0)?.clamp(-400, 400));
    if digits == 0 {
        return Some(number(x.round()));
    }
    let scale = 10f64.powi(i32::try_from(digits).ok()?);
    let rounded = (x * scale).round() / scale;
    // Beyond the digits that a double has there is nothing to round.
    Some(number(if rounded.is_finite() { rounded } else { x }))
}

fn number_bin(a: Arguments<'_, '_>) -> Option<Json> {
    let (x, size) = (a.number(0)?, a.number_or(1, 1.0)?);
    (size != 0.0).then(|| number((x / size).floor() * size))
}
