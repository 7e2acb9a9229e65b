//! The options of a gateway, from the configuration of the server.

use crate::account::account;
use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::entra;
use crate::failure::Failure;
use crate::hosts::hosts;
use crate::memory::Memory;
use orrery_gateway::{Cors, Keys, Options};

/// Reads the options of a gateway with these account keys.
///
/// # Errors
/// Those of the options of the account and of its directory.
pub(crate) fn gateway_options(
    config: &ServerConfig,
    context: &ServerContext,
    memory: &Memory,
    keys: Keys,
) -> Result<Options, Failure> {
    Ok(Options {
        keys,
        account: account(config)?,
        directory: entra::directory(config)?,
        world: context.world.clone(),
        log: context.log.clone(),
        memory: memory.bodies.clone(),
        hosts: hosts(config),
        cors: Cors::new(config.clients.cors.iter().cloned()),
    })
}
