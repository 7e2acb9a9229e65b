//! The bare HTTP server: hyper with nothing behind it. It gives every request the answer that the database gave once, with
//! the same headers and body, and so shows what HTTP alone costs on this machine.

use crate::Result;
use crate::child::Child;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, DATE, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io::{Read, Write};
use std::process::Command;

/// Starts it as a process of its own with `answer`, the bytes of an HTTP/1.1 answer.
pub(crate) fn start(answer: &[u8]) -> Result<Child> {
    Child::start(
        Command::new(std::env::current_exe()?).arg("fixed-answer"),
        answer,
    )
}

/// Serves the answer that is given on standard input, for ever.
pub(crate) fn serve() -> Result<()> {
    let mut answer = Vec::new();
    std::io::stdin().read_to_end(&mut answer)?;
    let (headers, body) = take_apart(&answer)?;
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            writeln!(
                std::io::stdout(),
                "{{\"endpoint_http\":\"http://{address}/\"}}"
            )?;
            loop {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                let (headers, body) = (headers.clone(), body.clone());
                tokio::spawn(async move {
                    let service = service_fn(|request: Request<Incoming>| {
                        let mut response = Response::new(Full::new(body.clone()));
                        *response.headers_mut() = headers.clone();
                        async move {
                            // A body is read whole, as a database has to.
                            let _ = request.into_body().collect().await;
                            Ok::<_, Infallible>(response)
                        }
                    });
                    // A connection that breaks is the client's affair.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        })
}

/// Headers and body of an answer, without the headers that hyper adds by itself.
fn take_apart(answer: &[u8]) -> Result<(HeaderMap, Bytes)> {
    let end = memchr::memmem::find(answer, b"\r\n\r\n").ok_or("the answer has no head")?;
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(&answer[..end])?.lines().skip(1) {
        let (name, value) = line.split_once(": ").ok_or("a header has no value")?;
        headers.append(
            HeaderName::from_bytes(name.as_bytes())?,
            HeaderValue::from_str(value)?,
        );
    }
    headers.remove(CONTENT_LENGTH);
    headers.remove(DATE);
    Ok((headers, Bytes::copy_from_slice(&answer[end + 4..])))
}
