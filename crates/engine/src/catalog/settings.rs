//! What a container body may say: one table of its members, checked at creation and at replace.

use super::encryption::EncryptionPolicy;
use super::search::Search;
use crate::errors::query_error;
use crate::index::policy::Policy;
use crate::request::properties::{self, Property, server_set, stored, unsupported};

use orrery_model::partition_key::{Component, Definition, PartitionKey};
use orrery_model::{Error, Json, Object, Result, object};
use orrery_sql::{Environment, Query};
use std::sync::Arc;

/// The checked body of a container.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How items are partitioned.
    pub partition_key: Definition,
    /// What is indexed.
    pub policy: Arc<Policy>,
    /// `defaultTtl`: seconds that items live; -1 switches expiry on without a default.
    pub default_ttl: Option<i32>,
    /// Each a list of paths, whose values together are unique in a logical partition.
    pub unique_keys: Vec<Vec<Vec<String>>>,
    /// Name and query of each computed property.
    pub computed_properties: Vec<(String, String)>,
    /// Spatial values, vectors and texts.
    pub search: Search,
    /// Seconds for which every version of an item is kept; `None` if only the latest is.
    pub retention_seconds: Option<u64>,
    /// What clients encrypt.
    pub encryption: Option<EncryptionPolicy>,
    /// The body as a read shows it, without system properties.
    pub body: Object,
}

/// Limits of the service on unique keys.
const UNIQUE_KEYS: usize = 10;
const UNIQUE_KEY_PATHS: usize = 16;
/// Minutes for which versions can be kept at most: thirty days, as long as the service keeps them in any account.
const RETENTION_MINUTES: u32 = 43_200;
/// Limit of the service on computed properties.
const COMPUTED_PROPERTIES: usize = 20;

/// What the body of a container may say.
const PROPERTIES: &[Property] = &[
    stored("id", "kept; cannot be changed"),
    stored(
        "partitionKey",
        "kept: one path of kind `Hash`, version 1 or 2 (absent means 1), or one to three of kind `MultiHash`, version 2; cannot be changed; absent gives the system key",
    ),
    stored(
        "indexingPolicy",
        "kept and completed: `/\"_etag\"/?` is excluded unless named; composite indexes have 2 to 8 paths, 100 in all",
    ),
    stored("defaultTtl", "kept: -1 or 1 to 2,147,483,647 seconds"),
    stored(
        "uniqueKeyPolicy",
        "kept: up to 10 keys of up to 16 paths; cannot be changed",
    ),
    stored(
        "computedProperties",
        "kept: up to 20, compiled when they are set",
    ),
    stored(
        "conflictResolutionPolicy",
        "kept if the mode is `LastWriterWins`, without effect in one region; `Custom` is refused by name",
    ),
    stored(
        "geospatialConfig",
        "kept: type `Geography`, which is also the default, or `Geometry`",
    ),
    stored(
        "changeFeedPolicy",
        "kept: `retentionDuration` of 0 to 43,200 minutes, for which every version of an item is kept; 0 keeps only the latest",
    ),
    stored(
        "vectorEmbeddingPolicy",
        "kept: up to 4,096 dimensions of float32, float16, int8 or uint8, compared by cosine, dotproduct or euclidean; what is said of a path cannot be changed",
    ),
    stored(
        "fullTextPolicy",
        "kept: languages en-US, de-DE, es-ES, fr-FR, it-IT, pt-BR, pt-PT",
    ),
    stored(
        "clientEncryptionPolicy",
        "kept and checked: what clients encrypt, and with which key; cannot be changed",
    ),
    unsupported("analyticalStorageTtl", "refused by name"),
    unsupported("materializedViewDefinition", "refused by name"),
    unsupported("globalSecondaryIndexDefinition", "refused by name"),
    unsupported("dataMaskingPolicy", "refused by name"),
    unsupported("schemaPolicy", "refused by name"),
    server_set(
        "statistics",
        "the server's own: accepted, since clients send back what they read, and not kept",
    ),
    server_set(
        "documentsLink",
        "the server's own: accepted, since clients send back what they read, and not kept",
    ),
    server_set(
        "ownerResourceId",
        "the server's own: accepted, since clients send back what they read, and not kept",
    ),
];

impl Settings {
    /// Reads and completes a container body.
    ///
    /// # Errors
    /// 400 that names the member.
    pub fn from_body(body: &Object) -> Result<Settings> {
        properties::check("container", body, PROPERTIES, None)?;
        let id = super::resource_id(body)?;
        let partition_key = match body.get("partitionKey") {
            None | Some(Json::Null) => Definition::system_key(),
            Some(definition) => Definition::from_json(definition)?,
        };
        let policy = Policy::from_json(body.get("indexingPolicy"))?;
        let default_ttl = match body.get("defaultTtl") {
            None | Some(Json::Null) => None,
            Some(ttl) => Some(read_ttl(ttl).ok_or_else(|| Error::bad(TTL_INVALID))?),
        };
        let unique_keys = read_unique_keys(body.get("uniqueKeyPolicy"))?;
        let computed_properties = read_computed(body.get("computedProperties"))?;
        let conflicts = conflict_policy(body.get("conflictResolutionPolicy"))?;
        let mut shown = object! {
            "id" => id,
            "indexingPolicy" => policy.to_json(),
            "partitionKey" => partition_key.to_json(),
            "uniqueKeyPolicy" => body.get("uniqueKeyPolicy").filter(|p| !matches!(p, Json::Null)).cloned()
                .unwrap_or_else(|| Json::Object(object! { "uniqueKeys" => Vec::new() })),
            "conflictResolutionPolicy" => conflicts,
        };
        let search = Search::from_body(body, &policy, &mut shown)?;
        let encryption =
            EncryptionPolicy::from_json(body.get("clientEncryptionPolicy"), &partition_key)?;
        if let Some(encryption) = &encryption {
            shown.push_new("clientEncryptionPolicy", encryption.shown.clone());
        }
        if let Some(ttl) = default_ttl {
            shown.push_new("defaultTtl", ttl);
        }
        let retention_minutes = read_retention(body.get("changeFeedPolicy"))?;
        if let Some(minutes) = retention_minutes {
            shown.push_new(
                "changeFeedPolicy",
                Json::Object(object! { "retentionDuration" => minutes }),
            );
        }
        let retention_seconds = retention_minutes
            .filter(|minutes| *minutes > 0)
            .map(|minutes| u64::from(minutes) * 60);
        if !computed_properties.is_empty() {
            shown.push_new(
                "computedProperties",
                body.get("computedProperties")
                    .cloned()
                    .unwrap_or(Json::Null),
            );
        }
        let policy = Arc::new(policy);
        Ok(Settings {
            partition_key,
            policy,
            default_ttl,
            unique_keys,
            computed_properties,
            search,
            retention_seconds,
            encryption,
            body: shown,
        })
    }

    /// Checks that these settings may replace `old`.
    ///
    /// # Errors
    /// 400 for what cannot change.
    pub fn check_replaces(&self, old: &Settings) -> Result<()> {
        let fixed = |name: &str| {
            Error::bad(format!(
                "The container property '{name}' cannot be changed."
            ))
        };
        if self.body.get("id") != old.body.get("id") {
            return Err(fixed("id"));
        }
        if self.partition_key != old.partition_key {
            return Err(fixed("partitionKey"));
        }
        if self.unique_keys != old.unique_keys {
            return Err(fixed("uniqueKeyPolicy"));
        }
        let encryption = |settings: &Self| {
            settings
                .encryption
                .as_ref()
                .map(|policy| policy.shown.to_text())
        };
        if encryption(self) != encryption(old) {
            return Err(Error::bad(
                "'clientEncryptionPolicy' cannot be changed as part of collection replace operation.",
            ));
        }
        self.search
            .check_replaces(&self.policy, &old.search, &old.policy)
    }

    /// Whether the partition key is the id, so that its index entry is the id's.
    pub fn partition_key_is_id(&self) -> bool {
        self.partition_key.paths() == [["id".to_owned()]]
    }

    /// The key of an item that names none because the container has no key of its own.
    pub fn default_key(&self) -> PartitionKey {
        PartitionKey::new(vec![Component::Undefined; self.partition_key.paths().len()])
    }
}

/// Checks that computed properties compile.
///
/// # Errors
/// 400.
pub fn check_computed_properties(properties: &[(String, String)]) -> Result<()> {
    let environment = Environment {
        computed_properties: properties.to_vec(),
        ..Environment::default()
    };
    Query::compile("SELECT * FROM c", &[], &environment)
        .map(|_| ())
        .map_err(query_error)
}

/// The service's words for a bad `ttl` or `defaultTtl`.
pub const TTL_INVALID: &str = "The input ttl is invalid. Ensure to provide a nonzero positive integer less than or \
                               equal to '2147483647', or -1 for never.";

/// `ttl` or `defaultTtl`: -1 or a positive 32-bit number of seconds.
pub fn read_ttl(value: &Json) -> Option<i32> {
    let seconds = i32::try_from(value.as_i64()?).ok()?;
    (seconds == -1 || seconds > 0).then_some(seconds)
}

fn read_unique_keys(policy: Option<&Json>) -> Result<Vec<Vec<Vec<String>>>> {
    let bad = || Error::bad("The unique key policy is invalid.");
    let Some(policy) = policy.filter(|p| !matches!(p, Json::Null)) else {
        return Ok(Vec::new());
    };
    let Some(keys) = policy.as_object().ok_or_else(bad)?.get("uniqueKeys") else {
        return Ok(Vec::new());
    };
    let keys = keys.as_array().ok_or_else(bad)?;
    if keys.len() > UNIQUE_KEYS {
        return Err(bad());
    }
    let names = |path: &Json| -> Result<Vec<String>> {
        let names: Vec<String> = path
            .as_str()
            .ok_or_else(bad)?
            .split('/')
            .skip(1)
            .map(str::to_owned)
            .collect();
        if names.is_empty() || names.iter().any(String::is_empty) {
            Err(bad())
        } else {
            Ok(names)
        }
    };
    keys.iter()
        .map(|key| {
            let paths = key.get("paths").and_then(Json::as_array).ok_or_else(bad)?;
            if paths.is_empty() || paths.len() > UNIQUE_KEY_PATHS {
                return Err(bad());
            }
            paths.iter().map(names).collect()
        })
        .collect()
}

/// `changeFeedPolicy`: whole minutes for which versions are kept; 0 for none.
fn read_retention(policy: Option<&Json>) -> Result<Option<u32>> {
    let bad = || {
        Error::bad(format!(
            "The change feed policy is invalid: its one member is 'retentionDuration', a whole number of minutes from 0 \
             to {RETENTION_MINUTES}."
        ))
    };
    let Some(policy) = policy.filter(|p| !matches!(p, Json::Null)) else {
        return Ok(None);
    };
    let policy = policy.as_object().ok_or_else(bad)?;
    if policy.iter().any(|(name, _)| name != "retentionDuration") {
        return Err(bad());
    }
    let Some(minutes) = policy.get("retentionDuration") else {
        return Ok(None);
    };
    let minutes = minutes.as_i64().and_then(|n| u32::try_from(n).ok());
    minutes
        .filter(|minutes| *minutes <= RETENTION_MINUTES)
        .map(Some)
        .ok_or_else(bad)
}

fn read_computed(list: Option<&Json>) -> Result<Vec<(String, String)>> {
    let bad =
        || Error::bad("The computed properties are invalid: each needs a 'name' and a 'query'.");
    let Some(list) = list.filter(|l| !matches!(l, Json::Null)) else {
        return Ok(Vec::new());
    };
    let list = list
        .as_array()
        .ok_or_else(|| Error::bad("One of the specified inputs is invalid"))?;
    if list.len() > COMPUTED_PROPERTIES {
        return Err(Error::bad(format!(
            "A container has at most {COMPUTED_PROPERTIES} computed properties."
        )));
    }
    let text = |entry: &Json, name: &str| {
        entry
            .get(name)
            .and_then(Json::as_str)
            .map(str::to_owned)
            .ok_or_else(bad)
    };
    list.iter()
        .map(|entry| Ok((text(entry, "name")?, text(entry, "query")?)))
        .collect()
}

/// There is one write region, so conflicts never arise; the policy is kept for reads.
fn conflict_policy(policy: Option<&Json>) -> Result<Json> {
    let default = object! { "mode" => "LastWriterWins", "conflictResolutionPath" => "/_ts",
    "conflictResolutionProcedure" => "" };
    let Some(policy) = policy.filter(|p| !matches!(p, Json::Null)) else {
        return Ok(Json::Object(default));
    };
    let mode = policy
        .get("mode")
        .and_then(Json::as_str)
        .unwrap_or("LastWriterWins");
    if !mode.eq_ignore_ascii_case("LastWriterWins") {
        return Err(Error::unsupported(format!(
            "The conflict resolution mode '{mode}'"
        )));
    }
    let mut shown = default;
    if let Some(path) = policy
        .get("conflictResolutionPath")
        .and_then(Json::as_str)
        .filter(|p| !p.is_empty())
    {
        shown.set("conflictResolutionPath", path);
    }
    Ok(Json::Object(shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::json::parse;

    fn settings(text: &str) -> Result<Settings> {
        Settings::from_body(
            parse(text.as_bytes())
                .expect("JSON")
                .as_object()
                .expect("object"),
        )
    }

    #[test]
    fn a_read_shows_what_was_left_out() {
        let settings = settings(r#"{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":5}"#)
            .expect("settings");
        for name in [
            "indexingPolicy",
            "uniqueKeyPolicy",
            "conflictResolutionPolicy",
            "geospatialConfig",
            "defaultTtl",
        ] {
            assert!(settings.body.get(name).is_some(), "{name}");
        }
        assert_eq!(settings.default_ttl, Some(5));
        assert!(!settings.partition_key_is_id());
    }

    #[test]
    fn what_is_not_offered_is_refused_by_name() {
        for (member, named) in [
            (r#""analyticalStorageTtl":-1"#, "analyticalStorageTtl"),
            (
                r#""changeFeedPolicy":{"retentionDuration":-1}"#,
                "change feed policy",
            ),
            (
                r#""changeFeedPolicy":{"retentionDuration":1.5}"#,
                "change feed policy",
            ),
            (
                r#""changeFeedPolicy":{"retentionDuration":43201}"#,
                "change feed policy",
            ),
            (
                r#""changeFeedPolicy":{"retentionDuration":5,"more":1}"#,
                "change feed policy",
            ),
            (r#""changeFeedPolicy":5"#, "change feed policy"),
            (r#""wheels":4"#, "wheels"),
            (r#""defaultTtl":0"#, "ttl"),
            (r#""conflictResolutionPolicy":{"mode":"Custom"}"#, "Custom"),
            (
                r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":[]}]}"#,
                "unique key",
            ),
            (
                r#""computedProperties":{"name":"a","query":"q"}"#,
                "One of the specified inputs is invalid",
            ),
            (
                r#""computedProperties":[{"name":"a"}]"#,
                "each needs a 'name' and a 'query'",
            ),
        ] {
            let error = settings(&format!(r#"{{"id":"c",{member}}}"#)).expect_err(member);
            assert!(error.message().contains(named), "{error}");
        }
    }

    #[test]
    fn versions_are_kept_for_as_long_as_the_policy_says() {
        let seconds = |policy: &str| {
            settings(&format!(r#"{{"id":"c"{policy}}}"#))
                .expect(policy)
                .retention_seconds
        };
        assert_eq!(seconds(""), None);
        assert_eq!(seconds(r#","changeFeedPolicy":{}"#), None);
        assert_eq!(
            seconds(r#","changeFeedPolicy":{"retentionDuration":0}"#),
            None
        );
        assert_eq!(
            seconds(r#","changeFeedPolicy":{"retentionDuration":10}"#),
            Some(600)
        );
        let kept = settings(r#"{"id":"c","changeFeedPolicy":{"retentionDuration":10}}"#)
            .expect("settings")
            .body;
        assert_eq!(
            kept.get("changeFeedPolicy").map(Json::to_text),
            Some(r#"{"retentionDuration":10}"#.into())
        );
    }

    #[test]
    fn what_is_fixed_stays() {
        let old = settings(r#"{"id":"c","partitionKey":{"paths":["/pk"]}}"#).expect("settings");
        assert!(
            settings(r#"{"id":"c","partitionKey":{"paths":["/other"]}}"#)
                .expect("settings")
                .check_replaces(&old)
                .is_err()
        );
        assert!(
            settings(r#"{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":9}"#)
                .expect("settings")
                .check_replaces(&old)
                .is_ok()
        );
    }
}
