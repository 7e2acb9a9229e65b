//! Splits a JSON text into the elements of its outermost array, or into values one after another,
//! without loading it. Elements are found by brackets and quotes; their own syntax is checked
//! later, so that a faulty element does not hide the next.

use super::input::{Record, Sink, TEXT_BYTES_MAX, too_long};
use std::io::{self, BufRead};

/// Returns true if the first character that is no space is `[`. Consumes the spaces in front of it.
pub(super) fn begins_with_array(input: &mut dyn BufRead) -> io::Result<bool> {
    loop {
        let available = input.fill_buf()?;
        let Some(first) = available.first() else {
            return Ok(false);
        };
        if !first.is_ascii_whitespace() {
            return Ok(*first == b'[');
        }
        input.consume(1);
    }
}

/// The scanner between two bytes.
struct Scanner {
    is_array: bool,
    is_closed: bool,
    /// Open brackets inside the element.
    depth: usize,
    in_string: bool,
    is_escaped: bool,
    line: u64,
    /// Bytes of the element, of which at most [`TEXT_BYTES_MAX`] are kept.
    length: usize,
    record: Record,
    number: u64,
}

/// Reads all elements.
///
/// # Errors
/// A description of a text that ends within an element, or goes on after its array.
pub(super) fn read(input: &mut dyn BufRead, sink: Sink<'_>) -> Result<(), String> {
    let is_array = begins_with_array(input).map_err(|e| e.to_string())?;
    if is_array {
        input.consume(1);
    }
    let mut scanner = Scanner {
        is_array,
        is_closed: false,
        depth: 0,
        in_string: false,
        is_escaped: false,
        line: 1,
        length: 0,
        record: Record::default(),
        number: 0,
    };
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e.to_string()),
        };
        if available.is_empty() {
            return scanner.end(sink);
        }
        for byte in available {
            if !scanner.take(*byte, sink)? {
                return Ok(());
            }
        }
        let taken = available.len();
        input.consume(taken);
    }
}

impl Scanner {
    /// Takes one byte; returns false if the sink wants no more.
    fn take(&mut self, byte: u8, sink: Sink<'_>) -> Result<bool, String> {
        if byte == b'\n' {
            self.line += 1;
        }
        if self.in_string {
            self.push(byte);
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return Ok(true);
        }
        if self.is_closed {
            if byte.is_ascii_whitespace() {
                return Ok(true);
            }
            return Err(format!(
                "line {}: text after the end of the array",
                self.line
            ));
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.push(byte);
            }
            b'{' | b'[' => {
                self.depth += 1;
                self.push(byte);
            }
            b']' if self.depth == 0 && self.is_array => {
                self.is_closed = true;
                // `[]` has no element, and `[1,]` a faulty one.
                if self.length > 0 || self.number > 0 {
                    return Ok(self.emit(sink));
                }
            }
            b'}' | b']' => {
                self.push(byte);
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 && !self.is_array {
                    return Ok(self.emit(sink));
                }
            }
            b',' if self.depth == 0 && self.is_array => return Ok(self.emit(sink)),
            _ if byte.is_ascii_whitespace() && self.length == 0 => {}
            _ => self.push(byte),
        }
        Ok(true)
    }

    fn push(&mut self, byte: u8) {
        if self.length == 0 {
            self.record.line = self.line;
        }
        self.length += 1;
        if self.record.text.len() < TEXT_BYTES_MAX {
            self.record.text.push(byte);
        }
    }

    fn emit(&mut self, sink: Sink<'_>) -> bool {
        let mut record = std::mem::take(&mut self.record);
        while record.text.last().is_some_and(u8::is_ascii_whitespace) {
            record.text.pop();
        }
        self.number += 1;
        record.number = self.number;
        if record.line == 0 {
            record.line = self.line;
        }
        if self.length > TEXT_BYTES_MAX {
            record.fault = Some(too_long(self.length));
        } else if record.text.is_empty() {
            record.fault = Some("an element without a value: one comma too many".into());
        }
        self.length = 0;
        sink(record)
    }

    fn end(mut self, sink: Sink<'_>) -> Result<(), String> {
        if self.is_array && !self.is_closed {
            // An element that ends with its own last character is whole without the comma.
            let ends = |byte: &u8| matches!(byte, b'}' | b']' | b'"');
            let is_whole = self.depth == 0 && !self.in_string;
            if is_whole && self.record.text.last().is_some_and(ends) && !self.emit(sink) {
                return Ok(());
            }
            return Err(format!(
                "the text ends after {} whole elements of its array: it is cut off",
                self.number
            ));
        }
        if self.depth > 0 || self.in_string {
            return Err(format!(
                "the text ends within value {}, which begins on line {}: it is cut off",
                self.number + 1,
                self.record.line
            ));
        }
        if self.length > 0 {
            self.emit(sink);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(text: &str) -> Result<Vec<(u64, String)>, String> {
        let mut found = Vec::new();
        read(&mut text.as_bytes(), &mut |record| {
            found.push((record.line, String::from_utf8(record.text).unwrap()));
            true
        })?;
        Ok(found)
    }

    fn own(expected: &[(u64, &str)]) -> Vec<(u64, String)> {
        expected
            .iter()
            .map(|(line, text)| (*line, (*text).to_owned()))
            .collect()
    }

    #[test]
    fn elements_are_split_by_brackets_and_quotes() {
        let text = "[{\"a\":\"}\\\"],\"},\n[1,\n2] , 9007199254740993.0 ]";
        let expected = own(&[
            (1, "{\"a\":\"}\\\"],\"}"),
            (2, "[1,\n2]"),
            (3, "9007199254740993.0"),
        ]);
        assert_eq!(elements(text).unwrap(), expected);
        assert_eq!(elements(" [ ] ").unwrap(), []);
    }

    #[test]
    fn values_may_follow_each_other_without_an_array() {
        let text = "{\"a\":\n1}{\"b\":2}\n\n{\"c\":3}";
        let expected = own(&[(1, "{\"a\":\n1}"), (2, "{\"b\":2}"), (4, "{\"c\":3}")]);
        assert_eq!(elements(text).unwrap(), expected);
    }

    #[test]
    fn a_text_that_is_cut_off_is_an_error() {
        for text in ["[{\"a\":1},{\"b\"", "[1,2", "{\"a\":{\"b\":1}", "[1] 2"] {
            assert!(elements(text).is_err(), "{text}");
        }
    }
}
