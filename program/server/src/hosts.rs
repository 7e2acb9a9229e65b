//! The host names that the ports of a server answer for, from its configuration.
//!
//! The operator lists names with `--allow-host`. The names that the operator has given the server
//! for another purpose are the server's own too: those of the certificate that the server makes,
//! those of the addresses that the server tells clients and other nodes, and that of the machine.
//! `orrery emulator` turns `--gateway-endpoint` and `--ip-address-override` into such names.

use crate::certificate;
use crate::config::ServerConfig;
use orrery_gateway::{Hosts, host_of_url};

/// Returns the host names that a server answers for, beside those that need no listing.
pub(crate) fn hosts(config: &ServerConfig) -> Hosts {
    let mut names = config.clients.allowed_hosts.clone();
    names.extend(config.tls.hosts.iter().cloned());
    names.extend(certificate::host_name());
    let advertised = config.fleet.as_ref().map(|fleet| &fleet.advertise);
    for url in [&config.account.endpoint, advertised.unwrap_or(&None)] {
        let host = url.as_deref().and_then(host_of_url);
        names.extend(host.map(str::to_owned));
    }
    Hosts::new(names)
}
