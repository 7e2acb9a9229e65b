//! `ARCHITECTURE.md` is a map: every path it names in backticks must be there.
//!
//! A name is taken for a path if it begins with one of our directories. A line number after it, `path:12`, is ignored,
//! and a name with a placeholder in it (`*`, `<…>`, `{…}`, `…`) names no single thing and is left alone.

use super::{Tree, quoted_in_backticks};

const MAP: &str = "ARCHITECTURE.md";
const OURS: &[&str] = &[
    "crates/",
    "apps/",
    "docs/",
    "conformance/",
    "bench/",
    "xtask/",
    ".ci/",
    ".cargo/",
];
const PLACEHOLDERS: &[char] = &['*', '<', '{', '…', ' '];

pub fn complaints(tree: &Tree) -> Vec<String> {
    let Some(map) = tree.text(MAP) else {
        return Vec::new();
    };
    quoted_in_backticks(map)
        .filter(|name| {
            OURS.iter().any(|ours| name.starts_with(ours)) && !name.contains(PLACEHOLDERS)
        })
        .map(|name| name.split(':').next().unwrap_or(name))
        .filter(|path| !tree.has(path))
        .map(|path| format!("{MAP} names `{path}`, which is not there"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn files_directories_and_lines_that_are_there_pass() {
        let map = "See `crates/sql/`, `crates/sql/src/lib.rs:12`, `crates/*/src`, `cargo test` and `docs/<date>.md`.";
        assert!(complaints(&tree(&[(MAP, map), ("crates/sql/src/lib.rs", "")])).is_empty());
    }

    #[test]
    fn a_path_that_is_not_there_is_named() {
        let found = complaints(&tree(&[(
            MAP,
            "the room `crates/attic/src/lib.rs` is dusty",
        )]));
        assert_eq!(
            found,
            ["ARCHITECTURE.md names `crates/attic/src/lib.rs`, which is not there"]
        );
    }

    #[test]
    fn without_a_map_there_is_nothing_to_judge() {
        assert!(complaints(&tree(&[])).is_empty());
    }
}
