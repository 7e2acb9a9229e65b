//! Kept-alive HTTP/1.1 connections to one endpoint, bounded in number.
//!
//! A connection is taken from the idle list or opened, used for one exchange, and put back. A request that a dead
//! connection has not taken is tried again on another; one that may have reached the server is not, because it may
//! have been carried out.
//!
//! `https` is spoken to loopback addresses only, and there any certificate is accepted: a local server makes its own.
//! Left out: HTTP/2, proxies, and checking certificates of distant hosts.

use bytes::Bytes;
use http::response::Parts;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error as TlsError, SignatureScheme};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsConnector;

/// No answer of the service is larger than 4 MB; this leaves room for an envelope.
const MAX_BODY: usize = 16 << 20;
/// The service ends any operation after 5 s; a slow machine gets some more.
const TIMEOUT: Duration = Duration::from_secs(60);

type Sender = SendRequest<Full<Bytes>>;

/// The connections to one endpoint.
pub(crate) struct Pool {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    idle: Mutex<Vec<Sender>>,
    permits: Semaphore,
}

impl Pool {
    /// Prepares connections to `endpoint`, e.g. `http://127.0.0.1:8081/`; opens none yet.
    pub(crate) fn new(endpoint: &str, connections: usize) -> Result<Self, String> {
        let uri: http::Uri = endpoint
            .parse()
            .map_err(|e| format!("endpoint '{endpoint}' is no address: {e}"))?;
        let host = uri
            .host()
            .ok_or_else(|| format!("endpoint '{endpoint}' names no host"))?;
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let (tls, default_port) = match uri.scheme_str() {
            Some("http") => (None, 80),
            Some("https") => (Some(loopback_tls(&host)?), 443),
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

    /// The `Host` header of every request.
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Sends one request and reads the whole answer.
    pub(crate) async fn exchange(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<(Parts, Bytes), String> {
        let _permit = self.permits.acquire().await.map_err(|e| e.to_string())?;
        match tokio::time::timeout(TIMEOUT, self.attempt(request)).await {
            Ok(answer) => answer,
            Err(_) => Err(format!("nothing came within {} s", TIMEOUT.as_secs())),
        }
    }

    async fn attempt(
        &self,
        mut request: http::Request<Full<Bytes>>,
    ) -> Result<(Parts, Bytes), String> {
        loop {
            let kept = self
                .idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            let reused = kept.is_some();
            let mut sender = match kept {
                Some(sender) => sender,
                None => self.connect().await?,
            };
            if let Err(e) = sender.ready().await {
                if reused {
                    continue;
                }
                return Err(e.to_string());
            }
            match sender.try_send_request(request).await {
                Ok(answer) => {
                    let (parts, body) = answer.into_parts();
                    let body = Limited::new(body, MAX_BODY)
                        .collect()
                        .await
                        .map_err(|e| e.to_string())?
                        .to_bytes();
                    self.idle
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(sender);
                    return Ok((parts, body));
                }
                Err(mut refused) => match refused.take_message() {
                    Some(unsent) if reused => request = unsent,
                    _ => return Err(refused.into_error().to_string()),
                },
            }
        }
    }

    async fn connect(&self) -> Result<Sender, String> {
        let place = || format!("cannot connect to {}:{}", self.host, self.port);
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(|e| format!("{}: {e}", place()))?;
        tcp.set_nodelay(true)
            .map_err(|e| format!("{}: {e}", place()))?;
        match &self.tls {
            None => handshake(tcp).await,
            Some((connector, name)) => {
                let stream = connector
                    .connect(name.clone(), tcp)
                    .await
                    .map_err(|e| format!("{}: {e}", place()))?;
                handshake(stream).await
            }
        }
    }
}

async fn handshake<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
) -> Result<Sender, String> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    // The connection's own errors also reach the request that waits on it.
    tokio::spawn(async move { connection.await.ok() });
    Ok(sender)
}

fn loopback_tls(host: &str) -> Result<(TlsConnector, ServerName<'static>), String> {
    let loopback = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if !loopback {
        return Err(format!(
            "https is spoken to a loopback address only, and '{host}' is none; use http"
        ));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Accepts whatever certificate a loopback server shows, but still checks that it holds the key to it.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, TlsError> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, TlsError> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_cannot_be_spoken_to_is_refused_at_once() {
        for bad in [
            "",
            "localhost:8081",
            "ftp://localhost/",
            "https://example.com/",
            "http://",
        ] {
            assert!(Pool::new(bad, 4).is_err(), "{bad}");
        }
        assert_eq!(
            Pool::new("http://127.0.0.1:8081/", 4).unwrap().authority(),
            "127.0.0.1:8081"
        );
        assert_eq!(
            Pool::new("https://[::1]:8081", 4).unwrap().authority(),
            "[::1]:8081"
        );
        assert_eq!(
            Pool::new("https://localhost", 4).unwrap().authority(),
            "localhost:443"
        );
    }
}
