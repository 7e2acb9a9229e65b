//! The host names that the ports of a server answer for, from the arguments of the server.
//!
//! The operator lists names with `--allow-host`. The names that the operator has given the server
//! for another purpose are the server's own too: those of the certificate that the server makes,
//! those of the addresses that the server tells clients and other nodes, and that of the machine.
//! `orrery emulator` turns `--gateway-endpoint` and `--ip-address-override` into such arguments.

use crate::certificate;
use crate::command::StartArguments;
use orrery_gateway::{Hosts, host_of_url};

/// Returns the host names that a server answers for, beside those that need no listing.
pub(crate) fn hosts(arguments: &StartArguments) -> Hosts {
    let mut names = arguments.allow_hosts.clone();
    names.extend(arguments.console_hosts.iter().cloned());
    names.extend(arguments.cert_hosts.iter().cloned());
    names.extend(certificate::host_name());
    for url in [&arguments.endpoint, &arguments.advertise] {
        let host = url.as_deref().and_then(host_of_url);
        names.extend(host.map(str::to_owned));
    }
    Hosts::new(names)
}
