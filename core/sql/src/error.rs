//! The errors of a query, in the forms in which the service reports them.
//!
//! A client sees three forms: compile errors with a code and a character range, plan errors as a
//! list of sentences, and failures at run time. The code of this crate names no HTTP status;
//! callers report status 400 unless the documentation of a variant says otherwise.

use orrery_model::json::{Json, Object};
use orrery_model::object;
use orrery_model::words::bounded;
use std::error::Error;
use std::fmt;

/// The most characters of a message. Words of the query in a message may be as long as the query.
const MESSAGE_CHARS_MAX: usize = 1_000;

/// One compile error and the range of the query text that it refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The service's code, such as `SC1001`.
    pub code: &'static str,
    /// The message in the service's words, with quoted words of the query.
    pub message: String,
    /// The remedy of the query, if it is known. Clients read it behind the message.
    pub hint: Option<String>,
    /// Position of the first character of the offending text, in characters from the start of the
    /// query.
    pub start: usize,
    /// Position after the last character of the offending text.
    pub end: usize,
}

/// The reason why a query returns no rows.
#[derive(Debug)]
pub enum QueryError {
    /// The text does not compile: syntax, names, number of arguments, misplaced clauses.
    Compile(Vec<Diagnostic>),
    /// The text is well formed but the service does not run such a query. Reported as
    /// `{"Errors":["..."]}`.
    Plan(String),
    /// The plan of the query requires these features, which the client does not support. Reported
    /// as `{"Errors":["..."]}`.
    MissingFeatures(Vec<&'static str>),
    /// An ORDER BY expression is not a document path. Reported with numeric code 2206 and no
    /// location.
    OrderBy(String),
    /// A function or clause of the language that this implementation does not support.
    Unsupported(String),
    /// A result contains NaN or an infinity. Reported as status 400 with sub-status 4001.
    NonFinite,
    /// A user-defined function threw an error or was stopped.
    Udf {
        /// The number of the thrown error; reported as sub-status.
        number: Option<u32>,
        /// The message of the thrown error.
        message: String,
    },
    /// A continuation or resume filter that does not belong to this query or is malformed.
    Resume(String),
    /// The query needs more memory than [`crate::Bounds::max_memory`].
    Memory(String),
    /// The caller gave the query no more memory, see [`crate::Bounds::reserve`], and the query
    /// cannot return what it has. Reported as status 429.
    MemoryTaken,
    /// The query cannot be split into pages and did not finish in time. Reported as status 408.
    Timeout,
    /// The source failed; the error is the source's own.
    Source(Box<dyn Error + Send + Sync>),
}

impl QueryError {
    /// Returns the JSON value that the service writes as text into the `message` of its response.
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
                let error = object! {
                    "severity" => "Error",
                    "code" => 2206,
                    "message" => with_help(message),
                };
                Json::Object(object! { "errors" => vec![Json::Object(error)] })
            }
            other => {
                let message = with_help(&other.to_string());
                Json::Object(object! { "Errors" => vec![Json::from(message)] })
            }
        }
    }

    /// Makes the error for an aggregate that is only a part of an expression, over several
    /// partitions.
    pub(crate) fn composed_aggregates() -> Self {
        let message = "Compositions of aggregates and other expressions are not allowed.";
        QueryError::Plan(message.into())
    }

    /// Makes a compile error with one diagnostic. `span` is a range of characters.
    pub(crate) fn at(code: &'static str, message: impl Into<String>, span: (usize, usize)) -> Self {
        QueryError::Compile(vec![Diagnostic {
            code,
            message: message.into(),
            hint: None,
            start: span.0,
            end: span.1,
        }])
    }
}

/// Returns a sentence of the service and, behind it, how to mend the query.
fn with_help(sentence: &str) -> String {
    let sentence = bounded(sentence, MESSAGE_CHARS_MAX);
    match crate::hints::help_of_sentence(&sentence) {
        Some(help) => format!("{sentence} {help}"),
        None => sentence.into_owned(),
    }
}

impl Diagnostic {
    /// Returns the message and, behind it, the hint.
    pub fn explained(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{} {hint}", bounded(&self.message, MESSAGE_CHARS_MAX)),
            None => bounded(&self.message, MESSAGE_CHARS_MAX).into_owned(),
        }
    }

    fn to_object(&self) -> Object {
        object! {
            "severity" => "Error",
            "location" => object! { "start" => self.start, "end" => self.end },
            "code" => self.code,
            "message" => self.explained(),
        }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueryError::Compile(diagnostics) => {
                for (i, d) in diagnostics.iter().enumerate() {
                    let separator = if i > 0 { "; " } else { "" };
                    write!(
                        f,
                        "{separator}{} at {}..{}: {}",
                        d.code, d.start, d.end, d.message
                    )?;
                }
                Ok(())
            }
            QueryError::MissingFeatures(features) => {
                f.write_str(
                    "Query contains 1 or more unsupported features. Upgrade your SDK to a version \
                     that does support the requested features:",
                )?;
                for feature in features {
                    write!(
                        f,
                        " Query contained {feature}, which the calling client does not support."
                    )?;
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
                "The response content contains a numeric value that cannot be represented in JSON \
                 (e.g. Infinity and NaN).",
            ),
            QueryError::MemoryTaken => f.write_str(
                "Other queries hold the memory that the query needs. Please retry later.",
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
