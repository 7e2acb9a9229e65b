//! The program `orrery`: the database server and the tools around it.
//!
//! Exit codes: 0 done, 1 failed, 2 used wrongly, 4 the data cannot be opened.

mod admin;
mod bench;
mod command;
mod engine;
mod entra;
mod failure;
mod healthcheck;
mod keys;
mod rotation;
mod start;
mod tls;
mod world;

use clap::Parser;
use command::{Command, Program};
use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let done = match Program::parse().command {
        Command::Start(arguments) => start::run(*arguments),
        Command::Healthcheck(arguments) => healthcheck::run(&arguments),
        Command::Keys(arguments) => rotation::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::ScriptHost => return orrery_script::serve_script_host(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody is left to tell if standard error is closed.
            let _ = writeln!(std::io::stderr(), "orrery: {failure}");
            failure.exit_code()
        }
    }
}
