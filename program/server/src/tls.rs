//! The TLS configuration of a server: the user's certificate, or a self-signed one.
//!
//! A certificate of the user's is PEM with its key in a second file or in the same one, or PFX
//! (PKCS #12) with a password. A self-signed certificate comes from `certificate`.

use crate::certificate;
use crate::failure::Failure;
use crate::pfx;
use orrery_client::files::{OPTION_FILE_BYTES_MAX, read_bounded};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;

/// Variable of the environment with the password of a PFX file.
pub(crate) const PASSWORD_VARIABLE: &str = "ORRERY_TLS_PASSWORD";

/// The certificate that a server shows, with its key in the configuration.
#[derive(Clone)]
pub(crate) struct ServerTls {
    /// Configuration of a port.
    pub(crate) config: Arc<ServerConfig>,
    /// Certificate chain in PEM, the server's own certificate first.
    pub(crate) chain_pem: Arc<str>,
    /// True if the server made its certificate.
    pub(crate) is_self_signed: bool,
}

/// Files and secrets of the user's certificate.
#[derive(Clone, Copy)]
pub(crate) struct UserCertificate<'a> {
    /// PEM or PFX.
    pub(crate) certificate: &'a Path,
    /// Key in PEM; `None` if it is in the file of the certificate.
    pub(crate) key: Option<&'a Path>,
    /// File with the password of a PFX file.
    pub(crate) password_file: Option<&'a Path>,
    /// Password of a PFX file, in place of the file with it.
    pub(crate) password: Option<&'a str>,
}

/// Returns the user's certificate.
///
/// # Errors
/// A file cannot be read, is neither PEM nor PFX, or the password or the key does not fit.
pub(crate) fn from_files(user: UserCertificate<'_>) -> Result<ServerTls, Failure> {
    let bytes = read_file(user.certificate)?;
    let named =
        |failure: Failure| Failure::Failed(format!("{}: {failure}", user.certificate.display()));
    if is_pem(&bytes) {
        let key = match user.key {
            Some(key) => read_file(key)?,
            None if is_with_key(&bytes) => bytes.clone(),
            None => {
                return Err(Failure::Usage(format!(
                    "the file {} holds a certificate without its private key: name the file with \
                     the key by --tls-key",
                    user.certificate.display()
                )));
            }
        };
        return from_pem(&bytes, &key).map_err(named);
    }
    if user.key.is_some() {
        return Err(Failure::Usage(format!(
            "{} is not PEM; a PFX file holds its own key, so leave --tls-key out",
            user.certificate.display()
        )));
    }
    let password = match (user.password, user.password_file) {
        (Some(password), _) => password.to_owned(),
        (None, Some(file)) => pfx::password_from_file(file)?,
        (None, None) => std::env::var(PASSWORD_VARIABLE).unwrap_or_default(),
    };
    let (chain, key) = pfx::read(&bytes, &password).map_err(named)?;
    from_der(chain, key).map_err(named)
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    read_bounded(path, OPTION_FILE_BYTES_MAX)
        .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", path.display())))
}

/// Returns true if a file has the form of PEM.
pub(crate) fn is_pem(bytes: &[u8]) -> bool {
    bytes
        .windows(11)
        .take(64 * 1024)
        .any(|part| part == b"-----BEGIN ")
}

fn is_with_key(bytes: &[u8]) -> bool {
    PrivateKeyDer::from_pem_slice(bytes).is_ok()
}

/// Returns a self-signed certificate that has the names of this machine and `names`. With a
/// `data_dir` the certificate is stored there and used again; without one it is valid until the
/// process ends.
///
/// # Errors
/// The certificate cannot be created or stored.
pub(crate) fn self_signed(data_dir: Option<&Path>, names: &[String]) -> Result<ServerTls, Failure> {
    let pair = certificate::load_or_create(data_dir, names)?;
    let tls = from_pem(pair.certificate.as_bytes(), pair.key.as_bytes())?;
    Ok(ServerTls {
        is_self_signed: true,
        ..tls
    })
}

/// Returns the configuration of a certificate chain and a private key in PEM.
pub(crate) fn from_pem(certificate: &[u8], key: &[u8]) -> Result<ServerTls, Failure> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| not_usable("certificate", &error))?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| not_usable("private key", &error))?;
    from_der(chain, key)
}

fn from_der(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerTls, Failure> {
    let chain_pem: String = chain.iter().map(|one| certificate::to_pem(one)).collect();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| not_usable("TLS library", &error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| not_usable("certificate", &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(ServerTls {
        config: Arc::new(config),
        chain_pem: chain_pem.into(),
        is_self_signed: false,
    })
}

fn not_usable(subject: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::Failed(format!("the {subject} is not usable: {error}"))
}
