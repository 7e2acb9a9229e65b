//! Reads from standbys, on a node that does not hold the lease.
//!
//! The node has an engine on the standbys of the first cluster, with a gateway of its own, which
//! checks signatures and permissions as the leaseholder does. Reads of items at the levels Session,
//! ConsistentPrefix and Eventual are answered here if the standby has what the session token names;
//! `fleet/node` has the rules. Every other request goes to the leaseholder, and so does each one
//! that finds no final answer here.
//!
//! Budgets of throughput are those of this node: the service too gives each region the full budget.

pub(crate) mod local_read;

use crate::{DatabaseOptions, NodeContext, freshness, is_final};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response};
use http_body_util::Full;
use orrery_engine::Engine;
use orrery_gateway::{Connection, Gateway, LogLevel};
use orrery_placement::StandbyCopies;
use orrery_storage_postgres::{ClusterConfig, Expected, PostgresStore, StoreOptions};
use std::sync::Arc;
use std::time::Duration;

/// The header that tells a client that a node without the lease has answered: from a standby, or as
/// the owner of the partition.
pub(crate) const ANSWERED_BY: HeaderName = HeaderName::from_static("x-orrery-answered-by");
const SUB_STATUS: HeaderName = HeaderName::from_static("x-ms-substatus");
/// The pause between attempts to open the standbys.
const PAUSE: Duration = Duration::from_secs(1);

/// A reader of standbys.
pub struct Reader {
    engine: Arc<Engine>,
    gateway: Arc<Gateway>,
    /// The consistency level of the account.
    level: &'static str,
}

impl Reader {
    /// Opens the standbys of the first cluster of a file.
    ///
    /// # Errors
    /// No standby can be read now, or there are no usable options; the reason is for the log.
    fn open(first: &ClusterConfig, context: &NodeContext) -> Result<Reader, String> {
        let DatabaseOptions {
            engine,
            gateway,
            query_threads,
        } = context.host.options_of_reader()?;
        let options = StoreOptions {
            expected: Expected::First { may_create: false },
            ..StoreOptions::default()
        };
        let store = PostgresStore::open_with(first.clone(), options);
        let store = store.map_err(|error| error.to_string())?;
        let copies = StandbyCopies::new(Arc::new(store), &first.name);
        let engine = Engine::open_replica(Arc::new(copies), engine, context.world.clone());
        let engine = Arc::new(engine.map_err(|error| error.cause_chain())?);
        let level = gateway.account.consistency.name();
        let gateway = Gateway::new(engine.clone(), gateway)
            // The primary answers what no standby does.
            .with_remote_store(Duration::ZERO)
            .with_query_threads(query_threads);
        let gateway = Arc::new(gateway);
        context.host.add_gateway(&gateway);
        Ok(Reader {
            gateway,
            engine,
            level,
        })
    }

    /// Answers a request of a client; `None` if the leaseholder must answer.
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
pub async fn open_reader(first: ClusterConfig, context: NodeContext) -> Reader {
    let mut has_told = false;
    loop {
        let (cluster, parts) = (first.clone(), context.clone());
        let opened = tokio::task::spawn_blocking(move || Reader::open(&cluster, &parts)).await;
        match opened {
            Ok(Ok(reader)) => {
                let message = "this node answers reads of items from standbys";
                context.log(LogLevel::Info, message);
                return reader;
            }
            Ok(Err(cause)) if !has_told => {
                let message = "no standby can be read now; trying again";
                context.log_with_cause(LogLevel::Info, message, &cause);
                has_told = true;
            }
            _ => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}
