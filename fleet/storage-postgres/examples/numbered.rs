//! Numbered commits through the store, with a history, and the check of that history afterwards.
//!
//! ```text
//! numbered write CLUSTERS.toml DIRECTORY PARTITIONS    until the end of standard input
//! numbered verify CLUSTERS.toml DIRECTORY PARTITIONS   prints figures as JSON
//! ```
//!
//! Each partition has one writer. An attempt has a number of its own, writes two rows and one feed
//! row with that number, and its outcome is a line of the history: `ok|not|unknown LSN NUMBER
//! TIME`, the time in microseconds since 1970.
//!
//! Promises: `verify` fails if an acknowledged number is not at its LSN, a refused number is found,
//! a number is found twice, a commit is visible in part, or the feed has a gap.
//! Leaves out: faults. `conformance/faults/fleet` makes them while this program writes.

#![allow(clippy::print_stdout)] // the output is the result

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{Read, Write};
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use orrery_storage::{Commit, CommitOutcome, Direction, Lease, PartitionId, Store};
use orrery_storage_postgres::{ClusterConfig, PostgresStore};

type Failure = Box<dyn std::error::Error>;

/// The first byte of the keys of rows, and of feed rows.
const ROW: u8 = 1;
const FEED: u8 = 3;
const ROWS_OF_A_COMMIT: u8 = 2;
const ROW_BYTES: usize = 200;
/// The time between two attempts to open a partition.
const PAUSE: Duration = Duration::from_millis(50);

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [command, clusters, directory, partitions] = arguments.as_slice() else {
        return Err("usage: numbered write|verify CLUSTERS.toml DIRECTORY PARTITIONS".into());
    };
    let config = ClusterConfig::read_file(Path::new(clusters))?.remove(0);
    let (directory, partitions) = (Path::new(directory), partitions.parse()?);
    let store = PostgresStore::open(config)?;
    match command.as_str() {
        "write" => write(&store, directory, partitions),
        "verify" => verify(&store, directory, partitions),
        other => Err(format!("there is no command '{other}'").into()),
    }
}

/// Returns microseconds since 1970.
#[allow(clippy::disallowed_methods)] // the history has the times of the machine, the store none
fn now() -> u128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_micros()
}

fn write(store: &PostgresStore, directory: &Path, partitions: u64) -> Result<(), Failure> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<(), Failure> {
        let start = |p| {
            let file = File::create(directory.join(format!("{p}.history")))?;
            Ok((p, file))
        };
        let files: Vec<(u64, File)> = (1..=partitions)
            .map(start)
            .collect::<Result<_, Failure>>()?;
        for (p, mut file) in files {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut number = 0;
                while !is_over.load(Ordering::Relaxed) {
                    // A partition that cannot be opened now may be opened later.
                    match store.open(PartitionId(p)) {
                        Ok(lease) => write_under(store, &lease, &mut number, &mut file, is_over),
                        Err(_) => std::thread::park_timeout(PAUSE),
                    }
                }
            });
        }
        println!("begun");
        let end = std::io::stdin().read_to_end(&mut Vec::new());
        is_over.store(true, Ordering::Relaxed);
        end?;
        Ok(())
    })
}

/// Commits under a lease until it ends.
fn write_under(
    store: &PostgresStore,
    lease: &Lease,
    number: &mut u64,
    file: &mut File,
    is_over: &AtomicBool,
) {
    let mut lsn = lease.head().lsn;
    while !is_over.load(Ordering::Relaxed) {
        (lsn, *number) = (lsn + 1, *number + 1);
        let outcome = store.submit(lease, commit(lsn, *number)).wait();
        let word = match outcome {
            CommitOutcome::Ok => "ok",
            CommitOutcome::Unknown => "unknown",
            _ => "not",
        };
        let line = format!("{word} {lsn} {number} {}\n", now());
        if file.write_all(line.as_bytes()).is_err() {
            is_over.store(true, Ordering::Relaxed);
        }
        if outcome != CommitOutcome::Ok {
            std::thread::park_timeout(PAUSE);
            return;
        }
    }
}

fn commit(lsn: u64, number: u64) -> Commit {
    let mut token = [0; 16];
    token[..8].copy_from_slice(&number.to_be_bytes());
    let row = |part: u8| {
        let key = [&[ROW][..], &number.to_be_bytes(), &[part]].concat();
        (key, vec![part; ROW_BYTES])
    };
    let mut puts: Vec<_> = (0..ROWS_OF_A_COMMIT).map(row).collect();
    let feed = [&[FEED][..], &lsn.to_be_bytes()].concat();
    puts.push((feed, number.to_be_bytes().to_vec()));
    Commit {
        expect_lsn: lsn - 1,
        new_lsn: lsn,
        token,
        puts,
        ..Commit::default()
    }
}

/// The contents of a partition.
#[derive(Default)]
struct Found {
    head: u64,
    /// The number at each LSN of the feed.
    feed: BTreeMap<u64, u64>,
    /// The rows of each number.
    rows: HashMap<u64, u8>,
}

/// The figures of a check, which are added up over partitions.
#[derive(Default)]
struct Figures {
    acknowledged: u64,
    unanswered: u64,
    refused: u64,
    anomalies: Vec<String>,
}

fn verify(store: &PostgresStore, directory: &Path, partitions: u64) -> Result<(), Failure> {
    let mut figures = Figures::default();
    for p in 1..=partitions {
        let history = std::fs::read_to_string(directory.join(format!("{p}.history")))?;
        figures.compare(p, &history, &read(store, p)?)?;
    }
    let anomalies: Vec<String> = figures
        .anomalies
        .iter()
        .map(|text| format!("\"{text}\""))
        .collect();
    println!(
        "{{\"acknowledged\": {}, \"refused\": {}, \"unknown\": {}, \"anomalies\": [{}]}}",
        figures.acknowledged,
        figures.refused,
        figures.unanswered,
        anomalies.join(", ")
    );
    match figures.anomalies.is_empty() {
        true => Ok(()),
        false => Err("the history does not agree with the partitions".into()),
    }
}

/// Reads a whole partition, after no earlier commit can arrive any more.
fn read(store: &PostgresStore, p: u64) -> Result<Found, Failure> {
    store.open(PartitionId(p))?;
    let snapshot = store.snapshot(PartitionId(p))?;
    let mut found = Found {
        head: snapshot.head().lsn,
        ..Found::default()
    };
    for row in snapshot.scan((Bound::Unbounded, Bound::Unbounded), Direction::Forward) {
        let (key, value) = row?;
        let number = |bytes: &[u8]| -> Result<u64, Failure> {
            let bytes = bytes.get(..8).ok_or("a row is too short")?;
            Ok(u64::from_be_bytes(bytes.try_into()?))
        };
        match key.first() {
            Some(&FEED) => {
                found.feed.insert(number(&key[1..])?, number(&value)?);
            }
            _ => *found.rows.entry(number(&key[1..])?).or_default() += 1,
        }
    }
    Ok(found)
}

impl Figures {
    fn compare(&mut self, p: u64, history: &str, found: &Found) -> Result<(), Failure> {
        let mut wrong = |text: String| self.anomalies.push(format!("partition {p}: {text}"));
        let lsns: Vec<u64> = found.feed.keys().copied().collect();
        if lsns != (1..=found.head).collect::<Vec<u64>>() {
            wrong(format!(
                "the feed has {} rows up to LSN {}",
                lsns.len(),
                found.head
            ));
        }
        // A number that is there twice, or earlier than a smaller number, breaks the order.
        let numbers: Vec<u64> = found.feed.values().copied().collect();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[0] >= pair[1]) {
            wrong(format!("number {} comes after {}", pair[1], pair[0]));
        }
        let whole = |number: &&u64| found.rows.get(number) == Some(&ROWS_OF_A_COMMIT);
        if !numbers.iter().all(|number| whole(&number)) || numbers.len() != found.rows.len() {
            wrong("a commit is visible in part".to_owned());
        }
        for line in history.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let [outcome, lsn, number, _] = words.as_slice() else {
                return Err("a line of the history is not whole".into());
            };
            let (lsn, number): (u64, u64) = (lsn.parse()?, number.parse()?);
            let is_there = found.feed.get(&lsn) == Some(&number);
            match *outcome {
                "ok" => self.acknowledged += 1,
                "unknown" => self.unanswered += 1,
                _ => self.refused += 1,
            }
            match *outcome {
                "ok" if !is_there => wrong(format!("lost: number {number} at LSN {lsn}")),
                "not" if is_there => wrong(format!("refused, yet there: number {number}")),
                _ => {}
            }
        }
        Ok(())
    }
}
