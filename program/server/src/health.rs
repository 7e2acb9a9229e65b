//! Health of the server without credentials: `/alive`, `/ready` and `/status`.
//!
//! The port for clients answers them for any host name, because probes of containers use names
//! that the server does not know. A server in the place of the emulator also answers them on a
//! port of their own, from before the data is open. The answers say nothing but the state, and that
//! a node of a fleet cannot read or renew the lease; the cause is in the log.

use crate::address;
use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::descriptors::ADMIN_CONNECTIONS;
use crate::failure::Failure;
use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use orrery_engine::Engine;
use orrery_gateway::{
    BodyMemory, Connection, ConnectionLimits, Log, LogLevel, Patience, Port, RequestBody, Service,
    Unanswered, body, serve,
};
use orrery_model::Json;
use orrery_model::memory::MemoryBudget;
use orrery_model::sync;
use orrery_model::world::World;
use orrery_node::Seat;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Bytes that the heads of requests for health may take together.
const MEMORY_BYTES: u64 = 1024 * 1024;

#[derive(Clone)]
enum Stage {
    Recovering,
    /// Another node serves, and gets the requests.
    Forwarding,
    Serving(Arc<Engine>),
    Draining,
}

/// The state of the server for probes.
pub(crate) struct Health {
    stage: RwLock<Stage>,
    /// The node of a fleet, which may not be able to read or renew the lease.
    seat: OnceLock<Arc<Seat>>,
    log: Arc<Log>,
    world: Arc<dyn World>,
    memory: BodyMemory,
}

impl Health {
    /// Creates the state of a server whose data is not yet open.
    pub(crate) fn new(context: &ServerContext) -> Self {
        Health {
            stage: RwLock::new(Stage::Recovering),
            seat: OnceLock::new(),
            log: context.log.clone(),
            world: context.world.clone(),
            memory: BodyMemory::new(MemoryBudget::with_part_for_small(MEMORY_BYTES)),
        }
    }

    /// Sets the node of a fleet that this server is. Only the first call has an effect.
    pub(crate) fn set_node(&self, seat: &Arc<Seat>) {
        let _ = self.seat.set(seat.clone());
    }

    /// Returns the reason of the state as a member of a JSON object, with a comma before; nothing
    /// if there is none.
    fn reason(&self) -> String {
        let reason = self.seat.get().and_then(|seat| seat.lease_failure());
        reason.map_or(String::new(), |reason| {
            format!(r#", "reason": {}"#, Json::from(reason).to_text())
        })
    }

    /// Announces that the requests of clients are forwarded to another node.
    pub(crate) fn begin_forwarding(&self) {
        *sync::write(&self.stage) = Stage::Forwarding;
    }

    /// Announces that clients are served.
    pub(crate) fn begin_serving(&self, engine: Arc<Engine>) {
        *sync::write(&self.stage) = Stage::Serving(engine);
    }

    /// Announces that the server is stopping; it is not ready from now on.
    pub(crate) fn begin_draining(&self) {
        *sync::write(&self.stage) = Stage::Draining;
    }

    /// Answers a request for health; `None` for other requests.
    pub(crate) async fn answer(&self, method: &Method, path: &str) -> Option<Response<Bytes>> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return None;
        }
        match path {
            "/alive" => Some(json(200, r#"{"alive": true}"#.to_owned())),
            "/ready" => {
                let state = self.state().await;
                let is_ready = matches!(state, "ready" | "forwarding");
                let status = if is_ready { 200 } else { 503 };
                let reason = self.reason();
                let body = format!(r#"{{"ready": {is_ready}, "status": "{state}"{reason}}}"#);
                Some(json(status, body))
            }
            "/status" => {
                let state = self.state().await;
                let is_ready = matches!(state, "ready" | "forwarding");
                let version = env!("CARGO_PKG_VERSION");
                let state = format!(r#""ready": {is_ready}, "status": "{state}""#);
                let reason = self.reason();
                let body = format!(r#"{{"alive": true, {state}{reason}, "version": "{version}"}}"#);
                Some(json(200, body))
            }
            _ => None,
        }
    }

    /// Returns the name of the state. A server that serves is asked for data.
    async fn state(&self) -> &'static str {
        let stage = sync::read(&self.stage).clone();
        let engine = match stage {
            Stage::Recovering => return "recovering",
            Stage::Forwarding => return "forwarding",
            Stage::Draining => return "draining",
            Stage::Serving(engine) => engine,
        };
        match tokio::task::spawn_blocking(move || engine.probe()).await {
            Ok(Ok(())) => "ready",
            Ok(Err(error)) => {
                let cause = format!("the server is not ready: {error}: {}", error.cause_chain());
                self.log
                    .write(self.world.now_ms(), LogLevel::Error, &cause, &[]);
                "failing"
            }
            Err(_) => "failing",
        }
    }
}

/// The port that answers for health alone.
pub(crate) struct HealthPort {
    /// The first address that it listens on.
    pub(crate) address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<bool>,
}

impl HealthPort {
    /// Starts the port, if the server has one.
    ///
    /// # Errors
    /// The address cannot be used.
    pub(crate) async fn start(
        config: &ServerConfig,
        context: &ServerContext,
        health: &Arc<Health>,
    ) -> Result<Option<Self>, Failure> {
        let wanted = config
            .emulator
            .as_ref()
            .and_then(|emulator| emulator.health);
        let Some(wanted) = wanted else {
            return Ok(None);
        };
        let failed = |error: &io::Error| {
            let remedy = "choose another port with --health-port (HEALTH_PORT), or switch it off \
                          with --health-port off";
            address::cannot_listen(wanted, "probes of health", error, remedy)
        };
        let listeners = address::listen(&[wanted], false).await;
        let listeners = listeners.map_err(|(_, error)| failed(&error))?;
        let address = address::first_of(&listeners).map_err(|error| failed(&error))?;
        let (stop, stopped) = oneshot::channel::<()>();
        let shutdown = async {
            // A dropped sender means the same as a message.
            let _ = stopped.await;
        };
        let port = Port {
            service: health.clone(),
            tls: Some(context.tls.config.clone()),
            limits: ConnectionLimits {
                total: ADMIN_CONNECTIONS,
                per_address: ADMIN_CONNECTIONS,
            },
            patience: Patience::default(),
            spin: Duration::ZERO,
            drain: Duration::from_secs(1),
            direct: None,
        };
        Ok(Some(HealthPort {
            address,
            stop,
            serving: tokio::spawn(serve(port, listeners, shutdown)),
        }))
    }

    /// Stops listening and waits for the requests in progress.
    pub(crate) async fn stop(self) {
        // Both fail only if the task has already ended.
        let _ = self.stop.send(());
        let _ = self.serving.await;
    }
}

impl Service for Health {
    async fn handle(
        &self,
        request: Request<RequestBody>,
        _: &Connection,
    ) -> Result<Response<Bytes>, Unanswered> {
        let answer = self.answer(request.method(), request.uri().path()).await;
        // A client that is still sending would see a broken connection instead of the answer.
        body::discard(request.into_body()).await;
        Ok(answer.unwrap_or_else(|| {
            let body = r#"{"error": "this port answers GET /ready, /alive and /status"}"#;
            json(404, body.to_owned())
        }))
    }

    fn log(&self) -> &Log {
        &self.log
    }

    fn now_ms(&self) -> u64 {
        self.world.now_ms()
    }

    fn memory(&self) -> &BodyMemory {
        &self.memory
    }
}

fn json(status: u16, body: String) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
