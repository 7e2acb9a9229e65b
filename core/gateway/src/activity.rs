//! The activity of one connection: its stage, the times at which it was last seen doing something,
//! and the moment at which a slow client has used up its patience.
//!
//! ```text
//! Opening    no request yet: the first byte, the TLS handshake, the first head
//! Head       an HTTP/1.1 client has sent a part of a head, and no request is in progress
//! Idle       between requests
//! Busy       a request is in progress, or its answer has not been taken completely
//! ```
//! A [`PacedStream`] notes what arrives and what cannot be sent; the server notes when requests
//! begin and when the bytes of answers are gone. [`Activity::next_check`] turns both into a
//! deadline. All values are atomics, so noting them costs a few nanoseconds.
//!
//! A connection of HTTP/2 may have many requests in progress, and answers that its client does not
//! read. Each takes memory from that for heads until the head of its answer is written.
//!
//! A request waits for its body from the first part that is not there until the last one has come
//! (`request_body.rs`). Each 8 KiB that arrive make up for a second of this wait.
//!
//! Left out: the time after which a wait for a body ends the request, which `body.rs` limits.

use crate::body;
use crate::held::BodyMemory;
use crate::spin::{Socket, Spin};
use bytes::Bytes;
use orrery_model::memory::Reservation;
use orrery_model::sync::lock;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The times that a connection is given.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For the first byte, the TLS handshake, and a head of which a part has arrived.
    pub head: Duration,
    /// For a connection between two requests.
    pub idle: Duration,
    /// For a client that takes nothing of an answer, or less than the bytes of a second at `rate`.
    pub stall: Duration,
    /// The same while memory is short.
    pub stall_when_short: Duration,
    /// The slowest rate, in bytes per second, at which answers may be taken.
    pub rate: u64,
    /// The same while memory is short.
    pub rate_when_short: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            head: Duration::from_secs(10),
            // SDKs keep idle connections for minutes.
            idle: Duration::from_secs(300),
            stall: Duration::from_secs(30),
            stall_when_short: Duration::from_secs(5),
            rate: 8 * 1024,
            rate_when_short: 64 * 1024,
        }
    }
}

/// The interval at which a connection with an answer in transit looks whether memory is short.
const LOOK: Duration = Duration::from_secs(1);

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// No request has been made.
    Opening,
    /// A part of a head has arrived.
    Head,
    /// Between requests.
    Idle,
    /// A request is in progress, or its answer has not been taken completely.
    Busy,
}

/// The reason why the server ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// No first byte, no TLS handshake, or half a head for too long.
    SlowHead,
    /// No request for too long.
    Idle,
    /// An answer that is not read, or read too slowly.
    SlowReader,
    /// A new connection needed the place of one that is idle or waits for its client.
    Displaced,
    /// The client's address had all its connections, each with a request in progress.
    AddressLimit,
    /// Bytes that are no frame, or a frame above the bounds, on a connection of the direct mode.
    BadFrame,
}

impl CloseReason {
    /// All reasons.
    pub const ALL: [CloseReason; 6] = [
        CloseReason::SlowHead,
        CloseReason::Idle,
        CloseReason::SlowReader,
        CloseReason::Displaced,
        CloseReason::AddressLimit,
        CloseReason::BadFrame,
    ];

    /// Returns the name of the reason in metrics and in the log.
    pub fn name(self) -> &'static str {
        match self {
            CloseReason::SlowHead => "slow_head",
            CloseReason::Idle => "idle",
            CloseReason::SlowReader => "slow_reader",
            CloseReason::Displaced => "displaced",
            CloseReason::AddressLimit => "address_limit",
            CloseReason::BadFrame => "bad_frame",
        }
    }
}

/// The result of a look at a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The next look is due at this time.
    At(Instant),
    /// The connection ends.
    Close(CloseReason),
}

/// The present work of one connection. Times are milliseconds since the connection was accepted,
/// plus one, so that 0 stands for none.
#[derive(Debug)]
pub(crate) struct Activity {
    accepted: Instant,
    is_http2: AtomicBool,
    has_made_request: AtomicBool,
    /// Requests in progress.
    requests: AtomicU32,
    /// Bodies of requests in progress that are awaited.
    bodies: AtomicU32,
    /// The time since which bodies are awaited, and the bytes of bodies that arrived since then.
    bodies_since: AtomicU64,
    bodies_bytes: AtomicU64,
    /// The time at which the last part of a body arrived.
    body_part_at: AtomicU64,
    /// Bodies of answers whose bytes the connection still holds.
    answers: AtomicU32,
    /// Bytes of these, and of those that left since the connection last held none.
    answer_bytes: AtomicU64,
    /// The time since which the connection holds answers.
    answers_since: AtomicU64,
    /// The time of the last end of a request.
    idle_since: AtomicU64,
    /// The time at which a part of a head arrived.
    head_since: AtomicU64,
    /// The time since which the client takes no bytes.
    stalled_since: AtomicU64,
    /// Bytes that were sent since the connection was accepted.
    sent: AtomicU64,
    /// The value of `sent` at the last progress, and the time of this progress.
    progress: AtomicU64,
    progress_since: AtomicU64,
    /// The memory of the requests of HTTP/2 in progress, and of answers whose head is not written;
    /// `None` until the first of them.
    requests_held: Mutex<Option<Reservation>>,
    /// True if the client does not read and there was no memory for another request.
    is_overloaded: AtomicBool,
}

/// The memory of a request of HTTP/2 or of the direct mode in progress, with its head and that of
/// its answer.
pub(crate) const REQUEST_BYTES: u64 = 8 * 1024;

/// The outcome of [`Activity::hold_request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeldRequest {
    /// There is memory for the request.
    Held,
    /// There is none: the request is refused.
    Refused,
    /// There is none, and the client does not read: the request gets no answer, and the connection
    /// ends.
    Overloaded,
}

impl Activity {
    /// Begins to watch a connection that was accepted at `now`.
    pub(crate) fn new(now: Instant) -> Arc<Self> {
        Arc::new(Activity {
            accepted: now,
            is_http2: AtomicBool::new(false),
            has_made_request: AtomicBool::new(false),
            requests: AtomicU32::new(0),
            bodies: AtomicU32::new(0),
            bodies_since: AtomicU64::new(0),
            bodies_bytes: AtomicU64::new(0),
            body_part_at: AtomicU64::new(0),
            answers: AtomicU32::new(0),
            answer_bytes: AtomicU64::new(0),
            answers_since: AtomicU64::new(0),
            idle_since: AtomicU64::new(1),
            head_since: AtomicU64::new(0),
            stalled_since: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            progress: AtomicU64::new(0),
            progress_since: AtomicU64::new(0),
            requests_held: Mutex::default(),
            is_overloaded: AtomicBool::new(false),
        })
    }

    fn stamp(&self, now: Instant) -> u64 {
        let since = now.saturating_duration_since(self.accepted);
        u64::try_from(since.as_millis()).map_or(u64::MAX, |ms| ms.saturating_add(1))
    }

    fn instant(&self, stamp: u64) -> Instant {
        self.accepted + Duration::from_millis(stamp.saturating_sub(1))
    }

    /// Notes that the connection has taken a step before its first request, such as the TLS
    /// handshake; the next step has its own time.
    pub(crate) fn step(&self, now: Instant) {
        self.head_since.store(self.stamp(now), Relaxed);
    }

    /// Notes that a request has begun; the request ends when the returned guard is dropped.
    pub(crate) fn begin_request(self: &Arc<Self>) -> RequestGuard {
        self.requests.fetch_add(1, Relaxed);
        self.has_made_request.store(true, Relaxed);
        self.head_since.store(0, Relaxed);
        RequestGuard(self.clone())
    }

    /// Notes that a request waits for its body from now on.
    pub(crate) fn begin_body(&self, now: Instant) {
        if self.bodies.fetch_add(1, Relaxed) == 0 {
            self.bodies_since.store(self.stamp(now), Relaxed);
            self.bodies_bytes.store(0, Relaxed);
            self.body_part_at.store(self.stamp(now), Relaxed);
        }
    }

    /// Notes that a part of a body has arrived.
    pub(crate) fn body_arrived(&self, bytes: usize, now: Instant) {
        self.bodies_bytes.fetch_add(bytes as u64, Relaxed);
        self.body_part_at.store(self.stamp(now), Relaxed);
    }

    /// Notes that a body is no longer awaited.
    pub(crate) fn end_body(&self) {
        self.bodies.fetch_sub(1, Relaxed);
    }

    /// Takes memory for a request of HTTP/2 that has begun. In HTTP/1.1 a connection has one
    /// request at a time, which takes none here.
    pub(crate) fn hold_request(&self, memory: &BodyMemory) -> HeldRequest {
        if !self.is_http2.load(Relaxed) {
            return HeldRequest::Held;
        }
        let mut held = lock(&self.requests_held);
        let held = held.get_or_insert_with(|| memory.heads_of_connection());
        if held.grow(REQUEST_BYTES) {
            return HeldRequest::Held;
        }
        if self.stalled_since.load(Relaxed) == 0 {
            return HeldRequest::Refused;
        }
        self.is_overloaded.store(true, Relaxed);
        HeldRequest::Overloaded
    }

    /// Notes that all heads of answers are written: only requests in progress hold memory.
    fn flushed(&self) {
        if !self.is_http2.load(Relaxed) {
            return;
        }
        let requests = u64::from(self.requests.load(Relaxed));
        if let Some(held) = &mut *lock(&self.requests_held) {
            held.shrink_to(requests * REQUEST_BYTES);
        }
    }

    /// Returns the bytes of an answer, so that the connection is busy until they are dropped.
    pub(crate) fn track_answer(self: &Arc<Self>, bytes: Bytes, now: Instant) -> Bytes {
        if bytes.is_empty() {
            return bytes;
        }
        let length = bytes.len() as u64;
        if self.answers.fetch_add(1, Relaxed) == 0 {
            self.answer_bytes.store(0, Relaxed);
            self.answers_since.store(self.stamp(now), Relaxed);
            self.note_progress(now);
        }
        self.answer_bytes.fetch_add(length, Relaxed);
        let activity = self.clone();
        Bytes::from_owner(AnswerInTransit { bytes, activity })
    }

    /// Notes that bytes have arrived.
    fn received(&self, bytes: &[u8], now: Instant) {
        if !self.has_made_request.load(Relaxed) && bytes.starts_with(b"PRI ") {
            self.is_http2.store(true, Relaxed);
        }
        // A client of HTTP/2 sends frames at any time; h2 limits the parts of a head itself.
        let is_head = self.requests.load(Relaxed) == 0 && !self.is_http2.load(Relaxed);
        if is_head && self.head_since.load(Relaxed) == 0 {
            self.head_since.store(self.stamp(now), Relaxed);
        }
    }

    /// Notes that the client has taken enough bytes to count as reading.
    fn note_progress(&self, now: Instant) {
        self.progress.store(self.sent.load(Relaxed), Relaxed);
        self.progress_since.store(self.stamp(now), Relaxed);
    }

    /// Notes that bytes were sent.
    fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
        if self.stalled_since.load(Relaxed) != 0 {
            self.stalled_since.store(0, Relaxed);
        }
    }

    /// Notes that the client takes no bytes at present.
    pub(crate) fn stalled(&self, now: Instant) {
        if self.stalled_since.load(Relaxed) == 0 {
            self.stalled_since.store(self.stamp(now), Relaxed);
        }
    }

    /// Returns the stage, and the time since which the connection is in it.
    pub(crate) fn stage(&self) -> (Stage, Instant) {
        let is_busy = self.requests.load(Relaxed) > 0
            || self.answers.load(Relaxed) > 0
            || self.stalled_since.load(Relaxed) != 0;
        if is_busy {
            return (Stage::Busy, self.accepted);
        }
        if !self.has_made_request.load(Relaxed) {
            return (Stage::Opening, self.accepted);
        }
        match self.head_since.load(Relaxed) {
            0 => (Stage::Idle, self.instant(self.idle_since.load(Relaxed))),
            since => (Stage::Head, self.instant(since)),
        }
    }

    /// Returns the time since which the client takes nothing of an answer, although there is
    /// something to take; `None` if the client takes its answers, or if there are none.
    pub(crate) fn untaken_since(&self) -> Option<Instant> {
        match self.stalled_since.load(Relaxed) {
            0 => {}
            since => return Some(self.instant(since)),
        }
        // In HTTP/2 the socket takes bytes while every stream stands still.
        let has_answers = self.answers.load(Relaxed) > 0 && self.only_awaits_bodies();
        let since = self.instant(self.progress_since.load(Relaxed));
        (has_answers && self.is_still()).then_some(since)
    }

    /// Returns true if no request in progress has its whole body.
    fn only_awaits_bodies(&self) -> bool {
        self.requests.load(Relaxed) == self.bodies.load(Relaxed)
    }

    /// Returns true if nothing was sent since the last progress.
    fn is_still(&self) -> bool {
        self.sent.load(Relaxed) == self.progress.load(Relaxed)
    }

    /// Returns the time since which the connection waits for bodies and does nothing else; `None`
    /// if it does something else. Bytes that arrive move this time towards the present, at most to
    /// the arrival of the last of them.
    pub(crate) fn body_awaited_since(&self) -> Option<Instant> {
        let awaits = self.bodies.load(Relaxed) > 0 && self.only_awaits_bodies();
        let sends = self.answers.load(Relaxed) > 0 && !self.is_still();
        if !awaits || sends {
            return None;
        }
        let earned_ms = self.bodies_bytes.load(Relaxed).saturating_mul(1000) / body::RATE;
        let since = self.bodies_since.load(Relaxed).saturating_add(earned_ms);
        Some(self.instant(since.min(self.body_part_at.load(Relaxed))))
    }

    /// Returns the time since which the connection waits for its client alone: for the reading of
    /// an answer, or for a body.
    pub(crate) fn waits_for_client_since(&self) -> Option<Instant> {
        self.untaken_since().or_else(|| self.body_awaited_since())
    }

    /// Returns the time of the next look, or the reason to close the connection now.
    pub(crate) fn next_check(&self, patience: &Patience, is_short: bool, now: Instant) -> Check {
        if self.is_overloaded.load(Relaxed) {
            return Check::Close(CloseReason::SlowReader);
        }
        let taken = self.sent.load(Relaxed) - self.progress.load(Relaxed);
        if taken >= patience.rate {
            self.note_progress(now);
        }
        let (deadline, reason) = match self.stage() {
            (Stage::Opening | Stage::Head, since) => {
                // A first head has its full time once its first byte has arrived.
                let head = self.head_since.load(Relaxed);
                let since = since.max(self.instant(head));
                (since + patience.head, CloseReason::SlowHead)
            }
            (Stage::Idle, since) => (since + patience.idle, CloseReason::Idle),
            (Stage::Busy, _) => match self.answer_deadline(patience, is_short) {
                Some(deadline) => (deadline, CloseReason::SlowReader),
                // The operation has its own limits of time.
                None => return Check::At(now + patience.idle),
            },
        };
        if now >= deadline {
            return Check::Close(reason);
        }
        // Memory may become short before the deadline.
        if reason == CloseReason::SlowReader {
            return Check::At(deadline.min(now + LOOK));
        }
        Check::At(deadline)
    }

    /// Returns the time at which the answers in transit are overdue; `None` if there are none.
    fn answer_deadline(&self, patience: &Patience, is_short: bool) -> Option<Instant> {
        let (stall, rate) = if is_short {
            (patience.stall_when_short, patience.rate_when_short)
        } else {
            (patience.stall, patience.rate)
        };
        let stalled = match self.stalled_since.load(Relaxed) {
            0 => None,
            since => Some(self.instant(since) + stall),
        };
        let all = (self.answers.load(Relaxed) > 0).then(|| {
            let bytes = self.answer_bytes.load(Relaxed);
            let time = Duration::from_millis(bytes.saturating_mul(1000) / rate.max(1));
            let of_all = self.instant(self.answers_since.load(Relaxed)) + stall + time;
            // In HTTP/2 the socket may take bytes while a stream stands still.
            of_all.min(self.instant(self.progress_since.load(Relaxed)) + stall)
        });
        match (stalled, all) {
            (Some(stalled), Some(all)) => Some(stalled.min(all)),
            (one, other) => one.or(other),
        }
    }
}

/// A request in progress; dropping the guard ends the request.
#[derive(Debug)]
pub(crate) struct RequestGuard(Arc<Activity>);

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let activity = &self.0;
        activity
            .idle_since
            .store(activity.stamp(Instant::now()), Relaxed);
        activity.requests.fetch_sub(1, Relaxed);
    }
}

/// The bytes of an answer that the connection still holds.
struct AnswerInTransit {
    bytes: Bytes,
    activity: Arc<Activity>,
}

impl AsRef<[u8]> for AnswerInTransit {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for AnswerInTransit {
    fn drop(&mut self) {
        let now = self.activity.stamp(Instant::now());
        self.activity.idle_since.store(now, Relaxed);
        self.activity.answers.fetch_sub(1, Relaxed);
    }
}

/// The most bytes of one read, and so of the buffer that a connection keeps for reading.
const READ_BYTES: usize = 16 * 1024 - 1;
/// The largest number of bytes of an HTTP/1.1 head that are in memory; more are a part of its body.
const HEAD_BYTES_MAX: u64 = 2 * crate::connection::HEAD_BYTES as u64;

/// A stream whose reads and writes are noted in an [`Activity`]. A large head of HTTP/1.1 is taken
/// from the memory for heads from its arrival until its answer begins; a connection that gets no
/// memory for its head ends. In HTTP/2 the gateway counts the head of each request.
pub(crate) struct PacedStream<S> {
    stream: S,
    activity: Arc<Activity>,
    memory: BodyMemory,
    /// Bytes that arrived while no request was in progress.
    head_bytes: u64,
    /// The memory of these bytes, if they are many.
    head: Option<Reservation>,
    /// The short waits between two requests.
    spin: Spin,
}

impl<S> PacedStream<S> {
    pub(crate) fn new(stream: S, activity: Arc<Activity>, memory: BodyMemory, spin: Spin) -> Self {
        PacedStream {
            stream,
            activity,
            memory,
            head_bytes: 0,
            head: None,
            spin,
        }
    }

    /// Counts bytes that have arrived as a part of a head, unless a request is in progress.
    fn count_head(&mut self, bytes: usize) -> io::Result<()> {
        if self.activity.requests.load(Relaxed) > 0 || self.activity.is_http2.load(Relaxed) {
            self.release_head();
            return Ok(());
        }
        self.head_bytes = (self.head_bytes + bytes as u64).min(HEAD_BYTES_MAX);
        let no_memory = || io::Error::other("no memory for a head");
        match &mut self.head {
            Some(head) => match head.grow_to(self.head_bytes) {
                true => Ok(()),
                false => Err(no_memory()),
            },
            None => {
                let head = self.memory.hold_head(self.head_bytes);
                self.head = head.map_err(|_| no_memory())?;
                Ok(())
            }
        }
    }

    fn release_head(&mut self) {
        self.head_bytes = 0;
        self.head = None;
    }

    /// Notes the outcome of a write.
    fn note_write(&self, outcome: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &outcome {
            Poll::Ready(written) => self.activity.sent(*written.as_ref().unwrap_or(&0)),
            Poll::Pending => self.activity.stalled(Instant::now()),
        }
        outcome
    }

    /// Notes the outcome of a flush or of the end of writing.
    fn note_flush(&self, outcome: Poll<io::Result<()>>) -> Poll<io::Result<()>> {
        match &outcome {
            Poll::Ready(_) => {
                self.activity.sent(0);
                self.activity.flushed();
            }
            Poll::Pending => self.activity.stalled(Instant::now()),
        }
        outcome
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let outcome = poll_read_some(Pin::new(&mut self.stream), context, buffer);
        let bytes = &buffer.filled()[before..];
        if !bytes.is_empty() {
            let now = Instant::now();
            self.activity.received(bytes, now);
            self.spin.note_input(now);
            self.count_head(bytes.len())?;
        }
        outcome
    }
}

/// Reads at most [`READ_BYTES`]. HTTP doubles its buffer whenever a read has filled it, so a read
/// that never fills a larger one keeps the buffer at this size.
fn poll_read_some<S: AsyncRead>(
    stream: Pin<&mut S>,
    context: &mut Context<'_>,
    buffer: &mut ReadBuf<'_>,
) -> Poll<io::Result<()>> {
    if buffer.remaining() <= READ_BYTES {
        return stream.poll_read(context, buffer);
    }
    let mut part = ReadBuf::new(buffer.initialize_unfilled_to(READ_BYTES));
    let outcome = stream.poll_read(context, &mut part);
    let bytes = part.filled().len();
    buffer.advance(bytes);
    outcome
}

impl<S: AsyncWrite + Socket + Unpin> AsyncWrite for PacedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        // The answer to a request begins, so its head is no longer needed.
        self.release_head();
        let outcome = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.note_write(outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(context);
        let outcome = self.note_flush(outcome);
        // Each answer ends with a flush, and its bytes are gone by then.
        if outcome.is_ready() && self.activity.stage().0 == Stage::Idle {
            let this = &mut *self;
            this.spin.wait(&this.stream);
        }
        outcome
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(context);
        self.note_flush(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.note_write(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns the reason for which a connection is closed `after` seconds.
    fn closed(
        activity: &Activity,
        opened: Instant,
        after: u64,
        is_short: bool,
    ) -> Option<CloseReason> {
        match activity.next_check(&Patience::default(), is_short, opened + seconds(after)) {
            Check::Close(reason) => Some(reason),
            Check::At(_) => None,
        }
    }

    #[test]
    fn a_connection_without_a_request_and_half_a_head_have_ten_seconds() {
        let opened = Instant::now();
        let activity = Activity::new(opened);
        assert_eq!(closed(&activity, opened, 9, false), None);
        assert_eq!(
            closed(&activity, opened, 10, false),
            Some(CloseReason::SlowHead)
        );
        activity.received(b"GET / HT", opened + seconds(4));
        activity.received(b"TP", opened + seconds(12));
        assert_eq!(closed(&activity, opened, 13, false), None);
        assert_eq!(
            closed(&activity, opened, 14, false),
            Some(CloseReason::SlowHead)
        );
    }

    #[test]
    fn an_idle_connection_lives_for_minutes_and_its_next_half_head_ten_seconds() {
        let opened = Instant::now();
        let activity = Activity::new(opened);
        drop(activity.begin_request());
        assert_eq!(activity.stage().0, Stage::Idle);
        assert_eq!(closed(&activity, opened, 299, false), None);
        assert_eq!(
            closed(&activity, opened, 301, false),
            Some(CloseReason::Idle)
        );
        activity.received(b"G", opened + seconds(100));
        assert_eq!(activity.stage().0, Stage::Head);
        assert_eq!(closed(&activity, opened, 109, false), None);
        assert_eq!(
            closed(&activity, opened, 110, false),
            Some(CloseReason::SlowHead)
        );
    }

    #[test]
    fn a_request_in_progress_has_no_limit_here() {
        let opened = Instant::now();
        let activity = Activity::new(opened);
        let request = activity.begin_request();
        activity.received(b"a part of the body", opened + seconds(1));
        assert_eq!(closed(&activity, opened, 10_000, false), None);
        drop(request);
        assert_eq!(activity.stage().0, Stage::Idle);
    }

    #[test]
    fn a_client_that_takes_nothing_is_cut_after_thirty_seconds_and_sooner_if_memory_is_short() {
        let opened = Instant::now();
        let activity = Activity::new(opened);
        let request = activity.begin_request();
        let page = activity.track_answer(Bytes::from(vec![0; 4 << 20]), opened);
        drop(request);
        activity.stalled(opened);
        assert_eq!(closed(&activity, opened, 4, true), None);
        assert_eq!(
            closed(&activity, opened, 5, true),
            Some(CloseReason::SlowReader)
        );
        assert_eq!(closed(&activity, opened, 29, false), None);
        assert_eq!(
            closed(&activity, opened, 30, false),
            Some(CloseReason::SlowReader)
        );
        // A client that takes the page slowly may take it at 8 KiB per second.
        for second in 0..540 {
            activity.sent(8 * 1024);
            assert_eq!(closed(&activity, opened, second, false), None, "{second} s");
        }
        let reason = Some(CloseReason::SlowReader);
        assert_eq!(closed(&activity, opened, 5 + 64, true), reason);
        assert_eq!(closed(&activity, opened, 30 + 512, false), reason);
        drop(page);
        assert_eq!(activity.stage().0, Stage::Idle);
        assert_eq!(closed(&activity, opened, 100, false), None);
    }

    #[test]
    fn an_answer_that_stands_still_is_cut_although_the_socket_takes_bytes() {
        let opened = Instant::now();
        let activity = Activity::new(opened);
        let _page = activity.track_answer(Bytes::from(vec![0; 4 << 20]), opened);
        for second in 0..30 {
            activity.sent(100);
            assert_eq!(closed(&activity, opened, second, false), None);
        }
        let reason = Some(CloseReason::SlowReader);
        assert_eq!(closed(&activity, opened, 30, false), reason);
    }

    #[test]
    fn a_connection_that_only_waits_for_bodies_says_since_when_and_bytes_make_up_for_time() {
        let opened = Instant::now();
        let awaited = |activity: &Activity| {
            let since = activity.body_awaited_since()?;
            Some(since.duration_since(opened).as_secs())
        };
        let activity = Activity::new(opened);
        let request = activity.begin_request();
        assert_eq!(awaited(&activity), None);
        activity.begin_body(opened + seconds(1));
        assert_eq!(awaited(&activity), Some(1));
        activity.body_arrived(3, opened + seconds(5));
        assert_eq!(awaited(&activity), Some(1));
        activity.body_arrived(2 * 8 * 1024, opened + seconds(6));
        assert_eq!(awaited(&activity), Some(3));
        // A large part makes up for no time after its arrival.
        activity.body_arrived(1 << 20, opened + seconds(7));
        assert_eq!(awaited(&activity), Some(7));
        let other = activity.begin_request();
        assert_eq!(awaited(&activity), None);
        activity.begin_body(opened + seconds(8));
        assert_eq!(awaited(&activity), Some(7));
        // A client that takes none of its answers does not keep the connection by a body.
        let answer = activity.track_answer(Bytes::from_static(b"x"), opened);
        assert!(activity.waits_for_client_since().is_some());
        activity.sent(1);
        assert_eq!(activity.waits_for_client_since(), None);
        drop(answer);
        activity.end_body();
        assert_eq!(awaited(&activity), None);
        drop(other);
        assert_eq!(awaited(&activity), Some(7));
        activity.end_body();
        drop(request);
        assert_eq!(activity.stage().0, Stage::Idle);
    }

    #[tokio::test]
    async fn a_large_head_takes_memory_until_its_request_begins_and_ends_without() {
        use orrery_model::memory::MemoryBudget;
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let memory = BodyMemory::new(MemoryBudget::new(crate::held::HEADS_PART * 30_000));
        let activity = Activity::new(Instant::now());
        let (mut client, stream) = tokio::io::duplex(64 * 1024);
        let spin = crate::spin::Spinners::new(Duration::ZERO).connection();
        let mut stream = PacedStream::new(stream, activity.clone(), memory.clone(), spin);
        let mut buffer = [0; 20_000];
        client.write_all(&[b'x'; 20_000]).await.expect("it fits");
        stream.read_exact(&mut buffer).await.expect("it fits");
        assert_eq!(memory.head_bytes(), 20_000);
        let request = activity.begin_request();
        client.write_all(b"a body").await.expect("it fits");
        stream.read_exact(&mut buffer[..6]).await.expect("a body");
        assert_eq!(memory.head_bytes(), 0);
        drop(request);
        client.write_all(&[b'x'; 40_000]).await.expect("it fits");
        stream.read_exact(&mut buffer).await.expect("it fits");
        let ended = stream.read_exact(&mut buffer).await;
        assert!(ended.is_err());
        drop(stream);
        assert_eq!(memory.head_bytes(), 0);
    }

    #[test]
    fn requests_of_http_2_hold_memory_until_the_heads_of_their_answers_are_written() {
        use orrery_model::memory::MemoryBudget;
        let budget = MemoryBudget::new(crate::held::HEADS_PART * 2 * REQUEST_BYTES);
        let memory = BodyMemory::new(budget);
        let opened = Instant::now();
        let activity = Activity::new(opened);
        // In HTTP/1.1 a connection has one request at a time.
        assert_eq!(activity.hold_request(&memory), HeldRequest::Held);
        assert_eq!(memory.head_bytes(), 0);
        activity.received(b"PRI * HTTP/2.0\r\n", opened);
        let (first, second) = (activity.begin_request(), activity.begin_request());
        assert_eq!(activity.hold_request(&memory), HeldRequest::Held);
        assert_eq!(activity.hold_request(&memory), HeldRequest::Held);
        drop(first);
        assert_eq!(activity.hold_request(&memory), HeldRequest::Refused);
        activity.flushed();
        assert_eq!(memory.head_bytes(), REQUEST_BYTES);
        assert_eq!(activity.hold_request(&memory), HeldRequest::Held);
        // A client that reads nothing loses its connection.
        activity.stalled(opened);
        assert_eq!(activity.hold_request(&memory), HeldRequest::Overloaded);
        let reason = Some(CloseReason::SlowReader);
        assert_eq!(closed(&activity, opened, 0, false), reason);
        drop((second, activity));
        assert_eq!(memory.head_bytes(), 0);
    }

    #[test]
    fn frames_of_http_2_are_no_head() {
        let opened = Instant::now();
        let activity = Activity::new(opened);
        activity.received(b"PRI * HTTP/2.0\r\n", opened);
        drop(activity.begin_request());
        activity.received(b"a ping", opened + seconds(60));
        assert_eq!(activity.stage().0, Stage::Idle);
    }
}
