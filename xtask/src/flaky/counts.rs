//! The file of rounds: a line for each test binary or step, and for each state of its inputs that
//! counts.
//!
//! ```text
//! binary        orrery-sql test golden
//! inputs        0123456789abcdef
//! rounds        20
//! failures      1
//! slowest s     1.4
//! first round   2026-11-26 1a2b3c4
//! last round    2026-11-28 5d6e7f8
//! failed tests  golden::joins
//! ```
//!
//! These cells are divided by tabs. When the inputs of a binary have changed, its first round
//! begins a new line in place of the old one; an old line with a failure stays.
//!
//! Promises: the file on disk has every round that has ended.

use std::path::Path;

use crate::history::rows::{self, Row};

/// The rounds of one binary with one state of its inputs.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Count {
    pub(super) name: String,
    pub(super) inputs: String,
    pub(super) rounds: u32,
    pub(super) failures: u32,
    pub(super) slowest_s: f64,
    /// Day and commit of the first round and of the last one.
    first: String,
    last: String,
    /// Names of the tests that failed.
    failed_tests: Vec<String>,
}

/// One round of a binary.
#[derive(Debug)]
pub(super) struct Round {
    /// Day and commit.
    pub(super) moment: String,
    pub(super) seconds: f64,
    pub(super) has_failed: bool,
    pub(super) failed_tests: Vec<String>,
}

/// The lines of the file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counts(Vec<Count>);

impl Counts {
    /// Reads a file; a file that does not exist has no lines.
    pub(super) fn of_file(path: &Path) -> Result<Counts, String> {
        rows::of_file(path).map(Counts)
    }

    /// Writes the file anew.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        rows::write(path, &self.0)
    }

    /// Returns the line of a binary with these inputs.
    pub(super) fn get(&self, name: &str, inputs: &str) -> Option<&Count> {
        self.0.iter().find(|count| count.is_of(name, inputs))
    }

    /// Returns the rounds of a binary with these inputs.
    pub(super) fn rounds(&self, name: &str, inputs: &str) -> u32 {
        self.get(name, inputs).map_or(0, |count| count.rounds)
    }

    /// Adds a round to the line of a binary with these inputs.
    pub(super) fn add(&mut self, name: &str, inputs: &str, round: &Round) {
        self.0
            .retain(|count| count.name != name || count.inputs == inputs || count.failures > 0);
        let place = self.0.iter().position(|count| count.is_of(name, inputs));
        let place = place.unwrap_or_else(|| {
            self.0.push(Count::new(name, inputs, &round.moment));
            self.0.len() - 1
        });
        let count = &mut self.0[place];
        count.rounds += 1;
        count.failures += u32::from(round.has_failed);
        count.slowest_s = count.slowest_s.max(round.seconds);
        count.last.clone_from(&round.moment);
        for test in &round.failed_tests {
            if !count.failed_tests.contains(test) {
                count.failed_tests.push(test.clone());
            }
        }
        self.0.sort_by(|a, b| a.name.cmp(&b.name));
    }

    /// Removes the lines of binaries that no longer exist, except those with a failure.
    pub(super) fn forget_except(&mut self, names: &[&str]) {
        self.0
            .retain(|count| names.contains(&count.name.as_str()) || count.failures > 0);
    }
}

impl Count {
    fn new(name: &str, inputs: &str, moment: &str) -> Count {
        Count {
            name: name.to_owned(),
            inputs: inputs.to_owned(),
            rounds: 0,
            failures: 0,
            slowest_s: 0.0,
            first: moment.to_owned(),
            last: moment.to_owned(),
            failed_tests: Vec::new(),
        }
    }

    fn is_of(&self, name: &str, inputs: &str) -> bool {
        self.name == name && self.inputs == inputs
    }
}

impl Row for Count {
    const HEADING: &'static str = "binary\tinputs\trounds\tfailures\tslowest s\tfirst round\t\
                                   last round\tfailed tests";
    const NAME: &'static str = "count of rounds";

    fn cells(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            self.inputs.clone(),
            self.rounds.to_string(),
            self.failures.to_string(),
            format!("{:.1}", self.slowest_s),
            self.first.clone(),
            self.last.clone(),
            self.failed_tests.join(" "),
        ]
    }

    fn of_cells(cells: &[&str]) -> Option<Count> {
        let [
            name,
            inputs,
            rounds,
            failures,
            slowest_s,
            first,
            last,
            tests,
        ] = cells
        else {
            return None;
        };
        Some(Count {
            name: (*name).to_owned(),
            inputs: (*inputs).to_owned(),
            rounds: rounds.parse().ok()?,
            failures: failures.parse().ok()?,
            slowest_s: slowest_s.parse().ok()?,
            first: (*first).to_owned(),
            last: (*last).to_owned(),
            failed_tests: tests.split_whitespace().map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(seconds: f64) -> Round {
        Round {
            moment: "2026-11-26 1a2b3c4".to_owned(),
            seconds,
            has_failed: false,
            failed_tests: Vec::new(),
        }
    }

    fn failed(test: &str) -> Round {
        Round {
            moment: "2026-11-28 5d6e7f8".to_owned(),
            has_failed: true,
            failed_tests: vec![test.to_owned()],
            ..passed(2.0)
        }
    }

    #[test]
    fn rounds_add_up_in_one_line() {
        let mut counts = Counts::default();
        counts.add("a lib", "1", &passed(1.5));
        counts.add("a lib", "1", &passed(3.0));
        counts.add("a lib", "1", &failed("m::t"));
        counts.add("a lib", "1", &failed("m::t"));
        let line = "a lib\t1\t4\t2\t3.0\t2026-11-26 1a2b3c4\t2026-11-28 5d6e7f8\tm::t\n";
        assert_eq!(rows::text(&counts.0), format!("{}\n{line}", Count::HEADING));
    }

    #[test]
    fn other_inputs_begin_anew_and_only_a_failure_is_kept() {
        let mut counts = Counts::default();
        counts.add("a lib", "1", &passed(1.0));
        counts.add("b lib", "1", &failed("m::t"));
        counts.add("a lib", "2", &passed(1.0));
        counts.add("b lib", "2", &passed(1.0));
        assert_eq!(counts.get("a lib", "1"), None);
        assert_eq!(counts.rounds("a lib", "2"), 1);
        assert_eq!(counts.rounds("b lib", "2"), 1);
        assert_eq!(counts.get("b lib", "1").unwrap().failures, 1);
    }

    #[test]
    fn a_line_is_read_back_and_one_of_another_form_is_refused() {
        let mut counts = Counts::default();
        counts.add("b lib", "1", &failed("m::t"));
        counts.add("a lib", "1", &passed(1.5));
        let read = rows::parsed("f", &rows::text(&counts.0)).map(Counts);
        assert_eq!(read, Ok(counts));
        let refusal = rows::parsed::<Count>("f", "a lib\t1\n").unwrap_err();
        assert_eq!(refusal, "f:1: this is no count of rounds");
    }

    #[test]
    fn binaries_that_are_gone_are_forgotten_unless_they_failed() {
        let mut counts = Counts::default();
        counts.add("a lib", "1", &passed(1.0));
        counts.add("b lib", "1", &passed(1.0));
        counts.add("c lib", "1", &failed("m::t"));
        counts.forget_except(&["a lib"]);
        assert_eq!(counts.rounds("a lib", "1"), 1);
        assert_eq!(counts.rounds("b lib", "1"), 0);
        assert_eq!(counts.rounds("c lib", "1"), 1);
    }
}
