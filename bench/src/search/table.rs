//! Tables for a person: a name and columns of figures, printed line by line.

use std::time::Duration;

/// Width of a name and of a column.
const NAME: usize = 44;
const WIDTH: usize = 11;

/// A column: its head, and the digits behind the point of its figures.
#[derive(Clone, Copy)]
pub(crate) struct Column(pub(crate) &'static str, pub(crate) usize);

/// A table whose head is printed.
pub(crate) struct Table {
    columns: Vec<Column>,
}

impl Table {
    /// Prints an empty line and the head.
    pub(crate) fn begin(title: &str, columns: &[Column]) -> Table {
        let mut line = format!("\n{title:<NAME$}");
        for Column(head, _) in columns {
            line.push_str(&format!("{head:>WIDTH$}"));
        }
        println!("{line}");
        Table {
            columns: columns.to_vec(),
        }
    }

    /// Prints a line. A column without a figure has a dash.
    pub(crate) fn row(&self, name: &str, figures: &[Option<f64>]) {
        let mut line = format!("{name:<NAME$}");
        for (Column(_, digits), figure) in self.columns.iter().zip(figures) {
            let text = match figure {
                Some(figure) => format!("{figure:.digits$}"),
                None => "-".to_owned(),
            };
            line.push_str(&format!("{text:>WIDTH$}"));
        }
        println!("{line}");
    }
}

/// Returns a duration in milliseconds.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Returns a number of bytes in millions.
pub(crate) fn mega(bytes: f64) -> f64 {
    bytes / 1e6
}
