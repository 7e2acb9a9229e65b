//! The fuzz targets of `fuzz` under libFuzzer, one after another.
//!
//! The program of the targets is built by the toolchain of the project, with counters for each
//! branch; libFuzzer itself comes with a library and needs a C++ compiler. Everything is below
//! `target/fuzz`: the build, and for each target a folder with the inputs that were found, the log,
//! and the inputs that failed.
//!
//! Promises: a target that fails does not keep the others from running, and each failure is printed
//! with the command that repeats it. Left out: sanitizers, which need a nightly compiler; the
//! crates of the targets have no unsafe code.

use crate::run::{Outcome, cargo, must, output_of, root, target_directory};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Minutes of each target, if the command line names none.
const MINUTES: f64 = 5.0;

/// The variable that names the targets to run, separated by commas.
pub(crate) const TARGETS_VARIABLE: &str = "ORRERY_FUZZ_TARGETS";

/// Flags of the compiler: a counter for each branch, calls at comparisons, and the table of places.
const FLAGS: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Bounds of libFuzzer: bytes of an input, seconds for one, and megabytes of the process.
const BOUNDS: &[&str] = &[
    "-max_len=4096",
    "-timeout=10",
    "-rss_limit_mb=2048",
    "-print_final_stats=1",
];

/// A target, and the name of its corpus.
struct Target {
    name: String,
    corpus: String,
}

/// The figures of the run of a target.
struct Report {
    name: String,
    seconds: f64,
    executions: u64,
    new_inputs: u64,
    /// The input that failed, or the reason why there is none.
    failure: Option<Failure>,
}

enum Failure {
    Input(String),
    Other(String),
}

/// Runs the targets, each for `minutes`, and prints a table.
pub(crate) fn run(minutes: Option<&str>) -> Outcome {
    let minutes: f64 = minutes
        .and_then(|text| text.parse().ok())
        .unwrap_or(MINUTES);
    let folder = target_directory().join("fuzz");
    let program = build(&folder)?;
    let chosen = std::env::var(TARGETS_VARIABLE).unwrap_or_default();
    let targets = chosen_of(targets(&program)?, &chosen)?;

    let mut reports = Vec::new();
    for target in &targets {
        println!("{}: {minutes} minutes", target.name);
        reports.push(run_target(&program, &folder, target, minutes)?);
    }
    println!("\n{}", table(&reports));
    let failed: Vec<&str> = reports
        .iter()
        .filter(|report| report.failure.is_some())
        .map(|report| report.name.as_str())
        .collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("these targets failed: {}", failed.join(", "))),
    }
}

/// Builds the program and returns its path.
fn build(folder: &Path) -> Result<PathBuf, String> {
    let host = host()?;
    let build = folder.join("build");
    let mut command = cargo(&[
        "build",
        "--profile",
        "fuzz",
        "--locked",
        "--package",
        "orrery-fuzz",
        "--features",
        "libfuzzer",
        "--bin",
        "fuzz",
        // With a target, build scripts and macros are compiled without the flags.
        "--target",
        &host,
        "--target-dir",
    ]);
    command.arg(&build);
    command.env("RUSTFLAGS", FLAGS.join(" "));
    command.env_remove("CARGO_ENCODED_RUSTFLAGS");
    must(&mut command)?;
    Ok(build.join(host).join("fuzz/fuzz"))
}

/// Returns the name of the machine for which the compiler compiles.
fn host() -> Result<String, String> {
    let text = output_of(Command::new("rustc").arg("-vV").current_dir(root()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned)
        .ok_or_else(|| "`rustc -vV` names no host".to_owned())
}

/// Asks the program for its targets.
fn targets(program: &Path) -> Result<Vec<Target>, String> {
    let text = output_of(Command::new(program).env("ORRERY_FUZZ_TARGET", "list"))?;
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs
        .map(|(name, corpus)| Target {
            name: name.to_owned(),
            corpus: corpus.to_owned(),
        })
        .collect())
}

/// Returns the targets that a list of names chooses; all for no name.
fn chosen_of(targets: Vec<Target>, names: &str) -> Result<Vec<Target>, String> {
    let names: Vec<&str> = names.split(',').filter(|name| !name.is_empty()).collect();
    let is_known = |name: &&str| targets.iter().any(|target| target.name == *name);
    if let Some(name) = names.iter().find(|name| !is_known(name)) {
        return Err(format!("there is no fuzz target `{name}`"));
    }
    let is_chosen = |target: &Target| names.is_empty() || names.contains(&&target.name[..]);
    Ok(targets.into_iter().filter(is_chosen).collect())
}

/// Runs a target. New inputs are added to those of earlier runs.
fn run_target(
    program: &Path,
    folder: &Path,
    target: &Target,
    minutes: f64,
) -> Result<Report, String> {
    let place = folder.join(&target.name);
    let (found, seeds) = (place.join("corpus"), place.join("seeds"));
    // Inputs of an older corpus are not kept.
    let _ = fs::remove_dir_all(&seeds);
    for directory in [&found, &seeds] {
        fs::create_dir_all(directory)
            .map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    let log = place.join("log");
    let file = fs::File::create(&log).map_err(|error| format!("{}: {error}", log.display()))?;

    let mut command = Command::new(program);
    command.args([&found, &seeds]).args(BOUNDS);
    command.arg(format!("-max_total_time={}", (minutes * 60.0).ceil()));
    command.arg(format!("-artifact_prefix={}/", place.display()));
    let dictionary = root().join(format!("fuzz/corpus/{}.dict", target.corpus));
    if dictionary.is_file() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    command.env("ORRERY_FUZZ_TARGET", &target.name);
    command.env("ORRERY_FUZZ_SEEDS", &seeds);
    command
        .current_dir(root())
        .stdout(Stdio::null())
        .stderr(file);
    let started = Instant::now();
    let status = command
        .status()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    let seconds = started.elapsed().as_secs_f64();
    let bytes = fs::read(&log).map_err(|error| format!("{}: {error}", log.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let reason = format!("it ended with {status}; see {}", log.display());
    Ok(report(
        &target.name,
        seconds,
        &text,
        (!status.success()).then_some(reason),
    ))
}

/// Reads the log of libFuzzer. `reason` is that of a program that failed.
fn report(name: &str, seconds: f64, log: &str, reason: Option<String>) -> Report {
    let after = |mark: &str| {
        log.lines()
            .find_map(|line| line.split_once(mark))
            .map(|it| it.1.trim())
    };
    let number = |mark: &str| after(mark).and_then(|text| text.parse().ok()).unwrap_or(0);
    let input = after("Test unit written to ").map(str::to_owned);
    Report {
        name: name.to_owned(),
        seconds,
        executions: number("stat::number_of_executed_units:"),
        new_inputs: number("stat::new_units_added:"),
        failure: reason.map(|reason| match input {
            Some(input) => Failure::Input(input),
            None => Failure::Other(reason),
        }),
    }
}

/// Returns the table of the runs, and below it how to repeat each failure.
fn table(reports: &[Report]) -> String {
    let mut text = format!(
        "{:<14} {:>7} {:>12} {:>9} {:>10}  result\n",
        "target", "seconds", "executions", "a second", "new inputs"
    );
    let mut failures = String::new();
    for report in reports {
        let rate = report.executions as f64 / report.seconds.max(0.001);
        let result = match &report.failure {
            None => "passed",
            Some(_) => "FAILED",
        };
        text.push_str(&format!(
            "{:<14} {:>7.0} {:>12} {:>9.0} {:>10}  {result}\n",
            report.name, report.seconds, report.executions, rate, report.new_inputs
        ));
        match &report.failure {
            None => {}
            Some(Failure::Input(input)) => failures.push_str(&format!(
                "{} fails on an input; repeat it with\n  cargo run -p orrery-fuzz --bin \
                 fuzz-corpus -- run {} {input}\n",
                report.name, report.name
            )),
            Some(Failure::Other(reason)) => {
                failures.push_str(&format!("{}: {reason}\n", report.name));
            }
        }
    }
    text.push_str(&failures);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Seed: 1\n#2\tINITED cov: 5\n\
        artifact_prefix='t/'; Test unit written to t/crash-0a\nBase64: AA==\n\
        stat::number_of_executed_units: 1200\nstat::average_exec_per_sec:     600\n\
        stat::new_units_added:          7\n";

    #[test]
    fn a_log_gives_the_figures_and_the_input_that_failed() {
        let passed = report("patch", 2.0, LOG, None);
        assert_eq!((passed.executions, passed.new_inputs), (1_200, 7));
        let failed = report("patch", 2.0, LOG, Some("it ended".to_owned()));
        let text = table(&[passed, failed]);
        assert!(text.contains("run patch t/crash-0a\n"), "{text}");
        assert_eq!(text.matches(" 600 ").count(), 2, "{text}");
        let lost = report("patch", 2.0, "", Some("it ended".to_owned()));
        assert!(table(&[lost]).contains("patch: it ended\n"));
    }

    #[test]
    fn a_target_that_does_not_exist_is_refused() {
        let targets = || {
            ["a", "b"].map(|name| Target {
                name: name.to_owned(),
                corpus: name.to_owned(),
            })
        };
        let names = |list| {
            let chosen = chosen_of(targets().into(), list).ok()?;
            Some(
                chosen
                    .into_iter()
                    .map(|target| target.name)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(names(""), Some(vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(names("b"), Some(vec!["b".to_owned()]));
        assert_eq!(names("b,c"), None);
    }
}
