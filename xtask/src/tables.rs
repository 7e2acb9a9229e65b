//! The tables of `docs/compat.md` that are made from tables in the code: request headers and
//! properties of bodies.
//!
//! ```text
//! code      checked("x-ms-max-item-count", "rows of a page", "below -1: 400", |a, v| …)
//! document  <!-- from core/gateway/src/headers/table.rs by `cargo xtask compat` -->
//!           | `x-ms-max-item-count` | rows of a page | below -1: 400 |
//!           <!-- end -->
//! ```
//!
//! The code is read as text: a row is a call of one of the table's functions whose first two or
//! more arguments are string literals, and these are its cells. So the tables need no build, and
//! `tidy` finds an outdated document in a moment.
//!
//! Promises: a document that [`written`] returns unchanged has the tables of the code.
//! Leaves out: everything outside of the marks.

use std::fs;

use crate::run::{Outcome, root};

/// Path of the document.
pub(crate) const DOCUMENT: &str = "docs/compat.md";

const END: &str = "<!-- end -->";

/// Source of one table of the document.
struct Source {
    /// Path of the file that holds the rows.
    path: &'static str,
    /// Names of the functions whose calls make a row.
    makers: &'static [&'static str],
    /// Column headings; a row with fewer cells gets empty ones at its end.
    columns: &'static [&'static str],
}

/// The functions of `core/engine/src/request/properties.rs` that make a row.
const PROPERTY: &[&str] = &[
    "stored",
    "server_set",
    "immutable",
    "unsupported",
    "limited_to",
];

const fn properties(path: &'static str) -> Source {
    Source {
        path,
        makers: PROPERTY,
        columns: &["property", "what becomes of it"],
    }
}

const SOURCES: &[Source] = &[
    Source {
        path: "core/gateway/src/headers/table.rs",
        makers: &["header", "checked"],
        columns: &["header", "what it does", "how it is refused"],
    },
    properties("core/engine/src/catalog/databases.rs"),
    properties("core/engine/src/container/settings.rs"),
    properties("core/engine/src/partition/row.rs"),
    properties("core/engine/src/catalog/scripts.rs"),
    properties("core/engine/src/catalog/offers.rs"),
];

/// Writes the tables into the document.
pub(crate) fn write(arguments: &[String]) -> Outcome {
    if let Some(argument) = arguments.first() {
        return Err(format!("compat takes no arguments, not `{argument}`"));
    }
    let text_of = |path: &str| fs::read_to_string(root().join(path)).ok();
    let document = text_of(DOCUMENT).ok_or_else(|| format!("cannot read {DOCUMENT}"))?;
    let written = written(&document, &text_of)?;
    if written == document {
        println!("{DOCUMENT} has the tables of the code already");
        return Ok(());
    }
    fs::write(root().join(DOCUMENT), written)
        .map_err(|error| format!("cannot write {DOCUMENT}: {error}"))?;
    println!("{DOCUMENT} is written");
    Ok(())
}

/// Returns the help text of the command: the files that the tables are made from.
pub(crate) fn help() -> String {
    let mut text = String::from("The tables are made from the rows of these files:\n\n");
    for source in SOURCES {
        text.push_str(&format!("  {}\n", source.path));
    }
    text
}

/// Returns the document with its tables made anew from the texts of the code.
///
/// # Errors
/// A sentence if the marks of a table are missing from the document, or if a source has no rows.
pub(crate) fn written(
    document: &str,
    text_of: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut document = document.to_owned();
    for source in SOURCES {
        // The table stands between two marks; the text between them is replaced as a whole.
        let mark = format!("<!-- from {} by `cargo xtask compat` -->\n", source.path);
        let begin = document
            .find(&mark)
            .ok_or_else(|| format!("{DOCUMENT} has no line `{}`", mark.trim()))?
            + mark.len();
        let length = document[begin..]
            .find(END)
            .ok_or_else(|| format!("{DOCUMENT}: `{}` has no end", mark.trim()))?;
        let code = text_of(source.path).ok_or_else(|| format!("cannot read {}", source.path))?;
        document.replace_range(begin..begin + length, &source.table(&code)?);
    }
    Ok(document)
}

impl Source {
    fn table(&self, code: &str) -> Result<String, String> {
        let rows = rows(code, self.makers);
        if rows.is_empty() {
            return Err(format!(
                "{} has no rows made by {}",
                self.path,
                self.makers.join(" or ")
            ));
        }
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut table = line(self.columns.iter().map(|&head| head.to_owned()).collect());
        table.push_str(&line(vec!["---".to_owned(); self.columns.len()]));
        for mut cells in rows {
            cells.resize(self.columns.len(), String::new());
            cells[0] = format!("`{}`", cells[0]);
            table.push_str(&line(cells));
        }
        Ok(table)
    }
}

/// Returns the rows of a source: of each call of one of `makers`, the string literals that begin
/// the arguments, if there are two or more.
fn rows(code: &str, makers: &[&str]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut rest = code;
    while let Some(open) = rest.find('(') {
        let (before, after) = (&rest[..open], &rest[open + 1..]);
        let name = before
            .rsplit(|c: char| !c.is_alphanumeric() && c != '_')
            .next()
            .unwrap_or_default();
        if makers.contains(&name) {
            let cells = leading_literals(after);
            if cells.len() > 1 {
                rows.push(cells);
            }
        }
        rest = after;
    }
    rows
}

fn leading_literals(mut arguments: &str) -> Vec<String> {
    let mut literals = Vec::new();
    while let Some(text) = arguments.trim_start().strip_prefix('"') {
        let Some((literal, rest)) = literal(text) else {
            break;
        };
        literals.push(literal);
        arguments = rest.trim_start().strip_prefix(',').unwrap_or("");
    }
    literals
}

/// Reads a string literal behind its first quote; returns its value and the text behind its last
/// quote. Knows escaped quotes and backslashes, and a backslash at the end of a line.
fn literal(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                // The literal goes on at the first character of the next line that is no space.
                '\n' => {
                    let rest = characters.as_str();
                    let skipped = rest.len() - rest.trim_start().len();
                    for _ in rest[..skipped].chars() {
                        characters.next();
                    }
                }
                escaped => value.push(escaped),
            },
            plain => value.push(plain),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_made_of_the_strings_that_begin_a_call() {
        let code = "const fn header(name: &str) {}\n[header(\"a\", \"does\", READ),\n\
                    checked(\n    \"b\", \"says \\\"no\\\"\", \"r\\\\\", |a, v| header_of(\"x\"))]";
        assert_eq!(
            rows(code, &["header", "checked"]),
            [vec!["a", "does"], vec!["b", "says \"no\"", "r\\"]]
        );
    }

    #[test]
    fn a_long_string_goes_on_in_the_next_line() {
        assert_eq!(
            rows("row(\"one \\\n        two\", \"3\")", &["row"]),
            [vec!["one two", "3"]]
        );
    }

    #[test]
    fn a_document_without_a_place_for_a_table_is_refused() {
        assert!(
            written("nothing", &|_| None)
                .unwrap_err()
                .contains("has no line")
        );
    }

    #[test]
    fn a_table_is_written_between_its_marks() {
        let document: String = SOURCES
            .iter()
            .map(|s| {
                format!(
                    "<!-- from {} by `cargo xtask compat` -->\nold\n{END}\n",
                    s.path
                )
            })
            .collect();
        let code = |_: &str| {
            let calls: Vec<String> = SOURCES
                .iter()
                .flat_map(|s| s.makers)
                .map(|maker| format!("{maker}(\"a\", \"b\")"))
                .collect();
            Some(calls.join("\n"))
        };
        let first = written(&document, &code).unwrap();
        assert!(
            first.contains("| `a` | b |  |\n") && !first.contains("old"),
            "{first}"
        );
        assert_eq!(written(&first, &code).unwrap(), first);
    }
}
