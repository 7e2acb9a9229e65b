//! The form of a query: its text without the values in it, so that queries that differ in nothing else are counted as
//! one.
//!
//! Strings and numbers become `?`, lists of them one; words of the language are in capitals, blanks and comments are
//! evened out. What names something stays: parameters, members, aliases, and what stands in the brackets of a path. So do
//! `true`, `false` and `null`, which say nothing about anybody.

use super::lexer::{Token, TokenKind, tokens};
use crate::value::digest;
use orrery_model::json::Json;

/// A query's form, and a hash that tells it from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryForm {
    /// 64 bits of a hash of the text.
    pub hash: u64,
    /// The text without its values.
    pub text: String,
}

impl QueryForm {
    /// The form of a text; `None` if it is not made of the language's tokens.
    pub fn of(text: &str) -> Option<QueryForm> {
        let text = Writer::new(text, &tokens(text).ok()?).written();
        let hash = digest(Some(&Json::from(text.as_str()))) as u64;
        Some(QueryForm { hash, text })
    }
}

/// A bracket that is open.
struct Open {
    sign: &'static str,
    /// Whether it holds a list whose values count as one.
    is_list: bool,
}

struct Writer<'a> {
    text: &'a str,
    tokens: &'a [Token],
    out: String,
    open: Vec<Open>,
}

const BLANK: &TokenKind = &TokenKind::End;

impl<'a> Writer<'a> {
    fn new(text: &'a str, tokens: &'a [Token]) -> Self {
        Writer {
            text,
            tokens,
            out: String::with_capacity(text.len()),
            open: Vec::new(),
        }
    }

    fn written(mut self) -> String {
        for at in 0..self.tokens.len() {
            self.token(at);
        }
        self.out
    }

    /// The token so many places before `at`.
    fn before(&self, at: usize, places: usize) -> &'a TokenKind {
        at.checked_sub(places)
            .map_or(BLANK, |at| &self.tokens[at].kind)
    }

    fn after(&self, at: usize) -> &'a TokenKind {
        self.tokens.get(at + 1).map_or(BLANK, |token| &token.kind)
    }

    fn token(&mut self, at: usize) {
        let token = &self.tokens[at];
        let written = &self.text[token.span.0..token.span.1];
        match &token.kind {
            TokenKind::End => {}
            TokenKind::Word(word) => self.push(at, word),
            TokenKind::String(_) | TokenKind::Number(_) if !self.is_name(at) => self.value(at),
            TokenKind::Sign(sign) => self.sign(at, sign),
            _ => self.push(at, written),
        }
    }

    fn sign(&mut self, at: usize, sign: &'static str) {
        match sign {
            "(" | "[" | "{" => {
                let is_list = match self.before(at, 1) {
                    TokenKind::Word("IN") => sign == "(",
                    before => sign == "[" && !ends_an_operand(before),
                };
                self.push(at, sign);
                self.open.push(Open { sign, is_list });
            }
            ")" | "]" | "}" => {
                self.open.pop();
                self.push(at, sign);
            }
            // The sign of a number is part of its value.
            "-" | "+"
                if matches!(self.after(at), TokenKind::Number(_))
                    && !ends_an_operand(self.before(at, 1)) => {}
            _ => self.push(at, sign),
        }
    }

    fn value(&mut self, at: usize) {
        let in_list = self.open.last().is_some_and(|open| open.is_list);
        if in_list && self.out.ends_with("?,") {
            self.out.pop();
            return;
        }
        self.push(at, "?");
    }

    /// Whether a string or number names a member, an alias, or a step of a path.
    fn is_name(&self, at: usize) -> bool {
        let step = *self.before(at, 1) == TokenKind::Sign("[")
            && *self.after(at) == TokenKind::Sign("]")
            && ends_an_operand(self.before(at, 2));
        let member = self.open.last().is_some_and(|open| open.sign == "{")
            && matches!(self.before(at, 1), TokenKind::Sign("{" | ","))
            && *self.after(at) == TokenKind::Sign(":");
        step || member || *self.before(at, 1) == TokenKind::Word("AS")
    }

    /// Writes a piece with the blank before it, if it needs one.
    fn push(&mut self, at: usize, piece: &str) {
        let tight = match piece {
            ")" | "]" | "," | "." | ":" => true,
            "[" => ends_an_operand(self.before(at, 1)),
            "(" => *self.before(at, 1) == TokenKind::Identifier,
            _ => false,
        };
        if !self.out.is_empty() && !tight && !self.out.ends_with(['(', '[', '.']) {
            self.out.push(' ');
        }
        self.out.push_str(piece);
    }
}

/// Whether what follows an opening bracket or a minus after this belongs to it.
fn ends_an_operand(kind: &TokenKind) -> bool {
    match kind {
        TokenKind::Identifier
        | TokenKind::Parameter
        | TokenKind::Number(_)
        | TokenKind::String(_) => true,
        TokenKind::Sign(sign) => matches!(*sign, ")" | "]" | "}"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::{golden_queries, parse};

    #[track_caller]
    fn check(text: &str, form: &str) {
        assert_eq!(QueryForm::of(text).expect("tokens").text, form);
    }

    #[test]
    fn values_are_left_out_and_names_stay() {
        check(
            "select * from c where c.id='x' and c.n>-5.5e3",
            "SELECT * FROM c WHERE c.id = ? AND c.n > ?",
        );
        check(
            "SELECT TOP 10 c.a FROM c OFFSET 5 LIMIT 7",
            "SELECT TOP ? c.a FROM c OFFSET ? LIMIT ?",
        );
        check(
            "SELECT c[\"a b\"][0] FROM c WHERE c.t = @t",
            "SELECT c[\"a b\"][0] FROM c WHERE c.t = @t",
        );
        check(
            "SELECT VALUE {\"a\": \"b\", 'k' : 1}",
            "SELECT VALUE { \"a\": ?, 'k': ? }",
        );
        check(
            "SELECT c.x ? \"a\" : \"b\" AS \"kind\" FROM c",
            "SELECT c.x ? ?: ? AS \"kind\" FROM c",
        );
        check("SELECT 1 - 2, c.n-1, (3)", "SELECT ? - ?, c.n - ?, (?)");
        check(
            "SELECT VALUE COUNT(1) FROM c -- why\n WHERE true",
            "SELECT VALUE COUNT(?) FROM c WHERE TRUE",
        );
    }

    #[test]
    fn lists_of_any_length_are_one_form() {
        check(
            "SELECT * FROM c WHERE c.n IN (1, 2,3)",
            "SELECT * FROM c WHERE c.n IN (?)",
        );
        check(
            "SELECT * FROM c WHERE c.n IN (1)",
            "SELECT * FROM c WHERE c.n IN (?)",
        );
        check(
            "SELECT ARRAY_CONTAINS(['a', 'b'], c.n) FROM c",
            "SELECT ARRAY_CONTAINS([?], c.n) FROM c",
        );
        check("SELECT ROUND(1.5, 2)", "SELECT ROUND(?, ?)");
    }

    #[test]
    fn forms_differ_where_queries_do() {
        let hash = |text| QueryForm::of(text).expect("tokens").hash;
        assert_eq!(
            hash("SELECT * FROM c WHERE c.a = 1"),
            hash("select  *  from c where c.a = \"x\"")
        );
        assert_ne!(
            hash("SELECT * FROM c WHERE c.a = 1"),
            hash("SELECT * FROM c WHERE c.b = 1")
        );
        assert_eq!(QueryForm::of("SELECT #"), None);
    }

    #[test]
    fn every_query_that_can_be_read_has_a_form_with_the_same_tokens_or_fewer() {
        let mut count = 0;
        for text in golden_queries().iter().filter(|text| parse(text).is_ok()) {
            let form = QueryForm::of(text).expect("it parses").text;
            let again = tokens(&form).unwrap_or_else(|e| panic!("{form}: {e}"));
            assert!(
                again.len() <= tokens(text).expect("it parses").len(),
                "{form}"
            );
            count += 1;
        }
        assert!(count > 1000);
    }
}
