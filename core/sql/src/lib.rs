//! The query language: from the text of a query to its rows.
//!
//! A query passes through the crate as follows. Steps 1 to 5 compile the query; steps 6 to 9 run
//! one page of it.
//!
//! 1. The engine calls [`Query::compile`] with the text, the parameters and an [`Environment`], the
//!    definitions of the container that a query may refer to.
//!
//! 2. `syntax::parse` turns the text into a syntax tree (`syntax::ast::Query`). `lexer::tokens`
//!    splits the text into tokens, and `Parser::query` applies the grammar by recursive descent.
//!
//! 3. `bind::bind` turns the tree into a `bound::Block`, the form that runs: names become frame
//!    positions, functions become pointers, parameters become values, and constant expressions are
//!    folded. Compile errors are collected as [`Diagnostic`]s.
//!
//! 4. `derive::derive` turns the bound WHERE clause into a [`Condition`], the part of the filter
//!    that an index can evaluate.
//!
//! 5. `Query::new` combines the results with ORDER BY ([`OrderKey`]) and the part of each item that
//!    the query reads ([`Demand`]). `fingerprint::of_text` hashes the query for its continuations.
//!
//! 6. The engine chooses an access path from [`Query::condition`], [`Query::order`],
//!    [`Query::demand`] and [`Query::covered_path`], and makes a [`Source`] of [`Candidate`]s.
//!
//! 7. The engine calls [`Query::run`] with the source, the user-defined functions ([`Functions`]),
//!    the [`ResumePoint`] of the page before, and [`Bounds`].
//!
//! 8. `Query::run` takes candidates from the source, parses the properties that the query reads
//!    (`run::item::read`), and evaluates FROM, JOIN and WHERE (`Block::tuples`). A query that
//!    streams writes each row as soon as it is complete; the others collect groups, sort
//!    (`run::sort::Sorter`) or rank (`run::rank::Ranked`) first.
//!
//! 9. `Query::run` returns a [`Page`] with the rows as JSON text and the `ResumePoint` of the next
//!    page. The counters of [`Work`] say how much was done.
//!
//! A client that merges the results of several partitions itself asks for a plan first:
//! [`client_plan`] does steps 1 to 5 and rewrites the syntax tree (`plan.rs`).
//!
//! The definitions of computed properties are checked by [`check_computed_property`] before an
//! [`Environment`] contains them.
//!
//! The crate has no knowledge of stores, networks and clocks; `seams.rs` defines what a caller
//! provides.
//!
//! The crate promises:
//!
//! - [`Query::condition`] is necessary: a source may omit every item that does not fulfil the
//!   condition, and no other item.
//! - The concatenation of all pages is the whole result, at whatever rows the pages end.
//!   [`ResumePoint`] describes the cost of a continuation.
//! - No text causes a panic, unbounded recursion, or a use of more memory than
//!   [`Bounds::max_memory`]. Every loop checks the time limit.
//! - The numbers of a whole item keep their text. Any other number of a row has its shortest form.
//!
//! Left out: the function HASH, which the service does not document. Spatial functions are
//! computed from the items; only a bounding box becomes part of the index condition. Scores of
//! vectors and texts are computed from the items too, unless the source serves their order from an
//! index ([`IndexedScore`]).

mod advice;
mod bind;
mod bound;
mod computed_property;
mod condition;
mod covered_path;
mod derive;
mod error;
mod fingerprint;
mod full_text;
mod functions;
mod hints;
mod index_use;
mod indexed_score;
mod language;
mod oversights;
mod plan;
mod query;
mod rank_statistics;
mod resume_filter;
mod run;
mod seams;
mod search_effort;
mod spatial;
mod syntax;
mod totals;
mod value;
mod vectors;

pub use advice::query_advice;
pub use computed_property::check_computed_property;
pub use condition::{Condition, Demand, OrderKey, Path, Step, Test, ValueType};
pub use covered_path::{CoveredPath, NeededValues};
pub use error::{Diagnostic, QueryError};
pub use full_text::{
    DEFAULT_LANGUAGE, LikeWord, Likeness, Places, TermWord, TextScore, TextWords,
    full_text_languages, has_word, is_compared,
};
pub use functions::function_reference;
pub use index_use::Search;
pub use indexed_score::IndexedScore;
pub use language::{ClauseInfo, FunctionInfo, Language, PropertyInfo, language};
pub use oversights::oversights;
pub use plan::{
    ClientPlan, MergeSupport, PlanInfo, PlanRequest, PlanScope, client_plan, formatted,
    is_merged_by_server,
};
pub use query::Query;
pub use resume_filter::ResumeFilter;
pub use run::item::read_members;
pub use run::sort::{keys_from_json, keys_to_json};
pub use run::stopwatch::{Clock, Lap, Stopwatch};
pub use seams::{
    Bounds, Candidate, Environment, Functions, Page, ResumePoint, Source, VectorPath, Work,
};
pub use search_effort::SearchEffort;
pub use spatial::{Extent, extents, extents_within};
pub use syntax::{CountOfRows, QueryForm, QueryTemplate, Slot, SlotUse};
pub use totals::Total;
pub use vectors::{
    DataType, DistanceFunction, Nearest, VECTORS_AT_ONCE, append_components, stored_vector,
    stored_vector_bytes,
};
