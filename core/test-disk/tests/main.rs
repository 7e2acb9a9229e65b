//! The promises of the simulated disk, on files of their own.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

use orrery_test_disk::{Call, Disk, Failure, Loss};

/// Images of each test: enough for each kind of loss.
const IMAGES: u64 = 200;

/// Returns the contents of a file in each image of a disk, without repetitions; `None` stands for
/// a file that is not there.
fn contents(disk: &Disk, name: &str) -> Vec<Option<Vec<u8>>> {
    let mut found = Vec::new();
    for seed in 0..IMAGES {
        let place = tempfile::tempdir().unwrap();
        let image = disk.image(disk.position(), Loss::Any, seed);
        image.write(place.path()).unwrap();
        let content = fs::read(place.path().join(name)).ok();
        if !found.contains(&content) {
            found.push(content);
        }
    }
    found.sort();
    found
}

fn sync(path: &Path) {
    File::open(path).unwrap().sync_all().unwrap();
}

/// Creates a file that is durable with its name.
fn durable(directory: &Path, name: &str, bytes: &[u8]) -> File {
    let mut file = File::create(directory.join(name)).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
    sync(directory);
    file
}

#[test]
fn a_file_is_durable_when_it_and_its_directory_are_synced() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::record(place.path()).unwrap();
    let mut file = File::create(place.path().join("a")).unwrap();
    file.write_all(b"text").unwrap();
    file.sync_all().unwrap();
    // The name was not synced.
    assert_eq!(contents(&disk, "a"), [None, Some(b"text".to_vec())]);
    sync(place.path());
    assert_eq!(contents(&disk, "a"), [Some(b"text".to_vec())]);
    disk.check_record().unwrap();
}

#[test]
fn any_beginning_of_a_write_that_was_not_synced_may_be_kept() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::record(place.path()).unwrap();
    let mut file = durable(place.path(), "a", b"1");
    file.write_all(b"23").unwrap();
    let kept = [&b"1"[..], b"12", b"123"].map(|bytes| Some(bytes.to_vec()));
    assert_eq!(contents(&disk, "a"), kept);
    file.sync_data().unwrap();
    assert_eq!(contents(&disk, "a"), [Some(b"123".to_vec())]);
    disk.check_record().unwrap();
}

#[test]
fn pages_may_be_kept_out_of_order_and_lost_ones_are_zeros() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::record(place.path()).unwrap();
    let mut file = durable(place.path(), "a", b"");
    file.write_all(&[b'x'; 8192]).unwrap();
    let is_hole = |bytes: &[u8]| bytes.len() == 8192 && bytes[0] == 0 && bytes[8191] == b'x';
    let found = contents(&disk, "a");
    assert!(found.iter().flatten().any(|bytes| is_hole(bytes)));
    disk.check_record().unwrap();
}

#[test]
fn a_rename_is_one_step_and_durable_with_its_directory() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::record(place.path()).unwrap();
    durable(place.path(), "a", b"old");
    durable(place.path(), "draft", b"new");
    fs::rename(place.path().join("draft"), place.path().join("a")).unwrap();
    let both = [&b"new"[..], b"old"].map(|bytes| Some(bytes.to_vec()));
    // A change of a name is found at the next sync.
    sync(&place.path().join("a"));
    assert_eq!(contents(&disk, "a"), both);
    sync(place.path());
    assert_eq!(contents(&disk, "a"), both[..1]);
    assert_eq!(contents(&disk, "draft"), [None]);
    disk.check_record().unwrap();
}

#[test]
fn a_sync_that_failed_is_not_made_up_for_by_the_next_one() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::record(place.path()).unwrap();
    let mut file = durable(place.path(), "a", b"");
    file.write_all(b"1").unwrap();
    disk.fail(Failure {
        call: Call::Sync,
        after: 0,
        times: 1,
        error: 5,
    });
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
    file.sync_data().unwrap();
    // The length is durable, since each sync writes it.
    let maybe = [&b"\0"[..], b"1"].map(|bytes| Some(bytes.to_vec()));
    assert_eq!(contents(&disk, "a"), maybe);
    assert_eq!(disk.failures(), 1);
    // What is written again is durable, and nothing older comes back.
    file.write_all_at(b"2", 0).unwrap();
    file.sync_data().unwrap();
    assert_eq!(contents(&disk, "a"), [Some(b"2".to_vec())]);
    file.write_all(b"3456").unwrap();
    disk.fail(Failure {
        call: Call::Sync,
        after: 0,
        times: 1,
        error: 5,
    });
    assert!(file.sync_data().is_err());
    file.set_len(1).unwrap();
    file.sync_data().unwrap();
    assert_eq!(contents(&disk, "a"), [Some(b"2".to_vec())]);
    disk.check_record().unwrap();
}

#[test]
fn writes_fail_as_arranged_and_leave_no_byte() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::record(place.path()).unwrap();
    let mut file = durable(place.path(), "a", b"");
    disk.fail(Failure {
        call: Call::Write,
        after: 1,
        times: 2,
        error: 28,
    });
    file.write_all(b"1").unwrap();
    let full = file.write_all(b"2").unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(file.set_len(0).unwrap_err().raw_os_error(), Some(28));
    file.write_all(b"3").unwrap();
    file.sync_data().unwrap();
    assert_eq!(contents(&disk, "a"), [Some(b"13".to_vec())]);
    disk.check_record().unwrap();
}

/// Every way in which the standard library writes is recorded.
#[test]
fn the_record_is_complete() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    fs::write(root.join("before"), b"before the record").unwrap();
    let disk = Disk::record(root).unwrap();
    fs::create_dir(root.join("folder")).unwrap();
    let file = durable(&root.join("folder"), "a", &[1; 10_000]);
    file.write_all_at(&[2; 100], 4_090).unwrap();
    file.set_len(5_000).unwrap();
    file.set_len(90_000).unwrap();
    let mut options = OpenOptions::new();
    let mut end = options.append(true).open(root.join("before")).unwrap();
    end.write_all(b", and after").unwrap();
    let parts = [std::io::IoSlice::new(b"1"), std::io::IoSlice::new(b"23")];
    assert_eq!(end.write_vectored(&parts).unwrap(), 3);
    fs::hard_link(root.join("before"), root.join("folder/linked")).unwrap();
    // A copy may be made inside of the kernel.
    fs::copy(root.join("folder/a"), root.join("copy")).unwrap();
    fs::write(root.join("before-truncation"), [3; 5_000]).unwrap();
    File::create(root.join("before-truncation"))
        .unwrap()
        .write_all(b"4")
        .unwrap();
    fs::remove_file(root.join("before")).unwrap();
    fs::create_dir(root.join("gone")).unwrap();
    fs::write(root.join("gone/a"), b"5").unwrap();
    fs::remove_dir_all(root.join("gone")).unwrap();
    disk.check_record().unwrap();
}

#[test]
fn a_flipped_bit_is_in_one_file() {
    let place = tempfile::tempdir().unwrap();
    let disk = Disk::record(place.path()).unwrap();
    durable(place.path(), "a", b"text");
    durable(place.path(), "empty", b"");
    let mut image = disk.image(disk.position(), Loss::Nothing, 0);
    assert_eq!(image.flip_bit(1), Some("a".into()));
    let target = tempfile::tempdir().unwrap();
    image.write(target.path()).unwrap();
    let flipped = fs::read(target.path().join("a")).unwrap();
    let bits = flipped
        .iter()
        .zip(b"text")
        .map(|(a, b)| (a ^ b).count_ones());
    assert_eq!(bits.sum::<u32>(), 1, "{flipped:?}");
    assert!(!image.has_holes());
}
