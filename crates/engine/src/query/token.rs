//! Continuation tokens of queries: positions only, so they outlive a restart; checked, so that a damaged or foreign one
//! is refused.
//!
//! ```text
//! base64url( version·1 crc32·4 resume )
//! ```

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use orrery_model::{Error, Result};
use orrery_sql::ResumePoint;

const VERSION: u8 = 1;

/// The token of a place.
///
/// # Errors
/// 400 if it is longer than the client allows.
pub fn write(resume: &ResumePoint, limit_kb: Option<usize>) -> Result<String> {
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

/// The place that a token names.
///
/// # Errors
/// 400.
pub fn read(token: &str) -> Result<ResumePoint> {
    let invalid = || Error::bad("The continuation token is invalid.");
    let bytes = URL_SAFE_NO_PAD
        .decode(token.trim())
        .map_err(|_| invalid())?;
    let (head, body) = bytes.split_at_checked(5).ok_or_else(invalid)?;
    let sum = u32::from_be_bytes(head[1..].try_into().map_err(|_| invalid())?);
    if head[0] != VERSION || sum != crc32fast::hash(body) {
        return Err(invalid());
    }
    ResumePoint::decode(body).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_read_back_and_a_changed_one_is_refused() {
        let mut resume = ResumePoint::default();
        resume.position = vec![1, 2, 3];
        let token = write(&resume, Some(1)).expect("a token");
        assert_eq!(read(&token).expect("our token"), resume);
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(read(&changed).is_err(), "{changed} was accepted");
        }
        assert!(read("").is_err() && read("{}").is_err());
    }
}
