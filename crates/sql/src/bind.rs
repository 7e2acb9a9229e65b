//! Tree to running form: resolves names, functions and parameters, checks what grammar cannot, splits filters.
//!
//! Errors of meaning are collected, so that a query with two unknown names is told both; the first broken clause of
//! another kind ends the work.

mod expressions;
mod mapping;
mod projection;
mod search;
mod sources;

pub(crate) use mapping::{Mapping, Rooted, of as mapping_of, of_source};
pub(crate) use projection::{contains, has_aggregate, is_aggregate, item_names};
pub(crate) use search::{Scoring, score_call, scorings};

use crate::bound::{Block, Expr, Ranking};
use crate::condition::{OrderKey, Path, Step};
use crate::error::{Diagnostic, QueryError};
use crate::functions::AggregateKind;
use crate::functions::vector::DistanceFunction;
use crate::seams::Environment;
use crate::syntax::ast::{self, Count, CountValue, Kind, Span};
use crate::syntax::characters;
use orrery_model::json::Json;
use orrery_model::limits;
use std::collections::HashMap;

/// A bound query with its clauses that exist only at the top.
pub(crate) struct Bound {
    pub block: Block,
    pub order: Vec<BoundOrder>,
    /// ORDER BY RANK.
    pub ranking: Option<Ranking>,
    pub top: Option<u64>,
    pub offset: Option<u64>,
    pub limit: Option<u64>,
    /// Whether FROM reads the container, at whatever depth.
    pub reads_container: bool,
    /// What the frames of a tuple of the outermost block stand for.
    pub frames: Vec<Mapping>,
    pub udfs: Vec<String>,
    /// `SELECT *`
    pub selects_all: bool,
}

/// One key of ORDER BY.
pub(crate) struct BoundOrder {
    pub expr: Expr,
    pub key: OrderKey,
    /// The expression is how near a vector is, of which the query's own text speaks as this distance.
    pub distance: Option<DistanceFunction>,
}

/// Binds a whole query.
pub(crate) fn bind(
    query: &ast::Query,
    text: &str,
    parameters: &[(String, Json)],
    environment: &Environment,
) -> Result<Bound, QueryError> {
    let mut binder = Binder {
        text,
        parameters: by_name(parameters)?,
        parameters_left: expressions::PARAMETER_BYTES,
        folding_left: expressions::FOLDED_BYTES,
        environment,
        diagnostics: Vec::new(),
        faults: 0,
        names: Vec::new(),
        frames: vec![Mapping::root()],
        groups: Vec::new(),
        level: 0,
        container: true,
        reads_container: false,
        udfs: Vec::new(),
        udf_calls: 0,
        in_computed: false,
        order: Vec::new(),
        ranking: None,
        tuple_frames: Vec::new(),
    };
    let top = query
        .top
        .as_ref()
        .map(|c| binder.count(c, "SC2060", TOP_NOT_WHOLE))
        .transpose()?;
    let cut = query.offset_limit.as_ref();
    let offset = cut
        .map(|c| binder.count(&c.offset, "SC2062", OFFSET_TOO_LARGE))
        .transpose()?;
    let limit = cut
        .map(|c| binder.count(&c.limit, "SC2061", LIMIT_TOO_LARGE))
        .transpose()?;
    let block = binder.query(query)?;
    if !binder.diagnostics.is_empty() {
        return Err(QueryError::Compile(binder.diagnostics));
    }
    let selects_all = matches!(query.projection, ast::Projection::All(_));
    Ok(Bound {
        block,
        order: binder.order,
        ranking: binder.ranking,
        top,
        offset,
        limit,
        reads_container: binder.reads_container,
        frames: binder.tuple_frames,
        udfs: binder.udfs,
        selects_all,
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

/// A name that expressions may use, and the frame it stands for.
#[derive(Clone)]
struct Name {
    name: String,
    frame: usize,
}

/// While the SELECT list of a grouped query is bound: what it may refer to.
struct GroupContext {
    /// The query it belongs to.
    level: usize,
    /// The frame of keys and aggregates.
    frame: usize,
    /// Names and frames as aggregates see them.
    names: Vec<Name>,
    frames: Vec<Mapping>,
    /// Names of the query's own sources: those the SELECT list must not use bare.
    own: Vec<String>,
    /// GROUP BY expressions as text, to find them again.
    keys: Vec<String>,
    aggregates: Vec<(AggregateKind, Expr)>,
}

struct Binder<'a> {
    text: &'a str,
    parameters: HashMap<&'a str, &'a Json>,
    /// Bytes that parameters may still be copied into.
    parameters_left: usize,
    /// Bytes that folded constants may still take.
    folding_left: usize,
    environment: &'a Environment,
    diagnostics: Vec<Diagnostic>,
    /// How many there would be if all were told.
    faults: usize,
    names: Vec<Name>,
    frames: Vec<Mapping>,
    groups: Vec<GroupContext>,
    /// How deep in subqueries.
    level: usize,
    /// The container may be named: nothing has been read yet.
    container: bool,
    reads_container: bool,
    udfs: Vec<String>,
    udf_calls: usize,
    in_computed: bool,
    order: Vec<BoundOrder>,
    ranking: Option<Ranking>,
    tuple_frames: Vec<Mapping>,
}

/// Errors of one query that are told; a text can have one in every other character.
const DIAGNOSTICS_TOLD: usize = 64;

impl<'a> Binder<'a> {
    fn report(&mut self, code: &'static str, message: String, span: Span) {
        self.faults += 1;
        if self.diagnostics.len() < DIAGNOSTICS_TOLD {
            let (start, end) = characters(self.text, span);
            self.diagnostics.push(Diagnostic {
                code,
                message,
                start,
                end,
            });
        }
    }

    /// A query or, below the first level, a subquery. Leaves names and frames as it found them.
    fn query(&mut self, query: &ast::Query) -> Result<Block, QueryError> {
        self.level += 1;
        let (names, frames) = (self.names.len(), self.frames.len());
        if self.level > 1 {
            self.refuse_top_clauses(query);
        }
        let read_before = self.reads_container;
        let sources = self.sources(&query.from)?;
        let reads_container = self.reads_container && !read_before;
        self.container = false;
        let filters = self.filters(query, frames)?;
        if self.level == 1 {
            self.order_by(query)?;
            self.tuple_frames = self.frames.clone();
        }
        let grouped = !query.group_by.is_empty() || projection::has_aggregate(&query.projection);
        let (grouping, output) = if grouped {
            let (grouping, output) = self.grouped(query, names, frames)?;
            (Some(grouping), output)
        } else {
            (None, self.projection(&query.projection, query)?)
        };
        self.names.truncate(names);
        self.frames.truncate(frames);
        self.level -= 1;
        Ok(Block {
            sources,
            filters,
            grouping,
            output,
            distinct: query.distinct,
            reads_container,
        })
    }

    fn refuse_top_clauses(&mut self, query: &ast::Query) {
        if let Some(order) = &query.order_by {
            let (code, clause) = if order.rank {
                ("SC2228", "ORDER BY RANK")
            } else {
                ("SC2202", "ORDER BY")
            };
            self.report(
                code,
                format!("'{clause}' is not supported in subqueries."),
                order.span,
            );
        } else if let Some(cut) = &query.offset_limit {
            self.report(
                "SC2204",
                "'OFFSET LIMIT' clause is not supported in subqueries.".into(),
                cut.span,
            );
        } else if query.top.is_some() {
            self.report(
                "SC2203",
                "'TOP' is not supported in subqueries.".into(),
                query.top_span,
            );
        }
    }

    /// The conjuncts of WHERE, each as soon as its sources are there.
    fn filters(
        &mut self,
        query: &ast::Query,
        base: usize,
    ) -> Result<Vec<(usize, Expr)>, QueryError> {
        let mut conjuncts = Vec::new();
        if let Some(filter) = &query.filter {
            split(filter, &mut conjuncts);
        }
        let depth = self.frames.len();
        let mut filters = Vec::with_capacity(conjuncts.len());
        for conjunct in conjuncts {
            let (faults, calls) = (self.faults, self.udf_calls);
            let bound = self.expression(conjunct)?;
            let needed = frames_needed(&bound, depth).saturating_sub(base);
            if base + needed == depth || self.faults > faults {
                filters.push((depth - base, bound));
                continue;
            }
            // Bound again where fewer frames are there, so that the hops are right.
            let later = self.frames.split_off(base + needed);
            self.udf_calls = calls;
            let bound = self.expression(conjunct)?;
            self.frames.extend(later);
            filters.push((needed, bound));
        }
        Ok(filters)
    }

    fn order_by(&mut self, query: &ast::Query) -> Result<(), QueryError> {
        let Some(order) = &query.order_by else {
            return Ok(());
        };
        if order.rank {
            return self.order_by_rank(query, order);
        }
        if !query.group_by.is_empty() {
            return Err(QueryError::Plan(
                "'ORDER BY' is not supported with 'GROUP BY'.".into(),
            ));
        }
        if let [item] = order.keys.as_slice()
            && let Some(bound) = self.order_by_score(item)?
        {
            self.order.push(bound);
            return Ok(());
        }
        for item in &order.keys {
            let faults = self.faults;
            let expr = self.expression(&item.expr)?;
            if self.faults > faults {
                continue;
            }
            let mapped = self.mapping(&expr);
            let computed = self.is_computed(&item.expr);
            let path = match mapped {
                Mapping::Path(rooted) => rooted.exact_path(),
                _ if computed => None,
                _ => return Err(QueryError::OrderBy(UNSUPPORTED_ORDER.into())),
            };
            let iterated = path.as_ref().is_some_and(|p| p.0.contains(&Step::Element));
            if iterated && query.distinct {
                let message = "Order-by over correlated collections is not supported.";
                return Err(QueryError::Plan(message.into()));
            }
            let path = path.filter(|p: &Path| !iterated && !p.0.is_empty());
            let key = OrderKey {
                path,
                descending: item.descending == Some(true),
            };
            self.order.push(BoundOrder {
                expr,
                key,
                distance: None,
            });
        }
        Ok(())
    }

    fn count(
        &mut self,
        count: &Count,
        code: &'static str,
        message: &str,
    ) -> Result<u64, QueryError> {
        let value = match &count.value {
            CountValue::Number(text) => text.parse::<f64>().ok(),
            CountValue::Parameter(name) => self.parameter(name).and_then(Json::as_f64),
        };
        // The service takes counts of 32 bits.
        match value {
            Some(n) if n.fract() == 0.0 && (0.0..4_294_967_296.0).contains(&n) => Ok(n as u64),
            _ => Err(QueryError::at(
                code,
                message,
                characters(self.text, count.span),
            )),
        }
    }

    fn parameter(&self, name: &str) -> Option<&'a Json> {
        let bare = name.trim_start_matches('@');
        self.parameters
            .get(name)
            .or_else(|| self.parameters.get(bare))
            .copied()
    }
}

/// The parts of an AND, parentheses looked through.
fn split<'q>(filter: &'q ast::Expr, into: &mut Vec<&'q ast::Expr>) {
    match &filter.kind {
        Kind::Chain { first, rest } if rest.iter().all(|(op, _)| *op == ast::BinaryOp::And) => {
            split(first, into);
            rest.iter().for_each(|(_, e)| split(e, into));
        }
        _ => into.push(filter),
    }
}

/// How many of the frames below `depth` an expression bound at `depth` needs.
fn frames_needed(expr: &Expr, depth: usize) -> usize {
    let mut needed = 0;
    expr.walk(0, &mut |e, added| {
        let up = match e {
            Expr::Slot(up) | Expr::GroupKey { up, .. } | Expr::Aggregate { up, .. } => *up,
            _ => return,
        };
        // Hops beyond the frames that the expression itself adds lead to the frames outside.
        if let Some(outside) = up.checked_sub(added) {
            needed = needed.max(depth - outside);
        }
    });
    needed
}

/// Joins are limited as the service limits them.
fn check_joins(from: &[ast::Source]) -> Result<(), QueryError> {
    if from.len() > limits::JOINS_PER_QUERY + 1 {
        let limit = limits::JOINS_PER_QUERY;
        let message = format!(
            "The SQL query exceeded the maximum number of joins. The allowed limit is {limit}."
        );
        return Err(QueryError::Plan(message));
    }
    Ok(())
}
