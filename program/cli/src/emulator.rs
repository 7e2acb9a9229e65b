//! `orrery emulator`: the server in the place of the vendor's emulators.
//!
//! ```text
//! table     settings of the vendor's emulators, with what becomes of each
//! values    their values: options, switches, variables of the environment
//! plan      the configuration of the server that follows from the values
//! announce  the lines that programs wait for
//! ```
//!
//! Unlike `orrery start` the server listens on all interfaces with the well-known key, which is
//! public: the announcement says so. The console opens without sign-in as long as the account has
//! that key, because a person who can reach it can read and change all data with the key anyway.
//! Its checks of host, origin and token stay, so that no page of another origin can use it. With a
//! key of the user's, the console asks for the key of the management API.

pub(crate) mod announce;
pub(crate) mod plan;
pub(crate) mod table;
pub(crate) mod values;

use crate::command::EmulatorArguments;
use crate::signals;
use crate::start;
use orrery_server::{Announcement, Failure};
use std::ffi::OsString;

/// Runs a server in the place of the emulator until SIGTERM or Ctrl-C.
///
/// # Errors
/// See [`Failure`], which also gives the exit code.
pub(crate) fn run(arguments: &EmulatorArguments) -> Result<(), Failure> {
    let environment = environment(std::env::vars_os())?;
    let values = values::Values::read(&arguments.options, &arguments.switches, &environment)?;
    let (config, options) = plan::plan(arguments, &values)?;
    let announce = |announcement: &Announcement<'_>| announce::write(&options, announcement);
    start::run_server(config, signals::shutdown, announce)
}

/// Returns the variables of the environment that are text.
///
/// # Errors
/// [`Failure::Usage`] for a setting that is no text: without its key file, for instance, the
/// account would have the key that is known to all.
fn environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<(String, String)>, Failure> {
    let mut environment = Vec::new();
    for (name, value) in variables {
        let Ok(name) = name.into_string() else {
            continue;
        };
        match value.into_string() {
            Ok(value) => environment.push((name, value)),
            Err(_)
                if table::SETTINGS
                    .iter()
                    .any(|setting| setting.has_variable(&name)) =>
            {
                let problem = format!("the value of the variable {name} is not UTF-8 text");
                return Err(Failure::Usage(problem));
            }
            Err(_) => {}
        }
    }
    Ok(environment)
}
