//! The paths that a query computes with or groups by, for a report on the use of indexes.
//!
//! Promises: paths of the item only, traced through aliases and FROM subqueries. Leaves out paths
//! that a row only contains, and those inside subqueries of the SELECT list.

use crate::bind::{Mapping, frames_of};
use crate::bound::{Block, Expr, Input, Output};
use crate::condition::{Condition, Path};
use crate::derive::{condition_of_value, path_of};
use crate::query::Query;

impl Query {
    /// Returns what the index could tell about the values that the query computes: the condition
    /// under which a function of the SELECT list is true, as of `STARTSWITH(c.a, 'x')`, and that
    /// the argument of an aggregate is defined.
    pub fn computed_conditions(&self) -> Vec<Condition> {
        let mut conditions = Vec::new();
        if self.reads_container {
            add_computed(&self.block, &mut conditions);
        }
        conditions
    }

    /// Returns the paths of GROUP BY. An expression that is no path gives none.
    pub fn group_paths(&self) -> Vec<Path> {
        let Some(grouping) = &self.block.grouping else {
            return Vec::new();
        };
        let frames = frames_of(&self.block, &[Mapping::root()]);
        let keys = grouping.keys.iter();
        keys.filter_map(|key| path_of(key, &frames)).collect()
    }
}

/// Adds the conditions of a block, then those of the FROM subquery that reads the container.
fn add_computed(block: &Block, conditions: &mut Vec<Condition>) {
    let frames = frames_of(block, &[Mapping::root()]);
    if let Some(grouping) = &block.grouping {
        for (_, argument) in &grouping.aggregates {
            conditions.extend(path_of(argument, &frames).map(Condition::defined));
        }
    } else {
        // A function inside a subquery sees more frames.
        let mut visit = |expr: &Expr, added: usize| {
            if added == 0 && matches!(expr, Expr::Call { .. }) {
                conditions.push(condition_of_value(expr, &frames));
            }
        };
        match &block.output {
            Output::Value(value) => value.walk(0, &mut visit),
            Output::Members(members) => members.iter().for_each(|(_, e)| e.walk(0, &mut visit)),
        }
    }
    if let Some(Input::Subquery(inner)) = block.sources.first().map(|source| &source.input)
        && inner.reads_container
    {
        add_computed(inner, conditions);
    }
}
