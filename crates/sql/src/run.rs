//! Running a compiled query.

pub(crate) mod block;
mod distinct;
pub(crate) mod eval;
pub(crate) mod frame;
pub(crate) mod groups;
pub(crate) mod item;
pub(crate) mod page;
pub(crate) mod rank;
mod resume;
pub(crate) mod sort;
pub(crate) mod write;
