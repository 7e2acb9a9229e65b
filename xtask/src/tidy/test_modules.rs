//! The integration tests of a crate are one test binary, and each file is a module of it.
//!
//! Each binary links the libraries of the crate again. Cargo does not look for modules: the tests
//! of a file that `tests/main.rs` does not name would never run.

use super::tree::Tree;

const MAIN: &str = "/tests/main.rs";

/// Returns a complaint for each file of tests that is no module of a `tests/main.rs`, and for each
/// crate whose files of tests are binaries as well.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (manifest, text) in tree.ending("/Cargo.toml") {
        let tests = manifest.replace("Cargo.toml", "tests/");
        let is_file = |path: &str| {
            let name = path.strip_prefix(&tests);
            name.is_some_and(|name| !name.contains('/'))
        };
        let has_tests = tree.ending(".rs").any(|(path, _)| is_file(path));
        let has_main = tree.has(&format!("{tests}main.rs"));
        let has_one_binary = has_main && text.contains("autotests = false");
        if has_tests && !has_one_binary {
            complaints.push(format!(
                "{manifest}: its tests are one binary: `autotests = false`, `[[test]]` with the \
                 path tests/main.rs"
            ));
        }
    }
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
            ("core/a/Cargo.toml", "autotests = false\n"),
            ("core/a/tests/main.rs", "//! Tests.\n\nmod items;\n"),
            ("core/a/tests/items.rs", ""),
            ("core/a/tests/feeds.rs", ""),
            ("core/a/tests/support/mod.rs", ""),
            ("core/b/Cargo.toml", "[package]\n"),
        ]);
        assert_eq!(
            complaints(&tree),
            ["core/a/tests/main.rs lacks `mod feeds;`"]
        );
    }

    #[test]
    fn a_crate_with_a_second_binary_of_tests_is_named() {
        let alone = ("core/a/tests/alone.rs", "");
        let main = ("core/a/tests/main.rs", "\nmod alone;\n");
        let both = ("core/a/Cargo.toml", "[package]\n");
        let one = ("core/a/Cargo.toml", "[package]\nautotests = false\n");
        assert_eq!(complaints(&Tree::of(&[both, alone])).len(), 1);
        assert_eq!(complaints(&Tree::of(&[both, alone, main])).len(), 1);
        assert_eq!(complaints(&Tree::of(&[one, alone])).len(), 1);
        assert!(complaints(&Tree::of(&[one, alone, main])).is_empty());
    }
}
