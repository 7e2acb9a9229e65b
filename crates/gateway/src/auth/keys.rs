//! The account's keys, and the signatures made with them.
//!
//! A request is signed over its verb, the type and link of its resource and its date. We compute what each key would
//! have signed and compare in constant time; the date must then lie within a window around now.

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
    signs: Hmac<Sha256>,
    /// What it mints tokens with; a key that may only read mints none.
    mints: Option<TokenKey>,
}

/// The keys of the account.
#[derive(Clone)]
pub struct Keys {
    keys: Vec<Key>,
}

/// Why a text is no key.
#[derive(Debug, PartialEq, Eq)]
pub struct KeysError;

impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key must be base64 text of at least 16 bytes")
    }
}

impl std::error::Error for KeysError {}

impl Keys {
    /// One key that may do everything.
    ///
    /// # Errors
    /// The text is not base64, or short enough to guess.
    pub fn new(primary: &str) -> std::result::Result<Self, KeysError> {
        Keys { keys: Vec::new() }.with_full_key(primary)
    }

    /// A further key that may do everything.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn with_full_key(mut self, key: &str) -> std::result::Result<Self, KeysError> {
        let signs = read(key)?;
        let mints = Some(TokenKey::derive(&signs));
        self.keys.push(Key { signs, mints });
        Ok(self)
    }

    /// A further key that may only read.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn with_read_only_key(mut self, key: &str) -> std::result::Result<Self, KeysError> {
        self.keys.push(Key {
            signs: read(key)?,
            mints: None,
        });
        Ok(self)
    }

    /// What tokens are minted with.
    pub(super) fn token_keys(&self) -> impl Iterator<Item = &TokenKey> {
        self.keys.iter().filter_map(|key| key.mints.as_ref())
    }
}

fn read(text: &str) -> std::result::Result<Hmac<Sha256>, KeysError> {
    let bytes = STANDARD
        .decode(text.trim())
        .ok()
        .filter(|b| b.len() >= 16)
        .ok_or(KeysError)?;
    Hmac::new_from_slice(&bytes).map_err(|_| KeysError)
}

/// Seconds that a signature lives before and after its date, and the skew of clocks on top of the latter.
const WINDOW_SECONDS: i64 = 900;
const SKEW_SECONDS: i64 = 900;

impl Keys {
    /// Checks a request's signature at `now` (seconds since 1970), in base64.
    ///
    /// # Errors
    /// 401 for a wrong signature or no date, 403 for a date outside the window.
    pub(super) fn verify(
        &self,
        request: &SignedRequest<'_>,
        signature: &str,
        now: i64,
    ) -> Result<Caller> {
        let date = request
            .ms_date
            .filter(|d| !d.is_empty())
            .or(request.date)
            .ok_or_else(|| {
                unauthorized("The request has no date: send the header x-ms-date in RFC 1123 form.")
            })?;
        let key = self
            .matching(request, signature)
            .ok_or_else(|| wrong_signature(request))?;
        check_window(date, now)?;
        Ok(key.mints.clone().map_or(Caller::ReadOnlyKey, |key| {
            Caller::FullKey(TokenIssuer { key, now })
        }))
    }

    /// The key that made a signature. Texts are compared, not what they decode to, so there is one text that fits; each
    /// comparison takes as long however far they agree.
    fn matching(&self, request: &SignedRequest<'_>, signature: &str) -> Option<&Key> {
        let payloads = payloads(request);
        self.keys.iter().find(|key| {
            payloads.iter().any(|payload| {
                let mac = key
                    .signs
                    .clone()
                    .chain_update(payload.as_bytes())
                    .finalize()
                    .into_bytes();
                STANDARD
                    .encode(mac)
                    .as_bytes()
                    .ct_eq(signature.as_bytes())
                    .into()
            })
        })
    }
}

/// Every text that the client may have signed. The last line is the `Date` header only if there is no `x-ms-date`;
/// one client adds it always, so both are tried.
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

fn payload(request: &SignedRequest<'_>, link: &str, ms_date: &str, date: &str) -> String {
    let verb = request.verb.to_ascii_lowercase();
    format!(
        "{verb}\n{}\n{link}\n{}\n{}\n",
        request.resource_type,
        ms_date.to_lowercase(),
        date.to_lowercase()
    )
}

fn wrong_signature(request: &SignedRequest<'_>) -> Error {
    let date = if request.ms_date.is_none_or(str::is_empty) {
        request.date
    } else {
        None
    };
    let link = request
        .links
        .first()
        .map(String::as_str)
        .unwrap_or_default();
    let text = payload(
        request,
        link,
        request.ms_date.unwrap_or_default(),
        date.unwrap_or_default(),
    );
    unauthorized(format!(
        "The input authorization token can't serve the request. The wrong key is being used or the expected payload is \
         not built as per the protocol. For more info: https://aka.ms/cosmosdb-tsg-unauthorized. Server used the \
         following payload to sign: '{}'",
        text.replace('\n', "\\n")
    ))
}

fn check_window(date: &str, now: i64) -> Result<()> {
    let signed_at = crate::date::parse(date).ok_or_else(|| {
        unauthorized(format!(
            "The date '{date}' of the request is not in RFC 1123 form."
        ))
    })?;
    let (start, expiry) = (signed_at - WINDOW_SECONDS, signed_at + WINDOW_SECONDS);
    if (start..=expiry + SKEW_SECONDS).contains(&now) {
        return Ok(());
    }
    Err(Error::new(
        Kind::Forbidden,
        format!(
            "The authorization token is not valid at the current time. Please create another token and retry (token \
             start time: {}, token expiry time: {}, current server time: {}).",
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
        let key = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";
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
    fn a_signature_lives_from_a_quarter_before_to_half_an_hour_after_its_date() {
        let good = "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=";
        let at = |offset| {
            verify_at("GET", "", "", good, NOW + offset)
                .map(|_| ())
                .map_err(|e| e.status())
        };
        assert_eq!(at(-900), Ok(()));
        assert_eq!(at(1800), Ok(()));
        assert_eq!(at(-901), Err(403));
        assert_eq!(at(1801), Err(403));
    }

    #[test]
    fn short_or_broken_keys_are_refused() {
        assert!(Keys::new("").is_err());
        assert!(Keys::new("not base64").is_err());
        assert!(Keys::new("AAAA").is_err());
    }
}
