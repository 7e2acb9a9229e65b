//! GeoJSON to figures, and what is wrong with it in a sentence.

use super::{Figure, POINTS_MOST, Position};
use orrery_model::json::Json;

/// Why a value is no figure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw(pub String);

type Read<T> = Result<T, Flaw>;

fn flaw<T>(what: impl Into<String>) -> Read<T> {
    Err(Flaw(what.into()))
}

/// Reads a GeoJSON object. On the Earth longitudes and latitudes have their bounds.
pub(crate) fn read(json: &Json, planar: bool) -> Read<Figure> {
    let Some(kind) = json.get("type").and_then(Json::as_str) else {
        return flaw("The GeoJSON object must have a 'type' that is a string.");
    };
    let Some(coordinates) = json.get("coordinates").and_then(Json::as_array) else {
        return flaw("The GeoJSON object must have 'coordinates' that are an array.");
    };
    let mut reader = Reader { planar, points: 0 };
    match kind {
        "Point" => Ok(Figure::Point(reader.position(coordinates)?)),
        "LineString" => {
            let line = reader.positions(coordinates)?;
            if line.len() < 2 || line.iter().all(|p| *p == line[0]) {
                return flaw(
                    "The LineString input is not valid because it does not have two different points.",
                );
            }
            Ok(Figure::Line(line))
        }
        "Polygon" => Ok(Figure::Polygons(vec![reader.polygon(coordinates)?])),
        "MultiPolygon" => {
            let each = coordinates.iter().map(|polygon| match polygon.as_array() {
                Some(rings) => reader.polygon(rings),
                None => flaw(
                    "The MultiPolygon input is not valid because a polygon of it is not an array.",
                ),
            });
            let polygons = each.collect::<Read<Vec<_>>>()?;
            if polygons.is_empty() {
                return flaw("The MultiPolygon input is not valid because it has no polygon.");
            }
            Ok(Figure::Polygons(polygons))
        }
        other => flaw(format!(
            "The type '{other}' is not supported. It must be Point, LineString, Polygon or MultiPolygon."
        )),
    }
}

struct Reader {
    planar: bool,
    points: usize,
}

impl Reader {
    fn polygon(&mut self, rings: &[Json]) -> Read<Vec<Vec<Position>>> {
        if rings.is_empty() {
            return flaw("The Polygon input is not valid because it has no ring.");
        }
        self.points = 0;
        let mut read = Vec::with_capacity(rings.len());
        for (number, ring) in (1..).zip(rings) {
            let Some(ring) = ring.as_array() else {
                return flaw(format!(
                    "The Polygon input is not valid because the ring number {number} is not an array."
                ));
            };
            let ring = self.positions(ring)?;
            if ring.first() != ring.last() {
                return flaw(format!(
                    "The Polygon input is not valid because the start and end points of the ring number {number} are \
                     not the same. Each ring of a polygon must have the same start and end points."
                ));
            }
            // A ring may stand still for a while; what counts is what it goes around.
            let mut moving = ring.clone();
            moving.dedup();
            if moving.len() < 4 {
                return flaw(format!(
                    "The Polygon input is not valid because the ring number {number} does not have enough points. Each \
                     ring of a polygon must have at least three different points and end where it begins."
                ));
            }
            read.push(moving);
        }
        Ok(read)
    }

    fn positions(&mut self, list: &[Json]) -> Read<Vec<Position>> {
        self.points += list.len();
        if self.points > POINTS_MOST {
            return flaw(format!(
                "The input is not valid because it has more than {POINTS_MOST} points."
            ));
        }
        let each = list.iter().map(|position| match position.as_array() {
            Some(position) => self.position(position),
            None => flaw("A position must be an array of numbers."),
        });
        each.collect()
    }

    fn position(&self, numbers: &[Json]) -> Read<Position> {
        let numbers: Option<Vec<f64>> = numbers.iter().map(Json::as_f64).collect();
        let position = match numbers.as_deref() {
            Some([x, y] | [x, y, _]) if x.is_finite() && y.is_finite() => [*x, *y],
            _ => return flaw("A position must be an array of two or three numbers."),
        };
        if !self.planar && !(-90.0..=90.0).contains(&position[1]) {
            return flaw("Latitude values must be between -90 and 90 degrees.");
        }
        if !self.planar && !(-180.0..=180.0).contains(&position[0]) {
            return flaw("Longitude values must be between -180 and 180 degrees.");
        }
        Ok(position)
    }
}
