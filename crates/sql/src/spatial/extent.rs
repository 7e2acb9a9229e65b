//! Boxes that figures lie in: what a spatial index keeps and asks for.
//!
//! A box may be larger than its figure, never smaller. On the Earth the way between two positions bulges towards the
//! pole, a ring may go around a pole or across the antimeridian, and a clockwise ring means the rest of the world; where
//! that gets involved the box is all of it.

use super::{Figure, Position, area, geojson};
use orrery_model::json::Json;

/// A box: from west to east and from south to north, or from left to right and from below to above. Edges belong to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Least longitude, or x.
    pub west: f64,
    /// Least latitude, or y.
    pub south: f64,
    /// Greatest longitude, or x.
    pub east: f64,
    /// Greatest latitude, or y.
    pub north: f64,
}

/// The whole Earth.
const WORLD: Extent = Extent {
    west: -180.0,
    south: -90.0,
    east: 180.0,
    north: 90.0,
};
/// Half of the ellipsoid's surface, in square metres.
const HALF_WORLD: f64 = 2.55e14;
/// Beyond this latitude, and for longer steps of longitude, nothing fine is said.
const POLAR: f64 = 85.0;
const LONG_STEP: f64 = 60.0;
/// What arcs and geodesics differ by at most, in degrees.
const SLACK: f64 = 0.02;
/// Metres of a degree of latitude at least, and of longitude at the equator.
const LATITUDE_METRES: f64 = 110_000.0;
const LONGITUDE_METRES: f64 = 111_000.0;

impl Extent {
    /// Whether two boxes have a point in common.
    pub fn touches(&self, other: &Extent) -> bool {
        self.west <= other.east
            && other.west <= self.east
            && self.south <= other.north
            && other.south <= self.north
    }

    fn of(positions: &[Position]) -> Extent {
        let none = Extent {
            west: f64::INFINITY,
            south: f64::INFINITY,
            east: f64::NEG_INFINITY,
            north: f64::NEG_INFINITY,
        };
        positions.iter().fold(none, |e, [x, y]| Extent {
            west: e.west.min(*x),
            south: e.south.min(*y),
            east: e.east.max(*x),
            north: e.north.max(*y),
        })
    }

    fn widened(self, by_x: f64, by_y: f64) -> Extent {
        Extent {
            west: self.west - by_x,
            south: self.south - by_y,
            east: self.east + by_x,
            north: self.north + by_y,
        }
    }
}

/// Boxes that hold a GeoJSON value together; `None` if it is none.
pub fn extents(value: &Json, planar: bool) -> Option<Vec<Extent>> {
    extents_within(value, planar, 0.0)
}

/// Boxes that hold all points within a distance of a GeoJSON value: metres on the Earth.
pub fn extents_within(value: &Json, planar: bool, distance: f64) -> Option<Vec<Extent>> {
    let figure = geojson::read(value, planar).ok()?;
    if planar {
        return Some(
            boxes_in_plane(&figure)
                .into_iter()
                .map(|e| e.widened(distance, distance))
                .collect(),
        );
    }
    let boxes = boxes_on_earth(&figure);
    Some(
        boxes
            .into_iter()
            .flat_map(|extent| on_earth(extent, distance))
            .collect(),
    )
}

fn boxes_in_plane(figure: &Figure) -> Vec<Extent> {
    match figure {
        Figure::Point(at) => vec![Extent::of(&[*at])],
        Figure::Line(line) => vec![Extent::of(line)],
        Figure::Polygons(polygons) => polygons
            .iter()
            .filter_map(|rings| Some(Extent::of(rings.first()?)))
            .collect(),
    }
}

fn boxes_on_earth(figure: &Figure) -> Vec<Extent> {
    match figure {
        Figure::Point(at) => vec![Extent::of(&[*at])],
        Figure::Line(line) => vec![along(line)],
        // A clockwise ring leaves the rest of the world, be it the larger or the smaller part.
        Figure::Polygons(polygons) => polygons
            .iter()
            .map(|rings| {
                let ring = rings.first().map_or(&[][..], Vec::as_slice);
                let outer = Figure::Polygons(vec![vec![ring.to_vec()]]);
                if is_clockwise(ring) || area(false, &outer) > HALF_WORLD {
                    WORLD
                } else {
                    along(ring)
                }
            })
            .collect(),
    }
}

/// Whether a ring without long steps goes round clockwise on a map.
fn is_clockwise(ring: &[Position]) -> bool {
    let doubled: f64 = ring
        .windows(2)
        .map(|pair| pair[0][0] * pair[1][1] - pair[1][0] * pair[0][1])
        .sum();
    doubled <= 0.0
}

/// The box of a way over the Earth.
fn along(positions: &[Position]) -> Extent {
    let extent = Extent::of(positions);
    let longest = positions
        .windows(2)
        .map(|pair| (pair[0][0] - pair[1][0]).abs())
        .fold(0.0, f64::max);
    let farthest = extent.north.abs().max(extent.south.abs());
    if longest > LONG_STEP || farthest > POLAR {
        return WORLD;
    }
    // The greatest latitude between two positions of one latitude.
    let bulge = (farthest.to_radians().tan() / (longest.to_radians() / 2.0).cos())
        .atan()
        .to_degrees()
        - farthest;
    extent.widened(SLACK, bulge + SLACK)
}

/// A box on the Earth, widened by a distance, within longitudes from -180 to 180.
fn on_earth(extent: Extent, distance: f64) -> Vec<Extent> {
    let by_y = distance / LATITUDE_METRES;
    let (south, north) = (
        (extent.south - by_y).max(-90.0),
        (extent.north + by_y).min(90.0),
    );
    let farthest = south.abs().max(north.abs());
    let by_x = if farthest > POLAR {
        360.0
    } else {
        distance / (LONGITUDE_METRES * farthest.to_radians().cos())
    };
    let (west, east) = (extent.west - by_x, extent.east + by_x);
    let part = |west: f64, east: f64| Extent {
        west,
        south,
        east,
        north,
    };
    if !(east - west).is_finite() || east - west >= 360.0 {
        return vec![part(-180.0, 180.0)];
    }
    // The antimeridian has two longitudes.
    let mut parts = vec![part(west.max(-180.0), east.min(180.0))];
    if west <= -180.0 {
        parts.push(part(west + 360.0, 180.0));
    }
    if east >= 180.0 {
        parts.push(part(-180.0, east - 360.0));
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn touch(a: &str, b: &str, distance: f64) -> bool {
        let boxes = |text: &str, distance| {
            extents_within(&parse(text.as_bytes()).expect("JSON"), false, distance)
                .expect("a figure")
        };
        boxes(a, 0.0)
            .iter()
            .any(|a| boxes(b, distance).iter().any(|b| a.touches(b)))
    }

    fn point(x: f64, y: f64) -> String {
        format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#)
    }

    #[test]
    fn what_is_near_touches_and_what_is_far_does_not() {
        assert!(touch(&point(8.5, 47.3), &point(8.6, 47.3), 10_000.0));
        assert!(!touch(&point(8.5, 47.3), &point(8.8, 47.3), 10_000.0));
        assert!(
            touch(&point(179.99, 0.0), &point(-179.99, 0.0), 5_000.0),
            "across the antimeridian"
        );
        assert!(
            touch(&point(180.0, 10.0), &point(-180.0, 10.0), 0.0),
            "the antimeridian itself"
        );
        assert!(
            touch(&point(0.0, 89.9), &point(180.0, 89.9), 30_000.0),
            "across the pole"
        );
    }

    #[test]
    fn a_way_bulges_towards_the_pole() {
        let line = r#"{"type":"LineString","coordinates":[[0,50],[40,50]]}"#;
        assert!(touch(&point(20.0, 51.7), line, 0.0));
        assert!(!touch(&point(20.0, 55.0), line, 0.0));
    }

    #[test]
    fn a_clockwise_ring_is_the_rest_of_the_world() {
        let ring = |order: &str| format!(r#"{{"type":"Polygon","coordinates":[{order}]}}"#);
        assert!(!touch(
            &point(50.0, 50.0),
            &ring("[[0,0],[1,0],[1,1],[0,0]]"),
            0.0
        ));
        assert!(touch(
            &point(50.0, 50.0),
            &ring("[[0,0],[1,1],[1,0],[0,0]]"),
            0.0
        ));
    }

    #[test]
    fn what_is_no_figure_has_no_box() {
        assert_eq!(
            extents(&parse(br#"{"type":"Point"}"#).expect("JSON"), false),
            None
        );
    }
}
