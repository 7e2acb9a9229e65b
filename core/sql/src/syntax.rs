//! The syntax of the query language: from text to a tree and back.
//!
//! - `lexer`: text to tokens
//! - `parser`, `clauses`, `expressions`: tokens to the tree of `ast`
//! - `build`: constructors for trees that are not parsed
//! - `print`: tree to text
//! - `form`: the text of a query without its literals
//! - `template`: a form as a query whose values are yet to be given

pub(crate) mod ast;
pub(crate) mod build;
mod clauses;
mod expressions;
mod form;
mod lexer;
mod parser;
pub(crate) mod print;
mod template;

pub use form::{CountOfRows, QueryForm};
pub(crate) use lexer::{RESERVED, Token, TokenKind, character_range, tokens};
pub(crate) use parser::parse;
pub use template::{QueryTemplate, Slot, SlotUse};

/// Reads the golden scripts.
#[cfg(test)]
#[path = "../tests/support/script.rs"]
mod script;

#[cfg(test)]
mod coverage;

/// Returns the queries of the golden scripts, for tests of rules that hold for every query.
#[cfg(test)]
fn golden_queries() -> Vec<String> {
    script::cases().into_iter().map(|case| case.text).collect()
}
