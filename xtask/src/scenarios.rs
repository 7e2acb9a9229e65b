//! The shared table of scenarios (`conformance/scenarios`) through the official SDKs: builds the driver of a language
//! with pinned dependencies, then lets `run.py` walk the table and judge.
//!
//! Promises: what is built or fetched lies below `target/conformance/scenarios` or in the language's own cache, so the
//! checkout stays clean.
//! Leaves out: starting the server and the driver; `run.py` does both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::conformance;
use crate::run::{Outcome, must, output_of, program, root, target_directory};

/// Where the table and the drivers are.
const HOME: &str = "conformance/scenarios";

/// How the driver of an SDK is started: a program and its arguments.
type Driver = Vec<OsString>;

/// The tests of the judge and of the table's form.
pub fn judge(arguments: &[String]) -> Outcome {
    conformance::pytest("scenarios", arguments)
}

/// The table through the Go SDK.
pub fn go(arguments: &[String]) -> Outcome {
    walk("go", &go_driver()?, arguments)
}

/// Walks the table with a driver; further arguments go to `run.py`.
fn walk(language: &str, driver: &Driver, arguments: &[String]) -> Outcome {
    let mut run = conformance::python_program(&root())?;
    run.arg(format!("{HOME}/run.py")).arg("--lists").arg(format!("{HOME}/{language}/expected.toml"));
    run.args(arguments).arg("--").args(driver).env(conformance::PROGRAM_VARIABLE, conformance::server()?);
    must(&mut run)
        .map_err(|error| format!("{error}; one scenario again: `cargo xtask conformance {language} --only NAME`"))
}

/// Where the driver of a language is built.
fn built(language: &str) -> PathBuf {
    target_directory().join("conformance/scenarios").join(language)
}

fn source(language: &str) -> PathBuf {
    root().join(HOME).join(language)
}

fn go_driver() -> Result<Driver, String> {
    let (source, driver) = (source("go"), built("go").join("driver"));
    tool("go", "version", &source, "the suite needs Go 1.25 or newer")?;
    let mut build = program("go", &source);
    build.args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o"]).arg(&driver).arg(".");
    must(build.env("GOTOOLCHAIN", "local")).map_err(|error| format!("{error}; is the module proxy reachable?"))?;
    Ok(vec![driver.into()])
}

/// Says clearly that a tool is missing.
fn tool(name: &str, version: &str, directory: &Path, needs: &str) -> Outcome {
    output_of(program(name, directory).arg(version)).map(drop).map_err(|error| format!("{error}; {needs}"))
}
