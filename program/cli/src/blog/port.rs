//! The port of the blog: the connections of visitors, and their requests for the application.
//!
//! The port is served as every other port of the program: its connections are limited in all and by
//! address, and clients that send or read too slowly are cut (`orrery_gateway::serve`). The bodies
//! of requests and answers are taken from a budget of their own.
//!
//! Leaves out: TLS, which a proxy in front of the application has.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use orrery_blog_web::{Application, BODY_BYTES_MAX};
use orrery_gateway::{
    BodyMemory, Connection, ConnectionCounters, ConnectionLimits, Log, Patience, Port, RequestBody,
    Service, Unanswered, body,
};
use orrery_model::memory::MemoryBudget;
use orrery_model::world::World;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the bodies of all requests and answers.
const MEMORY_BYTES: u64 = 128 << 20;
/// Time that requests in progress get to finish after a signal to stop.
pub(crate) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// The application behind a port.
pub(crate) struct BlogService {
    application: Application,
    log: Arc<Log>,
    world: Arc<dyn World>,
    connections: Arc<ConnectionCounters>,
    memory: BodyMemory,
}

/// Returns the port of an application for so many connections. One address may have half of them.
pub(crate) fn port(
    application: Application,
    connections: usize,
    log: Arc<Log>,
    world: Arc<dyn World>,
) -> Port<BlogService> {
    Port {
        service: Arc::new(BlogService {
            application,
            log,
            world,
            connections: Arc::default(),
            memory: BodyMemory::new(MemoryBudget::new(MEMORY_BYTES)),
        }),
        tls: None,
        limits: ConnectionLimits {
            total: connections,
            per_address: connections.div_ceil(2),
        },
        patience: Patience::default(),
        spin: Duration::ZERO,
        drain: DRAIN_TIMEOUT,
        direct: None,
    }
}

impl Service for BlogService {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        let (head, sent) = request.into_parts();
        let read = body::read_at_most(BODY_BYTES_MAX, sent, &self.memory).await;
        let sent = read.map_err(|error| {
            StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST)
        });
        let answered = self.application.answer(head, sent, connection.peer.ip());
        let mut response = answered.await;
        match self.memory.hold(response.body().clone()) {
            Ok(held) => *response.body_mut() = held,
            Err(_) => response = without_memory(),
        }
        Ok(response)
    }

    fn log(&self) -> &Log {
        &self.log
    }

    fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }

    fn connections(&self) -> Arc<ConnectionCounters> {
        self.connections.clone()
    }

    fn memory(&self) -> &BodyMemory {
        &self.memory
    }
}

/// Returns the answer in place of a page for which there is no memory, since other visitors do not
/// take theirs. A form that was applied is applied once only when it is sent again.
fn without_memory() -> Response<Bytes> {
    let text = "The site has no memory for this page now. Load the page again in a moment.";
    let mut response = Response::new(Bytes::from_static(text.as_bytes()));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}
