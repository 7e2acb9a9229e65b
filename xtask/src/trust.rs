//! `cargo xtask long trust`: the checks behind `docs/reliability.md`, in parts with fresh seeds.
//!
//! A part is a bounded number of cases of one check. The check with the least share of its goal
//! goes next, until the minutes are over. Each part is counted in `docs/history/trust.tsv` before
//! the next one begins, so an interrupted run goes on where it stopped, and the figures of a
//! version add up. The tables of the document are written at the end.
//!
//! Promises: a part that failed is counted with its seeds, its output is kept in a file that is
//! named, and the command fails.
//! Leaves out: two runs at the same time, of which one would write its counts over those of the
//! other; parts beside each other, which would change the time that a test takes.

mod checks;
mod table;
mod tally;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::flaky::load::run_within;
use crate::history::line::Facts;
use crate::run::{Outcome, root, target_directory};
use crate::sdk_tools::read;
use checks::{CHECKS, Check, Programs};
use tally::{Part, Tallies};

pub(crate) use table::{DOCUMENT, written};
pub(crate) use tally::FILE;

/// Minutes of a run, if the caller names none.
const MINUTES: f64 = 90.0;
/// Time after which a part counts as one that does not end.
const LIMIT: Duration = Duration::from_secs(45 * 60);
/// Version of the program: the packages of the workspace share one.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Runs parts of the checks for some minutes.
pub(crate) fn run(minutes: Option<&str>) -> Outcome {
    let minutes = match minutes {
        Some(text) => text
            .parse()
            .map_err(|_| format!("`{text}` is no number of minutes"))?,
        None => MINUTES,
    };
    let path = root().join(FILE);
    // A file that cannot be read is reported before the build.
    let mut tallies = Tallies::of_file(&path)?;
    let programs = Programs::build()?;
    let outputs = target_directory().join("trust");
    fs::create_dir_all(&outputs)
        .map_err(|error| format!("cannot write {}: {error}", outputs.display()))?;
    // The programs are those of the commit of this moment, whatever is committed meanwhile.
    let facts = Facts::now();
    let moment = format!("{} {}", facts.date, facts.commit);
    // The build does not count: a run of few minutes has parts too.
    let (begun, time) = (Instant::now(), Duration::from_secs_f64(minutes * 60.0));
    let failed = repeat(
        &mut tallies,
        VERSION,
        || begun.elapsed() < time,
        |check, first_seed| {
            let output = outputs.join(output_name(check, first_seed));
            let command = check.command(&programs, first_seed)?;
            part(check, first_seed, &moment, command, &output)
        },
        |tallies| tallies.write(&path),
    )?;
    // The figures of a run with failures are figures too.
    write_table(None)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "parts failed of: {}; their outputs are in {}",
            failed.join(", "),
            outputs.display()
        )),
    }
}

/// Writes the tables of the document from the file of parts.
pub(crate) fn write_table(_minutes: Option<&str>) -> Outcome {
    let document = root().join(DOCUMENT);
    let text = written(&read(&document)?, &read(&root().join(FILE))?)?;
    fs::write(&document, text).map_err(|error| format!("cannot write {DOCUMENT}: {error}"))
}

/// Returns the check with the least share of its goal, the first of the list among equals. A check
/// that has failed in this run is left out: a fault that each part meets would stop the others.
fn next(tallies: &Tallies, version: &str, failed: &[&str]) -> Option<&'static Check> {
    let share = |check: &&Check| {
        let cases = u128::from(tallies.cases(check.name, version));
        cases * 1_000_000 / u128::from(check.goal)
    };
    let left = CHECKS.iter().filter(|check| !failed.contains(&check.name));
    left.min_by_key(share)
}

/// Runs parts as [`next`] says while there is time. `written` gets the counts after each part.
/// Returns the names of the checks of which a part failed.
fn repeat(
    tallies: &mut Tallies,
    version: &str,
    has_time: impl Fn() -> bool,
    run: impl Fn(&Check, u64) -> Result<Part, String>,
    written: impl Fn(&Tallies) -> Outcome,
) -> Result<Vec<&'static str>, String> {
    let mut failed = Vec::new();
    while has_time() {
        let Some(check) = next(tallies, version, &failed) else {
            break;
        };
        let part = run(check, tallies.next_seed(check.name))?;
        if part.end.is_err() {
            failed.push(check.name);
        }
        tallies.add(check, version, &part);
        written(tallies)?;
    }
    Ok(failed)
}

/// Returns the name of the file for the output of a part.
fn output_name(check: &Check, first_seed: u64) -> PathBuf {
    let name = check.name.replace(' ', "-");
    format!("{name}.{first_seed}.log").into()
}

/// Runs the command of a part. The output of a part that passed is removed.
fn part(
    check: &Check,
    first_seed: u64,
    moment: &str,
    mut command: Command,
    output: &Path,
) -> Result<Part, String> {
    // A file takes the output, so that it is there also if this program is killed.
    let unwritable = |error| format!("cannot write {}: {error}", output.display());
    let file = File::create(output).map_err(unwritable)?;
    let errors = file.try_clone().map_err(unwritable)?;
    command.stdin(Stdio::null()).stdout(file).stderr(errors);
    let begun = Instant::now();
    let ended = run_within(LIMIT, &mut command);
    let seconds = begun.elapsed().as_secs_f64();
    // The exit code alone does not tell that the test has run.
    let text = fs::read(output).map_err(unwritable)?;
    let end = ended.and_then(|()| check.counted(&String::from_utf8_lossy(&text)));
    let seeds = format!("{first_seed}..{}", first_seed + check.part);
    print!("{:<16} {seeds:<20} {seconds:>8.1} s  ", check.name);
    match &end {
        Ok(cases) => {
            println!("{cases}");
            fs::remove_file(output).map_err(unwritable)?;
        }
        Err(reason) => println!("FAILED: {reason}: {}", output.display()),
    }
    Ok(Part {
        moment: moment.to_owned(),
        first_seed,
        seconds,
        end,
    })
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    fn ended(first_seed: u64, end: Result<u64, String>) -> Part {
        Part {
            moment: "2026-11-30 1a2b3c4".to_owned(),
            first_seed,
            seconds: 1.0,
            end,
        }
    }

    /// The names and first seeds of parts.
    type Ran = Vec<(&'static str, u64)>;

    /// Runs so many parts, each of which has the cases that it asks for unless `fails`. Returns the
    /// names and first seeds of the parts, and what [`repeat`] returns.
    fn repeated(
        tallies: &mut Tallies,
        parts: usize,
        fails: fn(&Check) -> bool,
    ) -> (Ran, Result<Vec<&'static str>, String>) {
        let left = Cell::new(parts);
        let ran = RefCell::new(Vec::new());
        let failed = repeat(
            tallies,
            "0.1.0",
            || left.replace(left.get().saturating_sub(1)) > 0,
            |check, first_seed| {
                let name = CHECKS.iter().find(|other| other.name == check.name);
                ran.borrow_mut().push((name.unwrap().name, first_seed));
                let end = match fails(check) {
                    true => Err("it rains".to_owned()),
                    false => Ok(check.part),
                };
                Ok(ended(first_seed, end))
            },
            |_| Ok(()),
        );
        (ran.into_inner(), failed)
    }

    #[test]
    fn each_check_has_a_part_and_then_the_one_with_the_least_share_goes_next() {
        let mut tallies = Tallies::default();
        let (ran, failed) = repeated(&mut tallies, CHECKS.len() + 1, |_| false);
        assert_eq!(failed, Ok(Vec::new()));
        let names: Vec<&str> = ran.iter().map(|(name, _)| *name).collect();
        let all: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names[..CHECKS.len()], all);
        // 20 of a million is the least share.
        assert_eq!(ran[CHECKS.len()], ("crash images", 20));
    }

    #[test]
    fn a_run_goes_on_behind_the_seeds_of_the_run_before() {
        let mut tallies = Tallies::default();
        repeated(&mut tallies, CHECKS.len(), |_| false).1.unwrap();
        let kills = CHECKS.iter().find(|check| check.name == "kills").unwrap();
        assert_eq!(tallies.next_seed("kills"), kills.part);
        assert_eq!(next(&tallies, "0.2.0", &[]).unwrap().name, "worlds");
        let (ran, _) = repeated(&mut tallies, 1, |_| false);
        assert_eq!(ran, [("crash images", 20)]);
    }

    #[test]
    fn a_check_that_fails_is_reported_and_does_not_stop_the_others() {
        let mut tallies = Tallies::default();
        let (ran, failed) = repeated(&mut tallies, CHECKS.len() + 3, |c| c.name == "kills");
        assert_eq!(failed, Ok(vec!["kills"]));
        let kills = ran.iter().filter(|(name, _)| *name == "kills");
        assert_eq!(kills.count(), 1);
        assert_eq!(tallies.get("kills", "0.1.0").unwrap().failures, 1);
        let (ran, failed) = repeated(&mut Tallies::default(), 100, |_| true);
        let each = CHECKS.len();
        assert_eq!((ran.len(), failed.unwrap().len()), (each, each));
    }

    #[test]
    fn counts_are_written_after_each_part_and_a_refused_write_ends_the_run() {
        let writes = Cell::new(0);
        let run = |_: &Check, first_seed| Ok(ended(first_seed, Ok(1)));
        let failed = repeat(
            &mut Tallies::default(),
            "0.1.0",
            || true,
            run,
            |_| {
                writes.set(writes.get() + 1);
                match writes.get() {
                    3 => Err("the disk is full".to_owned()),
                    _ => Ok(()),
                }
            },
        );
        assert_eq!(
            (failed, writes.get()),
            (Err("the disk is full".to_owned()), 3)
        );
    }

    #[test]
    fn the_output_of_a_failed_part_is_kept() {
        let folder = std::env::temp_dir().join(format!("xtask-trust-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let run = |script: &str, name: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let output = folder.join(name);
            let part = part(&CHECKS[0], 0, "day", command, &output).unwrap();
            (part.end, output.is_file())
        };
        let passed = run("echo seeds 500 passed, 0 failed", "passed");
        assert_eq!(passed, (Ok(500), false));
        let (end, is_kept) = run("echo seeds 499 passed, 1 failed; exit 1", "failed");
        assert!(end.is_err() && is_kept);
        let (end, is_kept) = run("true", "silent");
        assert!(end.is_err() && is_kept, "nothing was counted");
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_file_of_the_repository_can_be_read() {
        Tallies::of_file(&root().join(FILE)).unwrap();
    }
}
