//! The copying of the log of an open store into the repository of its backups.
//!
//! A round copies what the journals got since the round before. A span begins with a backup, the
//! *base*, which the caller makes when [`ContinuousBackup::wanted_base`] says so: at the beginning,
//! and again when the segments since the last one are many or old, so that a restore has little to
//! read. If the journals do not go on where the span ends, a new span begins.
//!
//! Promised: a round that fails leaves a log that is whole up to the round before, and the next one
//! goes on from there. Journals are kept until they are copied, up to
//! [`ContinuousOptions::kept_bytes_max`]: a target that is gone for long ends the span, and does
//! not fill the disk of the store.
//!
//! Left out: the time of rounds, and threads.

use std::path::{Path, PathBuf};

use orrery_storage::{JournalLog, LogPosition, NextSegment, Store, StoreError};

use super::spans::{Reached, Span, Spans};
use crate::archive::is_archive;
use crate::create::{CreateOptions, Summary, create, id_of};
use crate::error::BackupError;
use crate::manifest::{Manifest, order_of};
use crate::place::{Lock, is_remote};
use crate::prune::prune_where;
use crate::repository::{Repository, free_id};

/// The bytes of a segment, before compression.
const SEGMENT_BYTES: usize = 8 << 20;

/// The member of the description of a backup that a continuous backup has made.
const ABOUT_CONTINUOUS: &str = "continuous";

/// The reasons why a span ends.
const GAP: &str = "the journals do not go on where the log ends: the server ran without the \
                   continuous backup meanwhile, or the data directory is another one";
const TOO_MANY_KEPT: &str = "the folder could not be written for so long that the journals that \
                             waited for it were too many";

/// The options of a continuous backup.
#[derive(Clone, Debug)]
pub struct ContinuousOptions {
    /// The time for which each second can be restored, in milliseconds.
    pub retention_ms: u64,
    /// The longest time between two bases, in milliseconds, while the store is written.
    pub base_interval_ms: u64,
    /// The bytes of journals after which another base is made.
    pub base_bytes: u64,
    /// The bytes of journals that are kept for the log alone at most. More end the span.
    pub kept_bytes_max: u64,
}

impl ContinuousOptions {
    /// Returns the options for a retention.
    pub fn new(retention_ms: u64) -> ContinuousOptions {
        ContinuousOptions {
            retention_ms,
            base_interval_ms: 24 * 3_600_000,
            base_bytes: 512 << 20,
            kept_bytes_max: 8 << 30,
        }
    }
}

/// The result of a round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// The segments that were copied.
    pub segments: u64,
    /// The bytes of their files.
    pub bytes: u64,
    /// The reason why a new span has begun although there was one.
    pub gap: Option<String>,
    /// The second up to which everything is in the log.
    pub reached: u64,
}

/// The backups and segments that were removed since they are too old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Bases.
    pub bases: u64,
    /// Segments.
    pub segments: u64,
    /// The bytes of both.
    pub bytes: u64,
}

/// The log of a store that is being copied.
pub struct ContinuousBackup {
    repository: PathBuf,
    spans: Spans,
    options: ContinuousOptions,
    span: Option<ActiveSpan>,
    /// The reason why the next round begins a new span, if one existed.
    gap: Option<String>,
    lock: Box<dyn Lock>,
}

/// The reason why no further segment is copied.
enum Next {
    /// All groups are in the span.
    UpToDate,
    /// The journals do not go on where the span ends.
    Gap,
}

/// The beginning of a base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseBegun {
    span: String,
    began_ms: u64,
    /// The bytes of journals since the base before.
    bytes: u64,
}

/// The span that grows.
struct ActiveSpan {
    id: String,
    /// The end of its last segment.
    end: LogPosition,
    /// The bytes of journals since the last base.
    bytes_since_base: u64,
    /// The moment of the last base, in milliseconds since 1970.
    last_base_ms: Option<u64>,
}

impl ContinuousBackup {
    /// Begins with the log in a repository, which is created if there is none. The span of an
    /// earlier process goes on if the journals do.
    ///
    /// # Errors
    /// When the store keeps no journals, the repository is that of another store, or another
    /// process copies a log into it.
    pub fn open(
        store: &dyn Store,
        repository: &Path,
        options: ContinuousOptions,
    ) -> Result<ContinuousBackup, BackupError> {
        let log = log_of(store)?;
        let is_file = !is_remote(repository) && repository.is_file();
        if is_archive(repository) || is_file {
            return Err(BackupError::NoFolder {
                path: repository.to_owned(),
            });
        }
        let store_id = log.store_id()?;
        let opened = Repository::open_or_create(repository, &store_id)?;
        let spans = Spans::of(opened.place().clone(), store_id);
        let lock = spans.lock()?;
        spans.remove_drafts()?;
        let mut this = ContinuousBackup {
            repository: repository.to_owned(),
            spans,
            options,
            span: None,
            gap: None,
            lock,
        };
        this.span = this.last_span(&opened)?;
        Ok(this)
    }

    /// Returns the last span, if its end can be read.
    fn last_span(&mut self, repository: &Repository) -> Result<Option<ActiveSpan>, BackupError> {
        let mut spans = self.spans.all()?;
        let mut bases = bases_of(repository, &spans)?;
        let (Some(span), Some(bases)) = (spans.pop(), bases.pop()) else {
            return Ok(None);
        };
        let end = match span.segments.last() {
            Some(name) => self.spans.read(&span.id, name).map(|segment| segment.end),
            None => match self.spans.reached(&span.id) {
                Ok(Some(reached)) => Ok(reached.position),
                Ok(None) => return Ok(None),
                Err(error) => Err(error.to_string()),
            },
        };
        let end = match end {
            Ok(end) => end,
            // A new span loses nothing that could be restored without this segment.
            Err(error) => {
                self.gap = Some(format!("the end of the log cannot be used: {error}"));
                return Ok(None);
            }
        };
        let last_base = bases.last();
        Ok(Some(ActiveSpan {
            last_base_ms: last_base.map(|base| base.moment_ms),
            bytes_since_base: bytes_behind(&span, last_base.and_then(|base| base.group)),
            id: span.id,
            end,
        }))
    }

    /// Copies what the journals got since the last round. `now_ms` is the moment, in milliseconds
    /// since 1970.
    ///
    /// # Errors
    /// When a journal cannot be read or the repository cannot be written.
    pub fn round(&mut self, store: &dyn Store, now_ms: u64) -> Result<Round, BackupError> {
        let log = log_of(store)?;
        self.lock.check()?;
        let mut round = Round {
            gap: self.gap.clone(),
            ..Round::default()
        };
        // All groups of the second before this one are durable, and none of them follows. Later
        // groups are left to the next round, so that this one ends.
        let second = (now_ms / 1_000).saturating_sub(1);
        let last_group = log.last_group();
        let mut has_begun = false;
        let span = loop {
            let mut span = match self.span.take() {
                Some(span) => span,
                None => self.begin_span(log, now_ms, second)?,
            };
            // A span that fails is taken up where its last segment ends.
            let copied = self.copy(log, &mut span, last_group, &mut round);
            let next = match copied {
                Ok(next) => next,
                Err(error) => {
                    self.span = Some(span);
                    return Err(error);
                }
            };
            match next {
                Next::UpToDate => break self.span.insert(span),
                // A span that has just begun goes on, unless the journals cannot be kept.
                Next::Gap if has_begun => return Err(BackupError::Store(not_kept())),
                Next::Gap => {
                    has_begun = true;
                    self.gap = Some(GAP.to_owned());
                    round.gap.clone_from(&self.gap);
                }
            }
        };
        let reached = Reached {
            second,
            position: span.end,
        };
        self.spans.write_reached(&span.id, &reached)?;
        self.gap = None;
        round.reached = reached.second;
        log.release(&reached.position)?;
        Ok(round)
    }

    /// Copies the segments behind the end of a span, up to a group at least.
    fn copy(
        &self,
        log: &dyn JournalLog,
        span: &mut ActiveSpan,
        last_group: u64,
        round: &mut Round,
    ) -> Result<Next, BackupError> {
        loop {
            match log.next(&span.end, SEGMENT_BYTES)? {
                NextSegment::Segment(segment) => {
                    round.bytes += self.spans.add(&span.id, &segment)?;
                    round.segments += 1;
                    span.end = segment.end;
                    span.bytes_since_base += segment.bytes.len() as u64;
                    if span.end.group >= last_group {
                        return Ok(Next::UpToDate);
                    }
                }
                NextSegment::UpToDate => return Ok(Next::UpToDate),
                NextSegment::Gap => return Ok(Next::Gap),
            }
        }
    }

    /// Gives up the journals that are kept for the log if they are too many: the target could not
    /// be written for long. Returns true if it did, and a new span begins with the next round.
    ///
    /// # Errors
    /// When a journal cannot be removed.
    pub fn limit_kept(&mut self, store: &dyn Store) -> Result<bool, BackupError> {
        let is_given_up = limit_kept(store, self.options.kept_bytes_max)?;
        if is_given_up {
            self.span = None;
            self.gap = Some(TOO_MANY_KEPT.to_owned());
        }
        Ok(is_given_up)
    }

    /// Returns true if the folder is another one than was opened: it was deleted, or another file
    /// system stands in its place.
    pub fn is_lost(&self) -> bool {
        !self.lock.is_held()
    }

    /// Begins a span behind the last durable group.
    fn begin_span(
        &self,
        log: &dyn JournalLog,
        now_ms: u64,
        second: u64,
    ) -> Result<ActiveSpan, BackupError> {
        let end = log.position()?;
        let newest = self.spans.all()?.pop().map(|span| span.id);
        let id = free_id(newest.as_deref(), &id_of(now_ms));
        let reached = Reached {
            second,
            position: end,
        };
        if let Err(error) = self.spans.begin(&id, &reached) {
            // A folder without a note would stay for ever.
            let _ = self.spans.give_up(&id);
            return Err(error);
        }
        Ok(ActiveSpan {
            id,
            end,
            bytes_since_base: 0,
            last_base_ms: None,
        })
    }

    /// Returns the beginning of a base if one is to be made: the span has none yet, or much was
    /// written since the last one, or something was long ago.
    pub fn wanted_base(&self, now_ms: u64) -> Option<BaseBegun> {
        let span = self.span.as_ref()?;
        let is_wanted = span.last_base_ms.is_none_or(|last_ms| {
            let is_old = now_ms.saturating_sub(last_ms) >= self.options.base_interval_ms;
            let is_long = span.bytes_since_base >= self.options.base_bytes;
            is_long || (is_old && span.bytes_since_base > 0)
        });
        is_wanted.then(|| BaseBegun {
            span: span.id.clone(),
            began_ms: now_ms,
            bytes: span.bytes_since_base,
        })
    }

    /// Records that a base was made. It counts if its span still grows.
    pub fn note_base(&mut self, base: &BaseBegun) {
        if let Some(span) = &mut self.span
            && span.id == base.span
        {
            span.last_base_ms = Some(base.began_ms);
            // What was copied since the base began is behind it.
            span.bytes_since_base = span.bytes_since_base.saturating_sub(base.bytes);
        }
    }

    /// Returns true if the growing span has a base, so that its seconds can be restored.
    pub fn has_base(&self) -> bool {
        let span = self.span.as_ref();
        span.is_some_and(|span| span.last_base_ms.is_some())
    }

    /// Returns the removal of what is too old, which may run beside rounds.
    pub fn expiry(&self) -> Expiry {
        Expiry {
            repository: self.repository.clone(),
            spans: self.spans.clone(),
            retention_ms: self.options.retention_ms,
        }
    }
}

/// The removal of what is older than the retention of a log.
#[derive(Clone, Debug)]
pub struct Expiry {
    repository: PathBuf,
    spans: Spans,
    retention_ms: u64,
}

impl Expiry {
    /// Removes the bases and segments that no second of the retention needs.
    ///
    /// # Errors
    /// When a file cannot be removed, a manifest cannot be read, or another process changes the
    /// repository.
    pub fn run(&self, now_ms: u64) -> Result<Expired, BackupError> {
        let repository = Repository::open(&self.repository)?;
        let first_ms = now_ms.saturating_sub(self.retention_ms);
        let mut expired = Expired::default();
        let spans = self.spans.all()?;
        let all_bases = bases_of(&repository, &spans)?;
        for (place, (span, mut bases)) in spans.iter().zip(all_bases).enumerate() {
            bases.retain(is_continuous);
            // The newest base before the first second is the base of that second.
            let is_earlier = |base: &&Manifest| base.moment_ms / 1_000 < first_ms / 1_000;
            let first = bases.iter().rfind(is_earlier);
            let reached = self.spans.reached_or_written(span);
            let is_last = place + 1 == spans.len();
            let is_over = !is_last && reached.saturating_mul(1_000) < first_ms;
            let needed_from = match (is_over, first) {
                (true, _) => u64::MAX,
                (false, Some(base)) => base.group.unwrap_or(0),
                (false, None) => continue,
            };
            // The bases go first: a base whose segments are gone would promise too much.
            let old: Vec<&str> = bases
                .iter()
                .filter(|base| base.group.unwrap_or(0) < needed_from)
                .map(|base| base.id.as_str())
                .collect();
            if !old.is_empty() {
                let pruned = prune_where(&repository, |backup, _| old.contains(&&*backup.id))?;
                expired.bases += pruned.removed.len() as u64;
                expired.bytes += pruned.bytes;
            }
            let segments = span.segments.iter().filter(|name| name.last < needed_from);
            let segments: Vec<_> = segments.copied().collect();
            expired.segments += segments.len() as u64;
            expired.bytes += self.spans.remove(span, &segments, is_over)?;
        }
        Ok(expired)
    }
}

/// Gives up the journals that are kept for a log if they are more than `bytes_max`, whether the
/// folder of the log is open or not. Returns true if it did.
///
/// # Errors
/// When a journal cannot be removed.
pub fn limit_kept(store: &dyn Store, bytes_max: u64) -> Result<bool, BackupError> {
    let log = log_of(store)?;
    if log.release(&LogPosition::default())? <= bytes_max {
        return Ok(false);
    }
    let now = log.position()?;
    log.release(&now)?;
    Ok(true)
}

/// Returns the bytes of journals in the segments behind a group, as far as their names tell.
fn bytes_behind(span: &Span, group: Option<u64>) -> u64 {
    let group = group.unwrap_or(0);
    let pairs = span.segments.iter().zip(span.segments.iter().skip(1));
    let behind = pairs.filter(|(one, next)| one.last > group && one.journal == next.journal);
    behind
        .map(|(one, next)| next.offset.saturating_sub(one.offset))
        .sum()
}

/// Makes a base: a backup of the store that is removed when the retention is over.
///
/// # Errors
/// As those of [`create`].
pub fn create_base(
    store: &dyn Store,
    repository: &Path,
    options: &CreateOptions<'_>,
) -> Result<Summary, BackupError> {
    let mut options = options.clone();
    if let orrery_model::Json::Object(about) = &mut options.about {
        about.set(ABOUT_CONTINUOUS, true);
    }
    create(store, repository, &options, &mut |_| {})
}

/// Returns true if a backup was made for a log.
pub(crate) fn is_continuous(manifest: &Manifest) -> bool {
    manifest.about.get(ABOUT_CONTINUOUS).is_some()
}

/// Returns the backups of the time of each span, the oldest first. `spans` are in order.
///
/// # Errors
/// When the manifests cannot be listed.
pub(super) fn bases_of(
    repository: &Repository,
    spans: &[Span],
) -> Result<Vec<Vec<Manifest>>, BackupError> {
    let mut bases = vec![Vec::new(); spans.len()];
    for backup in repository.list()?.backups {
        let order = order_of(&backup.id);
        let place = spans.iter().rposition(|span| order_of(&span.id) <= order);
        // Backups of earlier versions do not tell their group.
        if let Some(place) = place
            && backup.group.is_some()
        {
            bases[place].push(backup);
        }
    }
    Ok(bases)
}

/// Returns the log of a store.
fn log_of(store: &dyn Store) -> Result<&dyn JournalLog, BackupError> {
    store
        .journal_log()
        .ok_or_else(|| BackupError::Store(not_kept()))
}

fn not_kept() -> StoreError {
    StoreError::Unavailable {
        reason: "the store keeps no journals for a continuous backup",
        retry_after_ms: 0,
        is_full: false,
    }
}
