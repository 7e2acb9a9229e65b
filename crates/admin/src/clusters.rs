//! The clusters of a server that keeps its data in several stores, and the partitions in each.
//!
//! A server with one data directory, or with its data in memory, answers 409 to all of these.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, YES_OR_NO, optional, required, yes_or_no};
use orrery_model::{Json, Object, object};
use orrery_placement::{ClusterStatus, PlacedStore, Placement, PlacementState};
use orrery_storage::{PartitionId, StoreError};
use std::sync::Arc;

/// A cluster.
pub(crate) const CLUSTER: Schema = Schema {
    name: "Cluster",
    members: &[
        required("name", ValueType::Text, "name of the cluster"),
        required("bytes", COUNT, "bytes in use, as the cluster measures them"),
        required("partitions", COUNT, "number of partitions of the store"),
        required(
            "drained",
            YES_OR_NO,
            "yes if the cluster gets no further partitions",
        ),
        required(
            "draining",
            YES_OR_NO,
            "yes while its partitions are being moved to other clusters",
        ),
        optional(
            "drainFailure",
            ValueType::Text,
            "reason why the last drain did not move all partitions",
        ),
        optional(
            "writeFailure",
            ValueType::Text,
            "reason why the cluster takes no writes now",
        ),
    ],
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "Clusters",
    members: &[required(
        "clusters",
        ValueType::ObjectList(&CLUSTER),
        "clusters in the order of the configuration",
    )],
};

/// A partition of the store.
pub(crate) const PLACEMENT: Schema = Schema {
    name: "Placement",
    members: &[
        required("storageId", COUNT, "number of the partition in the store"),
        required("cluster", ValueType::Text, "cluster that has the partition"),
        required(
            "state",
            ValueType::OneOf(&["settled", "moving", "leaving", "destroying"]),
            "settled: no work is under way; moving: the partition is being copied to another \
             cluster; leaving: it was moved, and the source is being removed; destroying: it is \
             being removed",
        ),
        optional(
            "other",
            ValueType::Text,
            "cluster to which the partition is moving, or that it is leaving",
        ),
        optional("database", ValueType::Text, "id of the database"),
        optional("container", ValueType::Text, "id of the container"),
        optional(
            "id",
            ValueType::Text,
            "partition key range id; absent for the catalog, for partitions of snapshots, and for \
             those that are to be removed",
        ),
        optional(
            "failure",
            ValueType::Text,
            "reason why the last move failed",
        ),
    ],
};

/// Response of [`placements`].
pub(crate) const PLACEMENTS: Schema = Schema {
    name: "Placements",
    members: &[required(
        "placements",
        ValueType::ObjectList(&PLACEMENT),
        "partitions of the store in order of their numbers",
    )],
};

/// Body of [`start_move`].
pub(crate) const MOVE: Schema = Schema {
    name: "Move",
    members: &[required(
        "cluster",
        ValueType::Text,
        "name of the cluster that gets the partition",
    )],
};

/// Lists the clusters.
pub(crate) fn list(call: &Call) -> Result<Answer, Problem> {
    let clusters = placed(call)?.clusters();
    let clusters: Vec<Json> = clusters
        .iter()
        .map(|one| cluster_json(one).into())
        .collect();
    Answer::json(200, object! { "clusters" => clusters })
}

/// Lists the partitions of the store.
pub(crate) fn placements(call: &Call) -> Result<Answer, Problem> {
    let placements = placed(call)?.placements();
    let names = call.engine().partitions_by_storage_id();
    let mut all: Vec<Json> = Vec::with_capacity(placements.len());
    for placement in &placements {
        let mut json = placement_json(placement);
        if let Some((database, container, id)) = names.get(&placement.partition) {
            json.set("database", database.as_str());
            json.set("container", container.as_str());
            json.set("id", id.to_string());
        }
        all.push(json.into());
    }
    Answer::json(200, object! { "placements" => all })
}

/// Starts to move a physical partition to another cluster.
pub(crate) fn start_move(call: &Call) -> Result<Answer, Problem> {
    let placed = placed(call)?;
    let container = call.container()?;
    let id = call.path_parameter(2);
    let range = id.parse().ok();
    let range = range.and_then(|range: u32| container.lineage().get(&range).cloned());
    let Some(storage_id) = range.and_then(|range| range.storage_id) else {
        return Err(Problem::not_found(format!(
            "there is no physical partition '{id}' in the container"
        )));
    };
    let cluster = call.text("cluster").unwrap_or_default();
    find(placed, cluster)?;
    placed.start_move(storage_id, cluster).map_err(refused)?;
    let mut json = placement_of(placed, storage_id)?;
    json.set("database", container.database_id());
    json.set("container", container.id());
    json.set("id", id);
    Answer::json(202, json)
}

/// Starts to move all partitions of a cluster to others. The cluster gets no further ones.
pub(crate) fn drain(call: &Call) -> Result<Answer, Problem> {
    let (placed, name) = (placed(call)?, call.path_parameter(0));
    find(placed, name)?;
    placed.start_drain(name).map_err(refused)?;
    Answer::json(202, cluster_json(&find(placed, name)?))
}

/// Lets a drained cluster get partitions again.
pub(crate) fn end_drain(call: &Call) -> Result<Answer, Problem> {
    let (placed, name) = (placed(call)?, call.path_parameter(0));
    find(placed, name)?;
    placed.set_drained(name, false).map_err(refused)?;
    Answer::json(200, cluster_json(&find(placed, name)?))
}

/// Returns the store over several clusters.
///
/// # Errors
/// 409 if the server has one store.
fn placed(call: &Call) -> Result<&Arc<PlacedStore>, Problem> {
    call.components.placement.as_ref().ok_or_else(|| {
        let message = match &call.components.data_dir {
            Some(directory) => format!(
                "this server keeps its data in one directory, {}, so there are no clusters",
                directory.display()
            ),
            None => "this server keeps its data in one store, so there are no clusters".to_owned(),
        };
        Problem::new(409, "NoClusters", message)
    })
}

/// Returns the cluster of a name.
///
/// # Errors
/// 404 if there is none.
fn find(placed: &PlacedStore, name: &str) -> Result<ClusterStatus, Problem> {
    let mut clusters = placed.clusters().into_iter();
    clusters
        .find(|cluster| cluster.name == name)
        .ok_or_else(|| Problem::not_found(format!("there is no cluster '{name}'")))
}

/// Returns the response for work that the store refuses.
fn refused(error: StoreError) -> Problem {
    Problem::new(409, "Refused", error.to_string())
}

fn placement_of(placed: &PlacedStore, partition: PartitionId) -> Result<Object, Problem> {
    let mut placements = placed.placements().into_iter();
    let found = placements.find(|placement| placement.partition == partition);
    let found = found.ok_or_else(|| Problem::not_found("the partition was removed"))?;
    Ok(placement_json(&found))
}

fn cluster_json(cluster: &ClusterStatus) -> Object {
    let mut json = object! {
        "name" => cluster.name.as_str(),
        "bytes" => cluster.bytes,
        "partitions" => cluster.partitions,
        "drained" => yes_or_no(cluster.is_drained),
        "draining" => yes_or_no(cluster.is_draining),
    };
    if let Some(failure) = &cluster.drain_failure {
        json.set("drainFailure", failure.as_str());
    }
    if let Some(failure) = &cluster.write_failure {
        json.set("writeFailure", failure.as_str());
    }
    json
}

fn placement_json(placement: &Placement) -> Object {
    let (state, other) = match &placement.state {
        PlacementState::Settled => ("settled", None),
        PlacementState::Moving { to } => ("moving", Some(to)),
        PlacementState::Leaving { from } => ("leaving", Some(from)),
        PlacementState::Destroying => ("destroying", None),
    };
    let mut json = object! {
        "storageId" => placement.partition.0,
        "cluster" => placement.cluster.as_str(),
        "state" => state,
    };
    if let Some(other) = other {
        json.set("other", other.as_str());
    }
    if let Some(failure) = &placement.failure {
        json.set("failure", failure.as_str());
    }
    json
}
