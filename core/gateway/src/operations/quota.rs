//! The headers `x-ms-resource-quota` and `x-ms-resource-usage`, which every successful answer about
//! a resource has.

use crate::reply::Reply;
use crate::route::Target;
use bytes::Bytes;
use orrery_engine::{Container, Counted, Engine};
use std::sync::Arc;

const QUOTA: &str = "x-ms-resource-quota";
const USAGE: &str = "x-ms-resource-usage";

/// Returns the resources in `container` that answers about `target` count.
pub(super) fn in_container(target: Target, container: &Arc<Container>) -> Option<Counted> {
    let container = Arc::clone(container);
    match target {
        Target::Items | Target::Item | Target::LogicalPartition => Some(Counted::Items(container)),
        Target::Scripts(_) | Target::Script(_) => Some(Counted::Scripts(container)),
        _ => None,
    }
}

/// Returns the resources above containers that answers about `target` count.
pub(super) fn above_containers(target: Target) -> Option<Counted> {
    match target {
        Target::Databases | Target::Database => Some(Counted::Databases),
        Target::Containers | Target::Container => Some(Counted::Containers),
        _ => None,
    }
}

/// Adds the quota and the usage to a successful reply that has none.
pub(super) fn add(reply: &mut Reply, counted: &Counted, engine: &Engine) {
    if reply.error.is_some() || reply.headers.contains_key(QUOTA) {
        return;
    }
    if let Some((quota, usage)) = engine.quota_of(counted) {
        set(reply, quota, usage);
    }
}

/// Sets the quota and the usage of a reply.
pub(super) fn set(reply: &mut Reply, quota: Bytes, usage: Bytes) {
    reply.set_shared(QUOTA, quota);
    reply.set_shared(USAGE, usage);
}
