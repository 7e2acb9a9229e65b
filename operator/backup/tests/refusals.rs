//! Refusals: each names the path and what to do next, and changes nothing.

use orrery_backup::{
    BackupError, CreateOptions, ExtraFile, Retention, create, list, prune, restore, verify,
};
use orrery_storage::MemoryStore;

use crate::support::{START_MS, backup, files_below, manifests, open, rewrite, write};

#[test]
fn a_store_without_files_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let options = CreateOptions::new(START_MS, "1.2.3");
    for target in ["backups", "whole.tar.zst"] {
        let target = dir.path().join(target);
        let refused = create(&MemoryStore::new(), &target, &options, &mut |_| {}).unwrap_err();
        assert!(matches!(refused, BackupError::NoFiles), "{refused}");
        assert!(target.is_dir() || !target.exists());
    }
}

#[test]
fn a_repository_takes_the_backups_of_one_store() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    backup(&open(&dir.path().join("one")), &repository, START_MS);
    let options = CreateOptions::new(START_MS, "1.2.3");
    let other = open(&dir.path().join("other"));
    let refused = create(&other, &repository, &options, &mut |_| {}).unwrap_err();
    assert!(
        matches!(refused, BackupError::OtherStore { .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("name another folder"),
        "{refused}"
    );
    assert_eq!(manifests(&repository).len(), 1);
}

#[test]
fn two_processes_do_not_change_a_repository_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let file = dir.path().join("whole.tar.zst");
    let store = open(&dir.path().join("data"));
    let options = CreateOptions::new(START_MS, "1.2.3");
    let retention = Retention {
        keep_last: 1,
        keep_within_ms: 0,
        now_ms: START_MS,
    };
    let holder = format!("process {}; wait", std::process::id());
    create(&store, &repository, &options, &mut |_| {
        let refused = create(&store, &repository, &options, &mut |_| {}).unwrap_err();
        assert!(refused.to_string().contains(&holder), "{refused}");
        let refused = prune(&repository, &retention).unwrap_err();
        assert!(matches!(refused, BackupError::Locked { .. }), "{refused}");
    })
    .unwrap();
    create(&store, &file, &options, &mut |_| {
        let refused = create(&store, &file, &options, &mut |_| {}).unwrap_err();
        assert!(matches!(refused, BackupError::Locked { .. }), "{refused}");
    })
    .unwrap();
    assert_eq!(
        (manifests(&repository).len(), manifests(&file).len()),
        (1, 1)
    );
}

#[test]
fn an_unknown_id_is_refused_with_the_ids_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    backup(&store, &repository, START_MS);
    backup(&store, &repository, START_MS);
    let target = dir.path().join("restored");
    let id = Some("20200101T000000Z");
    for refused in [
        restore(&repository, id, &target, &mut |_| {}).err(),
        verify(&repository, id, &mut |_| {}).err(),
    ] {
        let refused = refused.unwrap().to_string();
        let expected = "no backup '20200101T000000Z'; it has 20261126T174005Z, 20261126T174005Z-2";
        assert!(refused.contains(expected), "{refused}");
    }
    assert!(!target.exists());
}

#[test]
fn a_folder_that_is_no_repository_is_refused_and_stays_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("data"));
    let options = CreateOptions::new(START_MS, "1.2.3");
    let folder = dir.path().join("pictures");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("cat.jpg"), b"cat").unwrap();
    let refusals = [
        create(&store, &folder, &options, &mut |_| {}).err(),
        list(&folder).err(),
        verify(&folder, None, &mut |_| {}).err(),
    ];
    for refused in refusals {
        let refused = refused.unwrap().to_string();
        assert!(refused.contains("it holds cat.jpg"), "{refused}");
    }
    assert_eq!(files_below(&folder), [folder.join("cat.jpg")]);
    let missing = list(&dir.path().join("missing")).unwrap_err().to_string();
    assert!(missing.contains("there are no backups at"), "{missing}");

    // The root of a disk has a folder of the file system.
    std::fs::create_dir_all(dir.path().join("disk/lost+found")).unwrap();
    backup(&store, &dir.path().join("disk"), START_MS);
}

#[test]
fn a_repository_or_backup_of_a_newer_version_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    backup(&store, &repository, START_MS);
    let id = manifests(&repository)[0].id.clone();
    let manifest = repository.join("backups").join(format!("{id}.json"));
    let target = dir.path().join("restored");
    rewrite(&manifest, |members| members.set("format", 2));
    let refused = restore(&repository, Some(&id), &target, &mut |_| {}).unwrap_err();
    assert!(
        refused.to_string().contains("made by a newer version"),
        "{refused}"
    );
    let retention = Retention {
        keep_last: 1,
        keep_within_ms: 0,
        now_ms: START_MS,
    };
    assert!(matches!(
        prune(&repository, &retention),
        Err(BackupError::NewerFormat { .. })
    ));

    rewrite(&repository.join("orrery-backups.json"), |members| {
        members.set("format", 2)
    });
    let options = CreateOptions::new(START_MS, "1.2.3");
    for refused in [
        list(&repository).err(),
        create(&store, &repository, &options, &mut |_| {}).err(),
        prune(&repository, &retention).err(),
    ] {
        let refused = refused.unwrap();
        assert!(
            matches!(refused, BackupError::NewerFormat { .. }),
            "{refused}"
        );
    }
}

#[test]
fn a_directory_with_files_is_no_target_of_a_restore_and_an_empty_one_is() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    write(&store, 1, 10);
    backup(&store, &repository, START_MS);
    let target = dir.path().join("restored");
    std::fs::create_dir(&target).unwrap();
    std::fs::write(target.join("note"), b"note").unwrap();
    let refused = restore(&repository, None, &target, &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("is not empty (it holds note)"),
        "{refused}"
    );
    std::fs::remove_file(target.join("note")).unwrap();
    let restored = restore(&repository, None, &target, &mut |_| {}).unwrap();
    crate::support::check_store(&target, &restored.manifest);
}

#[test]
fn extra_files_with_bad_names_or_without_a_file_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let repository = dir.path().join("backups");
    let store = open(&dir.path().join("data"));
    for (name, path, expected) in [
        ("ORRERY", "key", "'ORRERY' is no name for an extra file"),
        ("extra/../ORRERY", "key", "is no name for an extra file"),
        ("extra/key", "missing", "missing"),
    ] {
        let options = CreateOptions {
            extra_files: vec![ExtraFile {
                name: name.to_owned(),
                path: dir.path().join(path),
            }],
            ..CreateOptions::new(START_MS, "1.2.3")
        };
        let refused = create(&store, &repository, &options, &mut |_| {})
            .unwrap_err()
            .to_string();
        assert!(refused.contains(expected), "{refused}");
    }
    backup(&store, &repository, START_MS);
}
