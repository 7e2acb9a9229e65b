//! The file of parts: a line for each check and each version of the program.
//!
//! ```text
//! check         kills
//! version       0.1.0
//! cases         1200
//! failures      1
//! next seed     1300
//! seconds       412.7
//! first part    2026-11-30 1a2b3c4
//! last part     2026-12-01 5d6e7f8
//! failed seeds  700..800
//! ```
//!
//! These cells are divided by tabs. A part that failed adds no cases; its seeds are passed over and
//! stay in the line. The first part of another version begins a new line, with the seeds that
//! follow those of all versions before.
//!
//! Leaves out: a line for each part.

use std::path::Path;

use super::checks::Check;
use crate::history::rows::{self, Row};

/// The file, as a path from the root of the repository.
pub(crate) const FILE: &str = "docs/history/trust.tsv";

/// The parts of one check with one version.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tally {
    pub(super) check: String,
    pub(super) version: String,
    pub(super) cases: u64,
    /// Number of parts that failed.
    pub(super) failures: u32,
    /// The first seed that no part has had.
    next_seed: u64,
    pub(super) seconds: f64,
    /// Day and commit of the first part and of the last one.
    pub(super) first: String,
    pub(super) last: String,
    /// The seeds of the parts that failed.
    pub(super) failed_seeds: Vec<String>,
}

/// A part that has ended.
#[derive(Debug)]
pub(super) struct Part {
    /// Day and commit.
    pub(super) moment: String,
    pub(super) first_seed: u64,
    pub(super) seconds: f64,
    /// The number of cases, or the reason of the failure.
    pub(super) end: Result<u64, String>,
}

/// The lines of the file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Tallies(Vec<Tally>);

impl Tallies {
    /// Reads a file; a file that does not exist has no lines.
    pub(super) fn of_file(path: &Path) -> Result<Tallies, String> {
        rows::of_file(path).map(Tallies)
    }

    /// Reads the text of the file.
    pub(super) fn parsed(text: &str) -> Result<Tallies, String> {
        rows::parsed(FILE, text).map(Tallies)
    }

    /// Writes the file anew.
    pub(super) fn write(&self, path: &Path) -> Result<(), String> {
        rows::write(path, &self.0)
    }

    /// Returns the line of a check with a version.
    pub(super) fn get(&self, check: &str, version: &str) -> Option<&Tally> {
        self.0.iter().find(|tally| tally.is_of(check, version))
    }

    /// Returns the number of cases of a check with a version.
    pub(super) fn cases(&self, check: &str, version: &str) -> u64 {
        self.get(check, version).map_or(0, |tally| tally.cases)
    }

    /// Returns the versions that have a line, the newest last.
    pub(super) fn versions(&self) -> Vec<&str> {
        let mut versions: Vec<&str> = Vec::new();
        for tally in &self.0 {
            if !versions.contains(&tally.version.as_str()) {
                versions.push(&tally.version);
            }
        }
        versions
    }

    /// Returns the first seed that no part of a check has had, with any version.
    pub(super) fn next_seed(&self, check: &str) -> u64 {
        let of_check = self.0.iter().filter(|tally| tally.check == check);
        of_check.map(|tally| tally.next_seed).max().unwrap_or(0)
    }

    /// Adds a part to the line of a check with a version.
    pub(super) fn add(&mut self, check: &Check, version: &str, part: &Part) {
        let place = self
            .0
            .iter()
            .position(|tally| tally.is_of(check.name, version));
        let place = place.unwrap_or_else(|| {
            self.0.push(Tally::new(check.name, version, &part.moment));
            self.0.len() - 1
        });
        let tally = &mut self.0[place];
        let end = part.first_seed + check.part;
        tally.next_seed = end;
        tally.seconds += part.seconds;
        tally.last.clone_from(&part.moment);
        match &part.end {
            Ok(cases) => tally.cases += cases,
            Err(_) => {
                tally.failures += 1;
                tally
                    .failed_seeds
                    .push(format!("{}..{end}", part.first_seed));
            }
        }
    }
}

impl Tally {
    fn new(check: &str, version: &str, moment: &str) -> Tally {
        Tally {
            check: check.to_owned(),
            version: version.to_owned(),
            cases: 0,
            failures: 0,
            next_seed: 0,
            seconds: 0.0,
            first: moment.to_owned(),
            last: moment.to_owned(),
            failed_seeds: Vec::new(),
        }
    }

    fn is_of(&self, check: &str, version: &str) -> bool {
        self.check == check && self.version == version
    }
}

impl Row for Tally {
    const HEADING: &'static str = "check\tversion\tcases\tfailures\tnext seed\tseconds\t\
                                   first part\tlast part\tfailed seeds";
    const NAME: &'static str = "count of parts";

    fn cells(&self) -> Vec<String> {
        vec![
            self.check.clone(),
            self.version.clone(),
            self.cases.to_string(),
            self.failures.to_string(),
            self.next_seed.to_string(),
            format!("{:.1}", self.seconds),
            self.first.clone(),
            self.last.clone(),
            self.failed_seeds.join(" "),
        ]
    }

    fn of_cells(cells: &[&str]) -> Option<Tally> {
        let [
            check,
            version,
            cases,
            failures,
            next_seed,
            seconds,
            first,
            last,
            failed_seeds,
        ] = cells
        else {
            return None;
        };
        // A number that is none makes the whole line one of another form.
        Some(Tally {
            check: (*check).to_owned(),
            version: (*version).to_owned(),
            cases: cases.parse().ok()?,
            failures: failures.parse().ok()?,
            next_seed: next_seed.parse().ok()?,
            seconds: seconds.parse().ok()?,
            first: (*first).to_owned(),
            last: (*last).to_owned(),
            failed_seeds: failed_seeds.split_whitespace().map(str::to_owned).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::checks::CHECKS;
    use super::*;

    fn part(first_seed: u64, end: Result<u64, &str>) -> Part {
        Part {
            moment: format!("2026-11-30 {first_seed}"),
            first_seed,
            seconds: 1.5,
            end: end.map_err(str::to_owned),
        }
    }

    fn worlds() -> &'static Check {
        &CHECKS[0]
    }

    #[test]
    fn parts_add_up_in_one_line_and_a_failed_one_keeps_its_seeds() {
        let mut tallies = Tallies::default();
        tallies.add(worlds(), "0.1.0", &part(0, Ok(500)));
        tallies.add(worlds(), "0.1.0", &part(500, Err("seed 700 failed")));
        tallies.add(worlds(), "0.1.0", &part(1_000, Ok(499)));
        let line = "worlds\t0.1.0\t999\t1\t1500\t4.5\t2026-11-30 0\t2026-11-30 1000\t500..1000\n";
        assert_eq!(
            rows::text(&tallies.0),
            format!("{}\n{line}", Tally::HEADING)
        );
        assert_eq!(tallies.next_seed("worlds"), 1_500);
        assert_eq!(tallies.next_seed("kills"), 0);
    }

    #[test]
    fn another_version_counts_anew_with_the_seeds_behind_all_versions() {
        let mut tallies = Tallies::default();
        tallies.add(worlds(), "0.1.0", &part(0, Ok(500)));
        assert_eq!(tallies.cases("worlds", "0.2.0"), 0);
        let first = tallies.next_seed("worlds");
        assert_eq!(first, 500);
        tallies.add(worlds(), "0.2.0", &part(first, Ok(500)));
        assert_eq!(tallies.next_seed("worlds"), 1_000);
        assert_eq!(tallies.cases("worlds", "0.1.0"), 500);
        assert_eq!(tallies.versions(), ["0.1.0", "0.2.0"]);
    }

    #[test]
    fn lines_are_read_back() {
        let mut tallies = Tallies::default();
        tallies.add(worlds(), "0.1.0", &part(0, Ok(500)));
        tallies.add(worlds(), "0.1.0", &part(500, Err("it rains")));
        let read = Tallies::parsed(&rows::text(&tallies.0));
        assert_eq!(read, Ok(tallies));
    }

    #[test]
    fn a_line_of_another_form_is_refused_with_file_and_line() {
        let text = format!("{}\nworlds\t0.1.0\tmany\n", Tally::HEADING);
        let refusal = Tallies::parsed(&text).unwrap_err();
        assert_eq!(
            refusal,
            "docs/history/trust.tsv:2: this is no count of parts"
        );
    }
}
