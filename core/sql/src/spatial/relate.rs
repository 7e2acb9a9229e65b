//! Relations of geometries: within, intersects, and rings that cross themselves.
//!
//! For "within" each segment of one geometry is cut where it meets the edges of the other. Between
//! two cuts a piece lies wholly inside, outside or on the boundary, so its midpoint decides. The
//! cost is the product of the numbers of points of both geometries.

use super::{Geometry, IterationCounter, Position, Surface, count_steps};
use crate::error::QueryError;

/// A geometry with its points prepared for a surface.
pub(super) enum Shape<S: Surface> {
    Point(S::Point),
    Line(Vec<S::Point>),
    /// The rings of each polygon, the outer one first.
    Polygons(Vec<Vec<Vec<S::Point>>>),
}

/// The location of a point relative to a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Location {
    Inside,
    Boundary,
    Outside,
}

impl<S: Surface> Shape<S> {
    pub(super) fn of(geometry: &Geometry) -> Self {
        match geometry {
            Geometry::Point(position) => Shape::Point(S::point(*position)),
            Geometry::Line(line) => Shape::Line(points::<S>(line)),
            Geometry::Polygons(polygons) => {
                let mut shape = Vec::with_capacity(polygons.len());
                for rings in polygons {
                    let mut polygon = Vec::with_capacity(rings.len());
                    for (at, ring) in rings.iter().enumerate() {
                        let ring = points::<S>(ring);
                        polygon.push(if at == 0 { ring } else { S::as_hole(ring) });
                    }
                    shape.push(polygon);
                }
                Shape::Polygons(shape)
            }
        }
    }

    /// Returns the lines that make or bound the shape. A point is a line of one point.
    pub(super) fn lines(&self) -> Vec<&[S::Point]> {
        match self {
            Shape::Point(point) => vec![std::slice::from_ref(point)],
            Shape::Line(line) => vec![line],
            Shape::Polygons(polygons) => polygons.iter().flatten().map(Vec::as_slice).collect(),
        }
    }

    /// Returns all segments. A point is a segment from itself to itself.
    pub(super) fn segments(&self) -> Vec<(S::Point, S::Point)> {
        let mut segments = Vec::new();
        for line in self.lines() {
            match line {
                [only] => segments.push((*only, *only)),
                line => segments.extend(line.windows(2).map(|pair| (pair[0], pair[1]))),
            }
        }
        segments
    }

    /// Returns the location of a point. The boundary of a line is its two ends; a closed line has
    /// none.
    fn locate(&self, p: S::Point) -> Location {
        match self {
            Shape::Point(point) if is_on::<S>(*point, *point, p) => Location::Inside,
            Shape::Point(_) => Location::Outside,
            Shape::Line(line) => {
                if !line.windows(2).any(|pair| is_on::<S>(pair[0], pair[1], p)) {
                    return Location::Outside;
                }
                let (first, last) = (line[0], line[line.len() - 1]);
                let is_first = is_on::<S>(first, first, p);
                let is_last = is_on::<S>(last, last, p);
                if is_first != is_last {
                    Location::Boundary
                } else {
                    Location::Inside
                }
            }
            Shape::Polygons(polygons) => {
                // Inside one polygon outweighs the boundary of another.
                let mut location = Location::Outside;
                for rings in polygons {
                    match locate_in_polygon::<S>(rings, p) {
                        Location::Inside => return Location::Inside,
                        Location::Boundary => location = Location::Boundary,
                        Location::Outside => {}
                    }
                }
                location
            }
        }
    }
}

fn points<S: Surface>(positions: &[Position]) -> Vec<S::Point> {
    positions.iter().map(|p| S::point(*p)).collect()
}

fn locate_in_polygon<S: Surface>(rings: &[Vec<S::Point>], p: S::Point) -> Location {
    for ring in rings {
        if ring.windows(2).any(|edge| is_on::<S>(edge[0], edge[1], p)) {
            return Location::Boundary;
        }
    }
    let Some((outer, holes)) = rings.split_first() else {
        return Location::Outside;
    };
    if S::is_inside(outer, p) && !holes.iter().any(|hole| S::is_inside(hole, p)) {
        Location::Inside
    } else {
        Location::Outside
    }
}

/// Returns true if `p` lies on the segment from `a` to `b`.
fn is_on<S: Surface>(a: S::Point, b: S::Point, p: S::Point) -> bool {
    S::is_between(a, b, p) && S::side(a, b, p) == 0
}

/// Returns true if two segments have a point in common.
fn segments_meet<S: Surface>(a: S::Point, b: S::Point, c: S::Point, d: S::Point) -> bool {
    S::crossing(a, b, c, d).is_some()
        || is_on::<S>(a, b, c)
        || is_on::<S>(a, b, d)
        || is_on::<S>(c, d, a)
        || is_on::<S>(c, d, b)
}

pub(super) fn intersects<S: Surface>(
    a: &Geometry,
    b: &Geometry,
    counter: &mut IterationCounter<'_>,
) -> Result<bool, QueryError> {
    shapes_intersect(&Shape::<S>::of(a), &Shape::<S>::of(b), counter)
}

/// Returns true if two shapes have a point in common.
pub(super) fn shapes_intersect<S: Surface>(
    a: &Shape<S>,
    b: &Shape<S>,
    counter: &mut IterationCounter<'_>,
) -> Result<bool, QueryError> {
    let other_segments = b.segments();
    for (p, q) in a.segments() {
        count_steps(counter, other_segments.len())?;
        if other_segments
            .iter()
            .any(|(c, d)| segments_meet::<S>(p, q, *c, *d))
        {
            return Ok(true);
        }
    }
    // No edges meet, so a line of one shape lies in the other, or the shapes are apart.
    Ok(has_line_in(a, b) || has_line_in(b, a))
}

/// Returns true if a line of `a` begins in `b`.
fn has_line_in<S: Surface>(a: &Shape<S>, b: &Shape<S>) -> bool {
    a.lines()
        .iter()
        .any(|line| b.locate(line[0]) != Location::Outside)
}

/// Returns true if all of `a` lies in `b`, and not only on its boundary.
pub(super) fn is_within<S: Surface>(
    a: &Geometry,
    b: &Geometry,
    counter: &mut IterationCounter<'_>,
) -> Result<bool, QueryError> {
    let (a, b) = (Shape::<S>::of(a), Shape::<S>::of(b));
    if let Shape::Point(point) = a {
        return Ok(b.locate(point) == Location::Inside);
    }

    // No piece of a segment may lie outside.
    let other_segments = b.segments();
    let mut has_piece_inside = false;
    for (p, q) in a.segments() {
        count_steps(counter, other_segments.len())?;
        for midpoint in piece_midpoints::<S>(p, q, &other_segments) {
            count_steps(counter, other_segments.len())?;
            match b.locate(midpoint) {
                Location::Outside => return Ok(false),
                Location::Inside => has_piece_inside = true,
                Location::Boundary => {}
            }
        }
    }
    if !matches!(a, Shape::Polygons(_)) {
        return Ok(has_piece_inside);
    }
    if !matches!(b, Shape::Polygons(_)) {
        return Ok(false);
    }

    // Between two polygons: no edge of `b`, such as that of a hole, may lie inside `a`.
    let own_segments = a.segments();
    for (p, q) in &other_segments {
        count_steps(counter, own_segments.len())?;
        for midpoint in piece_midpoints::<S>(*p, *q, &own_segments) {
            count_steps(counter, own_segments.len())?;
            if a.locate(midpoint) == Location::Inside {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Returns the midpoints of the pieces into which other segments cut the segment from `p` to `q`.
fn piece_midpoints<S: Surface>(
    p: S::Point,
    q: S::Point,
    others: &[(S::Point, S::Point)],
) -> Vec<S::Point> {
    // The cuts are fractions of the segment: where others cross it, and where they end on it.
    let mut cuts = vec![0.0, 1.0];
    let fraction_of = |point: S::Point| S::rough_distance(p, q, point).1;
    for (c, d) in others {
        if let Some(point) = S::crossing(p, q, *c, *d) {
            cuts.push(fraction_of(point));
            continue;
        }
        for end in [*c, *d] {
            if is_on::<S>(p, q, end) {
                cuts.push(fraction_of(end));
            }
        }
    }
    cuts.sort_by(f64::total_cmp);
    cuts.dedup_by(|b, a| *b - *a < 1e-9);
    cuts.windows(2)
        .map(|pair| S::along(p, q, (pair[0] + pair[1]) / 2.0))
        .collect()
}

/// Returns the numbers of the polygon and of the ring of the first ring that crosses itself.
pub(super) fn crossed_ring<S: Surface>(
    geometry: &Geometry,
    counter: &mut IterationCounter<'_>,
) -> Result<Option<(usize, usize)>, QueryError> {
    let Geometry::Polygons(polygons) = geometry else {
        return Ok(None);
    };
    for (polygon_number, rings) in (1..).zip(polygons) {
        for (ring_number, ring) in (1..).zip(rings) {
            let points = points::<S>(ring);
            for (at, edge) in points.windows(2).enumerate() {
                count_steps(counter, points.len() - at)?;
                let crosses_later_edge = points
                    .windows(2)
                    .skip(at + 1)
                    .any(|later| S::crossing(edge[0], edge[1], later[0], later[1]).is_some());
                if crosses_later_edge {
                    return Ok(Some((polygon_number, ring_number)));
                }
            }
        }
    }
    Ok(None)
}
