//! The plane: straight segments and the distance of school.

use super::{Position, Space};

/// Coordinates as they are; lines are thicker than nothing by this part of their length.
pub(crate) struct Plane;

const THICKNESS: f64 = 1e-12;

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

impl Space for Plane {
    type Point = Position;

    fn point(position: Position) -> Position {
        position
    }

    fn side(a: Position, b: Position, p: Position) -> i8 {
        let (along, to) = (minus(b, a), minus(p, a));
        let turned = cross(along, to);
        let slack = THICKNESS * length(along) * length(to).max(length(along));
        if turned.abs() <= slack {
            0
        } else {
            turned.signum() as i8
        }
    }

    fn is_between(a: Position, b: Position, p: Position) -> bool {
        let whole = length(minus(a, b)) * (1.0 + THICKNESS);
        length(minus(p, a)) <= whole && length(minus(p, b)) <= whole
    }

    fn along(a: Position, b: Position, part: f64) -> Position {
        [a[0] + (b[0] - a[0]) * part, a[1] + (b[1] - a[1]) * part]
    }

    fn crossing(a: Position, b: Position, c: Position, d: Position) -> Option<Position> {
        if Self::side(a, b, c) * Self::side(a, b, d) >= 0
            || Self::side(c, d, a) * Self::side(c, d, b) >= 0
        {
            return None;
        }
        let part = cross(minus(c, a), minus(d, c)) / cross(minus(b, a), minus(d, c));
        Some(Self::along(a, b, part))
    }

    fn is_inside(ring: &[Position], p: Position) -> bool {
        // A ray to the right: every edge that it passes turns in into out.
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

    fn nearness(a: Position, b: Position, p: Position) -> (f64, f64) {
        let along = minus(b, a);
        let square = dot(along, along);
        let part = if square == 0.0 {
            0.0
        } else {
            (dot(minus(p, a), along) / square).clamp(0.0, 1.0)
        };
        (length(minus(p, Self::along(a, b, part))), part)
    }

    fn distance(a: Position, b: Position, p: Position, part: f64) -> f64 {
        length(minus(p, Self::along(a, b, part)))
    }

    fn area(ring: &[Position]) -> f64 {
        let doubled: f64 = ring
            .windows(2)
            .map(|edge| cross(minus(edge[0], ring[0]), minus(edge[1], ring[0])))
            .sum();
        doubled.abs() / 2.0
    }
}
