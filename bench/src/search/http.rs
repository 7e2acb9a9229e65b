//! Queries over HTTP: a port of the gateway on the engine of a container, in this process, and one
//! connection to it. The rivals are asked through a socket, so these lines compare with theirs.

use super::answer::Answer;
use crate::Result;
use crate::child::ServerProcess;
use crate::engine::BenchEngine;
use crate::items::Queries;
use crate::load::response_length;
use crate::recording::gateway;
use orrery_gateway::{ConnectionLimits, Patience, Port, serve};
use orrery_model::Json;
use orrery_model::json::parse;
use std::future::pending;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// Longer than a run.
const LONG: Duration = Duration::from_secs(86_400);

/// A port and a connection to it. The port ends with this value.
pub(crate) struct HttpPort {
    stream: TcpStream,
    server: ServerProcess,
    _runtime: Runtime,
}

impl HttpPort {
    /// Opens a port on an engine.
    pub(crate) fn open(engine: &BenchEngine) -> Result<HttpPort> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?.to_string();
        let port = Port {
            service: Arc::new(gateway(engine)?),
            tls: None,
            limits: ConnectionLimits {
                total: 2,
                per_address: 2,
            },
            patience: Patience {
                head: LONG,
                idle: LONG,
                stall: LONG,
                stall_when_short: LONG,
                rate: 0,
                rate_when_short: 0,
            },
            spin: Duration::ZERO,
            drain: Duration::ZERO,
            direct: None,
        };
        runtime.spawn(serve(port, vec![listener], pending()));
        let stream = TcpStream::connect(&address)?;
        stream.set_nodelay(true)?;
        Ok(HttpPort {
            stream,
            server: ServerProcess::running(&address),
            _runtime: runtime,
        })
    }

    /// Runs a query of one page.
    pub(crate) fn ask(&mut self, text: &str) -> Result<Answer> {
        let mut request = Vec::new();
        // Signed anew, since a signature is valid for minutes.
        Queries::new(&self.server)?.write(text, &mut request);
        let started = Instant::now();
        self.stream.write_all(&request)?;
        let mut response = Vec::new();
        let mut buffer = [0; 16 << 10];
        let length = loop {
            let read = self.stream.read(&mut buffer)?;
            if read == 0 {
                return Err("the port closed the connection".into());
            }
            response.extend_from_slice(&buffer[..read]);
            match response_length(&response)? {
                Some(length) if response.len() >= length => break length,
                _ => {}
            }
        };
        let took = started.elapsed();
        let body = memchr::memmem::find(&response, b"\r\n\r\n").map_or(length, |at| at + 4);
        let answer = parse(&response[body..length])?;
        let rows = answer.get("Documents").and_then(Json::as_array);
        let rows = rows.ok_or("an answer without rows")?;
        let texts = rows.iter().filter_map(Json::as_str).map(str::to_owned);
        Ok(Answer {
            took,
            processor: None,
            rows: texts.collect(),
        })
    }
}
