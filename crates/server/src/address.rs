//! Addresses on which a server listens, and as seen from this machine.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tokio::net::TcpListener;

/// Listens on `wanted`. If another program has the port and `takes_free_port` is true, a free port
/// of the same address is used instead.
///
/// # Errors
/// The address cannot be used.
pub(crate) async fn listen(wanted: SocketAddr, takes_free_port: bool) -> io::Result<TcpListener> {
    match TcpListener::bind(wanted).await {
        Err(error) if takes_free_port && error.kind() == io::ErrorKind::AddrInUse => {
            TcpListener::bind(SocketAddr::new(wanted.ip(), 0)).await
        }
        result => result,
    }
}

/// Returns an address at which a server that listens on `listen` can be reached from this machine:
/// the loopback address if the server listens on all interfaces, otherwise `listen` itself.
pub(crate) fn reachable(listen: SocketAddr) -> SocketAddr {
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

    #[tokio::test]
    async fn a_port_that_is_in_use_is_replaced_only_on_demand() {
        let first = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let first = listen(first, false).await.expect("a free port");
        let taken = first.local_addr().expect("an address");
        let refused = listen(taken, false).await.expect_err("it is in use");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        let other = listen(taken, true).await.expect("a free port");
        let other = other.local_addr().expect("an address");
        assert_eq!(other.ip(), taken.ip());
        assert_ne!(other.port(), taken.port());
    }
}
