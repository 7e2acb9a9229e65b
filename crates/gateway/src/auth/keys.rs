//! The keys of the account, and the signatures made with them.
//!
//! A client signs the verb, the type and link of the resource, and the date of a request. The
//! server computes the signature with each key and compares in constant time. The date must lie
//! within a window around the current time.

use super::tokens::{TokenIssuer, TokenKey};
use super::{Caller, SignedRequest, unauthorized};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use orrery_model::{Error, Kind, Result};
use sha2::Sha256;
use std::fmt;
use subtle::ConstantTimeEq;

/// A key of the account.
#[derive(Clone)]
struct Key {
    signing: Hmac<Sha256>,
    /// The key for resource tokens; `None` for a read-only key, which issues no tokens.
    tokens: Option<TokenKey>,
}

/// The keys of the account.
#[derive(Clone)]
pub struct Keys {
    keys: Vec<Key>,
}

/// The error for a text that is not a key.
#[derive(Debug, PartialEq, Eq)]
pub struct KeysError;

impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key must be base64 text of at least 16 bytes")
    }
}

impl std::error::Error for KeysError {}

impl Keys {
    /// Creates a set with one key that allows everything.
    ///
    /// # Errors
    /// The text is not base64, or encodes fewer than 16 bytes.
    pub fn new(primary: &str) -> std::result::Result<Self, KeysError> {
        Keys { keys: Vec::new() }.with_full_key(primary)
    }

    /// Adds a key that allows everything.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn with_full_key(mut self, key: &str) -> std::result::Result<Self, KeysError> {
        let signing = read(key)?;
        let tokens = Some(TokenKey::derive(&signing));
        self.keys.push(Key { signing, tokens });
        Ok(self)
    }

    /// Adds a key that allows reading only.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn with_read_only_key(mut self, key: &str) -> std::result::Result<Self, KeysError> {
        self.keys.push(Key {
            signing: read(key)?,
            tokens: None,
        });
        Ok(self)
    }

    /// Returns the keys that resource tokens are issued with.
    pub(super) fn token_keys(&self) -> impl Iterator<Item = &TokenKey> {
        self.keys.iter().filter_map(|key| key.tokens.as_ref())
    }
}

/// Reads a key from base64.
fn read(text: &str) -> std::result::Result<Hmac<Sha256>, KeysError> {
    let bytes = STANDARD.decode(text.trim()).map_err(|_| KeysError)?;
    if bytes.len() < 16 {
        return Err(KeysError);
    }
    Hmac::new_from_slice(&bytes).map_err(|_| KeysError)
}

/// The seconds after its date in which a signature is valid: the time of a request with its
/// repetitions, and a clock of the client that is behind.
const VALID_AFTER_SECONDS: i64 = 600;
/// The seconds before its date in which a signature is valid: a clock of the client that is ahead.
/// A signature lives 15 minutes in all, which is the time between the start and the expiry that the
/// service states in its refusals.
const VALID_BEFORE_SECONDS: i64 = 300;

impl Keys {
    /// Checks the signature of a request, in base64, at `now` (seconds since 1970).
    ///
    /// # Errors
    /// 401 for a wrong signature or no date, 403 for a date outside of the window.
    pub(super) fn verify(
        &self,
        request: &SignedRequest<'_>,
        signature: &str,
        now: i64,
    ) -> Result<Caller> {
        let date = match request.ms_date {
            Some(date) if !date.is_empty() => Some(date),
            _ => request.date,
        };
        let date = date.ok_or_else(|| {
            unauthorized("The request has no date: send the header x-ms-date in RFC 1123 form.")
        })?;
        let key = self
            .signer(request, signature)
            .ok_or_else(|| wrong_signature(request))?;
        check_window(date, now)?;
        Ok(match key.tokens.clone() {
            Some(key) => Caller::FullKey(TokenIssuer { key, now }),
            None => Caller::ReadOnlyKey,
        })
    }

    /// Returns the key that made a signature. The base64 texts are compared and not the bytes, so
    /// exactly one text is accepted. The duration of a comparison does not depend on the number of
    /// equal characters.
    fn signer(&self, request: &SignedRequest<'_>, signature: &str) -> Option<&Key> {
        let payloads = payloads(request);
        self.keys.iter().find(|key| {
            payloads.iter().any(|payload| {
                let mac = key.signing.clone().chain_update(payload.as_bytes());
                let expected = STANDARD.encode(mac.finalize().into_bytes());
                expected.as_bytes().ct_eq(signature.as_bytes()).into()
            })
        })
    }
}

/// Returns every text that the client may have signed. The last line is the `Date` header only if
/// there is no `x-ms-date`; one client always adds it, so both forms are tried.
fn payloads(request: &SignedRequest<'_>) -> Vec<String> {
    let ms_date = request.ms_date.unwrap_or_default();
    let date = request.date.unwrap_or_default();
    let mut texts: Vec<String> = Vec::with_capacity(2);
    for link in &request.links {
        if !ms_date.is_empty() {
            texts.push(payload(request, link, ms_date, ""));
        }
        if !date.is_empty() {
            texts.push(payload(request, link, ms_date, date));
        }
    }
    texts
}

/// Returns the text to sign, in the service's form. The link keeps its case.
fn payload(request: &SignedRequest<'_>, link: &str, ms_date: &str, date: &str) -> String {
    let verb = request.verb.to_ascii_lowercase();
    format!(
        "{verb}\n{}\n{link}\n{}\n{}\n",
        request.resource_type,
        ms_date.to_lowercase(),
        date.to_lowercase()
    )
}

/// Returns the error for a wrong signature. It quotes the text that the server signed, so that
/// developers of clients can compare.
fn wrong_signature(request: &SignedRequest<'_>) -> Error {
    let ms_date = request.ms_date.unwrap_or_default();
    let date = if ms_date.is_empty() {
        request.date.unwrap_or_default()
    } else {
        ""
    };
    let link = request.links.first().map_or("", String::as_str);
    let text = payload(request, link, ms_date, date);
    unauthorized(format!(
        "The input authorization token can't serve the request. The wrong key is being used or the \
         expected payload is not built as per the protocol. For more info: \
         https://aka.ms/cosmosdb-tsg-unauthorized. Server used the following payload to sign: '{}'",
        text.replace('\n', "\\n")
    ))
}

/// Checks the date of a signature.
fn check_window(date: &str, now: i64) -> Result<()> {
    let signed_at = crate::date::parse(date).ok_or_else(|| {
        unauthorized(format!(
            "The date '{date}' of the request is not in RFC 1123 form."
        ))
    })?;
    let start = signed_at - VALID_BEFORE_SECONDS;
    let expiry = signed_at + VALID_AFTER_SECONDS;
    if (start..expiry).contains(&now) {
        return Ok(());
    }
    Err(Error::new(
        Kind::Forbidden,
        format!(
            "The authorization token is not valid at the current time. Please create another token \
             and retry (token start time: {}, token expiry time: {}, current server time: {}).",
            crate::date::print(start),
            crate::date::print(expiry),
            crate::date::print(now)
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WELL_KNOWN_KEY;

    const DATE: &str = "Thu, 27 Apr 2017 00:51:12 GMT";
    const NOW: i64 = 1_493_254_272;

    fn signed<'a>(verb: &'a str, kind: &'a str, link: &str) -> SignedRequest<'a> {
        let links = vec![link.to_owned()];
        SignedRequest {
            verb,
            resource_type: kind,
            links,
            authorization: None,
            ms_date: Some(DATE),
            date: None,
        }
    }

    fn verify_at(verb: &str, kind: &str, link: &str, signature: &str, now: i64) -> Result<Caller> {
        Keys::new(WELL_KNOWN_KEY)
            .expect("a key")
            .verify(&signed(verb, kind, link), signature, now)
    }

    #[test]
    fn published_signatures_are_accepted() {
        for (verb, kind, link, signature) in [
            (
                "GET",
                "",
                "",
                "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=",
            ),
            (
                "POST",
                "dbs",
                "",
                "CHjhNtQltyEuPdWLf2/f+hSkSlYg+7UuFlwMyv8L7mI=",
            ),
            (
                "GET",
                "dbs",
                "dbs/blog",
                "5eRDPOzrfTc/sMFo1/syR2b/i956iQcTIM93P6GRHAI=",
            ),
            (
                "POST",
                "colls",
                "dbs/blog",
                "0uF3JRbdbzYa9bS+xfRbTj4eSZGXKIb17vmE3ORe/rQ=",
            ),
            (
                "POST",
                "docs",
                "dbs/blog/colls/posts",
                "md9cVDFYdxfs/Bcz9bGzy1M+iNX44fo9EoiHmJWb8H8=",
            ),
            (
                "GET",
                "docs",
                "dbs/blog/colls/posts/docs/p1",
                "ARkX7fC3jjnNdOtq3lkxRceA11gnXRoKfTFJsscv9bE=",
            ),
            (
                "GET",
                "pkranges",
                "dbs/blog/colls/posts",
                "LVR8aALep1UJ/jGti5BQLMSaUWLHB7ttFGnd9GB0GAk=",
            ),
            (
                "PUT",
                "offers",
                "ab1d",
                "ccbSFO7yngXIeNfkAF0DwqHvyV1SPvb5qSgTOmf+oEQ=",
            ),
        ] {
            let caller = verify_at(verb, kind, link, signature, NOW).expect(signature);
            assert!(matches!(caller, Caller::FullKey(_)));
        }
    }

    #[test]
    fn the_documented_signature_is_accepted() {
        let key = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/\
                   dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";
        let keys = Keys::new(WELL_KNOWN_KEY)
            .and_then(|keys| keys.with_read_only_key(key))
            .expect("keys");
        let signature = "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c=";
        let caller = keys
            .verify(&signed("GET", "dbs", "dbs/ToDoList"), signature, NOW)
            .expect("it fits");
        assert!(matches!(caller, Caller::ReadOnlyKey));
    }

    #[test]
    fn a_wrong_signature_is_answered_with_what_the_server_signed() {
        let error = verify_at("GET", "dbs", "dbs/blog", "AAAA", NOW).expect_err("wrong");
        assert_eq!((error.status(), error.sub_status()), (401, 0));
        assert!(
            error
                .message()
                .contains(r"'get\ndbs\ndbs/blog\nthu, 27 apr 2017 00:51:12 gmt\n\n'"),
            "{error}"
        );
    }

    #[test]
    fn a_signature_lives_from_5_minutes_before_to_10_minutes_after_its_date() {
        let good = "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=";
        let at = |offset| {
            verify_at("GET", "", "", good, NOW + offset)
                .map(|_| ())
                .map_err(|e| e.status())
        };
        assert_eq!(at(-300), Ok(()));
        assert_eq!(at(599), Ok(()));
        assert_eq!(at(-301), Err(403));
        assert_eq!(at(600), Err(403));
        let lives = (-2000..2000).filter(|offset| at(*offset).is_ok()).count();
        assert_eq!(lives, 15 * 60);
    }

    #[test]
    fn short_or_broken_keys_are_refused() {
        assert!(Keys::new("").is_err());
        assert!(Keys::new("not base64").is_err());
        assert!(Keys::new("AAAA").is_err());
    }
}
