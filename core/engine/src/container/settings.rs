//! The settings of a container: the table of its properties, and their check at creation and
//! replace.

use super::encryption::EncryptionPolicy;
use super::previous_images::PreviousImages;
use super::search::{Search, check_text_settings};
use crate::AccountVersions;
use crate::index::policy::Policy;
use crate::partition::row::is_system;
use crate::request::ids::{resource_id, stored_id};
use crate::request::properties::{self, Property, member, server_set, stored, unsupported};
use orrery_model::partition_key::{Component, Definition, PartitionKey};
use orrery_model::words::shortened;
use orrery_model::{Error, Json, Object, Result, object};
use orrery_sql::check_computed_property;
use std::fmt;
use std::sync::Arc;

/// The checked body of a container.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The partition key definition.
    pub partition_key: Definition,
    /// The indexing policy.
    pub policy: Arc<Policy>,
    /// `defaultTtl`: the lifetime of items in seconds; -1 enables expiry without a default.
    pub default_ttl: Option<i32>,
    /// The unique keys: each is a list of paths, and each path is a list of names. The values at
    /// the paths of a key are unique together in a logical partition.
    pub unique_keys: Vec<Vec<Vec<String>>>,
    /// The name and the query of each computed property.
    pub computed_properties: Vec<(String, String)>,
    /// The settings of spatial, vector and full-text search.
    pub search: Search,
    /// The seconds for which all versions of an item are kept; `None` if only the latest is kept.
    pub retention_seconds: Option<u64>,
    /// Bytes that the versions of a physical partition may take, if that is bounded.
    pub version_bytes_max: Option<u64>,
    /// True if the container has a change feed policy of its own, which goes before the account.
    has_own_retention: bool,
    /// The changes whose versions have the item before the change.
    pub(crate) previous_images: PreviousImages,
    /// The paths that clients encrypt.
    pub encryption: Option<EncryptionPolicy>,
    /// The body as clients read it, without `id` and system properties. Containers that differ in
    /// their ids only share their settings.
    pub(crate) shown: Object,
}

/// The maximum number of unique keys of a container, a limit of the service.
const UNIQUE_KEYS_MAX: usize = 10;
/// The maximum number of paths of a unique key, a limit of the service.
const UNIQUE_KEY_PATHS_MAX: usize = 16;
/// The maximum retention of versions in minutes: 30 days, the longest retention of the service.
const RETENTION_MINUTES_MAX: u32 = 43_200;
/// The maximum number of computed properties of a container, a limit of the service.
const COMPUTED_PROPERTIES_MAX: usize = 20;

/// The properties of a container body.
const PROPERTIES: &[Property] = &[
    stored("id", "kept; cannot be changed"),
    stored(
        "partitionKey",
        "kept: one path of kind `Hash`, version 1 or 2 (absent means 1), or one to three of kind \
         `MultiHash`, version 2; cannot be changed; absent gives the system key",
    ),
    stored(
        "indexingPolicy",
        "kept and completed: `/\"_etag\"/?` is excluded unless named; composite indexes have 2 to \
         8 paths, 100 in all",
    ),
    stored(
        "defaultTtl",
        "kept: -1 or 1 to 2,147,483,647 seconds; `null` is 400, as in the service, and does not \
         count as absent",
    ),
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
        "kept if the mode is `LastWriterWins`, without effect in one region; `Custom` is refused \
         by name",
    ),
    stored(
        "geospatialConfig",
        "kept: type `Geography`, which is also the default, or `Geometry`",
    ),
    stored(
        "changeFeedPolicy",
        "kept: `retentionDuration` of 0 to 43,200 minutes, for which every version of an item is \
         kept; 0 keeps only the latest, whatever the account keeps",
    ),
    stored(
        "previousImageRetentionPolicy",
        "kept: the `mode` of `supportedFeatures.allVersionsAndDeletes`, 0 to 3, for which changes \
         a kept version has the item before the change; `includedPaths` and other features are \
         refused by name; absent: deletions",
    ),
    stored(
        "vectorEmbeddingPolicy",
        "kept: up to 4,096 dimensions of float32, float16, int8 or uint8, compared by cosine, \
         dotproduct or euclidean; what is said of a path cannot be changed",
    ),
    stored(
        "fullTextPolicy",
        "kept: languages en-US, de-DE, es-ES, fr-FR, it-IT, pt-BR, pt-PT; settings of the analysis \
         (`package`, `defaultSpec`, tokenizers, filters, stop words) are refused by name",
    ),
    stored(
        "clientEncryptionPolicy",
        "kept and checked: what clients encrypt, and with which key; cannot be changed",
    ),
    unsupported("analyticalStorageTtl", "refused by name"),
    unsupported(
        "ttlPropertyPath",
        "refused by name: the .NET SDK alone has it and marks it as obsolete, and items expire in \
         the order of their changes",
    ),
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
    /// Reads a container body of a client and adds the defaults of missing members.
    ///
    /// # Errors
    /// 400 that names the member.
    pub fn from_body(body: &Object) -> Result<Settings> {
        resource_id(body)?;
        // The only member of which `null` does not count as absent, as in the service.
        if let Some(null @ Json::Null) = body.get("defaultTtl") {
            return Err(ttl_invalid("defaultTtl", null));
        }
        let settings = Settings::from_stored(body)?;
        check_text_settings(body)?;
        Ok(settings)
    }

    /// Reads a stored container body, whose id was checked when the container was created.
    ///
    /// # Errors
    /// As [`Settings::from_body`], except for the id.
    pub fn from_stored(body: &Object) -> Result<Settings> {
        properties::check("container", body, PROPERTIES, None)?;
        stored_id(body)?;
        let partition_key = match member(body, "partitionKey") {
            Some(definition) => Definition::from_json(definition)?,
            None => Definition::system_key(),
        };
        let policy = Policy::from_json(body.get("indexingPolicy"))?;
        let default_ttl = match member(body, "defaultTtl") {
            Some(ttl) => Some(read_ttl(ttl).ok_or_else(|| ttl_invalid("defaultTtl", ttl))?),
            None => None,
        };
        let unique_keys = read_unique_keys(body)?;
        let computed_properties = read_computed_properties(body)?;

        // Members that a read always shows, with their defaults.
        let unique_key_policy = match member(body, "uniqueKeyPolicy") {
            Some(policy) => policy.clone(),
            None => Json::Object(object! { "uniqueKeys" => Vec::new() }),
        };
        let mut shown = object! {
            "indexingPolicy" => policy.to_json(),
            "partitionKey" => partition_key.to_json(),
            "uniqueKeyPolicy" => unique_key_policy,
            "conflictResolutionPolicy" => conflict_resolution_policy(body)?,
        };

        // Members that a read shows if the container has them. Clients see them in this order.
        let search = Search::from_body(body, &policy, &mut shown)?;
        let vectors = search.stored_vectors(&policy);
        let texts = search.stored_texts(&policy);
        let policy = policy.with_search_entries(vectors, texts);
        let encryption =
            EncryptionPolicy::from_json(body.get("clientEncryptionPolicy"), &partition_key)?;
        if let Some(encryption) = &encryption {
            shown.push_new("clientEncryptionPolicy", encryption.shown.clone());
        }
        if let Some(ttl) = default_ttl {
            shown.push_new("defaultTtl", ttl);
        }
        let retention_minutes = read_retention_minutes(body)?;
        if let Some(minutes) = retention_minutes {
            let policy = object! { "retentionDuration" => minutes };
            shown.push_new("changeFeedPolicy", Json::Object(policy));
        }
        let previous_images = PreviousImages::from_body(body)?;
        if let Some(policy) = member(body, "previousImageRetentionPolicy") {
            shown.push_new("previousImageRetentionPolicy", policy.clone());
        }
        if !computed_properties.is_empty() {
            let list = body.get("computedProperties").cloned();
            shown.push_new("computedProperties", list.unwrap_or(Json::Null));
        }

        let retention_seconds = match retention_minutes {
            None | Some(0) => None,
            Some(minutes) => Some(u64::from(minutes) * 60),
        };
        Ok(Settings {
            partition_key,
            policy: Arc::new(policy),
            default_ttl,
            unique_keys,
            computed_properties,
            search,
            retention_seconds,
            version_bytes_max: None,
            has_own_retention: retention_minutes.is_some(),
            previous_images,
            encryption,
            shown,
        })
    }

    /// Returns the same settings with the versions of the account, unless the container has a
    /// change feed policy of its own.
    pub(crate) fn with_account_versions(self, account: Option<AccountVersions>) -> Settings {
        if self.has_own_retention {
            return self;
        }
        Settings {
            retention_seconds: account.map(|versions| versions.retention_seconds),
            version_bytes_max: account.and_then(|versions| versions.partition_bytes),
            ..self
        }
    }

    /// Returns the body of a container as clients read it, without system properties.
    pub fn body(&self, id: &str) -> Object {
        let mut body = object! { "id" => id };
        for (name, value) in self.shown.iter() {
            body.push_new(name, value.clone());
        }
        body
    }

    /// Checks that these settings may replace `old`.
    ///
    /// # Errors
    /// 400 for a changed property that cannot change.
    pub fn check_replaces(&self, old: &Settings) -> Result<()> {
        if self.partition_key != old.partition_key {
            return Err(unchangeable("partitionKey").with_help(format!(
                "It is {} and would become {}. Create another container with the new partition key \
                 and copy the items.",
                old.partition_key.shown_paths(),
                self.partition_key.shown_paths()
            )));
        }
        if self.unique_keys != old.unique_keys {
            return Err(unchangeable("uniqueKeyPolicy").with_help(
                "Unique keys are set when a container is created. Create another container with \
                 them and copy the items.",
            ));
        }
        // The service has its own words for this property.
        if self.encryption_text() != old.encryption_text() {
            return Err(Error::bad(
                "'clientEncryptionPolicy' cannot be changed as part of collection replace \
                 operation.",
            ));
        }
        self.search
            .check_replaces(&self.policy, &old.search, &old.policy)
    }

    fn encryption_text(&self) -> Option<String> {
        let encryption = self.encryption.as_ref()?;
        Some(encryption.shown.to_text())
    }

    /// Returns true if the partition key is `/id`, so that the index entry of the id serves both.
    pub fn partition_key_is_id(&self) -> bool {
        self.partition_key.paths() == [["id".to_owned()]]
    }

    /// Returns the partition key of an item without one, in a container with the system key.
    pub fn default_key(&self) -> PartitionKey {
        PartitionKey::new(vec![Component::Undefined; self.partition_key.paths().len()])
    }
}

/// Checks the names and the queries of computed properties.
///
/// # Errors
/// 400 for a name that is taken or is that of a system property, and for a query that does not
/// define a value of each item.
pub(crate) fn check_computed_properties(properties: &[(String, String)]) -> Result<()> {
    for (at, (name, text)) in properties.iter().enumerate() {
        let invalid = |reason: &dyn fmt::Display| {
            Error::bad(format!(
                "One of the specified inputs is invalid: the computed property '{name}': {reason}"
            ))
            .with_help(
                "A computed property has a 'name' and a 'query' such as SELECT VALUE LOWER(c.name) \
                 FROM c.",
            )
        };
        if name.is_empty() || name == "id" || is_system(name) {
            return Err(invalid(&"The name is empty or that of a system property."));
        }
        if properties[..at].iter().any(|(other, _)| other == name) {
            return Err(Error::bad(format!(
                "Computed property name '{name}' cannot be used in multiple definitions."
            )));
        }
        check_computed_property(text).map_err(|error| invalid(&error))?;
    }
    Ok(())
}

/// Reads `ttl` or `defaultTtl`: -1, or 1 to 2,147,483,647 seconds. Returns `None` for other values.
pub(crate) fn read_ttl(value: &Json) -> Option<i32> {
    let seconds = i32::try_from(value.as_i64()?).ok()?;
    (seconds == -1 || seconds > 0).then_some(seconds)
}

/// Returns the error 400 for a value of `ttl` or `defaultTtl` that is not one: the service's
/// sentence, and the member and the remedy.
pub(crate) fn ttl_invalid(name: &str, value: &Json) -> Error {
    let shown = shortened(&value.to_text());
    let advice = match name {
        "ttl" => "leave '{}' out to take the container's setting",
        _ => "leave '{}' out to keep items for ever",
    };
    Error::bad(format!(
        "The input ttl '{shown}' is invalid. Ensure to provide a nonzero positive integer less \
         than or equal to '2147483647', or '-1' which means never expire."
    ))
    .with_help(format!(
        "The value of '{name}' is {shown}, in seconds: {}, or take -1.",
        advice.replace("{}", name)
    ))
}

fn read_unique_keys(body: &Object) -> Result<Vec<Vec<Vec<String>>>> {
    let Some(policy) = member(body, "uniqueKeyPolicy") else {
        return Ok(Vec::new());
    };
    let policy = policy.as_object().ok_or_else(invalid_unique_keys)?;
    let Some(keys) = policy.get("uniqueKeys") else {
        return Ok(Vec::new());
    };
    let keys = keys.as_array().ok_or_else(invalid_unique_keys)?;
    if keys.len() > UNIQUE_KEYS_MAX {
        return Err(invalid_unique_keys().with_help(format!(
            "It has {} unique keys; at most {UNIQUE_KEYS_MAX} are allowed.",
            keys.len()
        )));
    }
    keys.iter().map(read_unique_key).collect()
}

fn read_unique_key(key: &Json) -> Result<Vec<Vec<String>>> {
    let paths = key.get("paths").and_then(Json::as_array);
    let paths = paths.ok_or_else(invalid_unique_keys)?;
    if paths.is_empty() || paths.len() > UNIQUE_KEY_PATHS_MAX {
        return Err(invalid_unique_keys().with_help(format!(
            "A unique key has 1 to {UNIQUE_KEY_PATHS_MAX} paths, and one of these has {}.",
            paths.len()
        )));
    }
    paths.iter().map(read_unique_key_path).collect()
}

/// Reads a path like `/a/b` into its names.
fn read_unique_key_path(path: &Json) -> Result<Vec<String>> {
    let path = path.as_str().ok_or_else(invalid_unique_keys)?;
    let names: Vec<String> = path.split('/').skip(1).map(str::to_owned).collect();
    if !path.starts_with('/') || names.iter().any(String::is_empty) {
        return Err(invalid_unique_keys().with_help(format!(
            "The path '{}' must be a slash and a property, such as '/email'.",
            shortened(path)
        )));
    }
    Ok(names)
}

fn invalid_unique_keys() -> Error {
    Error::bad(
        "The unique key policy is invalid. Its form is \
         {\"uniqueKeys\": [{\"paths\": [\"/email\"]}]}.",
    )
}

/// Reads `changeFeedPolicy`: the whole minutes for which versions are kept; 0 keeps only the
/// latest.
fn read_retention_minutes(body: &Object) -> Result<Option<u32>> {
    let invalid = || {
        Error::bad(format!(
            "The change feed policy is invalid: its one member is 'retentionDuration', a whole \
             number of minutes from 0 to {RETENTION_MINUTES_MAX}."
        ))
    };
    let Some(policy) = member(body, "changeFeedPolicy") else {
        return Ok(None);
    };
    let policy = policy.as_object().ok_or_else(invalid)?;
    if policy.iter().any(|(name, _)| name != "retentionDuration") {
        return Err(invalid());
    }
    let Some(minutes) = policy.get("retentionDuration") else {
        return Ok(None);
    };
    let minutes = minutes.as_i64().and_then(|n| u32::try_from(n).ok());
    match minutes {
        Some(minutes) if minutes <= RETENTION_MINUTES_MAX => Ok(Some(minutes)),
        _ => Err(invalid()),
    }
}

fn read_computed_properties(body: &Object) -> Result<Vec<(String, String)>> {
    let Some(list) = member(body, "computedProperties") else {
        return Ok(Vec::new());
    };
    let Some(list) = list.as_array() else {
        return Err(Error::bad("One of the specified inputs is invalid"));
    };
    if list.len() > COMPUTED_PROPERTIES_MAX {
        return Err(Error::bad(format!(
            "A container has at most {COMPUTED_PROPERTIES_MAX} computed properties."
        )));
    }
    let mut properties = Vec::with_capacity(list.len());
    for entry in list {
        let name = entry.get("name").and_then(Json::as_str);
        let query = entry.get("query").and_then(Json::as_str);
        let (Some(name), Some(query)) = (name, query) else {
            return Err(Error::bad(
                "The computed properties are invalid: each needs a 'name' and a 'query'.",
            ));
        };
        properties.push((name.to_owned(), query.to_owned()));
    }
    Ok(properties)
}

/// Returns the conflict resolution policy that a read shows. There is one write region, so
/// conflicts never arise and the policy has no other effect.
fn conflict_resolution_policy(body: &Object) -> Result<Json> {
    let mut shown = object! {
        "mode" => "LastWriterWins",
        "conflictResolutionPath" => "/_ts",
        "conflictResolutionProcedure" => "",
    };
    let Some(policy) = member(body, "conflictResolutionPolicy") else {
        return Ok(Json::Object(shown));
    };
    let mode = policy.get("mode").and_then(Json::as_str);
    let mode = mode.unwrap_or("LastWriterWins");
    if !mode.eq_ignore_ascii_case("LastWriterWins") {
        return Err(Error::unsupported(format!(
            "The conflict resolution mode '{mode}'"
        )));
    }
    let path = policy.get("conflictResolutionPath").and_then(Json::as_str);
    if let Some(path) = path.filter(|path| !path.is_empty()) {
        shown.set("conflictResolutionPath", path);
    }
    Ok(Json::Object(shown))
}

/// Returns the error for a property of a container that a replace may not change.
pub(crate) fn unchangeable(name: &str) -> Error {
    Error::bad(format!(
        "The container property '{name}' cannot be changed."
    ))
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
    fn a_read_shows_the_defaults_of_missing_members() {
        let settings = settings(r#"{"id":"c","partitionKey":{"paths":["/pk"]},"defaultTtl":5}"#)
            .expect("settings");
        for name in [
            "indexingPolicy",
            "uniqueKeyPolicy",
            "conflictResolutionPolicy",
            "geospatialConfig",
            "defaultTtl",
        ] {
            assert!(settings.shown.get(name).is_some(), "{name}");
        }
        assert_eq!(settings.default_ttl, Some(5));
        assert!(!settings.partition_key_is_id());
    }

    #[test]
    fn an_unsupported_setting_is_refused_by_name() {
        for (member, named) in [
            (r#""analyticalStorageTtl":-1"#, "analyticalStorageTtl"),
            (
                r#""defaultTtl":5,"ttlPropertyPath":"/made""#,
                "ttlPropertyPath",
            ),
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
            .shown;
        assert_eq!(
            kept.get("changeFeedPolicy").map(Json::to_text),
            Some(r#"{"retentionDuration":10}"#.into())
        );
    }

    #[test]
    fn invalid_computed_properties_are_refused_by_name() {
        let check = |properties: &[(&str, &str)]| {
            let owned = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
            let properties: Vec<(String, String)> = properties.iter().map(owned).collect();
            check_computed_properties(&properties)
        };
        let lower = "SELECT VALUE LOWER(c.name) FROM c";
        assert!(check(&[]).is_ok());
        assert!(check(&[("cp_a", lower), ("cp_b", lower)]).is_ok());
        for (properties, words) in [
            (&[("cp", "garbage")][..], "'cp': SC1001"),
            (&[("cp", "SELECT VALUE FOO(c.a) FROM c")], "'cp': SC2005"),
            (
                &[("cp", "SELECT c.a FROM c")],
                "'cp': It must have the form",
            ),
            (&[("_ts", lower)], "'_ts': The name"),
            (&[("id", lower)], "'id': The name"),
            (&[("", lower)], "'': The name"),
        ] {
            let error = check(properties).expect_err(words);
            assert_eq!(error.status(), 400, "{error}");
            assert!(
                error
                    .message()
                    .contains("One of the specified inputs is invalid")
            );
            assert!(error.message().contains(words), "{error}");
        }
        let twice = check(&[("cp", lower), ("cp", lower)]).expect_err("a name that stands twice");
        assert_eq!(
            twice.message(),
            "Computed property name 'cp' cannot be used in multiple definitions."
        );
    }

    #[test]
    fn the_partition_key_cannot_be_changed() {
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
