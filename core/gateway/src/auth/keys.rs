//! The keys of the account, and the signatures made with them.
//!
//! A client signs the verb, the type and link of the resource, and the date of a request. The
//! server computes the signature with each key and compares in constant time. The date must lie
//! within a window around the current time.

use super::tokens::{TokenIssuer, TokenKey};
use super::{Caller, SignedRequest, unauthorized};
use crate::WELL_KNOWN_KEY;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use orrery_model::{Error, Kind, Result};
use sha2::Sha256;
use std::fmt;
use subtle::ConstantTimeEq;

/// A key of the account.
#[derive(Clone)]
struct Key {
    signing: Hmac<Sha256>,
    /// The text of the key taken as bytes, with which a client signs that forgets to decode it.
    undecoded: Hmac<Sha256>,
    /// True for the key of the emulator, which is publicly known.
    is_well_known: bool,
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
        let mut key = Key::read(key)?;
        key.tokens = Some(TokenKey::derive(&key.signing));
        self.keys.push(key);
        Ok(self)
    }

    /// Adds a key that allows reading only.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn with_read_only_key(mut self, key: &str) -> std::result::Result<Self, KeysError> {
        self.keys.push(Key::read(key)?);
        Ok(self)
    }

    /// Returns true if one of the keys is that of the emulator, which is publicly known.
    pub(super) fn has_well_known_key(&self) -> bool {
        self.keys.iter().any(|key| key.is_well_known)
    }

    /// Returns the keys that resource tokens are issued with.
    pub(super) fn token_keys(&self) -> impl Iterator<Item = &TokenKey> {
        self.keys.iter().filter_map(|key| key.tokens.as_ref())
    }
}

impl Key {
    /// Reads a key from base64, without the right to issue resource tokens.
    fn read(text: &str) -> std::result::Result<Self, KeysError> {
        let text = text.trim();
        let bytes = STANDARD.decode(text).map_err(|_| KeysError)?;
        if bytes.len() < 16 {
            return Err(KeysError);
        }
        let hmac = |key: &[u8]| Hmac::new_from_slice(key).map_err(|_| KeysError);
        Ok(Key {
            signing: hmac(&bytes)?,
            undecoded: hmac(text.as_bytes())?,
            is_well_known: text == WELL_KNOWN_KEY,
            tokens: None,
        })
    }
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
            unauthorized(
                "The request has no date: send the header x-ms-date in RFC 1123 form, such as \
                 'Tue, 01 Nov 2026 08:12:31 GMT'.",
            )
        })?;
        let key = self
            .signer(request, signature)
            .ok_or_else(|| wrong_signature(request).with_help(self.remedy(request, signature)))?;
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
        self.keys
            .iter()
            .find(|key| is_made_with(&key.signing, &payloads, signature))
    }

    /// Returns what is wrong with a signature that no key made, as far as the signature shows it,
    /// and the key that clients need. The mistakes that a signature shows are those of a sender who
    /// has a key of the account or the publicly known one, so the text reveals no secret.
    fn remedy(&self, request: &SignedRequest<'_>, signature: &str) -> &'static str {
        let payloads = payloads(request);
        let is_undecoded = |key: &Key| is_made_with(&key.undecoded, &payloads, signature);
        if self.keys.iter().any(is_undecoded) {
            return "The key is right, but it was used as text: decode it from base64 before \
                    signing.";
        }
        // The service wants verb, type and date in lower case.
        let as_sent: Vec<String> = payloads_as_sent(request);
        let keeps_case = |key: &Key| is_made_with(&key.signing, &as_sent, signature);
        if self.keys.iter().any(keeps_case) {
            return "The key is right, but the text was signed in upper and lower case: sign the \
                    verb, the resource type and the date in lower case.";
        }
        let has_well_known = self.keys.iter().any(|key| key.is_well_known);
        let well_known = Key::read(WELL_KNOWN_KEY);
        if !has_well_known
            && let Ok(key) = well_known
            && is_made_with(&key.signing, &payloads, signature)
        {
            return "The request is signed with the well-known key of the emulator, and this \
                    server has a key of its own: take it from the key file with which the server \
                    was started (--key-file).";
        }
        if has_well_known {
            "This server accepts the well-known key of the emulator (C2y6yDjf5…XIw/Jw==), and the \
             request is signed with another key, or over another text than the one above."
        } else {
            "This server has a key of its own, in the key file with which it was started \
             (--key-file), and the request is signed with another key, or over another text than \
             the one above."
        }
    }
}

/// Returns true if a signature in base64 was made with a key over one of the texts.
fn is_made_with(key: &Hmac<Sha256>, payloads: &[String], signature: &str) -> bool {
    payloads.iter().any(|payload| {
        let mac = key.clone().chain_update(payload.as_bytes());
        let expected = STANDARD.encode(mac.finalize().into_bytes());
        expected.as_bytes().ct_eq(signature.as_bytes()).into()
    })
}

/// Returns the texts that a client signs that leaves verb and date as they are.
fn payloads_as_sent(request: &SignedRequest<'_>) -> Vec<String> {
    let (verb, kind) = (request.verb, request.resource_type);
    let ms_date = request.ms_date.unwrap_or_default();
    let lower = verb.to_ascii_lowercase();
    let mut texts = Vec::new();
    for link in &request.links {
        texts.push(format!("{verb}\n{kind}\n{link}\n{ms_date}\n\n"));
        texts.push(format!("{lower}\n{kind}\n{link}\n{ms_date}\n\n"));
        let date = ms_date.to_lowercase();
        texts.push(format!("{verb}\n{kind}\n{link}\n{date}\n\n"));
    }
    texts
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
    let minutes = (now - signed_at).abs() / 60;
    let direction = if now > signed_at {
        "behind"
    } else {
        "ahead of"
    };
    let help = format!(
        "The request is dated {}, {minutes} minutes {direction} the clock of the server: set the \
         clock of the client, or sign each request when it is sent.",
        crate::date::print(signed_at)
    );
    let error = Error::new(
        Kind::Forbidden,
        format!(
            "The authorization token is not valid at the current time. Please create another token \
             and retry (token start time: {}, token expiry time: {}, current server time: {}).",
            crate::date::print(start),
            crate::date::print(expiry),
            crate::date::print(now)
        ),
    );
    Err(error.with_help(help))
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

    /// Returns the refusal of a request to read `dbs/blog` that is signed over `text` with the
    /// bytes `key`, by a server with the keys `keys`.
    fn refusal(keys: &str, key: &[u8], text: &str) -> String {
        let mac = Hmac::<Sha256>::new_from_slice(key).expect("a key");
        let mac = mac.chain_update(text.as_bytes()).finalize().into_bytes();
        Keys::new(keys)
            .expect("a key")
            .verify(
                &signed("GET", "dbs", "dbs/blog"),
                &STANDARD.encode(mac),
                NOW,
            )
            .expect_err("wrong")
            .message()
            .to_owned()
    }

    #[test]
    fn a_wrong_signature_says_which_key_is_expected_and_shows_none() {
        let own = STANDARD.encode([7; 64]);
        let text = format!("get\ndbs\ndbs/blog\n{}\n\n", DATE.to_lowercase());
        let well_known = STANDARD.decode(WELL_KNOWN_KEY).expect("base64");

        let error = refusal(WELL_KNOWN_KEY, &[7; 64], &text);
        assert!(error.contains("accepts the well-known key"), "{error}");
        let error = refusal(&own, &[8; 64], &text);
        assert!(error.contains("a key of its own"), "{error}");
        let error = refusal(&own, &well_known, &text);
        assert!(error.contains("signed with the well-known key"), "{error}");
        let error = refusal(&own, own.as_bytes(), &text);
        assert!(error.contains("decode it from base64"), "{error}");
        let as_sent = format!("GET\ndbs\ndbs/blog\n{DATE}\n\n");
        let error = refusal(&own, &[7; 64], &as_sent);
        assert!(error.contains("in lower case"), "{error}");
        assert!(!error.contains(&own[..20]), "{error}");
    }

    #[test]
    fn a_clock_that_is_wrong_is_told_with_both_times() {
        let good = "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=";
        let error = verify_at("GET", "", "", good, NOW + 3600).expect_err("late");
        let dated = "dated Thu, 27 Apr 2017 00:51:12 GMT, 60 minutes behind the clock";
        assert!(error.message().contains(dated), "{error}");
        let now = "current server time: Thu, 27 Apr 2017 01:51:12 GMT";
        assert!(error.message().contains(now), "{error}");
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
