//! Benchmark of nodes on PostgreSQL: the way from node to node, and the rates of one, two and three
//! nodes on one cluster and on two, with one node that owns all partitions and with three that
//! share them.
//!
//! The program starts the PostgreSQL servers, three nodes of the server program, and the load, all
//! on this machine. One node holds the lease, and owns all partitions or gives some to the others;
//! a node forwards requests for partitions of others.

mod beside_pgbench;

use crate::child::{ServerProcess, cargo_build, ready_server};
use crate::items::{Creates, partition_count, prepare_with_throughput};
use crate::load::{LoadSpec, load};
use crate::record::figure;
use crate::report::{median, percentile};
use crate::servers::{Server, cluster_file};
use crate::{Result, WARM_UP, temporary_directory};
use orrery_storage_postgres::ClusterConfig;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// RU/s of the container, for four physical partitions.
const THROUGHPUT: u32 = 40_000;
/// Connections of the lines that measure rates.
const CONNECTIONS: usize = 24;

/// The number of nodes that own partitions, and the setting for that.
const OWNERS: [(usize, &str); 2] = [(1, "off"), (3, "0")];
/// The time in which nodes share the partitions of a new container.
const SHARING_TIME: Duration = Duration::from_secs(4);

/// One line of the output: an operation, and the nodes that clients use.
struct Line {
    name: &'static str,
    is_read: bool,
    /// The numbers of the nodes; 0 is the leaseholder.
    nodes: &'static [usize],
    connections: usize,
}

const LINES: [Line; 10] = [
    line("point read, holder", true, &[0], 1),
    line("point read, another node", true, &[1], 1),
    line("create, holder", false, &[0], 1),
    line("create, another node", false, &[1], 1),
    line("point reads, 1 node", true, &[0], CONNECTIONS),
    line("point reads, 2 nodes", true, &[0, 1], CONNECTIONS),
    line("point reads, 3 nodes", true, &[0, 1, 2], CONNECTIONS),
    line("creates, 1 node", false, &[0], CONNECTIONS),
    line("creates, 2 nodes", false, &[0, 1], CONNECTIONS),
    line("creates, 3 nodes", false, &[0, 1, 2], CONNECTIONS),
];

const fn line(
    name: &'static str,
    is_read: bool,
    nodes: &'static [usize],
    connections: usize,
) -> Line {
    Line {
        name,
        is_read,
        nodes,
        connections,
    }
}

/// The nodes on some clusters, with a container and the requests for it.
struct Fleet {
    nodes: Vec<ServerProcess>,
    reads: Vec<Vec<u8>>,
    creates: Creates,
    created: AtomicU64,
    /// The physical partitions of the container.
    ranges: usize,
}

/// Requests a second of one measurement, and percentiles of the microseconds of a request.
struct Measured {
    rate: f64,
    p50: f64,
    p99: f64,
}

/// Measures every line on one cluster and on two, `rounds` times for `time`, and prints medians.
pub(crate) fn run(rounds: usize, time: Duration) -> Result<()> {
    cargo_build()?;
    let directory = temporary_directory(None)?;
    let servers = [Server::start(&[]), Server::start(&[])];
    beside_pgbench::run(&servers[0], directory.path(), rounds, time)?;
    println!();
    println!(
        "{:<26} {:>5} {:>9} {:>6} {:>11} {:>9} {:>9}",
        "operation", "conn.", "clusters", "owners", "requests/s", "p50 us", "p99 us"
    );
    for clusters in 1..=servers.len() {
        // Both fleets run at the same time and are measured in turn, in the same rounds.
        let mut fleets = Vec::new();
        for (owners, spread) in OWNERS {
            let folder = directory.path().join(format!("{clusters}-{owners}"));
            let configs: Vec<_> = servers[..clusters].iter().map(Server::config).collect();
            // The first node that starts holds the lease.
            let names = ["a", "b", "c"];
            let fleet = Fleet::start(&configs, &folder, &names, spread, THROUGHPUT)?;
            fleets.push((owners, fleet));
        }
        let mut results: Vec<Vec<Measured>> = Vec::new();
        results.resize_with(LINES.len() * fleets.len(), Vec::new);
        for round in 0..rounds {
            eprintln!("round {} of {rounds}, clusters: {clusters}", round + 1);
            let mut of_line = results.iter_mut();
            for line in &LINES {
                for ((_, fleet), results) in fleets.iter().zip(&mut of_line) {
                    results.push(fleet.measure(line, time)?);
                }
            }
        }
        let mut of_line = results.iter();
        for line in &LINES {
            for ((owners, _), results) in fleets.iter().zip(&mut of_line) {
                let rate = median(results.iter().map(|result| result.rate).collect());
                let (name, connections) = (line.name, line.connections);
                figure(
                    format!(
                        "{name}, {connections} conn., {clusters} clusters, {owners} owners, ops/s"
                    ),
                    rate,
                );
                println!(
                    "{name:<26} {connections:>5} {clusters:>9} {owners:>6} {rate:>11.0} {:>9.0} \
                     {:>9.0}",
                    median(results.iter().map(|result| result.p50).collect()),
                    median(results.iter().map(|result| result.p99).collect()),
                );
            }
        }
    }
    Ok(())
}

impl Fleet {
    /// Starts nodes on clusters, and creates a container of `ru` RU/s with items. `spread` is the
    /// setting by which nodes share partitions.
    fn start(
        clusters: &[ClusterConfig],
        folder: &Path,
        names: &[&str],
        spread: &str,
        ru: u32,
    ) -> Result<Fleet> {
        std::fs::create_dir_all(folder)?;
        let file = folder.join("clusters.toml");
        let named = clusters.iter().enumerate().map(|(number, config)| {
            let mut config = config.clone();
            config.name = format!("c{number}");
            config
        });
        let named: Vec<_> = named.collect();
        std::fs::write(&file, cluster_file(&named))?;
        let file = file.to_str().ok_or("the folder has a name of UTF-8")?;
        let mut nodes = Vec::new();
        for name in names {
            let place = ["--store", "postgres", "--cluster-file", file];
            let options = [&place[..], &["--node", name, "--spread-load", spread]].concat();
            nodes.push(ready_server(&folder.join(name), &options)?);
        }
        let reads = prepare_with_throughput(&nodes[0], Some(ru))?;
        let fleet = Fleet {
            ranges: partition_count(&nodes[0])?,
            creates: Creates::new(&nodes[0])?,
            nodes,
            reads,
            created: AtomicU64::new(0),
        };
        // The nodes get their partitions meanwhile.
        if names.len() > 1 {
            fleet.measure(&LINES[LINES.len() - 1], SHARING_TIME)?;
        }
        Ok(fleet)
    }

    /// Measures one line: each node has an equal share of the connections.
    fn measure(&self, line: &Line, time: Duration) -> Result<Measured> {
        let request = |n: u64, out: &mut Vec<u8>| match line.is_read {
            true => out.extend_from_slice(&self.reads[n as usize % self.reads.len()]),
            false => self.creates.write(n, out),
        };
        let read = AtomicU64::new(0);
        let counter = if line.is_read { &read } else { &self.created };
        let load_of = |node: usize| {
            let spec = LoadSpec {
                address: &self.nodes[node].address,
                counter,
                request: &request,
                connections: line.connections / line.nodes.len(),
                warm_up: WARM_UP,
                time,
            };
            load(&spec).map_err(|error| error.to_string())
        };
        let loads: Vec<_> = std::thread::scope(|scope| {
            let start = |&node: &usize| scope.spawn(move || load_of(node));
            let threads: Vec<_> = line.nodes.iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        let mut rate = 0.0;
        let mut latencies = Vec::new();
        for load in loads {
            let load = load.map_err(|_| "a load panicked")??;
            rate += load.latencies.len() as f64 / load.elapsed.as_secs_f64();
            latencies.extend(load.latencies.iter().map(|time| time.as_secs_f64() * 1e6));
        }
        Ok(Measured {
            rate,
            p50: percentile(&mut latencies, 50.0),
            p99: percentile(&mut latencies, 99.0),
        })
    }
}
