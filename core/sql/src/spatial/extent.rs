//! Boxes around geometries. A spatial index stores and searches them.
//!
//! A box may be larger than its geometry, never smaller. On the Earth a segment bulges towards the
//! pole, a ring may enclose a pole or cross the antimeridian, and a clockwise ring encloses the
//! rest of the Earth. Where no small box is certain, the box is the whole Earth.

use super::{Geometry, Position, area, geojson};
use orrery_model::json::Json;

/// A box, its edges included: from west to east and from south to north in degrees, or from left to
/// right and from bottom to top in a plane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Extent {
    /// Smallest longitude, or x.
    pub west: f64,
    /// Smallest latitude, or y.
    pub south: f64,
    /// Largest longitude, or x.
    pub east: f64,
    /// Largest latitude, or y.
    pub north: f64,
}

/// The whole Earth.
const WHOLE_EARTH: Extent = Extent {
    west: -180.0,
    south: -90.0,
    east: 180.0,
    north: 90.0,
};
/// Half of the area of the ellipsoid, in square metres.
const HALF_EARTH_AREA: f64 = 2.55e14;
/// Largest latitude, in degrees, for which a box smaller than the Earth is computed.
const MAX_LATITUDE: f64 = 85.0;
/// Longest segment, in degrees of longitude, for which a box smaller than the Earth is computed.
const MAX_LONGITUDE_STEP: f64 = 60.0;
/// Largest difference between an arc and the geodesic, in degrees.
const SLACK: f64 = 0.02;
/// Metres of a degree of latitude, rounded down.
const LATITUDE_METRES: f64 = 110_000.0;
/// Metres of a degree of longitude at the equator, rounded down.
const LONGITUDE_METRES: f64 = 111_000.0;

impl Extent {
    /// Returns true if two boxes have a point in common.
    pub fn touches(&self, other: &Extent) -> bool {
        self.west <= other.east
            && other.west <= self.east
            && self.south <= other.north
            && other.south <= self.north
    }

    /// Returns the smallest box around some positions.
    fn of_positions(positions: &[Position]) -> Extent {
        let mut extent = Extent {
            west: f64::INFINITY,
            south: f64::INFINITY,
            east: f64::NEG_INFINITY,
            north: f64::NEG_INFINITY,
        };
        for [x, y] in positions {
            extent.west = extent.west.min(*x);
            extent.south = extent.south.min(*y);
            extent.east = extent.east.max(*x);
            extent.north = extent.north.max(*y);
        }
        extent
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

/// Returns boxes that together contain a GeoJSON geometry. Returns `None` for any other value.
pub fn extents(value: &Json, is_planar: bool) -> Option<Vec<Extent>> {
    extents_within(value, is_planar, 0.0)
}

/// Returns boxes that together contain all points within a distance of a GeoJSON geometry; on the
/// Earth the distance is in metres. Returns `None` for any other value.
pub fn extents_within(value: &Json, is_planar: bool, distance: f64) -> Option<Vec<Extent>> {
    let geometry = geojson::read(value, is_planar).ok()?;
    let mut extents = Vec::new();
    if is_planar {
        for extent in boxes_in_plane(&geometry) {
            extents.push(extent.widened(distance, distance));
        }
    } else {
        for extent in boxes_on_earth(&geometry) {
            extents.extend(widened_on_earth(extent, distance));
        }
    }
    Some(extents)
}

fn boxes_in_plane(geometry: &Geometry) -> Vec<Extent> {
    match geometry {
        Geometry::Point(position) => vec![Extent::of_positions(&[*position])],
        Geometry::Line(line) => vec![Extent::of_positions(line)],
        Geometry::Polygons(polygons) => polygons
            .iter()
            .filter_map(|rings| Some(Extent::of_positions(rings.first()?)))
            .collect(),
    }
}

fn boxes_on_earth(geometry: &Geometry) -> Vec<Extent> {
    match geometry {
        Geometry::Point(position) => vec![Extent::of_positions(&[*position])],
        Geometry::Line(line) => vec![box_of_line(line)],
        Geometry::Polygons(polygons) => polygons
            .iter()
            .map(|rings| box_of_ring(rings.first().cloned().unwrap_or_default()))
            .collect(),
    }
}

/// Returns the box of the outer ring of a polygon on the Earth. A clockwise ring encloses the rest
/// of the Earth, which may be the larger or the smaller side.
fn box_of_ring(ring: Vec<Position>) -> Extent {
    let extent = box_of_line(&ring);
    if is_clockwise(&ring) {
        return WHOLE_EARTH;
    }
    let polygon = Geometry::Polygons(vec![vec![ring]]);
    if area(false, &polygon) > HALF_EARTH_AREA {
        return WHOLE_EARTH;
    }
    extent
}

/// Returns true if a ring without long segments runs clockwise on a map.
fn is_clockwise(ring: &[Position]) -> bool {
    let doubled_area: f64 = ring
        .windows(2)
        .map(|pair| pair[0][0] * pair[1][1] - pair[1][0] * pair[0][1])
        .sum();
    doubled_area <= 0.0
}

/// Returns the box of a line on the Earth.
fn box_of_line(positions: &[Position]) -> Extent {
    let extent = Extent::of_positions(positions);
    let longest_step = positions
        .windows(2)
        .map(|pair| (pair[0][0] - pair[1][0]).abs())
        .fold(0.0, f64::max);
    let max_latitude = extent.north.abs().max(extent.south.abs());
    if longest_step > MAX_LONGITUDE_STEP || max_latitude > MAX_LATITUDE {
        return WHOLE_EARTH;
    }
    // A great circle between two positions of one latitude is farthest north or south in its
    // middle.
    let half_step = longest_step.to_radians() / 2.0;
    let reached = (max_latitude.to_radians().tan() / half_step.cos()).atan();
    let bulge = reached.to_degrees() - max_latitude;
    extent.widened(SLACK, bulge + SLACK)
}

/// Returns a box on the Earth, widened by a distance in metres, as boxes with longitudes from -180
/// to 180 degrees.
fn widened_on_earth(extent: Extent, distance: f64) -> Vec<Extent> {
    let by_y = distance / LATITUDE_METRES;
    let south = (extent.south - by_y).max(-90.0);
    let north = (extent.north + by_y).min(90.0);
    // A degree of longitude is shortest at the largest latitude; near the pole all are included.
    let max_latitude = south.abs().max(north.abs());
    let by_x = if max_latitude > MAX_LATITUDE {
        360.0
    } else {
        distance / (LONGITUDE_METRES * max_latitude.to_radians().cos())
    };
    let (west, east) = (extent.west - by_x, extent.east + by_x);
    let between = |west: f64, east: f64| Extent {
        west,
        south,
        east,
        north,
    };
    if !(east - west).is_finite() || east - west >= 360.0 {
        return vec![between(-180.0, 180.0)];
    }
    // A box that reaches the antimeridian, which has two longitudes, goes on at the other one.
    let mut extents = vec![between(west.max(-180.0), east.min(180.0))];
    if west <= -180.0 {
        extents.push(between(west + 360.0, 180.0));
    }
    if east >= 180.0 {
        extents.push(between(-180.0, east - 360.0));
    }
    extents
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn touch(a: &str, b: &str, distance: f64) -> bool {
        let boxes = |text: &str, distance| {
            extents_within(&parse(text.as_bytes()).expect("JSON"), false, distance)
                .expect("a geometry")
        };
        boxes(a, 0.0)
            .iter()
            .any(|a| boxes(b, distance).iter().any(|b| a.touches(b)))
    }

    fn point(x: f64, y: f64) -> String {
        format!(r#"{{"type":"Point","coordinates":[{x},{y}]}}"#)
    }

    #[test]
    fn close_points_touch_and_distant_ones_do_not() {
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
    fn the_box_of_a_line_includes_its_bulge_towards_the_pole() {
        let line = r#"{"type":"LineString","coordinates":[[0,50],[40,50]]}"#;
        assert!(touch(&point(20.0, 51.7), line, 0.0));
        assert!(!touch(&point(20.0, 55.0), line, 0.0));
    }

    #[test]
    fn the_box_of_a_clockwise_ring_is_the_whole_earth() {
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
    fn a_value_that_is_no_geometry_has_no_box() {
        assert_eq!(
            extents(&parse(br#"{"type":"Point"}"#).expect("JSON"), false),
            None
        );
    }
}
