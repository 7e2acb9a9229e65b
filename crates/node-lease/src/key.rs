//! The key that the nodes of an account share, with which they sign what they send each other.
//!
//! The first holder of the lease makes the key, and each holder keeps the key in the row of the
//! lease. So whoever can read the store can sign, and no client can.

use hmac::{Hmac, Mac};
use orrery_model::world::World;
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
    /// Makes a new key.
    pub fn random(world: &dyn World) -> NodesKey {
        let mut bytes = [0; BYTES];
        for part in bytes.chunks_exact_mut(8) {
            part.copy_from_slice(&world.random().to_be_bytes());
        }
        NodesKey(bytes)
    }

    /// Returns the signature of a list of texts, as hexadecimal digits.
    pub fn sign(&self, texts: &[&str]) -> String {
        hex(&self.mac(texts).finalize().into_bytes())
    }

    /// Returns true if `signature` is that of a list of texts. The time of the call says nothing
    /// about the right signature.
    pub fn verify(&self, texts: &[&str], signature: &str) -> bool {
        let Some(signature) = from_hex(signature) else {
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
        hex(&self.0)
    }

    /// Reads the form in the row of the lease.
    pub(crate) fn from_hex(text: &str) -> Option<NodesKey> {
        from_hex(text)?.try_into().ok().map(NodesKey)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
    pairs.map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::world::SeededWorld;

    #[test]
    fn a_signature_holds_for_its_texts_and_its_key_alone() {
        let world = SeededWorld::new(0, 1);
        let (key, other) = (NodesKey::random(&world), NodesKey::random(&world));
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
        let key = NodesKey::random(&SeededWorld::new(0, 2));
        assert_eq!(NodesKey::from_hex(&key.to_hex()), Some(key.clone()));
        assert_eq!(NodesKey::from_hex("00"), None);
        assert_eq!(format!("{key:?}"), "NodesKey");
    }
}
