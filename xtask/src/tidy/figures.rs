//! Numbers in tables of documents equal the constants of the code.
//!
//! A row is judged if its last cell begins with a constant and its file: the row's second cell must
//! then begin with the value of the constant.
//!
//! ```text
//! | text of a query | 512 KiB | 400 | `QUERY_TEXT_BYTES` in `core/model/src/limits.rs` |
//! ```
//!
//! Figures: `1,023`, `30 million`, `512 KiB`, `4 MiB`, `1 GiB`, and `5 s` for a constant whose name
//! ends with `_MS`. Constants: numbers with `*`, `+` and `<<`, without parentheses.
//!
//! Leaves out: figures in sentences. A sentence names the constant instead of its value.

use super::markdown;
use super::tree::Tree;

/// Returns the rows whose figure differs from the constant, or cannot be compared with it.
pub(super) fn complaints(tree: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (document, text) in tree.ending(".md") {
        for (number, line) in markdown::lines(text) {
            let Some((figure, name, path)) = row(line) else {
                continue;
            };
            let at = format!("{document}:{number}");
            let stated = figure_value(figure, name.ends_with("_MS"));
            let actual = tree.text(path).and_then(|code| constant_value(code, name));
            match (stated, actual) {
                (Some(stated), Some(actual)) if stated == actual => {}
                (_, None) => found.push(format!("{at}: {path} has no number `{name}`")),
                (None, _) => found.push(format!("{at}: `{figure}` does not begin with a figure")),
                (Some(_), Some(actual)) => {
                    found.push(format!("{at}: `{name}` is {actual}, not {figure}"));
                }
            }
        }
    }
    found
}

/// Returns the second cell of a table row, and the constant and path with which its last cell
/// begins.
fn row(line: &str) -> Option<(&str, &str, &str)> {
    let cells = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    let figure = cells.split('|').nth(1)?.trim();
    let last = cells.rsplit('|').next()?.trim();
    let (name, rest) = last.strip_prefix('`')?.split_once("` in `")?;
    let is_constant = name
        .chars()
        .all(|character| character.is_ascii_uppercase() || "_0123456789".contains(character));
    let path = rest.split('`').next()?;
    is_constant.then_some((figure, name, path))
}

/// Returns the value with which a text begins: digits with commas, and a unit if there is one.
fn figure_value(text: &str, in_milliseconds: bool) -> Option<u64> {
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != ',')
        .unwrap_or(text.len());
    let number: u64 = text[..end]
        .trim_end_matches(',')
        .replace(',', "")
        .parse()
        .ok()?;
    let unit = text[end..]
        .split(|character: char| !character.is_alphabetic())
        .find(|word| !word.is_empty());
    let factor = match unit {
        Some("KiB") => 1 << 10,
        Some("MiB") => 1 << 20,
        Some("GiB") => 1 << 30,
        Some("million") => 1_000_000,
        Some("s") if in_milliseconds => 1_000,
        _ => 1,
    };
    number.checked_mul(factor)
}

/// Returns the value of the constant of this name in a text of Rust.
fn constant_value(code: &str, name: &str) -> Option<u64> {
    let (_, definition) = code.split_once(&format!("const {name}: "))?;
    let (_, expression) = definition.split_once('=')?;
    let (expression, _) = expression.split_once(';')?;
    let mut parts = expression.split("<<");
    let mut value = sum(parts.next()?)?;
    for shift in parts {
        value = value.checked_shl(u32::try_from(sum(shift)?).ok()?)?;
    }
    Some(value)
}

/// Returns the value of numbers joined by `+` and `*`.
fn sum(expression: &str) -> Option<u64> {
    let mut sum: u64 = 0;
    for term in expression.split('+') {
        let mut product: u64 = 1;
        for factor in term.split('*') {
            let number: u64 = factor.trim().replace('_', "").parse().ok()?;
            product = product.checked_mul(number)?;
        }
        sum = sum.checked_add(product)?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "pub const TEXT_BYTES: usize = 512 * 1024;\n\
                        const ROW_BYTES: u64 = 1 << 24;\n\
                        const TIME_MS: u64 = 5_000;\nconst BODY_BYTES: usize = 2 * 1024 + 128;\n\
                        const STEPS: u64 = 30_000_000;\nconst OTHER: u64 = 2 * STEPS;\n";

    fn judged(figure: &str, name: &str) -> Vec<String> {
        let document = format!("| a bound | {figure} | 400 | `{name}` in `a.rs`, and more |\n");
        complaints(&Tree::of(&[
            ("docs/limits.md", document.as_str()),
            ("a.rs", CODE),
        ]))
    }

    #[test]
    fn a_figure_that_equals_its_constant_passes() {
        for (figure, name) in [
            ("512 KiB", "TEXT_BYTES"),
            ("524,288, or less", "TEXT_BYTES"),
            ("16 MiB; more for others", "ROW_BYTES"),
            ("5 s", "TIME_MS"),
            ("2,176 bytes", "BODY_BYTES"),
            ("30 million steps", "STEPS"),
        ] {
            assert_eq!(judged(figure, name), Vec::<String>::new());
        }
    }

    #[test]
    fn a_figure_that_differs_is_a_complaint() {
        assert_eq!(
            judged("256 KiB", "TEXT_BYTES"),
            ["docs/limits.md:1: `TEXT_BYTES` is 524288, not 256 KiB"]
        );
        assert!(judged("many", "TEXT_BYTES")[0].contains("does not begin with a figure"));
        assert!(judged("60 million", "OTHER")[0].contains("has no number"));
        assert!(judged("1", "MISSING")[0].contains("has no number"));
    }

    #[test]
    fn a_row_without_a_constant_is_left_alone() {
        let text = "| a | 1 | `b` in `a.rs` |\n| a | 1 | `a.rs` |\nA `STEPS` in `a.rs`.\n";
        assert!(complaints(&Tree::of(&[("docs/a.md", text), ("a.rs", CODE)])).is_empty());
    }
}
