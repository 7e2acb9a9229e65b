//! `orrery completions` and `orrery man`: files for shells and for `man`, made from the command
//! line.
//!
//! Leaves out: the names of databases and containers, which only a server knows.

use crate::command::{CompletionsArguments, ManArguments, Program};
use clap::{Command, CommandFactory};
use orrery_server::Failure;
use std::io::{self, Write};

/// Prints the completions of a shell.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(
        arguments.shell,
        &mut public_command(),
        "orrery",
        &mut script,
    );
    print(&script)
}

/// Returns the command line without its hidden sub-commands, which some shells would offer.
fn public_command() -> Command {
    let program = Program::command();
    let public = program
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    let public: Vec<Command> = public.cloned().collect();
    Command::new("orrery")
        .args(program.get_arguments().cloned().collect::<Vec<_>>())
        .subcommands(public)
}

/// Prints the man page of the program, or writes the pages of all sub-commands into a directory.
///
/// # Errors
/// Standard output or the directory cannot be written.
pub(crate) fn man(arguments: &ManArguments) -> Result<(), Failure> {
    let Some(directory) = &arguments.dir else {
        let mut page = Vec::new();
        let man = clap_mangen::Man::new(Program::command());
        man.render(&mut page)
            .map_err(|error| Failure::Failed(format!("cannot write the page: {error}")))?;
        return print(&page);
    };
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Program::command(), directory));
    written.map_err(|error| {
        Failure::Failed(format!(
            "cannot write man pages to {}: {error}",
            directory.display()
        ))
    })
}

/// Writes to standard output. A reader that closes the pipe early, such as `head`, is no failure.
fn print(bytes: &[u8]) -> Result<(), Failure> {
    match io::stdout().write_all(bytes) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Failed(format!(
            "cannot write to standard output: {error}"
        ))),
        _ => Ok(()),
    }
}
