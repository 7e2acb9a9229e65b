//! `orrery bench`: measures workloads on a running server or on a temporary one.
//!
//! The temporary server is a process of this program with a new data directory, which is deleted at
//! the end, or with a directory of the user, which stays. The workload therefore measures what a
//! user runs: a durable store behind HTTP on this machine.

use crate::blog::{account_at, in_words};
use crate::command::{BenchArguments, BlogArguments, TableFormat, Workload};
use crate::disk::{check_space, size};
use crate::temporary_server::TemporaryServer;
use orrery_blog::dataset::Dataset;
use orrery_blog::{BlogError, Estimate, Format, Model, Options};
use orrery_server::Failure;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Runs a workload and prints its report.
///
/// # Errors
/// [`Failure::Usage`] for invalid options; [`Failure::Failed`] if the server cannot be started or
/// the workload fails.
pub(crate) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    match &arguments.workload {
        Workload::Blog(blog) => run_blog(blog),
    }
}

/// Runs the blog workload.
fn run_blog(arguments: &BlogArguments) -> Result<(), Failure> {
    // The options are parsed before a server is started.
    let invalid = |error: BlogError| Failure::Usage(error.to_string());
    let mut models: Vec<Model> = Vec::new();
    for name in &arguments.models {
        models.push(name.parse().map_err(invalid)?);
    }
    let profile = arguments.profile_name().parse().map_err(invalid)?;
    if arguments.resume && arguments.endpoint.is_none() && arguments.data_dir.is_none() {
        return Err(Failure::Usage(
            "--resume requires --data-dir or --endpoint: a temporary server keeps no data".into(),
        ));
    }
    let data = Dataset::new(arguments.seed, arguments.scale).map_err(invalid)?;
    let estimate = orrery_blog::estimate(&data, &models);

    // The temporary server runs until the variable is dropped.
    let temporary_server = match &arguments.endpoint {
        Some(_) => None,
        None => {
            let directory = Directory::of(arguments.data_dir.as_deref());
            directory.check_space(estimate)?;
            let options = ["--profile", arguments.profile_name()].map(OsStr::new);
            let server = TemporaryServer::start(&directory.path, &options)?;
            // The server ends before the directory does.
            Some((server, directory))
        }
    };
    let (endpoint, key) = match &temporary_server {
        Some((server, _)) => (server.endpoint.clone(), server.key.clone()),
        None => account_at(
            arguments.endpoint.as_deref().unwrap_or_default(),
            &arguments.key,
        )?,
    };

    let mut options = options_of(arguments, endpoint, key);
    options.models = models;
    options.profile = profile;

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start the client: {error}")))?;
    let existing = runtime
        .block_on(orrery_blog::bench::databases_to_delete(&options))
        .map_err(failed)?;
    if !arguments.yes {
        confirm_deletion(&existing, &options.endpoint)?;
    }
    let progress = orrery_blog::on_stderr();
    let report = runtime
        .block_on(orrery_blog::bench::run(options, progress.as_ref()))
        .map_err(failed)?;
    writeln!(io::stdout(), "{report}")
        .map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}

/// Returns the failure of a workload.
fn failed(error: BlogError) -> Failure {
    Failure::Failed(format!("the workload failed: {}", in_words(&error)))
}

/// Returns the options of a measurement, except the models and the profile.
fn options_of(arguments: &BlogArguments, endpoint: String, key: String) -> Options {
    let mut options = Options::new(endpoint, key);
    options.scale = arguments.scale;
    options.seed = arguments.seed;
    options.runs = arguments.runs as usize;
    // The databases may stay: a temporary server is deleted as a whole, and on a running server
    // the next run deletes them first.
    options.keep = true;
    options.through_pipelines = arguments.through_pipelines;
    options.resume = arguments.resume;
    options.format = match arguments.format {
        TableFormat::Table => Format::Table,
        TableFormat::Json => Format::Json,
    };
    options
}

/// Asks on the terminal before databases are deleted; asks nothing if there are none.
///
/// # Errors
/// [`Failure::Usage`] without a terminal, or if the answer is not `yes`.
fn confirm_deletion(databases: &[String], endpoint: &str) -> Result<(), Failure> {
    if databases.is_empty() {
        return Ok(());
    }
    let names = databases.join(", ");
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Err(Failure::Usage(format!(
            "the measurement would delete existing databases of {endpoint}: {names}; nothing was \
             deleted: allow it with --yes, or continue an interrupted run with --resume"
        )));
    }
    eprint!("Delete the databases {names} of {endpoint} with everything in them? [yes/no] ");
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| Failure::Failed(format!("cannot read the answer: {error}")))?;
    match answer.trim() {
        "yes" => Ok(()),
        _ => Err(Failure::Usage(
            "nothing was deleted, and nothing was measured".into(),
        )),
    }
}

/// The data directory of a temporary server. Dropping it deletes the directory, unless it is the
/// user's.
struct Directory {
    path: PathBuf,
    /// True if the directory is the user's and stays.
    is_kept: bool,
}

impl Directory {
    /// Returns the user's directory, or else a new one below that for temporary files.
    fn of(chosen: Option<&Path>) -> Self {
        match chosen {
            Some(path) => Self {
                path: path.to_owned(),
                is_kept: true,
            },
            None => Self {
                path: std::env::temp_dir().join(format!("orrery-bench-{}", std::process::id())),
                is_kept: false,
            },
        }
    }

    /// Prints the estimated size and compares it with the free space of the disk and with what the
    /// directory holds already.
    ///
    /// # Errors
    /// [`Failure::Failed`] if the disk is too small.
    fn check_space(&self, estimate: Estimate) -> Result<(), Failure> {
        let needed = estimate.bytes.saturating_sub(size_of_files(&self.path));
        eprintln!(
            "{} items, about {} on disk in {}",
            estimate.items,
            size(estimate.bytes),
            self.path.display()
        );
        let advice = "choose a smaller --scale, fewer --models, or a directory on another disk \
                      with --data-dir";
        check_space(&self.path, needed, advice)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns the size of all files below a directory; 0 if it does not exist.
fn size_of_files(directory: &Path) -> u64 {
    let mut bytes = 0;
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    for entry in entries.flatten() {
        bytes += match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size_of_files(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_is_too_small_is_refused_before_a_server_starts() {
        let directory = Directory::of(Some(Path::new("/no/such/directory")));
        assert_eq!(size_of_files(&directory.path), 0);
        // More than any disk has.
        let estimate = Estimate {
            items: 1,
            bytes: u64::MAX,
        };
        let is_refused = match directory.check_space(estimate) {
            Err(Failure::Failed(message)) => message.contains("choose a smaller --scale"),
            _ => false,
        };
        assert_eq!(is_refused, cfg!(unix));
    }
}
