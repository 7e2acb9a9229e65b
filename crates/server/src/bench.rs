//! `orrery bench`: measures workloads on a running server or on a temporary one.
//!
//! The temporary server is a process of this program with a new data directory, which is deleted at
//! the end. The workload therefore measures what a user runs: a durable store behind HTTP on this
//! machine.

use crate::command::{BenchArguments, BlogArguments, TableFormat, Workload};
use crate::failure::Failure;
use orrery_blog::{BlogError, Format, Model, Options};
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

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

    // The temporary server runs until the variable is dropped.
    let temporary_server = match &arguments.endpoint {
        Some(_) => None,
        None => Some(TemporaryServer::start(arguments.profile_name())?),
    };
    let (endpoint, key) = match (&temporary_server, &arguments.endpoint, &arguments.key) {
        (Some(server), _, _) => (server.endpoint.clone(), server.key.clone()),
        (None, Some(endpoint), Some(key)) => (endpoint.clone(), key.clone()),
        _ => {
            return Err(Failure::Usage(
                "--endpoint requires --key, the account key of that server".into(),
            ));
        }
    };

    let mut options = Options::new(endpoint, key);
    options.scale = arguments.scale;
    options.models = models;
    options.profile = profile;
    options.seed = arguments.seed;
    // The databases may stay: a temporary server is deleted as a whole, and on a running server
    // the next run deletes them first.
    options.keep = true;
    options.format = match arguments.format {
        TableFormat::Table => Format::Table,
        TableFormat::Json => Format::Json,
    };

    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start the client: {error}")))?;
    let progress = orrery_blog::on_stderr();
    let report = runtime
        .block_on(orrery_blog::bench::run(options, progress.as_ref()))
        .map_err(|error| Failure::Failed(format!("the workload failed: {error}")))?;
    writeln!(io::stdout(), "{report}")
        .map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}

/// A server for one measurement. Dropping it ends the process and deletes the data directory.
struct TemporaryServer {
    process: Child,
    directory: PathBuf,
    endpoint: String,
    key: String,
}

impl TemporaryServer {
    /// Starts a server and waits until it is ready.
    fn start(profile: &str) -> Result<Self, Failure> {
        let failed =
            |action: &str, error: io::Error| Failure::Failed(format!("cannot {action}: {error}"));
        let program = std::env::current_exe()
            .map_err(|error| failed("determine the path of this program", error))?;
        let directory = std::env::temp_dir().join(format!("orrery-bench-{}", std::process::id()));

        // Port 0 selects a free port, so that a measurement does not disturb a running server.
        // Standard error is inherited, so that the user sees why a server does not start.
        let mut process = Command::new(program)
            .args(["start", "--listen", "127.0.0.1:0", "--admin-listen", "off"])
            .args(["--ready-json", "--log-level", "error"])
            .args(["--profile", profile])
            .arg("--data-dir")
            .arg(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("start a server", error))?;
        let stdout = process.stdout.take();

        // From here on an early return drops the server, which ends the process.
        let mut server = TemporaryServer {
            process,
            directory,
            endpoint: String::new(),
            key: String::new(),
        };
        let mut line = String::new();
        if let Some(stdout) = stdout {
            BufReader::new(stdout)
                .read_line(&mut line)
                .map_err(|error| failed("read the output of the server", error))?;
        }

        // A server that does not start prints no line; its message stands on standard error.
        let ready = parse(line.as_bytes()).unwrap_or(Json::Null);
        let endpoint = ready.get("endpoint_http").and_then(Json::as_str);
        let key = ready.get("key").and_then(Json::as_str);
        let (Some(endpoint), Some(key)) = (endpoint, key) else {
            return Err(Failure::Failed(
                "the server did not start; its message stands above".into(),
            ));
        };
        server.endpoint = endpoint.to_owned();
        server.key = key.to_owned();
        Ok(server)
    }
}

impl Drop for TemporaryServer {
    fn drop(&mut self) {
        // The process may have ended already. Its data is deleted, so an orderly shutdown is not
        // needed.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
