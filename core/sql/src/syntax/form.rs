//! The form of a query: its text without literals. Queries that differ only in their literals have
//! the same form and are counted together.
//!
//! Strings and numbers become `?`, a list of them one `?`; reserved words are in capitals; white
//! space is normalized and comments are removed. Everything that names something is kept:
//! parameters, object members, aliases, and constants in the brackets of a path. `true`, `false`
//! and `null` are kept as well, because they reveal no user data.

use super::lexer::{Token, TokenKind, tokens};
use crate::value::digest;
use orrery_model::json::Json;

/// The form of a query, with its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryForm {
    /// The lower 64 bits of a hash of `text`.
    pub hash: u64,
    /// The query text without literals.
    pub text: String,
    /// The counts of TOP, OFFSET and LIMIT in the order of the text. They are structure and no
    /// values, and they do not count towards `hash`.
    pub counts: Vec<CountOfRows>,
}

/// The count of TOP, OFFSET or LIMIT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CountOfRows {
    /// A number in the text.
    Number(u64),
    /// The name of a parameter, with its `@`.
    Parameter(String),
}

impl QueryForm {
    /// Returns the form of a query text; `None` if the text contains an invalid token. The text
    /// need not be a valid query.
    pub fn of(text: &str) -> Option<QueryForm> {
        let tokens = tokens(text).ok()?;
        let counts = counts(text, &tokens);
        let text = Writer::new(text, &tokens).write();
        let hash = digest(Some(&Json::from(text.as_str()))) as u64;
        Some(QueryForm { hash, text, counts })
    }
}

/// An opening bracket whose closing bracket has not been read.
struct OpenBracket {
    symbol: &'static str,
    /// The bracket contains a list, whose literals become one `?`.
    is_list: bool,
}

struct Writer<'a> {
    text: &'a str,
    tokens: &'a [Token],
    out: String,
    open: Vec<OpenBracket>,
}

/// The token before the first and after the last one.
const NO_TOKEN: &TokenKind = &TokenKind::End;

impl<'a> Writer<'a> {
    fn new(text: &'a str, tokens: &'a [Token]) -> Self {
        Writer {
            text,
            tokens,
            out: String::with_capacity(text.len()),
            open: Vec::new(),
        }
    }

    fn write(mut self) -> String {
        for at in 0..self.tokens.len() {
            self.write_token(at);
        }
        self.out
    }

    /// Returns the token `distance` places before the token at `at`.
    fn before(&self, at: usize, distance: usize) -> &'a TokenKind {
        match at.checked_sub(distance) {
            Some(at) => &self.tokens[at].kind,
            None => NO_TOKEN,
        }
    }

    /// Returns the token after the token at `at`.
    fn after(&self, at: usize) -> &'a TokenKind {
        match self.tokens.get(at + 1) {
            Some(token) => &token.kind,
            None => NO_TOKEN,
        }
    }

    fn write_token(&mut self, at: usize) {
        let token = &self.tokens[at];
        let written = &self.text[token.span.0..token.span.1];
        match &token.kind {
            TokenKind::End => {}
            TokenKind::Keyword(word) => self.push(at, word),
            TokenKind::String(_) | TokenKind::Number(_) if !self.is_name(at) => {
                self.write_literal(at)
            }
            TokenKind::Symbol(symbol) => self.write_symbol(at, symbol),
            _ => self.push(at, written),
        }
    }

    fn write_symbol(&mut self, at: usize, symbol: &'static str) {
        match symbol {
            "(" | "[" | "{" => {
                // The list of IN, or an array constructor.
                let is_list = match self.before(at, 1) {
                    TokenKind::Keyword("IN") => symbol == "(",
                    before => symbol == "[" && !ends_operand(before),
                };
                self.push(at, symbol);
                self.open.push(OpenBracket { symbol, is_list });
            }
            ")" | "]" | "}" => {
                self.open.pop();
                self.push(at, symbol);
            }
            // The sign of a number is part of the literal.
            "-" | "+"
                if matches!(self.after(at), TokenKind::Number(_))
                    && !ends_operand(self.before(at, 1)) => {}
            _ => self.push(at, symbol),
        }
    }

    fn write_literal(&mut self, at: usize) {
        let is_in_list = self.open.last().is_some_and(|open| open.is_list);
        // A further literal of a list replaces the comma before it: `?,` becomes `?`.
        if is_in_list && self.out.ends_with("?,") {
            self.out.pop();
            return;
        }
        self.push(at, "?");
    }

    /// Returns true if the string or number at `at` is the name of an object member, an alias, or a
    /// step of a path.
    fn is_name(&self, at: usize) -> bool {
        let is_path_step = *self.before(at, 1) == TokenKind::Symbol("[")
            && *self.after(at) == TokenKind::Symbol("]")
            && ends_operand(self.before(at, 2));
        let is_member = self.open.last().is_some_and(|open| open.symbol == "{")
            && matches!(self.before(at, 1), TokenKind::Symbol("{" | ","))
            && *self.after(at) == TokenKind::Symbol(":");
        let is_alias = *self.before(at, 1) == TokenKind::Keyword("AS");
        is_path_step || is_member || is_alias
    }

    /// Writes a token, with a space before it where the form has one.
    fn push(&mut self, at: usize, token: &str) {
        let is_attached = match token {
            ")" | "]" | "," | "." | ":" => true,
            "[" => ends_operand(self.before(at, 1)),
            "(" => *self.before(at, 1) == TokenKind::Identifier,
            _ => false,
        };
        if !self.out.is_empty() && !is_attached && !self.out.ends_with(['(', '[', '.']) {
            self.out.push(' ');
        }
        self.out.push_str(token);
    }
}

/// Returns the counts of TOP, OFFSET and LIMIT.
fn counts(text: &str, tokens: &[Token]) -> Vec<CountOfRows> {
    let mut counts = Vec::new();
    for pair in tokens.windows(2) {
        if !is_before_count(&pair[0].kind) {
            continue;
        }
        match &pair[1].kind {
            TokenKind::Number(rows) => counts.push(CountOfRows::Number(*rows as u64)),
            TokenKind::Parameter => {
                let name = &text[pair[1].span.0..pair[1].span.1];
                counts.push(CountOfRows::Parameter(name.to_owned()));
            }
            _ => {}
        }
    }
    counts
}

/// Returns true if a count of rows follows the token.
pub(super) fn is_before_count(kind: &TokenKind) -> bool {
    matches!(kind, TokenKind::Keyword("TOP" | "OFFSET" | "LIMIT"))
}

/// Returns true if a token can be the last one of an operand. An opening bracket after an operand
/// begins a path step, and a minus after an operand is a subtraction.
pub(super) fn ends_operand(kind: &TokenKind) -> bool {
    match kind {
        TokenKind::Identifier
        | TokenKind::Parameter
        | TokenKind::Number(_)
        | TokenKind::String(_) => true,
        TokenKind::Symbol(symbol) => matches!(*symbol, ")" | "]" | "}"),
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
    fn literals_become_question_marks_and_names_are_kept() {
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
    fn counts_of_rows_are_structure() {
        let form = QueryForm::of("SELECT TOP 10 * FROM c OFFSET @skip LIMIT 7").expect("tokens");
        let skip = CountOfRows::Parameter("@skip".to_owned());
        assert_eq!(form.text, "SELECT TOP ? * FROM c OFFSET @skip LIMIT ?");
        assert_eq!(
            form.counts,
            [CountOfRows::Number(10), skip, CountOfRows::Number(7)]
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
    fn forms_differ_if_names_differ() {
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
    fn the_form_of_a_valid_query_has_at_most_as_many_tokens() {
        let mut count = 0;
        for text in golden_queries().iter().filter(|text| parse(text).is_ok()) {
            let form = QueryForm::of(text).expect("it parses").text;
            let form_tokens = tokens(&form).unwrap_or_else(|e| panic!("{form}: {e}"));
            assert!(
                form_tokens.len() <= tokens(text).expect("it parses").len(),
                "{form}"
            );
            count += 1;
        }
        assert!(count > 1000);
    }
}
