//! Support for the tests of this crate: items in memory as a source, user-defined functions, and
//! ways to run a query.
//!
//! [`fulfils`] evaluates a condition without the code of the crate, so that a test compares two
//! implementations.

#![allow(dead_code)] // the fuzz targets include the module and use a part of it

pub(crate) mod script;

use bytes::Bytes;
use orrery_model::json::{Json, TypeRank, compare, parse};
use orrery_sql::{
    Bounds, Candidate, Condition, Demand, Environment, Functions, MergeSupport, OrderKey, Page,
    Path, PlanRequest, PlanScope, Query, QueryError, ResumePoint, Source, Step, Test, ValueType,
    VectorPath, Work, has_word,
};
use std::cmp::Ordering;
use std::ops::Bound;

/// A source of items in memory. Its positions read `at <index>`.
#[derive(Clone)]
pub(crate) struct Items {
    pub items: Vec<Bytes>,
    /// The index of the next item.
    pub at: usize,
    pub is_ordered: bool,
    pub condition_holds: bool,
    pub has_text: bool,
}

impl Items {
    /// Creates a source without an index.
    pub(crate) fn new(items: &[Bytes]) -> Self {
        Items {
            items: items.to_vec(),
            at: 0,
            is_ordered: false,
            condition_holds: false,
            has_text: true,
        }
    }

    /// Creates a source with an index for every path, see [`served_by_index`].
    pub(crate) fn indexed(query: &Query, items: &[Bytes]) -> Self {
        let (items, is_ordered) = served_by_index(query, items);
        Items {
            items,
            at: 0,
            is_ordered,
            condition_holds: query.condition_is_exact(),
            has_text: query.demand() != Demand::Count,
        }
    }

    /// Returns the source at a resume point. Without a position it begins with the first item.
    pub(crate) fn starting_at(&self, resume: Option<&ResumePoint>) -> Self {
        let position = resume.map(|point| String::from_utf8_lossy(&point.position).into_owned());
        let at = position
            .as_deref()
            .and_then(|position| position.strip_prefix("at "))
            .and_then(|index| index.parse().ok());
        Items {
            at: at.unwrap_or(0),
            ..self.clone()
        }
    }
}

impl Source for Items {
    fn next(&mut self) -> Result<Option<Candidate>, QueryError> {
        let Some(item) = self.items.get(self.at) else {
            return Ok(None);
        };
        self.at += 1;
        Ok(Some(Candidate {
            text: self.has_text.then(|| item.clone()),
            condition_holds: self.condition_holds,
            item_number: None,
        }))
    }

    fn is_ordered(&self) -> bool {
        self.is_ordered
    }

    fn position(&self) -> Vec<u8> {
        format!("at {}", self.at).into_bytes()
    }
}

/// The user-defined functions of the tests: `add` adds numbers, `nothing` is undefined, `fail`
/// fails.
pub(crate) struct Udfs;

impl Functions for Udfs {
    fn call(&mut self, name: &str, arguments: &[Option<Json>]) -> Result<Option<Json>, QueryError> {
        match name {
            "add" => {
                let mut sum = 0.0;
                for argument in arguments {
                    match argument.as_ref().and_then(Json::as_f64) {
                        Some(number) => sum += number,
                        None => return Ok(None),
                    }
                }
                Ok(Some(Json::from(sum)))
            }
            "nothing" => Ok(None),
            _ => Err(QueryError::Udf {
                number: Some(400),
                message: format!("{name} failed"),
            }),
        }
    }
}

pub(crate) fn environment() -> Environment {
    let computed = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    Environment {
        user_functions: ["add", "nothing", "fail"].map(str::to_owned).into(),
        computed_properties: vec![
            computed("lowerName", "SELECT VALUE LOWER(c.name) FROM c"),
            computed("total", "SELECT VALUE (c.price * c.quantity) FROM c"),
        ],
        partition_key: vec![Path(vec![Step::Name("key".to_owned())])],
        ..Environment::default()
    }
}

/// Returns the environment of a container with these settings: `planar`, `vectors` (distance
/// function by path), `dataType` (of all vectors), `languages` (by path), `defaultLanguage`.
pub(crate) fn environment_of(settings: &Json) -> Environment {
    let text = |name: &str| settings.get(name).and_then(Json::as_str).map(str::to_owned);
    let data_type = text("dataType").unwrap_or_else(|| "float32".to_owned());
    let vector_paths = texts_by_path(settings, "vectors")
        .into_iter()
        .map(|(path, distance_function)| VectorPath {
            path,
            data_type: data_type.clone(),
            distance_function,
        })
        .collect();
    Environment {
        is_planar: settings
            .get("planar")
            .and_then(Json::as_bool)
            .unwrap_or(false),
        vector_paths,
        full_text_paths: texts_by_path(settings, "languages"),
        default_language: text("defaultLanguage"),
        ..environment()
    }
}

/// Returns the members of an object whose names are paths and whose values are strings.
fn texts_by_path(settings: &Json, name: &str) -> Vec<(Path, String)> {
    let Some(members) = settings.get(name).and_then(Json::as_object) else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    for (path, text) in members.iter() {
        let steps = path.split('/').skip(1);
        let path = Path(steps.map(|name| Step::Name(name.to_owned())).collect());
        texts.push((path, text.as_str().expect("text").to_owned()));
    }
    texts
}

/// Compiles a query, and runs the query for the statistics that it needs over all items.
pub(crate) fn compile(
    text: &str,
    parameters: &[(String, Json)],
    environment: &Environment,
    items: &[Bytes],
) -> Result<Query, QueryError> {
    let query = Query::compile(text, parameters, environment)?;
    let Some(statistics) = query.statistics_query() else {
        return Ok(query);
    };
    let statistics = Query::compile(statistics, parameters, environment)?;
    let rows = rows(&statistics, items, FULL_SCAN, &mut Work::default())?;
    Ok(query.with_statistics(&parse(rows[0].as_bytes()).expect("a row")))
}

/// The limits of the pages, and the kind of source.
#[derive(Clone, Copy)]
pub(crate) struct RunOptions {
    pub max_items: usize,
    pub max_bytes: usize,
    /// The source applies the condition and, if it can, the order; see [`Items::indexed`].
    pub uses_index: bool,
}

/// The features of a client that can do every merge. It reads the first form of the rows of hybrid
/// searches.
pub(crate) const ALL_FEATURES: &str = "Aggregate, CountIf, DCount, Distinct, GroupBy, \
                                       HybridSearch, ListAndSetAggregate, MultipleAggregates, \
                                       MultipleOrderBy, NonStreamingOrderBy, NonValueAggregate, \
                                       OffsetAndLimit, OrderBy, Top, WeightedRankFusion";

/// A request for the plan of a client with these features.
pub(crate) fn plan_request(features: &str) -> PlanRequest<'_> {
    PlanRequest {
        support: MergeSupport::Listed(features),
        scope: PlanScope::Container,
    }
}

/// One page, from a source without an index.
pub(crate) const FULL_SCAN: RunOptions = RunOptions {
    max_items: usize::MAX,
    max_bytes: usize::MAX,
    uses_index: false,
};

/// Returns bounds without limits other than 256 MiB of memory, at a fixed time and with a fixed
/// seed.
pub(crate) fn bounds(is_expired: &mut dyn FnMut() -> bool) -> Bounds<'_> {
    Bounds {
        max_items: usize::MAX,
        max_bytes: usize::MAX,
        max_memory: 1 << 28,
        reserve: None,
        reserve_rows: None,
        is_expired,
        clock: None,
        now_ms: 1_700_000_000_123,
        started_ms: 1_700_000_000_000,
        random_seed: 42,
    }
}

/// Returns all rows of a query, page by page. Every resume point is encoded and decoded.
pub(crate) fn rows(
    query: &Query,
    items: &[Bytes],
    options: RunOptions,
    work: &mut Work,
) -> Result<Vec<String>, QueryError> {
    let source = if options.uses_index {
        Items::indexed(query, items)
    } else {
        Items::new(items)
    };
    let mut rows = Vec::new();
    let mut resume: Option<ResumePoint> = None;
    for _ in 0..100_000 {
        let mut source = source.starting_at(resume.as_ref());
        let mut never = || false;
        let mut bounds = Bounds {
            max_items: options.max_items,
            max_bytes: options.max_bytes,
            ..bounds(&mut never)
        };
        let page = query.run(&mut source, &mut Udfs, resume.as_ref(), &mut bounds, work)?;
        assert!(page.rows.len() <= options.max_items);
        rows.extend(texts(&page));
        match page.resume {
            None => return Ok(rows),
            Some(next) => resume = Some(ResumePoint::decode(&next.encode())?),
        }
    }
    panic!("the query never ends");
}

/// Returns the rows of a page as texts.
pub(crate) fn texts(page: &Page) -> impl Iterator<Item = String> {
    page.rows
        .iter()
        .map(|row| String::from_utf8(row.to_vec()).expect("rows are UTF-8"))
}

/// Returns one page whose time is over at the `checks`th reading of the clock.
pub(crate) fn page(
    query: &Query,
    items: &[Bytes],
    resume: Option<&ResumePoint>,
    checks: usize,
    max_memory: usize,
) -> Result<(Vec<String>, Option<ResumePoint>), QueryError> {
    let mut source = Items::new(items).starting_at(resume);
    let mut checks_left = checks;
    let mut is_expired = || {
        checks_left = checks_left.saturating_sub(1);
        checks_left == 0
    };
    let mut bounds = Bounds {
        max_items: 1_000_000,
        max_bytes: 1 << 30,
        max_memory,
        ..bounds(&mut is_expired)
    };
    let mut work = Work::default();
    let page = query.run(&mut source, &mut Udfs, resume, &mut bounds, &mut work)?;
    Ok((texts(&page).collect(), page.resume))
}

/// Returns the items as an engine with an index for every path returns them: only items that fulfil
/// the condition, and in the order of ORDER BY if all its keys are paths. The boolean is true if
/// the items are in that order.
pub(crate) fn served_by_index(query: &Query, items: &[Bytes]) -> (Vec<Bytes>, bool) {
    let mut kept: Vec<(Json, Bytes)> = Vec::new();
    for text in items {
        let item = parse(text).expect("items are JSON");
        if fulfils(query.condition(), &item) {
            kept.push((item, text.clone()));
        }
    }
    let paths: Option<Vec<(&Path, bool)>> = query
        .order()
        .iter()
        .map(|key: &OrderKey| key.path.as_ref().map(|path| (path, key.descending)))
        .collect();
    let paths = paths.unwrap_or_default();
    kept.sort_by(|(a, _), (b, _)| compare_items(&paths, a, b));
    let items = kept.into_iter().map(|(_, text)| text).collect();
    (items, !paths.is_empty())
}

/// Compares two items by the first values at some paths. Undefined is less than every value.
fn compare_items(paths: &[(&Path, bool)], a: &Json, b: &Json) -> Ordering {
    for (path, is_descending) in paths {
        let (a, b) = (values_at(path, a), values_at(path, b));
        let order = match (a.first(), b.first()) {
            // Arrays have no order among each other, nor have objects.
            (Some(Json::Array(_)), Some(Json::Array(_)))
            | (Some(Json::Object(_)), Some(Json::Object(_))) => Ordering::Equal,
            (Some(a), Some(b)) => compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        };
        if order.is_ne() {
            return if *is_descending {
                order.reverse()
            } else {
                order
            };
        }
    }
    Ordering::Equal
}

/// Returns the values at a path.
fn values_at<'j>(path: &Path, item: &'j Json) -> Vec<&'j Json> {
    let mut values = vec![item];
    for step in &path.0 {
        values = match step {
            Step::Name(name) => values.into_iter().filter_map(|v| v.get(name)).collect(),
            Step::Element => values
                .into_iter()
                .filter_map(Json::as_array)
                .flatten()
                .collect(),
        };
    }
    values
}

/// Returns true if an item fulfils a condition.
pub(crate) fn fulfils(condition: &Condition, item: &Json) -> bool {
    match condition {
        Condition::All => true,
        Condition::Never => false,
        Condition::And(parts) => parts.iter().all(|c| fulfils(c, item)),
        Condition::Or(parts) => parts.iter().any(|c| fulfils(c, item)),
        Condition::Term { path, test, .. } => {
            let values = values_at(path, item);
            match test {
                Test::NotDefined => values.is_empty(),
                test => values.into_iter().any(|value| passes(test, value)),
            }
        }
    }
}

fn passes(test: &Test, value: &Json) -> bool {
    match test {
        Test::Equals(wanted) => value == wanted,
        Test::NotEquals(other) => value != other,
        Test::In(list) => list.contains(value),
        // A range contains values of the type of its ends only.
        Test::Range { lower, upper } => {
            let has_type_of = |end: &Json| TypeRank::of(end) == TypeRank::of(value);
            let is_above = match lower {
                Bound::Included(l) => has_type_of(l) && compare(value, l).is_ge(),
                Bound::Excluded(l) => has_type_of(l) && compare(value, l).is_gt(),
                Bound::Unbounded => true,
            };
            let is_below = match upper {
                Bound::Included(u) => has_type_of(u) && compare(value, u).is_le(),
                Bound::Excluded(u) => has_type_of(u) && compare(value, u).is_lt(),
                Bound::Unbounded => true,
            };
            is_above && is_below
        }
        Test::Defined => true,
        Test::NotDefined => false,
        Test::Prefix(prefix) => value
            .as_str()
            .is_some_and(|text| text.starts_with(prefix.as_str())),
        Test::ScanStrings(test) => value.as_str().is_some_and(|text| test(text)),
        Test::Near { geometry, distance } => {
            let own = orrery_sql::extents(value, false).unwrap_or_default();
            let wanted = orrery_sql::extents_within(geometry, false, *distance).unwrap_or_default();
            own.iter().any(|a| wanted.iter().any(|b| a.touches(b)))
        }
        Test::HasWord { language, word } => value
            .as_str()
            .is_some_and(|text| has_word(language, text, word)),
        Test::IsType(kind) => match kind {
            ValueType::Bool => value.as_bool().is_some(),
            ValueType::Number => value.as_f64().is_some(),
            ValueType::String => value.as_str().is_some(),
            ValueType::Array => value.as_array().is_some(),
            ValueType::Object => value.as_object().is_some(),
        },
    }
}
