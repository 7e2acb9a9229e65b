//! Text to tree and back: tokens, grammar, tree, printer.

pub(crate) mod ast;
mod clauses;
mod expressions;
mod lexer;
mod parser;
pub(crate) mod print;

pub(crate) use parser::parse;
