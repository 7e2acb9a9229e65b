//! The facts of a request that its connection states: the scheme and the addresses, the bounds of
//! its head, and the marks that a port of this server sets on it.
//!
//! Left out: the limits of connections (`connections`), and slow clients (`activity`).

use std::net::SocketAddr;

/// The largest head of a request, in bytes. The largest headers are directory tokens and
/// continuations, of 16 KiB each.
pub(crate) const HEAD_BYTES: usize = 64 * 1024;
/// The largest number of headers of a request.
pub(crate) const HEADERS: usize = 128;

/// The scheme of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Without TLS.
    Http,
    /// With TLS.
    Https,
}

impl Scheme {
    /// Returns the name of the scheme in a URL.
    pub fn name(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }
}

/// The properties of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// The scheme: with or without TLS.
    pub scheme: Scheme,
    /// The address of the client.
    pub peer: SocketAddr,
    /// The address of the server. Requests that name no host get it as their host.
    pub local: SocketAddr,
}

/// The rights of a request that a part of this server sends for a person whom the part has already
/// identified, such as the console. Such a request has no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrustedAccess {
    /// The rights of the primary key.
    Full,
    /// The rights of a key that allows reading only.
    ReadOnly,
}

/// Marks a request for whose head there is no memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoMemoryForHead;
