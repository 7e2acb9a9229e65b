//! Queries that look at one value of each item, so that an index of its path can stand in for the items.
//!
//! `SELECT VALUE MAX(c.price) FROM c`, `SELECT DISTINCT c.brand FROM c`, `SELECT VALUE SUM(c.n) FROM c WHERE c.n > 5`. A
//! source that has the values in order gives candidates that have nothing but the one value; for a maximum one of them
//! is enough.

use crate::bound::{Expr, Output, Step};
use crate::condition::{self, Condition, Path, Test};
use crate::functions::AggregateKind;
use crate::query::Query;

/// What a query needs of the values at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredPath {
    /// Where the values are: names only.
    pub path: Path,
    /// Which of them.
    pub values: NeededValues,
    /// Whether one candidate without the value must stand for all items that lack it.
    pub includes_missing: bool,
}

/// Which values are enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededValues {
    /// The least one that passes, and one array or object if any passes.
    Minimum,
    /// The greatest one that passes.
    Maximum,
    /// Each distinct one once.
    Distinct,
    /// The value of every item.
    EveryItem,
}

impl Query {
    /// The one value of each item that the query looks at, if it is so and candidates without anything else, in any
    /// order, will do.
    pub fn covered_path(&self) -> Option<CoveredPath> {
        let block = &self.block;
        if !self.reads_container || !block.sources.is_empty() || !self.order.is_empty() {
            return None;
        }
        let path = self.only_path()?;
        let is_path = |expr: &Expr| path_of(expr).as_ref() == Some(&path);
        let (need, includes_missing) = match &block.grouping {
            Some(grouping) if grouping.keys.is_empty() && !block.distinct => {
                let on_path = grouping
                    .aggregates
                    .iter()
                    .all(|(_, argument)| is_path(argument));
                let all = |wanted: AggregateKind| {
                    grouping.aggregates.iter().all(|(kind, _)| *kind == wanted)
                };
                let need = match () {
                    () if !on_path || grouping.aggregates.is_empty() => return None,
                    () if all(AggregateKind::Min) => NeededValues::Minimum,
                    () if all(AggregateKind::Max) => NeededValues::Maximum,
                    () => NeededValues::EveryItem,
                };
                (need, false)
            }
            None if block.distinct => match &block.output {
                Output::Value(value) if is_path(value) => (NeededValues::Distinct, false),
                Output::Members(members) if members.len() == 1 && is_path(&members[0].1) => {
                    (NeededValues::Distinct, true)
                }
                _ => return None,
            },
            _ => return None,
        };
        let includes_missing = includes_missing && !demands_a_value(self.condition());
        // Whether items without the value pass is beyond what an index of values knows.
        (!includes_missing || block.filters.is_empty()).then_some(CoveredPath {
            path,
            values: need,
            includes_missing,
        })
    }

    /// The path that is all that the query looks at.
    fn only_path(&self) -> Option<Path> {
        let (mut found, mut only, mut pending) = (None, true, 0usize);
        self.block.walk(1, &mut |expr, depth| match expr {
            Expr::Path { base, .. } if matches!(**base, Expr::Slot(up) if up + 1 == depth) => {
                let path = path_of_steps(expr);
                only &= path.is_some() && (found.is_none() || found == path);
                found = path;
                pending += 1;
            }
            Expr::Slot(up) if up + 1 == depth => match pending.checked_sub(1) {
                Some(rest) => pending = rest,
                None => only = false,
            },
            Expr::Subquery(..) => only = false,
            _ => {}
        });
        found.filter(|_| only)
    }
}

/// The path of an expression over a single frame.
fn path_of(expr: &Expr) -> Option<Path> {
    match expr {
        Expr::Path { base, .. } if matches!(**base, Expr::Slot(0)) => path_of_steps(expr),
        _ => None,
    }
}

fn path_of_steps(expr: &Expr) -> Option<Path> {
    let Expr::Path { steps, .. } = expr else {
        return None;
    };
    let name = |step: &Step| match step {
        Step::Name(name) => Some(condition::Step::Name(name.clone())),
        _ => None,
    };
    steps.iter().map(name).collect::<Option<_>>().map(Path)
}

fn demands_a_value(condition: &Condition) -> bool {
    match condition {
        Condition::Term { test, .. } => !matches!(test, Test::NotDefined),
        Condition::And(parts) => parts.iter().any(demands_a_value),
        Condition::Or(parts) => parts.iter().all(demands_a_value),
        Condition::Never => true,
        Condition::All => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seams::Environment;

    fn covered(text: &str) -> Option<(String, NeededValues, bool)> {
        let query = Query::compile(text, &[], &Environment::default()).expect("compiles");
        query
            .covered_path()
            .map(|c| (c.path.to_string(), c.values, c.includes_missing))
    }

    #[test]
    fn one_path_is_covered() {
        for (text, path, need, includes_missing) in [
            (
                "SELECT VALUE MIN(c.a) FROM c",
                "/a",
                NeededValues::Minimum,
                false,
            ),
            (
                "SELECT MAX(c.a.b) AS m FROM c WHERE c.a.b < 5",
                "/a/b",
                NeededValues::Maximum,
                false,
            ),
            (
                "SELECT MAX(c.a) AS m, MIN(c.a) AS n FROM c",
                "/a",
                NeededValues::EveryItem,
                false,
            ),
            (
                "SELECT VALUE SUM(c.a) + 1 FROM c",
                "/a",
                NeededValues::EveryItem,
                false,
            ),
            (
                "SELECT DISTINCT VALUE c.a FROM c",
                "/a",
                NeededValues::Distinct,
                false,
            ),
            (
                "SELECT DISTINCT c.a FROM c",
                "/a",
                NeededValues::Distinct,
                true,
            ),
            (
                "SELECT DISTINCT c.a FROM c WHERE c.a > 1",
                "/a",
                NeededValues::Distinct,
                false,
            ),
        ] {
            assert_eq!(
                covered(text),
                Some((path.to_owned(), need, includes_missing)),
                "{text}"
            );
        }
    }

    #[test]
    fn more_than_one_path_is_not() {
        for text in [
            "SELECT * FROM c",
            "SELECT VALUE c.a FROM c",
            "SELECT VALUE MIN(c.a) FROM c WHERE c.b = 1",
            "SELECT VALUE MIN(c.a + 1) FROM c",
            "SELECT DISTINCT c.a, c.b FROM c",
            "SELECT DISTINCT c.a FROM c WHERE NOT IS_DEFINED(c.a)",
            "SELECT DISTINCT VALUE c.a[0] FROM c",
            "SELECT VALUE MIN(t) FROM c JOIN t IN c.a",
            "SELECT c.a, COUNT(1) FROM c GROUP BY c.a",
            "SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a",
            "SELECT VALUE COUNT(1) FROM c",
            "SELECT VALUE COUNT(c) FROM c",
        ] {
            assert_eq!(covered(text), None, "{text}");
        }
    }
}
