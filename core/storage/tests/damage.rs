//! A data directory after damage: it opens with every acknowledged commit, or the refusal names the
//! damaged file. It never opens with less.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::support::{ALL, P, Pair, PartitionWriter, everything};
use orrery_storage::{Commit, Direction, LocalOptions, LocalStore, Store, StoreError};

/// A closed data directory and its content.
struct Original {
    dir: tempfile::TempDir,
    content: Vec<Pair>,
    lsn: u64,
}

/// Returns a directory whose content is in the journal.
fn in_journal() -> Original {
    original(60, 300)
}

/// Returns a directory with part of its content in tables and the rest in journals. The values
/// compress well.
fn in_tables() -> Original {
    original(330, 60_000)
}

fn original(commits: u64, value_bytes: usize) -> Original {
    let original = original_with(commits, |n| vec![n as u8; value_bytes]);
    // The store is opened once more, so that the journal has no reserved space behind its content.
    drop(LocalStore::open(original.dir.path(), LocalOptions::default()).unwrap());
    // An older list of tables replaces a damaged one, if the store has not removed it yet.
    let root = original.dir.path();
    for file in files(root) {
        if is_old_list(root, file.strip_prefix(root).unwrap()) {
            std::fs::remove_file(file).unwrap();
        }
    }
    original
}

fn original_with(commits: u64, value: impl Fn(u64) -> Vec<u8>) -> Original {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), LocalOptions::default()).unwrap();
    let mut writer = PartitionWriter::open(&store, P);
    for n in 0..commits {
        let value = value(n);
        let key = n.to_be_bytes();
        writer.put(&[
            (&key, &value),
            (&[b"\x80".as_slice(), &key].concat(), &key),
            (b"last", &key),
        ]);
    }
    let (content, lsn) = (everything(&store, P), writer.lsn);
    drop(store);
    Original { dir, content, lsn }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path))
        } else {
            found.push(path)
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).unwrap());
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(&file, &target).unwrap();
    }
    // `files` lists no empty directories, but fjall needs them.
    for n in 0..3 {
        std::fs::create_dir_all(to.join(format!("store/keyspaces/{n}/tables"))).unwrap();
    }
}

/// Opens the store and reads all rows and the head.
fn read(dir: &Path) -> Result<(Vec<Pair>, u64), StoreError> {
    let store = LocalStore::open(dir, LocalOptions::default())?;
    let snapshot = store.snapshot(P)?;
    let rows = snapshot
        .scan(ALL, Direction::Forward)
        .map(|row| row.map(|(key, value)| (key.to_vec(), value.to_vec())));
    Ok((rows.collect::<Result<_, _>>()?, snapshot.head().lsn))
}

/// Damages a file of a copy and checks the promise of this module. Returns true if the copy was
/// refused.
fn is_refused(original: &Original, file: &Path, case: &str, damage: impl FnOnce(&Path)) -> bool {
    let dir = tempfile::tempdir().unwrap();
    copy(original.dir.path(), dir.path());
    damage(dir.path());
    match catch_unwind(AssertUnwindSafe(|| read(dir.path()))) {
        Ok(Ok((content, lsn))) => {
            assert_eq!(lsn, original.lsn, "{case}: opened with another head");
            assert!(
                content == original.content,
                "{case}: opened with other content"
            );
            false
        }
        Ok(Err(error)) => {
            let text = error.to_string();
            let file = dir.path().join(file).display().to_string();
            assert!(text.contains(&file), "{case}: names another file: {text}");
            true
        }
        Err(_) => panic!("{case}: panicked"),
    }
}

/// Calls `test` with the relative path and the length in bytes of every file.
fn each_file(original: &Original, mut test: impl FnMut(&Path, usize)) {
    let root = original.dir.path();
    for file in files(root) {
        let length = std::fs::metadata(&file).unwrap().len() as usize;
        test(file.strip_prefix(root).unwrap(), length);
    }
}

/// Returns true if a file is a list of tables (`v` and a number) that the pointer beside it does
/// not name.
fn is_old_list(root: &Path, name: &Path) -> bool {
    let file = name.file_name().unwrap().to_string_lossy().into_owned();
    let Some(number) = file.strip_prefix('v').and_then(|n| n.parse::<u64>().ok()) else {
        return false;
    };
    let pointer = std::fs::read(root.join(name).with_file_name("current")).unwrap();
    u64::from_le_bytes(pointer[..8].try_into().unwrap()) != number
}

/// Rewrites a file.
fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn an_undamaged_copy_opens_as_it_was() {
    assert!(!is_refused(&in_journal(), Path::new(""), "nothing", |_| ()));
    let tables = in_tables();
    assert!(
        files(tables.dir.path())
            .iter()
            .any(|file| file.to_string_lossy().contains("keyspaces/1/tables/"))
    );
    assert!(!is_refused(&tables, Path::new(""), "nothing", |_| ()));
}

#[test]
fn a_deleted_file_is_noticed() {
    for original in [in_journal(), in_tables()] {
        each_file(&original, |name, _| {
            // No file is left that could name a journal.
            let is_journal = name.extension().is_some_and(|extension| extension == "jnl");
            let named = if is_journal { Path::new("store") } else { name };
            let refused = is_refused(&original, named, &format!("{name:?} deleted"), |dir| {
                std::fs::remove_file(dir.join(name)).unwrap()
            });
            // The lock file is created again, and lists of tables that are no longer in use go by
            // themselves.
            let is_needed = !name.ends_with("LOCK") && !is_old_list(original.dir.path(), name);
            assert!(
                refused || !is_needed,
                "the loss of {name:?} was not noticed"
            );
        });
    }
    let original = in_journal();
    for part in [
        "store",
        "store/keyspaces",
        "store/keyspaces/0",
        "store/keyspaces/1",
        "store/keyspaces/2",
    ] {
        assert!(
            is_refused(&original, Path::new(part), part, |dir| {
                std::fs::remove_dir_all(dir.join(part)).unwrap()
            }),
            "{part}"
        );
    }
}

#[test]
fn a_truncated_file_is_noticed() {
    for original in [in_journal(), in_tables()] {
        each_file(&original, |name, length| {
            for keep in [
                0,
                length / 3,
                length / 2,
                length.saturating_sub(40),
                length.saturating_sub(1),
            ] {
                let case = format!("{name:?} cut to {keep} of {length}");
                let refused = is_refused(&original, name, &case, |dir| {
                    change(&dir.join(name), |bytes| bytes.truncate(keep))
                });
                assert!(
                    refused || name.extension().is_none_or(|e| e != "jnl"),
                    "{case}"
                );
            }
        });
    }
}

#[test]
fn a_zeroed_block_is_noticed() {
    for original in [in_journal(), in_tables()] {
        each_file(&original, |name, length| {
            for tenth in 0..10 {
                let start = length * tenth / 10;
                let end = (start + 4096).min(length);
                let case = format!("{name:?} zeroed from {start} to {end}");
                is_refused(&original, name, &case, |dir| {
                    change(&dir.join(name), |bytes| bytes[start..end].fill(0))
                });
            }
        });
    }
}

#[test]
fn a_flipped_bit_is_noticed_or_harmless() {
    for original in [in_journal(), in_tables()] {
        each_file(&original, |name, length| {
            for n in 0..24 {
                // Spread over the file, with more at both ends, where formats keep headers and
                // trailers.
                let at = match n % 3 {
                    0 => n * 5 + 1,
                    1 => length.saturating_sub(n * 3 + 1),
                    _ => length * n / 24,
                };
                if at < length {
                    let case = format!("{name:?} bit {} of byte {at} flipped", n % 8);
                    is_refused(&original, name, &case, |dir| {
                        change(&dir.join(name), |bytes| bytes[at] ^= 1 << (n % 8))
                    });
                }
            }
        });
    }
}

/// The tables of index entries were never flushed, so the sealed journal is needed although the
/// newer journal reaches the high-water mark.
#[test]
fn a_missing_or_damaged_older_journal_is_noticed() {
    // Values that do not compress fill a journal until it is sealed.
    let incompressible = |n: u64| {
        let mut state = n + 1;
        let step = |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        };
        (0..65_000).map(step).collect::<Vec<u8>>()
    };
    let original = original_with(1_300, incompressible);
    let mut journals = files(&original.dir.path().join("store"));
    journals.retain(|file| file.extension().is_some_and(|e| e == "jnl"));
    assert!(journals.len() >= 2, "{journals:?}");
    let oldest = journals[0].strip_prefix(original.dir.path()).unwrap();
    assert!(!is_refused(&original, Path::new(""), "nothing", |_| ()));
    // The journal that is missing has no file, so the one behind the gap is named.
    let next = journals[1].strip_prefix(original.dir.path()).unwrap();
    assert!(is_refused(
        &original,
        next,
        "oldest journal deleted",
        |dir| { std::fs::remove_file(dir.join(oldest)).unwrap() }
    ));
    assert!(is_refused(&original, oldest, "oldest journal cut", |dir| {
        change(&dir.join(oldest), |b| b.truncate(b.len() / 2))
    }));
    let zero = |dir: &Path| {
        change(&dir.join(oldest), |bytes| {
            bytes[30_000_000..30_004_096].fill(0)
        })
    };
    assert!(is_refused(&original, oldest, "oldest journal zeroed", zero));
}

#[test]
fn a_refusal_names_the_loss_and_changes_nothing_and_the_loss_can_be_accepted() {
    let original = in_journal();
    let dir = tempfile::tempdir().unwrap();
    copy(original.dir.path(), dir.path());
    let journal = files(&dir.path().join("store"))
        .into_iter()
        .find(|file| file.extension().is_some_and(|e| e == "jnl"));
    let journal = journal.unwrap();
    change(&journal, |bytes| bytes.truncate(bytes.len() / 2));
    let cut = std::fs::read(&journal).unwrap();
    for _ in 0..2 {
        let text = LocalStore::open(dir.path(), LocalOptions::default())
            .err()
            .unwrap()
            .to_string();
        assert!(
            text.contains("were acknowledged") && text.contains("are missing"),
            "{text}"
        );
        assert!(
            std::fs::read(&journal).unwrap() == cut,
            "the evidence was changed"
        );
    }
    let accepting = LocalOptions {
        accept_loss: true,
        ..LocalOptions::default()
    };
    let store = LocalStore::open(dir.path(), accepting).unwrap();
    let mut writer = PartitionWriter::open(&store, P);
    assert!(writer.lsn > 0 && writer.lsn < original.lsn);
    assert_eq!(
        writer.commit(Commit::default()),
        orrery_storage::CommitOutcome::Ok
    );
    let after = writer.lsn;
    drop(store);
    assert_eq!(
        read(dir.path()).unwrap().1,
        after,
        "after that it opens without the option"
    );
}

#[test]
fn a_loss_is_described_and_its_remains_are_kept_before_it_is_accepted() {
    let original = in_journal();
    let dir = tempfile::tempdir().unwrap();
    copy(original.dir.path(), dir.path());
    assert_eq!(LocalStore::examine(dir.path()).unwrap(), None);
    let journal = files(&dir.path().join("store"))
        .into_iter()
        .find(|file| file.extension().is_some_and(|e| e == "jnl"));
    let journal = journal.unwrap();
    change(&journal, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    let damaged = std::fs::read(&journal).unwrap();

    let loss = LocalStore::examine(dir.path()).unwrap().unwrap();
    assert!(
        loss.problem.contains(&journal.display().to_string()),
        "{}",
        loss.problem
    );
    assert!(
        loss.last_group < loss.acknowledged_group.unwrap(),
        "{loss:?}"
    );
    // Only the commit that holds the damaged byte cannot be read any more.
    let lsns: Vec<_> = loss.commits.iter().map(|commit| commit.lsn).collect();
    let first = lsns[0];
    assert_eq!(lsns, (first..=original.lsn).collect::<Vec<_>>());
    for commit in &loss.commits {
        let key = (commit.lsn - 1).to_be_bytes();
        assert_eq!(commit.partition, P);
        assert!(commit.keys.contains(&key.to_vec()), "{commit:?}");
    }

    let remains = dir.path().join("remains");
    loss.keep_remains(dir.path(), &remains).unwrap();
    let kept = std::fs::read(remains.join("journal-remains")).unwrap();
    assert_eq!(kept.len() as u64, loss.bytes);
    assert_eq!(kept, &damaged[loss.offset as usize..][..kept.len()]);
    assert_eq!(
        std::fs::read(&journal).unwrap(),
        damaged,
        "the journal was changed"
    );
    let accepting = LocalOptions {
        accept_loss: true,
        ..LocalOptions::default()
    };
    let writer = LocalStore::open(dir.path(), accepting).unwrap();
    assert_eq!(writer.snapshot(P).unwrap().head().lsn, first - 2);
    drop(writer);
    assert_eq!(LocalStore::examine(dir.path()).unwrap(), None);
}

#[test]
fn a_loss_that_begins_before_the_commits_of_the_tables_cannot_be_accepted() {
    let original = in_tables();
    let dir = tempfile::tempdir().unwrap();
    copy(original.dir.path(), dir.path());
    let journals = files(&dir.path().join("store")).into_iter();
    let newest = journals.filter(|file| file.extension().is_some_and(|e| e == "jnl"));
    let newest = newest.max().unwrap();
    change(&newest, |bytes| bytes[1000] ^= 1);
    let damaged = std::fs::read(&newest).unwrap();
    let accepting = LocalOptions {
        accept_loss: true,
        ..LocalOptions::default()
    };
    let refusals = [
        LocalStore::examine(dir.path()).err().unwrap(),
        LocalStore::open(dir.path(), accepting).err().unwrap(),
    ];
    for refusal in refusals {
        let text = refusal.to_string();
        assert!(text.contains("cannot be separated"), "{text}");
    }
    assert_eq!(
        std::fs::read(&newest).unwrap(),
        damaged,
        "the journal was changed"
    );
}

#[test]
fn a_directory_without_data_is_not_examined_and_not_created() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing");
    let refusal = LocalStore::examine(&missing).unwrap_err().to_string();
    assert!(
        refusal.contains("missing") && !missing.exists(),
        "{refusal}"
    );
}

#[test]
fn other_directories_and_other_formats_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("thesis.txt"), "precious").unwrap();
    let refusal = LocalStore::open(dir.path(), LocalOptions::default())
        .err()
        .unwrap();
    assert!(
        matches!(&refusal, StoreError::Foreign { found, .. } if found == "thesis.txt"),
        "{refusal}"
    );
    assert_eq!(files(dir.path()).len(), 1, "nothing was added");

    let original = in_journal();
    let format = original.dir.path().join("ORRERY");
    let text = std::fs::read_to_string(&format)
        .unwrap()
        .replace("format: 3", "format: 4");
    std::fs::write(&format, text).unwrap();
    let refusal = LocalStore::open(original.dir.path(), LocalOptions::default())
        .err()
        .unwrap();
    assert!(
        matches!(&refusal, StoreError::UnknownFormat { found, known: 3, .. } if found == "4"),
        "{refusal}"
    );
}

#[test]
fn an_interrupted_creation_starts_over() {
    let original = in_journal();
    let format = original.dir.path().join("ORRERY");
    let text = std::fs::read_to_string(&format)
        .unwrap()
        .replace("ready", "creating");
    std::fs::write(&format, text).unwrap();
    assert_eq!(read(original.dir.path()).unwrap(), (vec![], 0));
    assert!(
        std::fs::read_to_string(&format)
            .unwrap()
            .contains("stage: ready")
    );
}

/// fjall and its libraries decode these bytes before they compare checksums, and would panic twice
/// or ask for gigabytes of memory, which ends the process.
#[test]
fn each_flipped_byte_of_a_list_and_of_the_directory_of_a_table_is_refused_by_name() {
    let original = in_tables();
    let root = original.dir.path();
    let mut cases = Vec::new();
    each_file(&original, |file, length| {
        let is_list = file.file_name().unwrap().to_string_lossy().starts_with('v')
            && file.starts_with("store/keyspaces")
            && !is_old_list(root, file);
        if is_list {
            cases.push((file.to_owned(), 0..length));
        } else if file.parent().unwrap().ends_with("tables") {
            // The trailer ends in the offset and the length of the directory.
            let bytes = std::fs::read(root.join(file)).unwrap();
            let place: [u8; 8] = bytes[length - 16..length - 8].try_into().unwrap();
            cases.push((file.to_owned(), u64::from_le_bytes(place) as usize..length));
        }
    });
    assert!(cases.len() > 4, "lists and tables: {cases:?}");
    for (file, places) in cases {
        let path = root.join(&file);
        for place in places {
            let bit = 1 << (place % 8);
            change(&path, |bytes| bytes[place] ^= bit);
            let refusal = read(root).err().map(|error| error.to_string());
            let is_named = |text: &String| text.contains(&path.display().to_string());
            let is_refused = refusal.as_ref().is_some_and(is_named);
            assert!(
                is_refused,
                "byte {place} of {}: {refusal:?}",
                path.display()
            );
            change(&path, |bytes| bytes[place] ^= bit);
        }
    }
    let (content, lsn) = read(root).unwrap();
    assert!(content == original.content && lsn == original.lsn);
}

/// Returns the number and the bytes of the list of tables of a keyspace.
fn list_of(keyspace: &Path) -> (u64, Vec<u8>) {
    let pointer = std::fs::read(keyspace.join("current")).unwrap();
    let number = u64::from_le_bytes(pointer[..8].try_into().unwrap());
    let list = std::fs::read(keyspace.join(format!("v{number}"))).unwrap();
    (number, list)
}

/// Lets a keyspace point to a list of which only a half was written.
fn point_to_half_a_list(keyspace: &Path) {
    let (number, list) = list_of(keyspace);
    let half = &list[..list.len() / 2];
    std::fs::write(keyspace.join(format!("v{}", number + 1)), half).unwrap();
    change(&keyspace.join("current"), |pointer| {
        pointer[..8].copy_from_slice(&(number + 1).to_le_bytes());
        pointer[8] ^= 1;
    });
}

/// The library gives a list the number of one that failed behind the exchange of the pointer.
#[test]
fn a_list_of_tables_that_was_not_finished_gives_way_to_the_one_before() {
    let original = in_tables();
    let root = original.dir.path();
    for keyspace in ["1", "2"] {
        point_to_half_a_list(&root.join("store/keyspaces").join(keyspace));
    }
    for _ in 0..2 {
        let (content, lsn) = read(root).unwrap();
        assert!(content == original.content && lsn == original.lsn);
    }
}
