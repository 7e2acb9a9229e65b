//! Running a compiled query.

pub(crate) mod block;
pub(crate) mod eval;
pub(crate) mod frame;
pub(crate) mod groups;
pub(crate) mod item;
pub(crate) mod page;
pub(crate) mod rank;
mod resume;
pub(crate) mod sort;
pub(crate) mod write;
