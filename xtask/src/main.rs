//! The commands of development and CI: `cargo xtask ci`, and each of its steps by itself.
//!
//! One program runs on a developer's machine and before a change lands, so both give the same
//! answer. Each command is a row of [`COMMANDS`], from which the dispatch and the help texts are
//! made.
//!
//! Promises: no step is skipped silently, and the exit code is non-zero if any step failed.
//! Leaves out: installing toolchains. `.ci/run` does that, then calls this program.

#![allow(
    clippy::print_stdout,
    reason = "this program writes its results to the terminal"
)]

mod book;
mod checks;
mod ci;
mod clients;
mod conformance;
mod deny;
mod dist;
mod flaky;
mod fleet;
mod fuzz;
mod history;
mod image;
mod json;
mod long;
mod pictures;
mod run;
mod rust_tests;
mod rust_text;
mod scenarios;
mod sdk_tools;
mod suite;
mod tables;
mod tidy;
mod trust;
mod web;

use std::process::ExitCode;

use run::Outcome;

/// One command of this program.
struct Command {
    name: &'static str,
    /// The arguments, as the usage line shows them.
    arguments: &'static str,
    /// The line of the command in the list of commands.
    summary: &'static str,
    /// The rest of the command's own help text.
    help: fn() -> String,
    run: fn(&[String]) -> Outcome,
}

/// The commands in groups, in the order in which the help text lists them.
const COMMANDS: &[(&str, &[Command])] = &[
    (
        "Before a change lands",
        &[Command {
            name: "ci",
            arguments: "[--all | --quick | --step NAME]",
            summary: "run the first tier, both tiers, the quick part, or one step",
            help: ci::help,
            run: ci::run,
        }],
    ),
    (
        "One check",
        &[
            Command {
                name: "fmt",
                arguments: "[--check]",
                summary: "format the Rust code, or check its format",
                help: || "The arguments go to `cargo fmt --all`.\n".to_owned(),
                run: checks::format,
            },
            Command {
                name: "clippy",
                arguments: "[ARGUMENTS]",
                summary: "run the lints on all targets, warnings as errors",
                help: || {
                    "The tests and programs of the workspace are compiled with clippy's compiler,\n\
                     so that the tests need no further build. The arguments are options of cargo.\n"
                        .to_owned()
                },
                run: checks::clippy,
            },
            Command {
                name: "docs",
                arguments: "[ARGUMENTS]",
                summary: "build the documentation of the crates, warnings as errors",
                help: || "The arguments go to `cargo doc --workspace --no-deps`.\n".to_owned(),
                run: checks::docs,
            },
            Command {
                name: "tidy",
                arguments: "[--lower]",
                summary: "check the rules of this repository that no compiler knows",
                help: tidy::help,
                run: tidy::check,
            },
            Command {
                name: "deny",
                arguments: "[CHECKS]",
                summary: "check licences, versions and sources of the libraries",
                help: || {
                    "The checks are those of cargo-deny: licenses, bans, sources, advisories.\n"
                        .to_owned()
                },
                run: deny::check,
            },
            Command {
                name: "test",
                arguments: "[ARGUMENTS]",
                summary: "run every Rust test",
                help: || "The arguments go to `cargo test --workspace`.\n".to_owned(),
                run: checks::test,
            },
            Command {
                name: "web",
                arguments: "[--write]",
                summary: "check the built files of web/, or write them",
                help: web::help,
                run: web::run,
            },
            Command {
                name: "pictures",
                arguments: "",
                summary: "make the pictures of README and documentation anew",
                help: pictures::help,
                run: pictures::run,
            },
            Command {
                name: "book",
                arguments: "[--check | --write]",
                summary: "build the site of the documents, or check its links",
                help: book::help,
                run: book::run,
            },
            Command {
                name: "conformance",
                arguments: "[SUITE [ARGUMENTS]]",
                summary: "run the suites of SDKs and of the browser against our server",
                help: conformance::help,
                run: conformance::run,
            },
        ],
    ),
    (
        "Files made from the code",
        &[
            Command {
                name: "compat",
                arguments: "",
                summary: "write the tables of docs/compat.md that are made from the code",
                help: tables::help,
                run: tables::write,
            },
            Command {
                name: "reference",
                arguments: "",
                summary: "write docs/reference: the command line and the settings",
                help: checks::reference_help,
                run: checks::reference,
            },
        ],
    ),
    (
        "For users",
        &[
            Command {
                name: "dist",
                arguments: "[--dev]",
                summary: "make the archive, the Debian package and their checksums",
                help: dist::help,
                run: dist::run,
            },
            Command {
                name: "image",
                arguments: "[--dev] [--tree DIRECTORY]",
                summary: "build the image and run the suite that uses it",
                help: image::help,
                run: image::run,
            },
        ],
    ),
    (
        "Not part of ci",
        &[
            Command {
                name: "flaky",
                arguments: "[N] [--steps] [NAME...]",
                summary: "repeat the tests N times under load, or print the rounds done",
                help: flaky::help,
                run: flaky::run,
            },
            Command {
                name: "fleet",
                arguments: "[--faults N|NAME]",
                summary: "faults of a Patroni cluster: lost commits and gaps",
                help: fleet::help,
                run: fleet::run,
            },
            Command {
                name: "history",
                arguments: "[ci | bench] [N]",
                summary: "print the last N recorded runs of ci and of the benchmarks",
                help: history::help,
                run: history::run,
            },
            Command {
                name: "long",
                arguments: "[--minutes N] RUN...",
                summary: "runs of minutes to hours: many random cases, splits and kills",
                help: long::help,
                run: long::run,
            },
        ],
    ),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        eprint!("{}", usage());
        return ExitCode::from(2);
    };
    if is_help(name) || name == "help" {
        print!("{}", usage());
        return ExitCode::SUCCESS;
    }
    let Some(command) = commands().find(|command| command.name == name) else {
        eprint!("there is no command `{name}`\n\n{}", usage());
        return ExitCode::from(2);
    };
    // Only the first argument asks for our help: a later one may belong to the runner of a suite.
    if rest.first().is_some_and(|argument| is_help(argument)) {
        print!("{}", command_usage(command));
        return ExitCode::SUCCESS;
    }
    match (command.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("\n{name} failed: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn is_help(argument: &str) -> bool {
    argument == "--help" || argument == "-h"
}

/// Returns the commands of all groups.
fn commands() -> impl Iterator<Item = &'static Command> {
    COMMANDS.iter().flat_map(|(_, commands)| commands.iter())
}

/// Returns the help text of the program: one line for each command, in groups.
fn usage() -> String {
    let width = commands()
        .map(|command| synopsis(command).len())
        .max()
        .unwrap_or_default();
    let mut text = String::from("usage: cargo xtask COMMAND [ARGUMENTS]\n");
    for (group, commands) in COMMANDS {
        text.push_str(&format!("\n{group}:\n"));
        for command in *commands {
            let synopsis = synopsis(command);
            text.push_str(&format!("  {synopsis:<width$}  {}\n", command.summary));
        }
    }
    text.push_str("\n`cargo xtask COMMAND --help` explains a command.\n");
    text
}

/// Returns the help text of one command.
fn command_usage(command: &Command) -> String {
    format!(
        "usage: cargo xtask {}\n\nSummary: {}.\n\n{}",
        synopsis(command),
        command.summary,
        (command.help)()
    )
}

/// Returns the name of a command and its arguments.
fn synopsis(command: &Command) -> String {
    let line = format!("{} {}", command.name, command.arguments);
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_has_one_aligned_line_for_each_command() {
        let usage = usage();
        let mut columns = Vec::new();
        for command in commands() {
            let start = format!("  {}", synopsis(command));
            let mut lines = usage.lines().filter(|line| line.starts_with(&start));
            let line = lines.next().expect("a line for the command");
            columns.push(line.find(command.summary).expect("the summary"));
        }
        columns.dedup();
        assert_eq!(columns.len(), 1, "{usage}");
        assert!(usage.lines().all(|line| line.len() <= 100), "{usage}");
    }

    #[test]
    fn every_command_has_a_name_of_its_own_and_a_help_text() {
        let mut names: Vec<&str> = commands().map(|command| command.name).collect();
        for command in commands() {
            let help = command_usage(command);
            assert!(help.lines().count() > 4, "{help}");
        }
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
