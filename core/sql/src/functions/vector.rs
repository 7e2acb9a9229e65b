//! VectorDistance and the internal score of rankings; `vectors.rs` has the arithmetic.
//!
//! The binder completes the arguments: two vectors, the name of a distance function, and the name
//! of a data type. The distance is undefined unless both vectors are arrays of numbers of the same
//! length that fit the data type.

use super::{Arguments, Function, Implementation, entry};
use crate::value::number;
use crate::vectors::{DataType, DistanceFunction, Sums};
use orrery_model::json::Json;

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
            Some(number(function.score_of(value)))
        },
    ),
];

/// The function by which rankings order.
pub(crate) const VECTOR_SCORE: &str = "_VECTORSCORE";

/// Computes the distance, and returns it with its distance function.
fn distance(a: Arguments<'_, '_>) -> Option<(DistanceFunction, f64)> {
    let (left, right) = (a.array(0)?, a.array(1)?);
    let function = DistanceFunction::parse(a.text(2)?)?;
    let data_type = DataType::parse(a.text(3)?)?;
    if left.len() != right.len() {
        return None;
    }
    let mut sums = Sums::default();
    for (x, y) in left.iter().zip(right) {
        let x = data_type.rounded(x.as_f64()?)?;
        let y = data_type.rounded(y.as_f64()?)?;
        sums.add(x, y);
    }
    Some((function, sums.distance(function)?))
}
