//! The packages of the workspace and their test binaries, as cargo states them.
//!
//! Promises: a test binary has the same name in the list of targets and among the binaries that a
//! build has made.
//! Leaves out: tests in documentation, which cargo builds while they run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::json::{Value, parse};
use crate::run::{cargo, linted_cargo, output_of};

/// A package of the workspace.
pub(crate) struct Package {
    pub(crate) name: String,
    /// The folder of its manifest.
    pub(crate) root: PathBuf,
    /// The packages of this workspace that it names in its manifest.
    pub(super) uses: Vec<Used>,
    /// Its libraries, programs and files of tests that have tests.
    pub(super) targets: Vec<Target>,
}

/// A package that another one uses.
pub(super) struct Used {
    pub(super) name: String,
    /// True if the tests alone use it.
    pub(super) is_for_tests: bool,
}

/// A part of a package that becomes a test binary.
pub(super) struct Target {
    pub(super) kind: String,
    pub(super) name: String,
}

impl Target {
    /// Returns the name of the test binary: `orrery-sql lib`, `orrery-sql test golden`.
    pub(super) fn binary_name(&self, package: &str) -> String {
        match self.kind.as_str() {
            "bin" | "test" | "bench" | "example" => {
                format!("{package} {} {}", self.kind, self.name)
            }
            _ => format!("{package} lib"),
        }
    }

    /// Returns true if the target is a file of tests.
    pub(super) fn is_of_tests(&self) -> bool {
        matches!(self.kind.as_str(), "test" | "bench" | "example")
    }

    fn of(target: &Value) -> Option<Target> {
        Some(Target {
            kind: target.get("kind").items().first()?.text()?.to_owned(),
            name: target.get("name").text()?.to_owned(),
        })
    }
}

/// Returns the packages of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    let mut metadata = cargo(&["metadata", "--format-version", "1", "--no-deps", "--locked"]);
    packages_in(&output_of(&mut metadata)?)
}

/// Reads the output of `cargo metadata`.
fn packages_in(metadata: &str) -> Result<Vec<Package>, String> {
    let mut packages = Vec::new();
    for package in parse(metadata)?.get("packages").items() {
        let read = package_of(package);
        packages.push(read.ok_or("cargo metadata describes a package in an unknown form")?);
    }
    Ok(packages)
}

fn package_of(package: &Value) -> Option<Package> {
    let manifest = Path::new(package.get("manifest_path").text()?);
    let mut uses = Vec::new();
    for used in package.get("dependencies").items() {
        // A dependency with a path is a package of this workspace.
        if used.get("path").text().is_some() {
            uses.push(Used {
                name: used.get("name").text()?.to_owned(),
                is_for_tests: used.get("kind").text() == Some("dev"),
            });
        }
    }
    let mut targets = Vec::new();
    for target in package.get("targets").items() {
        if target.get("test").is_true() {
            targets.push(Target::of(target)?);
        }
    }
    Some(Package {
        name: package.get("name").text()?.to_owned(),
        root: manifest.parent()?.to_path_buf(),
        uses,
        targets,
    })
}

/// Builds the test binaries of these names, all without one, and returns the paths of binaries by
/// their names. The libraries are always built for the whole workspace, with the same features.
pub(crate) fn build(
    packages: &[Package],
    names: &[&str],
) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut build = linted_cargo(&["test", "--workspace", "--locked", "--no-run"]);
    build.args(filters(names));
    build.args(["--message-format", "json-render-diagnostics"]);
    let messages = output_of(build.stderr(Stdio::inherit()))?;
    binaries_in(&messages, packages)
}

/// Returns the options of cargo that choose the targets of test binaries: `--lib`, `--test golden`.
fn filters(names: &[&str]) -> BTreeSet<String> {
    let mut filters = BTreeSet::new();
    for name in names {
        match name.split(' ').collect::<Vec<_>>()[..] {
            [_, "lib"] => filters.insert("--lib".to_owned()),
            [_, kind, target] => filters.insert(format!("--{kind}={target}")),
            _ => false,
        };
    }
    filters
}

/// Reads the messages of a build, one a line.
fn binaries_in(messages: &str, packages: &[Package]) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut binaries = BTreeMap::new();
    for line in messages.lines() {
        let message = parse(line)?;
        let is_of_tests = message.get("profile").get("test").is_true();
        let (Some(executable), true) = (message.get("executable").text(), is_of_tests) else {
            continue;
        };
        let manifest = Path::new(message.get("manifest_path").text().unwrap_or_default());
        let package = packages
            .iter()
            .find(|package| manifest.parent() == Some(&package.root));
        let target = Target::of(message.get("target"));
        let (Some(package), Some(target)) = (package, target) else {
            return Err(format!("cargo built {executable}, of no known package"));
        };
        binaries.insert(target.binary_name(&package.name), executable.into());
    }
    Ok(binaries)
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{"packages": [{"name": "orrery-sql",
        "manifest_path": "/w/crates/sql/Cargo.toml",
        "dependencies": [
            {"name": "orrery-model", "kind": null, "path": "/w/crates/model"},
            {"name": "orrery-storage", "kind": "dev", "path": "/w/crates/storage"},
            {"name": "bytes", "kind": null}],
        "targets": [
            {"kind": ["lib"], "name": "orrery_sql", "test": true},
            {"kind": ["test"], "name": "golden", "test": true},
            {"kind": ["bin"], "name": "sql", "test": true},
            {"kind": ["custom-build"], "name": "build-script-build", "test": false}]}]}"#;

    fn names(package: &Package) -> Vec<String> {
        let targets = package.targets.iter();
        targets
            .map(|target| target.binary_name(&package.name))
            .collect()
    }

    #[test]
    fn a_package_has_its_uses_within_the_workspace_and_its_targets_with_tests() {
        let packages = packages_in(METADATA).unwrap();
        let [package] = &packages[..] else {
            panic!("{} packages", packages.len());
        };
        assert_eq!(package.root, Path::new("/w/crates/sql"));
        let uses: Vec<(&str, bool)> = package
            .uses
            .iter()
            .map(|used| (used.name.as_str(), used.is_for_tests))
            .collect();
        assert_eq!(uses, [("orrery-model", false), ("orrery-storage", true)]);
        assert_eq!(
            names(package),
            [
                "orrery-sql lib",
                "orrery-sql test golden",
                "orrery-sql bin sql"
            ]
        );
    }

    #[test]
    fn the_binaries_of_a_build_have_the_names_of_the_targets() {
        let built = |folder: &str, kind: &str, is_test: bool, executable: &str| {
            format!(r#"{{"manifest_path":"{folder}/Cargo.toml","profile":{{"test":{is_test}}},"#)
                + &format!(
                    r#""target":{{"kind":["{kind}"],"name":"golden"}},"executable":{executable}}}"#
                )
        };
        let messages = [
            built("/w/crates/sql", "test", true, "\"/t/golden-1\""),
            built("/w/crates/sql", "bin", false, "\"/t/golden\""),
            built("/r/bytes", "lib", false, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let messages = messages.join("\n");
        let binaries = binaries_in(&messages, &packages_in(METADATA).unwrap()).unwrap();
        let found: Vec<&str> = binaries.keys().map(String::as_str).collect();
        assert_eq!(found, ["orrery-sql test golden"]);
        let foreign = messages.replace("/w/crates/sql", "/w/crates/other");
        assert!(binaries_in(&foreign, &[]).is_err());
    }

    #[test]
    fn a_binary_is_built_by_the_options_of_its_target() {
        let names = ["a lib", "b lib", "a test golden", "b bin b"];
        let filters: Vec<String> = filters(&names).into_iter().collect();
        assert_eq!(filters, ["--bin=b", "--lib", "--test=golden"]);
    }

    #[test]
    fn the_packages_of_this_workspace_have_the_tests_of_this_program() {
        let packages = packages().unwrap();
        let names: Vec<String> = packages.iter().flat_map(names).collect();
        assert!(names.contains(&"xtask bin xtask".to_owned()), "{names:?}");
        let program = packages.iter().find(|each| each.name == "orrery-cli");
        let uses = &program.expect("the program").uses;
        assert!(uses.iter().any(|used| used.name == "orrery-server"));
    }
}
