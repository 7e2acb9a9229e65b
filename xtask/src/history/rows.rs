//! A file of counts that add up: a heading, then a line for each subject, with cells divided by
//! tabs. The rounds of `cargo xtask flaky` and the parts of `cargo xtask long trust` have such
//! files.
//!
//! Promises: the file on disk is always a whole one, the one before or the one after a write; a
//! line of another form is refused with the path and the number of the line.
//! Leaves out: the meaning of the cells, which the type of the row has.

use std::fs;
use std::path::Path;

use crate::sdk_tools::read;

/// A line of a file of counts.
pub(crate) trait Row: Sized {
    /// First line of the file.
    const HEADING: &'static str;
    /// Name of a line, for a refusal.
    const NAME: &'static str;

    /// Returns the cells of the line. No cell has a tab or a line end.
    fn cells(&self) -> Vec<String>;

    /// Reads the cells of a line; `None` if they are of another form.
    fn of_cells(cells: &[&str]) -> Option<Self>;
}

/// Reads a file; a file that does not exist has no lines.
pub(crate) fn of_file<R: Row>(path: &Path) -> Result<Vec<R>, String> {
    match path.is_file() {
        true => parsed(&path.display().to_string(), &read(path)?),
        false => Ok(Vec::new()),
    }
}

/// Returns the lines of the text of a file with this name.
pub(crate) fn parsed<R: Row>(name: &str, text: &str) -> Result<Vec<R>, String> {
    let mut rows = Vec::new();
    for (place, line) in text.lines().enumerate() {
        if place == 0 && line == R::HEADING {
            continue;
        }
        let cells: Vec<&str> = line.split('\t').collect();
        let row = R::of_cells(&cells);
        rows.push(row.ok_or_else(|| format!("{name}:{}: this is no {}", place + 1, R::NAME))?);
    }
    Ok(rows)
}

/// Returns the text of a file with these lines.
pub(crate) fn text<R: Row>(rows: &[R]) -> String {
    let mut text = format!("{}\n", R::HEADING);
    for row in rows {
        text.push_str(&row.cells().join("\t"));
        text.push('\n');
    }
    text
}

/// Writes a file anew: first beside it, so that no interruption loses the lines before.
pub(crate) fn write<R: Row>(path: &Path, rows: &[R]) -> Result<(), String> {
    let beside = path.with_extension("new");
    let written = fs::write(&beside, text(rows)).and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    struct Pair(String, u32);

    impl Row for Pair {
        const HEADING: &'static str = "name\tnumber";
        const NAME: &'static str = "pair";

        fn cells(&self) -> Vec<String> {
            vec![self.0.clone(), self.1.to_string()]
        }

        fn of_cells(cells: &[&str]) -> Option<Pair> {
            let [name, number] = cells else { return None };
            Some(Pair((*name).to_owned(), number.parse().ok()?))
        }
    }

    #[test]
    fn a_file_that_was_written_is_read_back_and_a_missing_one_has_no_lines() {
        let path = std::env::temp_dir().join(format!("xtask-rows-{}.tsv", std::process::id()));
        assert_eq!(of_file::<Pair>(&path), Ok(Vec::new()));
        let rows = vec![Pair("a".to_owned(), 1), Pair("b".to_owned(), 2)];
        write(&path, &rows).unwrap();
        assert_eq!(of_file(&path), Ok(rows));
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_line_of_another_form_is_refused_with_file_and_line() {
        for line in ["a", "a\tmany", "a\t1\t2", "", "name\tnumber"] {
            let refusal = parsed::<Pair>("f.tsv", &format!("name\tnumber\na\t1\n{line}\n"));
            assert_eq!(refusal.unwrap_err(), "f.tsv:3: this is no pair", "{line:?}");
        }
    }
}
