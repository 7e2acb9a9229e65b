//! The processes of a run: the blog with its database, workers, migrations, the drift check.

use crate::Result;
use orrery_model::Json;
use orrery_model::json::parse;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A blog that runs, with its database in the same process.
pub(crate) struct BlogProcess {
    process: Child,
    /// Host and port of the application.
    pub(crate) address: String,
    /// The database, for other commands.
    pub(crate) database: Database,
}

/// The database of a blog.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    /// URL of the database.
    pub(crate) endpoint: String,
    /// Account key.
    pub(crate) key: String,
}

impl BlogProcess {
    /// Starts a blog on a data directory and waits until it is filled and ready.
    pub(crate) fn start(directory: &Path, options: &[String]) -> Result<Self> {
        let mut command = program()?;
        command
            .arg("blog")
            .args([
                "--listen",
                "127.0.0.1:0",
                "--database-listen",
                "127.0.0.1:0",
            ])
            .args(["--admin-listen", "off", "--ready-json"])
            .arg("--data-dir")
            .arg(directory)
            .args(options);
        let (process, line) = start_and_read_line(&mut command)?;
        // From here on an error drops the value, which kills the process.
        let mut blog = BlogProcess {
            process,
            address: String::new(),
            database: Database {
                endpoint: String::new(),
                key: String::new(),
            },
        };
        let ready = parse(line.as_bytes())
            .map_err(|_| "the blog did not start; its message stands above")?;
        let text = |name: &str| {
            let text = ready.get(name).and_then(Json::as_str);
            text.unwrap_or_default().to_owned()
        };
        blog.address = text("application")
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        blog.database = Database {
            endpoint: text("endpoint_http"),
            key: text("key"),
        };
        Ok(blog)
    }

    /// Stops the blog with SIGTERM and returns its exit status.
    pub(crate) fn stop(mut self) -> Result<ExitStatus> {
        let id = self.process.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status()?;
        Ok(self.process.wait()?)
    }
}

impl Drop for BlogProcess {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A process that can be killed at any time, such as a worker or a migration.
pub(crate) struct Killable(Child);

impl Killable {
    /// Starts a worker and waits until its pipelines run.
    pub(crate) fn worker(database: &Database) -> Result<Self> {
        let mut command = beside(database, "worker")?;
        command.arg("--ready-json");
        let (process, line) = start_and_read_line(&mut command)?;
        let worker = Killable(process);
        match line.contains("ready") {
            true => Ok(worker),
            false => Err("a worker did not start; its message stands above".into()),
        }
    }

    /// Starts a migration.
    pub(crate) fn migration(database: &Database, to: &str) -> Result<Self> {
        let mut command = beside(database, "migrate")?;
        let process = command
            .args(["--to", to])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Killable(process))
    }

    /// Returns the exit status if the process has ended.
    pub(crate) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.0.try_wait()?)
    }

    /// Sends SIGKILL and waits for the end of the process. Returns false if it had ended before.
    pub(crate) fn kill(&mut self) -> Result<bool> {
        if self.ended()?.is_some() {
            return Ok(false);
        }
        self.0.kill()?;
        self.0.wait()?;
        Ok(true)
    }
}

impl Drop for Killable {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the drift check of the program and returns true if there is no drift, with the output.
pub(crate) fn drift(database: &Database) -> Result<(bool, String)> {
    let output = beside(database, "drift")?.output()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok((output.status.success(), text))
}

/// Returns the command of an action on a running blog.
fn beside(database: &Database, action: &str) -> Result<Command> {
    let mut command = program()?;
    command
        .args(["blog", action, "--endpoint", &database.endpoint])
        .args(["--key", &database.key]);
    Ok(command)
}

/// Starts a command and reads the first line of its output.
fn start_and_read_line(command: &mut Command) -> Result<(Child, String)> {
    let mut process = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    if let Some(stdout) = process.stdout.take() {
        // A process that does not start closes its output.
        BufReader::new(stdout).read_line(&mut line)?;
    }
    Ok((process, line))
}

/// Returns the command of the server program, which must be in the directory of this program.
fn program() -> Result<Command> {
    let program = std::env::current_exe()?.with_file_name("orrery");
    if !program.exists() {
        return Err(format!(
            "{} does not exist: build it with the same profile",
            program.display()
        )
        .into());
    }
    Ok(Command::new(program))
}
