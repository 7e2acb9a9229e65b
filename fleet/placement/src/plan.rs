//! The choice of the next move that makes clusters more equal, from figures alone.
//!
//! Bytes come first: while the fullest and the emptiest cluster differ by more than the limit, the
//! partition of the fullest moves whose bytes are nearest to half of the difference. Only then
//! request units count, in the same way, and only by moves that keep the bytes within their limit.
//! Each move makes a difference smaller, so that repeated rounds come to an end.

use orrery_storage::PartitionId;
use std::collections::BTreeMap;

/// The load of a partition.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Load {
    /// Bytes of items and index.
    pub bytes: u64,
    /// Request units per second.
    pub request_units: f64,
}

/// The loads of partitions. A partition without one is not moved.
pub type Loads = BTreeMap<PartitionId, Load>;

/// The differences of two clusters that are left as they are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BalanceLimits {
    /// Bytes.
    pub bytes: u64,
    /// Request units per second.
    pub request_units: f64,
    /// Part of the larger cluster's load, from 0 to 1. A difference counts if it is above this part
    /// and above the absolute limit.
    pub part: f64,
}

impl Default for BalanceLimits {
    /// Returns 1 GiB, 1,000 RU/s and a fifth.
    fn default() -> BalanceLimits {
        BalanceLimits {
            bytes: 1 << 30,
            request_units: 1_000.0,
            part: 0.2,
        }
    }
}

/// The reason of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BalanceReason {
    /// The bytes of two clusters differ.
    Bytes,
    /// The request units of two clusters differ.
    RequestUnits,
}

/// A move that makes two clusters more equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BalanceMove {
    /// The partition.
    pub partition: PartitionId,
    /// The cluster that has it.
    pub from: String,
    /// The cluster that gets it.
    pub to: String,
    /// The figure that is made more equal.
    pub reason: BalanceReason,
}

/// A cluster of a plan.
#[derive(Clone, Debug)]
pub(crate) struct PlannedCluster {
    pub(crate) name: String,
    /// The cluster gets no further partitions.
    pub(crate) is_drained: bool,
    /// The partitions that may move, and if their last move failed.
    pub(crate) partitions: Vec<(PartitionId, bool)>,
    /// The sum over all partitions.
    pub(crate) load: Load,
}

impl BalanceReason {
    fn of(self, load: &Load) -> f64 {
        match self {
            BalanceReason::Bytes => load.bytes as f64,
            BalanceReason::RequestUnits => load.request_units,
        }
    }

    /// Returns the largest difference to `larger` that is left as it is.
    fn limit(self, limits: &BalanceLimits, larger: f64) -> f64 {
        let absolute = match self {
            BalanceReason::Bytes => limits.bytes as f64,
            BalanceReason::RequestUnits => limits.request_units,
        };
        absolute.max(larger * limits.part)
    }
}

/// Returns the next move, or `None` if the clusters are equal enough or no move helps.
pub(crate) fn next_move(
    clusters: &[PlannedCluster],
    loads: &Loads,
    limits: &BalanceLimits,
) -> Option<BalanceMove> {
    let reasons = [BalanceReason::Bytes, BalanceReason::RequestUnits];
    let mut moves = reasons.map(|reason| move_for(reason, clusters, loads, limits));
    moves.iter_mut().find_map(Option::take)
}

fn move_for(
    reason: BalanceReason,
    clusters: &[PlannedCluster],
    loads: &Loads,
    limits: &BalanceLimits,
) -> Option<BalanceMove> {
    let of = |cluster: &&PlannedCluster| reason.of(&cluster.load);
    let open = clusters.iter().filter(|one| !one.is_drained);
    let least = open.min_by(|a, b| of(a).total_cmp(&of(b)))?;
    let sources = clusters.iter().filter(|one| !one.partitions.is_empty());
    let most = sources.max_by(|a, b| of(a).total_cmp(&of(b)))?;
    let difference = of(&most) - of(&least);
    if difference <= reason.limit(limits, of(&most)) {
        return None;
    }

    // A move of half of the difference makes both equal, and one of the whole changes places.
    let distance = |load: &Load| (reason.of(load) - difference / 2.0).abs();
    let candidates = most.partitions.iter().filter_map(|(partition, failed)| {
        let load = loads.get(partition)?;
        let helps = reason.of(load) > 0.0 && reason.of(load) < difference;
        let keeps =
            reason == BalanceReason::Bytes || keeps_bytes(clusters, (most, least), load, limits);
        (helps && keeps).then_some((*failed, distance(load), *partition))
    });
    // A partition whose last move failed comes after the others.
    let best = candidates.min_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)))?;
    Some(BalanceMove {
        partition: best.2,
        from: most.name.clone(),
        to: least.name.clone(),
        reason,
    })
}

/// Returns true if a move for request units gives no reason for a move for bytes, in any cluster.
fn keeps_bytes(
    clusters: &[PlannedCluster],
    (from, to): (&PlannedCluster, &PlannedCluster),
    load: &Load,
    limits: &BalanceLimits,
) -> bool {
    let after = |one: &PlannedCluster| {
        let bytes = one.load.bytes;
        match &one.name {
            name if *name == from.name => bytes.saturating_sub(load.bytes),
            name if *name == to.name => bytes.saturating_add(load.bytes),
            _ => bytes,
        }
    };
    let open = clusters.iter().filter(|one| !one.is_drained);
    let least = open.map(after).min().unwrap_or_default();
    let most = clusters.iter().map(after).max().unwrap_or_default();
    most.saturating_sub(least) as f64 <= BalanceReason::Bytes.limit(limits, most as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Partitions with their cluster, bytes and request units.
    type Row = (u64, usize, u64, f64);

    const LIMITS: BalanceLimits = BalanceLimits {
        bytes: 100,
        request_units: 10.0,
        part: 0.2,
    };

    fn plan(rows: &[Row], drained: Option<usize>, failed: Option<u64>) -> Option<BalanceMove> {
        let (mut loads, mut clusters) = (Loads::new(), Vec::new());
        for (at, name) in ["a", "b", "c"].iter().enumerate() {
            clusters.push(PlannedCluster {
                name: (*name).to_owned(),
                is_drained: drained == Some(at),
                partitions: Vec::new(),
                load: Load::default(),
            });
        }
        for (id, at, bytes, request_units) in rows {
            let partition = PartitionId(*id);
            let load = Load {
                bytes: *bytes,
                request_units: *request_units,
            };
            loads.insert(partition, load);
            let cluster = &mut clusters[*at];
            cluster.partitions.push((partition, failed == Some(*id)));
            cluster.load.bytes += bytes;
            cluster.load.request_units += request_units;
        }
        next_move(&clusters, &loads, &LIMITS)
    }

    fn found(rows: &[Row]) -> Option<(u64, String)> {
        plan(rows, None, None).map(|one| (one.partition.0, one.to))
    }

    #[test]
    fn the_partition_nearest_to_half_of_the_difference_goes_to_the_emptiest() {
        let rows = [
            (1, 0, 900, 0.0),
            (2, 0, 500, 0.0),
            (3, 0, 50, 0.0),
            (4, 1, 300, 0.0),
        ];
        assert_eq!(found(&rows), Some((1, "c".into())));
        assert_eq!(found(&rows[3..]), None, "a move would only change places");
        assert_eq!(
            found(&[(1, 0, 100, 0.0)]),
            None,
            "they differ by no more than the limit"
        );
        let drained = plan(&rows, Some(2), None).expect("a move");
        assert_eq!((drained.partition.0, drained.to.as_str()), (2, "b"));
        let other = plan(&rows, None, Some(1)).expect("a move");
        assert_eq!(
            other.partition.0, 2,
            "the partition whose move failed waits"
        );
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn request_units_move_partitions_that_keep_the_bytes_in_balance() {
        let rows = [
            (1, 0, 50, 40.0),
            (2, 0, 400, 60.0),
            (3, 1, 450, 0.0),
            (4, 2, 420, 90.0),
        ];
        // Partition 2 is as near to half of the difference, and would make b too full.
        let expected = BalanceMove {
            partition: PartitionId(1),
            from: "a".into(),
            to: "b".into(),
            reason: BalanceReason::RequestUnits,
        };
        assert_eq!(plan(&rows, None, None), Some(expected));
    }

    #[test]
    fn repeated_moves_end_and_leave_no_difference_that_a_move_would_mend() {
        let mut seed = 7_u64;
        let mut next = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % limit
        };
        for _ in 0..200 {
            let mut rows: Vec<Row> = (0..20)
                .map(|id| (id, next(3) as usize, next(300), next(50) as f64))
                .collect();
            let mut moves = 0;
            while let Some(one) = plan(&rows, None, None) {
                let row = rows.iter_mut().find(|row| row.0 == one.partition.0);
                row.expect("a row").1 = (one.to.as_bytes()[0] - b'a') as usize;
                moves += 1;
                assert!(moves < 100, "{rows:?}");
            }
        }
    }
}
