//! The table of the steps of `ci`: their order, their lanes and their tiers.
//!
//! A step stands once, at its place in the order. It belongs to the first tier, or to the second if
//! its line ends with `.second()`. `docs/testing.md` says why a step is in the second tier.
//!
//! Promises: a step requires only a step of an earlier line.
//! Leaves out: running the steps, which is in `ci.rs`.

use crate::run::Outcome;
use crate::{book, checks, conformance, deny, dist, image, sdk_tools, tidy, web};

/// The run to which a step belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// Runs before every change.
    First,
    /// Runs behind the first tier, with `--all`.
    Second,
}

impl Tier {
    /// Returns the name of the tier in tables and records.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Tier::First => "first",
            Tier::Second => "second",
        }
    }
}

/// The work of a step.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// A function of this program.
    Function(fn() -> Outcome),
    /// A suite of `conformance` by its name, with arguments for its runner.
    Suite(&'static [&'static str]),
}

/// One step: its name, its tier, its work, the name of the earlier step that it requires, and a
/// function that gets what the step needs from outside, or says why it cannot be had.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) tier: Tier,
    pub(super) work: Work,
    pub(super) requires: Option<&'static str>,
    pub(super) needs: fn() -> Outcome,
}

impl Step {
    /// Creates a step of the first tier that requires no other.
    pub(super) const fn new(name: &'static str, run: fn() -> Outcome) -> Step {
        Step {
            name,
            tier: Tier::First,
            work: Work::Function(run),
            requires: None,
            needs: || Ok(()),
        }
    }

    /// Creates a step that is skipped if `needs` fails.
    pub(super) const fn with_needs(
        name: &'static str,
        needs: fn() -> Outcome,
        run: fn() -> Outcome,
    ) -> Step {
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

    /// Creates a step that runs a suite, which requires the server program.
    const fn suite(name: &'static str, words: &'static [&'static str]) -> Step {
        Step {
            work: Work::Suite(words),
            ..Step::with_server(name, || Ok(()))
        }
    }

    /// Creates a step that runs the program with the .NET SDK, and is skipped if it is not there.
    const fn dotnet(name: &'static str, words: &'static [&'static str]) -> Step {
        Step {
            needs: conformance::has_dotnet,
            ..Step::suite(name, words)
        }
    }

    /// Does the work of the step.
    pub(super) fn run(&self) -> Outcome {
        match self.work {
            Work::Function(run) => run(),
            Work::Suite(words) => conformance::run_words(words),
        }
    }

    /// Moves the step to the second tier.
    pub(super) const fn second(self) -> Step {
        Step {
            tier: Tier::Second,
            ..self
        }
    }
}

/// Name of the step that builds the server program.
const SERVER: &str = "server";
/// Name of the step that runs the tests in Rust.
const TEST: &str = "test";

/// Steps that run one after another.
pub(super) type Lane = &'static [Step];

/// The whole CI: its phases, each with its lanes. The lanes of a phase run at the same time, and a
/// later phase begins when all of them have ended. Tests and suites often wait for a process, the
/// disk or a clock, so one lane leaves half of two cores idle.
pub(super) const PHASES: &[&[Lane]] = &[&[BUILD], &[TESTS, SUITES, PAGES_AND_CHECKS], &[PACKAGES]];

/// The build of everything that the later steps run.
const BUILD: Lane = &[
    Step::new("fmt", || checks::format(&["--check".to_owned()])),
    Step::new("clippy", || checks::clippy(&[])),
    Step::new(SERVER, sdk_tools::build_programs),
];

/// The tests in Rust, behind the checks that take moments and find most.
const TESTS: Lane = &[
    Step::new("tidy", || tidy::check(&[])),
    Step::new("book", || book::run(&["--check".to_owned()])),
    Step::with_server(TEST, || checks::test(&[])),
];

/// The suites of the SDKs and of other clients.
const SUITES: Lane = &[
    Step::with_server("users of the blog, short", checks::blog_users),
    Step::suite("conformance python", &["python"]),
    Step::with_server("python on PostgreSQL", conformance::python_on_postgres),
    Step::suite("conformance regions", &["regions"]),
    Step::suite("conformance hot-key", &["hot-key"]),
    Step::suite("backups in buckets", &["buckets"]),
    Step::suite("conformance telemetry", &["telemetry"]),
    Step::suite("conformance sql-cases", &["sql-cases", "--require"]),
    Step::suite("official python, quick", &["official-python", "--quick"]),
    Step::suite("conformance javascript", &["javascript"]),
    Step::dotnet("conformance dotnet", &["dotnet"]),
    Step::dotnet("dotnet in other ways", DOTNET_IN_OTHER_WAYS).second(),
    Step::suite("direct mode over time", &["direct"]).second(),
    Step::suite("assistants", &["mcp"]),
    Step::suite("mixed workload, small", &["splits"]),
    Step::suite("checker of writes", &["writes"]),
    Step::suite("scenarios", &["scenarios"]),
    Step::suite("scenarios go", &["go"]),
    Step::suite("scenarios java", &["java"]),
    Step::suite("scenarios rust", &["rust"]),
    Step::suite("scenarios python", &["scenarios-python"]),
    Step::suite("scenarios javascript", &["scenarios-javascript"]),
    Step::suite("mistakes", &["mistakes"]),
    Step::suite("clients, quick", &["clients", "--quick"]),
    Step::suite("code in documents", &["book"]),
    Step::suite("first item, Python", &["first-item", "python"]),
    Step::suite("first item, each language", &["first-item"]).second(),
    Step::suite("search example", &["search-example"]).second(),
    Step::suite("emulator, quick", &["emulator", "--quick"]),
    Step::suite("emulator", &["emulator"]).second(),
];

/// The program with the .NET SDK in each of the other ways, and its load.
const DOTNET_IN_OTHER_WAYS: &[&str] = &[
    "dotnet",
    "--run=https",
    "--run=refuse",
    "--run=partitions",
    "--run=client-plans",
    "--run=binary",
    "--run=direct-partitions",
    "--run=direct-strong",
    "--run=load",
];

/// The suites of the pages, and the checks of sources and pins. A browser often waits, and shares
/// no files with the other suites.
const PAGES_AND_CHECKS: Lane = &[
    Step::new("web", web::check),
    Step::suite("blog in a browser", &["blog"]),
    Step::suite("console in a browser", &["console"]),
    Step::suite("console at another node", &["waiting"]),
    Step::new("deny", || deny::check(&[])),
    Step::with_needs("deny advisories", deny::fetch_advisories, deny::advisories),
    Step::new("docs", || checks::docs(&[])),
    Step::new("site", book::build).second(),
];

/// These link the server program anew, so they come after all that uses it.
const PACKAGES: Lane = &[
    Step::with_server("packages", dist::test_dev).second(),
    Step::with_server("image", image::test_dev).second(),
];

/// The inner loop of a developer.
pub(super) const QUICK_STEPS: Lane = &[
    Step::new("fmt", || checks::format(&["--check".to_owned()])),
    Step::new("clippy", || checks::clippy(&[])),
    Step::new("tidy", || tidy::check(&[])),
    Step::new("unit and golden tests", checks::quick_test),
    Step::new(SERVER, sdk_tools::build_programs),
    Step::suite(
        "python smoke test",
        &["scenarios-python", "--only", "items.toml"],
    ),
];

/// Returns the steps of all phases.
pub(super) fn all() -> impl Iterator<Item = &'static Step> {
    PHASES.iter().copied().flatten().copied().flatten()
}

/// Returns the steps of the first tier that run a suite against the server program.
pub(crate) fn suites_of_first_tier() -> impl Iterator<Item = &'static str> {
    all()
        .filter(|step| step.tier == Tier::First && step.requires == Some(SERVER))
        .map(|step| step.name)
        // `flaky` repeats the tests in Rust binary by binary.
        .filter(|name| *name != TEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::root;
    use crate::sdk_tools::read;

    /// Returns the steps in the order in which `ci --all` runs them.
    fn of_both_tiers() -> Vec<&'static Step> {
        let mut steps: Vec<&Step> = all().filter(|step| step.tier == Tier::First).collect();
        steps.extend(all().filter(|step| step.tier == Tier::Second));
        steps
    }

    #[test]
    fn every_requirement_names_an_earlier_step() {
        let quick: Vec<&Step> = QUICK_STEPS.iter().collect();
        for steps in [of_both_tiers(), quick] {
            for (place, step) in steps.iter().enumerate() {
                if let Some(required) = step.requires {
                    let is_earlier = steps[..place].iter().any(|step| step.name == required);
                    assert!(is_earlier, "{}", step.name);
                }
            }
        }
    }

    #[test]
    fn a_step_requires_a_step_of_an_earlier_phase() {
        let mut earlier: Vec<&str> = Vec::new();
        for phase in PHASES {
            let steps = phase.iter().copied().flatten();
            for step in steps.clone() {
                let is_earlier = step.requires.is_none_or(|name| earlier.contains(&name));
                assert!(is_earlier, "{}", step.name);
            }
            earlier.extend(steps.map(|step| step.name));
        }
    }

    #[test]
    fn every_step_of_a_suite_names_one() {
        for step in all().chain(QUICK_STEPS) {
            if let Work::Suite(words) = step.work {
                assert!(conformance::find(words[0]).is_ok(), "{}", step.name);
            }
        }
    }

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let mut names: Vec<&str> = all().map(|step| step.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_document_lists_exactly_the_steps_of_the_second_tier() {
        let document = read(&root().join("docs/testing.md")).unwrap();
        let section = document.split("\n## Tiers\n").nth(1).expect("the section");
        let section = section.split("\n## ").next().unwrap();
        for step in all() {
            let is_listed = section.contains(&format!("\n| {} | ", step.name));
            assert_eq!(is_listed, step.tier == Tier::Second, "{}", step.name);
        }
    }

    #[test]
    fn the_suites_of_the_first_tier_are_steps_that_use_the_server() {
        let suites: Vec<&str> = suites_of_first_tier().collect();
        assert!(suites.contains(&"conformance python"));
        assert!(!suites.contains(&"test") && !suites.contains(&"packages"));
    }
}
