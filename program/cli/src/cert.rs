//! `orrery cert`: the certificate of a server for its clients.
//!
//! The certificate comes from the data directory, or from a running server, which shows it in the
//! TLS handshake. The handshake is not verified: its only purpose is to see the certificate.

use crate::command::{CertAction, CertArguments, CertFormat, CertSource};
use jiff::Timestamp;
use orrery_server::data_dir::{self, SERVER};
use orrery_server::{Failure, certificate, pfx, private_file};
use orrery_tools::fault::no_server;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Timeout of each step of a handshake.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Variable with the password of a file that is written.
const PASSWORD_VARIABLE: &str = "ORRERY_CERT_PASSWORD";
/// Name of the file in the folders of trusted certificates.
const INSTALLED: &str = "orrery.crt";
/// Folders of trusted certificates, each with the command that reads it.
const TRUST_FOLDERS: &[(&str, &[&str])] = &[
    (
        "/usr/local/share/ca-certificates",
        &["update-ca-certificates"],
    ),
    (
        "/etc/pki/ca-trust/source/anchors",
        &["update-ca-trust", "extract"],
    ),
    (
        "/etc/ca-certificates/trust-source/anchors",
        &["trust", "extract-compat"],
    ),
];

/// Runs the command.
///
/// # Errors
/// [`Failure::Failed`] if there is no certificate or a file cannot be written; [`Failure::Usage`]
/// for options that do not fit together.
pub(crate) fn run(arguments: &CertArguments) -> Result<(), Failure> {
    match &arguments.action {
        CertAction::Print(source) => {
            let certificate = load(source)?;
            describe(&certificate);
            let pem = certificate::to_pem(&certificate);
            io::stdout().write_all(pem.as_bytes()).map_err(|error| {
                Failure::Failed(format!("cannot write to standard output: {error}"))
            })
        }
        CertAction::Export {
            source,
            output,
            format,
            password_file,
        } => export(source, output, *format, password_file.as_deref()),
        CertAction::Install { source, dry_run } => install(source, *dry_run),
        CertAction::JavaKeystore {
            source,
            output,
            password_file,
        } => {
            let certificate = load(source)?;
            let password = password(password_file.as_deref())?;
            // The store holds nothing secret, and this is the password that Java expects.
            let password = password.unwrap_or_else(|| "changeit".to_owned());
            write(output, &pfx::trust_store(&certificate, &password)?)?;
            describe(&certificate);
            Ok(())
        }
    }
}

fn export(
    source: &CertSource,
    output: &Path,
    format: CertFormat,
    password_file: Option<&Path>,
) -> Result<(), Failure> {
    let certificate = load(source)?;
    let bytes = match format {
        CertFormat::Pem => certificate::to_pem(&certificate).into_bytes(),
        CertFormat::Der => certificate.to_vec(),
        CertFormat::Pfx => {
            if source.endpoint.is_some() {
                return Err(Failure::Usage(
                    "a PFX file holds the private key, which a server never shows: use --data-dir"
                        .to_owned(),
                ));
            }
            let password = password(password_file)?.ok_or_else(|| {
                Failure::Usage(format!(
                    "a PFX file needs a password: use --password-file or the variable \
                     {PASSWORD_VARIABLE}"
                ))
            })?;
            let (_, key_file) = files(source)?;
            let key = PrivateKeyDer::from_pem_file(&key_file).map_err(|error| {
                Failure::Failed(format!(
                    "cannot read the key {}: {error}",
                    key_file.display()
                ))
            })?;
            pfx::with_key(&certificate, key.secret_der(), &password)?
        }
    };
    write(output, &bytes)?;
    describe(&certificate);
    Ok(())
}

fn write(output: &Path, bytes: &[u8]) -> Result<(), Failure> {
    private_file::write(output, bytes)
        .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", output.display())))
}

/// Returns the password in the file or the variable.
fn password(file: Option<&Path>) -> Result<Option<String>, Failure> {
    match file {
        Some(file) => pfx::password_from_file(file).map(Some),
        None => Ok(std::env::var(PASSWORD_VARIABLE)
            .ok()
            .filter(|text| !text.is_empty())),
    }
}

/// Writes the names, the end and the fingerprint of a certificate to standard error.
fn describe(certificate: &[u8]) {
    let digest: Vec<String> = Sha256::digest(certificate)
        .iter()
        .map(|byte| format!("{byte:02X}"))
        .collect();
    let mut text = String::new();
    if let Some(facts) = certificate::facts(certificate) {
        let end = Timestamp::from_second(facts.expires).map(|time| time.to_string());
        text.push_str(&format!("names:       {}\n", facts.names.join(", ")));
        text.push_str(&format!("valid until: {}\n", end.unwrap_or_default()));
    }
    text.push_str(&format!("SHA-256:     {}\n", digest.join(":")));
    // If standard error is closed, the description is lost and the file is not.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Installs the certificate for the programs of this system.
fn install(source: &CertSource, dry_run: bool) -> Result<(), Failure> {
    let certificate = load(source)?;
    let found = TRUST_FOLDERS
        .iter()
        .find(|(folder, _)| Path::new(folder).is_dir());
    let Some((folder, command)) = found else {
        return Err(Failure::Failed(
            "this system has none of the known folders for trusted certificates: run 'orrery cert \
             export', then on macOS 'security add-trusted-cert -d -k \
             /Library/Keychains/System.keychain FILE', on Windows 'certutil -addstore Root FILE'"
                .to_owned(),
        ));
    };
    let file = Path::new(folder).join(INSTALLED);
    describe(&certificate);
    let steps = format!("write {}\nrun {}\n", file.display(), command.join(" "));
    let _ = io::stderr().write_all(steps.as_bytes());
    if dry_run {
        return Ok(());
    }
    std::fs::write(&file, certificate::to_pem(&certificate)).map_err(|error| {
        Failure::Failed(format!(
            "cannot write {}: {error}; run the command as root",
            file.display()
        ))
    })?;
    // Other users read the file; the certificate is no secret.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let readable = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(&file, readable).map_err(|error| {
            Failure::Failed(format!("cannot make {} readable: {error}", file.display()))
        })?;
    }
    let (program, rest) = command.split_first().unwrap_or((&"true", &[]));
    let status = Command::new(program).args(rest).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::Failed(format!("{program} failed: {status}"))),
        Err(error) => Err(Failure::Failed(format!("cannot run {program}: {error}"))),
    }
}

/// Returns the files of the certificate and the key.
fn files(source: &CertSource) -> Result<(PathBuf, PathBuf), Failure> {
    let directory = data_dir::locate(source.data_dir.as_deref(), SERVER)?;
    Ok(certificate::files(&directory))
}

/// Returns the certificate of the server.
fn load(source: &CertSource) -> Result<CertificateDer<'static>, Failure> {
    if let Some(endpoint) = &source.endpoint {
        return fetch(endpoint);
    }
    let (file, _) = files(source)?;
    CertificateDer::from_pem_file(&file).map_err(|error| {
        Failure::Failed(format!(
            "there is no certificate in {}: {error}; a server creates it at its first start, and a \
             server with --memory has one at its --endpoint only",
            file.display()
        ))
    })
}

/// Returns the certificate that a running server shows.
fn fetch(endpoint: &str) -> Result<CertificateDer<'static>, Failure> {
    let rest = endpoint
        .strip_prefix("https://")
        .or_else(|| endpoint.strip_prefix("http://"))
        .unwrap_or(endpoint);
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && port.parse::<u16>().is_ok() => {
            (host, port.parse().unwrap_or(8081))
        }
        _ => (authority, 8081),
    };
    let host = host.trim_matches(['[', ']']).to_owned();
    let failed = |error: &dyn std::fmt::Display| {
        Failure::Failed(format!("cannot reach {endpoint}: {error}"))
    };
    let name = ServerName::try_from(host.clone()).map_err(|error| failed(&error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let mut connection =
        ClientConnection::new(Arc::new(config), name).map_err(|error| failed(&error))?;
    let mut last = io::Error::other("the name has no address");
    for address in (host.as_str(), port)
        .to_socket_addrs()
        .map_err(|error| failed(&error))?
    {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(mut stream) => {
                let timeouts = stream
                    .set_read_timeout(Some(TIMEOUT))
                    .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
                timeouts.map_err(|error| failed(&error))?;
                while connection.is_handshaking() {
                    connection
                        .complete_io(&mut stream)
                        .map_err(|error| failed(&error))?;
                }
                let first = connection
                    .peer_certificates()
                    .and_then(|chain| chain.first());
                return match first {
                    Some(certificate) => Ok(certificate.clone().into_owned()),
                    None => Err(failed(&"the server shows no certificate")),
                };
            }
            Err(error) => last = error,
        }
    }
    let words = no_server(endpoint, &last.to_string(), "--endpoint");
    Err(Failure::Failed(words))
}

/// Accepts every certificate, in order to look at it.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
