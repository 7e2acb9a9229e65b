//! Benchmark of a node that leaves: the longest wait of a client of the other node while the node
//! with the lease stops in order.
//!
//! Two nodes of the server program are on one PostgreSQL. Clients of the node without the lease
//! create items; the leaseholder gets SIGTERM meanwhile, and starts again before the next
//! round, in which the nodes change their parts. Every request must succeed.

use crate::child::{ServerProcess, cargo_build, ready_server};
use crate::items::{Creates, prepare_with_throughput};
use crate::load::{LoadSpec, load};
use crate::record::figure;
use crate::report::median;
use crate::servers::{Server, cluster_file};
use crate::{Result, WARM_UP, temporary_directory};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// RU/s of the container, for four physical partitions.
const THROUGHPUT: u32 = 40_000;
/// The time of a load, and the time after which the leaseholder is told to stop.
const LOAD_TIME: Duration = Duration::from_secs(5);
const STOP_AFTER: Duration = Duration::from_secs(3);
/// Numbers of clients, each of which sends one request after the other.
const CLIENTS: [usize; 2] = [1, 24];
/// Names of the settings by which nodes share partitions, and their values.
const OWNERS: [(&str, &str); 2] = [("the holder", "off"), ("both nodes", "0")];

/// Two nodes, of which one holds the lease.
struct Pair<'a> {
    options: Vec<String>,
    folder: &'a Path,
    leaseholder: Option<ServerProcess>,
    other: ServerProcess,
    /// True if the leaseholder is the node `a`.
    is_a_leaseholder: bool,
    creates: Creates,
    created: AtomicU64,
}

/// Measures `rounds` handovers for each number of clients and each setting of owners. Prints the
/// median of the longest waits, and the longest of all.
pub(crate) fn run(rounds: usize) -> Result<()> {
    cargo_build()?;
    let directory = temporary_directory(None)?;
    println!(
        "{:<14} {:>8} {:>8} {:>10} {:>11}",
        "owner", "clients", "rounds", "median ms", "longest ms"
    );
    for (owner, spread) in OWNERS {
        let server = Server::start(&[]);
        let folder = directory.path().join(spread);
        let mut pair = Pair::start(&server, &folder, spread)?;
        for clients in CLIENTS {
            let mut waits = Vec::new();
            for round in 0..rounds {
                eprintln!(
                    "owner: {owner}, clients: {clients}, round {} of {rounds}",
                    round + 1
                );
                waits.push(pair.hand_over(clients)?.as_secs_f64() * 1e3);
            }
            let longest = waits.iter().copied().fold(0.0, f64::max);
            let middle = median(waits);
            println!("{owner:<14} {clients:>8} {rounds:>8} {middle:>10.0} {longest:>11.0}");
            let name = format!("owner: {owner}, {clients} clients");
            figure(format!("{name}, median ms"), middle);
            figure(format!("{name}, longest ms"), longest);
        }
    }
    Ok(())
}

impl Pair<'_> {
    /// Starts two nodes on a cluster of one server, and creates a container.
    fn start<'a>(server: &Server, folder: &'a Path, spread: &str) -> Result<Pair<'a>> {
        std::fs::create_dir_all(folder)?;
        let file = folder.join("clusters.toml");
        std::fs::write(&file, cluster_file(&[server.config()]))?;
        let file = file.to_str().ok_or("the folder has a name of UTF-8")?;
        let options = [
            "--store",
            "postgres",
            "--cluster-file",
            file,
            "--spread-load",
            spread,
        ];
        let options: Vec<String> = options.into_iter().map(str::to_owned).collect();
        // The node that starts first holds the lease.
        let leaseholder = start_node(&options, folder, "a")?;
        let other = start_node(&options, folder, "b")?;
        prepare_with_throughput(&leaseholder, Some(THROUGHPUT))?;
        Ok(Pair {
            options,
            folder,
            creates: Creates::new(&leaseholder)?,
            leaseholder: Some(leaseholder),
            other,
            is_a_leaseholder: true,
            created: AtomicU64::new(0),
        })
    }

    /// Stops the leaseholder below a load on the other node, starts the leaseholder again as the
    /// other node, and returns the longest time of a request.
    fn hand_over(&mut self, clients: usize) -> Result<Duration> {
        let Some(leaseholder) = self.leaseholder.take() else {
            return Err("there is no leaseholder".into());
        };
        let (address, creates, created) = (&self.other.address, &self.creates, &self.created);
        let run = || {
            let request = |n: u64, out: &mut Vec<u8>| creates.write(n, out);
            let spec = LoadSpec {
                address,
                counter: created,
                request: &request,
                connections: clients,
                warm_up: WARM_UP,
                time: LOAD_TIME,
            };
            load(&spec).map_err(|error| error.to_string())
        };
        let (stopped, measured) = std::thread::scope(|scope| {
            let load = scope.spawn(run);
            #[expect(clippy::disallowed_methods, reason = "the window of a measurement")]
            std::thread::sleep(STOP_AFTER);
            (leaseholder.stop(), load.join())
        });
        stopped?;
        let measured = measured.map_err(|_| "the load panicked")??;

        let name = if self.is_a_leaseholder { "a" } else { "b" };
        let stopped = start_node(&self.options, self.folder, name)?;
        self.is_a_leaseholder = !self.is_a_leaseholder;
        self.leaseholder = Some(std::mem::replace(&mut self.other, stopped));
        let longest = measured.latencies.iter().max().copied();
        longest.ok_or_else(|| "the load sent no request".into())
    }
}

fn start_node(options: &[String], folder: &Path, name: &str) -> Result<ServerProcess> {
    let mut options: Vec<&str> = options.iter().map(String::as_str).collect();
    options.extend(["--node", name]);
    ready_server(&folder.join(name), &options)
}
