//! The bounds of the port for clients, which a server opens when its data is open, and a node
//! before that.

use crate::address::{self, Listen};
use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::failure::Failure;
use orrery_gateway::ConnectionLimits;
use std::io;
use std::time::Duration;

/// Time that requests in progress get to finish after a signal to stop.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns the failure of the port for clients, with the option that changes the port.
pub(crate) fn cannot_listen(config: &ServerConfig, wanted: Listen, error: &io::Error) -> Failure {
    let remedy = format!("choose another port with {}", config.clients.listen_option);
    address::cannot_listen(wanted, "clients", error, &remedy)
}

/// Returns the limits of the clients' connections.
///
/// One address may have half of all connections: clients behind a proxy share its address, and the
/// other half stays for others. A client that opens more gives up its own idle connections first.
pub(crate) fn connection_limits(
    config: &ServerConfig,
    context: &ServerContext,
) -> ConnectionLimits {
    let total = context.descriptors.connections;
    let per_address = config.clients.max_connections_per_address;
    ConnectionLimits {
        total,
        per_address: per_address.unwrap_or(total.div_ceil(2)).min(total),
    }
}
