//! Splits CSV text into rows without loading it.
//!
//! The form is that of RFC 4180, with what programs write: a row ends with `\n`, `\r` or `\r\n`,
//! blank lines are passed over, a quotation mark is special at the beginning of a cell only, and
//! text behind the closing mark belongs to the cell.
//!
//! Promises: a row takes at most [`TEXT_BYTES_MAX`] bytes and [`COLUMNS_MAX`] cells of memory. A
//! longer row is read to its end and told with its length, so that the rows behind it are found.
//!
//! Leaves out: other separators, comments, and the types of cells (`csv_rows`).

use super::input::TEXT_BYTES_MAX;
use std::io::{self, BufRead};

/// Columns of a file: as many as a spreadsheet has.
pub(super) const COLUMNS_MAX: usize = 16_384;

/// A row.
#[derive(Debug, Default)]
pub(super) struct Row {
    /// The cells one after another, without quotation marks and separators.
    text: Vec<u8>,
    /// End of each cell in `text`.
    ends: Vec<usize>,
    /// Line on which the row begins, counted from 1.
    pub(super) line: u64,
    /// Cells of the row, also of those that are not kept.
    pub(super) cells: usize,
    /// Bytes of the row in the file, also of those that are not kept.
    pub(super) bytes: usize,
    /// True if the text ended behind an opening quotation mark.
    pub(super) is_open: bool,
}

impl Row {
    /// Returns a cell that is kept.
    pub(super) fn cell(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends.get(index)?;
        let begin = match index.checked_sub(1) {
            Some(before) => self.ends[before],
            None => 0,
        };
        self.text.get(begin..end)
    }

    /// Returns the cells that are kept.
    pub(super) fn kept_cells(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).filter_map(|index| self.cell(index))
    }

    fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.line = 0;
        self.cells = 0;
        self.bytes = 0;
        self.is_open = false;
    }

    fn push(&mut self, byte: u8) {
        if self.text.len() < TEXT_BYTES_MAX {
            self.text.push(byte);
        }
    }

    fn end_cell(&mut self) {
        self.cells += 1;
        if self.ends.len() < COLUMNS_MAX {
            self.ends.push(self.text.len());
        }
    }
}

/// The place between two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScannerState {
    BeforeRow,
    BeforeCell,
    InCell,
    InQuotes,
    /// Behind a quotation mark in quotes: the closing one, or the first of two.
    BehindQuote,
}

/// The rows of a text.
pub(super) struct Rows {
    input: Box<dyn BufRead>,
    scanner: Scanner,
}

impl Rows {
    pub(super) fn new(input: Box<dyn BufRead>) -> Self {
        Self {
            input,
            scanner: Scanner {
                place: ScannerState::BeforeRow,
                line: 1,
                is_behind_return: false,
            },
        }
    }

    /// Reads the next row into `row`; returns false at the end of the text. The part of a row
    /// behind its first `bytes_max` bytes is left unread.
    ///
    /// # Errors
    /// The input cannot be read.
    pub(super) fn read(&mut self, row: &mut Row, bytes_max: usize) -> io::Result<bool> {
        row.clear();
        loop {
            let available = match self.input.fill_buf() {
                Ok(available) => available,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if available.is_empty() {
                return Ok(self.scanner.end(row));
            }
            let (mut taken, mut is_complete) = (0, false);
            for byte in available {
                taken += 1;
                is_complete = self.scanner.take(*byte, row) || row.bytes > bytes_max;
                if is_complete {
                    break;
                }
            }
            self.input.consume(taken);
            if is_complete {
                return Ok(true);
            }
        }
    }
}

/// The state between two bytes.
struct Scanner {
    place: ScannerState,
    line: u64,
    /// True behind `\r`, whose `\n` belongs to the same line end.
    is_behind_return: bool,
}

impl Scanner {
    /// Takes a byte; returns true if it ends the row.
    fn take(&mut self, byte: u8, row: &mut Row) -> bool {
        let line = self.line;
        if byte == b'\r' || (byte == b'\n' && !self.is_behind_return) {
            self.line += 1;
        }
        self.is_behind_return = byte == b'\r';
        let is_line_end = matches!(byte, b'\r' | b'\n');
        if self.place == ScannerState::BeforeRow {
            // A blank line is no row, and neither is the `\n` of `\r\n`.
            if is_line_end {
                return false;
            }
            row.line = line;
        }

        row.bytes += 1;
        let is_quoted = self.place == ScannerState::InQuotes;
        match byte {
            b'"' if is_quoted => self.place = ScannerState::BehindQuote,
            b'"' if self.place == ScannerState::BehindQuote => {
                row.push(byte);
                self.place = ScannerState::InQuotes;
            }
            b'"' if self.place != ScannerState::InCell => self.place = ScannerState::InQuotes,
            b',' if !is_quoted => {
                row.end_cell();
                self.place = ScannerState::BeforeCell;
            }
            _ if is_line_end && !is_quoted => {
                row.end_cell();
                self.place = ScannerState::BeforeRow;
                return true;
            }
            _ => {
                row.push(byte);
                if !is_quoted {
                    self.place = ScannerState::InCell;
                }
            }
        }
        false
    }

    /// Ends the text; returns true if it ends with a row.
    fn end(&mut self, row: &mut Row) -> bool {
        if self.place == ScannerState::BeforeRow {
            return false;
        }
        row.is_open = self.place == ScannerState::InQuotes;
        row.end_cell();
        self.place = ScannerState::BeforeRow;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn rows(text: &[u8]) -> Vec<(u64, Vec<Vec<u8>>)> {
        let mut rows = Rows::new(Box::new(Cursor::new(text.to_vec())));
        let (mut row, mut found) = (Row::default(), Vec::new());
        while rows.read(&mut row, usize::MAX).unwrap() {
            let cells: Vec<Vec<u8>> = row.kept_cells().map(<[u8]>::to_vec).collect();
            assert_eq!(cells.len(), row.cells);
            found.push((row.line, cells));
        }
        found
    }

    /// Returns the rows as the library reads them that writes exports.
    fn rows_of_library(text: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut builder = csv::ReaderBuilder::new();
        let reader = builder.has_headers(false).flexible(true);
        let records = reader.from_reader(text).into_byte_records();
        let cells = |record: csv::ByteRecord| record.iter().map(<[u8]>::to_vec).collect();
        records.map(|record| cells(record.unwrap())).collect()
    }

    #[test]
    fn every_short_text_has_the_rows_that_the_library_of_exports_finds() {
        const BYTES: &[u8] = b"a,\"\n\r";
        let mut texts: Vec<Vec<u8>> = vec![Vec::new()];
        let mut begin = 0;
        for _ in 0..6 {
            let end = texts.len();
            for at in begin..end {
                for byte in BYTES {
                    let longer = [&texts[at][..], &[*byte]].concat();
                    texts.push(longer);
                }
            }
            begin = end;
        }
        for text in &texts {
            let found: Vec<_> = rows(text).into_iter().map(|(_, cells)| cells).collect();
            let shown = String::from_utf8_lossy(text);
            assert_eq!(found, rows_of_library(text), "{shown:?}");
        }
    }

    #[test]
    fn rows_are_numbered_by_the_lines_on_which_they_begin() {
        let lines = |text: &[u8]| -> Vec<u64> { rows(text).iter().map(|row| row.0).collect() };
        assert_eq!(lines(b"a\n\n\"b\nb\"\nc"), [1, 3, 5]);
        assert_eq!(lines(b"a\r\n\r\n\"b\r\nb\"\r\nc"), [1, 3, 5]);
        assert_eq!(lines(b"a\rb\rc"), [1, 2, 3]);
    }

    #[test]
    fn a_row_without_end_takes_bounded_memory_and_the_next_row_is_found() {
        let long = [&b"\""[..], &vec![b'x'; TEXT_BYTES_MAX], b"\"\n"].concat();
        let wide = [&vec![b','; COLUMNS_MAX + 5][..], b"\n"].concat();
        let text = [&long[..], &wide, b"a,b\n\"open"].concat();
        let mut rows = Rows::new(Box::new(Cursor::new(text)));
        let mut row = Row::default();
        assert!(rows.read(&mut row, usize::MAX).unwrap());
        assert_eq!((row.line, row.bytes, row.cells), (1, TEXT_BYTES_MAX + 3, 1));
        assert!(row.text.len() <= TEXT_BYTES_MAX);
        assert!(rows.read(&mut row, usize::MAX).unwrap());
        assert_eq!((row.line, row.cells), (2, COLUMNS_MAX + 6));
        assert_eq!(row.ends.len(), COLUMNS_MAX);
        assert!(rows.read(&mut row, usize::MAX).unwrap());
        assert_eq!((row.cell(1), row.is_open), (Some(&b"b"[..]), false));
        assert!(rows.read(&mut row, usize::MAX).unwrap());
        assert_eq!((row.line, row.is_open), (4, true));
        assert!(!rows.read(&mut row, usize::MAX).unwrap());
    }

    #[test]
    fn a_row_is_read_no_further_than_is_asked_for() {
        let mut rows = Rows::new(Box::new(Cursor::new(vec![b'x'; 100])));
        let mut row = Row::default();
        assert!(rows.read(&mut row, 10).unwrap());
        assert_eq!(row.bytes, 11);
    }
}
