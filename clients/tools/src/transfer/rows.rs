//! The rows of an export as JSON lines, a JSON array or CSV, compressed if wanted.
//!
//! | value | cell of a CSV file |
//! |---|---|
//! | property that is missing | empty |
//! | number, boolean, null | as in JSON, a number with its digits |
//! | string | as it stands |
//! | object | a column for each of its properties: `address.city` |
//! | array, empty object | JSON |
//! | object of a property that is no object in another row | JSON |
//!
//! An import reads such a file back, except that an empty string and a missing property look alike,
//! and that strings such as `7` need `--csv-text`.

use super::ending::TransferError;
use super::send::SYSTEM_PROPERTIES;
use crate::raw::Members;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The format of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// One item on each line.
    JsonLines,
    /// One array.
    Json,
    /// Comma-separated values with a header.
    Csv,
}

impl OutputFormat {
    /// Returns the format that a file's name states, below the extension of a compression.
    pub(super) fn of_name(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
        match Path::new(name).extension()?.to_str()? {
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "json" => Some(Self::Json),
            "csv" => Some(Self::Csv),
            _ => None,
        }
    }
}

/// Appends a row as one line. Without `system_properties`, those of an item are left out.
pub(super) fn push_line(row: &RawValue, system_properties: bool, out: &mut Vec<u8>) {
    let text = row.get().trim();
    match serde_json::from_str::<Members<'_>>(text) {
        Ok(Members(members)) if !system_properties => {
            out.push(b'{');
            let mut is_first = true;
            for (name, value) in members {
                if SYSTEM_PROPERTIES.contains(&name.as_str()) {
                    continue;
                }
                if !std::mem::take(&mut is_first) {
                    out.push(b',');
                }
                push_name(&name, out);
                push_on_one_line(value.get(), out);
            }
            out.push(b'}');
        }
        _ => push_on_one_line(text, out),
    }
    out.push(b'\n');
}

fn push_name(name: &str, out: &mut Vec<u8>) {
    orrery_model::json::write_string(name, out);
    out.push(b':');
}

/// Appends JSON text. A line end in it stands between two tokens, and becomes a space.
fn push_on_one_line(text: &str, out: &mut Vec<u8>) {
    let of = |byte| {
        if matches!(byte, b'\n' | b'\r') {
            b' '
        } else {
            byte
        }
    };
    out.extend(text.bytes().map(of));
}

/// Writes segments of JSON lines into `output` as one text of the format, compressed if `name` says
/// so.
///
/// # Errors
/// A file that cannot be read or written; for CSV, a property whose name cannot be a column.
pub(super) fn assemble(
    segments: &[PathBuf],
    format: OutputFormat,
    name: &Path,
    output: Box<dyn Write>,
) -> Result<(), TransferError> {
    let failed = |e: io::Error| TransferError::Failed(format!("{}: {e}", name.display()));
    let extension = name.extension().and_then(|extension| extension.to_str());
    let output = BufWriter::with_capacity(256 << 10, output);
    match extension {
        Some("gz") => {
            let level = flate2::Compression::default();
            let mut encoder = flate2::write::GzEncoder::new(output, level);
            write_all(segments, format, &mut encoder)?;
            encoder
                .finish()
                .and_then(|mut out| out.flush())
                .map_err(failed)
        }
        Some("zst") => {
            let mut encoder = zstd::stream::write::Encoder::new(output, 3).map_err(failed)?;
            write_all(segments, format, &mut encoder)?;
            encoder
                .finish()
                .and_then(|mut out| out.flush())
                .map_err(failed)
        }
        _ => {
            let mut output = output;
            write_all(segments, format, &mut output)?;
            output.flush().map_err(failed)
        }
    }
}

fn write_all(
    segments: &[PathBuf],
    format: OutputFormat,
    output: &mut dyn Write,
) -> Result<(), TransferError> {
    match format {
        OutputFormat::JsonLines => each_line(segments, &mut |line| {
            output.write_all(line)?;
            output.write_all(b"\n").map_err(Into::into)
        }),
        OutputFormat::Json => {
            let mut before: &[u8] = b"[\n";
            each_line(segments, &mut |line| {
                output.write_all(before)?;
                before = b",\n";
                output.write_all(line).map_err(Into::into)
            })?;
            let end: &[u8] = if before == b"[\n" { b"[]\n" } else { b"\n]\n" };
            output.write_all(end).map_err(io_error)
        }
        OutputFormat::Csv => write_csv(segments, output),
    }
}

/// A failure of reading, writing or of a row.
enum LineError {
    Io(io::Error),
    Row(String),
}

impl From<io::Error> for LineError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn io_error(error: io::Error) -> TransferError {
    TransferError::Failed(format!("cannot write the export: {error}"))
}

fn each_line(
    segments: &[PathBuf],
    take: &mut dyn FnMut(&[u8]) -> Result<(), LineError>,
) -> Result<(), TransferError> {
    for segment in segments {
        let file = File::open(segment).map_err(io_error)?;
        let mut lines = BufReader::with_capacity(256 << 10, file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).map_err(io_error)? > 0 {
            match take(line.trim_ascii_end()) {
                Ok(()) => line.clear(),
                Err(LineError::Io(e)) => return Err(io_error(e)),
                Err(LineError::Row(cause)) => return Err(TransferError::Failed(cause)),
            }
        }
    }
    Ok(())
}

/// Writes CSV: the columns are found in a first pass, in the order in which they appear.
fn write_csv(segments: &[PathBuf], output: &mut dyn Write) -> Result<(), TransferError> {
    let mut names: Vec<String> = Vec::new();
    let mut known: HashSet<String> = HashSet::new();
    let no_column = HashSet::new();
    each_line(segments, &mut |line| {
        for (name, _) in cells(line, &no_column)? {
            if known.insert(name.clone()) {
                names.push(name);
            }
        }
        Ok(())
    })?;

    // A property is one column, or a column for each property below, but not both.
    let mut whole: HashSet<String> = HashSet::new();
    for name in &names {
        whole.extend(
            above(name)
                .filter(|above| known.contains(*above))
                .map(str::to_owned),
        );
    }
    let mut columns: Vec<String> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for name in names {
        let outermost = above(&name).filter(|above| whole.contains(*above)).last();
        let column = outermost.unwrap_or(&name).to_owned();
        if !places.contains_key(&column) {
            places.insert(column.clone(), columns.len());
            columns.push(column);
        }
    }
    let mut writer = csv::Writer::from_writer(output);
    let csv_failed = |e: csv::Error| LineError::Io(e.into());
    if !columns.is_empty() {
        let header = writer.write_record(&columns);
        header.map_err(|e| io_error(e.into()))?;
    }
    each_line(segments, &mut |line| {
        let mut row = vec![String::new(); columns.len()];
        for (name, cell) in cells(line, &whole)? {
            if let Some(place) = places.get(&name) {
                row[*place] = cell;
            }
        }
        writer.write_record(&row).map_err(csv_failed)
    })?;
    writer.flush().map_err(io_error)
}

/// Returns the properties that contain the property of a column, the innermost first.
fn above(column: &str) -> impl Iterator<Item = &str> {
    column.rmatch_indices('.').map(|(at, _)| &column[..at])
}

/// Returns the columns and cells of a row. The objects of the columns in `whole` are one cell.
fn cells(line: &[u8], whole: &HashSet<String>) -> Result<Vec<(String, String)>, LineError> {
    let bad = |e: String| LineError::Row(format!("a row is no JSON: {e}"));
    let text = std::str::from_utf8(line).map_err(|e| bad(e.to_string()))?;
    let raw: &RawValue = serde_json::from_str(text).map_err(|e| bad(e.to_string()))?;
    let mut cells = Vec::new();
    if raw.get().starts_with('{') {
        push_cells("", raw, whole, &mut cells)?;
    } else {
        // A row of SELECT VALUE has no name.
        cells.push(("value".to_owned(), cell(raw)?));
    }
    Ok(cells)
}

fn push_cells(
    prefix: &str,
    object: &RawValue,
    whole: &HashSet<String>,
    cells: &mut Vec<(String, String)>,
) -> Result<(), LineError> {
    let bad = |e: serde_json::Error| LineError::Row(format!("a row is no JSON: {e}"));
    let Members(members) = serde_json::from_str(object.get()).map_err(bad)?;
    for (name, value) in members {
        if name.contains('.') || name.is_empty() {
            return Err(LineError::Row(format!(
                "the property '{prefix}{name}' cannot be a column of a CSV file; export jsonl or \
                 json"
            )));
        }
        let path = format!("{prefix}{name}");
        let is_object = value.get().starts_with('{') && !whole.contains(&path);
        if is_object && value.get().trim_start_matches('{').trim_start() != "}" {
            push_cells(&format!("{path}."), value, whole, cells)?;
        } else {
            cells.push((path, cell(value)?));
        }
    }
    Ok(())
}

fn cell(value: &RawValue) -> Result<String, LineError> {
    if value.get().starts_with('"') {
        let text = serde_json::from_str(value.get());
        return text.map_err(|e| LineError::Row(format!("a row is no JSON: {e}")));
    }
    Ok(value.get().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str, system_properties: bool) -> String {
        let row = RawValue::from_string(text.to_owned()).unwrap();
        let mut out = Vec::new();
        push_line(&row, system_properties, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_keeps_digits_and_leaves_out_system_properties() {
        let text = "{\"id\":\"1\",\"n\":9007199254740993.10,\n\"_ts\":7,\"in\":{\"_ts\":8}}";
        let expected = "{\"id\":\"1\",\"n\":9007199254740993.10,\"in\":{\"_ts\":8}}\n";
        assert_eq!(line(text, false), expected);
        assert!(line(text, true).contains("\"_ts\":7"));
        assert_eq!(line("[1,\n2]", false), "[1, 2]\n");
    }

    fn assembled(format: OutputFormat, rows: &str) -> Result<String, TransferError> {
        let folder = tempfile::tempdir().unwrap();
        let (segment, out) = (folder.path().join("0"), folder.path().join("out"));
        std::fs::write(&segment, rows).unwrap();
        let file = File::create(&out).unwrap();
        assemble(&[segment], format, Path::new("x"), Box::new(file))?;
        Ok(std::fs::read_to_string(&out).unwrap())
    }

    #[test]
    fn rows_become_an_array_or_columns() {
        let rows = "{\"id\":\"a\",\"at\":{\"x\":1.50}}\n{\"id\":\"b\",\"t\":[1,2],\"e\":{}}\n";
        let json = assembled(OutputFormat::Json, rows).unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&json).unwrap()[1]["id"],
            "b"
        );
        assert_eq!(assembled(OutputFormat::Json, "").unwrap(), "[]\n");
        let csv = assembled(OutputFormat::Csv, rows).unwrap();
        assert_eq!(csv, "id,at.x,t,e\na,1.50,,\nb,,\"[1,2]\",{}\n");
        assert!(assembled(OutputFormat::Csv, "{\"a.b\":1}\n").is_err());
        let rows = "{\"a\":{\"b\":{\"c\":1}}}\n{\"a\":{\"b\":2}}\n{\"a\":null,\"d\":3}\n";
        let csv = assembled(OutputFormat::Csv, rows).unwrap();
        let expected = "a,d\n\"{\"\"b\"\":{\"\"c\"\":1}}\",\n\"{\"\"b\"\":2}\",\nnull,3\n";
        assert_eq!(csv, expected);
    }
}
