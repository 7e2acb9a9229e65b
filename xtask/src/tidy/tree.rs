//! The text files of the repository, in memory.
//!
//! Leaves out: build output, installed packages and git's own files.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::run::{FOREIGN_DIRECTORIES, root};

/// The texts of the repository by their paths from the root, with `/` between names.
#[derive(Default)]
pub(super) struct Tree {
    pub(super) files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository. A file that is not UTF-8 gets an empty text: documents may name it.
    pub(super) fn of_repository() -> std::io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_directory(&root(), "")?;
        Ok(tree)
    }

    /// Creates a tree for the test of a rule.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.files.insert((*path).to_owned(), (*text).to_owned());
        }
        tree
    }

    fn read_directory(&mut self, directory: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !FOREIGN_DIRECTORIES.contains(&name.as_str()) {
                self.read_directory(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                let text = String::from_utf8(fs::read(entry.path())?).unwrap_or_default();
                self.files.insert(path, text);
            }
        }
        Ok(())
    }

    /// Returns the text of a file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns true if there is a file or a directory of this path.
    pub(super) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let directory = format!("{path}/");
        self.files.contains_key(path) || self.files.keys().any(|file| file.starts_with(&directory))
    }

    /// Returns the files whose paths end with `ending`, and their texts.
    pub(super) fn ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_holds_our_files_and_no_build_output() {
        let tree = Tree::of_repository().unwrap();
        assert!(tree.text("Cargo.toml").unwrap().contains("[workspace]"));
        assert!(tree.has("xtask/src") && tree.has("xtask/src/") && !tree.has("target"));
    }
}
