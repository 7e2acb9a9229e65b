//! The runs that take longer than CI may: many random cases, many splits and kills, the whole suite
//! of the Python SDK, the clients of the package registries, the fuzz targets, and the checks of
//! `docs/reliability.md` in turn.
//!
//! Each run is a row of [`RUNS`]. `docs/testing.md` says what each of them proves, and gives the
//! figures of its last run.

use crate::run::{Outcome, cargo, must};
use crate::{conformance, dist, fleet, fuzz, image, trust};

/// A long run.
struct Run {
    name: &'static str,
    summary: &'static str,
    work: Work,
}

/// The work of a long run.
enum Work {
    /// The tests of a module of a package in the profile `bench`, with environment variables.
    Test {
        package: &'static str,
        module: &'static str,
        settings: &'static [(&'static str, &'static str)],
    },
    /// A command of the benchmarks in the profile `bench`.
    Bench { arguments: &'static [&'static str] },
    /// A run of this program that takes minutes.
    Timed { run: fn(Option<&str>) -> Outcome },
    /// A suite of the SDKs with its arguments.
    Suite {
        run: fn(&[String]) -> Outcome,
        arguments: &'static [&'static str],
    },
}

const RUNS: &[Run] = &[
    Run {
        name: "trust",
        summary: "90 minutes of the checks of docs/reliability.md, with fresh seeds, recorded",
        work: Work::Timed { run: trust::run },
    },
    Run {
        name: "trust-table",
        summary: "the tables of docs/reliability.md anew from the recorded parts",
        work: Work::Timed {
            run: trust::write_table,
        },
    },
    Run {
        name: "queries",
        summary: "100,000 random queries against a plain list",
        work: Work::Test {
            package: "orrery-engine",
            module: "queries",
            settings: &[("ORRERY_QUERY_CASES", "100000")],
        },
    },
    Run {
        name: "writes",
        summary: "20,000 random histories of writes against a map",
        work: Work::Test {
            package: "orrery-engine",
            module: "writes",
            settings: &[("ORRERY_WRITE_CASES", "20000")],
        },
    },
    Run {
        name: "batches",
        summary: "20,000 random batches against the same operations one by one",
        work: Work::Test {
            package: "orrery-engine",
            module: "batches",
            settings: &[("ORRERY_BATCH_CASES", "20000")],
        },
    },
    Run {
        name: "vectors",
        summary: "200 random histories of approximate vector indexes against all vectors",
        work: Work::Test {
            package: "orrery-engine",
            module: "approximate",
            settings: &[("ORRERY_VECTOR_RUNS", "200")],
        },
    },
    Run {
        name: "versions",
        summary: "20,000 random histories replayed from the feed of all versions",
        work: Work::Test {
            package: "orrery-engine",
            module: "versions",
            settings: &[("ORRERY_VERSION_CASES", "20000")],
        },
    },
    Run {
        name: "engine-splits",
        summary: "200 seeds of random splits and merges of one engine",
        work: Work::Test {
            package: "orrery-engine",
            module: "splits",
            settings: &[("ORRERY_SPLIT_RUNS", "200")],
        },
    },
    Run {
        name: "requests",
        summary: "1,000,000 generated requests, valid and damaged, against a server",
        work: Work::Test {
            package: "orrery-cli",
            module: "fuzz",
            settings: &[("ORRERY_FUZZ_REQUESTS", "1000000")],
        },
    },
    Run {
        name: "fuzz",
        summary: "5 minutes of each fuzz target under libFuzzer; needs a C++ compiler",
        work: Work::Timed { run: fuzz::run },
    },
    Run {
        name: "slow-clients",
        summary: "1,100 half heads and 250 clients that never read, against a server",
        work: Work::Test {
            package: "orrery-cli",
            module: "connections",
            settings: &[("ORRERY_SLOW_CLIENTS", "1100")],
        },
    },
    Run {
        name: "slow-visitors",
        summary: "the same against the blog: visitors are served meanwhile",
        work: Work::Test {
            package: "orrery-cli",
            module: "blog_port",
            settings: &[("ORRERY_SLOW_CLIENTS", "1100")],
        },
    },
    Run {
        name: "memory-limit",
        summary: "largest resident memory under 1,000 clients that read slowly or never",
        work: Work::Test {
            package: "orrery-cli",
            module: "memory_limit",
            settings: &[("ORRERY_MEMORY_CLIENTS", "1000")],
        },
    },
    Run {
        name: "damages",
        summary: "200 random damages of the files of a data directory, each found by orrery verify",
        work: Work::Test {
            package: "orrery-cli",
            module: "verify",
            settings: &[("VERIFY_DAMAGES", "200")],
        },
    },
    Run {
        name: "backups",
        summary: "100 backups under load, each restored and verified, with SIGKILL in every fifth",
        work: Work::Test {
            package: "orrery-cli",
            module: "backups",
            settings: &[("BACKUP_ROUNDS", "100")],
        },
    },
    Run {
        name: "moments",
        summary: "50 seconds of a continuous backup under load and kills, each restored",
        work: Work::Test {
            package: "orrery-cli",
            module: "continuous_backup",
            settings: &[("MOMENTS_SECONDS", "50")],
        },
    },
    Run {
        name: "kills",
        summary: "200 rounds of acknowledged writes and SIGKILL",
        work: Work::Test {
            package: "orrery-cli",
            module: "kill9",
            settings: &[("ORRERY_KILL9_ROUNDS", "200")],
        },
    },
    Run {
        name: "neighbours",
        summary: "times of requests beside 40 hostile callers of scripts and 64 of queries",
        work: Work::Test {
            package: "orrery-cli",
            module: "neighbours",
            settings: &[("ORRERY_NEIGHBOURS", "40")],
        },
    },
    Run {
        name: "full-disk",
        summary: "a file system of 192 MB that becomes full; mounts it, which takes root",
        work: Work::Test {
            package: "orrery-cli",
            module: "full_disk",
            settings: &[("ORRERY_FULL_DISK_MB", "192")],
        },
    },
    Run {
        name: "many-containers",
        summary: "start and idle time of a server with 100,000 containers",
        work: Work::Test {
            package: "orrery-cli",
            module: "many_containers",
            settings: &[
                ("ORRERY_MANY_CONTAINERS", "100000"),
                ("ORRERY_MANY_CONTAINERS_IDLE_SECONDS", "30"),
            ],
        },
    },
    Run {
        name: "splits",
        summary: "both SDKs at once through 200 splits and 200 kills, histories checked",
        work: Work::Suite {
            run: conformance::run,
            arguments: &["splits", "--splits", "200", "--kills", "200"],
        },
    },
    Run {
        name: "nodes",
        summary: "both SDKs at once on three nodes, 40 faults of nodes and of PostgreSQL",
        work: Work::Suite {
            run: conformance::run,
            arguments: &["splits", "--nodes", "3", "--kills", "40", "--splits", "20"],
        },
    },
    Run {
        name: "fleet-writes",
        summary: "a million writes by procedures, batches and triggers through faults of a fleet",
        work: Work::Suite {
            run: conformance::run,
            arguments: &["writes", "--writes", "1000000", "--seconds", "1800"],
        },
    },
    Run {
        name: "fleet",
        summary: "a Patroni cluster under every fault, numbered commits checked; takes root",
        work: Work::Suite {
            run: fleet::run,
            arguments: &[],
        },
    },
    Run {
        name: "fleet-nodes",
        summary: "three nodes and both SDKs on a Patroni cluster, 46 faults; takes root",
        work: Work::Suite {
            run: fleet::run,
            arguments: &["--nodes", "3", "--rounds", "2"],
        },
    },
    Run {
        name: "blog-users",
        summary: "30 minutes of 50 users of the blog, a pipeline worker killed every minute",
        work: Work::Bench {
            arguments: &["blog-users", "--kill-workers", "60"],
        },
    },
    Run {
        name: "blog-migration",
        summary: "30 minutes of 50 users of the blog through migrations, killed 20 times",
        work: Work::Bench {
            arguments: &[
                "blog-users",
                "--model",
                "v1",
                "--migrate",
                "v2,v3,v1",
                "--kill-migrate",
                "20",
            ],
        },
    },
    Run {
        name: "footprint",
        summary: "size, time to the first answer and memory of the program for users",
        work: Work::Suite {
            run: image::footprint,
            arguments: &[],
        },
    },
    Run {
        name: "image",
        summary: "the image for users, its size and its suite",
        work: Work::Suite {
            run: image::run,
            arguments: &[],
        },
    },
    Run {
        name: "packages",
        summary: "the archive and the Debian package for users, their sizes and their suite",
        work: Work::Suite {
            run: dist::run,
            arguments: &[],
        },
    },
    Run {
        name: "official-python",
        summary: "the Python SDK's own test suite, whole",
        work: Work::Suite {
            run: conformance::run,
            arguments: &["official-python"],
        },
    },
    Run {
        name: "clients",
        summary: "a program for each client of the package registries",
        work: Work::Suite {
            run: conformance::run,
            arguments: &["clients"],
        },
    },
];

/// Runs `long [--minutes N] [NAME...]`: the named runs, in this order.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let mut arguments = arguments.to_vec();
    let minutes = take_minutes(&mut arguments)?;
    if arguments.is_empty() {
        return Err(format!("name the runs to do\n\n{}", help()));
    }
    // All names are checked first: a misspelt name is reported now, not after hours.
    let mut chosen = Vec::new();
    for name in &arguments {
        match RUNS.iter().find(|run| run.name == name) {
            Some(run) => chosen.push(run),
            None => return Err(format!("there is no long run `{name}`\n\n{}", help())),
        }
    }
    let mut failed = Vec::new();
    for run in chosen {
        println!("\n===== {} =====", run.name);
        if let Err(reason) = run.work.start(minutes.as_deref()) {
            println!("----- {} failed: {reason}", run.name);
            failed.push(run.name);
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("these runs failed: {}", failed.join(", "))),
    }
}

/// Takes the option `--minutes` from the arguments and returns its value.
fn take_minutes(arguments: &mut Vec<String>) -> Result<Option<String>, String> {
    let Some(place) = arguments.iter().position(|text| text == "--minutes") else {
        return Ok(None);
    };
    let value = arguments.get(place + 1).cloned().unwrap_or_default();
    if !value.parse().is_ok_and(|minutes: f64| minutes > 0.0) {
        return Err(format!("--minutes '{value}' is no number of minutes"));
    }
    arguments.drain(place..=place + 1);
    Ok(Some(value))
}

/// Returns the help text of the command: the list of runs.
pub(crate) fn help() -> String {
    let mut text = String::from("The runs, none of which is part of `ci`:\n\n");
    for run in RUNS {
        text.push_str(&format!("  {:<16} {}\n", run.name, run.summary));
    }
    text.push_str(
        "\n--minutes N sets the duration of `trust`, of the runs of the blog, and of each fuzz \
         target.\n",
    );
    text.push_str("docs/testing.md gives the figures of the last runs.\n");
    text.push_str("Variables of the environment replace the settings: ");
    let mut names = Vec::new();
    for run in RUNS {
        if let Work::Test { settings, .. } = run.work {
            names.extend(settings.iter().map(|(name, _)| *name));
        }
    }
    text.push_str(&names.join(", "));
    text.push_str(&format!(
        ".\n{} chooses fuzz targets.\n",
        fuzz::TARGETS_VARIABLE
    ));
    text
}

/// Returns the name of the folder of a package, which is that of its test binary as well.
fn folder(package: &str) -> &str {
    package.trim_start_matches("orrery-")
}

impl Work {
    fn start(&self, minutes: Option<&str>) -> Outcome {
        match *self {
            Work::Test {
                package,
                module,
                settings,
            } => {
                let mut command = cargo(&[
                    "test",
                    "--profile",
                    "bench",
                    "--locked",
                    "--package",
                    package,
                ]);
                let tests = format!("{module}::");
                command.args(["--test", folder(package), &tests, "--", "--nocapture"]);
                // A value that the caller has set is kept.
                for (name, value) in settings {
                    if std::env::var_os(name).is_none() {
                        command.env(name, value);
                    }
                }
                must(&mut command)
            }
            Work::Bench { arguments } => {
                let run = [
                    "run",
                    "--profile",
                    "bench",
                    "--locked",
                    "--package",
                    "orrery-bench",
                    "--",
                ];
                let mut command = cargo(&run);
                command.args(arguments);
                if let Some(minutes) = minutes {
                    command.args(["--minutes", minutes]);
                }
                must(&mut command)
            }
            Work::Timed { run } => run(minutes),
            Work::Suite { run, arguments } => {
                let arguments: Vec<String> = arguments.iter().map(|&a| a.to_owned()).collect();
                run(&arguments)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;
    use std::collections::BTreeSet;

    #[test]
    fn an_unknown_run_is_refused_and_the_runs_are_listed() {
        let refusal = run(&["queries".to_owned(), "forever".to_owned()]).unwrap_err();
        let says_both = refusal.contains("`forever`") && refusal.contains("official-python");
        assert!(says_both, "{refusal}");
    }

    #[test]
    fn each_run_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = RUNS.iter().map(|run| run.name).collect();
        assert_eq!(names.len(), RUNS.len());
    }

    #[test]
    fn every_setting_is_read_by_its_test() {
        for run in RUNS {
            let Work::Test {
                package,
                module,
                settings,
            } = run.work
            else {
                continue;
            };
            let folder = folder(package);
            let text = ["core", "program"]
                .iter()
                .map(|street| root().join(format!("{street}/{folder}/tests/{module}.rs")))
                .find_map(|path| std::fs::read_to_string(path).ok())
                .expect("the file of the test");
            for (name, _) in settings {
                assert!(text.contains(name), "{} does not read {name}", run.name);
            }
        }
    }
}
