//! How far figures are apart, and how large they are.

use super::relate::{Shape, shapes_intersect};
use super::{Figure, Space, Turn, turns};
use crate::error::QueryError;

/// Pairs of a point and a segment that are measured exactly, the nearest by the rough measure.
const MEASURED: usize = 16;

pub(super) fn area<S: Space>(figure: &Figure) -> f64 {
    let Shape::Polygons(polygons) = Shape::<S>::of(figure) else {
        return 0.0;
    };
    let polygon = |rings: &Vec<Vec<S::Point>>| {
        let mut areas = rings.iter().map(|ring| S::area(ring));
        let outer = areas.next().unwrap_or(0.0);
        (outer - areas.sum::<f64>()).max(0.0)
    };
    polygons.iter().map(polygon).sum()
}

pub(super) fn distance<S: Space>(
    a: &Figure,
    b: &Figure,
    turn: &mut Turn<'_>,
) -> Result<f64, QueryError> {
    let (a, b) = (Shape::<S>::of(a), Shape::<S>::of(b));
    if shapes_intersect(&a, &b, turn)? {
        return Ok(0.0);
    }
    // Figures that do not meet are nearest at a corner of one of them.
    let mut nearest = Nearest::<S> { best: Vec::new() };
    nearest.look(&a, &b, turn)?;
    nearest.look(&b, &a, turn)?;
    let exact = nearest
        .best
        .into_iter()
        .map(|(_, part, [from, to, corner])| S::distance(from, to, corner, part));
    Ok(exact.fold(f64::INFINITY, f64::min))
}

/// The nearest pairs so far, in order: how near, where on the segment, and its ends and the point.
struct Nearest<S: Space> {
    best: Vec<(f64, f64, [S::Point; 3])>,
}

impl<S: Space> Nearest<S> {
    fn look(
        &mut self,
        corners: &Shape<S>,
        of: &Shape<S>,
        turn: &mut Turn<'_>,
    ) -> Result<(), QueryError> {
        let segments = of.segments();
        for corner in corners.lines().into_iter().flatten() {
            turns(turn, segments.len())?;
            for (from, to) in &segments {
                let (near, part) = S::nearness(*from, *to, *corner);
                let worst = self.best.last().map_or(f64::INFINITY, |(near, ..)| *near);
                if self.best.len() < MEASURED || near < worst {
                    let at = self.best.partition_point(|(other, ..)| *other <= near);
                    self.best.insert(at, (near, part, [*from, *to, *corner]));
                    self.best.truncate(MEASURED);
                }
            }
        }
        Ok(())
    }
}
