//! Aligned tables and headings.
//!
//! A figure that depends on time or on the machine is printed with `~` before it ([`timed`]); every
//! other figure is the same in each run.

/// Width of a paragraph.
const LINE_WIDTH: usize = 96;

/// A table that is printed when all its rows are known.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with the names of its columns.
    pub fn new(columns: &[&str]) -> Table {
        let columns = columns.iter().map(ToString::to_string).collect();
        Table {
            rows: vec![columns],
        }
    }

    /// Adds a row.
    pub fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows.push(cells.to_vec());
    }

    /// Prints the table. Columns of figures are aligned on the right, all others on the left.
    pub fn print(&self) {
        for line in self.lines() {
            println!("  {line}");
        }
        println!();
    }

    fn lines(&self) -> Vec<String> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let mut widths = vec![0; columns];
        let mut are_figures = vec![true; columns];
        for (number, row) in self.rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                widths[column] = widths[column].max(cell.chars().count());
                // The heading does not decide the alignment.
                are_figures[column] &= number == 0 || is_figure(cell);
            }
        }
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (column, cell) in row.iter().enumerate() {
                let pad = " ".repeat(widths[column] - cell.chars().count());
                if are_figures[column] {
                    line.push_str(&pad);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
                line.push_str("  ");
            }
            lines.push(line.trim_end().to_owned());
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                lines.push(rules.join("  "));
            }
        }
        lines
    }
}

fn is_figure(cell: &str) -> bool {
    let mut characters = cell.chars();
    let allowed = |c: char| c.is_ascii_digit() || matches!(c, '.' | ',' | '~' | '%' | '-' | ' ');
    cell.is_empty() || characters.all(allowed)
}

/// Prints the heading of a section.
pub fn heading(text: &str) {
    println!("{text}");
    println!("{}", "=".repeat(text.chars().count()));
}

/// Prints a paragraph in lines of bounded width, and an empty line.
pub fn text(text: &str) {
    for line in wrapped(text) {
        println!("{line}");
    }
    println!();
}

/// Prints an answer of the server as it is, and an empty line.
pub fn quote(text: &str) {
    println!("  {text}\n");
}

fn wrapped(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let width = line.chars().count() + 1 + word.chars().count();
        if !line.is_empty() && width > LINE_WIDTH {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// Returns a charge with two decimals.
pub fn ru(charge: f64) -> String {
    format!("{charge:.2}")
}

/// Returns a figure that depends on time, with a mark.
pub fn timed(figure: f64, decimals: usize) -> String {
    format!("~{figure:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_are_broken_between_words() {
        let long = "word ".repeat(40);
        let lines = wrapped(&long);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= LINE_WIDTH));
        assert_eq!(lines.join(" "), long.trim_end());
    }

    #[test]
    fn columns_of_figures_are_aligned_on_the_right() {
        let mut table = Table::new(&["key", "RU"]);
        table.row(["/deviceId".to_owned(), "3.06".to_owned()]);
        table.row(["/date".to_owned(), "~120.50".to_owned()]);
        assert_eq!(
            table.lines(),
            [
                "key             RU",
                "---------  -------",
                "/deviceId     3.06",
                "/date      ~120.50",
            ]
        );
    }
}
