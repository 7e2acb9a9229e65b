//! Aggregates over all items that a full-text index knows: those of the statistics of a ranking
//! (`rank_statistics.rs`), whether the server asks for them or a client.

use crate::bind::{self, Mapping};
use crate::bound::{Block, Expr};
use crate::condition::Path;
use crate::full_text::{Analyzer, Term, TermWord};
use crate::functions::AggregateKind;

/// The aggregate of a query over all items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Total {
    /// The number of items.
    Items,
    /// The number of words of all texts at a path.
    Words {
        /// The path of the texts.
        path: Path,
        /// The language of the texts.
        language: String,
    },
    /// The number of texts at a path with a term.
    TextsWithTerm {
        /// The path of the texts.
        path: Path,
        /// The language of the texts.
        language: String,
        /// The words of the term, which follow each other.
        words: Vec<TermWord>,
    },
}

/// Returns the aggregates of a query if all of them are totals, and no total otherwise. `frames`
/// are those of the outermost block.
pub(crate) fn totals_of(block: &Block, frames: &[Mapping]) -> Vec<Total> {
    let Some(grouping) = &block.grouping else {
        return Vec::new();
    };
    let is_over_items =
        block.reads_container && block.sources.is_empty() && block.filters.is_empty();
    if !is_over_items || !grouping.keys.is_empty() || block.distinct {
        return Vec::new();
    }
    let mut totals = Vec::with_capacity(grouping.aggregates.len());
    for (kind, expr) in &grouping.aggregates {
        match total_of(*kind, expr, frames) {
            Some(total) => totals.push(total),
            None => return Vec::new(),
        }
    }
    // A count alone has better ways.
    match totals.iter().all(|total| *total == Total::Items) {
        true => Vec::new(),
        false => totals,
    }
}

fn total_of(kind: AggregateKind, expr: &Expr, frames: &[Mapping]) -> Option<Total> {
    if let (AggregateKind::Count, Expr::Constant(Some(_))) = (kind, expr) {
        return Some(Total::Items);
    }
    let Expr::Call {
        function,
        arguments,
    } = expr
    else {
        return None;
    };
    let (Expr::Constant(Some(language)), text) = (arguments.first()?, arguments.get(1)?) else {
        return None;
    };
    let language = language.as_str()?.to_owned();
    let path = match bind::mapping_of(text, frames) {
        Mapping::Path(path) => path.exact()?,
        _ => return None,
    };
    match (kind, function.names[0], &arguments[2..]) {
        (AggregateKind::Sum, "_FULLTEXTWORDCOUNT", []) => Some(Total::Words { path, language }),
        (
            AggregateKind::CountIf,
            "FULLTEXTCONTAINS" | "FULLTEXTCONTAINSALL" | "FULLTEXTCONTAINSANY",
            [Expr::Constant(Some(term))],
        ) => {
            let words = Term::parse(term, &Analyzer::of(&language))?.into_words();
            Some(Total::TextsWithTerm {
                path,
                language,
                words,
            })
        }
        _ => None,
    }
}
