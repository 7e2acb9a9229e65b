//! The paths that a query computes with, groups by or searches, for a report on the use of indexes.
//!
//! Promises: paths of the item only, traced through aliases and FROM subqueries. Leaves out paths
//! that a row only contains, and those inside subqueries of the SELECT list.

use crate::bind::{Mapping, frames_of};
use crate::bound::{Block, Expr, Input, Output};
use crate::condition::{Condition, Path, Test};
use crate::derive::{condition_of_value, path_of};
use crate::functions::vector::VECTOR_SCORE;
use crate::indexed_score::{FULL_TEXT_SCORE, IndexedScore};
use crate::query::Query;
use crate::totals::Total;

/// The search of a query that a vector or full-text index can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// The nearest vectors at a path.
    Vectors(Path),
    /// The words of the texts at a path.
    Texts(Path),
}

impl Query {
    /// Returns the searches of WHERE, of ORDER BY, and of aggregates over texts, each once.
    pub fn searches(&self) -> Vec<Search> {
        let mut searches = Vec::new();
        add_searched(self.condition(), &mut searches);
        for total in &self.totals {
            if let Total::Words { path, .. } | Total::TextsWithTerm { path, .. } = total {
                searches.push(Search::Texts(path.clone()));
            }
        }
        searches.extend(self.order_score().map(|score| match score {
            IndexedScore::Vector(nearest) => Search::Vectors(nearest.path.clone()),
            IndexedScore::Text(score) => Search::Texts(score.path.clone()),
        }));
        if let Some(ranking) = &self.ranking {
            let frames = frames_of(&self.block, &[Mapping::root()]);
            let scores = ranking.components.iter();
            searches.extend(scores.filter_map(|score| search_of(&score.score, &frames)));
        }

        let mut distinct: Vec<Search> = Vec::new();
        for search in searches {
            if !distinct.contains(&search) {
                distinct.push(search);
            }
        }
        distinct
    }

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

/// Adds the searches for words of a condition.
fn add_searched(condition: &Condition, searches: &mut Vec<Search>) {
    match condition {
        Condition::And(parts) | Condition::Or(parts) => {
            for part in parts {
                add_searched(part, searches);
            }
        }
        Condition::Term {
            path,
            test: Test::HasWord { .. },
            ..
        } => searches.push(Search::Texts(path.clone())),
        Condition::Term { .. } | Condition::All | Condition::Never => {}
    }
}

/// Returns the search of a score of ORDER BY RANK.
fn search_of(score: &Expr, frames: &[Mapping]) -> Option<Search> {
    let Expr::Call {
        function,
        arguments,
    } = score
    else {
        return None;
    };
    match (function.names[0], &arguments[..]) {
        (VECTOR_SCORE, [left, right, ..]) => {
            let path = path_of(left, frames).or_else(|| path_of(right, frames));
            path.map(Search::Vectors)
        }
        (FULL_TEXT_SCORE, [_, text, ..]) => path_of(text, frames).map(Search::Texts),
        _ => None,
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
