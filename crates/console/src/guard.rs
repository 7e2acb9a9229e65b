//! Checks against requests that a page of another origin makes a browser send.
//!
//! - **Host**: a page may let its own host name resolve to the address of the server (DNS
//!   rebinding); the browser then sends this name. The console therefore answers for `localhost`,
//!   for addresses, which need no name server, and for host names that the operator lists.
//! - **Origin**: a browser states the origin of a page that sends a request. Requests for `api/`
//!   must come from a page of the console.
//! - **Token**: a request for `api/` carries the token of its session in a header, which a page of
//!   another origin can neither read nor send.

use crate::refusal::Refusal;
use http::header::{HOST, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use orrery_gateway::Connection;
use std::net::IpAddr;

/// Header with the token of the session.
pub(crate) const TOKEN_HEADER: &str = "x-orrery-csrf";

/// Checks that the request names the server's own host. Returns the authority.
///
/// # Errors
/// 403 for a foreign or missing host.
pub(crate) fn check_host(head: &Parts, listed: &[String]) -> Result<Authority, Refusal> {
    // HTTP/2 sends the host as the authority of the URI, HTTP/1.1 as a header.
    let from_uri = head.uri.authority().map(Authority::as_str);
    let from_header = head.headers.get(HOST).and_then(|value| value.to_str().ok());
    let named = from_uri.or(from_header).unwrap_or_default();
    let refused = || {
        let message = format!(
            "the header 'host' is '{named}', but the console answers for localhost, for addresses \
             and for the names given with --console-host"
        );
        Refusal::new(403, "WrongHost", message)
    };

    let is_twice = head.headers.get_all(HOST).iter().count() > 1;
    if is_twice || named.contains('@') {
        return Err(refused());
    }
    let authority: Authority = named.parse().map_err(|_| refused())?;
    let host = authority.host().to_ascii_lowercase();
    let host = host.trim_end_matches('.');
    let address = host.trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost" || host.ends_with(".localhost");
    let is_listed = listed.iter().any(|name| name.eq_ignore_ascii_case(host));
    if is_local || is_listed || address.parse::<IpAddr>().is_ok() {
        return Ok(authority);
    }
    Err(refused())
}

/// Checks that a request was sent by a page of this origin, if it says who sent it. Programs state
/// no origin; they have no session of a browser either.
///
/// # Errors
/// 403 for a foreign origin.
pub(crate) fn check_origin(
    head: &Parts,
    authority: &Authority,
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
        let own = format!("{}://{authority}", connection.scheme.name());
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

    fn is_host_accepted(host: &str) -> bool {
        check_host(&head(&[("host", host)]), &["db.example".to_owned()]).is_ok()
    }

    #[test]
    fn only_local_names_addresses_and_listed_names_are_hosts_of_the_console() {
        for host in [
            "localhost",
            "LOCALHOST:8082",
            "localhost.",
            "orrery.localhost:1",
            "127.0.0.1:8082",
            "[::1]:8082",
            "10.0.0.7",
            "db.example:8081",
            "DB.example",
        ] {
            assert!(is_host_accepted(host), "{host}");
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "evil-localhost",
            "127.0.0.1.evil.example",
            "x.db.example",
            "evil@127.0.0.1",
            "",
            "a b",
        ] {
            assert!(!is_host_accepted(host), "{host}");
        }
        assert!(check_host(&head(&[]), &[]).is_err());
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert!(check_host(&head(&twice), &[]).is_err());
    }

    fn is_origin_accepted(headers: &[(&str, &str)]) -> bool {
        let address = SocketAddr::from(([127, 0, 0, 1], 8082));
        let connection = Connection {
            scheme: Scheme::Http,
            peer: address,
            local: address,
        };
        let authority = Authority::from_static("localhost:8082");
        check_origin(&head(headers), &authority, &connection).is_ok()
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
