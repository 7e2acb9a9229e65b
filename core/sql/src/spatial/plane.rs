//! The plane, with straight segments and Euclidean distances.

use super::{Position, Surface};

/// A surface with the coordinates of the positions.
pub(crate) struct Plane;

/// Fraction of a segment's length within which a point counts as on the segment.
const TOLERANCE: f64 = 1e-12;

fn minus(a: Position, b: Position) -> Position {
    [a[0] - b[0], a[1] - b[1]]
}

fn cross(a: Position, b: Position) -> f64 {
    a[0] * b[1] - a[1] * b[0]
}

fn dot(a: Position, b: Position) -> f64 {
    a[0] * b[0] + a[1] * b[1]
}

fn length(a: Position) -> f64 {
    a[0].hypot(a[1])
}

impl Surface for Plane {
    type Point = Position;

    fn point(position: Position) -> Position {
        position
    }

    fn side(a: Position, b: Position, p: Position) -> i8 {
        let (segment, to_point) = (minus(b, a), minus(p, a));
        let product = cross(segment, to_point);
        let slack = TOLERANCE * length(segment) * length(to_point).max(length(segment));
        if product.abs() <= slack {
            0
        } else {
            product.signum() as i8
        }
    }

    fn is_between(a: Position, b: Position, p: Position) -> bool {
        let whole = length(minus(a, b)) * (1.0 + TOLERANCE);
        length(minus(p, a)) <= whole && length(minus(p, b)) <= whole
    }

    fn along(a: Position, b: Position, fraction: f64) -> Position {
        [
            a[0] + (b[0] - a[0]) * fraction,
            a[1] + (b[1] - a[1]) * fraction,
        ]
    }

    fn crossing(a: Position, b: Position, c: Position, d: Position) -> Option<Position> {
        // Each segment must have its ends on both sides of the other.
        if Self::side(a, b, c) * Self::side(a, b, d) >= 0
            || Self::side(c, d, a) * Self::side(c, d, b) >= 0
        {
            return None;
        }
        let fraction = cross(minus(c, a), minus(d, c)) / cross(minus(b, a), minus(d, c));
        Some(Self::along(a, b, fraction))
    }

    fn is_inside(ring: &[Position], p: Position) -> bool {
        // A ray from the point to the right passes an odd number of edges if the point is inside.
        let passed = ring.windows(2).filter(|edge| {
            let (a, b) = (edge[0], edge[1]);
            (a[1] > p[1]) != (b[1] > p[1])
                && p[0] < (b[0] - a[0]) * (p[1] - a[1]) / (b[1] - a[1]) + a[0]
        });
        passed.count() % 2 == 1
    }

    fn as_hole(ring: Vec<Position>) -> Vec<Position> {
        ring
    }

    fn rough_distance(a: Position, b: Position, p: Position) -> (f64, f64) {
        let segment = minus(b, a);
        let square = dot(segment, segment);
        let fraction = if square == 0.0 {
            0.0
        } else {
            (dot(minus(p, a), segment) / square).clamp(0.0, 1.0)
        };
        (length(minus(p, Self::along(a, b, fraction))), fraction)
    }

    fn exact_distance(a: Position, b: Position, p: Position, fraction: f64) -> f64 {
        length(minus(p, Self::along(a, b, fraction)))
    }

    fn area(ring: &[Position]) -> f64 {
        // The shoelace formula, relative to the first point.
        let doubled: f64 = ring
            .windows(2)
            .map(|edge| cross(minus(edge[0], ring[0]), minus(edge[1], ring[0])))
            .sum();
        doubled.abs() / 2.0
    }
}
