//! The directories that a power loss can leave.

use crate::content::{Content, PAGE};
use crate::record::{Number, Operation, ROOT};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// The smallest part of a file that a disk writes as a whole.
const SECTOR: u64 = 512;

/// A directory after a power loss.
#[derive(Clone, Debug)]
pub struct Image {
    files: BTreeMap<Number, Content>,
    names: BTreeMap<Number, BTreeMap<OsString, Number>>,
    has_holes: bool,
}

/// The share of what is not durable that a power loss keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    Everything,
    Nothing,
    /// Of each file the bytes up to any place.
    UpTo,
    /// Any parts of this size.
    Parts(u64),
}

/// What a disk holds for sure, and what it may hold.
#[derive(Default)]
struct State<'o> {
    files: BTreeMap<Number, Entry<'o, Content>>,
    names: BTreeMap<Number, Entry<'o, BTreeMap<OsString, Number>>>,
}

#[derive(Default)]
struct Entry<'o, T> {
    durable: T,
    /// The operations since the last sync.
    pending: Vec<&'o Operation>,
    /// The operations before a sync that failed, which no later one makes durable.
    doubtful: Vec<&'o Operation>,
}

/// Returns an image of a disk after these operations.
pub(crate) fn image(operations: &[Operation], below: &mut dyn FnMut(u64) -> u64) -> Image {
    let kept = match below(8) {
        0 => Kept::Everything,
        1 => Kept::Nothing,
        2..5 => Kept::UpTo,
        5 => Kept::Parts(SECTOR),
        _ => Kept::Parts(PAGE),
    };
    build(operations, kept, below)
}

/// Returns the image of a disk that has written everything.
pub(crate) fn everything(operations: &[Operation]) -> Image {
    build(operations, Kept::Everything, &mut |_| 0)
}

fn build(operations: &[Operation], kept: Kept, below: &mut dyn FnMut(u64) -> u64) -> Image {
    let state = State::after(operations);
    let mut image = Image {
        files: BTreeMap::new(),
        names: BTreeMap::new(),
        has_holes: false,
    };
    for (number, mut file) in state.files {
        let unsure: Vec<&Operation> = file.unsure().collect();
        image.has_holes |= keep(&mut file.durable, &unsure, kept, below);
        image.files.insert(number, file.durable);
    }
    for (number, mut directory) in state.names {
        let unsure: Vec<&Operation> = directory.unsure().collect();
        let count = match kept {
            Kept::Everything => unsure.len(),
            Kept::Nothing => 0,
            _ => below(unsure.len() as u64 + 1) as usize,
        };
        for operation in &unsure[..count] {
            change_names(&mut directory.durable, operation);
        }
        image.names.insert(number, directory.durable);
    }
    image
}

/// Writes a part of the operations of a file. Returns true if a later part was kept and an earlier
/// one not.
fn keep(
    file: &mut Content,
    unsure: &[&Operation],
    kept: Kept,
    below: &mut dyn FnMut(u64) -> u64,
) -> bool {
    let whole = match kept {
        Kept::Everything => unsure.len(),
        Kept::Nothing => return false,
        Kept::UpTo => below(unsure.len() as u64 + 1) as usize,
        Kept::Parts(size) => return keep_parts(file, unsure, size, below),
    };
    for operation in &unsure[..whole] {
        change_file(file, operation);
    }
    // The next write is cut.
    if let Some(Operation::Written { offset, bytes, .. }) = unsure.get(whole) {
        let count = below(bytes.len() as u64) as usize;
        if count > 0 {
            file.write(*offset, &bytes[..count]);
        }
    }
    false
}

/// Writes any parts of the operations of a file. Returns true if one was kept behind a lost one.
fn keep_parts(
    file: &mut Content,
    unsure: &[&Operation],
    size: u64,
    below: &mut dyn FnMut(u64) -> u64,
) -> bool {
    let (mut has_lost, mut has_holes) = (false, false);
    for operation in unsure {
        let Operation::Written { offset, bytes, .. } = operation else {
            match below(3) {
                0 => has_lost = true,
                _ => change_file(file, operation),
            }
            continue;
        };
        let (mut offset, mut bytes) = (*offset, &bytes[..]);
        while !bytes.is_empty() {
            let count = bytes.len().min((size - offset % size) as usize);
            match below(3) {
                0 => has_lost = true,
                _ => {
                    file.write(offset, &bytes[..count]);
                    has_holes |= has_lost;
                }
            }
            offset += count as u64;
            bytes = &bytes[count..];
        }
    }
    has_holes
}

fn change_file(file: &mut Content, operation: &Operation) {
    match operation {
        Operation::Written { offset, bytes, .. } => file.write(*offset, bytes),
        Operation::Resized { length, .. } => file.resize(*length),
        _ => {}
    }
}

fn change_names(names: &mut BTreeMap<OsString, Number>, operation: &Operation) {
    match operation {
        Operation::Named { name, number, .. } => _ = names.insert(name.clone(), *number),
        Operation::Renamed { from, to, .. } => {
            if let Some(number) = names.remove(from) {
                names.insert(to.clone(), number);
            }
        }
        Operation::Removed { name, .. } => _ = names.remove(name),
        _ => {}
    }
}

impl<'o> State<'o> {
    fn after(operations: &'o [Operation]) -> State<'o> {
        let mut state = State::default();
        state.names.insert(ROOT, Entry::default());
        for operation in operations {
            match operation {
                Operation::Named {
                    directory,
                    number,
                    is_directory,
                    ..
                } => {
                    match is_directory {
                        true => _ = state.names.entry(*number).or_default(),
                        false => _ = state.files.entry(*number).or_default(),
                    }
                    state
                        .names
                        .entry(*directory)
                        .or_default()
                        .pending
                        .push(operation);
                }
                Operation::Renamed { directory, .. } | Operation::Removed { directory, .. } => {
                    state
                        .names
                        .entry(*directory)
                        .or_default()
                        .pending
                        .push(operation);
                }
                Operation::Written { number, .. } | Operation::Resized { number, .. } => {
                    state
                        .files
                        .entry(*number)
                        .or_default()
                        .pending
                        .push(operation);
                }
                Operation::Synced { number } => {
                    if let Some(file) = state.files.get_mut(number) {
                        file.sync(change_file);
                    } else if let Some(directory) = state.names.get_mut(number) {
                        directory.sync(change_names);
                    }
                }
                Operation::SyncFailed { number } => {
                    if let Some(file) = state.files.get_mut(number) {
                        file.fail();
                    } else if let Some(directory) = state.names.get_mut(number) {
                        directory.fail();
                    }
                }
            }
        }
        state
    }
}

impl<'o, T> Entry<'o, T> {
    /// Makes the pending operations durable. Those of a sync that failed stay in doubt.
    fn sync(&mut self, change: impl Fn(&mut T, &Operation)) {
        for operation in self.pending.drain(..) {
            change(&mut self.durable, operation);
        }
    }

    fn fail(&mut self) {
        self.doubtful.append(&mut self.pending);
    }

    fn unsure(&self) -> impl Iterator<Item = &'o Operation> {
        self.doubtful.iter().chain(&self.pending).copied()
    }
}

impl Image {
    /// Returns true if a later part of what was not durable was kept and an earlier one was lost.
    pub fn has_holes(&self) -> bool {
        self.has_holes
    }

    /// Inverts a random bit of the content of a random file that has a name. Returns the path of
    /// the file from the directory; `None` if all files are empty.
    pub fn flip_bit(&mut self, below: &mut dyn FnMut(u64) -> u64) -> Option<PathBuf> {
        let mut files = Vec::new();
        for (path, number) in self.paths(ROOT, Path::new("")) {
            let end = self.files.get(&number).map_or(0, Content::end_of_bytes);
            if end > 0 {
                files.push((path, number, end));
            }
        }
        if files.is_empty() {
            return None;
        }
        let (path, number, end) = files.swap_remove(below(files.len() as u64) as usize);
        let offset = below(end);
        if let Some(file) = self.files.get_mut(&number) {
            file.flip(offset, below(8));
        }
        Some(path)
    }

    /// Returns the paths of the files below a directory.
    fn paths(&self, directory: Number, path: &Path) -> Vec<(PathBuf, Number)> {
        let mut found = Vec::new();
        for (name, number) in self.names.get(&directory).into_iter().flatten() {
            match self.files.contains_key(number) {
                true => found.push((path.join(name), *number)),
                false => found.extend(self.paths(*number, &path.join(name))),
            }
        }
        found
    }

    /// Writes the image into a directory that exists and is empty.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        let mut written = BTreeMap::new();
        self.write_names(ROOT, directory, &mut written)
    }

    fn write_names(
        &self,
        directory: Number,
        path: &Path,
        written: &mut BTreeMap<Number, PathBuf>,
    ) -> io::Result<()> {
        for (name, number) in self.names.get(&directory).into_iter().flatten() {
            let path = path.join(name);
            match (self.files.get(number), written.get(number)) {
                (None, _) => {
                    fs::create_dir(&path)?;
                    self.write_names(*number, &path, written)?;
                }
                (Some(_), Some(first)) => fs::hard_link(first, &path)?,
                (Some(content), None) => {
                    content.write_to(&File::create_new(&path)?)?;
                    written.insert(*number, path);
                }
            }
        }
        Ok(())
    }

    /// Compares the image with a directory.
    ///
    /// # Errors
    /// The first difference, as a sentence.
    pub(crate) fn compare(&self, directory: &Path) -> Result<(), String> {
        self.compare_names(ROOT, directory)
    }

    fn compare_names(&self, directory: Number, path: &Path) -> Result<(), String> {
        let failed = |error: io::Error| format!("{}: {error}", path.display());
        let mut found: Vec<OsString> = Vec::new();
        for entry in fs::read_dir(path).map_err(failed)? {
            found.push(entry.map_err(failed)?.file_name());
        }
        found.sort_unstable();
        let names = self.names.get(&directory).cloned().unwrap_or_default();
        if !found.iter().eq(names.keys()) {
            let place = path.display();
            return Err(format!(
                "{place} has {found:?}, and the record {:?}",
                names.keys()
            ));
        }
        for (name, number) in names {
            let path = path.join(name);
            let Some(content) = self.files.get(&number) else {
                self.compare_names(number, &path)?;
                continue;
            };
            let actual = File::open(&path).and_then(|file| Content::read(&file));
            let actual = actual.map_err(|error| format!("{}: {error}", path.display()))?;
            if let Some(at) = content.difference(&actual) {
                return Err(format!(
                    "{} differs from the record at byte {at}; it has {} bytes, the record {}",
                    path.display(),
                    actual.length(),
                    content.length()
                ));
            }
        }
        Ok(())
    }
}
