//! The host names that a server answers for: the check against DNS rebinding.
//!
//! A page of the internet may let its own host name resolve to the address of a server that only
//! the visitor's machine reaches. The browser then takes the server for the origin of the page, so
//! that the page reads the answers of the server; but the browser sends the name of the page as the
//! host. A server whose credentials are known to all, and the pages that sign people in, therefore
//! answer only for names that no page of the internet has:
//!
//! - addresses, and names without a dot, such as `localhost` and the services of a compose file;
//! - names below the domains of [`PRIVATE_DOMAINS`], which no registry gives out;
//! - the names that the operator lists.
//!
//! Promises: the ports for clients, of the management API and of the console share this check.
//! Leaves out: names that resolve in a local network only, unless they are listed.

use crate::auth::Authenticator;
use crate::connection::{Connection, TrustedAccess};
use http::header::HOST;
use http::request::Parts;
use orrery_model::words::shortened;
use orrery_model::{Error, Kind, Result};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// Domains below which no registry gives out a name: reserved ones, those of local networks, and
/// `svc`, which ends the short names of services in Kubernetes.
const PRIVATE_DOMAINS: [&str; 7] = [
    "localhost",
    "local",
    "internal",
    "test",
    "lan",
    "svc",
    "home.arpa",
];

/// The beginning of every refusal, by which the log tells a refusal once.
pub(crate) const REFUSAL: &str = "This server does not answer for the host name of the request";

/// The host names that a server answers for, beside those that need no listing.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    /// Names in lower case; `*.` before a name stands for one further label.
    listed: Vec<String>,
}

/// A request for a host name that may belong to a page of the internet.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongHost {
    /// The fault of the host.
    fault: String,
    /// The name to list, if the request has one.
    name: Option<String>,
}

impl fmt::Display for WrongHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name.as_deref().unwrap_or("NAME");
        write!(
            f,
            "{REFUSAL}: {}. Addresses, names without a \
             dot, and names below {} need no permission. If the name is the server's own, start \
             the server with --allow-host {name}, or set ORRERY_ALLOW_HOST.",
            self.fault,
            PRIVATE_DOMAINS.join(", ")
        )
    }
}

impl std::error::Error for WrongHost {}

impl Hosts {
    /// Creates the list of the operator's names: host names, addresses, and `*.` before a name.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let mut listed = Vec::new();
        for name in names {
            listed.push(name.trim_end_matches('.').to_ascii_lowercase());
        }
        Hosts { listed }
    }

    /// Returns the host that a request names, with its port; `None` if the request names none.
    ///
    /// # Errors
    /// The host may belong to a page of the internet, or it is no host.
    pub fn check<'a>(&self, head: &'a Parts) -> std::result::Result<Option<&'a str>, WrongHost> {
        let mut headers = head.headers.get_all(HOST).iter();
        let (header, second) = (headers.next(), headers.next());
        if second.is_some() {
            return Err(WrongHost::unnamed(
                "the request has two headers 'host'".into(),
            ));
        }
        // HTTP/2 sends the host as the authority of the URI, HTTP/1.1 as a header.
        let sent = match (head.uri.authority(), header) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(value)) => match value.to_str() {
                Ok(text) => text,
                Err(_) => return Err(WrongHost::unnamed("the header 'host' is not text".into())),
            },
            (None, None) => "",
        };
        if sent.is_empty() {
            return Ok(None);
        }
        match host_of(sent) {
            Some(host) if self.contains(host) => Ok(Some(sent)),
            Some(host) => Err(WrongHost {
                fault: may_be_of_a_page(sent),
                name: Some(shortened(host)),
            }),
            None => Err(WrongHost::unnamed(may_be_of_a_page(sent))),
        }
    }

    /// Returns true if the server answers for a host.
    fn contains(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.');
        if host.is_empty() {
            return false;
        }
        if !host.contains('.') || host.parse::<IpAddr>().is_ok() {
            return true;
        }
        let mut domains = PRIVATE_DOMAINS.iter();
        domains.any(|domain| label_before(host, domain).is_some())
            || self.listed.iter().any(|name| is_listed(host, name))
    }
}

impl WrongHost {
    fn unnamed(fault: String) -> Self {
        WrongHost { fault, name: None }
    }
}

/// Returns the fault of a host that the server does not answer for.
fn may_be_of_a_page(sent: &str) -> String {
    format!(
        "'{}' may be the name of a page on the internet",
        shortened(sent)
    )
}

/// Returns the host of a URL or of an address such as `//db.example:8081`; `None` if it has none.
pub fn host_of_url(url: &str) -> Option<&str> {
    host_of(authority(url))
}

/// Returns the host and the port of a URL, or of an address such as `//db.example:8081` or
/// `db.example:8081`; `None` if it has no host or an invalid port.
pub(crate) fn authority_of_url(url: &str) -> Option<(&str, Option<u16>)> {
    let (host, port) = host_and_port(authority(url))?;
    match port {
        "" => Some((host, None)),
        port => Some((host, Some(port.parse().ok()?))),
    }
}

/// Returns the part of a URL with the host and the port.
fn authority(url: &str) -> &str {
    let rest = url.split_once("//").map_or(url, |(_, rest)| rest);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    &rest[..end]
}

/// Returns the host of `host:port`, an address of IPv6 without its brackets; `None` if the text is
/// no host.
fn host_of(text: &str) -> Option<&str> {
    host_and_port(text).map(|(host, _)| host)
}

/// As [`host_of`], with the digits of the port, which may be missing.
fn host_and_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (address, port) = rest.split_once(']')?;
            address.parse::<Ipv6Addr>().ok()?;
            (
                address,
                port.strip_prefix(':').or(port.is_empty().then_some("")),
            )
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, Some("")),
        },
    };
    let port = port?;
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    let is_host = !host.is_empty() && host.bytes().all(is_allowed);
    (is_port && is_host).then_some((host, port))
}

/// Returns true if a host is the listed `name`, or has one label more than a name behind `*.`.
fn is_listed(host: &str, name: &str) -> bool {
    match name.strip_prefix("*.") {
        Some(domain) => label_before(host, domain).is_some_and(|label| !label.contains('.')),
        None => host.eq_ignore_ascii_case(name),
    }
}

/// Returns the part of a host before `.domain`; `None` if the host is not below the domain.
fn label_before<'a>(host: &'a str, domain: &str) -> Option<&'a str> {
    let length = host.len().checked_sub(domain.len() + 1)?;
    let (label, rest) = host.split_at_checked(length)?;
    let is_below = rest.starts_with('.') && rest[1..].eq_ignore_ascii_case(domain);
    (is_below && !label.is_empty()).then_some(label)
}

/// Checks the host of a request, if a page could make credentials that the server accepts.
///
/// # Errors
/// 403 with the remedy.
pub(crate) fn check(head: &Parts, hosts: &Hosts, authenticator: &Authenticator) -> Result<()> {
    let Err(wrong) = hosts.check(head) else {
        return Ok(());
    };
    // The console has checked the host of the requests that it passes on.
    if head.extensions.get::<TrustedAccess>().is_some() || !authenticator.is_open() {
        return Ok(());
    }
    Err(Error::new(Kind::Forbidden, wrong.to_string()))
}

/// Returns the host that the client used, or the address of the server if the client named none.
pub(crate) fn host(head: &Parts, connection: &Connection) -> String {
    match named_host(head) {
        Some(host) => host.to_owned(),
        None => connection.local.to_string(),
    }
}

/// Returns the host that the client named: in the target of the request (HTTP/2, or a complete
/// URL), else in the header.
pub(crate) fn named_host(head: &Parts) -> Option<&str> {
    match head.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => head.headers.get(HOST)?.to_str().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Scheme;
    use http::Request;
    use std::net::SocketAddr;

    fn head(uri: &str, hosts: &[&str]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for host in hosts {
            request = request.header(HOST, *host);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn hosts() -> Hosts {
        Hosts::new(["Db.example", "*.apps.example", "fd00::1"].map(str::to_owned))
    }

    fn is_accepted(host: &str) -> bool {
        let head = head("/dbs", &[host]);
        let checked = hosts().check(&head).map(|sent| sent.map(str::to_owned));
        checked == Ok(Some(host.to_owned()))
    }

    #[test]
    fn names_that_no_page_of_the_internet_has_are_accepted() {
        for host in [
            "localhost",
            "LOCALHOST:8081",
            "localhost.",
            "orrery.localhost:1",
            "127.0.0.1:8081",
            "[::1]:8081",
            "[::1]",
            "10.0.0.7",
            // A service of a compose file, one of Kubernetes, and the host of a container.
            "cosmos",
            "cosmos_db:8081",
            "orrery.default.svc",
            "orrery.default.svc.cluster.local:8081",
            "host.docker.internal:8081",
            "nas.home.arpa",
            "box.lan",
            "db.test",
        ] {
            assert!(is_accepted(host), "{host}");
        }
    }

    #[test]
    fn listed_names_are_accepted_and_a_star_stands_for_one_label() {
        for host in [
            "db.example:8081",
            "DB.example",
            "db.example.",
            "a.apps.example",
        ] {
            assert!(is_accepted(host), "{host}");
        }
        for host in ["x.db.example", "a.b.apps.example", "apps.example"] {
            assert!(!is_accepted(host), "{host}");
        }
    }

    #[test]
    fn names_that_a_page_may_have_and_texts_that_are_no_host_are_refused() {
        for host in [
            "evil.example",
            "evil.example:8081",
            "localhost.evil.example",
            "evil-localhost.example",
            "127.0.0.1.evil.example",
            "evillocal.example",
            "orrery.default",
            "notlocal.xlocal",
            "home.arpa.evil.example",
            "evil@127.0.0.1",
            ".",
            ":8081",
            "a b",
            "localhost:80x",
            "[::1",
            "[::1]x",
            "[evil.example]",
            "::1",
            "localhost/evil.example",
        ] {
            assert!(!is_accepted(host), "{host}");
        }
        let twice = head("/", &["localhost", "evil.example"]);
        assert!(hosts().check(&twice).is_err());
    }

    #[test]
    fn a_request_without_a_host_names_none_and_the_authority_of_the_uri_comes_first() {
        assert_eq!(hosts().check(&head("/", &[])), Ok(None));
        assert_eq!(hosts().check(&head("/", &[""])), Ok(None));
        let http2 = head("http://evil.example/dbs", &["localhost"]);
        assert!(hosts().check(&http2).is_err());
        let http2 = head("http://localhost:8081/dbs", &[]);
        assert_eq!(hosts().check(&http2), Ok(Some("localhost:8081")));
    }

    #[test]
    fn a_refusal_names_the_host_and_the_remedy() {
        let head = head("/", &["evil.example:8081"]);
        let text = hosts().check(&head).expect_err("refused").to_string();
        assert!(text.starts_with(REFUSAL), "{text}");
        assert!(text.contains("'evil.example:8081'"), "{text}");
        assert!(text.contains("--allow-host evil.example,"), "{text}");
    }

    #[test]
    fn a_url_leads_to_its_host() {
        for (url, host) in [
            ("https://db.example:8081/", Some("db.example")),
            ("//db.example:8081", Some("db.example")),
            ("http://[fd00::1]:8081", Some("fd00::1")),
            ("db.example", Some("db.example")),
            ("https://", None),
        ] {
            assert_eq!(host_of_url(url), host, "{url}");
        }
    }

    fn connection() -> Connection {
        let local = SocketAddr::from(([127, 0, 0, 1], 8081));
        Connection {
            scheme: Scheme::Http,
            peer: local,
            local,
        }
    }

    fn used_host(uri: &str, header: Option<&str>) -> String {
        let mut request = Request::builder().uri(uri);
        if let Some(header) = header {
            request = request.header(HOST, header);
        }
        host(
            &request.body(()).expect("a request").into_parts().0,
            &connection(),
        )
    }

    #[test]
    fn the_host_is_the_one_that_the_client_used() {
        assert_eq!(used_host("/", Some("db:1")), "db:1");
        assert_eq!(used_host("http://db:2/", Some("db:1")), "db:2");
        assert_eq!(used_host("/", None), "127.0.0.1:8081");
    }
}
