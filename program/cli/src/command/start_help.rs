//! The help texts of `orrery start`: all options in groups, and a summary on one screen.
//!
//! Promises: every option stands in a group, and `-h` has at most 24 lines of 80 columns.

use clap::{Arg, ArgAction, Command};

/// The groups in the order of the help text, with the long names of their options.
const GROUPS: [(&str, &[&str]); 9] = [
    (
        "Basics",
        &[
            "config",
            "data-dir",
            "memory",
            "init",
            "init-mode",
            "ready-json",
            "help",
        ],
    ),
    (
        "Network",
        &[
            "listen",
            "admin-listen",
            "admin-key-file",
            "console",
            "console-files",
            "allow-host",
            "console-host",
            "cors",
            "max-connections",
            "max-connections-per-address",
            "spin",
            "endpoint",
            "direct",
            "direct-advertise",
        ],
    ),
    (
        "Keys and identities",
        &[
            "key-file",
            "entra",
            "entra-audience",
            "entra-issuer",
            "entra-keys",
        ],
    ),
    (
        "TLS",
        &["tls-cert", "tls-key", "tls-password-file", "cert-host"],
    ),
    (
        "Account",
        &[
            "profile",
            "cross-partition-queries",
            "throughput",
            "enforce-throughput",
            "burst-capacity",
            "priority-based-execution",
            "all-versions-and-deletes",
            "consistency",
            "region",
        ],
    ),
    (
        "Limits",
        &[
            "disk-reserve",
            "logical-partition-limit",
            "physical-partition-limit",
            "script-timeouts",
            "script-timeout-window",
            "memory-limit",
            "scrub-rate",
        ],
    ),
    (
        "Backup",
        &[
            "continuous-backup",
            "continuous-backup-interval",
            "retention",
        ],
    ),
    (
        "Logs",
        &[
            "log-format",
            "log-level",
            "slow-request-ms",
            "log-parameters",
            "otlp-endpoint",
        ],
    ),
    (
        "Fleet",
        &[
            "store",
            "cluster-file",
            "node",
            "advertise",
            "balance",
            "standby-reads",
            "spread-load",
            "lease-seconds",
            "accept-stale",
        ],
    ),
];

/// The group of an option that the table does not have.
const OTHER: &str = "More";

/// The options of the summary, with texts that fit a line.
const SUMMARY: [(&str, &str); 15] = [
    ("config", "Configuration file in TOML"),
    ("data-dir", "Data directory"),
    ("memory", "Keep data in memory only; lost on exit"),
    ("listen", "Port for clients"),
    ("admin-listen", "Management API"),
    ("key-file", "File with the account keys"),
    ("tls-cert", "Certificate in PEM, or a PFX file"),
    ("throughput", "RU/s of new containers"),
    ("consistency", "Default consistency level"),
    ("region", "Region of the account; may be repeated"),
    ("memory-limit", "Memory of the server, such as 2GiB"),
    ("log-level", "Least severe level logged"),
    ("init", "Databases and items that exist at the start"),
    ("ready-json", "One JSON line in place of the announcement"),
    ("help", "Print this summary; --help has all options"),
];

/// Help text behind the summary.
pub(super) const SUMMARY_END: &str = "\
'orrery start --help' has all options in groups, with their variables and
values, and examples.";

/// Returns the option that prints help.
pub(super) fn help_option() -> Arg {
    Arg::new("help")
        .short('h')
        .long("help")
        .action(ArgAction::Help)
        .help("Print help; -h prints a summary on one screen")
}

/// Returns an option in its group; only options of the summary are shown there.
pub(super) fn in_group(option: Arg) -> Arg {
    let name = option.get_long().unwrap_or_default().to_owned();
    let is_of_summary = SUMMARY.iter().any(|(known, _)| *known == name);
    option
        .help_heading(group_of(&name))
        .hide_short_help(!is_of_summary)
}

/// Returns the group of an option.
pub(crate) fn group_of(name: &str) -> &'static str {
    let found = GROUPS.iter().find(|(_, options)| options.contains(&name));
    found.map_or(OTHER, |(group, _)| *group)
}

/// Returns the names of all groups in their order.
#[cfg(test)]
pub(crate) fn groups() -> impl Iterator<Item = &'static str> {
    GROUPS.iter().map(|(group, _)| *group)
}

/// Returns the definition of `orrery start` for its summary: one line for each option.
pub(crate) fn summary(start: Command) -> Command {
    start.term_width(80).mut_args(|option| {
        let name = option.get_long().unwrap_or_default().to_owned();
        let text = SUMMARY.iter().find(|(known, _)| *known == name);
        let Some((_, text)) = text else {
            return option;
        };
        let takes_values = option.get_action().takes_values();
        option
            .help(*text)
            .help_heading(None::<&str>)
            .hide_env(true)
            .hide_possible_values(takes_values)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Program;
    use clap::CommandFactory;
    use std::collections::HashSet;

    fn start() -> Command {
        let program = Program::command();
        program.find_subcommand("start").expect("a command").clone()
    }

    #[test]
    fn every_option_is_in_one_group_and_every_group_has_options_only() {
        let start = start();
        let options: Vec<&str> = start.get_arguments().filter_map(Arg::get_long).collect();
        for option in &options {
            assert_ne!(group_of(option), OTHER, "add '{option}' to GROUPS");
        }
        let mut seen = HashSet::new();
        for name in GROUPS.iter().flat_map(|(_, names)| names.iter()) {
            assert!(options.contains(name), "'{name}' is no option");
            assert!(seen.insert(name), "'{name}' stands twice");
        }
    }

    #[test]
    fn the_long_help_has_the_groups_in_their_order() {
        let help = start().render_long_help().to_string();
        let mut from = 0;
        for group in groups() {
            let at = help[from..].find(&format!("\n{group}:\n"));
            from += at.unwrap_or_else(|| panic!("'{group}' is missing or out of order"));
        }
        assert!(
            help.contains("Exit codes:") && !help.contains("\nOptions:\n"),
            "{help}"
        );
    }

    #[test]
    fn the_summary_fits_a_screen() {
        let help = summary(start()).render_help().to_string();
        let lines: Vec<&str> = help.lines().collect();
        assert!(lines.len() <= 24, "{} lines:\n{help}", lines.len());
        assert!(lines.iter().all(|line| line.len() <= 80), "{help}");
        for part in [
            "--listen <ADDR:PORT>",
            "[default: localhost:8081]",
            "--help",
        ] {
            assert!(help.contains(part), "{part}:\n{help}");
        }
        for (name, text) in SUMMARY {
            assert!(
                help.contains(&format!("--{name}")) && help.contains(text),
                "{help}"
            );
        }
    }
}
