//! The Earth as the ellipsoid WGS-84.
//!
//! A point is kept as the unit vector of its *reduced* latitude, that is as a point of the sphere
//! that results from stretching the short axis of the ellipsoid. Stretching maps planes through the
//! centre to planes through the centre. The arcs that such planes cut out of the ellipsoid are
//! therefore great circles of the sphere, and the sign of a determinant is the side of an arc.
//!
//! Lengths and areas change under stretching. They are computed on the ellipsoid with the
//! algorithms of C. Karney, "Algorithms for geodesics", J. Geodesy 87 (2013).

use super::{Position, Surface};
use geographiclib_rs::{Geodesic, InverseGeodesic, PolygonArea, Winding};
use std::sync::LazyLock;

/// The surface of the Earth.
pub(crate) struct Globe;

/// Ratio of the short axis to the long one.
const AXIS_RATIO: f64 = 1.0 - 1.0 / 298.257_223_563;
/// Distance in radians within which a point counts as on a line: 4e-15, about 25 nanometres.
const TOLERANCE: f64 = 4e-15;
/// Fractions of an edge at which the target of the line of sight is placed, see
/// [`Globe::is_inside`].
const TARGET_FRACTIONS: [f64; 3] = [0.5, 0.37, 0.71];
/// Largest number of targets that are tried. Each costs as much as the ring has edges.
const MAX_TARGETS: usize = 64;
/// Steps of the search for the nearest point of a segment. Each narrows the interval to 0.62 of its
/// length.
const SEARCH_STEPS: usize = 40;
/// Half the width of the interval of that search, as a fraction of the segment.
const SEARCH_RADIUS: f64 = 0.05;

static WGS84: LazyLock<Geodesic> = LazyLock::new(Geodesic::wgs84);

/// A vector of the space in which the sphere lies.
type Vector = [f64; 3];

/// A point of the ellipsoid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EllipsoidPoint {
    /// The point on the stretched ellipsoid, a unit vector.
    unit: Vector,
    /// Longitude and latitude in degrees.
    position: Position,
}

fn minus(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

fn plus(a: Vector, b: Vector) -> Vector {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

fn times(a: Vector, by: f64) -> Vector {
    [a[0] * by, a[1] * by, a[2] * by]
}

fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

fn cross(a: Vector, b: Vector) -> Vector {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

fn length(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

/// Returns the axis of the great circle from `a` to `b`. Its length is the sine of the arc. This
/// form of the cross product is also exact for short arcs.
fn axis(a: Vector, b: Vector) -> Vector {
    times(cross(minus(b, a), plus(a, b)), -0.5)
}

/// Returns the angle between two unit vectors in radians.
fn angle(a: Vector, b: Vector) -> f64 {
    length(axis(a, b)).atan2(dot(a, b))
}

impl EllipsoidPoint {
    /// Returns the point in the direction of a vector.
    fn of_vector(vector: Vector) -> Self {
        let unit = times(vector, 1.0 / length(vector));
        let reduced = unit[2].atan2(unit[0].hypot(unit[1]));
        let latitude = reduced.sin().atan2(reduced.cos() * AXIS_RATIO);
        let longitude = unit[1].atan2(unit[0]);
        EllipsoidPoint {
            unit,
            position: [longitude.to_degrees(), latitude.to_degrees()],
        }
    }
}

/// Returns the length of the geodesic in metres.
fn geodesic(a: EllipsoidPoint, b: EllipsoidPoint) -> f64 {
    WGS84.inverse(a.position[1], a.position[0], b.position[1], b.position[0])
}

/// Returns the area of the smaller side of a ring, negative if that is the right side, and the area
/// of the Earth; both in square metres.
fn signed_area(ring: &[EllipsoidPoint]) -> (f64, f64) {
    let mut polygon = PolygonArea::new(&WGS84, Winding::CounterClockwise);
    for point in ring.iter().skip(1) {
        polygon.add_point(point.position[1], point.position[0]);
    }
    let (_, area, _) = polygon.compute(true);
    (area, WGS84.area())
}

impl Surface for Globe {
    type Point = EllipsoidPoint;

    fn point(position: Position) -> EllipsoidPoint {
        let (longitude, latitude) = (position[0].to_radians(), position[1].to_radians());
        let reduced = (latitude.sin() * AXIS_RATIO).atan2(latitude.cos());
        let (height, radius) = (reduced.sin(), reduced.cos());
        // -180 and 180 degrees are one meridian, with exactly equal coordinates.
        let (sine, cosine) = if position[0].abs() == 180.0 {
            (0.0, -1.0)
        } else {
            (longitude.sin(), longitude.cos())
        };
        EllipsoidPoint {
            unit: [radius * cosine, radius * sine, height],
            position,
        }
    }

    fn side(a: EllipsoidPoint, b: EllipsoidPoint, p: EllipsoidPoint) -> i8 {
        let (a, b, p) = (a.unit, b.unit, p.unit);
        let determinant = dot(cross(minus(a, p), minus(b, p)), p);
        if determinant.abs() <= TOLERANCE * length(minus(a, b)) {
            0
        } else {
            determinant.signum() as i8
        }
    }

    fn is_between(a: EllipsoidPoint, b: EllipsoidPoint, p: EllipsoidPoint) -> bool {
        let whole = length(minus(a.unit, b.unit)) + TOLERANCE;
        length(minus(p.unit, a.unit)) <= whole && length(minus(p.unit, b.unit)) <= whole
    }

    fn along(a: EllipsoidPoint, b: EllipsoidPoint, fraction: f64) -> EllipsoidPoint {
        let arc = angle(a.unit, b.unit);
        // Both factors below vanish with the arc, so a very short arc is treated as a straight
        // line.
        if arc < 1e-12 {
            let point = plus(times(a.unit, 1.0 - fraction), times(b.unit, fraction));
            return EllipsoidPoint::of_vector(point);
        }
        let from = ((1.0 - fraction) * arc).sin();
        let to = (fraction * arc).sin();
        EllipsoidPoint::of_vector(plus(times(a.unit, from), times(b.unit, to)))
    }

    fn crossing(
        a: EllipsoidPoint,
        b: EllipsoidPoint,
        c: EllipsoidPoint,
        d: EllipsoidPoint,
    ) -> Option<EllipsoidPoint> {
        // Each arc must have its ends on both sides of the other.
        if Self::side(a, b, c) * Self::side(a, b, d) >= 0
            || Self::side(c, d, a) * Self::side(c, d, b) >= 0
        {
            return None;
        }
        // Two great circles meet at two opposite points. Both arcs must be near the same one.
        let point = cross(axis(a.unit, b.unit), axis(c.unit, d.unit));
        let near_first = dot(point, plus(a.unit, b.unit));
        let near_second = dot(point, plus(c.unit, d.unit));
        if near_first * near_second <= 0.0 {
            return None;
        }
        Some(EllipsoidPoint::of_vector(times(point, near_first.signum())))
    }

    /// Returns true if a point that is not on the ring is inside it.
    ///
    /// The line of sight goes from the point to a target on an edge. At the target, the inside is
    /// on the left of that edge; every other edge that the line crosses swaps inside and outside. A
    /// line through a corner decides nothing, so the next target is tried. The result is false if
    /// no target decides.
    fn is_inside(ring: &[EllipsoidPoint], p: EllipsoidPoint) -> bool {
        let mut targets = 0;
        for fraction in TARGET_FRACTIONS {
            for (at, edge) in ring.windows(2).enumerate() {
                let side = Self::side(edge[0], edge[1], p);
                let target = Self::along(edge[0], edge[1], fraction);
                // A line along the edge, or nearly to the opposite point, decides nothing either.
                if side == 0 || dot(target.unit, p.unit) < -0.999 {
                    continue;
                }
                targets += 1;
                if targets > MAX_TARGETS {
                    return false;
                }
                if let Some(crossed) = edges_crossed(ring, at, p, target) {
                    return (side > 0) ^ (crossed % 2 == 1);
                }
            }
        }
        false
    }

    fn as_hole(mut ring: Vec<EllipsoidPoint>) -> Vec<EllipsoidPoint> {
        if signed_area(&ring).0 < 0.0 {
            ring.reverse();
        }
        ring
    }

    /// Returns the length of the straight line through the Earth, in long half-axes, and the
    /// fraction of the segment at which it ends.
    fn rough_distance(a: EllipsoidPoint, b: EllipsoidPoint, p: EllipsoidPoint) -> (f64, f64) {
        let chord = |unit: Vector| {
            let difference = minus(p.unit, unit);
            length([difference[0], difference[1], difference[2] * AXIS_RATIO])
        };
        // The foot of the perpendicular, if it falls on the arc.
        let axis = axis(a.unit, b.unit);
        let square = dot(axis, axis);
        if square > 0.0 {
            let foot = minus(p.unit, times(axis, dot(p.unit, axis) / square));
            let is_after_start = dot(cross(a.unit, foot), axis) > 0.0;
            let is_before_end = dot(cross(foot, b.unit), axis) > 0.0;
            if is_after_start && is_before_end {
                let foot = times(foot, 1.0 / length(foot));
                let fraction = angle(a.unit, foot) / angle(a.unit, b.unit);
                return (chord(foot), fraction);
            }
        }
        // Otherwise the nearer end.
        let (to_start, to_end) = (chord(a.unit), chord(b.unit));
        if to_start <= to_end {
            (to_start, 0.0)
        } else {
            (to_end, 1.0)
        }
    }

    /// Returns the distance in metres. The nearest point on the ellipsoid is close to that on the
    /// sphere; a golden-section search around `fraction` finds it.
    fn exact_distance(
        a: EllipsoidPoint,
        b: EllipsoidPoint,
        p: EllipsoidPoint,
        fraction: f64,
    ) -> f64 {
        if fraction == 0.0 {
            return geodesic(a, p);
        }
        if fraction == 1.0 {
            return geodesic(b, p);
        }
        let golden = (5f64.sqrt() - 1.0) / 2.0;
        let distance_at = |fraction: f64| geodesic(Self::along(a, b, fraction), p);
        let mut low = (fraction - SEARCH_RADIUS).max(0.0);
        let mut high = (fraction + SEARCH_RADIUS).min(1.0);
        let mut first = high - golden * (high - low);
        let mut second = low + golden * (high - low);
        let mut at_first = distance_at(first);
        let mut at_second = distance_at(second);
        for _ in 0..SEARCH_STEPS {
            // The minimum is on the side of the smaller distance. Of the two inner points one
            // stays.
            if at_first <= at_second {
                (high, second, at_second) = (second, first, at_first);
                first = high - golden * (high - low);
                at_first = distance_at(first);
            } else {
                (low, first, at_first) = (first, second, at_second);
                second = low + golden * (high - low);
                at_second = distance_at(second);
            }
        }
        at_first.min(at_second)
    }

    fn area(ring: &[EllipsoidPoint]) -> f64 {
        let (area, whole) = signed_area(ring);
        if area < 0.0 { whole + area } else { area }
    }
}

/// Returns the number of edges between `p` and a target on the edge at `target_edge`. Returns
/// `None` if the line goes through a corner.
fn edges_crossed(
    ring: &[EllipsoidPoint],
    target_edge: usize,
    p: EllipsoidPoint,
    target: EllipsoidPoint,
) -> Option<usize> {
    let mut crossed = 0;
    for (at, edge) in ring.windows(2).enumerate() {
        if at == target_edge {
            continue;
        }
        let (start, end) = (edge[0], edge[1]);
        if Globe::side(p, target, start) == 0 && Globe::is_between(p, target, start) {
            return None;
        }
        if Globe::crossing(p, target, start, end).is_some() {
            crossed += 1;
        }
    }
    Some(crossed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(positions: &[Position]) -> Vec<EllipsoidPoint> {
        positions.iter().map(|p| Globe::point(*p)).collect()
    }

    #[test]
    fn a_position_survives_the_round_trip_through_its_vector() {
        for position in [[0.0, 0.0], [-122.1, 47.6], [179.5, -89.0], [12.0, 89.9]] {
            let restored = EllipsoidPoint::of_vector(Globe::point(position).unit).position;
            assert!(
                (restored[0] - position[0]).abs() < 1e-9
                    && (restored[1] - position[1]).abs() < 1e-9,
                "{restored:?}"
            );
        }
    }

    #[test]
    fn the_inside_of_a_ring_is_on_its_left() {
        let square = ring(&[
            [0.0, 0.0],
            [10.0, 0.0],
            [10.0, 10.0],
            [0.0, 10.0],
            [0.0, 0.0],
        ]);
        let reversed: Vec<EllipsoidPoint> = square.iter().rev().copied().collect();
        for (position, is_inside) in [
            ([5.0, 5.0], true),
            ([15.0, 5.0], false),
            ([-175.0, -5.0], false),
            ([5.0, -1.0], false),
        ] {
            assert_eq!(
                Globe::is_inside(&square, Globe::point(position)),
                is_inside,
                "{position:?}"
            );
            assert_eq!(
                Globe::is_inside(&reversed, Globe::point(position)),
                !is_inside,
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
        let across_antimeridian = ring(&[
            [170.0, -10.0],
            [-170.0, -10.0],
            [-170.0, 10.0],
            [170.0, 10.0],
            [170.0, -10.0],
        ]);
        assert!(Globe::is_inside(
            &across_antimeridian,
            Globe::point([180.0, 0.0])
        ));
        assert!(Globe::is_inside(
            &across_antimeridian,
            Globe::point([-179.0, 1.0])
        ));
        assert!(!Globe::is_inside(
            &across_antimeridian,
            Globe::point([0.0, 0.0])
        ));
    }

    #[test]
    fn a_clockwise_ring_encloses_the_rest_of_the_earth() {
        let square = ring(&[
            [0.0, 0.0],
            [10.0, 0.0],
            [10.0, 10.0],
            [0.0, 10.0],
            [0.0, 0.0],
        ]);
        let reversed: Vec<EllipsoidPoint> = square.iter().rev().copied().collect();
        let (inner, outer) = (Globe::area(&square), Globe::area(&reversed));
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
        let (_, fraction) = Globe::rough_distance(a, b, p);
        let expected = geodesic(Globe::point([4.0, 0.0]), p);
        assert!((Globe::exact_distance(a, b, p, fraction) - expected).abs() < 1e-6);
        assert_eq!(
            Globe::rough_distance(a, b, Globe::point([-5.0, 1.0])).1,
            0.0
        );
        assert_eq!(
            Globe::rough_distance(a, b, Globe::point([25.0, -3.0])).1,
            1.0
        );
    }
}
