//! The record of a disk: the operations on its files and names, in their order.
//!
//! Writes, lengths and syncs are recorded by the calls themselves. Names are looked for before each
//! sync and before the first write to a file that is not known: a change of a name stands in the
//! record before the next sync, which is where its place matters.

use crate::calls::{self, identity};
use crate::content::Content;
use crate::{Call, Failure, Position, Syncs};
use orrery_model::sync::lock;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The numbers of a file system and of a file in it.
pub(crate) type Identity = (u64, u64);

/// The number of a file or directory in a record. [`ROOT`] is that of the directory.
pub(crate) type Number = usize;

pub(crate) const ROOT: Number = 0;

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// A file or a directory gets a name.
    Named {
        directory: Number,
        name: OsString,
        number: Number,
        is_directory: bool,
    },
    /// A name is replaced by another one, in one step.
    Renamed {
        directory: Number,
        from: OsString,
        to: OsString,
    },
    /// A name is removed.
    Removed {
        directory: Number,
        name: OsString,
    },
    Written {
        number: Number,
        offset: u64,
        bytes: Vec<u8>,
    },
    Resized {
        number: Number,
        length: u64,
    },
    /// All earlier changes of a file or of the names in a directory are durable.
    Synced {
        number: Number,
    },
    /// A sync failed: no later one makes the earlier changes of a file durable.
    SyncFailed {
        number: Number,
    },
}

/// The disks that are recorded.
static DISKS: Mutex<Vec<Arc<Recorded>>> = Mutex::new(Vec::new());
/// Their number, which most calls ask alone.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A disk that is recorded.
pub(crate) struct Recorded {
    root: PathBuf,
    record: Mutex<Record>,
}

/// The record of a disk.
pub(crate) struct Record {
    root: PathBuf,
    operations: Vec<Operation>,
    /// The files and directories with a name.
    numbers: HashMap<Identity, Number>,
    next_number: Number,
    /// The names in each directory.
    names: BTreeMap<Number, BTreeMap<OsString, Number>>,
    lengths: HashMap<Number, u64>,
    failure: Option<Failure>,
    failures: u64,
    forgotten: Option<Syncs>,
    /// The number of syncs of the kind of which some are forgotten.
    syncs: u64,
    problem: Option<String>,
}

/// The record during a call for one file.
pub(crate) struct Recorder<'a> {
    record: MutexGuard<'a, Record>,
    number: Number,
}

/// Begins a record.
pub(crate) fn begin(directory: &Path) -> io::Result<Arc<Recorded>> {
    assert!(calls::are_linked(), "the calls are replaced");
    let root = directory.canonicalize()?;
    let metadata = fs::metadata(&root)?;
    let mut record = Record {
        root: root.clone(),
        operations: Vec::new(),
        numbers: HashMap::from([((metadata.dev(), metadata.ino()), ROOT)]),
        next_number: ROOT + 1,
        names: BTreeMap::from([(ROOT, BTreeMap::new())]),
        lengths: HashMap::new(),
        failure: None,
        failures: 0,
        forgotten: None,
        syncs: 0,
        problem: None,
    };
    record.find_names();
    for number in ROOT..record.next_number {
        record.operations.push(Operation::Synced { number });
    }
    if let Some(problem) = record.problem {
        return Err(io::Error::other(problem));
    }
    let recorded = Arc::new(Recorded {
        root,
        record: Mutex::new(record),
    });
    lock(&DISKS).push(recorded.clone());
    COUNT.fetch_add(1, Ordering::SeqCst);
    Ok(recorded)
}

/// Ends a record.
pub(crate) fn end(recorded: &Arc<Recorded>) {
    lock(&DISKS).retain(|disk| !Arc::ptr_eq(disk, recorded));
    COUNT.fetch_sub(1, Ordering::SeqCst);
}

/// Returns true while a disk is recorded.
pub(crate) fn is_recording() -> bool {
    COUNT.load(Ordering::SeqCst) > 0
}

/// Returns the disk that a file is on.
pub(crate) fn disk_of(fd: i32) -> Option<Arc<Recorded>> {
    if !is_recording() {
        return None;
    }
    identity(fd)?;
    let path = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    let disks = lock(&DISKS);
    disks
        .iter()
        .find(|disk| path.starts_with(&disk.root))
        .cloned()
}

impl Recorded {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    /// Returns the record for a call, of which no other one is made before the end of this one.
    pub(crate) fn of_call(&self, fd: i32) -> Option<Recorder<'_>> {
        let mut record = self.lock();
        // Under the lock, since another call may change the length.
        let (identity, length, is_directory) = identity(fd)?;
        let number = record.number(identity)?;
        if !is_directory && record.lengths.get(&number) != Some(&length) {
            // The file was opened with another length, or got it without a recorded call.
            record.set_length(number, length);
        }
        Some(Recorder { record, number })
    }
}

impl Recorder<'_> {
    /// Returns the error with which the call fails, if it does.
    pub(crate) fn failure(&mut self, call: Call) -> Option<i32> {
        self.record.next_failure(call)
    }

    /// Records a write; without an offset it cannot be recorded.
    pub(crate) fn written(&mut self, offset: Option<u64>, bytes: &[u8]) {
        let Some(offset) = offset else {
            let problem = "a write without a position".to_owned();
            self.record.problem.get_or_insert(problem);
            return;
        };
        if bytes.is_empty() {
            return;
        }
        let length = self.record.lengths.entry(self.number).or_default();
        *length = (*length).max(offset + bytes.len() as u64);
        self.record.operations.push(Operation::Written {
            number: self.number,
            offset,
            bytes: bytes.to_vec(),
        });
    }

    pub(crate) fn resized(&mut self, length: u64) {
        self.record.set_length(self.number, length);
    }

    /// Finds the changes of names, which are not durable by this sync unless it is of their
    /// directory.
    pub(crate) fn find_names(&mut self) {
        self.record.find_names();
    }

    pub(crate) fn synced(&mut self) {
        let number = self.number;
        if !self.record.is_forgotten(number) {
            self.record.operations.push(Operation::Synced { number });
        }
    }

    pub(crate) fn sync_failed(&mut self) {
        let number = self.number;
        self.record
            .operations
            .push(Operation::SyncFailed { number });
    }
}

impl Record {
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn position(&self) -> Position {
        self.operations.len()
    }

    /// Returns the operations before a place.
    pub(crate) fn operations(&self, at: Position) -> &[Operation] {
        &self.operations[..at.min(self.operations.len())]
    }

    /// Returns the first thing that could not be recorded.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    pub(crate) fn set_failure(&mut self, failure: Option<Failure>) {
        self.failure = failure;
    }

    pub(crate) fn failures(&self) -> u64 {
        self.failures
    }

    pub(crate) fn forget(&mut self, syncs: Syncs) {
        self.forgotten = Some(syncs);
    }

    /// Counts a sync. Returns true if it is reported and not done.
    fn is_forgotten(&mut self, number: Number) -> bool {
        let is_directory = self.names.contains_key(&number);
        let each = match (self.forgotten, is_directory) {
            (Some(Syncs::OfFiles { each }), false) => each,
            (Some(Syncs::OfNames { each }), true) => each,
            _ => return false,
        };
        self.syncs += 1;
        self.syncs.is_multiple_of(each)
    }

    /// Counts a call. Returns the error with which it fails, if it does.
    fn next_failure(&mut self, call: Call) -> Option<i32> {
        let failure = self
            .failure
            .as_mut()
            .filter(|failure| failure.call == call)?;
        if failure.after > 0 {
            failure.after -= 1;
            return None;
        }
        if failure.times == 0 {
            return None;
        }
        failure.times -= 1;
        self.failures += 1;
        Some(failure.error)
    }

    /// Returns the number of a file, for whose name the directories are searched if it is new.
    fn number(&mut self, identity: Identity) -> Option<Number> {
        if !self.numbers.contains_key(&identity) {
            self.find_names();
        }
        self.numbers.get(&identity).copied()
    }

    fn set_length(&mut self, number: Number, length: u64) {
        self.lengths.insert(number, length);
        self.operations.push(Operation::Resized { number, length });
    }

    /// Compares all names with those of the record, and records the changes.
    pub(crate) fn find_names(&mut self) {
        if let Err(error) = self.find_names_in(ROOT, &self.root.clone()) {
            self.problem.get_or_insert(error.to_string());
        }
    }

    fn find_names_in(&mut self, directory: Number, path: &Path) -> io::Result<()> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            // A folder below may go at any moment, and its name with it at the next look.
            Err(error) if is_gone(&error) && directory != ROOT => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut found = BTreeMap::new();
        for entry in entries {
            let entry = entry?;
            // A file may lose its name at any moment.
            match fs::symlink_metadata(entry.path()) {
                Ok(metadata) => _ = found.insert(entry.file_name(), metadata),
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
        let known = self.names.get(&directory).cloned().unwrap_or_default();
        let mut gone: Vec<(OsString, Number)> = Vec::new();
        for (name, number) in &known {
            let is_there = found.get(name).is_some_and(|metadata| {
                self.numbers.get(&(metadata.dev(), metadata.ino())) == Some(number)
            });
            if !is_there {
                gone.push((name.clone(), *number));
            }
        }
        for (name, metadata) in &found {
            let identity = (metadata.dev(), metadata.ino());
            let number = self.numbers.get(&identity).copied();
            if number.is_some() && known.get(name).copied() == number {
                continue;
            }
            let from = gone.iter().position(|(_, one)| Some(*one) == number);
            match (number, from) {
                (Some(number), Some(from)) => {
                    let (from, _) = gone.swap_remove(from);
                    // The name that is replaced is gone by this.
                    gone.retain(|(gone, _)| gone != name);
                    self.rename(directory, from, name.clone(), number);
                }
                (number, _) => {
                    gone.retain(|(gone, _)| gone != name);
                    self.name(directory, name, number, metadata, &path.join(name))?;
                }
            }
        }
        for metadata in found.values().filter(|metadata| metadata.is_file()) {
            // A file that was cut when it was opened got no recorded call.
            let number = self.numbers.get(&(metadata.dev(), metadata.ino())).copied();
            if let Some(number) = number
                && self.lengths.get(&number) != Some(&metadata.len())
            {
                self.set_length(number, metadata.len());
            }
        }
        for (name, number) in gone {
            self.names.entry(directory).or_default().remove(&name);
            self.forget_without_name(Some(number));
            self.operations.push(Operation::Removed { directory, name });
        }
        for (name, metadata) in found {
            if metadata.is_dir()
                && let Some(number) = self.numbers.get(&(metadata.dev(), metadata.ino()))
            {
                self.find_names_in(*number, &path.join(name))?;
            }
        }
        Ok(())
    }

    /// Forgets the identity of a file without a name, since systems use the numbers of files again.
    fn forget_without_name(&mut self, number: Option<Number>) {
        let Some(number) = number else { return };
        let mut names = self.names.values().flat_map(BTreeMap::values);
        if !names.any(|one| *one == number) {
            self.numbers.retain(|_, one| *one != number);
        }
    }

    fn rename(&mut self, directory: Number, from: OsString, to: OsString, number: Number) {
        let names = self.names.entry(directory).or_default();
        names.remove(&from);
        let replaced = names.insert(to.clone(), number);
        self.forget_without_name(replaced);
        self.operations.push(Operation::Renamed {
            directory,
            from,
            to,
        });
    }

    /// Records a name, of a new file with what it holds already.
    fn name(
        &mut self,
        directory: Number,
        name: &OsString,
        number: Option<Number>,
        metadata: &fs::Metadata,
        path: &Path,
    ) -> io::Result<()> {
        let (is_directory, is_new) = (metadata.is_dir(), number.is_none());
        let number = number.unwrap_or(self.next_number);
        self.next_number = self.next_number.max(number + 1);
        let names = self.names.entry(directory).or_default();
        let replaced = names.insert(name.clone(), number);
        self.forget_without_name(replaced);
        self.numbers
            .insert((metadata.dev(), metadata.ino()), number);
        self.operations.push(Operation::Named {
            directory,
            name: name.clone(),
            number,
            is_directory,
        });
        if is_new && is_directory {
            self.names.insert(number, BTreeMap::new());
        } else if is_new {
            let content = match File::open(path) {
                Ok(file) => Content::read(&file)?,
                Err(error) if is_gone(&error) => Content::default(),
                Err(error) => return Err(error),
            };
            self.lengths.insert(number, content.length());
            if content.length() > 0 {
                let length = content.length();
                for (offset, bytes) in content.pages() {
                    self.operations.push(Operation::Written {
                        number,
                        offset,
                        bytes: bytes.to_vec(),
                    });
                }
                self.operations.push(Operation::Resized { number, length });
            }
        }
        Ok(())
    }
}

/// Returns true if a file lost its name between two looks.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
