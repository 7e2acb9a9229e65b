//! Spatial functions on GeoJSON values. An argument that is no valid geometry makes a function
//! undefined; ST_ISVALID and ST_ISVALIDDETAILED report it. The computations are in `src/spatial`.

use super::{Arguments, Function, MeteredFunction, metered};
use crate::error::QueryError;
use crate::run::frame::Context;
use crate::spatial::{self, Geometry, IterationCounter};
use orrery_model::json::Json;
use orrery_model::object;

const fn spatial(
    names: &'static [&'static str],
    arity: usize,
    doc: &'static str,
    run: MeteredFunction,
) -> Function {
    metered(names, (arity, arity), doc, run)
}

pub(super) const TABLE: &[Function] = &[
    spatial(
        &["ST_DISTANCE"],
        2,
        "the distance of two GeoJSON values, in metres on the Earth",
        |cx, a| {
            with_two_geometries(cx, a, |is_planar, a, b, counter| {
                spatial::distance(is_planar, a, b, counter).map(Json::from)
            })
        },
    ),
    spatial(
        &["ST_AREA"],
        1,
        "the area of a GeoJSON value, in square metres on the Earth",
        |cx, a| {
            let geometry = geometry(cx, a, 0);
            Ok(geometry.map(|geometry| Json::from(spatial::area(cx.is_planar, &geometry))))
        },
    ),
    spatial(
        &["ST_WITHIN"],
        2,
        "true if the first GeoJSON value lies in the second",
        |cx, a| {
            with_two_geometries(cx, a, |is_planar, a, b, counter| {
                spatial::is_within(is_planar, a, b, counter).map(Json::Bool)
            })
        },
    ),
    spatial(
        &["ST_INTERSECTS"],
        2,
        "true if two GeoJSON values have a point in common",
        |cx, a| {
            with_two_geometries(cx, a, |is_planar, a, b, counter| {
                spatial::intersects(is_planar, a, b, counter).map(Json::Bool)
            })
        },
    ),
    spatial(
        &["ST_ISVALID"],
        1,
        "true if an object is a valid GeoJSON value",
        |cx, a| {
            let validity = validity(cx, a)?;
            Ok(validity.map(|validity| Json::Bool(validity == Validity::Valid)))
        },
    ),
    spatial(
        &["ST_ISVALIDDETAILED"],
        1,
        "an object with the validity of a GeoJSON value and the reason if it is not valid",
        |cx, a| {
            let details = match validity(cx, a)? {
                None => return Ok(None),
                Some(Validity::Valid) => object! { "valid" => true },
                Some(Validity::Invalid(reason)) => {
                    object! { "valid" => false, "reason" => reason }
                }
            };
            Ok(Some(Json::Object(details)))
        },
    ),
];

/// Reads an argument as a geometry.
fn geometry(cx: &Context<'_>, a: Arguments<'_, '_>, index: usize) -> Option<Geometry> {
    spatial::read(a.get(index)?, cx.is_planar).ok()
}

type OfTwoGeometries =
    fn(bool, &Geometry, &Geometry, &mut IterationCounter<'_>) -> Result<Json, QueryError>;

/// Calls `run` with the first two arguments. The result is undefined if one is no geometry.
fn with_two_geometries(
    cx: &mut Context<'_>,
    a: Arguments<'_, '_>,
    run: OfTwoGeometries,
) -> Result<Option<Json>, QueryError> {
    let (Some(first), Some(second)) = (geometry(cx, a, 0), geometry(cx, a, 1)) else {
        return Ok(None);
    };
    let result = run(cx.is_planar, &first, &second, &mut || cx.count_iteration())?;
    Ok(Some(result))
}

#[derive(PartialEq)]
enum Validity {
    Valid,
    /// The reason, in a sentence.
    Invalid(String),
}

/// Checks if an object is a valid geometry. Returns `None` for a value that is no object.
fn validity(cx: &mut Context<'_>, a: Arguments<'_, '_>) -> Result<Option<Validity>, QueryError> {
    let Some(object @ Json::Object(_)) = a.get(0) else {
        return Ok(None);
    };
    let is_planar = cx.is_planar;
    let geometry = match spatial::read(object, is_planar) {
        Ok(geometry) => geometry,
        Err(invalid) => return Ok(Some(Validity::Invalid(invalid.0))),
    };
    let crossed = spatial::crossed_ring(is_planar, &geometry, &mut || cx.count_iteration())?;
    let Some((_, ring)) = crossed else {
        return Ok(Some(Validity::Valid));
    };
    Ok(Some(Validity::Invalid(format!(
        "The Polygon input is not valid because the ring number {ring} crosses itself."
    ))))
}
