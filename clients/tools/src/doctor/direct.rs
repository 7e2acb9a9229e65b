//! The check of the direct connection mode: the addresses that a server tells the clients of .NET
//! and Java, and whether this machine reaches them.

use super::Finding;
use super::endpoint::{TIMEOUT, Target, printable};
use orrery_client::{Client, Connection, Request, Trust};
use serde_json::Value;
use std::time::Duration;
use tokio::net::TcpStream;

/// Name of the check.
const CHECK: &str = "direct";

/// Asks for the addresses, over HTTPS whatever the scheme of the endpoint, and connects to the
/// first.
pub(super) async fn check(connection: &Connection, target: &Target) -> Finding {
    let secure = Connection {
        endpoint: format!("https://{}/", target.authority()),
        trust: Trust::Any,
        ..connection.clone()
    };
    let Ok(client) = Client::new(&secure) else {
        return Finding::skipped(CHECK, "the endpoint has no form of HTTPS");
    };
    let client = client.with_patience(Duration::ZERO);
    let request = Request::master_addresses();
    let answer = match tokio::time::timeout(TIMEOUT, client.send(&request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) | Err(_) => {
            let found = "the endpoint answers no HTTPS, which the direct mode needs";
            return Finding::skipped(CHECK, found);
        }
    };
    let status = answer.status;
    let body = match answer.into_success() {
        Ok(answer) => answer.body,
        Err(error) if status == 400 => return off(&error.to_string()),
        Err(error) => {
            let found = format!("no addresses: {}", printable(&error.to_string()));
            return Finding::skipped(CHECK, found);
        }
    };
    let Some(place) = place(&body) else {
        let found = "the answer about addresses names none";
        return Finding::problem(CHECK, found, "look at the log of the server");
    };
    reach(&place).await
}

/// Returns the finding about a server without the mode, which is a choice of its operator.
fn off(message: &str) -> Finding {
    match message.contains("irect") {
        true => Finding::skipped(
            CHECK,
            "the server does not offer the direct mode, the default of .NET and Java: clients \
             need the gateway mode, or the server --direct on",
        ),
        false => Finding::skipped(CHECK, format!("no addresses: {}", printable(message))),
    }
}

/// Connects to an address of the direct mode.
async fn reach(place: &str) -> Finding {
    let remedy = "start the server with --direct-advertise HOST:PORT, the address at which clients \
                  reach it, or with --direct off";
    match tokio::time::timeout(TIMEOUT, TcpStream::connect(place)).await {
        Ok(Ok(_)) => Finding::ok(CHECK, format!("clients of the direct mode reach {place}")),
        Ok(Err(error)) => {
            let found = format!("clients of the direct mode are sent to {place}: {error}");
            Finding::problem(CHECK, found, remedy)
        }
        Err(_) => {
            let seconds = TIMEOUT.as_secs();
            let found = format!(
                "clients of the direct mode are sent to {place}: no connection within {seconds} s"
            );
            Finding::problem(CHECK, found, remedy)
        }
    }
}

/// Returns the host and port of the first address in an answer.
fn place(body: &[u8]) -> Option<String> {
    let answer: Value = serde_json::from_slice(body).ok()?;
    let uri = answer["Addresss"][0]["physcialUri"].as_str()?;
    let (place, _) = uri.strip_prefix("rntbd://")?.split_once('/')?;
    Some(place.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn the_place_of_an_address_is_read_from_its_uri() {
        let body = br#"{"Addresss":[{"physcialUri":"rntbd://db.example:8081/apps/0/"}]}"#;
        assert_eq!(place(body), Some("db.example:8081".into()));
        for none in [
            &b"{}"[..],
            b"[]",
            b"",
            br#"{"Addresss":[{"physcialUri":"x"}]}"#,
        ] {
            assert_eq!(place(none), None);
        }
    }

    #[test]
    fn a_server_without_the_mode_is_no_problem() {
        let finding = off("The direct connection mode (...) is not supported by this server");
        assert_eq!(finding.state, State::Skipped);
        assert!(finding.found.contains("--direct on"), "{}", finding.found);
    }
}
