//! The consumers of a container's change feed: their leases, compared with the present state of the
//! feed.
//!
//! A consumer keeps its leases as items of a container of its own. Two forms are known:
//!
//! ```text
//! SDKs (.NET, Java)   {"id":"host_dbRid_collRid..0", "LeaseToken":"0",
//!                      "ContinuationToken":"\"12\"", "Owner":"…",
//!                      "FeedRange":{"Range":{"min":"","max":"FF"}}, "_ts":…}
//! pipelines of the    {"id":"0", "pipeline":"…", "container":"collRid", "owner":"…",
//! reference blog       "position":"\"12\"", "gone":false, "_ts":…}
//! ```
//!
//! The lag is the difference of two LSNs. An LSN counts commits, and a commit may have several
//! changes or a deletion, so the lag is an estimate. Reading leases is not charged.

mod lease;

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, optional, required};
use lease::{Lease, LeaseRange, Reading};
use orrery_engine::{Container, PartitionInventory};
use orrery_model::json::parse;
use orrery_model::partition_key::EpkRange;
use orrery_model::{Json, Object, object};
use std::sync::Arc;

/// The items of a lease container that are read at most.
const ITEMS_READ: usize = 10_000;
/// The items of other forms that are named at most.
const FOREIGN_NAMED: usize = 100;

/// Query parameters of [`list`].
pub(crate) const QUERY: Schema = Schema {
    name: "FeedConsumersQuery",
    members: &[required(
        "leases",
        ValueType::Text,
        "ids of the database and of the container with the leases: database/container",
    )],
};

/// A lease.
const LEASE: Schema = Schema {
    name: "FeedLease",
    members: &[
        required("id", ValueType::Text, "id of the lease's item"),
        required(
            "group",
            ValueType::Text,
            "consumer: the part of the id before '..', or the name of the pipeline",
        ),
        optional(
            "owner",
            ValueType::Text,
            "host that processes the range; absent for a free lease",
        ),
        required(
            "range",
            ValueType::Text,
            "range of the lease: a partition key range id, or an EPK range as min-max",
        ),
        required(
            "partitions",
            ValueType::TextList,
            "partition key range ids that the range covers now",
        ),
        required(
            "state",
            ValueType::OneOf(&["current", "split", "finished", "unknown"]),
            "split: the range was split or merged and the consumer has not followed yet; finished: \
             the consumer has followed; unknown: the container has no such range",
        ),
        optional(
            "continuation",
            COUNT,
            "LSN up to which changes are processed; absent if nothing was processed",
        ),
        optional("lsn", COUNT, "highest LSN of the partitions of the range"),
        optional(
            "lag",
            COUNT,
            "estimated changes that are not processed: the difference of the two LSNs",
        ),
        required(
            "lastRenewal",
            COUNT,
            "time of the last write of the lease, or of its owner's sign of life, in seconds since \
             1970",
        ),
    ],
};

/// An item that is no lease of the container.
const FOREIGN: Schema = Schema {
    name: "ForeignItem",
    members: &[
        required("id", ValueType::Text, "id of the item"),
        required("reason", ValueType::Text, "why the item is no lease here"),
    ],
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "FeedConsumers",
    members: &[
        required(
            "leases",
            ValueType::ObjectList(&LEASE),
            "leases in order of group and range",
        ),
        required(
            "foreign",
            ValueType::ObjectList(&FOREIGN),
            "items that are no leases of this container, at most 100",
        ),
        required(
            "complete",
            ValueType::Boolean,
            "false if the lease container has more than 10,000 items, of which the others were not \
             read",
        ),
    ],
};

/// Lists the leases of the consumers of a container's change feed.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let container = call.container()?;
    let store = lease_container(call)?;
    let partitions = call.engine().partition_inventory(&container)?;
    let items = call.engine().uncharged_items(&store, ITEMS_READ)?;
    let rid = container.rid().to_string();

    let mut leases: Vec<Lease> = Vec::new();
    let mut signs_of_life: Vec<(String, u64)> = Vec::new();
    let mut foreign: Vec<Json> = Vec::new();
    for text in &items.rows {
        let Ok(item) = parse(text) else { continue };
        let reason = match lease::read(&item, &rid) {
            Reading::Lease(lease) => {
                leases.push(lease);
                continue;
            }
            Reading::Worker { id, renewed } => {
                signs_of_life.push((id, renewed));
                continue;
            }
            Reading::Foreign(reason) => reason,
        };
        if foreign.len() < FOREIGN_NAMED {
            let id = item.get("id").and_then(Json::as_str).unwrap_or_default();
            foreign.push(object! { "id" => id, "reason" => reason }.into());
        }
    }
    leases.sort_by(|a, b| (&a.group, &a.id).cmp(&(&b.group, &b.id)));
    let mut shown: Vec<Json> = Vec::with_capacity(leases.len());
    for mut lease in leases {
        let is_owner = |(id, _): &&(String, u64)| Some(id) == lease.owner.as_ref();
        if let Some((_, renewed)) = signs_of_life.iter().find(is_owner) {
            lease.renewed = lease.renewed.max(*renewed);
        }
        shown.push(lease_json(&lease, &partitions).into());
    }
    Answer::json(
        200,
        object! { "leases" => shown, "foreign" => foreign, "complete" => items.is_complete },
    )
}

/// Returns the container that the parameter `leases` names.
fn lease_container(call: &Call) -> Result<Arc<Container>, Problem> {
    let named = call.text("leases").unwrap_or_default();
    let Some((database, container)) = named.split_once('/') else {
        return Err(Problem::bad_request(format!(
            "the query, 'leases': must be database/container, not '{named}'"
        )));
    };
    call.engine()
        .container(database.into(), container.into())
        .map_err(|_| {
            Problem::not_found(format!(
                "there is no container '{container}' in the database '{database}'"
            ))
        })
}

/// Returns the JSON form of a lease, with the present state of its range.
fn lease_json(lease: &Lease, partitions: &[PartitionInventory]) -> Object {
    let (state, covered) = covered_by(lease, partitions);
    let lsn = covered.iter().map(|partition| partition.lsn).max();
    let ids: Vec<Json> = covered.iter().map(|p| p.id.to_string().into()).collect();
    let mut json = object! {
        "id" => lease.id.as_str(),
        "group" => lease.group.as_str(),
        "range" => lease.range.to_string(),
        "partitions" => ids,
        "state" => state,
        "lastRenewal" => lease.renewed,
    };
    if let Some(owner) = &lease.owner {
        json.set("owner", owner.as_str());
    }
    if let Some(continuation) = lease.continuation {
        json.set("continuation", continuation);
    }
    if let Some(lsn) = lsn {
        json.set("lsn", lsn);
    }
    // A lease without a position starts where its processor was told to, which only the pipelines
    // write down: at the beginning.
    let processed = match (lease.continuation, lease.starts_at_beginning) {
        (Some(continuation), _) => Some(continuation),
        (None, true) => Some(0),
        (None, false) => None,
    };
    if let (Some(lsn), Some(processed)) = (lsn, processed)
        && state != "finished"
    {
        json.set("lag", lsn.saturating_sub(processed));
    }
    json
}

/// Returns the state of a lease's range, and the partitions that the range covers now.
fn covered_by<'p>(
    lease: &Lease,
    partitions: &'p [PartitionInventory],
) -> (&'static str, Vec<&'p PartitionInventory>) {
    let mut covered: Vec<&PartitionInventory> = Vec::new();
    match &lease.range {
        LeaseRange::Partition(id) => {
            let is_same = |p: &&PartitionInventory| p.id.to_string() == *id;
            if let Some(found) = partitions.iter().find(is_same) {
                return ("current", vec![found]);
            }
            for partition in partitions {
                if partition
                    .parents
                    .iter()
                    .any(|parent| parent.to_string() == *id)
                {
                    covered.push(partition);
                }
            }
            let state = match (lease.is_gone, covered.is_empty()) {
                (true, _) => "finished",
                (false, false) => "split",
                (false, true) => "unknown",
            };
            (state, covered)
        }
        LeaseRange::Epk(min, max) => {
            let range = EpkRange::new(min.clone(), max.clone());
            for partition in partitions {
                if partition.range.intersection(&range).is_some() {
                    covered.push(partition);
                }
            }
            let state = match covered.len() {
                0 => "unknown",
                1 => "current",
                _ => "split",
            };
            (state, covered)
        }
    }
}
