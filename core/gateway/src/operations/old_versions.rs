//! Containers as clients of old versions of the protocol see them.
//!
//! Before the version 2018-12-31 a container without a partition key shows none. A later version
//! shows the key of the system, `/_partitionKey`, so that clients handle all containers alike. An
//! old client that saw this key would take the container for a partitioned one and refuse its
//! queries.
//!
//! Before the version 2018-09-17 each included path of an indexing policy lists its indexes, with
//! kind, type of values and precision. Those of numbers and texts are always ranges over the whole
//! value, as in the service; the types of a spatial index are those that such clients know.

use crate::call::Call;
use bytes::Bytes;
use orrery_engine::request::{Outcome, Resource};
use orrery_model::json::parse;
use orrery_model::{Json, Object, object};

/// The types of geometries that clients know from lists of indexes.
const GEOMETRY_TYPES: [&str; 3] = ["Point", "LineString", "Polygon"];

/// Returns the outcome with the body of the container as the client's version shows it.
pub(super) fn shown(call: &Call, outcome: Outcome<Resource>) -> Outcome<Resource> {
    outcome.map(|mut resource| {
        resource.body = body_for(call, resource.body);
        resource
    })
}

/// Changes the containers in a feed to what the client's version shows.
pub(super) fn show_rows(call: &Call, rows: &mut [Bytes]) {
    for row in rows {
        *row = body_for(call, std::mem::take(row));
    }
}

/// Returns the text of a container as the client's version shows it.
fn body_for(call: &Call, body: Bytes) -> Bytes {
    let headers = &call.headers;
    if !headers.hides_system_keys && !headers.shows_index_kinds {
        return body;
    }
    // A row of a query may be any value.
    let Ok(Json::Object(mut container)) = parse(&body) else {
        return body;
    };
    let is_without_key = headers.hides_system_keys && remove_system_key(&mut container);
    let has_kinds = headers.shows_index_kinds && add_index_kinds(&mut container);
    match is_without_key || has_kinds {
        true => Bytes::from(Json::Object(container).to_text()),
        false => body,
    }
}

/// Removes the partition key of a container if this is the key of the system. Returns true if it
/// was.
fn remove_system_key(container: &mut Object) -> bool {
    let key = container.get("partitionKey");
    let is_system_key = key
        .and_then(|key| key.get("systemKey"))
        .and_then(Json::as_bool);
    if is_system_key != Some(true) {
        return false;
    }
    container.remove("partitionKey");
    true
}

/// Adds the indexes of each included path of the indexing policy. Returns true if there is a path.
fn add_index_kinds(container: &mut Object) -> bool {
    let Some(Json::Object(policy)) = container.get("indexingPolicy") else {
        return false;
    };
    let mut policy = policy.clone();
    let spatial = policy.get("spatialIndexes").cloned();
    let spatial = spatial.as_ref().and_then(Json::as_array);
    let spatial = spatial.unwrap_or_default();
    let Some(Json::Array(included)) = policy.get("includedPaths") else {
        return false;
    };
    let mut included = included.clone();
    for entry in &mut included {
        let is_spatial = spatial
            .iter()
            .any(|index| index.get("path") == entry.get("path"));
        if let Json::Object(entry) = entry {
            entry.set("indexes", indexes(is_spatial));
        }
    }
    let has_paths = !included.is_empty();
    policy.set("includedPaths", included);
    container.set("indexingPolicy", policy);
    has_paths
}

/// Returns the indexes of an included path.
fn indexes(is_spatial: bool) -> Vec<Json> {
    let mut indexes = Vec::new();
    for data_type in ["Number", "String"] {
        indexes.push(Json::Object(
            object! { "kind" => "Range", "dataType" => data_type, "precision" => -1 },
        ));
    }
    if is_spatial {
        for data_type in GEOMETRY_TYPES {
            indexes.push(Json::Object(
                object! { "kind" => "Spatial", "dataType" => data_type },
            ));
        }
    }
    indexes
}
