//! A simulated disk under real files: what a program writes below a directory is recorded, calls
//! can be made to fail, and the record gives the directories that a power loss can leave.
//!
//! ```text
//! code under test ─▶ write, fsync, … ─▶ calls ─▶ the real file
//!                                        │
//!                                        ▼
//!                                      record ─▶ image: a directory after a power loss
//! ```
//!
//! The functions of the C library that write and sync are replaced in every program that links this
//! crate (`calls.rs`). They do nothing else for files that are on no simulated disk. The code under
//! test is the real one with its libraries, which need no seam for files.
//!
//! # The model
//!
//! 1. A write is durable when a sync of its file has succeeded that began behind it, a name when a
//!    sync of its directory has. A sync that failed makes nothing durable. A later one makes up for
//!    it for names, and not for the bytes of files, which systems take for written then.
//! 2. Of what is not durable, a power loss keeps any part: of each file the writes in order up to
//!    any byte, or any sectors of 512 bytes or pages of 4 KiB; of each directory the changes of its
//!    names in order up to any of them. A file keeps bytes whose write was not followed by a sync
//!    of its name, but a file without a durable name is gone.
//! 3. Sectors that were lost hold what they held before, or zeros.
//!
//! This is weaker than what journalling file systems do: they write names in order over all
//! directories, and the name of a file with the first sync of the file.
//!
//! # Promises
//!
//! The record is complete: [`Disk::check_record`] compares it with the files.
//!
//! # Leaves out
//!
//! Memory-mapped files, permissions and times of files; the order of a removal and a creation of
//! names between two syncs; short writes; and systems other than Linux with the GNU C library and
//! 64 bits, on which this crate is empty.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

mod calls;
mod content;
mod image;
mod record;

pub use image::Image;

use std::io;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A place in the record of a disk: the number of operations before it.
pub type Position = usize;

/// A call that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `write`, `writev`, `pwrite` and the change of a length.
    Write,
    /// `fsync` and `fdatasync`.
    Sync,
}

/// Failures of calls, until [`Disk::repair`].
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// The call that fails.
    pub call: Call,
    /// The number of such calls that succeed before.
    pub after: u64,
    /// The number of such calls that fail then; the following ones succeed.
    pub times: u64,
    /// The number of the error, as `std::io::Error` has it: 5 is an I/O error, 28 a full disk.
    pub error: i32,
}

/// Syncs that a disk reports and does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syncs {
    /// Each so many-th sync of a file.
    OfFiles {
        /// The number of syncs of which one is not done.
        each: u64,
    },
    /// Each so many-th sync of a directory.
    OfNames {
        /// The number of syncs of which one is not done.
        each: u64,
    },
}

/// The parts of what is not durable that an image may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// None: the process ended, and the system goes on.
    Nothing,
    /// Of each file and directory the changes from any of them on.
    InOrder,
    /// Any sectors or pages of files too.
    Any,
}

/// Creates a directory for a disk or an image, in memory if the system has such a place: the record
/// says what is durable, not the system.
///
/// # Errors
/// When there is no place for temporary files.
pub fn new_directory() -> io::Result<TempDir> {
    match Path::new("/dev/shm") {
        memory if memory.is_dir() => tempfile::tempdir_in(memory),
        _ => tempfile::tempdir(),
    }
}

/// A simulated disk. The recording ends when it is dropped.
pub struct Disk {
    recorded: Arc<record::Recorded>,
}

impl Disk {
    /// Begins the recording of a directory, with what it holds, which counts as durable.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn record(directory: &Path) -> io::Result<Disk> {
        let recorded = record::begin(directory)?;
        Ok(Disk { recorded })
    }

    /// Returns the end of the record, with all changes of names so far.
    pub fn position(&self) -> Position {
        let mut recorded = self.recorded.lock();
        recorded.find_names();
        recorded.position()
    }

    /// Arranges failures of calls.
    pub fn fail(&self, failure: Failure) {
        self.recorded.lock().set_failure(Some(failure));
    }

    /// Lets the disk report some syncs that it does not do, from now on. A self-test of a check
    /// expects that the check finds what is lost.
    pub fn forget(&self, syncs: Syncs) {
        self.recorded.lock().forget(syncs);
    }

    /// Ends the failures.
    pub fn repair(&self) {
        self.recorded.lock().set_failure(None);
    }

    /// Returns the number of calls that have failed.
    pub fn failures(&self) -> u64 {
        self.recorded.lock().failures()
    }

    /// Returns a directory that a power loss at a place of the record can leave. The part of a file
    /// that is kept follows from the seed, the name of the file and the changes of it.
    pub fn image(&self, at: Position, loss: Loss, seed: u64) -> Image {
        image::image(self.recorded.lock().operations(at), loss, seed)
    }

    /// Compares the record with the files.
    ///
    /// # Errors
    /// The first difference, as a sentence.
    pub fn check_record(&self) -> Result<(), String> {
        let mut recorded = self.recorded.lock();
        recorded.find_names();
        if let Some(problem) = recorded.problem() {
            return Err(problem.to_owned());
        }
        let everything = image::everything(recorded.operations(Position::MAX));
        everything.compare(recorded.root())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        record::end(&self.recorded);
    }
}
