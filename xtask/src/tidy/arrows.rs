//! A crate may use only what stands to its left:
//!
//! ```text
//! model <- storage <- storage-postgres <- placement
//! model <- storage, placement, sql, script <- engine <- gateway, prediction <- admin <- console
//! rntbd <- gateway, cli
//! storage-postgres, placement, script, engine, gateway <- node
//! admin, console, storage-postgres, placement, node <- server <- cli
//! client <- blog <- blog-web <- cli
//! client, model <- tools <- server
//! client, admin <- telemetry <- server
//! model, storage <- backup <- admin, server, cli
//! bench uses core, node, storage-postgres, client and blog; examples use client, model, storage,
//! script and engine; fuzz uses model, storage, script, engine, sql, gateway and rntbd; sim uses
//! model, storage, script, engine, backup and test-disk
//! test-wait <- the tests of every crate; test-disk <- the tests of storage
//! ```
//!
//! Every kind of dependency counts, those of tests and builds too: a crate whose tests need a crate
//! of the same layer cannot be understood alone.

use super::tree::Tree;

const MODEL: &str = "orrery-model";
const STORAGE: &str = "orrery-storage";
const STORAGE_POSTGRES: &str = "orrery-storage-postgres";
const PLACEMENT: &str = "orrery-placement";
const NODE: &str = "orrery-node";
const RNTBD: &str = "orrery-rntbd";
const SQL: &str = "orrery-sql";
const ANN: &str = "orrery-ann";
const SCRIPT: &str = "orrery-script";
const ENGINE: &str = "orrery-engine";
const PREDICTION: &str = "orrery-prediction";
const GATEWAY: &str = "orrery-gateway";
const BACKUP: &str = "orrery-backup";
const ADMIN: &str = "orrery-admin";
const CONSOLE: &str = "orrery-console";
const TELEMETRY: &str = "orrery-telemetry";
const SERVER: &str = "orrery-server";
const CLI: &str = "orrery-cli";
const CLIENT: &str = "orrery-client";
const TOOLS: &str = "orrery-tools";
const BLOG: &str = "orrery-blog";
const BLOG_WEB: &str = "orrery-blog-web";
const BENCH: &str = "orrery-bench";
const EXAMPLES: &str = "orrery-examples";
const FUZZ: &str = "orrery-fuzz";
const SIM: &str = "orrery-sim";
const XTASK: &str = "xtask";
/// A crate that the tests of every crate may use.
const TEST_WAIT: &str = "orrery-test-wait";
const TEST_DISK: &str = "orrery-test-disk";

/// Each crate and the crates of this workspace it may use.
const MAY_USE: &[(&str, &[&str])] = &[
    (MODEL, &[]),
    (TEST_DISK, &[MODEL]),
    (STORAGE, &[MODEL, TEST_DISK]),
    (STORAGE_POSTGRES, &[MODEL, STORAGE]),
    (PLACEMENT, &[MODEL, STORAGE, STORAGE_POSTGRES]),
    (
        NODE,
        &[
            MODEL,
            STORAGE,
            STORAGE_POSTGRES,
            PLACEMENT,
            SCRIPT,
            ENGINE,
            GATEWAY,
        ],
    ),
    (RNTBD, &[]),
    (SQL, &[MODEL]),
    (ANN, &[MODEL]),
    (SCRIPT, &[MODEL]),
    (ENGINE, &[MODEL, STORAGE, PLACEMENT, SQL, ANN, SCRIPT]),
    (GATEWAY, &[MODEL, STORAGE, RNTBD, SQL, SCRIPT, ENGINE]),
    (PREDICTION, &[MODEL, STORAGE, SQL, SCRIPT, ENGINE]),
    (BACKUP, &[MODEL, STORAGE]),
    (
        ADMIN,
        &[
            MODEL, STORAGE, PLACEMENT, SCRIPT, ENGINE, PREDICTION, BACKUP, GATEWAY,
        ],
    ),
    (CONSOLE, &[MODEL, GATEWAY, ADMIN]),
    (TELEMETRY, &[CLIENT, MODEL, ENGINE, GATEWAY, ADMIN]),
    (
        SERVER,
        &[
            MODEL,
            STORAGE,
            STORAGE_POSTGRES,
            PLACEMENT,
            NODE,
            SCRIPT,
            ENGINE,
            GATEWAY,
            BACKUP,
            ADMIN,
            CONSOLE,
            TELEMETRY,
            CLIENT,
            TOOLS,
        ],
    ),
    (
        CLI,
        &[
            MODEL,
            STORAGE,
            STORAGE_POSTGRES,
            PLACEMENT,
            NODE,
            RNTBD,
            SQL,
            SCRIPT,
            ENGINE,
            PREDICTION,
            GATEWAY,
            BACKUP,
            ADMIN,
            CONSOLE,
            TELEMETRY,
            SERVER,
            CLIENT,
            TOOLS,
            BLOG,
            BLOG_WEB,
        ],
    ),
    (CLIENT, &[]),
    (TOOLS, &[CLIENT, MODEL]),
    (BLOG, &[CLIENT]),
    (BLOG_WEB, &[BLOG]),
    (
        BENCH,
        &[
            MODEL,
            STORAGE,
            STORAGE_POSTGRES,
            NODE,
            RNTBD,
            SCRIPT,
            ENGINE,
            GATEWAY,
            BACKUP,
            CLIENT,
            BLOG,
        ],
    ),
    (EXAMPLES, &[CLIENT, MODEL, STORAGE, SCRIPT, ENGINE]),
    (XTASK, &[]),
    (TEST_WAIT, &[]),
    (FUZZ, &[MODEL, STORAGE, RNTBD, SQL, SCRIPT, ENGINE, GATEWAY]),
    (
        SIM,
        &[
            MODEL, STORAGE, PLACEMENT, NODE, SCRIPT, ENGINE, GATEWAY, BACKUP, TEST_DISK,
        ],
    ),
    // A workspace of its own: it uses the vendor's SDK and no crate of ours.
    ("orrery-scenarios", &[]),
    ("first-item", &[]),
];

/// Returns the dependencies that point to the right, and the crates that the table does not list.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in tree.ending("/Cargo.toml") {
        let Some(user) = package_name(text) else {
            continue;
        };
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == user) else {
            found.push(format!(
                "{path}: the table of arrows does not list `{user}`"
            ));
            continue;
        };
        for used in used_packages(text) {
            let is_ours = MAY_USE.iter().any(|(name, _)| *name == used);
            let is_allowed = allowed.contains(&used) || used == TEST_WAIT;
            if is_ours && !is_allowed {
                found.push(format!("{path}: {user} may not use {used}"));
            }
        }
    }
    found
}

fn package_name(manifest: &str) -> Option<&str> {
    let package = manifest.split("[package]").nth(1)?;
    package.lines().find_map(|line| {
        quoted(
            line.trim()
                .strip_prefix("name")?
                .trim_start()
                .strip_prefix('=')?,
        )
    })
}

/// Returns the packages that a manifest names in any of its sections of dependencies.
fn used_packages(manifest: &str) -> Vec<&str> {
    let mut used = Vec::new();
    let mut in_dependencies = false;
    for line in manifest.lines() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            in_dependencies = section.ends_with("dependencies");
            // `[dependencies.name]` is a section for one dependency.
            if let Some((before, name)) = section.rsplit_once('.')
                && before.ends_with("dependencies")
            {
                used.push(name.trim_matches('"'));
                in_dependencies = false;
            }
        } else if in_dependencies && let Some((name, value)) = line.split_once('=') {
            // `name.workspace = true`, `name = "1"`, `other = { package = "name" }`
            used.push(name.trim().split('.').next().unwrap_or_default());
            used.extend(
                value
                    .split_once("package")
                    .and_then(|(_, rest)| quoted(rest)),
            );
        } else if let Some(rest) = line.strip_prefix("package") {
            used.extend(quoted(rest));
        }
    }
    used
}

fn quoted(text: &str) -> Option<&str> {
    text.split('"').nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(name: &str, dependencies: &str) -> Vec<String> {
        let manifest = format!("[package]\nname = \"{name}\"\n\n{dependencies}");
        complaints(&Tree::of(&[("core/x/Cargo.toml", manifest.as_str())]))
    }

    #[test]
    fn an_arrow_to_the_left_is_allowed() {
        assert!(
            judged(
                ENGINE,
                "[dependencies]\norrery-model.workspace = true\nserde = \"1\"\n"
            )
            .is_empty()
        );
    }

    #[test]
    fn an_arrow_to_the_right_or_within_a_layer_is_refused() {
        assert_eq!(
            judged(MODEL, "[dependencies]\norrery-engine.workspace = true\n").len(),
            1
        );
        assert_eq!(
            judged(
                SQL,
                "[dependencies]\norrery-storage = { path = \"../storage\" }\n"
            )
            .len(),
            1
        );
        assert_eq!(
            judged(BLOG, "[dependencies.orrery-model]\nworkspace = true\n").len(),
            1
        );
    }

    #[test]
    fn dependencies_of_tests_and_builds_and_renamed_ones_count() {
        assert_eq!(
            judged(SQL, "[dev-dependencies]\norrery-script.workspace = true\n").len(),
            1
        );
        assert_eq!(
            judged(
                SQL,
                "[build-dependencies]\norrery-engine.workspace = true\n"
            )
            .len(),
            1
        );
        assert_eq!(
            judged(
                SQL,
                "[target.'cfg(unix)'.dependencies]\norrery-engine.workspace = true\n"
            )
            .len(),
            1
        );
        assert_eq!(
            judged(
                SQL,
                "[dependencies]\nx = { path = \"..\", package = \"orrery-engine\" }\n"
            )
            .len(),
            1
        );
        assert_eq!(
            judged(SQL, "[dependencies.x]\npackage = \"orrery-engine\"\n").len(),
            1
        );
    }

    #[test]
    fn every_crate_may_wait_in_its_tests() {
        let waits = "[dev-dependencies]\norrery-test-wait.workspace = true\n";
        assert!(judged(MODEL, waits).is_empty());
        let back = "[dev-dependencies]\norrery-model.workspace = true\n";
        assert_eq!(judged(TEST_WAIT, back).len(), 1);
    }

    #[test]
    fn a_comment_is_no_arrow() {
        assert!(judged(SQL, "[dependencies]\n# orrery-engine.workspace = true\n").is_empty());
    }

    #[test]
    fn a_crate_outside_the_table_is_a_complaint() {
        assert_eq!(judged("orrery-new", "").len(), 1);
    }
}
