//! FROM and JOIN.

use super::{Binder, Mapping, Name, check_joins, mapping};
use crate::bound::{Expr, Input, Source};
use crate::error::QueryError;
use crate::syntax::ast::{self, Collection, PathStep};

impl Binder<'_> {
    /// Binds the sources in order; each sees the names of those before it.
    pub(super) fn sources(&mut self, from: &[ast::Source]) -> Result<Vec<Source>, QueryError> {
        check_joins(from)?;
        let mut sources = Vec::new();
        let first_name = self.names.len();
        for source in from {
            let before = self.names.len();
            let name = self.source(source, &mut sources)?;
            let Some((name, frame)) = name else { continue };
            if self.names[first_name..before]
                .iter()
                .any(|n| n.name == name)
            {
                let message = format!(
                    "The input alias '{name}' is specified more than once in the FROM clause."
                );
                self.report("SC2011", message, source.span);
            }
            self.names.push(Name { name, frame });
        }
        Ok(sources)
    }

    /// Binds one source; gives the name it introduces and its frame.
    fn source(
        &mut self,
        source: &ast::Source,
        sources: &mut Vec<Source>,
    ) -> Result<Option<(String, usize)>, QueryError> {
        let input = match &source.collection {
            Collection::Subquery(query) => {
                let block = self.query(query)?;
                self.container = false;
                Input::Subquery(Box::new(block))
            }
            Collection::Path {
                root,
                root_span,
                steps,
            } => {
                let base = match self.resolve(root) {
                    Some(frame) => frame,
                    None if self.container => {
                        self.reads_container = true;
                        0
                    }
                    None => {
                        let message = format!("Identifier '{root}' could not be resolved.");
                        self.report("SC2001", message, *root_span);
                        0
                    }
                };
                self.container = false;
                let name = source
                    .alias
                    .clone()
                    .or_else(|| last_name(steps))
                    .unwrap_or_else(|| root.clone());
                if steps.is_empty() && !source.iterate {
                    return Ok(Some((name, base)));
                }
                let base = Expr::Slot(self.frames.len() - 1 - base);
                let input = Input::Expr(self.path(base, steps, false, source.span)?);
                let frame = self.add_frame(
                    Source {
                        input,
                        iterate: source.iterate,
                    },
                    sources,
                );
                return Ok(Some((name, frame)));
            }
        };
        let frame = self.add_frame(
            Source {
                input,
                iterate: source.iterate,
            },
            sources,
        );
        Ok(source.alias.clone().map(|name| (name, frame)))
    }

    fn add_frame(&mut self, source: Source, sources: &mut Vec<Source>) -> usize {
        let mapped: Mapping = mapping::of_source(&source, &self.frames);
        self.frames.push(mapped);
        sources.push(source);
        self.frames.len() - 1
    }

    /// The frame that a name stands for.
    pub(super) fn resolve(&self, name: &str) -> Option<usize> {
        self.names
            .iter()
            .rev()
            .find(|n| n.name == name)
            .map(|n| n.frame)
    }
}

/// The name that a path introduces.
fn last_name(steps: &[PathStep]) -> Option<String> {
    match steps.last()? {
        PathStep::Dot(name) => Some(name.clone()),
        PathStep::Bracket(e) => match &e.kind {
            ast::Kind::Constant(value) => value.as_str().map(str::to_owned),
            _ => None,
        },
    }
}
