//! Files of tests that are modules of one test binary.
//!
//! Cargo does not look for modules: the tests of a file that `tests/main.rs` does not name would
//! never run.

use super::tree::Tree;

const MAIN: &str = "/tests/main.rs";

/// Returns a complaint for each file beside a `tests/main.rs` that is no module of it.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (main, text) in tree.ending(MAIN) {
        let directory = main.trim_end_matches("main.rs");
        for (path, _) in tree.ending(".rs") {
            let name = path
                .strip_prefix(directory)
                .and_then(|name| name.strip_suffix(".rs"));
            let Some(module) = name.filter(|name| *name != "main" && !name.contains('/')) else {
                continue;
            };
            if !text.contains(&format!("\nmod {module};\n")) {
                complaints.push(format!("{main} lacks `mod {module};`"));
            }
        }
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_tests_that_is_no_module_is_named() {
        let tree = Tree::of(&[
            ("crates/a/tests/main.rs", "//! Tests.\n\nmod items;\n"),
            ("crates/a/tests/items.rs", ""),
            ("crates/a/tests/feeds.rs", ""),
            ("crates/a/tests/support/mod.rs", ""),
            ("crates/b/tests/alone.rs", ""),
        ]);
        assert_eq!(
            complaints(&tree),
            ["crates/a/tests/main.rs lacks `mod feeds;`"]
        );
    }
}
