//! Client-side encryption: the policy that names the encrypted paths of a container.
//!
//! The server stores encrypted values and cannot decrypt them. It checks the form of the policy,
//! which never changes; the catalog checks that the keys exist.

use crate::request::properties::member;
use orrery_model::partition_key::Definition;
use orrery_model::{Error, Json, Object, Result};

/// The only encryption algorithm of the service's clients.
pub(crate) const ALGORITHM: &str = "AEAD_AES_256_CBC_HMAC_SHA256";
pub(crate) fn check_algorithm(value: Option<&Json>) -> Result<()> {
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

fn check_members_known(object: &Object, known: &[&str]) -> Result<()> {
    for (name, _) in object.iter() {
        if !known.contains(&name) {
            return Err(invalid(format!("the member '{name}' is unknown")));
        }
    }
    Ok(())
}

pub(crate) fn invalid(reason: impl std::fmt::Display) -> Error {
    Error::bad(format!("The clientEncryptionPolicy is invalid: {reason}."))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use orrery_model::json::parse;

    /// Parses a JSON object.
    pub(crate) fn object(text: &str) -> Object {
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
}
