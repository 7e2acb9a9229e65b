//! Request bodies: read completely, within limits of size and time.
//!
//! A body that is too large is read and discarded before the request is refused, within bounds: a
//! client that sends its whole body before it reads, as most do, would otherwise see a broken
//! connection instead of the reply. A client that asks before it sends its body (`100 Continue`)
//! gets the refusal at once.

use crate::held::BodyMemory;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame};
use orrery_model::{Error, Kind, Result, limits};
use std::time::{Duration, Instant};

/// The times that a client gets to send a body.
struct Times {
    /// The longest pause between two parts of a body.
    pause: Duration,
    /// The longest time for a body without any bytes. Each byte that arrives adds to it.
    whole: Duration,
    /// The bytes that add a second.
    rate: u64,
}

/// The slowest rate, in bytes per second, at which bodies may arrive.
pub(crate) const RATE: u64 = 8 * 1024;

const TIMES: Times = Times {
    pause: Duration::from_secs(30),
    whole: Duration::from_secs(60),
    rate: RATE,
};
/// The largest number of bytes that are read and discarded. Discarded bytes take no memory, so the
/// bound is far above what a client sends by mistake.
const DISCARD_BYTES: u64 = 1 << 30;
/// The least room that a body gets in advance when it grows; a large one gets a quarter of its
/// bytes.
const ROOM_BYTES: usize = 16 * 1024;
/// The longest time for discarding a body, and the longest pause between two of its parts.
const DISCARD_TIME: Duration = Duration::from_secs(30);
const DISCARD_PAUSE: Duration = Duration::from_secs(5);

/// Reads a request body. The bytes of the body are taken from `memory` until they are dropped.
///
/// # Errors
/// As [`read_at_most`], 413 above [`limits::REQUEST_BODY_BYTES`].
pub async fn read<B: Body<Data = Bytes> + Unpin>(body: B, memory: &BodyMemory) -> Result<Bytes> {
    read_at_most(limits::REQUEST_BODY_BYTES, body, memory).await
}

/// Reads a request body of at most `limit` bytes. The bytes of the body are taken from `memory`
/// until they are dropped.
///
/// # Errors
/// 413 above the limit, 429 if there is no memory for the body, 408 for a body that pauses or
/// arrives too slowly, 400 if the connection breaks.
pub async fn read_at_most<B: Body<Data = Bytes> + Unpin>(
    limit: usize,
    mut body: B,
    memory: &BodyMemory,
) -> Result<Bytes> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let result = read_bounded(limit, &mut body, memory, &TIMES).await;
    // A client that is still sending reads the refusal only if its body is read.
    if matches!(&result, Err(error) if is_refusal(error)) {
        discard(body).await;
    }
    result
}

/// Checks the length that a client announces before it sends its body.
///
/// # Errors
/// 413 above the limit.
pub(crate) fn check_announced<B: Body>(limit: usize, body: &B) -> Result<()> {
    match body.size_hint().lower() > limit as u64 {
        true => Err(too_large(limit)),
        false => Ok(()),
    }
}

/// Returns true for the errors of a client that may still be sending at full speed.
fn is_refusal(error: &Error) -> bool {
    matches!(error.kind(), Kind::RequestEntityTooLarge | Kind::Throttled)
}

async fn read_bounded<B: Body<Data = Bytes> + Unpin>(
    limit: usize,
    body: &mut B,
    memory: &BodyMemory,
    times: &Times,
) -> Result<Bytes> {
    check_announced(limit, body)?;
    // Memory is taken for what has arrived and not for what is announced, so that clients that
    // announce much and send nothing take nothing from others.
    let mut growing = memory.begin(0)?;
    let started = Instant::now();
    // Most bodies arrive in one piece, which is returned without a copy.
    let mut first = Bytes::new();
    let mut rest = Vec::new();
    while let Some(frame) = next_frame(body, times, started, first.len() + rest.len()).await? {
        // Frames with trailers carry no data.
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let length = first.len() + rest.len() + data.len();
        if length > limit {
            return Err(too_large(limit));
        }
        if first.is_empty() && rest.is_empty() {
            growing.grow_to(length as u64)?;
            first = data;
            continue;
        }
        if length > rest.capacity() {
            let room = length + (length / 4).max(ROOM_BYTES);
            growing.grow_to(room as u64)?;
            rest.reserve_exact(room - rest.len());
        }
        rest.extend_from_slice(&std::mem::take(&mut first));
        rest.extend_from_slice(&data);
    }
    let whole = if rest.is_empty() {
        first
    } else {
        Bytes::from(rest)
    };
    Ok(growing.hold(whole))
}

/// Returns the next part of a body of which `arrived` bytes are here; `None` at its end.
async fn next_frame<B: Body<Data = Bytes> + Unpin>(
    body: &mut B,
    times: &Times,
    started: Instant,
    arrived: usize,
) -> Result<Option<Frame<Bytes>>> {
    let earned = Duration::from_millis(arrived as u64 * 1000 / times.rate);
    let left = (times.whole + earned).saturating_sub(started.elapsed());
    // A part that is already there would win against a timeout of zero, again and again.
    if left.is_zero() {
        return Err(too_slow(times, arrived));
    }
    let Ok(frame) = tokio::time::timeout(left.min(times.pause), body.frame()).await else {
        return Err(too_slow(times, arrived));
    };
    frame
        .transpose()
        .map_err(|_| Error::bad("The request body ended early."))
}

fn too_slow(times: &Times, arrived: usize) -> Error {
    let message = format!(
        "The request body did not arrive in time: after {arrived} bytes nothing came for {} s, or \
         the body came more slowly than {} bytes per second.",
        times.pause.as_secs(),
        times.rate
    );
    Error::new(Kind::RequestTimeout, message)
}

/// Reads a body and discards it, within limits of size and time.
pub async fn discard<B: Body<Data = Bytes> + Unpin>(mut body: B) {
    let reading = async {
        let mut discarded = 0;
        while let Ok(Some(Ok(frame))) = tokio::time::timeout(DISCARD_PAUSE, body.frame()).await {
            discarded += frame.data_ref().map_or(0, Bytes::len) as u64;
            if discarded > DISCARD_BYTES {
                break;
            }
        }
    };
    // The reply follows in either case, so a timeout is no error.
    let _ = tokio::time::timeout(DISCARD_TIME, reading).await;
}

/// Returns the refusal of a body of more than `limit` bytes.
pub(crate) fn too_large(limit: usize) -> Error {
    let message = format!("Request size is too large: a request body may have {limit} bytes.");
    Error::new(Kind::RequestEntityTooLarge, message).with_help("Split it into several requests.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_model::memory::MemoryBudget;
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

    async fn read(body: Pieces) -> Result<Bytes> {
        super::read(body, &BodyMemory::new(MemoryBudget::unlimited())).await
    }

    fn pieces(count: usize, bytes: usize) -> Pieces {
        let piece = Bytes::from(vec![b'x'; bytes]);
        Pieces(std::iter::repeat_n(piece, count).collect())
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

    #[tokio::test]
    async fn a_body_far_over_the_limit_is_read_to_its_end_and_an_endless_one_is_not() {
        let memory = BodyMemory::new(MemoryBudget::unlimited());
        for (megabytes, read) in [(200, 200), (2_000, 1_028)] {
            let mut body = pieces(megabytes, 1 << 20);
            let refused = super::read(&mut body, &memory).await;
            assert_eq!(refused.expect_err("too large").status(), 413);
            assert_eq!(megabytes - body.0.len(), read, "of {megabytes}");
        }
        assert_eq!(memory.held_bytes(), 0);
    }

    #[tokio::test]
    async fn a_body_without_memory_is_429_and_takes_none() {
        let memory = BodyMemory::new(MemoryBudget::new(130_000));
        let refused = super::read(pieces(2, 60_000), &memory).await;
        assert_eq!(refused.expect_err("too much").status(), 429);
        assert_eq!(memory.held_bytes(), 0);
        let body = super::read(pieces(2, 50_000), &memory).await;
        let body = body.expect("it fits");
        // The room that the buffer has beyond the body counts.
        assert_eq!((body.len(), memory.held_bytes()), (100_000, 125_000));
        drop(body);
        assert_eq!(memory.held_bytes(), 0);
    }

    /// A body of which a byte comes every millisecond.
    struct Trickle(tokio::time::Interval);

    impl Body for Trickle {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
            let byte = Bytes::from_static(b"x");
            self.0
                .poll_tick(context)
                .map(|_| Some(Ok(Frame::data(byte))))
        }
    }

    async fn slow(every: Duration, times: Times) -> Error {
        let memory = BodyMemory::new(MemoryBudget::unlimited());
        let mut body = Trickle(tokio::time::interval(every));
        let limit = limits::REQUEST_BODY_BYTES;
        let read = read_bounded(limit, &mut body, &memory, &times).await;
        read.expect_err("it never ends")
    }

    #[tokio::test]
    async fn a_body_that_pauses_and_a_body_that_trickles_are_408() {
        let pausing = Times {
            pause: Duration::from_millis(20),
            whole: Duration::from_secs(3600),
            rate: 1,
        };
        let error = slow(Duration::from_secs(3600), pausing).await;
        assert_eq!(error.status(), 408);
        assert!(error.message().contains("after 1 bytes"), "{error}");
        let trickling = Times {
            pause: Duration::from_secs(3600),
            whole: Duration::from_millis(50),
            rate: 1_000_000,
        };
        let error = slow(Duration::from_millis(1), trickling).await;
        assert_eq!(error.status(), 408);
    }
}
