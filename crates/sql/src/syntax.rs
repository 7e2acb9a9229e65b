//! Text to tree and back: tokens, grammar, tree, printer.

pub(crate) mod ast;
mod clauses;
mod expressions;
mod form;
mod lexer;
mod parser;
pub(crate) mod print;

pub use form::QueryForm;
pub(crate) use lexer::characters;
pub(crate) use parser::parse;

#[cfg(test)]
#[path = "../tests/support/script.rs"]
pub(crate) mod script;

/// The queries of the golden scripts, for tests of what holds whatever a query says.
#[cfg(test)]
fn golden_queries() -> Vec<String> {
    script::cases().into_iter().map(|case| case.text).collect()
}
