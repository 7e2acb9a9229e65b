//! The bare HTTP server: hyper without a database. It sends the same response to every request, a
//! copy of one response of the database with its headers and body, and so measures the cost of HTTP
//! alone.

use crate::Result;
use crate::child::ServerProcess;
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

/// Starts the server as a separate process. `response` is the HTTP/1.1 response as bytes.
pub(crate) fn start(response: &[u8]) -> Result<ServerProcess> {
    ServerProcess::start(
        Command::new(std::env::current_exe()?).arg("fixed-answer"),
        response,
    )
}

/// Sends the response from standard input to every request until the process is killed.
pub(crate) fn serve() -> Result<()> {
    let mut response = Vec::new();
    std::io::stdin().read_to_end(&mut response)?;
    let (headers, body) = parse_response(&response)?;
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
                            // The body is read completely, as the database must do.
                            let _ = request.into_body().collect().await;
                            Ok::<_, Infallible>(response)
                        }
                    });
                    // The client reports a broken connection.
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        })
}

/// Returns headers and body of a response, without the headers that hyper adds itself.
fn parse_response(response: &[u8]) -> Result<(HeaderMap, Bytes)> {
    let end = memchr::memmem::find(response, b"\r\n\r\n").ok_or("the response has no headers")?;
    let mut headers = HeaderMap::new();
    for line in std::str::from_utf8(&response[..end])?.lines().skip(1) {
        let (name, value) = line.split_once(": ").ok_or("a header has no value")?;
        headers.append(
            HeaderName::from_bytes(name.as_bytes())?,
            HeaderValue::from_str(value)?,
        );
    }
    headers.remove(CONTENT_LENGTH);
    headers.remove(DATE);
    Ok((headers, Bytes::copy_from_slice(&response[end + 4..])))
}
