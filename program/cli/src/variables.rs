//! Variables of the environment with the prefix of this program that no command reads. A typing
//! mistake in a name would otherwise leave a setting at its default without a word.
//!
//! Promises: a value is never shown. Variables that Kubernetes and Docker make from the name of a
//! service are no mistakes.

use crate::command::Program;
use clap::{Command, CommandFactory};
use orrery_model::words::nearest;
use std::collections::BTreeSet;
use std::ffi::OsString;

/// The beginning of the names.
const PREFIX: &str = "ORRERY_";
/// Variables that are read beside those of options.
const OTHERS: [&str; 6] = [
    "ORRERY_ENDPOINT",
    "ORRERY_KEY",
    "ORRERY_CONNECTION_STRING",
    "ORRERY_TLS_PASSWORD",
    "ORRERY_CERT_PASSWORD",
    "ORRERY_EMULATOR_CERTIFICATE_FILE",
];
/// Variables of the tests of this repository, which programs that a test starts inherit: the
/// program to test, and the order to write expected texts anew.
const OF_TESTS: [&str; 2] = ["ORRERY_BIN", "ORRERY_BLESS"];
/// Beginnings of the values that Docker and Kubernetes give to the port of a service.
const SERVICE_VALUES: [&str; 2] = ["tcp://", "udp://"];

/// Returns a sentence for each variable of this process that no command reads.
pub(crate) fn warnings() -> Vec<String> {
    warnings_about(std::env::vars_os())
}

fn warnings_about(environment: impl Iterator<Item = (OsString, OsString)>) -> Vec<String> {
    let mut ours = BTreeSet::new();
    for (name, value) in environment {
        let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
        if name.starts_with(PREFIX) && !is_of_service(&name, &value) {
            ours.insert(name.into_owned());
        }
    }
    // Most environments have none, and the definition of all commands is not made for them.
    if ours.is_empty() {
        return Vec::new();
    }
    let mut known = BTreeSet::from(OTHERS.map(str::to_owned));
    known.extend(OF_TESTS.map(str::to_owned));
    add_variables(&Program::command(), &mut known);
    let unknown = ours.difference(&known);
    unknown.map(|name| warning(name, &known)).collect()
}

/// Adds the variables of a command and its sub-commands.
fn add_variables(command: &Command, known: &mut BTreeSet<String>) {
    for option in command.get_arguments() {
        if let Some(name) = option.get_env() {
            known.insert(name.to_string_lossy().into_owned());
        }
    }
    for inner in command.get_subcommands() {
        add_variables(inner, known);
    }
}

/// Returns true if a variable describes a service, which may have the name of this program.
fn is_of_service(name: &str, value: &str) -> bool {
    let parts = ["_SERVICE_HOST", "_SERVICE_PORT", "_TCP_", "_UDP_"];
    let has_part = parts.iter().any(|part| format!("{name}_").contains(part));
    let has_value = SERVICE_VALUES.iter().any(|start| value.starts_with(start));
    has_part || has_value
}

fn warning(name: &str, known: &BTreeSet<String>) -> String {
    match meant(name, known) {
        Some(rest) => format!(
            "the variable {name} has no effect, because no command reads it; did you mean \
             {PREFIX}{rest}?"
        ),
        None => format!(
            "the variable {name} has no effect, because no command reads it; 'orrery COMMAND \
             --help' lists those that are read"
        ),
    }
}

/// Returns the known name that a name was probably meant to be.
fn meant<'a>(name: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    // The names are compared without the beginning that all of them have.
    let candidates = known.iter().filter_map(|other| other.strip_prefix(PREFIX));
    nearest(&name[PREFIX.len()..], candidates)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Vec<String> {
        warnings_about(
            variables
                .iter()
                .map(|(name, value)| (name.into(), value.into())),
        )
    }

    #[test]
    fn an_unknown_variable_is_told_with_the_nearest_known_name_and_without_its_value() {
        for (name, meant) in [
            ("ORRERY_DATADIR", "ORRERY_DATA_DIR"),
            ("ORRERY_REGION", "ORRERY_REGIONS"),
            ("ORRERY_CONSISTANCY", "ORRERY_CONSISTENCY"),
            ("ORRERY_CONECTION_STRING", "ORRERY_CONNECTION_STRING"),
            ("ORRERY_KEYS", "ORRERY_KEY"),
        ] {
            let told = of(&[(name, "secret")]);
            assert_eq!(told.len(), 1, "{told:?}");
            let expected = format!("did you mean {meant}?");
            assert!(
                told[0].contains(name) && told[0].contains(&expected),
                "{told:?}"
            );
            assert!(!told[0].contains("secret"), "{told:?}");
        }
        let told = of(&[("ORRERY_FROBNICATE", "1")]);
        assert!(told[0].contains("lists those that are read"), "{told:?}");
    }

    #[test]
    fn known_variables_and_those_of_services_are_no_mistakes() {
        let told = of(&[
            ("ORRERY_LISTEN", "8081"),
            ("ORRERY_KEY", "x"),
            ("ORRERY_BLOG_LISTEN", "8083"),
            ("ORRERY_ADMIN_ENDPOINT", "x"),
            ("ORRERY_SERVICE_HOST", "10.0.0.1"),
            ("ORRERY_DB_SERVICE_PORT_HTTP", "8081"),
            ("ORRERY_PORT", "tcp://10.0.0.1:8081"),
            ("ORRERY_PORT_8081_TCP_ADDR", "10.0.0.1"),
            ("PATH", "/bin"),
        ]);
        assert!(told.is_empty(), "{told:?}");
    }
}
