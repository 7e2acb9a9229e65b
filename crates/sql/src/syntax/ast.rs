//! The tree of a query as it was written, with the place of every piece.
//!
//! Left-associative operators are kept as flat chains and property paths as flat lists of steps, so the depth of a tree
//! is bounded by the nesting that the parser allows, however long the text is.

use orrery_model::json::Json;

/// Byte offsets into the text, the end exclusive.
pub(crate) type Span = (usize, usize);

/// An expression and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub kind: Kind,
    pub span: Span,
}

/// The forms of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Undefined,
    Constant(Json),
    Parameter(String),
    Identifier(String),
    /// `base.a["b"][0]`
    Path {
        base: Box<Expr>,
        steps: Vec<PathStep>,
    },
    Call {
        name: String,
        udf: bool,
        arguments: Vec<Expr>,
    },
    Unary(UnaryOp, Box<Expr>),
    /// `first op a op b ...`, left to right; all operators are of one level.
    Chain {
        first: Box<Expr>,
        rest: Vec<(BinaryOp, Expr)>,
    },
    /// `a ?? b ?? c`
    Coalesce(Vec<Expr>),
    /// `condition ? yes : no`
    Conditional(Box<[Expr; 3]>),
    Between {
        value: Box<Expr>,
        bounds: Box<[Expr; 2]>,
        negated: bool,
    },
    In {
        value: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    Like {
        value: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<String>,
        negated: bool,
    },
    Array(Vec<Expr>),
    Object(Vec<(String, Expr)>),
    Subquery(SubqueryKind, Box<Query>),
    /// `LET name = value IN body`
    Let {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// `{documentdb-formattableorderbyquery-filter}`, where a client puts its own filter. True until then.
    FilterPlaceholder,
    /// What a client replaces before it sends a text back. Made for plans and printed as it is; no text reads as one.
    Verbatim(String),
}

/// One step of a path.
#[derive(Clone, Debug)]
pub(crate) enum PathStep {
    /// `.name`
    Dot(String),
    /// `[expression]`
    Bracket(Expr),
}

/// How a subquery's rows become a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SubqueryKind {
    Scalar,
    Exists,
    Array,
    All,
    First,
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Minus,
    Plus,
    BitNot,
    Not,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Or,
    And,
    Equal,
    NotEqual,
    Less,
    Greater,
    LessOrEqual,
    GreaterOrEqual,
    ShiftLeft,
    ShiftRight,
    ShiftRightUnsigned,
    Concat,
    Add,
    Subtract,
    BitAnd,
    BitOr,
    BitXor,
    Multiply,
    Divide,
    Modulo,
}

/// Every binary operator: its text as printed, its level (higher binds tighter).
pub(crate) const BINARY_OPERATORS: &[(&str, BinaryOp, u8)] = &[
    ("OR", BinaryOp::Or, 1),
    ("AND", BinaryOp::And, 2),
    ("=", BinaryOp::Equal, 4),
    ("!=", BinaryOp::NotEqual, 4),
    ("<>", BinaryOp::NotEqual, 4),
    ("<", BinaryOp::Less, 4),
    (">", BinaryOp::Greater, 4),
    ("<=", BinaryOp::LessOrEqual, 4),
    (">=", BinaryOp::GreaterOrEqual, 4),
    ("<<", BinaryOp::ShiftLeft, 4),
    (">>", BinaryOp::ShiftRight, 4),
    (">>>", BinaryOp::ShiftRightUnsigned, 4),
    ("||", BinaryOp::Concat, 5),
    ("+", BinaryOp::Add, 6),
    ("-", BinaryOp::Subtract, 6),
    ("&", BinaryOp::BitAnd, 6),
    ("|", BinaryOp::BitOr, 6),
    ("^", BinaryOp::BitXor, 6),
    ("*", BinaryOp::Multiply, 7),
    ("/", BinaryOp::Divide, 7),
    ("%", BinaryOp::Modulo, 7),
];

/// The level on which IN and LIKE stand, between AND and the comparisons.
pub(crate) const PREDICATE_LEVEL: u8 = 3;

/// A whole query or subquery.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    pub distinct: bool,
    pub top: Option<Count>,
    /// `TOP n`, both words.
    pub top_span: Span,
    pub projection: Projection,
    pub from: Vec<Source>,
    pub filter: Option<Expr>,
    pub group_by: Vec<Expr>,
    pub order_by: Option<OrderBy>,
    pub offset_limit: Option<OffsetLimit>,
}

/// The count of TOP, OFFSET or LIMIT.
#[derive(Clone, Debug)]
pub(crate) struct Count {
    pub value: CountValue,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum CountValue {
    /// As written.
    Number(String),
    Parameter(String),
}

#[derive(Clone, Debug)]
pub(crate) struct OffsetLimit {
    pub offset: Count,
    pub limit: Count,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Projection {
    /// `*`
    All(Span),
    Value(Expr),
    List(Vec<Item>),
}

#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub expr: Expr,
    pub alias: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub collection: Collection,
    pub alias: Option<String>,
    /// `alias IN collection`
    pub iterate: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) enum Collection {
    Path {
        root: String,
        root_span: Span,
        steps: Vec<PathStep>,
    },
    Subquery(Box<Query>),
}

#[derive(Clone, Debug)]
pub(crate) struct OrderBy {
    pub keys: Vec<OrderItem>,
    /// ORDER BY RANK
    pub rank: bool,
    pub span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct OrderItem {
    pub expr: Expr,
    /// `None` where neither ASC nor DESC is written.
    pub descending: Option<bool>,
}
