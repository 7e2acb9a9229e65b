//! The figures of a run, and their line in `docs/history/bench.tsv` with `--record`.
//!
//! A command states each figure where it prints it; `cargo xtask history bench` prints the lines of
//! several runs side by side.
//!
//! Promises: a command that failed, or that stated no figure, has no line.

#[path = "../../xtask/src/history/line.rs"]
mod line;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::Result;
use line::{Facts, Line};

const FILE: &str = "docs/history/bench.tsv";
/// Options with a path of this machine, which the name of a run leaves out.
const PATHS: [&str; 3] = ["--data", "--directory", "--python"];

/// The figures of this run, in the order of their output.
static FIGURES: Mutex<Vec<(String, String)>> = Mutex::new(Vec::new());

/// States a figure. The name ends with the unit: `create, 400 B, µs`.
pub(crate) fn figure(name: impl Into<String>, value: f64) {
    let mut figures = FIGURES.lock().unwrap_or_else(PoisonError::into_inner);
    figures.push((name.into(), rounded(value)));
}

/// Returns the facts of this moment, for a run that begins now.
pub(crate) fn begin() -> Facts {
    Facts::now()
}

/// Appends the line of a run that has ended well.
pub(crate) fn save(facts: Facts, arguments: &[String]) -> Result<()> {
    let figures = FIGURES.lock().unwrap_or_else(PoisonError::into_inner);
    let line = line_of(facts, arguments, figures.clone())?;
    line.append(FILE)?;
    println!("recorded in {FILE}: {}", line.subject);
    Ok(())
}

/// Returns the line of a run.
fn line_of(facts: Facts, arguments: &[String], figures: Vec<(String, String)>) -> Result<Line> {
    if figures.is_empty() {
        return Err("this command measures nothing, so --record has nothing to record".into());
    }
    Ok(Line {
        facts,
        subject: subject(arguments),
        state: profile()?,
        result: "passed".to_owned(),
        figures,
    })
}

/// Returns the profile with which this program was built: cargo names the folder after it.
fn profile() -> Result<String> {
    let program = std::env::current_exe()?;
    let folder = program.parent().and_then(Path::file_name);
    let name = folder.ok_or("this program is in no folder")?;
    Ok(name.to_string_lossy().into_owned())
}

/// Returns the command and its options, without `--record` and without paths.
fn subject(arguments: &[String]) -> String {
    let mut words: Vec<&str> = Vec::new();
    let mut is_path = false;
    for argument in arguments {
        let option = argument.split('=').next().unwrap_or_default();
        if PATHS.contains(&option) {
            is_path = option.len() == argument.len();
        } else if is_path {
            is_path = false;
        } else if argument != "--record" {
            words.push(argument);
        }
    }
    words.join(" ")
}

/// Returns a figure with three digits or more.
fn rounded(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_run_is_named_by_its_command_and_options_without_paths() {
        let named = subject(&words(
            "http --rounds 5 --directory /d --record --seconds 1",
        ));
        assert_eq!(named, "http --rounds 5 --seconds 1");
        assert_eq!(subject(&words("--record bulk --directory=/d")), "bulk");
    }

    #[test]
    fn figures_have_three_digits_or_more() {
        let rounds = [12_345.6, 12.34, 1.234, 0.1234].map(rounded);
        assert_eq!(rounds, ["12346", "12.3", "1.23", "0.123"]);
    }

    #[test]
    fn a_run_without_figures_is_refused_and_others_are_a_line() {
        let figures = vec![("create, µs".to_owned(), "1.50".to_owned())];
        let line = line_of(begin(), &words("engine --record"), figures).expect("a line");
        assert_eq!(line.subject, "engine");
        assert!(line.text().ends_with("\tpassed\tcreate, µs=1.50\n"));
        let refusal = line_of(begin(), &words("fleet-model"), Vec::new()).err();
        assert!(refusal.expect("a refusal").to_string().contains("--record"));
    }
}
