//! Error responses of the management API: a status, a code word and a message.

use orrery_model::{Error, Json, object};

/// An error response.
#[derive(Debug)]
pub(crate) struct Problem {
    /// HTTP status.
    pub(crate) status: u16,
    /// Code word that programs can compare.
    pub(crate) code: &'static str,
    /// Message for the caller: the defect and its location in the request.
    pub(crate) message: String,
    /// Name and value of an additional response header.
    pub(crate) header: Option<(&'static str, String)>,
    /// Cause for the server's log; never sent to the caller. Empty if there is none.
    pub(crate) cause: String,
}

impl Problem {
    /// Creates an error response without an additional header and without a cause.
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Problem {
            status,
            code,
            message: message.into(),
            header: None,
            cause: String::new(),
        }
    }

    /// Creates a 400 response.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Problem::new(400, "BadRequest", message)
    }

    /// Creates a 404 response.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Problem::new(404, "NotFound", message)
    }

    /// Adds a response header.
    pub(crate) fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.header = Some((name, value.into()));
        self
    }

    /// Returns the JSON text of the response body.
    pub(crate) fn to_body(&self) -> String {
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
