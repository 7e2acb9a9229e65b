//! Rows of JSON as a table for a terminal: columns by the properties of the rows, in the order in
//! which they first appear; cells by their width on the screen.

use serde_json::Value;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Widest cell, in columns of the screen.
const CELL_WIDTH_MAX: usize = 40;
/// Heading of rows that are no objects.
const VALUE_COLUMN: &str = "value";

/// Returns the rows as a table of at most `width` columns of the screen; cells and then columns
/// that do not fit are cut, and the last line says so.
pub fn table(rows: &[Value], width: usize) -> String {
    let columns = columns(rows);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| columns.iter().map(|column| cell(row, column)).collect())
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

    let is_number: Vec<bool> = columns
        .iter()
        .map(|column| rows.iter().any(|row| row[column].is_number()))
        .collect();
    let mut text = String::new();
    let heading: Vec<String> = columns.iter().map(|column| column.to_string()).collect();
    push_line(&mut text, &heading, &widths, &is_number);
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
pub fn csv(rows: &[Value]) -> String {
    let columns = columns(rows);
    let mut text = String::new();
    let quoted = |cell: &str| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell.to_owned(),
    };
    let heading: Vec<String> = columns.iter().map(|column| quoted(column)).collect();
    text.push_str(&heading.join(","));
    text.push_str("\r\n");
    for row in rows {
        let cells = columns.iter().map(|column| quoted(&plain(row, column)));
        text.push_str(&cells.collect::<Vec<_>>().join(","));
        text.push_str("\r\n");
    }
    text
}

fn columns(rows: &[Value]) -> Vec<&str> {
    let mut columns: Vec<&str> = Vec::new();
    for row in rows {
        let names = match row {
            Value::Object(members) => members.keys().map(String::as_str).collect(),
            _ => vec![VALUE_COLUMN],
        };
        for name in names {
            if !columns.contains(&name) {
                columns.push(name);
            }
        }
    }
    columns
}

/// Returns the text of a cell, without quotation marks around a string.
fn plain(row: &Value, column: &str) -> String {
    let value = match row {
        Value::Object(members) => members.get(column),
        other if column == VALUE_COLUMN => Some(other),
        _ => None,
    };
    match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    }
}

/// Returns the text of a cell on one line; control characters could change the terminal.
fn cell(row: &Value, column: &str) -> String {
    let text = plain(row, column);
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
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
    use serde_json::json;

    #[test]
    fn columns_are_aligned_by_the_width_on_the_screen() {
        let rows = [
            json!({"id": "日本", "n": 7}),
            json!({"id": "a", "n": 10, "x": [1]}),
        ];
        let expected = "id     n  x\n----  --  ---\n日本   7\na     10  [1]\n";
        assert_eq!(table(&rows, 80), expected);
        assert_eq!(
            table(&[json!("é\n\u{1b}[2J")], 80),
            "value\n------\né  [2J\n"
        );
    }

    #[test]
    fn what_does_not_fit_is_cut_and_told() {
        let rows = [json!({"a": "x".repeat(60), "b": 1})];
        let text = table(&rows, 30);
        assert!(text.contains("x…\n"), "{text}");
        assert!(text.ends_with("columns that do not fit: b\n"), "{text}");
        assert!(
            text.lines().take(3).all(|line| line.width() <= 30),
            "{text}"
        );
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        let rows = [json!({"a": "x,\"y\"", "b": {"c": 1}}), json!({"b": null})];
        assert_eq!(
            csv(&rows),
            "a,b\r\n\"x,\"\"y\"\"\",\"{\"\"c\"\":1}\"\r\n,null\r\n"
        );
    }
}
