//! The TLS certificate of a server: the user's, or a self-signed one.
//!
//! A self-signed certificate is stored in the data directory, so that clients that trust it need
//! not change at each start. It names this machine only and is replaced before it expires, which
//! limits the harm of a stolen copy. A server that keeps its data in memory creates a new
//! certificate at each start.

use crate::failure::Failure;
use crate::private_file;
use jiff::{SignedDuration, Timestamp, civil::Date, tz::Offset};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Validity of a self-signed certificate in days.
const VALID_DAYS: i64 = 360;
/// Age in days at which a stored certificate is replaced.
const RENEW_DAYS: u64 = 300;

/// Returns a TLS configuration with the user's certificate chain and private key.
///
/// # Errors
/// A file cannot be read or is not PEM, or the key does not belong to the certificate.
pub(crate) fn from_files(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    config(&read_file(certificate)?, &read_file(key)?)
}

fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", path.display())))
}

/// Returns a TLS configuration with a self-signed certificate. With a `data_dir` the certificate is
/// stored there and used again; without one it is valid until the process ends.
///
/// # Errors
/// The certificate cannot be created or stored.
pub(crate) fn self_signed(data_dir: Option<&Path>) -> Result<Arc<ServerConfig>, Failure> {
    let Some(data_dir) = data_dir else {
        let (certificate, key) = create_certificate()?;
        return config(certificate.as_bytes(), key.as_bytes());
    };
    let directory = data_dir.join("tls");
    let certificate_file = directory.join("cert.pem");
    let key_file = directory.join("key.pem");

    // A stored certificate that is too old or damaged is replaced without further notice: the
    // server created it, so nothing of the user's is lost.
    if is_recent(&certificate_file)
        && let Ok(stored) = from_files(&certificate_file, &key_file)
    {
        return Ok(stored);
    }

    let (certificate, key) = create_certificate()?;
    private_file::create_directory(&directory)
        .and_then(|()| private_file::write(&key_file, key.as_bytes()))
        .and_then(|()| private_file::write(&certificate_file, certificate.as_bytes()))
        .map_err(|error| {
            Failure::Failed(format!(
                "cannot store a certificate in {}: {error}",
                directory.display()
            ))
        })?;
    config(certificate.as_bytes(), key.as_bytes())
}

/// Returns true if a file exists and is younger than [`RENEW_DAYS`].
fn is_recent(file: &Path) -> bool {
    let modified = std::fs::metadata(file).and_then(|metadata| metadata.modified());
    let Ok(modified) = modified else {
        return false;
    };
    modified
        .elapsed()
        .is_ok_and(|age| age < Duration::from_secs(RENEW_DAYS * 24 * 60 * 60))
}

/// Creates a self-signed certificate and returns it and its private key, both in PEM.
fn create_certificate() -> Result<(String, String), Failure> {
    let cannot_create =
        |error: rcgen::Error| Failure::Failed(format!("cannot create a certificate: {error}"));

    // Clients on this machine use one of these names; other machines may use the host name.
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"]
        .map(str::to_owned)
        .to_vec();
    if let Some(name) = host_name()
        && !names.contains(&name)
    {
        names.push(name);
    }
    let mut parameters = CertificateParams::new(names).map_err(cannot_create)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, "orrery, self-signed");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];

    // Valid from yesterday on, for clients whose clocks are slow or in another time zone.
    let first = days_from_now(-1);
    let last = days_from_now(VALID_DAYS);
    parameters.not_before =
        date_time_ymd(first.year().into(), first.month() as u8, first.day() as u8);
    parameters.not_after = date_time_ymd(last.year().into(), last.month() as u8, last.day() as u8);

    let key = KeyPair::generate().map_err(cannot_create)?;
    let certificate = parameters.self_signed(&key).map_err(cannot_create)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// Returns the date in UTC that is `days` after today.
fn days_from_now(days: i64) -> Date {
    let time = Timestamp::now()
        .saturating_add(SignedDuration::from_hours(24 * days))
        .unwrap_or(Timestamp::MAX);
    Offset::UTC.to_datetime(time).date()
}

/// Returns the name of this machine in lower case, if a certificate can contain it.
fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"))
        .or_else(|_| std::env::var("COMPUTERNAME"))
        .ok()?;
    let name = name.trim().to_ascii_lowercase();
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    if name.is_empty() || !name.bytes().all(is_allowed) {
        return None;
    }
    Some(name)
}

/// Returns a TLS configuration from a certificate chain and a private key in PEM.
fn config(certificate: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, Failure> {
    let not_usable = |subject: &str, error: &dyn std::fmt::Display| {
        Failure::Failed(format!("the {subject} is not usable: {error}"))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| not_usable("certificate", &error))?;
    let key =
        PrivateKeyDer::from_pem_slice(key).map_err(|error| not_usable("private key", &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| not_usable("TLS library", &error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| not_usable("certificate", &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_certificate_is_used_again() {
        let directory = tempfile::tempdir().expect("a directory");
        self_signed(Some(directory.path())).expect("it is made");
        let file = directory.path().join("tls/cert.pem");
        let first = std::fs::read(&file).expect("it is kept");
        self_signed(Some(directory.path())).expect("it is read");
        assert_eq!(std::fs::read(&file).expect("it is kept"), first);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_the_key() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        self_signed(Some(directory.path())).expect("it is made");
        let mode = std::fs::metadata(directory.path().join("tls/key.pem"))
            .expect("it is kept")
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0);
    }

    #[test]
    fn a_damaged_certificate_is_replaced_but_one_of_the_user_is_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        self_signed(Some(directory.path())).expect("it is made");
        let (certificate, key) = (
            directory.path().join("tls/cert.pem"),
            directory.path().join("tls/key.pem"),
        );
        std::fs::write(&certificate, "nothing").expect("it is written");
        assert!(from_files(&certificate, &key).is_err());
        self_signed(Some(directory.path())).expect("it is replaced");
        from_files(&certificate, &key).expect("it fits now");
    }
}
