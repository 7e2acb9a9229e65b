//! Arguments of `orrery cert`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const CERT_HELP: &str = "\
Examples:
  orrery cert print --endpoint https://localhost:8081
  orrery cert export --data-dir ./data --output orrery.pem
  orrery cert java-keystore --endpoint https://localhost:8081 --output trust.p12
    java -Djavax.net.ssl.trustStore=trust.p12 -Djavax.net.ssl.trustStorePassword=changeit ...
  sudo orrery cert install --endpoint https://localhost:8081

The certificate of a server is taken as the server shows it: compare the fingerprint if the network
between is not yours.";

/// Arguments of `orrery cert`.
#[derive(Debug, Args)]
pub(crate) struct CertArguments {
    #[command(subcommand)]
    pub(crate) action: CertAction,
}

/// The server whose certificate is meant.
#[derive(Debug, Args)]
pub(crate) struct CertSource {
    /// Data directory of the server [default: $XDG_DATA_HOME/orrery, or ~/.local/share/orrery]
    #[arg(long, value_name = "DIR", env = "ORRERY_DATA_DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// URL of a running server, in place of its data directory
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
}

/// Actions on the certificate of a server.
#[derive(Debug, Subcommand)]
pub(crate) enum CertAction {
    /// Print the certificate in PEM, and its names and its fingerprint on standard error
    Print(CertSource),
    /// Write the certificate to a file
    Export {
        #[command(flatten)]
        source: CertSource,
        /// File to write
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
        /// Format of the file; pfx holds the private key and needs the data directory
        #[arg(long, value_enum, default_value_t = CertFormat::Pem)]
        format: CertFormat,
        /// File with the password of a PFX file [default: the variable ORRERY_CERT_PASSWORD]
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// Let this system trust the certificate; needs the rights of root
    Install {
        #[command(flatten)]
        source: CertSource,
        /// Say what would be done, and change nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Write a trust store for Java in PKCS #12
    JavaKeystore {
        #[command(flatten)]
        source: CertSource,
        /// File to write
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
        /// File with the password [default: the variable ORRERY_CERT_PASSWORD, or 'changeit']
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
}

/// Formats of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CertFormat {
    /// Text
    Pem,
    /// Binary
    Der,
    /// PKCS #12 with the private key and a password
    Pfx,
}
