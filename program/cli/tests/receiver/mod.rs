//! A collector for tests: answers HTTP, decodes what arrives, and lets a test wait for it.

use orrery_telemetry::wire::{Metric, MetricsRequest, Resource, Span, TracesRequest};
use prost::Message;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Time limit of a wait; a test fails rather than hangs.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The answer to each export.
#[derive(Clone, Copy)]
pub(crate) enum Reply {
    /// A status, with which only 200 takes the batch.
    Status(u16),
    /// None.
    Silence,
}

/// Everything that has arrived.
#[derive(Default)]
pub(crate) struct Received {
    /// Requests, taken or not.
    pub(crate) requests: usize,
    /// Spans of batches that were taken.
    pub(crate) spans: Vec<Span>,
    /// Metrics of each export that was taken.
    pub(crate) metrics: Vec<Vec<Metric>>,
    resource: Option<Resource>,
    head: Vec<String>,
    reply: Option<Reply>,
}

type Shared = Arc<(Mutex<Received>, Condvar)>;

/// A collector on a free port of the loopback.
pub(crate) struct Receiver {
    address: SocketAddr,
    shared: Shared,
}

impl Receiver {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Shared::default();
        let of_threads = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = of_threads.clone();
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Receiver { address, shared }
    }

    /// Returns the base address.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sets the answer to further exports.
    pub(crate) fn answer(&self, reply: Reply) {
        self.shared.0.lock().expect("no panic").reply = Some(reply);
    }

    /// Waits until what has arrived is as expected.
    pub(crate) fn wait(&self, is_enough: impl Fn(&Received) -> bool) {
        let (received, arrived) = &*self.shared;
        let guard = received.lock().expect("no panic");
        let waited = arrived.wait_timeout_while(guard, TIMEOUT, |received| !is_enough(received));
        let (received, end) = waited.expect("no panic");
        let names: Vec<&str> = received
            .spans
            .iter()
            .map(|span| span.name.as_str())
            .collect();
        assert!(
            !end.timed_out(),
            "{} requests, spans {names:?}",
            received.requests
        );
    }

    /// Waits for a span and returns it.
    pub(crate) fn span(&self, is_wanted: impl Fn(&Span) -> bool) -> Span {
        self.wait(|received| received.spans.iter().any(&is_wanted));
        let found = self.spans().into_iter().find(is_wanted);
        found.expect("it has arrived")
    }

    /// Returns all spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.shared.0.lock().expect("no panic").spans.clone()
    }

    /// Returns the metrics of the last export.
    pub(crate) fn metrics(&self) -> Vec<Metric> {
        let received = self.shared.0.lock().expect("no panic");
        received.metrics.last().expect("an export").clone()
    }

    /// Returns the resource of the last export.
    pub(crate) fn resource(&self) -> Resource {
        let received = self.shared.0.lock().expect("no panic");
        received.resource.clone().expect("an export")
    }

    /// Returns a header of the last export.
    pub(crate) fn header(&self, name: &str) -> Option<String> {
        let received = self.shared.0.lock().expect("no panic");
        received.head.iter().find_map(|line| {
            let (found, value) = line.split_once(": ")?;
            found
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }
}

/// Answers the requests of one connection.
fn serve(stream: TcpStream, shared: &Shared) {
    let mut stream = BufReader::new(stream);
    while let Some((head, body)) = read(&mut stream) {
        let (received, arrived) = &**shared;
        let reply = {
            let mut received = received.lock().expect("no panic");
            let reply = received.reply.unwrap_or(Reply::Status(200));
            received.requests += 1;
            if matches!(reply, Reply::Status(200)) {
                take(&mut received, &head[0], &body);
            }
            received.head = head;
            reply
        };
        arrived.notify_all();
        let answered = match reply {
            Reply::Status(status) => {
                write!(
                    stream.get_mut(),
                    "HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n"
                )
            }
            // The connection stays open until the client closes it.
            Reply::Silence => Ok(()),
        };
        if answered.is_err() {
            return;
        }
    }
}

fn take(received: &mut Received, line: &str, body: &[u8]) {
    if line.starts_with("POST /v1/traces ") {
        let request = TracesRequest::decode(body).expect("spans");
        for part in request.resource_spans {
            received.resource = part.resource;
            received
                .spans
                .extend(part.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    } else if line.starts_with("POST /v1/metrics ") {
        let request = MetricsRequest::decode(body).expect("metrics");
        for part in request.resource_metrics {
            received.resource = part.resource;
            let scopes = part.scope_metrics.into_iter();
            received
                .metrics
                .push(scopes.flat_map(|scope| scope.metrics).collect());
        }
    } else {
        panic!("{line}");
    }
}

/// Reads a request: the lines of its head, and its body. Returns `None` at the end.
fn read(stream: &mut impl BufRead) -> Option<(Vec<String>, Vec<u8>)> {
    let mut head = Vec::new();
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_owned();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.parse().expect("a length");
        }
        head.push(line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    Some((head, body))
}
