//! Refusals that an operator should know of: 401, 403 for a clock that is wrong or a host name that
//! is not the server's, and 429, each told once in the log at level info, with the remedy.
//!
//! A server that refuses every request of a client looks like a broken server, and at the usual
//! level its log would be silent. A cause is told once, because a client repeats a refused request.
//! Promises: at most [`CAUSES`] lines in the life of a server; a line has no secret, since refusals
//! have none.
//! Left out: counts, which the metrics have.

use crate::connection::Connection;
use crate::hosts;
use crate::log::{Field, Log, LogLevel};
use crate::route::Path;
use http::request::Parts;
use orrery_model::sync::lock;
use orrery_model::words::shortened;
use orrery_model::{Error, Kind};
use std::collections::HashSet;
use std::sync::Mutex;

/// The most causes that are told, and remembered.
const CAUSES: usize = 256;
/// The characters of a refusal by which causes differ: its first sentence.
const CAUSE_CHARS: usize = 60;
/// The characters of a refusal in a line of the log.
const REASON_CHARS: usize = 800;

/// The beginning of the refusal of a request beyond the provisioned throughput.
const BUDGET_SPENT: &str = "Request rate is large. More Request Units";

/// The causes that were told.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    told: Mutex<HashSet<String>>,
}

impl Notices {
    /// Returns true for the errors that are told.
    pub(crate) fn is_about(error: &Error) -> bool {
        match error.status() {
            401 | 429 => true,
            // The signature is right and its date is not, or the name of the server is not known.
            403 if error.kind() == Kind::Forbidden => {
                error.message().contains("server time") || is_about_host(error)
            }
            _ => false,
        }
    }

    /// Tells an error, unless its cause was told before.
    pub(crate) fn tell(
        &self,
        log: &Log,
        now_ms: u64,
        error: &Error,
        head: &Parts,
        connection: &Connection,
    ) {
        if !log.is_enabled(LogLevel::Info) || !self.is_new(error, head) {
            return;
        }
        // A budget that is spent and a queue that is full have different remedies.
        let is_budget = error.message().starts_with(BUDGET_SPENT);
        let (message, advice) = match error.status() {
            429 if is_budget => (
                "a request was throttled; further ones of this container are not told",
                "raise the container's throughput, or start with --enforce-throughput off; SDKs \
                 wait and retry by themselves",
            ),
            429 => (
                "a request was put off; further ones of this container are not told",
                "send fewer requests at once; SDKs wait and retry by themselves",
            ),
            _ if is_about_host(error) => (
                "a request was refused; further ones for this reason are not told",
                "list the name with --allow-host if the name is the server's own",
            ),
            _ => (
                "a request was refused; further ones for this reason are not told",
                "check endpoint, key and clock of the client",
            ),
        };
        // The refusal itself names the values of the request, and no secret.
        let peer = connection.peer.ip().to_string();
        let reason: String = error.message().chars().take(REASON_CHARS).collect();
        let path = shortened(head.uri.path());
        let fields = [
            ("status", Field::Number(f64::from(error.status()))),
            ("substatus", Field::Number(f64::from(error.sub_status()))),
            ("method", Field::Text(head.method.as_str())),
            ("path", Field::Text(&path)),
            ("peer", Field::Text(&peer)),
            ("reason", Field::Text(&reason)),
            ("remedy", Field::Text(advice)),
        ];
        log.write(now_ms, LogLevel::Info, message, &fields);
    }

    /// Remembers the cause of an error. Returns true if it was not known and is to be told.
    fn is_new(&self, error: &Error, head: &Parts) -> bool {
        // A container that is throttled is a cause of its own.
        let place = match error.status() {
            429 => container_of(head),
            _ => String::new(),
        };
        let beginning: String = error.message().chars().take(CAUSE_CHARS).collect();
        let cause = format!(
            "{} {} {place} {beginning}",
            error.status(),
            error.sub_status()
        );
        let mut told = lock(&self.told);
        told.len() < CAUSES && told.insert(cause)
    }
}

/// Returns true if an error is about the host name of a request.
fn is_about_host(error: &Error) -> bool {
    error.message().starts_with(hosts::REFUSAL)
}

/// Returns the names of database and container in the path of a request, shortened.
fn container_of(head: &Parts) -> String {
    match Path::parse(head.uri.path()) {
        Ok(path) => format!("{}/{}", shortened(path.id(0)), shortened(path.id(1))),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(path: &str) -> Parts {
        Request::get(path)
            .body(())
            .expect("a request")
            .into_parts()
            .0
    }

    #[test]
    fn a_cause_is_new_once() {
        let notices = Notices::default();
        let wrong = |payload: &str| {
            let text = "The input authorization token can't serve the request. The wrong key is \
                        being used";
            Error::new(Kind::Unauthorized, format!("{text}: '{payload}'"))
        };
        assert!(notices.is_new(&wrong("a"), &head("/dbs/a")));
        assert!(!notices.is_new(&wrong("b"), &head("/dbs/b")));
        assert!(notices.is_new(&Error::new(Kind::AuthorizationMissing, "none"), &head("/")));
    }

    #[test]
    fn each_throttled_container_is_a_cause() {
        let notices = Notices::default();
        let throttled = || Error::request_rate_is_large(3);
        assert!(notices.is_new(&throttled(), &head("/dbs/a/colls/b/docs")));
        assert!(!notices.is_new(&throttled(), &head("/dbs/a/colls/b/docs/1")));
        assert!(notices.is_new(&throttled(), &head("/dbs/a/colls/c/docs")));
    }

    #[test]
    fn the_memory_is_bounded() {
        let notices = Notices::default();
        for n in 0..2 * CAUSES {
            notices.is_new(
                &Error::request_rate_is_large(3),
                &head(&format!("/dbs/a/colls/{n}")),
            );
        }
        assert_eq!(lock(&notices.told).len(), CAUSES);
    }

    #[test]
    fn a_clock_and_a_host_are_told_and_a_missing_right_is_not() {
        let clock = Error::new(Kind::Forbidden, "… (current server time: now).");
        assert!(Notices::is_about(&clock));
        let host = format!("{}: 'evil.example'", hosts::REFUSAL);
        assert!(Notices::is_about(&Error::new(Kind::Forbidden, host)));
        assert!(!Notices::is_about(&Error::new(
            Kind::Forbidden,
            "reading only"
        )));
        assert!(!Notices::is_about(&Error::not_found()));
    }
}
