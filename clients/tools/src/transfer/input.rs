//! Reads files and standard input, record by record, without loading them.
//!
//! | format | record |
//! |---|---|
//! | JSON lines | a line; blank lines are passed over |
//! | JSON | an element of the outermost array, or one of several values after another |
//! | CSV | a row; the first row names the columns (`csv_rows`) |
//!
//! Compression is recognized by the first bytes: gzip and zstd, also of several members one after
//! another. A byte order mark at the beginning and `\r` before `\n` are not part of a record.
//! A record that is too long, and a row that does not fit its header, are records with a fault, so
//! that no record is passed over in silence. A file that is cut off is an error.

use super::{csv_rows, json_values};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of the longest text that is kept: eight times an item of the largest size.
pub(super) const TEXT_BYTES_MAX: usize = 16 << 20;
/// Bytes of the buffers for reading.
const BUFFER_BYTES: usize = 256 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// One JSON text on each line.
    JsonLines,
    /// One array, or several values one after another.
    Json,
    /// Comma-separated values with a header.
    Csv,
}

/// The rules for CSV files.
#[derive(Debug, Clone, Default)]
pub struct CsvRules {
    /// Columns whose cells are strings, whatever they look like. `id` always is one.
    pub text_columns: Vec<String>,
    /// Column names are property names as they stand: `a.b` is no path.
    pub flat: bool,
}

/// One record.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Place among the records of its part, counted from 1.
    pub(super) number: u64,
    /// Line on which the record begins, counted from 1; 0 if there are no lines.
    pub(super) line: u64,
    /// JSON text.
    pub(super) text: Vec<u8>,
    /// The reason for which the record cannot be imported; the text is then that of the input.
    pub(super) fault: Option<String>,
    /// Position in the source from which `number` counts, for sources without record numbers.
    pub(super) mark: Option<Arc<str>>,
}

/// Receives records; returns false to end the reading.
pub(super) type Sink<'a> = &'a mut dyn FnMut(Record) -> bool;

/// A file, or standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Input {
    File(PathBuf),
    Standard,
}

impl Input {
    /// Returns the name for messages and generated ids.
    pub(super) fn name(&self) -> String {
        match self {
            Input::File(path) => path.display().to_string(),
            Input::Standard => "-".to_owned(),
        }
    }

    /// Returns the name from the root of the file system on.
    pub(super) fn full_name(&self) -> String {
        match self {
            Input::File(path) => {
                let whole = path.canonicalize();
                whole.as_ref().unwrap_or(path).display().to_string()
            }
            Input::Standard => self.name(),
        }
    }

    /// Returns the time of the last change, in milliseconds since 1970; 0 if it is not known.
    pub(super) fn changed_at(&self) -> u128 {
        let Input::File(path) = self else { return 0 };
        let changed = std::fs::metadata(path).and_then(|facts| facts.modified());
        let since = changed.map(|time| time.duration_since(std::time::UNIX_EPOCH));
        since.map_or(0, |since| since.map_or(0, |since| since.as_millis()))
    }

    /// Returns the size in bytes, if it is known.
    pub(super) fn size(&self) -> Option<u64> {
        match self {
            Input::File(path) => Some(std::fs::metadata(path).ok()?.len()),
            Input::Standard => None,
        }
    }

    /// Reads all records. `read` counts the bytes of the file, before decompression.
    ///
    /// # Errors
    /// A description of a file that cannot be read, is cut off, or has no readable header.
    pub(super) fn read(
        &self,
        format: Option<InputFormat>,
        csv: &CsvRules,
        read: &Arc<AtomicU64>,
        sink: Sink<'_>,
    ) -> Result<(), String> {
        let name = self.name();
        let failed = |cause: String| format!("{name}: {cause}");
        let raw: Box<dyn Read> = match self {
            Input::File(path) => Box::new(File::open(path).map_err(|e| failed(e.to_string()))?),
            Input::Standard => Box::new(io::stdin()),
        };
        let counted = Counted(raw, read.clone());
        let buffered = BufReader::with_capacity(BUFFER_BYTES, counted);
        let mut text = decompressed(buffered).map_err(|e| failed(e.to_string()))?;
        skip_byte_order_mark(&mut *text).map_err(|e| failed(e.to_string()))?;

        let format = match format.or_else(|| self.format_of_name()) {
            Some(format) => format,
            None => {
                let is_array = json_values::begins_with_array(&mut *text)
                    .map_err(|e| failed(e.to_string()))?;
                if is_array {
                    InputFormat::Json
                } else {
                    InputFormat::JsonLines
                }
            }
        };
        let result = match format {
            InputFormat::JsonLines => lines(&mut *text, sink),
            InputFormat::Json => json_values::read(&mut *text, sink),
            InputFormat::Csv => csv_rows::read(text, csv, sink),
        };
        result.map_err(failed)
    }

    /// Returns the format that the file's name states, below the extension of a compression.
    fn format_of_name(&self) -> Option<InputFormat> {
        let Input::File(path) = self else {
            return None;
        };
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        match Path::new(name).extension()?.to_str()? {
            "jsonl" | "ndjson" => Some(InputFormat::JsonLines),
            "json" => Some(InputFormat::Json),
            "csv" => Some(InputFormat::Csv),
            _ => None,
        }
    }
}

/// Returns the files of the command line: files, patterns with `*`, and directories, whose data
/// files are taken in the order of their names; `-` is standard input.
///
/// # Errors
/// A description, if a name matches nothing.
pub(super) fn inputs(names: &[String]) -> Result<Vec<Input>, String> {
    let mut found = Vec::new();
    for name in names {
        let path = Path::new(name);
        if name == "-" {
            found.push(Input::Standard);
        } else if path.is_dir() {
            let mut files = Vec::new();
            for entry in std::fs::read_dir(path).map_err(|e| format!("{name}: {e}"))? {
                let file = entry.map_err(|e| format!("{name}: {e}"))?.path();
                if file.is_file() && Input::File(file.clone()).format_of_name().is_some() {
                    files.push(file);
                }
            }
            if files.is_empty() {
                return Err(format!(
                    "{name}: the directory has no file with the extension jsonl, ndjson, json or \
                     csv"
                ));
            }
            files.sort();
            found.extend(files.into_iter().map(Input::File));
        } else if path.is_file() || !name.contains(['*', '?', '[']) {
            std::fs::metadata(path).map_err(|e| format!("{name}: {e}"))?;
            found.push(Input::File(path.to_owned()));
        } else {
            let matches = glob::glob(name).map_err(|e| format!("{name}: {e}"))?;
            let before = found.len();
            for file in matches {
                let file = file.map_err(|e| format!("{name}: {e}"))?;
                if file.is_file() {
                    found.push(Input::File(file));
                }
            }
            if found.len() == before {
                return Err(format!("{name}: no file has such a name"));
            }
        }
    }
    if found
        .iter()
        .filter(|input| **input == Input::Standard)
        .count()
        > 1
    {
        return Err("standard input can be read only once".into());
    }
    Ok(found)
}

/// Counts the bytes that pass.
struct Counted(Box<dyn Read>, Arc<AtomicU64>);

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Returns the text behind a compression, or the bytes themselves.
fn decompressed(mut raw: BufReader<Counted>) -> io::Result<Box<dyn BufRead>> {
    let first = raw.fill_buf()?;
    if first.starts_with(&[0x1f, 0x8b]) {
        let decoder = flate2::bufread::MultiGzDecoder::new(raw);
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)));
    }
    if first.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let decoder = zstd::stream::read::Decoder::with_buffer(raw)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)));
    }
    Ok(Box::new(raw))
}

fn skip_byte_order_mark(text: &mut dyn BufRead) -> io::Result<()> {
    if text.fill_buf()?.starts_with(BYTE_ORDER_MARK) {
        text.consume(BYTE_ORDER_MARK.len());
    }
    Ok(())
}

/// Reads JSON lines.
fn lines(input: &mut dyn BufRead, sink: Sink<'_>) -> Result<(), String> {
    let (mut number, mut line) = (0, 0);
    loop {
        let mut text = Vec::new();
        let length = line_into(input, &mut text).map_err(|e| e.to_string())?;
        if length == 0 {
            return Ok(());
        }
        line += 1;
        let kept = text.trim_ascii();
        if kept.is_empty() {
            continue;
        }
        number += 1;
        let fault = (length > TEXT_BYTES_MAX).then(|| too_long(length));
        let record = Record {
            number,
            line,
            text: kept.to_vec(),
            fault,
            mark: None,
        };
        if !sink(record) {
            return Ok(());
        }
    }
}

/// Returns the fault of a record that is too long to be kept.
pub(super) fn too_long(bytes: usize) -> String {
    format!("the record has {bytes} bytes and only its beginning is kept; an item has at most 2 MB")
}

/// Appends the next line to `text`, at most [`TEXT_BYTES_MAX`] bytes, and returns its length with
/// the line end; 0 at the end.
fn line_into(input: &mut dyn BufRead, text: &mut Vec<u8>) -> io::Result<usize> {
    let mut length = 0;
    loop {
        let available = match input.fill_buf() {
            Ok(available) => available,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        let end = available.iter().position(|byte| *byte == b'\n');
        let taken = end.map_or(available.len(), |at| at + 1);
        let room = TEXT_BYTES_MAX.saturating_sub(text.len());
        text.extend_from_slice(&available[..taken.min(room)]);
        input.consume(taken);
        length += taken;
        if end.is_some() || taken == 0 {
            return Ok(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// Reads a file with the given name and content and returns the texts of its records.
    fn texts(name: &str, content: &[u8]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        let mut texts = Vec::new();
        let read = Arc::new(AtomicU64::new(0));
        Input::File(path).read(None, &CsvRules::default(), &read, &mut |record| {
            assert_eq!(record.fault, None);
            texts.push(String::from_utf8(record.text).unwrap());
            true
        })?;
        assert!(read.load(Ordering::Relaxed) <= content.len() as u64);
        Ok(texts)
    }

    #[test]
    fn lines_may_have_a_byte_order_mark_carriage_returns_and_no_last_line_end() {
        let content = b"\xef\xbb\xbf{\"a\":1}\r\n\r\n  {\"a\":2}\n{\"a\":3}";
        let expected = ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"];
        assert_eq!(texts("x.jsonl", content).unwrap(), expected);
        // Without an extension the first character decides.
        assert_eq!(texts("x", content).unwrap(), expected);
    }

    #[test]
    fn an_array_is_read_with_or_without_its_extension() {
        let content = b"\xef\xbb\xbf [ {\"a\":\"],\"} ,\n{\"b\":[1,2]} ]\n";
        let expected = ["{\"a\":\"],\"}", "{\"b\":[1,2]}"];
        assert_eq!(texts("x.json", content).unwrap(), expected);
        assert_eq!(texts("x", content).unwrap(), expected);
    }

    #[test]
    fn gzip_and_zstd_are_recognized_by_their_first_bytes_with_several_members() {
        let gzip = |text: &[u8]| {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        };
        let zstd = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
        for name in ["x.jsonl.gz", "x.jsonl"] {
            let joined = [gzip(b"{\"a\":1}\n"), gzip(b"{\"a\":2}\n")].concat();
            assert_eq!(texts(name, &joined).unwrap().len(), 2);
            let joined = [zstd(b"{\"a\":1}\n"), zstd(b"{\"a\":2}\n")].concat();
            assert_eq!(texts(name, &joined).unwrap().len(), 2);
        }
        let whole = gzip(b"{\"a\":1}\n");
        assert!(
            texts("x.jsonl.gz", &whole[..whole.len() - 4]).is_err(),
            "cut off"
        );
    }

    #[test]
    fn a_name_that_matches_nothing_is_an_error() {
        for name in ["/no/such/file.jsonl", "/no/such/*.jsonl"] {
            assert!(inputs(&[name.to_owned()]).is_err(), "{name}");
        }
        assert!(inputs(&["-".to_owned(), "-".to_owned()]).is_err());
    }
}
