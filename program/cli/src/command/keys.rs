//! Arguments of `orrery keys`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

pub(super) const KEYS_HELP: &str = "\
Examples:
  orrery keys create --key-file account.key
  orrery keys regenerate --kind secondary --key-file account.key
  kill -HUP \"$(pidof orrery)\"

To replace the key that clients use, without interruption:
  1. Switch the clients to the secondary key.
  2. Regenerate the primary key.
  3. Send SIGHUP to the server.
  4. Switch the clients back to the primary key.

From step 3 on the server refuses requests signed with the old primary key, and resource tokens
that were requested with it.";

/// Arguments of `orrery keys`.
#[derive(Debug, Args)]
pub(crate) struct KeysArguments {
    #[command(subcommand)]
    pub(crate) action: KeysAction,
}

/// Actions on a key file.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysAction {
    /// Create a file with four new keys; an existing file is not overwritten
    Create {
        /// File to create
        #[arg(long, value_name = "FILE", env = "ORRERY_KEY_FILE")]
        key_file: PathBuf,
    },
    /// Replace one key in a file; a running server reads the new key at SIGHUP
    Regenerate {
        /// File to change
        #[arg(long, value_name = "FILE", env = "ORRERY_KEY_FILE")]
        key_file: PathBuf,
        /// Key to replace; added if the file does not contain it
        #[arg(long, value_enum)]
        kind: KeyKind,
    },
}

/// The keys of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KeyKind {
    /// Full access
    Primary,
    /// Full access
    Secondary,
    /// Read access
    PrimaryReadOnly,
    /// Read access
    SecondaryReadOnly,
}

impl From<KeyKind> for orrery_server::keys::KeyKind {
    fn from(kind: KeyKind) -> Self {
        match kind {
            KeyKind::Primary => Self::Primary,
            KeyKind::Secondary => Self::Secondary,
            KeyKind::PrimaryReadOnly => Self::PrimaryReadOnly,
            KeyKind::SecondaryReadOnly => Self::SecondaryReadOnly,
        }
    }
}
