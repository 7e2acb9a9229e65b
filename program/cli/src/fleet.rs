//! `orrery nodes`, `orrery clusters` and `orrery partitions`: requests to the management API of a
//! node.

use crate::command::{
    ClustersAction, ClustersArguments, NodesAction, NodesArguments, PartitionsAction,
    PartitionsArguments,
};
use crate::management::{Printed, table_of, with};
use orrery_server::Failure;
use orrery_tools::manage::{ManageError, Manager, list_of, path, text};
use serde_json::{Map, Value, json};

const NODE_COLUMNS: [&str; 7] = [
    "name",
    "region",
    "address",
    "holdsLease",
    "partitions",
    "silentMs",
    "clockAheadMs",
];
const CLUSTER_COLUMNS: [&str; 7] = [
    "name",
    "partitions",
    "bytes",
    "drained",
    "draining",
    "drainFailure",
    "writeFailure",
];
const LOAD_COLUMNS: [&str; 4] = ["name", "bytes", "requestUnits", "drained"];
const PLACEMENT_COLUMNS: [&str; 8] = [
    "storageId",
    "database",
    "container",
    "id",
    "cluster",
    "state",
    "other",
    "failure",
];

/// Runs an action on nodes.
///
/// # Errors
/// As [`run_clusters`].
pub(crate) fn run_nodes(arguments: &NodesArguments) -> Result<(), Failure> {
    match &arguments.action {
        NodesAction::List { management } => with(management, async |manager| {
            let answer = manager.ask("GET", "/nodes", None).await?;
            let table = table_of(&list_of(&answer, "nodes"), &NODE_COLUMNS);
            Ok(Printed::of(answer, table))
        }),
        NodesAction::Lead { node, management } => with(management, async |manager| {
            let path = path(&["nodes", node, "lead"]);
            let answer = manager.ask("POST", &path, None).await?;
            let note = format!("the node '{node}' gets the lease as soon as this one has ended");
            Ok(Printed::one(answer, &NODE_COLUMNS).with(note))
        }),
    }
}

/// Runs an action on clusters.
///
/// # Errors
/// [`Failure::Usage`] for options that cannot be used; [`Failure::Failed`] if the server refuses,
/// does not answer, or a move that is waited for fails.
pub(crate) fn run_clusters(arguments: &ClustersArguments) -> Result<(), Failure> {
    // Each action is one request; those that start work can wait for the end of the work.
    match &arguments.action {
        ClustersAction::List { management } => with(management, async |manager| {
            let answer = manager.ask("GET", "/clusters", None).await?;
            let table = table_of(&list_of(&answer, "clusters"), &CLUSTER_COLUMNS);
            Ok(Printed::of(answer, table))
        }),
        ClustersAction::Drain {
            cluster,
            wait,
            management,
        } => with(management, async |manager| {
            drain(manager, cluster, *wait).await
        }),
        ClustersAction::Undrain {
            cluster,
            management,
        } => with(management, async |manager| {
            let path = path(&["clusters", cluster, "drain"]);
            let answer = manager.ask("DELETE", &path, None).await?;
            Ok(Printed::one(answer, &CLUSTER_COLUMNS))
        }),
        ClustersAction::Balance {
            min_bytes,
            min_request_units,
            wait,
            management,
        } => with(management, async |manager| {
            // A limit that is left out is that of the server.
            let mut limits = Map::new();
            for (name, value) in [
                ("minBytes", min_bytes),
                ("minRequestUnits", min_request_units),
            ] {
                if let Some(value) = value {
                    limits.insert(name.to_owned(), (*value).into());
                }
            }
            balance(manager, limits.into(), *wait).await
        }),
    }
}

/// Runs an action on physical partitions.
///
/// # Errors
/// As [`run_clusters`].
pub(crate) fn run_partitions(arguments: &PartitionsArguments) -> Result<(), Failure> {
    match &arguments.action {
        PartitionsAction::List {
            database,
            container,
            management,
        } => with(management, async |manager| {
            // The management API knows no filter, so the rows are chosen here.
            let answer = manager.ask("GET", "/placements", None).await?;
            let is_named = |one: &Value, member: &str, name: &Option<String>| {
                name.as_ref()
                    .is_none_or(|name| one[member] == name.as_str())
            };
            let mut found = list_of(&answer, "placements");
            found.retain(|one| {
                is_named(one, "database", database) && is_named(one, "container", container)
            });
            let table = table_of(&found, &PLACEMENT_COLUMNS);
            Ok(Printed::of(json!({ "placements": found }), table))
        }),
        PartitionsAction::Move {
            id,
            database,
            container,
            to,
            wait,
            management,
        } => with(management, async |manager| {
            let path = [
                "dbs",
                database,
                "colls",
                container,
                "partitions",
                &id.to_string(),
                "move",
            ];
            move_partition(manager, &path, to, *wait).await
        }),
    }
}

/// Starts a drain, and waits for its end if asked.
async fn drain(manager: &Manager, cluster: &str, wait: bool) -> Result<Printed, ManageError> {
    let path = path(&["clusters", cluster, "drain"]);
    let started = manager.ask("POST", &path, None).await?;
    if !wait {
        let note = "started; 'orrery clusters list' shows the progress".to_owned();
        return Ok(Printed::one(started, &CLUSTER_COLUMNS).with(note));
    }
    let drained = manager.wait_for_drain(cluster).await?;
    let note = format!("the cluster '{cluster}' has no partitions any more");
    Ok(Printed::one(drained, &CLUSTER_COLUMNS).with(note))
}

/// Starts the move of a partition, and waits for its end if asked.
async fn move_partition(
    manager: &Manager,
    parts: &[&str],
    to: &str,
    wait: bool,
) -> Result<Printed, ManageError> {
    let body = json!({ "cluster": to });
    let started = manager.ask("POST", &path(parts), Some(&body)).await?;
    if !wait {
        let note = "started; 'orrery partitions list' shows the progress".to_owned();
        return Ok(Printed::one(started, &PLACEMENT_COLUMNS).with(note));
    }
    let storage_id = started["storageId"].as_u64().unwrap_or_default();
    let moved = manager.wait_for_move(storage_id, to).await?;
    let note = format!("the partition is in the cluster '{to}'");
    Ok(Printed::one(moved, &PLACEMENT_COLUMNS).with(note))
}

/// Starts a round of the balance, and waits for its move if asked.
async fn balance(manager: &Manager, limits: Value, wait: bool) -> Result<Printed, ManageError> {
    let answer = manager
        .ask("POST", "/clusters/balance", Some(&limits))
        .await?;
    let next = &answer["move"];
    let note = match next.as_object() {
        None => "the clusters are equal enough: no partition moves".to_owned(),
        Some(_) => {
            let reason = match text(next, "reason") {
                "requestUnits" => "request units",
                other => other,
            };
            let (from, to) = (text(next, "from"), text(next, "to"));
            let verb = if wait { "has moved" } else { "moves" };
            if wait {
                let storage_id = next["storageId"].as_u64().unwrap_or_default();
                manager.wait_for_move(storage_id, to).await?;
            }
            format!(
                "partition {} of {}/{} {verb} from '{from}' to '{to}', because the {reason} differ",
                text(next, "id"),
                text(next, "database"),
                text(next, "container"),
            )
        }
    };
    let table = table_of(&list_of(&answer, "clusters"), &LOAD_COLUMNS);
    Ok(Printed::of(answer, table).with(note))
}
