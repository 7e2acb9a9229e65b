//! The query as it runs: names resolved to frames, functions to pointers, parameters to values.
//!
//! A running expression sees a chain of frames. Frame 0 holds the item; each further source of a FROM clause adds a
//! frame, a grouping replaces the frames of its query by one that holds keys and aggregates. An expression names a
//! frame by how many hops up the chain it is, which is known when the query is compiled.

use crate::functions::like::Pattern;
use crate::functions::{AggregateKind, Function};
use crate::syntax::ast::{BinaryOp, SubqueryKind, UnaryOp};
use orrery_model::json::Json;
use std::collections::HashSet;

/// A compiled expression.
#[derive(Debug)]
pub(crate) enum Expr {
    /// `None` is undefined.
    Constant(Option<Json>),
    /// The value of the frame so many hops up.
    Slot(usize),
    Path {
        base: Box<Expr>,
        steps: Box<[Step]>,
    },
    GroupKey {
        up: usize,
        index: usize,
    },
    Aggregate {
        up: usize,
        index: usize,
    },
    Call {
        function: &'static Function,
        arguments: Box<[Expr]>,
    },
    Udf {
        name: String,
        arguments: Box<[Expr]>,
    },
    Unary(UnaryOp, Box<Expr>),
    And(Box<[Expr]>),
    Or(Box<[Expr]>),
    /// One comparison, the commonest operator by far.
    Compare(BinaryOp, Box<[Expr; 2]>),
    Chain {
        first: Box<Expr>,
        rest: Box<[(BinaryOp, Expr)]>,
    },
    In {
        value: Box<Expr>,
        list: Box<[Expr]>,
    },
    /// IN with many constants, by digest. The values themselves serve the condition.
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
    Choose(Box<[Expr]>),
    Array(Box<[Expr]>),
    Object(Box<[(String, Expr)]>),
    Subquery(SubqueryKind, Box<Block>),
    /// The body sees the value as one more frame.
    Let {
        value: Box<Expr>,
        body: Box<Expr>,
    },
}

/// One step into a value.
#[derive(Debug)]
pub(crate) enum Step {
    Name(String),
    Index(usize),
    Dynamic(Expr),
    /// A constant that selects nothing: a negative or fractional index, a boolean.
    Nothing,
}

#[derive(Debug)]
pub(crate) enum LikePattern {
    Constant(Pattern),
    Dynamic {
        pattern: Box<Expr>,
        escape: Option<char>,
    },
}

/// A query or subquery.
#[derive(Debug)]
pub(crate) struct Block {
    pub sources: Vec<Source>,
    /// Conjuncts of WHERE, each with the number of sources that must be bound before it can be judged.
    pub filters: Vec<(usize, Expr)>,
    pub grouping: Option<Grouping>,
    pub output: Output,
    pub distinct: bool,
    /// FROM reads the container, itself or through its first subquery.
    pub reads_container: bool,
}

/// One source of FROM that adds a frame. `FROM c` over the container adds none: it names frame 0.
#[derive(Debug)]
pub(crate) struct Source {
    pub input: Input,
    pub iterate: bool,
}

#[derive(Debug)]
pub(crate) enum Input {
    Expr(Expr),
    Subquery(Box<Block>),
}

/// GROUP BY, or an aggregate without it.
#[derive(Debug)]
pub(crate) struct Grouping {
    /// Empty: one group of everything, even of nothing.
    pub keys: Vec<Expr>,
    pub aggregates: Vec<(AggregateKind, Expr)>,
}

/// ORDER BY RANK: scores, fused by their ranks if there are several.
#[derive(Debug)]
pub(crate) struct Ranking {
    pub components: Vec<Component>,
}

/// One score of a ranking.
#[derive(Debug)]
pub(crate) struct Component {
    /// The call that computes it, larger for better. One of a text lacks the statistics of the container until they are
    /// known.
    pub score: Expr,
    /// A negative weight: the lowest scores come first.
    pub is_reversed: bool,
    /// Without its sign.
    pub weight: f64,
    /// What an undefined score counts as: worse than all others.
    pub score_if_undefined: f64,
    /// It is the score of a text, the so-and-so-manyth.
    pub text_index: Option<usize>,
}

/// What a row is made of.
#[derive(Debug)]
pub(crate) enum Output {
    Value(Expr),
    Members(Vec<(String, Expr)>),
}

impl Block {
    /// Whether rows come only after all input was seen.
    pub fn is_blocking(&self) -> bool {
        self.grouping.is_some() || self.distinct
    }

    /// Returns the first subquery of FROM if its rows come only after all items were read, as with
    /// `FROM (SELECT DISTINCT ...)`.
    pub fn blocking_subquery(&self) -> Option<&Block> {
        let Input::Subquery(inner) = &self.sources.first()?.input else {
            return None;
        };
        let blocks = inner.is_blocking() || inner.blocking_subquery().is_some();
        (inner.reads_container && blocks).then_some(inner)
    }

    /// Whether it can give more than one value.
    pub fn can_return_many_rows(&self) -> bool {
        let single_group = self.grouping.as_ref().is_some_and(|g| g.keys.is_empty());
        let many = |s: &Source| {
            s.iterate || matches!(&s.input, Input::Subquery(block) if block.can_return_many_rows())
        };
        !single_group && self.sources.iter().any(many)
    }
}

impl Expr {
    pub fn is_constant(&self) -> bool {
        matches!(self, Expr::Constant(_))
    }

    /// Calls `visit` on this expression and everything in it, subqueries included, with the number of frames that lie
    /// between it and the place where the walk began.
    pub fn walk(&self, added: usize, visit: &mut dyn FnMut(&Expr, usize)) {
        visit(self, added);
        let mut all = |list: &[Expr]| list.iter().for_each(|e| e.walk(added, visit));
        match self {
            Expr::Constant(_) | Expr::Slot(_) | Expr::GroupKey { .. } | Expr::Aggregate { .. } => {}
            Expr::Path { base, steps } => {
                base.walk(added, visit);
                for step in steps {
                    if let Step::Dynamic(e) = step {
                        e.walk(added, visit);
                    }
                }
            }
            Expr::Call { arguments, .. } | Expr::Udf { arguments, .. } => all(arguments),
            Expr::And(list)
            | Expr::Or(list)
            | Expr::Coalesce(list)
            | Expr::Choose(list)
            | Expr::Array(list) => all(list),
            Expr::Unary(_, operand) => operand.walk(added, visit),
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
    /// As [`Expr::walk`], over all expressions of the block.
    pub fn walk(&self, added: usize, visit: &mut dyn FnMut(&Expr, usize)) {
        self.walk_parts(added, true, visit);
    }

    /// As `walk`, with or without the block's own filters.
    pub fn walk_parts(&self, added: usize, filters: bool, visit: &mut dyn FnMut(&Expr, usize)) {
        for (i, source) in self.sources.iter().enumerate() {
            match &source.input {
                Input::Expr(e) => e.walk(added + i, visit),
                Input::Subquery(block) => block.walk(added + i, visit),
            }
        }
        let tuple = added + self.sources.len();
        if filters {
            self.filters
                .iter()
                .for_each(|(bound, e)| e.walk(added + bound, visit));
        }
        let mut output = tuple;
        if let Some(grouping) = &self.grouping {
            grouping.keys.iter().for_each(|e| e.walk(tuple, visit));
            grouping
                .aggregates
                .iter()
                .for_each(|(_, e)| e.walk(tuple, visit));
            output = added + 1;
        }
        match &self.output {
            Output::Value(e) => e.walk(output, visit),
            Output::Members(members) => members.iter().for_each(|(_, e)| e.walk(output, visit)),
        }
    }
}
