//! The forms of rows on standard output.

use crate::raw::indented;
use crate::table;
use serde_json::value::RawValue;

/// A form of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowForm {
    /// Table, cut to the width of the terminal.
    Table,
    /// JSON array, one row on a line.
    Json,
    /// JSON lines.
    JsonLines,
    /// CSV with a header.
    Csv,
}

impl RowForm {
    /// All forms with their names.
    pub const ALL: [(&'static str, Self); 4] = [
        ("table", Self::Table),
        ("json", Self::Json),
        ("jsonl", Self::JsonLines),
        ("csv", Self::Csv),
    ];

    /// Returns the form with this name.
    pub fn named(name: &str) -> Option<Self> {
        let mut found = Self::ALL.iter().filter(|(given, _)| *given == name);
        found.next().map(|(_, form)| *form)
    }

    /// Returns the name of the form.
    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, form)| *form == self);
        found.map_or("", |(name, _)| name)
    }

    /// Returns the rows in this form, with a line end; a table of no rows is empty. `width` is the
    /// width of a table in columns of the screen.
    pub fn text(self, rows: &[Box<RawValue>], width: usize) -> String {
        let lines = || rows.iter().map(|row| row.get());
        match self {
            Self::JsonLines => lines().map(|row| format!("{row}\n")).collect(),
            Self::Json => format!("[{}]\n", lines().collect::<Vec<_>>().join(",\n ")),
            Self::Csv => table::csv(rows),
            Self::Table if rows.is_empty() => String::new(),
            Self::Table => table::table(rows, width),
        }
    }

    /// Returns one item in this form: as JSON over several lines in place of a table.
    pub fn item(self, item: &str) -> String {
        match (self, RawValue::from_string(item.to_owned())) {
            (Self::Csv, Ok(row)) => table::csv(&[row]),
            (Self::JsonLines, _) => format!("{item}\n"),
            _ => format!("{}\n", indented(item)),
        }
    }
}

/// Width of a table if the terminal's is not known.
const WIDTH_DEFAULT: usize = 120;

/// Returns the width of a table: `COLUMNS` if it is set, else the terminal's.
pub fn screen_width() -> usize {
    let columns = std::env::var("COLUMNS").ok();
    let columns = columns.and_then(|text| text.parse().ok());
    #[cfg(unix)]
    let columns = columns.or_else(|| {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        (size.ws_col > 0).then_some(usize::from(size.ws_col))
    });
    columns.unwrap_or(WIDTH_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_found_by_its_name_and_keeps_the_text_of_rows() {
        let rows = [RawValue::from_string(r#"{"n":1.50}"#.into()).unwrap()];
        for (name, expected) in [
            ("table", "   n\n----\n1.50\n"),
            ("json", "[{\"n\":1.50}]\n"),
            ("jsonl", "{\"n\":1.50}\n"),
            ("csv", "n\r\n1.50\r\n"),
        ] {
            let form = RowForm::named(name).unwrap();
            assert_eq!(form.text(&rows, 80), expected);
            assert_eq!(form.name(), name);
        }
        assert_eq!(RowForm::named("xml"), None);
        assert_eq!(RowForm::Table.item("{\"n\":1.50}"), "{\n  \"n\": 1.50\n}\n");
    }
}
