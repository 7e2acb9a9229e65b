//! What is said of a request; see `matching.py`.

use azure_data_cosmos::models::{ItemResponse, ResourceResponse, ResponseHeaders};
use azure_data_cosmos::{CosmosError, CosmosStatus};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::Failure;

pub struct Answer(Map<String, Value>);

impl Answer {
    pub fn status(status: u16) -> Self {
        Answer(Map::from_iter([("status".to_owned(), json!(status))]))
    }

    /// The status and the headers that every answer has.
    pub fn of(status: CosmosStatus, headers: &ResponseHeaders) -> Self {
        Answer::status(u16::from(status))
            .with("substatus", json!(status.sub_status().map_or(0, |code| code.value())))
            .with("headers", names(headers))
    }

    pub fn item(response: ItemResponse) -> Result<Self, Failure> {
        let answer = Answer::of(response.status(), response.headers());
        let body = response.into_body();
        if body.is_empty() { Ok(answer) } else { Ok(answer.with("body", body.into_single()?)) }
    }

    pub fn resource<T: DeserializeOwned>(response: ResourceResponse<T>) -> Result<Self, Failure> {
        let answer = Answer::of(response.status(), response.headers());
        let body = response.into_body();
        if body.is_empty() { Ok(answer) } else { Ok(answer.with("body", body.into_single()?)) }
    }

    pub fn with(mut self, name: &str, value: Value) -> Self {
        self.0.insert(name.to_owned(), value);
        self
    }

    pub fn json(self) -> Value {
        Value::Object(self.0)
    }
}

/// The answer that an error carries, or that the SDK gave in its place.
pub fn refusal(error: &CosmosError) -> Value {
    let headers = error.response().map(|response| {
        let headers = response.headers();
        json!({
            "x-ms-activity-id": headers.activity_id.as_ref().map(ToString::to_string),
            "x-ms-request-charge": headers.request_charge.map(|charge| charge.value()),
        })
    });
    Answer::status(u16::from(error.status()))
        .with("substatus", json!(error.status().sub_status().map_or(0, |code| code.value())))
        .with("headers", headers.unwrap_or_default())
        .with("message", json!(error.to_string()))
        .json()
}

/// The headers that the SDK shows, under their names on the wire.
pub fn names(headers: &ResponseHeaders) -> Value {
    let mut found = Map::new();
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            found.insert(name.to_owned(), Value::String(value));
        }
    };
    put("etag", headers.etag().map(ToString::to_string));
    put("x-ms-request-charge", headers.request_charge().map(|charge| charge.value().to_string()));
    put("x-ms-session-token", headers.session_token().map(|token| token.as_str().to_owned()));
    put("x-ms-activity-id", headers.activity_id().map(ToString::to_string));
    put("x-ms-resource-quota", headers.resource_quota().map(str::to_owned));
    put("x-ms-resource-usage", headers.resource_usage().map(str::to_owned));
    put("x-ms-cosmos-index-utilization", headers.index_metrics().map(str::to_owned));
    let progress = headers.collection_index_transformation_progress();
    put("x-ms-documentdb-collection-index-transformation-progress", progress.map(|percent| percent.to_string()));
    Value::Object(found)
}
