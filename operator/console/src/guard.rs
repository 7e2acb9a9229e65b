//! Checks against requests that a page of another origin makes a browser send.
//!
//! - **Host**: a page may let its own host name resolve to the address of the server (DNS
//!   rebinding). The console answers for the host names of [`Hosts`], as the port for clients does.
//! - **Origin**: a browser states the origin of a page that sends a request. Requests for `api/`
//!   must come from a page of the console.
//! - **Token**: a request for `api/` carries the token of its session in a header, which a page of
//!   another origin can neither read nor send.

use crate::refusal::Refusal;
use http::header::ORIGIN;
use http::request::Parts;
use orrery_gateway::{Connection, Hosts};

/// Header with the token of the session.
pub(crate) const TOKEN_HEADER: &str = "x-orrery-csrf";

/// Checks that the request names a host of the server. Returns the host, with its port.
///
/// # Errors
/// 403 for a foreign or missing host.
pub(crate) fn check_host<'a>(head: &'a Parts, hosts: &Hosts) -> Result<&'a str, Refusal> {
    match hosts.check(head) {
        Ok(Some(host)) => Ok(host),
        Ok(None) => Err(Refusal::new(
            403,
            "WrongHost",
            "the request has no header 'host', which browsers always send",
        )),
        Err(wrong) => Err(Refusal::new(403, "WrongHost", wrong.to_string())),
    }
}

/// Checks that a request was sent by a page of this origin, if it says who sent it. Programs state
/// no origin; they have no session of a browser either.
///
/// # Errors
/// 403 for a foreign origin.
pub(crate) fn check_origin(
    head: &Parts,
    host: &str,
    connection: &Connection,
) -> Result<(), Refusal> {
    let refused = || {
        Refusal::new(
            403,
            "WrongOrigin",
            "the request comes from a page of another origin; open the console itself",
        )
    };
    for origin in head.headers.get_all(ORIGIN) {
        let own = format!("{}://{host}", connection.scheme.name());
        let is_own = origin
            .to_str()
            .is_ok_and(|origin| origin.eq_ignore_ascii_case(&own));
        if !is_own {
            return Err(refused());
        }
    }
    for site in head.headers.get_all("sec-fetch-site") {
        if site != "same-origin" && site != "none" {
            return Err(refused());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;
    use orrery_gateway::Scheme;
    use std::net::SocketAddr;

    fn head(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/api/session");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    #[test]
    fn a_foreign_host_and_a_request_without_a_host_are_refused() {
        let hosts = Hosts::new(["db.example".to_owned()]);
        let is_accepted = |headers: &[(&str, &str)]| check_host(&head(headers), &hosts).is_ok();
        for host in ["localhost:8082", "[::1]:8082", "db.example:8081", "cosmos"] {
            assert!(is_accepted(&[("host", host)]), "{host}");
        }
        for host in ["evil.example", "x.db.example", "evil@127.0.0.1", ""] {
            assert!(!is_accepted(&[("host", host)]), "{host}");
        }
        assert!(!is_accepted(&[]));
        assert!(!is_accepted(&[
            ("host", "localhost"),
            ("host", "evil.example")
        ]));
    }

    fn is_origin_accepted(headers: &[(&str, &str)]) -> bool {
        let address = SocketAddr::from(([127, 0, 0, 1], 8082));
        let connection = Connection {
            scheme: Scheme::Http,
            peer: address,
            local: address,
        };
        check_origin(&head(headers), "localhost:8082", &connection).is_ok()
    }

    #[test]
    fn requests_of_pages_of_another_origin_are_refused() {
        assert!(is_origin_accepted(&[]));
        assert!(is_origin_accepted(&[("origin", "http://localhost:8082")]));
        assert!(is_origin_accepted(&[("sec-fetch-site", "same-origin")]));
        for origin in [
            "null",
            "https://localhost:8082",
            "http://localhost:8081",
            "http://localhost",
            "http://evil.example",
            "http://localhost:8082.evil.example",
        ] {
            assert!(!is_origin_accepted(&[("origin", origin)]), "{origin}");
        }
        let own = "http://localhost:8082";
        let twice = [("origin", own), ("origin", "http://evil.example")];
        assert!(!is_origin_accepted(&twice));
        for site in ["cross-site", "same-site", "?"] {
            assert!(!is_origin_accepted(&[("sec-fetch-site", site)]), "{site}");
        }
    }
}
