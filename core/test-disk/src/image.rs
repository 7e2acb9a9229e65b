//! The directories that a power loss can leave.

use crate::Loss;
use crate::content::{Content, PAGE};
use crate::record::{Number, Operation, ROOT};
use orrery_model::world::{SeededNumbers, split_mix};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
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

/// The contents that a disk has for sure, and those that it may have.
#[derive(Default)]
struct State<'o> {
    files: BTreeMap<Number, FileState>,
    names: BTreeMap<Number, NamesState<'o>>,
    /// The first name of each file and directory.
    first_names: BTreeMap<Number, &'o OsStr>,
}

#[derive(Default)]
struct FileState {
    durable: Content,
    /// The length that the system shows.
    length: u64,
    /// The changes since the last sync.
    pending: Vec<Change>,
    /// The changes before a sync that failed, as far as no later one that is durable replaced them.
    doubtful: Vec<Change>,
}

#[derive(Default)]
struct NamesState<'o> {
    durable: BTreeMap<OsString, Number>,
    /// The operations since the last sync.
    pending: Vec<&'o Operation>,
}

/// A change of a file.
#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Vec<u8> },
    Resize(u64),
}

/// Returns an image of a disk after these operations.
pub(crate) fn image(operations: &[Operation], loss: Loss, seed: u64) -> Image {
    let kept = match (loss, SeededNumbers::new(seed).below(8)) {
        (Loss::Nothing, _) | (_, 0) => Kept::Everything,
        (_, 1) => Kept::Nothing,
        (Loss::InOrder, _) | (_, 2..5) => Kept::UpTo,
        (_, 5) => Kept::Parts(SECTOR),
        _ => Kept::Parts(PAGE),
    };
    build(operations, kept, seed)
}

/// Returns the image of a disk that has written everything.
pub(crate) fn everything(operations: &[Operation]) -> Image {
    build(operations, Kept::Everything, 0)
}

fn build(operations: &[Operation], kept: Kept, seed: u64) -> Image {
    let state = State::after(operations);
    let mut image = Image {
        files: BTreeMap::new(),
        names: BTreeMap::new(),
        has_holes: false,
    };
    // The numbers of files depend on the order in which threads create them, their names do not.
    let of_part = |number| {
        let name = state.first_names.get(&number);
        let name = name.map(|name| name.as_encoded_bytes());
        SeededNumbers::new(part_seed(seed, name.unwrap_or_default()))
    };
    for (number, mut file) in state.files {
        let unsure = [file.doubtful, file.pending].concat();
        let mut random = of_part(number);
        image.has_holes |= keep(&mut file.durable, &unsure, kept, &mut random);
        image.files.insert(number, file.durable);
    }
    for (number, mut directory) in state.names {
        let count = match kept {
            Kept::Everything => directory.pending.len(),
            Kept::Nothing => 0,
            _ => of_part(number).below(directory.pending.len() as u64 + 1) as usize,
        };
        for operation in &directory.pending[..count] {
            change_names(&mut directory.durable, operation);
        }
        image.names.insert(number, directory.durable);
    }
    image
}

/// Returns the seed for a part of an image, which is independent of those of the other parts.
fn part_seed(seed: u64, name: &[u8]) -> u64 {
    let mix = |number: u64, byte: &u8| split_mix(number ^ u64::from(*byte));
    name.iter().fold(split_mix(seed), mix)
}

/// Makes a part of the changes of a file. Returns true if a later part was kept and an earlier one
/// not.
fn keep(file: &mut Content, unsure: &[Change], kept: Kept, random: &mut SeededNumbers) -> bool {
    let whole = match kept {
        Kept::Everything => unsure.len(),
        Kept::Nothing => return false,
        Kept::UpTo => random.below(unsure.len() as u64 + 1) as usize,
        Kept::Parts(size) => return keep_parts(file, unsure, size, random),
    };
    for change in &unsure[..whole] {
        change.apply(file);
    }
    // The next write is cut.
    if let Some(Change::Write { offset, bytes }) = unsure.get(whole) {
        let count = random.below(bytes.len() as u64) as usize;
        if count > 0 {
            file.write(*offset, &bytes[..count]);
        }
    }
    false
}

/// Makes any parts of the changes of a file. Returns true if one was kept behind a lost one.
fn keep_parts(
    file: &mut Content,
    unsure: &[Change],
    size: u64,
    random: &mut SeededNumbers,
) -> bool {
    let (mut has_lost, mut has_holes) = (false, false);
    for change in unsure {
        let Change::Write { offset, bytes } = change else {
            match random.below(3) {
                0 => has_lost = true,
                _ => {
                    change.apply(file);
                    has_holes |= has_lost;
                }
            }
            continue;
        };
        let (mut offset, mut bytes) = (*offset, &bytes[..]);
        while !bytes.is_empty() {
            let count = bytes.len().min((size - offset % size) as usize);
            match random.below(3) {
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

impl Change {
    fn of(operation: &Operation) -> Option<Change> {
        match operation {
            Operation::Written { offset, bytes, .. } => Some(Change::Write {
                offset: *offset,
                bytes: bytes.clone(),
            }),
            Operation::Resized { length, .. } => Some(Change::Resize(*length)),
            _ => None,
        }
    }

    fn apply(&self, file: &mut Content) {
        match self {
            Change::Write { offset, bytes } => file.write(*offset, bytes),
            Change::Resize(length) => file.resize(*length),
        }
    }

    /// Returns what is left of a change when a later one is durable.
    fn without(self, later: &Change) -> Vec<Change> {
        match (self, later) {
            (Change::Resize(_), Change::Resize(_)) => Vec::new(),
            (Change::Resize(length), _) => vec![Change::Resize(length)],
            (Change::Write { offset, mut bytes }, Change::Resize(length)) => {
                bytes.truncate(length.saturating_sub(offset) as usize);
                match bytes.is_empty() {
                    true => Vec::new(),
                    false => vec![Change::Write { offset, bytes }],
                }
            }
            (
                Change::Write { offset, bytes },
                Change::Write {
                    offset: begin,
                    bytes: replacement,
                },
            ) => {
                let place = |at: u64| (at.saturating_sub(offset) as usize).min(bytes.len());
                let end = begin + replacement.len() as u64;
                let before = bytes[..place(*begin)].to_vec();
                let after = bytes[place(end)..].to_vec();
                let after_offset = offset + place(end) as u64;
                let mut left = Vec::new();
                for (offset, bytes) in [(offset, before), (after_offset, after)] {
                    if !bytes.is_empty() {
                        left.push(Change::Write { offset, bytes });
                    }
                }
                left
            }
        }
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
        state.names.insert(ROOT, NamesState::default());
        for operation in operations {
            match operation {
                Operation::Named {
                    directory,
                    name,
                    number,
                    is_directory,
                } => {
                    state.first_names.entry(*number).or_insert(name);
                    match is_directory {
                        true => _ = state.names.entry(*number).or_default(),
                        false => _ = state.files.entry(*number).or_default(),
                    }
                    state.change_names(*directory, operation);
                }
                Operation::Renamed { directory, .. } | Operation::Removed { directory, .. } => {
                    state.change_names(*directory, operation);
                }
                Operation::Written { number, .. } | Operation::Resized { number, .. } => {
                    let file = state.files.entry(*number).or_default();
                    file.change(operation);
                }
                Operation::Synced { number } => {
                    if let Some(file) = state.files.get_mut(number) {
                        file.sync();
                    } else if let Some(directory) = state.names.get_mut(number) {
                        directory.sync();
                    }
                }
                Operation::SyncFailed { number } => {
                    if let Some(file) = state.files.get_mut(number) {
                        file.doubtful.append(&mut file.pending);
                    }
                }
            }
        }
        state
    }

    fn change_names(&mut self, directory: Number, operation: &'o Operation) {
        let names = self.names.entry(directory).or_default();
        names.pending.push(operation);
    }
}

impl FileState {
    fn change(&mut self, operation: &Operation) {
        let Some(change) = Change::of(operation) else {
            return;
        };
        self.length = match &change {
            Change::Write { offset, bytes } => self.length.max(offset + bytes.len() as u64),
            Change::Resize(length) => *length,
        };
        self.pending.push(change);
    }

    /// Makes the pending changes durable, with the length of the file: systems write it with each
    /// sync.
    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            let doubtful = self.doubtful.drain(..);
            self.doubtful = doubtful.flat_map(|one| one.without(&change)).collect();
            change.apply(&mut self.durable);
        }
        self.doubtful
            .retain(|one| !matches!(one, Change::Resize(_)));
        self.durable.resize(self.length);
    }
}

impl NamesState<'_> {
    fn sync(&mut self) {
        for operation in self.pending.drain(..) {
            change_names(&mut self.durable, operation);
        }
    }
}

impl Image {
    /// Returns true if a later part of what was not durable was kept and an earlier one was lost.
    pub fn has_holes(&self) -> bool {
        self.has_holes
    }

    /// Inverts a random bit of the content of a random file that has a name. Returns the path of
    /// the file from the directory; `None` if all files are empty.
    pub fn flip_bit(&mut self, seed: u64) -> Option<PathBuf> {
        let mut random = SeededNumbers::new(seed);
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
        let (path, number, end) = files.swap_remove(random.below(files.len() as u64) as usize);
        let offset = random.below(end);
        if let Some(file) = self.files.get_mut(&number) {
            file.flip(offset, random.below(8));
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
