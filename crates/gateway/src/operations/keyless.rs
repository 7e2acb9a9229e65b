//! Containers without a partition key, as clients of old versions of the protocol see them.
//!
//! Before the version 2018-12-31 such a container shows no partition key. A later version shows the
//! key of the system, `/_partitionKey`, so that clients handle all containers alike. An old client
//! that saw this key would take the container for a partitioned one and refuse its queries.

use crate::call::Call;
use bytes::Bytes;
use orrery_engine::request::{Outcome, Resource};
use orrery_model::Json;
use orrery_model::json::parse;

/// Returns the outcome with the body of the container as the client's version shows it.
pub(super) fn shown(call: &Call, outcome: Outcome<Resource>) -> Outcome<Resource> {
    if !call.headers.hides_system_keys {
        return outcome;
    }
    outcome.map(|mut resource| {
        resource.body = without_system_key(resource.body);
        resource
    })
}

/// Removes the keys of the system from containers in a feed, if the client's version shows none.
pub(super) fn show_rows(call: &Call, rows: &mut [Bytes]) {
    if !call.headers.hides_system_keys {
        return;
    }
    for row in rows {
        *row = without_system_key(std::mem::take(row));
    }
}

/// Returns the text of a container without its partition key, if this is the key of the system.
fn without_system_key(body: Bytes) -> Bytes {
    // A row of a query may be any value.
    let Ok(Json::Object(mut container)) = parse(&body) else {
        return body;
    };
    let key = container.get("partitionKey");
    let is_system_key = key
        .and_then(|key| key.get("systemKey"))
        .and_then(Json::as_bool);
    if is_system_key != Some(true) {
        return body;
    }
    container.remove("partitionKey");
    Bytes::from(Json::Object(container).to_text())
}
