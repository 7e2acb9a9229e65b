//! The grammar of expressions, by precedence climbing.
//!
//! The precedence levels are those of the service and differ from those of other languages: NOT
//! binds as tightly as a minus sign, shifts have the level of comparisons, `|`, `^` and `&` that of
//! plus and minus, and an expression with BETWEEN cannot be an operand of AND or OR without
//! parentheses.

use super::ast::{
    BINARY_OPERATORS, BinaryOp, Expr, Kind, Member, PREDICATE_LEVEL, PathStep, SubqueryKind,
    UnaryOp,
};
use super::lexer::{TokenKind, number};
use super::parser::{ParseResult, Parser};
use orrery_model::json::Json;

/// Words that may precede a subquery in parentheses. Only EXISTS and ARRAY are reserved words.
const SUBQUERY_WORDS: &[(&str, SubqueryKind)] = &[
    ("EXISTS", SubqueryKind::Exists),
    ("ARRAY", SubqueryKind::Array),
    ("ALL", SubqueryKind::All),
    ("FIRST", SubqueryKind::First),
    ("LAST", SubqueryKind::Last),
];

impl Parser<'_> {
    /// `coalesce [? expr : expr]`
    pub(super) fn expression(&mut self) -> ParseResult<Expr> {
        self.nested(|p| {
            let start = p.start();
            let condition = p.coalesce()?;
            if !p.take_symbol("?") {
                return Ok(condition);
            }
            let yes = p.expression()?;
            p.expect_symbol(":")?;
            let no = p.expression()?;
            Ok(p.expr(start, Kind::Conditional(Box::new([condition, yes, no]))))
        })
    }

    /// `condition {?? condition}`
    fn coalesce(&mut self) -> ParseResult<Expr> {
        let start = self.start();
        let first = self.condition()?;
        if !self.is_symbol("??") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_symbol("??") {
            parts.push(self.condition()?);
        }
        Ok(self.expr(start, Kind::Coalesce(parts)))
    }

    /// `operand [NOT] BETWEEN operand AND operand`, or operators of all levels
    fn condition(&mut self) -> ParseResult<Expr> {
        let start = self.start();
        let first = self.level(PREDICATE_LEVEL + 1)?;
        let negated =
            self.is_keyword("NOT") && matches!(self.peek(1), TokenKind::Keyword("BETWEEN"));
        if !negated && !self.is_keyword("BETWEEN") {
            return self.operators(1, start, first);
        }
        if negated {
            self.advance();
        }
        self.advance();
        let low = self.level(PREDICATE_LEVEL + 1)?;
        self.expect_keyword("AND")?;
        let high = self.level(PREDICATE_LEVEL + 1)?;
        Ok(self.expr(
            start,
            Kind::Between {
                value: Box::new(first),
                bounds: Box::new([low, high]),
                negated,
            },
        ))
    }

    /// Parses an operand and the operators of `level` and of tighter levels that follow it.
    fn level(&mut self, level: u8) -> ParseResult<Expr> {
        self.nested(|p| {
            let start = p.start();
            let first = p.unary()?;
            p.operators(level, start, first)
        })
    }

    /// Parses the operators, down to `level`, that follow the operand `first`.
    fn operators(&mut self, level: u8, start: usize, first: Expr) -> ParseResult<Expr> {
        let mut left = first;
        // From the tightest level to `level`: the expression of one level is the first operand of
        // the next.
        for current in (level..=7).rev() {
            if current == PREDICATE_LEVEL {
                left = self.predicates(start, left)?;
                continue;
            }
            let mut rest = Vec::new();
            while let Some(op) = self.binary_operator(current) {
                self.advance();
                rest.push((op, self.level(current + 1)?));
            }
            if !rest.is_empty() {
                left = self.expr(
                    start,
                    Kind::Chain {
                        first: Box::new(left),
                        rest,
                    },
                );
            }
        }
        Ok(left)
    }

    /// Returns the binary operator of this level that the current token is.
    fn binary_operator(&self, level: u8) -> Option<BinaryOp> {
        let (TokenKind::Symbol(text) | TokenKind::Keyword(text)) = self.token() else {
            return None;
        };
        BINARY_OPERATORS
            .iter()
            .find(|(t, _, l)| t == text && *l == level)
            .map(|(_, op, _)| *op)
    }

    /// `left {[NOT] IN (...) | [NOT] LIKE ... [ESCAPE '...']}`
    fn predicates(&mut self, start: usize, mut left: Expr) -> ParseResult<Expr> {
        loop {
            let negated =
                self.is_keyword("NOT") && matches!(self.peek(1), TokenKind::Keyword("IN" | "LIKE"));
            if negated {
                self.advance();
            }
            // Predicates are left-associative: one predicate is the value of the next.
            let value = Box::new(left);
            if self.take_keyword("IN") {
                self.expect_symbol("(")?;
                let list = self.list(")")?;
                left = self.expr(
                    start,
                    Kind::In {
                        value,
                        list,
                        negated,
                    },
                );
            } else if self.take_keyword("LIKE") {
                let pattern = Box::new(self.level(PREDICATE_LEVEL + 1)?);
                let escape = if self.take_keyword("ESCAPE") {
                    Some(self.escape()?)
                } else {
                    None
                };
                left = self.expr(
                    start,
                    Kind::Like {
                        value,
                        pattern,
                        escape,
                        negated,
                    },
                );
            } else {
                return Ok(*value);
            }
        }
    }

    /// The string of one character after ESCAPE.
    fn escape(&mut self) -> ParseResult<String> {
        let TokenKind::String(text) = self.token().clone() else {
            return Err(self.unexpected());
        };
        if text.chars().count() != 1 {
            let message =
                format!("The invalid escape character '{text}' was specified in a LIKE predicate.");
            return Err(self.error_at_token("SC2207", message));
        }
        self.advance();
        Ok(text)
    }

    /// `{- | + | ~ | NOT} postfix`
    fn unary(&mut self) -> ParseResult<Expr> {
        let op = match self.token() {
            TokenKind::Symbol("-") => UnaryOp::Minus,
            TokenKind::Symbol("+") => UnaryOp::Plus,
            TokenKind::Symbol("~") => UnaryOp::BitNot,
            TokenKind::Keyword("NOT") => UnaryOp::Not,
            _ => return self.postfix(),
        };
        let start = self.start();
        self.advance();
        let operand = self.nested(Self::unary)?;
        Ok(self.expr(start, Kind::Unary(op, Box::new(operand))))
    }

    /// `primary {.name | [expression]}`
    pub(super) fn postfix(&mut self) -> ParseResult<Expr> {
        let start = self.start();
        let base = self.primary()?;
        let mut steps = Vec::new();
        loop {
            if self.take_symbol(".") {
                steps.push(PathStep::Dot(self.identifier()?));
            } else if self.take_symbol("[") {
                steps.push(PathStep::Bracket(self.expression()?));
                self.expect_symbol("]")?;
            } else if steps.is_empty() {
                return Ok(base);
            } else {
                return Ok(self.expr(
                    start,
                    Kind::Path {
                        base: Box::new(base),
                        steps,
                    },
                ));
            }
        }
    }

    /// A literal, a name, a call, a constructor, a subquery or an expression in parentheses.
    fn primary(&mut self) -> ParseResult<Expr> {
        let start = self.start();
        // Arms that return consume more than one token.
        let kind = match self.token().clone() {
            TokenKind::Identifier => return self.named(start),
            TokenKind::Symbol("(") => return self.parenthesised(start),
            TokenKind::Keyword(word @ ("EXISTS" | "ARRAY")) => return self.subquery(start, word),
            TokenKind::Keyword(name @ ("LEFT" | "RIGHT")) => {
                self.advance();
                return self.call(start, name.to_owned(), false);
            }
            TokenKind::Keyword("UDF") => {
                self.advance();
                self.expect_symbol(".")?;
                let name = self.identifier()?;
                return self.call(start, name, true);
            }
            TokenKind::Symbol("[") => {
                self.advance();
                let elements = if self.take_symbol("]") {
                    Vec::new()
                } else {
                    self.list("]")?
                };
                return Ok(self.expr(start, Kind::Array(elements)));
            }
            TokenKind::Symbol("{") => {
                self.advance();
                return self.object(start);
            }
            TokenKind::Number(double) => {
                Kind::Constant(Json::Number(number(self.token_text(), double)))
            }
            TokenKind::String(text) => Kind::Constant(Json::String(text)),
            TokenKind::Parameter => Kind::Parameter(self.token_text().to_owned()),
            TokenKind::Keyword("TRUE") => Kind::Constant(Json::Bool(true)),
            TokenKind::Keyword("FALSE") => Kind::Constant(Json::Bool(false)),
            TokenKind::Keyword("NULL") => Kind::Constant(Json::Null),
            TokenKind::Keyword("UNDEFINED") => Kind::Undefined,
            TokenKind::FilterPlaceholder => Kind::FilterPlaceholder,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(self.expr(start, kind))
    }

    /// An identifier or a call; also LET, and ALL, FIRST or LAST before a subquery, whose words are
    /// not reserved.
    fn named(&mut self, start: usize) -> ParseResult<Expr> {
        let word = self.token_text();
        let is_call = *self.peek(1) == TokenKind::Symbol("(");
        if is_call
            && matches!(self.peek(2), TokenKind::Keyword("SELECT"))
            && subquery_kind(word).is_some()
        {
            return self.subquery(start, word);
        }
        if word.eq_ignore_ascii_case("LET") && *self.peek(1) == TokenKind::Identifier {
            self.advance();
            let name = self.identifier()?;
            self.expect_symbol("=")?;
            let value = Box::new(self.level(PREDICATE_LEVEL + 1)?);
            self.expect_keyword("IN")?;
            let body = Box::new(self.nested(|p| p.level(PREDICATE_LEVEL + 1))?);
            return Ok(self.expr(start, Kind::Let { name, value, body }));
        }
        let name = self.identifier()?;
        if is_call {
            return self.call(start, name, false);
        }
        Ok(self.expr(start, Kind::Identifier(name)))
    }

    /// The arguments of a call, in parentheses.
    pub(super) fn call(&mut self, start: usize, name: String, udf: bool) -> ParseResult<Expr> {
        self.expect_symbol("(")?;
        let arguments = if self.take_symbol(")") {
            Vec::new()
        } else {
            self.list(")")?
        };
        Ok(self.expr(
            start,
            Kind::Call {
                name,
                udf,
                arguments,
            },
        ))
    }

    /// A subquery with the word before it, `word`, as the current token.
    fn subquery(&mut self, start: usize, word: &str) -> ParseResult<Expr> {
        let kind = subquery_kind(word).unwrap_or(SubqueryKind::Scalar);
        self.advance();
        self.expect_symbol("(")?;
        let query = self.query()?;
        self.expect_symbol(")")?;
        Ok(self.expr(start, Kind::Subquery(kind, Box::new(query))))
    }

    /// A scalar subquery or an expression in parentheses. The tree does not contain the
    /// parentheses.
    fn parenthesised(&mut self, start: usize) -> ParseResult<Expr> {
        self.advance();
        if self.is_keyword("SELECT") {
            let query = self.query()?;
            self.expect_symbol(")")?;
            return Ok(self.expr(start, Kind::Subquery(SubqueryKind::Scalar, Box::new(query))));
        }
        let inner = self.expression()?;
        self.expect_symbol(")")?;
        Ok(Expr {
            span: self.span_from(start),
            ..inner
        })
    }

    /// The members of an object constructor, after the opening brace.
    fn object(&mut self, start: usize) -> ParseResult<Expr> {
        let mut members = Vec::new();
        if !self.take_symbol("}") {
            loop {
                let name = match self.token().clone() {
                    TokenKind::String(text) => text,
                    TokenKind::Identifier => self.token_text().to_owned(),
                    _ => return Err(self.unexpected()),
                };
                self.advance();
                let name_span = self.last_span();
                self.expect_symbol(":")?;
                let value = self.expression()?;
                members.push(Member {
                    name,
                    name_span,
                    value,
                });
                if self.take_symbol("}") {
                    break;
                }
                self.expect_symbol(",")?;
            }
        }
        Ok(self.expr(start, Kind::Object(members)))
    }

    /// One or more expressions separated by commas, then `close`.
    fn list(&mut self, close: &str) -> ParseResult<Vec<Expr>> {
        let mut list = vec![self.expression()?];
        while !self.take_symbol(close) {
            self.expect_symbol(",")?;
            list.push(self.expression()?);
        }
        Ok(list)
    }

    /// A step in brackets in FROM: a string, a number or a parameter.
    pub(super) fn constant_step(&mut self) -> ParseResult<Expr> {
        match self.token() {
            TokenKind::String(_) | TokenKind::Number(_) | TokenKind::Parameter => self.primary(),
            _ => Err(self.unexpected()),
        }
    }

    /// Makes an expression whose span ends with the token taken last.
    fn expr(&self, start: usize, kind: Kind) -> Expr {
        Expr {
            kind,
            span: self.span_from(start),
        }
    }
}

fn subquery_kind(word: &str) -> Option<SubqueryKind> {
    SUBQUERY_WORDS
        .iter()
        .find(|(w, _)| w.eq_ignore_ascii_case(word))
        .map(|(_, kind)| *kind)
}
