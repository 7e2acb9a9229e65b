//! The parts of a server that tell others its state: the management API, the port for probes of
//! health, and the announcement.

use crate::admin::AdminServer;
use crate::announcement::Announcement;
use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::failure::Failure;
use crate::health::{Health, HealthPort};
use orrery_admin::Fleet;
use std::net::SocketAddr;
use std::sync::Arc;

/// The parts that tell others the state of the server.
pub(crate) struct Observers {
    /// The management API, unless it is switched off.
    pub(crate) admin: Option<AdminServer>,
    /// The state that probes ask for.
    pub(crate) health: Arc<Health>,
    /// The port for probes, if there is one.
    pub(crate) health_port: Option<HealthPort>,
}

impl Observers {
    /// Opens the ports for observers of a server whose data is not open yet.
    ///
    /// # Errors
    /// A port cannot be used, or there is no usable key of the management API.
    pub(crate) async fn start(
        config: &ServerConfig,
        context: &ServerContext,
    ) -> Result<Observers, Failure> {
        let health = Arc::new(Health::new(context));
        Ok(Observers {
            health_port: HealthPort::start(config, context, &health).await?,
            admin: AdminServer::start(config, context).await?,
            health,
        })
    }

    /// Returns the announcement of a server that listens on `addresses`.
    ///
    /// # Errors
    /// [`Failure::Failed`] if there is no address.
    pub(crate) fn announcement<'a>(
        &'a self,
        context: &'a ServerContext,
        addresses: &[SocketAddr],
        primary_key: &'a str,
        has_well_known_key: bool,
    ) -> Result<Announcement<'a>, Failure> {
        let no_address = || Failure::Failed("the client port has no address".to_owned());
        Ok(Announcement {
            address: *addresses.first().ok_or_else(no_address)?,
            addresses: addresses.to_vec(),
            health: self.health_port.as_ref().map(|port| port.address),
            primary_key,
            has_well_known_key,
            has_self_signed_certificate: context.tls.is_self_signed,
            data_dir: context.data_dir.as_deref(),
            admin: self.admin.as_ref(),
        })
    }

    /// Tells that the server is a node that forwards requests.
    pub(crate) fn begin_forwarding(&self, fleet: Arc<dyn Fleet>) {
        self.health.begin_forwarding();
        if let Some(admin) = &self.admin {
            admin.begin_forwarding(fleet);
        }
    }

    /// Tells that the server is not ready any more.
    pub(crate) fn begin_draining(&self) {
        self.health.begin_draining();
        if let Some(admin) = &self.admin {
            admin.begin_draining();
        }
    }

    /// Stops the port for probes and the management API.
    pub(crate) async fn stop(self) {
        if let Some(port) = self.health_port {
            port.stop().await;
        }
        if let Some(admin) = self.admin {
            admin.stop().await;
        }
    }
}
