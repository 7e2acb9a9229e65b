//! Binding of FROM and JOIN.

use super::{Binder, Name, mapping};
use crate::bound::{Expr, Input, Source};
use crate::error::QueryError;
use crate::syntax::ast::{self, Collection, PathStep};
use crate::syntax::character_range;
use orrery_model::limits;

impl Binder<'_> {
    /// Binds the sources in order. A source sees the names of the sources before it.
    pub(super) fn sources(&mut self, from: &[ast::Source]) -> Result<Vec<Source>, QueryError> {
        self.check_joins(from)?;
        let mut sources = Vec::new();
        let first_name = self.names.len();
        for source in from {
            let names_before = self.names.len();
            let Some((name, frame)) = self.source(source, &mut sources)? else {
                continue;
            };
            let is_taken = self.names[first_name..names_before]
                .iter()
                .any(|n| n.name == name);
            if is_taken {
                let message = format!(
                    "The input set name or alias '{name}' is specified more than once in the FROM \
                     clause."
                );
                self.report("SC2021", message, source.name_span);
            }
            self.names.push(Name { name, frame });
        }
        Ok(sources)
    }

    /// Binds one source. Returns the name that it introduces, if any, and its frame.
    fn source(
        &mut self,
        source: &ast::Source,
        sources: &mut Vec<Source>,
    ) -> Result<Option<(String, usize)>, QueryError> {
        let (name, input) = match &source.collection {
            Collection::Subquery(query) => {
                let block = self.query(query)?;
                self.may_read_container = false;
                (source.alias.clone(), Input::Subquery(Box::new(block)))
            }
            Collection::Path {
                root,
                root_span,
                steps,
            } => {
                let base = self.source_root(root, *root_span);
                let name = source
                    .alias
                    .clone()
                    .or_else(|| last_name(steps))
                    .unwrap_or_else(|| root.clone());
                // A plain name needs no frame: it is another name for a frame that exists.
                if steps.is_empty() && !source.iterate {
                    return Ok(Some((name, base)));
                }
                let base = Expr::Slot(self.hops_to(base));
                let path = self.path(base, steps, source.span)?;
                (Some(name), Input::Expr(path))
            }
        };
        let source = Source {
            input,
            iterate: source.iterate,
        };
        let mapped = mapping::mapping_of_source(&source, &self.frames);
        self.frames.push(mapped);
        sources.push(source);
        let frame = self.frames.len() - 1;
        Ok(name.map(|name| (name, frame)))
    }

    /// Returns the frame of the first name of a FROM path. A name that is not known stands for the
    /// container if the query has not read it yet.
    fn source_root(&mut self, root: &str, span: ast::Span) -> usize {
        let frame = match self.resolve(root) {
            Some(frame) => frame,
            None if self.may_read_container => {
                self.reads_container = true;
                0
            }
            None => {
                let message = format!("Identifier '{root}' could not be resolved.");
                self.report("SC2001", message, span);
                0
            }
        };
        self.may_read_container = false;
        frame
    }

    /// Refuses a FROM clause with more joins than the service allows. The error stands alone and
    /// covers the whole text.
    fn check_joins(&self, from: &[ast::Source]) -> Result<(), QueryError> {
        let limit = limits::JOINS_PER_QUERY;
        if from.len() <= limit + 1 {
            return Ok(());
        }
        let message = format!(
            "The SQL query exceeded the maximum number of joins. The allowed limit is {limit}."
        );
        let whole = character_range(self.text, (0, self.text.len()));
        Err(QueryError::at("SC3002", message, whole))
    }

    /// Returns the frame that a name stands for. Inner names hide outer ones.
    pub(super) fn resolve(&self, name: &str) -> Option<usize> {
        let named = self.names.iter().rev().find(|n| n.name == name);
        named.map(|n| n.frame)
    }

    /// Returns the number of hops from the innermost frame up to a frame.
    pub(super) fn hops_to(&self, frame: usize) -> usize {
        self.frames.len() - 1 - frame
    }
}

/// Returns the name that a path introduces if it has no alias.
fn last_name(steps: &[PathStep]) -> Option<String> {
    match steps.last()? {
        PathStep::Dot(name) => Some(name.clone()),
        PathStep::Bracket(expr) => match &expr.kind {
            ast::Kind::Constant(value) => value.as_str().map(str::to_owned),
            _ => None,
        },
    }
}
