//! Images of the files of a store after a power loss in the middle of a write.
//!
//! A store commits rows of random sizes, and the bytes of its journal and of its high-water file
//! are kept after each commit. An image is what a disk may hold after a power loss during the next
//! commit: the journal up to the last commit, a part of the bytes of the next one, and the
//! high-water file of the last commit or of an earlier one, since it is synced once a second.
//!
//! - *Cut*: the disk has the bytes of the next commit up to any place. The store opens with all
//!   commits before, and with the next one whole or not at all; whole if its bytes are all there.
//! - *Holes*: the disk lacks any pages of 4 KiB of the next commit, and has the others. The store
//!   opens the same way, or refuses to open and names the journal: a hole before a whole group is
//!   not told from damage of an answered commit. With an accepted loss it then opens the same way.
//!
//! The store never opens with less or with anything else, and what is committed to a fourth of the
//! images is there after one more opening. `ORRERY_POWER_LOSS_HISTORIES` is the
//! number of histories, `ORRERY_POWER_LOSS_FIRST` the seed of the first one; the number of images
//! is printed.
//!
//! Leaves out: tables, which are written anew and synced before a list names them; the order in
//! which a file system writes names.

#![allow(clippy::print_stdout)] // the number of images is part of the result

use std::path::{Path, PathBuf};

use crate::support::{P, Pair, PartitionWriter, everything};
use orrery_model::world::{SPLIT_MIX_STEP, split_mix};
use orrery_storage::{LocalOptions, LocalStore, StoreError};

/// Commits of a history.
const COMMITS: usize = 12;
/// Images of a history.
const IMAGES: u64 = 50;
const PAGE: usize = 4096;
/// Largest number of commits by which the high-water file lags.
const LAG: u64 = 4;

/// The files after a commit, and the rows that the store has then.
struct Moment {
    /// The journal without the zeros behind its last record.
    journal: Vec<u8>,
    high_water: Vec<u8>,
    rows: Vec<Pair>,
}

/// A directory with the files that stay as they are, and the moments behind its commits.
struct History {
    directory: tempfile::TempDir,
    /// Path of the journal from the directory.
    journal: PathBuf,
    high_water: PathBuf,
    moments: Vec<Moment>,
}

/// Random numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(SPLIT_MIX_STEP);
        (split_mix(self.0) % end as u64) as usize
    }
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| text.parse().expect("a number"))
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

/// Copies a directory with its empty folders.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => _ = std::fs::copy(&path, &target).unwrap(),
        }
    }
}

/// Returns the file of a directory whose name ends with this text, as a path from the directory.
fn file_named(directory: &Path, ending: &str) -> PathBuf {
    let all = files(directory);
    let mut found = all.iter().filter(|file| {
        let name = file.file_name().unwrap().to_string_lossy();
        name.ends_with(ending)
    });
    let file = found.next().expect("the file");
    assert!(found.next().is_none(), "one file ends with {ending}");
    file.strip_prefix(directory).unwrap().to_owned()
}

fn without_zeros(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.iter().rposition(|byte| *byte != 0);
    bytes.truncate(end.map_or(0, |last| last + 1));
    bytes
}

/// Commits rows of random sizes, and keeps the files after each commit.
fn history(random: &mut Random) -> History {
    let live = tempfile::tempdir().unwrap();
    let store = LocalStore::open(live.path(), LocalOptions::default()).unwrap();
    let mut writer = PartitionWriter::open(&store, P);
    let (journal, high_water) = (
        file_named(live.path(), ".jnl"),
        file_named(live.path(), "high-water"),
    );
    let mut moments = Vec::new();
    for n in 0..COMMITS {
        let size = [0, 30, 900, 5_000, 30_000][random.below(5)];
        let value: Vec<u8> = (0..size).map(|_| random.below(256) as u8).collect();
        let key = (random.below(6) as u64).to_be_bytes();
        writer.put(&[
            (&key, &value),
            (&[b"\x80".as_slice(), &key].concat(), &key),
            (b"last", &n.to_be_bytes()),
        ]);
        moments.push(Moment {
            journal: without_zeros(std::fs::read(live.path().join(&journal)).unwrap()),
            high_water: std::fs::read(live.path().join(&high_water)).unwrap(),
            rows: everything(&store, P),
        });
    }
    // No table was written, so the other files are as they were at each moment.
    let directory = tempfile::tempdir().unwrap();
    copy(live.path(), directory.path());
    // Each image has a journal of its own; this one has much reserved space.
    std::fs::write(directory.path().join(&journal), []).unwrap();
    History {
        directory,
        journal,
        high_water,
        moments,
    }
}

/// Returns the bytes of the next commit that a disk may hold, and true if pages are missing.
fn torn(next: &[u8], begin: usize, random: &mut Random) -> (Vec<u8>, bool) {
    let mut bytes = next.to_vec();
    if random.below(2) == 0 {
        bytes.truncate(begin + random.below(next.len() - begin + 1));
        return (bytes, false);
    }
    // Pages are those of the file, so the first one may begin before the commit.
    let mut has_holes = false;
    let mut page = begin / PAGE * PAGE;
    while page < bytes.len() {
        let end = (page + PAGE).min(bytes.len());
        if random.below(3) == 0 {
            bytes[page.max(begin)..end].fill(0);
            has_holes = true;
        }
        page += PAGE;
    }
    (bytes, has_holes)
}

/// Opens an image. Returns its rows.
fn opened(directory: &Path) -> Result<Vec<Pair>, StoreError> {
    let store = LocalStore::open(directory, LocalOptions::default())?;
    Ok(everything(&store, P))
}

/// Opens an image and accepts the loss of what cannot be read. Returns its rows.
fn opened_with_loss(directory: &Path) -> Result<Vec<Pair>, StoreError> {
    let options = LocalOptions {
        accept_loss: true,
        ..LocalOptions::default()
    };
    let store = LocalStore::open(directory, options)?;
    Ok(everything(&store, P))
}

/// Commits a row to an image that has opened, and checks that the rows are there after an opening.
fn goes_on(directory: &Path, mut rows: Vec<Pair>, name: &str) {
    let store = LocalStore::open(directory, LocalOptions::default()).unwrap();
    // No other key is so high.
    let (key, value) = ([0xff; 9], b"after the power loss");
    PartitionWriter::open(&store, P).put(&[(&key, value)]);
    drop(store);
    rows.push((key.to_vec(), value.to_vec()));
    let found = opened(directory).unwrap_or_else(|e| panic!("{name}: {e}"));
    assert!(found == rows, "{name}: a commit after the power loss");
}

/// Makes an image of a power loss and opens it. Returns true if the store refused to open.
fn is_refused(history: &History, random: &mut Random, name: &str) -> bool {
    // The commit that was answered last before the power loss.
    let last = random.below(COMMITS - 1);
    let marked = last.saturating_sub(random.below(LAG as usize));
    let [before, after] = [&history.moments[last], &history.moments[last + 1]];
    let (mut bytes, has_holes) = torn(&after.journal, before.journal.len(), random);
    let is_whole = bytes == after.journal;
    // The file has its reserved space, as the store made it.
    bytes.resize(after.journal.len() + random.below(2) * 10 * PAGE, 0);
    let place = tempfile::tempdir().unwrap();
    let image = place.path();
    copy(history.directory.path(), image);
    std::fs::write(image.join(&history.journal), &bytes).unwrap();
    let high_water = &history.moments[marked].high_water;
    std::fs::write(image.join(&history.high_water), high_water).unwrap();
    match opened(image) {
        Ok(rows) => {
            let is_expected = rows == after.rows || (!is_whole && rows == before.rows);
            assert!(is_expected, "{name}: other rows");
            // Two more openings take twice the time of the first.
            if random.below(4) == 0 {
                goes_on(image, rows, name);
            }
            false
        }
        Err(error) => {
            let text = error.to_string();
            assert!(has_holes, "{name}: a cut write is refused: {text}");
            let journal = image.join(&history.journal).display().to_string();
            assert!(text.contains(&journal), "{name}: {text}");
            let rows = opened_with_loss(image).unwrap_or_else(|e| panic!("{name}: {e}"));
            let is_expected = rows == before.rows || rows == after.rows;
            assert!(is_expected, "{name}: other rows with an accepted loss");
            true
        }
    }
}

#[test]
fn a_power_loss_during_a_write_loses_no_answered_commit() {
    let first = setting("ORRERY_POWER_LOSS_FIRST", 0);
    let (mut images, mut refused) = (0u64, 0u64);
    for seed in first..first + setting("ORRERY_POWER_LOSS_HISTORIES", 2) {
        let mut random = Random(split_mix(seed));
        let history = history(&mut random);
        for image in 0..IMAGES {
            let name = format!("history {seed}, image {image}");
            refused += u64::from(is_refused(&history, &mut random, &name));
            images += 1;
        }
    }
    println!("power losses: {images}, of which {refused} refused to open");
}
