//! Binding: from the syntax tree of a query to the form that runs (`bound.rs`).
//!
//! The binder resolves names, functions and parameters, checks the rules that the grammar cannot
//! express, folds constant expressions, and splits WHERE into conjuncts. Its parts:
//!
//! - `sources`: FROM and JOIN, and the names that they introduce
//! - `expressions`: expressions, calls and aggregates
//! - `folding`: constant expressions
//! - `projection`: SELECT and GROUP BY
//! - `search`: vector and full-text functions, ORDER BY by a score
//! - `rank`: ORDER BY RANK
//! - `mapping`: the path of the item that an expression stands for
//!
//! Compile errors are collected, so that a query with two unknown names reports both. An error of
//! any other kind ends the binding at once.

mod expressions;
mod folding;
mod mapping;
mod projection;
mod rank;
mod search;
mod sources;

pub(crate) use mapping::{ItemPath, Mapping, frames_of, mapping_of, mapping_of_source};
pub(crate) use projection::{
    composes_aggregates, contains, has_aggregate, is_aggregate, item_names,
};
pub(crate) use rank::{RankExpression, ScoreCall};

use crate::bound::{Block, Expr, Ranking};
use crate::condition::{OrderKey, Path};
use crate::error::{Diagnostic, QueryError};
use crate::functions::AggregateKind;
use crate::indexed_score::IndexedScore;
use crate::seams::Environment;
use crate::syntax::ast::{self, Count, CountValue, Kind, Span};
use crate::syntax::character_range;
use crate::vectors::DistanceFunction;
use orrery_model::json::Json;
use std::collections::HashMap;

/// A bound query, with the clauses that only the outermost query has.
pub(crate) struct BoundQuery {
    pub block: Block,
    pub order: Vec<BoundOrder>,
    /// ORDER BY RANK.
    pub ranking: Option<Ranking>,
    pub top: Option<u64>,
    pub offset: Option<u64>,
    pub limit: Option<u64>,
    /// FROM reads the container, directly or in a subquery.
    pub reads_container: bool,
    /// The mappings of the frames that a tuple of the outermost block consists of.
    pub frames: Vec<Mapping>,
    /// The names of the user-defined functions that the query calls, each once.
    pub udfs: Vec<String>,
}

/// A bound key of ORDER BY.
pub(crate) struct BoundOrder {
    pub expr: Expr,
    pub key: OrderKey,
    /// The distance function, if the key is VectorDistance. The expression is then the score, which
    /// is larger for nearer vectors.
    pub distance: Option<DistanceFunction>,
    /// The score, if the key is one that an index can serve.
    pub score: Option<IndexedScore>,
}

/// The result of the binding of one expression.
type BoundExpr = Result<Expr, QueryError>;

/// Binds a whole query.
pub(crate) fn bind(
    query: &ast::Query,
    text: &str,
    parameters: &[(String, Json)],
    environment: &Environment,
) -> Result<BoundQuery, QueryError> {
    let mut binder = Binder {
        text,
        parameters: by_name(parameters)?,
        parameter_bytes_left: expressions::MAX_PARAMETER_BYTES,
        folding_bytes_left: expressions::MAX_FOLDED_BYTES,
        environment,
        diagnostics: Vec::new(),
        grouping_diagnostics: Vec::new(),
        error_count: 0,
        names: Vec::new(),
        frames: vec![Mapping::root()],
        groups: Vec::new(),
        level: 0,
        may_read_container: true,
        reads_container: false,
        udfs: Vec::new(),
        udf_calls: 0,
        is_in_computed_property: false,
        is_in_filter: false,
        order: Vec::new(),
        is_order_correlated: false,
        is_order_unsupported: false,
        counts: Counts::default(),
        ranking: None,
        tuple_frames: Vec::new(),
    };
    let block = binder.query(query)?;
    // A rule of grouping is checked in a query whose names are all known.
    for diagnostics in [binder.diagnostics, binder.grouping_diagnostics] {
        if !diagnostics.is_empty() {
            return Err(QueryError::Compile(diagnostics));
        }
    }
    if binder.is_order_unsupported {
        return Err(QueryError::OrderBy(UNSUPPORTED_ORDER.into()));
    }
    if binder.is_order_correlated {
        let message = "Order-by over correlated collections is not supported.";
        return Err(QueryError::Plan(message.into()));
    }
    Ok(BoundQuery {
        block,
        order: binder.order,
        ranking: binder.ranking,
        top: binder.counts.top,
        offset: binder.counts.offset,
        limit: binder.counts.limit,
        reads_container: binder.reads_container,
        frames: binder.tuple_frames,
        udfs: binder.udfs,
    })
}

const TOP_NOT_WHOLE: &str = "The count value provided for a TOP clause must be an integer.";
const OFFSET_TOO_LARGE: &str = "The OFFSET count value exceeds the maximum allowed value.";
const LIMIT_TOO_LARGE: &str = "The LIMIT count value exceeds the maximum allowed value.";
const UNSUPPORTED_ORDER: &str =
    "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path.";

fn by_name(parameters: &[(String, Json)]) -> Result<HashMap<&str, &Json>, QueryError> {
    let mut named = HashMap::with_capacity(parameters.len());
    for (name, value) in parameters {
        if named.insert(name.as_str(), value).is_some() {
            let message = format!("Invalid query. Specified duplicate parameter name '{name}'.");
            return Err(QueryError::Plan(message));
        }
    }
    Ok(named)
}

/// The counts of the outermost query.
#[derive(Default)]
struct Counts {
    top: Option<u64>,
    offset: Option<u64>,
    limit: Option<u64>,
}

/// A name that expressions may use, and the index of the frame that it stands for.
#[derive(Clone)]
struct Name {
    name: String,
    frame: usize,
}

/// The names and frames around the SELECT list of a grouped query while it is bound.
struct GroupContext {
    /// The nesting level of the query.
    level: usize,
    /// The index of the frame with keys and aggregates.
    frame: usize,
    /// The names and frames that arguments of aggregates see.
    names: Vec<Name>,
    frames: Vec<Mapping>,
    /// The names of the query's own sources, which the SELECT list must not use outside aggregates.
    source_names: Vec<String>,
    /// The GROUP BY expressions as text, to recognize them in SELECT and ORDER BY.
    keys: Vec<String>,
    /// The clause that is being bound.
    clause: GroupedClause,
    aggregates: Vec<(AggregateKind, Expr)>,
}

/// The clauses of a grouped query that see its groups in place of its sources.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupedClause {
    Select,
    OrderBy,
}

/// The state of the binding of one query.
struct Binder<'a> {
    text: &'a str,
    parameters: HashMap<&'a str, &'a Json>,
    /// The bytes of parameter values that may still be copied into the query.
    parameter_bytes_left: usize,
    /// The bytes that folded constants may still take.
    folding_bytes_left: usize,
    environment: &'a Environment,
    diagnostics: Vec<Diagnostic>,
    /// Errors that are reported if there are no others: names outside GROUP BY.
    grouping_diagnostics: Vec<Diagnostic>,
    /// The number of compile errors, those above [`MAX_DIAGNOSTICS`] included.
    error_count: usize,
    /// The visible names, the innermost last.
    names: Vec<Name>,
    /// The visible frames, the innermost last.
    frames: Vec<Mapping>,
    /// The grouped queries whose SELECT list is being bound, the innermost last.
    groups: Vec<GroupContext>,
    /// The nesting level: 1 in the outermost query.
    level: usize,
    /// The next unknown name in FROM stands for the container. True until a FROM clause was bound.
    may_read_container: bool,
    reads_container: bool,
    udfs: Vec<String>,
    udf_calls: usize,
    /// The expression being bound is the text of a computed property.
    is_in_computed_property: bool,
    /// The expression being bound is in a WHERE clause of the current query.
    is_in_filter: bool,
    order: Vec<BoundOrder>,
    /// ORDER BY has a key that is no path of the item.
    is_order_unsupported: bool,
    counts: Counts,
    /// ORDER BY names a path with several values in an item, because a source iterates an array.
    is_order_correlated: bool,
    ranking: Option<Ranking>,
    /// The frames of the outermost query after its FROM clause.
    tuple_frames: Vec<Mapping>,
}

/// Makes a compile error.
fn diagnostic(text: &str, code: &'static str, message: String, span: Span) -> Diagnostic {
    let (start, end) = character_range(text, span);
    Diagnostic {
        code,
        message,
        hint: None,
        start,
        end,
    }
}

/// The maximum number of compile errors that are reported. A text can have an error in every second
/// character.
const MAX_DIAGNOSTICS: usize = 64;

impl<'a> Binder<'a> {
    /// Adds a compile error.
    fn report(&mut self, code: &'static str, message: String, span: Span) {
        self.error_count += 1;
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            let error = diagnostic(self.text, code, message, span);
            self.diagnostics.push(error);
        }
    }

    /// Adds a compile error that is reported if there are no others.
    fn report_grouping(&mut self, code: &'static str, message: String, span: Span) {
        self.error_count += 1;
        if self.grouping_diagnostics.len() < MAX_DIAGNOSTICS {
            let error = diagnostic(self.text, code, message, span);
            self.grouping_diagnostics.push(error);
        }
    }

    /// Binds a query or subquery. Leaves names and frames unchanged.
    ///
    /// The order of the clauses here is the order in which the service reports their errors.
    fn query(&mut self, query: &ast::Query) -> Result<Block, QueryError> {
        self.level += 1;
        let is_outer_in_filter = std::mem::replace(&mut self.is_in_filter, false);
        let (outer_names, outer_frames) = (self.names.len(), self.frames.len());
        if query.top.is_some() && query.offset_limit.is_some() {
            let message = "A TOP cannot be used in the same query or subquery as an OFFSET.";
            self.report("SC2205", message.into(), query.span);
        }
        // FROM is first, because all other clauses use its names.
        let was_read_before = self.reads_container;
        let sources = self.sources(&query.from)?;
        self.check_ranked_sources(query);
        let reads_container = self.reads_container && !was_read_before;
        self.may_read_container = false;
        let filters = self.filters(query, outer_frames)?;
        let keys = self.group_keys(query)?;
        self.order_by(query)?;
        if self.level == 1 {
            self.tuple_frames = self.frames.clone();
        }
        // SELECT is last: a grouping replaces the frames of the sources.
        self.check_ranked_distinct(query);
        let is_grouped = !query.group_by.is_empty() || has_aggregate(&query.projection);
        let (grouping, mut output) = if is_grouped {
            let (grouping, output) = self.grouped(query, keys, outer_names, outer_frames)?;
            (Some(grouping), output)
        } else {
            (None, self.projection(&query.projection, query)?)
        };
        if self.level == 1 && projection::is_ordered_row(query) {
            projection::to_sort_values(&mut output);
        }
        self.check_ranked_aggregates(query);
        self.counts(query);
        self.names.truncate(outer_names);
        self.frames.truncate(outer_frames);
        self.level -= 1;
        self.is_in_filter = is_outer_in_filter;
        Ok(Block {
            sources,
            filters,
            grouping,
            output,
            distinct: query.distinct,
            reads_container,
        })
    }

    /// Reads the counts of TOP and OFFSET LIMIT, which only the outermost query may have.
    fn counts(&mut self, query: &ast::Query) {
        let is_outermost = self.level == 1;
        match &query.top {
            Some(count) if is_outermost => {
                self.counts.top = self.count(count, "SC2060", TOP_NOT_WHOLE);
            }
            Some(_) => {
                let message = "'TOP' is not supported in subqueries.";
                self.report("SC2203", message.into(), query.top_span);
            }
            None => {}
        }
        match &query.offset_limit {
            Some(clause) if is_outermost => {
                self.counts.offset = self.count(&clause.offset, "SC2062", OFFSET_TOO_LARGE);
                self.counts.limit = self.count(&clause.limit, "SC2061", LIMIT_TOO_LARGE);
            }
            Some(clause) => {
                let message = "'OFFSET LIMIT' clause is not supported in subqueries.";
                self.report("SC2204", message.into(), clause.span);
            }
            None => {}
        }
    }

    /// Binds the conjuncts of WHERE, each with the number of sources that it refers to. The first
    /// `outer_frames` frames lie outside the query.
    fn filters(
        &mut self,
        query: &ast::Query,
        outer_frames: usize,
    ) -> Result<Vec<(usize, Expr)>, QueryError> {
        let mut conjuncts = Vec::new();
        if let Some(filter) = &query.filter {
            split_conjunction(filter, &mut conjuncts);
        }
        self.is_in_filter = true;
        let depth = self.frames.len();
        let mut filters = Vec::with_capacity(conjuncts.len());
        for conjunct in conjuncts {
            let (errors_before, calls_before) = (self.error_count, self.udf_calls);
            let bound = self.expression(conjunct)?;
            let sources = frames_needed(&bound, depth).saturating_sub(outer_frames);
            if outer_frames + sources == depth || self.error_count > errors_before {
                filters.push((depth - outer_frames, bound));
                continue;
            }
            // The conjunct is evaluated before the last sources have a value. It is bound again in
            // the frames that exist then, because hops are counted from the innermost frame.
            let later_frames = self.frames.split_off(outer_frames + sources);
            self.udf_calls = calls_before;
            let bound = self.expression(conjunct)?;
            self.frames.extend(later_frames);
            filters.push((sources, bound));
        }
        self.is_in_filter = false;
        Ok(filters)
    }

    /// Binds ORDER BY and ORDER BY RANK. A subquery must have neither; the names in the clause of a
    /// subquery are resolved all the same, to report the unknown ones.
    fn order_by(&mut self, query: &ast::Query) -> Result<(), QueryError> {
        let Some(order) = &query.order_by else {
            return Ok(());
        };
        match (self.level == 1, order.rank) {
            (true, true) => return self.order_by_rank(order),
            (true, false) => {}
            (false, true) => {
                let message = "The ORDER BY RANK clause is not supported in subqueries.";
                self.report("SC2228", message.into(), order.span);
                return Ok(());
            }
            (false, false) => {
                let message = "'ORDER BY' is not supported in subqueries.";
                self.report("SC2202", message.into(), order.span);
                for item in &order.keys {
                    self.expression(&item.expr)?;
                }
                return Ok(());
            }
        }
        // The keys of a query with GROUP BY see its groups, see `group_order`.
        if !query.group_by.is_empty() {
            return Ok(());
        }
        // A score such as VectorDistance may be the only key.
        if let [item] = order.keys.as_slice()
            && let Some(bound) = self.order_by_score(item, order.span)?
        {
            self.order.push(bound);
            return Ok(());
        }
        for item in &order.keys {
            self.order_by_key(item)?;
        }
        Ok(())
    }

    /// Binds a key of ORDER BY: a path of the item or a computed property.
    fn order_by_key(&mut self, item: &ast::OrderItem) -> Result<(), QueryError> {
        let errors_before = self.error_count;
        let expr = self.expression(&item.expr)?;
        if self.error_count > errors_before {
            return Ok(());
        }
        let mapped = self.mapping(&expr);
        let computed = self.computed_property_name(&item.expr);
        let (path, is_iterated) = match mapped {
            Mapping::Path(path) => (path.exact(), path.is_iterated),
            _ if computed.is_some() => (None, false),
            _ => {
                self.is_order_unsupported = true;
                return Ok(());
            }
        };
        self.is_order_correlated |= is_iterated;
        // A source cannot order by the item as a whole.
        let path = path.filter(|path: &Path| !path.0.is_empty());
        self.order.push(BoundOrder {
            expr,
            key: OrderKey {
                path,
                computed,
                descending: item.descending == Some(true),
            },
            distance: None,
            score: None,
        });
        Ok(())
    }

    /// Returns the value of the count of TOP, OFFSET or LIMIT. `code` and `message` are those of
    /// the error for an invalid count.
    fn count(&mut self, count: &Count, code: &'static str, message: &str) -> Option<u64> {
        let value = match &count.value {
            CountValue::Number(text) => text.parse::<f64>().ok(),
            CountValue::Parameter(name) => self.parameter(name).and_then(Json::as_f64),
        };
        // The service accepts counts of 32 bits.
        match value {
            Some(n) if n.fract() == 0.0 && (0.0..4_294_967_296.0).contains(&n) => Some(n as u64),
            _ => {
                self.report(code, message.into(), count.span);
                None
            }
        }
    }

    /// Returns the value of a parameter. The names of parameters may come with or without `@`.
    fn parameter(&self, name: &str) -> Option<&'a Json> {
        let bare = name.trim_start_matches('@');
        self.parameters
            .get(name)
            .or_else(|| self.parameters.get(bare))
            .copied()
    }
}

/// Collects the conjuncts of a filter, those inside parentheses included.
fn split_conjunction<'q>(filter: &'q ast::Expr, conjuncts: &mut Vec<&'q ast::Expr>) {
    match &filter.kind {
        Kind::Chain { first, rest } if rest.iter().all(|(op, _)| *op == ast::BinaryOp::And) => {
            split_conjunction(first, conjuncts);
            for (_, part) in rest {
                split_conjunction(part, conjuncts);
            }
        }
        _ => conjuncts.push(filter),
    }
}

/// Returns the number of frames, of the `depth` frames in which an expression was bound, that must
/// exist for its evaluation.
fn frames_needed(expr: &Expr, depth: usize) -> usize {
    let mut needed = 0;
    expr.walk(0, &mut |e, added| {
        let up = match e {
            Expr::Slot(up) | Expr::GroupKey { up, .. } | Expr::Aggregate { up, .. } => *up,
            _ => return,
        };
        // Hops that stay within the frames added by the expression itself need no outer frame.
        if let Some(outer_hops) = up.checked_sub(added) {
            needed = needed.max(depth - outer_hops);
        }
    });
    needed
}
