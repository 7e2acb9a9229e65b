//! A model of fleets that are larger than the machines of a benchmark: the requests a second at
//! which a fleet is saturated, the resource that limits them, and latencies below saturation.
//!
//! ```text
//! fleet         partitions with their shares of the requests, spread by `next_assignment`
//! capacity      the busiest node and the busiest cluster: requests a second at saturation
//! simulation    queues of the nodes' cores at 70 % of saturation: latencies
//! ```
//! A client connects to a random node. The node forwards a request to the owner of the partition;
//! the owner computes, and reads or commits in the cluster of the partition.
//!
//! The defaults are measured figures of `docs/benchmarks.md`, or are made from them; the help of
//! each option names the source. Equal options and seeds give equal output.
//!
//! Left out: the list is part of the output.

mod capacity;
mod fleet;
mod simulation;

use crate::Result;
use capacity::{Saturation, saturation};
use fleet::Fleet;
use simulation::latencies;
use std::fmt::Write as _;

/// Polls of an owner at the leaseholder, in a second.
const POLLS: f64 = 2.0;
/// The part of the saturation at which latencies are simulated.
const SIMULATED_PART: f64 = 0.7;

/// The columns of the table, each with its width in characters.
const COLUMNS: [(&str, usize); 15] = [
    ("keys", 9),
    ("nodes", 6),
    ("partitions", 11),
    ("clusters", 9),
    ("grants", 7),
    ("max/mean", 9),
    ("forwarded", 10),
    ("requests/s", 11),
    ("limit", 19),
    ("node", 6),
    ("cluster", 8),
    ("p50 ms", 7),
    ("p99 ms", 7),
    ("polls/s", 8),
    ("of CPU", 7),
];

/// The text before the table.
const PREFACE: &str = "\
This is a model, not a measurement. Its figures follow from measured costs on 2 cores, which nodes,
PostgreSQL and clients shared, and from the assumptions below.

";

/// The text after the table.
const LEFT_OUT: &str = "
max/mean: load of the busiest node by that of the mean node, after all grants. forwarded: part of
the requests that one node forwards to another. requests/s: of the whole fleet, at saturation; the
limit is what is saturated, and node and cluster are the use of the busiest ones then. p50 and p99:
simulated at 70 % of saturation. polls/s: messages of the owners at the leaseholder, and their part
of the leaseholder's cores.

The model assumes: one mix of point reads and creates on all partitions; clients that know no owner
and spread evenly over nodes; computing times with an exponential distribution; waits for a cluster
with a lognormal distribution, equal below saturation; one cost of a request at any number of nodes.
The model leaves out: queries, scripts and requests to several partitions, which the leaseholder
carries out; limits of request units, splits, and moves of partitions between clusters; the time in
which loads are learned and grants are carried out; failures, retries and long pauses; the network
between machines, but for the wait of a hop; the list of live nodes that every node gets every two
seconds; standbys and synchronous replication; data that does not fit into memory, checkpoints and
vacuum.
";

/// Arguments of `fleet-model`.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FleetModelArguments {
    /// Numbers of nodes, one row for each and for each popularity of keys
    #[arg(long, num_args = 1.., value_name = "N", default_values_t = [10, 100, 1_000])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    nodes: Vec<u64>,
    /// Number of physical partitions for each node
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000))]
    partitions_per_node: u64,
    /// Number of nodes for each PostgreSQL cluster
    #[arg(long, value_name = "N", default_value_t = 8)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    nodes_per_cluster: u64,
    /// Number of partition keys
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    keys: u64,
    /// Exponent of the Zipf distribution of the second half of the rows; 0.99 is that of YCSB
    #[arg(long, value_name = "S", default_value_t = 0.99, value_parser = not_negative)]
    zipf: f64,
    /// Part of the requests that are point reads, from 0 to 1; the others are creates
    #[arg(long, value_name = "PART", default_value_t = 0.8, value_parser = part)]
    reads: f64,
    /// Number of cores of a node; an assumption
    #[arg(long, value_name = "N", default_value_t = 4)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000))]
    cores: u64,
    /// Microseconds of a core for a point read at its owner: half of the 2 cores for 4,007 a second
    /// (Nodes: point reads, 1 node; the parts of node, client and PostgreSQL are not measured)
    #[arg(long, value_name = "US", default_value_t = 250.0, value_parser = positive)]
    read_cpu_us: f64,
    /// Microseconds of a core for a create at its owner: half of the 2 cores for 2,522 a second
    /// (Nodes: creates, 1 node)
    #[arg(long, value_name = "US", default_value_t = 400.0, value_parser = positive)]
    create_cpu_us: f64,
    /// Microseconds of a core for receiving a request and forwarding it, with the answer: twice the
    /// 15 to 25 for an HTTP request (One connection)
    #[arg(long, value_name = "US", default_value_t = 50.0, value_parser = positive)]
    forward_cpu_us: f64,
    /// Microseconds of a core for one poll at the leaseholder: an HTTP request (One connection)
    #[arg(long, value_name = "US", default_value_t = 25.0, value_parser = positive)]
    poll_cpu_us: f64,
    /// Microseconds that a request waits on the way between two nodes and back (Nodes: 100 to 300
    /// on one machine; add the network's)
    #[arg(long, value_name = "US", default_value_t = 200.0, value_parser = positive)]
    hop_us: f64,
    /// Point reads a second of a cluster (Commits in a PostgreSQL cluster: transactions reused, 8
    /// callers)
    #[arg(long, value_name = "N", default_value_t = 23_204.0, value_parser = positive)]
    cluster_reads: f64,
    /// Commits a second of a cluster with one create each (there: a partition each, 8 callers)
    #[arg(long, value_name = "N", default_value_t = 4_826.0, value_parser = positive)]
    cluster_commits: f64,
    /// Creates a second of a cluster whose commits carry as many creates as `--group` (there: one
    /// partition, 64 callers)
    #[arg(long, value_name = "N", default_value_t = 15_577.0, value_parser = positive)]
    cluster_grouped_creates: f64,
    /// The largest number of creates of a partition in one commit: the callers of the figure above
    #[arg(long, value_name = "N", default_value_t = 64.0, value_parser = positive)]
    group: f64,
    /// Speed of a cluster, as a multiple of the measured one
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    cluster_speed: f64,
    /// Median milliseconds of a commit (there: a partition each, 8 callers)
    #[arg(long, value_name = "MS", default_value_t = 1.46, value_parser = positive)]
    commit_p50_ms: f64,
    /// 99th percentile of the milliseconds of a commit (there: the same line)
    #[arg(long, value_name = "MS", default_value_t = 5.44, value_parser = positive)]
    commit_p99_ms: f64,
    /// Median milliseconds of a read in a cluster (there: transactions reused, 8 callers)
    #[arg(long, value_name = "MS", default_value_t = 0.28, value_parser = positive)]
    cluster_read_p50_ms: f64,
    /// 99th percentile of the milliseconds of a read in a cluster (there: the same line)
    #[arg(long, value_name = "MS", default_value_t = 1.03, value_parser = positive)]
    cluster_read_p99_ms: f64,
    /// Request units a second below which a partition stays at its node
    #[arg(long, value_name = "RU", default_value_t = 100)]
    least_load: u64,
    /// Number of simulated requests of a row
    #[arg(long, value_name = "N", default_value_t = 400_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(10..))]
    requests: u64,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn figure(text: &str, least: f64, most: f64) -> std::result::Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_within = value >= least && value <= most;
    is_within
        .then_some(value)
        .ok_or_else(|| format!("not a number from {least} to {most}"))
}

fn positive(text: &str) -> std::result::Result<f64, String> {
    figure(text, 0.001, 1e9)
}

fn not_negative(text: &str) -> std::result::Result<f64, String> {
    figure(text, 0.0, 100.0)
}

fn part(text: &str) -> std::result::Result<f64, String> {
    figure(text, 0.0, 1.0)
}

impl FleetModelArguments {
    /// Returns the mean microseconds of a core for a request at its owner.
    fn owner_cpu_us(&self) -> f64 {
        self.reads * self.read_cpu_us + (1.0 - self.reads) * self.create_cpu_us
    }

    /// Returns the microseconds of all cores of a node in a second.
    fn node_cpu_us(&self) -> f64 {
        self.cores as f64 * 1e6
    }

    /// Returns the microseconds of the leaseholder's cores that polls of other nodes take in a
    /// second.
    fn polls_cpu_us(&self, nodes: usize) -> f64 {
        polls(nodes) * self.poll_cpu_us
    }
}

/// Returns the polls at the leaseholder in a second.
fn polls(nodes: usize) -> f64 {
    POLLS * (nodes - 1) as f64
}

/// The figures of one row of the table.
struct Row {
    popularity: String,
    fleet: Fleet,
    saturation: Saturation,
    /// Percentiles of the simulated latency in milliseconds.
    p50_ms: f64,
    p99_ms: f64,
    /// The part of the leaseholder's cores that polls take, from 0 to 1.
    polls_part: f64,
}

/// Prints the table of the model.
pub(crate) fn run(arguments: &FleetModelArguments) -> Result<()> {
    print!("{PREFACE}{}{LEFT_OUT}", table(arguments)?);
    Ok(())
}

/// Returns the aligned table.
fn table(arguments: &FleetModelArguments) -> Result<String> {
    let mut text = aligned(&COLUMNS.map(|(head, _)| head.to_owned()));
    for exponent in [0.0, arguments.zipf] {
        for nodes in &arguments.nodes {
            let row = row(arguments, *nodes as usize, exponent)?;
            text.push_str(&aligned(&cells(&row)));
        }
    }
    Ok(text)
}

/// Computes one row: a number of nodes, and the exponent of the popularity of keys.
fn row(arguments: &FleetModelArguments, nodes: usize, exponent: f64) -> Result<Row> {
    let polls_part = arguments.polls_cpu_us(nodes) / arguments.node_cpu_us();
    if polls_part >= 1.0 {
        return Err(
            format!("polls of {nodes} nodes take more than the leaseholder's cores").into(),
        );
    }
    let fleet = Fleet::balanced(arguments, nodes, exponent);
    let saturation = saturation(arguments, &fleet);
    let rate = saturation.rate * SIMULATED_PART;
    let (p50_ms, p99_ms) = latencies(arguments, &fleet, rate);
    Ok(Row {
        popularity: match exponent {
            0.0 => "uniform".to_owned(),
            exponent => format!("Zipf {exponent}"),
        },
        fleet,
        saturation,
        p50_ms,
        p99_ms,
        polls_part,
    })
}

/// Returns the cells of a row, one for each column.
fn cells(row: &Row) -> [String; COLUMNS.len()] {
    let (fleet, saturation) = (&row.fleet, &row.saturation);
    let percent = |part: f64, digits: usize| format!("{:.digits$}%", part * 100.0);
    [
        row.popularity.clone(),
        fleet.nodes.to_string(),
        fleet.shares.len().to_string(),
        fleet.clusters.to_string(),
        fleet.grants.to_string(),
        format!("{:.2}", fleet.largest_by_mean()),
        percent(fleet.forwarded(), 1),
        format!("{:.0}", saturation.rate),
        saturation.limit.name().to_owned(),
        percent(saturation.node_use, 0),
        percent(saturation.cluster_use, 0),
        format!("{:.2}", row.p50_ms),
        format!("{:.2}", row.p99_ms),
        format!("{:.0}", polls(fleet.nodes)),
        percent(row.polls_part, 2),
    ]
}

/// Returns a line of the table.
fn aligned(cells: &[String; COLUMNS.len()]) -> String {
    let mut line = String::new();
    for (cell, (_, width)) in cells.iter().zip(COLUMNS) {
        // Writing to a string cannot fail.
        let _ = write!(line, "{cell:>width$}");
    }
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use capacity::Limit;
    use clap::Parser;

    #[derive(Parser)]
    #[command(args_override_self = true)]
    struct Program {
        #[command(flatten)]
        arguments: FleetModelArguments,
    }

    /// Returns the defaults with a small number of keys and simulated requests, and some options.
    pub(super) fn arguments(options: &str) -> FleetModelArguments {
        let small = "model --keys 100000 --requests 20000";
        let words = small.split(' ').chain(options.split_whitespace());
        Program::try_parse_from(words).expect("options").arguments
    }

    fn saturation_of(options: &str, nodes: usize, exponent: f64) -> Saturation {
        let arguments = arguments(options);
        saturation(&arguments, &Fleet::balanced(&arguments, nodes, exponent))
    }

    #[test]
    fn saturation_grows_with_the_nodes_if_all_keys_are_equal() {
        // The nodes are the limit, or the clusters, of which there are ten times as many too.
        let cases = [
            ("--cluster-speed 20", false),
            ("--nodes-per-cluster 5", true),
        ];
        for (options, is_cluster) in cases {
            let [small, large] = [10, 100].map(|nodes| saturation_of(options, nodes, 0.0));
            let times = large.rate / small.rate;
            assert!((8.0..12.0).contains(&times), "{options}: {times}");
            for one in [small, large] {
                let found = matches!(one.limit, Limit::ClusterReads | Limit::ClusterCommits);
                assert_eq!(found, is_cluster, "{options}");
            }
        }
    }

    #[test]
    fn saturation_is_limited_by_the_hottest_partition_under_zipf() {
        let options = "--cluster-speed 20";
        let [small, large] = [100, 1_000].map(|nodes| saturation_of(options, nodes, 0.99));
        assert_eq!(large.limit, Limit::HottestPartition);
        assert!(
            large.rate < small.rate * 1.5,
            "{} {}",
            small.rate,
            large.rate
        );

        // The hottest partition has the cores of one node.
        let arguments = arguments(options);
        let fleet = Fleet::balanced(&arguments, 1_000, 0.99);
        let hottest = fleet.shares.iter().copied().fold(0.0, f64::max);
        let bound = arguments.node_cpu_us() / (hottest * arguments.owner_cpu_us());
        let part = large.rate / bound;
        assert!((0.95..=1.0).contains(&part), "{part}");
    }

    #[test]
    fn equal_seeds_give_equal_output() {
        let text = |seed: u64| {
            let arguments = arguments(&format!("--nodes 5 20 --seed {seed}"));
            table(&arguments).expect("a table")
        };
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
        assert_eq!(text(1).lines().count(), 5);
    }

    #[test]
    fn one_node_forwards_nothing_and_grants_nothing() {
        let arguments = arguments("");
        let row = row(&arguments, 1, 0.99).expect("a row");
        assert_eq!((row.fleet.grants, row.fleet.forwarded()), (0, 0.0));
        assert_eq!(row.polls_part, 0.0);
    }

    #[test]
    fn polls_that_the_leaseholder_cannot_answer_are_an_error() {
        let arguments = arguments("--poll-cpu-us 4000 --cores 1");
        assert!(row(&arguments, 1_000, 0.0).is_err());
    }
}
