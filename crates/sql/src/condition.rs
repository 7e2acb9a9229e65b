//! What an index can use of a WHERE clause, in terms of paths of the root item.
//!
//! A [`Condition`] is *necessary*: an item that gives a row fulfils it. Where [`crate::Query::condition_is_exact`] says so it is
//! also sufficient, and a source that served all of it may mark its candidates as satisfied. Aliases are gone: for
//! `FROM c JOIN t IN c.tags WHERE t.name = "a"` the term is on the path `tags / [] / name`.
//!
//! A path with [`Step::Element`] is existential: *some* element of that array passes the test.

use orrery_model::json::Json;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// A step of a path from the root of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A property.
    Name(String),
    /// Any element of an array, `[]` in an indexing policy.
    Element,
}

/// A path from the root of an item; empty for the item itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(pub Vec<Step>);

/// A necessary condition on an item.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Nothing is asked.
    All,
    /// No item can pass.
    Never,
    /// Every part holds. At least two parts, none of them `And`, `All` or `Never`.
    And(Vec<Condition>),
    /// Some part holds. At least two parts, none of them `Or`, `All` or `Never`.
    Or(Vec<Condition>),
    /// A test on the value at a path.
    Term {
        /// Where the value is.
        path: Path,
        /// What it must be.
        test: Test,
        /// Whether the term says exactly what the predicate it came from says.
        exact: bool,
    },
}

/// A test on one value. Every test but [`Test::NotDefined`] fails on a missing value.
#[derive(Clone)]
pub enum Test {
    /// Equal to a scalar.
    Equals(Json),
    /// Defined and not equal to a scalar, of whatever type.
    NotEquals(Json),
    /// Equal to one of these scalars; they are distinct and at least two.
    In(Vec<Json>),
    /// Between two scalars of one type, and of that type itself. At least one side is bounded.
    Range {
        /// From here up.
        lower: Bound<Json>,
        /// Down from here.
        upper: Bound<Json>,
    },
    /// Present, `null` included.
    Defined,
    /// Missing. Never on a path with [`Step::Element`].
    NotDefined,
    /// A string that begins so.
    Prefix(String),
    /// A string that passes: CONTAINS, ENDSWITH, LIKE, REGEXMATCH and the case-insensitive ones. A full index scan.
    ScanStrings(Arc<dyn Fn(&str) -> bool + Send + Sync>),
    /// Of this type.
    IsType(ValueType),
    /// A GeoJSON value whose box touches that of another one, widened by a distance. Never exact.
    Near {
        /// The other one.
        geometry: Arc<Json>,
        /// How far away, in the container's measure.
        distance: f64,
    },
}

/// The types that IS_... functions ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// `true` and `false`
    Bool,
    /// any number
    Number,
    /// any string
    String,
    /// any array
    Array,
    /// any object
    Object,
}

/// One item of ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderKey {
    /// The path as a source can order by it; `None` if only the query itself can (array elements, computed
    /// properties).
    pub path: Option<Path>,
    /// DESC.
    pub descending: bool,
}

/// How much of each item the query looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// No FROM over the container: the source is never asked.
    Nothing,
    /// Only how many items pass, and the condition is exact: candidates may come without their text.
    Count,
    /// The items' content.
    Items,
}

impl fmt::Display for Path {
    /// As in an indexing policy: `/tags/[]/"first name"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Element => f.write_str("/[]")?,
                Step::Name(name) => {
                    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                        && !name.is_empty();
                    if plain {
                        write!(f, "/{name}")?
                    } else {
                        write!(f, "/{}", Json::from(name.as_str()))?
                    }
                }
            }
        }
        if self.0.is_empty() {
            f.write_str("/")
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Equals(v) => write!(f, "= {v}"),
            Test::NotEquals(v) => write!(f, "!= {v}"),
            Test::In(values) => {
                let texts: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "in ({})", texts.join(", "))
            }
            Test::Range { lower, upper } => {
                match lower {
                    Bound::Included(v) => write!(f, "[{v}, ")?,
                    Bound::Excluded(v) => write!(f, "({v}, ")?,
                    Bound::Unbounded => f.write_str("(.., ")?,
                }
                match upper {
                    Bound::Included(v) => write!(f, "{v}]"),
                    Bound::Excluded(v) => write!(f, "{v})"),
                    Bound::Unbounded => f.write_str("..)"),
                }
            }
            Test::Defined => f.write_str("defined"),
            Test::NotDefined => f.write_str("not defined"),
            Test::Prefix(prefix) => write!(f, "begins {}", Json::from(prefix.as_str())),
            Test::ScanStrings(_) => f.write_str("string scan"),
            Test::IsType(kind) => write!(f, "is {kind:?}"),
            Test::Near { distance: 0.0, .. } => f.write_str("touches a geometry"),
            Test::Near { distance, .. } => write!(f, "within {distance} of a geometry"),
        }
    }
}

impl fmt::Display for Condition {
    /// One line: `(/a = 1 and /b begins "x" ~)`; a `~` marks a term that is not exact.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Condition], word: &str| {
            let texts: Vec<String> = parts.iter().map(ToString::to_string).collect();
            write!(f, "({})", texts.join(word))
        };
        match self {
            Condition::All => f.write_str("all"),
            Condition::Never => f.write_str("never"),
            Condition::And(parts) => list(f, parts, " and "),
            Condition::Or(parts) => list(f, parts, " or "),
            Condition::Term { path, test, exact } => {
                write!(f, "{path} {test}{}", if *exact { "" } else { " ~" })
            }
        }
    }
}
