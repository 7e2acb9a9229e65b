//! The form of a definition. Names of settings are those of the service; unknown fields are
//! refused.

use orrery_client::Throughput;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// Databases with all that they hold.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Definition {
    /// The databases.
    pub databases: Vec<DatabaseDefinition>,
}

/// A database.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct DatabaseDefinition {
    /// The id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Throughput that its containers share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<StatedThroughput>,
    /// Client encryption keys, wrapped by a key outside, as in the REST API of the service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub client_encryption_keys: Vec<Value>,
    /// The containers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerDefinition>,
}

/// Throughput: `{"manual": 400}` or `{"autoscale": 4000}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StatedThroughput {
    /// Provisioned RU/s.
    Manual(u32),
    /// Largest RU/s of autoscale.
    Autoscale(u32),
}

impl From<StatedThroughput> for Throughput {
    fn from(stated: StatedThroughput) -> Self {
        match stated {
            StatedThroughput::Manual(ru) => Throughput::Manual(ru),
            StatedThroughput::Autoscale(ru) => Throughput::Autoscale(ru),
        }
    }
}

impl From<Throughput> for StatedThroughput {
    fn from(throughput: Throughput) -> Self {
        match throughput {
            Throughput::Manual(ru) => StatedThroughput::Manual(ru),
            Throughput::Autoscale(ru) => StatedThroughput::Autoscale(ru),
        }
    }
}

/// A container. Policies have the form that the service documents.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct ContainerDefinition {
    /// The id.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Throughput of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput: Option<StatedThroughput>,
    /// Partition key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_key: Option<Value>,
    /// Indexing policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexing_policy: Option<Value>,
    /// Unique keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique_key_policy: Option<Value>,
    /// Time to live of items in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_ttl: Option<Value>,
    /// Computed properties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computed_properties: Option<Value>,
    /// Vector paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_embedding_policy: Option<Value>,
    /// Full-text paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_text_policy: Option<Value>,
    /// Retention of the change feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_feed_policy: Option<Value>,
    /// Previous images in the change feed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_image_retention_policy: Option<Value>,
    /// Conflict resolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conflict_resolution_policy: Option<Value>,
    /// Kind of spatial data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geospatial_config: Option<Value>,
    /// Paths that clients encrypt, with the keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_encryption_policy: Option<Value>,
    /// Stored procedures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stored_procedures: Vec<Script>,
    /// Triggers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// User-defined functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_defined_functions: Vec<Script>,
    /// Items, as they are written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<Box<RawValue>>,
}

/// A stored procedure or user-defined function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The id.
    pub id: String,
    /// The JavaScript; in a folder, the script's file holds it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

/// A trigger.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Trigger {
    /// The id.
    pub id: String,
    /// `Pre` or `Post`.
    pub trigger_type: String,
    /// `All`, `Create`, `Replace`, `Delete` or `Update`.
    pub trigger_operation: String,
    /// The JavaScript; in a folder, the trigger's file holds it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub body: String,
}

impl ContainerDefinition {
    /// Returns the settings beside id and throughput, by the service's names.
    pub(super) fn settings(&mut self) -> [(&'static str, &mut Option<Value>); 12] {
        [
            ("partitionKey", &mut self.partition_key),
            ("indexingPolicy", &mut self.indexing_policy),
            ("uniqueKeyPolicy", &mut self.unique_key_policy),
            ("defaultTtl", &mut self.default_ttl),
            ("computedProperties", &mut self.computed_properties),
            ("vectorEmbeddingPolicy", &mut self.vector_embedding_policy),
            ("fullTextPolicy", &mut self.full_text_policy),
            ("changeFeedPolicy", &mut self.change_feed_policy),
            (
                "previousImageRetentionPolicy",
                &mut self.previous_image_retention_policy,
            ),
            (
                "conflictResolutionPolicy",
                &mut self.conflict_resolution_policy,
            ),
            ("geospatialConfig", &mut self.geospatial_config),
            ("clientEncryptionPolicy", &mut self.client_encryption_policy),
        ]
    }

    /// Returns the body of a request that creates the container.
    pub(super) fn body(&mut self) -> Value {
        let mut body = Map::new();
        body.insert("id".into(), self.id.clone().into());
        for (name, value) in self.settings() {
            if let Some(value) = value {
                body.insert(name.into(), value.clone());
            }
        }
        Value::Object(body)
    }
}
