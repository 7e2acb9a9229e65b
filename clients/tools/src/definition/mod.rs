//! The definition of databases: a file or a folder that states them, read, applied and written.
//!
//! ```text
//! model     the form: databases, containers, scripts, items
//! read      a file or folder as a definition; errors name file, line and field
//! cosmium   the state file of cosmium as a definition
//! scripts   scripts of the vendor's shell as a definition
//! matching  the comparison of stated settings with those of a container
//! apply     creates what an account lacks
//! dump      the definition of an account
//! write     a definition as a file or folder
//! ```
//!
//! A dump that is applied to an empty account and dumped again gives the same text. Users,
//! permissions and the versions of items are no part of a definition.

mod apply;
mod cosmium;
mod dump;
mod matching;
mod members;
mod model;
mod read;
mod scripts;
mod write;

pub use apply::{AppliedChanges, ExistingMode, apply};
pub use dump::dump;
pub(crate) use dump::encryption_keys;
pub use model::{
    ContainerDefinition, DatabaseDefinition, Definition, Script, StatedThroughput, Trigger,
};
pub use read::{read, read_seeds};
pub use write::{replace_file, write_file, write_folder};

use crate::fault::{self, Voice};
use orrery_client::ClientError;
use std::fmt;

/// The failure of a definition.
#[derive(Debug)]
pub enum DefinitionError {
    /// A file cannot be read or written, or its contents are wrong; the text names the place.
    File(String),
    /// The account has something else than the definition states.
    Differs(String),
    /// A request for a resource failed.
    Request {
        /// The resource, for example `container shop/orders`.
        resource: String,
        /// The failure.
        error: ClientError,
    },
}

impl fmt::Display for DefinitionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(text) | Self::Differs(text) => f.write_str(text),
            Self::Request { resource, error } => {
                let words = fault::of_request(error, None, Voice::Command);
                write!(f, "{resource}: {words}")
            }
        }
    }
}

impl std::error::Error for DefinitionError {}

/// Returns the failure of a request for `resource`.
fn failed(resource: impl Into<String>) -> impl FnOnce(ClientError) -> DefinitionError {
    let resource = resource.into();
    move |error| DefinitionError::Request { resource, error }
}
