//! HTTP/1.1 connections to one endpoint, kept alive and limited in number.
//!
//! A connection is taken from the idle list or opened, used for one exchange, and returned to the
//! list. If an idle connection turns out to be closed before a request is sent, the request is sent
//! on another connection. A request that may have reached the server is not repeated, because the
//! server may have carried it out.
//!
//! With `https`, the certificates that are accepted are in [`Trust`]. Left out: HTTP/2 and proxies.

use crate::sync::lock;
use crate::tls::{Trust, tls_for};
use bytes::Bytes;
use http::response::Parts;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// Bytes of a response body. The service limits a page to 4 MB; the rest is a margin.
const BODY_BYTES_MAX: usize = 16 << 20;
/// Time for one exchange. The service ends every operation after 5 seconds; the rest is a margin
/// for slow machines.
const TIMEOUT: Duration = Duration::from_secs(60);

type Sender = SendRequest<Full<Bytes>>;

/// An exchange without a complete response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeError {
    /// Description of the failed connection, exchange or timeout.
    pub cause: String,
    /// True if the server may have received the request and carried it out.
    pub may_have_arrived: bool,
    /// True if a program accepted the connection.
    pub found_server: bool,
}

impl ExchangeError {
    /// Returns the error of a connection that no program accepted.
    fn unconnected(cause: String) -> Self {
        Self {
            cause,
            may_have_arrived: false,
            found_server: false,
        }
    }

    fn unsent(cause: String) -> Self {
        Self {
            found_server: true,
            ..Self::unconnected(cause)
        }
    }

    fn broken(cause: String) -> Self {
        Self {
            may_have_arrived: true,
            ..Self::unsent(cause)
        }
    }
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.cause)
    }
}

/// The connections to one endpoint.
pub struct Pool {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Open connections that no exchange uses.
    idle: Mutex<Vec<Sender>>,
    /// One permit for each connection that may be in use.
    permits: Semaphore,
}

impl Pool {
    /// Creates a pool of at most `connections` connections to `endpoint`, for example
    /// `http://127.0.0.1:8081/`, that accepts the certificates of `trust`. No connection is opened.
    ///
    /// # Errors
    /// A description of the fault in `endpoint`, or in the file of root certificates.
    pub fn with_trust(endpoint: &str, connections: usize, trust: &Trust) -> Result<Self, String> {
        let uri: http::Uri = endpoint
            .parse()
            .map_err(|e| format!("endpoint '{endpoint}' is not an address: {e}"))?;
        let host = uri
            .host()
            .ok_or_else(|| format!("endpoint '{endpoint}' names no host"))?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let (tls, default_port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(tls_for(&host, trust)?), 443),
            _ => {
                return Err(format!(
                    "endpoint '{endpoint}' begins with neither http:// nor https://"
                ));
            }
        };
        let port = uri.port_u16().unwrap_or(default_port);
        Ok(Self {
            host,
            port,
            tls,
            idle: Mutex::default(),
            permits: Semaphore::new(connections.max(1)),
        })
    }

    /// Returns the value of the `Host` header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Sends one request and reads the complete response.
    ///
    /// # Errors
    /// The failed connection, exchange or timeout.
    pub async fn exchange(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<(Parts, Bytes), ExchangeError> {
        let permit = self.permits.acquire().await;
        let _permit = permit.map_err(|e| ExchangeError::unconnected(e.to_string()))?;
        match tokio::time::timeout(TIMEOUT, self.exchange_on_some_connection(request)).await {
            Ok(result) => result,
            Err(_) => Err(ExchangeError::broken(format!(
                "no response within {} s",
                TIMEOUT.as_secs()
            ))),
        }
    }

    async fn exchange_on_some_connection(
        &self,
        mut request: http::Request<Full<Bytes>>,
    ) -> Result<(Parts, Bytes), ExchangeError> {
        loop {
            let idle = lock(&self.idle).pop();
            let is_reused = idle.is_some();
            let mut sender = match idle {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            // The server may have closed an idle connection; the next one is tried instead.
            if let Err(e) = sender.ready().await {
                if is_reused {
                    continue;
                }
                return Err(ExchangeError::unsent(e.to_string()));
            }
            let response = match sender.try_send_request(request).await {
                Ok(response) => response,
                Err(mut failed) => match failed.take_message() {
                    // hyper returns the request only if the request was not sent.
                    Some(unsent) if is_reused => {
                        request = unsent;
                        continue;
                    }
                    _ => return Err(ExchangeError::broken(failed.into_error().to_string())),
                },
            };
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX)
                .collect()
                .await
                .map_err(|e| ExchangeError::broken(e.to_string()))?
                .to_bytes();
            // Only a connection whose response was read to the end can be used again.
            lock(&self.idle).push(sender);
            return Ok((parts, body));
        }
    }

    async fn connect(&self) -> Result<Sender, ExchangeError> {
        let failed =
            |e: std::io::Error| format!("cannot connect to {}:{}: {e}", self.host, self.port);
        let unsent = |e| ExchangeError::unsent(failed(e));
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|e| ExchangeError::unconnected(failed(e)))?;
        tcp.set_nodelay(true).map_err(unsent)?;
        let shaken = match &self.tls {
            None => handshake(tcp).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), tcp).await.map_err(unsent)?;
                handshake(stream).await
            }
        };
        shaken.map_err(ExchangeError::unsent)
    }
}

async fn handshake<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> Result<Sender, String> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    // Errors of the connection also reach the request that uses it, so they are dropped here.
    tokio::spawn(async move { connection.await.ok() });
    Ok(sender)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(endpoint: &str) -> Result<Pool, String> {
        Pool::with_trust(endpoint, 4, &Trust::System)
    }

    #[test]
    fn an_invalid_endpoint_is_refused() {
        for bad in [
            "",
            "localhost:8081",
            "ftp://localhost/",
            "https://not a host/",
            "http://",
        ] {
            assert!(pool(bad).is_err(), "{bad}");
        }
        assert_eq!(
            pool("http://127.0.0.1:8081/").unwrap().authority(),
            "127.0.0.1:8081"
        );
        assert_eq!(
            pool("https://[::1]:8081").unwrap().authority(),
            "[::1]:8081"
        );
        assert_eq!(
            pool("https://localhost").unwrap().authority(),
            "localhost:443"
        );
    }
}
