//! Requests of a part of this server, such as the console, which has identified its user.
//!
//! Such a request has no signature, and no way to another node: if another process owns a partition
//! that the request needs, this process takes the partition back.

use crate::connection::{Connection, TrustedAccess};
use crate::faults::Unanswered;
use crate::gateway::Gateway;
use crate::ownership::{NotOwned, TakeBack};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Body;

/// Attempts at a request of the console whose partition another process owns.
const TRUSTED_ATTEMPTS: usize = 3;

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
