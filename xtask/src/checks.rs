//! The checks that cargo and its tools make: format, lints, rustdoc, tests, and simulated users of
//! the blog.
//!
//! Promises: every check covers the whole workspace and takes the dependencies of `Cargo.lock` as
//! they are.

use crate::run::{Outcome, cargo, must, program, root};
use crate::sdk_tools;

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

/// Runs clippy on all targets, with warnings as errors.
pub(crate) fn clippy(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["clippy", "--workspace", "--all-targets", "--locked"]);
    must(command.args(arguments).args(["--", "-D", "warnings"]))
}

/// Runs rustdoc on the crates of the workspace, with warnings as errors.
pub(crate) fn docs(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    must(command.args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Runs every Rust test; the arguments go to `cargo test`.
pub(crate) fn test(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    must(command.args(arguments))
}

/// Writes the pages of `docs/reference` that are made from the command line: the test that compares
/// them writes them first.
pub(crate) fn reference(arguments: &[String]) -> Outcome {
    if let Some(argument) = arguments.first() {
        return Err(format!("reference takes no arguments, not `{argument}`"));
    }
    let mut command = cargo(&["test", "--locked", "--package", "orrery-server"]);
    must(
        command
            .args(["--bins", "reference"])
            .env("ORRERY_BLESS", "1"),
    )
}

/// Returns the help text of [`reference()`].
pub(crate) fn reference_help() -> String {
    "The pages are made from the definition of the command line in\n\
     crates/server/src/command.rs. A test of orrery-server fails if they are out of date.\n"
        .to_owned()
}

/// Runs the tests that need neither a server process nor many random cases: the unit tests of all
/// crates and the golden files.
pub(crate) fn quick_test() -> Outcome {
    let options = ["test", "--locked", "--no-fail-fast", "--quiet"];
    let mut command = cargo(&options);
    must(command.args(["--workspace", "--lib", "--bins"]))?;
    // The golden files of a crate are a module of its tests.
    for (package, tests) in [("orrery-sql", "sql"), ("orrery-engine", "engine")] {
        let mut command = cargo(&options);
        must(command.args(["--package", package, "--test", tests, "golden::"]))?;
    }
    Ok(())
}

/// Lets a few simulated users read and write the blog for some seconds while pipeline workers are
/// killed; they check every answer, and the database is compared with what they wrote.
pub(crate) fn blog_users() -> Outcome {
    if !sdk_tools::has_programs() {
        let mut build = cargo(&["build", "--locked", "--package", "orrery-server"]);
        must(build.args(["--package", "orrery-bench"]))?;
    }
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
