//! The container of each tenant, and the gate that a move closes for a moment.
//!
//! A request for a tenant's items passes the gate of the tenant and holds it until the response. A
//! move takes the gate for itself, so that no write is under way, and switches the container; the
//! requests wait meanwhile, and none fails. Several processes need a gate that all of them see,
//! such as an item of the database with a lease.

use orrery_examples::container::Container;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The containers of all tenants: one container for all but the big tenant, which may have its own.
pub(crate) struct Route {
    shared: Container,
    big: &'static str,
    /// The container of the big tenant.
    current: RwLock<Place>,
}

/// A container with the property that is its partition key.
#[derive(Clone)]
pub(crate) struct Place {
    pub(crate) container: Container,
    pub(crate) key: &'static str,
}

impl Place {
    /// Returns the partition key of an item.
    pub(crate) fn key_of<'a>(&self, tenant: &'a str, id: &'a str) -> &'a str {
        if self.key == "id" { id } else { tenant }
    }
}

impl Route {
    /// Creates the route on which all tenants share a container.
    pub(crate) fn new(shared: Container, big: &'static str) -> Route {
        let place = Place {
            container: shared.clone(),
            key: "tenantId",
        };
        Route {
            shared,
            big,
            current: RwLock::new(place),
        }
    }

    /// Returns the tenant that may have a container of its own.
    pub(crate) fn big(&self) -> &'static str {
        self.big
    }

    /// Returns the container of all other tenants.
    pub(crate) fn shared(&self) -> &Container {
        &self.shared
    }

    /// Enters the gate of the big tenant. The place stays the same while the guard lives.
    pub(crate) async fn enter(&self) -> RwLockReadGuard<'_, Place> {
        self.current.read().await
    }

    /// Closes the gate: waits for the requests under way, and holds further requests back while the
    /// guard lives.
    pub(crate) async fn close(&self) -> RwLockWriteGuard<'_, Place> {
        self.current.write().await
    }
}
