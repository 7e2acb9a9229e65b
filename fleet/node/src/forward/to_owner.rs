//! The requests that the owner of a partition carries out, and their way from the leaseholder to
//! the owner.
//!
//! A request that reaches the leaseholder for a partition of another node is forwarded to that
//! node. If the node cannot be reached, or does not own the partition any more, the leaseholder
//! takes the partition back and carries the request out itself.

use crate::Grantor;
use crate::forward::{NodesClient, Sent, changes_nothing, lost_write, send_to_owner, while_owner};
use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response};
use http_body_util::Full;
use orrery_gateway::{
    Connection, FrameAnswer, FrameOutcome, FrameRequest, Gateway, NotOwned, RequestBody,
    Unanswered, error_response,
};
use orrery_model::sync::lock;
use orrery_model::world::World;
use orrery_model::{Error, Kind};
use percent_encoding::percent_decode_str;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// The longest wait of a request whose partition changes owners again and again.
const PATIENCE: Duration = Duration::from_secs(15);
/// The pause between two attempts at a partition that is being taken over.
const PAUSE: Duration = Duration::from_millis(5);

/// The attempts at a request of the direct mode whose partition the leaseholder takes back.
const FRAME_ATTEMPTS: usize = 3;

/// The way of requests from the leaseholder to owners.
pub(crate) struct OwnerForwarder {
    pub(crate) grantor: Arc<Grantor>,
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) client: NodesClient,
    pub(crate) world: Arc<dyn World>,
    pub(crate) recalls: Recalls,
}

/// The partitions that requests take back now; `None` for all. Each has a receiver that ends with
/// the recall, so that the requests for one partition wait for one recall.
#[derive(Clone, Default)]
pub(crate) struct Recalls(Arc<Mutex<HashMap<Option<u64>, watch::Receiver<()>>>>);

/// A recall that runs. Dropped at its end, also after a panic.
struct Running {
    recalls: Recalls,
    partition: Option<u64>,
    _end: watch::Sender<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        lock(&self.recalls.0).remove(&self.partition);
    }
}

impl Recalls {
    /// Makes the leaseholder the owner of a partition, or of all. Waits for the end, whatever it
    /// is.
    async fn run(&self, grantor: &Arc<Grantor>, partition: Option<u64>) {
        let mut end = {
            let mut recalls = lock(&self.0);
            match recalls.get(&partition) {
                Some(end) => end.clone(),
                None => {
                    let (_end, end) = watch::channel(());
                    recalls.insert(partition, end.clone());
                    let running = Running {
                        recalls: self.clone(),
                        partition,
                        _end,
                    };
                    let grantor = grantor.clone();
                    tokio::task::spawn_blocking(move || {
                        grantor.recall_for_request(partition);
                        drop(running);
                    });
                    end
                }
            }
        };
        // Nothing is sent: the end of the sender ends the wait.
        let _ = end.changed().await;
    }
}

impl OwnerForwarder {
    /// Returns true for a request that may be for the partition of another node, now or by the time
    /// at which the request is carried out.
    pub(crate) fn concerns(&self, request: &Request<RequestBody>) -> bool {
        self.grantor.may_give() && is_of_partition(request.method(), request.uri().path())
    }

    /// Answers such a request. `via` is the node to which the client has sent the request.
    ///
    /// # Errors
    /// As [`Gateway::handle`].
    pub(crate) async fn handle(
        &self,
        request: Request<RequestBody>,
        connection: &Connection,
        via: &str,
    ) -> Result<Response<Bytes>, Unanswered> {
        let deadline = Instant::now() + PATIENCE;
        let (head, body) = request.into_parts();
        // The gateway checks the head before it reads the body.
        let first = Request::from_parts(head.clone(), body);
        let mut response = self.gateway.handle(first, connection).await?;
        while let Some(NotOwned { partition, body }) =
            response.extensions().get::<NotOwned>().cloned()
        {
            if Instant::now() > deadline || self.gateway.has_ended_waits() {
                let message = match partition.is_some_and(|one| self.grantor.is_away(one)) {
                    true => {
                        "The database cluster with the data of this request cannot be used now, \
                         and the request had no effect. Retry later."
                    }
                    false => {
                        "The physical partition changes its owner. The request was not carried \
                         out. Retry later."
                    }
                };
                return Ok(self.refuse(Error::new(Kind::Unavailable, message), &head));
            }
            match self
                .at_owner(partition, &head, &body, (connection, via))
                .await
            {
                Sent::Answered(response) => return Ok(response),
                Sent::Lost if !changes_nothing(&head) => {
                    return Ok(self.refuse(lost_write(), &head));
                }
                Sent::Lost | Sent::Refused => {}
            }
            // The owner may not have heard of the partition yet.
            match partition.is_some_and(|one| self.grantor.is_just_given(one)) {
                true => sleep(PAUSE).await,
                false => self.take_back(partition).await,
            }
            let request = Request::from_parts(head.clone(), Full::new(body));
            response = self.gateway.handle(request, connection).await?;
        }
        Ok(response)
    }

    /// Answers a request of the direct mode. A client whose partition another node owns asks for
    /// the addresses again, and is sent to that node.
    ///
    /// # Errors
    /// As [`Gateway::handle_frame`].
    pub(crate) async fn handle_frame(
        &self,
        mut request: FrameRequest,
        body: Bytes,
        connection: &Connection,
    ) -> Result<FrameAnswer, Unanswered> {
        for _ in 0..FRAME_ATTEMPTS {
            let outcome = self
                .gateway
                .handle_frame(&mut request, body.clone(), connection)
                .await?;
            let partition = match outcome {
                FrameOutcome::Answered(answer) => return Ok(answer),
                FrameOutcome::NotOwned(partition) => partition,
            };
            let owner = partition.and_then(|one| self.grantor.live_owner(one));
            if owner.is_some() {
                break;
            }
            self.take_back(partition).await;
        }
        Ok(request.address_gone())
    }

    /// Sends a request to the owner of a partition, if another node owns it.
    async fn at_owner(
        &self,
        partition: Option<u64>,
        head: &Parts,
        body: &Bytes,
        (connection, via): (&Connection, &str),
    ) -> Sent {
        let Some(partition) = partition else {
            return Sent::Refused;
        };
        let Some(address) = self.grantor.live_owner(partition) else {
            return Sent::Refused;
        };
        let way = (self.grantor.key(), address.as_str());
        let origin = (connection.scheme, via);
        let sent = send_to_owner(&self.client, way, head, body.clone(), origin);
        let is_owner = || self.grantor.live_owner(partition).as_ref() == Some(&address);
        while_owner(sent, is_owner).await
    }

    /// Makes this node the owner of a partition, or of all.
    async fn take_back(&self, partition: Option<u64>) {
        self.recalls.run(&self.grantor, partition).await;
        let has_owner = |one| self.grantor.owner_address(one).is_some();
        if partition.is_none_or(has_owner) {
            // The next attempt may find another owner again.
            sleep(PAUSE).await;
        }
    }

    fn refuse(&self, error: Error, head: &Parts) -> Response<Bytes> {
        error_response(error, self.world.as_ref(), head.method == Method::HEAD)
    }
}

/// Returns true for a request that concerns items: the owner of a partition carries such requests
/// out. Everything else is for the leaseholder.
pub(crate) fn is_of_partition(method: &Method, path: &str) -> bool {
    let path = path.trim_matches('/');
    let words = path
        .split('/')
        .map(|word| percent_decode_str(word).decode_utf8_lossy());
    let words: Vec<Cow<'_, str>> = words.take(7).collect();
    let words: Vec<&str> = words.iter().map(Cow::as_ref).collect();
    match &words[..] {
        ["dbs", _, "colls", _, "docs", ..] => true,
        // The execution of a stored procedure, and a deletion by partition key.
        ["dbs", _, "colls", _, "sprocs", _, ..] => *method == Method::POST,
        ["dbs", _, "colls", _, "operations", name, ..] => *name == "partitionkeydelete",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_about_items_and_executions_are_of_a_partition() {
        for (method, path, expected) in [
            ("GET", "/dbs/d/colls/c/docs", true),
            ("POST", "/dbs/d/colls/c/docs/", true),
            ("GET", "/dbs/d/colls/c/docs/i", true),
            ("POST", "/dbs/d/colls/c/sprocs/s", true),
            ("POST", "/dbs/d/colls/c/operations/partitionkeydelete", true),
            (
                "POST",
                "/dbs/d/colls/c/operations/collectiontruncate",
                false,
            ),
            ("POST", "/dbs/d/colls/c/sprocs", false),
            ("GET", "/dbs/d/colls/c/sprocs/s", false),
            ("DELETE", "/dbs/d/colls/c/sprocs/s", false),
            ("GET", "/dbs/d/colls/c/pkranges", false),
            ("GET", "/dbs/d/colls/c", false),
            ("GET", "/dbs/d/colls/c/d%6Fcs", true),
            ("POST", "/dbs/d/colls/c/%75dfs", false),
            ("POST", "/dbs/d%2Fe/colls/c/docs", true),
            ("GET", "/%64bs/d/colls/c/docs/i", true),
            ("GET", "/dbs/d/users/docs", false),
            ("GET", "/", false),
        ] {
            let of = is_of_partition(&method.parse().expect("a method"), path);
            assert_eq!(of, expected, "{method} {path}");
        }
    }
}
