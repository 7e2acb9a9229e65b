//! The query language: text to rows.
//!
//! The interface in short; [`Query`] follows.
//!
//! ```text
//! Query::compile(text: &str, parameters: &[(String, Json)], environment: &Environment) -> Result<Query, QueryError>
//! query.condition() -> &Condition      query.exact() -> bool      query.order() -> &[OrderKey]
//! query.demand() -> Demand             query.top() / offset() / limit() -> Option<u64>
//! query.is_aggregate() / is_distinct() / has_group_by() / projects() -> bool
//! query.udfs() -> &[String]
//! query.run(source: &mut dyn Source, functions: &mut dyn Functions, resume: Option<&Resume>,
//!           bounds: &mut Bounds<'_>, work: &mut Work) -> Result<Page, QueryError>
//! Resume::encode(&self) -> Vec<u8>     Resume::decode(&[u8]) -> Result<Resume, QueryError>
//! client_plan(text, parameters, environment, supported_features: &str) -> Result<ClientPlan, QueryError>
//! ```

mod bind;
mod bound;
mod condition;
mod derive;
mod error;
mod functions;
mod plan;
mod query;
mod run;
mod seams;
mod syntax;
mod value;

pub use condition::{Condition, Demand, OrderKey, Path, Step, Test, ValueType};
pub use error::{Diagnostic, QueryError};
pub use plan::{ClientPlan, client_plan};
pub use query::Query;
pub use seams::{Bounds, Candidate, Environment, Functions, Page, Resume, Source, Work};
