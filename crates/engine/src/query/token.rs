//! Continuation tokens of queries.
//!
//! A token holds only positions, so it stays valid after a restart. A checksum detects damaged
//! tokens and tokens of other services.
//!
//! ```text
//! base64url( version·1 crc32·4 resume )
//! ```

use crate::errors;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_model::{Error, Result};
use orrery_sql::ResumePoint;

/// Version of the token format.
const VERSION: u8 = 1;

/// Returns the token of a resume point. `limit_kb` is the maximum length that the client allows, in
/// KiB.
///
/// # Errors
/// 400 if the token would be longer.
pub(crate) fn write(resume: &ResumePoint, limit_kb: Option<usize>) -> Result<String> {
    let body = resume.encode();
    let mut bytes = vec![VERSION];
    bytes.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
    bytes.extend_from_slice(&body);
    let token = URL_SAFE_NO_PAD.encode(bytes);
    match limit_kb {
        Some(limit) if token.len() > limit * 1024 => Err(Error::bad(
            "The continuation token limit specified is not large enough. Raise \
             x-ms-documentdb-responsecontinuationtokenlimitinkb.",
        )),
        _ => Ok(token),
    }
}

/// Returns the resume point of a token.
///
/// # Errors
/// 400 if the token is invalid.
pub(crate) fn read(token: &str) -> Result<ResumePoint> {
    let invalid = || Error::bad("Invalid Continuation Token.").with_help(errors::TOKEN_HELP);
    let bytes = URL_SAFE_NO_PAD
        .decode(token.trim())
        .map_err(|_| invalid())?;
    let (head, body) = bytes.split_at_checked(5).ok_or_else(invalid)?;
    let checksum = u32::from_be_bytes(head[1..].try_into().map_err(|_| invalid())?);
    if head[0] != VERSION || checksum != crc32fast::hash(body) {
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
        let token = write(&resume, Some(1)).expect("a token");
        assert_eq!(read(&token).expect("a valid token"), resume);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(read(&changed).is_err(), "{changed} was accepted");
        }
        for text in ["", "{}"] {
            let error = read(text).expect_err("no token");
            // Clients look for these words.
            assert!(error.message().contains("Invalid Continuation Token"));
        }
    }
}
