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

use crate::run::{Outcome, output_of};
use crate::sdk_tools::{
    go_program, java_classes, node_modules, python_environment, python_program,
};
use crate::suite::{Run, Suite};

/// Starts the programs that the arguments name, or all; before all of them and before the quick
/// choice, the tests of the runner.
pub(crate) fn start(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    let has = |option: &str| arguments.iter().any(|argument| argument == option);
    if arguments.is_empty() || has("--quick") {
        suite.test_runner()?;
    }
    let installed = suite.output();
    if !has("--help") {
        for environment in environments(suite, arguments)?.lines() {
            let pins = suite.path().join(environment);
            install(&pins, &installed.join(environment))?;
        }
    }
    let mut run = suite.script(arguments, "--verbose NAME")?;
    let variable = format!("ORRERY_{}_INSTALLED", suite.name.to_uppercase());
    run.command.env(variable, installed);
    Ok(run)
}

/// Returns the environments that the chosen programs need, a line each.
fn environments(suite: &Suite, arguments: &[String]) -> Result<String, String> {
    let mut question = python_program(&suite.path())?;
    question.args(["run.py", "--environments"]).args(arguments);
    // The runner explains there which argument it refuses.
    question.stderr(Stdio::inherit());
    output_of(&mut question)
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

    use crate::conformance::find;
    use crate::sdk_tools::read;

    /// Returns the files of this name in the environments.
    fn files_named(name: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for suite in ["clients", "emulator"] {
            for entry in std::fs::read_dir(find(suite).unwrap().path()).unwrap() {
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
