//! Benchmarks: what Orrery costs on top of what lies under it, measured side by side in one run.
//!
//! `http` measures the program as clients meet it, next to a bare HTTP server and the bare store; `engine` measures the
//! engine alone; `queries` measures answers of one size in containers of several sizes; `bulk` measures creates that come
//! many at once, next to such that come one by one; `throughput` measures metering and admission; `traffic` measures what
//! it costs to keep what was asked, and to count it. docs/benchmarks.md says what each line means. Build with `--release`.

#![allow(clippy::print_stdout)] // a tool that speaks to a terminal

mod bare_http;
mod bare_store;
mod bulk;
mod child;
mod engine;
mod items;
mod load;
mod queries;
mod report;
mod splits;
mod throughput;
mod traffic;

use child::{Child, cargo_build, ready_server};
use clap::{Parser, Subcommand};
use load::{Call, load};
use report::{Line, Report, Slice};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What can go wrong ends the run with a sentence.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Benchmarks of Orrery.
#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Point reads and durable creates through HTTP, next to the bare store and a bare HTTP server
    Http(HttpArguments),
    /// Point reads and creates of the engine alone, in this process and in memory
    Engine {
        /// Rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// What metering and admission cost a request, beside the engine's reads and creates in memory
    Throughput {
        /// Rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Keeping what was asked of a container, and counting it for the metrics, for each request
    Traffic {
        /// Rounds
        #[arg(long, default_value_t = 5)]
        rounds: usize,
    },
    /// Queries on a small and a large container of the same shape, on disk, in this process
    Queries {
        /// Items of each container
        #[arg(long, num_args = 1.., value_name = "N", default_values_t = [20_000, 2_000_000])]
        items: Vec<u64>,
        /// How often each query is asked
        #[arg(long, default_value_t = 200)]
        times: u64,
        /// Where data is kept while measuring [default: the system's temporary directory]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Splits and merges of a physical partition on disk, and what a reader and a writer notice of them
    Splits {
        /// Items of about a kilobyte
        #[arg(long, default_value_t = 50_000)]
        items: u64,
        /// Rounds, in each of which both is measured once
        #[arg(long, default_value_t = 3)]
        rounds: usize,
        /// Seconds of one measurement
        #[arg(long, default_value_t = 5.0)]
        seconds: f64,
        /// Where data is kept while measuring [default: the system's temporary directory]
        #[arg(long, value_name = "DIR")]
        directory: Option<PathBuf>,
    },
    /// Durable creates one by one, in bulk and in transactional batches, through HTTP
    Bulk(HttpArguments),
    /// Answers every request with the answer given on standard input (`http` starts this itself)
    #[command(hide = true)]
    FixedAnswer,
}

#[derive(clap::Args)]
struct HttpArguments {
    /// Rounds, in each of which every line is measured once
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds of one measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Where data is kept while measuring; the disk under it decides [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

impl HttpArguments {
    /// Removed when it is dropped.
    fn temporary_directory(&self) -> Result<tempfile::TempDir> {
        let parent = self.directory.clone().unwrap_or_else(std::env::temp_dir);
        Ok(tempfile::Builder::new()
            .prefix("orrery-bench")
            .tempdir_in(parent)?)
    }
}

/// Requests of each connection before time is taken.
const WARM_UP: usize = 20;
/// Connections and writers measured.
const CONCURRENCY: [usize; 2] = [1, 16];

fn main() -> Result<()> {
    match Program::parse().command {
        Command::Http(arguments) => http(&arguments),
        Command::Engine { rounds } => engine::run(rounds),
        Command::Throughput { rounds } => throughput::run(rounds),
        Command::Traffic { rounds } => traffic::run(rounds),
        Command::Queries {
            items,
            times,
            directory,
        } => {
            let parent = directory.unwrap_or_else(std::env::temp_dir);
            let directory = tempfile::Builder::new()
                .prefix("orrery-bench")
                .tempdir_in(parent)?;
            queries::run(&items, times, directory.path())
        }
        Command::Splits {
            items,
            rounds,
            seconds,
            directory,
        } => {
            let parent = directory.unwrap_or_else(std::env::temp_dir);
            let directory = tempfile::Builder::new()
                .prefix("orrery-bench")
                .tempdir_in(parent)?;
            splits::run(items, rounds, seconds, directory.path())
        }
        Command::Bulk(arguments) => {
            cargo_build()?;
            let directory = arguments.temporary_directory()?;
            bulk::run(
                arguments.rounds,
                Duration::from_secs_f64(arguments.seconds),
                directory.path(),
            )
        }
        Command::FixedAnswer => bare_http::serve(),
    }
}

/// What every round measures.
struct Stand {
    server: Child,
    fixed: Child,
    reads: Vec<Vec<u8>>,
    creates: items::Creates,
    created: AtomicU64,
    store: bare_store::BareStore,
}

impl Stand {
    fn build(directory: &std::path::Path) -> Result<Stand> {
        let server = ready_server(&directory.join("server"))?;
        let reads = items::prepare(&server)?;
        let answer = load::ask(&server.address, &reads[0])?;
        let fixed = bare_http::start(&answer)?;
        let creates = items::Creates::new(&server)?;
        let store = bare_store::BareStore::open(&directory.join("bare"))?;
        Ok(Stand {
            server,
            fixed,
            reads,
            creates,
            created: AtomicU64::new(0),
            store,
        })
    }

    /// One measurement of one line.
    fn measure(&mut self, line: Line, connections: usize, time: Duration) -> Result<Slice> {
        let read = |n: u64, out: &mut Vec<u8>| {
            out.extend_from_slice(&self.reads[n as usize % self.reads.len()])
        };
        let counter = AtomicU64::new(0);
        let call = |address, counter, request| Call {
            address,
            counter,
            request,
            connections,
            warm_up: WARM_UP,
            time,
        };
        match line {
            Line::Read => load(&call(&self.server.address, &counter, &read)),
            Line::BareHttp => load(&call(&self.fixed.address, &counter, &read)),
            Line::Create => {
                let creates = &self.creates;
                load(&call(&self.server.address, &self.created, &|n, out| {
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
    let directory = arguments.temporary_directory()?;
    let mut stand = Stand::build(directory.path())?;
    println!("{}\n", stand.store.describe());
    let mut report = Report::new(&CONCURRENCY);
    let time = Duration::from_secs_f64(arguments.seconds);
    // In each round the lines that are compared lie side by side, so that a busy moment of the machine meets all alike.
    for _ in 0..arguments.rounds {
        for connections in CONCURRENCY {
            for line in Line::ALL {
                let slice = stand.measure(line, connections, time)?;
                report.add(line, connections, slice);
            }
        }
    }
    print!("{}", report.table());
    Ok(())
}
