//! The metrics of the clusters, and of the lease of this node.
//!
//! Each reading asks the standbys of all clusters for their distance from the primary. A standby
//! that does not answer within two seconds has no sample.

use crate::families::{Families, MetricKind};
use crate::stage::Components;
use orrery_placement::ClusterStatus;
use orrery_storage::FollowerLag;

/// A gauge of each cluster: name, help text and value.
type ClusterGauge = (&'static str, &'static str, fn(&ClusterStatus) -> f64);

const CLUSTER_GAUGES: [ClusterGauge; 4] = [
    (
        "orrery_cluster_partitions",
        "Partitions of the store that a cluster has.",
        |cluster| cluster.partitions as f64,
    ),
    (
        "orrery_cluster_bytes",
        "Bytes in use, as the cluster measures them.",
        |cluster| cluster.bytes as f64,
    ),
    (
        "orrery_cluster_drained",
        "1 if a cluster gets no further partitions.",
        |cluster| f64::from(u8::from(cluster.is_drained)),
    ),
    (
        "orrery_cluster_writable",
        "0 if a cluster takes no writes now.",
        |cluster| f64::from(u8::from(cluster.write_failure.is_none())),
    ),
];

/// A gauge of each standby: name, help text and value.
type FollowerGauge = (&'static str, &'static str, fn(&FollowerLag) -> f64);

const FOLLOWER_GAUGES: [FollowerGauge; 2] = [
    (
        "orrery_follower_lag_bytes",
        "Bytes of the log that a standby has not applied yet.",
        |lag| lag.bytes as f64,
    ),
    (
        "orrery_follower_lag_seconds",
        "Time since the last commit that a standby has applied; 0 if no bytes are missing.",
        |lag| lag.ms as f64 / 1_000.0,
    ),
];

/// Adds the metrics of the clusters, and that of the lease; none for a server with one store.
pub(crate) fn add_cluster_metrics(families: &mut Families, components: &Components) {
    if let Some(fleet) = &components.fleet {
        families.single(
            "orrery_node_holds_lease",
            MetricKind::Gauge,
            "1 if this node holds the lease of the account, and so serves requests.",
            f64::from(u8::from(fleet.holds_lease())),
        );
        let counts = fleet.counts();
        families.single(
            "orrery_lease_takeovers_total",
            MetricKind::Counter,
            "Times that this process has taken the lease of the account.",
            counts.takeovers as f64,
        );
        let grants = "orrery_partition_grants_total";
        families.family(
            grants,
            MetricKind::Counter,
            "Partitions that this leaseholder gave to other nodes, and that came back.",
        );
        for (event, value) in [
            ("granted", counts.granted),
            ("returned", counts.returned),
            ("expired", counts.expired),
        ] {
            families.sample(grants, &[("event", event)], value as f64);
        }
    }
    let Some(placed) = &components.placement else {
        return;
    };
    let clusters = placed.clusters();
    for (name, help, value) in CLUSTER_GAUGES {
        families.family(name, MetricKind::Gauge, help);
        for cluster in &clusters {
            families.sample(name, &[("cluster", &cluster.name)], value(cluster));
        }
    }
    let seconds = "orrery_cluster_commit_seconds";
    families.family(
        seconds,
        MetricKind::Histogram,
        "Time from a commit to the answer of its cluster that the commit is durable.",
    );
    for cluster in &clusters {
        let labels = [("cluster", cluster.name.as_str())];
        families.histogram(seconds, &labels, &cluster.commit_seconds);
    }
    add_follower_metrics(families, &placed.followers());
}

/// Adds the distance of each standby from the primary of its cluster.
fn add_follower_metrics(families: &mut Families, followers: &[(String, Vec<FollowerLag>)]) {
    for (name, help, value) in FOLLOWER_GAUGES {
        families.family(name, MetricKind::Gauge, help);
        for (cluster, lags) in followers {
            for lag in lags {
                let labels = [("cluster", cluster.as_str()), ("host", lag.host.as_str())];
                families.sample(name, &labels, value(lag));
            }
        }
    }
}
