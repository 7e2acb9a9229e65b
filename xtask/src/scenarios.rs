//! The shared table of scenarios (`conformance/scenarios`) through the official SDKs: builds the driver of a language
//! with pinned dependencies, then lets `run.py` walk the table and judge.
//!
//! Promises: what is built or fetched lies below `target/conformance/scenarios` or in the language's own cache, so the
//! checkout stays clean.
//! Leaves out: starting the server and the driver; `run.py` does both.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::conformance::{self, Stamp};
use crate::run::{Outcome, cargo, must, output_of, program, root, target_directory};

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
    walk("go", "go", &go_driver()?, arguments)
}

/// The table through the Java SDK, over https: what it speaks unless it is told otherwise.
pub fn java(arguments: &[String]) -> Outcome {
    let secure = ["--scheme".to_owned(), "https".to_owned()];
    walk(
        "java",
        "java",
        &java_driver()?,
        &[&secure, arguments].concat(),
    )
}

/// The table through the Rust SDK.
pub fn rust(arguments: &[String]) -> Outcome {
    walk("rust", "rust", &rust_driver()?, arguments)
}

/// The table through the Python SDK, the one of `conformance/python`.
pub fn python(arguments: &[String]) -> Outcome {
    let python = conformance::python_program(&root())?
        .get_program()
        .to_owned();
    let driver = vec![
        python,
        "-W".into(),
        "ignore".into(),
        format!("{HOME}/python/driver.py").into(),
    ];
    walk("scenarios-python", "python", &driver, arguments)
}

/// The table through the JavaScript SDK, the one of `conformance/javascript`.
pub fn javascript(arguments: &[String]) -> Outcome {
    conformance::node_modules(&root().join("conformance/javascript"))?;
    let driver = vec!["node".into(), format!("{HOME}/javascript/driver.js").into()];
    walk("scenarios-javascript", "javascript", &driver, arguments)
}

/// Walks the table with a driver, for a suite of this name; further arguments go to `run.py`.
fn walk(suite: &str, language: &str, driver: &Driver, arguments: &[String]) -> Outcome {
    let mut run = conformance::python_program(&root())?;
    run.arg(format!("{HOME}/run.py"))
        .arg("--lists")
        .arg(format!("{HOME}/{language}/expected.toml"));
    run.args(arguments)
        .arg("--")
        .args(driver)
        .env(conformance::PROGRAM_VARIABLE, conformance::server()?);
    must(&mut run).map_err(|error| {
        format!("{error}; one scenario again: `cargo xtask conformance {suite} --only NAME`")
    })
}

/// Where the driver of a language is built.
fn built(language: &str) -> PathBuf {
    target_directory()
        .join("conformance/scenarios")
        .join(language)
}

fn source(language: &str) -> PathBuf {
    root().join(HOME).join(language)
}

fn go_driver() -> Result<Driver, String> {
    let (source, driver) = (source("go"), built("go").join("driver"));
    tool("go", "version", &source, "the suite needs Go 1.25 or newer")?;
    let mut build = program("go", &source);
    build
        .args([
            "build",
            "-mod=readonly",
            "-trimpath",
            "-buildvcs=false",
            "-o",
        ])
        .arg(&driver)
        .arg(".");
    must(build.env("GOTOOLCHAIN", "local"))
        .map_err(|error| format!("{error}; is the module proxy reachable?"))?;
    Ok(vec![driver.into()])
}

/// Maven fetches what the SDK needs, once for each `pom.xml`; the compiler of the JDK does the rest.
fn java_driver() -> Result<Driver, String> {
    const FETCH: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:build-classpath";
    let (source, built) = (source("java"), built("java"));
    tool(
        "javac",
        "-version",
        &source,
        "the suite needs a JDK, 17 or newer",
    )?;
    let pom = conformance::read(&source.join("pom.xml"))?;
    let list = built.join("class.path");
    let stamp = Stamp {
        file: built.join("fetched.stamp"),
        wanted: pom,
    };
    if !(stamp.is_current() && list.is_file()) {
        println!("fetching the Java SDK");
        let mut fetch = program("mvn", &source);
        fetch
            .args(["--batch-mode", "--quiet", FETCH])
            .arg(format!("-Dmdep.outputFile={}", list.display()));
        must(&mut fetch).map_err(|error| format!("{error}; is the package registry reachable?"))?;
        stamp.set()?;
    }
    let libraries = conformance::read(&list)?;
    let classes = built.join("classes");
    let mut compile = program("javac", &source);
    compile
        .args([
            "-nowarn",
            "-proc:none",
            "--release",
            "17",
            "-cp",
            libraries.trim(),
            "-d",
        ])
        .arg(&classes);
    must(compile.args(files_in(&source.join("src/orrery"))?))?;
    let class_path = format!("{}:{}", classes.display(), libraries.trim());
    // A short life on few cores: the quick compiler and the plain collector.
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

/// The driver is a workspace of its own: its dependencies are not ours, nor is its build directory.
fn rust_driver() -> Result<Driver, String> {
    let built = built("rust");
    let mut build = cargo(&["build", "--locked", "--quiet"]);
    build
        .current_dir(source("rust"))
        .env("CARGO_TARGET_DIR", &built);
    must(&mut build).map_err(|error| format!("{error}; is the package registry reachable?"))?;
    Ok(vec![built.join("debug/orrery-scenarios").into()])
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("cannot read {}: {error}", directory.display());
    let entries = std::fs::read_dir(directory).map_err(unreadable)?;
    entries
        .map(|entry| entry.map(|found| found.path()).map_err(unreadable))
        .collect()
}

/// Says clearly that a tool is missing.
fn tool(name: &str, version: &str, directory: &Path, needs: &str) -> Outcome {
    output_of(program(name, directory).arg(version))
        .map(drop)
        .map_err(|error| format!("{error}; {needs}"))
}
