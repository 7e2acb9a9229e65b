//! Interrupted backups and restores: what they leave is never taken for a backup or a store.

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
    let whole = manifests(&repository).pop().unwrap();
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
        let copied: u64 = files_below(&state.join("objects"))
            .iter()
            .filter(|file| !file.to_string_lossy().contains("tmp-"))
            .map(|file| file.metadata().unwrap().len())
            .sum();
        let made = backup(&store, state, START_MS + MINUTE_MS);
        assert!(
            made.new_bytes + copied <= whole.bytes + 4096,
            "{copied} bytes were there"
        );
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

#[cfg(target_os = "linux")]
#[test]
fn a_full_target_is_named_and_the_repository_stays_usable() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 300);
    // The next temporary files are written to a device that is always full.
    let mut fill = |progress: &Progress| {
        for number in 0..100 {
            let name = format!("objects/tmp-{}-{number}", std::process::id());
            if progress.files_done >= 2 {
                // A name that exists is one that is being written.
                let _ = std::os::unix::fs::symlink("/dev/full", repository.join(name));
            }
        }
    };
    let options = CreateOptions::new(START_MS, "1.2.3");
    let refused = create(&store, &repository, &options, &mut fill)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("cannot write") && refused.contains("free space there"),
        "{refused}"
    );
    assert!(
        refused.contains(&*repository.to_string_lossy()),
        "{refused}"
    );
    assert!(list(&repository).unwrap().backups.is_empty());
    backup(&store, &repository, START_MS);
    assert_eq!(temporary_files(&repository), 0);
    check_restore(&repository, None);
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
