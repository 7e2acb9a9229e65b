//! The bound form of a query, which `run` executes: names resolved to frames, functions to
//! pointers, parameters to values.
//!
//! An expression is evaluated in a chain of frames. Frame 0 holds the item. Each further source of
//! a FROM clause adds a frame; a grouping replaces the frames of its query by one frame that holds
//! keys and aggregates. An expression refers to a frame by the number of hops up the chain (`up`),
//! which is known when the query is compiled:
//!
//! ```text
//! FROM c JOIN t IN c.tags JOIN w IN t.words
//!
//! frame 0: c   <-   frame 1: t   <-   frame 2: w
//! up = 2            up = 1            up = 0        as seen from WHERE and SELECT
//! ```

use crate::error::Diagnostic;
use crate::functions::like::Pattern;
use crate::functions::{AggregateKind, Function};
use crate::syntax::ast::{BinaryOp, SubqueryKind, UnaryOp};
use orrery_model::json::Json;
use std::collections::HashSet;

/// A compiled expression.
#[derive(Debug)]
pub(crate) enum Expr {
    /// A constant; `None` is undefined.
    Constant(Option<Json>),
    /// The value of the frame this many hops up.
    Slot(usize),
    /// `base.a[0]`
    Path {
        base: Box<Expr>,
        steps: Box<[Step]>,
    },
    /// A key of the grouping whose frame is `up` hops up.
    GroupKey {
        up: usize,
        index: usize,
    },
    /// An aggregate of the grouping whose frame is `up` hops up.
    Aggregate {
        up: usize,
        index: usize,
    },
    /// A call of a built-in function.
    Call {
        function: &'static Function,
        arguments: Box<[Expr]>,
    },
    /// A call of a user-defined function.
    Udf(Box<UdfCall>),
    Unary(UnaryOp, Box<Expr>),
    And(Box<[Expr]>),
    Or(Box<[Expr]>),
    /// One comparison. Separate from `Chain`, because it is by far the most frequent operator.
    Compare(BinaryOp, Box<[Expr; 2]>),
    /// `first op a op b ...`, evaluated from left to right.
    Chain {
        first: Box<Expr>,
        rest: Box<[(BinaryOp, Expr)]>,
    },
    In {
        value: Box<Expr>,
        list: Box<[Expr]>,
    },
    /// IN with many constants, evaluated by digest. The values are kept for the index condition.
    InSet {
        value: Box<Expr>,
        digests: HashSet<u128>,
        values: Box<[Json]>,
    },
    Like {
        value: Box<Expr>,
        pattern: LikePattern,
    },
    Coalesce(Box<[Expr]>),
    Conditional(Box<[Expr; 3]>),
    /// The function CHOOSE.
    Choose(Box<[Expr]>),
    Array(Box<[Expr]>),
    Object(Box<[(String, Expr)]>),
    Subquery(SubqueryKind, Box<Block>),
    /// The value by which ORDER BY sorts, see [`crate::value::sort_value`].
    SortValue(Box<Expr>),
    /// LET: the body is evaluated in one more frame, which holds the value.
    Let {
        value: Box<Expr>,
        body: Box<Expr>,
    },
}

/// A call of a user-defined function.
#[derive(Debug)]
pub(crate) struct UdfCall {
    pub(crate) name: String,
    pub(crate) arguments: Box<[Expr]>,
    /// The error of the call, if the container has no such function: a query that evaluates the
    /// call for no row has no error.
    pub(crate) missing: Option<Diagnostic>,
}

/// One step of a path.
#[derive(Debug)]
pub(crate) enum Step {
    /// `.name` or `["name"]`
    Name(String),
    /// `[0]`
    Index(usize),
    /// A constant for which every value is undefined: a negative or fractional index, a boolean.
    Nothing,
}

/// The pattern of LIKE.
#[derive(Debug)]
pub(crate) enum LikePattern {
    /// Compiled once, with the query.
    Constant(Pattern),
    /// Compiled for each tuple.
    Dynamic {
        pattern: Box<Expr>,
        escape: Option<char>,
    },
}

/// A query or subquery.
#[derive(Debug)]
pub(crate) struct Block {
    pub sources: Vec<Source>,
    /// The conjuncts of WHERE, each with the number of sources that it refers to. A conjunct is
    /// evaluated as soon as this many sources have a value.
    pub filters: Vec<(usize, Expr)>,
    pub grouping: Option<Grouping>,
    pub output: Output,
    pub distinct: bool,
    /// FROM reads the container, directly or through its first subquery.
    pub reads_container: bool,
}

/// One source of FROM that adds a frame. `FROM c` over the container adds no frame: `c` is frame 0.
#[derive(Debug)]
pub(crate) struct Source {
    pub input: Input,
    /// `alias IN input`: the frame holds one element of the input at a time.
    pub iterate: bool,
}

/// The input of a source.
#[derive(Debug)]
pub(crate) enum Input {
    Expr(Expr),
    Subquery(Box<Block>),
}

/// GROUP BY, or aggregates without GROUP BY.
#[derive(Debug)]
pub(crate) struct Grouping {
    /// The GROUP BY expressions. If empty there is exactly one group, also for an empty input.
    pub keys: Vec<Expr>,
    pub aggregates: Vec<(AggregateKind, Expr)>,
    /// The values by which the groups are sorted: expressions that see the frame of the group, each
    /// with true if it descends. Those of ORDER BY, or the only path that the query reads.
    pub order: Vec<(Expr, bool)>,
}

/// ORDER BY RANK: one score, or several that are fused by their ranks.
#[derive(Debug)]
pub(crate) struct Ranking {
    pub components: Vec<Component>,
}

/// One score of a ranking.
#[derive(Debug)]
pub(crate) struct Component {
    /// The call that computes the score; a larger score is better. The call for a text lacks the
    /// statistics of the container until [`crate::Query::with_statistics`] adds them.
    pub score: Expr,
    /// The weight is negative: the lowest scores come first.
    pub is_reversed: bool,
    /// The absolute value of the weight.
    pub weight: f64,
    /// The score of a row whose score is undefined: worse than all others.
    pub score_if_undefined: f64,
    /// The index among the text scores of the ranking, if this is the score of a text.
    pub text_index: Option<usize>,
}

/// The SELECT list: the expressions of which a row is made.
#[derive(Debug)]
pub(crate) enum Output {
    /// SELECT VALUE.
    Value(Expr),
    /// The members of the row, in the order of the SELECT list.
    Members(Vec<(String, Expr)>),
}

impl Block {
    /// Returns true if the block must read all of its input before its first row.
    pub(crate) fn is_blocking(&self) -> bool {
        self.grouping.is_some() || self.distinct
    }

    /// Returns the first subquery of FROM if its rows come only after all items were read, as with
    /// `FROM (SELECT DISTINCT ...)`.
    pub(crate) fn blocking_subquery(&self) -> Option<&Block> {
        let Input::Subquery(inner) = &self.sources.first()?.input else {
            return None;
        };
        let blocks = inner.is_blocking() || inner.blocking_subquery().is_some();
        (inner.reads_container && blocks).then_some(inner)
    }

    /// Returns true if the block can return more than one row.
    pub(crate) fn can_return_many_rows(&self) -> bool {
        let has_one_group = self.grouping.as_ref().is_some_and(|g| g.keys.is_empty());
        if has_one_group {
            return false;
        }
        self.sources.iter().any(|source| {
            let subquery_can = match &source.input {
                Input::Subquery(block) => block.can_return_many_rows(),
                Input::Expr(_) => false,
            };
            source.iterate || subquery_can
        })
    }
}

impl Expr {
    /// Returns true if the expression is a constant.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self, Expr::Constant(_))
    }

    /// Calls `visit` for this expression and every expression inside it, those of subqueries
    /// included. The second argument is `added` plus the number of frames that the visited
    /// expression sees in addition to those that `self` sees.
    pub(crate) fn walk(&self, added: usize, visit: &mut dyn FnMut(&Expr, usize)) {
        // An expression comes before its parts; `NeededProperties` and `Query::covered_path` rely
        // on it.
        visit(self, added);
        let mut all = |list: &[Expr]| list.iter().for_each(|e| e.walk(added, visit));
        match self {
            Expr::Constant(_) | Expr::Slot(_) | Expr::GroupKey { .. } | Expr::Aggregate { .. } => {}
            Expr::Path { base, .. } => base.walk(added, visit),
            Expr::Call { arguments, .. } => all(arguments),
            Expr::Udf(call) => all(&call.arguments),
            Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Choose(list)
            | Expr::Array(list) => all(list),
            Expr::Unary(_, operand) | Expr::SortValue(operand) => operand.walk(added, visit),
            Expr::Compare(_, both) => all(both.as_slice()),
            Expr::Conditional(three) => all(three.as_slice()),
            Expr::Chain { first, rest } => {
                first.walk(added, visit);
                rest.iter().for_each(|(_, e)| e.walk(added, visit));
            }
            Expr::In { value, list } => {
                all(list);
                value.walk(added, visit);
            }
            Expr::InSet { value, .. } => value.walk(added, visit),
            Expr::Like { value, pattern } => {
                value.walk(added, visit);
                if let LikePattern::Dynamic { pattern, .. } = pattern {
                    pattern.walk(added, visit);
                }
            }
            Expr::Object(members) => members.iter().for_each(|(_, e)| e.walk(added, visit)),
            Expr::Subquery(_, block) => block.walk(added, visit),
            Expr::Let { value, body } => {
                value.walk(added, visit);
                body.walk(added + 1, visit);
            }
        }
    }
}

impl Block {
    /// Calls `visit` for all expressions of the block, as [`Expr::walk`] does.
    pub(crate) fn walk(&self, added: usize, visit: &mut dyn FnMut(&Expr, usize)) {
        self.walk_parts(added, true, visit);
    }

    /// Calls `visit` for all expressions of the block, with or without the block's own filters.
    pub(crate) fn walk_parts(
        &self,
        added: usize,
        with_filters: bool,
        visit: &mut dyn FnMut(&Expr, usize),
    ) {
        // A source sees the frames of the sources before it.
        for (i, source) in self.sources.iter().enumerate() {
            match &source.input {
                Input::Expr(e) => e.walk(added + i, visit),
                Input::Subquery(block) => block.walk(added + i, visit),
            }
        }
        if with_filters {
            for (sources, filter) in &self.filters {
                filter.walk(added + sources, visit);
            }
        }
        // Keys and aggregates see all sources. The output does so as well, unless a grouping
        // replaced their frames by its own.
        let tuple = added + self.sources.len();
        let mut output = tuple;
        if let Some(grouping) = &self.grouping {
            for key in &grouping.keys {
                key.walk(tuple, visit);
            }
            for (_, argument) in &grouping.aggregates {
                argument.walk(tuple, visit);
            }
            output = added + 1;
            for (key, _) in &grouping.order {
                key.walk(output, visit);
            }
        }
        match &self.output {
            Output::Value(e) => e.walk(output, visit),
            Output::Members(members) => members.iter().for_each(|(_, e)| e.walk(output, visit)),
        }
    }
}
