//! The record of a run of `ci`: a line in `docs/history/ci.tsv`, and the table of the last run of a
//! tier in `docs/testing.md`.
//!
//! ```text
//! <!-- last recorded run, first tier -->
//! 2026-11-26, commit 1a2b3c4, …
//! <!-- end -->
//! ```
//!
//! Promises: a run in which a step failed or did not run is recorded as failed, and its times do
//! not become the table.

use std::fs;
use std::path::Path;

use super::{End, TierRun, not_passed};
use crate::history::CI_FILE;
use crate::history::line::Line;
use crate::run::{Outcome, root, target_directory};
use crate::sdk_tools::read;

/// Name of the figure that is the time of a run on the clock.
pub(crate) const WALL: &str = "wall s";
/// State of a run that began without a build of the workspace.
pub(crate) const COLD: &str = "cold";
const WARM: &str = "warm";
/// Result of a run in which every step passed or was skipped.
pub(crate) const PASSED: &str = "passed";

const DOCUMENT: &str = "docs/testing.md";
const END: &str = "<!-- end -->";

/// Appends the line of a run, and writes the table of a tier that passed.
pub(super) fn record(run: &TierRun) -> Outcome {
    let line = line(run);
    line.append(CI_FILE)?;
    println!("recorded in {CI_FILE}: {}, {}", line.subject, line.result);
    if line.result != PASSED {
        return Ok(());
    }
    let path = root().join(DOCUMENT);
    if let Some(document) = with_table(&read(&path)?, run)? {
        fs::write(&path, document)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Returns the line of a run: its times, then the seconds of each step that ran.
fn line(run: &TierRun) -> Line {
    let failed = not_passed(&run.reports);
    let result = match failed.is_empty() {
        true => PASSED.to_owned(),
        false => format!("failed: {}", failed.join(", ")),
    };
    let mut figures = vec![(WALL.to_owned(), seconds(run.wall.as_secs_f64()))];
    if let Some(cpu) = run.cpu_seconds {
        figures.push(("cpu s".to_owned(), seconds(cpu)));
    }
    for report in &run.reports {
        if matches!(report.end, End::Passed | End::Failed(_)) {
            let time = seconds(report.duration.as_secs_f64());
            figures.push((report.name.to_owned(), time));
        }
    }
    Line {
        facts: run.facts.clone(),
        subject: run.name.to_owned(),
        state: run.build.to_owned(),
        result,
        figures,
    }
}

fn seconds(value: f64) -> String {
    format!("{value:.1}")
}

/// Returns the document with the table of the run between the marks of its tier; `None` for the
/// quick steps, which have no table.
fn with_table(document: &str, run: &TierRun) -> Result<Option<String>, String> {
    if run.name == "quick" {
        return Ok(None);
    }
    let mark = format!("<!-- last recorded run, {} tier -->\n", run.name);
    let missing = || format!("{DOCUMENT} lacks `{}` or `{END}`", mark.trim_end());
    let (before, rest) = document.split_once(&mark).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(Some(format!(
        "{before}{mark}{}{END}{after}",
        table_of_document(run)
    )))
}

/// Returns the sentence and the table of a run in the form of a document.
fn table_of_document(run: &TierRun) -> String {
    let facts = &run.facts;
    let cpu = match run.cpu_seconds {
        Some(cpu) => format!(", {cpu:.0} s of CPU"),
        None => String::new(),
    };
    let mut text = format!(
        "{}, commit {}, {} cores of {}, {} build: {:.0} s on the clock{cpu}.\n\n\
         | step | seconds |\n|---|---|\n",
        facts.date,
        facts.commit,
        facts.cores,
        facts.cpu,
        run.build,
        run.wall.as_secs_f64()
    );
    for report in &run.reports {
        let time = match &report.end {
            End::Skipped(_) => "skipped".to_owned(),
            _ => seconds(report.duration.as_secs_f64()),
        };
        text.push_str(&format!("| {} | {time} |\n", report.name));
    }
    text
}

/// Returns `cold` if no crate of the database has been built in the target directory, or else
/// `warm`.
pub(super) fn build_state() -> &'static str {
    build_state_in(&target_directory())
}

/// Looks for the records that cargo keeps of builds, in every profile. This program has been built
/// already, but it uses no crate of the database.
fn build_state_in(target: &Path) -> &'static str {
    let listed = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    for profile in listed(target) {
        for build in listed(&profile.path().join(".fingerprint")) {
            if build.file_name().to_string_lossy().starts_with("orrery-") {
                return WARM;
            }
        }
    }
    COLD
}

/// Returns the seconds of CPU of all processes that this process started and that have ended, with
/// their own; `None` where the system does not tell.
pub(super) fn cpu_seconds() -> Option<f64> {
    cpu_seconds_in(&fs::read_to_string("/proc/self/stat").ok()?)
}

/// Reads the fields `cutime` and `cstime`. The name of the program, in parentheses, stands before
/// the state, and may contain anything.
fn cpu_seconds_in(stat: &str) -> Option<f64> {
    const TICKS_PER_SECOND: f64 = 100.0;
    const AFTER_NAME: usize = 13;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(AFTER_NAME);
    let user: f64 = times.next()?.parse().ok()?;
    let system: f64 = times.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::ci::Report;
    use crate::history::line::Facts;

    fn run(name: &'static str, second_end: End) -> TierRun {
        let report = |name, end| Report {
            name,
            duration: Duration::from_millis(1_260),
            end,
        };
        TierRun {
            name,
            facts: Facts {
                date: "2026-11-26".to_owned(),
                commit: "1a2b3c4".to_owned(),
                cores: 2,
                cpu: "a CPU".to_owned(),
            },
            build: COLD,
            reports: vec![report("fmt", End::Passed), report("docs", second_end)],
            wall: Duration::from_secs(90),
            cpu_seconds: Some(123.0),
        }
    }

    #[test]
    fn a_failed_run_is_a_failed_line_with_the_names_of_its_steps() {
        let failed = line(&run("first", End::Failed("it rains".to_owned())));
        assert_eq!(failed.result, "failed: docs");
        let not_run = line(&run("first", End::NotRun("fmt")));
        assert_eq!(not_run.result, "failed: docs");
        assert!(not_run.figures.iter().all(|(name, _)| name != "docs"));
    }

    #[test]
    fn a_line_has_the_times_of_the_run_and_of_each_step() {
        let line = line(&run("first", End::Skipped("no network".to_owned())));
        assert_eq!(line.result, PASSED);
        let text = line.text();
        let end = "\tfirst\tcold\tpassed\twall s=90.0; cpu s=123.0; fmt=1.3\n";
        assert!(text.ends_with(end), "{text}");
    }

    #[test]
    fn the_table_of_a_tier_replaces_what_stands_between_its_marks() {
        let document = "a\n<!-- last recorded run, first tier -->\nold\n<!-- end -->\nb\n";
        let run = run("first", End::Skipped("no network".to_owned()));
        let written = with_table(document, &run).unwrap().unwrap();
        let expected = "a\n<!-- last recorded run, first tier -->\n\
             2026-11-26, commit 1a2b3c4, 2 cores of a CPU, cold build: \
             90 s on the clock, 123 s of CPU.\n\n\
             | step | seconds |\n|---|---|\n| fmt | 1.3 |\n| docs | skipped |\n<!-- end -->\nb\n";
        assert_eq!(written, expected);
        assert_eq!(with_table(&written, &run).unwrap().unwrap(), expected);
    }

    #[test]
    fn a_document_without_the_marks_is_refused_and_the_quick_steps_need_none() {
        let refusal = with_table("", &run("second", End::Passed)).unwrap_err();
        assert!(refusal.contains("second tier -->`"), "{refusal}");
        assert_eq!(with_table("", &run("quick", End::Passed)), Ok(None));
    }

    #[test]
    fn the_document_has_marks_for_both_tiers() {
        let document = read(&root().join(DOCUMENT)).unwrap();
        for name in ["first", "second"] {
            assert!(with_table(&document, &run(name, End::Passed)).is_ok());
        }
    }

    #[test]
    fn a_target_directory_without_a_crate_of_the_database_is_cold() {
        let target = std::env::temp_dir().join(format!("xtask-cold-{}", std::process::id()));
        let builds = target.join("debug/.fingerprint");
        fs::create_dir_all(builds.join("xtask-0123456789abcdef")).unwrap();
        assert_eq!(build_state_in(&target), COLD);
        fs::create_dir_all(builds.join("orrery-model-0123456789abcdef")).unwrap();
        assert_eq!(build_state_in(&target), WARM);
        fs::remove_dir_all(&target).unwrap();
        assert_eq!(build_state_in(&target), COLD);
    }

    #[test]
    fn the_times_of_ended_processes_are_read_behind_the_name_of_the_program() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 250 50 20 0\n";
        assert_eq!(cpu_seconds_in(stat), Some(3.0));
        assert_eq!(cpu_seconds_in("7 (a) S 1"), None);
    }
}
