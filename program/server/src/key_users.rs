//! The gateways of a server that check signatures with the account keys.
//!
//! A node has a gateway for reads from standbys while it waits for the lease, and another one while
//! it serves. Promise: all gateways have the keys that were read last, also a gateway that is made
//! after that.

use crate::keys::AccountKeys;
use orrery_gateway::Gateway;
use orrery_model::sync::lock;
use std::sync::{Arc, Mutex, Weak};

/// The gateways of a server that check signatures with the account keys.
#[derive(Default)]
pub(crate) struct KeyUsers {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    gateways: Vec<Weak<Gateway>>,
    /// The keys that were read since the start of the server.
    newest: Option<AccountKeys>,
}

impl KeyUsers {
    /// Adds a gateway that has the keys of the server's start.
    pub(crate) fn add(&self, gateway: &Arc<Gateway>) {
        let mut state = lock(&self.state);
        if let Some(newest) = &state.newest {
            gateway.replace_keys(newest.keys.clone());
        }
        state.gateways.retain(|known| known.strong_count() > 0);
        state.gateways.push(Arc::downgrade(gateway));
    }

    /// Returns the keys that were read since the start of the server.
    pub(crate) fn newest(&self) -> Option<AccountKeys> {
        lock(&self.state).newest.clone()
    }

    /// Gives all gateways other keys.
    pub(crate) fn replace(&self, newest: AccountKeys) {
        let mut state = lock(&self.state);
        for gateway in state.gateways.iter().filter_map(Weak::upgrade) {
            gateway.replace_keys(newest.keys.clone());
        }
        state.newest = Some(newest);
    }
}
