//! The client programs (`conformance/sdk/clients`) and the consumers of the emulator
//! (`conformance/release/emulator`): installs the environments that the chosen programs need, each
//! with exact versions, then lets the suite's `run.py` run them.
//!
//! Promises: packages of Python and Java, and programs in Go, lie below `target/conformance` in the
//! directory of the suite; packages of JavaScript in `node_modules` beside their lock file.
//! Leaves out: the lists of programs, which are in `clients.py` and `consumers.py`, and starting
//! the server.

use std::path::Path;
use std::process::Stdio;

use crate::run::{Outcome, must, output_of, root, target_directory};
use crate::sdk_tools::{
    PROGRAM_VARIABLE, go_program, java_classes, node_modules, pytest, python_environment,
    python_program, server,
};

/// A suite whose programs are rows of a table.
struct Programs {
    name: &'static str,
    /// Its directory below `conformance`.
    directory: &'static str,
    /// The environment variable by which the runner finds the installed packages.
    installed_variable: &'static str,
}

const CLIENTS: Programs = Programs {
    name: "clients",
    directory: "sdk/clients",
    installed_variable: "ORRERY_CLIENTS_INSTALLED",
};

const EMULATOR: Programs = Programs {
    name: "emulator",
    directory: "release/emulator",
    installed_variable: "ORRERY_EMULATOR_INSTALLED",
};

/// Runs the programs of the clients that the arguments name, or of all; before a whole run, the
/// tests of the runner.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    run_programs(&CLIENTS, arguments)
}

/// Runs the consumers of the emulator that the arguments name, or all; before a whole run, the
/// tests of the runner.
pub(crate) fn emulator(arguments: &[String]) -> Outcome {
    run_programs(&EMULATOR, arguments)
}

fn run_programs(programs: &Programs, arguments: &[String]) -> Outcome {
    let suite = root().join("conformance").join(programs.directory);
    let installed = target_directory().join("conformance").join(programs.name);
    if arguments.iter().any(|argument| argument == "--help") {
        return must(python_program(&suite)?.args(["run.py", "--help"]));
    }
    if arguments.is_empty() {
        pytest(programs.directory, &[])?;
    }
    for environment in environments(&suite, arguments)?.lines() {
        install(&suite.join(environment), &installed.join(environment))?;
    }

    let mut run = python_program(&suite)?;
    run.arg("run.py")
        .args(arguments)
        .env(programs.installed_variable, installed)
        .env(PROGRAM_VARIABLE, server()?);
    must(&mut run).map_err(|error| {
        format!(
            "{error}; one program again: `cargo xtask conformance {} --verbose NAME`",
            programs.name
        )
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

/// Runs the tests of the runner and the quick choice of clients: the part of `ci`.
pub(crate) fn quick() -> Outcome {
    quick_choice(&CLIENTS)
}

/// Runs the tests of the runner and the quick choice of the emulator's consumers: the part of `ci`.
pub(crate) fn emulator_quick() -> Outcome {
    quick_choice(&EMULATOR)
}

fn quick_choice(programs: &Programs) -> Outcome {
    pytest(programs.directory, &[])?;
    run_programs(programs, &["--quick".to_owned()])
}

/// Installs an environment, whose kind is the first word of its name.
fn install(pins: &Path, installed: &Path) -> Outcome {
    let name = pins.file_name().unwrap_or_default().to_string_lossy();
    match name.split('-').next() {
        Some("python") => python_environment(pins, installed).map(drop),
        Some("javascript") => node_modules(pins),
        Some("java") => java_classes(pins, installed).map(drop),
        Some("go") => go_program(pins, &installed.join("program")),
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
        let mut found = Vec::new();
        for programs in [CLIENTS, EMULATOR] {
            let suite = root().join("conformance").join(programs.directory);
            for entry in std::fs::read_dir(suite).unwrap() {
                let file = entry.unwrap().path().join(name);
                if file.is_file() {
                    found.push(file);
                }
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
