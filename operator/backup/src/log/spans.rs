//! The folder of a log: its spans and their segments. `mod.rs` has the layout.
//!
//! Promised: a segment has its name when it is whole and durable. `reached.json` is written after
//! the segments that it tells of.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use orrery_model::json::Object;
use orrery_storage::{LogPosition, LogSegment};

use super::segment::{SegmentName, decode, encode, position_json, position_of};
use crate::error::BackupError;
use crate::manifest::{FORMAT, is_id, number, opened, order_of, sealed, text_of, u64_of};
use crate::place::{Lock, Place};

const LOG_FOLDER: &str = "log";
const LOCK_FILE: &str = "log/lock";
const REACHED_FILE: &str = "reached.json";

/// The folder of the log in a repository.
#[derive(Clone, Debug)]
pub(crate) struct Spans {
    place: Arc<dyn Place>,
    /// The id of the store.
    store_id: String,
}

/// One span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) id: String,
    /// In order.
    pub(crate) segments: Vec<SegmentName>,
    /// The bytes of the files of segments.
    pub(crate) bytes: BTreeMap<SegmentName, u64>,
}

impl Span {
    /// Returns the bytes of the files of all segments.
    pub(crate) fn total_bytes(&self) -> u64 {
        let bytes = self.segments.iter().filter_map(|name| self.bytes.get(name));
        bytes.sum()
    }
}

/// The point up to which a span has everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reached {
    /// All groups of this second and of earlier ones are in the span.
    pub(crate) second: u64,
    pub(crate) position: LogPosition,
}

impl Spans {
    /// Returns the log in the place of a repository, which need not exist.
    pub(crate) fn of(place: Arc<dyn Place>, store_id: String) -> Spans {
        Spans { place, store_id }
    }

    /// Locks the log against other writers.
    pub(crate) fn lock(&self) -> Result<Box<dyn Lock>, BackupError> {
        // Only the process that has the store open writes its log.
        self.place.lock(LOCK_FILE, Some(&self.store_id))
    }

    /// Removes what interrupted writes left.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub(crate) fn remove_drafts(&self) -> Result<(), BackupError> {
        for span in self.all()? {
            self.place.remove_drafts(&folder(&span.id))?;
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
        let mut spans: Vec<Span> = Vec::new();
        for file in self.place.files(LOG_FOLDER)? {
            let Some((id, name)) = file.name.split_once('/') else {
                continue;
            };
            if !is_id(id) {
                continue;
            }
            if spans.last().is_none_or(|span| span.id != id) {
                spans.push(Span {
                    id: id.to_owned(),
                    segments: Vec::new(),
                    bytes: BTreeMap::new(),
                });
            }
            if let (Some(name), Some(span)) = (SegmentName::parse(name), spans.last_mut()) {
                span.segments.push(name);
                span.bytes.insert(name, file.bytes);
            }
        }
        for span in &mut spans {
            span.segments.sort_unstable();
            // A copy that failed after the file had its name is repeated, and may be longer then.
            span.segments.dedup_by(|later, kept| {
                let is_repeated = later.place() == kept.place();
                if is_repeated {
                    *kept = *later;
                }
                is_repeated
            });
        }
        spans.sort_by(|a, b| order_of(&a.id).cmp(&order_of(&b.id)));
        Ok(spans)
    }

    /// Begins a span at a place.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub(crate) fn begin(&self, id: &str, reached: &Reached) -> Result<(), BackupError> {
        self.place.create_folder(&folder(id))?;
        self.write_reached(id, reached)
    }

    /// Adds a segment, durably. Returns the bytes of its file.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn add(&self, id: &str, segment: &LogSegment) -> Result<u64, BackupError> {
        let name = SegmentName::of(segment);
        let path = self.path(id, &name);
        let content = encode(&self.store_id, segment).map_err(BackupError::io("write", &path))?;
        self.place.write(&file(id, &name), &content)?;
        Ok(content.len() as u64)
    }

    /// Reads a segment.
    ///
    /// # Errors
    /// The fault of a segment that is missing, cannot be read, or is not as written.
    pub(crate) fn read(&self, id: &str, name: &SegmentName) -> Result<LogSegment, String> {
        let path = self.path(id, name);
        let content = match self.place.read(&file(id, name)) {
            Ok(content) => content.ok_or_else(|| "it is missing".to_owned())?,
            Err(BackupError::Io { source, .. }) => {
                return Err(format!("it cannot be read ({source})"));
            }
            Err(error) => return Err(error.to_string()),
        };
        decode(&path, &self.store_id, &content)
    }

    /// Returns the place of the note of a span.
    pub(crate) fn note(&self, id: &str) -> PathBuf {
        self.place.path(&note(id))
    }

    /// Returns the place of a segment.
    pub(crate) fn path(&self, id: &str, name: &SegmentName) -> PathBuf {
        self.place.path(&file(id, name))
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
        self.place.write(&note(id), sealed(members).as_bytes())
    }

    /// Returns the point up to which a span has everything; `None` if the span has none yet.
    ///
    /// # Errors
    /// When it cannot be read, or is not as written.
    pub(crate) fn reached(&self, id: &str) -> Result<Option<Reached>, BackupError> {
        let path = self.note(id);
        let Some(text) = self.place.read(&note(id))? else {
            return Ok(None);
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
        span: &Span,
        segments: &[SegmentName],
        whole: bool,
    ) -> Result<u64, BackupError> {
        let folder = folder(&span.id);
        let names: Vec<String> = segments.iter().map(|name| name.to_text()).collect();
        self.place.remove(&folder, &names)?;
        if whole {
            self.place.remove_folder(&folder)?;
        }
        let bytes = segments.iter().filter_map(|name| span.bytes.get(name));
        Ok(bytes.sum())
    }

    /// Removes a span that could not begin.
    pub(crate) fn give_up(&self, id: &str) -> Result<(), BackupError> {
        self.place.remove_folder(&folder(id))
    }
}

/// Returns the name of the folder of a span.
fn folder(id: &str) -> String {
    format!("{LOG_FOLDER}/{id}")
}

/// Returns the name of a segment.
fn file(id: &str, name: &SegmentName) -> String {
    format!("{LOG_FOLDER}/{id}/{}", name.to_text())
}

/// Returns the name of the note of a span.
fn note(id: &str) -> String {
    format!("{LOG_FOLDER}/{id}/{REACHED_FILE}")
}
