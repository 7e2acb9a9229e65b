//! The syntax tree of a query, with the position of every node in the text.
//!
//! Left-associative operators are flat chains and property paths are flat lists of steps. The depth
//! of a tree is therefore bounded by the nesting that the parser allows, for a text of any length.

use orrery_model::json::Json;

/// Byte offsets into the text, the end exclusive.
pub(crate) type Span = (usize, usize);

/// An expression and its position.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub kind: Kind,
    pub span: Span,
}

/// The kinds of expressions.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// `undefined`
    Undefined,
    /// A literal.
    Constant(Json),
    /// `@name`; the string includes the `@`.
    Parameter(String),
    /// The name of a source or of a LET variable.
    Identifier(String),
    /// `base.a["b"][0]`
    Path {
        base: Box<Expr>,
        steps: Vec<PathStep>,
    },
    /// `name(...)`, or `udf.name(...)` if `udf` is true.
    Call {
        name: String,
        udf: bool,
        arguments: Vec<Expr>,
    },
    /// `-a`, `NOT a`
    Unary(UnaryOp, Box<Expr>),
    /// `first op a op b ...`, from left to right; all operators have the same precedence.
    Chain {
        first: Box<Expr>,
        rest: Vec<(BinaryOp, Expr)>,
    },
    /// `a ?? b ?? c`
    Coalesce(Vec<Expr>),
    /// `condition ? yes : no`
    Conditional(Box<[Expr; 3]>),
    /// `value [NOT] BETWEEN a AND b`
    Between {
        value: Box<Expr>,
        bounds: Box<[Expr; 2]>,
        negated: bool,
    },
    /// `value [NOT] IN (a, b, ...)`
    In {
        value: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    /// `value [NOT] LIKE pattern [ESCAPE 'c']`
    Like {
        value: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<String>,
        negated: bool,
    },
    /// `[a, b, ...]`
    Array(Vec<Expr>),
    /// `{"name": a, ...}`
    Object(Vec<Member>),
    /// `(SELECT ...)`, `EXISTS(SELECT ...)`
    Subquery(SubqueryKind, Box<Query>),
    /// `LET name = value IN body`
    Let {
        name: String,
        value: Box<Expr>,
        body: Box<Expr>,
    },
    /// `{documentdb-formattableorderbyquery-filter}`, which a client replaces by its own filter.
    /// Evaluates to true if the client leaves it in the text.
    FilterPlaceholder,
    /// Text of a client plan that is printed without change, such as a placeholder that the client
    /// replaces before it sends the query. The parser never makes this kind.
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

/// The way in which the rows of a subquery become a value.
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

/// All binary operators: text as printed, operator, precedence level (a higher level binds
/// tighter).
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

/// The precedence level of IN and LIKE, between AND and the comparisons.
pub(crate) const PREDICATE_LEVEL: u8 = 3;

/// A member of an object constructor.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub name: String,
    /// The span of the name.
    pub name_span: Span,
    pub value: Expr,
}

/// A query or subquery.
#[derive(Clone, Debug)]
pub(crate) struct Query {
    /// The span of the whole query, without parentheses around it.
    pub span: Span,
    /// The span of SELECT and its list.
    pub select_span: Span,
    pub distinct: bool,
    pub top: Option<Count>,
    /// The span of `TOP n`, keyword and count.
    pub top_span: Span,
    pub projection: Projection,
    pub from: Vec<Source>,
    pub filter: Option<Expr>,
    pub group_by: Vec<Expr>,
    /// The span of `GROUP BY` and its expressions.
    pub group_by_span: Span,
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
    /// A number literal, as written.
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
    /// The span of the token that names the item: the alias, or the last name of a path.
    pub name_span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub collection: Collection,
    pub alias: Option<String>,
    /// The span of the token that names the source.
    pub name_span: Span,
    /// `alias IN collection`
    pub iterate: bool,
    /// The span of the collection, without its alias.
    pub collection_span: Span,
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
    /// True for DESC, false for ASC, `None` if neither is written.
    pub descending: Option<bool>,
}

impl Query {
    /// Returns true if the query has ORDER BY RANK.
    pub(crate) fn is_ranked(&self) -> bool {
        self.order_by.as_ref().is_some_and(|order| order.rank)
    }
}

impl Expr {
    /// Calls `visit` for each direct operand of the expression. Subqueries are not entered.
    pub(crate) fn for_each_operand<'e>(&'e self, visit: &mut dyn FnMut(&'e Expr)) {
        match &self.kind {
            Kind::Undefined
            | Kind::Constant(_)
            | Kind::Parameter(_)
            | Kind::Identifier(_)
            | Kind::Subquery(..)
            | Kind::FilterPlaceholder
            | Kind::Verbatim(_) => {}
            Kind::Path { base, steps } => {
                visit(base);
                for step in steps {
                    if let PathStep::Bracket(expr) = step {
                        visit(expr);
                    }
                }
            }
            Kind::Call {
                arguments: list, ..
            }
            | Kind::Coalesce(list)
            | Kind::Array(list) => list.iter().for_each(visit),
            Kind::Unary(_, operand) => visit(operand),
            Kind::Chain { first, rest } => {
                visit(first);
                rest.iter().for_each(|(_, expr)| visit(expr));
            }
            Kind::Conditional(parts) => parts.iter().for_each(visit),
            Kind::Between { value, bounds, .. } => {
                visit(value);
                bounds.iter().for_each(visit);
            }
            Kind::In { value, list, .. } => {
                visit(value);
                list.iter().for_each(visit);
            }
            Kind::Like { value, pattern, .. } => {
                visit(value);
                visit(pattern);
            }
            Kind::Object(members) => members.iter().for_each(|member| visit(&member.value)),
            Kind::Let { value, body, .. } => {
                visit(value);
                visit(body);
            }
        }
    }
}

impl BinaryOp {
    /// Returns true for `=`, `!=`, `<`, `<=`, `>` and `>=`.
    pub(crate) fn is_comparison(self) -> bool {
        matches!(
            self,
            BinaryOp::Equal
                | BinaryOp::NotEqual
                | BinaryOp::Less
                | BinaryOp::Greater
                | BinaryOp::LessOrEqual
                | BinaryOp::GreaterOrEqual
        )
    }
}
