//! Reads the golden scripts. `tests/golden.rs` describes the format and runs the scripts; the other
//! readers need the cases only.

#![allow(dead_code)] // each user needs its own part

use std::path::{Path, PathBuf};

/// A query of a script with the answer that stands below it.
pub(crate) struct Case {
    /// The text of the query, without its parameters.
    pub(crate) text: String,
    /// The lines of the answer: rows, plan lines or errors.
    pub(crate) answer: Vec<String>,
    /// True for a block `client-plan`, whose answer is the plan.
    pub(crate) is_client_plan: bool,
}

impl Case {
    /// Returns true if the answer is an error.
    pub(crate) fn is_error(&self) -> bool {
        self.answer.iter().any(|line| line.starts_with("error "))
    }
}

/// Returns the folder of the golden scripts.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Returns the golden scripts in reading order: path and text.
pub(crate) fn scripts() -> Vec<(PathBuf, String)> {
    let entries = std::fs::read_dir(folder()).expect("the folder of the golden scripts");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|file| {
            let text = std::fs::read_to_string(&file).expect("a golden script");
            (file, text)
        })
        .collect()
}

/// Returns every case of every golden script.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for (_, script) in scripts() {
        for block in script.trim_end().split("\n\n") {
            let (head, body) = block.split_once('\n').unwrap_or((block, ""));
            match head.split_whitespace().next() {
                Some("cases") => cases.extend(body.lines().map(short_case)),
                Some("query") => cases.push(long_case(body, false)),
                Some("client-plan") => cases.push(long_case(body, true)),
                _ => {}
            }
        }
    }
    cases
}

/// Splits a line of a block `cases` into the text before ` => ` and the answer after it.
pub(crate) fn split_line(line: &str) -> (&str, &str) {
    let (text, answer) = line.split_once(" =>").unwrap_or((line, ""));
    (text, answer.trim_start())
}

/// Returns true if a line of a block `cases` is a whole query, not an expression.
pub(crate) fn is_query(text: &str) -> bool {
    text.get(..7)
        .is_some_and(|start| start.eq_ignore_ascii_case("SELECT "))
}

/// Returns the query that a line of a block `cases` stands for.
pub(crate) fn query_of(text: &str) -> String {
    if is_query(text) {
        text.to_owned()
    } else {
        format!("SELECT VALUE {text}")
    }
}

/// Returns true if a line of a question gives a parameter: `@name = json`.
pub(crate) fn is_parameter(line: &str) -> bool {
    line.starts_with('@') && line.contains(" = ")
}

fn short_case(line: &str) -> Case {
    let (text, answer) = split_line(line);
    Case {
        text: query_of(text),
        answer: vec![answer.to_owned()],
        is_client_plan: false,
    }
}

fn long_case(body: &str, is_client_plan: bool) -> Case {
    let (question, answer) = body.split_once("\n----").unwrap_or((body, ""));
    let text: Vec<&str> = question
        .lines()
        .filter(|line| !is_parameter(line))
        .collect();
    Case {
        text: text.join("\n"),
        answer: answer.lines().skip(1).map(str::to_owned).collect(),
        is_client_plan,
    }
}
