//! Client-side encryption: the keys that a database stores for clients.
//!
//! The server stores wrapped keys and cannot unwrap them. It checks their form, and that the policy
//! of a new container names existing keys.

use super::Catalog;
use crate::container::encryption::{EncryptionPolicy, check_algorithm, invalid};
use crate::request::properties::checked_members;
use crate::request::{AccessResourceKind, Id};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_model::{Error, Json, Object, Result, Rid};

/// The required members of a key body besides the id.
const KEY_MEMBERS: &[&str] = &[
    "encryptionAlgorithm",
    "wrappedDataEncryptionKey",
    "keyWrapMetadata",
];
/// The required members of `keyWrapMetadata`.
const WRAP_MEMBERS: &[&str] = &["type", "name", "value", "algorithm"];

/// Returns the members of a client encryption key body after checking them.
///
/// # Errors
/// 400.
pub(super) fn checked_key(body: &Object) -> Result<Object> {
    let checked = checked_members(body, "client encryption key", KEY_MEMBERS)?;
    check_algorithm(checked.get("encryptionAlgorithm"))?;

    let wrapped = checked
        .get("wrappedDataEncryptionKey")
        .and_then(Json::as_str);
    let wrapped = wrapped.and_then(|text| STANDARD.decode(text).ok());
    if wrapped.is_none_or(|bytes| bytes.is_empty()) {
        return Err(Error::bad(
            "The wrappedDataEncryptionKey of a client encryption key must be base64 text.",
        ));
    }

    // Clients need every member to unwrap the key, so each must be there, and no other.
    let metadata = checked.get("keyWrapMetadata").and_then(Json::as_object);
    let metadata = metadata.ok_or_else(|| Error::bad("The keyWrapMetadata must be an object."))?;
    for name in WRAP_MEMBERS {
        let text = metadata.get(name).and_then(Json::as_str);
        if text.is_none_or(str::is_empty) {
            return Err(Error::bad(format!(
                "The member '{name}' of the keyWrapMetadata must be text."
            )));
        }
    }
    for (name, _) in metadata.iter() {
        if !WRAP_MEMBERS.contains(&name) {
            return Err(Error::bad(format!(
                "The member '{name}' of the keyWrapMetadata is unknown."
            )));
        }
    }
    Ok(checked)
}

/// Checks that a key body may replace another. A key can be wrapped again, but keeps its id.
///
/// # Errors
/// 400 if the id differs.
pub(super) fn check_key_replaces(old: &Object, new: &Object) -> Result<()> {
    if old.get("id").map(Json::to_text) == new.get("id").map(Json::to_text) {
        return Ok(());
    }
    Err(Error::bad(
        "The id of a client encryption key cannot be changed.",
    ))
}

impl Catalog {
    /// Checks that the policy of a new container names existing keys of its database.
    ///
    /// # Errors
    /// 400 for a key that does not exist.
    pub(super) fn check_encryption_keys(
        &self,
        database: Rid,
        policy: Option<&EncryptionPolicy>,
    ) -> Result<()> {
        for key in policy.iter().flat_map(|policy| &policy.keys) {
            let found =
                self.access_resource(database, AccessResourceKind::EncryptionKey, Id::Name(key));
            if found.is_err() {
                return Err(invalid(format!(
                    "ClientEncryptionKey with id '[{key}]' does not exist"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::encryption::ALGORITHM;
    use crate::container::encryption::tests::object;

    #[test]
    fn a_key_is_checked_and_keeps_its_id() {
        let key = object(&format!(
            r#"{{"id":"k","encryptionAlgorithm":"{ALGORITHM}","wrappedDataEncryptionKey":"AAEC",
                "keyWrapMetadata":{{"type":"t","name":"n","value":"v","algorithm":"RSA-OAEP"}}}}"#
        ));
        let kept = checked_key(&key).expect("a key");
        for (member, value) in [
            ("encryptionAlgorithm", Json::from("ROT13")),
            ("wrappedDataEncryptionKey", Json::from("?")),
            ("wrappedDataEncryptionKey", Json::from("")),
            ("keyWrapMetadata", Json::from("m")),
            (
                "keyWrapMetadata",
                Json::Object(object(r#"{"type":"t","name":"n","value":"v"}"#)),
            ),
            ("wheels", Json::from(4)),
        ] {
            let mut wrong = key.clone();
            wrong.set(member, value);
            assert_eq!(checked_key(&wrong).expect_err(member).status(), 400);
        }
        let mut renamed = kept.clone();
        renamed.set("id", "other");
        assert!(
            check_key_replaces(&kept, &renamed).is_err()
                && check_key_replaces(&kept, &kept).is_ok()
        );
    }
}
