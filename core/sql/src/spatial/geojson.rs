//! Reading of GeoJSON geometries, with a sentence for what is invalid.
//!
//! ST_ISVALIDDETAILED returns the sentences; all other functions only need to know that a value is
//! no geometry. Rings that cross themselves are found in `relate.rs`.

use super::{Geometry, MAX_POINTS, Position};
use orrery_model::json::Json;

/// The reason why a value is no geometry, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidGeometry(pub String);

type Read<T> = Result<T, InvalidGeometry>;

fn invalid<T>(reason: impl Into<String>) -> Read<T> {
    Err(InvalidGeometry(reason.into()))
}

/// Reads a GeoJSON object. On the Earth, longitudes must be between -180 and 180 degrees, latitudes
/// between -90 and 90.
///
/// # Errors
/// [`InvalidGeometry`] for any other value.
pub(crate) fn read(json: &Json, is_planar: bool) -> Read<Geometry> {
    let Some(kind) = json.get("type").and_then(Json::as_str) else {
        return invalid("The GeoJSON object must have a 'type' that is a string.");
    };
    let Some(coordinates) = json.get("coordinates").and_then(Json::as_array) else {
        return invalid("The GeoJSON object must have 'coordinates' that are an array.");
    };
    // ST_ISVALIDDETAILED reports the first defect, in the order in which the value is read.
    let mut reader = Reader {
        is_planar,
        points: 0,
    };
    match kind {
        "Point" => Ok(Geometry::Point(reader.position(coordinates)?)),
        "LineString" => {
            let line = reader.positions(coordinates)?;
            if line.len() < 2 || line.iter().all(|p| *p == line[0]) {
                return invalid(
                    "The LineString input is not valid because it does not have two different \
                     points.",
                );
            }
            Ok(Geometry::Line(line))
        }
        "Polygon" => Ok(Geometry::Polygons(vec![reader.polygon(coordinates)?])),
        "MultiPolygon" => {
            let polygons = coordinates.iter().map(|polygon| match polygon.as_array() {
                Some(rings) => reader.polygon(rings),
                None => invalid(
                    "The MultiPolygon input is not valid because a polygon of it is not an array.",
                ),
            });
            let polygons = polygons.collect::<Read<Vec<_>>>()?;
            if polygons.is_empty() {
                return invalid("The MultiPolygon input is not valid because it has no polygon.");
            }
            Ok(Geometry::Polygons(polygons))
        }
        other => invalid(format!(
            "The type '{other}' is not supported. It must be Point, LineString, Polygon or \
             MultiPolygon."
        )),
    }
}

struct Reader {
    is_planar: bool,
    /// Points of the current line or polygon so far.
    points: usize,
}

impl Reader {
    /// Reads the rings of a polygon. The limit of points holds for each polygon.
    fn polygon(&mut self, rings: &[Json]) -> Read<Vec<Vec<Position>>> {
        if rings.is_empty() {
            return invalid("The Polygon input is not valid because it has no ring.");
        }
        self.points = 0;
        let mut polygon = Vec::with_capacity(rings.len());
        for (number, ring) in (1..).zip(rings) {
            let Some(ring) = ring.as_array() else {
                return invalid(format!(
                    "The Polygon input is not valid because the ring number {number} is not an \
                     array."
                ));
            };
            let ring = self.positions(ring)?;
            if ring.first() != ring.last() {
                return invalid(format!(
                    "The Polygon input is not valid because the start and end points of the ring \
                     number {number} are not the same. Each ring of a polygon must have the same \
                     start and end points."
                ));
            }
            // Repeated points are dropped before the points are counted.
            let mut distinct = ring.clone();
            distinct.dedup();
            if distinct.len() < 4 {
                return invalid(format!(
                    "The Polygon input is not valid because the ring number {number} does not have \
                     enough points. Each ring of a polygon must have at least three different \
                     points and end where it begins."
                ));
            }
            polygon.push(distinct);
        }
        Ok(polygon)
    }

    fn positions(&mut self, list: &[Json]) -> Read<Vec<Position>> {
        self.points += list.len();
        if self.points > MAX_POINTS {
            return invalid(format!(
                "The input is not valid because it has more than {MAX_POINTS} points."
            ));
        }
        let each = list.iter().map(|position| match position.as_array() {
            Some(position) => self.position(position),
            None => invalid("A position must be an array of numbers."),
        });
        each.collect()
    }

    fn position(&self, numbers: &[Json]) -> Read<Position> {
        let numbers: Option<Vec<f64>> = numbers.iter().map(Json::as_f64).collect();
        let position = match numbers.as_deref() {
            Some([x, y] | [x, y, _]) if x.is_finite() && y.is_finite() => [*x, *y],
            _ => return invalid("A position must be an array of two or three numbers."),
        };
        if !self.is_planar && !(-90.0..=90.0).contains(&position[1]) {
            return invalid("Latitude values must be between -90 and 90 degrees.");
        }
        if !self.is_planar && !(-180.0..=180.0).contains(&position[0]) {
            return invalid("Longitude values must be between -180 and 180 degrees.");
        }
        Ok(position)
    }
}
