//! The account of an import: which records are finished, the file of refused items, and the
//! checkpoint.
//!
//! Records finish in any order. The ledger takes them in the order of the input: a record is
//! *settled* when it and all before it are finished. Refused items are written when they are
//! settled, and the checkpoint names the last settled record, so that an interrupted import goes on
//! after it and the file of refused items has each once.
//!
//! Records behind the last settled one may have been sent before an interruption. The checkpoint
//! therefore names a record beyond which nothing was sent ([`Ledger::allowed`]): up to there, a
//! conflict may be with an item that the interrupted run stored.

use super::ending::TransferError;
use super::item::RecordPlace;
use super::send::Verdict;
use orrery_client::files::read_bounded;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

/// Records that may be sent beyond the last settled one, with a checkpoint.
const AHEAD_MAX: u64 = 200_000;
/// Bytes of a checkpoint, which names every file of its import.
pub(super) const CHECKPOINT_BYTES_MAX: u64 = 64 << 20;
/// Refused items that are told without a file for them.
const TOLD_MAX: usize = 10;

/// Counts of an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Records that were read.
    pub records: u64,
    /// New items.
    pub created: u64,
    /// Items that replaced another.
    pub replaced: u64,
    /// Items that were left out because one with the same id exists (`skip-existing`).
    pub existing: u64,
    /// Items that cannot be imported.
    pub refused: u64,
    /// Items whose id was made from the name of the file, their number and their text.
    pub made_ids: u64,
}

/// A checkpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// Version of this form.
    pub(super) version: u32,
    /// Text that identifies the import: a checkpoint continues the same import only.
    pub(super) import: String,
    /// True after the last record.
    pub(super) is_complete: bool,
    /// The last settled record.
    pub(super) settled: RecordPlace,
    /// Counts of the settled records.
    pub(super) counts: Counts,
    /// Number of the last record that may have been sent.
    pub(super) allowed: u64,
    /// Bytes of the file of refused items.
    pub(super) dead_letter_bytes: u64,
}

/// A refused record, for the file of refused items.
#[derive(Debug, Serialize)]
struct DeadLetter<'a> {
    file: &'a str,
    record: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    reason: &'a str,
    /// The text of the record; bytes that are no UTF-8 are replaced.
    text: &'a str,
}

/// The state of a record that is not settled.
enum Slot {
    Open,
    Finished(Box<Finished>),
}

/// A finished record.
pub(super) struct Finished {
    pub(super) place: RecordPlace,
    pub(super) name: Arc<str>,
    pub(super) verdict: Verdict,
    /// Lines that show the place of a fault in the record; empty if there is no such place.
    pub(super) mark: String,
    pub(super) has_made_id: bool,
    /// The record's text, if it is refused.
    pub(super) text: Vec<u8>,
    /// Room of the text in the memory of the import, until the record is settled.
    pub(super) _room: Option<OwnedSemaphorePermit>,
}

/// The account of an import.
pub(super) struct Ledger {
    /// Slots of the records after the last settled one.
    open: VecDeque<Slot>,
    checkpoint: Checkpoint,
    checkpoint_file: Option<PathBuf>,
    dead_letters: Option<BufWriter<File>>,
    /// True if the first refused record ends the import.
    ends_at_refusal: bool,
    /// The first refusals, for the terminal.
    pub(super) told: Vec<String>,
}

impl Ledger {
    /// Creates the ledger of an import, from its checkpoint if there is one.
    ///
    /// # Errors
    /// A file that cannot be opened, or a checkpoint of another import.
    pub(super) fn open(
        import: String,
        checkpoint_file: Option<&Path>,
        dead_letter_file: Option<&Path>,
        is_dry_run: bool,
    ) -> Result<Self, TransferError> {
        let fresh = Checkpoint {
            version: 1,
            import,
            is_complete: false,
            settled: RecordPlace::default(),
            counts: Counts::default(),
            allowed: 0,
            dead_letter_bytes: 0,
        };
        let checkpoint = match checkpoint_file.filter(|file| file.exists()) {
            Some(file) => read_checkpoint(file, &fresh)?,
            None => fresh,
        };
        let is_resumed = checkpoint.counts.records > 0;
        let dead_letters = match dead_letter_file {
            Some(file) => Some(open_dead_letters(
                file,
                is_resumed,
                checkpoint.dead_letter_bytes,
            )?),
            None => None,
        };
        Ok(Self {
            open: VecDeque::new(),
            checkpoint,
            checkpoint_file: checkpoint_file.map(Path::to_owned),
            ends_at_refusal: dead_letters.is_none() && !is_dry_run,
            dead_letters,
            told: Vec::new(),
        })
    }

    /// Returns the checkpoint.
    pub(super) fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// Returns true if the first refused record ends the import.
    pub(super) fn ends_at_refusal(&self) -> bool {
        self.ends_at_refusal
    }

    /// Returns the reason of the refused record that ended the import.
    pub(super) fn refusal(&self) -> Option<&str> {
        match self.open.front() {
            Some(Slot::Finished(next)) if self.ends_at_refusal => match &next.verdict {
                Verdict::Refused(reason) => Some(reason),
                _ => None,
            },
            _ => None,
        }
    }

    /// Returns the number of items that were written and whose records are not settled, because a
    /// record before them is not.
    pub(super) fn written_behind(&self) -> u64 {
        let is_written = |slot: &&Slot| match slot {
            Slot::Open => false,
            Slot::Finished(one) => matches!(one.verdict, Verdict::Created | Verdict::Replaced),
        };
        self.open.iter().filter(is_written).count() as u64
    }

    /// Returns the counts of the settled records.
    pub(super) fn counts(&self) -> Counts {
        self.checkpoint.counts
    }

    /// Returns the ordinal of the last record that may be sent before the next checkpoint.
    pub(super) fn allowed(&self) -> u64 {
        match self.checkpoint_file {
            Some(_) => self.checkpoint.allowed,
            None => u64::MAX,
        }
    }

    /// Returns the ordinal of the next record.
    pub(super) fn next_ordinal(&self) -> u64 {
        self.checkpoint.counts.records + self.open.len() as u64 + 1
    }

    /// Opens the next record and returns its ordinal.
    pub(super) fn begin(&mut self) -> u64 {
        let ordinal = self.next_ordinal();
        self.open.push_back(Slot::Open);
        ordinal
    }

    /// Finishes the record with an ordinal of [`Ledger::begin`].
    ///
    /// # Errors
    /// A file that cannot be written; a refused record, if there is no file for it. It and the
    /// records after it are then not settled.
    pub(super) fn finish(&mut self, ordinal: u64, finished: Finished) -> Result<(), TransferError> {
        let index = ordinal.saturating_sub(self.checkpoint.counts.records + 1);
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if let Some(slot) = self.open.get_mut(index) {
            *slot = Slot::Finished(Box::new(finished));
        }
        while let Some(Slot::Finished(next)) = self.open.front() {
            if let (true, Verdict::Refused(reason)) = (self.ends_at_refusal, &next.verdict) {
                return Err(TransferError::Failed(format!(
                    "{}: {reason}{}",
                    record_name(&next.name, &next.place),
                    next.mark
                )));
            }
            if let Some(Slot::Finished(finished)) = self.open.pop_front() {
                self.settle(*finished)?;
            }
        }
        Ok(())
    }

    fn settle(&mut self, finished: Finished) -> Result<(), TransferError> {
        let counts = &mut self.checkpoint.counts;
        counts.records += 1;
        counts.made_ids += u64::from(finished.has_made_id);
        self.checkpoint.settled = finished.place.clone();
        let reason = match &finished.verdict {
            Verdict::Created => {
                counts.created += 1;
                return Ok(());
            }
            Verdict::Replaced => {
                counts.replaced += 1;
                return Ok(());
            }
            Verdict::Existing => {
                counts.existing += 1;
                return Ok(());
            }
            Verdict::Refused(reason) => reason,
        };
        counts.refused += 1;
        let place = &finished.place;
        if self.told.len() < TOLD_MAX {
            let name = record_name(&finished.name, place);
            self.told.push(format!("{name}: {reason}{}", finished.mark));
        }
        let Some(file) = &mut self.dead_letters else {
            return Ok(());
        };
        let letter = DeadLetter {
            file: &finished.name,
            record: place.number,
            line: Some(place.line).filter(|line| *line > 0),
            reason,
            text: &String::from_utf8_lossy(&finished.text),
        };
        let failed = |e: String| TransferError::Failed(format!("file of refused items: {e}"));
        let mut text = serde_json::to_vec(&letter).map_err(|e| failed(e.to_string()))?;
        text.push(b'\n');
        file.write_all(&text).map_err(|e| failed(e.to_string()))?;
        self.checkpoint.dead_letter_bytes += text.len() as u64;
        Ok(())
    }

    /// Writes the checkpoint, if there is a file for it, and allows further records.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(super) fn save(&mut self, is_complete: bool) -> Result<(), TransferError> {
        if let Some(file) = &mut self.dead_letters {
            let written = file.flush().and_then(|()| file.get_ref().sync_data());
            written.map_err(|e| TransferError::Failed(format!("file of refused items: {e}")))?;
        }
        let Some(path) = &self.checkpoint_file else {
            return Ok(());
        };
        self.checkpoint.is_complete = is_complete;
        self.checkpoint.allowed = self.checkpoint.counts.records + AHEAD_MAX;
        write_whole(path, &self.checkpoint)
            .map_err(|e| TransferError::Failed(format!("checkpoint {}: {e}", path.display())))
    }
}

/// Returns the name of a record for messages.
fn record_name(file: &str, place: &RecordPlace) -> String {
    match place.line {
        0 => format!("{file}, record {}", place.number),
        line => format!("{file}, record {}, line {line}", place.number),
    }
}

/// Replaces a file at once: a reader finds the old content or the new.
pub(super) fn write_whole(path: &Path, content: &impl Serialize) -> std::io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    serde_json::to_writer_pretty(&mut file, content)?;
    file.as_file().sync_data()?;
    file.persist(path)?;
    Ok(())
}

fn read_checkpoint(path: &Path, expected: &Checkpoint) -> Result<Checkpoint, TransferError> {
    let failed = |cause: String| {
        TransferError::Usage(format!(
            "checkpoint {}: {cause}; delete the file to begin anew",
            path.display()
        ))
    };
    let text = read_bounded(path, CHECKPOINT_BYTES_MAX).map_err(|e| failed(e.to_string()))?;
    let found: Checkpoint =
        serde_json::from_slice(&text).map_err(|e| failed(format!("no checkpoint: {e}")))?;
    if found.version != expected.version {
        return Err(failed("it was written by another version".into()));
    }
    if found.import != expected.import {
        return Err(failed(format!(
            "it belongs to another import: {} (this one is {})",
            found.import, expected.import
        )));
    }
    Ok(found)
}

/// Opens the file of refused items; a resumed import cuts off what is not settled.
fn open_dead_letters(
    path: &Path,
    is_resumed: bool,
    bytes: u64,
) -> Result<BufWriter<File>, TransferError> {
    let failed = |cause: String| TransferError::Usage(format!("{}: {cause}", path.display()));
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    let mut file = options.open(path).map_err(|e| failed(e.to_string()))?;
    let length = file.metadata().map_err(|e| failed(e.to_string()))?.len();
    if !is_resumed && length > 0 {
        return Err(failed(
            "the file of refused items is not empty: move it away, or name another".into(),
        ));
    }
    if length < bytes {
        return Err(failed(
            "the file is shorter than the checkpoint says".into(),
        ));
    }
    file.set_len(bytes).map_err(|e| failed(e.to_string()))?;
    file.seek(SeekFrom::Start(bytes))
        .map_err(|e| failed(e.to_string()))?;
    Ok(BufWriter::new(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finished(number: u64, verdict: Verdict) -> Finished {
        Finished {
            place: RecordPlace {
                number,
                ..RecordPlace::default()
            },
            name: "a.jsonl".into(),
            verdict,
            mark: "\n  {}\n  ^".into(),
            has_made_id: false,
            text: b"{}".to_vec(),
            _room: None,
        }
    }

    #[test]
    fn a_refused_record_without_a_file_for_it_ends_the_import_and_later_items_are_counted() {
        let mut ledger = Ledger::open("x".into(), None, None, false).unwrap();
        for _ in 0..4 {
            ledger.begin();
        }
        ledger.finish(3, finished(3, Verdict::Created)).unwrap();
        ledger
            .finish(2, finished(2, Verdict::Refused("no".into())))
            .unwrap();
        assert_eq!((ledger.refusal(), ledger.written_behind()), (None, 1));
        let end = ledger.finish(1, finished(1, Verdict::Created));
        let told = end.unwrap_err().to_string();
        assert_eq!(told, "a.jsonl, record 2: no\n  {}\n  ^");
        let end = ledger.finish(4, finished(4, Verdict::Replaced));
        assert!(end.is_err());
        assert_eq!((ledger.refusal(), ledger.written_behind()), (Some("no"), 2));
        assert_eq!(ledger.counts().records, 1);
    }

    #[test]
    fn records_are_settled_in_the_order_of_the_input() {
        let folder = tempfile::tempdir().unwrap();
        let dead = folder.path().join("dead.jsonl");
        let checkpoint = folder.path().join("checkpoint");
        let open = || Ledger::open("x".into(), Some(&checkpoint), Some(&dead), false);
        let mut ledger = open().unwrap();
        assert_eq!(
            ledger.allowed(),
            0,
            "a checkpoint comes before the first request"
        );
        let ordinals: Vec<u64> = (0..4).map(|_| ledger.begin()).collect();
        assert_eq!(ordinals, [1, 2, 3, 4]);
        ledger
            .finish(2, finished(2, Verdict::Refused("no".into())))
            .unwrap();
        assert_eq!(ledger.counts().records, 0);
        ledger.finish(1, finished(1, Verdict::Created)).unwrap();
        assert_eq!((ledger.counts().records, ledger.counts().refused), (2, 1));
        ledger.save(false).unwrap();
        ledger
            .finish(3, finished(3, Verdict::Refused("late".into())))
            .unwrap();
        drop(ledger);

        // The refusal after the checkpoint is cut off: its record comes again.
        let mut ledger = open().unwrap();
        assert_eq!(ledger.checkpoint().settled.number, 2);
        assert_eq!(ledger.begin(), 3);
        drop(ledger);
        let text = std::fs::read_to_string(&dead).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains("\"reason\":\"no\""), "{text}");
        assert!(Ledger::open("y".into(), Some(&checkpoint), Some(&dead), false).is_err());
        assert!(
            Ledger::open("x".into(), None, Some(&dead), false).is_err(),
            "it would be overwritten"
        );
    }
}
