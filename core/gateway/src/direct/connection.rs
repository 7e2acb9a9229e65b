//! One connection of the direct mode: frames in, answers out, in any order.
//!
//! ```text
//! take_frames   bytes that have arrived -> requests, each with its payload
//! begin         a request -> its future, unless the server ends or has no memory for the request
//! poll_requests futures that are done -> answers
//! poll_send     answers -> bytes, each answer in writes of its own
//! ```
//!
//! Promises:
//! - A client that has not authenticated keeps nothing in memory but one head: its payloads are
//!   read and dropped, and it has one request at a time.
//! - A client has at most [`REQUESTS_MAX`] requests whose answers it has not taken; beyond that the
//!   connection reads nothing.
//! - Half a frame has a time, which its bytes prolong; a client that authenticated may be idle for
//!   ever, because a write that meets the end of its connection fails at the caller.
//! - At the end of the server each new request is told to ask for other addresses, and the
//!   connection closes when nothing was sent either way for a while.
//!
//! Left out: slow readers and the number of connections, which `activity.rs` and `connections.rs`
//! have.

use super::request::ClientContext;
use super::{FrameAnswer, FrameFuture, FrameRequest, FrameService};
use crate::activity::{Activity, CloseReason, REQUEST_BYTES, RequestGuard};
use crate::body;
use crate::connection::Connection;
use crate::faults::Unanswered;
use crate::held::{BodyMemory, Growing};
use crate::metrics::ConnectionCounters;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::stream::{FuturesUnordered, StreamExt};
use orrery_model::memory::Reservation;
use orrery_model::{Error, limits};
use orrery_rntbd::tokens::context_answer::{SERVER_AGENT, SERVER_VERSION};
use orrery_rntbd::{FrameWriter, RequestHead, head_length};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::Sleep;

/// The largest head, in bytes: several of its texts may have 64 KiB.
const HEAD_BYTES: usize = 256 * 1024;
/// The largest head of a client that has not authenticated, and the largest context.
const STRANGERS_HEAD_BYTES: usize = 64 * 1024;
const CONTEXT_BYTES: usize = 4 * 1024;
/// The bytes of a payload that are read and dropped at most.
const SKIPPED_BYTES: usize = 1 << 30;
/// The requests of a connection that may be unanswered at once. Clients send 30.
const REQUESTS_MAX: usize = 128;
/// The requests of a connection that take no memory from that for heads.
const REQUESTS_FREE: usize = 8;
/// The bytes of one read.
const READ_BYTES: usize = 8 * 1024;

/// The times of a connection of the direct mode.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For a frame of which a part has arrived; each 8 KiB add a second.
    pub(crate) frame: Duration,
    /// Until the first request with accepted credentials.
    pub(crate) authentication: Duration,
    /// Without a byte either way before a connection of an ending server closes.
    pub(crate) quiet: Duration,
    /// For all of that, if the client goes on sending.
    pub(crate) end: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame: Duration::from_secs(10),
            // Clients may open connections ahead of their first request.
            authentication: Duration::from_secs(60),
            quiet: Duration::from_secs(1),
            end: Duration::from_secs(5),
        }
    }
}

/// A connection of the direct mode on a stream.
pub(crate) struct FrameConnection<S> {
    stream: S,
    service: Arc<dyn FrameService>,
    connection: Connection,
    activity: Arc<Activity>,
    counters: Arc<ConnectionCounters>,
    memory: BodyMemory,
    limits: Limits,
    opened: Instant,
    /// The version and user agent of the client; `None` until its first frame.
    context: Option<ClientContext>,
    is_authenticated: bool,
    input: BytesMut,
    /// The request whose payload arrives.
    arriving: Option<Arriving>,
    /// The time since which a part of a frame waits for the rest, and the bytes since then.
    partial: Option<(Instant, u64)>,
    in_progress: FuturesUnordered<InProgress>,
    outgoing: VecDeque<Outgoing>,
    needs_flush: bool,
    /// The memory of requests whose answers are not sent.
    held: Option<Reservation>,
    /// Resolves when the server ends.
    stopping: Pin<Box<dyn Future<Output = ()> + Send>>,
    end: Option<Ending>,
    timer: Pin<Box<Sleep>>,
}

/// A request whose payload arrives.
struct Arriving {
    request: FrameRequest,
    guard: RequestGuard,
    /// The bytes that are still to come; `None` before the length has arrived.
    left: Option<usize>,
    payload: Vec<u8>,
    /// The memory of the payload; `None` if the payload is dropped.
    memory: Option<Growing>,
    /// True if the activity was told that the payload is awaited.
    is_awaited: bool,
}

/// A request that is carried out. It is in progress until its answer is in the list of answers.
struct InProgress {
    answer: FrameFuture,
    guard: Option<RequestGuard>,
}

impl Future for InProgress {
    type Output = (Result<FrameAnswer, Unanswered>, Option<RequestGuard>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = ready!(self.answer.as_mut().poll(context));
        Poll::Ready((answer, self.guard.take()))
    }
}

/// The bytes of an answer that are not sent.
struct Outgoing {
    head: Bytes,
    payload: Bytes,
}

/// The end of the server, as the connection knows it.
struct Ending {
    /// The time at which the connection was told.
    began: Instant,
    /// The time of the last frame either way.
    last_frame: Instant,
}

/// The parts of a connection besides its stream.
pub(crate) struct Parts {
    /// Answers the requests.
    pub(crate) service: Arc<dyn FrameService>,
    /// The facts of the connection.
    pub(crate) connection: Connection,
    /// The activity of the connection.
    pub(crate) activity: Arc<Activity>,
    /// Counts the connections that the server closes.
    pub(crate) counters: Arc<ConnectionCounters>,
    /// The memory for heads and payloads.
    pub(crate) memory: BodyMemory,
    /// The times.
    pub(crate) limits: Limits,
}

impl<S: AsyncRead + AsyncWrite + Unpin> FrameConnection<S> {
    /// Creates the connection on a stream whose first bytes are a frame. `stopping` resolves when
    /// the server ends.
    pub(crate) fn new(
        stream: S,
        parts: Parts,
        stopping: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let Parts {
            service,
            connection,
            activity,
            counters,
            memory,
            limits,
        } = parts;
        FrameConnection {
            stream,
            service,
            connection,
            activity,
            counters,
            memory,
            limits,
            opened: Instant::now(),
            context: None,
            is_authenticated: false,
            input: BytesMut::new(),
            arriving: None,
            partial: None,
            in_progress: FuturesUnordered::new(),
            outgoing: VecDeque::new(),
            needs_flush: false,
            held: None,
            stopping: Box::pin(stopping),
            end: None,
            timer: Box::pin(tokio::time::sleep(limits.authentication)),
        }
    }

    /// Serves the connection until the client closes it, or the server ends.
    ///
    /// # Errors
    /// The connection breaks, its client sends what is no frame, or is too slow.
    pub(crate) async fn run(mut self) -> io::Result<()> {
        std::future::poll_fn(|context| self.poll(context)).await?;
        // A client that does not take the end of the stream gets little time for it.
        let shutdown = tokio::io::AsyncWriteExt::shutdown(&mut self.stream);
        tokio::time::timeout(self.limits.quiet, shutdown)
            .await
            .unwrap_or(Ok(()))
    }

    /// Does all that can be done now. Returns when the connection ends.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.end.is_none() && self.stopping.as_mut().poll(context).is_ready() {
            let now = Instant::now();
            self.end = Some(Ending {
                began: now,
                last_frame: now,
            });
        }
        loop {
            self.poll_requests(context)?;
            // A client that does not read leaves answers here.
            if let Poll::Ready(sent) = self.poll_send(context) {
                sent?;
            }
            let has_begun = self.take_frames(context)?;
            let has_read = match self.poll_input(context)? {
                Poll::Ready(0) => return Poll::Ready(Ok(())),
                Poll::Ready(_) => true,
                Poll::Pending => false,
            };
            if !has_begun && !has_read {
                break;
            }
        }
        if self.input.is_empty() {
            // A connection that waits keeps no buffer.
            self.input = BytesMut::new();
        }
        self.poll_time(context)
    }

    /// Returns true if another request may begin.
    fn may_begin(&self) -> bool {
        let most = match self.is_authenticated {
            true => REQUESTS_MAX,
            false => 1,
        };
        self.open_requests() < most
    }

    /// Reads what has arrived, if it is wanted now. Returns 0 at the end of the stream.
    fn poll_input(&mut self, context: &mut Context<'_>) -> io::Result<Poll<usize>> {
        if !self.waits_for_rest() {
            return Ok(Poll::Pending);
        }
        self.input.reserve(READ_BYTES);
        let read = pin!(self.stream.read_buf(&mut self.input));
        let read = match read.poll(context) {
            Poll::Ready(read) => read?,
            Poll::Pending => return Ok(Poll::Pending),
        };
        if let Some((_, bytes)) = &mut self.partial {
            *bytes += read as u64;
        }
        Ok(Poll::Ready(read))
    }

    /// Begins all requests that have arrived completely. Returns true if there was one.
    fn take_frames(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let mut has_begun = false;
        loop {
            let is_complete = match self.arriving.take() {
                Some(arriving) => self.take_payload(arriving, context),
                None => self.take_head(context),
            }?;
            if !is_complete {
                break;
            }
            self.partial = None;
            has_begun = true;
        }
        let has_part = self.arriving.is_some() || !self.input.is_empty();
        if has_part && self.partial.is_none() && self.waits_for_rest() {
            self.partial = Some((Instant::now(), 0));
        }
        Ok(has_begun)
    }

    /// Returns true if the connection waits for the rest of a frame, and not for its own answers.
    fn waits_for_rest(&self) -> bool {
        self.arriving.is_some() || self.may_begin()
    }

    /// Takes a head from the input. Returns true if it was there.
    fn take_head(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        let Some(first) = self.input.first_chunk::<4>() else {
            return Ok(false);
        };
        if !self.may_begin() {
            return Ok(false);
        }
        let most = match (&self.context, self.is_authenticated) {
            (None, _) => CONTEXT_BYTES,
            (Some(_), false) => STRANGERS_HEAD_BYTES,
            (Some(_), true) => HEAD_BYTES,
        };
        let length = head_length(*first, most).map_err(|error| self.bad_frame(error))?;
        if self.input.len() < length {
            return Ok(false);
        }
        if let Some(end) = &mut self.end {
            end.last_frame = Instant::now();
        }
        let bytes = self.input.split_to(length);
        let head = RequestHead::parse(&bytes).map_err(|error| self.bad_frame(error))?;
        let Some(client) = &self.context else {
            self.begin_connection(&head)?;
            return Ok(true);
        };
        let request = FrameRequest::of(&head, client);
        let request = request.ok_or_else(|| self.bad_frame("a frame without a number"))?;
        let guard = self.activity.begin_request();
        if !head.has_payload() {
            self.begin(request, Bytes::new(), guard, context)?;
            return Ok(true);
        }
        let arriving = Arriving {
            request,
            guard,
            left: None,
            payload: Vec::new(),
            memory: None,
            is_awaited: false,
        };
        self.take_payload(arriving, context)
    }

    /// Counts a connection that ends because its client sent what is no frame. Returns the error.
    fn bad_frame(&self, why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
        self.counters.count(CloseReason::BadFrame);
        io::Error::other(why)
    }

    /// Answers the first frame of a client, which tells its version and user agent. A refusal here
    /// would reach no user, so the first request gets it.
    fn begin_connection(&mut self, head: &RequestHead<'_>) -> io::Result<()> {
        if !head.is_context() {
            return Err(self.bad_frame("a request before the context of the connection"));
        }
        self.context = Some(ClientContext::of(head));
        let mut frame = FrameWriter::answer(200, head.activity_id);
        frame.text(&SERVER_AGENT, "orrery");
        frame.text(&SERVER_VERSION, env!("CARGO_PKG_VERSION"));
        let answer = FrameAnswer {
            head: frame.finish(&[]).into(),
            payload: Bytes::new(),
            status: 200,
        };
        // The context is no request: a connection without one gives way to others first.
        self.send(answer, None);
        Ok(())
    }

    /// Takes what has arrived of a payload. Returns true if the payload is complete.
    fn take_payload(
        &mut self,
        mut arriving: Arriving,
        context: &mut Context<'_>,
    ) -> io::Result<bool> {
        let mut left = match arriving.left {
            Some(left) => left,
            None => {
                let Some(first) = self.input.first_chunk::<4>() else {
                    self.arriving = Some(arriving);
                    return Ok(false);
                };
                let length = u32::from_le_bytes(*first) as usize;
                self.input.advance(4);
                self.begin_payload(&mut arriving, length)?;
                length
            }
        };
        let part = self.input.split_to(left.min(self.input.len()));
        left -= part.len();
        arriving.left = Some(left);
        if let Some(memory) = &mut arriving.memory {
            let length = arriving.payload.len() + part.len();
            match memory.grow_to(length as u64) {
                Ok(()) => arriving.payload.extend_from_slice(&part),
                Err(refusal) => arriving.drop_payload(refusal),
            }
        }
        let now = Instant::now();
        if left > 0 {
            if !arriving.is_awaited {
                arriving.is_awaited = true;
                self.activity.begin_body(now);
            }
            self.activity.body_arrived(part.len(), now);
            self.arriving = Some(arriving);
            return Ok(false);
        }
        if arriving.is_awaited {
            self.activity.end_body();
        }
        let payload = Bytes::from(arriving.payload);
        let body = match arriving.memory {
            Some(memory) => memory.hold(payload),
            None => Bytes::new(),
        };
        self.begin(arriving.request, body, arriving.guard, context)?;
        Ok(true)
    }

    /// Takes the memory for a payload, and drops a payload that is too large, or that comes from a
    /// client that has not authenticated and does not do so now.
    fn begin_payload(&mut self, arriving: &mut Arriving, length: usize) -> io::Result<()> {
        if length > SKIPPED_BYTES {
            return Err(self.bad_frame("a payload of more than a gigabyte"));
        }
        if !self.authenticate(&arriving.request) {
            // Without its payload the request must not be carried out, whatever happens meanwhile.
            arriving.request.is_of_stranger = true;
            return Ok(());
        }
        if length > limits::REQUEST_BODY_BYTES {
            arriving.drop_payload(body::too_large(limits::REQUEST_BODY_BYTES));
            return Ok(());
        }
        match self.memory.begin(0) {
            Ok(memory) => arriving.memory = Some(memory),
            Err(refusal) => arriving.drop_payload(refusal),
        }
        Ok(())
    }

    /// Returns true if the client has sent accepted credentials, with this request or an earlier
    /// one. Each request is checked by itself when it is carried out; this decides what is kept.
    fn authenticate(&mut self, request: &FrameRequest) -> bool {
        self.is_authenticated = self.is_authenticated || self.service.knows_sender(request);
        self.is_authenticated
    }

    /// Begins a request that has arrived.
    fn begin(
        &mut self,
        mut request: FrameRequest,
        body: Bytes,
        guard: RequestGuard,
        context: &mut Context<'_>,
    ) -> io::Result<()> {
        if self.end.is_some() {
            self.send(request.address_gone(), Some(guard));
            return Ok(());
        }
        self.authenticate(&request);
        if !self.hold_requests() {
            request.refuse_with(self.memory.no_memory_for_head());
        }
        let service = self.service.clone();
        let mut answer = service.answer(request, body, self.connection);
        // Most reads are done at once, and need no place in the list.
        match answer.as_mut().poll(context) {
            Poll::Ready(answer) => self.end_request(answer, Some(guard)),
            Poll::Pending => {
                let guard = Some(guard);
                self.in_progress.push(InProgress { answer, guard });
                Ok(())
            }
        }
    }

    /// Takes the answers of requests that are done.
    fn poll_requests(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        while let Poll::Ready(Some((answer, guard))) = self.in_progress.poll_next_unpin(context) {
            self.end_request(answer, guard)?;
        }
        Ok(())
    }

    fn end_request(
        &mut self,
        answer: Result<FrameAnswer, Unanswered>,
        guard: Option<RequestGuard>,
    ) -> io::Result<()> {
        let answer = answer.map_err(io::Error::other)?;
        self.send(answer, guard);
        Ok(())
    }

    /// Adds an answer to those that are sent. The request ends when its answer is noted.
    fn send(&mut self, answer: FrameAnswer, guard: Option<RequestGuard>) {
        let now = Instant::now();
        if let Some(end) = &mut self.end {
            end.last_frame = now;
        }
        self.outgoing.push_back(Outgoing {
            head: self.activity.track_answer(answer.head, now),
            payload: self.activity.track_answer(answer.payload, now),
        });
        drop(guard);
    }

    /// Sends answers. Each write has bytes of one answer, so that no record of TLS has bytes of
    /// two: the Java SDK (4.81) damages an answer whose record ends with the beginning of another.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(answer) = self.outgoing.front_mut() {
            let part = match answer.head.is_empty() {
                true => &mut answer.payload,
                false => &mut answer.head,
            };
            if part.is_empty() {
                self.outgoing.pop_front();
                // A client that is a little slower than the server never takes all answers.
                self.release_requests();
                continue;
            }
            let sent = ready!(Pin::new(&mut self.stream).poll_write(context, part))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            part.advance(sent);
            self.needs_flush = true;
        }
        if self.needs_flush {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.needs_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the memory for the open requests and one more. The first few need none, so that a
    /// client that holds all the memory does not stop the others. Returns false if there is none.
    fn hold_requests(&mut self) -> bool {
        let counted = (self.open_requests() + 1).saturating_sub(REQUESTS_FREE) as u64;
        let memory = &self.memory;
        let held = self
            .held
            .get_or_insert_with(|| memory.heads_of_connection());
        held.grow_to(counted * REQUEST_BYTES)
    }

    /// Gives back the memory of the requests that are not open any more.
    fn release_requests(&mut self) {
        let counted = self.open_requests().saturating_sub(REQUESTS_FREE) as u64;
        if let Some(held) = &mut self.held {
            held.shrink_to(counted * REQUEST_BYTES);
        }
    }

    /// Returns the number of requests whose answers are not sent.
    fn open_requests(&self) -> usize {
        self.in_progress.len() + self.outgoing.len()
    }

    /// Looks whether a time of the connection is over.
    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let Some((deadline, outcome)) = self.next_deadline() else {
                return Poll::Pending;
            };
            if Instant::now() >= deadline {
                let Some(reason) = outcome else {
                    return Poll::Ready(Ok(()));
                };
                self.counters.count(reason);
                return Poll::Ready(Err(io::Error::other(reason.name())));
            }
            if self.timer.is_elapsed() || self.timer.deadline().into_std() != deadline {
                self.timer.as_mut().reset(deadline.into());
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Returns the next time at which the connection ends, and the reason if it is the client's.
    fn next_deadline(&self) -> Option<Deadline> {
        let mut next = None;
        if let Some((since, bytes)) = self.partial {
            let earned = Duration::from_millis(bytes.saturating_mul(1000) / body::RATE);
            next = Some((
                since + self.limits.frame + earned,
                Some(CloseReason::SlowHead),
            ));
        }
        if !self.is_authenticated {
            let at = self.opened + self.limits.authentication;
            next = earlier(next, (at, Some(CloseReason::SlowHead)));
        }
        if let Some(end) = &self.end
            && self.in_progress.is_empty()
            && self.outgoing.is_empty()
        {
            let quiet = end.last_frame + self.limits.quiet;
            let at = quiet.min(end.began + self.limits.end);
            next = earlier(next, (at, None));
        }
        next
    }
}

impl Arriving {
    /// Drops the payload: the request is answered with an error once the payload has passed.
    fn drop_payload(&mut self, refusal: Error) {
        self.payload = Vec::new();
        self.memory = None;
        self.request.refuse_with(refusal);
    }
}

/// A time at which the connection ends, and the reason if it is the client's.
type Deadline = (Instant, Option<CloseReason>);

/// Returns the earlier of two times.
fn earlier(one: Option<Deadline>, other: Deadline) -> Option<Deadline> {
    match one {
        Some(one) if one.0 <= other.0 => Some(one),
        _ => Some(other),
    }
}

#[cfg(test)]
mod tests;
