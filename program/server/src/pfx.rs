//! PFX files (PKCS #12): a certificate with its key for servers, or certificates to trust for Java.

use crate::failure::Failure;
use orrery_client::files::read_text;
use p12_keystore::{
    Certificate, KeyStore, KeyStoreEntry, Pkcs12ImportPolicy, PrivateKey, PrivateKeyChain,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::path::Path;

/// Name of the entries that are written.
const ALIAS: &str = "orrery";

/// Reads the certificate chain and the key of a PFX file.
///
/// # Errors
/// The file is damaged, the password is wrong, or the file has no key.
pub(crate) fn read(
    bytes: &[u8],
    password: &str,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Failure> {
    let store =
        KeyStore::from_pkcs12(bytes, password, Pkcs12ImportPolicy::Relaxed).map_err(|error| {
            Failure::Failed(format!(
                "this is neither PEM nor a PFX file that this password opens: {error}"
            ))
        })?;
    let (_, chain) = store
        .private_key_chain()
        .filter(|(_, chain)| !chain.certs().is_empty())
        .ok_or_else(|| {
            Failure::Failed("the PFX file has no certificate with a private key".to_owned())
        })?;
    let certificates = chain
        .certs()
        .iter()
        .map(|certificate| certificate.as_der().to_vec().into())
        .collect();
    let key = PrivatePkcs8KeyDer::from(chain.key().as_der().to_vec());
    Ok((certificates, key.into()))
}

/// Returns a PFX file with a certificate and its key in PKCS #8.
///
/// # Errors
/// The certificate or the key cannot be encoded.
pub fn with_key(certificate: &[u8], key: &[u8], password: &str) -> Result<Vec<u8>, Failure> {
    let certificate = Certificate::from_der(certificate).map_err(cannot_write)?;
    let key = PrivateKey::from_der(key).map_err(cannot_write)?;
    let chain = PrivateKeyChain::new(b"orrery".as_slice(), key, [certificate]);
    write(KeyStoreEntry::PrivateKeyChain(chain), password)
}

/// Returns a PKCS #12 trust store for Java.
///
/// # Errors
/// The certificate cannot be encoded.
pub fn trust_store(certificate: &[u8], password: &str) -> Result<Vec<u8>, Failure> {
    let certificate = Certificate::from_der(certificate).map_err(cannot_write)?;
    write(KeyStoreEntry::Certificate(certificate), password)
}

fn write(entry: KeyStoreEntry, password: &str) -> Result<Vec<u8>, Failure> {
    let mut store = KeyStore::new();
    store.add_entry(ALIAS, entry);
    store.writer(password).write().map_err(cannot_write)
}

fn cannot_write(error: p12_keystore::error::Error) -> Failure {
    Failure::Failed(format!("cannot create the PKCS #12 file: {error}"))
}

/// Reads a password from the first line of a file.
///
/// # Errors
/// The file cannot be read.
pub fn password_from_file(file: &Path) -> Result<String, Failure> {
    let text = read_text(file).map_err(|error| {
        Failure::Failed(format!(
            "cannot read the file {} with the password: {error}",
            file.display()
        ))
    })?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::certificate;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn a_file_that_was_written_can_be_read_with_its_password_only() {
        let pair = certificate::load_or_create(None, &[]).expect("a certificate");
        let der = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).expect("PEM");
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("PEM");
        let file = with_key(&der, key.secret_der(), "secret").expect("a file");
        let (chain, read_key) = read(&file, "secret").expect("the same");
        assert_eq!(chain, std::slice::from_ref(&der));
        assert_eq!(read_key.secret_der(), key.secret_der());
        assert!(read(&file, "wrong").is_err());
        assert!(read(b"nothing", "secret").is_err());
        let trust = trust_store(&der, "changeit").expect("a store");
        let refused = read(&trust, "changeit").expect_err("no key").to_string();
        assert!(refused.contains("private key"), "{refused}");
    }
}
