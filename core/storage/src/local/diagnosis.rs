//! The search for the damaged file after a refusal that names only a directory.
//!
//! fjall's errors do not say which file they are about. So after a refusal this module reads the
//! files of the store itself, in the order in which fjall needs them, and names the first one that
//! is not as written. It changes nothing.
//!
//! ```text
//! version              "FJL" 03
//! lock                 locked while fjall has the directory open
//! keyspaces/N/current  version u64 | xxh3-128 of the version's file | 00
//! keyspaces/N/vM       01 byte | text of digits and dots | 3 bytes | levels u8, each:
//!                      runs u8, each: tables u32, each: id u64 | 00 | 16 bytes | 8 bytes | ...
//! keyspaces/N/tables   blocks.rs
//! ```

use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lsm_tree::{Cache, Checksum, Table};
use xxhash_rust::xxh3::xxh3_128;

use super::blocks::{TableFile, directory_fault};
use super::directory::{KEYSPACES, RESTORE_ADVICE, format_fault};
use super::high_water::HighWater;
use crate::error::StoreError;

/// A file that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFault {
    /// The file.
    pub file: PathBuf,
    /// The fault.
    pub detail: String,
    /// The next opening of the store mends the fault, and nothing is lost.
    pub is_harmless: bool,
}

/// A damaged file and its fault.
pub(super) type Finding = (PathBuf, String);

/// Replaces an error that names a directory of the store, or the pointer to tables that end too
/// early, by one that names the damaged file, if the file can be found.
pub(super) fn name_file(store: &Path, error: StoreError) -> StoreError {
    let names_directory = match &error {
        StoreError::Damaged { file, .. } => file.is_dir() || file.ends_with("current"),
        StoreError::Io { path, source, .. } => path.is_dir() && !is_exhausted(source),
        _ => false,
    };
    if !names_directory {
        return error;
    }
    match find(store) {
        Some((file, fault)) => StoreError::damaged(&file, format!("{fault}. {RESTORE_ADVICE}")),
        None => error,
    }
}

/// Returns true if the system itself could not do its part: no memory, no permission, no
/// descriptors, no room.
fn is_exhausted(error: &std::io::Error) -> bool {
    const CODES: [i32; 6] = [12, 13, 23, 24, 28, 122];
    error
        .raw_os_error()
        .is_some_and(|code| CODES.contains(&code))
}

/// Returns the first damaged file of a store.
fn find(store: &Path) -> Option<Finding> {
    let faults = faults_of_store(store, true);
    faults.into_iter().next()
}

/// Returns the files of a data directory that are not as written, journals and the blocks of tables
/// left out.
pub(super) fn faults(root: &Path, store: &Path, high_water: &Path) -> Vec<FileFault> {
    let mut faults = Vec::new();
    let mut add = |(file, detail): Finding, is_harmless| {
        faults.push(FileFault {
            file,
            detail,
            is_harmless,
        });
    };
    if let Some(finding) = format_fault(root) {
        add(finding, false);
    }
    if let Some((fault, is_harmless)) = HighWater::fault(high_water) {
        add((high_water.to_owned(), fault), is_harmless);
    }
    for finding in faults_of_store(store, false) {
        add(finding, false);
    }
    faults
}

/// Compares the list of tables of a keyspace, and the directory of the parts of each table, with
/// their checksums. The libraries decode both before they do so; a panic or a request for much
/// memory there ends the process. Returns the first file that is not as written.
///
/// # Errors
/// When a file cannot be read, which says nothing about its bytes.
pub(super) fn fault_of_list(keyspace: &Path) -> Result<Option<Finding>, StoreError> {
    let listed = match listed_tables(keyspace)? {
        Ok(listed) => listed,
        Err(finding) => return Ok(Some(finding)),
    };
    for id in listed {
        let table = keyspace.join("tables").join(id.to_string());
        match directory_fault(&table) {
            Ok(None) => {}
            Ok(Some(fault)) => return Ok(Some((table, fault))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Some((table, "it is missing".to_owned())));
            }
            Err(error) => return Err(StoreError::io("read", &table)(error)),
        }
    }
    Ok(None)
}

fn faults_of_store(store: &Path, reads_blocks: bool) -> Vec<Finding> {
    let mut faults = Vec::new();
    let version = store.join("version");
    if std::fs::read(&version).ok().as_deref() != Some(b"FJL\x03") {
        let fault = "it is not the version mark of the tables";
        faults.push((version, fault.to_owned()));
    }
    let lock = store.join("lock");
    if !lock.exists() {
        faults.push((lock, "it is missing".to_owned()));
    }
    for number in KEYSPACES {
        let keyspace = store.join("keyspaces").join(number);
        faults.extend(faults_of_keyspace(&keyspace, reads_blocks));
    }
    faults
}

fn faults_of_keyspace(keyspace: &Path, reads_blocks: bool) -> Vec<Finding> {
    let listed = match listed_tables(keyspace) {
        Ok(Ok(listed)) => listed,
        Ok(Err(fault)) => return vec![fault],
        Err(StoreError::Io { path, .. }) if path.ends_with("current") => {
            return vec![(path, "it is cut or unreadable".to_owned())];
        }
        Err(StoreError::Io { path, .. }) => {
            return vec![(path, "it is missing or unreadable".to_owned())];
        }
        Err(error) => return vec![(keyspace.to_owned(), error.to_string())],
    };
    let tables = keyspace.join("tables");
    let mut faults = Vec::new();
    for id in listed {
        let table = tables.join(id.to_string());
        if !table.exists() {
            faults.push((table, "it is missing".to_owned()));
        } else if let Some(fault) = table_fault(&table, reads_blocks) {
            faults.push((table, fault));
        }
    }
    faults.extend(foreign_file(&tables));
    faults
}

/// Returns the ids of the tables that a keyspace lists, or the fault of its pointer or its list.
///
/// # Errors
/// When one of the two is there and cannot be read.
fn listed_tables(keyspace: &Path) -> Result<Result<Vec<u64>, Finding>, StoreError> {
    let current = keyspace.join("current");
    let Some((number, checksum)) = read(&current)?.as_deref().and_then(parse_pointer) else {
        return Ok(Err((current, "it is cut or unreadable".to_owned())));
    };
    let manifest = keyspace.join(format!("v{number}"));
    let Some(content) = read(&manifest)? else {
        // Either the pointer is wrong or the file that it names is missing.
        if has_file_with(keyspace, number, checksum) {
            let fault = format!("it names version {number}, which never was");
            return Ok(Err((current, fault)));
        }
        return Ok(Err((manifest, "it is missing or unreadable".to_owned())));
    };
    if (number, checksum) == (0, 0) {
        return Ok(Err((current, "it is empty".to_owned())));
    }
    if xxh3_128(&content) != checksum {
        // Either of the two may be damaged.
        let fault = format!("it does not have the checksum of {}", current.display());
        return Ok(Err((manifest, fault)));
    }
    Ok(Ok(parse_tables(&content).unwrap_or_default()))
}

/// Reads a file; `None` if there is none.
fn read(path: &Path) -> Result<Option<Vec<u8>>, StoreError> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::io("read", path)(error)),
    }
}

/// Returns the bytes of a pointer to a version whose file has this checksum.
pub(super) fn pointer(number: u64, checksum: u128) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.extend(checksum.to_le_bytes());
    bytes.push(0);
    bytes
}

/// Parses a pointer: the number of the version and the checksum of its file.
pub(super) fn parse_pointer(bytes: &[u8]) -> Option<(u64, u128)> {
    if bytes.len() != 25 || bytes[24] != 0 {
        return None;
    }
    let number = u64::from_le_bytes(bytes[..8].try_into().ok()?);
    let checksum = u128::from_le_bytes(bytes[8..24].try_into().ok()?);
    Some((number, checksum))
}

/// Returns true if a version file of the keyspace has this checksum, or a higher number.
fn has_file_with(keyspace: &Path, number: u64, checksum: u128) -> bool {
    let entries = std::fs::read_dir(keyspace).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(version) = name.strip_prefix('v').and_then(|n| n.parse::<u64>().ok()) else {
            continue;
        };
        let content = std::fs::read(entry.path()).unwrap_or_default();
        if version > number || xxh3_128(&content) == checksum {
            return true;
        }
    }
    false
}

/// Parses the ids of the tables in a version file whose checksum is right.
pub(super) fn parse_tables(content: &[u8]) -> Option<Vec<u64>> {
    let text = content.get(1..)?;
    let is_version_text = |byte: &&u8| byte.is_ascii_alphanumeric() || b".-+".contains(*byte);
    let text_bytes = text.iter().take_while(is_version_text).count();
    let mut rest = text.get(text_bytes + 3..)?;
    let mut ids = Vec::new();
    for _ in 0..take(&mut rest, 1)?[0] {
        for _ in 0..take(&mut rest, 1)?[0] {
            let tables = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
            for _ in 0..tables {
                ids.push(u64::from_le_bytes(take(&mut rest, 8)?.try_into().ok()?));
                take(&mut rest, 1 + 16 + 8)?;
            }
        }
    }
    Some(ids)
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

/// Returns the first fault of a table file: of its structure, or of one of its blocks if they are
/// to be read.
fn table_fault(path: &Path, reads_blocks: bool) -> Option<String> {
    if let Ok(Some(fault)) = directory_fault(path) {
        return Some(fault);
    }
    let open = || {
        let cache = Arc::new(Cache::with_capacity_bytes(1 << 20));
        let checksum = Checksum::from_raw(0);
        Table::recover(path.to_owned(), checksum, 0, 0, cache, None, true, true)
    };
    let table = match catch_unwind(AssertUnwindSafe(open)) {
        Ok(Ok(table)) => table,
        Ok(Err(error)) => return Some(format!("its structure is unreadable ({error:?})")),
        Err(_) => return Some("its structure is unreadable".to_owned()),
    };
    if !reads_blocks {
        return None;
    }
    let mut file = match TableFile::open(path) {
        Ok(file) => file,
        Err(error) => return Some(error.to_string()),
    };
    match file.blocks(&table) {
        Ok(blocks) => blocks.iter().find_map(|block| {
            let fault = file.check(block)?;
            Some(format!(
                "a block at byte {} is damaged: {fault}",
                block.offset
            ))
        }),
        Err((offset, fault)) => Some(format!("a block at byte {offset} is damaged: {fault}")),
    }
}

/// Returns a file among the tables whose name is no number.
fn foreign_file(tables: &Path) -> Option<Finding> {
    let entries = std::fs::read_dir(tables).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.parse::<u64>().ok());
        if number.is_none() {
            return Some((entry.path(), "it is not a table".to_owned()));
        }
    }
    None
}
