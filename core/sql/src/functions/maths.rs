//! Mathematical functions on doubles. NaN and infinities are allowed here; a row that contains one
//! is an error.

use super::{Arguments, Function, Implementation, entry, strict};
use crate::value::number;
use orrery_model::json::Json;
use std::f64::consts::PI;

/// Makes the entry of a function of one number.
macro_rules! unary {
    ($name:expr, $doc:expr, $run:expr) => {
        strict(&[$name], (1, 1), $doc, |a| {
            let run: fn(f64) -> f64 = $run;
            Some(number(run(a.number(0)?)))
        })
    };
}

pub(super) const TABLE: &[Function] = &[
    unary!("ABS", "the absolute value", f64::abs),
    unary!(
        "CEILING",
        "the smallest integer not below the number",
        f64::ceil
    ),
    unary!(
        "FLOOR",
        "the largest integer not above the number",
        f64::floor
    ),
    unary!(
        "SIGN",
        "the sign: -1, 0 or 1",
        |x| if x == 0.0 || x.is_nan() {
            x
        } else {
            x.signum()
        }
    ),
    unary!("SQRT", "the square root", f64::sqrt),
    unary!("SQUARE", "the square", |x| x * x),
    unary!("EXP", "e to the power of the number", f64::exp),
    unary!("LOG10", "the logarithm to base 10", f64::log10),
    unary!("TRUNC", "the number without its fraction", f64::trunc),
    unary!("SIN", "the sine of radians", f64::sin),
    unary!("COS", "the cosine of radians", f64::cos),
    unary!("TAN", "the tangent of radians", f64::tan),
    unary!("COT", "the cotangent of radians", |x| 1.0 / x.tan()),
    unary!("ASIN", "the angle in radians of a sine", f64::asin),
    unary!("ACOS", "the angle in radians of a cosine", f64::acos),
    unary!("ATAN", "the angle in radians of a tangent", f64::atan),
    unary!(
        "DEGREES",
        "the angle in degrees of an angle in radians",
        |x| x * 180.0 / PI
    ),
    unary!(
        "RADIANS",
        "the angle in radians of an angle in degrees",
        |x| x * PI / 180.0
    ),
    strict(
        &["ROUND"],
        (1, 2),
        "the number rounded to some digits, halves away from zero",
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
        "the natural logarithm, or the one to a base",
        |a| {
            let logarithm = a.number(0)?.ln();
            if a.len() == 1 {
                return Some(number(logarithm));
            }
            Some(number(logarithm / a.number(1)?.ln()))
        },
    ),
    strict(
        &["ATN2", "ATAN2"],
        (2, 2),
        "the angle in radians of the point (second, first)",
        |a| Some(number(a.number(0)?.atan2(a.number(1)?))),
    ),
    strict(&["PI"], (0, 0), "the number 3.141592653589793", |_| {
        Some(number(PI))
    }),
    strict(
        &["NUMBERBIN", "NUMBER_BIN"],
        (1, 2),
        "the number rounded down to a multiple of the size",
        number_bin,
    ),
    entry(
        &["RAND"],
        (0, 0),
        "a random number from 0 to below 1, new for each row",
        Implementation::Context(|cx, _| Some(number(cx.next_random()))),
    ),
];

fn round(a: Arguments<'_, '_>) -> Option<Json> {
    let (x, digits) = (a.number(0)?, a.integer_or(1, 0)?.clamp(-400, 400));
    if digits == 0 {
        return Some(number(x.round()));
    }
    let scale = 10f64.powi(i32::try_from(digits).ok()?);
    let rounded = (x * scale).round() / scale;
    // An overflow means more digits than a double has, so nothing is rounded.
    Some(number(if rounded.is_finite() { rounded } else { x }))
}

fn number_bin(a: Arguments<'_, '_>) -> Option<Json> {
    let (x, size) = (a.number(0)?, a.number_or(1, 1.0)?);
    (size != 0.0).then(|| number((x / size).floor() * size))
}
