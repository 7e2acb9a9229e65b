//! Distances between geometries, and their areas.

use super::relate::{Shape, shapes_intersect};
use super::{Geometry, IterationCounter, Surface, count_steps};
use crate::error::QueryError;

/// Number of pairs of a point and a segment that are measured exactly: the closest ones by the
/// rough distance.
const EXACT_PAIRS: usize = 16;

/// Returns the area of a geometry.
pub(super) fn area<S: Surface>(geometry: &Geometry) -> f64 {
    let Shape::Polygons(polygons) = Shape::<S>::of(geometry) else {
        return 0.0;
    };
    let mut area = 0.0;
    for rings in &polygons {
        let mut ring_areas = rings.iter().map(|ring| S::area(ring));
        let outer = ring_areas.next().unwrap_or(0.0);
        let holes: f64 = ring_areas.sum();
        area += (outer - holes).max(0.0);
    }
    area
}

/// Returns the distance of two geometries.
pub(super) fn distance<S: Surface>(
    a: &Geometry,
    b: &Geometry,
    counter: &mut IterationCounter<'_>,
) -> Result<f64, QueryError> {
    let (a, b) = (Shape::<S>::of(a), Shape::<S>::of(b));
    if shapes_intersect(&a, &b, counter)? {
        return Ok(0.0);
    }
    // Geometries that do not touch are closest at a corner of one of them.
    let mut closest = ClosestPairs::<S> { pairs: Vec::new() };
    closest.add(&a, &b, counter)?;
    closest.add(&b, &a, counter)?;
    let distances = closest.pairs.iter().map(|pair| {
        let [from, to] = pair.segment;
        S::exact_distance(from, to, pair.corner, pair.fraction)
    });
    Ok(distances.fold(f64::INFINITY, f64::min))
}

/// The closest pairs of a corner and a segment so far, the closest first.
struct ClosestPairs<S: Surface> {
    pairs: Vec<Pair<S>>,
}

struct Pair<S: Surface> {
    rough_distance: f64,
    /// The fraction of the segment that is nearest to the corner.
    fraction: f64,
    segment: [S::Point; 2],
    corner: S::Point,
}

impl<S: Surface> ClosestPairs<S> {
    /// Adds the pairs of a corner of one shape and a segment of another.
    fn add(
        &mut self,
        corners: &Shape<S>,
        other: &Shape<S>,
        counter: &mut IterationCounter<'_>,
    ) -> Result<(), QueryError> {
        let segments = other.segments();
        for corner in corners.lines().into_iter().flatten() {
            count_steps(counter, segments.len())?;
            for (from, to) in &segments {
                let (rough_distance, fraction) = S::rough_distance(*from, *to, *corner);
                let is_close = match self.pairs.last() {
                    Some(last) if self.pairs.len() >= EXACT_PAIRS => {
                        rough_distance < last.rough_distance
                    }
                    _ => true,
                };
                if !is_close {
                    continue;
                }
                // The pairs stay sorted; the last one is dropped if there are too many.
                let at = self
                    .pairs
                    .partition_point(|pair| pair.rough_distance <= rough_distance);
                let pair = Pair {
                    rough_distance,
                    fraction,
                    segment: [*from, *to],
                    corner: *corner,
                };
                self.pairs.insert(at, pair);
                self.pairs.truncate(EXACT_PAIRS);
            }
        }
        Ok(())
    }
}
