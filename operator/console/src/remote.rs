//! The database of a node that does not hold the lease of its account.

use crate::console::Access;
use bytes::Bytes;
use http::{Request, Response};
use orrery_gateway::{Connection, RequestBody, Unanswered};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// The answer of another node, or of this one for a partition that it owns.
pub type RemoteAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<Response<Bytes>, Unanswered>> + Send + 'a>>;

/// The way of a person's request to the node that can answer it.
pub trait RemoteGateway: Send + Sync {
    /// Sends a request of the protocol, which has no signature, with the rights `access`.
    fn send<'a>(
        &'a self,
        request: Request<RequestBody>,
        connection: &'a Connection,
        access: Access,
    ) -> RemoteAnswer<'a>;
}

/// The database of a node while another node holds the lease.
pub struct RemoteDatabase {
    /// The way to the node that can answer.
    pub gateway: Arc<dyn RemoteGateway>,
    /// URL of this node's port for clients.
    pub endpoint: String,
    /// Name of the account.
    pub account: String,
    /// True if a key of the account is the well-known key of the emulator, which is no secret.
    pub has_well_known_key: bool,
}
