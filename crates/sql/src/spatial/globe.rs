//! The Earth as the ellipsoid WGS-84.
//!
//! A position is kept as the unit vector of its *reduced* latitude: it is the point of the ellipsoid after its axis has
//! been stretched to a sphere's. Planes through the centre stay such planes, so the arcs that they cut out of the
//! ellipsoid are great circles here, and which side of one a point is on is a determinant.
//! Lengths and areas do not survive the stretching; they are left to the algorithms of C. Karney, "Algorithms for
//! geodesics", J. Geodesy 87 (2013).

use super::{Position, Space};
use geographiclib_rs::{Geodesic, InverseGeodesic, PolygonArea, Winding};
use std::sync::LazyLock;

pub(crate) struct Globe;

/// The short axis by the long one.
const SQUEEZE: f64 = 1.0 - 1.0 / 298.257_223_563;
/// Radians within which a point is on a line: about a hundredth of a micrometre.
const THICKNESS: f64 = 4e-15;
/// Parts of the edges of a ring that are tried as the place to look from.
const LOOK_FROM: [f64; 3] = [0.5, 0.37, 0.71];
/// Places that are tried, each for the price of the whole ring.
const LOOKS: usize = 64;
/// Steps of the search for the nearest point of a segment; each narrows it to 0.62.
const SEARCH_STEPS: usize = 40;

static WGS84: LazyLock<Geodesic> = LazyLock::new(Geodesic::wgs84);

/// A point of the stretched Earth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    unit: [f64; 3],
    position: Position,
}

fn minus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn plus(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn times(a: [f64; 3], by: f64) -> [f64; 3] {
    [a[0] * by, a[1] * by, a[2] * by]
}

fn dot(a: [f64; 3], b: [f64; 3]) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn length(a: [f64; 3]) -> f64 {
    dot(a, a).sqrt()
}

/// The axis of the great circle from `a` to `b`, of the length of the arc's sine, exact for short arcs too.
fn axis(a: [f64; 3], b: [f64; 3]) -> [f64; 3] {
    times(cross(minus(b, a), plus(a, b)), -0.5)
}

impl Spot {
    fn of_unit(vector: [f64; 3]) -> Self {
        let unit = times(vector, 1.0 / length(vector));
        let reduced = unit[2].atan2(unit[0].hypot(unit[1]));
        let latitude = (reduced.sin()).atan2(reduced.cos() * SQUEEZE).to_degrees();
        Spot {
            unit,
            position: [unit[1].atan2(unit[0]).to_degrees(), latitude],
        }
    }
}

/// Metres along the geodesic.
fn geodesic(a: Spot, b: Spot) -> f64 {
    WGS84.inverse(a.position[1], a.position[0], b.position[1], b.position[0])
}

/// Square metres on the left of a ring, negative if the right is smaller, and of the whole Earth.
fn signed_area(ring: &[Spot]) -> (f64, f64) {
    let mut polygon = PolygonArea::new(&WGS84, Winding::CounterClockwise);
    for spot in ring.iter().skip(1) {
        polygon.add_point(spot.position[1], spot.position[0]);
    }
    let (_, area, _) = polygon.compute(true);
    (area, WGS84.area())
}

impl Space for Globe {
    type Point = Spot;

    fn point(position: Position) -> Spot {
        let (longitude, latitude) = (position[0].to_radians(), position[1].to_radians());
        let reduced = (latitude.sin() * SQUEEZE).atan2(latitude.cos());
        let (height, radius) = (reduced.sin(), reduced.cos());
        // All ways to write the antimeridian are one place.
        let (east, north) = if position[0].abs() == 180.0 {
            (0.0, -1.0)
        } else {
            (longitude.sin(), longitude.cos())
        };
        Spot {
            unit: [radius * north, radius * east, height],
            position,
        }
    }

    fn side(a: Spot, b: Spot, p: Spot) -> i8 {
        let (a, b, p) = (a.unit, b.unit, p.unit);
        let volume = dot(cross(minus(a, p), minus(b, p)), p);
        if volume.abs() <= THICKNESS * length(minus(a, b)) {
            0
        } else {
            volume.signum() as i8
        }
    }

    fn is_between(a: Spot, b: Spot, p: Spot) -> bool {
        let whole = length(minus(a.unit, b.unit)) + THICKNESS;
        length(minus(p.unit, a.unit)) <= whole && length(minus(p.unit, b.unit)) <= whole
    }

    fn along(a: Spot, b: Spot, part: f64) -> Spot {
        let angle = length(axis(a.unit, b.unit)).atan2(dot(a.unit, b.unit));
        if angle < 1e-12 {
            return Spot::of_unit(plus(times(a.unit, 1.0 - part), times(b.unit, part)));
        }
        let (from, to) = (((1.0 - part) * angle).sin(), (part * angle).sin());
        Spot::of_unit(plus(times(a.unit, from), times(b.unit, to)))
    }

    fn crossing(a: Spot, b: Spot, c: Spot, d: Spot) -> Option<Spot> {
        if Self::side(a, b, c) * Self::side(a, b, d) >= 0
            || Self::side(c, d, a) * Self::side(c, d, b) >= 0
        {
            return None;
        }
        let place = cross(axis(a.unit, b.unit), axis(c.unit, d.unit));
        // Two great circles meet at two ends of the world; the arcs must lie about the same one.
        let first = dot(place, plus(a.unit, b.unit));
        let second = dot(place, plus(c.unit, d.unit));
        if first * second <= 0.0 {
            return None;
        }
        Some(Spot::of_unit(times(place, first.signum())))
    }

    fn is_inside(ring: &[Spot], p: Spot) -> bool {
        // From the point to a place on an edge: every edge passed on the way turns in into out, and at the end the inside
        // is on the left of the edge. Ways that touch a corner say nothing.
        let edges: Vec<(Spot, Spot)> = ring.windows(2).map(|edge| (edge[0], edge[1])).collect();
        let mut looks = 0;
        for part in LOOK_FROM {
            'places: for (at, (a, b)) in edges.iter().enumerate() {
                let arrives = Self::side(*a, *b, p);
                let place = Self::along(*a, *b, part);
                if arrives == 0 || dot(place.unit, p.unit) < -0.999 {
                    continue;
                }
                looks += 1;
                if looks > LOOKS {
                    return false;
                }
                let mut inside = arrives > 0;
                for (other, (c, d)) in edges.iter().enumerate() {
                    if other == at {
                        continue;
                    }
                    if Self::side(p, place, *c) == 0 && Self::is_between(p, place, *c) {
                        continue 'places;
                    }
                    inside ^= Self::crossing(p, place, *c, *d).is_some();
                }
                return inside;
            }
        }
        false
    }

    fn as_hole(mut ring: Vec<Spot>) -> Vec<Spot> {
        if signed_area(&ring).0 < 0.0 {
            ring.reverse();
        }
        ring
    }

    /// The length of the straight line through the Earth, in long half-axes.
    fn nearness(a: Spot, b: Spot, p: Spot) -> (f64, f64) {
        let straight = |unit: [f64; 3]| {
            let way = minus(p.unit, unit);
            length([way[0], way[1], way[2] * SQUEEZE])
        };
        let axis = axis(a.unit, b.unit);
        let square = dot(axis, axis);
        if square > 0.0 {
            // The foot of the perpendicular, if it falls on the arc.
            let foot = minus(p.unit, times(axis, dot(p.unit, axis) / square));
            let (from, to) = (
                dot(cross(a.unit, foot), axis),
                dot(cross(foot, b.unit), axis),
            );
            if from > 0.0 && to > 0.0 {
                let foot = times(foot, 1.0 / length(foot));
                let angle = |x: [f64; 3], y: [f64; 3]| length(self::axis(x, y)).atan2(dot(x, y));
                return (straight(foot), angle(a.unit, foot) / angle(a.unit, b.unit));
            }
        }
        let (from, to) = (straight(a.unit), straight(b.unit));
        if from <= to { (from, 0.0) } else { (to, 1.0) }
    }

    fn distance(a: Spot, b: Spot, p: Spot, part: f64) -> f64 {
        if part == 0.0 || part == 1.0 {
            return geodesic(if part == 0.0 { a } else { b }, p);
        }
        // The nearest point of the ellipsoid is close to that of the stretched one: a search by golden sections.
        let golden = (5f64.sqrt() - 1.0) / 2.0;
        let of = |part: f64| geodesic(Self::along(a, b, part), p);
        let (mut low, mut high) = ((part - 0.05).max(0.0), (part + 0.05).min(1.0));
        let (mut first, mut second) = (high - golden * (high - low), low + golden * (high - low));
        let (mut at_first, mut at_second) = (of(first), of(second));
        for _ in 0..SEARCH_STEPS {
            if at_first <= at_second {
                (high, second, at_second) = (second, first, at_first);
                first = high - golden * (high - low);
                at_first = of(first);
            } else {
                (low, first, at_first) = (first, second, at_second);
                second = low + golden * (high - low);
                at_second = of(second);
            }
        }
        at_first.min(at_second)
    }

    fn area(ring: &[Spot]) -> f64 {
        let (area, whole) = signed_area(ring);
        if area < 0.0 { whole + area } else { area }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(positions: &[Position]) -> Vec<Spot> {
        positions.iter().map(|p| Globe::point(*p)).collect()
    }

    #[test]
    fn positions_come_back() {
        for position in [[0.0, 0.0], [-122.1, 47.6], [179.5, -89.0], [12.0, 89.9]] {
            let back = Spot::of_unit(Globe::point(position).unit).position;
            assert!(
                (back[0] - position[0]).abs() < 1e-9 && (back[1] - position[1]).abs() < 1e-9,
                "{back:?}"
            );
        }
    }

    #[test]
    fn inside_is_on_the_left() {
        let square = ring(&[
            [0.0, 0.0],
            [10.0, 0.0],
            [10.0, 10.0],
            [0.0, 10.0],
            [0.0, 0.0],
        ]);
        let turned: Vec<Spot> = square.iter().rev().copied().collect();
        for (position, inside) in [
            ([5.0, 5.0], true),
            ([15.0, 5.0], false),
            ([-175.0, -5.0], false),
            ([5.0, -1.0], false),
        ] {
            assert_eq!(
                Globe::is_inside(&square, Globe::point(position)),
                inside,
                "{position:?}"
            );
            assert_eq!(
                Globe::is_inside(&turned, Globe::point(position)),
                !inside,
                "{position:?}"
            );
        }
        let pole = ring(&[
            [0.0, 80.0],
            [90.0, 80.0],
            [180.0, 80.0],
            [-90.0, 80.0],
            [0.0, 80.0],
        ]);
        assert!(Globe::is_inside(&pole, Globe::point([45.0, 89.0])));
        assert!(!Globe::is_inside(&pole, Globe::point([45.0, 70.0])));
        let across = ring(&[
            [170.0, -10.0],
            [-170.0, -10.0],
            [-170.0, 10.0],
            [170.0, 10.0],
            [170.0, -10.0],
        ]);
        assert!(Globe::is_inside(&across, Globe::point([180.0, 0.0])));
        assert!(Globe::is_inside(&across, Globe::point([-179.0, 1.0])));
        assert!(!Globe::is_inside(&across, Globe::point([0.0, 0.0])));
    }

    #[test]
    fn a_clockwise_ring_has_the_rest_of_the_world() {
        let square = ring(&[
            [0.0, 0.0],
            [10.0, 0.0],
            [10.0, 10.0],
            [0.0, 10.0],
            [0.0, 0.0],
        ]);
        let turned: Vec<Spot> = square.iter().rev().copied().collect();
        let (inner, outer) = (Globe::area(&square), Globe::area(&turned));
        assert!(
            (inner + outer - 510_065_621_724_088.4).abs() < 1e4,
            "{inner} {outer}"
        );
        assert!((1.22e12..1.24e12).contains(&inner));
    }

    #[test]
    fn the_nearest_point_of_a_segment_is_found() {
        let (a, b) = (Globe::point([0.0, 0.0]), Globe::point([10.0, 0.0]));
        let p = Globe::point([4.0, 1.0]);
        let (_, part) = Globe::nearness(a, b, p);
        let straight = geodesic(Globe::point([4.0, 0.0]), p);
        assert!((Globe::distance(a, b, p, part) - straight).abs() < 1e-6);
        assert_eq!(Globe::nearness(a, b, Globe::point([-5.0, 1.0])).1, 0.0);
        assert_eq!(Globe::nearness(a, b, Globe::point([25.0, -3.0])).1, 1.0);
    }
}
