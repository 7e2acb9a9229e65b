//! The house rules that no compiler keeps: who may use whom, that the map is true, that files stay rooms.
//!
//! A rule reads a [`Tree`] (paths and texts) and gives its complaints. Nothing else touches the disk, so a rule's own
//! tests hand it a tree of three lines. `cargo xtask tidy` and `cargo test -p xtask` judge the same [`RULES`].
//!
//! Leaves out: what rustc, clippy and rustfmt already say.

mod arrows;
mod compat;
mod length;
mod map;
mod words;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::run::{Outcome, root};

/// A rule: its name, and what it finds wrong, one line each.
type Rule = (&'static str, fn(&Tree) -> Vec<String>);

const RULES: &[Rule] = &[
    ("arrows point one way", arrows::complaints),
    ("the map names what is there", map::complaints),
    ("long files only shrink", length::complaints),
    ("no forbidden words", words::complaints),
    ("the compat table names real tests", compat::complaints),
    (
        "the compat document has the tables of the code",
        compat::stale_tables,
    ),
];

/// Directories that are not ours: built, installed, or git's.
const SKIPPED: &[&str] = &["target", "node_modules", ".git", ".venv", "__pycache__"];

/// Judges the repository by every rule.
pub fn check(arguments: &[String]) -> Outcome {
    if let Some(argument) = arguments.first() {
        return Err(format!("tidy takes no arguments, not `{argument}`"));
    }
    let tree = Tree::of_repository().map_err(|error| format!("cannot read the tree: {error}"))?;
    let mut found = 0;
    for (name, complaints) in RULES {
        let complaints = complaints(&tree);
        println!(
            "tidy: {name}: {}",
            if complaints.is_empty() { "yes" } else { "NO" }
        );
        for complaint in &complaints {
            println!("  {complaint}");
        }
        found += complaints.len();
    }
    match found {
        0 => Ok(()),
        _ => Err(format!("{found} complaint(s)")),
    }
}

/// The texts of the repository by their paths from the root, with `/` between names.
#[derive(Default)]
struct Tree {
    files: BTreeMap<String, String>,
}

impl Tree {
    /// Every text file of the repository; bytes that are not UTF-8 are no text.
    fn of_repository() -> std::io::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_directory(&root(), "")?;
        Ok(tree)
    }

    fn read_directory(&mut self, directory: &Path, prefix: &str) -> std::io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
                self.read_directory(&entry.path(), &format!("{path}/"))?;
            } else if kind.is_file() {
                // Not a text still exists: the map may name it.
                self.files.insert(
                    path,
                    String::from_utf8(fs::read(entry.path())?).unwrap_or_default(),
                );
            }
        }
        Ok(())
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether a file or a directory of this name is there.
    fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.contains_key(path)
            || self
                .files
                .keys()
                .any(|file| file.starts_with(&format!("{path}/")))
    }

    /// The files whose names end so.
    fn ending(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(move |(path, _)| path.ends_with(ending))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }
}

/// The pieces of a Markdown text that stand between single backticks.
fn quoted_in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree for the test of a rule.
    pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
        Tree {
            files: files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
                .collect(),
        }
    }

    fn assert_rule_holds(name: &str) {
        let (_, complaints) = RULES
            .iter()
            .find(|(rule, _)| *rule == name)
            .expect("a rule of this name");
        let found = complaints(&Tree::of_repository().unwrap());
        assert!(found.is_empty(), "{name}:\n{}", found.join("\n"));
    }

    #[test]
    fn arrows_point_one_way() {
        assert_rule_holds("arrows point one way");
    }

    #[test]
    fn the_map_names_what_is_there() {
        assert_rule_holds("the map names what is there");
    }

    #[test]
    fn long_files_only_shrink() {
        assert_rule_holds("long files only shrink");
    }

    #[test]
    fn no_forbidden_words() {
        assert_rule_holds("no forbidden words");
    }

    #[test]
    fn the_compat_table_names_real_tests() {
        assert_rule_holds("the compat table names real tests");
    }

    #[test]
    fn the_compat_document_has_the_tables_of_the_code() {
        assert_rule_holds("the compat document has the tables of the code");
    }

    #[test]
    fn the_tree_holds_our_files_and_not_what_was_built() {
        let tree = Tree::of_repository().unwrap();
        assert!(tree.text("Cargo.toml").unwrap().contains("[workspace]"));
        assert!(tree.has("xtask/src") && tree.has("xtask/src/") && !tree.has("target"));
    }
}
