//! The certificate: the operator's, or one that we sign ourselves and keep.
//!
//! A certificate of our own names this machine only, lives less than a year and is made anew when it grows old, so
//! that a copy of it is worth little. In memory mode it lives as long as the process.

use crate::failure::Failure;
use jiff::{SignedDuration, Timestamp, tz::Offset};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Days that a certificate of our own is valid.
const VALID_DAYS: i64 = 360;
/// Days after which a kept one is made anew.
const RENEW_DAYS: u64 = 300;

/// TLS with the operator's certificate.
///
/// # Errors
/// A file cannot be read, is no PEM, or the key does not fit the certificate.
pub(crate) fn from_files(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, Failure> {
    let unreadable = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| Failure::Failed(format!("cannot read {}: {error}", path.display())))
    };
    config(&unreadable(certificate)?, &unreadable(key)?)
}

/// TLS with a certificate of our own, kept in `directory` if there is one.
///
/// # Errors
/// It cannot be made or kept.
pub(crate) fn self_signed(directory: Option<&Path>) -> Result<Arc<ServerConfig>, Failure> {
    let Some(directory) = directory.map(|d| d.join("tls")) else {
        let (certificate, key) = make()?;
        return config(certificate.as_bytes(), key.as_bytes());
    };
    let (certificate_file, key_file) = (directory.join("cert.pem"), directory.join("key.pem"));
    if is_young(&certificate_file)
        && let Ok(kept) = from_files(&certificate_file, &key_file)
    {
        return Ok(kept);
    }
    let (certificate, key) = make()?;
    let kept = std::fs::create_dir_all(&directory)
        .and_then(|()| write_private(&key_file, key.as_bytes()))
        .and_then(|()| std::fs::write(&certificate_file, &certificate));
    kept.map_err(|error| {
        Failure::Failed(format!(
            "cannot keep a certificate in {}: {error}",
            directory.display()
        ))
    })?;
    config(certificate.as_bytes(), key.as_bytes())
}

fn is_young(file: &Path) -> bool {
    let age = std::fs::metadata(file)
        .and_then(|m| m.modified())
        .ok()
        .and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age < Duration::from_secs(RENEW_DAYS * 24 * 60 * 60))
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

/// A new certificate and its key, in PEM.
fn make() -> Result<(String, String), Failure> {
    let failed =
        |error: rcgen::Error| Failure::Failed(format!("cannot make a certificate: {error}"));
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"]
        .map(str::to_owned)
        .to_vec();
    names.extend(host_name().filter(|name| !names.contains(name)));
    let mut parameters = CertificateParams::new(names).map_err(failed)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, "orrery, self-signed");
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let day = |days: i64| {
        let then = Timestamp::now()
            .saturating_add(SignedDuration::from_hours(24 * days))
            .unwrap_or(Timestamp::MAX);
        let date = Offset::UTC.to_datetime(then).date();
        date_time_ymd(date.year().into(), date.month() as u8, date.day() as u8)
    };
    parameters.not_before = day(-1);
    parameters.not_after = day(VALID_DAYS);
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = parameters.self_signed(&key).map_err(failed)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

/// This machine's name, if it is one that a certificate can hold.
fn host_name() -> Option<String> {
    let from_file = |path: &str| std::fs::read_to_string(path).ok();
    let name = from_file("/proc/sys/kernel/hostname")
        .or_else(|| from_file("/etc/hostname"))
        .or_else(|| std::env::var("COMPUTERNAME").ok())?;
    let name = name.trim().to_ascii_lowercase();
    let good = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.');
    good.then_some(name)
}

fn config(certificate: &[u8], key: &[u8]) -> Result<Arc<ServerConfig>, Failure> {
    let wrong = |what: &str, error: &dyn std::fmt::Display| {
        Failure::Failed(format!("the {what} is not usable: {error}"))
    };
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| wrong("certificate", &error))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| wrong("private key", &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong("TLS library", &error))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| wrong("certificate", &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_certificate_is_used_again() {
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
    fn a_broken_certificate_is_made_anew_and_a_broken_one_of_the_operator_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        self_signed(Some(directory.path())).expect("it is made");
        let (certificate, key) = (
            directory.path().join("tls/cert.pem"),
            directory.path().join("tls/key.pem"),
        );
        std::fs::write(&certificate, "nothing").expect("it is written");
        assert!(from_files(&certificate, &key).is_err());
        self_signed(Some(directory.path())).expect("it is made anew");
        from_files(&certificate, &key).expect("it fits now");
    }
}
