//! The pages, by subject.

pub(crate) mod account;
pub(crate) mod atom;
pub(crate) mod item;
pub(crate) mod operations;
pub(crate) mod pipelines;
pub(crate) mod read;
pub(crate) mod write;
