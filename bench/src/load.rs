//! The load generator: ready-made requests on connections that are kept open, all from one thread.
//!
//! It shares the machine with what it measures, so it does as little as it can: no HTTP library, one buffer a
//! connection, and of an answer only the status and the length are looked at.

use crate::Result;
use crate::report::Slice;
use memchr::memmem;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What to send, where, and for how long.
pub(crate) struct Call<'a> {
    pub(crate) address: &'a str,
    /// Counts requests; its value names the next one.
    pub(crate) counter: &'a AtomicU64,
    /// Writes the request of a number.
    pub(crate) request: &'a dyn Fn(u64, &mut Vec<u8>),
    pub(crate) connections: usize,
    /// Requests that each connection sends before time is taken.
    pub(crate) warm_up: usize,
    pub(crate) time: Duration,
}

/// Sends requests on all connections until the time is over. Each waits for its answer before it sends the next.
pub(crate) fn load(call: &Call<'_>) -> Result<Slice> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..call.connections {
            let mut connection = Connection::open(call.address).await?;
            for _ in 0..call.warm_up {
                connection.ask(call).await?;
            }
            connections.push(connection);
        }
        let begun = Instant::now();
        let over = begun + call.time;
        let mut running: Vec<_> = connections
            .into_iter()
            .map(|c| Box::pin(c.run(call, over)))
            .collect();
        let mut latencies = Vec::new();
        // All are polled by this one task; each wakes it only when its socket is ready.
        for done in join_all(&mut running).await {
            latencies.extend(done?);
        }
        Ok(Slice {
            elapsed: begun.elapsed(),
            latencies,
        })
    })
}

/// Sends one request and gives the answer's bytes.
pub(crate) fn ask(address: &str, request: &[u8]) -> Result<Vec<u8>> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.write_all(request)?;
    let mut answer = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = io::Read::read(&mut stream, &mut buffer)?;
        answer.extend_from_slice(&buffer[..read]);
        if read == 0 || answer_length(&answer)?.is_some_and(|length| answer.len() >= length) {
            return Ok(answer);
        }
    }
}

struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    answer: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            request: Vec::with_capacity(4 << 10),
            answer: Vec::with_capacity(16 << 10),
        })
    }

    async fn run(mut self, call: &Call<'_>, over: Instant) -> io::Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(1 << 14);
        loop {
            let begun = Instant::now();
            if begun >= over {
                return Ok(latencies);
            }
            self.ask(call).await?;
            latencies.push(begun.elapsed());
        }
    }

    async fn ask(&mut self, call: &Call<'_>) -> io::Result<()> {
        self.request.clear();
        (call.request)(
            call.counter.fetch_add(1, Ordering::Relaxed),
            &mut self.request,
        );
        self.stream.write_all(&self.request).await?;
        self.answer.clear();
        loop {
            if self.stream.read_buf(&mut self.answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if answer_length(&self.answer)?.is_some_and(|length| self.answer.len() >= length) {
                return Ok(());
            }
        }
    }
}

/// How long the answer is that begins here, once its head is there.
///
/// # Errors
/// Any answer but a good one, and one with failures in it: figures of failures are worth nothing.
fn answer_length(answer: &[u8]) -> io::Result<Option<usize>> {
    let Some(head) = memmem::find(answer, b"\r\n\r\n") else {
        return Ok(None);
    };
    if !answer.starts_with(b"HTTP/1.1 2") || answer.starts_with(b"HTTP/1.1 207") {
        return Err(io::Error::other(
            String::from_utf8_lossy(answer).into_owned(),
        ));
    }
    let name = b"content-length: ";
    let at = memmem::find(&answer[..head], name)
        .ok_or_else(|| io::Error::other("an answer without a length"))?;
    let digits = answer[at + name.len()..head]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Ok(Some(head + 4 + length))
}

/// Drives all futures to their ends.
async fn join_all<F: Future + Unpin>(futures: &mut [F]) -> Vec<F::Output> {
    let mut done: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, done) in futures.iter_mut().zip(&mut done) {
            if done.is_none()
                && let std::task::Poll::Ready(output) = std::pin::Pin::new(future).poll(context)
            {
                *done = Some(output);
            }
        }
        if done.iter().all(Option::is_some) {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
    done.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_head_and_body_are_there() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n";
        assert_eq!(
            answer_length(answer).expect("good"),
            Some(answer.len() + 12)
        );
        assert_eq!(answer_length(&answer[..20]).expect("good"), None);
        assert!(answer_length(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
