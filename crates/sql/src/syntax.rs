//! Text to tree and back: tokens, grammar, tree, printer.

pub(crate) mod ast;
mod clauses;
mod expressions;
mod form;
mod lexer;
mod parser;
pub(crate) mod print;

pub use form::QueryForm;
pub(crate) use lexer::characters;
pub(crate) use parser::parse;

/// The queries of the golden scripts, for tests of what holds whatever a query says.
#[cfg(test)]
fn golden_queries() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut queries = Vec::new();
    for file in std::fs::read_dir(folder).expect("golden folder") {
        let script = std::fs::read_to_string(file.expect("entry").path()).expect("golden file");
        for block in script.split("\n\n").filter(|b| b.starts_with("query")) {
            let text = block
                .split_once('\n')
                .map_or("", |(_, rest)| rest.split("\n----").next().unwrap_or(""));
            let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('@')).collect();
            queries.push(lines.join("\n"));
        }
    }
    queries
}
