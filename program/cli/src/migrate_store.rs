//! `orrery migrate-store`: copies the data of a directory to PostgreSQL clusters, or back.
//!
//! The directory is locked and the lease of the clusters is held for the time of the copy, so that
//! no server uses either. Progress goes to standard error, the result to standard output.
//!
//! Left out: keys and certificates, which the result names.

use crate::command::{MigrateStoreArguments, StoreKind};
use orrery_engine::storage_ids;
use orrery_model::sync::lock;
use orrery_model::world::World;
use orrery_node::{
    FirstCluster, LeasedStore, Leaseholder, Node, NodeLease, Progress, Report, Terms, end,
    machine_name, prepare_placed, read_file,
};
use orrery_placement::{CopyProgress, Migration, MigrationProgress, migrate_store};
use orrery_server::data_dir::{self, SERVER};
use orrery_server::engine::{open_store, store_folder};
use orrery_server::{Failure, SystemWorld, moved, private_file};
use orrery_storage::{LocalOptions, LocalStore, PartitionId, Store, StoreError};
use orrery_storage_postgres::ClusterConfig;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time for which a silent leaseholder is waited for, in lives of its lease. A living holder
/// renews six times in one.
const LIVES: u64 = 2;
/// The pause between two lines about the same partition.
const LINE_PAUSE: Duration = Duration::from_secs(2);
/// Files of a data directory that are not data, and that a server on the copy may need.
const KEPT_FILES: [&str; 3] = ["admin.key", "tls", "blog.json"];

/// A leaseholder, with the milliseconds for which its renewals are good.
type Holder = (Node, u64);

/// Copies the data and prints the result.
///
/// # Errors
/// [`Failure::Usage`] for options and files that cannot be used; [`Failure::Failed`] if a server
/// uses the clusters; [`Failure::Data`] if a store cannot be used or the copy fails.
pub(crate) fn run(arguments: &MigrateStoreArguments) -> Result<(), Failure> {
    private_file::restrict_new_files();
    let configs = read_file(&arguments.cluster_file)?;
    let directory = data_dir::locate(arguments.data_dir.as_deref(), SERVER)?;

    // The directory first: its lock is decided at once.
    let local = open_directory(arguments, &directory)?;
    let (clusters, _lease) = open_clusters(&arguments.cluster_file, configs)?;
    let (from, to): (&dyn Store, &dyn Store) = match arguments.to {
        StoreKind::Postgres => (&local, &clusters),
        StoreKind::Directory => (&clusters, &local),
    };
    let unreadable = |error: orrery_model::Error| {
        Failure::Data(format!("cannot read the source: {}", error.cause_chain()))
    };
    let partitions = storage_ids(from).map_err(unreadable)?;
    let mut lines = Lines::new(partitions.len());
    let done = migrate_store(from, to, &partitions, |step| lines.tell(step));
    let done = done.map_err(|error| {
        Failure::Data(format!(
            "{error}\nThe source is unchanged. The same command continues an interrupted copy."
        ))
    })?;
    let marked = match arguments.to {
        StoreKind::Postgres => moved::mark(&directory, &arguments.cluster_file),
        StoreKind::Directory => moved::unmark(&directory),
    };
    marked.map_err(|error| {
        Failure::Data(format!(
            "the copy is complete, but the mark of {} could not be changed: {error}",
            directory.display()
        ))
    })?;
    print(&report(arguments, &directory, &done))
}

/// Opens the store of the data directory, which must exist if it is the source.
fn open_directory(
    arguments: &MigrateStoreArguments,
    directory: &Path,
) -> Result<LocalStore, Failure> {
    match arguments.to {
        StoreKind::Postgres => {
            let is_created = LocalStore::is_created(store_folder(directory));
            if !is_created.map_err(|error| Failure::Data(error.to_string()))? {
                return Err(Failure::Data(format!(
                    "there is no data in {}: name the data directory of a server with --data-dir",
                    directory.display()
                )));
            }
        }
        StoreKind::Directory => data_dir::prepare_copy(directory, &[&arguments.cluster_file])?,
    }
    let options = LocalOptions {
        scrub_bytes_per_second: 0,
        ..LocalOptions::default()
    };
    open_store(directory, options)
}

/// Gets the lease of the clusters and opens them behind the lease.
fn open_clusters(
    file: &Path,
    configs: Vec<ClusterConfig>,
) -> Result<(LeasedStore, NodeLease), Failure> {
    let first = FirstCluster::open(file, &configs)?;
    let lease = acquire(first.store())?;
    let placed = prepare_placed(configs, first)?.open()?;
    let store = LeasedStore::new(placed, lease.validity().clone());
    Ok((store, lease))
}

/// Gets the lease of the clusters, after a wait that shows if its holder lives.
fn acquire(store: Arc<dyn Store>) -> Result<NodeLease, Failure> {
    let node = Node {
        name: format!("migrate-store at {}", machine_name()),
        address: String::new(),
    };
    let (terms, world) = (Terms::default(), Arc::new(SystemWorld::new()));
    let holder: Arc<Mutex<Option<Holder>>> = Arc::default();
    let report: Report = {
        let holder = holder.clone();
        Arc::new(move |progress| tell_of_lease(progress, &holder))
    };
    let started = world.monotonic_ms();
    let (clock, seen) = (world.clone(), holder.clone());
    let wait = |pause| {
        std::thread::park_timeout(pause);
        let ttl_ms = lock(&seen).as_ref().map_or(terms.ttl_ms, |(_, ttl)| *ttl);
        clock.monotonic_ms() - started <= LIVES * ttl_ms
    };
    let lease = NodeLease::acquire(store, node, terms, world, report, wait);
    let lease = lease.map_err(|error: StoreError| Failure::Data(error.to_string()))?;
    lease.ok_or_else(|| match &*lock(&holder) {
        Some((Node { name, address }, _)) => Failure::Failed(format!(
            "the node '{name}' ({address}) serves the data of the clusters: stop all nodes \
                 first"
        )),
        None => Failure::Data(
            "the lease of the clusters cannot be read or written: see the messages above"
                .to_owned(),
        ),
    })
}

/// Tells of the lease on standard error, and ends the process if the lease is lost.
fn tell_of_lease(progress: Progress, holder: &Mutex<Option<Holder>>) {
    match progress {
        Progress::Waiting(Leaseholder { node, .. }, ttl_ms) => {
            tell(&format!(
                "the node '{}' ({}) holds the lease of the clusters: waiting to see if it lives",
                node.name, node.address
            ));
            *lock(holder) = Some((node, ttl_ms));
        }
        Progress::Failed(cause) => tell(&format!("the lease cannot be renewed now: {cause}")),
        Progress::Answered => tell("the lease is renewed again"),
        Progress::Released => {}
        Progress::Lost(node) => {
            tell(&format!(
                "the node '{}' ({}) has taken the lease of the clusters: stop all nodes and run \
                 the same command again",
                node.name, node.address
            ));
            end();
        }
    }
}

/// The lines about the progress.
struct Lines {
    /// Partitions of the source.
    partitions: usize,
    copied: usize,
    compared: usize,
    told: Instant,
}

impl Lines {
    fn new(partitions: usize) -> Lines {
        Lines {
            partitions,
            copied: 0,
            compared: 0,
            told: Instant::now(),
        }
    }

    /// Writes a line about a partition that is complete, and of others one line in a while.
    fn tell(&mut self, step: MigrationProgress) {
        let (verb, partition, rows, is_complete) = match step {
            MigrationProgress::Copied(CopyProgress {
                partition,
                rows,
                is_complete,
                was_complete,
                ..
            }) => {
                let verb = if was_complete { "found" } else { "copied" };
                (verb, partition, rows, is_complete)
            }
            MigrationProgress::Compared {
                partition,
                rows,
                is_complete,
            } => ("compared", partition, rows, is_complete),
        };
        if !is_complete && self.told.elapsed() < LINE_PAUSE {
            return;
        }
        self.told = Instant::now();
        let count = match verb {
            "compared" => &mut self.compared,
            _ => &mut self.copied,
        };
        *count += usize::from(is_complete);
        tell(&self.line(verb, partition, rows, is_complete));
    }

    fn line(&self, verb: &str, partition: PartitionId, rows: u64, is_complete: bool) -> String {
        let count = if verb == "compared" {
            self.compared
        } else {
            self.copied
        };
        let whole = self.partitions;
        match (verb, is_complete) {
            ("found", _) => format!("partition {partition}: complete before ({count} of {whole})"),
            (_, true) => format!("partition {partition}: {rows} rows {verb} ({count} of {whole})"),
            (_, false) => format!("partition {partition}: {rows} rows {verb} so far"),
        }
    }
}

/// Describes a complete copy, and tells what to do next.
fn report(arguments: &MigrateStoreArguments, directory: &Path, done: &Migration) -> String {
    let (file, directory_text) = (arguments.cluster_file.display(), directory.display());
    let mut text = format!(
        "{} partitions are in the target, {} of them copied now.\n\
         Compared: heads and all {} rows ({} bytes) are the same in source and target.\n\n",
        done.partitions, done.copied, done.rows, done.bytes
    );
    // Writing to a string cannot fail.
    let _ = match arguments.to {
        StoreKind::Postgres => write!(
            text,
            "Start a server on the clusters, with the other options as before:\n  \
             orrery start --store postgres --cluster-file {file} --data-dir {directory_text}\n\n\
             Keys and certificates are files, and were not copied. A node with another data \
             directory needs copies of:\n"
        ),
        StoreKind::Directory => write!(
            text,
            "Start a server on the directory, with the other options as before:\n  \
             orrery start --data-dir {directory_text}\n\n\
             Keys and certificates are files, and were not copied. Take along from the data \
             directory of a node:\n  admin.key\n  tls\n"
        ),
    };
    for file in kept_files(arguments, directory) {
        let _ = writeln!(text, "  {}", file.display());
    }
    text.push_str(
        "  the files of --key-file, --admin-key-file, --tls-cert, --tls-key and --entra-keys, if \
         they are used\n\n",
    );
    text.push_str(match arguments.to {
        StoreKind::Postgres => {
            "The data directory is marked: a server without --store postgres does not start on it, \
             because its data gets none of the later writes.\n"
        }
        StoreKind::Directory => {
            "Start no node on the clusters any more: their data gets none of the later writes.\n"
        }
    });
    text
}

/// Returns the files beside the data of a source that is a directory.
fn kept_files(arguments: &MigrateStoreArguments, directory: &Path) -> Vec<PathBuf> {
    if arguments.to == StoreKind::Directory {
        return Vec::new();
    }
    let files = KEPT_FILES.iter().map(|name| directory.join(name));
    files.filter(|file| file.exists()).collect()
}

/// Writes a line to standard error.
fn tell(line: &str) {
    // If standard error is closed, the result tells enough.
    let _ = writeln!(io::stderr(), "{line}");
}

fn print(text: &str) -> Result<(), Failure> {
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}
