//! Checkpoints of an open store: links to its files at the boundary of one group commit.
//!
//! ```text
//! checkpoints/N/     one folder for each checkpoint that exists, laid out as a data directory;
//!                    removed with the checkpoint, or when the directory is next opened
//! ```
//!
//! No group is written while the files are linked, since the lock of the writer is held. fjall and
//! the maintenance thread go on: they rotate and remove journals, and install new tables. Hence the
//! order:
//!
//! 1. the journals: all batches that no table holds are in them;
//! 2. for each keyspace, its list of tables and these tables, under the lock of the tree, so that
//!    no other list is installed meanwhile. A journal that was removed before step 1 is in tables
//!    that this list has.
//!
//! So the links hold every batch at least once, as the directory does after the death of the
//! process. The newest journal goes on growing: only its batches from before the checkpoint count.
//!
//! Promised: tables of a checkpoint do not change. A damaged block is sealed in place, so before
//! that each checkpoint gets a copy of the table of its own ([`Checkpoints::detach`]). A table that
//! is linked between these two steps is sealed afterwards; the record of the damage is older than
//! both, and is read after the links are made, so the checkpoint has it. A caller that has the old
//! file open notices the exchange by [`CheckpointFile::is_replaced`].
//!
//! Left out: a store that stopped writing for good has no checkpoint; its directory can be copied
//! after the process has ended.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufReader, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use fjall::AbstractTree;
use orrery_model::sync;
use xxhash_rust::xxh3::xxh3_128;

use super::committer::Committer;
use super::database::OpenDatabase;
use super::diagnosis::{parse_pointer, parse_tables};
use super::directory::{
    DAMAGE_DIRECTORY, Directory, HIGH_WATER_FILE, KEYSPACES, RESTORE_ADVICE, STORE_DIRECTORY,
    Stage, format_text, journals, owner_only,
};
use super::high_water::{HighWater, Mark};
use super::journal::read_batch;
use super::reopening::being_reopened;
use super::tables::Tables;
use crate::checkpoint::{Checkpoint, CheckpointFile, FORMAT_FILE, inode};
use crate::commit::{Head, PartitionId};
use crate::error::StoreError;

/// A function that links a file under a second name: `std::fs::hard_link`, or that of a test.
pub(super) type Link = fn(&Path, &Path) -> std::io::Result<()>;

/// The checkpoints of a store that exist.
#[derive(Default)]
pub(super) struct Checkpoints {
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    existing: usize,
    /// The number of the next folder.
    next: u64,
}

impl Checkpoints {
    /// Prepares the change of a table in place: gives each checkpoint a copy of its own. Returns
    /// false where that is not possible, while a checkpoint exists.
    pub(super) fn detach(
        &self,
        directory: &Directory,
        is_index: bool,
        table: &Path,
    ) -> std::io::Result<bool> {
        let counts = sync::lock(&self.counts);
        if counts.existing == 0 || cfg!(not(unix)) {
            return Ok(counts.existing == 0);
        }
        let keyspace = if is_index { "2" } else { "1" };
        let tables = format!("{STORE_DIRECTORY}/keyspaces/{keyspace}/tables");
        for entry in std::fs::read_dir(directory.checkpoints())? {
            let folder = entry?.path().join(&tables);
            let staged = folder.join(table.file_name().unwrap_or_default());
            if is_same_file(&staged, table)? {
                let draft = staged.with_extension("new");
                std::fs::copy(table, &draft)?;
                std::fs::rename(&draft, &staged)?;
            }
        }
        Ok(true)
    }
}

/// Returns true if two names are those of one file. The first one need not exist.
pub(super) fn is_same_file(one: &Path, other: &Path) -> std::io::Result<bool> {
    let metadata = match one.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    Ok(inode(&metadata) == inode(&other.metadata()?))
}

/// The folder of a checkpoint. Dropping it removes the folder.
struct Staging {
    path: PathBuf,
    /// Keeps the data directory locked until the folder is removed.
    committer: Arc<Committer<Tables>>,
}

impl Staging {
    /// Creates the folder with the folders of a store.
    fn create(committer: Arc<Committer<Tables>>) -> Result<Staging, StoreError> {
        let tables = committer.sink();
        let mut counts = sync::lock(&tables.checkpoints.counts);
        let path = tables.directory.checkpoints().join(counts.next.to_string());
        counts.existing += 1;
        counts.next += 1;
        drop(counts);
        let staging = Staging { path, committer };
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        let keyspaces = KEYSPACES.map(|n| format!("{STORE_DIRECTORY}/keyspaces/{n}/tables"));
        for folder in keyspaces
            .iter()
            .map(String::as_str)
            .chain([DAMAGE_DIRECTORY])
        {
            let folder = staging.path.join(folder);
            let failed = StoreError::io("create", &folder);
            builder.create(&folder).map_err(failed)?;
        }
        Ok(staging)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let tables = self.committer.sink();
        let mut counts = sync::lock(&tables.checkpoints.counts);
        // A folder that cannot be removed now is removed when the directory is next opened.
        if let Err(error) = std::fs::remove_dir_all(&self.path)
            && error.kind() != ErrorKind::NotFound
        {
            log::warn!("cannot remove {}: {error}", self.path.display());
        }
        counts.existing -= 1;
        if counts.existing == 0 {
            // It is not empty if a folder could not be removed.
            let _ = std::fs::remove_dir(tables.directory.checkpoints());
        }
    }
}

/// A large file of the store under its name in the folder.
struct LinkedFile {
    name: String,
    bytes: u64,
    /// The open file, if the file system cannot link it: it is copied once commits go on, also if
    /// it has lost its name by then.
    source: Option<File>,
}

/// The store at one group commit.
struct Image {
    /// In order; the last one may be the one that is being written.
    journals: Vec<LinkedFile>,
    tables: Vec<LinkedFile>,
    /// Files that change in place, with their content.
    small: Vec<(String, Vec<u8>)>,
    heads: BTreeMap<PartitionId, Head>,
    mark: Mark,
    /// No batch of the image has this sequence number or a higher one.
    next_sequence: u64,
}

/// Takes a checkpoint of an open store.
///
/// # Errors
/// When the database is being exchanged, the store stopped writing, or a file cannot be linked.
pub(super) fn take(
    committer: &Arc<Committer<Tables>>,
    link: Link,
) -> Result<Checkpoint, StoreError> {
    if let Some(failure) = committer.failure()
        && failure.exhausted.is_none()
    {
        return Err(StoreError::Poisoned {
            detail: failure.detail,
        });
    }
    let tables = committer.sink();
    let store_id = tables.directory.id()?;
    let staging = Staging::create(committer.clone())?;
    let mut image = Linker::new(tables, &staging.path, link).freeze()?;

    // Commits go on from here.
    copy_unlinked(&staging.path, &mut image)?;
    if let Some(newest) = image.journals.last_mut() {
        let path = staging.path.join(&newest.name);
        newest.bytes = end_of_journal(&path, image.next_sequence, image.mark)?;
    }
    let format = format_text(Stage::Ready, Some(&store_id)).into_bytes();
    image.small.push((FORMAT_FILE.to_owned(), format));
    for (name, content) in &image.small {
        write_new(&staging.path.join(name), &mut content.as_slice())?;
    }
    let high_water = staging.path.join(HIGH_WATER_FILE);
    HighWater::create(&high_water, image.mark)?;
    let high_water_bytes = length(&high_water)?;

    let file = |name: &str, bytes, is_immutable| CheckpointFile {
        name: name.to_owned(),
        path: staging.path.join(name),
        bytes,
        is_immutable,
    };
    let mut files = vec![file(HIGH_WATER_FILE, high_water_bytes, false)];
    files.extend(
        image
            .small
            .iter()
            .map(|(name, content)| file(name, content.len() as u64, false)),
    );
    files.extend(
        image
            .journals
            .iter()
            .map(|linked| file(&linked.name, linked.bytes, false)),
    );
    files.extend(
        image
            .tables
            .iter()
            .map(|linked| file(&linked.name, linked.bytes, true)),
    );
    files.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Checkpoint::new(
        files,
        image.heads,
        store_id,
        image.mark.group,
        Box::new(staging),
    ))
}

/// The linking of the files of a store into a folder.
struct Linker<'a> {
    tables: &'a Tables,
    store: PathBuf,
    staging: &'a Path,
    link: Link,
}

impl<'a> Linker<'a> {
    fn new(tables: &'a Tables, staging: &'a Path, link: Link) -> Linker<'a> {
        Linker {
            tables,
            store: tables.directory.store(),
            staging,
            link,
        }
    }

    /// Links all files while no group is written. The module header has the order.
    ///
    /// # Errors
    /// When the database is being exchanged, a group has failed, or a file cannot be linked.
    fn freeze(&self) -> Result<Image, StoreError> {
        // A database that is exchanged, or a group that failed, has batches in doubt.
        let writer = sync::lock(&self.tables.writer);
        let (Some(database), Some(heads)) =
            (self.tables.access.database(), self.tables.access.heads())
        else {
            return Err(being_reopened());
        };
        if writer.failed_from.is_some() {
            return Err(being_reopened());
        }
        let mut image = Image {
            journals: self.link_journals()?,
            tables: Vec::new(),
            small: Vec::new(),
            heads,
            mark: writer.mark,
            next_sequence: database.db.seqno(),
        };
        // The list of keyspaces changes only when the database is opened.
        self.link_keyspace("0", &mut image)?;
        self.link_tree(&database, false, &mut image)?;
        self.link_tree(&database, true, &mut image)?;
        for name in ["version", "lock"] {
            let content = read(&self.store.join(name))?;
            image
                .small
                .push((format!("{STORE_DIRECTORY}/{name}"), content));
        }
        self.read_damage(&mut image)?;
        Ok(image)
    }

    /// Links the journals. A flush may remove journals meanwhile, the oldest first: the tables that
    /// are linked afterwards hold their batches.
    fn link_journals(&self) -> Result<Vec<LinkedFile>, StoreError> {
        let mut linked = BTreeMap::new();
        loop {
            let mut has_vanished = false;
            for (number, path) in journals(&self.store)? {
                if linked.contains_key(&number) {
                    continue;
                }
                let name = format!("{STORE_DIRECTORY}/{number}.jnl");
                match self.link_file(&path, name) {
                    Ok(file) => {
                        linked.insert(number, file);
                    }
                    Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                        // The journals before it are gone too, and would leave a gap.
                        linked.retain(|other, _| *other > number);
                        has_vanished = true;
                    }
                    Err(error) => return Err(error),
                }
            }
            if !has_vanished {
                return Ok(linked.into_values().collect());
            }
        }
    }

    /// Links the tables of the rows, or of the index entries.
    fn link_tree(
        &self,
        database: &OpenDatabase,
        is_index: bool,
        image: &mut Image,
    ) -> Result<(), StoreError> {
        let tree = &database.keyspace(is_index).tree;
        // No flush or compaction installs another list of tables while this lock is held. Readers
        // wait for it.
        let _no_other_list = tree.get_version_history_lock();
        self.link_keyspace(if is_index { "2" } else { "1" }, image)
    }

    /// Reads the list of tables of a keyspace and links them. The list does not change meanwhile.
    fn link_keyspace(&self, number: &str, image: &mut Image) -> Result<(), StoreError> {
        let folder = self.store.join("keyspaces").join(number);
        let name = |file: &str| format!("{STORE_DIRECTORY}/keyspaces/{number}/{file}");
        let current = folder.join("current");
        let pointer = read(&current)?;
        let unreadable = |file: &Path| {
            StoreError::damaged(file, format!("it is cut or unreadable. {RESTORE_ADVICE}"))
        };
        let (version, checksum) = parse_pointer(&pointer).ok_or_else(|| unreadable(&current))?;
        let list = folder.join(format!("v{version}"));
        let content = read(&list)?;
        if xxh3_128(&content) != checksum {
            return Err(unreadable(&list));
        }
        for id in parse_tables(&content).ok_or_else(|| unreadable(&list))? {
            let table = folder.join("tables").join(id.to_string());
            let linked = self.link_file(&table, name(&format!("tables/{id}")))?;
            image.tables.push(linked);
        }
        image.small.push((name("current"), pointer));
        image.small.push((name(&format!("v{version}")), content));
        Ok(())
    }

    /// Links a file; opens it instead if the file system refuses the link.
    fn link_file(&self, path: &Path, name: String) -> Result<LinkedFile, StoreError> {
        let staged = self.staging.join(&name);
        match (self.link)(path, &staged) {
            Ok(()) => Ok(LinkedFile {
                name,
                bytes: length(&staged)?,
                source: None,
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(StoreError::io("link", path)(error))
            }
            Err(_) => {
                let file = File::open(path).map_err(StoreError::io("open", path))?;
                let metadata = file.metadata().map_err(StoreError::io("read", path))?;
                Ok(LinkedFile {
                    name,
                    bytes: metadata.len(),
                    source: Some(file),
                })
            }
        }
    }

    /// Reads the records of damaged blocks. A partition that is destroyed at this moment removes
    /// its record, which nothing needs any more then.
    fn read_damage(&self, image: &mut Image) -> Result<(), StoreError> {
        let folder = self.tables.directory.damage();
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(StoreError::io("list", &folder)(error)),
        };
        for entry in entries {
            let path = entry.map_err(StoreError::io("list", &folder))?.path();
            let file_name = path.file_name().and_then(|name| name.to_str());
            // An unfinished record has this ending.
            let Some(file_name) = file_name.filter(|name| !name.ends_with(".new")) else {
                continue;
            };
            match std::fs::read(&path) {
                Ok(content) => {
                    let name = format!("{DAMAGE_DIRECTORY}/{file_name}");
                    image.small.push((name, content));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(StoreError::io("read", &path)(error)),
            }
        }
        Ok(())
    }
}

/// Copies the files that could not be linked.
fn copy_unlinked(staging: &Path, image: &mut Image) -> Result<(), StoreError> {
    for linked in image.journals.iter_mut().chain(&mut image.tables) {
        if let Some(mut source) = linked.source.take() {
            let path = staging.join(&linked.name);
            source.rewind().map_err(StoreError::io("read", &path))?;
            write_new(&path, &mut source.take(linked.bytes))?;
        }
    }
    Ok(())
}

/// Returns the offset, in bytes, at which the batches of an image end in the newest journal. Zeros,
/// or batches of later groups, follow.
fn end_of_journal(path: &Path, next_sequence: u64, mark: Mark) -> Result<u64, StoreError> {
    let file = File::open(path).map_err(StoreError::io("open", path))?;
    let mut reader = BufReader::with_capacity(256 << 10, file);
    let mut end = 0;
    let mut last_group = None;
    while let Ok(batch) = read_batch(&mut reader).map_err(StoreError::io("read", path))? {
        if batch.sequence >= next_sequence {
            break;
        }
        end += batch.bytes;
        if let Some(record) = batch.record {
            last_group = Some(record.mark.group);
        }
    }
    // A journal without a group was begun after the last group.
    match last_group {
        Some(group) if group != mark.group => {
            let detail = format!(
                "unreadable from byte {end} on, after group commit {group}, though {} were \
                 acknowledged. {RESTORE_ADVICE}",
                mark.group
            );
            Err(StoreError::damaged(path, detail))
        }
        _ => Ok(end),
    }
}

/// Writes a new file that only its owner may read.
fn write_new(path: &Path, content: &mut impl Read) -> Result<(), StoreError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    let mut write = || {
        let mut file = owner_only(&mut options).open(path)?;
        std::io::copy(content, &mut file)?;
        file.flush()
    };
    write().map_err(StoreError::io("write", path))
}

fn read(path: &Path) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(StoreError::io("read", path))
}

fn length(path: &Path) -> Result<u64, StoreError> {
    let metadata = path.metadata().map_err(StoreError::io("read", path))?;
    Ok(metadata.len())
}
