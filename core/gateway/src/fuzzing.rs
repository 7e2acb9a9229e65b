//! The readers of this crate that take bytes of clients, for the fuzz targets in `fuzz`. Nothing
//! else uses this module, and it promises nothing to other crates.
//!
//! It is part of every build: with a feature of cargo the tests of the workspace and the program
//! would compile this crate twice.

use crate::auth::{Authenticator, Caller, Keys, SignedRequest};
use crate::connection::TrustedAccess;
use crate::{binary_json, operations};
use bytes::Bytes;
use orrery_engine::request::{BatchOperation, FeedPage, FeedStart};
use orrery_engine::{Engine, PermissionContent};
use orrery_model::Result;
use orrery_model::memory::{AnswerMemory, MemoryBudget};

/// Translates a body in binary JSON, with its first byte, into JSON text.
///
/// # Errors
/// 400 for a malformed body.
pub fn text_of_binary_json(body: &[u8]) -> Result<String> {
    binary_json::to_text(body)
}

/// Reads the operations of a batch, as JSON or in HybridRow form.
///
/// # Errors
/// 400 or 413 for a body that is no batch.
pub fn batch_operations(body: &Bytes) -> Result<Vec<BatchOperation>> {
    let answer = AnswerMemory::new(&MemoryBudget::unlimited());
    operations::read_batch(body, false, &answer)
}

/// Returns the start of a change feed that the value of `If-None-Match` names.
///
/// # Errors
/// 400 for a value that is no etag of a change feed.
pub fn feed_start(if_none_match: &str) -> Result<FeedStart> {
    operations::feed_start(Some(if_none_match), None)
}

/// Returns the etag of a page of a change feed, without quotes.
pub fn feed_etag(page: &FeedPage) -> String {
    operations::etag_text(page)
}

/// A request to read the account, with its credentials.
#[derive(Clone, Copy, Debug)]
pub struct AccountRead<'a> {
    /// The header `authorization`.
    pub authorization: &'a str,
    /// The header `x-ms-date`.
    pub date: &'a str,
    /// The time of the request, in seconds since 1970.
    pub now: i64,
}

/// The check of credentials.
pub struct Credentials(Authenticator);

impl Credentials {
    /// Creates the check of an account with these keys, and without a directory.
    pub fn new(keys: Keys) -> Self {
        Credentials(Authenticator::new(keys, None))
    }

    /// Returns a resource token of a permission, issued at `now` for `seconds`; `None` without a
    /// key that issues tokens.
    pub fn token(
        &self,
        grant: &PermissionContent,
        engine: &Engine,
        now: i64,
        seconds: u64,
    ) -> Option<String> {
        match self.0.trusted_caller(TrustedAccess::Full, now) {
            Ok(Caller::FullKey(issuer)) => Some(issuer.issue(grant, engine, seconds)),
            _ => None,
        }
    }

    /// Checks the credentials of a request.
    ///
    /// # Errors
    /// 401 or 403 for credentials that are not valid.
    pub fn check(&self, request: AccountRead<'_>, engine: &Engine) -> Result<()> {
        let signed = SignedRequest {
            verb: "GET",
            resource_type: "",
            links: vec![String::new()],
            authorization: Some(request.authorization),
            ms_date: Some(request.date),
            date: None,
        };
        let caller = self.0.authenticate(&signed, engine, request.now)?;
        drop(caller);
        Ok(())
    }
}
