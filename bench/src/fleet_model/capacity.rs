//! The requests a second at which the busiest node or the busiest cluster of a modelled fleet is
//! saturated.
//!
//! A cluster has two measured rates of creates: one for commits of one create each, and one for
//! commits of many. The cost of a create is the second; the rest of the first is the cost of a
//! commit. The creates of a partition that arrive during a commit become the next commit.

use super::FleetModelArguments;
use super::fleet::Fleet;

/// The part of a node's load from which one partition is its load.
const ONE_PARTITION: f64 = 0.9;
/// Halvings of the interval in which the saturation of clusters is searched.
const HALVINGS: usize = 60;

/// The resource that is saturated first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The cores of a node with several partitions of weight.
    NodeCpu,
    /// The cores of a node with one partition, which no grant can share.
    HottestPartition,
    /// A cluster, mostly by reads.
    ClusterReads,
    /// A cluster, mostly by commits.
    ClusterCommits,
}

impl Limit {
    /// Returns the name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Limit::NodeCpu => "CPU of a node",
            Limit::HottestPartition => "hottest partition",
            Limit::ClusterReads => "cluster's reads",
            Limit::ClusterCommits => "cluster's commits",
        }
    }
}

/// The state of a fleet at saturation.
pub(super) struct Saturation {
    /// Requests a second of the fleet.
    pub(super) rate: f64,
    /// The resource that is saturated.
    pub(super) limit: Limit,
    /// The used part of the busiest node's cores, from 0 to 1.
    pub(super) node_use: f64,
    /// The used part of the busiest cluster, from 0 to 1.
    pub(super) cluster_use: f64,
}

/// The used part of a cluster.
#[derive(Clone, Copy, Default)]
struct ClusterUse {
    reads: f64,
    commits: f64,
}

impl ClusterUse {
    fn sum(&self) -> f64 {
        self.reads + self.commits
    }
}

/// Returns the saturation of a fleet.
pub(super) fn saturation(arguments: &FleetModelArguments, fleet: &Fleet) -> Saturation {
    let (node, of_nodes) = saturated_node(arguments, fleet);
    let at_nodes = busiest_cluster(arguments, fleet, of_nodes);
    if at_nodes.sum() <= 1.0 {
        return Saturation {
            rate: of_nodes,
            limit: node_limit(fleet, node),
            node_use: 1.0,
            cluster_use: at_nodes.sum(),
        };
    }

    // The use of a cluster grows with the rate, but not in proportion: commits grow by groups.
    let (mut low, mut high) = (0.0, of_nodes);
    for _ in 0..HALVINGS {
        let middle = (low + high) / 2.0;
        match busiest_cluster(arguments, fleet, middle).sum() <= 1.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    let busiest = busiest_cluster(arguments, fleet, low);
    Saturation {
        rate: low,
        limit: match busiest.reads > busiest.commits {
            true => Limit::ClusterReads,
            false => Limit::ClusterCommits,
        },
        node_use: low / of_nodes,
        cluster_use: busiest.sum(),
    }
}

/// Returns the node that is saturated first, and the requests a second of the fleet then.
fn saturated_node(arguments: &FleetModelArguments, fleet: &Fleet) -> (usize, f64) {
    let nodes = fleet.nodes as f64;
    let rate = |(node, share): (usize, f64)| {
        // A node gets an equal part of the requests of clients, and forwards those for others.
        let forwarded = (1.0 - share) / nodes;
        let cpu_us = share * arguments.owner_cpu_us() + forwarded * arguments.forward_cpu_us;
        let polls_us = match node {
            0 => arguments.polls_cpu_us(fleet.nodes),
            _ => 0.0,
        };
        (node, (arguments.node_cpu_us() - polls_us) / cpu_us)
    };
    let rates = fleet.node_shares().into_iter().enumerate().map(rate);
    let least = rates.min_by(|a, b| a.1.total_cmp(&b.1));
    least.unwrap_or((0, 0.0))
}

/// Returns the limit of a fleet whose cores of `node` are saturated.
fn node_limit(fleet: &Fleet, node: usize) -> Limit {
    let owned = fleet.owners.iter().zip(&fleet.shares);
    let owned = owned.filter(|(owner, _)| **owner == node);
    let (sum, largest) = owned.fold((0.0, 0.0), |(sum, largest), (_, share)| {
        (sum + share, f64::max(largest, *share))
    });
    // In a fleet with one partition for each node, all nodes are alike.
    let is_hot = largest > 2.0 / fleet.nodes as f64;
    match is_hot && largest >= sum * ONE_PARTITION {
        true => Limit::HottestPartition,
        false => Limit::NodeCpu,
    }
}

/// Returns the use of the busiest cluster at a number of requests a second of the fleet.
fn busiest_cluster(arguments: &FleetModelArguments, fleet: &Fleet, rate: f64) -> ClusterUse {
    let mut clusters = vec![ClusterUse::default(); fleet.clusters];
    for (partition, share) in fleet.shares.iter().enumerate() {
        let cluster = &mut clusters[fleet.cluster_of(partition)];
        let requests = share * rate / arguments.cluster_speed;
        cluster.reads += requests * arguments.reads / arguments.cluster_reads;
        let creates = share * rate * (1.0 - arguments.reads);
        cluster.commits += creates_use(arguments, creates) / arguments.cluster_speed;
    }
    let busiest = clusters
        .into_iter()
        .max_by(|a, b| a.sum().total_cmp(&b.sum()));
    busiest.unwrap_or_default()
}

/// Returns the part of a cluster of the measured speed that creates of one partition take.
fn creates_use(arguments: &FleetModelArguments, creates: f64) -> f64 {
    let single = 1.0 / arguments.cluster_commits;
    let grouped = 1.0 / arguments.cluster_grouped_creates;
    let during_a_commit = creates * arguments.commit_p50_ms / 1e3;
    let in_one_commit = during_a_commit.min(arguments.group).max(1.0);
    // The seconds of a commit without creates, and of a create without a commit, are those that
    // give both measured rates.
    let commit = (single - grouped).max(0.0) / (1.0 - 1.0 / arguments.group.max(2.0));
    let create = (single - commit).max(0.0);
    creates * (commit / in_one_commit + create)
}

#[cfg(test)]
mod tests {
    use super::super::tests::arguments;
    use super::*;

    #[test]
    fn the_cost_of_creates_gives_the_measured_rates() {
        let arguments = arguments("--commit-p50-ms 4.2");
        // One create a second waits for no other, and all of one partition fill a group.
        let single = creates_use(&arguments, 1.0);
        assert!((single * 4_826.0 - 1.0).abs() < 1e-9, "{single}");
        let grouped = creates_use(&arguments, 15_577.0);
        assert!((grouped - 1.0).abs() < 1e-9, "{grouped}");
    }

    #[test]
    fn the_use_of_a_cluster_never_falls_when_creates_grow() {
        let arguments = arguments("");
        let uses = (0..2_000).map(|step| creates_use(&arguments, f64::from(step) * 20.0));
        assert!(uses.is_sorted());
    }
}
