//! Damaged and missing contents: found and named by a check, and never restored.

use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use orrery_backup::{BackupError, CreateOptions, Fault, Retention, create, prune, restore, verify};
use orrery_storage::{Direction, LocalStore, PartitionId, Store};

use crate::support::{
    MINUTE_MS, START_MS, backup, check_restore, files_below, flip, manifests, open, options,
    rewrite, write,
};

/// Creates a repository with three backups.
fn make(directory: &Path) -> std::path::PathBuf {
    let repository = directory.join("backups");
    let store = open(&directory.join("data"));
    for round in 0..3 {
        write(&store, 1, 250);
        backup(&store, &repository, START_MS + round * MINUTE_MS);
    }
    repository
}

#[test]
fn a_check_names_each_bad_content_with_the_backups_and_files_that_need_it() {
    let dir = tempfile::tempdir().unwrap();
    let repository = make(dir.path());
    let backups = manifests(&repository);
    // A content that only the newest backup has, and one that all have.
    let journal = backups[2]
        .files
        .iter()
        .find(|file| file.name.ends_with(".jnl"))
        .unwrap();
    let everywhere = |hash: &str| {
        let has = |files: &[orrery_backup::ManifestFile]| files.iter().any(|f| f.sha256 == hash);
        backups.iter().all(|backup| has(&backup.files))
    };
    let shared = backups[0].files.iter();
    let shared = shared
        .filter(|file| file.bytes > 0)
        .find(|file| everywhere(&file.sha256));
    let shared = shared.unwrap();
    let object = |hash: &str| repository.join("objects").join(&hash[..2]).join(hash);

    flip(&object(&journal.sha256), 12_345);
    let verified = verify(&repository, None, &mut |_| {}).unwrap();
    assert_eq!(verified.problems.len(), 1);
    let problem = &verified.problems[0];
    assert_eq!(
        (&problem.path, &problem.fault),
        (&object(&journal.sha256), &Fault::Damaged)
    );
    let needed_by: Vec<_> = problem.needed_by.iter().collect();
    assert_eq!(needed_by, [(&backups[2].id, &vec![journal.name.clone()])]);
    assert_eq!(verified.restorable, [&*backups[0].id, &*backups[1].id]);

    let target = dir.path().join("restored");
    let refused = restore(&repository, None, &target, &mut |_| {}).unwrap_err();
    let text = refused.to_string();
    assert!(
        matches!(refused, BackupError::DamagedObject { .. }),
        "{text}"
    );
    assert!(
        text.contains(&journal.name) && text.contains(&journal.sha256),
        "{text}"
    );
    assert!(
        text.contains(&format!("restore {}, the newest other", backups[1].id)),
        "{text}"
    );
    check_restore(&repository, Some(&backups[1].id));

    std::fs::remove_file(object(&shared.sha256)).unwrap();
    let verified = verify(&repository, None, &mut |_| {}).unwrap();
    assert_eq!(verified.problems.len(), 2);
    let is_missing = |problem: &&orrery_backup::Problem| problem.fault == Fault::Missing;
    let problem = verified.problems.iter().find(is_missing).unwrap();
    assert_eq!(problem.needed_by.len(), 3);
    assert_eq!(verified.restorable, [""; 0]);
    let target = dir.path().join("restored-2");
    let refused = restore(&repository, Some(&backups[1].id), &target, &mut |_| {});
    let text = refused.unwrap_err().to_string();
    assert!(
        text.contains("is missing; no other backup here is whole"),
        "{text}"
    );
}

#[test]
fn any_changed_byte_of_any_content_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let repository = make(dir.path());
    let newest = manifests(&repository).pop().unwrap();
    for (i, file) in newest
        .files
        .iter()
        .filter(|file| file.bytes > 0)
        .enumerate()
    {
        let object = repository
            .join("objects")
            .join(&file.sha256[..2])
            .join(&file.sha256);
        let at = i * 7919;
        flip(&object, at);
        let verified = verify(&repository, Some(&newest.id), &mut |_| {}).unwrap();
        assert_eq!(verified.problems.len(), 1, "{}", file.name);
        assert_eq!(verified.restorable, [""; 0]);
        let target = dir.path().join(format!("restored-{i}"));
        assert!(restore(&repository, Some(&newest.id), &target, &mut |_| {}).is_err());
        assert!(LocalStore::open(&target, options()).is_err());
        flip(&object, at);
    }
    check_restore(&repository, None);
}

#[test]
fn a_cut_content_is_written_again_by_the_next_backup() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 500);
    backup(&store, &repository, START_MS);
    let newest = manifests(&repository).pop().unwrap();
    let tables = newest.files.iter().filter(|file| file.is_table);
    let table = tables.max_by_key(|table| table.bytes).unwrap();
    let object = repository
        .join("objects")
        .join(&table.sha256[..2])
        .join(&table.sha256);
    std::fs::OpenOptions::new()
        .write(true)
        .open(&object)
        .unwrap()
        .set_len(10)
        .unwrap();
    assert_eq!(
        verify(&repository, None, &mut |_| {})
            .unwrap()
            .problems
            .len(),
        1
    );
    let again = backup(&store, &repository, START_MS + MINUTE_MS);
    assert!(again.new_bytes >= table.bytes);
    assert!(
        verify(&repository, None, &mut |_| {})
            .unwrap()
            .problems
            .is_empty()
    );
}

#[test]
fn a_damaged_manifest_is_listed_as_such_and_keeps_everything_from_being_removed() {
    let dir = tempfile::tempdir().unwrap();
    let repository = make(dir.path());
    let backups = manifests(&repository);
    let manifest = repository
        .join("backups")
        .join(format!("{}.json", backups[1].id));
    let text = std::fs::read(&manifest).unwrap();
    flip(&manifest, 200);
    let listing = orrery_backup::list(&repository).unwrap();
    assert_eq!(listing.backups.len(), 2);
    assert_eq!(listing.unreadable[0].id, backups[1].id);
    let verified = verify(&repository, None, &mut |_| {}).unwrap();
    assert_eq!(
        (verified.restorable.len(), verified.unreadable.len()),
        (2, 1)
    );
    check_restore(&repository, None);
    let target = dir.path().join("restored");
    let refused = restore(&repository, Some(&backups[1].id), &target, &mut |_| {}).unwrap_err();
    assert!(
        matches!(refused, BackupError::DamagedManifest { .. }),
        "{refused}"
    );
    // The newest backup is never replaced by an older one silently.
    let newest = manifest.with_file_name(format!("{}.json", backups[2].id));
    flip(&newest, 200);
    let refused = restore(&repository, None, &target, &mut |_| {}).unwrap_err();
    assert!(
        matches!(refused, BackupError::DamagedManifest { .. }),
        "{refused}"
    );
    flip(&newest, 200);
    let retention = Retention {
        keep_last: 1,
        keep_within_ms: 0,
        now_ms: START_MS,
    };
    let refused = prune(&repository, &retention).unwrap_err().to_string();
    assert!(
        refused.contains(&backups[1].id) && refused.contains("delete it to give up"),
        "{refused}"
    );
    assert_eq!(orrery_backup::list(&repository).unwrap().backups.len(), 2);

    // A manifest of another version of the store can be listed and checked, and not restored.
    std::fs::write(&manifest, text).unwrap();
    for (format, expected) in [
        (99, "a server older than the backup"),
        (1, "knows format 3 only"),
    ] {
        rewrite(&manifest, |members| members.set("storeFormat", format));
        let refused = restore(&repository, Some(&backups[1].id), &target, &mut |_| {});
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains(expected) && text.contains("version 1.2.3"),
            "{text}"
        );
    }
    assert!(!target.exists());
}

/// Reads a partition up to the first error. Returns true if there was one.
fn meets_damage(store: &LocalStore) -> bool {
    let snapshot = store.snapshot(PartitionId(1)).unwrap();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    snapshot
        .scan(everything, Direction::Forward)
        .any(|row| row.is_err())
}

#[cfg(unix)]
#[test]
fn a_table_whose_block_is_taken_out_while_it_is_copied_is_not_taken_for_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (data, repository) = (dir.path().join("data"), dir.path().join("backups"));
    let store = open(&data);
    write(&store, 1, 500);
    drop(store);
    let tables = files_below(&data.join("store/keyspaces/1/tables")).into_iter();
    let damaged = tables.max_by_key(|table| table.metadata().unwrap().len());
    let damaged = damaged.unwrap();
    let at = damaged.metadata().unwrap().len() as usize / 2;
    flip(&damaged, at);
    let store = open(&data);
    let (sender, receiver) = std::sync::mpsc::channel();
    store.report_damage(Box::new(move |damage| {
        // The test waits for the first report only.
        let _ = sender.send(damage.clone());
    }));
    // The block is found and sealed once the first piece of its table is read.
    let mut is_found = false;
    let options = CreateOptions::new(START_MS, "1.2.3");
    let created = create(&store, &repository, &options, &mut |progress| {
        if !is_found && damaged.ends_with(&progress.file) {
            assert!(meets_damage(&store));
            receiver.recv_timeout(Duration::from_secs(60)).unwrap();
            is_found = true;
        }
    });
    let refused = created.unwrap_err().to_string();
    assert!(
        refused.contains("a damaged block was taken out of it meanwhile"),
        "{refused}"
    );
    assert!(orrery_backup::list(&repository).unwrap().backups.is_empty());

    // The next backup has the table as it is now, with the record of the damage.
    backup(&store, &repository, START_MS);
    let target = dir.path().join("restored");
    restore(&repository, None, &target, &mut |_| {}).unwrap();
    let restored = open(&target);
    assert_eq!(restored.damage().len(), 1);
    assert!(meets_damage(&restored));
}
