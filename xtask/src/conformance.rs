//! The suites of the official SDKs, unmodified, against our server: one function for each suite.
//!
//! ```text
//! conformance/sdk       python          azure-cosmos, pytest          venv in target/
//!                       javascript      @azure/cosmos, node --test    node_modules beside it
//!                       dotnet          a program with the .NET SDK   from outside the repository
//!                       scenarios       one table, several SDKs       see `scenarios.rs`
//!                       mistakes        what users see of mistakes    the drivers of the scenarios
//!                       official-python the SDK's own test suite      the venv of python
//!                       sql-cases       queries with known rows       the venv of python
//!                       clients         clients of the registries     see `clients.rs`
//!                       mcp             the official MCP client       a venv of its own
//!                       telemetry       the receiver of a collector   the venv of python, and Go
//! conformance/faults    splits          both SDKs at once, histories  those of both SDKs
//!                       hot-key         one key against a budget      the venv of python
//!                       regions         nodes in two regions, one lost the venv of python, JDK
//! conformance/release   emulator        consumers of the emulator     see `clients.rs`
//! conformance/pages     blog, console   in Chromium, node --test      node_modules beside each
//! conformance/docs      book            the code blocks of the pages  those of the SDKs
//!                       first-item      examples/first-item           an empty home
//! conformance/lib       postgres        another suite, on PostgreSQL  those of that suite
//!                       ratchet         lists of expected failures    the venv of python
//! ```
//!
//! Promises: the runner's own output and closing line are passed through; each failure says what to
//! do next.
//! Leaves out: starting the server. Each suite starts its own, from the program named in
//! `ORRERY_BIN`.

use std::path::PathBuf;

use crate::clients;
use crate::run::{Outcome, must, program, root, target_directory, this_program};
use crate::scenarios;
use crate::sdk_tools::{
    PROGRAM_VARIABLE, go_program, node_modules, pytest, pytest_with, python_environment,
    python_program, server,
};

/// A suite: its name, its directory below `conformance`, and the function that runs it with further
/// arguments for the runner.
type Suite = (&'static str, &'static str, fn(&[String]) -> Outcome);

const SUITES: &[Suite] = &[
    ("ratchet", "lib/ratchet", ratchet),
    ("python", "sdk/python", python),
    ("javascript", "sdk/javascript", javascript),
    ("dotnet", "sdk/dotnet", dotnet),
    ("sql-cases", "sdk/sql-cases", sql_cases),
    ("official-python", "sdk/official-python", official_python),
    ("splits", "faults/splits", splits),
    ("hot-key", "faults/hot-key", hot_key),
    ("telemetry", "sdk/telemetry", telemetry),
    ("mcp", "sdk/mcp", mcp),
    ("clients", "sdk/clients", clients::run),
    ("emulator", "release/emulator", clients::emulator),
    ("blog", "pages/blog", blog),
    ("console", "pages/console", console),
    ("first-item", "docs/first-item", first_item),
    ("book", "docs/book", book),
    ("scenarios", "sdk/scenarios", scenarios::judge),
    ("mistakes", "sdk/mistakes", scenarios::mistakes),
    ("postgres", "lib/postgres", postgres),
    ("regions", "faults/regions", regions),
    ("go", "sdk/scenarios/go", scenarios::go),
    ("java", "sdk/scenarios/java", scenarios::java),
    ("rust", "sdk/scenarios/rust", scenarios::rust),
    (
        "scenarios-python",
        "sdk/scenarios/python",
        scenarios::python,
    ),
    (
        "scenarios-javascript",
        "sdk/scenarios/javascript",
        scenarios::javascript,
    ),
];

/// Runs `conformance [SUITE] [arguments for the runner]`; without a name, every suite.
pub(crate) fn run(arguments: &[String]) -> Outcome {
    let Some((name, rest)) = arguments.split_first() else {
        // A failed suite does not keep the later ones from running; the first failure is reported.
        let ends: Vec<Outcome> = SUITES
            .iter()
            .map(|(name, _, suite)| match (*name, has_dotnet()) {
                ("dotnet", Err(reason)) => {
                    println!("dotnet is skipped: {reason}");
                    Ok(())
                }
                _ => suite(&[]),
            })
            .collect();
        return ends.into_iter().collect();
    };
    match SUITES.iter().find(|(known, ..)| known == name) {
        Some((_, _, suite)) => suite(rest),
        None => Err(format!(
            "there is no suite `{name}`; the suites are {}",
            suite_names()
        )),
    }
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
         PostgreSQL of the run; without a suite, the quick choice of the Python suites.\n\n\
         {PROGRAM_VARIABLE} names another server program than the one of this tree.\n\
         ORRERY_ENDPOINT and ORRERY_KEY name a server that runs already.\n",
        suite_names()
    )
}

fn suite_names() -> String {
    let names: Vec<&str> = SUITES.iter().map(|(name, ..)| *name).collect();
    names.join(", ")
}

/// Runs the tests of the code that compares a run with its list of expected failures.
pub(crate) fn ratchet(arguments: &[String]) -> Outcome {
    pytest("lib/ratchet", arguments)
}

/// Runs our suite for the Python SDK.
pub(crate) fn python(arguments: &[String]) -> Outcome {
    pytest("sdk/python", arguments)
}

/// Runs the scenarios of items with the Python SDK, which show that the server starts, writes,
/// reads and queries: the smoke test of `ci --quick`.
pub(crate) fn python_smoke() -> Outcome {
    scenarios::python(&["--only".to_owned(), "items.toml".to_owned()])
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

/// Runs the program with the .NET SDK; without arguments, over HTTP.
pub(crate) fn dotnet(arguments: &[String]) -> Outcome {
    pytest("sdk/dotnet", &[])?;
    let dotnet = dotnet_program()?;
    let mut run = python_program(&root().join("conformance/sdk/dotnet"))?;
    run.arg("run.py")
        .arg(dotnet)
        .args(arguments)
        .env(PROGRAM_VARIABLE, server()?);
    must(&mut run).map_err(|error| {
        format!("{error}; one step again: `cargo xtask conformance dotnet --only THEME/STEP`")
    })
}

/// Runs the program with the .NET SDK in each of the other ways, and its load.
pub(crate) fn dotnet_in_other_ways() -> Outcome {
    let runs = [
        "https",
        "refuse",
        "partitions",
        "client-plans",
        "binary",
        "load",
    ];
    let arguments: Vec<String> = runs
        .iter()
        .flat_map(|run| ["--run".to_owned(), (*run).to_owned()])
        .collect();
    dotnet(&arguments)
}

/// Runs queries with known rows, through the Python SDK.
pub(crate) fn sql_cases(arguments: &[String]) -> Outcome {
    pytest("sdk/sql-cases", arguments)
}

/// Runs the Python SDK's own test suite; without arguments, every test listed in `chosen.py`.
pub(crate) fn official_python(arguments: &[String]) -> Outcome {
    ratchet(&[])?;
    let suite = root().join("conformance/sdk/official-python");
    let cache = target_directory().join("conformance/official-python");
    let mut runner = python_program(&suite)?;
    runner
        .arg("run.py")
        .args(arguments)
        .arg("--cache")
        .arg(cache)
        .env(PROGRAM_VARIABLE, server()?);
    must(&mut runner).map_err(|error| {
        format!(
            "{error}; one test again: \
             `cargo xtask conformance official-python FILE -k NAME --tb=long`"
        )
    })
}

/// Runs the part of the Python SDK's own suite that is quick enough for every change.
pub(crate) fn official_python_quick() -> Outcome {
    official_python(&["--quick".to_owned()])
}

/// Runs the mixed workload of the Python and JavaScript SDKs; without arguments, the tests of its
/// checker and then a small workload.
pub(crate) fn splits(arguments: &[String]) -> Outcome {
    const SMALL: &str = "--actions mixed --splits 3 --merges 2 --kills 2 --operations 500";
    if arguments.is_empty() {
        pytest("faults/splits", &[])?;
        let small: Vec<String> = SMALL.split(' ').map(str::to_owned).collect();
        return splits(&small);
    }
    node_modules(&root().join("conformance/sdk/javascript"))?;
    let mut run = python_program(&root().join("conformance/faults/splits"))?;
    run.arg("run.py").args(arguments);
    must(run.env(PROGRAM_VARIABLE, server()?)).map_err(|error| {
        format!("{error}; `--keep DIRECTORY` keeps the histories and the server's log")
    })
}

/// Runs the load on one hot key beside even keys; without arguments, its tests alone.
pub(crate) fn hot_key(arguments: &[String]) -> Outcome {
    if arguments.is_empty() {
        return pytest("faults/hot-key", &[]);
    }
    let mut run = python_program(&root().join("conformance/faults/hot-key"))?;
    run.arg("run.py").args(arguments);
    must(run.env(PROGRAM_VARIABLE, server()?))
}

/// Runs the suite of the export by OpenTelemetry, with the receiver of the collector.
pub(crate) fn telemetry(arguments: &[String]) -> Outcome {
    let source = root().join("conformance/sdk/telemetry/receiver");
    let receiver = target_directory().join("conformance/telemetry/receiver");
    go_program(&source, &receiver)?;
    let variables = [("OTLP_RECEIVER", receiver.as_os_str())];
    pytest_with("sdk/telemetry", arguments, &variables)
}

/// Runs the sessions of the official client of the Model Context Protocol.
pub(crate) fn mcp(arguments: &[String]) -> Outcome {
    let suite = root().join("conformance/sdk/mcp");
    let environment = target_directory().join("conformance/mcp");
    let python = python_environment(&suite, &environment)?;
    let mut pytest = program(&python, &suite);
    pytest
        .args(["-m", "pytest", "-p", "no:cacheprovider"])
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env(PROGRAM_VARIABLE, server()?);
    must(&mut pytest).map_err(|error| {
        format!("{error}; one test again: `cargo xtask conformance mcp -k NAME --tb=long`")
    })
}

/// Runs the suite of the JavaScript SDK.
pub(crate) fn javascript(arguments: &[String]) -> Outcome {
    let server = server()?;
    let suite = root().join("conformance/sdk/javascript");
    node_modules(&suite)?;
    let mut node = program("node", &suite);
    node.arg("--test")
        .args(arguments)
        .env(PROGRAM_VARIABLE, server);
    must(&mut node).map_err(|error| {
        format!(
            "{error}; one test again: \
             `cargo xtask conformance javascript --test-name-pattern=NAME FILE`"
        )
    })
}

/// Runs another suite with servers that keep their data in a PostgreSQL of this run; without a
/// suite, [`python_on_postgres`] and the quick part of the SDK's own suite.
pub(crate) fn postgres(arguments: &[String]) -> Outcome {
    if arguments.is_empty() {
        python_on_postgres()?;
        return postgres(&["official-python".to_owned(), "--quick".to_owned()]);
    }
    let command = this_program()?;
    let mut run = python_program(&root().join("conformance/lib/postgres"))?;
    run.arg("run.py").arg("--program").arg(server()?);
    run.arg(command).arg("conformance").args(arguments);
    must(&mut run).map_err(|error| {
        format!("{error}; one test again: `cargo xtask conformance postgres SUITE -k NAME`")
    })
}

/// Runs the scenarios with the Python SDK and the suite of this SDK with servers that keep their
/// data in a PostgreSQL of this run. Over http alone: a store does not see how a request came.
pub(crate) fn python_on_postgres() -> Outcome {
    let scenarios = ["scenarios-python", "--scheme", "http"];
    postgres(&scenarios.map(str::to_owned))?;
    let suite = ["python", "-k", "not https"];
    postgres(&suite.map(str::to_owned))
}

/// Runs nodes in two regions on a PostgreSQL of this run under the Python and the Java SDK: one is
/// lost, and one reads a standby that is behind.
pub(crate) fn regions(arguments: &[String]) -> Outcome {
    let java = scenarios::java_libraries()?;
    let variables = [("ORRERY_JAVA_CLASS_PATH", java.as_ref())];
    pytest_with("faults/regions", arguments, &variables)
}

/// Runs the browser's suite of the blog. Screenshots go to `target/conformance/blog`.
pub(crate) fn blog(arguments: &[String]) -> Outcome {
    const AGAIN: &str = "one test again: \
                         `cargo xtask conformance blog --test-name-pattern=NAME`";
    let server = server()?;
    let suite = root().join("conformance/pages/blog");
    node_modules(&suite)?;
    let mut node = program("node", &suite);
    node.arg("--test")
        .args(arguments)
        .arg("blog.test.js")
        .env("ORRERY_SHOTS", target_directory().join("conformance/blog"))
        .env(PROGRAM_VARIABLE, server);
    must(&mut node).map_err(|error| format!("{error}; {AGAIN}"))
}

/// Runs the browser's suite of the console. Screenshots go to `target/conformance/console`.
pub(crate) fn console(arguments: &[String]) -> Outcome {
    const AGAIN: &str = "one file again: `cargo xtask conformance console tests/NAME.test.js`";
    let server = server()?;
    let suite = root().join("conformance/pages/console");
    node_modules(&suite)?;
    // The programs that the console generates run with the SDKs of the other suites.
    node_modules(&root().join("conformance/sdk/javascript"))?;
    let python = python_program(&suite)?;
    scenarios::java_libraries()?;
    let shots = target_directory().join("conformance/console");
    let mut node = program("node", &suite);
    // A page often waits for its next event, so more files run at a time than there are cores.
    node.args(["--test", "--test-concurrency=3"])
        .args(arguments)
        .env("ORRERY_SHOTS", shots)
        .env("ORRERY_PYTHON", python.get_program())
        .env("ORRERY_TARGET", target_directory())
        .env(PROGRAM_VARIABLE, server);
    must(&mut node).map_err(|error| format!("{error}; {AGAIN}"))
}

/// Measures the time from an empty home directory to the first item in each language; the arguments
/// name languages, all without one.
pub(crate) fn first_item(arguments: &[String]) -> Outcome {
    let mut run = python_program(&root().join("conformance/docs/first-item"))?;
    run.arg("run.py").args(arguments);
    must(run.env(PROGRAM_VARIABLE, server()?)).map_err(|error| {
        format!("{error}; one language again: `cargo xtask conformance first-item LANGUAGE`")
    })
}

/// Runs the code blocks of the documents; the arguments name pages, all without one.
pub(crate) fn book(arguments: &[String]) -> Outcome {
    let suite = root().join("conformance/docs/book");
    if arguments.is_empty() {
        pytest("docs/book", &["-q".to_owned()])?;
    }
    node_modules(&root().join("conformance/sdk/javascript"))?;
    let java = scenarios::java_libraries()?;
    let mut run = python_program(&suite)?;
    run.arg("run.py")
        .args(arguments)
        .env("ORRERY_JAVA_CLASS_PATH", java)
        .env(
            "ORRERY_RUST_TARGET",
            target_directory().join("conformance/scenarios/rust"),
        );
    must(run.env(PROGRAM_VARIABLE, server()?)).map_err(|error| {
        format!("{error}; one page again: `cargo xtask conformance book docs/PAGE.md`")
    })
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
        for (name, directory, _) in SUITES {
            let path = root().join("conformance").join(directory);
            assert!(path.is_dir(), "{name}");
        }
    }
}
