//! The shared table of scenarios (`conformance/sdk/scenarios`) through the official SDKs: builds
//! the driver of a language with pinned dependencies, then lets `run.py` run the table and judge
//! the results.
//!
//! Promises: build output and fetched packages lie below `target/conformance/scenarios` or in the
//! language's own cache, so the checkout stays clean.
//! Leaves out: starting the server and the driver; `run.py` does both.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::run::{Outcome, cargo, must, root, target_directory};
use crate::sdk_tools::{
    PROGRAM_VARIABLE, go_program, java_classes, node_modules, pytest, python_program, server,
};

/// The directory of the table and the drivers.
const DIRECTORY: &str = "conformance/sdk/scenarios";

/// The command line that starts the driver of an SDK: a program and its arguments.
type Driver = Vec<OsString>;

/// Runs the tests of the code that judges a run, and of the table's form.
pub(crate) fn judge(arguments: &[String]) -> Outcome {
    pytest("sdk/scenarios", arguments)
}

/// Runs the table through the Go SDK.
pub(crate) fn go(arguments: &[String]) -> Outcome {
    run_table("go", "go", &go_driver()?, arguments)
}

/// Runs the table through the Java SDK, over https unless the arguments say otherwise.
pub(crate) fn java(arguments: &[String]) -> Outcome {
    run_table("java", "java", &java_driver()?, &over("https", arguments))
}

/// Runs the table through the Rust SDK.
pub(crate) fn rust(arguments: &[String]) -> Outcome {
    run_table("rust", "rust", &rust_driver()?, arguments)
}

/// Runs the table through the Python SDK that `conformance/sdk/python` pins, over http and over
/// https unless the arguments say otherwise.
pub(crate) fn python(arguments: &[String]) -> Outcome {
    let arguments = over("both", arguments);
    run_table("scenarios-python", "python", &python_driver()?, &arguments)
}

/// Runs the table through the JavaScript SDK that `conformance/sdk/javascript` pins, over http and
/// over https unless the arguments say otherwise.
pub(crate) fn javascript(arguments: &[String]) -> Outcome {
    let (driver, arguments) = (javascript_driver()?, over("both", arguments));
    run_table("scenarios-javascript", "javascript", &driver, &arguments)
}

/// Returns the arguments behind a choice of the scheme; a scheme in the arguments takes precedence.
fn over(scheme: &str, arguments: &[String]) -> Vec<String> {
    let mut all = vec!["--scheme".to_owned(), scheme.to_owned()];
    all.extend_from_slice(arguments);
    all
}

/// Makes the mistakes of `conformance/sdk/mistakes` through all SDKs, and compares what their users
/// see with the table and with the page of the documentation.
pub(crate) fn mistakes(arguments: &[String]) -> Outcome {
    pytest("sdk/mistakes", &[])?;
    let drivers = [
        ("python", python_driver()?),
        ("javascript", javascript_driver()?),
        ("java", java_driver()?),
        ("go", go_driver()?),
        ("rust", rust_driver()?),
    ];
    let mut run = python_program(&root())?;
    run.arg("conformance/sdk/mistakes/run.py")
        .args(["--page", "docs/reference/mistakes.md"])
        .args(arguments)
        .env(PROGRAM_VARIABLE, server()?);
    for (name, driver) in drivers {
        // The runner takes a command line as a JSON array.
        let words: Vec<String> = driver
            .iter()
            .map(|word| word.display().to_string())
            .collect();
        run.arg("--driver").arg(name).arg(format!("{words:?}"));
    }
    must(&mut run).map_err(|error| {
        format!("{error}; one mistake again: `cargo xtask conformance mistakes --only NAME`")
    })
}

/// Runs the table with a driver, for the suite of this name; further arguments go to `run.py`.
fn run_table(suite: &str, language: &str, driver: &Driver, arguments: &[String]) -> Outcome {
    let mut run = python_program(&root())?;
    run.arg(format!("{DIRECTORY}/run.py"))
        .arg("--lists")
        .arg(format!("{DIRECTORY}/{language}/expected.toml"))
        .args(arguments)
        .arg("--")
        .args(driver)
        .env(PROGRAM_VARIABLE, server()?);
    must(&mut run).map_err(|error| {
        format!("{error}; one scenario again: `cargo xtask conformance {suite} --only NAME`")
    })
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
    node_modules(&root().join("conformance/sdk/javascript"))?;
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
