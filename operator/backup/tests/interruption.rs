//! Interrupted backups and restores: what they leave is never taken for a backup or a store.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use orrery_backup::{
    BackupError, CreateOptions, Progress, Retention, UNFINISHED_FILE, create, list, prune, restore,
    verify,
};
use orrery_storage::{LocalStore, Store};

use crate::support::{
    MINUTE_MS, START_MS, backup, check_restore, copy_folder, files_below, manifests, open, options,
    write,
};

/// Returns the temporary files of a repository.
fn temporary_files(repository: &Path) -> usize {
    let files = files_below(repository);
    let names = files
        .iter()
        .map(|file| file.file_name().unwrap().to_string_lossy());
    names
        .filter(|name| name.starts_with("tmp-") || name.ends_with(".new"))
        .count()
}

#[test]
fn a_backup_that_is_killed_at_any_file_leaves_no_backup_and_the_next_one_uses_what_it_copied() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 300);
    // The folder as it is at each report is what a kill at this moment leaves.
    let mut states = Vec::new();
    let options = CreateOptions::new(START_MS, "1.2.3");
    create(&store, &repository, &options, &mut |_| {
        let state = dir.path().join(format!("state-{}", states.len()));
        copy_folder(&repository, &state);
        states.push(state);
    })
    .unwrap();
    assert!(states.iter().any(|state| temporary_files(state) > 0));
    for state in &states {
        assert!(list(state).unwrap().backups.is_empty());
        assert!(matches!(
            verify(state, None, &mut |_| {}),
            Err(BackupError::NoBackups { .. })
        ));
        let target = state.with_extension("restored");
        let refused = restore(state, None, &target, &mut |_| {}).unwrap_err();
        assert!(
            matches!(refused, BackupError::NoBackups { .. }),
            "{refused}"
        );
        assert!(!target.exists());
    }
    for state in [
        &states[0],
        &states[states.len() / 2],
        &states[states.len() - 1],
    ] {
        // Objects have the SHA-256 of their content as their names.
        let mut copied = BTreeSet::new();
        for file in files_below(&state.join("objects")) {
            copied.insert(file.file_name().unwrap().to_string_lossy().into_owned());
        }
        let made = backup(&store, state, START_MS + MINUTE_MS);
        let mut new_bytes = 0;
        for file in manifests(state).pop().unwrap().files {
            if copied.insert(file.sha256) {
                new_bytes += file.bytes;
            }
        }
        assert_eq!(made.new_bytes, new_bytes);
        assert_eq!(temporary_files(state), 0);
        check_restore(state, None);
    }
}

#[test]
fn a_cancelled_backup_leaves_a_usable_repository_and_no_links() {
    let dir = tempfile::tempdir().unwrap();
    let (data, repository) = (dir.path().join("data"), dir.path().join("backups"));
    let store = open(&data);
    write(&store, 1, 300);
    let first = backup(&store, &repository, START_MS);
    write(&store, 1, 300);
    for target in [&repository, &dir.path().join("whole.tar.zst")] {
        let is_cancelled = AtomicBool::new(false);
        let options = CreateOptions {
            is_cancelled: Some(&is_cancelled),
            ..CreateOptions::new(START_MS + MINUTE_MS, "1.2.3")
        };
        let mut cancel = |progress: &Progress| {
            is_cancelled.store(progress.files_done >= 2, Ordering::SeqCst);
        };
        let refused = create(&store, target, &options, &mut cancel).unwrap_err();
        assert!(matches!(refused, BackupError::Cancelled), "{refused}");
    }
    assert!(!data.join("checkpoints").exists());
    assert_eq!(temporary_files(dir.path()), 0);
    assert_eq!(manifests(&repository).pop().unwrap().id, first.id);
    // What the cancelled run copied, and nothing needs, is removed by the next prune.
    let retention = Retention {
        keep_last: 1,
        keep_within_ms: 0,
        now_ms: START_MS,
    };
    prune(&repository, &retention).unwrap();
    let verified = verify(&repository, None, &mut |_| {}).unwrap();
    assert_eq!(
        verified.objects,
        files_below(&repository.join("objects")).len() as u64
    );
    check_restore(&repository, None);
}

/// A link that another user lays at the name of a temporary file is not followed.
#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_temporary_file_is_not_followed() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    let (repository, file) = (dir.path().join("backups"), dir.path().join("whole.tar.zst"));
    let store = open(&dir.path().join("data"));
    write(&store, 1, 300);
    std::os::unix::fs::symlink(&victim, dir.path().join("whole.tar.zst.new")).unwrap();
    let mut lay = |_: &Progress| {
        for number in 0..100 {
            let name = format!("objects/tmp-{}-{number}", std::process::id());
            // A name that exists is one that is being written.
            let _ = std::os::unix::fs::symlink(&victim, repository.join(name));
        }
    };
    let options = CreateOptions::new(START_MS, "1.2.3");
    create(&store, &repository, &options, &mut lay).unwrap();
    create(&store, &file, &options, &mut |_| {}).unwrap();
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    check_restore(&repository, None);
    check_restore(&file, None);
    assert!(!file.symlink_metadata().unwrap().is_symlink());
}

/// A damaged object is written anew by the next backup that reads its file, or that misses it.
#[test]
fn a_damaged_object_is_replaced_by_the_next_backup() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 10);
    backup(&store, &repository, START_MS);
    for object in files_below(&repository.join("objects")) {
        let mut bytes = std::fs::read(&object).unwrap();
        if let Some(byte) = bytes.first_mut() {
            *byte ^= 1;
        }
        std::fs::write(&object, bytes).unwrap();
    }
    // Files that change are read anyway; a table that is the same is read if its object is gone.
    backup(&store, &repository, START_MS + MINUTE_MS);
    let verified = verify(&repository, None, &mut |_| {}).unwrap();
    for problem in &verified.problems {
        let tables = problem.needed_by.values().flatten();
        assert!(
            tables.clone().all(|file| file.contains("/tables/")),
            "{problem:?}"
        );
        std::fs::remove_file(&problem.path).unwrap();
    }
    backup(&store, &repository, START_MS + 2 * MINUTE_MS);
    let verified = verify(&repository, None, &mut |_| {}).unwrap();
    assert_eq!(verified.restorable.len(), 3, "{:?}", verified.problems);
}

/// A clock that is set back gives no backup that is older than the one before.
#[test]
fn the_last_backup_is_the_newest_whatever_the_clock_says() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    let mut ids = Vec::new();
    for (commits, now_ms) in [(1, START_MS + MINUTE_MS), (2, START_MS), (3, START_MS)] {
        write(&store, 1, commits);
        ids.push(backup(&store, &repository, now_ms).id);
    }
    let listed: Vec<String> = manifests(&repository)
        .into_iter()
        .map(|one| one.id)
        .collect();
    assert_eq!(listed, ids);
    let newest = check_restore(&repository, None).manifest;
    assert_eq!(newest.heads.values().copied().collect::<Vec<_>>(), [6]);
}

#[test]
fn a_target_that_vanishes_midway_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (repository, gone) = (dir.path().join("backups"), dir.path().join("gone"));
    let store = open(&dir.path().join("data"));
    write(&store, 1, 300);
    let mut vanish = |progress: &Progress| {
        if progress.files_done == 3 && repository.exists() {
            std::fs::rename(&repository, &gone).unwrap();
        }
    };
    let options = CreateOptions::new(START_MS, "1.2.3");
    let refused = create(&store, &repository, &options, &mut vanish)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains(&*repository.to_string_lossy()),
        "{refused}"
    );
    assert!(refused.contains("its disk is mounted"), "{refused}");
    backup(&store, &gone, START_MS);
    check_restore(&gone, None);
}

#[test]
fn an_interrupted_restore_is_neither_opened_nor_continued() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 300);
    backup(&store, &repository, START_MS);
    let target = dir.path().join("restored");
    let mut states = Vec::new();
    restore(&repository, None, &target, &mut |_| {
        let state = dir.path().join(format!("state-{}", states.len()));
        copy_folder(&target, &state);
        states.push(state);
    })
    .unwrap();
    assert!(!target.join(UNFINISHED_FILE).exists());
    assert!(open(&target).checkpoint().unwrap().is_some());
    for state in states {
        assert!(state.join(UNFINISHED_FILE).exists());
        assert!(LocalStore::open(&state, options()).is_err());
        let refused = restore(&repository, None, &state, &mut |_| {})
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("did not finish; delete this directory"),
            "{refused}"
        );
    }
}
