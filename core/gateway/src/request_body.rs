//! The body of a request as services read it.
//!
//! Promises: a body that does not come is noted in the activity of its connection from the first
//! wait until the body has arrived or is dropped, so every service that reads or discards a body
//! makes its connection one that may give way to another.
//!
//! Leaves out: limits of size and time, which `body.rs` has.

use crate::activity::Activity;
use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

/// The body of a request of a port.
#[derive(Debug)]
pub struct RequestBody {
    incoming: Incoming,
    connection: Arc<Activity>,
    /// True from the first wait for a part until the end of the body.
    is_awaited: bool,
}

impl RequestBody {
    /// Returns a body whose waits are noted in the activity of its connection.
    pub(crate) fn new(incoming: Incoming, connection: Arc<Activity>) -> Self {
        RequestBody {
            incoming,
            connection,
            is_awaited: false,
        }
    }

    /// Notes that the body has not arrived completely.
    fn begin_wait(&mut self) {
        if !self.is_awaited {
            self.is_awaited = true;
            self.connection.begin_body(Instant::now());
        }
    }

    /// Notes that nothing of the body is awaited any more.
    fn end_wait(&mut self) {
        if self.is_awaited {
            self.is_awaited = false;
            self.connection.end_body();
        }
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let outcome = Pin::new(&mut self.incoming).poll_frame(context);
        match &outcome {
            Poll::Pending => self.begin_wait(),
            Poll::Ready(Some(Ok(frame))) => {
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                self.connection.body_arrived(bytes, Instant::now());
            }
            Poll::Ready(_) => self.end_wait(),
        }
        outcome
    }

    fn is_end_stream(&self) -> bool {
        self.incoming.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.incoming.size_hint()
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.end_wait();
    }
}
