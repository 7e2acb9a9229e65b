//! Client-side encryption: the keys that a database stores for clients, and the policy that names
//! the encrypted paths of a container.
//!
//! The server stores wrapped keys and encrypted values and can decrypt neither. It checks their
//! form and that a policy names existing keys. A policy never changes.

use super::Catalog;
use super::access_resources::checked_members;
use crate::request::properties::member;
use crate::request::{AccessResourceKind, Id};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_model::partition_key::Definition;
use orrery_model::{Error, Json, Object, Result, Rid};

/// The only encryption algorithm of the service's clients.
const ALGORITHM: &str = "AEAD_AES_256_CBC_HMAC_SHA256";
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

fn check_algorithm(value: Option<&Json>) -> Result<()> {
    match value.and_then(Json::as_str) {
        Some(ALGORITHM) => Ok(()),
        _ => Err(Error::bad(format!(
            "The encryptionAlgorithm is invalid; it must be {ALGORITHM}."
        ))),
    }
}

/// The checked `clientEncryptionPolicy` of a container.
#[derive(Clone, Debug)]
pub struct EncryptionPolicy {
    /// The id of the key of each encrypted path.
    pub keys: Vec<String>,
    /// The policy as clients read it.
    pub shown: Json,
}

/// An entry of `includedPaths`.
struct IncludedPath<'a> {
    /// The name of the encrypted property at the top of an item.
    name: &'a str,
    key: &'a str,
    is_deterministic: bool,
}

impl EncryptionPolicy {
    /// Reads the member `clientEncryptionPolicy` of a container body; `None` if it is absent.
    ///
    /// # Errors
    /// 400 that names the path and the rule.
    pub fn from_json(policy: Option<&Json>, partition_key: &Definition) -> Result<Option<Self>> {
        let Some(json) = policy.filter(|policy| !matches!(policy, Json::Null)) else {
            return Ok(None);
        };
        let policy = json
            .as_object()
            .ok_or_else(|| invalid("it must be an object"))?;
        check_members_known(policy, &["includedPaths", "policyFormatVersion"])?;
        let version = match member(policy, "policyFormatVersion").map(Json::as_i64) {
            None => 1,
            Some(Some(version @ (1 | 2))) => version,
            Some(_) => return Err(invalid("the policyFormatVersion must be 1 or 2")),
        };

        let entries = policy.get("includedPaths").and_then(Json::as_array);
        let entries = entries.ok_or_else(|| invalid("includedPaths must be an array"))?;
        // All entries are read before any is compared, so a malformed entry is reported first.
        let paths = entries
            .iter()
            .map(IncludedPath::from_json)
            .collect::<Result<Vec<_>>>()?;
        for (i, path) in paths.iter().enumerate() {
            if paths[..i].iter().any(|other| other.name == path.name) {
                return Err(invalid(format!(
                    "the path '/{}' stands there twice",
                    path.name
                )));
            }
            path.check_id_or_partition_key(version, partition_key)?;
        }

        // A read shows the version even if the client left it out.
        let mut shown = json.clone();
        if let Some(shown) = shown.as_object_mut() {
            shown.set("policyFormatVersion", version);
        }
        let keys = paths.iter().map(|path| path.key.to_owned()).collect();
        Ok(Some(EncryptionPolicy { keys, shown }))
    }
}

impl<'a> IncludedPath<'a> {
    fn from_json(json: &'a Json) -> Result<Self> {
        let path = json
            .as_object()
            .ok_or_else(|| invalid("each of includedPaths must be an object"))?;
        let known = [
            "path",
            "clientEncryptionKeyId",
            "encryptionType",
            "encryptionAlgorithm",
        ];
        check_members_known(path, &known)?;
        let text = |name: &str| match path.get(name).and_then(Json::as_str) {
            Some(text) if !text.is_empty() => Ok(text),
            _ => Err(invalid(format!("a path lacks its '{name}'"))),
        };

        // Clients encrypt whole properties at the top of an item only.
        let full = text("path")?;
        let name = full.strip_prefix('/').unwrap_or_default();
        if name.is_empty() || name.contains('/') {
            return Err(invalid(format!(
                "'{full}' is not the path of a property at the top of an item"
            )));
        }
        check_algorithm(path.get("encryptionAlgorithm"))?;
        let is_deterministic = match text("encryptionType")? {
            "Deterministic" => true,
            "Randomized" => false,
            other => {
                return Err(invalid(format!(
                    "the encryptionType '{other}' is not Deterministic or Randomized"
                )));
            }
        };
        Ok(IncludedPath {
            name,
            key: text("clientEncryptionKeyId")?,
            is_deterministic,
        })
    }

    /// Checks a path of the id or of the partition key. Equal values must have equal ciphertexts,
    /// and only clients with policy version 2 encrypt these properties.
    fn check_id_or_partition_key(&self, version: i64, partition_key: &Definition) -> Result<()> {
        let name = self.name;
        let mut key_paths = partition_key.paths().iter();
        let is_of_key = key_paths.any(|path| path.first().is_some_and(|first| first == name));
        if name != "id" && !is_of_key {
            return Ok(());
        }
        if version != 2 {
            return Err(invalid(format!(
                "the path '/{name}' of an id or partition key needs the policyFormatVersion 2"
            )));
        }
        if !self.is_deterministic {
            return Err(invalid(format!(
                "the path '/{name}' of an id or partition key must be encrypted Deterministic"
            )));
        }
        Ok(())
    }
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

fn check_members_known(object: &Object, known: &[&str]) -> Result<()> {
    for (name, _) in object.iter() {
        if !known.contains(&name) {
            return Err(invalid(format!("the member '{name}' is unknown")));
        }
    }
    Ok(())
}

fn invalid(reason: impl std::fmt::Display) -> Error {
    Error::bad(format!("The clientEncryptionPolicy is invalid: {reason}."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn object(text: &str) -> Object {
        parse(text.as_bytes())
            .expect("JSON")
            .as_object()
            .expect("an object")
            .clone()
    }

    fn path(path: &str, kind: &str) -> String {
        format!(
            r#"{{"path":"{path}","clientEncryptionKeyId":"k","encryptionType":"{kind}","encryptionAlgorithm":"{ALGORITHM}"}}"#
        )
    }

    fn policy(version: i64, paths: &[String]) -> Result<Option<EncryptionPolicy>> {
        let text = format!(
            r#"{{"policyFormatVersion":{version},"includedPaths":[{}]}}"#,
            paths.join(",")
        );
        let key = Definition::from_json(&parse(br#"{"paths":["/pk/deep"]}"#).expect("JSON"))
            .expect("a definition");
        EncryptionPolicy::from_json(Some(&Json::Object(object(&text))), &key)
    }

    #[test]
    fn a_policy_names_its_keys_and_reads_back() {
        let kept = policy(
            1,
            &[
                path("/secret", "Randomized"),
                path("/other", "Deterministic"),
            ],
        );
        let kept = kept.expect("a policy").expect("there is one");
        assert_eq!(kept.keys, ["k", "k"]);
        assert_eq!(
            kept.shown.get("policyFormatVersion").and_then(Json::as_i64),
            Some(1)
        );
        assert!(
            policy(
                2,
                &[path("/id", "Deterministic"), path("/pk", "Deterministic")]
            )
            .is_ok()
        );
    }

    #[test]
    fn an_invalid_policy_is_refused_with_the_name_of_the_rule() {
        for (version, paths, named) in [
            (3, vec![], "1 or 2"),
            (1, vec![path("/a/b", "Randomized")], "'/a/b'"),
            (1, vec![path("a", "Randomized")], "'a'"),
            (1, vec![path("/", "Randomized")], "'/'"),
            (1, vec![path("/a", "Sometimes")], "Sometimes"),
            (
                1,
                vec![path("/a", "Randomized"), path("/a", "Randomized")],
                "twice",
            ),
            (
                1,
                vec![path("/id", "Deterministic")],
                "needs the policyFormatVersion 2",
            ),
            (
                2,
                vec![path("/id", "Randomized")],
                "must be encrypted Deterministic",
            ),
            (
                2,
                vec![path("/pk", "Randomized")],
                "must be encrypted Deterministic",
            ),
            (1, vec![r#"{"path":"/a"}"#.into()], "encryptionAlgorithm"),
            (
                1,
                vec![path("/a", "Randomized").replace("\"k\"", "\"\"")],
                "clientEncryptionKeyId",
            ),
            (
                1,
                vec![path("/a", "Randomized").replace("\"path\"", "\"wheels\":4,\"path\"")],
                "wheels",
            ),
        ] {
            let error = policy(version, &paths)
                .map(|p| p.is_some())
                .expect_err(named);
            assert!(error.message().contains(named), "{error}");
        }
    }

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
