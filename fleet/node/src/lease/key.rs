//! The key that the nodes of an account share, with which they sign what they send each other.
//!
//! The first leaseholder makes the key, and each leaseholder keeps the key in the row of the
//! lease. So every program that can read the store can sign, and no client can.

use hmac::{Hmac, KeyInit, Mac};
use orrery_model::hex;
use sha2::Sha256;
use std::fmt;

/// The bytes of a key.
const BYTES: usize = 32;

/// The nodes' own key.
#[derive(Clone, PartialEq, Eq)]
pub struct NodesKey([u8; BYTES]);

impl fmt::Debug for NodesKey {
    /// Writes no byte of the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodesKey")
    }
}

impl NodesKey {
    /// Makes a new key from the randomness of the system. Numbers of a `World` would not do: its
    /// other numbers are in the activity ids of answers, and tell the ones before.
    ///
    /// # Errors
    /// The system has no random numbers; the text says why.
    #[expect(
        clippy::disallowed_methods,
        reason = "a key needs the randomness of the system"
    )]
    pub fn random() -> Result<NodesKey, String> {
        let mut bytes = [0; BYTES];
        getrandom::fill(&mut bytes).map_err(|error| error.to_string())?;
        Ok(NodesKey(bytes))
    }

    /// Returns the signature of a list of texts, as hexadecimal digits.
    pub fn sign(&self, texts: &[&str]) -> String {
        hex::encode(&self.mac(texts).finalize().into_bytes())
    }

    /// Returns true if `signature` is that of a list of texts. The time of the call says nothing
    /// about the right signature.
    pub fn verify(&self, texts: &[&str], signature: &str) -> bool {
        let Some(signature) = hex::decode(signature) else {
            return false;
        };
        self.mac(texts).verify_slice(&signature).is_ok()
    }

    fn mac(&self, texts: &[&str]) -> Hmac<Sha256> {
        let mut mac = Hmac::new_from_slice(&self.0).expect("a key of any length is accepted");
        for text in texts {
            // With its length, no text can take over the beginning of the next one.
            mac.update(&(text.len() as u64).to_be_bytes());
            mac.update(text.as_bytes());
        }
        mac
    }

    /// Returns the form in the row of the lease.
    pub(crate) fn to_hex(&self) -> String {
        hex::encode(&self.0)
    }

    /// Reads the form in the row of the lease.
    pub(crate) fn from_hex(text: &str) -> Option<NodesKey> {
        hex::decode(text)?.try_into().ok().map(NodesKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_texts_and_its_key_alone() {
        let (key, other) = (NodesKey([1; BYTES]), NodesKey([2; BYTES]));
        let signature = key.sign(&["GET", "/dbs"]);
        assert!(key.verify(&["GET", "/dbs"], &signature));
        for texts in [
            &["GET", "/db", "s"][..],
            &["GET/", "dbs"],
            &["GET", "/dbs", ""],
        ] {
            assert!(!key.verify(texts, &signature), "{texts:?}");
        }
        assert!(!other.verify(&["GET", "/dbs"], &signature));
        for wrong in ["", "0", "zz", &signature[2..], "é"] {
            assert!(!key.verify(&["GET", "/dbs"], wrong), "{wrong}");
        }
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_never_shown() {
        let key = NodesKey::random().expect("random numbers");
        assert_ne!(NodesKey::random().expect("random numbers"), key);
        assert_eq!(NodesKey::from_hex(&key.to_hex()), Some(key.clone()));
        assert_eq!(NodesKey::from_hex("00"), None);
        assert_eq!(format!("{key:?}"), "NodesKey");
    }
}
