//! Scores that an index can compute: the distance of vectors and the score of texts.
//!
//! A score is recognised in its bound call, so ORDER BY VectorDistance, the queries of client plans
//! and ORDER BY RANK have one form.

use crate::bound::Expr;
use crate::condition::Path;
use crate::full_text::TextScore;
use crate::functions::vector::VECTOR_SCORE;
use crate::search_effort::SearchEffort;
use crate::vectors::{DataType, DistanceFunction, Nearest};
use orrery_model::json::Json;

/// The internal function that computes the score of a text; client plans call it.
pub(crate) const FULL_TEXT_SCORE: &str = "_FULLTEXTSCORE";

/// A score by which items are ordered, the largest first. Items whose score is undefined come last.
#[derive(Clone, Debug)]
pub enum IndexedScore {
    /// The nearness of a vector.
    Vector(Nearest),
    /// The score of a text.
    Text(TextScore),
}

impl IndexedScore {
    /// Returns the score of a bound call. `path_of` returns the path of the item that an expression
    /// stands for. Returns `None` if no index can compute the score.
    pub(crate) fn of(call: &Expr, path_of: impl Fn(&Expr) -> Option<Path>) -> Option<Self> {
        let Expr::Call {
            function,
            arguments,
        } = call
        else {
            return None;
        };
        match (function.names[0], &arguments[..]) {
            (VECTOR_SCORE, [left, right, function, data_type, effort]) => {
                let function = DistanceFunction::parse(constant(function)?.as_str()?)?;
                let data_type = DataType::parse(constant(data_type)?.as_str()?)?;
                let (path, vector) = match (constant(left), constant(right)) {
                    (None, Some(vector)) => (path_of(left)?, vector),
                    (Some(vector), None) => (path_of(right)?, vector),
                    _ => return None,
                };
                let mut nearest = Nearest::new(path, vector, data_type, function)?;
                nearest.effort = SearchEffort::from_json(constant(effort)?);
                Some(IndexedScore::Vector(nearest))
            }
            (FULL_TEXT_SCORE, [language, text, terms, documents, words, hits]) => {
                let statistics = [
                    constant(terms)?,
                    constant(documents)?,
                    constant(words)?,
                    constant(hits)?,
                ];
                let language = constant(language)?.as_str()?;
                TextScore::new(path_of(text)?, language, statistics).map(IndexedScore::Text)
            }
            _ => None,
        }
    }
}

fn constant(expr: &Expr) -> Option<&Json> {
    match expr {
        Expr::Constant(value) => value.as_ref(),
        _ => None,
    }
}
