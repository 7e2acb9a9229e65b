//! The check of backups: each content is read and hashed.
//!
//! Left out: a check of the data itself. A content with the right hash is what the store had.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::archive::Archive;
use crate::error::BackupError;
use crate::files::{CopyError, Digested, PIECE_BYTES, copy_hashed};
use crate::log::{VerifiedSpan, verify_spans};
use crate::manifest::Manifest;
use crate::repository::Repository;
use crate::source::{Source, UnreadableBackup, find};
use crate::{OnProgress, Progress};

/// The fault of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// There is no such object or file.
    Missing,
    /// It cannot be read; the answer of the operating system.
    Unreadable(String),
    /// It has other bytes than were written.
    Damaged,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing => f.write_str("is missing"),
            Fault::Unreadable(error) => write!(f, "cannot be read ({error})"),
            Fault::Damaged => f.write_str("has other bytes than were written"),
        }
    }
}

impl Fault {
    /// Returns the fault for an error of reading.
    pub(crate) fn of(error: &io::Error) -> Fault {
        match error.kind() {
            ErrorKind::NotFound => Fault::Missing,
            _ => Fault::Unreadable(error.to_string()),
        }
    }
}

/// A content that is missing or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The object, or the file with the whole backup.
    pub path: PathBuf,
    /// The fault.
    pub fault: Fault,
    /// The backups that need the content, by id, each with the names of its files that have it.
    pub needed_by: BTreeMap<String, Vec<String>>,
}

/// The result of a check.
#[derive(Debug, Default)]
pub struct Verified {
    /// The ids of the backups that are whole, the oldest first.
    pub restorable: Vec<String>,
    /// The contents that are missing or damaged.
    pub problems: Vec<Problem>,
    /// The backups whose manifests cannot be read.
    pub unreadable: Vec<UnreadableBackup>,
    /// The number of contents that were read.
    pub objects: u64,
    /// The bytes of these contents.
    pub bytes: u64,
    /// The spans of the continuous backup; none if one backup was checked.
    pub spans: Vec<VerifiedSpan>,
}

impl Verified {
    /// Returns true if something is missing or damaged.
    pub fn has_problems(&self) -> bool {
        let has_log_problems = self.spans.iter().any(|span| !span.problems.is_empty());
        has_log_problems || !self.problems.is_empty() || !self.unreadable.is_empty()
    }
}

/// Checks one backup, or all of them without an id, at a path: a repository, or a file that ends
/// with `.tar.zst`.
///
/// # Errors
/// When there is no such backup, or a file with a whole backup is cut. Missing and damaged contents
/// are in the result.
pub fn verify(
    path: &Path,
    id: Option<&str>,
    progress: OnProgress<'_>,
) -> Result<Verified, BackupError> {
    match Source::open(path)? {
        Source::Repository(repository) => {
            let mut verified = Verified::default();
            let backups = match id {
                Some(id) => vec![find(&repository, Some(id))?],
                None => {
                    let listing = repository.list()?;
                    verified.unreadable = listing.unreadable;
                    listing.backups
                }
            };
            if backups.is_empty() && verified.unreadable.is_empty() {
                return Err(BackupError::NoBackups {
                    path: path.to_owned(),
                });
            }
            let mut verified = verify_objects(&repository, &backups, verified, progress)?;
            if id.is_none() {
                verified.spans = verify_spans(path, progress)?;
            }
            Ok(verified)
        }
        Source::Archive(archive) => verify_archive(&archive, id, progress),
    }
}

/// Hashes each object that the backups need, once.
fn verify_objects(
    repository: &Repository,
    backups: &[Manifest],
    mut verified: Verified,
    on_progress: OnProgress<'_>,
) -> Result<Verified, BackupError> {
    // An object that several backups need is read once.
    let mut objects: BTreeMap<(&str, u64), BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for backup in backups {
        for file in &backup.files {
            let needed_by = objects.entry((&file.sha256, file.bytes)).or_default();
            let names = needed_by.entry(backup.id.clone()).or_default();
            names.push(file.name.clone());
        }
    }
    let mut progress = Progress {
        files_total: objects.len() as u64,
        bytes_total: objects.keys().map(|(_, bytes)| bytes).sum(),
        ..Progress::default()
    };
    // A bad object is a problem of each backup that needs it.
    let mut damaged = BTreeSet::new();
    for ((sha256, bytes), needed_by) in objects {
        let names = needed_by.values().next().and_then(|names| names.first());
        progress.file = names.cloned().unwrap_or_default();
        let expected = Digested {
            sha256: sha256.to_owned(),
            bytes,
        };
        if let Some(fault) = check_content(repository, &expected, &mut progress, on_progress) {
            damaged.extend(needed_by.keys().cloned());
            verified.problems.push(Problem {
                path: repository.object(sha256),
                fault,
                needed_by,
            });
        }
        progress.files_done += 1;
        on_progress(&progress);
    }
    (verified.objects, verified.bytes) = (progress.files_done, progress.bytes_done);
    let whole = backups
        .iter()
        .filter(|backup| !damaged.contains(&backup.id));
    verified.restorable = whole.map(|backup| backup.id.clone()).collect();
    Ok(verified)
}

/// Returns the fault of a content; `None` if it is as written.
fn check_content(
    repository: &Repository,
    expected: &Digested,
    progress: &mut Progress,
    on_progress: OnProgress<'_>,
) -> Option<Fault> {
    let mut content = repository.open_object(&expected.sha256);
    let copied = copy_hashed(&mut *content, &mut io::sink(), PIECE_BYTES, &mut |bytes| {
        progress.bytes_done += bytes;
        on_progress(progress);
        Ok(())
    });
    match copied {
        Ok(found) => (found != *expected).then_some(Fault::Damaged),
        Err(CopyError::Read(error)) => Some(Fault::of(&error)),
        // Neither writing to nowhere nor the pieces fail.
        Err(CopyError::Write(_) | CopyError::Stopped(_)) => Some(Fault::Damaged),
    }
}

/// Reads a file with one whole backup and compares it with its manifest.
fn verify_archive(
    archive: &Archive,
    id: Option<&str>,
    on_progress: OnProgress<'_>,
) -> Result<Verified, BackupError> {
    // The hashes are known before the manifest, which is the last entry.
    let mut found = HashMap::new();
    let mut progress = Progress::default();
    let manifest = archive.read(&mut |entry, content| {
        progress.file = entry.name.to_owned();
        let copied = copy_hashed(content, &mut io::sink(), PIECE_BYTES, &mut |bytes| {
            progress.bytes_done += bytes;
            on_progress(&progress);
            Ok(())
        });
        let digest = copied.map_err(|error| archive.copy_failed(error))?;
        found.insert(entry.name.to_owned(), digest);
        progress.files_done += 1;
        Ok(())
    })?;
    if let Some(id) = id.filter(|id| *id != manifest.id) {
        return Err(BackupError::UnknownId {
            path: archive.path().to_owned(),
            id: id.to_owned(),
            known: vec![manifest.id],
        });
    }
    check_no_others(archive, &manifest, &found)?;
    let mut verified = Verified {
        objects: progress.files_done,
        bytes: progress.bytes_done,
        ..Verified::default()
    };
    for (file, fault) in differences(&manifest, &found) {
        verified.problems.push(Problem {
            path: archive.path().to_owned(),
            fault,
            needed_by: BTreeMap::from([(manifest.id.clone(), vec![file.to_owned()])]),
        });
    }
    if verified.problems.is_empty() {
        verified.restorable.push(manifest.id);
    }
    Ok(verified)
}

/// Refuses a file that has contents which its manifest does not name.
pub(crate) fn check_no_others(
    archive: &Archive,
    manifest: &Manifest,
    found: &HashMap<String, Digested>,
) -> Result<(), BackupError> {
    let named: BTreeSet<&str> = manifest.files.iter().map(|file| &*file.name).collect();
    match found.keys().find(|name| !named.contains(name.as_str())) {
        Some(name) => Err(archive.damaged(&format!("its manifest does not name {name}"))),
        None => Ok(()),
    }
}

/// Returns the files of a manifest whose contents are missing or others.
pub(crate) fn differences<'a>(
    manifest: &'a Manifest,
    found: &HashMap<String, Digested>,
) -> Vec<(&'a str, Fault)> {
    let mut differences = Vec::new();
    for file in &manifest.files {
        let fault = match found.get(&file.name) {
            None => Fault::Missing,
            Some(found) if found.sha256 != file.sha256 || found.bytes != file.bytes => {
                Fault::Damaged
            }
            Some(_) => continue,
        };
        differences.push((file.name.as_str(), fault));
    }
    differences
}

/// Returns the newest backup that is whole, other than those that need a bad content.
pub(crate) fn newest_whole(repository: &Repository, bad: &str) -> Option<String> {
    let mut checked: HashMap<String, bool> = HashMap::new();
    let backups = repository.list().ok()?.backups;
    let found = backups.into_iter().rev().find(|backup| {
        backup.files.iter().all(|file| {
            if file.sha256 == bad {
                return false;
            }
            let check = || {
                let expected = Digested {
                    sha256: file.sha256.clone(),
                    bytes: file.bytes,
                };
                let mut progress = Progress::default();
                check_content(repository, &expected, &mut progress, &mut |_| {}).is_none()
            };
            *checked.entry(file.sha256.clone()).or_insert_with(check)
        })
    });
    found.map(|backup| backup.id)
}
