//! The direct connection mode: requests as frames over TCP (RNTBD) in place of HTTP.
//!
//! A frame is a request of HTTP in another envelope: it has the same signature, the same bodies and
//! the same values, with numbers in the place of methods and names of headers. Two tables translate
//! a frame into the head of a request, which passes through the same steps as one of HTTP; the
//! reply becomes a frame and no response.
//!
//! ```text
//! connection   the bytes of a connection: frames in any order, limits, the end of a server
//! request      the head of a frame -> the head of a request
//! answer       the reply of the gateway -> a frame
//! ```
//!
//! The differences from HTTP, by which the clients of this mode decide:
//!
//! - Every answer has an LSN, errors too, and every answer about a container has a session token.
//! - A container that was replaced under its name is 410/1000, by the resource id that the client
//!   sends along.
//! - A page ends after [`PAGE_TIME`], because clients wait five seconds for one answer. Any other
//!   request that takes longer is 408.
//! - Reads of databases, users and permissions ask for the strongest consistency at every account,
//!   and are not refused for it.
//! - The body of an error is the list of errors alone.
//!
//! Left out: the format of frames, which `orrery-rntbd` has; and the addresses that clients connect
//! to, which `operations/addresses.rs` answers.

mod answer;
mod connection;
mod request;

pub(crate) use connection::{FrameConnection, Limits, Parts};

use crate::call::Call;
use crate::connection::Connection;
use crate::faults::Unanswered;
use crate::gateway::{End, Gateway, Handled};
use crate::operations::Operation;
use crate::reply::Reply;
use bytes::Bytes;
use http_body_util::Full;
use orrery_engine::Engine;
use orrery_engine::request::Position;
use orrery_model::{Error, Kind, Result};
pub use request::FrameRequest;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

/// The time after which a page of a query ends with a continuation.
const PAGE_TIME: Duration = Duration::from_secs(4);
/// The further time that a request gets before it is answered with 408.
const REST_TIME: Duration = Duration::from_millis(500);

/// The addresses of the direct mode that an account answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DirectMode {
    /// None: clients are told to use the gateway mode.
    #[default]
    Off,
    /// The address that the client has used for its request, or that of the account's endpoint.
    On,
    /// The same host with a port of its own.
    Port(u16),
    /// This `host:port`.
    At(String),
}

/// The transport of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// HTTP.
    Http,
    /// Frames over TCP.
    Direct,
}

impl Transport {
    /// Returns the name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Http => "http",
            Transport::Direct => "tcp",
        }
    }

    /// Returns the transport of a request.
    pub(crate) fn of(head: &http::request::Parts) -> Transport {
        match head.extensions.get::<DirectRequest>() {
            Some(_) => Transport::Direct,
            None => Transport::Http,
        }
    }
}

/// Marks the head of a request that came as a frame: an extension, which no byte of HTTP becomes.
#[derive(Clone, Debug, Default)]
pub(crate) struct DirectRequest {
    /// The resource id that the client has read for the container of the request.
    pub(crate) cached_container: Option<String>,
}

/// The answer to a frame, when there is one.
pub type FrameFuture =
    Pin<Box<dyn Future<Output = std::result::Result<FrameAnswer, Unanswered>> + Send>>;

/// Answers the frames of a port.
pub trait FrameService: Send + Sync {
    /// Returns true if the credentials of a request are accepted.
    fn knows_sender(&self, request: &FrameRequest) -> bool;

    /// Answers one request. Every request gets an answer, errors included.
    ///
    /// # Errors
    /// The connection is closed without an answer on purpose.
    fn answer(
        self: Arc<Self>,
        request: FrameRequest,
        body: Bytes,
        connection: Connection,
    ) -> FrameFuture;
}

/// The answer to a frame.
#[derive(Debug)]
pub struct FrameAnswer {
    /// The head of the frame, and a small payload behind it.
    pub(crate) head: Bytes,
    /// The payload, if it is large.
    pub(crate) payload: Bytes,
    /// The status.
    pub status: u16,
}

/// The end of a request that came as a frame to a gateway.
#[derive(Debug)]
pub enum FrameOutcome {
    /// The answer goes to the client.
    Answered(FrameAnswer),
    /// Another process owns the partition that the request needs, whose number in the store this
    /// is; `None` for several partitions. Nothing was done.
    NotOwned(Option<u64>),
}

/// The places that clients of the direct mode connect to, on a fleet: an extension of a request for
/// addresses, which no byte from the network becomes.
#[derive(Clone)]
pub struct DirectPlaces {
    /// The URL of the node that serves what is above containers, and each partition that no other
    /// node owns.
    pub leaseholder: String,
    /// Returns the URL of another node that owns a partition, by the number of the partition in the
    /// store.
    pub owner: Arc<dyn Fn(u64) -> Option<String> + Send + Sync>,
}

impl std::fmt::Debug for DirectPlaces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectPlaces")
            .field("leaseholder", &self.leaseholder)
            .finish_non_exhaustive()
    }
}

impl FrameService for Gateway {
    fn knows_sender(&self, request: &FrameRequest) -> bool {
        self.knows_sender_of(request)
    }

    fn answer(
        self: Arc<Self>,
        mut request: FrameRequest,
        body: Bytes,
        connection: Connection,
    ) -> FrameFuture {
        Box::pin(async move {
            match self.handle_frame(&mut request, body, &connection).await? {
                FrameOutcome::Answered(answer) => Ok(answer),
                FrameOutcome::NotOwned(_) => Ok(request.address_gone()),
            }
        })
    }
}

impl Gateway {
    /// Returns true if the credentials of a request that came as a frame are accepted.
    pub fn knows_sender_of(&self, request: &FrameRequest) -> bool {
        !request.is_refused() && self.check_sender(&request.head).is_ok()
    }

    /// Returns the refusal of a request whose credentials were not accepted when it began to
    /// arrive. They may be accepted by now, but its payload was dropped.
    fn refusal_of_sender(&self, head: &http::request::Parts) -> Error {
        let refused = self.check_sender(head).err();
        refused.unwrap_or_else(|| {
            Error::new(
                Kind::Unauthorized,
                "The credentials were not accepted when the request began to arrive. Send the \
                 request again.",
            )
        })
    }

    /// Carries out a request that came as a frame, as [`Gateway::handle`] does with one of HTTP.
    ///
    /// # Errors
    /// A fault rule demands that the connection is closed without a reply.
    pub async fn handle_frame(
        &self,
        request: &mut FrameRequest,
        body: Bytes,
        connection: &Connection,
    ) -> std::result::Result<FrameOutcome, Unanswered> {
        request.set_content(&body);
        let body = match request.refusal.take() {
            _ if request.is_of_stranger => Err(self.refusal_of_sender(&request.head)),
            Some(refusal) => Err(refusal),
            None => Ok(Full::new(body)),
        };
        let activity = request.activity_header();
        let Handled { end, call } = self
            .handle_head(&request.head, body, connection, &activity)
            .await;
        // The node that owns the partition counts the request.
        if let End::NotOwned(not_owned, _) = end {
            return Ok(FrameOutcome::NotOwned(not_owned.partition));
        }
        self.metrics().direct_requests.add(1);
        let End::Answered(reply) = end else {
            return Err(Unanswered);
        };
        let position = match (reply.position, &call) {
            (Some(position), _) => Some(position),
            (None, Some(call)) => position_of(call, self.engine()),
            (None, None) => request.position_of_session(),
        };
        let answer = answer::write(&reply, position, request);
        Ok(FrameOutcome::Answered(answer))
    }
}

/// Returns the refusal of a request at an address that serves its partition no longer.
pub(crate) fn address_gone() -> Error {
    Error::new(
        Kind::AddressGone,
        "The server at this address does not serve the partition, or is about to end: ask for the \
         addresses again.",
    )
}

/// Returns the present position of the partition that a request is for, or of the first one in its
/// container; `None` for a request about no container.
///
/// Clients of the direct mode take their session from every answer about a container, errors and
/// metadata included, so an answer without a position of its own gets this one.
fn position_of(call: &Call, engine: &Engine) -> Option<Position> {
    if !call.path.is_in_container() {
        return None;
    }
    let container = call.path.container(engine).ok()?;
    let definition = container.partition_key();
    let key = call.headers.partition_key.as_ref();
    let range = call.headers.range.as_ref().and_then(|range| range.id);
    let of_range = range.and_then(|id| container.partition_by_id(id).ok());
    let partition = match (key, of_range) {
        (Some(key), _) if definition.check(key).is_ok() => {
            container.partition_of(&definition.epk(key))
        }
        (_, Some(partition)) => partition,
        (_, None) => container.partitions().first()?.clone(),
    };
    Some(partition.position_now())
}

/// Waits for a request that a client of the direct mode sent. The page of a query ends after
/// [`PAGE_TIME`] with what it has, before the client gives up.
///
/// # Errors
/// 408 if the request takes longer than that and [`REST_TIME`], 408/1900 if it may have written;
/// otherwise those of `work`.
pub(crate) async fn in_page_time(
    work: impl Future<Output = Result<Reply>>,
    call: &Call,
    operation: &Operation,
) -> Result<Reply> {
    let mut work = pin!(work);
    if let Ok(done) = timeout(PAGE_TIME, &mut work).await {
        return done;
    }
    call.cancel.end_page();
    match timeout(REST_TIME, work).await {
        Ok(done) => done,
        Err(_) => Err(too_late(operation)),
    }
}

/// Returns the error of a request that took too long.
fn too_late(operation: &Operation) -> Error {
    let seconds = (PAGE_TIME + REST_TIME).as_secs_f32();
    let waits = format!(
        "clients of the direct mode wait 5 seconds for an answer, and the request was not done \
         after {seconds}"
    );
    match operation.rights().includes_writes() {
        true => Error::new(
            Kind::UnknownOutcome,
            format!("It is not known whether the write takes place: {waits}."),
        ),
        false => Error::new(Kind::RequestTimeout, format!("The request ended: {waits}."))
            .with_help("Ask for smaller pages, or use the gateway mode, which waits longer."),
    }
}
