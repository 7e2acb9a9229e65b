//! The self-signed certificate of a server, and its file in the data directory.
//!
//! The certificate is stored, so that clients that trust it need not change at each start. It is
//! issued again, with the same key, when it lacks a name that the server has now and before it
//! expires. It names this machine only and is valid for less than a year, which limits the harm of
//! a stolen copy. A server that keeps its data in memory creates a new certificate at each start.

use crate::failure::Failure;
use crate::private_file;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp, civil::Date, tz::Offset};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, KeyPair, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Validity of a self-signed certificate in days.
const VALID_DAYS: i64 = 360;
/// Days before its end at which a stored certificate is issued again.
const RENEW_DAYS: i64 = 60;

/// A certificate and its private key in PEM.
pub(crate) struct PemPair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The facts that a certificate states.
#[derive(Debug, PartialEq, Eq)]
pub struct Facts {
    /// Host names and addresses, in lower case.
    pub names: Vec<String>,
    /// End of the validity, in seconds since 1970.
    pub expires: i64,
}

/// Returns the files of the certificate and of the key in a data directory.
pub fn files(data_dir: &Path) -> (PathBuf, PathBuf) {
    let directory = data_dir.join("tls");
    (directory.join("cert.pem"), directory.join("key.pem"))
}

/// Returns the stored certificate if it has all names and does not expire soon; otherwise creates
/// one, and stores it if there is a `data_dir`.
///
/// # Errors
/// The certificate cannot be created or stored.
pub(crate) fn load_or_create(
    data_dir: Option<&Path>,
    extra_names: &[String],
) -> Result<PemPair, Failure> {
    let names = wanted_names(extra_names);
    let Some(data_dir) = data_dir else {
        return create(&names, None);
    };
    let (certificate_file, key_file) = files(data_dir);
    let stored_key = std::fs::read_to_string(&key_file).ok();
    let stored_certificate = std::fs::read_to_string(&certificate_file).ok();

    // A stored certificate that does not fit is replaced without further notice: the server
    // created it, so nothing of the user's is lost.
    if let (Some(certificate), Some(key)) = (stored_certificate, &stored_key)
        && is_good(&certificate, &names)
        && crate::tls::from_pem(certificate.as_bytes(), key.as_bytes()).is_ok()
    {
        return Ok(PemPair {
            certificate,
            key: key.clone(),
        });
    }

    let key = stored_key.and_then(|text| KeyPair::from_pem(&text).ok());
    let pair = create(&names, key)?;
    let directory = data_dir.join("tls");
    private_file::create_directory(&directory)
        .and_then(|()| private_file::write(&key_file, pair.key.as_bytes()))
        .and_then(|()| private_file::write(&certificate_file, pair.certificate.as_bytes()))
        .map_err(|error| {
            Failure::Failed(format!(
                "cannot store a certificate in {}: {error}",
                directory.display()
            ))
        })?;
    Ok(pair)
}

/// Returns the names of this machine and `extra_names`, each once.
///
/// Clients on this machine use one of the first three; other machines use the host name, and
/// containers reach their host by `host.docker.internal`.
fn wanted_names(extra_names: &[String]) -> Vec<String> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1", "host.docker.internal"]
        .map(str::to_owned)
        .to_vec();
    names.extend(host_name());
    names.extend(extra_names.iter().cloned());
    let mut unique: Vec<String> = Vec::new();
    for name in names {
        let name = name.to_ascii_lowercase();
        if !unique.contains(&name) {
            unique.push(name);
        }
    }
    unique
}

/// Returns true if a certificate has all `names` and does not expire soon.
fn is_good(certificate: &str, names: &[String]) -> bool {
    let Some(facts) = facts_of_pem(certificate) else {
        return false;
    };
    let last_day = Timestamp::now().as_second() + RENEW_DAYS * 24 * 60 * 60;
    facts.expires > last_day && names.iter().all(|name| facts.names.contains(name))
}

/// Returns the facts of the first certificate of a PEM text; `None` if there is none.
pub(crate) fn facts_of_pem(pem: &str) -> Option<Facts> {
    let der = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    facts(&der)
}

/// Returns the facts of a certificate; `None` if it cannot be parsed.
pub fn facts(der: &[u8]) -> Option<Facts> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let mut names = Vec::new();
    if let Ok(Some(extension)) = certificate.subject_alternative_name() {
        for name in &extension.value.general_names {
            match name {
                GeneralName::DNSName(name) => names.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => names.extend(address_of(bytes)),
                _ => {}
            }
        }
    }
    Some(Facts {
        names,
        expires: certificate.validity().not_after.timestamp(),
    })
}

fn address_of(bytes: &[u8]) -> Option<String> {
    let address: IpAddr = match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok()?.into(),
        16 => <[u8; 16]>::try_from(bytes).ok()?.into(),
        _ => return None,
    };
    Some(address.to_string())
}

/// Creates a self-signed certificate, with a new key if there is none.
fn create(names: &[String], key: Option<KeyPair>) -> Result<PemPair, Failure> {
    let cannot_create =
        |error: rcgen::Error| Failure::Failed(format!("cannot create a certificate: {error}"));
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

    let key = match key {
        Some(key) => key,
        None => KeyPair::generate().map_err(cannot_create)?,
    };
    let certificate = parameters.self_signed(&key).map_err(cannot_create)?;
    Ok(PemPair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// Returns the date in UTC that is `days` after today.
fn days_from_now(days: i64) -> Date {
    let time = Timestamp::now()
        .saturating_add(SignedDuration::from_hours(24 * days))
        .unwrap_or(Timestamp::MAX);
    Offset::UTC.to_datetime(time).date()
}

/// Returns the name of this machine in lower case, if a certificate can contain it.
pub(crate) fn host_name() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"))
        .or_else(|_| std::env::var("COMPUTERNAME"))
        .ok()?;
    parse_name(name.trim()).ok()
}

/// Parses a host name or an address that a certificate can contain; `*.` may stand before a name.
///
/// # Errors
/// The text is neither.
pub fn parse_name(text: &str) -> Result<String, String> {
    let text = text.trim().to_ascii_lowercase();
    if let Ok(address) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        return Ok(address.to_string());
    }
    let name = text.strip_prefix("*.").unwrap_or(&text);
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_name = name.len() <= 253
        && name
            .split('.')
            .all(|label| !label.is_empty() && label.len() <= 63 && label.bytes().all(is_allowed));
    if is_name {
        return Ok(text);
    }
    Err("it is neither a host name, such as db.example.com, nor an address".to_owned())
}

/// Returns a certificate in PEM.
pub fn to_pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        pem.push_str(&String::from_utf8_lossy(line));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(directory: &Path, names: &[&str]) -> PemPair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        load_or_create(Some(directory), &names).expect("a certificate")
    }

    #[test]
    fn a_stored_certificate_is_used_again() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = stored(directory.path(), &[]);
        assert_eq!(stored(directory.path(), &[]).certificate, first.certificate);
    }

    #[test]
    fn a_missing_name_issues_the_certificate_again_with_the_same_key() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = stored(directory.path(), &[]);
        let second = stored(directory.path(), &["DB.example.com", "192.0.2.7"]);
        assert_ne!(second.certificate, first.certificate);
        assert_eq!(second.key, first.key);
        let facts = facts_of_pem(&second.certificate).expect("facts");
        for name in [
            "localhost",
            "::1",
            "host.docker.internal",
            "db.example.com",
            "192.0.2.7",
        ] {
            assert!(facts.names.contains(&name.to_owned()), "{name}: {facts:?}");
        }
        let days = (facts.expires - Timestamp::now().as_second()) / (24 * 60 * 60);
        assert!((300..366).contains(&days), "{days}");
        // A certificate with more names than needed stays.
        assert_eq!(
            stored(directory.path(), &[]).certificate,
            second.certificate
        );
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_may_read_the_key() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().expect("a directory");
        stored(directory.path(), &[]);
        let mode = std::fs::metadata(directory.path().join("tls/key.pem"))
            .expect("it is kept")
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0);
    }

    #[test]
    fn a_damaged_certificate_is_replaced() {
        let directory = tempfile::tempdir().expect("a directory");
        let first = stored(directory.path(), &[]);
        for (damaged, file) in [("cert.pem", "tls/cert.pem"), ("key.pem", "tls/key.pem")] {
            std::fs::write(directory.path().join(file), "nothing").expect("it is written");
            let next = stored(directory.path(), &[]);
            assert_ne!(next.certificate, first.certificate, "{damaged}");
            crate::tls::from_pem(next.certificate.as_bytes(), next.key.as_bytes()).expect("fits");
        }
    }

    #[test]
    fn a_name_is_a_host_or_an_address() {
        for (text, name) in [
            ("DB.example.com", "db.example.com"),
            ("*.example.com", "*.example.com"),
            ("[::1]", "::1"),
            ("192.0.2.1", "192.0.2.1"),
        ] {
            assert_eq!(parse_name(text).as_deref(), Ok(name));
        }
        for text in ["", "a b", "https://a", "a..b", "a:80", "*"] {
            assert!(parse_name(text).is_err(), "{text}");
        }
    }
}
