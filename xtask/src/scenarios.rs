//! The shared table of scenarios (`conformance/sdk/scenarios`) through the official SDKs: builds
//! the driver of a language with pinned dependencies, then lets `run.py` run the table and judge
//! the results.
//!
//! Promises: build output and fetched packages lie below `target/conformance/scenarios` or in the
//! language's own cache, so the checkout stays clean.
//! Leaves out: starting the server and the driver; `run.py` does both.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::run::{cargo, must, root, target_directory};
use crate::sdk_tools::{
    PROGRAM_VARIABLE, go_program, java_classes, javascript_sdk, python_program, server,
};
use crate::suite::{Run, Suite};

/// The directory of the table and the drivers.
const DIRECTORY: &str = "conformance/sdk/scenarios";

/// The command line that starts the driver of an SDK: a program and its arguments.
type Driver = Vec<OsString>;

/// Starts the table through the Go SDK.
pub(crate) fn go(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    table(suite, "http", &go_driver()?, arguments)
}

/// Starts the table through the Java SDK, over https and in gateway mode and direct mode unless the
/// arguments say otherwise.
pub(crate) fn java(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    let both = ["--mode", "both"].map(str::to_owned);
    table(
        suite,
        "https",
        &java_driver()?,
        &[&both, arguments].concat(),
    )
}

/// Starts the table through the Rust SDK.
pub(crate) fn rust(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    table(suite, "http", &rust_driver()?, arguments)
}

/// Starts the table through the Python SDK that `conformance/sdk/python` pins, over http and over
/// https unless the arguments say otherwise.
pub(crate) fn python(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    table(suite, "both", &python_driver()?, arguments)
}

/// Starts the table through the JavaScript SDK that `conformance/sdk/javascript` pins, over http
/// and over https unless the arguments say otherwise.
pub(crate) fn javascript(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    table(suite, "both", &javascript_driver()?, arguments)
}

/// Starts the mistakes of `conformance/sdk/mistakes` through all SDKs, and the comparison of what
/// their users see with the table and with the page of the documentation.
pub(crate) fn mistakes(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    suite.test_runner()?;
    let drivers = [
        ("python", python_driver()?),
        ("javascript", javascript_driver()?),
        ("java", java_driver()?),
        ("go", go_driver()?),
        ("rust", rust_driver()?),
    ];
    let mut run = from_root("conformance/sdk/mistakes/run.py")?;
    run.command
        .args(["--page", "docs/reference/mistakes.md"])
        .args(arguments);
    for (name, driver) in drivers {
        // The runner takes a command line as a JSON array.
        let words: Vec<String> = driver
            .iter()
            .map(|word| word.display().to_string())
            .collect();
        run.command
            .arg("--driver")
            .arg(name)
            .arg(format!("{words:?}"));
    }
    Ok(run)
}

/// Returns a run of the table with a driver; a scheme in the arguments takes precedence.
fn table(
    suite: &Suite,
    scheme: &str,
    driver: &Driver,
    arguments: &[String],
) -> Result<Run, String> {
    let mut run = from_root(&format!("{DIRECTORY}/run.py"))?;
    run.command
        .arg("--lists")
        .arg(suite.path().join("expected.toml"))
        .args(["--scheme", scheme])
        .args(arguments)
        .arg("--")
        .args(driver);
    Ok(run)
}

/// Returns a run of a script that takes paths from the root of the repository.
fn from_root(script: &str) -> Result<Run, String> {
    let mut command = python_program(&root())?;
    command.arg(script).env(PROGRAM_VARIABLE, server()?);
    let again = "--only NAME";
    Ok(Run { command, again })
}

/// Returns the directory into which the driver of a language is built.
fn output_directory(language: &str) -> PathBuf {
    let drivers = target_directory().join("conformance/scenarios");
    drivers.join(language)
}

fn source_directory(language: &str) -> PathBuf {
    root().join(DIRECTORY).join(language)
}

fn python_driver() -> Result<Driver, String> {
    let python = python_program(&root())?;
    Ok(vec![
        python.get_program().to_owned(),
        "-W".into(),
        "ignore".into(),
        format!("{DIRECTORY}/python/driver.py").into(),
    ])
}

fn javascript_driver() -> Result<Driver, String> {
    javascript_sdk()?;
    let script = format!("{DIRECTORY}/javascript/driver.js");
    Ok(vec!["node".into(), script.into()])
}

fn go_driver() -> Result<Driver, String> {
    let source = source_directory("go");
    let driver = output_directory("go").join("driver");
    go_program(&source, &driver)?;
    Ok(vec![driver.into()])
}

/// Builds the classes of the Java driver and returns their class path, with the libraries of the
/// SDK.
pub(crate) fn java_libraries() -> Result<String, String> {
    java_classes(&source_directory("java"), &output_directory("java"))
}

/// Builds the Java driver.
fn java_driver() -> Result<Driver, String> {
    let class_path = java_libraries()?;
    // A run takes seconds on few cores: the quick compiler and the serial collector fit.
    let start = [
        "java",
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-cp",
        &class_path,
        "orrery.Main",
    ];
    Ok(start.map(OsString::from).to_vec())
}

/// Builds the Rust driver, a workspace of its own with its own dependencies and build directory.
fn rust_driver() -> Result<Driver, String> {
    let output = output_directory("rust");
    let mut build = cargo(&["build", "--locked", "--quiet"]);
    build
        .current_dir(source_directory("rust"))
        .env("CARGO_TARGET_DIR", &output);
    must(&mut build).map_err(|error| format!("{error}; is the package registry reachable?"))?;
    Ok(vec![output.join("debug/orrery-scenarios").into()])
}
