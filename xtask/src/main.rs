//! Every chore as a command: `cargo xtask ci`, and each of its steps by itself.
//!
//! The idea: what runs on a developer's machine and what runs before a change lands is one program, so there is one
//! answer to "does it pass?". Each chore is a row in [`CHORES`]; `ci` is the list in `ci::all`.
//!
//! Promises: no step is skipped silently, and the exit code is non-zero if any step failed.
//! Leaves out: installing toolchains. `.ci/run` does that, then calls this.

#![allow(clippy::print_stdout, reason = "a tool speaks to a terminal")]

mod ci;
mod conformance;
mod run;
mod scenarios;
mod tables;
mod tidy;

use std::process::ExitCode;

use run::Outcome;

/// One command of this program.
struct Chore {
    name: &'static str,
    says: &'static str,
    run: fn(&[String]) -> Outcome,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "ci",
        says: "everything that must pass, in order, with a table at the end",
        run: ci::all,
    },
    Chore {
        name: "fmt",
        says: "format the Rust code (`--check` only looks)",
        run: ci::format,
    },
    Chore {
        name: "clippy",
        says: "lints, warnings as errors, all targets",
        run: ci::clippy,
    },
    Chore {
        name: "docs",
        says: "rustdoc, warnings as errors",
        run: ci::docs,
    },
    Chore {
        name: "tidy",
        says: "the house rules: arrows, map, long files, words, compat table",
        run: tidy::check,
    },
    Chore {
        name: "compat",
        says: "writes the tables of docs/compat.md that are made from the code",
        run: tables::write,
    },
    Chore {
        name: "test",
        says: "every Rust test (further arguments go to cargo test)",
        run: ci::test,
    },
    Chore {
        name: "conformance",
        says: "the SDKs against our server: [suite] [arguments for the runner]; a wrong suite lists them all",
        run: conformance::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((name, rest)) = arguments.split_first() else {
        print_usage();
        return ExitCode::from(2);
    };
    if ["help", "--help", "-h"].contains(&name.as_str()) {
        print_usage();
        return ExitCode::SUCCESS;
    }
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprintln!("there is no chore `{name}`");
        print_usage();
        return ExitCode::from(2);
    };
    match (chore.run)(rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("\n{name} failed: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn print_usage() {
    println!("usage: cargo xtask CHORE [arguments]\n");
    for chore in CHORES {
        println!("  {:<12} {}", chore.name, chore.says);
    }
}
