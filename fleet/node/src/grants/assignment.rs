//! The choice of the node that owns a physical partition, from loads alone.
//!
//! The leaseholder grants partitions to nodes one after the other. A grant takes a
//! partition from a loaded node to the node with the least load, if that makes the loads clearly
//! more equal:
//!
//! 1. A partition may go if the receiving node then stays below the former load of the giving node
//!    by a margin, an eighth of the mean load of a node. To go back, the partition would need a
//!    change of loads of twice the margin. Noise of a twentieth changes the difference of two
//!    average nodes by less, so it moves no partition to and fro.
//! 2. The node with the largest load gives first. A node that can give nothing does not keep the
//!    others from giving.
//! 3. The partition goes whose load is nearest to half of the difference of both nodes, without
//!    being above the half. A partition above the half goes only if the node has no other: so a
//!    partition that is hotter than all others stays, and the others leave its node.
//!
//! Each grant makes the larger load of two nodes smaller, so grants come to an end. Then a node
//! with partitions that may go has at most the mean load, plus the smallest of these partitions,
//! plus the margin.

use std::cmp::Reverse;

/// The margin is the mean load of a node, divided by this number.
const MARGIN_DIVISOR: u64 = 8;

/// The load of a physical partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionLoad {
    /// The id of the partition.
    pub partition: u64,
    /// The index of the owner in the list of nodes. The leaseholder has index 0 and owns
    /// the partitions of owners that are not in the list.
    pub owner: usize,
    /// Request units a second, the mean of some seconds.
    pub load: u64,
    /// False while something keeps the partition at its owner.
    pub is_movable: bool,
}

/// A partition and its next owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The id of the partition.
    pub partition: u64,
    /// The index of the next owner in the list of nodes.
    pub to: usize,
}

/// Returns the next change of owner that makes the loads of `nodes` nodes more equal; `None` if
/// they are equal enough, or if no change helps.
///
/// Partitions with less than `least_load` request units a second stay. If `least_load` is 0, an
/// idle partition counts as one request unit a second, so that idle partitions are spread by their
/// number. The result does not depend on the order of `partitions`.
pub fn next_assignment(
    nodes: usize,
    partitions: &[PartitionLoad],
    least_load: u64,
) -> Option<Assignment> {
    // The load of each node is the sum over all its partitions, also over those that stay.
    let least_weight = u64::from(least_load == 0);
    let weight = |one: &PartitionLoad| one.load.max(least_weight);
    let mut loads = vec![0_u64; nodes];
    for one in partitions {
        let load = loads.get_mut(owner(one, nodes))?;
        *load = load.saturating_add(weight(one));
    }

    // The receiving node, and the margin, which is above 0 so that each grant improves something.
    let to = (0..nodes).min_by_key(|node| loads[*node])?;
    let total = loads
        .iter()
        .fold(0, |sum: u64, load| sum.saturating_add(*load));
    let margin = (total / nodes as u64 / MARGIN_DIVISOR).max(1);

    // The candidates, and the order in which they go. Twice the load and the whole difference are
    // compared, because half of an odd difference is no whole number.
    let candidates = partitions.iter().filter_map(|one| {
        let (from, load) = (owner(one, nodes), weight(one));
        let difference = loads[from] - loads[to];
        let helps = difference.saturating_sub(load) >= margin;
        let twice = load.saturating_mul(2);
        let order = (
            Reverse(loads[from]),
            from,
            twice > difference,
            twice.abs_diff(difference),
            one.partition,
        );
        (one.is_movable && one.load >= least_load && helps).then_some(order)
    });
    let (.., partition) = candidates.min()?;
    Some(Assignment { partition, to })
}

/// Returns the index of the node that owns a partition.
fn owner(one: &PartitionLoad, nodes: usize) -> usize {
    if one.owner < nodes { one.owner } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A partition with its id, owner and load, which may move.
    fn row(partition: u64, owner: usize, load: u64) -> PartitionLoad {
        PartitionLoad {
            partition,
            owner,
            load,
            is_movable: true,
        }
    }

    fn rows(list: &[(usize, u64)]) -> Vec<PartitionLoad> {
        let row = |(id, (owner, load)): (usize, &(usize, u64))| row(id as u64, *owner, *load);
        list.iter().enumerate().map(row).collect()
    }

    fn apply(partitions: &mut [PartitionLoad], change: Assignment) {
        for one in partitions.iter_mut() {
            if one.partition == change.partition {
                one.owner = change.to;
            }
        }
    }

    /// Makes changes until there is none, and returns their number.
    fn settle(nodes: usize, partitions: &mut [PartitionLoad], least_load: u64) -> usize {
        let mut steps = 0;
        while let Some(change) = next_assignment(nodes, partitions, least_load) {
            assert!(change.to < nodes, "{change:?}");
            apply(partitions, change);
            steps += 1;
            assert!(steps <= partitions.len() * 2, "{nodes} {partitions:?}");
        }
        steps
    }

    fn loads(nodes: usize, partitions: &[PartitionLoad]) -> Vec<u64> {
        let mut loads = vec![0; nodes];
        for one in partitions {
            loads[owner(one, nodes)] += one.load;
        }
        loads
    }

    /// Random numbers that are the same in each run.
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = (self.0.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1);
            (self.0 >> 33) % limit
        }
    }

    /// Returns a random number of nodes and partitions, with loads that differ a little or by
    /// powers of ten.
    fn random_fleet(random: &mut Random) -> (usize, Vec<PartitionLoad>) {
        let nodes = 1 + random.below(12);
        let spread = random.below(4) as u32;
        let partitions = (0..random.below(nodes * 12)).map(|id| {
            let scale = 10_u64.pow(random.below(u64::from(spread) + 1) as u32);
            // Some owners have gone.
            let owner = random.below(nodes + 2) as usize;
            row(id, owner, 1_000 + random.below(1_000) * scale)
        });
        (nodes as usize, partitions.collect())
    }

    #[test]
    fn one_change_is_chosen_by_loads() {
        type Case = (usize, &'static [(usize, u64)], Option<(u64, usize)>);
        let table: &[Case] = &[
            // Nothing to choose.
            (0, &[(0, 100)], None),
            (1, &[(0, 100), (0, 100)], None),
            (2, &[], None),
            // The partition nearest to half of the difference goes to the emptiest node.
            (2, &[(0, 60), (0, 50), (0, 10)], Some((0, 1))),
            (3, &[(0, 50), (0, 30), (0, 20), (1, 5)], Some((0, 2))),
            // The node with the largest load gives first, and the lower index of equals.
            (3, &[(0, 20), (0, 20), (1, 30), (1, 30)], Some((2, 2))),
            (3, &[(0, 20), (0, 20), (1, 20), (1, 20)], Some((0, 2))),
            // Of equal partitions, that with the lower id goes.
            (2, &[(0, 30), (0, 30), (0, 30)], Some((0, 1))),
            // A partition above the half goes if no other can.
            (2, &[(0, 50), (0, 40), (1, 20)], Some((1, 1))),
            // Equal enough: a move would only change places, or win less than the margin.
            (2, &[(0, 100)], None),
            (2, &[(0, 100), (1, 90)], None),
            (2, &[(0, 100), (0, 5), (1, 92), (1, 4)], None),
            // A node that can give nothing does not keep the others from giving.
            (3, &[(0, 900), (1, 50), (1, 60)], Some((1, 2))),
            // The partition of a node that has gone belongs to the leaseholder.
            (2, &[(7, 50), (0, 50)], Some((0, 1))),
            (2, &[(7, 50), (1, 50)], None),
            (2, &[(7, 50), (1, 50), (1, 50), (1, 50)], Some((1, 0))),
        ];
        for (nodes, list, expected) in table {
            let found = next_assignment(*nodes, &rows(list), 1);
            let found = found.map(|change| (change.partition, change.to));
            assert_eq!(found, *expected, "{nodes} {list:?}");
        }
    }

    #[test]
    fn partitions_that_something_keeps_count_and_stay() {
        let mut partitions = rows(&[(0, 60), (0, 50), (0, 40)]);
        partitions[0].is_movable = false;
        let change = next_assignment(2, &partitions, 1).expect("a change");
        assert_eq!(change.partition, 1);
        for one in &mut partitions {
            one.is_movable = false;
        }
        assert_eq!(next_assignment(2, &partitions, 0), None);
    }

    #[test]
    fn changes_end_soon_and_leave_equal_loads_in_any_order() {
        let mut random = Random(11);
        for _ in 0..2_000 {
            let (nodes, mut partitions) = random_fleet(&mut random);
            // The order of the list has no influence.
            let mut reversed: Vec<_> = partitions.iter().rev().cloned().collect();
            settle(nodes, &mut partitions, 1);
            settle(nodes, &mut reversed, 1);
            reversed.reverse();
            assert_eq!(partitions, reversed);

            let largest = partitions.iter().map(|one| one.load).max().unwrap_or(0);
            let loads = loads(nodes, &partitions);
            let mean = loads.iter().sum::<u64>() / nodes as u64;
            let most = loads.iter().max().copied().unwrap_or(0);
            let limit = mean + largest + mean / MARGIN_DIVISOR + 1;
            assert!(most <= limit, "{loads:?} {partitions:?}");
        }
    }

    #[test]
    fn partitions_leave_the_leaseholder_once_each() {
        for (nodes, count) in [(2, 8), (10, 40), (100, 400), (10, 1_000)] {
            let mut random = Random(5);
            let list = (0..count).map(|id| row(id, 0, 900 + random.below(200)));
            let mut partitions: Vec<PartitionLoad> = list.collect();
            let steps = settle(nodes, &mut partitions, 100);
            assert!(steps < count as usize, "{steps} of {count}");
        }
    }

    #[test]
    fn noise_of_a_twentieth_moves_no_partition_back() {
        let mut random = Random(3);
        for _ in 0..300 {
            let (nodes, mut partitions) = random_fleet(&mut random);
            settle(nodes, &mut partitions, 1);
            let mut former_owners = BTreeSet::new();
            for _ in 0..200 {
                let mut noisy = partitions.clone();
                for one in &mut noisy {
                    one.load = one.load * (950 + random.below(101)) / 1_000;
                }
                let Some(change) = next_assignment(nodes, &noisy, 1) else {
                    continue;
                };
                let moved = partitions
                    .iter()
                    .find(|one| one.partition == change.partition);
                let from = moved.expect("the partition").owner;
                former_owners.insert((change.partition, from));
                let goes_back = former_owners.contains(&(change.partition, change.to));
                assert!(!goes_back, "{change:?} {partitions:?}");
                apply(&mut partitions, change);
            }
            assert!(former_owners.len() <= partitions.len() * 2);
        }
    }

    #[test]
    fn the_hottest_partition_stays_and_the_others_leave_its_node() {
        let mut list = vec![(0, 5_000)];
        list.extend([(0, 100); 20]);
        let mut partitions = rows(&list);
        settle(4, &mut partitions, 1);
        let at_leaseholder = partitions.iter().filter(|one| one.owner == 0);
        assert_eq!(
            at_leaseholder.map(|one| one.partition).collect::<Vec<_>>(),
            [0]
        );
        let others = &loads(4, &partitions)[1..];
        assert!(others.iter().all(|load| *load >= 600), "{others:?}");

        // Alone at another node, the partition stays there too.
        let partitions = rows(&[(2, 5_000), (0, 100), (1, 100), (3, 100)]);
        assert_eq!(next_assignment(4, &partitions, 1), None);
    }

    #[test]
    fn idle_partitions_are_spread_by_their_number_if_no_least_load_is_set() {
        for load in [0, 1, 700] {
            let mut partitions = rows(&[(0, load); 23]);
            settle(5, &mut partitions, 0);
            let count = |node| partitions.iter().filter(|one| one.owner == node).count();
            let counts: Vec<usize> = (0..5).map(count).collect();
            let is_even = counts.iter().all(|count| (4..=5).contains(count));
            assert!(is_even, "{load}: {counts:?}");
        }
    }

    #[test]
    fn partitions_below_the_least_load_stay() {
        assert_eq!(next_assignment(5, &rows(&[(0, 0); 23]), 100), None);
        assert_eq!(next_assignment(5, &rows(&[(0, 99); 23]), 100), None);
        let list = [(0, 99), (0, 99), (0, 100), (0, 99)];
        let change = next_assignment(2, &rows(&list), 100).expect("a change");
        assert_eq!(change.partition, 2);
        assert_eq!(settle(2, &mut rows(&list), 100), 1);
    }
}
