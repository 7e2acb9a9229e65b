//! Requests of an operator that a node without the lease forwards to the leaseholder, which has the
//! data that the requests are about.
//!
//! The node has checked the key of its own management API. The message is `POST /_nodes/manage` at
//! the client port of the leaseholder: method, path with query, and body in JSON, signed with the
//! nodes' key, as is the answer. A message that a third party sends again is carried out again, so
//! the nodes' network must be their own, as for the requests of clients.
//!
//! Left out: the management API itself, which sets the function that carries a request out
//! ([`Manager::set`]).

use crate::NodesKey;
use crate::forward::{NodesClient, not_leaseholder};
use crate::role::Seat;
use crate::signed::{self, empty};
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use orrery_gateway::{RequestBody, body};
use orrery_model::json::parse;
use orrery_model::{Json, object};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::time::timeout;

/// The path of a message.
pub(crate) const MANAGE_PATH: &str = "/_nodes/manage";
/// The largest message, and the largest answer.
const MESSAGE_BYTES: usize = 1 << 20;
const ANSWER_BYTES: usize = 64 << 20;
/// The time for an answer: predictions and snapshots take long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request to the management API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManageRequest {
    /// The method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body; empty for none.
    pub body: String,
}

/// The answer to a [`ManageRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManageAnswer {
    /// The status.
    pub status: u16,
    /// The body, which is JSON or empty.
    pub body: String,
}

/// A future with the answer of the management API of this process.
pub type Managed = Pin<Box<dyn Future<Output = ManageAnswer> + Send>>;
/// Carries a request out whose sender is known.
pub type ManageHandler = Arc<dyn Fn(ManageRequest) -> Managed + Send + Sync>;

/// The way of management requests to the leaseholder, and out of the message there.
#[derive(Default)]
pub struct Manager(OnceLock<ManageHandler>);

impl Manager {
    /// Sets the function that carries requests of other nodes out. Only the first call has an
    /// effect.
    pub fn set(&self, handler: ManageHandler) {
        let _ = self.0.set(handler);
    }

    /// Answers a message of another node. `key` is there if this node is the leaseholder.
    pub(crate) async fn answer(
        &self,
        request: Request<RequestBody>,
        key: Option<&NodesKey>,
    ) -> Response<Bytes> {
        let (Some(key), Some(handler)) = (key, self.0.get()) else {
            body::discard(request.into_body()).await;
            return not_leaseholder();
        };
        let read = signed::read_message(request, (key, "manage"), MESSAGE_BYTES).await;
        let (body, signature) = match read {
            Ok(read) => read,
            Err(refusal) => return refusal,
        };
        let Some(asked) = ManageRequest::from_text(&body) else {
            return empty(StatusCode::BAD_REQUEST);
        };
        let done = handler(asked).await;
        let status = StatusCode::from_u16(done.status).unwrap_or(StatusCode::BAD_GATEWAY);
        signed::answer(key, &signature, status, done.body)
    }
}

impl Seat {
    /// Sends a request to the management API of the leaseholder. Returns `None` if there is none,
    /// or it does not answer: the request may have been carried out then.
    pub async fn manage(&self, request: ManageRequest) -> Option<ManageAnswer> {
        let leaseholder = self.leaseholder.borrow().clone()?;
        let key = leaseholder.key.filter(|_| leaseholder.node != self.node)?;
        let address = leaseholder.node.address;
        timeout(PATIENCE, send(&self.client, &key, &address, &request))
            .await
            .ok()?
    }
}

async fn send(
    client: &NodesClient,
    key: &NodesKey,
    address: &str,
    asked: &ManageRequest,
) -> Option<ManageAnswer> {
    let text = asked.text();
    let uri = format!("{address}{MANAGE_PATH}");
    let (request, signature) = signed::post(key, "manage", uri, &text);
    let request = request.body(Full::new(Bytes::from(text))).ok()?;
    let response = client.request(request).await.ok()?;
    let (status, body) = signed::read_answer(key, &signature, response, ANSWER_BYTES).await?;
    Some(ManageAnswer {
        status: status.as_u16(),
        body: String::from_utf8(body.into()).ok()?,
    })
}

impl ManageRequest {
    fn text(&self) -> String {
        let json = object! {
            "method" => self.method.as_str(),
            "path" => self.path.as_str(),
            "body" => self.body.as_str(),
        };
        Json::Object(json).to_text()
    }

    /// Reads the text of [`ManageRequest::text`]; `None` for a text of another form.
    fn from_text(text: &[u8]) -> Option<ManageRequest> {
        let json = parse(text).ok()?;
        let member = |name: &str| json.get(name)?.as_str().map(str::to_owned);
        Some(ManageRequest {
            method: member("method")?,
            path: member("path")?,
            body: member("body")?,
        })
    }
}
