//! Rows of JSON as a table for a terminal: columns by the properties of the rows, in the order in
//! which they first appear; cells by their width on the screen.
//! A number has the digits with which the server sent it.

use crate::raw::{Members, plain};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Widest cell, in columns of the screen.
const CELL_WIDTH_MAX: usize = 40;
/// Heading of rows that are no objects.
const VALUE_COLUMN: &str = "value";

/// Rows, by columns.
struct Grid {
    columns: Vec<String>,
    /// JSON texts of each row, in the order of the columns; the last ones may be missing.
    rows: Vec<Vec<Option<String>>>,
}

impl Grid {
    fn of(rows: &[Box<RawValue>]) -> Self {
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut grid = Self {
            columns: Vec::new(),
            rows: Vec::with_capacity(rows.len()),
        };
        for row in rows {
            // A row of SELECT VALUE has no name.
            let members = match Members::of(row.get()) {
                Some(Members(members)) => members,
                None => vec![(VALUE_COLUMN.to_owned(), &**row)],
            };
            let mut cells = vec![None; grid.columns.len()];
            for (name, value) in members {
                let place = match places.get(&name) {
                    Some(place) => *place,
                    None => {
                        places.insert(name.clone(), grid.columns.len());
                        grid.columns.push(name);
                        cells.push(None);
                        grid.columns.len() - 1
                    }
                };
                cells[place] = Some(value.get().to_owned());
            }
            grid.rows.push(cells);
        }
        grid
    }

    /// Returns the texts of a row, one for each column; those of strings without quotation marks.
    fn texts(&self, row: &[Option<String>]) -> Vec<String> {
        let cell = |at: usize| row.get(at).and_then(|cell| cell.as_deref());
        (0..self.columns.len())
            .map(|at| cell(at).map(plain).unwrap_or_default())
            .collect()
    }
}

/// Returns the rows as a table of at most `width` columns of the screen; cells and then columns
/// that do not fit are cut, and the last line says so.
pub fn table(rows: &[Box<RawValue>], width: usize) -> String {
    let grid = Grid::of(rows);
    let columns: Vec<String> = grid.columns.iter().map(|name| on_one_line(name)).collect();
    let cells: Vec<Vec<String>> = grid
        .rows
        .iter()
        .map(|row| grid.texts(row).iter().map(|c| on_one_line(c)).collect())
        .collect();

    // Each column is as wide as its widest cell. Columns are taken from the left until the line is
    // full; the first one is always shown.
    let mut widths: Vec<usize> = Vec::new();
    let mut line = 0;
    for (at, column) in columns.iter().enumerate() {
        let widest = cells.iter().map(|row| row[at].width());
        let wanted = widest
            .max()
            .unwrap_or(0)
            .max(column.width())
            .min(CELL_WIDTH_MAX);
        if at > 0 && line + 2 + wanted > width {
            break;
        }
        widths.push(wanted.min(width.max(1)));
        line += 2 + wanted;
    }

    // Columns with a number stand at the right, so that digits stand below each other.
    let is_number: Vec<bool> = (0..columns.len())
        .map(|at| {
            let mut texts = grid.rows.iter().filter_map(|row| row.get(at)?.as_deref());
            texts.any(|text| text.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
        })
        .collect();
    let mut text = String::new();
    push_line(&mut text, &columns, &widths, &is_number);
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    push_line(&mut text, &rule, &widths, &is_number);
    for row in &cells {
        push_line(&mut text, row, &widths, &is_number);
    }
    if widths.len() < columns.len() {
        let left_out = columns[widths.len()..].join(", ");
        text.push_str(&format!("columns that do not fit: {left_out}\n"));
    }
    text
}

/// Returns the rows as CSV with a header; objects and arrays as JSON.
pub fn csv(rows: &[Box<RawValue>]) -> String {
    let grid = Grid::of(rows);
    let quoted = |cell: &String| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    };
    let mut text = String::new();
    let header = std::iter::once(grid.columns.clone());
    for cells in header.chain(grid.rows.iter().map(|row| grid.texts(row))) {
        let cells: Vec<String> = cells.iter().map(quoted).collect();
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}

/// Returns a text on one line; control characters could change the terminal.
pub(crate) fn on_one_line(text: &str) -> String {
    text.chars()
        .map(|c| if is_obeyed(c) { ' ' } else { c })
        .collect()
}

/// Returns a text for a terminal: characters that a terminal would obey, except for line ends and
/// tabs, are escaped as in JSON.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    let is_escaped = |c: char| is_obeyed(c) && !matches!(c, '\n' | '\r' | '\t');
    if !text.contains(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::new();
    for c in text.chars() {
        match is_escaped(c) {
            true => shown.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Returns true for control characters, line separators, and characters that turn the direction of
/// text.
fn is_obeyed(c: char) -> bool {
    let turns =
        matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || matches!(c, '\u{2028}' | '\u{2029}')
}

fn push_line(text: &mut String, cells: &[String], widths: &[usize], is_number: &[bool]) {
    let mut line = String::new();
    for (at, width) in widths.iter().enumerate() {
        let cell = cut(&cells[at], *width);
        let padding = " ".repeat(width.saturating_sub(cell.width()));
        if at > 0 {
            line.push_str("  ");
        }
        if is_number[at] {
            line.push_str(&padding);
            line.push_str(&cell);
        } else {
            line.push_str(&cell);
            line.push_str(&padding);
        }
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Cuts a cell to `width` columns of the screen; a cut cell ends with `…`.
fn cut(cell: &str, width: usize) -> String {
    if cell.width() <= width {
        return cell.to_owned();
    }
    let mut text = String::new();
    let mut used = 1;
    for c in cell.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        text.push(c);
    }
    text.push('…');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn raw(rows: &[Value]) -> Vec<Box<RawValue>> {
        rows.iter().map(|row| text(&row.to_string())).collect()
    }

    fn text(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).unwrap()
    }

    #[test]
    fn columns_are_aligned_by_the_width_on_the_screen() {
        let rows = [
            json!({"id": "日本", "n": 7}),
            json!({"id": "a", "n": 10, "x": [1]}),
        ];
        let expected = "id     n  x\n----  --  ---\n日本   7\na     10  [1]\n";
        assert_eq!(table(&raw(&rows), 80), expected);
        assert_eq!(
            table(&raw(&[json!("é\n\u{1b}[2J")]), 80),
            "value\n------\né  [2J\n"
        );
    }

    #[test]
    fn what_does_not_fit_is_cut_and_told() {
        let rows = [json!({"a": "x".repeat(60), "b": 1})];
        let text = table(&raw(&rows), 30);
        assert!(text.contains("x…\n"), "{text}");
        assert!(text.ends_with("columns that do not fit: b\n"), "{text}");
        assert!(
            text.lines().take(3).all(|line| line.width() <= 30),
            "{text}"
        );
    }

    #[test]
    fn a_terminal_gets_nothing_that_it_obeys() {
        assert_eq!(for_terminal("a\tb\n"), "a\tb\n");
        assert_eq!(
            for_terminal("\u{1b}[2J\u{9b}1m\u{202e}x"),
            "\\u001b[2J\\u009b1m\\u202ex"
        );
        assert_eq!(on_one_line("a\u{2028}b\u{1b}c"), "a b c");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let rows = [json!({"a": "x,\"y\"", "b": {"c": 1}}), json!({"b": null})];
        assert_eq!(
            csv(&raw(&rows)),
            "a,b\r\n\"x,\"\"y\"\"\",\"{\"\"c\"\":1}\"\r\n,null\r\n"
        );
    }

    #[test]
    fn numbers_keep_their_digits() {
        let rows = [text(r#"{"n":12345678901234567890123.50}"#)];
        assert!(table(&rows, 80).ends_with("12345678901234567890123.50\n"));
        assert_eq!(csv(&rows), "n\r\n12345678901234567890123.50\r\n");
    }
}
