//! The contract of places, shown for a folder and for a bucket in memory, and what only the lock of
//! a bucket promises.

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::memory::InMemory;
use orrery_test_wait::wait_for;
use tempfile::TempDir;

use super::bucket::Bucket;
use super::folder::Folder;
use super::lease::Times;
use super::{Place, is_remote, object_name, place_at};
use crate::error::BackupError;
use crate::files::sha256;
use crate::sink::SourceFile;

/// Times with which no lock ends in a test.
const LONG: Times = Times {
    renewal: Duration::from_secs(3_600),
    expiry: Duration::from_secs(3_600),
    trust: Duration::from_secs(3_600),
    look: Duration::from_millis(1),
};

fn bucket(store: &Arc<InMemory>, prefix: &str, times: Times) -> Bucket {
    let path = format!("s3://shop/{prefix}");
    let store: Arc<dyn ObjectStore> = store.clone();
    Bucket::new(Path::new(&path), prefix, store, times)
}

/// Calls a test with a place of each kind. The folder of the file system is for source files.
fn for_each_place(test: impl Fn(&dyn Place, &Path)) {
    let dir = TempDir::new().unwrap();
    test(&Folder::new(&dir.path().join("place")), dir.path());
    for prefix in ["", "backups/of_the-shop"] {
        test(&bucket(&Arc::default(), prefix, LONG), dir.path());
    }
}

fn names_below(place: &dyn Place, folder: &str) -> Vec<String> {
    let files = place.files(folder).unwrap().into_iter();
    files
        .map(|file| format!("{} {}", file.name, file.bytes))
        .collect()
}

fn content_of(place: &dyn Place, name: &str) -> Result<Vec<u8>, std::io::ErrorKind> {
    let mut content = Vec::new();
    let read = place.open(name).read_to_end(&mut content);
    read.map(|_| content).map_err(|error| error.kind())
}

/// Adds a content of which the file has `bytes`.
fn add(place: &dyn Place, dir: &Path, content: &[u8], bytes: u64) -> Result<String, BackupError> {
    let path = dir.join("source");
    std::fs::write(&path, content).unwrap();
    let file = SourceFile {
        name: "store/1.jnl",
        path: &path,
        bytes,
        identity: None,
    };
    let mut source = std::fs::File::open(&path).unwrap().take(bytes);
    let mut counted = 0;
    let added = place.add_object(&file, &mut source, 1_000, &mut |bytes| {
        counted += bytes;
        Ok(())
    })?;
    assert_eq!(counted, bytes);
    assert_eq!(added.bytes, bytes);
    Ok(added.sha256)
}

#[test]
fn files_are_written_listed_read_and_removed() {
    for_each_place(|place, _| {
        assert_eq!(place.names().unwrap(), None);
        assert_eq!(place.read("a.json").unwrap(), None);
        assert_eq!(
            content_of(place, "a.json"),
            Err(std::io::ErrorKind::NotFound)
        );

        for folder in ["", "log/2", "log/10"] {
            place.create_folder(folder).unwrap();
        }
        place.write("a.json", b"first").unwrap();
        place.write("a.json", b"second").unwrap();
        place.write("log/2/b", b"22").unwrap();
        place.write("log/10/c", b"").unwrap();
        place.write("log/2/a", b"1").unwrap();
        assert_eq!(place.names().unwrap().unwrap(), ["a.json", "log"]);
        assert_eq!(place.read("a.json").unwrap().unwrap(), b"second");
        assert_eq!(content_of(place, "log/2/b").unwrap(), b"22");
        // In order of their names, with their bytes.
        assert_eq!(names_below(place, "log"), ["10/c 0", "2/a 1", "2/b 2"]);
        assert_eq!(names_below(place, "log/2"), ["a 1", "b 2"]);
        // A name that begins as the folder does is not in the folder.
        place.create_folder("log2").unwrap();
        place.write("log2/a", b"").unwrap();
        assert_eq!(names_below(place, "log"), ["10/c 0", "2/a 1", "2/b 2"]);

        place.remove("log", &["2/a".to_owned()]).unwrap();
        assert_eq!(names_below(place, "log"), ["10/c 0", "2/b 2"]);
        place.remove_folder("log").unwrap();
        assert_eq!(names_below(place, "log"), Vec::<String>::new());
        assert_eq!(place.names().unwrap().unwrap(), ["a.json", "log2"]);
    });
}

#[test]
fn a_content_gets_the_name_of_its_hash() {
    for_each_place(|place, dir| {
        // The last content has three parts in a bucket, and a file that grows.
        place.create_folder("objects").unwrap();
        let large: Vec<u8> = (0..20_000_000u32).map(|n| (n % 251) as u8).collect();
        for (content, bytes) in [(&b"text"[..], 4), (b"", 0), (b"text and more", 4)] {
            let hash = add(place, dir, content, bytes).unwrap();
            assert_eq!(hash, sha256(&content[..bytes as usize]));
            let found = content_of(place, &object_name(&hash)).unwrap();
            assert_eq!(found, content[..bytes as usize]);
        }
        let hash = add(place, dir, &large, 19_999_999).unwrap();
        assert_eq!(
            content_of(place, &object_name(&hash)).unwrap(),
            large[..19_999_999]
        );
        place.sync_objects().unwrap();
        assert_eq!(place.files("objects").unwrap().len(), 3);
    });
}

#[test]
fn a_content_that_is_cut_or_whose_copy_is_stopped_is_not_stored() {
    for_each_place(|place, dir| {
        place.create_folder("objects").unwrap();
        let error = add(place, dir, b"text", 5).unwrap_err().to_string();
        assert!(error.contains("ends after 4 of 5 bytes"), "{error}");
        let path = dir.join("source");
        let content = vec![7; 20_000_000];
        std::fs::write(&path, &content).unwrap();
        let file = SourceFile {
            name: "store/1.jnl",
            path: &path,
            bytes: 20_000_000,
            identity: None,
        };
        // The copy is stopped in the last piece, when a bucket has two parts already.
        let mut left = 20_000_000;
        let stopped = place.add_object(&file, &mut &content[..], 1_000_000, &mut |bytes| {
            left -= bytes;
            match left {
                0 => Err(BackupError::Cancelled),
                _ => Ok(()),
            }
        });
        assert!(
            matches!(stopped, Err(BackupError::Cancelled)),
            "{stopped:?}"
        );
        assert_eq!(place.files("objects").unwrap(), []);
    });
}

#[test]
fn a_content_that_changes_between_its_two_readings_is_refused() {
    let dir = TempDir::new().unwrap();
    let place = bucket(&Arc::default(), "", LONG);
    let path = dir.path().join("source");
    std::fs::write(&path, b"other").unwrap();
    let file = SourceFile {
        name: "store/1.jnl",
        path: &path,
        bytes: 5,
        identity: None,
    };
    let added = place.add_object(&file, &mut &b"first"[..], 1_000, &mut |_| Ok(()));
    let error = added.unwrap_err().to_string();
    assert!(error.contains("it changed while it was read"), "{error}");
    assert_eq!(place.names().unwrap(), None);
}

#[test]
fn a_lock_has_one_holder_and_ends_when_it_is_dropped() {
    let dir = TempDir::new().unwrap();
    let folder = Folder::new(dir.path());
    let lock = folder.lock("log/lock", None).unwrap();
    assert!(lock.is_held());
    let second = folder.lock("log/lock", None).unwrap_err().to_string();
    let process = format!("is being written by process {}", std::process::id());
    assert!(second.contains(&process), "{second}");
    drop(lock);
    assert!(folder.lock("log/lock", None).unwrap().is_held());

    let store = Arc::default();
    let quick = Times {
        renewal: Duration::from_millis(5),
        ..LONG
    };
    let (one, two) = (bucket(&store, "a", quick), bucket(&store, "a", quick));
    let lock = one.lock("log/lock", None).unwrap();
    assert!(lock.is_held());
    // The other process sees that the holder writes the lock again.
    let second = two.lock("log/lock", None).unwrap_err().to_string();
    assert!(
        second.starts_with("s3://shop/a/log is being written by process "),
        "{second}"
    );
    assert!(lock.is_held());
    drop(lock);
    assert!(two.lock("log/lock", None).unwrap().is_held());
    assert_eq!(one.files("").unwrap(), []);
}

#[test]
fn a_lock_in_a_bucket_that_was_left_behind_is_taken_over() {
    let store = Arc::default();
    let left = bucket(&store, "", LONG);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let of_process = |process: u32, host: &str| {
        let text = format!(
            r#"{{"process":{process},"host":"{}","holder":"one","token":"1"}}"#,
            host.trim()
        );
        left.write("lock", text.as_bytes()).unwrap();
    };
    // The same holder takes at once the lock of a process of this machine that has ended, or that
    // had the id of this process.
    if !host.is_empty() {
        for process in [u32::MAX, std::process::id()] {
            of_process(process, &host);
            assert!(left.lock("lock", Some("one")).unwrap().is_held());
        }
    }
    // Another one takes it when it has not changed for long.
    let short = Times {
        expiry: Duration::from_millis(20),
        ..LONG
    };
    let other = bucket(&store, "", short);
    for host in [&*host, "another"] {
        of_process(u32::MAX, host);
        assert!(other.lock("lock", Some("two")).unwrap().is_held());
    }
    of_process(u32::MAX, "another");
    assert!(other.lock("lock", Some("one")).unwrap().is_held());
    left.write("lock", b"no JSON").unwrap();
    assert!(
        bucket(&store, "", short)
            .lock("lock", Some("two"))
            .unwrap()
            .is_held()
    );
}

#[test]
fn the_holder_of_a_lock_in_a_bucket_knows_when_it_is_lost() {
    let store = Arc::default();
    let quick = Times {
        renewal: Duration::from_millis(5),
        ..LONG
    };
    // Another process has written the lock.
    let place = bucket(&store, "", quick);
    let lock = place.lock("lock", None).unwrap();
    place.write("lock", b"{}").unwrap();
    wait_for("the end of the lock", || lock.is_held(), |is_held| !is_held);
    drop(lock);
    assert_eq!(place.read("lock").unwrap().unwrap(), b"{}");
    place.remove("", &["lock".to_owned()]).unwrap();

    // The lock could not be renewed in time.
    let never = Times {
        trust: Duration::from_millis(20),
        ..LONG
    };
    let lock = bucket(&store, "", never).lock("lock", None).unwrap();
    wait_for("the end of the lock", || lock.is_held(), |is_held| !is_held);
}

#[test]
fn a_renewal_whose_answer_was_lost_costs_no_lock() {
    let store = Arc::default();
    let quick = Times {
        renewal: Duration::from_millis(200),
        ..LONG
    };
    let place = bucket(&store, "", quick);
    let lock = place.lock("lock", None).unwrap();
    // The object is the holder's own, in a version that the holder was not told of.
    let written = place.read("lock").unwrap().unwrap();
    place.write("lock", &written).unwrap();
    let is_renewed = |text: &Vec<u8>| *text != written;
    wait_for(
        "a renewal",
        || place.read("lock").unwrap().unwrap(),
        is_renewed,
    );
    assert!(lock.is_held());
    drop(lock);
    assert_eq!(place.read("lock").unwrap(), None);
}

#[test]
fn addresses_that_name_no_place_in_a_bucket_are_refused() {
    for (address, part) in [
        ("s3://", "s3://BUCKET/PREFIX"),
        ("s3:///a", "s3://BUCKET/PREFIX"),
        ("s3://shop/a//b", "Path"),
        ("s3://shop/../b", "Path"),
        ("s3://shop/a.tar.zst", "name a prefix of the bucket"),
        ("gs://shop/a", "s3://BUCKET/PREFIX"),
        ("s3://my shop/a", "no name of a bucket"),
        ("s3://shop//a", "no slash at its beginning"),
        ("s3://shop/a%20b", "no slash at its beginning"),
    ] {
        let error = place_at(Path::new(address)).unwrap_err().to_string();
        assert!(
            error.starts_with(address) && error.contains(part),
            "{error}"
        );
    }
    for local in ["/a://b", "C://a", "a/b", "://"] {
        assert!(!is_remote(Path::new(local)), "{local}");
    }
    assert_eq!(
        place_at(Path::new("/a/b")).unwrap().path("c"),
        Path::new("/a/b/c")
    );
}
