//! Spatial functions on GeoJSON values. What is no such value is undefined; ST_ISVALID and ST_ISVALIDDETAILED say why.

use super::{Arguments, Function, Implementation, IndexUse, MeteredFunction};
use crate::error::QueryError;
use crate::run::frame::Context;
use crate::spatial::{self, Figure, Turn};
use orrery_model::json::Json;
use orrery_model::object;

const fn spatial(
    names: &'static [&'static str],
    arity: usize,
    doc: &'static str,
    run: MeteredFunction,
) -> Function {
    Function {
        names,
        arity: (arity, arity),
        index_use: IndexUse::FullScan,
        doc,
        run: Implementation::Metered(run),
    }
}

pub(super) const TABLE: &[Function] = &[
    spatial(
        &["ST_DISTANCE"],
        2,
        "the distance of two GeoJSON values, in metres on the Earth",
        |cx, a| {
            both(cx, a, |planar, a, b, turn| {
                spatial::distance(planar, a, b, turn).map(Json::from)
            })
        },
    ),
    spatial(
        &["ST_AREA"],
        1,
        "the area of a GeoJSON value, in square metres on the Earth",
        |cx, a| Ok(figure(cx, a, 0).map(|figure| Json::from(spatial::area(cx.planar, &figure)))),
    ),
    spatial(
        &["ST_WITHIN"],
        2,
        "whether the first GeoJSON value lies in the second",
        |cx, a| {
            both(cx, a, |planar, a, b, turn| {
                spatial::is_within(planar, a, b, turn).map(Json::Bool)
            })
        },
    ),
    spatial(
        &["ST_INTERSECTS"],
        2,
        "whether two GeoJSON values have a point in common",
        |cx, a| {
            both(cx, a, |planar, a, b, turn| {
                spatial::intersects(planar, a, b, turn).map(Json::Bool)
            })
        },
    ),
    spatial(
        &["ST_ISVALID"],
        1,
        "whether an object is a valid GeoJSON value",
        |cx, a| Ok(flaw(cx, a)?.map(|flaw| Json::Bool(flaw.is_none()))),
    ),
    spatial(
        &["ST_ISVALIDDETAILED"],
        1,
        "whether an object is a valid GeoJSON value, and what is wrong with it",
        |cx, a| {
            Ok(flaw(cx, a)?.map(|flaw| {
                Json::Object(match flaw {
                    None => object! { "valid" => true },
                    Some(reason) => object! { "valid" => false, "reason" => reason },
                })
            }))
        },
    ),
];

fn figure(cx: &Context<'_>, a: Arguments<'_, '_>, index: usize) -> Option<Figure> {
    spatial::read(a.get(index)?, cx.planar).ok()
}

type Both = fn(bool, &Figure, &Figure, &mut Turn<'_>) -> Result<Json, QueryError>;

fn both(cx: &mut Context<'_>, a: Arguments<'_, '_>, run: Both) -> Result<Option<Json>, QueryError> {
    let (Some(first), Some(second)) = (figure(cx, a, 0), figure(cx, a, 1)) else {
        return Ok(None);
    };
    run(cx.planar, &first, &second, &mut || cx.count_iteration()).map(Some)
}

/// What is wrong with an object, if anything; undefined for anything but an object.
fn flaw(cx: &mut Context<'_>, a: Arguments<'_, '_>) -> Result<Option<Option<String>>, QueryError> {
    let Some(object @ Json::Object(_)) = a.get(0) else {
        return Ok(None);
    };
    let figure = match spatial::read(object, cx.planar) {
        Ok(figure) => figure,
        Err(flaw) => return Ok(Some(Some(flaw.0))),
    };
    let planar = cx.planar;
    let crossed = spatial::crossed_ring(planar, &figure, &mut || cx.count_iteration())?;
    Ok(Some(crossed.map(|(_, ring)| {
        format!("The Polygon input is not valid because the ring number {ring} crosses itself.")
    })))
}
