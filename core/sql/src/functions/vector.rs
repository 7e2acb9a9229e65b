//! Distances between vectors.
//!
//! The binder completes the arguments: two vectors, the name of a distance function, and the name
//! of a data type. Components are rounded to the data type and computed with as doubles. The
//! distance is undefined unless both vectors are arrays of numbers of the same length that fit the
//! data type.

use super::{Arguments, Function, Implementation, entry};
use crate::value::number;
use orrery_model::json::Json;

/// A distance function of a vector policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DistanceFunction {
    Cosine,
    DotProduct,
    Euclidean,
}

impl DistanceFunction {
    /// Finds a distance function by its name, in any case.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let all = [
            DistanceFunction::Cosine,
            DistanceFunction::DotProduct,
            DistanceFunction::Euclidean,
        ];
        all.into_iter()
            .find(|d| d.name().eq_ignore_ascii_case(name))
    }

    /// Returns the name in vector policies and in the options of VectorDistance.
    pub(crate) fn name(self) -> &'static str {
        match self {
            DistanceFunction::Cosine => "cosine",
            DistanceFunction::DotProduct => "dotproduct",
            DistanceFunction::Euclidean => "euclidean",
        }
    }

    /// Returns true if a larger value means that the vectors are nearer.
    pub(crate) fn is_similarity(self) -> bool {
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
    entry(names, (2, 4), doc, Implementation::Vector(run))
}

pub(super) const TABLE: &[Function] = &[
    vector(
        &["VECTORDISTANCE", "VECTOR_DISTANCE"],
        "the cosine similarity, dot product or euclidean distance of two vectors",
        |a| Some(number(distance(a)?.1)),
    ),
    vector(
        &[VECTOR_SCORE],
        "the same, larger for nearer vectors; used in queries that clients merge",
        |a| {
            let (function, value) = distance(a)?;
            let score = if function.is_similarity() {
                value
            } else {
                -value
            };
            Some(number(score))
        },
    ),
];

/// The function by which rankings order.
pub(crate) const VECTOR_SCORE: &str = "_VECTORSCORE";

/// Computes the distance, and returns it with its distance function.
fn distance(a: Arguments<'_, '_>) -> Option<(DistanceFunction, f64)> {
    let (left, right) = (a.array(0)?, a.array(1)?);
    let function = DistanceFunction::parse(a.text(2)?)?;
    let data_type = a.text(3)?;
    if left.len() != right.len() {
        return None;
    }
    let mut product = 0.0;
    let mut left_square = 0.0;
    let mut right_square = 0.0;
    let mut difference_square = 0.0;
    for (x, y) in left.iter().zip(right) {
        let x = rounded(x.as_f64()?, data_type)?;
        let y = rounded(y.as_f64()?, data_type)?;
        product += x * y;
        left_square += x * x;
        right_square += y * y;
        difference_square += (x - y) * (x - y);
    }
    let value = match function {
        // One root, as the service's last digits show. Components are within 1e39, so the product
        // of the squares does not overflow.
        DistanceFunction::Cosine => product / (left_square * right_square).sqrt(),
        DistanceFunction::DotProduct => product,
        DistanceFunction::Euclidean => difference_square.sqrt(),
    };
    value.is_finite().then_some((function, value))
}

/// Rounds a component to its data type. Returns `None` if the component does not fit.
fn rounded(value: f64, data_type: &str) -> Option<f64> {
    let integer = |min: f64, max: f64| {
        (value.fract() == 0.0 && (min..=max).contains(&value)).then_some(value)
    };
    match data_type {
        "float16" => Some(to_half(value)).filter(|v| v.abs() <= 65_504.0),
        "int8" => integer(-128.0, 127.0),
        "uint8" => integer(0.0, 255.0),
        _ => Some(f64::from(value as f32)),
    }
}

/// Rounds to a half-precision float: eleven significant binary digits, fewer below 2^-14.
fn to_half(value: f64) -> f64 {
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
    fn components_are_rounded_to_half_precision() {
        for (value, rounded) in [
            (1.0, 1.0),
            (0.1, 0.099_975_585_937_5),
            (2049.0, 2048.0),
            (1e-8, 0.0),
            (6e-8, 5.960_464_477_539_063e-8),
        ] {
            assert_eq!(to_half(value), rounded);
        }
        assert_eq!(rounded(70_000.0, "float16"), None);
        assert_eq!(rounded(1.5, "int8"), None);
        assert_eq!(rounded(-1.0, "uint8"), None);
    }
}
