//! HTTP/1.1 connections to one endpoint, kept alive and limited in number.
//!
//! A connection is taken from the idle list or opened, used for one exchange, and returned to the
//! list. If an idle connection turns out to be closed before a request is sent, the request is sent
//! on another connection. A request that may have reached the server is not repeated, because the
//! server may have carried it out.
//!
//! With `https`, the certificate of a remote host must be valid for its name and lead to a root
//! certificate of this system; `SSL_CERT_FILE` names a file with other roots. A loopback host may
//! have any certificate: a local server creates its own. Left out: HTTP/2 and proxies.

use crate::sync::lock;
use bytes::Bytes;
use http::response::Parts;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore, SignatureScheme,
};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
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

/// The connections to one endpoint.
pub(crate) struct Pool {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    /// Open connections that no exchange uses.
    idle: Mutex<Vec<Sender>>,
    /// One permit for each connection that may be in use.
    permits: Semaphore,
}

impl Pool {
    /// Creates a pool for `endpoint`, e.g. `http://127.0.0.1:8081/`, without opening a connection.
    ///
    /// # Errors
    /// A description of the fault in `endpoint`.
    pub(crate) fn new(endpoint: &str, connections: usize) -> Result<Self, String> {
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
            Some("https") => (Some(tls_for(&host)?), 443),
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
    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    /// Sends one request and reads the complete response.
    ///
    /// # Errors
    /// A description of the failed connection, exchange or timeout.
    pub(crate) async fn exchange(
        &self,
        request: http::Request<Full<Bytes>>,
    ) -> Result<(Parts, Bytes), String> {
        let _permit = self.permits.acquire().await.map_err(|e| e.to_string())?;
        match tokio::time::timeout(TIMEOUT, self.exchange_on_some_connection(request)).await {
            Ok(result) => result,
            Err(_) => Err(format!("no response within {} s", TIMEOUT.as_secs())),
        }
    }

    async fn exchange_on_some_connection(
        &self,
        mut request: http::Request<Full<Bytes>>,
    ) -> Result<(Parts, Bytes), String> {
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
                return Err(e.to_string());
            }
            let response = match sender.try_send_request(request).await {
                Ok(response) => response,
                Err(mut failed) => match failed.take_message() {
                    // hyper returns the request only if the request was not sent.
                    Some(unsent) if is_reused => {
                        request = unsent;
                        continue;
                    }
                    _ => return Err(failed.into_error().to_string()),
                },
            };
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, BODY_BYTES_MAX)
                .collect()
                .await
                .map_err(|e| e.to_string())?
                .to_bytes();
            // Only a connection whose response was read to the end can be used again.
            lock(&self.idle).push(sender);
            return Ok((parts, body));
        }
    }

    async fn connect(&self) -> Result<Sender, String> {
        let failed =
            |e: std::io::Error| format!("cannot connect to {}:{}: {e}", self.host, self.port);
        let tcp = TcpStream::connect((self.host.as_str(), self.port))
            .await
            .map_err(failed)?;
        tcp.set_nodelay(true).map_err(failed)?;
        match &self.tls {
            None => handshake(tcp).await,
            Some((connector, name)) => {
                let stream = connector.connect(name.clone(), tcp).await.map_err(failed)?;
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
    // Errors of the connection also reach the request that uses it, so they are dropped here.
    tokio::spawn(async move { connection.await.ok() });
    Ok(sender)
}

/// Returns the TLS configuration for a host.
///
/// # Errors
/// A description, if `host` is no name of a server or the system has no root certificates.
fn tls_for(host: &str) -> Result<(TlsConnector, ServerName<'static>), String> {
    let is_loopback = match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    };
    let config = if is_loopback {
        unverified_tls()?
    } else {
        verified_tls(system_roots()?)?
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// Returns the TLS configuration that accepts any certificate.
fn unverified_tls() -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    Ok(config)
}

/// Returns the TLS configuration that accepts certificates of these roots.
fn verified_tls(roots: RootCertStore) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(config)
}

/// Returns the root certificates of the system.
///
/// # Errors
/// A description, if the system has none.
fn system_roots() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let causes: Vec<String> = found.errors.iter().map(ToString::to_string).collect();
        return Err(format!(
            "https needs root certificates, and this system has none ({}); set SSL_CERT_FILE to a \
             file with certificates in PEM",
            causes.join("; ")
        ));
    }
    Ok(roots)
}

/// Accepts any certificate of a loopback server. Signatures are verified: the server must have the
/// private key of its certificate.
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
    fn an_invalid_endpoint_is_refused() {
        for bad in [
            "",
            "localhost:8081",
            "ftp://localhost/",
            "https://not a host/",
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

    /// Connects to a server at `db.example` with a self-signed certificate. Returns true if the
    /// client accepts the certificate.
    async fn accepts(
        config: ClientConfig,
        asked: &'static str,
        key: &rcgen::CertifiedKey<rcgen::KeyPair>,
    ) -> bool {
        let private_key =
            rustls::pki_types::PrivatePkcs8KeyDer::from(key.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private_key.into())
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
        let (near, far) = tokio::io::duplex(64 << 10);
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from(asked).unwrap();
        let (connected, _) = tokio::join!(connector.connect(name, near), acceptor.accept(far));
        connected.is_ok()
    }

    #[tokio::test]
    async fn the_certificate_of_a_remote_host_must_have_its_name_and_a_known_root() {
        let names = || vec!["db.example".to_owned()];
        let own = rcgen::generate_simple_self_signed(names()).unwrap();
        let other = rcgen::generate_simple_self_signed(names()).unwrap();
        let roots = |key: &rcgen::CertifiedKey<rcgen::KeyPair>| {
            let mut roots = RootCertStore::empty();
            roots.add(key.cert.der().clone()).unwrap();
            verified_tls(roots).unwrap()
        };
        assert!(accepts(roots(&own), "db.example", &own).await);
        assert!(!accepts(roots(&own), "other.example", &own).await);
        assert!(!accepts(roots(&other), "db.example", &own).await);
        assert!(accepts(unverified_tls().unwrap(), "other.example", &own).await);
    }
}
