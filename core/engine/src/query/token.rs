//! Continuation tokens of queries.
//!
//! A token holds only positions, so it stays valid after a restart. A checksum detects damaged
//! tokens, tokens of other services, and tokens of another container or list: the resource whose
//! rows are listed is part of the sum.
//!
//! ```text
//! base64url( version·1 crc32(resume place)·4 resume )
//! ```

use crate::errors;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_model::{Error, Result};
use orrery_sql::ResumePoint;

/// Version of the token format.
const VERSION: u8 = 2;

/// Returns the token of a resume point in the rows of `place`: the container, or the bytes that
/// name a list. `limit_kb` is the maximum length that the client allows, in KiB; `shorten` returns
/// a resume point that needs less room, for a token that would be longer.
///
/// # Errors
/// 400 if also the token of the shortened point would be longer.
pub(crate) fn write(
    resume: &ResumePoint,
    place: &[u8],
    limit_kb: Option<usize>,
    shorten: impl FnOnce(&ResumePoint) -> ResumePoint,
) -> Result<String> {
    let token = encode(resume, place);
    let is_too_long = |token: &str| limit_kb.is_some_and(|limit| token.len() > limit * 1024);
    if !is_too_long(&token) {
        return Ok(token);
    }
    let token = encode(&shorten(resume), place);
    match is_too_long(&token) {
        true => Err(Error::bad(
            "The continuation token limit specified is not large enough. Raise \
             x-ms-documentdb-responsecontinuationtokenlimitinkb.",
        )),
        false => Ok(token),
    }
}

fn encode(resume: &ResumePoint, place: &[u8]) -> String {
    let body = resume.encode();
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&checksum(&body, place).to_be_bytes());
    bytes.extend_from_slice(&body);
    URL_SAFE_NO_PAD.encode(bytes)
}

fn checksum(body: &[u8], place: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(body);
    sum.update(place);
    sum.finalize()
}

/// Returns the resume point of a token for the rows of `place`.
///
/// # Errors
/// 400 if the token is invalid, or of another place.
pub(crate) fn read(token: &str, place: &[u8]) -> Result<ResumePoint> {
    let invalid = || Error::bad("Invalid Continuation Token.").with_help(errors::TOKEN_HELP);
    let bytes = URL_SAFE_NO_PAD
        .decode(token.trim())
        .map_err(|_| invalid())?;
    let (head, body) = bytes.split_at_checked(5).ok_or_else(invalid)?;
    let sum = u32::from_be_bytes(head[1..].try_into().map_err(|_| invalid())?);
    if head[0] != VERSION || sum != checksum(body, place) {
        return Err(invalid());
    }
    ResumePoint::decode(body).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_decode_and_changed_tokens_are_refused() {
        let mut resume = ResumePoint::default();
        resume.position = vec![1, 2, 3];
        let token = write(&resume, b"a", Some(1), Clone::clone).expect("a token");
        assert_eq!(read(&token, b"a").expect("a valid token"), resume);
        assert!(read(&token, b"b").is_err(), "the token is of another place");
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(read(&changed, b"a").is_err(), "{changed} was accepted");
        }
        for text in ["", "{}"] {
            let error = read(text, b"a").expect_err("no token");
            // Clients look for these words.
            assert!(error.message().contains("Invalid Continuation Token"));
        }
    }
}
