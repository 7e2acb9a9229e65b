//! The official SDKs, unmodified, against our server: builds the server, installs the pinned SDK, runs its suite.
//!
//! ```text
//! conformance/python      azure-cosmos, pytest         venv in target/conformance/python
//! conformance/javascript  @azure/cosmos, node --test   node_modules beside the suite
//! ```
//!
//! An installation is kept and used again while its stamp, a copy of the list of pins, is unchanged.
//!
//! Promises: the runner's own output and closing line are passed through; each failure says what to do next.
//! Leaves out: starting the server. Each suite starts its own, from the program named in `ORRERY_BIN`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, cargo, must, output_of, program, root, target_directory};

/// The environment variable by which a suite finds the server program.
const PROGRAM_VARIABLE: &str = "ORRERY_BIN";

/// `conformance [python|javascript] [arguments for the runner]`; both without a name.
pub fn run(arguments: &[String]) -> Outcome {
    match arguments.split_first() {
        None => {
            let (python, javascript) = (self::python(&[]), self::javascript(&[]));
            python.and(javascript)
        }
        Some((sdk, rest)) if sdk == "python" => python(rest),
        Some((sdk, rest)) if sdk == "javascript" => javascript(rest),
        Some((sdk, _)) => Err(format!("there is no suite for `{sdk}`: say python, javascript or neither")),
    }
}

/// The server program: the one named in the environment, else a fresh build of the dev profile.
pub fn server() -> Result<PathBuf, String> {
    if let Some(given) = std::env::var_os(PROGRAM_VARIABLE).filter(|given| !given.is_empty()) {
        let given = root().join(given);
        return match given.is_file() {
            true => Ok(given),
            false => Err(format!("{PROGRAM_VARIABLE} names {}, which is not there", given.display())),
        };
    }
    must(&mut cargo(&["build", "--locked", "--package", "orrery-server"]))?;
    let built = target_directory().join("debug").join(format!("orrery{}", std::env::consts::EXE_SUFFIX));
    match built.is_file() {
        true => Ok(built),
        false => Err(format!("orrery-server was built, but there is no program at {}", built.display())),
    }
}

/// The suite of the Python SDK.
pub fn python(arguments: &[String]) -> Outcome {
    let server = server()?;
    let suite = root().join("conformance/python");
    let environment = target_directory().join("conformance/python");
    let python = python_environment(&suite, &environment)?;
    let mut pytest = program(&python, &suite);
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider"]).args(arguments);
    pytest.env(PROGRAM_VARIABLE, server).env("PYTHONDONTWRITEBYTECODE", "1");
    must(&mut pytest)
        .map_err(|error| format!("{error}; one test again: `cargo xtask conformance python -k NAME --tb=long`"))
}

/// A Python with exactly the pinned packages, and its path.
fn python_environment(suite: &Path, environment: &Path) -> Result<PathBuf, String> {
    let system = std::env::var_os("PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let version = output_of(program(&system, suite).arg("--version"))
        .map_err(|error| format!("{error}; the suite needs Python 3.10 or newer"))?;
    let pins = read(&suite.join("requirements.txt"))?;
    let stamp = Stamp { file: environment.join("installed.stamp"), wanted: format!("{version}\n{pins}") };
    let python = environment.join("bin/python");
    if stamp.is_current() && python.is_file() {
        return Ok(python);
    }
    println!("installing the Python SDK into {}", environment.display());
    must(program(&system, suite).args(["-m", "venv", "--clear"]).arg(environment))
        .map_err(|error| format!("{error}; on Debian `apt-get install python3-venv` brings what is missing"))?;
    let mut pip = program(&python, suite);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", "requirements.txt"]);
    must(&mut pip).map_err(|error| format!("{error}; is the package registry reachable?"))?;
    must(program(&python, suite).args(["-m", "pip", "check", "--quiet", "--disable-pip-version-check"]))
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
    node.arg("--test").args(arguments).env(PROGRAM_VARIABLE, server);
    must(&mut node).map_err(|error| {
        format!("{error}; one test again: `cargo xtask conformance javascript --test-name-pattern=NAME FILE`")
    })
}

fn node_modules(suite: &Path) -> Outcome {
    let version = output_of(program("node", suite).arg("--version"))
        .map_err(|error| format!("{error}; the suite needs Node.js 20 or newer"))?;
    let lock = read(&suite.join("package-lock.json"))?;
    let modules = suite.join("node_modules");
    let stamp = Stamp { file: modules.join(".installed.stamp"), wanted: format!("{version}\n{lock}") };
    if stamp.is_current() {
        return Ok(());
    }
    println!("installing the JavaScript SDK into {}", modules.display());
    must(program("npm", suite).args(["ci", "--no-audit", "--no-fund"]))
        .map_err(|error| format!("{error}; is the package registry reachable?"))?;
    stamp.set()
}

/// Says whether an installation is the one wanted.
struct Stamp {
    file: PathBuf,
    wanted: String,
}

impl Stamp {
    fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.wanted)
    }

    fn set(&self) -> Outcome {
        fs::write(&self.file, &self.wanted).map_err(|error| format!("cannot write {}: {error}", self.file.display()))
    }
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_sdk_is_refused_by_name() {
        let refusal = run(&["cobol".to_owned()]).unwrap_err();
        assert!(refusal.contains("`cobol`"), "{refusal}");
    }

    #[test]
    fn every_python_package_is_pinned_exactly() {
        let pins = read(&root().join("conformance/python/requirements.txt")).unwrap();
        for line in pins.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            assert!(line.contains("=="), "{line}");
        }
        assert!(pins.contains("azure-cosmos==") && pins.contains("pytest=="));
    }

    #[test]
    fn the_lock_file_names_no_registry() {
        let lock = read(&root().join("conformance/javascript/package-lock.json")).unwrap();
        assert!(lock.contains("\"node_modules/@azure/cosmos\"") && lock.contains("\"integrity\""));
        assert!(!lock.contains("\"resolved\""), "npm install with omit-lockfile-registry-resolved leaves them out");
    }
}
