//! Requests for partitions that another process owns.
//!
//! The engine refuses such a request before anything was written. The response has an extension
//! with the partition, so that the server sends the request to the owner; no client sees the
//! response.
//! Requests of the console have no way to another node: this process takes the partition back.

use crate::call::Call;
use crate::faults::Unanswered;
use crate::gateway::{Connection, Gateway, TrustedAccess};
use crate::reply::Reply;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Body;
use orrery_model::Kind;
use std::sync::Arc;

/// An extension of the response to a request that was not carried out, because another process owns
/// a partition that it needs. Such a request is in no metrics and no log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotOwned {
    /// The number in the store of the partition, if there is only one.
    pub partition: Option<u64>,
    /// The body of the request, which has been read. A body in the binary encoding is text here.
    pub body: Bytes,
}

/// A function that makes this process the owner of a partition, or of all. It may wait.
pub type TakeBack = Arc<dyn Fn(Option<u64>) + Send + Sync>;

/// Attempts at a request of the console whose partition another process owns.
const TRUSTED_ATTEMPTS: usize = 3;

impl NotOwned {
    /// Returns the extension for a reply, if another process owns a partition that the request
    /// needs.
    pub(crate) fn of(reply: &Reply, call: Option<&Call>) -> Option<NotOwned> {
        let error = reply.error.as_ref()?;
        (error.kind() == Kind::NotOwned).then(|| NotOwned {
            partition: error.partition(),
            body: call.map(|call| call.body.clone()).unwrap_or_default(),
        })
    }

    /// Adds the extension to a response.
    pub(crate) fn mark(self, mut response: Response<Bytes>) -> Response<Bytes> {
        response.extensions_mut().insert(self);
        response
    }
}

impl Gateway {
    /// Sets the function that makes this process the owner of partitions which requests of the
    /// console need. Only the first call has an effect.
    pub fn set_take_back(&self, take_back: TakeBack) {
        let _ = self.take_back.set(take_back);
    }

    /// Answers one request of this server's own console as [`Gateway::handle`] does, with the
    /// rights `access` and without a signature.
    ///
    /// # Errors
    /// As [`Gateway::handle`].
    pub async fn handle_trusted<B>(
        &self,
        mut request: Request<B>,
        connection: &Connection,
        access: TrustedAccess,
    ) -> std::result::Result<Response<Bytes>, Unanswered>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        // No byte from the network becomes an extension, so clients cannot claim this access.
        request.extensions_mut().insert(access);
        let (head, body) = request.into_parts();
        let first = Request::from_parts(head.clone(), body);
        let mut response = self.handle(first, connection).await?;
        for _ in 1..TRUSTED_ATTEMPTS {
            let not_owned = response.extensions().get::<NotOwned>().cloned();
            let (Some(NotOwned { partition, body }), Some(take_back)) =
                (not_owned, self.take_back.get().cloned())
            else {
                break;
            };
            // A panic has been reported, and the next attempt finds the same owner.
            let _ = tokio::task::spawn_blocking(move || take_back(partition)).await;
            let request = Request::from_parts(head.clone(), Full::new(body));
            response = self.handle(request, connection).await?;
        }
        Ok(response)
    }
}
