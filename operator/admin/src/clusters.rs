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
pub(crate) fn placed(call: &Call) -> Result<&Arc<PlacedStore>, Problem> {
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
pub(crate) fn refused(error: StoreError) -> Problem {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;
    use crate::stage::{Components, Stage};
    use orrery_engine::request::{Id, Throughput};
    use orrery_engine::{Engine, EngineOptions};
    use orrery_gateway::{Account, Cors, Gateway, Hosts, Keys, Log, LogFormat, LogLevel, Options};
    use orrery_model::json::parse;
    use orrery_model::memory::MemoryBudget;
    use orrery_model::world::{SeededWorld, ShiftedWorld};
    use orrery_placement::NamedCluster;
    use orrery_script::{HostCommand, PoolOptions};
    use orrery_storage::MemoryStore;
    use orrery_test_wait::wait_until;
    use std::time::Instant;

    const ITEMS: &str = r#"{"id":"items","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;

    fn object(text: &str) -> Object {
        match parse(text.as_bytes()) {
            Ok(Json::Object(object)) => object,
            other => panic!("{text} is no object: {other:?}"),
        }
    }

    /// Returns the components of a server over two clusters, with one container.
    fn components() -> Arc<Components> {
        let clusters = ["a", "b"].map(|name| NamedCluster {
            name: name.to_owned(),
            store: Arc::new(MemoryStore::new()),
            drained: false,
        });
        let placement = Arc::new(PlacedStore::open(clusters.into()).expect("two clusters"));
        let world = Arc::new(SeededWorld::new(1_767_225_600_000, 1));
        let command = HostCommand {
            program: "none".into(),
            arguments: Vec::new(),
        };
        let options = EngineOptions::new(PoolOptions::new(command));
        let engine = Engine::open(placement.clone(), options, world.clone());
        let engine = Arc::new(engine.expect("an engine"));
        let created = engine.create_database(&object(r#"{"id":"db"}"#), None);
        created.result.expect("a database");
        let database = engine.database(Id::Name("db")).expect("a database");
        let throughput = Some(Throughput::Manual(400));
        let created = engine.create_container(&database, &object(ITEMS), throughput);
        created.result.expect("a container");
        let gateway = Gateway::new(
            engine.clone(),
            Options {
                keys: Keys::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=").expect("a key"),
                directory: None,
                account: Account::default(),
                world: world.clone(),
                log: Arc::new(Log::new(LogLevel::Error, LogFormat::Text, std::io::sink())),
                memory: MemoryBudget::unlimited(),
                hosts: Hosts::default(),
                cors: Cors::default(),
            },
        );
        Arc::new(Components {
            engine,
            gateway: Arc::new(gateway),
            clock: Arc::new(ShiftedWorld::new(world)),
            data_dir: None,
            placement: Some(placement),
            fleet: None,
            jobs: Arc::default(),
            continuous_backup: None,
            started: Instant::now(),
        })
    }

    /// Answers a request by its route. Returns status and body, or status and message.
    fn call(components: &Arc<Components>, method: &str, path: &str, body: &str) -> (u16, Json) {
        let found = routes::find(method, path).expect("a route");
        let answer = found.route.handler.run(
            Stage::Serving(components.clone()),
            found.path_parameters,
            object(body),
            Arc::default(),
        );
        match answer {
            Ok(answer) => (answer.status, Json::Object(object(&answer.body))),
            Err(problem) => (problem.status, problem.message.into()),
        }
    }

    /// Returns the placement of the only physical partition.
    fn placement(components: &Arc<Components>) -> Object {
        let (_, list) = call(components, "GET", "/placements", "{}");
        let list = list.get("placements").and_then(Json::as_array);
        let mut items = list.into_iter().flatten().filter_map(Json::as_object);
        let item = items.find(|one| one.get("container").is_some());
        item.expect("the container's partition").clone()
    }

    fn member<'a>(object: &'a Object, name: &str) -> &'a str {
        object.get(name).and_then(Json::as_str).expect(name)
    }

    /// Waits until a cluster has the partition and no work is left.
    fn wait_for(components: &Arc<Components>, cluster: &str) {
        wait_until("the partition is settled", || {
            let one = placement(components);
            assert!(one.get("failure").is_none(), "{}", Json::Object(one));
            match (member(&one, "cluster"), member(&one, "state")) {
                (place, "settled") if place == cluster => Ok(()),
                _ => Err(Json::Object(one).to_text()),
            }
        });
    }

    #[test]
    fn a_partition_is_moved_and_a_cluster_is_drained() {
        let components = components();
        let start = placement(&components);
        assert_eq!(
            (member(&start, "database"), member(&start, "id")),
            ("db", "0")
        );
        let before = member(&start, "cluster");
        let to = if before == "a" { "b" } else { "a" };
        let path = "/dbs/db/colls/items/partitions/0/move";
        let body = format!(r#"{{"cluster":"{to}"}}"#);
        assert_eq!(call(&components, "POST", path, &body).0, 202);
        wait_for(&components, to);
        assert_eq!(call(&components, "POST", path, r#"{"cluster":"b"}"#).0, 202);
        wait_for(&components, "b");

        assert_eq!(call(&components, "POST", "/clusters/b/drain", "{}").0, 202);
        wait_for(&components, "a");
        let (status, list) = call(&components, "GET", "/clusters", "{}");
        let clusters = list
            .get("clusters")
            .and_then(Json::as_array)
            .expect("a list");
        let of_b = clusters[1].as_object().expect("a cluster");
        assert_eq!((status, member(of_b, "drained")), (200, "yes"));
        assert_eq!(of_b.get("partitions").and_then(Json::as_i64), Some(0));
        let (status, of_b) = call(&components, "DELETE", "/clusters/b/drain", "{}");
        let drained = of_b.get("drained").and_then(Json::as_str);
        assert_eq!((status, drained), (200, Some("no")));
    }

    #[test]
    fn a_round_of_the_balance_tells_the_loads_and_the_move() {
        let components = components();
        // Clusters without items are equal.
        let (status, round) = call(&components, "POST", "/clusters/balance", "{}");
        assert_eq!((status, round.get("move")), (202, None));
        let loads = round.get("clusters").and_then(Json::as_array);
        assert_eq!(loads.map(<[Json]>::len), Some(2));
        let (status, message) = call(&components, "POST", "/clusters/balance", "{}");
        assert_eq!(status, 202, "{message:?}");
        assert_eq!(crate::balance_clusters(&components), Ok(None));
    }

    #[test]
    fn what_cannot_be_moved_is_refused_with_the_reason() {
        let components = components();
        for (method, path, body, status, word) in [
            ("POST", "/clusters/z/drain", "{}", 404, "'z'"),
            ("DELETE", "/clusters/z/drain", "{}", 404, "'z'"),
            ("POST", "/clusters/a/drain", "{}", 409, "catalog"),
            (
                "POST",
                "/dbs/db/colls/items/partitions/7/move",
                r#"{"cluster":"a"}"#,
                404,
                "'7'",
            ),
            (
                "POST",
                "/dbs/db/colls/items/partitions/0/move",
                r#"{"cluster":"z"}"#,
                404,
                "'z'",
            ),
        ] {
            let (found, message) = call(&components, method, path, body);
            let message = message.as_str().unwrap_or_default();
            assert_eq!(found, status, "{path}: {message}");
            assert!(message.contains(word), "{path}: {message}");
        }
    }
}
