//! Error responses of the console: a status, a code word and a message.

use orrery_model::{Error, Json, object};

/// An error response.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// HTTP status.
    pub(crate) status: u16,
    /// Code word that pages compare.
    pub(crate) code: &'static str,
    /// Message for the person: the defect and the remedy.
    pub(crate) message: String,
}

impl Refusal {
    /// Creates an error response.
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> Self {
        Refusal {
            status,
            code,
            message: message.into(),
        }
    }

    /// Creates the response to a request without a session.
    pub(crate) fn sign_in_required() -> Self {
        Refusal::new(
            401,
            "SignInRequired",
            "there is no session, or it has ended; sign in with the key of the management API",
        )
    }

    /// Creates the response to a request for a path that does not exist.
    pub(crate) fn not_found() -> Self {
        Refusal::new(404, "NotFound", "the console has no such page")
    }

    /// Returns the JSON text of the response body.
    pub(crate) fn to_body(&self) -> String {
        Json::Object(object! { "code" => self.code, "message" => self.message.as_str() }).to_text()
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal::new(error.status(), error.kind().code(), error.message())
    }
}
