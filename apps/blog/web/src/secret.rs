//! Random secrets, and texts that are derived from them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64URL;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Returns a random secret of `N` bytes in base64url.
pub(crate) fn random<const N: usize>() -> String {
    let mut bytes = [0; N];
    #[expect(
        clippy::disallowed_methods,
        reason = "secrets of browsers must not depend on a seed"
    )]
    let filled = getrandom::fill(&mut bytes);
    assert!(filled.is_ok(), "the operating system has random numbers");
    BASE64URL.encode(bytes)
}

/// Returns true if `text` has the form of a secret of 16 to 64 bytes.
pub(crate) fn is_secret(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (22..=86).contains(&text.len()) && text.bytes().all(is_part)
}

/// Returns the hash under which a secret is stored.
pub(crate) fn stored(secret: &str) -> String {
    BASE64URL.encode(Sha256::digest(secret.as_bytes()))
}

/// Returns the token that forms of the browser with `secret` contain.
pub(crate) fn csrf_token(secret: &str) -> String {
    // A key of any length is accepted, so the error cannot occur; an empty token equals no other.
    match Hmac::<Sha256>::new_from_slice(secret.as_bytes()) {
        Ok(mut mac) => {
            mac.update(b"form");
            BASE64URL.encode(mac.finalize().into_bytes())
        }
        Err(_) => String::new(),
    }
}

/// Compares two texts in a time that does not depend on their contents.
pub(crate) fn are_equal(a: &str, b: &str) -> bool {
    !a.is_empty() && bool::from(a.as_bytes().ct_eq(b.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_their_tokens_are_functions_of_them() {
        let (a, b) = (random::<32>(), random::<32>());
        assert_ne!(a, b);
        assert!(is_secret(&a));
        assert!(!is_secret("short") && !is_secret(&format!("{a}\r\n")));
        assert!(are_equal(&csrf_token(&a), &csrf_token(&a)));
        assert!(!are_equal(&csrf_token(&a), &csrf_token(&b)));
        assert!(!are_equal("", ""));
        assert_ne!(stored(&a), a);
    }
}
