//! The parser's hands: looking at tokens, taking them, refusing them. The grammar itself is in `clauses` and
//! `expressions`.
//!
//! Recursive descent with one counter for all recursion: a text that nests deeper than [`NESTING`] is refused with
//! SC1001 at the token where it became too deep, long before the stack is in danger.

use super::ast::{Query, Span};
use super::lexer::{Token, TokenKind, characters, end_of_file, tokens};
use crate::error::QueryError;
use orrery_model::limits;

/// How deep the recursive parts of the grammar may be inside each other. A pair of parentheses takes two to four, a
/// subquery some more; compiling and running such a query stays within a megabyte of stack.
const NESTING: usize = 400;

/// Reads a whole query.
///
/// # Errors
/// [`QueryError::Compile`] with SC1001, SC1002 or SC1010; [`QueryError::Plan`] if the text is longer than the limit.
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
    match parser.kind() {
        TokenKind::End => Ok(query),
        _ => Err(parser.unexpected()),
    }
}

pub(super) type Parsed<T> = Result<T, QueryError>;

pub(super) struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    /// The current token. The last one is `End` and is never passed.
    pub fn kind(&self) -> &TokenKind {
        &self.tokens[self.at].kind
    }

    pub fn ahead(&self, n: usize) -> &TokenKind {
        &self.tokens[(self.at + n).min(self.tokens.len() - 1)].kind
    }

    /// Its text as written.
    pub fn word(&self) -> &'a str {
        let (start, end) = self.tokens[self.at].span;
        &self.text[start..end]
    }

    pub fn start(&self) -> usize {
        self.tokens[self.at].span.0
    }

    /// From `start` to the end of the token taken last.
    pub fn span_from(&self, start: usize) -> Span {
        let end = if self.at == 0 {
            start
        } else {
            self.tokens[self.at - 1].span.1
        };
        (start, end.max(start))
    }

    pub fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub fn is_sign(&self, sign: &str) -> bool {
        matches!(self.kind(), TokenKind::Sign(s) if *s == sign)
    }

    pub fn is_word(&self, word: &str) -> bool {
        matches!(self.kind(), TokenKind::Word(w) if *w == word)
    }

    pub fn take_sign(&mut self, sign: &str) -> bool {
        let there = self.is_sign(sign);
        if there {
            self.advance();
        }
        there
    }

    pub fn take_word(&mut self, word: &str) -> bool {
        let there = self.is_word(word);
        if there {
            self.advance();
        }
        there
    }

    pub fn expect_sign(&mut self, sign: &str) -> Parsed<()> {
        if self.take_sign(sign) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.take_word(word) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub fn identifier(&mut self) -> Parsed<String> {
        if *self.kind() != TokenKind::Identifier {
            return Err(self.unexpected());
        }
        let name = self.word().to_owned();
        self.advance();
        Ok(name)
    }

    /// SC1001 at the current token, SC1002 at the end.
    pub fn unexpected(&self) -> QueryError {
        if *self.kind() == TokenKind::End {
            return end_of_file(self.text);
        }
        let message = format!("Syntax error, incorrect syntax near '{}'.", self.word());
        QueryError::at(
            "SC1001",
            message,
            characters(self.text, self.tokens[self.at].span),
        )
    }

    /// Runs one recursive part of the grammar.
    pub fn nested<T>(&mut self, part: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.nested_by(1, part)
    }

    /// The same for a part that takes more of the stack than an operator does.
    pub fn nested_by<T>(
        &mut self,
        weight: usize,
        part: impl FnOnce(&mut Self) -> Parsed<T>,
    ) -> Parsed<T> {
        if self.depth + weight > NESTING {
            let message = format!(
                "Syntax error, the query is nested too deeply near '{}'.",
                self.word()
            );
            return Err(QueryError::at(
                "SC1001",
                message,
                characters(self.text, self.tokens[self.at].span),
            ));
        }
        self.depth += weight;
        let result = part(self);
        self.depth -= weight;
        result
    }
}

/// Whether a name is a word of the language and cannot stand bare.
pub(super) fn reserved(name: &str) -> bool {
    super::lexer::is_reserved(name)
}
