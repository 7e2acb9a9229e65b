//! Queries that read one value of each item, so that an index of its path can replace the items.
//!
//! Examples: `SELECT VALUE MAX(c.price) FROM c`, `SELECT DISTINCT c.brand FROM c`, `SELECT VALUE
//! SUM(c.n) FROM c WHERE c.n > 5`, `SELECT c.brand, COUNT(1) FROM c GROUP BY c.brand`. A source
//! that has the values of the path may return candidates that contain nothing but this value; a
//! maximum needs only one of them, and a group one with the number of its items.

use crate::bound::{Expr, Grouping, Output, Step};
use crate::condition::{self, Condition, Path, Test};
use crate::functions::AggregateKind;
use crate::query::Query;

/// The only path that a query reads, and the values of it that the query needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoveredPath {
    /// The path. Its steps are names only.
    pub path: Path,
    /// The values that the query needs.
    pub values: NeededValues,
    /// The source must return one candidate without the value if any item lacks the value.
    pub includes_missing: bool,
}

/// The values of a path that a query needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededValues {
    /// The smallest value that fulfils the condition, and one array or object that fulfils it, if
    /// any.
    Minimum,
    /// The greatest value that fulfils the condition.
    Maximum,
    /// Each distinct value once.
    Distinct,
    /// Each distinct value once, with the number of items ([`crate::Source::copies`]).
    Counted,
    /// The value of every item.
    EveryItem,
}

impl Query {
    /// Returns the path whose values can replace the items, if the query reads one path only and
    /// accepts candidates that have nothing but its value, in any order.
    pub fn covered_path(&self) -> Option<CoveredPath> {
        let block = &self.block;
        if !self.reads_container || !block.sources.is_empty() || !self.order.is_empty() {
            return None;
        }
        let path = self.only_path()?;
        let (values, keeps_missing) = match &block.grouping {
            Some(grouping) if grouping.keys.is_empty() && !block.distinct => {
                (values_for_aggregates(grouping, &path)?, false)
            }
            // Items without the value are a group.
            Some(grouping) if block.filters.is_empty() || self.condition_is_exact() => {
                (values_for_groups(grouping, &path)?, true)
            }
            None if block.distinct => match &block.output {
                // An undefined value gives no row.
                Output::Value(value) if is_path(value, &path) => (NeededValues::Distinct, false),
                // An undefined value gives the row `{}`.
                Output::Members(members) if members.len() == 1 && is_path(&members[0].1, &path) => {
                    (NeededValues::Distinct, true)
                }
                _ => return None,
            },
            _ => return None,
        };
        let includes_missing = keeps_missing && !demands_a_value(self.condition());
        // An index of values cannot tell if an item without the value passes the filters.
        if includes_missing && !block.filters.is_empty() {
            return None;
        }
        Some(CoveredPath {
            path,
            values,
            includes_missing,
        })
    }

    /// Returns true if GROUP BY has one path, and the query reads nothing else. The service serves
    /// such groups from the index of the path, so they come in the order of its values.
    pub(crate) fn has_groups_of_only_path(&self) -> bool {
        let block = &self.block;
        let Some(grouping) = &block.grouping else {
            return false;
        };
        let [key] = &grouping.keys[..] else {
            return false;
        };
        if !self.reads_container || !block.sources.is_empty() {
            return false;
        }
        let path = self.only_path();
        path.is_some_and(|path| is_path(unwrapped(key), &path))
    }

    /// Returns the path of the item that the query reads, if it reads one path and nothing else.
    fn only_path(&self) -> Option<Path> {
        let mut found = None;
        let mut is_only = true;
        // A path over the item is visited before the slot that it starts from. A slot without such
        // a path before it reads the item as a whole.
        let mut expected_slots = 0usize;
        self.block.walk(1, &mut |expr, depth| match expr {
            Expr::Path { base, .. } if matches!(**base, Expr::Slot(up) if up + 1 == depth) => {
                let path = path_of_steps(expr);
                is_only &= path.is_some() && (found.is_none() || found == path);
                found = path;
                expected_slots += 1;
            }
            Expr::Slot(up) if up + 1 == depth => match expected_slots.checked_sub(1) {
                Some(remaining) => expected_slots = remaining,
                None => is_only = false,
            },
            Expr::Subquery(..) => is_only = false,
            _ => {}
        });
        if is_only { found } else { None }
    }
}

/// Returns the values that the aggregates of a query without GROUP BY need; `None` if an aggregate
/// has another argument than the path.
fn values_for_aggregates(grouping: &Grouping, path: &Path) -> Option<NeededValues> {
    let aggregates = &grouping.aggregates;
    let all_on_path = aggregates
        .iter()
        .all(|(_, argument)| is_path(argument, path));
    if aggregates.is_empty() || !all_on_path {
        return None;
    }
    Some(
        if aggregates
            .iter()
            .all(|(kind, _)| *kind == AggregateKind::Min)
        {
            NeededValues::Minimum
        } else if aggregates
            .iter()
            .all(|(kind, _)| *kind == AggregateKind::Max)
        {
            NeededValues::Maximum
        } else {
            NeededValues::EveryItem
        },
    )
}

/// Returns the values that the groups of a query need; `None` if the groups are not by the path
/// alone, or an aggregate needs more than the number of items.
fn values_for_groups(grouping: &Grouping, path: &Path) -> Option<NeededValues> {
    let [key] = &grouping.keys[..] else {
        return None;
    };
    let counts_items = grouping.aggregates.iter().all(|(kind, argument)| {
        let is_plain = matches!(argument, Expr::Constant(_)) || is_path(argument, path);
        *kind == AggregateKind::Count && is_plain
    });
    if !is_path(key, path) || !counts_items {
        return None;
    }
    Some(if grouping.aggregates.is_empty() {
        NeededValues::Distinct
    } else {
        NeededValues::Counted
    })
}

/// Returns the value in a constructor of one value, as in `GROUP BY {"a": c.a}`; any other
/// expression itself.
fn unwrapped(expr: &Expr) -> &Expr {
    match expr {
        Expr::Object(members) if members.len() == 1 => unwrapped(&members[0].1),
        Expr::Array(elements) if elements.len() == 1 => unwrapped(&elements[0]),
        _ => expr,
    }
}

/// Returns true if an expression over a single frame is this path.
fn is_path(expr: &Expr, path: &Path) -> bool {
    match expr {
        Expr::Path { base, .. } if matches!(**base, Expr::Slot(0)) => {
            path_of_steps(expr).as_ref() == Some(path)
        }
        _ => false,
    }
}

/// Returns the steps of a path expression, if all of them are names.
fn path_of_steps(expr: &Expr) -> Option<Path> {
    let Expr::Path { steps, .. } = expr else {
        return None;
    };
    let mut names = Vec::with_capacity(steps.len());
    for step in steps {
        let Step::Name(name) = step else { return None };
        names.push(condition::Step::Name(name.clone()));
    }
    Some(Path(names))
}

/// Returns true if no item without a value fulfils the condition. All terms are on the same path.
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
    fn queries_that_read_one_path_are_covered() {
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
            (
                "SELECT c.a, COUNT(1) AS n FROM c GROUP BY c.a",
                "/a",
                NeededValues::Counted,
                true,
            ),
            (
                "SELECT VALUE COUNT(c.a) FROM c WHERE c.a > 1 GROUP BY c.a",
                "/a",
                NeededValues::Counted,
                false,
            ),
            (
                "SELECT c.a FROM c GROUP BY c.a",
                "/a",
                NeededValues::Distinct,
                true,
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
    fn queries_that_read_more_than_one_path_are_not_covered() {
        for text in [
            "SELECT * FROM c",
            "SELECT VALUE c.a FROM c",
            "SELECT VALUE MIN(c.a) FROM c WHERE c.b = 1",
            "SELECT VALUE MIN(c.a + 1) FROM c",
            "SELECT DISTINCT c.a, c.b FROM c",
            "SELECT DISTINCT c.a FROM c WHERE NOT IS_DEFINED(c.a)",
            "SELECT DISTINCT VALUE c.a[0] FROM c",
            "SELECT VALUE MIN(t) FROM c JOIN t IN c.a",
            "SELECT c.a, SUM(c.a) FROM c GROUP BY c.a",
            "SELECT c.a, COUNT(RAND()) FROM c GROUP BY c.a",
            "SELECT c.a, COUNT(1) FROM c WHERE RAND() < 0.5 GROUP BY c.a",
            "SELECT c.a, COUNT(1) FROM c WHERE c.b = 1 GROUP BY c.a",
            "SELECT c.a, COUNT(c.b) FROM c GROUP BY c.a",
            "SELECT c.a, c.b, COUNT(1) FROM c GROUP BY c.a, c.b",
            "SELECT DISTINCT VALUE c.a FROM c ORDER BY c.a",
            "SELECT VALUE COUNT(1) FROM c",
            "SELECT VALUE COUNT(c) FROM c",
        ] {
            assert_eq!(covered(text), None, "{text}");
        }
    }
}
