//! All that must pass before a change lands: the steps in order, a heading for each, a table at the end.
//!
//! A failed step does not hide the others: every step runs, except one whose ground is missing (the SDK suites need the
//! server that the step before them builds), and that one is shown as not run.
//!
//! Promises: `all` fails if any step failed or did not run.

use std::time::{Duration, Instant};

use crate::run::{Outcome, cargo, must};
use crate::{conformance, scenarios, tidy};

/// One step: its name, what it does, and the earlier step without which it means nothing.
struct Step {
    name: &'static str,
    run: fn() -> Outcome,
    needs: Option<&'static str>,
}

const BUILD: &str = "server";

const STEPS: &[Step] = &[
    Step {
        name: "fmt",
        run: || format(&["--check".to_owned()]),
        needs: None,
    },
    Step {
        name: "clippy",
        run: || clippy(&[]),
        needs: None,
    },
    Step {
        name: "docs",
        run: || docs(&[]),
        needs: None,
    },
    Step {
        name: "tidy",
        run: || tidy::check(&[]),
        needs: None,
    },
    Step {
        name: "test",
        run: || test(&[]),
        needs: None,
    },
    Step {
        name: BUILD,
        run: || conformance::server().map(drop),
        needs: None,
    },
    Step {
        name: "conformance python",
        run: || conformance::python(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "conformance hot-key",
        run: || conformance::hot_key(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "conformance sql-cases",
        run: || conformance::sql_cases(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "official python, quick",
        run: conformance::official_python_quick,
        needs: Some(BUILD),
    },
    Step {
        name: "conformance javascript",
        run: || conformance::javascript(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "mixed workload, small",
        run: || conformance::splits(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "scenarios",
        run: || scenarios::judge(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "scenarios go",
        run: || scenarios::go(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "scenarios java",
        run: || scenarios::java(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "scenarios rust",
        run: || scenarios::rust(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "scenarios python",
        run: || scenarios::python(&[]),
        needs: Some(BUILD),
    },
    Step {
        name: "scenarios javascript",
        run: || scenarios::javascript(&[]),
        needs: Some(BUILD),
    },
];

/// How a step ended and what it took.
struct Report {
    name: &'static str,
    took: Duration,
    end: End,
}

enum End {
    Passed,
    Failed(String),
    NotRun(&'static str),
}

/// Runs every step and prints the table.
pub fn all(arguments: &[String]) -> Outcome {
    if let Some(argument) = arguments.first() {
        return Err(format!("ci takes no arguments, not `{argument}`"));
    }
    let reports = run_steps(STEPS);
    print!("{}", table(&reports));
    verdict(&reports)
}

fn run_steps(steps: &[Step]) -> Vec<Report> {
    let mut reports: Vec<Report> = Vec::new();
    for step in steps {
        println!("\n===== {} =====", step.name);
        let missing = step.needs.filter(|needed| !passed(&reports, needed));
        let began = Instant::now();
        let end = match missing {
            Some(needed) => End::NotRun(needed),
            None => (step.run)().map_or_else(End::Failed, |()| End::Passed),
        };
        if let End::Failed(reason) = &end {
            println!("----- {} failed: {reason}", step.name);
        }
        reports.push(Report {
            name: step.name,
            took: began.elapsed(),
            end,
        });
    }
    reports
}

fn passed(reports: &[Report], name: &str) -> bool {
    reports
        .iter()
        .any(|report| report.name == name && matches!(report.end, End::Passed))
}

fn table(reports: &[Report]) -> String {
    let mut text = String::from("\n===== summary =====\n");
    for Report { name, took, end } in reports {
        let said = match end {
            End::Passed => "passed".to_owned(),
            End::Failed(reason) => format!("FAILED   {reason}"),
            End::NotRun(needed) => format!("NOT RUN  it needs `{needed}`"),
        };
        text.push_str(&format!(
            "{name:<24} {:>7.1} s  {said}\n",
            took.as_secs_f64()
        ));
    }
    text
}

fn verdict(reports: &[Report]) -> Outcome {
    let bad: Vec<&str> = reports
        .iter()
        .filter(|report| !matches!(report.end, End::Passed))
        .map(|report| report.name)
        .collect();
    match bad.as_slice() {
        [] => Ok(()),
        names => Err(format!(
            "{} of {} steps did not pass: {}",
            names.len(),
            reports.len(),
            names.join(", ")
        )),
    }
}

/// `cargo fmt`, with `--check` if asked.
pub fn format(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["fmt", "--all"]);
    must(command.args(arguments)).map_err(|error| match arguments.is_empty() {
        true => error,
        false => format!("{error}; `cargo xtask fmt` puts it right"),
    })
}

/// Clippy on everything, warnings as errors.
pub fn clippy(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["clippy", "--workspace", "--all-targets", "--locked"]);
    must(command.args(arguments).args(["--", "-D", "warnings"]))
}

/// Rustdoc of our own crates, warnings as errors.
pub fn docs(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["doc", "--workspace", "--no-deps", "--locked"]);
    must(command.args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Every Rust test.
pub fn test(arguments: &[String]) -> Outcome {
    let mut command = cargo(&["test", "--workspace", "--locked", "--no-fail-fast"]);
    must(command.args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Step = Step {
        name: "good",
        run: || Ok(()),
        needs: None,
    };
    const BAD: Step = Step {
        name: "bad",
        run: || Err("it rains".to_owned()),
        needs: None,
    };
    const AFTER_BAD: Step = Step {
        name: "after",
        run: || Ok(()),
        needs: Some("bad"),
    };

    #[test]
    fn all_steps_passing_is_a_pass() {
        assert_eq!(verdict(&run_steps(&[GOOD, GOOD])), Ok(()));
    }

    #[test]
    fn one_failed_step_fails_the_whole_and_hides_no_other() {
        let reports = run_steps(&[BAD, GOOD]);
        assert_eq!(
            verdict(&reports),
            Err("1 of 2 steps did not pass: bad".to_owned())
        );
        let table = table(&reports);
        assert!(
            table.contains("FAILED   it rains") && table.contains("passed"),
            "{table}"
        );
    }

    #[test]
    fn a_step_whose_ground_is_missing_is_shown_as_not_run() {
        let reports = run_steps(&[BAD, AFTER_BAD]);
        assert_eq!(
            verdict(&reports),
            Err("2 of 2 steps did not pass: bad, after".to_owned())
        );
        assert!(table(&reports).contains("NOT RUN  it needs `bad`"));
    }

    #[test]
    fn every_need_names_an_earlier_step() {
        for (place, step) in STEPS.iter().enumerate() {
            if let Some(needed) = step.needs {
                assert!(
                    STEPS[..place].iter().any(|earlier| earlier.name == needed),
                    "{}",
                    step.name
                );
            }
        }
    }
}
