//! Encryption by clients: the keys that a database keeps for them, and the policy that says what of an item they encrypt.
//!
//! The server sees wrapped keys and encrypted values and can read neither. It checks their form, keeps them, and sees to
//! it that a policy names keys that exist and is never changed.

use super::Catalog;
use super::access_resources::checked_members;
use crate::request::{AccessResourceKind, Id};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orrery_model::partition_key::Definition;
use orrery_model::{Error, Json, Object, Result, Rid};

/// The one algorithm that clients have.
const ALGORITHM: &str = "AEAD_AES_256_CBC_HMAC_SHA256";
const KEY_MEMBERS: &[&str] = &[
    "encryptionAlgorithm",
    "wrappedDataEncryptionKey",
    "keyWrapMetadata",
];
const WRAP_MEMBERS: &[&str] = &["type", "name", "value", "algorithm"];

/// The members that a client encryption key must and may have, checked.
pub(super) fn checked_key(body: &Object) -> Result<Object> {
    let checked = checked_members(body, "client encryption key", KEY_MEMBERS)?;
    algorithm(checked.get("encryptionAlgorithm"))?;
    let wrapped = checked
        .get("wrappedDataEncryptionKey")
        .and_then(Json::as_str);
    if !wrapped.is_some_and(|text| STANDARD.decode(text).is_ok_and(|bytes| !bytes.is_empty())) {
        return Err(Error::bad(
            "The wrappedDataEncryptionKey of a client encryption key must be base64 text.",
        ));
    }
    let metadata = checked.get("keyWrapMetadata").and_then(Json::as_object);
    let metadata = metadata.ok_or_else(|| Error::bad("The keyWrapMetadata must be an object."))?;
    for member in WRAP_MEMBERS {
        if metadata
            .get(member)
            .and_then(Json::as_str)
            .is_none_or(str::is_empty)
        {
            return Err(Error::bad(format!(
                "The member '{member}' of the keyWrapMetadata must be text."
            )));
        }
    }
    if let Some((name, _)) = metadata
        .iter()
        .find(|(name, _)| !WRAP_MEMBERS.contains(name))
    {
        return Err(Error::bad(format!(
            "The member '{name}' of the keyWrapMetadata is unknown."
        )));
    }
    Ok(checked)
}

/// A key is wrapped anew, and stays what it is.
pub(super) fn check_key_replaces(old: &Object, new: &Object) -> Result<()> {
    match old.get("id").map(Json::to_text) == new.get("id").map(Json::to_text) {
        true => Ok(()),
        false => Err(Error::bad(
            "The id of a client encryption key cannot be changed.",
        )),
    }
}

fn algorithm(value: Option<&Json>) -> Result<()> {
    match value.and_then(Json::as_str) {
        Some(ALGORITHM) => Ok(()),
        _ => Err(Error::bad(format!(
            "The encryptionAlgorithm is invalid; it must be {ALGORITHM}."
        ))),
    }
}

/// What of a container's items clients encrypt.
#[derive(Clone, Debug)]
pub struct EncryptionPolicy {
    /// Ids of the keys that it names.
    pub keys: Vec<String>,
    /// As a read shows it.
    pub shown: Json,
}

/// One of `includedPaths`.
struct IncludedPath<'a> {
    name: &'a str,
    key: &'a str,
    deterministic: bool,
}

impl EncryptionPolicy {
    /// Reads the member `clientEncryptionPolicy` of a container body.
    ///
    /// # Errors
    /// 400 that says which path breaks which rule.
    pub fn from_json(policy: Option<&Json>, partition_key: &Definition) -> Result<Option<Self>> {
        let Some(json) = policy.filter(|policy| !matches!(policy, Json::Null)) else {
            return Ok(None);
        };
        let policy = json
            .as_object()
            .ok_or_else(|| bad("it must be an object"))?;
        known_members(policy, &["includedPaths", "policyFormatVersion"])?;
        let version = match policy.get("policyFormatVersion") {
            None | Some(Json::Null) => 1,
            Some(version) => version
                .as_i64()
                .filter(|v| matches!(v, 1 | 2))
                .ok_or_else(|| bad("the policyFormatVersion must be 1 or 2"))?,
        };
        let paths = policy.get("includedPaths").and_then(Json::as_array);
        let paths = paths.ok_or_else(|| bad("includedPaths must be an array"))?;
        let paths = paths
            .iter()
            .map(IncludedPath::from_json)
            .collect::<Result<Vec<_>>>()?;
        for (i, path) in paths.iter().enumerate() {
            if paths[..i].iter().any(|other| other.name == path.name) {
                return Err(bad(format!("the path '/{}' stands there twice", path.name)));
            }
            path.check_key_parts(version, partition_key)?;
        }
        let keys = paths.iter().map(|path| path.key.to_owned()).collect();
        let mut shown = json.clone();
        if let Some(shown) = shown.as_object_mut() {
            shown.set("policyFormatVersion", version);
        }
        Ok(Some(EncryptionPolicy { keys, shown }))
    }
}

impl<'a> IncludedPath<'a> {
    fn from_json(json: &'a Json) -> Result<Self> {
        let path = json
            .as_object()
            .ok_or_else(|| bad("each of includedPaths must be an object"))?;
        known_members(
            path,
            &[
                "path",
                "clientEncryptionKeyId",
                "encryptionType",
                "encryptionAlgorithm",
            ],
        )?;
        let text = |member: &str| {
            let text = path
                .get(member)
                .and_then(Json::as_str)
                .filter(|text| !text.is_empty());
            text.ok_or_else(|| bad(format!("a path lacks its '{member}'")))
        };
        let full = text("path")?;
        let name = full
            .strip_prefix('/')
            .filter(|name| !name.is_empty() && !name.contains('/'));
        let name = name.ok_or_else(|| {
            bad(format!(
                "'{full}' is not the path of a property at the top of an item"
            ))
        })?;
        algorithm(path.get("encryptionAlgorithm"))?;
        let deterministic = match text("encryptionType")? {
            "Deterministic" => true,
            "Randomized" => false,
            other => {
                return Err(bad(format!(
                    "the encryptionType '{other}' is not Deterministic or Randomized"
                )));
            }
        };
        Ok(IncludedPath {
            name,
            key: text("clientEncryptionKeyId")?,
            deterministic,
        })
    }

    /// The id and the partition key must come out the same each time, and only clients of version 2 encrypt them.
    fn check_key_parts(&self, version: i64, partition_key: &Definition) -> Result<()> {
        let is_key = partition_key
            .paths()
            .iter()
            .any(|path| path.first().is_some_and(|first| first == self.name));
        if self.name != "id" && !is_key {
            return Ok(());
        }
        let name = self.name;
        if version != 2 {
            return Err(bad(format!(
                "the path '/{name}' of an id or partition key needs the policyFormatVersion 2"
            )));
        }
        if !self.deterministic {
            return Err(bad(format!(
                "the path '/{name}' of an id or partition key must be encrypted Deterministic"
            )));
        }
        Ok(())
    }
}

impl Catalog {
    /// Checks that a new container's policy names keys of its database.
    ///
    /// # Errors
    /// 400 for one that is not there.
    pub(super) fn check_encryption_keys(
        &self,
        database: Rid,
        policy: Option<&EncryptionPolicy>,
    ) -> Result<()> {
        let mut keys = policy.iter().flat_map(|policy| &policy.keys);
        match keys.find(|key| {
            self.access_resource(database, AccessResourceKind::EncryptionKey, Id::Name(key))
                .is_err()
        }) {
            Some(key) => Err(bad(format!(
                "the client encryption key '{key}' does not exist in the database"
            ))),
            None => Ok(()),
        }
    }
}

fn known_members(object: &Object, known: &[&str]) -> Result<()> {
    match object.iter().find(|(name, _)| !known.contains(name)) {
        Some((name, _)) => Err(bad(format!("the member '{name}' is unknown"))),
        None => Ok(()),
    }
}

fn bad(what: impl std::fmt::Display) -> Error {
    Error::bad(format!("The clientEncryptionPolicy is invalid: {what}."))
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
    fn a_policy_that_breaks_a_rule_is_refused_by_the_rule() {
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
