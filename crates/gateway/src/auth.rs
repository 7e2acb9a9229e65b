//! Who may do what: master keys and the signatures made with them.
//!
//! A request is signed over its verb, the type and link of its resource and its date. We compute what each key would
//! have signed and compare in constant time; the date must then lie within a window around now.
//!
//! Left out: resource tokens and directory identities. Both are refused by name.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use orrery_model::{Error, Kind, Result};
use sha2::Sha256;
use std::fmt;
use subtle::ConstantTimeEq;

/// What a caller may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Full,
    ReadOnly,
}

/// The keys of the account.
#[derive(Clone)]
pub struct Keys {
    keys: Vec<(Hmac<Sha256>, Access)>,
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
        Keys { keys: Vec::new() }.and(primary, Access::Full)
    }

    /// A further key that may do everything.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn and_full(self, key: &str) -> std::result::Result<Self, KeysError> {
        self.and(key, Access::Full)
    }

    /// A further key that may only read.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn and_read_only(self, key: &str) -> std::result::Result<Self, KeysError> {
        self.and(key, Access::ReadOnly)
    }

    fn and(mut self, key: &str, access: Access) -> std::result::Result<Self, KeysError> {
        let bytes = STANDARD.decode(key.trim()).ok().filter(|b| b.len() >= 16).ok_or(KeysError)?;
        self.keys.push((Hmac::new_from_slice(&bytes).map_err(|_| KeysError)?, access));
        Ok(self)
    }
}

/// What of a request takes part in its signature.
pub(crate) struct Signed<'a> {
    /// The HTTP method.
    pub(crate) verb: &'a str,
    /// The resource type, such as `docs`.
    pub(crate) resource_type: &'a str,
    /// The links that the client may have signed, the likeliest first.
    pub(crate) links: Vec<String>,
    /// `authorization`
    pub(crate) authorization: Option<&'a str>,
    /// `x-ms-date`
    pub(crate) ms_date: Option<&'a str>,
    /// `Date`
    pub(crate) date: Option<&'a str>,
}

/// Seconds that a signature lives before and after its date, and the skew of clocks on top of the latter.
const WINDOW_SECONDS: i64 = 900;
const SKEW_SECONDS: i64 = 900;
/// Bytes of a decoded master authorization.
const MASTER_BYTES: usize = 1024;
/// Bytes of an authorization of any type.
const ANY_BYTES: usize = 16 * 1024;

impl Keys {
    /// Checks a signature at `now` (seconds since 1970).
    ///
    /// # Errors
    /// 401 for a missing, malformed or wrong signature, 403 for a date outside the window.
    pub(crate) fn verify(&self, request: &Signed<'_>, now: i64) -> Result<Access> {
        let header = request.authorization.map(str::trim).filter(|h| !h.is_empty()).ok_or_else(|| {
            Error::new(
                Kind::AuthorizationMissing,
                "Required Header authorization is missing. Ensure a valid Authorization token is passed.",
            )
        })?;
        let signature = master_signature(header)?;
        let date = request.ms_date.filter(|d| !d.is_empty()).or(request.date).ok_or_else(|| {
            Error::new(Kind::Unauthorized, "The request has no date: send the header x-ms-date in RFC 1123 form.")
        })?;
        let access = self.matching(request, &signature).ok_or_else(|| wrong_signature(request))?;
        check_window(date, now)?;
        Ok(access)
    }

    fn matching(&self, request: &Signed<'_>, signature: &str) -> Option<Access> {
        let payloads = payloads(request);
        self.keys.iter().find_map(|(key, access)| {
            payloads
                .iter()
                .any(|payload| {
                    let mac = key.clone().chain_update(payload.as_bytes()).finalize().into_bytes();
                    STANDARD.encode(mac).as_bytes().ct_eq(signature.as_bytes()).into()
                })
                .then_some(*access)
        })
    }
}

/// Every text that the client may have signed. The last line is the `Date` header only if there is no `x-ms-date`;
/// one client adds it always, so both are tried.
fn payloads(request: &Signed<'_>) -> Vec<String> {
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

fn payload(request: &Signed<'_>, link: &str, ms_date: &str, date: &str) -> String {
    let verb = request.verb.to_ascii_lowercase();
    format!("{verb}\n{}\n{link}\n{}\n{}\n", request.resource_type, ms_date.to_lowercase(), date.to_lowercase())
}

/// The signature in an authorization header: `type=master&ver=1.0&sig=…`, percent-encoded or not.
///
/// Only `%XX` is decoded: form decoding would turn the `+` of base64 into a blank, and some clients do that for us.
fn master_signature(header: &str) -> Result<String> {
    let malformed = || {
        Error::new(
            Kind::AuthorizationMalformed,
            "The authorization header does not have the form 'type={typeoftoken}&ver={tokenversion}&sig={hash}'.",
        )
    };
    if header.len() > ANY_BYTES {
        return Err(malformed());
    }
    let decoded = percent_encoding::percent_decode_str(header).decode_utf8().map_err(|_| malformed())?;
    let mut parts = decoded.splitn(3, '&').map(|part| part.split_once('=').unwrap_or((part, "")));
    let mut value = |name: &str| {
        parts.next().filter(|(n, _)| n.trim().eq_ignore_ascii_case(name)).map(|(_, v)| v).ok_or_else(malformed)
    };
    let (kind, version, signature) = (value("type")?, value("ver")?, value("sig")?);
    if version != "1.0" {
        return Err(unauthorized(format!("The authorization version '{version}' is unknown; it must be 1.0.")));
    }
    match kind.to_ascii_lowercase().as_str() {
        "master" if decoded.len() > MASTER_BYTES => Err(malformed()),
        "master" => {
            let signature = signature.split(',').next().unwrap_or_default().trim().replace(' ', "+");
            if signature.is_empty() { Err(malformed()) } else { Ok(signature) }
        }
        "resource" => Err(unauthorized("Resource tokens (type=resource) are not supported by this server.".into())),
        "aad" => Err(unauthorized("Directory identities (type=aad) are not supported by this server.".into())),
        "sas" => Err(unauthorized("Shared access signatures (type=sas) are not supported by this server.".into())),
        _ => Err(unauthorized(format!("The authorization type '{kind}' is unknown; it must be master."))),
    }
}

fn unauthorized(told: String) -> Error {
    Error::new(Kind::Unauthorized, told)
}

fn wrong_signature(request: &Signed<'_>) -> Error {
    let date = if request.ms_date.is_none_or(str::is_empty) { request.date } else { None };
    let link = request.links.first().map(String::as_str).unwrap_or_default();
    let text = payload(request, link, request.ms_date.unwrap_or_default(), date.unwrap_or_default());
    unauthorized(format!(
        "The input authorization token can't serve the request. The wrong key is being used or the expected payload is \
         not built as per the protocol. For more info: https://aka.ms/cosmosdb-tsg-unauthorized. Server used the \
         following payload to sign: '{}'",
        text.replace('\n', "\\n")
    ))
}

fn check_window(date: &str, now: i64) -> Result<()> {
    let signed_at = crate::date::parse(date)
        .ok_or_else(|| unauthorized(format!("The date '{date}' of the request is not in RFC 1123 form.")))?;
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

    fn verify_at(verb: &str, kind: &str, link: &str, authorization: Option<&str>, now: i64) -> Result<Access> {
        let request = Signed {
            verb,
            resource_type: kind,
            links: vec![link.to_owned()],
            authorization,
            ms_date: Some(DATE),
            date: None,
        };
        Keys::new(WELL_KNOWN_KEY).expect("a key").verify(&request, now)
    }

    fn header(signature: &str) -> String {
        format!("type=master&ver=1.0&sig={signature}")
    }

    #[test]
    fn published_signatures_are_accepted() {
        for (verb, kind, link, signature) in [
            ("GET", "", "", "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc="),
            ("POST", "dbs", "", "CHjhNtQltyEuPdWLf2/f+hSkSlYg+7UuFlwMyv8L7mI="),
            ("GET", "dbs", "dbs/blog", "5eRDPOzrfTc/sMFo1/syR2b/i956iQcTIM93P6GRHAI="),
            ("POST", "colls", "dbs/blog", "0uF3JRbdbzYa9bS+xfRbTj4eSZGXKIb17vmE3ORe/rQ="),
            ("POST", "docs", "dbs/blog/colls/posts", "md9cVDFYdxfs/Bcz9bGzy1M+iNX44fo9EoiHmJWb8H8="),
            ("GET", "docs", "dbs/blog/colls/posts/docs/p1", "ARkX7fC3jjnNdOtq3lkxRceA11gnXRoKfTFJsscv9bE="),
            ("GET", "pkranges", "dbs/blog/colls/posts", "LVR8aALep1UJ/jGti5BQLMSaUWLHB7ttFGnd9GB0GAk="),
            ("PUT", "offers", "ab1d", "ccbSFO7yngXIeNfkAF0DwqHvyV1SPvb5qSgTOmf+oEQ="),
        ] {
            let plain = header(signature);
            let upper = plain.replace('=', "%3D").replace('&', "%26").replace('+', "%2B").replace('/', "%2F");
            let lower = plain.replace('=', "%3d").replace('&', "%26").replace('+', "%2b").replace('/', "%2f");
            let formed = plain.replace('+', " ");
            for form in [plain, upper, lower, formed] {
                let access = verify_at(verb, kind, link, Some(&form), NOW).expect(&form);
                assert_eq!(access, Access::Full);
            }
        }
    }

    #[test]
    fn the_documented_signature_is_accepted() {
        let key = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==";
        let request = Signed {
            verb: "GET",
            resource_type: "dbs",
            links: vec!["dbs/ToDoList".into()],
            authorization: Some("type%3dmaster%26ver%3d1.0%26sig%3dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2bc%2bc%3d"),
            ms_date: Some(DATE),
            date: None,
        };
        let keys = Keys::new(WELL_KNOWN_KEY).and_then(|keys| keys.and_read_only(key)).expect("keys");
        assert_eq!(keys.verify(&request, NOW).expect("it fits"), Access::ReadOnly);
    }

    #[test]
    fn a_wrong_signature_is_answered_with_what_the_server_signed() {
        let error = verify_at("GET", "dbs", "dbs/blog", Some(&header("AAAA")), NOW).expect_err("wrong");
        assert_eq!((error.status(), error.sub_status()), (401, 0));
        assert!(error.told().contains(r"'get\ndbs\ndbs/blog\nthu, 27 apr 2017 00:51:12 gmt\n\n'"), "{error}");
    }

    #[test]
    fn missing_and_malformed_headers_have_their_own_sub_status() {
        let sub = |header: Option<&str>| {
            let error = verify_at("GET", "", "", header, NOW).expect_err("refused");
            (error.status(), error.sub_status())
        };
        assert_eq!(sub(None), (401, 5000));
        assert_eq!(sub(Some("")), (401, 5000));
        assert_eq!(sub(Some("Bearer abc")), (401, 5001));
        assert_eq!(sub(Some("type=master&ver=1.0")), (401, 5001));
        assert_eq!(sub(Some("type=master&ver=1.0&sig=")), (401, 5001));
        assert_eq!(sub(Some(&header(&"A".repeat(1025)))), (401, 5001));
        assert_eq!(sub(Some("type=master&ver=2.0&sig=AAAA")), (401, 0));
        assert_eq!(sub(Some("type=aad&ver=1.0&sig=a.b.c")), (401, 0));
        assert_eq!(sub(Some("type=resource&ver=1.0&sig=a==;b;")), (401, 0));
    }

    #[test]
    fn a_signature_lives_from_a_quarter_before_to_half_an_hour_after_its_date() {
        let good = header("gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc=");
        let at = |offset| verify_at("GET", "", "", Some(&good), NOW + offset).map_err(|e| e.status());
        assert_eq!(at(-900), Ok(Access::Full));
        assert_eq!(at(1800), Ok(Access::Full));
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
