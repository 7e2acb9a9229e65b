//! Runs the tests in Rust and finds in their output the tests that failed.
//!
//! Promises: the output is passed through line by line; the reason of a failed run names each test
//! that failed with the place of its panic, and each test binary that failed, so that the end of a
//! long log tells the cause.

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::thread;

use crate::run::{Outcome, ended, start};

/// Runs a command that runs tests, such as `cargo test`.
///
/// # Errors
/// The command line and its end, then a line for each test and each test binary that failed.
pub(crate) fn run(command: &mut Command) -> Outcome {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = start(command)?;
    let errors = child.stderr.take();
    let errors = thread::spawn(move || passed_through(errors, |line| eprintln!("{line}")));
    let output = passed_through(child.stdout.take(), |line| println!("{line}"));
    let end = child.wait();
    let errors = errors.join().unwrap_or_default();
    ended(command, end).map_err(|reason| {
        let mut lines = vec![reason];
        lines.extend(failures(&output));
        lines.extend(failed_binaries(&errors));
        lines.join("\n    ")
    })
}

/// Passes the lines of a stream to `print` and returns them.
fn passed_through(stream: Option<impl Read>, print: fn(&str)) -> Vec<String> {
    let mut lines = Vec::new();
    let Some(stream) = stream else {
        return lines;
    };
    for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        print(&line);
        lines.push(line);
    }
    lines
}

/// Returns the names of the tests that failed, from the lines `test NAME ... FAILED`.
pub(crate) fn failed_tests<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let name = |line: &'a str| line.strip_prefix("test ")?.strip_suffix(" ... FAILED");
    lines.into_iter().filter_map(name).collect()
}

/// Returns a line for each test that failed: its name and the first lines of its panic.
fn failures(lines: &[String]) -> Vec<String> {
    let mut failures = Vec::new();
    for name in failed_tests(lines.iter().map(String::as_str)) {
        let mut failure = name.to_owned();
        let heading = format!("---- {name} stdout ----");
        let output = lines.iter().skip_while(|line| **line != heading).skip(1);
        let mut panic = output
            .take_while(|line| !line.starts_with("---- "))
            .skip_while(|line| !line.contains(" panicked at "));
        if let (Some(place), Some(message)) = (panic.next(), panic.next()) {
            let place = place
                .split_once(" panicked at ")
                .map_or("", |(_, place)| place);
            failure.push_str(&format!(" at {place} {message}"));
        }
        failures.push(failure);
    }
    failures
}

/// Returns a line for each test binary that failed, from the list at the end of cargo's messages.
fn failed_binaries(lines: &[String]) -> Vec<String> {
    let list = lines
        .iter()
        .skip_while(|line| !is_heading_of_binaries(line));
    let list = list.skip(1).take_while(|line| line.starts_with("    "));
    list.map(|line| format!("of {}", line.trim())).collect()
}

/// Tells if the line is `error: 2 targets failed:`, with any number.
fn is_heading_of_binaries(line: &str) -> bool {
    line.starts_with("error: ") && line.trim_end_matches(':').ends_with(" failed")
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\
running 3 tests
test a::b ... ok
test c::d ... FAILED
test e ... FAILED

failures:

---- c::d stdout ----

thread 'c::d' (71) panicked at core/x/src/y.rs:3:4:
assertion failed: one == two
note: run with `RUST_BACKTRACE=1`

---- e stdout ----
Error: \"no directory\"

failures:
    c::d
    e
";

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_failed_test_is_named_with_the_place_and_message_of_its_panic() {
        let expected = [
            "c::d at core/x/src/y.rs:3:4: assertion failed: one == two",
            "e",
        ];
        assert_eq!(failures(&lines(OUTPUT)), expected);
    }

    #[test]
    fn the_binaries_that_failed_are_those_that_cargo_lists() {
        let messages = "error: test failed, to rerun pass `-p a --lib`\n\
                        error: 2 targets failed:\n    `-p a --lib`\n    `-p b --test c`\nend";
        let expected = ["of `-p a --lib`", "of `-p b --test c`"];
        assert_eq!(failed_binaries(&lines(messages)), expected);
        assert!(failed_binaries(&lines("error: could not compile")).is_empty());
    }

    #[test]
    fn a_failed_run_tells_the_tests_that_failed() {
        let script = "echo 'test a::b ... FAILED'; echo 'error: 1 target failed:' >&2; \
                      echo '    `-p a --lib`' >&2; exit 101";
        let reason = run(Command::new("sh").args(["-c", script])).unwrap_err();
        assert!(
            reason.ends_with("\n    a::b\n    of `-p a --lib`"),
            "{reason}"
        );
        assert_eq!(run(Command::new("sh").args(["-c", "echo fine"])), Ok(()));
    }
}
