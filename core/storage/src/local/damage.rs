//! The list of damaged blocks: on disk as one small file for each block, and in memory for the
//! readers.
//!
//! ```text
//! damage/rows-5-22451485-0a1b2c3d      one file for each damaged block: keyspace, table, offset,
//!                                      crc32 of its last key
//!
//! orrery damage 1
//! file: keyspaces/1/tables/5      offset: 22451485      bytes: 7711      fault: ...
//! partitions: 6 7      from: hex key  |  after: hex key      to: hex key
//! crc32: 8 hex digits, of the text before
//! (empty line)
//! the bytes of the block as they were found
//! ```
//!
//! Each field is a line of its own. A file is written and synced before its block is sealed, so a
//! restart knows the damage without finding it again, and the found bytes are kept for a person.
//!
//! Promised: a read that could miss a key of a damaged block fails. Readers check the list *after*
//! they have read from the tables: the list is extended before a block is sealed, so a reader that
//! saw a sealed block sees its record too.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};

use orrery_model::{hex, sync};

use super::directory::{RESTORE_ADVICE, sync_directory};
use crate::commit::PartitionId;
use crate::damage::{Damage, DamagedContents};
use crate::error::StoreError;
use crate::store::KeyRange;

const PREFACE: &str = "orrery damage 1";
/// Damage without loss that is remembered, the newest.
const HARMLESS_MAX: usize = 100;

/// The damaged blocks of a store.
pub(super) struct DamageList {
    directory: PathBuf,
    /// The directory of the tables, which file names in the list are relative to.
    store: PathBuf,
    /// The list has a block with keys. Spares readers the lock.
    has_keys: AtomicBool,
    blocks: RwLock<Vec<Damage>>,
}

impl DamageList {
    /// Reads the list of a data directory. An unreadable record is refused: without the record,
    /// missing keys would look like keys that never were.
    pub(super) fn open(directory: PathBuf, store: PathBuf) -> Result<DamageList, StoreError> {
        let mut blocks = Vec::new();
        let entries = match std::fs::read_dir(&directory) {
            Ok(entries) => Some(entries),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => return Err(StoreError::io("list", &directory)(e)),
        };
        for entry in entries.into_iter().flatten() {
            let path = entry.map_err(StoreError::io("list", &directory))?.path();
            if path.extension().is_some_and(|extension| extension == "new") {
                // The write was interrupted, so the block was not sealed and is found again.
                std::fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
                continue;
            }
            let bytes = std::fs::read(&path).map_err(StoreError::io("read", &path))?;
            let Some(damage) = decode(&bytes, &store) else {
                let detail = format!("a record of damage is unreadable. {RESTORE_ADVICE}");
                return Err(StoreError::damaged(&path, detail));
            };
            blocks.push(damage);
        }
        Ok(DamageList {
            directory,
            store,
            has_keys: AtomicBool::new(!blocks.is_empty()),
            blocks: RwLock::new(blocks),
        })
    }

    /// Adds a block with keys, durably. `found` are its bytes.
    pub(super) fn add(&self, damage: Damage, found: &[u8]) -> Result<(), StoreError> {
        let path = self.record_path(&damage);
        let draft = path.with_extension("new");
        let write = || {
            std::fs::create_dir_all(&self.directory)?;
            let mut file = File::create(&draft)?;
            file.write_all(encode(&damage, &self.store).as_bytes())?;
            file.write_all(found)?;
            file.sync_all()?;
            std::fs::rename(&draft, &path)?;
            sync_directory(&self.directory)?;
            match self.directory.parent() {
                Some(parent) => sync_directory(parent),
                None => Ok(()),
            }
        };
        write().map_err(StoreError::io("write", &path))?;
        let mut blocks = sync::write(&self.blocks);
        let path = self.record_path(&damage);
        blocks.retain(|known| self.record_path(known) != path);
        blocks.push(damage);
        self.has_keys.store(true, Ordering::SeqCst);
        Ok(())
    }

    /// Returns true if the same damage is in the list.
    pub(super) fn is_known(&self, damage: &Damage) -> bool {
        sync::read(&self.blocks).contains(damage)
    }

    /// Adds damage that loses no key, in memory. Returns false if it is known.
    pub(super) fn add_harmless(&self, damage: Damage) -> bool {
        let mut blocks = sync::write(&self.blocks);
        if blocks.contains(&damage) {
            return false;
        }
        let is_harmless = |known: &Damage| known.partitions().is_empty();
        let harmless = blocks.iter().filter(|known| is_harmless(known)).count();
        if harmless >= HARMLESS_MAX
            && let Some(oldest) = blocks.iter().position(is_harmless)
        {
            blocks.remove(oldest);
        }
        blocks.push(damage);
        true
    }

    /// Forgets damage of the indexes, filters and metadata of tables that no longer exist.
    pub(super) fn forget_replaced_tables(&self) {
        let mut blocks = sync::write(&self.blocks);
        blocks.retain(|known| known.contents != DamagedContents::Auxiliary || known.file.exists());
    }

    /// Returns all damage.
    pub(super) fn all(&self) -> Vec<Damage> {
        sync::read(&self.blocks).clone()
    }

    /// Returns the damaged block with keys of a partition, if there is one.
    pub(super) fn of_partition(&self, partition: PartitionId) -> Option<Damage> {
        if !self.has_keys() {
            return None;
        }
        let blocks = sync::read(&self.blocks);
        let found = blocks
            .iter()
            .find(|block| block.partitions().contains(&partition));
        found.cloned()
    }

    /// Returns damage of the index, filter or metadata of a table of a keyspace, if there is one.
    pub(super) fn auxiliary(&self, is_index: bool) -> Option<Damage> {
        let folder = self.store.join(if is_index {
            "keyspaces/2"
        } else {
            "keyspaces/1"
        });
        let blocks = sync::read(&self.blocks);
        let found = blocks.iter().find(|block| {
            block.contents == DamagedContents::Auxiliary && block.file.starts_with(&folder)
        });
        found.cloned()
    }

    /// Forgets a partition that was destroyed, and the blocks that had keys of no other partition.
    pub(super) fn forget(&self, partition: PartitionId) -> Result<(), StoreError> {
        if self.of_partition(partition).is_none() {
            return Ok(());
        }
        let mut result = Ok(());
        let mut blocks = sync::write(&self.blocks);
        blocks.retain_mut(|block| {
            let path = self.record_path(block);
            let DamagedContents::Keys { partitions, .. } = &mut block.contents else {
                return true;
            };
            partitions.retain(|other| *other != partition);
            if !partitions.is_empty() {
                return true;
            }
            if let Err(error) = std::fs::remove_file(&path) {
                result = Err(StoreError::io("remove", &path)(error));
            }
            false
        });
        let has_keys = blocks.iter().any(|block| !block.partitions().is_empty());
        self.has_keys.store(has_keys, Ordering::SeqCst);
        result
    }

    /// Returns the last keys of all damaged blocks, which are the entries of the sealed ones.
    pub(super) fn last_keys(&self) -> Vec<(bool, Vec<u8>)> {
        let mut keys = Vec::new();
        for block in sync::read(&self.blocks).iter() {
            if let DamagedContents::Keys { is_index, last, .. } = &block.contents {
                keys.push((*is_index, last.clone()));
            }
        }
        keys
    }

    /// Forgets all damage with keys.
    pub(super) fn forget_all(&self) -> Result<(), StoreError> {
        for block in self.all() {
            for partition in block.partitions() {
                self.forget(*partition)?;
            }
        }
        Ok(())
    }

    /// Keeps only the partitions that exist. A crash may leave the record of a destroyed one.
    pub(super) fn keep_existing(&self, existing: &HashSet<PartitionId>) -> Result<(), StoreError> {
        for block in self.all() {
            for partition in block.partitions() {
                if !existing.contains(partition) {
                    self.forget(*partition)?;
                }
            }
        }
        Ok(())
    }

    /// Returns true if a block with keys is damaged.
    pub(super) fn has_keys(&self) -> bool {
        self.has_keys.load(Ordering::SeqCst)
    }

    /// Refuses a read of one key, with its prefix, that may have been in a damaged block.
    pub(super) fn check_key(
        &self,
        is_index: bool,
        partition: PartitionId,
        key: &[u8],
    ) -> Result<(), StoreError> {
        let key = Bound::Included(key);
        self.check_gap(is_index, partition, (key, key))
    }

    /// Refuses the statement that a range has no other keys than those already yielded, if a
    /// damaged block may have had one. Keys have their prefix.
    pub(super) fn check_gap(
        &self,
        is_index: bool,
        partition: PartitionId,
        gap: KeyRange<'_>,
    ) -> Result<(), StoreError> {
        if !self.has_keys() {
            return Ok(());
        }
        let blocks = sync::read(&self.blocks);
        for block in blocks.iter() {
            if let DamagedContents::Keys {
                is_index: of_index,
                partitions,
                first,
                last,
            } = &block.contents
                && *of_index == is_index
                && partitions.contains(&partition)
                && touches(gap, first, last)
            {
                return Err(unreadable(block));
            }
        }
        Ok(())
    }

    fn record_path(&self, damage: &Damage) -> PathBuf {
        let table = damage.file.file_name().unwrap_or_default();
        let (keyspace, last): (&str, &[u8]) = match &damage.contents {
            DamagedContents::Keys {
                is_index: true,
                last,
                ..
            } => ("index", last),
            DamagedContents::Keys { last, .. } => ("rows", last),
            DamagedContents::Auxiliary | DamagedContents::Restored => ("none", &[]),
        };
        // The number of a table may be used again after a restart, so the name has the key too.
        let key = crc32fast::hash(last);
        let table = table.to_string_lossy();
        let name = format!("{keyspace}-{table}-{}-{key:08x}", damage.offset);
        self.directory.join(name)
    }
}

/// Creates the refusal of a read in a damaged block.
pub(super) fn unreadable(block: &Damage) -> StoreError {
    StoreError::DamagedBlock {
        file: block.file.clone(),
        offset: block.offset,
        fault: block.fault.clone(),
    }
}

/// Returns true if a key can lie both in the gap and in the block.
fn touches(gap: KeyRange<'_>, first: &Bound<Vec<u8>>, last: &[u8]) -> bool {
    let starts_in_time = match gap.0 {
        Bound::Included(start) => start <= last,
        Bound::Excluded(start) => start < last,
        Bound::Unbounded => true,
    };
    let ends_late = match (gap.1, first) {
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => true,
        (Bound::Included(end), Bound::Included(first)) => end >= &first[..],
        (
            Bound::Included(end) | Bound::Excluded(end),
            Bound::Included(first) | Bound::Excluded(first),
        ) => end > &first[..],
    };
    starts_in_time && ends_late
}

fn encode(damage: &Damage, store: &Path) -> String {
    let file = damage.file.strip_prefix(store).unwrap_or(&damage.file);
    let mut text = format!(
        "{PREFACE}\nfile: {}\noffset: {}\nbytes: {}\nfault: {}\n",
        file.display(),
        damage.offset,
        damage.bytes,
        damage.fault.replace('\n', " "),
    );
    if let DamagedContents::Keys {
        partitions,
        first,
        last,
        ..
    } = &damage.contents
    {
        let partitions: Vec<String> = partitions.iter().map(PartitionId::to_string).collect();
        text.push_str(&format!("partitions: {}\n", partitions.join(" ")));
        match first {
            Bound::Included(key) => text.push_str(&format!("from: {}\n", hex::encode(key))),
            Bound::Excluded(key) => text.push_str(&format!("after: {}\n", hex::encode(key))),
            Bound::Unbounded => {}
        }
        text.push_str(&format!("to: {}\n", hex::encode(last)));
    }
    let crc = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("crc32: {crc:08x}\n\n"));
    text
}

/// Decodes the text of a record; `None` if it is not as written.
fn decode(bytes: &[u8], store: &Path) -> Option<Damage> {
    let end = bytes.windows(2).position(|pair| pair == b"\n\n")?;
    let text = std::str::from_utf8(&bytes[..end]).ok()?;
    let body = &text[..text.rfind("crc32: ")?];
    let field = |name: &str| body.lines().find_map(|line| line.strip_prefix(name));
    let first = match (field("from: "), field("after: ")) {
        (Some(key), _) => Bound::Included(hex::decode(key)?),
        (None, Some(key)) => Bound::Excluded(hex::decode(key)?),
        (None, None) => Bound::Unbounded,
    };
    let mut partitions = Vec::new();
    for number in field("partitions: ")?.split_whitespace() {
        partitions.push(PartitionId(number.parse().ok()?));
    }
    let file = field("file: ")?;
    let damage = Damage {
        file: store.join(file),
        offset: field("offset: ")?.parse().ok()?,
        bytes: field("bytes: ")?.parse().ok()?,
        fault: field("fault: ")?.to_owned(),
        contents: DamagedContents::Keys {
            is_index: !file.contains("keyspaces/1/"),
            partitions,
            first,
            last: hex::decode(field("to: ")?)?,
        },
    };
    // Encoding again checks every line and the checksum together.
    let again = encode(&damage, store);
    bytes.starts_with(again.as_bytes()).then_some(damage)
}
