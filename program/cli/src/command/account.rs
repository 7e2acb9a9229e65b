//! Arguments that name an account, for the data tools.

use clap::Args;
use orrery_client::{ConnectionOptions, Secret};
use std::path::PathBuf;

/// The account that a data tool uses.
#[derive(Debug, Clone, Args)]
pub(crate) struct AccountArguments {
    /// Endpoint of the account [default: that of ORRERY_ENDPOINT, of a connection string in
    /// ORRERY_CONNECTION_STRING or AZURE_COSMOS_CONNECTION_STRING, of COSMOS_ENDPOINT, or
    /// http://127.0.0.1:8081/]
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    #[command(flatten)]
    pub(crate) key: KeyArguments,
    /// Accept any certificate
    #[arg(long, conflicts_with = "ca_file")]
    pub(crate) insecure: bool,
    /// File in PEM with the root certificates to accept
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_file: Option<PathBuf>,
}

/// The key of an account.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct KeyArguments {
    /// Account key. Other users of the machine can see arguments: a key that is not public belongs
    /// in a file or in ORRERY_KEY
    #[arg(long, value_name = "KEY", conflicts_with = "key_file")]
    pub(crate) key: Option<Secret>,
    /// File with the account key [default: ORRERY_KEY, COSMOS_KEY, or for this machine the
    /// well-known key]
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

impl AccountArguments {
    /// Returns the options of the client.
    pub(crate) fn options(&self) -> ConnectionOptions {
        ConnectionOptions {
            endpoint: self.endpoint.clone(),
            key: self.key.key.clone(),
            key_file: self.key.key_file.clone(),
            insecure: self.insecure,
            ca_file: self.ca_file.clone(),
            ..ConnectionOptions::default()
        }
    }
}
