//! Runs a query or subquery for one chain of outer frames: sources, filters, groups, output.

use super::frame::{Context, Scope};
use super::groups::Groups;
use crate::bound::{Block, Expr, Input, Output, Source};
use crate::error::QueryError;
use crate::value::{Value, digest, weight};
use orrery_model::json::{Json, Object};
use std::borrow::Cow;
use std::collections::HashSet;

/// Whether to go on.
pub(crate) type Flow = Result<bool, QueryError>;

/// Takes one value of a subquery.
pub(crate) type Sink<'f> = dyn FnMut(&mut Context<'_>, Cow<'_, Json>) -> Flow + 'f;

/// Takes one tuple of sources.
pub(crate) type TupleSink<'f> = dyn FnMut(&mut Context<'_>, &Scope<'_>) -> Flow + 'f;

impl Block {
    /// Gives every value of the block to `sink`, until it says to stop.
    pub fn each(&self, cx: &mut Context<'_>, scope: &Scope<'_>, sink: &mut Sink<'_>) -> Flow {
        let mut collector = Collector::new(self);
        if !self.tuples(true, cx, scope, &mut |cx, tuple| {
            collector.tuple(cx, tuple, sink)
        })? {
            return Ok(false);
        }
        collector.finish(cx, scope, sink)
    }

    /// Gives every combination of the sources that passes the filters to `sink`. `check` false: the filters are known
    /// to hold.
    pub fn tuples(
        &self,
        check: bool,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        let filters = if check { &self.filters[..] } else { &[] };
        Tuples {
            block: self,
            filters,
        }
        .bind(0, cx, scope, sink)
    }

    /// Continues with a value of the first source.
    pub fn tuples_of(
        &self,
        first: &Json,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        let Some(source) = self.sources.first() else {
            return Ok(true);
        };
        Tuples {
            block: self,
            filters: &self.filters,
        }
        .bind_value(0, source, first, cx, scope, sink)
    }
}

/// The loops over a block's sources.
#[derive(Clone, Copy)]
struct Tuples<'q> {
    block: &'q Block,
    filters: &'q [(usize, Expr)],
}

impl Tuples<'_> {
    /// `scope` has the first `bound` sources.
    fn bind(
        &self,
        bound: usize,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        for (_, filter) in self.filters.iter().filter(|(needed, _)| *needed == bound) {
            if !filter.holds(cx, scope)? {
                return Ok(true);
            }
        }
        let Some(source) = self.block.sources.get(bound) else {
            return sink(cx, scope);
        };
        match &source.input {
            Input::Expr(e) => {
                let before = cx.held_bytes;
                let Some(value) = e.eval(cx, scope)? else {
                    return Ok(true);
                };
                let held = cx.held_bytes.saturating_sub(before);
                let flow = self.bind_value(bound, source, &value, cx, scope, sink)?;
                cx.held_bytes = cx.held_bytes.saturating_sub(held);
                Ok(flow)
            }
            Input::Subquery(block) => block.each(cx, scope, &mut |cx, value| {
                let held = if let Cow::Owned(value) = &value {
                    weight(value)
                } else {
                    0
                };
                cx.held_bytes = cx.held_bytes.saturating_add(held);
                cx.check_memory(cx.held_bytes)?;
                let flow = self.bind_value(bound, source, &value, cx, scope, sink)?;
                cx.held_bytes = cx.held_bytes.saturating_sub(held);
                Ok(flow)
            }),
        }
    }

    fn bind_value(
        &self,
        bound: usize,
        source: &Source,
        value: &Json,
        cx: &mut Context<'_>,
        scope: &Scope<'_>,
        sink: &mut TupleSink<'_>,
    ) -> Flow {
        if !source.iterate {
            return self.bind(bound + 1, cx, &scope.with(Some(value)), sink);
        }
        for element in value.as_array().unwrap_or_default() {
            cx.work.tuples += 1;
            cx.count_iteration()?;
            if !self.bind(bound + 1, cx, &scope.with(Some(element)), sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Output {
    /// The row as a value.
    pub fn eval<'s>(
        &'s self,
        cx: &mut Context<'_>,
        scope: &'s Scope<'s>,
    ) -> Result<Value<'s>, QueryError> {
        match self {
            Output::Value(e) => e.eval(cx, scope),
            Output::Members(members) => {
                let mut object = Object::new();
                for (name, e) in members {
                    let made = cx.held_bytes;
                    if let Some(value) = e.eval(cx, scope)? {
                        cx.held_bytes = made.saturating_add(name.len());
                        cx.count_value_made(&value)?;
                        object.push_new(name.as_str(), value.into_owned());
                    }
                }
                Ok(Some(Cow::Owned(Json::Object(object))))
            }
        }
    }
}

/// What stands between a block's tuples and its values.
pub(crate) struct Collector<'q> {
    block: &'q Block,
    groups: Option<Groups>,
    seen: Option<HashSet<u128>>,
}

impl<'q> Collector<'q> {
    pub fn new(block: &'q Block) -> Self {
        let groups = block.grouping.as_ref().map(Groups::new);
        Collector {
            block,
            groups,
            seen: block.distinct.then(HashSet::new),
        }
    }

    pub fn tuple(&mut self, cx: &mut Context<'_>, tuple: &Scope<'_>, sink: &mut Sink<'_>) -> Flow {
        match (&mut self.groups, &self.block.grouping) {
            (Some(groups), Some(grouping)) => {
                let made = cx.held_bytes;
                groups.add(grouping, cx, tuple)?;
                cx.held_bytes = made;
                cx.check_memory(groups.memory())?;
                Ok(true)
            }
            _ => self.give(cx, tuple, sink),
        }
    }

    /// The values that had to wait for the last tuple.
    pub fn finish(&mut self, cx: &mut Context<'_>, scope: &Scope<'_>, sink: &mut Sink<'_>) -> Flow {
        let Some(groups) = self.groups.take() else {
            return Ok(true);
        };
        for (keys, aggregates) in groups.finish() {
            if !self.give(cx, &scope.with_group(&keys, &aggregates), sink)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The partial aggregates of a query without GROUP BY, if they have a short form.
    pub fn save(&self) -> Option<Vec<u8>> {
        let single = self.block.grouping.as_ref()?.keys.is_empty() && self.seen.is_none();
        if single {
            self.groups.as_ref()?.save()
        } else {
            None
        }
    }

    /// Goes on from partial aggregates.
    pub fn restore(&mut self, saved: &[u8]) -> Option<()> {
        self.groups.as_mut()?.restore(saved)
    }

    fn give(&mut self, cx: &mut Context<'_>, scope: &Scope<'_>, sink: &mut Sink<'_>) -> Flow {
        let made = cx.held_bytes;
        let Some(value) = self.block.output.eval(cx, scope)? else {
            return Ok(true);
        };
        // From here on it is for the sink to count, if it keeps the value.
        cx.held_bytes = made;
        if let Some(seen) = &mut self.seen {
            cx.count_value_read(&value)?;
            if !seen.insert(digest(Some(&value))) {
                return Ok(true);
            }
            cx.check_memory(seen.len() * 24)?;
        }
        sink(cx, value)
    }
}
