//! The mark of a data directory whose data `orrery migrate-store` has copied to clusters.
//!
//! The clusters get all later writes, so a server on the directory would answer with old data. The
//! mark is a file beside the data; a server that finds it refuses to start, unless the operator
//! accepts old data.

use crate::failure::Failure;
use crate::private_file;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the mark.
pub(crate) const FILE: &str = "MOVED-TO-CLUSTERS";

fn file(directory: &Path) -> PathBuf {
    directory.join(FILE)
}

/// Marks a data directory whose data is in the clusters of a file now.
///
/// # Errors
/// The file cannot be written.
pub fn mark(directory: &Path, cluster_file: &Path) -> io::Result<()> {
    let text = format!(
        "The data beside this file was copied to the PostgreSQL clusters of {}, which have all \
         later writes.\n",
        cluster_file.display()
    );
    private_file::write(&file(directory), text.as_bytes())
}

/// Removes the mark of a directory that gets data again.
///
/// # Errors
/// The file cannot be removed.
pub fn unmark(directory: &Path) -> io::Result<()> {
    match std::fs::remove_file(file(directory)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Checks that the data of a directory is in use, or that the operator accepts old data. Returns a
/// warning for the log if the data is old.
///
/// # Errors
/// [`Failure::Data`] that names the way to the present data.
pub(crate) fn check(directory: &Path, accepts_stale: bool) -> Result<Option<String>, Failure> {
    let file = file(directory);
    let is_moved = file
        .try_exists()
        .map_err(|error| Failure::Data(format!("cannot look for {}: {error}", file.display())))?;
    if !is_moved {
        return Ok(None);
    }
    let old = format!(
        "the data of {} was moved to clusters by 'orrery migrate-store', and has none of the \
         later writes",
        directory.display()
    );
    match accepts_stale {
        true => Ok(Some(old)),
        false => Err(Failure::Data(format!(
            "{old}: start with --store postgres and the cluster file that {} names, or add \
             --accept-stale to serve the old data",
            file.display()
        ))),
    }
}
