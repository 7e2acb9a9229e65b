//! Geometries: GeoJSON points, lines, polygons and multi-polygons, on the Earth or in a plane.
//!
//! ```text
//! GeoJSON ─ geojson ─▶ Geometry ─ Surface ─▶ Shape ─ relate, measure ─▶ distance, area,
//!             └─▶ reason why it is invalid     Globe (WGS-84) or Plane      within, intersects
//! ```
//!
//! On the Earth, distances and areas follow geodesics on the ellipsoid. Relations such as
//! "within" are decided between arcs that planes through the centre of the Earth cut out. These
//! differ from geodesics by less than the precision of real positions.
//!
//! The inside of a ring is on its left. A clockwise outer ring therefore encloses the rest of the
//! Earth. A hole is the smaller of the two sides of its ring, in either direction. In a plane the
//! direction of a ring has no meaning.
//!
//! Left out: multi-points and multi-lines; heights are read and ignored.

mod extent;
mod geojson;
mod globe;
mod measure;
mod plane;
mod relate;

pub use extent::{Extent, extents, extents_within};
pub(crate) use geojson::read;

use crate::error::QueryError;
use globe::Globe;
use plane::Plane;

/// Largest number of points of a polygon. The last point of a ring, which repeats the first,
/// counts.
pub(crate) const MAX_POINTS: usize = 4_096;

/// Longitude and latitude in degrees, or x and y.
pub(crate) type Position = [f64; 2];

/// A well-formed GeoJSON geometry.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Geometry {
    Point(Position),
    Line(Vec<Position>),
    /// A list of rings for each polygon: the outer ring and its holes. A ring begins and ends at
    /// the same position.
    Polygons(Vec<Vec<Vec<Position>>>),
}

/// Counts one iteration of a loop; fails if the time of the query is over.
pub(crate) type IterationCounter<'t> = dyn FnMut() -> Result<(), QueryError> + 't;

/// Steps of an inner loop that count as one iteration.
const STEPS_PER_ITERATION: usize = 64;

/// Counts an inner loop with that number of steps, before it runs.
fn count_steps(counter: &mut IterationCounter<'_>, steps: usize) -> Result<(), QueryError> {
    for _ in 0..=steps / STEPS_PER_ITERATION {
        counter()?;
    }
    Ok(())
}

/// The surface on which geometries lie. A segment is the shortest way between two points.
pub(crate) trait Surface {
    /// A position, prepared for computations.
    type Point: Copy;

    fn point(position: Position) -> Self::Point;
    /// Returns the side of the segment from `a` to `b` on which `p` lies: 1 left, -1 right, 0 on
    /// its line.
    fn side(a: Self::Point, b: Self::Point, p: Self::Point) -> i8;
    /// Returns true if `p`, a point of the line through `a` and `b`, lies between them or is one of
    /// them.
    fn is_between(a: Self::Point, b: Self::Point, p: Self::Point) -> bool;
    /// Returns the point at a fraction (0 to 1) of the segment from `a` to `b`.
    fn along(a: Self::Point, b: Self::Point, fraction: f64) -> Self::Point;
    /// Returns the point at which two segments cross, if it is an end of neither.
    fn crossing(
        a: Self::Point,
        b: Self::Point,
        c: Self::Point,
        d: Self::Point,
    ) -> Option<Self::Point>;
    /// Returns true if a point that is not on the ring is inside it.
    fn is_inside(ring: &[Self::Point], p: Self::Point) -> bool;
    /// Returns the ring of a hole in the direction that has the smaller side inside.
    fn as_hole(ring: Vec<Self::Point>) -> Vec<Self::Point>;
    /// Returns a rough distance of `p` from a segment, in any unit that grows with the distance,
    /// and the fraction of the segment at which it is nearest.
    fn rough_distance(a: Self::Point, b: Self::Point, p: Self::Point) -> (f64, f64);
    /// Returns the distance of `p` from a segment that is nearest close to `fraction`.
    fn exact_distance(a: Self::Point, b: Self::Point, p: Self::Point, fraction: f64) -> f64;
    /// Returns the area inside a ring.
    fn area(ring: &[Self::Point]) -> f64;
}

/// Returns the distance of two geometries, 0 if they touch; in metres on the Earth.
pub(crate) fn distance(
    is_planar: bool,
    a: &Geometry,
    b: &Geometry,
    counter: &mut IterationCounter<'_>,
) -> Result<f64, QueryError> {
    if is_planar {
        measure::distance::<Plane>(a, b, counter)
    } else {
        measure::distance::<Globe>(a, b, counter)
    }
}

/// Returns the area of a geometry, 0 for points and lines; in square metres on the Earth.
pub(crate) fn area(is_planar: bool, geometry: &Geometry) -> f64 {
    if is_planar {
        measure::area::<Plane>(geometry)
    } else {
        measure::area::<Globe>(geometry)
    }
}

/// Returns true if all of `a` lies in `b`, and not only on its boundary.
pub(crate) fn is_within(
    is_planar: bool,
    a: &Geometry,
    b: &Geometry,
    counter: &mut IterationCounter<'_>,
) -> Result<bool, QueryError> {
    if is_planar {
        relate::is_within::<Plane>(a, b, counter)
    } else {
        relate::is_within::<Globe>(a, b, counter)
    }
}

/// Returns true if two geometries have a point in common.
pub(crate) fn intersects(
    is_planar: bool,
    a: &Geometry,
    b: &Geometry,
    counter: &mut IterationCounter<'_>,
) -> Result<bool, QueryError> {
    if is_planar {
        relate::intersects::<Plane>(a, b, counter)
    } else {
        relate::intersects::<Globe>(a, b, counter)
    }
}

/// Returns the number of the polygon and of the ring of the first ring that crosses itself, both
/// from 1.
pub(crate) fn crossed_ring(
    is_planar: bool,
    geometry: &Geometry,
    counter: &mut IterationCounter<'_>,
) -> Result<Option<(usize, usize)>, QueryError> {
    if is_planar {
        relate::crossed_ring::<Plane>(geometry, counter)
    } else {
        relate::crossed_ring::<Globe>(geometry, counter)
    }
}
