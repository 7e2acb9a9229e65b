//! What can go wrong with a query, in the shapes in which the service tells it.
//!
//! Three shapes reach a client: compile errors with a code and a character range, plan errors that are a bare list of
//! sentences, and failures while running. Nothing here knows a status code but in its documentation: all are 400
//! unless a variant says otherwise.

use orrery_model::json::{Json, Object};
use orrery_model::object;
use std::error::Error;
use std::fmt;

/// One compile error and the piece of text it is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// `SC1001` and its like.
    pub code: &'static str,
    /// The sentence, with the query's own words in quotes.
    pub message: String,
    /// First character of the offending text, counted in characters of the query.
    pub start: usize,
    /// One past its last character.
    pub end: usize,
}

/// Why a query gives no rows.
#[derive(Debug)]
pub enum QueryError {
    /// The text does not compile: syntax, names, arities, misplaced clauses.
    Compile(Vec<Diagnostic>),
    /// The text is well formed, but such a query is not served: `{"Errors":["..."]}`.
    Plan(String),
    /// An ORDER BY that is no document path: numeric code 2206, no location.
    OrderBy(String),
    /// A function or clause that the language has and this engine has not.
    Unsupported(String),
    /// A result holds NaN or an infinity: 400 with sub-status 4001.
    NonFinite,
    /// A user-defined function threw or was stopped.
    Udf {
        /// The number of the thrown error; it becomes the sub-status.
        number: Option<u32>,
        /// What it said.
        message: String,
    },
    /// A resume position that does not belong to this query, or is no position at all.
    Resume(String),
    /// The query would need more memory than its bounds allow.
    Memory(String),
    /// The query cannot be cut into pages and did not finish within its time: the service's 408.
    Timeout,
    /// The source failed; its error is passed through.
    Source(Box<dyn Error + Send + Sync>),
}

impl QueryError {
    /// The JSON text that the service puts into the `message` of its answer.
    pub fn to_json(&self) -> Json {
        match self {
            QueryError::Compile(diagnostics) => {
                let errors = diagnostics
                    .iter()
                    .map(|d| Json::Object(d.to_object()))
                    .collect::<Vec<_>>();
                Json::Object(object! { "errors" => errors })
            }
            QueryError::OrderBy(message) => {
                let error = object! { "severity" => "Error", "code" => 2206, "message" => message.as_str() };
                Json::Object(object! { "errors" => vec![Json::Object(error)] })
            }
            other => Json::Object(object! { "Errors" => vec![Json::from(other.to_string())] }),
        }
    }

    /// A compile error with one diagnostic.
    pub(crate) fn at(code: &'static str, message: impl Into<String>, span: (usize, usize)) -> Self {
        QueryError::Compile(vec![Diagnostic {
            code,
            message: message.into(),
            start: span.0,
            end: span.1,
        }])
    }
}

impl Diagnostic {
    fn to_object(&self) -> Object {
        object! {
            "severity" => "Error",
            "location" => object! { "start" => self.start, "end" => self.end },
            "code" => self.code,
            "message" => self.message.as_str(),
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Compile(diagnostics) => {
                for (i, d) in diagnostics.iter().enumerate() {
                    let separator = if i > 0 { "; " } else { "" };
                    write!(f, "{separator}{} at {}..{}: {}", d.code, d.start, d.end, d.message)?;
                }
                Ok(())
            }
            QueryError::Plan(message)
            | QueryError::OrderBy(message)
            | QueryError::Unsupported(message)
            | QueryError::Resume(message)
            | QueryError::Memory(message)
            | QueryError::Udf { message, .. } => f.write_str(message),
            QueryError::NonFinite => f.write_str(
                "The response content contains a numeric value that cannot be represented in JSON (e.g. Infinity and NaN).",
            ),
            QueryError::Timeout => f.write_str("The query did not finish within its time."),
            QueryError::Source(error) => write!(f, "{error}"),
        }
    }
}

impl Error for QueryError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            QueryError::Source(error) => Some(error.as_ref()),
            _ => None,
        }
    }
}
