//! The way back to the list of tables before one that cannot be used.
//!
//! lsm-tree writes a list of tables under the next number and then exchanges the pointer to it. If
//! a step behind the exchange fails, such as the sync of the directory, lsm-tree goes on with the
//! list before, removes the new tables, and later gives another list the same number. A failure or
//! a crash then leaves a pointer to a list of which only a part is written, or to tables that are
//! gone. The list before is still there with its tables, and the journals have what is newer.
//!
//! Promises: only a list whose tables are there, and behind which the journals go on without a gap,
//! takes the place of another one, so nothing is lost, whatever the cause. A file that cannot be
//! read is an error and no reason. A list that is used is durable, also if a sync of it had failed
//! before, as far as it can be written.
//!
//! Leaves out: the list of keyspaces, and an opening that accepts a loss.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use lsm_tree::AbstractTree;
use xxhash_rust::xxh3::xxh3_128;

use super::database::group_number;
use super::diagnosis::{Finding, fault_of_list, parse_pointer, parse_tables, pointer};
use super::directory::{
    Directory, KEYSPACES, RESTORE_ADVICE, ignore_missing, owner_only, sync_directory,
};
use super::high_water::Mark;
use super::journal::{GROUP_KEY, JournalContents, accept_unwritable, rewrite_bytes};
use crate::error::StoreError;

const OF_KEYSPACES: &str = "0";

/// Compares the lists of tables with the tables, takes the list before for one that cannot be used,
/// and makes the lists durable. Without a mark no other list is taken.
///
/// # Errors
/// With the name of the first file that is not as written, or cannot be read.
pub(super) fn check_lists(
    directory: &Directory,
    contents: &JournalContents,
    mark: Option<Mark>,
) -> Result<(), StoreError> {
    let keyspaces = directory.store().join("keyspaces");
    let mut exchanged = Vec::new();
    for number in KEYSPACES {
        let keyspace = keyspaces.join(number);
        let Some(finding) = fault_of_list(&keyspace)? else {
            continue;
        };
        let older = match (mark, number) {
            (None, _) | (_, OF_KEYSPACES) => None,
            _ => older_list(&keyspace).map_err(StoreError::io("read lists in", &keyspace))?,
        };
        let (Some(older), Some(mark)) = (older, mark) else {
            return Err(damaged(finding));
        };
        let copy = directory.older_list();
        let persisted = persisted_group(&keyspace, &older, &copy);
        ignore_missing(fs::remove_dir_all(&copy)).map_err(StoreError::io("remove", &copy))?;
        match persisted? {
            Some(persisted) if goes_on_behind(persisted, contents, mark) => {
                exchanged.push((keyspace, older, finding));
            }
            _ => return Err(damaged(finding)),
        }
    }
    for (keyspace, older, (file, fault)) in exchanged {
        let pointer = keyspace.join("current");
        exchange_pointer(&pointer, &older.pointer).map_err(StoreError::io("write", &pointer))?;
        log::warn!(
            "{} cannot be used ({fault}); the list of tables before and the journals have all \
             commits, and are used instead",
            file.display()
        );
    }
    for number in KEYSPACES {
        let keyspace = keyspaces.join(number);
        let failed = StoreError::io("write the list of tables again in", &keyspace);
        accept_unwritable(&keyspace, write_again(&keyspace)).map_err(failed)?;
    }
    Ok(())
}

/// Returns true if the journals have all groups behind this one, from the first batch on.
fn goes_on_behind(persisted: u64, contents: &JournalContents, mark: Mark) -> bool {
    let Some((first, _)) = contents.groups else {
        // The journals are empty.
        return contents.first_sequence.is_none() && persisted >= mark.group;
    };
    let is_whole = contents.first_sequence == Some(first.first_sequence);
    let group = first.mark.group;
    group <= persisted || (group == persisted + 1 && is_whole)
}

/// Writes the pointer and the list of a keyspace once more, and makes them and their names durable.
/// A sync of them may have failed in an earlier process, and lists before them go from now on.
fn write_again(keyspace: &Path) -> io::Result<()> {
    let pointer = keyspace.join("current");
    let list = parse_pointer(&fs::read(&pointer)?);
    let list = list.map(|(number, _)| keyspace.join(format!("v{number}")));
    for file in list.into_iter().chain([pointer]) {
        rewrite_bytes(&file, 0..fs::metadata(&file)?.len())?;
    }
    sync_directory(keyspace)
}

fn damaged((file, fault): Finding) -> StoreError {
    StoreError::damaged(&file, format!("{fault}. {RESTORE_ADVICE}"))
}

/// A list of tables, and a pointer to it.
struct OlderList {
    name: String,
    tables: Vec<u64>,
    pointer: Vec<u8>,
}

/// Returns the newest list before the one to which a keyspace points; `None` if there is none, or
/// it cannot be used.
fn older_list(keyspace: &Path) -> io::Result<Option<OlderList>> {
    let Some((number, _)) = parse_pointer(&fs::read(keyspace.join("current"))?) else {
        return Ok(None);
    };
    let mut older = None;
    for entry in fs::read_dir(keyspace)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let version = name.strip_prefix('v').and_then(|text| text.parse().ok());
        older = older.max(version.filter(|version: &u64| *version < number));
    }
    let Some(older) = older else {
        return Ok(None);
    };
    let name = format!("v{older}");
    let content = fs::read(keyspace.join(&name))?;
    Ok(parse_tables(&content).map(|tables| OlderList {
        name,
        tables,
        pointer: pointer(older, xxh3_128(&content)),
    }))
}

/// Returns the last group in the tables of a list; `None` if the list cannot be used. lsm-tree
/// removes files that a list does not name, so it opens links to the files.
///
/// # Errors
/// When the links cannot be made.
fn persisted_group(
    keyspace: &Path,
    list: &OlderList,
    copy: &Path,
) -> Result<Option<u64>, StoreError> {
    match link_list(keyspace, list, copy) {
        Ok(()) => {}
        // A table is missing.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(StoreError::io("write", copy)(error)),
    }
    if fault_of_list(copy)?.is_some() {
        return Ok(None);
    }
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
    Ok(catch_unwind(AssertUnwindSafe(open)).ok().flatten())
}

/// Links a list and its tables into a new folder, or copies them where the file system has no
/// links.
fn link_list(keyspace: &Path, list: &OlderList, copy: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_dir_all(copy))?;
    super::directory::create_directory(&copy.join("tables"))?;
    let mut files: Vec<PathBuf> = vec![list.name.clone().into()];
    files.extend(
        list.tables
            .iter()
            .map(|id| Path::new("tables").join(id.to_string())),
    );
    for file in files {
        let (from, to) = (keyspace.join(&file), copy.join(&file));
        match fs::hard_link(&from, &to) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
            Err(_) => _ = fs::copy(&from, &to)?,
            Ok(()) => {}
        }
    }
    fs::write(copy.join("current"), &list.pointer)
}

/// Exchanges a pointer, durably.
fn exchange_pointer(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension("draft");
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    let mut file: File = owner_only(&mut options).open(&draft)?;
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
    use crate::local::journal::{GroupRecord, read_batch};
    use crate::{Commit, CommitOutcome, LocalOptions, LocalStore, PartitionId, Store};
    use std::io::BufReader;

    /// Returns a directory whose commits are in the journal alone, with a part of the next list of
    /// tables, the path of this list, and the last LSN.
    fn with_part_of_a_list() -> (tempfile::TempDir, PathBuf, u64) {
        let dir = tempfile::tempdir().unwrap();
        let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
        let lease = store.open(PartitionId(7)).unwrap();
        for lsn in 0..20 {
            let value = vec![lsn as u8; 5_000];
            let commit = Commit {
                expect_lsn: lsn,
                new_lsn: lsn + 1,
                puts: vec![(vec![0], value.clone()), (vec![0x80], value)],
                ..Commit::default()
            };
            assert_eq!(store.submit(&lease, commit).wait(), CommitOutcome::Ok);
        }
        drop(store);
        let keyspace = dir.path().join("store/keyspaces/1");
        let (number, _) = parse_pointer(&fs::read(keyspace.join("current")).unwrap()).unwrap();
        let list = keyspace.join(format!("v{}", number + 1));
        fs::write(&list, b"a part").unwrap();
        fs::write(keyspace.join("current"), pointer(number + 1, 1)).unwrap();
        (dir, list, 20)
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

    /// Journals whose first record is of `first`, and whose first batch has this number.
    fn journals(first: u64, first_batch: u64) -> JournalContents {
        let record = |group| GroupRecord {
            mark: Mark { group, chain: 0 },
            previous: 0,
            first_sequence: 100,
        };
        JournalContents {
            groups: Some((record(first), record(9))),
            first_sequence: Some(first_batch),
            ..JournalContents::default()
        }
    }

    #[test]
    fn journals_go_on_behind_a_list_if_no_batch_of_the_next_group_is_gone() {
        let mark = Mark { group: 9, chain: 0 };
        assert!(goes_on_behind(5, &journals(5, 101), mark));
        assert!(goes_on_behind(5, &journals(6, 100), mark));
        // The first batches of the group were in a journal that is gone.
        assert!(!goes_on_behind(5, &journals(6, 101), mark));
        assert!(!goes_on_behind(5, &journals(7, 100), mark));
        // A crash in an idle store: the journals are empty, and the tables have everything.
        let none = JournalContents::default();
        assert!(goes_on_behind(9, &none, mark));
        assert!(!goes_on_behind(8, &none, mark));
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
