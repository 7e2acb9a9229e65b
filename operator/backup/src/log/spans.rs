//! The folder of a log: its spans and their segments. `mod.rs` has the layout.
//!
//! Promised: a segment has its name when it is whole and durable. `reached.json` is written after
//! the segments that it tells of.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use orrery_model::json::Object;
use orrery_storage::{LogPosition, LogSegment};

use super::segment::{SegmentName, decode, encode, position_json, position_of};
use crate::error::BackupError;
use crate::files::{DRAFT_ENDING, Lock, create_folder, lock, sync_folder, write_whole};
use crate::manifest::{FORMAT, is_id, number, opened, order_of, sealed, text_of, u64_of};
use crate::repository::names;

const LOG_FOLDER: &str = "log";
const LOCK_FILE: &str = "lock";
const REACHED_FILE: &str = "reached.json";

/// The folder of the log in a repository.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    root: PathBuf,
    /// The id of the store.
    store_id: String,
}

/// One span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) id: String,
    /// In order.
    pub(crate) segments: Vec<SegmentName>,
}

/// The point up to which a span has everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// All groups of this second and of earlier ones are in the span.
    pub(crate) second: u64,
    pub(crate) position: LogPosition,
}

impl Spans {
    /// Returns the folder of a repository, which need not exist.
    pub(crate) fn of(repository: &Path, store_id: String) -> Spans {
        Spans {
            root: repository.join(LOG_FOLDER),
            store_id,
        }
    }

    /// Creates the folder and locks it against other writers.
    pub(crate) fn lock(&self) -> Result<Lock, BackupError> {
        create_folder(&self.root)?;
        lock(&self.root.join(LOCK_FILE), &self.root)
    }

    /// Returns true if the folder is still the one that was locked.
    pub(crate) fn is_locked_by(&self, lock: &Lock) -> bool {
        lock.is_at(&self.root.join(LOCK_FILE)).unwrap_or(false)
    }

    /// Removes what interrupted writes left.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub(crate) fn remove_drafts(&self) -> Result<(), BackupError> {
        for span in self.all()? {
            let folder = self.root.join(&span.id);
            for name in names(&folder)? {
                if name.ends_with(DRAFT_ENDING) {
                    let path = folder.join(name);
                    std::fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
                }
            }
        }
        Ok(())
    }

    /// Returns the second up to which a span has everything, or that of its last segment if its
    /// note cannot be read.
    pub(crate) fn reached_or_written(&self, span: &Span) -> u64 {
        let written = span.segments.last().map_or(0, |name| name.second);
        let noted = self.reached(&span.id).ok().flatten();
        noted.map_or(written, |reached| reached.second)
    }

    /// Returns all spans, the oldest first.
    ///
    /// # Errors
    /// When a folder cannot be listed.
    pub(crate) fn all(&self) -> Result<Vec<Span>, BackupError> {
        let mut ids = names(&self.root)?;
        ids.retain(|name| is_id(name) && self.root.join(name).is_dir());
        ids.sort_by(|a, b| order_of(a).cmp(&order_of(b)));
        let mut spans = Vec::with_capacity(ids.len());
        for id in ids {
            let names = names(&self.root.join(&id))?;
            let mut segments: Vec<SegmentName> = names
                .iter()
                .filter_map(|name| SegmentName::parse(name))
                .collect();
            segments.sort_unstable();
            // A copy that failed after the file had its name is repeated, and may be longer then.
            segments.dedup_by(|later, kept| {
                let is_repeated = later.place() == kept.place();
                if is_repeated {
                    *kept = *later;
                }
                is_repeated
            });
            spans.push(Span { id, segments });
        }
        Ok(spans)
    }

    /// Begins a span at a place.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub(crate) fn begin(&self, id: &str, reached: &Reached) -> Result<(), BackupError> {
        create_folder(&self.root.join(id))?;
        self.write_reached(id, reached)
    }

    /// Adds a segment, durably. Returns the bytes of its file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn add(&self, id: &str, segment: &LogSegment) -> Result<u64, BackupError> {
        let path = self.path(id, &SegmentName::of(segment));
        let content = encode(&self.store_id, segment).map_err(BackupError::io("write", &path))?;
        write_whole(&path, &content)?;
        Ok(content.len() as u64)
    }

    /// Reads a segment.
    ///
    /// # Errors
    /// The fault of a segment that is missing, cannot be read, or is not as written.
    pub(crate) fn read(&self, id: &str, name: &SegmentName) -> Result<LogSegment, String> {
        let path = self.path(id, name);
        let content = std::fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => "it is missing".to_owned(),
            _ => format!("it cannot be read ({error})"),
        })?;
        decode(&path, &self.store_id, &content)
    }

    /// Returns the place of the note of a span.
    pub(crate) fn note(&self, id: &str) -> PathBuf {
        self.root.join(id).join(REACHED_FILE)
    }

    /// Returns the place of a segment.
    pub(crate) fn path(&self, id: &str, name: &SegmentName) -> PathBuf {
        self.root.join(id).join(name.to_text())
    }

    /// Returns the bytes of the files of a span.
    pub(crate) fn bytes(&self, span: &Span) -> u64 {
        let bytes = |name| {
            self.path(&span.id, name)
                .metadata()
                .map_or(0, |file| file.len())
        };
        span.segments.iter().map(bytes).sum()
    }

    /// Records the point up to which a span has everything.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn write_reached(&self, id: &str, reached: &Reached) -> Result<(), BackupError> {
        let mut members = Object::new();
        members.set("format", number(FORMAT));
        members.set("storeId", self.store_id.as_str());
        members.set("second", number(reached.second));
        members.set("position", position_json(&reached.position));
        let path = self.note(id);
        write_whole(&path, sealed(members).as_bytes())
    }

    /// Returns the point up to which a span has everything; `None` if the span has none yet.
    ///
    /// # Errors
    /// When it cannot be read, or is not as written.
    pub(crate) fn reached(&self, id: &str) -> Result<Option<Reached>, BackupError> {
        let path = self.note(id);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(BackupError::io("read", &path)(error)),
        };
        let members = opened(&path, &text)?;
        if text_of(&members, "storeId").as_ref() != Some(&self.store_id) {
            return Err(BackupError::damaged(
                &path,
                "it is of another data directory",
            ));
        }
        let second = members.get("second").and_then(u64_of);
        let position = members.get("position").and_then(position_of);
        match (second, position) {
            (Some(second), Some(position)) => Ok(Some(Reached { second, position })),
            _ => Err(BackupError::damaged(
                &path,
                "a member is missing or has no sense",
            )),
        }
    }

    /// Removes segments of a span, the oldest first; the span itself if `whole`. Returns the bytes.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub(crate) fn remove(
        &self,
        id: &str,
        segments: &[SegmentName],
        whole: bool,
    ) -> Result<u64, BackupError> {
        let folder = self.root.join(id);
        let mut bytes = 0;
        for name in segments {
            let path = folder.join(name.to_text());
            bytes += path.metadata().map_or(0, |file| file.len());
            std::fs::remove_file(&path).map_err(BackupError::io("remove", &path))?;
        }
        if whole {
            std::fs::remove_dir_all(&folder).map_err(BackupError::io("remove", &folder))?;
            return Ok(bytes);
        }
        sync_folder(&folder).map_err(BackupError::io("sync", &folder))?;
        Ok(bytes)
    }
}
