//! The checks that cargo and its tools make: format, lints, rustdoc, tests, and simulated users of
//! the blog.
//!
//! Promises: every check covers the whole workspace and takes the dependencies of `Cargo.lock` as
//! they are.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::json::parse;
use crate::run::{Outcome, cargo, linted_cargo, must, program, root, set_test_threads};
use crate::rust_tests;
use crate::sdk_tools::{self, PROGRAM_VARIABLE};

/// Runs `cargo fmt`; the arguments go to it.
pub(crate) fn format(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["fmt", "--all"]);
    match must(command.args(arguments)) {
        Err(error) if !arguments.is_empty() => {
            Err(format!("{error}; `cargo xtask fmt` formats the code"))
        }
        outcome => outcome,
    }
}

/// Compiles all targets of the workspace with the lints of clippy; the arguments go to cargo. The
/// later steps use what this step has built.
///
/// # Errors
/// Compilation fails, or there are warnings: their number. A warning does not end the build, so
/// that the tests can run.
pub(crate) fn clippy(arguments: &[String]) -> Outcome {
    let is_option = |argument: &String| argument.starts_with('-') && argument != "--";
    if let Some(argument) = arguments.iter().find(|argument| !is_option(argument)) {
        return Err(format!(
            "clippy takes options of cargo, not `{argument}`; it checks the whole workspace with \
             the lints of Cargo.toml"
        ));
    }
    // The tests, and then the programs as they are without tests.
    let mut warnings = 0;
    for build in [["test", "--no-run"], ["build", "--bins"]] {
        let mut build = linted_cargo(&build);
        build.args(["--workspace", "--locked", "--message-format", "json"]);
        warnings += warnings_of(build.args(arguments))?;
    }
    match warnings {
        0 => Ok(()),
        _ => Err(format!("{warnings} warning(s), which count as errors")),
    }
}

/// Runs a build, prints the warnings and errors of the compiler, and returns their number.
fn warnings_of(build: &mut Command) -> Result<usize, String> {
    let mut process = build
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo could not be started: {error}"))?;
    let output = process.stdout.take().ok_or("cargo has no output")?;
    let mut warnings = 0;
    let mut unreadable = None;
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| format!("the output of cargo: {error}"))?;
        match warning(&line) {
            Ok(None) => {}
            Ok(Some(text)) => {
                print!("{text}");
                warnings += 1;
            }
            Err(error) => unreadable = Some(error),
        }
    }
    let status = process
        .wait()
        .map_err(|error| format!("the end of cargo: {error}"))?;
    if !status.success() {
        return Err(format!(
            "the build ended with {status}; if there is no clippy-driver, \
             `rustup component add clippy` installs it"
        ));
    }
    match unreadable {
        None => Ok(warnings),
        Some(error) => Err(format!("a message of cargo is not readable: {error}")),
    }
}

/// Returns the text of a warning or error of the compiler in a line of cargo's messages, if the
/// line has one.
fn warning(line: &str) -> Result<Option<String>, String> {
    // A line that is no message comes from a build script or a test.
    if !line.starts_with('{') {
        return Ok(None);
    }
    let message = parse(line)?;
    let message = message.get("message");
    let level = message.get("level").text().unwrap_or_default();
    let is_warning = level == "warning" || level.starts_with("error");
    // The compiler ends with a message that counts the others and has no place in the code.
    let is_count = level == "warning" && message.get("spans").items().is_empty();
    let text = message.get("rendered").text();
    Ok(text.filter(|_| is_warning && !is_count).map(str::to_owned))
}

/// Runs rustdoc on the crates of the workspace, with warnings as errors.
pub(crate) fn docs(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    must(command.args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs every Rust test; the arguments go to `cargo test`.
pub(crate) fn test(arguments: &[String]) -> Outcome {
    let mut command = linted_cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    // The tests of the examples would build the server with the features of one package.
    if arguments.is_empty() {
        command.env(PROGRAM_VARIABLE, sdk_tools::server()?);
    }
    set_test_threads(&mut command);
    rust_tests::run(command.args(arguments))
}

/// Writes the pages of `docs/reference` that are made from the command line: the test that compares
/// them writes them first.
pub(crate) fn reference(arguments: &[String]) -> Outcome {
    if let Some(argument) = arguments.first() {
        return Err(format!("reference takes no arguments, not `{argument}`"));
    }
    let mut command = cargo(&["test", "--locked", "--package", "orrery-cli"]);
    must(
        command
            .args(["--bins", "reference"])
            .env("ORRERY_BLESS", "1"),
    )
}

/// Returns the help text of [`reference()`].
pub(crate) fn reference_help() -> String {
    "The pages are made from the definition of the command line in\n\
     program/cli/src/command.rs. A test of orrery-cli fails if they are out of date.\n"
        .to_owned()
}

/// Runs the tests that need neither a server process nor many random cases: the unit tests of all
/// crates and the golden files.
pub(crate) fn quick_test() -> Outcome {
    let options = [
        "test",
        "--workspace",
        "--locked",
        "--no-fail-fast",
        "--quiet",
    ];
    let mut units = linted_cargo(&options);
    must(units.args(["--lib", "--bins"]))?;
    // The golden files of a crate are a module of its tests.
    let mut golden = linted_cargo(&options);
    must(golden.args(["--test", "sql", "--test", "engine", "golden::"]))
}

/// Lets a few simulated users read and write the blog for some seconds while pipeline workers are
/// killed; they check every answer, and the database is compared with what they wrote.
pub(crate) fn blog_users() -> Outcome {
    sdk_tools::build_programs()?;
    let mut run = program(sdk_tools::built_program("orrery-bench")?, &root());
    must(run.args([
        "blog-users",
        "--users",
        "8",
        "--minutes",
        "0.3",
        "--kill-workers",
        "5",
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_and_errors_of_the_compiler_are_found_among_the_messages_of_cargo() {
        let message = |level: &str| {
            format!(
                r#"{{"message":{{"level":"{level}","rendered":"{level}: x\n","spans":[{{}}]}}}}"#
            )
        };
        for level in ["warning", "error"] {
            let found = warning(&message(level));
            assert_eq!(found, Ok(Some(format!("{level}: x\n"))));
        }
        let artifact = r#"{"reason":"compiler-artifact","executable":null}"#;
        let count = message("warning").replace("[{}]", "[]");
        for line in [
            &message("note"),
            &count,
            artifact,
            "output of a build script",
            "",
        ] {
            assert_eq!(warning(line), Ok(None), "{line}");
        }
        assert!(warning("{damaged").is_err());
    }

    #[test]
    fn packages_and_lints_of_clippy_are_refused() {
        for arguments in [&["xtask"][..], &["--", "-W", "clippy::pedantic"]] {
            let arguments: Vec<String> = arguments.iter().map(|&text| text.to_owned()).collect();
            assert!(clippy(&arguments).is_err(), "{arguments:?}");
        }
    }
}
