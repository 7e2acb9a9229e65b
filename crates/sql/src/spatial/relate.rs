//! Where figures lie to each other.
//!
//! Everything is cut at the places where edges meet; between two such places a segment lies wholly inside, outside or on
//! an edge, and its middle says which. Costs the product of the points of both figures.

use super::{Figure, Position, Space, Turn, turns};
use crate::error::QueryError;

/// A figure made ready.
pub(super) enum Shape<S: Space> {
    Point(S::Point),
    Line(Vec<S::Point>),
    /// Rings of each polygon, the outer one first.
    Polygons(Vec<Vec<Vec<S::Point>>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Inside,
    Edge,
    Outside,
}

impl<S: Space> Shape<S> {
    pub fn of(figure: &Figure) -> Self {
        let points = |list: &[Position]| list.iter().map(|p| S::point(*p)).collect::<Vec<_>>();
        match figure {
            Figure::Point(position) => Shape::Point(S::point(*position)),
            Figure::Line(line) => Shape::Line(points(line)),
            Figure::Polygons(polygons) => {
                let ring = |(at, ring): (usize, &Vec<Position>)| match at {
                    0 => points(ring),
                    _ => S::as_hole(points(ring)),
                };
                Shape::Polygons(
                    polygons
                        .iter()
                        .map(|rings| rings.iter().enumerate().map(ring).collect())
                        .collect(),
                )
            }
        }
    }

    /// The lines that bound or make the figure; a point is a line of one point.
    pub fn lines(&self) -> Vec<&[S::Point]> {
        match self {
            Shape::Point(point) => vec![std::slice::from_ref(point)],
            Shape::Line(line) => vec![line],
            Shape::Polygons(polygons) => polygons.iter().flatten().map(Vec::as_slice).collect(),
        }
    }

    /// All segments; a point is one from itself to itself.
    pub fn segments(&self) -> Vec<(S::Point, S::Point)> {
        let mut segments = Vec::new();
        for line in self.lines() {
            match line {
                [only] => segments.push((*only, *only)),
                line => segments.extend(line.windows(2).map(|pair| (pair[0], pair[1]))),
            }
        }
        segments
    }

    /// Where a point lies. Of a line the ends are its edge, unless they are one.
    fn place(&self, p: S::Point) -> Place {
        match self {
            Shape::Point(point) if is_on::<S>(*point, *point, p) => Place::Inside,
            Shape::Point(_) => Place::Outside,
            Shape::Line(line) => {
                if !line.windows(2).any(|pair| is_on::<S>(pair[0], pair[1], p)) {
                    return Place::Outside;
                }
                let (first, last) = (line[0], line[line.len() - 1]);
                let (begins, ends) = (is_on::<S>(first, first, p), is_on::<S>(last, last, p));
                if begins != ends {
                    Place::Edge
                } else {
                    Place::Inside
                }
            }
            Shape::Polygons(polygons) => {
                let mut place = Place::Outside;
                for rings in polygons {
                    match place_in_polygon::<S>(rings, p) {
                        Place::Inside => return Place::Inside,
                        Place::Edge => place = Place::Edge,
                        Place::Outside => {}
                    }
                }
                place
            }
        }
    }
}

fn place_in_polygon<S: Space>(rings: &[Vec<S::Point>], p: S::Point) -> Place {
    if rings
        .iter()
        .any(|ring| ring.windows(2).any(|edge| is_on::<S>(edge[0], edge[1], p)))
    {
        return Place::Edge;
    }
    let inside = |ring: &Vec<S::Point>| S::is_inside(ring, p);
    match rings.split_first() {
        Some((outer, holes)) if inside(outer) && !holes.iter().any(inside) => Place::Inside,
        _ => Place::Outside,
    }
}

fn is_on<S: Space>(a: S::Point, b: S::Point, p: S::Point) -> bool {
    S::is_between(a, b, p) && S::side(a, b, p) == 0
}

/// Whether two segments have a point in common.
fn meet<S: Space>(a: S::Point, b: S::Point, c: S::Point, d: S::Point) -> bool {
    S::crossing(a, b, c, d).is_some()
        || is_on::<S>(a, b, c)
        || is_on::<S>(a, b, d)
        || is_on::<S>(c, d, a)
        || is_on::<S>(c, d, b)
}

pub(super) fn intersects<S: Space>(
    a: &Figure,
    b: &Figure,
    turn: &mut Turn<'_>,
) -> Result<bool, QueryError> {
    shapes_intersect(&Shape::<S>::of(a), &Shape::<S>::of(b), turn)
}

pub(super) fn shapes_intersect<S: Space>(
    a: &Shape<S>,
    b: &Shape<S>,
    turn: &mut Turn<'_>,
) -> Result<bool, QueryError> {
    let others = b.segments();
    for (p, q) in a.segments() {
        turns(turn, others.len())?;
        if others.iter().any(|(c, d)| meet::<S>(p, q, *c, *d)) {
            return Ok(true);
        }
    }
    // No edges meet: one lies in the other, or they are apart.
    let begins_in = |a: &Shape<S>, b: &Shape<S>| {
        a.lines()
            .iter()
            .any(|line| b.place(line[0]) != Place::Outside)
    };
    Ok(begins_in(a, b) || begins_in(b, a))
}

pub(super) fn is_within<S: Space>(
    a: &Figure,
    b: &Figure,
    turn: &mut Turn<'_>,
) -> Result<bool, QueryError> {
    let (a, b) = (Shape::<S>::of(a), Shape::<S>::of(b));
    if let Shape::Point(point) = a {
        return Ok(b.place(point) == Place::Inside);
    }
    let others = b.segments();
    let mut touches_inside = false;
    for (p, q) in a.segments() {
        turns(turn, others.len())?;
        for middle in pieces::<S>(p, q, &others) {
            turns(turn, others.len())?;
            match b.place(middle) {
                Place::Outside => return Ok(false),
                Place::Inside => touches_inside = true,
                Place::Edge => {}
            }
        }
    }
    match (&a, &b) {
        (Shape::Polygons(_), Shape::Polygons(_)) => {
            // Nothing of the other's edge may lie in the middle of it.
            let own = a.segments();
            for (p, q) in &others {
                turns(turn, own.len())?;
                for middle in pieces::<S>(*p, *q, &own) {
                    turns(turn, own.len())?;
                    if a.place(middle) == Place::Inside {
                        return Ok(false);
                    }
                }
            }
            Ok(true)
        }
        (Shape::Polygons(_), _) => Ok(false),
        _ => Ok(touches_inside),
    }
}

/// The middles of the pieces into which other segments cut one.
fn pieces<S: Space>(p: S::Point, q: S::Point, others: &[(S::Point, S::Point)]) -> Vec<S::Point> {
    let mut cuts = vec![0.0, 1.0];
    for (c, d) in others {
        let mut cut = |point: S::Point| cuts.push(S::nearness(p, q, point).1);
        if let Some(point) = S::crossing(p, q, *c, *d) {
            cut(point);
            continue;
        }
        [*c, *d]
            .into_iter()
            .filter(|end| is_on::<S>(p, q, *end))
            .for_each(&mut cut);
    }
    cuts.sort_by(f64::total_cmp);
    cuts.dedup_by(|b, a| *b - *a < 1e-9);
    cuts.windows(2)
        .map(|pair| S::along(p, q, (pair[0] + pair[1]) / 2.0))
        .collect()
}

pub(super) fn crossed_ring<S: Space>(
    figure: &Figure,
    turn: &mut Turn<'_>,
) -> Result<Option<(usize, usize)>, QueryError> {
    let Figure::Polygons(polygons) = figure else {
        return Ok(None);
    };
    for (polygon, rings) in (1..).zip(polygons) {
        for (number, ring) in (1..).zip(rings) {
            let points: Vec<S::Point> = ring.iter().map(|p| S::point(*p)).collect();
            for (at, edge) in points.windows(2).enumerate() {
                turns(turn, points.len() - at)?;
                let later = points.windows(2).skip(at + 1);
                if later
                    .into_iter()
                    .any(|other| S::crossing(edge[0], edge[1], other[0], other[1]).is_some())
                {
                    return Ok(Some((polygon, number)));
                }
            }
        }
    }
    Ok(None)
}
