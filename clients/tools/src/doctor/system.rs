//! Checks of the system: open files, environment variables, Java.

use super::endpoint::Target;
use super::{Environment, Finding, Subject};
use std::path::Path;

/// Open files below which connections are few.
const OPEN_FILES_GOOD: u64 = 4096;
/// Variables that name an account for clients or for the tools of this program.
const ACCOUNT: [&str; 8] = [
    "ORRERY_ENDPOINT",
    "ORRERY_CONNECTION_STRING",
    "AZURE_COSMOS_CONNECTION_STRING",
    "COSMOS_ENDPOINT",
    "COSMOS_KEY",
    "ACCOUNT_HOST",
    "ACCOUNT_KEY",
    "ORRERY_KEY",
];
/// Variables that set the server up in the place of the vendor's emulator.
const EMULATOR: [&str; 5] = [
    "AZURE_COSMOS_EMULATOR_PARTITION_COUNT",
    "AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE",
    "AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE",
    "AZURE_COSMOS_EMULATOR_KEY",
    "AZURE_COSMOS_EMULATOR_ARGS",
];
/// Variables with a proxy, in both spellings.
const PROXIES: [&str; 6] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
];

/// Runs the checks.
pub(super) fn check(subject: &Subject, environment: Environment<'_>) -> Vec<Finding> {
    let variable = |name: &str| environment(name).filter(|value| !value.trim().is_empty());
    let mut findings = vec![open_files(subject.open_files_min)];
    findings.extend(variables(subject, environment, &variable));
    findings.push(java(&variable));
    findings
}

#[cfg(unix)]
fn open_files(needed: u64) -> Finding {
    use rustix::process::{Resource, getrlimit};
    let limit = getrlimit(Resource::Nofile).maximum;
    let remedy = "raise the hard limit: ulimit -Hn, LimitNOFILE= of a systemd unit, or --ulimit \
                  nofile= of a container";
    match limit {
        None => Finding::ok("open files", "no limit"),
        Some(limit) if limit < needed => {
            let found = format!("{limit} at most, and a server needs {needed}");
            Finding::problem("open files", found, remedy)
        }
        Some(limit) if limit < OPEN_FILES_GOOD => {
            let found = format!("{limit} at most, which leaves few connections");
            Finding::warning("open files", found, remedy)
        }
        Some(limit) => Finding::ok("open files", format!("{limit} at most")),
    }
}

#[cfg(not(unix))]
fn open_files(_needed: u64) -> Finding {
    Finding::ok("open files", "this system has no such limit")
}

/// Names the variables that redirect clients, without their values, which may hold secrets.
fn variables(
    subject: &Subject,
    environment: Environment<'_>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let set = |names: &[&'static str]| -> Vec<&'static str> {
        names
            .iter()
            .copied()
            .filter(|name| variable(name).is_some())
            .collect()
    };
    let mut findings = Vec::new();
    let account = set(&ACCOUNT);
    let endpoint = subject.account.resolve(environment).map(|c| c.endpoint);
    if let (false, Ok(endpoint)) = (account.is_empty(), &endpoint) {
        let endpoint = without_user(endpoint);
        let found = format!("{} set; the tools use {endpoint}", account.join(", "));
        findings.push(Finding::ok("environment", found));
    }
    for found in &subject.needless_variables {
        let remedy = "correct the name of the variable, or unset the variable";
        findings.push(Finding::warning("environment", found, remedy));
    }
    if variable("AZURE_COSMOS_ALLOW_INVALID_CERT").is_some() {
        findings.push(Finding::warning(
            "environment",
            "AZURE_COSMOS_ALLOW_INVALID_CERT is set: certificates are not verified",
            "unset the variable, and trust the certificate with 'orrery cert install'",
        ));
    }
    let emulator = set(&EMULATOR);
    if !emulator.is_empty() {
        let found = format!(
            "{} set: 'orrery emulator' follows them",
            emulator.join(", ")
        );
        findings.push(Finding::ok("environment", found));
    }
    let proxies = set(&PROXIES);
    let target = endpoint.ok().and_then(|endpoint| Target::of(&endpoint));
    if !proxies.is_empty() && target.is_some_and(|target| target.is_loopback) {
        let exceptions = variable("NO_PROXY").or_else(|| variable("no_proxy"));
        let exceptions = exceptions.unwrap_or_default();
        let is_direct = exceptions
            .split(',')
            .any(|host| matches!(host.trim(), "*" | "localhost" | "127.0.0.1" | "::1"));
        let names = proxies.join(", ");
        findings.push(match is_direct {
            true => Finding::ok(
                "environment",
                format!("{names} set, NO_PROXY has this machine"),
            ),
            false => Finding::warning(
                "environment",
                format!("{names} set: SDKs send requests for this machine to the proxy"),
                "set NO_PROXY=localhost,127.0.0.1,::1",
            ),
        });
    }
    if findings.is_empty() {
        findings.push(Finding::ok("environment", "no variable redirects clients"));
    }
    findings
}

/// Returns an address without a name and password before its host.
fn without_user(endpoint: &str) -> String {
    match (endpoint.split_once("://"), endpoint.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => endpoint.to_owned(),
    }
}

fn java(variable: &dyn Fn(&str) -> Option<String>) -> Finding {
    let paths = variable("PATH").unwrap_or_default();
    let has = |folder: &Path| folder.join("java").is_file();
    let home = variable("JAVA_HOME").filter(|home| has(&Path::new(home).join("bin")));
    let is_found = home.is_some() || std::env::split_paths(&paths).any(|folder| has(&folder));
    match is_found {
        true => Finding::ok(
            "java",
            "found; Java trusts its own store: make one with 'orrery cert java-keystore' and name \
             it in -Djavax.net.ssl.trustStore",
        ),
        false => Finding::ok("java", "not found"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_without_its_user() {
        assert_eq!(without_user("http://a:b@host/"), "http://host/");
        assert_eq!(without_user("http://host/"), "http://host/");
    }
}
