//! The settings of `orrery start` from its four sources: command line, environment, configuration
//! file, defaults.
//!
//! ```text
//! file     a configuration file: keys, values and lines, checked one by one
//! layers   the value of each setting and its source
//! show     orrery config
//! ```
//!
//! The command line as clap knows it is the only list of settings: a key is the long name of an
//! option, and a value of the file becomes an option behind those of the command line, unless the
//! command line or the environment sets the same option or one that excludes it. An option that
//! is added to `orrery start` is a key without further work.
//!
//! Leaves out: sub-commands other than `start`, which read no file.

mod file;
mod layers;
mod show;

pub(crate) use show::run;

use crate::command::{Program, summary_of_start};
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches};
use layers::Layers;
use orrery_server::Failure;
use std::ffi::OsString;

/// The options of `orrery start` that are no keys of a file.
const NO_KEYS: [&str; 3] = ["config", "help", "version"];

/// Parses the command line of the program, with the settings of the configuration file if the
/// command is `start`. Ends the process as clap does if the command line asks for help or is wrong.
///
/// # Errors
/// [`Failure::Usage`] if the file cannot be used.
pub(crate) fn program(line: Vec<OsString>) -> Result<Program, Failure> {
    let layers = Layers::of(&line)?;
    let line = match &layers {
        Some(layers) => layers.whole_line(line),
        None => line,
    };
    match parsed(line) {
        Ok(program) => Ok(program),
        Err(error) => match layers.and_then(|layers| layers.fault_of_file(&error)) {
            Some(failure) => Err(failure),
            None => error.exit(),
        },
    }
}

/// Parses a command line. The summary of the options of `start` has a definition of its own.
fn parsed(line: Vec<OsString>) -> Result<Program, clap::Error> {
    let mut command = Program::command();
    if line.iter().any(|word| word == "-h") {
        command = command.mut_subcommand("start", summary_of_start);
    }
    let mut matches = command.try_get_matches_from(line)?;
    Program::from_arg_matches_mut(&mut matches)
        .map_err(|error| error.format(&mut Program::command()))
}

/// Returns the definition of `orrery start`, complete with what clap adds to it.
fn start_command() -> Command {
    let mut program = Program::command();
    program.build();
    let start = program.find_subcommand("start");
    // The sub-command is part of the definition; a program without it has no settings.
    start.cloned().unwrap_or_default()
}

/// Returns the options that are keys of a file, in the order of the help text.
pub(crate) fn keys(start: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    start.get_arguments().filter_map(|option| {
        let key = option.get_long()?;
        (!NO_KEYS.contains(&key)).then_some((key, option))
    })
}

/// The kinds of values that an option has in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// `true` or `false`: an option without a value.
    Flag,
    /// One text or number.
    One,
    /// A text or an array of texts: an option that may be repeated.
    Many,
}

impl KeyKind {
    /// Returns the kind of an option.
    pub(crate) fn of(option: &Arg) -> Self {
        match option.get_action() {
            ArgAction::SetTrue | ArgAction::SetFalse => KeyKind::Flag,
            ArgAction::Append => KeyKind::Many,
            _ => KeyKind::One,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_of_a_server_is_a_key() {
        let start = start_command();
        let kind = |name: &str| {
            let found = keys(&start).find(|(key, _)| *key == name);
            found.map(|(_, option)| KeyKind::of(option))
        };
        assert_eq!(kind("throughput"), Some(KeyKind::One));
        assert_eq!(kind("listen"), Some(KeyKind::Many));
        assert_eq!(kind("memory"), Some(KeyKind::Flag));
        assert_eq!(kind("region"), Some(KeyKind::Many));
        assert_eq!(kind("config"), None);
        assert_eq!(kind("help"), None);
    }
}
