//! Benchmark of the direct mode: the same point reads and creates as frames and as requests of
//! HTTP, both over TLS, on the same server in the same round.
//!
//! Each connection waits for an answer before it sends the next request, in both forms. The client
//! parses of an answer the status and the length alone, so that it costs little beside the server.
//! Left out: several requests at once on one connection, which frames can have, and the SDKs, whose
//! own work is larger than the difference (`cargo xtask conformance direct speed`).

use crate::child::{ServerProcess, memory_server};
use crate::items::{self, CREATE_BYTES, LINK, READ_ITEMS, id, item, key};
use crate::load::{self, join_all};
use crate::record::figure;
use crate::report::median;
use crate::{CONCURRENCY, Result, WARM_UP};
use orrery_rntbd::tokens::request as tokens;
use orrery_rntbd::{FrameWriter, Token, head_length};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

/// The path at which the server gives its certificate away.
const CERTIFICATE: &[u8] = b"GET /_explorer/emulator.pem HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// The largest head of an answer.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The form of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Https,
    Frames,
}

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Read,
    Create,
}

impl Operation {
    const ALL: [Operation; 2] = [Operation::Read, Operation::Create];

    fn name(self) -> &'static str {
        match self {
            Operation::Read => "point read",
            Operation::Create => "create",
        }
    }
}

/// The server and the requests for it.
struct Subject {
    server: ServerProcess,
    tls: TlsConnector,
    https_reads: Vec<Vec<u8>>,
    frame_reads: Vec<Vec<u8>>,
    https_creates: items::Creates,
    /// The date and the signature of creates, which cover the container alone.
    create_signature: (String, String),
    /// The number of the next item to create.
    created: AtomicU64,
}

/// Runs the benchmark and prints the rates of both forms with their ratio.
pub(crate) fn run(rounds: usize, time: Duration) -> Result<()> {
    let subject = Subject::build()?;
    println!(
        "{:<12} {:>5} {:>12} {:>12} {:>20}",
        "operation", "conn.", "https/s", "frames/s", "frames of https"
    );
    for connections in CONCURRENCY {
        for operation in Operation::ALL {
            let (mut https, mut frames, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..rounds {
                // Both forms in each round, so that the ratio compares measurements of one time.
                let one = subject.rate(Form::Https, operation, connections, time)?;
                let other = subject.rate(Form::Frames, operation, connections, time)?;
                https.push(one);
                frames.push(other);
                ratios.push(other / one);
            }
            let lowest = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let highest = ratios.iter().copied().fold(0.0, f64::max);
            let ratio = median(ratios);
            let name = operation.name();
            figure(
                format!("{name}, {connections} conn., frames of https"),
                ratio,
            );
            println!(
                "{name:<12} {connections:>5} {:>12.0} {:>12.0} {:>20}",
                median(https),
                median(frames),
                format!("{ratio:.2} ({lowest:.2}–{highest:.2})")
            );
        }
    }
    Ok(())
}

impl Subject {
    fn build() -> Result<Subject> {
        let server = memory_server()?;
        let https_reads = items::prepare(&server)?;
        let mut frame_reads = Vec::new();
        for n in 0..READ_ITEMS {
            frame_reads.push(frame_read(&server, n)?);
        }
        Ok(Subject {
            tls: connector(&server)?,
            https_creates: items::Creates::new(&server)?,
            create_signature: items::signature(&server.key, "POST", ("docs", LINK))?,
            created: AtomicU64::new(0),
            https_reads,
            frame_reads,
            server,
        })
    }

    /// Appends the request with number `n`.
    fn write(&self, form: Form, operation: Operation, n: u64, out: &mut Vec<u8>) {
        let at = n as usize % self.https_reads.len();
        match (form, operation) {
            (Form::Https, Operation::Read) => out.extend_from_slice(&self.https_reads[at]),
            (Form::Frames, Operation::Read) => out.extend_from_slice(&self.frame_reads[at]),
            (Form::Https, Operation::Create) => self.https_creates.write(n, out),
            (Form::Frames, Operation::Create) => {
                let mut frame = signed_frame(0x01, &self.create_signature);
                frame.number(&tokens::PAYLOAD_PRESENT, 1);
                frame.text(&tokens::PARTITION_KEY, &format!("[\"{}\"]", key(n)));
                out.extend(frame.finish(&item('c', n, CREATE_BYTES)));
            }
        }
    }

    /// Returns the requests a second of some connections.
    fn rate(
        &self,
        form: Form,
        operation: Operation,
        connections: usize,
        time: Duration,
    ) -> Result<f64> {
        let reads = AtomicU64::new(0);
        let counter = match operation {
            Operation::Read => &reads,
            Operation::Create => &self.created,
        };
        let next = |out: &mut Vec<u8>| {
            let n = counter.fetch_add(1, Ordering::Relaxed);
            self.write(form, operation, n, out);
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()?;
        runtime.block_on(async {
            let mut clients = Vec::new();
            for _ in 0..connections {
                let mut client = Client::open(self, form).await?;
                for _ in 0..WARM_UP {
                    client.exchange(&next).await?;
                }
                clients.push(client);
            }
            let started = Instant::now();
            let deadline = started + time;
            let mut running: Vec<_> = clients
                .into_iter()
                .map(|client| Box::pin(client.run(&next, deadline)))
                .collect();
            let mut done = 0;
            for count in join_all(&mut running).await {
                done += count?;
            }
            Ok(done as f64 / started.elapsed().as_secs_f64())
        })
    }
}

/// A connection with reused buffers.
struct Client {
    stream: TlsStream<TcpStream>,
    form: Form,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Client {
    async fn open(subject: &Subject, form: Form) -> Result<Client> {
        let stream = TcpStream::connect(&subject.server.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let mut client = Client {
            stream: subject.tls.connect(name, stream).await?,
            form,
            request: Vec::with_capacity(4 << 10),
            answer: Vec::with_capacity(16 << 10),
        };
        if form == Form::Frames {
            let context = FrameWriter::request(0, 0, [0; 16]).finish(&[]);
            client
                .exchange(&|out| out.extend_from_slice(&context))
                .await?;
        }
        Ok(client)
    }

    /// Sends requests until `deadline`; returns their number.
    async fn run(mut self, next: &dyn Fn(&mut Vec<u8>), deadline: Instant) -> Result<u64> {
        let mut done = 0;
        while Instant::now() < deadline {
            self.exchange(next).await?;
            done += 1;
        }
        Ok(done)
    }

    /// Sends the next request and reads its answer.
    async fn exchange(&mut self, next: &dyn Fn(&mut Vec<u8>)) -> Result<()> {
        self.request.clear();
        next(&mut self.request);
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
            let length = match self.form {
                Form::Https => load::response_length(&self.answer)?,
                Form::Frames => answer_length(&self.answer)?,
            };
            if length.is_some_and(|length| self.answer.len() >= length) {
                return Ok(());
            }
        }
    }
}

/// Returns the length of an answer with its payload; `None` while its head is incomplete.
///
/// # Errors
/// A status other than 2xx: the duration of a failure means nothing.
fn answer_length(answer: &[u8]) -> Result<Option<usize>> {
    let Some((first, rest)) = answer.split_first_chunk::<4>() else {
        return Ok(None);
    };
    let head = head_length(*first, HEAD_BYTES_MAX)?;
    if answer.len() < head {
        return Ok(None);
    }
    let status = rest
        .first_chunk::<4>()
        .map(|status| u32::from_le_bytes(*status));
    if !status.is_some_and(|status| (200..300).contains(&status)) {
        return Err(format!("an answer with the status {status:?}").into());
    }
    // The second token of an answer says whether there is a payload; the answer to the context has
    // other tokens, and no payload.
    let present = [0, 0, 0, 1];
    let has_payload = answer.get(31..35).is_some_and(|token| token == present);
    if !has_payload {
        return Ok(Some(head));
    }
    let length = answer.get(head..head + 4).and_then(<[u8]>::first_chunk);
    Ok(length.map(|length| head + 4 + u32::from_le_bytes(*length) as usize))
}

/// Returns a frame with the names of the container and a signature.
fn signed_frame(operation: u16, (token, date): &(String, String)) -> FrameWriter {
    let mut frame = FrameWriter::request(0x03, operation, [0; 16]);
    let texts: [(&Token, &str); 4] = [
        (&tokens::AUTHORIZATION_TOKEN, token),
        (&tokens::DATE, date),
        (&tokens::DATABASE_NAME, "bench"),
        (&tokens::COLLECTION_NAME, "items"),
    ];
    for (token, text) in texts {
        frame.text(token, text);
    }
    frame.number(&tokens::TRANSPORT_REQUEST_ID, 1);
    frame
}

/// Returns the frame that reads item `n`.
fn frame_read(server: &ServerProcess, n: u64) -> Result<Vec<u8>> {
    let id = id('r', n);
    let signature = items::signature(&server.key, "GET", ("docs", &format!("{LINK}/docs/{id}")))?;
    let mut frame = signed_frame(0x03, &signature);
    frame.number(&tokens::PAYLOAD_PRESENT, 0);
    frame.text(&tokens::DOCUMENT_NAME, &id);
    frame.text(&tokens::PARTITION_KEY, &format!("[\"{}\"]", key(n)));
    Ok(frame.finish(&[]))
}

/// Returns a connector that trusts the certificate of the server.
fn connector(server: &ServerProcess) -> Result<TlsConnector> {
    let answer = load::exchange(&server.address, CERTIFICATE)?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&answer) {
        roots.add(certificate?)?;
    }
    let config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_rntbd::tokens::answer;

    #[test]
    fn an_answer_is_complete_with_its_head_and_its_payload() {
        let mut frame = FrameWriter::answer(200, [0; 16]);
        frame.number(&answer::TRANSPORT_REQUEST_ID, 7);
        frame.number(&answer::PAYLOAD_PRESENT, 1);
        let bytes = frame.clone().finish(b"{}");
        assert_eq!(answer_length(&bytes).expect("good"), Some(bytes.len()));
        assert_eq!(answer_length(&bytes[..30]).expect("good"), None);
        let refused = FrameWriter::answer(404, [0; 16]).finish(&[]);
        assert!(answer_length(&refused).is_err());
        let context = FrameWriter::answer(200, [0; 16]).finish(&[]);
        assert_eq!(answer_length(&context).expect("good"), Some(context.len()));
    }
}
