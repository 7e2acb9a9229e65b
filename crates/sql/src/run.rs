//! Running a compiled query.

pub(crate) mod block;
pub(crate) mod eval;
pub(crate) mod frame;
pub(crate) mod groups;
