//! The steps that must pass before a change lands, and the longer ones behind them: a heading for
//! each step, a table at the end.
//!
//! `ci` runs the first tier, `ci --all` the first tier and then the second, `ci --quick` the inner
//! loop of a developer. `ci/steps.rs` has the table of steps.
//!
//! The steps of a lane run one after another, and the lanes of a phase run at the same time. The
//! output of the first lane is passed through. The steps of the other lanes run in processes of
//! their own, and their output is printed when the phase ends.
//!
//! A failed step does not hide the others: every step runs, except a step whose requirement failed
//! (the suites of the SDKs require the server program), which is reported as not run.
//! A step that needs what this machine cannot have, such as a database from the network, is
//! reported as skipped, with the reason.
//!
//! Promises: `run` fails if any step failed or did not run; the table names every skipped step;
//! nothing is recorded without `--record`.

mod record;
mod steps;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::history::line::Facts;
use crate::run::{Outcome, must, target_directory, this_program};
use crate::sdk_tools::{self, PROGRAM_VARIABLE};
use steps::{Lane, PHASES, QUICK_STEPS, Step, Tier};

pub(crate) use record::{COLD, PASSED, WALL};
pub(crate) use steps::suites_of_first_tier;

/// Name of the first tier in records.
pub(crate) const FIRST_TIER: &str = Tier::First.name();

/// The arguments of a run of several steps.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    part: Part,
    is_recorded: bool,
}

/// The part of the steps that a run consists of.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Quick,
    FirstTier,
    BothTiers,
}

/// The run of one tier, or of the quick steps.
struct TierRun {
    /// Name of the tier, or `quick`.
    name: &'static str,
    /// Time, commit and machine at the beginning.
    facts: Facts,
    /// State of the build output at the beginning: `cold` or `warm`.
    build: &'static str,
    reports: Vec<Report>,
    /// The time on the clock: steps of different lanes overlap.
    wall: Duration,
    /// Seconds of CPU of all processes that the run started, where the system tells.
    cpu_seconds: Option<f64>,
}

/// The end of one step and its duration.
struct Report {
    name: &'static str,
    duration: Duration,
    end: End,
}

enum End {
    Passed,
    Failed(String),
    /// The step did not run, because the step of this name did not pass.
    NotRun(&'static str),
    /// The step did not run, because this machine does not have what it needs.
    Skipped(String),
}

/// Runs `ci [--all | --quick | --step NAME] [--record]`: every step of one or both tiers, then the
/// table; or one step.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if let ["--step", name] = arguments[..] {
        return run_one(name);
    }
    let options = options(&arguments)?;
    let mut runs = Vec::new();
    match options.part {
        Part::Quick => runs.push(measured("quick", || run_steps(&all_of(QUICK_STEPS), &[]))),
        Part::FirstTier => runs.push(run_tier(Tier::First, &[])),
        Part::BothTiers => {
            let first = run_tier(Tier::First, &[]);
            let passed = passed(&first.reports);
            runs.push(first);
            runs.push(run_tier(Tier::Second, &passed));
        }
    }
    for run in &runs {
        print!("{}", table(run));
    }
    if options.is_recorded {
        for run in &runs {
            record::record(run)?;
        }
    }
    verdict(&runs)
}

/// Reads the arguments of a run of several steps.
fn options(arguments: &[&str]) -> Result<Options, String> {
    let mut rest = arguments.to_vec();
    rest.retain(|argument| *argument != "--record");
    let part = match rest[..] {
        [] => Part::FirstTier,
        ["--all"] => Part::BothTiers,
        ["--quick"] => Part::Quick,
        _ => {
            return Err(format!(
                "ci takes `--all`, `--quick` or nothing, each with or without `--record`, or \
                 `--step NAME` alone, not `{}`",
                arguments.join(" ")
            ));
        }
    };
    Ok(Options {
        part,
        is_recorded: rest.len() < arguments.len(),
    })
}

/// Returns the help text of the command: the steps of each tier and of the quick run.
pub(crate) fn help() -> String {
    let names = |tier: Tier| {
        let steps = steps::all().filter(|step| step.tier == tier);
        steps.map(|step| step.name).collect::<Vec<_>>().join("; ")
    };
    let quick: Vec<&str> = QUICK_STEPS.iter().map(|step| step.name).collect();
    format!(
        "Without arguments, the first tier: everything that must pass before a change lands:\n\
         {}.\n\n\
         With --all, the first tier and then the second:\n{}.\n\n\
         With --quick, the checks for the inner loop, under five minutes on a warm build:\n{}.\n\n\
         With --step NAME, the step of this name, of either tier.\n\n\
         With --record, each tier that ran becomes a line of {}, which\n\
         `cargo xtask history` prints, and the tables of docs/testing.md are those of the tiers\n\
         that passed.\n",
        names(Tier::First),
        names(Tier::Second),
        quick.join("; "),
        crate::history::CI_FILE,
    )
}

/// Runs the step of this name. The step that it requires is not run.
fn run_one(name: &str) -> Outcome {
    let step = steps::all()
        .find(|step| step.name == name)
        .ok_or_else(|| format!("ci has no step `{name}`; `cargo xtask help ci` lists the steps"))?;
    (step.needs)()?;
    step.run()
}

/// Runs a function that runs steps, and measures the run.
fn measured(name: &'static str, run: impl FnOnce() -> Vec<Report>) -> TierRun {
    let facts = Facts::now();
    let build = record::build_state();
    let cpu_before = record::cpu_seconds();
    let begun = Instant::now();
    let reports = run();
    let cpu_after = record::cpu_seconds();
    TierRun {
        name,
        facts,
        build,
        reports,
        wall: begun.elapsed(),
        cpu_seconds: cpu_before
            .zip(cpu_after)
            .map(|(before, after)| after - before),
    }
}

/// Runs the steps of a tier. `before` names the steps that have passed before.
fn run_tier(tier: Tier, before: &[&'static str]) -> TierRun {
    measured(tier.name(), || run_phases(PHASES, tier, before))
}

/// Returns the steps of a lane that belong to the tier.
fn of_tier(lane: Lane, tier: Tier) -> Vec<&'static Step> {
    lane.iter().filter(|step| step.tier == tier).collect()
}

fn all_of(lane: Lane) -> Vec<&'static Step> {
    lane.iter().collect()
}

/// Runs the steps of a tier, phase by phase, and all lanes of a phase at the same time. `before`
/// names the steps that have passed before.
fn run_phases(phases: &[&[Lane]], tier: Tier, before: &[&'static str]) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for phase in phases {
        let Some((first, others)) = phase.split_first() else {
            continue;
        };
        let mut before = before.to_vec();
        before.extend(passed(&reports));
        let before = &before;
        let (steps, beside) = std::thread::scope(|scope| {
            let start = |lane: &Lane| {
                let steps = of_tier(lane, tier);
                scope.spawn(move || run_beside(&steps, before))
            };
            let lanes: Vec<_> = others.iter().map(start).collect();
            let steps = run_steps(&of_tier(first, tier), before);
            let beside: Vec<_> = lanes.into_iter().map(|lane| lane.join()).collect();
            (steps, beside)
        });
        reports.extend(steps);
        for lane in beside {
            match lane {
                Ok(lane) => reports.extend(print_beside(lane)),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    }
    reports
}

/// Runs the steps one after another with their output passed through. `before` names the steps that
/// have passed before, for the requirements.
fn run_steps(steps: &[&Step], before: &[&'static str]) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for step in steps {
        println!("\n===== {} =====", step.name);
        let begun = Instant::now();
        let end = end_of(step, before, &passed(&reports), || step.run());
        // The reason stands below the step's output as well as in the table, which may be far away.
        if let End::Failed(reason) = &end {
            println!("----- {} failed: {reason}", step.name);
        }
        reports.push(Report {
            name: step.name,
            duration: begun.elapsed(),
            end,
        });
    }
    reports
}

/// Runs the steps one after another, each in a process with a file for its output.
fn run_beside(steps: &[&Step], before: &[&'static str]) -> Vec<(Report, PathBuf)> {
    let mut reports = Vec::new();
    for step in steps {
        let output = target_directory()
            .join("ci")
            .join(format!("{}.log", step.name));
        let begun = Instant::now();
        let end = end_of(step, before, &[], || run_in_process(step.name, &output));
        let report = Report {
            name: step.name,
            duration: begun.elapsed(),
            end,
        };
        reports.push((report, output));
    }
    reports
}

/// Variable of pytest: the directory below which a run makes its temporary ones.
const PYTEST_DIRECTORY: &str = "PYTEST_DEBUG_TEMPROOT";

/// Runs one step in a process of this program, which writes to the file.
///
/// A run of pytest closes the directory that all runs of a user share to other users, such as that
/// of a PostgreSQL server of a run beside it. So each step has a directory of its own, which stays
/// if the step fails.
fn run_in_process(step: &str, output: &Path) -> Outcome {
    let text = |error: std::io::Error| format!("cannot write {}: {error}", output.display());
    if let Some(directory) = output.parent() {
        fs::create_dir_all(directory).map_err(text)?;
    }
    let file = File::create(output).map_err(text)?;
    let errors = file.try_clone().map_err(text)?;
    let name = format!(
        "orrery-ci-{}-{}",
        std::process::id(),
        step.replace(' ', "-")
    );
    let directory = std::env::temp_dir().join(name);
    let unusable = |error: std::io::Error| format!("{}: {error}", directory.display());
    fs::create_dir_all(&directory).map_err(unusable)?;
    let mut process = step_process(step)?;
    process.env(PYTEST_DIRECTORY, &directory);
    must(process.stdout(file).stderr(errors))?;
    // A directory that cannot be removed yet says nothing about the step.
    let _ = fs::remove_dir_all(&directory);
    Ok(())
}

/// Creates the command that runs one step in a process of this program, with the server program of
/// this process.
pub(crate) fn step_process(step: &str) -> Result<Command, String> {
    let this = this_program()?;
    let mut process = Command::new(this);
    process.args(["ci", "--step", step]);
    process.env(PROGRAM_VARIABLE, sdk_tools::server()?);
    Ok(process)
}

/// Prints the output of the steps of another lane and returns their reports.
fn print_beside(reports: Vec<(Report, PathBuf)>) -> impl Iterator<Item = Report> {
    reports.into_iter().map(|(report, output)| {
        println!("\n===== {} =====", report.name);
        // The file of a step that did not run may be that of an earlier run.
        if matches!(report.end, End::Passed | End::Failed(_)) {
            match fs::read(&output) {
                Ok(text) => print!("{}", String::from_utf8_lossy(&text)),
                Err(error) => println!("no output: {error}"),
            }
        }
        if let End::Failed(reason) = &report.end {
            println!("----- {} failed: {reason}", report.name);
        }
        report
    })
}

/// Runs a step, unless its requirement has not passed or it lacks what it needs.
fn end_of(step: &Step, before: &[&str], in_lane: &[&str], run: impl FnOnce() -> Outcome) -> End {
    if let Some(required) = unmet(step, before, in_lane) {
        return End::NotRun(required);
    }
    match (step.needs)() {
        Ok(()) => run().map_or_else(End::Failed, |()| End::Passed),
        Err(reason) => End::Skipped(reason),
    }
}

/// Returns the step that must have passed before this step runs, if that step has not.
fn unmet(step: &Step, before: &[&str], in_lane: &[&str]) -> Option<&'static str> {
    let required = step.requires?;
    let has_passed = before.contains(&required) || in_lane.contains(&required);
    (!has_passed).then_some(required)
}

/// Returns the names of the steps that passed.
fn passed(reports: &[Report]) -> Vec<&'static str> {
    let passed = reports
        .iter()
        .filter(|report| matches!(report.end, End::Passed));
    passed.map(|report| report.name).collect()
}

/// Returns the names of the steps that failed or did not run.
fn not_passed(reports: &[Report]) -> Vec<&'static str> {
    let mut names = Vec::new();
    for report in reports {
        if !matches!(report.end, End::Passed | End::Skipped(_)) {
            names.push(report.name);
        }
    }
    names
}

/// Returns a line for each step, and lines for the time on the clock and of the CPUs.
fn table(run: &TierRun) -> String {
    let mut text = format!("\n===== summary: {} =====\n", run.name);
    for report in &run.reports {
        let end = match &report.end {
            End::Passed => "passed".to_owned(),
            End::Failed(reason) => format!("FAILED   {reason}"),
            End::NotRun(required) => format!("NOT RUN  it requires `{required}`"),
            End::Skipped(reason) => format!("SKIPPED  {reason}"),
        };
        let seconds = report.duration.as_secs_f64();
        text.push_str(&format!("{:<26} {seconds:>7.1} s  {end}\n", report.name));
    }
    let wall = run.wall.as_secs_f64();
    text.push_str(&format!("{:<26} {wall:>7.1} s\n", "all, on the clock"));
    if let Some(cpu) = run.cpu_seconds {
        text.push_str(&format!("{:<26} {cpu:>7.1} s\n", "all, of CPU"));
    }
    text
}

fn verdict(runs: &[TierRun]) -> Outcome {
    let mut names = Vec::new();
    let mut count = 0;
    for run in runs {
        names.extend(not_passed(&run.reports));
        count += run.reports.len();
    }
    if names.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} of {count} steps did not pass: {}",
        names.len(),
        names.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step = Step::new("good", || Ok(()));
    const BAD: Step = Step::new("bad", || Err("it rains".to_owned()));
    const AFTER_BAD: Step = Step {
        requires: Some("bad"),
        ..Step::new("after", || Ok(()))
    };
    const WITHOUT_NEEDS: Step =
        Step::with_needs("lonely", || Err("no network".to_owned()), || Ok(()));

    /// Runs steps as a tier of 90 s on the clock.
    fn tier_of(steps: &[&Step]) -> TierRun {
        TierRun {
            wall: Duration::from_secs(90),
            cpu_seconds: Some(123.0),
            ..measured("first", || run_steps(steps, &[]))
        }
    }

    #[test]
    fn all_steps_passing_is_a_pass() {
        assert_eq!(verdict(&[tier_of(&[&GOOD, &GOOD])]), Ok(()));
    }

    #[test]
    fn one_failed_step_fails_the_whole_and_hides_no_other() {
        let run = tier_of(&[&BAD, &GOOD]);
        let table = table(&run);
        assert_eq!(
            verdict(&[run]),
            Err("1 of 2 steps did not pass: bad".to_owned())
        );
        let shows_both = table.contains("FAILED   it rains") && table.contains("passed");
        assert!(shows_both, "{table}");
        let shows_times = table.contains("   90.0 s\n") && table.contains("  123.0 s\n");
        assert!(shows_times, "{table}");
    }

    #[test]
    fn a_step_whose_requirement_failed_is_shown_as_not_run() {
        let run = tier_of(&[&BAD, &AFTER_BAD]);
        assert!(table(&run).contains("NOT RUN  it requires `bad`"));
        assert_eq!(
            verdict(&[run]),
            Err("2 of 2 steps did not pass: bad, after".to_owned())
        );
    }

    #[test]
    fn a_step_whose_needs_are_not_there_is_shown_as_skipped_and_fails_nothing() {
        let run = tier_of(&[&GOOD, &WITHOUT_NEEDS]);
        assert!(table(&run).contains("SKIPPED  no network"));
        assert_eq!(verdict(&[run]), Ok(()));
    }

    #[test]
    fn a_failure_in_either_tier_fails_the_run() {
        let runs = [tier_of(&[&GOOD]), tier_of(&[&BAD])];
        assert_eq!(
            verdict(&runs),
            Err("1 of 2 steps did not pass: bad".to_owned())
        );
    }

    #[test]
    fn a_tier_runs_its_own_steps_and_knows_those_that_passed_before() {
        const LANE: Lane = &[
            Step::new("early", || Ok(())),
            Step {
                requires: Some("early"),
                ..Step::new("late", || Ok(())).second()
            },
        ];
        const PHASES: &[&[Lane]] = &[&[LANE]];
        assert_eq!(passed(&run_phases(PHASES, Tier::First, &[])), ["early"]);
        let second = run_phases(PHASES, Tier::Second, &["early"]);
        assert_eq!(passed(&second), ["late"]);
        let without_first = run_phases(PHASES, Tier::Second, &[]);
        assert!(matches!(without_first[0].end, End::NotRun("early")));
    }

    #[test]
    fn a_step_of_another_lane_does_not_run_if_its_requirement_has_not_passed() {
        let reports = run_beside(&[&AFTER_BAD], &["good"]);
        assert!(matches!(reports[0].0.end, End::NotRun("bad")));
    }

    #[test]
    fn a_step_of_another_lane_whose_needs_are_not_there_is_skipped() {
        let reports = run_beside(&[&WITHOUT_NEEDS], &[]);
        assert!(matches!(&reports[0].0.end, End::Skipped(reason) if reason == "no network"));
    }

    #[test]
    fn the_arguments_choose_the_part_and_the_record() {
        let all = options(&["--all", "--record"]).unwrap();
        assert!(all.part == Part::BothTiers && all.is_recorded);
        let first = options(&[]).unwrap();
        assert!(first.part == Part::FirstTier && !first.is_recorded);
        assert_eq!(options(&["--quick"]).unwrap().part, Part::Quick);
        let refusal = options(&["--step", "fmt", "--record"]).unwrap_err();
        assert!(refusal.contains("`--step NAME` alone"), "{refusal}");
    }

    #[test]
    fn the_help_lists_the_steps_of_both_tiers() {
        let help = help();
        let (first, second) = help.split_once("With --all").unwrap();
        assert!(first.contains("; book;") && !first.contains("packages"));
        assert!(second.contains("; packages;"), "{second}");
    }

    #[test]
    fn an_unknown_step_is_refused_by_name() {
        let refusal = run_one("rain").unwrap_err();
        assert!(refusal.contains("no step `rain`"), "{refusal}");
    }

    #[test]
    fn an_unknown_argument_is_refused() {
        let refusal = run(&["--fast".to_owned()]).unwrap_err();
        assert!(refusal.contains("`--fast`"), "{refusal}");
    }
}
