//! Execution of a compiled query.
//!
//! `page.rs` runs a page, `block.rs` one SELECT, `eval.rs` one expression. `frame.rs` holds what
//! they share: the frames of a row, and the limits of the page.

pub(crate) mod block;
mod distinct;
pub(crate) mod eval;
pub(crate) mod frame;
mod group_order;
pub(crate) mod groups;
pub(crate) mod item;
pub(crate) mod page;
mod page_builder;
pub(crate) mod rank;
mod resume;
pub(crate) mod sort;
pub(crate) mod stopwatch;
pub(crate) mod write;
