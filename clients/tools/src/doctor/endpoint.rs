//! Checks of the endpoint: the port, the program behind the port, the clock, the key.

use super::{Environment, Finding, Subject, certificate, direct};
use crate::ports::{holder_of, listens_for_others};
use bytes::Bytes;
use http_body_util::Full;
use jiff::Timestamp;
use orrery_client::pool::Pool;
use orrery_client::tls::is_loopback;
use orrery_client::{Client, Connection, Request, Trust, WELL_KNOWN_KEY};
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;
use tokio::net::TcpStream;

/// Time for one connection or one exchange.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);
/// Difference of the clocks from which on signatures are refused.
const SIGNATURE_SECONDS: i64 = 15 * 60;
/// Difference of the clocks that is worth a warning.
const SKEW_SECONDS: i64 = 5 * 60;
/// Characters of another program's text that are printed.
const PRINTED_MAX: usize = 300;
/// Remedy of a key that cannot be right.
const KEY_FORM: &str = "copy the whole key in base64, with the '=' at its end, from the server's \
                        key file or from the account";
/// Bytes of an account key of the service.
const KEY_BYTES: usize = 64;

/// The parts of an endpoint.
pub(super) struct Target {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_https: bool,
    pub(super) is_loopback: bool,
}

impl Target {
    pub(super) fn of(endpoint: &str) -> Option<Self> {
        let uri: http::Uri = endpoint.parse().ok()?;
        let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
        let is_https = uri.scheme_str() == Some("https");
        let default = if is_https { 443 } else { 80 };
        Some(Self {
            is_loopback: is_loopback(host),
            host: host.to_owned(),
            port: uri.port_u16().unwrap_or(default),
            is_https,
        })
    }

    pub(super) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// The program behind a port, as its first answer shows it.
struct Program {
    /// Words for a finding.
    name: String,
    is_ours: bool,
    speaks_the_protocol: bool,
    /// Time of the `Date` header, and the local time when the answer came.
    times: Option<(Timestamp, Timestamp)>,
}

/// Names of checks that need an answer.
const NEED_ANSWER: [&str; 4] = ["certificate", "clock", "key", "direct"];

/// Runs the checks.
pub(super) async fn check(subject: &Subject, environment: Environment<'_>) -> Vec<Finding> {
    let connection = match subject.account.resolve(environment) {
        Ok(connection) => connection,
        Err(error) => {
            let remedy = "correct the option or the variable; orrery doctor --help lists them";
            return vec![Finding::problem("account", error.to_string(), remedy)];
        }
    };
    let Some(target) = Target::of(&connection.endpoint) else {
        let found = format!("{} is no address", connection.endpoint);
        let remedy = "the form is https://HOST:PORT/ or http://HOST:PORT/";
        return vec![Finding::problem("account", found, remedy)];
    };
    let mut findings = Vec::new();
    match connect(&target).await {
        Ok(()) => {}
        Err(cause) => {
            findings.extend(unreachable(subject, &target, &cause));
            let skipped = |check| Finding::skipped(check, "no server answers");
            findings.extend(NEED_ANSWER.map(skipped));
            return findings;
        }
    }
    let program = program(&connection).await;
    findings.push(port(&target, &program));
    let Ok(program) = program else {
        let skipped = |check| Finding::skipped(check, "no server of the protocol answers");
        findings.extend(NEED_ANSWER.map(skipped));
        return findings;
    };
    findings.push(certificate::check(&target, &connection.trust, program.is_ours).await);
    let skew = program
        .times
        .map(|(server, local)| local.as_second().saturating_sub(server.as_second()));
    findings.push(clock(skew));
    if !program.speaks_the_protocol {
        let skipped = |check| Finding::skipped(check, "no server of the protocol answers");
        findings.extend(["key", "direct"].map(skipped));
        return findings;
    }
    findings.extend(key(&connection, &target, skew).await);
    findings.push(direct::check(&connection, &target).await);
    findings
}

async fn connect(target: &Target) -> Result<(), String> {
    let connecting = TcpStream::connect((target.host.as_str(), target.port));
    match tokio::time::timeout(TIMEOUT, connecting).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no connection within {} s", TIMEOUT.as_secs())),
    }
}

/// Returns the findings of an endpoint that accepts no connection. On this machine that is the
/// state before a server starts, unless the user named the endpoint.
fn unreachable(subject: &Subject, target: &Target, cause: &str) -> Vec<Finding> {
    let authority = target.authority();
    let is_named =
        subject.account.endpoint.is_some() || subject.account.connection_string.is_some();
    if !target.is_loopback {
        let found = format!("{authority}: {cause}");
        let remedy = "check the name, the port, and firewalls between the machines; a server \
                      listens for other machines only with --listen 0.0.0.0:PORT";
        return vec![Finding::problem("endpoint", found, remedy)];
    }
    // The port is tried as a server would take it: a socket that lingers keeps it occupied.
    let addresses = (target.host.as_str(), target.port).to_socket_addrs();
    let first: Option<SocketAddr> = addresses.ok().and_then(|mut all| all.next());
    let bound = first.map(std::net::TcpListener::bind);
    let port = match bound {
        Some(Err(error)) => {
            let holder = match first.and_then(holder_of) {
                Some(holder) => format!("; {holder} has it"),
                None => String::new(),
            };
            let found =
                format!("{authority} accepts no connection and cannot be taken: {error}{holder}");
            let remedy = "choose another port with --listen, or run as a user with the right to it";
            Finding::problem("port", found, remedy)
        }
        _ => Finding::ok("port", format!("{authority} is free")),
    };
    let found = format!("no server listens on {authority}");
    let remedy = "start one with 'orrery start', or name the endpoint with --endpoint";
    let endpoint = match is_named {
        true => Finding::problem("endpoint", found, remedy),
        false => Finding::warning("endpoint", found, remedy),
    };
    vec![port, endpoint]
}

/// Asks the endpoint without a signature, and tells the program from its answer.
async fn program(connection: &Connection) -> Result<Program, String> {
    let pool = Pool::with_trust(&connection.endpoint, 1, &Trust::Any)?;
    let request = http::Request::builder()
        .uri("/")
        .header("host", pool.authority())
        .header("x-ms-version", "2018-12-31")
        .body(Full::new(Bytes::new()))
        .map_err(|error| error.to_string())?;
    let answer = tokio::time::timeout(TIMEOUT, pool.exchange(request)).await;
    let (parts, body) = match answer {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => return Err(error.to_string()),
        Err(_) => return Err(format!("no answer within {} s", TIMEOUT.as_secs())),
    };
    let header = |name: &str| {
        parts
            .headers
            .get(name)
            .and_then(|value| value.to_str().ok())
    };
    let server = header("server").unwrap_or_default();
    let is_ours = server.starts_with("orrery/");
    let names_headers = [
        "x-ms-activity-id",
        "x-ms-gatewayversion",
        "x-ms-request-charge",
    ];
    let body: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    let speaks_the_protocol = is_ours
        || names_headers.into_iter().any(|name| header(name).is_some())
        || (body["code"].is_string() && body["message"].is_string())
        || body["writableLocations"].is_array();
    let name = match (is_ours, speaks_the_protocol) {
        (true, _) => server.to_owned(),
        (false, true) if server.is_empty() => "the service, or another emulator".to_owned(),
        (false, true) => format!("the service, or another emulator ({})", printable(server)),
        (false, false) if server.is_empty() => "another HTTP server".to_owned(),
        (false, false) => format!("another HTTP server ({})", printable(server)),
    };
    let date = header("date").and_then(|date| {
        let parsed = jiff::fmt::rfc2822::parse(date).ok()?;
        Some(parsed.timestamp())
    });
    Ok(Program {
        name,
        is_ours,
        speaks_the_protocol,
        times: date.map(|date| (date, Timestamp::now())),
    })
}

/// Returns a text of another program without control characters, and not without end.
pub(super) fn printable(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(PRINTED_MAX)
        .collect()
}

fn port(target: &Target, program: &Result<Program, String>) -> Finding {
    let authority = target.authority();
    let remedy = match target.is_loopback {
        true => {
            let addresses = (target.host.as_str(), target.port).to_socket_addrs();
            let program = match addresses.ok().and_then(|mut all| all.find_map(holder_of)) {
                Some(holder) => format!("stop {holder}"),
                None => format!(
                    "stop that program ('ss -ltnp sport = :{}' names it)",
                    target.port
                ),
            };
            format!(
                "{program}, or start the server with another --listen and give clients its address"
            )
        }
        false => "check the address of the endpoint".to_owned(),
    };
    match program {
        Ok(program) if program.speaks_the_protocol => {
            Finding::ok("endpoint", format!("{authority}: {} answers", program.name))
        }
        Ok(program) => {
            let found = format!("{authority} belongs to {}", program.name);
            Finding::problem("port", found, remedy)
        }
        Err(cause) if target.is_https => {
            let found = format!("{authority} answers no HTTPS: {}", printable(cause));
            Finding::problem("port", found, remedy)
        }
        Err(cause) => {
            let found = format!(
                "{authority} belongs to a program without HTTP: {}",
                printable(cause)
            );
            Finding::problem("port", found, remedy)
        }
    }
}

fn clock(skew: Option<i64>) -> Finding {
    let Some(skew) = skew else {
        return Finding::skipped("clock", "the answer has no Date header");
    };
    let words = match skew {
        -1..=1 => return Finding::ok("clock", "same time as the server, to the second"),
        ..-1 => format!(
            "this machine is {} s behind the server",
            skew.unsigned_abs()
        ),
        _ => format!("this machine is {skew} s ahead of the server"),
    };
    let remedy = "set the clocks by NTP (timedatectl set-ntp true); in a virtual machine or \
                  container set the clock of the host";
    match skew.saturating_abs() {
        SIGNATURE_SECONDS.. => {
            let found =
                format!("{words}: signatures older or newer than 15 minutes get 401 or 403");
            Finding::problem("clock", found, remedy)
        }
        SKEW_SECONDS.. => Finding::warning("clock", words, remedy),
        _ => Finding::ok("clock", words),
    }
}

/// Sends a signed request.
async fn key(connection: &Connection, target: &Target, skew: Option<i64>) -> Vec<Finding> {
    let unverified = Connection {
        trust: Trust::Any,
        ..connection.clone()
    };
    let client = match Client::new(&unverified) {
        Ok(client) => client.with_patience(Duration::ZERO),
        Err(error) => return vec![Finding::problem("key", error.to_string(), KEY_FORM)],
    };
    let request = Request::new(http::Method::GET, "");
    let answer = match tokio::time::timeout(TIMEOUT, client.send(&request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => {
            let remedy = "look at the log of the server";
            return vec![Finding::problem("key", error.to_string(), remedy)];
        }
        Err(_) => {
            let found = format!("no answer within {} s", TIMEOUT.as_secs());
            return vec![Finding::problem(
                "key",
                found,
                "look at the log of the server",
            )];
        }
    };
    let status = answer.status;
    if status < 400 {
        return accepted(connection, target);
    }
    let message = match answer.into_success() {
        Err(error) => error.to_string(),
        Ok(_) => String::new(),
    };
    vec![refused(connection, status, &message, skew)]
}

/// Returns the findings about a key that the server accepts.
fn accepted(connection: &Connection, target: &Target) -> Vec<Finding> {
    let source = &connection.key_source;
    let is_well_known = connection.key.reveal() == WELL_KNOWN_KEY;
    let mut findings = vec![Finding::ok(
        "key",
        format!("the server accepts the signature (key of {source})"),
    )];
    if is_well_known && (!target.is_loopback || listens_for_others(target.port)) {
        let found = "other machines reach the server, and its key is the public key of every \
                         emulator";
        let remedy = "start the server with --key-file (orrery keys create makes one), or \
                          listen on the loopback only";
        findings.push(Finding::warning("key", found, remedy));
    }
    findings
}

/// Returns the finding about a signature that the server refuses.
fn refused(connection: &Connection, status: u16, message: &str, skew: Option<i64>) -> Finding {
    let source = &connection.key_source;
    let is_well_known = connection.key.reveal() == WELL_KNOWN_KEY;
    if !matches!(status, 401 | 403) {
        return Finding::problem("key", message, "look at the log of the server");
    }
    // A wrong clock gives the same status as a wrong key, and is the rarer thought.
    let is_skewed = skew.is_some_and(|skew| skew.saturating_abs() >= SIGNATURE_SECONDS);
    let remedy = match (is_skewed, is_well_known) {
        (true, _) => "correct the clock first: the signature covers the time".to_owned(),
        (_, true) => {
            "this is the well-known key of emulators and the server has another one: name \
                      its file with --key-file or set ORRERY_KEY"
                .to_owned()
        }
        _ => format!("the server expects a master key of its account: {KEY_FORM}"),
    };
    let mut found = format!("{status} with the key of {source}: {}", printable(message));
    let bytes = key_bytes(connection.key.reveal());
    if bytes != KEY_BYTES {
        found.push_str(&format!(
            "; the key has {bytes} bytes, and those of accounts have {KEY_BYTES}"
        ));
    }
    Finding::problem("key", found, remedy)
}

/// Returns the number of bytes that a text in base64 stands for.
fn key_bytes(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn a_difference_of_clocks_is_judged_by_the_rule_of_signatures() {
        for (skew, state) in [
            (Some(0), State::Ok),
            (Some(-200), State::Ok),
            (Some(301), State::Warning),
            (Some(-900), State::Problem),
            (Some(i64::MIN), State::Problem),
            (None, State::Skipped),
        ] {
            assert_eq!(clock(skew).state, state, "{skew:?}");
        }
    }
}
