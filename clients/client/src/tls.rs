//! The certificates of servers that a client accepts.
//!
//! Without other instructions the certificate of a remote host must be valid for its name and lead
//! to a root certificate of this system; `SSL_CERT_FILE` names a file with other roots. A loopback
//! host may have any certificate: a local server creates its own.

use crate::files::{OPTION_FILE_BYTES_MAX, read_bounded};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error as TlsError, RootCertStore,
    SignatureScheme,
};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// The certificates that a client accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Trust {
    /// Certificates with a root of this system; any certificate of a loopback host.
    #[default]
    System,
    /// Certificates with a root in this file in PEM, of loopback hosts too.
    File(PathBuf),
    /// Every certificate.
    Any,
}

/// Returns true if `host` names this machine.
pub fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(address) => address.is_loopback(),
        Err(_) => host == "localhost",
    }
}

/// Returns the TLS configuration for a host.
///
/// # Errors
/// A description, if `host` is no name of a server, the system has no root certificates, or the
/// file of root certificates has none.
pub(crate) fn tls_for(
    host: &str,
    trust: &Trust,
) -> Result<(TlsConnector, ServerName<'static>), String> {
    let config = match trust {
        Trust::Any => unverified_tls()?,
        Trust::File(file) => verified_tls(roots_in(file)?)?,
        Trust::System if is_loopback(host) => unverified_tls()?,
        Trust::System => verified_tls(system_roots()?)?,
    };
    let name = ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
    Ok((TlsConnector::from(Arc::new(config)), name))
}

/// The certificate that a server shows, for a look at it.
#[derive(Debug)]
pub struct Shown {
    /// The server's own certificate, in DER.
    pub certificate: CertificateDer<'static>,
    /// The judgement of a client that verifies certificates.
    pub verdict: Result<(), Distrust>,
}

/// The reason for which a client refuses a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Distrust {
    /// The refusal in words.
    pub cause: String,
    /// True if the certificate is for other names, and would be accepted for them.
    pub is_about_names: bool,
}

/// Connects to a server, whatever its certificate, and judges the certificate by the file of
/// `trust`, or by the roots of this system. No request is sent.
///
/// # Errors
/// A description, if there is no handshake, or the file of root certificates cannot be used.
pub async fn shown(host: &str, port: u16, trust: &Trust) -> Result<Shown, String> {
    let (connector, name) = tls_for(host, &Trust::Any)?;
    let tcp = TcpStream::connect((host, port))
        .await
        .map_err(|e| e.to_string())?;
    let connecting = connector.connect(name.clone(), tcp).await;
    let stream = connecting.map_err(|e| e.to_string())?;
    let chain = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let Some((first, others)) = chain.split_first() else {
        return Err("the server shows no certificate".into());
    };
    let roots = match trust {
        Trust::File(file) => roots_in(file)?,
        Trust::System | Trust::Any => match system_roots() {
            Ok(roots) => roots,
            Err(cause) => {
                let certificate = first.clone().into_owned();
                let is_about_names = false;
                let distrust = Distrust {
                    cause,
                    is_about_names,
                };
                return Ok(Shown {
                    certificate,
                    verdict: Err(distrust),
                });
            }
        },
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|e| e.to_string())?;
    let verdict = verifier.verify_server_cert(first, others, &name, &[], UnixTime::now());
    Ok(Shown {
        certificate: first.clone().into_owned(),
        verdict: verdict.map(drop).map_err(|error| Distrust {
            is_about_names: matches!(
                error,
                TlsError::InvalidCertificate(
                    CertificateError::NotValidForName
                        | CertificateError::NotValidForNameContext { .. }
                )
            ),
            cause: error.to_string(),
        }),
    })
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

/// Returns the root certificates in a file in PEM.
fn roots_in(file: &Path) -> Result<RootCertStore, String> {
    let failed = |cause: String| format!("root certificates in {}: {cause}", file.display());
    let bytes = read_bounded(file, OPTION_FILE_BYTES_MAX).map_err(|e| failed(e.to_string()))?;
    let certificates = CertificateDer::pem_slice_iter(&bytes);
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let certificate = certificate.map_err(|e| failed(e.to_string()))?;
        roots.add(certificate).map_err(|e| failed(e.to_string()))?;
    }
    if roots.is_empty() {
        return Err(failed("the file has no certificate in PEM".into()));
    }
    Ok(roots)
}

/// Accepts any certificate. Signatures are verified: the server must have the
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
    #[test]
    fn a_file_without_certificates_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("roots.pem");
        assert!(tls_for("db.example", &Trust::File(file.clone())).is_err());
        std::fs::write(&file, "hello").unwrap();
        let refused = tls_for("db.example", &Trust::File(file.clone()));
        assert!(refused.is_err_and(|cause| cause.contains("no certificate")));
        let own = rcgen::generate_simple_self_signed(vec!["db.example".to_owned()]).unwrap();
        std::fs::write(&file, own.cert.pem()).unwrap();
        assert!(tls_for("db.example", &Trust::File(file)).is_ok());
    }
}
