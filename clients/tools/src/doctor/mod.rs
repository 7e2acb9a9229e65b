//! Checks of everything that keeps a server from starting, or a client from reaching the server.
//!
//! ```text
//! endpoint     port, program behind the port, clock, key
//! certificate  validity, names and trust of a server's certificate
//! direct       addresses of the direct connection mode
//! directory    data directory: rights, files, format, lock, free space, sync
//! system       limits, environment variables, Java
//! ```
//!
//! Each check gives one or more findings; a check that needs a running server is skipped without
//! one. Promises: nothing is changed, but for a file in the data directory that exists for the
//! duration of one sync; no secret is part of a finding; every warning and problem has a remedy.
//!
//! Left out: the content of the data (`orrery repair` checks it), and other machines.

mod certificate;
mod direct;
mod directory;
mod endpoint;
mod system;

use orrery_client::ConnectionOptions;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Reads one environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The things to check, and the facts about the server program that the checks need.
#[derive(Debug, Clone)]
pub struct Subject {
    /// The account of the clients.
    pub account: ConnectionOptions,
    /// Data directory of the server; `None` if the user has no home directory.
    pub data_dir: Option<PathBuf>,
    /// Files of the program in a data directory, besides those with a dot.
    pub own_files: &'static [&'static str],
    /// Version of the directory that the program can open.
    pub format: u32,
    /// Open files without which a server does not start.
    pub open_files_min: u64,
    /// Sentences about variables of the environment that no command reads.
    pub needless_variables: Vec<String>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing to do.
    Ok,
    /// Not checked, because an earlier finding leaves nothing to check.
    Skipped,
    /// Works, with a risk.
    Warning,
    /// Keeps a server from starting or clients from working.
    Problem,
}

impl State {
    /// Returns the word of a report.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// One line of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Name of the check, for example `clock`.
    pub check: &'static str,
    /// The result.
    pub state: State,
    /// The facts that were found.
    pub found: String,
    /// Instructions for the user, with warnings and problems.
    pub remedy: Option<String>,
}

impl Finding {
    fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self::of(check, State::Ok, found, None)
    }

    fn skipped(check: &'static str, found: impl Into<String>) -> Self {
        Self::of(check, State::Skipped, found, None)
    }

    fn warning(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::of(check, State::Warning, found, Some(remedy.into()))
    }

    fn problem(check: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::of(check, State::Problem, found, Some(remedy.into()))
    }

    fn of(
        check: &'static str,
        state: State,
        found: impl Into<String>,
        remedy: Option<String>,
    ) -> Self {
        Self {
            check,
            state,
            found: found.into(),
            remedy,
        }
    }
}

/// Runs all checks, in the order in which a report shows them.
pub async fn run(subject: &Subject, environment: Environment<'_>) -> Vec<Finding> {
    let mut findings = endpoint::check(subject, environment).await;
    findings.extend(directory::check(subject));
    findings.extend(system::check(subject, environment));
    findings
}

/// Returns true if a finding is a problem.
pub fn has_problem(findings: &[Finding]) -> bool {
    findings.iter().any(|f| f.state == State::Problem)
}

/// Returns the report as aligned lines; a remedy follows its finding.
pub fn as_text(findings: &[Finding]) -> String {
    let widest = findings.iter().map(|f| f.check.len()).max().unwrap_or(0);
    let mut text = String::new();
    for finding in findings {
        let (state, check) = (finding.state.word(), finding.check);
        text.push_str(&format!("{state:<8} {check:<widest$}  {}\n", finding.found));
        if let Some(remedy) = &finding.remedy {
            text.push_str(&format!("{:8} {:widest$}  -> {remedy}\n", "", ""));
        }
    }
    let count = |state| findings.iter().filter(|f| f.state == state).count();
    let (problems, warnings) = (count(State::Problem), count(State::Warning));
    text.push_str(&format!("{problems} problems, {warnings} warnings\n"));
    text
}

/// Returns the report as JSON: `problems`, `warnings`, and `checks` with `check`, `state`, `found`
/// and, for warnings and problems, `remedy`.
pub fn as_json(findings: &[Finding]) -> Value {
    let checks: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let mut line = json!({"check": finding.check, "state": finding.state.word(),
                "found": finding.found});
            if let Some(remedy) = &finding.remedy {
                line["remedy"] = remedy.as_str().into();
            }
            line
        })
        .collect();
    let count = |state| findings.iter().filter(|f| f.state == state).count();
    json!({"problems": count(State::Problem), "warnings": count(State::Warning),
        "checks": checks})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_aligned_and_counts_what_is_wrong() {
        let findings = [
            Finding::ok("key", "accepted"),
            Finding::problem("certificate", "expired", "issue a new one"),
        ];
        let expected = "ok       key          accepted\n\
                        problem  certificate  expired\n                      -> issue a new one\n\
                        1 problems, 0 warnings\n";
        assert_eq!(as_text(&findings), expected);
        assert!(has_problem(&findings));
        let json = as_json(&findings);
        assert_eq!(json["problems"], 1);
        assert_eq!(json["checks"][1]["remedy"], "issue a new one");
        assert_eq!(json["checks"][0]["remedy"], Value::Null);
    }
}
