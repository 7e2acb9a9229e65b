//! `orrery bench`: measures workloads on a server, its own unless it is told of one.
//!
//! A server of its own is this program again, started on a data directory that is forgotten at the end, so what is
//! measured is what a user would run: a durable store behind HTTP on this machine.

use crate::command::{BenchArguments, BlogArguments, TableFormat, Workload};
use crate::failure::Failure;
use orrery_blog::{Format, Model, Options};
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Runs a workload and prints what it found.
///
/// # Errors
/// [`Failure::Usage`] for options that cannot be, [`Failure::Failed`] for everything that goes wrong on the way.
pub(crate) fn run(arguments: &BenchArguments) -> Result<(), Failure> {
    match &arguments.workload {
        Workload::Blog(blog) => run_blog(blog),
    }
}

fn run_blog(arguments: &BlogArguments) -> Result<(), Failure> {
    let models: Vec<Model> = arguments
        .models
        .iter()
        .map(|name| {
            name.parse()
                .map_err(|error: orrery_blog::BlogError| Failure::Usage(error.to_string()))
        })
        .collect::<Result<_, _>>()?;
    let own = match &arguments.endpoint {
        Some(_) => None,
        None => Some(OwnServer::start(arguments.profile_name())?),
    };
    let (endpoint, key) = match (&own, &arguments.endpoint, &arguments.key) {
        (Some(own), _, _) => (own.endpoint.clone(), own.key.clone()),
        (None, Some(endpoint), Some(key)) => (endpoint.clone(), key.clone()),
        _ => {
            return Err(Failure::Usage(
                "--endpoint needs --key, the account's key".into(),
            ));
        }
    };
    let mut options = Options::new(endpoint, key);
    options.scale = arguments.scale;
    options.models = models;
    options.profile = arguments
        .profile_name()
        .parse()
        .map_err(|error: orrery_blog::BlogError| Failure::Usage(error.to_string()))?;
    options.seed = arguments.seed;
    // A server of its own is thrown away whole, which is quicker than deleting what is in it.
    options.keep = true;
    options.format = match arguments.format {
        TableFormat::Table => Format::Table,
        TableFormat::Json => Format::Json,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Failed(format!("cannot start the client: {error}")))?;
    let report = runtime
        .block_on(orrery_blog::bench::run(
            options,
            orrery_blog::on_stderr().as_ref(),
        ))
        .map_err(|error| Failure::Failed(format!("the workload stopped: {error}")))?;
    writeln!(std::io::stdout(), "{report}")
        .map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}")))
}

/// A server that lives as long as the measurement.
struct OwnServer {
    child: Child,
    directory: PathBuf,
    endpoint: String,
    key: String,
}

impl OwnServer {
    fn start(profile: &str) -> Result<Self, Failure> {
        let failed =
            |what: &str, error: std::io::Error| Failure::Failed(format!("{what}: {error}"));
        let program =
            std::env::current_exe().map_err(|error| failed("cannot find this program", error))?;
        let directory = std::env::temp_dir().join(format!("orrery-bench-{}", std::process::id()));
        let mut child = Command::new(program)
            .args([
                "start",
                "--listen",
                "127.0.0.1:0",
                "--ready-json",
                "--log-level",
                "error",
                "--profile",
                profile,
            ])
            .args(["--admin-listen", "off", "--data-dir"])
            .arg(&directory)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed("cannot start a server", error))?;
        let mut line = String::new();
        let read = child
            .stdout
            .take()
            .map(|out| BufReader::new(out).read_line(&mut line));
        let mut server = OwnServer {
            child,
            directory,
            endpoint: String::new(),
            key: String::new(),
        };
        if let Some(Err(error)) = read {
            return Err(failed("cannot read what the server says", error));
        }
        let ready = parse(line.as_bytes()).unwrap_or(Json::Null);
        let text = |name: &str| ready.get(name).and_then(Json::as_str).map(str::to_owned);
        match text("endpoint_http").zip(text("key")) {
            Some((endpoint, key)) => (server.endpoint, server.key) = (endpoint, key),
            None => {
                return Err(Failure::Failed(
                    "the server did not start; see its message above".into(),
                ));
            }
        }
        Ok(server)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        // Its data is forgotten anyway, so there is nothing to wait for or to tell.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
