//! Expressions, by precedence climbing.
//!
//! The levels are the native ones, which differ from what one expects: NOT binds like a minus sign, shifts stand with
//! the comparisons, `| ^ &` with plus and minus, and BETWEEN takes no bare AND or OR beside it.

use super::ast::{
    BINARY_OPERATORS, BinaryOp, Expr, Kind, PREDICATE_LEVEL, PathStep, SubqueryKind, UnaryOp,
};
use super::lexer::{TokenKind, number};
use super::parser::{Parsed, Parser};
use orrery_model::json::Json;

/// Keywords and quasi-keywords that open a subquery in parentheses.
const SUBQUERY_WORDS: &[(&str, SubqueryKind)] = &[
    ("EXISTS", SubqueryKind::Exists),
    ("ARRAY", SubqueryKind::Array),
    ("ALL", SubqueryKind::All),
    ("FIRST", SubqueryKind::First),
    ("LAST", SubqueryKind::Last),
];

impl Parser<'_> {
    /// `coalesce [? expr : expr]`
    pub fn expression(&mut self) -> Parsed<Expr> {
        self.nested(|p| {
            let start = p.start();
            let condition = p.coalesce()?;
            if !p.take_sign("?") {
                return Ok(condition);
            }
            let yes = p.expression()?;
            p.expect_sign(":")?;
            let no = p.expression()?;
            Ok(p.expr(start, Kind::Conditional(Box::new([condition, yes, no]))))
        })
    }

    fn coalesce(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let first = self.condition()?;
        if !self.is_sign("??") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_sign("??") {
            parts.push(self.condition()?);
        }
        Ok(self.expr(start, Kind::Coalesce(parts)))
    }

    /// `between | disjunction`
    fn condition(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let first = self.level(PREDICATE_LEVEL + 1)?;
        let negated = self.is_word("NOT") && matches!(self.ahead(1), TokenKind::Word("BETWEEN"));
        if !negated && !self.is_word("BETWEEN") {
            return self.operators(1, start, first);
        }
        if negated {
            self.advance();
        }
        self.advance();
        let low = self.level(PREDICATE_LEVEL + 1)?;
        self.expect_word("AND")?;
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

    /// An operand and all operators of `level` and tighter ones.
    fn level(&mut self, level: u8) -> Parsed<Expr> {
        self.nested(|p| {
            let start = p.start();
            let first = p.unary()?;
            p.operators(level, start, first)
        })
    }

    /// Applies to `first` the operators that follow it, down to `level`.
    fn operators(&mut self, level: u8, start: usize, first: Expr) -> Parsed<Expr> {
        let mut left = first;
        // From the tightest level to the loosest asked for: what is read on one level is the operand of the next.
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

    fn binary_operator(&self, level: u8) -> Option<BinaryOp> {
        let (TokenKind::Sign(text) | TokenKind::Word(text)) = self.kind() else {
            return None;
        };
        BINARY_OPERATORS
            .iter()
            .find(|(t, _, l)| t == text && *l == level)
            .map(|(_, op, _)| *op)
    }

    /// `{[NOT] IN (...) | [NOT] LIKE ... [ESCAPE '...']}`
    fn predicates(&mut self, start: usize, mut left: Expr) -> Parsed<Expr> {
        loop {
            let negated =
                self.is_word("NOT") && matches!(self.ahead(1), TokenKind::Word("IN" | "LIKE"));
            if negated {
                self.advance();
            }
            let value = Box::new(left);
            if self.take_word("IN") {
                self.expect_sign("(")?;
                let list = self.list(")")?;
                left = self.expr(
                    start,
                    Kind::In {
                        value,
                        list,
                        negated,
                    },
                );
            } else if self.take_word("LIKE") {
                let pattern = Box::new(self.level(PREDICATE_LEVEL + 1)?);
                let escape = if self.take_word("ESCAPE") {
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

    fn escape(&mut self) -> Parsed<String> {
        match self.kind().clone() {
            TokenKind::String(text) if text.chars().count() == 1 => {
                self.advance();
                Ok(text)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let op = match self.kind() {
            TokenKind::Sign("-") => UnaryOp::Minus,
            TokenKind::Sign("+") => UnaryOp::Plus,
            TokenKind::Sign("~") => UnaryOp::BitNot,
            TokenKind::Word("NOT") => UnaryOp::Not,
            _ => return self.postfix(),
        };
        let start = self.start();
        self.advance();
        let operand = self.nested(Self::unary)?;
        Ok(self.expr(start, Kind::Unary(op, Box::new(operand))))
    }

    fn postfix(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let base = self.primary()?;
        let mut steps = Vec::new();
        loop {
            if self.take_sign(".") {
                steps.push(PathStep::Dot(self.identifier()?));
            } else if self.take_sign("[") {
                steps.push(PathStep::Bracket(self.expression()?));
                self.expect_sign("]")?;
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

    fn primary(&mut self) -> Parsed<Expr> {
        let start = self.start();
        let kind = match self.kind().clone() {
            TokenKind::Identifier => return self.named(start),
            TokenKind::Sign("(") => return self.parenthesised(start),
            TokenKind::Word(word @ ("EXISTS" | "ARRAY")) => return self.subquery(start, word),
            TokenKind::Word(name @ ("LEFT" | "RIGHT")) => {
                self.advance();
                return self.call(start, name.to_owned(), false);
            }
            TokenKind::Word("UDF") => {
                self.advance();
                self.expect_sign(".")?;
                let name = self.identifier()?;
                return self.call(start, name, true);
            }
            TokenKind::Sign("[") => {
                self.advance();
                let elements = if self.take_sign("]") {
                    Vec::new()
                } else {
                    self.list("]")?
                };
                return Ok(self.expr(start, Kind::Array(elements)));
            }
            TokenKind::Sign("{") => {
                self.advance();
                return self.object(start);
            }
            TokenKind::Number(double) => Kind::Constant(Json::Number(number(self.word(), double))),
            TokenKind::String(text) => Kind::Constant(Json::String(text)),
            TokenKind::Parameter => Kind::Parameter(self.word().to_owned()),
            TokenKind::Word("TRUE") => Kind::Constant(Json::Bool(true)),
            TokenKind::Word("FALSE") => Kind::Constant(Json::Bool(false)),
            TokenKind::Word("NULL") => Kind::Constant(Json::Null),
            TokenKind::Word("UNDEFINED") => Kind::Undefined,
            TokenKind::FilterPlaceholder => Kind::FilterPlaceholder,
            _ => return Err(self.unexpected()),
        };
        self.advance();
        Ok(self.expr(start, kind))
    }

    /// An identifier, a call, LET, or ALL, FIRST and LAST before a subquery.
    fn named(&mut self, start: usize) -> Parsed<Expr> {
        let word = self.word();
        let opens = *self.ahead(1) == TokenKind::Sign("(");
        if opens
            && matches!(self.ahead(2), TokenKind::Word("SELECT"))
            && subquery_kind(word).is_some()
        {
            return self.subquery(start, word);
        }
        if word.eq_ignore_ascii_case("LET") && *self.ahead(1) == TokenKind::Identifier {
            self.advance();
            let name = self.identifier()?;
            self.expect_sign("=")?;
            let value = Box::new(self.level(PREDICATE_LEVEL + 1)?);
            self.expect_word("IN")?;
            let body = Box::new(self.nested(|p| p.level(PREDICATE_LEVEL + 1))?);
            return Ok(self.expr(start, Kind::Let { name, value, body }));
        }
        let name = self.identifier()?;
        if opens {
            return self.call(start, name, false);
        }
        Ok(self.expr(start, Kind::Identifier(name)))
    }

    fn call(&mut self, start: usize, name: String, udf: bool) -> Parsed<Expr> {
        self.expect_sign("(")?;
        let arguments = if self.take_sign(")") {
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

    fn subquery(&mut self, start: usize, word: &str) -> Parsed<Expr> {
        let kind = subquery_kind(word).unwrap_or(SubqueryKind::Scalar);
        self.advance();
        self.expect_sign("(")?;
        let query = self.query()?;
        self.expect_sign(")")?;
        Ok(self.expr(start, Kind::Subquery(kind, Box::new(query))))
    }

    fn parenthesised(&mut self, start: usize) -> Parsed<Expr> {
        self.advance();
        if self.is_word("SELECT") {
            let query = self.query()?;
            self.expect_sign(")")?;
            return Ok(self.expr(start, Kind::Subquery(SubqueryKind::Scalar, Box::new(query))));
        }
        let inner = self.expression()?;
        self.expect_sign(")")?;
        Ok(Expr {
            span: self.span_from(start),
            ..inner
        })
    }

    fn object(&mut self, start: usize) -> Parsed<Expr> {
        let mut members = Vec::new();
        if !self.take_sign("}") {
            loop {
                let name = match self.kind().clone() {
                    TokenKind::String(text) => text,
                    TokenKind::Identifier => self.word().to_owned(),
                    _ => return Err(self.unexpected()),
                };
                self.advance();
                self.expect_sign(":")?;
                members.push((name, self.expression()?));
                if self.take_sign("}") {
                    break;
                }
                self.expect_sign(",")?;
            }
        }
        Ok(self.expr(start, Kind::Object(members)))
    }

    /// At least one expression, then `close`.
    fn list(&mut self, close: &str) -> Parsed<Vec<Expr>> {
        let mut list = vec![self.expression()?];
        while !self.take_sign(close) {
            self.expect_sign(",")?;
            list.push(self.expression()?);
        }
        Ok(list)
    }

    /// What may stand in brackets in FROM: a string, a number or a parameter.
    pub fn constant_step(&mut self) -> Parsed<Expr> {
        match self.kind() {
            TokenKind::String(_) | TokenKind::Number(_) | TokenKind::Parameter => self.primary(),
            _ => Err(self.unexpected()),
        }
    }

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
