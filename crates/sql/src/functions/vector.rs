//! Distances between vectors. The binder makes the arguments complete: two vectors, a distance function, a data type.
//!
//! Components are rounded to the data type and computed with as doubles. What is no array of numbers, or of another
//! length than the other, has no distance: undefined.

use super::{Arguments, Function, Implementation, IndexUse};
use orrery_model::json::Json;

/// How far two vectors are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DistanceFunction {
    Cosine,
    DotProduct,
    Euclidean,
}

impl DistanceFunction {
    pub fn parse(name: &str) -> Option<Self> {
        let all = [
            DistanceFunction::Cosine,
            DistanceFunction::DotProduct,
            DistanceFunction::Euclidean,
        ];
        all.into_iter()
            .find(|d| d.name().eq_ignore_ascii_case(name))
    }

    /// The name in policies and options, which are read in any case.
    pub fn name(self) -> &'static str {
        match self {
            DistanceFunction::Cosine => "cosine",
            DistanceFunction::DotProduct => "dotproduct",
            DistanceFunction::Euclidean => "euclidean",
        }
    }

    /// Whether a larger value means nearer.
    pub fn is_similarity(self) -> bool {
        self != DistanceFunction::Euclidean
    }
}

/// The data types of a vector policy.
pub(crate) const DATA_TYPES: &[&str] = &["float32", "float16", "int8", "uint8"];

const fn vector(
    names: &'static [&'static str],
    doc: &'static str,
    run: fn(Arguments<'_, '_>) -> Option<Json>,
) -> Function {
    Function {
        names,
        arity: (2, 4),
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::Vector(run),
    }
}

pub(super) const TABLE: &[Function] = &[
    vector(
        &["VECTORDISTANCE", "VECTOR_DISTANCE"],
        "cosine similarity, dot product or euclidean distance of two vectors",
        |a| Some(crate::value::number(distance(a)?.1)),
    ),
    vector(
        &[VECTOR_SCORE],
        "the same, larger for nearer; for clients that merge themselves",
        |a| {
            let (distance, value) = distance(a)?;
            Some(crate::value::number(if distance.is_similarity() {
                value
            } else {
                -value
            }))
        },
    ),
];

/// The function that rankings order by.
pub(crate) const VECTOR_SCORE: &str = "_VECTORSCORE";

fn distance(a: Arguments<'_, '_>) -> Option<(DistanceFunction, f64)> {
    let (left, right) = (a.array(0)?, a.array(1)?);
    let (distance, kind) = (DistanceFunction::parse(a.text(2)?)?, a.text(3)?);
    if left.len() != right.len() {
        return None;
    }
    let (mut product, mut left_square, mut right_square, mut apart) = (0.0, 0.0, 0.0, 0.0);
    for (x, y) in left.iter().zip(right) {
        let (x, y) = (rounded(x.as_f64()?, kind)?, rounded(y.as_f64()?, kind)?);
        product += x * y;
        left_square += x * x;
        right_square += y * y;
        apart += (x - y) * (x - y);
    }
    let value = match distance {
        DistanceFunction::Cosine => product / (left_square.sqrt() * right_square.sqrt()),
        DistanceFunction::DotProduct => product,
        DistanceFunction::Euclidean => apart.sqrt(),
    };
    value.is_finite().then_some((distance, value))
}

/// The component as its data type holds it; `None` if it does not fit.
fn rounded(value: f64, kind: &str) -> Option<f64> {
    let whole = |least: f64, most: f64| {
        (value.fract() == 0.0 && (least..=most).contains(&value)).then_some(value)
    };
    match kind {
        "float16" => Some(half(value)).filter(|v| v.abs() <= 65_504.0),
        "int8" => whole(-128.0, 127.0),
        "uint8" => whole(0.0, 255.0),
        _ => Some(f64::from(value as f32)),
    }
}

/// Rounded to eleven significant binary digits, fewer below 2^-14.
fn half(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let exponent = value.abs().log2().floor().max(-14.0);
    let unit = (exponent - 10.0).exp2();
    (value / unit).round_ties_even() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_rounded_to_what_they_can_hold() {
        for (value, held) in [
            (1.0, 1.0),
            (0.1, 0.099_975_585_937_5),
            (2049.0, 2048.0),
            (1e-8, 0.0),
            (6e-8, 5.960_464_477_539_063e-8),
        ] {
            assert_eq!(half(value), held);
        }
        assert_eq!(rounded(70_000.0, "float16"), None);
        assert_eq!(rounded(1.5, "int8"), None);
        assert_eq!(rounded(-1.0, "uint8"), None);
    }
}
