//! The balance of the clusters: the loads of their partitions, and the move that they call for.

use crate::call::{Answer, Call};
use crate::clusters::{placed, refused};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, YES_OR_NO, optional, required, yes_or_no};
use crate::stage::Components;
use orrery_engine::PartitionInventory;
use orrery_model::{Json, Object, object};
use orrery_placement::{BalanceLimits, BalanceMove, BalanceReason, Load, Loads, PlacedStore};
use orrery_storage::StoreError;
use std::sync::Arc;

/// The seconds that the request units of a partition are counted over.
const COUNTED_SECONDS: f64 = 60.0;

/// Body of [`start`].
pub(crate) const LIMITS: Schema = Schema {
    name: "BalanceLimits",
    members: &[
        optional(
            "minBytes",
            COUNT,
            "difference of two clusters in bytes from which on a partition moves; 1 GiB if absent",
        ),
        optional(
            "minRequestUnits",
            COUNT,
            "difference of two clusters in request units per second from which on a partition \
             moves; 1,000 if absent",
        ),
    ],
};

/// The load of a cluster.
const LOAD: Schema = Schema {
    name: "ClusterLoad",
    members: &[
        required("name", ValueType::Text, "name of the cluster"),
        required("bytes", COUNT, "bytes of items and index of its partitions"),
        required(
            "requestUnits",
            ValueType::Number(0.0, f64::MAX),
            "request units per second of its partitions in the last minute",
        ),
        required(
            "drained",
            YES_OR_NO,
            "yes if the cluster gets no further partitions",
        ),
    ],
};

/// A move that was started.
const BALANCE_MOVE: Schema = Schema {
    name: "BalanceMove",
    members: &[
        required("storageId", COUNT, "number of the partition in the store"),
        required("from", ValueType::Text, "cluster that has the partition"),
        required("to", ValueType::Text, "cluster that gets the partition"),
        required(
            "reason",
            ValueType::OneOf(&["bytes", "requestUnits"]),
            "figure that the move makes more equal",
        ),
        required("database", ValueType::Text, "id of the database"),
        required("container", ValueType::Text, "id of the container"),
        required("id", ValueType::Text, "partition key range id"),
    ],
};

/// Response of [`start`].
pub(crate) const BALANCE: Schema = Schema {
    name: "Balance",
    members: &[
        required(
            "clusters",
            ValueType::ObjectList(&LOAD),
            "loads of the clusters before the move",
        ),
        optional(
            "move",
            ValueType::Object(&BALANCE_MOVE),
            "move that was started; absent if the clusters are equal enough, or no move of one \
             partition makes them more equal",
        ),
    ],
};

/// Starts the move that makes the clusters more equal, if there is one.
pub(crate) fn start(call: &Call) -> Result<Answer, Problem> {
    let placed = placed(call)?;
    let default = BalanceLimits::default();
    let units = call.unsigned("minRequestUnits");
    let limits = BalanceLimits {
        bytes: call.unsigned("minBytes").unwrap_or(default.bytes),
        request_units: units.map_or(default.request_units, |units| units as f64),
        ..default
    };
    let loads = loads(&call.components)?;
    let clusters = cluster_loads(placed, &loads);
    let next = placed.start_balance(&loads, &limits).map_err(refused)?;
    let mut json = object! { "clusters" => clusters };
    if let Some(next) = next {
        json.set("move", move_json(call, &next));
    }
    Answer::json(202, json)
}

/// Starts the move that makes the clusters more equal by the default limits, if there is one.
/// Returns a sentence about the move. Does nothing while another one is under way, and without
/// clusters.
///
/// # Errors
/// A sentence about loads that cannot be read or a move that cannot be started.
pub fn balance_clusters(components: &Components) -> Result<Option<String>, String> {
    let Some(placed) = &components.placement else {
        return Ok(None);
    };
    if placed.clusters().len() < 2 || placed.is_busy() {
        return Ok(None);
    }
    let loads = loads(components).map_err(|error| error.cause_chain())?;
    let next = placed.start_balance(&loads, &BalanceLimits::default());
    let next = next.map_err(|error: StoreError| error.to_string())?;
    Ok(next.map(|one| {
        format!(
            "partition {} moves from cluster '{}' to '{}', because their {} differ",
            one.partition,
            one.from,
            one.to,
            match one.reason {
                BalanceReason::Bytes => "bytes",
                BalanceReason::RequestUnits => "request units",
            }
        )
    }))
}

/// Returns the loads of the physical partitions of all containers.
fn loads(components: &Components) -> Result<Loads, orrery_model::Error> {
    let engine = &components.engine;
    let mut loads = Loads::new();
    for container in engine.every_container() {
        let lineage = container.lineage();
        for partition in engine.partition_inventory(&container)? {
            let range = lineage.get(&partition.id);
            if let Some(storage_id) = range.and_then(|range| range.storage_id) {
                loads.insert(storage_id, load_of(&partition));
            }
        }
    }
    Ok(loads)
}

fn load_of(partition: &PartitionInventory) -> Load {
    let seconds = partition.throughput.seconds.iter();
    let charged: f64 = seconds.map(|second| second.charged.as_ru()).sum();
    Load {
        bytes: partition.bytes.saturating_add(partition.index_bytes),
        request_units: charged / COUNTED_SECONDS,
    }
}

/// Returns the sums of the loads by cluster.
fn cluster_loads(placed: &Arc<PlacedStore>, loads: &Loads) -> Vec<Json> {
    let placements = placed.placements();
    let clusters = placed.clusters();
    let load_json = |name: &str, is_drained: bool| -> Json {
        let own = placements.iter().filter(|one| one.cluster == name);
        let mut sum = Load::default();
        for load in own.filter_map(|one| loads.get(&one.partition)) {
            sum.bytes = sum.bytes.saturating_add(load.bytes);
            sum.request_units += load.request_units;
        }
        let json = object! {
            "name" => name,
            "bytes" => sum.bytes,
            "requestUnits" => sum.request_units,
            "drained" => yes_or_no(is_drained),
        };
        json.into()
    };
    let clusters = clusters.iter();
    clusters
        .map(|one| load_json(&one.name, one.is_drained))
        .collect()
}

fn move_json(call: &Call, next: &BalanceMove) -> Object {
    let mut json = object! {
        "storageId" => next.partition.0,
        "from" => next.from.as_str(),
        "to" => next.to.as_str(),
        "reason" => match next.reason {
            BalanceReason::Bytes => "bytes",
            BalanceReason::RequestUnits => "requestUnits",
        },
    };
    let names = call.engine().partitions_by_storage_id();
    // Each partition with a load is one of a container; it may have been deleted since.
    let unknown = (String::new(), String::new(), 0);
    let (database, container, id) = names.get(&next.partition).unwrap_or(&unknown);
    json.set("database", database.as_str());
    json.set("container", container.as_str());
    json.set("id", id.to_string());
    json
}
