//! Addresses on which a server listens, and as seen from this machine.
//!
//! | form of an address | listens on |
//! |---|---|
//! | `8081`, `localhost:8081` | 127.0.0.1, and `[::1]` if the machine has it |
//! | `:8081`, `*:8081` | all interfaces: 0.0.0.0, and `[::]` if the machine has it |
//! | `127.0.0.1:8081`, `[::1]:8081`, `0.0.0.0:8081` | this address |
//!
//! Port 0 selects a free port. Several addresses with port 0 get the same port.

use crate::failure::Failure;
use orrery_tools::ports::holder_of;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use tokio::net::TcpListener;

/// Attempts to find a port that is free on all addresses.
const ATTEMPTS: usize = 20;
/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// One `--listen` address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// The loopback addresses of this machine, by IPv4 and by IPv6.
    Localhost(u16),
    /// All addresses of this machine, by IPv4 and by IPv6.
    Everywhere(u16),
    /// One address.
    At(SocketAddr),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if let Ok(address) = text.parse() {
            return Ok(Listen::At(address));
        }
        let (host, port) = text.rsplit_once(':').unwrap_or(("localhost", text));
        let forms = "write a port ('8081'), 'localhost:8081', ':8081' for all interfaces, or an \
                     address as in '192.0.2.1:8081' and '[::1]:8081'";
        if text.contains("://") {
            return Err(format!(
                "'{text}' is a URL, and an address was expected: {forms}"
            ));
        }
        let Ok(port) = port.parse::<u16>() else {
            return Err(format!("'{port}' is no port from 0 to 65535: {forms}"));
        };
        match host {
            "" | "*" => Ok(Listen::Everywhere(port)),
            host if host.eq_ignore_ascii_case("localhost") => Ok(Listen::Localhost(port)),
            host if host.parse::<Ipv6Addr>().is_ok() => Err(format!(
                "an IPv6 address needs brackets: write '[{host}]:{port}'"
            )),
            host => Err(format!(
                "'{host}' is neither an address nor localhost, and a server listens on addresses \
                 of its own machine: {forms}"
            )),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Localhost(port) => write!(f, "localhost:{port}"),
            Listen::Everywhere(port) => write!(f, ":{port}"),
            Listen::At(address) => address.fmt(f),
        }
    }
}

impl Listen {
    /// Returns the address that is always listened on.
    pub fn first(self) -> SocketAddr {
        match self {
            Listen::Localhost(port) => (Ipv4Addr::LOCALHOST, port).into(),
            Listen::Everywhere(port) => (Ipv4Addr::UNSPECIFIED, port).into(),
            Listen::At(address) => address,
        }
    }

    /// Returns the address that is listened on as well if the machine has IPv6.
    fn second(self) -> Option<SocketAddr> {
        match self {
            Listen::Localhost(port) => Some((Ipv6Addr::LOCALHOST, port).into()),
            Listen::Everywhere(port) => Some((Ipv6Addr::UNSPECIFIED, port).into()),
            Listen::At(_) => None,
        }
    }

    /// Returns the same addresses with another port.
    pub fn with_port(self, port: u16) -> Listen {
        match self {
            Listen::Localhost(_) => Listen::Localhost(port),
            Listen::Everywhere(_) => Listen::Everywhere(port),
            Listen::At(address) => Listen::At(SocketAddr::new(address.ip(), port)),
        }
    }

    /// Returns true if only this machine can reach the address.
    pub fn is_loopback(self) -> bool {
        self.first().ip().is_loopback()
    }
}

/// Returns the first address that other machines can reach.
pub(crate) fn reachable_by_others(listens: &[Listen]) -> Option<Listen> {
    listens.iter().copied().find(|listen| !listen.is_loopback())
}

/// Listens on all `wanted` addresses. If another program has a port and `takes_free_port` is true,
/// a free port of the same addresses is used instead.
///
/// # Errors
/// An address cannot be used, with the address. IPv6 that comes with a name is no error if the
/// machine does not have it.
pub(crate) async fn listen(
    wanted: &[Listen],
    takes_free_port: bool,
) -> Result<Vec<TcpListener>, (Listen, io::Error)> {
    match listen_on(wanted) {
        Err((_, error)) if takes_free_port && error.kind() == io::ErrorKind::AddrInUse => {
            let any_port: Vec<Listen> = wanted.iter().map(|listen| listen.with_port(0)).collect();
            listen_on(&any_port)
        }
        result => result,
    }
}

/// Listens on all addresses. Those with port 0 get one port; a port that is free on one address
/// may be taken on another, so this is tried several times.
fn listen_on(wanted: &[Listen]) -> Result<Vec<TcpListener>, (Listen, io::Error)> {
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let mut shared_port = 0;
        let mut listeners = Vec::new();
        let mut failure = None;
        for listen in wanted {
            let chosen = match listen.first().port() {
                0 => listen.with_port(shared_port),
                _ => *listen,
            };
            match listen_both(chosen) {
                Ok(opened) => {
                    let port = opened.first().and_then(|one| one.local_addr().ok());
                    if listen.first().port() == 0 {
                        shared_port = port.map_or(0, |address| address.port());
                    }
                    listeners.extend(opened);
                }
                Err(error) => {
                    // A port that the user names stays taken; one that was found may be replaced.
                    let is_final = listen.first().port() != 0 || shared_port == 0;
                    failure = Some((*listen, error, is_final));
                    break;
                }
            }
        }
        match failure {
            None => return Ok(listeners),
            Some((listen, error, true)) => return Err((listen, error)),
            Some((listen, error, false)) => last = Some((listen, error)),
        }
    }
    let (listen, error) = last.unwrap_or_else(|| {
        let nothing = io::Error::new(io::ErrorKind::InvalidInput, "there is no address");
        (Listen::Localhost(0), nothing)
    });
    Err((listen, error))
}

/// Listens on the address or the two addresses of a name.
fn listen_both(listen: Listen) -> io::Result<Vec<TcpListener>> {
    for _ in 0..ATTEMPTS {
        let first = bind(listen.first())?;
        let Some(mut second) = listen.second() else {
            return Ok(vec![first]);
        };
        second.set_port(first.local_addr()?.port());
        match bind(second) {
            Ok(second) => return Ok(vec![first, second]),
            // The port was free by IPv4 alone: another one may be free by both.
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if listen.first().port() != 0 {
                    return Err(error);
                }
            }
            // The machine has no IPv6.
            Err(_) => return Ok(vec![first]),
        }
    }
    Err(io::ErrorKind::AddrInUse.into())
}

/// Listens on one address. A socket of IPv6 accepts IPv6 only: the system would otherwise take the
/// port of IPv4 with it.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = socket2::Domain::for_address(address);
    let socket = socket2::Socket::new(domain, socket2::Type::STREAM, None)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    // A server that restarts must not wait for connections of the one before. On Windows this
    // option would let two servers have one port.
    if cfg!(unix) {
        socket.set_reuse_address(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// Returns the address of the first of several listeners, which the announcement names.
pub(crate) fn first_of(listeners: &[TcpListener]) -> io::Result<SocketAddr> {
    match listeners.first() {
        Some(first) => first.local_addr(),
        None => Err(io::ErrorKind::AddrNotAvailable.into()),
    }
}

/// Returns the failure to listen for `subject`: the program that has the port, and `remedy`, which
/// names the option that changes the port.
pub fn cannot_listen(wanted: Listen, subject: &str, error: &io::Error, remedy: &str) -> Failure {
    let failed = format!("cannot listen on {wanted} for {subject}: {error}");
    if error.kind() != io::ErrorKind::AddrInUse {
        return Failure::Failed(format!("{failed}; {remedy}"));
    }
    let holder = holder_of(wanted.first()).or_else(|| holder_of(wanted.second()?));
    let holder = match holder {
        Some(holder) => format!("{holder} has the port"),
        None => format!(
            "another program has the port ('ss -ltnp sport = :{}' names it)",
            wanted.first().port()
        ),
    };
    Failure::Failed(format!(
        "{failed}\n{holder}: stop that program, or {remedy}"
    ))
}

/// Returns an address at which a server that listens on `listen` can be reached from this machine:
/// the loopback address if the server listens on all interfaces, otherwise `listen` itself.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(listeners: &[TcpListener]) -> Vec<SocketAddr> {
        listeners
            .iter()
            .map(|one| one.local_addr().expect("an address"))
            .collect()
    }

    #[test]
    fn an_address_has_several_forms() {
        for (text, listen) in [
            ("8081", Listen::Localhost(8081)),
            ("localhost:8081", Listen::Localhost(8081)),
            (":8081", Listen::Everywhere(8081)),
            ("*:0", Listen::Everywhere(0)),
            ("0.0.0.0:1", Listen::At(([0, 0, 0, 0], 1).into())),
            ("[::1]:1", Listen::At((Ipv6Addr::LOCALHOST, 1).into())),
        ] {
            assert_eq!(text.parse(), Ok(listen), "{text}");
            let again: Result<Listen, String> = listen.to_string().parse();
            assert_eq!(again, Ok(listen), "{text}");
        }
        for (text, part) in [
            ("", "no port"),
            ("65536", "no port"),
            ("localhost:", "no port"),
            ("http://localhost:8081", "URL"),
            ("example.com:80", "'example.com'"),
            ("::1:8081", "'[::1]:8081'"),
        ] {
            let refusal = text.parse::<Listen>().expect_err(text);
            assert!(refusal.contains(part), "{text}: {refusal}");
        }
    }

    #[tokio::test]
    async fn several_addresses_with_port_0_get_the_same_port() {
        let wanted = ["localhost:0", "127.0.0.2:0"].map(|text| text.parse().expect("a form"));
        let listeners = listen(&wanted, false).await.expect("free ports");
        let addresses = ports(&listeners);
        assert!(addresses.len() >= 2, "{addresses:?}");
        assert!(
            addresses
                .iter()
                .all(|one| one.port() == addresses[0].port())
        );
        assert_eq!(addresses[0].ip(), IpAddr::from(Ipv4Addr::LOCALHOST));
    }

    #[tokio::test]
    async fn a_port_that_is_in_use_is_replaced_only_on_demand() {
        let first = listen(&[Listen::Localhost(0)], false)
            .await
            .expect("a free port");
        let taken = ports(&first)[0];
        let wanted = [Listen::At(taken)];
        let (at, refused) = listen(&wanted, false).await.expect_err("it is in use");
        assert_eq!((at, refused.kind()), (wanted[0], io::ErrorKind::AddrInUse));
        let remedy = "choose another port with --listen";
        let told = cannot_listen(at, "clients", &refused, remedy).to_string();
        assert!(told.contains(remedy), "{told}");
        if cfg!(target_os = "linux") {
            let own = format!("process {} (", std::process::id());
            assert!(told.contains(&own), "{told}");
        }
        let other = listen(&wanted, true).await.expect("a free port");
        let other = ports(&other)[0];
        assert_eq!(other.ip(), taken.ip());
        assert_ne!(other.port(), taken.port());
    }
}
