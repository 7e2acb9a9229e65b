//! The query language: text to rows.
//!
//! ```text
//! text ─ syntax ─▶ tree ─ bind ─▶ block ─ derive ─▶ condition, order, demand   (Query::compile)
//!                    │                                        │
//!                    └─ plan ─▶ rewritten text for clients    ▼
//!                               that merge themselves   a Source brings candidates
//!                                                             │
//!                               rows ◀─ run: filter, join, group, project, sort, cut   (Query::run)
//! ```
//!
//! The crate knows no store, no network and no clock. Whoever runs a query gives it a [`Source`] of items, someone to
//! call for user-defined functions ([`Functions`]) and [`Bounds`]; it counts what it did in [`Work`].
//!
//! What it promises:
//! - [`Query::condition`] is necessary: a source may leave out every item that does not fulfil it, and nothing else.
//! - Pages put together are the whole answer, wherever they were cut; see [`ResumePoint`] for what that costs.
//! - No text makes it panic, recurse without end or hold more than [`Bounds::max_memory`]; time is looked at in every
//!   loop.
//! - Numbers that nobody computed with keep their text.
//!
//! Spatial functions, vector search and full-text search are computed from the items themselves: no condition is derived
//! from them, so what other conditions do not narrow is read through.
//!
//! Left out: the function HASH, which the service does not document.

mod advice;
mod bind;
mod bound;
mod condition;
mod covers;
mod derive;
mod error;
mod fingerprint;
mod full_text;
mod functions;
mod plan;
mod query;
mod resume_filter;
mod run;
mod seams;
mod spatial;
mod syntax;
mod value;

pub use advice::query_advice;
pub use condition::{Condition, Demand, OrderKey, Path, Step, Test, ValueType};
pub use covers::{CoveredPath, NeededValues};
pub use error::{Diagnostic, QueryError};
pub use full_text::{DEFAULT_LANGUAGE, full_text_languages};
pub use functions::function_reference;
pub use plan::{ClientPlan, PlanInfo, client_plan, formatted};
pub use query::Query;
pub use resume_filter::ResumeFilter;
pub use run::item::read_members;
pub use seams::{
    Bounds, Candidate, Environment, Functions, Page, ResumePoint, Source, VectorPath, Work,
};
pub use spatial::{Extent, extents, extents_within};
pub use syntax::QueryForm;
