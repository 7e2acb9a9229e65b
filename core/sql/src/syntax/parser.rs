//! The parser's access to tokens: look at a token, take it, refuse it. The grammar is in `clauses`
//! and `expressions`.
//!
//! The parser works by recursive descent with one counter for all recursion. A text that nests
//! deeper than [`MAX_NESTING`] is refused with SC1001 at the token where the limit was exceeded,
//! long before the stack could overflow.

use super::ast::{Query, Span};
use super::lexer::{Token, TokenKind, character_range, end_of_file, tokens};
use crate::error::QueryError;
use orrery_model::limits;

/// The maximum nesting of the recursive parts of the grammar. A pair of parentheses counts as two
/// to four levels, a subquery as more. The compilation and evaluation of a query at the limit need
/// less than a megabyte of stack.
const MAX_NESTING: usize = 400;

/// Parses a whole query.
///
/// # Errors
/// [`QueryError::Compile`] with SC1001, SC1002 or SC1010; [`QueryError::Plan`] if the text is
/// longer than [`limits::QUERY_TEXT_BYTES`].
pub(crate) fn parse(text: &str) -> Result<Query, QueryError> {
    if text.len() > limits::QUERY_TEXT_BYTES {
        let message = format!(
            "The SQL query text exceeded the maximum limit of {} bytes.",
            limits::QUERY_TEXT_BYTES
        );
        return Err(QueryError::Plan(message));
    }
    let mut parser = Parser {
        text,
        tokens: tokens(text)?,
        at: 0,
        depth: 0,
    };
    let query = parser.query()?;
    match parser.token() {
        TokenKind::End => Ok(query),
        _ => Err(parser.unexpected()),
    }
}

/// The result of a part of the grammar.
pub(super) type ParseResult<T> = Result<T, QueryError>;

/// A query text while it is parsed.
pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    /// The index of the current token.
    at: usize,
    /// The current nesting.
    depth: usize,
}

impl<'a> Parser<'a> {
    /// Returns the current token. The parser never advances beyond the last token, `End`.
    pub(super) fn token(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    /// Returns the token `n` places after the current one.
    pub(super) fn peek(&self, n: usize) -> &TokenKind {
        &self.tokens[(self.at + n).min(self.tokens.len() - 1)].kind
    }

    /// Returns the text of the current token, as written.
    pub(super) fn token_text(&self) -> &'a str {
        let (start, end) = self.tokens[self.at].span;
        &self.text[start..end]
    }

    /// Returns the offset at which the current token begins.
    pub(super) fn start(&self) -> usize {
        self.tokens[self.at].span.0
    }

    /// Returns the span from `start` to the end of the token taken last.
    pub(super) fn span_from(&self, start: usize) -> Span {
        let end = if self.at == 0 {
            start
        } else {
            self.tokens[self.at - 1].span.1
        };
        (start, end.max(start))
    }

    /// Returns the span of the token taken last.
    pub(super) fn last_span(&self) -> Span {
        match self.at {
            0 => (0, 0),
            at => self.tokens[at - 1].span,
        }
    }

    /// Moves to the next token.
    pub(super) fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    /// Returns true if the current token is this operator or punctuation mark.
    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.token(), TokenKind::Symbol(s) if *s == symbol)
    }

    /// Returns true if the current token is this reserved word.
    pub(super) fn is_keyword(&self, word: &str) -> bool {
        matches!(self.token(), TokenKind::Keyword(w) if *w == word)
    }

    /// Takes the current token if it is this symbol. Returns true if it was.
    pub(super) fn take_symbol(&mut self, symbol: &str) -> bool {
        let is_present = self.is_symbol(symbol);
        if is_present {
            self.advance();
        }
        is_present
    }

    /// Takes the current token if it is this reserved word. Returns true if it was.
    pub(super) fn take_keyword(&mut self, word: &str) -> bool {
        let is_present = self.is_keyword(word);
        if is_present {
            self.advance();
        }
        is_present
    }

    /// Takes this symbol; any other token is an error.
    pub(super) fn expect_symbol(&mut self, symbol: &str) -> ParseResult<()> {
        if self.take_symbol(symbol) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Takes this reserved word; any other token is an error.
    pub(super) fn expect_keyword(&mut self, word: &str) -> ParseResult<()> {
        if self.take_keyword(word) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Takes an identifier; any other token is an error.
    pub(super) fn identifier(&mut self) -> ParseResult<String> {
        if *self.token() != TokenKind::Identifier {
            return Err(self.unexpected());
        }
        let name = self.token_text().to_owned();
        self.advance();
        Ok(name)
    }

    /// Makes the error for an unexpected token: SC1001, or SC1002 at the end of the text.
    pub(super) fn unexpected(&self) -> QueryError {
        if *self.token() == TokenKind::End {
            return end_of_file(self.text);
        }
        let message = format!(
            "Syntax error, incorrect syntax near '{}'.",
            self.token_text()
        );
        self.syntax_error(message)
    }

    /// Makes the error SC1001 at the current token.
    fn syntax_error(&self, message: String) -> QueryError {
        self.error_at_token("SC1001", message)
    }

    /// Makes an error at the current token.
    pub(super) fn error_at_token(&self, code: &'static str, message: String) -> QueryError {
        let range = character_range(self.text, self.tokens[self.at].span);
        QueryError::at(code, message, range)
    }

    /// Runs a recursive part of the grammar, one level deeper.
    pub(super) fn nested<T>(
        &mut self,
        part: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        self.nested_by(1, part)
    }

    /// Runs a recursive part of the grammar that needs as much stack as `weight` levels.
    pub(super) fn nested_by<T>(
        &mut self,
        weight: usize,
        part: impl FnOnce(&mut Self) -> ParseResult<T>,
    ) -> ParseResult<T> {
        if self.depth + weight > MAX_NESTING {
            let message = format!(
                "Syntax error, the query is nested too deeply near '{}'.",
                self.token_text()
            );
            return Err(self.syntax_error(message));
        }
        self.depth += weight;
        let result = part(self);
        self.depth -= weight;
        result
    }
}
