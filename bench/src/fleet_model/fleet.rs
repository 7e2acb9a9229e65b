//! The partitions of a modelled fleet: their shares of the requests, their owners and clusters.

use super::FleetModelArguments;
use crate::random::Random;
use orrery_node::{PartitionLoad, next_assignment};

/// The part of the fleet's cores that are busy while partitions are granted, which determines the
/// request units of the loads.
const BUSY_PART: f64 = 0.5;

/// A fleet whose loads are balanced.
pub(super) struct Fleet {
    /// Number of nodes.
    pub(super) nodes: usize,
    /// Number of clusters.
    pub(super) clusters: usize,
    /// The part of all requests that each partition gets. The sum is 1.
    pub(super) shares: Vec<f64>,
    /// The node that owns each partition; 0 is the leaseholder.
    pub(super) owners: Vec<usize>,
    /// Number of grants until the loads were balanced.
    pub(super) grants: usize,
}

impl Fleet {
    /// Creates partitions that the leaseholder owns, and grants them until no grant helps. The
    /// popularity of a key is its rank to the power of `-exponent`.
    pub(super) fn balanced(arguments: &FleetModelArguments, nodes: usize, exponent: f64) -> Fleet {
        let partitions = nodes * arguments.partitions_per_node as usize;
        let mut fleet = Fleet {
            nodes,
            clusters: nodes.div_ceil(arguments.nodes_per_cluster as usize),
            shares: shares(arguments, partitions, exponent),
            owners: vec![0; partitions],
            grants: 0,
        };
        fleet.grant(arguments);
        fleet
    }

    /// Grants partitions by their loads. All partitions have the same mix of requests, so each
    /// request counts as one request unit.
    fn grant(&mut self, arguments: &FleetModelArguments) {
        let cpu_us = self.nodes as f64 * arguments.node_cpu_us();
        let units = BUSY_PART * cpu_us / arguments.owner_cpu_us();
        let load = |(partition, share): (usize, &f64)| PartitionLoad {
            partition: partition as u64,
            owner: 0,
            load: (share * units) as u64,
            is_movable: true,
        };
        let mut loads: Vec<_> = self.shares.iter().enumerate().map(load).collect();
        while let Some(next) = next_assignment(self.nodes, &loads, arguments.least_load) {
            loads[next.partition as usize].owner = next.to;
            self.grants += 1;
        }
        self.owners = loads.iter().map(|one| one.owner).collect();
    }

    /// Returns the part of all requests whose partitions each node owns.
    pub(super) fn node_shares(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.nodes];
        for (owner, share) in self.owners.iter().zip(&self.shares) {
            sums[*owner] += share;
        }
        sums
    }

    /// Returns the cluster of a partition. Clusters get partitions in turn.
    pub(super) fn cluster_of(&self, partition: usize) -> usize {
        partition % self.clusters
    }

    /// Returns the share of the busiest node as a multiple of the mean.
    pub(super) fn largest_by_mean(&self) -> f64 {
        self.node_shares().into_iter().fold(0.0, f64::max) * self.nodes as f64
    }

    /// Returns the part of the requests that arrive at a node which does not own their partition.
    pub(super) fn forwarded(&self) -> f64 {
        1.0 - 1.0 / self.nodes as f64
    }
}

/// Returns the part of all requests that each of a number of partitions gets. Each key is in a
/// random partition, as its hash would place the key.
fn shares(arguments: &FleetModelArguments, partitions: usize, exponent: f64) -> Vec<f64> {
    let mut random = Random::new(arguments.seed);
    let mut shares = vec![0.0; partitions];
    let mut sum = 0.0;
    for rank in 1..=arguments.keys {
        let popularity = (rank as f64).powf(-exponent);
        shares[random.below(partitions)] += popularity;
        sum += popularity;
    }
    for share in &mut shares {
        *share /= sum;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::super::tests::arguments;
    use super::*;

    #[test]
    fn a_fleet_is_balanced_but_for_its_hottest_partition() {
        let arguments = arguments("");
        for exponent in [0.0, 0.99] {
            let fleet = Fleet::balanced(&arguments, 50, exponent);
            let sum: f64 = fleet.node_shares().iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
            let hottest = fleet.shares.iter().copied().fold(0.0, f64::max);
            let largest = fleet.largest_by_mean() / 50.0;
            assert!(largest <= hottest.max(1.5 / 50.0), "{largest} {hottest}");
            assert!(fleet.grants < 400, "{}", fleet.grants);
        }
    }
}
