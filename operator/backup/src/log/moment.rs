//! The restore of a store as it was at a second.
//!
//! The last span that begins before the second has the log of it. The newest base of the span that
//! is not later than the second is restored, and the segments behind it are written into its
//! journals up to the last group of the second. The next start of the store reads them as it reads
//! its journals after each restart.

use std::path::Path;

use orrery_storage::{LogExtension, LogSegment, StoreError};

use super::follow::bases_of;
use super::segment::SegmentName;
use super::spans::{Span, Spans};
use crate::OnProgress;
use crate::archive::is_archive;
use crate::error::BackupError;
use crate::manifest::Manifest;
use crate::repository::Repository;
use crate::restore::{check_empty, restore_manifest};

/// The moment of which a store is restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The end of this second since 1970: everything that was written in it is there.
    Second(u64),
    /// The last group in the log.
    Latest,
}

/// A store that was restored.
#[derive(Clone, Debug, PartialEq)]
pub struct RestoredMoment {
    /// The backup that the restore began with.
    pub base: Manifest,
    /// The second that the store has: the one that was asked for, or the last one of the log.
    pub second: u64,
    /// The segments that were added.
    pub segments: u64,
    /// The bytes of journals in them.
    pub segment_bytes: u64,
}

/// The seconds that a span can restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// The id of the span.
    pub span: String,
    /// The first second that can be restored; `None` if the span has no base yet.
    pub from: Option<u64>,
    /// The last one.
    pub to: u64,
    /// The backups from which a restore can begin.
    pub bases: u64,
    /// The segments of the log.
    pub segments: u64,
    /// The bytes of their files.
    pub bytes: u64,
}

/// The log of a repository, with the bases of each span.
pub(super) struct Log {
    repository: Repository,
    pub(super) spans: Spans,
    /// The oldest first.
    pub(super) parts: Vec<Part>,
}

/// A span with its bases.
pub(super) struct Part {
    pub(super) span: Span,
    /// The oldest first.
    pub(super) bases: Vec<Manifest>,
    /// The second up to which it has everything.
    pub(super) reached: u64,
    /// The last group that it has.
    end_group: u64,
    /// The fault of its end: segments that the note tells of are missing, or the note is.
    pub(super) fault: Option<String>,
}

impl Part {
    /// Reads the note of a span, and compares it with the last segment.
    fn of(spans: &Spans, span: Span, bases: Vec<Manifest>) -> Part {
        let last = span.segments.last();
        let written = last.map_or(0, |name| name.second);
        let (mut reached, mut fault) = (written.saturating_sub(1), None);
        let mut end_group = last.map_or(0, |name| name.last);
        match spans.reached(&span.id) {
            Ok(Some(noted)) if last.is_none() || end_group >= noted.position.group => {
                reached = noted.second;
                end_group = end_group.max(noted.position.group);
            }
            Ok(Some(noted)) => {
                let group = noted.position.group;
                fault = Some(format!(
                    "the segments behind group {end_group}, up to group {group}, are missing"
                ));
            }
            Ok(None) => fault = Some("the note of the last second is missing".to_owned()),
            Err(error) => fault = Some(format!("the last second cannot be read: {error}")),
        }
        Part {
            span,
            bases,
            reached,
            end_group,
            fault,
        }
    }

    /// Returns the first second that can be restored: a base has everything of the second before
    /// its moment, and perhaps some of its own second.
    pub(super) fn from(&self) -> Option<u64> {
        Some(self.bases.first()?.moment_ms / 1_000 + 1)
    }

    /// Returns true if the oldest base is not behind the first segment.
    pub(super) fn begins_with(&self, first: &SegmentName) -> bool {
        let group = self.bases.first().and_then(|base| base.group);
        group.is_none_or(|group| group >= first.before)
    }

    /// Returns true if a second can be restored.
    fn has(&self, second: u64) -> bool {
        second <= self.reached && self.from().is_some_and(|from| from <= second)
    }

    /// Returns the last group that can be restored: that of a base may be behind the segments.
    fn newest_group(&self) -> u64 {
        let bases = self.bases.iter().filter_map(|base| base.group);
        bases.max().unwrap_or(0).max(self.end_group)
    }

    /// Returns the second of the last group that it has, or a later one without groups.
    fn latest(&self) -> u64 {
        let last = self.span.segments.last();
        last.map_or(self.reached, |name| self.reached.max(name.second))
    }
}

impl Log {
    /// Reads the names of the log of a repository.
    ///
    /// # Errors
    /// When there is no repository, or a folder or a manifest cannot be read.
    pub(super) fn open(path: &Path) -> Result<Log, BackupError> {
        let repository = Repository::open(path)?;
        let store_id = repository.store_id()?.unwrap_or_default();
        let spans = Spans::of(repository.place().clone(), store_id);
        let all = spans.all()?;
        let bases = bases_of(&repository, &all)?;
        let mut parts = Vec::with_capacity(all.len());
        for (span, bases) in all.into_iter().zip(bases) {
            parts.push(Part::of(&spans, span, bases));
        }
        Ok(Log {
            repository,
            spans,
            parts,
        })
    }

    /// Returns the last span, if all that it had can be restored.
    fn latest_part(&self, path: &Path) -> Result<&Part, BackupError> {
        let part = self.parts.last().ok_or(BackupError::NoLog {
            path: path.to_owned(),
        })?;
        if let Some(fault) = &part.fault {
            return Err(BackupError::DamagedLog {
                path: self.spans.note(&part.span.id),
                detail: fault.clone(),
                before: Some(part.reached).filter(|second| part.has(*second)),
                after: None,
            });
        }
        if !part.bases.is_empty() {
            return Ok(part);
        }
        let earlier = self.parts.iter().rfind(|part| part.has(part.reached));
        match earlier {
            Some(earlier) => Err(BackupError::MomentNotInLog {
                path: path.to_owned(),
                second: part.latest(),
                before: Some(earlier.reached),
                after: None,
            }),
            None => Err(BackupError::NoLog {
                path: path.to_owned(),
            }),
        }
    }

    /// Returns the span that has the log of a second.
    fn part_of(&self, path: &Path, second: u64) -> Result<&Part, BackupError> {
        let with_bases = self.parts.iter().filter(|part| !part.bases.is_empty());
        let none = BackupError::NoLog {
            path: path.to_owned(),
        };
        let (mut before, mut after) = (None, None);
        for part in with_bases {
            match part.from() {
                Some(from) if from <= second => before = Some(part),
                from => after = after.or(from),
            }
        }
        match before {
            Some(part) if second <= part.reached => Ok(part),
            None if after.is_none() => Err(none),
            _ => Err(BackupError::MomentNotInLog {
                path: path.to_owned(),
                second,
                before: before.map(|part| part.reached),
                after,
            }),
        }
    }
}

/// Returns the seconds that the log of a repository can restore, the oldest first.
///
/// # Errors
/// When there is no repository, or a folder or a manifest cannot be read.
pub fn windows(path: &Path) -> Result<Vec<Window>, BackupError> {
    if is_archive(path) {
        return Ok(Vec::new());
    }
    let log = Log::open(path)?;
    let mut windows = Vec::with_capacity(log.parts.len());
    for part in &log.parts {
        windows.push(Window {
            span: part.span.id.clone(),
            from: part.from(),
            to: part.reached,
            bases: part.bases.len() as u64,
            segments: part.span.segments.len() as u64,
            bytes: part.span.total_bytes(),
        });
    }
    Ok(windows)
}

/// Restores the store of a moment into a directory that does not exist or is empty. `path` is a
/// repository with a log.
///
/// # Errors
/// See [`BackupError`]. After an error the directory cannot be opened as a store and is to be
/// deleted.
pub fn restore_to(
    path: &Path,
    moment: Moment,
    target: &Path,
    progress: OnProgress<'_>,
) -> Result<RestoredMoment, BackupError> {
    if is_archive(path) {
        return Err(BackupError::NoLog {
            path: path.to_owned(),
        });
    }
    check_empty(target)?;
    let log = Log::open(path)?;
    let (part, second, last_group) = match moment {
        Moment::Second(second) => {
            let part = log.part_of(path, second)?;
            (part, second, last_group(&log, part, second)?)
        }
        Moment::Latest => {
            let part = log.latest_part(path)?;
            (part, part.latest(), part.newest_group())
        }
    };
    let is_base = |base: &&Manifest| base.group.is_some_and(|group| group <= last_group);
    let mut failure = None;
    // An older base needs more segments, and takes the place of one that is damaged.
    for base in part.bases.iter().rev().filter(is_base) {
        match restore_from(&log, part, base, last_group, target, progress) {
            Ok((segments, segment_bytes)) => {
                return Ok(RestoredMoment {
                    base: base.clone(),
                    second,
                    segments,
                    segment_bytes,
                });
            }
            Err(error @ (BackupError::DamagedObject { .. } | BackupError::DamagedLog { .. })) => {
                remove_restored(target)?;
                failure = failure.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    Err(failure.unwrap_or(BackupError::MomentNotInLog {
        path: path.to_owned(),
        second,
        before: None,
        after: part.from().map(|from| from.max(second + 1)),
    }))
}

/// Restores a base and the segments behind it. Returns the segments and their bytes.
fn restore_from(
    log: &Log,
    part: &Part,
    base: &Manifest,
    last_group: u64,
    target: &Path,
    progress: OnProgress<'_>,
) -> Result<(u64, u64), BackupError> {
    let group = base.group.unwrap_or(0);
    let needed = |name: &&SegmentName| name.last >= group && name.before <= last_group;
    let needed: Vec<SegmentName> = part.span.segments.iter().filter(needed).copied().collect();
    let mut bytes = 0;
    restore_manifest(&log.repository, base, target, progress, &mut |root| {
        bytes = extend(log, part, root, &needed, last_group)?;
        Ok(())
    })?;
    Ok((needed.len() as u64, bytes))
}

/// Removes what a restore has left that failed. The directory was empty before.
fn remove_restored(target: &Path) -> Result<(), BackupError> {
    let failed = || BackupError::io("empty", target);
    for entry in std::fs::read_dir(target).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let removed = match path.is_dir() {
            true => std::fs::remove_dir_all(&path),
            false => std::fs::remove_file(&path),
        };
        removed.map_err(BackupError::io("remove", &path))?;
    }
    Ok(())
}

/// Returns the last group that was written in a second or before.
fn last_group(log: &Log, part: &Part, second: u64) -> Result<u64, BackupError> {
    let later = part.span.segments.iter().find(|name| name.second > second);
    if let Some(name) = later {
        let segment = read(log, part, name)?;
        let end = segment.end_at(second);
        let end = end.map_err(|error| damaged(log, part, name, &detail(&error)))?;
        return Ok(end.group);
    }
    Ok(part.end_group)
}

/// Reads a segment that a restore needs.
fn read(log: &Log, part: &Part, name: &SegmentName) -> Result<LogSegment, BackupError> {
    let segment = log.spans.read(&part.span.id, name);
    segment.map_err(|fault| damaged(log, part, name, &fault))
}

/// Writes segments into the journals of a restored base. Returns their bytes.
fn extend(
    log: &Log,
    part: &Part,
    root: &Path,
    names: &[SegmentName],
    last_group: u64,
) -> Result<u64, BackupError> {
    let mut extension = LogExtension::of_copy(root)?;
    let mut bytes = 0;
    for name in names {
        let not_whole = |error: StoreError| damaged(log, part, name, &detail(&error));
        let segment = read(log, part, name)?;
        let cut = (segment.end.group >= last_group).then_some(last_group);
        extension.add(&segment, cut).map_err(not_whole)?;
        bytes += segment.bytes.len() as u64;
    }
    let reached = extension.finish()?;
    match names.last() {
        Some(name) if reached < last_group => Err(damaged(
            log,
            part,
            name,
            &format!("it ends with group {reached}, and the segment behind it is missing"),
        )),
        _ => Ok(bytes),
    }
}

/// Returns the fault that a store found in a segment, without the name of the journal.
pub(super) fn detail(error: &StoreError) -> String {
    match error {
        StoreError::Damaged { detail, .. } => detail.clone(),
        other => other.to_string(),
    }
}

/// Returns the error for a segment that is missing or damaged, with what can be restored instead.
fn damaged(log: &Log, part: &Part, name: &SegmentName, detail: &str) -> BackupError {
    BackupError::DamagedLog {
        path: log.spans.path(&part.span.id, name),
        detail: detail.to_owned(),
        before: before(part, name),
        after: after(part, name),
    }
}

/// Returns the last second before a segment that can be restored without it.
pub(super) fn before(part: &Part, name: &SegmentName) -> Option<u64> {
    let from = part.from()?;
    let segments = part.span.segments.iter();
    let last = segments.take_while(|one| *one < name).last()?;
    // The segment may have further groups of this second.
    let second = last.second.checked_sub(1)?;
    (second >= from).then_some(second)
}

/// Returns the first second behind a segment that can be restored without it.
pub(super) fn after(part: &Part, name: &SegmentName) -> Option<u64> {
    let has_segment = |base: &&Manifest| base.group.is_some_and(|group| group >= name.last);
    let base = part.bases.iter().find(has_segment)?;
    Some(base.moment_ms / 1_000 + 1)
}
