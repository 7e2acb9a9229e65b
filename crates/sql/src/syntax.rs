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
