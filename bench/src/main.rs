//! Benchmarks: the cost of Orrery compared with that of its parts, measured side by side in one
//! run.
//!
//! | command | measures |
//! |---|---|
//! | `http` | the server over HTTP, a bare HTTP server, and the bare store |
//! | `direct` | frames of the direct mode beside requests of HTTP, both over TLS |
//! | `engine` | the engine in this process, without HTTP and disk |
//! | `queries` | queries with results of one size in containers of several sizes |
//! | `search` | searches by vectors and words with each type of index, beside other databases |
//! | `categories` | queries that filter and group by a category, on 1 and on 167 partitions |
//! | `bulk` | single creates, bulk requests and transactional batches over HTTP |
//! | `memory` | creates with the data in memory and on disk, and the memory of an item |
//! | `throughput` | metering and admission |
//! | `recording` | a point read through the gateway, with and without a record in the request log |
//! | `observing` | a point read with the slow-request log and with spans, and without both |
//! | `continuous` | creates on disk with a continuous backup and without it |
//! | `traffic` | the traffic statistics of a container, and metrics |
//! | `blog-users` | simulated users of the blog, who check every answer; times of its pages |
//! | `postgres` | commits and point reads in a PostgreSQL cluster, beside pgbench |
//! | `nodes` | nodes on PostgreSQL: the way between nodes, rates of one to three nodes |
//! | `handover` | the longest wait of a client while the leaseholder stops |
//! | `fleet-model` | nothing: a model of large fleets, from measured costs |
//! | `splits` | splits and merges, and the latencies of clients meanwhile |
//!
//! `docs/benchmarks.md` explains each line of the output. Build with `--profile bench`. With
//! `--record` the figures become a line of `docs/history/bench.tsv`.

#![allow(clippy::print_stdout)] // the output is the result

mod bare_http;
mod bare_store;
mod blog_users;
mod bulk;
mod categories;
mod child;
mod continuous;
mod direct;
mod engine;
mod fleet_model;
mod handover;
mod in_turn;
mod items;
mod load;
mod memory;
mod nodes;
mod observing;
mod postgres;
mod queries;
mod random;
mod record;
mod recording;
mod report;
mod search;
#[path = "../../fleet/storage-postgres/tests/support/mod.rs"]
mod servers;
mod splits;
mod throughput;
mod traffic;

use child::{ServerProcess, cargo_build, ready_server};
use clap::{Parser, Subcommand};
use load::{LoadSpec, load};
use report::{Line, Measurement, Report};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A result whose error ends the run with a message.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Benchmarks of Orrery.
#[derive(Parser)]
struct Program {
    /// Append the figures of the run to docs/history/bench.tsv
    #[arg(long, global = true)]
    record: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure point reads and durable creates over HTTP, a bare HTTP server and the bare store
    Http(HttpArguments),
    /// Measure point reads and creates as frames of the direct mode and over HTTPS, in memory
    Direct {
        /// Number of rounds, each with one measurement of both forms
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Duration of one measurement in seconds
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
    },
    /// Measure point reads and creates of the engine in this process, in memory
    Engine {
        /// Number of rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Measure metering and admission beside the engine's reads and creates in memory
    Throughput {
        /// Number of rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Measure the traffic statistics of a container, and the metrics of a request
    Traffic {
        /// Number of rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Measure a point read through the gateway in this process, with and without a record in the
    /// log of requests
    Recording {
        /// Number of rounds
        #[arg(long, default_value_t = 9)]
        rounds: usize,
    },
    /// Measure a point read through the gateway in this process with the slow-request log and with
    /// spans, beside a gateway without both
    Observing {
        /// Number of rounds
        #[arg(long, default_value_t = 12)]
        rounds: usize,
    },
    /// Measure creates on disk in this process with a continuous backup and without it
    Continuous(continuous::Arguments),
    /// Measure queries on a small and a large container of the same form, on disk, in this process
    Queries {
        /// Numbers of items, one container for each
        #[arg(long, num_args = 1.., value_name = "N", default_values_t = [20_000, 2_000_000])]
        items: Vec<u64>,
        /// Runs of each query
        #[arg(long, default_value_t = 200)]
        times: u64,
        /// Directory for the data while measuring [default: the system's temporary directory]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Measure searches by vectors and words with each type of index and without one, on disk, in
    /// this process; the data is made by bench/search_data.py
    Search(search::SearchArguments),
    /// Measure queries that filter and group by a category, on 1 and on 167 physical partitions, in
    /// this process and over HTTP
    Categories {
        /// Number of items
        #[arg(long, default_value_t = 85_000)]
        items: u64,
        /// Numbers of physical partitions, one container for each
        #[arg(long, num_args = 1.., value_name = "N", default_values_t = [1, 167])]
        partitions: Vec<u32>,
        /// Number of rounds of each line
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Duration of one measurement in seconds
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
        /// Directory for the data while measuring [default: the system's temporary directory]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Measure splits and merges of a physical partition on disk, and the latencies of clients
    /// meanwhile
    Splits {
        /// Number of items of about a kilobyte
        #[arg(long, default_value_t = 50_000)]
        items: u64,
        /// Number of rounds, each with one measurement without and one with splits
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Duration of one measurement in seconds
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
        /// Directory for the data while measuring [default: the system's temporary directory]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Measure commits and point reads in a PostgreSQL cluster, beside pgbench with the same
    /// transactions; needs the Debian package postgresql
    Postgres {
        /// Number of rounds, each with one measurement of every line
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Duration of one measurement in seconds
        #[arg(long, default_value_t = 3)]
        seconds: u64,
    },
    /// Measure nodes on PostgreSQL: the way from node to node, and rates of one to three nodes on
    /// one cluster and on two; needs the Debian package postgresql
    Nodes {
        /// Number of rounds, each with one measurement of every line
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Duration of one measurement in seconds
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
    },
    /// Measure the longest wait of a client while the leaseholder stops in order; needs the
    /// Debian package postgresql
    Handover {
        /// Number of stops for each line of the output
        #[arg(long, default_value_t = 7)]
        rounds: usize,
    },
    /// Compute the rates and latencies of 10, 100 and 1,000 nodes from measured costs: a model
    FleetModel(fleet_model::FleetModelArguments),
    /// Measure durable creates over HTTP: single, in bulk and in transactional batches
    Bulk(HttpArguments),
    /// Measure creates over HTTP with the data in memory and on disk, and the memory of an item
    Memory {
        #[command(flatten)]
        arguments: HttpArguments,
        /// Number of items of each size whose memory is measured
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
        items: u64,
        /// Another server of the protocol to measure beside: it listens there without TLS, has the
        /// key of the emulator, and no database `bench`
        #[arg(long, value_name = "ADDR:PORT")]
        beside: Option<String>,
    },
    /// Let simulated users read and write the blog through its pages, check every answer, and
    /// compare the database with what they wrote
    BlogUsers(blog_users::BlogUsersArguments),
    /// Send the response from standard input to every request (started by `http`)
    #[command(hide = true)]
    FixedAnswer,
}

#[derive(clap::Args)]
struct HttpArguments {
    /// Number of rounds, each with one measurement of every line
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Duration of one measurement in seconds
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Directory for the data while measuring; its disk determines the results [default: the
    /// system's temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

/// Creates a temporary directory in `parent`, which is deleted when the value is dropped.
fn temporary_directory(parent: Option<PathBuf>) -> Result<tempfile::TempDir> {
    let parent = parent.unwrap_or_else(std::env::temp_dir);
    Ok(tempfile::Builder::new()
        .prefix("orrery-bench")
        .tempdir_in(parent)?)
}

/// Requests of each connection before the measurement.
const WARM_UP: usize = 20;
/// Numbers of connections and writers to measure.
const CONCURRENCY: [usize; 3] = [1, 16, 64];

fn main() -> Result<()> {
    let program = Program::parse();
    let facts = program.record.then(record::begin);
    run(program.command)?;
    if let Some(facts) = facts {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        record::save(facts, &arguments)?;
    }
    Ok(())
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Http(arguments) => http(&arguments),
        Command::Direct { rounds, seconds } => {
            cargo_build()?;
            direct::run(rounds, Duration::from_secs_f64(seconds))
        }
        Command::Engine { rounds } => engine::run(rounds),
        Command::Throughput { rounds } => throughput::run(rounds),
        Command::Traffic { rounds } => traffic::run(rounds),
        Command::Recording { rounds } => recording::run(rounds),
        Command::Observing { rounds } => observing::run(rounds),
        Command::Continuous(arguments) => continuous::run(arguments),
        Command::Queries {
            items,
            times,
            directory,
        } => queries::run(&items, times, temporary_directory(directory)?.path()),
        Command::Search(arguments) => search::run(arguments),
        Command::Categories {
            items,
            partitions,
            rounds,
            seconds,
            directory,
        } => {
            cargo_build()?;
            let directory = temporary_directory(directory)?;
            let time = Duration::from_secs_f64(seconds);
            categories::run(items, &partitions, rounds, time, directory.path())
        }
        Command::Splits {
            items,
            rounds,
            seconds,
            directory,
        } => {
            let directory = temporary_directory(directory)?;
            splits::run(items, rounds, seconds, directory.path())
        }
        Command::Postgres { rounds, seconds } => postgres::run(rounds, seconds),
        Command::Nodes { rounds, seconds } => nodes::run(rounds, Duration::from_secs_f64(seconds)),
        Command::Handover { rounds } => handover::run(rounds),
        Command::FleetModel(arguments) => fleet_model::run(&arguments),
        Command::Bulk(arguments) => {
            cargo_build()?;
            let directory = temporary_directory(arguments.directory.clone())?;
            let time = Duration::from_secs_f64(arguments.seconds);
            bulk::run(arguments.rounds, time, directory.path())
        }
        Command::Memory {
            arguments,
            items,
            beside,
        } => {
            cargo_build()?;
            let directory = temporary_directory(arguments.directory.clone())?;
            let time = Duration::from_secs_f64(arguments.seconds);
            let (rounds, beside) = (arguments.rounds, beside.as_deref());
            memory::run(rounds, time, directory.path(), items, beside)
        }
        Command::BlogUsers(arguments) => {
            // A development build measures nothing; its server is built before.
            if !cfg!(debug_assertions) {
                cargo_build()?;
            }
            blog_users::run(&arguments)
        }
        Command::FixedAnswer => bare_http::serve(),
    }
}

/// The subjects of the HTTP benchmark.
struct HttpBench {
    server: ServerProcess,
    /// A second server, whose workers sleep as soon as they have no request.
    sleeping: ServerProcess,
    /// A third server, for creates: the work that they leave behind would slow reads down.
    writing: ServerProcess,
    bare_http: ServerProcess,
    /// Requests that read one item each.
    reads: Vec<Vec<u8>>,
    /// The same requests, signed for the second server.
    sleeping_reads: Vec<Vec<u8>>,
    creates: items::Creates,
    /// Number of the next item to create.
    created: AtomicU64,
    store: bare_store::BareStore,
}

impl HttpBench {
    fn build(directory: &std::path::Path) -> Result<HttpBench> {
        let server = ready_server(&directory.join("server"), &[])?;
        let reads = items::prepare(&server)?;
        let sleeping = ready_server(&directory.join("sleeping"), &["--spin", "0"])?;
        let sleeping_reads = items::prepare(&sleeping)?;
        let writing = ready_server(&directory.join("writing"), &[])?;
        items::prepare(&writing)?;
        // The bare HTTP server sends a copy of a real response.
        let response = load::exchange(&server.address, &reads[0])?;
        let bare_http = bare_http::start(&response)?;
        let creates = items::Creates::new(&writing)?;
        let store = bare_store::BareStore::open(&directory.join("bare"))?;
        Ok(HttpBench {
            server,
            sleeping,
            writing,
            bare_http,
            reads,
            sleeping_reads,
            creates,
            created: AtomicU64::new(0),
            store,
        })
    }

    /// Measures one line with a number of connections.
    fn measure(&mut self, line: Line, connections: usize, time: Duration) -> Result<Measurement> {
        let reads = match line {
            Line::ReadWithSleep => &self.sleeping_reads,
            _ => &self.reads,
        };
        let read = |n: u64, out: &mut Vec<u8>| {
            out.extend_from_slice(&reads[n as usize % reads.len()]);
        };
        let counter = AtomicU64::new(0);
        let spec = |address, counter, request| LoadSpec {
            address,
            counter,
            request,
            connections,
            warm_up: WARM_UP,
            time,
        };
        match line {
            Line::Read => load(&spec(&self.server.address, &counter, &read)),
            Line::ReadWithSleep => load(&spec(&self.sleeping.address, &counter, &read)),
            Line::BareHttp => load(&spec(&self.bare_http.address, &counter, &read)),
            Line::Create => {
                let creates = &self.creates;
                load(&spec(&self.writing.address, &self.created, &|n, out| {
                    creates.write(n, out)
                }))
            }
            Line::BareCommit => self.store.commit(connections, time),
            Line::BareGet => self.store.get(connections, time),
        }
    }
}

fn http(arguments: &HttpArguments) -> Result<()> {
    cargo_build()?;
    let directory = temporary_directory(arguments.directory.clone())?;
    let mut bench = HttpBench::build(directory.path())?;
    println!("{}\n", bench.store.describe());
    let mut report = Report::new(&CONCURRENCY);
    let time = Duration::from_secs_f64(arguments.seconds);
    // Each round measures all lines, so that a busy period of the machine affects all lines alike.
    for _ in 0..arguments.rounds {
        for connections in CONCURRENCY {
            for line in Line::ALL {
                let measurement = bench.measure(line, connections, time)?;
                report.add(line, connections, measurement);
            }
        }
    }
    print!("{}", report.table());
    report.state_figures();
    Ok(())
}
