//! The local engine when its process is killed and when the disk refuses writes.
//!
//! The parent starts this same test binary again as a *writer*, which commits from several threads
//! and prints each acknowledgement. The writer is killed after a varying number of
//! acknowledgements, or reaches a file size limit; then the parent opens the directory and checks
//! that every acknowledged commit is there.

#![allow(clippy::print_stdout)] // the writer reports through its standard output

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use crate::support::{commit, everything};
use orrery_storage::{
    Commit, CommitOutcome, LocalOptions, LocalStore, Lsn, PartitionId, Store, StoreError,
};

const DIRECTORY: &str = "ORRERY_TEST_WRITER_DIRECTORY";
const WRITERS: u64 = 3;
const ROUNDS: usize = 12;
/// Index entries that a commit puts besides its rows, so that a torn commit would be seen.
const INDEX_ENTRIES: u8 = 8;

/// Returns commit `lsn`: a row, some index entries, and one key that every commit rewrites.
fn change(lsn: Lsn) -> Commit {
    let number = lsn.to_be_bytes();
    let mut puts = vec![
        ([b"\x01".as_slice(), &number].concat(), body(lsn)),
        (b"last".to_vec(), number.to_vec()),
    ];
    puts.extend(
        (0..INDEX_ENTRIES).map(|n| ([b"\x80".as_slice(), &[n], &number].concat(), Vec::new())),
    );
    Commit {
        puts,
        ..commit(lsn, &[])
    }
}

/// Returns a value. The sizes differ widely, and the journal compresses some of the values.
fn body(lsn: Lsn) -> Vec<u8> {
    let size = [10, 400, 9_000, 60_000][lsn as usize % 4];
    (0..size).map(|i| ((i as u64 * lsn) >> 3) as u8).collect()
}

/// Commits from several threads up to `last_lsn`, until the process dies, or until an outcome is
/// not `Ok`. Reports "partition lsn" for each `Ok`.
fn write(directory: &Path, last_lsn: Lsn, report: impl Fn(String) + Sync) {
    let store = LocalStore::open(directory, LocalOptions::default()).unwrap();
    std::thread::scope(|scope| {
        for id in 1..=WRITERS {
            let (store, report) = (&store, &report);
            scope.spawn(move || {
                let Ok(lease) = store.open(PartitionId(id)) else {
                    return;
                };
                let mut lsn = lease.head().lsn;
                loop {
                    lsn += 1;
                    match store.submit(&lease, change(lsn)).wait() {
                        CommitOutcome::Ok => report(format!("{id} {lsn}")),
                        other => {
                            let second = store.submit(&lease, change(lsn)).wait();
                            let is_open_refused = store.open(PartitionId(id)).is_err();
                            return report(format!(
                                "failed {other:?} then {second:?} open refused {is_open_refused}"
                            ));
                        }
                    }
                    if lsn >= last_lsn {
                        return;
                    }
                }
            });
        }
    });
}

/// Checks the writer itself. With the environment variable set this test is the writer.
#[test]
fn the_writer_prints_exactly_what_it_committed() {
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        return write(directory.as_ref(), u64::MAX, |line| {
            let mut out = std::io::stdout().lock();
            // When the parent is gone the writer is killed; a failed write must not panic before.
            let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        });
    }
    let dir = tempfile::tempdir().unwrap();
    let lines = std::sync::Mutex::new(Vec::new());
    write(dir.path(), 5, |line| lines.lock().unwrap().push(line));
    let mut acknowledged = HashMap::new();
    lines
        .into_inner()
        .unwrap()
        .iter()
        .for_each(|line| record(&mut acknowledged, line));
    assert_eq!(acknowledged, (1..=WRITERS).map(|id| (id, 5)).collect());
    assert_eq!(check(dir.path(), &acknowledged), acknowledged);
}

fn start(mut command: Command, directory: &Path) -> (Child, BufReader<ChildStdout>) {
    command.args([
        "--exact",
        "crash::the_writer_prints_exactly_what_it_committed",
        "--nocapture",
        "--test-threads=1",
    ]);
    command
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    (child, out)
}

/// Records an acknowledgement. Other lines come from the test harness.
fn record(acknowledged: &mut HashMap<u64, Lsn>, line: &str) {
    if let Some((Ok(id), Ok(lsn))) = line
        .split_once(' ')
        .map(|(id, lsn)| (id.parse(), lsn.parse()))
    {
        acknowledged.insert(id, lsn);
    }
}

/// Opens the directory and checks each partition: no acknowledged commit is missing, every commit
/// is whole, and no other commit is there. Returns the heads.
fn check(directory: &Path, acknowledged: &HashMap<u64, Lsn>) -> HashMap<u64, Lsn> {
    let store = LocalStore::open(directory, LocalOptions::default()).unwrap();
    let mut heads = HashMap::new();
    for id in 1..=WRITERS {
        let partition = PartitionId(id);
        let head = store.snapshot(partition).unwrap().head().lsn;
        let last_acknowledged = acknowledged.get(&id).copied().unwrap_or(0);
        assert!(
            head == last_acknowledged || head == last_acknowledged + 1,
            "partition {id}: {last_acknowledged} acknowledged, head {head}"
        );
        let mut expected: Vec<_> = (1..=head).flat_map(|lsn| change(lsn).puts).collect();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        expected.reverse();
        expected.dedup_by(|next, kept| next.0 == kept.0);
        expected.reverse();
        // The key that every commit rewrites has the value of the last commit.
        expected
            .iter_mut()
            .filter(|(key, _)| key == b"last")
            .for_each(|(_, value)| *value = head.to_be_bytes().to_vec());
        assert!(
            everything(&store, partition) == expected,
            "partition {id} is not exactly its first {head} commits"
        );
        heads.insert(id, head);
    }
    heads
}

#[test]
fn no_acknowledged_commit_is_lost_when_the_process_is_killed_at_random_moments() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = HashMap::new();
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..ROUNDS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (mut child, out) = start(Command::new(std::env::current_exe().unwrap()), dir.path());
        let mut lines = out.lines();
        for _ in 0..random % 120 {
            record(&mut acknowledged, &lines.next().unwrap().unwrap());
        }
        child.kill().unwrap();
        // Acknowledgements printed before the kill count too; a truncated line does not.
        lines
            .map_while(Result::ok)
            .for_each(|line| record_if_higher(&mut acknowledged, &line));
        child.wait().unwrap();
        acknowledged = check(dir.path(), &acknowledged);
    }
    assert!(acknowledged.values().sum::<u64>() > 0);
}

/// Records an acknowledgement unless it is lower than the last one. A truncated number is lower.
fn record_if_higher(acknowledged: &mut HashMap<u64, Lsn>, line: &str) {
    let mut line_only = HashMap::new();
    record(&mut line_only, line);
    for (id, lsn) in line_only {
        let known = acknowledged.entry(id).or_default();
        *known = lsn.max(*known);
    }
}

/// A limit on file sizes makes writes to the journal fail as a full disk would. The shell sets the
/// limit and ignores the signal that goes with it, so the write returns an error.
#[cfg(unix)]
#[test]
fn after_a_failed_write_no_commit_is_acknowledged_and_all_earlier_ones_are_there() {
    let dir = tempfile::tempdir().unwrap();
    // The store is opened twice, so that the journal is as long as its content and grows from
    // there.
    for _ in 0..2 {
        drop(LocalStore::open(dir.path(), LocalOptions::default()).unwrap());
    }
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "trap '' XFSZ; ulimit -f 2048; exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap());
    let (mut child, out) = start(shell, dir.path());
    let mut acknowledged = HashMap::new();
    let mut failures = Vec::new();
    for line in out.lines() {
        let line = line.unwrap();
        record(&mut acknowledged, &line);
        if line.starts_with("failed") {
            failures.push(line);
        }
    }
    child.wait().unwrap();
    assert_eq!(
        failures.len() as u64,
        WRITERS,
        "every writer ends by a failure: {failures:?}"
    );
    assert!(
        failures
            .iter()
            .any(|line| line.starts_with("failed Unknown")),
        "{failures:?}"
    );
    for line in &failures {
        assert!(
            line.contains("then Unavailable") && line.ends_with("open refused true"),
            "{line}"
        );
    }
    assert!(acknowledged.values().sum::<u64>() > 10);
    check(dir.path(), &acknowledged);
}

#[test]
fn a_second_process_is_refused_with_the_id_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let (mut child, mut out) = start(Command::new(std::env::current_exe().unwrap()), dir.path());
    let mut line = String::new();
    while !line.starts_with("1 ") {
        line.clear();
        assert_ne!(
            out.read_line(&mut line).unwrap(),
            0,
            "the writer ended early"
        );
    }
    let refusal = LocalStore::open(dir.path(), LocalOptions::default())
        .err()
        .unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        matches!(&refusal, StoreError::Locked { holder: Some(pid), .. } if *pid == child.id()),
        "{refusal}"
    );
    let text = refusal.to_string();
    assert!(
        text.contains(&dir.path().display().to_string()) && text.contains(&child.id().to_string()),
        "{text}"
    );
}
