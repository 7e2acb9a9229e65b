//! The suites of `conformance/`, which run unmodified clients against our server: one row for each
//! suite, and a function for what it needs. `conformance/README.md` describes them.
//!
//! Promises: the runner's own output and closing line are passed through.
//! Leaves out: the suites of the image, of the packages and of a whole fleet, which `image.rs`,
//! `dist.rs` and `fleet.rs` run; the ways to start a runner (`suite.rs`).

use std::path::PathBuf;

use crate::clients;
use crate::run::{Outcome, program, root, target_directory, this_program};
use crate::scenarios;
use crate::sdk_tools::{
    PROGRAM_VARIABLE, go_program, javascript_sdk, python_environment, python_program, server,
};
use crate::suite::{Run, Suite};

const SUITES: &[Suite] = &[
    suite("python", "sdk/python", Suite::pytest),
    suite("javascript", "sdk/javascript", javascript),
    suite("dotnet", "sdk/dotnet", dotnet),
    suite("direct", "sdk/direct", java_clients),
    suite("scenarios", "sdk/scenarios", Suite::pytest),
    suite("go", "sdk/scenarios/go", scenarios::go),
    suite("java", "sdk/scenarios/java", scenarios::java),
    suite("rust", "sdk/scenarios/rust", scenarios::rust),
    suite(
        "scenarios-python",
        "sdk/scenarios/python",
        scenarios::python,
    ),
    suite(
        "scenarios-javascript",
        "sdk/scenarios/javascript",
        scenarios::javascript,
    ),
    suite("mistakes", "sdk/mistakes", scenarios::mistakes),
    suite("official-python", "sdk/official-python", official_python),
    suite("sql-cases", "sdk/sql-cases", Suite::pytest),
    suite("clients", "sdk/clients", clients::start),
    suite("mcp", "sdk/mcp", own_python),
    suite("telemetry", "sdk/telemetry", telemetry),
    suite("splits", "faults/splits", splits),
    suite("writes", "faults/writes", writes),
    suite("hot-key", "faults/hot-key", hot_key),
    suite("regions", "faults/regions", java_clients),
    suite("buckets", "faults/buckets", own_python),
    suite("emulator", "release/emulator", clients::start),
    suite("blog", "pages/blog", blog),
    suite("console", "pages/console", console),
    suite("book", "docs/book", book),
    suite("first-item", "docs/first-item", first_item),
    suite("search-example", "docs/search", search_example),
    suite("postgres", "lib/postgres", postgres),
    suite("waiting", "lib/postgres", waiting),
    suite("ratchet", "lib/ratchet", Suite::pytest),
];

const fn suite(
    name: &'static str,
    directory: &'static str,
    start: fn(&Suite, &[String]) -> Result<Run, String>,
) -> Suite {
    Suite {
        name,
        directory,
        start,
    }
}

/// Runs `conformance [SUITE] [arguments for the runner]`; without a name, every suite.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    if let Some((name, rest)) = arguments.split_first() {
        return find(name)?.run(rest);
    }
    // A failed suite does not keep the later ones from running; the first failure is reported.
    let ends: Vec<Outcome> = SUITES
        .iter()
        .map(|suite| match (suite.name, has_dotnet()) {
            ("dotnet", Err(reason)) => {
                println!("dotnet is skipped: {reason}");
                Ok(())
            }
            _ => suite.run(&[]),
        })
        .collect();
    ends.into_iter().collect()
}

/// Runs the suite that the first word names; the others are arguments for its runner.
pub(crate) fn run_words(words: &[&str]) -> Outcome {
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    run(&words)
}

/// Returns the suite of this name.
///
/// # Errors
/// There is none; the text lists the names.
pub(crate) fn find(name: &str) -> Result<&'static Suite, String> {
    let found = SUITES.iter().find(|suite| suite.name == name);
    found.ok_or_else(|| {
        let names = suite_names();
        format!("there is no suite `{name}`; the suites are {names}")
    })
}

/// Returns the help text of the command: the suites and how to run one test of each.
pub(crate) fn help() -> String {
    format!(
        "Without a suite, every suite runs. Further arguments go to the suite's runner.\n\
         Suites: {}.\n\n\
         cargo xtask conformance python -k throttled --tb=long\n\
         cargo xtask conformance javascript --test-name-pattern=\"query plan\" queries.test.js\n\
         cargo xtask conformance go --only \"stale etag\"\n\n\
         `postgres SUITE [arguments]` runs a suite with servers that keep their data in a\n\
         PostgreSQL of the run; without a suite, the quick choice of the Python suites.\n\
         `waiting SUITE [arguments]` does so with nodes that do not hold the lease; without a\n\
         suite, pages of the console.\n\n\
         {PROGRAM_VARIABLE} names another server program than the one of this tree.\n\
         ORRERY_ENDPOINT and ORRERY_KEY name a server that runs already.\n",
        suite_names()
    )
}

fn suite_names() -> String {
    let names: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    names.join(", ")
}

fn javascript(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    let mut run = suite.node_tests("--test-name-pattern=NAME FILE")?;
    run.command.args(arguments);
    Ok(run)
}

/// The environment variable that names the program of the suite of the .NET SDK.
const DOTNET_VARIABLE: &str = "ORRERY_DOTNET";

/// Returns the program of the suite of the .NET SDK: the one named in the environment, or else the
/// one beside the repository.
fn dotnet_program() -> Result<PathBuf, String> {
    let named = std::env::var_os(DOTNET_VARIABLE).filter(|name| !name.is_empty());
    let beside = root().join("../shared/dotnet/orrery-dotnet");
    let path = named.map_or(beside, PathBuf::from);
    match path.is_file() {
        true => Ok(path),
        false => Err(format!(
            "there is no program with the .NET SDK at {}; {DOTNET_VARIABLE} names another place",
            path.display()
        )),
    }
}

/// Returns why the suite of the .NET SDK is skipped, if it is: its program is not there. A CI whose
/// machine has files beside the repository runs the suite in any case.
pub(crate) fn has_dotnet() -> Outcome {
    let is_required = std::env::var_os("CI").is_some() && root().join("../shared").is_dir();
    match dotnet_program() {
        Err(reason) if !is_required => Err(reason),
        _ => Ok(()),
    }
}

/// Starts the program with the .NET SDK; without arguments, in both modes, which are compared.
fn dotnet(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    suite.test_runner()?;
    let dotnet = dotnet_program()?;
    let mut run = suite.script(&[], "--only THEME/STEP")?;
    run.command.arg(dotnet).args(arguments);
    Ok(run)
}

/// Starts the Python SDK's own test suite; without arguments, every test listed in `chosen.py`.
fn official_python(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    find("ratchet")?.run(&[])?;
    let mut run = suite.script(arguments, "FILE -k NAME --tb=long")?;
    run.command.arg("--cache").arg(suite.output());
    Ok(run)
}

/// Starts the mixed workload of the Python and JavaScript SDKs; without arguments, the tests of its
/// checker run and then a small workload.
fn splits(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    const SMALL: &str = "--actions mixed --splits 3 --merges 2 --kills 2 --operations 500";
    if arguments.is_empty() {
        suite.test_runner()?;
    }
    javascript_sdk()?;
    let mut run = suite.script(arguments, "--keep DIRECTORY")?;
    if arguments.is_empty() {
        run.command.args(SMALL.split(' '));
    }
    Ok(run)
}

/// Starts the load on one hot key beside even keys; without arguments, its tests alone.
fn hot_key(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    match arguments {
        [] => suite.pytest(arguments),
        _ => suite.script(arguments, "--ru N --seconds N"),
    }
}

/// Starts the writes through faults of nodes and clusters; without arguments, the tests of the
/// checker.
fn writes(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    match arguments {
        [] => suite.pytest(arguments),
        _ => suite.script(arguments, "--writes N --seconds N"),
    }
}

/// Starts the suite of the export by OpenTelemetry, with the receiver of the collector.
fn telemetry(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    let receiver = suite.output().join("receiver");
    go_program(&suite.path().join("receiver"), &receiver)?;
    let mut run = suite.pytest(arguments)?;
    run.command.env("OTLP_RECEIVER", receiver);
    Ok(run)
}

/// Starts a suite in Python with packages of its own: the official client of the Model Context
/// Protocol, or a service with the protocol of Amazon S3.
fn own_python(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    let python = python_environment(&suite.path(), &suite.output())?;
    suite.pytest_with(program(python, &suite.path()), arguments)
}

/// Starts another suite with servers that keep their data in a PostgreSQL of this run; without a
/// suite, [`python_on_postgres`] and the quick part of the SDK's own suite.
fn postgres(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    if arguments.is_empty() {
        python_on_postgres()?;
        return postgres(suite, &["official-python".to_owned(), "--quick".to_owned()]);
    }
    let mut run = suite.script(&[], "SUITE -k NAME")?;
    run.command.arg("--program").arg(server()?);
    let command = run.command.arg(this_program()?);
    command.arg("conformance").args(arguments);
    Ok(run)
}

/// Starts another suite with servers that are nodes of a fleet beside the leaseholder; without a
/// suite, some pages of the console.
fn waiting(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    if arguments.is_empty() {
        let pages = ["console", "tests/tree.test.js", "tests/items.test.js"];
        return waiting(suite, &pages.map(str::to_owned));
    }
    let mut run = suite.script(&[], "SUITE -k NAME")?;
    run.command.arg("--waiting").arg("--program").arg(server()?);
    let command = run.command.arg(this_program()?);
    command.arg("conformance").args(arguments);
    Ok(run)
}

/// Runs the scenarios with the Python SDK and the suite of this SDK with servers that keep their
/// data in a PostgreSQL of this run. Over http alone: a store does not see how a request came.
pub(crate) fn python_on_postgres() -> Outcome {
    run_words(&["postgres", "scenarios-python", "--scheme", "http"])?;
    run_words(&["postgres", "python", "-k", "not https"])
}

/// Starts a suite whose tests run programs with the libraries of the Java SDK.
fn java_clients(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    let java = scenarios::java_libraries()?;
    let mut run = suite.pytest(arguments)?;
    run.command.env("ORRERY_JAVA_CLASS_PATH", java);
    Ok(run)
}

/// Starts the browser's suite of the blog, with a directory for its screenshots.
fn blog(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    let mut run = suite.node_tests("--test-name-pattern=NAME")?;
    run.command.args(arguments).arg("blog.test.js");
    run.command.env("ORRERY_SHOTS", suite.output());
    Ok(run)
}

/// Starts the browser's suite of the console, with a directory for its screenshots.
fn console(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    // The programs that the console generates run with the SDKs of the other suites.
    javascript_sdk()?;
    let python = python_program(&suite.path())?;
    scenarios::java_libraries()?;
    let mut run = suite.node_tests("tests/NAME.test.js")?;
    // A page often waits for its next event, so more files run at a time than there are cores.
    run.command.arg("--test-concurrency=3").args(arguments);
    run.command
        .env("ORRERY_SHOTS", suite.output())
        .env("ORRERY_PYTHON", python.get_program())
        .env("ORRERY_TARGET", target_directory());
    Ok(run)
}

/// Starts the measurement of the time from an empty home directory to the first item; the arguments
/// name languages, all without one.
fn first_item(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    suite.script(arguments, "LANGUAGE")
}

/// Starts the run of the example of searches.
fn search_example(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    suite.script(arguments, "nothing")
}

/// Starts the code blocks of the documents; the arguments name pages, all without one.
fn book(suite: &Suite, arguments: &[String]) -> Result<Run, String> {
    if arguments.is_empty() {
        suite.test_runner()?;
    }
    javascript_sdk()?;
    let java = scenarios::java_libraries()?;
    let rust = target_directory().join("conformance/scenarios/rust");
    let mut run = suite.script(arguments, "docs/PAGE.md")?;
    run.command
        .env("ORRERY_JAVA_CLASS_PATH", java)
        .env("ORRERY_RUST_TARGET", rust);
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_suite_is_refused_by_name() {
        let refusal = run(&["cobol".to_owned()]).unwrap_err();
        let names_both = refusal.contains("`cobol`") && refusal.contains("sql-cases");
        assert!(names_both, "{refusal}");
    }

    #[test]
    fn every_suite_has_its_directory() {
        for suite in SUITES {
            assert!(suite.path().is_dir(), "{}", suite.name);
        }
    }
}
