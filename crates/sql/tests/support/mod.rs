//! What the tests of this crate stand on: items in memory as a source, an evaluator for conditions that is written
//! apart from the one that makes them, and ways to run a query.

#![allow(dead_code)] // each test file uses its own part

pub mod script;

use bytes::Bytes;
use orrery_model::json::{Json, TypeRank, compare, parse};
use orrery_sql::{
    Bounds, Candidate, Condition, Demand, Environment, Functions, OrderKey, Path, Query,
    QueryError, ResumePoint, Source, Step, Test, ValueType, VectorPath, Work,
};
use std::cmp::Ordering;
use std::ops::Bound;

/// Items in memory, from a position on.
pub struct Items {
    pub items: Vec<Bytes>,
    pub at: usize,
    pub ordered: bool,
    pub satisfied: bool,
    pub with_text: bool,
}

impl Source for Items {
    fn next(&mut self) -> Result<Option<Candidate>, QueryError> {
        let Some(item) = self.items.get(self.at) else {
            return Ok(None);
        };
        self.at += 1;
        Ok(Some(Candidate {
            text: self.with_text.then(|| item.clone()),
            condition_holds: self.satisfied,
            item_number: None,
        }))
    }

    fn is_ordered(&self) -> bool {
        self.ordered
    }

    fn position(&self) -> Vec<u8> {
        format!("at {}", self.at).into_bytes()
    }
}

/// User-defined functions of the tests: `add`, `nothing`, `fail`.
pub struct Udfs;

impl Functions for Udfs {
    fn call(&mut self, name: &str, arguments: &[Option<Json>]) -> Result<Option<Json>, QueryError> {
        match name {
            "add" => {
                let numbers: Option<Vec<f64>> =
                    arguments.iter().map(|a| a.as_ref()?.as_f64()).collect();
                Ok(numbers.map(|n| Json::from(n.iter().sum::<f64>())))
            }
            "nothing" => Ok(None),
            _ => Err(QueryError::Udf {
                number: Some(400),
                message: format!("{name} failed"),
            }),
        }
    }
}

pub fn environment() -> Environment {
    Environment {
        user_functions: ["add", "nothing", "fail"]
            .into_iter()
            .map(str::to_owned)
            .collect(),
        computed_properties: vec![
            (
                "lowerName".to_owned(),
                "SELECT VALUE LOWER(c.name) FROM c".to_owned(),
            ),
            (
                "total".to_owned(),
                "SELECT VALUE (c.price * c.quantity) FROM c".to_owned(),
            ),
        ],
        partition_key: vec![Path(vec![Step::Name("key".to_owned())])],
        ..Environment::default()
    }
}

/// The environment of a container with these settings: `planar`, `vectors` (distance function by path), `dataType` (of
/// all vectors), `languages` (by path), `defaultLanguage`.
pub fn environment_of(settings: &Json) -> Environment {
    let members = |name: &str| {
        let object = settings
            .get(name)
            .and_then(Json::as_object)
            .cloned()
            .unwrap_or_default();
        let pairs: Vec<_> = object
            .iter()
            .map(|(path, v)| (path_of(path), v.as_str().expect("text").to_owned()))
            .collect();
        pairs
    };
    let text = |name: &str| settings.get(name).and_then(Json::as_str).map(str::to_owned);
    let data_type = text("dataType").unwrap_or_else(|| "float32".to_owned());
    let vectors = members("vectors")
        .into_iter()
        .map(|(path, distance_function)| VectorPath {
            path,
            data_type: data_type.clone(),
            distance_function,
        });
    Environment {
        is_planar: settings
            .get("planar")
            .and_then(Json::as_bool)
            .unwrap_or(false),
        vector_paths: vectors.collect(),
        full_text_paths: members("languages"),
        default_language: text("defaultLanguage"),
        ..environment()
    }
}

fn path_of(text: &str) -> Path {
    Path(
        text.split('/')
            .skip(1)
            .map(|name| Step::Name(name.to_owned()))
            .collect(),
    )
}

/// Compiles a query, and asks all items for the statistics that it needs.
pub fn compile(
    text: &str,
    parameters: &[(String, Json)],
    environment: &Environment,
    items: &[Bytes],
) -> Result<Query, QueryError> {
    let query = Query::compile(text, parameters, environment)?;
    let Some(statistics) = query.statistics_query() else {
        return Ok(query);
    };
    let asked = Query::compile(statistics, parameters, environment)?;
    let rows = rows(&asked, items, PLAIN, &mut Work::default())?;
    Ok(query.with_statistics(&parse(rows[0].as_bytes()).expect("a row")))
}

/// How a run is set up.
#[derive(Clone, Copy)]
pub struct Way {
    pub max_items: usize,
    pub max_bytes: usize,
    /// The source applies the condition, sorts if it can, and says so.
    pub clever_source: bool,
}

pub const PLAIN: Way = Way {
    max_items: usize::MAX,
    max_bytes: usize::MAX,
    clever_source: false,
};

/// All rows of a query, page by page, each position taken through its bytes.
pub fn rows(
    query: &Query,
    items: &[Bytes],
    way: Way,
    work: &mut Work,
) -> Result<Vec<String>, QueryError> {
    let (items, ordered) = if way.clever_source {
        served(query, items)
    } else {
        (items.to_vec(), false)
    };
    let satisfied = way.clever_source && query.condition_is_exact();
    let with_text = !(way.clever_source && query.demand() == Demand::Count);
    let mut rows = Vec::new();
    let mut resume: Option<ResumePoint> = None;
    for _ in 0..100_000 {
        let position = resume
            .as_ref()
            .map(|r| String::from_utf8_lossy(&r.position).into_owned())
            .unwrap_or_default();
        let at = position
            .strip_prefix("at ")
            .and_then(|n| n.parse().ok())
            .unwrap_or(0);
        let mut source = Items {
            items: items.clone(),
            at,
            ordered,
            satisfied,
            with_text,
        };
        let mut never = || false;
        let mut bounds = Bounds {
            max_items: way.max_items,
            max_bytes: way.max_bytes,
            max_memory: 1 << 28,
            is_expired: &mut never,
            now_ms: 1_700_000_000_123,
            started_ms: 1_700_000_000_000,
            random_seed: 42,
        };
        let page = query.run(&mut source, &mut Udfs, resume.as_ref(), &mut bounds, work)?;
        assert!(page.rows.len() <= way.max_items);
        rows.extend(
            page.rows
                .iter()
                .map(|r| String::from_utf8(r.to_vec()).expect("rows are UTF-8")),
        );
        match page.resume {
            None => return Ok(rows),
            Some(next) => resume = Some(ResumePoint::decode(&next.encode())?),
        }
    }
    panic!("the query never ends");
}

/// The items as an engine with every index would bring them.
pub fn served(query: &Query, items: &[Bytes]) -> (Vec<Bytes>, bool) {
    let parsed = items
        .iter()
        .map(|text| (parse(text).expect("items are JSON"), text.clone()));
    let mut kept: Vec<(Json, Bytes)> = parsed
        .filter(|(item, _)| holds(query.condition(), item))
        .collect();
    let paths: Option<Vec<(&Path, bool)>> = query
        .order()
        .iter()
        .map(|OrderKey { path, descending }| path.as_ref().map(|p| (p, *descending)))
        .collect();
    let Some(paths) = paths.filter(|p| !p.is_empty()) else {
        return (kept.into_iter().map(|(_, text)| text).collect(), false);
    };
    kept.sort_by(|(a, _), (b, _)| {
        let orders = paths.iter().map(|(path, descending)| {
            let (a, b) = (at(path, a), at(path, b));
            let order = match (a.first(), b.first()) {
                (Some(a), Some(b)) => compare(a, b),
                (a, b) => a.is_some().cmp(&b.is_some()),
            };
            if *descending { order.reverse() } else { order }
        });
        orders
            .into_iter()
            .find(|o| o.is_ne())
            .unwrap_or(Ordering::Equal)
    });
    (kept.into_iter().map(|(_, text)| text).collect(), true)
}

/// The values at a path.
fn at<'j>(path: &Path, item: &'j Json) -> Vec<&'j Json> {
    path.0.iter().fold(vec![item], |values, step| match step {
        Step::Name(name) => values.into_iter().filter_map(|v| v.get(name)).collect(),
        Step::Element => values
            .into_iter()
            .filter_map(Json::as_array)
            .flatten()
            .collect(),
    })
}

/// Whether an item fulfils a condition.
pub fn holds(condition: &Condition, item: &Json) -> bool {
    match condition {
        Condition::All => true,
        Condition::Never => false,
        Condition::And(parts) => parts.iter().all(|c| holds(c, item)),
        Condition::Or(parts) => parts.iter().any(|c| holds(c, item)),
        Condition::Term { path, test, .. } => {
            let values = at(path, item);
            match test {
                Test::NotDefined => values.is_empty(),
                test => values.into_iter().any(|v| passes(test, v)),
            }
        }
    }
}

fn passes(test: &Test, value: &Json) -> bool {
    match test {
        Test::Equals(wanted) => value == wanted,
        Test::NotEquals(other) => value != other,
        Test::In(list) => list.contains(value),
        Test::Range { lower, upper } => {
            let one_type = |end: &Json| TypeRank::of(end) == TypeRank::of(value);
            let above = match lower {
                Bound::Included(l) => one_type(l) && compare(value, l).is_ge(),
                Bound::Excluded(l) => one_type(l) && compare(value, l).is_gt(),
                Bound::Unbounded => true,
            };
            let below = match upper {
                Bound::Included(u) => one_type(u) && compare(value, u).is_le(),
                Bound::Excluded(u) => one_type(u) && compare(value, u).is_lt(),
                Bound::Unbounded => true,
            };
            above && below
        }
        Test::Defined => true,
        Test::NotDefined => false,
        Test::Prefix(prefix) => value
            .as_str()
            .is_some_and(|s| s.starts_with(prefix.as_str())),
        Test::ScanStrings(test) => value.as_str().is_some_and(|s| test(s)),
        Test::Near { geometry, distance } => {
            let (own, other) = (
                orrery_sql::extents(value, false),
                orrery_sql::extents_within(geometry, false, *distance),
            );
            own.zip(other)
                .is_some_and(|(own, other)| own.iter().any(|a| other.iter().any(|b| a.touches(b))))
        }
        Test::IsType(kind) => match kind {
            ValueType::Bool => value.as_bool().is_some(),
            ValueType::Number => value.as_f64().is_some(),
            ValueType::String => value.as_str().is_some(),
            ValueType::Array => value.as_array().is_some(),
            ValueType::Object => value.as_object().is_some(),
        },
    }
}

/// One page, in which the clock runs out at its `looks`th look.
pub fn page(
    query: &Query,
    items: &[Bytes],
    resume: Option<&ResumePoint>,
    looks: usize,
    memory: usize,
) -> Result<(Vec<String>, Option<ResumePoint>), QueryError> {
    let position = resume
        .map(|r| String::from_utf8_lossy(&r.position).into_owned())
        .unwrap_or_default();
    let at = position
        .strip_prefix("at ")
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let mut source = Items {
        items: items.to_vec(),
        at,
        ordered: false,
        satisfied: false,
        with_text: true,
    };
    let mut left = looks;
    let mut expired = || {
        left = left.saturating_sub(1);
        left == 0
    };
    let mut bounds = Bounds {
        max_items: 1_000_000,
        max_bytes: 1 << 30,
        max_memory: memory,
        is_expired: &mut expired,
        now_ms: 0,
        started_ms: 0,
        random_seed: 1,
    };
    let page = query.run(
        &mut source,
        &mut Udfs,
        resume,
        &mut bounds,
        &mut Work::default(),
    )?;
    Ok((
        page.rows
            .iter()
            .map(|r| String::from_utf8_lossy(r).into_owned())
            .collect(),
        page.resume,
    ))
}
