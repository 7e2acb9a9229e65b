//! A suite of `conformance/`: its name, its directory, and the ways to start its runner.
//!
//! Promises: a run that fails names the command that repeats a part of it.
//! Leaves out: the list of suites and what each needs, which are in `conformance.rs`; starting the
//! server, which each suite does with the program named in `ORRERY_BIN`.

use std::path::PathBuf;
use std::process::Command;

use crate::run::{Outcome, must, program, root, target_directory};
use crate::sdk_tools::{PROGRAM_VARIABLE, node_modules, python_program, server};

/// A suite.
pub(crate) struct Suite {
    pub(crate) name: &'static str,
    /// Its directory below `conformance`.
    pub(crate) directory: &'static str,
    /// Installs what the suite needs and returns its run; the arguments are for its runner.
    pub(crate) start: fn(&Suite, &[String]) -> Result<Run, String>,
}

/// A run of a suite that is ready to start.
pub(crate) struct Run {
    pub(crate) command: Command,
    /// The arguments of a run of one part of the suite.
    pub(crate) again: &'static str,
}

impl Suite {
    /// Runs the suite with further arguments for its runner.
    pub(crate) fn run(&self, arguments: &[String]) -> Outcome {
        let mut run = (self.start)(self, arguments)?;
        must(&mut run.command).map_err(|error| {
            let (name, again) = (self.name, run.again);
            format!("{error}; one part again: `cargo xtask conformance {name} {again}`")
        })
    }

    /// Returns the directory of the suite.
    pub(crate) fn path(&self) -> PathBuf {
        root().join("conformance").join(self.directory)
    }

    /// Returns the directory of what the suite installs, builds and writes.
    pub(crate) fn output(&self) -> PathBuf {
        target_directory().join("conformance").join(self.name)
    }

    /// Returns a run of pytest with the Python of the suites.
    pub(crate) fn pytest(&self, arguments: &[String]) -> Result<Run, String> {
        self.pytest_with(python_program(&self.path())?, arguments)
    }

    /// Returns a run of pytest with this command of Python.
    pub(crate) fn pytest_with(&self, python: Command, arguments: &[String]) -> Result<Run, String> {
        let mut command = python;
        command
            .args(["-m", "pytest", "-p", "no:cacheprovider"])
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env(PROGRAM_VARIABLE, server()?);
        let again = "-k NAME --tb=long";
        Ok(Run { command, again })
    }

    /// Runs the tests of the suite's own runner.
    pub(crate) fn test_runner(&self) -> Outcome {
        must(&mut self.pytest(&[])?.command)
    }

    /// Returns a run of the suite's `run.py`.
    pub(crate) fn script(&self, arguments: &[String], again: &'static str) -> Result<Run, String> {
        let mut command = python_program(&self.path())?;
        command.arg("run.py").args(arguments);
        command.env(PROGRAM_VARIABLE, server()?);
        Ok(Run { command, again })
    }

    /// Returns a run of `node --test`, after the installation of the suite's packages; options and
    /// files follow.
    pub(crate) fn node_tests(&self, again: &'static str) -> Result<Run, String> {
        node_modules(&self.path())?;
        let mut command = program("node", &self.path());
        command.arg("--test").env(PROGRAM_VARIABLE, server()?);
        Ok(Run { command, again })
    }
}
