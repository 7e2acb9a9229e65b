//! Admin keys: what a request must bear.
//!
//! A key is a line of text of at least 16 characters; there may be several, so that one can be replaced without an
//! interruption. Kept are their digests, and these are compared, so that no comparison tells how far or how long a
//! guess was right.

use sha2::{Digest, Sha256};
use std::fmt;
use subtle::{Choice, ConstantTimeEq};

/// Characters of a key at least.
const SHORTEST: usize = 16;

/// The keys that open the management API.
#[derive(Clone)]
pub struct AdminKeys {
    digests: Vec<[u8; 32]>,
}

/// Why a text holds no admin keys.
#[derive(Debug, PartialEq, Eq)]
pub enum AdminKeysError {
    /// There is no key in it.
    None,
    /// The key on this line, counted from 1, is too short or holds blanks.
    Unusable(usize),
}

impl fmt::Display for AdminKeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AdminKeysError::None => f.write_str("it holds no key"),
            AdminKeysError::Unusable(line) => {
                write!(
                    f,
                    "line {line} is no key: {SHORTEST} characters or more, printable ASCII, no blanks"
                )
            }
        }
    }
}

impl std::error::Error for AdminKeysError {}

impl AdminKeys {
    /// Reads keys, one a line; empty lines and lines that begin with `#` are remarks.
    ///
    /// # Errors
    /// A line is no key, or there is none.
    pub fn read(text: &str) -> Result<Self, AdminKeysError> {
        let mut digests = Vec::new();
        for (i, line) in text.lines().map(str::trim).enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line.len() < SHORTEST || !line.bytes().all(|b| b.is_ascii_graphic()) {
                return Err(AdminKeysError::Unusable(i + 1));
            }
            digests.push(digest(line));
        }
        if digests.is_empty() {
            Err(AdminKeysError::None)
        } else {
            Ok(AdminKeys { digests })
        }
    }

    /// Whether `authorization`, the header's text, bears one of the keys.
    pub(crate) fn open(&self, authorization: Option<&str>) -> bool {
        let Some((scheme, key)) = authorization.and_then(|text| text.split_once(' ')) else {
            return false;
        };
        if !scheme.eq_ignore_ascii_case("bearer") {
            return false;
        }
        let borne = digest(key.trim());
        let any = self.digests.iter().fold(Choice::from(0), |found, digest| {
            found | digest.ct_eq(&borne)
        });
        any.into()
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789abcdef";

    #[test]
    fn any_key_of_the_file_opens_and_nothing_else() {
        let keys = AdminKeys::read(&format!("# mine\n{KEY}\n\n  another-key-of-mine \n"))
            .expect("two keys");
        assert!(
            keys.open(Some(&format!("Bearer {KEY}")))
                && keys.open(Some("bearer another-key-of-mine"))
        );
        for wrong in [
            "",
            "Bearer",
            "Bearer ",
            "Basic 0123456789abcdef",
            "Bearer 0123456789abcdeF",
            "# mine",
        ] {
            assert!(!keys.open(Some(wrong)), "{wrong}");
        }
        assert!(!keys.open(None));
    }

    #[test]
    fn a_file_that_holds_no_key_says_why() {
        assert_eq!(
            AdminKeys::read("# nothing\n").err(),
            Some(AdminKeysError::None)
        );
        assert_eq!(
            AdminKeys::read(&format!("{KEY}\nshort\n")).err(),
            Some(AdminKeysError::Unusable(2))
        );
        assert_eq!(
            AdminKeys::read("with blanks in the middle").err(),
            Some(AdminKeysError::Unusable(1))
        );
    }
}
