//! Spans: what an exporter of traces gets of each sampled request.
//!
//! ```text
//! sampler    the decision whether a request is recorded
//! parent     the headers `traceparent` and `tracestate` of W3C Trace Context
//! span       the figures of one request
//! queue      bounded; a full queue drops the span and never makes a request wait
//! ```
//!
//! Promises: a gateway without an exporter pays one comparison for a request. A span has no
//! contents of items, no partition keys, no ids of items and no credentials; the text of a query is
//! for the exporter, which must remove its values.
//! Left out: the protocol of the export, and spans inside the engine.

use crate::direct::Transport;
use crate::metrics::{RequestKind, SpanCounters};
use crate::request_log::{Finished, container_names, partition_count, returned_rows};
use http::HeaderMap;
use orrery_engine::Engine;
use orrery_model::world::World;
use orrery_model::{Error, Kind};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::mpsc;

/// The bytes of a `tracestate` that are passed on, as the recommendation demands at least.
const TRACE_STATE_BYTES: usize = 512;
/// The bytes of the longest text of a query that is kept. A part of a longer one would be another
/// query.
const QUERY_BYTES: usize = 8 * 1024;
/// The bytes of a user agent that are kept.
const USER_AGENT_BYTES: usize = 256;

/// The decision whether a request is recorded, by the names of `OTEL_TRACES_SAMPLER`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanSampler {
    /// True if a request with a parent is recorded exactly if its parent is.
    pub follows_parent: bool,
    /// Share of the traces that are recorded, 0 to 1.
    pub ratio: f64,
}

impl SpanSampler {
    /// Returns true if a request is recorded. The decision depends on the trace alone, so that all
    /// services with this ratio record the same traces.
    fn records(self, trace_id: [u8; 16], parent: Option<&Parent>) -> bool {
        if self.follows_parent
            && let Some(parent) = parent
        {
            return parent.is_sampled;
        }
        if self.ratio >= 1.0 {
            return true;
        }
        let low = u64::from_be_bytes([
            trace_id[8],
            trace_id[9],
            trace_id[10],
            trace_id[11],
            trace_id[12],
            trace_id[13],
            trace_id[14],
            trace_id[15],
        ]);
        // 63 bits, as other implementations of the ratio compare.
        ((low >> 1) as f64) < self.ratio * (1_u64 << 63) as f64
    }
}

/// The caller's span, from the header `traceparent`.
#[derive(Debug, PartialEq, Eq)]
struct Parent {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    is_sampled: bool,
}

impl Parent {
    /// Returns the parent that the headers name; `None` for a header that is not valid, which the
    /// recommendation treats as a missing one.
    fn of(headers: &HeaderMap) -> Option<Self> {
        let text = headers.get("traceparent")?.to_str().ok()?;
        let mut parts = text.split('-');
        let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
        let flags = parts.next()?;
        let version: [u8; 1] = hexadecimal(version)?;
        // A later version may add parts, and this version has none.
        if version[0] == 0xFF || (version[0] == 0 && parts.next().is_some()) {
            return None;
        }
        let (trace_id, span_id) = (hexadecimal(trace)?, hexadecimal(span)?);
        let flags: [u8; 1] = hexadecimal(flags)?;
        if trace_id == [0; 16] || span_id == [0; 8] {
            return None;
        }
        Some(Parent {
            trace_id,
            span_id,
            is_sampled: flags[0] & 1 == 1,
        })
    }
}

/// Parses exactly `N` bytes in lower-case hexadecimal digits.
fn hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// A request as an exporter gets it.
#[derive(Clone, Debug)]
pub struct RequestSpan {
    /// Id of the trace: that of the caller, or a new one.
    pub trace_id: [u8; 16],
    /// Id of this span.
    pub span_id: [u8; 8],
    /// Id of the caller's span.
    pub parent_span_id: Option<[u8; 8]>,
    /// The caller's `tracestate`; empty without one.
    pub trace_state: String,
    /// Start and end in nanoseconds since 1970.
    pub start_ns: u64,
    /// The end, never before the start.
    pub end_ns: u64,
    /// Operation and resource type.
    pub kind: RequestKind,
    /// Id of the database; empty without one.
    pub database: String,
    /// Id of the container; empty without one.
    pub container: String,
    /// Id of the addressed stored procedure.
    pub stored_procedure: Option<String>,
    /// Status; 0 if a fault rule left the request without an answer.
    pub status: u16,
    /// Sub-status; 0 for none.
    pub sub_status: u32,
    /// Kind of the error of a failed request.
    pub error: Option<Kind>,
    /// Charge in request units, as the client got it.
    pub charge_ru: f64,
    /// Consistency level of the request.
    pub consistency: &'static str,
    /// Region that answered.
    pub region: Arc<str>,
    /// Bytes of the body; `None` if the body was not read.
    pub body_bytes: Option<usize>,
    /// Rows of a query or feed.
    pub returned_rows: Option<u64>,
    /// Physical partitions that were asked.
    pub partitions: u64,
    /// Text of a query as sent.
    pub query: Option<String>,
    /// The transport by which the request came.
    pub transport: Transport,
    /// Method of HTTP.
    pub method: String,
    /// Activity id.
    pub activity_id: String,
    /// User agent; empty without one.
    pub user_agent: String,
    /// Address of the client.
    pub client: SocketAddr,
    /// Address of the server.
    pub server: SocketAddr,
}

/// Makes spans of requests and puts them into a queue.
pub struct SpanRecorder {
    sampler: SpanSampler,
    queue: mpsc::Sender<RequestSpan>,
    /// Returns the nanoseconds since 1970.
    now_ns: fn() -> u64,
}

/// The end of the queue from which an exporter takes spans.
pub type SpanQueue = mpsc::Receiver<RequestSpan>;

impl SpanRecorder {
    /// Creates a recorder with a queue for `capacity` spans, and the other end of the queue.
    pub fn new(sampler: SpanSampler, capacity: usize, now_ns: fn() -> u64) -> (Self, SpanQueue) {
        let (queue, spans) = mpsc::channel(capacity.max(1));
        let recorder = SpanRecorder {
            sampler,
            queue,
            now_ns,
        };
        (recorder, spans)
    }

    /// Records a request, if it is sampled and the queue has room.
    pub(crate) fn record(
        &self,
        finished: &Finished<'_>,
        engine: &Engine,
        world: &dyn World,
        account: &SpanAccount,
        counters: &SpanCounters,
    ) {
        let parent = Parent::of(&finished.head.headers);
        let trace_id = match &parent {
            Some(parent) => parent.trace_id,
            None => new_trace_id(world),
        };
        if !self.sampler.records(trace_id, parent.as_ref()) {
            return;
        }
        // A place in the queue is taken first, so that a full queue costs no copies.
        match self.queue.try_reserve() {
            Ok(place) => {
                let mut span = self.span(finished, engine, world, account);
                span.trace_id = trace_id;
                if let Some(parent) = parent {
                    span.parent_span_id = Some(parent.span_id);
                    span.trace_state = trace_state(&finished.head.headers);
                }
                place.send(span);
            }
            Err(mpsc::error::TrySendError::Full(())) => counters.dropped.add(1),
            // The exporter has stopped.
            Err(mpsc::error::TrySendError::Closed(())) => {}
        }
    }

    /// Returns the span of a request without its place in a trace.
    fn span(
        &self,
        finished: &Finished<'_>,
        engine: &Engine,
        world: &dyn World,
        account: &SpanAccount,
    ) -> RequestSpan {
        let Finished {
            kind,
            head,
            call,
            reply,
            ..
        } = *finished;
        let end_ns = (self.now_ns)();
        let [database, container, id] = container_names(head, call, engine);
        let user_agent = head.headers.get(http::header::USER_AGENT);
        let user_agent = user_agent.and_then(|value| value.to_str().ok());
        let query = match kind {
            RequestKind::Operation(operation) if operation.is_query() => {
                call.and_then(|call| call.query_text().ok())
            }
            _ => None,
        };
        let is_procedure = match kind {
            RequestKind::Operation(operation) => operation.is_at_procedure(),
            RequestKind::Unknown => false,
        };
        let consistency = call.and_then(|call| call.headers.consistency);
        RequestSpan {
            trace_id: [0; 16],
            span_id: world.random().max(1).to_be_bytes(),
            parent_span_id: None,
            trace_state: String::new(),
            start_ns: end_ns.saturating_sub(finished.microseconds.saturating_mul(1000)),
            end_ns,
            kind,
            database,
            container,
            stored_procedure: is_procedure.then_some(id),
            status: reply.status,
            sub_status: reply.error.as_ref().map_or(0, Error::sub_status),
            error: reply.error.as_ref().map(Error::kind),
            charge_ru: reply.charge.as_ru(),
            consistency: consistency.unwrap_or(account.consistency).name(),
            region: account.region.clone(),
            body_bytes: call.map(|call| call.body.len()),
            returned_rows: returned_rows(reply),
            partitions: partition_count(reply),
            query: query
                .map(|query| query.text)
                .filter(|text| text.len() <= QUERY_BYTES),
            transport: Transport::of(head),
            method: head.method.as_str().to_owned(),
            activity_id: finished.activity_id.to_owned(),
            user_agent: shortened(user_agent.unwrap_or_default(), USER_AGENT_BYTES),
            client: finished.client,
            server: finished.server,
        }
    }
}

/// The parts of the account that spans name.
#[derive(Debug)]
pub(crate) struct SpanAccount {
    /// The consistency of requests that ask for none.
    pub(crate) consistency: crate::account::Consistency,
    /// The region that answers.
    pub(crate) region: Arc<str>,
}

/// Returns a random id of a trace, which is never zero.
fn new_trace_id(world: &dyn World) -> [u8; 16] {
    let number = u128::from(world.random()) << 64 | u128::from(world.random());
    number.max(1).to_be_bytes()
}

/// Returns the caller's `tracestate`; empty if there is none, or one that is too long.
fn trace_state(headers: &HeaderMap) -> String {
    let mut texts = Vec::new();
    for value in headers.get_all("tracestate") {
        match value.to_str() {
            Ok(text) => texts.push(text),
            Err(_) => return String::new(),
        }
    }
    let text = texts.join(",");
    match text.len() <= TRACE_STATE_BYTES {
        true => text,
        false => String::new(),
    }
}

/// Returns the beginning of a text, of at most so many bytes.
fn shortened(text: &str, bytes: usize) -> String {
    let mut end = bytes.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    const TRACE: [u8; 16] = [
        0x0a, 0xf7, 0x65, 0x19, 0x16, 0xcd, 0x43, 0xdd, 0x84, 0x48, 0xeb, 0x21, 0x1c, 0x80, 0x31,
        0x9c,
    ];

    fn parent(text: &str) -> Option<Parent> {
        let mut headers = HeaderMap::new();
        headers.insert("traceparent", HeaderValue::from_str(text).expect("a value"));
        Parent::of(&headers)
    }

    #[test]
    fn the_header_of_a_caller_is_read_as_the_recommendation_says() {
        let valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let span_id = [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31];
        let expected = |is_sampled| {
            Some(Parent {
                trace_id: TRACE,
                span_id,
                is_sampled,
            })
        };
        assert_eq!(parent(valid), expected(true));
        assert_eq!(parent(&valid.replace("-01", "-00")), expected(false));
        // A later version may say more than this one.
        assert_eq!(parent(&format!("cc{}-more", &valid[2..])), expected(true));
        for wrong in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
        ] {
            assert_eq!(parent(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_sampler_follows_the_parent_or_the_ratio_of_traces() {
        let sampler = |follows_parent, ratio| SpanSampler {
            follows_parent,
            ratio,
        };
        let of = |is_sampled| Parent {
            trace_id: TRACE,
            span_id: [1; 8],
            is_sampled,
        };
        assert!(sampler(true, 0.0).records(TRACE, Some(&of(true))));
        assert!(!sampler(true, 1.0).records(TRACE, Some(&of(false))));
        assert!(sampler(false, 1.0).records(TRACE, Some(&of(false))));
        assert!(!sampler(false, 0.0).records(TRACE, None));
        // 0x8448… >> 1 is a little more than half of 63 bits.
        assert!(!sampler(true, 0.5).records(TRACE, None));
        assert!(sampler(true, 0.52).records(TRACE, None));
    }
}
