//! Files with one whole backup.

use std::path::Path;

use orrery_backup::{BackupError, list, restore, verify};

use crate::support::{START_MS, backup, check_restore, manifests, open, write};

/// Creates a file with a backup of a store with some commits. Returns the bytes of the backup.
fn make(directory: &Path, file: &Path) -> u64 {
    let store = open(&directory.join("data"));
    write(&store, 1, 400);
    write(&store, 2, 100);
    backup(&store, file, START_MS).bytes
}

#[test]
fn a_backup_in_one_file_is_listed_verified_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("far/whole.tar.zst");
    let bytes = make(dir.path(), &file);
    let backups = manifests(&file);
    assert_eq!(backups.len(), 1);
    let id = &*backups[0].id;
    for id in [None, Some(id)] {
        let verified = verify(&file, id, &mut |_| {}).unwrap();
        assert_eq!(verified.restorable, [&*backups[0].id]);
        assert_eq!(verified.bytes, bytes);
        assert_eq!(check_restore(&file, id).manifest, backups[0]);
    }
    assert_eq!(
        std::fs::read_dir(file.parent().unwrap()).unwrap().count(),
        1
    );
    assert!(file.metadata().unwrap().len() < bytes);
}

#[test]
fn a_file_that_was_cut_anywhere_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("whole.tar.zst");
    make(dir.path(), &file);
    let whole = std::fs::read(&file).unwrap();
    let cut = dir.path().join("cut.tar.zst");
    for length in [
        0,
        1,
        100,
        whole.len() / 3,
        whole.len() / 2,
        whole.len() - 2000,
    ] {
        std::fs::write(&cut, &whole[..length]).unwrap();
        let target = dir.path().join(format!("restored-{length}"));
        let errors = [
            list(&cut).err(),
            verify(&cut, None, &mut |_| {}).err(),
            restore(&cut, None, &target, &mut |_| {}).err(),
        ];
        for error in errors {
            let text = error.unwrap().to_string();
            assert!(
                text.contains("cut.tar.zst is cut or damaged"),
                "{length}: {text}"
            );
        }
        assert!(orrery_storage::LocalStore::open(&target, crate::support::options()).is_err());
    }
}

#[test]
fn a_changed_byte_of_a_file_is_found_by_a_check_and_by_a_restore() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("whole.tar.zst");
    make(dir.path(), &file);
    let whole = std::fs::read(&file).unwrap();
    let content_of_whole = zstd::decode_all(&whole[..]).unwrap();
    let changed = dir.path().join("changed.tar.zst");
    for part in 1..20 {
        let mut bytes = whole.clone();
        bytes[whole.len() * part / 20] ^= 0x10;
        // Some bits of a compressed text carry nothing.
        if zstd::decode_all(&bytes[..]).is_ok_and(|content| content == content_of_whole) {
            continue;
        }
        std::fs::write(&changed, &bytes).unwrap();
        let is_whole =
            verify(&changed, None, &mut |_| {}).is_ok_and(|verified| verified.problems.is_empty());
        assert!(!is_whole, "part {part}");
        let target = dir.path().join(format!("restored-{part}"));
        assert!(restore(&changed, None, &target, &mut |_| {}).is_err());
    }
}

#[test]
fn a_file_that_exists_or_is_of_another_kind_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("whole.tar.zst");
    make(dir.path(), &file);
    let store = open(&dir.path().join("data"));
    let options = orrery_backup::CreateOptions::new(START_MS, "1.2.3");
    let refused = orrery_backup::create(&store, &file, &options, &mut |_| {}).unwrap_err();
    assert!(
        matches!(refused, BackupError::TargetExists { .. }),
        "{refused}"
    );
    let refused = verify(&file, Some("x"), &mut |_| {})
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("has no backup 'x'; it has 20261126T174005Z"),
        "{refused}"
    );

    let other = dir.path().join("other.tar.zst");
    std::fs::write(&other, b"something else").unwrap();
    assert!(matches!(
        list(&other),
        Err(BackupError::DamagedArchive { .. })
    ));
    let missing = list(&dir.path().join("missing.tar.zst"))
        .unwrap_err()
        .to_string();
    assert!(missing.contains("there are no backups at"), "{missing}");
}
