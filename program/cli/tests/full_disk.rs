//! A server on a disk that becomes full: what it answers, what it keeps, and that it goes on.
//!
//! Writers create items over HTTP until the disk is full, and keep a ledger of every answer. Reads
//! and deletions go on meanwhile; the process gets SIGKILL once; then space is freed and writes
//! resume without a restart. At the end every answer is compared with the data of a restarted
//! server: a 2xx that is missing and a refusal that is there are wrong words. 408 is the only
//! status that may go with either.
//!
//! A full disk needs a file system of its own. With `ORRERY_FULL_DISK_MB` set, the test mounts a
//! `tmpfs` of this size, which takes the rights of root: this is a long run. Without the variable
//! the same steps run on a disk with room, so that the test itself stays in order.

#![cfg(unix)]
#![allow(clippy::print_stdout)] // the figures are the result of a long run

use crate::program::{Client, ITEMS, Request, Server, item, start};
use orrery_model::Json;
use orrery_test_wait::wait_for;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const WRITERS: u64 = 4;
/// Items that a writer creates on a disk with room.
const ITEMS_WITH_ROOM: u64 = 20;
/// Refusals after which a writer ends.
const REFUSALS: u64 = 60;
const TEXT_BYTES: usize = 6_000;

/// A file system that can become full, or a directory on a disk with room.
struct Disk {
    directory: tempfile::TempDir,
    bytes: Option<u64>,
}

impl Disk {
    fn new() -> Disk {
        let directory = tempfile::tempdir().expect("a directory");
        let megabytes = std::env::var("ORRERY_FULL_DISK_MB").ok();
        let megabytes: Option<u64> = megabytes.map(|text| text.parse().expect("a number"));
        if let Some(megabytes) = megabytes {
            let options = format!("size={megabytes}m");
            let mount = Command::new("mount")
                .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
                .arg(directory.path())
                .status();
            assert!(mount.expect("mount exists").success(), "root can mount");
        }
        Disk {
            directory,
            bytes: megabytes.map(|megabytes| megabytes << 20),
        }
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn can_be_full(&self) -> bool {
        self.bytes.is_some()
    }

    fn start(&self, reserve: &str) -> Server {
        let data = self.path().join("data");
        let data = data.to_str().expect("a path in UTF-8");
        start(&["--data-dir", data, "--disk-reserve", reserve]).expect("it starts")
    }

    /// Writes a file of half of the disk, which is removed later to free space.
    fn add_ballast(&self) -> PathBuf {
        let path = self.path().join("ballast");
        let bytes = self.bytes.unwrap_or(0) / 2;
        std::fs::write(&path, vec![1; bytes as usize]).expect("there is room");
        path
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.can_be_full() {
            // The server has ended by now. A mount that stays is reported by the next line of df.
            let _ = Command::new("umount").arg(self.path()).status();
        }
    }
}

/// The knowledge that a client has of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    There,
    Absent,
    InDoubt,
}

/// Every answer of the run.
#[derive(Default)]
struct Ledger {
    items: Mutex<BTreeMap<u64, Known>>,
    statuses: Mutex<BTreeMap<u16, u64>>,
    next: AtomicU64,
}

impl Ledger {
    fn set(&self, n: u64, known: Known) {
        self.items.lock().expect("a lock").insert(n, known);
    }

    fn there(&self) -> Vec<u64> {
        let items = self.items.lock().expect("a lock");
        let there = items.iter().filter(|(_, known)| **known == Known::There);
        there.map(|(n, _)| *n).collect()
    }

    /// Creates the next item. Returns its status, or 0 if the connection broke.
    fn create(&self, client: &mut Client) -> u16 {
        let n = self.next.fetch_add(1, Ordering::SeqCst);
        let text = "x".repeat(TEXT_BYTES);
        let body = format!(r#"{{"id":"i{n}","postId":"{}","text":"{text}"}}"#, key(n));
        // Until the answer arrives the item is in doubt: the process may be killed.
        self.set(n, Known::InDoubt);
        let request = Request::new("POST", ITEMS).key(&key(n)).body(body);
        let Ok(answer) = client.try_call(&request) else {
            return 0;
        };
        self.count(answer.status);
        match answer.status {
            201 => self.set(n, Known::There),
            408 => {
                let text = answer.text();
                assert!(text.contains("may have taken place"), "{text}");
            }
            429 | 449 | 503 | 507 => {
                let text = answer.text();
                assert!(!text.contains('/'), "no file is named to clients: {text}");
                self.set(n, Known::Absent);
            }
            status => panic!("{status}: {}", answer.text()),
        }
        answer.status
    }

    fn delete(&self, client: &mut Client, n: u64) -> u16 {
        self.set(n, Known::InDoubt);
        let answer = client.call(&Request::new("DELETE", &item(&format!("i{n}"))).key(&key(n)));
        self.count(answer.status);
        match answer.status {
            204 => self.set(n, Known::Absent),
            408 => {}
            _ => self.set(n, Known::There),
        }
        answer.status
    }

    fn count(&self, status: u16) {
        *self
            .statuses
            .lock()
            .expect("a lock")
            .entry(status)
            .or_default() += 1;
    }

    /// Returns the items whose answer differs from what the server has.
    fn wrong(&self, server: &Server) -> Vec<(u64, Known, u16)> {
        let mut client = server.client();
        let items = self.items.lock().expect("a lock");
        let mut wrong = Vec::new();
        for (n, known) in items.iter() {
            let status = read(&mut client, *n);
            let is_right = match known {
                Known::There => status == 200,
                Known::Absent => status == 404,
                Known::InDoubt => status == 200 || status == 404,
            };
            if !is_right {
                wrong.push((*n, *known, status));
            }
        }
        wrong
    }
}

fn key(n: u64) -> String {
    format!("p{}", n % 7)
}

fn read(client: &mut Client, n: u64) -> u16 {
    let answer = client.call(&Request::new("GET", &item(&format!("i{n}"))).key(&key(n)));
    if answer.status == 200 {
        let item = answer.json();
        let text = item.get("text").and_then(Json::as_str).unwrap_or_default();
        assert_eq!(text.len(), TEXT_BYTES, "item {n} is whole");
    }
    answer.status
}

/// Creates items with several clients until each was refused often, or has created enough on a disk
/// with room. Items are read at the same time.
fn write_until_full(disk: &Disk, server: &Server, ledger: &Ledger) {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut client = server.client();
            while !is_done.load(Ordering::SeqCst) {
                for n in ledger.there().into_iter().rev().take(20) {
                    assert_eq!(read(&mut client, n), 200, "reads go on");
                }
            }
        });
        let write = || {
            let mut client = server.client();
            let (mut created, mut refused) = (0, 0);
            while refused < REFUSALS && (disk.can_be_full() || created < ITEMS_WITH_ROOM) {
                match ledger.create(&mut client) {
                    201 => created += 1,
                    _ => refused += 1,
                }
            }
        };
        let writers: Vec<_> = (0..WRITERS).map(|_| scope.spawn(write)).collect();
        for writer in writers {
            writer.join().expect("the writer ends");
        }
        is_done.store(true, Ordering::SeqCst);
        reader.join().expect("the reader ends");
    });
}

/// Creates items until one is acknowledged. Returns the time that took.
fn time_until_created(server: &Server, ledger: &Ledger) -> Duration {
    let began = Instant::now();
    let mut client = server.client();
    let create = || ledger.create(&mut client);
    wait_for("a write that is accepted", create, |status| *status == 201);
    began.elapsed()
}

/// Fills the disk to the last block again and again, until told to stop. The store loses even the
/// space that it has kept back.
fn hog(path: &Path, is_done: &AtomicBool) {
    let mut file = std::fs::File::create(path).expect("there is room for a name");
    let (block, byte) = (vec![1; 1 << 20], [1]);
    while !is_done.load(Ordering::SeqCst) {
        while file.write_all(&block).is_ok() {}
        while file.write_all(&byte).is_ok() {}
    }
}

fn report(what: &str, ledger: &Ledger, wrong: usize, resumed: Duration) {
    let statuses = ledger.statuses.lock().expect("a lock");
    let answers: u64 = statuses.values().sum();
    println!(
        "{what}: {answers} answers {statuses:?}, {wrong} wrong, writes resumed after {:.2} s",
        resumed.as_secs_f64()
    );
}

#[test]
fn a_full_disk_refuses_growth_keeps_its_word_and_writes_resume_when_there_is_room() {
    let disk = Disk::new();
    let ballast = disk.add_ballast();
    let mut server = disk.start("64");
    server.client().make_posts();
    let ledger = Ledger::default();
    write_until_full(&disk, &server, &ledger);
    if disk.can_be_full() {
        let statuses = ledger.statuses.lock().expect("a lock").clone();
        assert!(statuses.contains_key(&507), "{statuses:?}");
        let kept_to_refusals = statuses.keys().all(|status| [201, 507].contains(status));
        assert!(
            kept_to_refusals,
            "growth stops before a write fails: {statuses:?}"
        );
    }
    let mut client = server.client();
    for n in ledger.there().into_iter().take(50) {
        assert_eq!(ledger.delete(&mut client, n), 204, "deletions go on");
    }

    // The server starts on the full disk, reads and deletes.
    server.kill();
    let server = disk.start("64");
    let mut client = server.client();
    assert_eq!(ledger.wrong(&server), []);
    for n in ledger.there().into_iter().take(10) {
        assert_eq!(ledger.delete(&mut client, n), 204, "deletions go on");
    }

    std::fs::remove_file(&ballast).expect("it is there");
    let resumed = time_until_created(&server, &ledger);
    server.stop();
    let wrong = ledger.wrong(&disk.start("64"));
    report("growth refused", &ledger, wrong.len(), resumed);
    assert_eq!(wrong, []);
}

#[test]
fn a_disk_that_is_full_to_the_last_block_loses_nothing_and_writes_resume_without_a_restart() {
    let disk = Disk::new();
    let server = disk.start("0");
    server.client().make_posts();
    let ledger = Ledger::default();
    let mut slowest = Duration::ZERO;
    for round in 0..3 {
        let hog_file = disk.path().join("hog");
        let is_done = AtomicBool::new(!disk.can_be_full());
        std::thread::scope(|scope| {
            scope.spawn(|| hog(&hog_file, &is_done));
            write_until_full(&disk, &server, &ledger);
            is_done.store(true, Ordering::SeqCst);
        });
        std::fs::remove_file(&hog_file).expect("it is there");
        slowest = slowest.max(time_until_created(&server, &ledger));
        assert_eq!(
            ledger.wrong(&server),
            [],
            "round {round}, without a restart"
        );
    }
    server.stop();
    let wrong = ledger.wrong(&disk.start("0"));
    report("full to the last block", &ledger, wrong.len(), slowest);
    assert_eq!(wrong, []);
}
