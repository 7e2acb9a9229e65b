//! The nodes of a fleet, and the change of the one that serves.
//!
//! A server that is no node answers 409 to all of these.

use crate::call::{Answer, Call};
use crate::problem::Problem;
use crate::schema::{COUNT, Schema, ValueType, YES_OR_NO, optional, required, yes_or_no};
use crate::stage::{self, Components, Fleet, FleetNode, Stage};
use orrery_model::{Json, Object, object};
use std::sync::Arc;

/// A node.
pub(crate) const NODE: Schema = Schema {
    name: "Node",
    members: &[
        required("name", ValueType::Text, "name of the node"),
        optional("region", ValueType::Text, "region of the node"),
        required(
            "address",
            ValueType::Text,
            "address at which other nodes reach the node",
        ),
        optional(
            "clusters",
            ValueType::TextList,
            "clusters in the cluster file of the node, if the node has told them",
        ),
        required(
            "holdsLease",
            YES_OR_NO,
            "yes for the leaseholder; the others forward requests to that node",
        ),
        required(
            "partitions",
            COUNT,
            "physical partitions that the node owns: it carries out their requests",
        ),
        required(
            "silentMs",
            COUNT,
            "milliseconds since the node was heard of; a node is listed for six seconds",
        ),
        optional(
            "clockAheadMs",
            ValueType::Integer(i64::MIN, i64::MAX),
            "milliseconds by which the clock of the node is ahead of the leaseholder's, negative \
             if it is behind; only if they are more than five seconds. Above a minute the node \
             owns no partitions",
        ),
    ],
};

/// Response of [`list`].
pub(crate) const LIST: Schema = Schema {
    name: "Nodes",
    members: &[required(
        "nodes",
        ValueType::ObjectList(&NODE),
        "live nodes in the order of their names",
    )],
};

/// The least difference of two clocks that is listed: hellos take some time.
const LEAST_CLOCK_MS: u64 = 5_000;

/// Lists the live nodes. A node that forwards requests lists them too.
pub(crate) fn list(stage: Stage) -> Result<Answer, Problem> {
    let nodes = match stage {
        Stage::Recovering => return Err(stage::recovering()),
        Stage::Forwarding(fleet, _) => fleet.nodes(),
        Stage::Serving(components) | Stage::Draining(components) => fleet(&components)?.nodes(),
    };
    let nodes: Vec<Json> = nodes.iter().map(|node| node_json(node).into()).collect();
    Answer::json(200, object! { "nodes" => nodes })
}

/// Gives the lease of the account to another node.
pub(crate) fn lead(call: &Call) -> Result<Answer, Problem> {
    let (fleet, name) = (fleet(&call.components)?, call.path_parameter(0));
    let nodes = fleet.nodes();
    let node = nodes
        .iter()
        .find(|node| node.name == name)
        .ok_or_else(|| Problem::not_found(format!("there is no live node '{name}'")))?;
    if node.holds_lease {
        let message = format!("the node '{name}' holds the lease of the account already");
        return Err(Problem::new(409, "Refused", message));
    }
    // The node would end at once, and the fleet would be without a leaseholder meanwhile.
    let clusters = nodes
        .iter()
        .filter(|one| one.holds_lease)
        .flat_map(|one| &one.clusters);
    let mut clusters = clusters.filter(|_| !node.clusters.is_empty());
    if let Some(cluster) = clusters.find(|cluster| !node.clusters.contains(cluster)) {
        let message = format!(
            "the node '{name}' does not know the cluster '{cluster}': start it again with the \
             present cluster file"
        );
        return Err(Problem::new(409, "Refused", message));
    }
    if let Some(sentence) = &node.wrong_clock {
        return Err(Problem::new(409, "Refused", sentence.clone()));
    }
    fleet.hand_over(name);
    Answer::json(202, node_json(node))
}

fn fleet(components: &Components) -> Result<&Arc<dyn Fleet>, Problem> {
    components.fleet.as_ref().ok_or_else(|| {
        let message = "this server has its own data, so there are no nodes: nodes are started with \
                       --store postgres";
        Problem::new(409, "NoNodes", message)
    })
}

fn node_json(node: &FleetNode) -> Object {
    let mut json = object! {
        "name" => node.name.as_str(),
        "address" => node.address.as_str(),
        "holdsLease" => yes_or_no(node.holds_lease),
        "partitions" => node.partitions,
        "silentMs" => node.silent_ms,
    };
    if let Some(region) = &node.region {
        json.set("region", region.as_str());
    }
    if node.clock_ahead_ms.unsigned_abs() > LEAST_CLOCK_MS {
        json.set("clockAheadMs", node.clock_ahead_ms);
    }
    if !node.clusters.is_empty() {
        let names = node.clusters.iter().map(|name| Json::from(name.as_str()));
        json.set("clusters", names.collect::<Vec<_>>());
    }
    json
}
