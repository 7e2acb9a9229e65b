//! Connections over streams in memory, with a service that answers as a test wants it.

use super::super::answer;
use super::*;
use crate::connection::Scheme;
use crate::reply::Reply;
use orrery_model::Kind;
use orrery_model::memory::MemoryBudget;
use orrery_model::sync::lock;
use orrery_rntbd::tokens::{answer as answer_tokens, context_answer, request as tokens};
use orrery_rntbd::{AnswerHead, Token};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A service that knows its clients or not, and answers some requests only when a test says so.
#[derive(Default)]
struct Fake {
    refuses_senders: AtomicBool,
    /// The times at which a sender was asked for.
    asked: AtomicUsize,
    begun: AtomicUsize,
    body_bytes: AtomicUsize,
    /// The requests for the database `held` that wait.
    waiting: Mutex<Vec<oneshot::Sender<()>>>,
}

impl Fake {
    fn release_last(&self) {
        let waiting = lock(&self.waiting).pop();
        waiting.expect("one waits").send(()).expect("it waits");
    }
}

impl FrameService for Fake {
    fn knows_sender(&self, _: &FrameRequest) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed);
        !self.refuses_senders.load(Ordering::Relaxed)
    }

    fn answer(
        self: Arc<Self>,
        mut request: FrameRequest,
        body: Bytes,
        _: Connection,
    ) -> FrameFuture {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.body_bytes.store(body.len(), Ordering::Relaxed);
        let held = match request.head.uri.path() {
            "/dbs/held" => {
                let (sender, receiver) = oneshot::channel();
                lock(&self.waiting).push(sender);
                Some(receiver)
            }
            _ => None,
        };
        Box::pin(async move {
            if let Some(held) = held {
                let _ = held.await;
            }
            if request.head.uri.path() == "/dbs/unanswered" {
                return Err(Unanswered);
            }
            if request.is_of_stranger {
                let refusal = Error::new(Kind::Unauthorized, "an unknown client");
                return Ok(request.refuse(refusal));
            }
            if let Some(refusal) = request.refusal.take() {
                return Ok(request.refuse(refusal));
            }
            Ok(answer::write(&Reply::empty(200), None, &request))
        })
    }
}

/// A connection and its client.
struct Pair {
    client: DuplexStream,
    service: Arc<Fake>,
    counters: Arc<ConnectionCounters>,
    memory: BodyMemory,
    stop: Option<oneshot::Sender<()>>,
    served: JoinHandle<io::Result<()>>,
}

fn patient() -> Limits {
    Limits {
        frame: Duration::from_secs(60),
        authentication: Duration::from_secs(60),
        quiet: Duration::from_millis(20),
        end: Duration::from_secs(60),
    }
}

fn open(limits: Limits) -> Pair {
    open_in(limits, MemoryBudget::new(64 << 20))
}

fn open_in(limits: Limits, budget: Arc<MemoryBudget>) -> Pair {
    let (client, server) = tokio::io::duplex(2 * 1024);
    let service = Arc::new(Fake::default());
    let memory = BodyMemory::new(budget);
    let counters = Arc::<ConnectionCounters>::default();
    let address = ([127, 0, 0, 1], 1).into();
    let parts = Parts {
        service: service.clone(),
        connection: Connection {
            scheme: Scheme::Https,
            peer: address,
            local: address,
        },
        activity: Activity::new(Instant::now()),
        counters: counters.clone(),
        memory: memory.clone(),
        limits,
    };
    let (stop, stopped) = oneshot::channel();
    let stopping = async {
        let _ = stopped.await;
    };
    let connection = FrameConnection::new(server, parts, stopping);
    Pair {
        client,
        service,
        counters,
        memory,
        stop: Some(stop),
        served: tokio::spawn(connection.run()),
    }
}

/// Opens a connection whose context is answered.
async fn open_with_context(limits: Limits) -> Pair {
    open_with(limits, MemoryBudget::new(64 << 20)).await
}

async fn open_with(limits: Limits, budget: Arc<MemoryBudget>) -> Pair {
    let mut pair = open_in(limits, budget);
    let context = FrameWriter::request(0, 0, [1; 16]).finish(&[]);
    pair.client.write_all(&context).await.expect("it is open");
    let (status, server) = pair
        .read(context_answer::TABLE, &context_answer::SERVER_AGENT)
        .await;
    assert_eq!((status, server.as_deref()), (200, Some("orrery")));
    pair
}

/// Returns the frame of a read of a database, with a payload if there is one.
fn frame(number: u64, database: &str, payload: &[u8]) -> Vec<u8> {
    let mut frame = FrameWriter::request(1, 3, [2; 16]);
    frame.number(&tokens::TRANSPORT_REQUEST_ID, number);
    frame.number(&tokens::PAYLOAD_PRESENT, u64::from(!payload.is_empty()));
    frame.text(&tokens::DATABASE_NAME, database);
    frame.finish(payload)
}

impl Pair {
    async fn send(&mut self, number: u64, database: &str) {
        let frame = frame(number, database, &[]);
        self.client.write_all(&frame).await.expect("it is open");
    }

    /// Reads an answer: its status, and the text of a token.
    async fn read(&mut self, table: &'static [Token], token: &Token) -> (u32, Option<String>) {
        let head = self.read_head().await.expect("an answer");
        let head = AnswerHead::parse(&head, table).expect("a head");
        (head.status, head.text(token).map(str::to_owned))
    }

    /// Reads an answer: its number and its status; `None` at the end of the connection.
    async fn answer(&mut self) -> Option<(u64, u32)> {
        let bytes = self.read_head().await?;
        let head = AnswerHead::parse(&bytes, answer_tokens::TABLE).expect("a head");
        if head.number(&answer_tokens::PAYLOAD_PRESENT) == Some(1) {
            let mut length = [0; 4];
            self.client.read_exact(&mut length).await.expect("a length");
            let mut payload = vec![0; u32::from_le_bytes(length) as usize];
            self.client.read_exact(&mut payload).await.expect("it");
        }
        let number = head.number(&answer_tokens::TRANSPORT_REQUEST_ID);
        Some((number.expect("a number"), head.status))
    }

    async fn read_head(&mut self) -> Option<Vec<u8>> {
        let mut first = [0; 4];
        self.client.read_exact(&mut first).await.ok()?;
        let mut head = first.to_vec();
        head.resize(u32::from_le_bytes(first) as usize, 0);
        self.client.read_exact(&mut head[4..]).await.ok()?;
        Some(head)
    }

    /// Returns the reason for which the server ended the connection.
    async fn end(mut self) -> Option<String> {
        assert_eq!(self.answer().await, None);
        let served = self.served.await.expect("no panic");
        served.err().map(|error| error.to_string())
    }
}

#[tokio::test]
async fn answers_come_in_any_order() {
    let mut pair = open_with_context(patient()).await;
    pair.send(1, "held").await;
    pair.send(2, "d").await;
    assert_eq!(pair.answer().await, Some((2, 200)));
    pair.service.release_last();
    assert_eq!(pair.answer().await, Some((1, 200)));
}

#[tokio::test]
async fn frames_may_arrive_a_byte_at_a_time_and_many_at_once() {
    let mut pair = open_with_context(patient()).await;
    for byte in frame(1, "d", b"{}") {
        pair.client.write_all(&[byte]).await.expect("it is open");
        tokio::task::yield_now().await;
    }
    assert_eq!(pair.answer().await, Some((1, 200)));
    let many: Vec<u8> = (2..50).flat_map(|n| frame(n, "d", b"{}")).collect();
    pair.client.write_all(&many).await.expect("it is open");
    for number in 2..50 {
        assert_eq!(pair.answer().await, Some((number, 200)));
    }
}

#[tokio::test]
async fn bytes_that_are_no_frame_end_the_connection() {
    let end = async |bytes: &[u8]| {
        let mut pair = open_with_context(patient()).await;
        pair.client.write_all(bytes).await.expect("it is open");
        let counters = pair.counters.clone();
        let reason = pair.end().await.expect("a reason");
        assert_eq!(counters.closed(CloseReason::BadFrame), 1, "{reason}");
        reason
    };
    assert!(end(&[23, 0, 0, 0]).await.contains("fewer than 24"));
    assert!(end(&[0xFF; 4]).await.contains("more than"));
    let mut many = FrameWriter::request(1, 3, [0; 16]);
    for _ in 0..=orrery_rntbd::TOKENS_MAX {
        many.number(&tokens::CONSISTENCY_LEVEL, 0);
    }
    assert!(end(&many.finish(&[])).await.contains("tokens"));
    let mut unknown_type = frame(1, "d", &[]);
    unknown_type[26] = 0x77;
    assert!(end(&unknown_type).await.contains("is no type"));
    let without_number = FrameWriter::request(1, 3, [0; 16]).finish(&[]);
    assert!(end(&without_number).await.contains("without a number"));
    let mut endless = frame(1, "d", b"{}");
    let at = endless.len() - 6;
    endless[at..at + 4].fill(0xFF);
    assert!(end(&endless).await.contains("gigabyte"));

    let mut pair = open(patient());
    pair.send(1, "d").await;
    assert!(pair.end().await.expect("a reason").contains("context"));
}

#[tokio::test]
async fn half_a_frame_has_a_time_and_so_has_a_client_without_credentials() {
    let soon = Duration::from_millis(10);
    let mut pair = open_with_context(Limits {
        frame: soon,
        ..patient()
    })
    .await;
    let frame = frame(1, "d", b"{}");
    let half = &frame[..frame.len() - 1];
    pair.client.write_all(half).await.expect("it is open");
    let counters = pair.counters.clone();
    assert_eq!(pair.end().await.as_deref(), Some("slow_head"));
    assert_eq!(counters.closed(CloseReason::SlowHead), 1);

    let limits = Limits {
        authentication: soon,
        ..patient()
    };
    let pair = open_with_context(limits).await;
    assert_eq!(pair.end().await.as_deref(), Some("slow_head"));
}

#[tokio::test]
async fn an_unknown_client_has_one_request_at_a_time_and_keeps_no_payload() {
    let pair = open_with_context(patient()).await;
    pair.service.refuses_senders.store(true, Ordering::Relaxed);
    let large = frame(1, "held", &vec![b'x'; 1 << 20]);
    let next = frame(2, "held", &[]);
    let (mut reader, mut writer) = tokio::io::split(pair.client);
    let sent = tokio::spawn(async move {
        writer.write_all(&large).await?;
        writer.write_all(&next).await?;
        Ok::<_, io::Error>(writer)
    });
    while pair.service.begun.load(Ordering::Relaxed) == 0 {
        assert_eq!(pair.memory.held_bytes(), 0);
        tokio::task::yield_now().await;
    }
    assert_eq!(pair.service.body_bytes.load(Ordering::Relaxed), 0);
    let writer = sent.await.expect("no panic").expect("it is open");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pair.service.begun.load(Ordering::Relaxed), 1);
    pair.service.release_last();
    let mut first = [0; 4];
    reader.read_exact(&mut first).await.expect("an answer");
    while pair.service.begun.load(Ordering::Relaxed) == 1 {
        tokio::task::yield_now().await;
    }
    drop((reader, writer));
    pair.served.abort();
}

#[tokio::test]
async fn a_request_whose_payload_was_dropped_is_refused_although_its_client_is_known_by_then() {
    let mut pair = open_with_context(patient()).await;
    pair.service.refuses_senders.store(true, Ordering::Relaxed);
    let frame = frame(1, "d", b"{}");
    let (half, rest) = frame.split_at(frame.len() - 1);
    pair.client.write_all(half).await.expect("it is open");
    while pair.service.asked.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    pair.service.refuses_senders.store(false, Ordering::Relaxed);
    pair.client.write_all(rest).await.expect("it is open");
    assert_eq!(pair.answer().await, Some((1, 401)));
}

#[tokio::test]
async fn a_client_that_is_slower_than_the_server_holds_the_memory_of_its_open_requests_only() {
    let mut pair = open_with(patient(), MemoryBudget::new(1 << 20)).await;
    let open = 30;
    for number in 0..open {
        pair.send(number, "d").await;
    }
    // The heads of a budget of 1 MiB have room for 32 requests.
    for number in open..20 * open {
        let (_, status) = pair.answer().await.expect("an answer");
        assert_eq!(status, 200);
        pair.send(number, "d").await;
    }
}

#[tokio::test]
async fn a_payload_that_is_too_large_is_413_and_the_connection_goes_on() {
    let mut pair = open_with_context(patient()).await;
    let large = frame(2, "d", &vec![b'x'; limits::REQUEST_BODY_BYTES + 1]);
    let (reader, mut writer) = tokio::io::split(pair.client);
    let writing = tokio::spawn(async move {
        writer.write_all(&large).await.expect("it is open");
        writer
    });
    let writer = writing.await.expect("no panic");
    pair.client = reader.unsplit(writer);
    assert_eq!(pair.answer().await, Some((2, 413)));
    pair.send(3, "d").await;
    assert_eq!(pair.answer().await, Some((3, 200)));
    assert_eq!(pair.memory.held_bytes(), 0);
}

#[tokio::test]
async fn a_connection_begins_a_bounded_number_of_requests() {
    let mut pair = open_with_context(patient()).await;
    for number in 1..=REQUESTS_MAX as u64 + 10 {
        pair.send(number, "held").await;
    }
    while pair.service.begun.load(Ordering::Relaxed) < REQUESTS_MAX {
        tokio::task::yield_now().await;
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pair.service.begun.load(Ordering::Relaxed), REQUESTS_MAX);
    pair.service.release_last();
    pair.answer().await.expect("an answer");
    while pair.service.begun.load(Ordering::Relaxed) < REQUESTS_MAX + 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_that_is_left_unanswered_ends_the_connection() {
    let mut pair = open_with_context(patient()).await;
    pair.send(1, "unanswered").await;
    assert!(pair.end().await.is_some());
}

#[tokio::test]
async fn at_the_end_of_the_server_requests_are_sent_away_and_open_ones_are_answered() {
    let mut pair = open_with_context(patient()).await;
    pair.send(1, "d").await;
    assert_eq!(pair.answer().await, Some((1, 200)));
    pair.send(2, "held").await;
    while lock(&pair.service.waiting).is_empty() {
        tokio::task::yield_now().await;
    }
    drop(pair.stop.take());
    pair.send(3, "d").await;
    assert_eq!(pair.answer().await, Some((3, 410)));
    pair.service.release_last();
    assert_eq!(pair.answer().await, Some((2, 200)));
    // A client that goes on sending is told so, until nothing is sent for a while.
    pair.send(4, "d").await;
    assert_eq!(pair.answer().await, Some((4, 410)));
    assert_eq!(pair.end().await, None);
}
