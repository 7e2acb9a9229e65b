//! The table of the steps of `ci`: their order, their lanes and their tiers.
//!
//! A step stands once, at its place in the order. It belongs to the first tier, or to the second if
//! its line ends with `.second()`. `docs/testing.md` says why a step is in the second tier.
//!
//! Promises: a step requires only a step of an earlier line.
//! Leaves out: running the steps, which is in `ci.rs`.

use crate::run::Outcome;
use crate::{
    book, checks, clients, conformance, deny, dist, image, scenarios, sdk_tools, tidy, web,
};

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

/// One step: its name, its tier, its function, the name of the earlier step that it requires, and a
/// function that gets what the step needs from outside, or says why it cannot be had.
pub(super) struct Step {
    pub(super) name: &'static str,
    pub(super) tier: Tier,
    pub(super) run: fn() -> Outcome,
    pub(super) requires: Option<&'static str>,
    pub(super) needs: fn() -> Outcome,
}

impl Step {
    /// Creates a step of the first tier that requires no other.
    pub(super) const fn new(name: &'static str, run: fn() -> Outcome) -> Step {
        Step {
            name,
            tier: Tier::First,
            run,
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

    /// Creates a step that requires the server program, and is skipped if `needs` fails.
    const fn with_server_and_needs(
        name: &'static str,
        needs: fn() -> Outcome,
        run: fn() -> Outcome,
    ) -> Step {
        Step {
            needs,
            ..Step::with_server(name, run)
        }
    }

    /// Creates a step that requires the server program.
    const fn with_server(name: &'static str, run: fn() -> Outcome) -> Step {
        Step {
            requires: Some(SERVER),
            ..Step::new(name, run)
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
    Step::with_server_and_needs("conformance dotnet", conformance::has_dotnet, || {
        conformance::dotnet(&[])
    }),
    Step::with_server_and_needs(
        "dotnet in other ways",
        conformance::has_dotnet,
        conformance::dotnet_in_other_ways,
    )
    .second(),
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
    Step::with_server("first item, Python", || {
        conformance::first_item(&["python".to_owned()])
    }),
    Step::with_server("first item, each language", || conformance::first_item(&[])).second(),
    Step::with_server("emulator, quick", clients::emulator_quick),
    Step::with_server("emulator", || clients::emulator(&[])).second(),
];

/// The suites of the pages, and the checks of sources and pins. A browser often waits, and shares
/// no files with the other suites.
const PAGES_AND_CHECKS: Lane = &[
    Step::new("web", web::check),
    Step::with_server("blog in a browser", || conformance::blog(&[])),
    Step::with_server("console in a browser", || conformance::console(&[])),
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
    Step::with_server("python smoke test", conformance::python_smoke),
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
