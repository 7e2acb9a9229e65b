//! The documents that a newcomer meets first stay short: the map of the code, and the `README.md`
//! that each crate has beside its `Cargo.toml`.
//!
//! Leaves out: workspaces of their own, and `examples`, whose README is a page for users.

use super::tree::Tree;

const MAP: &str = "ARCHITECTURE.md";
const MAP_BYTES_MAX: usize = 20 * 1024;
const README_LINES_MAX: usize = 20;
/// The directories that have crates, or are one.
const CRATES: &[&str] = &[
    "core/",
    "fleet/",
    "operator/",
    "program/",
    "clients/",
    "apps/",
    "bench/",
    "sim/",
    "xtask/",
];

/// Returns the map if it is too long, and the crates whose README is missing or too long.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    let bytes = tree.text(MAP).map_or(0, str::len);
    if bytes > MAP_BYTES_MAX {
        found.push(format!(
            "{MAP}: {bytes} bytes, more than {MAP_BYTES_MAX}; what one file needs belongs to the \
             header of the file"
        ));
    }

    for (manifest, text) in tree.ending("/Cargo.toml") {
        let is_ours = CRATES.iter().any(|ours| manifest.starts_with(ours));
        let is_workspace = text.lines().any(|line| line.trim() == "[workspace]");
        if !is_ours || is_workspace {
            continue;
        }
        let readme = manifest.replace("Cargo.toml", "README.md");
        match tree.text(&readme).map(|text| text.lines().count()) {
            None => found.push(format!(
                "{readme}: missing; it says what the crate is for, what it leaves out, where to \
                 read first and how to run its tests"
            )),
            Some(lines) if lines > README_LINES_MAX => found.push(format!(
                "{readme}: {lines} lines, more than {README_LINES_MAX}"
            )),
            Some(_) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGE: (&str, &str) = ("core/sql/Cargo.toml", "[package]\nname = \"orrery-sql\"\n");

    #[test]
    fn a_short_map_and_a_short_readme_pass() {
        let tree = Tree::of(&[
            (MAP, "# Architecture\n"),
            PACKAGE,
            ("core/sql/README.md", "# orrery-sql\n"),
            ("core/sql/fuzz/Cargo.toml", "[package]\n[workspace]\n"),
            ("examples/Cargo.toml", "[package]\n"),
        ]);
        assert_eq!(complaints(&tree), Vec::<String>::new());
    }

    #[test]
    fn a_long_map_is_a_complaint() {
        let text = "a".repeat(MAP_BYTES_MAX + 1);
        let found = complaints(&Tree::of(&[(MAP, &text)]));
        assert!(
            found[0].starts_with("ARCHITECTURE.md: 20481 bytes"),
            "{found:?}"
        );
    }

    #[test]
    fn a_missing_readme_and_a_long_one_are_complaints() {
        let found = complaints(&Tree::of(&[PACKAGE]));
        assert!(
            found[0].starts_with("core/sql/README.md: missing"),
            "{found:?}"
        );

        let text = "a\n".repeat(README_LINES_MAX + 1);
        let tree = Tree::of(&[PACKAGE, ("core/sql/README.md", &text)]);
        assert_eq!(
            complaints(&tree),
            ["core/sql/README.md: 21 lines, more than 20"]
        );
    }
}
