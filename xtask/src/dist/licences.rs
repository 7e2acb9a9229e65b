//! The licences of everything that the program contains: the crates, the packages in its pages, and
//! the C library.
//!
//! The crates are those of `cargo tree` for this machine, without macros and build scripts, whose
//! code is not in the program. The texts are the files of each crate, which include those of C
//! sources that a crate brings along.
//!
//! Promises: every crate is named with its licence; a crate without a file has the text of its
//! licence from `packaging/licences`, or the command fails.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::program::cargo_home;
use crate::run::{cargo, output_of, root};
use crate::sdk_tools::read;

/// Depth of the folders of a crate that are searched for licences.
const DEPTH_MAX: usize = 4;

const HEADING: &str = "\
Orrery is licensed under MIT or Apache-2.0, at your choice. It contains the software below, which
has licences of its own.
";

/// The C library is in a static program. Its licence lets users replace it, for which they need the
/// sources, so the text says where these are.
const C_LIBRARY: &str = "\
GNU C Library, version of the Debian release on which the program was built: LGPL-2.1-or-later.
The program is linked with it statically. All sources of the program are public, so it can be
linked again with another version: `cargo xtask dist`. The sources of the library are at
https://sourceware.org/glibc and in the Debian package `glibc`.
libgcc (unwinding): GPL-3.0-or-later with the GCC Runtime Library Exception 3.1.
Rust standard library: MIT OR Apache-2.0, copyright The Rust Project contributors.
";

/// Text of the licence of the C library, in every Debian.
const LGPL: &str = "/usr/share/common-licenses/LGPL-2.1";

/// A crate in the program.
#[derive(Debug, PartialEq, Eq)]
struct Crate {
    name: String,
    version: String,
    licence: String,
}

/// Returns the text of all licences.
pub(crate) fn text() -> Result<String, String> {
    let mut tree = cargo(&["tree", "--locked", "--package", "orrery-cli"]);
    tree.args(["--edges", "normal,no-proc-macro", "--prefix", "none"]);
    let crates = crates(&output_of(tree.args(["--format", "{p}|{l}"]))?)?;

    // Many crates have the same file, so a text stands once, after the names of its crates.
    let mut names_by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for each in &crates {
        let name = format!("{} {} ({})", each.name, each.version, each.licence);
        for licence in texts_of(each)? {
            let names = names_by_text.entry(licence).or_default();
            if !names.contains(&name) {
                names.push(name.clone());
            }
        }
    }
    let mut text = HEADING.to_owned();
    for (licence, names) in &names_by_text {
        text.push_str(&section(&names.join("\n"), licence));
    }
    text.push_str(&section(
        "",
        &read(&root().join("packaging/licences/web.txt"))?,
    ));
    text.push_str(&section(C_LIBRARY.trim_end(), &read(Path::new(LGPL))?));
    Ok(text)
}

/// Returns a section: a line across, the names and the text.
fn section(names: &str, licence: &str) -> String {
    format!(
        "\n{}\n{names}\n\n{}\n",
        "-".repeat(78),
        licence.trim_matches('\n')
    )
}

/// Reads the lines of `cargo tree`, "name v1.0.0 (proc-macro)|licence". Crates of the workspace,
/// which have a path, are left out.
fn crates(lines: &str) -> Result<Vec<Crate>, String> {
    let mut found: Vec<Crate> = Vec::new();
    for line in lines.lines() {
        let (package, licence) = line
            .split_once('|')
            .ok_or_else(|| format!("cargo tree printed `{line}`"))?;
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else {
            return Err(format!("cargo tree printed `{line}`"));
        };
        if package.contains("(/") {
            continue;
        }
        // A crate that was printed before ends with a star.
        let each = Crate {
            name: name.to_owned(),
            version: version.trim_start_matches('v').to_owned(),
            licence: licence.trim_end_matches(" (*)").to_owned(),
        };
        if !found.contains(&each) {
            found.push(each);
        }
    }
    found.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(found)
}

/// Returns the texts of the files of a crate, or the text of its licence if it has no file.
fn texts_of(each: &Crate) -> Result<Vec<String>, String> {
    let mut files = Vec::new();
    collect(&source(each)?, 0, &mut files)?;
    files.sort();
    if files.is_empty() {
        // The first of several licences that can be chosen.
        // Some crates write a slash, as was usual once.
        let chosen = each.licence.split(" OR ").next().unwrap_or_default();
        let chosen = chosen.split('/').next().unwrap_or_default();
        let standard = root().join(format!("packaging/licences/{chosen}.txt"));
        return match read(&standard) {
            Ok(text) => Ok(vec![text]),
            Err(error) => Err(format!(
                "{} {} has no file with its licence: {error}",
                each.name, each.version
            )),
        };
    }
    files.iter().map(|file| read_lossy(file)).collect()
}

/// Returns the text of a file with plain line ends; some crates have other encodings and ends.
fn read_lossy(file: &Path) -> Result<String, String> {
    let bytes =
        fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    Ok(lines.join("\n"))
}

/// Returns the directory in which cargo unpacked the crate.
fn source(each: &Crate) -> Result<PathBuf, String> {
    let registries = cargo_home()?.join("registry/src");
    let name = format!("{}-{}", each.name, each.version);
    let listed = fs::read_dir(&registries)
        .map_err(|error| format!("cannot list {}: {error}", registries.display()))?;
    for registry in listed.flatten() {
        let path = registry.path().join(&name);
        if path.is_dir() {
            return Ok(path);
        }
    }
    Err(format!(
        "the sources of {name} are not in {}",
        registries.display()
    ))
}

/// Adds the files with licences and notices below a directory.
fn collect(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), String> {
    let listed = fs::read_dir(directory)
        .map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
    for entry in listed.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let is_licence = ["licence", "license", "copying", "notice", "unlicense"]
            .iter()
            .any(|start| name.starts_with(start));
        if path.is_file() && is_licence && !name.ends_with(".rs") {
            files.push(path);
        } else if path.is_dir() && depth + 1 < DEPTH_MAX {
            collect(&path, depth + 1, files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_cargo_tree_name_crates_and_licences() {
        let lines = "orrery-cli v0.1.0 (/somewhere/program/cli)|MIT OR Apache-2.0\n\
                     ring v0.17.14|Apache-2.0 AND ISC\n\
                     bytes v1.12.1|MIT (*)\n\
                     bytes v1.12.1|MIT";
        let found = crates(lines).unwrap();
        let names: Vec<&str> = found.iter().map(|each| each.name.as_str()).collect();
        assert_eq!(names, ["bytes", "ring"]);
        assert_eq!(found[1].version, "0.17.14");
        assert_eq!(found[1].licence, "Apache-2.0 AND ISC");
    }

    #[test]
    fn the_list_of_packages_in_the_pages_is_that_of_the_lock_file() {
        let lock = read(&root().join("web/package-lock.json")).unwrap();
        let notices = read(&root().join("packaging/licences/web.txt")).unwrap();
        let mut count = 0;
        // Each package is a member `"node_modules/NAME": {` with its properties, one a line.
        for package in lock.split("\"node_modules/").skip(1) {
            let (name, properties) = package.split_once('"').unwrap();
            let properties = properties.split("\n    }").next().unwrap();
            if properties.contains("\"dev\": true") {
                continue;
            }
            let version = properties.split("\"version\": \"").nth(1).unwrap();
            let version = version.split('"').next().unwrap();
            let line = format!("\n{name} {version}\n");
            assert!(notices.contains(&line), "{name} {version} has no licence");
            count += 1;
        }
        assert!(count > 5, "{count} packages");
    }

    #[test]
    fn every_crate_of_the_program_has_a_licence() {
        let text = text().unwrap();
        for part in [
            "\nring 0.17",
            "BoringSSL",
            "\nrquickjs-core ",
            "preact",
            "LGPL",
        ] {
            assert!(text.contains(part), "{part}");
        }
    }
}
