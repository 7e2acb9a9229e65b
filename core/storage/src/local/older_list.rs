//! The way back to the list of tables before one that cannot be used.
//!
//! lsm-tree writes a list of tables under the next number and then exchanges the pointer to it. If
//! a step behind the exchange fails, such as the sync of the directory, lsm-tree goes on with the
//! list before, removes the new tables, and later gives another list the same number. A failure or
//! a crash then leaves a pointer to a list of which only a part is written, or to tables that are
//! gone. The list before is still there with its tables, and the journals have what is newer.
//!
//! Promises: only a list whose tables are there, and behind which the journals go on without a gap,
//! takes the place of another one. A directory that is refused is not changed. A list that is used
//! is durable, also if a sync of it had failed before.
//!
//! Leaves out: the list of keyspaces, which changes only when a store is created.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lsm_tree::AbstractTree;
use xxhash_rust::xxh3::xxh3_128;

use super::database::group_number;
use super::diagnosis::{Finding, check_list, parse_pointer, pointer};
use super::directory::{Directory, RESTORE_ADVICE, ignore_missing, sync_directory};
use super::journal::{GROUP_KEY, JournalContents};
use crate::error::StoreError;

/// The keyspaces of rows and of index entries.
const KEYSPACES: [&str; 2] = ["1", "2"];
/// The folder for a copy of a keyspace, in that of checkpoints, which every start removes.
const COPY: &str = "older-list";

/// Compares the lists of tables with the tables, takes the list before for one that cannot be used,
/// and makes the lists durable.
///
/// # Errors
/// With the name of the first file that is not as written.
pub(super) fn check_lists(
    directory: &Directory,
    contents: &JournalContents,
) -> Result<(), StoreError> {
    let keyspaces = directory.store().join("keyspaces");
    check_list(&keyspaces.join("0")).map_err(damaged)?;
    let mut exchanged = Vec::new();
    for number in KEYSPACES {
        let keyspace = keyspaces.join(number);
        let Err(finding) = check_list(&keyspace) else {
            continue;
        };
        let Some(older) = older_list(&keyspace) else {
            return Err(damaged(finding));
        };
        let copy = directory.checkpoints().join(COPY);
        let persisted = persisted_group(&keyspace, &older, &copy);
        ignore_missing(fs::remove_dir_all(&copy)).map_err(StoreError::io("remove", &copy))?;
        match (persisted, contents.groups) {
            (Some(persisted), Some((first, _))) if first.mark.group <= persisted + 1 => {
                exchanged.push((keyspace, older, finding));
            }
            _ => return Err(damaged(finding)),
        }
    }
    for (keyspace, older, (file, fault)) in exchanged {
        let pointer = keyspace.join("current");
        exchange_pointer(&pointer, &older.pointer).map_err(StoreError::io("write", &pointer))?;
        log::warn!(
            "{} cannot be used ({fault}): an earlier write of it had failed; the list of tables \
             before is used, with what the journals have",
            file.display()
        );
    }
    for number in ["0", "1", "2"] {
        let keyspace = keyspaces.join(number);
        let failed = StoreError::io("write the list of tables again in", &keyspace);
        write_again(&keyspace).map_err(failed)?;
    }
    Ok(())
}

/// Writes the pointer and the list of a keyspace once more, and makes them and their names durable.
/// A sync of them may have failed in an earlier process, and lists before them go from now on.
fn write_again(keyspace: &Path) -> io::Result<()> {
    let pointer = keyspace.join("current");
    let bytes = fs::read(&pointer)?;
    let list = parse_pointer(&bytes).map(|(number, _)| keyspace.join(format!("v{number}")));
    for file in list.into_iter().chain([pointer]) {
        let bytes = fs::read(&file)?;
        let mut opened = OpenOptions::new().write(true).open(&file)?;
        opened.write_all(&bytes)?;
        opened.sync_all()?;
    }
    sync_directory(keyspace)
}

fn damaged((file, fault): Finding) -> StoreError {
    StoreError::damaged(&file, format!("{fault}. {RESTORE_ADVICE}"))
}

/// A list of tables, and a pointer to it.
struct OlderList {
    name: String,
    pointer: Vec<u8>,
}

/// Returns the newest list before the one to which a keyspace points.
fn older_list(keyspace: &Path) -> Option<OlderList> {
    let current = fs::read(keyspace.join("current")).ok()?;
    let (number, _) = parse_pointer(&current)?;
    let mut older = None;
    for entry in fs::read_dir(keyspace).ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let version = name.strip_prefix('v').and_then(|text| text.parse().ok());
        older = older.max(version.filter(|version: &u64| *version < number));
    }
    let older = older?;
    let name = format!("v{older}");
    let content = fs::read(keyspace.join(&name)).ok()?;
    Some(OlderList {
        name,
        pointer: pointer(older, xxh3_128(&content)),
    })
}

/// Returns the last group in the tables of a list; `None` if the list cannot be used. lsm-tree
/// removes files that a list does not name, so it opens links to the files.
fn persisted_group(keyspace: &Path, list: &OlderList, copy: &Path) -> Option<u64> {
    link_folder(keyspace, copy, &list.name).ok()?;
    fs::write(copy.join("current"), &list.pointer).ok()?;
    check_list(copy).ok()?;
    let open = || {
        let (sequence, visible) = Default::default();
        let tree = lsm_tree::Config::new(copy, sequence, visible).open().ok()?;
        match tree.get_highest_persisted_seqno() {
            Some(sequence) => {
                let record = tree.get(GROUP_KEY, sequence + 1).ok()?;
                Some(group_number(record.as_deref()))
            }
            None => Some(0),
        }
    };
    // It panics on some kinds of damage.
    catch_unwind(AssertUnwindSafe(open)).ok().flatten()
}

/// Links one list and all tables of a keyspace into a new folder, or copies them where the file
/// system has no links.
fn link_folder(keyspace: &Path, copy: &Path, list: &str) -> io::Result<()> {
    ignore_missing(fs::remove_dir_all(copy))?;
    fs::create_dir_all(copy.join("tables"))?;
    let mut files: Vec<PathBuf> = vec![list.into()];
    for entry in fs::read_dir(keyspace.join("tables"))? {
        files.push(Path::new("tables").join(entry?.file_name()));
    }
    for file in files {
        let (from, to) = (keyspace.join(&file), copy.join(&file));
        if fs::hard_link(&from, &to).is_err() {
            fs::copy(&from, &to)?;
        }
    }
    Ok(())
}

/// Exchanges a pointer, durably.
fn exchange_pointer(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    match path.parent() {
        Some(folder) => sync_directory(folder),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::journal::read_batch;
    use crate::{Commit, LocalOptions, LocalStore, PartitionId, Store};
    use std::io::BufReader;

    /// Commits rows and index entries, which fill small tables. Returns the last LSN.
    fn write(root: &Path) -> u64 {
        let options = LocalOptions {
            memtable_bytes: 16 << 10,
            ..LocalOptions::default()
        };
        let store = LocalStore::open(root, options).unwrap();
        let lease = store.open(PartitionId(7)).unwrap();
        let begin = lease.head().lsn;
        for lsn in begin..begin + 20 {
            let value = vec![lsn as u8; 5_000];
            let commit = Commit {
                expect_lsn: lsn,
                new_lsn: lsn + 1,
                puts: vec![(vec![0], value.clone()), (vec![0x80], value)],
                ..Commit::default()
            };
            assert_eq!(
                store.submit(&lease, commit).wait(),
                crate::CommitOutcome::Ok
            );
        }
        begin + 20
    }

    fn list_of(keyspace: &Path) -> PathBuf {
        let (number, _) = parse_pointer(&fs::read(keyspace.join("current")).unwrap()).unwrap();
        keyspace.join(format!("v{number}"))
    }

    /// Removes all groups but the last one from a journal.
    fn keep_last_group(journal: &Path) {
        let mut reader = BufReader::new(File::open(journal).unwrap());
        let (mut end, mut last) = (0, 0..0);
        while let Ok(batch) = read_batch(&mut reader).unwrap() {
            end += batch.bytes;
            if batch.record.is_some() {
                last = last.end..end;
            }
        }
        let bytes = fs::read(journal).unwrap();
        fs::write(journal, &bytes[last.start as usize..last.end as usize]).unwrap();
    }

    /// Returns a directory with an older list beside one of which a part was written, the path of
    /// the latter, and the last LSN.
    fn with_part_of_a_list() -> (tempfile::TempDir, PathBuf, u64) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let keyspace = root.join("store/keyspaces/1");
        write(root);
        let older = tempfile::tempdir().unwrap();
        let older_list = list_of(&keyspace);
        let name = older_list.file_name().unwrap().to_str().unwrap();
        link_folder(&keyspace, older.path(), name).unwrap();
        // A thread of the store writes the tables.
        let mut lsn = write(root);
        while list_of(&keyspace) == older_list {
            lsn = write(root);
        }
        let list = list_of(&keyspace);
        fs::write(&list, b"a part").unwrap();
        for file in fs::read_dir(older.path().join("tables")).unwrap() {
            let file = file.unwrap();
            let place = keyspace.join("tables").join(file.file_name());
            fs::copy(file.path(), place).unwrap();
        }
        for file in fs::read_dir(&keyspace).unwrap() {
            let path = file.unwrap().path();
            let is_between = path
                .file_name()
                .unwrap()
                .as_encoded_bytes()
                .starts_with(b"v");
            if is_between && path != list {
                fs::remove_file(path).unwrap();
            }
        }
        fs::copy(older.path().join(name), &older_list).unwrap();
        (dir, list, lsn)
    }

    #[test]
    fn an_older_list_is_used_with_what_the_journals_have() {
        let (dir, _, lsn) = with_part_of_a_list();
        let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        let snapshot = store.snapshot(PartitionId(7)).unwrap();
        assert_eq!(snapshot.head().lsn, lsn);
        let value = snapshot.get(&[0]).unwrap().unwrap();
        assert!(value == vec![lsn as u8 - 1; 5_000]);
    }

    #[test]
    fn an_older_list_behind_which_the_journals_have_a_gap_is_not_used() {
        let (dir, list, _) = with_part_of_a_list();
        keep_last_group(&dir.path().join("store/0.jnl"));
        let keyspace = list.parent().unwrap();
        let pointer = fs::read(keyspace.join("current")).unwrap();
        let refusal = LocalStore::open(dir.path(), LocalOptions::default()).err();
        let refusal = refusal.map(|error| error.to_string()).unwrap_or_default();
        assert!(refusal.contains(&list.display().to_string()), "{refusal}");
        assert!(fs::read(keyspace.join("current")).unwrap() == pointer);
        assert!(fs::read(&list).unwrap() == b"a part");
    }
}
