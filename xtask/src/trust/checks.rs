//! The checks behind `docs/reliability.md`: for each promise the test that tries it, the setting
//! of the first seed, the size of a part and the goal.
//!
//! Promises: a check with a first seed has other cases in each part; a test that did not run, or
//! that does not say how many cases it had, is a failure.
//! Leaves out: the promises in words and their methods, which are in the document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use crate::flaky::packages::{self, Package};
use crate::flaky::test_command;
use crate::sdk_tools::built_program;

/// The variable from which proptest takes the seed of all random cases of a test.
const PROPTEST_SEED: &str = "PROPTEST_RNG_SEED";
/// The program of the simulated worlds.
const SIMULATOR: &str = "orrery-sim";
/// Steps of a simulated world.
const STEPS: &str = "300";

/// A check.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    /// The thing that is counted, in the plural.
    pub(crate) unit: &'static str,
    work: Work,
    /// Number of seeds that a part goes on by, and of cases that it asks for.
    pub(crate) part: u64,
    /// Number of cases that a version is to have.
    pub(crate) goal: u64,
}

/// The program of a check.
enum Work {
    /// A test, with the variables that name the number of its cases and the first seed.
    Test {
        package: &'static str,
        name: &'static str,
        cases: &'static str,
        /// None if the cases follow from the moments at which threads and processes run.
        first: Option<&'static str>,
        /// The text before the number of cases, if the test counts them itself.
        counted: Option<&'static str>,
    },
    /// The simulator, with the arguments before and behind the range of seeds.
    Worlds {
        before: &'static [&'static str],
        behind: &'static [&'static str],
        counted: &'static str,
    },
}

const fn test(
    package: &'static str,
    name: &'static str,
    cases: &'static str,
    first: Option<&'static str>,
) -> Work {
    Work::Test {
        package,
        name,
        cases,
        first,
        counted: None,
    }
}

/// The checks. Among checks with the same share of their goals the first one goes first.
pub(crate) const CHECKS: &[Check] = &[
    Check {
        name: "worlds",
        unit: "simulated worlds of 300 steps",
        work: Work::Worlds {
            before: &["--seeds"],
            behind: &["--steps", STEPS],
            counted: "seeds ",
        },
        part: 500,
        goal: 100_000,
    },
    Check {
        name: "worlds on files",
        unit: "simulated worlds of 300 steps on files",
        work: Work::Worlds {
            before: &["--files", "--seeds"],
            behind: &["--steps", STEPS],
            counted: "seeds ",
        },
        part: 250,
        goal: 20_000,
    },
    Check {
        name: "fleets",
        unit: "simulated fleets of 400 requests",
        work: Work::Worlds {
            before: &["--fleet", "--seeds"],
            behind: &["--requests", "400"],
            counted: "seeds ",
        },
        part: 250,
        goal: 100_000,
    },
    Check {
        name: "crash images",
        unit: "states of the store after a crash at one step of a history",
        work: Work::Test {
            package: "orrery-engine",
            name: "crashes::a_crash_at_any_step_loses_nothing_that_was_acknowledged",
            cases: "ORRERY_CRASH_HISTORIES",
            first: Some("ORRERY_CRASH_FIRST"),
            counted: Some("crash images: "),
        },
        part: 20,
        goal: 1_000_000,
    },
    Check {
        name: "power losses",
        unit: "images of a data directory after a power loss at any operation",
        work: Work::Test {
            package: "orrery-storage",
            name: "power_loss::a_power_loss_at_any_operation_loses_no_answered_commit",
            cases: "ORRERY_POWER_LOSS_HISTORIES",
            first: Some("ORRERY_POWER_LOSS_FIRST"),
            counted: Some("power losses: "),
        },
        part: 90,
        goal: 200_000,
    },
    Check {
        name: "kills",
        unit: "deaths of a server by SIGKILL under writers",
        work: test(
            "orrery-cli",
            "kill9::acknowledged_writes_survive_kill_minus_9",
            "ORRERY_KILL9_ROUNDS",
            Some("ORRERY_KILL9_SEED"),
        ),
        part: 100,
        goal: 10_000,
    },
    Check {
        name: "damages",
        unit: "random damages of one file of a data directory",
        work: test(
            "orrery-cli",
            "verify::each_random_damage_of_a_file_is_found",
            "VERIFY_DAMAGES",
            Some("VERIFY_FIRST"),
        ),
        part: 200,
        goal: 10_000,
    },
    Check {
        name: "backups",
        unit: "backups under load, each fifth interrupted by SIGKILL",
        work: test(
            "orrery-cli",
            "backups::each_backup_under_load_is_the_state_of_one_moment",
            "BACKUP_ROUNDS",
            None,
        ),
        part: 50,
        goal: 2_000,
    },
    Check {
        name: "moments",
        unit: "seconds of a continuous backup under load and kills",
        work: test(
            "orrery-cli",
            "continuous_backup::each_second_is_restored_as_it_was_also_after_kills",
            "MOMENTS_SECONDS",
            None,
        ),
        part: 10,
        goal: 500,
    },
    Check {
        name: "queries",
        unit: "containers with random queries",
        work: test(
            "orrery-engine",
            "queries::queries_return_the_same_rows_as_over_a_plain_list",
            "ORRERY_QUERY_CASES",
            Some(PROPTEST_SEED),
        ),
        part: 2_000,
        goal: 100_000,
    },
    Check {
        name: "writes",
        unit: "random histories of writes",
        work: test(
            "orrery-engine",
            "writes::writes_have_the_same_effect_as_on_a_map",
            "ORRERY_WRITE_CASES",
            Some(PROPTEST_SEED),
        ),
        part: 2_000,
        goal: 100_000,
    },
    Check {
        name: "batches",
        unit: "random histories of batches",
        work: test(
            "orrery-engine",
            "batches::batches_have_the_same_effect_as_their_operations_alone",
            "ORRERY_BATCH_CASES",
            Some(PROPTEST_SEED),
        ),
        part: 5_000,
        goal: 100_000,
    },
    Check {
        name: "versions",
        unit: "random histories replayed from the feed of all versions",
        work: test(
            "orrery-engine",
            "versions::replaying_the_feed_gives_the_current_items",
            "ORRERY_VERSION_CASES",
            Some(PROPTEST_SEED),
        ),
        part: 2_000,
        goal: 100_000,
    },
    Check {
        name: "splits",
        unit: "seeds of random splits and merges in three containers",
        work: test(
            "orrery-engine",
            "splits::splits_and_merges_lose_duplicate_and_reorder_nothing",
            "ORRERY_SPLIT_RUNS",
            Some("ORRERY_SPLIT_FIRST"),
        ),
        part: 10,
        goal: 2_000,
    },
    Check {
        name: "owners",
        unit: "random histories of two processes with one store",
        work: test(
            "orrery-engine",
            "ownership::random_histories_of_two_processes_are_those_of_one",
            "ORRERY_OWNERSHIP_CASES",
            Some(PROPTEST_SEED),
        ),
        part: 5_000,
        goal: 100_000,
    },
    Check {
        name: "stores",
        unit: "random histories of the store on disk against a map",
        work: test(
            "orrery-storage",
            "history::both_engines_agree_with_the_model",
            "ORRERY_STORE_CASES",
            Some(PROPTEST_SEED),
        ),
        part: 200,
        goal: 10_000,
    },
    Check {
        name: "requests",
        unit: "random requests, valid and damaged",
        work: test(
            "orrery-cli",
            "fuzz::every_response_to_a_random_request_is_valid",
            "ORRERY_FUZZ_REQUESTS",
            Some("ORRERY_FUZZ_SEED"),
        ),
        part: 100_000,
        goal: 2_000_000,
    },
    Check {
        name: "planted faults",
        unit: "faults planted in rows of the store, each found",
        work: Work::Worlds {
            before: &["--planted", "--seeds"],
            behind: &[],
            counted: "faults: ",
        },
        part: 100,
        goal: 9_900,
    },
];

/// The test binaries of the checks.
pub(super) struct Programs {
    packages: Vec<Package>,
    binaries: BTreeMap<String, PathBuf>,
}

impl Programs {
    /// Builds the programs of all checks in the profile of development.
    pub(super) fn build() -> Result<Programs, String> {
        let packages = packages::packages()?;
        let names: BTreeSet<String> = CHECKS.iter().map(|check| check.work.binary()).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let binaries = packages::build(&packages, &names)?;
        Ok(Programs { packages, binaries })
    }
}

impl Work {
    fn package(&self) -> &'static str {
        match self {
            Work::Test { package, .. } => package,
            Work::Worlds { .. } => SIMULATOR,
        }
    }

    /// Returns the name of a test binary. The build of that of the simulator builds its program.
    fn binary(&self) -> String {
        format!("{} test {}", self.package(), folder(self.package()))
    }
}

impl Check {
    /// Creates the command of a part whose first seed is `first`.
    pub(super) fn command(&self, programs: &Programs, first: u64) -> Result<Command, String> {
        let binary = self.work.binary();
        match &self.work {
            Work::Worlds { .. } => {
                let mut command = Command::new(built_program(SIMULATOR)?);
                command.args(self.arguments(first));
                Ok(command)
            }
            Work::Test { package, name, .. } => {
                let path = programs.binaries.get(&binary);
                let path = path.ok_or_else(|| format!("cargo built no `{binary}`"))?;
                let mut packages = programs.packages.iter();
                let found = packages.find(|found| found.name == *package);
                let found = found.ok_or_else(|| format!("there is no package `{package}`"))?;
                let mut command = test_command(path, &found.root);
                command.args(["--exact", name, "--nocapture"]);
                command.envs(self.settings(first));
                Ok(command)
            }
        }
    }

    /// Returns the variables of a part: the number of its cases and the first seed.
    fn settings(&self, first: u64) -> Vec<(&'static str, String)> {
        let Work::Test {
            cases, first: seed, ..
        } = &self.work
        else {
            return Vec::new();
        };
        let mut settings = vec![(*cases, self.part.to_string())];
        if let Some(seed) = seed {
            settings.push((*seed, first.to_string()));
        }
        settings
    }

    /// Returns the arguments of the simulator.
    fn arguments(&self, first: u64) -> Vec<String> {
        let Work::Worlds { before, behind, .. } = &self.work else {
            return Vec::new();
        };
        let seeds = format!("{first}..{}", first + self.part);
        let before = before.iter().map(|&text| text.to_owned());
        let behind = behind.iter().map(|&text| text.to_owned());
        before.chain([seeds]).chain(behind).collect()
    }

    /// Returns the number of cases that a part had, from its output. A program that ends well
    /// without the test having run has no cases.
    pub(super) fn counted(&self, output: &str) -> Result<u64, String> {
        let counted = match &self.work {
            Work::Worlds { counted, .. } => Some(*counted),
            Work::Test { counted, .. } => {
                if !output.contains("test result: ok. 1 passed;") {
                    return Err("the test did not run".to_owned());
                }
                *counted
            }
        };
        let Some(mark) = counted else {
            return Ok(self.part);
        };
        let number = output.rsplit_once(mark).map(|(_, rest)| {
            let digits = rest.find(|character: char| !character.is_ascii_digit());
            &rest[..digits.unwrap_or(rest.len())]
        });
        let number = number.and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| format!("the output has no number behind `{mark}`"))
    }

    /// Returns the command line by which a reader repeats the part with the first seed 0.
    pub(super) fn command_line(&self) -> String {
        match &self.work {
            Work::Worlds { .. } => {
                let arguments = self.arguments(0).join(" ");
                format!("cargo run -p {SIMULATOR} -- {arguments}")
            }
            Work::Test { package, name, .. } => {
                let mut line = String::new();
                for (variable, value) in self.settings(0) {
                    line.push_str(&format!("{variable}={value} "));
                }
                let folder = folder(package);
                line + &format!("cargo test -p {package} --test {folder} {name}")
            }
        }
    }
}

/// Returns the name of the folder of a package, which is that of its test binary as well.
fn folder(package: &str) -> &str {
    package.trim_start_matches("orrery-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;

    fn check(name: &str) -> &'static Check {
        let found = CHECKS.iter().find(|check| check.name == name);
        found.expect("the check")
    }

    #[test]
    fn each_check_has_a_name_of_its_own_a_part_and_a_goal() {
        let mut names: Vec<&str> = CHECKS.iter().map(|check| check.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CHECKS.len());
        assert!(CHECKS.iter().all(|c| c.part > 0 && c.goal > c.part));
    }

    #[test]
    fn each_test_exists_and_reads_its_settings() {
        for check in CHECKS {
            let Work::Test {
                package,
                name,
                counted,
                ..
            } = check.work
            else {
                continue;
            };
            let (module, function) = name.split_once("::").expect("a module and a test");
            let folder = folder(package);
            let text = ["core", "program"]
                .iter()
                .map(|street| root().join(format!("{street}/{folder}/tests/{module}.rs")))
                .find_map(|path| std::fs::read_to_string(path).ok())
                .expect("the file of the test");
            assert!(text.contains(&format!("fn {function}(")), "{name}");
            for (variable, _) in check.settings(0) {
                let word = match variable {
                    PROPTEST_SEED => "ProptestConfig::default()",
                    other => other,
                };
                assert!(text.contains(word), "{name} does not read {variable}");
            }
            assert!(counted.is_none_or(|mark| text.contains(mark)), "{name}");
        }
    }

    #[test]
    fn a_part_has_the_seeds_that_follow_its_first_one() {
        let worlds = check("worlds").arguments(1_000);
        assert_eq!(worlds, ["--seeds", "1000..1500", "--steps", "300"]);
        let kills = check("kills").settings(300);
        let of_kills = [
            ("ORRERY_KILL9_ROUNDS", "100".to_owned()),
            ("ORRERY_KILL9_SEED", "300".to_owned()),
        ];
        assert_eq!(kills, of_kills);
        assert_eq!(check("backups").settings(7).len(), 1);
    }

    #[test]
    fn the_command_line_of_a_check_names_the_test_and_its_settings() {
        let line = check("damages").command_line();
        assert_eq!(
            line,
            "VERIFY_DAMAGES=200 VERIFY_FIRST=0 cargo test -p orrery-cli --test cli \
             verify::each_random_damage_of_a_file_is_found"
        );
        let line = check("planted faults").command_line();
        assert_eq!(line, "cargo run -p orrery-sim -- --planted --seeds 0..100");
    }

    #[test]
    fn cases_are_those_that_the_output_counts() {
        let passed = "running 1 test\ncrash images: 288\ntest result: ok. 1 passed; 0 failed";
        assert_eq!(check("crash images").counted(passed), Ok(288));
        assert_eq!(check("kills").counted(passed), Ok(100));
        let worlds = check("worlds").counted("seeds 500 passed, 0 failed\n");
        assert_eq!(worlds, Ok(500));
        let planted = check("planted faults").counted("a: seed 3\nfaults: 99 found");
        assert_eq!(planted, Ok(99));
    }

    #[test]
    fn a_test_that_did_not_run_or_does_not_count_is_refused() {
        let none = "running 0 tests\ntest result: ok. 0 passed; 0 failed";
        assert!(check("kills").counted(none).is_err());
        let uncounted = "test result: ok. 1 passed; 0 failed";
        let refusal = check("crash images").counted(uncounted).unwrap_err();
        assert!(refusal.contains("crash images: "), "{refusal}");
    }
}
