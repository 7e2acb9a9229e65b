//! The index condition of a query: the part of its WHERE clause that an index can evaluate, on
//! paths from the root of an item.
//!
//! A [`Condition`] is *necessary*: every item that gives a row fulfils the condition. If
//! [`crate::Query::condition_is_exact`] returns true the condition is also sufficient, and a source
//! that evaluated all of it may set [`crate::Candidate::condition_holds`]. Conditions contain no
//! aliases: `FROM c JOIN t IN c.tags WHERE t.name = "a"` becomes a term on `tags / [] / name`.
//!
//! A path with [`Step::Element`] is existential: *some* element of the array passes the test.
//!
//! `derive.rs` makes conditions from bound WHERE clauses.

use crate::full_text::TermWord;
use orrery_model::json::Json;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// A step of a path from the root of an item.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// A property.
    Name(String),
    /// Any element of an array; `[]` in an indexing policy.
    Element,
}

/// A path from the root of an item; empty for the item itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(pub Vec<Step>);

/// A necessary condition on an item.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Every item fulfils the condition.
    All,
    /// No item fulfils the condition.
    Never,
    /// Every part holds. At least two parts, none of them `And`, `All` or `Never`.
    And(Vec<Condition>),
    /// Some part holds. At least two parts, none of them `Or`, `All` or `Never`.
    Or(Vec<Condition>),
    /// A test on the value at a path.
    Term {
        /// The path of the value.
        path: Path,
        /// The test that the value must pass.
        test: Test,
        /// The term is equivalent to the predicate it was derived from, not only necessary.
        exact: bool,
    },
}

/// A test on one value. Every test except [`Test::NotDefined`] fails if the value is missing.
#[derive(Clone)]
pub enum Test {
    /// Equal to a scalar.
    Equals(Json),
    /// Defined and not equal to a scalar; the value may have any type.
    NotEquals(Json),
    /// Equal to one of these scalars. There are at least two, and all are distinct.
    In(Vec<Json>),
    /// Between two scalars of one type, and itself of that type. At least one side is bounded.
    Range {
        /// The lower bound.
        lower: Bound<Json>,
        /// The upper bound.
        upper: Bound<Json>,
    },
    /// Present; `null` counts as present.
    Defined,
    /// Missing. Not used on a path with [`Step::Element`].
    NotDefined,
    /// A string that begins with this prefix.
    Prefix(String),
    /// A string for which the function returns true. Stands for CONTAINS, ENDSWITH, LIKE,
    /// REGEXMATCH and case-insensitive comparisons; an index must scan all strings of the path.
    ScanStrings(Arc<dyn Fn(&str) -> bool + Send + Sync>),
    /// A text with a word that matches, in a language of a full-text policy.
    HasWord {
        /// The code of the language.
        language: Arc<str>,
        /// The word.
        word: TermWord,
    },
    /// Of this type.
    IsType(ValueType),
    /// A GeoJSON value whose bounding box, widened by `distance`, touches the bounding box of
    /// `geometry`. A term with this test is never exact.
    Near {
        /// The GeoJSON constant of the query.
        geometry: Arc<Json>,
        /// The distance, in metres or in units of the plane, as the container's geospatial setting
        /// says.
        distance: f64,
    },
}

/// A type that an `IS_...` function tests for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// `true` or `false`.
    Bool,
    /// Any number.
    Number,
    /// Any string.
    String,
    /// Any array.
    Array,
    /// Any object.
    Object,
}

/// One key of ORDER BY.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderKey {
    /// The path of the sort value; `None` if an index cannot order by the key (array elements,
    /// computed properties, scores) and the query must sort.
    pub path: Option<Path>,
    /// The name of the computed property, if the key is one. A composite index may name it.
    pub computed: Option<String>,
    /// True for DESC.
    pub descending: bool,
}

/// The part of each item that a query reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// Nothing: FROM does not read the container, and the query does not call the source.
    Nothing,
    /// Only the number of items that fulfil the condition, which is exact. Candidates may have no
    /// text.
    Count,
    /// The content of the items.
    Items,
}

impl fmt::Display for Path {
    /// Writes the path as an indexing policy does: `/tags/[]/"first name"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in &self.0 {
            match step {
                Step::Element => f.write_str("/[]")?,
                Step::Name(name) => {
                    let needs_no_quotes = !name.is_empty()
                        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                    if needs_no_quotes {
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
            Test::HasWord { word, .. } => write!(f, "has {word}"),
            Test::IsType(kind) => write!(f, "is {kind:?}"),
            Test::Near { distance: 0.0, .. } => f.write_str("touches a geometry"),
            Test::Near { distance, .. } => write!(f, "within {distance} of a geometry"),
        }
    }
}

impl fmt::Display for Condition {
    /// Writes one line, such as `(/a = 1 and /b begins "x" ~)`; `~` marks a term that is not exact.
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
