//! Requests for partitions that another process owns.
//!
//! The engine refuses such a request before anything was written. The response has an extension
//! with the partition, so that the server sends the request to the owner; no client sees the
//! response.
//! Requests of the console have no way to another node (`trusted`).

use crate::call::Call;
use crate::reply::Reply;
use bytes::Bytes;
use http::Response;
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
