//! The Debian package: the program, a service with a user of its own, manual pages, completions.
//!
//! The tree of the package is laid out here and packed by dpkg-deb. The control files are in
//! `packaging/debian`.
//!
//! Promises: the bytes depend on the contents alone; `Installed-Size` is that of the tree.

use std::path::{Path, PathBuf};

use super::files::{PLAIN, PROGRAM};
use super::{Contents, SHELLS, VERSION, files, list, size};
use crate::run::{Outcome, must, output_of, program, root};
use crate::sdk_tools::read;

/// The unit of the service, which is in the archive too.
pub(super) const UNIT: &str = "packaging/systemd/orrery.service";

/// The settings of the service, which its administrator may change.
const SETTINGS: &str = "/etc/orrery/orrery.toml";

/// Writes the package into `output`.
pub(super) fn package(contents: &Contents, output: &Path) -> Outcome {
    let tree = output.join("work/debian");
    files::create_empty(&tree)?;
    lay_out(contents, &tree)?;
    // The size is that of everything but the control files, so these come last.
    let kilobytes = bytes_below(&tree)?.div_ceil(1024);
    control_files(contents, &tree, kilobytes)?;
    let architecture = contents.program.architecture.debian;
    let package = output.join(format!("orrery_{VERSION}_{architecture}.deb"));
    let mut pack = program("dpkg-deb", output);
    pack.args(["--root-owner-group", "-Zxz", "--build"]);
    pack.arg(&tree).arg(package);
    // dpkg-deb gives no entry a later time than this one.
    set_times(&tree, &contents.epoch)?;
    must(pack.env("SOURCE_DATE_EPOCH", &contents.epoch))
        .map_err(|error| format!("{error}; dpkg-deb is in the package dpkg"))
}

/// Copies all files of the package to their places.
fn lay_out(contents: &Contents, tree: &Path) -> Outcome {
    let binary = tree.join("usr/bin/orrery");
    files::copy(&contents.program.path, &binary, PROGRAM)?;
    let unit = tree.join("lib/systemd/system/orrery.service");
    files::copy(&root().join(UNIT), &unit, PLAIN)?;

    let settings = root().join("packaging/debian/orrery.toml");
    files::copy(&settings, &tree.join(&SETTINGS[1..]), PLAIN)?;

    for page in list(&contents.generated.join("man"))? {
        let name = page.file_name().unwrap_or_default();
        let place = tree.join("usr/share/man/man1").join(name);
        files::copy(&page, &place, PLAIN)?;
        files::compress(&place)?;
    }
    for (shell, name) in SHELLS {
        let place = match *shell {
            "bash" => "usr/share/bash-completion/completions/orrery".to_owned(),
            "zsh" => format!("usr/share/zsh/vendor-completions/{name}"),
            _ => format!("usr/share/fish/vendor_completions.d/{name}"),
        };
        let script = contents.generated.join("completions").join(name);
        files::copy(&script, &tree.join(place), PLAIN)?;
    }

    let documents = tree.join("usr/share/doc/orrery");
    let copyright = read(&root().join("packaging/debian/copyright"))?;
    let copyright = copyright.replace("@MIT@", &indented(&read(&root().join("LICENSE-MIT"))?));
    files::write(&documents.join("copyright"), copyright.as_bytes(), PLAIN)?;
    let licences = documents.join("third-party.txt");
    files::write(&licences, contents.licences.as_bytes(), PLAIN)?;
    files::compress(&licences)?;
    let changes = documents.join("CHANGELOG.md");
    files::copy(&root().join("CHANGELOG.md"), &changes, PLAIN)?;
    files::compress(&changes)?;
    changelog(contents, &documents.join("changelog"))?;
    let overrides = root().join("packaging/debian/lintian-overrides");
    let place = tree.join("usr/share/lintian/overrides/orrery");
    files::copy(&overrides, &place, PLAIN)
}

/// Writes the changelog in Debian's form, which names the version and its time.
fn changelog(contents: &Contents, place: &Path) -> Outcome {
    let mut date = program("date", &root());
    date.args(["--utc", "--rfc-email", "--date"]);
    let date = output_of(date.arg(format!("@{}", contents.epoch)).env("LC_ALL", "C"))?;
    let text = read(&root().join("packaging/debian/changelog"))?
        .replace("@VERSION@", VERSION)
        .replace("@DATE@", &date);
    files::write(place, text.as_bytes(), PLAIN)?;
    files::compress(place)
}

/// Writes the files that tell dpkg about the package.
fn control_files(contents: &Contents, tree: &Path, kilobytes: u64) -> Outcome {
    let sources = root().join("packaging/debian");
    let control = read(&sources.join("control"))?
        .replace("@VERSION@", VERSION)
        .replace("@ARCHITECTURE@", contents.program.architecture.debian)
        .replace("@KILOBYTES@", &kilobytes.to_string());
    let place = tree.join("DEBIAN");
    files::write(&place.join("control"), control.as_bytes(), PLAIN)?;
    // A file that was changed is kept by an upgrade.
    let kept = format!("{SETTINGS}\n");
    files::write(&place.join("conffiles"), kept.as_bytes(), PLAIN)?;
    for script in ["postinst", "prerm", "postrm"] {
        files::copy(&sources.join(script), &place.join(script), PROGRAM)?;
    }
    Ok(())
}

/// Returns a text as a field of several lines: a space before each line, a dot in empty ones.
fn indented(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.trim_end().lines() {
        lines.push(match line.trim() {
            "" => " .".to_owned(),
            words => format!(" {words}"),
        });
    }
    lines.join("\n")
}

/// Returns the bytes of all files below a directory.
fn bytes_below(directory: &Path) -> Result<u64, String> {
    let mut bytes = 0;
    for path in entries(directory)? {
        bytes += match path.is_dir() {
            true => bytes_below(&path)?,
            false => size(&path)?,
        };
    }
    Ok(bytes)
}

/// Gives every file and directory the time of all entries.
fn set_times(directory: &Path, epoch: &str) -> Outcome {
    let mut touch = program("find", directory);
    touch.args([".", "-exec", "touch", "--no-dereference"]);
    must(touch.args(["--date", &format!("@{epoch}"), "{}", "+"]))
}

/// Returns what is in a directory.
fn entries(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let listed = std::fs::read_dir(directory)
        .map_err(|error| format!("cannot list {}: {error}", directory.display()))?;
    Ok(listed.flatten().map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_a_field_of_several_lines() {
        assert_eq!(indented("a\n\n  b\n"), " a\n .\n b");
    }

    #[test]
    fn the_control_file_names_the_package_and_its_fields() {
        let control = read(&root().join("packaging/debian/control")).unwrap();
        for field in [
            "Package: orrery",
            "@VERSION@",
            "@ARCHITECTURE@",
            "@KILOBYTES@",
        ] {
            assert!(control.contains(field), "{field}");
        }
    }
}
