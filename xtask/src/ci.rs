//! The steps that must pass before a change lands: their order, a heading for each, a table at the
//! end.
//!
//! `ci` runs [`PHASES`]; `ci --quick` runs [`QUICK_STEPS`], the inner loop of a developer.
//!
//! The steps of a phase run one after another. The steps of the phase's second lane run at the same
//! time, in processes of their own, and their output is printed when the phase ends.
//!
//! A failed step does not hide the others: every step runs, except a step whose requirement failed
//! (the suites of the SDKs require the server program), which is reported as not run.
//! A step that needs what this machine cannot have, such as a database from the network, is
//! reported as skipped, with the reason.
//!
//! Promises: `run` fails if any step failed or did not run; the table names every skipped step.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::run::{Outcome, must, target_directory};
use crate::sdk_tools::PROGRAM_VARIABLE;
use crate::{
    book, checks, clients, conformance, deny, dist, image, scenarios, sdk_tools, tidy, web,
};

/// One step: its name, its function, the name of the earlier step that it requires, and a function
/// that gets what the step needs from outside, or says why it cannot be had.
struct Step {
    name: &'static str,
    run: fn() -> Outcome,
    requires: Option<&'static str>,
    needs: fn() -> Outcome,
}

impl Step {
    /// Creates a step that requires no other.
    const fn new(name: &'static str, run: fn() -> Outcome) -> Step {
        Step {
            name,
            run,
            requires: None,
            needs: || Ok(()),
        }
    }

    /// Creates a step that is skipped if `needs` fails.
    const fn with_needs(name: &'static str, needs: fn() -> Outcome, run: fn() -> Outcome) -> Step {
        Step {
            needs,
            ..Step::new(name, run)
        }
    }

    /// Creates a step that requires the server program.
    const fn with_server(name: &'static str, run: fn() -> Outcome) -> Step {
        Step {
            requires: Some(SERVER),
            ..Step::new(name, run)
        }
    }
}

/// Name of the step that builds the server program.
const SERVER: &str = "server";

/// Steps that run one after another, and steps that run beside these.
struct Phase {
    steps: &'static [Step],
    beside: &'static [Step],
}

/// The whole CI. A later phase begins when both lanes of the phase before have ended.
const PHASES: &[Phase] = &[
    Phase {
        steps: CHECKS,
        beside: &[],
    },
    Phase {
        steps: SUITES,
        beside: BROWSER_SUITES,
    },
    Phase {
        steps: PACKAGES,
        beside: &[],
    },
];

const CHECKS: &[Step] = &[
    Step::new("fmt", || checks::format(&["--check".to_owned()])),
    Step::new("clippy", || checks::clippy(&[])),
    Step::new("docs", || checks::docs(&[])),
    Step::new("tidy", || tidy::check(&[])),
    Step::new("deny", || deny::check(&[])),
    Step::with_needs("deny advisories", deny::fetch_advisories, deny::advisories),
    Step::new("test", || checks::test(&[])),
    Step::new("web", web::check),
    Step::new("book", book::build),
    Step::new(SERVER, sdk_tools::build_programs),
];

/// The suites of the SDKs and of other clients.
const SUITES: &[Step] = &[
    Step::with_server("users of the blog, short", checks::blog_users),
    Step::with_server("conformance python", || conformance::python(&[])),
    Step::with_server("python on PostgreSQL", conformance::python_on_postgres),
    Step::with_server("conformance regions", || conformance::regions(&[])),
    Step::with_server("conformance hot-key", || conformance::hot_key(&[])),
    Step::with_server("conformance telemetry", || conformance::telemetry(&[])),
    Step::with_server("conformance sql-cases", || {
        conformance::sql_cases(&["--require".to_owned()])
    }),
    Step::with_server("official python, quick", conformance::official_python_quick),
    Step::with_server("conformance javascript", || conformance::javascript(&[])),
    Step::with_server("assistants", || conformance::mcp(&[])),
    Step::with_server("mixed workload, small", || conformance::splits(&[])),
    Step::with_server("scenarios", || scenarios::judge(&[])),
    Step::with_server("scenarios go", || scenarios::go(&[])),
    Step::with_server("scenarios java", || scenarios::java(&[])),
    Step::with_server("scenarios rust", || scenarios::rust(&[])),
    Step::with_server("scenarios python", || scenarios::python(&[])),
    Step::with_server("scenarios javascript", || scenarios::javascript(&[])),
    Step::with_server("mistakes", || scenarios::mistakes(&[])),
    Step::with_server("clients, quick", clients::quick),
    Step::with_server("code in documents", || conformance::book(&[])),
    Step::with_server("first item, each language", || conformance::first_item(&[])),
    Step::with_server("emulator", clients::emulator_quick),
];

/// The suites of the pages. A browser often waits, and shares no files with the other suites.
const BROWSER_SUITES: &[Step] = &[
    Step::with_server("blog in a browser", || conformance::blog(&[])),
    Step::with_server("console in a browser", || conformance::console(&[])),
];

/// These link the server program anew, so they come after all that uses it.
const PACKAGES: &[Step] = &[
    Step::with_server("packages", dist::test_dev),
    Step::with_server("image", image::test_dev),
];

const QUICK_STEPS: &[Step] = &[
    Step::new("fmt", || checks::format(&["--check".to_owned()])),
    Step::new("clippy", || checks::clippy(&[])),
    Step::new("tidy", || tidy::check(&[])),
    Step::new("unit and golden tests", checks::quick_test),
    Step::new(SERVER, || sdk_tools::server().map(drop)),
    Step::with_server("python smoke test", conformance::python_smoke),
];

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

/// Runs `ci [--quick | --step NAME]`: every step, then the table; or one step.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let started = Instant::now();
    let reports = match arguments[..] {
        [] => run_phases(PHASES),
        ["--quick"] => run_steps(QUICK_STEPS, &[]),
        ["--step", name] => return run_one(name),
        _ => {
            return Err(format!(
                "ci takes `--quick`, `--step NAME` or nothing, not `{}`",
                arguments.join(" ")
            ));
        }
    };
    print!("{}", table(&reports, started.elapsed()));
    verdict(&reports)
}

/// Returns the help text of the command: the steps of both lists.
pub(crate) fn help() -> String {
    let all: Vec<&str> = all_steps().map(|step| step.name).collect();
    let quick: Vec<&str> = QUICK_STEPS.iter().map(|step| step.name).collect();
    format!(
        "Without arguments, everything that must pass before a change lands:\n{}.\n\n\
         With --quick, the checks for the inner loop, under five minutes on a warm build:\n{}.\n\n\
         With --step NAME, the step of this name.\n",
        all.join("; "),
        quick.join("; ")
    )
}

/// Returns the steps of all phases.
fn all_steps() -> impl Iterator<Item = &'static Step> {
    PHASES
        .iter()
        .flat_map(|phase| phase.steps.iter().chain(phase.beside))
}

/// Runs the step of this name. The step that it requires is not run.
fn run_one(name: &str) -> Outcome {
    let step = all_steps()
        .find(|step| step.name == name)
        .ok_or_else(|| format!("ci has no step `{name}`; `cargo xtask help ci` lists the steps"))?;
    (step.needs)()?;
    (step.run)()
}

/// Runs the phases one after another, and both lanes of a phase at the same time.
fn run_phases(phases: &[Phase]) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for phase in phases {
        let before = &reports;
        let (steps, beside) = std::thread::scope(|scope| {
            let beside = scope.spawn(|| run_beside(phase.beside, before));
            let steps = run_steps(phase.steps, before);
            (steps, beside.join())
        });
        reports.extend(steps);
        match beside {
            Ok(beside) => reports.extend(print_beside(beside)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    reports
}

/// Runs the steps one after another with their output passed through. `before` has the reports of
/// earlier steps, for the requirements.
fn run_steps(steps: &[Step], before: &[Report]) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for step in steps {
        println!("\n===== {} =====", step.name);
        let begun = Instant::now();
        let end = match unmet(step, before, &reports) {
            Some(required) => End::NotRun(required),
            None => match (step.needs)() {
                Ok(()) => (step.run)().map_or_else(End::Failed, |()| End::Passed),
                Err(reason) => End::Skipped(reason),
            },
        };
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
fn run_beside(steps: &[Step], before: &[Report]) -> Vec<(Report, PathBuf)> {
    let mut reports = Vec::new();
    for step in steps {
        let output = target_directory()
            .join("ci")
            .join(format!("{}.log", step.name));
        let begun = Instant::now();
        let end = match unmet(step, before, &[]) {
            Some(required) => End::NotRun(required),
            None => run_in_process(step, &output).map_or_else(End::Failed, |()| End::Passed),
        };
        let report = Report {
            name: step.name,
            duration: begun.elapsed(),
            end,
        };
        reports.push((report, output));
    }
    reports
}

/// Runs one step in a process of this program, which writes to the file.
fn run_in_process(step: &Step, output: &PathBuf) -> Outcome {
    let text = |error: std::io::Error| format!("cannot write {}: {error}", output.display());
    if let Some(directory) = output.parent() {
        fs::create_dir_all(directory).map_err(text)?;
    }
    let file = File::create(output).map_err(text)?;
    let errors = file.try_clone().map_err(text)?;
    let this = std::env::current_exe()
        .map_err(|error| format!("this program does not find itself: {error}"))?;
    let mut process = Command::new(this);
    process.args(["ci", "--step", step.name]);
    process.env(PROGRAM_VARIABLE, sdk_tools::server()?);
    must(process.stdout(file).stderr(errors))
}

/// Prints the output of the steps of a second lane and returns their reports.
fn print_beside(reports: Vec<(Report, PathBuf)>) -> impl Iterator<Item = Report> {
    reports.into_iter().map(|(report, output)| {
        println!("\n===== {} =====", report.name);
        match fs::read(&output) {
            Ok(text) => print!("{}", String::from_utf8_lossy(&text)),
            Err(error) => println!("no output: {error}"),
        }
        if let End::Failed(reason) = &report.end {
            println!("----- {} failed: {reason}", report.name);
        }
        report
    })
}

/// Returns the step that must have passed before this step runs, if that step has not.
fn unmet(step: &Step, before: &[Report], reports: &[Report]) -> Option<&'static str> {
    let required = step.requires?;
    let passed = has_passed(before, required) || has_passed(reports, required);
    (!passed).then_some(required)
}

fn has_passed(reports: &[Report], name: &str) -> bool {
    reports
        .iter()
        .any(|report| report.name == name && matches!(report.end, End::Passed))
}

/// Returns a line for each step, and `whole`, the time on the clock: steps of two lanes overlap.
fn table(reports: &[Report], whole: Duration) -> String {
    let mut text = String::from("\n===== summary =====\n");
    for report in reports {
        let end = match &report.end {
            End::Passed => "passed".to_owned(),
            End::Failed(reason) => format!("FAILED   {reason}"),
            End::NotRun(required) => format!("NOT RUN  it requires `{required}`"),
            End::Skipped(reason) => format!("SKIPPED  {reason}"),
        };
        let seconds = report.duration.as_secs_f64();
        text.push_str(&format!("{:<24} {seconds:>7.1} s  {end}\n", report.name));
    }
    text.push_str(&format!("{:<24} {:>7.1} s\n", "all", whole.as_secs_f64()));
    text
}

fn verdict(reports: &[Report]) -> Outcome {
    let mut not_passed = Vec::new();
    for report in reports {
        if !matches!(report.end, End::Passed | End::Skipped(_)) {
            not_passed.push(report.name);
        }
    }
    if not_passed.is_empty() {
        return Ok(());
    }
    Err(format!(
        "{} of {} steps did not pass: {}",
        not_passed.len(),
        reports.len(),
        not_passed.join(", ")
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

    #[test]
    fn all_steps_passing_is_a_pass() {
        assert_eq!(verdict(&run_steps(&[GOOD, GOOD], &[])), Ok(()));
    }

    #[test]
    fn one_failed_step_fails_the_whole_and_hides_no_other() {
        let reports = run_steps(&[BAD, GOOD], &[]);
        assert_eq!(
            verdict(&reports),
            Err("1 of 2 steps did not pass: bad".to_owned())
        );
        let table = table(&reports, Duration::from_secs(90));
        let shows_both = table.contains("FAILED   it rains") && table.contains("passed");
        assert!(shows_both, "{table}");
        assert!(table.contains("   90.0 s\n"), "{table}");
    }

    #[test]
    fn a_step_whose_requirement_failed_is_shown_as_not_run() {
        let reports = run_steps(&[BAD, AFTER_BAD], &[]);
        assert_eq!(
            verdict(&reports),
            Err("2 of 2 steps did not pass: bad, after".to_owned())
        );
        assert!(table(&reports, Duration::ZERO).contains("NOT RUN  it requires `bad`"));
    }

    #[test]
    fn a_step_whose_needs_are_not_there_is_shown_as_skipped_and_fails_nothing() {
        let reports = run_steps(&[GOOD, WITHOUT_NEEDS], &[]);
        assert_eq!(verdict(&reports), Ok(()));
        assert!(table(&reports, Duration::ZERO).contains("SKIPPED  no network"));
    }

    #[test]
    fn every_requirement_names_an_earlier_step() {
        let all: Vec<&Step> = all_steps().collect();
        let quick: Vec<&Step> = QUICK_STEPS.iter().collect();
        for steps in [all, quick] {
            for (place, step) in steps.iter().enumerate() {
                if let Some(required) = step.requires {
                    let is_earlier = steps[..place].iter().any(|step| step.name == required);
                    assert!(is_earlier, "{}", step.name);
                }
            }
        }
    }

    #[test]
    fn a_step_of_a_second_lane_requires_a_step_of_an_earlier_phase() {
        let failed = run_steps(&[BAD], &[]);
        let reports = run_beside(&[AFTER_BAD], &failed);
        assert!(matches!(reports[0].0.end, End::NotRun("bad")));
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
