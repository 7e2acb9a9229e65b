//! Request bodies: read whole, within bounds of size and time.
//!
//! A body that is too large is read on and thrown away for a while before it is refused, because a client that is
//! still writing would otherwise see a broken connection and not the answer.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::Body;
use orrery_model::{Error, Kind, Result, limits};
use std::time::Duration;

/// How long a client may take to send a body.
const READ_TIME: Duration = Duration::from_secs(60);
/// Bytes that are thrown away at most for the sake of a good answer.
const DISCARD_BYTES: usize = 8 * limits::REQUEST_BODY_BYTES;
/// How long that may take.
const DISCARD_TIME: Duration = Duration::from_secs(5);

/// Reads a body.
///
/// # Errors
/// 413 above [`limits::REQUEST_BODY_BYTES`], 408 if it takes too long, 400 if the connection breaks.
pub async fn read<B: Body<Data = Bytes> + Unpin>(mut body: B) -> Result<Bytes> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let whole = tokio::time::timeout(READ_TIME, read_bounded(&mut body)).await;
    let result = whole.unwrap_or_else(|_| {
        Err(Error::new(
            Kind::RequestTimeout,
            format!(
                "The request body did not arrive in {} s.",
                READ_TIME.as_secs()
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
    // Most bodies arrive in one piece, which then needs no copy.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Error::bad("The request body ended early."))?;
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

/// Reads a body and throws it away, within bounds.
pub async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let reading = async {
        let mut seen = 0;
        while let Some(Ok(frame)) = body.frame().await {
            seen += frame.data_ref().map_or(0, Bytes::len);
            if seen > DISCARD_BYTES {
                break;
            }
        }
    };
    // Whether it ended or not, the answer follows.
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
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

    /// A body that arrives in pieces and does not say how long it is.
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
    async fn pieces_are_put_together_in_order() {
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
