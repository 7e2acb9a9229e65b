//! Addresses of logical partitions: the EPK of a partition key, and the key itself if other keys
//! have the same EPK.
//!
//! Version 1 hashes the first 100 characters of a string only, so all long strings with the same
//! beginning have one EPK. Their items share a size limit, unique values and ids, as in the
//! service, but an item belongs to its own key: requests for another key do not see it.
//!
//! Promises: two keys have equal addresses exactly if they name the same items.
//!
//! Leaves out: keys with one 128-bit hash, under version 2 and `MultiHash`. The hash is taken for
//! the key.

use super::{Component, Definition, Epk, Hashing, PartitionKey, component_at, murmur3_128};
use crate::json::{Json, parse};

/// The length in bytes from which on strings may share an EPK of version 1. The EPK contains a
/// shorter string as a whole.
const SHARED_BYTES_MIN: usize = 100;

/// A hash of a partition key.
pub type KeyDigest = [u8; 16];

/// The address of a logical partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAddress {
    epk: Epk,
    /// The key, if other keys may have the same EPK.
    exact: Option<Box<ExactKey>>,
}

/// A key that is not known by its EPK alone.
#[derive(Clone, Debug, PartialEq)]
struct ExactKey {
    definition: Definition,
    key: PartitionKey,
}

// Components are compared bit by bit, so the comparison is reflexive.
impl Eq for ExactKey {}

impl KeyAddress {
    /// Returns the EPK.
    pub fn epk(&self) -> &Epk {
        &self.epk
    }

    /// Returns the digest of the key, or `None` if no other key has the EPK.
    pub fn digest(&self) -> Option<KeyDigest> {
        self.exact.as_ref().map(|exact| digest(&exact.key))
    }

    /// Returns true if the text of an item with this EPK is an item of the key.
    pub fn has(&self, epk: &Epk, item: &[u8]) -> bool {
        if *epk != self.epk {
            return false;
        }
        match &self.exact {
            Some(exact) => key_of(&exact.definition, item).is_some_and(|key| key == exact.key),
            None => true,
        }
    }
}

impl Definition {
    /// Returns the address of the logical partition of `key`.
    pub fn address(&self, key: &PartitionKey) -> KeyAddress {
        let exact = self.shares_epk(key).then(|| {
            Box::new(ExactKey {
                definition: self.clone(),
                key: key.clone(),
            })
        });
        KeyAddress {
            epk: self.epk(key),
            exact,
        }
    }

    /// Returns true if two keys name the same logical partition.
    pub fn is_same_key(&self, a: &PartitionKey, b: &PartitionKey) -> bool {
        self.epk(a) == self.epk(b) && (!self.shares_epk(a) || a == b)
    }

    /// Returns the digest of the partition key of an item, or `None` for a text that is no item.
    pub fn digest_of_item(&self, item: &[u8]) -> Option<KeyDigest> {
        key_of(self, item).map(|key| digest(&key))
    }

    /// Returns true if other keys may have the EPK of `key`.
    fn shares_epk(&self, key: &PartitionKey) -> bool {
        let is_long =
            |part: &Component| matches!(part, Component::String(s) if s.len() >= SHARED_BYTES_MIN);
        self.hashing == Hashing::V1 && key.components.iter().any(is_long)
    }
}

/// Returns the partition key of the text of an item, however long its components are.
fn key_of(definition: &Definition, item: &[u8]) -> Option<PartitionKey> {
    let Ok(Json::Object(item)) = parse(item) else {
        return None;
    };
    let paths = definition.paths.iter();
    let components = paths.map(|path| component_at(&item, path)).collect();
    Some(PartitionKey { components })
}

fn digest(key: &PartitionKey) -> KeyDigest {
    murmur3_128(key.to_json().to_text().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(version: u8) -> Definition {
        let text = format!(r#"{{"paths":["/pk"],"kind":"Hash","version":{version}}}"#);
        Definition::from_json(&parse(text.as_bytes()).expect("JSON")).expect("a definition")
    }

    fn key(text: &str) -> PartitionKey {
        PartitionKey::new(vec![Component::String(text.to_owned())])
    }

    fn item(pk: &str) -> Vec<u8> {
        format!(r#"{{"id":"1","pk":"{pk}"}}"#).into_bytes()
    }

    #[test]
    fn keys_with_one_epk_of_version_1_have_different_addresses() {
        let definition = definition(1);
        let beginning = "x".repeat(100);
        let texts = [
            beginning.clone(),
            format!("{beginning}one"),
            format!("{beginning}two"),
        ];
        for a in &texts {
            let address = definition.address(&key(a));
            assert_eq!(definition.epk(&key(a)), definition.epk(&key(&beginning)));
            for b in &texts {
                let is_same = a == b;
                assert_eq!(definition.is_same_key(&key(a), &key(b)), is_same);
                assert_eq!(address == definition.address(&key(b)), is_same);
                assert_eq!(address.has(address.epk(), &item(b)), is_same);
                let digest = definition.digest_of_item(&item(b));
                assert_eq!(address.digest() == digest, is_same);
            }
            assert!(!address.has(&Epk::min(), &item(a)));
            assert!(!address.has(address.epk(), b"no item"));
        }
    }

    #[test]
    fn a_key_that_its_epk_contains_needs_no_comparison_with_items() {
        let short = "x".repeat(SHARED_BYTES_MIN - 1);
        let long = "x".repeat(SHARED_BYTES_MIN);
        for (version, text, is_shared) in [(1, &short, false), (1, &long, true), (2, &long, false)]
        {
            let address = definition(version).address(&key(text));
            assert_eq!(address.digest().is_some(), is_shared, "{version} {text}");
        }
        // The EPKs of all shorter strings differ from those of the longer ones.
        let definition = definition(1);
        assert_ne!(definition.epk(&key(&short)), definition.epk(&key(&long)));
    }

    #[test]
    fn the_first_100_bytes_of_a_string_in_other_letters_do_not_decide() {
        // 50 letters of two bytes and 60: the same first 101 bytes, and other hashes.
        let (a, b) = ("é".repeat(51), "é".repeat(60));
        let definition = definition(1);
        assert!(!definition.is_same_key(&key(&a), &key(&b)));
        assert!(definition.is_same_key(&key(&a), &key(&a)));
    }

    #[test]
    fn the_keys_of_items_without_a_key_are_the_same() {
        let definition = Definition::system_key();
        let empty = PartitionKey::new(Vec::new());
        let undefined = PartitionKey::new(vec![Component::Undefined]);
        assert!(definition.is_same_key(&empty, &undefined));
    }
}
