//! Request bodies: read completely, within limits of size and time.
//!
//! A body that is too large is read and discarded for a while before the request is refused. A
//! client that is still writing would otherwise see a broken connection instead of the reply.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use orrery_model::{Error, Kind, Result, limits};
use std::time::Duration;

/// The longest time for a client to send a body.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// The largest number of bytes that are read and discarded.
const DISCARD_BYTES: usize = 8 * limits::REQUEST_BODY_BYTES;
/// The longest time for discarding a body.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads a request body.
///
/// # Errors
/// 413 above [`limits::REQUEST_BODY_BYTES`], 408 after the time limit, 400 if the connection
/// breaks.
pub async fn read<B: Body<Data = Bytes> + Unpin>(mut body: B) -> Result<Bytes> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let whole = tokio::time::timeout(READ_TIMEOUT, read_bounded(&mut body)).await;
    let result = whole.unwrap_or_else(|_| {
        Err(Error::new(
            Kind::RequestTimeout,
            format!(
                "The request body did not arrive in {} s.",
                READ_TIMEOUT.as_secs()
            ),
        ))
    });
    if matches!(&result, Err(error) if error.kind() == Kind::RequestEntityTooLarge) {
        discard(body).await;
    }
    result
}

async fn read_bounded<B: Body<Data = Bytes> + Unpin>(body: &mut B) -> Result<Bytes> {
    let limit = limits::REQUEST_BODY_BYTES;
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    // Most bodies arrive in one piece, which is returned without a copy.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::bad("The request body ended early."))?;
        // Frames with trailers carry no data.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        if first.len() + rest.len() + data.len() > limit {
            return Err(too_large());
        }
        if first.is_empty() && rest.is_empty() {
            first = data;
        } else {
            rest.extend_from_slice(&std::mem::take(&mut first));
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() {
        first
    } else {
        rest.freeze()
    })
}

/// Reads a body and discards it, within limits of size and time.
pub async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let reading = async {
        let mut discarded = 0;
        while let Some(Ok(frame)) = body.frame().await {
            discarded += frame.data_ref().map_or(0, Bytes::len);
            if discarded > DISCARD_BYTES {
                break;
            }
        }
    };
    // The reply follows in either case, so a timeout is no error.
    let _ = tokio::time::timeout(DISCARD_TIMEOUT, reading).await;
}

fn too_large() -> Error {
    Error::new(
        Kind::RequestEntityTooLarge,
        format!(
            "Request size is too large: a request body may have {} bytes.",
            limits::REQUEST_BODY_BYTES
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// A body that arrives in pieces and does not state its length.
    struct Pieces(VecDeque<Bytes>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
            Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
        }
    }

    fn pieces(count: usize, bytes: usize) -> Pieces {
        Pieces((0..count).map(|_| Bytes::from(vec![b'x'; bytes])).collect())
    }

    #[tokio::test]
    async fn pieces_are_joined_in_order() {
        let body = Pieces(
            ["ab", "", "c", "def"]
                .into_iter()
                .map(Bytes::from)
                .collect(),
        );
        assert_eq!(read(body).await.expect("it fits"), "abcdef");
        assert_eq!(read(pieces(0, 0)).await.expect("it fits"), "");
    }

    #[tokio::test]
    async fn a_body_of_unknown_length_is_refused_as_soon_as_it_is_too_large() {
        let limit = limits::REQUEST_BODY_BYTES;
        assert_eq!(
            read(pieces(2, limit / 2)).await.expect("it fits").len(),
            limit / 2 * 2
        );
        assert_eq!(
            read(pieces(3, limit / 2))
                .await
                .expect_err("too large")
                .status(),
            413
        );
    }
}
