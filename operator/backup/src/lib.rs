//! Backups of a store in a data directory, taken while the store is open and written.
//!
//! A *repository* is a folder, or a prefix of a bucket, with the backups of one store:
//!
//! ```text
//! orrery-backups.json   marker: format, id of the store, a sentence for people
//! objects/ab/ab34…      contents of files, named by their SHA-256; many backups share one
//! backups/ID.json       manifest of a backup: its files with their hashes, the heads, totals
//! log/                  the log of the store since some of the backups (log/mod.rs)
//! lock                  locked while a process changes the repository; holds the process id
//! ```
//!
//! A path that ends with `.tar.zst` is a file with one whole backup instead: the marker, the files
//! under `files/`, and the manifest as the last entry.
//!
//! - `create.rs`: a checkpoint of the store, copied to a `Sink` (`sink.rs`);
//! - `repository.rs` and `archive.rs`: the two forms, each with a sink and a way to read a backup;
//!   `source.rs`: reading of either form;
//! - `place/`: the files of a repository, in a folder or in a bucket of an S3 service;
//! - `manifest.rs`: the text of manifests and of the marker;
//! - `verify.rs`, `prune.rs`, `restore.rs`: what is done with backups;
//! - `log/`: the continuous backup, and the restore of a moment;
//! - `files.rs`: durable writes, hashes and the lock; `pace.rs`: the limit of bytes per second.
//!
//! Promised:
//!
//! 1. A manifest is listed only if all its objects are durable: they are synced before it, and it
//!    is renamed into place. A process that is killed at any point leaves temporary files.
//! 2. Nothing but [`prune`] removes an object or a manifest, and it keeps the newest backup.
//! 3. A restored file has the hash of its manifest, or the restore fails. The format file of the
//!    data directory is written last, so a store whose restore did not finish does not open.
//! 4. A repository has the backups of one store. All files of a folder are readable by their owner
//!    only.
//!
//! Left out: encryption, and the time of day: a caller passes the moment. The fleet's data is in
//! PostgreSQL, which has backups of its own.

mod archive;
mod create;
mod error;
mod files;
mod log;
mod manifest;
mod pace;
mod place;
mod prune;
mod repository;
mod restore;
mod sink;
mod source;
mod verify;

pub use archive::is_archive;
pub use create::{CreateOptions, ExtraFile, Summary, create};
pub use error::{BackupError, time_text};
pub use log::{
    BaseBegun, ContinuousBackup, ContinuousOptions, Expired, Expiry, LogProblem, Moment,
    RestoredMoment, Round, VerifiedSpan, Window, create_base, limit_kept, restore_to, windows,
};
pub use manifest::{Manifest, ManifestFile};
pub use place::{check_address, is_remote};
pub use prune::{Pruned, Retention, prune};
pub use restore::{Restored, UNFINISHED_FILE, restore};
pub use source::{Listing, UnreadableBackup, list};
pub use verify::{Fault, Problem, Verified, verify};

/// The progress of an operation, for a person. Passed on after each piece of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The file under way, by its name inside of the data directory.
    pub file: String,
    /// Files that are finished.
    pub files_done: u64,
    /// All files; 0 if the number is not known, as with a file that is read from its start.
    pub files_total: u64,
    /// Bytes that are finished.
    pub bytes_done: u64,
    /// Bytes of all files; 0 if the number is not known.
    pub bytes_total: u64,
}

/// The receiver of the progress of an operation.
pub type OnProgress<'a> = &'a mut dyn FnMut(&Progress);
