//! Admin keys, one of which every request must carry, except those for health.
//!
//! A key is a line of at least 16 characters. A server may have several keys, so that an operator
//! can replace one while another remains valid. Only digests of the keys are stored, and digests
//! are compared in constant time, so that the time of a comparison reveals nothing about a key.

use sha2::{Digest, Sha256};
use std::fmt;
use subtle::{Choice, ConstantTimeEq};

/// Minimum number of characters of a key.
const MIN_KEY_LENGTH: usize = 16;

/// The admin keys of a server.
#[derive(Clone)]
pub struct AdminKeys {
    digests: Vec<[u8; 32]>,
}

/// The reason why a text cannot be used as admin keys.
#[derive(Debug, PartialEq, Eq)]
pub enum AdminKeysError {
    /// The text contains no key.
    NoKey,
    /// The key on this line, counted from 1, is too short or contains blanks or characters that
    /// are not printable ASCII.
    InvalidLine(usize),
}

impl fmt::Display for AdminKeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminKeysError::NoKey => f.write_str("it contains no key"),
            AdminKeysError::InvalidLine(line) => {
                write!(
                    f,
                    "line {line} is not a key: a key has at least {MIN_KEY_LENGTH} characters of \
                     printable ASCII without blanks"
                )
            }
        }
    }
}

impl std::error::Error for AdminKeysError {}

impl AdminKeys {
    /// Parses a text with one key on each line; empty lines and lines that begin with `#` are
    /// comments.
    ///
    /// # Errors
    /// A line is not a key, or the text contains no key.
    pub fn parse(text: &str) -> Result<Self, AdminKeysError> {
        let mut digests = Vec::new();
        for (index, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.len() < MIN_KEY_LENGTH || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(AdminKeysError::InvalidLine(index + 1));
            }
            digests.push(digest(line));
        }
        if digests.is_empty() {
            return Err(AdminKeysError::NoKey);
        }
        Ok(AdminKeys { digests })
    }

    /// Returns true if `authorization`, the value of the header, is `Bearer` and one of the keys.
    pub(crate) fn accepts(&self, authorization: Option<&str>) -> bool {
        let Some((scheme, key)) = authorization.and_then(|text| text.split_once(' ')) else {
            return false;
        };
        scheme.eq_ignore_ascii_case("bearer") && self.contains(key.trim())
    }

    /// Returns true if `key` is one of the keys.
    pub(crate) fn contains(&self, key: &str) -> bool {
        // All digests are compared, so that the time does not depend on which key matched.
        let presented = digest(key);
        let mut is_accepted = Choice::from(0);
        for digest in &self.digests {
            is_accepted |= digest.ct_eq(&presented);
        }
        is_accepted.into()
    }
}

/// Returns the SHA-256 digest of a key.
fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef";

    #[test]
    fn every_key_of_the_file_is_accepted_and_nothing_else() {
        let keys = AdminKeys::parse(&format!("# mine\n{KEY}\n\n  another-key-of-mine \n"))
            .expect("two keys");
        assert!(keys.accepts(Some(&format!("Bearer {KEY}"))));
        assert!(keys.accepts(Some("bearer another-key-of-mine")));
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcdeF",
            "# mine",
        ] {
            assert!(!keys.accepts(Some(wrong)), "{wrong}");
        }
        assert!(!keys.accepts(None));
    }

    #[test]
    fn a_text_without_usable_keys_is_refused_with_the_line() {
        assert_eq!(
            AdminKeys::parse("# nothing\n").err(),
            Some(AdminKeysError::NoKey)
        );
        assert_eq!(
            AdminKeys::parse(&format!("{KEY}\nshort\n")).err(),
            Some(AdminKeysError::InvalidLine(2))
        );
        assert_eq!(
            AdminKeys::parse("with blanks in the middle").err(),
            Some(AdminKeysError::InvalidLine(1))
        );
    }
}
