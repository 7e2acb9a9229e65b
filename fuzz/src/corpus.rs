//! The committed corpus: a file of lines for each target, in the folder `corpus`.
//!
//! A line is a JSON string, the input as text, or `{"hex":"…"}` for bytes that are no text. A file
//! stays below 900,000 bytes. The inputs were written by hand or found by the targets from those.

use crate::Target;
use orrery_model::Json;
use orrery_model::json::parse;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

/// Limit in bytes of a file.
const PACKED_BYTES: usize = 900_000;

/// The result of [`pack`].
#[derive(Debug)]
pub struct Packed {
    /// Inputs in the file.
    pub inputs: usize,
    /// Inputs for which the file had no room.
    pub left_out: usize,
}

fn file_of(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(format!("{}.jsonl", target.corpus))
}

/// Returns the inputs of a target.
///
/// # Errors
/// The file cannot be read, or a line is no input.
pub fn inputs(target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let file = file_of(target);
    let mut inputs = Vec::new();
    for (line, number) in std::fs::read_to_string(&file)?.lines().zip(1..) {
        let wrong = || {
            let place = format!("{}, line {number} is no input", file.display());
            io::Error::new(io::ErrorKind::InvalidData, place)
        };
        inputs.push(input(line).ok_or_else(wrong)?);
    }
    Ok(inputs)
}

/// Reads a line of the corpus; `None` if it is no input.
fn input(line: &str) -> Option<Vec<u8>> {
    let json = parse(line.as_bytes()).ok()?;
    if let Some(text) = json.as_str() {
        return Some(text.as_bytes().to_vec());
    }
    let digits = json.get("hex")?.as_str()?;
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

/// Returns an input as a line of the corpus.
fn line(input: &[u8]) -> String {
    match std::str::from_utf8(input) {
        Ok(text) => Json::from(text).to_text(),
        Err(_) => {
            let mut digits = String::with_capacity(input.len() * 2);
            for byte in input {
                let _ = write!(digits, "{byte:02x}");
            }
            format!("{{\"hex\":\"{digits}\"}}")
        }
    }
}

/// Writes the inputs of a target to a folder, one file for each.
///
/// # Errors
/// The corpus cannot be read, or a file cannot be written.
pub fn unpack(target: &Target, folder: &Path) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for (number, input) in inputs(target)?.iter().enumerate() {
        std::fs::write(folder.join(format!("{number:06}")), input)?;
    }
    Ok(())
}

/// Replaces the corpus of a target by the files of a folder, the shortest first.
///
/// # Errors
/// A file cannot be read, or the corpus cannot be written.
pub fn pack(target: &Target, folder: &Path) -> io::Result<Packed> {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        inputs.push(std::fs::read(entry?.path())?);
    }
    inputs.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    inputs.dedup();
    let mut out = String::new();
    let mut packed = 0;
    for input in &inputs {
        let line = line(input);
        if out.len() + line.len() < PACKED_BYTES {
            out.push_str(&line);
            out.push('\n');
            packed += 1;
        }
    }
    std::fs::write(file_of(target), out)?;
    Ok(Packed {
        inputs: packed,
        left_out: inputs.len() - packed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TARGETS;

    #[test]
    fn every_input_of_the_corpus_has_the_property_of_its_target() {
        for target in TARGETS {
            let length = std::fs::metadata(file_of(target)).expect("a corpus").len();
            assert!(length < 1_000_000, "the corpus of {} is large", target.name);
            let inputs = inputs(target).expect("a corpus");
            let least = if target.corpus == "sql" { 1_000 } else { 8 };
            assert!(inputs.len() > least, "{}: {}", target.name, inputs.len());
            for input in inputs {
                let shown = line(&input);
                let checked = std::panic::catch_unwind(|| (target.check)(&input));
                assert!(checked.is_ok(), "{} fails on {shown}", target.name);
            }
        }
    }

    #[test]
    fn inputs_read_back_from_their_lines() {
        for bytes in [&b""[..], b"SELECT 1", "\u{1}\"é".as_bytes(), b"\x80\xff"] {
            assert_eq!(input(&line(bytes)).as_deref(), Some(bytes));
        }
        for wrong in ["1", "{}", "{\"hex\":\"0g\"}", "x"] {
            assert_eq!(input(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_of_targets_are_unique() {
        for target in TARGETS {
            let same = TARGETS.iter().filter(|other| other.name == target.name);
            assert_eq!(same.count(), 1, "{}", target.name);
        }
    }
}
