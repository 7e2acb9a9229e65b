//! The facts that a program tells its user when its server is ready.
//!
//! Left out: the words and the form, which are those of the program.

use crate::admin::AdminServer;
use std::net::SocketAddr;
use std::path::Path;

/// The facts about a server that accepts requests.
pub struct Announcement<'a> {
    /// Address on which the server listens for clients.
    pub address: SocketAddr,
    /// All addresses on which the server listens for clients.
    pub addresses: Vec<SocketAddr>,
    /// Address of the port for probes of health, if there is one.
    pub health: Option<SocketAddr>,
    /// Primary key of the account.
    pub primary_key: &'a str,
    /// True if one of the account keys is the well-known key of the emulator.
    pub has_well_known_key: bool,
    /// True if the server made its certificate, which clients do not trust at first.
    pub has_self_signed_certificate: bool,
    /// Data directory; `None` if the data is kept in memory.
    pub data_dir: Option<&'a Path>,
    /// Management API, unless it is switched off.
    pub admin: Option<&'a AdminServer>,
}
