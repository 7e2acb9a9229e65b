//! What went wrong, for the person who asked: a status, a code word and a sentence.

use orrery_model::{Error, Json, object};

/// A request that is not carried out.
#[derive(Debug)]
pub(crate) struct Problem {
    /// HTTP status.
    pub(crate) status: u16,
    /// A word that programs can compare.
    pub(crate) code: &'static str,
    /// What was wrong, and where.
    pub(crate) message: String,
    /// A further header of the answer.
    pub(crate) header: Option<(&'static str, String)>,
    /// What our log reads beside it.
    pub(crate) cause: String,
}

impl Problem {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Problem {
            status,
            code,
            message: message.into(),
            header: None,
            cause: String::new(),
        }
    }

    /// A 400.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Problem::new(400, "BadRequest", message)
    }

    /// A 404.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Problem::new(404, "NotFound", message)
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.header = Some((name, value.into()));
        self
    }

    /// The body.
    pub(crate) fn text(&self) -> String {
        Json::Object(object! { "code" => self.code, "message" => self.message.as_str() }).to_text()
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let mut problem = Problem::new(error.status(), error.kind().code(), error.message());
        problem.cause = error.cause_chain();
        problem
    }
}
