//! A line of a file of recorded runs. `cargo xtask ci --record` and the benchmarks write the same
//! form, so the benchmarks use this file as well.
//!
//! ```text
//! date        commit    cores  cpu       subject  state  result  figures
//! 2026-11-26  1a2b3c4+  2      EPYC 7B   first    cold   passed  wall s=1534.2; fmt=1.1
//! ```
//!
//! The cells are divided by tabs. The mark `+` says that the tree differed from the commit.
//!
//! Promises: a line is appended whole, and no text of a cell can end the cell.
//! Leaves out: reading, which is in `xtask/src/history.rs`.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// First line of a file.
pub(crate) const HEADING: &str = "date\tcommit\tcores\tcpu\tsubject\tstate\tresult\tfigures\n";

/// Paths whose changes do not count as a difference from the commit: a record changes these.
const RECORDED: [&str; 3] = [
    ":(exclude)docs/history",
    ":(exclude)docs/testing.md",
    ":(exclude)docs/reliability.md",
];

/// Day, commit and machine of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    /// The day in UTC, such as `2026-11-26`.
    pub(crate) date: String,
    /// The short name of the commit, with `+` if the tree differs from it.
    pub(crate) commit: String,
    pub(crate) cores: usize,
    /// The model of the CPU.
    pub(crate) cpu: String,
}

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) facts: Facts,
    /// The tier, or the command of the benchmarks.
    pub(crate) subject: String,
    /// `cold` or `warm` for a tier; the profile for a benchmark.
    pub(crate) state: String,
    /// `passed`, or `failed: ` and the names of what failed.
    pub(crate) result: String,
    /// Names and values in the order of the output.
    pub(crate) figures: Vec<(String, String)>,
}

impl Facts {
    /// Returns the facts of this moment.
    pub(crate) fn now() -> Facts {
        Facts {
            date: date_of(seconds_since_1970() / 86_400),
            commit: commit(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: cpu_model(),
        }
    }
}

impl Line {
    /// Returns the text of the line with its line end.
    pub(crate) fn text(&self) -> String {
        let figures: Vec<String> = self
            .figures
            .iter()
            .map(|(name, value)| format!("{}={}", plain(name), plain(value)))
            .collect();
        let facts = &self.facts;
        format!(
            "{}\t{}\t{}\t{}\t{}\t{}\t{}\t{}\n",
            facts.date,
            facts.commit,
            facts.cores,
            plain(&facts.cpu),
            plain(&self.subject),
            plain(&self.state),
            plain(&self.result),
            figures.join("; ")
        )
    }

    /// Appends the line to a file of the repository, which begins with the heading.
    pub(crate) fn append(&self, file: &str) -> Result<(), String> {
        let path = root().join(file);
        let mut text = String::new();
        match fs::read(&path) {
            // A file that was cut or merged by hand may lack its last line end.
            Ok(before) if !before.ends_with(b"\n") => text.push('\n'),
            Ok(_) => {}
            Err(_) => text.push_str(HEADING),
        }
        text.push_str(&self.text());
        let opened = fs::OpenOptions::new().create(true).append(true).open(&path);
        let written = opened.and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| format!("cannot write {}: {error}", path.display()))
    }
}

/// Returns the root of the repository: the crates that use this file lie directly below it.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Returns a text without the characters that divide cells, figures, names and values.
fn plain(text: &str) -> String {
    let plain: String = text
        .chars()
        .map(|character| match character {
            '\t' | '\n' | '\r' | ';' | '=' => ' ',
            other => other,
        })
        .collect();
    plain.trim().to_owned()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a record states its day; nothing that is stored in a database depends on it"
)]
fn seconds_since_1970() -> u64 {
    let elapsed = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_secs())
}

/// Returns the date of a day that is counted from 1970-01-01.
///
/// Years begin with March here, so that the day of a leap year is the last one. An era is the 400
/// years after which the calendar repeats.
pub(crate) fn date_of(days: u64) -> String {
    const DAYS_OF_ERA: u64 = 146_097;
    let days = days + 719_468;
    let day_of_era = days % DAYS_OF_ERA;
    let leap_days = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / (DAYS_OF_ERA - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let first_day = 365 * year_of_era + year_of_era / 4 - year_of_era / 100;
    let day_of_year = day_of_era - first_day;
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let is_next_year = month_from_march >= 10;
    let month = match is_next_year {
        true => month_from_march - 9,
        false => month_from_march + 3,
    };
    let year = days / DAYS_OF_ERA * 400 + year_of_era + u64::from(is_next_year);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the short name of the commit, and `unknown` outside of a repository.
fn commit() -> String {
    let Some(name) = git(&["rev-parse", "--short", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let mut status = vec!["status", "--porcelain", "--", "."];
    status.extend(RECORDED);
    let is_changed = git(&status).is_none_or(|changes| !changes.is_empty());
    match is_changed {
        true => format!("{name}+"),
        false => name,
    }
}

/// Returns the output of git, if git succeeds.
fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.args(arguments).current_dir(root()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}

/// Returns the model of the CPU where the system tells, or else its architecture.
fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(':'));
    match model {
        Some((_, model)) => model.trim().to_owned(),
        None => std::env::consts::ARCH.to_owned(),
    }
}
