//! The making of a backup: a checkpoint of the store, whose files are copied to a sink.
//!
//! The steps:
//!
//! 1. the destination is opened and locked;
//! 2. the store gives a checkpoint; the destination refuses that of another store;
//! 3. each file whose content the destination has already is passed over: a table with the name,
//!    length, modification time and inode of a table of the newest backup is not read again;
//! 4. the other files are copied and hashed, at the rate that the caller allows;
//! 5. the manifest makes the backup visible.
//!
//! Left out: changes of the store after step 2 are not in the backup.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use orrery_model::json::Json;
use orrery_storage::{Checkpoint, CheckpointFile, FORMAT, Store};

use crate::archive::{ArchiveSink, is_archive};
use crate::error::BackupError;
use crate::files::is_safe_name;
use crate::manifest::{Manifest, ManifestFile};
use crate::pace::{Clock, MachineClock, Pace};
use crate::repository::RepositorySink;
use crate::sink::{Sink, SourceFile};
use crate::{OnProgress, Progress};

/// The beginning of the names of extra files.
pub(crate) const EXTRA_FOLDER: &str = "extra/";

/// The options of a backup.
#[derive(Clone, Debug)]
pub struct CreateOptions<'a> {
    /// The moment, in milliseconds since 1970. It gives the backup its id.
    pub now_ms: u64,
    /// The clock, if the moment is to be one after the checkpoint in place of `now_ms`.
    pub clock_ms: Option<fn() -> u64>,
    /// The version of the program.
    pub program: String,
    /// A description for the manifest, such as the names of containers.
    pub about: Json,
    /// The most bytes that are read in a second; 0 for no limit.
    pub bytes_per_second: u64,
    /// Files beside those of the store.
    pub extra_files: Vec<ExtraFile>,
    /// Ends the backup with [`BackupError::Cancelled`] once it is true.
    pub is_cancelled: Option<&'a AtomicBool>,
}

impl CreateOptions<'_> {
    /// Returns options for a backup of the store alone, without a limit.
    pub fn new(now_ms: u64, program: impl Into<String>) -> CreateOptions<'static> {
        CreateOptions {
            now_ms,
            clock_ms: None,
            program: program.into(),
            about: Json::Null,
            bytes_per_second: 0,
            extra_files: Vec::new(),
            is_cancelled: None,
        }
    }
}

/// A file that is not part of the store, such as the keys of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraFile {
    /// The name inside of the backup and of the restored directory. It begins with `extra/`.
    pub name: String,
    /// The file, which must not change while it is copied.
    pub path: PathBuf,
}

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Its id.
    pub id: String,
    /// Its files.
    pub files: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Files whose content was stored, and was not in the repository before.
    pub new_files: u64,
    /// Bytes of these files.
    pub new_bytes: u64,
}

/// Makes a backup of an open store: in the repository at `target`, which is created if there is
/// none, or in the new file `target` if its name ends with `.tar.zst`.
///
/// # Errors
/// See [`BackupError`]. The repository stays usable after each of them, and what was copied is not
/// written again by the next backup.
pub fn create(
    store: &dyn Store,
    target: &Path,
    options: &CreateOptions<'_>,
    progress: OnProgress<'_>,
) -> Result<Summary, BackupError> {
    let mut clock = MachineClock::new(options.is_cancelled);
    create_with(store, target, options, progress, &mut clock)
}

/// Does the same as [`create`], with the pauses of a clock.
fn create_with(
    store: &dyn Store,
    target: &Path,
    options: &CreateOptions<'_>,
    progress: OnProgress<'_>,
    clock: &mut dyn Clock,
) -> Result<Summary, BackupError> {
    let capabilities = store.capabilities();
    if !capabilities.durable || capabilities.remote {
        return Err(BackupError::NoFiles);
    }
    // The destination comes first: its refusals cost the store nothing.
    check_names(&options.extra_files)?;
    let mut sink: Box<dyn Sink> = if is_archive(target) {
        Box::new(ArchiveSink::create(target, options.now_ms)?)
    } else {
        Box::new(RepositorySink::open(target)?)
    };
    let Some(checkpoint) = store.checkpoint()? else {
        return Err(BackupError::NoFiles);
    };
    let moment_ms = options
        .clock_ms
        .map_or(options.now_ms, |clock_ms| clock_ms());
    sink.begin(&checkpoint.store_id)?;

    // The store goes on; the files stay as they are until the checkpoint is dropped.
    let files = files_of(&checkpoint, &options.extra_files)?;
    let mut copying = Copying {
        sink: &mut *sink,
        pace: Pace::new(options.bytes_per_second, clock),
        options,
        progress: Progress {
            files_total: files.len() as u64,
            bytes_total: files.iter().map(|file| file.bytes).sum(),
            ..Progress::default()
        },
        on_progress: progress,
        new_files: 0,
        new_bytes: 0,
    };
    let mut copied = Vec::with_capacity(files.len());
    for file in &files {
        copied.push(copying.copy(file)?);
    }
    let (new_files, new_bytes) = (copying.new_files, copying.new_bytes);
    copied.sort_by(|a, b| a.name.cmp(&b.name));

    // The manifest comes last: a backup without one does not exist.
    let heads = checkpoint.heads.iter();
    let manifest = Manifest {
        id: sink.free_id(&id_of(moment_ms))?,
        moment_ms,
        program: options.program.clone(),
        store_format: FORMAT.into(),
        store_id: checkpoint.store_id.clone(),
        heads: heads
            .map(|(partition, head)| (*partition, head.lsn))
            .collect(),
        group: Some(checkpoint.group),
        about: options.about.clone(),
        bytes: copied.iter().map(|file| file.bytes).sum(),
        new_bytes,
        files: copied,
    };
    // The store may remove replaced tables from here on.
    drop(checkpoint);
    sink.finish(&manifest)?;
    Ok(Summary {
        files: manifest.files.len() as u64,
        bytes: manifest.bytes,
        id: manifest.id,
        new_files,
        new_bytes,
    })
}

/// A file to copy.
struct FileToCopy {
    name: String,
    path: PathBuf,
    bytes: u64,
    /// The file of the checkpoint, if it is a table.
    table: Option<CheckpointFile>,
    identity: Option<String>,
}

/// Returns the files of the checkpoint and the extra files.
fn files_of(checkpoint: &Checkpoint, extra: &[ExtraFile]) -> Result<Vec<FileToCopy>, BackupError> {
    let mut files = Vec::new();
    for file in &checkpoint.files {
        files.push(FileToCopy {
            name: file.name.clone(),
            path: file.path.clone(),
            bytes: file.bytes,
            table: file.is_immutable.then(|| file.clone()),
            identity: match file.is_immutable {
                true => identity_of(&file.path),
                false => None,
            },
        });
    }
    for file in extra {
        let metadata = file.path.metadata();
        let metadata = metadata.map_err(BackupError::io("read", &file.path))?;
        files.push(FileToCopy {
            name: file.name.clone(),
            path: file.path.clone(),
            bytes: metadata.len(),
            table: None,
            identity: None,
        });
    }
    Ok(files)
}

/// The copying of files to a sink.
struct Copying<'a> {
    sink: &'a mut dyn Sink,
    pace: Pace<'a>,
    options: &'a CreateOptions<'a>,
    progress: Progress,
    on_progress: OnProgress<'a>,
    new_files: u64,
    new_bytes: u64,
}

impl Copying<'_> {
    /// Stores one file, unless the sink has it already.
    fn copy(&mut self, file: &FileToCopy) -> Result<ManifestFile, BackupError> {
        check_cancelled(self.options.is_cancelled)?;
        self.progress.file.clone_from(&file.name);
        let source = SourceFile {
            name: &file.name,
            path: &file.path,
            bytes: file.bytes,
            identity: file.identity.as_deref(),
        };
        let bytes_before = self.progress.bytes_done;
        let sha256 = match self.sink.known(&source) {
            Some(sha256) => sha256,
            None => self.store(&source, file.table.as_ref())?,
        };
        self.progress.bytes_done = bytes_before + file.bytes;
        self.progress.files_done += 1;
        (self.on_progress)(&self.progress);
        Ok(ManifestFile {
            name: file.name.clone(),
            bytes: file.bytes,
            sha256,
            is_table: file.table.is_some(),
            identity: file.identity.clone(),
        })
    }

    /// Reads a file and stores it. Returns its hash.
    ///
    /// # Errors
    /// Also when the store has taken a damaged block out of a table while the table was read: the
    /// bytes that were read may be of both.
    fn store(
        &mut self,
        source: &SourceFile<'_>,
        table: Option<&CheckpointFile>,
    ) -> Result<String, BackupError> {
        let mut file = File::open(source.path).map_err(BackupError::io("open", source.path))?;
        let piece_bytes = self.pace.piece_bytes();
        let (pace, progress) = (&mut self.pace, &mut self.progress);
        let (on_progress, is_cancelled) = (&mut self.on_progress, self.options.is_cancelled);
        let mut on_piece = |bytes| {
            check_cancelled(is_cancelled)?;
            pace.spend(bytes);
            progress.bytes_done += bytes;
            on_progress(progress);
            Ok(())
        };
        // The file may go on growing: only these bytes belong to the checkpoint.
        let mut content = (&mut file).take(source.bytes);
        let stored = self
            .sink
            .add(source, &mut content, piece_bytes, &mut on_piece)?;
        if let Some(table) = table {
            let is_replaced = table.is_replaced(&file);
            if is_replaced.map_err(BackupError::io("read", source.path))? {
                let error = "a damaged block was taken out of it meanwhile";
                return Err(BackupError::io("copy", source.path)(io::Error::other(
                    error,
                )));
            }
        }
        self.new_bytes += stored.new_bytes;
        self.new_files += u64::from(stored.is_new);
        Ok(stored.content.sha256)
    }
}

fn check_cancelled(is_cancelled: Option<&AtomicBool>) -> Result<(), BackupError> {
    match is_cancelled {
        Some(flag) if flag.load(Ordering::SeqCst) => Err(BackupError::Cancelled),
        _ => Ok(()),
    }
}

/// Refuses names of extra files that lead elsewhere or that occur twice.
fn check_names(files: &[ExtraFile]) -> Result<(), BackupError> {
    let mut names = BTreeSet::new();
    for file in files {
        let is_extra = file.name.starts_with(EXTRA_FOLDER) && is_safe_name(&file.name);
        if !is_extra || !names.insert(&file.name) {
            return Err(BackupError::InvalidName {
                name: file.name.clone(),
            });
        }
    }
    Ok(())
}

/// Returns a text that two files have only if they are one file with one content: a table is never
/// changed without a new modification time. `None` where the system does not tell.
fn identity_of(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let metadata = path.metadata().ok()?;
        let (seconds, nanoseconds) = (metadata.mtime(), metadata.mtime_nsec());
        Some(format!("{seconds}.{nanoseconds:09}-{}", metadata.ino()))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Returns the id of a backup of a moment: the time in UTC, by the second.
pub(crate) fn id_of(now_ms: u64) -> String {
    let ms = i64::try_from(now_ms).unwrap_or(i64::MAX);
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    time.strftime("%Y%m%dT%H%M%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use orrery_storage::{Commit, CommitOutcome, LocalOptions, LocalStore, PartitionId};

    use super::*;
    use crate::pace::tests::TestClock;

    #[test]
    fn a_limit_slows_the_reading_of_what_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(dir.path().join("data"), LocalOptions::default()).unwrap();
        let lease = store.open(PartitionId(1)).unwrap();
        for lsn in 1..=20 {
            let value = (0..60_000u64).map(|i| ((i * i * lsn) >> 5) as u8).collect();
            let commit = Commit {
                expect_lsn: lsn - 1,
                new_lsn: lsn,
                puts: vec![(lsn.to_be_bytes().to_vec(), value)],
                ..Commit::default()
            };
            assert_eq!(store.submit(&lease, commit).wait(), CommitOutcome::Ok);
        }
        let options = CreateOptions {
            bytes_per_second: 10_000,
            ..CreateOptions::new(0, "1.2.3")
        };
        let mut clock = TestClock::default();
        let target = dir.path().join("backups");
        let made = create_with(&store, &target, &options, &mut |_| {}, &mut clock).unwrap();
        let expected = Duration::from_millis(made.bytes / 10);
        let least = expected - Duration::from_secs(1);
        assert!(
            clock.now >= least && clock.now <= expected,
            "{:?}",
            clock.now
        );
    }

    #[test]
    fn an_id_is_the_second_in_utc() {
        assert_eq!(id_of(1_795_714_805_999), "20261126T174005Z");
        assert_eq!(id_of(0), "19700101T000000Z");
        assert!(crate::manifest::is_id(&id_of(u64::MAX)));
    }

    #[test]
    fn an_extra_file_has_a_name_of_its_own_under_extra() {
        let file = |name: &str| ExtraFile {
            name: name.to_owned(),
            path: PathBuf::new(),
        };
        assert!(check_names(&[file("extra/a"), file("extra/b/c")]).is_ok());
        for names in [
            vec!["a"],
            vec!["extra/../a"],
            vec!["extra/"],
            vec!["extra/a", "extra/a"],
        ] {
            let files: Vec<ExtraFile> = names.iter().map(|name| file(name)).collect();
            assert!(check_names(&files).is_err(), "{names:?}");
        }
    }
}
