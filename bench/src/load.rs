//! The load generator: prepared requests on persistent connections, all from one thread.
//!
//! The generator shares the machine with the measured process and therefore does little work: it
//! uses no HTTP library and one buffer for each connection, and it parses only the status and the
//! length of a response.

use crate::Result;
use crate::report::Measurement;
use memchr::memmem;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The requests, the address and the duration of a load.
pub(crate) struct LoadSpec<'a> {
    pub(crate) address: &'a str,
    /// The number of the next request.
    pub(crate) counter: &'a AtomicU64,
    /// Appends the request with a number to a buffer.
    pub(crate) request: &'a dyn Fn(u64, &mut Vec<u8>),
    pub(crate) connections: usize,
    /// Requests of each connection before the measurement.
    pub(crate) warm_up: usize,
    /// Duration of the measurement.
    pub(crate) time: Duration,
}

/// Sends requests on all connections until the time has passed. Each connection waits for a
/// response before it sends the next request.
pub(crate) fn load(spec: &LoadSpec<'_>) -> Result<Measurement> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let mut connections = Vec::new();
        for _ in 0..spec.connections {
            let mut connection = Connection::open(spec.address).await?;
            for _ in 0..spec.warm_up {
                connection.exchange(spec).await?;
            }
            connections.push(connection);
        }

        // All connections start at the same time, after the warm-up of the last one.
        let started = Instant::now();
        let deadline = started + spec.time;
        let mut running: Vec<_> = connections
            .into_iter()
            .map(|c| Box::pin(c.run(spec, deadline)))
            .collect();
        let mut latencies = Vec::new();
        // One task polls all connections; a connection wakes the task only when its socket is
        // ready.
        for done in join_all(&mut running).await {
            latencies.extend(done?);
        }
        Ok(Measurement {
            elapsed: started.elapsed(),
            latencies,
        })
    })
}

/// Sends one request and returns the bytes of the response.
pub(crate) fn exchange(address: &str, request: &[u8]) -> Result<Vec<u8>> {
    let mut stream = std::net::TcpStream::connect(address)?;
    stream.write_all(request)?;
    let mut response = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let read = io::Read::read(&mut stream, &mut buffer)?;
        response.extend_from_slice(&buffer[..read]);
        if read == 0 || response_length(&response)?.is_some_and(|length| response.len() >= length) {
            return Ok(response);
        }
    }
}

/// A connection with reused buffers.
struct Connection {
    stream: TcpStream,
    request: Vec<u8>,
    response: Vec<u8>,
}

impl Connection {
    async fn open(address: &str) -> io::Result<Connection> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Connection {
            stream,
            request: Vec::with_capacity(4 << 10),
            response: Vec::with_capacity(16 << 10),
        })
    }

    /// Sends requests until `deadline` and returns their latencies.
    async fn run(mut self, spec: &LoadSpec<'_>, deadline: Instant) -> io::Result<Vec<Duration>> {
        let mut latencies = Vec::with_capacity(1 << 14);
        loop {
            let started = Instant::now();
            if started >= deadline {
                return Ok(latencies);
            }
            self.exchange(spec).await?;
            latencies.push(started.elapsed());
        }
    }

    /// Sends the next request and reads its response.
    async fn exchange(&mut self, spec: &LoadSpec<'_>) -> io::Result<()> {
        self.request.clear();
        (spec.request)(
            spec.counter.fetch_add(1, Ordering::Relaxed),
            &mut self.request,
        );
        self.stream.write_all(&self.request).await?;
        self.response.clear();
        loop {
            if self.stream.read_buf(&mut self.response).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            if response_length(&self.response)?.is_some_and(|length| self.response.len() >= length)
            {
                return Ok(());
            }
        }
    }
}

/// Returns the length of a response including its headers; `None` while the headers are incomplete.
///
/// # Errors
/// A status other than 2xx, and 207, which reports failed operations of a bulk request: the
/// duration of a failure means nothing.
pub(crate) fn response_length(response: &[u8]) -> io::Result<Option<usize>> {
    let Some(head) = memmem::find(response, b"\r\n\r\n") else {
        return Ok(None);
    };
    if !response.starts_with(b"HTTP/1.1 2") || response.starts_with(b"HTTP/1.1 207") {
        return Err(io::Error::other(
            String::from_utf8_lossy(response).into_owned(),
        ));
    }
    // Other servers write the name with capitals.
    let names: [&[u8]; 2] = [b"content-length: ", b"Content-Length: "];
    let at = names
        .iter()
        .find_map(|name| memmem::find(&response[..head], name).map(|at| at + name.len()))
        .ok_or_else(|| io::Error::other("a response without a length"))?;
    let digits = response[at..head]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let length = digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0'));
    Ok(Some(head + 4 + length))
}

/// Runs all futures to completion and returns their outputs in order.
pub(crate) async fn join_all<F: Future + Unpin>(futures: &mut [F]) -> Vec<F::Output> {
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
    fn a_response_is_complete_with_headers_and_body() {
        let response = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n";
        assert_eq!(
            response_length(response).expect("good"),
            Some(response.len() + 12)
        );
        assert_eq!(response_length(&response[..20]).expect("good"), None);
        assert!(response_length(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n").is_err());
    }
}
