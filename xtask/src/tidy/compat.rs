//! `docs/compat.md` says what works and shows the test that proves it.
//!
//! ```text
//! | feature | yes     | `core/engine/tests/items.rs::a_stale_etag_is_refused` |
//! | feature | partial | what is missing; `conformance/sdk/python/test_wire.py::test_…` |
//! | feature | no      | the reason |
//! ```
//!
//! Every row with `yes` or `partial` names at least one test, every test named is in the file
//! named, and a `no` has its reason. Rows of other tables, whose second cell is none of the three,
//! are left alone.

use super::markdown;
use super::tree::Tree;
use crate::tables::{self, DOCUMENT as TABLE};

/// Returns the rows without proof or reason, and the tests that do not exist.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let Some(table) = tree.text(TABLE) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (place, line) in table.lines().enumerate() {
        let at = format!("{TABLE}:{}", place + 1);
        let Some((status, rest)) = row(line) else {
            continue;
        };
        let named: Vec<(&str, &str)> = markdown::quoted(rest).filter_map(test_reference).collect();
        if status != "no" && named.is_empty() {
            found.push(format!("{at}: says `{status}` and names no test"));
        }
        if status == "no" && rest.trim().is_empty() {
            found.push(format!("{at}: says `no` and gives no reason"));
        }
        for (path, test) in named {
            match tree.text(path) {
                None => found.push(format!("{at}: the file {path} does not exist")),
                Some(text) if !defines(text, test) => {
                    found.push(format!("{at}: {path} has no test `{test}`"))
                }
                Some(_) => {}
            }
        }
    }
    found
}

/// Returns a complaint if the tables that are made from the code differ from the code.
pub(super) fn stale_tables(tree: &Tree) -> Vec<String> {
    let Some(document) = tree.text(TABLE) else {
        return Vec::new();
    };
    match tables::written(document, &|path| tree.text(path).map(str::to_owned)) {
        Err(complaint) => vec![complaint],
        Ok(written) if written == document => Vec::new(),
        Ok(_) => vec![format!(
            "{TABLE} differs from the tables of the code: run `cargo xtask compat`"
        )],
    }
}

/// Returns the status of a row, in lower case, and the text behind it.
fn row(line: &str) -> Option<(String, &str)> {
    let cells = line.trim().strip_prefix('|')?.trim_end_matches('|');
    let (_feature, after) = cells.split_once('|')?;
    let (status, rest) = after.split_once('|').unwrap_or((after, ""));
    let status = status.trim().trim_matches('*').to_lowercase();
    ["yes", "partial", "no"]
        .contains(&status.as_str())
        .then_some((status, rest))
}

/// Splits `path::test`, also `path::Class::test` and `path::module::test`, into the path and the
/// last name.
fn test_reference(name: &str) -> Option<(&str, &str)> {
    let (path, rest) = name.split_once("::")?;
    let is_file = path.contains('/') && path.rsplit('/').next()?.contains('.');
    is_file.then(|| (path, rest.rsplit("::").next().unwrap_or(rest)))
}

/// Returns true if a text defines this test: a function in Rust and Python, a sentence in quotes in
/// JavaScript and in a table of scenarios, an operation of a client program, a fact of a request
/// script.
fn defines(text: &str, test: &str) -> bool {
    let functions = [
        format!("fn {test}("),
        format!("fn {test}<"),
        format!("def {test}("),
    ];
    let sentences = ['"', '`', '\''].map(|quote| format!("test({quote}{test}{quote}"));
    let named = [
        format!("name = \"{test}\""),
        format!("operation(\"{test}\""),
        format!("\n== {test}\n"),
    ];
    functions
        .iter()
        .chain(&sentences)
        .chain(&named)
        .any(|definition| text.contains(definition.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(table: &str) -> Vec<String> {
        complaints(&Tree::of(&[
            (TABLE, table),
            (
                "core/a/tests/items.rs",
                "#[test]\nfn a_stale_etag_is_refused() {}\n",
            ),
            (
                "conformance/sdk/python/test_a.py",
                "class TestAll:\n    def test_order(self):\n",
            ),
            (
                "conformance/sdk/javascript/a.test.js",
                "test(\"items are kept\", async () => {\n",
            ),
            (
                "conformance/sdk/scenarios/table/a.toml",
                "[[scenario]]\nname = \"items stay\"\n",
            ),
            (
                "conformance/sdk/clients/a/program.py",
                "with program.operation(\"items go\"):\n",
            ),
            (
                "core/a/tests/requests/items.txt",
                "# Items.\n\n== An item is read\n\nGET /\n",
            ),
        ]))
    }

    #[test]
    fn rows_that_name_real_tests_pass() {
        let table = "| feature | status | test |\n|---|---|---|\n\
            | etags | yes | `core/a/tests/items.rs::a_stale_etag_is_refused` |\n\
            | order | **partial** | ties; \
            `conformance/sdk/python/test_a.py::TestAll::test_order` |\n\
            | items | yes | `conformance/sdk/javascript/a.test.js::items are kept` |\n\
            | stays | yes | `conformance/sdk/scenarios/table/a.toml::items stay` |\n\
            | goes | yes | `conformance/sdk/clients/a/program.py::items go` |\n\
            | read | yes | `core/a/tests/requests/items.txt::An item is read` |\n\
            | media | no | retired |\n";
        assert_eq!(judged(table), Vec::<String>::new());
    }

    #[test]
    fn a_row_without_proof_is_a_complaint() {
        assert_eq!(judged("| etags | yes | surely |").len(), 1);
        assert_eq!(judged("| etags | partial | `Engine::write` |").len(), 1);
        assert_eq!(judged("| media | no | |").len(), 1);
    }

    #[test]
    fn a_test_that_does_not_exist_is_a_complaint() {
        assert!(
            judged("| a | yes | `core/a/tests/items.rs::another` |")[0]
                .contains("has no test `another`")
        );
        assert!(judged("| a | yes | `core/b/tests/items.rs::one` |")[0].contains("does not exist"));
        // A longer name is another name.
        assert_eq!(
            judged("| a | yes | `core/a/tests/items.rs::a_stale_etag` |").len(),
            1
        );
        let part_of_fact = "| a | yes | `core/a/tests/requests/items.txt::An item` |";
        assert_eq!(judged(part_of_fact).len(), 1);
    }

    #[test]
    fn a_tree_without_the_table_has_no_complaint() {
        assert!(complaints(&Tree::of(&[])).is_empty());
    }
}
