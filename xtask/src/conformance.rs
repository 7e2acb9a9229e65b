//! The official SDKs, unmodified, against our server: builds the server, installs the pinned SDK, runs its suite.
//!
//! ```text
//! conformance/python           azure-cosmos, pytest         venv in target/conformance/python
//! conformance/official-python  the SDK's own test suite     the same venv
//! conformance/sql-cases        queries with known rows      the same venv
//! conformance/javascript       @azure/cosmos, node --test   node_modules beside the suite
//! conformance/scenarios        one table, several SDKs      see `scenarios.rs`
//! conformance/hot-key          the Python SDK against a budget    the same venv
//! conformance/splits           both SDKs at once, histories checked   the same venv and node_modules
//! ```
//!
//! An installation is kept and used again while its stamp, a copy of the list of pins, is unchanged.
//!
//! Promises: the runner's own output and closing line are passed through; each failure says what to do next.
//! Leaves out: starting the server. Each suite starts its own, from the program named in `ORRERY_BIN`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, cargo, must, output_of, program, root, target_directory};
use crate::scenarios;

/// The environment variable by which a suite finds the server program.
pub const PROGRAM_VARIABLE: &str = "ORRERY_BIN";

/// A suite: its name, its directory below `conformance`, and how it is run with further arguments.
type Suite = (&'static str, &'static str, fn(&[String]) -> Outcome);

const SUITES: &[Suite] = &[
    ("ratchet", "ratchet", ratchet),
    ("python", "python", python),
    ("javascript", "javascript", javascript),
    ("sql-cases", "sql-cases", sql_cases),
    ("official-python", "official-python", official_python),
    ("splits", "splits", splits),
    ("hot-key", "hot-key", hot_key),
    ("scenarios", "scenarios", scenarios::judge),
    ("go", "scenarios/go", scenarios::go),
    ("java", "scenarios/java", scenarios::java),
    ("rust", "scenarios/rust", scenarios::rust),
    ("scenarios-python", "scenarios/python", scenarios::python),
    (
        "scenarios-javascript",
        "scenarios/javascript",
        scenarios::javascript,
    ),
];

/// `conformance [SUITE] [arguments for the runner]`; every suite without a name.
pub fn run(arguments: &[String]) -> Outcome {
    let Some((name, rest)) = arguments.split_first() else {
        let ends: Vec<Outcome> = SUITES.iter().map(|(_, _, suite)| suite(&[])).collect();
        return ends.into_iter().collect();
    };
    match SUITES.iter().find(|(known, ..)| known == name) {
        Some((_, _, suite)) => suite(rest),
        None => {
            let known: Vec<&str> = SUITES.iter().map(|(known, ..)| *known).collect();
            Err(format!(
                "there is no suite `{name}`: say {}, or nothing for all",
                known.join(", ")
            ))
        }
    }
}

/// The server program: the one named in the environment, else a fresh build of the dev profile.
pub fn server() -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os(PROGRAM_VARIABLE).filter(|given| !given.is_empty()) {
        let given = root().join(given);
        return match given.is_file() {
            true => Ok(given),
            false => Err(format!(
                "{PROGRAM_VARIABLE} names {}, which is not there",
                given.display()
            )),
        };
    }
    must(&mut cargo(&[
        "build",
        "--locked",
        "--package",
        "orrery-server",
    ]))?;
    let built = target_directory()
        .join("debug")
        .join(format!("orrery{}", std::env::consts::EXE_SUFFIX));
    match built.is_file() {
        true => Ok(built),
        false => Err(format!(
            "orrery-server was built, but there is no program at {}",
            built.display()
        )),
    }
}

/// The tests of what judges the suites that have a list of expected failures.
pub fn ratchet(arguments: &[String]) -> Outcome {
    pytest("ratchet", arguments)
}

/// Our suite for the Python SDK.
pub fn python(arguments: &[String]) -> Outcome {
    pytest("python", arguments)
}

/// Queries with known rows, through the Python SDK.
pub fn sql_cases(arguments: &[String]) -> Outcome {
    pytest("sql-cases", arguments)
}

/// The Python SDK's own test suite; without arguments all of it that is chosen.
pub fn official_python(arguments: &[String]) -> Outcome {
    ratchet(&[])?;
    let suite = root().join("conformance/official-python");
    let mut runner = python_program(&suite)?;
    runner
        .arg("run.py")
        .args(arguments)
        .env(PROGRAM_VARIABLE, server()?);
    runner
        .arg("--cache")
        .arg(target_directory().join("conformance/official-python"));
    must(&mut runner).map_err(|error| {
        format!("{error}; one test again: `cargo xtask conformance official-python FILE -k NAME --tb=long`")
    })
}

/// The part of the Python SDK's own suite that is quick enough for every change.
pub fn official_python_quick() -> Outcome {
    official_python(&["--quick".to_owned()])
}

/// The mixed workload of the Python and JavaScript SDKs: without arguments a small one, after the tests of its checker.
pub fn splits(arguments: &[String]) -> Outcome {
    const SMALL: [&str; 10] = [
        "--actions",
        "mixed",
        "--splits",
        "3",
        "--merges",
        "2",
        "--kills",
        "2",
        "--operations",
        "500",
    ];
    if arguments.is_empty() {
        pytest("splits", &[])?;
        return splits(&SMALL.map(str::to_owned));
    }
    node_modules(&root().join("conformance/javascript"))?;
    let mut run = python_program(&root().join("conformance/splits"))?;
    run.arg("run.py")
        .args(arguments)
        .env(PROGRAM_VARIABLE, server()?);
    must(&mut run).map_err(|error| {
        format!("{error}; `--keep DIRECTORY` keeps the histories and the server's log")
    })
}

/// One hot key against even keys: without arguments the tests, with some the demonstration.
pub fn hot_key(arguments: &[String]) -> Outcome {
    if arguments.is_empty() {
        return pytest("hot-key", &[]);
    }
    let mut run = python_program(&root().join("conformance/hot-key"))?;
    must(
        run.arg("run.py")
            .args(arguments)
            .env(PROGRAM_VARIABLE, server()?),
    )
}

/// A suite of ours that pytest runs.
pub fn pytest(suite: &str, arguments: &[String]) -> Outcome {
    let mut pytest = python_program(&root().join("conformance").join(suite))?;
    pytest
        .args(["-m", "pytest", "-p", "no:cacheprovider"])
        .args(arguments)
        .env(PROGRAM_VARIABLE, server()?);
    must(&mut pytest).map_err(|error| {
        format!("{error}; one test again: `cargo xtask conformance {suite} -k NAME --tb=long`")
    })
}

/// The Python of the suites, to be run in this directory.
pub fn python_program(directory: &Path) -> Result<Command, String> {
    let pins = root().join("conformance/python");
    let python = python_environment(&pins, &target_directory().join("conformance/python"))?;
    let mut command = program(&python, directory);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// A Python with exactly the pinned packages, and its path.
fn python_environment(suite: &Path, environment: &Path) -> Result<PathBuf, String> {
    let system = std::env::var_os("PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let version = output_of(program(&system, suite).arg("--version"))
        .map_err(|error| format!("{error}; the suites need Python 3.11 or newer"))?;
    let pins = read(&suite.join("requirements.txt"))?;
    let stamp = Stamp {
        file: environment.join("installed.stamp"),
        wanted: format!("{version}\n{pins}"),
    };
    let python = environment.join("bin/python");
    if stamp.is_current() && python.is_file() {
        return Ok(python);
    }
    println!("installing the Python SDK into {}", environment.display());
    must(
        program(&system, suite)
            .args(["-m", "venv", "--clear"])
            .arg(environment),
    )
    .map_err(|error| {
        format!("{error}; on Debian `apt-get install python3-venv` brings what is missing")
    })?;
    let mut pip = program(&python, suite);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "-r",
        "requirements.txt",
    ]);
    must(&mut pip).map_err(|error| format!("{error}; is the package registry reachable?"))?;
    must(program(&python, suite).args([
        "-m",
        "pip",
        "check",
        "--quiet",
        "--disable-pip-version-check",
    ]))
    .map_err(|error| format!("{error}; requirements.txt is not complete, see requirements.in"))?;
    stamp.set()?;
    Ok(python)
}

/// The suite of the JavaScript SDK.
pub fn javascript(arguments: &[String]) -> Outcome {
    let server = server()?;
    let suite = root().join("conformance/javascript");
    node_modules(&suite)?;
    let mut node = program("node", &suite);
    node.arg("--test")
        .args(arguments)
        .env(PROGRAM_VARIABLE, server);
    must(&mut node).map_err(|error| {
        format!("{error}; one test again: `cargo xtask conformance javascript --test-name-pattern=NAME FILE`")
    })
}

/// Brings the pinned packages of a suite into its directory.
pub fn node_modules(suite: &Path) -> Outcome {
    let version = output_of(program("node", suite).arg("--version"))
        .map_err(|error| format!("{error}; the suite needs Node.js 20 or newer"))?;
    let lock = read(&suite.join("package-lock.json"))?;
    let modules = suite.join("node_modules");
    let stamp = Stamp {
        file: modules.join(".installed.stamp"),
        wanted: format!("{version}\n{lock}"),
    };
    if stamp.is_current() {
        return Ok(());
    }
    println!("installing the JavaScript SDK into {}", modules.display());
    must(program("npm", suite).args(["ci", "--no-audit", "--no-fund"]))
        .map_err(|error| format!("{error}; is the package registry reachable?"))?;
    stamp.set()
}

/// Says whether an installation is the one wanted.
pub struct Stamp {
    /// Where the stamp lies.
    pub file: PathBuf,
    /// What it says if the installation is the one wanted.
    pub wanted: String,
}

impl Stamp {
    /// Whether what is there is what is wanted.
    pub fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.wanted)
    }

    /// Says that it is there now.
    pub fn set(&self) -> Outcome {
        fs::write(&self.file, &self.wanted)
            .map_err(|error| format!("cannot write {}: {error}", self.file.display()))
    }
}

/// The text of a file.
pub fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_suite_is_refused_by_name() {
        let refusal = run(&["cobol".to_owned()]).unwrap_err();
        assert!(
            refusal.contains("`cobol`") && refusal.contains("sql-cases"),
            "{refusal}"
        );
    }

    #[test]
    fn every_suite_has_its_directory() {
        for (name, directory, _) in SUITES {
            assert!(
                root().join("conformance").join(directory).is_dir(),
                "{name}"
            );
        }
    }

    #[test]
    fn the_official_suite_is_that_of_the_pinned_sdk() {
        let pinned = |file| read(&root().join(file)).unwrap();
        let archive = pinned("conformance/official-python/sdist.txt");
        let version = archive.split_whitespace().next().unwrap();
        assert!(archive.contains("--hash=sha256:"), "{archive}");
        assert!(
            pinned("conformance/python/requirements.txt")
                .lines()
                .any(|pin| pin == version),
            "{version}"
        );
    }

    #[test]
    fn every_python_package_is_pinned_exactly() {
        let pins = read(&root().join("conformance/python/requirements.txt")).unwrap();
        for line in pins
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
        {
            assert!(line.contains("=="), "{line}");
        }
        assert!(pins.contains("azure-cosmos==") && pins.contains("pytest=="));
    }

    #[test]
    fn the_lock_file_names_no_registry() {
        let lock = read(&root().join("conformance/javascript/package-lock.json")).unwrap();
        assert!(lock.contains("\"node_modules/@azure/cosmos\"") && lock.contains("\"integrity\""));
        assert!(
            !lock.contains("\"resolved\""),
            "npm install with omit-lockfile-registry-resolved leaves them out"
        );
    }
}
