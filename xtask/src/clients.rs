//! The client programs (`conformance/clients`): installs the environments that the chosen programs
//! need, each with exact versions, then lets `run.py` run them.
//!
//! Promises: packages of Python and Java lie below `target/conformance/clients`, those of
//! JavaScript in `node_modules` beside their lock file.
//! Leaves out: the list of programs, which is in `clients.py`, and starting the server.

use std::path::Path;
use std::process::Stdio;

use crate::run::{Outcome, must, output_of, root, target_directory};
use crate::sdk_tools::{
    PROGRAM_VARIABLE, java_classes, node_modules, pytest, python_environment, python_program,
    server,
};

/// The environment variable by which the runner finds the installed packages.
const INSTALLED_VARIABLE: &str = "ORRERY_CLIENTS_INSTALLED";

/// Runs the programs of the clients that the arguments name, or of all; before a whole run, the
/// tests of the runner.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let suite = root().join("conformance/clients");
    let installed = target_directory().join("conformance/clients");
    if arguments.iter().any(|argument| argument == "--help") {
        return must(python_program(&suite)?.args(["run.py", "--help"]));
    }
    if arguments.is_empty() {
        judge()?;
    }
    for environment in environments(&suite, arguments)?.lines() {
        install(&suite.join(environment), &installed.join(environment))?;
    }

    let mut run = python_program(&suite)?;
    run.arg("run.py")
        .args(arguments)
        .env(INSTALLED_VARIABLE, installed)
        .env(PROGRAM_VARIABLE, server()?);
    must(&mut run).map_err(|error| {
        format!("{error}; one program again: `cargo xtask conformance clients --verbose NAME`")
    })
}

/// Returns the environments that the chosen programs need, a line each.
fn environments(suite: &Path, arguments: &[String]) -> Result<String, String> {
    let mut question = python_program(suite)?;
    question.args(["run.py", "--environments"]).args(arguments);
    // The runner explains there which argument it refuses.
    question.stderr(Stdio::inherit());
    output_of(&mut question)
}

/// Runs the tests of the runner and the quick choice of programs: the part of `ci`.
pub(crate) fn quick() -> Outcome {
    judge()?;
    run(&["--quick".to_owned()])
}

/// Runs the tests of the code that judges a program.
fn judge() -> Outcome {
    pytest("clients", &[])
}

/// Installs an environment, whose kind is the first word of its name.
fn install(pins: &Path, installed: &Path) -> Outcome {
    let name = pins.file_name().unwrap_or_default().to_string_lossy();
    match name.split('-').next() {
        Some("python") => python_environment(pins, installed).map(drop),
        Some("javascript") => node_modules(pins),
        Some("java") => java_classes(pins, installed).map(drop),
        _ => Err(format!("`{name}` is no environment of a known language")),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::sdk_tools::read;

    /// Returns the files of this name in the environments.
    fn files_named(name: &str) -> Vec<PathBuf> {
        let suite = root().join("conformance/clients");
        let mut found = Vec::new();
        for entry in std::fs::read_dir(suite).unwrap() {
            let file = entry.unwrap().path().join(name);
            if file.is_file() {
                found.push(file);
            }
        }
        assert!(!found.is_empty(), "{name}");
        found
    }

    #[test]
    fn every_package_of_the_clients_is_pinned_exactly() {
        for file in files_named("requirements.txt") {
            for line in read(&file).unwrap().lines() {
                assert!(line.contains("=="), "{}: {line}", file.display());
            }
        }
        for file in files_named("package-lock.json") {
            let lock = read(&file).unwrap();
            let is_pinned = lock.contains("\"integrity\"") && !lock.contains("\"resolved\"");
            assert!(is_pinned, "{}", file.display());
        }
        for file in files_named("pom.xml") {
            let manifest = read(&file).unwrap();
            let versions = manifest.matches("<version>");
            assert!(versions.count() > 1, "{}", file.display());
            assert!(!manifest.contains("LATEST") && !manifest.contains("SNAPSHOT"));
        }
    }
}
