//! Repositories: backups under writers, incremental backups, and the removal of old ones.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use orrery_backup::{
    BackupError, CreateOptions, ExtraFile, Progress, Retention, create, prune, verify,
};
use orrery_model::json::Json;
use orrery_model::object;
use orrery_test_wait::wait_for;

use crate::support::{
    MINUTE_MS, START_MS, Writer, backup, check_restore, files_below, manifests, open, tables, write,
};

#[test]
fn backups_under_writers_are_restored_to_the_commits_of_their_heads() {
    let dir = tempfile::tempdir().unwrap();
    let (data, repository) = (dir.path().join("data"), dir.path().join("backups"));
    let store = open(&data);
    let is_stopping = AtomicBool::new(false);
    let answered: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
    let answered_now = || -> Vec<u64> {
        let counts = answered.iter();
        counts.map(|count| count.load(Ordering::SeqCst)).collect()
    };
    std::thread::scope(|scope| {
        for (partition, answered) in (1..).zip(&answered) {
            let (store, is_stopping) = (&store, &is_stopping);
            scope.spawn(move || {
                let mut writer = Writer::open(store, partition);
                while !is_stopping.load(Ordering::SeqCst) {
                    writer.commit();
                    answered.store(writer.lsn, Ordering::SeqCst);
                }
            });
        }
        for round in 1..=4 {
            wait_for("commits", answered_now, |now| {
                now.iter().all(|n| *n > 120 * round)
            });
            let before = answered_now();
            let made = backup(&store, &repository, START_MS + round * MINUTE_MS);
            let newest = manifests(&repository).pop().unwrap();
            assert_eq!(newest.id, made.id);
            // What was answered before the backup is in it.
            for (head, before) in newest.heads.values().zip(before) {
                assert!(*head >= before);
            }
        }
        is_stopping.store(true, Ordering::SeqCst);
    });
    let backups = manifests(&repository);
    assert_eq!(backups.len(), 4);
    for manifest in &backups {
        assert_eq!(
            check_restore(&repository, Some(&manifest.id)).manifest,
            *manifest
        );
    }
    let newest = check_restore(&repository, None);
    assert_eq!(Some(&newest.manifest), backups.last());
}

#[test]
fn a_second_backup_stores_only_new_tables_and_the_files_that_changed() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 1000);
    wait_for("tables", || tables(&store), |(_, bytes)| *bytes > 0);
    let first = backup(&store, &repository, START_MS);
    assert_eq!(first.bytes, first.new_bytes);
    write(&store, 1, 3);
    let second = backup(&store, &repository, START_MS + MINUTE_MS);
    let (known, _) = tables(&store);
    write(&store, 1, 1000);
    let are_new = |(names, _): &(BTreeSet<String>, u64)| !names.is_subset(&known);
    wait_for("new tables", || tables(&store), are_new);
    let third = backup(&store, &repository, START_MS + 2 * MINUTE_MS);

    let mut known: BTreeSet<String> = BTreeSet::new();
    for (manifest, made) in manifests(&repository).iter().zip([&first, &second, &third]) {
        let mut new_bytes = 0;
        let mut new_tables = 0;
        for file in &manifest.files {
            if known.insert(file.sha256.clone()) {
                new_bytes += file.bytes;
                new_tables += u64::from(file.is_table);
            }
        }
        assert_eq!(manifest.new_bytes, new_bytes);
        assert_eq!((made.new_bytes, made.bytes), (new_bytes, manifest.bytes));
        assert_eq!(made.files, manifest.files.len() as u64);
        assert!(new_tables > 0 || made.id == second.id, "{made:?}");
    }
    assert!(second.new_bytes < second.bytes);
    for made in [&first, &second, &third] {
        check_restore(&repository, Some(&made.id));
    }
}

#[test]
fn an_unchanged_table_is_not_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 1000);
    backup(&store, &repository, START_MS);
    // A file that is read is reported piece by piece, one that is not read once.
    let mut reports: Vec<Progress> = Vec::new();
    let options = CreateOptions::new(START_MS + MINUTE_MS, "1.2.3");
    let mut remember = |progress: &Progress| reports.push(progress.clone());
    create(&store, &repository, &options, &mut remember).unwrap();
    let backups = manifests(&repository);
    let mut unchanged = 0;
    for file in backups[1]
        .files
        .iter()
        .filter(|file| backups[0].files.contains(file))
    {
        let count = reports
            .iter()
            .filter(|report| report.file == file.name)
            .count();
        assert!(!file.is_table || count == 1, "{} was read", file.name);
        unchanged += u64::from(file.is_table);
    }
    assert!(unchanged > 0);
    let last = reports.last().unwrap();
    assert_eq!(last.bytes_done, last.bytes_total);
    assert_eq!(last.files_done, last.files_total);
}

#[test]
fn old_backups_are_removed_with_the_contents_that_no_other_needs() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    for round in 0..5 {
        write(&store, 1, 300);
        backup(&store, &repository, START_MS + round * MINUTE_MS);
    }
    let ids: Vec<String> = manifests(&repository).into_iter().map(|m| m.id).collect();
    let bytes_below = |folder: &str| -> u64 {
        let files = files_below(&repository.join(folder));
        files
            .iter()
            .map(|file| file.metadata().unwrap().len())
            .sum()
    };
    let before = bytes_below("objects");
    // The last backup by number, and the last two by age.
    let retention = Retention {
        keep_last: 1,
        keep_within_ms: MINUTE_MS + 1,
        now_ms: START_MS + 4 * MINUTE_MS,
    };
    let pruned = prune(&repository, &retention).unwrap();
    assert_eq!(
        (&pruned.removed[..], &pruned.kept[..]),
        (&ids[..3], &ids[3..])
    );
    assert!(pruned.objects > 0);
    assert_eq!(before - bytes_below("objects"), pruned.bytes);
    let verified = verify(&repository, None, &mut |_| {}).unwrap();
    assert_eq!(verified.restorable, ids[3..]);
    assert!(verified.problems.is_empty());
    assert_eq!(verified.bytes, bytes_below("objects"));
    for id in &ids[3..] {
        check_restore(&repository, Some(id));
    }
    // Nothing is left to remove, and the newest backup stays whatever the rules say.
    let none = Retention {
        keep_last: 0,
        keep_within_ms: 0,
        now_ms: START_MS + 100_000 * MINUTE_MS,
    };
    assert_eq!(prune(&repository, &none).unwrap().removed, ids[3..4]);
    assert_eq!(prune(&repository, &none).unwrap().removed, [""; 0]);
    check_restore(&repository, None);
}

#[test]
fn a_backup_has_what_the_caller_adds_and_backups_of_one_second_have_different_ids() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let key = dir.path().join("key.pem");
    std::fs::write(&key, b"secret").unwrap();
    let store = open(&dir.path().join("data"));
    write(&store, 1, 1);
    let about = Json::Object(object! { "databases" => vec![Json::from("shop")] });
    let options = CreateOptions {
        about: about.clone(),
        extra_files: vec![ExtraFile {
            name: "extra/tls/key.pem".to_owned(),
            path: key,
        }],
        bytes_per_second: 1 << 40,
        ..CreateOptions::new(START_MS, "1.2.3")
    };
    for _ in 0..12 {
        create(&store, &repository, &options, &mut |_| {}).unwrap();
    }
    let backups = manifests(&repository);
    let ids: Vec<&str> = backups
        .iter()
        .map(|manifest| manifest.id.as_str())
        .collect();
    assert_eq!(
        ids[..3],
        [
            "20261126T174005Z",
            "20261126T174005Z-2",
            "20261126T174005Z-3"
        ]
    );
    assert_eq!(ids[11], "20261126T174005Z-12");
    assert_eq!(backups[0].about, about);
    assert_eq!(
        (&*backups[0].program, backups[0].moment_ms),
        ("1.2.3", START_MS)
    );

    let target = dir.path().join("restored");
    let restored = orrery_backup::restore(&repository, Some(ids[0]), &target, &mut |_| {}).unwrap();
    assert_eq!(restored.extra_files, [target.join("extra/tls/key.pem")]);
    assert_eq!(std::fs::read(&restored.extra_files[0]).unwrap(), b"secret");
    crate::support::check_store(&target, &restored.manifest);
}

#[test]
fn a_restored_store_has_a_repository_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 300);
    backup(&store, &repository, START_MS);
    let target = dir.path().join("restored");
    orrery_backup::restore(&repository, None, &target, &mut |_| {}).unwrap();
    // The original may go on: the backups of both in one repository could not be told apart.
    let store = open(&target);
    write(&store, 1, 300);
    let options = CreateOptions::new(START_MS + MINUTE_MS, "1.2.3");
    let refused = create(&store, &repository, &options, &mut |_| {}).unwrap_err();
    assert!(
        matches!(refused, BackupError::OtherStore { .. }),
        "{refused}"
    );
    let own = dir.path().join("own");
    backup(&store, &own, START_MS + MINUTE_MS);
    check_restore(&own, None);
}

#[cfg(unix)]
#[test]
fn all_files_of_backups_and_of_restored_stores_belong_to_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let (repository, target) = (dir.path().join("backups"), dir.path().join("restored"));
    let store = open(&dir.path().join("data"));
    write(&store, 1, 300);
    backup(&store, &repository, START_MS);
    let file = dir.path().join("whole.tar.zst");
    backup(&store, &file, START_MS);
    orrery_backup::restore(&repository, None, &target, &mut |_| {}).unwrap();
    let mut files = files_below(&repository);
    files.extend(files_below(&target));
    files.push(file);
    for path in files {
        let mode = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", path.display());
        let folder = path.parent().unwrap();
        let mode = folder.metadata().unwrap().permissions().mode() & 0o777;
        assert!(
            mode == 0o700 || folder == dir.path(),
            "{}",
            folder.display()
        );
    }
}
