//! Reads from standbys, on a node that does not hold the lease.
//!
//! The node has an engine on the standbys of the first cluster, with a gateway of its own, which
//! checks signatures and permissions as the holder does. Reads of items at the levels Session,
//! ConsistentPrefix and Eventual are answered here if the standby has what the session token names;
//! `fleet/node` has the rules. Every other request goes to the holder, and so does each one that
//! finds no final answer here.
//!
//! Budgets of throughput are those of this node: the service too gives each region the full budget.

use crate::config::ServerConfig;
use crate::context::ServerContext;
use crate::engine::engine_options;
use crate::failure::Failure;
use crate::gateway_options::gateway_options;
use crate::keys;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use orrery_engine::Engine;
use orrery_gateway::{Connection, Gateway, LogLevel};
use orrery_node::{freshness, is_final};
use orrery_placement::StandbyCopies;
use orrery_storage_postgres::{ClusterConfig, PostgresStore};
use std::sync::Arc;
use std::time::Duration;

/// The header that tells a client that a node without the lease has answered: from a standby, or as
/// the owner of the partition.
pub(crate) const ANSWERED_BY: HeaderName = HeaderName::from_static("x-orrery-answered-by");
const SUB_STATUS: HeaderName = HeaderName::from_static("x-ms-substatus");
/// The pause between attempts to open the standbys.
const PAUSE: Duration = Duration::from_secs(1);

/// A reader of standbys.
pub(crate) struct Reader {
    engine: Arc<Engine>,
    gateway: Arc<Gateway>,
    /// The consistency level of the account.
    level: &'static str,
}

impl Reader {
    /// Opens the standbys of the first cluster of a file.
    ///
    /// # Errors
    /// [`Failure::Data`] if no standby can be read now, and those of the options.
    pub(crate) fn open(
        config: &ServerConfig,
        first: &ClusterConfig,
        context: &ServerContext,
    ) -> Result<Reader, Failure> {
        let memory = &context.memory;
        let keys = keys::of_server(config)?.keys;
        let gateway_options = gateway_options(config, context, memory, keys)?;
        let store = PostgresStore::open(first.clone());
        let store = store.map_err(|error| Failure::Data(error.to_string()))?;
        let copies = StandbyCopies::new(Arc::new(store), &first.name);
        let options = engine_options(config, memory)?;
        let engine = Engine::open_replica(Arc::new(copies), options, context.world.clone());
        let engine = Arc::new(engine.map_err(|error| Failure::Data(error.cause_chain()))?);
        let level = gateway_options.account.consistency.name();
        let gateway = Gateway::new(engine.clone(), gateway_options)
            .with_remote_store()
            .with_query_threads(memory.query_threads);
        let gateway = Arc::new(gateway);
        context.key_users.add(&gateway);
        Ok(Reader {
            gateway,
            engine,
            level,
        })
    }

    /// Answers a request of a client; `None` if the holder must answer.
    pub(crate) async fn answer(
        &self,
        head: &Parts,
        body: &Bytes,
        connection: &Connection,
    ) -> Option<Response<Bytes>> {
        let freshness = freshness(&head.method, head.uri.path(), &head.headers, self.level)?;
        let request = Request::from_parts(head.clone(), Full::new(body.clone()));
        let mut response = self.gateway.handle(request, connection).await.ok()?;
        let sub_status = response.headers().get(SUB_STATUS);
        let sub_status = sub_status.and_then(|value| value.to_str().ok()?.parse().ok());
        let status = response.status().as_u16();
        if !is_final(freshness, status, sub_status.unwrap_or(0)) {
            // The catalog may have changed; the next request finds the new state.
            let engine = self.engine.clone();
            tokio::task::spawn_blocking(move || engine.refresh_replica());
            return None;
        }
        let headers = response.headers_mut();
        headers.insert(ANSWERED_BY, HeaderValue::from_static("standby"));
        Some(response)
    }
}

/// Opens the standbys, and tries again until there is one.
pub(crate) async fn open_when_possible(
    config: Arc<ServerConfig>,
    first: ClusterConfig,
    context: ServerContext,
) -> Reader {
    let mut has_told = false;
    loop {
        let (own, cluster, parts) = (config.clone(), first.clone(), context.clone());
        let opened =
            tokio::task::spawn_blocking(move || Reader::open(&own, &cluster, &parts)).await;
        match opened {
            Ok(Ok(reader)) => {
                let message = "this node answers reads of items from standbys";
                context.log(LogLevel::Info, message);
                return reader;
            }
            Ok(Err(failure)) if !has_told => {
                let message = "no standby can be read now; trying again";
                context.log_with_cause(LogLevel::Info, message, &failure.to_string());
                has_told = true;
            }
            _ => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}
