//! Spatial values: GeoJSON points, lines, polygons and groups of polygons, on the Earth or in a plane.
//!
//! ```text
//! GeoJSON ─ geojson ─▶ positions ─ Space ─▶ shape ─ relate, measure ─▶ distance, area, within, intersects
//!                      and what is wrong      globe (WGS-84) or plane
//! ```
//!
//! On the Earth, distances and areas are those of geodesics on the ellipsoid. What lies where is decided between arcs cut
//! out by planes through the Earth's centre, which differ from geodesics by less than the positions of real things are
//! known by. A ring has its inside on its left: a clockwise outer ring means the rest of the world. A hole is the smaller
//! of its two sides, whichever way it is written. In a plane the way of a ring says nothing.
//!
//! Left out: groups of points and lines, heights (they are read and ignored).

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

/// Points of a polygon, the last one, which repeats the first, included.
pub(crate) const POINTS_MOST: usize = 4_096;

/// Longitude and latitude, or x and y.
pub(crate) type Position = [f64; 2];

/// A value as it is written, known to be well formed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Figure {
    Point(Position),
    Line(Vec<Position>),
    /// Each a list of rings: the outer one and its holes. A ring begins and ends at the same position.
    Polygons(Vec<Vec<Vec<Position>>>),
}

/// Counts a turn of a loop, and looks at the clock once in a while.
pub(crate) type Turn<'t> = dyn FnMut() -> Result<(), QueryError> + 't;

/// Steps of an inner loop that count as one turn.
const STEPS_A_TURN: usize = 64;

/// Counts the turns of a loop of so many steps that is about to begin.
fn turns(turn: &mut Turn<'_>, steps: usize) -> Result<(), QueryError> {
    (0..=steps / STEPS_A_TURN).try_for_each(|_| turn())
}

/// Where computations take place.
pub(crate) trait Space {
    /// A position made ready.
    type Point: Copy;

    fn point(position: Position) -> Self::Point;
    /// On which side of the way from `a` to `b` a point lies: 1 left, -1 right, 0 on the line.
    fn side(a: Self::Point, b: Self::Point, p: Self::Point) -> i8;
    /// Whether a point of the line lies between its ends, these included.
    fn is_between(a: Self::Point, b: Self::Point, p: Self::Point) -> bool;
    /// The point a part of the way from `a` to `b`.
    fn along(a: Self::Point, b: Self::Point, part: f64) -> Self::Point;
    /// Where two segments cross, both in their middle.
    fn crossing(
        a: Self::Point,
        b: Self::Point,
        c: Self::Point,
        d: Self::Point,
    ) -> Option<Self::Point>;
    /// Whether a point that does not lie on the ring lies inside.
    fn is_inside(ring: &[Self::Point], p: Self::Point) -> bool;
    /// A ring as a hole has it: its inside is the smaller side.
    fn as_hole(ring: Vec<Self::Point>) -> Vec<Self::Point>;
    /// About how far a point is from a segment, in any unit that grows with the distance, and where on the segment that
    /// is.
    fn nearness(a: Self::Point, b: Self::Point, p: Self::Point) -> (f64, f64);
    /// How far a point is from a segment, near which part of it is known.
    fn distance(a: Self::Point, b: Self::Point, p: Self::Point, part: f64) -> f64;
    /// The area of a ring's inside.
    fn area(ring: &[Self::Point]) -> f64;
}

/// The distance of two figures; 0 if they touch. Metres on the Earth.
pub(crate) fn distance(
    planar: bool,
    a: &Figure,
    b: &Figure,
    turn: &mut Turn<'_>,
) -> Result<f64, QueryError> {
    if planar {
        measure::distance::<Plane>(a, b, turn)
    } else {
        measure::distance::<Globe>(a, b, turn)
    }
}

/// The area of a figure; 0 for points and lines. Square metres on the Earth.
pub(crate) fn area(planar: bool, figure: &Figure) -> f64 {
    if planar {
        measure::area::<Plane>(figure)
    } else {
        measure::area::<Globe>(figure)
    }
}

/// Whether all of `a` lies in `b` and not only on its edge.
pub(crate) fn is_within(
    planar: bool,
    a: &Figure,
    b: &Figure,
    turn: &mut Turn<'_>,
) -> Result<bool, QueryError> {
    if planar {
        relate::is_within::<Plane>(a, b, turn)
    } else {
        relate::is_within::<Globe>(a, b, turn)
    }
}

/// Whether two figures have a point in common.
pub(crate) fn intersects(
    planar: bool,
    a: &Figure,
    b: &Figure,
    turn: &mut Turn<'_>,
) -> Result<bool, QueryError> {
    if planar {
        relate::intersects::<Plane>(a, b, turn)
    } else {
        relate::intersects::<Globe>(a, b, turn)
    }
}

/// The first ring that crosses itself: polygon and ring, from 1.
pub(crate) fn crossed_ring(
    planar: bool,
    figure: &Figure,
    turn: &mut Turn<'_>,
) -> Result<Option<(usize, usize)>, QueryError> {
    if planar {
        relate::crossed_ring::<Plane>(figure, turn)
    } else {
        relate::crossed_ring::<Globe>(figure, turn)
    }
}
