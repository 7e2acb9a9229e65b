//! The libraries that a package is built with, by `Cargo.lock`, and what the manifest of the
//! workspace says of them.
//!
//! Promises: a library that another package of the workspace begins to use changes nothing for the
//! packages that do not use it.
//! Leaves out: the features of a library, which Cargo unites over the workspace.

use std::collections::{BTreeMap, BTreeSet};

/// Sections of the manifest of the workspace with a line for each library.
const SECTIONS_OF_LIBRARIES: &[&str] = &["[workspace.dependencies]", "[profile.dev.package]"];

/// The entries of `Cargo.lock`, by name.
#[derive(Debug, Default)]
pub(super) struct Locked {
    entries: BTreeMap<String, Vec<Entry>>,
}

/// An entry: one version of a library, or a package of the workspace.
#[derive(Debug, Default)]
struct Entry {
    /// Its text, with version and checksum.
    text: String,
    /// The names of the libraries that it uses.
    uses: Vec<String>,
    /// False for a package of the workspace.
    is_library: bool,
}

impl Locked {
    /// Reads the text of `Cargo.lock`.
    pub(super) fn parse(text: &str) -> Locked {
        let mut locked = Locked::default();
        // The text before the first entry is the head of the file.
        for text in text.split("[[package]]\n").skip(1) {
            let mut entry = Entry {
                text: text.to_owned(),
                ..Entry::default()
            };
            let mut name = String::new();
            for line in text.lines() {
                let quoted = || line.split('"').nth(1).unwrap_or_default();
                if line.starts_with("name = ") {
                    quoted().clone_into(&mut name);
                } else if line.starts_with("source = ") {
                    entry.is_library = true;
                } else if line.starts_with(" \"") {
                    // The version stands behind the name if there are several.
                    let used = quoted().split(' ').next().unwrap_or_default();
                    entry.uses.push(used.to_owned());
                }
            }
            locked.entries.entry(name).or_default().push(entry);
        }
        locked
    }

    /// Returns the names of the libraries that packages of the workspace use, directly or through
    /// other libraries.
    pub(super) fn libraries<'a>(
        &'a self,
        packages: impl IntoIterator<Item = &'a str>,
    ) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open: Vec<&str> = packages.into_iter().collect();
        while let Some(name) = open.pop() {
            for used in self.entries(name).iter().flat_map(|entry| &entry.uses) {
                let is_library = self.entries(used).iter().any(|entry| entry.is_library);
                if is_library && found.insert(used.as_str()) {
                    open.push(used);
                }
            }
        }
        found
    }

    /// Returns the entries of libraries.
    pub(super) fn text_of<'a>(
        &'a self,
        libraries: &'a BTreeSet<&str>,
    ) -> impl Iterator<Item = &'a str> {
        let entries = libraries.iter().flat_map(|name| self.entries(name));
        entries.map(|entry| entry.text.as_str())
    }

    fn entries(&self, name: &str) -> &[Entry] {
        self.entries.get(name).map_or(&[], Vec::as_slice)
    }
}

/// Returns the manifest of the workspace without comments, the sections that begin with `unused`,
/// and the lines of libraries that are not among these.
pub(super) fn used_lines(manifest: &str, unused: &[&str], libraries: &BTreeSet<&str>) -> String {
    let mut text = String::new();
    let (mut is_used, mut is_of_libraries) = (true, false);
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            is_used = !unused.iter().any(|unused| line.starts_with(unused));
            is_of_libraries = SECTIONS_OF_LIBRARIES.contains(&line);
        } else if is_of_libraries {
            let name = line.split(['=', ' ', '.']).next().unwrap_or_default();
            let name = name.trim_matches('"');
            if !libraries.contains(name) {
                continue;
            }
        }
        if is_used && !line.is_empty() && !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "version = 4\n\n\
        [[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\
        dependencies = [\n \"b 2.0.0\",\n]\n\n\
        [[package]]\nname = \"b\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\n\
        [[package]]\nname = \"b\"\nversion = \"2.0.0\"\nsource = \"registry\"\n\n\
        [[package]]\nname = \"c\"\nversion = \"1.0.0\"\nsource = \"registry\"\n\n\
        [[package]]\nname = \"engine\"\nversion = \"0.1.0\"\ndependencies = [\n \"a\",\n]\n\n\
        [[package]]\nname = \"server\"\nversion = \"0.1.0\"\n\
        dependencies = [\n \"c\",\n \"engine\",\n]\n";

    #[test]
    fn libraries_of_libraries_count_and_those_of_other_packages_do_not() {
        let locked = Locked::parse(LOCK);
        assert_eq!(locked.libraries(["engine"]), BTreeSet::from(["a", "b"]));
        assert_eq!(locked.libraries(["server"]), BTreeSet::from(["c"]));
        let libraries = locked.libraries(["engine"]);
        // Both versions of a name count.
        assert_eq!(locked.text_of(&libraries).count(), 3);
    }

    #[test]
    fn lines_of_other_libraries_are_left_out() {
        let manifest = "[workspace.dependencies]\na = \"1\"\nc = \"1\" # why\n\n\
                        [profile.dev]\nopt-level = 1\n\
                        [profile.dev.package]\nc = { opt-level = 3 }\nb.opt-level = 3\n\
                        [profile.dist]\nlto = true\n";
        let used = used_lines(manifest, &["[profile.dist"], &BTreeSet::from(["a", "b"]));
        assert_eq!(
            used,
            "[workspace.dependencies]\na = \"1\"\n[profile.dev]\nopt-level = 1\n\
             [profile.dev.package]\nb.opt-level = 3\n"
        );
    }
}
