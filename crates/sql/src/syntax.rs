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
